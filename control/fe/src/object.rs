//! The FE object, class 1 (RFC 5812, section 5): what the FE is made of.
//!
//! | component | here |
//! |---|---|
//! | LFBTopology | from each port by the routes, or the bridge, to the queue of each other port; it cannot be changed |
//! | LFBSelectors | every instance. A row for a new instance of `ports` makes a port; its name must follow in the same message (all or none). Deleting the row of a port deletes the port. |
//! | FEState | AdminDisable stops forwarding; OperEnable lets the FE forward |
//!
//! *Decision*: the erratum 3487 of RFC 5812 makes FEState writable; a CE may write AdminDisable and OperEnable.

use weir_forces::schema::{Access, Array, Class, Component, Integer, Kind, Named, Number, Size};
use weir_model::Value;

/// The class ID.
pub(crate) const CLASS: u32 = 1;
/// The component LFBSelectors.
pub(crate) const SELECTORS: u32 = 2;

/// FEState.
pub(crate) const ADMIN_DISABLE: &str = "AdminDisable";
pub(crate) const OPER_DISABLE: &str = "OperDisable";
pub(crate) const OPER_ENABLE: &str = "OperEnable";

/// A component; the name has the optional ones' mark `?` at its end.
pub(crate) fn part(id: u32, name: &str, about: &str, access: Access, kind: Kind) -> Component {
    Component {
        id,
        name: name.trim_end_matches('?').to_owned(),
        about: about.to_owned(),
        access,
        is_capability: false,
        optional: name.ends_with('?'),
        kind,
        default: None,
    }
}

pub(crate) fn rows(element: Kind) -> Kind {
    Kind::Array(Box::new(Array {
        size: Size::Variable(None),
        element,
        keys: Vec::new(),
    }))
}

pub(crate) fn u32() -> Kind {
    Kind::Number(Integer::Uint32.into())
}

/// A number of one octet whose values have names, from the first on.
pub(crate) fn words(first: i128, names: &[&str]) -> Kind {
    let named = (first..).zip(names);
    Kind::Number(Number {
        ranges: vec![(first, first + names.len() as i128 - 1)],
        names: named.map(|(value, name)| Named::new(value, name)).collect(),
        ..Integer::Uint8.into()
    })
}

/// The schema of the class.
pub(crate) fn schema() -> Class {
    let (read, write) = (Access::ReadOnly, Access::ReadWrite);
    let member = |id, name, kind| part(id, name, "", write, kind);
    let selector = || {
        Kind::Struct(vec![
            member(1, "LFBClassID", u32()),
            member(2, "LFBInstanceID", u32()),
        ])
    };
    let text = || Kind::Text(None);
    let link = Kind::Struct(vec![
        member(1, "FromLFBID", selector()),
        member(2, "FromPortGroup", text()),
        member(3, "FromPortIndex", u32()),
        member(4, "ToLFBID", selector()),
        member(5, "ToPortGroup", text()),
        member(6, "ToPortIndex", u32()),
    ]);
    let adjacent = || {
        rows(Kind::Struct(vec![
            member(1, "NeighborLFB", u32()),
            member(2, "ViaPorts", rows(text())),
        ]))
    };
    let limits = Kind::Struct(vec![
        member(1, "PortGroupName", text()),
        member(2, "MinPortCount?", u32()),
        member(3, "MaxPortCount?", u32()),
    ]);
    let supported = Kind::Struct(vec![
        member(1, "LFBName", text()),
        member(2, "LFBClassID", u32()),
        member(3, "LFBVersion", text()),
        member(4, "LFBOccurrenceLimit?", u32()),
        member(5, "PortGroupLimits?", rows(limits)),
        member(6, "CanOccurAfters?", adjacent()),
        member(7, "CanOccurBefores?", adjacent()),
        member(8, "UseableParentLFBClasses?", rows(u32())),
    ]);
    let states = words(0, &[ADMIN_DISABLE, OPER_DISABLE, OPER_ENABLE]);
    let capability = |component: Component| Component {
        is_capability: true,
        ..component
    };
    Class {
        id: CLASS,
        name: "FEObject".to_owned(),
        version: "1.0".to_owned(),
        about: "The FE itself.".to_owned(),
        components: vec![
            part(1, "LFBTopology", "Links between blocks.", write, rows(link)),
            part(
                SELECTORS,
                "LFBSelectors",
                "Every block.",
                write,
                rows(selector()),
            ),
            part(3, "FEName", "Its name.", write, Kind::Text(Some(40))),
            part(4, "FEID", "Its ID.", write, u32()),
            part(5, "FEVendor", "Its maker.", read, Kind::Text(Some(40))),
            part(6, "FEModel", "Its model.", read, Kind::Text(Some(40))),
            part(7, "FEState", "Whether it forwards.", write, states),
            capability(part(
                30,
                "ModifiableLFBTopology?",
                "Whether links can change.",
                read,
                Kind::Flag,
            )),
            capability(part(
                31,
                "SupportedLFBs?",
                "Its classes.",
                read,
                rows(supported),
            )),
        ],
        events_base: None,
        events: Vec::new(),
    }
}

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
