//! What a plan needs of this machine's interfaces, so that a fault is shown at its line of the file.

use crate::device::af_packet;
use crate::kernel::bridge;
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_model::{ComponentPath, Fault};
use weir_path::parse::Mode;

/// Ports whose interface is not there or cannot be a port.
pub fn faults(plan: &Plan) -> Vec<Fault> {
    let fault = |port: &PortPlan| {
        let (name, interface) = (&port.name, &port.interface);
        let why = match af_packet::is_ethernet(interface) {
            Ok(true) => return None,
            Ok(false) => format!(
                "port `{name}`: interface `{interface}` carries no Ethernet frames; only Ethernet \
                 interfaces can be ports"
            ),
            Err(error) => format!(
                "port `{name}`: interface `{interface}`: {error}; `ip link` lists the interfaces \
                 of this machine"
            ),
        };
        let path = ComponentPath::new(["port", name, "interface"]);
        Some(Fault::new(path, why))
    };
    plan.ports.iter().filter_map(fault).collect()
}

/// What is missing for the kernel to take over from a bridge when weir ends: a bridge of its own with both
/// ports.
pub(super) fn bridge_doubt(plan: &Plan) -> Option<String> {
    if plan.router.mode != Mode::Bridged {
        return None;
    }
    let masters = bridge::masters().ok()?; // whoever may not ask netlink will not start a router
    let of_port = |port: &PortPlan| masters.get(&port.interface).copied();
    let of_ports: Vec<Option<u32>> = plan.ports.iter().map(of_port).collect();
    if of_ports
        .iter()
        .all(|master| master.is_some() && *master == of_ports[0])
    {
        return None;
    }
    let interfaces: Vec<&str> = plan
        .ports
        .iter()
        .map(|port| port.interface.as_str())
        .collect();
    Some(format!(
        "the interfaces {} are not in one bridge of the kernel: when weir ends, nothing passes (no \
         fail-open). Put them into one: ip link add br0 type bridge; ip link set {} master br0; ip link \
         set br0 up",
        interfaces.join(" and "),
        interfaces.join(" master br0; ip link set "),
    ))
}
