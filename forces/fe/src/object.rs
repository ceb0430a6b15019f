//! The FE object, class 1 (RFC 5812, section 5): what the FE is made of.
//!
//! | component | here |
//! |---|---|
//! | LFBTopology | from each port by the routes, or the bridge, to the queue of each other port; it cannot be changed. A view of a block has no links: they are those of the block that it shows. |
//! | LFBSelectors | every instance. A row for a new instance of `ports`, `fpf_interfaces`, `fpf_rules`, `fpf_encapsulations` or `fpf_classes` makes a port or an FPF section; its name, component 1, must follow in the same message (all or none). Deleting the row deletes the port or the section. The other blocks of a port come and go with it. |
//! | FEState | AdminDisable stops forwarding, also when the CE that wrote it is gone, until a CE writes OperEnable, an operator at the FE ends it, or the FE starts again; OperEnable lets the FE forward |
//!
//! *Decision*: the erratum 3487 of RFC 5812 makes FEState writable; a CE may write AdminDisable and OperEnable.

use weir_model::Value;

/// Components that a CE cannot write here: LFBTopology, FEID and FENeighbors.
pub(crate) const FIXED: &[u32] = &[1, 4, 8];

/// The component with a row for each block.
pub(crate) const SELECTORS: u32 = 2;

/// FEState.
pub(crate) const ADMIN_DISABLE: &str = "AdminDisable";
pub(crate) const OPER_DISABLE: &str = "OperDisable";
pub(crate) const OPER_ENABLE: &str = "OperEnable";

/// A block as LFBSelectors has it.
pub(crate) fn selector((class, instance): (u32, u32)) -> Value {
    Value::Struct(vec![
        ("LFBClassID".into(), Value::Whole(class.into())),
        ("LFBInstanceID".into(), Value::Whole(instance.into())),
    ])
}

/// A link between two blocks, with a port group of each.
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
