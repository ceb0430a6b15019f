//! The panels for every router and control element: title, how to read it, unit, queries with the names of their curves.
//!
//! `{{i}}` selects the router or control element that the user has chosen, `{{p}}` its ports as well.

use super::{Panel, curves, number};

pub(super) fn health() -> Vec<Panel> {
    vec![
        number(
            "Uptime",
            "Time since the start. It is reset by a crash or a restart; the router's log shows the reason.",
            ("s", None),
            (
                "weir_uptime_seconds{{i}} * on (instance) group_left (version, mode) weir_info",
                "{{version}}, {{mode}}",
            ),
        ),
        number(
            "Ports that are down",
            "Ports without a working interface or without a link.",
            ("none", Some(1.0)),
            (
                "count((weir_port_up{{p}} * weir_port_carrier) == 0) or vector(0)",
                "",
            ),
        ),
        number(
            "Restarts in an hour",
            "Number of restarts: crashes, the watchdog, and restarts by an operator.",
            ("none", Some(1.0)),
            ("sum(resets(weir_uptime_seconds{{i}}[1h]))", ""),
        ),
        number(
            "Kernel forwards instead",
            "1 while the kernel forwards, because of rules, policies or routes that weir does not follow; `weir show status` shows the reason.",
            ("none", Some(1.0)),
            ("weir_handed_back{{i}}", ""),
        ),
        number(
            "Netfilter chains bypassed",
            "Rules of the machine that forwarded packets bypass; `weir show netfilter` lists them.",
            ("none", Some(1.0)),
            ("weir_bypassed_chains{{i}}", ""),
        ),
        number(
            "Pool in use",
            "Packets in all queues, as a share of the packets that the router can hold.",
            ("percentunit", Some(0.8)),
            (
                "sum by (instance) (weir_queue_backlog_packets{{i}}) / on (instance) weir_pool_packets",
                "{{instance}}",
            ),
        ),
    ]
}

pub(super) fn links() -> Vec<Panel> {
    vec![
        curves(
            "Sent",
            "Layer-2 bits sent through each port.",
            "bps",
            &[(
                "8 * rate(weir_port_sent_bytes_total{{p}}[$__rate_interval])",
                "{{port}}",
            )],
        ),
        curves(
            "Received",
            "Layer-2 bits received at each port.",
            "bps",
            &[(
                "8 * rate(weir_port_received_bytes_total{{p}}[$__rate_interval])",
                "{{port}}",
            )],
        ),
        curves(
            "Utilisation",
            "Bytes sent through a paced port, including the kernel's own, as a share of its rate. The overhead of a \
             frame is not included, so a full link with small frames shows less than 100 %.",
            "percentunit",
            &[(
                "(rate(weir_port_sent_bytes_total{{p}}[$__rate_interval]) + \
                 rate(weir_port_charged_bytes_total{{p}}[$__rate_interval])) / weir_port_rate_bytes_per_second",
                "{{port}}",
            )],
        ),
        curves(
            "Packets sent",
            "",
            "pps",
            &[(
                "rate(weir_port_sent_packets_total{{p}}[$__rate_interval])",
                "{{port}}",
            )],
        ),
        curves(
            "The machine's own packets",
            "Packets of the kernel itself through a paced port, and packets beyond `local_share`, which are dropped.",
            "pps",
            &[
                (
                    "rate(weir_port_charged_packets_total{{p}}[$__rate_interval])",
                    "{{port}} sent",
                ),
                (
                    "rate(weir_port_local_dropped_packets_total{{p}}[$__rate_interval])",
                    "{{port}} dropped",
                ),
            ],
        ),
        curves(
            "Lost at the interface",
            "Frames lost because the receive ring was full (the processor is too slow), and frames that the device refused.",
            "pps",
            &[
                (
                    "rate(weir_port_missed_packets_total{{p}}[$__rate_interval])",
                    "{{port}} ring full",
                ),
                (
                    "rate(weir_port_refused_packets_total{{p}}[$__rate_interval])",
                    "{{port}} refused",
                ),
            ],
        ),
    ]
}

pub(super) fn queues() -> Vec<Panel> {
    vec![
        curves(
            "Backlog",
            "Bytes in the queue of each port.",
            "bytes",
            &[("weir_queue_backlog_bytes{{p}}", "{{port}}")],
        ),
        curves(
            "Delay of light traffic",
            "Queue delay of packets of flows within their share (median and p99). A discipline that cannot tell heavy \
             flows counts all packets here.",
            "s",
            &[
                (
                    "histogram_quantile(0.5, sum by (port, le) (rate(weir_queue_light_delay_seconds_bucket{{p}}[$__rate_interval])))",
                    "{{port}} p50",
                ),
                (
                    "histogram_quantile(0.99, sum by (port, le) (rate(weir_queue_light_delay_seconds_bucket{{p}}[$__rate_interval])))",
                    "{{port}} p99",
                ),
            ],
        ),
        curves(
            "Delay of backlogged flows",
            "Queue delay of packets of flows that exceed their share.",
            "s",
            &[
                (
                    "histogram_quantile(0.5, sum by (port, le) (rate(weir_queue_heavy_delay_seconds_bucket{{p}}[$__rate_interval])))",
                    "{{port}} p50",
                ),
                (
                    "histogram_quantile(0.99, sum by (port, le) (rate(weir_queue_heavy_delay_seconds_bucket{{p}}[$__rate_interval])))",
                    "{{port}} p99",
                ),
            ],
        ),
        curves(
            "Dropped by the queue",
            "Packets that the discipline dropped, as a share of the packets that it received.",
            "percentunit",
            &[(
                "rate(weir_queue_dropped_packets_total{{p}}[$__rate_interval]) / \
                 (rate(weir_queue_received_packets_total{{p}}[$__rate_interval]) > 0)",
                "{{port}}",
            )],
        ),
        curves(
            "Marked (ECN)",
            "Packets that were marked instead of dropped: their senders slow down without a loss.",
            "pps",
            &[(
                "rate(weir_queue_marked_packets_total{{p}}[$__rate_interval])",
                "{{port}}",
            )],
        ),
    ]
}

pub(super) fn drops() -> Vec<Panel> {
    const OF_REASON: &str = "`weir describe REASON` shows causes and remedy.";
    vec![
        curves(
            "Losses, by reason",
            &format!("Packets that were lost. {OF_REASON}"),
            "pps",
            &[(
                "(rate(weir_dropped_packets_total{{i}}[$__rate_interval]) and on (instance, reason) \
                 weir_dropped_loss == 1) > 0",
                "{{reason}}",
            )],
        ),
        curves(
            "Not forwarded and not lost, by reason",
            "Copies of packets that the kernel handles itself, and packets handed to others. They are normal.",
            "pps",
            &[(
                "(rate(weir_dropped_packets_total{{i}}[$__rate_interval]) and on (instance, reason) \
                 weir_dropped_loss == 0) > 0",
                "{{reason}}",
            )],
        ),
    ]
}

pub(super) fn fpf() -> Vec<Panel> {
    vec![
        curves(
            "FPF packets",
            "",
            "pps",
            &[
                (
                    "rate(weir_fpf_received_packets_total{{i}}[$__rate_interval])",
                    "received",
                ),
                (
                    "rate(weir_fpf_forwarded_packets_total{{i}}[$__rate_interval])",
                    "forwarded",
                ),
                (
                    "rate(weir_fpf_encapsulated_packets_total{{i}}[$__rate_interval])",
                    "encapsulated",
                ),
                (
                    "rate(weir_fpf_decapsulated_packets_total{{i}}[$__rate_interval])",
                    "decapsulated",
                ),
            ],
        ),
        curves(
            "Packets on each path",
            "By encapsulation and by class.",
            "pps",
            &[
                (
                    "rate(weir_fpf_encapsulation_packets_total{{i}}[$__rate_interval])",
                    "{{name}}",
                ),
                (
                    "rate(weir_fpf_class_packets_total{{i}}[$__rate_interval])",
                    "class {{name}}",
                ),
            ],
        ),
        curves(
            "Beyond the rate of a path",
            "",
            "pps",
            &[
                (
                    "rate(weir_fpf_encapsulation_policed_packets_total{{i}}[$__rate_interval])",
                    "{{name}} policed",
                ),
                (
                    "rate(weir_fpf_encapsulation_overflowed_packets_total{{i}}[$__rate_interval])",
                    "{{name}} overflowed",
                ),
            ],
        ),
        curves(
            "Flows of classes",
            "",
            "none",
            &[
                ("weir_fpf_class_flows{{i}}", "{{name}}"),
                ("weir_fpf_followed{{i}}", "followed"),
            ],
        ),
    ]
}

pub(super) fn forwarding_element() -> Vec<Panel> {
    vec![
        curves(
            "Exceptions",
            "Packets for the control element, packets dropped for lack of tokens, and packets that the control element did not take.",
            "pps",
            &[
                (
                    "rate(weir_redirect_redirected_packets_total{{i}}[$__rate_interval])",
                    "redirected",
                ),
                (
                    "rate(weir_redirect_stats_dropped_packets_total{{i}}[$__rate_interval])",
                    "no tokens",
                ),
                (
                    "rate(weir_redirect_overflowed_packets_total{{i}}[$__rate_interval])",
                    "not taken",
                ),
            ],
        ),
        curves(
            "Control messages",
            "",
            "Bps",
            &[(
                "rate(weir_redirect_control_bytes_total{{i}}[$__rate_interval])",
                "control",
            )],
        ),
    ]
}

pub(super) fn control_element() -> Vec<Panel> {
    vec![
        curves(
            "Forwarding elements",
            "By state; all of them should be in sync.",
            "none",
            &[("count by (state) (weir_fe_info{{i}})", "{{state}}")],
        ),
        curves(
            "Messages",
            "By forwarding element.",
            "mps",
            &[
                (
                    "rate(weir_association_messages_sent_total{{i}}[$__rate_interval])",
                    "to {{fe}}",
                ),
                (
                    "rate(weir_association_messages_received_total{{i}}[$__rate_interval])",
                    "from {{fe}}",
                ),
            ],
        ),
        curves(
            "Waiting for the transport",
            "Messages that wait for the link to a forwarding element.",
            "none",
            &[
                (
                    "weir_channel_control_waiting_messages{{i}}",
                    "{{fe}} control",
                ),
                (
                    "weir_channel_redirect_waiting_messages{{i}}",
                    "{{fe}} redirect",
                ),
            ],
        ),
        curves(
            "Redirected packets that were dropped",
            "",
            "pps",
            &[(
                "rate(weir_channel_redirect_dropped_messages_total{{i}}[$__rate_interval])",
                "{{fe}}",
            )],
        ),
        curves(
            "Exceptions, by fate",
            "What the control element did with the packets of its forwarding elements.",
            "pps",
            &[(
                "rate(weir_exception_packets_total{{i}}[$__rate_interval])",
                "{{fate}}",
            )],
        ),
        curves(
            "Faults of links",
            "Impostors, floods and losses; `weir show faults` explains them.",
            "none",
            &[("weir_link_fault_total{{i}}", "{{fault}}")],
        ),
    ]
}
