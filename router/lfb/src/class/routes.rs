//! The installed routes.

use ipnet::IpNet;
use weir_model::class::{Cell, Class, Layout, Type};
use weir_path::ip::tables::{Action, NextHop, Route, Tables};

use super::neighbours::interface_name;
use super::{Block, Column, NUMBER, Row, Source, TEXT, component, components, rows};

pub(super) static ROUTES: Block = Block {
    class: Class {
        name: "routes",
        id: 0x00F7_0106,
        about: "active routes",
        key: &["prefix"],
        components: &components::<RouteRow, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No routes: a bridge needs none, and a router uses the routes of `ip route`.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Tables(|tables| {
        rows(
            COLUMNS,
            tables
                .routes()
                .flat_map(|(prefix, route)| views(tables, prefix, route)),
        )
    }),
};

/// The rows of a route: one row, or a row for each source network.
fn views<'a>(tables: &'a Tables, prefix: IpNet, route: &'a Route) -> Vec<RouteView<'a>> {
    let view = |prefix, route| RouteView {
        tables,
        prefix,
        route,
    };
    let Action::BySource(routes) = &route.action else {
        return vec![view(prefix.to_string(), route)];
    };
    let of_source =
        |(from, route): &'a (IpNet, Route)| view(format!("{prefix} from {from}"), route);
    routes.iter().map(of_source).collect()
}

struct RouteRow;

struct RouteView<'a> {
    tables: &'a Tables,
    prefix: String,
    route: &'a Route,
}

impl Row for RouteRow {
    type View<'a> = RouteView<'a>;
}

const COLUMNS: &[Column<RouteRow>] = &[
    component(1, "prefix", TEXT, "0.0.0.0/0")
        .about("Destination network.")
        .shown(&[Cell::new("PREFIX")])
        .read(|row| row.prefix.as_str().into()),
    component(2, "action", TEXT, "forward")
        .about("`forward`, `local`, `blackhole`, `unreachable`, `prohibit` or `throw`.")
        .shown(&[Cell::new("ACTION")])
        .read(|row| match row.route.action {
            Action::Forward(_) => "forward".into(),
            Action::Local => "local".into(),
            Action::Blackhole => "blackhole".into(),
            Action::Unreachable => "unreachable".into(),
            Action::Prohibit => "prohibit".into(),
            Action::Throw => "throw".into(),
            Action::Reserved | Action::BySource(_) => unreachable!("not listed in this form"),
        }),
    component(
        3,
        "next_hops",
        Type::Rows(&components::<HopRow, { HOPS.len() }>(HOPS)),
        "",
    )
    .about("Next hops; flows are spread over them by weight.")
    .read(|row| {
        let hops: &[NextHop] = match &row.route.action {
            Action::Forward(hops) => hops,
            _ => &[],
        };
        let tables = row.tables;
        rows(HOPS, hops.iter().map(|hop| HopView { tables, hop }))
    }),
    component(4, "metric", NUMBER, "100")
        .about("Priority of the route in the kernel.")
        .shown(&[Cell::new("METRIC")])
        .read(|row| u64::from(row.route.metric).into()),
];

struct HopRow;

struct HopView<'a> {
    tables: &'a Tables,
    hop: &'a NextHop,
}

impl Row for HopRow {
    type View<'a> = HopView<'a>;
}

const HOPS: &[Column<HopRow>] = &[
    component(1, "gateway", TEXT, "192.0.2.1")
        .optional()
        .about("Address of the gateway; null if the destination is on the link.")
        .shown(&[Cell::new("GATEWAY").or("on the link")])
        .read(|row| row.hop.gateway.map(|gateway| gateway.to_string()).into()),
    component(2, "interface", TEXT, "eth1")
        .about("Output interface.")
        .shown(&[Cell::new("INTERFACE")])
        .read(|row| interface_name(row.tables, row.hop.interface).into()),
    component(3, "weight", NUMBER, "1")
        .about("Share of the flows, relative to the other next hops.")
        .shown(&[Cell::new("WEIGHT")])
        .read(|row| u64::from(row.hop.weight).into()),
];
