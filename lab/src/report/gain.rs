//! The headline of a result that has both the discipline that Linux has by default and the one that weir has: what the
//! second one gains, or costs.

use super::metric::shown;
use crate::results::{PointResult, RunResult};

/// Linux's default, as most distributions set it.
const LINUX: &str = "fq_codel";
/// weir's.
const OURS: &str = "triple_fair";

/// `With triple_fair instead of fq_codel long TCP has 79 instead of 4.1 Mbit/s, and ...`. None if one of the two is
/// not there, or if both were run at several points of a sweep.
pub(super) fn headline(result: &RunResult) -> Option<String> {
    let point = |name: &str| {
        let is = |point: &&PointResult| point.variant.as_deref() == Some(name);
        let mut points = result.points.iter().filter(is);
        points.next().filter(|_| points.next().is_none())
    };
    let (before, after) = (point(LINUX)?, point(OURS)?);
    let told = |metric: &str, what: &str, unit: &str| {
        let [before, after] = [before, after].map(|point| point.median(metric).map(shown));
        Some(format!(
            "{what} {} instead of {}\u{a0}{unit}",
            after?, before?
        ))
    };
    let parts = [
        told("tcp_goodput_mbps", "long TCP has", "Mbit/s"),
        told("web_response_s_mean", "a web page takes", "s"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let all = parts.join(", and ");
    (!parts.is_empty()).then(|| format!("With {OURS} instead of {LINUX} {all}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;
    use crate::results::OneRun;

    #[test]
    fn says_what_it_gains_and_what_it_costs() {
        let mut result = example::result();
        assert_eq!(headline(&result), None);
        result.points.truncate(2);
        for (point, (name, tcp, web)) in result
            .points
            .iter_mut()
            .zip([(LINUX, 4.125, 0.5), (OURS, 79.25, 0.75)])
        {
            point.variant = Some(name.to_owned());
            let metrics = [("tcp_goodput_mbps", tcp), ("web_response_s_mean", web)];
            point.add(OneRun {
                metrics: metrics.map(|(name, x)| (name.to_owned(), x)).into(),
                ..point.runs[0].clone()
            });
        }
        let expected = "With triple_fair instead of fq_codel long TCP has 79.2 instead of 4.12\u{a0}Mbit/s, and a web \
                        page takes 0.750 instead of 0.500\u{a0}s";
        assert_eq!(headline(&result).as_deref(), Some(expected));
        let again = result.points[0].clone();
        result.points.push(again);
        assert_eq!(headline(&result), None);
    }
}
