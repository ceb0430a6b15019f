//! Peers with a false identity: refused, logged and counted, while the honest FE keeps its association.

use std::time::Duration;

use super::stage::{FE, Stage, Wire};
use crate::common::{Router, eventually};

/// How often a fault of this kind was counted.
pub(crate) fn count(stage: &Stage, fault: &str) -> u64 {
    let faults = stage.table("faults");
    let rows = faults.as_array().unwrap();
    let row = rows.iter().find(|row| row["fault"] == fault);
    row.map_or(0, |row| row["count"].as_u64().unwrap())
}

/// Starts an FE like the honest one with some words replaced; the CE counts this fault, logs it, and keeps the honest
/// FE.
fn is_refused(stage: &Stage, ce: &Router, replaced: &[(&str, &str)], fault: &str) {
    let mut config = stage.fe_config();
    for (old, new) in replaced {
        assert!(config.contains(old), "{old}");
        config = config.replace(old, new);
    }
    let ports = config.find("[port.lan]").unwrap();
    config.truncate(ports); // the honest FE has them
    config += "[port.spare]\ninterface = \"x0\"\n";
    let before = count(stage, fault);
    let impostor = stage.start_fe_as("impostor", &config);
    eventually(&format!("{fault}: {}", ce.log()), || {
        count(stage, fault) > before
    });
    std::thread::sleep(Duration::from_millis(500));
    let log = ce.log();
    assert!(log.contains(&format!("fault=\"{fault}\"")), "{log}");
    assert!(!log.contains("association lost"), "{log}");
    assert_eq!(log.matches("associated fe=").count(), 1, "{log}");
    assert_eq!(stage.state(FE), "in sync");
    let log = impostor.log();
    assert!(!log.contains("associated with a control element"), "{log}");
}

fn impostors(wire: Wire) {
    let Some(stage) = Stage::new(wire) else {
        return;
    };
    stage.ip("link add x0 type veth peer name x1");
    let ce = stage.start_ce_with("[fe.edge2]\nid = 3\ncertificate = \"stranger.crt\"\n");
    let _fe = stage.start_fe();
    stage.in_sync();
    assert!(stage.keys("nobody").status.success());
    let unknown = [("edge1.crt", "nobody.crt"), ("edge1.key", "nobody.key")];
    is_refused(&stage, &ce, &unknown, "unknown_certificate");
    let other = [("edge1.crt", "stranger.crt"), ("edge1.key", "stranger.key")];
    is_refused(&stage, &ce, &other, "other_id");
}

#[test]
fn impostors_are_refused_quic() {
    impostors(Wire::Quic);
}

#[test]
fn impostors_are_refused_tcp_udp() {
    impostors(Wire::Tls);
}

/// A plain connection to a CE that requires certificates.
#[test]
fn a_peer_without_a_certificate_is_refused() {
    let Some(stage) = Stage::new(Wire::Tls) else {
        return;
    };
    stage.ip("link add x0 type veth peer name x1");
    let ce = stage.start_ce();
    let _fe = stage.start_fe();
    stage.in_sync();
    let none = [
        ("certificate = \"edge1.crt\"\nkey = \"edge1.key\"", ""),
        (
            "insecure = false\ncertificate = \"ce.crt\"",
            "insecure = true",
        ),
    ];
    is_refused(&stage, &ce, &none, "handshake");
}
