//! Watched links: their queues, and what the discipline knows of the flows.
//!
//! Metrics of a link cover all packets, including acknowledgments.

use weir_base::Instant;
use weir_sim::gauges::Gauge;
use weir_sim::identification::Quality;
use weir_sim::meter::{Loss, TrackedCounts, Watch};
use weir_sim::{PortId, PortView};

use super::build::World;
use crate::lines::mean_mbps;
use crate::measure::{delays, queues, statistics};
use crate::metrics::Measured;
use crate::scenario::Scenario;

/// A watched port in the window.
struct Link<'a> {
    world: &'a World,
    port: PortId,
    watch: &'a Watch,
    window: (Instant, Instant),
}

crate::metrics! {
    LINK on sim;
    /// Adds the metrics of a link.
    fn add_link(link: &Link<'_>) {
        /// bytes that the port sent in the window, including the link's framing overhead; with a modem, bytes that the
        /// modem sent
        "throughput_mbps.LINK" = link.throughput();
        /// throughput divided by the link's rate, or by its mean rate in the window
        "utilisation_ratio.LINK" =
            link.rate().filter(|rate| *rate > 0.0).map(|rate| link.throughput() / rate);
        /// packets dropped at the port in the window for any reason, with or without payload
        "dropped_packets.LINK" = link.dropped(|loss| loss.packets);
        /// dropped packets with payload
        "dropped_payload_packets.LINK" = link.dropped(|loss| loss.payload.packets);
        /// from a packet's arrival at the queue to the start of its transmission, of all packets that left in the
        /// window; excludes dropped packets
        "queue_delay_ms_STATISTIC.LINK" = delays(
            link.watch.sojourn.mean().map(|s| 1e3 * s),
            |share| link.watch.sojourn.percentile(share).map(|s| 1e3 * s),
        );
        /// memory use of the discipline at the end
        "state_bytes.LINK" = link.view().state_bytes();
    }
}

crate::metrics! {
    GAUGE on sim;
    /// Adds a gauge of the discipline.
    fn add_gauge(gauge: &Gauge) {
        /// a gauge of the discipline over the samples in the window
        "gauge_STATISTIC.LINK.GAUGE" =
            vec![("mean", Some(gauge.mean())), ("dev", Some(gauge.deviation()))];
    }
}

crate::metrics! {
    CLASS on sim;
    /// Adds the packets that left through one queue of the discipline.
    fn add_class(packets: u64) {
        /// packets of the flow group that left through queue 0 or 1 of the discipline in the window
        "class_packets.LINK.TRAFFIC.CLASS" = packets;
    }
}

crate::metrics! {
    TRACKED on sim;
    /// Adds the flows that the discipline tracks.
    fn add_tracked(sums: TrackedCounts, samples: u64) {
        /// flows of the flow group that the discipline tracks (cached or accepted), mean over the samples
        "known_flows.LINK.TRAFFIC" = sums.tracked as f64 / samples as f64;
        /// tracked flows that are treated as hogs, mean over the samples
        "hog_flows.LINK.TRAFFIC" = sums.hogs as f64 / samples as f64;
        /// flows of the flow group that wait to be accepted
        "waiting_flows.LINK.TRAFFIC" = sums.waiting as f64 / samples as f64;
    }
}

crate::metrics! {
    HOGS on sim;
    /// Adds the identification of hogs, compared with the truth (`hog = true`).
    fn add_hogs(quality: Quality) {
        /// precision: correct identifications divided by all flows identified as hogs, over all samples
        "hog_precision_ratio.LINK" = quality.precision;
        /// recall: identified hogs divided by all hogs, over all samples
        "hog_recall_ratio.LINK" = quality.recall;
        /// false positives: flows wrongly identified as hogs, mean
        "hog_false_positives.LINK" = quality.false_positives;
        /// from a hog's first packet to its first identification, over identified hogs
        "hog_detection_s_STATISTIC.LINK" = statistics(&["mean", "p50", "max"], quality.detection_s);
        /// hogs that were never identified
        "hogs_undetected.LINK" = quality.undetected;
    }
}

pub(super) fn add_metrics(scenario: &Scenario, world: &World, measured: &mut Measured) {
    let skipped = scenario.warm_up.steps(scenario.sample);
    let window = [scenario.warm_up, scenario.duration].map(|at| Instant::ZERO + at);
    for (name, port) in &world.watched {
        let Some(watch) = world.simulation.watched(*port) else {
            continue;
        };
        let samples = watch.queue_packets.iter().skip(skipped);
        let queue = queues::Queue {
            packets: &samples.map(|n| *n as f64).collect::<Vec<_>>(),
            sent: watch.sent.packets,
        };
        queues::add_metrics(queue, &[name], measured);
        let link = Link {
            world,
            port: *port,
            watch,
            window: (window[0], window[1]),
        };
        add_link(&link, &[name], measured);
        link.view().inspect(&mut |gauge, value| {
            queues::add_gauge(value, &[name, gauge], measured);
        });
        for gauge in &watch.gauges.all {
            add_gauge(gauge, &[name, gauge.name], measured);
        }
        for (number, traffic) in scenario.traffic.iter().enumerate() {
            add_inside([name, &traffic.name], number, watch, measured);
        }
        let quality = watch.identification.as_ref().and_then(|i| i.quality());
        if let Some(quality) = quality {
            add_hogs(quality, &[name], measured);
        }
    }
}

/// Adds the queues that a flow group's packets left from, and the number of its flows that the discipline tracks.
fn add_inside(names: [&str; 2], number: usize, watch: &Watch, measured: &mut Measured) {
    let [link, traffic] = names;
    if let Some(classes) = &watch.classes {
        for (class, packets) in ["0", "1"].into_iter().zip(classes[number]) {
            add_class(packets, &[link, traffic, class], measured);
        }
    }
    if let Some(tracked) = watch.tracked.as_ref().filter(|tracked| tracked.samples > 0) {
        add_tracked(tracked.flows[number], tracked.samples, &names, measured);
    }
}

impl Link<'_> {
    fn view(&self) -> PortView<'_> {
        self.world.simulation.fabric().port(self.port)
    }

    /// The bytes that the link carried in the window, with the overhead of its framing, in Mbit/s.
    fn throughput(&self) -> f64 {
        let (from, until) = self.window;
        let view = self.view();
        let carried = match view.line() {
            Some(_) => self.watch.carried_on_wire.saturating_sub(view.behind()),
            None => self.watch.sent_on_wire,
        };
        carried as f64 * 8.0 / until.since(from).as_secs_f64() / 1e6
    }

    /// The mean rate in the window, in Mbit/s.
    fn rate(&self) -> Option<f64> {
        let (from, until) = self.window;
        let view = self.view();
        match view.line() {
            Some(line) => line.rate.as_ref().map(|rate| mean_mbps(rate, from, until)),
            None => view.link().rate.map(|rate| rate.as_bps() as f64 / 1e6),
        }
    }

    fn dropped(&self, count: impl Fn(&Loss) -> u64) -> u64 {
        let losses = self.world.simulation.meters().losses.iter();
        let here = losses.filter(|((_, at, _), _)| *at == self.port);
        here.map(|(_, loss)| count(loss)).sum()
    }
}
