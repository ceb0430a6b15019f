//! `weir traffic udp`: UDP flows, each packet at its own time of an absolute schedule.
//!
//! ```text
//!   flow 1  |    |    |    |         one thread takes the earliest of all flows' next packets,
//!   flow 2    |    |    |    |       sleeps until it is due, and sends it
//! ```
//!
//! Each flow is a source port (and, with `addresses`, one of many source addresses). The flows of a sender start at
//! random points of their first gap, so that they are not synchronized. The sender never waits for its own interface:
//! if its queue is full, the packet is refused and counted. Each packet begins with its sending time (`stamp`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use rand::RngExt;
use socket2::{Domain, Protocol, Socket, Type};
use weir_base::pace::Pace;
use weir_base::{Instant, Offered};
use weir_live::{clock, namespace};

use super::{Line, Rhythm, RunClock, Sent, Timetable, report, sleep_until, stamp};

/// Maximum number of flows of one sender: each has a socket.
pub const FLOWS_MAX: u32 = 50_000;

/// Options of a sender.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Address and port of the receiver.
    #[arg(value_name = "ADDRESS:PORT")]
    pub to: SocketAddr,
    /// Number of flows, each with its own source port.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=FLOWS_MAX as i64))]
    pub flows: u32,
    /// Offered load of each flow while on, counting payload only, like "2 Mbit" or "2*t - 1 Mbit".
    #[arg(long, default_value = "1 Mbit")]
    pub rate: Offered,
    /// Bytes of payload in each packet.
    #[arg(long, default_value = "1472", value_parser = clap::value_parser!(u32).range(1..=65_507))]
    pub payload: u32,
    /// First of the IPv4 source addresses over which the flows are spread [default: the host's own address].
    #[arg(long, value_name = "ADDRESS")]
    pub source: Option<Ipv4Addr>,
    /// Number of consecutive source addresses, starting at `source`.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_000))]
    pub addresses: u32,
    /// The spacing of the packets of a flow.
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
            "udp".to_owned(),
            self.to.to_string(),
            format!("--flows={}", self.flows),
            format!("--rate={}", self.rate),
            format!("--payload={}", self.payload),
            format!("--addresses={}", self.addresses),
        ];
        args.extend(self.rhythm.to_args());
        args.extend(self.source.map(|source| format!("--source={source}")));
        args.extend(self.timetable.to_args());
        args
    }
}

#[derive(Debug, Default)]
struct Counts {
    offered: u64,
    sent: u64,
    refused: u64,
    late: Vec<u32>,
}

/// Sends to the end of its time.
pub fn run(options: &Options) -> io::Result<()> {
    namespace::raise_file_limit(u64::from(options.flows) + 64)?;
    clock::precise_sleeps()?;
    let run = options.timetable.timing.begin();
    let sockets: Vec<_> = (0..options.flows)
        .map(|flow| open(options, flow))
        .collect::<io::Result<_>>()?;
    report(&Line::Ready)?;
    let counts = send(options, &run, &sockets)?;
    let payload = u64::from(options.payload);
    report(&Line::Sent(Sent {
        protocol: "udp".into(),
        port: options.to.port(),
        offered_bytes: Some(counts.offered * payload),
        window_bytes: counts.sent * payload,
        window_packets: counts.sent,
        refused_packets: counts.refused,
        late_s_p99: late_p99(counts.late),
        reconnects: 0,
    }))
}

fn open(options: &Options, flow: u32) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(options.to),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if let Some(first) = options.source {
        let address = u32::from(first).wrapping_add(flow % options.addresses);
        let source = SocketAddr::new(IpAddr::V4(address.into()), 0);
        socket.bind(&source.into())?;
    }
    socket.connect(&options.to.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn send(options: &Options, run: &RunClock, sockets: &[UdpSocket]) -> io::Result<Counts> {
    let mut payload = vec![0; options.payload as usize];
    let timetable = &options.timetable;
    let mut places = timetable.chance.places();
    let pace = |flow| {
        let pace = options
            .rhythm
            .pace(options.rate, options.payload, timetable, flow);
        pace.first_at(places.random())
    };
    let mut paces: Vec<Pace> = (0..sockets.len()).map(pace).collect();
    let due = |pace: &mut Pace| Some(run.at(pace.next_piece()?.since(Instant::ZERO)));
    let mut queue: BinaryHeap<Reverse<(Instant, usize)>> = paces
        .iter_mut()
        .enumerate()
        .filter_map(|(flow, pace)| Some(Reverse((due(pace)?, flow))))
        .collect();
    let end = run.at(options.timetable.until());
    let mut counts = Counts::default();
    while let Some(Reverse((when, flow))) = queue.pop() {
        let now = sleep_until(when.min(end));
        if now >= end {
            break;
        }
        stamp::write(&mut payload, now);
        let taken = match sockets[flow].send(&payload) {
            Ok(_) => true,
            Err(e) if is_full(&e) => false,
            // An ICMP error about an earlier packet; this packet was not sent.
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => false,
            Err(e) => return Err(e),
        };
        if run.in_window(now) {
            counts.offered += 1;
            counts.sent += u64::from(taken);
            counts.refused += u64::from(!taken);
            counts
                .late
                .push((now.since(when).as_nanos() / 1000).min(u64::from(u32::MAX)) as u32);
        }
        queue.extend(due(&mut paces[flow]).map(|next| Reverse((next, flow))));
    }
    sleep_until(end); // a sender that has finished stays as long as the others
    Ok(counts)
}

/// Whether the interface's queue, or the socket's own share of it, is full.
fn is_full(error: &io::Error) -> bool {
    const ENOBUFS: i32 = 105;
    error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(ENOBUFS)
}

/// The 99th percentile of microseconds, in seconds.
fn late_p99(mut late: Vec<u32>) -> f64 {
    late.sort_unstable();
    let place = late.len() * 99 / 100;
    late.get(place).map_or(0.0, |us| f64::from(*us) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::super::{Chance, Timing};
    use super::*;
    use weir_base::{Spacing, Span};

    #[test]
    fn packets_are_due_at_even_times_and_do_not_drift() {
        // 11776 bits per packet at 11.776 Mbit/s: one packet per millisecond.
        let rhythm = Rhythm {
            spacing: Spacing::Even,
            on: None,
            off: None,
        };
        let timetable = Timetable {
            chance: Chance {
                seed: 1,
                name: "udp".to_owned(),
                first: 0,
                step: 1,
            },
            from: Span::from_secs(2),
            starts: Vec::new(),
            until: None,
            timing: Timing {
                duration: Span::from_secs(2000),
                warm_up: Span::ZERO,
                interval: Span::from_millis(100),
                start_ns: None,
            },
        };
        let rate = "11.776 Mbit".parse().unwrap();
        let pace = rhythm.pace(rate, 1472, &timetable, 0);
        let mut pace = pace.first_at(0.5);
        let mut next = || {
            pace.next_piece()
                .unwrap()
                .since(Instant::ZERO)
                .as_secs_f64()
        };
        assert!((next() - 2.0005).abs() < 1e-9);
        (1..1_000_000).for_each(|_| {
            next();
        });
        assert!((next() - 1002.0005).abs() < 1e-6);
    }

    #[test]
    fn the_late_tail_is_the_99th_percentile() {
        assert_eq!(late_p99((0..100).collect()), 99e-6);
        assert_eq!(late_p99(Vec::new()), 0.0);
    }
}
