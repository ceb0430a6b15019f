//! Parses any bytes as a ForCES message: no panic, and a message that was read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_forces::wire::header::{self, HEADER_LEN};
use weir_forces::wire::message::packet_redirect;
use weir_forces::wire::{Body, Message};

fuzz_target!(|bytes: &[u8]| {
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
            assert_eq!(view.unwrap().packet(), redirect.packet());
        }
    }
    assert_eq!(Message::parse(&written), Ok(message));
});
