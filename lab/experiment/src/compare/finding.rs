//! The finding of a comparison in plain sentences: the discipline that is most often the best, where it is furthest
//! from the best, and the discipline that is nowhere as far from the best.

use super::answers::{Answer, Better, Cell, DIGITS, Table};
use super::number::decimals;
use crate::results::marked;

/// A share of a column's maximum; smaller differences do not count: 0.01 % and 0 % of lost calls are not infinitely far
/// apart.
const FLOOR: f64 = 0.01;

/// The record of a discipline.
struct Record<'a> {
    discipline: &'a str,
    /// Number of figures in which it is the best, or level with the best.
    best: usize,
    /// The place where it is furthest from the best; `None` if it is the best everywhere.
    weakest: Option<Distance<'a>>,
}

/// The distance from the best under one load.
struct Distance<'a> {
    table: &'a Table,
    answer: &'a Answer,
    /// Ratio of the values of the best and of this discipline, at least 1.
    factor: f64,
}

/// The sentences; `None` if there is nothing to compare.
pub(super) fn sentence(disciplines: &[String], tables: &[Table]) -> Option<String> {
    let figures: usize = tables.iter().map(|table| table.columns.len()).sum();
    let mut records: Vec<Record<'_>> = disciplines
        .iter()
        .map(|name| Record::of(name, tables))
        .collect();
    if records.len() < 2 || figures == 0 {
        return None;
    }
    // A stable sort: of equal disciplines the one named first leads.
    records.sort_by(|a, b| b.best.cmp(&a.best).then(a.factor().total_cmp(&b.factor())));
    let (leader, others) = records.split_first()?;
    let in_figures = match figures {
        1 => "in the only figure".to_owned(),
        all if leader.best == all => format!("in all {all} figures"),
        all => format!("in {} of {all} figures", leader.best),
    };
    let level: Vec<&Record<'_>> = others
        .iter()
        .filter(|other| other.best == leader.best)
        .collect();
    let names: Vec<&str> = level.iter().map(|record| record.discipline).collect();
    let like = match &names[..] {
        [] => String::new(),
        [one] => format!(", like {one},"),
        [first @ .., last] => format!(", like {} and {last},", first.join(", ")),
    };
    let discipline = leader.discipline;
    let mut told = format!("{discipline}{like} is best or tied for best {in_figures}.");
    if let Some(weakest) = &leader.weakest {
        told += &format!(" Its weakest figure: {}.", weakest.told(discipline)?);
    }
    // The discipline that is most often the best may be useless in the case that matters.
    let steadiest = records
        .iter()
        .min_by(|a, b| a.factor().total_cmp(&b.factor()))?;
    if steadiest.factor() < leader.factor() {
        told += &format!(
            " {} never falls as far behind the best",
            steadiest.discipline
        );
        told += &match &steadiest.weakest {
            Some(weakest) => format!(
                "; its weakest figure: {}.",
                weakest.told(steadiest.discipline)?
            ),
            None => ".".to_owned(),
        };
    }
    let mut columns = tables.iter().flat_map(|table| &table.columns);
    if columns.any(|answer| answer.cells.iter().any(|cell| cell.disturbed)) {
        told += " Some runs were disturbed; see the notes.";
    }
    Some(told)
}

impl<'a> Record<'a> {
    fn of(discipline: &'a str, tables: &'a [Table]) -> Self {
        let columns = || {
            tables
                .iter()
                .flat_map(|table| table.columns.iter().map(move |answer| (table, answer)))
        };
        let is_best = |answer: &Answer| answer.of(discipline).is_some_and(|cell| cell.best);
        let behind = columns().filter(|(_, answer)| !is_best(answer));
        let distances = behind.filter_map(|(table, answer)| {
            let factor = factor(table.better, answer, discipline)?;
            Some(Distance {
                table,
                answer,
                factor,
            })
        });
        Self {
            discipline,
            best: columns().filter(|(_, answer)| is_best(answer)).count(),
            weakest: distances.max_by(|a, b| a.factor.total_cmp(&b.factor)),
        }
    }

    fn factor(&self) -> f64 {
        self.weakest
            .as_ref()
            .map_or(1.0, |distance| distance.factor)
    }
}

impl Distance<'_> {
    /// `delay of small packets, 99 %, under rrul: 518 ms, where fq_codel has 25.7`.
    fn told(&self, discipline: &str) -> Option<String> {
        let Self { table, answer, .. } = self;
        let own = answer.of(discipline)?;
        let best = table.better.best(&answer.cells)?;
        let mut question = table.question.to_owned();
        if let Some(first) = question.get(..1).map(str::to_lowercase) {
            question.replace_range(..1, &first);
        }
        let statistic = match answer.statistic {
            "" => String::new(),
            statistic => format!(" ({statistic})"),
        };
        let unit = match table.unit {
            "ms" | "s" | "%" | "Mbit/s" => format!("\u{a0}{}", table.unit),
            _ => String::new(),
        };
        let value = |cell: &Cell| {
            let mean = cell.summary.mean;
            let text = format!("{mean:.*}{unit}", decimals(mean, DIGITS));
            marked(text, cell.disturbed)
        };
        Some(format!(
            "{question}{statistic}, load {}: {} (best: {} with {})",
            answer.load,
            value(own),
            best.discipline,
            value(best),
        ))
    }
}

/// The ratio of the values of the best and of this discipline, at least 1.
fn factor(better: Better, answer: &Answer, discipline: &str) -> Option<f64> {
    let own = answer.of(discipline)?.summary.mean;
    let best = better.best(&answer.cells)?.summary.mean;
    let greatest = answer
        .cells
        .iter()
        .map(|cell| cell.summary.mean)
        .fold(0.0, f64::max);
    let floor = FLOOR * greatest;
    let factor = match better {
        Better::Less => (own + floor) / (best + floor),
        Better::More => (best + floor) / (own + floor),
    };
    factor.is_finite().then_some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::answers::tables;
    use crate::compare::load::Load;

    fn load(name: &str, rows: &[(&str, &[(&str, f64)])]) -> Load {
        let run =
            |values: &[(&str, f64)]| values.iter().map(|(n, x)| ((*n).to_owned(), *x)).collect();
        Load {
            name: name.into(),
            title: String::new(),
            about: String::new(),
            note: String::new(),
            rows: rows
                .iter()
                .map(|(row, values)| ((*row).to_owned(), vec![run(values)]))
                .collect(),
        }
    }

    fn told(loads: &[Load], disciplines: &[&str]) -> Option<String> {
        let disciplines: Vec<String> = disciplines.iter().map(|&name| name.to_owned()).collect();
        sentence(&disciplines, &tables(loads))
    }

    #[test]
    fn the_leader_and_its_weakest_figure() {
        let calm = load(
            "calm",
            &[
                ("a", &[("tcp_goodput_mbps", 10.0), ("jain_index", 0.9)]),
                ("b", &[("tcp_goodput_mbps", 9.0), ("jain_index", 0.99)]),
            ],
        );
        let attack = load(
            "attack",
            &[
                ("a", &[("honest_kept_ratio", 0.5)]),
                ("b", &[("honest_kept_ratio", 0.25)]),
            ],
        );
        let expected = "a is best or tied for best in 2 of 3 figures. Its weakest figure: fairness between long \
                        flows, load calm: 0.900 (best: b with 0.990).";
        assert_eq!(
            told(&[calm, attack], &["a", "b"]).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn who_is_never_far_from_the_best_is_named_too() {
        let calm = load(
            "calm",
            &[
                ("a", &[("tcp_goodput_mbps", 10.0), ("jain_index", 0.9)]),
                ("b", &[("tcp_goodput_mbps", 9.0), ("jain_index", 0.8)]),
            ],
        );
        let attack = load(
            "attack",
            &[
                ("a", &[("honest_kept_ratio", 0.05)]),
                ("b", &[("honest_kept_ratio", 0.9)]),
            ],
        );
        let told = told(&[calm, attack], &["a", "b"]).unwrap();
        let expected = "Its weakest figure: goodput that honest traffic keeps under attack (all), load attack: 0.050 \
                        (best: b with 0.900). b never falls as far behind the best; its weakest figure: fairness \
                        between long flows, load calm: 0.800 (best: a with 0.900).";
        assert!(told.ends_with(expected), "{told}");
    }

    #[test]
    fn equals_are_named_and_nobody_leads_alone() {
        let calm = load(
            "calm",
            &[
                ("a", &[("tcp_goodput_mbps", 10.0)]),
                ("b", &[("tcp_goodput_mbps", 10.001)]),
            ],
        );
        let expected = "a, like b, is best or tied for best in the only figure.";
        assert_eq!(
            told(std::slice::from_ref(&calm), &["a", "b"]).as_deref(),
            Some(expected)
        );
        assert_eq!(told(std::slice::from_ref(&calm), &["a"]), None);
        // A disturbance may have decided the comparison.
        let mut calm = calm;
        calm.rows[1].1[0].insert("disturbed".into(), 1.0);
        let told = told(&[calm], &["a", "b"]).unwrap();
        assert!(
            told.ends_with("figure. Some runs were disturbed; see the notes."),
            "{told}"
        );
    }

    #[test]
    fn nothing_lost_is_not_infinitely_better() {
        let lost = |a: f64, b: f64| {
            load(
                "x",
                &[
                    (
                        "a",
                        &[
                            ("small_packets_loss_ratio", a),
                            ("tcp_goodput_mbps", 9.0),
                            ("jain_index", 0.5),
                        ],
                    ),
                    (
                        "b",
                        &[
                            ("small_packets_loss_ratio", b),
                            ("tcp_goodput_mbps", 1.0),
                            ("jain_index", 0.4),
                        ],
                    ),
                ],
            )
        };
        let told = told(&[lost(0.5, 0.0)], &["a", "b"]).unwrap();
        assert!(
            told.contains("packets, load x: 50.0\u{a0}% (best: b with 0.000\u{a0}%)"),
            "{told}"
        );
    }
}
