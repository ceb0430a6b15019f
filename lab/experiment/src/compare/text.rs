//! A comparison as text for a terminal.

use super::answers::{Answer, DIGITS, Table};
use super::number::shown;
use super::{Answers, Comparison};
use crate::agreement::Ran;
use crate::report::{agreement_text, align};

/// The mark of the best value.
const BEST: &str = "*";

/// A table for each question, the finding of each habitat, and the agreement of the habitats.
pub fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for answers in &comparison.habitats {
        text += &habitat(comparison, answers);
    }
    for load in &comparison.loads {
        if let Ran::Both(both) = &load.ran {
            text += &format!("\n{}: {}", load.name, agreement_text(both));
        }
    }
    text
}

fn habitat(comparison: &Comparison, answers: &Answers) -> String {
    let mut text = match (comparison.habitats.len(), answers.on.as_str()) {
        (1, _) => String::new(),
        (_, "sim") => "== In simulation ==\n\n".to_owned(),
        (_, _) => "\n== In the lab ==\n\n".to_owned(),
    };
    for load in &answers.loads {
        text += &format!("{}: {}. {}\n", load.name, load.title, load.note);
    }
    for table in &answers.tables {
        text += &format!(
            "\n{}, {}: {} is better\n",
            table.question,
            table.unit,
            table.better.word()
        );
        text += &align(&rows(&comparison.disciplines, table));
    }
    let intervals = answers
        .tables
        .iter()
        .flat_map(|t| &t.columns)
        .flat_map(|c| &c.cells);
    let level = if intervals.clone().any(|cell| cell.summary.ci95.is_some()) {
        "best result, and results within the 95 % interval of its mean"
    } else {
        "best result; at least two runs are needed to show its uncertainty"
    };
    text += &format!("\n{BEST} {level}\n");
    for note in &answers.notes {
        text += &format!("note: {note}\n");
    }
    if let Some(finding) = &answers.finding {
        text += &format!("\nFinding: {finding}\n");
    }
    text
}

fn rows(disciplines: &[String], table: &Table) -> Vec<Vec<String>> {
    let with = |first: &str, cell: &dyn Fn(&Answer) -> String| {
        let cells = table.columns.iter().map(cell);
        std::iter::once(first.to_owned())
            .chain(cells)
            .collect::<Vec<_>>()
    };
    // The column of the mark is empty above and below it.
    let mut rows = vec![with("", &|answer| format!("{} ", answer.load))];
    if table
        .columns
        .iter()
        .any(|answer| !answer.statistic.is_empty())
    {
        rows.push(with("", &|answer| format!("{} ", answer.statistic)));
    }
    for discipline in disciplines {
        rows.push(with(discipline, &|answer| match answer.of(discipline) {
            None => "- ".to_owned(),
            Some(cell) => {
                let mark = if cell.best { BEST } else { " " };
                format!("{}{mark}", shown(&cell.summary, DIGITS))
            }
        }));
    }
    rows
}
