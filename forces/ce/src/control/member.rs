//! The CE's view of one FE.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use weir_base::Instant;
use weir_lfb::Plan;
use weir_lfb::named::{Instance, Named};
use weir_model::{Change, ComponentPath, Target};
use weir_protocol::wire::Id;

use crate::contract::{FeConfig, Records};
use crate::desired::{Desired, DesiredValue};
use crate::directory::Directory;
use crate::route::rows::Rows;
use crate::route::{Hop, LearntRoute, Routes, Shift};

/// Progress of an FE towards its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not associated, with the reason for the last loss.
    Away(String),
    /// Associated; the CE compares the state and restores it.
    Restoring,
    /// In the desired state, except for routes that its kernel may lack.
    InSync,
    /// The FE, or a rule, refuses the desired state.
    Refused(String),
}

impl State {
    /// Whether the FE is associated.
    pub(super) fn is_associated(&self) -> bool {
        !matches!(self, Self::Away(_))
    }
}

/// FPF sections that a network wants, each with its components.
pub(super) type Layer = BTreeMap<ComponentPath, Vec<Change>>;

/// The routes of a routing suite for one FE.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    pub(super) routes: BTreeMap<IpNet, LearntRoute>,
    /// Number of routes with each target.
    pub(super) users: HashMap<Target<Hop>, usize>,
    /// Shifts that the FE has not made.
    pub(super) shifts: Vec<Shift>,
    /// The old targets of shifts, until the changes of their routes come.
    pub(super) shifted: Vec<Target<Hop>>,
    /// Whether the suite has found all of its routes since the start of the CE.
    pub(super) is_complete: bool,
    /// Prefixes whose rows may differ from the routes.
    pub(super) changed: BTreeSet<IpNet>,
    /// Whether these get a row each, and no next hop or group changes.
    pub(super) one_by_one: bool,
}

/// One FE.
#[derive(Debug)]
pub(super) struct Fe {
    pub(super) name: String,
    pub(super) id: Id,
    /// Whether the FE must authenticate itself.
    pub(super) is_pinned: bool,
    pub(super) desired: Desired,
    /// Desired values from the CE's configuration, a part of `desired`.
    configured: Desired,
    /// FPF sections that the network wants, each as a whole, a part of `desired`. `None` if the FE is in no network.
    pub(super) network: Option<Layer>,
    /// Desired values set by operators, as stored, a part of `desired`.
    kept: BTreeMap<ComponentPath, DesiredValue>,
    /// Whether a CE configuration change put the FE out of sync.
    pub(super) is_stale: bool,
    /// FPF sections deleted from the CE's configuration. The FE may still have them.
    gone: BTreeSet<ComponentPath>,
    /// Components of any class that operators have set, in the form of [`FeConfig::components`].
    pub(super) components: BTreeMap<ComponentPath, String>,
    pub(super) state: State,
    /// When the FE associated, or when its association ended.
    pub(super) since: Option<Instant>,
    pub(super) directory: Directory,
    /// Desired routes, as operators have set them.
    pub(super) routes: Routes,
    /// Desired routes of a routing suite; `None` if none routes for this FE.
    pub(super) learnt: Option<Learnt>,
    /// Rows of the desired routes that the FE has, by family, as last read or changed.
    pub(super) rows: Option<[Rows; 2]>,
    /// Routes that the FE has refused since the CE read it, with the reasons.
    pub(super) unroutable: BTreeMap<IpNet, String>,
    /// The routes that the FE's kernel lacks now, as a sentence.
    pub(super) lacks: Option<String>,
    /// Number of routes that the FE's kernel has lost, per the FE's last report.
    pub(super) lost: u64,
    /// The running configuration, as last read or changed.
    pub(super) in_force: Option<Plan>,
    /// Whether a change is in progress.
    pub(super) busy: bool,
    /// Number of unsuccessful restorations since the association.
    pub(super) rounds: u32,
}

impl Fe {
    pub(super) fn new(member: FeConfig) -> Self {
        let mut fe = Self {
            name: member.name,
            id: member.id,
            is_pinned: member.is_pinned,
            desired: Desired::default(),
            configured: Desired::default(),
            network: None,
            kept: member.kept,
            is_stale: false,
            gone: BTreeSet::new(),
            components: member.components,
            routes: member.routes,
            learnt: None,
            rows: None,
            unroutable: BTreeMap::new(),
            lacks: None,
            lost: 0,
            state: State::Away("has never associated".to_owned()),
            since: None,
            directory: Directory::default(),
            in_force: None,
            busy: false,
            rounds: 0,
        };
        fe.wish(member.desired);
        fe
    }

    /// Returns the FE with the sections that a network wants at it.
    pub(super) fn of_network(mut self, network: Option<Layer>) -> Self {
        self.network = network;
        self.join();
        self
    }

    /// Replaces the desired values from the configuration. Returns whether that changes the desired state.
    pub(super) fn wish(&mut self, configured: Desired) -> bool {
        self.configured = configured;
        self.join()
    }

    /// Adds sections that the network wants, and removes those it no longer wants. From then on the FE keeps only FPF
    /// sections that the CE knows. Returns whether that changes the desired state.
    pub(super) fn give(&mut self, sections: Vec<(ComponentPath, Option<Vec<Change>>)>) -> bool {
        let network = self.network.get_or_insert_default();
        for (path, section) in sections {
            put(network, path, section);
        }
        self.join()
    }

    /// Takes the FE out of its network. Returns whether that changes the desired state.
    pub(super) fn leave_network(&mut self) -> bool {
        self.network = None;
        self.join()
    }

    /// Merges all desired values: the network overrides the configuration, and operators override both.
    pub(super) fn join(&mut self) -> bool {
        let mut desired = self.configured.clone();
        for (path, section) in self.network.iter().flatten() {
            if Instance::find(path).is_some() {
                desired.put(path, Some(&DesiredValue::Default)); // components that the section omits have defaults
            }
            for change in section {
                let wish = change
                    .value
                    .clone()
                    .map_or(DesiredValue::Exists, DesiredValue::Is);
                desired.put(&change.path, Some(&wish));
            }
        }
        for (path, wish) in &self.kept {
            desired.put(path, Some(wish));
        }
        let before = std::mem::replace(&mut self.desired, desired);
        let is_gone = |section: &ComponentPath| !self.desired.reaches(section);
        self.gone
            .extend(before.defined().into_iter().filter(is_gone));
        before != self.desired
    }

    /// The desired state for restoring an FE that runs `actual`. It also deletes sections that the configuration no
    /// longer has. An FE in a network loses every FPF section that nobody desires.
    fn wanted(&self, actual: &Plan) -> Desired {
        let mut wanted = self.desired.clone();
        let is_gone = |section: &ComponentPath| !self.desired.reaches(section);
        let of_kind = |kind: Named| {
            let names = actual.names(kind).into_iter();
            names.map(move |name| kind.path(name))
        };
        let kinds = Named::ALL.into_iter().filter(|kind| *kind != Named::Port);
        let others = kinds.filter(|_| self.network.is_some()).flat_map(of_kind);
        for section in self.gone.iter().cloned().chain(others) {
            if is_gone(&section) {
                wanted.put(&section, Some(&DesiredValue::Default));
            }
        }
        wanted
    }

    /// The configuration in the desired state of an FE that runs `actual`, or why it is not possible.
    pub(super) fn target(&self, actual: &Plan) -> Result<Plan, String> {
        self.wanted(actual).target(actual).map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            faults.join("; ")
        })
    }

    /// Records the FE's running configuration; `None` if unknown.
    pub(super) fn has_now(&mut self, in_force: Option<Plan>) {
        if let Some(plan) = &in_force {
            self.gone.retain(|section| {
                let instance = Instance::find(section);
                instance.is_some_and(|instance| plan.has(&instance))
            });
        }
        self.in_force = in_force;
    }

    /// Applies what operators have set at this CE.
    pub(super) fn put(&mut self, records: Records) {
        for (path, value) in &records.desired {
            self.desired.put(path, value.as_ref());
        }
        self.keep(records);
    }

    /// Forgets everything that operators have set; [`Self::join`] follows.
    pub(super) fn keep_nothing(&mut self) {
        self.kept.clear();
        self.components.clear();
        self.routes = Routes::default();
    }

    /// Takes what operators have set; [`Self::join`] follows if they did it at another CE.
    pub(super) fn keep(&mut self, records: Records) {
        for (path, value) in records.desired {
            put(&mut self.kept, path, value);
        }
        for (path, text) in records.components {
            put(&mut self.components, path, text);
        }
        for (key, hop) in records.routes {
            self.routes.put(key, hop);
        }
    }

    pub(super) fn associated(&mut self, now: Instant) {
        self.since = Some(now);
        self.directory = Directory::default();
        self.in_force = None;
        self.rows = None;
        self.lacks = None;
        self.lost = 0;
        self.begin_restoring();
    }

    pub(super) fn lost(&mut self, now: Instant, why: &str) {
        self.since = Some(now);
        self.state = State::Away(why.to_owned());
        self.in_force = None;
        self.rows = None;
    }

    /// Marks that the CE reads the FE and restores any differences.
    pub(super) fn begin_restoring(&mut self) {
        self.state = State::Restoring;
        self.rounds = 0;
        self.is_stale = false;
        self.unroutable.clear();
    }

    pub(super) fn is_associated(&self) -> bool {
        self.state.is_associated()
    }

    /// Whether a change can start: no other change is in progress.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.state != State::Restoring
    }
}

/// Sets or removes the value of a path.
fn put<T>(map: &mut BTreeMap<ComponentPath, T>, path: ComponentPath, value: Option<T>) {
    match value {
        Some(value) => map.insert(path, value),
        None => map.remove(&path),
    };
}
