//! A reproduction as a document in Markdown, kept beside the code.

use std::fmt::Write;

use super::text::{place, within};
use super::verdict::{Verdict, shown};
use super::{ClaimReport, Reproduction, ResultReport, RowReport, counts};

/// The document.
pub(super) fn markdown(reproduction: &Reproduction) -> String {
    let mut text = String::from("# The papers' results, run again\n\n");
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
    let mut text = format!("\n| paper | column | claims | {} |\n", words.join(" | "));
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
        line("as read", counts(claims(), |claim| Some(claim.verdict)));
        if claims().any(|claim| claim.as_printed.is_some()) {
            line("as printed", counts(claims(), |claim| claim.as_printed));
        }
    }
    let calibrated = reproduction.claims().filter(|claim| claim.calibrated);
    match calibrated.count() {
        0 => text,
        n => {
            text + &format!(
                "\nNot counted: {n} claims on rows that open places were calibrated on.\n"
            )
        }
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
    let has_two = result.claims.iter().any(|claim| claim.as_printed.is_some());
    text += match has_two {
        true => "\n| claim | verdict | as printed | evidence |\n|---|---|---|---|\n",
        false => "\n| claim | verdict | evidence |\n|---|---|---|\n",
    };
    text.extend(result.claims.iter().map(|claim| line(claim, has_two)));
    text
}

/// A claim's line; it has the verdict as printed if the table has that column.
fn line(claim: &ClaimReport, has_two: bool) -> String {
    let number = claim.id.rsplit('/').next().unwrap_or(claim.id);
    let verdict = match claim.calibrated {
        true => format!("{} (calibrated on)", claim.verdict.word()),
        false => claim.verdict.word().to_owned(),
    };
    let printed = match (has_two, claim.as_printed) {
        (false, _) => String::new(),
        (true, printed) => format!(" {} |", printed.map_or("", Verdict::word)),
    };
    format!(
        "| {number}: {} | {verdict} |{printed} {} |\n",
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

    fn claim(id: &'static str, as_printed: Option<Verdict>, calibrated: bool) -> ClaimReport {
        ClaimReport {
            id,
            text: "t",
            verdict: Verdict::Holds,
            as_printed,
            calibrated,
            evidence: "e".to_owned(),
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
                        claim("p/r.1", Some(Verdict::Fails), false),
                        claim("p/r.2", Some(Verdict::Holds), true),
                    ],
                ),
                result("q/r", vec![claim("q/r.1", None, false)]),
            ],
            how: String::new(),
            notes: Vec::new(),
        });
        for wanted in [
            "| p | as read | 1 | 1 | 0 | 0 | 0 | 0 | 0 |\n",
            "| p | as printed | 1 | 0 | 0 | 1 | 0 | 0 | 0 |\n",
            "| q | as read | 1 | 1 | 0 | 0 | 0 | 0 | 0 |\n",
            "Not counted: 1 claims on rows",
            "| r.1: t | holds | fails | e |\n",
            "| r.2: t | holds (calibrated on) | holds | e |\n",
            "| r.1: t | holds | e |\n",
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
