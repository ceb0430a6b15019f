//! The metrics of a run: which packets, flows and transfers count, and where.
//!
//! A test runs a scenario with three variants in simulation. It fails if a metric of the run is not described here, or
//! is described twice.

/// The definition of a metric, or of several metrics that differ only in a name or a statistic.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name pattern. `TRAFFIC`, `LINK`, `HOST`, `ROUTER`, `ENCAPSULATION`, `CONTROLLER`, `GAUGE`, `REASON`, `CLASS`
    /// and `SIZE` are placeholders of names, `STATISTIC` of a word like `mean` or `p99`.
    pub name: &'static str,
    /// The habitats that measure it: `sim`, `lab`, or `both`.
    pub on: &'static str,
    /// The definition.
    pub about: &'static str,
}

/// The words that replace `STATISTIC`.
pub const STATISTICS: [&str; 9] = [
    "mean", "dev", "min", "max", "p10", "p50", "p90", "p95", "p99",
];

const fn metric(name: &'static str, on: &'static str, about: &'static str) -> Metric {
    Metric { name, on, about }
}

/// All metrics, grouped by subject.
pub const METRICS: &[Metric] = &[
    // Goodput and shares.
    metric(
        "goodput_mbps.TRAFFIC",
        "both",
        "payload that arrived at the receivers of the traffic in the window, each byte once, in order or not, over its length; in the lab, what their programs read",
    ),
    metric(
        "tcp_goodput_mbps",
        "both",
        "the same of all traffics of kind tcp together; web is not TCP here",
    ),
    metric(
        "udp_goodput_mbps",
        "both",
        "the same of all traffics of kind udp",
    ),
    metric(
        "web_goodput_mbps",
        "both",
        "the same of all traffics of kind web",
    ),
    metric(
        "tcp_share_ratio",
        "both",
        "tcp_goodput_mbps / (tcp_goodput_mbps + udp_goodput_mbps); web is not counted, and without tcp there is none",
    ),
    metric(
        "tcp_flow_goodput_mbps_STATISTIC",
        "both",
        "over TCP flows: payload of a flow in the window, over that part of the window in which it was there",
    ),
    metric(
        "jain_index",
        "both",
        "Jain's fairness index of the goodput of TCP flows: 1 if all are equal, 1/n if one has all",
    ),
    metric(
        "jain_index_senders",
        "sim",
        "Jain's fairness index of the goodput of sending hosts, each over all its flows, of those that want more than the max-min fair level among them; a transfer without end wants without limit, a rate what it offers, web and transfers of a size what they had",
    ),
    metric(
        "jain_index_receivers",
        "sim",
        "the same of receiving hosts; apart from the senders', because the two contradict each other where one host has many partners",
    ),
    metric(
        "tcp_offered_mbps",
        "both",
        "payload that the TCP applications offered in the window; none if one of them is greedy",
    ),
    metric(
        "udp_offered_mbps",
        "both",
        "payload that the UDP applications offered in the window",
    ),
    metric(
        "tcp_delivered_ratio",
        "both",
        "tcp_goodput_mbps / tcp_offered_mbps",
    ),
    metric(
        "udp_delivered_ratio",
        "both",
        "udp_goodput_mbps / udp_offered_mbps",
    ),
    metric(
        "udp_loss_ratio",
        "both",
        "1 - udp_delivered_ratio, not below 0: what is still on its way at the end counts as lost",
    ),
    metric(
        "udp_sender_late_s_STATISTIC",
        "both",
        "how late the senders sent their datagrams, the worst sender; 0 in the simulator, trouble on the lab",
    ),
    // Transfers.
    metric(
        "transfers",
        "both",
        "TCP transfers of a size that ended in the window",
    ),
    metric("transfers_per_s", "both", "the same a second"),
    metric(
        "transfers_unfinished",
        "both",
        "transfers that the end of the run cut off",
    ),
    metric(
        "transfer_s_STATISTIC",
        "both",
        "from the start of a transfer to its last byte, of those that ended in the window, and of the unfinished ones with their age at the end: a mean over survivors would lie",
    ),
    metric(
        "transfer_finished_s_mean",
        "both",
        "the same mean of the finished ones only",
    ),
    metric(
        "completion_s_STATISTIC.SIZE",
        "both",
        "transfer_s by size: all, to_10kB, to_100kB (above 10 kB), to_1MB, above_1MB",
    ),
    // Web.
    metric(
        "web_fetches",
        "both",
        "fetches of web clients that finished in the window",
    ),
    metric("web_fetches_per_s", "both", "the same a second"),
    metric(
        "web_unfinished",
        "both",
        "fetches that the end of the run cut off",
    ),
    metric(
        "web_failures",
        "both",
        "fetches that ended in the window with a reset, a time-out or an error",
    ),
    metric(
        "web_response_s_STATISTIC",
        "both",
        "from the start of a fetch to its last byte, of those that finished in the window, and of the unfinished ones with their age; failures are not counted",
    ),
    metric(
        "web_response_finished_s_mean",
        "both",
        "the same mean of the finished ones only",
    ),
    metric(
        "web_connect_s_STATISTIC",
        "both",
        "from the start of a fetch to its connection; one that is not there at the end counts with its age",
    ),
    // Packets of a traffic, in the simulator.
    metric(
        "loss_ratio",
        "sim",
        "lost_packets over the packets with payload that all hosts sent in the window",
    ),
    metric(
        "loss_ratio.TRAFFIC",
        "sim",
        "the same of one traffic; acknowledgements and handshakes are not counted",
    ),
    metric(
        "lost_packets",
        "both",
        "packets with payload that were dropped in the window, at whatever port; in the lab, datagrams sent less those received, if all traffic is UDP and stops before the end",
    ),
    metric(
        "lost_packets.TRAFFIC.PORT.REASON",
        "sim",
        "the same by traffic, by the direction of the link (LINK, LINK.reverse), and by reason (docs/drop-reasons.md)",
    ),
    metric(
        "delay_ms_mean",
        "sim",
        "mean of all packets of all traffics: see delay_ms_STATISTIC.TRAFFIC",
    ),
    metric(
        "delay_ms_STATISTIC.TRAFFIC",
        "both",
        "from a host's sending of a packet with payload to a host's receiving, of packets received in the window; lost ones have no delay; in the lab, of UDP alone, until its program reads it: up to 1 ms longer",
    ),
    metric(
        "delay_ms_p99_with_losses.TRAFFIC",
        "sim",
        "the 99th percentile of the same delay if a lost packet counts as late as the run is long: that long if more than 1 % are lost",
    ),
    metric(
        "jitter_ms",
        "sim",
        "mean over all traffics: see jitter_ms.TRAFFIC",
    ),
    metric(
        "jitter_ms.TRAFFIC",
        "sim",
        "the interarrival jitter of RFC 3550 (6.4.1), mean over packets",
    ),
    metric(
        "packets_received_per_s.TRAFFIC",
        "sim",
        "packets with payload that the hosts received in the window, a second",
    ),
    metric(
        "payload_received_mbps.TRAFFIC",
        "sim",
        "payload of the same, retransmissions included: at least the goodput",
    ),
    // Links.
    metric(
        "throughput_mbps.LINK",
        "sim",
        "bytes that the port sent in the window, with the link's framing: what they took of its rate; with a modem, what that has sent",
    ),
    metric(
        "utilisation_ratio.LINK",
        "sim",
        "the same over the link's rate, or over its mean in the window",
    ),
    metric(
        "packets_sent.LINK",
        "both",
        "packets that the port sent in the window, with or without payload",
    ),
    metric(
        "dropped_packets.LINK",
        "sim",
        "packets that were dropped at the port in the window, with or without payload, for whatever reason",
    ),
    metric(
        "dropped_payload_packets.LINK",
        "sim",
        "those of them with payload",
    ),
    metric(
        "queue_packets_mean.LINK",
        "both",
        "packets held, mean over the samplings of the window (`sample` in the scenario)",
    ),
    metric(
        "queue_delay_ms_STATISTIC.LINK",
        "sim",
        "from a packet's coming to the queue to the start of its transmission, of all packets that left in the window; dropped ones have none",
    ),
    metric(
        "state_bytes.LINK",
        "sim",
        "memory of the discipline at the end",
    ),
    metric(
        "gauge.LINK.GAUGE",
        "sim",
        "a gauge of the discipline at the end of the run (`weir describe`)",
    ),
    metric(
        "gauge_STATISTIC.LINK.GAUGE",
        "sim",
        "the same over the samplings of the window",
    ),
    metric(
        "class_packets.LINK.TRAFFIC.CLASS",
        "sim",
        "packets of the traffic that left by queue 0 or 1 of the discipline in the window",
    ),
    metric(
        "known_flows.LINK.TRAFFIC",
        "sim",
        "flows of the traffic that the discipline knows (cached, or accepted), mean over the samplings",
    ),
    metric(
        "hog_flows.LINK.TRAFFIC",
        "sim",
        "of these, those that are treated as hogs",
    ),
    metric(
        "waiting_flows.LINK.TRAFFIC",
        "sim",
        "flows of the traffic that wait to be accepted",
    ),
    metric(
        "sending_flows.LINK.TRAFFIC",
        "sim",
        "flows of the traffic that sent in each ten seconds of the window, mean",
    ),
    // Identification of hogs, compared with the truth (`hog = true`).
    metric(
        "hog_precision_ratio.LINK",
        "sim",
        "right ones among the flows that are taken for hogs, over all looks",
    ),
    metric(
        "hog_recall_ratio.LINK",
        "sim",
        "hogs that are taken for hogs among all hogs, over all looks",
    ),
    metric(
        "hog_false_positives.LINK",
        "sim",
        "flows that are taken for hogs and are none, mean",
    ),
    metric(
        "hog_detection_s_STATISTIC.LINK",
        "sim",
        "from a hog's first packet to its first identification, of those that were identified",
    ),
    metric(
        "hogs_undetected.LINK",
        "sim",
        "hogs that never were identified",
    ),
    // Admission.
    metric(
        "acceptance_delay_s.TRAFFIC",
        "sim",
        "from a flow's first packet to the one that was let through at every watched link, mean; a flow that never was counts with its age at the end",
    ),
    metric(
        "acceptance_delay_s_max.TRAFFIC",
        "sim",
        "the longest of the same",
    ),
    metric(
        "acceptance_delay_s_accepted.TRAFFIC",
        "sim",
        "mean of the accepted flows only",
    ),
    metric(
        "never_accepted_flows.TRAFFIC",
        "sim",
        "flows that were never let through",
    ),
    metric(
        "goodput_since_accepted_mbps.TRAFFIC",
        "sim",
        "payload of a flow in the window, over its time since it was let through, mean",
    ),
    metric(
        "goodput_since_kept_mbps.TRAFFIC",
        "sim",
        "payload of a flow that left since it was let in for good, over the time since then, of flows that were not refused again within 2 s, mean",
    ),
    metric(
        "run_after_flows.LINK.TRAFFIC",
        "sim",
        "flows on the list one second after the beginning of each run of a congestion mechanism in the window, mean over runs; without runs, the mean over time",
    ),
    metric(
        "outage_s_STATISTIC.TRAFFIC",
        "sim",
        "the longest time for which an accepted flow that was removed did not pass",
    ),
    metric(
        "run_growth_flows.LINK.TRAFFIC",
        "sim",
        "flows that are known a second after a run of a congestion mechanism, less those before it, mean over runs",
    ),
    metric(
        "run_let_in_ratio.LINK.TRAFFIC",
        "sim",
        "flows that waited before such a run and were let in by it, over those that waited",
    ),
    // Attacks: scenarios whose hogs start after the warm-up.
    metric(
        "honest_before_mbps",
        "both",
        "goodput of all traffic without `hog = true` from the warm-up to the first start of a hog",
    ),
    metric(
        "honest_kept_ratio",
        "both",
        "goodput of the same during the attack, over that before it",
    ),
    metric(
        "kept_ratio.TRAFFIC",
        "both",
        "the same of one honest traffic",
    ),
    metric(
        "honest_regained_ratio",
        "both",
        "the same after the attack, over that before it",
    ),
    metric(
        "recovery_s",
        "both",
        "from the end of the attack to the first half second in which honest traffic has 90 % of what it had; the whole rest if it never has",
    ),
    // Flexible packet forwarding.
    metric(
        "fpf_rules.ROUTER",
        "both",
        "rules of the router's forwarding table at the end of the run",
    ),
    metric(
        "fpf_encapsulated_packets.ENCAPSULATION",
        "both",
        "packets that got a header by this encapsulation, over the whole run; a packet with copies is one",
    ),
    metric(
        "fpf_overflowed_packets.ENCAPSULATION",
        "both",
        "of an encapsulation with a shape: packets dropped because shape_limit packets waited already, over the whole run",
    ),
    metric(
        "fpf_waiting_packets.ENCAPSULATION",
        "both",
        "of an encapsulation with a shape: packets that wait for its rate at the end",
    ),
    metric(
        "fpf_repaired_packets.ROUTER",
        "both",
        "packets that the router's decoders repaired, of encapsulations with a code, because they were lost or came after their parity; over the whole run",
    ),
    metric(
        "fpf_decoder.ENCAPSULATION.GAUGE",
        "sim",
        "a gauge of the decoder of an encapsulation with a code: packets that it repaired, that came twice, and that came late",
    ),
    metric(
        "fpf_cache.ENCAPSULATION.GAUGE",
        "sim",
        "a gauge of the cache of an encapsulation: interests that it answered (hits) or not (misses), chunks that it stored and evicted, and data that it refused; over the whole run",
    ),
    metric(
        "fpf_table_changes",
        "both",
        "rows of all forwarding tables that events have added, changed or removed",
    ),
    metric(
        "fpf_encapsulation_changes",
        "both",
        "encapsulation rules that events have changed or removed",
    ),
    metric(
        "copies_ratio.TRAFFIC.HOST",
        "both",
        "of a traffic with copies_to: datagrams that the host received in the window over those that were sent; 1 is exactly one copy of each",
    ),
    // Controllers, and the lab itself.
    metric(
        "controller.CONTROLLER.GAUGE",
        "both",
        "a gauge of the controller: at the end, and with .mean over the window",
    ),
    metric("router_cpu_s", "lab", "processor time of all routers"),
    metric(
        "others_cpu_ratio",
        "lab",
        "processors that other programs of this machine kept busy, mean: above a tenth or so the figures are not to be trusted",
    ),
];

/// The definition of the metric called `name`.
pub fn definition(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| is(metric.name, name))
}

/// Whether a pattern matches a name: the same words before the first dot, and either both have a suffix or neither.
fn is(pattern: &str, name: &str) -> bool {
    let parts = |text: &str| {
        let (base, of) = text.split_once('.').unwrap_or((text, ""));
        (base.to_owned(), !of.is_empty())
    };
    let ((pattern, of_pattern), (name, of_name)) = (parts(pattern), parts(name));
    let base = match pattern.split_once("STATISTIC") {
        Some((before, after)) => STATISTICS
            .iter()
            .any(|word| name == format!("{before}{word}{after}")),
        None => pattern == name,
    };
    base && of_pattern == of_name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunOptions, run};

    /// A scenario with every kind of traffic, transfers, an attack, and disciplines that track flows.
    const SCENARIO: &str = r#"
title = "Everything that is measured"
duration = "4 s"
warm_up = "500 ms"
[router.r]
[host.a]
[host.b]
[link.access]
ends = ["a", "r"]
rate = "50 Mbit"
[link.out]
ends = ["r", "b"]
rate = "5 Mbit"
delay = "5 ms"
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
[traffic.files]
kind = "tcp"
from = "a"
to = "b"
arrivals = "exponential 0.2 s"
size = "20 kB"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "4 Mbit"
start = "1 s"
stop = "2 s"
hog = true
[traffic.web]
kind = "web"
from = "a"
to = "b"
clients = 2
[[variant]]
name = "fifo"
[[variant]]
name = "lru_fq"
set = { "link.out.discipline" = { kind = "lru_fq" } }
[[variant]]
name = "fan"
set = { "link.out.discipline" = { kind = "fan", mechanism = "efm" } }
"#;

    #[test]
    fn every_metric_of_a_run_is_defined_once() {
        let options = RunOptions {
            scenario: "metrics.toml".into(),
            text: Some(SCENARIO.to_owned()),
            runs: Some(1),
            ..RunOptions::default()
        };
        let result = run(&options).unwrap();
        let runs = result.points.iter().flat_map(|point| &point.runs);
        for name in runs.flat_map(|run| run.metrics.keys()) {
            let found = METRICS
                .iter()
                .filter(|metric| is(metric.name, name))
                .count();
            assert_eq!(found, 1, "{name} must be described in METRICS");
        }
    }

    #[test]
    fn names_match_their_patterns() {
        let name = |name| definition(name).map(|metric| metric.name);
        assert_eq!(name("loss_ratio"), Some("loss_ratio"));
        assert_eq!(name("loss_ratio.long"), Some("loss_ratio.TRAFFIC"));
        assert_eq!(
            name("delay_ms_p99.long"),
            Some("delay_ms_STATISTIC.TRAFFIC")
        );
        assert_eq!(name("gauge.out.full"), Some("gauge.LINK.GAUGE"));
        assert_eq!(name("delay_ms_p98.long"), None);
    }
}
