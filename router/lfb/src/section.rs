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
    use weir_model::class::Type;
    use weir_model::{Change, Component, IdPath, NamePath, Step};

    use super::*;

    /// Calls `check` with a path by names for each of these components and for each of their members.
    fn each_path(above: &NamePath, all: &[Component], check: &mut dyn FnMut(&NamePath)) {
        for component in all {
            let mut path = above.clone();
            path.steps.push(Step::Member(component.name.to_owned()));
            check(&path);
            match component.kind {
                Type::Rows(_) => path.steps.push(Step::Row(1)),
                Type::Map(_) => path.steps.push(Step::Key("a key".to_owned())),
                _ => {}
            }
            check(&path);
            each_path(&path, component.kind.members(), check);
        }
    }

    fn instance(class: &Class) -> NamePath {
        NamePath {
            class: class.name.to_owned(),
            instance: vec!["wan".to_owned()],
            steps: Vec::new(),
        }
    }

    #[test]
    fn names_and_ids_of_every_component_are_two_forms_of_one_path() {
        let classes: Vec<Class> = class::all().collect();
        let mut paths = 0;
        for class in &classes {
            let whole = instance(class);
            each_path(&whole, &class.all(), &mut |by_names| {
                let by_ids: IdPath = by_names.translate(&classes).unwrap();
                assert_eq!(by_ids.translate(&classes).as_ref(), Ok(by_names));
                assert_eq!(by_ids.class, class.id);
                paths += 1;
            });
        }
        assert!(paths > classes.len());
    }

    #[test]
    fn every_parameter_is_set_by_its_id_where_it_is_set_by_its_name() {
        let classes: Vec<Class> = class::all().collect();
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
            for parameter in class.parameters {
                let mut path = instance(&class);
                path.steps.push(Step::Member(parameter.name.to_owned()));
                let by_id: IdPath = path.translate(&classes).unwrap();
                let at = ROUTER.locate(&by_id).unwrap();
                assert_eq!(ROUTER.locate(&path), Ok(at.clone()));
                let change = Change::new(at, Scalar::Flag(true));
                let set = ROUTER.set(&change).unwrap();
                assert_eq!(set.parameter.map(|(name, _)| name), Some(parameter.name));
                let found = (set.section.classes)();
                assert!(found.iter().any(|c| c.id == class.id), "{}", class.name);
            }
        }
    }

    #[test]
    fn a_path_to_no_setting_has_the_code_of_a_peer() {
        use weir_model::fault::ResultCode;
        let code = |class, id| {
            let path = IdPath {
                class,
                instance: vec!["wan".to_owned()],
                steps: vec![Step::Member(id)],
            };
            ROUTER.locate(&path).unwrap_err().code
        };
        assert_eq!(code(PORTS.class.id, 4), ResultCode::ReadOnly);
        assert_eq!(code(PORTS.class.id, 999), ResultCode::InvalidPath);
        assert_eq!(code(7, 1), ResultCode::ClassUnknown);
    }
}
