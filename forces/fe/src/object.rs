//! The FE object, class 1 (RFC 5812, section 5): the structure of the FE.
//!
//! | component | in this FE |
//! |---|---|
//! | LFBTopology | from each port through the routes, or the bridge, to the queue of each other port; read-only. A view of an LFB has no links of its own: its links are those of the LFB that it shows. |
//! | LFBSelectors | all instances. A row for a new instance of `ports`, `fpf_interfaces`, `fpf_rules`, `fpf_encapsulations` or `fpf_classes` creates a port or an FPF section; its name, component 1, must follow in the same message (all or none). Deleting the row deletes the port or the section. The other LFBs of a port are created and deleted with it. |
//! | FEState | AdminDisable stops forwarding, even after the CE that wrote it has disconnected, until a CE writes OperEnable, an operator at the FE enables forwarding, or the FE restarts; OperEnable permits forwarding |
//!
//! *Decision*: erratum 3487 of RFC 5812 makes FEState writable; a CE may write AdminDisable and OperEnable.

use weir_model::Value;

/// Components that this FE does not let a CE write: LFBTopology, FEID and FENeighbors.
pub(crate) const FIXED: &[u32] = &[1, 4, 8];

/// ID of the component with one row per LFB.
pub(crate) const SELECTORS: u32 = 2;

/// Values of FEState.
pub(crate) const ADMIN_DISABLE: &str = "AdminDisable";
pub(crate) const OPER_DISABLE: &str = "OperDisable";
pub(crate) const OPER_ENABLE: &str = "OperEnable";

/// A row of LFBSelectors.
pub(crate) fn selector((class, instance): (u32, u32)) -> Value {
    Value::Struct(vec![
        ("LFBClassID".into(), Value::Whole(class.into())),
        ("LFBInstanceID".into(), Value::Whole(instance.into())),
    ])
}

/// A link between two LFBs, with the port group at each end.
pub(crate) fn link(from: (u32, u32), out: &str, to: (u32, u32), input: &str, index: u32) -> Value {
    Value::Struct(vec![
        ("FromLFBID".into(), selector(from)),
        ("FromPortGroup".into(), out.into()),
        ("FromPortIndex".into(), Value::Whole(index.into())),
        ("ToLFBID".into(), selector(to)),
        ("ToPortGroup".into(), input.into()),
        ("ToPortIndex".into(), Value::Whole(0)),
    ])
}
