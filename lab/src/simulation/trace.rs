//! Captures of links: which ports are meant, and what passed them.

use weir_sim::PortId;

use super::build::World;
use crate::error::Error;
use crate::results::Captured;
use crate::run::{Capture, Habitat};

/// Names that an error lists at most.
const NAMES_MAX: usize = 24;

/// Begins to write down what passes the links of `captures`. A link goes by the name that its
/// queue has in the metrics (`out`, `out.reverse`), or by its two ends (`r>server`).
pub(super) fn begin(world: &mut World, captures: &[Capture]) -> Result<(), Error> {
    for capture in captures {
        let port = find(world, &capture.link)?;
        world.simulation.trace(port, capture.packets);
    }
    Ok(())
}

/// What was written down.
pub(super) fn end(world: &World, captures: &[Capture]) -> Result<Vec<Captured>, Error> {
    let captured = captures.iter().map(|capture| {
        let port = find(world, &capture.link)?;
        let watch = world.simulation.watched(port);
        let rate = world.simulation.fabric().port(port).link().rate;
        let trace = watch.and_then(|watch| watch.trace.as_ref());
        Ok(Captured {
            link: capture.link.clone(),
            pcapng: trace.map_or_else(Vec::new, |trace| trace.pcapng(&capture.link, rate)),
        })
    });
    captured.collect()
}

fn find(world: &World, link: &str) -> Result<PortId, Error> {
    let watched = world.watched.iter().map(|(name, port)| (name, *port));
    let ports = world.ports.iter().enumerate();
    let mut all = watched.chain(ports.map(|(number, name)| (name, PortId(number as u32))));
    let found = all.clone().find(|(name, _)| *name == link);
    found.map(|(_, port)| port).ok_or_else(|| {
        let names: Vec<_> = all
            .by_ref()
            .take(NAMES_MAX)
            .map(|(n, _)| n.as_str())
            .collect();
        let more = if all.next().is_some() { ", .." } else { "" };
        let names = names.join(", ");
        let why = format!("there is no link `{link}` to capture; there are: {names}{more}");
        Error::unsupported(Habitat::Sim, why)
    })
}
