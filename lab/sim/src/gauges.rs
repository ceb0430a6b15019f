//! The gauges of a watched queue over time: mean and standard deviation of each, and the samplings around the runs of
//! its mechanism, if it has one.

use weir_base::Instant;

/// Name of the gauge that counts runs of a mechanism.
const RUNS: &str = "runs";

/// The values of one gauge at all samplings in the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauge {
    /// The name of the gauge.
    pub name: &'static str,
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
}

impl Gauge {
    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation.
    pub fn deviation(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            n => (self.squares / (n - 1) as f64).sqrt(),
        }
    }

    /// Adds a value (Welford's method).
    fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }
}

/// All gauges of a queue.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// All gauges, in the order in which the queue reports them.
    pub all: Vec<Gauge>,
    /// Numbers of the pairs of neighbouring samplings between which a run of the mechanism began.
    pub runs: Vec<usize>,
    runs_before: u64,
    samplings: usize,
}

impl Gauges {
    /// Processes a sampling, which counts if it is in the window.
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        from: Instant,
        inspect: impl FnOnce(&mut dyn FnMut(&'static str, u64)),
    ) {
        let mut place = 0;
        let mut runs = self.runs_before;
        inspect(&mut |name, value| {
            if name == RUNS {
                runs = value;
            }
            if now < from {
                return;
            }
            if place == self.all.len() || self.all[place].name != name {
                let gauge = Gauge {
                    name,
                    count: 0,
                    mean: 0.0,
                    squares: 0.0,
                };
                self.all.truncate(place); // another discipline: its gauges start again
                self.all.push(gauge);
            }
            self.all[place].add(value as f64);
            place += 1;
        });
        if runs > self.runs_before && self.samplings > 0 {
            self.runs.push(self.samplings);
        }
        self.runs_before = runs;
        self.samplings += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Span;

    #[test]
    fn mean_and_deviation_by_hand() {
        let mut gauges = Gauges::default();
        let second = |n| Instant::ZERO + Span::from_secs(n);
        for (n, value) in [100, 2, 4, 9].into_iter().enumerate() {
            gauges.sample(second(n as u64), second(1), |report| report("x", value));
        }
        // 2, 4, 9: mean 5, squares 9 + 1 + 16 = 26, over 2: 13.
        assert_eq!(gauges.all[0].mean(), 5.0);
        assert!((gauges.all[0].deviation() - 13.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn runs_are_found_between_samplings() {
        let mut gauges = Gauges::default();
        for value in [0, 0, 1, 1, 3] {
            gauges.sample(Instant::ZERO, Instant::ZERO, |report| report("runs", value));
        }
        assert_eq!(gauges.runs, [2, 4]);
    }
}
