//! The sections of a configuration: the router, its ports with their queues, its exceptions, and FPF.

use weir_model::{Class, Section};

use crate::class::ports::PORTS;
use crate::class::status::STATUS;
use crate::class::{self, redirect};
use crate::fpf::{self, Part};
use crate::queue;

/// The router as a section of a configuration: the root of all sections.
pub static ROUTER: Section = Section {
    key: "",
    has_instances: false,
    about: "",
    classes: || vec![STATUS.class],
    kind_default: "",
    no_value: |_, value| format!("{value} has no name"),
    sections: &[&PORT, &REDIRECT, &FPF],
};

/// A port as a section of a configuration.
pub static PORT: Section = Section {
    key: "port",
    has_instances: true,
    about: "A port: a network interface and its rate. Choose any NAME of up to 64 bytes without spaces.",
    classes: || vec![PORTS.class],
    kind_default: "",
    no_value: |path, value| {
        let name = path.segments().get(1).copied().unwrap_or("wan");
        format!(
            "`{path}` is {value}, but must be a section: [port.{name}], with its components below"
        )
    },
    sections: &[&queue::SECTION],
};

/// The packets that go to a control element, as a section of a configuration.
pub static REDIRECT: Section = Section {
    key: "redirect",
    has_instances: false,
    about: "Exceptions: packets that a forwarding element hands to its control element. By default none.",
    classes: || vec![redirect::REDIRECT.class],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [redirect], with its components below")
    },
    sections: &[],
};

/// Flexible packet forwarding, as a section of a configuration.
pub static FPF: Section = Section {
    key: fpf::KEY,
    has_instances: false,
    about: "Flexible packet forwarding (FPF): paths chosen at the edge. It is active once an FPF interface is \
            configured. See docs/fpf.md.",
    classes: || vec![class::fpf::FPF.class],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [fpf], with its components below")
    },
    sections: &[&FPF_INTERFACE, &FPF_RULE, &FPF_ENCAPSULATION, &FPF_CLASS],
};

static FPF_INTERFACE: Section = Section {
    about: "An FPF interface: a port, a VLAN of a port, or a GRE tunnel. Choose any NAME.",
    ..part(Part::Interface, || {
        vec![*class::fpf::class_of(Part::Interface)]
    })
};

static FPF_RULE: Section = Section {
    about: "The action for packets with a LID. Choose any NAME.",
    ..part(Part::Rule, || vec![*class::fpf::class_of(Part::Rule)])
};

static FPF_ENCAPSULATION: Section = Section {
    about: "Packets that get an FPF header here, and their paths. Choose any NAME.",
    ..part(Part::Encapsulation, || {
        vec![*class::fpf::class_of(Part::Encapsulation)]
    })
};

static FPF_CLASS: Section = Section {
    about: "Flows that get an FPF header because of their protocol or server name, and their paths. Choose any NAME.",
    ..part(Part::Class, || vec![*class::fpf::class_of(Part::Class)])
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

#[cfg(test)]
mod tests {
    use weir_base::setting::Scalar;
    use weir_model::Change;

    use super::*;

    #[test]
    fn every_parameter_is_found_at_the_path_of_its_class() {
        let disciplines = class::disciplines().into_iter();
        let parts = Part::ALL
            .into_iter()
            .map(|part| *class::fpf::class_of(part));
        let blocks = [
            STATUS.class,
            PORTS.class,
            redirect::REDIRECT.class,
            class::fpf::FPF.class,
        ]
        .into_iter()
        .chain(parts)
        .chain(disciplines);
        for class in blocks {
            let (_, block) = ROUTER.block("wan", &|other| other.id == class.id).unwrap();
            for parameter in class.parameters {
                let change = Change::new(block.join(parameter.name), Scalar::Flag(true));
                let set = ROUTER.set(&change).unwrap();
                assert_eq!(set.parameter.map(|(name, _)| name), Some(parameter.name));
                let found = (set.section.classes)();
                assert!(found.iter().any(|c| c.id == class.id), "{}", class.name);
            }
        }
    }
}
