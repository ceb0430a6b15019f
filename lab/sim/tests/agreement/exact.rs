//! A port, stepped exactly as the fabric does.

use weir_base::{Instant, Streams};
use weir_discipline::Spec;
use weir_packet::{DropCounters, Ecn, Keys, Packet, Slot};
use weir_path::egress::port::Port;

use super::{Coming, LINK, Lost, Outcome, SEED, Sent};

/// The fate of the packets, and the times at which the link becomes free again.
pub(crate) fn port(spec: &Spec, list: &[Coming]) -> (Outcome, Vec<Instant>) {
    let streams = Streams::new(SEED);
    let mut keys = Keys::new(list.len(), streams.hash_key("flow-hash"));
    let streams = streams.below("port").below("wan");
    let mut port = Port::new(spec.clone(), LINK, Instant::ZERO, &streams);
    let mut fates = DropCounters::default();
    let (mut outcome, mut ends) = (Outcome::default(), Vec::new());
    let mut coming = list.iter().enumerate().peekable();
    let mut due = None;
    loop {
        let next = coming.peek().map(|(_, packet)| packet.at);
        if next.is_none() && port.is_idle() {
            return (outcome, ends);
        }
        let now = [next, due].into_iter().flatten().min().unwrap();
        while let Some((id, packet)) = coming.next_if(|(_, packet)| packet.at == now) {
            let slot = Slot(id as u32);
            keys.set(slot, packet.key());
            let mut descriptor = Packet::new(id as u64, slot, packet.bytes() as u32, now);
            descriptor.ecn = packet.ecn;
            port.offer(descriptor);
        }
        due = port.step(
            now,
            &keys,
            &mut fates,
            usize::MAX,
            &mut |packet, sending| {
                assert_eq!(sending.start, now);
                ends.push(sending.end);
                outcome.sent.push(Sent {
                    id: packet.id as usize,
                    at: now,
                    congested: packet.ecn == Ecn::Congested,
                });
            },
        );
        outcome.lost.extend(fates.freed().map(|freed| Lost {
            id: freed.slot.0 as usize,
            at: now,
            reason: freed.reason.name(),
        }));
    }
}
