//! Filters of traffic control and BPF programs (tcx) at the ingress of ports, behind the packet tap.

use std::io;

use weir_element::Finding;
use weir_element::kernel::kinds::{TC_INGRESS, TC_REDIRECT};

use crate::device::interface;
use crate::kernel::netlink::NetlinkSocket;
use crate::kernel::traffic_control::filters;
use crate::sys;

/// The filters and programs at these ports.
pub(super) fn read(ports: &[&str]) -> io::Result<Vec<Finding>> {
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
    let mut findings = Vec::new();
    for port in ports {
        let Ok(index) = interface::index(port) else {
            continue; // nothing is attached to a missing interface
        };
        let filters = filters(&mut socket, index)?;
        findings.extend(filters.into_iter().map(|(name, redirects)| {
            let kind = if redirects { &TC_REDIRECT } else { &TC_INGRESS };
            Finding::new(kind, format!("{port}: {name}"))
        }));
        let programs = sys::tcx_ingress_programs(index);
        // The query fails without the privilege, or before Linux 6.6.
        if let Some(count) = programs.ok().filter(|count| *count > 0) {
            findings.push(Finding::new(
                &TC_INGRESS,
                format!("{port}: tcx programs: {count}"),
            ));
        }
    }
    Ok(findings)
}
