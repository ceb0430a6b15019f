//! Any bytes as frames, at a router with FPF rules of every kind: nothing panics, every packet ends once, and no memory
//! is lost.

mod router;

use rand::RngExt;
use weir_base::{Stream, Streams};

use router::{LIDS, Router, frame, ipv4, ipv6};

/// Frames of a run.
const FRAMES: usize = 150_000;
/// Packets that come in parts.
const PACKETS_IN_PARTS: u16 = 64;
/// Frames after which everything that waits is let out, and the memory is checked.
const CHECK_EVERY: usize = 1000;

/// Frames as they should be, from which the others are made.
fn corpus() -> Vec<Vec<u8>> {
    let fpf = |header: &[u8], payload: &[u8]| frame(0xc000, &[header, payload]);
    // Parts of packets for the rule that reassembles them; each packet counts once a second.
    let parts = (0..PACKETS_IN_PARTS).flat_map(|identifier| {
        let parts = router::in_parts(identifier, &ipv4());
        parts.map(|part| fpf(&[2, 0, 15, 5], &part))
    });
    let mut all = vec![
        frame(0x0800, &[&ipv4()]),
        frame(0x86dd, &[&ipv6()]),
        frame(0x88b5, &[b"not IP"]),
        frame(0x8100, &[&[0, 7, 0xc0, 0, 1, 0, 1], &ipv4()]),
        frame(
            0x0800,
            &[&router::in_tunnel(&[0, 0, 0xc0, 0, 2, 0, 1, 5], &ipv4())],
        ),
        frame(0x0800, &[&router::in_tunnel(&[0, 0, 8, 0], &ipv4())]),
        fpf(&[2, 2, 1, 2], &ipv4()),
        fpf(&[1, 1, 1], &ipv6()),
    ];
    all.extend(parts);
    let [interest, data] = router::chunk();
    all.push(fpf(&[2, 0, 16, 5], &interest));
    // Through the tunnel: another interface than that of the interest.
    let data = router::in_tunnel(&[0, 0, 0xc0, 0, 2, 0, 16, 5], &data);
    all.push(frame(0x0800, &[&data]));
    for lid in LIDS {
        all.push(fpf(&[3, 0, lid, 5, 1], &ipv4()));
        all.push(fpf(&[2, 1, 0xff, lid], &ipv6()));
        all.push(fpf(&[3, 0, lid, lid, lid], b"payload"));
        all.push(fpf(&[3, 0, 14, lid, 1], &[0x33; 900]));
        all.push(fpf(&[4, 0, 14, 15, lid, 1], &[0x44; 600]));
    }
    all
}

/// A frame with a few changes: bits, bytes, ends, insertions, and parts of other frames.
fn changed(random: &mut Stream, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = corpus[random.random_range(0..corpus.len())].clone();
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = random.random(),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][random.random_range(0..5)]),
            4 => drop(bytes.splice(at..bytes.len().min(at + 4), [])),
            5 => bytes.extend(vec![0x5a; random.random_range(0..1600)]),
            _ => {
                let other = &corpus[random.random_range(0..corpus.len())];
                let from = random.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
        }
    }
    bytes
}

#[test]
fn whatever_comes_ends_once_and_leaves_no_trace() {
    let (mut router, corpus) = (Router::new(), corpus());
    let mut random = Streams::new(11).stream("hostile");
    for n in 1..=FRAMES {
        let bytes = changed(&mut random, &corpus);
        router.carry(&bytes);
        if n % CHECK_EVERY == 0 {
            router.settle();
        }
    }
    // The run covers enough: all kinds of rules had packets, and some packets got through everything.
    let stats = router.stats();
    for (count, name) in [
        (stats.received.packets, "received"),
        (stats.forwarded.packets, "forwarded"),
        (stats.encapsulated.packets, "encapsulated"),
        (stats.decapsulated.packets, "decapsulated"),
        (stats.created.packets, "created"),
        (stats.repaired, "repaired"),
        (stats.segmented, "segmented"),
        (stats.reassembled, "reassembled"),
    ] {
        assert!(count > 1000, "{count} {name}");
    }
}
