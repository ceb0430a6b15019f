//! Superframes: cut at once, or piece by piece ([`crate::plane::deferred`]).

use weir_packet::Reason;

use crate::link::offload::Offload;
use crate::link::segment::Superframe;
use crate::plane::Plane;
use crate::plane::deferred::{AT_ONCE, Held, Sender};
use crate::plane::step::Arrival;

/// Packets of a waiting superframe in one turn, before another sender's turn.
const PIECE: usize = AT_ONCE / 4;

impl Plane {
    /// Receives a superframe, or a frame of a port at which frames wait.
    #[inline(never)] // so that the code for all other frames stays short
    pub(crate) fn receive_or_defer(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival) {
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
        match superframe {
            Some(superframe) if !self.carries_whole(ingress, &superframe) => {
                self.receive_segments(ingress, &superframe, 0..count, arrival);
            }
            whole => self.receive_frame(ingress, frame, arrival, whole.as_ref()),
        }
    }

    /// Whether a superframe may pass a port as it is: its device cuts it in the same way, and the link is fast enough.
    fn carries_whole(&self, ingress: usize, superframe: &Superframe<'_>) -> bool {
        let slot = &self.ports[ingress];
        let (bytes, frames) = (superframe.bytes(), superframe.count() as u8);
        slot.offloads
            && self.pool.has_long()
            && superframe.is_cut_by_linux()
            && slot.port.carries_whole(bytes, frames)
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
            self.receive_frame(ingress, &held.frame, &held.arrival, None);
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
            self.receive_frame(ingress, &segment, &arrival, None);
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
