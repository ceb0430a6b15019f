//! Captures of links: their ports, and the recorded packets.

use weir_sim::PortId;

use super::build::World;
use crate::error::Error;
use crate::habitat::Habitat;
use crate::options::Capture;
use crate::results::Captured;

/// Maximum number of names that an error lists.
const NAMES_MAX: usize = 24;

/// Starts recording the packets of the links of `captures`. A direction of a link has the same name as in the metrics
/// (`out`, `out.reverse`).
pub(super) fn begin(world: &mut World, captures: &[Capture]) -> Result<(), Error> {
    for capture in captures {
        let port = find(world, &capture.link)?;
        world.simulation.trace(port, capture.packets);
    }
    Ok(())
}

/// The recorded packets.
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
    let names = &world.ports;
    let found = names.iter().position(|name| *name == link);
    found.map(|place| PortId(place as u32)).ok_or_else(|| {
        let more = if names.len() > NAMES_MAX { ", .." } else { "" };
        let names = names[..names.len().min(NAMES_MAX)].join(", ");
        let why = format!("unknown link `{link}` to capture; the scenario has: {names}{more}");
        Error::unsupported(Habitat::Sim, why)
    })
}
