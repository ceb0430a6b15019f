//! Certificates are replaced during an association, and their expiry is announced.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_northbound::client;

use super::impostors::count;
use super::stage::{CE, FE, Stage, Wire, reload};
use crate::common::{Router, eventually_or};

/// Sends SIGHUP to both elements, and waits until each has read its file and logs this text.
fn reload_both(stage: &Stage, elements: [(&Router, &str); 2]) {
    for (element, line) in elements {
        reload(element, line);
    }
    assert_eq!(stage.state(FE), "in sync");
}

fn rotation(wire: Wire) {
    let Some(stage) = Stage::new(wire) else {
        return;
    };
    let path = |name: &str| stage.folder.join(name);
    let read = |name: &str| fs::read_to_string(path(name)).unwrap();
    let pin = |name: &str, files: &[&str]| {
        let all: String = files.iter().map(|file| read(file)).collect();
        fs::write(path(name), all).unwrap();
    };
    pin("edge1.pin", &["edge1.crt"]);
    pin("ce.pin", &["ce.crt"]);
    let config = stage.ce_config("");
    let config = config.replace("certificate = \"edge1.crt\"", "certificate = \"edge1.pin\"");
    let ce = stage.start_ce_as(&config);
    let of_fe = stage.fe_config();
    let of_fe = of_fe.replace("certificate = \"ce.crt\"", "certificate = \"ce.pin\"");
    let mut fe = stage.start_fe_as(FE, &of_fe);
    stage.in_sync();
    thread::sleep(Duration::from_secs(1));
    let up_s = || stage.table("associations")[0]["up_s"].as_f64().unwrap();
    let before = up_s();
    let is_steered = |rate: u64| {
        assert!(stage.set_rate(rate), "{}", ce.log());
        assert_eq!(stage.rate(), rate);
    };
    for name in ["ce-2", "edge1-2"] {
        assert!(stage.keys(name).status.success());
    }
    // Each side trusts the new certificate of the other side in addition to the old one.
    pin("edge1.pin", &["edge1.crt", "edge1-2.crt"]);
    pin("ce.pin", &["ce.crt", "ce-2.crt"]);
    let goes_on = "certificates changed; its association continues";
    reload_both(&stage, [(&ce, goes_on), (&fe, goes_on)]);
    is_steered(41);
    let certificates = stage.table("certificates");
    let rows = certificates.as_array().unwrap();
    assert_eq!(rows.len(), 3, "{certificates}");
    let days = rows
        .iter()
        .map(|row| row["left_s"].as_f64().unwrap() / 86_400.0);
    assert!(
        { days }.all(|days| (363.0..=365.0).contains(&days)),
        "{certificates}"
    );
    let status: Value = client::get(&stage.socket(FE), "/v1/status").unwrap();
    let days = status["certificate_left_s"].as_f64().unwrap() / 86_400.0;
    assert!((363.0..=365.0).contains(&days), "{status}");
    // Each side presents its new certificate.
    for name in ["ce", "edge1"] {
        fs::rename(path(&format!("{name}.key")), path(&format!("{name}-1.key"))).unwrap();
        fs::rename(path(&format!("{name}.crt")), path(&format!("{name}-1.crt"))).unwrap();
        fs::rename(path(&format!("{name}-2.key")), path(&format!("{name}.key"))).unwrap();
        fs::rename(path(&format!("{name}-2.crt")), path(&format!("{name}.crt"))).unwrap();
    }
    reload_both(
        &stage,
        [(&ce, "~ certificate: "), (&fe, "~ fe: certificate ")],
    );
    is_steered(42);
    // Each side removes the old certificate.
    pin("edge1.pin", &["edge1.crt"]);
    pin("ce.pin", &["ce.crt"]);
    reload_both(&stage, [(&ce, goes_on), (&fe, goes_on)]);
    is_steered(43);
    assert!(up_s() > before, "the association has ended: {}", ce.log());
    for (log, associated) in [
        (ce.log(), "associated fe="),
        (fe.log(), "associated with a control element"),
    ] {
        assert_eq!(log.matches(associated).count(), 1, "{log}");
        assert!(
            !log.contains("association lost") && !log.contains("no association"),
            "{log}"
        );
    }
    // New handshakes use only the new certificates.
    fe.signal("TERM");
    assert!(fe.ended().success());
    fe = stage.start_fe_as(FE, &of_fe);
    stage.in_sync();
    fe.signal("TERM");
    assert!(fe.ended().success());
    let before = count(&stage, "unknown_certificate");
    let old = of_fe.replace("\"edge1.", "\"edge1-1.");
    let _old = stage.start_fe_as("old", &old);
    eventually_or(
        "the old certificate is refused",
        || ce.log(),
        || count(&stage, "unknown_certificate") > before,
    );
}

#[test]
fn certificates_rotate_under_an_association_quic() {
    rotation(Wire::Quic);
}

#[test]
fn certificates_rotate_under_an_association_tcp_udp() {
    rotation(Wire::Tls);
}

#[test]
fn a_certificate_that_ends_soon_is_warned_of() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    fs::remove_file(stage.folder.join("edge1.crt")).unwrap();
    fs::remove_file(stage.folder.join("edge1.key")).unwrap();
    let made = stage.weir(
        &[
            "keys",
            stage.folder.join("edge1").to_str().unwrap(),
            "--days=5",
        ],
        CE,
    );
    let made = String::from_utf8(made.stdout).unwrap();
    assert!(made.contains("valid until "), "{made}");
    let (ce, fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let whose = [
        (&ce, "the certificate of 0x00000002 expires in "),
        (&fe, "our certificate expires in "),
    ];
    for (element, warning) in whose {
        assert_eq!(
            element.log().matches(warning).count(),
            1,
            "{}",
            element.log()
        );
    }
    for name in [CE, FE] {
        let file = stage.folder.join(format!("{name}.toml"));
        let output = stage.weir(&["check", file.to_str().unwrap()], CE);
        let said = format!("{output:?}");
        assert!(
            output.status.success() && said.contains("expires in "),
            "{said}"
        );
    }
}
