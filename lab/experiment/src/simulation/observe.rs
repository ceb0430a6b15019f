//! Reads reports, metrics, curves and rows of flows from a finished simulation.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use weir_base::statistics::{mean, percentile};
use weir_base::{Instant, Span};
use weir_sim::PortId;
use weir_sim::identification::Quality;
use weir_sim::meter::{Delays, Meter, Watch};

use super::build::World;
use super::passage;
use crate::control::Record;
use crate::lines::mean_mbps;
use crate::reported::{Fetch, Flow, Outcome, Reported, Sent, Series, Transfer, mbps};
use crate::results::{Curve, Distribution, FlowRow, Metrics};
use crate::scenario::{Kind, Scenario};

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

/// The reports of both ends of each traffic, in the form of the lab's tools.
pub(super) fn reported(scenario: &Scenario, world: &World) -> Vec<Reported> {
    let meters = world.simulation.meters();
    let all = scenario.traffic.iter().zip(&meters.traffics);
    let mut reported: Vec<Reported> = all
        .map(|(traffic, meter)| {
            let kind = traffic.kind.kind();
            let protocol = kind.word().to_owned();
            Reported {
                series: vec![Series {
                    protocol: protocol.clone(),
                    port: 0,
                    interval_s: meters.interval.as_secs_f64(),
                    bytes: meter.arrived.clone(),
                }],
                window_bytes: Some(meter.window_bytes),
                sent: vec![Sent {
                    protocol,
                    offered_bytes: meter.offered_bytes,
                    window_packets: meter.sent.packets,
                    ..Sent::default()
                }],
                ..Reported::default()
            }
        })
        .collect();
    let end = Instant::ZERO + scenario.duration;
    for (number, flow) in meters.flows.iter().enumerate() {
        let traffic = &scenario.traffic[flow.traffic as usize];
        if let Some(bytes) = flow.size {
            let time = flow.end.unwrap_or(end).since(flow.start);
            reported[flow.traffic as usize].transfers.push(Transfer {
                flow: number as u32,
                bytes,
                start_s: seconds(flow.start),
                time_s: time.as_secs_f64(),
                finished: flow.end.is_some(),
            });
        }
        if traffic.kind.kind() != Kind::Web {
            reported[flow.traffic as usize].flows.push(Flow {
                protocol: traffic.kind.kind().word().into(),
                port: 0,
                peer: number.to_string(),
                bytes: flow.bytes,
                window_bytes: flow.window_bytes,
                window_packets: 0,
                start_s: seconds(flow.start),
                end_s: flow.end.map(seconds),
            });
        }
    }
    for fetch in world.simulation.fetches() {
        let passed = |at: Instant| at.since(fetch.start).as_secs_f64();
        reported[fetch.traffic as usize].fetches.push(Fetch {
            client: fetch.client,
            bytes: fetch.bytes,
            start_s: seconds(fetch.start),
            connect_s: fetch.connected.map(passed),
            response_s: passed(fetch.end.unwrap_or(end)),
            outcome: match fetch.end {
                Some(_) if fetch.failed => Outcome::TimedOut,
                Some(_) => Outcome::Finished,
                None => Outcome::Unfinished,
            },
        });
    }
    reported
}

/// Delay, jitter and loss of packets; places of loss; queues.
///
/// Metrics of a traffic (`loss_ratio`, `lost_packets`, `delay_ms`) cover its packets with payload; metrics of a link
/// (`packets_sent`, `dropped_packets`) cover all packets, including acknowledgments. A direction has the same name in
/// every metric and in `--capture`: the name of its link for the direction from the first end to the second, and that
/// name with the suffix `.reverse` for the other.
pub(super) fn add_metrics(scenario: &Scenario, world: &World, metrics: &mut Metrics) {
    let meters = world.simulation.meters();
    let seconds = (scenario.duration - scenario.warm_up).as_secs_f64();
    let (mut sent, mut lost, mut delivered) = (0, 0, 0);
    let (mut delay_sum, mut jitter) = (0.0, (0.0, 0));
    for (number, (traffic, meter)) in scenario.traffic.iter().zip(&meters.traffics).enumerate() {
        let name = &traffic.name;
        let of_traffic = meters
            .losses
            .iter()
            .filter(|((t, ..), _)| *t == number as u32);
        let meter_lost: u64 = of_traffic.map(|(_, loss)| loss.payload.packets).sum();
        add_packets(metrics, name, meter, meter_lost);
        let late = p99_with_losses(&meter.delay, meter_lost, scenario.duration);
        if let Some(late) = late {
            metrics.insert(format!("delay_ms_p99_with_losses.{name}"), 1e3 * late);
        }
        let throughput = mbps(meter.received.bytes, seconds);
        metrics.insert(format!("packets_received_per_s.{name}"), {
            meter.received.packets as f64 / seconds
        });
        metrics.insert(format!("payload_received_mbps.{name}"), throughput);
        sent += meter.sent.packets;
        lost += meter_lost;
        delivered += meter.delay.count();
        delay_sum += meter.delay.mean().unwrap_or(0.0) * meter.delay.count() as f64;
        jitter = (jitter.0 + meter.jitter.0, jitter.1 + meter.jitter.1);
    }
    if sent > 0 {
        metrics.insert("loss_ratio".into(), lost as f64 / sent as f64);
    }
    if delivered > 0 {
        metrics.insert("delay_ms_mean".into(), 1e3 * delay_sum / delivered as f64);
        metrics.insert("jitter_ms".into(), 1e3 * jitter.0 / jitter.1 as f64);
    }
    metrics.insert("lost_packets".into(), lost as f64);
    for ((traffic, port, reason), loss) in &meters.losses {
        if loss.payload.packets > 0 {
            let traffic = &scenario.traffic[*traffic as usize].name;
            let port = &world.ports[port.0 as usize];
            let name = format!("lost_packets.{traffic}.{port}.{reason}");
            metrics.insert(name, loss.payload.packets as f64);
        }
    }
    add_queues(scenario, world, metrics);
}

fn add_packets(metrics: &mut Metrics, name: &str, meter: &Meter, lost: u64) {
    if meter.sent.packets > 0 {
        let ratio = lost as f64 / meter.sent.packets as f64;
        metrics.insert(format!("loss_ratio.{name}"), ratio);
    }
    add_delays(metrics, "delay_ms", name, &meter.delay);
    let (sum, count) = meter.jitter;
    if count > 0 {
        metrics.insert(format!("jitter_ms.{name}"), 1e3 * sum / count as f64);
    }
}

/// The delay in seconds that 99 % of all packets do not exceed, if the delay of a lost packet is the length of the run.
/// It is finite, so that means over runs and files with results can contain it.
fn p99_with_losses(delays: &Delays, lost: u64, run: Span) -> Option<f64> {
    let received = delays.count() as f64;
    let rank = 0.99 * (received + lost as f64);
    if rank > received {
        Some(run.as_secs_f64())
    } else {
        delays.percentile(rank / received)
    }
}

fn add_delays(metrics: &mut Metrics, what: &str, name: &str, delays: &Delays) {
    let percentiles = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
    let percentiles = percentiles.map(|(word, p)| (word, delays.percentile(p)));
    for (word, value) in [("mean", delays.mean())].into_iter().chain(percentiles) {
        if let Some(value) = value {
            metrics.insert(format!("{what}_{word}.{name}"), 1e3 * value);
        }
    }
}

fn add_queues(scenario: &Scenario, world: &World, metrics: &mut Metrics) {
    let skipped = scenario
        .warm_up
        .as_nanos()
        .div_ceil(scenario.sample.as_nanos()) as usize;
    let window = [scenario.warm_up, scenario.duration].map(|at| Instant::ZERO + at);
    let window = (window[0], window[1]);
    for (name, port) in &world.watched {
        let Some(watch) = world.simulation.watched(*port) else {
            continue;
        };
        let samples = watch.queue_packets.iter().skip(skipped);
        let samples: Vec<f64> = samples.map(|n| *n as f64).collect();
        if let Some(mean) = mean(&samples) {
            metrics.insert(format!("queue_packets_mean.{name}"), mean);
        }
        add_delays(metrics, "queue_delay_ms", name, &watch.sojourn);
        add_link(world, (name, *port), watch, window, metrics);
        add_inside(scenario, name, watch, metrics);
        let quality = watch.identification.as_ref().and_then(|i| i.quality());
        if let Some(quality) = quality {
            add_quality(name, quality, metrics);
        }
        let port = world.simulation.fabric().port(*port);
        metrics.insert(format!("state_bytes.{name}"), port.state_bytes() as f64);
        port.inspect(&mut |gauge, value| {
            metrics.insert(format!("gauge.{name}.{gauge}"), value as f64);
        });
        for gauge in &watch.gauges.all {
            let of = |what: &str| format!("gauge_{what}.{name}.{}", gauge.name);
            metrics.insert(of("mean"), gauge.mean());
            metrics.insert(of("dev"), gauge.deviation());
        }
    }
    passage::add_metrics(scenario, world, metrics);
}

/// Adds the bytes that a link carried in the window, with the overhead of `framing`, and the losses in front of it.
fn add_link(
    world: &World,
    (name, port): (&str, PortId),
    watch: &Watch,
    (from, until): (Instant, Instant),
    metrics: &mut Metrics,
) {
    let seconds = until.since(from).as_secs_f64();
    let view = world.simulation.fabric().port(port);
    let (link, line) = (view.link(), view.line());
    let carried = match line {
        Some(_) => watch.carried_on_wire.saturating_sub(view.behind()),
        None => watch.sent_on_wire,
    };
    let throughput = carried as f64 * 8.0 / seconds / 1e6;
    metrics.insert(format!("throughput_mbps.{name}"), throughput);
    let rate = match line {
        Some(line) => line.rate.as_ref().map(|rate| mean_mbps(rate, from, until)),
        None => link.rate.map(|rate| rate.as_bps() as f64 / 1e6),
    };
    if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
        metrics.insert(format!("utilisation_ratio.{name}"), throughput / rate);
    }
    let packets = watch.sent.packets as f64;
    metrics.insert(format!("packets_sent.{name}"), packets);
    let losses = &world.simulation.meters().losses;
    let (mut dropped, mut with_payload) = (0, 0);
    for (_, loss) in losses.iter().filter(|((_, at, _), _)| *at == port) {
        dropped += loss.packets;
        with_payload += loss.payload.packets;
    }
    metrics.insert(format!("dropped_packets.{name}"), dropped as f64);
    metrics.insert(
        format!("dropped_payload_packets.{name}"),
        with_payload as f64,
    );
}

/// Quality of the discipline's identification of hogs.
fn add_quality(link: &str, mut quality: Quality, metrics: &mut Metrics) {
    let detection = &mut quality.detection_s;
    detection.sort_by(f64::total_cmp);
    let values = [
        ("hog_precision_ratio", quality.precision),
        ("hog_recall_ratio", quality.recall),
        ("hog_false_positives", Some(quality.false_positives)),
        ("hog_detection_s_mean", mean(detection)),
        ("hog_detection_s_p50", percentile(detection, 0.5)),
        ("hog_detection_s_max", detection.last().copied()),
        ("hogs_undetected", Some(quality.undetected as f64)),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            metrics.insert(format!("{name}.{link}"), value);
        }
    }
}

/// Adds the queue that each traffic's packets left from, and the average number of its flows that the discipline
/// tracks.
fn add_inside(scenario: &Scenario, link: &str, watch: &Watch, metrics: &mut Metrics) {
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let name = &traffic.name;
        if let Some(classes) = &watch.classes {
            for (class, packets) in classes[number].iter().enumerate() {
                let metric = format!("class_packets.{link}.{name}.{class}");
                metrics.insert(metric, *packets as f64);
            }
        }
        if let Some(tracked) = watch.tracked.as_ref().filter(|tracked| tracked.samples > 0) {
            let sums = tracked.flows[number];
            let sums = [
                ("known_flows", sums.tracked),
                ("hog_flows", sums.hogs),
                ("waiting_flows", sums.waiting),
            ];
            for (what, sum) in sums {
                let mean = sum as f64 / tracked.samples as f64;
                metrics.insert(format!("{what}.{link}.{name}"), mean);
            }
        }
    }
}

/// Queue lengths, and delays of datagrams, over time.
pub(super) fn add_curves(scenario: &Scenario, world: &World, curves: &mut BTreeMap<String, Curve>) {
    let meters = world.simulation.meters();
    let step_s = meters.interval.as_secs_f64();
    for (traffic, meter) in scenario.traffic.iter().zip(&meters.traffics) {
        if !meter.transits.is_empty() {
            let mean = |(sum, count): &(u64, u64)| *sum as f64 / 1e6 / *count as f64;
            let values = meter.transits.iter().map(mean).collect();
            curves.insert(
                format!("delay_ms.{}", traffic.name),
                Curve { step_s, values },
            );
        }
    }
    for (name, port) in &world.watched {
        if let Some(watch) = world.simulation.watched(*port) {
            let values = watch.queue_packets.iter().map(|n| *n as f64).collect();
            curves.insert(format!("queue_packets.{name}"), Curve { step_s, values });
        }
    }
}

/// Delays of each traffic, and at each watched link.
pub(super) fn add_distributions(
    scenario: &Scenario,
    world: &World,
    distributions: &mut BTreeMap<String, Distribution>,
) {
    let traffics = scenario
        .traffic
        .iter()
        .zip(&world.simulation.meters().traffics);
    let traffics = traffics.map(|(traffic, meter)| ("delay_ms", &traffic.name, &meter.delay));
    let watches = world.watched.iter().filter_map(|(name, port)| {
        let watch = world.simulation.watched(*port)?;
        Some(("queue_delay_ms", name, &watch.sojourn))
    });
    for (what, name, delays) in traffics.chain(watches) {
        let value = |share| delays.percentile(share).map(|s| 1e3 * s);
        if let Some(all) = Distribution::of(value) {
            distributions.insert(format!("{what}.{name}"), all);
        }
    }
}

/// The records of the controllers.
pub(super) fn records(world: &World) -> Vec<Record> {
    let record = |shared: &super::control::SharedRecord| {
        let record = shared.lock().unwrap_or_else(PoisonError::into_inner);
        record.clone()
    };
    world.records.iter().map(record).collect()
}

/// A row for each flow.
pub(super) fn flows(scenario: &Scenario, world: &World) -> Vec<FlowRow> {
    let meters = world.simulation.meters();
    let row = |flow: &weir_sim::meter::Flow| FlowRow {
        traffic: scenario.traffic[flow.traffic as usize].name.clone(),
        start_s: seconds(flow.start),
        connected_s: flow.connected.map(seconds),
        end_s: flow.end.map(seconds),
        size_bytes: flow.size,
        bytes: flow.bytes,
        window_bytes: flow.window_bytes,
    };
    meters.flows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_packet_is_late_by_hand() {
        let mut delays = Delays::default();
        for ms in 1..=99 {
            delays.record(Span::from_millis(ms));
        }
        let p99 = |lost| p99_with_losses(&delays, lost, Span::from_secs(22)).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 0.001 * b;
        // Of 99 packets, the 99th; of 100 with one lost, the 99th as well; of 101 more than 1 % are lost.
        assert!(near(p99(0), 0.099), "{}", p99(0));
        assert!(near(p99(1), 0.099), "{}", p99(1));
        assert_eq!(p99(2), 22.0);
        assert_eq!(
            p99_with_losses(&Delays::default(), 0, Span::from_secs(22)),
            None
        );
    }
}
