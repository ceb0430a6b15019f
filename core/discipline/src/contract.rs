//! The contract between every discipline and the port that drives it.

use std::any::Any;
use std::sync::Arc;

use weir_base::gauge::Gauge;
use weir_base::setting::{Parameter, SettingError, Settings};
use weir_base::{Framing, Instant, Rate, Span, Streams, Tally};
use weir_packet::{Class, Discarded, DropCounters, FlowKey, KeyKind, Keys, Packet};

use crate::params::Parameters;
use crate::waiting::Waiting;

/// The context of each call: the time, the flow keys, the counters.
pub struct Cx<'a> {
    /// The current time.
    pub now: Instant,
    /// Flow keys of the held packets, and the keyed hash over them.
    pub keys: &'a Keys,
    /// The counters of dropped and marked packets.
    pub fates: &'a mut DropCounters,
    /// Whether the packet that [`Discipline::dequeue`] returned belongs to a flow that demands more than its share, and
    /// so causes its own delay. A discipline that cannot tell leaves this field unchanged: all its packets then count
    /// as light.
    pub heavy: bool,
}

/// The result of offering a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The packet is queued.
    Queued,
    /// The packet is queued, and now carries a congestion mark.
    Marked,
    /// The packet was dropped.
    Refused(Discarded),
}

/// Whether `dequeue` would return a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Nothing is queued.
    Empty,
    /// A packet may leave now. If `dequeue` nevertheless returns `None`, `ready` no longer answers `Now`.
    Now,
    /// No packet may leave before this instant.
    At(Instant),
}

/// A queue discipline.
///
/// # Calling order
///
/// The port passes a time that never decreases. At one instant it runs timers that are due
/// ([`on_timeout`](Self::on_timeout)), then offers arrivals ([`enqueue`](Self::enqueue)), then
/// takes packets while the link is ready to send ([`dequeue`](Self::dequeue)).
///
/// # Requirements for an implementation
///
/// - Every packet offered is queued, or dropped through `cx.fates`, so that the counters balance.
/// - Packets of one flow leave in order of arrival, unless the manual page says otherwise.
/// - A call takes time independent of the number of flows, up to a constant that the file names.
/// - Memory is bounded by the parameters, whatever the number of flows.
pub trait Discipline: Any + Send {
    /// Offers a packet. Other packets may be dropped to make room for it.
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission;

    /// Takes the next packet to send. It may drop packets, and may return `None` although packets were
    /// queued (an AQM dropped them, or a shaper holds them).
    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet>;

    /// Touches the memory that `enqueue` will need, so that cache misses overlap within a batch.
    fn prefetch(&self, _cx: &Cx<'_>, _packet: &Packet) {}

    /// Credit, for a producer that must not lose packets: whether a packet of `class` would be queued.
    fn has_room(&self, _class: Class) -> bool {
        true
    }

    /// Whether `dequeue` would return a packet at `now`. A work-conserving discipline needs no answer of its own.
    #[inline]
    fn ready(&self, _now: Instant) -> Ready {
        match self.backlog().packets {
            0 => Ready::Empty,
            _ => Ready::Now,
        }
    }

    /// Packets and bytes held, including packets that a shaper or a delay line holds back.
    fn backlog(&self) -> Tally;

    /// Bytes of memory allocated, which depends on the parameters, not on the traffic. The packets' own
    /// bytes are not included, because they are in the pool.
    fn state_bytes(&self) -> usize;

    /// Frees memory that is not needed now; called from time to time while nothing is queued.
    fn relax(&mut self) {}

    /// Sets the rate, framing included, to which the port paces the link; `None` without pacing. The port
    /// calls this before the first packet and at each change.
    fn set_link_rate(&mut self, _rate: Option<Rate>) {}

    /// Sets how many bytes a frame occupies on the link, for a discipline that shares the link by these bytes. The port
    /// calls this before the first packet and at each change.
    fn set_framing(&mut self, _framing: Framing) {}

    /// Hands over all held packets without dropping or marking any, for a change to another kind.
    fn drain(&mut self, out: &mut dyn FnMut(Packet));

    /// When `on_timeout` should be called.
    fn timeout(&self) -> Option<Instant> {
        None
    }

    /// Called when the timer is due.
    fn on_timeout(&mut self, _cx: &mut Cx<'_>) {}

    /// Gauges and counters under stable names, as the manual page lists them.
    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64));

    /// Reports the flows whose keys the discipline stores, if it stores any.
    fn flows(&self, _now: Instant, _report: &mut dyn FnMut(FlowReport)) {}

    /// Reports waiting packets, in at most [`REPORTS_MAX`](crate::waiting::REPORTS_MAX) reports; nothing if the
    /// discipline cannot attribute them to flows.
    fn waiting(&self, _report: &mut dyn FnMut(Waiting<'_>)) {}
}

/// A discipline with its manual page and its parameters. Each discipline's file implements it, and
/// [`KINDS`](crate::KINDS) lists it.
pub trait Configured: Discipline + Sized {
    /// The parameters.
    type Params: Parameters;
    /// The manual page.
    const MANUAL: Manual;
    /// Whether the discipline stores flow keys, which [`Discipline::flows`] reports.
    const KNOWS_FLOWS: bool = false;

    /// Maximum packets that the discipline holds with these parameters, or an error if they contradict each other.
    fn limit(params: &Self::Params) -> Result<usize, SettingError>;

    /// Builds an empty discipline, and allocates all memory that it will ever use. Each user of randomness owns a
    /// stream below these streams.
    fn build(params: Self::Params, now: Instant, streams: &Streams) -> Self;

    /// Applies other parameters, and keeps the state: lists, tokens, tags. Packets in excess of a lower limit leave
    /// normally; this call drops none.
    fn change(&mut self, params: Self::Params, now: Instant);
}

/// Applies parameters to a discipline of their kind; `false` if it is of another kind.
pub(crate) fn apply<D: Configured>(
    discipline: &mut dyn Discipline,
    params: &D::Params,
    now: Instant,
) -> bool {
    let discipline: &mut dyn Any = discipline;
    let of_kind = discipline.downcast_mut::<D>();
    of_kind.map(|d| d.change(params.clone(), now)).is_some()
}

/// State of one flow, which shows an operator why the flow is treated as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowReport {
    /// The flow, reduced to the part that `kind` keeps.
    pub key: FlowKey,
    /// The part of a flow key that identifies a flow here.
    pub kind: KeyKind,
    /// How the discipline treats the flow.
    pub standing: FlowStanding,
    /// Packets and bytes since tracking began.
    pub seen: Tally,
    /// Packets dropped since tracking began, if the discipline counts them by flow.
    pub dropped: Option<u64>,
    /// The recent rate of the flow.
    pub rate: Rate,
    /// Threshold of a hog, if the discipline classifies flows.
    pub threshold: Option<Threshold>,
    /// When tracking began.
    pub since: Instant,
    /// When the latest packet arrived.
    pub latest: Instant,
    /// Time that the flow waited, or has waited so far, for acceptance; `None` without admission control.
    pub waited: Option<Span>,
}

/// The threshold from which a flow is a hog, that is, a high-bandwidth flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// This number of packets since tracking began.
    Packets(u64),
    /// This rate.
    Rate(Rate),
    /// This share of the total rate of all flows.
    Share(f64),
}

/// How a discipline treats a flow that it tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowStanding {
    /// Tracked, but not above the threshold.
    Watched,
    /// Above the threshold: in the queue for high-bandwidth flows.
    Hog,
    /// A hog that cannot be evicted until it has been below the threshold for a time.
    Pinned,
    /// Accepted by an admission control.
    Accepted(FlowClass),
    /// Not accepted yet.
    Waiting,
    /// Removed from the list; the flow returns before other flows.
    SetAside,
    /// Removed from the list, and blocked for a time.
    Blocked,
}

/// Class of an accepted flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowClass {
    /// A flow that never has much queued: voice, for example.
    Streaming,
    /// A flow that uses all bandwidth that it can get.
    Elastic,
}

impl FlowStanding {
    /// Whether the flow belongs to a classifier of high-bandwidth flows, not to an admission control.
    pub const fn is_of_classifier(self) -> bool {
        matches!(self, Self::Watched | Self::Hog | Self::Pinned)
    }
}

/// A kind of discipline: its manual page, and how its settings are checked.
pub struct Kind {
    /// The manual page.
    pub manual: Manual,
    /// Whether the discipline stores flow keys, which [`Discipline::flows`] reports.
    pub knows_flows: bool,
    /// Checks settings that are in their ranges.
    pub(crate) check: fn(&Settings) -> Result<Accepted, SettingError>,
}

impl Kind {
    /// The kind of the discipline `D`.
    pub(crate) const fn of<D: Configured>() -> Self {
        Self {
            manual: D::MANUAL,
            knows_flows: D::KNOWS_FLOWS,
            check: |settings| {
                let params = D::Params::read(settings)?;
                Ok((D::limit(&params)?, Arc::new(Checked::<D>(params))))
            },
        }
    }
}

/// The parameters of the discipline `D`, checked.
pub(crate) struct Checked<D: Configured>(pub(crate) D::Params);

/// Maximum packets held, and the parameters.
pub(crate) type Accepted = (usize, Arc<dyn Erased>);

/// The parameters of any discipline, checked.
pub(crate) trait Erased: Any + Send + Sync {
    fn build(&self, now: Instant, streams: &Streams) -> Box<dyn Discipline>;
    fn apply(&self, discipline: &mut dyn Discipline, now: Instant) -> bool;
}

impl<D: Configured> Erased for Checked<D> {
    fn build(&self, now: Instant, streams: &Streams) -> Box<dyn Discipline> {
        Box::new(D::build(self.0.clone(), now, streams))
    }

    fn apply(&self, discipline: &mut dyn Discipline, now: Instant) -> bool {
        apply::<D>(discipline, &self.0, now)
    }
}

/// The manual page of a discipline, as `weir describe` prints it.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// The name in a configuration.
    pub name: &'static str,
    /// ID of the discipline's class, unique among all classes.
    pub id: u32,
    /// Purpose, in one line.
    pub purpose: &'static str,
    /// Paper, RFC or kernel file, with section or equation.
    pub source: &'static str,
    /// How the discipline works, and its use; a small picture; deviations from the source and why;
    /// the possible attacks, and their effects.
    pub text: &'static str,
    /// The parameters.
    pub parameters: &'static [Parameter],
    /// The gauges that `inspect` reports.
    pub gauges: &'static [Gauge],
}
