//! A reproduction as a Markdown document, stored in the repository.

use std::fmt::Write;

use super::samples::shown;
use super::text::{counts, place, within};
use super::verdict::Verdict;
use super::{ClaimReport, Kind, Reproduction, ResultReport, RowReport};

/// The document.
pub(super) fn markdown(reproduction: &Reproduction) -> String {
    let mut text = String::from("# The papers' results, reproduced\n\n");
    let _ = writeln!(text, "{}\n", cell(&reproduction.how));
    for note in &reproduction.notes {
        let _ = writeln!(text, "- {}", cell(note));
    }
    text += &summary(reproduction);
    let results: String = reproduction.results.iter().map(result).collect();
    text + &results
}

/// Lines for each paper: the number of its claims with each verdict, in each of its columns.
fn summary(reproduction: &Reproduction) -> String {
    let paper = |result: &ResultReport| result.id.split('/').next().unwrap_or(result.id);
    let mut papers: Vec<&str> = Vec::new();
    for name in reproduction.results.iter().map(paper) {
        if !papers.contains(&name) {
            papers.push(name);
        }
    }
    let words: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.word()).collect();
    // A table must follow an empty line.
    let mut text = format!("\n| paper | claims | number | {} |\n", words.join(" | "));
    text += &format!("|---|---|{}\n", "---:|".repeat(1 + words.len()));
    for name in papers {
        let claims = || {
            let of_paper = reproduction.results.iter().filter(|r| paper(r) == name);
            of_paper.flat_map(|r| &r.claims)
        };
        let mut line = |column: &str, counts: [(Verdict, usize); 6]| {
            let all: usize = counts.iter().map(|(_, count)| count).sum();
            let counts = counts.map(|(_, count)| count.to_string());
            let _ = writeln!(
                text,
                "| {name} | {column} | {all} | {} |",
                counts.join(" | ")
            );
        };
        for kind in [Kind::Measured, Kind::Arithmetic] {
            let read = counts(claims(), kind, |claim| Some(claim.verdict));
            if read.iter().any(|(_, count)| *count > 0) {
                line(kind.word(), read);
            }
            let columns = claims().next().map(columns).unwrap_or_default();
            for (place, name) in columns.iter().enumerate() {
                if kind == Kind::Measured {
                    let of_column = |claim: &ClaimReport| verdicts(claim).get(place).copied();
                    let counts = counts(claims(), kind, of_column);
                    line(&format!("{}, {name}", kind.word()), counts);
                }
            }
        }
    }
    text += "\nArithmetic claims are decided by printed numbers and equations alone.\n";
    let calibrated = reproduction.claims().filter(|claim| claim.calibrated);
    match calibrated.count() {
        0 => text,
        n => text + &format!("\nNot counted: {n} claims on rows that were used for calibration.\n"),
    }
}

fn result(result: &ResultReport) -> String {
    let mut text = format!("\n## {}: {}\n\n", result.id, cell(result.title));
    for note in result.notes {
        let _ = writeln!(text, "- {}", cell(note));
    }
    if !result.rows.is_empty() {
        text += "\n| | | the paper | ours | |\n|---|---|---:|---:|---|\n";
        text.extend(result.rows.iter().map(row));
    }
    let columns = result.claims.first().map(columns).unwrap_or_default();
    let heads: String = columns.iter().map(|name| format!(" {name} |")).collect();
    text += &format!("\n| claim | verdict |{heads} evidence |\n");
    text += &format!("|---|---|{}\n", "---|".repeat(columns.len() + 1));
    text.extend(result.claims.iter().map(line));
    text
}

/// The names of a claim's other readings.
fn columns(claim: &ClaimReport) -> Vec<&'static str> {
    let printed = claim.as_printed.map(|_| "as printed");
    let others = claim.otherwise.iter().map(|(name, _)| *name);
    printed.into_iter().chain(others).collect()
}

/// The verdicts of a claim with its other readings.
fn verdicts(claim: &ClaimReport) -> Vec<Verdict> {
    let others = claim.otherwise.iter().map(|(_, verdict)| *verdict);
    claim.as_printed.into_iter().chain(others).collect()
}

/// A claim's line.
fn line(claim: &ClaimReport) -> String {
    let number = claim.id.rsplit('/').next().unwrap_or(claim.id);
    let verdict = match claim.kind {
        Kind::Calibrated => format!("{} (used for calibration)", claim.verdict.word()),
        Kind::Arithmetic => format!("{} (arithmetic)", claim.verdict.word()),
        Kind::Measured => claim.verdict.word().to_owned(),
    };
    let others = verdicts(claim).into_iter();
    let others: String = others.map(|other| format!(" {} |", other.word())).collect();
    format!(
        "| {number}: {} | {verdict} |{others} {} |\n",
        cell(claim.text),
        cell(&claim.evidence)
    )
}

fn row(row: &RowReport) -> String {
    let interval = row.ci95.map(|ci| format!(" ± {}", shown(ci)));
    let ours = row.ours.map(shown).unwrap_or_default() + &interval.unwrap_or_default();
    let (place, paper) = (cell(&place(row)), shown(row.paper));
    format!(
        "| {place} | {} | {paper} | {ours} | {} |\n",
        cell(row.metric),
        within(row)
    )
}

/// Escapes text that would end a cell or begin markup.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => safe += "&lt;",
            '&' => safe += "&amp;",
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &'static str, as_printed: Option<Verdict>, kind: Kind) -> ClaimReport {
        ClaimReport {
            id,
            text: "t",
            verdict: Verdict::Holds,
            as_printed,
            otherwise: as_printed
                .map(|verdict| ("late", verdict))
                .into_iter()
                .collect(),
            calibrated: kind == Kind::Calibrated,
            kind,
            evidence: "e".to_owned(),
            is_fixed: false,
            bars: Vec::new(),
        }
    }

    #[test]
    fn two_columns_and_what_is_not_counted() {
        let result = |id, claims| ResultReport {
            id,
            on: "sim",
            rows: Vec::new(),
            claims,
            pictures: Vec::new(),
            title: "r",
            notes: &[],
            files: Vec::new(),
            missing: Vec::new(),
        };
        let text = markdown(&Reproduction {
            results: vec![
                result(
                    "p/r",
                    vec![
                        claim("p/r.1", Some(Verdict::Fails), Kind::Measured),
                        claim("p/r.2", Some(Verdict::Holds), Kind::Calibrated),
                    ],
                ),
                result("q/r", vec![claim("q/r.1", None, Kind::Arithmetic)]),
            ],
            how: String::new(),
            notes: Vec::new(),
        });
        for wanted in [
            "| p | measured | 1 | 1 | 0 | 0 | 0 | 0 | 0 |\n",
            "| p | measured, as printed | 1 | 0 | 0 | 1 | 0 | 0 | 0 |\n",
            "| p | measured, late | 1 | 0 | 0 | 1 | 0 | 0 | 0 |\n",
            "| q | arithmetic | 1 | 1 | 0 | 0 | 0 | 0 | 0 |\n",
            "Not counted: 1 claims on rows",
            "| r.1: t | holds | fails | fails | e |\n",
            "| r.2: t | holds (used for calibration) | holds | holds | e |\n",
            "| r.1: t | holds (arithmetic) | e |\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }

    #[test]
    fn a_cell_stays_a_cell() {
        assert_eq!(cell("a | b\n <c>"), "a \\| b &lt;c>");
        assert_eq!(cell("*d* _e_ `f` [g]"), r"\*d\* \_e\_ \`f\` \[g\]");
    }
}
