//! The neighbours, and the packets that wait for them.

use std::net::IpAddr;

use weir_model::class::{Cell, Class, Layout};
use weir_path::ip::tables::{Mac, Tables};
use weir_path::plane::Plane;
use weir_wire::mac;

use super::{Block, Column, PACKETS, Row, Source, TEXT, component, components, rows};

pub(super) static NEIGHBOURS: Block = Block {
    class: Class {
        name: "neighbours",
        id: 0x00F7_0107,
        about: "neighbours, and packets waiting for their answers",
        key: &["interface", "address"],
        components: &components::<Neighbour, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No neighbours yet: the kernel resolves a neighbour when the first packet for it arrives.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Plane(|plane| rows(COLUMNS, neighbours(plane))),
};

struct Neighbour {
    address: IpAddr,
    interface: String,
    mac: Option<Mac>,
    waiting: u64,
}

impl Row for Neighbour {
    type View<'a> = Self;
}

/// Neighbours in the kernel's table, and neighbours that packets wait for.
fn neighbours(plane: &Plane) -> Vec<Neighbour> {
    let tables = plane.tables();
    let waiting = plane.waiting();
    let mut all: Vec<_> = tables.neighbours.keys().copied().collect();
    all.extend(waiting.neighbours().copied());
    all.sort_unstable();
    all.dedup();
    let row = |neighbour: (u32, IpAddr)| Neighbour {
        address: neighbour.1,
        interface: interface_name(tables, neighbour.0),
        mac: tables
            .neighbours
            .get(&neighbour)
            .and_then(|known| known.mac()),
        waiting: waiting.count(&neighbour) as u64,
    };
    all.into_iter().map(row).collect()
}

/// The name of an interface, or `#` and its number if the interface no longer exists.
pub(super) fn interface_name(tables: &Tables, number: u32) -> String {
    let known = tables.interfaces.get(&number);
    known.map_or_else(|| format!("#{number}"), |interface| interface.name.clone())
}

const COLUMNS: &[Column<Neighbour>] = &[
    component(1, "address", TEXT, "192.0.2.1")
        .about("Address of the neighbour.")
        .shown(&[Cell::new("ADDRESS")])
        .read(|neighbour| neighbour.address.to_string().into()),
    component(2, "interface", TEXT, "eth1")
        .about("Interface of the neighbour.")
        .shown(&[Cell::new("INTERFACE")])
        .read(|neighbour| neighbour.interface.as_str().into()),
    component(3, "mac", TEXT, "02:00:00:00:00:01")
        .optional()
        .about("MAC address of the neighbour; null if it did not answer.")
        .shown(&[Cell::new("MAC").or("no answer")])
        .read(|neighbour| neighbour.mac.as_ref().map(mac::shown).into()),
    component(4, "waiting", PACKETS, "0")
        .about("Packets waiting for the neighbour's answer.")
        .shown(&[Cell::new("WAITING PACKETS")])
        .read(|neighbour| neighbour.waiting.into()),
];
