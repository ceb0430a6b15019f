//! The queue of a transport in simulation: that of a CE or an FE ([`weir_channel`]), with messages that have a type and
//! a length but no content.

use weir_base::Instant;
use weir_channel::{Channel, ChannelSettings, Queue, Sent};
use weir_experiment::scenario::Wire;
use weir_experiment::transports::{self, Taken};
use weir_protocol::wire::MessageKind;
use weir_protocol::wire::header::HEADER_LEN;

/// A queue for one direction of a link.
pub(crate) struct Simulated(Queue);

impl Simulated {
    /// An empty queue; `seed` for the random choices of its discipline.
    pub(crate) fn new(wire: &Wire, seed: u64) -> Self {
        let settings = ChannelSettings {
            discipline: wire.schedule.spec(),
            rate: Some(wire.rate),
            ..ChannelSettings::default()
        };
        Self(Queue::new(settings, Instant::ZERO, seed))
    }
}

impl transports::Queue for Simulated {
    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    fn offer_control(&mut self, now: Instant, len: usize) {
        let sent = self.0.offer(now, message(MessageKind::Config, len));
        assert_eq!(sent, Sent::Queued, "the caller has checked the credit");
    }

    fn offer_redirect(&mut self, now: Instant, len: usize) {
        self.0.offer(now, message(MessageKind::PacketRedirect, len)); // the queue counts its drops
    }

    fn take(&mut self, now: Instant) -> Taken {
        match self.0.take(now, usize::MAX) {
            weir_channel::Taken::Message(Channel::Control, bytes) => Taken::Control(bytes.len()),
            weir_channel::Taken::Message(Channel::Redirect, _) => Taken::Redirect,
            weir_channel::Taken::At(due) => Taken::At(due),
            weir_channel::Taken::Empty => Taken::Empty,
        }
    }
}

/// The bytes of a message for the queue, which reads only its type and length.
fn message(kind: MessageKind, len: usize) -> Vec<u8> {
    let words = len.max(HEADER_LEN).div_ceil(4);
    let mut bytes = vec![0; 4 * words];
    bytes[0] = 0x10; // the version
    bytes[1] = kind.into();
    bytes[2..4].copy_from_slice(&(words as u16).to_be_bytes());
    bytes
}
