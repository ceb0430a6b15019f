//! QUIC connections whose beginning was missed (RFC 9000, section 17.3).
//!
//! ```text
//!  1-RTT packet   [ 0 1 S .. 5 protected bits ][ destination ID ][ packet number, payload: encrypted ]
//! ```
//!
//! Such a packet has no version, and no length of its connection ID. But the ID is the same in all packets of a
//! direction, and header protection makes the first byte different. So packets with equal second to ninth bytes and a
//! changing first byte are QUIC: by chance a pair has this in one of 2^64 cases. A peer may have no ID, or an ID of
//! less than eight bytes; then the other direction decides. Peers that clear the fixed bit (RFC 9287) are not
//! recognised.

use crate::finding::{Evidence, Finding};
use crate::kind::Kind;

/// Bytes of a connection ID that are compared. IDs of servers have at least this length.
const ID_LEN: usize = 8;
/// Shortest datagram: a first byte, an ID, and the 20 bytes that header protection needs.
const DATAGRAM_MIN: usize = 1 + ID_LEN + 20;
/// The port of HTTP/3, and that of DNS over QUIC (RFC 9250).
const PORTS: [u16; 2] = [443, 853];
/// Number of packets with the ID of the previous packet that decide, at these ports and elsewhere.
const SAME_AT_HOME: u8 = 2;
const SAME_ELSEWHERE: u8 = 5;

/// The short headers of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShortHeaders {
    id: [u8; ID_LEN],
    first: u8,
    /// Whether the first byte has changed.
    changes: bool,
    /// Number of packets with the ID of the previous packet.
    same: u8,
}

impl ShortHeaders {
    /// Takes a datagram between these ports; returns a finding once enough packets agree.
    pub(crate) fn take(&mut self, datagram: &[u8], ports: [u16; 2]) -> Option<Finding> {
        if datagram.len() < DATAGRAM_MIN || datagram[0] >> 6 != 1 {
            *self = Self::default();
            return None;
        }
        let first = datagram[0];
        let id: [u8; ID_LEN] = *datagram[1..].first_chunk()?;
        // Zeros are an unused field, not a random ID.
        if id != self.id || id == [0; ID_LEN] {
            *self = Self {
                id,
                first,
                ..Self::default()
            };
            return None;
        }
        self.changes |= first != self.first;
        self.same = self.same.saturating_add(1);
        let needed = if ports.iter().any(|port| PORTS.contains(port)) {
            SAME_AT_HOME
        } else {
            SAME_ELSEWHERE
        };
        let is_quic = self.changes && self.same >= needed;
        is_quic.then(|| Finding::new(Kind::Quic, Evidence::Sequence).with("short headers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of packets with these first bytes after which QUIC is found.
    fn found_after(firsts: &[u8], id: [u8; ID_LEN], ports: [u16; 2]) -> Option<usize> {
        let mut headers = ShortHeaders::default();
        firsts.iter().zip(1..).find_map(|(first, number)| {
            let datagram = [&[*first][..], &id, &[number as u8; 30]].concat();
            headers.take(&datagram, ports).map(|_| number)
        })
    }

    #[test]
    fn an_id_that_stays_under_a_first_byte_that_changes_is_quic() {
        const ID: [u8; ID_LEN] = *b"weir-id!";
        let (home, elsewhere) = ([40_000, 443], [40_000, 4433]);
        assert_eq!(found_after(&[0x41, 0x5c, 0x5c], ID, home), Some(3));
        assert_eq!(found_after(&[0x41; 20], ID, home), None, "not protected");
        assert_eq!(found_after(&[0x41, 0x41, 0x41, 0x42], ID, home), Some(4));
        let six = [0x41, 0x42, 0x43, 0x44, 0x45, 0x46];
        assert_eq!(found_after(&six, ID, elsewhere), Some(6));
        assert_eq!(
            found_after(&[0x21, 0x22, 0x23], ID, home),
            None,
            "the fixed bit"
        );
        assert_eq!(found_after(&six, [0; ID_LEN], home), None, "no ID");
    }

    #[test]
    fn another_id_begins_anew() {
        let mut headers = ShortHeaders::default();
        let mut take = |first, id: &[u8; ID_LEN]| {
            let datagram = [&[first][..], id, &[7; 30]].concat();
            headers.take(&datagram, [443, 1]).is_some()
        };
        assert!(!take(0x41, b"first id") && !take(0x42, b"first id"));
        assert!(!take(0x43, b"other id") && !take(0x44, b"other id"));
        assert!(take(0x45, b"other id"));
        assert!(!take(0x45, b"first id"));
    }
}
