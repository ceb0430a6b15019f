//! The metrics of FPF in a run.

use weir_experiment::metrics::Definition;

use crate::control::Changed;

/// The packets of an encapsulation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Encapsulated {
    pub(crate) packets: u64,
    /// Whether the encapsulation has a `shape`.
    pub(crate) is_shaped: bool,
    pub(crate) overflowed: u64,
    pub(crate) waiting: u64,
}

/// All metrics.
pub(crate) const METRICS: &[&[Definition]] =
    &[ROUTER, REPAIRED, ENCAPSULATION, DECODER, CACHE, CHANGES];

weir_experiment::metrics! {
    ROUTER on both;
    /// Adds the rules of a router.
    pub(crate) fn add_rules(rules: usize) {
        /// rules in the router's forwarding table at the end of the run
        "fpf_rules.ROUTER" = rules;
    }
}

weir_experiment::metrics! {
    REPAIRED on both;
    /// Adds the packets that the decoders of a router repaired.
    pub(crate) fn add_repaired(packets: u64) {
        /// for encapsulations with a `code`: packets that the router's decoders repaired because they were lost or
        /// arrived after their parity packet, over the whole run
        "fpf_repaired_packets.ROUTER" = packets;
    }
}

weir_experiment::metrics! {
    ENCAPSULATION on both;
    /// Adds the packets of an encapsulation.
    pub(crate) fn add_encapsulated(of: Encapsulated) {
        /// packets that this encapsulation gave a header, over the whole run; a multicast packet counts once
        "fpf_encapsulated_packets.ENCAPSULATION" = of.packets;
        /// for an encapsulation with `shape`: packets dropped because shape_limit packets were already queued, over the
        /// whole run
        "fpf_overflowed_packets.ENCAPSULATION" = of.is_shaped.then_some(of.overflowed as f64);
        /// for an encapsulation with `shape`: packets in its queue at the end
        "fpf_waiting_packets.ENCAPSULATION" = of.is_shaped.then_some(of.waiting as f64);
    }
}

weir_experiment::metrics! {
    DECODER on sim;
    /// Adds a gauge of a decoder.
    pub(crate) fn add_decoder(value: u64) {
        /// decoder gauges of an encapsulation with a `code`: packets repaired, duplicate, and late
        "fpf_decoder.ENCAPSULATION.GAUGE" = value;
    }
}

weir_experiment::metrics! {
    CACHE on sim;
    /// Adds a gauge of a cache.
    pub(crate) fn add_cache(value: u64) {
        /// cache gauges of an encapsulation: interests answered (hits) or not (misses), chunks stored and evicted, and
        /// data refused; over the whole run
        "fpf_cache.ENCAPSULATION.GAUGE" = value;
    }
}

weir_experiment::metrics! {
    CHANGES on both;
    /// Adds the changes by events.
    pub(crate) fn add_changes(changed: Changed) {
        /// rows that events added, changed or removed in all forwarding tables
        "fpf_table_changes" = changed.rows;
        /// encapsulation rules that events changed or removed
        "fpf_encapsulation_changes" = changed.encapsulations;
    }
}
