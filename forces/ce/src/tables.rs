//! The CE's own tables, declared in the same form as a router's tables.

use weir_model::Class;
use weir_model::class::{Cell, Component, Form, Layout, Type, Unit};

/// Every table, in the order in which pages list them.
pub static TABLES: &[&Class] = &[
    &FES,
    &ASSOCIATIONS,
    &CHANNELS,
    &LFBS,
    &CONTROLLERS,
    &EXCEPTIONS,
    &FAULTS,
    &CERTIFICATES,
    &STORE,
];

const NUMBER: Type = Type::Gauge(Unit::One);
const COUNTER: Type = Type::Counter(Unit::One);

const FE_CELL: &[Cell] = &[Cell::new("FE")];

const fn name_of_fe(id: u32) -> Component {
    Component::new(id, "fe", Type::Text, "edge1")
        .about("Name of the FE in the configuration of the CE.")
        .shown(FE_CELL)
}

/// The FEs that may associate.
pub static FES: Class = Class {
    name: "fes",
    metric: Some("fe"),
    id: 0x00F7_0314,
    about: "the forwarding elements that may associate, whether they have the desired configuration, and if not, why",
    key: &["fe"],
    components: &[
        name_of_fe(1),
        Component::new(2, "id", NUMBER, "2")
            .about("ForCES ID of the FE.")
            .shown(&[Cell::new("ID")]),
        Component::new(3, "state", Type::Text, "in sync")
            .about("`away`, `restoring`, `in sync`, `degraded` (its kernel lacks some of its routes) or `refused`.")
            .shown(&[Cell::new("STATE")]),
        Component::new(4, "ports", NUMBER, "2")
            .about("Number of ports of the FE.")
            .shown(&[Cell::new("PORTS")]),
        Component::new(5, "blocks", NUMBER, "9")
            .about("Number of LFBs of the FE.")
            .shown(&[Cell::new("BLOCKS")]),
        Component::new(6, "desired", NUMBER, "3")
            .about("Components that the CE stores for the FE: set or deleted in the configuration or by operators.")
            .shown(&[Cell::new("DESIRED")]),
        Component::new(7, "why", Type::Text, "the link was lost")
            .optional()
            .varying()
            .about("Why the FE is away, why the desired configuration was refused, or which route its kernel lacks.")
            .shown(&[Cell::new("WHY").or("")]),
    ],
    layout: Layout {
        empty: "No FE is configured. Add `[fe.NAME]` to the configuration of the CE.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// The associations (forcesAssociationTable of RFC 5813).
pub static ASSOCIATIONS: Class = Class {
    name: "associations",
    metric: Some("association"),
    id: 0x00F7_0315,
    about: "the associations of the control element: their uptimes and messages",
    key: &["fe"],
    components: &[
        name_of_fe(1),
        Component::new(2, "ce_id", NUMBER, "1073741825").about("ForCES ID of the CE."),
        Component::new(3, "fe_id", NUMBER, "2")
            .about("ForCES ID of the FE.")
            .shown(&[Cell::new("ID")]),
        Component::new(4, "version", NUMBER, "1").about("ForCES protocol version."),
        Component::new(5, "up_s", Type::Real(Unit::Seconds), "12.5")
            .about("Uptime of the association.")
            .shown(&[Cell::new("UP").form(Form::Elapsed)]),
        Component::new(6, "heartbeats_sent", COUNTER, "3")
            .about("Heartbeats sent to the FE.")
            .shown(&[Cell::new("HEARTBEATS OUT")]),
        Component::new(7, "heartbeats_received", COUNTER, "3")
            .about("Heartbeats received from the FE.")
            .shown(&[Cell::new("HEARTBEATS IN")]),
        Component::new(8, "messages_sent", COUNTER, "17")
            .about("Messages sent to the FE, except heartbeats, setup responses and teardowns.")
            .shown(&[Cell::new("MESSAGES OUT")]),
        Component::new(9, "messages_received", COUNTER, "16")
            .about("Messages received from the FE, except heartbeats, setups and teardowns.")
            .shown(&[Cell::new("MESSAGES IN")]),
        Component::new(10, "requests", NUMBER, "0")
            .about("Queued and unanswered requests to the FE.")
            .shown(&[Cell::new("REQUESTS")]),
        Component::new(11, "peer", Type::Text, "192.0.2.7:41234")
            .varying()
            .about("Transport and address of the FE.")
            .shown(&[Cell::new("PEER")]),
    ],
    layout: Layout {
        empty: "No FE is associated. `weir show fes` shows why.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// Messages that have passed a channel.
const PASSED: Type = Type::Struct(&[
    Component::new(1, "messages", COUNTER, "15").about("Messages."),
    Component::new(2, "bytes", Type::Counter(Unit::Bytes), "9000")
        .about("Bytes of these messages."),
]);

/// Waiting messages.
const WAITING: Type = Type::Struct(&[
    Component::new(1, "messages", NUMBER, "4").about("Messages."),
    Component::new(2, "bytes", Type::Gauge(Unit::Bytes), "2400").about("Bytes of these messages."),
]);

/// Messages and gauges of the links to the associated FEs.
pub static CHANNELS: Class = Class {
    name: "channels",
    metric: Some("channel"),
    id: 0x00F7_0319,
    about: "the two channels of each association, control and redirect, and their discipline at this end",
    key: &["fe"],
    components: &[
        name_of_fe(1),
        Component::new(2, "discipline", Type::Text, "dppbrb")
            .about("Discipline that divides the link between the channels.")
            .shown(&[Cell::new("DISCIPLINE")]),
        Component::new(3, "control_sent", PASSED, "")
            .about("Control messages handed to the transport.")
            .shown(&[Cell::new("CONTROL OUT").of("messages")]),
        Component::new(4, "control_received", PASSED, "")
            .about("Control messages from the FE.")
            .shown(&[Cell::new("CONTROL IN").of("messages")]),
        Component::new(5, "control_waiting", WAITING, "")
            .about("Control messages queued for the transport.")
            .shown(&[Cell::new("CONTROL WAITING").of("messages")]),
        Component::new(6, "redirect_sent", PASSED, "")
            .about("Redirected packets handed to the transport.")
            .shown(&[Cell::new("REDIRECT OUT").of("messages")]),
        Component::new(7, "redirect_received", PASSED, "")
            .about("Redirected packets from the FE.")
            .shown(&[Cell::new("REDIRECT IN").of("messages")]),
        Component::new(8, "redirect_waiting", WAITING, "")
            .about("Redirected packets queued for the transport.")
            .shown(&[Cell::new("REDIRECT WAITING").of("messages")]),
        Component::new(9, "redirect_dropped", PASSED, "")
            .about("Redirected packets dropped from the queue.")
            .shown(&[Cell::new("REDIRECT DROPPED").of("messages")]),
        Component::new(10, "combined", COUNTER, "0")
            .about("Redirected packets that were sent in the message of another packet."),
        Component::new(
            11,
            "gauges",
            Type::Map(&Type::Gauge(Unit::One)),
            "control_share=1000",
        )
        .about("Gauges of the discipline; `weir describe DISCIPLINE` explains them."),
    ],
    layout: Layout {
        empty: "No FE is associated. `weir show fes` shows why.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// LFBs of the associated FEs.
pub static LFBS: Class = Class {
    name: "lfbs",
    id: 0x00F7_0318,
    about: "the LFBs of the associated forwarding elements: class and instance",
    key: &["fe", "class", "instance"],
    components: &[
        name_of_fe(1),
        Component::new(2, "class", Type::Text, "ports")
            .about("Name of the class, or its ID if the CE does not know the class.")
            .shown(&[Cell::new("CLASS")]),
        Component::new(3, "class_id", NUMBER, "16187650").about("ID of the class."),
        Component::new(4, "instance", Type::Text, "1")
            .about("Number of the instance.")
            .shown(&[Cell::new("INSTANCE")]),
        Component::new(5, "port", Type::Text, "wan")
            .optional()
            .about("The port, or other named section, to which the LFB belongs.")
            .shown(&[Cell::new("NAME")]),
        Component::new(6, "about", Type::Text, "the ports and their links")
            .optional()
            .about("Description of the class.")
            .shown(&[Cell::new("MEANING").or("unknown class: load its library")]),
        Component::new(7, "path", Type::Text, "edge1:port.wan")
            .about("Path of the LFB, for `weir get`, `set` and `watch`.")
            .shown(&[Cell::new("PATH")]),
    ],
    layout: Layout {
        empty: "No FE is associated. `weir show fes` shows why.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// The controllers.
pub static CONTROLLERS: Class = Class {
    name: "controllers",
    metric: Some("controller"),
    id: 0x00F7_0317,
    about: "the controllers of the control element: the elements that they steer, their gauges and errors",
    key: &["controller"],
    components: &[
        Component::new(1, "controller", Type::Text, "flow")
            .about("Name in the configuration of the CE.")
            .shown(&[Cell::new("CONTROLLER")]),
        Component::new(2, "kind", Type::Text, "flow_control")
            .about("Kind of the controller; `weir describe KIND` explains it.")
            .shown(&[Cell::new("KIND")]),
        Component::new(3, "elements", NUMBER, "3")
            .about("FEs and devices that are connected.")
            .shown(&[Cell::new("ELEMENTS")]),
        Component::new(4, "configured", NUMBER, "3")
            .about("FEs and devices whose queues the controller uses.")
            .shown(&[Cell::new("CONFIGURED")]),
        Component::new(
            5,
            "gauges",
            Type::Map(&Type::Real(Unit::One)),
            "committed_mbps=2.13",
        )
        .about("Gauges of the controller; `weir describe KIND` explains them.")
        .shown(&[Cell::new("GAUGE")]),
        Component::new(6, "why", Type::Text, "edge1: no answer in time")
            .optional()
            .varying()
            .about("Recent errors, by element.")
            .shown(&[Cell::new("WHY").or("")]),
    ],
    layout: Layout {
        empty: "No controller is configured. Add `[controller.NAME]` to the configuration of the CE.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// Packets that FEs have redirected, by fate.
pub static EXCEPTIONS: Class = Class {
    name: "exceptions",
    metric: Some("exception"),
    id: 0x00F7_031C,
    about: "the packets that forwarding elements have redirected to the control element since its start, by fate",
    key: &["fate"],
    components: &[
        Component::new(1, "fate", Type::Text, "kernel")
            .about("Fate of the packets.")
            .shown(&[Cell::new("FATE")]),
        Component::new(2, "is_loss", Type::Flag, "false")
            .about("Whether the packets were dropped."),
        Component::new(3, "packets", Type::Counter(Unit::Packets), "17")
            .about("Packets.")
            .shown(&[Cell::new("PACKETS")]),
        Component::new(
            4,
            "meaning",
            Type::Text,
            "passed to the kernel of the CE, through the TAP device of the port",
        )
        .about("Description of the fate.")
        .shown(&[Cell::new("MEANING")]),
    ],
    ..Class::PLAIN
};

/// Faults of links between the CE and its peers.
pub static FAULTS: Class = Class {
    name: "faults",
    metric: Some("link_fault"),
    id: 0x00F7_031B,
    about: "the faults of links to the control element since its start: impostors, floods, losses",
    key: &["fault"],
    components: &[
        Component::new(1, "fault", Type::Text, "unknown_certificate")
            .about("Kind of fault; the log names the peers.")
            .shown(&[Cell::new("FAULT")]),
        Component::new(2, "count", COUNTER, "3")
            .about("Number of these faults.")
            .shown(&[Cell::new("COUNT")]),
    ],
    layout: Layout {
        empty: "There have been no link faults since the start.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// The certificates of the CE and of its FEs.
pub static CERTIFICATES: Class = Class {
    name: "certificates",
    metric: Some("ce_certificate"),
    id: 0x00F7_031D,
    about: "the certificates of the control element and of its forwarding elements, and when they expire",
    key: &["owner", "fingerprint"],
    components: &[
        Component::new(1, "owner", Type::Text, "edge1")
            .about("Name of the FE in the configuration of the CE; `(this CE)` for the CE's own.")
            .shown(&[Cell::new("OWNER")]),
        Component::new(2, "fingerprint", Type::Text, "5f1c0ffee0")
            .about("SHA-256 fingerprint, as `weir keys` prints it. An FE has two certificates during a replacement.")
            .shown(&[Cell::new("SHA-256")]),
        Component::new(3, "left_s", Type::Real(Unit::Seconds), "2505600.5")
            .about("Time until the certificate expires; negative after that. It is still accepted then: replace it.")
            .shown(&[Cell::new("LEFT").form(Form::Elapsed)]),
    ],
    layout: Layout {
        empty: "The CE has no certificate: neither the CE nor its peers are authenticated.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

/// The file with the changes by operators.
pub static STORE: Class = Class {
    name: "store",
    metric: Some("store"),
    id: 0x00F7_031E,
    about: "the control element's store of operators' changes to FEs, and whether it can be written",
    key: &["file"],
    components: &[
        Component::new(1, "file", Type::Text, "/var/lib/weir/ce.store")
            .about("Path of the store.")
            .shown(&[Cell::new("STORE")]),
        Component::new(2, "bytes", Type::Gauge(Unit::Bytes), "4096")
            .about("Size of the store.")
            .shown(&[Cell::new("SIZE")]),
        Component::new(3, "writable", Type::Flag, "true")
            .about("Whether the last change could be written.")
            .shown(&[Cell::new("WRITABLE")]),
        Component::new(4, "failures", COUNTER, "0")
            .about("Changes refused since the start because they could not be written.")
            .shown(&[Cell::new("FAILURES")]),
        Component::new(5, "why", Type::Text, "No space left on device")
            .optional()
            .varying()
            .about("Why changes cannot be written.")
            .shown(&[Cell::new("WHY").or("")]),
    ],
    ..Class::PLAIN
};

#[cfg(test)]
mod tests {
    use weir_model::class::Access;

    use super::*;
    use crate::configuration::CE;

    /// IDs of tables, of configuration sections, and of controllers.
    #[test]
    fn ids_of_classes_are_unique() {
        let sections = CE.sections.iter().flat_map(|section| (section.classes)());
        // The sections of an FE are defined by its router, elsewhere.
        let mut ids: Vec<_> = sections
            .chain((CE.classes)())
            .map(|class| class.id)
            .collect();
        ids.extend(TABLES.iter().map(|class| class.id));
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{ids:x?}");
    }

    #[test]
    fn a_metric_is_named_once() {
        let metrics = TABLES.iter().flat_map(|class| class.metrics());
        let of_routers = weir_lfb::class::all().flat_map(|class| class.metrics());
        let mut names: Vec<_> = metrics
            .chain(of_routers)
            .map(|metric| (metric.name, metric.number))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }

    #[test]
    fn every_table_is_whole() {
        for class in TABLES {
            for key in class.key {
                assert!(class.components.iter().any(|c| c.name == *key), "{key}");
            }
            for component in class.components {
                assert!(component.about.ends_with('.'), "{}", component.name);
                assert!(
                    component.admits(&component.example_value()),
                    "{}",
                    component.name
                );
                assert_eq!(component.access, Access::Read);
            }
            let ids: Vec<_> = class.components.iter().map(|c| c.id).collect();
            assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        }
    }
}
