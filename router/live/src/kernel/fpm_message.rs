//! Frames and messages of FPM (FRR: fpm/fpm.h, zebra/dplane_fpm_nl.c).
//!
//! ```text
//! +---------+------+--------+-----------------+-----------------+--
//! | version | type | length | netlink message | netlink message | ..
//! +---------+------+--------+-----------------+-----------------+--
//!      1        1      2  (big endian, with this header)
//! ```
//!
//! The messages are those about routes and next-hop objects that the kernel would get. A message that deletes a route
//! names its prefix, table and metric only.

use ipnet::IpNet;
use netlink_packet_core::DecodeError;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteProtocol, RouteType};

use super::message::{self, KernelMessage, NextHopObject, RTM_DELNEXTHOP, RTM_NEWNEXTHOP};
use super::netlink::{HEADER_BYTES, Message, Request, messages, u32_at};
use super::route_message::{self, Read};
use super::routes::{Candidate, RANK_MAIN};

/// Length of a frame's header.
const FRAME_HEADER_BYTES: usize = 4;
/// The version of the protocol, and the type of frames with netlink messages.
const NETLINK_FRAME: [u8; 2] = [1, 1];
/// Longest answer: zebra reads them into a buffer of 8 KiB, and stops reading at a longer one.
const ANSWER_BYTES_MAX: usize = 4096;
/// Of linux/rtnetlink.h: the route is in use by the forwarding plane, or could not be used.
const RTM_F_OFFLOAD: u32 = 0x4000;
const RTM_F_OFFLOAD_FAILED: u32 = 0x2000_0000;

/// A change of the peer's routes.
#[derive(Debug)]
pub(super) enum Update {
    /// A new route, which replaces a route of the same prefix and metric.
    Route(IpNet, Candidate),
    /// A deleted route; only its metric and sources count.
    NoRoute(IpNet, Candidate),
    /// A new or changed next-hop object.
    Object(NextHopObject),
    /// A deleted next-hop object.
    NoObject(u32),
}

/// Why bytes are not frames of FPM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a frame of version {0} and type {1}, not 1 and 1 (netlink)")]
    Kind(u8, u8),
    #[error("a frame of {0} bytes, which is less than its header")]
    Length(usize),
    #[error("a netlink message that does not fit in its frame")]
    Message,
}

/// How many of the bytes are complete frames. An error comes with its place.
pub(super) fn complete(bytes: &[u8]) -> Result<usize, (usize, Malformed)> {
    let mut at = 0;
    while let Some(payload) = payload(&bytes[at..]).map_err(|why| (at, why))? {
        let used = messages(payload).map(|m| (HEADER_BYTES + m.payload.len()).next_multiple_of(4));
        if used.sum::<usize>() < payload.len() {
            return Err((at, Malformed::Message));
        }
        at += FRAME_HEADER_BYTES + payload.len();
    }
    Ok(at)
}

/// The messages of complete frames.
pub(super) fn all_messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let frames = std::iter::from_fn(move || {
        let payload = payload(bytes).ok()??;
        bytes = &bytes[FRAME_HEADER_BYTES + payload.len()..];
        Some(payload)
    });
    frames.flat_map(messages)
}

/// The payload of the first frame; `None` if it is incomplete.
fn payload(bytes: &[u8]) -> Result<Option<&[u8]>, Malformed> {
    let Some([version, kind, length @ ..]) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(None);
    };
    if [*version, *kind] != NETLINK_FRAME {
        return Err(Malformed::Kind(*version, *kind));
    }
    let length = usize::from(u16::from_be_bytes(*length));
    if length < FRAME_HEADER_BYTES {
        return Err(Malformed::Length(length));
    }
    Ok(bytes.get(FRAME_HEADER_BYTES..length))
}

/// Reads a message; `None` if forwarding does not use it. Routes that zebra has from the kernel are the kernel's: zebra
/// does not report when they disappear (FRR issue 19637). Such a route only removes an earlier route of FPM.
pub(super) fn read(message: &Message<'_>) -> Result<Option<Update>, DecodeError> {
    let is_about_ip = message.payload.first().is_some_and(|family| {
        [libc::AF_INET, libc::AF_INET6].contains(&libc::c_int::from(*family))
    });
    match message.kind {
        libc::RTM_NEWROUTE | libc::RTM_DELROUTE if is_about_ip => {}
        RTM_NEWNEXTHOP | RTM_DELNEXTHOP => {}
        _ => return Ok(None),
    }
    let is_new = message.kind == libc::RTM_NEWROUTE;
    Ok(match message::parse(message)? {
        Some(KernelMessage::Route(
            RouteNetlinkMessage::NewRoute(mut route) | RouteNetlinkMessage::DelRoute(mut route),
            _,
        )) => {
            if !is_new {
                route.header.kind = RouteType::Unicast; // zebra leaves it out
            }
            let is_kernels = route.header.protocol == RouteProtocol::Kernel;
            let (prefix, route) = match route_message::read(&route) {
                Some(Read::Candidate(prefix, route)) => (prefix, route),
                Some(Read::Unfollowed(unfollowed, Some(route))) => (unfollowed.prefix, route),
                _ => return Ok(None),
            };
            (route.rank == RANK_MAIN).then_some(match is_new && !is_kernels {
                true => Update::Route(prefix, route),
                false => Update::NoRoute(prefix, route),
            })
        }
        Some(KernelMessage::NewNextHop(object)) => Some(Update::Object(object)),
        Some(KernelMessage::DelNextHop(id)) => Some(Update::NoObject(id)),
        _ => None,
    })
}

/// The frame that reports to zebra whether a new route is in use. FRR uses it with `--asic-offload=notify_on_offload`, and
/// ignores it otherwise. `None` if zebra cannot read it.
pub(super) fn answer(to: &Message<'_>, in_use: bool) -> Option<Vec<u8>> {
    const FLAGS_AT: usize = 8;
    let flag = if in_use {
        RTM_F_OFFLOAD
    } else {
        RTM_F_OFFLOAD_FAILED
    };
    let flags = u32_at(to.payload, FLAGS_AT)? | flag;
    let mut payload = to.payload.to_vec();
    payload[FLAGS_AT..FLAGS_AT + 4].copy_from_slice(&flags.to_ne_bytes());
    let message = Request::new(to.kind, to.flags.into(), &payload).numbered(to.sequence);
    let length = u16::try_from(FRAME_HEADER_BYTES + message.len()).ok()?;
    let frame = [&NETLINK_FRAME[..], &length.to_be_bytes(), &message].concat();
    Some(frame).filter(|frame| frame.len() <= ANSWER_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(messages: &[Vec<u8>]) -> Vec<u8> {
        let length = FRAME_HEADER_BYTES + messages.concat().len();
        let header = [&NETLINK_FRAME[..], &(length as u16).to_be_bytes()].concat();
        [header, messages.concat()].concat()
    }

    /// A route by next hop 22, as zebra of FRR 8.4.4 sends it.
    fn route() -> Vec<u8> {
        let header = [2, 16, 0, 0, 254, 196, 0, 1, 0, 0, 0, 0];
        Request::new(libc::RTM_NEWROUTE, 0x500, &header)
            .with(1, &[10, 9, 0, 0])
            .with(6, &20_u32.to_ne_bytes())
            .with(30, &22_u32.to_ne_bytes())
            .numbered(0)
    }

    fn deletion() -> Vec<u8> {
        let header = [2, 16, 0, 0, 254, 196, 0, 0, 0, 0, 0, 0];
        Request::new(libc::RTM_DELROUTE, 0x400, &header)
            .with(1, &[10, 9, 0, 0])
            .with(6, &20_u32.to_ne_bytes())
            .numbered(0)
    }

    fn updates(bytes: &[u8]) -> Vec<Update> {
        let read = all_messages(bytes).map(|message| read(&message).unwrap());
        read.flatten().collect()
    }

    #[test]
    fn a_frame_may_have_several_messages() {
        let object = Request::new(RTM_NEWNEXTHOP, 0, &[2, 0, 11, 0, 0, 0, 0, 0]);
        let object = object.with(1, &22_u32.to_ne_bytes()).with(4, &[]);
        let both = frame(&[deletion(), route()]);
        let bytes = [frame(&[object.numbered(0)]), both].concat();
        assert_eq!(complete(&bytes), Ok(bytes.len()));
        assert_eq!(complete(&bytes[..bytes.len() - 1]), Ok(36 + 4));
        let updates = updates(&bytes);
        let [
            Update::Object(_),
            Update::NoRoute(gone, _),
            Update::Route(new, route),
        ] = &updates[..]
        else {
            panic!("{updates:?}")
        };
        assert_eq!((gone, new), (new, &"10.9.0.0/16".parse().unwrap()));
        assert_eq!((route.metric, route.object), (20, Some(22)));
    }

    #[test]
    fn a_route_of_the_kernel_is_the_kernels() {
        let mut connected = route();
        connected[HEADER_BYTES + 5] = 2; // RTPROT_KERNEL
        let updates = updates(&frame(&[connected]));
        assert!(matches!(updates[..], [Update::NoRoute(..)]), "{updates:?}");
    }

    #[test]
    fn what_is_no_frame_is_named_with_its_place() {
        let good = frame(&[route()]);
        let after = |bad: &[u8]| complete(&[&good[..], bad].concat());
        let at = good.len();
        assert_eq!(after(b"GET "), Err((at, Malformed::Kind(b'G', b'E'))));
        assert_eq!(after(&[1, 2, 0, 8]), Err((at, Malformed::Kind(1, 2))));
        assert_eq!(after(&[1, 1, 0, 3]), Err((at, Malformed::Length(3))));
        let mut long = route();
        long[0] += 8;
        assert_eq!(after(&frame(&[long])), Err((at, Malformed::Message)));
        assert_eq!(after(&[1, 1, 0]), Ok(at));
    }

    #[test]
    fn an_answer_is_the_route_with_a_flag() {
        let bytes = frame(&[route()]);
        let to = all_messages(&bytes).next().unwrap();
        for (in_use, flag) in [(true, RTM_F_OFFLOAD), (false, RTM_F_OFFLOAD_FAILED)] {
            let answer = answer(&to, in_use).unwrap();
            assert_eq!(complete(&answer), Ok(bytes.len()));
            let flags_at = FRAME_HEADER_BYTES + HEADER_BYTES + 8;
            assert_eq!(u32_at(&answer, flags_at), Some(flag));
            assert_eq!(updates(&answer).len(), 1);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            start in 0_usize..60,
            noise in proptest::collection::vec((0_usize..200, any::<u8>()), 0..12),
            random in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut bytes = [frame(&[deletion(), route()]), frame(&[route()]), random].concat();
            for (at, value) in noise {
                let at = at % bytes.len();
                bytes[at] = value;
            }
            let bytes = &bytes[start.min(bytes.len())..];
            let len = complete(bytes).unwrap_or_else(|(at, _)| at);
            prop_assert!(len <= bytes.len());
            for message in all_messages(&bytes[..len]) {
                let _ = (read(&message), answer(&message, true));
            }
        }
    }
}
