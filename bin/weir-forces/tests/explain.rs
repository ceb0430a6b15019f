//! `weir show network` and `weir route explain`, with a CE, an FE, and the kernel of a namespace as routing suite.

use serde_json::Value;
use weir_benches::testbed::run;
use weir_northbound::client;

use crate::common::{eventually_or, kill};
use crate::exceptions::Elements;
use crate::router::Named;

/// The explanation for a destination at the FE.
fn explain(elements: &Elements, to: &str) -> Value {
    let path = format!("/v1/service/route/explain?to={to}&fe=edge1");
    let explained = client::get::<Value>(&elements.socket(), &path).unwrap();
    explained[0].clone()
}

/// Waits until the reason of a destination is this one, and returns its sentence.
fn eventually_because(elements: &Elements, to: &str, reason: &str) -> String {
    let mut explained = Value::Null;
    eventually_or(
        &format!("{to}: {reason}"),
        || explain(elements, to).to_string(),
        || {
            explained = explain(elements, to);
            explained["reason"]["name"] == reason
        },
    );
    assert_eq!(explained["reachable"], false);
    explained["reason"]["why"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Waits until packets to a destination leave through the port `wan` through this next hop.
fn eventually_leaves(elements: &Elements, to: &str, via: Option<&str>) {
    let explained = || explain(elements, to);
    eventually_or(
        &format!("{to} is reachable"),
        || explained().to_string(),
        || {
            let explained = explained();
            let exit = &explained["exits"][0];
            explained["reachable"] == true && exit["port"] == "wan" && exit["via"].as_str() == via
        },
    );
}

/// The FE's row of the table `network`.
fn network(elements: &Elements) -> Value {
    elements.ask("network")[0].clone()
}

#[test]
fn each_stage_of_a_route_has_its_reason() {
    let Some(suite) = Named::new("why") else {
        return;
    };
    let place = format!("-n {}", suite.name());
    let Some(mut elements) = Elements::with(&suite.config(), &[], &place) else {
        return;
    };
    let sink = |command: &str| run(&elements.hosts.bed.sink, "ip", command).unwrap();
    sink("address add 203.0.113.1/32 dev b0");
    eventually_leaves(&elements, "10.77.2.0/24", None);

    // In the suite.
    let why = eventually_because(&elements, "203.0.113.0/24", "no-route");
    assert!(why.contains("no routing suite, no operator"), "{why}");
    suite.ip("route add 203.0.113.0/24 via 10.77.2.2");
    let why = eventually_because(&elements, "203.0.113.1", "protocol-not-listed");
    assert!(
        why.contains("`boot`, which `protocols` of [router.north]"),
        "{why}"
    );
    elements
        .hosts
        .ip("route add 203.0.112.0/20 via 10.77.2.2 dev r1");
    eventually_leaves(&elements, "203.0.113.1", Some("10.77.2.2"));
    elements.hosts.ip("route del 203.0.112.0/20");
    eventually_because(&elements, "203.0.113.1", "protocol-not-listed");
    eventually_because(&elements, "10.77.2.8", "not-forwarded"); // redirected to the CE
    suite.ip("link add other type veth peer name other1");
    suite.ip("link set other up");
    suite.ip("route add 198.18.1.0/24 dev other proto static");
    eventually_because(&elements, "198.18.1.0/24", "no-tap");
    suite.ip("route add prohibit 198.18.2.0/24 proto bgp");
    let why = eventually_because(&elements, "198.18.2.0/24", "discarded");
    assert!(why.ends_with("prohibit"), "{why}");

    // At the FE.
    suite.ip("route replace 203.0.113.0/24 via 10.77.2.2 proto ospf metric 20");
    suite.ip("route del 203.0.113.0/24 proto boot");
    eventually_leaves(&elements, "203.0.113.0/24", Some("10.77.2.2"));
    eventually_leaves(&elements, "203.0.113.1", Some("10.77.2.2"));
    suite.ip("route add 198.18.3.0/24 via 10.99.9.9 dev edge1.wan onlink proto ospf");
    eventually_because(&elements, "198.18.3.0/24", "fe-refused");
    suite.ip("route add 198.18.4.0/24 via 10.77.2.99 proto ospf");
    eventually_because(&elements, "198.18.4.0/24", "next-hop-unresolved");
    elements
        .hosts
        .ip("route add 203.0.113.0/28 via 10.77.1.2 dev r0");
    let why = eventually_because(&elements, "203.0.113.1", "other-route");
    assert!(
        why.contains("203.0.113.0/28 via 10.77.1.2 dev r0, not by 203.0.113.0/24"),
        "{why}"
    );
    elements.hosts.ip("route del 203.0.113.0/28");
    eventually_leaves(&elements, "203.0.113.1", Some("10.77.2.2"));

    let weir = |arguments: &[&str]| elements.hosts.ask(arguments, "ce");
    let text = weir(&["route", "explain", "203.0.113.1"]);
    let expected = [
        "203.0.113.1 is reachable at edge1.",
        "routing suite north",
        "203.0.113.0/24 via 10.77.2.2 dev edge1.wan metric 20, protocol ospf",
        "leaves by port wan",
    ];
    for part in expected {
        assert!(text.contains(part), "{text}");
    }
    let wrong = weir(&["route", "explain", "203.0.113.1/24"]);
    assert!(
        wrong.contains("write 203.0.113.0/24 or 203.0.113.1"),
        "{wrong}"
    );
    let unknown = weir(&["route", "explain", "203.0.113.1", "--fe", "edge&1"]);
    assert!(
        unknown.contains("there is no FE `edge&1`; did you mean `edge1`"),
        "{unknown}"
    );

    // The port, and the FE itself.
    sink("link set b0 down");
    eventually_because(&elements, "203.0.113.0/24", "no-carrier");
    sink("link set b0 up");
    eventually_leaves(&elements, "203.0.113.0/24", Some("10.77.2.2"));
    let stop = |state: &str| {
        let set = format!("edge1:FEObject.1.FEState={state}");
        weir(&["set", &set])
    };
    stop("AdminDisable");
    eventually_because(&elements, "203.0.113.0/24", "fe-stopped");
    stop("OperEnable");
    eventually_leaves(&elements, "203.0.113.0/24", Some("10.77.2.2"));
    kill(elements.processes[1].id(), "KILL");
    let why = eventually_because(&elements, "203.0.113.0/24", "fe-away");
    assert!(why.starts_with("edge1 is not associated: "), "{why}");
    elements.processes[1].wait().unwrap();
}

#[test]
fn the_network_has_its_ports_routes_next_hops_and_differences() {
    let Some(suite) = Named::new("view") else {
        return;
    };
    let place = format!("-n {}", suite.name());
    let config = format!(
        "{}[fe.edge1.port.wan]\nrate = \"50 Mbit\"\n",
        suite.config()
    );
    let Some(mut elements) = Elements::with(&config, &[], &place) else {
        return;
    };
    suite.ip("route add 203.0.113.0/24 via 10.77.2.2 proto ospf");
    suite.ip("route add 198.51.100.0/24 via 10.77.2.2 proto ospf");
    suite.ip("route add 198.18.3.0/24 via 10.99.9.9 dev edge1.wan onlink proto bgp");
    let row = || network(&elements);
    let of = |protocol: &str, count: &str| {
        let row = row();
        let mut all = row["routes"].as_array().unwrap().iter();
        let found = all.find(|routes| routes["protocol"] == protocol);
        found
            .map(|routes| routes[count].clone())
            .unwrap_or_default()
    };
    eventually_or(
        "the routes are counted by protocol",
        || row().to_string(),
        || {
            of("ospf", "installed") == 2
                && of("kernel", "installed") == 2
                && of("bgp", "refused") == 1
        },
    );
    let first = of("bgp", "first_refused");
    assert!(
        first.as_str().unwrap().starts_with("198.18.3.0/24: "),
        "{first}"
    );
    let now = row();
    assert_eq!(
        [&now["state"], &now["role"], &now["router"]],
        ["in sync", "master", "north"]
    );
    assert!(
        now["peer"].as_str().unwrap().starts_with("quic 10.78.0.1:"),
        "{now}"
    );
    let ports = now["ports"].as_array().unwrap();
    assert!(
        ports
            .iter()
            .all(|port| port["state"] == "up" && port["carrier"] == true),
        "{now}"
    );
    eventually_or(
        "the next hop answers",
        || row().to_string(),
        || {
            let hop = row()["next_hops"][0].clone();
            hop["address"] == "10.77.2.2"
                && hop["routes"] == 2
                && hop["port"] == "wan"
                && hop["at_fe"] == true
        },
    );
    assert_eq!(row()["differences"], Value::Array(Vec::new()));

    // Somebody changes the FE behind the back of its CE.
    let set = elements.hosts.ask(&["set", "port.wan.rate=7 Mbit"], "fe");
    let row = || network(&elements);
    eventually_or(
        "the difference has its path",
        || format!("{set}{}", row()),
        || {
            let difference = row()["differences"][0].clone();
            let values = ["path", "desired", "actual"].map(|name| difference[name].clone());
            values == ["edge1:port.wan.rate", "50 Mbit", "7 Mbit"]
        },
    );
    let text = elements.hosts.ask(&["show", "network"], "ce");
    for part in [
        "edge1:port.wan.rate",
        "10.77.2.2",
        "in sync",
        "FIRST REFUSED",
    ] {
        assert!(text.contains(part), "{text}");
    }

    kill(elements.processes[1].id(), "KILL");
    elements.processes[1].wait().unwrap();
    let row = || network(&elements);
    eventually_or(
        "the FE is not associated",
        || row().to_string(),
        || row()["state"] == "away",
    );
    let away = row();
    assert!(
        away["since_s"].as_f64().is_some() && away["why"].is_string(),
        "{away}"
    );
    assert_eq!([&away["peer"], &away["role"]], [&Value::Null, &Value::Null]);
}
