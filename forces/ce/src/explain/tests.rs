//! Each reason, from evidence that differs in one point from that of a route which works.

use weir_model::Discard;

use super::*;

const PREFIX: &str = "203.0.113.0/24";

fn row(members: &[(&'static str, Value)]) -> Value {
    let members = members.iter().cloned();
    Value::Struct(members.map(|(name, value)| (name.into(), value)).collect())
}

fn route(prefix: &str, action: &str, hops: &[(Option<&str>, &str)]) -> Value {
    let hop = |(gateway, interface): &(Option<&str>, &str)| {
        row(&[
            ("gateway", gateway.map(str::to_owned).into()),
            ("interface", (*interface).into()),
        ])
    };
    let hops = Value::List(hops.iter().map(hop).collect());
    row(&[
        ("prefix", prefix.into()),
        ("action", action.into()),
        ("next_hops", hops),
    ])
}

fn port(name: &str, interface: &str, state: &str) -> Value {
    row(&[
        ("port", name.into()),
        ("interface", interface.into()),
        ("state", state.into()),
        ("mac", "02:00:00:00:00:01".into()),
    ])
}

fn neighbour(address: &str, mac: Option<&str>) -> Value {
    row(&[
        ("address", address.into()),
        ("interface", "eth1".into()),
        ("mac", mac.map(str::to_owned).into()),
    ])
}

fn hop(gateway: &str, port: &str) -> Hop {
    Hop {
        gateway: gateway.parse().ok(),
        port: port.into(),
    }
}

fn ours() -> Value {
    route(PREFIX, "forward", &[(Some("192.0.2.1"), "eth1")])
}

/// A route of the suite that works.
fn evidence() -> Evidence {
    let prefix = PREFIX.parse().unwrap();
    Evidence {
        fe: "edge1".to_owned(),
        destination: Destination::Prefix(prefix),
        suite: Some(SuiteView {
            router: "north".to_owned(),
            namespace: Some("north".to_owned()),
            route: Ok(Some(SuiteRoute {
                prefix,
                protocol: 188,
                shown: "via 192.0.2.1 dev edge1.wan metric 20".to_owned(),
                withheld: None,
                is_waiting: false,
            })),
        }),
        desired: Some(DesiredRoute {
            prefix,
            metric: 20,
            is_learnt: true,
            target: Target::Hop(hop("192.0.2.1", "wan")),
        }),
        is_full: false,
        progress: Progress::Written,
        element: Ok(ElementView {
            status: row(&[("forwards", true.into())]),
            ports: vec![port("lan", "eth0", "up"), port("wan", "eth1", "up")],
            neighbours: vec![neighbour("192.0.2.1", Some("02:00:00:00:00:09"))],
            routes: vec![ours()],
            lacks: None,
        }),
    }
}

impl Evidence {
    fn element(&mut self) -> &mut ElementView {
        self.element.as_mut().unwrap()
    }

    fn suite_route(&mut self) -> &mut SuiteRoute {
        let route = &mut self.suite.as_mut().unwrap().route;
        route.as_mut().unwrap().as_mut().unwrap()
    }

    /// The FE does not get the suite's route, and has none of its own.
    fn withhold(&mut self, withheld: Withheld) {
        self.suite_route().withheld = Some(withheld);
        self.desired = None;
        self.element().routes.clear();
    }

    /// Neither the suite nor an operator has a route.
    fn without_route(&mut self) {
        self.suite.as_mut().unwrap().route = Ok(None);
        self.desired = None;
        self.element().routes.clear();
    }
}

#[test]
fn a_route_that_works_names_port_and_next_hop() {
    let explained = evidence().explain();
    assert_eq!(explained.reason, None);
    let exit = ExitReport {
        port: "wan".to_owned(),
        via: Some("192.0.2.1".to_owned()),
        mac: Some("02:00:00:00:00:09".to_owned()),
    };
    assert_eq!(explained.exits, [exit]);
    let steps: Vec<_> = explained
        .steps
        .iter()
        .map(|step| format!("{}: {}", step.at, step.found))
        .collect();
    let expected = [
        "routing suite north: 203.0.113.0/24 via 192.0.2.1 dev edge1.wan metric 20, protocol ospf",
        "control element: 203.0.113.0/24 via 192.0.2.1 dev wan metric 20, from the routing suite",
        "forwarding element edge1: 203.0.113.0/24 via 192.0.2.1 dev eth1",
    ];
    assert_eq!(steps, expected);
}

/// A reason, the change of the evidence that causes it, and a part of its sentence.
type Case = (Reason, fn(&mut Evidence), &'static str);

const CASES: &[Case] = &[
    (
        Reason::SuiteUnreadable,
        |e| e.suite.as_mut().unwrap().route = Err("no network namespace `north`".to_owned()),
        "no network namespace `north`",
    ),
    (
        Reason::NoRoute,
        |e| {
            e.without_route();
            e.element().ports[1] = port("wan", "eth1", "no carrier");
            e.element().routes = vec![route("0.0.0.0/0", "forward", &[(None, "eth0")])];
        },
        "no routing suite, no operator, and no program at edge1 has a route; its packets take 0.0.0.0/0; port wan (eth1) has \
         no carrier",
    ),
    (
        Reason::NoRoute,
        |e| {
            e.without_route();
            e.progress = Progress::Away("the link was lost".to_owned());
        },
        "and edge1 is not associated",
    ),
    (
        Reason::ProtocolNotListed,
        |e| {
            e.withhold(Withheld::Protocol);
            e.suite_route().protocol = 3;
        },
        "protocol `boot`, which `protocols` of [router.north] does not list",
    ),
    (
        Reason::DependsOnSource,
        |e| {
            e.withhold(Withheld::BySource);
            e.element().routes = vec![route("0.0.0.0/0", "forward", &[(None, "eth0")])];
        },
        "depends on the source address, which an FE cannot have; its packets take 0.0.0.0/0",
    ),
    (
        Reason::NotForwarded,
        |e| e.withhold(Withheld::Own),
        "its own machine",
    ),
    (
        Reason::NotForwarded,
        |e| e.suite_route().withheld = Some(Withheld::Redirected), // the FE has a connected route
        "its own machine",
    ),
    (
        Reason::NoTap,
        |e| {
            e.withhold(Withheld::NoTap);
            e.progress = Progress::Away("the link was lost".to_owned());
        },
        "with an address of the prefix's family, and edge1 is not associated",
    ),
    (
        Reason::Discarded,
        |e| e.desired.as_mut().unwrap().target = Target::Discard(Discard::Prohibit),
        "the routing suite drops the packets to 203.0.113.0/24: prohibit",
    ),
    (
        Reason::NoPort,
        |e| e.progress = Progress::NoPort("there is no port `wan`".to_owned()),
        "edge1: there is no port `wan`",
    ),
    (
        Reason::TableFull,
        |e| (e.desired, e.is_full) = (None, true),
        "no room for 203.0.113.0/24: it has 2097152 routes",
    ),
    (
        Reason::FeAway,
        |e| e.progress = Progress::Away("the link was lost".to_owned()),
        "edge1 is not associated: the link was lost",
    ),
    (
        Reason::FeAway,
        |e| (e.suite, e.desired, e.progress) = (None, None, Progress::Away("killed".to_owned())),
        "killed",
    ),
    (
        Reason::FeRefused,
        |e| e.progress = Progress::Refused("Network is unreachable".to_owned()),
        "edge1 has refused 203.0.113.0/24: Network is unreachable",
    ),
    (
        Reason::NotRestored,
        |e| e.progress = Progress::NotRestored("port.wan.rate: out of range".to_owned()),
        "port.wan.rate",
    ),
    (
        Reason::NotSent,
        |e| e.progress = Progress::Waiting,
        "edge1 does not have 203.0.113.0/24 yet",
    ),
    (
        Reason::NotSent,
        |e| e.suite_route().is_waiting = true,
        "has not taken",
    ),
    (
        Reason::NotSent,
        |e| (e.suite_route().is_waiting, e.is_full) = (true, true), // a change of a route that it has
        "has not taken",
    ),
    (
        Reason::FeSilent,
        |e| e.element = Err("edge1 did not answer".to_owned()),
        "did not answer",
    ),
    (
        Reason::FeStopped,
        |e| {
            e.element().status = row(&[
                ("forwards", false.into()),
                ("stopped_why", "AdminDisable".into()),
            ])
        },
        "edge1 does not forward: AdminDisable",
    ),
    (
        Reason::OtherRoute,
        |e| e.element().routes = vec![route(PREFIX, "forward", &[(Some("192.0.2.9"), "eth1")])],
        "forwards by 203.0.113.0/24 via 192.0.2.9 dev eth1, not by 203.0.113.0/24 via 192.0.2.1 dev wan",
    ),
    (
        Reason::OtherRoute,
        |e| {
            e.destination = Destination::Address("203.0.113.7".parse().unwrap());
            e.element()
                .routes
                .push(route("203.0.113.0/28", "blackhole", &[]));
        },
        "forwards by 203.0.113.0/28 blackhole",
    ),
    (
        Reason::NotAPort,
        |e| {
            e.desired = None;
            e.suite = None;
            e.element().routes = vec![route(PREFIX, "forward", &[(None, "eth7")])];
        },
        "the interface eth7 is not a port",
    ),
    (
        Reason::PortDown,
        |e| e.element().ports[1] = port("wan", "eth1", "down"),
        "port wan (eth1) is down",
    ),
    (
        Reason::NoCarrier,
        |e| {
            e.element().ports[1] = port("wan", "eth1", "no carrier");
            e.element().routes.clear();
        },
        "port wan (eth1) has no carrier",
    ),
    (
        Reason::FeLacks,
        |e| {
            e.element().routes = vec![route("0.0.0.0/0", "forward", &[(None, "eth0")])];
            e.element().lacks = Some("another program has removed it".to_owned());
        },
        "does not have 203.0.113.0/24: another program has removed it; its packets take 0.0.0.0/0",
    ),
    (
        Reason::FeDiscards,
        |e| {
            (e.suite, e.desired) = (None, None);
            e.element().routes = vec![route(PREFIX, "unreachable", &[])];
        },
        "203.0.113.0/24 unreachable",
    ),
    (
        Reason::NextHopUnresolved,
        |e| e.element().neighbours = vec![neighbour("192.0.2.1", None)],
        "192.0.2.1 at port wan does not answer",
    ),
    (
        Reason::NextHopUnresolved,
        |e| e.element().neighbours.clear(),
        "192.0.2.1 at port wan is not resolved",
    ),
];

#[test]
fn each_reason_is_found() {
    for (reason, change, why) in CASES {
        let mut evidence = evidence();
        change(&mut evidence);
        let explained = evidence.explain();
        let found = explained
            .reason
            .unwrap_or_else(|| panic!("{reason:?}: {evidence:?}"));
        assert_eq!(found.name, reason.name(), "{}", found.why);
        assert!(found.why.contains(why), "{}", found.why);
        assert_eq!(found.remedy, reason.remedy());
        assert!(!explained.reachable && explained.exits.is_empty());
    }
    let is_tested = |reason: &&Reason| CASES.iter().any(|(tested, ..)| tested == *reason);
    assert_eq!(
        Reason::ALL.iter().filter(is_tested).count(),
        Reason::ALL.len()
    );
}

#[test]
fn the_manual_lists_every_reason() {
    let manual = include_str!("../../../../docs/forces.md");
    for reason in Reason::ALL {
        let line = format!(
            "| `{}` | {} | {} |",
            reason.name(),
            reason.meaning(),
            reason.remedy()
        );
        assert!(manual.contains(&line), "{line}");
    }
}

#[test]
fn other_routes_are_reachable() {
    let exits = |change: fn(&mut Evidence)| {
        let mut evidence = evidence();
        change(&mut evidence);
        let explained = evidence.explain();
        assert_eq!(explained.reason, None);
        let exits = explained.exits.iter();
        let exits =
            exits.map(|exit| format!("{} {}", exit.port, exit.via.as_deref().unwrap_or("-")));
        exits.collect::<Vec<_>>()
    };
    let operator = exits(|e| {
        e.suite_route().withheld = Some(Withheld::Protocol);
        e.desired.as_mut().unwrap().is_learnt = false;
    });
    assert_eq!(operator, ["wan 192.0.2.1"], "of an operator");
    let own = exits(|e| {
        (e.suite, e.desired) = (None, None);
        e.destination = Destination::Address("198.51.100.1".parse().unwrap());
        e.element().routes = vec![route(
            "0.0.0.0/0",
            "forward",
            &[(Some("192.0.2.1"), "eth1")],
        )];
    });
    assert_eq!(own, ["wan 192.0.2.1"], "of the FE itself");
    let local = exits(|e| {
        e.destination = Destination::Address("203.0.113.1".parse().unwrap());
        e.element()
            .routes
            .push(route("203.0.113.1/32", "local", &[]));
    });
    assert!(local.is_empty(), "an address of the FE");
    let group = exits(|e| {
        let both = [
            (hop("192.0.2.1", "wan"), 1),
            (hop("198.51.100.1", "lan"), 1),
        ];
        e.desired.as_mut().unwrap().target = Target::of_hops(both).unwrap();
        let hops = [(Some("192.0.2.1"), "eth1"), (Some("198.51.100.1"), "eth0")];
        e.element().routes = vec![route(PREFIX, "forward", &hops)];
        e.element().ports[0] = port("lan", "eth0", "no carrier");
    });
    assert_eq!(group, ["wan 192.0.2.1"], "one next hop of several");
}

#[test]
fn packets_take_a_shorter_route_than_the_withheld_one() {
    for (is_learnt, withheld) in [
        (true, Withheld::BySource),
        (false, Withheld::Protocol),
        (false, Withheld::Own),
    ] {
        let mut evidence = evidence();
        evidence.withhold(withheld);
        evidence.destination = Destination::Address("203.0.113.7".parse().unwrap());
        let default = [(Some("192.0.2.1"), "eth1")];
        evidence.element().routes = vec![route("0.0.0.0/0", "forward", &default)];
        evidence.desired = is_learnt.then(|| DesiredRoute {
            prefix: "0.0.0.0/0".parse().unwrap(),
            metric: 20,
            is_learnt,
            target: Target::Hop(hop("192.0.2.1", "wan")),
        });
        let explained = evidence.explain();
        assert_eq!(explained.reason, None, "{withheld:?}");
        assert_eq!(explained.exits[0].port, "wan");
        let at: Vec<_> = explained.steps.iter().map(|step| &step.at[..]).collect();
        let expected = [
            "routing suite north",
            "not at the forwarding element",
            "control element",
            "forwarding element edge1",
        ];
        assert_eq!(at, expected);
        assert!(explained.steps[1].found.contains(PREFIX));

        // A stop of the shorter route is the reason.
        evidence.element().ports[1] = port("wan", "eth1", "down");
        let reason = evidence.explain().reason.unwrap();
        assert_eq!(reason.name, Reason::PortDown.name());
    }
}

#[test]
fn a_destination_is_a_prefix_or_an_address() {
    let read = |text: &str| text.parse::<Destination>();
    let long = read("203.0.113.7/24").unwrap_err();
    assert_eq!(
        long,
        "`203.0.113.7/24` has bits behind its prefix; write 203.0.113.0/24 or 203.0.113.7"
    );
    assert!(
        read("edge1")
            .unwrap_err()
            .contains("not a prefix or an address")
    );
    let candidates = read("2001:db8::7")
        .unwrap()
        .candidates()
        .collect::<Vec<_>>();
    assert_eq!(candidates.len(), 129);
    assert_eq!(candidates[128 - 32].to_string(), "2001:db8::/32");
    let candidates = read("10.0.0.0/8")
        .unwrap()
        .candidates()
        .map(|net| net.to_string());
    assert_eq!(candidates.last().as_deref(), Some("0.0.0.0/0"));
}
