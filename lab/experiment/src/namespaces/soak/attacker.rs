//! The guest: alternating floods of many kinds, and hostile frames all the time.

use std::time::{Duration, Instant};

use rand::RngExt;
use weir_base::{Stream, Streams};
use weir_live::device::injector::Injector;
use weir_path::link::offload::Offload;

use super::bed::Bed;
use super::frames::{Flood, hostile};
use super::{Done, Stop};
use crate::error::Error;

/// Interval between two bursts.
const STEP: Duration = Duration::from_millis(2);
/// Maximum number of frames of a burst, when the sender is late.
const BURST_MAX: u64 = 200;
/// Hostile frames per second.
const HOSTILE_PER_S: f64 = 1000.0;
/// Frames of a flood per second.
const FLOOD_PER_S: std::ops::Range<f64> = 1000.0..20_000.0;
/// A flood, or the pause before the next one, lasts this long, in milliseconds.
const PHASE_MS: std::ops::Range<u64> = 300..3000;
/// Number of networks to which floods go.
const NETWORKS: u32 = 1000;

/// The guest.
pub(super) struct Attacker {
    injector: Injector,
    random: Stream,
    done: Done,
}

impl Attacker {
    pub(super) fn new(bed: &Bed, streams: &Streams) -> Result<Self, Error> {
        let injector = bed.guest.enter(|| Injector::open("g0"));
        let injector = injector.and_then(|opened| opened);
        Ok(Self {
            injector: injector.map_err(Error::io("cannot open the interface of host guest"))?,
            random: streams.stream("attacker"),
            done: Done::new(),
        })
    }

    /// Sends until `stop` is set; returns the number of frames of each kind.
    pub(super) fn run(mut self, stop: &Stop) -> Result<Done, Error> {
        while !stop.is_set() {
            let flood = Flood::ALL[self.random.random_range(0..Flood::ALL.len())];
            // One phase in three is a pause, so that hostile frames reach idle queues as well.
            let flood = (self.random.random_range(0..3) > 0).then_some(flood);
            let rate = self.random.random_range(FLOOD_PER_S);
            let time = Duration::from_millis(self.random.random_range(PHASE_MS));
            self.phase(flood, rate, time, stop);
        }
        Ok(self.done)
    }

    fn phase(&mut self, flood: Option<Flood>, rate: f64, time: Duration, stop: &Stop) {
        let began = Instant::now();
        let mut sent = [0_u64; 2];
        while !stop.is_set() && began.elapsed() < time {
            let elapsed = began.elapsed().as_secs_f64();
            let due =
                [HOSTILE_PER_S, flood.map_or(0.0, |_| rate)].map(|rate| (elapsed * rate) as u64);
            for _ in sent[0]..due[0].min(sent[0] + BURST_MAX) {
                let (frame, offload) = hostile(&mut self.random);
                self.send("hostile frames", &frame, &offload);
            }
            if let Some(flood) = flood {
                for _ in sent[1]..due[1].min(sent[1] + BURST_MAX) {
                    let frame = flood.frame(&mut self.random, NETWORKS);
                    self.send(flood.name(), &frame, &Offload::NONE);
                }
            }
            sent = due;
            stop.sleep(STEP);
        }
    }

    /// Sends a frame. The kernel refuses some of the hostile frames, and all frames while the link is down.
    fn send(&mut self, what: &str, frame: &[u8], offload: &Offload) {
        let what = match self.injector.send(frame, offload) {
            Ok(()) => what,
            Err(_) => "frames refused by the sender's kernel",
        };
        match self.done.get_mut(what) {
            Some(number) => *number += 1,
            None => _ = self.done.insert(what.to_owned(), 1),
        }
    }
}
