//! One FE, as the CE knows it.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use weir_lfb::Plan;
use weir_lfb::named::{Instance, Named};
use weir_model::{Change, ComponentPath};
use weir_protocol::wire::Id;

use crate::contract::Member;
use crate::desired::{Desired, Record, Wish};
use crate::directory::Directory;
use crate::route::Routes;
use crate::route::rows::Rows;

/// How far the FE is from its desired state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is not associated, with the reason of the last loss.
    Away(String),
    /// It is associated, and the CE compares and restores.
    Restoring,
    /// It has the desired state, except for routes that its kernel may lack.
    InSync,
    /// It, or a rule, refuses the desired state.
    Refused(String),
}

/// Sections of FPF that a network wants, each with its components.
pub(super) type Layer = BTreeMap<ComponentPath, Vec<Change>>;

/// One FE.
#[derive(Debug)]
pub(super) struct Fe {
    pub(super) name: String,
    pub(super) id: Id,
    /// Whether it must prove who it is.
    pub(super) is_pinned: bool,
    pub(super) desired: Desired,
    /// Wishes of the CE's configuration among them.
    configured: Desired,
    /// Sections of FPF that the network wants among them, each as a whole; none if the FE is no element of a network.
    pub(super) network: Option<Layer>,
    /// The wishes of operators among them, as the store has them.
    kept: BTreeMap<ComponentPath, Wish>,
    /// Whether it has not what is desired because the configuration of the CE has changed since.
    pub(super) is_stale: bool,
    /// Sections of FPF that the configuration of the CE had and has no more. The FE may still have them.
    gone: BTreeSet<ComponentPath>,
    /// Components of any class that operators have set, as [`Member`] has them.
    pub(super) components: BTreeMap<ComponentPath, String>,
    pub(super) state: State,
    pub(super) directory: Directory,
    /// The routes that it shall have.
    pub(super) routes: Routes,
    /// The rows of those routes that it has, by family, as they were read or changed last.
    pub(super) rows: Option<[Rows; 2]>,
    /// Routes that it has refused since it was read, with the reasons.
    pub(super) unroutable: BTreeMap<IpNet, String>,
    /// The routes that its kernel lacks now, in a sentence.
    pub(super) lacks: Option<String>,
    /// Routes that its kernel has lost, as it has reported last.
    pub(super) lost: u64,
    /// The configuration in force, as it was read or changed last.
    pub(super) in_force: Option<Plan>,
    /// Whether a change is under way.
    pub(super) busy: bool,
    /// How often the state was restored since the association without success.
    pub(super) rounds: u32,
}

impl Fe {
    pub(super) fn new(member: Member) -> Self {
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
            rows: None,
            unroutable: BTreeMap::new(),
            lacks: None,
            lost: 0,
            state: State::Away("has never associated".to_owned()),
            directory: Directory::default(),
            in_force: None,
            busy: false,
            rounds: 0,
        };
        fe.wish(member.desired);
        fe
    }

    /// The same, with the sections that a network wants of it.
    pub(super) fn of_network(mut self, network: Option<Layer>) -> Self {
        self.network = network;
        self.join();
        self
    }

    /// Takes the wishes of a configuration. Returns whether that changes what is desired.
    pub(super) fn wish(&mut self, configured: Desired) -> bool {
        self.configured = configured;
        self.join()
    }

    /// Takes sections that the network wants, or wants no more. From then on the FE has no sections of FPF but those that the
    /// CE knows.
    pub(super) fn give(&mut self, sections: Vec<(ComponentPath, Option<Vec<Change>>)>) -> bool {
        let network = self.network.get_or_insert_default();
        for (path, section) in sections {
            match section {
                Some(section) => network.insert(path, section),
                None => network.remove(&path),
            };
        }
        self.join()
    }

    /// The FE is no element of a network any more.
    pub(super) fn leave_network(&mut self) -> bool {
        self.network = None;
        self.join()
    }

    /// Joins all wishes: those of the network go before the configuration's, and those of operators before both.
    fn join(&mut self) -> bool {
        let mut desired = self.configured.clone();
        for (path, section) in self.network.iter().flatten() {
            if Instance::find(path).is_some() {
                desired.put(path, Some(&Wish::Default)); // what the section does not name has its default
            }
            for change in section {
                let wish = change.value.clone().map_or(Wish::Exists, Wish::Is);
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

    /// The wishes with which an FE is restored that has `actual` in force: the desired ones, and that it loses what is gone
    /// from the configuration. An element of a network loses every section of FPF that nobody desires.
    pub(super) fn wanted(&self, actual: &Plan) -> Desired {
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
                wanted.put(&section, Some(&Wish::Default));
            }
        }
        wanted
    }

    /// The FE has this configuration now; none if it is not known.
    pub(super) fn has_now(&mut self, in_force: Option<Plan>) {
        if let Some(plan) = &in_force {
            self.gone.retain(|section| {
                let instance = Instance::find(section);
                instance.is_some_and(|instance| plan.has(&instance))
            });
        }
        self.in_force = in_force;
    }

    /// An operator wants something else at one path.
    pub(super) fn put(&mut self, (path, wish): &Record) {
        self.desired.put(path, wish.as_ref());
        match wish {
            Some(wish) => self.kept.insert(path.clone(), wish.clone()),
            None => self.kept.remove(path),
        };
    }

    pub(super) fn associated(&mut self) {
        self.directory = Directory::default();
        self.in_force = None;
        self.rows = None;
        self.lacks = None;
        self.lost = 0;
        self.begin_restoring();
    }

    pub(super) fn lost(&mut self, why: &str) {
        self.state = State::Away(why.to_owned());
        self.in_force = None;
        self.rows = None;
    }

    /// The CE reads the FE, and restores what differs.
    pub(super) fn begin_restoring(&mut self) {
        self.state = State::Restoring;
        self.rounds = 0;
        self.is_stale = false;
        self.unroutable.clear();
    }

    pub(super) fn is_associated(&self) -> bool {
        !matches!(self.state, State::Away(_))
    }

    /// Whether a change can begin: nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.state != State::Restoring
    }
}
