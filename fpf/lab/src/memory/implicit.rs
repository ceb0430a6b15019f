//! Implicit set-up at an edge: the fate of the first packets of flows while the classifier finds their class.
//!
//! RTP flows enter a plane. After each burst the copies go through the classifier, and its decisions take effect, at
//! most 64 per burst as in the router. Here both alternate on one thread, so the time of each is measured separately:
//! only the work of the forwarding thread delays a packet, that is, the copies of its burst and the decisions before
//! it.

use std::net::Ipv4Addr;

use weir_base::Span;
use weir_benches::forwarding;
use weir_classifier::{Classifier, Kind, Segment, Settings, Verdict};
use weir_fpf_path::Fpf;
use weir_fpf_path::edge::copies::Copies;
use weir_fpf_path::edge::implicit::Decision;
use weir_live::clock;
use weir_path::ip::tables::{BURST, Tables};

use super::throughput::{SetupError, edge_of_a_class};

/// Decisions that take effect between two bursts.
const DECISIONS_MAX: usize = 64;

/// The fate of the packets of the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Packets received.
    pub received: u64,
    /// Packets dropped.
    pub lost: u64,
    /// Packets forwarded by the routes.
    pub by_routes: u64,
    /// The longest time that the forwarding thread worked for a burst and for the decisions before it.
    pub delay_max: Span,
    /// Flows that have a rule at the end.
    pub classified: u64,
}

/// Sends `packets` packets of each of `flows` flows, round-robin, and classifies them.
pub fn set_up(flows: u32, packets: u16) -> Result<Outcome, SetupError> {
    let mut tables: Tables = forwarding::interfaces();
    let all = "0.0.0.0/0".parse().unwrap_or_default();
    tables.set_route(all, forwarding::via(2));
    let (mut plane, setup) = edge_of_a_class(tables)?;
    let settings = Settings::default();
    let mut classifier = Classifier::new(settings, (1, 2));
    let mut outcome = Outcome::default();
    let mut decisions: Vec<Decision> = Vec::new();
    let mut copies = Copies::default();
    for sequence in 0..packets {
        let frames: Vec<_> = (0..flows).map(|flow| rtp(flow, sequence)).collect();
        for burst in frames.chunks(BURST) {
            let begin = clock::thread_cpu_time();
            let some = decisions.len().min(DECISIONS_MAX);
            Fpf::decide(&mut plane, &setup, &decisions[..some], clock::now());
            forwarding::drive(&mut plane, burst, burst.len());
            let took = clock::thread_cpu_time() - begin;
            outcome.delay_max = outcome.delay_max.max(took);
            outcome.received += burst.len() as u64;
            decisions.drain(..some);
            copies = Fpf::take_copies(&mut plane, copies, classifier.flows());
            for (copy, transport) in copies.iter() {
                let Some(segment) = Segment::parse(copy.key.protocol, transport) else {
                    continue;
                };
                let verdict = classifier.observe(copy.at, &copy.key, segment);
                if matches!(verdict, Verdict::Class { kinds, .. } if kinds.contains(Kind::Rtp)) {
                    decisions.push(Decision {
                        key: copy.key,
                        hash: copy.hash,
                        class: Some(0),
                        is_watched: false,
                    });
                }
            }
        }
    }
    Fpf::decide(&mut plane, &setup, &decisions, clock::now());
    let encapsulated = Fpf::stats(&plane).encapsulated.packets;
    outcome.lost = plane.fates().all_ended().packets;
    outcome.by_routes = outcome.received - encapsulated - outcome.lost;
    outcome.classified = Fpf::classes(&plane).map(|class| class.classified).sum();
    Ok(outcome)
}

/// An RTP packet of a flow.
fn rtp(flow: u32, sequence: u16) -> Vec<u8> {
    const PAYLOAD: usize = 160;
    let source = Ipv4Addr::from_bits(0x0a00_0000 + flow);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0];
    let total = (20 + 8 + 12 + PAYLOAD) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(source.octets());
    ip.extend([198, 51, 100, 1]);
    let sum = weir_wire::checksum::internet(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip);
    frame.extend([0x13, 0x88, 0x13, 0x8c]);
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0, 0x80, 96]);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 7, 0, 0, 0, 1]);
    frame.resize(frame.len() + PAYLOAD, 0x55);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_gets_its_path_and_no_packet_is_lost() {
        let outcome = set_up(200, 20).unwrap();
        assert_eq!((outcome.received, outcome.lost), (4000, 0));
        assert_eq!(outcome.classified, 200);
        // RTP is found with its second packet at the earliest.
        let by_routes = outcome.by_routes;
        assert!((400..2000).contains(&by_routes), "{outcome:?}");
    }
}
