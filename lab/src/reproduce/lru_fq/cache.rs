//! Figures 6 and 7: the size of the cache, and the number of flows.

use super::SHARE;
use crate::reproduce::figure::Figure;
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

const RUNS: &str = "lru-fq/fig6";
const PIN_RUNS: &str = "lru-fq/fig6-pin";
/// The caches of Figure 6.
const CACHES: [u32; 13] = [2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 24, 32, 48];

pub(super) const CODE: Code = Code {
    checks: &[("fig6.4", lets_tcp_in), ("fig6.5", pinned)],
    remarks: &[],
    figures: &[(
        "fig6",
        &[Figure {
            title: "TCP's share of UDP and long TCP",
            x: "flows in the cache",
            draw: |m, lines| {
                for floods in 2..=5 {
                    let share = |cache| (f64::from(cache), share(m, floods, cache));
                    lines.swept(format!("{floods} floods"), CACHES.into_iter().map(share));
                }
            },
        }],
    )],
};

fn at(floods: u32, cache: u32) -> At {
    At::new(RUNS, "no pin")
        .and("flows", floods)
        .and("cache", cache)
}

fn share(m: &Measured, floods: u32, cache: u32) -> Samples {
    m.samples(&at(floods, cache), SHARE)
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
