//! Probabilistic priority: of two waiting queues, one is drawn such that it has a set share.
//!
//! ```text
//!  control   [ | |     ] --+  with share p of the bytes
//!                          +--> link                 an empty queue gives its turn away
//!  redirect  [ | | | | ] --+  with 1 - p
//! ```
//!
//! Source: Jiang, Tham, Ko, "A probabilistic priority scheduling discipline for multi-service
//! networks", Computer Communications 25, 2002, for two queues; as it stands in Zhuge et al.,
//! "Research on Internal Flow Control Mechanism of ForCES Routers", "Packet dequeue" and equation 5.

use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Instant, Stream, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::channel::channels::{CONTROL, Channels, LIMIT, REDIRECT, WHICH};
use crate::contract::{self, Admission, Cx, Discipline, Manual, Ready};
use crate::parts::chance::Chance;

pub use crate::channel::channels::Control;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "probabilistic_priority",
    purpose: "two queues; control messages have a set share of the bytes while both wait",
    source: "Jiang, Tham, Ko, Computer Communications 25, 2002; Zhuge et al., ITJ, equation 5",
    text: "\
For the link between a control element (CE) and a forwarding element (FE). Control messages configure the FE;
redirect messages are packets that it hands up to the CE.

Control messages and redirect messages (all others) have a queue each, first in, first out. Each time
the link is free and both wait, one of their heads is drawn. A control message of c bytes leaves before a
redirect message of r bytes with the probability

    share r / (share r + (1 - share) c)              share, if they are equally long

    control   [ | |     ] --+  with this probability
                            +--> link
    redirect  [ | | | | ] --+  otherwise

So control messages have `share` of the bytes sent while both wait. If only one queue holds messages, it has
the whole link. A queue that is full drops what comes. With a share of 1 a redirect message never leaves
before a control message: strict priority. With 0 it is the other way round.

Choosing parameters. The share is what control messages may take at most from redirect messages when
they need it; what they do not need is not lost. `dppbrb` moves the share by itself.

Defaults. The share and the limit are those of DPPBRB's Table 1 and set-up, for 10 Mbit/s and messages of
1000 B.

Deviations: the paper has any number of queues, each with a probability; we have two. Its probability
is for each message, because all of its messages are equally long. Ours counts bytes, or short control
messages would have next to nothing beside long redirect messages.

An attacker among the redirect messages fills their queue only: control messages keep `share`. One who
gets his packets taken for control messages (over TCP, with `control = \"tcp\"`) fills theirs, and takes
up to `share` from everybody else: let only the control element's addresses in, or classify and use
`control = \"class\"`. Who is served next cannot be foreseen.",
    parameters: &[WHICH, SHARE, LIMIT],
    gauges: &[
        ("control_packets", "packets in the control queue"),
        ("redirect_packets", "packets in the redirect queue"),
        ("full_control", "control messages dropped because their queue was full"),
        ("full_redirect", "redirect messages dropped because their queue was full"),
    ],
};

/// How it is checked and built.
pub const KIND: contract::Kind = contract::Kind {
    manual: MANUAL,
    knows_flows: false,
    limit: |settings| Ok(Params::new(settings).limit * 2),
    build: |settings, _, streams| {
        Box::new(ProbabilisticPriority::new(
            Params::new(settings),
            streams.stream(MANUAL.name),
        ))
    },
};

const SHARE: Parameter = Parameter {
    name: "share",
    kind: Kind::Ratio(0.0, 1.0),
    default: "0.8",
    about: "share of the bytes that control messages have while both queues wait",
};

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Which packets are control messages.
    pub control: Control,
    /// Share of the bytes that control messages have while both queues wait.
    pub share: f64,
    /// Packets held at most, in each of the two queues.
    pub limit: usize,
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            control: Control::new(settings),
            share: settings.ratio("share"),
            limit: settings.count("limit") as usize,
        }
    }
}

/// What the queues count.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    full: [u64; 2],
}

/// The two queues.
#[derive(Debug)]
pub struct ProbabilisticPriority {
    params: Params,
    share: Chance,
    channels: Channels,
    stats: Stats,
}

impl ProbabilisticPriority {
    /// Empty queues. All memory they will ever use is taken now.
    pub fn new(params: Params, stream: Stream) -> Self {
        Self {
            share: Chance::new(params.share),
            channels: Channels::new(params.limit, stream),
            params,
            stats: Stats::default(),
        }
    }

    /// Other parameters from now on; the state stays.
    fn change(&mut self, params: Params) {
        self.channels.reserve(params.limit);
        self.share = Chance::new(params.share);
        self.params = params;
    }
}

impl Discipline for ProbabilisticPriority {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        let channel = self.params.control.channel(cx, &packet);
        if self.channels.len(channel) >= self.params.limit {
            self.stats.full[channel] += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.channels.push(channel, packet);
        Admission::Queued
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.channels.serve(self.share)
    }

    fn has_room(&self, _class: Class) -> bool {
        self.channels.both_below(self.params.limit) // the transport is not known before
    }

    fn ready(&self, _now: Instant) -> Ready {
        self.channels.ready()
    }

    fn backlog(&self) -> Tally {
        self.channels.backlog()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.channels.heap_bytes()
    }

    fn reconfigure(&mut self, settings: &Settings, _now: Instant) {
        self.change(Params::new(settings));
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.channels.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("control_packets", self.channels.len(CONTROL) as u64);
        report("redirect_packets", self.channels.len(REDIRECT) as u64);
        report("full_control", self.stats.full[CONTROL]);
        report("full_redirect", self.stats.full[REDIRECT]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::channels::tests::rig;
    use crate::rig::{Rig, gauge};
    use proptest::prelude::*;
    use rand::Rng;
    use std::collections::VecDeque;
    use weir_base::Streams;

    /// TCP and UDP.
    const PROTOCOLS: [u8; 2] = [6, 17];

    fn stream() -> Stream {
        Streams::new(1).stream("pp")
    }

    fn priority(share: f64) -> ProbabilisticPriority {
        let params = Params {
            control: Control::Tcp,
            share,
            limit: 100,
        };
        ProbabilisticPriority::new(params, stream())
    }

    /// Sends `n` packets while both queues always wait; says how many were control messages.
    fn contested(rig: &mut Rig, priority: &mut ProbabilisticPriority, n: u32) -> u32 {
        let mut control = 0;
        for flow in [0, 1] {
            rig.offer(priority, flow, 1000);
            rig.offer(priority, flow, 1000);
        }
        for _ in 0..n {
            let flow = rig.take(priority).unwrap().slot.0;
            control += u32::from(flow == CONTROL as u32);
            rig.offer(priority, flow as usize, 1000);
        }
        control
    }

    #[test]
    fn both_backlogged_share_by_the_probability() {
        // 100 000 draws: the deviation of the share is at most sqrt(.25 / 100 000) = .0016.
        for share in [0.5, 0.65, 0.8, 0.95] {
            let control = contested(&mut rig(&PROTOCOLS), &mut priority(share), 100_000);
            let measured = f64::from(control) / 100_000.0;
            assert!((measured - share).abs() < 0.01, "{measured} of {share}");
        }
    }

    #[test]
    fn the_share_is_one_of_bytes_at_any_lengths() {
        // The redirect queue's lengths mixed. 100 000 messages, of which those of 1514 B weigh most.
        for (control, redirect) in [(60, [1514, 1514]), (1514, [60, 60]), (300, [60, 1514])] {
            for share in [0.5, 0.8] {
                let (mut rig, mut priority) = (rig(&PROTOCOLS), priority(share));
                let mut bytes = [0, 0];
                for n in 0..100_000 {
                    if priority.channels.len(CONTROL) == 0 {
                        rig.offer(&mut priority, CONTROL, control);
                    }
                    if priority.channels.len(REDIRECT) == 0 {
                        rig.offer(&mut priority, REDIRECT, redirect[n % 2]);
                    }
                    let packet = rig.take(&mut priority).unwrap();
                    bytes[packet.slot.0 as usize] += packet.bytes();
                }
                let measured = bytes[CONTROL] as f64 / (bytes[CONTROL] + bytes[REDIRECT]) as f64;
                assert!((measured - share).abs() < 0.015, "{measured} of {share}");
            }
        }
    }

    #[test]
    fn at_the_ends_one_queue_is_shut_out() {
        for (share, control) in [(0.0, 0), (1.0, 10_000)] {
            let mut priority = priority(share);
            assert_eq!(
                contested(&mut rig(&PROTOCOLS), &mut priority, 10_000),
                control
            );
        }
    }

    #[test]
    fn an_empty_queue_gives_its_turn_away() {
        for (share, flow) in [(0.0, 0), (1.0, 1), (0.5, 0), (0.5, 1)] {
            let (mut rig, mut priority) = (rig(&PROTOCOLS), priority(share));
            for _ in 0..20 {
                rig.offer(&mut priority, flow, 1000);
            }
            let sent = std::iter::from_fn(|| rig.take(&mut priority));
            assert_eq!(sent.count(), 20, "share {share}, only flow {flow} waits");
        }
    }

    #[test]
    fn each_queue_has_its_own_limit() {
        let (mut rig, mut priority) = (rig(&PROTOCOLS), priority(0.5));
        for n in 0..350 {
            rig.offer(&mut priority, usize::from(n % 3 == 0), 1000);
        }
        // 117 redirect messages and 233 control messages, for 100 places each.
        let full = |name| gauge(&priority, name);
        assert_eq!((full("full_control"), full("full_redirect")), (133, 17));
    }

    proptest! {
        /// The text's "Packet dequeue", word for word: its messages are equally long.
        #[test]
        fn serves_as_the_text(share in 0.0_f64..1.0, calls in prop::collection::vec(0_usize..4, 0..400)) {
            let (mut rig, mut priority) = (rig(&PROTOCOLS), priority(share));
            let mut draws = stream();
            let (mut control, mut redirect) = (VecDeque::new(), VecDeque::new());
            for call in calls {
                if call < 2 {
                    let queue = if call == 0 { &mut control } else { &mut redirect };
                    if queue.len() < 100 {
                        queue.push_back(rig.next_id());
                    }
                    rig.offer(&mut priority, call, 1000);
                    continue;
                }
                let mut drawn = || (draws.next_u64() >> 11) as f64 / ((1_u64 << 53) as f64) < share;
                let serves_control = !control.is_empty() && (redirect.is_empty() || drawn());
                let expected = if serves_control { control.pop_front() } else { redirect.pop_front() };
                prop_assert_eq!(rig.take(&mut priority).map(|p| p.id), expected);
            }
        }
    }
}
