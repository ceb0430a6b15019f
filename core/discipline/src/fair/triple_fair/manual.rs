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
A host that sends less than its share of the link does not wait for hosts that want more; and a flow that
sends less than its share of its host's part does not wait for that host's other flows. Everything else is
shared: the link between the hosts that send and between those that receive, a host's part between its
flows.

    packet -- its flow has a queue ------------------> [ | | ]   2048 queues of flows
       +----- its flow may wait in a shared queue ---> there     (no flow is ever reordered)
       +----- its host has had enough new flows -----> [ | | | ] 512 queues of hosts
       +----- otherwise --- a free queue, at once ---> [ ]       or, if none is empty, one of 16 bins

The shares. A queue that is backlogged is heavy, and heavy queues have their turns by start tags (STFQ). A
byte of one costs as much as its source has heavy queues, times the load of its destination: the sum of
the parts of their shares that sources want to send there. So a source has one share whatever it opens,
and a destination to which a thousand sources send has no more than another one with a single source.

Who is light. Each flow, each source and each destination has a clock, which its bytes advance by their
price, and which an idle time sets right. A clock that is not ahead of the virtual time has used no more
than its share. A flow whose queue was empty is light if it is at most one full frame ahead, and its hosts
at most two. The hosts of a familiar flow, of which two packets have been served, may be eight frames
ahead, or sixteen if it is less than half a frame ahead. Light queues have their turns before heavy ones,
each kind in the order of arrival: familiar flows that are less than half a frame ahead, new flows, other
familiar ones, all of sources that have been served 16 packets; then flows of strangers. The heavy flows of
a host pay for its light flows: a host has one share, not one share of each kind. They pay seven times as
much as for themselves at most, and those of a destination for other sources once, so that they never stop.
A familiar flow of small packets, of which less than a frame waits, pays only for itself. The light flows of
a host may always have a fiftieth of what all heavy flows have, and the familiar ones a 25th.

Strangers are sources of which fewer than 16 packets were served. All of them at a destination have one
more clock together, with the weight of one or two sources. While heavy queues of trusted sources wait, all
strangers have at most every other byte. Once they are 32 frames ahead at a destination, further flows of
theirs are refused there, and light packets of strangers that have waited for 100 ms are dropped, down to
64 flows. The last eighth of the queues, and half of the memory for hosts, is for trusted sources, and a
familiar flow of theirs keeps its queue for a second of silence, whatever strangers come. Forged addresses
that change all the time stay strangers; one that is forged 16 times is trusted.

Bounds. A light packet of a trusted source waits for the packet that is being sent, for light packets of its
kind that came before it, and for those of earlier kinds: from each source at most 17 full frames of
familiar flows and 3 of new ones, and 11 and 2 more for each doubling between the loads of the destinations
to which that source sends. It never waits for heavy packets, nor for strangers. The virtual time stands
still while only light queues have turns, so a flow within its share may become heavy then; it waits for at
most 9 kB of strangers, and for what each source is ahead. Heavy queues send 9 kB after each 9 kB of
strangers, and no trusted host sends more than its share and these credits before them. So no queue starves
under any traffic. A step takes a time that does not depend on the number of flows, but for the walk that
finds the fullest host (once in up to 64 drops, at worst for each packet) and the drop of what is late in
one queue.

Each queue is under CoDel. Its target is the greater of its own and 100 ms divided by the busy queues; its
own begins at `target`, doubles (to 40 ms) when the queue runs empty within a second after a drop, and
falls slowly: one sender with a long round trip keeps the link. With many busy queues each keeps up to
four more packets, because a sender with fewer than four under way notices a loss only by its timer. A
queue that has been six frames longer than what it keeps at each turn for a second, and late, is of
senders who ignore drops: it loses its packets that have waited for 100 ms, down to two, counts as a
stranger's, and pays at least the mean price of trusted sources. Shared queues lose such packets, too.
When the limit is reached, whoever has most packets (times the active hosts of its end) loses up to 64 at
the head of its longest queue.

Defaults. Target and interval are RFC 8290's. The limit is 0.5 s of full frames at 100 Mbit/s. The number
of queues is fixed; with this limit all state is in 1 MB. This is room for a thousand hosts with two flows
each, and for the memory of 2048 hosts at each end.

A host is an address of IPv4, and a /64 of IPv6, because whoever has one has all of its addresses. Behind
a NAT all hosts of a home have one address, and share one source's part: say `hosts = \"destination\"`
there, or \"source\" on the way in. The words with `prefix` count a /56 (a /24 of IPv4) as one host. A
tunnel is one flow, whatever it carries.

Deviations: it is no published algorithm. Light flows are the sparse flows of DRR++ and CAKE, but defined
by start tags, and for hosts, too; CAKE gave the isolation of both ends, but takes the greater load, not
the product.

An attacker with one address has one source's share, whatever it opens, and also if it sends a packet
whenever its queue has run empty; with forged addresses it has what its destination has, and with forged
addresses and destinations half of the link. Whom it attacks shares its part with the attack: trusted
sources keep a quarter of it or more. An attacker with a thousand real addresses and destinations gets a
thousand shares. A host that floods from a thousand ports may lose its own call.",
    parameters: Params::TABLE,
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
        Gauge::counter(
            110,
            "late",
            Unit::Packets,
            "packets that waited for too long: of senders who ignore drops, in shared queues, of strangers",
        ),
        Gauge::counter(
            111,
            "refused",
            Unit::Packets,
            "packets of strangers' new flows to a destination that has had too many",
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
