//! The metrics of a class, derived from its declaration by the conventions of Prometheus: base units, the unit at
//! the end of the name, and the suffix `_total` for counters.
//!
//! A class declares whether it has metrics ([`Class::metrics`]). Classes with an unbounded number of rows (flows,
//! routes, neighbours) have none: each row would be a separate time series.

use crate::class::{Component, Type, Unit};
use crate::{Class, Value};

/// The meaning of a metric whose labels are the texts of a row.
pub const INFO: &str = "The strings of a row as labels; the value is always 1.";

/// A histogram of times.
pub const TIMES: Type = Type::Struct(&[
    Component::new(1, "count", Type::Counter(Unit::One), "1500").about("Number of counted times."),
    Component::new(2, "sum_s", Type::Real(Unit::Seconds), "4.5").about("Sum of the counted times."),
    Component::new(
        3,
        BUCKETS,
        Type::Rows(&[
            Component::new(1, BELOW, Type::Real(Unit::Seconds), "0.004194304")
                .about("Upper bound of the bucket."),
            Component::new(2, "count", Type::Counter(Unit::One), "1450")
                .about("Number of times below the bound."),
        ]),
        "",
    )
    .about("Cumulative buckets; each bound is twice the previous bound."),
]);

/// The member of [`TIMES`] that contains the buckets.
const BUCKETS: &str = "buckets";
/// The member of a bucket that contains its upper bound.
const BELOW: &str = "below_s";

/// Whether a type is [`TIMES`].
fn is_histogram(kind: &Type) -> bool {
    matches!(kind, Type::Struct([_, _, last]) if last.name == BUCKETS)
}

/// A metric: one number for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name: `weir_queue_received_packets_total`.
    pub name: String,
    /// Meaning, in a sentence.
    pub about: &'static str,
    /// Type in the text format.
    pub kind: Kind,
    /// The number at the end of the gauge's name, which becomes a label: gauges `class_0` and `class_1` are one metric.
    pub number: Option<&'static str>,
    /// Dotted path of the value in a row.
    path: String,
    /// Factor from the unit of the component to the base unit.
    scale: f64,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rises and falls.
    Gauge,
    /// Only rises.
    Counter,
    /// A histogram of times.
    Histogram,
}

impl Kind {
    /// The keyword of the text format.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

impl Metric {
    /// The samples of a row: suffix of the name, optional label, and value.
    pub fn samples(&self, row: &Value) -> Vec<(&'static str, Option<String>, String)> {
        if self.kind != Kind::Histogram {
            let number = self.number.map(|number| format!("number=\"{number}\""));
            let value = self.value(row).map(|value| ("", number, value));
            return value.into_iter().collect();
        }
        let Some(times) = row.get(&self.path) else {
            return Vec::new();
        };
        let count = times.whole("count").unwrap_or_default();
        let bucket = |below: String, count: u64| {
            (
                "_bucket",
                Some(format!("le=\"{below}\"")),
                count.to_string(),
            )
        };
        let buckets = times.get(BUCKETS).map_or(&[][..], Value::rows).iter();
        let buckets = buckets.filter_map(|row| {
            let below = row.real(BELOW)?;
            Some(bucket(below.to_string(), row.whole("count")?))
        });
        let sum = times.real("sum_s").unwrap_or_default();
        let ends = [
            bucket("+Inf".to_owned(), count),
            ("_sum", None, sum.to_string()),
            ("_count", None, count.to_string()),
        ];
        buckets.chain(ends).collect()
    }

    /// The value in a row, as text; `None` if the row has no such value.
    fn value(&self, row: &Value) -> Option<String> {
        match row.get(&self.path)? {
            Value::Flag(on) => Some(u64::from(*on).to_string()),
            Value::Whole(number) if self.scale == 1.0 => Some(number.to_string()),
            Value::Whole(number) => Some((*number as f64 * self.scale).to_string()),
            Value::Real(number) => Some((number * self.scale).to_string()),
            _ => None,
        }
    }
}

impl Class {
    /// The metrics of the class; empty if [`Class::metric`] is `None`.
    pub fn metrics(&self) -> Vec<Metric> {
        let Some(word) = self.metric else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let gauges = self.gauges.iter().map(Component::from);
        for component in self.components.iter().copied().chain(gauges) {
            let words = [&["weir"][..], &[word][..usize::from(!word.is_empty())]].concat();
            add(&mut all, &words, "", &component);
        }
        all
    }

    /// The text components that are labels of [`Self::info`], key included.
    pub fn texts(&self) -> impl Iterator<Item = &'static str> {
        let is_label = |c: &&Component| matches!(c.kind, Type::Text) && !c.varies;
        let labels = self.components.iter().filter(is_label);
        labels.map(|component| component.name)
    }

    /// The name of the metric whose labels are the texts of a row; `None` if the class has no metrics, or no text
    /// outside its key.
    pub fn info(&self) -> Option<String> {
        let word = self.metric?;
        self.texts().find(|name| !self.key.contains(name))?;
        Some(match word {
            "" => "weir_info".to_owned(),
            word => format!("weir_{word}_info"),
        })
    }
}

/// Adds the metrics of a component and of its members.
fn add(all: &mut Vec<Metric>, words: &[&'static str], above: &str, component: &Component) {
    let Component {
        name, kind, about, ..
    } = component;
    let words = match *name {
        "count" => words.to_vec(), // the names of its members suffice
        name => [words, &[name]].concat(),
    };
    let (unit, kind) = match kind {
        Type::Flag => (Unit::One, Kind::Gauge),
        Type::Gauge(unit) | Type::Real(unit) => (*unit, Kind::Gauge),
        Type::Counter(unit) => (*unit, Kind::Counter),
        times if is_histogram(times) => (Unit::Seconds, Kind::Histogram),
        Type::Struct(members) => {
            for member in *members {
                let about = Component { about, ..*member };
                add(all, &words, &format!("{above}{name}."), &about);
            }
            return;
        }
        Type::Text | Type::Setting(_) | Type::Rows(_) | Type::Map(_) => return,
    };
    let (suffix, base, scale) = base_unit(unit);
    let (number, words) = match words.split_last() {
        Some((last, others)) => match numbered(last) {
            Some((word, number)) => (Some(number), [others, &[word]].concat()),
            None => (None, words),
        },
        None => (None, words),
    };
    let mut name = words.join("_");
    name.truncate(name.strip_suffix(suffix).map_or(name.len(), str::len));
    if !base.is_empty() && !name.ends_with(base) {
        name = format!("{name}_{base}");
    }
    if kind == Kind::Counter {
        name += "_total";
    }
    all.push(Metric {
        name,
        about,
        kind,
        number,
        path: format!("{above}{}", component.name),
        scale,
    });
}

/// Splits a name that ends with a number into the word and the number.
fn numbered(name: &'static str) -> Option<(&'static str, &'static str)> {
    let (word, number) = name.rsplit_once('_')?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty();
    is_number.then_some((word, number))
}

/// For a unit: the suffix of component names, the base unit, and the factor to the base unit.
fn base_unit(unit: Unit) -> (&'static str, &'static str, f64) {
    match unit {
        Unit::One => ("", "", 1.0),
        Unit::Packets => ("", "packets", 1.0),
        Unit::MilliPackets => ("", "packets", 1e-3),
        Unit::Bytes => ("", "bytes", 1.0),
        Unit::Seconds => ("_s", "seconds", 1.0),
        Unit::Milliseconds => ("_ms", "seconds", 1e-3),
        Unit::BitsPerSecond => ("_bps", "bytes_per_second", 0.125),
        Unit::Ratio => ("", "ratio", 1.0),
        Unit::PerMille => ("", "ratio", 1e-3),
        Unit::PerMillion => ("", "ratio", 1e-6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{COUNT, Gauge};

    #[test]
    fn a_number_in_a_name_is_a_label() {
        const GAUGES: &[Gauge] = &[
            Gauge::counter(101, "class_0", Unit::Packets, "came"),
            Gauge::counter(102, "class_15", Unit::Packets, "came"),
            Gauge::level(103, "p_", Unit::One, "no number"),
        ];
        let metrics = Class::mechanism((1, "weights", ""), &[], GAUGES).metrics();
        let shown: Vec<_> = metrics.iter().map(|m| (&m.name[..], m.number)).collect();
        assert_eq!(
            shown,
            [
                ("weir_weights_class_packets_total", Some("0")),
                ("weir_weights_class_packets_total", Some("15")),
                ("weir_weights_p_", None),
            ]
        );
    }

    #[test]
    fn names_end_with_the_base_unit() {
        const CLASS: Class = Class {
            key: &["port"],
            metric: Some("port"),
            components: &[
                Component::new(1, "port", Type::Text, "wan"),
                Component::new(2, "rate_bps", Type::Gauge(Unit::BitsPerSecond), "8000"),
                Component::new(3, "sent", COUNT, ""),
                Component::new(4, "pool_packets", Type::Gauge(Unit::Packets), "7"),
                Component::new(5, "up", Type::Flag, "true"),
                Component::new(6, "share", Type::Gauge(Unit::PerMille), "250"),
                Component::new(7, "age_s", Type::Real(Unit::Seconds), "0.5"),
                Component::new(8, "delay_s", TIMES, ""),
            ],
            ..Class::PLAIN
        };
        let metrics = CLASS.metrics();
        let row = CLASS.example();
        let shown = |m: &Metric| {
            let samples = m.samples(&row).into_iter();
            let name = m.name.clone();
            samples.map(move |(end, label, value)| {
                format!(
                    "{name}{end} {}{value}",
                    label.map(|l| l + " ").unwrap_or_default()
                )
            })
        };
        let shown: Vec<_> = metrics.iter().flat_map(shown).collect();
        assert_eq!(
            shown,
            [
                "weir_port_rate_bytes_per_second 1000",
                "weir_port_sent_packets_total 15",
                "weir_port_sent_bytes_total 9000",
                "weir_port_pool_packets 7",
                "weir_port_up 1",
                "weir_port_share_ratio 0.25",
                "weir_port_age_seconds 0.5",
                "weir_port_delay_seconds_bucket le=\"0.004194304\" 1450",
                "weir_port_delay_seconds_bucket le=\"+Inf\" 1500",
                "weir_port_delay_seconds_sum 4.5",
                "weir_port_delay_seconds_count 1500",
            ]
        );
        assert_eq!(CLASS.info(), None);
    }
}
