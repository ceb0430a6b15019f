//! An FE enrols at its CE with a token, both renew their certificates during an association, and the CE revokes.

use std::fs;
use std::thread;
use std::time::Duration;

use super::impostors::count;
use super::stage::{CE, FE, Stage, Wire, reload};
use crate::common::{Router, eventually_or};

/// Address of the CE's desk.
const DESK: &str = "enrol = \"10.77.9.1:6708\"";

/// The configuration of a CE that has never had a certificate of edge1.
fn ce_config(stage: &Stage) -> String {
    let config = stage.ce_config("");
    let config = config.replace(
        "certificate = \"edge1.crt\"",
        "certificate = \"enrolled.crt\"",
    );
    format!("{DESK}\n{config}")
}

/// The configuration of an FE that has no certificates.
fn fe_config(stage: &Stage) -> String {
    let config = stage.fe_config();
    let config = config.replace("\"edge1.", "\"fe.");
    config.replace(
        "certificate = \"ce.crt\"",
        &format!("certificate = \"trusted.crt\"\n{DESK}"),
    )
}

/// Invites the FE, and enrols it.
fn enrol(stage: &Stage) {
    let invited = stage.weir(&["invite", FE], CE);
    assert!(invited.status.success(), "{invited:?}");
    let token = String::from_utf8(invited.stdout).unwrap();
    let file = stage.folder.join("edge1.toml");
    let said = stage.ask(&["enrol", file.to_str().unwrap(), token.trim()], FE);
    assert!(said.contains("enrolled as edge1, SHA-256 "), "{said}");
    let again = stage.ask(&["enrol", file.to_str().unwrap(), token.trim()], FE);
    assert!(again.contains("not enrolled: "), "{again}");
}

fn enrolment(wire: Wire) {
    let Some(stage) = Stage::new(wire) else {
        return;
    };
    let ce = stage.start_ce_as(&ce_config(&stage));
    eventually_or(
        "the CE names the command",
        || ce.log(),
        || ce.log().contains("`weir invite edge1`"),
    );
    let file = stage.configure(FE, &fe_config(&stage));
    let file = file.to_str().unwrap();
    let said = stage.ask(&["check", file], FE);
    assert!(said.contains("enrol first: `weir enrol "), "{said}");
    enrol(&stage);
    let fe = stage.start_fe_as(FE, &fe_config(&stage));
    stage.in_sync();
    thread::sleep(Duration::from_secs(1));
    let up_s = || stage.table("associations")[0]["up_s"].as_f64().unwrap();
    let before = up_s();
    // Both renew their certificates, and the association continues.
    let said = stage.ask(&["renew", file], FE);
    assert!(said.contains("~ fe: certificate "), "{said}");
    reload(&fe, "~ fe: certificate ");
    let said = stage.ask(&["renew"], CE);
    assert!(said.contains("when these FEs trust it: edge1"), "{said}");
    reload(&fe, "certificates changed; its association continues");
    let presented = "certificate of this CE replaced";
    eventually_or(presented, || ce.log(), || ce.log().contains(presented));
    reload(&fe, "certificates changed; its association continues");
    assert!(stage.set_rate(41), "{}", ce.log());
    assert_eq!(stage.rate(), 41);
    assert!(up_s() > before, "the association has ended: {}", ce.log());
    let log = ce.log();
    assert_eq!(log.matches("associated fe=").count(), 1, "{log}");
    let pins = fs::read_to_string(stage.folder.join("enrolled.crt")).unwrap();
    assert_eq!(pins.matches("BEGIN").count(), 1, "{pins}");
    // Revocation ends the association, and a restart of the CE does not forget it.
    let said = stage.ask(&["revoke", FE], CE);
    assert!(said.contains("revoked; its association ends"), "{said}");
    let is_refused = |ce: &Router| {
        eventually_or(
            "the FE is refused",
            || ce.log(),
            || count(&stage, "revoked") > 0 && stage.state(FE) == "away",
        );
    };
    is_refused(&ce);
    let table = stage.ask(&["show", "certificates"], CE);
    assert!(table.contains("revoked"), "{table}");
    ce.signal("TERM");
    let mut ce = ce;
    assert!(ce.ended().success());
    ce = stage.start_ce_as(&ce_config(&stage));
    is_refused(&ce);
    // A new invitation admits it again.
    enrol(&stage);
    reload(&fe, "~ fe: certificate ");
    stage.in_sync();
}

#[test]
fn an_fe_enrols_renews_and_is_revoked_quic() {
    enrolment(Wire::Quic);
}

#[test]
fn an_fe_enrols_renews_and_is_revoked_tcp_udp() {
    enrolment(Wire::Tls);
}
