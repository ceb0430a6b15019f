//! A reproduction as plain text, for a terminal.

use weir_base::text::wrap;

use super::samples::shown;
use super::verdict::Verdict;
use super::{ClaimReport, Kind, Reproduction, ResultReport, RowReport};

/// Width of the text of a claim.
const WIDTH: usize = 100;

/// Everything, result by result; the counts come last.
pub fn text(reproduction: &Reproduction) -> String {
    let results = reproduction.results.iter().map(result);
    let mut text: String = results.collect();
    text += &reproduction.how;
    text.push('\n');
    for note in &reproduction.notes {
        text += &format!("note: {note}\n");
    }
    for (id, what) in reproduction.mistakes() {
        text += &format!("faulty check: {id}: {what}\n");
    }
    text + &format!("{}\n", in_words(reproduction))
}

fn result(result: &ResultReport) -> String {
    let mut text = format!("{}  {}, {}\n\n", result.id, result.title, result.on);
    if !result.rows.is_empty() {
        text += &rows(&result.rows);
        text.push('\n');
    }
    for claim in &result.claims {
        let number = claim.id.rsplit('/').next().unwrap_or(claim.id);
        text += &format!("  {:<9}  {number}  {}\n", claim.verdict.word(), claim.text);
        if let Some(beside) = beside(claim) {
            text += &format!("             ({beside})\n");
        }
        for line in wrap(&claim.evidence, WIDTH) {
            text += &format!("             {line}\n");
        }
    }
    text.push('\n');
    text
}

/// The note next to a verdict: the verdicts with other readings, and whether the claim is evidence; `None` without such
/// a note.
pub(super) fn beside(claim: &ClaimReport) -> Option<String> {
    let printed = claim
        .as_printed
        .map(|verdict| format!("as printed: {}", verdict.word()));
    let kind = match claim.kind {
        Kind::Measured => None,
        Kind::Arithmetic => Some("arithmetic".to_owned()),
        Kind::Calibrated => Some("used for calibration, not evidence".to_owned()),
    };
    let others = claim.otherwise.iter();
    let others = others.map(|(name, verdict)| format!("{name}: {}", verdict.word()));
    let words: Vec<String> = printed.into_iter().chain(others).chain(kind).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn rows(rows: &[RowReport]) -> String {
    let mut lines = vec![["", "", "paper", "ours", "", ""].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        [
            place(row),
            row.metric.to_owned(),
            shown(row.paper),
            row.ours.map(shown).unwrap_or_default(),
            row.ci95
                .map(|ci| format!("± {}", shown(ci)))
                .unwrap_or_default(),
            within(row),
        ]
    }));
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for line in &lines {
        let mut cells = String::from("  ");
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            cells += &match column {
                0 | 1 | 5 => format!("{cell:<width$}  "),
                _ => format!("{cell:>width$}  "),
            };
        }
        text += cells.trim_end();
        text.push('\n');
    }
    text
}

/// The values that identify a row, as text.
pub(super) fn place(row: &RowReport) -> String {
    let words = row.set.iter().map(|(key, value)| match value.as_str() {
        Some(text) => text.to_owned(),
        None => format!("{key} {value}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The number of claims of this kind with each verdict.
pub(super) fn counts<'a>(
    claims: impl Iterator<Item = &'a ClaimReport>,
    kind: Kind,
    verdict: impl Fn(&ClaimReport) -> Option<Verdict>,
) -> [(Verdict, usize); 6] {
    let counted: Vec<_> = claims.filter(|c| c.kind == kind).map(verdict).collect();
    Verdict::ALL.map(|verdict| {
        let of = counted.iter().filter(|found| **found == Some(verdict));
        (verdict, of.count())
    })
}

/// The number of claims with each verdict, by kind, as text; zeros are left out.
pub(super) fn in_words(reproduction: &Reproduction) -> String {
    let of_kinds = Kind::ALL.map(|kind| {
        let counts = reproduction.counts(kind).into_iter();
        let counts = counts.filter(|(_, count)| *count > 0);
        let words = counts.map(|(verdict, count)| format!("{count} {}", verdict.word()));
        (kind, words.collect::<Vec<_>>().join(", "))
    });
    let of_kinds = of_kinds.iter().filter(|(_, words)| !words.is_empty());
    let of_kinds = of_kinds.map(|(kind, words)| format!("{}: {words}", kind.word()));
    of_kinds.collect::<Vec<_>>().join("; ")
}

impl RowReport {
    /// Whether the number is within the paper's tolerance.
    pub(super) fn verdict(&self) -> Verdict {
        match self.within {
            Some(true) => Verdict::Holds,
            Some(false) => Verdict::Fails,
            None => Verdict::NotRun,
        }
    }
}

/// Whether a number is within the paper's tolerance, as text.
pub(super) fn within(row: &RowReport) -> String {
    let tolerance = 100.0 * row.tolerance;
    match row.within {
        Some(true) => format!("within {tolerance:.0} %"),
        Some(false) => format!("not within {tolerance:.0} %"),
        None => "not measured".to_owned(),
    }
}
