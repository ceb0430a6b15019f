//! The metrics of a run: which packets, flows and transfers count, and where.
//!
//! A test runs a scenario with three variants in simulation. It fails if a metric of the run is not described here, or
//! is described twice.

use crate::added::Added;

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

/// The definition of a metric.
pub const fn metric(name: &'static str, on: &'static str, about: &'static str) -> Metric {
    Metric { name, on, about }
}

/// All metrics, grouped by subject.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    TRAFFIC.iter().chain(METRICS.all()).chain(OTHERS)
}

/// The metrics of other crates.
pub(crate) static METRICS: Added<Metric> = Added::new();

/// The metrics of traffic, links and attacks.
const TRAFFIC: &[Metric] = &[
    // Goodput and shares.
    metric(
        "goodput_mbps.TRAFFIC",
        "both",
        "payload that arrived at the receivers of the flow group in the window, each byte counted once, in order or \
         not, divided by the window's length; in the lab, the payload that their programs read",
    ),
    metric(
        "tcp_goodput_mbps",
        "both",
        "total goodput of all flow groups of kind tcp; web does not count as TCP here",
    ),
    metric(
        "udp_goodput_mbps",
        "both",
        "total goodput of all flow groups of kind udp",
    ),
    metric(
        "web_goodput_mbps",
        "both",
        "total goodput of all flow groups of kind web",
    ),
    metric(
        "tcp_share_ratio",
        "both",
        "tcp_goodput_mbps / (tcp_goodput_mbps + udp_goodput_mbps); excludes web; absent without tcp",
    ),
    metric(
        "tcp_flow_goodput_mbps_STATISTIC",
        "both",
        "over TCP flows: payload of a flow in the window, divided by the flow's lifetime within the window",
    ),
    metric(
        "jain_index",
        "both",
        "Jain's fairness index of the goodput of TCP flows: 1 if all n flows are equal, 1/n if one flow has everything",
    ),
    metric(
        "jain_index_senders",
        "sim",
        "Jain's fairness index of the goodput of sending hosts, each summed over its flows; counts only hosts whose \
         demand exceeds the max-min fair level. The demand of an endless transfer is unlimited, of a rate its offered \
         load, of web and sized transfers the goodput that they got",
    ),
    metric(
        "jain_index_receivers",
        "sim",
        "the same for receiving hosts; separate from the senders' index, because the two conflict where one host has \
         many peers",
    ),
    metric(
        "tcp_offered_mbps",
        "both",
        "payload that the TCP applications offered in the window; absent if one of them sends without limit",
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
        "1 - udp_delivered_ratio, at least 0; packets still in flight at the end count as lost",
    ),
    metric(
        "udp_sender_late_s_STATISTIC",
        "both",
        "delay between the scheduled and the actual sending of datagrams, worst sender; 0 in the simulator; a high \
         value means that the lab machine was overloaded",
    ),
    // Transfers.
    metric(
        "transfers",
        "both",
        "sized TCP transfers that ended in the window",
    ),
    metric("transfers_per_s", "both", "the same per second"),
    metric(
        "transfers_unfinished",
        "both",
        "transfers still unfinished at the end of the run",
    ),
    metric(
        "transfer_s_STATISTIC",
        "both",
        "from the start of a transfer to its last byte; covers transfers that ended in the window, and unfinished \
         transfers with their age at the end, because a mean over finished transfers only would be biased",
    ),
    metric(
        "transfer_finished_s_mean",
        "both",
        "the same mean over the finished ones only",
    ),
    metric(
        "completion_s_STATISTIC.SIZE",
        "both",
        "transfer_s by transfer size: all, to_10kB, to_100kB (above 10 kB), to_1MB, above_1MB",
    ),
    // Web.
    metric(
        "web_fetches",
        "both",
        "fetches of web clients that finished in the window",
    ),
    metric("web_fetches_per_s", "both", "the same per second"),
    metric(
        "web_unfinished",
        "both",
        "fetches still unfinished at the end of the run",
    ),
    metric(
        "web_failures",
        "both",
        "fetches that ended in the window with a reset, a timeout or an error",
    ),
    metric(
        "web_response_s_STATISTIC",
        "both",
        "from the start of a fetch to its last byte; covers fetches that finished in the window, and unfinished \
         fetches with their age; excludes failed fetches",
    ),
    metric(
        "web_response_finished_s_mean",
        "both",
        "the same mean over the finished ones only",
    ),
    metric(
        "web_connect_s_STATISTIC",
        "both",
        "from the start of a fetch to the established connection; a connection not established at the end counts with \
         its age",
    ),
    // Packets of a traffic, in the simulator.
    metric(
        "loss_ratio",
        "sim",
        "lost_packets divided by the packets with payload that all hosts sent in the window",
    ),
    metric(
        "loss_ratio.TRAFFIC",
        "sim",
        "the same for one flow group; excludes acknowledgements and handshakes",
    ),
    metric(
        "lost_packets",
        "both",
        "packets with payload dropped in the window at any port; in the lab, datagrams sent minus datagrams received, \
         if all traffic is UDP and stops before the end",
    ),
    metric(
        "lost_packets.TRAFFIC.PORT.REASON",
        "sim",
        "the same by flow group, link direction (LINK, LINK.reverse) and drop reason (docs/drop-reasons.md)",
    ),
    metric(
        "delay_ms_mean",
        "sim",
        "mean over all packets of all flow groups; see delay_ms_STATISTIC.TRAFFIC",
    ),
    metric(
        "delay_ms_STATISTIC.TRAFFIC",
        "both",
        "one-way delay from the sending host to the receiving host, of packets with payload received in the window; \
         excludes lost packets; in the lab, UDP only, measured when the program reads the packet: up to 1 ms longer",
    ),
    metric(
        "delay_ms_p99_with_losses.TRAFFIC",
        "sim",
        "99th percentile of the same delay, where the delay of a lost packet is the length of the run: equals that \
         length if more than 1 % of the packets are lost",
    ),
    metric(
        "jitter_ms",
        "sim",
        "mean over all flow groups; see jitter_ms.TRAFFIC",
    ),
    metric(
        "jitter_ms.TRAFFIC",
        "sim",
        "interarrival jitter of RFC 3550 (section 6.4.1), mean over packets",
    ),
    metric(
        "packets_received_per_s.TRAFFIC",
        "sim",
        "packets with payload that the hosts received in the window, per second",
    ),
    metric(
        "payload_received_mbps.TRAFFIC",
        "sim",
        "payload of these packets, including retransmissions; at least the goodput",
    ),
    // Links.
    metric(
        "throughput_mbps.LINK",
        "sim",
        "bytes that the port sent in the window, including the link's framing overhead; with a modem, bytes that the \
         modem sent",
    ),
    metric(
        "utilisation_ratio.LINK",
        "sim",
        "throughput divided by the link's rate, or by its mean rate in the window",
    ),
    metric(
        "packets_sent.LINK",
        "both",
        "packets that the port sent in the window, with or without payload",
    ),
    metric(
        "dropped_packets.LINK",
        "sim",
        "packets dropped at the port in the window for any reason, with or without payload",
    ),
    metric(
        "dropped_payload_packets.LINK",
        "sim",
        "dropped packets with payload",
    ),
    metric(
        "queue_packets_mean.LINK",
        "both",
        "queue length, mean over the samples in the window (`sample` in the scenario)",
    ),
    metric(
        "queue_delay_ms_STATISTIC.LINK",
        "sim",
        "from a packet's arrival at the queue to the start of its transmission, of all packets that left in the \
         window; excludes dropped packets",
    ),
    metric(
        "state_bytes.LINK",
        "sim",
        "memory use of the discipline at the end",
    ),
    metric(
        "gauge.LINK.GAUGE",
        "sim",
        "a gauge of the discipline at the end of the run (`weir describe`)",
    ),
    metric(
        "gauge_STATISTIC.LINK.GAUGE",
        "sim",
        "the same gauge over the samples in the window",
    ),
    metric(
        "class_packets.LINK.TRAFFIC.CLASS",
        "sim",
        "packets of the flow group that left through queue 0 or 1 of the discipline in the window",
    ),
    metric(
        "known_flows.LINK.TRAFFIC",
        "sim",
        "flows of the flow group that the discipline tracks (cached or accepted), mean over the samples",
    ),
    metric(
        "hog_flows.LINK.TRAFFIC",
        "sim",
        "tracked flows that are treated as hogs, mean over the samples",
    ),
    metric(
        "waiting_flows.LINK.TRAFFIC",
        "sim",
        "flows of the flow group that wait to be accepted",
    ),
    metric(
        "sending_flows.LINK.TRAFFIC",
        "sim",
        "flows of the flow group that sent in each 10 s interval of the window, mean",
    ),
    // Identification of hogs, compared with the truth (`hog = true`).
    metric(
        "hog_precision_ratio.LINK",
        "sim",
        "precision: correct identifications divided by all flows identified as hogs, over all samples",
    ),
    metric(
        "hog_recall_ratio.LINK",
        "sim",
        "recall: identified hogs divided by all hogs, over all samples",
    ),
    metric(
        "hog_false_positives.LINK",
        "sim",
        "false positives: flows wrongly identified as hogs, mean",
    ),
    metric(
        "hog_detection_s_STATISTIC.LINK",
        "sim",
        "from a hog's first packet to its first identification, over identified hogs",
    ),
    metric(
        "hogs_undetected.LINK",
        "sim",
        "hogs that were never identified",
    ),
    // Admission.
    metric(
        "acceptance_delay_s.TRAFFIC",
        "sim",
        "from a flow's first packet to its first packet accepted at every watched link, mean; a flow that was never \
         accepted counts with its age at the end",
    ),
    metric(
        "acceptance_delay_s_max.TRAFFIC",
        "sim",
        "maximum of the same",
    ),
    metric(
        "acceptance_delay_s_accepted.TRAFFIC",
        "sim",
        "mean over accepted flows only",
    ),
    metric(
        "never_accepted_flows.TRAFFIC",
        "sim",
        "flows that were never accepted",
    ),
    metric(
        "goodput_since_accepted_mbps.TRAFFIC",
        "sim",
        "payload of a flow in the window, divided by the time since it was accepted, mean",
    ),
    metric(
        "goodput_since_kept_mbps.TRAFFIC",
        "sim",
        "payload that a flow delivered since its final acceptance, divided by the time since then, mean over flows \
         that were not refused again within 2 s",
    ),
    metric(
        "run_after_flows.LINK.TRAFFIC",
        "sim",
        "flows on the list one second after each activation of a congestion mechanism in the window, mean over \
         activations; without activations, the mean over time",
    ),
    metric(
        "outage_s_STATISTIC.TRAFFIC",
        "sim",
        "longest time that a removed, formerly accepted flow was blocked",
    ),
    metric(
        "run_growth_flows.LINK.TRAFFIC",
        "sim",
        "change in the number of tracked flows from before an activation of a congestion mechanism to one second \
         after it, mean over activations",
    ),
    metric(
        "run_let_in_ratio.LINK.TRAFFIC",
        "sim",
        "flows that waited before such an activation and were accepted by it, divided by all flows that waited",
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
        "goodput of the same traffic during the attack, divided by that before it",
    ),
    metric(
        "kept_ratio.TRAFFIC",
        "both",
        "the same for one honest flow group",
    ),
    metric(
        "honest_regained_ratio",
        "both",
        "goodput of the same traffic after the attack, divided by that before it",
    ),
    metric(
        "recovery_s",
        "both",
        "from the end of the attack to the first half second in which honest traffic reaches 90 % of its former \
         goodput; the rest of the run if it never does",
    ),
];

/// The metrics after the metrics of network layers.
const OTHERS: &[Metric] = &[
    metric(
        "copies_ratio.TRAFFIC.HOST",
        "both",
        "for a flow group with `copies_to`: datagrams that the host received in the window divided by datagrams sent; \
         1 means exactly one copy of each",
    ),
    // Controllers, and the lab itself.
    metric(
        "controller.CONTROLLER.GAUGE",
        "both",
        "a gauge of the controller: its value at the end; with .mean its mean over the window",
    ),
    metric("router_cpu_s", "lab", "CPU time of all routers"),
    metric(
        "others_cpu_ratio",
        "lab",
        "number of CPUs that other programs on this machine kept busy, mean; above about 0.1 the results are \
         unreliable",
    ),
];

/// The definition of the metric called `name`.
pub fn definition(name: &str) -> Option<&'static Metric> {
    metrics().find(|metric| is(metric.name, name))
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
            let found = metrics().filter(|metric| is(metric.name, name)).count();
            assert_eq!(found, 1, "{name} must be described once");
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
