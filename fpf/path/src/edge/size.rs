//! Accounts for the bytes of the FPF header: which packets fit the next hop, and how much TCP may send.
//!
//! ```text
//!  |<------------------- MTU of the next hop -------------------->|
//!  | Length, Index, LID vector | IP packet: payload MTU           |
//!                              | 20 or 40 | 20 | TCP segment: MSS |
//! ```
//!
//! Source: Beben et al., section III ("FPF header slightly increases the original packet size"); RFC 1191 and RFC
//! 8201 (packet too big); RFC 9293, section 3.7.1, and RFC 6691 (the MSS option counts neither IP nor TCP options);
//! RFC 1624 (the checksum by the difference).
//!
//! The MSS of a SYN limits the packets of the other direction, so the SYNs of both directions must be clamped, where
//! they enter the path or leave it. A SYN without the option implies 536 bytes (IPv4) or 1220 (IPv6), which fit anyway.
//! A SYN that is a fragment is left alone.
//!
//! The payload MTU is never reported as less than every IP link must carry (68 bytes, RFC 791; 1280 bytes, RFC 8200): a
//! sender would not believe it. A path that carries less needs segmentation between its FEs
//! ([`process::segment`](crate::process::segment)); a path that begins with segmentation has no MTU here.

use weir_packet::key::Family;
use weir_path::headers::{Fragment, Headers};
use weir_wire::{Protocol, checksum, ipv4, ipv6, tcp};

/// How an IP packet fits a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The packet fits.
    Whole,
    /// The packet must be cut into fragments of at most this number of bytes, each with its own FPF header.
    Fragments(u32),
    /// The packet must not be fragmented: it is dropped, and its sender learns the MTU, if the packet is IP.
    TooBig {
        /// The longest IP packet that fits, in bytes.
        mtu: u32,
    },
}

/// Minimum MTU of an IPv4 link.
const MTU_MIN_V4: u32 = 68;
/// Minimum MTU of an IPv6 link.
const MTU_MIN_V6: u32 = 1280;

/// The longest packet of a family to which an FPF header of `header_len` bytes can be added, where the next hop carries
/// `mtu` bytes after its Ethernet header.
pub fn payload_mtu(family: Family, mtu: u32, header_len: usize) -> u32 {
    let left = mtu.saturating_sub(u32::try_from(header_len).unwrap_or(u32::MAX));
    match family {
        Family::V4 => left.max(MTU_MIN_V4),
        Family::V6 => left.max(MTU_MIN_V6),
        Family::Link => left,
    }
}

/// How a packet with these headers fits after an FPF header of `header_len` bytes; the longest header, if there are
/// several copies.
#[inline]
pub fn fit(headers: &Headers, mtu: u32, header_len: usize) -> Fit {
    if headers.total_len as usize + header_len <= mtu as usize {
        return Fit::Whole;
    }
    let mtu = payload_mtu(headers.family, mtu, header_len);
    if headers.dont_fragment {
        Fit::TooBig { mtu }
    } else {
        Fit::Fragments(mtu)
    }
}

/// Lowers the MSS option of a TCP SYN to the payload MTU without IP and TCP header, so that a segment with IP, TCP and
/// FPF header fits. It is never raised. Returns whether it was changed.
pub fn clamp_mss(frame: &mut [u8], headers: &Headers, payload_mtu: u32) -> bool {
    if Protocol::from(headers.protocol) != Protocol::TCP || headers.fragment != Fragment::Whole {
        return false;
    }
    let ip_len = match headers.family {
        Family::V4 => ipv4::HEADER_LEN_MIN,
        Family::V6 => ipv6::HEADER_LEN,
        Family::Link => return false,
    };
    let most = payload_mtu.saturating_sub((ip_len + tcp::HEADER_LEN_MIN) as u32);
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    let segment = frame.get_mut(usize::from(headers.l4)..headers.l3_range().end);
    let Some(Ok(view)) = segment.map(tcp::View::new_checked) else {
        return false;
    };
    if !view.flags().contain(tcp::Flags::SYN) {
        return false;
    }
    let Some(at) = mss_at(view.options()) else {
        return false;
    };
    let (sum, at) = (view.checksum(), tcp::HEADER_LEN_MIN + at);
    let bytes = view.into_inner();
    let Some(field) = bytes.get_mut(at..at + 2) else {
        return false;
    };
    let old = u16::from_be_bytes([field[0], field[1]]);
    if old <= most {
        return false;
    }
    field.copy_from_slice(&most.to_be_bytes());
    // An unaligned field consists of halves of two words; it counts in the sum as a word with its bytes swapped.
    let [old, new] = match at % 2 {
        0 => [old, most],
        _ => [old.swap_bytes(), most.swap_bytes()],
    };
    let sum = checksum::update(sum, old, new);
    tcp::View::new_unchecked(bytes).set_checksum(sum);
    true
}

/// Kinds of TCP options: the end of the list, nothing, and the maximum segment size.
const END: u8 = 0;
const NOTHING: u8 = 1;
const MSS: u8 = 2;
/// Length of the MSS option.
const MSS_LEN: u8 = 4;

/// Where the value of the MSS option begins among the options.
fn mss_at(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match options.get(at..)? {
            [END, ..] | [] => return None,
            [NOTHING, ..] => at += 1,
            [MSS, MSS_LEN, _, _, ..] => return Some(at + 2),
            [_, len, ..] if *len >= 2 => at += usize::from(*len),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{PacketBuilder, TcpOptionElement as Option};
    use proptest::prelude::*;
    use weir_path::headers;

    /// A SYN with these options; etherparse writes its checksum.
    fn syn(v4: bool, options: &[Option]) -> Vec<u8> {
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let ip = if v4 {
            ethernet.ipv4([10, 0, 0, 1], [192, 0, 2, 1], 9)
        } else {
            ethernet.ipv6([0x20; 16], [0x21; 16], 9)
        };
        let mut frame = Vec::new();
        ip.tcp(5000, 80, 77, 64000)
            .syn()
            .options(options)
            .unwrap()
            .write(&mut frame, b"fast open")
            .unwrap();
        frame
    }

    fn clamped(mut frame: Vec<u8>, payload_mtu: u32) -> (Vec<u8>, bool) {
        let headers = headers::peek(&frame);
        let changed = clamp_mss(&mut frame, &headers, payload_mtu);
        (frame, changed)
    }

    proptest! {
        #[test]
        fn etherparse_writes_the_same(
            v4: bool, before in 0_usize..4, mss: u16, payload_mtu in 1280_u32..9000,
        ) {
            let with = |mss| {
                let mut options = vec![Option::Noop; before];
                options.extend([Option::MaximumSegmentSize(mss), Option::WindowScale(7)]);
                syn(v4, &options)
            };
            let most = payload_mtu - if v4 { 40 } else { 60 };
            let expected = u32::from(mss).min(most) as u16;
            let (frame, changed) = clamped(with(mss), payload_mtu);
            prop_assert_eq!(changed, expected < mss);
            prop_assert_eq!(frame, with(expected));
        }

        #[test]
        fn no_options_make_it_panic(options in prop::collection::vec(0_u8..6, 0..40), len in 0_usize..120) {
            let mut frame = syn(true, &[]);
            frame.truncate(54);
            frame.extend(&options);
            frame[46] = (5 + options.len().div_ceil(4) as u8) << 4;
            frame[16..18].copy_from_slice(&(len as u16).to_be_bytes());
            frame[12..14].copy_from_slice(&[8, 0]);
            clamped(frame, 576);
        }
    }

    #[test]
    fn the_header_is_what_the_segment_size_loses() {
        // 1500 bytes less an FPF header of 9, less 40 of IPv4 and TCP: 1451, less than 1460 by the FPF header.
        let (frame, changed) = clamped(
            syn(true, &[Option::MaximumSegmentSize(1460)]),
            payload_mtu(Family::V4, 1500, 9),
        );
        assert!(changed);
        assert_eq!(frame, syn(true, &[Option::MaximumSegmentSize(1451)]));
    }

    #[test]
    fn only_a_whole_syn_with_the_option_is_changed() {
        let mss = [Option::MaximumSegmentSize(1460)];
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = syn(true, &mss);
            change(&mut frame);
            clamped(frame, 1000).1
        };
        assert!(changed(&|_| {}));
        assert!(!changed(&|frame| frame[47] = 0x10)); // ACK alone
        assert!(!changed(&|frame| frame[20] = 0x20)); // the first fragment
        assert!(!changed(&|frame| frame[23] = 17)); // UDP
        assert!(!changed(&|frame| frame[54] = END));
        assert!(!changed(&|frame| frame[55] = 3)); // not the length of this option
        assert!(!clamped(syn(true, &[]), 1000).1);
    }

    #[test]
    fn a_packet_fits_with_its_header_or_says_what_would() {
        let whole = |v4: bool, len: u32, may_fragment: bool| {
            let mut headers = headers::peek(&syn(v4, &[]));
            (headers.total_len, headers.dont_fragment) = (len, !may_fragment);
            headers
        };
        assert_eq!(fit(&whole(true, 1491, false), 1500, 9), Fit::Whole);
        let too_big = |mtu| Fit::TooBig { mtu };
        assert_eq!(fit(&whole(true, 1492, false), 1500, 9), too_big(1491));
        assert_eq!(fit(&whole(true, 1492, true), 1500, 9), Fit::Fragments(1491));
        assert_eq!(fit(&whole(false, 1492, false), 1500, 9), too_big(1491));
        assert_eq!(fit(&whole(false, 1280, false), 1280, 9), too_big(1280));
        assert_eq!(payload_mtu(Family::V4, 10, 20), 68);
        assert_eq!(payload_mtu(Family::Link, 1500, 20), 1480);
    }
}
