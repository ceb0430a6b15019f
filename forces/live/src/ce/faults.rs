//! The table `faults`, of faults on links to the control element.

use weir_ce::tables::FAULTS;
use weir_model::{Component, Value};

use crate::tml::{Fault, Faults};

/// Rows of faults that have occurred.
pub(super) fn rows(faults: &Faults) -> Value {
    let kinds = Fault::ALL.into_iter();
    let counted = kinds.map(|fault| (fault, faults.count(fault)));
    let rows = counted
        .filter(|(_, count)| *count > 0)
        .map(|(fault, count)| {
            Component::values(FAULTS.components, |component| match component.name {
                "fault" => fault.name().into(),
                _ => count.into(),
            })
        });
    Value::List(rows.collect())
}
