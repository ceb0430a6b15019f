//! IPsec policies that decide about forwarded packets.
//!
//! The kernel consults the policies `fwd` before it forwards a packet, and the policies `out` to decide whether it
//! leaves encrypted. Policies `in`, and policies of a socket or an XFRM interface, concern other packets. A policy that
//! permits packets as they are changes nothing.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_element::Finding;
use weir_element::kernel::kinds::XFRM;

use crate::kernel::netlink::{NetlinkSocket, Request, attribute, u16_at, u32_at};

/// Of linux/xfrm.h.
const XFRM_MSG_NEWPOLICY: u16 = 0x13;
const XFRM_MSG_GETPOLICY: u16 = 0x15;
const XFRM_MSG_GETDEFAULT: u16 = 0x28;
const XFRMA_TMPL: u16 = 5;
const XFRMA_IF_ID: u16 = 31;
/// Length of `struct xfrm_userpolicy_id`.
const ID_BYTES: usize = 64;
/// Length of `struct xfrm_userpolicy_info`.
const INFO_BYTES: usize = 168;
/// `XFRM_POLICY_BLOCK`, and `XFRM_USERPOLICY_BLOCK` of the defaults.
const BLOCK: u8 = 1;
/// Directions that concern forwarded packets.
const DIRECTIONS: [(u8, &str); 2] = [(1, "out"), (2, "fwd")];

/// The policies that encrypt or forbid forwarded packets.
pub(super) fn read() -> io::Result<Vec<Finding>> {
    let mut socket = match NetlinkSocket::open(libc::NETLINK_XFRM) {
        Ok(socket) => socket,
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut findings = Vec::new();
    let policies = Request::new(XFRM_MSG_GETPOLICY, libc::NLM_F_DUMP, &[0; ID_BYTES]);
    socket.dump(&policies, |message| {
        let is_policy = message.kind == XFRM_MSG_NEWPOLICY;
        findings.extend(policy(message.payload).filter(|_| is_policy));
    })?;
    let defaults = Request::new(XFRM_MSG_GETDEFAULT, 0, &[0; 4]).acknowledged();
    let asked = socket.dump(&defaults, |message| {
        if message.kind == XFRM_MSG_GETDEFAULT {
            findings.extend(blocked_by_default(message.payload));
        }
    });
    match asked {
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error), // before Linux 5.14
        _ => Ok(findings),
    }
}

fn policy(payload: &[u8]) -> Option<Finding> {
    let info = payload.first_chunk::<INFO_BYTES>()?;
    let attributes = &payload[INFO_BYTES..];
    let (direction, action) = (info[160], info[161]);
    let (_, direction) = DIRECTIONS.iter().find(|(number, _)| *number == direction)?;
    let of_interface = attribute(attributes, XFRMA_IF_ID).and_then(|id| u32_at(id, 0));
    let encrypts = attribute(attributes, XFRMA_TMPL).is_some_and(|tmpl| !tmpl.is_empty());
    if of_interface.is_some_and(|id| id != 0) || !(encrypts || action == BLOCK) {
        return None;
    }
    let is_v6 = libc::c_int::from(u16_at(info, 40)?) == libc::AF_INET6;
    let (to_len, from_len) = (info[42], info[43]);
    let address = |at: usize| {
        if is_v6 {
            info[at..]
                .first_chunk::<16>()
                .map(|b| Ipv6Addr::from(*b).to_string())
        } else {
            info[at..]
                .first_chunk::<4>()
                .map(|b| Ipv4Addr::from(*b).to_string())
        }
    };
    let (to, from) = (address(0)?, address(16)?);
    let does = if encrypts { "encrypts" } else { "blocks" };
    Some(Finding::new(
        &XFRM,
        format!("policy {direction} {does} {from}/{from_len} to {to}/{to_len}"),
    ))
}

/// The directions that are blocked where no policy permits a packet: `struct xfrm_userpolicy_default` has in, fwd, out.
fn blocked_by_default(payload: &[u8]) -> Vec<Finding> {
    let defaults = [(1, "fwd"), (2, "out")].into_iter();
    let blocked = defaults.filter(|(at, _)| payload.get(*at) == Some(&BLOCK));
    blocked
        .map(|(_, name)| Finding::new(&XFRM, format!("the default of {name} is block")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::messages;

    fn found(direction: u8, action: u8, tmpl: &[u8], interface: u32) -> Option<String> {
        let mut info = [0; INFO_BYTES];
        info[0..4].copy_from_slice(&[10, 77, 2, 0]);
        info[16..20].copy_from_slice(&[10, 77, 1, 0]);
        info[40] = 2;
        (info[42], info[43], info[160], info[161]) = (24, 25, direction, action);
        let request = Request::new(XFRM_MSG_NEWPOLICY, 0, &info)
            .with(XFRMA_TMPL, tmpl)
            .with(XFRMA_IF_ID, &interface.to_ne_bytes());
        let bytes = request.numbered(1);
        policy(messages(&bytes).next().unwrap().payload).map(|finding| finding.what)
    }

    #[test]
    fn policies_that_encrypt_or_block_forwarded_packets_are_found() {
        let esp = [1; 64];
        assert_eq!(
            found(1, 0, &esp, 0).unwrap(),
            "policy out encrypts 10.77.1.0/25 to 10.77.2.0/24"
        );
        assert!(
            found(2, 1, &[], 0)
                .unwrap()
                .starts_with("policy fwd blocks")
        );
        assert_eq!(found(1, 0, &[], 0), None, "it permits what passes");
        assert_eq!(found(0, 0, &esp, 0), None, "the box itself receives it");
        assert_eq!(found(4, 0, &esp, 0), None, "a socket");
        assert_eq!(found(1, 0, &esp, 7), None, "an XFRM interface");
        assert_eq!(blocked_by_default(&[1, 2, 2]), []);
        assert_eq!(blocked_by_default(&[2, 1, 1]).len(), 2);
        assert_eq!(blocked_by_default(&[]), []);
    }
}
