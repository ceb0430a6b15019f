//! The counts of receivers and senders in a run, the same in both habitats.
//!
//! The lab's tools write these as JSON lines; the simulator fills them in directly. Every metric is defined only
//! once, over [`Reported`], in [`crate::measure`](mod@crate::measure).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_base::Span;

/// The resolution at which receivers count delays.
pub(crate) const DELAY_STEP: Span = Span::from_micros(10);

/// The counts at both ends of one flow group.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// Flows at the receiver.
    pub flows: Vec<Flow>,
    /// Payload received in the window in bytes, if it was counted exactly; otherwise it follows from the series.
    pub window_bytes: Option<u64>,
    /// Payload by interval at the receiver, one series for each receiver.
    pub series: Vec<Series>,
    /// The counts of the senders.
    pub sent: Vec<Sent>,
    /// Transfers of a given size.
    pub transfers: Vec<Transfer>,
    /// Web fetches.
    pub fetches: Vec<Fetch>,
    /// Delays in the window.
    pub delays: PacketDelays,
}

/// The delays of packets.
#[derive(Clone, Debug)]
pub enum PacketDelays {
    /// Number of datagrams by delay, in steps of 10 us: the lab's receivers.
    Counted(BTreeMap<u32, u64>),
    /// All packets with payload: the simulator.
    Simulated(Box<weir_sim::meter::Delays>),
}

impl Default for PacketDelays {
    fn default() -> Self {
        Self::Counted(BTreeMap::new())
    }
}

impl Reported {
    /// Adds a line.
    pub fn add(&mut self, line: Line) {
        match line {
            Line::Ready => {}
            Line::Flow(flow) => self.flows.push(flow),
            Line::Series(series) => self.series.push(series),
            Line::Sent(sent) => self.sent.push(sent),
            Line::Transfer(transfer) => self.transfers.push(transfer),
            Line::Fetch(fetch) => self.fetches.push(fetch),
            Line::Delays(Delays { counts, .. }) => {
                let PacketDelays::Counted(delays) = &mut self.delays else {
                    unreachable!("the simulator writes no lines");
                };
                for (steps, number) in counts {
                    *delays.entry(steps).or_default() += number;
                }
            }
        }
    }

    /// Payload received between two times, in bytes.
    pub(crate) fn bytes_between(&self, from: f64, until: f64) -> u64 {
        let inside = |series: &Series| {
            let place = |t: f64| (t / series.interval_s).round() as usize;
            let until = place(until).min(series.bytes.len());
            let bytes = &series.bytes[place(from).min(until)..until];
            bytes.iter().sum::<u64>()
        };
        self.series.iter().map(inside).sum()
    }

    /// Received payload in Mbit/s for each step of `step` seconds.
    pub(crate) fn curve(&self, duration: f64, step: f64) -> Vec<f64> {
        // Ignore a last step that is only a rounding error.
        let steps = (duration / step - 1e-6).ceil() as usize;
        let rate = |n: usize| {
            let from = n as f64 * step;
            let until = (from + step).min(duration);
            mbps(self.bytes_between(from, until), until - from)
        };
        (0..steps).map(rate).collect()
    }
}

impl PacketDelays {
    /// The delay in ms that a share of the packets does not exceed (nearest rank), at the resolution of the counts.
    pub(crate) fn ms(&self, share: f64) -> Option<f64> {
        let counts = match self {
            Self::Counted(counts) => counts,
            Self::Simulated(delays) => return Some(1e3 * delays.percentile(share)?),
        };
        let all: u64 = counts.values().sum();
        let rank = (share * all as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        let mut steps = counts.iter();
        let found = steps.find(|(_, number)| {
            passed += **number;
            passed >= rank
        });
        found.map(|(steps, _)| delay_ms(*steps))
    }

    /// The mean delay in ms.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        let counts = match self {
            Self::Counted(counts) => counts,
            Self::Simulated(delays) => return Some(1e3 * delays.mean()?),
        };
        let all: u64 = counts.values().sum();
        let sum = |(steps, number): (&u32, &u64)| delay_ms(*steps) * *number as f64;
        (all > 0).then(|| counts.iter().map(sum).sum::<f64>() / all as f64)
    }
}

fn delay_ms(steps: u32) -> f64 {
    f64::from(steps) * DELAY_STEP.as_secs_f64() * 1e3
}

/// The rate in Mbit/s of a number of bytes in a number of seconds.
pub(crate) fn mbps(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 8.0 / 1e6 / seconds
}

/// One line of a report, as a tool writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The tool listens, or is about to send.
    Ready,
    /// The counts of a receiver for one flow.
    Flow(Flow),
    /// Payload that a receiver counted on one port, by interval.
    Series(Series),
    /// The counts of a sender.
    Sent(Sent),
    /// One transfer of a given size.
    Transfer(Transfer),
    /// One web fetch.
    Fetch(Fetch),
    /// The delays of the datagrams that a receiver's port received.
    Delays(Delays),
}

/// The counts of a receiver for one flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The receiver's port.
    pub port: u16,
    /// The sender's address.
    pub peer: String,
    /// Payload received, in bytes.
    pub bytes: u64,
    /// Payload received in the window, in bytes.
    pub window_bytes: u64,
    /// Packets received in the window; zero for TCP, whose receiver sees no packets.
    pub window_packets: u64,
    /// Time of the first data at the receiver, in seconds of the run.
    #[serde(default)]
    pub start_s: f64,
    /// Time at which the flow closed, in seconds of the run; `None` if it lasted to the end.
    #[serde(default)]
    pub end_s: Option<f64>,
}

/// Payload by interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `tcp`, `udp` or `web`.
    pub protocol: String,
    /// The receiver's port.
    pub port: u16,
    /// Length of an interval, in seconds.
    pub interval_s: f64,
    /// Bytes of payload in each interval.
    pub bytes: Vec<u64>,
}

/// Delays of datagrams that one port received in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// The receiver's port.
    pub port: u16,
    /// Pairs of a delay, in steps of 10 us, and the number of datagrams.
    pub counts: Vec<(u32, u64)>,
}

/// The counts of a sender in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The receiver's port.
    pub port: u16,
    /// Payload in bytes that the schedule offered in the window; `None` for a greedy sender.
    pub offered_bytes: Option<u64>,
    /// Payload handed to the kernel in the window, in bytes.
    pub window_bytes: u64,
    /// Packets that the kernel accepted in the window; zero for TCP.
    pub window_packets: u64,
    /// Packets that the sender's own full interface refused; they count as offered.
    pub refused_packets: u64,
    /// 99th percentile of the delay of packets after their scheduled time, in seconds.
    pub late_s_p99: f64,
    /// Number of reconnections.
    pub reconnects: u64,
}

/// One transfer of a given size, from its start until the receiver has all bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The index of the flow at its host.
    pub flow: u32,
    /// Size of the transfer, in bytes.
    pub bytes: u64,
    /// Start time, in seconds of the run.
    pub start_s: f64,
    /// Completion time in seconds, connection included; the age so far if the transfer is unfinished.
    pub time_s: f64,
    /// Whether the receiver has all bytes.
    pub finished: bool,
}

/// One fetch, as observed by the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetch {
    /// The index of the client.
    pub client: u32,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Start time, in seconds of the run.
    pub start_s: f64,
    /// Time to the connection, in seconds; `None` if no connection was established.
    pub connect_s: Option<f64>,
    /// Time to the end of the file in seconds, connection included; the age so far if the fetch is unfinished.
    pub response_s: f64,
    /// The outcome.
    pub outcome: Outcome,
}

impl Transfer {
    /// Whether the transfer belongs to the window that begins at `from`: it ends there.
    pub(crate) fn is_counted(&self, from: f64) -> bool {
        self.start_s + self.time_s >= from
    }
}

impl Fetch {
    /// Whether the fetch belongs to the window that begins at `from`: it ends there.
    pub(crate) fn is_counted(&self, from: f64) -> bool {
        self.start_s + self.response_s >= from
    }
}

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The client received the whole file.
    Finished,
    /// The run ended first.
    Unfinished,
    /// The connection was refused.
    Refused,
    /// The connection was reset.
    Reset,
    /// The kernel gave up the connection.
    TimedOut,
    /// The answer was not the requested file.
    Wrong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_several_receivers_by_hand() {
        let mut reported = Reported::default();
        assert_eq!(
            (reported.delays.ms(0.5), reported.delays.mean_ms()),
            (None, None)
        );
        for counts in [vec![(100, 2), (400, 1)], vec![(100, 1), (200, 96)]] {
            reported.add(Line::Delays(Delays { port: 1, counts }));
        }
        // Three datagrams of 1 ms, 96 of 2 ms, one of 4 ms.
        let shares = [0.0, 0.03, 0.5, 0.99, 1.0].map(|share| reported.delays.ms(share));
        assert_eq!(shares, [1.0, 1.0, 2.0, 2.0, 4.0].map(Some));
        let mean = reported.delays.mean_ms().unwrap();
        assert!((mean - 1.99).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn report_lines_are_tagged_json() {
        let line = Line::Flow(Flow {
            protocol: "udp".into(),
            port: 5001,
            peer: "10.0.0.1:4000".into(),
            bytes: 3,
            window_bytes: 2,
            window_packets: 1,
            start_s: 0.5,
            end_s: None,
        });
        let text = serde_json::to_string(&line).unwrap();
        assert!(
            text.starts_with("{\"line\":\"flow\",\"protocol\":\"udp\""),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
