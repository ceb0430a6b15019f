//! A watch over ports: it records their packets until its owner fetches the record.
//!
//! ```text
//!  receive -----------> [ plane ] -----------> flush
//!     |  came in            | ended               |  left
//!     +---------------------+---------------------+--> Sightings --Plane::sightings--> a capture
//! ```
//!
//! This module does not know the format of a capture file. A plane without a watch checks once per frame
//! and once per burst whether it has one; a plane with a watch copies the first bytes of each frame into
//! memory that was allocated in advance. Frames that do not fit there are counted as missed. The owner must
//! fetch within [`LEASE`]; otherwise the watch ends, so that a watch whose owner died costs nothing.
//!
//! A packet is seen as it arrives, with the reason if it is dropped at once (because there is no route,
//! say). A packet that is dropped later is seen a second time: at the port that held it, at the time of the
//! step that dropped it.

use std::collections::BTreeSet;

use weir_base::{Instant, Span};
use weir_packet::{Direction, DropCounters, Fate, FlowKey, Freed, Packet, Pool, Reason, Slot};

use crate::classify::flow_key;
use crate::headers;
use crate::plane::filter::Filter;

/// A watch ends if its owner does not fetch from it for this time.
pub const LEASE: Span = Span::from_secs(5);
/// Maximum frames that are kept between two fetches.
pub const SIGHTINGS_MAX: usize = 32_768;
/// Maximum bytes of frames that are kept between two fetches.
pub const SIGHTINGS_BYTES_MAX: usize = 4 << 20;

/// A request for a watch: the ports, and the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Names of the ports, each once; a sighting names its port by the index in this list.
    pub ports: Vec<String>,
    /// Whether to record drops only.
    pub drops: bool,
    /// Restricts the record to these flows and drop reasons.
    pub filter: Filter,
    /// Maximum bytes of a frame that are kept.
    pub snap: usize,
    /// The watch ends after this number of packets.
    pub packets: u64,
    /// The watch ends at this time.
    pub until: Instant,
}

/// A packet that was seen at a watched port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The port, by its index in [`Want::ports`].
    pub port: u16,
    /// When the packet was seen.
    pub at: Instant,
    /// Length of the frame on the link.
    pub len: u32,
    /// Direction of the packet; `None` if the router made it and it never reached a queue.
    pub direction: Option<Direction>,
    /// Fate of the packet.
    pub fate: Fate,
}

/// Sightings, in memory that does not grow.
#[derive(Debug)]
pub struct Sightings {
    list: Vec<(Sighting, u32)>,
    bytes: Vec<u8>,
}

/// The record of a watch since the last fetch.
#[derive(Debug)]
pub struct Fetched {
    /// The sightings since the last fetch.
    pub sightings: Sightings,
    /// Packets seen and kept since the beginning.
    pub captured: u64,
    /// Packets missed since the beginning, by port.
    pub missed: Vec<u64>,
    /// Whether the watch has ended: no further record will follow.
    pub done: bool,
}

/// The plane already has a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched;

/// An active watch.
#[derive(Debug)]
pub(crate) struct PacketRecorder {
    want: Want,
    sightings: Sightings,
    captured: u64,
    missed: Vec<u64>,
    /// Slots of packets that were marked here and are waiting to be sent.
    marked: BTreeSet<u32>,
    now: Instant,
    lease: Instant,
}

/// A frame with its length and tag.
pub(crate) struct Frame<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) len: u32,
    /// A tag that arrived out of band: it is inserted again where it was on the link.
    pub(crate) tag: Option<u16>,
}

/// Where a packet was dropped.
#[derive(Clone, Copy)]
pub struct Place {
    /// Number of the port.
    pub port: Option<usize>,
    /// Whether the packet arrived there or should leave there.
    pub direction: Option<Direction>,
}

impl Place {
    /// For a packet that arrived at this port.
    pub fn coming(ingress: Option<usize>) -> Self {
        Self {
            port: ingress,
            direction: Some(Direction::Inbound),
        }
    }

    /// For a packet that should leave through this port.
    pub(crate) fn leaving(egress: usize) -> Self {
        Self {
            port: Some(egress),
            direction: Some(Direction::Outbound),
        }
    }
}

impl Default for Sightings {
    /// Allocates all the memory that it will ever need.
    fn default() -> Self {
        Self {
            list: Vec::with_capacity(SIGHTINGS_MAX),
            bytes: Vec::with_capacity(SIGHTINGS_BYTES_MAX),
        }
    }
}

impl Sightings {
    /// The sightings, with the first bytes of each frame.
    pub fn iter(&self) -> impl Iterator<Item = (&Sighting, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.list.iter().map(move |(sighting, kept)| {
            let (frame, after) = rest.split_at(*kept as usize);
            rest = after;
            (sighting, frame)
        })
    }

    /// Removes all sightings, and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }

    fn push(&mut self, sighting: Sighting, frame: &Frame<'_>, snap: usize) -> bool {
        const MACS_LEN: usize = 12;
        const TAG_LEN: usize = 4;
        let tag_len = if frame.tag.is_some() { TAG_LEN } else { 0 };
        let kept = (frame.bytes.len() + tag_len).min(snap);
        let full = self.list.len() >= SIGHTINGS_MAX;
        if full || self.bytes.len() + frame.bytes.len().min(snap) + TAG_LEN > SIGHTINGS_BYTES_MAX {
            return false;
        }
        let begin = self.bytes.len();
        let macs = frame.bytes.len().min(MACS_LEN);
        let rest = frame.bytes.len().min(snap.max(macs));
        self.bytes.extend_from_slice(&frame.bytes[..macs]);
        if let Some(tag) = frame.tag {
            self.bytes.extend_from_slice(&[0x81, 0x00]);
            self.bytes.extend_from_slice(&tag.to_be_bytes());
        }
        self.bytes.extend_from_slice(&frame.bytes[macs..rest]);
        self.bytes.truncate(begin + kept);
        self.list.push((sighting, kept as u32));
        true
    }
}

impl PacketRecorder {
    pub(crate) fn new(want: Want, sightings: Sightings, now: Instant) -> Self {
        Self {
            captured: 0,
            missed: vec![0; want.ports.len()],
            marked: BTreeSet::new(),
            want,
            sightings,
            now,
            lease: now + LEASE,
        }
    }

    /// The index of a port in the list, if it is watched.
    pub(crate) fn place_of(&self, name: &str) -> Option<u16> {
        let place = self.want.ports.iter().position(|p| p == name)?;
        u16::try_from(place).ok()
    }

    /// Sets the time of the next sightings.
    pub(crate) fn set_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Whether the owner has not fetched for too long.
    pub(crate) fn is_abandoned(&self, now: Instant) -> bool {
        now >= self.lease
    }

    /// Returns the sightings, and continues with `empty`.
    pub(crate) fn fetch(&mut self, mut empty: Sightings, now: Instant) -> Fetched {
        empty.clear();
        self.lease = now + LEASE;
        Fetched {
            sightings: std::mem::replace(&mut self.sightings, empty),
            captured: self.captured,
            missed: self.missed.clone(),
            done: now >= self.want.until || self.captured >= self.want.packets,
        }
    }

    /// Records a frame that arrived; `end` is the reason if it was dropped at once.
    pub(crate) fn came(
        &mut self,
        port: Option<u16>,
        frame: &Frame<'_>,
        at: Instant,
        end: Option<Reason>,
    ) {
        self.set_time(at);
        self.see(port, at, frame, None, (Some(Direction::Inbound), fate(end)));
    }

    /// Records a frame that the kernel itself sent.
    pub(crate) fn kernel_sent(&mut self, port: Option<u16>, frame: &Frame<'_>, at: Instant) {
        self.see(
            port,
            at,
            frame,
            None,
            (Some(Direction::Outbound), Fate::Passed),
        );
    }

    /// Remembers that a packet that waits to be sent was marked here.
    pub(crate) fn marked(&mut self, slot: Slot) {
        self.marked.insert(slot.0);
    }

    /// Records a packet that a device took.
    pub(crate) fn left(&mut self, port: Option<u16>, packet: &Packet, pool: &Pool) {
        let fate = if self.marked.remove(&packet.slot.0) {
            Fate::Marked
        } else {
            Fate::Passed
        };
        let (frame, key) = (whole(pool.frame(packet)), pool.keys.key(packet));
        let ended = (Some(Direction::Outbound), fate);
        self.see(port, self.now, &frame, Some(key), ended);
    }

    /// Records dropped packets, except `seen`, before their memory is used again.
    pub(crate) fn ended(
        &mut self,
        port: Option<u16>,
        direction: Option<Direction>,
        fates: &DropCounters,
        pool: &Pool,
        seen: Option<Slot>,
    ) {
        for &Freed { slot, reason, .. } in fates.to_be_freed() {
            self.marked.remove(&slot.0);
            if Some(slot) != seen {
                let frame = whole(pool.frame_at(slot));
                // Every packet in a queue has its key in the pool.
                let is_queued = direction == Some(Direction::Outbound);
                let key = is_queued.then(|| pool.keys.key_at(slot));
                self.see(port, self.now, &frame, key, (direction, fate(Some(reason))));
            }
        }
    }

    /// Records a frame if the request covers it. The headers are read only if the filter needs the flow and no key is
    /// given.
    fn see(
        &mut self,
        port: Option<u16>,
        at: Instant,
        frame: &Frame<'_>,
        key: Option<&FlowKey>,
        (direction, fate): (Option<Direction>, Fate),
    ) {
        let Some(port) = port else {
            return;
        };
        let end = match fate {
            Fate::Dropped(reason) => Some(reason),
            Fate::Passed | Fate::Marked => None,
        };
        let wanted = (!self.want.drops || end.is_some()) && self.want.filter.takes_end(end);
        if !wanted || at >= self.want.until || self.captured >= self.want.packets {
            return;
        }
        let filter = &self.want.filter;
        let takes = |key: Option<&FlowKey>| match key {
            Some(key) => filter.takes_flow(key),
            None => filter.takes_flow(&flow_key(frame.bytes, &headers::peek(frame.bytes))),
        };
        if filter.reads_flows() && !takes(key) {
            return;
        }
        let sighting = Sighting {
            port,
            at,
            len: frame.len + if frame.tag.is_some() { 4 } else { 0 },
            direction,
            fate,
        };
        if self.sightings.push(sighting, frame, self.want.snap) {
            self.captured += 1;
        } else {
            self.missed[usize::from(port)] += 1;
        }
    }
}

fn whole(bytes: &[u8]) -> Frame<'_> {
    Frame {
        bytes,
        len: bytes.len() as u32,
        tag: None,
    }
}

/// The fate of a packet. Packets that the kernel handles itself are not lost.
fn fate(end: Option<Reason>) -> Fate {
    match end.filter(|r| r.is_loss()) {
        Some(reason) => Fate::Dropped(reason),
        None => Fate::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sighting(len: usize) -> Sighting {
        Sighting {
            port: 0,
            at: Instant::ZERO,
            len: len as u32,
            direction: None,
            fate: Fate::Passed,
        }
    }

    fn frame(bytes: &[u8], tag: Option<u16>) -> Frame<'_> {
        Frame {
            bytes,
            len: bytes.len() as u32,
            tag,
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_memory_does_not_grow() {
        let mut sightings = Sightings::default();
        let (list, bytes) = (sightings.list.capacity(), sightings.bytes.capacity());
        let big = vec![7; 1500];
        let mut taken = 0;
        while sightings.push(sighting(1500), &frame(&big, Some(1)), 9000) {
            taken += 1;
        }
        assert_eq!(taken, SIGHTINGS_BYTES_MAX / 1504);
        sightings.clear();
        for _ in 0..SIGHTINGS_MAX {
            assert!(sightings.push(sighting(1500), &frame(&big, None), 96));
        }
        assert!(!sightings.push(sighting(1500), &frame(&big, None), 96));
        assert_eq!(sightings.iter().count(), SIGHTINGS_MAX);
        assert_eq!(
            (sightings.list.capacity(), sightings.bytes.capacity()),
            (list, bytes)
        );
    }

    proptest! {
        #[test]
        fn each_frame_is_kept_apart_with_its_tag(
            frames in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..80), proptest::option::of(any::<u16>())),
                0..20,
            ),
            snap in 0..100_usize,
        ) {
            let mut sightings = Sightings::default();
            for (bytes, tag) in &frames {
                prop_assert!(sightings.push(sighting(bytes.len()), &frame(bytes, *tag), snap));
            }
            prop_assert_eq!(sightings.iter().count(), frames.len());
            for ((bytes, tag), (seen, kept)) in frames.iter().zip(sightings.iter()) {
                let mut expected = bytes.clone();
                if let Some(tag) = tag {
                    let at = expected.len().min(12);
                    let [high, low] = tag.to_be_bytes();
                    expected.splice(at..at, [0x81, 0, high, low]);
                }
                expected.truncate(snap);
                prop_assert_eq!(kept, &expected[..]);
                prop_assert_eq!(seen.len as usize, bytes.len());
            }
        }
    }
}
