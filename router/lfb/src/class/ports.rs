//! The ports and their links.

use weir_base::Tally;
use weir_model::Value;
use weir_model::class::{COUNT, Cell, Class, Condition, Event, Layout};
use weir_path::ip::tables::Interface;
use weir_path::plane::{Plane, PlanePort};
use weir_path::translation::Side;
use weir_wire::mac;

use super::{
    BYTE_COUNTER, BYTES, Block, COUNTER, Column, FLAG, IN, OUT, PACKET_COUNTER, RATE_BPS, Row,
    Source, TEXT, component, components, rows,
};
use crate::port;

pub(crate) static PORTS: Block = Block {
    class: Class {
        name: "ports",
        id: 0x00F7_0102,
        about: "ports and their links: state, rate, received and sent frames",
        key: &["port"],
        has_instances: true,
        parameters: port::PARAMETERS,
        metric: Some("port"),
        components: &components::<PortRow, { COLUMNS.len() }>(COLUMNS),
        events: EVENTS,
        layout: Layout {
            totals_apart: true,
            beside: Some((
                "netfilter",
                "Netfilter chains of this machine that forwarded packets bypass: {} (`weir show netfilter`).",
            )),
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Ports(|plane, devices| rows(COLUMNS, ports(plane, devices))),
};

/// Counters of the device behind a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Device {
    /// Whether the device is up.
    pub up: bool,
    /// Frames lost before the router saw them.
    pub missed: u64,
    /// Frames that the device refused.
    pub refused: u64,
    /// Frames of the kernel itself that its rules dropped.
    pub local_dropped: Tally,
}

const EVENTS: &[Event] = &[
    Event {
        id: 1,
        name: "carrier_lost",
        about: "The link lost its carrier.",
        target: "carrier",
        condition: Condition::BecomesEqualTo, // false, the default of the threshold
        reports: &["port"],
    },
    Event {
        id: 2,
        name: "carrier_found",
        about: "The link has its carrier again.",
        target: "carrier",
        condition: Condition::GreaterThan, // false
        reports: &["port"],
    },
    Event {
        id: 3,
        name: "interface_renamed",
        about: "The interface was renamed; the port follows it.",
        target: "interface",
        condition: Condition::Changed,
        reports: &["port", "interface"],
    },
    Event {
        id: 4,
        name: "interface_gone",
        about: "The interface no longer exists; the port waits for it to return.",
        target: "present",
        condition: Condition::BecomesEqualTo, // false
        reports: &["port", "interface"],
    },
    Event {
        id: 5,
        name: "interface_back",
        about: "The interface exists again; the port resumes forwarding.",
        target: "present",
        condition: Condition::GreaterThan, // false
        reports: &["port", "interface"],
    },
];

struct PortRow;

struct PortView<'a> {
    slot: &'a PlanePort,
    device: &'a Device,
    interface: Option<&'a Interface>,
    up: bool,
    carrier: bool,
}

impl PortView<'_> {
    fn translation(&self, read: impl Fn(&Side) -> u64) -> Value {
        self.slot.translates.as_ref().map(read).into()
    }
}

impl Row for PortRow {
    type View<'a> = PortView<'a>;
}

fn ports<'a>(plane: &'a Plane, devices: &'a [Device]) -> impl Iterator<Item = PortView<'a>> {
    let ports = plane.ports().iter().zip(devices).enumerate();
    ports.map(|(number, (slot, device))| PortView {
        slot,
        device,
        interface: plane.interface(number),
        up: device.up && plane.is_up(number),
        carrier: plane.has_carrier(number).unwrap_or(false),
    })
}

const COLUMNS: &[Column<PortRow>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the port in the configuration.")
        .shown(&[Cell::new("PORT")])
        .read(|port| port.slot.name.as_str().into()),
    component(2, "interface", TEXT, "eth1")
        .about("Name of the network interface.")
        .shown(&[Cell::new("INTERFACE")])
        .read(|port| port.slot.interface.as_str().into()),
    component(13, "state", TEXT, "up")
        .about("`up`, `no carrier` or `down`.")
        .shown(&[Cell::new("STATE")])
        .read(|port| match (port.up, port.carrier) {
            (true, true) => "up".into(),
            (true, false) => "no carrier".into(),
            (false, _) => "down".into(),
        }),
    component(3, "up", FLAG, "true")
        .about("Whether the interface is administratively up and the device works.")
        .read(|port| port.up.into()),
    component(4, "carrier", FLAG, "true")
        .about("Whether the link has a carrier: a cable with a working device at the other end.")
        .read(|port| port.carrier.into()),
    component(5, "rate_bps", RATE_BPS, "95000000")
        .optional()
        .about("Rate that the port is paced to; null if it is not paced.")
        .shown(&[Cell::new("PACED TO")])
        .read(|port| port.slot.port.link().rate.into()),
    component(6, "discipline", TEXT, "fq_codel")
        .about("Kind of discipline.")
        .shown(&[Cell::new("DISCIPLINE")])
        .read(|port| port.slot.port.queue().spec().kind().into()),
    component(7, "received", COUNT, "")
        .about("Frames received.")
        .shown(IN)
        .read(|port| port.slot.received.into()),
    component(8, "sent", COUNT, "")
        .about("Frames sent.")
        .shown(OUT)
        .read(|port| port.slot.sent().into()),
    component(9, "charged", COUNT, "")
        .about("Frames sent by the kernel itself, which count towards the rate of the port.")
        .shown(&[Cell::new("LOCAL SENT").of("packets").since_start()])
        .read(|port| port.slot.charged.into()),
    component(10, "local_dropped", COUNT, "")
        .about(
            "Frames of the kernel itself that were dropped because they exceeded the machine's own share of the port \
             (`local_share`).",
        )
        .shown(&[Cell::new("LOCAL DROPPED").of("packets").since_start()])
        .read(|port| port.device.local_dropped.into()),
    component(11, "missed", PACKET_COUNTER, "0")
        .about("Frames lost because the receive ring was full.")
        .shown(&[Cell::new("RING LOST").since_start()])
        .read(|port| port.device.missed.into()),
    component(12, "refused", PACKET_COUNTER, "0")
        .about("Frames that the device refused to send.")
        .shown(&[Cell::new("REFUSED").since_start()])
        .read(|port| port.device.refused.into()),
    component(14, "mac", TEXT, "02:00:00:00:00:01")
        .optional()
        .about("MAC address of the interface; null while there is no interface.")
        .read(|port| port.interface.map(|of| mac::shown(&of.mac)).into()),
    component(15, "mtu", BYTES, "1500")
        .optional()
        .about(
            "Longest layer-3 packet that the interface carries; null while there is no interface.",
        )
        .read(|port| port.interface.map(|of| u64::from(of.mtu)).into()),
    component(16, "present", FLAG, "true")
        .about("Whether the interface exists.")
        .read(|port| port.interface.is_some().into()),
    component(17, "charge", TEXT, "+24 B, at least 84 B")
        .varying()
        .about("Bytes that a frame takes of the rate beyond its layer-2 length (`overhead`, `mpu`, `framing`).")
        .shown(&[Cell::new("WIRE OVERHEAD")])
        .read(|port| port.slot.port.link().framing.to_string().into()),
    component(18, "on_wire", BYTE_COUNTER, "0")
        .about("Bytes on the wire, including `charge`, of sent frames and of the kernel's own frames.")
        .read(|port| port.slot.on_the_wire().into()),
    component(19, "nat_questions", COUNTER, "0")
        .optional()
        .about("Queries to connection tracking for the hosts behind translated addresses; null except in mode `queue`.")
        .read(|port| port.translation(|side| side.questions)),
    component(20, "nat_unasked", PACKET_COUNTER, "0")
        .optional()
        .about(
            "Packets whose host was not looked up because the queries of the port are limited; their flows keep the \
             outer address.",
        )
        .read(|port| port.translation(|side| side.unasked)),
];
