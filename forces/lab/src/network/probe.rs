//! Numbered packets from r1 to r2 through the FEs: which way they take, and how many are lost.

use std::collections::HashSet;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weir_live::device::Device;
use weir_live::device::af_packet::{self, AfPacket};
use weir_live::device::injector::Injector;
use weir_live::mutex::lock;
use weir_live::namespace::Namespace;
use weir_path::link::offload::Offload;

use super::flood;

/// Interval between two packets.
const STEP: Duration = Duration::from_millis(1);
/// Bytes of a frame before its TTL, and before the port of UDP.
const TTL_AT: usize = 22;
const PORT_AT: usize = 36;
const PORT: u16 = 4789;

/// How packets of r1 reach r2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through fe1 and fe2.
    Direct,
    /// Through fe3 too.
    Around,
}

/// An arrived packet: when, which way, and its number.
type Arrival = (Instant, Way, u32);

/// Packets from r1 to r2, one each millisecond, until this value is dropped.
#[derive(Debug)]
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Probe {
    /// Starts packets from one namespace, through the FEs, to an address behind `eth0` of the other.
    pub(super) fn start([from, to]: [&Namespace; 2], address: Ipv4Addr) -> io::Result<Self> {
        let injector = from.enter(|| Injector::open("eth0"))??;
        let mut device = to.enter(|| AfPacket::open("eth0", af_packet::Options::default()))??;
        let probe = Self {
            stop: Arc::default(),
            arrivals: Arc::default(),
        };
        let stop = Arc::clone(&probe.stop);
        thread::Builder::new().name("probe".into()).spawn(move || {
            let began = Instant::now();
            for number in 0_u32.. {
                let frame = flood::udp_packet(address.octets(), PORT, number);
                // The kernel refuses a frame if it has no buffer space; then it counts as lost.
                let _ = injector.send(&frame, &Offload::NONE);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep((STEP * (number + 1)).saturating_sub(began.elapsed()));
            }
        })?;
        let (stop, arrivals) = (Arc::clone(&probe.stop), Arc::clone(&probe.arrivals));
        thread::Builder::new()
            .name("probed".into())
            .spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut arrivals = lock(&arrivals);
                    let received = device.receive(64, &mut |frame| {
                        arrivals.extend(arrival(&frame.bytes));
                    });
                    drop(arrivals);
                    if received.is_err() {
                        return; // the packets count as lost
                    }
                    thread::sleep(STEP / 4);
                }
            })?;
        Ok(probe)
    }

    /// The first arrival since `began` of a packet that took this way.
    pub(super) fn first_since(&self, began: Instant, way: Way) -> Option<Instant> {
        lock(&self.arrivals)
            .iter()
            .rev()
            .take_while(|(at, ..)| *at >= began)
            .filter(|(_, taken, _)| *taken == way)
            .map(|(at, ..)| *at)
            .min()
    }

    /// The number of packets between the arrivals since `began` that did not arrive.
    pub(super) fn lost_since(&self, began: Instant) -> u64 {
        let arrivals = lock(&self.arrivals);
        let numbers: HashSet<u32> = arrivals
            .iter()
            .filter(|(at, ..)| *at >= began)
            .map(|(.., number)| *number)
            .collect();
        let (first, last) = (numbers.iter().min(), numbers.iter().max());
        first.zip(last).map_or(0, |(first, last)| {
            u64::from(last - first + 1) - numbers.len() as u64
        })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The arrival of a frame now, if it is a packet of r1.
fn arrival(frame: &[u8]) -> Option<Arrival> {
    let port = u16::from_be_bytes(*frame.get(PORT_AT..)?.first_chunk()?);
    let number = u32::from_be_bytes(*frame.get(PORT_AT + 6..)?.first_chunk()?);
    let way = match flood::TTL - frame[TTL_AT].min(flood::TTL) {
        2 => Way::Direct,
        _ => Way::Around,
    };
    (port == PORT).then(|| (Instant::now(), way, number))
}
