//! The reports: what a plane says of itself, by value.

use weir_base::{Instant, Tally};
use weir_discipline::{FlowClass, FlowReport, FlowStanding};
use weir_model::report::{
    AdmissionReport, DropReport, HogQuery, HogReport, NeighbourReport, PortReport, QueueReport,
    RouteReport,
};
use weir_packet::Reason;
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
            parameters: settings
                .iter()
                .map(|(name, setting)| (name.to_owned(), setting.to_string()))
                .collect(),
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

/// Flows in one answer at most: the forwarding thread waits for it.
const HOGS_MAX: usize = 1000;

/// The flows that classifiers know by identity, fastest first.
pub fn hogs(plane: &Plane, now: Instant, query: HogQuery) -> Vec<HogReport> {
    let mut hogs: Vec<(&str, FlowReport)> = Vec::new();
    for slot in plane.ports() {
        slot.port.queue().flows(now, &mut |flow| {
            let asked = query.all || flow.standing != FlowStanding::Watched;
            if asked && flow.standing.is_of_classifier() {
                hogs.push((&slot.name, flow));
            }
        });
    }
    hogs.sort_by_key(|(_, flow)| std::cmp::Reverse(flow.rate));
    hogs.truncate(query.most.min(HOGS_MAX));
    let report = |(port, flow): (&str, FlowReport)| HogReport {
        port: port.to_owned(),
        flow: flow.key.to_string(),
        key: flow.kind.word().to_owned(),
        standing: standing(flow.standing).to_owned(),
        rate_bps: flow.rate.as_bps(),
        seen: flow.seen.into(),
        known_s: now.since(flow.since).as_secs_f64(),
        silent_s: now.since(flow.latest).as_secs_f64(),
    };
    hogs.into_iter().map(report).collect()
}

/// Flows of a port that are told at most: an admission control may know a million.
const FLOWS_MAX: usize = 1000;

/// The flows that admission controls accepted or let wait: of each port those who wait first, the longest
/// before others; then by their latest packet.
pub fn flows(plane: &Plane, now: Instant) -> Vec<AdmissionReport> {
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
        flows.truncate(FLOWS_MAX);
        all.extend(flows.iter().map(|flow| AdmissionReport {
            port: slot.name.clone(),
            flow: flow.key.to_string(),
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
        }));
    }
    all
}

fn standing(standing: FlowStanding) -> &'static str {
    match standing {
        FlowStanding::Watched => "watched",
        FlowStanding::Hog => "hog",
        FlowStanding::Pinned => "pinned",
        FlowStanding::Accepted(_) => "accepted",
        FlowStanding::Waiting => "waiting",
        FlowStanding::SetAside => "set aside",
        FlowStanding::Blocked => "blocked",
    }
}

/// The routes in force.
pub fn routes(tables: &Tables) -> Vec<RouteReport> {
    let hop = |hop: &NextHop| {
        let name = tables
            .interfaces
            .get(&hop.interface)
            .map_or("?", |i| i.name.as_str());
        match hop.gateway {
            Some(gateway) => format!("via {gateway} dev {name} weight {}", hop.weight),
            None => format!("dev {name} weight {}", hop.weight),
        }
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
            interface: tables
                .interfaces
                .get(&neighbour.0)
                .map_or_else(|| format!("#{}", neighbour.0), |i| i.name.clone()),
            mac: tables
                .neighbours
                .get(neighbour)
                .and_then(|known| known.mac())
                .map(|mac| show_mac(&mac)),
            waiting: waiting.count(neighbour) as u64,
        })
        .collect()
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
            meaning: reason.sentence().to_owned(),
            loss: reason.is_loss(),
            count: plane.fates().ended(reason).into(),
        })
        .filter(|drop| drop.count.packets > 0)
        .collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.count.packets));
    drops
}
