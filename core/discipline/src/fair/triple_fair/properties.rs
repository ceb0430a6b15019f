//! The bounds of the manual page, under random loads without congestion control.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::tests::{params, queues, rig};
use super::*;
use crate::rig::Rig;

/// Longest packet.
const FRAME: u64 = 1514;
/// Flows of sources that send only once.
const STRANGERS: usize = 5000;

/// Rounds within which a queue has its turn. The bound comes from measurements: the longest observed wait took 206
/// rounds.
const ROUNDS: u64 = 400;

/// Sources with some flows each, sources that send only once, and the observed flow, number 0.
#[derive(Clone, Debug)]
struct Load {
    seed: u64,
    sources: usize,
    ports: usize,
    places: usize,
    /// Packets that a source sends at once, and packets of all these sources, per ten packets that the link carries.
    burst: u64,
    rate: u64,
    /// Packets of one-time sources, per ten packets that the link carries, and packets in a row of each such source.
    flood: u64,
    train: usize,
}

fn loads() -> impl Strategy<Value = Load> {
    let sizes = (1..30_usize, 1..40_usize, 1..60_usize);
    let floods = (0..25_u64, 1..16_usize);
    (any::<u64>(), sizes, 1..60_u64, 1..30_u64, floods).prop_map(
        |(seed, (sources, ports, places), burst, rate, (flood, train))| Load {
            seed,
            sources,
            ports,
            places,
            burst,
            rate,
            flood,
            train,
        },
    )
}

impl Load {
    fn flows(&self) -> usize {
        1 + self.sources * self.ports
    }

    /// Sources are numbered from 1, and so are the places to which they send.
    fn source(&self, flow: usize) -> usize {
        match flow.checked_sub(1) {
            None => 0,
            Some(flow) if flow < self.sources * self.ports => 1 + flow / self.ports,
            Some(flow) => 1000 + flow,
        }
    }

    fn rig(&self) -> Rig {
        rig(self.flows() + STRANGERS, |flow| {
            let place = if flow == 0 { 0 } else { 1 + flow % self.places };
            (self.source(flow) as u32, place as u32)
        })
    }
}

/// A load in progress.
struct Run<'a> {
    load: &'a Load,
    rig: Rig,
    discipline: TripleFair,
    draw: u64,
    strangers: usize,
}

impl<'a> Run<'a> {
    fn new(load: &'a Load) -> Self {
        Self {
            load,
            rig: load.rig(),
            discipline: queues(),
            draw: load.seed,
            strangers: 0,
        }
    }

    /// A number below `end`.
    fn any(&mut self, end: u64) -> u64 {
        let draw = self.draw.wrapping_mul(6_364_136_223_846_793_005);
        self.draw = draw.wrapping_add(1_442_695_040_888_963_407);
        (self.draw >> 33) % end
    }

    fn offer(&mut self, flow: usize) {
        let bytes = 64 + self.any(FRAME - 63) as u32;
        self.rig.offer(&mut self.discipline, flow, bytes);
    }

    /// Lets the others send for the time that the link needs for one packet.
    fn send(&mut self) {
        let load = self.load;
        if self.any(10 * load.burst) < load.rate {
            let source = self.any(load.sources as u64) as usize;
            let first = self.any(load.ports as u64) as usize;
            for packet in 0..load.burst as usize {
                self.offer(1 + source * load.ports + (first + packet) % load.ports);
            }
        }
        if self.any(10) < load.flood {
            self.strangers += 1;
            self.offer(load.flows() + self.strangers / load.train % STRANGERS);
        }
    }

    /// Where the queue of flow 0 waits.
    fn own(&self) -> Option<Waits> {
        let slab = &self.discipline.slab;
        let mut queues = self.discipline.queues.iter();
        let is_own = |packet: &Packet| packet.slot.0 == 0;
        let own = queues.find(|queue| slab.front(&queue.packets).is_some_and(is_own));
        Some(own?.waits)
    }

    /// The heavy flows of the source whose turn it is, times the sources of its destination.
    fn price(&self) -> Option<u64> {
        let queue = &self.discipline.queues[self.discipline.first()?.queue];
        let destination = self.discipline.ends[1].get(queue.hosts[1]);
        let load = destination.map_or(1, |host| host.price(true, false) / hosts::ONE);
        Some(u64::from(self.discipline.source_flows(queue)) * load)
    }

    /// The packet that the link takes, at 100 Mbit/s, and where its queue waited.
    fn take(&mut self) -> Option<(Waits, Packet)> {
        let turn = self.discipline.first();
        let waits = turn.map(|turn| self.discipline.queues[turn.queue].waits);
        let packet = self.rig.take(&mut self.discipline);
        let bytes = packet.as_ref().map_or(FRAME, Packet::bytes);
        self.rig.now += Span::from_nanos(bytes * 80);
        waits.zip(packet)
    }
}

/// The bytes of others that are served while a packet waits.
#[derive(Debug, Default)]
struct Ahead {
    /// For each known source: bytes of familiar light flows, of other light flows, and of heavy flows.
    of: Vec<[u64; 3]>,
    /// Bytes of light strangers, and of all heavy flows.
    strangers: u64,
    heavy: u64,
}

impl Ahead {
    fn count(&mut self, source: usize, from: Waits, bytes: u64) {
        let kind = match from {
            Waits::New | Waits::Strange | Waits::Unknown => 1,
            from if from < Waits::Heavy => 0,
            _ => 2,
        };
        self.heavy += bytes * u64::from(kind == 2);
        match self.of.get_mut(source) {
            Some(of) => of[kind] += bytes,
            None => self.strangers += bytes * u64::from(kind < 2),
        }
    }

    /// Checks the bounds for a packet whose queue waits there.
    fn check(&self, waits: Waits) -> Result<(), TestCaseError> {
        let most = |kind: usize| self.of.iter().map(|of| of[kind]).max().unwrap_or(0);
        // The virtual time advances with heavy flows, and light flows have their shares of it.
        let passed = self.heavy;
        let doublings = u64::from(self.of.len().ilog2()) + 1;
        prop_assert!(
            most(0) <= (17 + 11 * doublings) * FRAME + passed,
            "{self:?}"
        );
        prop_assert!(most(1) <= (3 + 2 * doublings) * FRAME + passed, "{self:?}");
        if waits < Waits::Heavy {
            prop_assert!(self.heavy + self.strangers == 0, "{waits:?} {self:?}");
        }
        prop_assert!(most(2) <= (17 + 11 * doublings) * FRAME, "{self:?}");
        prop_assert!(self.strangers <= 9000 + FRAME + self.heavy, "{self:?}");
        Ok(())
    }
}

proptest! {
    // The same loads in each run, so that a failure comes from the tested change.
    #![proptest_config(ProptestConfig {
        cases: 300,
        rng_seed: RngSeed::Fixed(25),
        ..ProptestConfig::default()
    })]

    /// A packet of a familiar flow that sends less than its share waits for 17 full frames of familiar flows and 3 of
    /// new ones from each source at most, and for 11 and 2 more for each doubling between the loads of a source's
    /// destinations, of which there are no more than sources. If the flow is light, its packet waits for nothing else.
    /// The flow is not always light: the virtual time stands still while light flows have the link. Then the packet
    /// waits for first packets of heavy flows, and for the strangers' part.
    #[test]
    fn the_wait_of_a_flow_below_its_share_is_bounded(load in loads()) {
        let mut run = Run::new(&load);
        let mut ahead = Ahead::default();
        let mut allowance = 0;
        let mut waits = None;
        for n in 0..5000 {
            let is_known = n > 200;
            if is_known {
                run.send();
            }
            if waits.is_none() && (allowance >= 200 || !is_known) {
                run.rig.offer(&mut run.discipline, 0, 200);
                allowance = 0;
                ahead = Ahead { of: vec![[0; 3]; 1 + load.sources], ..Ahead::default() };
                waits = run.own();
            }
            let Some((from, packet)) = run.take() else { continue };
            // Strangers have up to half of the link, and the others share the rest.
            allowance += packet.bytes() / (4 * (1 + load.sources as u64));
            match (packet.slot.0 as usize, waits) {
                (0, _) => waits = None,
                (flow, Some(own)) => {
                    ahead.count(load.source(flow), from, packet.bytes());
                    ahead.check(own)?;
                }
                _ => {}
            }
        }
    }

    /// Hosts that always want more have equal shares, whatever the number of their flows and the lengths of their
    /// packets: sources with flows to many places, or destinations with many sources.
    #[test]
    fn hosts_that_always_want_more_have_equal_shares(
        hosts in prop::collection::vec((1_usize..20, 64_u32..FRAME as u32), 2..8),
        end in 0_usize..2,
    ) {
        let of: Vec<usize> = (0..hosts.len()).flat_map(|host| vec![host; hosts[host].0]).collect();
        let mut rig = rig(of.len(), |flow| {
            let both = [of[flow] as u32, 1000 + flow as u32];
            (both[end], both[1 - end])
        });
        let mut discipline = queues();
        for flow in (0..of.len()).cycle().take(3 * of.len()) {
            rig.offer(&mut discipline, flow, hosts[of[flow]].1);
        }
        let fair = 200 * FRAME;
        let end = fair * hosts.len() as u64;
        let mut served = vec![0; hosts.len()];
        let mut all = 0;
        // All sources are trusted after three quarters.
        while all < 4 * end {
            let packet = rig.take(&mut discipline).unwrap();
            let flow = packet.slot.0 as usize;
            all += packet.bytes();
            served[of[flow]] += packet.bytes() * u64::from(all > 3 * end);
            rig.offer(&mut discipline, flow, packet.len);
        }
        for bytes in &served {
            let share = *bytes as f64 / fair as f64;
            prop_assert!((0.9..1.1).contains(&share), "{share} {served:?}");
        }
    }

    /// A queue has its turn within some rounds, even if its host has sent bursts: a round is a full frame of each busy
    /// source, as often as the queue's source has heavy flows, and its destination sources.
    #[test]
    fn every_queue_has_its_turn(load in loads()) {
        let mut run = Run::new(&load);
        // When each packet arrived, and when its flow was served, in bytes that the link has sent.
        let (mut came, mut served) = (Vec::new(), vec![0; load.flows() + STRANGERS]);
        let (mut all, mut sources) = (0, 0);
        for n in 0.. {
            if n < 5000 {
                run.send();
            }
            came.resize(run.rig.next_id() as usize, all);
            sources = run.discipline.ends[0].count().max(sources);
            if n >= 5000 && run.discipline.held == Tally::ZERO {
                break;
            }
            let Some(price) = run.price() else { continue };
            let Some((_, packet)) = run.take() else { continue };
            let served = &mut served[packet.slot.0 as usize];
            let waited = all - came[packet.id as usize].max(*served);
            all += packet.bytes();
            *served = all;
            prop_assert!(waited <= ROUNDS * FRAME * price * sources, "{waited} B, price {price}, {sources} sources");
        }
    }

    /// An arriving packet drops at most 64 others.
    #[test]
    fn one_packet_drops_few(load in loads(), limit in 1_usize..300, sends in 1..20) {
        let mut run = Run::new(&load);
        run.discipline = TripleFair::new(Params { limit, ..params() });
        for n in 0..60 {
            for _ in 0..sends {
                let flow = 1 + n % load.ports;
                let before = run.rig.fates.all_ended().packets;
                run.offer(flow);
                let dropped = run.rig.fates.all_ended().packets - before;
                prop_assert!(dropped <= 64, "{dropped}");
            }
            run.send();
            run.take();
        }
    }
}
