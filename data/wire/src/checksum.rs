//! Checksums: the internet checksum whole (RFC 1071), updated in place (RFC 1624, equation 3), over
//! the pseudo headers (RFC 9293, RFC 8200), and SCTP's CRC32c (RFC 9260, appendix A).
//!
//! ```text
//!  checksum = ~(w0 + w1 + ... )          ones' complement sum of 16-bit words
//!  update:  HC' = ~(~HC + ~m + m')       one word m becomes m'
//! ```
//!
//! Deviation: [`finish_transport`] takes the destination of the IPv6 header for the pseudo header,
//! also where a routing header with segments left names another final one; a sender that leaves
//! checksums to hardware does the same.

use std::net::IpAddr;

use crate::bytes::set_u16;
use crate::error::needs;
use crate::ipv6_extension::Chain;
use crate::{Header, Protocol, WireError, ipv4, ipv6, tcp, udp};

/// A ones' complement sum under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes as 16-bit words. An odd last byte is padded with zero, so that only the last
    /// addition may have an odd length.
    #[inline]
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        // 32-bit words: their ones' complement sum folds to that of the halves. A u64 takes
        // 2^32 of them, more than any packet has.
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_be_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.0 += u64::from(u32::from_be_bytes(last));
        }
        self
    }

    /// Adds a 16-bit word.
    #[inline]
    #[must_use]
    pub fn word(mut self, word: u16) -> Self {
        self.0 += u64::from(word);
        self
    }

    /// Adds the pseudo header of a segment of `len` bytes. The two families differ in the layout of
    /// their pseudo headers, but not in the sum.
    #[must_use]
    pub fn pseudo(self, from: IpAddr, to: IpAddr, protocol: Protocol, len: usize) -> Self {
        self.address(from)
            .address(to)
            .word(u8::from(protocol).into())
            .bytes(&(len as u32).to_be_bytes())
    }

    fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(a) => self.bytes(&a.octets()),
            IpAddr::V6(a) => self.bytes(&a.octets()),
        }
    }

    /// The sum folded to sixteen bits; 0xffff over bytes that contain their right checksum.
    #[inline]
    pub fn fold(self) -> u16 {
        let mut sum = self.0;
        sum = (sum >> 32) + (sum & 0xffff_ffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        ((sum >> 16) + (sum & 0xffff)) as u16
    }

    /// The checksum: the sum's complement.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// The internet checksum of some bytes.
#[inline]
pub fn internet(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).checksum()
}

/// Whether bytes that contain their checksum have the right one.
#[inline]
pub fn is_right(bytes: &[u8]) -> bool {
    internet(bytes) == 0
}

/// The checksum after one 16-bit word has changed from `old` to `new`.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::default()
        .word(!checksum)
        .word(!old)
        .word(new)
        .checksum()
}

/// Computes the TCP, UDP or SCTP checksum of an IP packet whose sender left it to hardware, from
/// nothing: what the field holds now does not count.
///
/// Bytes after the IP packet's length do not count either. A fragment, and a protocol that is not
/// one of these, is left alone and reported.
pub fn finish_transport(l3_packet: &mut [u8]) -> Result<(), WireError> {
    let (pseudo, protocol, start, end) = locate(l3_packet)?;
    let segment = &mut l3_packet[start..end];
    let sum = |segment: &[u8]| pseudo.bytes(segment).checksum();
    match protocol {
        Protocol::Tcp => {
            needs(Header::Tcp, tcp::HEADER_LEN_MIN, segment.len())?;
            set_u16(segment, tcp::CHECKSUM_AT, 0);
            let checksum = sum(segment);
            set_u16(segment, tcp::CHECKSUM_AT, checksum);
        }
        Protocol::Udp => {
            needs(Header::Udp, udp::HEADER_LEN, segment.len())?;
            set_u16(segment, udp::CHECKSUM_AT, 0);
            let checksum = udp::nonzero(sum(segment));
            set_u16(segment, udp::CHECKSUM_AT, checksum);
        }
        Protocol::Sctp => {
            const CRC_AT: usize = 8; // after two ports and the verification tag
            needs(Header::Sctp, CRC_AT + 4, segment.len())?;
            segment[CRC_AT..CRC_AT + 4].fill(0);
            let crc = crc32c(segment);
            segment[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        }
        other => {
            return Err(WireError::NoChecksum {
                protocol: other.into(),
            });
        }
    }
    Ok(())
}

/// The pseudo header's sum, the protocol, and where the segment starts and ends.
fn locate(l3_packet: &[u8]) -> Result<(Sum, Protocol, usize, usize), WireError> {
    let no_checksum = |protocol: Protocol| WireError::NoChecksum {
        protocol: protocol.into(),
    };
    if l3_packet.first().is_some_and(|b| b >> 4 == 6) {
        let view = ipv6::View::new_checked(l3_packet)?;
        let end = view.total_len();
        needs(Header::Ipv6, end, l3_packet.len())?;
        let chain = Chain::walk(view.next_header(), &l3_packet[ipv6::HEADER_LEN..end]);
        if chain.fragment.is_some_and(|f| !f.is_whole()) || !chain.complete {
            return Err(no_checksum(chain.protocol));
        }
        let start = ipv6::HEADER_LEN + chain.len;
        let (from, to) = (view.source().into(), view.destination().into());
        let pseudo = Sum::default().pseudo(from, to, chain.protocol, end - start);
        return Ok((pseudo, chain.protocol, start, end));
    }
    let view = ipv4::View::new_checked(l3_packet)?;
    let (start, end) = (view.header_len(), usize::from(view.total_len()));
    needs(Header::Ipv4, end, l3_packet.len())?;
    needs(Header::Ipv4, start, end)?;
    if view.more_fragments() || view.fragment_offset().bits() != 0 {
        return Err(no_checksum(view.protocol()));
    }
    let (from, to) = (view.source().into(), view.destination().into());
    let pseudo = Sum::default().pseudo(from, to, view.protocol(), end - start);
    Ok((pseudo, view.protocol(), start, end))
}

/// CRC32c (Castagnoli), as SCTP uses it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let index = (crc ^ u32::from(*byte)) & 0xff;
        crc >> 8 ^ CRC32C[index as usize]
    };
    !bytes.iter().fold(u32::MAX, step)
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            // The polynomial 0x1edc6f41, bits reversed.
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // Section 3: 0001 f203 f4f5 f6f7 sum to 2ddf0, folded ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).fold(), 0xddf2);
        assert_eq!(internet(&bytes), 0x220d);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 give 0x0000 (and not 0xffff).
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_ones() {
        // The words sum to 0xffff: 0a00+0001+0a00+0002 (addresses) + 0011 (UDP) + 000a (length)
        // + 0000+0000+000a (ports, length) + x = ffff, so x = ffff - 1428 = ebd7.
        let mut packet = [0; 30];
        packet[..20].copy_from_slice(&[
            0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        packet[20..].copy_from_slice(&[0, 0, 0, 0, 0, 10, 0x12, 0x34, 0xeb, 0xd7]);
        finish_transport(&mut packet).unwrap();
        assert_eq!(packet[26..28], [0xff, 0xff]);
    }

    #[test]
    fn what_cannot_be_finished_is_left_alone() {
        let packet = ipv4_packet(false, &[1, 2, 3]);
        let mut fragment = packet.clone();
        fragment[6] |= 0x20; // more fragments
        let before = fragment.clone();
        assert_eq!(
            finish_transport(&mut fragment),
            Err(WireError::NoChecksum { protocol: 17 })
        );
        assert_eq!(fragment, before);
        assert!(finish_transport(&mut packet[..27].to_vec()).is_err());
        let mut icmp = packet;
        icmp[9] = 1;
        assert_eq!(
            finish_transport(&mut icmp),
            Err(WireError::NoChecksum { protocol: 1 })
        );
    }

    #[test]
    fn sctp_gets_its_crc() {
        let mut packet = ipv4_packet(false, &[7; 20]);
        packet[9] = 132;
        finish_transport(&mut packet).unwrap();
        let mut zeroed = packet[20..].to_vec();
        zeroed[8..12].fill(0);
        assert_eq!(packet[28..32], crc32c(&zeroed).to_le_bytes());
    }

    fn ipv4_packet(tcp: bool, payload: &[u8]) -> Vec<u8> {
        let ip = PacketBuilder::ipv4([10, 0, 0, 1], [192, 0, 2, 7], 9);
        let mut bytes = Vec::new();
        match tcp {
            true => ip.tcp(1, 2, 3, 4).write(&mut bytes, payload),
            false => ip.udp(1, 2).write(&mut bytes, payload),
        }
        .unwrap();
        bytes
    }

    fn ipv6_packet(tcp: bool, payload: &[u8]) -> Vec<u8> {
        let ip = PacketBuilder::ipv6([0x20; 16], [0x21; 16], 9);
        let mut bytes = Vec::new();
        match tcp {
            true => ip.tcp(1, 2, 3, 4).write(&mut bytes, payload),
            false => ip.udp(1, 2).write(&mut bytes, payload),
        }
        .unwrap();
        bytes
    }

    /// The sum as RFC 1071 defines it, word by word.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([
                pair[0],
                pair.get(1).copied().unwrap_or(0),
            ]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn fast_and_slow_sums_agree(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(internet(&bytes), slow(&bytes));
        }

        #[test]
        fn an_update_equals_a_new_sum(mut bytes: [u8; 20], at in 0_usize..10, new: u16) {
            let before = internet(&bytes);
            let old = u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
            bytes[2 * at..2 * at + 2].copy_from_slice(&new.to_be_bytes());
            // All-zero data is the one case where the two zeros of ones' complement differ.
            prop_assume!(bytes != [0; 20]);
            prop_assert_eq!(update(before, old, new), internet(&bytes));
        }

        #[test]
        fn finishing_gives_the_checksum_that_etherparse_computes(
            v6: bool, tcp: bool, payload in proptest::collection::vec(any::<u8>(), 0..100), partial: u16,
            padding in 0_usize..8,
        ) {
            let right = if v6 { ipv6_packet(tcp, &payload) } else { ipv4_packet(tcp, &payload) };
            let at = if v6 { 40 } else { 20 } + if tcp { tcp::CHECKSUM_AT } else { udp::CHECKSUM_AT };
            let mut packet = right.clone();
            packet.resize(right.len() + padding, 0xee);
            set_u16(&mut packet, at, partial);
            prop_assert_eq!(finish_transport(&mut packet), Ok(()));
            prop_assert_eq!(&packet[..right.len()], &right[..]);
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), v6: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if v6 { 0x60 } else { 0x40 } | *first & 0x0f;
            }
            let _ = finish_transport(&mut bytes);
        }
    }
}
