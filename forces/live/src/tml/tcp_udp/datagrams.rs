//! Redirects on UDP: one socket per FE, and one socket for all associations of a CE.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::AbortHandle;
use tokio::time;

use super::Redirects;
use super::seal::{Opener, SEAL_LEN, Sealer, Secrets, Side, session_of};
use crate::tml::ended::Ended;
use crate::tml::faults::{Fault, Faults};
use crate::tml::link::Inbox;
use weir_live::mutex::lock;

/// Longest message in a datagram, in bytes: UDP carries 65 507 bytes, and messages consist of whole 32-bit words.
const MESSAGE_BYTES_MAX: usize = 65_504;
/// Longest message in a sealed datagram, in bytes.
const SEALED_BYTES_MAX: usize = (65_507 - SEAL_LEN) / 4 * 4;
/// Buffer size for a datagram of any length, in bytes.
const DATAGRAM_BYTES: usize = 1 << 16;
/// Interval at which an FE announces its address. NATs keep a silent UDP mapping for 30 seconds or more (RFC 4787).
const GREETING_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after a socket error.
const PAUSE: Duration = Duration::from_millis(10);

fn bytes_max(is_sealed: bool) -> usize {
    if is_sealed {
        SEALED_BYTES_MAX
    } else {
        MESSAGE_BYTES_MAX
    }
}

/// Builds the datagram for a message; `None` if the message is too long, which is counted.
fn datagram(sealer: Option<&Sealer>, message: &[u8], faults: &Faults) -> Option<Vec<u8>> {
    let (len, len_max) = (message.len(), bytes_max(sealer.is_some()));
    if len > len_max {
        let what = format_args!(
            "a redirect of {len} bytes does not fit in a datagram, which has at most {len_max}"
        );
        faults.report(Fault::TooLong, what);
        return None;
    }
    match sealer {
        Some(sealer) => sealer.seal(message),
        None => Some(message.to_vec()),
    }
}

/// Delivers a datagram's message. An invalid message does not end the link: without TLS anybody could send it.
fn deliver(inbox: &Inbox, message: Vec<u8>) {
    if let Err(ended) = inbox.redirect(message) {
        inbox.report(
            Fault::Malformed,
            format_args!("a datagram was dropped: {ended}"),
        );
    }
}

/// The direction from an FE to its CE.
#[derive(Clone)]
pub(super) struct Sender {
    socket: Arc<UdpSocket>,
    sealer: Option<Arc<Sealer>>,
    faults: Arc<Faults>,
}

/// The direction from a CE to its FE.
pub(super) struct Receiver {
    socket: Arc<UdpSocket>,
    opener: Option<Opener>,
}

/// Both directions of an FE whose socket is connected.
pub(super) fn fe(
    socket: UdpSocket,
    secrets: Option<Secrets>,
    faults: Arc<Faults>,
) -> (Sender, Receiver) {
    let socket = Arc::new(socket);
    let (sealer, opener) = secrets.map(|s| s.ends(Side::Fe)).unzip();
    let sender = Sender {
        socket: socket.clone(),
        sealer: sealer.map(Arc::new),
        faults,
    };
    (sender, Receiver { socket, opener })
}

impl Sender {
    /// Periodically announces this FE's address to the CE, if the datagrams are sealed.
    pub(super) async fn greet(&self) {
        let mut ticks = time::interval(GREETING_INTERVAL);
        loop {
            ticks.tick().await;
            if self.sealer.is_some() {
                self.send(&[]).await;
            }
        }
    }
}

impl Redirects for Sender {
    fn bytes_max(&self) -> usize {
        bytes_max(self.sealer.is_some())
    }

    async fn send(&self, message: &[u8]) {
        if let Some(datagram) = datagram(self.sealer.as_deref(), message, &self.faults)
            && let Err(error) = self.socket.send(&datagram).await
        {
            let what = format_args!("a redirect was not sent: {error}");
            self.faults.report(Fault::Late, what);
        }
    }
}

impl Receiver {
    /// Delivers the CE's messages.
    pub(super) async fn run(mut self, inbox: &Inbox) -> Ended {
        let mut buffer = vec![0; DATAGRAM_BYTES];
        loop {
            let Ok(len) = self.socket.recv(&mut buffer).await else {
                time::sleep(PAUSE).await; // the CE has no socket there now
                continue;
            };
            let message = match &mut self.opener {
                None => Ok(buffer[..len].to_vec()),
                Some(opener) => opener.open(&buffer[..len]).map(|opened| opened.message),
            };
            match message {
                Ok(message) if message.is_empty() => {}
                Ok(message) => deliver(inbox, message),
                Err(fault) => inbox.report(fault, format_args!("a datagram was dropped")),
            }
        }
    }
}

/// How a datagram identifies its association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// By the session in its header.
    Session(u64),
    /// By its source address.
    Address(SocketAddr),
}

impl Place {
    fn of(datagram: &[u8], from: SocketAddr, is_sealed: bool) -> Option<Self> {
        if is_sealed {
            session_of(datagram).map(Self::Session)
        } else {
            Some(Self::Address(from))
        }
    }
}

type Members = Mutex<HashMap<Place, Arc<Entry>>>;

/// A CE's socket, shared by its associations. It lives until the last of them ends.
pub(super) struct Hub {
    socket: Arc<UdpSocket>,
    members: Arc<Members>,
    faults: Arc<Faults>,
    task: AbortHandle,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One association at the hub.
struct Entry {
    inbox: Weak<Inbox>,
    opener: Option<Mutex<Opener>>,
    sealer: Option<Sealer>,
    /// Last known address of the FE.
    address: Mutex<Option<SocketAddr>>,
}

/// An association's membership of a hub; dropping it ends the membership.
pub(super) struct Member {
    hub: Arc<Hub>,
    place: Place,
    entry: Arc<Entry>,
}

impl Hub {
    pub(super) fn new(socket: UdpSocket, is_sealed: bool, faults: Arc<Faults>) -> Arc<Self> {
        let (socket, members) = (Arc::new(socket), Arc::new(Members::default()));
        let task = receive(socket.clone(), is_sealed, members.clone(), faults.clone());
        Arc::new(Self {
            socket,
            members,
            faults,
            task: tokio::spawn(task).abort_handle(),
        })
    }

    /// Adds the association of the FE whose TCP connection comes from `peer`.
    pub(super) fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        secrets: Option<Secrets>,
        inbox: &Arc<Inbox>,
    ) -> Member {
        let place = match &secrets {
            Some(secrets) => Place::Session(secrets.session()),
            None => Place::Address(peer),
        };
        let (sealer, opener) = secrets.map(|s| s.ends(Side::Ce)).unzip();
        let entry = Arc::new(Entry {
            inbox: Arc::downgrade(inbox),
            address: Mutex::new(sealer.is_none().then_some(peer)),
            opener: opener.map(Mutex::new),
            sealer,
        });
        lock(&self.members).insert(place, entry.clone());
        Member {
            hub: self.clone(),
            place,
            entry,
        }
    }
}

/// Delivers datagrams to their associations.
async fn receive(
    socket: Arc<UdpSocket>,
    is_sealed: bool,
    members: Arc<Members>,
    faults: Arc<Faults>,
) {
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else {
            time::sleep(PAUSE).await; // an FE has no socket there now
            continue;
        };
        let datagram = &buffer[..len];
        let place = Place::of(datagram, from, is_sealed);
        let entry = place.and_then(|place| lock(&members).get(&place).cloned());
        match entry.and_then(|entry| entry.inbox.upgrade().map(|inbox| (entry, inbox))) {
            Some((entry, inbox)) => entry.receive(datagram, from, &inbox),
            None => {
                let what = format_args!("{from}: a datagram belongs to no association");
                faults.report(Fault::Unassociated, what);
            }
        }
    }
}

impl Entry {
    fn receive(&self, datagram: &[u8], from: SocketAddr, inbox: &Inbox) {
        let Some(opener) = &self.opener else {
            return deliver(inbox, datagram.to_vec());
        };
        let opened = lock(opener).open(datagram);
        match opened {
            Ok(opened) => {
                if opened.is_latest {
                    *lock(&self.address) = Some(from);
                }
                if !opened.message.is_empty() {
                    deliver(inbox, opened.message);
                }
            }
            Err(fault) => inbox.report(fault, format_args!("a datagram from {from} was dropped")),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut members = lock(&self.hub.members);
        // A new association may already have this place.
        if members
            .get(&self.place)
            .is_some_and(|e| Arc::ptr_eq(e, &self.entry))
        {
            members.remove(&self.place);
        }
    }
}

impl Redirects for Member {
    fn bytes_max(&self) -> usize {
        bytes_max(self.entry.sealer.is_some())
    }

    async fn send(&self, message: &[u8]) {
        let faults = &self.hub.faults;
        let Some(address) = *lock(&self.entry.address) else {
            let what =
                format_args!("a redirect was not sent: the UDP address of the FE is not known yet");
            return faults.report(Fault::Late, what);
        };
        if let Some(datagram) = datagram(self.entry.sealer.as_ref(), message, faults)
            && let Err(error) = self.hub.socket.send_to(&datagram, address).await
        {
            faults.report(
                Fault::Late,
                format_args!("a redirect to {address} was not sent: {error}"),
            );
        }
    }
}
