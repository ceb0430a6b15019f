//! The metrics of a run: which packets, flows and transfers count, and where.
//!
//! ```text
//!   a view of a run, a flow group, a link, ..    both habitats fill the same view of what both measure
//!     └─▶ metrics! { definition, name = value }
//!           ├─▶ a function that adds the values  results
//!           └─▶ definitions                      docs/metrics.md
//! ```
//!
//! A new metric is an entry in the table of its subject; [`crate::definitions`] lists the tables.

use crate::results::Metrics;

/// The definition of a metric, or of several metrics that differ only in a name or a statistic.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The name pattern. `TRAFFIC`, `LINK`, `HOST`, `ROUTER`, `ENCAPSULATION`, `CONTROLLER`, `GAUGE`, `REASON`, `CLASS`
    /// and `SIZE` are placeholders of names, `STATISTIC` of a word like `mean` or `p99`.
    pub name: &'static str,
    /// The habitats that measure it: `sim`, `lab`, or `both`.
    pub on: &'static str,
    /// The definition.
    pub about: &'static str,
}

/// The placeholder of a word like `mean` or `p99`.
pub(crate) const STATISTIC: &str = "STATISTIC";

/// Declares the metrics of one subject: a table of their definitions, and a function that adds their values. An entry
/// has the definition, the name pattern, and the value ([`Values`]). The function takes the names that replace the
/// placeholders after the first dot of the pattern.
#[macro_export]
macro_rules! metrics {
    (
        $table:ident on $on:ident;
        $(#[$doc:meta])*
        $visible:vis fn $add:ident($($view:ident: $type:ty),+) {
            $($(#[doc = $about:literal])+ $name:literal = $value:expr;)+
        }
    ) => {
        pub(crate) const $table: &[$crate::metrics::Definition] = &[$(
            $crate::metrics::Definition {
                name: $name,
                on: stringify!($on),
                about: concat!($($about),+).trim_ascii_start(),
            },
        )+];

        $(#[$doc])*
        $visible fn $add(
            $($view: $type,)+
            names: &[&str],
            measured: &mut $crate::metrics::Measured,
        ) {
            $(measured.set($name, names, $value);)+
        }
    };
}

/// The value of a metric, if the run has it; or values by the word that replaces `STATISTIC`.
#[derive(Debug)]
pub struct Values(Vec<(&'static str, Option<f64>)>);

impl From<Option<f64>> for Values {
    fn from(value: Option<f64>) -> Self {
        Self(vec![("", value)])
    }
}

impl From<f64> for Values {
    fn from(value: f64) -> Self {
        Some(value).into()
    }
}

impl From<u64> for Values {
    fn from(count: u64) -> Self {
        Some(count as f64).into()
    }
}

impl From<usize> for Values {
    fn from(count: usize) -> Self {
        Some(count as f64).into()
    }
}

impl From<Vec<(&'static str, Option<f64>)>> for Values {
    fn from(values: Vec<(&'static str, Option<f64>)>) -> Self {
        Self(values)
    }
}

/// The metrics of a run that were measured so far.
#[derive(Debug, Default)]
pub struct Measured(pub(crate) Metrics);

impl Measured {
    /// Sets a metric, for [`metrics!`](crate::metrics!).
    pub fn set(&mut self, pattern: &str, names: &[&str], values: impl Into<Values>) {
        let mut parts = pattern.split('.');
        let base = parts.next().unwrap_or_default();
        debug_assert_eq!(parts.count(), names.len(), "{pattern}: {names:?}");
        for (word, value) in values.into().0 {
            if let Some(value) = value {
                let base = base.replace(STATISTIC, word);
                self.0.insert([&[&*base], names].concat().join("."), value);
            }
        }
    }
}
