//! Ports that share a rate: together they send as much as one link of this rate.
//!
//! A frame of one port makes the links of all busy. When the link is free, that port sends which has sent least: each
//! has the start tag of its next frame, and the smallest goes first, as in start-time fair queueing (Goyal, Vin, Cheng,
//! "Start-time fair queueing", SIGCOMM 1996). So ports with packets have equal parts, and what one leaves the others take.

use std::collections::BTreeSet;

use weir_base::Instant;

use crate::plane::{OUTBOX_MAX, Plane, PlanePort};

/// The ports of a rate.
#[derive(Debug, Default)]
pub(crate) struct SharedRate {
    /// In the order of their numbers.
    members: Vec<Member>,
    /// Start tag of the last frame, in bytes on the wire.
    virtual_time: u64,
}

/// A port that shares its rate.
#[derive(Debug)]
struct Member {
    number: usize,
    /// Finish tag of its last frame.
    served: u64,
    /// Packets in its outbox before the step.
    held: usize,
}

impl SharedRate {
    fn new(numbers: impl Iterator<Item = usize>) -> Self {
        let members = numbers.map(|number| Member {
            number,
            served: 0,
            held: 0,
        });
        Self {
            members: members.collect(),
            virtual_time: 0,
        }
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.members.iter().any(|member| member.number == number)
    }

    pub(crate) fn is_first(&self, number: usize) -> bool {
        self.members.first().is_some_and(|m| m.number == number)
    }

    /// Makes the links of all members busy until this time.
    fn wait_for(&self, free_at: Instant, ports: &mut [PlanePort]) {
        for member in &self.members {
            ports[member.number].port.wait_for(free_at);
        }
    }
}

impl Plane {
    /// Lets a port share the rate of the port with this name: both have links of the same rate. `None` for a port with a
    /// rate of its own.
    pub fn set_rate_of(&mut self, number: usize, other: Option<&str>) {
        self.ports[number].rate_of = other.map(str::to_owned);
        self.find_shared_rates();
    }

    /// Finds the ports that share a rate, after ports were added, removed or changed.
    pub(crate) fn find_shared_rates(&mut self) {
        let ports = self.ports.iter();
        let shared: BTreeSet<_> = ports.filter_map(|port| port.rate_of.as_deref()).collect();
        let group = |of: &str| {
            let shares = |port: &PlanePort| port.name == of || port.rate_of.as_deref() == Some(of);
            let ports = self.ports.iter().enumerate();
            let numbers = ports.filter(|(_, port)| shares(port)).map(|(n, _)| n);
            SharedRate::new(numbers)
        };
        self.shared = shared.into_iter().map(group).collect();
    }

    /// Makes a step of the ports of a shared rate: all events that are due up to `now`, in the order of their times.
    /// Returns the time of the next event, if one is known.
    pub(super) fn step_shared(&mut self, group: usize, now: Instant) -> Option<Instant> {
        let mut shared = std::mem::take(&mut self.shared[group]);
        for member in &mut shared.members {
            let slot = &mut self.ports[member.number];
            member.held = slot.outbox.len();
            slot.port.catch_up(now);
        }
        let next = loop {
            let dues = shared.members.iter();
            let due = dues.filter_map(|m| self.due(m.number)).min();
            let Some(at) = due.filter(|at| *at <= now) else {
                break due;
            };
            for member in &shared.members {
                self.step_port(member.number, at, 0);
            }
            let time = shared.virtual_time;
            let members = shared.members.iter_mut();
            let ready = members.filter(|m| self.may_start(m.number, at));
            if let Some(member) = ready.min_by_key(|m| m.served.max(time)) {
                let before = self.ports[member.number].port.on_wire();
                self.step_port(member.number, at, 1);
                let port = &self.ports[member.number].port;
                let (spent, free_at) = (port.on_wire() - before, port.free_at());
                if spent > 0 {
                    shared.virtual_time = member.served.max(time);
                    member.served = shared.virtual_time + spent;
                }
                shared.wait_for(free_at, &mut self.ports);
            }
        };
        let mut members = shared.members.iter();
        let full = members.any(|m| self.ports[m.number].is_full());
        let full = full.then_some(now);
        for member in &shared.members {
            self.see_departed(member.number, member.held, now);
        }
        self.shared[group] = shared;
        next.into_iter().chain(full).min()
    }

    /// Makes the links of the ports that share the rate of this port as busy as its own.
    pub(crate) fn share_debt(&mut self, number: usize) {
        let free_at = self.ports[number].port.free_at();
        for shared in self.shared.iter().filter(|shared| shared.has(number)) {
            shared.wait_for(free_at, &mut self.ports);
        }
    }

    fn has_room(&self, number: usize) -> bool {
        self.ports[number].outbox.len() < OUTBOX_MAX
    }

    fn due(&self, number: usize) -> Option<Instant> {
        self.ports[number].port.due(self.has_room(number))
    }

    fn may_start(&self, number: usize, at: Instant) -> bool {
        self.has_room(number) && self.ports[number].port.may_start(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_base::setting::Scalar;
    use weir_base::{Framing, Rate, Streams};
    use weir_discipline::Spec;
    use weir_packet::Packet;

    use super::*;
    use crate::egress::port::Link;
    use crate::plane::Mode;

    /// Time of a frame of 1476 B, 1500 B on the wire, at 12 Mbit/s.
    const FRAME: u64 = 1_000_000;

    /// Ports of a rate of 12 Mbit/s.
    fn plane(ports: &[&str]) -> Plane {
        let mut plane = Plane::new(4096, 1518, Streams::new(1));
        let link = Link {
            rate: Some(Rate::from_mbps(12)),
            framing: Framing::ETHERNET,
            frame_bytes_max: 1514,
        };
        let spec = Spec::check("fifo", [("limit", &Scalar::Integer(1000))]).unwrap();
        for name in ports {
            let number = plane.add_port(name, name, Mode::Queue, spec.clone(), link, Instant::ZERO);
            plane.set_rate_of(number, (number > 0).then_some(ports[0]));
        }
        plane
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn offer(plane: &mut Plane, port: usize, count: usize, nanos: u64) {
        for _ in 0..count {
            let packet = plane.pool.receive(&[0; 1476], at(nanos)).unwrap();
            plane.ports[port].port.offer(packet);
        }
    }

    /// Packets that left each port since the last call.
    fn sent(plane: &mut Plane) -> Vec<usize> {
        let mut counts = Vec::new();
        for port in 0..plane.ports.len() {
            let left: Vec<Packet> = plane.ports[port].outbox.drain(..).collect();
            counts.push(left.len());
            left.into_iter()
                .for_each(|packet| plane.pool.release(packet));
        }
        counts
    }

    /// Steps whenever an event is due, until the end.
    fn run(plane: &mut Plane, mut nanos: u64, end: u64) -> Vec<usize> {
        let mut total = vec![0; plane.ports.len()];
        while nanos < end {
            let next = plane.step(at(nanos));
            for (total, sent) in total.iter_mut().zip(sent(plane)) {
                *total += sent;
            }
            nanos = next.map_or(end, Instant::as_nanos);
        }
        total
    }

    #[test]
    fn ports_with_packets_have_equal_parts_and_the_rate_together() {
        let mut plane = plane(&["a", "b", "c"]);
        offer(&mut plane, 0, 400, 0);
        offer(&mut plane, 2, 400, 0);
        assert_eq!(run(&mut plane, 0, 100 * FRAME), [50, 0, 50]);
        // Another one has its part at once, but nothing for the time before.
        offer(&mut plane, 1, 400, 100 * FRAME);
        let parts = run(&mut plane, 100 * FRAME, 190 * FRAME);
        assert!(
            parts.iter().all(|part| (29..=31).contains(part)),
            "{parts:?}"
        );
    }

    #[test]
    fn a_port_alone_has_all_of_the_rate() {
        let mut plane = plane(&["a", "b"]);
        offer(&mut plane, 1, 200, 0);
        assert_eq!(run(&mut plane, 0, 100 * FRAME), [0, 100]);
        plane.remove_port(1, weir_packet::Reason::Shutdown);
        assert!(plane.shared.iter().all(|shared| shared.members.len() < 2));
        offer(&mut plane, 0, 200, 100 * FRAME);
        assert_eq!(run(&mut plane, 100 * FRAME, 200 * FRAME), [100]);
    }

    #[test]
    fn a_frame_of_the_kernel_at_one_port_delays_all() {
        let mut plane = plane(&["a", "b"]);
        let arrival = crate::plane::step::Arrival {
            at: at(0),
            len: 1476,
            vlan: None,
            offload: crate::link::offload::Offload::NONE,
        };
        (0..10).for_each(|_| plane.charge(0, &[0; 64], &arrival));
        offer(&mut plane, 1, 200, 0);
        assert_eq!(run(&mut plane, 0, 100 * FRAME), [0, 90]);
    }

    #[test]
    fn a_full_outbox_of_one_port_leaves_the_rate_to_the_others() {
        let mut plane = plane(&["a", "b"]);
        let room = OUTBOX_MAX;
        offer(&mut plane, 0, 2 * room, 0);
        offer(&mut plane, 1, 2 * room, 0);
        let mut nanos = 0;
        let mut of_b = 0;
        while nanos < 4 * room as u64 * FRAME {
            plane.step(at(nanos));
            of_b += plane.ports[1].outbox.len();
            for packet in plane.ports[1].outbox.drain(..).collect::<Vec<_>>() {
                plane.pool.release(packet);
            }
            nanos += FRAME;
        }
        assert_eq!((plane.ports[0].outbox.len(), of_b), (room, 2 * room));
    }

    proptest! {
        /// Late steps catch up within the bound of a link: two frames. Nothing is lost.
        #[test]
        fn the_rate_is_kept_whatever_arrives_and_however_late(
            arrivals in prop::collection::vec((0..3_usize, 1..30_usize, 0..20 * FRAME), 1..20),
            late in prop::collection::vec(0..500_000_u64, 1..50),
        ) {
            let mut arrivals = arrivals;
            arrivals.sort_by_key(|(_, _, at)| *at);
            let mut exact = plane(&["a", "b", "c"]);
            let mut delayed = plane(&["a", "b", "c"]);
            for (port, count, nanos) in &arrivals {
                offer(&mut exact, *port, *count, *nanos);
                offer(&mut delayed, *port, *count, *nanos);
            }
            let end = 700 * FRAME;
            let order = run(&mut exact, 0, end);
            let mut nanos = 0;
            let mut total = vec![0; 3];
            for late in late.iter().cycle() {
                let next = delayed.step(at(nanos));
                for (total, sent) in total.iter_mut().zip(sent(&mut delayed)) {
                    *total += sent;
                }
                prop_assert!(total.iter().sum::<usize>() as u64 <= nanos / FRAME + 2);
                let Some(next) = next.filter(|next| next.as_nanos() < end) else { break };
                nanos = next.max(at(nanos)).as_nanos() + late;
            }
            prop_assert_eq!(&total, &order);
            let packets = arrivals.iter().map(|(_, count, _)| count).sum::<usize>();
            prop_assert_eq!(order.iter().sum::<usize>(), packets);
        }
    }
}
