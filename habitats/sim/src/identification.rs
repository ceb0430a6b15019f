//! How well a discipline knows the hogs, where the truth is known: a scenario says whose flows they are.
//!
//! ```text
//!   every packet offered to the port, if it is a hog's ──> sights: first and latest packet of each
//!                                                              |
//!   every 10 ms: what the discipline says of flows ────────────+──> right, wrong, missed; first time right
//! ```
//!
//! A flow is what the discipline takes for one: if it goes by destination, a destination is a hog to which a
//! hog sends. A hog counts as missed only while it is there: it sent something in the last 200 ms.

use std::collections::BTreeMap;

use weir_base::{Instant, Span};
use weir_discipline::{FlowStanding, Metered};
use weir_packet::{FlowKey, KeyKind};

use crate::actor::Actor;
use crate::fabric::Fabric;
use crate::network::PortId;

/// Time between two looks.
const STEP: Span = Span::from_millis(10);
/// A hog that was silent for longer is not there.
const PRESENT: Span = Span::from_millis(200);

/// What was seen of one hog.
#[derive(Clone, Copy, Debug)]
struct Sight {
    first: Instant,
    latest: Instant,
    identified: Option<Instant>,
}

/// What a discipline says of flows, held against the truth.
#[derive(Clone, Debug)]
pub struct Identification {
    /// The window begins.
    from: Instant,
    /// By traffic, whether its flows are hogs.
    hogs: Vec<bool>,
    /// What the discipline takes for a flow.
    kind: KeyKind,
    sights: BTreeMap<FlowKey, Sight>,
    /// Whether the discipline has ever said anything of a flow.
    speaks: bool,
    looks: u64,
    /// Sums over the looks in the window: hogs taken for hogs, others taken for hogs, hogs there.
    right: u64,
    wrong: u64,
    there: u64,
}

/// How well it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Of the flows taken for hogs, the share that are; none if it never took one for a hog.
    pub precision: Option<f64>,
    /// Of the hogs there, the share that is taken for hogs; none if there never was one.
    pub recall: Option<f64>,
    /// Flows taken for hogs that are none, on average.
    pub false_positives: f64,
    /// Seconds from a hog's first packet to its first identification, of each that was identified.
    pub detection_s: Vec<f64>,
    /// Hogs that never were.
    pub undetected: usize,
}

impl Identification {
    /// Nothing seen yet.
    pub(crate) fn new(from: Instant, hogs: Vec<bool>) -> Self {
        Self {
            from,
            hogs,
            kind: KeyKind::Flow,
            sights: BTreeMap::new(),
            speaks: false,
            looks: 0,
            right: 0,
            wrong: 0,
            there: 0,
        }
    }

    /// A packet of this traffic is offered to the port.
    #[inline]
    pub(crate) fn offered(&mut self, traffic: u32, key: &FlowKey, now: Instant) {
        if self.hogs[traffic as usize] {
            let key = key.project(self.kind);
            let sight = self.sights.entry(key).or_insert(Sight {
                first: now,
                latest: now,
                identified: None,
            });
            sight.latest = now;
        }
    }

    /// Compares.
    fn look(&mut self, queue: &Metered, now: Instant) {
        let mut taken: Vec<FlowKey> = Vec::new();
        let mut kind = self.kind;
        queue.flows(now, &mut |flow| {
            if !flow.standing.is_of_classifier() {
                return;
            }
            self.speaks = true;
            kind = flow.kind;
            if flow.standing != FlowStanding::Watched {
                taken.push(flow.key);
            }
        });
        if kind != self.kind {
            self.kind = kind;
            self.merge();
        }
        let is_there = |sight: &Sight| now.since(sight.latest) < PRESENT;
        let (mut right, mut wrong) = (0, 0);
        for key in taken {
            match self.sights.get_mut(&key) {
                Some(sight) => {
                    sight.identified.get_or_insert(now);
                    right += u64::from(is_there(sight)); // if it has gone, it is still remembered
                }
                None => wrong += 1,
            }
        }
        if now >= self.from {
            self.looks += 1;
            self.right += right;
            self.wrong += wrong;
            self.there += self.sights.values().filter(|s| is_there(s)).count() as u64;
        }
    }

    /// Several hogs may be one for the discipline.
    fn merge(&mut self) {
        for (key, sight) in std::mem::take(&mut self.sights) {
            let merged = self.sights.entry(key.project(self.kind)).or_insert(sight);
            merged.first = merged.first.min(sight.first);
            merged.latest = merged.latest.max(sight.latest);
        }
    }

    /// The result; none if the discipline does not tell flows, or there was no time to look.
    pub fn quality(&self) -> Option<Quality> {
        if !self.speaks || self.looks == 0 {
            return None;
        }
        let share = |of: u64, all: u64| (all > 0).then(|| of as f64 / all as f64);
        let detected = |sight: &Sight| {
            let at = sight.identified?;
            Some(at.since(sight.first).as_secs_f64())
        };
        let detection_s: Vec<f64> = self.sights.values().filter_map(detected).collect();
        Some(Quality {
            precision: share(self.right, self.right + self.wrong),
            recall: share(self.right, self.there),
            false_positives: self.wrong as f64 / self.looks as f64,
            undetected: self.sights.len() - detection_s.len(),
            detection_s,
        })
    }
}

/// Looks at ports.
#[derive(Debug)]
pub(crate) struct Examiner {
    pub(crate) ports: Vec<PortId>,
}

impl Actor for Examiner {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        for port in &self.ports {
            if let Some((port, watch)) = fabric.wires[port.0 as usize].watched()
                && let Some(identification) = &mut watch.identification
            {
                identification.look(port.queue(), fabric.now);
            }
        }
        Some(fabric.now + STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Streams;
    use weir_base::setting::Scalar;
    use weir_discipline::{Cx, Spec};
    use weir_packet::{Fates, Keys, Packet, Slot};

    fn key(n: u8) -> FlowKey {
        FlowKey::ip([10, 0, 0, n].into(), [192, 0, 2, n / 2].into(), 17, 1, 2)
    }

    /// Offers packets of these flows, a millisecond apart; flows 0 and 1 are hogs.
    fn examined(settings: &[(&str, &str)], flows: &[u8], looks: &[usize]) -> Identification {
        let settings: Vec<_> = settings
            .iter()
            .map(|(name, value)| (*name, Scalar::Text((*value).to_owned())))
            .collect();
        let spec = Spec::check("lru_fq", settings.iter().map(|(n, v)| (*n, v))).unwrap();
        let streams = Streams::new(1);
        let mut queue = Metered::new(spec, Instant::ZERO, &streams);
        let (mut keys, mut fates) = (Keys::new(256, (1, 2)), Fates::default());
        let mut identification = Identification::new(Instant::ZERO, vec![true, false]);
        let mut now = Instant::ZERO;
        for (at, &flow) in flows.iter().enumerate() {
            now += Span::from_millis(1);
            let slot = Slot(at as u32);
            keys.set(slot, key(flow));
            identification.offered(u32::from(flow > 1), &key(flow), now);
            let mut cx = Cx {
                now,
                keys: &keys,
                fates: &mut fates,
            };
            queue.enqueue(&mut cx, Packet::new(at as u64, slot, 1000, now));
            if looks.contains(&at) {
                identification.look(&queue, now);
            }
        }
        identification
    }

    #[test]
    fn by_hand() {
        // With a threshold of three packets: after six, flow 0 (four) is a hog, flow 1 (one) is not yet,
        // nor is flow 2 (one). After twelve, flow 2 (six) is taken for one, which it is not.
        let settings = [("threshold", "3 packets")];
        let flows = [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0];
        let quality = examined(&settings, &flows, &[5, 11]).quality().unwrap();
        assert_eq!(quality.precision, Some(2.0 / 3.0)); // right, then right and wrong
        assert_eq!(quality.recall, Some(2.0 / 4.0)); // of two hogs at each look, one
        assert_eq!(quality.false_positives, 0.5);
        // Its first packet came after 1 ms, the look after 6 ms.
        assert!((quality.detection_s[0] - 0.005).abs() < 1e-9 && quality.detection_s.len() == 1);
        assert_eq!(quality.undetected, 1);
    }

    #[test]
    fn hogs_that_are_one_for_the_discipline_are_one() {
        // Flows 0 and 1 have the same destination.
        let settings = [("threshold", "3 packets"), ("key", "destination")];
        let quality = examined(&settings, &[0, 1, 0, 1], &[3]).quality().unwrap();
        assert_eq!((quality.precision, quality.recall), (Some(1.0), Some(1.0)));
        assert_eq!((quality.detection_s.len(), quality.undetected), (1, 0));
    }

    #[test]
    fn a_hog_that_has_gone_is_neither_right_nor_missed() {
        let flows: Vec<u8> = [0, 0, 0].into_iter().chain([2; 250]).collect();
        let settings = [("threshold", "3 packets")];
        let quality = examined(&settings, &flows, &[2, 252]).quality().unwrap();
        assert_eq!(quality.recall, Some(1.0)); // at the first look; at the second there is none
        assert_eq!(quality.precision, Some(0.5)); // flow 2 is wrong at the second
    }

    #[test]
    fn without_a_word_there_is_no_quality() {
        let fresh = Identification::new(Instant::ZERO, vec![true]);
        assert_eq!(fresh.quality(), None);
    }
}
