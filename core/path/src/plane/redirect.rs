//! Packets between the plane and the control element: exceptions out, injected packets in.

use std::collections::VecDeque;
use std::net::IpAddr;

use weir_base::{Instant, Rate};
use weir_packet::{Packet, Reason};
use weir_wire::{EtherType, ethernet, ipv4, ipv6};

use crate::bridge;
use crate::classify::{Classified, classify};
use crate::egress::{Departure, Exit, Rewrites};
use crate::exception::{Cause, Entry, Exception, Injection, Policy, Stats, group_mac};
use crate::headers::Parsed;
use crate::ip::forward::Origin;
use crate::ip::neighbour_answer;
use crate::ip::parse::parse;
use crate::ip::waiting::Held;
use crate::link;
use crate::plane::watch::Place;
use crate::plane::{Mode, Plane, PlanePort};

impl Plane {
    /// Sets which packets go to the control element, and at which rate.
    pub fn set_exception_policy(&mut self, policy: Policy, now: Instant) {
        self.exceptions.set_policy(policy, now);
        self.next_hops.clear(); // an address may have become the control element's
    }

    /// Which packets go to the control element.
    pub fn exception_policy(&self) -> &Policy {
        self.exceptions.policy()
    }

    /// Whether exceptions wait that were not announced yet. After this has returned true, it returns false until the
    /// exceptions are taken.
    #[inline]
    pub fn announce_exceptions(&mut self) -> bool {
        self.exceptions.announce()
    }

    /// Takes the waiting exceptions, the most important class first.
    pub fn take_exceptions(&mut self) -> VecDeque<Exception> {
        self.exceptions.take()
    }

    /// The counters of exceptions and of injected packets.
    pub fn exception_stats(&self) -> Stats {
        self.exceptions.stats()
    }

    /// Rate of the exceptions offered to the token buckets, message overhead included.
    pub fn exception_rate(&self, now: Instant) -> Rate {
        self.exceptions.rate(now)
    }

    /// Whether a control element takes exceptions.
    pub fn is_attended(&self, now: Instant) -> bool {
        self.exceptions.is_attended(now)
    }

    /// Hands a packet to the control element, and discards it here.
    #[cold]
    pub fn redirect(&mut self, ingress: usize, packet: Packet, cause: Cause, now: Instant) {
        let frame = self.pool.frame(&packet);
        let port = (ingress, &*self.ports[ingress].name);
        let reason = self.exceptions.push(cause, port, frame, now);
        self.discard(packet, reason);
    }

    /// Answers a request for the MAC address of the control element's address on the link of this port, so that neighbours
    /// reach the router while no control element runs. Returns whether the frame was such a request.
    #[cold]
    pub(super) fn answer_neighbour(
        &mut self,
        ingress: usize,
        packet: &Packet,
        now: Instant,
    ) -> bool {
        let policy = self.exceptions.policy();
        if !policy.neighbours {
            return false;
        }
        let index = self.ports[ingress].index;
        let interface = index.and_then(|index| self.tables.interfaces.get(&index));
        let answer = interface.and_then(|interface| {
            let is_ours = |address| {
                policy.addresses.contains(&address) && self.tables.is_on_link(address, index)
            };
            neighbour_answer::answer(self.pool.frame(packet), interface.mac, is_ours)
        });
        let Some(answer) = answer else {
            return false;
        };
        if self.exceptions.admits_neighbour(ingress, packet.len, now) {
            let _ = self.send_frame(ingress, &answer, now); // counted where it fails
        }
        true
    }

    /// Sends a packet of the control element, which counts as created. Returns the reason if it was refused. A packet
    /// that reaches the routes, or its port, counts as injected, even if it is dropped there.
    pub fn inject(&mut self, injection: &Injection, now: Instant) -> Result<(), Reason> {
        let len = injection.bytes.len() as u64;
        let sent = match &injection.entry {
            Entry::Frame { port } => match self.open_port(port) {
                Some(port) => self.send_frame(port, &injection.bytes, now),
                None => self.refuse_injection(&injection.bytes, Reason::NotAPort),
            },
            Entry::Routes => self.inject_by_routes(&injection.bytes, now),
            Entry::NextHop { port, next_hop } => {
                self.inject_to(port, *next_hop, &injection.bytes, now)
            }
        };
        match sent {
            Ok(()) => self.exceptions.stats.injected.count(len),
            Err(_) => self.exceptions.stats.refused.count(len),
        }
        self.reclaim(Place::coming(None));
        sent
    }

    fn send_frame(&mut self, port: usize, frame: &[u8], now: Instant) -> Result<(), Reason> {
        if frame.len() < ethernet::HEADER_LEN {
            return self.refuse_injection(frame, Reason::TruncatedHeader);
        }
        let packet = self.create(frame.len(), now)?;
        self.pool.frame_mut(&packet).copy_from_slice(frame);
        let Classified { packet, headers } = self.classified(packet);
        if headers.total_len > self.mtu(port) {
            self.discard(packet, Reason::TooBig);
            return Err(Reason::TooBig);
        }
        let departure = Departure {
            rewrites: Rewrites::default(),
            exit: Exit::Port(port),
        };
        self.depart(packet, &headers, &departure);
        Ok(())
    }

    fn inject_by_routes(&mut self, bytes: &[u8], now: Instant) -> Result<(), Reason> {
        let mut packet = self.frame_of(bytes, [0; 6], [0; 6], now)?;
        let link = link::validate(self.pool.frame(&packet));
        let parsed = match link.map(|link| parse(&mut self.pool, &mut packet, &link)) {
            Ok(Ok(headers)) => Parsed { packet, headers },
            Ok(Err(reason)) => {
                self.discard(packet, reason);
                return Err(reason);
            }
            Err(_) => unreachable!("our own frame has no tag"),
        };
        let packet = classify(&mut self.pool, parsed);
        let held = Held::new(packet, None, Origin::ControlElement);
        self.send_on(held, now);
        Ok(())
    }

    fn inject_to(
        &mut self,
        port: &str,
        next_hop: IpAddr,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), Reason> {
        let Some(port) = self.open_port(port) else {
            return self.refuse_injection(bytes, Reason::NotAPort);
        };
        let index = self.ports[port].index;
        let interface = index.and_then(|index| self.tables.interfaces.get(&index));
        let source = interface.map_or([0; 6], |interface| interface.mac);
        let neighbour = || {
            let neighbour = self.tables.neighbours.get(&(index?, next_hop))?;
            neighbour.mac()
        };
        let Some(destination) = group_mac(next_hop).or_else(neighbour) else {
            return self.refuse_injection(bytes, Reason::NeighbourFailed);
        };
        let packet = self.frame_of(bytes, destination, source, now)?;
        let Classified { packet, headers } = self.classified(packet);
        let mtu = self.mtu(port);
        let too_big = headers.total_len > mtu;
        let refused = match headers.is_ip() {
            false => Some(Reason::IpHeaderLength),
            true if total_len(bytes) != Some(bytes.len()) => Some(Reason::IpTotalLength),
            true => (too_big && headers.dont_fragment).then_some(Reason::TooBig),
        };
        if let Some(reason) = refused {
            self.discard(packet, reason);
            return Err(reason);
        }
        let rewrites = Rewrites {
            fragment: too_big.then_some(mtu),
            ..Rewrites::default()
        };
        let exit = Exit::Port(port);
        self.depart(packet, &headers, &Departure { rewrites, exit });
        Ok(())
    }

    /// The number of a routed port that takes packets.
    fn open_port(&self, name: &str) -> Option<usize> {
        let takes = |p: &PlanePort| p.name == name && !p.closing && p.mode == Mode::Routed;
        self.ports.iter().position(takes)
    }

    fn refuse_injection(&mut self, bytes: &[u8], reason: Reason) -> Result<(), Reason> {
        self.fates.count_frame(bytes.len() as u64, reason);
        Err(reason)
    }

    /// An empty packet, or the reason why it cannot be created.
    fn create(&mut self, len: usize, now: Instant) -> Result<Packet, Reason> {
        let reason = if len > self.pool.frame_bytes_max() {
            Reason::TruncatedFrame
        } else {
            Reason::PoolExhausted
        };
        self.pool.create(len, now).ok_or_else(|| {
            self.fates.count_frame(len as u64, reason);
            reason
        })
    }

    /// A frame with this IP packet in it.
    fn frame_of(
        &mut self,
        ip: &[u8],
        destination: ethernet::Mac,
        source: ethernet::Mac,
        now: Instant,
    ) -> Result<Packet, Reason> {
        let ethertype = match ip.first().map(|byte| byte >> 4) {
            Some(4) => EtherType::IPV4,
            Some(6) => EtherType::IPV6,
            _ => {
                self.fates.count_frame(ip.len() as u64, Reason::IpVersion);
                return Err(Reason::IpVersion);
            }
        };
        let packet = self.create(ethernet::HEADER_LEN + ip.len(), now)?;
        let (link, rest) = self
            .pool
            .frame_mut(&packet)
            .split_at_mut(ethernet::HEADER_LEN);
        let repr = ethernet::Repr {
            destination,
            source,
            ethertype,
        };
        repr.emit(&mut ethernet::View::new_unchecked(link));
        rest.copy_from_slice(ip);
        Ok(packet)
    }

    fn classified(&mut self, packet: Packet) -> Classified {
        let parsed: Parsed = bridge::parse(&self.pool, packet);
        classify(&mut self.pool, parsed)
    }

    /// The longest IP packet that a port carries, in bytes.
    fn mtu(&self, port: usize) -> u32 {
        let index = self.ports[port].index;
        let interface = index.and_then(|index| self.tables.interfaces.get(&index));
        interface.map_or(u32::MAX, |interface| interface.mtu)
    }
}

/// The length of an IP packet according to its header.
fn total_len(packet: &[u8]) -> Option<usize> {
    let v4 = || {
        Some(usize::from(
            ipv4::View::new_checked(packet).ok()?.total_len(),
        ))
    };
    let v6 = || Some(ipv6::View::new_checked(packet).ok()?.total_len());
    match packet.first()? >> 4 {
        4 => v4(),
        _ => v6(),
    }
}
