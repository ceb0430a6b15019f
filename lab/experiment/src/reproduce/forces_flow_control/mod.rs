//! Zhuge, Yu, Liu, Wang, "Research on Internal Flow Control Mechanism of ForCES Routers".
//!
//! - [`mod@model`]: the equations, and the controller that computes with them
//! - [`threads`]: Figures 7 to 9, load tests of the transport
//! - [`attack`]: Figures 11 and 12, disciplines of one channel
//! - [`elements`]: Figures 14 to 17, flow control of several FEs
//! - [`mod@text`]: claims without a figure

mod attack;
mod elements;
mod model;
mod text;
mod threads;

use weir_base::Span;

use super::measured::Measured;
use super::query::Point;
use super::recipe::{Paper, results};
use crate::load::{Form, Load, Measures};
use attack::{fig11, fig12};
use elements::{fig14, fig15, fig16, fig17};
use model::model;
use text::text;
use threads::{fig7, fig8, fig9};

pub(super) fn paper() -> Paper {
    Paper {
        name: "forces-flow-control",
        source: "Zhuge, Yu, Liu, Wang, \"Research on Internal Flow Control Mechanism of ForCES \
                 Routers\", Information Technology Journal",
        columns: &[],
        lab: ["40 s", "10 s"], // 30 s are counted
        loads: &LOADS,
        benches: &[],
        results: results![
            "forces-flow-control": model fig7 fig8 fig9 fig11 fig12 fig14 fig15 fig16 fig17 text
        ],
    }
}

/// Load tests: real processes, the transport `tcp_udp` without TLS on the loopback interface. An event is an Event
/// Notification, its answer a Config of the same length.
const PLAIN: Load = Load {
    name: "",
    measures: Measures::Loss,
    forms: &[Form::OneThread, Form::TwoThreads],
    fes: &[1],
    bytes: &[1024],
    per_s: &[1000.0],
    unit: false,
    work: Span::ZERO,
    duration: Span::from_secs(1),
    runs: 5,
};
/// The CE works on the processor for each event, so that one thread serves about 11 FEs, as in the paper.
const AT_WORK: Load = Load {
    work: Span::from_micros(80),
    ..PLAIN
};
const BY_RATE: Load = Load {
    per_s: &[100.0, 200.0, 400.0, 600.0, 1000.0],
    unit: true,
    duration: Span::from_secs(3),
    runs: 3,
    ..AT_WORK
};
const LOSSLESS: Load = Load {
    measures: Measures::Rate,
    per_s: &[400_000.0],
    duration: Span::from_millis(500),
    runs: 3,
    ..PLAIN
};
const LOADS: [Load; 10] = [
    Load {
        name: "forces-flow-control/fes",
        measures: Measures::Fes,
        fes: &[32],
        duration: Span::from_millis(1500),
        runs: 3,
        ..AT_WORK
    },
    Load {
        name: "forces-flow-control/few",
        fes: &[1, 2, 4],
        ..AT_WORK
    },
    Load {
        name: "forces-flow-control/rates",
        ..BY_RATE
    },
    Load {
        name: "forces-flow-control/rates of 64 B",
        bytes: &[64],
        ..BY_RATE
    },
    Load {
        name: "forces-flow-control/lossless",
        ..LOSSLESS
    },
    Load {
        name: "forces-flow-control/lossless of 64 B",
        bytes: &[64],
        ..LOSSLESS
    },
    Load {
        name: "forces-flow-control/forms",
        forms: &[Form::Process, Form::OneThread, Form::TwoThreads],
        fes: &[1, 8, 16],
        per_s: &[500.0],
        ..PLAIN
    },
    Load {
        name: "forces-flow-control/linear",
        forms: &[Form::OneThread],
        fes: &[1, 4, 16, 64],
        bytes: &[64, 1024],
        per_s: &[100.0, 200.0, 400.0],
        runs: 2,
        ..PLAIN
    },
    Load {
        name: "forces-flow-control/joined",
        measures: Measures::Redirects,
        forms: &[Form::OneThread],
        bytes: &[64, 1024], // a message of one packet is longer than 64 B: packets are sent singly
        per_s: &[1.0],
        ..PLAIN
    },
    Load {
        name: "forces-flow-control/flood",
        measures: Measures::Flood,
        forms: &[Form::OneThread],
        fes: &[5],
        bytes: &[1000],
        per_s: &[6250.0], // 50 Mbit/s
        duration: Span::from_secs(30),
        runs: 1,
        ..PLAIN
    },
];

/// The share of payload in a control and in a redirect message with a frame of 1000 B: the paper's rates count frames.
const TCP: f64 = 0.946;
const UDP: f64 = 0.958;

/// A variant of a scenario or of a load test.
fn at<'a>(m: &'a Measured, name: &str, variant: impl Into<String>) -> Point<'a> {
    m.at(format!("forces-flow-control/{name}"), variant)
}
