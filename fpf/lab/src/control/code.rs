//! Coding: a processor at the ingress edge, another at the last router, and the vectors between them.
//!
//! ```text
//!   edge rule ──▶ LID of the encoder ──▶ encoder ──▶ by path 0, 1, parity ──▶ LID of the decoder ──▶ decoder ──▶ out
//! ```
//!
//! Caching: a processor at the last router that data pass, which is the first one that interests pass.
//!
//! ```text
//!   interests: edge rule ──▶ LID of the cache ──▶ cache ──▶ by IP, to the server
//!                                                   └─────▶ out, to the client
//!   data:      edge rule ──▶ the path ──▶ LID of the cache ──▶ cache ──▶ out
//! ```

use std::collections::BTreeSet;

use weir_experiment::Error;
use weir_experiment::scenario::Scenario;
use weir_fpf_path::edge::paths::Paths as Vectors;
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::Function;
use weir_fpf_path::process::cache::Limits;
use weir_network::Processor;
use weir_paths::{Filter, Lid, Payload, Target};

use super::survey::refused;
use super::{Controller, Flow, Write, vector};
use crate::scenario::Forwarding;

/// Maximum number of chunks of a cache; its real limit is the memory in the scenario.
const CHUNKS_MAX: usize = 1_000_000;

/// The numbers of the processors of an encapsulation: the encoder, or the cache, and the decoder.
pub(crate) fn processors(encapsulation: usize) -> [u32; 2] {
    let first = 2 * encapsulation as u32;
    [first, first + 1]
}

/// The routers at which packets are decoded.
pub(crate) fn decoding_routers(scenario: &Scenario) -> BTreeSet<&str> {
    let all = Forwarding::of(scenario).encapsulations.iter();
    let coded = all.filter(|encapsulation| encapsulation.is_coded);
    let routers = coded.filter_map(|one| scenario.router_of(&scenario.traffic[one.traffic].to));
    routers.collect()
}

impl Controller {
    /// The processors of an encapsulation, and the vector of its packets.
    pub(super) fn code(
        &mut self,
        scenario: &Scenario,
        number: usize,
        named: &[(usize, u32)],
    ) -> Result<(Vectors, [Write; 2]), Error> {
        let encapsulation = &Forwarding::of(scenario).encapsulations[number];
        let traffic = &scenario.traffic[encapsulation.traffic];
        let edge = self.fe_at(scenario, &traffic.from)?;
        let last = self.fe_at(scenario, &traffic.to)?;
        let [encoder, decoder] = processors(number);
        let place = format!("encapsulation.{}", encapsulation.name);
        // All tables are written after the processors, so the changes returned here can be ignored.
        let (to_encoder, _) = self.paths.process(edge, encoder).map_err(refused(&place))?;
        let (to_decoder, _) = self.paths.process(last, decoder).map_err(refused(&place))?;
        let domain = self.paths.topology().domain_of(last);
        let mut leaves = Vec::new();
        for (path, _) in named {
            let path = &Forwarding::of(scenario).paths[*path];
            let steps = self.steps(path)?;
            let place = format!("{place}, path {}", path.name);
            let route = self.paths.along(edge, Target::Domain(domain), None, &steps);
            let mut lids = route.map_err(refused(&place))?.vector;
            to_decoder.append_to(&mut lids);
            leaves.push(vector(&lids)?);
        }
        if let [first, _] = leaves[..] {
            leaves.push(first); // the path of the parity
        }
        let out = self.paths.delivery(last, Payload::Ip);
        let out = out.map(single).transpose()?;
        let both = [
            (encoder, Function::XorEncode, leaves.into()),
            (decoder, Function::XorDecode, out.into_iter().collect()),
        ];
        for (number, function, leaves) in both {
            let processor = Processor { function, leaves };
            self.processors.insert(number, processor);
        }
        let vectors = Vectors::single(single(to_encoder)?);
        let writes = [(edge, encoder), (last, decoder)];
        let writes = writes.map(|(fe, number)| Write::Processor { fe, number });
        Ok((vectors, writes))
    }
}

impl Controller {
    /// Routes the data of an encapsulation through a cache at the end of its path. Returns the flow of the interests,
    /// which begin at the cache, and the cache.
    pub(super) fn cache(
        &mut self,
        scenario: &Scenario,
        data: &mut Flow,
        number: usize,
        path: usize,
        bytes: u64,
    ) -> Result<(Flow, Write), Error> {
        let encapsulation = &Forwarding::of(scenario).encapsulations[number];
        let place = format!("encapsulation.{}", encapsulation.name);
        let fe = self.fe_at(scenario, &scenario.traffic[encapsulation.traffic].to)?;
        let [cache, _] = processors(number);
        let (to_cache, _) = self.paths.process(fe, cache).map_err(refused(&place))?;
        let domain = Target::Domain(self.paths.topology().domain_of(fe));
        let steps = self.steps(&Forwarding::of(scenario).paths[path])?;
        let route = self.paths.along(data.edge, domain, None, &steps);
        let mut lids = route.map_err(refused(&place))?.vector;
        to_cache.append_to(&mut lids);
        data.vectors = Some(Vectors::single(vector(&lids)?));
        let out = self.paths.delivery(fe, Payload::Ip);
        let out = out.map(single).transpose()?;
        let processor = Processor {
            function: Function::Cache(Limits {
                bytes,
                chunks: CHUNKS_MAX,
            }),
            leaves: out.into_iter().collect(),
        };
        self.processors.insert(cache, processor);
        let filter = &data.filter;
        let interests = Flow {
            edge: fe,
            filter: Filter {
                source_ports: filter.destination_ports,
                destination_ports: filter.source_ports,
                ..filter.clone()
            },
            vectors: Some(Vectors::single(single(to_cache)?)),
            ..data.clone()
        };
        Ok((interests, Write::Processor { fe, number: cache }))
    }
}

/// A vector with one identifier.
fn single(lid: Lid) -> Result<Vector, Error> {
    let mut lids = Vec::new();
    lid.append_to(&mut lids);
    vector(&lids)
}
