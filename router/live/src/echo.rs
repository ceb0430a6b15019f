//! Pings reflectors through one interface, to measure the round-trip time of the path behind it.
//!
//! ```text
//!   worker: [ discipline ] --paced--> packet socket --+
//!                                                     +--> driver --> the link behind the port
//!   this module: raw ICMP socket, bound to interface -+
//!
//!   ICMP header | session | lateness | number | tag of (reflector, lateness, number)      a probe, 32 bytes of ICMP
//! ```
//!
//! A probe enters *behind* the port's queue, like every packet of the machine itself: it measures the wait for the
//! link, not for our own queue. It carries weir's mark, so the limit on the machine's own packets does not apply to it;
//! instead, the port is charged for it. So a probe does not get ahead of more than the frame being sent, and takes no
//! unaccounted capacity.
//!
//! **Forged answers.** Each socket is connected to its reflector, and a filter in the kernel passes only echo replies
//! of this session (identifier and a random word). So a flood of other replies fills no buffer and causes no wake-up. A
//! tag with a secret key authenticates the remaining replies: only a host that sees the probes can answer in place of a
//! reflector.
//!
//! **Times.** The kernel stamps an answer on arrival. A probe carries the time by which it was sent too late, so that a
//! thread that has to wait for a processor measures no delay.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use weir_base::{Instant, Span};
use weir_wire::{icmpv4, icmpv6};

use crate::clock::{self, Stamps};
use crate::device::interface;
use crate::sys;

/// Bytes of a probe: the ICMP header, and the payload.
const PROBE_BYTES: usize = icmpv4::HEADER_LEN + 24;
/// Longest IP header before the message: raw sockets deliver it for IPv4.
const IP_HEADER_BYTES_MAX: usize = 60;
/// Receive buffer for the answers of one reflector, in bytes: about eighty answers.
const RECEIVE_BUFFER_BYTES: usize = 65_536;
/// Maximum answers of one reflector taken at once.
const BURST_MAX: usize = 32;

/// An answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Time of arrival, minus the time by which its probe was sent too late.
    pub at: Instant,
    /// Index of the reflector in the list.
    pub reflector: usize,
    /// The number of the probe.
    pub number: u64,
}

/// Sends probes through an interface, and receives their answers.
#[derive(Debug)]
pub struct Prober {
    reflectors: Vec<Line>,
    session: Session,
}

/// Identifier, word and key of the probes of one [`Prober`].
#[derive(Debug)]
struct Session {
    identifier: u16,
    word: u32,
    key: RandomState,
}

/// A reflector, and its socket.
#[derive(Debug)]
struct Line {
    socket: Socket,
    is_v6: bool,
    stamps: Stamps,
}

impl Prober {
    /// Opens a socket for each reflector, bound to an interface in the calling thread's network namespace. Sends
    /// nothing yet; probes will have this mark.
    pub fn open(interface: &str, reflectors: &[IpAddr], mark: u32) -> io::Result<Self> {
        let key = RandomState::new();
        let session = Session {
            identifier: key.hash_one("identifier") as u16,
            word: key.hash_one("word") as u32,
            key,
        };
        let reflectors = reflectors.iter();
        let lines = reflectors.map(|address| Line::open(interface, *address, &session, mark));
        Ok(Self {
            reflectors: lines.collect::<io::Result<_>>()?,
            session,
        })
    }

    /// Sends the probe with this number to a reflector. `planned` is the time at which it was due.
    pub fn send(&self, reflector: usize, number: u64, planned: Instant) -> io::Result<()> {
        let line = &self.reflectors[reflector];
        let late = clock::now().since(planned);
        let probe = self.session.probe(reflector, number, late, line.is_v6);
        let sent = line.socket.send(&probe);
        // The kernel reports an earlier probe's error, an ICMP error for example, once instead of sending this probe.
        let sent = sent.or_else(|_| line.socket.send(&probe));
        sent.map(drop)
    }

    /// Receives pending answers, a bounded number of them. Does not block.
    pub fn receive(&mut self, take: &mut dyn FnMut(Echo)) {
        for (reflector, line) in self.reflectors.iter_mut().enumerate() {
            line.stamps.begin();
            for _ in 0..BURST_MAX {
                let mut message = [0; IP_HEADER_BYTES_MAX + PROBE_BYTES];
                // An error concerns an earlier probe, which then stays unanswered.
                let Ok((len, stamp)) = sys::receive_stamped(&line.socket, &mut message) else {
                    break;
                };
                let at = match stamp {
                    Some((seconds, nanos)) => line.stamps.instant(seconds, nanos),
                    None => clock::now(),
                };
                let message = &message[..len.min(message.len())];
                let answer = icmp_of(message, line.is_v6);
                if let Some((late, number)) = self.session.answer(answer, reflector) {
                    let at = at.before(late);
                    take(Echo {
                        at,
                        reflector,
                        number,
                    });
                }
            }
        }
    }

    /// The sockets to wait for.
    pub fn wait_on(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.reflectors.iter().map(|line| line.socket.as_fd())
    }
}

impl Line {
    fn open(interface: &str, address: IpAddr, session: &Session, mark: u32) -> io::Result<Self> {
        let is_v6 = address.is_ipv6();
        let (domain, protocol) = if is_v6 {
            (Domain::IPV6, Protocol::ICMPV6)
        } else {
            (Domain::IPV4, Protocol::ICMPV4)
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
        socket.attach_filter(&own_answers(session, is_v6))?;
        socket.set_nonblocking(true)?;
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
        let on: libc::c_int = 1;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)?;
        if let Err(error) = socket.set_mark(mark) {
            // Not privileged: then no rule that checks the mark can exist either.
            tracing::debug!(%error, "cannot mark probes");
        }
        socket.bind_device(Some(interface.as_bytes()))?;
        let to = match address {
            IpAddr::V4(_) => SocketAddr::new(address, 0),
            // Only a link-local address needs the interface; the kernel ignores it for other addresses.
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, interface::index(interface)?).into(),
        };
        socket.connect(&to.into())?;
        Ok(Self {
            socket,
            is_v6,
            stamps: Stamps::default(),
        })
    }
}

impl Session {
    fn tag(&self, reflector: usize, late: u32, number: u64) -> u64 {
        self.key.hash_one((reflector, late, number))
    }

    fn probe(&self, reflector: usize, number: u64, late: Span, is_v6: bool) -> [u8; PROBE_BYTES] {
        let (identifier, sequence) = (self.identifier, number as u16);
        let late = u32::try_from(late.as_nanos()).unwrap_or(u32::MAX);
        let mut probe = [0; PROBE_BYTES];
        let payload = &mut probe[icmpv4::HEADER_LEN..];
        payload[..4].copy_from_slice(&self.word.to_be_bytes());
        payload[4..8].copy_from_slice(&late.to_be_bytes());
        payload[8..16].copy_from_slice(&number.to_be_bytes());
        let tag = self.tag(reflector, late, number);
        payload[16..].copy_from_slice(&tag.to_be_bytes());
        if is_v6 {
            let request = icmpv6::Repr::EchoRequest {
                identifier,
                sequence,
            };
            request.emit(&mut icmpv6::View::new_unchecked(&mut probe)); // the kernel fills the checksum
        } else {
            let request = icmpv4::Repr::EchoRequest {
                identifier,
                sequence,
            };
            let mut view = icmpv4::View::new_unchecked(&mut probe);
            request.emit(&mut view);
            view.fill_checksum();
        }
        probe
    }

    /// Lateness and number of the probe that this message answers; `None` if its tag is not ours. The filter has
    /// checked the message's header.
    fn answer(&self, message: &[u8], reflector: usize) -> Option<(Span, u64)> {
        let payload = message.get(icmpv4::HEADER_LEN..PROBE_BYTES)?;
        let (_word, payload) = payload.split_first_chunk::<4>()?;
        let (late, payload) = payload.split_first_chunk()?;
        let (number, payload) = payload.split_first_chunk()?;
        let (tag, _) = payload.split_first_chunk()?;
        let late = u32::from_be_bytes(*late);
        let number = u64::from_be_bytes(*number);
        let is_ours = u64::from_be_bytes(*tag) == self.tag(reflector, late, number);
        is_ours.then(|| (Span::from_nanos(late.into()), number))
    }
}

/// The ICMP message in a datagram of a raw socket, which includes the IPv4 header but not the IPv6 header.
fn icmp_of(bytes: &[u8], is_v6: bool) -> &[u8] {
    let header = match (is_v6, bytes.first()) {
        (false, Some(first)) => usize::from(first & 0xf) * 4,
        _ => 0,
    };
    bytes.get(header..).unwrap_or_default()
}

/// A filter that passes only echo replies with the identifier and the word of a session.
fn own_answers(session: &Session, is_v6: bool) -> Vec<SockFilter> {
    let code = |parts: u32| parts as u16;
    // X is the length of the header before the message.
    let header = if is_v6 {
        SockFilter::new(code(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM), 0, 0, 0)
    } else {
        SockFilter::new(code(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH), 0, 0, 0)
    };
    let reply = if is_v6 {
        icmpv6::ECHO_REPLY
    } else {
        icmpv4::ECHO_REPLY
    };
    let fields = [
        (libc::BPF_B, 0, u32::from(reply)),
        (libc::BPF_H, 4, session.identifier.into()),
        (libc::BPF_W, 8, session.word),
    ];
    let compare = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
    let end = code(libc::BPF_RET | libc::BPF_K);
    let mut program = vec![header];
    for (place, (size, offset, value)) in fields.into_iter().enumerate() {
        let load = code(libc::BPF_LD | size | libc::BPF_IND);
        program.push(SockFilter::new(load, 0, 0, offset));
        let refuse = 2 * (fields.len() - 1 - place) + 1; // skips the following pairs and the acceptance
        program.push(SockFilter::new(compare, 0, refuse as u8, value));
    }
    program.push(SockFilter::new(end, 0, 0, u32::MAX));
    program.push(SockFilter::new(end, 0, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(seed: u32) -> Session {
        Session {
            identifier: 7,
            word: seed,
            key: RandomState::new(),
        }
    }

    #[test]
    fn an_answer_repeats_its_probe_and_nothing_else_counts() {
        let ours = session(1);
        let late = Span::from_micros(250);
        for is_v6 in [false, true] {
            let probe = ours.probe(3, 99, late, is_v6);
            assert_eq!(ours.answer(&probe, 3), Some((late, 99)));
            assert_eq!(ours.answer(&probe, 2), None, "another reflector");
            assert_eq!(session(1).answer(&probe, 3), None, "another key");
            for byte in 12..PROBE_BYTES {
                let mut forged = probe;
                forged[byte] ^= 1;
                assert_eq!(ours.answer(&forged, 3), None, "byte {byte}");
            }
            assert_eq!(ours.answer(&probe[..PROBE_BYTES - 1], 3), None);
        }
    }

    #[test]
    fn a_message_of_ipv4_comes_with_its_header() {
        let mut bytes = vec![0x46; 24];
        bytes.push(1);
        assert_eq!(icmp_of(&bytes, false), [1]);
        assert_eq!(icmp_of(&[0x4f], false), [0; 0]);
        assert_eq!(icmp_of(&[129, 0], true), [129, 0]);
    }

    /// The echoes that come within a quarter of a second.
    fn echoes(prober: &mut Prober) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        for _ in 0..25 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            prober.receive(&mut |echo| all.push((echo.reflector, echo.number)));
        }
        all
    }

    /// Sends a message to the machine itself, as the answer of a reflector.
    fn forge(mut message: [u8; PROBE_BYTES], to: IpAddr) {
        let (domain, protocol, kind) = match to {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4, icmpv4::ECHO_REPLY),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6, icmpv6::ECHO_REPLY),
        };
        message[0] = kind;
        if to.is_ipv4() {
            icmpv4::View::new_unchecked(&mut message).fill_checksum();
        }
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
        let to = SocketAddr::new(to, 0);
        socket.send_to(&message, &to.into()).unwrap();
    }

    fn check_in_a_namespace() {
        let mut up = std::process::Command::new("ip");
        assert!(
            up.args(["link", "set", "lo", "up"])
                .status()
                .unwrap()
                .success()
        );
        let all: [IpAddr; 2] = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        let mut prober = Prober::open("lo", &all, 1).unwrap();
        for (reflector, number) in [(0, 1), (1, 2), (0, 3)] {
            prober.send(reflector, number, clock::now()).unwrap();
        }
        let mut seen = echoes(&mut prober);
        seen.sort_by_key(|(_, number)| *number);
        assert_eq!(seen, [(0, 1), (1, 2), (0, 3)]);

        // Answers forged in a reflector's name by strangers, and by the other reflector.
        let other = session(9);
        let (session, late) = (&prober.session, Span::ZERO);
        let mut forged = Vec::new();
        for (reflector, to) in all.into_iter().enumerate() {
            let real = session.probe(reflector, 4, late, to.is_ipv6());
            let mut of_another_number = real;
            of_another_number[23] ^= 1;
            let of_the_other = session.probe(1 - reflector, 4, late, to.is_ipv6());
            let of_a_stranger = other.probe(reflector, 4, late, to.is_ipv6());
            forged.extend([of_another_number, of_the_other, of_a_stranger].map(|m| (m, to)));
        }
        forged
            .into_iter()
            .for_each(|(message, to)| forge(message, to));
        assert_eq!(echoes(&mut prober), []);
        // The check itself: the same message with the right tag is accepted.
        let real = prober.session.probe(0, 5, late, false);
        forge(real, all[0]);
        assert_eq!(echoes(&mut prober), [(0, 5)]);
    }

    #[test]
    fn only_an_answer_to_a_probe_is_taken() {
        match crate::namespace::Namespace::new() {
            Ok(namespace) => namespace.enter(check_in_a_namespace).unwrap(),
            Err(error) => println!("skipped: no network namespaces here ({error})"),
        }
    }
}
