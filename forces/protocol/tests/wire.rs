//! Messages are read and written bit for bit; no input makes reading panic or take excessive resources.

use crate::common::{self, Vector, own, read};
use crate::fixtures::fixtures;
use proptest::collection::vec;
use proptest::prelude::*;
use weir_protocol::wire::header::MESSAGE_LEN_MAX;
use weir_protocol::wire::message::packet_redirect;
use weir_protocol::wire::{Body, Message, MessageKind};

fn all() -> Vec<Vector> {
    let further = fixtures("hex");
    let further = further
        .iter()
        .flat_map(|f| read(&std::fs::read_to_string(f).unwrap()));
    own().into_iter().chain(further).collect()
}

fn check_again(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    let mut written = vec![0xa5; message.encoded_len() + 4];
    message.emit(&mut written);
    let (written, rest) = written.split_at(message.encoded_len());
    assert_eq!(rest, [0xa5; 4]);
    assert_eq!(Message::parse(written), Ok(message));
}

#[test]
fn every_vector_is_read_and_written_bit_for_bit() {
    let vectors = all();
    assert!(vectors.len() >= 30);
    for Vector { name, bytes } in vectors {
        let message = Message::parse(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(message.to_bytes(), bytes, "{name}");
        assert_eq!(message.encoded_len(), bytes.len(), "{name}");
    }
}

#[test]
fn the_own_vectors_have_every_type_of_message() {
    let kinds: Vec<_> = own()
        .iter()
        .map(|v| Message::parse(&v.bytes).unwrap().body().kind())
        .collect();
    for code in [1_u8, 2, 3, 4, 5, 6, 0x0f, 0x11, 0x13, 0x14] {
        assert!(kinds.contains(&MessageKind::from(code)), "{code}");
    }
}

#[test]
fn every_truncation_is_refused() {
    for Vector { name, bytes } in all() {
        for len in 0..bytes.len() {
            assert!(
                Message::parse(&bytes[..len]).is_err(),
                "{name}, {len} bytes"
            );
            if len % 4 == 0 && len >= 24 {
                let mut short = bytes[..len].to_vec();
                short[2..4].copy_from_slice(&((len / 4) as u16).to_be_bytes());
                check_again(&short);
            }
        }
    }
}

#[test]
fn every_change_of_one_bit_is_accepted_or_an_error() {
    let (mut accepted, mut refused) = (0, 0);
    for Vector { bytes, .. } in all() {
        for bit in 0..8 * bytes.len() {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            match Message::parse(&changed) {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert!(error.at <= bytes.len() && !error.to_string().is_empty());
                    refused += 1;
                }
            }
            check_again(&changed);
        }
    }
    assert!(accepted > 0 && refused > 0);
}

/// A message of the maximum length whose body repeats `tlv`, within an operation or directly.
fn repeated(kind: u8, operation: u16, tlv: &[u8]) -> Vec<u8> {
    let mut select = Vec::new();
    while select.len() + tlv.len() <= 60_000 {
        select.extend(tlv);
    }
    let mut body = Vec::new();
    for _ in 0..4 {
        let len = select.len() as u16;
        body.extend([0x10, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1]);
        let at = body.len() - 10;
        body[at..at + 2].copy_from_slice(&(len + 16).to_be_bytes());
        body.extend(operation.to_be_bytes());
        body.extend((len + 4).to_be_bytes());
        body.extend(&select);
    }
    let mut message = vec![0x10, kind, 0, 0, 0x40, 0, 0, 1, 0, 0, 0, 2];
    message.resize(24, 0);
    message.extend(body);
    assert!(message.len() <= MESSAGE_LEN_MAX);
    let words = (message.len() / 4) as u16;
    message[2..4].copy_from_slice(&words.to_be_bytes());
    message
}

#[test]
fn memory_is_bounded_by_the_length_of_a_message() {
    let bare = [1, 0x10, 0, 8, 0, 0, 0, 0];
    let mut sparse = vec![1, 0x10, 0, 0, 0, 0, 0, 0, 1, 0x13, 0, 0];
    sparse.extend([0, 0, 0, 1, 0, 0, 0, 8].repeat(5000));
    let len = sparse.len() as u16;
    sparse[2..4].copy_from_slice(&len.to_be_bytes());
    sparse[10..12].copy_from_slice(&(len - 8).to_be_bytes());
    let mut nested = Vec::new();
    for level in 1..=16_u16 {
        nested.extend([1, 0x10]);
        nested.extend((8 * (17 - level)).to_be_bytes());
        nested.extend([0; 4]);
    }
    for (kind, operation, tlv) in [(4, 7, &bare[..]), (3, 1, &sparse), (4, 7, &nested)] {
        let message = repeated(kind, operation, tlv);
        let used = allocation_counter::measure(|| {
            assert!(Message::parse(&message).is_ok());
        });
        let most = 64 * message.len() as u64;
        assert!(
            used.bytes_max <= most,
            "{} bytes for {}",
            used.bytes_max,
            message.len()
        );
    }
}

/// The messages in the SCTP data chunks of a capture.
fn messages(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = pcap_file::pcap::PcapReader::new(capture).unwrap();
    let link_len = match reader.header().datalink {
        pcap_file::DataLink::ETHERNET => 14,
        pcap_file::DataLink::LINUX_SLL => 16,
        other => panic!("a capture of {other:?}"),
    };
    let mut messages = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let ip = &packet.data[link_len..];
        let header = usize::from(ip[0] & 15) * 4;
        let end = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        assert_eq!(ip[9], 132, "SCTP");
        let mut chunks = &ip[header + 12..end];
        while chunks.len() >= 4 {
            let len = usize::from(u16::from_be_bytes([chunks[2], chunks[3]]));
            if chunks[0] == 0 {
                assert_eq!(chunks[1] & 3, 3, "a whole message in one chunk");
                messages.push(chunks[16..len].to_vec());
            }
            chunks = &chunks[len.next_multiple_of(4).min(chunks.len())..];
        }
    }
    messages
}

#[test]
fn captured_messages_are_read_and_written_bit_for_bit() {
    for file in fixtures("pcap") {
        let messages = messages(&std::fs::read(&file).unwrap());
        assert!(!messages.is_empty(), "{}", file.display());
        for bytes in messages {
            let message =
                Message::parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!(message.to_bytes(), bytes, "{}: {message:?}", file.display());
        }
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_read_back(message in common::message()) {
        let mut bytes = vec![0xa5; message.encoded_len() + 4];
        message.emit(&mut bytes);
        prop_assert_eq!(&bytes[message.encoded_len()..], &[0xa5; 4]);
        bytes.truncate(message.encoded_len());
        prop_assert_eq!(Message::parse(&bytes), Ok(message.clone()));
        prop_assert_eq!(message.to_bytes(), bytes);
    }

    #[test]
    fn no_bytes_make_it_panic(mut bytes in vec(any::<u8>(), 24..400), kind in 0_u8..0x16) {
        bytes.truncate(bytes.len() / 4 * 4);
        let words = (bytes.len() / 4) as u16;
        bytes[..2].copy_from_slice(&[0x10, kind]);
        bytes[2..4].copy_from_slice(&words.to_be_bytes());
        bytes[4] &= 0x7f;
        bytes[8] &= 0x7f;
        check_again(&bytes);
    }

    #[test]
    fn no_change_of_a_message_makes_it_panic(
        message in common::message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = message.to_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check_again(&bytes);
        if let Ok(message) = Message::parse(&bytes)
            && let Body::PacketRedirect(body) = message.body()
        {
            prop_assert_eq!(packet_redirect::views(&bytes[24..]).count(), body.redirects().len());
        }
    }
}
