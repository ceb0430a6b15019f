//! Superframes: passed whole, cut at once, or cut piece by piece ([`crate::plane::deferred`]).

use weir_packet::key::Family;
use weir_packet::{FrameBytes, Packet, Reason};
use weir_wire::{ethernet, ipv4, ipv6};

use crate::classify;
use crate::headers::{self, Headers};
use crate::ip::forward::forward;
use crate::ip::parse::validate;
use crate::link;
use crate::link::offload::Offload;
use crate::link::segment::Superframe;
use crate::plane::deferred::{AT_ONCE, Held, Sender};
use crate::plane::step::{Arrival, Whole};
use crate::plane::{Mode, Plane, PlanePort};

/// Packets of a waiting superframe in one turn, before another sender's turn.
const PIECE: usize = AT_ONCE / 4;

impl Plane {
    /// Receives a superframe, or a frame of a port at which frames wait.
    #[inline(never)] // so that the code for all other frames stays short
    pub(super) fn receive_or_defer(
        &mut self,
        ingress: usize,
        bytes: FrameBytes<'_>,
        arrival: &Arrival,
    ) {
        let frame = &*bytes;
        let superframe = match arrival.offload.segmentation {
            None => None,
            Some(_) => match Superframe::new(frame, &arrival.offload) {
                Ok(superframe) if frame.len() == arrival.len as usize => Some(superframe),
                unusable => {
                    let reason = unusable.map_or_else(|why| why, |_| Reason::TruncatedFrame);
                    return self.refuse(ingress, frame, arrival, reason);
                }
            },
        };
        let count = superframe.as_ref().map_or(1, Superframe::count);
        let deferred = &mut self.ports[ingress].deferred;
        if count > AT_ONCE || !deferred.is_empty() {
            let sender = Sender::of(frame);
            if count > AT_ONCE || deferred.has(sender) {
                if !deferred.push(sender, frame, *arrival) {
                    self.refuse(ingress, frame, arrival, Reason::SegmentsQueueFull);
                }
                return;
            }
        }
        let whole = match superframe {
            None => None,
            Some(superframe) if self.carries_whole(ingress, frame, &superframe, arrival) => {
                Some(Whole {
                    frames: count as u8,
                    bytes: superframe.bytes(),
                })
            }
            Some(superframe) => {
                return self.receive_segments(ingress, &superframe, 0..count, arrival);
            }
        };
        self.receive_frame(ingress, bytes, arrival, whole);
    }

    /// Whether a superframe passes the plane as it is: nothing but forwarding happens to its packets, the device of their
    /// egress port cuts it in the same way, and the link is fast enough. Whatever else may happen to a packet (an ICMP
    /// error, a fragment, a wait for a neighbour, redirection, an overlay) happens to segments.
    fn carries_whole(
        &mut self,
        ingress: usize,
        frame: &[u8],
        superframe: &Superframe<'_>,
        arrival: &Arrival,
    ) -> bool {
        if !self.pool.has_long() || !superframe.is_cut_by_linux() {
            return false;
        }
        let egress = match self.ports[ingress].mode {
            Mode::Queue => Some(ingress),
            Mode::Bridged => self.bridged_egress(ingress, frame, arrival),
            Mode::Routed => self.routed_egress(ingress, frame, arrival),
        };
        egress.is_some_and(|egress| {
            let PlanePort { offloads, port, .. } = &self.ports[egress];
            *offloads && port.carries_whole(superframe.bytes(), superframe.count() as u8)
        })
    }

    /// The port to which a superframe is bridged, if the interface there is large enough for its packets.
    fn bridged_egress(&self, ingress: usize, frame: &[u8], arrival: &Arrival) -> Option<usize> {
        let egress = self.across(ingress).ok()?;
        let total_len = longest_packet(frame, &arrival.offload, headers::peek(frame).l3);
        (total_len <= self.interface(egress)?.mtu).then_some(egress)
    }

    /// The port to which a superframe is routed, if each of its packets would go there at once and as it is.
    fn routed_egress(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival) -> Option<usize> {
        let link = link::validate(frame).ok()?;
        let mut headers = validate(frame, &link).ok()?;
        let has_options = match headers.family {
            Family::V4 => headers.l4 - headers.l3 > ipv4::HEADER_LEN_MIN as u16,
            _ => headers.l4 - headers.l3 > ipv6::HEADER_LEN as u16,
        };
        let is_tagged = arrival.vlan.is_some() || usize::from(headers.l3) > ethernet::HEADER_LEN;
        let is_whole = headers.l3_range().end == frame.len();
        if has_options || is_tagged || !is_whole || self.overlay.is_some() {
            return None;
        }
        headers.total_len = longest_packet(frame, &arrival.offload, headers.l3);
        headers.dont_fragment = true; // segments can be fragmented
        let origin = self.origin_at(ingress);
        let keys = &self.pool.keys;
        let verdict = forward(
            &self.tables,
            &self.exceptions.policy().addresses,
            &mut self.next_hops,
            self.tables.route_number(headers.destination()),
            &headers,
            || keys.hash_key(&classify::flow_key(frame, &headers)),
            origin,
        );
        self.port_at(verdict.ok()?.exit)
    }

    /// Leaves the cutting of a routed superframe to the device of its egress port. For the network layer it is as long
    /// as the longest of its packets.
    pub(super) fn leave_cutting(
        &mut self,
        packet: &Packet,
        headers: &mut Headers,
        arrival: &Arrival,
    ) {
        headers.total_len = longest_packet(self.pool.frame(packet), &arrival.offload, headers.l3);
        self.offloads[packet.slot.0 as usize] = arrival.offload;
    }

    /// Handles up to `most` packets of the waiting frames of a port. Returns the number of packets.
    pub fn receive_deferred(&mut self, ingress: usize, most: usize) -> usize {
        let mut done = 0;
        while done < most {
            let Some(held) = self.ports[ingress].deferred.take() else {
                break;
            };
            let bytes = held.frame.len();
            let (packets, rest) = self.receive_piece(ingress, held, PIECE.min(most - done));
            done += packets;
            self.ports[ingress].deferred.put_back(bytes, rest);
        }
        if done > 0 {
            self.end_burst(ingress);
        }
        done
    }

    /// Handles up to `most` packets of a frame; returns their number, and the frame if more packets remain.
    fn receive_piece(
        &mut self,
        ingress: usize,
        mut held: Held,
        most: usize,
    ) -> (usize, Option<Held>) {
        if held.arrival.offload.segmentation.is_none() {
            let frame = FrameBytes::Lent(&held.frame);
            self.receive_frame(ingress, frame, &held.arrival, None);
            return (1, None);
        }
        match Superframe::new(&held.frame, &held.arrival.offload) {
            Ok(superframe) => {
                let end = superframe.count().min(held.next + most);
                let segments = held.next..end;
                self.receive_segments(ingress, &superframe, segments.clone(), &held.arrival);
                let is_done = end == superframe.count();
                held.next = end;
                (segments.len(), (!is_done).then_some(held))
            }
            Err(reason) => {
                self.refuse(ingress, &held.frame, &held.arrival, reason);
                (1, None)
            }
        }
    }

    /// Handles the frames that these segments would have been on a wire.
    fn receive_segments(
        &mut self,
        ingress: usize,
        superframe: &Superframe<'_>,
        segments: std::ops::Range<usize>,
        arrival: &Arrival,
    ) {
        let mut segment = std::mem::take(&mut self.segment);
        for n in segments {
            superframe.write(n, &mut segment);
            let arrival = Arrival {
                len: segment.len() as u32,
                offload: Offload::NONE,
                ..*arrival
            };
            self.receive_frame(ingress, FrameBytes::Lent(&segment), &arrival, None);
        }
        self.segment = segment;
    }

    /// Charges a port for a frame that the kernel itself sent through its interface; `bytes` are the frame's first
    /// bytes. A superframe costs as much as the frames that it becomes on the wire.
    pub fn charge(&mut self, number: usize, bytes: &[u8], arrival: &Arrival) {
        let slot = &mut self.ports[number];
        for len in arrival.offload.frame_lens(bytes, arrival.len) {
            slot.charged.count(u64::from(len));
            slot.port.charge(u64::from(len), arrival.at);
        }
        self.share_debt(number);
    }

    /// Whether frames of a port wait for [`Self::receive_deferred`].
    pub fn has_deferred(&self, ingress: usize) -> bool {
        !self.ports[ingress].deferred.is_empty()
    }

    /// Drops the waiting frames of a port.
    pub(crate) fn drop_deferred(&mut self, ingress: usize, reason: Reason) {
        for held in self.ports[ingress].deferred.drain() {
            self.refuse(ingress, &held.frame, &held.arrival, reason);
        }
    }
}

/// Length of the longest IP packet that a superframe becomes; its IP header starts at `l3`.
fn longest_packet(frame: &[u8], offload: &Offload, l3: u16) -> u32 {
    let longest = offload.frame_lens(frame, frame.len() as u32).next();
    longest.map_or(0, |len| len - u32::from(l3))
}
