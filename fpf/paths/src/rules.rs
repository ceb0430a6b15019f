//! The rules of each FE, as plain values, to be converted to configuration or to operations of a control element.
//!
//! ```text
//!   (input interface, LID)  ──▶  forward to the next FE of the domain              Index stays
//!                                forward over the exit, to the next domain         Index + bytes of a LID
//!                                copies for the leaves of a multicast tree         each with its own vector
//!                                deliver: remove the header                        at the edge FE that a LID names
//!                                process: hand the payload to a processor          at the FE that a LID names
//! ```
//!
//! All FEs of a domain have a rule for each of its LIDs, independent of the end-to-end paths that use it; only copies
//! have a rule at a single FE. So a table has (exits * behaviours + deliveries + processors) rows, and copies where
//! trees branch; it does not grow with the number of paths. Its rows change when a tree *inside* the domain changes.
//! When a link between two domains fails, no table changes, only the vectors at the edges.

use std::collections::BTreeMap;

use super::lids::{Lid, Meaning};
use super::route::View;
use super::topology::{DomainId, End, FeId, Payload};

/// The input interface of a rule: the rule applies to packets from this interface; `None` means from any interface.
pub type Input = Option<String>;

/// The rules of an FE by input interface and LID.
pub type Rules = BTreeMap<(Input, Lid), Rule>;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Send the packet to another FE.
    Forward {
        /// The output interface.
        interface: String,
        /// The other end of the link.
        next: End,
        /// The queue of the interface.
        queue: Option<String>,
        /// The number of bytes by which Index advances: the bytes of a LID at an exit of the domain, otherwise zero.
        advance: u8,
    },
    /// Copy the packet; each copy has one of these vectors with Index 0, and is processed like a packet that arrived
    /// with it.
    Copies(Vec<Vec<u8>>),
    /// Remove the header, and forward the inner packet.
    Deliver(Payload),
    /// Pass the payload to the processor with this number; the processor determines the vectors of its output packets.
    Process(u32),
}

/// Copies at the FE where a multicast tree branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) fe: FeId,
    /// The interface at which the tree's packets arrive.
    pub(super) input: String,
    pub(super) vectors: Vec<Vec<u8>>,
}

/// The rules of all FEs of a domain.
pub(super) fn of_domain(
    view: &View<'_>,
    domain: DomainId,
    branches: &BTreeMap<(u64, FeId), Branch>,
) -> Vec<(FeId, Rules)> {
    let topology = &view.network.topology;
    let members = topology.members(domain).iter().copied();
    let working = members.filter(|fe| !view.network.gone[fe.0]);
    let of_fe = |fe| {
        let lids = view.lids[domain.0].iter();
        let rows = lids.filter_map(|(meaning, lid)| match meaning {
            Meaning::Copies(tree, at) => {
                let branch = branches.get(&(tree, at)).filter(|branch| branch.fe == fe)?;
                let input = Some(branch.input.clone());
                Some(((input, lid), Rule::Copies(branch.vectors.clone())))
            }
            _ => Some(((None, lid), rule(view, domain, fe, meaning, lid)?)),
        });
        (fe, rows.collect())
    };
    working.map(of_fe).collect()
}

/// The rule of an FE for a LID; `None` if the FE cannot reach the destination of the LID inside the domain.
fn rule(view: &View<'_>, domain: DomainId, fe: FeId, meaning: Meaning, lid: Lid) -> Option<Rule> {
    let topology = &view.network.topology;
    let forward = |link, behaviour: usize, advance| {
        let [near, next] = topology.ends(link, fe);
        Rule::Forward {
            interface: near.interface.clone(),
            next: next.clone(),
            queue: topology.domain(domain).behaviours[behaviour].queue.clone(),
            advance,
        }
    };
    let inside = &view.inside[domain.0];
    match meaning {
        Meaning::Exit { link, behaviour } => {
            let mut ends = topology.link(link).ends.iter();
            let exit = ends.find(|end| topology.domain_of(end.fe) == domain)?.fe;
            Some(match inside.step(fe, exit)?.link {
                Some(inner) => forward(inner, behaviour, 0),
                None => forward(link, behaviour, lid.bytes),
            })
        }
        Meaning::Deliver {
            fe: edge,
            payload,
            behaviour,
        } => Some(match inside.step(fe, edge)?.link {
            Some(inner) => forward(inner, behaviour, 0),
            None => Rule::Deliver(payload),
        }),
        Meaning::Process(at, number) => Some(match inside.step(fe, at)?.link {
            Some(inner) => forward(inner, 0, 0),
            None => Rule::Process(number),
        }),
        Meaning::Copies(..) => None,
    }
}
