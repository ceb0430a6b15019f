//! The sections of a configuration: the router, its ports with their queues, its exceptions, and its network layers.

use weir_model::{Class, ComponentPath, Section};

use crate::class::ports::PORTS;
use crate::class::queues::QUEUES;
use crate::class::redirect;
use crate::class::status::STATUS;
use crate::layers::{LAYERS, joined};
use crate::queue;

/// The router as a section of a configuration: the root of all sections.
pub static ROUTER: Section = Section {
    key: "",
    has_instances: false,
    about: "",
    classes: || vec![STATUS.class],
    kind_default: "",
    no_value: |_, value| format!("{value} has no name"),
    sections: SECTIONS,
};

/// The sections within a router's section.
pub const SECTIONS: &[&Section] =
    &joined::<_, { 2 + LAYERS.len() }>(&[&[&PORT, &REDIRECT], OF_LAYERS]);
const OF_LAYERS: &[&Section] = &{
    let mut sections = [&PORT; LAYERS.len()];
    let mut layer = 0;
    while layer < LAYERS.len() {
        sections[layer] = LAYERS[layer].section;
        layer += 1;
    }
    sections
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

/// The path of a component that the previous release wrote with its class: `port.wan.rate` for `ports.wan.rate`. `None`
/// for paths of classes outside the configuration, and for paths with the number of an instance.
pub fn renamed(path: &ComponentPath) -> Option<ComponentPath> {
    let segments = path.segments();
    let [class, instance, below @ ..] = &segments[..] else {
        return None;
    };
    let is_numbered = instance.parse::<u32>().is_ok();
    if (*class, below) == (QUEUES.class.name, &["discipline"]) && !is_numbered {
        return Some(ComponentPath::new([
            PORT.key,
            *instance,
            queue::SECTION.key,
            "kind",
        ]));
    }
    let (class, block) = ROUTER.block(instance, &|other| other.name == *class)?;
    let is_instance = match class.has_instances {
        true => !is_numbered,
        false => *instance == "1", // the only instance has no name
    };
    let path = block.below(below.iter().copied());
    (is_instance && !path.is_root()).then_some(path)
}

/// Whether a path leads to a section of the configuration, or to a setting, known or not; all other components can only
/// be read.
pub fn is_setting(path: &ComponentPath) -> bool {
    ROUTER.find(path).is_ok_and(|place| {
        let classes = (place.section.classes)();
        let has = |name: &str| {
            let parameters = classes.iter().flat_map(|class| class.parameters);
            let all = classes.iter().flat_map(Class::all);
            parameters.map(|p| p.name).any(|known| known == name)
                || all.map(|c| c.name).all(|known| known != name)
        };
        place.parameter.is_none_or(has)
    })
}

#[cfg(test)]
mod tests {
    use weir_base::setting::Scalar;
    use weir_model::Change;

    use super::*;
    use crate::class;
    use crate::named::Named;

    #[test]
    fn every_parameter_is_found_at_the_path_of_its_class() {
        let disciplines = class::disciplines().into_iter();
        let named = Named::ALL.into_iter().map(|kind| *kind.class());
        let layers = LAYERS.iter().map(|layer| *layer.class);
        let blocks = [STATUS.class, redirect::REDIRECT.class]
            .into_iter()
            .chain(layers)
            .chain(named)
            .chain(disciplines);
        for class in blocks {
            let (_, block) = ROUTER.block("wan", &|other| other.id == class.id).unwrap();
            for parameter in class.parameters {
                let change = Change::new(block.join(parameter.name), Scalar::Flag(true));
                let set = ROUTER.set(&change).unwrap();
                assert_eq!(set.parameter.map(|(name, _)| name), Some(parameter.name));
                let found = (set.section.classes)();
                assert!(found.iter().any(|c| c.id == class.id), "{}", class.name);
                assert!(is_setting(&change.path), "{}", change.path);
                let instance = if class.has_instances { "wan" } else { "1" };
                let old = ComponentPath::new([class.name, instance, parameter.name]);
                assert_eq!(renamed(&old), Some(change.path));
            }
        }
    }

    #[test]
    fn paths_of_the_previous_release_have_one_form_now() {
        let path = |text: &str| text.parse::<ComponentPath>().unwrap();
        for (old, new) in [
            ("ports.wan.received.packets", "port.wan.received.packets"),
            ("ports.\"eth0.100\".rate", "port.\"eth0.100\".rate"),
            ("ports.wan", "port.wan"),
            ("queues.wan.discipline", "port.wan.discipline.kind"),
            ("redirect.1.redirect_bps", "redirect.redirect_bps"),
            ("status.1.uptime_s", "uptime_s"),
        ] {
            assert_eq!(renamed(&path(old)), Some(path(new)), "{old}");
            assert_eq!(renamed(&path(new)), None, "{new}");
        }
        for same in [
            "ports",
            "ports.2.rate",
            "queues.wan.backlog",
            "status.1",
            "FEObject.1",
            "mode",
        ] {
            assert_eq!(renamed(&path(same)), None, "{same}");
        }
        for (at, expected) in [
            ("mode", true),
            ("port.wan", true),
            ("port.wan.rtae", true),
            ("port.wan.discipline.kind", true),
            ("port.wan.received", false),
            ("port.wan.received.packets", false),
            ("uptime_s", false),
            ("FEObject.1.FEState", false),
        ] {
            assert_eq!(is_setting(&path(at)), expected, "{at}");
        }
    }
}
