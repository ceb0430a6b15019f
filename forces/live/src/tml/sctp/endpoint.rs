//! All associations of one socket, as a state machine: packets in, packets and links out.
//!
//! ```text
//! packet --> checksum --> our port? --> association at (address, ports)? --> association
//!                                  \-> INIT: INIT ACK with a cookie       (nothing is kept)
//!                                  \-> COOKIE ECHO: a new association --> link of three
//!                                  \-> else: ABORT
//! ```
//!
//! Packets to other ports are ignored: over raw IP, each socket gets all SCTP packets of the machine.
//!
//! After one or several inputs, call [`Endpoint::poll_packet`] until `None`, then [`Endpoint::poll_event`] until
//! `None`, and check the links of [`Endpoint::take_touched`]. Batched inputs need fewer packets.

mod dial;
mod traffic;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;

use weir_base::{Instant, Span};

use self::dial::Dial;
use super::association::{Association, REFLECTED};
use super::channel::Channel;
use super::cookie::{Contract, CookieSigner, Path};
use super::inbox::INBOX_MAX;
use super::init::Init;
use super::library::Epoch;
use super::links::{Joined, LinkId, Links};
use super::outcome::End;
use super::packet::{Header, Malformed, Packet, Writer, kind};

/// Maximum packets that wait for the socket.
const OUTBOX_MAX: usize = 8192;
/// Maximum ABORTs per second in answer to packets that belong to no association.
const ABORTS_MAX: u32 = 100;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link is complete.
    Up(LinkId, SocketAddr),
    /// The link that this endpoint opened did not come up.
    Failed(String),
}

/// Settings of an endpoint.
pub struct Settings {
    /// Converts instants for the library.
    pub epoch: Epoch,
    /// Key of the cookie seals.
    pub secret: [u8; 32],
    /// Returns unpredictable random numbers.
    pub random: Box<dyn FnMut() -> u32 + Send>,
    /// Maximum number of open links.
    pub links_max: usize,
    /// Maximum silence of a peer before its associations end.
    pub silence_max: Span,
}

/// Counters of packets dropped before any association saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Packets with inconsistent lengths.
    pub malformed: u64,
    /// Packets with a wrong checksum.
    pub checksum: u64,
    /// Packets that belong to no association.
    pub out_of_the_blue: u64,
    /// Cookies that are not ours, are too old, or belong to a path with a newer association.
    pub cookie: u64,
    /// Associations for which there was no room.
    pub links: u64,
    /// Our packets that found no room in the queue for the socket.
    pub outbox: u64,
}

struct Slot {
    association: Association,
    channel: Channel,
    link: LinkId,
    timer: Option<Instant>,
}

/// The associations of a socket.
pub struct Endpoint {
    settings: Settings,
    bakery: CookieSigner,
    /// The port of the high channel, if the endpoint listens.
    first_port: Option<u16>,
    dial: Option<Dial>,
    up: HashMap<Path, Slot>,
    links: Links,
    closing: BTreeSet<LinkId>,
    /// Whether the endpoint refuses new links.
    deaf: bool,
    /// Associations of links that have ended, with messages that can still be read.
    finished: HashMap<LinkId, Vec<(Channel, Association)>>,
    timers: BTreeSet<(Instant, Path)>,
    outbox: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event>,
    touched: BTreeSet<LinkId>,
    /// Associations with unprocessed inputs.
    unsettled: BTreeSet<Path>,
    aborts: (Instant, u32),
    /// Counters of dropped packets.
    pub refused: Refused,
}

impl Endpoint {
    /// Creates an endpoint that listens at `first_port` and the next two ports.
    pub fn listen(settings: Settings, first_port: u16) -> Self {
        Self::new(settings, Some(first_port))
    }

    fn new(settings: Settings, first_port: Option<u16>) -> Self {
        Self {
            bakery: CookieSigner::new(&settings.secret),
            links: Links::new(settings.links_max),
            settings,
            first_port,
            dial: None,
            up: HashMap::new(),
            closing: BTreeSet::new(),
            deaf: false,
            finished: HashMap::new(),
            timers: BTreeSet::new(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            touched: BTreeSet::new(),
            unsettled: BTreeSet::new(),
            aborts: (Instant::ZERO, 0),
            refused: Refused::default(),
        }
    }

    /// Handles an SCTP packet from `from`: an address with the UDP port, or with zero over raw IP.
    pub fn handle_packet(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(Malformed::Length) => return self.refused.malformed += 1,
            Err(Malformed::Checksum) => return self.refused.checksum += 1,
        };
        let path = Path {
            remote: from,
            remote_port: packet.header.source_port,
            local_port: packet.header.destination_port,
        };
        if self.dial.as_ref().is_some_and(|dial| dial.path == path) {
            return self.handle_answer(now, &packet);
        }
        let channel = self.channel_of(path.local_port);
        let first = packet.chunks().next();
        match (first.map(|chunk| (chunk.kind, chunk.value)), channel) {
            (Some((kind::INIT, value)), Some(_)) => self.handle_init(now, path, &packet, value),
            (Some((kind::COOKIE_ECHO, value)), Some(channel)) => {
                self.handle_cookie(now, path, channel, &packet, value);
            }
            _ => self.hand_over(now, path, &packet),
        }
    }

    /// Handles timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, path)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(slot) = self.up.get_mut(&path) {
                slot.timer = None;
                slot.association.handle_timeout(now);
                self.settle(now, path);
            }
        }
        while let Some(link) = self.links.overdue(now) {
            let why = "the peer did not open all three channels in time".to_owned();
            self.end_link(now, link, End::Violation(why));
        }
        self.try_dial(now);
    }

    /// Time for the next call of [`Endpoint::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = self.timers.first().map(|(at, _)| *at);
        let dial = self.dial.as_ref().map(|dial| dial.opening.poll_timeout());
        [timers, dial, self.links.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the next packet to send, and its destination.
    pub fn poll_packet(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        while let Some(path) = self.unsettled.pop_first() {
            self.settle(now, path);
        }
        self.outbox.pop_front()
    }

    /// Takes back a packet for which the socket has no room now.
    pub fn put_back(&mut self, to: SocketAddr, packet: Vec<u8>) {
        self.outbox.push_front((to, packet));
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes the links that may have new messages, room or an end.
    pub fn take_touched(&mut self) -> BTreeSet<LinkId> {
        std::mem::take(&mut self.touched)
    }

    /// Stops accepting new links.
    pub fn stop_listening(&mut self) {
        self.deaf = true;
    }

    /// Whether the endpoint refuses new links.
    pub fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Whether there is no link, not even an ended link.
    pub fn is_idle(&self) -> bool {
        self.links.is_empty()
    }

    /// The channel of a local port; `None` if the endpoint does not listen at that port.
    fn channel_of(&self, local_port: u16) -> Option<Channel> {
        Channel::at(local_port.checked_sub(self.first_port?)?)
    }

    /// Our INIT parameters for a new association.
    fn statement(&mut self) -> Init {
        Init {
            tag: (self.settings.random)().max(1),
            window: INBOX_MAX as u32,
            first_tsn: (self.settings.random)().max(1),
            forward_tsn: true,
        }
    }

    fn handle_init(&mut self, now: Instant, path: Path, packet: &Packet<'_>, value: &[u8]) {
        let alone = packet.chunks().count() == 1;
        let parsed = Init::parse(value);
        let (true, 0, Some((theirs, _))) = (alone, packet.header.tag, parsed) else {
            return self.refused.malformed += 1;
        };
        let current = self.up.get(&path);
        let replaces = current.map_or(0, |slot| slot.association.contract().ours.tag);
        let mut ours = self.statement();
        if ours.tag == theirs.tag {
            ours.tag = ours.tag.wrapping_add(1).max(1); // tags must differ, and zero is not a tag
        }
        let contract = Contract {
            ours,
            theirs,
            replaces,
        };
        let cookie = self.bakery.bake(now, &path, &contract);
        let value = ours.value(Some(&cookie));
        self.write(&path, theirs.tag, kind::INIT_ACK, 0, &value);
    }

    fn handle_cookie(
        &mut self,
        now: Instant,
        path: Path,
        channel: Channel,
        packet: &Packet<'_>,
        cookie: &[u8],
    ) {
        let contract = match self.bakery.open(now, &path, cookie) {
            Ok(contract) if contract.ours.tag == packet.header.tag => contract,
            _ => return self.refused.cookie += 1,
        };
        if let Some(slot) = self.up.get(&path) {
            let current = *slot.association.contract();
            if (current.ours.tag, current.theirs.tag) == (contract.ours.tag, contract.theirs.tag) {
                // Our COOKIE ACK was lost.
                self.write(&path, contract.theirs.tag, kind::COOKIE_ACK, 0, &[]);
                return self.hand_over(now, path, packet);
            }
            if contract.replaces != current.ours.tag {
                return self.refused.cookie += 1;
            }
            let link = slot.link;
            self.end_link(now, link, End::ByPeer); // the peer has restarted
        }
        self.write(&path, contract.theirs.tag, kind::COOKIE_ACK, 0, &[]);
        self.establish(now, path, channel, contract);
        self.hand_over(now, path, packet);
    }

    /// Creates an association on which both sides have agreed.
    fn establish(&mut self, now: Instant, path: Path, channel: Channel, contract: Contract) {
        let association = Association::new(now, self.settings.epoch, channel, &path, contract);
        let joined = if self.deaf {
            None
        } else {
            self.links.join(now, channel, path)
        };
        let (Some(association), Some(joined)) = (association, joined) else {
            self.refused.links += 1;
            return self.write(&path, contract.theirs.tag, kind::ABORT, 0, &[]);
        };
        let (Joined::Incomplete(link) | Joined::Complete(link)) = joined;
        let association = association.with_silence_max(self.settings.silence_max);
        let slot = Slot {
            association,
            channel,
            link,
            timer: None,
        };
        self.up.insert(path, slot);
        if let Joined::Complete(link) = joined {
            self.events.push_back(Event::Up(link, path.remote));
        }
        self.settle(now, path);
        while let Some(link) = self.links.overdue(now) {
            let why = "too many links lack a channel".to_owned();
            self.end_link(now, link, End::Violation(why));
        }
    }

    /// Passes a packet to its association, or refuses it.
    fn hand_over(&mut self, now: Instant, path: Path, packet: &Packet<'_>) {
        if let Some(slot) = self.up.get_mut(&path) {
            slot.association.handle_packet(now, packet);
            match slot.association.end() {
                Some(_) => self.settle(now, path), // the next packet may be of a new association
                None => drop(self.unsettled.insert(path)),
            }
            return;
        }
        if self.channel_of(path.local_port).is_none() {
            return; // belongs to another socket
        }
        self.refused.out_of_the_blue += 1;
        if now.since(self.aborts.0) >= Span::from_secs(1) {
            self.aborts = (now, 0);
        }
        // RFC 9260, 8.4: no answer to these chunks.
        let unanswered = [
            kind::ABORT,
            kind::SHUTDOWN_COMPLETE,
            kind::COOKIE_ACK,
            kind::COOKIE_ECHO,
            kind::INIT_ACK,
            kind::INIT,
        ];
        let first = packet.chunks().next().map(|chunk| chunk.kind);
        if self.aborts.1 >= ABORTS_MAX || first.is_none_or(|kind| unanswered.contains(&kind)) {
            return;
        }
        self.aborts.1 += 1;
        let answer = match first {
            Some(kind::SHUTDOWN_ACK) => kind::SHUTDOWN_COMPLETE,
            _ => kind::ABORT,
        };
        self.write(&path, packet.header.tag, answer, REFLECTED, &[]);
    }

    /// Takes the packets of an association, sets its timer, and checks whether it has ended.
    fn settle(&mut self, now: Instant, path: Path) {
        let Some(slot) = self.up.get_mut(&path) else {
            return;
        };
        while let Some(packet) = slot.association.poll_packet(now) {
            if self.outbox.len() < OUTBOX_MAX {
                self.outbox.push_back((path.remote, packet));
            } else {
                self.refused.outbox += 1;
            }
        }
        let timer = slot.association.poll_timeout();
        if timer != slot.timer {
            if let Some(old) = slot.timer {
                self.timers.remove(&(old, path));
            }
            self.timers.extend(timer.map(|at| (at, path)));
            slot.timer = timer;
        }
        let (link, end) = (slot.link, slot.association.end().cloned());
        self.touched.insert(link);
        if let Some(end) = end {
            self.end_link(now, link, end);
        } else if self.closing.contains(&link) {
            self.shut_down_flushed(now, link);
        }
    }

    /// Ends a link with all its channels. Its messages can still be read.
    fn end_link(&mut self, now: Instant, link: LinkId, end: End) {
        let was_up = self.links.get(link).is_some_and(|link| {
            let complete = link.paths.iter().all(Option::is_some);
            complete && link.end.is_none()
        });
        self.closing.remove(&link);
        let mut finished = Vec::new();
        for path in self.links.end(link, end.clone()) {
            let Some(mut slot) = self.up.remove(&path) else {
                continue;
            };
            if let Some(timer) = slot.timer {
                self.timers.remove(&(timer, path));
            }
            slot.association.close(now, false);
            while let Some(packet) = slot.association.poll_packet(now) {
                self.outbox.push_back((path.remote, packet));
            }
            finished.push((slot.channel, slot.association));
        }
        if was_up {
            finished.sort_by_key(|(channel, _)| *channel);
            self.finished.insert(link, finished);
            self.touched.insert(link);
        } else if self.links.remove(link).is_some() && self.first_port.is_none() {
            self.events.push_back(Event::Failed(end.to_string()));
            self.dial = None;
        }
    }

    fn write(&mut self, path: &Path, tag: u32, kind: u8, flags: u8, value: &[u8]) {
        if self.outbox.len() >= OUTBOX_MAX {
            return self.refused.outbox += 1;
        }
        let header = Header {
            source_port: path.local_port,
            destination_port: path.remote_port,
            tag,
        };
        let packet = Writer::new(header).chunk(kind, flags, value).finish();
        self.outbox.push_back((path.remote, packet));
    }
}

#[cfg(test)]
mod tests;
