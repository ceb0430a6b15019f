//! Checks a scenario: every name must resolve, every value must be within its range.

use std::collections::HashSet;
use std::sync::Arc;

use weir_base::setting::{Scalar, did_you_mean, nearest};

use super::checked::{HostGroup, Scenario};
use super::controller::Controller;
use super::discipline::Discipline;
use super::key::{Key, SAME};
use super::layer::{Layer, SECTIONS};
use super::link::{Direction, Link, Medium};
use super::parameters::*;
use super::reader::Section;
use super::router::{Mode, Router};
use super::source::Files;
use super::traffic::Traffic;
use crate::added::Added;
use weir_config::{ConfigError, Node, Value};

/// Reads the sections of a network layer; the rest of the scenario has been checked. `None` if the scenario does not use
/// the layer.
pub type Check = fn(&Section<'_>, &Scenario) -> Result<Option<Arc<dyn Layer>>, ConfigError>;

/// The readers of other crates.
pub(crate) static CHECKS: Added<Check> = Added::new();

/// The sections that [`Scenario::check`] reads itself.
const SECTION_NAMES: &[&str] = &["router", "host", "link", "traffic", "controller"];

impl Scenario {
    /// Checks a file's tree, from which `variant` and `sweep` must have been removed; `files` reads the files that it
    /// names.
    pub fn check(tree: &Node, files: &Files) -> Result<Self, ConfigError> {
        let top = Section::new("", tree)?;
        let scenario = Self {
            title: top.required_text(&TITLE)?,
            about: top.text(&ABOUT)?.unwrap_or_default(),
            duration: top.span(&DURATION)?,
            warm_up: top.span(&WARM_UP)?,
            seed: top.count(&SEED)?,
            runs: top.count(&RUNS)?,
            sample: top.span(&SAMPLE)?,
            watch: top.names(&WATCH)?,
            uses_forces: top.word(&CONTROL)? == "forces",
            routers: check_routers(&top)?,
            hosts: check_hosts(&top)?,
            links: Vec::new(),
            traffic: Vec::new(),
            controllers: Vec::new(),
            layer: None,
        };
        if scenario.sample > scenario.duration {
            return Err(top.error("sample", "must not be longer than `duration`"));
        }
        if scenario.warm_up >= scenario.duration {
            return Err(top.error("warm_up", "must be shorter than `duration`"));
        }
        scenario.check_names(&top)?;
        let links = top.sections("link")?.into_iter();
        let links = links.map(|(name, section)| scenario.check_link(name, section, files));
        let links: Vec<Link> = links.collect::<Result<_, _>>()?;
        scenario.check_watch(&top, &links)?;
        scenario.check_masquerades(&top, &links)?;
        let traffic = top.sections("traffic")?.into_iter();
        let traffic = traffic.map(|(name, section)| scenario.check_traffic(name, section));
        let traffic: Vec<_> = traffic.collect::<Result<_, _>>()?;
        let wires =
            |link: &Link| -> usize { link.ends.iter().map(|end| scenario.count(end)).product() };
        let controllers = Controller::check_all(top.sections("controller")?, &links, &wires)?;
        let mut scenario = Self {
            links,
            traffic,
            controllers,
            ..scenario
        };
        let mut names = SECTION_NAMES.to_vec();
        names.extend(SECTIONS.all().iter().map(|(title, ..)| table_of(title)));
        for check in CHECKS.all() {
            if let Some(layer) = check(&top, &scenario)? {
                scenario.layer = Some(layer);
            }
        }
        let origin = top.origin();
        top.finish_with(&[TOP], &names)?;
        if scenario.hosts.is_empty() && scenario.routers.is_empty() {
            let why =
                "no nodes: add [host.NAME] and [router.NAME] sections, and links between them";
            return Err(ConfigError::new(origin, why.to_owned()));
        }
        Ok(scenario)
    }

    fn check_watch(&self, top: &Section<'_>, links: &[Link]) -> Result<(), ConfigError> {
        let names = || links.iter().map(|l| l.name.as_str());
        for wanted in self.watch.iter().flatten() {
            if !names().any(|name| name == wanted) {
                let near = did_you_mean(nearest(wanted, names()));
                let why = format!("names the unknown link \"{wanted}\"{near}");
                return Err(top.error("watch", why));
            }
        }
        Ok(())
    }

    fn check_masquerades(&self, top: &Section<'_>, links: &[Link]) -> Result<(), ConfigError> {
        let routers = self.routers.iter().zip(top.sections("router")?);
        for (router, (_, section)) in routers.filter(|(router, _)| !router.masquerade.is_empty()) {
            let own = links.iter().filter(|link| link.ends.contains(&router.name));
            let own: Vec<&str> = own.map(|link| link.name.as_str()).collect();
            for wanted in &router.masquerade {
                if !own.contains(&wanted.as_str()) {
                    let near = did_you_mean(nearest(wanted, own.into_iter()));
                    let why =
                        format!("names \"{wanted}\", which is not a link of this router{near}");
                    return Err(section.error(MASQUERADE.name, why));
                }
            }
        }
        Ok(())
    }

    fn check_names(&self, top: &Section<'_>) -> Result<(), ConfigError> {
        let mut seen = HashSet::new();
        let hosts = self.hosts.iter().flat_map(HostGroup::members);
        let routers = self.routers.iter().map(|router| router.name.clone());
        for name in routers.chain(hosts) {
            if !seen.insert(name.clone()) {
                let why = format!("duplicate node name `{name}`");
                return Err(ConfigError::new(top.origin(), why));
            }
        }
        Ok(())
    }

    fn check_link(
        &self,
        name: String,
        section: Section<'_>,
        files: &Files,
    ) -> Result<Link, ConfigError> {
        let ends = self.check_ends(&section)?;
        let discipline = Discipline::check(&section, &DISCIPLINE)?;
        let is_same = section
            .find(&REVERSE_DISCIPLINE)
            .is_some_and(|node| node.value == Value::Scalar(Scalar::Text(SAME.to_owned())));
        let link = Link {
            name,
            ends,
            directions: Direction::check_both(&section, files)?,
            framing: section.framing(&FRAMING)?,
            medium: match section.word(&MEDIUM)? {
                "vlan" => Medium::Vlan,
                "gre" => Medium::Gre,
                _ => Medium::Ethernet,
            },
            reverse_discipline: if is_same {
                discipline.clone()
            } else {
                Discipline::check(&section, &REVERSE_DISCIPLINE)?
            },
            discipline,
        };
        section.finish(&[LINK])?;
        Ok(link)
    }

    fn check_ends(&self, section: &Section<'_>) -> Result<[String; 2], ConfigError> {
        let wrong = || section.error("ends", "must be two names: [\"NODE\", \"NODE\"]");
        let names = section.names(&ENDS)?.ok_or_else(wrong)?;
        let ends: [String; 2] = names.try_into().map_err(|_| wrong())?;
        for end in &ends {
            self.known(section, "ends", end)?;
        }
        if ends[0] == ends[1] || ends.iter().all(|end| self.count(end) > 1) {
            return Err(section.error(
                "ends",
                "must name two different nodes, of which at most one is a group of hosts",
            ));
        }
        Ok(ends)
    }

    fn known(&self, section: &Section<'_>, key: &str, name: &str) -> Result<(), ConfigError> {
        let groups = self.hosts.iter().map(|h| h.name.as_str());
        let names: Vec<&str> = self
            .routers
            .iter()
            .map(|router| router.name.as_str())
            .chain(groups)
            .collect();
        if names.contains(&name) {
            return Ok(());
        }
        let near = did_you_mean(nearest(name, names.into_iter()));
        let why = format!("names the unknown router or host \"{name}\"{near}");
        Err(section.error(key, why))
    }

    fn check_traffic(&self, name: String, section: Section<'_>) -> Result<Traffic, ConfigError> {
        let host = |key: &'static Key| {
            let host = section.required_text(key)?;
            self.known(&section, key.name, &host)?;
            match self.group(&host) {
                Some(_) => Ok(host),
                None => Err(section.error(key.name, "must be a host, not a router")),
            }
        };
        let (from, to) = (host(&FROM)?, host(&TO)?);
        if from == to {
            return Err(section.error("to", "must differ from `from`"));
        }
        let [senders, receivers] = [&from, &to].map(|name| self.count(name));
        if senders > 1 && receivers > 1 && receivers != senders {
            let why = "must be one host, or have as many hosts as `from` (each host then has its own peer), or `from` \
                       must be one host (which then sends to each)";
            return Err(section.error("to", why));
        }
        let pairs = senders.max(receivers) as u32;
        Traffic::check(name, section, (from, to), pairs, self.duration)
    }
}

fn check_routers(top: &Section<'_>) -> Result<Vec<Router>, ConfigError> {
    let routers = top.sections("router")?.into_iter();
    let router = |(name, section): (String, Section<'_>)| {
        let mode = match section.word(&MODE)? {
            "queue" => Mode::Queue,
            _ => Mode::Routed,
        };
        let masquerade = section.names(&MASQUERADE)?.unwrap_or_default();
        if mode == Mode::Routed && !masquerade.is_empty() {
            let why = "needs `mode = \"queue\"`: weir itself does not translate addresses";
            return Err(section.error(MASQUERADE.name, why));
        }
        section.finish(&[ROUTER])?;
        Ok(Router {
            name,
            mode,
            masquerade,
        })
    };
    routers.map(router).collect()
}

fn check_hosts(top: &Section<'_>) -> Result<Vec<HostGroup>, ConfigError> {
    let hosts = top.sections("host")?.into_iter();
    let host = |(name, section): (String, Section<'_>)| {
        let count = section.count(&COUNT)? as u32;
        section.finish(&[HOST])?;
        Ok(HostGroup { name, count })
    };
    hosts.map(host).collect()
}
