//! Traffic, queue and drops of each port, per second and per minute.

use std::sync::Arc;

use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Rate, Span, Tally};
use weir_model::Value;
use weir_model::class::{Cell, Class, Form, HELD, Layout};

use super::Sampled;
use super::records::{Record, SECONDS};
use crate::class::{
    Block, Column, PACKETS, RATE_BPS, RATIO, Row, SECONDS as TIME, Source, TEXT, component,
    components, rows,
};

pub(in crate::class) static HISTORY: Block = Block {
    class: Class {
        name: "history",
        id: 0x00F7_0113,
        about: "history of each port: rate, utilisation, queue delay, drops; per second for ten minutes, per minute \
                for six hours",
        key: &["port", "age_s"],
        query: &[
            Parameter::new(
                "step",
                Kind::Word(&["second", "minute"]),
                "second",
                "duration of a record",
            ),
            Parameter::new(
                "records",
                Kind::Count(0, SECONDS as u64),
                "10",
                "return at most this number of the latest records of each port",
            ),
            Parameter::new(
                "port",
                Kind::Text(64),
                "",
                "only rows of this port; empty: all ports",
            ),
        ],
        components: &components::<HistoryRow, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No records yet; the first record follows after one second.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Sampled(|sampled, query| rows(COLUMNS, records(sampled, query))),
};

struct HistoryRow;

struct HistoryView {
    port: Arc<str>,
    /// Time from the record to the latest sample.
    age: Span,
    record: Record,
}

impl Row for HistoryRow {
    type View<'a> = HistoryView;
}

/// The latest records of each port, latest first.
fn records(sampled: &Sampled, query: &Settings) -> Vec<HistoryView> {
    let most = query.count("records") as usize;
    let port = query.text("port");
    let by_minute = query.word("step") == "minute";
    let Some(latest) = &sampled.latest else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let ports = sampled.records.ports.iter();
    for port in ports.filter(|of| port.is_empty() || *of.name == *port) {
        let ring = if by_minute {
            &port.minutes
        } else {
            &port.seconds
        };
        all.extend(ring.iter().rev().take(most).map(|record| HistoryView {
            port: port.name.clone(),
            age: latest.at.since(record.at),
            record: *record,
        }));
    }
    all
}

/// The mean rate of the bytes counted in a time.
fn rate(tally: Tally, span: Span) -> Rate {
    let nanos = u128::from(span.as_nanos().max(1));
    let bits = u128::from(tally.bytes) * 8_000_000_000 / nanos;
    Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
}

/// A quantile of the delays of light packets, of heavy packets or of all packets.
fn delay(view: &HistoryView, whose: usize, which: usize) -> Value {
    view.record.delays[whose].map(|delays| delays[which]).into()
}

const COLUMNS: &[Column<HistoryRow>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the port.")
        .shown(&[Cell::new("PORT")])
        .read(|view| view.port.as_ref().into()),
    component(2, "age_s", TIME, "3.5")
        .about("Time from the end of the record to the latest sample.")
        .shown(&[Cell::new("AGE")])
        .read(|view| view.age.into()),
    component(3, "span_s", TIME, "1.001")
        .about("Duration of the record.")
        .read(|view| view.record.span.into()),
    component(4, "received_bps", RATE_BPS, "310000000")
        .about("Mean rate of received frames.")
        .shown(&[Cell::new("IN MBIT/S").form(Form::Megabits)])
        .read(|view| rate(view.record.received, view.record.span).into()),
    component(5, "sent_bps", RATE_BPS, "93500000")
        .about("Mean rate of sent frames.")
        .shown(&[Cell::new("OUT MBIT/S").form(Form::Megabits)])
        .read(|view| rate(view.record.sent, view.record.span).into()),
    component(14, "offered_bps", RATE_BPS, "310000000")
        .about("Mean rate of packets offered to the queue.")
        .shown(&[Cell::new("OFFERED MBIT/S").form(Form::Megabits)])
        .read(|view| rate(view.record.offered, view.record.span).into()),
    component(6, "received_packets", PACKETS, "25000")
        .about("Received frames.")
        .read(|view| view.record.received.packets.into()),
    component(7, "sent_packets", PACKETS, "7800")
        .about("Sent frames.")
        .read(|view| view.record.sent.packets.into()),
    component(8, "utilisation_ratio", RATIO, "0.999")
        .optional()
        .about(
            "Share of the time that the link carried frames, including the kernel's own; null if the port is not \
             paced.",
        )
        .shown(&[Cell::new("BUSY")])
        .read(|view| view.record.utilisation.map(f64::from).into()),
    component(9, "backlog", HELD, "")
        .about("Packets in the queue at the end of the record.")
        .shown(&[Cell::new("QUEUED PACKETS").of("packets"), Cell::new("QUEUED BYTES").of("bytes")])
        .read(|view| view.record.backlog.into()),
    component(15, "light_delay_p50_s", TIME, "0.0002")
        .optional()
        .about(
            "Median queue delay of sent packets of light traffic: flows within their share, as far as the discipline \
             identifies them; null if none were sent.",
        )
        .shown(&[Cell::new("LIGHT P50")])
        .read(|view| delay(view, 0, 0)),
    component(16, "light_delay_p99_s", TIME, "0.0011")
        .optional()
        .about("99th percentile of the queue delay of light traffic.")
        .shown(&[Cell::new("LIGHT P99")])
        .read(|view| delay(view, 0, 1)),
    component(17, "heavy_delay_p50_s", TIME, "0.575")
        .optional()
        .about(
            "Median queue delay of sent packets of heavy flows, which offer more than their share and are backlogged; \
             null if none were sent, or if the discipline does not identify such flows.",
        )
        .shown(&[Cell::new("HEAVY P50")])
        .read(|view| delay(view, 1, 0)),
    component(18, "heavy_delay_p99_s", TIME, "0.91")
        .optional()
        .about("99th percentile of the queue delay of heavy flows.")
        .shown(&[Cell::new("HEAVY P99")])
        .read(|view| delay(view, 1, 1)),
    component(10, "delay_p50_s", TIME, "0.0041")
        .optional()
        .about("Median queue delay of sent packets; null if none were sent.")
        .read(|view| delay(view, 2, 0)),
    component(11, "delay_p99_s", TIME, "0.0205")
        .optional()
        .about("99th percentile of the queue delay of sent packets; null if none were sent.")
        .read(|view| delay(view, 2, 1)),
    component(12, "dropped_packets", PACKETS, "3100")
        .about("Packets that the discipline dropped.")
        .shown(&[Cell::new("DROPPED")])
        .read(|view| view.record.dropped.into()),
    component(13, "marked_packets", PACKETS, "12")
        .about("Packets that the discipline marked \"congestion experienced\" (ECN).")
        .shown(&[Cell::new("MARKED")])
        .read(|view| view.record.marked.into()),
];
