//! Filters of traffic control and BPF programs (tcx) at ports: behind the packet tap, or around the queue.

use std::io;

use weir_element::Finding;
use weir_element::kernel::kinds::{TC_BY_MARK, TC_INGRESS, TC_REDIRECT, TC_TWICE};
use weir_lfb::port::Direction;
use weir_path::plane::Mode;

use super::Scope;
use crate::device::interface;
use crate::kernel::netlink::NetlinkSocket;
use crate::kernel::traffic_control::{EGRESS, INGRESS, ROOT, filters};
use crate::sys;

/// The filters and programs at the ports that do not act as without the router.
pub(super) fn read(scope: &Scope) -> io::Result<Vec<Finding>> {
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
    let mut findings = Vec::new();
    for port in &scope.ports {
        let name = &port.interface;
        let Ok(index) = interface::index(name) else {
            continue; // nothing is attached to a missing interface
        };
        let mut find = |kind, what| findings.push(Finding::new(kind, format!("{name}: {what}")));
        let (any, redirects) = match (scope.mode, port.direction) {
            (Mode::Queue, Direction::Out) => {
                for parent in [EGRESS, ROOT] {
                    let filters = filters(&mut socket, index, parent)?.into_iter();
                    filters
                        .filter(|(_, filter)| filter.by_mark)
                        .for_each(|(filter, _)| find(&TC_BY_MARK, filter));
                }
                continue;
            }
            (Mode::Queue, Direction::In) => (&TC_TWICE, &TC_TWICE),
            (Mode::Routed | Mode::Bridged, _) => (&TC_INGRESS, &TC_REDIRECT),
        };
        for (what, filter) in filters(&mut socket, index, INGRESS)? {
            find(if filter.redirects { redirects } else { any }, what);
        }
        let programs = sys::tcx_ingress_programs(index);
        // The query fails without the privilege, or before Linux 6.6.
        if let Some(count) = programs.ok().filter(|count| *count > 0) {
            find(any, format!("tcx programs: {count}"));
        }
    }
    Ok(findings)
}
