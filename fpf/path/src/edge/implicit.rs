//! The implicit part of an edge: flows with a rule of their class, and copies of the others for the classifier.
//!
//! ```text
//!  packet that no filter matches --> classes --> rule: its path
//!                                       | none
//!                                       v
//!            UDP, or TCP with payload --> seen --> decided, or copied often enough
//!                                           | wanted
//!                                           v
//!                                        copies --full--> lost, counted
//! ```
//!
//! Source: Beben et al., section III.B.2. The packet itself follows the routes, whatever happens to its copy.
//!
//! The work for a packet is bounded, for any sender: two lookups, and at most one copy. The memory bounds the copies
//! between two fetches, so the reader decides how much time copying may take. TCP segments without payload do not show
//! what a connection carries, so a flood of connection requests costs no copies.

use weir_base::Instant;
use weir_packet::key::Family;
use weir_packet::{FlowKey, Reason};
use weir_wire::{EtherType, Protocol, tcp};

use crate::edge::classes::{ActiveClass, Classes, Ended};
use crate::edge::copies::{Copies, Copy};
use crate::edge::filter::Subject;
use crate::edge::rules::Found;
use crate::edge::seen::Seen;
use crate::edge::setup::Setup;
use crate::header::Repr;

/// A decision of the classifier about a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The flow, as in its copies.
    pub key: FlowKey,
    /// The hash of its key, as in its copies.
    pub hash: u64,
    /// The index of its class in the setup; `None` if the flow has no class.
    pub class: Option<u16>,
    /// Whether the classifier needs more copies, because it may find another class.
    pub is_watched: bool,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Copies for the classifier.
    pub copied: u64,
    /// Copies that were not made because the classifier had not fetched the earlier copies.
    pub lost: u64,
    /// Flows that the classifier follows, by its latest report.
    pub followed: u64,
    /// Rules that ended, and flows that got no rule.
    pub ended: Ended,
}

/// The implicit part of an edge.
#[derive(Debug)]
pub(crate) struct Implicit {
    classes: Classes,
    seen: Seen,
    copies: Copies,
    /// Whether the copies have been announced.
    announced: bool,
    copied: u64,
    lost: u64,
    followed: u64,
}

impl Implicit {
    /// No classes yet, and room for the rules of `flows_max` flows. `secret` is the key of the flow hashes.
    pub(crate) fn new(flows_max: usize, secret: (u64, u64), now: Instant) -> Self {
        Self {
            classes: Classes::new(flows_max, secret, now),
            seen: Seen::new(flows_max),
            copies: Copies::default(),
            announced: false,
            copied: 0,
            lost: 0,
            followed: 0,
        }
    }

    /// Applies the classes of a setup.
    pub(crate) fn change(&mut self, setup: &Setup) {
        if self.classes.change(&setup.classes) {
            self.seen.clear(); // the classifier may decide otherwise now
        }
    }

    /// Appends the rules for some packets to `found`, in their order.
    #[inline]
    pub(crate) fn find_all(&self, subjects: &[Subject<'_>], found: &mut Vec<Option<Found>>) {
        self.classes.find_all(subjects, found);
    }

    /// Copies a packet of this flow, if the flow is not decided and `is_transit` permits. `transport` has the bytes
    /// after its IP headers.
    #[inline]
    pub(crate) fn copy(
        &mut self,
        subject: &Subject<'_>,
        transport: &[u8],
        at: Instant,
        is_transit: impl FnOnce() -> bool,
    ) {
        if !subject.has_ports || !has_payload(subject.key.protocol, transport) {
            return;
        }
        let Some(place) = self.seen.wants(subject.hash, at) else {
            return;
        };
        if !is_transit() {
            return;
        }
        let copy = Copy {
            key: *subject.key,
            hash: subject.hash,
            at,
        };
        if self.copies.push(copy, transport) {
            self.seen.copied(place);
            self.copied += 1;
        } else {
            self.lost += 1
        }
    }

    /// Whether the classifier needs a copy of the packet although its rule was found; `None` if the rule is no longer
    /// valid.
    #[inline]
    pub(crate) fn renew(&mut self, found: Found, now: Instant) -> Option<bool> {
        self.classes.renew(found, now)
    }

    /// Counts a matching packet, or returns the reason to drop it.
    #[inline]
    pub(crate) fn hit(&mut self, found: Found, bytes: u64, now: Instant) -> Result<(), Reason> {
        self.classes.hit(found, bytes, now)
    }

    /// The headers to put before a packet of this flow; more than one if a copy is sent with each.
    #[inline]
    pub(crate) fn headers(&self, found: Found, flow_hash: u64) -> &[Repr] {
        self.classes.headers(found, flow_hash)
    }

    /// Stores the number of flows that the classifier follows.
    pub(crate) fn set_followed(&mut self, flows: usize) {
        self.followed = flows as u64;
    }

    /// Applies a decision.
    pub(crate) fn decide(&mut self, decision: &Decision, now: Instant) {
        let Decision {
            key,
            hash,
            class,
            is_watched,
        } = decision;
        let Some(class) = class else {
            if !is_watched {
                self.seen.decide(*hash, now);
            }
            return;
        };
        let flow = Subject {
            key,
            hash: *hash,
            has_ports: true,
            ethertype: match key.family {
                Family::V6 => EtherType::IPV6,
                _ => EtherType::IPV4,
            },
        };
        // While a flow has a rule, its packets do not reach `seen`. If the rule ends, they do, and are copied again.
        if self.classes.set(&flow, *class, *is_watched, now) && !is_watched {
            self.seen.forget(*hash);
        }
    }

    /// Whether there are copies that were not announced yet.
    pub(crate) fn announce(&mut self) -> bool {
        let is_new = !self.announced && !self.copies.is_empty();
        self.announced |= is_new;
        is_new
    }

    /// Returns the copies, and continues with `empty`.
    pub(crate) fn take_copies(&mut self, empty: Copies) -> Copies {
        self.announced = false;
        std::mem::replace(&mut self.copies, empty)
    }

    /// Ends the rules whose timeout is over. Returns when to call again.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        self.classes.expire(now)
    }

    /// The active classes.
    pub(crate) fn classes(&self) -> impl Iterator<Item = ActiveClass> {
        self.classes.iter()
    }

    /// The counters.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            copied: self.copied,
            lost: self.lost,
            followed: self.followed,
            ended: self.classes.ended(),
        }
    }
}

/// Whether a packet is UDP, or TCP with payload.
#[inline]
fn has_payload(protocol: u8, transport: &[u8]) -> bool {
    match Protocol::from(protocol) {
        Protocol::UDP => true,
        Protocol::TCP => {
            tcp::View::new_checked(transport).is_ok_and(|view| view.header_len() < transport.len())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::paths::Paths;
    use crate::edge::rule::Rule;
    use crate::edge::samples::whole;
    use crate::edge::setup::Class;
    use crate::header::Vector;
    use weir_base::Span;

    const SECRET: (u64, u64) = (1, 2);

    fn key(n: u8) -> FlowKey {
        FlowKey::ip([10, 0, 0, n].into(), [192, 0, 2, 1].into(), 17, 5000, 53)
    }

    fn hash(n: u8) -> u64 {
        weir_packet::Keys::new(0, SECRET).hash_key(&key(n))
    }

    /// Whether a packet of a flow is copied, if it has no rule.
    fn copies(implicit: &mut Implicit, n: u8, at: Instant) -> bool {
        let before = implicit.stats().copied;
        let (key, hash) = (key(n), hash(n));
        let subject = Subject {
            hash,
            ..whole(&key)
        };
        let mut found = Vec::new();
        implicit.find_all(&[subject], &mut found);
        if found[0].is_none() {
            implicit.copy(&subject, &[0; 8], at, || true);
        }
        implicit.take_copies(Copies::default());
        implicit.stats().copied > before
    }

    #[test]
    fn a_flow_is_copied_again_when_its_rule_has_ended() {
        let second = |n| Instant::ZERO + Span::from_secs(n);
        let mut implicit = Implicit::new(1, SECRET, second(0));
        implicit.change(&Setup {
            classes: vec![Class {
                name: "voice".to_owned(),
                criteria: String::new(),
                rule: Rule {
                    paths: Paths::single(Vector::new(&[1]).unwrap()),
                    timeout: Some(Span::from_secs(5)),
                    session: 0,
                    profile: None,
                },
            }],
            ..Setup::default()
        });
        let decide = |implicit: &mut Implicit, n, class, at| {
            let decision = Decision {
                key: key(n),
                hash: hash(n),
                class,
                is_watched: false,
            };
            implicit.decide(&decision, at);
        };
        assert!(copies(&mut implicit, 1, second(0)));
        decide(&mut implicit, 1, Some(0), second(0));
        assert!(!copies(&mut implicit, 1, second(0)));
        // There is no room for another flow yet; it may be tried again.
        assert!(copies(&mut implicit, 2, second(0)));
        decide(&mut implicit, 2, Some(0), second(0));
        assert_eq!(implicit.stats().ended.refused, 1);
        assert!(copies(&mut implicit, 2, second(0)));
        // The second flow takes the place of the first flow, which was silent.
        decide(&mut implicit, 2, Some(0), second(2));
        assert!(!copies(&mut implicit, 2, second(2)));
        assert!(copies(&mut implicit, 1, second(2)));
        // The rule times out.
        implicit.expire(second(9));
        assert_eq!(implicit.stats().ended.expired, 1);
        assert!(copies(&mut implicit, 2, second(9)));
        // A flow of no class is not copied again.
        decide(&mut implicit, 2, None, second(9));
        assert!(!copies(&mut implicit, 2, second(9)));
    }
}
