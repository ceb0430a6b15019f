//! Figures 7 and 9: RS-RED beside queues of the same size in all at the edge router.

use super::{DELAY, JITTER, LOAD_10, LOAD_14, LOAD_18, LOSS, Load, goodput, load, rs_red};
use crate::reproduce::figure::Figure;
use crate::reproduce::judge::{Findings, Samples, shown};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

const SIZES_14: Load = load("fig9, load 1.4", "sd-bm/fig9-1.4");
const SIZES_18: Load = load("fig9, load 1.8", "sd-bm/fig9-1.8");

const SAME_TOTAL: [&Load; 3] = [&LOAD_10, &LOAD_14, &LOAD_18];

pub(super) const CODE: Code = Code {
    checks: &[
        ("fig7.1", |m, f| {
            for load in SAME_TOTAL {
                as_much_goodput(m, f, load);
            }
            f.remark(egress_driven_beside_red("goodput, Mbit/s", |at| {
                goodput(m, at)
            }));
        }),
        ("fig7.2", |m, f| {
            for load in SAME_TOTAL {
                as_little_loss(m, f, load);
            }
            f.remark(egress_driven_beside_red("loss", |at| m.samples(at, LOSS)));
        }),
        ("fig7.3", lower_delay),
        ("fig7.4", |m, f| {
            for load in SAME_TOTAL {
                let [ours, red] = both(load).map(|at| m.samples(&at, JITTER));
                let excess = ours.with(&red, |ours, red| ours - 1.25 * red);
                let what = format!(
                    "{}, jitter {} and {} ms, the first less 1.25 times the second",
                    load.name,
                    ours.shown(),
                    red.shown()
                );
                f.at_most(&what, &excess, 0.0);
            }
            f.remark(egress_driven_beside_red("jitter, ms", |at| {
                m.samples(at, JITTER)
            }));
        }),
        ("fig7.5", a_third),
        ("fig9.3", change_little),
        ("fig9.4", smoothly),
    ],
    remarks: &[
        ("fig9.1", |m, f| {
            f.remark(egress_driven_by_size(m, "loss", LOSS))
        }),
        ("fig9.2", |m, f| {
            f.remark(egress_driven_by_size(m, "delay in ms", DELAY))
        }),
    ],
    figures: &[
        (
            "fig7",
            &[
                Figure {
                    title: "Loss, %",
                    x: "load, C0",
                    draw: |m, lines| {
                        for scheme in ["RED 300", "RS-RED 50", "egress-driven 50"] {
                            lines.swept(scheme, by_load(m, scheme, LOSS, 100.0));
                        }
                    },
                },
                Figure {
                    title: "Mean one-way delay, ms",
                    x: "load, C0",
                    draw: |m, lines| {
                        for scheme in ["RED 300", "RS-RED 50", "egress-driven 50"] {
                            lines.swept(scheme, by_load(m, scheme, DELAY, 1.0));
                        }
                    },
                },
            ],
        ),
        (
            "fig9",
            &[
                Figure {
                    title: "Loss at a load of 1.8, %",
                    x: "packets in all queues",
                    draw: |m, lines| {
                        for scheme in SCHEMES {
                            let points = TOTALS.map(|total| {
                                let loss = m.samples(&sized(&SIZES_18, scheme, total), LOSS);
                                (f64::from(total), loss.map(|y| 100.0 * y))
                            });
                            lines.swept(scheme, points.into_iter());
                        }
                    },
                },
                Figure {
                    title: "Mean one-way delay at a load of 1.8, ms",
                    x: "packets in all queues",
                    draw: |m, lines| {
                        for scheme in SCHEMES {
                            let points = TOTALS.map(|total| {
                                let at = sized(&SIZES_18, scheme, total);
                                (f64::from(total), m.samples(&at, DELAY))
                            });
                            lines.swept(scheme, points.into_iter());
                        }
                    },
                },
            ],
        ),
    ],
};

fn both(load: &Load) -> [At; 2] {
    [
        rs_red(load, "RS-RED", 50),
        At::new(load.scenario, "RED 300"),
    ]
}

fn by_load(
    m: &Measured,
    scheme: &str,
    metric: &str,
    scale: f64,
) -> impl Iterator<Item = (f64, Samples)> {
    let loads = SAME_TOTAL.into_iter().zip([1.0, 1.4, 1.8]);
    let points: Vec<_> = loads
        .map(|(load, x)| {
            (
                x,
                m.samples(&At::new(load.scenario, scheme), metric)
                    .map(|y| y * scale),
            )
        })
        .collect();
    points.into_iter()
}

/// What is not the paper's (R32) beside RED, in words.
fn egress_driven_beside_red(what: &str, quantity: impl Fn(&At) -> Samples) -> String {
    let each = SAME_TOTAL.map(|load| {
        let of = |name: &str| quantity(&At::new(load.scenario, name)).shown();
        format!(
            "{}: {} and {}",
            load.name,
            of("egress-driven 50"),
            of("RED 300")
        )
    });
    format!("{what} of egress-driven and RED at {}", each.join(", "))
}

fn as_much_goodput(m: &Measured, f: &mut Findings, load: &Load) {
    let [ours, red] = both(load).map(|at| goodput(m, &at));
    f.times(
        &format!("{}, goodput in Mbit/s", load.name),
        &ours,
        &red,
        0.97,
    );
}

fn as_little_loss(m: &Measured, f: &mut Findings, load: &Load) {
    let [ours, red] = both(load).map(|at| m.samples(&at, LOSS));
    let excess = ours.with(&red, |ours, red| ours - 1.25 * red);
    let what = format!(
        "{}, loss {} and {}, the first less 1.25 times the second",
        load.name,
        ours.shown(),
        red.shown()
    );
    f.at_most(&what, &excess, 0.002);
}

fn lower_delay(m: &Measured, f: &mut Findings) {
    for load in SAME_TOTAL {
        let [ours, red] = both(load).map(|at| m.samples(&at, DELAY));
        let what = format!("{}, delay in ms", load.name);
        match load.name == LOAD_10.name {
            true => f.not_more(&what, &ours, &red),
            false => f.less(&what, &ours, &red),
        }
    }
    f.remark(egress_driven_beside_red("delay, ms", |at| {
        m.samples(at, DELAY)
    }));
}

fn a_third(m: &Measured, f: &mut Findings) {
    for load in SAME_TOTAL {
        let longest = m.of_curves(
            &rs_red(load, "RS-RED", 50),
            &["queue_packets.wan"],
            |curves| curves[0].iter().copied().reduce(f64::max),
        );
        f.at_most(
            &format!("{}, longest edge queue", load.name),
            &longest,
            100.0,
        );
        as_much_goodput(m, f, load);
        as_little_loss(m, f, load);
    }
}

/// Packets in all queues together.
const TOTALS: [u32; 4] = [200, 300, 400, 500];

/// The schemes of Figure 9; the last one is not the paper's.
const SCHEMES: [&str; 4] = ["drop-tail", "RED", "RS-RED", "egress-driven"];

fn sized(load: &Load, scheme: &str, total: u32) -> At {
    At::new(load.scenario, format!("{scheme} {total}"))
}

fn steps(load: &Load, scheme: &str, quantity: impl Fn(&At) -> Samples) -> [(String, Samples); 4] {
    TOTALS.map(|total| (total.to_string(), quantity(&sized(load, scheme, total))))
}

/// The paper's three schemes at both loads.
fn each_scheme(mut judge: impl FnMut(&Load, &str)) {
    for load in [&SIZES_14, &SIZES_18] {
        for scheme in &SCHEMES[..3] {
            judge(load, scheme);
        }
    }
}

fn egress_driven_by_size(m: &Measured, what: &str, metric: &str) -> String {
    let steps = steps(&SIZES_18, SCHEMES[3], |at| m.samples(at, metric));
    let each = steps.map(|(total, a)| format!("{total}: {}", a.shown()));
    format!("egress-driven, load 1.8, {what} at {}", each.join(", "))
}

/// The greatest mean by the least.
fn spread(steps: &[(String, Samples)]) -> Option<f64> {
    let means: Option<Vec<f64>> = steps.iter().map(|(_, a)| a.mean()).collect();
    let means = means?;
    let greatest = means.iter().copied().reduce(f64::max)?;
    let least = means.iter().copied().reduce(f64::min)?;
    Some(greatest / least)
}

fn change_little(m: &Measured, f: &mut Findings) {
    each_scheme(|load, scheme| {
        let goodput = spread(&steps(load, scheme, |at| goodput(m, at)));
        let jitter = spread(&steps(load, scheme, |at| m.samples(at, JITTER)));
        for (what, ratio, most) in [("goodput", goodput, 1.05), ("jitter", jitter, 1.5)] {
            let value = ratio.map_or_else(|| "not measured".to_owned(), shown);
            let said = format!("{}, {scheme}, {what}, greatest by least", load.name);
            f.is_if_known(
                format!("{said}: {value} (at most {most})"),
                ratio.map(|ratio| ratio <= most),
            );
        }
    });
    f.remark(egress_driven_by_size(m, "jitter in ms", JITTER));
}

/// How far the means are from a straight line at most, by their range.
fn roughness(steps: &[(String, Samples)]) -> Option<f64> {
    let means: Option<Vec<f64>> = steps.iter().map(|(_, a)| a.mean()).collect();
    let means = means?;
    let n = means.len() as f64;
    let (x_mean, y_mean) = ((n - 1.0) / 2.0, means.iter().sum::<f64>() / n);
    let off = |place: usize| place as f64 - x_mean;
    let moments = means.iter().enumerate();
    let (xy, xx) = moments.fold((0.0, 0.0), |(xy, xx), (place, y)| {
        (xy + off(place) * (y - y_mean), xx + off(place) * off(place))
    });
    let residual = |(place, y): (usize, &f64)| (y - y_mean - xy / xx * off(place)).abs();
    let worst = means.iter().enumerate().map(residual).fold(0.0, f64::max);
    let greatest = means.iter().copied().reduce(f64::max)?;
    let least = means.iter().copied().reduce(f64::min)?;
    (greatest > least).then(|| worst / (greatest - least))
}

fn smoothly(m: &Measured, f: &mut Findings) {
    for load in [&SIZES_14, &SIZES_18] {
        for (what, metric) in [("delay", DELAY), ("loss", LOSS)] {
            let of = |scheme: &str| roughness(&steps(load, scheme, |at| m.samples(at, metric)));
            let all = SCHEMES.map(of);
            let value = |x: Option<f64>| x.map_or_else(|| "not measured".to_owned(), shown);
            let [tail, red, ours, egress_driven] = all.map(value);
            let is_smooth = all[2].zip(all[0]).zip(all[1]);
            f.is_if_known(
                format!(
                    "{}, {what} off a straight line, by its range: RS-RED {ours} (RED {red}, drop-tail {tail})",
                    load.name
                ),
                is_smooth.map(|((ours, tail), red)| ours <= red && ours <= tail),
            );
            f.remark(format!(
                "{}, {what}, egress-driven: {egress_driven}",
                load.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_of(means: [f64; 4]) -> Vec<(String, Samples)> {
        let one = |mean: f64| (String::new(), Samples::new(vec![mean]));
        means.into_iter().map(one).collect()
    }

    #[test]
    fn roughness_by_hand() {
        assert!(roughness(&steps_of([1.0, 2.0, 3.0, 4.0])).unwrap() < 1e-12);
        // The line through 0, 0, 0, 1 is -0.2 + 0.3 x: 0.2, -0.1, -0.4, 0.3 off it.
        let rough = roughness(&steps_of([0.0, 0.0, 0.0, 1.0])).unwrap();
        assert!((rough - 0.4).abs() < 1e-12, "{rough}");
        assert_eq!(roughness(&steps_of([1.0; 4])), None);
        assert_eq!(spread(&steps_of([1.0, 2.0, 4.0, 3.0])), Some(4.0));
    }
}
