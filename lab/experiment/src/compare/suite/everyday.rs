//! Loads without an attack: the scenarios of `scenarios/everyday`. The summary is docs/everyday.md.

use crate::compare::figures::{self, Column, column};
use crate::compare::load::{Load, Read, rows};
use crate::compare::markdown::{header, row, table};
use crate::compare::number::with_half;
use crate::statistics::Summary;

use super::Suite;

pub(super) const SUITE: Suite = Suite {
    name: "everyday",
    about: "Everyday loads: docs/everyday.md",
    folders: &["everyday"],
    summary,
    tables: all_tables,
    picture: None,
};

/// The discipline whose figures are compared with a limit.
const TESTED: &str = "triple_fair";
/// The disciplines that are also fair between hosts.
const FAIR: &[&str] = &["cake", "host_fair"];
/// All disciplines that it is compared with.
const OTHERS: &[&str] = &["fifo", "fq_codel", "cake", "host_fair", "lru_fq"];

/// A figure, with a separate table in the summary.
struct Figure {
    heading: &'static str,
    about: &'static str,
    read: Read,
    decimals: usize,
    is_less_better: bool,
    /// Disciplines whose best value determines the limit.
    beside: &'static [&'static str],
    limit: fn(f64) -> f64,
}

const FIGURES: [Figure; 5] = [
    Figure {
        heading: "Delay of light traffic",
        about: "99th percentile of the end-to-end delay in ms, where a lost packet counts with the length of the run; \
                the worst of `game`, `call` and `dns`. Limit: 1.2 times the best of the others.",
        read: figures::light_p99,
        decimals: 1,
        is_less_better: true,
        beside: OTHERS,
        limit: |best| 1.2 * best,
    },
    Figure {
        heading: "Fairness between senders",
        about: "Jain's index of the goodput of sending hosts, counting hosts that want more than their share. Limit: \
                0.02 below the better of `cake` and `host_fair`.",
        read: |m| m.get("jain_index_senders").copied(),
        decimals: 2,
        is_less_better: false,
        beside: FAIR,
        limit: |best| best - 0.02,
    },
    Figure {
        heading: "Fairness between receivers",
        about: "The same for receiving hosts.",
        read: |m| m.get("jain_index_receivers").copied(),
        decimals: 2,
        is_less_better: false,
        beside: FAIR,
        limit: |best| best - 0.02,
    },
    Figure {
        heading: "Goodput",
        about: "Goodput of all traffic in Mbit/s. Limit: 2 % below the best of the others.",
        read: figures::goodput,
        decimals: 2,
        is_less_better: false,
        beside: OTHERS,
        limit: |best| 0.98 * best,
    },
    Figure {
        heading: "Page response time",
        about: "Mean in s, including the connection setup. Limit: 1.2 times the better of `cake` and `host_fair`.",
        read: |m| m.get("web_response_s_mean").copied(),
        decimals: 3,
        is_less_better: true,
        beside: FAIR,
        limit: |best| 1.2 * best,
    },
];

const COLUMNS: [Column; 9] = [
    column("light, p99 ms", FIGURES[0].read),
    column("calls lost, %", |m| Some(100.0 * m.get("loss_ratio.call")?)),
    column("senders", FIGURES[1].read),
    column("receivers", FIGURES[2].read),
    column("goodput, Mbit/s", FIGURES[3].read),
    column("pages, mean s", FIGURES[4].read),
    column("transfers, mean s", |m| m.get("transfer_s_mean").copied()),
    column("queue, p99 ms", figures::queue_p99),
    column("loss, %", |m| Some(100.0 * m.get("loss_ratio")?)),
];

fn summary(loads: &[Load]) -> String {
    let mut text = String::from("\n");
    for Load {
        name, title, note, ..
    } in loads
    {
        text += &format!("- `{name}`: {title}. {note}\n");
    }
    let figures = FIGURES.iter().map(|figure| figure.table(loads));
    text + &figures.collect::<String>() + "\n"
}

impl Figure {
    /// A row for each load that has the figure, and a column for each discipline.
    fn table(&self, loads: &[Load]) -> String {
        let names = rows(loads);
        let (mut all, mut beyond, mut lines) = (0, 0, String::new());
        for load in loads {
            let mean = |name: &str| Some(load.summary(name, self.read)?.mean);
            let Some(best) = self.best(names.iter().filter_map(|name| mean(name))) else {
                continue;
            };
            let shown = |value: f64| format!("{value:.*}", self.decimals);
            let is_beyond = self.is_beyond_limit(&mean);
            all += 1;
            beyond += usize::from(is_beyond);
            let cells = names.iter().map(|name| {
                let value = mean(name).map_or("-".to_owned(), shown);
                let value = if value == shown(best) {
                    format!("**{value}**")
                } else {
                    value
                };
                if is_beyond && *name == TESTED {
                    value + " (!)"
                } else {
                    value
                }
            });
            lines += &row(&load.name, &cells.collect::<Vec<_>>());
        }
        let Self { heading, about, .. } = self;
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let head = header(&names);
        format!(
            "\n### {heading}\n\n{about} `{TESTED}` misses the limit under {beyond} of {all} loads.\n\n{head}{lines}"
        )
    }

    fn best(&self, values: impl Iterator<Item = f64>) -> Option<f64> {
        if self.is_less_better {
            values.reduce(f64::min)
        } else {
            values.reduce(f64::max)
        }
    }

    fn is_beyond_limit(&self, mean: &dyn Fn(&str) -> Option<f64>) -> bool {
        let best = self.best(self.beside.iter().filter_map(|name| mean(name)));
        let pair = best.zip(mean(TESTED));
        pair.is_some_and(|(best, tested)| {
            if self.is_less_better {
                tested > (self.limit)(best)
            } else {
                tested < (self.limit)(best)
            }
        })
    }
}

/// A mean and its interval with about four digits.
fn shown(summary: &Summary) -> String {
    with_half(summary, 4)
}

fn all_tables(loads: &[Load]) -> String {
    let tables = loads.iter().map(|load| {
        let table = table(load, &load.columns(&COLUMNS), shown);
        let Load {
            name, about, note, ..
        } = load;
        format!("\n## {name}\n\n{about} {note}\n\n{table}")
    });
    tables.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, rows: &[(&str, f64, f64)]) -> Load {
        let row = |&(name, delay, goodput): &(&str, f64, f64)| {
            let metrics = [
                ("delay_ms_p99_with_losses.call", delay),
                ("delay_ms_p99_with_losses.bulk", 9000.0),
                ("tcp_goodput_mbps", goodput),
            ];
            let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
            (name.to_owned(), vec![metrics.into()])
        };
        Load {
            name: name.into(),
            title: "T".into(),
            about: String::new(),
            note: "2 runs.".into(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn the_best_and_those_beyond_the_limit_are_marked() {
        let loads = [
            load("home", &[("cake", 10.0, 50.0), (TESTED, 12.5, 49.5)]),
            load("crowd", &[("cake", 10.0, 50.0), (TESTED, 11.5, 48.5)]),
        ];
        let text = summary(&loads);
        for expected in [
            "- `home`: T. 2 runs.\n",
            "of the others. `triple_fair` misses the limit under 1 of 2 loads.\n\n| | `cake` | `triple_fair` |\n",
            "| `home` | **10.0** | 12.5 (!) |\n| `crowd` | **10.0** | 11.5 |\n",
            "| `home` | **50.00** | 49.50 |\n| `crowd` | **50.00** | 48.50 (!) |\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(all_tables(&loads).contains("| | light, p99 ms | goodput, Mbit/s |\n"));
    }
}
