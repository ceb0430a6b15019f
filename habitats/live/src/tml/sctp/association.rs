//! An SCTP association that is up: one channel of a link (RFC 9260, 6 to 9).
//!
//! ```text
//! packets --> walk, gate --> library --> inbox --> poll_message
//!             heartbeats, shutdown, abort: answered here
//! send ----> library --> identifiers, window --> poll_packet
//! ```
//!
//! Complete messages leave the library at once and wait in the inbox. The window that the peer receives is the room
//! there, so a reader that does not read stops the sender. A peer that sends beyond the window is not acknowledged.
//!
//! An idle association asks for a sign of life; after four heartbeats without an answer, within eight seconds, it has
//! ended.
//!
//! Deviations from RFC 9260: each packet with data is acknowledged at once (6.2 permits to wait 200 ms, which a
//! retransmission timer for a LAN would not survive); one path, so the peer's other addresses are not used.

use std::collections::VecDeque;

use weir_base::{Instant, Span};

use super::channel::{Channel, Stray};
use super::cookie::{Contract, Path};
use super::gate::{DATA_LEN, Gate, Verdict, sack_is_plausible};
use super::inbox::{Inbox, set_window};
use super::library::{Arrived, Epoch, FOREIGN, Library, OURS};
use super::outcome::{Dropped, End};
use super::packet::{self, Chunk, Header, Packet, Writer, kind, u32_at};

/// Octets of messages that are not acknowledged; with more, there is no credit.
pub const UNACKNOWLEDGED_MAX: usize = 128 << 10;
/// Packets that wait for the socket; beyond them the association sends nothing.
const OUTBOX_MAX: usize = 1024;

/// A peer from which nothing came for so long is gone, at the latest.
pub const SILENCE_MAX: Span = Span::from_secs(8);
/// Heartbeats within that time that may stay unanswered. They are counted, so that a process which did not run for a
/// while does not take its own sleep for the silence of its peers.
const HEARTBEATS_MAX: u32 = 4;
/// Time to deliver what was sent before a close.
const FLUSH_MAX: Span = Span::from_secs(2);
const SHUTDOWN_EVERY: Span = Span::from_millis(300);
const SHUTDOWNS_MAX: u32 = 4;

/// The flag of a DATA chunk that asks for an acknowledgement at once (RFC 7053).
const IMMEDIATE: u8 = 8;
/// The flag of an ABORT or SHUTDOWN COMPLETE whose tag is the sender's (RFC 9260, 8.5.1).
pub const REFLECTED: u8 = 1;

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// Waits for the acknowledgement of all data, until an instant.
    Flushing(Instant),
    /// Has sent this number of SHUTDOWNs, and sends the next one at an instant.
    ShuttingDown(u32, Instant),
}

/// An association. After each input, call [`Association::poll_packet`] until it gives none.
#[derive(Debug)]
pub struct Association {
    channel: Channel,
    header: Header,
    contract: Contract,
    library: Library,
    gate: Gate,
    inbox: Inbox,
    outbox: VecDeque<Vec<u8>>,
    last_sent: u32,
    heard: Instant,
    next_heartbeat: Instant,
    silence_max: Span,
    /// Heartbeats since a packet came.
    unanswered: u32,
    state: State,
    end: Option<End>,
    /// Counters of dropped packets, chunks and messages.
    pub dropped: Dropped,
}

impl Association {
    /// The association that `contract` agrees on. `None` if its tags are equal, which the library does not accept.
    pub fn new(
        now: Instant,
        epoch: Epoch,
        channel: Channel,
        path: &Path,
        contract: Contract,
    ) -> Option<Self> {
        Some(Self {
            channel,
            header: Header {
                source_port: path.local_port,
                destination_port: path.remote_port,
                tag: contract.theirs.tag,
            },
            contract,
            library: Library::new(epoch, channel, path, &contract)?,
            gate: Gate::new(contract.theirs.first_tsn),
            inbox: Inbox::default(),
            outbox: VecDeque::new(),
            last_sent: contract.ours.first_tsn.wrapping_sub(1),
            heard: now,
            next_heartbeat: now,
            silence_max: SILENCE_MAX,
            unanswered: 0,
            state: State::Open,
            end: None,
            dropped: Dropped::default(),
        })
    }

    /// Sets the time after which a silent peer is gone, if it is less than [`SILENCE_MAX`].
    pub fn with_silence_max(mut self, span: Span) -> Self {
        self.silence_max = span.min(SILENCE_MAX);
        self
    }

    /// The statements of both sides.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// A packet from the peer's address and ports.
    pub fn handle_packet(&mut self, now: Instant, packet: &Packet<'_>) {
        if self.end.is_some() {
            return;
        }
        if !self.is_tagged(packet) {
            self.dropped.tag += 1;
            return;
        }
        self.heard = now;
        self.unanswered = 0;
        for chunk in packet.chunks() {
            let skips = chunk.kind & 0x80 != 0; // RFC 9260, 3.2: what to do with an unknown type
            if !self.handle_chunk(now, &chunk) && !skips {
                break;
            }
            if self.end.is_some() {
                return;
            }
        }
        self.advance(now);
    }

    /// Timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        if now >= self.next_heartbeat {
            let every =
                Span::from_nanos(self.silence_max.as_nanos() / u64::from(HEARTBEATS_MAX + 1));
            self.next_heartbeat = now + every;
            if now.since(self.heard) >= every {
                if self.unanswered >= HEARTBEATS_MAX {
                    self.abort(End::Silent);
                    return;
                }
                self.unanswered += 1;
                // One parameter: heartbeat info, 12 octets, with the instant at which it was sent.
                let mut value = vec![0, 1, 0, 12];
                value.extend(now.as_nanos().to_be_bytes());
                self.write(kind::HEARTBEAT, &value);
            }
        }
        self.library.handle_timeout(now);
        self.advance(now);
    }

    /// When [`Association::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        let closing = match self.state {
            State::Open => None,
            State::Flushing(until) => Some(until),
            State::ShuttingDown(_, next) => Some(next),
        };
        let own = Some(self.next_heartbeat);
        [own, closing, self.library.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next packet to send.
    pub fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// The next message that arrived. More may follow after the end, until `None`.
    pub fn poll_message(&mut self, now: Instant) -> Option<Vec<u8>> {
        let message = self.inbox.pop()?;
        if self.end.is_none() {
            self.reopen(now);
        }
        Some(message)
    }

    /// Whether the next message may be sent.
    pub fn has_room(&mut self) -> bool {
        self.end.is_none()
            && matches!(self.state, State::Open)
            && self.outbox.len() < OUTBOX_MAX
            && self.library.unacknowledged() < UNACKNOWLEDGED_MAX
    }

    /// Whether all that was sent has arrived.
    pub fn is_flushed(&mut self) -> bool {
        self.library.unacknowledged() == 0
    }

    /// Sends a message. The caller asked [`Association::has_room`]; false: there was none.
    pub fn send(&mut self, now: Instant, message: &[u8]) -> bool {
        let sent = self.has_room() && self.library.send(message);
        self.advance(now);
        sent
    }

    /// Closes the association: at once, or after all that was sent has arrived (two seconds at most).
    pub fn close(&mut self, now: Instant, after_queue: bool) {
        if self.end.is_some() {
            return;
        }
        if !after_queue {
            self.abort(End::Closed);
        } else if let State::Open = self.state {
            self.state = State::Flushing(now + FLUSH_MAX);
            self.advance(now);
        }
    }

    /// Why the association has ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn is_tagged(&self, packet: &Packet<'_>) -> bool {
        let reflected = packet.chunks().next().is_some_and(|chunk| {
            matches!(chunk.kind, kind::ABORT | kind::SHUTDOWN_COMPLETE)
                && chunk.flags & REFLECTED != 0
        });
        let expected = if reflected {
            self.contract.theirs.tag
        } else {
            self.contract.ours.tag
        };
        packet.header.tag == expected
    }

    /// Handles a chunk; false if its type is unknown.
    fn handle_chunk(&mut self, now: Instant, chunk: &Chunk<'_>) -> bool {
        match chunk.kind {
            kind::DATA => self.handle_data(now, chunk),
            kind::SACK => {
                if sack_is_plausible(chunk.value, self.last_sent) {
                    self.feed(now, chunk.kind, 0, chunk.value.to_vec());
                } else {
                    self.dropped.implausible += 1;
                }
            }
            kind::FORWARD_TSN => self.handle_forward(now, chunk),
            kind::HEARTBEAT => self.write(kind::HEARTBEAT_ACK, chunk.value),
            kind::HEARTBEAT_ACK | kind::COOKIE_ACK | kind::COOKIE_ECHO => {}
            kind::ABORT => self.end = Some(End::ByPeer),
            kind::SHUTDOWN => {
                self.write(kind::SHUTDOWN_ACK, &[]);
                self.end = Some(End::ByPeer);
            }
            kind::SHUTDOWN_ACK => {
                self.write(kind::SHUTDOWN_COMPLETE, &[]);
                self.end = Some(match self.state {
                    State::Open => End::ByPeer,
                    _ => End::Closed,
                });
            }
            kind::SHUTDOWN_COMPLETE => self.end = Some(End::ByPeer),
            _ => {
                self.dropped.chunk += 1;
                return false;
            }
        }
        true
    }

    fn handle_data(&mut self, now: Instant, chunk: &Chunk<'_>) {
        if self.inbox.room() == 0 {
            self.dropped.window += 1;
            self.inbox.refuse(chunk);
            return;
        }
        match self.gate.data(chunk.flags, chunk.value) {
            Ok(Verdict::Pass) => {
                let mut value = chunk.value.to_vec();
                let ours = u32_at(&value, 8) == Some(self.channel.ppid());
                set_ppid(&mut value, if ours { OURS } else { FOREIGN });
                self.feed(now, kind::DATA, chunk.flags | IMMEDIATE, value);
            }
            Ok(Verdict::Drop) => self.dropped.implausible += 1,
            Err(_) => self.violation("data out of order"),
        }
    }

    fn handle_forward(&mut self, now: Instant, chunk: &Chunk<'_>) {
        if !self.contract.theirs.forward_tsn || !self.contract.ours.forward_tsn {
            self.dropped.implausible += 1;
            return;
        }
        self.advance(now); // the gate must know what the library has acknowledged
        match self.gate.forward(chunk.value) {
            Ok(Verdict::Pass) => {
                // Once to skip, and once more because the library acknowledges only what it has seen before at once.
                for _ in 0..2 {
                    self.feed(now, kind::FORWARD_TSN, 0, chunk.value.to_vec());
                }
                self.advance(now);
            }
            Ok(Verdict::Drop) => self.dropped.implausible += 1,
            Err(_) => self.violation("data after they were given up"),
        }
    }

    /// Gives one chunk to the library, and takes out the messages that it completes.
    fn feed(&mut self, now: Instant, kind: u8, flags: u8, value: Vec<u8>) {
        let header = Header {
            source_port: self.header.destination_port,
            destination_port: self.header.source_port,
            tag: self.contract.ours.tag,
        };
        let packet = Writer::new(header).chunk(kind, flags, &value).finish();
        self.library.handle_packet(now, packet);
        while let Some(arrived) = self.library.poll_message() {
            self.take(arrived);
        }
        if let Some(reason) = self.library.lost() {
            let reason = reason.to_owned();
            self.violation(&reason);
        }
    }

    fn take(&mut self, arrived: Arrived) {
        let Arrived::Message(message) = arrived else {
            self.dropped.ppid += 1;
            return;
        };
        match self.channel.check(&message) {
            Ok(_) => self.inbox.push(message),
            Err(Stray::Malformed) if self.channel == Channel::Low => self.dropped.malformed += 1,
            // Its reader ends the link: on a reliable channel no message may be missing.
            Err(Stray::Malformed) => self.inbox.push(message),
            Err(Stray::Kind) => self.dropped.message_kind += 1,
            Err(Stray::Priority) => self.dropped.priority += 1,
        }
    }

    /// Moves what the library wants to send, and a close, on.
    fn advance(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        if self.outbox.len() < OUTBOX_MAX {
            for packet in self.library.poll_packets(now) {
                self.transmit(packet.to_vec());
            }
        }
        if self.end.is_none() {
            self.advance_close(now);
        }
    }

    fn advance_close(&mut self, now: Instant) {
        let (sent, next) = match self.state {
            State::Open => return,
            State::Flushing(until) if self.library.unacknowledged() > 0 => {
                if now >= until {
                    self.abort(End::Closed);
                }
                return;
            }
            State::Flushing(_) => (0, now),
            State::ShuttingDown(sent, next) => (sent, next),
        };
        if now < next {
            return;
        }
        if sent >= SHUTDOWNS_MAX {
            self.abort(End::Closed);
            return;
        }
        self.write(kind::SHUTDOWN, &self.gate.cumulative().to_be_bytes());
        self.state = State::ShuttingDown(sent + 1, now + SHUTDOWN_EVERY);
    }

    /// A packet of the library goes out with our identifier and our window.
    fn transmit(&mut self, mut packet: Vec<u8>) {
        let (ppid, room) = (self.channel.ppid(), self.inbox.room());
        let (mut last_sent, mut acknowledged) = (self.last_sent, None);
        packet::rewrite(&mut packet, |kind, value| match kind {
            kind::DATA => {
                set_ppid(value, ppid);
                if let Some(tsn) = u32_at(value, 0)
                    && tsn.wrapping_sub(last_sent) <= u32::MAX / 2
                {
                    last_sent = tsn;
                }
            }
            kind::SACK => {
                acknowledged = u32_at(value, 0);
                set_window(value, room);
            }
            kind::FORWARD_TSN => {
                if let Some(tsn) = u32_at(value, 0)
                    && tsn.wrapping_sub(last_sent) <= u32::MAX / 2
                {
                    last_sent = tsn;
                }
            }
            _ => {}
        });
        self.last_sent = last_sent;
        if let Some(cumulative) = acknowledged {
            self.inbox.tell(&packet);
            if self.gate.acknowledged(cumulative).is_err() {
                self.violation("messages out of order");
                return;
            }
        }
        self.outbox.push_back(packet);
    }

    /// Tells the peer if there is room again after the window was closed.
    fn reopen(&mut self, now: Instant) {
        let Some(refused) = self.inbox.reopened() else {
            return;
        };
        for (flags, value) in refused {
            let kind = kind::DATA;
            let value = &value;
            self.handle_data(now, &Chunk { kind, flags, value });
        }
        self.advance(now);
        self.outbox.extend(self.inbox.reminder());
    }

    fn write(&mut self, kind: u8, value: &[u8]) {
        if self.outbox.len() < OUTBOX_MAX {
            let packet = Writer::new(self.header).chunk(kind, 0, value).finish();
            self.outbox.push_back(packet);
        }
    }

    fn violation(&mut self, what: &str) {
        self.abort(End::Violation(what.to_owned()));
    }

    fn abort(&mut self, end: End) {
        if self.end.is_none() {
            self.write(kind::ABORT, &[]);
            self.end = Some(end);
        }
    }
}

fn set_ppid(data: &mut [u8], ppid: u32) {
    if let Some(field) = data.get_mut(8..DATA_LEN) {
        field.copy_from_slice(&ppid.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
