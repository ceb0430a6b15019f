//! The table of kernel state in docs/router.md.

use serde_json::{Value, json};
use weir_element::kernel::{Stance, all_kinds};

use super::cell;

/// The table: a row for each kind, under its part of the kernel.
pub fn markdown() -> String {
    let mut text = String::from(
        "| kernel state | what the kernel decides with it | `routed` | `bridged` | `queue` | how weir reads it |\n|---|---|---|---|---|---|\n",
    );
    let shown = |stance: Stance| cell(&format!("**{}**: {}", stance.word(), stance.why()));
    let mut parts: Vec<_> = all_kinds().map(|kind| kind.part).collect();
    parts.sort_unstable();
    parts.dedup();
    for part in parts {
        for kind in all_kinds().filter(|kind| kind.part == part) {
            text += &format!(
                "| {part}: {} | {} | {} | {} | {} | {} |\n",
                cell(kind.name),
                cell(kind.decides),
                shown(kind.routed),
                shown(kind.bridged),
                shown(kind.queue),
                cell(kind.read),
            );
        }
    }
    text
}

/// The content of [`markdown`] as JSON.
pub fn json() -> Value {
    let shown = |stance: Stance| json!({ "does": stance.word(), "why": stance.why() });
    let rows = all_kinds().map(|kind| {
        json!({
            "part": kind.part,
            "name": kind.name,
            "decides": kind.decides,
            "routed": shown(kind.routed),
            "bridged": shown(kind.bridged),
            "queue": shown(kind.queue),
            "read": kind.read,
            "permit": kind.advice.and_then(|advice| advice.permit).map(|permit| permit.key),
        })
    });
    rows.collect()
}
