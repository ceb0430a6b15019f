//! The live plane between two devices in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::{Instant, Span, Streams};
use weir_discipline::Spec;
use weir_live::device::loopback::{Clock, Frame, Loopback};
use weir_live::device::{Device, Received};
use weir_packet::Fate;
use weir_path::ip::tables::{Action, Address, Interface, Neighbour, NextHop, Tables};
use weir_path::plane::filter::Filter;
use weir_path::plane::step::Arrival;
use weir_path::plane::watch::{Sightings, Want};
use weir_path::plane::{Mode, Plane};

use super::{Coming, HEADERS, LAN_MAC, LINK, Lost, NEXT_MAC, Outcome, SEED, Sent, WAN_MAC};

/// As in a live worker: maximum frames taken at once.
const BURST_MAX: usize = 64;

fn tables() -> Tables {
    let mut tables = Tables::default();
    for (index, name, mac, address) in [
        (1, "lan", LAN_MAC, "10.0.1.1/24"),
        (2, "wan", WAN_MAC, "10.0.2.1/24"),
    ] {
        let interface = Interface {
            name: name.to_owned(),
            mac,
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: vec![Address::of(address.parse().unwrap())],
        };
        tables.interfaces.insert(index, interface);
    }
    let gateway = [10, 0, 2, 254].into();
    let hop = NextHop {
        interface: 2,
        gateway: Some(gateway),
        weight: 1,
    };
    let action = Action::Forward(vec![hop]);
    tables.set_route("0.0.0.0/0".parse().unwrap(), action.into());
    let known = Neighbour::Reachable(NEXT_MAC);
    tables.neighbours.insert((2, gateway), known);
    tables
}

/// A plane with its devices, and the far end of the link that it sends on.
struct Router {
    plane: Plane,
    clock: Arc<AtomicU64>,
    lan: Loopback,
    wan: Loopback,
    next: Loopback,
    sent: Vec<Sent>,
}

const LAN: usize = 0;
const WAN: usize = 1;

impl Router {
    fn new(spec: &Spec) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let read = clock.clone();
        let read: Clock = Arc::new(move || Instant::from_nanos(read.load(Ordering::Relaxed)));
        let (_, lan) = Loopback::pair(4096, read.clone());
        let (wan, next) = Loopback::pair(4096, read);
        let mut plane = Plane::new(16_384, 1514, Streams::new(SEED));
        let fifo = Spec::check("fifo", []).unwrap();
        plane.add_port("lan", "lan", Mode::Routed, fifo, LINK, Instant::ZERO);
        plane.add_port(
            "wan",
            "wan",
            Mode::Routed,
            spec.clone(),
            LINK,
            Instant::ZERO,
        );
        plane.set_tables(Arc::new(tables()), Instant::ZERO);
        let want = Want {
            ports: vec!["wan".to_owned()],
            drops: false,
            snap: 64,
            packets: u64::MAX,
            until: Instant::FAR_FUTURE,
            filter: Filter::default(),
        };
        let watch = plane.watch(want, Sightings::default(), Instant::ZERO);
        watch.unwrap();
        Self {
            plane,
            clock,
            lan,
            wan,
            next,
            sent: Vec::new(),
        }
    }

    /// One poll iteration, as in a worker.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.clock.store(now.as_nanos(), Ordering::Relaxed);
        let plane = &mut self.plane;
        let received = self.lan.receive(BURST_MAX, &mut |frame| {
            let arrival = Arrival {
                at: frame.arrived,
                len: frame.len,
                vlan: frame.vlan,
                offload: frame.offload,
            };
            plane.receive(LAN, &frame.bytes, arrival);
        });
        assert!(received.unwrap() < BURST_MAX, "a burst is cut in two");
        let due = self.plane.step(now);
        let wan = &mut self.wan;
        let left = self.plane.flush(WAN, |frames, _| wan.transmit(frames));
        assert!(!left.unwrap());
        let sent = &mut self.sent;
        let mut take = |frame: Received<'_>| {
            let bytes = &frame.bytes;
            assert_eq!((&bytes[..6], &bytes[6..12]), (&NEXT_MAC[..], &WAN_MAC[..]));
            assert_eq!(bytes[22], 63);
            assert_eq!(checksum(&bytes[14..34]), 0);
            sent.push(Sent {
                id: id(bytes),
                at: frame.arrived,
                congested: bytes[15] & 3 == 3,
            });
        };
        self.next.receive(usize::MAX, &mut take).unwrap();
        due
    }

    fn is_idle(&self) -> bool {
        self.lan.waiting() == 0 && self.plane.ports()[WAN].port.is_idle()
    }

    /// The fate of all packets, from the frames and from the records of a watch.
    fn outcome(mut self, now: Instant) -> Outcome {
        let seen = self.plane.sightings(Sightings::default(), now).unwrap();
        assert_eq!(seen.missed, [0]);
        let (mut passed, mut lost) = (Vec::new(), Vec::new());
        for (sighting, bytes) in seen.sightings.iter() {
            let (id, at) = (id(bytes), sighting.at);
            let marked = sighting.fate == Fate::Marked;
            match sighting.fate {
                Fate::Dropped(reason) => lost.push(Lost {
                    id,
                    at,
                    reason: reason.name(),
                }),
                Fate::Passed | Fate::Marked => passed.push((id, at, marked)),
            }
        }
        let sent: Vec<_> = self.sent.iter().map(|s| (s.id, s.at)).collect();
        let (seen, marks): (Vec<_>, Vec<_>) =
            passed.into_iter().map(|(i, at, m)| ((i, at), m)).unzip();
        assert_eq!(sent, seen);
        assert!(marks.iter().zip(&self.sent).all(|(m, s)| *m == s.congested));
        let ended = self.plane.fates().all_ended();
        assert_eq!(ended.packets, lost.len() as u64, "lost elsewhere");
        Outcome {
            sent: self.sent,
            lost,
        }
    }
}

fn id(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[HEADERS..HEADERS + 4].try_into().unwrap()) as usize
}

/// The internet checksum; zero over a header that contains its own checksum.
fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum = words.sum::<u32>();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// `step` returns the time from one poll iteration to the next. If it returns `None`, the next iteration comes when
/// something is due.
pub(crate) fn live(
    spec: &Spec,
    list: &[Coming],
    mut step: impl FnMut() -> Option<Span>,
) -> Outcome {
    let mut router = Router::new(spec);
    let mut coming = list.iter().enumerate().peekable();
    let (mut now, mut due) = (Instant::ZERO, None);
    loop {
        let next = coming.peek().map(|(_, packet)| packet.at);
        if next.is_none() && router.is_idle() {
            return router.outcome(now);
        }
        now = match step() {
            Some(span) => now + span,
            None => [next, due].into_iter().flatten().min().unwrap(),
        };
        while let Some((id, packet)) = coming.next_if(|(_, packet)| packet.at <= now) {
            let frame = Frame::new(packet.frame(id), packet.at);
            router.lan.inject(frame).unwrap();
        }
        due = router.turn(now);
    }
}
