//! `weir traffic load fe`: FEs with real sessions, many in one thread. Each sends events and redirected packets.

use std::io;
use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time;
use weir_base::{Instant, Rate, Span};
use weir_forces_live::tml::{
    ChannelSettings, Common, Link, Remote, Schedule, Sent, TmlError, Transport,
};
use weir_live::clock::{self, go_first, precise_sleeps};
use weir_live::namespace::raise_file_limit;
use weir_protocol::session::execute::{self, Answer, Leaf, Target};
use weir_protocol::session::fe::{Event, Failover, Fe, Params, Retry, Standby, Ticket};
use weir_protocol::wire::header::Flags;
use weir_protocol::wire::message::{AssociationSetup, Config};
use weir_protocol::wire::{Body, Id, ResultCode};

use crate::ce::heartbeats;
use crate::fetml::Cetml;
use crate::lines::{Line, requests, say};
use crate::message::{self, CE};
use crate::plan::FES_MAX;
use crate::sessions::Channel;

/// Maximum length in bytes of an event and of a packet, so that each redirect fits in a datagram.
const BYTES: u32 = 1000;

/// The golden ratio: its multiples are spread evenly over a gap.
const GOLDEN: f64 = 0.618_034;

/// Options of FEs.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// The CE, as ADDRESS:PORT/PORT.
    #[arg(value_name = "CE")]
    pub ce: Cetml,
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
    #[arg(long, default_value = "dppbrb", value_parser = schedule)]
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

fn schedule(word: &str) -> Result<Schedule, String> {
    let known = || {
        format!(
            "unknown schedule; permitted: {}",
            Schedule::WORDS.join(", ")
        )
    };
    Schedule::from_word(word).ok_or_else(known)
}

impl Options {
    /// As arguments of `weir traffic`.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let schedule = Schedule::ALL.iter().find(|(_, s)| *s == self.schedule);
        let mut args = vec![
            "load".to_owned(),
            "fe".to_owned(),
            self.ce.to_string(),
            format!("--first={}", self.first),
            format!("--fes={}", self.fes),
            format!("--per-s={}", self.per_s),
            format!("--bytes={}", self.bytes),
            format!("--packets-per-s={}", self.packets_per_s),
            format!("--duration={}", self.duration),
            format!("--dead={}", self.dead),
        ];
        args.extend(schedule.map(|(word, _)| format!("--schedule={word}")));
        args.extend(self.rate.map(|rate| format!("--rate={rate}")));
        args.extend(self.channel.to_args());
        args
    }
}

/// Associates all FEs, waits for a line on standard input, sends, and reports.
pub fn run(options: &Options) -> io::Result<()> {
    raise_file_limit(2 * u64::from(options.fes) + 64)?;
    precise_sleeps()?;
    let _ = go_first(); // without the privilege, other programs disturb the test
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(load(options))
}

async fn load(options: &Options) -> io::Result<()> {
    let mut requests = requests()?;
    let (start, started) = watch::channel(None);
    let (tell, mut associated) = mpsc::channel(options.fes as usize);
    let mut fes = JoinSet::new();
    for id in options.first..options.first + options.fes {
        let fe = Element::new(options, Id(id)).map_err(io::Error::other)?;
        fes.spawn(fe.run(started.clone(), tell.clone()));
    }
    for _ in 0..options.fes {
        tokio::select! {
            _ = associated.recv() => {}
            ended = fes.join_next() => {
                return Err(io::Error::other(format!("an FE exited early: {ended:?}")));
            }
        }
    }
    say(&Line::Connected)?;
    if requests.recv().await.is_none() {
        return Ok(()); // the caller has ended
    }
    start.send_replace(Some(clock::now()));
    let mut sum = [0, 0];
    for _ in 0..options.fes {
        let Some(sent) = associated.recv().await else {
            break;
        };
        sum = [sum[0] + sent[0], sum[1] + sent[1]];
    }
    say(&Line::Sent {
        events: sum[0],
        packets: sum[1],
    })?;
    let _ = requests.recv().await; // the associations last until then
    Ok(())
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

/// The times of messages sent at a rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    per_s: f64,
    /// The part of a gap that has passed at the start, so that FEs are not synchronized.
    phase: f64,
    sent: u64,
}

impl Pace {
    /// The number of messages due at this time after the start, and the time of the next message.
    fn due(&self, since: Span) -> (u64, Option<Span>) {
        if self.per_s <= 0.0 {
            return (0, None);
        }
        let due = (since.as_secs_f64() * self.per_s + self.phase) as u64;
        let next = Span::from_secs_f64(((due + 1) as f64 - self.phase) / self.per_s);
        (due.saturating_sub(self.sent), Some(next))
    }
}

/// An FE with its session.
struct Element {
    fe: Fe,
    remote: Arc<Remote>,
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
    tell: Option<mpsc::Sender<[u64; 2]>>,
}

impl Element {
    fn new(options: &Options, id: Id) -> io::Result<Self> {
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
        let remote = Remote {
            address: options.ce.control,
            redirect_port: Some(options.ce.redirect_port),
            common: Common {
                security: options.channel.of_fe(id.0)?,
                channel: ChannelSettings {
                    discipline: options.schedule.spec(),
                    rate: options.rate,
                    ..ChannelSettings::default()
                },
                ..Common::default()
            },
        };
        let pace = |per_s| Pace {
            per_s,
            phase: (f64::from(id.0) * GOLDEN).fract(),
            sent: 0,
        };
        Ok(Self {
            fe: Fe::new(clock::now(), params).map_err(io::Error::other)?,
            remote: Arc::new(remote),
            transport: options.channel.transport,
            link: None,
            events: pace(options.per_s),
            packets: pace(options.packets_per_s),
            bytes: options.bytes,
            duration: options.duration,
            is_blocked: false,
            wants_link: false,
            tell: None,
        })
    }

    /// Runs until the process ends.
    async fn run(
        mut self,
        mut started: watch::Receiver<Option<Instant>>,
        tell: mpsc::Sender<[u64; 2]>,
    ) {
        self.tell = Some(tell);
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
                let _ = self.fe.redirect(now, packet); // a redirect may be lost
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
        let opened: Result<Link, TmlError> = self.transport.tml().connect(&self.remote).await;
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
        if let Some(tell) = &self.tell {
            let _ = tell.try_send([self.events.sent, self.packets.sent]); // as many places as FEs
        }
    }
}

/// The inputs of a link for the session.
enum Input {
    Message(Vec<u8>),
    Writable,
    Ended,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_from_its_phase_on() {
        let mut pace = Pace {
            per_s: 10.0,
            phase: 0.5,
            sent: 0,
        };
        let ms = Span::from_millis;
        assert_eq!(pace.due(ms(0)), (0, Some(ms(50))));
        assert_eq!(pace.due(ms(260)), (3, Some(ms(350))));
        pace.sent = 2;
        assert_eq!(pace.due(ms(260)).0, 1);
        pace.per_s = 0.0;
        assert_eq!(pace.due(ms(260)), (0, None));
    }
}
