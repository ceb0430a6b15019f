//! An FE that a CE has stopped: all commands show it, and an operator at the FE can resume forwarding.

use serde_json::Value;
use weir_northbound::client;

use super::stage::{CE, FE, Stage, Wire};
use crate::common::{ANSWERED, PING, eventually, eventually_or};

#[test]
fn an_fe_that_a_ce_has_disabled_shows_it_and_an_operator_ends_it() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let (mut ce, fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let status = || client::get::<Value>(&stage.socket(FE), "/v1/status").unwrap();
    let metrics = || {
        let bytes = client::get_bytes(&stage.socket(FE), "/metrics").unwrap();
        String::from_utf8(bytes.unwrap().to_vec()).unwrap()
    };
    assert_eq!(
        (&status()["forwards"], &status()["stopped_why"]),
        (&true.into(), &Value::Null)
    );
    assert!(metrics().contains("\nweir_forwards 1\n"));
    stage.ask(&["set", "edge1:FEObject.1.FEState=AdminDisable"], CE);
    eventually("it does not forward", || !stage.ping(PING));
    assert_eq!(status()["forwards"], false);
    assert!(metrics().contains("\nweir_forwards 0\n"));
    let said = stage.ask(&["show", "status"], FE);
    assert!(
        said.contains("the CE 0x40000001 has disabled the FE (AdminDisable)"),
        "{said}"
    );
    assert!(
        fe.log().contains("ERROR") && fe.log().contains("AdminDisable"),
        "{}",
        fe.log()
    );
    // The CE dies. The log reports the actual state, and the FE stays stopped.
    ce.signal("KILL");
    ce.ended();
    let gone = "which is no longer the master, has disabled the FE";
    eventually_or("the log says so", || fe.log(), || fe.log().contains(gone));
    assert!(
        !fe.log().contains("forwards as its last one"),
        "{}",
        fe.log()
    );
    assert!(!stage.ping(PING));
    let said = stage.ask(&["enable"], FE);
    assert!(
        said.contains("it had stopped forwarding: the CE 0x40000001"),
        "{said}"
    );
    eventually("it forwards", || stage.ping(PING));
    assert_eq!(
        (&status()["forwards"], &status()["stopped_why"]),
        (&true.into(), &Value::Null)
    );
    assert!(stage.ask(&["enable"], FE).contains("it already forwards"));
    // The store of the CE still has the operator's setting, so the CE stops the FE again until the setting is changed.
    let _ce = stage.start_ce();
    eventually_or("it stops again", || fe.log(), || !stage.ping(PING));
    stage.in_sync();
    assert_eq!(status()["forwards"], false);
    stage.ask(&["set", "edge1:FEObject.1.FEState=OperEnable"], CE);
    eventually_or("it forwards again", || fe.log(), || stage.ping(PING));
    assert_eq!(status()["stopped_why"], Value::Null);
}

/// Without a CE, and with `cefti = "0 s"`, the FE does not forward; an operator can make it forward.
#[test]
fn an_operator_lets_an_fe_without_a_ce_forward() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let config = stage
        .fe_config()
        .replace("[fe]\n", "[fe]\ncefti = \"0 s\"\n");
    let fe = stage.start_fe_as(FE, &config);
    eventually("it does not forward", || !stage.ping(PING));
    let said = stage.ask(&["show", "status"], FE);
    assert!(said.contains("no CE, and CEFTI has expired"), "{said}");
    stage.ask(&["enable"], FE);
    eventually_or("it forwards", || fe.log(), || stage.ping(PING));
    // With a CE the earlier rule applies: the FE forwards as long as a CE is connected.
    let mut ce = stage.start_ce();
    stage.in_sync();
    assert!(stage.ping(ANSWERED));
    ce.signal("TERM");
    ce.ended();
    eventually_or("it stops again", || fe.log(), || !stage.ping(PING));
}
