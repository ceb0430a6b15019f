//! IPv4 fragmentation (RFC 791, section 3.2; RFC 1812, section 5.2.6).
//!
//! ```text
//!  | hdr + all options | data 0 ............................................. |
//!          mtu |
//!  | hdr + all options | data 0 |  | hdr + copied options | data 1 |  | hdr + copied .. | data 2 |
//!     offset +0, more               offset +8n, more                   offset, more as before
//! ```
//!
//! A fragment may be fragmented again. Either all pieces are made or none, because half a datagram is
//! useless.

use weir_packet::key::Family;
use weir_packet::{Packet, Pool, Reason};
use weir_wire::{FragmentOffset, ipv4};

use crate::headers::Headers;

/// Passes the fragments of an IPv4 packet to `output`, in order, each an IP packet of at most `mtu` bytes.
///
/// The fragments have the Ethernet header, flow key, class, queue, ECN field and arrival time of the
/// original, which stays as it is for the caller to release or discard. On an error there are no
/// fragments: [`Reason::PoolExhausted`] if there are not enough slots, [`Reason::TooBig`] if the packet may
/// not be fragmented or `mtu` leaves no room for eight bytes of data, [`Reason::IpTotalLength`] if its data
/// would end beyond the longest possible datagram.
pub fn fragment(
    pool: &mut Pool,
    packet: &Packet,
    headers: &Headers,
    mtu: u32,
    output: &mut dyn FnMut(Packet),
) -> Result<(), Reason> {
    if headers.family != Family::V4 || headers.dont_fragment {
        return Err(Reason::TooBig);
    }
    let frame = pool.frame(packet).to_vec();
    let cuts = Cuts::plan(&frame, headers, mtu as usize)?;
    if pool.available() < cuts.count() {
        return Err(Reason::PoolExhausted);
    }
    for n in 0..cuts.count() {
        let len = cuts.len(n);
        let Some(mut fragment) = pool.create(len, packet.arrived) else {
            return Err(Reason::PoolExhausted); // not with as many slots as were just counted
        };
        cuts.write(n, pool.frame_mut(&fragment));
        fragment.class = packet.class;
        fragment.queue = packet.queue;
        fragment.ecn = packet.ecn;
        pool.keys.copy(packet.slot, fragment.slot);
        output(fragment);
    }
    Ok(())
}

/// The points at which a packet is cut.
struct Cuts<'a> {
    /// The Ethernet header, tags included.
    link: &'a [u8],
    /// The fixed part of the IP header.
    fixed: &'a [u8],
    /// The options of the first fragment, and those of the later ones.
    options: [ipv4::Options; 2],
    data: &'a [u8],
    /// Bytes of data in the first fragment, and in each later one but the last: multiples of eight.
    pieces: [usize; 2],
    offset: usize,
    more: bool,
}

impl<'a> Cuts<'a> {
    fn plan(frame: &'a [u8], headers: &Headers, mtu: usize) -> Result<Self, Reason> {
        let (link, rest) = frame
            .split_at_checked(headers.l3.into())
            .ok_or(Reason::TruncatedHeader)?;
        let view = ipv4::View::new_checked(rest).map_err(|_| Reason::TruncatedHeader)?;
        let header_len = view.header_len();
        let data = rest
            .get(header_len..headers.total_len as usize)
            .ok_or(Reason::IpTotalLength)?;
        let offset = usize::from(view.fragment_offset().bytes());
        if offset + data.len() > usize::from(u16::MAX) {
            return Err(Reason::IpTotalLength);
        }
        let options = ipv4::Options::new(view.options()).map_err(|_| Reason::IpHeaderLength)?;
        let options = [options, options.copied()];
        let room = |o: &ipv4::Options| {
            let header = ipv4::HEADER_LEN_MIN + o.as_bytes().len();
            mtu.saturating_sub(header) / 8 * 8
        };
        let pieces = [room(&options[0]), room(&options[1])];
        if pieces.contains(&0) {
            return Err(Reason::TooBig);
        }
        Ok(Self {
            link,
            fixed: &rest[..ipv4::HEADER_LEN_MIN],
            options,
            data,
            pieces,
            offset,
            more: view.more_fragments(),
        })
    }

    /// Number of fragments; a packet without data is one fragment.
    fn count(&self) -> usize {
        let later = self.data.len().saturating_sub(self.pieces[0]);
        1 + later.div_ceil(self.pieces[1])
    }

    /// Where the data of fragment `n` starts and ends.
    fn range(&self, n: usize) -> std::ops::Range<usize> {
        let [first, later] = self.pieces;
        let start = match n {
            0 => 0,
            _ => first + (n - 1) * later,
        };
        let end = first + n * later;
        start..end.min(self.data.len())
    }

    fn options(&self, n: usize) -> &[u8] {
        self.options[n.min(1)].as_bytes()
    }

    /// Length of the frame of fragment `n`.
    fn len(&self, n: usize) -> usize {
        let header = self.link.len() + ipv4::HEADER_LEN_MIN + self.options(n).len();
        header + self.range(n).len()
    }

    fn write(&self, n: usize, frame: &mut [u8]) {
        let (range, options) = (self.range(n), self.options(n));
        let header_len = ipv4::HEADER_LEN_MIN + options.len();
        let (link, packet) = frame.split_at_mut(self.link.len());
        link.copy_from_slice(self.link);
        packet[..ipv4::HEADER_LEN_MIN].copy_from_slice(self.fixed);
        packet[ipv4::HEADER_LEN_MIN..header_len].copy_from_slice(options);
        packet[header_len..].copy_from_slice(&self.data[range.clone()]);
        let total_len = packet.len() as u16;
        let more = self.more || n + 1 < self.count();
        let units = (self.offset + range.start) / 8;
        let mut view = ipv4::View::new_unchecked(packet);
        view.set_version_and_header_len(header_len);
        view.set_total_len(total_len);
        view.set_fragmentation(false, more, FragmentOffset::from_bits(units as u16));
        view.fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_packet::key::FlowKey;
    use weir_packet::{Class, Ecn, Queue};
    use weir_wire::{EtherType, Protocol, checksum, ethernet};

    /// A frame with an IPv4 packet.
    fn frame(options: &[u8], offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
        let options = ipv4::Options::new(options).unwrap();
        let (from, to) = ([10, 0, 0, 1].into(), [192, 0, 2, 1].into());
        let mut repr = ipv4::Repr::new(from, to, Protocol::UDP, 0)
            .unwrap()
            .with_body(options, data.len())
            .unwrap();
        repr.identification = 0x1234;
        repr.fragment_offset = FragmentOffset::from_bytes(offset).unwrap();
        repr.more_fragments = more;
        let mut frame = vec![0; 14 + repr.encoded_len()];
        let link = ethernet::Repr {
            destination: [2; 6],
            source: [4; 6],
            ethertype: EtherType::IPV4,
        };
        link.emit(&mut ethernet::View::new_unchecked(&mut frame[..]));
        repr.emit(&mut ipv4::View::new_unchecked(&mut frame[14..]));
        frame.extend_from_slice(data);
        frame
    }

    /// The fragments of a frame, made in a pool with this many slots.
    fn cut(frame: &[u8], mtu: u32, slots: usize) -> Result<Vec<Vec<u8>>, Reason> {
        let mut pool = Pool::new(slots, 9000, (1, 2));
        let mut packet = pool.receive(frame, Instant::from_nanos(77)).unwrap();
        (packet.class, packet.queue, packet.ecn) = (Class(3), Queue(4), Ecn::Capable1);
        let key = FlowKey::ip([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 17, 0, 0);
        pool.keys.set(packet.slot, key);
        let headers = headers::peek(frame);
        let mut fragments = Vec::new();
        let done = fragment(&mut pool, &packet, &headers, mtu, &mut |f| {
            fragments.push(f);
        });
        assert!(done.is_ok() || fragments.is_empty());
        assert_eq!(pool.frame(&packet), frame);
        let frames = fragments.iter().map(|f| {
            assert_eq!(
                (f.class, f.queue, f.ecn),
                (Class(3), Queue(4), Ecn::Capable1)
            );
            assert_eq!(f.arrived, Instant::from_nanos(77));
            assert_eq!(pool.keys.key(f), &key);
            pool.frame(f).to_vec()
        });
        let frames = frames.collect();
        done.map(|()| frames)
    }

    /// Offset in bytes, more flag, header length and data length of a fragment.
    fn shape(frame: &[u8]) -> (u16, bool, usize, usize) {
        let view = ipv4::View::new_checked(&frame[14..]).unwrap();
        assert_eq!(usize::from(view.total_len()), frame.len() - 14);
        (
            view.fragment_offset().bytes(),
            view.more_fragments(),
            view.header_len(),
            view.payload().len(),
        )
    }

    #[test]
    fn the_pieces_by_hand() {
        // MTU 1500: 1480 bytes of data in each; 3000 = 1480 + 1480 + 40.
        let frame_of = |offset, more| frame(&[], offset, more, &[7; 3000]);
        let shapes = |frame: &[u8]| -> Vec<_> {
            let pieces = cut(frame, 1500, 9).unwrap();
            pieces.iter().map(|f| shape(f)).collect()
        };
        assert_eq!(
            shapes(&frame_of(0, false)),
            [
                (0, true, 20, 1480),
                (1480, true, 20, 1480),
                (2960, false, 20, 40)
            ]
        );
        // A fragment in the middle of a datagram stays in the middle.
        let last = shapes(&frame_of(8000, true))[2];
        assert_eq!(last, (10960, true, 20, 40));
    }

    #[test]
    fn later_pieces_carry_the_copied_options_only() {
        #[rustfmt::skip]
        let options = [
            0x94, 0x04, 0x00, 0x00,        // router alert: copied
            0x07, 0x07, 0x04, 0, 0, 0, 0,  // record route: not copied
        ];
        // MTU 60: first 60 - 32 = 28, so 24; later 60 - 24 = 36, so 32.
        let pieces = cut(&frame(&options, 0, false, &[7; 60]), 60, 9).unwrap();
        let shapes: Vec<_> = pieces.iter().map(|f| shape(f)).collect();
        assert_eq!(
            shapes,
            [(0, true, 32, 24), (24, true, 24, 32), (56, false, 24, 4)]
        );
        assert_eq!(pieces[0][34..45], options);
        assert_eq!(pieces[1][34..38], options[..4]);
    }

    #[test]
    fn what_cannot_be_cut_is_left_whole() {
        let good = frame(&[], 0, false, &[7; 3000]);
        assert_eq!(cut(&good, 27, 9), Err(Reason::TooBig));
        assert_eq!(cut(&good, 1500, 3), Err(Reason::PoolExhausted));
        assert!(cut(&good, 1500, 4).is_ok());
        let mut dont = good.clone();
        dont[20] |= 0x40;
        assert_eq!(cut(&dont, 1500, 9), Err(Reason::TooBig));
        let beyond = frame(&[], 65000, false, &[7; 3000]);
        assert_eq!(cut(&beyond, 1500, 9), Err(Reason::IpTotalLength));
    }

    proptest! {
        #[test]
        fn reassembly_gives_the_original(
            data in vec(any::<u8>(), 0..4000), options in vec(any::<u8>(), 0..=40),
            units in 0_u16..7000, more: bool, mtu in 68_u32..4000,
        ) {
            // A piece before the end of its datagram is a multiple of eight bytes long.
            let len = if more { data.len() / 8 * 8 } else { data.len() };
            let (offset, data) = (units * 8, &data[..len]);
            let original = frame(&options, offset, more, data);
            let pieces = cut(&original, mtu, 600).unwrap();
            let mut whole = Vec::new();
            for (n, piece) in pieces.iter().enumerate() {
                prop_assert!(piece.len() - 14 <= mtu as usize);
                prop_assert_eq!(&piece[..14], &original[..14]);
                let (at, another, header_len, len) = shape(piece);
                prop_assert!(checksum::is_right(&piece[14..14 + header_len]));
                prop_assert_eq!(usize::from(at), usize::from(offset) + whole.len());
                prop_assert_eq!(another, more || n + 1 < pieces.len());
                prop_assert!(len > 0 || data.is_empty());
                // All else in the header is the original's.
                prop_assert_eq!(&piece[18..20], &original[18..20]);
                prop_assert_eq!(&piece[22..24], &original[22..24]);
                prop_assert_eq!(&piece[26..34], &original[26..34]);
                whole.extend_from_slice(&piece[14 + header_len..]);
            }
            prop_assert_eq!(whole, data);
        }
    }
}
