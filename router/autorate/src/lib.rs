//! A shaper that finds its rate: it measures the delay to reflectors, and keeps the queue behind its port short.
//!
//! ```text
//!            poll_probe                                 handle_timeout (bytes that the port has sent)
//!   probes ◀────────── [ reflectors ] ── delay above ──▶ [ law ] ── rate ──▶ the port
//!   answers ─────────▶   baselines        baseline         ▲
//!          handle_answer                [ deliveries ] ────────┘ rate of delivery, bytes still in the modem
//! ```
//!
//! The link behind a port, a modem's, changes: LTE, cable, satellite. A port that sends faster than it fills the modem's
//! buffer, where no discipline is; one that sends slower wastes it. One `Autorate` steers one port.
//!
//! # How it works
//!
//! Every probe notes how many bytes the port had sent before it. So an answer says two things: how long the queue behind
//! the port was, and, with the answer before it, *how fast the link took what was sent in between* ([`deliveries`]). While
//! the link has a queue, that is its rate.
//!
//! - **Follow.** While the port is busy and the delay low, the rate grows: slowly at first, then faster.
//! - **Touch.** The mean of two delays is above a small part of `threshold`: the rate has reached the link's. The port
//!   sends at half of what the link delivers until the queue is gone, and then at just below of it.
//! - **Suspicion.** One delay is above `threshold`, or one probe is overdue by half of it, which says the same earlier. The
//!   port sends an eighth of its rate until the next probe, which denies it or confirms it.
//! - **Drain.** It is confirmed: the port sends at `least` until the bytes behind it are gone by the rate of delivery.
//! - **Jitter.** A radio that waits for its turn delays packets although no queue stands. After a drain the port sends at
//!   less than the link delivers; the greatest delays in five such times have a median, which adds to `threshold`, up to
//!   three times it ([`jitter`]). Where there is jitter, a drain also measures a moment, so half of the rate before stays.
//! - **Not ours.** A queue gets shorter when the port holds back; a longer way does not. A delay that stays in spite of a
//!   drain is a new baseline, and the rate returns: a route has changed, or others fill a shared link, or the queue is
//!   in the other direction. Such a verdict is not tried again for a while.
//! - **Blind.** Nothing has been answered for two seconds: the rate is `base` at most.
//!
//! # By its own traffic
//!
//! [`Autorate::handle_sample`] takes round trips of the port's own connections: beside reflectors, or in their place. A peer
//! is a reflector that cannot be asked, with a baseline of its own; a new one waited as long as the others do at that
//! moment. The least of half a probe's interval counts, since a receiver may be late for reasons of its own. Without
//! reflectors, a port without load is not blind. Nothing is overdue then, and `base` must be a rate at which connections get
//! acknowledgments that are not delayed, 1 Mbit/s for two of them.
//!
//! An idle port's rate returns to `base`, by a percent each second.
//!
//! # Source
//!
//! The idea is `sqm-autorate`'s and cake-autorate's (github.com/lynxthecat/cake-autorate): delay against a baseline, up
//! under load, down on delay. The rate of delivery is BBR's (draft-cheng-iccrg-delivery-rate-estimation): data between
//! two acknowledgements over the time between them, here by probes.
//!
//! Deviations from cake-autorate, and why:
//!
//! - It multiplies the rate by .75 to .99 for each congestion. After a fall to a fifth that takes seconds, in which the
//!   modem's buffer fills. We set the measured rate.
//! - It does not wait for a queue to drain. We do, since that queue is delay for everybody.
//! - It decides by answers only. A link that has slowed down answers late; a probe that is overdue decides at once.
//! - Its baseline grows by a thousandth of each sample. Ours is the least of a minute, and moves by experiment.
//!
//! # What an attacker can do
//!
//! Answers are matched by their number: one that was not asked for is not used, nor one that comes twice. A reflector
//! that delays its answers slows a port down to `least` if it is the only one. Among several, a drain needs two that agree, and
//! one that raises false suspicions is not believed for a minute. A peer of the traffic that delays its acknowledgments counts
//! like one of the reflectors. One that acknowledges what it has not received yet hides the queue, since the least delay
//! counts, and denies the suspicions of others: then only `most` limits the rate.

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
