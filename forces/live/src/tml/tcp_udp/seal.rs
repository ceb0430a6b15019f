//! Sealed datagrams: authenticated, encrypted, and protected against replay.
//!
//! ```text
//!  0         8         16                       n - 16    n
//! +---------+---------+-------------------------+---------+
//! | session | counter | message, encrypted      | tag     |      ChaCha20-Poly1305 (RFC 8439)
//! +---------+---------+-------------------------+---------+
//!   in the clear, and covered by the tag
//! ```
//!
//! Both sides export 72 bytes from the TLS session (RFC 8446, 7.5): the session number, by which the CE finds the
//! association, and a key for each direction. The counter is the nonce: each key seals each number once. A receiver
//! remembers which of the latest [`WINDOW`] numbers have arrived (RFC 6479). ChaCha20-Poly1305 needs no key update for
//! the range of a counter (RFC 9001, 6.6).

use std::sync::atomic::{AtomicU64, Ordering};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::super::faults::Fault;

/// Label of the TLS exporter.
const LABEL: &[u8] = b"EXPORTER-weir-forces-redirect";
/// Length of session and counter, in bytes.
const HEAD_LEN: usize = 16;
/// Length of the authentication tag, in bytes.
const TAG_LEN: usize = 16;
const KEY_LEN: usize = 32;
/// Bytes that sealing adds to a message.
pub(super) const SEAL_LEN: usize = HEAD_LEN + TAG_LEN;
/// How far below the highest number a number is still accepted.
pub(super) const WINDOW: u64 = 2048;
const WORDS: usize = (WINDOW / 64) as usize;

/// Secrets known only to both sides of a TLS session.
pub(super) struct Secrets {
    session: u64,
    from_fe: LessSafeKey,
    from_ce: LessSafeKey,
}

/// A side of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Fe,
    Ce,
}

impl Secrets {
    /// Derives the secrets with the exporter `export`.
    pub(super) fn export(
        export: impl FnOnce(
            [u8; 8 + 2 * KEY_LEN],
            &[u8],
        ) -> Result<[u8; 8 + 2 * KEY_LEN], rustls::Error>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::of(&export([0; 8 + 2 * KEY_LEN], LABEL)?))
    }

    fn of(bytes: &[u8; 8 + 2 * KEY_LEN]) -> Self {
        let (session, keys) = bytes.split_at(8);
        let (from_fe, from_ce) = keys.split_at(KEY_LEN);
        let key = |bytes| match UnboundKey::new(&CHACHA20_POLY1305, bytes) {
            Ok(key) => LessSafeKey::new(key),
            Err(_) => unreachable!("the key has its length"),
        };
        Self {
            session: number(session),
            from_fe: key(from_fe),
            from_ce: key(from_ce),
        }
    }

    /// Number of the session.
    pub(super) fn session(&self) -> u64 {
        self.session
    }

    /// The sealer and the opener for one side.
    pub(super) fn ends(self, side: Side) -> (Sealer, Opener) {
        let (ours, theirs) = match side {
            Side::Fe => (self.from_fe, self.from_ce),
            Side::Ce => (self.from_ce, self.from_fe),
        };
        let sealer = Sealer {
            session: self.session,
            key: ours,
            next: AtomicU64::new(1),
        };
        let opener = Opener {
            session: self.session,
            key: theirs,
            window: Window::default(),
        };
        (sealer, opener)
    }
}

/// The session in the header of a datagram.
pub(super) fn session_of(datagram: &[u8]) -> Option<u64> {
    datagram.get(..8).map(number)
}

/// Seals the datagrams of one direction.
pub(super) struct Sealer {
    session: u64,
    key: LessSafeKey,
    next: AtomicU64,
}

impl Sealer {
    /// Seals a message into a datagram; `None` if the message is too long for the cipher.
    pub(super) fn seal(&self, message: &[u8]) -> Option<Vec<u8>> {
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        let mut datagram = Vec::with_capacity(SEAL_LEN + message.len());
        datagram.extend(self.session.to_be_bytes());
        datagram.extend(counter.to_be_bytes());
        datagram.extend(message);
        let (head, body) = datagram.split_at_mut_checked(HEAD_LEN)?;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(counter), Aad::from(head), body);
        datagram.extend(tag.ok()?.as_ref());
        Some(datagram)
    }
}

/// Opens the datagrams of one direction.
pub(super) struct Opener {
    session: u64,
    key: LessSafeKey,
    window: Window,
}

/// An opened datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// The message; empty if the sender only announces its address.
    pub(super) message: Vec<u8>,
    /// Whether no datagram with a higher number has arrived.
    pub(super) is_latest: bool,
}

impl Opener {
    /// Opens a datagram, if the peer has sealed it and it has not arrived before.
    pub(super) fn open(&mut self, datagram: &[u8]) -> Result<Opened, Fault> {
        let (head, body) = datagram.split_at_checked(HEAD_LEN).ok_or(Fault::Forged)?;
        if session_of(head) != Some(self.session) {
            return Err(Fault::Forged);
        }
        let counter = number(&head[8..]);
        // Cheap, and before the cipher, so that a flood of replays costs little.
        if !self.window.permits(counter) {
            return Err(Fault::Replayed);
        }
        let mut message = body.to_vec();
        let opened = self
            .key
            .open_in_place(nonce(counter), Aad::from(head), &mut message);
        let len = opened.map_err(|_| Fault::Forged)?.len();
        message.truncate(len);
        let is_latest = self.window.enter(counter);
        Ok(Opened { message, is_latest })
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Converts eight bytes to a number.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The latest numbers that have arrived: a ring of bits (RFC 6479). It has one more word than the window, so that
/// moving the window clears whole words.
#[derive(Debug)]
struct Window {
    bits: [u64; WORDS + 1],
    highest: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            bits: [0; WORDS + 1],
            highest: 0,
        }
    }
}

impl Window {
    /// The word and the bit of a number in the ring.
    fn place(number: u64) -> (usize, u64) {
        ((number / 64) as usize % (WORDS + 1), 1 << (number % 64))
    }

    fn permits(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        let is_old = number == 0 || self.highest.saturating_sub(number) >= WINDOW;
        number > self.highest || !is_old && self.bits[word] & bit == 0
    }

    /// Records a permitted number; returns whether it is the highest.
    fn enter(&mut self, number: u64) -> bool {
        let is_highest = number > self.highest;
        if is_highest {
            let (from, to) = (self.highest / 64, number / 64);
            let words = (to - from).min(self.bits.len() as u64);
            for word in 0..words {
                self.bits[((to - word) % self.bits.len() as u64) as usize] = 0;
            }
            self.highest = number;
        }
        let (word, bit) = Self::place(number);
        self.bits[word] |= bit;
        is_highest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn ends() -> (Sealer, Opener) {
        let bytes: [u8; 72] = std::array::from_fn(|n| n as u8);
        let (sealer, _) = Secrets::of(&bytes).ends(Side::Fe);
        let (_, opener) = Secrets::of(&bytes).ends(Side::Ce);
        (sealer, opener)
    }

    #[test]
    fn a_datagram_is_opened_once() {
        let (sealer, mut opener) = ends();
        let first = sealer.seal(b"one").unwrap();
        let second = sealer.seal(b"").unwrap();
        assert_eq!(first.len(), SEAL_LEN + 3);
        assert_eq!(session_of(&first), Some(0x0001_0203_0405_0607));
        let opened = opener.open(&second).unwrap();
        assert_eq!((opened.message.len(), opened.is_latest), (0, true));
        let opened = opener.open(&first).unwrap();
        assert_eq!(
            (&opened.message[..], opened.is_latest),
            (&b"one"[..], false)
        );
        assert_eq!(opener.open(&first), Err(Fault::Replayed));
        assert_eq!(opener.open(&second), Err(Fault::Replayed));
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_found() {
        let (sealer, mut opener) = ends();
        let datagram = sealer.seal(b"message").unwrap();
        for bit in 0..8 * datagram.len() {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(opener.open(&changed).is_err(), "bit {bit}");
        }
        for len in 0..datagram.len() {
            assert_eq!(opener.open(&datagram[..len]), Err(Fault::Forged));
        }
        assert!(opener.open(&datagram).is_ok());
    }

    #[test]
    fn a_side_does_not_open_its_own() {
        let bytes = [7; 72];
        let (sealer, mut opener) = Secrets::of(&bytes).ends(Side::Fe);
        let mut own = sealer.seal(b"x").unwrap();
        // With one key for both directions, an attacker could reflect a message.
        let mut other = bytes;
        other[40..].fill(8);
        let (_, mut theirs) = Secrets::of(&other).ends(Side::Fe);
        assert_eq!(theirs.open(&own), Err(Fault::Forged));
        assert!(opener.open(&own).is_ok(), "equal keys only in this test");
        own.push(0);
        assert!(opener.open(&own).is_err());
    }

    proptest! {
        /// The window against a set of all numbers.
        #[test]
        fn the_window_permits_each_recent_number_once(steps in prop::collection::vec((0_u64..5000, any::<bool>()), 1..400)) {
            let mut window = Window::default();
            let (mut seen, mut highest) = (BTreeSet::new(), 0_u64);
            for (step, forward) in steps {
                let number = if forward { highest + step } else { highest.saturating_sub(step) };
                let expected = number > 0 && !seen.contains(&number) && number + WINDOW > highest;
                prop_assert_eq!(window.permits(number), expected, "{} of {}", number, highest);
                if expected {
                    prop_assert_eq!(window.enter(number), number > highest);
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
