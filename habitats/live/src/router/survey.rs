//! Reads the facts about this machine on which a plan depends.

use std::collections::BTreeMap;
use std::fs;

use weir_element::{Facts, Unfit};
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_path::plane::Mode;

use super::bypass;
use super::ports::frame_bytes_max;
use crate::device::af_packet;
use crate::kernel::bridge;
use crate::kernel::netfilter::BypassedChain;

/// Settings that switch off forwarding, and the value with which they do.
const FORWARDING: [(&str, &str); 2] = [
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv6/conf/all/forwarding", "0"),
];
/// The same for the interface of a port.
const FORWARDING_AT: [(&str, &str, &str); 2] = [
    ("net/ipv4/conf", "forwarding", "0"),
    ("net/ipv6/conf", "disable_ipv6", "1"),
];

/// Reads the facts for a start. If an interface cannot be a port, nothing else matters.
pub fn survey(plan: &Plan) -> Facts {
    let unfit = unfit(plan);
    match unfit.is_empty() {
        true => all(plan).0,
        false => Facts {
            unfit,
            ..Facts::default()
        },
    }
}

/// Reads all facts, and the netfilter chains that forwarded packets would bypass.
pub(super) fn all(plan: &Plan) -> (Facts, Vec<BypassedChain>) {
    let chains = bypass::read(plan).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read which rules of this machine forwarded packets would bypass");
        Vec::new()
    });
    let facts = Facts {
        unfit: unfit(plan),
        bypassed: chains.iter().map(ToString::to_string).collect(),
        forwarding_off: forwarding_off(plan),
        // Without netlink, no router can start anyway.
        bridges: match plan.router.mode {
            Mode::Bridged => bridge::masters().ok(),
            Mode::Routed => None,
        },
        ..frames(plan)
    };
    (facts, chains)
}

/// Reads the frame sizes only: nothing else matters as long as every port keeps its interface.
pub(super) fn frames(plan: &Plan) -> Facts {
    let sizes = plan.ports.iter();
    let sizes = sizes.map(|port| (port.interface.clone(), frame_bytes_max(&port.interface)));
    Facts {
        frame_bytes_max: sizes.collect(),
        ..Facts::default()
    }
}

fn unfit(plan: &Plan) -> BTreeMap<String, Unfit> {
    let of_port = |port: &PortPlan| {
        let unfit = match (port.is_tun, af_packet::is_ethernet(&port.interface)) {
            // A TUN of this name may be that of the router for which `weir check` asks; if not, it cannot be made.
            (false, Ok(true)) | (true, Err(_) | Ok(false)) => return None,
            (false, Ok(false)) => Unfit::NotEthernet,
            (false, Err(error)) => Unfit::Missing(error.to_string()),
            (true, Ok(true)) => Unfit::Taken,
        };
        Some((port.interface.clone(), unfit))
    };
    plan.ports.iter().filter_map(of_port).collect()
}

/// The settings that switch off forwarding, in all or at a port.
fn forwarding_off(plan: &Plan) -> Vec<String> {
    let has = |(name, value): &(String, &str)| {
        let found = fs::read_to_string(format!("/proc/sys/{name}"));
        found.is_ok_and(|found| found.trim() == *value)
    };
    let all = FORWARDING.map(|(name, value)| (name.to_owned(), value));
    let all: Vec<_> = all.into_iter().filter(has).collect();
    let at_port = |port: &PortPlan| {
        let of = |(folder, name, value): (&str, &str, _)| {
            (format!("{folder}/{}/{name}", port.interface), value)
        };
        FORWARDING_AT.map(of)
    };
    let at_ports = plan.ports.iter().flat_map(at_port).filter(has);
    // Switched off for all ports says it once.
    let is_said = |name: &str| all.iter().any(|(one, _)| one[..8] == name[..8]);
    let at_ports: Vec<_> = at_ports.filter(|(name, _)| !is_said(name)).collect();
    let settings = all.iter().chain(&at_ports);
    settings
        .map(|(name, value)| format!("{name} is {value}"))
        .collect()
}
