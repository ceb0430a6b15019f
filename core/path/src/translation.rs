//! Finds the hosts behind network address translation, whose packets all have one address at a port.
//!
//! ```text
//!  packet --> tuple as received from outside --> [ known answers ] --miss--> connection tracking, within a budget
//!                                                       |
//!               flow key <-- address and port inside <--+
//! ```
//!
//! The first packet of a flow causes a query. The kernel confirms a connection before its first packet leaves, so a
//! flow from inside has one key for all packets. A flow from outside, through a forwarded port, begins with the outer
//! address, because its first packet arrives before the connection exists. Such a flow changes its key when none of its
//! packets waits, so no packet overtakes another.
//!
//! # Bounds
//!
//! Memory is fixed: [`SETS`] times [`WAYS`] answers of 40 bytes. With a hundred thousand connections, 0.4 % of the sets
//! have more tuples than places. The queries of a port are limited ([`ASKS`]), so a flood of new tuples from outside
//! costs a bounded share of the processor, and leaves the budget of flows from inside alone. Without an answer, a
//! packet has the key of its own addresses, like the packets of the machine itself.

use std::collections::HashMap;

use weir_base::{Instant, Span};
use weir_packet::key::{Family, Keys};
use weir_packet::{Direction, FlowKey, Slot};
use weir_wire::ipv6_extension::Chain;
use weir_wire::{Protocol, icmpv4, icmpv6, ipv4, ipv6};

use crate::classify::ports_at;
use crate::headers::{Fragment, Headers};
use crate::ip::error_budget::{Bucket, Limit};

/// Sets of answers; a tuple belongs to one set.
const SETS: usize = 1 << 15;
/// Answers in a set.
const WAYS: usize = 8;
/// Datagrams whose first fragment is remembered.
const DATAGRAMS: usize = 256;
/// Flows without an answer whose waiting packets are counted.
const PENDING_MAX: usize = 4096;
/// Queries of a port.
const ASKS: Limit = Limit {
    rate: 10_000,
    burst: 100,
};
/// Queries of a port about tuples with an outdated answer. The rest of the tokens is for tuples without an answer.
const ASKS_AGAIN: Limit = Limit {
    burst: ASKS.burst / 2,
    ..ASKS
};
/// After a pause of this length, the tuple of a flow may belong to another connection. The kernel keeps a tuple for 10 s or
/// more after its last packet.
const PAUSE_MAX: Span = Span::from_secs(5);
/// Minimum time between two queries about an unknown tuple.
const RETRY: Span = Span::from_millis(10);

/// An end of a connection inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    /// Address, as in a [`FlowKey`].
    pub address: [u8; 16],
    /// Port; zero if the protocol has none.
    pub port: u16,
}

/// Knowledge of the connection tracking about a tuple.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// No connection.
    #[default]
    Unknown,
    /// A connection with the addresses of the packet.
    Untranslated,
    /// A connection of this host inside.
    Translated(Inside),
}

/// The connection tracking of a kernel, or a model of it.
pub trait ConnectionTracking: Send {
    /// The connection to which a packet from outside with this tuple belongs. For an ICMP echo, the source port is the
    /// identifier, and the destination port is the type of the message from outside.
    fn find(&mut self, tuple: &FlowKey) -> Answer;
}

/// A port at which packets have their addresses outside.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// Whether its packets leave to the outside, or arrive from there.
    pub(crate) direction: Direction,
    budget: Bucket,
    /// Queries to connection tracking.
    pub questions: u64,
    /// Packets without an answer whose query would have exceeded the budget of the port.
    pub unasked: u64,
}

impl Side {
    pub(crate) fn new(direction: Direction) -> Self {
        let budget = Bucket::default();
        Self {
            direction,
            budget,
            questions: 0,
            unasked: 0,
        }
    }
}

/// Answers about the tuples of a set. The hashes fill one cache line, so a lookup costs two.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    /// Keyed hashes of the tuples. Senders cannot make two tuples share a hash.
    hashes: [u64; WAYS],
    answers: [Remembered; WAYS],
}

/// An answer, and the time of its last use.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    used: Instant,
    answer: Answer,
}

/// Answers about flows, and the packets that wait without one.
pub struct Translations {
    tracking: Box<dyn ConnectionTracking>,
    sets: Box<[Set]>,
    datagrams: Box<[(u64, Inside)]>,
    /// Waiting packets of each flow that had no answer, by the hash of the tuple.
    pending: HashMap<u64, u32>,
    /// For each slot of the pool the flow in `pending` that its packet counts for, or zero.
    counted: Box<[u64]>,
}

impl Translations {
    /// No answers yet, for a pool of `slots` packets.
    pub fn new(tracking: Box<dyn ConnectionTracking>, slots: usize) -> Self {
        Self {
            tracking,
            sets: vec![Set::default(); SETS].into_boxed_slice(),
            datagrams: vec![Default::default(); DATAGRAMS].into_boxed_slice(),
            pending: HashMap::new(),
            counted: vec![0; slots].into_boxed_slice(),
        }
    }

    /// Gives a packet the flow key that it has inside, if that is known. The key of its own addresses is in `keys`.
    pub(crate) fn translate(
        &mut self,
        keys: &mut Keys,
        slot: Slot,
        side: &mut Side,
        (frame, headers): (&[u8], &Headers),
        now: Instant,
    ) {
        let direction = side.direction;
        if !headers.is_ip() {
            return;
        }
        let key = *keys.key_at(slot);
        if headers.fragment == Fragment::Later {
            let hash = keys.hash_in_table(&datagram(&key, frame, headers));
            let (found, inside) = self.datagrams[hash as usize % DATAGRAMS];
            if found == hash {
                keys.set(slot, renamed(key, inside, direction));
            }
            return;
        }
        let Some(tuple) = from_outside(key, direction, frame, headers) else {
            return;
        };
        let hash = keys.hash_in_table(&tuple);
        match self.answer(hash, &tuple, side, now) {
            Answer::Translated(inside) if !self.pending.contains_key(&hash) => {
                if headers.fragment == Fragment::First {
                    let hash = keys.hash_in_table(&datagram(&key, frame, headers));
                    self.datagrams[hash as usize % DATAGRAMS] = (hash, inside);
                }
                keys.set(slot, renamed(key, inside, direction));
            }
            Answer::Untranslated => {}
            Answer::Translated(_) | Answer::Unknown => self.count(slot, hash),
        }
    }

    /// Counts a packet that keeps the key of its own addresses although its flow may get another.
    fn count(&mut self, slot: Slot, hash: u64) {
        if self.pending.len() < PENDING_MAX || self.pending.contains_key(&hash) {
            *self.pending.entry(hash).or_default() += 1;
            self.counted[slot.0 as usize] = hash;
        }
    }

    /// Ends the wait of the packet in a slot.
    #[inline]
    pub(crate) fn ended(&mut self, slot: Slot) {
        let hash = &mut self.counted[slot.0 as usize];
        if *hash != 0 {
            let hash = std::mem::take(hash);
            self.uncount(hash);
        }
    }

    #[cold]
    fn uncount(&mut self, hash: u64) {
        if let Some(waiting) = self.pending.get_mut(&hash) {
            *waiting -= 1;
            if *waiting == 0 {
                self.pending.remove(&hash);
            }
        }
    }

    #[inline]
    fn answer(&mut self, hash: u64, tuple: &FlowKey, side: &mut Side, now: Instant) -> Answer {
        let set = &mut self.sets[hash as usize % SETS];
        if let Some(place) = set.place(hash)
            && let known = &mut set.answers[place]
            && !known.is_outdated(now)
        {
            if known.answer != Answer::Unknown {
                known.used = now;
            }
            return known.answer;
        }
        self.ask(hash, tuple, side, now)
    }

    #[cold]
    fn ask(&mut self, hash: u64, tuple: &FlowKey, side: &mut Side, now: Instant) -> Answer {
        let set = &mut self.sets[hash as usize % SETS];
        let same = set.place(hash);
        let limit = same.map_or(&ASKS, |_| &ASKS_AGAIN);
        if !side.budget.has_token(limit, now) {
            side.unasked += 1;
            return same.map_or(Answer::Unknown, |place| set.answers[place].answer);
        }
        side.budget.take(&ASKS, now);
        side.questions += 1;
        let answer = self.tracking.find(tuple);
        // An outdated answer goes first. A tuple without a connection never replaces an answer in use.
        let place = same.or_else(|| {
            let rank = |place: &usize| {
                let known = &set.answers[*place];
                (!known.is_outdated(now), known.used)
            };
            let place = (0..WAYS).min_by_key(rank)?;
            (answer != Answer::Unknown || set.answers[place].is_outdated(now)).then_some(place)
        });
        if let Some(place) = place {
            set.hashes[place] = hash;
            set.answers[place] = Remembered { used: now, answer };
        }
        answer
    }
}

impl Set {
    fn place(&self, hash: u64) -> Option<usize> {
        self.hashes.iter().position(|known| *known == hash)
    }
}

impl Remembered {
    fn is_outdated(&self, now: Instant) -> bool {
        let pause_max = match self.answer {
            Answer::Unknown => RETRY,
            _ => PAUSE_MAX,
        };
        now.since(self.used) > pause_max
    }
}

/// The flow key of a packet whose end inside is known.
fn renamed(key: FlowKey, inside: Inside, direction: Direction) -> FlowKey {
    let port = |outside| if outside == 0 { 0 } else { inside.port };
    match direction {
        Direction::Outbound => FlowKey {
            source: inside.address,
            source_port: port(key.source_port),
            ..key
        },
        Direction::Inbound => FlowKey {
            destination: inside.address,
            destination_port: port(key.destination_port),
            ..key
        },
    }
}

/// The tuple of a packet from outside that belongs to the same connection. Messages of ICMP other than echoes belong to
/// the connections of the packets that they are about, or to the machine itself; they keep their addresses.
fn from_outside(
    key: FlowKey,
    direction: Direction,
    frame: &[u8],
    headers: &Headers,
) -> Option<FlowKey> {
    let (source_port, destination_port) = ports_at(frame, headers);
    let own = FlowKey {
        source_port,
        destination_port,
        ..key
    };
    let tuple = match direction {
        Direction::Inbound => own,
        Direction::Outbound => own.reversed(),
    };
    let protocol = Protocol::from(headers.protocol);
    if ![Protocol::ICMPV4, Protocol::ICMPV6].contains(&protocol) {
        return Some(tuple);
    }
    let (kind, identifier) = echo(frame, headers)?;
    let kind = match direction {
        Direction::Inbound => kind,
        Direction::Outbound => answer_to(kind),
    };
    Some(FlowKey {
        source_port: identifier,
        destination_port: kind.into(),
        ..tuple
    })
}

/// Type and identifier of an ICMP echo or its reply.
fn echo(frame: &[u8], headers: &Headers) -> Option<(u8, u16)> {
    let [kind, _, _, _, high, low, ..] = *headers.transport(frame) else {
        return None;
    };
    let is_echo = match Protocol::from(headers.protocol) {
        Protocol::ICMPV4 => matches!(kind, icmpv4::ECHO_REQUEST | icmpv4::ECHO_REPLY),
        Protocol::ICMPV6 => matches!(kind, icmpv6::ECHO_REQUEST | icmpv6::ECHO_REPLY),
        _ => false,
    };
    is_echo.then(|| (kind, u16::from_be_bytes([high, low])))
}

fn answer_to(kind: u8) -> u8 {
    match kind {
        icmpv4::ECHO_REQUEST => icmpv4::ECHO_REPLY,
        icmpv4::ECHO_REPLY => icmpv4::ECHO_REQUEST,
        icmpv6::ECHO_REQUEST => icmpv6::ECHO_REPLY,
        _ => icmpv6::ECHO_REQUEST,
    }
}

/// A key for all fragments of a datagram: its identification in place of the ports.
fn datagram(key: &FlowKey, frame: &[u8], headers: &Headers) -> FlowKey {
    let packet = &frame[headers.l3_range()];
    let identification = match key.family {
        Family::V6 => ipv6::View::new_checked(packet).ok().and_then(|view| {
            let chain = Chain::walk(view.next_header(), &packet[ipv6::HEADER_LEN..]);
            chain.fragment.map(|fragment| fragment.identification)
        }),
        _ => {
            let view = ipv4::View::new_checked(packet);
            view.ok().map(|view| view.identification().into())
        }
    };
    let identification = identification.unwrap_or(0);
    FlowKey {
        source_port: (identification >> 16) as u16,
        destination_port: identification as u16,
        ..*key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;
    use std::sync::{Arc, Mutex};

    use etherparse::PacketBuilder;
    use weir_packet::{Packet, Pool};

    use super::*;
    use crate::bridge;
    use crate::classify::classify;

    const OUTER: [u8; 4] = [192, 0, 2, 1];
    const INNER: [u8; 4] = [10, 0, 0, 7];
    const SERVER: [u8; 4] = [198, 51, 100, 1];

    /// Connections by their tuple from outside, and the number of queries.
    #[derive(Clone, Default)]
    struct Model(Arc<Mutex<(BTreeMap<FlowKey, Answer>, u32)>>);

    impl ConnectionTracking for Model {
        fn find(&mut self, tuple: &FlowKey) -> Answer {
            let (connections, questions) = &mut *self.0.lock().unwrap();
            *questions += 1;
            connections.get(tuple).copied().unwrap_or_default()
        }
    }

    struct Bench {
        model: Model,
        translations: Translations,
        sides: [Side; 2],
        pool: Pool,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let (model, pool) = (Model::default(), Pool::new(400, 2048, (1, 2)));
            Self {
                translations: Translations::new(Box::new(model.clone()), 400),
                sides: [OUT, IN].map(Side::new),
                model,
                pool,
                now: Instant::from_nanos(1_000_000_000),
            }
        }

        fn connect(&self, tuple: FlowKey, port: u16) {
            let mut inside = Inside {
                port,
                ..Inside::default()
            };
            inside.address[..4].copy_from_slice(&INNER);
            let answer = Answer::Translated(inside);
            self.model.0.lock().unwrap().0.insert(tuple, answer);
        }

        fn questions(&self) -> u32 {
            self.model.0.lock().unwrap().1
        }

        /// The flow key of a frame, as text, and its packet.
        fn key(&mut self, frame: &[u8], direction: Direction) -> (String, Packet) {
            let packet = self.pool.receive(frame, self.now).unwrap();
            let parsed = bridge::parse(&self.pool, packet);
            let classified = classify(&mut self.pool, parsed);
            let packet = classified.packet;
            let (keys, frame) = self.pool.keys_and_frame(&packet);
            let headers = &classified.headers;
            let side = &mut self.sides[usize::from(direction == IN)];
            self.translations
                .translate(keys, packet.slot, side, (frame, headers), self.now);
            (self.pool.keys.key(&packet).to_string(), packet)
        }

        fn shown(&mut self, frame: &[u8], direction: Direction) -> String {
            let (shown, packet) = self.key(frame, direction);
            self.leave(packet);
            shown
        }

        fn leave(&mut self, packet: Packet) {
            self.translations.ended(packet.slot);
            self.pool.release(packet);
        }

        fn wait(&mut self, millis: u64) {
            self.now += Span::from_millis(millis);
        }
    }

    fn udp(source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(source, destination, 9)
            .udp(ports.0, ports.1)
            .write(&mut frame, &[0; 32])
            .unwrap();
        frame
    }

    /// The tuple of an answer of the server to this port of the outer address.
    fn answered(port: u16) -> FlowKey {
        let [server, outer] = [SERVER, OUTER].map(|address| Ipv4Addr::from(address).into());
        FlowKey::ip(server, outer, 17, 53, port)
    }

    const OUT: Direction = Direction::Outbound;
    const IN: Direction = Direction::Inbound;

    #[test]
    fn both_directions_have_the_address_and_port_inside() {
        let mut bench = Bench::new();
        bench.connect(answered(6000), 5000);
        for _ in 0..10 {
            let (out, back) = (
                udp(OUTER, SERVER, (6000, 53)),
                udp(SERVER, OUTER, (53, 6000)),
            );
            assert_eq!(
                bench.shown(&out, OUT),
                "10.0.0.7:5000 > 198.51.100.1:53 udp"
            );
            assert_eq!(
                bench.shown(&back, IN),
                "198.51.100.1:53 > 10.0.0.7:5000 udp"
            );
        }
        assert_eq!(bench.questions(), 1);
        // The tuple may have become another connection's.
        bench.wait(5001);
        bench.connect(answered(6000), 5001);
        let out = udp(OUTER, SERVER, (6000, 53));
        assert_eq!(
            bench.shown(&out, OUT),
            "10.0.0.7:5001 > 198.51.100.1:53 udp"
        );
    }

    #[test]
    fn a_flow_that_is_found_late_keeps_its_key_while_its_packets_wait() {
        let mut bench = Bench::new();
        let back = udp(SERVER, OUTER, (53, 6000));
        let outer = "198.51.100.1:53 > 192.0.2.1:6000 udp";
        let (shown, first) = bench.key(&back, IN);
        assert_eq!(shown, outer);
        bench.connect(answered(6000), 5000);
        bench.wait(20);
        let (shown, second) = bench.key(&back, IN);
        assert_eq!(shown, outer, "the first packet waits");
        bench.leave(first);
        assert_eq!(bench.shown(&back, IN), outer, "the second packet waits");
        bench.leave(second);
        assert_eq!(
            bench.shown(&back, IN),
            "198.51.100.1:53 > 10.0.0.7:5000 udp"
        );
        assert!(bench.translations.pending.is_empty());
    }

    #[test]
    fn a_flood_from_outside_asks_within_its_budget_and_leaves_that_of_others() {
        let mut bench = Bench::new();
        for port in 1000..1300 {
            bench.shown(&udp(SERVER, OUTER, (53, port)), IN);
        }
        assert_eq!(bench.questions(), ASKS.burst);
        assert_eq!(bench.sides[1].unasked, 300 - u64::from(ASKS.burst));
        bench.connect(answered(6000), 5000);
        let out = udp(OUTER, SERVER, (6000, 53));
        assert_eq!(
            bench.shown(&out, OUT),
            "10.0.0.7:5000 > 198.51.100.1:53 udp"
        );
    }

    #[test]
    fn new_flows_are_asked_about_while_many_answers_are_outdated() {
        let mut bench = Bench::new();
        for port in 1000..1100 {
            bench.connect(answered(port), port);
            bench.shown(&udp(OUTER, SERVER, (port, 53)), OUT);
        }
        bench.wait(6000);
        bench.connect(answered(6000), 5000);
        for port in (1000..1100).chain([6000]) {
            let out = udp(OUTER, SERVER, (port, 53));
            assert!(bench.shown(&out, OUT).starts_with("10.0.0.7:"), "{port}");
        }
        assert_eq!(bench.questions(), 100 + ASKS_AGAIN.burst + 1);
    }

    #[test]
    fn fragments_follow_the_first_one() {
        let mut bench = Bench::new();
        bench.connect(answered(6000), 5000);
        let fragment = |identification: u8, bits: [u8; 2], port| {
            let mut frame = udp(OUTER, SERVER, (port, 53));
            frame[19] = identification;
            frame[20..22].copy_from_slice(&bits);
            frame
        };
        let inside = "10.0.0.7 > 198.51.100.1 udp";
        assert_eq!(bench.shown(&fragment(7, [0x20, 0], 6000), OUT), inside);
        assert_eq!(bench.shown(&fragment(7, [0, 100], 0), OUT), inside);
        let other = bench.shown(&fragment(8, [0, 100], 0), OUT);
        assert_eq!(other, "192.0.2.1 > 198.51.100.1 udp");
    }

    #[test]
    fn echoes_are_found_by_their_identifier_and_other_messages_are_not_asked_for() {
        let mut bench = Bench::new();
        let echo = |kind: u8| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4(OUTER, SERVER, 9)
                .write(
                    &mut frame,
                    etherparse::IpNumber::ICMP,
                    &[kind, 0, 0, 0, 0, 77, 0, 1],
                )
                .unwrap();
            frame
        };
        let [server, outer] = [SERVER, OUTER].map(|address| Ipv4Addr::from(address).into());
        bench.connect(FlowKey::ip(server, outer, 1, 77, 0), 0);
        let inside = "10.0.0.7 > 198.51.100.1 icmp";
        assert_eq!(bench.shown(&echo(icmpv4::ECHO_REQUEST), OUT), inside);
        let error = bench.shown(&echo(3), OUT);
        assert_eq!(error, "192.0.2.1 > 198.51.100.1 icmp");
        assert_eq!(bench.questions(), 1);
    }

    #[test]
    fn answers_in_use_outlive_a_flood_of_unknown_tuples() {
        let mut bench = Bench::new();
        bench.connect(answered(6000), 5000);
        let out = udp(OUTER, SERVER, (6000, 53));
        bench.shown(&out, OUT);
        // All in one set.
        let hash = bench.pool.keys.hash_in_table(&answered(6000));
        for n in 1..100 {
            let hash = hash.wrapping_add(n * SETS as u64);
            bench.wait(20);
            let side = &mut bench.sides[1];
            bench.translations.ask(hash, &answered(1), side, bench.now);
        }
        let questions = bench.questions();
        assert_eq!(
            bench.shown(&out, OUT),
            "10.0.0.7:5000 > 198.51.100.1:53 udp"
        );
        assert_eq!(bench.questions(), questions);
    }
}
