//! Two hosts and a middle host ("box") that may run a router, and frames with every stack of tags.
//!
//! The hosts come from `weir_benches::testbed`.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::{Testbed, run, udp_frame};
use weir_live::device::Device;
use weir_live::device::af_packet::AfPacket;
use weir_model::Value;

use crate::common::Bench;

/// Two ports, one of them paced.
pub(crate) const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\" }
[port.wan]
interface = \"r1\"
rate = \"20 Mbit\"
discipline = { kind = \"fifo\", limit = \"100 packets\" }
";

pub(crate) fn bypassed(bench: &Bench) -> Vec<Value> {
    bench.get("/v1/netfilter")
}

/// A number that the port `wan` reports.
pub(crate) fn wan(bench: &Bench, path: &str) -> u64 {
    let ports: Vec<Value> = bench.get("/v1/ports");
    let mut ports = ports.iter();
    let wan = ports.find(|port| port.text("port") == Some("wan")).unwrap();
    wan.whole(path).unwrap()
}

/// Loads nft rules into the box.
pub(crate) fn rules(bench: &Bench, rules: &str) {
    let path = bench.folder.join("rules.nft");
    fs::write(&path, rules).unwrap();
    run(&bench.bed.router, "nft", &format!("-f {}", path.display())).unwrap();
}

/// Bytes that the sink's interface has received.
pub(crate) fn received(bench: &Bench) -> u64 {
    let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let text = bench.bed.sink.enter(read).unwrap();
    let line = text.lines().find_map(|l| l.trim().strip_prefix("b0:"));
    let bytes = line.unwrap().split_whitespace().next().unwrap();
    bytes.parse().unwrap()
}

/// A tag's type and VLAN.
pub(crate) type Tag = (u16, u16);

/// Every stack of up to `tags_max` tags, of both types, with VLAN 0 and with a VLAN that is not in use.
pub(crate) fn stacks(tags_max: usize) -> Vec<Vec<Tag>> {
    stacks_of(
        &[(0x8100, 0), (0x8100, 5), (0x88a8, 0), (0x88a8, 5)],
        tags_max,
    )
}

/// Every stack of up to `tags_max` of these tags.
pub(crate) fn stacks_of(tags: &[Tag], tags_max: usize) -> Vec<Vec<Tag>> {
    let mut stacks = vec![Vec::new()];
    let mut longest = stacks.clone();
    for _ in 0..tags_max {
        let longer = |stack: &Vec<Tag>| -> Vec<Vec<Tag>> {
            let with = |tag: &Tag| [stack.as_slice(), &[*tag]].concat();
            tags.iter().map(with).collect()
        };
        longest = longest.iter().flat_map(longer).collect();
        stacks.extend(longest.iter().cloned());
    }
    stacks
}

/// Sends one frame with each stack of tags to the box. Returns the frames that reached the sink, and how often.
pub(crate) fn forwarded(bed: &Testbed, stacks: &[Vec<Tag>]) -> BTreeMap<usize, u32> {
    let mut sender = Testbed::open(&bed.source, "a0").unwrap();
    let mut receiver = Testbed::open(&bed.sink, "b0").unwrap();
    let mut came = BTreeMap::new();
    let mut collect = |receiver: &mut AfPacket| {
        let mut take = |bytes: &[u8]| {
            let is_udp = bytes.get(12..14)? == [8, 0] && *bytes.get(23)? == 17;
            let port = u16::from_be_bytes(*bytes.get(34..)?.first_chunk()?);
            if is_udp && bytes.get(36..38)? == [0, 9] {
                *came.entry(usize::from(port) - 1024).or_insert(0) += 1;
            }
            Some(())
        };
        while receiver.receive(256, &mut |r| _ = take(&r.bytes)).unwrap() > 0 {}
    };
    for (n, tags) in stacks.iter().enumerate() {
        let frame = tagged(udp_frame(n as u16, 80), tags);
        while sender.transmit(&[&frame]).unwrap() == 0 {}
        collect(&mut receiver);
    }
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        collect(&mut receiver);
        thread::sleep(Duration::from_millis(10));
    }
    came
}

/// The frame with these tags inserted.
pub(crate) fn tagged(mut frame: Vec<u8>, tags: &[Tag]) -> Vec<u8> {
    let tags = tags
        .iter()
        .flat_map(|(kind, vlan)| [kind.to_be_bytes(), vlan.to_be_bytes()]);
    frame.splice(12..12, tags.flatten());
    frame
}
