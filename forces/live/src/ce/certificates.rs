//! The table `certificates`.

use weir_model::class::{Cell, Form, Layout, Type, Unit};
use weir_model::column::{self, Column, Row, components};
use weir_model::{Class, Component, Value};
use weir_protocol::wire::Id;

use crate::tml::Pinned;
use crate::tml::identity::{Fingerprint, Validity, validities};

struct Certificate;

impl Row for Certificate {
    type View<'a> = View;
}

/// The owner of a certificate, its fingerprint, and the time left; `None` if it is revoked.
type View = (String, Fingerprint, Option<f64>);

/// The certificates of the CE and of its FEs.
pub(super) static CERTIFICATES: Class = Class {
    name: "certificates",
    metric: Some("ce_certificate"),
    id: 0x00F7_031D,
    about: "the certificates of the control element and of its forwarding elements, and when they expire, and revoked certificates",
    key: &["owner", "fingerprint"],
    components: &components::<Certificate, { COLUMNS.len() }>(COLUMNS),
    layout: Layout {
        empty: "The CE has no certificate: neither the CE nor its peers are authenticated.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS: &[Column<Certificate>] = &[
    Component::new(1, "owner", Type::Text, "edge1")
        .about("Name of the FE in the configuration of the CE; `(this CE)` for the CE's own.")
        .shown(&[Cell::new("OWNER")])
        .read(|(owner, _, _)| owner.as_str().into()),
    Component::new(2, "fingerprint", Type::Text, "5f1c0ffee0")
        .about("SHA-256 fingerprint, as `weir keys` prints it. An FE has two certificates during a replacement.")
        .shown(&[Cell::new("SHA-256")])
        .read(|(_, fingerprint, _)| fingerprint.to_string().into()),
    Component::new(3, "left_s", Type::Real(Unit::Seconds), "2505600.5")
        .optional()
        .about("Time until the certificate expires; negative after that. It is still accepted then: replace it. Null if it is revoked.")
        .shown(&[Cell::new("LEFT").form(Form::Elapsed).or("-")])
        .read(|(_, _, left_s)| (*left_s).into()),
    Component::new(4, "state", Type::Text, "pinned")
        .varying()
        .about("`pinned`: accepted; `revoked`: never accepted again.")
        .shown(&[Cell::new("STATE")])
        .read(|(_, _, left_s)| if left_s.is_some() { "pinned" } else { "revoked" }.into()),
];

/// A row for the CE's own certificate, for the certificates of each FE that has a name, and for revoked certificates.
pub(super) fn rows(pinned: Option<&Pinned>, name: impl Fn(Id) -> Option<String>) -> Value {
    let all = pinned.into_iter().flat_map(validities);
    let owned = all.filter_map(|validity: Validity| {
        let owner = validity.owner.map_or(Some("(this CE)".to_owned()), &name)?;
        Some((owner, validity.fingerprint, Some(validity.left_s())))
    });
    let revoked = pinned.into_iter().flat_map(|pinned| pinned.peers.revoked());
    let revoked = revoked.map(|(fingerprint, owner)| (owner, fingerprint, None));
    column::rows(COLUMNS, owned.chain(revoked))
}
