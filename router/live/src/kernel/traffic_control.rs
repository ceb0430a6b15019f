//! Messages of traffic control: the qdisc clsact, and filters.

use std::collections::BTreeMap;
use std::io;

use super::netlink::{NetlinkSocket, Request, attribute, attributes, text, u32_at};

/// Length of `struct tcmsg`.
const HEADER_BYTES: usize = 20;
/// Deepest nesting of attributes that is searched.
const DEPTH_MAX: u32 = 8;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
/// `TC_H_CLSACT` of linux/pkt_sched.h.
const CLSACT: u32 = 0xffff_fff1;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)` of linux/pkt_sched.h; it also selects the qdisc `ingress`.
pub(super) const INGRESS: u32 = 0xffff_fff2;
/// `TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)`.
pub(super) const EGRESS: u32 = 0xffff_fff3;
/// The qdisc through which an interface sends.
pub(super) const ROOT: u32 = 0;

fn tc(kind: u16, device: u32, handle: u32, parent: u32, info: u32) -> Request {
    let words = [0, device, handle, parent, info];
    let header: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Request::new(kind, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &header)
}

/// Adds the qdisc that holds filters at both sides of an interface.
pub(super) fn new_clsact(device: u32) -> Request {
    tc(libc::RTM_NEWQDISC, device, 0xffff_0000, CLSACT, 0).with_text(TCA_KIND, "clsact")
}

/// A filter that matches everything received at `device`, and passes it on as received at `to`. The classifier is
/// `u32`, which every kernel with traffic control has.
pub(super) fn redirection(device: u32, to: u32) -> Request {
    const TCA_U32_SEL: u16 = 5;
    const TCA_U32_ACT: u16 = 7;
    const TCA_ACT_KIND: u16 = 1;
    const TCA_ACT_OPTIONS: u16 = 2;
    const TCA_MIRRED_PARMS: u16 = 2;
    const PRIORITY: u32 = 1 << 16;
    /// `TC_ACT_STOLEN`, `TCA_INGRESS_REDIR`.
    const STOLEN: u32 = 4;
    const TO_INGRESS: u32 = 3;
    // `struct tc_u32_sel`: terminal, one key; the key has an empty mask.
    let mut selector = [0; 32];
    (selector[0], selector[2]) = (1, 1);
    // `struct tc_mirred`
    let parameters = [0, 0, STOLEN, 0, 0, TO_INGRESS, to];
    let parameters: Vec<u8> = parameters.iter().flat_map(|n| n.to_ne_bytes()).collect();
    let protocol = u32::from((libc::ETH_P_ALL as u16).to_be());
    tc(
        libc::RTM_NEWTFILTER,
        device,
        0,
        INGRESS,
        PRIORITY | protocol,
    )
    .with_text(TCA_KIND, "u32")
    .nested(TCA_OPTIONS, |options| {
        options
            .with(TCA_U32_SEL, &selector)
            .nested(TCA_U32_ACT, |actions| {
                actions.nested(1, |action| {
                    action
                        .with_text(TCA_ACT_KIND, "mirred")
                        .nested(TCA_ACT_OPTIONS, |o| o.with(TCA_MIRRED_PARMS, &parameters))
                })
            })
    })
}

/// A filter, which may consist of several rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// Whether an action redirects.
    pub(super) redirects: bool,
    /// Whether it matches marks of packets.
    pub(super) by_mark: bool,
}

/// The filters of an interface at a parent like [`INGRESS`], by kind and priority.
pub(super) fn filters(
    socket: &mut NetlinkSocket,
    interface: u32,
    parent: u32,
) -> io::Result<BTreeMap<String, Filter>> {
    let mut header = [0; HEADER_BYTES];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    let request = Request::new(libc::RTM_GETTFILTER, libc::NLM_F_DUMP, &header);
    let mut filters: BTreeMap<String, Filter> = BTreeMap::new();
    let dumped = socket.dump(&request, |message| {
        if message.kind == libc::RTM_NEWTFILTER
            && let Some((name, rule)) = filter(message.payload)
        {
            let filter = filters.entry(name).or_default();
            filter.redirects |= rule.redirects;
            filter.by_mark |= rule.by_mark;
        }
    });
    match dumped {
        Err(error) if !is_absent(&error) => Err(error),
        _ => Ok(filters),
    }
}

/// Whether the error means that the interface has no such qdisc, or the kernel no traffic control.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOENT | libc::ENODEV)
    )
}

/// Name of a filter, and a rule of it.
fn filter(payload: &[u8]) -> Option<(String, Filter)> {
    const TCA_U32_MARK: u16 = 10;
    let body = payload.get(HEADER_BYTES..)?;
    let priority = u32_at(payload, 16)? >> 16;
    let kind = text(attribute(body, TCA_KIND)?);
    let options = attribute(body, TCA_OPTIONS).unwrap_or_default();
    let rule = Filter {
        redirects: redirects(body, DEPTH_MAX),
        by_mark: match kind.as_str() {
            "fw" => true,
            "u32" => attribute(options, TCA_U32_MARK).is_some(),
            _ => false,
        },
    };
    Some((format!("{kind}, pref {priority}"), rule))
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
        let redirects = Filter {
            redirects: true,
            by_mark: false,
        };
        assert_eq!(read(1), ("u32, pref 49152".to_owned(), redirects));
        assert!(!read(2).1.redirects, "a copy for a listener");
    }

    #[test]
    fn filters_by_mark_are_known_by_their_kind_or_by_a_match() {
        let by_mark = |kind: &str, option: u16| {
            let request = Request::new(libc::RTM_NEWTFILTER, 0, &[0; HEADER_BYTES])
                .with_text(TCA_KIND, kind)
                .nested(TCA_OPTIONS, |options| options.with(option, &[0; 12]));
            let bytes = request.numbered(1);
            let (_, rule) = filter(messages(&bytes).next().unwrap().payload).unwrap();
            rule.by_mark
        };
        // tc filter add .. handle 5 fw; u32 match mark 5 0xff; u32 match u32 0 0; flower mpls_label 10
        assert!(by_mark("fw", 1) && by_mark("u32", 10));
        assert!(!by_mark("u32", 5) && !by_mark("flower", 10));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = filter(&payload);
        }
    }
}
