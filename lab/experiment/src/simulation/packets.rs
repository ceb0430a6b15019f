//! Delay, jitter and loss of packets.
//!
//! Metrics of a flow group cover its packets with payload. A direction has the same name in every metric and in
//! `--capture`: the name of its link for the direction from the first end to the second, and that name with the suffix
//! `.reverse` for the other.

use weir_base::Span;
use weir_sim::meter::{Delays, Meter};

use super::build::World;
use crate::measure::losses;
use crate::metrics::Measured;
use crate::reported::mbps;
use crate::scenario::Scenario;

/// The packets of a flow group.
struct Packets<'a> {
    meter: &'a Meter,
    lost: u64,
    run: Span,
    /// Length of the window.
    seconds: f64,
}

crate::metrics! {
    RUN on sim;
    /// Adds the metrics of all flow groups together.
    fn add_all(all: &[Packets<'_>]) {
        /// lost packets with payload divided by the packets with payload that all hosts sent in the window
        "loss_ratio" = ratio(sum(all, |of| of.lost) as f64, sum(all, |of| of.meter.sent.packets));
        /// mean over all packets of all flow groups; see delay_ms_STATISTIC.TRAFFIC
        "delay_ms_mean" = ratio(1e3 * delay_sum(all), sum(all, |of| of.meter.delay.count()));
        /// mean over all flow groups; see jitter_ms.TRAFFIC
        "jitter_ms" = ratio(1e3 * jitter_sum(all), sum(all, |of| of.meter.jitter.1));
    }
}

crate::metrics! {
    TRAFFIC on sim;
    /// Adds the metrics of a flow group.
    fn add_traffic(of: &Packets<'_>) {
        /// loss_ratio of one flow group; excludes acknowledgements and handshakes
        "loss_ratio.TRAFFIC" = ratio(of.lost as f64, of.meter.sent.packets);
        /// 99th percentile of delay_ms, where the delay of a lost packet is the length of the run: equals that length
        /// if more than 1 % of the packets are lost
        "delay_ms_p99_with_losses.TRAFFIC" =
            p99_with_losses(&of.meter.delay, of.lost, of.run).map(|late| 1e3 * late);
        /// interarrival jitter of RFC 3550 (section 6.4.1), mean over packets
        "jitter_ms.TRAFFIC" = ratio(1e3 * of.meter.jitter.0, of.meter.jitter.1);
        /// packets with payload that the hosts received in the window, per second
        "packets_received_per_s.TRAFFIC" = of.meter.received.packets as f64 / of.seconds;
        /// payload of these packets, including retransmissions; at least the goodput
        "payload_received_mbps.TRAFFIC" = mbps(of.meter.received.bytes, of.seconds);
    }
}

crate::metrics! {
    LOSSES on sim;
    /// Adds the losses of a flow group at a port for one reason.
    fn add_loss(packets: u64) {
        /// lost_packets of one flow group, by link direction (LINK, LINK.reverse) and drop reason (docs/drop-reasons.md)
        "lost_packets.TRAFFIC.PORT.REASON" = packets;
    }
}

pub(super) fn add_metrics(scenario: &Scenario, world: &World, measured: &mut Measured) {
    let meters = world.simulation.meters();
    let by_port = || meters.losses.iter();
    let packets = meters.traffics.iter().zip(0..).map(|(meter, number)| {
        let lost = by_port().filter(|((t, ..), _)| *t == number);
        Packets {
            meter,
            lost: lost.map(|(_, loss)| loss.payload.packets).sum(),
            run: scenario.duration,
            seconds: (scenario.duration - scenario.warm_up).as_secs_f64(),
        }
    });
    let all: Vec<Packets<'_>> = packets.collect();
    for (traffic, packets) in scenario.traffic.iter().zip(&all) {
        add_traffic(packets, &[&traffic.name], measured);
    }
    add_all(&all, &[], measured);
    losses::add_metrics(sum(&all, |of| of.lost) as f64, &[], measured);
    for ((traffic, port, reason), loss) in by_port() {
        if loss.payload.packets > 0 {
            let traffic = &scenario.traffic[*traffic as usize].name;
            let port = &world.ports[port.0 as usize];
            add_loss(loss.payload.packets, &[traffic, port, reason], measured);
        }
    }
}

fn sum(all: &[Packets<'_>], count: impl Fn(&Packets<'_>) -> u64) -> u64 {
    all.iter().map(count).sum()
}

fn delay_sum(all: &[Packets<'_>]) -> f64 {
    let delays = all.iter().map(|of| &of.meter.delay);
    let sums = delays.map(|delay| delay.mean().unwrap_or(0.0) * delay.count() as f64);
    sums.sum()
}

fn jitter_sum(all: &[Packets<'_>]) -> f64 {
    all.iter().map(|of| of.meter.jitter.0).sum()
}

/// A sum per packet; `None` without packets.
fn ratio(sum: f64, packets: u64) -> Option<f64> {
    (packets > 0).then(|| sum / packets as f64)
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
