//! The manual page.

use weir_base::gauge::{Gauge, Unit};

use super::params::Params;
use crate::contract::Manual;
use crate::params::Parameters;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "fan",
    id: 0x00F7_0206,
    purpose: "flow-aware networking: no new flows on a congested link, streaming flows first, elastic flows fair",
    source: "Domzal et al., Int. J. Communication Systems 2015: sections 1 to 3, equations 1, 2, 8, Figures 1 to 5",
    text: "\
Admission control in front of a scheduler. While the link is not congested, every packet passes, and its
flow is added to the protected flow list. While the link is congested, only flows on the list pass:
accepted flows continue, and new flows wait. A flow that is silent for `flow_timeout` leaves the list.

              on the list, or not congested
    arrivals --> [ admission control ] --> [ scheduler ] --> link
                   | protected flow list       |  ^
                   +--> refused                +--+ fair rate, priority load

The link is congested while the fair rate FR is below `min_fair_rate` of the link's rate C, or while the
priority load PL is above `max_priority_load` of it. Each is measured over its own interval:

    FR = max(S C, 8 FB) / (t2 - t1)      S   time in which nothing was sent, in seconds
    PL = 8 (pb(t2) - pb(t1)) / C (t2 - t1)
    FB  with `afan` the bytes of elastic packets sent, each divided by the number of active elastic flows
        at that time; with `pfq` and `pdrr` the bytes that a fictitious flow would have been served
    pb  bytes of priority packets: sent with `afan`, arrived with `pfq` and `pdrr`

Flows do not declare their kind. A flow becomes elastic as soon as more than an `mtu` of it waits; until
then it is streaming. The scheduler serves streaming packets first.

Without help, a streaming flow would wait until an elastic flow ends. So a mechanism admits new flows from
time to time: it runs when a packet of a new flow arrives, and the fair rate has been too low for longer
than `interval`.

    none    admits no new flow
    efm     removes all elastic flows from the list
    raef    removes elastic flows that were accepted at least `active_time` ago
    rbaef   like `raef`, and the removed flows must stay away for `blocked_time`
    rpaef   like `raef`, and for `priority_time` the removed flows return before others; each packet of
            another new flow admits its flow with the probability `priority_admission`
    efmp    removes one flow per run, the oldest or the one with most bytes waiting (parameter `efmp`);
            when the fair rate is high enough, all of them return
    ramaf   removes the flows with most bytes waiting, as many as there are elastic flows beyond
            1 / min_fair_rate - 1; when the fair rate is high enough they return; at the next estimate
            elastic flows that were accepted since then are removed again
    eccm    assumes a sufficient fair rate for half of `fair_rate_interval`, then estimates it again;
            after the whole interval elastic flows that were accepted in that time are removed again

Choosing parameters. `interval` is the longest time that a stream should wait: ITU-T E.721 recommends 6 s
within a country, 11 s worldwide. `min_fair_rate` determines how many elastic flows share a busy link: at
0.05 about twenty. Only the selected scheduler uses its own parameters; `limit`, `mtu` and `rate` apply to
all. A change of the scheduler at run time keeps the list; packets that are already queued leave first. A
change of the mechanism ends its run, and flows that were set aside wait like new flows.

Defaults. Intervals, congestion limits, `flow_timeout` and the parameters of `afan` are the paper's, for
100 Mbit/s. The paper gives no values for `active_time`, `blocked_time`, `priority_time`,
`priority_admission` and the sizes of the lists. Those are ours: `flows` has room for the 8750 streams of
80 kbit/s that make `max_priority_load` of 1 Gbit/s.

Decisions where the paper is silent. A full list replaces the flow that has been silent for longest, if
that is at least a second; otherwise the new flow passes without a list entry while the link is not
congested. A full table of waiting flows forgets the flow that has been silent for longest: its delay is
then counted from zero. A waiting flow that is silent for 75 s is no longer counted as waiting. The packet
that starts a run is decided about after that run. A run that concerns many flows processes 256 of them
each millisecond. For `efmp`, the age of a returning flow counts from its first admission; to find the
oldest flow, `efmp` reads all elastic flows. The most active flow is known to the nearest 1024 bytes.
Measuring pauses while no packets arrive.

Deviations. Timers drive the second and third step of `eccm`. In the paper's Figure 4 these steps run when
a packet of a new flow arrives in congestion, which the first step has just ended, so the procedure never
leaves it; `eccm = \"literal\"` reproduces that. The text of the figure says that estimates restart after
half an interval: here they restart with an estimate. Line 21 of the figure deletes new flows with an MTU
or more waiting; here more than one MTU must wait, as in the paper's text, because a packet of that size
does not make a flow elastic. Equation 8 counts the flows of the list; `ramaf` counts the elastic flows,
which the fair rate concerns (with `ramaf = \"listed\"` it counts all), and removes none that has an `mtu` or
less waiting. The rate of a link that is not paced is taken as 1 Gbit/s; set `rate` there.

An attacker with a new address on every packet fills the list while the link is not congested. Its flows
are silent after their first packet, so the list replaces them, and flows that send at least once a second
stay. All its packets pass until the measured priority load is too high, and none in the next
`priority_load_interval`: on average it gets less than `max_priority_load`, and other flows are admitted in
between. An attacker that opens many flows, each below an `mtu`, mimics streams. If they start one after
the other, they get at most `max_priority_load` before no further flow is accepted; flows that start within
one `priority_load_interval` are all accepted, and fill the link. They are never removed, and while the
priority load is too high no mechanism admits any flow. Thousands of elastic flows share the link by
number: each flow on the list counts the same, so a sender that opens more flows gets more. `raef`, `rbaef`
and `rpaef` spare flows that were accepted less than `active_time` before a run, and remove older flows. A
flow that sends one packet in each `flow_timeout` keeps its list entry forever.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::level(101, "fair_rate", Unit::BitsPerSecond, "latest estimate of the fair rate"),
        Gauge::level(102, "priority_load", Unit::PerMillion,
            "latest estimate of the priority load, as a share of the link's rate"),
        Gauge::level(103, "congested", Unit::One, "1 while new flows are refused, else 0"),
        Gauge::level(104, "flows", Unit::One, "flows on the protected flow list"),
        Gauge::level(105, "elastic", Unit::One, "listed flows that had more than an mtu waiting at some time"),
        Gauge::level(106, "streaming", Unit::One, "listed flows that never had more than an mtu waiting"),
        Gauge::level(107, "waiting", Unit::One, "flows that are waiting to be accepted"),
        Gauge::level(108, "set_aside", Unit::One, "removed flows that are remembered: blocked, or with priority on \
                                                   return"),
        Gauge::level(109, "set_aside_most", Unit::One, "maximum number of remembered flows since the start"),
        Gauge::counter(110, "accepted", Unit::One, "flows accepted"),
        Gauge::counter(111, "accepted_late", Unit::One, "accepted flows that had to wait"),
        Gauge::counter(112, "accepted_in_runs", Unit::One, "accepted flows that a run of the mechanism admitted"),
        Gauge::counter(113, "delay_sum", Unit::Milliseconds, "sum of the acceptance delays of accepted flows"),
        Gauge::counter(114, "unlisted", Unit::One, "packets admitted while the full list had no entry for their flow"),
        Gauge::counter(115, "refused", Unit::Packets, "packets that were not admitted"),
        Gauge::counter(116, "timed_out", Unit::One, "flows removed from the list because they were silent"),
        Gauge::counter(117, "replaced", Unit::One, "flows removed from the full list for new flows"),
        Gauge::counter(118, "forgotten", Unit::One, "waiting flows that were forgotten because their table was full"),
        Gauge::counter(119, "runs", Unit::One, "runs of the mechanism"),
        Gauge::counter(120, "flows_before_runs", Unit::One, "sum of the numbers of listed flows at the start of each \
                                                             run"),
        Gauge::counter(121, "removed", Unit::One, "flows removed by runs"),
        Gauge::counter(122, "removed_established", Unit::One, "removed flows that were older than fair_rate_interval"),
        Gauge::counter(123, "removed_new", Unit::One, "new elastic flows removed at the end of a run"),
        Gauge::counter(124, "returned", Unit::One, "removed flows that returned to the list"),
        Gauge::counter(125, "list_reads", Unit::One, "flows read by runs"),
        Gauge::counter(126, "list_writes", Unit::One,
            "flows that runs set aside or restored; for eccm the values that it wrote"),
        Gauge::counter(127, "clean_up_reads", Unit::One, "flows read in order to remove new elastic flows"),
    ],
};
