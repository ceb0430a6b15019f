//! The two channels between a control element and a forwarding element that share a link: the channel of
//! each packet, and a queue for each channel.
//!
//! ```text
//!               control   +-> [ | |     ] --+  with share p of the bytes, if both wait
//!  arrivals --+-----------+                 +--> link
//!               redirect  +-> [ | | | | ] --+  otherwise
//! ```

use rand::Rng;
use weir_base::setting::{Kind, Parameter};
use weir_base::{Stream, Tally};
use weir_packet::Packet;

use crate::contract::Cx;
use crate::params::words;
use crate::parts::chance::Chance;
use crate::parts::queue::Queue;

/// The control channel.
pub(crate) const CONTROL: usize = 0;
/// The redirect channel.
pub(crate) const REDIRECT: usize = 1;

/// The `control` parameter.
pub(crate) const WHICH: Parameter = Parameter::new(
    "control",
    Kind::Word(Control::WORDS),
    "tcp",
    "transport protocols whose packets are control messages",
);

/// The `limit` parameter.
pub(crate) const LIMIT: Parameter = Parameter::new(
    "limit",
    Kind::Count(1, 500_000),
    "100 packets",
    "maximum packets held, in each of the two queues",
);

words! {
    /// Which packets are control messages. All others are redirect messages.
    pub enum Control {
        /// Messages over TCP.
        Tcp = "tcp",
        /// Messages over SCTP.
        Sctp = "sctp",
        /// Messages over either.
        TcpOrSctp = "tcp_or_sctp",
    }
}

impl Control {
    /// The channel of a packet.
    pub(crate) fn channel(self, cx: &Cx<'_>, packet: &Packet) -> usize {
        const TCP: u8 = 6;
        const SCTP: u8 = 132;
        let protocol = || cx.keys.key(packet).protocol;
        let is_control = match self {
            Self::Tcp => protocol() == TCP,
            Self::Sctp => protocol() == SCTP,
            Self::TcpOrSctp => matches!(protocol(), TCP | SCTP),
        };
        if is_control { CONTROL } else { REDIRECT }
    }
}

/// The two queues, and the draws between them.
#[derive(Debug)]
pub(crate) struct Channels {
    queues: [Queue; 2],
    stream: Stream,
}

impl Channels {
    /// Empty queues. All memory that they will ever use is allocated now.
    pub(crate) fn new(limit: usize, stream: Stream) -> Self {
        Self {
            queues: [(); 2].map(|()| Queue::new(limit)),
            stream,
        }
    }

    /// A random `u64`, for a decision of the owner.
    pub(crate) fn draw(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// Packets in a queue.
    pub(crate) fn len(&self, channel: usize) -> usize {
        self.queues[channel].len()
    }

    /// Whether both queues hold fewer packets than this.
    pub(crate) fn both_below(&self, limit: usize) -> bool {
        self.queues.iter().all(|queue| queue.len() < limit)
    }

    /// Queues a packet; the owner has checked the limit.
    pub(crate) fn push(&mut self, channel: usize, packet: Packet) {
        self.queues[channel].push(packet);
    }

    /// Takes the next packet to send. If both queues hold packets, control messages get the share `control`
    /// of the bytes. An empty queue gives up its turn.
    pub(crate) fn serve(&mut self, control: Chance) -> Option<Packet> {
        let heads = self.queues.each_ref().map(|queue| queue.packets.front());
        let channel = match heads.map(|head| head.map(Packet::bytes)) {
            [None, None] => return None,
            [Some(_), None] => CONTROL,
            [None, Some(_)] => REDIRECT,
            [Some(ours), Some(theirs)] => {
                let control = control.by_bytes(ours, theirs);
                if control.happens(self.draw()) {
                    CONTROL
                } else {
                    REDIRECT
                }
            }
        };
        self.queues[channel].pop()
    }

    /// Packets and bytes in both queues.
    pub(crate) fn backlog(&self) -> Tally {
        self.queues[CONTROL].backlog + self.queues[REDIRECT].backlog
    }

    /// Memory allocated in addition to the structure itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.queues.iter().map(Queue::heap_bytes).sum()
    }

    /// Makes room for `limit` packets in each queue.
    pub(crate) fn reserve(&mut self, limit: usize) {
        for queue in &mut self.queues {
            queue.reserve(limit);
        }
    }

    /// Hands over all packets in order of arrival over both queues.
    pub(crate) fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        loop {
            let heads = self.queues.each_ref();
            let heads = heads.map(|queue| queue.packets.front().map(|p| (p.enqueued, p.id)));
            let channel = match heads {
                [Some(control), Some(redirect)] if control < redirect => CONTROL,
                [Some(_), None] => CONTROL,
                _ => REDIRECT,
            };
            match self.queues[channel].pop() {
                Some(packet) => out(packet),
                None => return,
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::rig::{Rig, flow_key};
    use weir_base::Streams;
    use weir_packet::{FlowKey, Slot};

    /// A rig whose flow `n` has the `n`th of these protocols.
    pub(crate) fn rig(protocols: &[u8]) -> Rig {
        let mut rig = Rig::new(protocols.len());
        for (flow, protocol) in protocols.iter().enumerate() {
            let key = FlowKey {
                protocol: *protocol,
                ..flow_key(flow)
            };
            rig.keys.set(Slot(flow as u32), key);
        }
        rig
    }

    #[test]
    fn which_packets_are_control_messages() {
        // TCP, UDP, SCTP.
        let mut rig = rig(&[6, 17, 132]);
        let mut channels = |control: Control| {
            [0, 1, 2].map(|flow| {
                let packet = rig.packet(flow, 100);
                control.channel(&rig.cx(), &packet)
            })
        };
        assert_eq!(channels(Control::Tcp), [CONTROL, REDIRECT, REDIRECT]);
        assert_eq!(channels(Control::Sctp), [REDIRECT, REDIRECT, CONTROL]);
        assert_eq!(channels(Control::TcpOrSctp), [CONTROL, REDIRECT, CONTROL]);
    }

    #[test]
    fn draining_gives_the_order_of_arrival() {
        let mut rig = Rig::new(1);
        let mut channels = Channels::new(10, Streams::new(1).stream("x"));
        for channel in [REDIRECT, CONTROL, CONTROL, REDIRECT, REDIRECT, CONTROL] {
            channels.push(channel, rig.packet(0, 100));
        }
        let mut ids = Vec::new();
        channels.drain(&mut |packet| ids.push(packet.id));
        assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
        assert_eq!(channels.backlog(), Tally::ZERO);
    }
}
