//! Runs an endpoint on a socket: one task for the socket, one for each link.
//!
//! ```text
//! socket <--> driver <--> Endpoint (behind a lock) <--> serve: outlet, inbox of a link
//! ```
//!
//! After each use of the endpoint, the user sends the endpoint's packets and wakes the links that it touched. No task
//! holds the lock while it waits.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time;
use weir_base::Instant;
use weir_channel::Channel;

use super::super::Limits;
use super::super::ended::Ended;
use super::super::faults::{Fault, Faults};
use super::super::link::{Ends, Inbox, Outlet};
use super::endpoint::{Endpoint, Event, Refused};
use super::links::LinkId;
use super::outcome::{Dropped, End};
use super::socket::{PACKET_BYTES, Socket};
use weir_live::clock;
use weir_live::mutex::lock;

/// Maximum packets or messages handled before other tasks run.
const BURST: usize = 64;
/// Bytes of messages taken from an association at once.
const READ_BYTES: usize = 16 << 10;
/// Pause after a socket error.
const PAUSE: Duration = Duration::from_millis(10);

/// A kind of fault, the dropped item, and its count.
type Kind<T> = (Fault, &'static str, fn(&T) -> u64);

const REFUSED: [Kind<Refused>; 5] = [
    (Fault::Malformed, "a packet with wrong lengths", |r| {
        r.malformed
    }),
    (Fault::Forged, "a packet with a wrong checksum", |r| {
        r.checksum
    }),
    (
        Fault::Forged,
        "a packet with a foreign or expired cookie",
        |r| r.cookie,
    ),
    (
        Fault::Unassociated,
        "a packet without an association",
        |r| r.out_of_the_blue,
    ),
    (
        Fault::TooMany,
        "an association above the maximum number of links",
        |r| r.links,
    ),
];

const DROPPED: [Kind<Dropped>; 4] = [
    (
        Fault::WrongChannel,
        "a message with the identifier, type or priority of another channel",
        |d| d.ppid + d.message_kind + d.priority,
    ),
    (Fault::Malformed, "a message that is not ForCES", |d| {
        d.malformed
    }),
    (
        Fault::Forged,
        "a packet with a wrong verification tag",
        |d| d.tag,
    ),
    (
        Fault::Forged,
        "a chunk that is implausible in this state",
        |d| d.chunk + d.implausible,
    ),
];

/// An endpoint on its socket.
pub(super) struct Driver {
    socket: Socket,
    faults: Arc<Faults>,
    state: Mutex<State>,
    /// Notified when the endpoint's timeout is earlier than the socket task expects.
    wake: Notify,
}

struct State {
    endpoint: Endpoint,
    watches: HashMap<LinkId, Arc<Watch>>,
    events: VecDeque<Event>,
    /// The socket has no room for the next packet.
    is_stuck: bool,
    /// The timeout for which the socket task waits.
    expects: Option<Instant>,
    reported: Refused,
}

/// Wakes the two directions of a link.
#[derive(Debug, Default)]
struct Watch {
    read: Notify,
    write: Notify,
}

impl Driver {
    /// An endpoint on its socket; no task runs it yet.
    pub(super) fn new(socket: Socket, endpoint: Endpoint, faults: Arc<Faults>) -> Arc<Self> {
        let state = State {
            endpoint,
            watches: HashMap::new(),
            events: VecDeque::new(),
            is_stuck: false,
            expects: None,
            reported: Refused::default(),
        };
        let driver = Self {
            socket,
            faults,
            state: Mutex::new(state),
            wake: Notify::new(),
        };
        driver.with(|_, _| ()); // an endpoint that connects already has its first packet
        Arc::new(driver)
    }

    /// Runs `work` on the endpoint, then sends packets and wakes links.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Endpoint, Instant) -> R) -> R {
        let mut state = lock(&self.state);
        let now = clock::now();
        let result = work(&mut state.endpoint, now);
        state.flush(now, &self.socket);
        for link in state.endpoint.take_touched() {
            if let Some(watch) = state.watches.get(&link) {
                watch.read.notify_one();
                watch.write.notify_one();
            }
        }
        while let Some(event) = state.endpoint.poll_event() {
            state.events.push_back(event);
        }
        let next = state.endpoint.poll_timeout();
        let is_earlier = next.is_some_and(|next| state.expects.is_none_or(|old| next < old));
        if is_earlier || state.is_stuck || !state.events.is_empty() {
            self.wake.notify_one();
        }
        result
    }

    /// Waits for the next packet, timer or call, and returns the events since the last call.
    pub(super) async fn next(&self) -> VecDeque<Event> {
        let (timeout, is_stuck) = {
            let mut state = lock(&self.state);
            state.expects = state.endpoint.poll_timeout();
            (state.expects, state.is_stuck)
        };
        let until = timeout.map(clock::until);
        tokio::select! {
            readable = self.socket.readable() => match readable {
                Ok(()) => self.receive().await,
                Err(error) => self.complain(&error).await,
            },
            () = time::sleep(until.unwrap_or_default()), if until.is_some() => {
                self.with(Endpoint::handle_timeout);
            }
            _ = self.socket.writable(), if is_stuck => self.with(|_, _| ()),
            () = self.wake.notified() => {}
        }
        std::mem::take(&mut lock(&self.state).events)
    }

    async fn receive(&self) {
        let mut buffer = Vec::with_capacity(PACKET_BYTES);
        let received = self.with(|endpoint, now| {
            (0..BURST).try_for_each(|_| {
                let (from, packet) = self.socket.receive(&mut buffer)?;
                endpoint.handle_packet(now, from, packet);
                Ok::<_, io::Error>(())
            })
        });
        match received {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.complain(&error).await,
            _ => {}
        }
        self.report_refused();
        tokio::task::yield_now().await;
    }

    /// Handles a socket error, perhaps an ICMP message because nobody listens. Only timeouts end anything.
    async fn complain(&self, error: &io::Error) {
        tracing::debug!(%error, "SCTP socket error");
        time::sleep(PAUSE).await;
    }

    fn report_refused(&self) {
        let mut state = lock(&self.state);
        let (now, old) = (state.endpoint.refused, state.reported);
        state.reported = now;
        drop(state);
        report(&self.faults, &REFUSED, &old, &now);
    }

    /// Runs a link until it ends.
    pub(super) async fn serve(self: Arc<Self>, link: LinkId, ends: Ends, limits: Limits) {
        let Ends {
            outlet,
            inbox,
            closer,
        } = ends;
        let watch = Arc::new(Watch::default());
        lock(&self.state).watches.insert(link, watch.clone());
        let sending = self.send(link, outlet, &watch, limits.redirect);
        let receiving = self.receive_link(link, &inbox, &watch);
        closer.run(limits.close, sending, receiving).await;
        self.with(|endpoint, now| endpoint.forget(now, link));
        lock(&self.state).watches.remove(&link);
        self.wake.notify_one();
    }

    /// Delivers the messages of a link until it ends.
    async fn receive_link(&self, link: LinkId, inbox: &Inbox, watch: &Watch) -> Ended {
        let mut reported = Dropped::default();
        loop {
            let (messages, end) = self.with(|endpoint, now| {
                let mut bytes = 0;
                let mut messages = Vec::new();
                while bytes < READ_BYTES
                    && let Some(message) = endpoint.poll_message(now, link)
                {
                    bytes += message.len();
                    messages.push(message);
                }
                (messages, endpoint.end(link))
            });
            if messages.is_empty() {
                self.report_dropped(link, &mut reported);
                match end {
                    Some(end) => return ended(end),
                    None => watch.read.notified().await,
                }
            }
            for message in messages {
                let delivered = match Channel::of(&message) {
                    Channel::Control => inbox.control(message).await,
                    Channel::Redirect => inbox.redirect(message),
                };
                if let Err(ended) = delivered {
                    self.report_dropped(link, &mut reported);
                    return ended;
                }
            }
        }
    }

    /// Sends messages from a link's queue. Drops a redirect that finds no room in time.
    async fn send(
        &self,
        link: LinkId,
        mut outlet: Outlet,
        watch: &Watch,
        redirect_max: Duration,
    ) -> Result<(), Ended> {
        while let Some(first) = outlet.next().await {
            let Some((channel, message)) = self.send_burst(link, &mut outlet, first)? else {
                continue;
            };
            let sent = self.send_with_room(link, watch, &message);
            match channel {
                Channel::Control => sent.await?,
                Channel::Redirect => match time::timeout(redirect_max, sent).await {
                    Ok(sent) => sent?,
                    Err(_) => {
                        let what =
                            format_args!("SCTP did not accept a redirect within {redirect_max:?}");
                        self.faults.report(Fault::Late, what);
                    }
                },
            }
        }
        self.with(|endpoint, now| endpoint.close(now, link, true));
        while self.with(|endpoint, _| endpoint.end(link)).is_none() {
            watch.write.notified().await;
        }
        Ok(())
    }
    /// Sends a message, and the messages queued behind it. Returns the first message for which there is no room.
    fn send_burst(
        &self,
        link: LinkId,
        outlet: &mut Outlet,
        first: (Channel, Vec<u8>),
    ) -> Result<Option<(Channel, Vec<u8>)>, Ended> {
        self.with(|endpoint, _| {
            if let Some(end) = endpoint.end(link) {
                return Err(ended(end));
            }
            let mut next = Some(first);
            for _ in 0..BURST {
                match &next {
                    Some((_, message)) if endpoint.send(link, message) => next = outlet.try_next(),
                    _ => break,
                }
            }
            Ok(next)
        })
    }

    /// Sends a message once there is room for it.
    async fn send_with_room(
        &self,
        link: LinkId,
        watch: &Watch,
        message: &[u8],
    ) -> Result<(), Ended> {
        loop {
            let sent = self.with(|endpoint, _| match endpoint.end(link) {
                Some(end) => Err(ended(end)),
                None => Ok(endpoint.send(link, message)),
            });
            if sent? {
                return Ok(());
            }
            watch.write.notified().await;
        }
    }

    fn report_dropped(&self, link: LinkId, reported: &mut Dropped) {
        let channels = self.with(|endpoint, _| endpoint.dropped(link));
        let now = channels.into_iter().fold(Dropped::default(), Dropped::plus);
        let old = std::mem::replace(reported, now);
        report(&self.faults, &DROPPED, &old, &now);
    }
}

impl State {
    fn flush(&mut self, now: Instant, socket: &Socket) {
        self.is_stuck = false;
        while let Some((to, packet)) = self.endpoint.poll_packet(now) {
            match socket.send(to, &packet) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_stuck = true;
                    return self.endpoint.put_back(to, packet);
                }
                Err(error) => tracing::debug!(%error, %to, "a packet was not sent"),
                Ok(()) => {}
            }
        }
    }
}

/// Reports the faults counted between `old` and `now`.
fn report<T>(faults: &Faults, kinds: &[Kind<T>], old: &T, now: &T) {
    for (fault, what, count) in kinds {
        for _ in count(old)..count(now) {
            faults.report(*fault, format_args!("SCTP: {what} was dropped"));
        }
    }
}

fn ended(end: End) -> Ended {
    match end {
        End::Closed => Ended::Here,
        End::ByPeer => Ended::ByPeer,
        lost => Ended::Lost(lost.to_string()),
    }
}
