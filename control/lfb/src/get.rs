//! The reports: what a plane says of itself, by value.

use weir_base::setting::Setting;
use weir_base::{Instant, Rate, Tally};
use weir_discipline::{FlowClass, FlowReport, FlowStanding, Threshold};
use weir_model::ChangeValue;
use weir_model::report::{
    AdmissionReport, DropReport, FlowEnds, FlowQuery, HogQuery, HogReport, NeighbourReport,
    NextHopReport, PortReport, QueueReport, RouteReport,
};
use weir_packet::{FlowKey, Reason};
use weir_path::plane::Plane;
use weir_path::tables::{Action, NextHop, Tables};

/// What only the device behind a port can count.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceState {
    /// Whether the device works.
    pub up: bool,
    /// Frames lost before the router saw them.
    pub missed: u64,
    /// Frames that the device refused.
    pub refused: u64,
    /// Frames of the kernel itself that its rules dropped.
    pub local_dropped: Tally,
}

/// The ports; `devices` has one entry for each, in the same order.
pub fn ports(plane: &Plane, devices: &[DeviceState]) -> Vec<PortReport> {
    let ports = plane.ports().iter().zip(devices).enumerate();
    ports
        .map(|(number, (slot, device))| PortReport {
            port: slot.name.clone(),
            interface: slot.interface.clone(),
            up: device.up && plane.is_up(number),
            carrier: plane.has_carrier(number).unwrap_or(false),
            rate_bps: slot.port.link().rate.map(weir_base::Rate::as_bps),
            discipline: slot.port.queue().spec().kind().to_owned(),
            received: slot.received.into(),
            sent: slot.port.sent().into(),
            charged: slot.charged.into(),
            local_dropped: device.local_dropped.into(),
            missed: device.missed,
            refused: device.refused,
        })
        .collect()
}

/// The disciplines.
pub fn queues(plane: &Plane) -> Vec<QueueReport> {
    let report = |slot: &weir_path::plane::PlanePort| {
        let queue = slot.port.queue();
        let ledger = queue.ledger();
        let mut gauges = std::collections::BTreeMap::new();
        queue.inspect(&mut |name, value| {
            gauges.insert(name.to_owned(), value);
        });
        let settings = queue.spec().settings();
        QueueReport {
            port: slot.name.clone(),
            discipline: queue.spec().kind().to_owned(),
            parameters: settings.iter().map(parameter).collect(),
            received: ledger.received.into(),
            sent: ledger.sent.into(),
            dropped: ledger.dropped.into(),
            marked: ledger.marked.into(),
            backlog: queue.backlog().into(),
            gauges,
        }
    };
    plane.ports().iter().map(report).collect()
}

/// A parameter for a program: a number where it is one, its unit in the name.
fn parameter((name, setting): (&'static str, &Setting)) -> (String, ChangeValue) {
    // What a parser of JSON takes for a whole number ends below 2^63.
    let whole = |n: u64| ChangeValue::Integer(i64::try_from(n).unwrap_or(i64::MAX));
    let (unit, value) = match setting {
        Setting::Count(n) => ("", whole(*n)),
        Setting::Ratio(x) => ("", ChangeValue::Real(*x)),
        Setting::Span(span) => ("_s", ChangeValue::Real(span.as_secs_f64())),
        Setting::Rate(rate) => ("_bps", whole(rate.as_bps())),
        Setting::Bytes(bytes) => ("_bytes", whole(bytes.0)),
        Setting::Flag(on) => ("", ChangeValue::Flag(*on)),
        Setting::Word(word) => ("", ChangeValue::Text((*word).to_owned())),
        Setting::Text(text) => ("", ChangeValue::Text(text.clone())),
    };
    (format!("{name}{unit}"), value)
}

/// Flows in one answer at most: the forwarding thread waits for it.
pub const FLOWS_MAX: usize = 10_000;

/// The flows that classifiers know by identity, fastest first.
pub fn hogs(plane: &Plane, now: Instant, query: HogQuery) -> Vec<HogReport> {
    let mut hogs: Vec<(usize, FlowReport)> = Vec::new();
    for (number, slot) in plane.ports().iter().enumerate() {
        slot.port.queue().flows(now, &mut |flow| {
            let asked = query.all || flow.standing != FlowStanding::Watched;
            if asked && flow.standing.is_of_classifier() {
                hogs.push((number, flow));
            }
        });
    }
    hogs.sort_by_key(|(_, flow)| std::cmp::Reverse(flow.rate));
    hogs.truncate(query.limit.min(FLOWS_MAX));
    let report = |(number, flow): (usize, FlowReport)| {
        let slot = &plane.ports()[number];
        HogReport {
            port: slot.name.clone(),
            flow: flow.key.to_string(),
            ends: ends(&flow.key),
            key: flow.kind.word().to_owned(),
            standing: standing(flow.standing).to_owned(),
            rate_bps: flow.rate.as_bps(),
            link_share_ratio: slot.port.link().rate.map(|link| share(flow.rate, link)),
            threshold_packets: match flow.threshold {
                Some(Threshold::Packets(packets)) => Some(packets),
                _ => None,
            },
            threshold_bps: match flow.threshold {
                Some(Threshold::Rate(rate)) => Some(rate.as_bps()),
                _ => None,
            },
            threshold_share_ratio: match flow.threshold {
                Some(Threshold::Share(share)) => Some(share),
                _ => None,
            },
            seen: flow.seen.into(),
            dropped_packets: flow.dropped.unwrap_or(0),
            known_s: now.since(flow.since).as_secs_f64(),
            silent_s: now.since(flow.latest).as_secs_f64(),
        }
    };
    hogs.into_iter().map(report).collect()
}

fn share(flow: Rate, link: Rate) -> f64 {
    flow.as_bps() as f64 / link.as_bps().max(1) as f64
}

/// What is left of a flow's key, in parts.
fn ends(key: &FlowKey) -> FlowEnds {
    let [source, destination] = [key.source, key.destination].map(|bytes| key.address_shown(bytes));
    let port = |port: u16| (port != 0).then_some(port);
    FlowEnds {
        source,
        source_port: port(key.source_port),
        destination,
        destination_port: port(key.destination_port),
        protocol: (key.protocol != 0).then_some(key.protocol),
    }
}

/// The flows that admission controls accepted or let wait: of each port those who wait first, the longest
/// before others; then by their latest packet.
pub fn flows(plane: &Plane, now: Instant, query: FlowQuery) -> Vec<AdmissionReport> {
    let mut all = Vec::new();
    for slot in plane.ports() {
        let mut flows = Vec::new();
        slot.port.queue().flows(now, &mut |flow| {
            if !flow.standing.is_of_classifier() {
                flows.push(flow);
            }
        });
        flows.sort_by_key(|flow| match flow.standing {
            FlowStanding::Waiting => (0, flow.since),
            _ => (1, Instant::ZERO + Instant::FAR_FUTURE.since(flow.latest)),
        });
        flows.truncate(query.limit.min(FLOWS_MAX));
        all.extend(flows.iter().map(|flow| admission(&slot.name, flow, now)));
    }
    all
}

fn admission(port: &str, flow: &FlowReport, now: Instant) -> AdmissionReport {
    AdmissionReport {
        port: port.to_owned(),
        flow: flow.key.to_string(),
        ends: ends(&flow.key),
        standing: standing(flow.standing).to_owned(),
        class: match flow.standing {
            FlowStanding::Accepted(FlowClass::Streaming) => Some("streaming".to_owned()),
            FlowStanding::Accepted(FlowClass::Elastic) => Some("elastic".to_owned()),
            _ => None,
        },
        acceptance_delay_s: flow.waited.unwrap_or_default().as_secs_f64(),
        rate_bps: flow.rate.as_bps(),
        seen: flow.seen.into(),
        known_s: now.since(flow.since).as_secs_f64(),
        silent_s: now.since(flow.latest).as_secs_f64(),
    }
}

fn standing(standing: FlowStanding) -> &'static str {
    match standing {
        FlowStanding::Watched => "watched",
        FlowStanding::Hog => "hog",
        FlowStanding::Pinned => "pinned",
        FlowStanding::Accepted(_) => "accepted",
        FlowStanding::Waiting => "waiting",
        FlowStanding::SetAside => "set_aside",
        FlowStanding::Blocked => "blocked",
    }
}

/// The routes in force.
pub fn routes(tables: &Tables) -> Vec<RouteReport> {
    let hop = |hop: &NextHop| NextHopReport {
        gateway: hop.gateway.map(|gateway| gateway.to_string()),
        interface: interface_name(tables, hop.interface),
        weight: hop.weight,
    };
    tables
        .routes()
        .map(|(prefix, route)| {
            let (action, next_hops) = match &route.action {
                Action::Forward(hops) => ("forward", hops.iter().map(hop).collect()),
                Action::Local => ("local", Vec::new()),
                Action::Blackhole => ("blackhole", Vec::new()),
                Action::Unreachable => ("unreachable", Vec::new()),
                Action::Prohibit => ("prohibit", Vec::new()),
            };
            RouteReport {
                prefix: prefix.to_string(),
                action: action.to_owned(),
                next_hops,
                metric: route.metric,
            }
        })
        .collect()
}

/// The neighbours, and the ones that packets wait for.
pub fn neighbours(plane: &Plane) -> Vec<NeighbourReport> {
    let tables = plane.tables();
    let waiting = plane.waiting();
    let mut all: Vec<_> = tables.neighbours.keys().copied().collect();
    all.extend(waiting.neighbours().copied());
    all.sort_unstable();
    all.dedup();
    all.iter()
        .map(|neighbour| NeighbourReport {
            address: neighbour.1.to_string(),
            interface: interface_name(tables, neighbour.0),
            mac: tables
                .neighbours
                .get(neighbour)
                .and_then(|known| known.mac())
                .map(|mac| show_mac(&mac)),
            waiting: waiting.count(neighbour) as u64,
        })
        .collect()
}

/// An interface that is gone has a number only.
fn interface_name(tables: &Tables, number: u32) -> String {
    let known = tables.interfaces.get(&number);
    known.map_or_else(|| format!("#{number}"), |interface| interface.name.clone())
}

fn show_mac(mac: &[u8; 6]) -> String {
    let bytes: Vec<_> = mac.iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(":")
}

/// What ended, by reason, most packets first; reasons without a count are left out.
pub fn drops(plane: &Plane) -> Vec<DropReport> {
    let mut drops: Vec<_> = Reason::ALL
        .into_iter()
        .map(|reason| DropReport {
            reason: reason.name().to_owned(),
            loss: reason.is_loss(),
            count: plane.fates().ended(reason).into(),
        })
        .filter(|drop| drop.count.packets > 0)
        .collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.count.packets));
    drops
}
