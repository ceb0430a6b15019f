//! A reproduction as a self-contained page: an overview of all claims, then each result with the evidence of its claims
//! and a comparison of its numbers with the paper's, both folded.

use super::bar::Bar;
use super::samples::shown;
use super::text::{beside, in_words, place, within};
use super::verdict::Verdict;
use super::{ClaimReport, Reproduction, ResultReport, RowReport, name_of_paper, papers};
use crate::report::{document, escape, files, section};

/// The meaning of the signs of claims, and of the pictures of their values.
const LEGEND: &str = "<li>Measured: a measured value decides the claim. Arithmetic: printed numbers and equations \
     alone decide the claim. Calibrated: open values were fitted to the claim, so it is not evidence. Undecided: the \
     intervals are too wide, or the run was a preview, which refutes nothing.</li><li>A second sign, in parentheses, \
     is the verdict with the values printed in the paper instead of calibrated values. Dashed: the claim was used for \
     calibration and is not counted.</li><li>Next to a claim, the shaded range is permitted, the dot is our mean, and \
     the line is its 95 % interval.</li>";
/// Files next to the page.
const FILES: [&str; 2] = ["reproduce.md", "reproduce.json"];

/// The page.
pub(super) fn html(reproduction: &Reproduction) -> String {
    let results: String = reproduction.results.iter().map(result).collect();
    let article = format!(
        "<article><header><p class=\"kicker\">weir · reproduce</p><h1>{}</h1>\
         <p class=\"about\">{}.</p><p class=\"measured\">{}</p></header>{}{results}{}</article>",
        escape(&title(reproduction)),
        escape(&in_words(reproduction)),
        escape(&reproduction.how),
        at_a_glance(reproduction),
        files(&FILES.map(str::to_owned)),
    );
    document("weir: the papers' claims", OWN_STYLE, &article)
}

fn title(reproduction: &Reproduction) -> String {
    let all = reproduction.claims().count();
    format!("{all} claims of papers, reproduced")
}

fn at_a_glance(reproduction: &Reproduction) -> String {
    let line = |result: &ResultReport| {
        let groups: String = Verdict::ALL
            .iter()
            .map(|verdict| group(result, *verdict))
            .collect();
        format!(
            "<dt><a href=\"#{id}\">{id}</a></dt><dd>{groups}</dd>",
            id = escape(result.id)
        )
    };
    let lines: String = reproduction.results.iter().map(line).collect();
    let notes: String = reproduction.notes.iter().map(|note| item(note)).collect();
    let missing = reproduction.mistakes();
    let missing = missing.map(|(id, what)| item(&format!("faulty check: {id}: {what}")));
    let sources: String = papers()
        .iter()
        .filter(|paper| {
            reproduction
                .results
                .iter()
                .any(|result| name_of_paper(result.id) == paper.name)
        })
        .map(|paper| item(&format!("{}: {}", paper.name, paper.source)))
        .collect();
    let notes = sources + &notes + LEGEND + &missing.collect::<String>();
    let body = format!("<dl class=\"glance\">{lines}</dl><ul class=\"notes\">{notes}</ul>");
    section("All claims at a glance", &body)
}

fn class(verdict: Verdict) -> String {
    format!("v-{}", verdict.word().replace(' ', "-"))
}

/// The claims of a result with this verdict: its sign and word, and a link to each; empty without any.
fn group(result: &ResultReport, verdict: Verdict) -> String {
    let claims = result
        .claims
        .iter()
        .filter(|claim| claim.verdict == verdict);
    match claims.map(chip).collect::<String>() {
        none if none.is_empty() => none,
        chips => format!(
            "<span class=\"verdict {}\">{}</span>{chips}",
            class(verdict),
            signed(verdict)
        ),
    }
}

/// The sign and the word.
fn signed(verdict: Verdict) -> String {
    format!("{} {}", verdict.sign(), verdict.word())
}

fn chip(claim: &ClaimReport) -> String {
    let number = claim.id.rsplit('.').next().unwrap_or(claim.id);
    let printed = claim
        .as_printed
        .map(|verdict| format!(" ({})", verdict.sign()));
    let printed = printed.unwrap_or_default();
    let beside = beside(claim).map(|words| format!(" ({words})"));
    format!(
        "<a class=\"{}\" href=\"#{}\" title=\"{}{}: {}\">{}{printed}</a>",
        chip_class(claim),
        escape(claim.id),
        claim.verdict.word(),
        escape(&beside.unwrap_or_default()),
        escape(claim.text),
        escape(number)
    )
}

fn chip_class(claim: &ClaimReport) -> String {
    let calibrated = if claim.calibrated { " calibrated" } else { "" };
    format!("chip {}{calibrated}", class(claim.verdict))
}

/// A line of a list; text between back quotes becomes code.
fn item(text: &str) -> String {
    let text = escape(text);
    let parts = text.split('`').enumerate().map(|(n, part)| {
        if n % 2 == 0 {
            part.to_owned()
        } else {
            format!("<code>{part}</code>")
        }
    });
    format!("<li>{}</li>", parts.collect::<String>())
}

fn result(result: &ResultReport) -> String {
    let claims: String = result.claims.iter().map(claim).collect();
    let notes: String = result.notes.iter().map(|note| item(note)).collect();
    let files = match result.files.join(", ") {
        none if none.is_empty() => none,
        files => format!("Scenarios: <code>{}</code>; ", escape(&files)),
    };
    let rows = if result.rows.is_empty() {
        String::new()
    } else {
        numbers(&result.rows)
    };
    let pictures = match result.pictures.concat() {
        none if none.is_empty() => none,
        pictures => format!("<div class=\"grid\">{pictures}</div>"),
    };
    let body = format!(
        "<ul class=\"claims\">{claims}</ul>{pictures}{rows}<ul class=\"notes\">{notes}</ul>\
         <p>{}<code>weir reproduce {} --on {}</code></p>",
        files,
        escape(result.id),
        escape(result.on)
    );
    let section = section(result.title, &body);
    section.replacen(
        "<section>",
        &format!("<section id=\"{}\">", escape(result.id)),
        1,
    )
}

fn claim(claim: &ClaimReport) -> String {
    // A claim with one number shows it; with several numbers, they are shown when the evidence is unfolded.
    let bars: String = claim.bars.iter().map(Bar::html).collect();
    let (shown, folded) = match claim.bars.len() {
        1 => (bars, String::new()),
        _ => (String::new(), bars),
    };
    let parts = claim.evidence.split("; ");
    let new = parts.filter(|part| !claim.bars.iter().any(|bar| bar.says(part)));
    let mut evidence: String = new.map(item).collect();
    if !evidence.is_empty() {
        evidence = format!("<ul>{evidence}</ul>");
    }
    if !folded.is_empty() || !evidence.is_empty() {
        evidence = format!("<details><summary>Evidence</summary>{folded}{evidence}</details>");
    }
    format!(
        "<li id=\"{id}\"><p><span class=\"{class}\">{verdict}</span> <strong>{text}</strong> \
         <small>{id}{beside}</small></p>{shown}{evidence}</li>",
        id = escape(claim.id),
        class = chip_class(claim),
        beside = beside(claim)
            .map(|words| format!("; {}", escape(&words)))
            .unwrap_or_default(),
        verdict = signed(claim.verdict),
        text = escape(claim.text),
    )
}

fn numbers(rows: &[RowReport]) -> String {
    let line = |row: &RowReport| {
        let ci95 = row.ci95.map(|ci| format!("<small>±{}</small>", shown(ci)));
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"flow\">{}</td><td>{}</td><td>{}{}</td><td>{} {}</td></tr>",
            escape(&place(row)),
            escape(row.metric),
            shown(row.paper),
            row.ours.map(shown).unwrap_or_default(),
            ci95.unwrap_or_default(),
            row.verdict().sign(),
            within(row),
        )
    };
    let lines: String = rows.iter().map(line).collect();
    let within = rows.iter().filter(|row| row.within == Some(true)).count();
    format!(
        "<details><summary>{} numbers compared with the paper's, {within} within the tolerance</summary><div \
         class=\"scroll\"><table class=\"hogs\"><thead><tr><th></th><th></th><th>The \
         paper</th><th>Ours</th><th></th></tr></thead><tbody>{lines}</tbody></table></div></details>",
        rows.len()
    )
}

const OWN_STYLE: &str = "\
:root{--holds:#1a7f4b;--partly:#8a6a00;--fails:#b3261e;--undecided:#5b5fa8;--not-run:#6b747e;--missing:#b3261e}\
@media(prefers-color-scheme:dark){:root{--holds:#3fb67b;--partly:#d0a52c;--fails:#f07a70;\
--undecided:#9ea3ee;--not-run:#8d97a3;--missing:#f07a70}}\
.v-holds{--v:var(--holds)}.v-partly{--v:var(--partly)}.v-fails{--v:var(--fails)}\
.v-undecided{--v:var(--undecided)}.v-not-run{--v:var(--not-run)}.v-missing{--v:var(--missing)}\
.chip.calibrated{border-style:dashed}.verdict{color:var(--v);font-weight:600;margin-right:.4rem;white-space:nowrap}\
.chip{display:inline-block;margin:.1rem .25rem .1rem 0;padding:.05rem .5rem;border-radius:99px;\
border:1.5px solid var(--v);color:var(--v);font-size:.85rem;font-weight:600;text-decoration:none}\
.glance{margin:0 0 1rem}.glance dt{font-weight:600;margin-top:.5rem}.glance dd{margin:.1rem 0 0}\
.glance dt a{color:inherit}.glance .chip:not(:has(+.chip)){margin-right:1rem}\
@media(min-width:40rem){.glance{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.2rem}.glance dt{margin:0}}\
.bar{display:grid;grid-template-columns:minmax(0,3fr) minmax(6rem,2fr);gap:.2rem 1rem;align-items:center;\
font-size:.9rem;margin:.3rem 0;max-width:60rem}.bar svg{height:1rem;overflow:visible}\
details ul{color:var(--soft);font-size:.9rem;padding-left:1.2rem;overflow-wrap:anywhere}\
.claims{list-style:none;padding:0;margin:0 0 1.2rem}.claims>li{border-top:1px solid var(--faint);padding:.7rem 0}\
.claims p{margin:.2rem 0;max-width:60rem}.claims strong{color:var(--ink);font-size:1rem}\
.claims small{display:inline}.notes{color:var(--soft);font-size:.9rem;padding-left:1.2rem}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Kind;
    use crate::statistics::Summary;
    use serde_json::Map;

    #[test]
    fn the_page_has_every_claim_and_needs_nothing_else() {
        let claim = |id, verdict, as_printed| ClaimReport {
            id,
            text: "more is <more>",
            verdict,
            as_printed,
            otherwise: Vec::new(),
            calibrated: as_printed.is_some(),
            kind: match as_printed {
                Some(_) => Kind::Calibrated,
                None => Kind::Measured,
            },
            evidence: "a & b; c".to_owned(),
            is_fixed: false,
            bars: Vec::from_iter(Bar::of(
                Verdict::Fails,
                "value",
                Summary::of(&[1.0]),
                [Some(2.0), None],
            )),
        };
        let reproduction = Reproduction {
            results: vec![ResultReport {
                id: "p/r",
                on: "sim",
                rows: vec![RowReport {
                    set: Map::from_iter([("floods".to_owned(), 2.into())]),
                    metric: "x",
                    paper: 2.0,
                    ours: Some(2.1),
                    ci95: Some(0.1),
                    within: Some(true),
                    tolerance: 0.15,
                }],
                claims: vec![
                    claim("p/r.1", Verdict::Holds, None),
                    claim("p/r.2", Verdict::NotRun, None),
                    claim("p/r.3", Verdict::Holds, Some(Verdict::Fails)),
                ],
                pictures: vec!["<figure><svg></svg></figure>".to_owned()],
                title: "r",
                notes: &["n"],
                files: vec!["p/r.toml"],
                missing: vec!["unknown metric `x`".to_owned()],
            }],
            how: "quickly".to_owned(),
            notes: Vec::new(),
        };
        let page = html(&reproduction);
        for wanted in [
            "<h1>3 claims of papers, reproduced</h1>",
            "measured: 1 holds, 1 not run; calibrated: 1 holds.</p>",
            "id=\"p/r.1\"",
            "id=\"p/r.2\"",
            "more is &lt;more&gt;",
            "<details><summary>Evidence</summary><ul><li>a &amp; b</li><li>c</li></ul>",
            "\u{2717} value: 1.000 (at least 2.000)",
            "\u{2713} holds</span><a class=\"chip v-holds\" href=\"#p/r.1\"",
            "1 numbers compared with the paper's, 1 within",
            "\u{2713} within 15 %",
            "href=\"reproduce.json\"",
            ">3 (\u{2717})</a>",
            "chip v-not-run",
            "chip v-holds calibrated",
            "p/r.3; as printed: fails; used for calibration, not evidence",
            "faulty check: p/r: unknown metric",
            "floods 2",
            "<div class=\"grid\"><figure><svg>",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert!(!page.contains("http") && !page.contains("<script"));
    }
}
