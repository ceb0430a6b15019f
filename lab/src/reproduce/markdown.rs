//! A reproduction as a document in Markdown, to be kept beside the code.

use std::fmt::Write;

use super::judge::{Verdict, shown};
use super::text::{place, within};
use super::{ClaimReport, Reproduction, ResultReport, RowReport};

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

/// A line for each paper: how many of its claims have which verdict.
fn summary(reproduction: &Reproduction) -> String {
    let paper = |result: &ResultReport| result.id.split('/').next().unwrap_or(result.id);
    let mut papers: Vec<&str> = Vec::new();
    for name in reproduction.results.iter().map(paper) {
        if !papers.contains(&name) {
            papers.push(name);
        }
    }
    let words: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.word()).collect();
    // A table begins after an empty line.
    let mut text = format!("\n| paper | claims | {} |\n", words.join(" | "));
    text += &format!("|---|{}\n", "---:|".repeat(1 + words.len()));
    for name in papers {
        let of_paper = reproduction.results.iter().filter(|r| paper(r) == name);
        let claims: Vec<&ClaimReport> = of_paper.flat_map(|r| &r.claims).collect();
        let counts = Verdict::ALL.map(|verdict| {
            let of = claims.iter().filter(|claim| claim.verdict == verdict);
            of.count().to_string()
        });
        let _ = writeln!(
            text,
            "| {name} | {} | {} |",
            claims.len(),
            counts.join(" | ")
        );
    }
    text
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
    text += "\n| claim | verdict | evidence |\n|---|---|---|\n";
    for claim in &result.claims {
        let number = claim.id.rsplit('/').next().unwrap_or(claim.id);
        let _ = writeln!(
            text,
            "| {number}: {} | {} | {} |",
            cell(claim.text),
            claim.verdict.word(),
            cell(&claim.evidence)
        );
    }
    text
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

/// Text that ends no cell and begins no markup.
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

    #[test]
    fn a_cell_stays_a_cell() {
        assert_eq!(cell("a | b\n <c>"), "a \\| b &lt;c>");
        assert_eq!(cell("*d* _e_ `f` [g]"), r"\*d\* \_e\_ \`f\` \[g\]");
    }
}
