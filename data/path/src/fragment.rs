//! IPv4 fragmentation (RFC 791, section 3.2; RFC 1812, section 5.2.6).
//!
//! ```text
//!  | hdr + all options | data 0 ............................................. |
//!          mtu |
//!  | hdr + all options | data 0 |  | hdr + copied options | data 1 |  | hdr + copied .. | data 2 |
//!     offset +0, more               offset +8n, more                   offset, more as before
//! ```
//!
//! What is fragmented may be a fragment itself. Either all pieces are made or none: half a datagram
//! is of use to nobody.

use weir_packet::key::Family;
use weir_packet::{Packet, Pool, Reason};
use weir_wire::{FragmentOffset, ipv4};

use crate::parse::Headers;

/// Gives out the fragments of an IPv4 packet, in order, each at most `mtu` bytes of IP packet.
///
/// The fragments have the Ethernet header, flow key, class, ECN field and arrival time of the
/// original, which is left as it is for the caller to end. If this fails nothing was given out:
/// [`Reason::PoolExhausted`] if there are not enough slots, [`Reason::TooBig`] if the packet may not be
/// fragmented or `mtu` leaves no room for eight bytes of data, [`Reason::IpTotalLength`] if its data
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
        fragment.ecn = packet.ecn;
        pool.keys.copy(packet.slot, fragment.slot);
        output(fragment);
    }
    Ok(())
}

/// Where a packet is cut.
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

    /// Number of fragments; a packet without data is one.
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
