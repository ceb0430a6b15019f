//! Formats the values of a table for people, by unit and form.

use weir_base::Rate;
use weir_model::Value;
use weir_model::class::{Cell, Component, Form, Type, Unit};

use crate::numbers::{bytes, count, delay, elapsed};

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
        (Form::PerSecond, _) | (_, Unit::Packets) => count(number.round() as u64),
        (_, Unit::Bytes) => bytes(number),
        (_, Unit::BitsPerSecond) => Rate::from_bps(number as u64).to_string(),
        (_, Unit::Ratio) => format!("{:.1} %", 100.0 * number),
        (_, Unit::Seconds) => delay(number),
        _ if matches!(component.kind, Type::Counter(_)) => count(number as u64),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_written_by_its_unit_and_form() {
        let check = |kind, form, value: Value, expected: &str| {
            let component = Component::new(1, "x", kind, "");
            let cell = Cell::new("X").form(form).or("none");
            assert_eq!(written(&component, &cell, Some(&value)), expected);
        };
        const SHARE: Type = Type::Real(Unit::Ratio);
        check(SHARE, Form::Plain, 0.125.into(), "12.5 %");
        check(SHARE, Form::Plain, Value::Absent, "none");
        const PACKETS: Type = Type::Counter(Unit::Packets);
        check(PACKETS, Form::Plain, 18_688_u64.into(), "18,688");
        check(Type::Gauge(Unit::One), Form::Plain, 2658_u64.into(), "2658");
        check(
            Type::Real(Unit::Seconds),
            Form::Plain,
            0.0002.into(),
            "0.2 ms",
        );
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
