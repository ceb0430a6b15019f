//! FPF as the overlay of a plane: a table at work, and the ingress edge.

use std::sync::Arc;

use weir_base::Instant;
use weir_packet::{Packet, Reason};
use weir_path::headers::Headers;
use weir_path::ip::tables::NeighbourKey;
use weir_path::ip::waiting::Held;
use weir_path::plane::Plane;
use weir_path::plane::overlay::Overlay;
use weir_path::plane::step::Arrival;
use weir_wire::EtherType;

use crate::edge::classes::ActiveClass;
use crate::edge::copies::Copies;
use crate::edge::implicit::{Decision, Implicit};
use crate::edge::setup::Setup;
use crate::forwarder::{Forwarder, Stats};
use crate::ingress::{ActiveEncapsulation, Edge, Entering};
use crate::payload;
use crate::table::Table;

/// The state of FPF in a plane.
#[derive(Default)]
pub struct Fpf {
    forwarder: Option<Forwarder>,
    edge: Option<Box<Edge>>,
}

impl Fpf {
    /// Sets or removes the FPF table; a new table continues the counters of the old one. Returns the old table, so that
    /// another thread can free it.
    pub fn set_table(plane: &mut Plane, table: Option<Arc<Table>>) -> Option<Arc<Table>> {
        plane.change_overlay(|fpf: &mut Self, plane| {
            Forwarder::set(&mut fpf.forwarder, plane, table)
        })
    }

    /// Sets or removes the setup of the edge. Encapsulations that keep their row and filter keep their counters.
    /// Without an FPF table, matching packets are dropped with [`Reason::FpfRule`]. Returns the replaced parts, so that
    /// another thread can free them: they may be large.
    pub fn set_edge(plane: &mut Plane, setup: Option<Arc<Setup>>, now: Instant) -> Box<dyn Send> {
        // A router that is not an edge does no lookup.
        let setup = setup.filter(|setup| setup.concerns_packets());
        plane.change_overlay(|fpf: &mut Self, plane| {
            let Some(setup) = setup else {
                if let Some(mut entering) = fpf.entering(plane) {
                    entering.leave_all(now);
                }
                return Box::new(fpf.edge.take()) as Box<dyn Send>;
            };
            let new = || Box::new(Edge::new(plane, now));
            let edge = fpf.edge.get_or_insert_with(new);
            let gone = edge.change(setup, plane.streams.hash_key("flow-hash"), now);
            edge.bind(plane, None);
            Box::new(gone)
        })
    }

    /// The counters of FPF; zero without a table and an edge.
    pub fn stats(plane: &Plane) -> Stats {
        let fpf = plane.overlay::<Self>();
        let forwarder = fpf.and_then(|fpf| fpf.forwarder.as_ref());
        let stats = forwarder.map(Forwarder::stats).unwrap_or_default();
        match Self::edge(plane) {
            Some(edge) => Stats {
                expired: edge.expired,
                classes: edge
                    .implicit
                    .as_ref()
                    .map(|all| all.stats())
                    .unwrap_or_default(),
                ..stats
            },
            None => stats,
        }
    }

    /// The active encapsulations, lowest row first.
    pub fn encapsulations(plane: &Plane) -> impl Iterator<Item = ActiveEncapsulation> {
        Self::edge(plane).into_iter().flat_map(Edge::encapsulations)
    }

    /// The active classes, in the order of their priority.
    pub fn classes(plane: &Plane) -> impl Iterator<Item = ActiveClass> {
        let implicit = Self::edge(plane).and_then(|edge| edge.implicit.as_ref());
        implicit.into_iter().flat_map(|all| all.classes())
    }

    /// Takes the copies for the classifier, which follows `followed` flows now, and continues with `empty`. Without
    /// classes it returns `empty`.
    pub fn take_copies(plane: &mut Plane, mut empty: Copies, followed: usize) -> Copies {
        empty.clear();
        plane.change_overlay(|fpf: &mut Self, _| match fpf.implicit_mut() {
            Some(implicit) => {
                implicit.set_followed(followed);
                implicit.take_copies(empty)
            }
            None => empty,
        })
    }

    /// Applies decisions that the classifier made for the classes of `setup`. If another setup is active, the decisions
    /// are ignored: the next packets of their flows are copied.
    pub fn decide(plane: &mut Plane, setup: &Arc<Setup>, decisions: &[Decision], now: Instant) {
        plane.change_overlay(|fpf: &mut Self, _| {
            let edge = fpf.edge.as_mut();
            let edge = edge.filter(|edge| Arc::ptr_eq(&edge.setup, setup));
            if let Some(implicit) = edge.and_then(|edge| edge.implicit.as_mut()) {
                for decision in decisions {
                    implicit.decide(decision, now);
                }
            }
        });
    }

    fn edge(plane: &Plane) -> Option<&Edge> {
        plane.overlay::<Self>()?.edge.as_deref()
    }

    fn entering<'a>(&'a mut self, plane: &'a mut Plane) -> Option<Entering<'a>> {
        Some(Entering {
            edge: self.edge.as_mut()?,
            fpf: &mut self.forwarder,
            plane,
        })
    }

    fn implicit_mut(&mut self) -> Option<&mut Implicit> {
        self.edge.as_mut()?.implicit.as_deref_mut()
    }
}

impl Overlay for Fpf {
    fn is_needed(&self) -> bool {
        self.forwarder.is_some() || self.edge.is_some()
    }

    fn ethertype(&self) -> Option<EtherType> {
        Some(self.forwarder.as_ref()?.table.domain().ethertype())
    }

    fn is_of_tunnel(&self, headers: &Headers) -> bool {
        let fpf = self.forwarder.as_ref();
        fpf.is_some_and(|fpf| fpf.tunnel(headers, None).is_some())
    }

    #[inline]
    fn receive(
        &mut self,
        plane: &mut Plane,
        ingress: usize,
        vlan: u16,
        packet: Packet,
        arrival: &Arrival,
    ) -> Option<Packet> {
        let fpf = self.forwarder.as_mut();
        match fpf.and_then(|fpf| Some((fpf.bindings.input(ingress, vlan)?, fpf))) {
            Some((input, fpf)) => {
                fpf.on(plane).receive(ingress, input, packet, arrival);
                None
            }
            None => Some(packet),
        }
    }

    fn take_burst(&mut self, plane: &mut Plane, burst: &mut Vec<Held>) {
        if let Some(mut entering) = self.entering(plane) {
            entering.take_burst(burst);
        }
    }

    fn deliver(&mut self, plane: &mut Plane, held: Held, now: Instant) -> Option<Held> {
        match &mut self.forwarder {
            Some(fpf) => fpf.on(plane).deliver(held, now),
            None => Some(held),
        }
    }

    fn step(&mut self, plane: &mut Plane, now: Instant) -> Option<Instant> {
        let released = self.entering(plane).and_then(|mut e| e.release(now));
        let expiry = self.edge.as_mut().and_then(|edge| edge.expire(now));
        let fpf = self.forwarder.as_mut();
        let incomplete = fpf.and_then(|fpf| fpf.expire(plane, now));
        [released, expiry, incomplete].into_iter().flatten().min()
    }

    fn bind(&mut self, plane: &Plane, removed: Option<usize>) {
        if let Some(fpf) = &mut self.forwarder {
            fpf.bind(plane);
        }
        if let Some(edge) = &mut self.edge {
            edge.bind(plane, removed);
        }
    }

    fn neighbours(&self, plane: &Plane) -> Vec<NeighbourKey> {
        let fpf = self.forwarder.as_ref();
        fpf.map_or(Vec::new(), |fpf| fpf.neighbours(plane))
    }

    fn peek(&self, frame: &[u8], l3: usize) -> Headers {
        payload::peek_behind(frame, l3)
    }

    fn created(&self) -> u64 {
        let fpf = self.forwarder.as_ref();
        fpf.map_or(0, |fpf| fpf.stats.created.packets)
    }

    fn announce(&mut self) -> bool {
        self.implicit_mut().is_some_and(Implicit::announce)
    }

    fn shut_down(&mut self, plane: &mut Plane) {
        for held in self.edge.iter_mut().flat_map(|edge| edge.drain()) {
            plane.fates.discard(held.packet.packet, Reason::Shutdown);
        }
        if let Some(fpf) = &mut self.forwarder {
            fpf.give_up(plane, Instant::FAR_FUTURE);
        }
    }
}
