//! The lab's traffic tools, usable on their own: `weir traffic sink|tcp|udp|web`.
//!
//! Each tool is a function over an options struct. It writes JSON lines ([`Line`]) to standard
//! output: `ready` as soon as it listens or is about to send, everything else at its end. All
//! tools of one run share a start instant of the machine's monotonic clock, so that their
//! intervals line up.
//!
//! ```text
//!   tcp, udp ──payload──▶ sink (counts)          web serve ──files──▶ web fetch (counts, times)
//! ```

pub mod sink;
pub mod tcp;
pub mod udp;
pub mod web;

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_base::{Instant, Span};
use weir_live::clock;

/// Length of the intervals in which receivers count.
pub const INTERVAL: Span = Span::from_millis(100);

/// One of the tools, with its options.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// Receive TCP and UDP, and count.
    Sink(sink::Options),
    /// Send over long TCP connections.
    Tcp(tcp::Options),
    /// Send UDP, paced packet by packet.
    Udp(udp::Options),
    /// Serve files of any size over HTTP, or fetch them.
    #[command(subcommand)]
    Web(web::Command),
}

/// Runs a tool to its end.
pub fn run(command: &Command) -> io::Result<()> {
    match command {
        Command::Sink(options) => sink::run(options),
        Command::Tcp(options) => tcp::run(options),
        Command::Udp(options) => udp::run(options),
        Command::Web(web::Command::Serve(options)) => web::serve::run(options),
        Command::Web(web::Command::Fetch(options)) => web::fetch::run(options),
    }
}

/// When a tool runs. All times count from the start of the run.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Timing {
    /// Length of the run.
    #[arg(long, default_value = "10 s")]
    pub duration: Span,
    /// What is left out of the totals of the window, from the start.
    #[arg(long, default_value = "0 s")]
    pub warm_up: Span,
    /// The run's start on the monotonic clock, in nanoseconds; now if not given.
    #[arg(long, value_name = "NS")]
    pub start_ns: Option<u64>,
}

impl Timing {
    /// As arguments of a command line.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            format!("--duration={}", self.duration),
            format!("--warm-up={}", self.warm_up),
        ];
        args.extend(self.start_ns.map(|ns| format!("--start-ns={ns}")));
        args
    }

    /// The clock of the run that starts as given here, or now.
    pub fn begin(&self) -> RunClock {
        let start = self.start_ns.map_or_else(clock::now, Instant::from_nanos);
        RunClock {
            start,
            warm_up: self.warm_up,
            duration: self.duration,
        }
    }
}

/// Seconds and intervals since the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    start: Instant,
    warm_up: Span,
    duration: Span,
}

impl RunClock {
    /// The run's end.
    pub fn end(&self) -> Instant {
        self.start + self.duration
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        clock::now() >= self.end()
    }

    /// An instant of this run.
    pub fn at(&self, since_start: Span) -> Instant {
        self.start + since_start
    }

    /// Seconds since the start.
    pub fn seconds(&self, now: Instant) -> f64 {
        now.since(self.start).as_secs_f64()
    }

    /// The interval that `now` falls in; none before the start and after the end.
    pub fn interval(&self, now: Instant) -> Option<usize> {
        let inside = now >= self.start && now < self.end();
        inside.then(|| (now.since(self.start).as_nanos() / INTERVAL.as_nanos()) as usize)
    }

    /// How many intervals the run has.
    pub fn intervals(&self) -> usize {
        self.duration.as_nanos().div_ceil(INTERVAL.as_nanos()) as usize
    }

    /// Whether `now` counts: after the warm-up, before the end.
    pub fn in_window(&self, now: Instant) -> bool {
        now >= self.start + self.warm_up && now < self.end()
    }
}

/// Sleeps until `when`; returns at once if that is past. Gives the time it is then.
pub fn sleep_until(when: Instant) -> Instant {
    loop {
        let now = clock::now();
        if now >= when {
            return now;
        }
        thread::sleep(Duration::from_nanos(when.since(now).as_nanos()));
    }
}

/// One line of a tool's report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    /// The tool listens, or is about to send.
    Ready,
    /// What a receiver counted of one flow.
    Flow(Flow),
    /// Payload that a receiver counted on one port, by interval.
    Series(Series),
    /// What a sender did.
    Sent(Sent),
    /// One web fetch.
    Fetch(web::Fetch),
}

/// What a receiver counted of one flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The receiver's port.
    pub port: u16,
    /// The sender.
    pub peer: String,
    /// Payload received.
    pub bytes: u64,
    /// Payload received in the window.
    pub window_bytes: u64,
    /// Packets received in the window; zero for TCP, where the receiver sees none.
    pub window_packets: u64,
}

/// Payload by interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `tcp`, `udp` or `web`.
    pub protocol: String,
    /// The receiver's port.
    pub port: u16,
    /// Length of an interval.
    pub interval_s: f64,
    /// Bytes of payload in each.
    pub bytes: Vec<u64>,
}

/// What a sender did in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The receiver's port.
    pub port: u16,
    /// Payload that the schedule wanted sent in the window; none if greedy.
    pub offered_bytes: Option<u64>,
    /// Payload handed to the kernel in the window.
    pub window_bytes: u64,
    /// Packets that the kernel took in the window; zero for TCP.
    pub window_packets: u64,
    /// Packets that the sender's own full interface refused; part of what was offered.
    pub refused_packets: u64,
    /// How late a packet was handed over, against its schedule: the 99th percentile.
    pub late_s_p99: f64,
    /// Connections that had to be made again.
    pub reconnects: u64,
}

/// Writes one line of the report, at once.
pub fn report(line: &Line) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_fall_into_intervals_and_the_window() {
        let timing = Timing {
            duration: Span::from_millis(1050),
            warm_up: Span::from_millis(500),
            start_ns: Some(1_000),
        };
        let run = timing.begin();
        assert_eq!(run.intervals(), 11);
        assert_eq!(run.interval(Instant::from_nanos(999)), None);
        assert_eq!(run.interval(run.at(Span::ZERO)), Some(0));
        assert_eq!(run.interval(run.at(Span::from_millis(1049))), Some(10));
        assert_eq!(run.interval(run.end()), None);
        assert!(!run.in_window(run.at(Span::from_millis(499))));
        assert!(run.in_window(run.at(Span::from_millis(500))));
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
        });
        let text = serde_json::to_string(&line).unwrap();
        assert!(
            text.starts_with("{\"line\":\"flow\",\"protocol\":\"udp\""),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
