//! Scalable video (H.264/SVC) in RTP (RFC 6190 and RFC 6184): the headers and messages that only SVC has.
//!
//! ```text
//!  payload   [ F NRI type ][ .. ]
//!     1..=23 one unit           24 STAP-A: lengths and units       28 FU-A: [ S E R type ] a piece of a unit
//!  unit      14 prefix, 20 slice    [ svc_extension ][ .. ][ reserved 11 ]    three bytes (RFC 6190, 1.1.3)
//!            15 subset SPS          [ profile 83 or 86 ]
//!             6 SEI                 [ type 24..=35 ][ length ][ message ] .. [ 0x80 ]
//! ```
//!
//! The paper's classifier recognises MPEG-4/SVC by its SEI messages; types 24 to 35 of H.264, annex G, describe
//! scalability, 24 being `scalability_info`. An SEI message that fills its unit exactly decides at once, as does a
//! subset SPS. A prefix or a slice has only a few fixed bits, so two packets must have them. A payload that cannot be
//! H.264 ends the search: encrypted payloads and other codecs soon contain such a payload.

use crate::finding::{Evidence, Finding};
use crate::kind::Kind;
use crate::reader::Reader;

/// Types of network abstraction layer units.
const SEI: u8 = 6;
const PREFIX: u8 = 14;
const SUBSET_SPS: u8 = 15;
const SLICE_EXTENSION: u8 = 20;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;
/// Scalability information (RFC 6190, section 4.9).
const PACSI: u8 = 30;
/// Messages of annex G: scalability_info to tl_switching_point.
const SCALABLE_MESSAGES: std::ops::RangeInclusive<usize> = 24..=35;
/// Maximum number of units of an aggregate, and of messages of an SEI unit, to read.
const PARTS_MAX: usize = 64;
/// Number of packets with the fixed bits of a layer that decide.
const HINTS: u8 = 2;

/// The search in the media of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    /// Number of packets with the fixed bits of a layer so far.
    Hints(u8),
    /// The media are another codec, or encrypted.
    Other,
}

impl Search {
    /// The search before the first packet.
    pub(crate) const START: Self = Self::Hints(0);

    /// Takes the payload of an RTP packet; returns a finding once the evidence suffices.
    pub(crate) fn take(&mut self, payload: &[u8]) -> Option<Finding> {
        let Self::Hints(hints) = self else {
            return None;
        };
        match unit_or_aggregate(payload) {
            Sign::Proof(message) => {
                let detail = match message {
                    Some(kind) => format!("SEI {kind}{}", message_name(kind)),
                    None => "subset SPS".to_owned(),
                };
                return Some(Finding::new(Kind::Svc, Evidence::Message).with(detail));
            }
            Sign::Hint => *hints += 1,
            Sign::Nothing => {}
            Sign::Impossible => *self = Self::Other,
        }
        match *self {
            Self::Hints(HINTS..) => {
                Some(Finding::new(Kind::Svc, Evidence::Header).with("SVC layers"))
            }
            _ => None,
        }
    }
}

/// The meaning of one payload, or of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// A subset SPS, or an SEI message of this type.
    Proof(Option<usize>),
    /// The fixed bits of a layer.
    Hint,
    /// Ordinary H.264.
    Nothing,
    /// Not H.264.
    Impossible,
}

fn unit_or_aggregate(payload: &[u8]) -> Sign {
    let Some((&header, rest)) = payload.split_first() else {
        return Sign::Impossible;
    };
    if header & 0x80 != 0 {
        return Sign::Impossible; // the forbidden bit
    }
    match header & 31 {
        STAP_A => aggregate(rest),
        FU_A => match rest.split_first() {
            // Start and end in one packet, and a set reserved bit, are forbidden.
            Some((&fu, _)) if fu >> 6 == 3 || fu & 0x20 != 0 => Sign::Impossible,
            Some((&fu, piece)) if fu & 0x80 != 0 => unit(fu & 31, piece, false),
            Some(_) => Sign::Nothing,
            None => Sign::Impossible,
        },
        0 | 31 => Sign::Impossible,
        kind => unit(kind, rest, true),
    }
}

/// Units of a STAP-A, each after its length; they fill the payload.
fn aggregate(rest: &[u8]) -> Sign {
    let mut reader = Reader(rest);
    let mut best = Sign::Nothing;
    for _ in 0..PARTS_MAX {
        if reader.is_empty() {
            return best;
        }
        let Some((&header, body)) = reader.long().and_then(|unit| unit.0.split_first()) else {
            return Sign::Impossible;
        };
        match unit(header & 31, body, true) {
            Sign::Impossible => return Sign::Impossible,
            sign @ Sign::Proof(_) => return sign,
            Sign::Hint => best = Sign::Hint,
            Sign::Nothing => {}
        }
    }
    best
}

/// One unit, or the first piece of one.
fn unit(kind: u8, body: &[u8], is_whole: bool) -> Sign {
    match kind {
        SEI if is_whole => messages(body),
        PREFIX | SLICE_EXTENSION => match body {
            [first, _, third, ..] if first >> 7 == 1 && third & 3 == 3 => Sign::Hint,
            // The flag is zero for multiview video, which is still H.264.
            [first, ..] if first >> 7 == 0 => Sign::Nothing,
            _ => Sign::Impossible,
        },
        SUBSET_SPS => match body {
            [83 | 86, constraints, level, ..] if constraints & 3 == 0 && is_level(*level) => {
                Sign::Proof(None)
            }
            _ => Sign::Nothing,
        },
        PACSI => Sign::Nothing,
        0 | 22..=29 | 31 => match is_whole {
            true if (25..=29).contains(&kind) => Sign::Nothing, // other aggregates and fragments
            _ => Sign::Impossible,
        },
        _ => Sign::Nothing,
    }
}

/// Whether a level of H.264, table A-1, has this number.
fn is_level(level: u8) -> bool {
    level == 9 || (10..=62).contains(&level) && level % 10 <= 3
}

/// The messages of an SEI unit (H.264, section 7.3.2.3), which end with the stop bit.
fn messages(body: &[u8]) -> Sign {
    let mut reader = Reader(body);
    let mut scalable = None;
    for _ in 0..PARTS_MAX {
        if reader.0 == [0x80] {
            return match scalable {
                Some(kind) => Sign::Proof(Some(kind)),
                None => Sign::Nothing,
            };
        }
        let (Some(kind), Some(len)) = (number(&mut reader), number(&mut reader)) else {
            return Sign::Impossible;
        };
        if SCALABLE_MESSAGES.contains(&kind) && len > 0 {
            scalable = scalable.or(Some(kind));
        }
        // The length of a message does not count the emulation prevention bytes (00 00 03) within it.
        if take_escaped(&mut reader, len).is_none() {
            return Sign::Impossible;
        }
    }
    Sign::Impossible
}

/// A number coded as bytes of 255 and a last byte.
fn number(reader: &mut Reader<'_>) -> Option<usize> {
    let mut sum = 0;
    loop {
        let byte = reader.u8()?;
        sum += usize::from(byte);
        if byte != 255 {
            return Some(sum);
        }
    }
}

/// Skips `len` bytes and the emulation prevention bytes among them.
fn take_escaped(reader: &mut Reader<'_>, len: usize) -> Option<()> {
    let (mut passed, mut zeros) = (0, 0);
    while passed < len {
        let byte = reader.u8()?;
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        passed += 1;
    }
    Some(())
}

/// The name of a message (H.264, table G.13).
fn message_name(kind: usize) -> &'static str {
    match kind {
        24 => " scalability_info",
        25 => " sub_pic_scalable_layer",
        26 => " non_required_layer_rep",
        27 => " priority_layer_info",
        28 => " layers_not_present",
        29 => " layer_dependency_change",
        30 => " scalable_nesting",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `scalability_info` of five bytes.
    const SCALABILITY_INFO: [u8; 9] = [SEI, 24, 5, 0x12, 0x34, 0x56, 0x78, 0x9a, 0x80];
    /// `pic_timing`, which ordinary H.264 has too.
    const PICTURE_TIMING: [u8; 5] = [SEI, 1, 1, 0x20, 0x80];
    const SLICE: [u8; 6] = [0x74, 0x80, 0x10, 0x07, 0x9a, 0xbc];

    fn found(payloads: &[&[u8]]) -> Option<String> {
        let mut search = Search::START;
        payloads
            .iter()
            .find_map(|p| search.take(p))
            .map(|f| f.detail.to_string())
    }

    #[test]
    fn a_message_about_scalability_decides() {
        let info = Some("SEI 24 scalability_info".to_owned());
        assert_eq!(found(&[&SCALABILITY_INFO]), info);
        let aggregate = [
            &[STAP_A, 0, 5],
            &PICTURE_TIMING[..],
            &[0, 9],
            &SCALABILITY_INFO,
        ]
        .concat();
        assert_eq!(found(&[&aggregate]), info);
        assert_eq!(found(&[&PICTURE_TIMING, &PICTURE_TIMING]), None);
        assert_eq!(found(&[&SCALABILITY_INFO[..8]]), None, "it does not end");
    }

    #[test]
    fn bytes_that_prevent_start_codes_are_not_counted() {
        let escaped = [SEI, 24, 4, 0, 0, 3, 1, 9, 0x80];
        assert!(found(&[&escaped]).is_some());
        assert_eq!(found(&[&[SEI, 24, 5, 0, 0, 3, 1, 9, 0x80]]), None);
    }

    #[test]
    fn layers_decide_by_two_packets_without_a_contradiction() {
        assert_eq!(found(&[&SLICE]), None);
        assert_eq!(found(&[&SLICE, &SLICE]).as_deref(), Some("SVC layers"));
        let piece = [0x7c, 0x80 | SLICE_EXTENSION, 0x80, 0x10, 0x07, 9];
        let rest = [0x7c, SLICE_EXTENSION, 1, 2, 3];
        assert!(
            found(&[&piece, &rest, &SLICE]).is_some(),
            "a fragmented slice"
        );
        assert_eq!(
            found(&[&SLICE, &[0xf4, 1, 2], &SLICE]),
            None,
            "the forbidden bit"
        );
        assert_eq!(
            found(&[&SLICE, &[0x74, 0x80, 1, 0], &SLICE]),
            None,
            "reserved bits"
        );
    }

    #[test]
    fn a_subset_of_parameters_decides_by_its_profile() {
        assert_eq!(
            found(&[&[0x6f, 83, 0, 30, 7]]).as_deref(),
            Some("subset SPS")
        );
        assert_eq!(found(&[&[0x6f, 118, 0, 30, 7]]), None, "multiview");
        assert_eq!(found(&[&[0x6f, 83, 0, 99, 7]]), None, "no such level");
    }

    proptest! {
        /// Unstructured bytes, as encryption produces them, are SVC at most once in a thousand flows.
        #[test]
        fn no_bytes_make_it_panic(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let mut search = Search::START;
            for payload in &payloads {
                search.take(payload);
            }
        }
    }

    /// Random payloads represent encrypted payloads.
    #[test]
    fn encrypted_payloads_are_not_svc() {
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut byte = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) as u8
        };
        let mut mistakes = 0;
        for _ in 0..10_000 {
            let mut search = Search::START;
            let payloads: [[u8; 30]; 20] = std::array::from_fn(|_| std::array::from_fn(|_| byte()));
            mistakes += usize::from(payloads.iter().any(|p| search.take(p).is_some()));
        }
        assert!(mistakes <= 10, "{mistakes} of 10 000 flows");
    }
}
