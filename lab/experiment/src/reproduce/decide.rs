//! Decides a claim: its verdict in each column, the values that it depends on, and whether it could fail at all.

use super::ClaimReport;
use super::bar::Bar;
use super::findings::Findings;
use super::measured::Measured;
use super::recipe::{Claim, Kind, Paper};
use super::verdict::Verdict;
use crate::cpu::BUSY_MAX;
use crate::habitat::Habitat;
use crate::scenario::Reading;

/// The report of a claim.
pub(super) fn decide(
    paper: &'static Paper,
    claim: &'static Claim,
    measured: &Measured,
) -> ClaimReport {
    let read = verdict_of(claim, measured, None);
    let mut evidence = read.evidence.clone();
    let (mut as_printed, mut otherwise) = (None, Vec::new());
    for (name, reading) in paper.columns {
        let Some(measured) = measured.column(*reading) else {
            continue;
        };
        let other = verdict_of(claim, measured, None);
        // The evidence comes from the paper as read; but a missing measurement in another column must be reported.
        if other.verdict == Verdict::Missing {
            evidence += &format!("; {name}: {}", other.evidence);
        }
        match reading {
            Reading::Printed => as_printed = Some(other.verdict),
            _ => otherwise.push((*name, other.verdict)),
        }
    }
    // A claim that holds for all measured values proves nothing. The distance of this machine's values from their
    // limits depends on the machine, so ten times such a value may still be permitted.
    let factors: &[f64] = if read.is_of_machine {
        &[0.0, 0.1, 10.0, 1e6]
    } else {
        &[0.0, 0.1, 10.0]
    };
    let changes = |place: usize| {
        factors.iter().any(|&factor| {
            verdict_of(claim, measured, Some((place, factor))).verdict != read.verdict
        })
    };
    let is_fixed = claim.kind == Kind::Measured
        && read.verdict == Verdict::Holds
        && !(0..read.values).any(changes);
    ClaimReport {
        id: &claim.id,
        text: claim.text,
        verdict: read.verdict,
        as_printed,
        otherwise,
        calibrated: claim.kind == Kind::Calibrated,
        kind: claim.kind,
        evidence,
        is_fixed,
        bars: read.bars,
    }
}

/// A decided claim.
struct Decided {
    verdict: Verdict,
    evidence: String,
    /// The values and their limits.
    bars: Vec<Bar>,
    /// The number of measured values that the claim depends on.
    values: usize,
    /// Whether any of these values is a measurement of this machine.
    is_of_machine: bool,
}

/// Decides a claim; the measured value at one index may be multiplied by a factor. In a simulation, a missing
/// measurement is a mistake. The lab does not measure everything that a simulation does, and cannot run every scenario.
fn verdict_of(claim: &Claim, measured: &Measured, changed: Option<(usize, f64)>) -> Decided {
    let not_run = |why: &str| Decided {
        verdict: Verdict::NotRun,
        evidence: why.to_owned(),
        bars: Vec::new(),
        values: 0,
        is_of_machine: false,
    };
    let decide = match &claim.decision {
        Ok(decide) => decide,
        Err(why) => return not_run(why),
    };
    let mut findings = Findings::default();
    measured.watch(changed);
    decide(measured, &mut findings);
    let (values, busy) = (measured.reads(), measured.busy());
    if measured.take_needs_load() {
        let _ = measured.take_unknown();
        return not_run("its measurement of this machine was not run");
    }
    let (verdict, evidence) = findings.verdict();
    let unknown = measured.take_unknown();
    let (verdict, evidence) = match (measured.on, verdict) {
        (Habitat::Lab, Verdict::Missing) => (Verdict::NotRun, evidence),
        (Habitat::Sim, _) if !unknown.is_empty() => {
            let why = format!("{}; {evidence}", unknown.join("; "));
            (Verdict::Missing, why)
        }
        (_, Verdict::Missing) => (verdict, evidence),
        _ if busy.is_some_and(|busy| busy > BUSY_MAX) => {
            let percent = 100.0 * busy.unwrap_or_default();
            let others = format!("busy: other programs used {percent:.0} % of the CPUs");
            (Verdict::Undecided, format!("{others}; {evidence}"))
        }
        (_, Verdict::Partly | Verdict::Fails) if measured.is_preview && values > 0 => {
            let why = "a preview, too short to refute the claim";
            (Verdict::Undecided, format!("{why}; {evidence}"))
        }
        _ => (verdict, evidence),
    };
    Decided {
        verdict,
        evidence,
        bars: findings.into_bars(),
        values,
        is_of_machine: busy.is_some(),
    }
}
