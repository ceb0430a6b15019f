//! Conditions and filters of one event (RFC 5812, 4.8.4 and 4.8.5; RFC 7408, 2.4).
//!
//! ```text
//!  sample --> condition: did the event occur? --> filters: does any pass it? --> report
//!                                                  hysteresis, count, interval
//! ```
//!
//! | condition | occurs when the value | with a hysteresis of V |
//! |---|---|---|
//! | created | appears | - |
//! | deleted | disappears | - |
//! | changed | differs from the last sample | the value differs by V or more from the last *reported* value |
//! | greater than T | rises above T | not again until the value was T - V or less |
//! | less than T | falls below T | not again until the value was T + V or more |
//! | becomes equal to T | reaches T | once more when the value has moved by V from T |
//!
//! An occurrence is reported if no filter is set, or if any set filter passes it: the hysteresis as above, the count N
//! after N occurrences without a report, the interval when this time has passed since the last report. A report resets
//! all filters.
//!
//! *Decision*: if the first sample is already beyond its threshold or equal to it, this counts as an occurrence,
//! because the subscriber does not know the value yet. For the conditions created, deleted and changed, the first
//! sample is not an occurrence. The interval filter passes an occurrence when exactly the interval has elapsed, so that
//! a value that is sampled every interval can be reported every interval.

use weir_base::{Instant, Span};
use weir_model::Value;
use weir_protocol::schema::Condition;

/// The properties that a subscriber sets on an event (properties 3 to 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The threshold, for conditions that have a threshold.
    pub threshold: u32,
    /// Hysteresis; 0 if not set.
    pub hysteresis: u32,
    /// Number of occurrences without a report between two reports; 0 if not set.
    pub count: u32,
    /// Minimum time between two reports, in milliseconds; 0 if not set.
    pub interval_ms: u32,
}

/// The history of one watched value.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    /// The last sample; `None` before the first sample, `Absent` if there was no value.
    last: Option<Value>,
    /// The value at the last report, or at the first sample.
    reported: Option<Value>,
    reported_at: Option<Instant>,
    /// Number of occurrences since the last report.
    swallowed: u32,
    /// Whether the hysteresis suppresses further occurrences.
    is_held: bool,
    /// Whether the last report was about equality, so that the second report is pending.
    is_equal: bool,
}

impl Tracker {
    /// The tracker of a value that appeared after the watch began: its first sample counts as its creation.
    pub fn of_new() -> Self {
        Self {
            last: Some(Value::Absent),
            ..Self::default()
        }
    }

    /// Whether this sample must be reported.
    pub fn sample(
        &mut self,
        now: Instant,
        condition: Condition,
        filters: &Filters,
        value: &Value,
    ) -> bool {
        self.occurs(condition, filters, value) && self.reports(now, condition, filters, value)
    }

    /// Records a sample; returns whether the event occurred.
    pub fn occurs(&mut self, condition: Condition, filters: &Filters, value: &Value) -> bool {
        self.release(condition, filters, value);
        let happens = self.happens(condition, filters, value);
        self.last = Some(value.clone());
        self.reported.get_or_insert_with(|| value.clone()); // without a report, the first sample counts
        happens
    }

    /// Counts an occurrence; returns whether the filters pass it.
    pub fn reports(
        &mut self,
        now: Instant,
        condition: Condition,
        filters: &Filters,
        value: &Value,
    ) -> bool {
        if !self.passes(now, condition, filters, value) {
            self.swallowed = self.swallowed.saturating_add(1);
            return false;
        }
        self.swallowed = 0;
        self.reported_at = Some(now);
        self.reported = Some(value.clone());
        self.is_equal = condition == Condition::BecomesEqualTo && is_at(value, filters.threshold);
        self.is_held =
            filters.hysteresis > 0 && (self.is_equal || condition != Condition::BecomesEqualTo);
        true
    }

    /// Ends the suppression by the hysteresis when the value has moved far enough back.
    fn release(&mut self, condition: Condition, filters: &Filters, value: &Value) {
        let (threshold, hysteresis) = (f64::from(filters.threshold), f64::from(filters.hysteresis));
        let is_back = number(value).is_none_or(|value| match condition {
            Condition::GreaterThan => value <= threshold - hysteresis,
            Condition::LessThan => value >= threshold + hysteresis,
            Condition::BecomesEqualTo => (value - threshold).abs() >= hysteresis,
            _ => true,
        });
        self.is_held &= !is_back;
    }

    fn happens(&self, condition: Condition, filters: &Filters, value: &Value) -> bool {
        let threshold = f64::from(filters.threshold);
        let is_met = |value: &Value| match (condition, number(value)) {
            (_, None) => false,
            (Condition::GreaterThan, Some(value)) => value > threshold,
            (Condition::LessThan, Some(value)) => value < threshold,
            (_, Some(value)) => value == threshold,
        };
        match (condition, &self.last) {
            (Condition::Created | Condition::Deleted | Condition::Changed, None) => false,
            (Condition::Created, Some(last)) => *last == Value::Absent && *value != Value::Absent,
            (Condition::Deleted, Some(last)) => *last != Value::Absent && *value == Value::Absent,
            (Condition::Changed, Some(last)) => last != value,
            (Condition::BecomesEqualTo, Some(_))
                if self.is_equal && filters.hysteresis > 0 && !is_met(value) =>
            {
                let distance = number(value).map(|value| (value - threshold).abs());
                distance.is_some_and(|distance| distance >= f64::from(filters.hysteresis))
            }
            (_, last) => is_met(value) && !last.as_ref().is_some_and(is_met),
        }
    }

    fn passes(&self, now: Instant, condition: Condition, filters: &Filters, value: &Value) -> bool {
        let interval = Span::from_millis(filters.interval_ms.into());
        let hysteresis = match condition {
            Condition::Changed => self.has_moved(filters, value),
            Condition::Created | Condition::Deleted => true,
            _ => !self.is_held,
        };
        let filters = [
            (filters.hysteresis > 0, hysteresis),
            (filters.count > 0, self.swallowed >= filters.count),
            (
                filters.interval_ms > 0,
                self.reported_at.is_none_or(|at| now.since(at) >= interval),
            ),
        ];
        let mut set = filters.iter().filter(|(is_set, _)| *is_set).peekable();
        set.peek().is_none() || set.any(|(_, lets_through)| *lets_through)
    }

    /// Whether a changed value differs enough from the last reported value.
    fn has_moved(&self, filters: &Filters, value: &Value) -> bool {
        match (self.reported.as_ref().and_then(number), number(value)) {
            (Some(reported), Some(value)) => {
                (value - reported).abs() >= f64::from(filters.hysteresis)
            }
            _ => true, // not a number: every change counts
        }
    }
}

fn is_at(value: &Value, threshold: u32) -> bool {
    number(value) == Some(f64::from(threshold))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Whole(number) => Some(*number as f64),
        Value::Negative(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        Value::Flag(on) => Some(f64::from(u8::from(*on))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices of the reported samples; there is a sample every 10 ms.
    fn reported(condition: Condition, filters: Filters, samples: &[Option<u64>]) -> Vec<usize> {
        let mut tracker = Tracker::default();
        let mut reported = Vec::new();
        for (n, sample) in samples.iter().enumerate() {
            let now = Instant::ZERO + Span::from_millis(10 * n as u64);
            let value = sample.map_or(Value::Absent, Value::Whole);
            if tracker.sample(now, condition, &filters, &value) {
                reported.push(n);
            }
        }
        reported
    }

    fn numbers(samples: &[u64]) -> Vec<Option<u64>> {
        samples.iter().copied().map(Some).collect()
    }

    const NONE: Filters = Filters {
        threshold: 0,
        hysteresis: 0,
        count: 0,
        interval_ms: 0,
    };

    #[test]
    fn without_a_filter_every_happening_is_reported() {
        let samples = numbers(&[3, 3, 4, 4, 2]);
        assert_eq!(reported(Condition::Changed, NONE, &samples), [2, 4]);
        let of_three = Filters {
            threshold: 3,
            ..NONE
        };
        let samples = numbers(&[2, 4, 5, 3, 4]);
        assert_eq!(reported(Condition::GreaterThan, of_three, &samples), [1, 4]);
        assert_eq!(reported(Condition::LessThan, of_three, &samples), [0]);
        let samples = numbers(&[2, 3, 3, 4, 3]);
        assert_eq!(
            reported(Condition::BecomesEqualTo, of_three, &samples),
            [1, 4]
        );
    }

    #[test]
    fn what_is_beyond_its_threshold_at_first_is_reported() {
        let samples = numbers(&[9, 9]);
        assert_eq!(reported(Condition::GreaterThan, NONE, &samples), [0]);
    }

    #[test]
    fn a_value_below_zero_is_a_number() {
        let mut tracker = Tracker::default();
        let mut is_reported = |value| {
            let filters = Filters {
                threshold: 3,
                ..NONE
            };
            tracker.sample(Instant::ZERO, Condition::LessThan, &filters, &value)
        };
        assert!(!is_reported(Value::Whole(5)));
        assert!(is_reported(Value::Negative(-5)));
        assert!(!is_reported(Value::Negative(-6)));
    }

    #[test]
    fn appearing_and_disappearing() {
        let samples = [None, Some(1), Some(2), None, None, Some(1)];
        assert_eq!(reported(Condition::Created, NONE, &samples), [1, 5]);
        assert_eq!(reported(Condition::Deleted, NONE, &samples), [3]);
        assert_eq!(reported(Condition::Created, NONE, &samples[1..3]), [0; 0]);
        let mut new = Tracker::of_new();
        let value = Value::Whole(1);
        assert!(new.sample(Instant::ZERO, Condition::Created, &NONE, &value));
    }

    #[test]
    fn hysteresis_holds_oscillations_back() {
        let filters = Filters {
            threshold: 10,
            hysteresis: 3,
            ..NONE
        };
        //                      suppressed: 8 is above 10 - 3    7 ends it
        let samples = numbers(&[5, 11, 9, 12, 8, 13, 7, 11]);
        assert_eq!(reported(Condition::GreaterThan, filters, &samples), [1, 7]);
        let samples = numbers(&[15, 9, 11, 8, 13, 9]);
        assert_eq!(reported(Condition::LessThan, filters, &samples), [1, 5]);
        let samples = numbers(&[100, 102, 101, 103, 104, 100]);
        assert_eq!(reported(Condition::Changed, filters, &samples), [3, 5]);
        // Equal at index 1; moved by 3 at index 3; equal again at index 5.
        let samples = numbers(&[9, 10, 11, 13, 14, 10, 10]);
        assert_eq!(
            reported(Condition::BecomesEqualTo, filters, &samples),
            [1, 3, 5]
        );
    }

    #[test]
    fn a_count_swallows_happenings() {
        let every_third = Filters { count: 2, ..NONE };
        let samples = numbers(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(reported(Condition::Changed, every_third, &samples), [3, 6]);
    }

    #[test]
    fn created_rows_share_a_count() {
        let every_third = Filters { count: 2, ..NONE };
        let mut population = Tracker::default();
        let is_reported = |row: &u64| {
            let (mut tracker, value) = (Tracker::of_new(), Value::Whole(*row));
            tracker.occurs(Condition::Created, &every_third, &value)
                && population.reports(Instant::ZERO, Condition::Created, &every_third, &value)
        };
        assert_eq!((0..6).filter(is_reported).collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    fn an_interval_spaces_reports() {
        let filters = Filters {
            interval_ms: 30,
            ..NONE
        };
        let samples = numbers(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(reported(Condition::Changed, filters, &samples), [1, 4, 7]);
    }

    #[test]
    fn any_filter_that_is_set_lets_a_happening_through() {
        let filters = Filters {
            count: 4,
            interval_ms: 20,
            ..NONE
        };
        let samples = numbers(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(reported(Condition::Changed, filters, &samples), [1, 3, 5]);
        let filters = Filters {
            hysteresis: 50,
            count: 1,
            ..NONE
        };
        let samples = numbers(&[0, 1, 2, 80, 81, 82]);
        assert_eq!(reported(Condition::Changed, filters, &samples), [2, 3, 5]);
    }
}
