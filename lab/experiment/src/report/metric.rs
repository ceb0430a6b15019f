//! The parts of the name of a metric or curve: quantity, unit and owner.
//!
//! ```text
//!   queue_delay_ms_p99.out      "Queue delay, p99"    ms        out
//!   tcp_share_ratio             "TCP share"           (none)
//! ```

/// A name, split into its parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Metric<'a> {
    /// The quantity as text, with a capital.
    pub(super) title: String,
    /// Unit; empty for a ratio or a count.
    pub(super) unit: &'static str,
    /// The traffic, link or class of the metric.
    pub(super) of: Option<&'a str>,
}

/// Parts of a name that are units, with their notation.
const UNITS: [(&str, &str); 8] = [
    ("mbps", "Mbit/s"),
    ("per_s", "per s"),
    ("ms", "ms"),
    ("s", "s"),
    ("packets", "packets"),
    ("bytes", "bytes"),
    ("kB", "kB"),
    ("ratio", ""),
];
/// Parts of a name that are statistics, with their notation.
const STATISTICS: [(&str, &str); 8] = [
    ("mean", "mean"),
    ("dev", "deviation"),
    ("min", "min"),
    ("max", "max"),
    ("p10", "p10"),
    ("p50", "median"),
    ("p95", "p95"),
    ("p99", "p99"),
];

impl<'a> Metric<'a> {
    /// Splits this name.
    pub(super) fn named(name: &'a str) -> Self {
        let (base, of) = match name.split_once('.') {
            Some((base, of)) => (base, Some(of)),
            None => (name, None),
        };
        // `per_s` is one unit of two words.
        let joined = base.replace("per_s", "per-s");
        let mut unit = None;
        let mut statistic = None;
        let mut words: Vec<&str> = Vec::new();
        for part in joined.split('_') {
            let word = part.replace('-', "_");
            let found = UNITS.iter().find(|(key, _)| *key == word);
            match (found, STATISTICS.iter().find(|(key, _)| *key == part)) {
                (Some((_, shown)), _) => unit = Some(*shown),
                (_, Some((_, shown))) => statistic = Some(*shown),
                _ => words.push(match part {
                    "tcp" => "TCP",
                    "udp" => "UDP",
                    "cpu" => "CPU",
                    _ => part,
                }),
            }
        }
        if words.is_empty() {
            words.extend(unit);
        }
        let mut title = words.join(" ");
        if let Some(first) = title.get(..1).map(str::to_uppercase) {
            title.replace_range(..1, &first);
        }
        if let Some(statistic) = statistic {
            title += &format!(", {statistic}");
        }
        Self {
            title,
            unit: unit.unwrap_or(""),
            of,
        }
    }

    /// The quantity and its owner, in one line.
    pub(super) fn heading(&self) -> String {
        match self.of {
            Some(of) => format!("{}: {of}", self.title),
            None => self.title.clone(),
        }
    }
}

/// A number with about three significant digits.
pub(super) fn shown(x: f64) -> String {
    let size = x.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.001 => 3,
        _ => return format!("{x:.1e}"),
    };
    format!("{x:.decimals$}")
}

/// A string as a part of a file's name: only letters, digits, `-`, `.` and `_`, limited in length, and never hidden or
/// empty.
pub(super) fn file_name(text: &str) -> String {
    const LENGTH_MAX: usize = 120;
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') => c,
        _ => '-',
    };
    let name: String = text.chars().map(plain).take(LENGTH_MAX).collect();
    let parts = name.split('-').filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("-");
    match name.trim_start_matches(['.', '-']) {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_are() {
        let of = |name| {
            let metric = Metric::named(name);
            (metric.heading(), metric.unit)
        };
        let is = |name, title: &str, unit| assert_eq!(of(name), (title.to_owned(), unit));
        is("queue_delay_ms_p99.out", "Queue delay, p99: out", "ms");
        is("tcp_share_ratio", "TCP share", "");
        is("web_fetches_per_s", "Web fetches", "per s");
        is("queue_packets.r.reverse", "Queue: r.reverse", "packets");
        is("delay_ms_mean.long", "Delay, mean: long", "ms");
        is(
            "completion_s_p50.to_10kB",
            "Completion, median: to_10kB",
            "s",
        );
    }

    #[test]
    fn names_of_files_are_plain_and_stay_in_their_folder() {
        assert_eq!(file_name("lru_fq, flows 3"), "lru_fq-flows-3");
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd");
        assert_eq!(file_name("out.reverse"), "out.reverse");
        assert_eq!(file_name("…"), "unnamed");
        assert!(file_name(&"x".repeat(500)).len() <= 120);
    }

    #[test]
    fn numbers_have_three_digits_that_count() {
        let all = [0.0, 1234.5, 12.345, 1.234, 0.01234, 0.000_012_3];
        let all = all.map(shown).join(" ");
        assert_eq!(all, "0 1234 12.3 1.23 0.012 1.2e-5");
    }
}
