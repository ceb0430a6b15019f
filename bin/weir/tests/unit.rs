//! The systemd units, checked by systemd's own tool.

use std::path::Path;
use std::process::Command;

#[test]
fn the_units_expose_little() {
    for unit in ["weir.service", "weir-ce.service", "weir-fe.service"] {
        exposes_little(unit);
    }
}

fn exposes_little(unit: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let unit = folder.join(unit);
    let judged = Command::new("systemd-analyze")
        // In tenths: below 2.0.
        .args(["security", "--offline=true", "--threshold=19"])
        .arg(unit)
        .output();
    let Ok(judged) = judged else {
        println!("skipped: there is no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{said}");
    assert!(said.contains("Overall exposure level"), "{said}");
}
