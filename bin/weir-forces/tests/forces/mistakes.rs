//! An operator mistypes: each answer names the mistake and the existing names.

use std::fs;

use super::stage::{CE, FE, Stage, Wire};
use crate::common::eventually;

fn is_refused(stage: &Stage, words: &[&str], expected: &str) {
    let output = stage.weir(words, CE);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{words:?} succeeds");
    assert!(said.contains(expected), "{words:?}: {expected}: {said}");
}

#[test]
fn places_and_values_that_are_not_there() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    is_refused(
        &stage,
        &["show", "fes"],
        "is `weir router`, `weir fe` or `weir ce` running",
    );
    let _ce = stage.start_ce();
    is_refused(&stage, &["get", "edge1:port.wan.rate"], "edge1");
    let _fe = stage.start_fe();
    stage.in_sync();
    for (words, expected) in [
        ("get edge1:prot.wan.rate", "did you mean `port`?"),
        ("get edge1:port.wen.rate", "one of lan, wan"),
        ("get edge1:port.wan.rtae", "did you mean `rate`?"),
        ("get edg1:port.wan.rate", "did you mean `edge1`?"),
        ("get port.wan.rate", "like edge1:port.wan.rate"),
        ("get edge1:port", "like port.wan"),
        ("set edge1:port.wan.rate=fast", "like \"95 Mbit\""),
        (
            "set edge1:port.wan.state=down",
            "it can be read, but not set",
        ),
        (
            "set edge1:port.wna.rate=9_Mbit",
            "edge1:port.wna: there is no port `wna`",
        ),
        (
            "set --fe edge2 edge1:port.wan.rate=9_Mbit",
            "`--fe edge2` contradicts `edge1:port.wan.rate`",
        ),
        (
            "set edge1:port.wan.rate=9_Mbit mode=routed",
            "all paths begin with an FE",
        ),
        ("show ports", "`--fe NAME` queries one of its FEs"),
        ("show ports --fe edg1", "did you mean `edge1`?"),
        ("watch edge1:port.wan.recieved", "did you mean `received`?"),
    ] {
        let words: Vec<_> = words.split(' ').map(|w| w.replace('_', " ")).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        is_refused(&stage, &words, expected);
    }
    assert_eq!(stage.rate(), 50);
    for words in [
        &["set", "edge1:ports.wan.rate=40 Mbit"][..],
        &["set", "--fe", "edge1", "port.wan.rate=40 Mbit"],
        &["get", "edge1:ports.wan.rate"],
        &["unset", "--fe", "edge1", "port.wan.rate"],
    ] {
        let done = stage.weir(words, CE);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {said}");
        let hint = "weir: write `edge1:port.wan.rate`";
        assert!(said.starts_with(hint), "{words:?}: {said}");
    }
}

#[test]
fn files_for_another_command_and_a_second_ce() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let _ce = stage.start_ce();
    let ce = stage.folder.join("ce.toml").display().to_string();
    let fe = stage.configure(FE, &stage.fe_config());
    let fe = fe.display().to_string();
    is_refused(&stage, &["fe", &ce], "run it with `weir ce");
    is_refused(&stage, &["router", &ce], "run it with `weir ce");
    is_refused(&stage, &["ce", &fe], "run it with `weir fe");
    is_refused(&stage, &["router", &fe], "start it with `weir fe");
    is_refused(&stage, &["ce", &ce], "another `weir ce` uses the store");
    let text = fs::read_to_string(&ce).unwrap();
    let typed = |name: &str, old: &str, new: &str| {
        let path = stage.folder.join(name);
        assert!(text.contains(old), "{old}");
        fs::write(&path, text.replace(old, new)).unwrap();
        path.display().to_string()
    };
    let other = typed("store.toml", "ce.redb", "other.redb");
    is_refused(
        &stage,
        &["ce", &other],
        "another weir already listens on this socket",
    );
    let lisen = typed("lisen.toml", "[listen.main]", "[lisen.main]");
    is_refused(&stage, &["check", &lisen], "did you mean `listen`?");
    let none = typed("none.toml", "edge1.crt", "edge9.crt");
    is_refused(&stage, &["check", &none], "edge9.crt");
    let good = stage.ask(&["check", &ce], CE);
    assert!(
        good.contains("a control element with 1 FE and 1 listener"),
        "{good}"
    );
}

/// An FE whose CE cannot be reached reports it, and forwards.
#[test]
fn a_ce_that_is_not_there() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let fe = stage.start_fe();
    eventually("the log has the reason", || {
        fe.log().contains("cannot connect to 127.0.0.1:6704")
    });
    assert!(stage.ping(crate::common::ANSWERED));
}

#[test]
fn a_certificate_that_nobody_can_show_is_warned_of() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let good = stage.ce_config("");
    for (config, is_warned) in [
        (
            good.replace("\"quic\"\ninsecure = false", "\"sctp\"\ninsecure = true"),
            true,
        ),
        (good, false),
    ] {
        let file = stage.configure("warned", &config);
        let said = stage.ask(&["check", file.to_str().unwrap()], "warned");
        assert!(
            said.contains("valid, a control element with 1 FE"),
            "{said}"
        );
        let warning = "[fe.edge1] has a `certificate`, but sctp cannot present one";
        assert_eq!(said.contains(warning), is_warned, "{said}");
    }
}
