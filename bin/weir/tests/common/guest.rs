//! Virtual machines with Debian's kernel, emulated: for features that the test machine's kernel lacks, or must not be
//! used for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The last line of a guest in which all went well.
pub(crate) const DONE: &str = "GUEST: all is well";

/// Makes a file or folder by a script of this repository; false if it cannot be made here.
pub(crate) fn made_by(script: &str, target: &Path) -> bool {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _making = ONE_AT_A_TIME.lock();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let status = Command::new(scripts.join(script)).arg(target).status();
    status.is_ok_and(|status| status.success())
}

/// Whether this machine can run guests.
pub(crate) fn is_possible() -> bool {
    let qemu = Command::new("qemu-system-x86_64").arg("--version").output();
    qemu.is_ok() && cfg!(target_arch = "x86_64")
}

/// Runs a guest until it powers off, or for as long as `patience`. Returns what its console printed.
pub(crate) fn run(
    kernel: &Path,
    initramfs: &Path,
    (megabytes, arguments): (u32, &str),
    patience: Duration,
) -> String {
    let mut guest = Command::new("qemu-system-x86_64")
        .args("-accel tcg -nodefaults -no-reboot -display none -serial stdio".split(' '))
        .args(["-m", &megabytes.to_string(), "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .arg("-append")
        .arg(format!(
            "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check {arguments}"
        ))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let mut console = guest.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        console.read_to_end(&mut text).map(|_| text)
    });
    while guest.try_wait().unwrap().is_none() {
        if begin.elapsed() > patience {
            guest.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = reader.join().unwrap().unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    println!("{text}\nthe guest ran for {:?}", begin.elapsed());
    text
}

/// Packs a folder in the format that the kernel expects (cpio, "newc"), at the end of an archive: the kernel
/// unpacks one after the other.
pub(crate) fn pack(folder: &Path, archive: File) {
    let find = Command::new("find")
        .arg(".")
        .current_dir(folder)
        .output()
        .unwrap();
    let mut cpio = Command::new("busybox")
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(archive)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The listing does not fit into a pipe.
    let mut input = cpio.stdin.take().unwrap();
    for name in find.stdout.split_inclusive(|b| *b == b'\n') {
        let name = OsStr::from_bytes(name).as_bytes();
        input.write_all(name).unwrap();
    }
    drop(input);
    assert!(cpio.wait().unwrap().success());
}
