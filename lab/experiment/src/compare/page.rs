//! A comparison as a self-contained page: the finding, delay over rate, a table for each question, then each load with
//! delay over rate, the distributions of its delays and the shares of its traffic over time.

use std::path::{Path, PathBuf};

use super::answers::{Answer, DIGITS, Table};
use super::number::shown;
use super::{Answers, Comparison, Loaded};
use crate::agreement::Ran;
use crate::error::Error;
use crate::report::{
    COLOURS_MAX, DISTURBED, agreement_html, document, escape, files, make, pictures, put, section,
};

/// Styles of columns side by side, and of the discipline, which stays visible when a narrow page scrolls.
const OWN_STYLE: &str = "table.answers{width:auto}.answers th,.answers td{padding-left:1.3rem}\
    .answers th[scope=row]{position:sticky;left:0;background:var(--card);padding-left:0}\
    .answers .first{border-left:1px solid var(--faint)}td.best{font-weight:700;color:var(--good)}\
    p.finding{font-size:1.1rem;max-width:46rem;margin:.6rem 0}";

/// The file with the tables as JSON, next to the page.
const JSON: &str = "compare.json";

/// Writes `compare.html` and `compare.json` into `folder`, which is created if necessary. Returns their paths.
///
/// # Errors
///
/// The folder or a file cannot be written.
pub fn write(comparison: &Comparison, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    make(folder)?;
    let json = serde_json::to_string_pretty(comparison);
    let json = json.map_err(|e| Error::io("cannot write the comparison as JSON")(e.into()))?;
    let files = [("compare.html", html(comparison)), (JSON, json + "\n")];
    let files = files
        .iter()
        .map(|(name, content)| put(folder, name, content.as_bytes()));
    files.collect()
}

fn html(comparison: &Comparison) -> String {
    let habitats = comparison.habitats.iter();
    let habitats: String = habitats
        .map(|answers| habitat(comparison, answers))
        .collect();
    let loads = comparison.loads.iter();
    let loads: String = loads.map(|one| load(comparison, one)).collect();
    let title = title(comparison);
    let files = format!("<article>{}</article>", files(&[JSON.to_owned()]));
    document(
        &format!("weir: {title}"),
        OWN_STYLE,
        &format!("{habitats}{loads}{files}"),
    )
}

fn title(comparison: &Comparison) -> String {
    let loads = comparison.loads.len();
    let plural = if loads == 1 { "" } else { "s" };
    format!(
        "{} disciplines under {loads} load{plural}",
        comparison.disciplines.len()
    )
}

fn habitat(comparison: &Comparison, answers: &Answers) -> String {
    let place = match answers.on.as_str() {
        "sim" => "simulation",
        other => other,
    };
    let finding = answers.finding.as_ref();
    let finding = finding.map_or(String::new(), |told| {
        format!("<p class=\"finding\">{}</p>", escape(told))
    });
    let loads = answers.loads.iter().map(|load| {
        let [name, title, note] = [&load.name, &load.title, &load.note].map(|text| escape(text));
        format!("<li><b>{name}</b>: {title}. {note}</li>")
    });
    let notes = answers.notes.iter();
    let notes = notes.map(|note| format!("<li>{}</li>", escape(note)));
    let overview = answers.tradeoffs.first();
    let overview = overview.filter(|all| all.load.is_empty());
    let overview = overview.map_or(String::new(), |all| all.html(&comparison.disciplines));
    let tables: String = answers
        .tables
        .iter()
        .map(|table| question(comparison, table))
        .collect();
    let unmeasured = match answers.on.as_str() {
        "lab" => " The lab does not measure queue delay.",
        _ => "",
    };
    let cells = answers
        .tables
        .iter()
        .flat_map(|t| &t.columns)
        .flat_map(|c| &c.cells);
    let disturbed = if cells.clone().any(|cell| cell.disturbed) {
        DISTURBED
    } else {
        ""
    };
    format!(
        "<article><header><p class=\"kicker\">weir · compare · {place}</p><h1>{}</h1>{finding}<ul \
         class=\"causes\">{}</ul><p class=\"measured\">Means over the runs ± half of the 95 % interval; all \
         disciplines use the same seeds. Bold: the best result, and results within the interval of its \
         mean.{unmeasured}</p>{disturbed}</header>{overview}{tables}<footer><ul>{}</ul></footer></article>",
        escape(&title(comparison)),
        loads.collect::<String>(),
        notes.collect::<String>(),
    )
}

fn question(comparison: &Comparison, table: &Table) -> String {
    let mut heads = String::new();
    for (number, answer) in table.columns.iter().enumerate() {
        let (load, statistic) = (escape(&answer.load), escape(answer.statistic));
        let class = if is_first(table, number) {
            " class=\"first\""
        } else {
            ""
        };
        heads += &format!("<th{class}>{load}<small>{statistic}</small></th>");
    }
    let rows = comparison.disciplines.iter().enumerate();
    let rows = rows.map(|(number, discipline)| {
        let cells = table.columns.iter().enumerate();
        let cells = cells.map(|(number, answer)| cell(answer, discipline, is_first(table, number)));
        let cells: String = cells.collect();
        format!(
            "<tr><th scope=\"row\"><span class=\"swatch line{}\"></span>{}</th>{cells}</tr>",
            number % COLOURS_MAX,
            escape(discipline)
        )
    });
    let message = format!(
        "{}, {}: {} is better",
        table.question,
        table.unit,
        table.better.word()
    );
    section(
        &message,
        &format!(
            "<div class=\"scroll\"><table class=\"answers\"><thead><tr><th></th>{heads}</tr></thead><tbody>{}</tbody></table></div>",
            rows.collect::<String>()
        ),
    )
}

/// Whether a column is the first of its load.
fn is_first(table: &Table, number: usize) -> bool {
    let before = number
        .checked_sub(1)
        .and_then(|before| table.columns.get(before));
    before.is_none_or(|before| {
        table
            .columns
            .get(number)
            .is_some_and(|here| here.load != before.load)
    })
}

fn cell(answer: &Answer, discipline: &str, is_first: bool) -> String {
    let cell = answer.of(discipline);
    let text = cell.map_or("–".to_owned(), |cell| shown(&cell.summary, DIGITS));
    let disturbed = if cell.is_some_and(|cell| cell.disturbed) {
        "<small>disturbed</small>"
    } else {
        ""
    };
    let classes = [
        (is_first, "first"),
        (cell.is_some_and(|cell| cell.best), "best"),
    ];
    let classes: Vec<&str> = classes
        .into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, class)| class)
        .collect();
    format!("<td class=\"{}\">{text}{disturbed}</td>", classes.join(" "))
}

/// The pictures of a load, and how far the habitats agree.
fn load(comparison: &Comparison, Loaded { name, ran, .. }: &Loaded) -> String {
    let agreement = match ran {
        Ran::One(_) => String::new(),
        Ran::Both(both) => agreement_html(both),
    };
    let results = ran.results().into_iter().zip(&comparison.habitats);
    let results = results.map(|(result, answers)| {
        // A load whose scenario sweeps values has several pictures.
        let own = answers
            .tradeoffs
            .iter()
            .filter(|picture| picture.is_of(name));
        let own = own.map(|picture| picture.html(&comparison.disciplines));
        pictures(name, result, &own.collect::<String>())
    });
    results.collect::<String>() + &agreement
}
