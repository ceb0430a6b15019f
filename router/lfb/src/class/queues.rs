//! The queue discipline of each port.

use std::borrow::Cow;
use std::collections::BTreeMap;

use weir_base::setting::Setting;
use weir_base::{Delays, Span, Tally};
use weir_model::Value;
use weir_model::class::{
    COUNT, Cell, Class, Condition, Event, Form, HELD, Layout, Mechanisms, Type, Unit,
};
use weir_model::metric::TIMES;
use weir_path::plane::PlanePort;

use super::{
    Block, Column, FLAG, IN, OUT, RATIO, Row, Source, TEXT, component, components, disciplines,
    rows,
};

/// The queue of each port.
pub static QUEUES: Block = Block {
    class: Class {
        name: "queues",
        id: 0x00F7_0103,
        about: "the queue discipline of each port: received, sent, dropped, marked and queued packets, and gauges",
        key: &["port"],
        has_instances: true,
        metric: Some("queue"),
        mechanisms: Some(Mechanisms {
            name: "discipline",
            report: "gauges",
            classes: disciplines,
        }),
        components: &components::<QueueRow, { COLUMNS.len() }>(COLUMNS),
        events: EVENTS,
        layout: Layout {
            totals_apart: true,
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Plane(|plane| rows(COLUMNS, plane.ports())),
};

/// Components of a queue that a controller needs, so that an event saves it a query.
const SAMPLE: &[&str] = &["port", "received", "sent", "backlog", "gauges"];

const EVENTS: &[Event] = &[
    Event {
        id: 1,
        name: "backlog_changed",
        about: "The backlog of the queue changed. Subscribe with an interval.",
        target: "backlog",
        condition: Condition::Changed,
        reports: SAMPLE,
    },
    Event {
        id: 2,
        name: "received_changed",
        about: "Packets were offered to the queue. Subscribe with an interval.",
        target: "received",
        condition: Condition::Changed,
        reports: SAMPLE,
    },
];

struct QueueRow;

impl Row for QueueRow {
    type View<'a> = &'a PlanePort;
}

/// Dropped packets as a share of the offered packets; `None` if none was offered.
fn dropped_ratio(offered: Tally, dropped: Tally) -> Option<f64> {
    (offered.packets > 0).then(|| dropped.packets as f64 / offered.packets as f64)
}

/// A histogram as [`TIMES`] declares it.
fn times(delays: &Delays) -> Value {
    let bucket = |(below, count): (Span, u64)| {
        Value::Struct(vec![
            ("below_s".into(), below.into()),
            ("count".into(), count.into()),
        ])
    };
    Value::Struct(vec![
        ("count".into(), delays.total().into()),
        ("sum_s".into(), delays.sum().into()),
        (
            "buckets".into(),
            Value::List(delays.cumulative().map(bucket).collect()),
        ),
    ])
}

/// A parameter for programs: a number if possible, with its unit in the name.
fn parameter((name, setting): (&'static str, &Setting)) -> (Cow<'static, str>, Value) {
    // Many JSON parsers read whole numbers below 2^63 only.
    let whole = |n: u64| Value::Whole(n.min(i64::MAX as u64));
    let (unit, value) = match setting {
        Setting::Count(n) => ("", whole(*n)),
        Setting::Ratio(x) => ("", Value::Real(*x)),
        Setting::Span(span) => ("_s", (*span).into()),
        Setting::Rate(rate) => ("_bps", whole(rate.as_bps())),
        Setting::Bytes(bytes) => ("_bytes", whole(bytes.0)),
        Setting::Flag(on) => ("", (*on).into()),
        Setting::Word(word) => ("", (*word).into()),
        Setting::Text(text) => ("", text.as_str().into()),
    };
    (format!("{name}{unit}").into(), value)
}

const COLUMNS: &[Column<QueueRow>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the port.")
        .shown(&[Cell::new("PORT")])
        .read(|slot| slot.name.as_str().into()),
    component(2, "discipline", TEXT, "fq_codel")
        .settable()
        .about("Kind of discipline; a new kind starts with its defaults.")
        .shown(&[Cell::new("DISCIPLINE")])
        .read(|slot| slot.port.queue().spec().kind().into()),
    component(
        3,
        "parameters",
        Type::Map(&Type::Setting(None)),
        "limit=10240, target_s=0.005, quantum_bytes=1514, ecn=true",
    )
    .about(
        "Parameters of the discipline; a parameter with a unit has it in its name: `target_s`, `quantum_bytes`, \
         `rate_bps`.",
    )
    .read(|slot| {
        Value::Struct(
            slot.port
                .queue()
                .spec()
                .settings()
                .iter()
                .map(parameter)
                .collect(),
        )
    }),
    component(4, "received", COUNT, "")
        .about("Packets offered to the queue.")
        .shown(IN)
        .read(|slot| slot.port.queue().ledger().received.into()),
    component(5, "sent", COUNT, "")
        .about("Packets that left the queue for the link.")
        .shown(OUT)
        .read(|slot| slot.port.queue().ledger().sent.into()),
    component(6, "dropped", COUNT, "")
        .about("Packets dropped by the discipline, on arrival or later.")
        .shown(&[
            Cell::new("DROPPED PKT/S")
                .of("packets")
                .form(Form::PerSecond),
            Cell::new("DROPPED PACKETS").of("packets").since_start(),
        ])
        .read(|slot| slot.port.queue().ledger().dropped.into()),
    component(10, "dropped_ratio", RATIO, "0.0067")
        .optional()
        .about("Dropped packets as a share of offered packets; null if none were offered.")
        .shown(&[Cell::new("DROPPED").since_start()])
        .read(|slot| {
            let ledger = slot.port.queue().ledger();
            dropped_ratio(ledger.received, ledger.dropped).into()
        }),
    component(7, "marked", COUNT, "")
        .about("Packets marked \"congestion experienced\" (ECN).")
        .shown(&[Cell::new("MARKED PACKETS").of("packets").since_start()])
        .read(|slot| slot.port.queue().ledger().marked.into()),
    component(8, "backlog", HELD, "")
        .about("Packets in the queue now.")
        .shown(&[
            Cell::new("QUEUED PACKETS").of("packets"),
            Cell::new("QUEUED BYTES").of("bytes"),
        ])
        .read(|slot| slot.port.queue().backlog().into()),
    component(
        9,
        "gauges",
        Type::Map(&Type::Gauge(Unit::One)),
        "new_flows=736",
    )
    .about(
        "Gauges and counters of this kind of discipline; `weir describe DISCIPLINE` \
             explains them.",
    )
    .shown(&[Cell::new("GAUGE")])
    .read(|slot| {
        let mut gauges = BTreeMap::new();
        slot.port
            .queue()
            .inspect(&mut |name, value| _ = gauges.insert(name, value));
        let gauge = |(name, value): (&'static str, u64)| (name.into(), value.into());
        Value::Struct(gauges.into_iter().map(gauge).collect())
    }),
    component(12, "delay_s", TIMES, "")
        .about("Queue delay of sent packets.")
        .read(|slot| {
            let [mut all, heavy] = slot.port.delays();
            all.add(&heavy);
            times(&all)
        }),
    component(13, "light_delay_s", TIMES, "")
        .about(
            "Queue delay of sent packets of light traffic: flows within their share. A discipline that does not \
             identify heavy flows counts all packets here.",
        )
        .read(|slot| times(&slot.port.delays()[0])),
    component(14, "heavy_delay_s", TIMES, "")
        .about("Queue delay of sent packets of heavy flows, which offer more than their share and are backlogged.")
        .read(|slot| times(&slot.port.delays()[1])),
    component(11, "knows_flows", FLAG, "false")
        .capability()
        .about("Whether the discipline tracks individual flows, which `weir show flows` or `weir show hogs` lists.")
        .read(|slot| slot.port.queue().spec().knows_flows().into()),
];
