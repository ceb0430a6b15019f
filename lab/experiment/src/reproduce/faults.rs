//! Finds mistakes in the definitions of a paper's results, for tests of the crate that defines them.

use std::collections::BTreeSet;

use super::findings::Findings;
use super::measured::{Measured, made_up::made_up};
use super::recipe::{Kind, Paper, Recipe};
use super::report;

/// Names that do not exist or occur twice, and claims that are not of their kind.
pub fn faults(paper: &'static Paper) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut faults = Vec::new();
    let loads: Vec<&str> = paper.loads.iter().map(|load| load.name).collect();
    let benches: Vec<&str> = paper.benches.iter().map(|(name, _)| *name).collect();
    for recipe in &paper.results {
        let unlisted = |(names, known): (&[&'static str], &[&str])| {
            let strangers = names.iter().filter(|name| !known.contains(name));
            let fault = |name| format!("{recipe:?} needs {name}, which the paper does not have");
            strangers.map(fault).collect::<Vec<_>>()
        };
        let named = [(recipe.loads, &loads[..]), (recipe.benches, &benches[..])];
        faults.extend(named.into_iter().flat_map(unlisted));
        for claim in &recipe.claims {
            if !claim.id.starts_with(recipe.id) || !seen.insert(&claim.id) {
                faults.push(format!("{}: not a name of its own", claim.id));
            }
            // A claim reads a measured value unless it is arithmetic.
            if let Ok(decide) = &claim.decision {
                let measured = Measured::default();
                decide(&measured, &mut Findings::default());
                let reads = measured.take_needs_load() || !measured.take_unknown().is_empty();
                if reads == (claim.kind == Kind::Arithmetic) {
                    faults.push(format!("{} is not {}", claim.id, claim.kind.word()));
                }
            }
        }
        faults.extend(places(recipe).map(|unknown| format!("{recipe:?}: {unknown}")));
    }
    faults
}

/// The points that a table, a claim or a picture needs, and that do not exist or are ambiguous.
fn places(recipe: &'static Recipe) -> Option<String> {
    let (mut metrics, mut curves) = (BTreeSet::new(), BTreeSet::new());
    // Quantities may depend on others, so that their names are not all known at once.
    let unknown = loop {
        let measured = made_up(
            &[recipe.scenarios, recipe.readings].concat(),
            [recipe.loads, recipe.benches],
            &metrics,
            &curves,
        );
        let report = report(recipe, &measured, &mut Vec::new());
        let of_claims = report.claims.into_iter().map(|claim| claim.evidence);
        let unknown = of_claims
            .chain(report.missing)
            .collect::<Vec<_>>()
            .join("; ");
        let before = metrics.len() + curves.len();
        for (kind, names) in [("metric", &mut metrics), ("curve", &mut curves)] {
            let before = format!("unknown {kind} `");
            let parts = unknown.split(&before).skip(1);
            names.extend(parts.filter_map(|part| Some(part.split_once('`')?.0.to_owned())));
        }
        if metrics.len() + curves.len() == before {
            break unknown;
        }
    };
    (unknown.contains("unknown ") || unknown.contains(" matches ")).then_some(unknown)
}
