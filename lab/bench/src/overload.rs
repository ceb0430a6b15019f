//! Measures honest traffic under a flood that exceeds the processor's capacity.
//!
//! ```text
//!  source a0 ------ r0 router r1 ------ b0 sink      one TCP connection, and pings
//!                      r2                            a flood of 64-byte frames at r0 or at r2,
//!  flooder f0 ---------+                             to an address next to the sink
//! ```
//!
//! Each figure is the median of several rounds; weir and the kernel take turns. On a machine with few
//! processors, the flood, the hosts and the router share them: the figures show the combined result,
//! not the performance of a router with a processor to itself.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_base::setting::Scalar;
use weir_discipline::Spec;
use weir_live::device::Device;
use weir_live::namespace::Namespace;
use weir_live::worker::{Handle, Worker};
use weir_path::egress::port::Link;
use weir_path::ip::tables::Mac;
use weir_path::plane::Mode;

use crate::live::median;
use crate::testbed::{
    MACS, SINK, Testbed, add_network, joined, run as command, running, udp_frame,
};

/// Threads that send the flood: one alone may send less than a router can handle.
const FLOODERS: usize = 2;
const BURST: usize = 64;
const FLOWS: u16 = 256;
const FRAME_BYTES: usize = 60;
/// The flooder's link: its address, and the MAC address of the router's end.
const FLOODER: Ipv4Addr = Ipv4Addr::new(10, 77, 3, 2);
const FLOODED_MAC: Mac = [2, 0, 0, 0, 77, 5];
/// Honest traffic starts this long after the flood.
const HEAD_START: Duration = Duration::from_millis(100);

/// The port where the flood enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    None,
    SamePort,
    OtherPort,
}

/// Results of honest traffic, medians of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `weir` or `kernel`.
    pub way: String,
    /// Where the flood entered: `none`, `same port` or `other port`.
    pub flood: String,
    /// Flood frames per second.
    pub flood_packets_per_s: f64,
    /// Goodput of the TCP connection, in Mbit/s.
    pub tcp_mbps: f64,
    /// Share of the pings without an answer.
    pub ping_loss: f64,
    /// Share of the frames at the flooded port that weir's ring lost; `None` for the kernel, which forwards on the
    /// sender's own processor and so makes the sender wait.
    pub missed: Option<f64>,
}

#[derive(Clone, Copy)]
struct Sample {
    flood: f64,
    tcp: f64,
    ping_loss: f64,
    missed: Option<f64>,
}

/// Measures all combinations, `rounds` times, `seconds` long each.
pub fn run(rounds: usize, seconds: f64) -> io::Result<Vec<Row>> {
    let bed = Bed::new()?;
    let time = Duration::from_secs_f64(seconds);
    let floods = [
        (Flood::None, "none"),
        (Flood::SamePort, "same port"),
        (Flood::OtherPort, "other port"),
    ];
    let mut samples: Vec<(&str, &str, Flood, Vec<Sample>)> = Vec::new();
    for way in ["weir", "kernel"] {
        samples.extend(floods.map(|(flood, name)| (way, name, flood, Vec::new())));
    }
    for _ in 0..rounds {
        for (way, _, flood, found) in &mut samples {
            found.push(match *way {
                "weir" => bed.weir(*flood, time)?,
                _ => bed.kernel(*flood, time)?,
            });
        }
    }
    let row = |(way, flood, _, found): (&str, &str, Flood, Vec<Sample>)| Row {
        way: way.to_owned(),
        flood: flood.to_owned(),
        flood_packets_per_s: median(found.iter().map(|s| s.flood)),
        tcp_mbps: median(found.iter().map(|s| s.tcp)),
        ping_loss: median(found.iter().map(|s| s.ping_loss)),
        missed: found[0]
            .missed
            .map(|_| median(found.iter().filter_map(|s| s.missed))),
    };
    Ok(samples.into_iter().map(row).collect())
}

/// The three hosts, and the flooder.
struct Bed {
    hosts: Testbed,
    flooder: Namespace,
}

impl Bed {
    fn new() -> io::Result<Self> {
        let (hosts, flooder) = (Testbed::new()?, Namespace::new()?);
        let far = flooder.path();
        let mac = FLOODED_MAC.map(|byte| format!("{byte:02x}")).join(":");
        for arguments in [
            format!("link add r2 address {mac} type veth peer name f0 netns {far}"),
            "address add 10.77.3.1/24 dev r2".to_owned(),
            "link set r2 up".to_owned(),
        ] {
            command(&hosts.router, "ip", &arguments)?;
        }
        command(&flooder, "ip", "link set f0 up")?;
        Ok(Self { hosts, flooder })
    }

    fn weir(&self, flood: Flood, time: Duration) -> io::Result<Sample> {
        let flooded = if flood == Flood::OtherPort { 2 } else { 0 };
        running(self.worker()?, |handle| {
            let before = at_port(handle, flooded)?;
            let sample = self.measure(flood, time)?;
            let after = at_port(handle, flooded)?;
            let (received, missed) = (after.0 - before.0, after.1 - before.1);
            let missed = missed as f64 / (received + missed).max(1) as f64;
            Ok(Sample {
                missed: Some(missed),
                ..sample
            })
        })
    }

    fn kernel(&self, flood: Flood, time: Duration) -> io::Result<Sample> {
        self.hosts.kernel_forwards(true)?;
        let sample = self.measure(flood, time);
        self.hosts.kernel_forwards(false)?;
        sample
    }

    /// The worker between the hosts, with a third port for the flooder.
    fn worker(&self) -> io::Result<Worker> {
        let limit = Scalar::Integer(1000);
        let spec = Spec::check("fifo", [("limit", &limit)]).map_err(io::Error::other)?;
        let mut worker = self.hosts.worker(spec.clone(), None)?;
        let device = Testbed::open(&self.hosts.router, "r2")?;
        let mut tables = worker.plane.tables().clone();
        add_network(
            &mut tables,
            device.index(),
            ("r2", FLOODED_MAC),
            "10.77.3.1/24",
        );
        let now = weir_live::clock::now();
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1514,
        };
        worker
            .plane
            .add_port("r2", "r2", Mode::Routed, spec, link, now);
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        worker.bind(Some(Box::new(device)), Box::new(move |_| Err(gone())));
        worker.set_tables(Arc::new(tables)); // reads the links of all ports
        Ok(worker)
    }

    /// Runs the honest traffic for some time during the flood.
    fn measure(&self, flood: Flood, time: Duration) -> io::Result<Sample> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let flooding = [(); FLOODERS].map(|()| scope.spawn(|| self.flood(flood, &stop)));
            thread::sleep(HEAD_START);
            let pinging = scope.spawn(|| self.ping_loss(time));
            let tcp = self.hosts.goodput(1, time);
            let ping_loss = joined(pinging.join());
            stop.store(true, Ordering::Relaxed);
            Ok(Sample {
                flood: flooding
                    .into_iter()
                    .map(|thread| joined(thread.join()))
                    .sum::<io::Result<f64>>()?,
                tcp: tcp?,
                ping_loss: ping_loss?,
                missed: None,
            })
        })
    }

    /// Sends as fast as one thread can until `stop` is set; returns frames per second.
    fn flood(&self, flood: Flood, stop: &AtomicBool) -> io::Result<f64> {
        let mut device = match flood {
            Flood::None => return Ok(0.0),
            Flood::SamePort => Testbed::open(&self.hosts.source, "a0")?,
            Flood::OtherPort => Testbed::open(&self.flooder, "f0")?,
        };
        let mut frames: Vec<_> = (0..FLOWS).map(|n| udp_frame(n, FRAME_BYTES)).collect();
        if flood == Flood::OtherPort {
            frames.iter_mut().for_each(|frame| from_the_flooder(frame));
        }
        let (begin, mut sent) = (Instant::now(), 0);
        for burst in frames.chunks(BURST).cycle() {
            let burst: Vec<&[u8]> = burst.iter().map(Vec::as_slice).collect();
            sent += device.transmit(&burst)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(sent as f64 / begin.elapsed().as_secs_f64())
    }

    /// The share of the source's pings to the sink, a hundred per second, that are not answered.
    fn ping_loss(&self, time: Duration) -> io::Result<f64> {
        let count = (time.as_secs_f64() * 100.0).max(10.0);
        let arguments = format!("-q -i 0.01 -c {count:.0} -W 1 {SINK}");
        // The exit code of `ping` indicates whether any ping was answered.
        let printed = match command(&self.hosts.source, "ping", &arguments) {
            Ok(printed) => printed,
            Err(error) => error.to_string(),
        };
        let percent = printed
            .split_whitespace()
            .find_map(|word| word.strip_suffix('%')?.parse::<f64>().ok());
        percent
            .map(|percent| percent / 100.0)
            .ok_or_else(|| io::Error::other(printed))
    }
}

/// The number of frames that a port has received, and that its ring has lost.
fn at_port(handle: &Handle, port: usize) -> io::Result<(u64, u64)> {
    handle
        .call(move |worker| {
            let missed = worker.links()[port].counters.missed;
            (worker.plane.ports()[port].received.packets, missed)
        })
        .map_err(io::Error::other)
}

/// Gives a frame the flooder's addresses.
fn from_the_flooder(frame: &mut [u8]) {
    debug_assert_eq!(frame[..6], MACS[1]);
    frame[..6].copy_from_slice(&FLOODED_MAC);
    frame[26..30].copy_from_slice(&FLOODER.octets());
    frame[24..26].fill(0);
    let checksum = weir_wire::checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}
