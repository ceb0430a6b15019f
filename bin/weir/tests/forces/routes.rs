//! Routes of a CE in the kernel of its FE: thousands at once, and again after every loss.

use std::fs;
use std::process::Command;

use crate::common::{eventually, kill};
use crate::stage::{CE, Stage, Wire};

/// Routes by the sink; they need several messages.
const ROUTES: u32 = 5000;
/// Those that are deleted while the FE is away.
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
    // Routes that are deleted while the FE is away go when it is back.
    stage.ip("link set c0 down");
    eventually("the CE misses its FE", || stage.state("edge1") == "away");
    change(&stage, "del", 0..DELETED);
    assert_eq!(kernel(&stage), ROUTES as usize);
    stage.ip("link set c0 up");
    has(&stage, ROUTES - DELETED, "some were deleted");
    stage.in_sync();
    fe.kill();
    stage.ip("route flush proto 119");
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
            "line 2: `vai` is not known",
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
            "line 2: route 10.0.0.0/8: the request has it twice",
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
        ["edge1", "10.0.0.0/8", "10.77.2.2", "wan", "5", "installed"]
    );
    let unknown = stage.weir(&["route", "list", "--fe", "edge9"], CE);
    let said = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        said.contains("there is no FE `edge9`; did you mean `edge1`?"),
        "{said}"
    );
}
