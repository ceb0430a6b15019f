//! Measured values: one for each seed.

use std::ops::{Add, Div, Mul, Sub};

use crate::statistics::Summary;

/// The values of a quantity at one point, one for each seed, in the order of the seeds; empty if it was not
/// measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    values: Vec<f64>,
    pub(super) is_share: bool,
}

impl Samples {
    /// Samples with these values.
    pub fn new(values: Vec<f64>) -> Self {
        Self {
            values,
            is_share: false,
        }
    }

    /// These samples, marked as shares (from 0 to 1) or differences of shares.
    pub fn into_shares(self) -> Self {
        Self {
            is_share: true,
            ..self
        }
    }

    /// A function of each value. Shares stay shares.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Self {
        Self {
            values: self.values.iter().copied().map(function).collect(),
            is_share: self.is_share,
        }
    }

    /// A function of each pair of values; the result is a share if both are shares. Empty if the two were not run
    /// with the same seeds.
    pub fn with(&self, other: &Self, function: impl Fn(f64, f64) -> f64) -> Self {
        if self.values.len() != other.values.len() {
            return Self::default();
        }
        let pairs = self.values.iter().zip(&other.values);
        Self {
            values: pairs.map(|(a, b)| function(*a, *b)).collect(),
            is_share: self.is_share && other.is_share,
        }
    }

    /// `self - other`, seed by seed.
    pub fn less(&self, other: &Self) -> Self {
        self.with(other, |a, b| a - b)
    }

    /// The mean of all seeds.
    pub fn mean(&self) -> Option<f64> {
        self.summary().map(|s| s.mean)
    }

    /// The mean and its interval.
    pub fn summary(&self) -> Option<Summary> {
        let finite = self.values.iter().all(|x| x.is_finite());
        Summary::of(&self.values).filter(|_| finite)
    }

    /// Mean and interval as text.
    pub fn shown(&self) -> String {
        match self.summary() {
            None => "not measured".to_owned(),
            Some(s) => match s.ci95 {
                Some(ci95) => format!("{} ± {}", shown(s.mean), shown(ci95)),
                None => shown(s.mean),
            },
        }
    }
}

impl From<&Self> for Samples {
    fn from(samples: &Self) -> Self {
        samples.clone()
    }
}

impl From<f64> for Samples {
    fn from(number: f64) -> Self {
        Self::new(vec![number])
    }
}

/// Arithmetic of samples, seed by seed, and with numbers.
macro_rules! operator {
    ($operator:ident, $name:ident) => {
        impl $operator for Samples {
            type Output = Self;
            fn $name(self, other: Self) -> Self {
                self.with(&other, f64::$name)
            }
        }
        impl $operator<f64> for Samples {
            type Output = Self;
            fn $name(self, other: f64) -> Self {
                self.map(|x| x.$name(other))
            }
        }
        impl $operator<Samples> for f64 {
            type Output = Samples;
            fn $name(self, other: Samples) -> Samples {
                other.map(|x| self.$name(x))
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

/// A number with about three significant digits.
pub fn shown(x: f64) -> String {
    let decimals = match x.abs() {
        1000.0.. => 0,
        100.0.. => 1,
        10.0.. => 2,
        _ => 3,
    };
    if x != 0.0 && x.abs() < 0.001 {
        return format!("{x:.1e}");
    }
    format!("{x:.decimals$}")
}
