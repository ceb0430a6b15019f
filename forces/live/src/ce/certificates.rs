//! The table `certificates`.

use weir_ce::tables::CERTIFICATES;
use weir_model::{Component, Value};
use weir_protocol::wire::Id;

use crate::tml::Pinned;
use crate::tml::identity::validities;

/// A row for the CE's own certificate, and for the certificate of each FE that has a name.
pub(super) fn rows(pinned: Option<&Pinned>, name: impl Fn(Id) -> Option<String>) -> Value {
    let all = pinned.into_iter().flat_map(validities);
    let rows = all.filter_map(|validity| {
        let owner = match validity.owner {
            None => "(this CE)".to_owned(),
            Some(id) => name(id)?,
        };
        Some(Component::values(
            CERTIFICATES.components,
            |component| match component.name {
                "owner" => owner.as_str().into(),
                "fingerprint" => validity.fingerprint.to_string().into(),
                _ => validity.left_s().into(),
            },
        ))
    });
    Value::List(rows.collect())
}
