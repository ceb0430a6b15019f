//! The sections of a configuration: the router, with its ports, with their queues.

use weir_model::Section;

use crate::class::ports::PORTS;
use crate::class::status::STATUS;
use crate::queue;

/// The router as a section of a configuration: what stands above all others.
pub static ROUTER: Section = Section {
    key: "",
    has_instances: false,
    about: "",
    classes: || vec![STATUS.class],
    kind_default: "",
    no_value: |_, value| format!("{value} has no name"),
    sections: &[&PORT],
};

/// A port as a section of a configuration.
pub(crate) static PORT: Section = Section {
    key: "port",
    has_instances: true,
    about: "A port: a network interface, and how fast it sends. NAME is yours: up to 64 bytes without spaces.",
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
