//! Readers of a peer's line and of our run, so that both give the same quantity.

use serde_json::Value;

type Reader = Box<dyn Fn(&Value) -> Option<f64>>;

/// Maximum difference between our value and the peer's.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bar {
    /// Relative to the peer's value.
    Relative(f64),
    Absolute(f64),
}

pub(super) struct Measure {
    pub(super) name: String,
    pub(super) peer: Reader,
    pub(super) weir: Reader,
    /// The peer measures it over the whole run, warm-up included.
    pub(super) whole: bool,
    pub(super) bar: Bar,
}

const THROUGHPUT: Bar = Bar::Relative(0.05);
const SHARE: Bar = Bar::Absolute(0.02);
const LOSS: Bar = Bar::Relative(0.15);
const DELAY: Bar = Bar::Relative(0.15);
const SIGNALS: Bar = Bar::Relative(0.15);
/// For shares of the 10 Mbit/s that the flows share.
const SHARE_OF_TEN: Bar = Bar::Absolute(0.2);

pub(super) fn forces_ns3() -> Vec<Measure> {
    let mut measures: Vec<Measure> = (0..6)
        .map(|second| {
            let name = format!("TCP in second {}, Mbit/s", second + 1);
            let peer = move |line: &Value| line["tcp_mbps"][second].as_f64();
            let weir = move |run: &Value| run["series"]["tcp_mbps"]["values"][second].as_f64();
            measure(&name, SHARE_OF_TEN, peer, weir)
        })
        .collect();
    for (name, theirs, ours) in [
        ("TCP, Mbit/s", "tcp_mbps", "control"),
        ("UDP, Mbit/s", "udp_mbps", "redirect"),
        ("attack, Mbit/s", "attack_mbps", "attack"),
    ] {
        let peer = move |line: &Value| mean(&line[theirs]);
        let weir = move |run: &Value| metric(run, &format!("goodput_mbps.{ours}"));
        measures.push(measure(name, THROUGHPUT, peer, weir));
    }
    measures.push(loss_at("egress"));
    measures
}

/// ns-2 counts the 40 bytes of TCP's headers and the 28 of UDP's; our counts leave them out.
pub(super) fn forces_ns2() -> Vec<Measure> {
    const TCP: f64 = 1000.0 / 1040.0;
    const UDP: f64 = 1000.0 / 972.0;
    let mut measures: Vec<Measure> = (0..6)
        .map(|second| {
            let name = format!("TCP in second {}, Mbit/s", second + 1);
            let peer = move |line: &Value| Some(line["tcp"][second].as_f64()? * TCP);
            let weir = move |run: &Value| run["series"]["tcp_mbps"]["values"][second].as_f64();
            measure(&name, SHARE_OF_TEN, peer, weir)
        })
        .collect();
    for (name, theirs, ours, factors) in [
        ("TCP, Mbit/s", "tcp", "control", (TCP, 1.0)),
        ("UDP, Mbit/s", "udp", "redirect", (1.0, UDP)),
        ("attack, Mbit/s", "attack", "attack", (1.0, UDP)),
    ] {
        let peer = move |line: &Value| Some(mean(&line[theirs])? * factors.0);
        let name_of_ours = format!("goodput_mbps.{ours}");
        let weir = move |run: &Value| Some(metric(run, &name_of_ours)? * factors.1);
        measures.push(measure(name, THROUGHPUT, peer, weir));
    }
    measures
}

pub(super) fn sdbm() -> Vec<Measure> {
    let share = |line: &Value| {
        let tcp = line["tcp_mbps"].as_f64()?;
        Some(tcp / (tcp + line["udp_mbps"].as_f64()?))
    };
    vec![
        measure("goodput, Mbit/s", THROUGHPUT, key("goodput_mbps"), goodput),
        measure("TCP's share of packets", SHARE, share, |run| {
            let tcp = sum(run, |name| name.starts_with("packets_received_per_s.tcp"));
            Some(tcp / sum(run, |name| name.starts_with("packets_received_per_s.")))
        }),
        measure("loss", LOSS, key("loss_rate"), of("loss_ratio")),
        measure("delay, ms", DELAY, key("delay_ms"), of("delay_ms_mean")),
        measure("jitter, ms", DELAY, key("jitter_ms"), of("jitter_ms")),
        measure(
            "queue, packets",
            DELAY,
            key("queue_mean"),
            of("queue_packets_mean.wan"),
        ),
    ]
}

pub(super) fn lrufq() -> Vec<Measure> {
    let total = |line: &Value| Some(line["tcp_mbps"].as_f64()? + line["udp_mbps"].as_f64()?);
    vec![
        measure(
            "TCP's share",
            SHARE,
            key("tcp_share"),
            of("tcp_share_ratio"),
        ),
        measure("goodput, Mbit/s", THROUGHPUT, total, goodput),
        measure(
            "TCP's fairness (Jain)",
            SHARE,
            key("tcp_fairness"),
            of("jain_index"),
        ),
        loss_at("egress"),
    ]
}

pub(super) fn fan_ns3() -> Vec<Measure> {
    let delivered = key("stream_delivered");
    vec![
        measure(
            "TCP goodput, Mbit/s",
            THROUGHPUT,
            key("goodput_total_mbps"),
            of("tcp_goodput_mbps"),
        ),
        measure(
            "queue, packets",
            DELAY,
            key("queue_mean"),
            of("queue_packets_mean.bottleneck"),
        ),
        whole(measure(
            "streams delivered",
            SHARE,
            delivered,
            of("udp_delivered_ratio"),
        )),
        loss_at("bottleneck"),
    ]
}

pub(super) fn fan_ns2() -> Vec<Measure> {
    let goodput = whole(measure(
        "TCP goodput, Mbit/s",
        THROUGHPUT,
        key("goodput_total_mbps"),
        of("tcp_goodput_mbps"),
    ));
    [goodput].into_iter().chain(bneck()).collect()
}

pub(super) fn bneck() -> Vec<Measure> {
    vec![
        whole(measure(
            "packets sent",
            THROUGHPUT,
            key("bneck_pkts"),
            of("packets_sent.bottleneck"),
        )),
        loss_at("bottleneck"),
    ]
}

pub(super) fn linux() -> Vec<Measure> {
    let goodput = |(name, theirs, ours): (&str, &'static str, &'static str)| {
        measure(name, THROUGHPUT, key(theirs), of(ours))
    };
    [
        ("host a, Mbit/s", "one", "goodput_mbps.one"),
        ("host b, Mbit/s", "two", "goodput_mbps.two"),
        ("host c, Mbit/s", "three", "goodput_mbps.three"),
    ]
    .map(goodput)
    .into()
}

/// TCP: the same measures, and the packets that the queue dropped and marked, from the start of the run.
pub(super) fn linux_tcp() -> Vec<Measure> {
    let signals = |(name, theirs, ours): (&str, &'static str, &'static str)| {
        whole(measure(name, SIGNALS, key(theirs), of(ours)))
    };
    let mut measures = linux();
    measures.extend(
        [
            ("dropped packets", "dropped", "gauge.bottleneck.dropped"),
            ("marked packets", "marked", "gauge.bottleneck.marked"),
        ]
        .map(signals),
    );
    measures
}

/// Share of arriving packets that the bottleneck's queue lost, from the start of the run.
fn loss_at(link: &'static str) -> Measure {
    let peer = |line: &Value| {
        let (drops, left) = (line["drops"].as_f64()?, line["bneck_pkts"].as_f64()?);
        // ns-3's queues of queues count their drops among the packets that left them.
        let counted = matches!(line["queue"].as_str(), Some("fqcodel" | "drr" | "drrsrc"));
        Some(drops / if counted { left } else { drops + left })
    };
    let weir = move |run: &Value| {
        let lost = metric(run, &format!("dropped_packets.{link}"))?;
        Some(lost / (lost + metric(run, &format!("packets_sent.{link}"))?))
    };
    whole(measure("loss at the bottleneck", LOSS, peer, weir))
}

fn measure(
    name: &str,
    bar: Bar,
    peer: impl Fn(&Value) -> Option<f64> + 'static,
    weir: impl Fn(&Value) -> Option<f64> + 'static,
) -> Measure {
    Measure {
        name: name.to_owned(),
        peer: Box::new(peer),
        weir: Box::new(weir),
        whole: false,
        bar,
    }
}

fn whole(measure: Measure) -> Measure {
    Measure {
        whole: true,
        ..measure
    }
}

/// A number in a peer's line.
fn key(name: &'static str) -> impl Fn(&Value) -> Option<f64> {
    move |line| line[name].as_f64()
}

/// A metric of our run.
fn of(name: &'static str) -> impl Fn(&Value) -> Option<f64> {
    move |run| metric(run, name)
}

fn metric(run: &Value, name: &str) -> Option<f64> {
    run["metrics"][name].as_f64()
}

fn goodput(run: &Value) -> Option<f64> {
    Some(metric(run, "tcp_goodput_mbps")? + metric(run, "udp_goodput_mbps")?)
}

/// The sum of the metrics whose names are `wanted`.
fn sum(run: &Value, wanted: impl Fn(&str) -> bool) -> f64 {
    let Some(metrics) = run["metrics"].as_object() else {
        return 0.0;
    };
    let wanted = metrics.iter().filter(|(name, _)| wanted(name));
    wanted.filter_map(|(_, value)| value.as_f64()).sum()
}

fn mean(list: &Value) -> Option<f64> {
    let list = list.as_array()?;
    let sum: f64 = list.iter().filter_map(Value::as_f64).sum();
    Some(sum / list.len() as f64)
}
