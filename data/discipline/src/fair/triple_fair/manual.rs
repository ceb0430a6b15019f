//! The manual page and the parameters.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError, Settings};

use crate::aqm::codel::{Control, ECN, INTERVAL, TARGET};
use crate::contract::Manual;
use crate::fair::hosts::{HOSTS, Hosts as Ends};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "triple_fair",
    id: 0x00F7_0214,
    purpose: "fair between sources, destinations and flows at once, in fixed memory",
    source: "ours; after LRU-FQ, STFQ, CAKE's triple isolation, CoDel (RFC 8289)",
    text: "\
Every flow that waits has a queue of its own, as long as there are some, and turns go by start tags (STFQ).
A byte of a flow costs as much as its source has busy queues, times the load of its destination: the sum
of the parts of their shares that sources want to send there. So sources share the link, each source's
flows share its part, and a destination to which a thousand sources send has no more than another one with
a single source.

    packet -- its flow has a queue ------------------> [ | | ]   256 queues of flows
       +----- its flow may wait in a shared queue ---> there     (no flow is ever reordered)
       +----- its host has too many of the queues ---> [ | | | ] 32 queues of hosts
       +----- otherwise --- a free queue, at once ---> [ ]       or, if none is empty, one of 8 bins

A flow's queue stays its own until it is one of those that have been empty for longest when another flow needs
one. While most of the queues are busy, a source with more than its part of them, or a destination to which
too many sources send, gets one queue for all its further flows, whose turns count for as many flows as seem
to wait in it; a source's pays the mean of its destinations' loads. A new flow never waits for a lottery or a
threshold, and its first 15 kB go before others.

Sources and destinations have tags of their own, because a host of which only single packets wait would
never be charged. Whoever is ahead of its share by more than eight full frames begins as much later. A source
of which 64 packets have passed is trusted: its destination does not delay it, and beside it all strangers
together count as two sources at most. Forged addresses do not last that long.

A queue that stays above its target, although packets have been dropped for a second, is of senders who
ignore drops. As long as they do, it counts as a stranger's, and pays no less than trusted sources do in the
mean. So four hosts that send to one server have four fifths of the link beside a fifth one that floods
another address.

Each queue is under CoDel. Its target is the greater of its own and 100 ms divided by the busy queues; its
own begins at `target`, doubles (to 40 ms) when the queue runs empty within a second after a drop, and falls
slowly: one sender with a long round trip keeps the link. With many busy queues each keeps some more
packets, because a sender with fewer than four under way notices a loss only by its timer. When the limit is
reached, the host with most packets (times the active hosts of its end) loses up to 16 at the head of its
longest queue.

Defaults. Target and interval are RFC 8290's. The limit is 0.5 s of full frames at 100 Mbit/s. The number of
queues is fixed; with this limit all state is in 256 kB.

Behind a NAT all hosts of a home have one address, and share one source's part: say `hosts =
\"destination\"` there, or \"source\" on the way in. With IPv6 a host has addresses enough without
forging: the words with `prefix` count a /56 (a /24 of IPv4) as one host.

Deviations: it is no published algorithm. LRU-FQ gave the fixed cache of flows, but its lottery is gone, since
it delays honest flows; CAKE gave the isolation of both ends, but takes the greater load, not the product.

An attacker with one address has one source's share, whatever it opens, and also if it sends a packet whenever
its queue has run empty; with forged addresses it has what its destination has. Whom it attacks shares that
part with the attack: trusted sources keep a third of it or more. An attacker with a thousand real addresses
and destinations gets a thousand shares. A flood that fills `limit` loses its own packets. Who ignores drops
has what a responding source has, not less: a greater penalty would be for whomever a flood names as its
source.",
    parameters: &[
        HOSTS.id(1),
        TARGET.id(2),
        INTERVAL.id(3),
        ECN.id(4),
        LIMIT.id(5),
    ],
    gauges: &[
        Gauge::counter(
            101,
            "fullest_host",
            Unit::Packets,
            "packets that the host with most of them lost to make room",
        ),
        Gauge::counter(
            102,
            "dropped",
            Unit::Packets,
            "packets dropped by the control law",
        ),
        Gauge::counter(
            103,
            "marked",
            Unit::Packets,
            "packets marked by the control law",
        ),
        Gauge::counter(
            104,
            "shared",
            Unit::Packets,
            "packets that came to the shared queue of a host",
        ),
        Gauge::counter(105, "bins", Unit::Packets, "packets that came to a bin"),
        Gauge::counter(
            106,
            "evicted",
            Unit::One,
            "flows whose empty queue another flow took",
        ),
        Gauge::level(107, "busy", Unit::One, "queues that wait for a turn"),
        Gauge::level(
            108,
            "sources",
            Unit::One,
            "sources with a queue that waits for a turn",
        ),
        Gauge::level(
            109,
            "destinations",
            Unit::One,
            "destinations with a queue that waits for a turn",
        ),
    ],
};

/// The `limit` parameter.
const LIMIT: Parameter = Parameter::new(
    "limit",
    Kind::Count(1, 1_000_000),
    "4096 packets",
    "maximum packets held",
);

/// Parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Which hosts are fair to each other.
    pub hosts: Ends,
    /// The control law of each queue.
    pub control: Control,
    /// Maximum packets held.
    pub limit: usize,
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        Ok(Self {
            hosts: Ends::new(settings),
            control: Control::new(settings)?,
            limit: settings.count("limit") as usize,
        })
    }
}
