//! A network with its paths: turns failures and requests into sections wanted at elements.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::setting::{Scalar, Settings};
use weir_base::{Instant, Span};
use weir_fpf_lfb::Part;
use weir_fpf_path::edge::filter::Filter;
use weir_model::{ComponentPath, ElementPath, Fault};
use weir_paths::{Carry, Change, FeId, LinkId, PathError, Paths};

use super::rollout::Rollout;
use weir_network::NetworkPlan;
use weir_network::export::{Section, encapsulation, rule_path};
use weir_network::flows::{blamed, request};
use weir_network::section::{LIFETIME_OF, PATH_CLASS};
use weir_network::{refused, wrong};

/// Maximum number of requests.
pub const REQUESTS_MAX: usize = 1024;
/// Prefix of request names.
const REQUEST: &str = "request-";
/// A key that only requests have, not paths of a file.
const LIFETIME_KEY: &str = LIFETIME_OF[0].name;

/// A flow with a path.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Name of the flow's encapsulation.
    pub(super) name: String,
    /// Settings of the flow's section.
    pub(super) settings: Settings,
    /// The packets of the flow, and their priority.
    packets: (Filter, u64),
    /// The ingress element.
    pub(super) source: FeId,
    /// The request of the flow; `None` if the flow is in the file.
    pub(super) asked: Option<Asked>,
}

/// The request of a flow.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    /// Number of the request.
    pub(super) number: u64,
    /// The keys as given by the operator.
    pub(super) keys: Keys,
    /// Expiry time.
    pub(super) ends: Option<Instant>,
}

impl Asked {
    /// Number, keys and expiry time.
    pub(super) fn copy(&self) -> (u64, Keys, Option<Instant>) {
        (self.number, self.keys.clone(), self.ends)
    }
}

/// The keys of a request, including the lifetime, with their values as strings.
pub type Keys = BTreeMap<String, String>;

/// A running network.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) plan: NetworkPlan,
    pub(super) paths: Paths,
    /// Flows, by their numbers in [`Paths`].
    pub(super) flows: BTreeMap<u64, Flow>,
}

impl Network {
    /// Creates a network with the paths of its file, and checks every element's configuration. No link or element has
    /// failed.
    pub(super) fn new(plan: NetworkPlan) -> Result<Self, Vec<Fault>> {
        let root = |error: PathError| vec![Fault::new(ComponentPath::default(), error)];
        let mut paths = Paths::new(plan.topology.clone()).map_err(root)?;
        let flows = plan.flows(&mut paths)?;
        let (mut of_file, mut wrong) = (BTreeMap::new(), Vec::new());
        for flow in &flows {
            let at = ComponentPath::new(["path", &flow.name]);
            match packets(&at, &flow.settings) {
                Ok(packets) => drop(of_file.insert(
                    flow.id,
                    Flow {
                        name: flow.name.clone(),
                        settings: flow.settings.clone(),
                        packets,
                        source: flow.source,
                        asked: None,
                    },
                )),
                Err(fault) => wrong.push(fault),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong); // with its line in the file
        }
        for fe in plan.topology.fes() {
            plan.configuration(&paths, fe, &flows)?;
        }
        Ok(Self {
            flows: of_file,
            plan,
            paths,
        })
    }

    /// Reports sections of the network that an FE's configuration also sets: one of the two would have no effect.
    pub(super) fn check_desired(&self, fes: &BTreeMap<&str, &[weir_model::Change]>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for fe in self.plan.topology.fes() {
            let name = self.name(fe);
            let desired = fes.get(name).copied().unwrap_or_default();
            let mut given = BTreeSet::new();
            for (path, section) in self.sections(fe) {
                // The network sets one component of the domain's section. Other components may come from the
                // configuration.
                match path.segments().len() {
                    1 => given.extend(section.into_iter().map(|change| change.path)),
                    _ => drop(given.insert(path)),
                }
            }
            let is_given = |path: &ComponentPath| given.contains(path);
            let twice = desired.iter().map(|change| &change.path);
            let twice = twice.filter(|path| is_given(path) || is_given(&path.parent()));
            faults.extend(twice.map(|path| {
                let why = format!(
                    "the configuration of the control element has `fe.{name}.{path}`, which this network also sets; \
                     remove it there, or rename it"
                );
                wrong("element", name, "", why)
            }));
        }
        faults
    }

    /// The current sections of an element.
    fn sections(&self, fe: FeId) -> Vec<Section> {
        let mut sections = self.plan.inner(&self.paths, fe).unwrap_or_default(); // the file was checked
        for (id, flow) in self.flows.iter().filter(|(_, flow)| flow.source == fe) {
            if self.paths.rule_of(*id).is_some() {
                let routes = self.paths.routes_of(*id).unwrap_or_default().iter();
                let vectors = routes.map(|route| &route.vector[..]);
                sections.push(encapsulation(&flow.name, &flow.settings, vectors));
            }
        }
        sections
    }

    /// Name of an element.
    pub(super) fn name(&self, fe: FeId) -> &str {
        &self.plan.topology.fe(fe).name
    }

    /// Passes changes to the rollout. A failed element keeps its sections until it recovers.
    fn apply(&self, changes: Vec<Change>, rollout: &mut Rollout) {
        for change in changes {
            let (fe, path, section) = match change {
                Change::Rule {
                    fe,
                    input,
                    lid,
                    rule,
                } => {
                    let (path, _) = rule_path(&input, lid);
                    let section = match rule
                        .map(|rule| self.plan.rule(&self.paths, fe, (&input, lid), &rule))
                    {
                        Some(Ok((_, section))) => Some(section),
                        Some(Err(_)) => continue, // ruled out by the check of the file
                        None => None,
                    };
                    (fe, path, section)
                }
                Change::Encapsulate { fe, request, rule } => {
                    let Some(flow) = self.flows.get(&request) else {
                        continue;
                    };
                    let section = rule.map(|rule| {
                        let (Carry::Share { vectors, .. } | Carry::Copies(vectors)) = rule.carry;
                        let vectors = vectors.iter().map(|vector| &vector[..]);
                        encapsulation(&flow.name, &flow.settings, vectors).1
                    });
                    (fe, Part::Encapsulation.path(&flow.name), section)
                }
            };
            rollout.want(self.name(fe), path, section);
        }
    }

    /// Handles a link that entered or left service.
    pub(super) fn handle_link(&mut self, link: LinkId, works: bool, rollout: &mut Rollout) {
        let changes = self.paths.handle_link(link, works);
        self.apply(changes, rollout);
        self.go_back(works, rollout);
    }

    /// Handles an element that entered or left service.
    pub(super) fn handle_fe(&mut self, fe: FeId, works: bool, rollout: &mut Rollout) {
        let changes = self.paths.handle_fe(fe, works);
        self.apply(changes, rollout);
        self.go_back(works, rollout);
        match works {
            true => self.want_all(fe, rollout),
            // When the element recovers, its packets use IP until the CE knows which paths work.
            false => {
                for flow in self.flows.values().filter(|flow| flow.source == fe) {
                    let path = Part::Encapsulation.path(&flow.name);
                    rollout.want(self.name(fe), path, None);
                }
            }
        }
    }

    /// Returns paths to the best routes after a recovery.
    fn go_back(&mut self, works: bool, rollout: &mut Rollout) {
        if works {
            let changes = self.paths.reselect_all();
            self.apply(changes, rollout);
        }
    }

    /// Wants all current sections of an element.
    pub(super) fn want_all(&self, fe: FeId, rollout: &mut Rollout) {
        let name = self.name(fe);
        let sections = self.sections(fe);
        let places: BTreeSet<&ComponentPath> = sections.iter().map(|(path, _)| path).collect();
        let before: Vec<ComponentPath> = rollout.wanted(name).cloned().collect();
        for path in before.into_iter().filter(|path| !places.contains(path)) {
            rollout.want(name, path, None);
        }
        for (path, section) in sections {
            rollout.want(name, path, Some(section));
        }
    }

    /// Location of a flow's encapsulation.
    pub(super) fn place(&self, flow: &Flow) -> ElementPath {
        ElementPath {
            fe: self.name(flow.source).to_owned(),
            path: Part::Encapsulation.path(&flow.name),
        }
    }

    /// The flow of a request, with its number in [`Paths`].
    pub(super) fn asked(&self, number: u64) -> Option<(u64, &Flow)> {
        let is_it = |flow: &Flow| {
            flow.asked
                .as_ref()
                .is_some_and(|asked| asked.number == number)
        };
        let found = self.flows.iter().find(|(_, flow)| is_it(flow));
        found.map(|(id, flow)| (*id, flow))
    }

    /// All requests.
    pub(super) fn requests(&self) -> impl Iterator<Item = (&Flow, &Asked)> {
        let flows = self.flows.values();
        flows.filter_map(|flow| Some((flow, flow.asked.as_ref()?)))
    }

    /// The number of an existing request that equals this one, apart from its lifetime.
    pub(super) fn same(&self, keys: &Keys) -> Option<u64> {
        fn rest(keys: &Keys) -> impl Iterator<Item = (&String, &String)> {
            keys.iter().filter(|(key, _)| *key != LIFETIME_KEY)
        }
        let is_same = |(_, asked): &(&Flow, &Asked)| rest(&asked.keys).eq(rest(keys));
        self.requests().find(is_same).map(|(_, asked)| asked.number)
    }

    /// Restarts the lifetime of a request; `keys` may contain a new lifetime.
    pub(super) fn renew(&mut self, now: Instant, number: u64, keys: Keys) -> Result<(), Fault> {
        let ends = ends(now, &keys)?;
        for flow in self.flows.values_mut() {
            if let Some(asked) = flow.asked.as_mut().filter(|asked| asked.number == number) {
                (asked.ends, asked.keys) = (ends, keys.clone());
            }
        }
        Ok(())
    }

    /// Finds a path for a request, and wants the encapsulation of the path.
    pub(super) fn request(
        &mut self,
        now: Instant,
        (number, keys): (u64, Keys),
        rollout: &mut Rollout,
    ) -> Result<(), Vec<Fault>> {
        let name = format!("{REQUEST}{number:06}");
        let one = |fault| vec![fault];
        if self.requests().count() >= REQUESTS_MAX {
            let why = format!("there are already {REQUESTS_MAX} requests; release one");
            return Err(one(wrong("path", &name, "", why)));
        }
        let (settings, ends) = settings(now, &name, &keys).map_err(one)?;
        let wanted = request(&name, &settings, &self.paths).map_err(one)?;
        let source = wanted.source;
        let packets = packets(&ComponentPath::new(["path", &name]), &settings).map_err(one)?;
        self.check_packets(&name, &packets, source).map_err(one)?;
        let key = blamed(&wanted);
        let requested = self
            .paths
            .request(wanted)
            .map_err(refused("path", &name, key));
        let (id, changes) = requested.map_err(one)?;
        let asked = Some(Asked { number, keys, ends });
        let flow = Flow {
            name,
            settings,
            packets,
            source,
            asked,
        };
        if let Err(faults) = self.check_whole(id, &flow) {
            let _ = self.paths.release(id); // requested above
            return Err(faults);
        }
        self.flows.insert(id, flow);
        self.apply(changes, rollout);
        Ok(())
    }

    /// Finds a path for a request that existed before, and keeps its expiry time; without a time, the lifetime
    /// restarts. The caller wants the encapsulation together with all other sections.
    pub(super) fn request_again(
        &mut self,
        now: Instant,
        (number, keys): (u64, Keys),
        ends: Option<Instant>,
    ) -> Result<(), Vec<Fault>> {
        self.request(now, (number, keys), &mut Rollout::default())?;
        for flow in self.flows.values_mut() {
            if let Some(asked) = flow.asked.as_mut().filter(|asked| asked.number == number) {
                asked.ends = ends.or(asked.ends);
            }
        }
        Ok(())
    }

    /// Refuses packets that another flow has at the same element with the same priority: one of the two would never
    /// match.
    fn check_packets(&self, name: &str, own: &(Filter, u64), source: FeId) -> Result<(), Fault> {
        let mut flows = self.flows.values();
        let other = flows.find(|flow| flow.source == source && flow.packets == *own);
        let Some(other) = other else {
            return Ok(());
        };
        let why = format!(
            "{} already has these packets at `{}`; release it, or give this request another `priority` (the lower \
             number wins)",
            described(other),
            self.name(source)
        );
        Err(wrong("path", name, "", why))
    }

    /// Checks all sections of the flow's ingress element with the element's own checks.
    fn check_whole(&self, id: u64, flow: &Flow) -> Result<(), Vec<Fault>> {
        let inner = self.plan.inner(&self.paths, flow.source);
        let mut sections = inner.map_err(|fault| vec![fault])?;
        let routes = self.paths.routes_of(id).unwrap_or_default().iter();
        let vectors = routes.map(|route| &route.vector[..]);
        sections.push(encapsulation(&flow.name, &flow.settings, vectors));
        let changes: Vec<_> = sections
            .into_iter()
            .flat_map(|(_, changes)| changes)
            .collect();
        self.plan.check_at(&self.paths, flow.source, &changes)
    }

    /// Ends a request. Returns the location of its encapsulation.
    pub(super) fn release(&mut self, number: u64, rollout: &mut Rollout) -> Option<ElementPath> {
        let (id, flow) = self.asked(number)?;
        let place = self.place(flow);
        let changes = self.paths.release(id).unwrap_or_default(); // `id` exists
        self.apply(changes, rollout);
        self.flows.remove(&id);
        rollout.want(&place.fe, place.path.clone(), None); // even if the element is disconnected
        Some(place)
    }
}

/// Names a flow in an error text.
fn described(flow: &Flow) -> String {
    match &flow.asked {
        Some(asked) => format!("request {}", asked.number),
        None => format!("the path `{}` of the file", flow.name),
    }
}

/// The packets of a flow, and their priority.
fn packets(at: &ComponentPath, settings: &Settings) -> Result<(Filter, u64), Fault> {
    Ok((
        weir_fpf_lfb::filter(at, settings)?,
        settings.count("priority"),
    ))
}

/// The settings of a request, and its expiry time.
fn settings(now: Instant, name: &str, keys: &Keys) -> Result<(Settings, Option<Instant>), Fault> {
    let at = ComponentPath::new(["path", name]);
    let given: Vec<(&str, Scalar)> = keys
        .iter()
        .filter(|(key, _)| *key != LIFETIME_KEY)
        .map(|(key, text)| (&key[..], Scalar::Text(text.clone())))
        .collect();
    let given = given.iter().map(|(key, value)| (*key, value));
    let settings = Settings::check(PATH_CLASS.parameters, given)
        .map_err(|error| Fault::of_setting(&at, &PATH_CLASS, &error))?;
    if settings.span("timeout") > Span::ZERO {
        let why = "a request cannot have a `timeout`; set its `lifetime` instead";
        return Err(wrong("path", name, "timeout", why));
    }
    Ok((settings, ends(now, keys)?))
}

/// Expiry time of a request.
fn ends(now: Instant, keys: &Keys) -> Result<Option<Instant>, Fault> {
    let text = keys
        .get(LIFETIME_KEY)
        .map(|text| Scalar::Text(text.clone()));
    let given = text.iter().map(|text| (LIFETIME_KEY, text));
    let settings = Settings::check(LIFETIME_OF, given)
        .map_err(|error| wrong("path", "", LIFETIME_KEY, error))?;
    let lifetime = settings.span(LIFETIME_KEY);
    Ok((lifetime > Span::ZERO).then(|| now + lifetime))
}

/// Reports paths of a file with names reserved for requests.
pub(super) fn check_names(plan: &NetworkPlan) -> Vec<Fault> {
    let names = plan.flows.keys().filter(|name| name.starts_with(REQUEST));
    let why =
        format!("names that begin with `{REQUEST}` are reserved for requests; choose another name");
    names.map(|name| wrong("path", name, "", &why)).collect()
}
