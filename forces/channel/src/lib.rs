//! The queue between an element and a transport: it schedules control messages and redirects with a discipline and a
//! rate.
//!
//! ```text
//!   offer                                      take
//!  urgent redirects ---> a queue for each protocol and port --+--> transport
//!  control  ---> credit ----+                                 |
//!                           +-> Port::step -------------------+
//!  redirect -> byte limit --+   [discipline + rate]  waiting redirects are combined if small
//! ```
//!
//! Urgent redirects, of routing protocols and of neighbour discovery, go first, within half of the link while others
//! wait. The two classes of the DPPBRB paper protect the control element's own messages, and leave the packets of
//! its routing protocols among the redirects, where a flood drowns them.
//!
//! Messages are the packets of a [`Port`], the type that routers and the simulator use: for the discipline, a control
//! message is like TCP and a redirect like UDP. A producer of control messages checks its credit ([`Queue::has_room`])
//! and never loses a message; the discipline may drop redirects. A [`Schedule`] chooses the discipline.
//!
//! Without a rate the transport is the clock: a message leaves when the transport takes it. A rate counts the bytes of
//! messages, without the headers of the transport. A step may be late by [`LATE_MAX`], because the timers of the
//! runtime have a resolution of one millisecond.

mod urgent;

use std::collections::VecDeque;

use weir_base::{Instant, Rate, Span, Streams, Tally};
use weir_discipline::Spec;
use weir_discipline::channel::schedule::Schedule;
use weir_packet::{Class, DropCounters, FlowKey, Freed, Keys, Packet, Slot};
use weir_path::egress::port::{Link, Port};
use weir_protocol::wire::MessageKind;
use weir_protocol::wire::header::{HEADER_LEN, MESSAGE_LEN_MAX, message_len};

use crate::urgent::Urgent;

/// Bytes of waiting control messages at which a producer has no more credit. The last message may exceed the limit.
const CONTROL_BYTES_MAX: u64 = 256 << 10;
/// Maximum bytes of waiting redirects.
const REDIRECT_BYTES_MAX: u64 = 1 << 20;
/// Maximum delay of a step that a paced queue makes up for.
const LATE_MAX: Span = Span::from_millis(4);
/// Maximum number of messages that have left the discipline of a paced queue and that the transport has not taken yet.
const STAGED_MAX: usize = 64;

/// The two channels between a control element and a forwarding element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Channel {
    /// All messages except redirects: delivered in order.
    Control = 0,
    /// PacketRedirect messages, which may be lost.
    Redirect = 1,
}

impl Channel {
    /// The channel of a message, by the type in its header.
    pub fn of(message: &[u8]) -> Self {
        match message.get(1).map(|kind| MessageKind::from(*kind)) {
            Some(MessageKind::PacketRedirect) => Self::Redirect,
            _ => Self::Control,
        }
    }

    /// The flow key of the channel's messages, for the discipline.
    fn key(self) -> FlowKey {
        const TCP: u8 = 6;
        const UDP: u8 = 17;
        FlowKey {
            protocol: match self {
                Self::Control => TCP,
                Self::Redirect => UDP,
            },
            ..FlowKey::default()
        }
    }
}

const DPPBRB: &str = "dppbrb";
const FIFO: &str = "fifo";

/// Settings of a link's outgoing queue.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelSettings {
    /// The discipline: [`Schedule::spec`], or the same kind with other parameters.
    pub discipline: Spec,
    /// Rate of the messages in bit/s; `None` sends as fast as the transport accepts.
    pub rate: Option<Rate>,
    /// Maximum length in bytes of a message that combines waiting redirects; zero sends each redirect separately.
    pub combine: usize,
}

impl Default for ChannelSettings {
    /// DPPBRB without a rate; combines redirects up to a length that fits one packet on every path.
    fn default() -> Self {
        Self {
            discipline: Schedule::default().spec(),
            rate: None,
            combine: 1200,
        }
    }
}

impl ChannelSettings {
    /// Whether the discipline is one of the two kinds that never drop a control message with credit.
    pub fn is_permitted(&self) -> bool {
        [DPPBRB, FIFO].contains(&self.discipline.kind())
    }

    fn link(&self) -> Link {
        let late = self.rate.map_or(0, |rate| rate.bytes_in(LATE_MAX));
        Link {
            rate: self.rate,
            framing: weir_base::Framing::bytes(0),
            frame_bytes_max: u32::try_from(late).unwrap_or(u32::MAX).max(1500),
        }
    }

    /// Number of waiting control messages at which a producer has no more credit.
    fn control_max(&self) -> u64 {
        let (spec, settings) = (&self.discipline, self.discipline.settings());
        if spec.kind() != DPPBRB {
            return spec.limit() as u64;
        }
        let limit = settings.count("limit");
        if settings.flag("adapt") {
            limit.min(settings.count("max_threshold"))
        } else {
            limit
        }
    }
}

/// Counters of one channel of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelReport {
    /// Messages handed to the transport; each combined redirect counts as one message.
    pub sent: Tally,
    /// Messages that were queued or offered, and were dropped.
    pub dropped: Tally,
    /// Messages in the queue.
    pub queued: Tally,
    /// Messages that arrived and could be delivered.
    pub received: Tally,
}

/// Counters and gauges of a link's queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The counters, in the order of [`Channel`].
    pub channels: [ChannelReport; 2],
    /// Redirects that were sent within the message of another redirect.
    pub combined: u64,
    /// The kind of discipline.
    pub discipline: &'static str,
    /// Gauges of the discipline, as in its manual page.
    pub gauges: Vec<(&'static str, u64)>,
}

/// The fate of an offered message.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message waits for the transport.
    Queued,
    /// The message was a redirect and was dropped.
    Dropped,
    /// The message is a control message without credit; offer it again later.
    NoRoom(Vec<u8>),
    /// The link is closed.
    Closed,
}

/// The queue's answer to the transport.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next message.
    Message(Channel, Vec<u8>),
    /// No message before this time.
    At(Instant),
    /// The queue is empty.
    Empty,
}

/// The queue. Time is an argument and must not go backwards.
pub struct Queue {
    settings: ChannelSettings,
    control_max: u64,
    port: Port,
    streams: Streams,
    /// The secret of the hashes over the keys.
    secret: (u64, u64),
    keys: Keys,
    fates: DropCounters,
    slots: Vec<Option<Vec<u8>>>,
    free: Vec<Slot>,
    next_id: u64,
    reports: [ChannelReport; 2],
    combined: u64,
    /// Messages that have left the discipline but that the transport has not taken yet. They still count as queued.
    staged: VecDeque<Vec<u8>>,
    urgent: Urgent,
}

impl Queue {
    /// An empty queue; `seed` initialises the random numbers of the discipline.
    pub fn new(settings: ChannelSettings, now: Instant, seed: u64) -> Self {
        let (spec, streams) = (settings.discipline.clone(), Streams::new(seed));
        let slots = spec.limit() + 1; // one for the arriving message
        Self {
            control_max: settings.control_max(),
            port: Port::new(spec, settings.link(), now, &streams),
            streams,
            keys: Keys::new(slots, (seed, !seed)),
            secret: (seed, !seed),
            fates: DropCounters::default(),
            slots: vec![None; slots],
            free: (0..slots as u32).rev().map(Slot).collect(),
            next_id: 0,
            reports: [ChannelReport::default(); 2],
            combined: 0,
            staged: VecDeque::new(),
            urgent: Urgent::default(),
            settings,
        }
    }

    /// Credit: whether the queue would accept a control message now.
    pub fn has_room(&self) -> bool {
        let waiting = self.reports[Channel::Control as usize].queued;
        let shares_queue = self.settings.discipline.kind() == FIFO;
        waiting.packets < self.control_max
            && waiting.bytes < CONTROL_BYTES_MAX
            && (!shares_queue || self.port.queue().has_room(Class::default()))
    }

    /// Offers a message to the queue.
    pub fn offer(&mut self, now: Instant, message: Vec<u8>) -> Sent {
        let (channel, bytes) = (Channel::of(&message), message.len() as u64);
        if channel == Channel::Control && !self.has_room() {
            return Sent::NoRoom(message);
        }
        let report = &mut self.reports[channel as usize];
        if let Some(flow) = urgent::flow_of(&message) {
            return if self.urgent.push(flow, message).is_ok() {
                report.queued.count(bytes);
                Sent::Queued
            } else {
                report.dropped.count(bytes);
                Sent::Dropped
            };
        }
        let is_full =
            channel == Channel::Redirect && report.queued.bytes + bytes > REDIRECT_BYTES_MAX;
        let slot = match self.free.pop() {
            Some(slot) if !is_full => slot,
            unused => {
                self.free.extend(unused);
                report.dropped.count(bytes);
                return Sent::Dropped;
            }
        };
        report.queued.count(bytes);
        self.keys.set(slot, channel.key());
        self.slots[slot.0 as usize] = Some(message);
        self.port
            .offer(Packet::new(self.next_id, slot, bytes as u32, now));
        self.next_id += 1;
        let dropped = report.dropped;
        self.step(now, self.staging_room());
        if self.reports[channel as usize].dropped == dropped {
            Sent::Queued
        } else {
            Sent::Dropped
        }
    }

    /// Takes the next message for the transport. Redirects are combined up to the smaller of the setting and `piece`,
    /// the number of bytes that the transport carries in one packet.
    pub fn take(&mut self, now: Instant, piece: usize) -> Taken {
        let first = self.next(now);
        let Taken::Message(Channel::Redirect, mut message) = first else {
            return first;
        };
        let bytes_max = piece.min(self.settings.combine).min(MESSAGE_LEN_MAX);
        while message.len() < bytes_max {
            self.advance(now);
            let fits = |more: &mut Vec<u8>| {
                Channel::of(more) == Channel::Redirect && combine(&mut message, more, bytes_max)
            };
            let Some(more) = self.staged.pop_front_if(fits) else {
                break;
            };
            self.count_sent(Channel::Redirect, more.len());
            self.combined += 1;
        }
        Taken::Message(Channel::Redirect, message)
    }

    /// Applies other settings. Waiting messages stay in the queue, as far as the new discipline accepts them.
    pub fn set(&mut self, settings: ChannelSettings, now: Instant) {
        let slots = settings.discipline.limit() + 1;
        if slots > self.slots.len() {
            self.free
                .extend((self.slots.len() as u32..slots as u32).map(Slot));
            self.slots.resize(slots, None);
            self.keys = Keys::new(slots, self.secret);
            for (slot, message) in self.slots.iter().enumerate() {
                if let Some(message) = message {
                    self.keys.set(Slot(slot as u32), Channel::of(message).key());
                }
            }
        }
        let (spec, link) = (settings.discipline.clone(), settings.link());
        let (keys, fates) = (&self.keys, &mut self.fates);
        self.port
            .reconfigure(spec, link, now, keys, fates, &self.streams);
        self.control_max = settings.control_max();
        self.settings = settings;
        self.free_dropped();
    }

    /// Counts a message that arrived.
    pub fn count_received(&mut self, channel: Channel, bytes: u64) {
        self.reports[channel as usize].received.count(bytes);
    }

    /// Counters and gauges.
    pub fn report(&self) -> Report {
        let mut gauges = Vec::new();
        self.port
            .queue()
            .inspect(&mut |name, value| gauges.push((name, value)));
        Report {
            channels: self.reports,
            combined: self.combined,
            discipline: self.settings.discipline.kind(),
            gauges,
        }
    }

    fn next(&mut self, now: Instant) -> Taken {
        if !self.urgent.is_first() {
            let next = self.advance(now);
            match (self.staged.pop_front(), next) {
                (Some(message), _) => {
                    let channel = Channel::of(&message);
                    self.count_sent(channel, message.len());
                    self.urgent.count_other(message.len());
                    return Taken::Message(channel, message);
                }
                (None, next) if self.urgent.is_empty() => {
                    return next.map_or(Taken::Empty, Taken::At);
                }
                (None, Some(next)) if self.port.free_at() > now => return Taken::At(next),
                (None, _) => {} // only urgent messages wait
            }
        }
        if self.port.free_at() > now {
            return Taken::At(self.port.free_at());
        }
        let others_wait = !self.staged.is_empty() || !self.port.is_idle();
        match self.urgent.pop(others_wait) {
            Some(message) => {
                self.port.charge(message.len() as u64, now);
                self.count_sent(Channel::Redirect, message.len());
                Taken::Message(Channel::Redirect, message)
            }
            None => Taken::Empty,
        }
    }

    fn count_sent(&mut self, channel: Channel, bytes: usize) {
        let report = &mut self.reports[channel as usize];
        report.queued.uncount(bytes as u64);
        report.sent.count(bytes as u64);
    }

    /// Stages at least one message, if a message is due. Returns the time of the next event.
    fn advance(&mut self, now: Instant) -> Option<Instant> {
        let one = usize::from(self.staged.is_empty());
        self.step(now, self.staging_room().max(one))
    }

    /// Number of messages that may be staged before the transport takes them. With a rate, a message that is due leaves
    /// the discipline on time, even if the next arrival precedes the next call from the transport. Without a rate the
    /// transport is the clock; and it takes an urgent message first.
    fn staging_room(&self) -> usize {
        match self.settings.rate {
            Some(_) if self.urgent.is_first() => 0,
            Some(_) => STAGED_MAX.saturating_sub(self.staged.len()),
            None => 0,
        }
    }

    /// A step of the port, in which at most `room` messages leave. Returns the time of the next event.
    fn step(&mut self, now: Instant, room: usize) -> Option<Instant> {
        let (keys, fates) = (&self.keys, &mut self.fates);
        let (slots, free, staged) = (&mut self.slots, &mut self.free, &mut self.staged);
        let mut departed = |packet: Packet, _| {
            staged.extend(slots[packet.slot.0 as usize].take());
            free.push(packet.slot);
        };
        let next = self.port.step(now, keys, fates, room, &mut departed);
        self.free_dropped();
        next
    }

    fn free_dropped(&mut self) {
        for Freed { slot, .. } in self.fates.freed() {
            let message = self.slots[slot.0 as usize].take();
            self.free.push(slot);
            if let Some(message) = message {
                let report = &mut self.reports[Channel::of(&message) as usize];
                report.queued.uncount(message.len() as u64);
                report.dropped.count(message.len() as u64);
            }
        }
    }
}

/// Appends the packets of one redirect to another redirect, if both have the same header and the result is not too
/// long.
fn combine(message: &mut Vec<u8>, more: &[u8], bytes_max: usize) -> bool {
    let is_whole = |m: &[u8]| message_len(m) == Ok(Some(m.len()));
    let same = |range: std::ops::Range<usize>| message.get(range.clone()) == more.get(range);
    let (after_length, len) = (
        4..HEADER_LEN,
        message.len() + more.len() - HEADER_LEN.min(more.len()),
    );
    if len > bytes_max
        || !is_whole(message)
        || !is_whole(more)
        || !same(0..2)
        || !same(after_length)
    {
        return false;
    }
    message.extend_from_slice(&more[HEADER_LEN..]);
    message[2..4].copy_from_slice(&((len / 4) as u16).to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::setting::Scalar;
    use weir_protocol::wire::header::{Envelope, Flags, Priority};
    use weir_protocol::wire::message::PacketRedirect;
    use weir_protocol::wire::redirect::{MetadataId, Redirect};
    use weir_protocol::wire::{Body, Id, Message};

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    /// A message of this type; its length must be a multiple of four.
    fn message(kind: u8, len: usize, mark: u8) -> Vec<u8> {
        let mut message = vec![mark; len];
        message[..4].copy_from_slice(&[0x10, kind, (len >> 10) as u8, (len / 4) as u8]);
        message[4..HEADER_LEN].fill(0);
        message
    }

    fn control(len: usize) -> Vec<u8> {
        message(3, len, 0)
    }

    fn redirect(len: usize, mark: u8) -> Vec<u8> {
        message(6, len, mark)
    }

    fn queue(schedule: Schedule, rate: Option<Rate>, combine: usize) -> Queue {
        let settings = ChannelSettings {
            discipline: schedule.spec(),
            rate,
            combine,
        };
        Queue::new(settings, Instant::ZERO, 1)
    }

    fn taken(queue: &mut Queue, now: Instant) -> Option<Vec<u8>> {
        match queue.take(now, usize::MAX) {
            Taken::Message(_, message) => Some(message),
            Taken::At(_) | Taken::Empty => None,
        }
    }

    #[test]
    fn a_control_message_has_credit_or_comes_back() {
        for &schedule in Schedule::ALL {
            let word = schedule.word();
            let mut queue = queue(schedule, None, 0);
            let mut queued = 0;
            while queue.has_room() {
                assert_eq!(queue.offer(at(0), control(100)), Sent::Queued, "{word}");
                queued += 1;
            }
            assert!((50..=100).contains(&queued), "{word}: {queued}");
            let back = queue.offer(at(0), control(104));
            assert_eq!(back, Sent::NoRoom(control(104)));
            assert_eq!(taken(&mut queue, at(1)), Some(control(100)));
            assert!(queue.has_room());
            while taken(&mut queue, at(2)).is_some() {}
            let report = queue.report().channels[0];
            assert_eq!((report.sent.packets, report.queued), (queued, Tally::ZERO));
            assert_eq!(report.dropped, Tally::ZERO);
        }
    }

    #[test]
    fn long_messages_need_credit_in_bytes() {
        let mut queue = queue(Schedule::Dppbrb, None, 0);
        assert_eq!(queue.offer(at(0), control(MESSAGE_LEN_MAX)), Sent::Queued);
        assert!(queue.has_room());
        assert_eq!(queue.offer(at(0), control(MESSAGE_LEN_MAX)), Sent::Queued);
        assert!(!queue.has_room());
        let redirects = (0..100).map(|_| queue.offer(at(0), redirect(60_000, 0)));
        let queued = redirects.filter(|sent| *sent == Sent::Queued).count();
        assert_eq!(queued, REDIRECT_BYTES_MAX as usize / 60_000);
    }

    #[test]
    fn redirects_leave_the_credit_alone_unless_they_share_the_queue() {
        for (schedule, has_room) in [
            (Schedule::Dppbrb, true),
            (Schedule::Priorities, true),
            (Schedule::DropTail, false),
        ] {
            let mut queue = queue(schedule, None, 0);
            for _ in 0..1000 {
                queue.offer(at(0), redirect(100, 0));
            }
            assert_eq!(queue.has_room(), has_room, "{schedule:?}");
            let report = queue.report().channels[1];
            assert_eq!(report.queued.packets + report.dropped.packets, 1000);
        }
    }

    #[test]
    fn a_rate_is_kept_and_a_late_step_may_catch_up() {
        // 8 Mbit/s: a message of 1000 bytes takes a millisecond.
        let mut queue = queue(Schedule::Priorities, Some(Rate::from_mbps(8)), 0);
        for _ in 0..100 {
            queue.offer(at(0), control(1000));
        }
        let mut sent = |now| std::iter::from_fn(|| taken(&mut queue, at(now))).count();
        assert_eq!(sent(0), 1);
        assert_eq!(sent(999), 0);
        assert_eq!(sent(1000), 1);
        assert_eq!(sent(3500), 2);
        // After 50 ms without a step, 4 ms of messages and the next one may leave.
        assert!((4..=6).contains(&sent(53_500)));
        let Taken::At(next) = queue.take(at(53_500), 0) else {
            panic!("messages wait")
        };
        assert!(next > at(53_500) && next <= at(54_500));
    }

    #[test]
    fn arrivals_between_two_steps_do_not_slow_a_rate() {
        // 8 Mbit/s for one second. A redirect arrives every 100 us, the transport takes messages every 2.5 ms.
        let mut queue = queue(Schedule::Dppbrb, Some(Rate::from_mbps(8)), 0);
        let mut sent = 0;
        for tick in 0..10_000 {
            queue.offer(at(tick * 100), redirect(1000, 0));
            if tick % 25 == 0 {
                sent += std::iter::from_fn(|| taken(&mut queue, at(tick * 100))).count();
            }
        }
        assert!((990..=1003).contains(&sent), "{sent}");
    }

    #[test]
    fn waiting_redirects_become_one_message() {
        let mut queue = queue(Schedule::Priorities, None, 200);
        for mark in 1..=3 {
            queue.offer(at(0), redirect(HEADER_LEN + 40, mark));
        }
        queue.offer(at(0), redirect(HEADER_LEN + 80, 4)); // does not fit
        let mut other = redirect(HEADER_LEN + 4, 5);
        other[8] = 1; // another destination
        queue.offer(at(0), other.clone());
        let mut all = redirect(HEADER_LEN + 120, 1);
        all[HEADER_LEN + 40..][..40].fill(2);
        all[HEADER_LEN + 80..].fill(3);
        assert_eq!(taken(&mut queue, at(1)), Some(all));
        assert_eq!(taken(&mut queue, at(1)), Some(redirect(HEADER_LEN + 80, 4)));
        assert_eq!(taken(&mut queue, at(1)), Some(other));
        assert_eq!(taken(&mut queue, at(1)), None);
        let report = queue.report();
        assert_eq!((report.combined, report.channels[1].sent.packets), (2, 5));
    }

    #[test]
    fn a_piece_of_the_transport_limits_messages() {
        let mut queue = queue(Schedule::Priorities, None, 1000);
        for mark in 0..4 {
            queue.offer(at(0), redirect(HEADER_LEN + 40, mark));
        }
        let Taken::Message(_, first) = queue.take(at(1), HEADER_LEN + 80) else {
            panic!("redirects wait")
        };
        assert_eq!(first.len(), HEADER_LEN + 80);
        // A redirect that exceeds `piece` is still sent, on its own: the transport decides about it.
        let Taken::Message(_, second) = queue.take(at(1), 10) else {
            panic!("redirects wait")
        };
        assert_eq!(second, redirect(HEADER_LEN + 40, 2));
    }

    /// A redirect of a hello through a port, as long as `redirect(…, 0)` of its length.
    fn hello(port: u32, protocol: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 64, 0, 0, 0, 0, 1, protocol, 0, 0];
        packet.resize(64, 0);
        let metadata = vec![
            MetadataId::PhyPortId.with(&port.to_be_bytes()),
            MetadataId::EtherType.with(&[8, 0]),
        ];
        let redirect = Redirect::new(metadata, packet).unwrap();
        let envelope = Envelope {
            source: Id(2),
            destination: Id(0x4000_0001),
            correlator: 0,
            flags: Flags {
                priority: Priority::URGENT_REDIRECT,
                ..Flags::default()
            },
        };
        let body = Body::PacketRedirect(PacketRedirect::new(vec![redirect]).unwrap());
        Message::new(envelope, body).unwrap().to_bytes()
    }

    #[test]
    fn urgent_redirects_go_first_in_every_schedule() {
        for (&schedule, rate) in Schedule::ALL
            .iter()
            .flat_map(|schedule| [(schedule, None), (schedule, Some(Rate::from_mbps(8)))])
        {
            let mut queue = queue(schedule, rate, 0);
            for _ in 0..1000 {
                queue.offer(at(0), redirect(1000, 0));
            }
            let mut now = 0;
            let mut late = 0;
            for _ in 0..50 {
                now += 10_000;
                queue.offer(at(now), redirect(1000, 0));
                assert_eq!(queue.offer(at(now), hello(1, 89)), Sent::Queued);
                // At most the frame that the link has begun goes before.
                let due = (0..3).find(|n| {
                    let now = at(now + n * 1000);
                    taken(&mut queue, now).is_some_and(|message| message == hello(1, 89))
                });
                late = late.max(due.unwrap());
            }
            assert!(late <= 1, "{schedule:?}, {rate:?}: {late}");
        }
    }

    #[test]
    fn forged_hellos_get_half_of_the_link_and_their_own_turn_only() {
        let mut queue = queue(Schedule::Dppbrb, Some(Rate::from_mbps(8)), 0);
        let (mut forged, mut right, mut others) = (0, 0, 0);
        let mut lost = 0;
        // A second of 10^6 bytes, with messages of ten times as many.
        for micros in 0..1_000_000_u64 {
            if micros % 100 == 0 {
                queue.offer(at(micros), redirect(1000, 0));
                (0..4).for_each(|_| drop(queue.offer(at(micros), hello(1, 89))));
            }
            if micros % 20_000 == 0 {
                for (port, protocol) in [(1, 112), (2, 89)] {
                    lost +=
                        u32::from(queue.offer(at(micros), hello(port, protocol)) != Sent::Queued);
                }
            }
            if micros % 50 == 0 {
                while let Some(message) = taken(&mut queue, at(micros)) {
                    match () {
                        () if message == hello(1, 89) => forged += message.len(),
                        () if message.len() == 1000 => others += message.len(),
                        () => right += 1,
                    }
                }
            }
        }
        assert_eq!((right, lost), (100, 0));
        assert!((0.45..0.55).contains(&(others as f64 / 1e6)), "{others}");
        assert!((0.4..0.55).contains(&(forged as f64 / 1e6)), "{forged}");
    }

    #[test]
    fn other_settings_keep_what_waits() {
        let mut queue = queue(Schedule::DropTail, None, 0);
        for mark in 0..100 {
            queue.offer(at(0), redirect(100, mark));
        }
        let more = Scalar::Integer(1000);
        let settings = ChannelSettings {
            discipline: Schedule::DropTail.spec().with([("limit", &more)]).unwrap(),
            ..queue.settings.clone()
        };
        queue.set(settings, at(1));
        for _ in 0..900 {
            assert_eq!(queue.offer(at(2), redirect(100, 200)), Sent::Queued);
        }
        let settings = ChannelSettings {
            combine: 0,
            ..ChannelSettings::default()
        };
        queue.set(settings, at(3)); // the new discipline drops the excess
        let report = queue.report();
        let redirects = report.channels[1];
        assert_eq!((report.discipline, redirects.sent), ("dppbrb", Tally::ZERO));
        assert_eq!(redirects.queued.packets + redirects.dropped.packets, 1000);
        assert_eq!(taken(&mut queue, at(4)), Some(redirect(100, 0)));
    }

    proptest! {
        /// Control messages leave exactly once and in order, redirects at most once, and the counters balance.
        #[test]
        fn nothing_is_lost_but_redirects(
            schedule in 0_usize..3, rate in 0_u64..20, combine in 0_usize..2000,
            steps in prop::collection::vec((any::<bool>(), 7_usize..400, 0_u64..2000, any::<bool>()), 1..300),
        ) {
            let rate = (rate > 0).then(|| Rate::from_mbps(rate));
            let mut queue = queue(Schedule::ALL[schedule], rate, combine);
            let (mut now, mut expected, mut offered) = (0, std::collections::VecDeque::new(), 0);
            let out = |queue: &mut Queue, now, expected: &mut std::collections::VecDeque<Vec<u8>>| {
                if let Some(message) = taken(queue, at(now)) {
                    match Channel::of(&message) {
                        Channel::Control => assert_eq!(Some(message), expected.pop_front()),
                        Channel::Redirect => assert_eq!(message_len(&message), Ok(Some(message.len()))),
                    }
                    return true;
                }
                false
            };
            for (is_control, words, wait, take) in steps {
                now += wait;
                if is_control {
                    if queue.has_room() {
                        expected.push_back(control(4 * words));
                        prop_assert_eq!(queue.offer(at(now), control(4 * words)), Sent::Queued);
                    }
                } else {
                    offered += 1;
                    queue.offer(at(now), redirect(4 * words, 1));
                }
                if take {
                    out(&mut queue, now, &mut expected);
                }
            }
            for _ in 0..10_000 {
                now += 1000;
                out(&mut queue, now, &mut expected);
            }
            prop_assert!(expected.is_empty());
            let redirects = queue.report().channels[1];
            prop_assert_eq!(redirects.queued, Tally::ZERO);
            prop_assert_eq!(redirects.sent.packets + redirects.dropped.packets, offered);
        }
    }
}
