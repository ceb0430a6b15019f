//! A trace of a link's rate, in a file that a scenario names.
//!
//! ```text
//!   0    20 Mbit        seconds, and the rate from then on       or    1      one line for each time, in milliseconds,
//!   0.5  4 Mbit                                                        1      at which the link can carry 1500 bytes
//!   2    outage                                                        4
//! ```
//!
//! The first line distinguishes the forms. Empty lines, and text after a `#`, are ignored. Both forms repeat until the
//! end of the run.
//!
//! - *Seconds and rate.* Times count from the first line. The last rate holds as long as the one before it.
//! - *Seconds and rate.* Times count from the first line. The last rate lasts as long as the one before it.
//!   the last line is the period.
//!
//! Deviation from Mahimahi: the link carries the 1500 bytes not at one instant, but evenly over the millisecond before
//! it; if the link is idle for a part of the millisecond, that part of the opportunity is lost.

use std::collections::BTreeMap;

use weir_base::varying::Level;
use weir_base::{Rate, Span, Varying};

/// One opportunity (1500 bytes) in a millisecond, as a rate in bit/s.
const OPPORTUNITY: u64 = 1500 * 8 * 1000;
/// Latest time.
const TIME_MAX: Span = Span::from_secs(86_400);

/// The rate over time of a trace; the error is a line (from 1) and a sentence.
pub fn parse(text: &str) -> Result<Varying<Rate>, (usize, String)> {
    let lines = text.lines().enumerate().map(|(number, line)| {
        let content = line.split('#').next().unwrap_or_default().trim();
        (number + 1, content)
    });
    let mut lines = lines.filter(|(_, line)| !line.is_empty()).peekable();
    let Some((_, first)) = lines.peek() else {
        return Err((1, format!("the trace is empty; {EXPECTED}")));
    };
    if first.contains(char::is_whitespace) {
        rates(lines)
    } else {
        opportunities(lines)
    }
}

const EXPECTED: &str = "each line must be a time in seconds and a rate, like \"0.5 4 Mbit\", or a time in ms at which \
                        1500 bytes can be sent";

fn rates<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Varying<Rate>, (usize, String)> {
    let mut steps: Vec<(Span, Rate)> = Vec::new();
    let (mut begin, mut last) = (None, 1);
    for (number, line) in lines {
        let read = || {
            let (time, rate) = line.split_once(char::is_whitespace)?;
            let time = time
                .parse::<f64>()
                .ok()
                .filter(|time| (0.0..=TIME_MAX.as_secs_f64()).contains(time))?;
            Some((Span::from_secs_f64(time), Rate::read(rate.trim()).ok()?))
        };
        let wrong = || (number, format!("invalid line \"{line}\": {EXPECTED}"));
        let (time, rate) = read().ok_or_else(wrong)?;
        let begin = *begin.get_or_insert(time);
        // A time before the first line is not after the line before it either.
        let at = match steps.last() {
            Some((before, _)) if time < begin + *before + weir_base::varying::STEP_MIN => {
                let why = "times must increase by at least 1 ms".to_owned();
                return Err((number, why));
            }
            _ => time - begin,
        };
        steps.push((at, rate));
        last = number;
    }
    let [.., (before, _), (end, _)] = steps[..] else {
        return Err((
            last,
            "a trace needs at least two lines; for a constant rate, set the link's `rate` directly"
                .to_owned(),
        ));
    };
    let period = end + (end - before);
    course(steps, period).map_err(|why| (last, why))
}

fn opportunities<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Varying<Rate>, (usize, String)> {
    // Opportunities by millisecond; at most one entry per line of the file.
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut before, mut last) = (0, 1);
    for (number, line) in lines {
        let time = line
            .parse::<u64>()
            .ok()
            .filter(|time| *time <= TIME_MAX.as_nanos() / 1_000_000);
        let wrong = || (number, format!("invalid line \"{line}\": {EXPECTED}"));
        let time = time.ok_or_else(wrong)?;
        if time < before {
            return Err((
                number,
                format!("{time} comes after {before}: times must not decrease"),
            ));
        }
        *counts.entry(time).or_default() += 1;
        (before, last) = (time, number);
    }
    if before == 0 {
        return Err((
            last,
            "the last time is the period, and must be greater than 0".to_owned(),
        ));
    }
    // An opportunity at time 0 belongs to the end of the previous period.
    if let Some(first) = counts.remove(&0) {
        *counts.entry(before).or_default() += first;
    }
    let mut steps = vec![(Span::ZERO, Rate::default())];
    for (time, count) in counts {
        let from = Span::from_millis(time - 1);
        let rate = Rate::from_bps(count * OPPORTUNITY);
        match steps.last_mut() {
            Some(last) if last.0 == from => last.1 = rate,
            _ => steps.push((from, rate)),
        }
        if time < before {
            steps.push((Span::from_millis(time), Rate::default()));
        }
    }
    course(steps, Span::from_millis(before)).map_err(|why| (last, why))
}

fn course(steps: Vec<(Span, Rate)>, period: Span) -> Result<Varying<Rate>, String> {
    let course = Varying::new(steps, Some(period)).map_err(|why| format!("the trace {why}"))?;
    if course.greatest() == Rate::default() {
        Err("the trace has no rate above 0".to_owned())
    } else {
        Ok(course)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_base::varying::BIT;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn rates_hold_from_their_seconds_on() {
        let course =
            parse("# of our own\n10 20 Mbit\n10.5 4 Mbit  # a tunnel\n\n12 outage\n").unwrap();
        let at = |millis| course.at(ms(millis)).as_bps() / 1_000_000;
        // The outage lasts 1.5 s, like the rate before it.
        let values = [0, 499, 500, 1999, 2000, 3499, 3500, 4000].map(at);
        assert_eq!(values, [20, 20, 4, 4, 0, 0, 20, 4]);
    }

    #[test]
    fn an_opportunity_is_1500_bytes_by_its_millisecond() {
        let course = parse("0\n1\n3\n3\n5\n").unwrap();
        let sent = |from, until| course.work(ms(from), ms(until)) / BIT / 12_000;
        let by: Vec<u128> = (1..=5).map(|until| sent(0, until)).collect();
        assert_eq!(by, [1, 1, 3, 3, 5], "that at 0 ends the period");
        assert_eq!(sent(5, 15), 10);
    }

    #[test]
    fn a_wrong_trace_names_its_line() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("").0, 1);
        assert_eq!(error("0 1 Mbit\n1 2 Mb\n").0, 2);
        assert_eq!(error("0 1 Mbit\n\n-1 2 Mbit\n").0, 3);
        assert_eq!(
            error("5 1 Mbit\n6 2 Mbit\n3 1 Mbit\n"),
            (3, "times must increase by at least 1 ms".to_owned())
        );
        assert!(error("0 1 Mbit\n").1.contains("at least two lines"));
        assert!(error("0 outage\n1 outage\n").1.contains("no rate above 0"));
        assert_eq!(
            error("1\n5\n4\n"),
            (3, "4 comes after 5: times must not decrease".to_owned())
        );
        assert!(
            error("1\n2 1 Mbit\n")
                .1
                .contains("invalid line \"2 1 Mbit\"")
        );
        assert_eq!(error("0\n").0, 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "([0-9]{1,3}( [0-9]{1,2} Mbit| outage)?\n|\\PC{0,9}\n){0,9}") {
            let _ = parse(&text);
        }

        /// A period carries as many opportunities as there are lines.
        #[test]
        fn no_opportunity_is_lost(mut times in prop::collection::vec(0_u64..50, 1..40)) {
            times.push(60);
            times.sort_unstable();
            let text: String = times.iter().map(|time| format!("{time}\n")).collect();
            let course = parse(&text).unwrap();
            prop_assert_eq!(course.work(ms(0), ms(60)), BIT * 12_000 * times.len() as u128);
        }
    }
}
