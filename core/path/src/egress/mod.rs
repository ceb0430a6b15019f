//! Egress, the same for every network layer: headers rewritten, the queue, the link.
//!
//! ```text
//!  network layer --Departure--> carry_out --> Port::offer ... Port::step --> device
//!                    rewrites:  hops, fragments, MAC addresses, tags
//! ```
//!
//! - [`rewrite`]: changes to headers
//! - [`fragment`]: IPv4 fragmentation
//! - [`port`]: a discipline in front of a link
//! - [`transmitter`]: when the link starts each frame, and when it becomes free again
//!
//! A network layer decides, and changes nothing. Its decision is a [`Departure`]: a short list of rewrites
//! and an exit. For a new kind of rewrite, add a field to [`Rewrites`] at its place in the order.

pub mod fragment;
pub mod port;
pub mod rewrite;
pub mod transmitter;

use weir_packet::{Packet, Pool, Reason};
use weir_wire::ethernet::Mac;

use crate::headers::Headers;
use crate::link::tag;

/// A decision to send a packet: how it is changed, and through which port it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The changes.
    pub rewrites: Rewrites,
    /// The port.
    pub exit: Exit,
}

/// The port through which a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The port of the interface with this kernel index.
    Interface(u32),
    /// The port with this number.
    Port(usize),
}

/// The rewrites of a packet. They are carried out in the order of the fields: from the inner headers to the
/// outer ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    /// Decrements the TTL or hop limit.
    pub decrement_hops: bool,
    /// Cuts the packet into fragments, each an IP packet of at most this number of bytes. The rewrites below
    /// are done to each fragment.
    pub fragment: Option<u32>,
    /// Writes the MAC addresses: the neighbour's as destination, the interface's own as source.
    pub macs: Option<[Mac; 2]>,
    /// Puts an 802.1Q tag with this control information into the frame.
    pub push_tag: Option<u16>,
}

/// Rewrites a packet. If it is fragmented, this returns the fragments, and the original is no longer needed.
/// If it cannot be rewritten, this returns the reason to drop it.
#[inline]
pub fn carry_out(
    rewrites: &Rewrites,
    pool: &mut Pool,
    packet: &mut Packet,
    headers: &Headers,
) -> Result<Option<Vec<Packet>>, Reason> {
    let frame = pool.frame_mut(packet);
    if rewrites.decrement_hops {
        rewrite::decrement_hops(frame, headers);
    }
    if let Some(mtu) = rewrites.fragment {
        return split(rewrites, mtu, pool, packet, headers).map(Some);
    }
    if let Some(macs) = &rewrites.macs {
        rewrite::set_macs(frame, macs);
    }
    if let Some(tci) = rewrites.push_tag
        && !tag::insert(pool, packet, tci)
    {
        return Err(Reason::TruncatedFrame);
    }
    Ok(None)
}

/// Fragments a packet, and applies the other rewrites to each fragment. All fragments are made or none.
#[inline(never)]
fn split(
    rewrites: &Rewrites,
    mtu: u32,
    pool: &mut Pool,
    packet: &Packet,
    headers: &Headers,
) -> Result<Vec<Packet>, Reason> {
    let others = Rewrites {
        decrement_hops: false,
        fragment: None,
        ..*rewrites
    };
    let mut fragments = Vec::new();
    fragment::fragment(pool, packet, headers, mtu, &mut |f| fragments.push(f))?;
    let rewritten = fragments
        .iter_mut()
        .try_for_each(|fragment| carry_out(&others, pool, fragment, headers).map(|_| ()));
    match rewritten {
        Ok(()) => Ok(fragments),
        Err(reason) => {
            fragments.into_iter().for_each(|f| pool.release(f));
            Err(reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;
    use etherparse::PacketBuilder;
    use weir_base::Instant;

    const MACS: Option<[Mac; 2]> = Some([[6; 6], [8; 6]]);

    /// The frames that a UDP packet with this payload becomes, or why it cannot be rewritten.
    fn rewritten(payload: usize, rewrites: &Rewrites) -> Result<Vec<Vec<u8>>, Reason> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [192, 0, 2, 1], 9)
            .udp(1, 2)
            .write(&mut frame, &vec![7; payload])
            .unwrap();
        frame[20] = 0; // may be fragmented
        let mut pool = Pool::new(4, 2048, (1, 2));
        let mut packet = pool.receive(&frame, Instant::ZERO).unwrap();
        let headers = headers::peek(&frame);
        let rewritten = carry_out(rewrites, &mut pool, &mut packet, &headers);
        rewritten.map(|fragments| {
            let packets = fragments
                .as_deref()
                .unwrap_or(std::slice::from_ref(&packet));
            packets.iter().map(|p| pool.frame(p).to_vec()).collect()
        })
    }

    #[test]
    fn rewrites_go_from_the_inner_headers_to_the_outer_ones() {
        let all = Rewrites {
            decrement_hops: true,
            fragment: None,
            macs: MACS,
            push_tag: Some(0xa007),
        };
        let frames = rewritten(10, &all).unwrap();
        let [frame] = &frames[..] else {
            panic!("{frames:?}")
        };
        assert_eq!(frame[..12], [[6; 6], [8; 6]].concat());
        assert_eq!(frame[12..16], [0x81, 0, 0xa0, 7]);
        assert_eq!(frame[16 + 2 + 8], 8); // the TTL
    }

    #[test]
    fn every_fragment_is_rewritten() {
        let fragments = |mtu| Rewrites {
            decrement_hops: true,
            fragment: Some(mtu),
            macs: MACS,
            push_tag: Some(7),
        };
        let frames = rewritten(1000, &fragments(576)).unwrap();
        assert_eq!(frames.len(), 2);
        for frame in frames {
            assert_eq!((frame[0], frame[15], frame[18 + 8]), (6, 7, 8));
        }
        let too_many = rewritten(1000, &fragments(68));
        assert_eq!(too_many, Err(Reason::PoolExhausted));
    }
}
