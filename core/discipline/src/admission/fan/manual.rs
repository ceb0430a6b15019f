//! The manual page.

use weir_base::gauge::{Gauge, Unit};

use super::params::Params;
use crate::contract::Manual;
use crate::params::Parameters;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "fan",
    id: 0x00F7_0206,
    purpose: "flow-aware networking: no new flows on a congested link, streaming flows first, elastic ones fair",
    source: "Domzal et al., Int. J. Communication Systems 2015: sections 1 to 3, equations 1, 2, 8, Figures 1 to 5",
    text: "\
Admission control in front of a scheduler. While the link is not congested, every packet passes, and its
flow is written on the protected flow list. While it is, only flows on the list pass: those that were
accepted keep what they have, and new ones wait. A flow that is silent for `flow_timeout` leaves the list.

              on the list, or not congested
    arrivals --> [ admission control ] --> [ scheduler ] --> link
                   | protected flow list       |  ^
                   +--> refused                +--+ fair rate, priority load

The link is congested while the fair rate FR is below `min_fair_rate` of the link's rate C, or the priority
load PL above `max_priority_load` of it. Both are measured, each over an interval of its own:

    FR = max(S C, 8 FB) / (t2 - t1)      S   time in which nothing was sent, in seconds
    PL = 8 (pb(t2) - pb(t1)) / C (t2 - t1)
    FB  with `afan` the bytes of elastic packets sent, each divided by the number of active elastic flows
        at that time; with `pfq` and `pdrr` what a fictitious flow would have been served
    pb  bytes of priority packets: sent with `afan`, arrived with `pfq` and `pdrr`

Nobody declares the kind of a flow. A flow is elastic as soon as more than an `mtu` of it waits, else
it is streaming; the scheduler serves streaming packets first.

So that streaming flows need not wait until an elastic one ends, a mechanism lets new flows in now and
then: when a packet of a new flow comes, and the fair rate has been too low for longer than `interval`.

    none    nobody gets in
    efm     all elastic flows leave the list
    raef    elastic flows that were accepted `active_time` ago
    rbaef   the same, and they may not come back for `blocked_time`
    rpaef   the same, and for `priority_time` they come back before others, each packet of which gets its
            flow in with the chance `priority_admission`
    efmp    one flow leaves at each run, the one that began first or the one with most bytes
            waiting (`efmp`); when the fair rate is high enough, all of them come back
    ramaf   as many of those with most bytes waiting as there are more elastic flows than
            1 / min_fair_rate - 1; when the fair rate is high enough they come back; at the next
            estimate elastic flows that came in since leave again
    eccm    the fair rate is taken to be high enough for half of `fair_rate_interval`, and then estimated
            again; after the whole interval elastic flows that came in that time leave again

Choosing parameters. `interval` is the longest that a stream should wait: ITU-T E.721 asks for 6 s within a
country, 11 s across the world. `min_fair_rate` decides how many elastic flows share a busy link: at
0.05 about twenty. Only the chosen scheduler uses its own parameters; `limit`, `mtu` and `rate`
are for all. Changing the scheduler at run time keeps the list; packets that wait leave first.
Changing the mechanism ends a run, and flows that were set aside wait like new ones.

Defaults. Intervals, limits of congestion, `flow_timeout` and what `afan` uses are the paper's, for 100
Mbit/s. It is silent on `active_time`, `blocked_time`, `priority_time` and `priority_admission`, and on the
sizes of the lists. Those are ours: `flows` has room for the 8750 streams of 80 kbit/s that make
`max_priority_load` of 1 Gbit/s.

Decisions where the paper is silent. A full list replaces the flow that is silent for longest, if it is
for a second at least; otherwise the new flow passes without being listed, as long as the link is not
congested. A full table of waiting flows forgets the one that is silent for longest: its delay is counted
from zero. A waiting flow silent for 75 s waits no more. A packet that begins a run is decided about after it.
A run that concerns many flows takes 256 at a time, each millisecond. For `efmp` a flow that comes back began
when it was accepted for the first time; to find the oldest it reads all elastic flows. Which of
them is the most active is known to the nearest 1024 bytes. Measuring rests while nothing comes.

Deviations. The second and third step of `eccm` are driven by timers: in the paper's Figure 4 they are
made when a packet of a new flow comes in congestion, which its first step has just ended, so that the
procedure stays in it; `eccm = \"literal\"` shows that. The figure's text wants estimates to start again
after half an interval: they start with one. Its line 21 deletes new flows of which an MTU or more waits;
more than one must wait here, as its text has it: a packet of that size makes no flow elastic. Equation 8
counts the flows of the list; `ramaf` counts the elastic ones, whom the fair rate concerns (all of them with
`ramaf = \"listed\"`), and takes none with an `mtu` or less waiting. The rate of a
link that is not paced is taken as 1 Gbit/s; set `rate` there.

An attacker with a new address on every packet fills the list while the link is not congested: its flows
are those that are silent, so they leave for others, and flows that send at least once a second stay.
Its packets all pass until the priority load is found too high, and none in the next
`priority_load_interval`: on average it has less than `max_priority_load`, and others get in between. One
who opens many flows that each stay below an `mtu` mimics streams. If they come one after the other, they
get no more than `max_priority_load` before no further flow is accepted; those that come within one
`priority_load_interval` are all accepted, and fill the link. They are never removed, and while the priority
load is too high no mechanism lets anybody in. Elastic flows by the thousand share what their number makes;
on the list each is worth as much as any other, so a sender that opens more gets more. `raef`, `rbaef` and
`rpaef` spare flows that came less than `active_time` before a run, and remove older ones. A flow that
is kept alive by a packet in `flow_timeout` keeps its place for ever.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::level(101, "fair_rate", Unit::BitsPerSecond, "latest estimate of the fair rate"),
        Gauge::level(102, "priority_load", Unit::PerMillion,
            "latest estimate of the priority load, as a share of the link's rate"),
        Gauge::level(103, "congested", Unit::One, "1 while new flows are refused"),
        Gauge::level(104, "flows", Unit::One, "flows on the protected flow list"),
        Gauge::level(105, "elastic", Unit::One, "of these, flows of which more than an mtu waited at some time"),
        Gauge::level(106, "streaming", Unit::One, "of these, the others"),
        Gauge::level(107, "waiting", Unit::One, "flows that wait to be accepted"),
        Gauge::level(108, "set_aside", Unit::One, "flows that were removed and are remembered: blocked, or to come back first"),
        Gauge::level(109, "set_aside_most", Unit::One, "the most that there ever were of these"),
        Gauge::counter(110, "accepted", Unit::One, "flows accepted"),
        Gauge::counter(111, "accepted_late", Unit::One, "of these, flows that had to wait"),
        Gauge::counter(112, "accepted_in_runs", Unit::One, "of these, flows that a run of the mechanism let in"),
        Gauge::counter(113, "delay_sum", Unit::Milliseconds, "sum of the acceptance delays of accepted flows"),
        Gauge::counter(114, "unlisted", Unit::One, "flows accepted, packet by packet, without a place on the full list"),
        Gauge::counter(115, "refused", Unit::Packets, "packets that were not admitted"),
        Gauge::counter(116, "timed_out", Unit::One, "flows that left the list because they were silent"),
        Gauge::counter(117, "replaced", Unit::One, "flows that left the full list for new ones"),
        Gauge::counter(118, "forgotten", Unit::One, "waiting flows that were forgotten because their table was full"),
        Gauge::counter(119, "runs", Unit::One, "runs of the mechanism"),
        Gauge::counter(120, "flows_before_runs", Unit::One, "sum of the flows on the list at the beginning of each run"),
        Gauge::counter(121, "removed", Unit::One, "flows that runs removed"),
        Gauge::counter(122, "removed_established", Unit::One, "flows removed that were older than fair_rate_interval"),
        Gauge::counter(123, "removed_new", Unit::One, "new elastic flows that the end of a run removed"),
        Gauge::counter(124, "returned", Unit::One, "removed flows that came back on the list"),
        Gauge::counter(125, "list_reads", Unit::One, "flows that runs read"),
        Gauge::counter(126, "list_writes", Unit::One,
            "flows that runs set aside or put back, or for eccm the values that it wrote"),
        Gauge::counter(127, "clean_up_reads", Unit::One, "flows read to remove new elastic ones"),
    ],
};
