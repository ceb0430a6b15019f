//! `weir traffic load ce`: a CE with real sessions. It counts the events of its FEs, and configures one FE.
//!
//! ```text
//!   link 1 --+
//!   link 2 --+--> inputs (bounded) --> session::ce::Ce --> links
//!   link n --+
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time;
use weir_base::statistics::percentile;
use weir_base::{Instant, Span};
use weir_experiment::load::FES_MAX;
use weir_experiment::namespaces::process::memory_bytes;
use weir_forces_live::tml::{Common, Link, Outgoing, tml};
use weir_live::clock;
use weir_live::thread_times;
use weir_protocol::session::ce::{Ce, Event, LinkId, Manner, Params};
use weir_protocol::wire::Id;
use weir_protocol::wire::header::{Ack, Execution};

use super::Serve;
use crate::channel::{Channel, Input, heartbeats};
use crate::lines::Line;
use crate::message;
use crate::tally::CeReport;

/// Maximum number of waiting inputs from all links.
const INPUTS_MAX: usize = 256;
/// Maximum number of stored delays; later delays are not stored.
const DELAYS_MAX: usize = 4_000_000;
/// A Config must be answered within this time.
const ANSWER_MAX: Span = Span::from_secs(5);

/// Options of a CE.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Number of known FEs; their IDs start at 1.
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=FES_MAX as i64))]
    pub fes: u32,
    /// Time without a message after which an FE considers the CE dead; the CE sends heartbeats at a third of it.
    #[arg(long, default_value = "3 s")]
    pub dead: Span,
    /// Number of Configs to send to the first FE, one at a time, once all FEs are associated.
    #[arg(long, default_value = "0")]
    pub round_trips: u64,
    /// Transport and certificates.
    #[command(flatten)]
    pub channel: Channel,
}

/// Serves until standard input ends.
pub fn run(options: &Options) -> io::Result<()> {
    let local = super::local(Common {
        security: options.channel.of_ce(options.fes)?,
        ..Common::default()
    });
    let listening = tml(options.channel.transport).listen(&local);
    super::run(listening, Server::new(options)?)
}

struct Server {
    ce: Ce,
    /// The inputs of all links: the end for the links, and the end for the session.
    inputs: mpsc::Sender<(LinkId, Input)>,
    input: mpsc::Receiver<(LinkId, Input)>,
    links: BTreeMap<LinkId, Arc<Outgoing>>,
    next: u64,
    fes: u32,
    report: CeReport,
    /// Number of the last event of each FE.
    numbers: BTreeMap<Id, u32>,
    delays_us: Vec<u32>,
    /// Number of Configs to send, the time of the last one, and the round-trip times of the others.
    to_configure: u64,
    configured: Instant,
    round_trips_us: Vec<f64>,
}

impl Server {
    fn new(options: &Options) -> io::Result<Self> {
        let (inputs, input) = mpsc::channel(INPUTS_MAX);
        let params = Params {
            id: message::CE,
            assigns: None,
            heartbeats: heartbeats(options.dead),
            setup_max: Span::from_secs(20),
            links_max: FES_MAX as usize,
            window: 16,
            requests_max: 64,
            queue_bytes_max: 1 << 20,
        };
        Ok(Self {
            ce: Ce::new(params).map_err(io::Error::other)?,
            inputs,
            input,
            links: BTreeMap::new(),
            next: 0,
            fes: options.fes,
            report: CeReport::default(),
            numbers: BTreeMap::new(),
            delays_us: Vec::new(),
            to_configure: options.round_trips,
            configured: Instant::ZERO,
            round_trips_us: Vec::new(),
        })
    }

    fn take(&mut self, link: LinkId, input: Input) {
        let now = clock::now();
        match input {
            Input::Message(bytes) => self.ce.handle_message(now, link, &bytes),
            Input::Ended => {
                self.links.remove(&link);
                self.ce.handle_disconnected(now, link);
            }
            Input::Writable => self.ce.handle_writable(link, true),
        }
    }

    /// Carries out all outputs of the session.
    fn drive(&mut self) {
        loop {
            while let Some(transmit) = self.ce.poll_transmit(clock::now()) {
                self.send(transmit.link, transmit.message);
            }
            let Some(event) = self.ce.poll_event() else {
                return;
            };
            self.heed(event);
        }
    }

    fn send(&mut self, link: LinkId, message: Vec<u8>) {
        let Some(outgoing) = self.links.get(&link) else {
            return;
        };
        outgoing.send(message);
        if !outgoing.has_room() {
            self.ce.handle_writable(link, false);
            let (inputs, outgoing) = (self.inputs.clone(), outgoing.clone());
            tokio::spawn(async move {
                outgoing.writable().await;
                drop(outgoing);
                let _ = inputs.send((link, Input::Writable)).await;
            });
        }
    }

    fn heed(&mut self, event: Event) {
        match event {
            Event::Associated { fe, .. } => {
                self.numbers.remove(&fe);
                if self.ce.fes().count() == self.fes as usize {
                    self.configure();
                }
            }
            Event::Lost(..) => self.report.lost += 1,
            Event::Close(link) => drop(self.links.remove(&link)),
            Event::Notified(fe, event) => self.count(fe, message::reported(&event)),
            Event::Redirected(_, packets) => {
                self.report.packets += packets.redirects().len() as u64;
            }
            Event::Response { .. } => {
                let took = clock::now().since(self.configured).as_nanos();
                self.round_trips_us.push(took as f64 / 1e3);
                self.configure();
            }
            Event::Unanswered(..) | Event::Ended(..) => {}
        }
    }

    /// Sends the next Config, if any is left.
    fn configure(&mut self) {
        if self.to_configure == 0 {
            return;
        }
        self.to_configure -= 1;
        let now = clock::now();
        let manner = Manner {
            execution: Execution::AllOrNone,
            ack: Ack::Always,
            deadline: now + ANSWER_MAX,
        };
        self.configured = now;
        if let Ok(config) = message::change() {
            let _ = self.ce.configure(now, Id(1), config, manner); // a lost FE is counted elsewhere
        }
    }

    /// Counts an event: its number, and the time at which it was created.
    fn count(&mut self, fe: Id, value: Option<Vec<u8>>) {
        self.report.events += 1;
        let value = value.unwrap_or_default();
        let Some((number, rest)) = value.split_first_chunk() else {
            return;
        };
        let number = u32::from_be_bytes(*number);
        let last = self.numbers.insert(fe, number);
        let expected = last.map_or(0, |last| last.wrapping_add(1));
        self.report.missing += u64::from(number.wrapping_sub(expected));
        if let Some(made) = rest.first_chunk() {
            let made = u64::from_be_bytes(*made);
            let delay_us = clock::now().as_nanos().saturating_sub(made) / 1000;
            if self.delays_us.len() < DELAYS_MAX {
                self.delays_us
                    .push(delay_us.min(u64::from(u32::MAX)) as u32);
            }
        }
    }
}

impl Serve for Server {
    fn open(&mut self, link: Link) {
        self.next += 1;
        let id = LinkId(self.next);
        if !self.ce.handle_connected(clock::now(), id, link.proved) {
            return; // too many links: close this one
        }
        let (inputs, mut incoming) = (self.inputs.clone(), link.incoming);
        tokio::spawn(async move {
            while let Some(message) = incoming.recv().await {
                if inputs.send((id, Input::Message(message))).await.is_err() {
                    return;
                }
            }
            let _ = inputs.send((id, Input::Ended)).await;
        });
        self.links.insert(id, Arc::new(link.outgoing));
        self.drive();
    }

    async fn turn(&mut self) {
        let wait = self.ce.poll_timeout().map(|at| at.since(clock::now()));
        let wait = wait.map(|span| time::Duration::from_nanos(span.as_nanos()));
        tokio::select! {
            Some((link, input)) = self.input.recv() => self.take(link, input),
            () = time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                self.ce.handle_timeout(clock::now());
            }
        }
        self.drive();
    }

    fn report(&mut self) -> io::Result<Line> {
        let fes: Vec<Id> = self.ce.fes().map(|(fe, _)| fe).collect();
        let of_fes = fes.iter().filter_map(|fe| self.ce.statistics(*fe));
        let heartbeats = of_fes.fold([0, 0], |[sent, received], fe| {
            [sent + fe.heartbeats_sent, received + fe.heartbeats_received]
        });
        self.delays_us.sort_unstable();
        self.round_trips_us.sort_by(f64::total_cmp);
        let delays: Vec<f64> = self
            .delays_us
            .iter()
            .map(|us| f64::from(*us) / 1e3)
            .collect();
        let of = |values: &[f64], share| percentile(values, share).unwrap_or(0.0);
        Ok(Line::Sessions(CeReport {
            associated: fes.len() as u64,
            heartbeats,
            delay_ms: [0.5, 0.99, 1.0].map(|share| of(&delays, share)),
            round_trip_us: [0.5, 0.99].map(|share| of(&self.round_trips_us, share)),
            round_trips: self.round_trips_us.len() as u64,
            memory_bytes: memory_bytes("/proc/self/status", "VmRSS:"),
            threads: thread_times::read()?,
            ..self.report.clone()
        }))
    }
}
