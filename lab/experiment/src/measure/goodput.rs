//! Goodput, offered load and delay, by the reports of receivers and senders.

use weir_base::statistics::jain;

use super::{delays, statistics};
use crate::reported::{Flow, Reported, Sent, mbps};
use crate::scenario::{Kind, Scenario, Traffic};

/// The reports of a run: one for each flow group of the scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reports<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) reported: &'a [Reported],
}

crate::metrics! {
    RUN on both;
    /// Adds goodput, shares and loads.
    pub(super) fn add_metrics(all: Reports<'_>) {
        /// total goodput of all flow groups of kind tcp; web does not count as TCP here
        "tcp_goodput_mbps" = all.goodput(Kind::Tcp);
        /// total goodput of all flow groups of kind udp
        "udp_goodput_mbps" = all.goodput(Kind::Udp);
        /// total goodput of all flow groups of kind web
        "web_goodput_mbps" = all.goodput(Kind::Web);
        /// tcp_goodput_mbps / (tcp_goodput_mbps + udp_goodput_mbps); excludes web; absent without tcp
        "tcp_share_ratio" = all.tcp_share();
        /// over TCP flows: payload of a flow in the window, divided by the flow's lifetime within the window
        "tcp_flow_goodput_mbps_STATISTIC" = statistics(&["mean", "dev", "p10", "p50", "p90"], all.rates());
        /// Jain's fairness index of the goodput of TCP flows: 1 if all n flows are equal, 1/n if one flow has everything
        "jain_index" = jain(&all.rates());
        /// payload that the TCP applications offered in the window; absent if one of them sends without limit
        "tcp_offered_mbps" = all.offered(Kind::Tcp);
        /// payload that the UDP applications offered in the window
        "udp_offered_mbps" = all.offered(Kind::Udp);
        /// tcp_goodput_mbps / tcp_offered_mbps
        "tcp_delivered_ratio" = all.delivered(Kind::Tcp);
        /// udp_goodput_mbps / udp_offered_mbps
        "udp_delivered_ratio" = all.delivered(Kind::Udp);
        /// 1 - udp_delivered_ratio, at least 0; packets still in flight at the end count as lost
        "udp_loss_ratio" = all.delivered(Kind::Udp).map(|ratio| (1.0 - ratio).max(0.0));
        /// delay between the scheduled and the actual sending of datagrams, worst sender; 0 in the simulator; a high
        /// value means that the lab machine was overloaded
        "udp_sender_late_s_STATISTIC" = vec![("p99", all.late_p99())];
    }
}

crate::metrics! {
    TRAFFIC on both;
    /// Adds the goodput and the delay of a flow group.
    pub(super) fn add_traffic(all: Reports<'_>, reported: &Reported) {
        /// payload that arrived at the receivers of the flow group in the window, each byte counted once, in order or
        /// not, divided by the window's length; in the lab, the payload that their programs read
        "goodput_mbps.TRAFFIC" = mbps(all.bytes(reported), all.seconds());
        /// one-way delay from the sending host to the receiving host, of packets with payload received in the window;
        /// excludes lost packets; in the lab, UDP only, measured when the program reads the packet: up to 1 ms longer
        "delay_ms_STATISTIC.TRAFFIC" = delays(reported.delays.mean_ms(), |share| reported.delays.ms(share));
    }
}

impl<'a> Reports<'a> {
    /// Each flow group with its report.
    pub(crate) fn groups(self) -> impl Iterator<Item = (&'a Traffic, &'a Reported)> {
        self.scenario.traffic.iter().zip(self.reported)
    }

    /// The reports of the flow groups of one kind.
    pub(super) fn of_kind(self, kind: Kind) -> impl Iterator<Item = &'a Reported> {
        let groups = self.groups();
        groups.filter_map(move |(t, reported)| (t.kind.kind() == kind).then_some(reported))
    }

    /// Length of the window.
    pub(super) fn seconds(self) -> f64 {
        let (from, until) = self.scenario.window();
        until - from
    }

    /// Payload received in the window.
    fn bytes(self, reported: &Reported) -> u64 {
        let (from, until) = self.scenario.window();
        let counted = reported.window_bytes;
        counted.unwrap_or_else(|| reported.bytes_between(from, until))
    }

    /// `None` without traffic of this kind.
    fn goodput(self, kind: Kind) -> Option<f64> {
        let bytes = self.of_kind(kind).map(|reported| self.bytes(reported));
        let bytes = bytes.reduce(|a, b| a + b)?;
        Some(mbps(bytes, self.seconds()))
    }

    fn sent(self, kind: Kind) -> impl Iterator<Item = &'a Sent> {
        self.of_kind(kind).flat_map(|reported| &reported.sent)
    }

    /// `None` if a sender is greedy: such traffic has no offered load.
    fn offered(self, kind: Kind) -> Option<f64> {
        let offered = self.sent(kind).map(|sent| sent.offered_bytes);
        let offered = mbps(offered.sum::<Option<u64>>()?, self.seconds());
        Some(offered).filter(|x| *x > 0.0)
    }

    fn delivered(self, kind: Kind) -> Option<f64> {
        Some(self.goodput(kind)? / self.offered(kind)?)
    }

    fn tcp_share(self) -> Option<f64> {
        let tcp = self.goodput(Kind::Tcp)?;
        let udp = self.goodput(Kind::Udp).unwrap_or(0.0);
        Some(tcp / (tcp + udp)).filter(|x| x.is_finite())
    }

    fn late_p99(self) -> Option<f64> {
        let late = self.sent(Kind::Udp).map(|sent| sent.late_s_p99);
        late.reduce(f64::max)
    }

    /// The goodput of each TCP flow, in ascending order.
    fn rates(self) -> Vec<f64> {
        let (from, until) = self.scenario.window();
        let rate = |flow: &Flow| {
            let end = flow.end_s.unwrap_or(until).min(until);
            let seconds = end - flow.start_s.max(from);
            (seconds > 0.0).then(|| mbps(flow.window_bytes, seconds))
        };
        let flows = self.of_kind(Kind::Tcp).flat_map(|r| &r.flows);
        let mut rates: Vec<f64> = flows.filter_map(rate).collect();
        rates.sort_by(f64::total_cmp);
        rates
    }
}
