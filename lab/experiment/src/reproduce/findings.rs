//! The statistics of claims: from measured samples to a verdict.
//!
//! ```text
//!   Samples (one value a seed) ─▶ Findings: one for each condition at each point ─▶ Verdict
//! ```
//!
//! - *A less than B*: the mean of the paired differences (the same seeds on both sides) has that sign, and its 95 %
//!   interval (Student's t) excludes zero. If the interval includes zero, the finding is unclear.
//! - *A at least k times B*, *A within x % of B*: the same for the differences A - k B.
//! - *A at most a bound*: the mean and its whole interval are within the bound; if only a part of the interval is,
//!   the finding is unclear.
//! - *A not more than B*: the whole interval of the differences shows that A is not more by the minimum effect below;
//!   unclear if only a part of it does.
//! - *Rises*: every step has the sign, or its interval includes zero, and the end points differ strictly. *Ascends*:
//!   every step is strict.
//! - *Mostly less*: clearly less in at least a given number of places, and in none is the mean greater or equal.
//!
//! Between two measured quantities significance is not enough: with many seeds even a meaningless difference becomes
//! significant. *Less* and *rises* therefore require an effect of at least 0.01 if the quantity is a share, otherwise
//! of 2 % of the larger one; below that the finding is unclear. Comparisons with a bound, which is a constant, have
//! no minimum effect. (Ratios of lost packets are not shares in this sense: the papers compare losses of 1 or 2 %.)
//!
//! A claim HOLDS if every finding does, FAILS if none does, and holds PARTLY if some do. It is UNDECIDED if nothing
//! contradicts it, but an interval does not separate. If a quantity that it needs was not measured, its verdict is
//! MISSING, which is our own mistake and fails the run.

use super::bar::{Bar, ratio};
use super::measured::Measured;
use super::met::{Met, clearly_less, minimum_effect, not_negative, sign, strict, worse};
use super::query::Series;
use super::samples::{Samples, shown};
use super::verdict::Verdict;
use crate::statistics::Summary;

/// Adds a condition to findings: `check!(f, "{n} floods": at_most(share, 0.4))` is
/// `f.at_most(&format!("{n} floods"), share, 0.4)`. `check!(f, for n in [2, 3], "{n} floods": ..)` adds one for each.
#[macro_export]
macro_rules! check {
    ($findings:ident, for $row:pat in $rows:expr, $what:literal: $($condition:tt)*) => {
        for $row in $rows {
            $crate::check!($findings, $what: $($condition)*);
        }
    };
    ($findings:ident, $what:literal: $condition:ident($($argument:expr),*)) => {
        $findings.$condition(&format!($what), $($argument),*)
    };
}
pub use check;

/// Shows values that decide nothing: `show!(f, m, "at 1:2": response)`. `show!(f, m, "goodput": for n in [2, 3],
/// "{n} floods": ..)` shows a series.
#[macro_export]
macro_rules! show {
    ($findings:ident, $measured:ident, $what:literal: for $($series:tt)*) => {
        $findings.shown($measured, &format!($what), |_| {
            $crate::series!(for $($series)*)
        })
    };
    ($findings:ident, $measured:ident, $what:literal: $values:expr) => {
        $findings.shown($measured, &format!($what), |_| $values)
    };
}
pub use show;

/// Maximum number of findings that the evidence spells out.
const SPELLED_MAX: usize = 6;

/// The findings on one claim: one for each condition.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    all: Vec<(Met, String)>,
    bars: Vec<Bar>,
    remarks: Vec<String>,
}

impl Findings {
    /// The quantity is at most this.
    pub fn at_most(&mut self, what: &str, a: impl Into<Samples>, bound: f64) {
        let a = a.into();
        let met = sign(&a.map(|x| bound - x));
        self.bar(met, what, a.summary(), [None, Some(bound)]);
        self.push(
            met,
            format!("{what}: {} (at most {})", a.shown(), shown(bound)),
        );
    }

    /// The quantity is at least this.
    pub fn at_least(&mut self, what: &str, a: impl Into<Samples>, bound: f64) {
        let a = a.into();
        let met = sign(&a.map(|x| x - bound));
        self.bar(met, what, a.summary(), [Some(bound), None]);
        self.push(
            met,
            format!("{what}: {} (at least {})", a.shown(), shown(bound)),
        );
    }

    /// The quantity is greater than this.
    pub fn above(&mut self, what: &str, a: impl Into<Samples>, bound: f64) {
        let a = a.into();
        let met = strict(&a.map(|x| x - bound));
        self.bar(met, what, a.summary(), [Some(bound), None]);
        self.push(
            met,
            format!("{what}: {} (above {})", a.shown(), shown(bound)),
        );
    }

    /// The quantity is in this range.
    pub fn between(&mut self, what: &str, a: impl Into<Samples>, [low, high]: [f64; 2]) {
        let a = a.into();
        let met = worse(sign(&a.map(|x| x - low)), sign(&a.map(|x| high - x)));
        self.bar(met, what, a.summary(), [Some(low), Some(high)]);
        let range = format!("{} to {}", shown(low), shown(high));
        self.push(met, format!("{what}: {} ({range})", a.shown()));
    }

    /// The first quantity is less than the second.
    pub fn less(&mut self, what: &str, a: impl Into<Samples>, b: impl Into<Samples>) {
        let (a, b) = (a.into(), b.into());
        let met = clearly_less(&a, &b);
        self.push(met, format!("{what}: {} < {}", a.shown(), b.shown()));
    }

    /// The first quantity is less than the second in at least `least` of these places, and reversed in none: nowhere is
    /// its mean equal to the second's, or greater.
    pub fn mostly_less(&mut self, what: &str, places: &[(String, Samples, Samples)], least: usize) {
        let each: Vec<Met> = places.iter().map(|(_, a, b)| clearly_less(a, b)).collect();
        let count = |wanted: Met| each.iter().filter(|met| **met == wanted).count();
        let (clear, unclear, reversed) = (count(Met::Yes), count(Met::Unclear), count(Met::No));
        let met = match (count(Met::Missing), reversed) {
            (1.., _) => Met::Missing,
            (0, 1..) => Met::No,
            (0, 0) if clear >= least => Met::Yes,
            (0, 0) => Met::Unclear,
        };
        let shown = places
            .iter()
            .map(|(name, a, b)| format!("{name} {} < {}", a.shown(), b.shown()));
        let shown: Vec<_> = shown.collect();
        self.push(
            met,
            format!(
                "{what}: {} ({clear} clear, {unclear} unclear, {reversed} reversed; at least {least} clear, none reversed)",
                shown.join(", ")
            ),
        );
    }

    /// For two quantities, each given as ours and theirs: one of ours is less than theirs, and the mean of our other
    /// quantity is greater by at most this share of theirs.
    pub fn one_less(&mut self, text: String, [one, other]: [[&Samples; 2]; 2], share: f64) {
        let wins = |[less, more]: [&Samples; 2], [ours, theirs]: [&Samples; 2]| {
            let met = match (ours.mean(), theirs.mean()) {
                (Some(ours), Some(theirs)) if ours <= (1.0 + share) * theirs => Met::Yes,
                (Some(_), Some(_)) => Met::No,
                _ => Met::Missing,
            };
            worse(clearly_less(less, more), met)
        };
        let met = match [wins(one, other), wins(other, one)] {
            [Met::Missing, _] | [_, Met::Missing] => Met::Missing,
            [Met::Yes, _] | [_, Met::Yes] => Met::Yes,
            [Met::Unclear, _] | [_, Met::Unclear] => Met::Unclear,
            [Met::No, Met::No] => Met::No,
        };
        self.push(met, text);
    }

    /// The first quantity is not more than the second by the minimum effect, per the whole interval.
    pub fn not_more(&mut self, what: &str, a: impl Into<Samples>, b: impl Into<Samples>) {
        let (a, b) = (a.into(), b.into());
        let difference = b.less(&a);
        let met = match (difference.summary(), minimum_effect(&a, &b)) {
            (Some(s), Some(effect)) => match s.ci95.unwrap_or(0.0) {
                reach if s.mean - reach >= -effect => Met::Yes,
                reach if s.mean + reach < -effect => Met::No,
                _ => Met::Unclear,
            },
            _ => Met::Missing,
        };
        self.push(met, format!("{what}: {} <= {}", a.shown(), b.shown()));
    }

    /// The first quantity is at least `factor` times the second.
    pub fn times(&mut self, what: &str, a: impl Into<Samples>, b: impl Into<Samples>, factor: f64) {
        let (a, b) = (a.into(), b.into());
        let met = sign(&a.with(&b, |a, b| a - factor * b));
        let times = format!("{what}, times");
        self.bar(met, &times, ratio(&a, &b), [Some(factor), None]);
        let ratio = match (a.mean(), b.mean()) {
            (Some(a), Some(b)) if b != 0.0 => format!("{} times", shown(a / b)),
            _ => "no ratio".to_owned(),
        };
        let text = format!("{what}: {ratio}, {} to {}", a.shown(), b.shown());
        self.push(met, format!("{text} (at least {} times)", shown(factor)));
    }

    /// The two quantities differ by at most this share of the second.
    pub fn within(&mut self, what: &str, a: impl Into<Samples>, b: impl Into<Samples>, share: f64) {
        let (a, b) = (a.into(), b.into());
        let low = sign(&a.with(&b, |a, b| a - (1.0 - share) * b));
        let high = sign(&a.with(&b, |a, b| (1.0 + share) * b - a));
        let (met, times) = (worse(low, high), format!("{what}, ratio"));
        let limits = [1.0 - share, 1.0 + share].map(Some);
        self.bar(met, &times, ratio(&a, &b), limits);
        let off = match (a.mean(), b.mean()) {
            (Some(a), Some(b)) if b != 0.0 => format!("{:+.2} %", 100.0 * (a / b - 1.0)),
            _ => "no ratio".to_owned(),
        };
        let text = format!("{what}: {off}, {} to {}", a.shown(), b.shown());
        self.push(met, format!("{text} (within {} %)", 100.0 * share));
    }

    /// The quantity rises from point to point.
    pub fn rises(&mut self, what: &str, Series(steps): Series) {
        let pairs = || steps.windows(2);
        let grown = pairs().map(|p| not_negative(&p[1].1.less(&p[0].1)));
        let ends = match steps.as_slice() {
            [first, .., last] => clearly_less(&first.1, &last.1),
            _ => Met::Missing,
        };
        let met = grown.fold(ends, |all, step| match step {
            Met::Unclear => all, // inside the interval of the step
            step => worse(all, step),
        });
        self.push(met, format!("{what} rises: {}", Series(steps).shown()));
    }

    /// The quantity rises at every step.
    pub fn ascends(&mut self, what: &str, Series(steps): Series) {
        let grown = steps.windows(2).map(|p| clearly_less(&p[0].1, &p[1].1));
        let met = grown.reduce(worse).unwrap_or(Met::Missing);
        self.push(met, format!("{what} ascends: {}", Series(steps).shown()));
    }

    /// A condition that was decided elsewhere.
    pub fn is(&mut self, what: impl Into<String>, met: bool) {
        self.push(if met { Met::Yes } else { Met::No }, what.into());
    }

    /// A condition that was decided elsewhere; `None` if a quantity that it needs was not measured.
    pub fn is_if_known(&mut self, what: impl Into<String>, met: Option<bool>) {
        match met {
            Some(met) => self.is(what, met),
            None => self.push(Met::Missing, what.into()),
        }
    }

    /// Records that there was nothing to compare: no packets of a kind, no events.
    pub fn nothing(&mut self, what: impl Into<String>) {
        self.push(Met::Unclear, what.into());
    }

    /// Values for the reader, without effect on the verdict. They are left out if there is no such column of
    /// measurements, or if they are measurements of this machine that did not run.
    pub fn shown<'a, S: Into<Series>>(
        &mut self,
        m: impl Into<Option<&'a Measured>>,
        what: &str,
        of: impl FnOnce(&'a Measured) -> S,
    ) {
        let series = m.into().and_then(|m| m.aside(of));
        self.remarks
            .extend(series.map(|series| format!("{what}: {}", series.into().shown())));
    }

    /// A note for the reader, without effect on the verdict.
    pub fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    fn bar(&mut self, met: Met, what: &str, of: Option<Summary>, limits: [Option<f64>; 2]) {
        let verdict = match met {
            Met::Yes => Verdict::Holds,
            Met::Unclear => Verdict::Undecided,
            Met::No => Verdict::Fails,
            Met::Missing => Verdict::Missing,
        };
        self.bars.extend(Bar::of(verdict, what, of, limits));
    }

    /// The values that have a limit.
    pub(super) fn into_bars(self) -> Vec<Bar> {
        self.bars
    }

    fn push(&mut self, met: Met, text: String) {
        self.all.push((met, text));
    }

    /// The verdict and its evidence.
    pub(super) fn verdict(&self) -> (Verdict, String) {
        let count = |wanted: Met| self.all.iter().filter(|(met, _)| *met == wanted).count();
        let (yes, unclear, no) = (count(Met::Yes), count(Met::Unclear), count(Met::No));
        let verdict = match (yes, unclear, no) {
            _ if self.all.is_empty() || count(Met::Missing) > 0 => Verdict::Missing,
            (0, _, 1..) => Verdict::Fails,
            (1.., _, 1..) => Verdict::Partly,
            (_, 1.., 0) => Verdict::Undecided,
            (_, 0, 0) => Verdict::Holds,
        };
        let mut parts = Vec::new();
        if self.all.len() > SPELLED_MAX || (verdict.is_bad() && self.all.len() > 1) {
            let unclear = match unclear {
                0 => String::new(),
                n => format!(", {n} unclear"),
            };
            parts.push(format!("{yes} of {} hold{unclear}", self.all.len()));
        }
        // Evidence against the claim comes first.
        for (wanted, prefix) in [
            (Met::Missing, "not measured: "),
            (Met::No, "fails: "),
            (Met::Unclear, "unclear: "),
            (Met::Yes, ""),
        ] {
            let of = self.all.iter().filter(|(met, _)| *met == wanted);
            let room = match wanted {
                Met::Yes => SPELLED_MAX.saturating_sub(parts.len()).max(2),
                _ => SPELLED_MAX,
            };
            parts.extend(of.take(room).map(|(_, text)| format!("{prefix}{text}")));
        }
        parts.extend(self.remarks.iter().cloned());
        (verdict, parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::query::series;

    fn of(values: &[f64]) -> Samples {
        Samples::new(values.to_vec())
    }

    fn verdict(find: impl Fn(&mut Findings)) -> Verdict {
        let mut findings = Findings::default();
        find(&mut findings);
        findings.verdict().0
    }

    #[test]
    fn differences_are_paired() {
        // The two overlap, but each pair differs by 1, 1.5, 0.5: mean 1, s = 0.5, t(2, 97.5 %) = 4.303,
        // half of the interval 4.303 * 0.5 / sqrt(3) = 1.242: it includes zero.
        let (a, b) = (of(&[1.0, 5.0, 9.0]), of(&[2.0, 6.5, 9.5]));
        assert_eq!(verdict(|f| f.less("a", &a, &b)), Verdict::Undecided);
        // 1, 1.1, 0.9: half of the interval is 4.303 * 0.1 / sqrt(3) = 0.248.
        let b = of(&[2.0, 6.1, 9.9]);
        assert_eq!(verdict(|f| f.less("a", &a, &b)), Verdict::Holds);
        assert_eq!(verdict(|f| f.less("b", &b, &a)), Verdict::Fails);
        // Equal is not less; but it is not more either.
        assert_eq!(verdict(|f| f.less("a", &a, &a)), Verdict::Fails);
        assert_eq!(verdict(|f| f.not_more("a", &a, &a)), Verdict::Holds);
        // A mean that is not more does not prove it: the interval reaches from -1.73 to 2.73.
        let (c, d) = (of(&[5.0, 6.0, 7.0]), of(&[6.0, 6.0, 7.5]));
        assert_eq!(verdict(|f| f.not_more("c", &c, &d)), Verdict::Undecided);
        assert_eq!(
            verdict(|f| f.not_more("d", d.map(|x| x + 9.0), &c)),
            Verdict::Fails
        );
    }

    #[test]
    fn a_difference_that_is_certain_but_means_nothing_is_unclear() {
        let around = |mean: f64| of(&[mean - 1e-6, mean, mean + 1e-6]);
        let less = |a: &Samples, b: &Samples| verdict(|f| f.less("a", a, b));
        let share = |mean: f64| around(mean).into_shares();
        // Shares: 0.01, whatever their values.
        assert_eq!(less(&share(0.500), &share(0.501)), Verdict::Undecided);
        assert_eq!(less(&share(0.500), &share(0.511)), Verdict::Holds);
        assert_eq!(less(&share(0.501), &share(0.500)), Verdict::Fails);
        // Other quantities: 2 % of the larger one.
        assert_eq!(less(&around(98.1), &around(100.0)), Verdict::Undecided);
        assert_eq!(less(&around(97.9), &around(100.0)), Verdict::Holds);
        // A result of shares only is a share; a result of a share and another quantity is not.
        let excess = |mean: f64| share(mean).map(|x| x - 0.3);
        assert_eq!(less(&excess(0.301), &excess(0.309)), Verdict::Undecided);
        let product = |mean: f64| share(mean).with(&of(&[1.0; 3]), |a, b| a * b);
        assert_eq!(less(&product(0.101), &product(0.109)), Verdict::Holds);
        // The minimum effect applies to the end points of a rise too, but not to a bound.
        let steps =
            |last: f64| series!(for (name, x) in [("1", 0.5), ("2", last)], "{name}": share(x));
        assert_eq!(verdict(|f| f.rises("a", steps(0.505))), Verdict::Undecided);
        assert_eq!(
            verdict(|f| f.ascends("a", steps(0.505))),
            Verdict::Undecided
        );
        assert_eq!(verdict(|f| f.rises("a", steps(0.515))), Verdict::Holds);
        assert_eq!(
            verdict(|f| f.above("a", share(0.5001), 0.5)),
            Verdict::Holds
        );
    }

    #[test]
    fn most_places_may_decide_if_none_is_reversed() {
        let around = |mean: f64| of(&[mean - 0.1, mean, mean + 0.1]);
        let of_seconds = |seconds: [Samples; 3]| {
            let places = seconds.map(|second| (String::new(), around(10.0), second));
            verdict(|f| f.mostly_less("a", &places, 2))
        };
        // Clear; 1 % only; uncertain (differences of 2, 0, -1: mean 1/3); reversed.
        let clear = || around(11.0);
        let little = || around(10.1);
        let noisy = || of(&[11.9, 10.0, 9.1]);
        let reversed = || around(9.9);
        assert_eq!(of_seconds([clear(), clear(), clear()]), Verdict::Holds);
        assert_eq!(of_seconds([clear(), little(), clear()]), Verdict::Holds);
        assert_eq!(of_seconds([noisy(), clear(), clear()]), Verdict::Holds);
        assert_eq!(of_seconds([noisy(), little(), clear()]), Verdict::Undecided);
        assert_eq!(of_seconds([clear(), clear(), reversed()]), Verdict::Fails);
        assert_eq!(
            of_seconds([clear(), clear(), Samples::default()]),
            Verdict::Missing
        );
    }

    #[test]
    fn bounds_hold_for_the_whole_interval() {
        // 1, 2, 3: mean 2, s = 1, 4.303 / sqrt(3) = 2.484: from -0.484 to 4.484.
        let a = of(&[1.0, 2.0, 3.0]);
        for (bound, expected) in [
            (4.5, Verdict::Holds),
            (4.4, Verdict::Undecided),
            (2.0, Verdict::Undecided),
            (1.9, Verdict::Fails),
        ] {
            assert_eq!(verdict(|f| f.at_most("a", &a, bound)), expected, "{bound}");
        }
        assert_eq!(verdict(|f| f.at_least("a", &a, -0.5)), Verdict::Holds);
        assert_eq!(verdict(|f| f.between("a", &a, [-0.5, 4.5])), Verdict::Holds);
        assert_eq!(
            verdict(|f| f.between("a", &a, [0.0, 4.5])),
            Verdict::Undecided
        );
        assert_eq!(verdict(|f| f.between("a", &a, [2.1, 4.5])), Verdict::Fails);
        assert_eq!(
            verdict(|f| f.above("a", of(&[0.0; 3]), 0.0)),
            Verdict::Fails
        );
        // A single run has no interval: its value decides.
        assert_eq!(verdict(|f| f.at_most("a", of(&[2.0]), 2.0)), Verdict::Holds);
    }

    #[test]
    fn ratios_by_hand() {
        // 10/2, 12/2, 11/2: differences to 5 times are 0, 2, 1; mean 1, interval 2.484.
        let (a, b) = (of(&[10.0, 12.0, 11.0]), of(&[2.0, 2.0, 2.0]));
        assert_eq!(verdict(|f| f.times("a", &a, &b, 5.0)), Verdict::Undecided);
        // To 4 times: 2, 4, 3; mean 3.
        assert_eq!(verdict(|f| f.times("a", &a, &b, 4.0)), Verdict::Holds);
        assert_eq!(verdict(|f| f.times("a", &a, &b, 6.0)), Verdict::Fails);
        let (a, b) = (of(&[100.5, 99.5, 100.0]), of(&[100.0; 3]));
        assert_eq!(verdict(|f| f.within("a", &a, &b, 0.02)), Verdict::Holds);
        assert_eq!(verdict(|f| f.within("a", &a, &b, 0.01)), Verdict::Undecided);
        assert_eq!(
            verdict(|f| f.within("a", &b, b.map(|x| x / 2.0), 0.5)),
            Verdict::Fails
        );
    }

    #[test]
    fn a_rise_may_rest_but_not_fall() {
        let steps = |means: &[f64]| {
            let around = |m: &f64| of(&[m - 0.1, *m, m + 0.1]);
            series!(for m in means, "{m}": around(m))
        };
        let rises = |means: &[f64]| verdict(|f| f.rises("a", steps(means)));
        assert_eq!(rises(&[1.0, 1.0, 2.0]), Verdict::Holds);
        assert_eq!(rises(&[1.0, 3.0, 2.0]), Verdict::Fails);
        assert_eq!(rises(&[1.0, 1.0]), Verdict::Fails);
        let ascends = |means: &[f64]| verdict(|f| f.ascends("a", steps(means)));
        assert_eq!(ascends(&[1.0, 2.0, 3.0]), Verdict::Holds);
        assert_eq!(ascends(&[1.0, 1.0, 3.0]), Verdict::Fails);
        // 2 -> 1.95 with differences of -0.25, 0.1, 0: the interval of the step includes zero.
        let mut noisy = steps(&[1.0, 2.0]);
        noisy.0.push(("x".into(), of(&[1.65, 2.1, 2.1])));
        assert_eq!(verdict(|f| f.rises("a", noisy.clone())), Verdict::Holds);
    }

    #[test]
    fn verdicts_by_findings() {
        let two = |a: bool, b: bool| {
            verdict(|f| {
                f.is("a", a);
                f.is("b", b);
            })
        };
        assert_eq!(two(true, true), Verdict::Holds);
        assert_eq!(two(true, false), Verdict::Partly);
        assert_eq!(two(false, false), Verdict::Fails);
        assert_eq!(verdict(|_| {}), Verdict::Missing);
        // A quantity that was not measured, or was run with other seeds, makes the claim missing.
        let missing = |f: &mut Findings| f.less("a", of(&[1.0, 2.0]), of(&[3.0]));
        assert_eq!(verdict(missing), Verdict::Missing);
        let unknown = |f: &mut Findings| f.is_if_known("a", None);
        assert_eq!(verdict(unknown), Verdict::Missing);
        let words = Verdict::ALL.map(|v| serde_json::to_value(v).unwrap());
        assert_eq!(
            words,
            Verdict::ALL.map(|v| serde_json::Value::from(v.word()))
        );
    }

    #[test]
    fn the_evidence_begins_with_what_is_against() {
        let mut findings = Findings::default();
        findings.at_most("good", of(&[1.0]), 2.0);
        findings.at_most("bad", of(&[3.0]), 2.0);
        findings.remark("by the way");
        let expected = "1 of 2 hold; fails: bad: 3.000 (at most 2.000); good: 1.000 (at most 2.000); by the way";
        assert_eq!(findings.verdict(), (Verdict::Partly, expected.to_owned()));
    }
}
