//! From a packet in the pool to its port: the network layers, connected with the stages around them.
//!
//! ```text
//!  route:   link -> ip::parse -> source check -> classify -> [burst] -> ip::forward --+--> depart -> Port::offer
//!  pass:    bridge::parse ---------------------> classify -----------> bridge::forward-+
//!                     \______________ fates.discard, perhaps an ICMP error
//!  overlay: takes frames of its Ethernet type after `link`, and packets of a burst before `ip::forward`
//! ```

use std::net::IpAddr;

use weir_base::Instant;
use weir_packet::{KeyKind, Packet, Reason};
use weir_wire::{ethernet, vlan};

use crate::bridge;
use crate::classify::{Classified, classify, set_key};
use crate::egress::{self, Departure, Exit, Rewrites};
use crate::exception::Cause;
use crate::headers::{Headers, Parsed};
use crate::ip::forward::{Origin, Stop, forward};
use crate::ip::icmp_cause::IcmpCause;
use crate::ip::icmp_error;
use crate::ip::own_address;
use crate::ip::parse::parse;
use crate::ip::source_check::{self, Ingress};
use crate::ip::tables::{Action, BURST, Neighbour, NeighbourKey};
use crate::ip::waiting::Held;
use crate::link;
use crate::link::offload::Offload;
use crate::plane::step::Arrival;
use crate::plane::watch::Place;
use crate::plane::{Mode, Plane};

impl Plane {
    /// Handles a packet that arrived at a routed port.
    pub(super) fn route(&mut self, ingress: usize, mut packet: Packet, arrival: &Arrival) {
        let tag = arrival.vlan.map_or(0, |tci| tci & 0x0fff);
        if let Some(vlan) = self.overlay_vlan(&packet, tag)
            && let Some(mut overlay) = self.overlay.take()
        {
            let refused = overlay.receive(self, ingress, vlan, packet, arrival);
            self.overlay = Some(overlay);
            match refused {
                Some(refused) => packet = refused,
                None => return,
            }
        }
        let link = match link::validate(self.pool.frame(&packet)) {
            Ok(link) if tag == 0 => link,
            other => {
                let reason = other.err().unwrap_or(Reason::UnknownVlan);
                return self.discard(packet, reason);
            }
        };
        self.route_ip(ingress, packet, &link, arrival);
    }

    /// The VLAN of a frame of the overlay, or zero; `tag` is the VLAN if it arrived out of band. `None` if this is not
    /// a frame of the overlay, or if it has two tags.
    #[inline(always)]
    fn overlay_vlan(&self, packet: &Packet, tag: u16) -> Option<u16> {
        let ethertype = self.overlay_ethertype?;
        let link = link::peek(self.pool.frame(packet))?;
        let vlan = match link.l3 - ethernet::HEADER_LEN {
            0 => tag,
            vlan::TAG_LEN if tag == 0 => link.vlan,
            _ => return None,
        };
        (link.ethertype == ethertype).then_some(vlan)
    }

    /// Handles a packet whose link layer has been validated, at a routed port.
    #[inline]
    pub fn route_ip(
        &mut self,
        ingress: usize,
        mut packet: Packet,
        link: &link::Header,
        arrival: &Arrival,
    ) {
        let mut headers = match parse(&mut self.pool, &mut packet, link) {
            Ok(headers) => headers,
            Err(reason) => return self.refuse_packet(ingress, packet, reason, arrival),
        };
        if let Err(reason) = self.check_source(ingress, &headers) {
            return self.discard(packet, reason);
        }
        if packet.frames > 1 {
            self.leave_cutting(&packet, &mut headers, arrival);
        } else if let Err(reason) = self.finish_checksum(&packet, &headers, arrival) {
            return self.discard(packet, reason);
        }
        if self.exceptions.policy().router_alert {
            let frame = self.pool.frame(&packet);
            if self.exceptions.is_alert(frame, &headers, arrival.at) {
                if !self.within_overlay {
                    self.forward_gathered(); // they arrived before it
                }
                return self.redirect(ingress, packet, Cause::RouterAlert, arrival.at);
            }
        }
        set_key(&mut self.pool, &packet, &headers);
        let origin = self.origin_at(ingress);
        self.gather(Held::new(
            Classified { packet, headers },
            Some(ingress),
            origin,
        ));
    }

    /// Hands a packet that the network layer refused to the control element, or drops it.
    #[cold]
    fn refuse_packet(
        &mut self,
        ingress: usize,
        mut packet: Packet,
        reason: Reason,
        arrival: &Arrival,
    ) {
        if self.within_overlay {
            return self.refuse_inner(packet, reason);
        }
        self.forward_gathered(); // they arrived before it
        if self.ports[ingress].is_local {
            return self.discard(packet, reason); // the kernel sent it, not a neighbour
        }
        if reason == Reason::NotIp && arrival.offload.checksum.is_none() && self.overlay.is_some() {
            let parsed = bridge::parse(&self.pool, packet);
            let other = classify(&mut self.pool, parsed);
            let held = Held::new(other, Some(ingress), Origin::Transit);
            self.gathered.push(held);
            self.offer_burst();
            match self.gathered.pop() {
                Some(held) => packet = held.packet.packet,
                None => return,
            }
        }
        if reason == Reason::NotIp && self.answer_neighbour(ingress, &packet, arrival.at) {
            return self.discard(packet, Reason::LocalDelivery);
        }
        let frame = self.pool.frame(&packet);
        let Some(cause) = self.exceptions.cause(frame, reason, None, arrival.at) else {
            return self.discard(packet, reason);
        };
        let parsed = bridge::parse(&self.pool, packet);
        match self.finish_checksum(&parsed.packet, &parsed.headers, arrival) {
            Ok(()) => self.redirect(ingress, parsed.packet, cause, arrival.at),
            Err(reason) => self.discard(parsed.packet, reason),
        }
    }

    /// Drops a packet that left the overlay, and that the network layer refused. Neither the control element nor the
    /// kernel gets it: no neighbour sent it on the link of the port, and the kernel has no copy.
    #[cold]
    fn refuse_inner(&mut self, packet: Packet, reason: Reason) {
        let reason = match reason {
            Reason::LocalDelivery => Reason::MartianDestination, // addressed to the link, but there is no link
            other => other,
        };
        self.discard(packet, reason);
    }

    /// Whether a packet's source is acceptable at its ingress port.
    #[inline]
    fn check_source(&mut self, ingress: usize, headers: &Headers) -> Result<(), Reason> {
        if self.passed.contains(headers.source(), ingress) {
            Ok(())
        } else {
            self.look_source_up(ingress, headers)
        }
    }

    #[cold]
    fn look_source_up(&mut self, ingress: usize, headers: &Headers) -> Result<(), Reason> {
        let port = &self.ports[ingress];
        if port.is_local {
            return Ok(()); // the kernel has chosen the source
        }
        let at = Ingress {
            interface: port.index,
            check: port.source_check,
        };
        let (source, destination) = (headers.source(), headers.destination());
        let reason = match source_check::check(&self.tables, at, source, destination) {
            Ok(is_for_all) => {
                if is_for_all {
                    self.passed.insert(source, ingress);
                }
                return Ok(());
            }
            Err(reason) => reason,
        };
        let overlay = self.overlay.as_ref();
        let is_of_tunnel = || overlay.is_some_and(|overlay| overlay.is_of_tunnel(headers));
        match self.within_overlay {
            true if reason == Reason::ReversePath && self.is_reached_by_paths(headers) => Ok(()),
            true => Err(reason),
            // The kernel checks and counts packets to the router itself.
            false if self.is_for_router(headers) && !is_of_tunnel() => Err(Reason::LocalDelivery),
            false => Err(reason),
        }
    }

    /// Whether the route to a packet's destination leads to one of this router's own addresses.
    #[cold]
    fn is_for_router(&self, headers: &Headers) -> bool {
        let (source, destination) = (headers.source(), headers.destination());
        let route = self.tables.route_from(destination, source);
        route.is_some_and(|route| route.action == Action::Local)
    }

    /// Handles a packet that arrived at a bridged port, or that the kernel forwards.
    pub(super) fn pass(&mut self, ingress: usize, mut packet: Packet, arrival: &Arrival) {
        if let Some(tci) = arrival.vlan
            && !link::tag::insert(&mut self.pool, &mut packet, tci)
        {
            return self.discard(packet, Reason::TruncatedFrame);
        }
        let parsed = bridge::parse(&self.pool, packet);
        let is_lent = self.ports[ingress].mode == Mode::Queue;
        let mut left = arrival.offload;
        if parsed.packet.frames == 1 && !(is_lent && self.ports[ingress].offloads) {
            let Parsed { packet, headers } = &parsed;
            if let Err(reason) = self.finish_checksum(packet, headers, arrival) {
                return self.discard(parsed.packet, reason);
            }
            left = Offload::NONE;
        }
        if let Some(place) = self.offloads.get_mut(parsed.packet.slot.0 as usize) {
            *place = left;
        }
        let Classified { packet, headers } = classify(&mut self.pool, parsed);
        if let (Some(side), Some(translations)) =
            (&mut self.ports[ingress].translates, &mut self.translations)
        {
            let (keys, frame) = self.pool.keys_and_frame(&packet);
            let slot = packet.slot;
            translations.translate(keys, slot, side, (frame, &headers), arrival.at);
        }
        let port = if is_lent {
            Ok(ingress)
        } else {
            self.across(ingress)
        };
        match port {
            Ok(port) => self.depart(packet, &headers, &bridge::forward(port)),
            Err(reason) => self.discard(packet, reason),
        }
    }

    /// The port to which frames of a bridged port go.
    pub(super) fn across(&self, ingress: usize) -> Result<usize, Reason> {
        let ports = self.ports.iter().enumerate();
        let bridged = ports.filter(|(_, p)| p.mode == Mode::Bridged);
        bridge::other(bridged.map(|(n, _)| n), ingress)
    }

    /// Finishes the checksum, if the sender left it to hardware.
    #[inline(always)]
    pub fn finish_checksum(
        &mut self,
        packet: &Packet,
        headers: &Headers,
        arrival: &Arrival,
    ) -> Result<(), Reason> {
        let Some(partial) = arrival.offload.checksum else {
            return Ok(());
        };
        let stripped = self.pool.stripped(packet);
        let end = headers.l3_range().end; // padding follows
        let frame = &mut self.pool.frame_mut(packet)[..end];
        partial.finish(frame, stripped)
    }

    /// Adds a classified IP packet to the burst. A packet that left the overlay is forwarded at once: the overlay
    /// bounds the number of packets that a frame may become, and counts them while that frame is handled.
    #[inline]
    fn gather(&mut self, held: Held) {
        if self.within_overlay {
            let now = held.packet.packet.arrived;
            return self.send_on(held, now);
        }
        self.gathered.push(held);
        if self.gathered.len() >= BURST {
            self.forward_gathered();
        }
    }

    /// Forwards the packets of the burst so far: looks up the routes of all of them, then forwards one after the other.
    /// The caller returns the memory of dropped packets to the pool.
    #[inline]
    pub(super) fn forward_gathered(&mut self) {
        if self.overlay.is_some() && !self.gathered.is_empty() {
            self.offer_burst();
        }
        match self.gathered.len() {
            0 => {}
            1 => {
                if let Some(held) = self.gathered.pop() {
                    let now = held.packet.packet.arrived;
                    self.send_on(held, now);
                }
            }
            _ => self.forward_burst(),
        }
    }

    fn offer_burst(&mut self) {
        let mut burst = std::mem::take(&mut self.gathered);
        self.lend(|overlay, plane| overlay.take_burst(plane, &mut burst));
        self.gathered = burst;
    }

    fn forward_burst(&mut self) {
        let mut burst = std::mem::take(&mut self.gathered);
        let destinations = burst.iter().map(|held| held.packet.headers.destination());
        let routes = self.tables.route_numbers(destinations);
        for (held, route) in burst.drain(..).zip(routes) {
            let now = held.packet.packet.arrived;
            self.send_by(route, held, now);
        }
        self.gathered = burst;
    }

    /// Forwards a classified IP packet, at once or after it has waited.
    pub fn send_on(&mut self, held: Held, now: Instant) {
        let route = self.tables.route_number(held.packet.headers.destination());
        self.send_by(route, held, now);
    }

    /// Forwards a classified IP packet by the route with this number.
    fn send_by(&mut self, route: u32, held: Held, now: Instant) {
        let headers = &held.packet.headers;
        let (keys, packet) = (&self.pool.keys, &held.packet.packet);
        let verdict = forward(
            &self.tables,
            &self.exceptions.policy().addresses,
            &mut self.next_hops,
            route,
            headers,
            || keys.hash(packet, KeyKind::Flow),
            held.origin,
        );
        match &verdict {
            Ok(departure) => self.depart(held.packet.packet, headers, departure),
            Err(Stop::Wait(neighbour)) if self.is_local(neighbour.0) => {
                let cause = Some(IcmpCause::NetUnreachable);
                self.drop(held, Reason::NoRoute, cause, now);
            }
            Err(Stop::Wait(neighbour)) => self.wait(held, *neighbour, now),
            Err(Stop::Drop(reason, cause)) => {
                self.drop(held, *reason, *cause, now);
            }
        }
    }

    /// Lets a packet wait for its next hop. If the next hop did not answer the last request, a new request is sent,
    /// because the next hop may be reachable again.
    pub(super) fn wait(&mut self, held: Held, neighbour: NeighbourKey, now: Instant) {
        let known = self.tables.neighbours.get(&neighbour);
        let failed = known == Some(&Neighbour::Failed);
        let mut refused = Vec::new();
        self.waiting
            .push(now, neighbour, failed, held, &mut refused);
        for held in refused {
            let packet = held.packet.packet;
            self.discard(packet, Reason::NeighbourQueueFull);
        }
    }

    /// Sends a frame to a neighbour on a link, at once or after it has waited, or lets it
    /// wait for the neighbour's MAC address.
    #[cold]
    pub fn send_to_neighbour(&mut self, held: Held, neighbour: NeighbourKey, now: Instant) {
        let known = self.tables.neighbours.get(&neighbour);
        let Some(destination) = known.and_then(|known| known.mac()) else {
            return self.wait(held, neighbour, now);
        };
        let Classified { packet, headers } = held.packet;
        let reason = match self.tables.interfaces.get(&neighbour.0) {
            None => Reason::NotAPort,
            Some(interface) if !interface.up => Reason::DeviceDown,
            Some(interface) if packet.len > ethernet::HEADER_LEN as u32 + interface.mtu => {
                Reason::TooBig
            }
            Some(interface) => {
                let rewrites = Rewrites {
                    macs: Some([destination, interface.mac]),
                    ..Rewrites::default()
                };
                let exit = Exit::Interface(neighbour.0);
                return self.depart(packet, &headers, &Departure { rewrites, exit });
            }
        };
        self.discard(packet, reason);
    }

    /// Drops packets whose next hop does not answer. Senders get no ICMP error about packets of the overlay.
    pub(super) fn give_up(&mut self, failed: Vec<Held>, now: Instant) {
        for held in failed {
            let place = Place::coming(held.ingress);
            let cause = Some(IcmpCause::HostUnreachable);
            if held.by_rule {
                let packet = held.packet.packet;
                self.discard(packet, Reason::NeighbourFailed);
            } else {
                self.drop(held, Reason::NeighbourFailed, cause, now)
            }
            self.reclaim(place);
        }
    }

    /// Rewrites a packet and offers it to its egress port.
    pub fn depart(&mut self, mut packet: Packet, headers: &Headers, departure: &Departure) {
        let Some(port) = self.port_at(departure.exit) else {
            return self.discard(packet, Reason::NotAPort);
        };
        let port = &mut self.ports[port].port;
        match egress::carry_out(&departure.rewrites, &mut self.pool, &mut packet, headers) {
            Ok(None) => port.offer(packet),
            Ok(Some(fragments)) => {
                self.pool.release(packet);
                self.fragments += fragments.len().saturating_sub(1) as u64;
                fragments.into_iter().for_each(|f| port.offer(f));
            }
            Err(reason) => self.discard(packet, reason),
        }
    }

    /// Drops an IP packet, and sends the ICMP error that `notify` names. If the policy redirects the packet, the
    /// control element gets it instead, and answers it. Packets of the overlay's tunnels are also addressed to this
    /// router; the overlay takes them instead.
    pub fn drop(&mut self, held: Held, reason: Reason, notify: Option<IcmpCause>, now: Instant) {
        let may_be_of_tunnel = reason == Reason::LocalDelivery && held.origin == Origin::Transit;
        if !may_be_of_tunnel || self.overlay_ethertype.is_none() {
            return self.drop_ip(held, reason, notify, now);
        }
        let Some(mut overlay) = self.overlay.take() else {
            self.delivered = Some(held); // the overlay is sending it
            return;
        };
        let refused = overlay.deliver(self, held, now);
        self.overlay = Some(overlay);
        if let Some(held) = refused {
            self.drop_ip(held, reason, notify, now);
        }
    }

    /// Like [`Self::drop`], for a packet that the overlay does not take.
    pub fn drop_ip(&mut self, held: Held, reason: Reason, notify: Option<IcmpCause>, now: Instant) {
        let comes_out = reason == Reason::LocalDelivery && self.within_overlay;
        let Held {
            packet: Classified { packet, headers },
            ingress,
            origin,
            by_rule: _,
        } = held;
        let is_to_us = matches!(reason, Reason::LocalDelivery | Reason::Multicast);
        let is_on_link = origin == Origin::Transit && !self.within_overlay;
        if let Some(ingress) = ingress.filter(|_| is_to_us && is_on_link)
            && self.answer_neighbour(ingress, &packet, now)
        {
            return self.discard(packet, Reason::LocalDelivery);
        }
        let frame = self.pool.frame(&packet);
        let cause = self.exceptions.cause(frame, reason, notify, now);
        let goes = |cause: &Cause| match origin {
            Origin::Transit => true,
            Origin::Router => *cause == Cause::Local,
            // Never redirect a packet to its origin; and processes get errors from this router.
            Origin::ControlElement | Origin::Process => false,
        };
        if let (Some(cause), Some(ingress)) = (cause.filter(goes), ingress) {
            return self.redirect(ingress, packet, cause, now);
        }
        if comes_out {
            return self.deliver_to_process(packet, &headers);
        }
        if let Some((headers, cause)) = notified(origin, headers, notify)
            && let Some(from) = self.error_source(origin, ingress, &headers)
            && let Some(error) = icmp_error::build(
                &mut self.pool,
                &mut self.errors,
                &packet,
                &headers,
                cause,
                from,
                now,
            )
        {
            let error = classify(&mut self.pool, error);
            match origin {
                Origin::Process => self.answer_process(ingress, error),
                _ => {
                    let held = Held::new(error, ingress, Origin::Router);
                    self.send_on(held, now);
                }
            }
        }
        self.discard(packet, reason);
    }

    /// The source address of an ICMP error. For a process of this machine it is the packet's destination, as in Linux'
    /// own tunnels: the kernel treats a packet from one of its own addresses as a martian.
    fn error_source(
        &self,
        origin: Origin,
        ingress: Option<usize>,
        headers: &Headers,
    ) -> Option<IpAddr> {
        if origin == Origin::Process {
            return Some(headers.destination());
        }
        let port = ingress.and_then(|n| self.ports.get(n));
        let interface = port.and_then(|port| port.index);
        own_address::of_error(&self.tables, interface, headers.source())
    }
}

/// The error that a sender gets. Never answer our own ICMP errors with ICMP errors (RFC 1812, section
/// 4.3.2.7).
fn notified(
    origin: Origin,
    headers: Headers,
    cause: Option<IcmpCause>,
) -> Option<(Headers, IcmpCause)> {
    let cause = cause.filter(|_| origin.is_received())?;
    Some((headers, cause))
}
