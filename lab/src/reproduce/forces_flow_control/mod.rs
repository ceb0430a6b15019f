//! Zhuge, Yu, Liu, Wang, "Research on Internal Flow Control Mechanism of ForCES Routers": what its figures
//! and its text say, and how each claim is decided.
//!
//! - [`model`]: the equations
//! - [`one_fe`]: Figures 11 and 12
//! - [`many_fes`]: Figures 14 to 17
//! - [`words`]: what the text claims, and what a lab with a TML will decide

mod many_fes;
mod model;
mod one_fe;
mod words;

use super::figure::{Figure, Lines};
use super::measured::Measured;
use super::recipe::{At, Paper};
use crate::scenario::Kind;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "forces-flow-control",
    source: "Zhuge, Yu, Liu, Wang, \"Research on Internal Flow Control Mechanism of ForCES Routers\", \
             Information Technology Journal",
    has_two_columns: false,
    results: &[
        &model::MODEL,
        &words::FIG7,
        &words::FIG8,
        &words::FIG9,
        &one_fe::FIG11,
        &one_fe::FIG12,
        &many_fes::FIG14,
        &many_fes::FIG15,
        &many_fes::FIG16,
        &many_fes::FIG17,
        &words::TEXT,
    ],
};

/// What control messages have of a frame of 1000 B, and redirect messages: rates of the paper count frames.
const TCP: f64 = 0.946;
const UDP: f64 = 0.958;

/// A picture of what arrives at the CE, drawn by [`throughput`].
const fn over_time(title: &'static str, draw: fn(&Measured, &mut Lines)) -> Figure {
    let x = "time, s";
    Figure { title, x, draw }
}

/// Frames of some traffics that arrive at the CE, in Mbit/s.
fn throughput(m: &Measured, lines: &mut Lines, at: &At, traffics: &[&str]) {
    for traffic in traffics {
        let Some((kind, curve)) = m.goodput(at, traffic) else {
            continue;
        };
        let share = match kind {
            Kind::Tcp => TCP,
            _ => UDP,
        };
        let name = format!("{traffic} ({})", kind.word().to_uppercase());
        lines.over_time(name, m, (at, &curve), 1.0 / share);
    }
}
