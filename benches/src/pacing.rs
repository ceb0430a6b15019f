//! How well a paced port keeps its rate on a real interface.
//!
//! The source offers more than the rate, the sink stamps each frame as it arrives. Reported for
//! each rate: what went through over the whole time, the largest burst, and the processor time of
//! the forwarding thread. A burst is what came in any stretch of time beyond the rate's share of
//! it: the depth that a token bucket would need to let all frames pass.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde::Serialize;
use weir_base::{Rate, Span};
use weir_discipline::Spec;
use weir_live::clock;
use weir_live::device::Device;

use crate::testbed::{DISCARD, MACS, SOURCE, Testbed};

/// What a frame costs on the wire: 1514 bytes and Ethernet's 24.
const WIRE_BYTES: u64 = 1538;
const FRAME_BYTES: usize = 1514;

/// What one rate gave.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The rate, Mbit/s.
    pub rate_mbps: f64,
    /// What went through, Mbit/s on the wire.
    pub measured_mbps: f64,
    /// How far that is from the rate, per cent.
    pub error_percent: f64,
    /// The largest burst, bytes on the wire.
    pub burst_bytes: u64,
    /// The largest burst that is permitted: two frames, or one millisecond's bytes.
    pub burst_bytes_max: u64,
    /// Processor time of the forwarding thread, per cent of one core.
    pub cpu_percent: f64,
}

/// Measures 10 Mbit/s, 100 Mbit/s and 1 Gbit/s, `seconds` long each.
pub fn run(seconds: f64) -> io::Result<Vec<Row>> {
    let bed = Testbed::new()?;
    [10, 100, 1000]
        .into_iter()
        .map(|megabits| row(&bed, Rate::from_mbps(megabits), seconds))
        .collect()
}

fn row(bed: &Testbed, rate: Rate, seconds: f64) -> io::Result<Row> {
    let spec = Spec::check("fifo", []).map_err(io::Error::other)?;
    let (handle, worker) = bed.worker(spec, Some(rate))?.start()?;
    let mut sink = Testbed::open(&bed.sink, "b0")?;
    let stop = AtomicBool::new(false);
    let cpu = || {
        handle
            .call(|_| clock::thread_cpu_time())
            .map_err(io::Error::other)
    };
    let result = thread::scope(|scope| -> io::Result<Row> {
        let source = scope.spawn(|| offer(bed, rate, &stop));
        thread::sleep(std::time::Duration::from_millis(200)); // the queue fills
        let begin = clock::now();
        let cpu_before = cpu()?;
        let mut arrivals = Vec::new();
        let end = begin + Span::from_secs_f64(seconds);
        let mut sink_failed = None;
        while clock::now() < end && sink_failed.is_none() {
            let received = sink.receive(256, &mut |frame| {
                if frame.arrived >= begin {
                    arrivals.push(frame.arrived.as_nanos());
                }
            });
            match received {
                Ok(0) => thread::sleep(std::time::Duration::from_millis(2)),
                Ok(_) => {}
                Err(error) => sink_failed = Some(error),
            }
        }
        let cpu = cpu()? - cpu_before;
        stop.store(true, Ordering::Relaxed);
        let offered = source.join();
        if let Some(error) = sink_failed {
            return Err(error);
        }
        offered.unwrap_or_else(|_| Err(io::Error::other("the source panicked")))?;
        Ok(summary(rate, &arrivals, cpu, seconds))
    });
    handle
        .call(weir_live::worker::Worker::stop)
        .map_err(io::Error::other)?;
    let _ = worker.join();
    result
}

/// Offers a quarter more than the rate until it is told to stop.
fn offer(bed: &Testbed, rate: Rate, stop: &AtomicBool) -> io::Result<()> {
    let mut device = Testbed::open(&bed.source, "a0")?;
    let frame = frame();
    let period = Span::from_millis(1);
    let each = rate.bytes_in(period) * 5 / 4;
    let mut due = clock::now();
    let mut owed = 0;
    while !stop.load(Ordering::Relaxed) {
        owed += each;
        while owed >= WIRE_BYTES {
            let burst = (owed / WIRE_BYTES).min(64) as usize;
            let frames = vec![frame.as_slice(); burst];
            let sent = device.transmit(&frames)?;
            owed -= sent as u64 * WIRE_BYTES;
            if sent < burst {
                break;
            }
        }
        due += period;
        let wait = due.since(clock::now());
        thread::sleep(std::time::Duration::from_nanos(wait.as_nanos()));
    }
    Ok(())
}

fn summary(rate: Rate, arrivals: &[u64], cpu: Span, seconds: f64) -> Row {
    let bits_per_s = rate.as_bps() as f64;
    let measured = match arrivals {
        [first, .., last] => {
            let bits = (arrivals.len() - 1) as f64 * (WIRE_BYTES * 8) as f64;
            bits / ((last - first) as f64 / 1e9)
        }
        _ => 0.0,
    };
    // A token bucket that starts full and is filled at the rate: how far does it sink?
    let (mut level, mut deepest, mut before) = (0.0_f64, 0.0_f64, None);
    for at in arrivals {
        let passed = before.map_or(0.0, |b: u64| (at - b) as f64 / 1e9);
        level = (level + passed * bits_per_s / 8.0).min(0.0) - WIRE_BYTES as f64;
        deepest = deepest.min(level);
        before = Some(*at);
    }
    let link = weir_path::port::Link {
        rate: Some(rate),
        overhead: 24,
        frame_bytes_max: FRAME_BYTES as u32,
    };
    Row {
        rate_mbps: bits_per_s / 1e6,
        measured_mbps: measured / 1e6,
        error_percent: (measured / bits_per_s - 1.0) * 100.0,
        burst_bytes: -deepest as u64,
        burst_bytes_max: link.burst(),
        cpu_percent: cpu.as_secs_f64() / seconds * 100.0,
    }
}

fn frame() -> Vec<u8> {
    let mut frame = vec![0; FRAME_BYTES];
    frame[0..6].copy_from_slice(&MACS[1]);
    frame[6..12].copy_from_slice(&MACS[0]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip_len = (FRAME_BYTES - 14) as u16;
    frame[14..16].copy_from_slice(&[0x45, 0]);
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[20..24].copy_from_slice(&[0x40, 0, 64, 17]);
    frame[26..30].copy_from_slice(&SOURCE.octets());
    frame[30..34].copy_from_slice(&DISCARD.octets());
    let checksum = weir_wire::checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame
}
