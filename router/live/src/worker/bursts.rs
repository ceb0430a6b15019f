//! Moves bursts from the devices to the plane, bounded by the work that they cause.

use std::io;

use weir_base::Instant;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};

use super::links::Link;
use super::{BURST_MAX, Worker};
use crate::clock;
use crate::device::{Direction, Received};

/// Packets that the deferred superframes of a device may become in each iteration, regardless of its other frames.
const DEFERRED_MIN: usize = BURST_MAX / 4;

impl Worker {
    /// Takes a burst from each device, and from the deferred superframes; returns whether more frames wait.
    pub(super) fn receive(&mut self) -> bool {
        let mut more = false;
        let leased_until = self.leased_until();
        for number in 0..self.links.len() {
            let Self { plane, links, .. } = self;
            let link = &mut links[number];
            let share = link.share();
            let made = plane.created();
            let received = receive_burst(plane, link, number, share, leased_until);
            let mut taken = *received.as_ref().unwrap_or(&0);
            if plane.has_deferred(number) && share > 0 {
                let most = share.saturating_sub(taken).max(DEFERRED_MIN);
                taken += plane.receive_deferred(number, most);
                plane.step(clock::now());
            }
            if taken > 0 {
                // Fragments, copies and ICMP errors are work too.
                let made = plane.created().saturating_sub(made) as usize;
                link.overdrawn += (taken + made).saturating_sub(share);
            }
            self.moderation.took(taken);
            more |= taken >= share || self.plane.has_deferred(number);
            if let Err(error) = received {
                self.lose(number, &error);
            }
        }
        more
    }
}

/// Takes up to `share` frames of ordinary length from the device of a port, if it is open.
fn receive_burst(
    plane: &mut Plane,
    link: &mut Link,
    number: usize,
    share: usize,
    leased_until: Instant,
) -> io::Result<usize> {
    let Some(device) = link.device.as_mut() else {
        return Ok(0);
    };
    let mode = plane.ports()[number].mode;
    let takes_all = mode != Mode::Routed;
    // The kernel keeps no copy of a frame that it lends.
    let leased_until = match mode {
        Mode::Queue => Instant::FAR_FUTURE,
        Mode::Routed | Mode::Bridged => leased_until,
    };
    let mut burst = plane.burst(number);
    device.receive(share, &mut |frame| match frame.direction {
        _ if frame.arrived >= leased_until => {} // the thread stalled in this iteration
        Direction::Outgoing => {
            let plane = burst.plane();
            plane.charge(number, &frame.bytes, &arrival(&frame));
            plane.show_kernels(number, &frame.bytes, &arrival(&frame));
        }
        Direction::Other if !takes_all => {}
        Direction::Host | Direction::Group | Direction::Other => {
            let arrival = arrival(&frame);
            burst.receive(frame.bytes, arrival);
            if frame.offload.segmentation.is_some() {
                // Its packets go to their queues, or are dropped, before another port's frame needs a slot in the pool.
                burst.plane().step(clock::now());
            }
        }
    })
}

fn arrival(frame: &Received<'_>) -> Arrival {
    Arrival {
        at: frame.arrived,
        len: frame.len,
        vlan: frame.vlan,
        offload: frame.offload,
    }
}
