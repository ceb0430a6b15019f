//! Dropped packets by reason; reasons without drops are omitted.

use weir_base::Tally;
use weir_model::class::{COUNT, Cell, Class, Form, Layout};
use weir_packet::Reason;
use weir_path::plane::Plane;

use super::{Block, Column, FLAG, Row, Source, TEXT, component, components, rows};

pub(super) static DROPS: Block = Block {
    class: Class {
        name: "drops",
        id: 0x00F7_0108,
        about: "dropped packets, by reason, most frequent first",
        key: &["reason"],
        metric: Some("dropped"),
        silent: || {
            rows(COLUMNS, Reason::ALL.map(Ended::nothing))
                .rows()
                .to_vec()
        },
        components: &components::<Ended, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            head: "`weir describe REASON` explains the usual causes of a reason and the remedies.",
            empty: "No packets were dropped.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Plane(|plane| rows(COLUMNS, ended(plane))),
};

struct Ended {
    reason: Reason,
    count: Tally,
}

impl Ended {
    fn nothing(reason: Reason) -> Self {
        let count = Tally::ZERO;
        Self { reason, count }
    }
}

impl Row for Ended {
    type View<'a> = Self;
}

/// Reasons with drops, most packets first.
fn ended(plane: &Plane) -> Vec<Ended> {
    let count = |reason| Ended {
        reason,
        count: plane.fates().ended(reason),
    };
    let mut all: Vec<_> = Reason::ALL.into_iter().map(count).collect();
    all.retain(|ended| ended.count.packets > 0);
    all.sort_by_key(|ended| std::cmp::Reverse(ended.count.packets));
    all
}

const COLUMNS: &[Column<Ended>] = &[
    component(1, "reason", TEXT, "queue-full")
        .about("Stable name of the reason.")
        .shown(&[Cell::new("REASON")])
        .read(|ended| ended.reason.name().into()),
    component(2, "loss", FLAG, "true")
        .about(
            "Whether the reason is a loss; dropping a copy of a packet that the kernel handles is not a loss.",
        )
        .shown(&[Cell::new("LOSS")])
        .read(|ended| ended.reason.is_loss().into()),
    component(3, "count", COUNT, "")
        .about("Packets that were dropped for this reason.")
        .shown(&[
            Cell::new("PACKETS").of("packets").since_start(),
            Cell::new("BYTES").of("bytes").since_start(),
            Cell::new("PKT/S NOW").of("packets").form(Form::PerSecond),
        ])
        .read(|ended| ended.count.into()),
    component(4, "meaning", TEXT, "The queue was full.")
        .about("The reason as a sentence.")
        .shown(&[Cell::new("MEANING")])
        .read(|ended| ended.reason.sentence().into()),
];
