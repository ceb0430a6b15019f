//! The lab's traffic tools, which can be used on their own: `weir traffic sink|tcp|udp|web`.
//!
//! Each tool is a function over an options struct. It writes JSON lines ([`Line`]) to standard
//! output: `ready` as soon as it listens or is about to send, everything else at its end. All
//! tools of one run share a start instant of the machine's monotonic clock, so that their
//! intervals line up.
//!
//! ```text
//!   tcp, udp ──payload──▶ sink (counts)          web serve ──files──▶ web fetch (counts, times)
//! ```

pub mod chance;
pub mod sink;
mod stamp;
pub mod tcp;
pub mod udp;
pub mod web;

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use weir_base::pace::{Load, OnOff, Pace};
use weir_base::{Instant, Offered, Spacing, Span, Times};
use weir_live::clock;

pub use crate::reported::{Fetch, Flow, Line, Outcome, Sent, Series, Transfer};
pub use chance::Chance;

/// Shorter intervals would cost memory without adding information.
const INTERVAL_MIN: Span = Span::from_millis(1);

/// One of the tools, with its options.
#[derive(Clone, Debug, PartialEq, clap::Subcommand)]
pub enum Command {
    /// Receive and count TCP and UDP.
    Sink(sink::Options),
    /// Send over TCP: endlessly, at an offered load, or a number of bytes.
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
    /// Time from the start that the totals exclude.
    #[arg(long, default_value = "0 s")]
    pub warm_up: Span,
    /// Length of the intervals in which receivers count.
    #[arg(long, default_value = "100 ms")]
    pub interval: Span,
    /// Start of the run on the monotonic clock, in nanoseconds [default: now].
    #[arg(long, value_name = "NS")]
    pub start_ns: Option<u64>,
}

impl Timing {
    /// The options as command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            format!("--duration={}", self.duration),
            format!("--warm-up={}", self.warm_up),
            format!("--interval={}", self.interval),
        ];
        args.extend(self.start_ns.map(|ns| format!("--start-ns={ns}")));
        args
    }

    /// The clock of a run that starts at the given time, or now.
    pub fn begin(&self) -> RunClock {
        let start = self.start_ns.map_or_else(clock::now, Instant::from_nanos);
        RunClock {
            start,
            warm_up: self.warm_up,
            duration: self.duration,
            interval: self.interval.max(INTERVAL_MIN),
        }
    }
}

/// The times at which the flows of a sender (or a group of clients) run, and their random choices.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Timetable {
    /// Their random choices.
    #[command(flatten)]
    pub chance: Chance,
    /// Start time of the flows.
    #[arg(long, default_value = "0 s")]
    pub from: Span,
    /// Start time of each flow, one per flow; overrides `from`.
    #[arg(long, value_name = "TIME", value_delimiter = ',')]
    pub starts: Vec<Span>,
    /// Stop time of the flows, if before the end.
    #[arg(long)]
    pub until: Option<Span>,
    /// The times of the run.
    #[command(flatten)]
    pub timing: Timing,
}

impl Timetable {
    /// The options as command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = self.chance.to_args();
        args.push(format!("--from={}", self.from));
        args.extend(listed("starts", &self.starts));
        args.extend(self.until.map(|until| format!("--until={until}")));
        args.extend(self.timing.to_args());
        args
    }

    /// The start of a flow.
    pub fn start(&self, flow: usize) -> Span {
        nth(&self.starts, flow).unwrap_or(self.from)
    }

    /// Time at which all flows have stopped.
    pub fn until(&self) -> Span {
        let end = self.timing.duration;
        self.until.map_or(end, |until| until.min(end))
    }
}

/// The spacing of the packets or writes of an offered load.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Rhythm {
    /// Spacing of the pieces: even, poisson, jittered 0.1.
    #[arg(long, default_value = "even")]
    pub spacing: Spacing,
    /// How long the application offers its load, before each time `off`; always if not given.
    #[arg(long, value_name = "TIMES", requires = "off")]
    pub on: Option<Times>,
    /// How long it is silent.
    #[arg(long, value_name = "TIMES", requires = "on")]
    pub off: Option<Times>,
}

impl Rhythm {
    /// The options as command-line arguments.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![format!("--spacing={}", self.spacing)];
        args.extend(self.on.iter().map(|on| format!("--on={on}")));
        args.extend(self.off.iter().map(|off| format!("--off={off}")));
        args
    }

    /// The schedule of a flow that offers `rate` in pieces of a number of bytes, in the run's time.
    pub(crate) fn pace(
        &self,
        rate: Offered,
        piece: u32,
        timetable: &Timetable,
        flow: usize,
    ) -> Pace {
        let load = Load {
            rate,
            piece,
            spacing: self.spacing,
            on_off: self
                .on
                .clone()
                .zip(self.off.clone())
                .map(|(on, off)| OnOff { on, off }),
        };
        let start = Instant::ZERO + timetable.start(flow);
        let stream = timetable.chance.flow(flow);
        Pace::new(load, stream, start, Instant::ZERO + timetable.until())
    }
}

/// Converts instants to seconds and intervals since the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    start: Instant,
    warm_up: Span,
    duration: Span,
    interval: Span,
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

    /// The interval that contains `now`; `None` before the start and after the end.
    pub fn interval(&self, now: Instant) -> Option<usize> {
        let inside = now >= self.start && now < self.end();
        inside.then(|| (now.since(self.start).as_nanos() / self.interval.as_nanos()) as usize)
    }

    /// The number of intervals of the run.
    pub fn intervals(&self) -> usize {
        self.duration.steps(self.interval)
    }

    /// Length of an interval in seconds.
    pub fn interval_s(&self) -> f64 {
        self.interval.as_secs_f64()
    }

    /// Whether `now` is in the window: after the warm-up, before the end.
    pub fn in_window(&self, now: Instant) -> bool {
        now >= self.start + self.warm_up && now < self.end()
    }
}

/// The value for this flow, if there are any values: the last value applies to the flows that follow.
pub(crate) fn nth<T: Copy>(values: &[T], flow: usize) -> Option<T> {
    values.get(flow).or(values.last()).copied()
}

/// A list of values as one argument of a command line.
pub(crate) fn listed<T: std::fmt::Display>(name: &str, values: &[T]) -> Option<String> {
    let words: Vec<String> = values.iter().map(T::to_string).collect();
    (!words.is_empty()).then(|| format!("--{name}={}", words.join(",")))
}

/// Sleeps until `when`; returns at once if `when` is past. Returns the time after the sleep.
pub fn sleep_until(when: Instant) -> Instant {
    loop {
        let now = clock::now();
        if now >= when {
            return now;
        }
        thread::sleep(Duration::from_nanos(when.since(now).as_nanos()));
    }
}

/// Writes one line of the report and flushes it.
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
            interval: Span::from_millis(100),
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
}
