//! A link of 20 Mbit/s with honest traffic and an attack, in virtual time.
//!
//! ```text
//!   heavy    of eight hosts, to a destination each: a window that grows, and halves on a loss
//!   light    a call to the destination of the first one, the victim
//!            calls of the second one's host and of others, a stream, and lookups: single packets, each of a new port
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::Ipv4Addr;

use rand::RngExt;
use weir_base::random::Stream;
use weir_base::{Instant, Streams};
use weir_discipline::{Cx, Discipline, Ready, Spec};
use weir_packet::{DropCounters, FlowKey, Keys, Packet, Slot};

use crate::attack::Part;
use crate::genome::Limb;

/// Bytes that the link carries during the attack.
pub(crate) const CAPACITY: f64 = (END - BEGIN) as f64 / BYTE as f64;
/// Heavy flows.
pub(crate) const HEAVY: usize = 8;

/// Time for a byte, in ns, as all times.
pub(crate) const BYTE: u64 = 400;
/// The attack begins at this time, and ends with the run.
const BEGIN: u64 = 4_000_000_000;
const END: u64 = 9_000_000_000;
/// Until this time, each source that must become trusted sends this number of packets.
const KNOWN: u64 = 3_500_000_000;
const KNOWN_PACKETS: u64 = 72;
/// Round trip of heavy flows without their waiting time.
const ROUND_TRIP: u64 = 20_000_000;
const WINDOW_MAX: f64 = 200.0;
const SLOTS: usize = 1 << 15;
/// One in this many light packets counts as worst: the packets that waited longest.
const WORST: usize = 100;

/// Light traffic: bytes, time between packets in ms, source, destination, whether each packet has a new port.
const LIGHT: [(u32, u64, u32, u32, bool); 9] = [
    (200, 20, 100, 0, false),
    (200, 20, 1, 101, false),
    (200, 20, 102, 102, false),
    (200, 20, 103, 103, false),
    (1200, 40, 104, 104, false),
    (110, 50, 105, 105, true),
    (110, 50, 106, 106, true),
    (110, 50, 107, 107, true),
    (110, 50, 108, 108, true),
];

/// The service of the honest traffic while the attack lasted.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// Bytes of each heavy flow.
    pub(crate) heavy: [u64; HEAVY],
    /// For the victim, and for the others: light packets sent and lost, and the waiting times of the rest.
    pub(crate) sent: [u64; 2],
    pub(crate) lost: [u64; 2],
    waits: [Vec<u64>; 2],
    /// Bytes that the attack offered.
    pub(crate) attack: u64,
}

impl Service {
    /// The mean waiting time of the worst light packets of the victim or of the others, in seconds.
    pub(crate) fn worst_s(&self, account: usize) -> f64 {
        let mut waits = self.waits[account].clone();
        waits.sort_unstable_by_key(|wait| Reverse(*wait));
        waits.truncate(waits.len().div_ceil(WORST));
        waits.iter().sum::<u64>() as f64 / 1e9 / waits.len().max(1) as f64
    }
}

/// A sender: the number of a heavy flow, of a light flow, or of a part of the attack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Heavy(usize),
    Light(usize),
    Limb(usize),
    /// A part of the attack, before it begins.
    Known(usize),
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send(Who),
    /// A heavy flow learns whether a packet has arrived.
    Heard(usize, bool),
}

#[derive(Clone, Copy)]
struct Window {
    packets: f64,
    under_way: u32,
    halved: u64,
}

struct Run<'a> {
    attack: Vec<Part<'a>>,
    discipline: Box<dyn Discipline>,
    keys: Keys,
    fates: DropCounters,
    chance: Stream,
    now: u64,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Free slots, and the sender of each used slot.
    free: Vec<u32>,
    of: Vec<Who>,
    offered: u64,
    windows: [Window; HEAVY],
    service: Service,
}

/// Runs an attack against a discipline with its defaults.
pub(crate) fn run(discipline: &str, limbs: &[Limb], seed: u64) -> Service {
    let streams = Streams::new(seed);
    let spec = Spec::check(discipline, []).expect("a discipline with defaults");
    let window = Window {
        packets: 2.0,
        under_way: 0,
        halved: 0,
    };
    let mut run = Run {
        attack: limbs.iter().map(Part::new).collect(),
        discipline: spec.build(Instant::ZERO, &streams),
        keys: Keys::new(SLOTS, streams.hash_key("keys")),
        fates: DropCounters::default(),
        chance: streams.stream("chance"),
        now: 0,
        events: BinaryHeap::new(),
        free: (0..SLOTS as u32).collect(),
        of: vec![Who::Heavy(0); SLOTS],
        offered: 0,
        windows: [window; HEAVY],
        service: Service::default(),
    };
    run.run();
    run.service
}

impl Run<'_> {
    fn run(&mut self) {
        let heavy = (0..HEAVY).map(|n| (n as u64 * 50_000_000, Who::Heavy(n)));
        let light = (0..LIGHT.len()).map(|n| (n as u64 * 1_700_000, Who::Light(n)));
        let limbs = (0..self.attack.len()).map(|n| (BEGIN, Who::Limb(n)));
        let known = (0..self.attack.len()).filter(|n| self.attack[*n].limb.is_known);
        let all = heavy.chain(light).chain(limbs);
        let all = all.chain(known.map(|n| (0, Who::Known(n))));
        self.events
            .extend(all.map(|(at, who)| Reverse((at, Event::Send(who)))));
        let mut idle_from = 0;
        while self.now < END {
            let next = self.events.peek().map_or(END, |Reverse((at, _))| *at);
            let link = match self.discipline.ready(Instant::from_nanos(self.now)) {
                Ready::Now => idle_from.max(self.now),
                _ => END,
            };
            self.now = link.min(next);
            if link <= next {
                idle_from = self.take();
            } else if let Some(Reverse((_, event))) = self.events.pop() {
                self.happens(event);
            }
        }
        // Light packets that still wait count with the time that they have waited.
        let (waits, of, now) = (&mut self.service.waits, &self.of, self.now);
        self.discipline.drain(&mut |packet| {
            if let Who::Light(light) = of[packet.slot.0 as usize] {
                waits[light.min(1)].push(now - packet.enqueued.as_nanos());
            }
        });
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Send(Who::Heavy(heavy)) => self.fill(heavy),
            Event::Send(Who::Light(light)) => self.send_light(light),
            Event::Send(Who::Limb(limb)) => self.attack(limb),
            Event::Send(Who::Known(limb)) => self.become_known(limb),
            Event::Heard(heavy, arrived) => {
                let window = &mut self.windows[heavy];
                window.under_way -= 1;
                if arrived {
                    window.packets = (window.packets + 1.0 / window.packets).min(WINDOW_MAX);
                } else if self.now >= window.halved + ROUND_TRIP {
                    window.packets = (window.packets / 2.0).max(2.0);
                    window.halved = self.now;
                }
                self.fill(heavy);
            }
        }
    }

    fn again(&mut self, at: u64, who: Who) {
        self.events.push(Reverse((at, Event::Send(who))));
    }

    fn fill(&mut self, heavy: usize) {
        while f64::from(self.windows[heavy].under_way + 1) <= self.windows[heavy].packets {
            self.windows[heavy].under_way += 1;
            self.offer(
                Who::Heavy(heavy),
                key(heavy as u32, heavy as u32, 5000),
                1500,
            );
        }
    }

    fn send_light(&mut self, light: usize) {
        let (bytes, every_ms, from, to, is_new) = LIGHT[light];
        let port = if is_new { self.chance.random() } else { 6000 };
        self.service.sent[light.min(1)] += u64::from(self.now >= BEGIN);
        self.offer(Who::Light(light), key(from, to, port), bytes);
        let gap = every_ms * self.chance.random_range(900_000..1_100_000);
        self.again(self.now + gap, Who::Light(light));
    }

    /// Sends a packet of a source that must become trusted.
    fn become_known(&mut self, limb: usize) {
        let (key, sources) = self.attack[limb].greeting(self.offered);
        self.offer(Who::Known(limb), key, 64);
        let next = self.now + KNOWN / (u64::from(sources) * KNOWN_PACKETS);
        if next < KNOWN {
            self.again(next, Who::Known(limb));
        }
    }

    fn attack(&mut self, limb: usize) {
        let of = &mut self.attack[limb];
        let (packet, next) = of.send(self.now - BEGIN, &mut self.chance);
        self.again(BEGIN + next, Who::Limb(limb));
        if let Some((key, bytes)) = packet {
            self.service.attack += u64::from(bytes);
            self.offer(Who::Limb(limb), key, bytes);
        }
    }

    fn offer(&mut self, who: Who, key: FlowKey, bytes: u32) {
        let slot = self
            .free
            .pop()
            .expect("more slots than any discipline holds");
        self.of[slot as usize] = who;
        self.keys.set(Slot(slot), key);
        let now = Instant::from_nanos(self.now);
        let packet = Packet::new(self.offered, Slot(slot), bytes, now);
        self.offered += 1;
        let (keys, fates) = (&self.keys, &mut self.fates);
        self.discipline.enqueue(
            &mut Cx {
                now,
                keys,
                fates,
                heavy: false,
            },
            packet,
        );
        self.free_lost();
    }

    /// Sends a packet; returns when the link is idle again.
    fn take(&mut self) -> u64 {
        let now = Instant::from_nanos(self.now);
        let (keys, fates) = (&self.keys, &mut self.fates);
        let taken = self.discipline.dequeue(&mut Cx {
            now,
            keys,
            fates,
            heavy: false,
        });
        self.free_lost();
        let Some(packet) = taken else { return self.now };
        self.free.push(packet.slot.0);
        let done = self.now + packet.bytes() * BYTE;
        let counts = self.now >= BEGIN;
        match self.of[packet.slot.0 as usize] {
            Who::Heavy(heavy) => {
                let heard = Event::Heard(heavy, true);
                self.events.push(Reverse((done + ROUND_TRIP, heard)));
                self.service.heavy[heavy] += packet.bytes() * u64::from(counts);
            }
            Who::Light(light) if counts => {
                let wait = self.now - packet.enqueued.as_nanos();
                self.service.waits[light.min(1)].push(wait);
            }
            Who::Limb(limb) => self.attack[limb].waiting -= 1,
            _ => {}
        }
        done
    }

    fn free_lost(&mut self) {
        for freed in self.fates.freed() {
            self.free.push(freed.slot.0);
            match self.of[freed.slot.0 as usize] {
                Who::Heavy(heavy) => {
                    let heard = Event::Heard(heavy, false);
                    self.events.push(Reverse((self.now + ROUND_TRIP, heard)));
                }
                Who::Light(light) => {
                    self.service.lost[light.min(1)] += u64::from(self.now >= BEGIN);
                }
                Who::Limb(limb) => self.attack[limb].waiting -= 1,
                Who::Known(_) => {}
            }
        }
    }
}

/// A flow between two hosts.
pub(crate) fn key(from: u32, to: u32, port: u16) -> FlowKey {
    let [from, to] = [0x0a00_0000 + from, 0x6400_0000 + to].map(Ipv4Addr::from);
    FlowKey::ip(from.into(), to.into(), 17, port, 443)
}
