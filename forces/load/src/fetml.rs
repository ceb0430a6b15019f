//! `weir traffic load fetml`: the FEs of a load test, many in one thread. Each sends events at a set rate and counts the
//! answers.
//!
//! ```text
//!   schedule -> event n -> queue -> transport -> CETML
//!   delay <- answer n <---------- transport <---'
//! ```
//!
//! Events without credit wait, up to [`WAITING_MAX`] of each FE; further events are refused, and count as not
//! delivered. The FEs wait [`PATIENCE`] after the last event for answers.
//!
//! With `redirect` an FE sends redirected packets instead, as many as the transport accepts. They are not answered: the
//! CETML counts the packets that arrive.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval};
use weir_base::{Instant, Span};
use weir_forces_live::tml::tcp_udp::TcpUdp;
use weir_forces_live::tml::{ChannelSettings, Common, Incoming, Link, Outgoing, Remote, Sent, Tml};
use weir_live::clock::{self, go_first, precise_sleeps};
use weir_live::namespace::raise_file_limit;
use weir_protocol::wire::Id;

use crate::lines::{Line, requests, say};
use crate::message;
use crate::plan::FES_MAX;
use crate::sessions::OPEN;
use crate::tally::Tally;

/// Maximum number of an FE's events that wait for credit; the paper's queues have the same number of packets.
const WAITING_MAX: usize = 100;
/// Length of a redirected packet, in bytes.
const PACKET_BYTES: u32 = 64;
/// Number of redirected packets that are offered before the transport runs.
const PACKETS_AT_ONCE: usize = 32;
/// Time after the end for which the FEs wait for answers.
pub(crate) const PATIENCE: Span = Span::from_secs(1);
/// Interval of the checks of the schedule: the resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);
/// The messages in flight are counted once per this number of ticks.
const TICKS_A_COUNT: u64 = 20;
/// File descriptors in addition to those of the links: each link has one for TCP and one for UDP.
const FILES: u64 = 64;

/// Options of a group of FEs.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// The CETMLs, each as ADDRESS:PORT/PORT; the last one serves all FEs that follow.
    #[arg(value_name = "CETML", required = true)]
    pub cetmls: Vec<Cetml>,
    /// Number of FEs.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=FES_MAX as i64))]
    pub fes: u32,
    /// Events per second of each FE.
    #[arg(long, default_value = "1000")]
    pub per_s: f64,
    /// Length of an event, in bytes.
    #[arg(long, default_value = "1024")]
    pub bytes: u32,
    /// Time during which events are sent.
    #[arg(long, default_value = "1 s")]
    pub duration: Span,
    /// Send 64-byte redirected packets instead of events, as fast as the transport permits, combined into messages of
    /// up to `bytes`.
    #[arg(long)]
    pub redirect: bool,
}

/// The address of a CETML for control messages, and its port for redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cetml {
    /// For control messages.
    pub control: SocketAddr,
    /// Port for redirects.
    pub redirect_port: u16,
}

impl std::str::FromStr for Cetml {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" must be ADDRESS:PORT/PORT, like 127.0.0.1:6704/6706");
        let (control, redirect_port) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Self {
            control: control.parse().map_err(|_| wrong())?,
            redirect_port: redirect_port.parse().map_err(|_| wrong())?,
        })
    }
}

impl std::fmt::Display for Cetml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.control, self.redirect_port)
    }
}

impl Options {
    /// As arguments of `weir traffic`.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "load".to_owned(),
            "fetml".to_owned(),
            format!("--fes={}", self.fes),
            format!("--per-s={}", self.per_s),
            format!("--bytes={}", self.bytes),
            format!("--duration={}", self.duration),
        ];
        args.extend(self.redirect.then(|| "--redirect".to_owned()));
        args.extend(self.cetmls.iter().map(Cetml::to_string));
        args
    }
}

/// Connects, waits for a line on standard input, sends, and reports.
pub fn run(options: &Options) -> io::Result<()> {
    raise_file_limit(2 * u64::from(options.fes) + FILES)?;
    precise_sleeps()?;
    let _ = go_first(); // without the privilege, other programs disturb the test
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(load(options))
}

async fn load(options: &Options) -> io::Result<()> {
    let mut requests = requests()?;
    let mut links = Vec::new();
    for fe in 0..options.fes {
        let cetml = options.cetmls.get(fe as usize).or(options.cetmls.last());
        let Some(cetml) = cetml else { continue };
        let remote = Remote {
            address: cetml.control,
            redirect_port: Some(cetml.redirect_port),
            common: Common {
                security: OPEN,
                channel: ChannelSettings {
                    combine: options.bytes as usize,
                    ..ChannelSettings::default()
                },
                ..Common::default()
            },
        };
        links.push(TcpUdp.connect(&remote).await.map_err(io::Error::other)?);
    }
    say(&Line::Connected)?;
    if requests.recv().await.is_none() {
        return Ok(()); // the caller has ended
    }
    let start = clock::now();
    let mut fes = JoinSet::new();
    for (place, link) in links.into_iter().enumerate() {
        let id = Id(place as u32 + 1);
        if options.redirect {
            fes.spawn(redirect(id, link, start + options.duration));
            continue;
        }
        // Shifts the FEs against each other, so that they are not synchronized.
        let share = place as f64 / f64::from(options.fes) / options.per_s;
        let schedule = Schedule {
            start: start + Span::from_secs_f64(share),
            gap_s: 1.0 / options.per_s,
            events: (options.per_s * options.duration.as_secs_f64()).round() as u32,
        };
        fes.spawn(Fe::new(id, link, schedule, options.bytes).run());
    }
    let mut all = Tally::default();
    while let Some(tally) = fes.join_next().await {
        all.add(tally.map_err(io::Error::other)?);
    }
    say(&Line::Delivered(all.report()))?;
    let _ = requests.recv().await; // the links stay open until then
    Ok(())
}

/// Sends redirected packets until the end.
async fn redirect(id: Id, link: Link, end: Instant) -> Tally {
    let mut tally = Tally::default();
    let Ok(packet) = message::redirect(id, PACKET_BYTES) else {
        return tally;
    };
    while clock::now() < end && link.incoming.ended().is_none() {
        for _ in 0..PACKETS_AT_ONCE {
            tally.offered += 1;
            tally.refused += u64::from(link.outgoing.send(packet.clone()) != Sent::Queued);
        }
        yield_now().await;
    }
    tally
}

/// The times of an FE's events.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    start: Instant,
    gap_s: f64,
    events: u32,
}

impl Schedule {
    /// The number of events whose time has passed.
    fn due(&self, now: Instant) -> u32 {
        let since = now.as_nanos().saturating_sub(self.start.as_nanos());
        if now < self.start {
            0
        } else {
            ((since as f64 / 1e9 / self.gap_s) as u32 + 1).min(self.events)
        }
    }
}

/// A sending FE.
struct Fe {
    id: Id,
    outgoing: Outgoing,
    incoming: Incoming,
    schedule: Schedule,
    bytes: u32,
    /// Time at which each event was found to be due; `None` once the event was answered, or if it was refused.
    sent: Vec<Option<Instant>>,
    /// Events that wait for credit.
    waiting: VecDeque<u32>,
    tally: Tally,
}

impl Fe {
    fn new(id: Id, link: Link, schedule: Schedule, bytes: u32) -> Self {
        Self {
            id,
            outgoing: link.outgoing,
            incoming: link.incoming,
            schedule,
            bytes,
            sent: Vec::with_capacity(schedule.events as usize),
            waiting: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// Sends all events, and waits for their answers.
    async fn run(mut self) -> Tally {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut ticks = 0;
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                _ = tick.tick() => {}
                message = self.incoming.recv() => match message {
                    Some(message) => {
                        self.take(&message);
                        self.send();
                        continue;
                    }
                    None => break, // the link is lost
                },
            }
            let now = clock::now();
            self.enter(now);
            self.send();
            let is_complete = self.sent.len() == self.schedule.events as usize;
            if !is_complete && ticks % TICKS_A_COUNT == 0 {
                self.tally.on_their_way.push(self.on_their_way());
            }
            ticks += 1;
            if is_complete {
                let ended = *ended.get_or_insert(now);
                if self.on_their_way() == 0 || now >= ended + PATIENCE {
                    break;
                }
            }
        }
        self.tally.offered = u64::from(self.schedule.events);
        self.tally
    }

    /// Appends the events that are due to the waiting events.
    fn enter(&mut self, now: Instant) {
        for number in self.sent.len() as u32..self.schedule.due(now) {
            let has_room = self.waiting.len() < WAITING_MAX;
            self.tally.offered += 1;
            self.tally.refused += u64::from(!has_room);
            self.sent.push(has_room.then_some(now));
            self.waiting.extend(has_room.then_some(number));
        }
    }

    /// Sends the events for which there is credit.
    fn send(&mut self) {
        while self.outgoing.has_room()
            && let Some(number) = self.waiting.pop_front()
        {
            let event = message::event(self.id, number, self.bytes);
            if !event.is_ok_and(|event| self.outgoing.send(event) == Sent::Queued) {
                self.tally.refused += 1; // the link has ended
                self.sent[number as usize] = None;
            }
        }
    }

    /// Counts an answer.
    fn take(&mut self, bytes: &[u8]) {
        let Some(number) = message::answered(bytes) else {
            return;
        };
        if let Some(sent) = self.sent.get_mut(number as usize).and_then(Option::take) {
            self.tally.deliver(clock::now().since(sent).as_nanos());
        }
    }

    fn on_their_way(&self) -> u64 {
        self.tally.offered - self.tally.refused - self.tally.delivered
    }
}
