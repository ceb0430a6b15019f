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
use super::recipe::{At, Code};
use crate::scenario::Kind;

/// The paper, and what it has in Rust.
pub(super) const TEXT: &str = include_str!("../../../../scenarios/forces-flow-control/paper.toml");
pub(super) const CODE: &[Code] = &[model::CODE, one_fe::CODE, many_fes::CODE, words::CODE];

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
