//! The headers of the packet behind an FPF header.

use weir_path::headers::{Headers, not_ip, peek_v4, peek_v6};

use crate::header;
use crate::segment_header;

/// The headers of the payload of the FPF header at `at`.
pub fn peek_behind(frame: &[u8], at: usize) -> Headers {
    let bytes = frame.get(at..).unwrap_or(&[]);
    let len = header::View::new_checked(bytes).map_or(0, |view| view.header_len());
    peek_by_version(frame, at + len)
}

/// The headers of an FPF payload that starts at `l3`: IPv4 or IPv6 by its version field, also after the segment header
/// of a packet that was not cut into segments; otherwise not IP.
#[inline(always)]
pub fn peek_by_version(frame: &[u8], l3: usize) -> Headers {
    let packet = frame.get(l3..).unwrap_or(&[]);
    let found = match packet.first().map(|byte| byte >> 4) {
        Some(4) => peek_v4(packet, l3),
        Some(6) => peek_v6(packet, l3),
        _ => peek_uncut(frame, l3),
    };
    found.unwrap_or_else(|| not_ip(frame, l3))
}

/// The headers of a whole IP packet after a segment header.
#[cold]
fn peek_uncut(frame: &[u8], l3: usize) -> Option<Headers> {
    let view = segment_header::View::new_checked(frame.get(l3..)?).ok()?;
    let segment_header::Repr::Whole(len) = segment_header::Repr::parse(&view).ok()? else {
        return None;
    };
    let l3 = l3 + segment_header::WHOLE_LEN;
    let packet = frame.get(l3..l3 + usize::from(len))?;
    match packet.first()? >> 4 {
        4 => peek_v4(packet, l3),
        6 => peek_v6(packet, l3),
        _ => None,
    }
}
