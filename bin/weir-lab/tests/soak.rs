//! `weir soak` for some seconds: everything holds.
//!
//! Where network namespaces are not permitted, it prints that and skips.

use std::process::Command;

use weir_live::namespace::Namespace;

#[test]
fn a_router_under_fire_is_as_before() {
    if let Err(error) = Namespace::new() {
        println!("skipped: no network namespaces here ({error})");
        return;
    }
    for mode in ["routed", "queue"] {
        let arguments = [
            "soak",
            "--mode",
            mode,
            "--duration",
            "15 s",
            "--routes",
            "5000",
            "--seed",
            "1",
        ];
        let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
            .args(arguments)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        println!("{printed}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}\n{said}");
        assert!(!printed.contains("FAILS"), "{printed}");
    }
}
