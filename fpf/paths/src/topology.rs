//! Domains, their forwarding elements (FEs), and the links between FEs, as a checked value.
//!
//! ```text
//!     domain C          domain B                 domain A
//!    ┌────────┐    ┌─────────────────┐          ┌────────┐
//!    │   c1 ──┼────┼── b1 ───── b2 ──┼──────────┼── a1   │      c1-b1 and b2-a1 lead to another domain
//!    └────────┘    └─────────────────┘          └────────┘
//! ```
//!
//! Numbers of domains, FEs and links are permanent: adding a domain, an FE or a link changes no existing numbers. A
//! link works in both directions, with the same cost.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_base::Rate;

use super::error::PathError;

/// Maximum cost of a link.
const COST_MAX: u32 = 1_000_000;
/// Maximum number of domains, and of FEs.
const NODES_MAX: usize = 65_536;
/// Maximum number of links.
const LINKS_MAX: usize = 1 << 20;
/// Maximum number of behaviours of a domain.
const BEHAVIOURS_MAX: usize = 64;

/// Number of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub(super) usize);

/// Number of an FE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeId(pub(super) usize);

/// Number of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) usize);

/// A domain: FEs that share one table of identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Domain name.
    pub name: String,
    /// The behaviours that a path can choose from. A domain without behaviours gets one behaviour without its own
    /// queue.
    pub behaviours: Vec<Behaviour>,
    /// Bytes of its identifiers, 1 or 2; `None` uses equation (1) with the initial links of the domain.
    pub lid_bytes: Option<u8>,
    /// Number of identifiers reserved for special rules (SR of equation (1)); `None` uses the number of links to other
    /// domains, as in the example of section VI.
    pub special: Option<u32>,
}

/// The treatment of packets inside a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Name of the behaviour: domains with the same treatment must use the same name.
    pub name: String,
    /// Name of the queue of the output interface for these packets.
    pub queue: Option<String>,
}

/// The payload of packets whose header an edge FE removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payload {
    /// IPv4 and IPv6, distinguished by the version field.
    Ip,
    /// Packets of this EtherType. The header does not contain it, so the rule must.
    EtherType(u16),
}

/// A forwarding element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fe {
    /// Name of the FE.
    pub name: String,
    /// Domain of the FE.
    pub domain: DomainId,
    /// Payloads for which the FE removes the header; empty for an FE inside its domain.
    pub delivers: Vec<Payload>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The FE.
    pub fe: FeId,
    /// Interface of the FE.
    pub interface: String,
    /// Address of the interface, if the configuration of elements needs it.
    pub address: Option<Address>,
}

/// The address of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// The MAC address of the interface.
    Ethernet([u8; 6]),
    /// The IP address of the port; elements resolve its MAC address.
    Ip(IpAddr),
    /// The IP address of a tunnel's end.
    Tunnel(IpAddr),
}

/// A link between two FEs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Ends of the link.
    pub ends: [End; 2],
    /// Cost of the link, from 1 to 1 000 000.
    pub cost: u32,
    /// The rate that requests may reserve in each direction; `None` means no limit.
    pub rate: Option<Rate>,
}

/// Domains, FEs and links.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    domains: Vec<Domain>,
    fes: Vec<Fe>,
    links: Vec<Link>,
    domain_names: BTreeMap<String, DomainId>,
    fe_names: BTreeMap<String, FeId>,
    members: Vec<Vec<FeId>>,
    /// The links of each FE, by interface.
    interfaces: Vec<BTreeMap<String, LinkId>>,
}

impl Topology {
    /// Adds a domain.
    pub fn add_domain(&mut self, domain: Domain) -> Result<DomainId, PathError> {
        within("the number of domains", self.domains.len() + 1, NODES_MAX)?;
        within(
            "the identifier length in bytes",
            domain.lid_bytes.unwrap_or(1),
            2_u8,
        )?;
        let behaviours = domain.behaviours.len().max(1);
        within("the number of behaviours", behaviours, BEHAVIOURS_MAX)?;
        let mut names: Vec<&str> = domain.behaviours.iter().map(|b| b.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(twice("behaviour", pair[0]));
        }
        if self.domain_names.contains_key(&domain.name) {
            return Err(twice("domain", &domain.name));
        }
        let id = DomainId(self.domains.len());
        self.domain_names.insert(domain.name.clone(), id);
        let mut domain = domain;
        if domain.behaviours.is_empty() {
            domain.behaviours.push(Behaviour {
                name: "best effort".to_owned(),
                queue: None,
            });
        }
        self.domains.push(domain);
        self.members.push(Vec::new());
        Ok(id)
    }

    /// Adds an FE to a domain.
    pub fn add_fe(&mut self, fe: Fe) -> Result<FeId, PathError> {
        within(
            "the number of forwarding elements",
            self.fes.len() + 1,
            NODES_MAX,
        )?;
        if fe.domain.0 >= self.domains.len() {
            return Err(unknown("domain", &fe.domain.0.to_string()));
        }
        if self.fe_names.contains_key(&fe.name) {
            return Err(twice("forwarding element", &fe.name));
        }
        let id = FeId(self.fes.len());
        self.fe_names.insert(fe.name.clone(), id);
        self.members[fe.domain.0].push(id);
        self.interfaces.push(BTreeMap::new());
        self.fes.push(fe);
        Ok(id)
    }

    /// Adds a link between two FEs, in the same domain or in different domains.
    pub fn add_link(&mut self, link: Link) -> Result<LinkId, PathError> {
        within("the number of links", self.links.len() + 1, LINKS_MAX)?;
        within("the cost of a link", link.cost, COST_MAX)?;
        for end in &link.ends {
            let known = self.fes.get(end.fe.0);
            let fe = known.ok_or_else(|| unknown("forwarding element", &end.fe.0.to_string()))?;
            if self.interfaces[end.fe.0].contains_key(&end.interface) {
                let name = format!("{}:{}", fe.name, end.interface);
                return Err(twice("link at", &name));
            }
        }
        let [a, b] = &link.ends;
        if a.fe == b.fe {
            return Err(PathError::Loop(self.fes[a.fe.0].name.clone()));
        }
        let id = LinkId(self.links.len());
        for end in &link.ends {
            self.interfaces[end.fe.0].insert(end.interface.clone(), id);
        }
        self.links.push(link);
        Ok(id)
    }

    /// A domain.
    pub fn domain(&self, id: DomainId) -> &Domain {
        &self.domains[id.0]
    }

    /// An FE.
    pub fn fe(&self, id: FeId) -> &Fe {
        &self.fes[id.0]
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0]
    }

    /// The domain with this name.
    pub fn domain_named(&self, name: &str) -> Result<DomainId, PathError> {
        let found = self.domain_names.get(name).copied();
        found.ok_or_else(|| unknown("domain", name))
    }

    /// The FE with this name.
    pub fn fe_named(&self, name: &str) -> Result<FeId, PathError> {
        let found = self.fe_names.get(name).copied();
        found.ok_or_else(|| unknown("forwarding element", name))
    }

    /// The link at an interface of an FE.
    pub fn link_at(&self, fe: FeId, interface: &str) -> Result<LinkId, PathError> {
        let found = self.interfaces[fe.0].get(interface).copied();
        found.ok_or_else(|| unknown("link at", &format!("{}:{interface}", self.fes[fe.0].name)))
    }

    /// All domains.
    pub fn domains(&self) -> impl Iterator<Item = DomainId> + use<> {
        (0..self.domains.len()).map(DomainId)
    }

    /// All FEs.
    pub fn fes(&self) -> impl Iterator<Item = FeId> + use<> {
        (0..self.fes.len()).map(FeId)
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        (0..self.links.len()).map(LinkId)
    }

    /// The FEs of a domain.
    pub fn members(&self, domain: DomainId) -> &[FeId] {
        &self.members[domain.0]
    }

    /// The links of an FE, in the order of its interfaces' names.
    pub fn links_of(&self, fe: FeId) -> impl Iterator<Item = LinkId> {
        self.interfaces[fe.0].values().copied()
    }

    /// The domain of an FE.
    pub fn domain_of(&self, fe: FeId) -> DomainId {
        self.fes[fe.0].domain
    }

    /// The near and the far end of a link, as seen from one of its FEs.
    pub fn ends(&self, link: LinkId, near: FeId) -> [&End; 2] {
        let [a, b] = &self.links[link.0].ends;
        if a.fe == near { [a, b] } else { [b, a] }
    }

    /// The FE at the other end of a link.
    pub fn peer(&self, link: LinkId, near: FeId) -> FeId {
        self.ends(link, near)[1].fe
    }

    /// Whether a link connects two domains.
    pub fn is_between_domains(&self, link: LinkId) -> bool {
        let [a, b] = &self.links[link.0].ends;
        self.domain_of(a.fe) != self.domain_of(b.fe)
    }

    /// The links of a domain to other domains, each with the FE of this domain, in the order of link numbers.
    pub fn exits(&self, domain: DomainId) -> Vec<(FeId, LinkId)> {
        let members = self.members[domain.0].iter();
        let of_fe = |fe: &FeId| {
            let fe = *fe;
            self.links_of(fe)
                .filter(|link| self.is_between_domains(*link))
                .map(move |link| (fe, link))
        };
        let mut exits: Vec<(FeId, LinkId)> = members.flat_map(of_fe).collect();
        exits.sort_by_key(|(_, link)| *link);
        exits
    }
}

fn within<T: TryInto<u64>, U: TryInto<u64>>(
    what: &'static str,
    given: T,
    most: U,
) -> Result<(), PathError> {
    let given = given.try_into().unwrap_or(u64::MAX);
    let most = most.try_into().unwrap_or(u64::MAX);
    if (1..=most).contains(&given) {
        Ok(())
    } else {
        Err(PathError::Range {
            what,
            given,
            least: 1,
            most,
        })
    }
}

fn twice(what: &'static str, name: &str) -> PathError {
    let name = name.to_owned();
    PathError::Twice { what, name }
}

fn unknown(what: &'static str, name: &str) -> PathError {
    let name = name.to_owned();
    PathError::Unknown { what, name }
}
