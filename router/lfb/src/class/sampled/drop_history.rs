//! Drops by reason, per second.

use weir_base::Span;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_model::class::{Cell, Class, Layout};
use weir_packet::Reason;

use super::Sampled;
use super::records::SECONDS;
use crate::class::{
    Block, Column, FLAG, PACKETS, Row, SECONDS as TIME, Source, TEXT, component, components, rows,
};

pub(in crate::class) static DROP_HISTORY: Block = Block {
    class: Class {
        name: "drop_history",
        id: 0x00F7_0114,
        about: "dropped packets per second, by reason, for the last ten minutes",
        key: &["age_s", "reason"],
        query: &[Parameter::new(
            "records",
            Kind::Count(0, SECONDS as u64),
            "10",
            "return at most this number of the latest seconds",
        )],
        components: &components::<Dropped, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No packets were dropped in this period.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Sampled(|sampled, query| rows(COLUMNS, dropped(sampled, query))),
};

struct Dropped {
    /// Time from the record to the latest sample.
    age: Span,
    span: Span,
    reason: Reason,
    packets: u64,
}

impl Row for Dropped {
    type View<'a> = Self;
}

/// Drops by reason, latest record first.
fn dropped(sampled: &Sampled, query: &Settings) -> Vec<Dropped> {
    let most = query.count("records") as usize;
    let Some(latest) = &sampled.latest else {
        return Vec::new();
    };
    let records = sampled.records.drops.iter().rev().take(most);
    let of_record = records.flat_map(|record| {
        let counts = Reason::ALL.into_iter().zip(*record.packets);
        let counts = counts.filter(|(_, packets)| *packets > 0);
        counts.map(|(reason, packets)| Dropped {
            age: latest.at.since(record.at),
            span: record.span,
            reason,
            packets,
        })
    });
    of_record.collect()
}

const COLUMNS: &[Column<Dropped>] = &[
    component(1, "age_s", TIME, "3.5")
        .about("Time from the end of the record to the latest sample.")
        .shown(&[Cell::new("AGE")])
        .read(|dropped| dropped.age.into()),
    component(2, "span_s", TIME, "1.001")
        .about("Duration of the record.")
        .read(|dropped| dropped.span.into()),
    component(3, "reason", TEXT, "queue-full")
        .about("Name of the reason.")
        .shown(&[Cell::new("REASON")])
        .read(|dropped| dropped.reason.name().into()),
    component(4, "loss", FLAG, "true")
        .about("Whether the reason is a loss.")
        .read(|dropped| dropped.reason.is_loss().into()),
    component(5, "packets", PACKETS, "3100")
        .about("Packets that were dropped for this reason.")
        .shown(&[Cell::new("PACKETS")])
        .read(|dropped| dropped.packets.into()),
];
