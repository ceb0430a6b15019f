//! Checksums: the internet checksum computed in full (RFC 1071), updated in place (RFC 1624, equation
//! 3), over the pseudo headers (RFC 9293, RFC 8200), and finished where a sender left it to hardware
//! (virtio 1.2, section 5.1.6.2); and SCTP's CRC32c (RFC 9260, appendix A).
//!
//! ```text
//!  checksum = ~(w0 + w1 + ... )          ones' complement sum of 16-bit words
//!  update:  HC' = ~(~HC + ~m + m')       one word m becomes m'
//!  finish:  C   = ~(w[start] + ... )     the field at start + offset holds the pseudo header's sum
//! ```

use std::net::IpAddr;

use crate::bytes::set_u16;
use crate::{Protocol, WireError};

/// A partial ones' complement sum.
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

    /// The sum folded to sixteen bits; 0xffff over bytes that contain their correct checksum.
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

/// Whether the checksum that these bytes contain is correct.
#[inline]
pub fn is_right(bytes: &[u8]) -> bool {
    internet(bytes) == 0
}

/// The checksum after one 16-bit word has changed from `old` to `new`.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let [checksum, old, new] = [!checksum, !old, new].map(u32::from);
    let mut sum = checksum + old + new;
    sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + (sum & 0xffff)) as u16
}

/// A computed checksum as UDP sends it: zero means "none", so a checksum of zero is sent as 0xffff.
pub const fn nonzero(checksum: u16) -> u16 {
    match checksum {
        0 => 0xffff,
        n => n,
    }
}

/// Offset of SCTP's checksum: after two ports and the verification tag.
const SCTP_CHECKSUM_AT: usize = 8;

/// Finishes a checksum that the sender of `bytes` left to hardware: the internet checksum over
/// everything from `start` to the end, into the field `offset` bytes after `start`. The sender has
/// left in that field the sum of the other covered data (the pseudo header), or zero.
///
/// Neither the kind of header nor its depth in a tunnel matters, with one exception: offset 8 means SCTP's CRC32c,
/// because no internet checksum has this offset.
///
/// A field outside `bytes` is an error, and nothing is changed.
pub fn finish(bytes: &mut [u8], start: usize, offset: usize) -> Result<(), WireError> {
    let (at, len) = (start + offset, bytes.len());
    let outside = WireError::ChecksumOutside { at, len };
    let covered = bytes.get_mut(start..).ok_or(outside)?;
    if offset == SCTP_CHECKSUM_AT {
        let field = covered.get_mut(offset..offset + 4).ok_or(outside)?;
        field.fill(0);
        let crc = crc32c(covered);
        covered[offset..offset + 4].copy_from_slice(&crc.to_le_bytes());
        return Ok(());
    }
    if offset + 2 > covered.len() {
        return Err(outside);
    }
    let checksum = internet(covered);
    set_u16(covered, offset, nonzero(checksum));
    Ok(())
}

/// CRC32c (Castagnoli), as SCTP uses it.
///
/// Eight bytes at a time, with a table for each of them (Kounavis and Berry, "A Systematic Approach to Building High
/// Performance Software-Based CRC Generators", 2005).
pub fn crc32c(bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let eight = |crc: u32, bytes: &[u8; 8]| {
        let [a, b, c, d] = crc.to_le_bytes();
        let [e, f, g, h, others @ ..] = bytes;
        let first = [a ^ e, b ^ f, c ^ g, d ^ h];
        let tables = CRC32C.iter().rev();
        let each = tables.zip(first.iter().chain(others));
        each.fold(0, |crc, (table, byte)| crc ^ table[usize::from(*byte)])
    };
    let one = |crc: u32, byte: &u8| {
        let index = (crc ^ u32::from(*byte)) & 0xff;
        crc >> 8 ^ CRC32C[0][index as usize]
    };
    !rest.iter().fold(eights.iter().fold(u32::MAX, eight), one)
}

/// The effect of a byte on the checksum, by the number of bytes that follow it.
const CRC32C: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            // The polynomial 0x1edc6f41, bits reversed.
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        tables[0][n] = crc;
        n += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut n = 0;
        while n < 256 {
            let before: u32 = tables[after - 1][n];
            tables[after][n] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            n += 1;
        }
        after += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tcp, udp};
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
    fn a_checksum_of_zero_is_sent_as_ones() {
        // The pseudo header 0a00+0001+0a00+0002 + 0011 (UDP) + 000a (length) = 141e is in the field;
        // with the length 000a in the header, ebd7 makes the sum ffff.
        let mut segment = [0, 0, 0, 0, 0, 10, 0x14, 0x1e, 0xeb, 0xd7];
        finish(&mut segment, 0, 6).unwrap();
        assert_eq!(segment[6..8], [0xff, 0xff]);
    }

    #[test]
    fn what_lies_outside_is_left_alone() {
        let before = [7; 20];
        for (start, offset) in [(20, 0), (21, 6), (14, 6), (4, 15), (9, 8), (65_535, 65_535)] {
            let mut bytes = before;
            let outside = WireError::ChecksumOutside {
                at: start + offset,
                len: 20,
            };
            assert_eq!(finish(&mut bytes, start, offset), Err(outside));
            assert_eq!(bytes, before);
        }
    }

    #[test]
    fn sctp_gets_its_crc() {
        let mut bytes = [7; 40];
        finish(&mut bytes, 20, 8).unwrap();
        let mut zeroed = [7; 20];
        zeroed[8..12].fill(0);
        assert_eq!(bytes[28..32], crc32c(&zeroed).to_le_bytes());
        assert_eq!(bytes[..28], [7; 28]);
    }

    fn ipv4_packet(tcp: bool, payload: &[u8]) -> Vec<u8> {
        let ip = PacketBuilder::ipv4([10, 0, 0, 1], [192, 0, 2, 7], 9);
        let mut bytes = Vec::new();
        if tcp {
            ip.tcp(1, 2, 3, 4).write(&mut bytes, payload)
        } else {
            ip.udp(1, 2).write(&mut bytes, payload)
        }
        .unwrap();
        bytes
    }

    fn ipv6_packet(tcp: bool, payload: &[u8]) -> Vec<u8> {
        let ip = PacketBuilder::ipv6([0x20; 16], [0x21; 16], 9);
        let mut bytes = Vec::new();
        if tcp {
            ip.tcp(1, 2, 3, 4).write(&mut bytes, payload)
        } else {
            ip.udp(1, 2).write(&mut bytes, payload)
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
        fn crc32c_is_that_of_its_definition(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            let bit = |crc: u32| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc));
            prop_assert_eq!(crc32c(&bytes), !bytes.iter().fold(u32::MAX, byte));
        }

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
            v6: bool, is_tcp: bool, payload in proptest::collection::vec(any::<u8>(), 0..100),
            tunnel in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let right = if v6 { ipv6_packet(is_tcp, &payload) } else { ipv4_packet(is_tcp, &payload) };
            let start = if v6 { 40 } else { 20 };
            let offset = if is_tcp { tcp::CHECKSUM_AT } else { udp::CHECKSUM_AT };
            let right = [tunnel.clone(), right].concat();
            let start = tunnel.len() + start;
            let (from, to): (IpAddr, IpAddr) = if v6 { ([0x20; 16].into(), [0x21; 16].into()) } else { ([10, 0, 0, 1].into(), [192, 0, 2, 7].into()) };
            let protocol = if is_tcp { Protocol::TCP } else { Protocol::UDP };
            let mut packet = right.clone();
            let pseudo = Sum::default().pseudo(from, to, protocol, right.len() - start);
            set_u16(&mut packet, start + offset, pseudo.fold());
            prop_assert_eq!(finish(&mut packet, start, offset), Ok(()));
            prop_assert_eq!(packet, right);
        }

        #[test]
        fn no_bytes_make_it_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..100), start: u16, offset: u16,
            near in any::<bool>(),
        ) {
            let (start, offset) = if near { (start % 110, offset % 20) } else { (start, offset) };
            let before = bytes.clone();
            let done = finish(&mut bytes, start.into(), offset.into());
            prop_assert!(done.is_ok() || bytes == before);
        }
    }
}
