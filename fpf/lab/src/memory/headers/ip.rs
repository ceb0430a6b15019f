//! IPv4 and IPv6: routes to 64 neighbours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::Tally;
use weir_benches::forwarding;
use weir_packet::{DropCounters, Packet, Pool, Reason};
use weir_path::egress::{self, Exit};
use weir_path::headers::Headers;
use weir_path::ip::forward::{Origin, Stop, forward};
use weir_path::ip::next_hop_cache::NextHopCache;
use weir_path::ip::parse::parse;
use weir_path::ip::tables::{BURST, Tables};
use weir_path::link;

use crate::memory::headers::Engine;

pub(super) struct Ip {
    pub(super) tables: Tables,
    delegated: BTreeSet<IpAddr>,
    cache: NextHopCache,
    headers: Vec<Headers>,
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
            headers: Vec::with_capacity(BURST),
            refused: Vec::with_capacity(BURST),
            forwarded: Tally::ZERO,
        }
    }
}

impl Engine for Ip {
    fn carry(
        &mut self,
        pool: &mut Pool,
        fates: &mut DropCounters,
        packets: &mut Vec<Packet>,
    ) -> usize {
        let mut n = 0;
        while n < packets.len() {
            let packet = &mut packets[n];
            let link = link::validate(pool.frame(packet));
            match link.and_then(|link| parse(pool, packet, &link)) {
                Ok(headers) => {
                    self.headers.push(headers);
                    n += 1;
                }
                Err(reason) => drop(fates.discard(packets.remove(n), reason)),
            }
        }
        let destinations = self.headers.iter().map(Headers::destination);
        let routes = self.tables.route_numbers(destinations);
        let (mut ports, mut forwarded) = (0, Tally::ZERO);
        for (n, ((packet, headers), route)) in packets
            .iter_mut()
            .zip(&self.headers)
            .zip(&routes)
            .enumerate()
        {
            let verdict = forward(
                &self.tables,
                &self.delegated,
                &mut self.cache,
                *route,
                headers,
                || 0, // no route has several next hops
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
            fates.discard(packets.swap_remove(n), reason);
        }
        self.headers.clear();
        packets.clear();
        ports
    }
}
