//! Paths of flexible packet forwarding (FPF): a topology and the paths through it, as an operator writes them, and the
//! configuration of each FE that follows.
//!
//! ```toml
//! [domain.b]                       # FEs with one table of LIDs
//!
//! [element.b1]                     # a forwarding element
//! domain = "b"
//!
//! [link.c-b]                       # FE:INTERFACE, as in [fpf.interface.NAME] of the FE
//! from = "c1:wan"
//! to = "b1:west"
//! from_address = "192.0.2.1"
//! to_address = "192.0.2.2"
//!
//! [path.video]                     # these packets, which enter at c1, go to domain a by two disjoint paths
//! from = "c1"
//! to = "a"
//! paths = 2
//! disjoint = "links"
//! destination = "198.51.100.0/24"
//! ```
//!
//! - `section`: the sections and their keys
//! - `topology`: domains, elements and links as the controller's [`Topology`]
//! - `flows`: the requested paths
//! - `export`: the configuration of each FE

pub(crate) mod export;
pub(crate) mod flows;
pub(crate) mod report;
pub(crate) mod section;
mod topology;

use std::collections::BTreeMap;

use weir_base::setting::Settings;
use weir_model::fault::ResultCode;
use weir_model::{Change, ComponentPath, Fault, NetworkReport, PathReport};
use weir_paths::{FeId, LinkId, PathError, Paths, Route, Topology};

pub use export::{Encapsulation, ExportError, Processor, Processors, hex, sections, toml};
pub use flows::target;
use section::NETWORK;

/// A checked file.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPlan {
    /// Domains, elements and links.
    pub topology: Topology,
    /// Numbers of the links, by name.
    pub links: BTreeMap<String, LinkId>,
    /// Names of the links, by number.
    of_links: BTreeMap<LinkId, String>,
    pub(crate) flows: BTreeMap<String, Settings>,
}

/// A requested path, and the routes found for it.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Name of the path.
    pub name: String,
    /// Number in [`Paths`].
    pub id: u64,
    /// The ingress FE.
    pub source: FeId,
    /// Routes found.
    pub routes: Vec<Route>,
    /// Settings of the path's section.
    pub(crate) settings: Settings,
}

/// Settings by the name of their section.
type Named = BTreeMap<String, Settings>;

impl NetworkPlan {
    /// Checks a whole file. Reports all faults of its sections, not only the first.
    pub fn check(changes: &[Change]) -> Result<Self, Vec<Fault>> {
        let (blocks, mut faults) = NETWORK.sorted(changes);
        let mut named: BTreeMap<&str, Named> = BTreeMap::new();
        for ((name, key), given) in blocks {
            let name = name.unwrap_or_default(); // all sections have names
            let path = ComponentPath::new([key, name]);
            let section = NETWORK.sections.iter().find(|section| section.key == key);
            for class in section.into_iter().flat_map(|section| (section.classes)()) {
                match Settings::check(class.parameters, given.iter().copied()) {
                    Ok(settings) => {
                        let of_kind = named.entry(key).or_default();
                        of_kind.insert(name.to_owned(), settings);
                    }
                    Err(error) => faults.push(Fault::of_setting(&path, &class, &error)),
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut of = |key| named.remove(key).unwrap_or_default();
        let (domains, elements, sections) = (of("domain"), of("element"), of("link"));
        let (topology, links) =
            topology::topology(&domains, &elements, &sections).map_err(|fault| vec![fault])?;
        let numbered = links.iter().map(|(name, number)| (*number, name.clone()));
        Ok(Self {
            topology,
            of_links: numbered.collect(),
            links,
            flows: of("path"),
        })
    }

    /// The paths requested by the file; `paths` knows the failed links, and reserves rates. Returns a fault for every
    /// path that does not exist.
    pub fn flows(&self, paths: &mut Paths) -> Result<Vec<Flow>, Vec<Fault>> {
        let (mut flows, mut faults) = (Vec::new(), Vec::new());
        for (name, settings) in &self.flows {
            match flows::flow(name, settings, paths) {
                Ok(flow) => flows.push(flow),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() {
            Ok(flows)
        } else {
            Err(faults)
        }
    }
}

/// Reports a file's network with its paths.
pub fn report(plan: &NetworkPlan, paths: &Paths, flows: &[Flow]) -> NetworkReport {
    let state = |works: bool| if works { "works" } else { "failed" };
    let flow = |flow: &Flow| PathReport {
        path: flow.name.clone(),
        request: None,
        from: flow.settings.text("from").to_owned(),
        to: flows::to(&flow.settings).to_owned(),
        packets: report::packets(&flow.settings),
        state: "active".to_owned(),
        why: None,
        routes: report::routes(paths, &flow.routes),
        ends_s: None,
    };
    NetworkReport {
        domains: report::domains(paths.topology(), |_| state(true)),
        links: report::links(plan, paths, |_, link| (state(paths.works(link)), 0)),
        paths: flows.iter().map(flow).collect(),
    }
}

/// The fault of a component of a named section.
pub(crate) fn wrong(section: &str, name: &str, component: &str, why: impl ToString) -> Fault {
    let path = ComponentPath::new([section, name]);
    let path = if component.is_empty() {
        path
    } else {
        path.join(component)
    };
    Fault::new(path, why.to_string()).code(ResultCode::ValueOutOfRange)
}

/// Converts an error of the controller to the fault of a component.
pub(crate) fn refused<'a>(
    section: &'a str,
    name: &'a str,
    component: &'a str,
) -> impl FnOnce(PathError) -> Fault + 'a {
    move |error| wrong(section, name, component, error)
}

#[cfg(test)]
mod tests;
