//! Measures how well a discipline identifies hogs. The scenario defines which flows are hogs.
//!
//! ```text
//!   every packet of a hog offered to the port ──> records: first and latest packet of each hog
//!                                                              |
//!   every 10 ms: the discipline's report on flows ─────────────+──> right, wrong, missed; first time right
//! ```
//!
//! Flows are distinguished in the same way as by the discipline: if its key is the destination, a destination is a hog
//! if a hog sends to it. A hog counts as missed only while it is present: it sent something in the last 200 ms.

use std::collections::BTreeMap;

use weir_base::{Instant, Span};
use weir_discipline::{FlowStanding, Metered};
use weir_packet::{FlowKey, KeyKind};

/// A hog that has been silent for longer counts as absent.
const PRESENT: Span = Span::from_millis(200);

/// The packets of one hog.
#[derive(Clone, Copy, Debug)]
struct HogRecord {
    first: Instant,
    latest: Instant,
    identified: Option<Instant>,
}

/// The verdicts of a discipline about flows, compared with the truth.
#[derive(Clone, Debug)]
pub struct Identification {
    /// Start of the window.
    from: Instant,
    /// For each flow group, whether its flows are hogs.
    hogs: Vec<bool>,
    /// The key by which the discipline distinguishes flows.
    kind: KeyKind,
    records: BTreeMap<FlowKey, HogRecord>,
    /// Whether the discipline has ever reported a flow.
    speaks: bool,
    samples: u64,
    /// Sums over the samplings in the window: hogs identified as hogs, other flows identified as hogs, hogs present.
    right: u64,
    wrong: u64,
    there: u64,
}

/// Precision, recall and speed of an identification.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Share of hogs among the flows identified as hogs; `None` if no flow was ever identified as a hog.
    pub precision: Option<f64>,
    /// Share of the present hogs that are identified as hogs; `None` if no hog was ever present.
    pub recall: Option<f64>,
    /// Mean number of flows identified as hogs that are not hogs.
    pub false_positives: f64,
    /// Seconds from a hog's first packet to its first identification, for each identified hog.
    pub detection_s: Vec<f64>,
    /// Hogs that were never identified.
    pub undetected: usize,
}

impl Identification {
    /// An identification without packets.
    pub(crate) fn new(from: Instant, hogs: Vec<bool>) -> Self {
        Self {
            from,
            hogs,
            kind: KeyKind::Flow,
            records: BTreeMap::new(),
            speaks: false,
            samples: 0,
            right: 0,
            wrong: 0,
            there: 0,
        }
    }

    /// Records that a packet of this flow group is offered to the port.
    #[inline]
    pub(crate) fn offered(&mut self, traffic: u32, key: &FlowKey, now: Instant) {
        if self.hogs[traffic as usize] {
            let key = key.project(self.kind);
            let record = self.records.entry(key).or_insert(HogRecord {
                first: now,
                latest: now,
                identified: None,
            });
            record.latest = now;
        }
    }

    /// Compares the flows that a queue reports with the truth.
    pub(crate) fn compare(&mut self, queue: &Metered, now: Instant) {
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
        let is_there = |record: &HogRecord| now.since(record.latest) < PRESENT;
        let (mut right, mut wrong) = (0, 0);
        for key in taken {
            match self.records.get_mut(&key) {
                Some(record) => {
                    record.identified.get_or_insert(now);
                    right += u64::from(is_there(record)); // records of absent hogs are kept
                }
                None => wrong += 1,
            }
        }
        if now >= self.from {
            self.samples += 1;
            self.right += right;
            self.wrong += wrong;
            self.there += self.records.values().filter(|s| is_there(s)).count() as u64;
        }
    }

    /// Merges hogs that are a single flow for the discipline.
    fn merge(&mut self) {
        for (key, record) in std::mem::take(&mut self.records) {
            let merged = self.records.entry(key.project(self.kind)).or_insert(record);
            merged.first = merged.first.min(record.first);
            merged.latest = merged.latest.max(record.latest);
        }
    }

    /// The result; `None` if the discipline does not report flows, or nothing was sampled.
    pub fn quality(&self) -> Option<Quality> {
        if !self.speaks || self.samples == 0 {
            return None;
        }
        let share = |of: u64, all: u64| (all > 0).then(|| of as f64 / all as f64);
        let detected = |record: &HogRecord| {
            let at = record.identified?;
            Some(at.since(record.first).as_secs_f64())
        };
        let detection_s: Vec<f64> = self.records.values().filter_map(detected).collect();
        Some(Quality {
            precision: share(self.right, self.right + self.wrong),
            recall: share(self.right, self.there),
            false_positives: self.wrong as f64 / self.samples as f64,
            undetected: self.records.len() - detection_s.len(),
            detection_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Streams;
    use weir_base::setting::Scalar;
    use weir_discipline::{Cx, Spec};
    use weir_packet::{DropCounters, Keys, Packet, Slot};

    fn key(n: u8) -> FlowKey {
        FlowKey::ip([10, 0, 0, n].into(), [192, 0, 2, n / 2].into(), 17, 1, 2)
    }

    /// Offers packets of these flows, one millisecond apart; flows 0 and 1 are hogs.
    fn examined(settings: &[(&str, &str)], flows: &[u8], samples: &[usize]) -> Identification {
        let settings: Vec<_> = settings
            .iter()
            .map(|(name, value)| (*name, Scalar::Text((*value).to_owned())))
            .collect();
        let spec = Spec::check("lru_fq", settings.iter().map(|(n, v)| (*n, v))).unwrap();
        let streams = Streams::new(1);
        let mut queue = Metered::new(spec, Instant::ZERO, &streams);
        let (mut keys, mut fates) = (Keys::new(256, (1, 2)), DropCounters::default());
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
                heavy: false,
            };
            queue.enqueue(&mut cx, Packet::new(at as u64, slot, 1000, now));
            if samples.contains(&at) {
                identification.compare(&queue, now);
            }
        }
        identification
    }

    #[test]
    fn by_hand() {
        // The threshold is three packets: after six packets, flow 0 (four) is identified as a hog, flow 1 (one) and
        // flow 2 (one) are not. After twelve, flow 2 (six) is wrongly identified as a hog.
        let settings = [("threshold", "3 packets")];
        let flows = [0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0];
        let quality = examined(&settings, &flows, &[5, 11]).quality().unwrap();
        assert_eq!(quality.precision, Some(2.0 / 3.0)); // right, then right and wrong
        assert_eq!(quality.recall, Some(2.0 / 4.0)); // of two hogs at each sampling, one
        assert_eq!(quality.false_positives, 0.5);
        // Its first packet came after 1 ms, the sampling after 6 ms.
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
        assert_eq!(quality.recall, Some(1.0)); // at the first sampling; at the second there is none
        assert_eq!(quality.precision, Some(0.5)); // flow 2 is wrong at the second
    }

    #[test]
    fn without_a_word_there_is_no_quality() {
        let fresh = Identification::new(Instant::ZERO, vec![true]);
        assert_eq!(fresh.quality(), None);
    }
}
