//! `weir traffic load fe`: FEs with real sessions, many in one thread. Each sends events and redirected packets.

use std::io;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time;
use weir_base::{Instant, Rate, Span};
use weir_experiment::load::FES_MAX;
use weir_forces_live::tml::{
    ChannelSettings, Common, Link, Remote, Schedule, Sent, TmlError, Transport, tml,
};
use weir_live::clock;
use weir_protocol::session::execute::{self, Answer, Leaf, Target};
use weir_protocol::session::fe::{Event, Failover, Fe, Params, Retry, Standby, Ticket};
use weir_protocol::wire::header::{Flags, Priority};
use weir_protocol::wire::message::{AssociationSetup, Config};
use weir_protocol::wire::{Body, Id, ResultCode};

use super::Pace;
use crate::channel::CeAddress;
use crate::channel::{Channel, Input, heartbeats};
use crate::lines::Line;
use crate::message::{self, CE};

/// Maximum length in bytes of an event and of a packet, so that each redirect fits in a datagram.
const BYTES: u32 = 1000;

/// The golden ratio: its multiples are spread evenly over a gap.
const GOLDEN: f64 = 0.618_034;

/// Options of FEs.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// The CE, as ADDRESS:PORT/PORT.
    #[arg(value_name = "CE")]
    pub ce: CeAddress,
    /// ID of the first FE; the others have consecutive IDs.
    #[arg(long, default_value = "1")]
    pub first: u32,
    /// Number of FEs.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=FES_MAX as i64))]
    pub fes: u32,
    /// Events per second of each FE.
    #[arg(long, default_value = "10")]
    pub per_s: f64,
    /// Length of an event, in bytes.
    #[arg(long, default_value = "100")]
    pub bytes: u32,
    /// Redirected packets per second of each FE, 1000 B each.
    #[arg(long, default_value = "0")]
    pub packets_per_s: f64,
    /// Rate of each FE's channel [default: unlimited].
    #[arg(long)]
    pub rate: Option<Rate>,
    /// Scheduling of events and redirected packets: dppbrb, priorities, drop_tail.
    #[arg(long, default_value = "dppbrb")]
    pub schedule: Schedule,
    /// Time during which events and packets are sent.
    #[arg(long, default_value = "1 s")]
    pub duration: Span,
    /// Time without a message after which an FE considers the CE dead.
    #[arg(long, default_value = "3 s")]
    pub dead: Span,
    /// Transport and certificates.
    #[command(flatten)]
    pub channel: Channel,
}

/// Associates all FEs, waits for a line on standard input, sends, and reports.
pub fn run(options: &Options) -> io::Result<()> {
    let associate = Associated::new(options);
    super::run(options.fes, associate, Associated::send)
}

/// A group of FEs that are associated. They end when this is dropped.
struct Associated {
    fes: JoinSet<()>,
    start: watch::Sender<Option<Instant>>,
    /// From each FE: once when it is associated, and at the end with the numbers of sent events and packets.
    counts: mpsc::Receiver<[u64; 2]>,
}

impl Associated {
    async fn new(options: &Options) -> io::Result<Self> {
        let (start, started) = watch::channel(None);
        let (tell, mut counts) = mpsc::channel(options.fes as usize);
        let mut fes = JoinSet::new();
        for id in options.first..options.first + options.fes {
            let fe = Element::new(options, Id(id), tell.clone())?;
            fes.spawn(fe.run(started.clone()));
        }
        for _ in 0..options.fes {
            tokio::select! {
                _ = counts.recv() => {}
                ended = fes.join_next() => {
                    return Err(io::Error::other(format!("an FE exited early: {ended:?}")));
                }
            }
        }
        Ok(Self { fes, start, counts })
    }

    async fn send(&mut self) -> io::Result<Line> {
        self.start.send_replace(Some(clock::now()));
        let (mut events, mut packets) = (0, 0);
        for _ in 0..self.fes.len() {
            let Some(sent) = self.counts.recv().await else {
                break;
            };
            events += sent[0];
            packets += sent[1];
        }
        Ok(Line::Sent { events, packets })
    }
}

/// Accepts every change.
struct Accepts;

impl Target for Accepts {
    fn apply(&mut self, _: &Leaf<'_>) -> Answer {
        Answer::code(ResultCode::Success)
    }

    fn undo(&mut self) {}

    fn keep(&mut self) {}
}

/// An FE with its session.
struct Element {
    fe: Fe,
    remote: Remote,
    transport: Transport,
    link: Option<Link>,
    events: Pace,
    packets: Pace,
    bytes: u32,
    duration: Span,
    /// Whether the session waits for credit.
    is_blocked: bool,
    /// Whether a link is to be opened.
    wants_link: bool,
    /// Reports that the FE is associated, and at the end the numbers of sent events and packets.
    tell: mpsc::Sender<[u64; 2]>,
}

impl Element {
    fn new(options: &Options, id: Id, tell: mpsc::Sender<[u64; 2]>) -> io::Result<Self> {
        let params = Params {
            id,
            setup: AssociationSetup::new(Vec::new()).map_err(io::Error::other)?,
            extended_results: false,
            groups: Vec::new(),
            ces: vec![CE],
            heartbeats: heartbeats(options.dead),
            failover: Failover {
                keeps: None,
                standby: Standby::None,
            },
            retry: Retry::default(),
            requests_max: 64,
            queue_bytes_max: 1 << 16,
        };
        let remote = options.ce.remote(Common {
            security: options.channel.of_fe(id.0)?,
            channel: ChannelSettings {
                discipline: options.schedule.spec(),
                rate: options.rate,
                ..ChannelSettings::default()
            },
            ..Common::default()
        });
        let pace = |per_s| Pace {
            per_s,
            phase: (f64::from(id.0) * GOLDEN).fract(),
            sent: 0,
        };
        Ok(Self {
            fe: Fe::new(clock::now(), params).map_err(io::Error::other)?,
            remote,
            transport: options.channel.transport,
            link: None,
            events: pace(options.per_s),
            packets: pace(options.packets_per_s),
            bytes: options.bytes,
            duration: options.duration,
            is_blocked: false,
            wants_link: false,
            tell,
        })
    }

    /// Runs until the process ends.
    async fn run(mut self, mut started: watch::Receiver<Option<Instant>>) {
        let mut has_ended = false;
        loop {
            self.drive();
            if std::mem::take(&mut self.wants_link) {
                self.connect().await;
                continue;
            }
            let now = clock::now();
            let begun = *started.borrow();
            let mut wake = self.fe.poll_timeout();
            if let Some(start) = begun.filter(|_| !has_ended) {
                if now.since(start) < self.duration {
                    wake = wake.into_iter().chain(self.send_due(now, start)).min()
                } else {
                    has_ended = true;
                    self.tell_counts();
                }
                self.drive();
            }
            let wait = wake.map_or(Span::from_secs(1), |at| at.since(clock::now()));
            let wait = time::Duration::from_nanos(wait.as_nanos());
            tokio::select! {
                input = next(&mut self.link, self.is_blocked) => self.take(input),
                _ = started.changed() => {}
                () = time::sleep(wait) => self.fe.handle_timeout(clock::now()),
            }
        }
    }

    /// Sends the messages that are due; returns the time at which the next message is due.
    fn send_due(&mut self, now: Instant, start: Instant) -> Option<Instant> {
        let since = now.since(start);
        let (events, next_event) = self.events.due(since);
        for _ in 0..events {
            let mut head = (self.events.sent as u32).to_be_bytes().to_vec();
            head.extend(now.as_nanos().to_be_bytes());
            if let Ok(event) = message::report(&head, self.bytes) {
                let _ = self.fe.notify(now, &event); // the CE sees a missing number
            }
            self.events.sent += 1;
            self.drive();
        }
        let (packets, next_packet) = self.packets.due(since);
        for _ in 0..packets {
            if let Ok(packet) = message::packet(BYTES) {
                let _ = self.fe.redirect(now, packet, Priority::OTHER_REDIRECT); // a redirect may be lost
            }
            self.packets.sent += 1;
            self.drive();
        }
        next_event
            .into_iter()
            .chain(next_packet)
            .min()
            .map(|next| start + next)
    }

    async fn connect(&mut self) {
        let opened: Result<Link, TmlError> = tml(self.transport).connect(&self.remote).await;
        let now = clock::now();
        match opened {
            Ok(link) => {
                self.link = Some(link);
                self.set_blocked(false);
                self.fe.handle_connected(now, CE);
            }
            Err(error) => {
                eprintln!("{}: {error}", self.fe.id());
                self.fe.handle_disconnected(now, CE);
            }
        }
    }

    fn take(&mut self, input: Input) {
        let now = clock::now();
        match input {
            Input::Message(message) => self.fe.handle_message(now, CE, &message),
            Input::Writable => self.set_blocked(false),
            Input::Ended => {
                self.link = None;
                self.fe.handle_disconnected(now, CE);
            }
        }
    }

    /// Carries out all outputs of the session.
    fn drive(&mut self) {
        loop {
            while let Some(transmit) = self.fe.poll_transmit() {
                let Some(link) = &self.link else { continue };
                if link.outgoing.send(transmit.message) == Sent::Closed {
                    continue; // the end of the link follows
                }
                let has_room = link.outgoing.has_room();
                self.set_blocked(!has_room);
            }
            let Some(event) = self.fe.poll_event() else {
                return;
            };
            match event {
                Event::Connect(_) => self.wants_link = true,
                Event::Disconnect(_) => self.link = None,
                Event::Associated(..) => self.tell_counts(),
                Event::Config(ticket, _, flags, config) => self.accept(ticket, flags, &config),
                _ => {}
            }
        }
    }

    fn set_blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
        self.fe.handle_writable(CE, !is_blocked);
    }

    fn accept(&mut self, ticket: Ticket, flags: Flags, config: &Config) {
        let answer = execute::config(config, flags.execution, flags.ack, &mut Accepts);
        let answer = answer.ok().flatten().map(Body::ConfigResponse);
        let _ = self.fe.respond(clock::now(), ticket, answer); // the CE counts a missing answer
    }

    /// Reports that the FE is associated, or the numbers of sent events and packets.
    fn tell_counts(&self) {
        let _ = self.tell.try_send([self.events.sent, self.packets.sent]); // as many places as FEs
    }
}

/// The next input of the link; waits forever without a link.
async fn next(link: &mut Option<Link>, is_blocked: bool) -> Input {
    let Some(link) = link else {
        return std::future::pending().await;
    };
    tokio::select! {
        message = link.incoming.recv() => message.map_or(Input::Ended, Input::Message),
        () = link.outgoing.writable(), if is_blocked => Input::Writable,
    }
}
