//! Filters of traffic control and BPF programs (tcx) at the ingress of ports, behind the packet tap.

use std::collections::BTreeMap;
use std::io;

use weir_element::Finding;
use weir_element::kernel::kinds::{TC_INGRESS, TC_REDIRECT};

use crate::device::interface;
use crate::kernel::helper::{INGRESS, TCA_KIND};
use crate::kernel::netlink::{NetlinkSocket, Request, attribute, attributes, text, u32_at};
use crate::sys;

/// Length of `struct tcmsg`.
const HEADER_BYTES: usize = 20;
/// Deepest nesting of attributes that is searched.
const DEPTH_MAX: u32 = 8;

/// The filters and programs at these ports.
pub(super) fn read(ports: &[&str]) -> io::Result<Vec<Finding>> {
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
    let mut findings = Vec::new();
    for port in ports {
        let Ok(index) = interface::index(port) else {
            continue; // nothing is attached to a missing interface
        };
        let mut header = [0; HEADER_BYTES];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        header[12..16].copy_from_slice(&INGRESS.to_ne_bytes());
        let request = Request::new(libc::RTM_GETTFILTER, libc::NLM_F_DUMP, &header);
        // By kind and priority; the value is whether an action redirects.
        let mut filters: BTreeMap<String, bool> = BTreeMap::new();
        let dumped = socket.dump(&request, |message| {
            if message.kind == libc::RTM_NEWTFILTER
                && let Some((name, redirects)) = filter(message.payload)
            {
                *filters.entry(name).or_default() |= redirects;
            }
        });
        match dumped {
            Err(error) if !is_absent(&error) => return Err(error),
            _ => {}
        }
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

/// Whether the error means that the interface has no such qdisc, or the kernel no traffic control.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOENT | libc::ENODEV)
    )
}

/// Name of a filter, and whether an action of it redirects.
fn filter(payload: &[u8]) -> Option<(String, bool)> {
    let body = payload.get(HEADER_BYTES..)?;
    let priority = u32_at(payload, 16)? >> 16;
    let kind = text(attribute(body, TCA_KIND)?);
    Some((
        format!("{kind}, pref {priority}"),
        redirects(body, DEPTH_MAX),
    ))
}

/// Whether one of these attributes, at any depth, is the action `mirred` that redirects: each kind of filter has its
/// actions in another place.
fn redirects(bytes: &[u8], depth: u32) -> bool {
    const ACTION_OPTIONS: u16 = 2;
    const PARAMETERS: u16 = 2;
    /// Offset in `struct tc_mirred`.
    const WHAT_AT: usize = 20;
    /// `TCA_EGRESS_REDIR`, `TCA_INGRESS_REDIR`.
    const REDIRECT: [u32; 2] = [1, 3];
    if attribute(bytes, TCA_KIND) == Some(b"mirred\0") {
        let parameters = attribute(bytes, ACTION_OPTIONS).and_then(|o| attribute(o, PARAMETERS));
        let what = parameters.and_then(|p| u32_at(p, WHAT_AT));
        return what.is_none_or(|what| REDIRECT.contains(&what));
    }
    depth > 0 && attributes(bytes).any(|(_, value)| redirects(value, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::messages;
    use proptest::prelude::*;

    #[test]
    fn a_filter_that_redirects_is_told_from_one_that_copies() {
        let read = |what: u32| {
            let mut parameters = [0; 28];
            parameters[20..24].copy_from_slice(&what.to_ne_bytes());
            let mut header = [0; HEADER_BYTES];
            header[16..].copy_from_slice(&(49152_u32 << 16).to_ne_bytes());
            let request = Request::new(libc::RTM_NEWTFILTER, 0, &header)
                .with_text(TCA_KIND, "u32")
                .nested(2, |options| {
                    options.nested(7, |actions| {
                        actions.nested(1, |first| {
                            first
                                .with_text(1, "mirred")
                                .nested(2, |o| o.with(2, &parameters))
                        })
                    })
                });
            let bytes = request.numbered(1);
            filter(messages(&bytes).next().unwrap().payload).unwrap()
        };
        assert_eq!(read(1), ("u32, pref 49152".to_owned(), true));
        assert!(!read(2).1, "a copy for somebody who listens");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = filter(&payload);
        }
    }
}
