//! Conversion between settings as typed values, which a peer sends and receives, and their written form in a
//! configuration.
//!
//! | kind of the parameter | value |
//! |---|---|
//! | a count | whole number |
//! | a rate, a time, a size | whole number of bits a second, of nanoseconds, of bytes |
//! | a ratio | number with a fraction |
//! | a flag | true or false |
//! | a word | the word |
//! | anything else: text, and what has several forms | text, as a configuration has it |
//!
//! A typed value passes the same check as a written value ([`Parameter::check`]): [`scalar`] converts it to the
//! written form.

use weir_base::setting::{Kind, Parameter, Scalar, Setting, SettingError};

use crate::Value;

impl From<&Setting> for Value {
    /// A checked setting, per the table above. [`in_force`] handles parameters with several forms.
    fn from(setting: &Setting) -> Self {
        match setting {
            Setting::Count(number) => Self::Whole(*number),
            Setting::Ratio(number) => Self::Real(*number),
            Setting::Span(span) => Self::Whole(span.as_nanos()),
            Setting::Rate(rate) => Self::Whole(rate.as_bps()),
            Setting::Bytes(bytes) => Self::Whole(bytes.0),
            Setting::Flag(on) => Self::Flag(*on),
            Setting::Word(word) => (*word).into(),
            Setting::Text(text) => text.as_str().into(),
        }
    }
}

/// The typed value of a setting of this parameter.
pub fn in_force(parameter: &Parameter, setting: &Setting) -> Value {
    match parameter.kind {
        Kind::PacketsRateOrShare(..)
        | Kind::RatioOrWord(..)
        | Kind::RateOrWord(..)
        | Kind::BytesOrWords(..) => setting.to_string().into(),
        _ => setting.into(),
    }
}

/// The written form of a typed value, for [`Parameter::check`]; the error names the permitted values.
pub fn scalar(parameter: &Parameter, value: &Value) -> Result<Scalar, SettingError> {
    let text = |text: String| Some(Scalar::Text(text));
    let written = match (parameter.kind, value) {
        (Kind::Rate(..), Value::Whole(bits)) => text(format!("{bits} bit")),
        (Kind::Span(..), Value::Whole(nanos)) => text(format!("{nanos} ns")),
        (Kind::Bytes(..), Value::Whole(bytes)) => text(format!("{bytes} B")),
        (Kind::Rate(..) | Kind::Span(..) | Kind::Bytes(..), _) => None,
        (_, Value::Text(word)) => text(word.clone()),
        (_, Value::Flag(on)) => Some(Scalar::Flag(*on)),
        (_, Value::Real(number)) => Some(Scalar::Real(*number)),
        (_, Value::Whole(number)) => i64::try_from(*number).ok().map(Scalar::Integer),
        (_, Value::Negative(number)) => Some(Scalar::Integer(*number)),
        (_, Value::Absent | Value::List(_) | Value::Struct(_)) => None,
    };
    written.ok_or_else(|| SettingError::NotPermitted {
        name: parameter.name.to_owned(),
        given: format!("{value:?}"),
        permitted: parameter.kind.to_string(),
    })
}

/// Checks a typed value and converts it to a setting of this parameter.
pub fn setting(parameter: &Parameter, value: &Value) -> Result<Setting, SettingError> {
    parameter.check(&scalar(parameter, value)?)
}

#[cfg(test)]
mod tests {
    use weir_base::units::Bytes;
    use weir_base::{Rate, Span};

    use super::*;

    fn round_trip(kind: Kind, written: &str, value: Value) {
        let parameter = Parameter::new("it", kind, "", "");
        let checked = parameter.check(&Scalar::Text(written.into())).unwrap();
        assert_eq!(in_force(&parameter, &checked), value, "{written}");
        assert_eq!(setting(&parameter, &value), Ok(checked), "{written}");
    }

    #[test]
    fn a_written_setting_and_its_typed_value_are_one() {
        let rate = Kind::Rate(Rate::from_bps(0), Rate::from_mbps(400_000));
        round_trip(rate, "95 Mbit", Value::Whole(95_000_000));
        round_trip(rate, "95000001 bit", Value::Whole(95_000_001));
        let span = Kind::Span(Span::ZERO, Span::from_secs(600));
        round_trip(span, "0.1 ms", Value::Whole(100_000));
        let bytes = Kind::Bytes(Bytes(0), Bytes(9000));
        round_trip(bytes, "1514 B", Value::Whole(1514));
        round_trip(Kind::Count(1, 9), "7", Value::Whole(7));
        round_trip(Kind::Ratio(0.0, 1.0), "1/50", Value::Real(0.02));
        round_trip(Kind::Flag, "true", Value::Flag(true));
        round_trip(Kind::Word(&["red", "blue"]), "blue", "blue".into());
        round_trip(Kind::Text(15), "eth0", "eth0".into());
        let several = Kind::PacketsRateOrShare(1000, Rate::from_mbps(10));
        for written in ["125", "2 Mbit", "0.05"] {
            round_trip(several, written, written.into());
        }
        round_trip(Kind::RatioOrWord(0.0, 1.0, "auto"), "auto", "auto".into());
        let rate_or_word = Kind::RateOrWord(Rate::from_bps(0), Rate::from_mbps(10), &["auto"]);
        round_trip(rate_or_word, "auto", "auto".into());
        round_trip(rate_or_word, "5 Mbit", "5 Mbit".into());
    }

    #[test]
    fn a_value_of_another_type_or_out_of_range_is_refused() {
        let rate = Kind::Rate(Rate::from_bps(0), Rate::from_mbps(10));
        let error = |kind, value: Value| {
            let parameter = Parameter::new("it", kind, "", "");
            setting(&parameter, &value).unwrap_err().to_string()
        };
        let range = "but must be a rate from \"0 bit\" to \"10 Mbit\"";
        assert_eq!(
            error(rate, Value::Whole(10_000_001)),
            format!("`it` is \"10000001 bit\", {range}")
        );
        assert!(error(rate, "5 Mbit".into()).ends_with(range));
        assert!(error(Kind::Count(0, 9), Value::Whole(u64::MAX)).contains("from 0 to 9"));
        assert!(error(Kind::Count(0, 9), Value::Negative(-1)).contains("from 0 to 9"));
        assert!(error(Kind::Flag, Value::Absent).contains("true or false"));
    }
}
