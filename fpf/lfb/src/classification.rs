//! The flow-aware classifier of a running router, in the background.
//!
//! ```text
//!  worker: [ edge ] --copies of first packets, by commands--> [ Classification ] --flow, verdict--> policy
//!             ^                                                                                       |
//!             +------------- decisions, a few with each command -------------------------------------+
//! ```
//!
//! The forwarding thread makes copies, and reports once that copies wait. A turn fetches all of them at once, and a pause
//! follows it: so the memory for copies bounds their number. During a turn further copies are lost, and their packets
//! follow the routes.
//!
//! The classes are those of the plan stored last. The plane discards decisions made for earlier classes.

use std::sync::Arc;

use weir_base::{Instant, Streams};
use weir_classifier::policy::Policy;
use weir_classifier::{Classifier, Segment, Settings, Verdict};
use weir_fpf_path::Fpf;
use weir_fpf_path::edge::copies::Copies;
use weir_fpf_path::edge::implicit::Decision;
use weir_layer::{Background, Compiled, ForwardingThread, NoAnswer};

use crate::Built;

/// Decisions that take effect in one iteration of the forwarding thread.
const DECISIONS_MAX: usize = 64;

/// The classifier of a router that may have classes.
struct ClassifierTask {
    /// Keys the hash of the classifier's table.
    secret: (u64, u64),
    /// `None` while the router has no classes.
    classification: Option<Classification>,
}

/// The classifier before its first turn.
pub(super) fn new(streams: &Streams) -> Box<dyn Background> {
    Box::new(ClassifierTask {
        secret: streams.hash_key("classifier"),
        classification: None,
    })
}

impl Background for ClassifierTask {
    /// Fetches copies, and applies the decisions about their flows.
    fn turn(
        &mut self,
        compiled: Option<&dyn Compiled>,
        forwarding: &dyn ForwardingThread,
    ) -> Result<(), NoAnswer> {
        let built = compiled.and_then(Built::of);
        let Some(built) = built.filter(|built| !built.edge.classes.is_empty()) else {
            self.classification = None;
            return Ok(());
        };
        let flows = built.edge.flows_max;
        let kept = self.classification.take();
        let kept = kept.filter(|old| old.flows_max == flows);
        let kept = kept.unwrap_or_else(|| Classification::new(flows, self.secret));
        let this = self.classification.insert(kept);
        let (empty, followed) = (std::mem::take(&mut this.spare), this.classifier.flows());
        let copies = forwarding
            .call(move |plane, _| Fpf::take_copies(plane, empty.unwrap_or_default(), followed))?;
        let decisions = this.decide(&copies, &built.policy);
        this.spare = Some(copies);
        for some in decisions.chunks(DECISIONS_MAX) {
            let (some, setup) = (some.to_vec(), Arc::clone(&built.edge));
            forwarding.call(move |plane, now| Fpf::decide(plane, &setup, &some, now))?;
        }
        Ok(())
    }
}

/// The classifier between two turns of its thread.
#[derive(Debug)]
struct Classification {
    classifier: Classifier,
    flows_max: usize,
    /// Memory for the plane to copy into while we classify.
    spare: Option<Copies>,
    now: Instant,
}

impl Classification {
    fn new(flows_max: usize, secret: (u64, u64)) -> Self {
        let settings = Settings {
            flows: flows_max,
            ..Settings::default()
        };
        Self {
            classifier: Classifier::new(settings, secret),
            flows_max,
            spare: Some(Copies::default()),
            now: Instant::ZERO,
        }
    }

    /// The decisions about the flows of these packets.
    fn decide(&mut self, copies: &Copies, policy: &Policy) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (copy, transport) in copies.iter() {
            let Some(segment) = Segment::parse(copy.key.protocol, transport) else {
                continue;
            };
            self.now = self.now.max(copy.at); // packets of several ports are not in order of time
            let verdict = self.classifier.observe(self.now, &copy.key, segment);
            let (class, is_watched) = match verdict {
                Verdict::Unknown => continue,
                Verdict::GivenUp => (None, false),
                Verdict::Class { kinds, more } => {
                    let server = self.classifier.server(&copy.key);
                    let row = policy.row(kinds, server);
                    (row, more && policy.may_change(kinds, row))
                }
            };
            if class.is_some() || !is_watched {
                decisions.push(Decision {
                    key: copy.key,
                    hash: copy.hash,
                    class: class.map(|row| row as u16), // a plan has few classes
                    is_watched,
                });
            }
        }
        decisions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_classifier::policy::Row;
    use weir_classifier::{Kind, Kinds};
    use weir_fpf_path::edge::copies::Copy;
    use weir_packet::FlowKey;

    /// A unit of supplemental enhancement information with `scalability_info` (H.264, annex G).
    const SVC: &[u8] = &[6, 24, 1, 0x12, 0x80];

    /// A copy of a datagram from this port, and its bytes.
    fn datagram(port: u16, payload: &[u8]) -> (Copy, Vec<u8>) {
        let ends = [[10, 0, 0, 1], [192, 0, 2, 1]].map(Into::into);
        let copy = Copy {
            key: FlowKey::ip(ends[0], ends[1], 17, port, 5004),
            hash: port.into(),
            at: Instant::ZERO,
        };
        let len = (8 + payload.len() as u16).to_be_bytes();
        let header = [port.to_be_bytes(), 5004_u16.to_be_bytes(), len, [0; 2]].concat();
        (copy, [&header, payload].concat())
    }

    fn rtp(port: u16, sequence: u8, payload: &[u8]) -> (Copy, Vec<u8>) {
        let header = [0x80, 96, 0, sequence, 0, 0, 0, 9, 0, 0, 0, 7];
        datagram(port, &[&header, payload].concat())
    }

    fn policy(kinds: &[Kind]) -> Policy {
        let row = |kind: &Kind| Row::new(Kinds::NONE.with(*kind), None).unwrap();
        Policy::new(kinds.iter().map(row).collect())
    }

    /// For each decision about the flows of these packets: hash, class, and whether the flow is still watched.
    fn decide(
        classification: &mut Classification,
        policy: &Policy,
        packets: &[(Copy, Vec<u8>)],
    ) -> Vec<(u64, Option<u16>, bool)> {
        let mut copies = Copies::default();
        for (copy, bytes) in packets {
            assert!(copies.push(*copy, bytes));
        }
        let decisions = classification.decide(&copies, policy);
        let decisions = decisions.iter().map(|d| (d.hash, d.class, d.is_watched));
        decisions.collect()
    }

    #[test]
    fn a_flow_is_watched_only_if_it_may_get_another_class() {
        let flow = [rtp(1, 1, &[1, 2]), rtp(1, 2, &[1, 2]), rtp(1, 3, SVC)];
        let expected: [(&[Kind], &[_]); 4] = [
            (
                &[Kind::Svc, Kind::Rtp],
                &[(1, Some(1), true), (1, Some(0), false)],
            ),
            (&[Kind::Rtp, Kind::Svc], &[(1, Some(0), false); 2]),
            (&[Kind::Svc], &[(1, Some(0), false)]),
            (&[Kind::Dns], &[(1, None, false)]),
        ];
        for (kinds, expected) in expected {
            let mut classification = Classification::new(10, (1, 2));
            let decided = decide(&mut classification, &policy(kinds), &flow);
            assert_eq!(decided.last(), expected.last(), "{kinds:?}: {decided:?}");
            let some = decided.iter().any(|decision| *decision == expected[0]);
            assert!(some, "{kinds:?}: {decided:?}");
        }
    }

    #[test]
    fn a_flow_that_is_nothing_gets_no_more_copies() {
        let mut classification = Classification::new(10, (1, 2));
        let flow: Vec<_> = (0..32).map(|_| datagram(7, b"no protocol")).collect();
        let policy = policy(&[Kind::Rtp]);
        let decided = decide(&mut classification, &policy, &flow[..31]);
        assert_eq!(decided, []);
        let decided = decide(&mut classification, &policy, &flow[31..]);
        assert_eq!(decided, [(7, None, false)]);
        // A packet cut within its header yields no decision, and causes no error.
        let (copy, bytes) = datagram(8, b"");
        let decided = decide(&mut classification, &policy, &[(copy, bytes[..7].to_vec())]);
        assert_eq!(decided, []);
    }
}
