//! Routes of a CE in the kernel of its FE: thousands at once, and again after every loss.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use weir_benches::testbed::run;
use weir_northbound::client;

use super::stage::{CE, FE, Stage, Wire};
use crate::common::{PATIENCE, eventually, eventually_or, kill};

/// Number of routes through the sink; they need several messages.
const ROUTES: u32 = 5000;
/// Number of routes that are deleted while the FE is disconnected.
const DELETED: u32 = 2000;

fn route(n: u32) -> String {
    let [_, b, c, d] = (n << 6).to_be_bytes();
    format!("11.{b}.{c}.{d}/26 via 10.77.2.2 dev wan\n")
}

/// `weir route` with a file of routes.
fn change(stage: &Stage, verb: &str, routes: impl Iterator<Item = u32>) {
    let file = stage.folder.join("routes.txt");
    fs::write(&file, routes.map(route).collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    let done = stage.weir(&["route", verb, "--fe", "edge1", "--file", file], CE);
    assert!(done.status.success(), "{done:?}");
}

/// The routes of CEs in the FE's kernel.
fn kernel(stage: &Stage) -> usize {
    let show = || {
        Command::new("ip")
            .args(["route", "show", "proto", "119"])
            .output()
    };
    let shown = stage.bed.router.enter(show).unwrap().unwrap();
    String::from_utf8(shown.stdout).unwrap().lines().count()
}

fn has(stage: &Stage, count: u32, when: &str) {
    eventually(&format!("{count} routes: {when}"), || {
        kernel(stage) == count as usize
    });
}

#[test]
fn routes_survive_every_death_and_follow_their_interface() {
    let Some(stage) = Stage::new(Wire::Tls) else {
        return;
    };
    let (mut ce, mut fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    change(&stage, "add", 0..ROUTES);
    has(&stage, ROUTES, "the kernel has them when the command ends");
    kill(ce.process.id(), "KILL");
    ce.ended();
    assert_eq!(kernel(&stage), ROUTES as usize);
    let _ce = stage.start_ce();
    stage.in_sync();
    assert_eq!(kernel(&stage), ROUTES as usize);
    // Routes that the operator deletes while the FE is disconnected are removed when it reconnects.
    stage.ip("link set c0 down");
    eventually("the CE misses its FE", || stage.state("edge1") == "away");
    change(&stage, "del", 0..DELETED);
    assert_eq!(kernel(&stage), ROUTES as usize);
    stage.ip("link set c0 up");
    has(&stage, ROUTES - DELETED, "some were deleted");
    stage.in_sync();
    fe.kill();
    stage.ip("nexthop flush proto 119");
    let _fe = stage.start_fe();
    has(&stage, ROUTES - DELETED, "the FE has started again");
    stage.in_sync();
    // The kernel drops the routes of an interface that goes down.
    stage.ip("link set r1 down");
    assert_eq!(kernel(&stage), 0);
    change(&stage, "add", 0..1); // it waits for the interface
    stage.ip("link set r1 up");
    has(&stage, ROUTES - DELETED + 1, "the interface is up again");
    change(&stage, "del", (0..1).chain(DELETED..ROUTES));
    has(&stage, 0, "all are deleted");
}

/// A number that an FE reports about the routes of its CE.
fn kept(stage: &Stage, fe: &str, name: &str) -> u64 {
    let routes: Value = client::get(&stage.socket(fe), "/v1/ce_routes").unwrap();
    routes[name].as_u64().unwrap()
}

/// The row of an FE in the CE's table: its state, and the reason.
fn state(stage: &Stage, fe: &str) -> [String; 2] {
    let fes = stage.table("fes");
    let row = fes.as_array().unwrap().iter().find(|row| row["fe"] == fe);
    ["state", "why"].map(|name| row.unwrap()[name].as_str().unwrap_or_default().to_owned())
}

/// Waits for the effect of the FE's sweep, ten seconds after its CE has written the last row.
fn swept(what: &str, condition: impl Fn() -> bool) {
    let ends = Instant::now() + 6 * PATIENCE;
    while !condition() {
        assert!(
            Instant::now() < ends,
            "not within {:?}: {what}",
            6 * PATIENCE
        );
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_the_kernel_loses_is_known_and_comes_back() {
    let Some(stage) = Stage::new(Wire::Tls) else {
        return;
    };
    let (ce, fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    change(&stage, "add", 0..50);
    has(&stage, 50, "the kernel has them");
    let first = "11.0.0.0/26";
    for (attack, count) in [
        (format!("route del {first} proto 119"), 1),
        (
            format!("route replace {first} via 10.77.2.2 dev r1 metric 50"),
            1,
        ),
        (format!("route replace blackhole {first} metric 50"), 1),
        // With their objects, the routes go without a message.
        ("nexthop flush proto 119".to_owned(), 50),
    ] {
        let lost = kept(&stage, FE, "lost");
        stage.ip(&attack);
        eventually_or(
            &format!("the FE has noticed: {attack}"),
            || fe.log(),
            || kept(&stage, FE, "lost") >= lost + count,
        );
        has(&stage, 50, &attack);
        eventually(&format!("all are back: {attack}"), || {
            kept(&stage, FE, "missing") == 0 && state(&stage, FE)[0] == "in sync"
        });
    }
    assert!(
        ce.log().contains("its kernel has all routes again"),
        "{}",
        ce.log()
    );
    // The routes of an interface that is down, or has no carrier.
    for (place, device, why) in [
        (&stage.bed.router, "r1", "is down or absent"),
        (&stage.bed.sink, "b0", "has no carrier"),
    ] {
        let set = |state: &str| run(place, "ip", &format!("link set {device} {state}")).unwrap();
        set("down");
        eventually("the CE knows why", || {
            let why = format!("route 11.0.0.0/26: interface r1 {why}; and 49 more routes");
            state(&stage, FE) == ["degraded".to_owned(), why]
        });
        let listed = stage.ask(&["route", "list", "--fe", "edge1"], CE);
        assert!(!listed.contains("installed"), "{listed}");
        set("up");
        has(&stage, 50, "the interface is up again");
        stage.in_sync();
    }

    // Two programs that fight over a route do not use up the machine.
    let restored = kept(&stage, FE, "restored");
    let mut removed = 0;
    eventually("the FE backs off, and the CE says so", || {
        let delete = || {
            Command::new("ip")
                .args(["route", "del", first, "proto", "119"])
                .output()
        };
        removed += u64::from(
            stage
                .bed
                .router
                .enter(delete)
                .unwrap()
                .unwrap()
                .status
                .success(),
        );
        let [state, why] = state(&stage, FE);
        state == "degraded" && why.contains("repeatedly removes") && why.ends_with(" s later")
    });
    assert_eq!(kept(&stage, FE, "missing"), 1, "the others are left alone");
    let more = kept(&stage, FE, "restored") - restored;
    assert!(more <= removed, "{more} restored, {removed} removed");
    has(&stage, 50, "nobody fights any more");
    stage.in_sync();
    change(&stage, "del", 0..50);
    has(&stage, 0, "routes that are deleted stay away");
    assert_eq!(
        (kept(&stage, FE, "wanted"), kept(&stage, FE, "missing")),
        (0, 0)
    );
}

#[test]
fn two_fes_on_a_machine_respect_each_others_routes() {
    let Some(stage) = Stage::new(Wire::Tls) else {
        return;
    };
    stage.ip("link add e0 type veth peer name e1");
    stage.ip("address add 10.78.0.1/24 dev e0");
    stage.ip("link set e0 up");
    stage.ip("link set e1 up");
    let edge2 = "[fe.edge2]\nid = 3\ncertificate = \"stranger.crt\"\n";
    let _ce = stage.start_ce_with(edge2);
    let config = stage.fe_config();
    let (head, _) = config.split_once("[port.lan]").unwrap();
    let config = head
        .replace("id = 2\nname = \"edge1\"", "id = 3\nname = \"edge2\"")
        .replace("edge1", "stranger")
        + "[port.wan]\ninterface = \"e0\"\n";
    // A route of a dead process, by an interface of nobody.
    stage.ip("link add gone type veth peer name gone1");
    stage.ip("link set gone up");
    let mut fe = stage.start_fe();
    stage.in_sync();
    change(&stage, "add", 0..50);
    has(&stage, 50, "the kernel has them");
    stage.ip("route add 12.0.0.0/8 dev gone metric 50 proto 119");
    // A route without an interface may be the first FE's.
    stage.ip("route add blackhole 12.1.0.0/16 metric 50 proto 119");
    let mut other = stage.start_fe_as("edge2", &config);
    eventually("the second FE is in sync", || {
        stage.state("edge2") == "in sync"
    });
    swept("the second FE has swept", || {
        let log = other.log();
        log.contains("keeping routes of other FEs on this machine")
    });
    has(
        &stage,
        51,
        "the first FE has its routes, and those of the dead are gone",
    );
    assert_eq!(stage.state(FE), "in sync");
    assert_eq!(kept(&stage, FE, "lost"), 0);

    // Each CE has its own prefixes; a prefix of the other is refused with the name of its owner.
    let route = |verb: &str, of: &str| {
        let done = stage.weir(&["route", verb, "--fe", "edge2", of], CE);
        (
            done.status.success(),
            String::from_utf8(done.stderr).unwrap(),
        )
    };
    let (_, said) = route("add", "11.0.0.0/26 via 10.78.0.2 dev wan");
    assert!(
        said.contains("route 11.0.0.0/26: another FE on this machine has a route for this prefix"),
        "{said}"
    );
    assert!(route("add", "13.0.0.0/8 via 10.78.0.2 dev wan").0);
    has(&stage, 52, "each has its own");
    change(&stage, "del", 0..1);
    eventually("a prefix that is free is anybody's", || {
        route("replace", "11.0.0.0/26 via 10.78.0.2 dev wan").0
    });
    assert_eq!(
        (stage.state(FE), stage.state("edge2")),
        ("in sync".to_owned(), "in sync".to_owned())
    );

    // The second CE dies: at its start, the first one recognizes the second one's stale routes.
    other.kill();
    fe.kill();
    let _fe = stage.start_fe();
    swept("the leftovers of the dead are gone", || {
        kernel(&stage) == 49
    });
    stage.in_sync();
    let _other = stage.start_fe_as("edge2", &config);
    has(&stage, 51, "both have their routes");
}

#[test]
fn a_route_that_is_wrong_has_its_line_or_its_reason() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let _both = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let file = stage.folder.join("wrong.txt");
    let add = |text: &str| {
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let done = stage.weir(&["route", "add", "--fe", "edge1", "--file", file], CE);
        assert!(!done.status.success(), "{done:?}");
        String::from_utf8(done.stderr).unwrap()
    };
    let good = "10.0.0.0/8 via 10.77.2.2 dev wan\n";
    for (wrong, why) in [
        (
            "11.0.0.0/8 vai 10.77.2.2 dev wan",
            "line 2: `vai` is not supported",
        ),
        (
            "11.0.0.1/8 dev wan",
            "line 2: route 11.0.0.1/8: it has bits",
        ),
        (
            "11.0.0.0/8 dev wam",
            "line 2: route 11.0.0.0/8: there is no port `wam`; did you mean",
        ),
        (
            "10.0.0.0/8 dev lan",
            "line 2: route 10.0.0.0/8: the request contains it twice",
        ),
        (
            "11.0.0.0/8 via 10.99.0.1 dev wan",
            "route 11.0.0.0/8: Network is unreachable",
        ),
    ] {
        let said = add(&format!("{good}{wrong}\n"));
        assert!(said.contains(why), "{said}");
        assert_eq!(kernel(&stage), 0, "all or none");
    }
    // Several messages are a transaction.
    let many: String = (0..ROUTES).map(route).collect();
    let said = add(&format!("{many}12.0.0.0/8 via 10.99.0.1 dev wan\n"));
    assert!(
        said.contains("route 12.0.0.0/8: Network is unreachable"),
        "{said}"
    );
    has(&stage, 0, "all or none");
    let routes = [
        "route",
        "add",
        "--fe",
        "edge1",
        "10.0.0.0/8 via 10.77.2.2 dev wan metric 5",
    ];
    assert!(stage.weir(&routes, CE).status.success());
    let listed = stage.ask(&["route", "list", "--fe", "edge1"], CE);
    let row: Vec<_> = listed.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(
        row,
        [
            "edge1",
            "10.0.0.0/8",
            "10.77.2.2",
            "wan",
            "5",
            "operator",
            "installed"
        ]
    );
    let unknown = stage.weir(&["route", "list", "--fe", "edge9"], CE);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        said.contains("there is no FE `edge9`; did you mean `edge1`?"),
        "{said}"
    );
}
