//! The web clients: closed loops, one thread each, with a new connection for each fetch.
//!
//! Every fetch is reported; a fetch that is unfinished at the end of the run counts with its age, because a mean over
//! finished fetches only would favour a router that starves the rest.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use weir_base::{Instant, Sizes, Span, Times};
use weir_live::clock;
use weir_live::mutex::lock;

use super::super::{Line, RunClock, Series, Timetable, report, sleep_until};
use super::serve::FILE_BYTES_MAX;
use crate::reported::{Fetch, Outcome};

/// Maximum number of clients of one tool: each has a thread.
pub const CLIENTS_MAX: u32 = 1000;
/// Pause after a fetch that failed, so that a refusing server is not flooded.
const RETRY: Span = Span::from_millis(100);

/// Options of the clients.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Address and port of the server.
    #[arg(value_name = "ADDRESS:PORT")]
    pub server: SocketAddr,
    /// Number of clients.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX as i64))]
    pub clients: u32,
    /// Sizes of the files: "webstone", a distribution like "exponential 20 kB", or sizes with
    /// weights like "500 B: 35, 5 kB: 65".
    #[arg(long, default_value = "webstone")]
    pub mix: Sizes,
    /// Pause of a client after each fetch, like "1 s" or "exponential 1 s".
    #[arg(long, default_value = "0 s")]
    pub think: Times,
    /// The times of the flows, and their random choices.
    #[command(flatten)]
    pub timetable: Timetable,
}

impl Options {
    /// As arguments of `weir traffic`.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "web".to_owned(),
            "fetch".to_owned(),
            self.server.to_string(),
            format!("--clients={}", self.clients),
            format!("--mix={}", self.mix),
            format!("--think={}", self.think),
        ];
        args.extend(self.timetable.to_args());
        args
    }
}

/// The state of one client.
#[derive(Debug, Default)]
struct Diary {
    done: Vec<Fetch>,
    current: Option<Current>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    bytes: u64,
    began: Instant,
    connected: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    run: RunClock,
    series: Vec<AtomicU64>,
    diaries: Vec<Mutex<Diary>>,
}

/// Fetches to the end of its time.
pub fn run(options: &Options) -> io::Result<()> {
    let run = options.timetable.timing.begin();
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        run,
        series: (0..run.intervals()).map(|_| AtomicU64::new(0)).collect(),
        diaries: (0..options.clients).map(|_| Mutex::default()).collect(),
    }));
    report(&Line::Ready)?;
    for client in 0..options.clients {
        let options = options.clone();
        thread::Builder::new()
            .stack_size(512 << 10)
            .spawn(move || keep_fetching(&options, client, shared))?;
    }
    let end = run.at(options.timetable.until());
    sleep_until(end);
    for (client, diary) in shared.diaries.iter().enumerate() {
        let diary = std::mem::take(&mut *lock(diary));
        for fetch in diary.done {
            report(&Line::Fetch(fetch))?;
        }
        if let Some(current) = diary.current {
            let fetch = current.fetch(client as u32, end, Outcome::Unfinished, &run);
            report(&Line::Fetch(fetch))?;
        }
    }
    report(&Line::Series(Series {
        protocol: "web".into(),
        port: options.server.port(),
        interval_s: run.interval_s(),
        bytes: shared
            .series
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .collect(),
    }))
}

fn keep_fetching(options: &Options, client: u32, shared: &Shared) {
    let run = &shared.run;
    let diary = &shared.diaries[client as usize];
    let mut choices = options.timetable.chance.client(client as usize);
    let end = run.at(options.timetable.until());
    let start = options.timetable.start(client as usize);
    sleep_until(run.at(start).min(end));
    while clock::now() < end {
        let bytes = options.mix.sample(&mut choices).min(FILE_BYTES_MAX);
        let mut current = Current {
            bytes,
            began: clock::now(),
            connected: None,
        };
        lock(diary).current = Some(current);
        let outcome = TcpStream::connect(options.server).and_then(|stream| {
            current.connected = Some(clock::now());
            lock(diary).current = Some(current);
            fetch(stream, bytes, shared)
        });
        let outcome = outcome.unwrap_or_else(|error| outcome_of(&error));
        let ended = clock::now();
        if ended >= end {
            return; // the report is being written: this fetch counts as unfinished
        }
        let mut diary = lock(diary);
        diary.current = None;
        diary.done.push(current.fetch(client, ended, outcome, run));
        drop(diary);
        let pause = match outcome {
            Outcome::Finished => options.think.sample(&mut choices),
            _ => RETRY,
        };
        sleep_until((ended + pause).min(end));
    }
}

impl Current {
    fn fetch(&self, client: u32, ended: Instant, outcome: Outcome, run: &RunClock) -> Fetch {
        let since = |t: Instant| t.since(self.began).as_secs_f64();
        Fetch {
            client,
            bytes: self.bytes,
            start_s: run.seconds(self.began),
            connect_s: self.connected.map(since),
            response_s: since(ended),
            outcome,
        }
    }
}

/// Requests the file and reads the answer to its end.
fn fetch(mut stream: TcpStream, bytes: u64, shared: &Shared) -> io::Result<Outcome> {
    let request = format!("GET /bytes/{bytes} HTTP/1.0\r\nHost: web\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut body: Option<u64> = None;
    let mut buffer = [0; 16 << 10];
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        let fresh = match &mut body {
            Some(sum) => {
                *sum += n as u64;
                n
            }
            None => {
                head.extend_from_slice(&buffer[..n]);
                let Some(place) = head.windows(4).position(|w| w == b"\r\n\r\n") else {
                    continue;
                };
                let fresh = head.len() - place - 4;
                body = Some(fresh as u64);
                fresh
            }
        };
        if let Some(interval) = shared.run.interval(clock::now()) {
            shared.series[interval].fetch_add(fresh as u64, Ordering::Relaxed);
        }
    }
    let good = head.starts_with(b"HTTP/1.") && head.get(8..12) == Some(b" 200");
    Ok(if good && body == Some(bytes) {
        Outcome::Finished
    } else {
        Outcome::Wrong
    })
}

fn outcome_of(error: &io::Error) -> Outcome {
    match error.kind() {
        ErrorKind::ConnectionRefused => Outcome::Refused,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Outcome::TimedOut,
        _ => Outcome::Reset,
    }
}
