//! A numbered stream through a router, with every packet counted.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_benches::testbed::{DISCARD, SOURCE, Testbed};
use weir_live::device::Device;
use weir_live::device::af_packet::{AfPacket, Options};

use super::common::Hosts;

/// Both ports of the router, 50 Mbit/s towards the sink.
pub(crate) const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
[port.wan]
interface = \"r1\"
rate = \"50 Mbit\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
";

/// Groups of a flood per second.
const WAKEUPS: u32 = 4000;
/// Slots of the ring that counts, for each packet of a group.
const SLOTS: usize = 4096;

/// Numbered datagrams from the source to an unused address in the sink's network, counted on the sink's link by a
/// ring that holds a second of them.
pub(crate) struct Stream {
    begin: Instant,
    stop: Arc<AtomicBool>,
    sender: JoinHandle<Vec<Duration>>,
    receiver: JoinHandle<Vec<Arrival>>,
}

/// A datagram that arrived.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u32,
    /// Time of arrival; `sent` is the time of sending.
    pub(crate) at: Duration,
    pub(crate) sent: Duration,
}

/// Outcome of the datagrams.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) sent: u32,
    pub(crate) lost: u32,
    pub(crate) duplicated: u32,
}

impl Stream {
    /// Starts sending 4000 packets per second, 40 Mbit/s.
    pub(crate) fn begin(hosts: &Hosts) -> Self {
        Self::new(&hosts.bed, 4000, 1250)
    }

    pub(crate) fn new(bed: &Testbed, per_second: u32, bytes: usize) -> Self {
        Self::of(bed, per_second, bytes, u32::MAX)
    }

    /// Sends more packets per second than a sender can sleep, in groups.
    pub(crate) fn flood(bed: &Testbed, per_second: u32, bytes: usize) -> Self {
        Self::start(bed, (per_second, per_second / WAKEUPS), bytes, u32::MAX)
    }

    /// Sends at most this number of packets.
    pub(crate) fn of(bed: &Testbed, per_second: u32, bytes: usize, most: u32) -> Self {
        Self::start(bed, (per_second, 1), bytes, most)
    }

    fn start(bed: &Testbed, (per_second, group): (u32, u32), bytes: usize, most: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let socket = bed.source.enter(|| UdpSocket::bind((SOURCE, 0)).unwrap());
        let socket = socket.unwrap();
        let options = Options {
            slots: SLOTS * group as usize,
            outgoing: false,
            ..Options::default()
        };
        let ring = bed.sink.enter(|| AfPacket::open("b0", options).unwrap());
        let ring = ring.unwrap();
        let begin = Instant::now();
        let total = Arc::new(AtomicUsize::new(usize::MAX));
        let receiver = {
            let total = Arc::clone(&total);
            thread::spawn(move || receive(ring, begin, &total))
        };
        let sender = {
            let stop = Arc::clone(&stop);
            let gap = Duration::from_secs(1) * group / per_second;
            thread::spawn(move || {
                let sent = send(&socket, begin, (gap, group, bytes, most), &stop);
                total.store(sent.len(), Ordering::Relaxed);
                sent
            })
        };
        thread::sleep(Duration::from_millis(100));
        Self {
            begin,
            stop,
            sender,
            receiver,
        }
    }

    /// The time now, as in [`Arrival`].
    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Stops the stream and returns the time at which each packet was sent, and every arrival. A pause may lose a
    /// share of the packets that were sent meanwhile: a busy machine sends more slowly.
    pub(crate) fn arrivals(self) -> (Vec<Duration>, Vec<Arrival>) {
        thread::sleep(Duration::from_millis(100));
        self.stop.store(true, Ordering::Relaxed);
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }

    pub(crate) fn end(self) -> Count {
        let (sent, arrivals) = self.arrivals();
        count(&sent, &arrivals)
    }
}

pub(crate) fn count(sent: &[Duration], arrivals: &[Arrival]) -> Count {
    let mut times = vec![0_u32; sent.len()];
    for arrival in arrivals {
        times[arrival.number as usize] += 1;
    }
    let with = |found: fn(&u32) -> bool| times.iter().copied().filter(found).count() as u32;
    Count {
        sent: sent.len() as u32,
        lost: with(|times| *times == 0),
        duplicated: with(|times| *times > 1),
    }
}

/// Sends groups of packets with at least `gap` between them: a sender that waited for a processor does not catch up, because a
/// burst could overflow a queue.
fn send(
    socket: &UdpSocket,
    begin: Instant,
    (gap, group, bytes, most): (Duration, u32, usize, u32),
    stop: &AtomicBool,
) -> Vec<Duration> {
    let mut payload = vec![0; bytes - 42];
    let mut sent = Vec::new();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) && sent.len() < most as usize {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due = Instant::now().max(due) + gap;
        for _ in 0..group {
            payload[..4].copy_from_slice(&(sent.len() as u32).to_be_bytes());
            let now = begin.elapsed();
            payload[4..12].copy_from_slice(&(now.as_nanos() as u64).to_be_bytes());
            socket.send_to(&payload, (DISCARD, 9)).unwrap();
            sent.push(now);
        }
    }
    sent
}

/// Receives until no packet of the `total` has arrived for a while. If some are missing, a busy machine may still hold
/// them: it gets much longer.
fn receive(mut ring: AfPacket, begin: Instant, total: &AtomicUsize) -> Vec<Arrival> {
    const FOR_DUPLICATES: Duration = Duration::from_millis(500);
    const FOR_MISSING: Duration = Duration::from_secs(3);
    const PORT_AT: usize = 14 + 20 + 2;
    const PAYLOAD_AT: usize = 14 + 20 + 8;
    let mut arrivals = Vec::new();
    let mut quiet_since = Instant::now();
    loop {
        let now = begin.elapsed();
        let took = ring.receive(256, &mut |frame| {
            let bytes = frame.bytes;
            if bytes.len() < PAYLOAD_AT + 12 || bytes[PORT_AT..PORT_AT + 2] != [0, 9] {
                return;
            }
            let four = bytes[PAYLOAD_AT..].first_chunk::<4>().unwrap();
            let eight = bytes[PAYLOAD_AT + 4..].first_chunk::<8>().unwrap();
            arrivals.push(Arrival {
                number: u32::from_be_bytes(*four),
                at: now,
                sent: Duration::from_nanos(u64::from_be_bytes(*eight)),
            });
        });
        let patience = match total.load(Ordering::Relaxed) {
            usize::MAX => Duration::MAX,
            total if arrivals.len() < total => FOR_MISSING,
            _ => FOR_DUPLICATES,
        };
        if took.unwrap() > 0 {
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() > patience {
            assert_eq!(ring.counters().missed, 0, "the ring that counts was full");
            return arrivals;
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
