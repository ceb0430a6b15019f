//! Netfilter rules of the machine that transit bypasses.

use weir_model::class::{Cell, Class, Condition, Event, Layout};

use super::{Block, Column, FLAG, Row, Source, TEXT, component, components, rows};

pub(super) static NETFILTER: Block = Block {
    class: Class {
        name: "netfilter",
        id: 0x00F7_0109,
        about: "netfilter chains of this machine that forwarded packets bypass",
        key: &["family", "table", "chain"],
        components: &components::<BypassedRow, { COLUMNS.len() }>(COLUMNS),
        events: &[Event {
            id: 1,
            name: "rules_appeared",
            about: "Netfilter rules that forwarded packets bypass appeared on the machine.",
            target: "",
            condition: Condition::Created,
            reports: &["family", "table", "chain"],
        }],
        layout: Layout {
            empty: "Forwarded packets bypass no netfilter rules of this machine.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Netfilter(|chains| rows(COLUMNS, chains)),
};

/// A chain of rules that transit through the router bypasses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bypassed {
    /// Family of nf_tables, or `iptables` or `ip6tables` for legacy tables.
    pub family: String,
    /// Name of the chain's table.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// Hook of the chain.
    pub hook: String,
    /// Whether the chain has rules.
    pub has_rules: bool,
    /// Whether the chain's policy drops packets that no rule decides about.
    pub policy_drop: bool,
    /// Whether the chain existed when the router started.
    pub at_start: bool,
}

struct BypassedRow;

impl Row for BypassedRow {
    type View<'a> = &'a Bypassed;
}

const COLUMNS: &[Column<BypassedRow>] = &[
    component(1, "family", TEXT, "inet")
        .about("nf_tables family, or `iptables` or `ip6tables` for legacy tables.")
        .shown(&[Cell::new("FAMILY")])
        .read(|chain| chain.family.as_str().into()),
    component(2, "table", TEXT, "filter")
        .about("Name of the table.")
        .shown(&[Cell::new("TABLE")])
        .read(|chain| chain.table.as_str().into()),
    component(3, "chain", TEXT, "forward")
        .about("Name of the chain.")
        .shown(&[Cell::new("CHAIN")])
        .read(|chain| chain.chain.as_str().into()),
    component(4, "hook", TEXT, "forward")
        .about("Hook of the chain.")
        .shown(&[Cell::new("HOOK")])
        .read(|chain| chain.hook.as_str().into()),
    component(5, "has_rules", FLAG, "true")
        .about("Whether the chain has rules.")
        .shown(&[Cell::new("RULES")])
        .read(|chain| chain.has_rules.into()),
    component(6, "policy_drop", FLAG, "true")
        .about("Whether the policy of the chain is drop.")
        .shown(&[Cell::new("POLICY DROP")])
        .read(|chain| chain.policy_drop.into()),
    component(7, "at_start", FLAG, "false")
        .about("Whether the chain existed when the router started.")
        .shown(&[Cell::new("AT START")])
        .read(|chain| chain.at_start.into()),
];
