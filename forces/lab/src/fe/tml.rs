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
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval};
use weir_base::{Instant, Span};
use weir_forces_live::tml::tcp_udp::TcpUdp;
use weir_forces_live::tml::{ChannelSettings, Common, Incoming, Link, Outgoing, Sent, Tml};
use weir_live::clock;
use weir_protocol::wire::Id;

use super::Pace;
use crate::ce::CeAddress;
use crate::channel::OPEN;
use crate::lines::Line;
use crate::message;
use crate::tally::Tally;
use weir_experiment::load::FES_MAX;

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

/// Options of a group of FEs.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// The CETMLs, each as ADDRESS:PORT/PORT; the last one serves all FEs that follow.
    #[arg(value_name = "CETML", required = true)]
    pub cetmls: Vec<CeAddress>,
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

/// Connects, waits for a line on standard input, sends, and reports.
pub fn run(options: &Options) -> io::Result<()> {
    super::run(options.fes, connect(options), async |links| {
        send(options, links).await
    })
}

async fn connect(options: &Options) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    for fe in 0..options.fes as usize {
        let Some(cetml) = options.cetmls.get(fe).or(options.cetmls.last()) else {
            continue;
        };
        let remote = cetml.remote(Common {
            security: OPEN,
            channel: ChannelSettings {
                combine: options.bytes as usize,
                ..ChannelSettings::default()
            },
            ..Common::default()
        });
        links.push(TcpUdp.connect(&remote).await.map_err(io::Error::other)?);
    }
    Ok(links)
}

async fn send(options: &Options, links: &mut Vec<Link>) -> io::Result<Line> {
    let start = clock::now();
    let mut fes = JoinSet::new();
    for (place, link) in links.drain(..).enumerate() {
        let id = Id(place as u32 + 1);
        if options.redirect {
            fes.spawn(redirect(id, link, start + options.duration));
            continue;
        }
        fes.spawn(Fe::new(options, id, link, start).run());
    }
    let mut all = Tally::default();
    while let Some(tally) = fes.join_next().await {
        all.add(tally.map_err(io::Error::other)?);
    }
    Ok(Line::Delivered(all.report()))
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

/// A sending FE.
struct Fe {
    id: Id,
    outgoing: Outgoing,
    incoming: Incoming,
    start: Instant,
    pace: Pace,
    /// Number of events to send.
    events: u64,
    bytes: u32,
    /// Time at which each event was found to be due; `None` once the event was answered, or if it was refused.
    sent: Vec<Option<Instant>>,
    /// Events that wait for credit.
    waiting: VecDeque<u32>,
    tally: Tally,
}

impl Fe {
    fn new(options: &Options, id: Id, link: Link, start: Instant) -> Self {
        let events = (options.per_s * options.duration.as_secs_f64()).round() as u64;
        Self {
            id,
            outgoing: link.outgoing,
            incoming: link.incoming,
            start,
            pace: Pace {
                per_s: options.per_s,
                phase: 1.0 - f64::from(id.0 - 1) / f64::from(options.fes),
                sent: 0,
            },
            events,
            bytes: options.bytes,
            sent: Vec::with_capacity(events as usize),
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
            let is_complete = self.pace.sent == self.events;
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
        self.tally.offered = self.events;
        self.tally
    }

    /// Appends the events that are due to the waiting events.
    fn enter(&mut self, now: Instant) {
        let (due, _) = self.pace.due(now.since(self.start));
        for _ in 0..due.min(self.events - self.pace.sent) {
            let number = self.pace.sent as u32;
            self.pace.sent += 1;
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
