//! IPv4 and IPv6: routes to 64 neighbours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::Tally;
use weir_packet::{Fates, Packet, Pool, Reason};
use weir_path::egress::{self, Exit};
use weir_path::ip::forward::{Origin, forward};
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
            forwarded: Tally::ZERO,
        }
    }
}

impl Engine for Ip {
    fn carry(&mut self, pool: &mut Pool, fates: &mut Fates, packets: &mut Vec<Packet>) -> usize {
        let mut burst = Vec::with_capacity(BURST);
        for packet in packets.drain(..) {
            match link::validate(pool.frame(&packet)) {
                Ok(link) => match parse(pool, packet, &link) {
                    Ok(parsed) => burst.push(parsed),
                    Err(refused) => drop(fates.discard(refused.packet, refused.reason)),
                },
                Err(reason) => drop(fates.discard(packet, reason)),
            }
        }
        let destinations = burst.iter().map(|parsed| parsed.headers.destination);
        let routes = self.tables.route_numbers(destinations);
        let mut ports = 0;
        for (mut parsed, route) in burst.into_iter().zip(routes) {
            let (packet, headers) = (&mut parsed.packet, &parsed.headers);
            let verdict = forward(
                &self.tables,
                &self.delegated,
                &mut self.cache,
                route,
                headers,
                0, // no route has several next hops
                Origin::Transit,
            );
            let sent = match verdict {
                Ok(departure) => egress::carry_out(&departure.rewrites, pool, packet, headers)
                    .map(|_| departure.exit),
                Err(_) => Err(Reason::NoRoute),
            };
            match sent {
                Ok(Exit::Interface(interface)) => {
                    self.forwarded.count(packet.bytes());
                    ports += interface as usize - 1;
                }
                Ok(Exit::Port(port)) => ports += port,
                Err(reason) => drop(fates.discard(parsed.packet, reason)),
            }
        }
        ports
    }
}
