//! Measures how well a paced port keeps its rate on a real interface.
//!
//! The source offers more than the rate; each frame is stamped as the worker hands it to the device.
//! Reported for each rate: the rate sent over the whole time, the largest burst, and the processor
//! time of the forwarding thread. A burst is the number of bytes sent in any period beyond what the
//! rate allows in it: the depth that a token bucket would need to let all frames pass.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use weir_base::{Instant, Rate, Span};
use weir_discipline::Spec;
use weir_live::clock;
use weir_live::device::af_packet::AfPacket;
use weir_live::device::{Counters, Device, Received};

use crate::live::progress;
use crate::testbed::{Testbed, joined, running, udp_frame};

/// Bytes of a frame on the wire: 1514 and Ethernet's 24.
const WIRE_BYTES: u64 = 1538;
const FRAME_BYTES: usize = 1514;
/// Time for the queue to fill, which is not measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// The measurement of one rate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The rate, Mbit/s.
    pub rate_mbps: f64,
    /// Rate of sent frames, Mbit/s on the wire.
    pub measured_mbps: f64,
    /// Difference from the configured rate, per cent.
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

/// A device that reports when each frame was handed to it.
struct Stamped {
    device: AfPacket,
    stamps: mpsc::Sender<(Instant, usize)>,
}

impl Device for Stamped {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        self.device.receive(burst_max, take)
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        let now = clock::now();
        let sent = self.device.transmit(frames)?;
        // The receiver no longer exists once the measurement is over.
        let _ = self.stamps.send((now, sent));
        Ok(sent)
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        self.device.wait_on()
    }

    fn counters(&mut self) -> Counters {
        self.device.counters()
    }
}

fn row(bed: &Testbed, rate: Rate, seconds: f64) -> io::Result<Row> {
    let spec = Spec::check("fifo", []).map_err(io::Error::other)?;
    let (stamps, inbox) = mpsc::channel();
    let worker = bed.worker_with(spec, Some(rate), |device| {
        Box::new(Stamped { device, stamps })
    })?;
    let (begin, cpu) = running(worker, |handle| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let source = scope.spawn(|| offer(bed, rate, &stop));
            thread::sleep(WARM_UP);
            let (begin, before) = (clock::now(), progress(handle));
            thread::sleep(Duration::from_secs_f64(seconds));
            let after = progress(handle);
            stop.store(true, Ordering::Relaxed);
            joined(source.join())?;
            Ok((begin, after?.0 - before?.0))
        })
    })?;
    let end = begin + Span::from_secs_f64(seconds);
    let departures: Vec<_> = inbox
        .try_iter()
        .filter(|(at, _)| (begin..end).contains(at))
        .collect();
    Ok(summary(rate, &departures, cpu, seconds))
}

/// Offers 1.25 times the rate until `stop` is set.
fn offer(bed: &Testbed, rate: Rate, stop: &AtomicBool) -> io::Result<()> {
    const PERIOD: Span = Span::from_millis(1);
    let mut device = Testbed::open(&bed.source, "a0")?;
    let frame = udp_frame(0, FRAME_BYTES);
    let each = rate.bytes_in(PERIOD) * 5 / 4;
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
        due += PERIOD;
        thread::sleep(clock::until(due));
    }
    Ok(())
}

fn summary(rate: Rate, departures: &[(Instant, usize)], cpu: Span, seconds: f64) -> Row {
    let bits_per_s = rate.as_bps() as f64;
    let link = weir_path::egress::port::Link {
        rate: Some(rate),
        framing: weir_base::Framing::ETHERNET,
        frame_bytes_max: FRAME_BYTES as u32,
    };
    let measured = match departures {
        [(first, _), between @ .., (last, _)] => {
            let frames: usize = between.iter().map(|(_, n)| n).sum();
            let frames = frames + departures[0].1;
            (frames as u64 * WIRE_BYTES * 8) as f64 / last.since(*first).as_secs_f64()
        }
        _ => 0.0,
    };
    Row {
        rate_mbps: bits_per_s / 1e6,
        measured_mbps: measured / 1e6,
        error_percent: (measured / bits_per_s - 1.0) * 100.0,
        burst_bytes: burst(rate, departures),
        burst_bytes_max: link.burst(),
        cpu_percent: cpu.as_secs_f64() / seconds * 100.0,
    }
}

/// The largest deficit in bytes of a token bucket that starts full and is filled at the rate.
fn burst(rate: Rate, departures: &[(Instant, usize)]) -> u64 {
    let (mut level, mut deepest, mut before) = (0.0_f64, 0.0_f64, None);
    for (at, frames) in departures {
        let passed = before.map_or(0.0, |b: Instant| at.since(b).as_secs_f64());
        level = (level + passed * rate.as_bps() as f64 / 8.0).min(0.0);
        level -= (*frames as u64 * WIRE_BYTES) as f64;
        deepest = deepest.min(level);
        before = Some(*at);
    }
    -deepest as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_by_hand() {
        // 12.304 Mbit/s: one frame per millisecond.
        let rate = Rate::from_bps(12_304_000);
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let steady = [(at(0), 1), (at(1), 1), (at(2), 1)];
        assert_eq!(burst(rate, &steady), 1538);
        // Two frames at once, and a third half a frame time later: 2 frames, then 2 - 0.5 + 1.
        let bunched = [(at(0), 2), (Instant::from_nanos(500_000), 1)];
        assert_eq!(burst(rate, &bunched), 1538 * 5 / 2);
    }
}
