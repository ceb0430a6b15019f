//! Packets that get a header at the ingress edge, and the MTU of their first hop: the packets fit, or are cut, or their
//! senders get an ICMP error.
//!
//! ```text
//!  packet, vectors --> MTU of each first hop --> header still fits? --> push
//!                                                     | no
//!                                                     +--> IPv4 may be cut: fragments --> push each
//!                                                     +--> packet too big, to the sender
//! ```

use weir_base::Instant;
use weir_packet::Reason;
use weir_path::classify::Classified;
use weir_path::egress::fragment;
use weir_path::ip::icmp_cause::IcmpCause;
use weir_path::ip::tables::Action;
use weir_path::ip::waiting::Held;

use crate::Rule;
use crate::bindings::Exit;
use crate::edge::size::{self, Fit};
use crate::encapsulation;
use crate::forward;
use crate::header::{Repr, Vector};
use crate::process::Function;
use crate::table::Input;

use super::Forwarding;

impl Forwarding<'_> {
    /// Puts the header before a packet, or each header before a copy of it, as far as the first hop permits.
    pub(crate) fn fit_and_push(&mut self, held: Held, chosen: &[Repr], now: Instant) {
        let Classified { packet, headers } = &held.packet;
        let any = self.fpf.table.any_input();
        let mtus = chosen
            .iter()
            .filter_map(|header| self.first_mtu(any, header));
        let Some(mtu) = mtus.min() else {
            return self.push_each(held.packet.packet, held.ingress, chosen, now);
        };
        let longest = chosen.iter().map(Repr::encoded_len).max().unwrap_or(0);
        match size::fit(headers, mtu, longest) {
            Fit::Whole => {
                let most = size::payload_mtu(headers.family, mtu, longest);
                size::clamp_mss(self.plane.pool.frame_mut(packet), headers, most);
                self.push_each(held.packet.packet, held.ingress, chosen, now);
            }
            Fit::Fragments(mtu) => {
                let mut fragments = Vec::new();
                let cut =
                    fragment::fragment(&mut self.plane.pool, packet, headers, mtu, &mut |piece| {
                        fragments.push(piece);
                    });
                match cut {
                    Ok(()) => {
                        self.plane.pool.release(held.packet.packet);
                        for piece in fragments {
                            self.push_each(piece, held.ingress, chosen, now);
                        }
                    }
                    Err(reason) => self.plane.discard(held.packet.packet, reason),
                }
            }
            Fit::TooBig { mtu } => {
                let cause = Some(IcmpCause::TooBig { mtu });
                self.plane.drop(held, Reason::TooBig, cause, now);
            }
        }
    }

    /// Bytes that fit after this header on its next hop, for a packet that arrived at `input`.
    pub(super) fn payload_room(&self, input: Input, header: &Repr) -> usize {
        let mtu = self.first_mtu(input, header);
        mtu.map_or(usize::MAX, |mtu| {
            (mtu as usize).saturating_sub(header.encoded_len())
        })
    }

    /// The longest packet, FPF header included, that goes to the next hop of a path; `None` if that is not known, or if
    /// the packet is cut for it.
    fn first_mtu(&self, input: Input, header: &Repr) -> Option<u32> {
        let left = header.vector().as_bytes().get(header.index().into()..)?;
        let lid = self.fpf.table.domain().lid_size().read(left)?;
        let hop = match self.fpf.table.rule(input, lid)? {
            Rule::Forward(hop) => hop,
            // The payload that the longest leaf permits, plus this header. Such rules never lead back to themselves.
            Rule::Multicast(leaves) => return self.leaves_mtu(input, header, leaves, 0),
            Rule::Process(processing) => {
                let number = processing.processor.0 as usize;
                let function = self.fpf.table.processors().get(number)?.function;
                // Its leaf carries answers only: the packets that are measured here continue with their own vector.
                if let Function::Cache(_) = function {
                    let next = forward::onward(header, self.fpf.table.domain().lid_size())?;
                    return self.first_mtu(input, &next);
                }
                return self.leaves_mtu(input, header, &processing.leaves, function.growth());
            }
            Rule::Decapsulate(_) | Rule::Redirect | Rule::Drop => return None,
        };
        match self.fpf.bindings.exit(hop.interface) {
            Exit::Port { mtu, .. } => Some(mtu),
            Exit::Tunnel { remote, .. } => {
                let (_, route) = self.plane.tables().route(remote)?;
                let Action::Forward(next_hops) = &route.action else {
                    return None;
                };
                let mtus = self
                    .plane
                    .tables()
                    .mtus(route, next_hops.first()?.interface)?;
                let mtu = mtus[usize::from(remote.is_ipv6())];
                Some(mtu.saturating_sub(encapsulation::gre_len(remote)))
            }
            Exit::Closed(_) => None,
        }
    }

    /// The longest packet with this header that fits all leaves when its payload has grown by `growth` bytes.
    fn leaves_mtu(
        &self,
        input: Input,
        header: &Repr,
        leaves: &[Vector],
        growth: usize,
    ) -> Option<u32> {
        let own = header.encoded_len() as u32;
        let of_leaf = |leaf: &Vector| {
            let leaf = Repr::first(*leaf);
            let before = (leaf.encoded_len() + growth) as u32;
            Some(self.first_mtu(input, &leaf)?.saturating_sub(before) + own)
        };
        leaves.iter().filter_map(of_leaf).min()
    }
}
