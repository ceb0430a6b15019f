//! Throughput of a `weir router` between two interfaces (RFC 2544, section 26.1): the highest rate at which no frame is
//! lost, up to the rate of a link of 1 Gbit/s.
//!
//! ```text
//!   rate of the link ──▶ trial ──no loss──▶ done
//!                          │ loss
//!                          ▼
//!   halve the interval between the highest rate without loss and the lowest rate with loss, down to 1 % of the link's
//! rate
//! ```
//!
//! The first trial offers the rate of the link, so a router that carries it needs one trial. A trial with loss is
//! repeated once, because other programs share this machine. The rate of a trial is the rate at which the source has
//! sent: a source that is late catches up for some milliseconds, and offers less if it was later.
//!
//! A frame is lost if the router has not sent it to the sink, or its interface has dropped it.
//!
//! With loops, each frame passes the router several times, and each pass counts. So the router can carry a multiple of
//! the rate that the source offers.
//!
//! - `bed`: hosts and router
//! - `frames`: the frames to send

mod bed;
mod frames;

use std::thread;
use std::time::Duration;

use weir_base::Span;
use weir_experiment::Error;
use weir_experiment::RunOptions;
use weir_experiment::folder::Folder;
use weir_experiment::programs::Programs;
use weir_live::clock;
use weir_live::device::Device;
use weir_live::device::af_packet::{AfPacket, Options};
use weir_live::namespace;

use self::bed::{Bed, Counters, MACS};

/// Rate of the link in bit/s, the maximum that is offered.
const LINK_BPS: f64 = 1e9;
/// Bytes of a frame on the wire in addition to the frame and its check sequence: preamble and gap.
const GAP_BYTES: usize = 20;
/// The search's resolution, as a share of the link's rate.
const RESOLUTION: f64 = 0.01;
/// Maximum number of frames in one call of the device.
const BURST: u64 = 64;
/// Time for which the source sleeps when no frame is due.
const REST: Duration = Duration::from_micros(30);
/// Maximum delay of the source behind its schedule before it stops catching up. The burst that follows is harder on a
/// router than an even rate, but fits its ring of 4096 frames from 256 bytes on.
const BEHIND_MAX: Span = Span::from_millis(8);
/// Maximum number of loops of a router.
pub(crate) const LOOPS_MAX: u32 = 7;
/// Frames in flight after a trial arrive within this time.
const SETTLE_MAX: Span = Span::from_secs(1);
/// Interval at which the counters are read until then.
const SETTLE_STEP: Duration = Duration::from_millis(10);

/// The frames, and the router that forwards them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// FPF, through a core FE with 256 LIDs.
    Fpf,
    /// IPv4 over one route.
    Ipv4,
    /// IPv6 over one route.
    Ipv6,
    /// IPv6 that gets a header with four LIDs, at an edge FE with a rule for each of this many flows.
    Edge(u32),
    /// FPF through this many loops, at most [`LOOPS_MAX`].
    Loops(u32),
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// The highest rate without loss, in frames that the router forwarded per second; zero if every trial lost some.
    pub(crate) fps: f64,
    /// That rate as a share of the link's rate.
    pub(crate) link_share: f64,
    /// The share of the link's rate that the source reached in the first trial.
    pub(crate) offered_share: f64,
    /// The share of the frames that were lost in the first trial.
    pub(crate) lost_share: f64,
    /// Processor time of the router per frame, in nanoseconds, in the trial with the rate `fps`.
    pub(crate) ns: f64,
}

/// Routers that are measured alternately.
pub(crate) struct Throughput {
    beds: Vec<Bed>,
    programs: Programs,
    folder: Folder,
    length: Span,
}

struct Trial {
    sent: u64,
    lost: u64,
    fps: f64,
    ns: f64,
}

impl Throughput {
    /// Creates routers for trials of this length. Unless the user is root, it must be called before the process has a
    /// second thread.
    pub(crate) fn new(options: &RunOptions, length: Span) -> Result<Self, Error> {
        namespace::become_root()?;
        let programs = Programs::new(options.executable.as_deref())?;
        Ok(Self {
            beds: Vec::new(),
            programs,
            folder: Folder::new().map_err(Error::io("cannot create a private folder"))?,
            length,
        })
    }

    /// Searches for the throughput of frames of this length, check sequence included.
    pub(crate) fn search(&mut self, kind: Kind, bytes: usize) -> Result<Found, Error> {
        let length = self.length;
        let bed = self.bed(kind)?;
        let frames = frames::frames(kind, bytes, [MACS[0], MACS[1]]);
        let line = LINK_BPS / (8.0 * (bytes + GAP_BYTES) as f64);
        // Neighbours, routes and caches are cold at first.
        let first = bed.trial(&frames, line / 100.0, Span::from_millis(100))?;
        if first.lost == first.sent {
            return Err(Error::Program {
                what: format!("forwarding {kind:?} frames of {bytes} B"),
                output: format!("the router forwarded none: {}", bed.drops()),
            });
        }
        let found = search(line, kind.passes(), |rate| bed.trial(&frames, rate, length));
        found.map(|found| found.of_passes(kind.passes()))
    }

    /// The router for these frames, which keeps running.
    fn bed(&mut self, kind: Kind) -> Result<&mut Bed, Error> {
        let role = kind.role();
        let place = match self.beds.iter().position(|bed| bed.role() == role) {
            Some(place) => place,
            None => {
                let bed = Bed::new(&self.programs, self.folder.path(), role)?;
                self.beds.push(bed);
                self.beds.len() - 1
            }
        };
        Ok(&mut self.beds[place])
    }
}

impl Kind {
    /// Number of times that the router forwards each frame.
    fn passes(self) -> u32 {
        match self {
            Self::Loops(loops) => loops + 1,
            _ => 1,
        }
    }
}

impl Found {
    /// The same trial for a router that has forwarded every frame this number of times.
    fn of_passes(self, passes: u32) -> Self {
        let passes = f64::from(passes);
        Self {
            fps: passes * self.fps,
            link_share: passes * self.link_share,
            ns: self.ns / passes,
            ..self
        }
    }
}

/// The highest rate of trials without loss, up to the link's rate, of frames that pass the router this number of times.
fn search(
    line: f64,
    passes: u32,
    mut trial_at: impl FnMut(f64) -> Result<Trial, Error>,
) -> Result<Found, Error> {
    let (mut low, mut high) = (0.0, line);
    let mut found = Found::default();
    let mut rate = line;
    while high - low > RESOLUTION * line / f64::from(passes) {
        let mut trial = trial_at(rate)?;
        if rate == line {
            found.offered_share = trial.fps / line;
            found.lost_share = trial.lost as f64 / trial.sent.max(1) as f64;
        }
        if trial.lost > 0 {
            trial = trial_at(rate)?;
        }
        match trial.lost {
            0 => {
                low = rate;
                if trial.fps > found.fps {
                    (found.fps, found.ns) = (trial.fps, trial.ns);
                }
            }
            _ => high = rate,
        }
        rate = (low + high) / 2.0;
    }
    found.link_share = found.fps / line;
    Ok(found)
}

impl Bed {
    /// Sends the frames cyclically at this rate for this time.
    fn trial(&mut self, frames: &[Vec<u8>], fps: f64, length: Span) -> Result<Trial, Error> {
        let before = self.counters()?;
        let (sent, took) = self.send(frames, fps, length)?;
        let mut after = self.counters()?;
        let deadline = clock::now() + SETTLE_MAX;
        while after.sent - before.sent < sent && clock::now() < deadline {
            thread::sleep(SETTLE_STEP);
            after = self.counters()?;
        }
        let Counters { dropped, .. } = after;
        let arrived = (after.sent - before.sent) - (dropped - before.dropped);
        Ok(Trial {
            sent,
            lost: sent.saturating_sub(arrived),
            fps: sent as f64 / took.as_secs_f64(),
            ns: 1e9 * (after.cpu_s - before.cpu_s) / sent.max(1) as f64,
        })
    }

    /// Returns the number of frames that the source has sent, and the time that it took.
    fn send(&self, frames: &[Vec<u8>], fps: f64, length: Span) -> Result<(u64, Span), Error> {
        let work = || -> std::io::Result<(u64, Span)> {
            clock::precise_sleeps()?;
            clock::go_first()?; // as the router's thread does
            let mut device = AfPacket::open(
                "a0",
                Options {
                    slots: 64, // nothing is received
                    outgoing: false,
                    ..Options::default()
                },
            )?;
            let all: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            let begin = clock::now();
            // Start of the schedule: later if the source has not kept up.
            let mut schedule = begin;
            let mut sent = 0_u64;
            let mut of_schedule = 0_u64;
            loop {
                let now = clock::now();
                if now.since(begin) >= length {
                    return Ok((sent, now.since(begin)));
                }
                let due = (now.since(schedule).as_secs_f64() * fps) as u64;
                match due.saturating_sub(of_schedule) {
                    0 => thread::sleep(REST),
                    behind if behind as f64 > fps * BEHIND_MAX.as_secs_f64() + BURST as f64 => {
                        (schedule, of_schedule) = (now, 0);
                    }
                    behind => {
                        let from = (sent % all.len() as u64) as usize;
                        let until = all.len().min(from + behind.min(BURST) as usize);
                        let taken = device.transmit(&all[from..until])? as u64;
                        sent += taken;
                        of_schedule += taken;
                    }
                }
            }
        };
        let done = self.source.enter(work).and_then(|done| done);
        done.map_err(Error::io("the source cannot send"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a source and a router that handle this many frames per second; returns the rates of all trials.
    fn found(source: f64, router: f64, unlucky: &[usize]) -> (Found, Vec<f64>) {
        found_of_passes(1, source, router, unlucky)
    }

    fn found_of_passes(
        passes: u32,
        source: f64,
        router: f64,
        unlucky: &[usize],
    ) -> (Found, Vec<f64>) {
        let mut rates = Vec::new();
        let found = search(100_000.0, passes, |rate| {
            let fps = rate.min(source);
            let is_unlucky = unlucky.contains(&rates.len());
            rates.push(rate);
            Ok(Trial {
                sent: fps as u64,
                lost: (fps - router).max(0.0) as u64 + u64::from(is_unlucky),
                fps,
                ns: 1e9 / router,
            })
        });
        (found.unwrap(), rates)
    }

    #[test]
    fn a_router_that_carries_the_link_needs_one_trial() {
        let (found, rates) = found(1e6, 1e6, &[]);
        assert_eq!(rates, [100_000.0]);
        assert_eq!((found.link_share, found.offered_share), (1.0, 1.0));
        assert_eq!(found.ns, 1000.0);
    }

    #[test]
    fn the_search_ends_within_a_percent_of_the_routers_rate() {
        let (found, rates) = found(1e6, 43_210.0, &[]);
        assert!((0.4221..=0.4321).contains(&found.link_share), "{found:?}");
        assert!((found.lost_share - 0.5679).abs() < 1e-9, "{found:?}");
        assert!(rates.len() <= 16, "{rates:?}");
    }

    #[test]
    fn a_slow_source_shows_no_more_than_it_offers() {
        let (found, _) = found(30_000.0, 1e6, &[]);
        let shares = [found.link_share, found.offered_share, found.lost_share];
        assert_eq!(shares, [0.3, 0.3, 0.0]);
    }

    #[test]
    fn loops_show_more_than_the_source_offers_and_as_finely() {
        // The router forwards 43,210 frames a second, counting each frame eight times.
        let (found, _) = found_of_passes(8, 30_000.0, 43_210.0 / 8.0, &[]);
        let found = found.of_passes(8);
        assert!((0.4221..=0.4321).contains(&found.link_share), "{found:?}");
        assert!((found.ns - 1e9 / 43_210.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.offered_share, 0.3);
        let (found, _) = found_of_passes(2, 1e6, 1e6, &[]);
        assert_eq!(found.of_passes(2).fps, 200_000.0);
    }

    #[test]
    fn one_trial_with_loss_is_repeated_and_two_decide() {
        assert_eq!(found(1e6, 1e6, &[0]).0.link_share, 1.0);
        assert!(found(1e6, 1e6, &[0, 1]).0.link_share < 1.0);
        assert_eq!(found(1e6, 0.0, &[]).0.fps, 0.0);
    }
}
