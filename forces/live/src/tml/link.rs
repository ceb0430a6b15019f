//! A link between two elements: whole messages in both directions, over any transport.
//!
//! ```text
//!  element                              transport's task
//!  Outgoing --> Queue (credit, rate) --> Outlet --> stream, datagrams
//!  Incoming <-- control, redirects   <-- Inbox  <-- stream, datagrams
//! ```
//!
//! Memory for each link is bounded, whatever the peer sends or does not read. Outgoing messages: see
//! [`weir_channel`]. Incoming control messages that the element has not read: up to [`CONTROL_BYTES_MAX`]; then
//! the transport stops reading, and the peer runs out of credit. Incoming redirects: up to [`REDIRECT_BYTES_MAX`]; then
//! the link drops redirects. A reader gets control messages first (RFC 5811, A.2).
//!
//! A link ends when the peer closes it, when something fails, or when [`Outgoing`] is closed or dropped. [`Incoming`]
//! then delivers the messages that have arrived, and nothing more.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time;
use weir_protocol::wire::header::{View, message_len};
use weir_protocol::wire::{Id, MessageKind};

use super::ended::Ended;
use super::faults::{Fault, Faults};
use super::identity::{Fingerprint, Proof};
use weir_channel::{Channel, ChannelSettings, Queue, Report, Sent, Taken};
use weir_live::clock;
use weir_live::mutex::lock;

/// Maximum bytes of incoming control messages that wait for the reader. The longest message fits.
const CONTROL_BYTES_MAX: usize = 512 << 10;
/// Maximum bytes of incoming redirects that wait for the reader.
const REDIRECT_BYTES_MAX: usize = 512 << 10;
/// Memory overhead charged per message, in bytes.
const OVERHEAD_BYTES: usize = 64;

/// An open link.
#[derive(Debug)]
pub struct Link {
    /// ID that owns the peer's certificate; `None` if the transport does not authenticate.
    pub proved: Option<Id>,
    /// Fingerprint of that certificate.
    pub pin: Option<Fingerprint>,
    /// Address of the peer when the link was opened.
    pub peer: SocketAddr,
    /// Messages to the peer.
    pub outgoing: Outgoing,
    /// Messages from the peer.
    pub incoming: Incoming,
}

/// How a link is being closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    Open,
    AfterQueue,
    AtOnce,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Notified when the queue has something new for the transport.
    work: Notify,
    /// Notified when the queue has credit again, or the link has ended.
    room: Notify,
    closing: watch::Sender<Closing>,
    ended: OnceLock<Ended>,
    faults: Arc<Faults>,
    proved: Option<Id>,
    peer: SocketAddr,
}

impl Shared {
    fn is_open(&self) -> bool {
        self.ended.get().is_none() && *self.closing.borrow() == Closing::Open
    }
}

/// Messages to the peer.
pub struct Outgoing(Arc<Shared>);

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outgoing").field(&self.0.peer).finish()
    }
}

impl Outgoing {
    /// Credit: whether the queue would accept a control message now. False for a link that has ended.
    pub fn has_room(&self) -> bool {
        self.0.is_open() && lock(&self.0.queue).has_room()
    }

    /// Whether the link has ended.
    pub fn has_ended(&self) -> bool {
        self.0.ended.get().is_some()
    }

    /// Sends a whole message. A control message with credit is delivered, in order, or the link is lost. A redirect may
    /// be dropped here or later.
    pub fn send(&self, message: Vec<u8>) -> Sent {
        if !self.0.is_open() {
            return Sent::Closed;
        }
        let sent = lock(&self.0.queue).offer(clock::now(), message);
        if sent == Sent::Queued {
            self.0.work.notify_one();
        }
        sent
    }

    /// Waits until there is credit, or the link has ended; then check [`Self::has_room`].
    pub async fn writable(&self) {
        loop {
            let room = self.0.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_room() || !self.0.is_open() {
                return;
            }
            room.await;
        }
    }

    /// Applies new queue settings. Keeps waiting messages and counters.
    pub fn set(&self, settings: ChannelSettings) {
        lock(&self.0.queue).set(settings, clock::now());
        self.0.work.notify_one();
        self.0.room.notify_waiters();
    }

    /// Counters and gauges of the link.
    pub fn inspect(&self) -> Report {
        lock(&self.0.queue).report()
    }

    /// Completes when the link has ended. Does not keep the link open.
    pub fn ending(&self) -> impl Future<Output = ()> + Send + 'static {
        let shared = Arc::clone(&self.0);
        async move {
            loop {
                let ended = shared.room.notified(); // misses no later `notify_waiters`
                if shared.ended.get().is_some() {
                    return;
                }
                ended.await;
            }
        }
    }

    /// Closes the link, at once or after sending the queue, within a time limit. Dropping closes after sending the
    /// queue.
    pub fn close(self, after_queue: bool) {
        if !after_queue {
            self.0.closing.send_replace(Closing::AtOnce);
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.0.closing.send_if_modified(|closing| {
            let was_open = *closing == Closing::Open;
            if was_open {
                *closing = Closing::AfterQueue;
            }
            was_open
        });
        self.0.work.notify_one();
    }
}

/// A message with its share of the memory for incoming messages.
type Held = (Vec<u8>, OwnedSemaphorePermit);

/// Messages from the peer.
pub struct Incoming {
    control: mpsc::UnboundedReceiver<Held>,
    redirect: mpsc::UnboundedReceiver<Held>,
    shared: Arc<Shared>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Incoming").field(&self.shared.peer).finish()
    }
}

impl Incoming {
    /// The next message, control messages first; `None` when the link has ended and everything was read. Cancel safe.
    pub async fn recv(&mut self) -> Option<Vec<u8>> {
        let (message, _) = tokio::select! {
            biased;
            Some(held) = self.control.recv() => held,
            Some(held) = self.redirect.recv() => held,
            else => return None,
        };
        Some(message)
    }

    /// Returns the next message if one has already arrived.
    pub fn try_recv(&mut self) -> Option<Vec<u8>> {
        let held = self
            .control
            .try_recv()
            .or_else(|_| self.redirect.try_recv());
        held.ok().map(|(message, _)| message)
    }

    /// Why the link has ended; `None` while it is open.
    pub fn ended(&self) -> Option<&Ended> {
        self.shared.ended.get()
    }
}

/// The transport's end of outgoing messages.
pub(super) struct Outlet {
    shared: Arc<Shared>,
    piece: usize,
}

impl Outlet {
    /// Sets the maximum length of a message of several redirects; without it, only the channel's setting applies.
    pub(super) fn set_piece(&mut self, bytes_max: usize) {
        self.piece = bytes_max;
    }

    /// The next message to send, when it is due; `None` when the link is closing and the queue is empty. The transport
    /// calls this when it can send a message. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<(Channel, Vec<u8>)> {
        loop {
            match self.take() {
                Taken::Message(channel, message) => return Some((channel, message)),
                Taken::At(at) => {
                    let wait = clock::until(at);
                    tokio::select! {
                        () = time::sleep(wait) => {}
                        () = self.shared.work.notified() => {}
                    }
                }
                Taken::Empty if *self.shared.closing.borrow() != Closing::Open => return None,
                Taken::Empty => self.shared.work.notified().await,
            }
        }
    }

    /// Returns the next message to send if it is due now.
    pub(super) fn try_next(&mut self) -> Option<(Channel, Vec<u8>)> {
        match self.take() {
            Taken::Message(channel, message) => Some((channel, message)),
            Taken::At(_) | Taken::Empty => None,
        }
    }

    fn take(&mut self) -> Taken {
        let mut queue = lock(&self.shared.queue);
        let taken = queue.take(clock::now(), self.piece);
        let has_room = queue.has_room();
        drop(queue);
        if has_room {
            self.shared.room.notify_waiters();
        }
        taken
    }
}

/// The transport's end of incoming messages. Dropping it ends the link.
pub(super) struct Inbox {
    control: mpsc::UnboundedSender<Held>,
    redirect: mpsc::UnboundedSender<Held>,
    space: [Arc<Semaphore>; 2],
    shared: Arc<Shared>,
}

impl Inbox {
    /// Checks a message from a reliable channel, and waits until there is room for it.
    pub(super) async fn control(&self, message: Vec<u8>) -> Result<(), Ended> {
        if !self.admit(Channel::Control, &message)? {
            return Ok(());
        }
        let space = self.space[Channel::Control as usize].clone();
        if let Ok(permit) = space.acquire_many_owned(held_bytes(&message)).await {
            let _ = self.control.send((message, permit)); // an error while the link is being closed: nobody reads
        }
        Ok(())
    }

    /// Checks a message from a channel for redirects; drops the message if there is no room.
    pub(super) fn redirect(&self, message: Vec<u8>) -> Result<(), Ended> {
        if !self.admit(Channel::Redirect, &message)? {
            return Ok(());
        }
        let space = self.space[Channel::Redirect as usize].clone();
        match space.try_acquire_many_owned(held_bytes(&message)) {
            Ok(permit) => {
                let _ = self.redirect.send((message, permit));
            }
            Err(_) => self.report(
                Fault::Unread,
                format_args!("a redirect was not read in time"),
            ),
        }
        Ok(())
    }

    /// Counts a fault of this link.
    pub(super) fn report(&self, fault: Fault, what: fmt::Arguments<'_>) {
        let Shared { peer, faults, .. } = &*self.shared;
        faults.report(fault, format_args!("{peer}: {what}"));
    }

    /// Whether a message may be delivered. An error closes the link.
    fn admit(&self, channel: Channel, message: &[u8]) -> Result<bool, Ended> {
        match message_len(message) {
            Ok(Some(len)) if len == message.len() => {}
            Ok(_) => {
                let why = format!("{} bytes are not exactly one message", message.len());
                return Err(Ended::Lost(why));
            }
            Err(error) => return Err(Ended::Malformed(error)),
        }
        if Channel::of(message) != channel {
            let what = format_args!("a message arrived on the wrong channel");
            self.report(Fault::WrongChannel, what);
            return Ok(false);
        }
        if let (Some(proved), Ok(view)) = (self.shared.proved, View::new_checked(message))
            && view.kind() == MessageKind::AssociationSetup
            && ![proved, Id::UNASSIGNED].contains(&view.source())
        {
            // The session refuses it.
            let source = view.source();
            let what = format_args!(
                "a peer with the certificate of {proved} requested an association as {source}"
            );
            self.report(Fault::OtherId, what);
        }
        lock(&self.shared.queue).count_received(channel, message.len() as u64);
        Ok(true)
    }
}

fn held_bytes(message: &[u8]) -> u32 {
    (message.len() + OVERHEAD_BYTES) as u32 // at most the longest message
}

/// Closes a link from the transport's side.
pub(super) struct Closer(Arc<Shared>);

impl Closer {
    /// Runs both directions of a link until it ends. `sending` completes when the outlet is empty and the peer knows
    /// that; `receiving` completes only with a reason. After a close, the queue and the peer have the time `close_max`.
    pub(super) async fn run(
        self,
        close_max: Duration,
        sending: impl Future<Output = Result<(), Ended>>,
        receiving: impl Future<Output = Ended>,
    ) -> Ended {
        tokio::pin!(sending, receiving);
        let ended = tokio::select! {
            biased;
            ended = &mut receiving => ended,
            sent = &mut sending => match sent {
                Err(ended) => ended,
                Ok(()) => {
                    let _ = time::timeout(close_max, &mut receiving).await;
                    Ended::Here
                }
            },
            () = self.given_up(close_max) => Ended::Here,
        };
        self.end(ended.clone());
        ended
    }

    async fn given_up(&self, close_max: Duration) {
        let mut closing = self.0.closing.subscribe();
        // The sender lives as long as `self`, so there is no error.
        let _ = closing.wait_for(|c| *c != Closing::Open).await;
        let at_once = closing.wait_for(|c| *c == Closing::AtOnce);
        let _ = time::timeout(close_max, at_once).await;
    }

    fn end(&self, ended: Ended) {
        let peer = self.0.peer;
        match ended.fault() {
            Some(fault) => self.0.faults.report(fault, format_args!("{peer}: {ended}")),
            None => tracing::debug!(%peer, "link {ended}"),
        }
        let _ = self.0.ended.set(ended);
        self.0.room.notify_waiters();
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        if self.0.ended.get().is_none() {
            self.end(Ended::Lost("the task of the link has ended".to_owned()));
        }
    }
}

/// The ends of a new link that its transport keeps.
pub(super) struct Ends {
    pub(super) outlet: Outlet,
    pub(super) inbox: Inbox,
    pub(super) closer: Closer,
}

/// A new link, and the ends that its transport keeps.
pub(super) fn open(
    proof: Option<Proof>,
    peer: SocketAddr,
    settings: &ChannelSettings,
    faults: &Arc<Faults>,
) -> (Link, Ends) {
    let (proved, pin) = proof.unzip();
    let queue = Queue::new(
        settings.clone(),
        clock::now(),
        u64::from_ne_bytes(super::random()),
    );
    let shared = Arc::new(Shared {
        queue: Mutex::new(queue),
        work: Notify::new(),
        room: Notify::new(),
        closing: watch::Sender::new(Closing::Open),
        ended: OnceLock::new(),
        faults: faults.clone(),
        proved,
        peer,
    });
    let (control, control_read) = mpsc::unbounded_channel();
    let (redirect, redirect_read) = mpsc::unbounded_channel();
    let link = Link {
        proved,
        pin,
        peer,
        outgoing: Outgoing(shared.clone()),
        incoming: Incoming {
            control: control_read,
            redirect: redirect_read,
            shared: shared.clone(),
        },
    };
    let space = [CONTROL_BYTES_MAX, REDIRECT_BYTES_MAX];
    let ends = Ends {
        outlet: Outlet {
            shared: shared.clone(),
            piece: usize::MAX,
        },
        inbox: Inbox {
            control,
            redirect,
            space: space.map(|bytes| Arc::new(Semaphore::new(bytes))),
            shared: shared.clone(),
        },
        closer: Closer(shared),
    };
    (link, ends)
}
