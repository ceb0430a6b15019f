//! A shaper that finds its rate: it measures the delay to reflectors, and keeps the queue behind its port short.
//!
//! ```text
//!            poll_probe                                 handle_timeout (bytes that the port has sent)
//!   probes ◀────────── [ reflectors ] ── delay above ──▶ [ law ] ── rate ──▶ the port
//!   answers ─────────▶   baselines        baseline         ▲
//!          handle_answer                [ deliveries ] ────────┘ rate of delivery, bytes still in the modem
//! ```
//!
//! The rate of a modem's link behind a port changes: LTE, cable, satellite. A port that sends faster than the link
//! fills the modem's buffer, where no discipline works; a port that sends slower wastes capacity. One `Autorate`
//! controls one port.
//!
//! # How it works
//!
//! Every probe records the number of bytes that the port had sent before it. So an answer yields two measurements: the
//! length of the queue behind the port, and, with the previous answer, *how fast the link delivered the bytes sent in
//! between* ([`deliveries`]). While the link has a queue, that is its rate.
//!
//! - **Follow.** While the port is busy and the delay low, the rate grows: slowly at first, then faster.
//! - **Touch.** The mean of two delays is above a small part of `threshold`: the rate has reached the link's. The port
//!   sends at half of the link's delivery rate until the queue is empty, and then just below the delivery rate.
//! - **Suspicion.** One delay is above `threshold`, or one probe is overdue by half of it, which shows the same
//!   earlier. The port sends at an eighth of its rate until the next probe, which denies or confirms the suspicion.
//! - **Drain.** The suspicion is confirmed: the port sends at `least` until, by the delivery rate, the bytes behind it
//!   are delivered.
//! - **Jitter.** A radio that waits for its turn delays packets even without a queue. After a drain the port sends at
//!   less than the link's rate; the median of the maximum delays in five such intervals adds to `threshold`, up to
//!   three times `threshold` ([`jitter`]). With jitter, a drain also measures only a moment, so up to half of the
//!   previous rate is kept.
//! - **Not ours.** A queue gets shorter when the port slows down; a longer path does not. A delay that stays in spite
//!   of a drain becomes the new baseline, and the rate returns: a route has changed, or others fill a shared link, or
//!   the queue is in the other direction. The port ignores delays for a while afterwards.
//! - **Blind.** No answer has arrived for two seconds: the rate is at most `base`.
//!
//! # By its own traffic
//!
//! [`Autorate::handle_sample`] takes round trips of the port's own connections, in addition to reflectors or instead of
//! them. A peer is a reflector that the port cannot probe, with its own baseline; the first round trip of a new peer is
//! assumed to contain the current delay. Only the minimum of each half probe interval counts, since a receiver may
//! answer late. Without reflectors, a port without load is not blind. No probe is overdue then, and `base` must be a
//! rate at which connections get acknowledgments that are not delayed: 1 Mbit/s for two connections.
//!
//! An idle port's rate returns to `base`, by 1 % of the difference per second.
//!
//! # Source
//!
//! The idea is from `sqm-autorate` and cake-autorate (github.com/lynxthecat/cake-autorate): compare the delay with a
//! baseline, go up under load, down on delay. The delivery rate is BBR's (draft-cheng-iccrg-delivery-rate-estimation):
//! data between two acknowledgements over the time between them, here measured by probes.
//!
//! Deviations from cake-autorate, and why:
//!
//! - cake-autorate multiplies the rate by 0.75 to 0.99 at each congestion. If the link falls to a fifth of its rate,
//!   this takes seconds, in which the modem's buffer fills. We set the measured rate.
//! - cake-autorate does not wait for a queue to drain. We do, since that queue delays all packets.
//! - cake-autorate decides by answers only. Answers over a link that has slowed down are late; our overdue probes
//!   decide at once.
//! - Its baseline grows by a thousandth of each sample. Ours is the minimum of a minute, and moves by experiment.
//!
//! # What an attacker can do
//!
//! Answers are matched by their number; unsolicited and duplicate answers are ignored. A reflector that delays its
//! answers slows a port down to `least` if it is the only reflector. Among several, a drain needs two reflectors that
//! agree, and a reflector that raises false suspicions is ignored for a minute. A peer of the traffic that delays its
//! acknowledgments counts like a reflector. A peer that acknowledges data before receiving it hides the queue, since
//! the minimum delay counts, and denies the suspicions of others: then only `most` limits the rate.

mod baseline;
mod deliveries;
mod drain;
mod jitter;
mod law;
mod load;
mod params;
mod reflectors;

pub use law::Autorate;
pub use params::{Params, Phase};
pub use reflectors::{BY_TRAFFIC, Probe, REFLECTORS_MAX, ReflectorState, Sample};

#[cfg(test)]
mod tests;
