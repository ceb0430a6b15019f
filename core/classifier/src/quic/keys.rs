//! The keys of Initial packets (RFC 9001, section 5.2; RFC 9369, section 3.3).
//!
//! ```text
//!  salt of the version, first destination ID --HKDF--> secret of the client --HKDF--> key, IV, header key
//!  header key, sample of the ciphertext --AES--> mask of first byte and packet number
//!  key, IV xor packet number --AES-128-GCM--> frames
//! ```

use ring::aead::quic::{AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// Length of the keys of AES-128.
const KEY_LEN: usize = 16;
/// Length of a secret: that of SHA-256.
const SECRET_LEN: usize = 32;
/// Bytes of ciphertext that the mask is computed from.
const SAMPLE_LEN: usize = 16;
/// Longest packet number; the sample follows it (RFC 9001, section 5.4.2).
const NUMBER_LEN_MAX: usize = 4;

/// The constants of a version.
#[derive(Debug)]
pub(super) struct Suite {
    salt: [u8; 20],
    key: &'static str,
    iv: &'static str,
    header: &'static str,
}

/// Drafts 29 to 32.
pub(super) static DRAFT_29: Suite = Suite {
    salt: [
        0xaf, 0xbf, 0xec, 0x28, 0x99, 0x93, 0xd2, 0x4c, 0x9e, 0x97, 0x86, 0xf1, 0x9c, 0x61, 0x11,
        0xe0, 0x43, 0x90, 0xa8, 0x99,
    ],
    ..VERSION_1_SUITE
};

/// Version 1, and drafts 33 and 34.
pub(super) static VERSION_1: Suite = VERSION_1_SUITE;
const VERSION_1_SUITE: Suite = Suite {
    salt: [
        0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c,
        0xad, 0xcc, 0xbb, 0x7f, 0x0a,
    ],
    key: "tls13 quic key",
    iv: "tls13 quic iv",
    header: "tls13 quic hp",
};

/// Version 2.
pub(super) static VERSION_2: Suite = Suite {
    salt: [
        0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d,
        0xcb, 0xf9, 0xbd, 0x2e, 0xd9,
    ],
    key: "tls13 quicv2 key",
    iv: "tls13 quicv2 iv",
    header: "tls13 quicv2 hp",
};

/// The keys of one direction.
pub(super) struct Keys {
    packet: LessSafeKey,
    iv: [u8; NONCE_LEN],
    header: HeaderProtectionKey,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

/// A length for the library's expansion.
struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    /// The client's keys, which follow from public values. `None` only for a length that the library refuses.
    pub(super) fn of_client(suite: &Suite, destination: &[u8]) -> Option<Self> {
        let initial = Salt::new(HKDF_SHA256, &suite.salt).extract(destination);
        let secret: [u8; SECRET_LEN] = expand(&initial, "tls13 client in")?;
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        let key: [u8; KEY_LEN] = expand(&secret, suite.key)?;
        let header: [u8; KEY_LEN] = expand(&secret, suite.header)?;
        Some(Self {
            packet: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?),
            iv: expand(&secret, suite.iv)?,
            header: HeaderProtectionKey::new(&AES_128, &header).ok()?,
        })
    }

    /// The frames of a packet whose number is at `number_at`; `None` if it was not sealed with these keys.
    pub(super) fn open(&self, packet: &[u8], number_at: usize) -> Option<Vec<u8>> {
        let sample_at = number_at + NUMBER_LEN_MAX;
        let sample = packet.get(sample_at..sample_at + SAMPLE_LEN)?;
        let mask = self.header.new_mask(sample).ok()?;
        let first = packet.first()? ^ (mask[0] & 0x0f);
        let number_len = usize::from(first & 3) + 1;
        let mut header = packet[..number_at + number_len].to_vec();
        header[0] = first;
        let mut number = 0;
        for (byte, mask) in header[number_at..].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
            number = number << 8 | u64::from(*byte);
        }
        let mut frames = packet[number_at + number_len..].to_vec();
        let nonce = self.nonce(number);
        let opened = self
            .packet
            .open_in_place(nonce, Aad::from(&header), &mut frames);
        let len = opened.ok()?.len();
        frames.truncate(len);
        Some(frames)
    }

    /// The IV with the packet number in its last bytes (RFC 9001, section 5.3).
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

/// HKDF-Expand-Label without context (RFC 8446, section 7.1).
fn expand<const N: usize>(secret: &Prk, label: &str) -> Option<[u8; N]> {
    let info = [&[0, N as u8, label.len() as u8], label.as_bytes(), &[0]];
    let mut out = [0; N];
    secret.expand(&info, Len(N)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keys {
        /// A packet whose header ends with a packet number of one byte.
        pub(in crate::quic) fn seal(&self, header: &[u8], number: u8, frames: &[u8]) -> Vec<u8> {
            let mut sealed = frames.to_vec();
            let nonce = self.nonce(number.into());
            let done = self
                .packet
                .seal_in_place_append_tag(nonce, Aad::from(header), &mut sealed);
            done.unwrap();
            let number_at = header.len() - 1;
            let mut packet = [header, &sealed].concat();
            let sample_at = number_at + NUMBER_LEN_MAX;
            let mask = self
                .header
                .new_mask(&packet[sample_at..sample_at + SAMPLE_LEN])
                .unwrap();
            packet[0] ^= mask[0] & 0x0f;
            packet[number_at] ^= mask[1];
            packet
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digits).collect()
    }

    /// The IVs and masks of RFC 9001, appendix A.1 and A.2, and of RFC 9369, appendix A.1.
    #[test]
    fn the_keys_are_those_of_the_standards() {
        let id = hex("8394c8f03e515708");
        let first = Keys::of_client(&VERSION_1, &id).unwrap();
        assert_eq!(first.iv[..], hex("fa044b2f42a3fd3b46fb255c"));
        let sample = hex("d1b1c98dd7689fb8ec11d242b123dc9b");
        assert_eq!(
            first.header.new_mask(&sample).unwrap()[..],
            hex("437b9aec36")
        );
        let second = Keys::of_client(&VERSION_2, &id).unwrap();
        assert_eq!(second.iv[..], hex("91f73e2351d8fa91660e909f"));
    }
}
