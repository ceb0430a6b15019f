//! Copies of the first packets of flows, for a classifier on another thread.
//!
//! ```text
//!  plane: packet of a new flow --first bytes--> [ Copies ] --fetched as a whole--> classifier
//!                        |                          ^------- memory, emptied ----------+
//!                        +--> follows the routes
//! ```
//!
//! The memory is allocated in advance and does not grow. A copy that does not fit is not made; the packet itself is not
//! affected.

use weir_base::Instant;
use weir_packet::FlowKey;

/// Maximum copies between two fetches. Each may lead to a decision, and so to a change of the table of rules, which
/// takes several times as long as the copy.
pub const COPIES_MAX: usize = 256;
/// Maximum bytes of one copy: any packet on a link with an MTU of 1500 fits, as QUIC's first packet needs.
pub const COPY_BYTES_MAX: usize = 2048;

/// The copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Addresses, protocol and ports of the packet.
    pub key: FlowKey,
    /// Keyed hash of that key.
    pub hash: u64,
    /// When the packet arrived.
    pub at: Instant,
}

/// Copies, oldest first.
#[derive(Debug)]
pub struct Copies {
    list: Vec<(Copy, u32)>,
    bytes: Vec<u8>,
}

impl Default for Copies {
    /// Allocates all the memory that it will ever need.
    fn default() -> Self {
        Self {
            list: Vec::with_capacity(COPIES_MAX),
            bytes: Vec::with_capacity(COPIES_MAX * COPY_BYTES_MAX),
        }
    }
}

impl Copies {
    /// The copies, each with its bytes from the transport header on.
    pub fn iter(&self) -> impl Iterator<Item = (&Copy, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.list.iter().map(move |(copy, len)| {
            let (bytes, after) = rest.split_at(*len as usize);
            rest = after;
            (copy, bytes)
        })
    }

    /// Whether there are no copies.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Removes all copies, and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }

    /// Adds a copy of a packet with these bytes from the transport header on; returns whether it fitted.
    pub fn push(&mut self, copy: Copy, transport: &[u8]) -> bool {
        if self.list.len() >= COPIES_MAX {
            return false;
        }
        let bytes = &transport[..transport.len().min(COPY_BYTES_MAX)];
        self.bytes.extend_from_slice(bytes);
        self.list.push((copy, bytes.len() as u32));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(nanos: u64) -> Copy {
        Copy {
            key: FlowKey::default(),
            hash: 0,
            at: Instant::from_nanos(nanos),
        }
    }

    #[test]
    fn each_copy_is_kept_apart_and_memory_does_not_grow() {
        let mut copies = Copies::default();
        let capacity = (copies.list.capacity(), copies.bytes.capacity());
        assert!(copies.push(copy(1), b"one") && copies.push(copy(2), b""));
        assert!(copies.push(copy(3), &[7; COPY_BYTES_MAX + 1]));
        let kept: Vec<_> = copies
            .iter()
            .map(|(copy, bytes)| (copy.at.as_nanos(), bytes))
            .collect();
        assert_eq!(
            kept,
            [(1, &b"one"[..]), (2, &[]), (3, &[7; COPY_BYTES_MAX][..])]
        );
        copies.clear();
        let long = (0..).take_while(|n| copies.push(copy(*n), &[0; 9000]));
        assert_eq!(long.count(), COPIES_MAX);
        assert_eq!((copies.list.capacity(), copies.bytes.capacity()), capacity);
    }
}
