//! MPLS label swapping, for comparison: an incoming label map and next hops, each indexed by number.
//!
//! Source: RFC 3031, section 3.10; RFC 3032; RFC 3443, section 3.5 (TTL).

use rand::RngExt;
use weir_base::{Stream, Tally};
use weir_packet::{DropCounters, Packet, Pool, Reason};
use weir_path::egress::rewrite;
use weir_path::ip::tables::BURST;
use weir_wire::ethernet::Mac;
use weir_wire::{EtherType, ethernet};

use crate::memory::headers::{Engine, FRAME_BYTES, NEIGHBOURS, OURS, PORT, link_frame, neighbour};

pub(super) struct Mpls {
    pub(super) labels: Vec<Option<Swap>>,
    next_hops: Vec<NextHop>,
    forwarded: Tally,
}

/// The entry of a label.
#[derive(Clone, Copy)]
pub(super) struct Swap {
    label: u32,
    next_hop: u16,
}

pub(super) struct NextHop {
    macs: [Mac; 2],
    frame_bytes_max: u32,
    port: usize,
}

pub(super) const LABELS: u32 = 16_384;
/// Labels below are reserved (RFC 3032, section 2.1).
pub(super) const LABEL_MIN: u32 = 16;
pub(super) const MPLS: EtherType = EtherType(0x8847);
pub(super) const SHIM_AT: usize = ethernet::HEADER_LEN;

impl Mpls {
    pub(super) fn new() -> Self {
        let swap = |label: u32| {
            (label >= LABEL_MIN).then_some(Swap {
                label: LABELS - 1 - label + LABEL_MIN,
                next_hop: (label % u32::from(NEIGHBOURS)) as u16,
            })
        };
        let next_hop = |n| NextHop {
            macs: [neighbour(n), OURS[0]],
            frame_bytes_max: 1518,
            port: PORT,
        };
        Self {
            labels: (0..LABELS).map(swap).collect(),
            next_hops: (0..NEIGHBOURS).map(next_hop).collect(),
            forwarded: Tally::ZERO,
        }
    }

    /// The shim header of a frame, or the reason to drop it.
    #[inline(always)]
    pub(super) fn parse(frame: &[u8]) -> Result<u32, Reason> {
        let view = ethernet::View::new_checked(frame).map_err(|_| Reason::TruncatedHeader)?;
        if view.ethertype() != MPLS {
            return Err(Reason::NotIp);
        }
        if ethernet::is_group(view.destination()) {
            return Err(Reason::Multicast);
        }
        let shim = frame.get(SHIM_AT..).and_then(|bytes| bytes.first_chunk());
        let shim = u32::from_be_bytes(*shim.ok_or(Reason::TruncatedHeader)?);
        match shim & 0xff {
            0 | 1 => Err(Reason::TtlExpired),
            _ => Ok(shim),
        }
    }
}

pub(super) fn mpls_frame(random: &mut Stream) -> [u8; FRAME_BYTES] {
    let mut frame = link_frame(MPLS);
    let label = random.random_range(LABEL_MIN..LABELS);
    frame[14..18].copy_from_slice(&(label << 12 | 1 << 8 | 64).to_be_bytes());
    frame
}

impl Engine for Mpls {
    fn carry(
        &mut self,
        pool: &mut Pool,
        fates: &mut DropCounters,
        packets: &mut Vec<Packet>,
    ) -> usize {
        let mut shims = [Err(Reason::NotIp); BURST];
        for (shim, packet) in shims.iter_mut().zip(&*packets) {
            *shim = Self::parse(pool.frame(packet));
        }
        let mut swaps = [None; BURST];
        for (swap, shim) in swaps.iter_mut().zip(&shims[..packets.len()]) {
            let label = shim.map_or(0, |shim| shim >> 12);
            *swap = self.labels.get(label as usize).copied().flatten();
        }
        let mut ports = 0;
        for ((packet, shim), swap) in packets.drain(..).zip(shims).zip(swaps) {
            let sent = match (shim, swap) {
                (Err(reason), _) => Err(reason),
                (_, None) => Err(Reason::NoRoute),
                (Ok(shim), Some(swap)) => {
                    let next_hop = &self.next_hops[usize::from(swap.next_hop)];
                    if packet.len <= next_hop.frame_bytes_max {
                        Ok((swap.label << 12 | shim & 0xfff, next_hop))
                    } else {
                        Err(Reason::TooBig)
                    }
                }
            };
            match sent {
                Ok((shim, next_hop)) => {
                    let frame = pool.frame_mut(&packet);
                    let shim = (shim - 1).to_be_bytes(); // the TTL is the last byte, and at least 2
                    frame[SHIM_AT..SHIM_AT + 4].copy_from_slice(&shim);
                    rewrite::set_macs(frame, &next_hop.macs);
                    self.forwarded.count(packet.bytes());
                    ports += next_hop.port;
                }
                Err(reason) => drop(fates.discard(packet, reason)),
            }
        }
        ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Streams;

    #[test]
    fn a_label_that_must_not_be_swapped_is_dropped() {
        let frame = mpls_frame(&mut Streams::new(2).stream("frames"));
        assert!(Mpls::parse(&frame).is_ok());
        let mut expired = frame;
        expired[17] = 1;
        assert_eq!(Mpls::parse(&expired), Err(Reason::TtlExpired));
        assert_eq!(Mpls::parse(&frame[..17]), Err(Reason::TruncatedHeader));
    }
}
