//! A scenario after checking: every name resolves, every value lies in its range.

use std::collections::HashSet;
use std::str::FromStr;

use weir_base::setting::{Scalar, nearest};
use weir_base::{Rate, Span};
use weir_discipline::Spec;

use super::ScenarioError;
use super::mix::Mix;
use super::offered::Offered;
use super::parameters::*;
use super::raw::{Node, Value};
use super::reader::Section;

/// A network, its traffic, and how long to watch it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// One line.
    pub title: String,
    /// What it shows.
    pub about: String,
    /// Length of a run.
    pub duration: Span,
    /// What is left out of the means, from the start.
    pub warm_up: Span,
    /// Seed of the first run.
    pub seed: u64,
    /// Runs of each point, unless the caller says otherwise.
    pub runs: u64,
    /// Routers, by name.
    pub routers: Vec<String>,
    /// Hosts, one or many of a name.
    pub hosts: Vec<HostGroup>,
    /// Links.
    pub links: Vec<Link>,
    /// Traffic.
    pub traffic: Vec<Traffic>,
}

/// Hosts of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct HostGroup {
    /// The name; with more than one host a number follows it.
    pub name: String,
    /// How many.
    pub count: u32,
}

/// A link, or as many links as the host group at one of its ends has hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Names of a router or host group.
    pub ends: [String; 2],
    /// Rate in both directions; as fast as it goes if absent.
    pub rate: Option<Rate>,
    /// One-way delay.
    pub delay: Span,
    /// The queue at the first end.
    pub discipline: Option<Discipline>,
    /// The queue at the second end.
    pub reverse_discipline: Option<Discipline>,
}

/// A queue discipline, checked and as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Discipline {
    /// Its kind.
    pub kind: String,
    /// Its settings as written.
    pub settings: Vec<(String, Scalar)>,
    /// Its settings as checked.
    pub spec: Spec,
}

/// One kind of traffic between two groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Its name.
    pub name: String,
    /// Who sends the data.
    pub from: String,
    /// Who receives them.
    pub to: String,
    /// When it starts.
    pub start: Span,
    /// When it stops, if before the end.
    pub stop: Option<Span>,
    /// Over IPv6 instead of IPv4.
    pub ipv6: bool,
    /// What it is.
    pub kind: TrafficKind,
}

/// What kind of traffic, and how much.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Long TCP connections.
    Tcp {
        /// Connections of each sending host.
        flows: u32,
        /// Congestion control.
        congestion: Congestion,
        /// What each connection's application offers; greedy without.
        offered: Option<Offered>,
    },
    /// UDP, paced packet by packet.
    Udp {
        /// Flows (source ports) of each sending host.
        flows: u32,
        /// What each flow offers, in payload.
        offered: Offered,
        /// Bytes of payload in each packet.
        payload: u32,
        /// Source addresses over which the flows of each sending host are spread.
        addresses: u32,
    },
    /// Web fetches: `from` is the server, `to` runs the clients.
    Web {
        /// Clients, each with one connection at a time.
        clients: u32,
        /// Sizes of the files.
        mix: Mix,
        /// Congestion control of the server.
        congestion: Congestion,
    },
}

/// What kind of traffic, without the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Long TCP connections.
    Tcp,
    /// UDP.
    Udp,
    /// Web fetches.
    Web,
}

impl Kind {
    /// The word of a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Web => "web",
        }
    }
}

impl TrafficKind {
    /// Without the details.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Tcp { .. } => Kind::Tcp,
            Self::Udp { .. } => Kind::Udp,
            Self::Web { .. } => Kind::Web,
        }
    }
}

/// A congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// CUBIC, RFC 9438.
    #[default]
    Cubic,
    /// NewReno, RFC 6582.
    Reno,
    /// BBR.
    Bbr,
}

impl Congestion {
    /// The words of a scenario, which are the kernel's.
    pub const WORDS: &'static [&'static str] = &["cubic", "reno", "bbr"];

    /// The word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl FromStr for Congestion {
    type Err = String;
    fn from_str(word: &str) -> Result<Self, String> {
        [Self::Cubic, Self::Reno, Self::Bbr]
            .into_iter()
            .find(|c| c.word() == word)
            .ok_or_else(|| format!("must be one of {}", Self::WORDS.join(", ")))
    }
}

impl Scenario {
    /// Checks what was written. `variant` and `sweep` must have been taken out.
    pub fn check(tree: &Node) -> Result<Self, ScenarioError> {
        let top = Section::new("", tree)?;
        let scenario = Self {
            title: top.required_text("title")?,
            about: top.text("about")?.unwrap_or_default(),
            duration: top.span(&DURATION)?,
            warm_up: top.span(&WARM_UP)?,
            seed: top.count(&SEED)?,
            runs: top.count(&RUNS)?,
            routers: check_routers(&top)?,
            hosts: check_hosts(&top)?,
            links: Vec::new(),
            traffic: Vec::new(),
        };
        if scenario.warm_up >= scenario.duration {
            return Err(top.error("warm_up", "must be shorter than `duration`"));
        }
        scenario.check_names(&top)?;
        let links = top.sections("link")?.into_iter();
        let links = links.map(|(name, section)| scenario.check_link(name, section));
        let links = links.collect::<Result<_, _>>()?;
        let traffic = top.sections("traffic")?.into_iter();
        let traffic = traffic.map(|(name, section)| scenario.check_traffic(name, section));
        let traffic: Vec<_> = traffic.collect::<Result<_, _>>()?;
        top.finish()?;
        Ok(Self {
            links,
            traffic,
            ..scenario
        })
    }

    /// The window that counts, in seconds from the start.
    pub fn window(&self) -> (f64, f64) {
        (self.warm_up.as_secs_f64(), self.duration.as_secs_f64())
    }

    /// The host group of this name.
    pub fn group(&self, name: &str) -> Option<&HostGroup> {
        self.hosts.iter().find(|h| h.name == name)
    }

    fn check_names(&self, top: &Section<'_>) -> Result<(), ScenarioError> {
        let mut seen = HashSet::new();
        let hosts = self.hosts.iter().flat_map(HostGroup::members);
        for name in self.routers.iter().cloned().chain(hosts) {
            if !seen.insert(name.clone()) {
                let why = format!("`{name}` would be the name of two nodes");
                return Err(ScenarioError::new(top.origin(), why));
            }
        }
        Ok(())
    }

    fn check_link(&self, name: String, section: Section<'_>) -> Result<Link, ScenarioError> {
        let ends = self.check_ends(&section)?;
        let link = Link {
            name,
            ends,
            rate: section.optional_rate(&LINK_RATE)?,
            delay: section.span(&DELAY)?,
            discipline: check_discipline(&section, "discipline")?,
            reverse_discipline: check_discipline(&section, "reverse_discipline")?,
        };
        section.finish()?;
        Ok(link)
    }

    fn check_ends(&self, section: &Section<'_>) -> Result<[String; 2], ScenarioError> {
        let wrong = || section.error("ends", "must be two names: [\"NODE\", \"NODE\"]");
        let node = section.find("ends").ok_or_else(wrong)?;
        let name = |item: &Node| match &item.value {
            Value::Scalar(Scalar::Text(text)) => Ok(text.clone()),
            _ => Err(wrong()),
        };
        let names: Vec<String> = node.items().iter().map(name).collect::<Result<_, _>>()?;
        let ends: [String; 2] = names.try_into().map_err(|_| wrong())?;
        for end in &ends {
            self.known(section, "ends", end)?;
        }
        let count = |end: &str| self.group(end).map_or(1, |g| g.count);
        if ends[0] == ends[1] || (count(&ends[0]) > 1 && count(&ends[1]) > 1) {
            return Err(section.error("ends", "must join one router or host with another"));
        }
        Ok(ends)
    }

    fn known(&self, section: &Section<'_>, key: &str, name: &str) -> Result<(), ScenarioError> {
        let groups = self.hosts.iter().map(|h| h.name.as_str());
        let names: Vec<&str> = self
            .routers
            .iter()
            .map(String::as_str)
            .chain(groups)
            .collect();
        if names.contains(&name) {
            return Ok(());
        }
        let near = nearest(name, names.into_iter());
        let near = near.map(|n| format!("; did you mean \"{n}\"?"));
        let why = format!(
            "names \"{name}\", and there is no such router or host{}",
            near.unwrap_or_default()
        );
        Err(section.error(key, why))
    }

    fn check_traffic(&self, name: String, section: Section<'_>) -> Result<Traffic, ScenarioError> {
        let host = |key: &'static str| {
            let host = section.required_text(key)?;
            self.known(&section, key, &host)?;
            match self.group(&host) {
                Some(_) => Ok(host),
                None => Err(section.error(key, "must be a host, not a router")),
            }
        };
        let (from, to) = (host("from")?, host("to")?);
        if from == to {
            return Err(section.error("to", "must be another host than `from`"));
        }
        let to_group = self.group(&to).map_or(1, |g| g.count);
        let from_group = self.group(&from).map_or(1, |g| g.count);
        if to_group > 1 && to_group != from_group {
            let why =
                "must be one host, or as many hosts as `from` (then each has its own partner)";
            return Err(section.error("to", why));
        }
        let start = section.span(&START)?;
        let stop = section.optional_span(&STOP)?;
        if start >= self.duration || stop.is_some_and(|stop| stop <= start) {
            return Err(section.error("start", "must come before `stop` and before the end"));
        }
        let traffic = Traffic {
            name,
            from,
            to,
            start,
            stop: stop.filter(|stop| *stop < self.duration),
            ipv6: section.word(&IP)? == "v6",
            kind: check_kind(&section, from_group)?,
        };
        section.finish()?;
        Ok(traffic)
    }
}

impl HostGroup {
    /// The names of its hosts.
    pub fn members(&self) -> Vec<String> {
        match self.count {
            1 => vec![self.name.clone()],
            n => (1..=n).map(|i| format!("{}{i}", self.name)).collect(),
        }
    }
}

impl Traffic {
    /// When it stops, in a run of this length.
    pub fn end(&self, duration: Span) -> Span {
        self.stop.unwrap_or(duration)
    }
}

fn check_routers(top: &Section<'_>) -> Result<Vec<String>, ScenarioError> {
    let routers = top.sections("router")?.into_iter();
    routers
        .map(|(name, section)| section.finish().map(|()| name))
        .collect()
}

fn check_hosts(top: &Section<'_>) -> Result<Vec<HostGroup>, ScenarioError> {
    let hosts = top.sections("host")?.into_iter();
    let host = |(name, section): (String, Section<'_>)| {
        let count = section.count(&COUNT)? as u32;
        section.finish()?;
        Ok(HostGroup { name, count })
    };
    hosts.map(host).collect()
}

fn check_discipline(
    section: &Section<'_>,
    key: &'static str,
) -> Result<Option<Discipline>, ScenarioError> {
    let Some(node) = section.find(key) else {
        return Ok(None);
    };
    let path = format!("{}.{key}", section.path);
    let inner = Section::new(&path, node)?;
    let kind = inner.required_text("kind")?;
    let mut settings = Vec::new();
    for (name, node) in node.entries().iter().filter(|(name, _)| name != "kind") {
        match &node.value {
            Value::Scalar(scalar) => settings.push((name.clone(), scalar.clone())),
            _ => return Err(inner.error(name, "must be a single value")),
        }
    }
    let spec = Spec::check(&kind, settings.iter().map(|(n, s)| (n.as_str(), s)));
    let spec = spec.map_err(|error| {
        let about = match &error {
            weir_discipline::spec::SpecError::Setting(e) => e.name().to_owned(),
            _ => "kind".to_owned(),
        };
        ScenarioError::new(inner.origin_of(&about), format!("`{path}`: {error}"))
    })?;
    Ok(Some(Discipline {
        kind,
        settings,
        spec,
    }))
}

fn check_kind(section: &Section<'_>, hosts: u32) -> Result<TrafficKind, ScenarioError> {
    if section.find("kind").is_none() {
        return Err(section.error("kind", "must be given: tcp, udp or web"));
    }
    let congestion = || {
        let word = section.word(&CONGESTION)?;
        word.parse()
            .map_err(|e: String| section.error("congestion", e))
    };
    let flows = || section.count(&FLOWS).map(|n| n as u32);
    Ok(match section.word(&KIND)? {
        "tcp" => TrafficKind::Tcp {
            flows: flows()?,
            congestion: congestion()?,
            offered: check_offered(section, flows()?.saturating_mul(hosts))?,
        },
        "udp" => TrafficKind::Udp {
            flows: flows()?,
            offered: check_offered(section, flows()?.saturating_mul(hosts))?
                .ok_or_else(|| section.error("rate", "or `total_rate` must be given"))?,
            payload: section.bytes(&PAYLOAD)?.0 as u32,
            addresses: section.count(&ADDRESSES)? as u32,
        },
        _ => TrafficKind::Web {
            clients: section.count(&CLIENTS)? as u32,
            mix: match section.text("mix")? {
                Some(text) => text.parse().map_err(|e: String| section.error("mix", e))?,
                None => Mix::webstone(),
            },
            congestion: congestion()?,
        },
    })
}

/// `rate` is each flow's, `total_rate` is that of all `flows` together.
fn check_offered(section: &Section<'_>, flows: u32) -> Result<Option<Offered>, ScenarioError> {
    let read = |key: &'static str| {
        let text = section.text(key)?;
        text.map(|t| {
            t.parse::<Offered>()
                .map_err(|e| section.error(key, format!("is {e}")))
        })
        .transpose()
    };
    match (read("rate")?, read("total_rate")?) {
        (Some(_), Some(_)) => Err(section.error("total_rate", "and `rate` exclude each other")),
        (Some(each), None) => Ok(Some(each)),
        (None, Some(total)) => Ok(Some(total.shared_by(flows))),
        (None, None) => Ok(None),
    }
}
