//! The questions that a comparison of disciplines answers, and the answers as tables: a row for each discipline, a
//! column for each load.
//!
//! ```text
//!   question ──columns for each load that it makes sense for──▶ cells: mean ± half of the 95 % interval
//!                                                              └▶ best: the best mean, and those within its interval
//! ```

use serde::Serialize;

use super::figures::{self, Column, column};
use super::load::Load;
use super::number::decimals;
use crate::statistics::Summary;

/// Digits of a mean in a table. Means with the same text count as equal.
pub(super) const DIGITS: usize = 3;

/// A question, and the figures that answer it.
struct Question {
    title: &'static str,
    unit: &'static str,
    better: Better,
    /// Whether the question makes sense for a load.
    loads: fn(&Load) -> bool,
    figures: &'static [Column],
    /// A value without information: the column is left out if every discipline has it.
    silent: Option<f64>,
}

/// Which value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// A smaller value is better.
    Less,
    /// A greater value is better.
    More,
}

const QUESTIONS: [Question; 7] = [
    Question {
        title: "Delay of small packets",
        unit: "ms",
        better: Better::Less,
        loads: |_| true,
        figures: &[
            column("median", figures::small_p50),
            column("p99", figures::small_p99),
        ],
        silent: None,
    },
    Question {
        title: "Queue delay, all packets",
        unit: "ms",
        better: Better::Less,
        loads: |_| true,
        figures: &[
            column("median", figures::queue_p50),
            column("p99", figures::queue_p99),
        ],
        silent: None,
    },
    Question {
        title: "Loss of calls and other small packets",
        unit: "%",
        better: Better::Less,
        loads: |_| true,
        figures: &[column("", figures::small_lost)],
        silent: Some(0.0),
    },
    Question {
        title: "Goodput of TCP and web",
        unit: "Mbit/s",
        better: Better::More,
        loads: |load| !is_attack(load),
        figures: &[column("", figures::elastic_goodput)],
        silent: None,
    },
    Question {
        title: "Fairness between long flows",
        unit: "Jain's index",
        better: Better::More,
        loads: |load| !is_attack(load),
        figures: &[column("", figures::jain)],
        // A single flow is fair to itself.
        silent: Some(1.0),
    },
    Question {
        title: "Completion time of short flows",
        unit: "s",
        better: Better::Less,
        // The short flows of an attack may be the attacker's.
        loads: |load| !is_attack(load),
        figures: &[
            column("mean", figures::short_flows),
            column("p99", figures::short_flows_p99),
        ],
        silent: None,
    },
    Question {
        title: "Goodput that honest traffic keeps under attack",
        unit: "share of its goodput before the attack",
        better: Better::More,
        loads: is_attack,
        figures: &[
            column("all", figures::kept),
            column("web", figures::web_kept_at_most_all),
        ],
        silent: None,
    },
];

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The question, as a title.
    pub question: &'static str,
    /// The unit of the values.
    pub unit: &'static str,
    /// Which of two values is better.
    pub better: Better,
    /// The columns.
    pub columns: Vec<Answer>,
}

/// A column of a table: one figure under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The load.
    pub load: String,
    /// The statistic; empty if the question has only one.
    pub statistic: &'static str,
    /// A cell for each discipline that has a value.
    pub cells: Vec<Cell>,
}

/// A value of a discipline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The discipline.
    pub discipline: String,
    /// The mean, its interval and the number of runs.
    #[serde(flatten)]
    pub summary: Summary,
    /// Whether it is the best, or within the 95 % interval of the best.
    pub best: bool,
    /// Whether a disturbance affected any run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
}

/// A table for each question that these loads answer.
pub(super) fn tables(loads: &[Load]) -> Vec<Table> {
    let answered = QUESTIONS.iter().map(|question| question.table(loads));
    answered.filter(|table| !table.columns.is_empty()).collect()
}

/// Whether the load measures the share of its goodput that honest traffic keeps under an attack.
pub(super) fn is_attack(load: &Load) -> bool {
    load.metrics()
        .any(|metrics| figures::kept(metrics).is_some())
}

impl Question {
    fn table(&self, loads: &[Load]) -> Table {
        let loads = loads.iter().filter(|load| (self.loads)(load));
        let columns = loads.flat_map(|load| {
            let figures = self.figures.iter();
            figures.filter_map(|figure| self.answer(load, figure))
        });
        Table {
            question: self.title,
            unit: self.unit,
            better: self.better,
            columns: columns.collect(),
        }
    }

    fn answer(&self, load: &Load, figure: &Column) -> Option<Answer> {
        let cell = |(name, _): &(String, _)| {
            Some(Cell {
                discipline: name.clone(),
                summary: load.summary(name, figure.read)?,
                best: false,
                disturbed: load.is_disturbed(name),
            })
        };
        let mut cells: Vec<Cell> = load.rows.iter().filter_map(cell).collect();
        let says_nothing = |cell: &Cell| Some(cell.summary.mean) == self.silent;
        if cells.iter().all(says_nothing) {
            return None;
        }
        self.better.mark(&mut cells);
        Some(Answer {
            load: load.name.clone(),
            statistic: figure.title,
            cells,
        })
    }
}

impl Better {
    /// The word for it in a sentence.
    pub fn word(self) -> &'static str {
        match self {
            Self::Less => "less",
            Self::More => "more",
        }
    }

    /// Marks the best cell, cells within its interval, and cells with the same text.
    fn mark(self, cells: &mut [Cell]) {
        let Some(best) = self.best(cells).map(|cell| cell.summary) else {
            return;
        };
        let half = best.ci95.unwrap_or(0.0);
        let decimals = decimals(best.mean, DIGITS);
        let text = |mean: f64| format!("{mean:.decimals$}");
        for cell in cells {
            let mean = cell.summary.mean;
            cell.best = (mean - best.mean).abs() <= half || text(mean) == text(best.mean);
        }
    }

    /// The cell with the best mean.
    pub(super) fn best(self, cells: &[Cell]) -> Option<&Cell> {
        let by_mean = |a: &&Cell, b: &&Cell| a.summary.mean.total_cmp(&b.summary.mean);
        match self {
            Self::Less => cells.iter().min_by(by_mean),
            // Of equal means the first wins, as for `Less`.
            Self::More => cells.iter().rev().max_by(by_mean),
        }
    }
}

impl Answer {
    /// The cell of a discipline.
    pub(super) fn of(&self, discipline: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.discipline == discipline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(values: &[(&str, &[f64])]) -> Vec<Cell> {
        let cell = |(name, values): &(&str, &[f64])| Cell {
            discipline: (*name).to_owned(),
            summary: Summary::of(values).unwrap(),
            best: false,
            disturbed: false,
        };
        values.iter().map(cell).collect()
    }

    fn marked(better: Better, values: &[(&str, &[f64])]) -> Vec<String> {
        let mut cells = cells(values);
        better.mark(&mut cells);
        let best = cells.into_iter().filter(|cell| cell.best);
        best.map(|cell| cell.discipline).collect()
    }

    #[test]
    fn the_best_and_those_within_its_interval_are_marked() {
        // The interval of 1, 2, 3 is 2 ± 2.48.
        let values: &[(&str, &[f64])] = &[
            ("a", &[1.0, 2.0, 3.0]),
            ("b", &[4.4, 4.4, 4.4]),
            ("c", &[4.5, 4.5, 4.5]),
        ];
        assert_eq!(marked(Better::Less, values), ["a", "b"]);
        assert_eq!(marked(Better::More, values), ["c"]);
        // Without intervals, cells with the same text are equal.
        let single: &[(&str, &[f64])] = &[("a", &[24.87]), ("b", &[24.91]), ("c", &[24.99])];
        assert_eq!(marked(Better::Less, single), ["a", "b"]);
        let zero: &[(&str, &[f64])] = &[("a", &[0.0]), ("b", &[0.1])];
        assert_eq!(marked(Better::Less, zero), ["a"]);
    }

    fn load(name: &str, metrics: &[(&str, f64)]) -> Load {
        let run = metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        Load {
            name: name.into(),
            title: String::new(),
            about: String::new(),
            note: String::new(),
            rows: vec![("fifo".into(), vec![run.collect()])],
        }
    }

    #[test]
    fn a_question_is_asked_only_where_it_makes_sense() {
        let calm = [
            ("tcp_goodput_mbps", 9.0),
            ("jain_index", 1.0),
            ("web_response_s_mean", 0.1),
            ("queue_delay_ms_p50.bottleneck", 250.0),
        ];
        let attack = [
            ("tcp_goodput_mbps", 9.0),
            ("jain_index", 0.5),
            ("honest_kept_ratio", 0.5),
        ];
        let told: Vec<String> = tables(&[load("calm", &calm), load("attack", &attack)])
            .iter()
            .flat_map(|table| {
                let columns = table.columns.iter();
                columns.map(move |c| format!("{}: {} {}", table.question, c.load, c.statistic))
            })
            .collect();
        let expected = [
            "Queue delay, all packets: calm median",
            "Goodput of TCP and web: calm ",
            "Completion time of short flows: calm mean",
            "Goodput that honest traffic keeps under attack: attack all",
        ];
        assert_eq!(told, expected);
    }
}
