//! An established SCTP association: one channel of a link (RFC 9260, 6 to 9).
//!
//! ```text
//! packets --> walk, gate --> library --> inbox --> poll_message
//!             heartbeats, shutdown, abort: answered here
//! send ----> library --> identifiers, window --> poll_packet
//! ```
//!
//! Complete messages leave the library at once and wait in the inbox. The advertised window is the free space in the
//! inbox, so a reader that does not read stops the sender. Data beyond the window are not acknowledged.
//!
//! An idle association sends heartbeats; it ends after four unanswered heartbeats, within eight seconds.
//!
//! Inputs only record that there is work; [`Association::poll_packet`] does it. So messages sent between two calls
//! share packets (RFC 9260, 6.10), and packets that arrive between two calls are acknowledged together: at least every
//! second packet (6.2), and each packet while data are missing (6.7).
//!
//! Deviations from RFC 9260: acknowledgements are not delayed by a timer (6.2 permits 200 ms, which exceeds a
//! retransmission timeout for a LAN); one path, so the peer's other addresses are not used.

mod outgoing;

use std::collections::VecDeque;

use weir_base::{Instant, Span};

use super::channel::{Channel, Stray};
use super::cookie::{Contract, Path};
use super::gate::{DATA_LEN, Gate, Verdict, sack_is_plausible};
use super::inbox::Inbox;
use super::library::{Arrived, Epoch, FOREIGN, Library, OURS};
use super::outcome::{Dropped, End};
use super::packet::{Chunk, Header, Packet, Writer, kind, u32_at};

/// Maximum unacknowledged octets of messages; beyond that, there is no credit.
pub const UNACKNOWLEDGED_MAX: usize = 128 << 10;
/// Packets with data per acknowledgement (RFC 9260, 6.2).
const PACKETS_PER_SACK: u32 = 2;
/// Maximum packets that wait for the socket; beyond that the association sends nothing.
const OUTBOX_MAX: usize = 1024;

/// Maximum silence of a peer before the association ends.
pub const SILENCE_MAX: Span = Span::from_secs(8);
/// Unanswered heartbeats within that time after which the association ends. They are counted so that a process that did
/// not run for a while does not mistake its own pause for the silence of its peers.
const HEARTBEATS_MAX: u32 = 4;
/// Time to deliver sent messages before a close.
const FLUSH_MAX: Span = Span::from_secs(2);
const SHUTDOWN_EVERY: Span = Span::from_millis(300);
const SHUTDOWNS_MAX: u32 = 4;

/// The flag of a DATA chunk that requests an immediate acknowledgement (RFC 7053).
const IMMEDIATE: u8 = 8;
/// The flag of an ABORT or SHUTDOWN COMPLETE whose tag is the sender's (RFC 9260, 8.5.1).
pub const REFLECTED: u8 = 1;

#[derive(Clone, Copy, Debug)]
enum State {
    Open,
    /// Waits for the acknowledgement of all data, until this instant.
    Flushing(Instant),
    /// Has sent this number of SHUTDOWNs, and sends the next SHUTDOWN at this instant.
    ShuttingDown(u32, Instant),
}

/// An association. After each input, call [`Association::poll_packet`] until it returns `None`.
#[derive(Debug)]
pub struct Association {
    channel: Channel,
    header: Header,
    contract: Contract,
    library: Library,
    gate: Gate,
    /// Data of the packet being read, to be passed to the library.
    arriving: Option<Writer>,
    inbox: Inbox,
    outbox: VecDeque<Vec<u8>>,
    /// An input has arrived since the library was last polled for packets.
    is_touched: bool,
    /// Packets with data since then.
    unacknowledged: u32,
    last_sent: u32,
    heard: Instant,
    next_heartbeat: Instant,
    silence_max: Span,
    /// Heartbeats sent since the last packet arrived.
    unanswered: u32,
    state: State,
    end: Option<End>,
    /// Counters of dropped packets, chunks and messages.
    pub dropped: Dropped,
}

impl Association {
    /// Creates the association defined by `contract`. `None` if the tags are equal, which the library does not accept.
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
            arriving: None,
            inbox: Inbox::default(),
            outbox: VecDeque::new(),
            is_touched: true,
            unacknowledged: 0,
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

    /// Sets the maximum silence of the peer, if it is less than [`SILENCE_MAX`].
    pub fn with_silence_max(mut self, span: Span) -> Self {
        self.silence_max = span.min(SILENCE_MAX);
        self
    }

    /// The INIT parameters of both sides.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// Handles a packet from the peer's address and ports.
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
        self.is_touched = true;
        for chunk in packet.chunks() {
            if chunk.kind != kind::DATA {
                self.deliver(now);
            }
            let skips = chunk.kind & 0x80 != 0; // RFC 9260, 3.2: how to handle an unknown type
            if !self.handle_chunk(now, &chunk) && !skips {
                break;
            }
            if self.end.is_some() {
                return;
            }
        }
        self.deliver(now);
        self.unacknowledged += u32::from(packet.chunks().any(|chunk| chunk.kind == kind::DATA));
        if self.unacknowledged >= PACKETS_PER_SACK || self.gate.has_gap() {
            self.advance(now); // RFC 9260, 6.7: acknowledge each packet while data are missing
        }
    }

    /// Handles timers.
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
                // One parameter: heartbeat info, 12 octets, with the instant of sending.
                let mut value = vec![0, 1, 0, 12];
                value.extend(now.as_nanos().to_be_bytes());
                self.write(kind::HEARTBEAT, &value);
            }
        }
        self.library.handle_timeout(now);
        self.is_touched = true;
    }

    /// Time for the next call of [`Association::handle_timeout`].
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

    /// Returns the next packet to send.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.is_touched {
            self.advance(now);
        }
        self.outbox.pop_front()
    }

    /// Returns the next message that arrived. After the end, read until `None`.
    pub fn poll_message(&mut self, now: Instant) -> Option<Vec<u8>> {
        let message = self.inbox.pop()?;
        if self.end.is_none() {
            self.reopen(now);
        }
        Some(message)
    }

    /// Whether there may be packets to send, or an end.
    pub fn has_news(&self) -> bool {
        self.is_touched || !self.outbox.is_empty() || self.end.is_some()
    }

    fn has_room(&mut self) -> bool {
        self.end.is_none()
            && matches!(self.state, State::Open)
            && self.outbox.len() < OUTBOX_MAX
            && self.library.unacknowledged() < UNACKNOWLEDGED_MAX
    }

    /// Whether all sent messages have arrived.
    pub fn is_flushed(&mut self) -> bool {
        self.library.unacknowledged() == 0
    }

    /// Sends a message; false if there is no room for it now.
    pub fn send(&mut self, message: &[u8]) -> bool {
        let sent = self.has_room() && self.library.send(message);
        self.is_touched |= sent;
        sent
    }

    /// Closes the association, at once or after all sent messages have arrived (two seconds at most).
    pub fn close(&mut self, now: Instant, after_queue: bool) {
        if self.end.is_some() {
            return;
        }
        if !after_queue {
            self.abort(End::Closed);
        } else if let State::Open = self.state {
            self.state = State::Flushing(now + FLUSH_MAX);
            self.is_touched = true;
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
            kind::DATA => self.handle_data(chunk),
            kind::SACK => {
                if sack_is_plausible(chunk.value, self.last_sent) {
                    self.feed(now, chunk.kind, chunk.value);
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

    /// Passes data through the gate; accepted data wait for [`Self::deliver`].
    fn handle_data(&mut self, chunk: &Chunk<'_>) {
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
                let packet = self.arriving.take().unwrap_or_else(|| self.inward());
                self.arriving = Some(packet.chunk(kind::DATA, chunk.flags | IMMEDIATE, &value));
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
        self.advance(now); // the gate must know the library's acknowledgements
        match self.gate.forward(chunk.value) {
            Ok(Verdict::Pass) => {
                // The first chunk skips, the second makes the library acknowledge: it acknowledges at once only chunks
                // seen before.
                for _ in 0..2 {
                    self.feed(now, kind::FORWARD_TSN, chunk.value);
                }
                self.advance(now);
            }
            Ok(Verdict::Drop) => self.dropped.implausible += 1,
            Err(_) => self.violation("data that the sender had abandoned"),
        }
    }

    /// Starts a packet for the library that looks as if it came from the peer.
    fn inward(&self) -> Writer {
        Writer::new(Header {
            source_port: self.header.destination_port,
            destination_port: self.header.source_port,
            tag: self.contract.ours.tag,
        })
    }

    /// Passes one chunk to the library.
    fn feed(&mut self, now: Instant, kind: u8, value: &[u8]) {
        self.arriving = Some(self.inward().chunk(kind, 0, value));
        self.deliver(now);
    }

    /// Passes received data to the library, and takes the completed messages from it.
    fn deliver(&mut self, now: Instant) {
        let Some(packet) = self.arriving.take() else {
            return;
        };
        self.library.handle_packet(now, packet.finish());
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
            // The reader of this message ends the link: on a reliable channel no message may be missing.
            Err(Stray::Malformed) => self.inbox.push(message),
            Err(Stray::Kind) => self.dropped.message_kind += 1,
            Err(Stray::Priority) => self.dropped.priority += 1,
        }
    }

    /// Informs the peer if there is room again after the window was closed.
    fn reopen(&mut self, now: Instant) {
        let Some(refused) = self.inbox.reopened() else {
            return;
        };
        for (flags, value) in refused {
            let kind = kind::DATA;
            let value = &value;
            self.handle_data(&Chunk { kind, flags, value });
        }
        self.deliver(now);
        self.advance(now);
        self.outbox.extend(self.inbox.reminder());
    }
}

fn set_ppid(data: &mut [u8], ppid: u32) {
    if let Some(field) = data.get_mut(8..DATA_LEN) {
        field.copy_from_slice(&ppid.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
