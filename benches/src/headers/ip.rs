//! IPv4 and IPv6: routes to 64 neighbours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::Tally;
use weir_packet::{Fates, Packet, Pool, Reason};
use weir_path::egress::{self, Exit};
use weir_path::headers::Parsed;
use weir_path::ip::forward::{Origin, Stop, forward};
use weir_path::ip::next_hop_cache::NextHopCache;
use weir_path::ip::parse::parse;
use weir_path::ip::tables::{BURST, Tables};
use weir_path::link;

use crate::forwarding;
use crate::headers::Engine;

/// The state.
pub(super) struct Ip {
    pub(super) tables: Tables,
    delegated: BTreeSet<IpAddr>,
    cache: NextHopCache,
    burst: Vec<Parsed>,
    refused: Vec<(usize, Reason)>,
    forwarded: Tally,
}

impl Ip {
    pub(super) fn new(prefixes: &[IpNet]) -> Self {
        let mut tables = forwarding::interfaces();
        for (n, prefix) in prefixes.iter().enumerate() {
            tables.set_route(*prefix, forwarding::via(2 + (n % 64) as u8));
        }
        Self {
            tables,
            delegated: BTreeSet::new(),
            cache: NextHopCache::default(),
            burst: Vec::with_capacity(BURST),
            refused: Vec::with_capacity(BURST),
            forwarded: Tally::ZERO,
        }
    }
}

impl Engine for Ip {
    fn carry(&mut self, pool: &mut Pool, fates: &mut Fates, packets: &mut Vec<Packet>) -> usize {
        for packet in packets.drain(..) {
            match link::validate(pool.frame(&packet)) {
                Ok(link) => match parse(pool, packet, &link) {
                    Ok(parsed) => self.burst.push(parsed),
                    Err(refused) => drop(fates.discard(refused.packet, refused.reason)),
                },
                Err(reason) => drop(fates.discard(packet, reason)),
            }
        }
        let destinations = self.burst.iter().map(|parsed| parsed.headers.destination);
        let routes = self.tables.route_numbers(destinations);
        let (mut ports, mut forwarded) = (0, Tally::ZERO);
        for (n, route) in routes[..self.burst.len()].iter().enumerate() {
            let Parsed { packet, headers } = &mut self.burst[n];
            let verdict = forward(
                &self.tables,
                &self.delegated,
                &mut self.cache,
                *route,
                headers,
                0, // no route has several next hops
                Origin::Transit,
            );
            let sent = match &verdict {
                Ok(departure) => egress::carry_out(&departure.rewrites, pool, packet, headers)
                    .map(|_| departure.exit),
                Err(Stop::Drop(reason, _)) => Err(*reason),
                Err(Stop::Wait(_)) => Err(Reason::NeighbourFailed),
            };
            match sent {
                Ok(Exit::Interface(interface)) => {
                    forwarded.count(packet.bytes());
                    ports += interface as usize - 1; // the number of the port
                }
                Ok(Exit::Port(port)) => ports += port,
                Err(reason) => self.refused.push((n, reason)),
            }
        }
        self.forwarded += forwarded;
        while let Some((n, reason)) = self.refused.pop() {
            fates.discard(self.burst.swap_remove(n).packet, reason);
        }
        self.burst.clear();
        ports
    }
}
