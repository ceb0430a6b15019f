//! Messages that wait for the transport.

use std::collections::VecDeque;

use crate::wire::Message;

/// A queue of messages that is full once it holds a given number of bytes.
#[derive(Debug)]
pub(super) struct Outbox {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl Outbox {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            messages: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Whether the queue accepts one more message.
    pub(super) const fn has_room(&self) -> bool {
        self.bytes < self.bytes_max
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds a message, even if the queue is full. The caller checks [`Self::has_room`] first, except for messages of
    /// which an association sends only a few.
    pub(super) fn push(&mut self, message: &Message) {
        self.push_bytes(message.to_bytes());
    }

    pub(super) fn push_bytes(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
    }
}
