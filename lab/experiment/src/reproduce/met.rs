//! Whether a condition is met, by the statistics at the top of [`verdict`](super::verdict).

use super::samples::Samples;

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    Yes,
    Unclear,
    No,
    /// A quantity was not measured.
    Missing,
}

/// Whether the mean and its whole interval are not negative.
pub(super) fn sign(difference: &Samples) -> Met {
    let Some(s) = difference.summary() else {
        return Met::Missing;
    };
    match s.mean - s.ci95.unwrap_or(0.0) {
        _ if s.mean < 0.0 => Met::No,
        low if low < 0.0 => Met::Unclear,
        _ => Met::Yes,
    }
}

/// The minimum difference that counts: of shares, and of other quantities as a share of the larger one.
const EFFECT_OF_SHARES: f64 = 0.01;
const EFFECT_PART: f64 = 0.02;

/// Whether the first is less than the second, significantly and by the minimum effect.
pub(super) fn clearly_less(a: &Samples, b: &Samples) -> Met {
    let difference = b.less(a);
    let Some(effect) = minimum_effect(a, b) else {
        return Met::Missing;
    };
    match strict(&difference) {
        Met::Yes if difference.mean().is_some_and(|mean| mean < effect) => Met::Unclear,
        met => met,
    }
}

/// The minimum difference between two quantities that counts.
pub(super) fn minimum_effect(a: &Samples, b: &Samples) -> Option<f64> {
    let (one, other) = (a.mean()?, b.mean()?);
    Some(if a.is_share && b.is_share {
        EFFECT_OF_SHARES
    } else {
        EFFECT_PART * one.abs().max(other.abs())
    })
}

/// Whether the mean is positive, and the interval excludes zero.
pub(super) fn strict(difference: &Samples) -> Met {
    match difference.summary() {
        None => Met::Missing,
        Some(s) if s.mean <= 0.0 => Met::No,
        Some(s) if s.mean - s.ci95.unwrap_or(0.0) <= 0.0 => Met::Unclear,
        Some(_) => Met::Yes,
    }
}

/// Whether the mean is not negative; unclear if it is negative but the interval includes zero.
pub(super) fn not_negative(difference: &Samples) -> Met {
    match difference.summary() {
        None => Met::Missing,
        Some(s) if s.mean >= 0.0 => Met::Yes,
        Some(s) if s.mean + s.ci95.unwrap_or(0.0) >= 0.0 => Met::Unclear,
        Some(_) => Met::No,
    }
}

pub(super) fn worse(a: Met, b: Met) -> Met {
    match (a, b) {
        (Met::Missing, _) | (_, Met::Missing) => Met::Missing,
        (Met::No, _) | (_, Met::No) => Met::No,
        (Met::Unclear, _) | (_, Met::Unclear) => Met::Unclear,
        (Met::Yes, Met::Yes) => Met::Yes,
    }
}
