//! A cache in a plane: interests arrive through `lan`, data through `wan`, and all leave through `wan`.

use super::*;
use weir_fpf_path::process::cache::{Counts, Limits};
use weir_fpf_path::process::chunk::Message;
use weir_wire::chunk::NAME_LEN;

/// LIDs: the cache, the hop through `wan`, and the path back to clients, which is the same hop.
const CACHE: u8 = 0xca;
const HOP: u8 = 0x0b;
const BACK: u8 = 0x0c;

const CLIENT: &str = "10.0.1.10:4000";
const SERVER: &str = "192.0.2.1:6363";

/// A table with a cache of this many bytes.
fn caching(bytes: u64) -> Option<Arc<Table>> {
    let (mut builder, hop) = builder();
    let function = Function::Cache(Limits { bytes, chunks: 10 });
    let processor = builder.processor("cache", function).unwrap();
    let leaves = [Vector::new(&[BACK]).unwrap()].into();
    let rule = Rule::Process(Processing { processor, leaves });
    builder.rule(None, CACHE.into(), rule).unwrap();
    for lid in [HOP, BACK] {
        builder.rule(None, lid.into(), Rule::Forward(hop)).unwrap();
    }
    Some(Arc::new(builder.build().unwrap()))
}

/// An interest, or data with this number of bytes, in or of the chunk with a name.
fn packet(name: u8, content: Option<usize>) -> Vec<u8> {
    let content = content.map(|len| vec![name; len]);
    let (from, to) = match content {
        None => (CLIENT, SERVER),
        Some(_) => (SERVER, CLIENT),
    };
    let message = Message {
        source: from.parse().unwrap(),
        destination: to.parse().unwrap(),
        name: [name; NAME_LEN],
        content: content.as_deref(),
    };
    let mut bytes = Vec::new();
    message.write(&mut bytes).unwrap();
    bytes
}

/// The bytes after the Ethernet header of the one frame that leaves after this packet with a header.
fn through_cache(plane: &mut Plane, port: usize, packet: &[u8]) -> Vec<u8> {
    let mut frame = frame(0xc000, &[&[2, 0, CACHE, HOP], packet]);
    frame[..6].copy_from_slice(&mac(port));
    plane.receive(port, &frame, arrival(&frame, None));
    let mut sent = leave(plane);
    assert_eq!(sent.len(), 1);
    sent.remove(0).split_off(14)
}

#[test]
fn an_interest_is_answered_with_the_data_that_another_one_brought() {
    let mut plane = plane(1500);
    Fpf::set_table(&mut plane, caching(65_536));
    let behind = |header: &[u8], packet: Vec<u8>| [header, &packet].concat();
    let onward = [2, 2, CACHE, HOP];
    let (interest, data) = (packet(1, None), packet(1, Some(1000)));
    // Data for which no interest waits are forwarded, and not stored.
    for (port, packet) in [
        (WAN, &data),
        (LAN, &interest),
        (LAN, &interest),
        (WAN, &data),
    ] {
        let sent = through_cache(&mut plane, port, packet);
        assert_eq!(sent, behind(&onward, packet.clone()));
    }
    for _ in 0..2 {
        let sent = through_cache(&mut plane, LAN, &interest);
        assert!(sent == behind(&[1, 1, BACK], data.clone()), "an answer");
        Fpf::set_table(&mut plane, caching(65_536)); // it stays
    }
    let sent = through_cache(&mut plane, LAN, &ipv4());
    assert_eq!(sent, behind(&onward, ipv4()));
    let counts = Counts {
        hits: 2,
        misses: 2,
        stored: 1,
        evicted: 0,
        refused: 1,
    };
    let stats = Fpf::stats(&plane);
    assert_eq!((stats.cache, stats.created.packets), (counts, 0));
    assert_eq!(plane.fates().all_ended().packets, 0);
    // Other limits start with an empty cache.
    Fpf::set_table(&mut plane, caching(70_000));
    assert_eq!(Fpf::stats(&plane).cache, Counts::default());
    let sent = through_cache(&mut plane, LAN, &interest);
    assert_eq!(sent, behind(&onward, interest));
}

#[test]
fn packets_that_begin_at_a_cache_fit_the_hop_behind_it() {
    let chunks = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[CACHE, HOP], 1)]);
    let mut plane = plane(1000);
    Fpf::set_table(&mut plane, caching(65_536));
    Fpf::set_edge(&mut plane, Some(Arc::new(only(chunks))), Instant::ZERO);
    let chunk = |len: usize| {
        let content = vec![7; len - 48];
        let message = Message {
            source: CLIENT.parse().unwrap(),
            destination: SERVER.parse().unwrap(),
            name: [1; NAME_LEN],
            content: Some(&content),
        };
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        frame(0x0800, &[&bytes])
    };
    let sent = through(&mut plane, &chunk(996));
    assert_eq!(sent[0].len(), 14 + 1000);
    let longer = chunk(997);
    plane.receive(LAN, &longer, arrival(&longer, None));
    assert_eq!(plane.fates().ended(Reason::TooBig).packets, 1);
}

#[test]
fn a_cache_whose_packets_come_back_to_it_is_refused() {
    let mut builder = Builder::new(Domain::default());
    let limits = Limits {
        bytes: 65_536,
        chunks: 10,
    };
    let vector = |lids: &[u8]| Vector::new(lids).unwrap();
    let processor = builder.processor("cache", Function::Cache(limits));
    let leaves = [vector(&[1])].into();
    let rule = Rule::Process(Processing {
        processor: processor.unwrap(),
        leaves,
    });
    builder.rule(None, CACHE.into(), rule).unwrap();
    // Other interests continue with the next LID, to the same copies again.
    let copies = Rule::Multicast([vector(&[CACHE, 2])].into());
    builder.rule(None, 2, copies).unwrap();
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("leads back to itself"), "{error}");
}
