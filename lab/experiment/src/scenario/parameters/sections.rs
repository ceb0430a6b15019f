//! The sections of a scenario file.

use super::super::key::Key;
use super::*;

/// Every section with its keys. `[traffic.NAME]` also has the keys of its kind.
pub const SECTIONS: &[(&str, &[&Key])] = &[
    ("", FILE),
    ("", TOP),
    ("quick", QUICK),
    ("variant", VARIANT),
    ("router.NAME", ROUTER),
    ("host.NAME", HOST),
    ("link.NAME", LINK),
    ("controller.NAME", CONTROLLER),
    ("domain.NAME", DOMAIN),
    ("path.NAME", PATH),
    ("encapsulation.NAME", ENCAPSULATION),
    ("event.NAME", EVENT),
    ("traffic.NAME", TRAFFIC),
    ("traffic.NAME, kind tcp", TCP),
    ("traffic.NAME, kind udp", UDP),
    ("traffic.NAME, kind web", WEB),
    ("traffic.NAME, kind tcp or web", TCP_OPTIONS),
];
