//! The table `network`: each FE with its ports, routes, next hops, and differences from its desired state, as the FE
//! reports them at the time of the request.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weir_base::{Instant, Span};
use weir_lfb::named::Named;
use weir_model::class::{Cell, Form, Layout, Type, Unit};
use weir_model::column::{self, Column, Row, components};
use weir_model::{Class, Component, ElementPath, Value};
use weir_protocol::wire::{Id, OperationKind, PathData};

use super::Control;
use super::continuation::{Answers, Then};
use super::member::Fe;
use super::sync::{Paths, number};
use super::tables::{NAME_OF_FE, NUMBER, state};
use crate::contract::{Answer, Refusal, SuiteReport, Ticket};
use crate::directory::FE_PROTOCOL;
use crate::leaf::Leaf;
use crate::router::protocol_word;
use crate::settings;

/// The component of the FE protocol object with the ID of the FE's master (CEID, RFC 5810, appendix B).
pub(super) const MASTER: u32 = 8;

impl Control {
    /// Reads an FE for its row in [`NETWORK`].
    pub(super) fn overview(
        &mut self,
        now: Instant,
        ticket: Ticket,
        fe: &str,
        suite: Option<SuiteReport>,
    ) {
        let fe = match self.named(fe) {
            Ok(fe) => fe,
            Err(refusal) => return self.answer(ticket, Err(refusal)),
        };
        let id = fe.id;
        let then = Then::Overview(ticket, id, suite.map(Box::new));
        match self.paths_of_overview(fe) {
            Ok(paths) => self.query(now, id, paths, then),
            Err(why) => self.proceed(now, then, Err(Refusal::Silent(why))),
        }
    }

    fn paths_of_overview(&self, fe: &Fe) -> Result<Paths, String> {
        if !fe.is_associated() || fe.directory.blocks.is_empty() {
            return Ok(Vec::new());
        }
        let mut paths = self.reads(fe)?;
        let master = PathData::bare(vec![MASTER]).map_err(|e| e.to_string())?;
        paths.push((FE_PROTOCOL, OperationKind::Get, master));
        paths.extend(Self::paths_of_tables(fe, &["ports", "neighbours"]).unwrap_or_default());
        Ok(paths)
    }

    /// Answers with the row of an FE that has answered, or not.
    pub(super) fn overview_read(
        &mut self,
        now: Instant,
        ticket: Ticket,
        id: Id,
        suite: Option<&SuiteReport>,
        answers: Answers,
    ) {
        let Some(fe) = self.fes.get(&id) else {
            let gone = Refusal::Silent(format!("{} is no longer configured", self.shown(id)));
            return self.answer(ticket, Err(gone));
        };
        let (leaves, mut trouble) = match answers {
            Ok(leaves) => (leaves, None),
            Err(refusal) => (Vec::new(), Some(refusal.to_string())),
        };
        let has_answered = fe.is_associated() && trouble.is_none();
        // Each setting is read by itself, a table as a whole.
        let is_table = |leaf: &Leaf| !settings::is_ours(leaf) || leaf.ids.is_empty();
        let (tables, single): (Vec<Leaf>, Vec<Leaf>) = leaves.into_iter().partition(is_table);
        let mut rows = |name| {
            let rows = self.table_of(id, name, &tables);
            rows.unwrap_or_else(|refusal| {
                trouble.get_or_insert(refusal.to_string());
                Vec::new()
            })
        };
        let (ports, neighbours) = (rows("ports"), rows("neighbours"));
        let mut differences = Vec::new();
        if has_answered {
            let done = self.differences(fe, &single, &tables, &mut differences);
            trouble = trouble.or(done.err());
        }
        let overview = Overview {
            fe,
            since: fe.since.map(|since| now.since(since)),
            peer: self.peer_of(id),
            master: number(&tables, MASTER)
                .map(|master| master == u64::from(self.params.session.id.0)),
            why: state(fe).1.cloned().or(trouble),
            suite,
            next_hops: fe.next_hops(suite, &ports, &neighbours),
            ports,
            differences,
        };
        self.answer(ticket, Ok(Answer::Value(column::row(COLUMNS, &overview))));
    }

    fn peer_of(&self, id: Id) -> Option<&str> {
        let (_, link) = self.ce.fes().find(|(fe, _)| *fe == id)?;
        Some(&self.peers.get(&link)?.address)
    }

    /// Adds the components that differ from the desired state. The error is why some of them cannot be compared.
    fn differences(
        &self,
        fe: &Fe,
        settings: &[Leaf],
        others: &[Leaf],
        all: &mut Vec<Difference>,
    ) -> Result<(), String> {
        let mut done = Ok(());
        for (path, edit, actual) in self.differing(fe, settings.iter().chain(others)) {
            match edit {
                Ok(edit) if edit.path.selector().is_some() => continue, // cannot be compared
                Ok(_) => {}
                Err(refusal) => done = done.and(Err(refusal.to_string())),
            }
            let at = ElementPath {
                fe: fe.name.clone(),
                path: path.clone(),
            };
            all.push(Difference {
                path: at.to_string(),
                desired: fe.components.get(path).cloned(),
                actual: actual.map(|value| value.to_string()),
            });
        }
        if settings::is_router(&fe.directory) {
            let actual = settings::in_force(&self.codec, &mut fe.directory.clone(), settings)?;
            let (actual, desired) = (actual.shown(), fe.target(&actual)?.shown());
            let paths: BTreeSet<&String> = actual.keys().chain(desired.keys()).collect();
            let differs = paths
                .into_iter()
                .filter(|path| actual.get(*path) != desired.get(*path));
            all.extend(differs.map(|path| Difference {
                path: format!("{}:{path}", fe.name),
                desired: desired.get(path).cloned(),
                actual: actual.get(path).cloned(),
            }));
        }
        done
    }
}

/// The row of an FE about which the CE gives no answer, for example because it was removed meanwhile.
pub fn unread(fe: &str, why: &str) -> Value {
    Component::values(NETWORK.components, |component| match component.name {
        "fe" => fe.into(),
        "state" => "unknown".into(),
        "why" => why.into(),
        _ if component.optional => Value::Absent,
        _ => Value::List(Vec::new()),
    })
}

/// Routes of one origin.
#[derive(Default)]
struct RoutesOf {
    wanted: u64,
    installed: u64,
    waiting: u64,
    standby: u64,
    refused: u64,
    first: Option<String>,
}

struct NextHopOf {
    port: String,
    address: IpAddr,
    routes: u64,
    at_suite: Option<bool>,
    /// `None` if the FE does not know the address.
    at_fe: Option<Option<String>>,
}

struct Difference {
    path: String,
    desired: Option<String>,
    actual: Option<String>,
}

impl Fe {
    /// The routes by origin and protocol.
    fn routes_by_origin(&self) -> BTreeMap<(bool, u8), RoutesOf> {
        let mut all: BTreeMap<(bool, u8), RoutesOf> = BTreeMap::new();
        let of_operators = self
            .routes
            .iter()
            .map(|((prefix, metric), _)| (prefix, *metric, None));
        let learnt = self.learnt.iter().flat_map(|learnt| &learnt.routes);
        let learnt = learnt.map(|(prefix, route)| (prefix, route.metric, Some(route.protocol)));
        for (prefix, metric, protocol) in of_operators.chain(learnt) {
            let routes = all
                .entry((protocol.is_some(), protocol.unwrap_or(0)))
                .or_default();
            routes.wanted += 1;
            let best = self.best(*prefix);
            let is_best = best.is_some_and(|(least, is_learnt, _)| {
                (least, is_learnt) == (metric, protocol.is_some())
            });
            let count = match (self.unroutable.get(prefix), is_best) {
                (_, false) => &mut routes.standby,
                (Some(why), true) => {
                    routes
                        .first
                        .get_or_insert_with(|| format!("{prefix}: {why}"));
                    &mut routes.refused
                }
                (None, true) if self.is_associated() && self.has_row(prefix) => {
                    &mut routes.installed
                }
                (None, true) => &mut routes.waiting,
            };
            *count += 1;
        }
        all
    }

    /// The next hops of the FE's routes, and the neighbours of its suite, with what the FE and the suite know of them.
    fn next_hops(
        &self,
        suite: Option<&SuiteReport>,
        ports: &[Value],
        neighbours: &[Value],
    ) -> Vec<NextHopOf> {
        let mut all: BTreeMap<(String, IpAddr), (u64, Option<bool>)> = BTreeMap::new();
        let name = |number| self.directory.names.get(&(Named::Port, number)).cloned();
        for ((gateway, port), routes) in
            self.rows.iter().flatten().flat_map(|rows| rows.next_hops())
        {
            if let (Some(gateway), Some(port)) = (gateway, name(port)) {
                all.entry((port, gateway)).or_default().0 += routes;
            }
        }
        for (port, address, answers) in suite.iter().flat_map(|suite| &suite.neighbours) {
            all.entry((port.to_string(), *address)).or_default().1 = Some(*answers);
        }
        let at_fe = |port: &str, address: &IpAddr| {
            let interface = ports
                .iter()
                .find(|row| row.text("port") == Some(port))?
                .text("interface");
            let address = address.to_string();
            let is_it = |row: &&Value| {
                row.text("interface") == interface && row.text("address") == Some(&address)
            };
            let row = neighbours.iter().find(is_it)?;
            Some(row.text("mac").map(str::to_owned))
        };
        let hop = |((port, address), (routes, at_suite)): ((String, IpAddr), _)| NextHopOf {
            at_fe: at_fe(&port, &address),
            port,
            address,
            routes,
            at_suite,
        };
        all.into_iter().map(hop).collect()
    }
}

/// An FE at one moment.
struct Overview<'a> {
    fe: &'a Fe,
    since: Option<Span>,
    peer: Option<&'a str>,
    master: Option<bool>,
    why: Option<String>,
    suite: Option<&'a SuiteReport>,
    ports: Vec<Value>,
    next_hops: Vec<NextHopOf>,
    differences: Vec<Difference>,
}

impl Row for Overview<'_> {
    type View<'a> = Overview<'a>;
}

/// The whole network of a CE. Its rows need answers of the FEs: [`Request::Network`](crate::contract::Request).
pub static NETWORK: Class = Class {
    name: "network",
    id: 0x00F7_0324,
    about: "the whole network: each forwarding element with its ports, routes, next hops, and differences from its desired state",
    key: &["fe"],
    components: &components::<Overview, { COLUMNS.len() }>(COLUMNS),
    layout: Layout {
        is_divided: true,
        empty: "No FE is configured. Add `[fe.NAME]` to the configuration of the CE.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS: &[Column<Overview>] = &[
    NAME_OF_FE.read(|row| row.fe.name.as_str().into()),
    Component::new(2, "state", Type::Text, "in sync")
        .about("`away`, `restoring`, `in sync`, `degraded` or `refused`, as in `weir show fes`; `unknown` without an answer.")
        .shown(&[Cell::new("STATE")])
        .read(|row| state(row.fe).0.into()),
    Component::new(3, "since_s", Type::Real(Unit::Seconds), "12.5")
        .optional()
        .about("Time since the FE has associated, or since its association has ended; null if it has never associated.")
        .shown(&[Cell::new("SINCE").form(Form::Elapsed)])
        .read(|row| row.since.into()),
    Component::new(4, "why", Type::Text, "the link was lost")
        .optional()
        .about("Why the FE is not associated, refuses, lacks routes or does not answer.")
        .shown(&[Cell::new("WHY")])
        .read(|row| row.why.clone().into()),
    Component::new(5, "peer", Type::Text, "quic 192.0.2.7:41234")
        .optional()
        .about("Transport and address of the FE; null without an association.")
        .shown(&[Cell::new("CHANNEL")])
        .read(|row| row.peer.map(str::to_owned).into()),
    Component::new(6, "role", Type::Text, "master")
        .optional()
        .about("Role of this CE at the FE: `master`, or `standby` while the FE obeys another CE; null if the FE has not answered.")
        .shown(&[Cell::new("ROLE OF THIS CE")])
        .read(|row| row.master.map(|is_master| if is_master { "master" } else { "standby" }).into()),
    Component::new(7, "router", Type::Text, "north")
        .optional()
        .about("The routing suite of the FE: name of its section [router.NAME].")
        .shown(&[Cell::new("ROUTER")])
        .read(|row| row.suite.map(|suite| suite.router.clone()).into()),
    Component::new(8, "namespace", Type::Text, "north")
        .optional()
        .about("Network namespace of the suite; null: that of the CE.")
        .shown(&[Cell::new("NAMESPACE")])
        .read(|row| row.suite.and_then(|suite| suite.namespace.clone()).into()),
    Component::new(9, "trouble", Type::Text, "cannot enter the network namespace `north`")
        .optional()
        .about("Why the routes of the suite cannot be read.")
        .shown(&[Cell::new("TROUBLE")])
        .read(|row| row.suite.and_then(|suite| suite.trouble.clone()).into()),
    Component::new(10, "differing", NUMBER, "1")
        .optional()
        .about("Routes of the suite that the FE gets in a different form or not at all, at most 1024; null without a suite.")
        .shown(&[Cell::new("ROUTES DIFFERING")])
        .read(|row| row.suite.map(|suite| suite.differing).into()),
    Component::new(11, "first_differing", Type::Text, "192.0.2.0/24: depends on the source")
        .optional()
        .about("The first of them, with the reason.")
        .shown(&[Cell::new("FIRST DIFFERING")])
        .read(|row| row.suite.and_then(|suite| suite.first_differing.clone()).into()),
    Component::new(12, "ports", Type::Rows(&components::<PortOf, { PORTS.len() }>(PORTS)), "")
        .about("Ports of the FE.")
        .read(|row| column::rows(PORTS, &row.ports)),
    Component::new(13, "routes", Type::Rows(&components::<RoutesRow, { ROUTES.len() }>(ROUTES)), "")
        .about("Numbers of desired routes, by origin and protocol.")
        .read(|row| column::rows(ROUTES, row.fe.routes_by_origin())),
    Component::new(14, "next_hops", Type::Rows(&components::<NextHopOf, { HOPS.len() }>(HOPS)), "")
        .about("Next hops of its routes, and neighbours of its suite.")
        .read(|row| column::rows(HOPS, &row.next_hops)),
    Component::new(15, "differences", Type::Rows(&components::<Difference, { DIFFERENCES.len() }>(DIFFERENCES)), "")
        .about("Components whose value is not the desired one.")
        .read(|row| column::rows(DIFFERENCES, &row.differences)),
];

struct PortOf;

impl Row for PortOf {
    type View<'a> = &'a Value;
}

/// A component of the FE's own row.
fn own(row: &Value, name: &str) -> Value {
    row.get(name).cloned().unwrap_or(Value::Absent)
}

const PORTS: &[Column<PortOf>] = &[
    Component::new(1, "port", Type::Text, "wan")
        .about("Name of the port.")
        .shown(&[Cell::new("PORT")])
        .read(|row| own(row, "port")),
    Component::new(2, "interface", Type::Text, "eth1")
        .about("Name of its network interface.")
        .shown(&[Cell::new("INTERFACE")])
        .read(|row| own(row, "interface")),
    Component::new(3, "state", Type::Text, "up")
        .about("`up`, `no carrier` or `down`.")
        .shown(&[Cell::new("STATE")])
        .read(|row| own(row, "state")),
    Component::new(4, "carrier", Type::Flag, "true")
        .about("Whether the link has a carrier.")
        .read(|row| own(row, "carrier")),
];

struct RoutesRow;

impl Row for RoutesRow {
    type View<'a> = ((bool, u8), RoutesOf);
}

const ROUTES: &[Column<RoutesRow>] = &[
    Component::new(1, "origin", Type::Text, "router")
        .about("`operator`, or `router` for routes of the suite.")
        .shown(&[Cell::new("ORIGIN")])
        .read(|((is_learnt, _), _)| if *is_learnt { "router" } else { "operator" }.into()),
    Component::new(2, "protocol", Type::Text, "ospf")
        .optional()
        .about("Protocol that has found them; null for routes of operators.")
        .shown(&[Cell::new("PROTOCOL")])
        .read(|((is_learnt, protocol), _)| is_learnt.then(|| protocol_word(*protocol)).into()),
    Component::new(3, "wanted", NUMBER, "120")
        .about("Routes that the CE wants at the FE.")
        .shown(&[Cell::new("WANTED")])
        .read(|(_, routes)| routes.wanted.into()),
    Component::new(4, "installed", NUMBER, "118")
        .about("Routes of these in the tables of the FE.")
        .shown(&[Cell::new("INSTALLED")])
        .read(|(_, routes)| routes.installed.into()),
    Component::new(5, "standby", NUMBER, "1")
        .about("Routes behind a better route of the same prefix.")
        .shown(&[Cell::new("STANDBY")])
        .read(|(_, routes)| routes.standby.into()),
    Component::new(6, "waiting", NUMBER, "0")
        .about("Routes that the FE does not have yet.")
        .shown(&[Cell::new("WAITING")])
        .read(|(_, routes)| routes.waiting.into()),
    Component::new(7, "refused", NUMBER, "1")
        .about("Routes that the FE has refused.")
        .shown(&[Cell::new("REFUSED")])
        .read(|(_, routes)| routes.refused.into()),
    Component::new(
        8,
        "first_refused",
        Type::Text,
        "10.0.0.0/8: Network is unreachable",
    )
    .optional()
    .about("The first refused route, with the FE's error.")
    .shown(&[Cell::new("FIRST REFUSED")])
    .read(|(_, routes)| routes.first.clone().into()),
];

impl Row for NextHopOf {
    type View<'a> = &'a Self;
}

const HOPS: &[Column<NextHopOf>] = &[
    Component::new(1, "port", Type::Text, "wan")
        .about("Port at which the neighbour is.")
        .shown(&[Cell::new("PORT")])
        .read(|hop| hop.port.as_str().into()),
    Component::new(2, "address", Type::Text, "192.0.2.1")
        .about("Address of the neighbour: a next hop, or a neighbour that the suite's kernel knows.")
        .shown(&[Cell::new("ADDRESS")])
        .read(|hop| hop.address.to_string().into()),
    Component::new(3, "routes", NUMBER, "120")
        .about("Routes at the FE through this next hop.")
        .shown(&[Cell::new("ROUTES")])
        .read(|hop| hop.routes.into()),
    Component::new(4, "at_suite", Type::Flag, "true")
        .optional()
        .about("Whether the neighbour has answered the kernel of the suite; null if the suite has sent it nothing.")
        .shown(&[Cell::new("ANSWERS SUITE")])
        .read(|hop| hop.at_suite.into()),
    Component::new(5, "at_fe", Type::Flag, "true")
        .optional()
        .about("Whether the neighbour has answered the FE; null if the FE has not asked.")
        .shown(&[Cell::new("ANSWERS FE")])
        .read(|hop| hop.at_fe.as_ref().map(Option::is_some).into()),
    Component::new(6, "mac", Type::Text, "02:00:00:00:00:01")
        .optional()
        .about("MAC address of the neighbour at the FE.")
        .shown(&[Cell::new("MAC")])
        .read(|hop| hop.at_fe.clone().flatten().into()),
];

impl Row for Difference {
    type View<'a> = &'a Self;
}

const DIFFERENCES: &[Column<Difference>] = &[
    Component::new(1, "path", Type::Text, "edge1:port.wan.rate")
        .about("Path of the component, for `weir get` and `weir set`.")
        .shown(&[Cell::new("COMPONENT")])
        .read(|difference| difference.path.as_str().into()),
    Component::new(2, "desired", Type::Text, "50 Mbit")
        .optional()
        .about("Desired value; null if it must not exist.")
        .shown(&[Cell::new("DESIRED")])
        .read(|difference| difference.desired.clone().into()),
    Component::new(3, "actual", Type::Text, "10 Mbit")
        .optional()
        .about("Value at the FE; null if it does not exist.")
        .shown(&[Cell::new("ACTUAL")])
        .read(|difference| difference.actual.clone().into()),
];
