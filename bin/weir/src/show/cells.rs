//! Formats the values of a table for people, by unit and form.

use weir_base::Rate;
use weir_model::Value;
use weir_model::class::{Cell, Component, Form, Type, Unit};

/// A value as text.
pub(super) fn written(component: &Component, cell: &Cell, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Absent) => cell.absent.to_owned(),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Flag(true)) => "yes".to_owned(),
        Some(Value::Flag(false)) => "no".to_owned(),
        Some(Value::Whole(number)) => quantity(component, cell.form, *number as f64),
        Some(Value::Negative(number)) => quantity(component, cell.form, *number as f64),
        Some(Value::Real(number)) => quantity(component, cell.form, *number),
        Some(other @ (Value::List(_) | Value::Struct(_))) => format!("{other:?}"),
    }
}

/// Whether a column has numbers, which are right-aligned.
pub(super) fn is_number(component: &Component) -> bool {
    matches!(
        component.kind,
        Type::Gauge(_) | Type::Counter(_) | Type::Real(_)
    )
}

fn quantity(component: &Component, form: Form, number: f64) -> String {
    let (Type::Gauge(unit) | Type::Counter(unit) | Type::Real(unit)) = component.kind else {
        return number.to_string();
    };
    match (form, unit) {
        (Form::Elapsed, _) => elapsed(number as u64),
        (Form::Megabits, _) => format!("{:.3}", number / 1e6),
        (Form::PerSecond, Unit::Bytes) => format!("{:.2}", number * 8.0 / 1e6),
        (Form::PerSecond, _) => format!("{number:.0}"),
        (_, Unit::Bytes) => bytes(number),
        (_, Unit::BitsPerSecond) => Rate::from_bps(number as u64).to_string(),
        (_, Unit::Ratio) => format!("{:.1} %", 100.0 * number),
        (_, Unit::Seconds) => format!("{number:.3}"),
        _ => format!("{number:.0}"),
    }
}

/// A time in its two largest units.
pub(crate) fn elapsed(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} kB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_that_a_person_reads() {
        let all = [999.0, 1_000.0, 2_500_000.0, 7_000_000_000.0].map(bytes);
        assert_eq!(all, ["999 B", "1.0 kB", "2.5 MB", "7.0 GB"]);
        assert_eq!(elapsed(3_600 * 3 + 60 * 20 + 5), "3 h 20 min");
        let check = |kind, form, value: Value, expected: &str| {
            let component = Component::new(1, "x", kind, "");
            let cell = Cell::new("X").form(form).or("none");
            assert_eq!(written(&component, &cell, Some(&value)), expected);
        };
        const SHARE: Type = Type::Real(Unit::Ratio);
        check(SHARE, Form::Plain, 0.125.into(), "12.5 %");
        check(SHARE, Form::Plain, Value::Absent, "none");
        check(Type::Flag, Form::Plain, true.into(), "yes");
        let rate = Type::Gauge(Unit::BitsPerSecond);
        check(rate, Form::Plain, 95_000_000_u64.into(), "95 Mbit");
        check(rate, Form::Megabits, 95_000_000_u64.into(), "95.000");
        check(
            Type::Counter(Unit::Bytes),
            Form::PerSecond,
            250_000_u64.into(),
            "2.00",
        );
    }
}
