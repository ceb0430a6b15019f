//! Outgoing packets of an association: the library's packets with our payload identifier and our window, and a close.

use weir_base::Instant;

use super::super::inbox::set_window;
use super::super::outcome::End;
use super::super::packet::{self, Writer, kind, u32_at};
use super::{Association, OUTBOX_MAX, SHUTDOWN_EVERY, SHUTDOWNS_MAX, State, set_ppid};

impl Association {
    /// Sends the library's pending packets, and continues a close.
    pub(super) fn advance(&mut self, now: Instant) {
        (self.is_touched, self.unacknowledged) = (false, 0);
        if self.end.is_some() {
            return;
        }
        if self.outbox.len() < OUTBOX_MAX {
            for packet in self.library.poll_packets(now) {
                self.transmit(packet.into());
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

    /// Queues a packet of the library, with our payload identifier and our window.
    fn transmit(&mut self, mut packet: Vec<u8>) {
        let (ppid, room) = (self.channel.ppid(), self.inbox.room());
        let (mut last_sent, mut acknowledged) = (self.last_sent, None);
        packet::rewrite(&mut packet, |kind, value| {
            match kind {
                kind::DATA => set_ppid(value, ppid),
                kind::SACK => {
                    acknowledged = u32_at(value, 0);
                    set_window(value, room);
                }
                _ => {}
            }
            if let (kind::DATA | kind::FORWARD_TSN, Some(tsn)) = (kind, u32_at(value, 0))
                && tsn.wrapping_sub(last_sent) <= u32::MAX / 2
            {
                last_sent = tsn;
            }
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

    pub(super) fn write(&mut self, kind: u8, value: &[u8]) {
        if self.outbox.len() < OUTBOX_MAX {
            let packet = Writer::new(self.header).chunk(kind, 0, value).finish();
            self.outbox.push_back(packet);
        }
    }

    pub(super) fn violation(&mut self, what: &str) {
        self.abort(End::Violation(what.to_owned()));
    }

    pub(super) fn abort(&mut self, end: End) {
        if self.end.is_none() {
            self.write(kind::ABORT, &[]);
            self.end = Some(end);
        }
    }
}
