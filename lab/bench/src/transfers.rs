//! TCP between hosts with their default offloads: by the kernel, by a bare copy loop over the sockets that weir uses, and
//! by weir.
//!
//! The copy loop writes the MAC addresses and nothing else. It sends a superframe from the buffer into which it was
//! received, and copies other frames once. Hosts and router share the machine's processors.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use weir_base::Span;
use weir_discipline::Spec;
use weir_live::clock;
use weir_live::device::af_packet::AfPacket;
use weir_live::device::{Device, Received};
use weir_packet::FrameBytes;
use weir_packet::packet::HEADROOM;
use weir_path::link::offload::Offload;

use crate::live::{median, progress};
use crate::testbed::{MACS, Testbed, joined, run as command, running};

/// Numbers of simultaneous connections.
const CONNECTIONS: [usize; 2] = [1, 4];
/// The router's disciplines: the plainest one, and the default.
const DISCIPLINES: [&str; 2] = ["fifo", "triple_fair"];
const BURST: usize = 64;

/// Results of one way to forward, medians of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `kernel`, `copy loop`, or `weir` with its discipline.
    pub way: String,
    /// Number of simultaneous connections.
    pub connections: usize,
    /// Goodput of all connections, in Mbit/s.
    pub mbps: f64,
    /// `mbps` divided by that of the copy loop, median of the rounds.
    pub of_copy_loop: f64,
    /// Processor time of the forwarding thread, in milliseconds for each Gbit of goodput; `None` for the kernel, which
    /// forwards on the threads of the hosts.
    pub cpu_ms_per_gbit: Option<f64>,
}

/// Goodput in Mbit/s, and processor time of the forwarding thread.
type Sample = (f64, Option<Span>);

/// Measures all ways in turns, `rounds` times, `seconds` long each.
pub fn run(rounds: usize, seconds: f64) -> io::Result<Vec<Row>> {
    let bed = Testbed::new()?;
    for (host, device) in [(&bed.source, "a0"), (&bed.sink, "b0")] {
        command(host, "ethtool", &format!("-K {device} tx on tso on gso on"))?;
    }
    let time = Duration::from_secs_f64(seconds);
    let ways = ["kernel", "copy loop"].into_iter().chain(DISCIPLINES);
    let ways: Vec<_> = ways.collect();
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let mut samples = vec![Vec::new(); ways.len()];
        for _ in 0..rounds {
            for (way, found) in ways.iter().zip(&mut samples) {
                found.push(match *way {
                    "kernel" => kernel(&bed, connections, time)?,
                    "copy loop" => copy_loop(&bed, connections, time)?,
                    discipline => weir(&bed, discipline, connections, time)?,
                });
            }
        }
        let loops: Vec<f64> = samples[1].iter().map(|(mbps, _)| *mbps).collect();
        for (way, found) in ways.iter().zip(&samples) {
            let rates = found.iter().map(|(mbps, _)| *mbps);
            let cpu = |(mbps, cpu): &Sample| {
                let gbit = mbps * 1e-3 * seconds;
                cpu.map(|cpu| cpu.as_secs_f64() * 1e3 / gbit)
            };
            let is_weir = DISCIPLINES.contains(way);
            rows.push(Row {
                way: if is_weir {
                    format!("weir {way}")
                } else {
                    (*way).to_owned()
                },
                connections,
                mbps: median(rates.clone()),
                of_copy_loop: median(rates.zip(&loops).map(|(own, copy)| own / copy)),
                cpu_ms_per_gbit: found[0].1.map(|_| median(found.iter().filter_map(cpu))),
            });
        }
    }
    Ok(rows)
}

fn kernel(bed: &Testbed, connections: usize, time: Duration) -> io::Result<Sample> {
    bed.kernel_forwards(true)?;
    let mbps = bed.goodput(connections, time);
    bed.kernel_forwards(false)?;
    Ok((mbps?, None))
}

fn weir(bed: &Testbed, discipline: &str, connections: usize, time: Duration) -> io::Result<Sample> {
    let spec = Spec::check(discipline, []).map_err(io::Error::other)?;
    running(bed.worker(spec, None)?, |handle| {
        let before = progress(handle)?.0;
        let mbps = bed.goodput(connections, time)?;
        Ok((mbps, Some(progress(handle)?.0 - before)))
    })
}

fn copy_loop(bed: &Testbed, connections: usize, time: Duration) -> io::Result<Sample> {
    let mut near = Testbed::open(&bed.router, "r0")?;
    let mut far = Testbed::open(&bed.router, "r1")?;
    let [a0, r0, r1, b0] = MACS;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let forwarder = scope.spawn(|| -> io::Result<Span> {
            clock::go_first()?;
            let cpu = clock::thread_cpu_time();
            let mut copies = Copies::default();
            while !stop.load(Ordering::Relaxed) {
                let there = copies.pass(&mut near, &mut far, [b0, r1])?;
                let back = copies.pass(&mut far, &mut near, [a0, r0])?;
                if there + back == 0 {
                    thread::sleep(Duration::from_micros(20));
                }
            }
            Ok(clock::thread_cpu_time() - cpu)
        });
        let mbps = bed.goodput(connections, time);
        stop.store(true, Ordering::Relaxed);
        let used = joined(forwarder.join())?;
        Ok((mbps?, Some(used)))
    })
}

/// Copies of the short frames of a burst.
#[derive(Default)]
struct Copies {
    frames: Vec<Vec<u8>>,
    offloads: Vec<Offload>,
}

impl Copies {
    /// Passes a burst from one device to another with these MAC addresses; returns its cost.
    fn pass(
        &mut self,
        from: &mut AfPacket,
        to: &mut AfPacket,
        macs: [[u8; 6]; 2],
    ) -> io::Result<usize> {
        let mut sent = Ok(());
        let cost = from.receive(BURST, &mut |frame| {
            let Received { bytes, offload, .. } = frame;
            match bytes {
                FrameBytes::Buffer(buffer, len) => {
                    let frame = &mut buffer.bytes_mut()[HEADROOM..HEADROOM + len];
                    frame[..12].copy_from_slice(macs.as_flattened());
                    let before = self.send(to);
                    sent = before.and_then(|()| send_all(to, &[frame], &[offload]));
                }
                bytes => {
                    let mut copy = bytes.to_vec();
                    copy[..12].copy_from_slice(macs.as_flattened());
                    self.frames.push(copy);
                    self.offloads.push(offload);
                }
            }
        })?;
        sent?;
        self.send(to)?;
        Ok(cost)
    }

    fn send(&mut self, to: &mut AfPacket) -> io::Result<()> {
        let frames: Vec<&[u8]> = self.frames.iter().map(Vec::as_slice).collect();
        let sent = send_all(to, &frames, &self.offloads);
        self.frames.clear();
        self.offloads.clear();
        sent
    }
}

/// Sends all frames, as often as the device is full.
fn send_all(to: &mut AfPacket, frames: &[&[u8]], offloads: &[Offload]) -> io::Result<()> {
    let mut taken = 0;
    while taken < frames.len() {
        taken += to.transmit_offloaded(&frames[taken..], &offloads[taken..])?;
    }
    Ok(())
}
