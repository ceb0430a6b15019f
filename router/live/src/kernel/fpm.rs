//! Takes routes from FRR's zebra by FPM (forwarding plane manager; zebra's module `dplane_fpm_nl`).
//!
//! ```text
//! zebra --TCP--> Server: whole frames --Event--> Fpm::apply --> TableState
//!       <------- answers, once published <-----------+
//! ```
//!
//! zebra connects and replays all routes, followed by changes. FPM has no message that ends the replay: it has ended
//! when nothing comes for a while. Routes of a lost connection stay until the next replay has ended, so that a
//! restarted zebra interrupts nothing, but not forever ([`Patience`]).
//!
//! FPM has no authentication: any program that can connect could redirect packets. So the address must be on loopback.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::fpm_message::{self, Malformed, Update};
use super::netlink::Message;
pub use super::routes::fpm::FpmCounts;
use super::tables::{Effect, TableState};

/// Events that wait to be applied, each at most [`READ_BYTES`] long; then zebra has to wait.
const EVENTS_WAITING_MAX: usize = 16;
/// Maximum bytes of one read; the longest frame fits.
const READ_BYTES: usize = 1 << 16;
/// Maximum bytes of answers that wait for a publication; then zebra has to wait.
const ANSWERS_BYTES_MAX: usize = 16 << 20;
/// Bundles of answers that wait for zebra.
const BUNDLES_MAX: usize = 4;
/// zebra reads answers within this time, or gets no more.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Time between attempts to accept a peer.
const ACCEPT_GAP: Duration = Duration::from_secs(1);
/// Maximum unknown objects that are reported by number.
const REPORTED_MAX: usize = 64;

/// How long routes wait for being repeated after a connection was lost.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A replay has ended when nothing has come for this time.
    pub quiet: Duration,
    /// Routes are removed if no replay has repeated them in this time.
    pub stale: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            quiet: Duration::from_secs(10),
            stale: Duration::from_secs(300),
        }
    }
}

/// Why routes cannot be taken by FPM.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for FPM at {address}: {source}; is another FPM server running?")]
pub struct ListenError {
    address: SocketAddr,
    source: io::Error,
}

/// Events of a peer, to be applied to tables.
#[derive(Debug)]
pub struct Fpm {
    events: mpsc::Receiver<Event>,
    answers: mpsc::Sender<Vec<u8>>,
    /// Answers about routes that are not published yet.
    unpublished: Vec<u8>,
    /// Whether zebra gets no answers.
    is_silent: bool,
    /// Unknown objects that were reported since the peer connected.
    reported: BTreeSet<u32>,
    /// Whether a refusal, or an unreadable message, was reported since the peer connected.
    refused: bool,
    unreadable: bool,
}

/// Events of the connection.
#[derive(Debug)]
pub(super) enum Event {
    /// A peer begins to replay its routes.
    Replay,
    /// Complete frames.
    Frames(Vec<u8>),
    /// The replay has ended, or is overdue.
    Replayed,
}

impl Fpm {
    /// Listens at an address, which must be on loopback. Call it within a runtime.
    pub fn listen(address: SocketAddr) -> Result<Self, ListenError> {
        let bound = std::net::TcpListener::bind(address);
        let started = bound.and_then(|listener| Self::start(listener, Patience::default()));
        started.map_err(|source| ListenError { address, source })
    }

    /// Sends zebra no answers: a publication is not yet a route in use.
    pub fn without_answers(mut self) -> Self {
        self.is_silent = true;
        self
    }

    /// Starts to accept a peer, on the runtime of the caller.
    pub fn start(listener: std::net::TcpListener, patience: Patience) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (events, inbox) = mpsc::channel(EVENTS_WAITING_MAX);
        let (answers, outbox) = mpsc::channel(BUNDLES_MAX);
        let server = Server {
            listener: TcpListener::from_std(listener)?,
            events,
            answers: outbox,
            patience,
        };
        tokio::spawn(async move {
            let ended = server.events.clone();
            tokio::select! {
                () = ended.closed() => {}
                () = server.run() => {}
            }
        });
        Ok(Self {
            events: inbox,
            answers,
            unpublished: Vec::new(),
            is_silent: false,
            reported: BTreeSet::new(),
            refused: false,
            unreadable: false,
        })
    }

    /// Waits for the next event. May be cancelled.
    pub(super) async fn next(&mut self) -> Event {
        if self.unpublished.len() < ANSWERS_BYTES_MAX
            && let Some(event) = self.events.recv().await
        {
            return event;
        }
        std::future::pending().await
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, event: Event, state: &mut TableState) -> Effect {
        match event {
            Event::Replay => {
                state.begin_fpm_replay();
                self.unpublished.clear();
                self.reported.clear();
                (self.refused, self.unreadable) = (false, false);
                Effect::Nothing
            }
            Event::Frames(bytes) => {
                let before = state.fpm_counts();
                let messages = fpm_message::all_messages(&bytes);
                let effects = messages.map(|message| self.apply_message(&message, state));
                let effect = effects.max().unwrap_or(Effect::Nothing);
                effect.max(effect_on_counts(before, state))
            }
            Event::Replayed => end_replay(state),
        }
    }

    fn apply_message(&mut self, message: &Message<'_>, state: &mut TableState) -> Effect {
        let update = match fpm_message::read(message) {
            Ok(Some(update)) => update,
            Ok(None) => return Effect::Nothing,
            Err(error) => {
                if !std::mem::replace(&mut self.unreadable, true) {
                    warn!(kind = message.kind, %error, "FPM: ignoring a message that cannot be parsed");
                }
                return Effect::Nothing;
            }
        };
        let is_route = matches!(update, Update::Route(..));
        let unknown = self.unknown_object(&update, state);
        let applied = state.apply_fpm(update);
        if let Err(full) = applied
            && !std::mem::replace(&mut self.refused, true)
        {
            warn!("FPM: routes are not followed: {full}");
        }
        if is_route && !unknown && !self.is_silent {
            let answer = fpm_message::answer(message, applied.is_ok());
            self.unpublished.extend(answer.into_iter().flatten());
        }
        applied.unwrap_or(Effect::Nothing)
    }

    /// Whether an update is a route that names an object which has not arrived. Reports the object.
    fn unknown_object(&mut self, update: &Update, state: &TableState) -> bool {
        let Update::Route(prefix, route) = update else {
            return false;
        };
        let Some(id) = route.object.filter(|id| !state.knows_fpm_object(*id)) else {
            return false;
        };
        if self.reported.len() < REPORTED_MAX && self.reported.insert(id) {
            warn!(%prefix, next_hop = id, "FPM: a route names an unknown next-hop object, and is unused until it arrives");
        }
        true
    }

    /// Sends the answers about routes that are published now.
    pub(super) fn published(&mut self) {
        if self.unpublished.is_empty() {
            return;
        }
        if let Ok(place) = self.answers.try_reserve() {
            place.send(std::mem::take(&mut self.unpublished));
        }
    }
}

/// Removes what a replay has not repeated. May take long.
pub(super) fn end_replay(state: &mut TableState) -> Effect {
    let before = state.fpm_counts();
    let effect = state.end_fpm_replay();
    let now = state.fpm_counts();
    info!(
        routes = now.routes,
        next_hop_objects = now.objects,
        unresolved = now.unresolved,
        removed = before.routes - now.routes,
        "FPM: replay complete"
    );
    effect.max(effect_on_counts(before, state))
}

/// The counts are published like the tables, even if the kernel has the same routes.
fn effect_on_counts(before: FpmCounts, state: &TableState) -> Effect {
    match state.fpm_counts() == before {
        true => Effect::Nothing,
        false => Effect::Changed,
    }
}

/// Accepts peers, one at a time.
struct Server {
    listener: TcpListener,
    events: mpsc::Sender<Event>,
    answers: mpsc::Receiver<Vec<u8>>,
    patience: Patience,
}

/// Why a session has ended.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("closed by the peer")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("malformed stream: at byte {0} of the connection begins {1}")]
    Malformed(u64, Malformed),
}

impl Server {
    async fn run(mut self) {
        let mut stale_at = None;
        loop {
            let accepted = match stale_at {
                Some(at) => timeout_at(at, self.listener.accept()).await,
                None => Ok(self.listener.accept().await),
            };
            match accepted {
                Ok(Ok((stream, peer))) => {
                    info!(%peer, "FPM: connected");
                    let end = self.session(stream, &mut stale_at).await;
                    warn!(%end, "FPM: connection lost; its routes stay until a replay ends or they expire");
                    let at = Instant::now() + self.patience.stale;
                    stale_at = Some(stale_at.map_or(at, |earlier: Instant| earlier.min(at)));
                    sleep(ACCEPT_GAP).await; // a peer that keeps reconnecting must not fill the log
                }
                Ok(Err(error)) => {
                    warn!(%error, "FPM: cannot accept a connection; retrying later");
                    sleep(ACCEPT_GAP).await; // for example, too many open files
                }
                Err(_elapsed) => {
                    stale_at = None;
                    self.send(Event::Replay).await;
                    self.send(Event::Replayed).await;
                }
            }
        }
    }

    /// Serves a peer until the connection ends. What an earlier connection has left is too old at `stale_at`.
    async fn session(&mut self, mut stream: TcpStream, stale_at: &mut Option<Instant>) -> End {
        while self.answers.try_recv().is_ok() {} // for an earlier peer
        let (mut reader, mut writer) = stream.split();
        let (mut bytes, mut offset) = (Vec::new(), 0);
        let (mut begun, mut replaying, mut answering) = (false, true, true);
        let mut heard_at = Instant::now();
        let too_old_at = stale_at.unwrap_or(heard_at + self.patience.stale);
        loop {
            bytes.reserve(READ_BYTES);
            let ends_at = match begun {
                true => too_old_at.min(heard_at + self.patience.quiet),
                false => too_old_at,
            };
            tokio::select! {
                read = reader.read_buf(&mut bytes) => {
                    match read {
                        Ok(0) => return End::Closed,
                        Ok(_) => {}
                        Err(error) => return error.into(),
                    }
                    let len = match fpm_message::complete(&bytes) {
                        Ok(len) => len,
                        Err((at, why)) => return End::Malformed(offset + at as u64, why),
                    };
                    if len > 0 {
                        if !std::mem::replace(&mut begun, true) {
                            self.send(Event::Replay).await;
                        }
                        let rest = bytes.split_off(len);
                        self.send(Event::Frames(std::mem::replace(&mut bytes, rest))).await;
                        offset += len as u64;
                    }
                    heard_at = Instant::now();
                }
                () = sleep_until(ends_at), if replaying => {
                    if !std::mem::replace(&mut begun, true) {
                        self.send(Event::Replay).await;
                    }
                    self.send(Event::Replayed).await;
                    (replaying, *stale_at) = (false, None);
                }
                Some(answers) = self.answers.recv() => {
                    if !answering {
                        continue;
                    }
                    match timeout(ANSWER_TIME, writer.write_all(&answers)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => return error.into(),
                        Err(_elapsed) => {
                            warn!("FPM: the peer does not read answers about routes; sending no more of them");
                            answering = false;
                        }
                    }
                }
                Ok((_closed, other)) = self.listener.accept() => {
                    debug!(%other, "FPM: closed a second connection: only one peer may be connected");
                }
            }
        }
    }

    async fn send(&self, event: Event) {
        let _ = self.events.send(event).await; // without a receiver, the server ends
    }
}
