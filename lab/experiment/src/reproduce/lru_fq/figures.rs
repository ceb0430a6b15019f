//! Figures 5 to 7.

use super::{FIFO, HOGS, HUBS, KNOWN, NORMAL, SHARE, TCP, by_reading, limited, udp_share};
use crate::reproduce::figure::swept;
use crate::reproduce::findings::{check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Point, extremes, pairs, series};
use crate::reproduce::recipe::{Recipe, TOLERANCE, claim, line};
use crate::reproduce::samples::Samples;

/// UDP's share above what is set.
fn excess(m: &Measured, percent: u32, floods: u32) -> Samples {
    udp_share(m, percent, floods) - f64::from(percent) / 100.0
}

const FIG_5A_FLOODS: [u32; 4] = [2, 3, 4, 6];

pub(super) fn fig5a(r: &mut Recipe) {
    r.title = "Floods held at a set share of the link";
    r.notes = &[
        "R1: all floods share a hub, which is calibrated to carry 94 Mbit/s: the paper's normal \
         router delivers 89.1 to 89.8 Mbit/s of UDP payload, 93 to 94 Mbit/s on the wire, whatever \
         the number of floods, and a half-duplex hub with several senders cannot fill its 100 \
         Mbit/s.",
        "R3: the threshold of 125, printed without a unit, is 125 packets a second (1.514 Mbit/s); \
         the window of that rate is calibrated on two and three floods in this figure: 300 ms. As \
         printed: 125 packets since the admission.",
        "R2: 100 packets for each queue. R6: a first SYN timeout of 3 s. R33: TCP as in Linux \
         2.4.17: Reno with SACK, segments of 1460 B, initial window 2, windows of 64 kB, no byte \
         counting, minimum timeout 200 ms, acknowledgements delayed by 40 ms at most.",
    ];
    r.scenarios = &["lru-fq/fig5a"];
    r.readings = &["lru-fq/fig5a-pauses", "lru-fq/readings"];
    for floods in FIG_5A_FLOODS {
        let place = [("router", NORMAL.into()), ("flows", floods.into())];
        line(r, place, &["TCP share of TCP + UDP"], [0.07], [TOLERANCE])
            .ours(move |m| [limited(m, FIFO, floods).metric(SHARE)]);
    }
    let x = "share set for the queue of hogs, %";
    r.figure("UDP's share of UDP and long TCP", x, |m| {
        let percents = [10, 20, 30, 40, 50, 60, 70, 80, 90];
        let line = |n| swept!(for x in percents, "{n} floods": udp_share(m, x, n));
        FIG_5A_FLOODS.map(line).into()
    });
    claims_of_fig5a(r);
}

fn claims_of_fig5a(r: &mut Recipe) {
    let text = "With 2 or 3 floods the set limit is met down to 30 %";
    claim(r, "fig5a.1", text).calibrated(|m, f| {
        check!(f, for (n, x) in pairs(&[2, 3], &[30, 40, 50]),
            "{n} floods at {x} %, excess of UDP": between(excess(m, x, n), [-0.05, 0.05]));
        check!(f, for (n, x) in pairs(&[2, 3], &[60, 70, 80, 90]),
            "{n} floods at {x} %, excess of UDP": at_most(excess(m, x, n), 0.05));
    });
    let text = "Limits of 20 and 10 % are not met, because the scheduler is work-conserving";
    claim(r, "fig5a.2", text).calibrated(|m, f| {
        check!(f, for (n, x) in pairs(&[2, 3], &[10, 20]),
            "{n} floods at {x} %, excess of UDP": above(excess(m, x, n), 0.0));
        check!(f, for n in [2, 3], "{n} floods, excess of UDP":
            ascends(series!(for x in [30, 20, 10], "{x} %": excess(m, x, n))));
    });
    claim(r, "fig5a.3", "More floods weaken containment").measured(|m, f| {
        check!(f, for x in [50, 30], "at {x} %, UDP share of 3 and 4 floods":
            not_more(udp_share(m, x, 3), udp_share(m, x, 4)));
        check!(f, for x in [50, 30], "at {x} %, UDP share of 3 and 6 floods":
            less(udp_share(m, x, 3), udp_share(m, x, 6)));
        let pauses = |n, x: u32| {
            m.at("lru-fq/fig5a-pauses", format!("hit {x}"))
                .and("flows", n)
        };
        show!(f, m, "with floods that pause for 0.2 s at a time, UDP share":
            for (n, x) in pairs(&FIG_5A_FLOODS, &[50, 30]), "{n} floods at {x} %":
                1.0 - pauses(n, x).metric(SHARE));
    });
    let text = "The cause is floods pushed out of the cache by TCP flows";
    claim(r, "fig5a.4", text).measured(|m, f| {
        let missed = |scenario, n: u32| {
            let at = m.at(scenario, "hit 50").and("flows", n);
            (1.0 - at.metric(HOGS) / f64::from(n)).into_shares()
        };
        let of = |n, metric| limited(m, "hit 50", n).metric(metric);
        check!(f, for (n, more) in [(2, 4), (4, 6)],
            "share of flood packets in the miss queue, {n} and {more} floods":
                less(missed("lru-fq/fig5a", n), missed("lru-fq/fig5a", more)));
        check!(f, for n in [4, 6], "{n} floods, how many are not in the cache at a time":
            above(f64::from(n) - of(n, KNOWN), 0.0));
        show!(f, m, "hogs replaced in a run": for n in [4, 6], "{n} floods":
            of(n, "gauge.bottleneck.evicted_hogs"));
        show!(f, m, "floods that pause for 0.2 s at a time, share not in the hit queue":
            for n in FIG_5A_FLOODS, "{n} floods": missed("lru-fq/fig5a-pauses", n));
    });
    claim(r, "fig5a.5", "The normal router leaves TCP about 7 %").calibrated(|m, f| {
        check!(f, for n in FIG_5A_FLOODS, "{n} floods":
            between(limited(m, FIFO, n).metric(SHARE), [0.03, 0.12]));
        show!(f, m, "by what the hub carries, in Mbit/s, with three floods":
            by_reading(m, FIFO, &HUBS, SHARE));
    });
    let text = "LRU-FQ gives TCP clearly more than the normal router at every point";
    claim(r, "fig5a.6", text).calibrated(|m, f| {
        let others = [10, 20, 30, 40, 60, 70, 80];
        let share = |n, variant: &str| limited(m, variant, n).metric(SHARE);
        for (floods, percents, factor) in [
            (&FIG_5A_FLOODS[..], &others[..], 1.5),
            (&[2, 3, 4], &[50], 4.0),
            (&[6], &[50], 1.5),
        ] {
            check!(f, for (n, x) in pairs(floods, percents), "{n} floods at {x} %":
                times(share(n, &format!("hit {x}")), share(n, FIFO), factor));
        }
    });
}

const RATES: [u32; 7] = [40, 50, 60, 70, 80, 90, 100];

pub(super) fn fig5b(r: &mut Recipe) {
    r.title = "Slower floods held at a set share of the link";
    r.notes = &[
        "Readings as in lru-fq/fig5a. Three floods of 40 to 100 Mbit/s of payload together; their \
         hub carries 90 Mbit/s of payload, so the last two rates are nearly the same.",
    ];
    r.scenarios = &["lru-fq/fig5b"];
    fn share(m: &Measured, percent: u32, rate: u32) -> Samples {
        let at = m.at("lru-fq/fig5b", format!("hit {percent}"));
        1.0 - at.and("total_rate", format!("{rate} Mbit")).metric(SHARE)
    }
    fn excess(m: &Measured, percent: u32, rate: u32) -> Samples {
        share(m, percent, rate) - f64::from(percent) / 100.0
    }
    let title = "UDP's share of UDP and long TCP, three floods";
    r.figure(title, "rate of all floods together, Mbit/s", |m| {
        let line = |percent| swept!(for x in RATES, "{percent} % set": share(m, percent, x));
        [10, 20, 30, 40, 50].map(line).into()
    });

    claim(r, "fig5b.1", "Containment works at every flood rate").measured(|m, f| {
        for (percent, rates) in [(30, &RATES[..]), (40, &RATES[1..]), (50, &RATES[2..])] {
            check!(f, for &rate in rates, "{rate} Mbit/s at {percent} %, excess of UDP":
                at_most(excess(m, percent, rate), 0.05));
        }
    });
    let text = "At lower flood rates the goals are met better";
    claim(r, "fig5b.2", text).measured(|m, f| {
        check!(f, for x in [10, 20], "at {x} %, excess of UDP at 40 and at 100 Mbit/s":
            less(excess(m, x, 40), excess(m, x, 100)));
        check!(f, for x in [10, 20], "at {x} %, excess of UDP":
            rises(series!(for rate in RATES, "{rate} Mbit/s": excess(m, x, rate))));
    });
}

const CACHES: [u32; 13] = [2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 24, 32, 48];

pub(super) fn fig6(r: &mut Recipe) {
    r.title = "The size of the cache";
    r.notes = &[
        "Readings as in lru-fq/fig5a. Admission with 1/55, both queues with the same weight.",
        "Pinning: the paper names a rate-based threshold and shows no run. R3's threshold is rate-based, \
         and is used here; as printed, it counts packets, and every long TCP connection that stays \
         in the cache reaches it.",
    ];
    r.scenarios = &["lru-fq/fig6", "lru-fq/fig6-pin"];
    fn at(m: &Measured, floods: u32, cache: u32) -> Point<'_> {
        m.at("lru-fq/fig6", "no pin")
            .and("flows", floods)
            .and("cache", cache)
    }
    fn spread<'a>(of: impl Fn(u32) -> Point<'a>) -> Samples {
        let shares = CACHES[2..].iter().map(|cache| of(*cache).metric(SHARE));
        let [greatest, least] = extremes(shares);
        greatest - least
    }
    let title = "TCP's share of UDP and long TCP";
    r.figure(title, "flows in the cache", |m| {
        let line = |n| swept!(for x in CACHES, "{n} floods": at(m, n, x).metric(SHARE));
        [2, 3, 4, 5].map(line).into()
    });

    claim(r, "fig6.1", "Cache equal to the flood count is too small").measured(|m, f| {
        check!(f, for n in [2, 3, 4, 5], "{n} floods, a cache of {n}, TCP share":
            at_most(at(m, n, n).metric(SHARE), 0.4));
    });
    claim(r, "fig6.2", "A cache larger than the flood count mends it").measured(|m, f| {
        let large: [(u32, &[u32]); 3] = [
            (2, &[6, 8, 9, 12, 16, 24, 48]),
            (3, &[9, 12, 16, 24, 48]),
            (4, &[12, 16, 24, 48]),
        ];
        for (n, caches) in large {
            check!(f, for &cache in caches, "{n} floods, a cache of {cache}, TCP share":
                at_least(at(m, n, cache).metric(SHARE), 0.45));
        }
    });
    claim(r, "fig6.3", "Below that, S_tcp rises with the cache").measured(|m, f| {
        let small: [(u32, &[u32]); 4] = [
            (2, &[2, 3, 4, 5, 6]),
            (3, &[3, 4, 5, 6, 8, 9]),
            (4, &[4, 5, 6, 8, 9, 12]),
            (5, &[5, 6, 8, 9, 12]),
        ];
        check!(f, for (n, caches) in small, "{n} floods, TCP share":
            rises(series!(for &x in caches, "cache {x}": at(m, n, x).metric(SHARE))));
    });
    claim(r, "fig6.4", "A very large cache lets TCP flows in").measured(|m, f| {
        let hit = "class_packets.bottleneck.long.1";
        check!(f, for n in [2, 3, 4, 5],
            "{n} floods, TCP packets from the hit queue, cache of 12 and of 48":
                less(at(m, n, 12).metric(hit), at(m, n, 48).metric(hit)));
        show!(f, m, "TCP share by cache": for (cache, n) in pairs(&[12, 24, 32, 48], &[2, 3, 4, 5]),
            "{n} floods {cache}": at(m, n, cache).metric(SHARE));
    });
    let text = "Pinning by a rate threshold lowers sensitivity to the cache size";
    claim(r, "fig6.5", text).measured(|m, f| {
        let pinned = |variant| spread(|cache| m.at("lru-fq/fig6-pin", variant).and("cache", cache));
        check!(f, "spread of the TCP share over caches of 4 to 48, pinned and not pinned":
            less(pinned("pin"), spread(|cache| at(m, 3, cache))));
        show!(f, m, "pinned from 10 Mbit/s on": pinned("pin at 10 Mbit/s"));
    });
}

pub(super) fn fig7(r: &mut Recipe) {
    r.title = "The total, by the size of the cache and by the number of flows";
    r.notes = &[
        "R8: the text decides which figure is which. The paper asks whether its router keeps up; a \
         simulation has no processor that could be too slow. Only the queues' half is decided here: splitting the \
         link loses nothing of it. `weir bench discipline` measures the cost of a packet.",
    ];
    r.scenarios = &["lru-fq/fig7"];
    const QUEUES: &str = "of the queues only: a simulation has no processor";
    fn total(m: &Measured, flows: u32, queues: &str) -> Samples {
        m.at("lru-fq/fig7", format!("flows {flows} {queues}"))
            .metric(TCP)
    }
    claim(r, "fig7a.1", "Aggregate does not depend on the cache size").measured(|m, f| {
        check!(f, for cache in [5, 10, 20, 40, 60, 100], "cache of {cache} to normal, Mbit/s":
            within(total(m, 30, &format!("cache {cache}")), total(m, 30, FIFO), 0.02));
        f.remark(QUEUES);
    });
    let text = "Aggregate does not depend on the flow count, up to 150";
    claim(r, "fig7b.1", text).measured(|m, f| {
        check!(f, for n in [5, 10, 30, 60, 100, 150], "{n} flows, LRU-FQ to normal, Mbit/s":
            within(total(m, n, "cache 60"), total(m, n, FIFO), 0.02));
        f.remark(QUEUES);
    });
    let why = "a bench: a simulation has no processor. `weir bench discipline` measures \
        nanoseconds per packet by flows and by cache";
    claim(r, "fig7b.2", "Packet cost stays level").not_run(why);
}
