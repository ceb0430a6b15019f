//! Flexible packet forwarding: the domain with its packet counters, and its named sections.

use weir_fpf_path::Fpf;
use weir_fpf_path::edge::classes;
use weir_fpf_path::forwarder::Stats;
use weir_fpf_path::ingress::ActiveEncapsulation;
use weir_layer::Table;
use weir_model::class::{COUNT, Cell, Class, Component, Form, HELD, Layout, Type, Unit};
use weir_model::column::{Column, Row, components, row, rows};

use crate::{Part, domain};

/// The tables of FPF, in the order of the manual pages.
pub(super) const TABLES: &[Table] = &[
    Table {
        class: &FPF,
        read: |plane| row(COLUMNS, &Fpf::stats(plane)),
    },
    Table {
        class: &ENCAPSULATIONS,
        read: |plane| rows(ENCAPSULATED, Fpf::encapsulations(plane)),
    },
    Table {
        class: &CLASSES,
        read: |plane| rows(OF_CLASS, Fpf::classes(plane)),
    },
];

const TEXT: Type = Type::Text;
const NUMBER: Type = Type::Gauge(Unit::One);
const COUNTER: Type = Type::Counter(Unit::One);
const PACKET_COUNTER: Type = Type::Counter(Unit::Packets);

pub(super) static FPF: Class = Class {
    name: "fpf",
    id: 0x00F7_0004,
    about: "flexible packet forwarding: packets that follow paths chosen at the edge",
    parameters: domain::PARAMETERS,
    metric: Some("fpf"),
    components: &components::<Domain, { COLUMNS.len() }>(COLUMNS),
    ..Class::PLAIN
};

/// The row of the domain.
struct Domain;

impl Row for Domain {
    type View<'a> = Stats;
}

const COLUMNS: &[Column<Domain>] = &[
    Component::new(20, "received", COUNT, "")
        .about("Received packets with an FPF header, including packets from tunnels.")
        .shown(&[
            Cell::new("IN").of("packets").since_start(),
            Cell::new("IN PKT/S").of("packets").form(Form::PerSecond),
        ])
        .read(|all| all.received.into()),
    Component::new(21, "forwarded", COUNT, "")
        .about("Packets forwarded to a next FE.")
        .shown(&[
            Cell::new("FORWARDED").of("packets").since_start(),
            Cell::new("FORWARDED PKT/S")
                .of("packets")
                .form(Form::PerSecond),
        ])
        .read(|all| all.forwarded.into()),
    Component::new(22, "encapsulated", COUNT, "")
        .about("Packets that got an FPF header here.")
        .shown(&[Cell::new("ENCAPSULATED").of("packets").since_start()])
        .read(|all| all.encapsulated.into()),
    Component::new(23, "decapsulated", COUNT, "")
        .about("Packets whose FPF header was removed.")
        .shown(&[Cell::new("DECAPSULATED").of("packets").since_start()])
        .read(|all| all.decapsulated.into()),
    Component::new(24, "created", COUNT, "")
        .about("Copies made by multicast, and packets added by coding and segmentation.")
        .shown(&[Cell::new("COPIES").of("packets").since_start()])
        .read(|all| all.created.into()),
    Component::new(25, "expired", COUNTER, "3")
        .about("Encapsulations that expired because no packet matched them within their timeout, including those of \
                classes.")
        .shown(&[Cell::new("EXPIRED").since_start()])
        .read(|all| (all.expired + all.classes.ended.expired).into()),
    Component::new(26, "inspected", PACKET_COUNTER, "12")
        .about("First packets of flows that were copied to the classifier.")
        .shown(&[Cell::new("INSPECTED").since_start()])
        .read(|all| all.classes.copied.into()),
    Component::new(27, "uninspected", PACKET_COUNTER, "0")
        .about("Packets forwarded without a copy to the classifier because the classifier had fallen behind.")
        .shown(&[Cell::new("UNINSPECTED").since_start()])
        .read(|all| all.classes.lost.into()),
    Component::new(28, "followed", NUMBER, "150")
        .about("Flows that the classifier tracks now.")
        .shown(&[Cell::new("FLOWS FOLLOWED")])
        .read(|all| all.classes.followed.into()),
    Component::new(29, "displaced", COUNTER, "0")
        .about("Flows removed from their class to make room for others, after one second without packets.")
        .read(|all| all.classes.ended.displaced.into()),
    Component::new(30, "unclassified", COUNTER, "0")
        .about("Flows of a class that stayed on the IP routes because the limit `classifier_flows` was reached.")
        .read(|all| all.classes.ended.refused.into()),
    Component::new(31, "repaired", PACKET_COUNTER, "0")
        .about("Packets recovered by rules with `xor-decode`.")
        .shown(&[Cell::new("REPAIRED")])
        .read(|all| all.repaired.into()),
    Component::new(32, "segmented", PACKET_COUNTER, "0")
        .about("Packets split into segments by rules with `segment`.")
        .shown(&[Cell::new("SEGMENTED")])
        .read(|all| all.segmented.into()),
    Component::new(33, "reassembled", PACKET_COUNTER, "0")
        .about("Packets reassembled by rules with `reassemble`.")
        .shown(&[Cell::new("REASSEMBLED")])
        .read(|all| all.reassembled.into()),
    Component::new(34, "cache_hits", PACKET_COUNTER, "0")
        .about("Interests answered by rules with `cache`.")
        .shown(&[Cell::new("CACHE HITS")])
        .read(|all| all.cache.hits.into()),
    Component::new(35, "cache_misses", PACKET_COUNTER, "0")
        .about("Interests forwarded because their chunk was not in the cache.")
        .shown(&[Cell::new("CACHE MISSES")])
        .read(|all| all.cache.misses.into()),
    Component::new(36, "cache_stored", COUNTER, "0")
        .about("Chunks stored by rules with `cache`.")
        .shown(&[Cell::new("CACHE STORED")])
        .read(|all| all.cache.stored.into()),
    Component::new(37, "cache_evicted", COUNTER, "0")
        .about("Chunks evicted from a full cache.")
        .shown(&[Cell::new("CACHE EVICTED")])
        .read(|all| all.cache.evicted.into()),
    Component::new(38, "cache_refused", PACKET_COUNTER, "0")
        .about("Data that a cache did not store because no interest requested it there or it was larger than the \
                cache.")
        .shown(&[Cell::new("CACHE REFUSED")])
        .read(|all| all.cache.refused.into()),
];

/// The name component of a section that has no row in a table.
const fn name(example: &'static str, about: &'static str) -> Component {
    Component::new(1, "name", TEXT, example).about(about)
}

pub(super) static INTERFACES: Class = Class {
    name: "fpf_interfaces",
    id: 0x00F7_0110,
    about: "interfaces of flexible packet forwarding: a port, a VLAN of a port, or a GRE tunnel",
    key: &["name"],
    has_instances: true,
    parameters: Part::Interface.parameters(),
    components: &[name("core", "Name of the interface.")],
    ..Class::PLAIN
};

pub(super) static RULES: Class = Class {
    name: "fpf_rules",
    id: 0x00F7_0111,
    about: "rules of flexible packet forwarding: the action for packets, by input interface and LID",
    key: &["name"],
    has_instances: true,
    parameters: Part::Rule.parameters(),
    components: &[name("to-b", "Name of the rule.")],
    ..Class::PLAIN
};

pub(super) static ENCAPSULATIONS: Class = Class {
    name: "fpf_encapsulations",
    id: 0x00F7_0005,
    about: "packets that get an FPF header at this router, and their paths",
    key: &["name"],
    has_instances: true,
    parameters: Part::Encapsulation.parameters(),
    metric: Some("fpf_encapsulation"),
    components: &components::<Encapsulated, { ENCAPSULATED.len() }>(ENCAPSULATED),
    layout: Layout {
        empty: "No encapsulations are configured.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

struct Encapsulated;

impl Row for Encapsulated {
    type View<'a> = ActiveEncapsulation;
}

const ENCAPSULATED: &[Column<Encapsulated>] = &[
    Component::new(1, "name", TEXT, "video")
        .about("Name of the encapsulation.")
        .shown(&[Cell::new("NAME")])
        .read(|in_force| in_force.name.as_str().into()),
    Component::new(20, "count", COUNT, "")
        .about("Packets that got the header.")
        .shown(&[
            Cell::new("PACKETS").of("packets").since_start(),
            Cell::new("BYTES").of("bytes").since_start(),
            Cell::new("PKT/S NOW").of("packets").form(Form::PerSecond),
        ])
        .read(|in_force| in_force.listed.hits.into()),
    Component::new(21, "policed", COUNT, "")
        .about("Packets dropped because they exceeded the rate `police`.")
        .shown(&[Cell::new("POLICED").of("packets").since_start()])
        .read(|in_force| in_force.listed.policed.into()),
    Component::new(22, "overflowed", COUNT, "")
        .about("Packets dropped because `shape_limit` packets were already waiting for the rate `shape`.")
        .shown(&[Cell::new("OVERFLOWED").of("packets").since_start()])
        .read(|in_force| in_force.queue.dropped.into()),
    Component::new(23, "waiting", HELD, "")
        .about("Packets waiting for the rate `shape` now.")
        .shown(&[Cell::new("WAITING").of("packets")])
        .read(|in_force| in_force.queue.waiting.into()),
];

pub(super) static CLASSES: Class = Class {
    name: "fpf_classes",
    id: 0x00F7_0006,
    about: "flows that get an FPF header because of their protocol or server name, by class",
    key: &["name"],
    has_instances: true,
    parameters: Part::Class.parameters(),
    metric: Some("fpf_class"),
    components: &components::<OfClass, { OF_CLASS.len() }>(OF_CLASS),
    layout: Layout {
        empty: "No classes of flows are configured.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

struct OfClass;

impl Row for OfClass {
    type View<'a> = classes::ActiveClass;
}

const OF_CLASS: &[Column<OfClass>] = &[
    Component::new(1, "name", TEXT, "voice")
        .about("Name of the class.")
        .shown(&[Cell::new("NAME")])
        .read(|class| class.name.as_str().into()),
    Component::new(20, "flows", NUMBER, "12")
        .about("Flows that follow the paths of the class now.")
        .shown(&[Cell::new("FLOWS")])
        .read(|class| u64::from(class.flows).into()),
    Component::new(21, "classified", COUNTER, "150")
        .about("Flows that the classifier assigned to the class.")
        .shown(&[Cell::new("CLASSIFIED").since_start()])
        .read(|class| class.classified.into()),
    Component::new(22, "count", COUNT, "")
        .about("Packets that got the header.")
        .shown(&[
            Cell::new("PACKETS").of("packets").since_start(),
            Cell::new("BYTES").of("bytes").since_start(),
            Cell::new("PKT/S NOW").of("packets").form(Form::PerSecond),
        ])
        .read(|class| class.hits.into()),
    Component::new(23, "policed", COUNT, "")
        .about("Packets dropped because their flow exceeded the rate `police`.")
        .shown(&[Cell::new("POLICED").of("packets").since_start()])
        .read(|class| class.policed.into()),
];
