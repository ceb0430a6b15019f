//! A device for any Linux interface, through a packet socket.
//!
//! ```text
//! kernel --(copy)--> [TPACKET_V2 ring, 4096 slots] --lend--> receive
//!        --(reference, frames longer than a slot)----> receive queue --(copy)-->
//! transmit --> sendmmsg, 32 frames a call --> driver          (PACKET_QDISC_BYPASS)
//! ```
//!
//! The kernel sees every received frame too: a router must keep transit away from it ([`crate::kernel::transit`]).
//! Frames that the kernel itself sends out of the interface come back as [`Direction::Outgoing`], cut to
//! [`OUTGOING_BYTES_MAX`] bytes, with their true length. Frames sent by this device do not come back.
//!
//! The ring uses TPACKET_V2 instead of V3, because the blocks of V3 wait up to a millisecond. The size of its slots
//! fits the interface's MTU at the time of opening: after a change of the MTU, open the interface again. Superframes,
//! which are longer, come through the socket's receive queue, in the same order ([`long_frames`](super::long_frames)).
//!
//! When the interface goes down or disappears, [`Device::receive`] and [`Device::transmit`] return an error that
//! [`device_gone`] recognises. After going down, the same device works again once the interface is up; after
//! disappearing, it must be opened again. Opening it again is right in both cases.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};
use weir_base::{Instant, Span};
use weir_lfb::router::Mark;
use weir_path::link::offload::Offload;

use super::headerless;
use super::interface::{device_gone, interface_index, interface_mtu};
use super::long_frames::LongFrames;
use super::merging;
use super::ownership_window::{OwnershipWindow, Progress};
use super::ring::{Ring, Slot};
use super::vnet;
use super::{Counters, Device, Direction, Layer, Received};
use crate::clock::{self, Stamps, UnixTime};
use crate::sys;

/// Bytes delivered of a frame that the kernel itself sent.
pub const OUTGOING_BYTES_MAX: u32 = 128;
/// Length of an Ethernet header and two VLAN tags.
const LINK_HEADER_BYTES: usize = 14 + 4 + 4;
/// Frames per system call.
const BATCH: usize = 32;
/// A pending socket error is checked after every N empty receives: if an error ended a wait, that wait must not be
/// repeated endlessly.
const EMPTY_CALLS_PER_CHECK: u32 = 16;
/// If the driver keeps refusing a frame as "no buffer space" for this long, the frame itself is the cause (veth: longer
/// than the peer's MTU), or the link has no carrier.
const NO_BUFFER_PATIENCE: Span = Span::from_millis(1);
/// Send buffer: bytes that may wait in the driver.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// Options for opening an interface.
#[derive(Clone, Debug)]
pub struct Options {
    /// Minimum number of slots in the receive ring.
    pub slots: usize,
    /// The longest frame that a slot must hold; by default, the longest that the interface's MTU allows.
    pub frame_bytes_max: Option<usize>,
    /// Receive frames addressed to others too (bridged mode).
    pub promiscuous: bool,
    /// Deliver frames that the kernel itself sends out of the interface.
    pub outgoing: bool,
    /// The frames to deliver from the start.
    pub ownership: OwnershipWindow,
    /// Leave to the kernel what senders left to hardware, if it can do that.
    pub offloads: bool,
    /// The layer of the frames that arrive. A packet gets an Ethernet header ([`headerless`]); the kernel's own frames
    /// that are not IP are left out.
    pub arriving: Layer,
    /// Where to send frames; by default out of the opened interface.
    pub through: Option<Through>,
    /// The mark (`SO_MARK`) of sent frames: rules at netfilter's egress hook recognise them by it.
    pub mark: u32,
}

/// The interface out of which frames are sent.
#[derive(Clone, Copy, Debug)]
pub struct Through {
    /// Index of the interface.
    pub index: u32,
    /// Whether frames pass the queue of the interface and the traffic control at its egress, and packet sockets there see
    /// them.
    pub is_seen: bool,
    /// The layer of the interface: at [`Layer::Packets`], frames leave without their Ethernet header.
    pub layer: Layer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slots: 4096,
            frame_bytes_max: None,
            promiscuous: false,
            outgoing: true,
            ownership: OwnershipWindow::ALWAYS,
            offloads: false,
            arriving: Layer::Frames,
            through: None,
            mark: Mark::DEFAULT.value,
        }
    }
}

/// An open interface.
#[derive(Debug)]
pub struct AfPacket {
    ring: Ring, // before the socket: unmapped first
    long: LongFrames,
    receiver: Socket,
    sender: Sender,
    arriving: Layer,
    stamps: Stamps,
    ownership: Progress,
    counters: Counters,
    index: u32,
    frame_bytes_max: usize,
    empty_calls: u32,
    no_buffer_since: Option<Instant>,
}

impl AfPacket {
    /// Opens the interface called `name` in the calling thread's network namespace. If the interface is down or
    /// missing, the error is one that [`device_gone`] recognises.
    pub fn open(name: &str, options: Options) -> io::Result<Self> {
        // Protocol zero: nothing arrives before the filter and the ring are in place.
        let receiver = Socket::new(Domain::PACKET, Type::RAW, None)?;
        let index = interface_index(&receiver, name)?;
        match merging::stop_lro(&receiver, name) {
            Ok(false) => {}
            Ok(true) => tracing::info!(interface = name, "LRO disabled"),
            // Most drivers do not support this request.
            Err(error) => tracing::debug!(interface = name, %error, "cannot disable LRO"),
        }
        let frame_bytes_max = match options.frame_bytes_max {
            Some(bytes) => bytes,
            None => interface_mtu(&receiver, name)? + LINK_HEADER_BYTES,
        };
        if options.outgoing {
            receiver.attach_filter(&cut_outgoing())?;
        } else {
            let on: libc::c_int = 1;
            sys::set_option(&receiver, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on)?;
        }
        let long = LongFrames::new(&receiver)?;
        let ring = Ring::new(&receiver, options.slots, frame_bytes_max)?;
        receiver.bind(&link_address(index, libc::ETH_P_ALL as u16)?)?;
        if let Some(error) = receiver.take_error()? {
            return Err(error); // the interface is down
        }
        if options.promiscuous {
            join_promiscuous(&receiver, index)?;
        }
        let through = options.through.unwrap_or(Through {
            index,
            is_seen: false,
            layer: Layer::Frames,
        });
        Ok(Self {
            ring,
            long,
            receiver,
            sender: Sender::open(through, options.mark, options.offloads)?,
            arriving: options.arriving,
            stamps: Stamps::default(),
            ownership: Progress::new(options.ownership, clock::now()),
            counters: Counters::default(),
            index,
            frame_bytes_max,
            empty_calls: 0,
            no_buffer_since: None,
        })
    }

    /// The interface's index in the kernel.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The longest frame that a slot of the ring can hold.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Slots of the receive ring.
    pub fn slots(&self) -> usize {
        self.ring.slots()
    }

    /// Returns a pending error of the receiving socket; checks once per [`EMPTY_CALLS_PER_CHECK`] calls.
    fn check_when_empty(&mut self) -> io::Result<()> {
        self.empty_calls += 1;
        if self.empty_calls < EMPTY_CALLS_PER_CHECK {
            return Ok(());
        }
        self.empty_calls = 0;
        self.receiver.take_error()?.map_or(Ok(()), Err)
    }

    /// Decides about the first frame of a batch when no frame of it was sent.
    fn verdict(&mut self, error: io::Error) -> Verdict {
        match error.raw_os_error() {
            Some(libc::EINTR) => Verdict::Again,
            Some(libc::EAGAIN) => Verdict::Full,
            Some(libc::ENOBUFS | libc::ENOMEM) => {
                let now = clock::now();
                let since = *self.no_buffer_since.get_or_insert(now);
                if now.since(since) < NO_BUFFER_PATIENCE {
                    Verdict::Full
                } else {
                    Verdict::Refused
                }
            }
            _ if device_gone(&error) => Verdict::Gone(error),
            _ => Verdict::Refused,
        }
    }
}

/// The meaning of a failed send.
enum Verdict {
    Again,
    Full,
    Refused,
    Gone(io::Error),
}

impl Device for AfPacket {
    fn receive(
        &mut self,
        burst_max: usize,
        take: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < burst_max {
            let Some(slot) = self.ring.head() else {
                if taken == 0 {
                    self.check_when_empty()?;
                    let looked = clock::now();
                    let wall_clock = UnixTime::now();
                    if self.ring.head().is_none() {
                        self.stamps.nothing_before(looked);
                        self.ownership.nothing_before(wall_clock, looked);
                    }
                }
                return Ok(taken);
            };
            if taken == 0 {
                self.stamps.begin();
                self.empty_calls = 0;
            }
            let stamp = (slot.header.tp_sec, slot.header.tp_nsec);
            let stamped = UnixTime::from_stamp(stamp.0, stamp.1);
            // Fetch the frame regardless of its time, to keep the receive queue in step with the ring.
            let whole = self.long.whole(slot, &self.receiver)?;
            if !self.ownership.admits(stamped) {
                taken += 1;
            } else if let Some(slot) = whole {
                let arrived = self.stamps.instant(stamp.0, stamp.1);
                match received(slot, arrived, self.arriving) {
                    Some(frame) => {
                        taken += frame.cost();
                        take(frame);
                    }
                    None => taken += 1,
                }
            } else {
                self.counters.missed += 1;
                taken += 1;
            }
            self.ring.release();
        }
        Ok(taken)
    }

    fn transmit(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        self.transmit_offloaded(frames, &[])
    }

    fn does_offloads(&self) -> bool {
        self.sender.has_headers
    }

    fn transmit_offloaded(&mut self, frames: &[&[u8]], offloads: &[Offload]) -> io::Result<usize> {
        let mut taken = 0;
        while taken < frames.len() {
            let end = frames.len().min(taken + BATCH);
            let offloads = offloads.get(taken..end).unwrap_or_default();
            match self.sender.send(&frames[taken..end], offloads) {
                Ok(sent) => {
                    taken += sent;
                    self.no_buffer_since = None;
                }
                Err(error) => match self.verdict(error) {
                    Verdict::Again => {}
                    Verdict::Full => break,
                    Verdict::Refused => {
                        self.counters.refused += 1;
                        self.no_buffer_since = None;
                        taken += 1;
                    }
                    Verdict::Gone(error) if taken == 0 => return Err(error),
                    Verdict::Gone(_) => break,
                },
            }
        }
        Ok(taken)
    }

    fn wait_on(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.as_fd())
    }

    fn set_ownership(&mut self, ownership: OwnershipWindow) {
        self.ownership = Progress::new(ownership, clock::now());
    }

    fn begin_again(&mut self, from: UnixTime) {
        self.ownership.begin_again(from, clock::now());
    }

    fn tenure_is_over(&self) -> bool {
        self.ownership.is_over()
    }

    fn counters(&mut self) -> Counters {
        // Reading resets the kernel's counter.
        let missed: io::Result<libc::tpacket_stats> =
            sys::option(&self.receiver, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        if let Ok(stats) = missed {
            self.counters.missed += u64::from(stats.tp_drops);
        }
        self.counters
    }
}

/// Converts a slot to the form in which the trait lends it. A tag that is not 802.1Q goes back into the frame, because
/// it is not one of our VLANs. So do the bytes of a packet without an Ethernet header that the kernel took for a tag: a
/// source address, for instance 129.0.0.1. `None` for a frame among packets.
fn received(slot: Slot<'_>, arrived: Instant, arriving: Layer) -> Option<Received<'_>> {
    let Slot {
        header,
        address,
        vnet,
        mut memory,
        mut start,
    } = slot;
    let bytes = memory.bytes_mut();
    let mut offload = vnet::offload(vnet);
    let mut len = header.tp_len;
    let status = header.tp_status;
    let mut vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then_some(header.tp_vlan_tci);
    let kind = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => libc::ETH_P_8021Q as u16,
        _ => header.tp_vlan_tpid,
    };
    if let Some(tag) = vlan
        && (kind != libc::ETH_P_8021Q as u16 || arriving == Layer::Packets)
        && start >= TAG_BYTES
        && bytes.len() >= start + MACS_BYTES
    {
        bytes.copy_within(start..start + MACS_BYTES, start - TAG_BYTES);
        start -= TAG_BYTES;
        len += TAG_BYTES as u32;
        let at = start + MACS_BYTES;
        bytes[at..at + 2].copy_from_slice(&kind.to_be_bytes());
        bytes[at + 2..at + 4].copy_from_slice(&tag.to_be_bytes());
        vlan = None;
        if let Some(checksum) = &mut offload.checksum {
            checksum.start = checksum.start.saturating_add(TAG_BYTES as u16);
        }
    }
    if arriving == Layer::Packets {
        let header = headerless::header(&bytes[start..])?;
        let end = start;
        start = start.checked_sub(header.len())?;
        bytes[start..end].copy_from_slice(&header);
        len += header.len() as u32;
        if let Some(checksum) = &mut offload.checksum {
            checksum.start = checksum.start.saturating_add(header.len() as u16);
        }
    }
    Some(Received {
        bytes: memory.lend(start),
        len,
        arrived,
        vlan,
        direction: match address.sll_pkttype {
            libc::PACKET_HOST => Direction::Host,
            libc::PACKET_BROADCAST | libc::PACKET_MULTICAST => Direction::Group,
            libc::PACKET_OUTGOING => Direction::Outgoing,
            _ => Direction::Other,
        },
        offload,
    })
}

/// Two MAC addresses.
const MACS_BYTES: usize = 12;
/// A VLAN tag.
const TAG_BYTES: usize = 4;
/// `PACKET_IGNORE_OUTGOING` of linux/if_packet.h.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// A second socket for sending: it receives nothing, because its protocol is zero.
#[derive(Debug)]
struct Sender {
    socket: Socket,
    /// Whether the kernel expects a [`vnet::Header`] before each frame.
    has_headers: bool,
    /// The addresses for IPv4 and IPv6, if frames leave without their Ethernet header.
    addresses: Option<[SockAddr; 2]>,
}

impl Sender {
    fn open(through: Through, mark: u32, has_headers: bool) -> io::Result<Self> {
        let Through {
            index,
            is_seen,
            layer,
        } = through;
        // Without Ethernet headers, the kernel accepts no offloads.
        let has_headers = has_headers && layer == Layer::Frames;
        let (kind, addresses) = match layer {
            Layer::Frames => (Type::RAW, None),
            Layer::Packets => {
                let address = |protocol: libc::c_int| link_address(index, protocol as u16);
                let addresses = [address(libc::ETH_P_IP)?, address(libc::ETH_P_IPV6)?];
                (Type::DGRAM, Some(addresses))
            }
        };
        let socket = Socket::new(Domain::PACKET, kind, Some(Protocol::from(0)))?;
        let bypasses = libc::c_int::from(!is_seen);
        sys::set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            &bypasses,
        )?;
        let bytes = SEND_BUFFER_BYTES as libc::c_int;
        if sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
            // Not privileged: accept the size that the system grants.
            socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        }
        if let Err(error) = socket.set_mark(mark) {
            // Not privileged: then no rule that checks the mark can exist either.
            tracing::debug!(%error, "cannot mark sent frames");
        }
        if has_headers {
            vnet::switch_on(&socket)?;
        }
        socket.bind(&link_address(index, 0)?)?;
        Ok(Self {
            socket,
            has_headers,
            addresses,
        })
    }

    /// Sends up to [`BATCH`] frames with one system call; an error refers to the first frame.
    fn send(&self, frames: &[&[u8]], offloads: &[Offload]) -> io::Result<usize> {
        let mut headers = [const { MaybeUninit::<vnet::Header>::uninit() }; BATCH];
        let mut vectors = [const { MaybeUninit::<[libc::iovec; 2]>::uninit() }; BATCH];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
        let count = frames.len().min(BATCH);
        for (n, frame) in frames[..count].iter().enumerate() {
            // SAFETY: all zeros is a message header without address, data and control data.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let offload = offloads.get(n).copied().unwrap_or_default();
            let mut bytes = *frame;
            if let Some([v4, v6]) = &self.addresses {
                bytes = headerless::packet(frame).unwrap_or_default(); // the kernel refuses an empty one
                let is_v4 = bytes.first().is_some_and(|first| first >> 4 == 4);
                let address = if is_v4 { v4 } else { v6 };
                message.msg_hdr.msg_name = address.as_ptr().cast_mut().cast();
                message.msg_hdr.msg_namelen = address.len();
            }
            let header = headers[n].write(vnet::header(bytes, &offload));
            let header = &header[..if self.has_headers { header.len() } else { 0 }];
            let vector = vectors[n].write([header, bytes].map(|bytes| libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            }));
            message.msg_hdr.msg_iov = vector.as_mut_ptr();
            message.msg_hdr.msg_iovlen = vector.len() as _;
            messages[n].write(message);
        }
        // SAFETY: the first `count` messages were written above; each points to vectors that live until the end of this
        // function, and each vector to a header that lives as long, or to a frame that is borrowed as long, like the
        // addresses. The kernel reads them and writes only into the messages.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _, // musl has an unsigned parameter
            )
        };
        sys::check(sent).map(|()| sent as usize)
    }
}

pub(crate) fn link_address(index: u32, protocol: u16) -> io::Result<SockAddr> {
    // SAFETY: `sockaddr_ll` is a structure of integers, for which all zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as libc::c_int;
    // SAFETY: it is a socket address structure of integers.
    unsafe { sys::address(address) }
}

fn join_promiscuous(socket: &Socket, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let name = libc::PACKET_ADD_MEMBERSHIP;
    sys::set_option(socket, libc::SOL_PACKET, name, &request)
}

/// A filter that accepts everything, but cuts outgoing frames to their first bytes.
fn cut_outgoing() -> [SockFilter; 4] {
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let compare = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let accept = (libc::BPF_RET | libc::BPF_K) as u16;
    [
        SockFilter::new(load, 0, 0, packet_type),
        SockFilter::new(compare, 0, 1, u32::from(libc::PACKET_OUTGOING)),
        SockFilter::new(accept, 0, 0, OUTGOING_BYTES_MAX),
        SockFilter::new(accept, 0, 0, u32::MAX),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::ring::Memory;
    use super::*;
    use weir_path::link::offload::Offload;

    /// A slot with 14 spare bytes before the frame, as the kernel leaves them.
    fn slot(bytes: &mut [u8], status: u32, tag: (u16, u16), packet_type: u8) -> Slot<'_> {
        // SAFETY: structures of integers.
        let (mut header, mut address): (libc::tpacket2_hdr, libc::sockaddr_ll) =
            unsafe { std::mem::zeroed() };
        header.tp_status = libc::TP_STATUS_USER | status;
        header.tp_len = bytes.len() as u32 - 14;
        (header.tp_vlan_tpid, header.tp_vlan_tci) = tag;
        address.sll_pkttype = packet_type;
        Slot {
            header,
            address,
            vnet: [0; vnet::HEADER_LEN],
            memory: Memory::Ring(bytes),
            start: 14,
        }
    }

    const TAGGED: u32 = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;

    #[test]
    fn a_tag_of_802_1q_stays_out_of_band() {
        let mut bytes = [7; 14 + 60];
        let slot = slot(&mut bytes, TAGGED, (0x8100, 42), 0);
        let got = received(slot, Instant::ZERO, Layer::Frames).unwrap();
        assert_eq!(got.vlan, Some(42));
        assert_eq!((got.bytes.len(), got.len), (60, 60));
        assert_eq!(got.direction, Direction::Host);
        assert_eq!(got.offload, Offload::NONE);
    }

    #[test]
    fn a_tag_of_another_kind_goes_back_into_the_frame() {
        let mut bytes = [0; 14 + 60];
        for (n, byte) in bytes[14..].iter_mut().enumerate() {
            *byte = n as u8;
        }
        let slot = slot(&mut bytes, TAGGED, (0x88a8, 0x1234), 3);
        let got = received(slot, Instant::ZERO, Layer::Frames).unwrap();
        assert_eq!(got.vlan, None);
        assert_eq!((got.bytes.len(), got.len), (64, 64));
        assert_eq!(
            got.bytes[..18],
            [
                0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0x88, 0xa8, 0x12, 0x34, 12, 13
            ]
        );
        assert_eq!(got.direction, Direction::Other);
    }

    #[test]
    fn a_packet_without_an_ethernet_header_gets_one() {
        let mut bytes = [0; 24 + 60];
        let packet = &mut bytes[24..];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&[1, 2, 3, 4]);
        // The kernel has taken a source address of 129.0.7.9 for a tag.
        let mut slot = slot(&mut bytes, TAGGED, (0x8100, 0x0709), 0);
        slot.start = 24;
        slot.header.tp_len = 60;
        let got = received(slot, Instant::ZERO, Layer::Packets).unwrap();
        assert_eq!((got.bytes.len(), got.len, got.vlan), (78, 78, None));
        assert_eq!(got.bytes[..6], headerless::DESTINATION);
        assert_eq!(got.bytes[12..15], [8, 0, 0x45]);
        assert_eq!(got.bytes[26..34], [129, 0, 7, 9, 1, 2, 3, 4]);
        // A frame of the kernel itself.
        let mut bytes = [0x33; 14 + 60];
        let slot = self::slot(&mut bytes, 0, (0, 0), 2);
        assert!(received(slot, Instant::ZERO, Layer::Packets).is_none());
    }

    #[test]
    fn errors_of_a_missing_device_are_recognised() {
        let error = io::Error::from_raw_os_error;
        assert!(device_gone(&error(libc::ENETDOWN)));
        assert!(device_gone(&error(libc::ENXIO)));
        assert!(!device_gone(&error(libc::EAGAIN)));
    }
}
