//! Ports that find the rate of the link behind them.

use weir_autorate::{Autorate, ReflectorState};
use weir_base::{Rate, Span};
use weir_model::class::{Cell, Class, Condition, Event, Form, Layout};

use super::{
    Block, COUNTER, Column, RATE_BPS, Row, SECONDS, Source, TEXT, component, components, rows,
};
use crate::auto_rate::AutoRate;

pub(super) static RATES: Block = Block {
    class: Class {
        name: "rates",
        id: 0x00F7_0120,
        about: "ports with rate auto: the estimated rate of the link behind them, and why",
        key: &["port"],
        metric: Some("rate"),
        components: &components::<FindingRow, { COLUMNS.len() }>(COLUMNS),
        events: &[Event {
            id: 1,
            name: "phase_changed",
            about: "The rate estimation of a port entered another phase. Subscribe with an interval.",
            target: "phase",
            condition: Condition::Changed,
            reports: &["port", "phase", "why", "rate_bps"],
        }],
        layout: Layout {
            empty: "No port has rate = \"auto\".",
            beside: Some(("reflectors", "Reflectors: {} (`weir show reflectors`).")),
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Rates(|findings| rows(COLUMNS, findings)),
};

/// A port that finds its rate.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Name of the port.
    pub port: String,
    /// The limits.
    pub auto: AutoRate,
    /// The state of the law.
    pub state: State,
    /// The state of each reflector.
    pub reflectors: Vec<ReflectorState>,
    /// The state of the port's own traffic, if the port measures by it.
    pub traffic: Option<ReflectorState>,
    /// Unsolicited or duplicate answers, which are ignored.
    pub strange: u64,
    /// Probes that could not be sent.
    pub refused: u64,
    /// Why the latest probe could not be sent; `None` if it was sent.
    pub trouble: Option<String>,
}

/// The state of the law.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// The phase.
    pub phase: &'static str,
    /// Why the rate is what it is.
    pub why: &'static str,
    /// The port's rate.
    pub rate: Rate,
    /// The estimated rate of the link.
    pub found: Rate,
    /// The latest delay above the baseline.
    pub delay: Span,
    /// The mean baseline of the reflectors.
    pub baseline: Option<Span>,
}

impl State {
    /// The state of this law.
    pub fn of(law: &Autorate) -> Self {
        Self {
            phase: law.phase().word(),
            why: law.why(),
            rate: law.rate(),
            found: law.found(),
            delay: law.delay(),
            baseline: law.baseline(),
        }
    }
}

struct FindingRow;

impl Row for FindingRow {
    type View<'a> = &'a Finding;
}

const fn megabits(heading: &'static str) -> Cell {
    Cell::new(heading).form(Form::Megabits)
}

const COLUMNS: &[Column<FindingRow>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the port.")
        .shown(&[Cell::new("PORT")])
        .read(|finding| finding.port.as_str().into()),
    component(2, "phase", TEXT, "follow")
        .varying()
        .about(
            "`blind`: no reflector answers, and no traffic was measured. `follow`: the delay is low. `suspicion`: one \
             delay was high. `drain`: the port drains the queue behind it.",
        )
        .shown(&[Cell::new("PHASE")])
        .read(|finding| finding.state.phase.into()),
    component(3, "rate_bps", RATE_BPS, "17500000")
        .about("Current rate of the port.")
        .shown(&[megabits("MBIT/S")])
        .read(|finding| finding.state.rate.into()),
    component(4, "found_bps", RATE_BPS, "17500000")
        .about("Estimated rate of the link; during a drain, the port's rate is lower.")
        .shown(&[megabits("ESTIMATED")])
        .read(|finding| finding.state.found.into()),
    component(5, "least_bps", RATE_BPS, "1000000")
        .about("`rate_least`.")
        .shown(&[megabits("MIN")])
        .read(|finding| finding.auto.params.least.into()),
    component(6, "base_bps", RATE_BPS, "10000000")
        .about("`rate_base`.")
        .shown(&[megabits("BASE")])
        .read(|finding| finding.auto.params.base.into()),
    component(7, "most_bps", RATE_BPS, "50000000")
        .about("`rate_most`.")
        .shown(&[megabits("MAX")])
        .read(|finding| finding.auto.params.most.into()),
    component(8, "delay_s", SECONDS, "0.0012")
        .about("Latest delay above the baseline.")
        .shown(&[Cell::new("DELAY")])
        .read(|finding| finding.state.delay.into()),
    component(9, "baseline_s", SECONDS, "0.0204")
        .optional()
        .about(
            "Mean of the reflectors' baselines, their round-trip times without a queue; null before the first answer.",
        )
        .shown(&[Cell::new("BASELINE")])
        .read(|finding| finding.state.baseline.into()),
    component(10, "strange", COUNTER, "0")
        .about("Unsolicited or duplicate answers, which are ignored.")
        .read(|finding| finding.strange.into()),
    component(11, "refused", COUNTER, "0")
        .about("Probes that could not be sent.")
        .read(|finding| finding.refused.into()),
    component(12, "why", TEXT, "low delay under load: increasing the rate")
        .varying()
        .about("Why the port has this rate.")
        .shown(&[Cell::new("WHY")])
        .read(|finding| match &finding.trouble {
            Some(trouble) => format!("{}; probes cannot be sent: {trouble}", finding.state.why).into(),
            None => finding.state.why.into(),
        }),
];
