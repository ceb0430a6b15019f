//! Routes of routing suites: a thread for each `[router.NAME]` follows the kernel of the suite's network namespace, and
//! zebra by FPM.
//!
//! ```text
//!  kernel --netlink--> thread: protocols and TAPs of the router --> changes --> task of the control element
//! ```
//!
//! If a next-hop object of the suite changes, the routes that shift with it are reported first: it takes seconds to find all
//! of them in a full table.
//!
//! Changes wait in one map for each router, in which a newer change of a prefix replaces an older one. So a suite whose
//! routes change faster than the FEs take them costs no more memory than its routes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use weir_ce::contract::SuiteReport;
use weir_ce::explain::{Destination, SuiteRoute, SuiteView, Withheld};
use weir_ce::route::{Hop, LearntRecord, LearntRoute, Shift};
use weir_ce::router::RouterPlan;
use weir_live::kernel::follow;
use weir_live::kernel::fpm::Fpm;
use weir_live::kernel::tables::TableState;
use weir_live::mutex::lock;
use weir_model::class::{Cell, Layout, Type, Unit};
use weir_model::column::{self, Column, Row, components};
use weir_model::target::HOPS_MAX;
use weir_model::{Class, Component, Discard, Target, Value};
use weir_path::ip::tables::{Action, NextHop, Route, Tables};

use super::taps::within;

/// Time until the kernel is followed again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Time for a suite that has just started, and whose TAPs are new, to find its routes. Until then the FE keeps others.
const HOLD: Duration = Duration::from_secs(120);
/// Maximum prefixes that are remembered because the FE gets their route in a different form, or not at all.
const DIFFERING_MAX: usize = 1024;

/// The routing suites of a control element.
#[derive(Debug, Default)]
pub(super) struct Suites {
    changed: Arc<Notify>,
    all: Vec<Arc<Suite>>,
}

#[derive(Debug)]
struct Suite {
    plan: RouterPlan,
    /// The FE's ports by the names of their TAPs.
    ports: BTreeMap<String, Arc<str>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Routes that have shifted with their next-hop objects, which the control element has not taken.
    shifts: Vec<Shift>,
    /// Changes that the control element has not taken.
    waiting: BTreeMap<IpNet, Option<LearntRoute>>,
    /// Whether `waiting` has all routes.
    is_all: bool,
    /// Whether the suite has found all of its routes, which the control element has not heard.
    is_complete: bool,
    /// Prefixes whose route the FE gets in a different form, or not at all, with the reason.
    differing: BTreeMap<IpNet, &'static str>,
    trouble: Option<String>,
    /// The latest tables of the kernel and of zebra. They share unchanged parts with the followed tables.
    tables: Tables,
    /// Whether the kernel has been read since the start of the control element.
    is_followed: bool,
}

/// News of a suite.
#[derive(Debug)]
pub(super) struct News<'a> {
    /// Name of the FE.
    pub(super) fe: &'a str,
    /// Changed routes, or all of them.
    pub(super) routes: Vec<LearntRecord>,
    /// Routes that have shifted after that. The next changes have each of them.
    pub(super) shifts: Vec<Shift>,
    /// Whether these are all routes of the suite.
    pub(super) is_all: bool,
    /// Whether the suite has found all of its routes now.
    pub(super) is_complete: bool,
}

impl Suites {
    /// Starts the threads. The ports of each router have the names of their TAPs.
    pub(super) fn start(
        plans: impl IntoIterator<Item = (RouterPlan, BTreeMap<String, Arc<str>>)>,
    ) -> io::Result<Self> {
        let mut suites = Self::default();
        for (plan, ports) in plans {
            let suite = Arc::new(Suite {
                plan,
                ports,
                state: Mutex::default(),
            });
            suites.all.push(Arc::clone(&suite));
            let changed = Arc::clone(&suites.changed);
            let name = "weir-suite".to_owned();
            thread::Builder::new().name(name).spawn(move || {
                loop {
                    let why = suite.follow(&changed);
                    let trouble = &mut lock(&suite.state).trouble;
                    if trouble.as_ref() != Some(&why) {
                        let router = &suite.plan.name;
                        tracing::error!(router, why, "cannot follow the routes of a routing suite");
                        *trouble = Some(why);
                    }
                    thread::sleep(RETRY);
                }
            })?;
        }
        Ok(suites)
    }

    /// Waits until [`Self::take`] has something.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The changes since the last call.
    pub(super) fn take(&self) -> impl Iterator<Item = News<'_>> {
        self.all.iter().filter_map(|suite| {
            let mut state = lock(&suite.state);
            let is_all = std::mem::take(&mut state.is_all);
            let waiting = std::mem::take(&mut state.waiting);
            let shifts = std::mem::take(&mut state.shifts);
            let is_complete = std::mem::take(&mut state.is_complete);
            drop(state);
            let is_empty = waiting.is_empty() && shifts.is_empty() && !is_all && !is_complete;
            (!is_empty).then(|| News {
                fe: &suite.plan.fe,
                routes: waiting.into_iter().collect(),
                shifts,
                is_all,
                is_complete,
            })
        })
    }

    /// The rows of [`ROUTERS`].
    pub(super) fn rows(&self) -> Value {
        let guards = self.all.iter().map(|suite| (suite, lock(&suite.state)));
        let views: Vec<_> = guards.collect();
        let views = views.iter().map(|(suite, state)| (&suite.plan, &**state));
        column::rows(COLUMNS, views)
    }

    fn of(&self, fe: &str) -> Option<&Suite> {
        let found = self.all.iter().find(|suite| suite.plan.fe == fe);
        found.map(|suite| &**suite)
    }

    /// The report of the suite of an FE.
    pub(super) fn report(&self, fe: &str) -> Option<SuiteReport> {
        let suite = self.of(fe)?;
        let state = lock(&suite.state);
        let known = state.tables.neighbours.iter();
        let known = known.filter(|((_, address), _)| !address.is_multicast());
        let neighbours = known.filter_map(|((interface, address), neighbour)| {
            let interface = state.tables.interfaces.get(interface)?;
            let port = suite.ports.get(&interface.name)?;
            Some((Arc::clone(port), *address, neighbour.mac().is_some()))
        });
        Some(SuiteReport {
            router: suite.plan.name.clone(),
            namespace: suite.plan.namespace.clone(),
            differing: state.differing.len() as u64,
            first_differing: state.first_differing(),
            trouble: state.trouble.clone(),
            neighbours: neighbours.collect(),
        })
    }

    /// The route of the suite of an FE for a destination.
    pub(super) fn view(&self, fe: &str, destination: Destination) -> Option<SuiteView> {
        let suite = self.of(fe)?;
        let state = lock(&suite.state);
        let found = match destination {
            Destination::Address(address) => state.tables.route(address),
            Destination::Prefix(prefix) => {
                state.tables.route_of(prefix).map(|route| (prefix, route))
            }
        };
        let found = found.filter(|(_, route)| route.action != Action::Reserved);
        let route = found.map(|(prefix, route)| SuiteRoute {
            prefix,
            protocol: route.protocol,
            shown: shown(&state.tables, route),
            withheld: suite.learnt(&state.tables, &prefix, route).err(),
            is_waiting: state.waiting.contains_key(&prefix),
        });
        Some(SuiteView {
            router: suite.plan.name.clone(),
            namespace: suite.plan.namespace.clone(),
            route: match &state.trouble {
                Some(why) => Err(why.clone()),
                None => Ok(route),
            },
        })
    }
}

/// A route as in `ip route`, without prefix and protocol.
fn shown(tables: &Tables, route: &Route) -> String {
    let hop = |hop: &NextHop| {
        let interface = tables.interfaces.get(&hop.interface);
        let interface = interface.map_or("?", |interface| &interface.name);
        match hop.gateway {
            Some(gateway) => format!("via {gateway} dev {interface}"),
            None => format!("dev {interface}"),
        }
    };
    let target = match &route.action {
        Action::Forward(hops) => hops.iter().map(hop).collect::<Vec<_>>().join(", "),
        Action::Local => "local".to_owned(),
        Action::Blackhole => Discard::Blackhole.word().to_owned(),
        Action::Unreachable => Discard::Unreachable.word().to_owned(),
        Action::Prohibit => Discard::Prohibit.word().to_owned(),
        Action::Throw | Action::Reserved => "throw".to_owned(),
        Action::BySource(_) => "by source".to_owned(),
    };
    format!("{target} metric {}", route.metric)
}

impl State {
    fn first_differing(&self) -> Option<String> {
        let (prefix, why) = self.differing.first_key_value()?;
        Some(format!("{prefix}: {why}"))
    }
}

impl Suite {
    /// Follows the kernel of the namespace; returns when that is no longer possible.
    fn follow(&self, changed: &Notify) -> String {
        let run = || -> io::Result<Infallible> {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let context = runtime.enter();
            let fpm = self.plan.fpm.map(Fpm::listen).transpose();
            let fpm = fpm.map_err(io::Error::other)?.map(Fpm::without_answers);
            drop(context);
            let publish = |state: &mut TableState| {
                let shifts = self.shifts(state);
                if !shifts.is_empty() {
                    lock(&self.state).shifts.extend(shifts);
                    changed.notify_one();
                }
                self.publish(state);
                changed.notify_one();
            };
            runtime.block_on(async {
                tokio::select! {
                    ended = follow::follow(fpm, publish) => ended.map_err(io::Error::other),
                    () = self.hold(changed) => unreachable!("it waits forever"),
                }
            })
        };
        match within(self.plan.namespace.as_deref(), run) {
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Declares the routes complete after [`HOLD`], and waits forever.
    async fn hold(&self, changed: &Notify) {
        tokio::time::sleep(HOLD).await;
        lock(&self.state).is_complete = true;
        changed.notify_one();
        std::future::pending().await
    }

    /// The targets that have shifted with their next-hop objects.
    fn shifts(&self, tables: &TableState) -> Vec<Shift> {
        let mut all: Vec<Shift> = Vec::new();
        for moved in tables.moved_routes() {
            let hops = moved.before.action.next_hops();
            let is_v6 = hops.filter_map(|hop| hop.gateway).any(|g| g.is_ipv6());
            let any = if is_v6 {
                Ipv6Net::default().into()
            } else {
                IpNet::default()
            };
            let target = |route| self.learnt(tables.tables(), &any, route);
            let (Ok((before, _)), Ok((after, _))) = (target(&moved.before), target(&moved.after))
            else {
                continue;
            };
            let [before, after] = [before, after].map(|route| route.target);
            // Routes with the same next hops may differ otherwise.
            match all
                .iter_mut()
                .find(|s| s.before == before && s.after == after)
            {
                Some(shift) => shift.routes += moved.prefixes,
                None => all.push(Shift {
                    before,
                    after,
                    routes: moved.prefixes,
                }),
            }
        }
        all
    }

    fn publish(&self, tables: &mut TableState) {
        let changed = tables.take_changed();
        let is_all = changed.is_none();
        let mut new = State::default();
        for prefix in changed.iter().flatten() {
            let route = tables.active(prefix);
            self.note(&mut new, tables.tables(), *prefix, route.as_ref());
        }
        if is_all {
            for (prefix, route) in tables.tables().routes() {
                self.note(&mut new, tables.tables(), prefix, Some(route));
            }
            new.waiting.retain(|_, route| route.is_some());
        }
        let mut state = lock(&self.state);
        state.trouble = None;
        state.tables = tables.tables().clone();
        if is_all {
            // An earlier control element has left the TAPs, so the kernel has what the suite has found.
            if !state.is_followed && self.plan.fpm.is_none() && self.has_taps(tables) {
                state.is_complete = true;
            }
            (state.is_followed, state.is_all) = (true, true);
            (state.waiting, state.differing) = (new.waiting, new.differing);
        } else {
            state
                .differing
                .retain(|prefix, _| !new.waiting.contains_key(prefix));
            let room = DIFFERING_MAX.saturating_sub(state.differing.len());
            state.differing.extend(new.differing.into_iter().take(room));
            state.waiting.extend(new.waiting); // `append` would visit all that wait
        }
    }

    /// Whether the TAPs of all ports exist.
    fn has_taps(&self, tables: &TableState) -> bool {
        let interfaces = &tables.tables().interfaces;
        let exists = |name: &String| interfaces.values().any(|found| found.name == *name);
        self.ports.keys().all(exists)
    }

    fn note(&self, state: &mut State, tables: &Tables, prefix: IpNet, route: Option<&Route>) {
        let (learnt, differing) = match route.map(|route| self.learnt(tables, &prefix, route)) {
            Some(Ok((learnt, differing))) => (Some(learnt), differing),
            Some(Err(withheld)) => (None, withheld.differing()),
            None => (None, None),
        };
        if let Some(why) = differing.filter(|_| state.differing.len() < DIFFERING_MAX) {
            state.differing.insert(prefix, why);
        }
        state.waiting.insert(prefix, learnt);
    }

    /// The route that the FE gets, and why the kernel's route differs; or why the FE gets none.
    fn learnt(
        &self,
        tables: &Tables,
        prefix: &IpNet,
        route: &Route,
    ) -> Result<(LearntRoute, Option<&'static str>), Withheld> {
        let is_local = match prefix.addr() {
            IpAddr::V4(a) => a.is_link_local() || a.is_loopback() || a.is_multicast(),
            IpAddr::V6(a) => a.is_unicast_link_local() || a.is_loopback() || a.is_multicast(),
        };
        let learnt = |target| LearntRoute {
            metric: route.metric,
            protocol: route.protocol,
            target,
        };
        let discard = |discard| Ok((learnt(Target::Discard(discard)), None));
        let hops = match &route.action {
            Action::Local if self.is_of_tap(tables, prefix) => return Err(Withheld::Redirected),
            Action::Local | Action::Throw | Action::Reserved => return Err(Withheld::Own),
            _ if is_local && prefix.prefix_len() > 0 => return Err(Withheld::Own),
            _ if !self.plan.protocols.contains(&route.protocol) => return Err(Withheld::Protocol),
            Action::Forward(hops) => hops,
            Action::Blackhole => return discard(Discard::Blackhole),
            Action::Unreachable => return discard(Discard::Unreachable),
            Action::Prohibit => return discard(Discard::Prohibit),
            Action::BySource(_) => return Err(Withheld::BySource),
        };
        let hop = |hop: &NextHop| {
            let interface = tables.interfaces.get(&hop.interface)?;
            let port = Arc::clone(self.ports.get(&interface.name)?);
            let is_same = |a: &IpAddr| a.is_ipv4() == prefix.addr().is_ipv4();
            let gateway = hop.gateway;
            let weight = u16::try_from(hop.weight).unwrap_or(u16::MAX);
            let is_possible = gateway.as_ref().is_none_or(is_same);
            is_possible.then_some((Hop { gateway, port }, weight))
        };
        let own: Vec<_> = hops.iter().filter_map(hop).collect();
        let differing = match own.len() {
            some if some < hops.len() => {
                Some("some next hops through no TAP of the FE, or of another family")
            }
            _ if own
                .iter()
                .any(|(_, weight)| usize::from(*weight) > HOPS_MAX) =>
            {
                Some("a weight above 256, which counts as 256")
            }
            all if all > HOPS_MAX => Some("more than 256 next hops"),
            _ => None,
        };
        let target = Target::of_hops(own).ok_or(Withheld::NoTap)?;
        Ok((learnt(target), differing))
    }

    /// Whether a prefix is an address of a TAP of the FE.
    fn is_of_tap(&self, tables: &Tables, prefix: &IpNet) -> bool {
        let taps = tables.interfaces.values();
        let taps = taps.filter(|interface| self.ports.contains_key(&interface.name));
        let mut addresses = taps.flat_map(|tap| &tap.addresses);
        addresses.any(|address| IpNet::from(address.net.addr()) == *prefix)
    }
}

/// A row of the table.
struct Router;

impl Row for Router {
    type View<'a> = (&'a RouterPlan, &'a State);
}

/// The routing suites that route for FEs.
pub(super) static ROUTERS: Class = Class {
    name: "routers",
    id: 0x00F7_0323,
    about: "the routing suites that route for forwarding elements",
    key: &["router"],
    components: &components::<Router, { COLUMNS.len() }>(COLUMNS),
    layout: Layout {
        empty: "No routing suite routes for an FE: the file has no [router.NAME].",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS: &[Column<Router>] = &[
    Component::new(1, "router", Type::Text, "north")
        .about("Name of the section.")
        .shown(&[Cell::new("ROUTER")])
        .read(|(plan, _)| plan.name.as_str().into()),
    Component::new(2, "fe", Type::Text, "edge1")
        .about("Name of the FE.")
        .shown(&[Cell::new("FE")])
        .read(|(plan, _)| plan.fe.as_str().into()),
    Component::new(3, "namespace", Type::Text, "north")
        .about("Network namespace of the suite; empty: that of the CE.")
        .shown(&[Cell::new("NAMESPACE")])
        .read(|(plan, _)| plan.namespace.as_deref().unwrap_or_default().into()),
    Component::new(4, "waiting", Type::Gauge(Unit::One), "0")
        .about("Changed routes that the CE has not taken yet.")
        .shown(&[Cell::new("WAITING")])
        .read(|(_, state)| Value::from(state.waiting.len() as u64)),
    Component::new(5, "differing", Type::Gauge(Unit::One), "1")
        .about(
            "Routes of the suite that the FE gets in a different form or not at all, at most 1024.",
        )
        .shown(&[Cell::new("DIFFERING")])
        .read(|(_, state)| Value::from(state.differing.len() as u64)),
    Component::new(
        6,
        "first_differing",
        Type::Text,
        "192.0.2.0/24: depends on the source",
    )
    .about("The first of them, with the reason.")
    .shown(&[Cell::new("FIRST DIFFERING")])
    .read(|(_, state)| state.first_differing().unwrap_or_default().into()),
    Component::new(
        7,
        "trouble",
        Type::Text,
        "cannot enter the network namespace `north`",
    )
    .about("Why the routes cannot be followed; empty if they are.")
    .shown(&[Cell::new("TROUBLE")])
    .read(|(_, state)| state.trouble.as_deref().unwrap_or_default().into()),
];
