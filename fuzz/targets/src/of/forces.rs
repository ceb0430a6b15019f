//! Parses any bytes as a ForCES message: no panic, and a message that was read can be written and read again.

use weir_protocol::wire::header::{self, HEADER_LEN};
use weir_protocol::wire::message::packet_redirect;
use weir_protocol::wire::{Body, Message};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    if let Ok(Some(len)) = header::message_len(bytes) {
        assert!(len >= HEADER_LEN);
    }
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    let written = message.to_bytes();
    if let Body::PacketRedirect(body) = message.body() {
        let views = packet_redirect::views(&bytes[HEADER_LEN..]);
        for (view, redirect) in views.zip(body.redirects()) {
            assert_eq!(view.map(|view| view.packet()), Ok(redirect.packet()));
        }
    }
    assert_eq!(Message::parse(&written), Ok(message));
}

/// A message of each kind, and nested TLVs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let header = |kind: u8, body: &[u8]| {
        let words = ((24 + body.len()) / 4) as u16;
        let mut message = vec![0x10, kind];
        message.extend(words.to_be_bytes());
        message.extend([
            0, 0, 0, 2, 0x40, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0xf8, 0, 0, 0,
        ]);
        [message, body.to_vec()].concat()
    };
    let tlv = |kind: u16, value: &[u8]| {
        let len = (4 + value.len()) as u16;
        let mut all = [kind.to_be_bytes(), len.to_be_bytes()].concat();
        all.extend(value);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    };
    let full = tlv(0x0112, &[0, 0, 0, 7]);
    let path = tlv(0x0110, &[&[0, 0, 0, 1, 0, 0, 0, 1][..], &full].concat());
    let operation = |kind: u16| tlv(kind, &path);
    let select = |kind: u16| {
        let lfb = [&[0, 0, 0, 2, 0, 0, 0, 1][..], &operation(kind)].concat();
        tlv(0x1000, &lfb)
    };
    let redirect = [tlv(0x0115, &tlv(1, &[0; 4])), tlv(0x0116, &[0x45; 40])].concat();
    let mut all = vec![
        header(0x01, &select(9)),
        header(0x11, &tlv(0x0010, &[0; 4])),
        header(0x02, &tlv(0x0011, &[0; 4])),
        header(0x0f, &[]),
        header(0x06, &tlv(0x0001, &redirect)),
        header(0x06, &redirect),
    ];
    for (kind, operation) in [
        (3, 1),
        (3, 2),
        (3, 3),
        (3, 6),
        (4, 7),
        (5, 11),
        (0x13, 8),
        (0x14, 9),
        (0x14, 10),
    ] {
        all.push(header(kind, &select(operation)));
    }
    all
}
