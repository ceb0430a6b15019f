//! Cost of forwarding on real interfaces, compared with a bare copy loop and with the kernel.
//!
//! One source, one router, one sink (see [`crate::testbed`]). For each way to forward, the
//! source sends 64-byte frames of many flows as fast as it can, and the processor time of the
//! forwarding thread is divided by the number of frames that it forwarded. The ways take turns
//! for several rounds, so that a change in the machine's speed affects all of them; each figure
//! is the median of its rounds. On veth the time also includes the sink's receive path, equally
//! for all ways.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use weir_base::Span;
use weir_base::setting::Scalar;
use weir_discipline::Spec;
use weir_live::clock::{self, Waiter};
use weir_live::device::Device;
use weir_live::device::af_packet::AfPacket;
use weir_live::worker::{Handle, Moderation};

use crate::testbed::{SINK, SOURCE, Testbed, joined, running};

/// Number of flows; their frames differ in the source port.
const FLOWS: u16 = 4096;
/// 64 bytes with the frame check sequence.
const FRAME_BYTES: usize = 60;
const BURST: usize = 64;

/// The results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Processor time for each forwarded frame, by way of forwarding.
    pub forwarding: Vec<Forwarding>,
    /// Round-trip time of a ping-pong, a millisecond apart, through the idle router.
    pub round_trip: Vec<RoundTrip>,
}

/// One way to forward.
#[derive(Clone, Debug, Serialize)]
pub struct Forwarding {
    /// `copy loop`, `weir fifo`, `weir lru_fq`, or `kernel`.
    pub way: String,
    /// Nanoseconds of processor time per frame, median of the rounds.
    pub cpu_ns: f64,
    /// `cpu_ns` minus that of the copy loop.
    pub over_copy_ns: f64,
    /// Frames forwarded per second, median of the rounds.
    pub packets_per_s: f64,
}

/// The round-trip time through one idle router.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// `weir` or `kernel`.
    pub way: String,
    /// Median, microseconds.
    pub p50_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
}

/// Measures all ways, `rounds` times, `seconds` long each.
pub fn run(rounds: usize, seconds: f64) -> io::Result<Report> {
    let bed = Testbed::new()?;
    let time = Duration::from_secs_f64(seconds);
    let mut samples: Vec<(&str, Vec<(f64, f64)>)> = vec![
        ("copy loop", Vec::new()),
        ("weir fifo", Vec::new()),
        ("weir lru_fq", Vec::new()),
        ("kernel", Vec::new()),
    ];
    for _ in 0..rounds {
        for (way, found) in &mut samples {
            found.push(match *way {
                "copy loop" => copy_loop(&bed, time)?,
                "weir fifo" => weir(&bed, "fifo", time)?,
                "weir lru_fq" => weir(&bed, "lru_fq", time)?,
                _ => kernel(&bed, time)?,
            });
        }
    }
    let copy = median(samples[0].1.iter().map(|s| s.0));
    let forwarding = samples
        .iter()
        .map(|(way, found)| {
            let cpu_ns = median(found.iter().map(|s| s.0));
            Forwarding {
                way: (*way).to_owned(),
                cpu_ns,
                over_copy_ns: cpu_ns - copy,
                packets_per_s: median(found.iter().map(|s| s.1)),
            }
        })
        .collect();
    Ok(Report {
        forwarding,
        round_trip: round_trips(&bed)?,
    })
}

/// Processor nanoseconds per frame, and frames per second.
type Sample = (f64, f64);

/// Copies frames once from ring to socket without reading them. It waits for frames as the worker does.
fn copy_loop(bed: &Testbed, time: Duration) -> io::Result<Sample> {
    let mut near = Testbed::open(&bed.router, "r0")?;
    let mut far = Testbed::open(&bed.router, "r1")?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let forwarder = scope.spawn(|| -> io::Result<Sample> {
            let mut buffer = vec![[0_u8; 2048]; BURST];
            let mut lengths = [0_usize; BURST];
            let (begin, cpu) = (clock::now(), clock::thread_cpu_time());
            clock::precise_sleeps()?;
            clock::go_first()?;
            let mut waiter = Waiter::new()?;
            let mut moderation = Moderation::default();
            let mut forwarded = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let mut count = 0;
                near.receive(BURST, &mut |frame| {
                    lengths[count] = frame.bytes.len();
                    buffer[count][..frame.bytes.len()].copy_from_slice(&frame.bytes);
                    count += 1;
                })?;
                moderation.took(count);
                let mut frames: [&[u8]; BURST] = [&[]; BURST];
                for ((frame, bytes), len) in frames.iter_mut().zip(&buffer).zip(lengths) {
                    *frame = &bytes[..len];
                }
                forwarded += far.transmit(&frames[..count])? as u64;
                if count < BURST {
                    let now = clock::now();
                    let gather = moderation.gather_until(now);
                    let until = gather.unwrap_or(now + Span::from_millis(10));
                    waiter.wait(near.wait_on().filter(|_| gather.is_none()), Some(until))?;
                    moderation.woke(clock::now());
                }
            }
            Ok(sample(
                clock::thread_cpu_time() - cpu,
                clock::now().since(begin),
                forwarded,
            ))
        });
        let sent = blast(bed, time);
        stop.store(true, Ordering::Relaxed);
        let sample = joined(forwarder.join())?;
        sent.map(|_| sample)
    })
}

/// Forwards frames through weir's worker.
fn weir(bed: &Testbed, discipline: &str, time: Duration) -> io::Result<Sample> {
    let limit = Scalar::Integer(1000);
    let spec = Spec::check(discipline, [("limit", &limit)]).map_err(io::Error::other)?;
    running(bed.worker(spec, None)?, |handle| {
        let before = progress(handle)?;
        let begin = clock::now();
        blast(bed, time)?;
        let after = progress(handle)?;
        let length = clock::now().since(begin);
        Ok(sample(after.0 - before.0, length, after.1 - before.1))
    })
}

/// Processor time of the worker's thread, and frames that it sent to the sink.
pub(crate) fn progress(handle: &Handle) -> io::Result<(Span, u64)> {
    handle
        .call(|worker| {
            let sent = worker.plane.ports()[1].port.sent().packets;
            (clock::thread_cpu_time(), sent)
        })
        .map_err(io::Error::other)
}

/// The kernel forwards on the source's own thread. The cost is the extra time of that thread, compared
/// with a router that drops everything.
fn kernel(bed: &Testbed, time: Duration) -> io::Result<Sample> {
    let (idle_cpu, idle_sent) = blast(bed, time)?;
    bed.kernel_forwards(true)?;
    let before = received(bed)?;
    let begin = clock::now();
    let blasted = blast(bed, time);
    let length = clock::now().since(begin);
    let forwarded = received(bed)? - before;
    bed.kernel_forwards(false)?;
    let (cpu, sent) = blasted?;
    let each = |cpu: Span, sent: u64| cpu.as_nanos() as f64 / sent.max(1) as f64;
    let cost = each(cpu, sent) - each(idle_cpu, idle_sent);
    Ok((cost, forwarded as f64 / length.as_secs_f64()))
}

/// Frames that the sink's interface has received.
fn received(bed: &Testbed) -> io::Result<u64> {
    let text = bed
        .sink
        .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("b0:"));
    line.and_then(|counters| counters.split_whitespace().nth(1))
        .and_then(|packets| packets.parse().ok())
        .ok_or_else(|| io::Error::other("the sink's interface has no counters"))
}

/// Sends as fast as one thread can; returns its processor time and the number of frames sent.
fn blast(bed: &Testbed, time: Duration) -> io::Result<(Span, u64)> {
    let mut device = Testbed::open(&bed.source, "a0")?;
    let frames: Vec<_> = (0..FLOWS).map(frame).collect();
    thread::scope(|scope| {
        let sender = scope.spawn(move || -> io::Result<(Span, u64)> {
            let end = clock::now() + Span::from_nanos(time.as_nanos() as u64);
            let cpu = clock::thread_cpu_time();
            let mut sent = 0_u64;
            for burst in frames.chunks(BURST).cycle() {
                let burst: Vec<&[u8]> = burst.iter().map(Vec::as_slice).collect();
                sent += send_all(&mut device, &burst)?;
                if clock::now() >= end {
                    break;
                }
            }
            Ok((clock::thread_cpu_time() - cpu, sent))
        });
        joined(sender.join())
    })
}

fn send_all(device: &mut AfPacket, frames: &[&[u8]]) -> io::Result<u64> {
    device.transmit(frames).map(|sent| sent as u64)
}

/// The 64-byte frame of flow number `flow`.
pub fn frame(flow: u16) -> Vec<u8> {
    crate::testbed::udp_frame(flow, FRAME_BYTES)
}

fn round_trips(bed: &Testbed) -> io::Result<Vec<RoundTrip>> {
    let spec = Spec::check("fifo", []).map_err(io::Error::other)?;
    let weir = running(bed.worker(spec, None)?, |_| ping_pong(bed));
    bed.kernel_forwards(true)?;
    let kernel = ping_pong(bed);
    bed.kernel_forwards(false)?;
    [("weir", weir?), ("kernel", kernel?)]
        .into_iter()
        .map(|(way, mut times)| {
            times.sort_by(f64::total_cmp);
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            Ok(RoundTrip {
                way: way.to_owned(),
                p50_us: at(0.5),
                p99_us: at(0.99),
            })
        })
        .collect()
}

/// Microseconds of 1000 UDP round trips, a millisecond apart.
fn ping_pong(bed: &Testbed) -> io::Result<Vec<f64>> {
    const ROUNDS: usize = 1000;
    let echo = bed.sink.enter(|| UdpSocket::bind((SINK, 7)))??;
    let client = bed.source.enter(|| UdpSocket::bind((SOURCE, 0)))??;
    let patience = Some(Duration::from_millis(500));
    echo.set_read_timeout(patience)?;
    client.set_read_timeout(patience)?;
    client.connect((SINK, 7))?;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((len, from)) = echo.recv_from(&mut buffer) {
                if echo.send_to(&buffer[..len], from).is_err() {
                    break;
                }
            }
        });
        let mut buffer = [0; 64];
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begin = clock::now();
            client.send(b"ping")?;
            client.recv(&mut buffer)?;
            times.push(clock::now().since(begin).as_nanos() as f64 / 1000.0);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(times)
    })
}

fn sample(cpu: Span, length: Span, packets: u64) -> Sample {
    let packets = packets.max(1) as f64;
    (
        cpu.as_nanos() as f64 / packets,
        packets / length.as_secs_f64(),
    )
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
