//! FPF as sections of a configuration.

use weir_model::{Class, Section};

use crate::{KEY, Part, tables};

/// Flexible packet forwarding, as a section of a configuration.
pub(super) static FPF: Section = Section {
    key: KEY,
    has_instances: false,
    about: "Flexible packet forwarding (FPF): paths chosen at the edge. It is active once an FPF interface is \
            configured. See docs/fpf.md.",
    classes: || vec![tables::FPF],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [fpf], with its components below")
    },
    sections: &[&INTERFACE, &RULE, &ENCAPSULATION, &CLASS],
};

pub(super) static INTERFACE: Section = Section {
    about: "An FPF interface: a port, a VLAN of a port, or a GRE tunnel. Choose any NAME.",
    ..part(Part::Interface, || vec![tables::INTERFACES])
};

pub(super) static RULE: Section = Section {
    about: "The action for packets with a LID. Choose any NAME.",
    ..part(Part::Rule, || vec![tables::RULES])
};

pub(super) static ENCAPSULATION: Section = Section {
    about: "Packets that get an FPF header here, and their paths. Choose any NAME.",
    ..part(Part::Encapsulation, || vec![tables::ENCAPSULATIONS])
};

pub(super) static CLASS: Section = Section {
    about: "Flows that get an FPF header because of their protocol or server name, and their paths. Choose any NAME.",
    ..part(Part::Class, || vec![tables::CLASSES])
};

const fn part(part: Part, classes: fn() -> Vec<Class>) -> Section {
    Section {
        key: part.key(),
        has_instances: true,
        about: "",
        classes,
        kind_default: "",
        no_value: |path, value| {
            format!(
                "`{path}` is {value}, but must be a section: [{path}.NAME], with its components below"
            )
        },
        sections: &[],
    }
}
