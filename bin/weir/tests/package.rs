//! The Debian package on a fresh Debian with systemd: from README's "Install" to a purge. The test runs in a virtual
//! machine.
//!
//! ```text
//! scripts/deb --(two versions)--+
//! scripts/guest-debian ---------+--> initramfs --> qemu: systemd --> readme.sh, steps.sh
//! README.md --(its commands)----+
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::guest::{self, DONE};

/// The guest is emulated, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(1200);
/// A new user must have a protected uplink within this time, in seconds.
const INSTALLED_MAX: f64 = 120.0;
/// Runs the steps on the console, then ends the machine.
const UNIT: &str = "\
[Unit]
Description=The test
After=basic.target
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStart=/bin/sh /root/steps.sh
ExecStopPost=/bin/systemctl poweroff --force --force
[Install]
WantedBy=multi-user.target
";

#[test]
fn a_stranger_has_a_protected_uplink_in_minutes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    fs::create_dir_all(&folder).unwrap();
    let (kernel, debian) = (folder.join("kernel"), folder.join("debian.cpio"));
    if !guest::made_by("guest-kernel", &kernel)
        || !guest::made_by("guest-debian", &debian)
        || !guest::is_possible()
    {
        println!("skipped: no guest kernel, no mmdebstrap, or no qemu-system-x86_64, here");
        return;
    }
    let staging = folder.join("files");
    let _ = fs::remove_dir_all(&staging);
    let home = staging.join("root");
    pack(&home, "1");
    pack(&home.join("new"), "2");
    write(&home.join("readme.sh"), &readme("## Install"));
    write(&home.join("steps.sh"), include_str!("package/steps.sh"));
    let units = staging.join("etc/systemd/system");
    write(&units.join("steps.service"), UNIT);
    fs::create_dir_all(units.join("multi-user.target.wants")).unwrap();
    symlink(
        "../steps.service",
        units.join("multi-user.target.wants/steps.service"),
    )
    .unwrap();
    let modules = staging.join("usr/lib/modules");
    fs::create_dir_all(modules.parent().unwrap()).unwrap();
    let from = kernel.join("root/lib/modules");
    let copied = Command::new("cp")
        .arg("-r")
        .arg(from)
        .arg(&modules)
        .status();
    assert!(copied.unwrap().success());

    let initramfs = folder.join("initramfs");
    fs::copy(&debian, &initramfs).unwrap();
    let archive = fs::OpenOptions::new()
        .append(true)
        .open(&initramfs)
        .unwrap();
    guest::pack(&staging, archive);
    fs::remove_dir_all(&staging).unwrap();
    let arguments = (1024, "systemd.show_status=0 loglevel=3");
    let text = guest::run(&kernel.join("vmlinuz"), &initramfs, arguments, PATIENCE);
    fs::remove_file(&initramfs).unwrap();
    assert!(text.contains(DONE));
    let times = text
        .lines()
        .find_map(|line| line.strip_prefix("INSTALLED "));
    let times = times.unwrap().split_whitespace();
    let times: Vec<f64> = times.map(|time| time.parse().unwrap()).collect();
    let took = times[1] - times[0];
    println!("README's commands took {took:.1} s in the emulated machine");
    assert!(took < INSTALLED_MAX);
}

/// Packs the tested programs, and keeps only the package of the router.
fn pack(folder: &Path, revision: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deb");
    let status = Command::new(script)
        .arg(Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap())
        .arg(folder)
        // An emulated machine takes ten seconds to unpack what this one packs in one.
        .args([revision, "none"])
        .status();
    assert!(status.unwrap().success());
    // The guest's disk is in its memory, and the guest installs only the router.
    for other in ["weir-forces", "weir-lab"] {
        let files = fs::read_dir(folder).unwrap().flatten();
        let name = format!("{other}_");
        let mut packages =
            files.filter(|file| file.file_name().to_string_lossy().starts_with(&name));
        fs::remove_file(packages.next().unwrap().path()).unwrap();
    }
}

/// The commands of the first block below a heading of README.
fn readme(heading: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, below) = text.split_once(&format!("\n{heading}\n")).unwrap();
    let (_, block) = below.split_once("```sh\n").unwrap();
    let (commands, _) = block.split_once("```").unwrap();
    assert!(commands.contains("apt install"), "{commands}");
    commands.to_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
