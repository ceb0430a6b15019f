//! Parameters: name, unit, range, default and a sentence, declared once.
//!
//! A mechanism declares a table of [`Parameter`]s. That one table serves the check of a configuration, the error that
//! names the nearest known key, the manual page, and the read-back of the running values. A [`Scalar`] is a value as a
//! file or a peer wrote it; a [`Setting`] has been checked against its parameter and cannot be out of range.

mod display;
mod words;

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::time::Span;
use crate::units::{Bytes, Quantity, Rate, UnitError, read_packets};

/// A value as it was written, unchecked.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A string: a name, or a quantity with its unit.
    Text(String),
    /// A boolean.
    Flag(bool),
}

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A plain number: packets, flows, weights.
    Count(u64),
    /// A probability or a share.
    Ratio(f64),
    /// A time.
    Span(Span),
    /// A data rate.
    Rate(Rate),
    /// A size.
    Bytes(Bytes),
    /// On or off.
    Flag(bool),
    /// One of a parameter's words.
    Word(&'static str),
    /// Any string: a name, a path.
    Text(String),
}

/// The unit and the permitted range of a parameter (both ends included).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A plain number from the first to the second.
    Count(u64, u64),
    /// A real number from the first to the second.
    Ratio(f64, f64),
    /// A time from the first to the second.
    Span(Span, Span),
    /// A rate from the first to the second.
    Rate(Rate, Rate),
    /// A size from the first to the second.
    Bytes(Bytes, Bytes),
    /// A boolean.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number of packets from zero to the first, a rate up to the second, or a share between 0 and 1.
    PacketsRateOrShare(u64, Rate),
    /// Either a real number from the first to the second, or this word.
    RatioOrWord(f64, f64, &'static str),
    /// Either a rate from the first to the second, or one of these words.
    RateOrWord(Rate, Rate, &'static [&'static str]),
    /// Either a size from the first to the second, or one or several of these words.
    BytesOrWords(Bytes, Bytes, &'static [&'static str]),
    /// Any string of at most this many bytes.
    Text(usize),
}

/// One parameter of a mechanism.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// ID, unique among the parameters and gauges of the mechanism; it never changes its meaning. A parameter
    /// that several mechanisms share has an ID in the table of each.
    pub id: u32,
    /// The key in a configuration.
    pub name: &'static str,
    /// Unit and range.
    pub kind: Kind,
    /// The default, in its written form.
    pub default: &'static str,
    /// The effect of the parameter, in a sentence.
    pub about: &'static str,
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// The mechanism has no such key.
    #[error("unknown key `{name}`{}", did_you_mean(*nearest))]
    Unknown {
        /// The key as written.
        name: String,
        /// The most similar known key, if one is close.
        nearest: Option<&'static str>,
    },
    /// The value has the wrong kind, or lies outside the range.
    #[error("`{name}` is {given}, but must be {permitted}")]
    NotPermitted {
        /// The key.
        name: String,
        /// The value as written.
        given: String,
        /// The permitted values.
        permitted: String,
    },
    /// Two settings contradict each other.
    #[error("`{name}`: {why}")]
    Contradiction {
        /// The key to change.
        name: &'static str,
        /// The rule that is broken.
        why: String,
    },
}

impl SettingError {
    /// The key that the error is about, for finding its line.
    pub fn name(&self) -> &str {
        match self {
            Self::Unknown { name, .. } | Self::NotPermitted { name, .. } => name,
            Self::Contradiction { name, .. } => name,
        }
    }
}

/// The checked settings of one mechanism: every parameter of its table has a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings(BTreeMap<&'static str, Setting>);

impl Settings {
    /// Checks the `given` settings against the table; all others take their defaults.
    pub fn check<'a>(
        table: &'static [Parameter],
        given: impl IntoIterator<Item = (&'a str, &'a Scalar)>,
    ) -> Result<Self, SettingError> {
        let mut settings = Self::defaults(table);
        for (name, scalar) in given {
            settings.set(table, name, scalar)?;
        }
        Ok(settings)
    }

    /// Sets one parameter of the table to another value.
    pub fn set(
        &mut self,
        table: &'static [Parameter],
        name: &str,
        scalar: &Scalar,
    ) -> Result<(), SettingError> {
        let parameter = table
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| unknown(name, table.iter().map(|p| p.name)))?;
        self.0.insert(parameter.name, parameter.check(scalar)?);
        Ok(())
    }

    /// Every parameter at its default.
    pub fn defaults(table: &'static [Parameter]) -> Self {
        let default = |p: &Parameter| {
            p.check(&Scalar::Text(p.default.to_owned()))
                .unwrap_or_else(|e| unreachable!("default of {}: {e}", p.name))
        };
        Self(table.iter().map(|p| (p.name, default(p))).collect())
    }

    /// Name and value of each setting, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Setting)> {
        self.0.iter().map(|(name, setting)| (*name, setting))
    }

    fn get(&self, name: &str) -> &Setting {
        match self.0.get(name) {
            Some(setting) => setting,
            None => unreachable!("no parameter {name} in this table"),
        }
    }

    /// The setting `name`, which its table declares as a count.
    pub fn count(&self, name: &str) -> u64 {
        match self.get(name) {
            Setting::Count(n) => *n,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a ratio.
    pub fn ratio(&self, name: &str) -> f64 {
        match self.get(name) {
            Setting::Ratio(x) => *x,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a time.
    pub fn span(&self, name: &str) -> Span {
        match self.get(name) {
            Setting::Span(s) => *s,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a rate.
    pub fn rate(&self, name: &str) -> Rate {
        match self.get(name) {
            Setting::Rate(r) => *r,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a size.
    pub fn bytes(&self, name: &str) -> u64 {
        match self.get(name) {
            Setting::Bytes(b) => b.0,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a flag.
    pub fn flag(&self, name: &str) -> bool {
        match self.get(name) {
            Setting::Flag(on) => *on,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a choice of words.
    pub fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Setting::Word(word) => word,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, which its table declares as a choice of the words of `W`.
    pub fn choice<W: FromStr>(&self, name: &str) -> W {
        let word = self.word(name);
        let unknown = |_| unreachable!("{name} is {word}");
        word.parse().unwrap_or_else(unknown)
    }

    /// The setting `name`, which its table declares as a text.
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Setting::Text(text) => text,
            other => unreachable!("{name} is {other:?}"),
        }
    }

    /// The setting `name`, of whatever kind; for [`Kind::PacketsRateOrShare`], [`Kind::RatioOrWord`],
    /// [`Kind::RateOrWord`] and [`Kind::BytesOrWords`].
    pub fn setting(&self, name: &str) -> &Setting {
        self.get(name)
    }
}

/// The error for an unknown key, with the nearest known one.
pub fn unknown(name: &str, known: impl Iterator<Item = &'static str>) -> SettingError {
    SettingError::Unknown {
        name: name.to_owned(),
        nearest: nearest(name, known),
    }
}

/// The known name most similar to `name`, if it is close enough to be a typing error: at most a third of the longer
/// name is wrong, or one name contains the other.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    const SIMILARITY_MIN: f64 = 0.7;
    let is_close = |k: &str| {
        let most = name.len().max(k.len()) / 3;
        strsim::damerau_levenshtein(name, k) <= most || name.contains(k) || k.contains(name)
    };
    known
        .filter(|k| is_close(k))
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

/// The end of an error about an unknown name: a question with the nearest known name, or nothing.
pub fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

impl Parameter {
    /// A parameter without an ID; [`Self::id()`] gives it one.
    pub const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            id: 0,
            name,
            kind,
            default,
            about,
        }
    }

    /// The same parameter with this ID in a table.
    pub const fn id(self, id: u32) -> Self {
        Self { id, ..self }
    }

    /// Checks a written value against kind and range.
    pub fn check(&self, scalar: &Scalar) -> Result<Setting, SettingError> {
        self.kind
            .read(scalar)
            .filter(|setting| self.kind.permits(setting))
            .ok_or_else(|| SettingError::NotPermitted {
                name: self.name.to_owned(),
                given: scalar.to_string(),
                permitted: format!("{}{}", self.kind, self.kind.hint(scalar)),
            })
    }
}

impl Kind {
    /// The quantity of a value of this kind, if it has a unit.
    pub fn quantity(&self) -> Option<Quantity> {
        match self {
            Self::Rate(..) | Self::RateOrWord(..) => Some(Quantity::Rate),
            Self::Span(..) => Some(Quantity::Time),
            Self::Bytes(..) | Self::BytesOrWords(..) => Some(Quantity::Size),
            _ => None,
        }
    }

    /// A value as it would be written: the example in an error.
    pub fn example(&self) -> String {
        match self {
            Self::Count(min, _) => min.max(&1).to_string(),
            Self::Ratio(min, max) | Self::RatioOrWord(min, max, _) => {
                max.min(min.max(0.5)).to_string()
            }
            Self::Span(min, max) => format!("\"{}\"", Span::from_millis(5).clamp(*min, *max)),
            Self::Rate(min, max) | Self::RateOrWord(min, max, _) => {
                format!("\"{}\"", Rate::from_mbps(95).clamp(*min, *max))
            }
            Self::Bytes(min, max) | Self::BytesOrWords(min, max, _) => {
                format!("\"{}\"", Bytes(1514).clamp(*min, *max))
            }
            Self::Flag => "true".to_owned(),
            Self::Word(words) => format!("\"{}\"", words.first().copied().unwrap_or_default()),
            Self::PacketsRateOrShare(..) => "\"1/20\"".to_owned(),
            Self::Text(_) => "\"text\"".to_owned(),
        }
    }

    /// A correction for a value whose unit is missing or unknown; empty if something else is wrong.
    fn hint(&self, scalar: &Scalar) -> String {
        let Some(quantity) = self.quantity() else {
            return String::new();
        };
        let units = quantity.unit_names();
        if let (Self::BytesOrWords(_, _, known), Scalar::Text(text)) = (self, scalar) {
            let unknown = text.split_whitespace().find(|word| !known.contains(word));
            let nearest = nearest(unknown.unwrap_or_default(), known.iter().copied());
            if nearest.is_some() {
                return did_you_mean(nearest);
            }
        }
        let words = match scalar {
            Scalar::Text(text) => text.trim(),
            Scalar::Integer(_) | Scalar::Real(_) => "0",
            Scalar::Flag(_) => "",
        };
        if words.parse::<f64>().is_ok() {
            return format!(", with its unit ({units}), like {}", self.example());
        }
        match (quantity.meant(words), self.read(scalar)) {
            (Some(meant), _) => format!(" (units: {units}); did you mean \"{meant}\"?"),
            (None, None) => format!(" (units: {units}), like {}", self.example()),
            (None, Some(_)) => String::new(), // understood, and out of range
        }
    }

    /// Reads a written value of this kind, without checking its range.
    fn read(&self, scalar: &Scalar) -> Option<Setting> {
        fn parsed<T: std::str::FromStr<Err = UnitError>>(text: &str) -> Option<T> {
            text.parse().ok()
        }
        Some(match (self, scalar) {
            (Self::Count(..) | Self::PacketsRateOrShare(..), Scalar::Integer(n)) => {
                Setting::Count(u64::try_from(*n).ok()?)
            }
            (Self::Count(..), Scalar::Text(text)) => Setting::Count(read_packets(text).ok()?),
            (Self::PacketsRateOrShare(..), Scalar::Real(x)) => Setting::Ratio(*x),
            (Self::PacketsRateOrShare(..), Scalar::Text(text)) => {
                // "0.05" and "1/20" are shares; "20" is not, it is a number of packets.
                match (read_ratio(text), read_packets(text)) {
                    (Some(x), _) if x.fract() != 0.0 || text.contains('/') => Setting::Ratio(x),
                    (_, Ok(n)) => Setting::Count(n),
                    (_, Err(_)) => Setting::Rate(parsed(text)?),
                }
            }
            (Self::RatioOrWord(_, _, word), Scalar::Text(text)) if word == text => {
                Setting::Word(word)
            }
            (Self::Ratio(..) | Self::RatioOrWord(..), Scalar::Integer(n)) => {
                Setting::Ratio(*n as f64)
            }
            (Self::Ratio(..) | Self::RatioOrWord(..), Scalar::Real(x)) => Setting::Ratio(*x),
            (Self::Ratio(..) | Self::RatioOrWord(..), Scalar::Text(text)) => {
                Setting::Ratio(read_ratio(text)?)
            }
            (Self::Span(..), Scalar::Text(text)) => Setting::Span(parsed(text)?),
            (Self::RateOrWord(_, _, words), Scalar::Text(text)) if words.contains(&&**text) => {
                Setting::Word(words.iter().find(|w| *w == text)?)
            }
            (Self::Rate(..) | Self::RateOrWord(..), Scalar::Text(text)) => {
                Setting::Rate(parsed(text)?)
            }
            (Self::BytesOrWords(_, _, known), Scalar::Text(text))
                if text.split_whitespace().all(|word| known.contains(&word)) =>
            {
                let words: Vec<_> = text.split_whitespace().collect();
                Setting::Text(words.join(" "))
            }
            (Self::Bytes(..) | Self::BytesOrWords(..), Scalar::Text(text)) => {
                Setting::Bytes(parsed(text)?)
            }
            (Self::Flag, Scalar::Flag(on)) => Setting::Flag(*on),
            (Self::Flag, Scalar::Text(text)) => Setting::Flag(text.parse().ok()?),
            (Self::Word(words), Scalar::Text(text)) => {
                Setting::Word(words.iter().find(|w| *w == text)?)
            }
            (Self::Text(_), Scalar::Text(text)) => Setting::Text(text.clone()),
            _ => return None,
        })
    }

    /// Whether the range includes this setting.
    fn permits(&self, setting: &Setting) -> bool {
        match (self, setting) {
            (Self::Count(min, max), Setting::Count(n)) => (min..=max).contains(&n),
            (Self::Ratio(min, max) | Self::RatioOrWord(min, max, _), Setting::Ratio(x)) => {
                (min..=max).contains(&x)
            }
            (Self::Span(min, max), Setting::Span(s)) => (min..=max).contains(&s),
            (Self::Rate(min, max) | Self::RateOrWord(min, max, _), Setting::Rate(r)) => {
                (min..=max).contains(&r)
            }
            (Self::Bytes(min, max) | Self::BytesOrWords(min, max, _), Setting::Bytes(b)) => {
                (min..=max).contains(&b)
            }
            (Self::BytesOrWords(..), Setting::Text(words)) => !words.is_empty(),
            (Self::Flag, Setting::Flag(_)) => true,
            (Self::Word(_) | Self::RatioOrWord(..) | Self::RateOrWord(..), Setting::Word(_)) => {
                true
            }
            (Self::PacketsRateOrShare(max, _), Setting::Count(n)) => n <= max,
            (Self::PacketsRateOrShare(_, max), Setting::Rate(r)) => r <= max,
            (Self::PacketsRateOrShare(..), Setting::Ratio(x)) => 0.0 < *x && *x < 1.0,
            (Self::Text(max), Setting::Text(text)) => text.len() <= *max,
            _ => false,
        }
    }
}

/// Reads a ratio: `0.02`, or a fraction as the papers write it, `1/50`.
fn read_ratio(text: &str) -> Option<f64> {
    match text.split_once('/') {
        Some((a, b)) => Some(a.trim().parse::<f64>().ok()? / b.trim().parse::<f64>().ok()?),
        None => text.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Parameter] = &[
        Parameter::new("limit", Kind::Count(1, 1000), "100", "packets held"),
        Parameter::new("admission", Kind::Ratio(0.0, 1.0), "1/50", "probability"),
        Parameter::new(
            "threshold",
            Kind::PacketsRateOrShare(1000, Rate::from_mbps(10)),
            "125 packets",
            "packets or rate",
        ),
        Parameter::new(
            "share",
            Kind::RatioOrWord(0.0, 1.0, "adaptive"),
            "adaptive",
            "a number or a word",
        ),
    ];

    fn check(name: &str, scalar: Scalar) -> Result<Settings, SettingError> {
        Settings::check(TABLE, [(name, &scalar)])
    }

    #[test]
    fn what_is_not_given_takes_its_default() {
        let settings = check("limit", Scalar::Integer(7)).unwrap();
        assert_eq!(settings.count("limit"), 7);
        assert_eq!(settings.ratio("admission"), 0.02);
        assert_eq!(settings.setting("threshold"), &Setting::Count(125));
    }

    #[test]
    fn a_number_without_its_unit_is_refused() {
        let rate = Parameter::new(
            "rate",
            Kind::Rate(Rate::from_bps(0), Rate::from_mbps(10)),
            "0 bit",
            "a rate",
        );
        let error = |scalar| rate.check(&scalar).unwrap_err().to_string();
        let range = "but must be a rate from \"0 bit\" to \"10 Mbit\"";
        let unit = "with its unit (bit, kbit, Mbit, Gbit), like \"10 Mbit\"";
        let bare = format!("`rate` is 0, {range}, {unit}");
        assert_eq!(error(Scalar::Integer(0)), bare);
        let text = format!("`rate` is \"5\", {range}, {unit}");
        assert_eq!(error(Scalar::Text("5".into())), text);
        let meant = "(units: bit, kbit, Mbit, Gbit); did you mean \"5 Mbit\"?";
        for written in ["5M", "5 Mbits"] {
            let error = error(Scalar::Text(written.into()));
            assert_eq!(error, format!("`rate` is \"{written}\", {range} {meant}"));
        }
        let much = format!("`rate` is \"5 Gbit\", {range}");
        assert_eq!(error(Scalar::Text("5 Gbit".into())), much);
    }

    #[test]
    fn a_rate_may_be_a_word() {
        let kind = Kind::RateOrWord(Rate::from_bps(1), Rate::from_mbps(10), &["auto", "none"]);
        let rate = Parameter::new("rate", kind, "auto", "a rate or a word");
        let check = |text: &str| rate.check(&Scalar::Text(text.into()));
        assert_eq!(check("none"), Ok(Setting::Word("none")));
        assert_eq!(check("2 Mbit"), Ok(Setting::Rate(Rate::from_mbps(2))));
        let error = check("automatic").unwrap_err().to_string();
        let range = "must be a rate from \"1 bit\" to \"10 Mbit\", or \"auto\", \"none\"";
        assert!(error.contains(range), "{error}");
        assert!(check("20 Mbit").is_err());
    }

    #[test]
    fn a_size_may_be_words() {
        let kind = Kind::BytesOrWords(Bytes(0), Bytes(256), &["docsis", "ethernet", "ether-vlan"]);
        let overhead = Parameter::new("overhead", kind, "ethernet", "a size or words");
        let check = |text: &str| overhead.check(&Scalar::Text(text.into()));
        let text = |text: &str| Ok(Setting::Text(text.to_owned()));
        assert_eq!(check("docsis"), text("docsis"));
        assert_eq!(check(" ethernet  ether-vlan"), text("ethernet ether-vlan"));
        assert_eq!(check("24 B"), Ok(Setting::Bytes(Bytes(24))));
        let error = |text| check(text).unwrap_err().to_string();
        let permitted = "must be a size from \"0 B\" to \"256 B\", or docsis, ethernet, ether-vlan";
        let close = error("ethernet ethervlan");
        assert!(close.ends_with(&format!("{permitted}; did you mean `ether-vlan`?")));
        assert!(error("24").contains("with its unit (B, kB"));
        assert!(error("300 B").ends_with(permitted));
        assert!(check("").is_err());
    }

    #[test]
    fn a_threshold_may_be_a_rate() {
        let settings = check("threshold", Scalar::Text("2 Mbit".into())).unwrap();
        assert_eq!(
            settings.setting("threshold"),
            &Setting::Rate(Rate::from_mbps(2))
        );
    }

    #[test]
    fn a_threshold_may_be_a_share() {
        for written in [Scalar::Text("1/20".into()), Scalar::Real(0.05)] {
            let settings = check("threshold", written).unwrap();
            assert_eq!(settings.setting("threshold"), &Setting::Ratio(0.05));
        }
        let shown = Scalar::Text(Setting::Ratio(0.05).to_string());
        let settings = check("threshold", shown).unwrap();
        assert_eq!(settings.setting("threshold"), &Setting::Ratio(0.05));
        for (number, words) in [(0.0, "0/1"), (1.0, "1/1"), (1.5, "3/2")] {
            assert!(check("threshold", Scalar::Real(number)).is_err());
            assert!(check("threshold", Scalar::Text(words.into())).is_err());
        }
    }

    #[test]
    fn a_ratio_may_be_a_word() {
        let shared = |scalar| check("share", scalar).map(|s| s.setting("share").clone());
        let text = |text: &str| Scalar::Text(text.into());
        assert_eq!(shared(text("adaptive")), Ok(Setting::Word("adaptive")));
        assert_eq!(shared(text("1/4")), Ok(Setting::Ratio(0.25)));
        assert_eq!(shared(Scalar::Integer(1)), Ok(Setting::Ratio(1.0)));
        assert_eq!(
            shared(text("adapted")).unwrap_err().to_string(),
            "`share` is \"adapted\", but must be a number from 0 to 1, or \"adaptive\""
        );
        assert!(shared(Scalar::Real(1.5)).is_err());
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = check("limits", Scalar::Integer(7)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown key `limits`; did you mean `limit`?"
        );
    }

    #[test]
    fn an_error_names_the_range() {
        let error = check("limit", Scalar::Integer(0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`limit` is 0, but must be an integer from 1 to 1000"
        );
        assert!(check("limit", Scalar::Integer(-1)).is_err());
        assert!(check("admission", Scalar::Real(f64::NAN)).is_err());
        assert!(check("admission", Scalar::Text("1/0".into())).is_err());
    }
}
