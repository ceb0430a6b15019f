//! Reproduces the papers' results: their numbers compared with ours, and a verdict on each of their claims.
//!
//! ```text
//!   Paper ─▶ Recipe ─▶ scenarios ─▶ points, each once ─▶ Measured ─┐
//!                   ─▶ tables (the paper's numbers), figures ◀─────┤
//!                   ─▶ claims (text, conditions) ◀── Findings ◀────┘
//! ```
//!
//! - [`recipe`]: the parts of a result; each paper has a module with all of its results, whose claims are functions
//! - [`query`]: what a claim asks of the measurements; [`decide`]: a claim with its measurements becomes its report
//! - [`figure`]: the pictures of a result
//! - [`lru_fq`], [`afan_eccm`], [`sd_bm`], [`forces_flow_control`]: the papers; other crates add theirs ([`extension`](crate::extension))
//! - [`bench`]: measurements that are neither scenarios nor load tests
//! - [`measured`]: from scenarios to runs and back
//! - `findings`: the statistics of all claims; `samples`: measured values; [`verdict`]: the verdicts
//! - [`faults`]: mistakes in the parts of a paper
//! - [`page`], [`markdown`], [`text`]: the output
//!
//! A number of a paper is *within* if the difference to ours is at most its tolerance; this decides no verdict. A
//! verdict follows from the claim's own conditions.
//!
//! Where a paper is ambiguous, or prints a value that contradicts its own results, we calibrate the value on some of
//! its rows. Each claim then has several verdicts: one for the paper as read, with the calibrated values, one for the
//! paper as printed, and one for each other reading of a place that decides claims. Claims about the calibration rows
//! are shown, but not counted.

mod afan_eccm;
mod bar;
pub mod bench;
mod decide;
mod faults;
pub mod figure;
pub mod findings;
mod forces_flow_control;
mod lru_fq;
mod markdown;
pub mod measured;
mod met;
mod page;
pub mod query;
pub mod recipe;
pub mod samples;
mod sd_bm;
mod text;
pub mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Map, Value};
use weir_base::setting::{did_you_mean, nearest};

use crate::added::Added;
use crate::error::Error;
use crate::habitat::Habitat;
use crate::options::RunOptions;
use crate::scenario::Override;
use bar::Bar;
use decide::decide;
use measured::{Measured, Wanted};
use recipe::{Cell, Paper, Recipe, TableLine};
use samples::Samples;
use verdict::Verdict;

pub use faults::faults;
pub use recipe::Kind;
pub use text::text;

/// The papers of other crates.
pub(crate) static PAPERS: Added<fn() -> Paper> = Added::new();

/// Every paper: ours, and the papers of other crates.
pub fn papers() -> &'static [Paper] {
    static ALL: LazyLock<Vec<Paper>> = LazyLock::new(|| {
        let own = [
            lru_fq::paper(),
            afan_eccm::paper(),
            sd_bm::paper(),
            forces_flow_control::paper(),
        ];
        let added = PAPERS.all().iter().map(|paper| paper());
        own.into_iter().chain(added).collect()
    });
    &ALL
}

/// Number of seeds of each point, in a full and in a quick run; number of runs of each point in the lab.
const RUNS: u64 = 10;
const RUNS_QUICK: u64 = 3;
const RUNS_LAB: u64 = 5;

/// The habitat of measurements that need no network.
const IN_MEMORY: &str = "memory";

/// Options of a reproduction.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Habitat, concurrency, interruption and progress; the reproduction chooses the scenario and its settings
    /// itself.
    pub run: RunOptions,
    /// Uses fewer seeds and shorter runs.
    pub quick: bool,
    /// Runs load tests and other measurements of this machine as well. Without them, claims that need one are not run.
    pub load: bool,
    /// A file of relationships between domains, for the measurement of paths; if `None`, graphs are generated.
    pub graph: Option<PathBuf>,
    /// Values set at paths of every scenario, after all others.
    pub overrides: Vec<Override>,
}

/// The reproduced results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    /// One report for each result.
    pub results: Vec<ResultReport>,
    /// The conditions of the run, in a sentence.
    #[serde(skip)]
    pub how: String,
    /// Notes for the reader.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// One result of a paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResultReport {
    /// `PAPER/RESULT`.
    pub id: &'static str,
    /// `sim`, `lab`, or `memory`.
    pub on: &'static str,
    /// The paper's numbers and ours.
    pub rows: Vec<RowReport>,
    /// The paper's claims.
    pub claims: Vec<ClaimReport>,
    /// The pictures, as SVG.
    #[serde(skip)]
    pub pictures: Vec<String>,
    /// The title.
    #[serde(skip)]
    pub title: &'static str,
    /// Set-up and readings.
    #[serde(skip)]
    pub notes: &'static [&'static str],
    /// The scenarios that were run.
    #[serde(skip)]
    pub files: Vec<&'static str>,
    /// Names in numbers and pictures that do not exist, and lines of tables for which we have no number.
    #[serde(skip)]
    pub missing: Vec<String>,
}

/// A number of the paper and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowReport {
    /// The values that identify the line.
    pub set: Map<String, Value>,
    /// The column.
    pub metric: &'static str,
    /// The paper's number.
    pub paper: f64,
    /// Our number, if it was measured.
    pub ours: Option<f64>,
    /// Half of the 95 % interval.
    pub ci95: Option<f64>,
    /// Whether our number is within the tolerance.
    pub within: Option<bool>,
    /// The tolerance, as a share of the paper's number.
    #[serde(skip)]
    pub tolerance: f64,
}

/// A claim and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimReport {
    /// `PAPER/RESULT.n`.
    pub id: &'static str,
    /// The claim.
    pub text: &'static str,
    /// The verdict, as the paper is read.
    pub verdict: Verdict,
    /// The verdict for the values that the paper prints; `None` if no value of the paper was calibrated.
    pub as_printed: Option<Verdict>,
    /// The verdicts with other readings, by their names.
    pub otherwise: Vec<(&'static str, Verdict)>,
    /// Whether ambiguous values were chosen so that the claim holds: then it is not evidence.
    pub calibrated: bool,
    /// The values that the verdict depends on.
    pub kind: Kind,
    /// The evidence, for the paper as read.
    pub evidence: String,
    /// Whether no measured value could change the verdict, although it depends on some.
    #[serde(skip)]
    pub is_fixed: bool,
    /// The values and their limits.
    #[serde(skip)]
    pub bars: Vec<Bar>,
}

/// The named results (`PAPER` or `PAPER/RESULT`), or all results if `names` is empty. The error for an unknown name
/// suggests the nearest known name.
pub fn select(names: &[String]) -> Result<Vec<&'static Recipe>, String> {
    let all = || papers().iter().flat_map(|paper| &paper.results);
    if names.is_empty() {
        return Ok(all().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        let is_paper = papers().iter().any(|paper| paper.name == *name);
        let before = chosen.len();
        let fits = |recipe: &&Recipe| {
            recipe.id == *name || (is_paper && name_of_paper(recipe.id) == *name)
        };
        chosen.extend(all().filter(fits));
        if chosen.len() == before {
            let papers = papers().iter().map(|paper| paper.name);
            let known = papers.chain(all().map(|recipe| recipe.id));
            let hint = did_you_mean(nearest(name, known));
            return Err(format!("unknown result `{name}`{hint}"));
        }
    }
    chosen.sort_by_key(|recipe| all().position(|known| known.id == recipe.id));
    chosen.dedup_by_key(|recipe| &recipe.id);
    Ok(chosen)
}

/// Runs the scenarios of these results and decides their claims.
pub fn run(recipes: &[&'static Recipe], options: &Options) -> Result<Reproduction, Error> {
    let runs = options
        .run
        .runs
        .unwrap_or(match (options.run.on, options.quick) {
            (_, true) => RUNS_QUICK,
            (Habitat::Lab, false) => RUNS_LAB,
            (Habitat::Sim, false) => RUNS,
        });
    let run = RunOptions {
        runs: Some(runs),
        seed: Some(options.run.seed.unwrap_or(1)),
        ..options.run.clone()
    };
    let began = std::time::Instant::now();
    let mut measured = measured::measure(&wanted(recipes), options, &run)?;
    if options.load {
        let loads = recipes.iter().flat_map(|recipe| recipe.loads).copied();
        let benches = recipes.iter().flat_map(|recipe| recipe.benches).copied();
        let names = [loads.collect(), benches.collect()];
        measured::add_of_machine(&mut measured, names, options, &run)?;
    }
    let mut parts = Vec::new();
    if measured.runs > 0 || measured.tests + measured.benches == 0 {
        let place = match run.on {
            Habitat::Sim => "simulation",
            Habitat::Lab => "network namespaces with real TCP",
        };
        let count = measured.runs;
        parts.push(format!(
            "{count} runs in {place}, {runs} seeds for each point"
        ));
    }
    if measured.tests > 0 {
        parts.push(format!("{} load tests of this machine", measured.tests));
    }
    if measured.benches > 0 {
        parts.push(format!("{} measurements in memory", measured.benches));
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut how = format!("{}, in {seconds:.0} s.", parts.join(", and "));
    if options.quick {
        how += " This is a preview, with fewer seeds and shorter runs than the verdicts require.";
    }
    // A picture that fails is reported, and the other results stay.
    let mut notes = measured.notes.clone();
    Ok(Reproduction {
        results: recipes
            .iter()
            .map(|recipe| report(recipe, &measured, &mut notes))
            .collect(),
        how,
        notes,
    })
}

/// The scenarios of these results, without duplicates.
fn wanted(recipes: &[&'static Recipe]) -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut want = |scenario: &'static str, decides: bool| match wanted
        .iter_mut()
        .find(|known| known.scenario == scenario)
    {
        Some(known) => known.decides |= decides,
        None => wanted.push(Wanted { scenario, decides }),
    };
    for recipe in recipes {
        recipe.scenarios.iter().for_each(|name| want(name, true));
        recipe.readings.iter().for_each(|name| want(name, false));
    }
    wanted
}

fn report(recipe: &'static Recipe, measured: &Measured, notes: &mut Vec<String>) -> ResultReport {
    let paper = paper_of(recipe.id);
    let drawn = recipe.figures.iter();
    let drawn = drawn.map(|figure| figure.html(measured));
    let (drawn, failed): (Vec<_>, Vec<_>) = drawn.partition(Result::is_ok);
    notes.extend(failed.into_iter().filter_map(Result::err));
    let files = recipe.scenarios.iter().chain(recipe.readings);
    let lines = recipe.lines.iter();
    let rows: Vec<_> = lines.flat_map(|line| rows(line, measured)).collect();
    let _ = measured.take_needs_load(); // pictures and tables leave the measurement out
    let missing = match measured.on {
        Habitat::Sim => {
            let unknown = measured.take_unknown().into_iter();
            let empty = rows.iter().filter(|row| row.ours.is_none());
            unknown.chain(empty.map(RowReport::unmeasured)).collect()
        }
        Habitat::Lab => Vec::new(), // the lab does not measure everything that a simulation does
    };
    ResultReport {
        id: recipe.id,
        on: match (recipe.loads.is_empty(), recipe.benches.is_empty()) {
            _ if !recipe.scenarios.is_empty() => measured.on.word(),
            (false, _) => Habitat::Lab.word(), // real sockets and processes
            (true, false) => IN_MEMORY,
            (true, true) => measured.on.word(),
        },
        rows,
        missing,
        claims: recipe
            .claims
            .iter()
            .map(|claim| decide(paper, claim, measured))
            .collect(),
        pictures: drawn.into_iter().flatten().flatten().collect(),
        title: recipe.title,
        notes: recipe.notes,
        files: files.copied().collect(),
    }
}

impl RowReport {
    /// The message that we have no number for this line.
    fn unmeasured(&self) -> String {
        let line = self.set.iter().map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key} {text}"),
            None => format!("{key} {value}"),
        });
        let line = line.collect::<Vec<_>>().join(", ");
        format!(
            "the row `{line}` has no measured value for `{}`",
            self.metric
        )
    }
}

/// All numbers of a line of a table.
fn rows(line: &TableLine, measured: &Measured) -> Vec<RowReport> {
    let ours = (line.ours)(measured).into_iter();
    let row = |(ours, (metric, paper, tolerance)): (Samples, &Cell)| {
        let summary = ours.summary();
        RowReport {
            set: line.place.clone(),
            metric,
            paper: *paper,
            ours: summary.map(|s| s.mean),
            ci95: summary.and_then(|s| s.ci95),
            within: summary.map(|s| (s.mean / paper - 1.0).abs() <= *tolerance),
            tolerance: *tolerance,
        }
    };
    ours.zip(&line.cells).map(row).collect()
}

/// The name of the paper of a result or a scenario: `PAPER/..`.
fn name_of_paper(id: &str) -> &str {
    id.split_once('/').map_or(id, |(paper, _)| paper)
}

/// The paper of a result or a scenario.
fn paper_of(id: &str) -> &'static Paper {
    let name = name_of_paper(id);
    let mut papers = papers().iter();
    let found = papers.find(|paper| paper.name == name);
    found.unwrap_or_else(|| unreachable!("{id} belongs to no paper"))
}

impl Reproduction {
    /// All claims.
    fn claims(&self) -> impl Iterator<Item = &ClaimReport> {
        self.results.iter().flat_map(|result| &result.claims)
    }

    /// Claims that count as evidence and have one of these verdicts, for the papers as read.
    pub fn with(&self, verdicts: &'static [Verdict]) -> impl Iterator<Item = &ClaimReport> {
        self.claims()
            .filter(|claim| !claim.calibrated && verdicts.contains(&claim.verdict))
    }

    /// Claims and results with our own mistakes, and the reason for each: a name that does not exist, a claim that no
    /// measurement could refute.
    pub fn mistakes(&self) -> impl Iterator<Item = (&'static str, String)> {
        let of_claims = self.claims().filter(|claim| {
            let others = claim.otherwise.iter().map(|(_, verdict)| *verdict);
            let mut verdicts = others.chain(claim.as_printed).chain([claim.verdict]);
            verdicts.any(|verdict| verdict == Verdict::Missing)
        });
        let of_claims = of_claims.map(|claim| (claim.id, claim.evidence.clone()));
        let of_results = self.results.iter().filter(|r| !r.missing.is_empty());
        let of_results = of_results.map(|result| (result.id, result.missing.join("; ")));
        let fixed = self.claims().filter(|claim| claim.is_fixed);
        let why = "none of its measured values could change its verdict";
        let fixed = fixed.map(move |claim| (claim.id, why.to_owned()));
        of_claims.chain(of_results).chain(fixed)
    }

    /// The number of claims of a kind with each verdict.
    pub fn counts(&self, kind: Kind) -> [(Verdict, usize); 6] {
        text::counts(self.claims(), kind, |claim| Some(claim.verdict))
    }
}

/// Writes `reproduce.html`, `reproduce.md` and `reproduce.json` into `folder`, which is created if necessary.
pub fn write(reproduction: &Reproduction, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    let json = serde_json::to_string_pretty(reproduction)
        .map_err(|e| Error::io("cannot write the results as JSON")(e.into()))?;
    let files = [
        ("reproduce.html", page::html(reproduction)),
        ("reproduce.md", markdown::markdown(reproduction)),
        ("reproduce.json", json),
    ];
    let written = files.into_iter();
    let written =
        written.map(|(name, content)| crate::report::put(folder, name, content.as_bytes()));
    written.collect()
}

/// The names and titles of all results.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let recipes = papers().iter().flat_map(|paper| &paper.results);
    recipes.map(|recipe| (recipe.id, recipe.title))
}

#[cfg(test)]
mod tests {
    use super::recipe::{Claim, claim, line};
    use super::*;

    fn all_claims() -> Vec<&'static Claim> {
        let recipes = papers().iter().flat_map(|paper| &paper.results);
        recipes.flat_map(|recipe| &recipe.claims).collect()
    }

    #[test]
    fn results_are_chosen_by_name() {
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let chosen = select(&names)?;
            Ok::<_, String>(chosen.iter().map(|recipe| recipe.id).collect::<Vec<_>>())
        };
        let all = ids(&[]).unwrap();
        assert!(all.len() > 8);
        assert_eq!(ids(&["lru-fq"]), ids(&["lru-fq", "lru-fq/fig6"]));
        let two = ids(&["lru-fq/fig6", "lru-fq/table1"]).unwrap();
        assert_eq!(two, ["lru-fq/table1", "lru-fq/fig6"]);
        assert_eq!(
            ids(&["lru-fq/fig66"]).unwrap_err(),
            "unknown result `lru-fq/fig66`; did you mean `lru-fq/fig6`?"
        );
    }

    #[test]
    fn papers_have_no_faults() {
        for paper in papers() {
            assert_eq!(faults(paper), NONE, "{}", paper.name);
        }
    }

    #[test]
    fn load_tests_can_be_measured() {
        for load in papers().iter().flat_map(|paper| paper.loads) {
            assert!(load.duration <= weir_base::Span::from_secs(60) && load.runs > 0);
            assert!(!load.points().is_empty(), "{}", load.name);
            for point in load.points() {
                assert!((1..=crate::load::FES_MAX).contains(&point.fes), "{point:?}");
                assert!((64..=65_000).contains(&point.bytes), "{point:?}");
                // Each event needs a few bytes of memory.
                let events = point.per_s * f64::from(point.fes) * load.duration.as_secs_f64();
                assert!((1.0..=20e6).contains(&events), "{point:?}");
            }
        }
    }

    /// Metrics that need longer runs: they count runs of a mechanism, a thousand packets, or ten seconds.
    const OF_EVENTS: [&str; 4] = [
        "sending_flows.bottleneck.elastic",
        "run_let_in_ratio.bottleneck.stream",
        "run_growth_flows.bottleneck.elastic",
        "outage_s_max.elastic",
    ];

    /// Runs results for a short time, and returns the names in their claims, rows and pictures that do not exist.
    fn unknown(results: &[&str], set: &[(&str, &str)]) -> Vec<String> {
        let overrides = set.iter().map(|(path, value)| Override {
            path: (*path).to_owned(),
            value: (*value).to_owned(),
        });
        let options = Options {
            run: RunOptions {
                on: Habitat::Sim,
                runs: Some(1),
                ..RunOptions::default()
            },
            quick: true,
            load: false,
            graph: None,
            overrides: overrides.collect(),
        };
        let names: Vec<String> = results.iter().map(|&name| name.to_owned()).collect();
        let reproduction = run(&select(&names).unwrap(), &options).unwrap();
        // A condition may have no value yet; but every name must exist.
        let unknown = reproduction.mistakes().map(|(id, what)| {
            let parts = what.split("; ").filter(|part| {
                let is_name = part.starts_with("unknown ") || part.contains(" matches ");
                is_name && !OF_EVENTS.iter().any(|event| part.contains(event))
            });
            (id, parts.map(str::to_owned).collect::<Vec<_>>())
        });
        let unknown = unknown.filter(|(_, parts)| !parts.is_empty());
        unknown
            .map(|(id, parts)| format!("{id}: {}", parts.join("; ")))
            .collect()
    }

    const NONE: Vec<String> = Vec::new();

    #[test]
    fn every_name_of_lru_fq_exists() {
        let moment = [("duration", "1 s"), ("warm_up", "0.1 s")];
        let results = ["table3", "table4", "fig5b", "fig6", "fig7"];
        let results = results.map(|result| format!("lru-fq/{result}"));
        assert_eq!(
            unknown(&results.each_ref().map(String::as_str), &moment),
            NONE
        );
        // Here the web begins after 5 s.
        let moment = [("duration", "5.3 s"), ("warm_up", "0.1 s")];
        let results = ["table1", "table2", "fig5a", "text"];
        let results = results.map(|result| format!("lru-fq/{result}"));
        assert_eq!(
            unknown(&results.each_ref().map(String::as_str), &moment),
            NONE
        );
    }

    #[test]
    fn every_name_of_afan_eccm_exists() {
        let moment = [
            ("duration", "1.3 s"),
            ("warm_up", "0.1 s"),
            ("traffic.stream.start", "0 s"),
        ];
        assert_eq!(unknown(&["afan-eccm"], &moment), NONE);
    }

    #[test]
    fn every_name_of_sd_bm_exists() {
        let moment = [("duration", "2 s"), ("warm_up", "0.5 s")];
        assert_eq!(unknown(&["sd-bm"], &moment), NONE);
    }

    #[test]
    fn every_name_of_forces_flow_control_exists() {
        let moment = [("duration", "2.3 s"), ("warm_up", "0 s")];
        assert_eq!(unknown(&["forces-flow-control"], &moment), NONE);
    }

    /// A result with these parts.
    fn result(id: &'static str, parts: fn(&mut Recipe)) -> &'static Recipe {
        Box::leak(Box::new(Recipe::new(id, parts)))
    }

    #[test]
    fn what_does_not_exist_is_named_and_is_not_merely_not_run() {
        let wrong = result("lru-fq/wrong", |r| {
            claim(r, "wrong.1", "t").measured(|m, f| {
                let quantity = m.at("no scenario", "x").metric("tcp_share_ration");
                f.at_most("a", quantity, 1.0);
            });
        });
        let reproduction = run(&[wrong], &Options::default()).unwrap();
        let claim = &reproduction.results[0].claims[0];
        assert_eq!(claim.verdict, Verdict::Missing);
        let expected = "unknown metric `tcp_share_ration`; unknown point `x` of `no scenario`";
        assert!(claim.evidence.starts_with(expected), "{}", claim.evidence);
        let missing: Vec<_> = reproduction.mistakes().map(|(id, _)| id).collect();
        assert_eq!(
            (missing, reproduction.with(&[Verdict::Fails]).count()),
            (vec!["lru-fq/wrong.1"], 0)
        );
    }

    #[test]
    fn a_line_without_a_number_of_ours_is_named() {
        // Fetches are counted only in scenarios with web traffic: the metric exists, but not at every point.
        let two = result("lru-fq/two", |r| {
            r.scenarios = &["lru-fq/fig5a", "lru-fq/table1"];
            for (scenario, web) in [("lru-fq/fig5a", "none"), ("lru-fq/table1", "6 clients")] {
                let place = [("flows", 2.into()), ("web", web.into())];
                let columns = ["goodput, Mbit/s", "fetches"];
                line(r, place, &columns, [1.0; 2], [0.15; 2]).ours(move |m| {
                    let at = m.at(scenario, "fifo").and("flows", 2);
                    ["tcp_goodput_mbps", "web_fetches_per_s"].map(|metric| at.metric(metric))
                });
            }
        });
        let set = |path: &str, value: &str| Override {
            path: path.to_owned(),
            value: value.to_owned(),
        };
        let options = Options {
            run: RunOptions {
                runs: Some(1),
                ..RunOptions::default()
            },
            overrides: vec![set("duration", "5.5 s"), set("warm_up", "0 s")],
            ..Options::default()
        };
        let reproduction = run(&[two], &options).unwrap();
        let missing: Vec<_> = reproduction.mistakes().collect();
        let expected = "the row `flows 2, web none` has no measured value for `fetches`";
        assert_eq!(missing, [("lru-fq/two", expected.to_owned())]);
    }

    #[test]
    fn what_was_calibrated_on_is_marked() {
        let marked = all_claims()
            .into_iter()
            .filter(|claim| claim.kind == Kind::Calibrated);
        let marked: Vec<_> = marked.map(|claim| claim.id.as_str()).collect();
        let expected = [
            "lru-fq/table1.3",
            "lru-fq/table1.4",
            "lru-fq/fig5a.1",
            "lru-fq/fig5a.2",
            "lru-fq/fig5a.5",
            "lru-fq/fig5a.6",
            "lru-fq/text.4",
            "afan-eccm/basic.1",
            "afan-eccm/basic.2",
            "afan-eccm/basic.3",
            "forces-flow-control/fig7.1",
            "forces-flow-control/fig7.2",
        ];
        assert_eq!(marked, expected);
    }

    #[test]
    fn a_small_result_from_end_to_end() {
        let set = |path: &str, value: &str| Override {
            path: path.to_owned(),
            value: value.to_owned(),
        };
        let options = Options {
            run: RunOptions {
                on: Habitat::Sim,
                runs: Some(2),
                ..RunOptions::default()
            },
            quick: true,
            load: false,
            graph: None,
            overrides: vec![set("duration", "1 s"), set("warm_up", "0.5 s")],
        };
        let recipes = select(&["lru-fq/table4".to_owned()]).unwrap();
        let reproduction = run(&recipes, &options).unwrap();
        let json = serde_json::to_value(&reproduction).unwrap();
        let result = &json["results"][0];
        assert_eq!(
            (&result["id"], &result["on"]),
            (&"lru-fq/table4".into(), &"sim".into())
        );
        let keys =
            |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        let row = &result["rows"][0];
        assert_eq!(keys(result), ["claims", "id", "on", "rows"]);
        assert_eq!(
            keys(row),
            ["ci95", "metric", "ours", "paper", "set", "within"]
        );
        assert_eq!(
            row["set"],
            serde_json::json!({ "UDP flows": 2, "TCP flows": 18 })
        );
        // Two UDP flows of 5 Mbit/s run from the start, independently of the other traffic.
        assert!((2.0..8.0).contains(&row["ours"].as_f64().unwrap()), "{row}");
        let claims = result["claims"].as_array().unwrap();
        assert_eq!(
            keys(&claims[0]),
            [
                "as_printed",
                "calibrated",
                "evidence",
                "id",
                "kind",
                "otherwise",
                "text",
                "verdict"
            ]
        );
        assert_eq!(claims[2]["as_printed"], Value::from("holds"));
        // The last claim needs no run: it is about the printed numbers.
        assert_eq!((claims.len(), &claims[2]["verdict"]), (3, &"holds".into()));
        let text = text(&reproduction);
        assert!(
            text.contains("table4.1") && text.contains("mean of a UDP flow"),
            "{text}"
        );
        assert_eq!(
            reproduction.counts(Kind::Arithmetic)[0],
            (Verdict::Holds, 1)
        );
        // A preview never concludes that a claim does not hold.
        let [holds, partly, fails, undecided, ..] = reproduction.counts(Kind::Measured);
        assert_eq!(
            (holds.1 + undecided.1, partly.1 + fails.1),
            (2, 0),
            "{text}"
        );
        assert_eq!(reproduction.mistakes().count(), 0);
    }
}
