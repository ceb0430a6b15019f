//! Messages that wait to be read, and the window advertised to the sender (RFC 9260, 6.2).
//!
//! The window is the free space in the inbox. When the window was closed and half of the inbox is free again, the inbox
//! informs the sender at once: the association handles the sender's window probes of the meantime, or repeats its last
//! acknowledgement.

use std::collections::VecDeque;

use super::packet::{self, Chunk, kind, u32_at};

/// Maximum octets of messages that wait to be read, including [`MESSAGE_COST`] for each.
pub const INBOX_MAX: usize = 512 << 10;
/// Cost of a message in addition to its length, in octets.
pub const MESSAGE_COST: usize = 64;
/// Maximum chunks kept while the window is closed.
const REFUSED_MAX: usize = 4;

/// The inbox of an association.
#[derive(Debug)]
pub struct Inbox {
    messages: VecDeque<Vec<u8>>,
    cost: usize,
    refused: Vec<(u8, Vec<u8>)>,
    told: usize,
    last_sack: Option<Vec<u8>>,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            messages: VecDeque::new(),
            cost: 0,
            refused: Vec::new(),
            told: INBOX_MAX,
            last_sack: None,
        }
    }
}

impl Inbox {
    /// Free space, in octets.
    pub fn room(&self) -> usize {
        INBOX_MAX.saturating_sub(self.cost)
    }

    /// Adds a message. The last message may exceed the limit, because there was room when its first fragment arrived.
    pub fn push(&mut self, message: Vec<u8>) {
        self.cost += message.len() + MESSAGE_COST;
        self.messages.push_back(message);
    }

    /// Takes the oldest message.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.cost -= message.len() + MESSAGE_COST;
        Some(message)
    }

    /// Keeps a DATA chunk that arrived while the window was closed: the peer probes the window with this chunk, and
    /// would probe again only after a long timeout.
    pub fn refuse(&mut self, chunk: &Chunk<'_>) {
        let tsn = u32_at(chunk.value, 0);
        let known = self
            .refused
            .iter()
            .any(|(_, value)| u32_at(value, 0) == tsn);
        if self.refused.len() < REFUSED_MAX && !known {
            self.refused.push((chunk.flags, chunk.value.to_vec()));
        }
    }

    /// The refused chunks, as flags and value, if the window was closed and there is room again.
    pub fn reopened(&mut self) -> Option<Vec<(u8, Vec<u8>)>> {
        let reopened = self.told < INBOX_MAX / 4 && self.room() >= INBOX_MAX / 2;
        reopened.then(|| std::mem::take(&mut self.refused))
    }

    /// Records that a packet with a SACK advertises the current window.
    pub fn tell(&mut self, packet: &[u8]) {
        self.told = self.room();
        self.last_sack = Some(packet.to_vec());
    }

    /// The last acknowledgement with the current window, if the sender does not know that window.
    pub fn reminder(&mut self) -> Option<Vec<u8>> {
        if self.told >= INBOX_MAX / 4 {
            return None;
        }
        let (mut packet, room) = (self.last_sack.clone()?, self.room());
        packet::rewrite(&mut packet, |kind, value| {
            if kind == kind::SACK {
                set_window(value, room);
            }
        });
        self.told = room;
        Some(packet)
    }
}

/// Writes the window into the value of a SACK.
pub fn set_window(sack: &mut [u8], room: usize) {
    if let Some(field) = sack.get_mut(4..8) {
        field.copy_from_slice(&u32::try_from(room).unwrap_or(u32::MAX).to_be_bytes());
    }
}
