//! From the first SYN to an established connection, with the options that both ends agree on.
//!
//! The timer of the sending half runs for the SYN too. If a SYN arrives again while our answer is out, it is answered
//! again, as in Linux and ns-3: the answer or its acknowledgment may be lost. Our timer continues from the first
//! answer.

use weir_base::Instant;

use super::options::{Options, Variant};
use super::segment::{Flags, Segment};
use super::{Connection, State};

impl Connection {
    /// The options that this end offers.
    fn wishes(options: &Options) -> Flags {
        Flags::SACK_PERMITTED.when(options.variant != Variant::NewReno)
            | Flags::TIMESTAMPS.when(options.timestamps)
            | Flags::ECE.when(options.ecn)
    }

    /// Sends our SYN, or SYN with acknowledgment, again if the timer has expired.
    pub(super) fn send_syn(&mut self, now: Instant, out: &mut Vec<Segment>) {
        let flags = if self.state == State::SynReceived {
            Flags::ACK | self.agreed
        } else {
            // RFC 3168, section 6.1.1: both bits request ECN, ECE alone agrees to it.
            Self::wishes(&self.options) | Flags::CWR.when(self.options.ecn)
        };
        self.sender.send_syn(now);
        self.push_syn(flags, now, out);
    }

    fn push_syn(&mut self, flags: Flags, now: Instant, out: &mut Vec<Segment>) {
        let header = self.receiver.header(now);
        out.push(Segment {
            flags: Flags::SYN | flags,
            mss: self.options.mss,
            ..header
        });
    }

    /// Handles an arriving SYN, with or without acknowledgment.
    pub(super) fn on_syn(&mut self, segment: &Segment, now: Instant, out: &mut Vec<Segment>) {
        let is_answer = segment.flags.contains(Flags::ACK);
        match (self.state, is_answer) {
            (State::Listen, false) => {
                self.agree(segment);
                self.state = State::SynReceived;
                self.send_syn(now, out);
            }
            (State::SynReceived, false) => {
                self.sender.note_syn_repeated();
                self.push_syn(Flags::ACK | self.agreed, now, out);
            }
            (State::SynSent, true) => {
                self.agree(segment);
                self.establish(segment, now);
                let before = out.len();
                self.transmit(now, out);
                if out.len() == before {
                    self.acknowledge(now, out);
                }
            }
            // Our acknowledgment of the peer's SYN was lost.
            (State::Established, true) => self.acknowledge(now, out),
            _ => {}
        }
    }

    /// Handles the acknowledgment of our SYN by `segment`.
    pub(super) fn establish(&mut self, segment: &Segment, now: Instant) {
        self.state = State::Established;
        self.sender
            .establish(&self.options, self.agreed, segment.window, now);
    }

    /// Agrees on the options that both the peer's SYN and this end offer.
    fn agree(&mut self, syn: &Segment) {
        self.agreed = Self::wishes(&self.options) & syn.flags;
        self.options.mss = self.options.mss.min(syn.mss);
        self.receiver
            .synchronize(syn, self.options.mss, self.agreed);
    }
}
