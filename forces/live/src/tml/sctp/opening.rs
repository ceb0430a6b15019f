//! An association that this side opens: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260, 5.1).
//!
//! Deviation: retries come at a constant interval, which RFC 9260, 4.3 doubles: the user of the link decides how long
//! to wait before the next attempt.

use weir_base::{Instant, Span};

use super::association::REFLECTED;
use super::cookie::{Contract, Path};
use super::init::Init;
use super::packet::{Header, Packet, Writer, kind};

const TRY_EVERY: Span = Span::from_millis(500);
const TRIES_MAX: u32 = 10;

/// Result of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No result yet.
    Waiting,
    /// Both sides agree.
    Open(Contract),
    /// The peer refuses.
    Refused,
    /// The peer does not answer.
    Unanswered,
}

/// An association that is being opened.
#[derive(Debug)]
pub struct Opening {
    path: Path,
    ours: Init,
    /// The peer's parameters and its cookie, once received.
    answer: Option<(Init, Vec<u8>)>,
    tries: u32,
    next: Instant,
}

impl Opening {
    /// Opens an association between the ports of `path`. The first INIT is due at `now`.
    pub fn new(now: Instant, path: Path, ours: Init) -> Self {
        Self {
            path,
            ours,
            answer: None,
            tries: 0,
            next: now,
        }
    }

    /// Handles a packet from the peer's address and ports.
    pub fn handle_packet(&mut self, now: Instant, packet: &Packet<'_>) -> Progress {
        let Some(chunk) = packet.chunks().next() else {
            return Progress::Waiting;
        };
        let theirs = self.answer.as_ref().map(|(theirs, _)| *theirs);
        let reflected = chunk.kind == kind::ABORT
            && chunk.flags & REFLECTED != 0
            && theirs.is_some_and(|theirs| theirs.tag == packet.header.tag);
        if packet.header.tag != self.ours.tag && !reflected {
            return Progress::Waiting;
        }
        match (chunk.kind, theirs) {
            (kind::INIT_ACK, None) => {
                if let Some((theirs, Some(cookie))) = Init::parse(chunk.value)
                    && theirs.tag != self.ours.tag
                {
                    self.answer = Some((theirs, cookie.to_vec()));
                    (self.tries, self.next) = (0, now);
                }
                Progress::Waiting
            }
            (kind::COOKIE_ACK, Some(theirs)) => Progress::Open(Contract {
                ours: self.ours,
                theirs,
                replaces: 0,
            }),
            (kind::ABORT, _) => Progress::Refused,
            _ => Progress::Waiting,
        }
    }

    /// Time for the next call of [`Opening::poll_packet`].
    pub fn poll_timeout(&self) -> Instant {
        self.next
    }

    /// Returns the next packet if one is due; the error ends the attempts.
    pub fn poll_packet(&mut self, now: Instant) -> Result<Option<Vec<u8>>, Progress> {
        if now < self.next {
            return Ok(None);
        }
        if self.tries >= TRIES_MAX {
            return Err(Progress::Unanswered);
        }
        self.tries += 1;
        self.next = now + TRY_EVERY;
        let header = |tag| Header {
            source_port: self.path.local_port,
            destination_port: self.path.remote_port,
            tag,
        };
        let packet = match &self.answer {
            None => Writer::new(header(0)).chunk(kind::INIT, 0, &self.ours.value(None)),
            Some((theirs, cookie)) => {
                Writer::new(header(theirs.tag)).chunk(kind::COOKIE_ECHO, 0, cookie)
            }
        };
        Ok(Some(packet.finish()))
    }
}
