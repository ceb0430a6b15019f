//! Probes and their answers: outstanding probes, their reflectors, and the delays that answers show.

use std::collections::VecDeque;

use weir_base::{Instant, Span};

use super::baseline::Baseline;

/// The word in place of a reflector for the TCP connections that pass the port.
pub const BY_TRAFFIC: &str = "traffic";
/// Maximum reflectors of a port.
pub const REFLECTORS_MAX: usize = 8;
/// Maximum stored peers of a port's traffic.
const PEERS_MAX: usize = 32;
/// A peer without a sample for this time counts as silent.
const PEER_SILENT: Span = Span::from_millis(500);
/// A probe without an answer after this time is lost.
const LOST: Span = Span::from_secs(2);
/// Maximum outstanding probes: more than the port sends in `LOST`.
const UNDER_WAY_MAX: usize = 512;
/// Lost probes in a row after which a reflector counts as silent.
const SILENT: u32 = 8;
/// Time between two probes to a silent reflector.
const RETRY: Span = Span::from_secs(2);
/// False suspicions in a row after which a reflector's baseline is raised, because its path has changed.
const FALSE_IN_A_ROW: u32 = 4;
/// Score from which a reflector is not believed: a false suspicion adds 1, and each second subtracts 0.1.
const FALSE_MAX: f64 = 6.0;
/// Time for which a reflector is not believed.
const DISBELIEF: Span = Span::from_secs(60);

/// A probe to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Index of the reflector in the list of reflectors.
    pub reflector: usize,
    /// Number of the probe, which the answer repeats.
    pub number: u64,
}

/// The state of a reflector, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectorState {
    /// The state in a word.
    pub word: &'static str,
    /// The latest round trip.
    pub rtt: Option<Span>,
    /// The minimum round trip of the last minute.
    pub baseline: Option<Span>,
    /// Probes lost since the last answer of the reflector.
    pub lost: u32,
}

#[derive(Clone, Debug, Default)]
struct Reflector {
    baseline: Baseline,
    /// Probes lost since the last answer of the reflector.
    lost: u32,
    /// When a silent reflector is probed again.
    retry: Instant,
    /// False suspicions in a row, the score of false suspicions (see [`FALSE_MAX`]), and the time of that score.
    false_in_a_row: u32,
    falsehood: f64,
    weighed: Instant,
    disbelieved_until: Instant,
    /// The latest round trips.
    recent: [Option<Span>; 4],
}

impl Reflector {
    fn is_silent(&self) -> bool {
        self.lost >= SILENT
    }
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    probe: Probe,
    at: Instant,
    sent: u64,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) probe: Probe,
    /// When the probe was sent, and the bytes that the port had sent before it.
    pub(super) at: Instant,
    pub(super) sent: u64,
    /// Delay above the baseline.
    pub(super) delay: Span,
    /// Whether the reflector is believed.
    pub(super) counts: bool,
}

/// Probes that should have been answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overdue {
    /// The oldest overdue probe.
    pub(super) probe: Probe,
    /// Number of overdue probes.
    pub(super) probes: usize,
}

/// A round trip that was measured from the port's own traffic, without a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The peer, as a number derived from its address. Each peer has its own baseline.
    pub peer: u64,
    /// When the port sent the packet.
    pub at: Instant,
    /// The bytes on the wire that the port had sent before the packet.
    pub sent: u64,
    /// Time until the packet was answered.
    pub round_trip: Span,
}

/// A peer of the port's traffic.
#[derive(Clone, Copy, Debug)]
struct Peer {
    number: u64,
    /// The time of its latest sample.
    seen: Instant,
}

/// The reflectors of a port, followed by the peers of its traffic.
#[derive(Clone, Debug)]
pub(super) struct Reflectors {
    all: Vec<Reflector>,
    named: usize,
    peers: Vec<Peer>,
    under_way: VecDeque<UnderWay>,
    number: u64,
    /// Index of the reflector that was probed last.
    turn: usize,
    /// Number of the latest probe that was answered.
    answered: u64,
    pub(super) last_answer: Option<Instant>,
    /// Unsolicited or duplicate answers.
    pub(super) strange: u64,
}

impl Reflectors {
    pub(super) fn new(count: usize) -> Self {
        Self {
            all: vec![Reflector::default(); count.min(REFLECTORS_MAX)],
            named: count.min(REFLECTORS_MAX),
            peers: Vec::new(),
            under_way: VecDeque::new(),
            number: 0,
            turn: 0,
            answered: 0,
            last_answer: None,
            strange: 0,
        }
    }

    /// The next probe, round-robin; `None` if all reflectors are silent and none is due for a retry.
    pub(super) fn next(&mut self, now: Instant, sent: u64) -> Option<Probe> {
        let count = self.named;
        let may = |reflector: &Reflector| !reflector.is_silent() || reflector.retry <= now;
        let turn = (1..=count).map(|step| (self.turn + step) % count);
        let reflector = turn.into_iter().find(|place| may(&self.all[*place]))?;
        self.all[reflector].retry = now + RETRY;
        self.turn = reflector;
        self.number += 1;
        let probe = Probe {
            reflector,
            number: self.number,
        };
        if self.under_way.len() == UNDER_WAY_MAX {
            self.under_way.pop_front();
        }
        self.under_way.push_back(UnderWay {
            probe,
            at: now,
            sent,
        });
        Some(probe)
    }

    /// Takes an answer that arrived at `now`; `None` if no such probe is outstanding.
    pub(super) fn take(&mut self, probe: Probe, now: Instant) -> Option<Answer> {
        let place = self.under_way.iter().position(|p| p.probe == probe);
        let Some(asked) = place.and_then(|place| self.under_way.remove(place)) else {
            self.strange += 1;
            return None;
        };
        self.all[probe.reflector].lost = 0;
        self.answered = self.answered.max(probe.number);
        let rtt = now.since(asked.at);
        Some(self.answer(now, probe, (asked.at, asked.sent), rtt))
    }

    /// Takes a round trip of the port's own traffic. The first round trip of a peer is assumed to contain the current
    /// `delay`.
    pub(super) fn sample(&mut self, now: Instant, sample: &Sample, delay: Span) -> Answer {
        let place = self.named + self.peer(now, sample.peer);
        let reflector = &mut self.all[place];
        if reflector.baseline.value().is_none() {
            reflector.baseline.take(sample.round_trip - delay, now);
        }
        self.number += 1;
        let probe = Probe {
            reflector: place,
            number: self.number,
        };
        let asked = (sample.at, sample.sent);
        self.answer(now, probe, asked, sample.round_trip)
    }

    /// The index of a peer among the peers; if the list is full, a new peer replaces the peer that was silent for
    /// longest.
    fn peer(&mut self, now: Instant, number: u64) -> usize {
        let peers = self.peers.iter_mut();
        let mut oldest = (Instant::FAR_FUTURE, 0);
        for (place, peer) in peers.enumerate() {
            if peer.number == number {
                peer.seen = now;
                return place;
            }
            oldest = oldest.min((peer.seen, place));
        }
        let peer = Peer { number, seen: now };
        if self.peers.len() < PEERS_MAX {
            self.peers.push(peer);
            self.all.push(Reflector::default());
            return self.peers.len() - 1;
        }
        let (_, place) = oldest;
        self.peers[place] = peer;
        self.all[self.named + place] = Reflector::default();
        place
    }

    /// Makes an answer for a packet that was sent at `at`, after `sent` bytes.
    fn answer(
        &mut self,
        now: Instant,
        probe: Probe,
        (at, sent): (Instant, u64),
        rtt: Span,
    ) -> Answer {
        let reflector = &mut self.all[probe.reflector];
        reflector.recent.rotate_right(1);
        reflector.recent[0] = Some(rtt);
        let baseline = reflector.baseline.take(rtt, now);
        self.last_answer = Some(now);
        Answer {
            probe,
            at,
            sent,
            delay: rtt - baseline,
            counts: self.believed(now, probe.reflector),
        }
    }

    /// Outstanding probes that were sent since `from`, and whose delay already exceeds `threshold`. A link keeps the
    /// order: a probe sent before an answered probe is lost, not late.
    pub(super) fn overdue(&self, now: Instant, from: Instant, threshold: Span) -> Option<Overdue> {
        let is_late = |probe: &&UnderWay| {
            let baseline = self.all[probe.probe.reflector].baseline.value();
            baseline.is_some_and(|baseline| now.since(probe.at) - baseline > threshold)
        };
        let counts = |probe: &&UnderWay| {
            probe.at >= from
                && probe.probe.number > self.answered
                && !self.all[probe.probe.reflector].is_silent()
                && self.believed(now, probe.probe.reflector)
        };
        let mut late = self.under_way.iter().filter(counts).filter(is_late);
        let first = late.next()?;
        Some(Overdue {
            probe: first.probe,
            probes: 1 + late.count(),
        })
    }

    /// Gives up probes that were lost.
    pub(super) fn give_up(&mut self, now: Instant) {
        while let Some(lost) = self.under_way.pop_front_if(|p| p.at + LOST <= now) {
            let reflector = &mut self.all[lost.probe.reflector];
            reflector.lost = reflector.lost.saturating_add(1);
        }
    }

    /// Number of reflectors that answer and are believed.
    pub(super) fn live(&self, now: Instant) -> usize {
        let live = |place: &usize| {
            let reflector = &self.all[*place];
            !self.is_silent(now, *place)
                && reflector.baseline.value().is_some()
                && self.believed(now, *place)
        };
        (0..self.all.len()).filter(live).count()
    }

    /// A reflector that raised false suspicions is not believed while another reflector is live.
    fn believed(&self, now: Instant, place: usize) -> bool {
        let honest =
            |place: usize| !self.is_silent(now, place) && self.all[place].disbelieved_until <= now;
        honest(place) || !(0..self.all.len()).any(honest)
    }

    fn is_silent(&self, now: Instant, place: usize) -> bool {
        match place.checked_sub(self.named) {
            None => self.all[place].is_silent(),
            Some(peer) => self.peers[peer].seen + PEER_SILENT <= now,
        }
    }

    /// Whether the port has no reflectors, so that only its own traffic shows the delay.
    pub(super) fn asks_nobody(&self) -> bool {
        self.named == 0
    }

    /// Another answer denied the suspicion that this reflector had raised.
    pub(super) fn was_wrong(&mut self, place: usize, now: Instant) {
        let reflector = &mut self.all[place];
        let passed = now.since(reflector.weighed).as_secs_f64();
        reflector.falsehood = (reflector.falsehood - passed / 10.0).max(0.0) + 1.0;
        reflector.weighed = now;
        if reflector.falsehood >= FALSE_MAX {
            reflector.disbelieved_until = now + DISBELIEF;
            reflector.falsehood = 0.0;
        }
        reflector.false_in_a_row += 1;
        if reflector.false_in_a_row >= FALSE_IN_A_ROW {
            reflector.false_in_a_row = 0;
            if let Some(least) = reflector.recent.iter().flatten().min() {
                reflector.baseline.raise(*least);
            }
        }
    }

    /// The reflector raised no suspicion, or a true one.
    pub(super) fn was_right(&mut self, place: usize) {
        self.all[place].false_in_a_row = 0;
    }

    /// All paths are longer by this much.
    pub(super) fn raise(&mut self, by: Span) {
        for reflector in &mut self.all {
            if let Some(baseline) = reflector.baseline.value() {
                reflector.baseline.raise(baseline + by);
            }
        }
    }

    /// The state of each reflector, in their order.
    pub(super) fn states(&self, now: Instant) -> impl Iterator<Item = ReflectorState> {
        self.all[..self.named]
            .iter()
            .map(move |reflector| ReflectorState {
                word: match reflector {
                    _ if reflector.is_silent() => "silent",
                    _ if reflector.disbelieved_until > now => "not believed",
                    _ if reflector.baseline.value().is_none() => "asked",
                    _ => "answers",
                },
                rtt: reflector.recent[0],
                baseline: reflector.baseline.value(),
                lost: reflector.lost,
            })
    }

    /// The state of the traffic: the state of the peer with the latest round trip.
    pub(super) fn traffic(&self, now: Instant) -> ReflectorState {
        let peers = self.peers.iter().enumerate();
        let latest = peers.max_by_key(|(_, peer)| peer.seen);
        let place = latest.map(|(peer, _)| self.named + peer);
        let peer = place.map(|place| &self.all[place]);
        ReflectorState {
            word: match place {
                Some(place) if !self.is_silent(now, place) => "measured",
                _ => "idle",
            },
            rtt: peer.and_then(|peer| peer.recent[0]),
            baseline: peer.and_then(|peer| peer.baseline.value()),
            lost: 0,
        }
    }

    /// The mean of all known baselines.
    pub(super) fn baseline(&self) -> Option<Span> {
        let all: Vec<Span> = self.all.iter().filter_map(|r| r.baseline.value()).collect();
        let sum = all.iter().map(|span| span.as_nanos()).sum::<u64>();
        sum.checked_div(all.len() as u64).map(Span::from_nanos)
    }

    /// Whether no answer has arrived for `time`.
    pub(super) fn is_blind(&self, now: Instant, time: Span) -> bool {
        self.last_answer.is_none_or(|at| at + time <= now)
    }
}
