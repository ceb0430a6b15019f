//! Figures 6 and 7: the size of the cache, and the number of flows.

use super::SHARE;
use crate::reproduce::figure::Figure;
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Recipe, claim, not_run};

const RUNS: &str = "lru-fq/fig6";
const PIN_RUNS: &str = "lru-fq/fig6-pin";
const FIG7_RUNS: &str = "lru-fq/fig7";

/// The caches of Figure 6.
const CACHES: [u32; 13] = [2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 24, 32, 48];

pub(super) const FIG6: Recipe = Recipe {
    id: "lru-fq/fig6",
    title: "The size of the cache",
    notes: &[
        "Readings as in lru-fq/fig5a. Admission with 1/55, both queues with the same weight.",
        "Pinning: the paper names a rate-based threshold and shows no run. R3's threshold is one, and decides; as printed it \
         counts packets, which every long TCP connection reaches that stays in the cache.",
    ],
    scenarios: &[RUNS, PIN_RUNS],
    readings: &[],
    tables: &[],
    figures: &[Figure {
        title: "TCP's share of UDP and long TCP",
        x: "flows in the cache",
        draw: |m, lines| {
            for floods in 2..=5 {
                let share = |cache| (f64::from(cache), share(m, floods, cache));
                lines.swept(format!("{floods} floods"), CACHES.into_iter().map(share));
            }
        },
    }],
    claims: &[
        claim(
            "lru-fq/fig6.1",
            "Cache equal to the flood count is too small",
            too_small,
        ),
        claim(
            "lru-fq/fig6.2",
            "A cache larger than the flood count mends it",
            large_enough,
        ),
        claim(
            "lru-fq/fig6.3",
            "Below that, S_tcp rises with the cache",
            rises,
        ),
        claim(
            "lru-fq/fig6.4",
            "A very large cache lets TCP flows in",
            lets_tcp_in,
        ),
        claim(
            "lru-fq/fig6.5",
            "Pinning by a rate threshold lowers sensitivity to the cache size",
            pinned,
        ),
    ],
};

fn at(floods: u32, cache: u32) -> At {
    At::new(RUNS, "no pin")
        .and("flows", floods)
        .and("cache", cache)
}

fn share(m: &Measured, floods: u32, cache: u32) -> Samples {
    m.samples(&at(floods, cache), SHARE)
}

fn too_small(m: &Measured, f: &mut Findings) {
    for floods in 2..=5 {
        let what = format!("{floods} floods, a cache of {floods}, TCP share");
        f.at_most(&what, &share(m, floods, floods), 0.40);
    }
}

fn large_enough(m: &Measured, f: &mut Findings) {
    for floods in 2..=4 {
        for cache in CACHES.into_iter().filter(|c| (3 * floods..=16).contains(c)) {
            let what = format!("{floods} floods, a cache of {cache}, TCP share");
            f.at_least(&what, &share(m, floods, cache), 0.45);
        }
    }
}

fn rises(m: &Measured, f: &mut Findings) {
    for floods in 2..=5 {
        let caches = CACHES
            .into_iter()
            .filter(|c| (floods..=3 * floods).contains(c));
        let steps = caches.map(|cache| (format!("cache {cache}"), share(m, floods, cache)));
        f.rises(
            &format!("{floods} floods, TCP share"),
            &steps.collect::<Vec<_>>(),
        );
    }
}

fn lets_tcp_in(m: &Measured, f: &mut Findings) {
    for floods in 2..=5 {
        let hits = |cache| m.samples(&at(floods, cache), "class_packets.bottleneck.long.1");
        let what =
            format!("{floods} floods, TCP packets from the hit queue, cache of 12 and of 48");
        f.less(&what, &hits(12), &hits(48));
        let shares =
            [12, 24, 32, 48].map(|cache| format!("{cache}: {}", share(m, floods, cache).shown()));
        f.remark(format!(
            "{floods} floods, TCP share by cache {}",
            shares.join(", ")
        ));
    }
}

/// The greatest less the least TCP share over caches of 4 to 48, for each seed.
fn spread(share: impl Fn(u32) -> Samples) -> Samples {
    let shares: Vec<Samples> = CACHES.into_iter().filter(|c| *c >= 4).map(share).collect();
    let over = |choose: fn(f64, f64) -> f64| {
        let first = shares.first().cloned().unwrap_or_default();
        shares.iter().skip(1).fold(first, |a, b| a.with(b, choose))
    };
    over(f64::max).less(&over(f64::min))
}

fn pinned(m: &Measured, f: &mut Findings) {
    let pin = |how: &'static str| {
        spread(move |cache| m.samples(&At::new(PIN_RUNS, how).and("cache", cache), SHARE))
    };
    let free = spread(|cache| share(m, 3, cache));
    f.less(
        "spread of the TCP share over caches of 4 to 48, pinned and not pinned",
        &pin("pin"),
        &free,
    );
    f.remark(format!(
        "pinned from 10 Mbit/s on {}",
        pin("pin at 10 Mbit/s").shown()
    ));
}

pub(super) const FIG7: Recipe = Recipe {
    id: "lru-fq/fig7",
    title: "The total, by the size of the cache and by the number of flows",
    notes: &[
        "R8: the text decides which figure is which. The paper asks whether its router keeps up; a simulation has no \
         processor that could be too slow. What is decided here is the queues' half: that nothing of the link is \
         lost by splitting it. The cost of a packet is measured by `weir bench discipline`.",
    ],
    scenarios: &[FIG7_RUNS],
    readings: &[],
    tables: &[],
    figures: &[],
    claims: &[
        claim(
            "lru-fq/fig7a.1",
            "Aggregate does not depend on the cache size",
            by_cache,
        ),
        claim(
            "lru-fq/fig7b.1",
            "Aggregate does not depend on the flow count, up to 150",
            by_flows,
        ),
        not_run(
            "lru-fq/fig7b.2",
            "Packet cost stays level",
            "a bench: a simulation has no processor. `weir bench discipline` measures nanoseconds a packet by flows \
             and by cache",
        ),
    ],
};

const TOTAL: &str = "tcp_goodput_mbps";
const QUEUES_ONLY: &str = "of the queues only: a simulation has no processor";

fn by_cache(m: &Measured, f: &mut Findings) {
    let normal = m.samples(&At::new(FIG7_RUNS, "flows 30 fifo"), TOTAL);
    for cache in [5, 10, 20, 40, 60, 100] {
        let at = At::new(FIG7_RUNS, format!("flows 30 cache {cache}"));
        let what = format!("cache of {cache} to normal, Mbit/s");
        f.within(&what, &m.samples(&at, TOTAL), &normal, 0.02);
    }
    f.remark(QUEUES_ONLY);
}

fn by_flows(m: &Measured, f: &mut Findings) {
    for flows in [5, 10, 30, 60, 100, 150] {
        let [normal, ours] = ["fifo", "cache 60"].map(|router| {
            m.samples(
                &At::new(FIG7_RUNS, format!("flows {flows} {router}")),
                TOTAL,
            )
        });
        f.within(
            &format!("{flows} flows, LRU-FQ to normal, Mbit/s"),
            &ours,
            &normal,
            0.02,
        );
    }
    f.remark(QUEUES_ONLY);
}
