//! `weir traffic tcp`: long TCP connections, greedy or with an offered load of their own.
//!
//! One thread for each connection, asleep in the kernel while the connection's buffer is full.
//! With an offered load the application writes by its own schedule; what the connection does not
//! take waits in the application, as it would in a real one.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};
use weir_base::Span;
use weir_live::clock;

use super::{Line, RunClock, Sent, Timing, report, sleep_until};
use crate::scenario::{Congestion, Offered};

/// Connections of one tool at most: each has a thread.
pub const FLOWS_MAX: u32 = 1000;
/// How much a greedy connection hands over at once.
const WRITE_BYTES: usize = 64 << 10;
/// How much a connection with an offered load hands over at once: one segment's worth.
const CHUNK_BYTES: usize = 1448;
/// Pause before a connection that failed is tried again.
const RETRY: Span = Span::from_millis(250);

/// Options of a sender.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Address and port of the receiver.
    #[arg(value_name = "ADDRESS:PORT")]
    pub to: SocketAddr,
    /// Connections.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX as i64))]
    pub flows: u32,
    /// Congestion control: cubic, reno or bbr.
    #[arg(long, default_value = "cubic")]
    pub congestion: Congestion,
    /// Offered load of each connection, like "2 Mbit" or "0.5*t + 2 Mbit"; greedy if not given.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Offered>,
    /// When the connections begin.
    #[arg(long, default_value = "0 s")]
    pub from: Span,
    /// When they stop, if before the end.
    #[arg(long)]
    pub until: Option<Span>,
    /// When.
    #[command(flatten)]
    pub timing: Timing,
}

impl Options {
    /// As arguments of `weir traffic`.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "tcp".to_owned(),
            self.to.to_string(),
            format!("--flows={}", self.flows),
            format!("--congestion={}", self.congestion.word()),
            format!("--from={}", self.from),
        ];
        args.extend(self.rate.map(|rate| format!("--rate={rate}")));
        args.extend(self.until.map(|until| format!("--until={until}")));
        args.extend(self.timing.to_args());
        args
    }

    fn until(&self) -> Span {
        let end = self.timing.duration;
        self.until.map_or(end, |until| until.min(end))
    }
}

#[derive(Debug, Default)]
struct Counts {
    window_bytes: AtomicU64,
    reconnects: AtomicU64,
}

/// Sends to the end of its time. Connections that are still stuck then are left to the kernel.
pub fn run(options: &Options) -> io::Result<()> {
    let run = options.timing.begin();
    let counts: &'static Counts = Box::leak(Box::default());
    report(&Line::Ready)?;
    for _ in 0..options.flows {
        let options = options.clone();
        thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || keep_sending(&options, &run, counts))?;
    }
    sleep_until(run.at(options.until()));
    let window_bytes = counts.window_bytes.load(Ordering::Relaxed);
    report(&Line::Sent(Sent {
        protocol: "tcp".into(),
        port: options.to.port(),
        offered_bytes: options.rate.map(|rate| {
            let from = options.from.max(options.timing.warm_up).as_secs_f64();
            let bits = rate.bits_between(from, options.until().as_secs_f64());
            (bits / 8.0 * f64::from(options.flows)) as u64
        }),
        window_bytes,
        reconnects: counts.reconnects.load(Ordering::Relaxed),
        ..Sent::default()
    }))
}

/// One connection, made again if it fails.
fn keep_sending(options: &Options, run: &RunClock, counts: &Counts) {
    let end = run.at(options.until());
    let mut written = 0;
    sleep_until(run.at(options.from));
    while clock::now() < end {
        let result = connect(options.to, options.congestion)
            .and_then(|stream| send(stream, options, run, counts, &mut written));
        if result.is_err() {
            counts.reconnects.fetch_add(1, Ordering::Relaxed);
            sleep_until(clock::now() + RETRY);
        }
    }
}

/// A connection with this congestion control.
pub(super) fn connect(to: SocketAddr, congestion: Congestion) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(congestion.word().as_bytes())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn send(
    mut stream: TcpStream,
    options: &Options,
    run: &RunClock,
    counts: &Counts,
    written: &mut u64,
) -> io::Result<()> {
    let zeros = [0; WRITE_BYTES];
    let end = run.at(options.until());
    while clock::now() < end {
        let bytes = match options.rate {
            None => stream.write(&zeros)?,
            Some(rate) => {
                let due = (*written + CHUNK_BYTES as u64) as f64 * 8.0;
                let when = rate
                    .time_of(options.from.as_secs_f64(), due)
                    .map_or(end, |t| run.at(Span::from_secs_f64(t)).min(end));
                if sleep_until(when) >= end {
                    return Ok(());
                }
                stream.write_all(&zeros[..CHUNK_BYTES])?;
                CHUNK_BYTES
            }
        };
        *written += bytes as u64;
        if run.in_window(clock::now()) {
            counts
                .window_bytes
                .fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}
