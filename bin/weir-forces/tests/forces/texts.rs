//! External strings with characters that a terminal obeys: names of an FE and of a kernel's interface.

use serde_json::{Value, json};
use weir_northbound::client;

use super::stage::{CE, FE, Stage, Wire};
use crate::common::eventually;

/// An escape sequence, a line that looks like ours, a bidirectional override, an eight-bit escape.
const NAME: &str = "w\u{1b}[2Jest\nfe  in sync\u{202e}\u{9b}1m";
const NAME_SHOWN: &str = "w\\u{1b}[2Jest\\nfe  in sync\\u{202e}\\u{9b}1m";
/// The kernel accepts both as names of interfaces; weir accepts no port with the second.
const INTERFACE: &str = "r\u{202e}7m";
const OTHER_INTERFACE: &str = "d\u{1b}[7m";

fn is_safe(text: &str) -> bool {
    let obeyed = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    !text.contains(obeyed)
}

#[test]
fn nothing_that_a_terminal_obeys_reaches_it() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    stage.ip("link set r1 down");
    stage.ip(&format!("link set r1 name {INTERFACE}"));
    stage.ip(&format!("link set {INTERFACE} up"));
    stage.ip(&format!(
        "link add {OTHER_INTERFACE} type veth peer name other"
    ));
    stage.ip(&format!("address add 10.78.0.1/24 dev {OTHER_INTERFACE}"));
    stage.ip(&format!("link set {OTHER_INTERFACE} up"));
    let ce = stage.start_ce();
    let config = stage.fe_config().replace("\"r1\"", "\"r\\u202e7m\"");
    let fe = stage.start_fe_as(FE, &config);
    stage.in_sync();
    let path = "edge1:FEObject.1.FEName";
    let change = json!([{ "path": path, "value": NAME }]);
    let answer: Value = client::patch(&stage.socket(CE), "/v1/component", &change).unwrap();
    assert_eq!(answer["applied"], true, "{answer}");
    eventually("the FE has the name", || {
        stage.ask(&["get", path], CE).contains("[2Jest")
    });
    let shown = stage.ask(&["get", path], CE);
    assert_eq!(shown.trim_end(), NAME_SHOWN);
    let json = stage.ask(&["get", path, "--json"], CE);
    assert!(is_safe(&json), "{json:?}");
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), NAME);
    for (words, element) in [
        ("get edge1:FEObject.1", CE),
        ("get edge1:port.wan", CE),
        ("show ports --fe edge1", CE),
        ("show ports --fe edge1 --json", CE),
        ("show lfbs", CE),
        ("show ports", FE),
        ("show ports --json", FE),
        ("show neighbours", FE),
        ("init --lan lan", FE),
        ("show routes", FE),
        ("top --once", FE),
        ("top --json", FE),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let output = stage.ask(&words, element);
        assert!(is_safe(&output), "{words:?}: {output:?}");
    }
    let ports = stage.ask(&["show", "ports", "--fe", "edge1"], CE);
    assert!(ports.contains("r\\u{202e}7m"), "{ports}");
    for log in [ce.log(), fe.log()] {
        assert!(is_safe(&log), "{log:?}");
    }
}
