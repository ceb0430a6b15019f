//! What a plan needs of this machine's interfaces, so that a fault is shown at its line of the file.

use weir_lfb::Plan;
use weir_live::device::af_packet;
use weir_model::{ComponentPath, Fault};

/// Ports whose interface is not there or cannot be a port.
pub(crate) fn faults(plan: &Plan) -> Vec<Fault> {
    let fault = |port: &weir_lfb::port::PortPlan| {
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
