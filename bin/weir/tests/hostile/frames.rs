//! Frames that the source sends without its kernel's checks, and frames received at a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::Testbed;
use weir_live::device::Device;

use crate::common::Bench;

/// A small and fast generator that gives the same numbers in each run (Marsaglia's xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Sends `rate` frames per second until `stop`, in bursts of one or two milliseconds.
pub(crate) fn send_at(
    bench: &Bench,
    rate: u32,
    stop: &AtomicBool,
    frame: impl Fn(&mut Random) -> Vec<u8>,
) {
    const BURST_MAX: u64 = 256;
    let mut device = Testbed::open(&bench.bed.source, "a0").unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(rate));
    let (begin, mut sent) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        for _ in sent..due.min(sent + BURST_MAX) {
            device.transmit(&[&frame(&mut random)]).unwrap();
        }
        sent = due;
        thread::sleep(Duration::from_millis(1));
    }
}

/// Passes every frame that waits at a device to `take`.
pub(crate) fn receive_all(device: &mut impl Device, mut take: impl FnMut(&[u8])) {
    const FRAMES_MAX: usize = 1000;
    while device
        .receive(FRAMES_MAX, &mut |frame| take(&frame.bytes))
        .unwrap()
        == FRAMES_MAX
    {}
}
