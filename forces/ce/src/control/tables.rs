//! Tables of the FEs and their associations.

use weir_base::{Instant, Span};
use weir_lfb::named::Named;
use weir_model::class::{Cell, Form, Layout, Type, Unit};
use weir_model::column::{Column, Row, components, rows};
use weir_model::{Class, Component, ElementPath, Value};
use weir_protocol::session::ce::{LinkId, Statistics};
use weir_protocol::wire::Id;
use weir_protocol::wire::header::VERSION;

use super::Control;
use super::member::{Fe, State};
use crate::codec::Codec;
use crate::settings::BlockId;

pub(super) const NUMBER: Type = Type::Gauge(Unit::One);
const COUNTER: Type = Type::Counter(Unit::One);

pub(super) const NAME_OF_FE: Component = Component::new(1, "fe", Type::Text, "edge1")
    .about("Name of the FE in the configuration of the CE.")
    .shown(&[Cell::new("FE")]);

impl Control {
    /// The rows of the table [`FES`].
    pub fn fes(&self) -> Value {
        rows(COLUMNS_OF_FES, self.fes.values())
    }

    /// The rows of the table [`ASSOCIATIONS`].
    pub fn associations(&self, now: Instant) -> Value {
        let row = |(id, link)| {
            let statistics = self.ce.statistics(id)?;
            Some(Association {
                fe: self.fes.get(&id)?,
                ce: self.params.session.id,
                up: now.since(statistics.since),
                statistics,
                requests: self.ce.requests(id),
                peer: self.peers.get(&link).map_or("", |peer| &peer.address),
            })
        };
        rows(COLUMNS_OF_ASSOCIATIONS, self.ce.fes().filter_map(row))
    }

    /// The rows of the table [`LFBS`].
    pub fn lfbs(&self) -> Value {
        let codec = &self.codec;
        let associated = self.fes.values().filter(|fe| fe.is_associated());
        let all = associated.flat_map(|fe| {
            let blocks = fe.directory.blocks.values();
            blocks.map(move |block| Lfb {
                fe,
                codec,
                block: *block,
                path: self.path_of(fe.id, *block, &[]),
            })
        });
        rows(COLUMNS_OF_LFBS, all)
    }

    /// The link of each associated FE, with the FE's name.
    pub fn links(&self) -> impl Iterator<Item = (&str, LinkId)> {
        let name = |(id, link)| Some((&*self.fes.get(&id)?.name, link));
        self.ce.fes().filter_map(name)
    }
}

impl Row for Fe {
    type View<'a> = &'a Self;
}

/// The FEs that may associate.
pub static FES: Class = Class {
    name: "fes",
    metric: Some("fe"),
    id: 0x00F7_0314,
    about: "the forwarding elements that may associate, whether they have the desired configuration, and if not, why",
    key: &["fe"],
    components: &components::<Fe, { COLUMNS_OF_FES.len() }>(COLUMNS_OF_FES),
    layout: Layout {
        empty: "No FE is configured. Add `[fe.NAME]` to the configuration of the CE.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS_OF_FES: &[Column<Fe>] = &[
    NAME_OF_FE
        .read(|fe| fe.name.as_str().into()),
    Component::new(2, "id", NUMBER, "2")
        .about("ForCES ID of the FE.")
        .shown(&[Cell::new("ID")])
        .read(|fe| Value::Whole(fe.id.0.into())),
    Component::new(3, "state", Type::Text, "in sync")
        .about("`away`, `restoring`, `in sync`, `degraded` (its kernel lacks some of its routes) or `refused`.")
        .shown(&[Cell::new("STATE")])
        .read(|fe| state(fe).0.into()),
    Component::new(4, "ports", NUMBER, "2")
        .about("Number of ports of the FE.")
        .shown(&[Cell::new("PORTS")])
        .read(|fe| (fe.directory.of_kind(Named::Port).count() as u64).into()),
    Component::new(5, "blocks", NUMBER, "9")
        .about("Number of LFBs of the FE.")
        .shown(&[Cell::new("BLOCKS")])
        .read(|fe| (fe.directory.blocks.len() as u64).into()),
    Component::new(6, "desired", NUMBER, "3")
        .about("Components that the CE stores for the FE: set or deleted in the configuration or by operators.")
        .shown(&[Cell::new("DESIRED")])
        .read(|fe| {
            let desired = fe.desired.iter().count() + fe.components.len() + fe.routes.len();
            (desired as u64).into()
        }),
    Component::new(7, "why", Type::Text, "the link was lost")
        .optional()
        .varying()
        .about("Why the FE is away, why the desired configuration was refused, or which route its kernel lacks.")
        .shown(&[Cell::new("WHY").or("")])
        .read(|fe| state(fe).1.cloned().into()),
];

/// The state of an FE in a word, and the reason.
pub(super) fn state(fe: &Fe) -> (&'static str, Option<&String>) {
    match &fe.state {
        State::Away(why) => ("away", Some(why)),
        State::Restoring => ("restoring", None),
        State::InSync if fe.lacks.is_none() => ("in sync", None),
        State::InSync => ("degraded", fe.lacks.as_ref()),
        State::Refused(why) => ("refused", Some(why)),
    }
}

struct Association<'a> {
    fe: &'a Fe,
    ce: Id,
    up: Span,
    statistics: Statistics,
    requests: usize,
    peer: &'a str,
}

impl Row for Association<'_> {
    type View<'a> = Association<'a>;
}

/// The associations (forcesAssociationTable of RFC 5813).
pub static ASSOCIATIONS: Class = Class {
    name: "associations",
    metric: Some("association"),
    id: 0x00F7_0315,
    about: "the associations of the control element: their uptimes and messages",
    key: &["fe"],
    components: &components::<Association, { COLUMNS_OF_ASSOCIATIONS.len() }>(
        COLUMNS_OF_ASSOCIATIONS,
    ),
    layout: Layout {
        empty: "No FE is associated. `weir show fes` shows why.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS_OF_ASSOCIATIONS: &[Column<Association>] = &[
    NAME_OF_FE.read(|row| row.fe.name.as_str().into()),
    Component::new(2, "ce_id", NUMBER, "1073741825")
        .about("ForCES ID of the CE.")
        .read(|row| Value::Whole(row.ce.0.into())),
    Component::new(3, "fe_id", NUMBER, "2")
        .about("ForCES ID of the FE.")
        .shown(&[Cell::new("ID")])
        .read(|row| Value::Whole(row.fe.id.0.into())),
    Component::new(4, "version", NUMBER, "1")
        .about("ForCES protocol version.")
        .read(|_| Value::Whole(VERSION.into())),
    Component::new(5, "up_s", Type::Real(Unit::Seconds), "12.5")
        .about("Uptime of the association.")
        .shown(&[Cell::new("UP").form(Form::Elapsed)])
        .read(|row| row.up.into()),
    Component::new(6, "heartbeats_sent", COUNTER, "3")
        .about("Heartbeats sent to the FE.")
        .shown(&[Cell::new("HEARTBEATS OUT")])
        .read(|row| row.statistics.heartbeats_sent.into()),
    Component::new(7, "heartbeats_received", COUNTER, "3")
        .about("Heartbeats received from the FE.")
        .shown(&[Cell::new("HEARTBEATS IN")])
        .read(|row| row.statistics.heartbeats_received.into()),
    Component::new(8, "messages_sent", COUNTER, "17")
        .about("Messages sent to the FE, except heartbeats, setup responses and teardowns.")
        .shown(&[Cell::new("MESSAGES OUT")])
        .read(|row| row.statistics.operations_sent.into()),
    Component::new(9, "messages_received", COUNTER, "16")
        .about("Messages received from the FE, except heartbeats, setups and teardowns.")
        .shown(&[Cell::new("MESSAGES IN")])
        .read(|row| row.statistics.operations_received.into()),
    Component::new(10, "requests", NUMBER, "0")
        .about("Queued and unanswered requests to the FE.")
        .shown(&[Cell::new("REQUESTS")])
        .read(|row| (row.requests as u64).into()),
    Component::new(11, "peer", Type::Text, "192.0.2.7:41234")
        .varying()
        .about("Transport and address of the FE.")
        .shown(&[Cell::new("PEER")])
        .read(|row| row.peer.into()),
];

struct Lfb<'a> {
    fe: &'a Fe,
    codec: &'a Codec,
    block: BlockId,
    path: ElementPath,
}

impl Row for Lfb<'_> {
    type View<'a> = Lfb<'a>;
}

/// LFBs of the associated FEs.
pub static LFBS: Class = Class {
    name: "lfbs",
    id: 0x00F7_0318,
    about: "the LFBs of the associated forwarding elements: class and instance",
    key: &["fe", "class", "instance"],
    components: &components::<Lfb, { COLUMNS_OF_LFBS.len() }>(COLUMNS_OF_LFBS),
    layout: Layout {
        empty: "No FE is associated. `weir show fes` shows why.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS_OF_LFBS: &[Column<Lfb>] = &[
    NAME_OF_FE.read(|row| row.fe.name.as_str().into()),
    Component::new(2, "class", Type::Text, "ports")
        .about("Name of the class, or its ID if the CE does not know the class.")
        .shown(&[Cell::new("CLASS")])
        .read(|row| row.codec.name(row.block.0).into()),
    Component::new(3, "class_id", NUMBER, "16187650")
        .about("ID of the class.")
        .read(|row| Value::Whole(row.block.0.into())),
    Component::new(4, "instance", Type::Text, "1")
        .about("Number of the instance.")
        .shown(&[Cell::new("INSTANCE")])
        .read(|row| row.block.1.to_string().into()),
    Component::new(5, "port", Type::Text, "wan")
        .optional()
        .about("The port, or other named section, to which the LFB belongs.")
        .shown(&[Cell::new("NAME")])
        .read(|row| row.fe.directory.name_of(row.block).cloned().into()),
    Component::new(6, "about", Type::Text, "the ports and their links")
        .optional()
        .about("Description of the class.")
        .shown(&[Cell::new("MEANING").or("unknown class: load its library")])
        .read(|row| {
            let known = row.codec.class(row.block.0);
            known.map(|class| class.about.clone()).into()
        }),
    Component::new(7, "path", Type::Text, "edge1:port.wan")
        .about("Path of the LFB, for `weir get`, `set` and `watch`.")
        .shown(&[Cell::new("PATH")])
        .read(|row| row.path.to_string().into()),
];
