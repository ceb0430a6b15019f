//! `weir traffic tcp`: TCP connections, greedy, with an offered load, or with a number of bytes to transfer.
//!
//! Each connection has a thread, which sleeps in the kernel while the connection's buffer is full. With an offered load
//! the application writes by its own schedule; bytes that the connection does not accept wait in the application, as
//! in a real application. A transfer ends when the receiver has read everything and closes its side: half a round trip
//! after the last byte has arrived.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use weir_base::pace::Pace;
use weir_base::{Bytes, Instant, Offered, Span};
use weir_live::clock;
use weir_live::mutex::lock;

use super::{Line, Rhythm, RunClock, Sent, Timetable, Transfer, listed, nth, report, sleep_until};

/// Maximum number of connections of one tool: each has a thread.
pub const FLOWS_MAX: u32 = 1000;
/// Bytes per write of a greedy connection.
const WRITE_BYTES: usize = 64 << 10;
/// Default payload of a segment, and bytes per write of a connection with an offered load.
const MSS_DEFAULT: u32 = 1460;
/// Pause before a failed connection is opened again.
const RETRY: Span = Span::from_millis(250);

/// Options of a sender.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Address and port of the receiver.
    #[arg(value_name = "ADDRESS:PORT")]
    pub to: SocketAddr,
    /// Number of connections.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX as i64))]
    pub flows: u32,
    /// Congestion control, by the kernel's name: cubic, reno, bbr.
    #[arg(long, default_value = "cubic")]
    pub congestion: String,
    /// Payload of a segment, in bytes [default: the path's maximum].
    #[arg(long)]
    pub mss: Option<u32>,
    /// Bytes that each connection transfers before it closes, one size per connection; the last size also applies to
    /// all following connections [default: send until the end].
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub sizes: Vec<Bytes>,
    /// Offered load of each connection, like "2 Mbit" or "0.5*t + 2 Mbit" [default: unlimited].
    #[arg(long, value_name = "RATE")]
    pub rate: Option<Offered>,
    /// The spacing of the writes of an offered load.
    #[command(flatten)]
    pub rhythm: Rhythm,
    /// The times of the flows, and their random choices.
    #[command(flatten)]
    pub timetable: Timetable,
}

impl Options {
    /// As arguments of `weir traffic`.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "tcp".to_owned(),
            self.to.to_string(),
            format!("--flows={}", self.flows),
            format!("--congestion={}", self.congestion),
        ];
        args.extend(self.rhythm.to_args());
        args.extend(self.mss.map(|mss| format!("--mss={mss}")));
        args.extend(listed("sizes", &self.sizes));
        args.extend(self.rate.map(|rate| format!("--rate={rate}")));
        args.extend(self.timetable.to_args());
        args
    }

    /// The schedule of a flow's writes, if it has one; each call gives the same schedule.
    fn pace(&self, flow: usize) -> Option<Pace> {
        let piece = self.mss.unwrap_or(MSS_DEFAULT);
        let pace = |rate| self.rhythm.pace(rate, piece, &self.timetable, flow);
        self.rate.map(pace)
    }

    /// Payload that the schedules offer in the window; `None` without schedules.
    fn offered_bytes(&self) -> Option<u64> {
        self.rate.filter(|_| self.sizes.is_empty())?;
        let warm_up = Instant::ZERO + self.timetable.timing.warm_up;
        let offered = |mut pace: Pace| {
            let pieces = std::iter::from_fn(|| pace.next_piece());
            let counted = pieces.filter(|at| *at >= warm_up).count() as u64;
            counted * u64::from(pace.piece())
        };
        let flows = 0..self.flows as usize;
        Some(flows.filter_map(|flow| self.pace(flow)).map(offered).sum())
    }
}

/// The state that all connections share.
#[derive(Debug)]
struct Shared {
    run: RunClock,
    window_bytes: AtomicU64,
    reconnects: AtomicU64,
    transfers: Vec<Mutex<State>>,
}

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Waiting,
    Since(Instant),
    Finished(Instant, Instant),
}

/// Sends to the end of its time. Leaves connections that are still blocked then to the kernel.
pub fn run(options: &Options) -> io::Result<()> {
    let run = options.timetable.timing.begin();
    let shared: &'static Shared = Box::leak(Box::new(Shared {
        run,
        window_bytes: AtomicU64::new(0),
        reconnects: AtomicU64::new(0),
        transfers: (0..options.flows).map(|_| Mutex::default()).collect(),
    }));
    report(&Line::Ready)?;
    for flow in 0..options.flows as usize {
        let options = options.clone();
        thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(move || keep_sending(&options, flow, shared))?;
    }
    let end = run.at(options.timetable.until());
    sleep_until(end);
    for (flow, state) in shared.transfers.iter().enumerate() {
        let state = *lock(state);
        if let Some(bytes) = nth(&options.sizes, flow) {
            let transfer = state.transfer(flow, bytes, end, &run);
            transfer.map_or(Ok(()), |t| report(&Line::Transfer(t)))?;
        }
    }
    report(&Line::Sent(Sent {
        protocol: "tcp".into(),
        port: options.to.port(),
        offered_bytes: options.offered_bytes(),
        window_bytes: shared.window_bytes.load(Ordering::Relaxed),
        reconnects: shared.reconnects.load(Ordering::Relaxed),
        ..Sent::default()
    }))
}

impl State {
    fn transfer(self, flow: usize, bytes: Bytes, end: Instant, run: &RunClock) -> Option<Transfer> {
        let (began, ended, finished) = match self {
            Self::Waiting => return None,
            Self::Since(began) => (began, end, false),
            Self::Finished(began, ended) => (began, ended, true),
        };
        Some(Transfer {
            flow: flow as u32,
            bytes: bytes.0,
            start_s: run.seconds(began),
            time_s: ended.since(began).as_secs_f64(),
            finished,
        })
    }
}

/// Sends over one connection, and opens it again if it fails; then a transfer starts again.
fn keep_sending(options: &Options, flow: usize, shared: &Shared) {
    let run = &shared.run;
    let end = run.at(options.timetable.until());
    let begin = run.at(options.timetable.start(flow));
    let mut application = Application::new(options, flow);
    if begin >= end {
        return; // it starts after the end
    }
    sleep_until(begin);
    *lock(&shared.transfers[flow]) = State::Since(begin);
    while clock::now() < end {
        let sent = connect(options).and_then(|stream| application.send(stream, shared, end));
        match sent {
            Ok(false) => {}
            Ok(true) => {
                let now = clock::now();
                if now < end {
                    *lock(&shared.transfers[flow]) = State::Finished(begin, now);
                }
                return;
            }
            Err(_) => {
                shared.reconnects.fetch_add(1, Ordering::Relaxed);
                sleep_until(clock::now() + RETRY);
            }
        }
    }
}

/// Opens a connection with these options.
fn connect(options: &Options) -> io::Result<TcpStream> {
    let to = options.to;
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(options.congestion.as_bytes())?;
    if let Some(mss) = options.mss {
        socket.set_tcp_mss(mss)?;
    }
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// A writer, used for one connection after another.
struct Application {
    size: Option<u64>,
    /// The schedule; `None` if greedy.
    pace: Option<Pace>,
}

impl Application {
    fn new(options: &Options, flow: usize) -> Self {
        Self {
            size: nth(&options.sizes, flow).map(|size| size.0),
            pace: options.pace(flow),
        }
    }

    /// Writes until the end, or until all bytes are written; returns true if the receiver has read all bytes.
    fn send(&mut self, mut stream: TcpStream, shared: &Shared, end: Instant) -> io::Result<bool> {
        let run = &shared.run;
        let zeros = [0; WRITE_BYTES];
        let mut left = self.size;
        while clock::now() < end && left != Some(0) {
            let room = left.map_or(WRITE_BYTES, |left| left.min(WRITE_BYTES as u64) as usize);
            let bytes = match &mut self.pace {
                None => stream.write(&zeros[..room])?,
                Some(pace) => {
                    let due = pace.next_piece();
                    let due = due.map_or(end, |due| run.at(due.since(Instant::ZERO)).min(end));
                    if sleep_until(due) >= end {
                        return Ok(false);
                    }
                    let bytes = room.min(pace.piece() as usize);
                    stream.write_all(&zeros[..bytes])?;
                    bytes
                }
            } as u64;
            left = left.map(|left| left - bytes);
            if run.in_window(clock::now()) {
                shared.window_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        if left != Some(0) {
            return Ok(false);
        }
        stream.shutdown(Shutdown::Write)?;
        wait_for_close(stream, end)
    }
}

/// Waits for the peer to close; false if it does not before the end.
fn wait_for_close(mut stream: TcpStream, end: Instant) -> io::Result<bool> {
    let left = end.since(clock::now()).as_nanos().max(1_000_000);
    stream.set_read_timeout(Some(Duration::from_nanos(left)))?;
    match stream.read(&mut [0; 16]) {
        Ok(0) => Ok(true),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(e) => Err(e),
    }
}
