//! Takes any bytes as a frame with any offloaded work; completes its checksum and segments it.

#[path = "../../../../core/path/tests/superframes/mod.rs"]
#[allow(missing_docs)] // it is a test's
mod superframes;

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    if let Some((offload, frame)) = superframes::split(bytes) {
        superframes::check(frame, &offload);
    }
}

/// Superframes of each kind over IPv4 and IPv6, and a frame with a checksum to complete.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let head = |kind: u8, start: u16, offset: u16, size: u16| {
        let words = [start, offset, size].map(u16::to_be_bytes).concat();
        [&[kind, 0], &words[..]].concat()
    };
    let cut = |head: Vec<u8>, frame: &Vec<u8>| [head, frame.clone()].concat();
    let [tcp4, tcp6, udp4, udp6] = &super::frames::long()[..] else {
        return Vec::new();
    };
    vec![
        cut(head(1, 34, 16, 500), tcp4),
        cut(head(2, 54, 16, 500), tcp6),
        cut(head(3, 34, 6, 500), udp4),
        cut(head(3, 54, 6, 500), udp6),
        cut(head(0, 34, 16, 0), tcp4),
    ]
}
