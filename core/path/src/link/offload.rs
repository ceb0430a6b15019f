//! Work that the sender of a frame left to hardware: finishing a checksum, or cutting a long frame
//! into segments.
//!
//! Source: the `virtio_net_hdr` of virtio 1.2, section 5.1.6, which Linux passes along with a frame that
//! a packet socket receives. Hosts on veth, tun and virtio-net devices send such frames by default: their
//! link is memory, and only the machine that puts the frame on a wire has to do the work.
//!
//! ```text
//!  frame: | Ethernet | IP | UDP | VXLAN | Ethernet | IP | TCP | payload ...
//!                                                       start (of the checksum and of the segment)
//! ```
//!
//! A frame that is still to be cut is a *superframe*: up to 64 KB, with headers as if it were one
//! packet. [`segment`](crate::link::segment) cuts it.

use weir_packet::Reason;
use weir_wire::{checksum, tcp, udp};

/// Maximum packets of a superframe: 64 KB in segments of 32 bytes, more than Linux itself makes. More packets would
/// only waste the router's time.
pub const SEGMENTS_MAX: usize = 2048;

/// Work that is still to be done to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// A checksum to finish. In a superframe it also gives the position of the transport header.
    pub checksum: Option<PartialChecksum>,
    /// How to cut the frame, if it is a superframe.
    pub segmentation: Option<Segmentation>,
}

/// A checksum that is still to be finished: its field holds the sum of the pseudo header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Offset in the frame of the covered bytes, which extend to the end of the packet.
    pub start: u16,
    /// Offset of the field from `start`.
    pub offset: u16,
}

/// The way to cut a superframe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Kind of payload.
    pub kind: SegmentKind,
    /// Bytes of payload in each segment but the last.
    pub size: u16,
}

/// The kind of a superframe's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// TCP in IPv4.
    TcpV4,
    /// TCP in IPv6.
    TcpV6,
    /// UDP datagrams with the same header, over either IP.
    Udp,
    /// Anything else.
    Unknown,
}

impl SegmentKind {
    /// Offset of the checksum in the transport header.
    pub(crate) const fn checksum_at(self) -> usize {
        match self {
            Self::Udp => udp::CHECKSUM_AT,
            _ => tcp::CHECKSUM_AT,
        }
    }
}

impl Offload {
    /// Nothing is left to do.
    pub const NONE: Self = Self {
        checksum: None,
        segmentation: None,
    };

    /// This work for a frame that has lost `stripped` bytes at its front (negative: gained).
    pub fn moved(self, stripped: i32) -> Self {
        let moved = |partial: PartialChecksum| PartialChecksum {
            start: (i32::from(partial.start) - stripped) as u16,
            ..partial
        };
        Self {
            checksum: self.checksum.map(moved),
            ..self
        }
    }

    /// Maximum packets that a frame of `len` bytes becomes; one if it is not a superframe.
    #[inline]
    pub fn packets_max(&self, len: u32) -> usize {
        match self.segmentation {
            None => 1,
            Some(Segmentation { size, .. }) => {
                let packets = len.div_ceil(u32::from(size.max(1)));
                (packets as usize).clamp(1, SEGMENTS_MAX)
            }
        }
    }

    /// The lengths of the frames that a frame of `len` bytes becomes on the wire. `bytes` are its first
    /// bytes. If they end before the headers do, the transport header is assumed to have no options.
    pub fn frame_lens(&self, bytes: &[u8], len: u32) -> impl Iterator<Item = u32> {
        let headers = self.headers_len(bytes).min(len);
        let payload = len - headers;
        let size = self.segmentation.map_or(payload, |s| u32::from(s.size));
        let size = size.max(1);
        let count = payload.div_ceil(size).max(1);
        (0..count.min(SEGMENTS_MAX as u32)).map(move |n| headers + size.min(payload - n * size))
    }

    /// Bytes of the headers that each frame of a superframe has; zero for other frames.
    pub fn headers_len(&self, bytes: &[u8]) -> u32 {
        let (Some(segmentation), Some(checksum)) = (self.segmentation, self.checksum) else {
            return 0;
        };
        let start = usize::from(checksum.start);
        let transport = match segmentation.kind {
            SegmentKind::Udp => udp::HEADER_LEN,
            _ => bytes
                .get(start..)
                .and_then(|rest| tcp::View::new_checked(rest).ok())
                .map_or(tcp::HEADER_LEN_MIN, |view| view.header_len()),
        };
        (start + transport) as u32
    }
}

impl PartialChecksum {
    /// Finishes the checksum in a packet that has lost `stripped` bytes at its front (negative: gained).
    /// A field outside the packet is [`Reason::BadOffload`].
    pub fn finish(self, packet: &mut [u8], stripped: i32) -> Result<(), Reason> {
        let start = i32::from(self.start) - stripped;
        let start = usize::try_from(start).map_err(|_| Reason::BadOffload)?;
        checksum::finish(packet, start, self.offset.into()).map_err(|_| Reason::BadOffload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_of(start: u16, size: u16) -> Offload {
        Offload {
            checksum: Some(PartialChecksum { start, offset: 16 }),
            segmentation: Some(Segmentation {
                kind: SegmentKind::TcpV4,
                size,
            }),
        }
    }

    fn lens(offload: Offload, bytes: &[u8], len: u32) -> Vec<u32> {
        offload.frame_lens(bytes, len).collect()
    }

    #[test]
    fn the_lengths_on_the_wire() {
        assert_eq!(lens(Offload::NONE, &[0; 60], 60), [60]);
        // Ethernet 14, IPv4 20, TCP 32: 66 bytes in front of 2900 = 1448 + 1448 + 4.
        let mut bytes = [0; 64];
        bytes[46] = 0x80;
        assert_eq!(lens(tcp_of(34, 1448), &bytes, 2966), [1514, 1514, 70]);
        // If the bytes are too short, a TCP header of 20 bytes is assumed.
        assert_eq!(lens(tcp_of(34, 1448), &bytes[..40], 2954), [1502, 1502, 58]);
        assert_eq!(lens(tcp_of(34, 0), &bytes, 68), [67, 67]);
        assert_eq!(lens(tcp_of(60_000, 100), &bytes, 1000), [1000]);
        assert_eq!(tcp_of(34, 1448).packets_max(2966), 3);
        assert_eq!(tcp_of(34, 0).packets_max(65_000), SEGMENTS_MAX);
        assert_eq!(lens(tcp_of(34, 1), &bytes, 65_000).len(), SEGMENTS_MAX);
        assert_eq!(Offload::NONE.packets_max(9000), 1);
    }

    #[test]
    fn a_checksum_moves_with_what_is_in_front_of_it() {
        let partial = PartialChecksum {
            start: 4,
            offset: 0,
        };
        let mut shorter = [1, 0, 2, 3];
        assert_eq!(partial.finish(&mut shorter, 4), Ok(()));
        let expected = checksum::internet(&[1, 0, 2, 3]).to_be_bytes();
        assert_eq!(shorter, [expected[0], expected[1], 2, 3]);
        assert_eq!(partial.finish(&mut shorter, 5), Err(Reason::BadOffload));
        assert_eq!(partial.finish(&mut shorter, 0), Err(Reason::BadOffload));
    }
}
