//! A reproduction as a self-contained page: an overview of all claims, then each result with its numbers beside the
//! paper's and the evidence of its claims.

use super::text::{beside, place, within};
use super::verdict::{Verdict, shown};
use super::{ClaimReport, Reproduction, ResultReport, RowReport, in_words};
use crate::report::{document, escape, section};

/// Legend for claims with a second verdict, and for verdicts in brackets.
const TWO_COLUMNS: &str = "<li>A dot at the end is the verdict with the values that the paper prints instead of \
     calibrated ones. Dashed: places were calibrated on it; it is counted nowhere.</li>";

/// The page.
pub(super) fn html(reproduction: &Reproduction) -> String {
    let results: String = reproduction.results.iter().map(result).collect();
    let article = format!(
        "<article><header><p class=\"kicker\">weir · reproduce</p><h1>{}</h1><p class=\"measured\">{}</p></header>\
         {}{results}</article>",
        escape(&title(reproduction)),
        escape(&reproduction.how),
        at_a_glance(reproduction),
    );
    document("weir: the papers' claims", OWN_STYLE, &article)
}

fn title(reproduction: &Reproduction) -> String {
    let counts = reproduction.counts();
    let all: usize = counts.iter().map(|(_, count)| count).sum();
    format!("{all} claims: {}", in_words(counts))
}

fn at_a_glance(reproduction: &Reproduction) -> String {
    let line = |result: &ResultReport| {
        let chips: String = result.claims.iter().map(chip).collect();
        format!(
            "<tr><th scope=\"row\"><a href=\"#{id}\">{id}</a></th><td class=\"chips\">{chips}</td></tr>",
            id = escape(result.id)
        )
    };
    let lines: String = reproduction.results.iter().map(line).collect();
    let keys: String = Verdict::ALL
        .iter()
        .map(|verdict| format!("<li>{}{}</li>", dot(*verdict), verdict.word()))
        .collect();
    let notes: String = reproduction.notes.iter().map(|note| item(note)).collect();
    let missing = reproduction.missing();
    let missing = missing.map(|(id, what)| item(&format!("missing: {id}: {what}")));
    let notes = notes + TWO_COLUMNS + &missing.collect::<String>();
    let body = format!(
        "<ul class=\"legend\">{keys}</ul><div class=\"scroll\"><table class=\"glance\"><tbody>{lines}\
         </tbody></table></div><ul>{notes}</ul>"
    );
    section("Every claim at a glance", &body)
}

fn class(verdict: Verdict) -> String {
    format!("v-{}", verdict.word().replace(' ', "-"))
}

fn dot(verdict: Verdict) -> String {
    format!("<span class=\"swatch {}\"></span>", class(verdict))
}

fn chip(claim: &ClaimReport) -> String {
    let number = claim.id.rsplit('/').next().unwrap_or(claim.id);
    let printed = claim.as_printed.map(dot).unwrap_or_default();
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

fn item(text: &str) -> String {
    format!("<li>{}</li>", escape(text))
}

fn result(result: &ResultReport) -> String {
    let claims: String = result.claims.iter().map(claim).collect();
    let notes: String = result.notes.iter().map(|note| item(note)).collect();
    let files = match result.files.join(", ") {
        none if none.is_empty() => none,
        files => format!("Scenarios: <code>{}</code>; ", escape(&files)),
    };
    let rows = match result.rows.is_empty() {
        true => String::new(),
        false => numbers(&result.rows),
    };
    let picture = |svg: &String| format!("<figure class=\"picture\">{svg}</figure>");
    let pictures: String = result.pictures.iter().map(picture).collect();
    let body = format!(
        "{pictures}<ul class=\"claims\">{claims}</ul>{rows}<ul class=\"notes\">{notes}</ul>\
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
    format!(
        "<li id=\"{id}\"><p><span class=\"{class}\">{verdict}</span> <strong>{text}</strong> \
         <small>{id}{beside}</small></p><p>{evidence}</p></li>",
        id = escape(claim.id),
        class = chip_class(claim),
        beside = beside(claim)
            .map(|words| format!("; {}", escape(&words)))
            .unwrap_or_default(),
        verdict = claim.verdict.word(),
        text = escape(claim.text),
        evidence = escape(&claim.evidence)
    )
}

fn numbers(rows: &[RowReport]) -> String {
    let line = |row: &RowReport| {
        let ci95 = row.ci95.map(|ci| format!("<small>±{}</small>", shown(ci)));
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"flow\">{}</td><td>{}</td><td>{}{}</td><td>{}</td></tr>",
            escape(&place(row)),
            escape(row.metric),
            shown(row.paper),
            row.ours.map(shown).unwrap_or_default(),
            ci95.unwrap_or_default(),
            within(row),
        )
    };
    let lines: String = rows.iter().map(line).collect();
    format!(
        "<div class=\"scroll\"><table class=\"hogs\"><thead><tr><th></th><th></th><th>The paper</th>\
         <th>Ours</th><th></th></tr></thead><tbody>{lines}</tbody></table></div>"
    )
}

const OWN_STYLE: &str = "\
:root{--holds:#1a7f4b;--partly:#8a6a00;--fails:#b3261e;--undecided:#5b5fa8;--not-run:#6b747e;--missing:#b3261e}\
@media(prefers-color-scheme:dark){:root{--holds:#3fb67b;--partly:#d0a52c;--fails:#f07a70;\
--undecided:#9ea3ee;--not-run:#8d97a3;--missing:#f07a70}}\
.v-holds{--v:var(--holds)}.v-partly{--v:var(--partly)}.v-fails{--v:var(--fails)}\
.v-undecided{--v:var(--undecided)}.v-not-run{--v:var(--not-run)}.v-missing{--v:var(--missing)}\
.chip.calibrated{border-style:dashed}.chip .swatch{margin:0 0 0 .35rem;vertical-align:baseline}\
.swatch[class*=v-]{background:var(--v)}\
.chip{display:inline-block;margin:.1rem .25rem .1rem 0;padding:.05rem .5rem;border-radius:99px;\
border:1.5px solid var(--v);color:var(--v);font-size:.85rem;font-weight:600;text-decoration:none}\
.glance td.chips{text-align:left;white-space:normal}\
.glance a{color:inherit}.glance .chip{color:var(--v)}\
.claims{list-style:none;padding:0;margin:0 0 1.2rem}.claims li{border-top:1px solid var(--faint);padding:.7rem 0}\
.claims p{margin:.2rem 0;max-width:60rem}.claims strong{color:var(--ink);font-size:1rem}\
.picture{display:inline-block;margin:0 .6rem .8rem 0;width:min(100%,36rem)}.picture svg{width:100%;height:auto}\
.claims small{display:inline}.notes{color:var(--soft);font-size:.9rem;padding-left:1.2rem}";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    #[test]
    fn the_page_has_every_claim_and_needs_nothing_else() {
        let claim = |id, verdict, as_printed| ClaimReport {
            id,
            text: "more is <more>",
            verdict,
            as_printed,
            calibrated: as_printed.is_some(),
            evidence: "a & b".to_owned(),
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
                pictures: vec!["<svg></svg>".to_owned()],
                title: "r",
                notes: Box::leak(Box::new(["n".to_owned()])),
                files: vec!["p/r.toml"],
                missing: vec!["there is no metric `x`".to_owned()],
            }],
            how: "quickly".to_owned(),
            notes: Vec::new(),
        };
        let page = html(&reproduction);
        for wanted in [
            "2 claims: 1 holds, 1 not run",
            "id=\"p/r.1\"",
            "id=\"p/r.2\"",
            "more is &lt;more&gt;",
            "a &amp; b",
            "chip v-not-run",
            "chip v-holds calibrated",
            "p/r.3; as printed: fails; calibrated on, no evidence",
            "missing: p/r: there is no metric",
            "floods 2",
            "<figure class=\"picture\"><svg>",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        assert!(!page.contains("http") && !page.contains("<script"));
    }
}
