//! The systemd units, checked by systemd's own tool.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_units_expose_little() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    for unit in ["weir.service", "weir-ce.service", "weir-fe.service"] {
        exposes_little(&folder.join(unit));
    }
    let made = Command::new("sed")
        .arg("-f")
        .args(["weir@.sed", "weir.service"].map(|file| folder.join(file)))
        .output()
        .unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    assert_eq!(text.matches("/etc/weir/%i.toml").count(), 4, "{text}");
    assert!(!text.contains("weir.toml"), "{text}");
    assert!(text.contains("\nRuntimeDirectory=weir@%i\n"), "{text}");
    let unit = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weir@.service");
    fs::write(&unit, text).unwrap();
    exposes_little(&unit);
}

fn exposes_little(unit: &Path) {
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
