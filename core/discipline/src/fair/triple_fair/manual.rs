//! The manual page and the parameters.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};

use crate::aqm::codel::{Control, ECN, INTERVAL, TARGET};
use crate::contract::Manual;
use crate::fair::hosts::{HOSTS, Hosts as Ends};
use crate::params::{Parameters, params};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "triple_fair",
    id: 0x00F7_0214,
    purpose: "fair between sources, destinations and flows at once, in fixed memory",
    source: "ours; after STFQ, DRR++, CAKE's triple isolation, CoDel (RFC 8289)",
    text: "\
A host that sends less than its share of the link does not wait for hosts that send more; and a flow that
sends less than its share of its host's part does not wait for that host's other flows. Everything else is
shared: the link between the sending hosts and between the receiving hosts, a host's part between its
flows.

    packet -- its flow has a queue ------------------> [ | | ]   2048 queues of flows
       +----- its flow may wait in a shared queue ---> there     (no flow is ever reordered)
       +----- its host has had enough new flows -----> [ | | | ] 512 queues of hosts
       +----- otherwise --- a free queue, at once ---> [ ]       or, if none is empty, one of 16 bins

Shares. A backlogged queue is heavy, and heavy queues are served by start tags (STFQ). The price of a byte
is the number of heavy queues of its source, times the load of its destination, which is the sum of the
parts of their shares that sources want to send there. So a source has one share no matter how many flows
it opens, and a destination to which a thousand sources send has no more than a destination with a single
source.

Light flows. Each flow, each source and each destination has a clock, which its bytes advance by their
price, and which an idle time resets. A clock that is not ahead of the virtual time has used no more than
its share. A flow whose queue was empty is light if it is at most one full frame ahead, and its hosts at
most two. The hosts of a familiar flow, of which two packets have been served, may be eight frames ahead,
or sixteen if the flow is less than half a frame ahead. Light queues are served before heavy queues, each
kind in the order of arrival: familiar flows that are less than half a frame ahead, new flows, other
familiar flows, all from sources that have been served 16 packets; then flows of strangers. The heavy flows
of a host pay for its light flows: a host has one share, not one share of each kind. For these they pay at
most seven times their own price, and the heavy flows of a destination pay for other sources at most their
own price once, so that they never stop. A familiar flow of small packets, of which less than a frame
waits, pays only for itself. The light flows of a host may always use a fiftieth of the bandwidth of all
heavy flows, and its familiar flows a 25th.

Strangers are sources of which fewer than 16 packets have been served. All strangers at a destination share
one further clock, with the weight of one or two sources. While heavy queues of trusted sources wait, all
strangers get at most every other byte. Once they are 32 frames ahead at a destination, further flows of
strangers are refused there, and light packets of strangers that have waited for 100 ms are dropped, down
to 64 flows. The last eighth of the queues, and half of the memory for hosts, is reserved for trusted
sources, and their familiar flows keep their queues through a second of silence, regardless of the number
of strangers. Forged addresses that change all the time stay strangers; an address that is forged 16 times
is trusted.

Bounds. A light packet of a trusted source waits for the packet that is being sent, for light packets of
its kind that arrived earlier, and for those of the kinds served before it: from each source at most 17
full frames of familiar flows and 3 of new flows, and 11 and 2 more for each doubling between the loads of
the destinations to which that source sends. It never waits for heavy packets, nor for strangers. The
virtual time stands still while only light queues are served, so a flow within its share may become heavy
in that time; it waits for at most 9 kB of strangers, and for the bytes by which each source is ahead.
Heavy queues send 9 kB after each 9 kB of strangers, and no trusted host sends more than its share and
these credits before them. So no queue starves under any traffic. The time of a step does not depend on the
number of flows, except for the search for the fullest host (once in up to 64 drops, at worst for each
packet) and the drop of overdue packets in one queue.

Each queue is under CoDel. Its target is the queue's own target or 100 ms divided by the number of busy
queues, whichever is greater; its own target begins at `target`, doubles (up to 40 ms) when the queue runs
empty within a second after a drop, and falls slowly: so a single sender with a long round-trip time fills
the link. With many busy queues each keeps up to four more packets, because a sender with fewer than four
packets in flight detects a loss only by a timeout. A queue that is late, and that at each turn for a
second has been six frames longer than it may stay, has senders who ignore drops: it loses its packets that
have waited for 100 ms, down to two, counts as a stranger's queue, and pays at least the mean price of
trusted sources. Shared queues lose such packets as well. When the limit is reached, the host with most
packets (times the number of active hosts at its end) loses up to 64 packets at the head of its longest
queue.

Defaults. Target and interval are RFC 8290's. The limit is 0.5 s of full frames at 100 Mbit/s. The number
of queues is fixed; with this limit the whole state takes 1 MB. This is room for a thousand hosts with two
flows each, and for the memory of 2048 hosts at each end.

A host is an IPv4 address, or an IPv6 /64, because the owner of one address of a /64 has all of its
addresses. Behind a NAT all hosts of a home have one address, and share one source's part: set `hosts =
\"destination\"` there, or \"source\" for incoming traffic. The values with `prefix` count a /56 (a /24 of
IPv4) as one host. A tunnel is one flow, regardless of its contents.

Deviations: this is not a published algorithm. Light flows are the sparse flows of DRR++ and CAKE, but
defined by start tags, and for hosts as well; CAKE gave the isolation of both ends, but takes the greater
load, not the product.

An attacker with one address has one source's share, no matter how many flows it opens, and even if it
sends a packet whenever its queue has run empty. With forged addresses it gets the share of its
destination, and with forged addresses and destinations half of the link. Its victim shares its part with
the attack: trusted sources keep a quarter of it or more. An attacker with a thousand real addresses and
destinations gets a thousand shares. A host that floods from a thousand ports may lose its own call.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(
            101,
            "fullest_host",
            Unit::Packets,
            "packets dropped from the host with most packets, to make room",
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
            "packets that joined the shared queue of a host",
        ),
        Gauge::counter(105, "bins", Unit::Packets, "packets that joined a bin"),
        Gauge::counter(
            106,
            "evicted",
            Unit::One,
            "flows whose empty queue another flow took over",
        ),
        Gauge::counter(
            110,
            "late",
            Unit::Packets,
            "packets that waited for too long: from senders who ignore drops, in shared queues, from strangers",
        ),
        Gauge::counter(
            111,
            "refused",
            Unit::Packets,
            "packets of new strangers' flows to a destination that has had too many",
        ),
        Gauge::level(107, "busy", Unit::One, "queues that are waiting for a turn"),
        Gauge::level(
            108,
            "sources",
            Unit::One,
            "sources with a queue that is waiting for a turn",
        ),
        Gauge::level(
            109,
            "destinations",
            Unit::One,
            "destinations with a queue that is waiting for a turn",
        ),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// Which hosts are fair to each other.
        pub hosts: Ends = HOSTS.id(1),
        /// The control law of each queue.
        pub control: Control => [TARGET.id(2), INTERVAL.id(3), ECN.id(4)],
        /// Maximum packets held.
        pub limit: usize = Parameter::new("limit", Kind::Count(1, 1_000_000), "4096 packets",
            "maximum packets held").id(5),
    }
}
