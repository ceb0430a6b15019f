//! The configuration of all blocks: a set of changes, checked as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_base::Rate;
use weir_base::setting::{Scalar, Setting, Settings, did_you_mean, nearest};
use weir_discipline::Spec;
use weir_layer::{LayerPlan, Port};
use weir_model::fault::ResultCode;
use weir_model::section::{Blocks, Given};
use weir_model::{Change, Class, ComponentPath, Fault};
use weir_path::plane::Mode;

use crate::class::ports::PORTS;
use crate::class::redirect::REDIRECT;
use crate::class::status::STATUS;
use crate::layers::LAYERS;
use crate::named::{Instance, Named};
use crate::port::{Direction, PortPlan};
use crate::redirect::RedirectPlan;
use crate::router::RouterPlan;
use crate::{queue, section};

/// Packets that a router needs in addition to its queues: packets that wait for neighbours, and for each
/// port a full outbox and a received burst.
fn reserve(ports: usize) -> usize {
    const EACH: usize = 256 + 64;
    weir_path::ip::waiting::PACKETS_MAX + ports * EACH
}

/// A checked configuration: applying it cannot fail because of its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The router itself.
    pub router: RouterPlan,
    /// Ports, in the order of their names.
    pub ports: Vec<PortPlan>,
    /// Packets that go to the control element.
    pub redirect: Arc<RedirectPlan>,
    /// Network layers next to IP, in the order of [`LAYERS`].
    pub layers: Arc<Vec<LayerPlan>>,
}

/// A port before some changes.
struct Before<'a> {
    port: &'a PortPlan,
    /// Discipline of the port; `None` if the changes select another kind.
    discipline: Option<&'a Spec>,
}

impl Plan {
    /// Checks a whole set of changes. Reports all faults, not only the first.
    pub fn check(changes: &[Change]) -> Result<Self, Vec<Fault>> {
        let (blocks, faults) = section::ROUTER.sorted(changes);
        Self::checked(None, new_ports(&blocks), &blocks, faults)
    }

    /// Checks a part of a configuration whose rest is unknown: each block by itself, without the rules between blocks.
    pub fn check_part(changes: &[Change]) -> Result<(), Vec<Fault>> {
        let (blocks, faults) = section::ROUTER.sorted(changes);
        Self::checked_alone(None, new_ports(&blocks), &blocks, faults).map(|_| ())
    }

    /// The plan after some changes; all of them take effect, or none. Components that they do not name stay the same,
    /// but a discipline of another kind starts with its defaults and the parameters in the same changes, whatever their
    /// order. The changes add and delete no named section. Only the named blocks and the rules between blocks are
    /// checked again.
    pub fn with(&self, changes: &[Change]) -> Result<Self, Vec<Fault>> {
        self.with_new(&BTreeSet::new(), changes)
    }

    /// [`Self::with`], but also adds these named sections, none of which the plan has.
    pub(crate) fn with_new(
        &self,
        come: &BTreeSet<Instance<'_>>,
        changes: &[Change],
    ) -> Result<Self, Vec<Fault>> {
        let comes =
            |change: &Change| Instance::find(&change.path).is_some_and(|i| come.contains(&i));
        let others = changes.iter().filter(|change| !comes(change));
        let faults: Vec<_> = others.filter_map(|c| self.no_instance(&c.path)).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        // A kind is applied before its parameters; of several values for one component the last one wins.
        let (mut changes, others): (Vec<_>, Vec<_>) = changes.iter().partition(|c| is_kind(c));
        let kept = |port| (!renews(port, &changes)).then_some(&port.discipline);
        let before = |port| Before {
            discipline: kept(port),
            port,
        };
        let ports = self.ports.iter();
        let ports = ports.map(|port| (&port.name[..], Some(before(port))));
        let new_ports = come.iter().filter(|new| new.kind == Named::Port);
        let new_ports = new_ports.map(|new| (new.name, None));
        let mut ports: Vec<_> = ports.chain(new_ports).collect();
        ports.sort_by_key(|(name, _)| *name); // the order in a plan from a file
        changes.extend(others);
        let mut last: Vec<&Change> = Vec::with_capacity(changes.len());
        for change in changes {
            last.retain(|earlier| earlier.path != change.path);
            last.push(change);
        }
        let (mut blocks, faults) = section::ROUTER.sorted(last);
        for new in come {
            if let Named::Layer(layer, kind) = new.kind {
                let key = LAYERS[layer].named[kind].section.key;
                blocks.entry((Some(new.name), key)).or_default(); // with defaults, if it has no changes
            }
        }
        Self::checked(Some(self), ports, &blocks, faults)
    }

    /// The names of the sections of a kind, in order.
    pub fn names(&self, kind: Named) -> Vec<&str> {
        match kind {
            Named::Port => self.ports.iter().map(|port| &*port.name).collect(),
            Named::Layer(layer, kind) => {
                let sections = self.layers[layer].each(kind);
                sections.map(|(name, _)| name).collect()
            }
        }
    }

    /// Whether the plan has this section.
    pub fn has(&self, instance: &Instance<'_>) -> bool {
        match instance.kind {
            Named::Port => self.ports.iter().any(|port| port.name == instance.name),
            Named::Layer(layer, kind) => self.layers[layer].get(kind, instance.name).is_some(),
        }
    }

    /// The fault of a path to a port, or to another named section, that does not exist.
    pub(crate) fn no_instance(&self, path: &ComponentPath) -> Option<Fault> {
        let instance = Instance::find(path)?;
        if self.has(&instance) {
            return None;
        }
        let Instance { kind, name } = instance;
        let near = did_you_mean(nearest(name, self.names(kind).into_iter()));
        let message = format!("there is no {} `{name}`{near}", kind.word());
        let fault = Fault::new(path.clone(), message);
        Some(fault.code(ResultCode::InstanceNotFound))
    }

    /// Checks the parameters given for the router and for these ports; the other parameters stay the same.
    fn checked(
        before: Option<&Self>,
        ports: Vec<(&str, Option<Before<'_>>)>,
        blocks: &Blocks<'_>,
        faults: Vec<Fault>,
    ) -> Result<Self, Vec<Fault>> {
        let mut plan = Self::checked_alone(before, ports, blocks, faults)?;
        if plan.layers.iter().any(LayerPlan::is_stale) {
            let layers = Arc::make_mut(&mut plan.layers).iter_mut();
            let mut stale = layers.filter(|layer| layer.is_stale());
            stale.try_for_each(LayerPlan::compile)?;
        }
        plan.share_rates().map_err(|fault| vec![fault])?;
        plan.check_together().map_err(|fault| vec![fault])?;
        Ok(plan)
    }

    /// Gives ports that share a rate the rate of the other port.
    fn share_rates(&mut self) -> Result<(), Fault> {
        let rate_of = |port: &PortPlan| {
            let Some(other) = port.rate_of.as_deref() else {
                return Ok(port.rate);
            };
            self.shared_rate(port, other).map_err(|why| {
                let path = ComponentPath::new([section::PORT.key, &port.name, "rate_of"]);
                Fault::new(path, why)
            })
        };
        let rates = self.ports.iter().map(rate_of);
        let rates: Vec<_> = rates.collect::<Result<_, _>>()?;
        for (port, rate) in self.ports.iter_mut().zip(rates) {
            port.rate = rate;
        }
        Ok(())
    }

    /// The rate of the port `other`, which `port` shares; or why it cannot.
    fn shared_rate(&self, port: &PortPlan, other: &str) -> Result<Option<Rate>, String> {
        let Some(of) = self.ports.iter().find(|port| port.name == other) else {
            let near = did_you_mean(nearest(other, self.names(Named::Port).into_iter()));
            return Err(format!("there is no port `{other}`{near}"));
        };
        if let Some(next) = &of.rate_of {
            return Err(format!(
                "the port `{other}` shares the rate of `{next}` itself; name a port with `rate`"
            ));
        }
        if port.settings.setting("rate") != &Setting::Rate(Rate::default()) {
            return Err(
                "a port that shares a rate has no rate of its own; remove `rate` or `rate_of`"
                    .to_owned(),
            );
        }
        if of.auto.is_some() {
            return Err(format!(
                "the rate of `{other}` is \"auto\" and cannot be shared; set a rate like \"95 Mbit\""
            ));
        }
        let none = || format!("the port `{other}` has no rate to share; set port.{other}.rate");
        of.rate.map(Some).ok_or_else(none)
    }

    /// [`Self::checked`] without the rules between blocks.
    fn checked_alone(
        before: Option<&Self>,
        ports: Vec<(&str, Option<Before<'_>>)>,
        blocks: &Blocks<'_>,
        mut faults: Vec<Fault>,
    ) -> Result<Self, Vec<Fault>> {
        let router = match (before, blocks.get(&(None, section::ROUTER.key))) {
            (Some(before), None) => Some(before.router.clone()),
            (before, given) => {
                let before = before.map(|before| &before.router.settings);
                let root = ComponentPath::default();
                let given = given.map_or(&[][..], Vec::as_slice);
                let settings = settings(&root, &STATUS.class, before, given, &mut faults);
                settings.and_then(|settings| match RouterPlan::new(settings) {
                    Ok(router) => Some(router),
                    Err((key, why)) => {
                        faults.push(Fault::new(ComponentPath::new([key]), why));
                        None
                    }
                })
            }
        };
        let redirect = before.map(|before| &before.redirect);
        let redirect = check_redirect(redirect, blocks, &mut faults);
        let layers = before.map(|before| &before.layers);
        let layers = check_layers(layers, blocks, &mut faults);
        let port = |(name, before)| check_port(name, before, blocks, &mut faults);
        let ports: Vec<_> = ports.into_iter().filter_map(port).collect();
        match (router, redirect) {
            (Some(router), Some(redirect)) if faults.is_empty() => Ok(Self {
                router,
                ports,
                redirect,
                layers,
            }),
            _ => Err(faults),
        }
    }

    /// Checks the rules between blocks.
    fn check_together(&self) -> Result<(), Fault> {
        let root = ComponentPath::default();
        let at_port = |port: &PortPlan, name| ComponentPath::new(["port", &port.name, name]);
        if self.ports.is_empty() {
            return Err(Fault::new(root, "no port is configured; add `[port.NAME]`"));
        }
        if self.router.mode == Mode::Bridged && self.ports.len() != 2 {
            let message = format!("a bridge needs two ports, not {}", self.ports.len());
            return Err(Fault::new(ComponentPath::new(["mode"]), message));
        }
        let unrouted = match self.router.mode {
            Mode::Routed => None,
            Mode::Bridged => Some("a bridge"),
            Mode::Queue => Some("a router of mode \"queue\""),
        };
        if let Some(router) = unrouted {
            self.check_unrouted(router)?;
        }
        if self.router.mode != Mode::Queue
            && let Some(port) = self.ports.iter().find(|p| p.direction == Direction::In)
        {
            let message = "direction \"in\" needs mode = \"queue\"; in this mode, set `rate` at the port through which the frames leave";
            return Err(Fault::new(at_port(port, "direction"), message));
        }
        let asks = |port: &&PortPlan| {
            let auto = port.auto.as_ref();
            auto.is_some_and(|auto| !auto.reflectors.is_empty())
        };
        let asking = self.ports.iter().find(asks);
        if let Some(port) = asking.filter(|_| self.router.mode == Mode::Bridged) {
            let message = "a bridge has no address to send probes from; set reflectors = \"traffic\", a rate like \
                           \"95 Mbit\", or mode = \"routed\"";
            return Err(Fault::new(at_port(port, "rate"), message));
        }
        let hears = |port: &PortPlan| {
            let mut ports = self.ports.iter();
            ports.any(|p| p.direction == Direction::In && p.interface == port.interface)
        };
        let is_deaf = |port: &&PortPlan| {
            port.auto.as_ref().is_some_and(|auto| auto.by_traffic) && !hears(port)
        };
        if self.router.mode == Mode::Queue
            && let Some(port) = self.ports.iter().find(is_deaf)
        {
            let message = "\"traffic\" needs the received acknowledgments: add a port with this interface and \
                           direction = \"in\"";
            return Err(Fault::new(at_port(port, "reflectors"), message));
        }
        let ports = self.ports.iter().map(|port| Port {
            name: &port.name,
            is_tun: port.is_tun,
            discipline: &port.discipline,
        });
        let ports: Vec<_> = ports.collect();
        for plan in self.layers.iter() {
            (plan.layer().check_ports)(plan, &ports)?;
        }
        for (n, port) in self.ports.iter().enumerate() {
            let mut others = self.ports[..n].iter();
            let place = |port: &PortPlan| (port.interface.clone(), port.direction);
            if let Some(other) = others.find(|o| place(o) == place(port)) {
                let side = match self.router.mode {
                    Mode::Queue => " in the same direction",
                    Mode::Routed | Mode::Bridged => "",
                };
                let message = format!(
                    "the port `{}` already uses this interface{side}",
                    other.name
                );
                return Err(Fault::new(at_port(port, "interface"), message));
            }
        }
        let needed = self.packets_needed();
        if let Some(pool) = self.router.pool.filter(|pool| *pool < needed) {
            let message = format!(
                "full queues, and packets in flight outside them, need {needed} packets, but the pool has {pool}: \
                 lower the queue limits, or set `pool` to at least {needed}"
            );
            return Err(Fault::new(ComponentPath::new(["pool"]), message));
        }
        Ok(())
    }

    /// Checks what only a router with routes supports; `router` names the other kind.
    fn check_unrouted(&self, router: &str) -> Result<(), Fault> {
        if *self.redirect != RedirectPlan::default() {
            let message = format!(
                "{router} cannot redirect packets to a control element; remove `[redirect]`, or set mode = \"routed\""
            );
            return Err(Fault::new(
                ComponentPath::new([section::REDIRECT.key]),
                message,
            ));
        }
        if let Some(plan) = self.layers.iter().find(|plan| plan.compiled().is_some()) {
            let (name, key) = (plan.layer().name, plan.layer().section.key);
            let message = format!(
                "{router} does not support {name}; remove the sections [{key}...], or set mode = \"routed\""
            );
            return Err(Fault::new(ComponentPath::new([key]), message));
        }
        if let Some(port) = self.ports.iter().find(|port| port.is_tun) {
            let message = format!(
                "{router} cannot have a port of kind \"tun\"; remove this port, or set mode = \"routed\""
            );
            return Err(Fault::new(
                ComponentPath::new(["port", &port.name, "kind"]),
                message,
            ));
        }
        Ok(())
    }

    /// Maximum packets that the ports and the layers hold, inside and outside their queues. With a smaller pool, one
    /// deep queue could starve every port.
    pub fn packets_needed(&self) -> usize {
        let limits = self.ports.iter().map(|p| p.discipline.limit());
        let waiting = self.layers.iter().map(LayerPlan::waiting_max);
        limits.sum::<usize>() + waiting.sum::<usize>() + reserve(self.ports.len())
    }

    /// The settings of the block at a path; `None` if there is no such block.
    pub fn settings(&self, block: &ComponentPath) -> Option<&Settings> {
        let port = |name: &str| self.ports.iter().find(|port| port.name == name);
        match block.segments()[..] {
            [] => Some(&self.router.settings),
            ["redirect"] => Some(&self.redirect.settings),
            ["port", name] => Some(&port(name)?.settings),
            ["port", name, "discipline"] => Some(port(name)?.discipline.settings()),
            [key] => {
                let mut layers = self.layers.iter();
                let layer = layers.find(|plan| plan.layer().section.key == key);
                layer.map(LayerPlan::settings)
            }
            [_, _, _] => match Instance::find(block)? {
                Instance {
                    kind: Named::Layer(layer, kind),
                    name,
                } => self.layers[layer].get(kind, name),
                _ => None,
            },
            _ => None,
        }
    }

    /// The changes that make up this plan, with every default spelt out.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes = spelt_out(&ComponentPath::default(), &self.router.settings);
        let redirect = ComponentPath::new([section::REDIRECT.key]);
        changes.extend(spelt_out(&redirect, &self.redirect.settings));
        for plan in self.layers.iter() {
            let layer = plan.layer();
            let path = ComponentPath::new([layer.section.key]);
            changes.extend(spelt_out(&path, plan.settings()));
            for kind in 0..layer.named.len() {
                for (name, settings) in plan.each(kind) {
                    changes.extend(spelt_out(&layer.path(kind, name), settings));
                }
            }
        }
        for port in &self.ports {
            let path = ComponentPath::new(["port", &port.name]);
            changes.extend(spelt_out(&path, &port.settings));
            let queue = path.join("discipline");
            let kind = Scalar::Text(port.discipline.kind().to_owned());
            changes.push(Change::new(queue.join("kind"), kind));
            changes.extend(spelt_out(&queue, port.discipline.settings()));
        }
        changes
    }

    /// The settings as text by path, for display and comparison.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let text = |change: Change| match change.value {
            Some(Scalar::Text(text)) => (change.path.to_string(), text),
            other => unreachable!("{} is {other:?}", change.path),
        };
        self.changes().into_iter().map(text).collect()
    }
}

/// The changes that set these settings of the block at `path`.
fn spelt_out(path: &ComponentPath, settings: &Settings) -> Vec<Change> {
    let change = |(name, setting): (&str, &Setting)| {
        Change::new(path.join(name), Scalar::Text(setting.to_string()))
    };
    settings.iter().map(change).collect()
}

/// The ports for which parameters are given, all of them as new ports.
fn new_ports<'a>(blocks: &Blocks<'a>) -> Vec<(&'a str, Option<Before<'a>>)> {
    let of_port = |section: &str| [section::PORT.key, queue::SECTION.key].contains(&section);
    let instances = blocks.keys().filter(|(_, section)| of_port(section));
    let mut names: Vec<_> = instances.filter_map(|(instance, _)| *instance).collect();
    names.dedup();
    names.into_iter().map(|name| (name, None)).collect()
}

fn is_kind(change: &Change) -> bool {
    change.path.segments().ends_with(&["discipline", "kind"])
}

/// Whether one of the changes selects another kind of discipline for the port.
fn renews(port: &PortPlan, kinds: &[&Change]) -> bool {
    let path = ["port", &port.name, "discipline", "kind"];
    let kind = Some(Scalar::Text(port.discipline.kind().to_owned()));
    let mut kinds = kinds.iter().filter(|change| change.path.segments() == path);
    kinds.any(|change| change.value != kind)
}

fn check_redirect(
    before: Option<&Arc<RedirectPlan>>,
    blocks: &Blocks<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Arc<RedirectPlan>> {
    let Some(given) = blocks.get(&(None, section::REDIRECT.key)) else {
        return Some(before.cloned().unwrap_or_default());
    };
    let path = ComponentPath::new([section::REDIRECT.key]);
    let before = before.map(|before| &before.settings);
    let settings = settings(&path, &REDIRECT.class, before, given, faults)?;
    let out_of_range = |(component, why)| {
        let fault = Fault::new(path.join(component), why);
        faults.push(fault.code(ResultCode::ValueOutOfRange));
    };
    let redirect = RedirectPlan::new(settings).map_err(out_of_range);
    redirect.ok().map(Arc::new)
}

fn check_layers(
    before: Option<&Arc<Vec<LayerPlan>>>,
    blocks: &Blocks<'_>,
    faults: &mut Vec<Fault>,
) -> Arc<Vec<LayerPlan>> {
    let new = || Arc::new(LAYERS.iter().map(|layer| LayerPlan::new(layer)).collect());
    let mut plans = before.cloned().unwrap_or_else(new);
    for (n, layer) in LAYERS.iter().enumerate() {
        let root = blocks.get(&(None, layer.section.key));
        let named = blocks.iter().filter_map(|((instance, key), given)| {
            let mut kinds = layer.named.iter();
            let kind = kinds.position(|kind| kind.section.key == *key)?;
            Some((kind, (*instance)?, given))
        });
        if root.is_none() && named.clone().next().is_none() {
            continue;
        }
        let plan = &mut Arc::make_mut(&mut plans)[n];
        let mut checked =
            |path: &ComponentPath, class, before: Option<&Settings>, given: &Given<'_>| {
                settings(path, class, before, given, faults)
            };
        if let Some(given) = root {
            let path = ComponentPath::new([layer.section.key]);
            let settings = checked(&path, layer.class, Some(plan.settings()), given);
            settings.into_iter().for_each(|settings| plan.set(settings));
        }
        named.for_each(|(kind, name, given)| {
            let (path, class) = (layer.path(kind, name), layer.named[kind].class);
            if let Some(settings) = checked(&path, class, plan.get(kind, name), given) {
                plan.set_named(kind, name, settings);
            }
        });
    }
    plans
}

fn check_port(
    name: &str,
    before: Option<Before<'_>>,
    blocks: &Blocks<'_>,
    faults: &mut Vec<Fault>,
) -> Option<PortPlan> {
    let given = |section| {
        blocks
            .get(&(Some(name), section))
            .map_or(&[][..], Vec::as_slice)
    };
    let (port, queue) = (given(section::PORT.key), given(queue::SECTION.key));
    if let (Some(before), [], []) = (&before, port, queue) {
        return Some(before.port.clone());
    }
    let path = ComponentPath::new(["port", name]);
    let of_port = before.as_ref().map(|before| &before.port.settings);
    let settings = settings(&path, &PORTS.class, of_port, port, faults);
    let of_queue = before.and_then(|before| before.discipline);
    let discipline = queue::check(&path.join("discipline"), of_queue, queue)
        .map_err(|fault| faults.push(fault))
        .ok()?;
    PortPlan::new(name, settings?, discipline)
        .map_err(|(component, why)| {
            let at = match component {
                "" => path, // the whole port
                component => path.join(component),
            };
            faults.push(Fault::new(at, why).code(ResultCode::ValueOutOfRange));
        })
        .ok()
}

/// Checks the parameters given for one block of this class; the other parameters keep the values of `before`, or have
/// their defaults. Every wrong parameter becomes a fault.
fn settings(
    path: &ComponentPath,
    class: &Class,
    before: Option<&Settings>,
    given: &[(&str, &Scalar)],
    faults: &mut Vec<Fault>,
) -> Option<Settings> {
    let mut settings = before
        .cloned()
        .unwrap_or_else(|| Settings::defaults(class.parameters));
    let faults_before = faults.len();
    for (name, value) in given {
        if let Err(error) = settings.set(class.parameters, name, value) {
            faults.push(Fault::of_setting(path, class, &error));
        }
    }
    (faults.len() == faults_before).then_some(settings)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(path: &[&str], value: Scalar) -> Change {
        Change::new(ComponentPath::new(path.iter().copied()), value)
    }

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.to_owned())
    }

    fn faults(changes: &[Change]) -> Vec<String> {
        let faults = Plan::check(changes).unwrap_err();
        faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn a_plan_shows_what_was_asked_and_every_default() {
        let plan = Plan::check(&[
            change(&["port", "wan", "rate"], text("100 Mbit")),
            change(&["port", "wan", "discipline", "kind"], text("fifo")),
            change(
                &["port", "wan", "discipline", "limit"],
                Scalar::Integer(100),
            ),
        ])
        .unwrap();
        let is_of_layer = |path: &String| LAYERS.iter().any(|l| path.starts_with(l.section.key));
        let shown: Vec<_> = plan
            .shown()
            .iter()
            .filter(|(path, _)| !is_of_layer(path))
            .map(|(p, v)| format!("{p}={v}"))
            .collect();
        assert_eq!(
            shown,
            [
                "age_max=1 s",
                "bypass_default_route=false",
                "bypass_netfilter=false",
                "bypass_rules=false",
                "bypass_tc=false",
                "fpm=",
                "kernel_change=hand_back",
                "mark=0x77656972/0xffffffff",
                "mode=routed",
                "netfilter_change=unset",
                "page=",
                "pool=0",
                "port.wan.direction=out",
                "port.wan.discipline.kind=fifo",
                "port.wan.discipline.limit=100",
                "port.wan.framing=auto",
                "port.wan.interface=wan",
                "port.wan.kind=ethernet",
                "port.wan.local_share=0.5",
                "port.wan.mpu=auto",
                "port.wan.overhead=ethernet",
                "port.wan.rate=100 Mbit",
                "port.wan.rate_base=0 bit",
                "port.wan.rate_interval=20 ms",
                "port.wan.rate_least=1 Mbit",
                "port.wan.rate_most=1 Gbit",
                "port.wan.rate_of=",
                "port.wan.rate_threshold=8 ms",
                "port.wan.reflectors=",
                "port.wan.source_check=kernel",
                "redirect.addresses=",
                "redirect.bc=22500000",
                "redirect.be=0",
                "redirect.burst=15000 B",
                "redirect.classes=true",
                "redirect.flow_control=false",
                "redirect.groups=224.0.0.0/24 ff02::/16",
                "redirect.hop_limit=false",
                "redirect.multicast=false",
                "redirect.neighbours=false",
                "redirect.next_hop=false",
                "redirect.no_route=false",
                "redirect.peers=",
                "redirect.router_alert=false",
                "redirect.too_big=false",
                "redirect.ts=1.5 s",
                "socket=/run/weir/weir.sock",
                "watchdog=1 s",
            ]
        );
    }

    #[test]
    fn what_goes_to_a_control_element_is_checked() {
        let address = change(&["redirect", "addresses"], text("10.0.0.1"));
        let wan = change(&["port", "wan", "rate"], text("100 Mbit"));
        let plan = Plan::check(&[wan.clone(), address.clone()]).unwrap();
        assert_eq!(plan.redirect.policy.addresses.len(), 1);
        let more = plan.with(&[change(&["redirect", "bc"], text("1500"))]);
        let policy = &more.unwrap().redirect.policy;
        assert_eq!(policy.addresses.len(), 1);
        assert_eq!(policy.limits.committed, weir_base::Rate::from_bps(1000));
        let wrong = change(&["redirect", "addresses"], text("10.0.0"));
        let [fault] = &faults(&[wan.clone(), wrong])[..] else {
            panic!("one fault")
        };
        assert!(fault.contains("redirect.addresses"), "{fault}");
        let mode = change(&["mode"], text("bridged"));
        let lan = change(&["port", "lan", "rate"], text("100 Mbit"));
        let fault = faults(&[wan, lan, mode, address]).remove(0);
        assert!(
            fault.contains("a bridge cannot redirect packets"),
            "{fault}"
        );
    }

    #[test]
    fn a_part_of_a_configuration_is_checked_by_itself() {
        let pool = change(&["pool"], Scalar::Integer(3)); // too few for any queue
        assert_eq!(Plan::check_part(&[pool]), Ok(()));
        let rat = change(&["port", "wan", "rat"], text("1 Mbit"));
        let faults = Plan::check_part(&[rat]).unwrap_err();
        assert!(
            faults[0].message.contains("did you mean `rate`"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_change_of_one_component_leaves_the_others() {
        let kind = |kind| change(&["port", "wan", "discipline", "kind"], text(kind));
        let limit = |n| change(&["port", "wan", "discipline", "limit"], Scalar::Integer(n));
        let rate = |rate| change(&["port", "wan", "rate"], text(rate));
        let plan = Plan::check(&[kind("red"), limit(300), rate("9.5 Mbit")]).unwrap();
        let gentle = change(&["port", "wan", "discipline", "gentle"], Scalar::Flag(true));
        assert_eq!(plan.with(&plan.changes()), Ok(plan.clone()));
        let changed = plan.with(&[limit(400), gentle.clone()]).unwrap();
        let shown = changed.shown();
        let of = |name: &str| shown[&format!("port.wan.{name}")].as_str();
        assert_eq!((of("discipline.limit"), of("rate")), ("400", "9.5 Mbit"));
        assert_eq!(
            (of("discipline.kind"), of("discipline.gentle")),
            ("red", "true")
        );
        // Another kind starts with its defaults, except for the parameters in the same changes.
        for changes in [[kind("fifo"), limit(7)], [limit(7), kind("fifo")]] {
            let fifo = plan.with(&changes).unwrap();
            assert_eq!(fifo.shown()["port.wan.discipline.limit"], "7");
        }
        let faults = |changes: &[Change]| plan.with(changes).unwrap_err()[0].to_string();
        assert!(faults(&[kind("fifo"), gentle]).contains("unknown key `gentle`"));
        let near = faults(&[change(&["port", "wam", "rate"], text("1 Mbit"))]);
        assert_eq!(
            near,
            "port.wam.rate: there is no port `wam`; did you mean `wan`?"
        );
        assert!(faults(&[rate("fast")]).contains("must be a rate"));
    }

    /// [`Plan::with`], implemented by way of the whole plan as text.
    fn with_rendered(plan: &Plan, changes: &[Change]) -> Result<Plan, Vec<Fault>> {
        let faults: Vec<_> = changes
            .iter()
            .filter_map(|c| plan.no_instance(&c.path))
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut all = plan.changes();
        let others = changes.iter().filter(|change| !is_kind(change));
        for change in changes.iter().filter(|c| is_kind(c)).chain(others) {
            if is_kind(change) && !all.contains(change) {
                all.retain(|c| c.path.parent() != change.path.parent());
            }
            all.retain(|c| c.path != change.path);
            all.push(change.clone());
        }
        Plan::check(&all)
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let paths: Vec<Vec<&str>> = [
            "mode",
            "pool",
            "watchdog",
            "mod",
            "port",
            "port.a",
            "port.a.rate",
            "port.b.rate",
            "port.c.rate",
            "port.a.interface",
            "port.b.interface",
            "port.b.local_share",
            "port.a.discipline",
            "port.a.disc.limit",
            "port.a.discipline.kind",
            "port.a.discipline.limit",
            "port.a.discipline.min_threshold",
            "port.a.discipline.max_threshold",
            "port.a.discipline.weight",
            "port.b.discipline.kind",
            "port.b.discipline.target",
            "port.b.discipline.limit",
            "port.b.discipline.interval",
            "x.discipline.kind",
        ]
        .iter()
        .map(|path| path.split('.').collect())
        .collect();
        const WORDS: &[&str] = &[
            "red",
            "codel",
            "fifo",
            "fq_codel",
            "nonsense",
            "a",
            "b",
            "",
            "7 packets",
            "2 ms",
            "1/3",
            "9.5 Mbit",
            "bridged",
            "routed",
            "3 s",
            "0.3",
        ];
        let value = prop_oneof![
            8 => proptest::sample::select(WORDS).prop_map(text),
            2 => (0..2000_i64).prop_map(Scalar::Integer),
            1 => (0.0..1.5_f64).prop_map(Scalar::Real),
            1 => any::<bool>().prop_map(Scalar::Flag),
        ];
        (proptest::sample::select(paths), value).prop_map(|(path, value)| change(&path, value))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// A check block by block has the same result as writing the plan out, changing it and checking it as a whole.
        #[test]
        fn a_change_is_checked_as_the_whole_plan_would_be(
            steps in proptest::collection::vec(proptest::collection::vec(any_change(), 1..5), 1..6),
        ) {
            let kind = |port, kind| change(&["port", port, "discipline", "kind"], text(kind));
            let mut plan = Plan::check(&[kind("a", "red"), kind("b", "codel")]).unwrap();
            for changes in steps {
                let changed = plan.with(&changes);
                prop_assert_eq!(&changed, &with_rendered(&plan, &changes));
                plan = changed.unwrap_or(plan);
            }
        }
    }

    #[test]
    fn a_fault_has_the_code_of_a_peer() {
        let plan = Plan::check(&[Change::block(ComponentPath::new(["port", "wan"]))]).unwrap();
        let code = |path: &[&str], value: &str| {
            let faults = plan.with(&[change(path, text(value))]).unwrap_err();
            faults[0].code
        };
        let rate = |port| code(&["port", port, "rate"], "fast");
        assert_eq!(rate("wan"), ResultCode::ValueOutOfRange);
        assert_eq!(rate("lan"), ResultCode::InstanceNotFound);
        assert_eq!(code(&["port", "wan", "rat"], ""), ResultCode::InvalidPath);
        assert_eq!(code(&["port", "wan", "state"], "up"), ResultCode::ReadOnly);
        let gauge = ["port", "wan", "discipline", "dropped"];
        assert_eq!(code(&gauge, "0"), ResultCode::ReadOnly);
        assert_eq!(code(&["pool"], "1 packets"), ResultCode::InvalidParameters);
    }

    #[test]
    fn every_fault_has_its_remedy() {
        let faults = faults(&[
            change(&["mod"], text("routed")),
            change(&["port", "wan", "rate"], text("fast")),
            change(&["port", "wan", "discipline", "kind"], text("fifi")),
            change(&["ports", "wan", "rate"], text("1 Mbit")),
        ]);
        assert_eq!(
            faults,
            [
                "ports: unknown key `ports`; did you mean `port`?",
                "mod: unknown key `mod`; did you mean `mode`?",
                "port.wan.rate: `rate` is \"fast\", but must be a rate from \"0 bit\" to \"400 Gbit\", or \
                 \"auto\" (units: bit, kbit, Mbit, Gbit), like \"95 Mbit\"",
                "port.wan.discipline.kind: unknown discipline `fifi`; did you mean `fifo`?",
            ]
        );
    }

    #[test]
    fn queues_that_could_starve_the_pool_are_refused() {
        let faults = faults(&[
            change(&["pool"], Scalar::Integer(1800)),
            change(&["port", "wan", "discipline", "kind"], text("fifo")),
            change(
                &["port", "wan", "discipline", "limit"],
                Scalar::Integer(1000),
            ),
        ]);
        assert!(faults[0].contains("at least 1832"), "{faults:?}");
    }

    #[test]
    fn an_empty_block_is_a_port_with_every_default() {
        let lan = Change::block(ComponentPath::new(["port", "lan"]));
        let plan = Plan::check(&[lan]).unwrap();
        assert_eq!(plan.ports[0].name, "lan");
        assert_eq!(plan.ports[0].discipline.kind(), queue::KIND_DEFAULT);
        let number = change(&["port", "lan"], Scalar::Integer(3));
        assert!(faults(&[number])[0].contains("must be a section: [port.lan]"));
        let discipline = |kind| faults(&[change(&["port", "lan", "discipline"], text(kind))]);
        let expected = "write discipline = { kind = \"fifo\" }";
        assert!(discipline("fifo")[0].contains(expected));
        assert!(discipline("fq_codle")[0].contains("{ kind = \"fq_codel\" }"));
        assert!(discipline("pie")[0].contains("`codel`"));
        let block = Change::block(ComponentPath::new(["wan"]));
        assert!(faults(&[block])[0].contains("unknown key `wan`"));
    }

    #[test]
    fn a_port_has_a_name_that_can_be_printed() {
        for name in ["", "a\nb", "a b", "\u{1b}[2J", &"x".repeat(65)] {
            let faults = faults(&[Change::block(ComponentPath::new(["port", name]))]);
            assert!(faults[0].contains("like [port.wan]"), "{faults:?}");
        }
        let dotted = Change::block(ComponentPath::new(["port", "eth0.100"]));
        assert!(Plan::check(&[dotted]).is_ok());
    }

    #[test]
    fn a_port_of_processes_has_nothing_that_needs_a_link() {
        let with = |key: &str, value: &str| {
            let kind = change(&["port", "own", "kind"], text("tun"));
            faults(&[kind, change(&["port", "own", key], text(value))]).join("\n")
        };
        for (key, value, expected) in [
            (
                "rate",
                "10 Mbit",
                "port.own.rate: a port of kind \"tun\" has no rate",
            ),
            (
                "source_check",
                "loose",
                "port.own.source_check: a port of kind \"tun\" has no source check",
            ),
            (
                "interface",
                "weir%d",
                "port.own.interface: \"weir%d\" cannot be the name of an interface that the router creates",
            ),
        ] {
            let faults = with(key, value);
            assert!(faults.starts_with(expected), "{faults}");
        }
        let by = |reflectors| {
            [
                change(&["mode"], text("bridged")),
                change(&["port", "a", "rate"], text("auto")),
                change(&["port", "a", "reflectors"], text(reflectors)),
                Change::block(ComponentPath::new(["port", "b"])),
            ]
        };
        assert!(Plan::check(&by("traffic")).is_ok());
        let auto = faults(&by("192.0.2.1 traffic"));
        assert!(
            auto[0].starts_with("port.a.rate: a bridge has no address"),
            "{auto:?}"
        );
        let mut queue = by("traffic").to_vec();
        queue[0] = change(&["mode"], text("queue"));
        let blind = faults(&queue);
        assert!(
            blind[0].contains("needs the received acknowledgments"),
            "{blind:?}"
        );
        queue.extend([
            change(&["port", "b", "interface"], text("a")),
            change(&["port", "b", "direction"], text("in")),
        ]);
        assert!(Plan::check(&queue).is_ok());
        queue.push(change(&["port", "b", "rate"], text("auto")));
        let auto = faults(&queue);
        assert!(
            auto[0].starts_with("port.b.rate: \"auto\" finds the rate of sent frames"),
            "{auto:?}"
        );
        let tun = change(&["port", "a", "kind"], text("tun"));
        let bridged = [change(&["mode"], text("bridged")), tun];
        let other = Change::block(ComponentPath::new(["port", "b"]));
        let faults = faults(&[&bridged[..], &[other]].concat());
        assert!(
            faults[0].starts_with("port.a.kind: a bridge cannot have"),
            "{faults:?}"
        );
    }

    #[test]
    fn ports_share_a_rate_and_follow_it() {
        let set = |port, key, value| change(&["port", port, key], text(value));
        let shared = [
            set("a", "rate", "95 Mbit"),
            set("b", "rate_of", "a"),
            set("c", "rate_of", "a"),
        ];
        let rates = |plan: &Plan| -> Vec<_> {
            let rates = plan.ports.iter().map(|port| port.rate.map(Rate::as_bps));
            rates.collect()
        };
        let plan = Plan::check(&shared).unwrap();
        assert_eq!(rates(&plan), [Some(95_000_000); 3]);
        let plan = plan.with(&[set("a", "rate", "50 Mbit")]).unwrap();
        assert_eq!(rates(&plan), [Some(50_000_000); 3]);
        let own = [set("c", "rate_of", ""), set("c", "rate", "1 Mbit")];
        let plan = plan.with(&own).unwrap();
        assert_eq!(
            rates(&plan),
            [Some(50_000_000), Some(50_000_000), Some(1_000_000)]
        );
        for (port, key, value, expected) in [
            ("b", "rate_of", "d", "there is no port `d`"),
            (
                "b",
                "rate_of",
                "c",
                "the port `c` shares the rate of `a` itself",
            ),
            (
                "b",
                "rate_of",
                "b",
                "the port `b` shares the rate of `b` itself",
            ),
            ("b", "rate", "1 Mbit", "remove `rate` or `rate_of`"),
            ("a", "rate", "0 bit", "set port.a.rate"),
            ("a", "rate", "auto", "cannot be shared"),
        ] {
            let plan = Plan::check(&shared).unwrap();
            let reflectors = set("a", "reflectors", "192.0.2.1");
            let faults = plan.with(&[reflectors, set(port, key, value)]);
            let found = faults.unwrap_err()[0].to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn blocks_must_agree() {
        let fifo = |port| change(&["port", port, "discipline", "kind"], text("fifo"));
        assert!(faults(&[])[0].contains("no port"));
        let bridged = [change(&["mode"], text("bridged")), fifo("a")];
        assert!(faults(&bridged)[0].contains("two ports"));
        let twice = [
            fifo("a"),
            fifo("b"),
            change(&["port", "b", "interface"], text("a")),
        ];
        assert!(faults(&twice)[0].contains("already"));
    }
}
