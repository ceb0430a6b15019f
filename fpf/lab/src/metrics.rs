//! The metrics of FPF in a run.

use weir_experiment::metrics::{Metric, metric};

/// The metrics.
pub(crate) const METRICS: &[Metric] = &[
    metric(
        "fpf_rules.ROUTER",
        "both",
        "rules in the router's forwarding table at the end of the run",
    ),
    metric(
        "fpf_encapsulated_packets.ENCAPSULATION",
        "both",
        "packets that this encapsulation gave a header, over the whole run; a multicast packet counts once",
    ),
    metric(
        "fpf_overflowed_packets.ENCAPSULATION",
        "both",
        "for an encapsulation with `shape`: packets dropped because shape_limit packets were already queued, over the \
         whole run",
    ),
    metric(
        "fpf_waiting_packets.ENCAPSULATION",
        "both",
        "for an encapsulation with `shape`: packets in its queue at the end",
    ),
    metric(
        "fpf_repaired_packets.ROUTER",
        "both",
        "for encapsulations with a `code`: packets that the router's decoders repaired because they were lost or \
         arrived after their parity packet, over the whole run",
    ),
    metric(
        "fpf_decoder.ENCAPSULATION.GAUGE",
        "sim",
        "decoder gauges of an encapsulation with a `code`: packets repaired, duplicate, and late",
    ),
    metric(
        "fpf_cache.ENCAPSULATION.GAUGE",
        "sim",
        "cache gauges of an encapsulation: interests answered (hits) or not (misses), chunks stored and evicted, and \
         data refused; over the whole run",
    ),
    metric(
        "fpf_table_changes",
        "both",
        "rows that events added, changed or removed in all forwarding tables",
    ),
    metric(
        "fpf_encapsulation_changes",
        "both",
        "encapsulation rules that events changed or removed",
    ),
];
