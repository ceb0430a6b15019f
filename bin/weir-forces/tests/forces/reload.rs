//! SIGHUP to `weir ce`: it applies its file as a whole or not at all, and associations that need not end continue.

use std::thread;
use std::time::Duration;

use super::stage::{CE, FE, Stage, Wire};
use crate::common::{Router, eventually, eventually_or};

/// For how long the association of the FE has existed, in seconds.
fn up_s(stage: &Stage) -> f64 {
    stage.table("associations")[0]["up_s"].as_f64().unwrap()
}

/// Another file, and the signal.
fn reload(stage: &Stage, ce: &Router, config: &str) {
    stage.configure(CE, config);
    ce.signal("HUP");
}

#[test]
fn a_reload_takes_over_fes_and_what_is_desired_of_them() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let (ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    thread::sleep(Duration::from_secs(1));
    let before = up_s(&stage);
    let second = "[fe.edge2]\nid = 3\ncertificate = \"stranger.crt\"\n";
    let sixty = stage.ce_config(second).replace("50 Mbit", "60 Mbit");
    reload(&stage, &ce, &sixty);
    eventually_or(
        "the FE follows the file",
        || ce.log(),
        || stage.rate() == 60,
    );
    stage.in_sync();
    assert_eq!(stage.state("edge2"), "away");
    let said = stage.ask(&["get", "edge2:port.wan.rate"], CE);
    assert!(said.contains("not associated"), "{said}");
    // A rate that an operator has set takes precedence over the file, as after a start.
    assert!(stage.set_rate(30));
    reload(&stage, &ce, &sixty.replace("60 Mbit", "70 Mbit"));
    eventually("the file is read", || {
        ce.log().matches("SIGHUP").count() == 2
    });
    stage.in_sync();
    assert_eq!(stage.rate(), 30);
    assert!(up_s(&stage) > before, "the association has ended");
    // One FE is removed, and the other is unchanged.
    reload(&stage, &ce, &stage.ce_config(""));
    eventually("it goes", || {
        stage.table("fes").as_array().unwrap().len() == 1
    });
    assert!(up_s(&stage) > before, "the association has ended");
}

#[test]
fn a_reload_is_refused_as_a_whole_with_the_reason() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let (ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let sixty = stage.ce_config("").replace("50 Mbit", "60 Mbit");
    let cases = [
        (
            sixty.replace("ce.redb", "other.redb"),
            "`store` cannot change while the CE runs",
        ),
        (
            sixty.replace(":6704", ":6705"),
            "`[listen]` cannot change while the CE runs",
        ),
        (
            sixty.replace("edge1.crt", "nothing.crt"),
            "nothing.crt: No such file",
        ),
        (sixty.replace("rate =", "rat ="), "did you mean `rate`"),
    ];
    for (number, (config, why)) in cases.into_iter().enumerate() {
        reload(&stage, &ce, &config);
        let is_refused = || ce.log().matches("nothing changed").count() > number;
        eventually_or(why, || ce.log(), is_refused);
        assert!(ce.log().contains(why), "{why}: {}", ce.log());
    }
    assert_eq!((stage.rate(), &*stage.state(FE)), (50, "in sync"));
    reload(&stage, &ce, &sixty);
    eventually("a good file is taken", || stage.rate() == 60);
}

#[test]
fn a_certificate_that_is_replaced_counts_no_more() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let (ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let config = stage.ce_config("");
    reload(&stage, &ce, &config.replace("edge1.crt", "stranger.crt"));
    eventually("the FE is gone", || stage.state(FE) == "away");
    thread::sleep(Duration::from_secs(1)); // it tries again
    assert_eq!(stage.state(FE), "away");
    reload(&stage, &ce, &config);
    stage.in_sync();
    reload(&stage, &ce, &config.replace("[fe.edge1", "[fe.west"));
    eventually_or(
        "it has another name",
        || ce.log(),
        || stage.table("fes")[0]["fe"] == "west" && stage.state("west") == "in sync",
    );
}
