//! Keeps a copy of the kernel's tables up to date.
//!
//! ```text
//! subscribe -> dump -> publish -> changes, gathered for a few milliseconds -> publish -> ..
//!     ^          |
//!     +----------+ a change with too little information, or more changes than the socket holds
//! ```
//!
//! Subscribing comes before the dump and has its own socket: a change during the dump is applied after the dump, and
//! none is missed. But the dump may already contain that change, and applying a replacement twice can replace too much.
//! So a dump with changes is repeated later, with growing intervals as long as changes continue.
//!
//! Endless changes must not occupy a thread: they are applied in slices, with a turn for the thread's other tasks in
//! between. Publications are [`PUBLISH_GAP`] apart, because each one lets the forwarding thread look up its next hops
//! again; after a slow one, the next waits for [`REST_FACTOR`] times as long.
//!
//! The kernel announces neither all changes of IPv6's settings nor that a route has a longer lifetime. The settings are
//! read twice a second, and everything when a lifetime ends.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout_at};
use tracing::{debug, warn};
use weir_path::ip::tables::Tables;

use super::fpm::{self, Event, Fpm};
use super::message::{
    self, Global, IFINFOMSG_BYTES, KernelMessage, NETCONFMSG_BYTES, NHMSG_BYTES, RTM_GETNETCONF,
    RTM_GETNEXTHOP,
};
use super::netlink::{DATAGRAM_BYTES_MAX, NetlinkSocket, Request, messages};
use super::tables::{Effect, TableState};

/// Time for which changes are gathered before they are published.
const GATHER: Duration = Duration::from_millis(3);
/// Shortest time between two publications.
const PUBLISH_GAP: Duration = Duration::from_millis(20);
/// Time for which changes are applied before the thread's other tasks have their turn.
const SLICE: Duration = Duration::from_millis(2);
/// Time that the kernel gets to finish its work before everything is read again.
const SETTLE: Duration = Duration::from_millis(10);
/// The next publication or dump waits for this multiple of the cost of the last one.
const REST_FACTOR: u32 = 4;
/// Longer than any router runs without a change.
const NEVER: Duration = Duration::from_secs(86_400 * 365);
/// Receive buffer for pending changes: about two hundred thousand, twenty seconds of a busy full table. Rereading such a
/// table takes seconds.
pub(super) const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Maximum datagrams taken at once: endless changes must not block everything else.
const WAITING_MAX: u32 = 1 << 20;
/// How often settings are read whose changes the kernel does not announce.
const POLL: Duration = Duration::from_millis(500);
/// Longest time until a dump is repeated because changes arrived during it.
const REPEAT_MAX: Duration = Duration::from_secs(60);
/// Maximum number of times that this wait doubles.
const DOUBLINGS_MAX: u32 = 16;
/// Maximum consecutive dumps that the kernel reports as inconsistent.
const DUMPS_MAX: u32 = 5;
/// `RTNLGRP_NEXTHOP` of linux/rtnetlink.h.
pub(super) const NEXT_HOP_GROUP: u32 = 32;

/// Reason why the kernel's tables cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A netlink socket failed.
    #[error("the netlink socket failed: {0}")]
    Socket(#[from] io::Error),
    /// The kernel did not deliver one of its tables.
    #[error("cannot read the kernel's {what}: {source}")]
    Dump {
        /// Name of the table.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Reads the kernel's tables once.
pub async fn read() -> Result<Tables, Error> {
    Ok(aside(read_state).await?.tables().clone())
}

/// Publishes the kernel's tables of the calling thread's network namespace, and the routes that come by FPM: first
/// immediately and then after each change. Returns only when that is no longer possible.
pub async fn follow(
    fpm: Option<Fpm>,
    publish: impl FnMut(&mut TableState),
) -> Result<Infallible, Error> {
    follow_by(read_state, fpm, publish).await
}

/// Like [`follow`], with another function that reads everything.
async fn follow_by(
    read: fn() -> Result<TableState, Error>,
    fpm: Option<Fpm>,
    mut publish: impl FnMut(&mut TableState),
) -> Result<Infallible, Error> {
    let mut changes = Changes::open(fpm)?;
    let mut doubts: u32 = 0;
    let mut state = TableState::default();
    loop {
        let started = Instant::now();
        state = aside(move || {
            let by_fpm = state.into_fpm(); // dropping the rest of a large state takes longer than a slice
            let mut state = read()?;
            state.join_fpm(by_fpm);
            Ok(state)
        })
        .await?;
        let replayed = changes.replay(&mut state).await?;
        publish(&mut state);
        let rest = SETTLE.max(started.elapsed() * REST_FACTOR);
        doubts = match replayed {
            Effect::Nothing => 0,
            Effect::Changed | Effect::Reread => (doubts + 1).min(DOUBLINGS_MAX),
        };
        let repeat_after = (rest * 2_u32.pow(doubts)).min(REPEAT_MAX);
        let repeat_at = (doubts > 0).then(|| tokio::time::Instant::now() + repeat_after);
        changes
            .apply_to(&mut state, repeat_at, &mut publish)
            .await?;
        sleep(rest).await;
        changes.discard().await?;
    }
}

/// The kernel's announcements, and the routes that come by FPM.
struct Changes {
    socket: AsyncFd<NetlinkSocket>,
    fpm: Option<Fpm>,
    buffer: Vec<u8>,
    /// The end of the current slice.
    slice_until: Instant,
}

impl Changes {
    fn open(fpm: Option<Fpm>) -> Result<Self, Error> {
        const GROUPS: [libc::c_int; 9] = [
            libc::RTNLGRP_LINK as libc::c_int,
            libc::RTNLGRP_NEIGH as libc::c_int,
            libc::RTNLGRP_IPV4_IFADDR as libc::c_int,
            libc::RTNLGRP_IPV6_IFADDR as libc::c_int,
            libc::RTNLGRP_IPV4_ROUTE as libc::c_int,
            libc::RTNLGRP_IPV6_ROUTE as libc::c_int,
            libc::RTNLGRP_IPV4_NETCONF as libc::c_int,
            libc::RTNLGRP_IPV6_NETCONF as libc::c_int,
            libc::RTNLGRP_IPV6_IFINFO as libc::c_int,
        ];
        let socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
        socket.set_receive_buffer(RECEIVE_BUFFER_BYTES)?;
        for group in GROUPS {
            socket.join(group as u32)?;
        }
        if let Err(error) = socket.join(NEXT_HOP_GROUP) {
            debug!(%error, "this kernel has no next-hop objects");
        }
        Ok(Self {
            socket: register(socket)?,
            fpm,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            slice_until: Instant::now(),
        })
    }

    /// Lets the thread's other tasks have their turn after each slice.
    async fn end_slice(&mut self) {
        if Instant::now() >= self.slice_until {
            yield_now().await;
            self.slice_until = Instant::now() + SLICE;
        }
    }

    /// Applies and publishes changes until everything must be read again: because a change has too little information,
    /// or because `repeat_at` has come.
    async fn apply_to(
        &mut self,
        state: &mut TableState,
        repeat_at: Option<tokio::time::Instant>,
        publish: &mut impl FnMut(&mut TableState),
    ) -> Result<(), Error> {
        let never = tokio::time::Instant::now() + NEVER;
        let repeat_at = repeat_at.unwrap_or(never);
        let mut rest_until = tokio::time::Instant::now();
        let mut poll_at = rest_until + POLL;
        loop {
            let mut effect = Effect::Nothing;
            while effect == Effect::Nothing {
                self.fpm.iter_mut().for_each(Fpm::published);
                match self.next_effect(state, repeat_at.min(poll_at)).await? {
                    Some(next) => effect = next,
                    None if tokio::time::Instant::now() >= repeat_at => return Ok(()),
                    None => {}
                }
                if tokio::time::Instant::now() >= poll_at {
                    if state.has_expired() {
                        return Ok(());
                    }
                    match aside(read_unannounced).await {
                        Ok(found) => effect = effect.max(state.apply_all(found)),
                        Err(error) => debug!(%error, "cannot read the settings; retrying later"),
                    }
                    poll_at = tokio::time::Instant::now() + POLL;
                }
            }
            let publish_at = rest_until.max(tokio::time::Instant::now() + GATHER);
            while effect < Effect::Reread {
                match self.next_effect(state, publish_at).await? {
                    Some(next) => effect = effect.max(next),
                    None => break,
                }
            }
            let started = tokio::time::Instant::now();
            publish(state);
            if effect == Effect::Reread || started >= repeat_at {
                return Ok(());
            }
            let ended = tokio::time::Instant::now();
            rest_until = ended + PUBLISH_GAP.max((ended - started) * REST_FACTOR);
        }
    }

    /// Applies the messages of the next datagram that comes before `until`, even if more of them wait already.
    async fn next_effect(
        &mut self,
        state: &mut TableState,
        until: tokio::time::Instant,
    ) -> Result<Option<Effect>, Error> {
        self.end_slice().await;
        if tokio::time::Instant::now() >= until {
            return Ok(None);
        }
        let fpm = async {
            match &mut self.fpm {
                Some(fpm) => (fpm.next().await, fpm),
                None => pending().await,
            }
        };
        let received = timeout_at(until, async {
            tokio::select! {
                bytes = receive(&self.socket, &mut self.buffer) => Ok(bytes),
                event = fpm => Err(event),
            }
        });
        let received = match received.await {
            Err(_) => return Ok(None),
            Ok(Err((Event::Replayed, _))) => {
                let mut moved = std::mem::take(state);
                let ended = aside(move || Ok((fpm::end_replay(&mut moved), moved)));
                let (effect, moved) = ended.await?;
                *state = moved;
                return Ok(Some(effect));
            }
            Ok(Err((event, fpm))) => return Ok(Some(fpm.apply(event, state))),
            Ok(Ok(received)) => received,
        };
        match received {
            Ok(bytes) => Ok(Some(state.apply_datagram(bytes))),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                warn!(
                    "the kernel announced changes of its tables faster than they were read; rereading all tables"
                );
                Ok(Some(Effect::Reread))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Applies the changes that arrived during a dump.
    async fn replay(&mut self, state: &mut TableState) -> Result<Effect, Error> {
        let mut effect = Effect::Nothing;
        for _ in 0..WAITING_MAX {
            self.end_slice().await;
            effect = effect.max(match self.waiting()? {
                Some(Datagram::Whole(len)) => state.apply_datagram(&self.buffer[..len]),
                Some(Datagram::Lost) => Effect::Reread,
                None => break,
            });
        }
        Ok(effect)
    }

    /// Discards the waiting changes: the next dump contains them.
    async fn discard(&mut self) -> Result<(), Error> {
        for _ in 0..WAITING_MAX {
            self.end_slice().await;
            if self.waiting()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The next pending datagram, if there is one.
    fn waiting(&mut self) -> Result<Option<Datagram>, Error> {
        loop {
            let received = self.socket.get_ref().receive(&mut self.buffer);
            return match received.map(<[u8]>::len) {
                Ok(len) => Ok(Some(Datagram::Whole(len))),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    Ok(Some(Datagram::Lost))
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(None),
                    io::ErrorKind::Interrupted => continue,
                    _ => Err(error.into()),
                },
            };
        }
    }
}

/// The result of reading the socket.
enum Datagram {
    /// The number of bytes in the buffer.
    Whole(usize),
    /// The socket has overflowed.
    Lost,
}

pub(super) fn register(socket: NetlinkSocket) -> io::Result<AsyncFd<NetlinkSocket>> {
    socket.set_nonblocking()?;
    // SAFETY: the socket owns its descriptor, always gives the same one, and closes it only when it
    // is dropped; it moves into the registration, which ends before that.
    Ok(unsafe { AsyncFd::register(socket) }?)
}

/// Waits for the next datagram.
pub(super) async fn receive<'a>(
    socket: &AsyncFd<NetlinkSocket>,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let len = loop {
        let mut ready = socket.readable().await?;
        match ready.try_io(|socket| Ok(socket.get_ref().receive(buffer)?.len())) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(len) => break len?,
            Err(_would_block) => {}
        }
    };
    Ok(&buffer[..len])
}

/// Reads everything on a thread that may block: the kernel answers only when nobody else is changing the network, and
/// the calling thread has other work meanwhile.
async fn aside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

/// Reads everything.
pub(super) fn read_state() -> Result<TableState, Error> {
    for _ in 1..DUMPS_MAX {
        let (state, consistent) = dump()?;
        if consistent {
            return Ok(state);
        }
    }
    // The tables keep changing; a change that this dump has missed is announced.
    Ok(dump()?.0)
}

/// Reads the settings whose changes the kernel does not announce: those of IPv6's links, and two of IPv4.
fn read_unannounced() -> Result<Vec<KernelMessage>, Error> {
    let is_set = |name: &str| {
        let value = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        value.is_ok_and(|value| value.trim() != "0")
    };
    let mut found = vec![KernelMessage::Global(Global {
        errors_from_ingress: is_set("icmp_errors_use_inbound_ifaddr"),
        forwards_by_path_mtu: is_set("ip_forward_use_pmtu"),
    })];
    let mut header = [0; IFINFOMSG_BYTES];
    header[0] = libc::AF_INET6 as u8;
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &header);
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
        // A kernel without IPv6 answers with the links themselves.
        if let Ok(Some(conf @ KernelMessage::Inet6(..))) = message::parse(&message) {
            found.push(conf);
        }
    })?;
    Ok(found)
}

/// Reads everything once; returns whether the kernel reports it as consistent. The order matters: addresses belong to
/// links, and routes refer to next-hop objects.
fn dump() -> Result<(TableState, bool), Error> {
    /// Statistics of links are long and not needed here.
    const SKIP_STATISTICS: [u8; 4] = (1_u32 << 3).to_ne_bytes();
    const IFLA_EXT_MASK: u16 = 29;
    let request = |kind, header: &[u8]| Request::new(kind, libc::NLM_F_DUMP, header);
    let family = |family: libc::c_int| [[family as u8, 0, 0, 0], [0; 4], [0; 4]].concat();
    let netconf = |of| request(RTM_GETNETCONF, &family(of)[..NETCONFMSG_BYTES]);
    let links = request(libc::RTM_GETLINK, &[0; 16]).with(IFLA_EXT_MASK, &SKIP_STATISTICS);
    let requests = [
        ("links", links),
        ("addresses", request(libc::RTM_GETADDR, &[0; 8])),
        (
            "next-hop objects",
            request(RTM_GETNEXTHOP, &[0; NHMSG_BYTES]),
        ),
        (
            "IPv4 routes",
            request(libc::RTM_GETROUTE, &family(libc::AF_INET)),
        ),
        (
            "IPv6 routes",
            request(libc::RTM_GETROUTE, &family(libc::AF_INET6)),
        ),
        ("neighbours", request(libc::RTM_GETNEIGH, &family(0))),
        ("settings of IPv4", netconf(libc::AF_INET)),
        ("settings of IPv6", netconf(libc::AF_INET6)),
    ];
    let mut socket = NetlinkSocket::open(libc::NETLINK_ROUTE)?;
    let (mut state, mut consistent) = (TableState::default(), true);
    for (what, request) in requests {
        match dump_one(&mut socket, &request, &mut state) {
            Ok(whole) => consistent &= whole,
            Err(error) if is_unknown_here(what, &error) => debug!(what, %error, "unsupported"),
            Err(source) => return Err(Error::Dump { what, source }),
        }
    }
    state.apply_all(read_unannounced()?);
    Ok((state, consistent))
}

/// Whether the error means that the kernel has no next-hop objects or no IPv6.
fn is_unknown_here(what: &str, error: &io::Error) -> bool {
    let unsupported = matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EINVAL)
    );
    let may_lack = ["next-hop objects", "IPv6 routes", "settings of IPv6"];
    unsupported && may_lack.contains(&what)
}

fn dump_one(
    socket: &mut NetlinkSocket,
    request: &Request,
    state: &mut TableState,
) -> io::Result<bool> {
    let sequence = socket.send(request)?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    let mut consistent = true;
    loop {
        let bytes = socket.receive(&mut buffer)?;
        for message in messages(bytes).filter(|m| m.sequence == sequence) {
            consistent &= libc::c_int::from(message.flags) & libc::NLM_F_DUMP_INTR == 0;
            if let Some(result) = message.result() {
                return result.map(|()| consistent);
            }
            state.apply_bytes(&message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_kernel_that_does_not_answer_holds_up_nobody_else() {
        const STALL: Duration = Duration::from_millis(500);
        let slow = || {
            thread::sleep(STALL);
            Ok(TableState::default())
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let began = Instant::now();
        let mut published_after = None;
        let beats = runtime.block_on(async {
            let publish = |_: &mut TableState| published_after = Some(began.elapsed());
            let following = follow_by(slow, None, publish);
            let beats = async {
                let mut beats = 0;
                while began.elapsed() < STALL {
                    sleep(Duration::from_millis(10)).await;
                    beats += 1;
                }
                sleep(STALL).await;
                beats
            };
            tokio::select! {
                end = following => unreachable!("it ends: {end:?}"),
                beats = beats => beats,
            }
        });
        assert!(published_after >= Some(STALL), "{published_after:?}");
        assert!(
            beats >= 5,
            "the same thread had {beats} turns in the meantime"
        );
    }
}
