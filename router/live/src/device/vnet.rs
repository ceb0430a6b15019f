//! The kernel's metadata for a received frame.
//!
//! With `PACKET_VNET_HDR`, each frame comes with a `virtio_net_hdr`, which describes the work that the sender left to
//! hardware.
//!
//! ```text
//!  0       1          2         4          6            8             10
//! +-------+----------+---------+----------+------------+-------------+--------
//! | flags | gso_type | hdr_len | gso_size | csum_start | csum_offset | frame     (native byte order)
//! +-------+----------+---------+----------+------------+-------------+--------
//! ```

use std::io;

use socket2::Socket;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};

use crate::sys;

/// Length of the header.
pub(super) const HEADER_LEN: usize = 10;
/// `struct virtio_net_hdr` of linux/virtio_net.h.
pub(super) type Header = [u8; HEADER_LEN];

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
pub(super) const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_NONE`, `.._TCPV4`, `.._TCPV6`, `.._UDP_L4`, and the flag `.._ECN`, which requests segmentation
/// per RFC 3168; we always segment that way.
pub(super) const GSO_NONE: u8 = 0;
pub(super) const GSO_TCP_V4: u8 = 1;
pub(super) const GSO_TCP_V6: u8 = 4;
pub(super) const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Makes `socket` deliver, and expect, a header before each frame.
pub(super) fn switch_on(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on)
}

/// The header before the frame that starts at `start`. Without room for a header, it is all zeros, which means that no
/// work is left.
pub(super) fn before(bytes: &[u8], start: usize) -> Header {
    bytes
        .get(..start)
        .and_then(|front| front.last_chunk())
        .copied()
        .unwrap_or_default()
}

/// The work that the header leaves to us.
#[inline]
pub(super) fn offload(header: Header) -> Offload {
    let [flags, gso, _, _, a, b, c, d, e, f] = header;
    let word = |bytes| u16::from_ne_bytes(bytes);
    let kind = match gso & !GSO_ECN {
        GSO_NONE => None,
        GSO_TCP_V4 => Some(SegmentKind::TcpV4),
        GSO_TCP_V6 => Some(SegmentKind::TcpV6),
        GSO_UDP_L4 => Some(SegmentKind::Udp),
        _ => Some(SegmentKind::Unknown),
    };
    Offload {
        checksum: (flags & NEEDS_CHECKSUM != 0).then(|| PartialChecksum {
            start: word([c, d]),
            offset: word([e, f]),
        }),
        segmentation: kind.map(|kind| Segmentation {
            kind,
            size: word([a, b]),
        }),
    }
}

/// The header for a frame with this work left to do.
pub(super) fn header(frame: &[u8], offload: &Offload) -> Header {
    let Offload {
        checksum,
        segmentation,
    } = *offload;
    let mut header = [0; HEADER_LEN];
    if let Some(PartialChecksum { start, offset }) = checksum {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
    }
    if let Some(Segmentation { kind, size }) = segmentation {
        header[1] = match kind {
            SegmentKind::TcpV4 => GSO_TCP_V4,
            SegmentKind::TcpV6 => GSO_TCP_V6,
            SegmentKind::Udp => GSO_UDP_L4,
            SegmentKind::Unknown => GSO_NONE,
        };
        let headers = offload.headers_len(frame) as u16;
        header[2..4].copy_from_slice(&headers.to_ne_bytes());
        header[4..6].copy_from_slice(&size.to_ne_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8, gso: u8, words: [u16; 3]) -> Header {
        let mut header = [flags, gso, 9, 9, 0, 0, 0, 0, 0, 0];
        for (place, word) in header[4..].chunks_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    #[test]
    fn a_header_says_what_is_left_to_do() {
        assert_eq!(offload(header(0, 0, [1448, 34, 16])), Offload::NONE);
        assert_eq!(offload(header(2, 0, [0, 0, 0])), Offload::NONE); // "data valid"
        let (start, offset) = (34, 16);
        let checksum = Some(PartialChecksum { start, offset });
        let size = 1448;
        for (gso, kind) in [
            (1, Some(SegmentKind::TcpV4)),
            (0x81, Some(SegmentKind::TcpV4)),
            (4, Some(SegmentKind::TcpV6)),
            (5, Some(SegmentKind::Udp)),
            (3, Some(SegmentKind::Unknown)),
            (0, None),
        ] {
            let segmentation = kind.map(|kind| Segmentation { kind, size });
            let expected = Offload {
                checksum,
                segmentation,
            };
            assert_eq!(offload(header(1, gso, [size, start, offset])), expected);
        }
    }

    #[test]
    fn a_header_stands_right_before_its_frame() {
        let bytes: Vec<u8> = (0..40).collect();
        assert_eq!(before(&bytes, 12), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert_eq!(before(&bytes, 9), [0; HEADER_LEN]);
        assert_eq!(before(&bytes, 99), [0; HEADER_LEN]);
    }
}
