//! Netlink sockets and the form of their messages.
//!
//! ```text
//! +----------------------+---------------------+--------------+--
//! | nlmsghdr (16 bytes)  | family's own header | attribute .. |
//! +----------------------+---------------------+--------------+--
//! attribute: | length | kind | value or attributes | padding to 4 |
//! ```

use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, SockFilter, Socket, Type};

use crate::sys;

/// Buffer size for any datagram of the kernel, which by itself creates datagrams of at most 32 KiB.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// Length of `struct nlmsghdr`.
pub(crate) const HEADER_BYTES: usize = 16;
/// Length of `struct nfgenmsg`, the header of netfilter's messages; its first byte is the family.
pub(crate) const NFGENMSG_BYTES: usize = 4;
/// Maximum messages before the answer to a request.
const ANSWERS_MAX: usize = 64;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct NetlinkSocket {
    socket: Socket,
    sequence: u32,
}

impl NetlinkSocket {
    /// Opens a socket for a protocol like `NETLINK_ROUTE`, in the calling thread's network namespace.
    pub(crate) fn open(protocol: libc::c_int) -> io::Result<Self> {
        let protocol = Some(Protocol::from(protocol));
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, protocol)?;
        // SAFETY: `sockaddr_nl` is a structure of integers, for which all zeros are valid.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        // SAFETY: it is a socket address structure of integers.
        socket.bind(&unsafe { sys::address(address) }?)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Makes this the first file that the kernel releases when the process dies, of all its present and future files.
    /// The kernel releases files from the highest number down, and releasing a packet ring takes tens of milliseconds.
    pub(crate) fn released_first(self) -> Self {
        const HIGH: libc::c_int = 1000; // below the number of files that every process may have
        match sys::numbered_from(&self.socket, HIGH) {
            Ok(socket) => Self {
                socket: Socket::from(socket),
                ..self
            },
            Err(error) => {
                tracing::debug!(%error, "cannot renumber the netlink socket; after a crash, the kernel takes over \
                                         later");
                self
            }
        }
    }

    /// Lets the socket receive a multicast group's messages.
    pub(crate) fn join(&self, group: u32) -> io::Result<()> {
        let (level, name) = (libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP);
        sys::set_option(&self.socket, level, name, &(group as libc::c_int))
    }

    /// A further handle of this socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            socket: self.socket.try_clone()?,
            ..*self
        })
    }

    /// Makes the kernel leave out messages about requests of this netlink port.
    pub(crate) fn refuse_port(&self, port: u32) -> io::Result<()> {
        const PORT_AT: u32 = 12;
        let step =
            |code: u32, skipped: u8, value: u32| SockFilter::new(code as u16, 0, skipped, value);
        let port = u32::from_be_bytes(port.to_ne_bytes()); // a filter reads in network order
        self.socket.attach_filter(&[
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, PORT_AT),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, port),
            step(libc::BPF_RET | libc::BPF_K, 0, 0),
            step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        ])
    }

    /// Makes the kernel follow the filter of a dump request, instead of sending everything (Linux 4.20).
    pub(crate) fn check_strictly(&self) -> io::Result<()> {
        let (level, name) = (libc::SOL_NETLINK, libc::NETLINK_GET_STRICT_CHK);
        sys::set_option(&self.socket, level, name, &1)
    }

    /// Asks for a receive buffer of `bytes`; the system may grant less.
    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
        sys::set_option(&self.socket, level, name, &(bytes as libc::c_int))
            .or_else(|_| self.socket.set_recv_buffer_size(bytes))
    }

    /// Asks for a send buffer of `bytes`; the system may grant less.
    pub(crate) fn set_send_buffer(&self, bytes: usize) -> io::Result<()> {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_SNDBUFFORCE);
        sys::set_option(&self.socket, level, name, &(bytes as libc::c_int))
            .or_else(|_| self.socket.set_send_buffer_size(bytes))
    }

    /// Limits the time that a receive waits.
    pub(crate) fn set_receive_timeout(&self, limit: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(limit))
    }

    /// Makes sending and receiving return `WouldBlock` instead of waiting.
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    /// Sends a request and returns its sequence number.
    pub(crate) fn send(&mut self, request: &Request) -> io::Result<u32> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request.numbered(self.sequence))?;
        Ok(self.sequence)
    }

    /// Reserves sequence numbers for messages that are numbered elsewhere; returns the first one.
    pub(crate) fn reserve(&mut self, count: u32) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(count);
        first
    }

    /// Sends finished messages.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes).map(|_| ())
    }

    /// Receives one datagram of messages.
    pub(crate) fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let len = (&self.socket).read(buffer)?;
        Ok(&buffer[..len])
    }

    /// Sends a request and waits for the kernel's "done" or error. For blocking sockets. The kernel answers such a
    /// request before the send returns.
    pub(crate) fn ask(&mut self, request: &Request) -> io::Result<()> {
        let sequence = self.send(request)?;
        let mut buffer = vec![0; 8 * 1024];
        for _ in 0..ANSWERS_MAX {
            for message in messages(self.receive(&mut buffer)?) {
                if message.sequence == sequence
                    && let Some(result) = message.result()
                {
                    return result;
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Sends a dump request and passes each message of the answer to `take`. For blocking sockets.
    pub(crate) fn dump(
        &mut self,
        request: &Request,
        mut take: impl FnMut(Message<'_>),
    ) -> io::Result<()> {
        let sequence = self.send(request)?;
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            for message in messages(self.receive(&mut buffer)?) {
                if message.sequence != sequence {
                    continue;
                }
                match message.result() {
                    Some(result) => return result,
                    None => take(message),
                }
            }
        }
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for NetlinkSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// A received message, not validated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// Type of the message, like `RTM_NEWLINK`.
    pub(crate) kind: u16,
    /// Flags, like `NLM_F_MULTI`.
    pub(crate) flags: u16,
    /// Sequence number of the request that it answers.
    pub(crate) sequence: u32,
    /// The netlink port of the socket whose request it answers, or whose change it announces; zero without such a
    /// socket.
    pub(crate) port: u32,
    /// The bytes after the header.
    pub(crate) payload: &'a [u8],
}

impl Message<'_> {
    /// The result at the end of an answer: success or an error. `None` if this message does not end an answer.
    pub(crate) fn result(&self) -> Option<io::Result<()>> {
        if self.kind != libc::NLMSG_ERROR as u16 && self.kind != libc::NLMSG_DONE as u16 {
            return None;
        }
        let number = self.payload.first_chunk::<4>();
        let number = number.map_or(0, |b| i32::from_ne_bytes(*b));
        Some(match number {
            0 => Ok(()),
            n => Err(io::Error::from_raw_os_error(n.saturating_neg())),
        })
    }
}

/// The messages of a datagram; a malformed message ends the iteration.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let len = u32_at(header, 0)? as usize;
        let payload = bytes.get(HEADER_BYTES..len)?;
        let message = Message {
            kind: u16_at(header, 4)?,
            flags: u16_at(header, 6)?,
            sequence: u32_at(header, 8)?,
            port: u32_at(header, 12)?,
            payload,
        };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Kind (without flag bits) and value of each attribute; a malformed attribute ends the iteration.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & libc::NLA_TYPE_MASK as u16;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, v)| v)
}

/// The text of a text attribute, without its closing zero.
pub(crate) fn text(value: &[u8]) -> String {
    let value = value.strip_suffix(&[0]).unwrap_or(value);
    String::from_utf8_lossy(value).into_owned()
}

/// The number at an offset, in the machine's byte order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// The 16-bit number at an offset, in the machine's byte order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// The family of an address in the headers of messages: `AF_INET` or `AF_INET6`.
pub fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

/// A message under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request with the header of its family.
    pub fn new(kind: u16, flags: libc::c_int, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(header);
        Self { bytes }
    }

    /// Adds an attribute.
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.put(kind, value);
        self
    }

    /// Adds an attribute that is an address.
    pub fn with_address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.with(kind, &address.octets()),
            IpAddr::V6(address) => self.with(kind, &address.octets()),
        }
    }

    /// Adds an attribute that is a number in network byte order, as netfilter uses them.
    pub(crate) fn with_u32_be(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_be_bytes())
    }

    /// Adds a text attribute with its closing zero.
    pub(crate) fn with_text(self, kind: u16, text: &str) -> Self {
        self.with(kind, &[text.as_bytes(), &[0]].concat())
    }

    /// Adds an attribute that consists of the attributes that `inner` adds.
    pub(crate) fn nested(mut self, kind: u16, inner: impl FnOnce(Self) -> Self) -> Self {
        let start = self.bytes.len();
        self.put(kind | libc::NLA_F_NESTED as u16, &[]);
        let mut whole = inner(self);
        let len = (whole.bytes.len() - start) as u16;
        whole.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        whole
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        self.bytes
            .extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Requests an answer in any case; by default, the kernel answers only if it refuses.
    pub(crate) fn acknowledged(mut self) -> Self {
        self.bytes[6] |= libc::NLM_F_ACK as u8;
        self
    }

    /// The bytes after the header.
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The finished bytes, with this sequence number.
    pub fn numbered(&self, sequence: u32) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let len = bytes.len() as u32;
        bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_built_can_be_read() {
        let request = Request::new(0x10, libc::NLM_F_ACK, &[9; 4])
            .with_text(1, "weir")
            .nested(2, |r| r.with_u32_be(3, 7).nested(4, |r| r.with(5, &[1])));
        let bytes = [request.numbered(42), request.numbered(43)].concat();
        let read: Vec<_> = messages(&bytes).collect();
        assert_eq!(read.len(), 2);
        assert_eq!(
            (read[0].kind, read[0].sequence, read[1].sequence),
            (0x10, 42, 43)
        );
        assert_eq!(
            read[0].flags,
            (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16
        );
        let body = &read[0].payload[4..];
        assert_eq!(text(attribute(body, 1).unwrap()), "weir");
        let inner = attribute(body, 2).unwrap();
        assert_eq!(attribute(inner, 3), Some(&[0, 0, 0, 7][..]));
        assert_eq!(attribute(attribute(inner, 4).unwrap(), 5), Some(&[1][..]));
        assert_eq!(attribute(body, 9), None);
    }

    #[test]
    fn an_answer_says_whether_it_went_well() {
        let answer = |kind, number: i32| {
            let bytes = Request::new(kind, 0, &number.to_ne_bytes()).numbered(0);
            messages(&bytes).next().unwrap().result()
        };
        assert!(answer(0x10, 0).is_none());
        assert!(answer(libc::NLMSG_DONE as u16, 0).unwrap().is_ok());
        let error = answer(libc::NLMSG_ERROR as u16, -libc::EEXIST);
        let error = error.unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic_or_loop(
            bytes in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            prop_assert!(messages(&bytes).count() <= bytes.len());
            prop_assert!(attributes(&bytes).count() <= bytes.len());
        }
    }
}
