//! Reads the facts about this machine on which a plan depends.

use std::collections::BTreeMap;

use weir_element::{Facts, Unfit};
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_path::plane::Mode;

use super::ports::frame_bytes_max;
use crate::device::{Layer, interface};
use crate::kernel::bridge;
use crate::kernel::state::{self, Scope};
use crate::kernel::transit::Side;

/// Reads the facts for a start. If an interface cannot be a port, the other facts do not matter.
pub fn survey(plan: &Plan) -> Facts {
    let unfit = unfit(plan);
    if unfit.is_empty() {
        all(plan)
    } else {
        Facts {
            unfit,
            ..Facts::default()
        }
    }
}

/// Reads all facts.
pub(super) fn all(plan: &Plan) -> Facts {
    let side = |port: &PortPlan| Side {
        interface: port.interface.clone(),
        direction: port.direction,
    };
    let scope = Scope {
        mode: plan.router.mode,
        ports: plan.ports.iter().map(side).collect(),
    };
    Facts {
        findings: state::read(&scope).findings,
        bridges: bridges(plan.router.mode),
        unfit: unfit(plan),
        ..frames(plan)
    }
}

/// Reads the frame sizes only: the other facts do not matter as long as every port keeps its interface.
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
        let unfit = match (port.is_tun, interface::layer(&port.interface)) {
            (false, Ok(Some(Layer::Frames))) => return None,
            (false, Ok(Some(Layer::Packets))) if plan.router.mode == Mode::Queue => return None,
            (false, Ok(_)) => Unfit::NotEthernet,
            (false, Err(error)) => Unfit::Missing(error.to_string()),
            (true, Ok(Some(Layer::Frames))) => Unfit::Taken,
            // A TUN of this name may belong to the router on whose behalf `weir check` runs; if not, creating it fails.
            (true, _) => return None,
        };
        Some((port.interface.clone(), unfit))
    };
    plan.ports.iter().filter_map(of_port).collect()
}

/// The kernel's bridge that each interface is in. Without netlink, no router can start anyway.
pub(super) fn bridges(mode: Mode) -> Option<BTreeMap<String, u32>> {
    match mode {
        Mode::Bridged => bridge::masters().ok(),
        Mode::Routed | Mode::Queue => None,
    }
}
