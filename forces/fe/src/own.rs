//! The writable state of the FE itself, and its ports and other named sections as instances. A request works on a copy,
//! the *draft*, which replaces the state when the request has succeeded.

mod draft;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_lfb::Plan;
use weir_lfb::named::Named;
use weir_lfb::queue::KIND_DEFAULT;
use weir_model::Value;
use weir_protocol::session::fe::{Fe, Params, State};
use weir_protocol::standard::FE_OBJECT;
use weir_protocol::wire::message::{AssociationSetup, Selects};
use weir_protocol::wire::{
    LfbSelect, Operation as WireOperation, OperationKind, PathData, ResultCode, WireError,
};

use crate::blocks::{Block, Blocks, PORTS, Source};
use crate::object::{self, ADMIN_DISABLE, OPER_DISABLE, OPER_ENABLE};
use crate::property::Subscriptions;
use crate::protocol::Protocol;
use crate::request::Failure;
use numbers::Numbers;

/// Maximum number of instances without a name in one message.
const UNNAMED_MAX: usize = 64;
/// Maximum number that a CE may assign to an instance. Instances from other sources get higher numbers.
const NUMBER_MAX: u32 = u32::MAX / 2;

/// The state of the FE, or a draft of it.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    blocks: Arc<Blocks>,
    name: String,
    model: String,
    is_disabled: bool,
    protocol: Protocol,
    /// Numbers of ports and other named sections.
    numbers: Numbers,
    /// The rows of LFBSelectors; a row keeps its index.
    selectors: BTreeMap<u32, (u32, u32)>,
    subscriptions: Subscriptions,
    /// Instances that this draft has created and that have no name yet.
    unnamed: BTreeSet<(Named, u32)>,
    /// Kinds of disciplines that this draft assigns to ports.
    kinds: BTreeMap<String, String>,
}

impl Own {
    pub(crate) fn new(params: &Params, (name, model): (String, String), plan: &Plan) -> Self {
        let mut own = Self {
            blocks: Arc::new(Blocks::new()),
            name,
            model,
            is_disabled: false,
            protocol: Protocol::new(params),
            numbers: Numbers::default(),
            selectors: BTreeMap::new(),
            subscriptions: Subscriptions::default(),
            unnamed: BTreeSet::new(),
            kinds: BTreeMap::new(),
        };
        own.follow(plan);
        own
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) const fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    pub(crate) const fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Whether a CE has disabled the FE.
    pub(crate) const fn is_disabled(&self) -> bool {
        self.is_disabled
    }

    /// Enables the FE again.
    pub(crate) const fn enable(&mut self) {
        self.is_disabled = false;
    }

    /// Instance number of a port.
    pub(crate) fn number(&self, port: &str) -> Option<u32> {
        let mut ports = self.ports().iter();
        ports
            .find(|(_, name)| *name == port)
            .map(|(number, _)| *number)
    }

    /// Name of the port with this instance number.
    pub(crate) fn port(&self, number: u32) -> Option<String> {
        self.ports().get(&number).cloned()
    }

    /// The ports by instance number.
    pub(crate) fn ports(&self) -> &BTreeMap<u32, String> {
        self.numbers.names(Named::Port)
    }

    /// The master has changed; `from` was the previous master.
    pub(crate) const fn master_changed(&mut self, from: Option<weir_protocol::wire::Id>) {
        if from.is_some() {
            self.protocol.last_ce = from;
        }
    }

    /// The FE's description of itself for the association setup: its name.
    pub(crate) fn setup(&self) -> Result<AssociationSetup, WireError> {
        let path = PathData::full(vec![3], self.name.clone().into_bytes())?;
        let report = WireOperation::on(OperationKind::Report, vec![path])?;
        Selects::new(vec![LfbSelect::new(FE_OBJECT, 1, vec![report])?])
    }

    /// Adapts to the running configuration: ports and other named sections are added or deleted, and disciplines change
    /// their kind.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        self.unnamed.clear();
        self.kinds.clear();
        self.numbers.follow(plan);
        let wanted = self.instances(plan);
        self.selectors.retain(|_, block| wanted.contains(block));
        let known: BTreeSet<_> = self.selectors.values().copied().collect();
        let unused = (0..).filter(|index| !self.selectors.contains_key(index));
        let new: Vec<_> = unused.zip(wanted.difference(&known).copied()).collect();
        self.selectors.extend(new);
    }

    /// All instances.
    fn instances(&self, plan: &Plan) -> BTreeSet<(u32, u32)> {
        let mut instances = BTreeSet::new();
        for block in self.blocks.all() {
            let class = block.schema.id;
            let Some(owner) = block.owner else {
                instances.insert((class, 1));
                continue;
            };
            let is_here = |name: &str| match block.source {
                Source::Discipline => block.schema.short_name() == self.kind(name, plan),
                _ => true,
            };
            let names = self.numbers.names(owner).iter();
            let here = names.filter(|(_, name)| is_here(name));
            instances.extend(here.map(|(number, _)| (class, *number)));
        }
        instances
    }

    /// Kind of a port's discipline.
    fn kind<'a>(&'a self, port: &str, plan: &'a Plan) -> &'a str {
        let in_force = plan.ports.iter().find(|p| p.name == port);
        let in_force = in_force.map_or(KIND_DEFAULT, |port| port.discipline.kind());
        self.kinds.get(port).map_or(in_force, String::as_str)
    }

    /// Checks that the instance exists; returns the name of its port or section, if it belongs to one.
    pub(crate) fn instance(
        &self,
        block: &Block,
        instance: u32,
        plan: &Plan,
    ) -> Result<Option<&str>, Failure> {
        let none = |why: String| Failure::new(ResultCode::InstanceNotFound, why);
        let name = block.schema.short_name();
        let Some(owner) = block.owner else {
            return match instance {
                1 => Ok(None),
                _ => Err(none(format!("{name} has only the instance 1"))),
            };
        };
        let word = owner.word();
        let Some(of) = self.numbers.names(owner).get(&instance) else {
            return Err(none(if self.unnamed.contains(&(owner, instance)) {
                let class = owner.class().name;
                format!("set the name of {word} {instance} first (component 1 of {class})")
            } else {
                format!("there is no {word} {instance} (LFBSelectors lists the instances)")
            }));
        };
        match (block.source, self.kind(of, plan)) {
            (Source::Discipline, kind) if kind != name => Err(none(format!(
                "the discipline of port {instance} ({of}) is {kind}, not {name}"
            ))),
            _ => Ok(Some(of)),
        }
    }

    /// Value of the FE object.
    pub(crate) fn object(&self, plan: &Plan, fe: &Fe) -> Value {
        let selector = |(index, block): (&u32, &(u32, u32))| {
            (index.to_string().into(), object::selector(*block))
        };
        let state = match (self.is_disabled, fe.state()) {
            (true, _) => ADMIN_DISABLE,
            (false, State::PreAssociation) => OPER_DISABLE,
            (false, _) => OPER_ENABLE,
        };
        let supported = self.blocks.all().map(|block| {
            let single = block.owner.is_none();
            Value::Struct(vec![
                ("LFBName".into(), block.schema.name.as_str().into()),
                ("LFBClassID".into(), Value::Whole(block.schema.id.into())),
                ("LFBVersion".into(), block.schema.version.as_str().into()),
                ("LFBOccurrenceLimit".into(), single.then_some(1_u64).into()),
            ])
        });
        let members = [
            ("LFBTopology", Value::List(self.links(plan))),
            (
                "LFBSelectors",
                Value::Struct(self.selectors.iter().map(selector).collect()),
            ),
            ("FEName", self.name.as_str().into()),
            ("FEID", Value::Whole(fe.id().0.into())),
            ("FEVendor", "weir".into()),
            ("FEModel", self.model.as_str().into()),
            ("FEState", state.into()),
            ("ModifiableLFBTopology", false.into()),
            ("SupportedLFBs", Value::List(supported.collect())),
        ];
        Value::Struct(members.map(|(name, value)| (name.into(), value)).to_vec())
    }

    /// The links from each port through the routes to the queue of each port, or in a bridge to the queue of the other
    /// port.
    fn links(&self, plan: &Plan) -> Vec<Value> {
        let class = |name: &str| self.blocks.named(name).unwrap_or_default();
        let (ports, routes) = (class(PORTS), class("routes"));
        let is_bridge = plan.router.mode_word() == "bridged";
        let mut links = Vec::new();
        for (number, name) in self.ports() {
            let queue = (class(self.kind(name, plan)), *number);
            let others = self.ports().keys().filter(|other| *other != number);
            if is_bridge {
                links.extend(
                    others.map(|other| object::link((ports, *other), "received", queue, "in", 0)),
                )
            } else {
                links.extend([
                    object::link((ports, *number), "received", (routes, 1), "in", 0),
                    object::link((routes, 1), "next", queue, "in", *number),
                ])
            }
            links.push(object::link(queue, "out", (ports, *number), "sent", 0));
        }
        links
    }
}
