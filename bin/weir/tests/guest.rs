//! VLAN devices and VRFs with a running router, compared with the kernel alone. The tests run in a virtual machine with
//! Debian's kernel, because the kernel of the test machine may have neither.
//!
//! ```text
//! this program --(initramfs: itself, weir, ip, ..)--> qemu: init --> this program again: the test
//! ```

mod devices;
mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::guest::{self, DONE};
use crate::common::{Bench, eventually};
use crate::gateway::{CONFIG, Tag, forwarded, stacks_of, tagged};
use weir_benches::testbed::{Testbed, run, udp_frame};
use weir_live::device::Device;
use weir_model::Value;

/// Environment variable that is set in the guest.
const INSIDE: &str = "WEIR_TEST_GUEST";
/// The guest is emulated, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(480);
/// Programs of this machine that the guest needs in addition to ours.
const PROGRAMS: [&str; 6] = ["dash", "ip", "ethtool", "nft", "tc", "ping"];

#[test]
fn vlan_devices_beside_the_router_work_and_vrfs_are_refused() {
    work_in_a_guest("guest::in_the_guest");
}

/// Boots a guest in which this program runs one test, which does the work.
fn work_in_a_guest(work: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    let kernel = folder.join("kernel");
    if !guest::made_by("guest-kernel", &kernel) || !guest::is_possible() {
        println!("skipped: no guest kernel, or no qemu-system-x86_64, here");
        return;
    }
    let initramfs = folder.join(work);
    make_initramfs(&kernel, work, &initramfs);
    let text = guest::run(&kernel.join("vmlinuz"), &initramfs, (768, ""), PATIENCE);
    assert!(text.contains(DONE));
}

/// Packs this program, weir, and their dependencies into an initramfs.
fn make_initramfs(kernel: &Path, work: &str, initramfs: &Path) {
    let this = std::env::current_exe().unwrap();
    let weir = PathBuf::from(env!("CARGO_BIN_EXE_weir"));
    let found = PROGRAMS.map(|name| {
        let places = ["/sbin", "/usr/sbin", "/bin", "/usr/bin"].map(Path::new);
        let mut places = places.iter().map(|place| place.join(name));
        places.find(|path| path.exists()).unwrap()
    });
    let staging = initramfs.with_extension("files");
    let _ = fs::remove_dir_all(&staging);
    for folder in ["bin", "proc", "sys", "dev", "tmp", "run"] {
        fs::create_dir_all(staging.join(folder)).unwrap();
    }
    copy(&kernel.join("root"), &staging, "lib/modules");
    let others = kernel.join("programs");
    for folder in ["etc/ppp", "usr/bin", "usr/lib/pppd", "usr/sbin"] {
        copy(&others, &staging, folder);
    }
    for program in [this.clone(), weir.clone()].iter().chain(&found) {
        with_libraries(program, program, &staging);
    }
    let pppd = Path::new("/usr/sbin/pppd");
    with_libraries(&others.join("usr/sbin/pppd"), pppd, &staging);
    // Debug information would only fill the guest's memory.
    for program in [&this, &weir] {
        let copy = staging.join(program.strip_prefix("/").unwrap());
        assert!(Command::new("strip").arg(copy).status().unwrap().success());
    }
    for program in &found {
        let name = program.file_name().unwrap();
        let link = staging.join("bin").join(name);
        let _ = std::os::unix::fs::symlink(program, link);
    }
    let busybox = Path::new("/bin/busybox");
    fs::copy(busybox, staging.join("bin/busybox")).unwrap();
    let init = format!(
        "#!/bin/busybox sh\n\
         /bin/busybox --install -s /bin 2>/dev/null\n\
         mkdir -p /sbin /etc; ln -s /bin/busybox /sbin/modprobe\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev\n\
         mkdir /dev/pts; mount -t devpts none /dev/pts; mount -t tmpfs none /run\n\
         export PATH=/bin:/sbin:/usr/bin:/usr/sbin TMPDIR=/tmp {INSIDE}=1 RUST_BACKTRACE=0\n\
         cd /tmp; modprobe -a 8021q af_packet vrf ppp_generic\n\
         {} --exact {work} --nocapture --test-threads=1\n\
         poweroff -f\n",
        this.display()
    );
    let path = staging.join("init");
    fs::write(&path, init).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    guest::pack(&staging, fs::File::create(initramfs).unwrap());
    fs::remove_dir_all(&staging).unwrap();
}

/// Copies a folder into another one, under the same name.
fn copy(from: &Path, to: &Path, what: &str) {
    let to = to.join(Path::new(what).parent().unwrap());
    fs::create_dir_all(&to).unwrap();
    let status = Command::new("cp")
        .arg("-r")
        .arg(from.join(what))
        .arg(&to)
        .status();
    assert!(status.unwrap().success());
}

/// Copies a program to a path, and its shared libraries to the same paths as here.
fn with_libraries(program: &Path, to: &Path, root: &Path) {
    let libraries = Command::new("ldd").arg(program).output().unwrap();
    let libraries = String::from_utf8(libraries.stdout).unwrap();
    let paths = libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    let libraries = paths.map(|path| (Path::new(path), Path::new(path)));
    for (path, to) in libraries.chain([(program, to)]) {
        let copy = root.join(to.strip_prefix("/").unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(path, copy).unwrap();
    }
}

/// Tags of the box's VLAN devices: plain, outer of two, inner of two; a tag of no device; priority only.
const PLAIN: Tag = (0x8100, 5);
const OUTER: Tag = (0x88a8, 6);
const INNER: Tag = (0x8100, 7);
const NOBODYS: Tag = (0x8100, 9);
const PRIORITY: [Tag; 2] = [(0x8100, 0), (0x88a8, 0)];

/// Does nothing unless the guest's init starts it.
#[test]
fn in_the_guest() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let mut bench = Bench::without_router().expect("root in the guest");
    let ip = |arguments: &str| run(&bench.bed.router, "ip", arguments).unwrap();
    ip("link add link r0 name r0.5 type vlan id 5");
    ip("link set r0.5 up");
    let later = [
        "link add link r0 name r0.6 type vlan proto 802.1ad id 6",
        "link set r0.6 up",
        "link add link r0.6 name r0.6.7 type vlan id 7",
        "link set r0.6.7 up",
    ];
    for command in later {
        ip(command);
    }
    let stacks = stacks_of(&[PLAIN, OUTER, INNER, NOBODYS, PRIORITY[0], PRIORITY[1]], 3);
    let own: [&[Tag]; 4] = [&[], &[PLAIN], &[OUTER], &[OUTER, INNER]];
    let without_priority =
        |stack: &[Tag]| -> Vec<Tag> { stack.iter().filter(|tag| tag.1 != 0).copied().collect() };

    // The kernel alone: priority tags may be anywhere, in any number.
    let kernel = |n: &usize| own.contains(&without_priority(&stacks[*n]).as_slice());
    let kernel: BTreeSet<usize> = (0..stacks.len()).filter(kernel).collect();
    let alone = forwarded(&bench.bed, &stacks);
    assert_eq!(
        BTreeSet::from_iter(alone.into_keys()),
        kernel,
        "forwarded by the kernel"
    );
    assert_eq!(
        delivered(&bench, &stacks),
        kernel,
        "delivered by the kernel"
    );

    // With weir, which starts with one VLAN device and discovers the others.
    run(&bench.bed.router, "ip", "link del r0.6").unwrap();
    bench.start(CONFIG);
    for command in later {
        run(&bench.bed.router, "ip", command).unwrap();
    }
    eventually("the new devices work", || {
        delivered(&bench, &[vec![OUTER, INNER]]).len() == 1
    });
    let came = forwarded(&bench.bed, &stacks);
    let wrong: BTreeMap<_, _> = came
        .iter()
        .filter(|(n, times)| **times > 1 || stacks[**n].iter().any(|tag| tag.1 != 0))
        .collect();
    assert!(wrong.is_empty(), "past weir, or twice: {wrong:?}");
    assert!(
        came.contains_key(&0),
        "transit without a tag goes through weir"
    );
    // One priority tag may precede the address, but not another tag.
    let expected = |n: &usize| {
        let stack = &stacks[*n];
        let last = stack.iter().rposition(|tag| tag.1 == 0);
        let zeros = stack.iter().filter(|tag| tag.1 == 0).count();
        kernel.contains(n) && zeros <= 1 && last.is_none_or(|at| at + 1 == stack.len())
    };
    let expected: BTreeSet<usize> = (0..stacks.len()).filter(expected).collect();
    let show = |numbers: &BTreeSet<usize>| -> Vec<_> {
        numbers.iter().map(|n| stacks[*n].clone()).collect()
    };
    let to_the_box = delivered(&bench, &stacks);
    assert_eq!(show(&to_the_box), show(&expected), "delivered beside weir");
    // When a device is deleted, its rule is deleted too.
    run(&bench.bed.router, "ip", "link del r0.5").unwrap();
    eventually("a device that goes is followed", || {
        let rules = run(&bench.bed.router, "nft", "list ruleset").unwrap();
        !rules.contains("0x5") && !rules.contains("vlan id 5")
    });
    vrfs_are_refused(&bench);
    println!(
        "of {} stacks of tags the kernel alone forwards and delivers {}; beside weir {} are \
         forwarded, all by weir, and {} delivered",
        stacks.len(),
        kernel.len(),
        came.len(),
        expected.len()
    );
    println!("{DONE}");
}

/// A port in a VRF hands forwarding back; a VRF without ports, and the rule that the kernel makes with the first one, do
/// not.
fn vrfs_are_refused(bench: &Bench) {
    let ip = |arguments: &str| run(&bench.bed.router, "ip", arguments).unwrap();
    let why = || {
        let status: Value = bench.get("/v1/status");
        status
            .text("handed_back_why")
            .unwrap_or_default()
            .to_owned()
    };
    ip("link add red type vrf table 10");
    ip("link set red up");
    assert!(ip("rule").contains("l3mdev"), "the kernel has its rule");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(why(), "", "no port is in it");
    ip("link set r0 master red");
    bench.eventually("the port in the VRF is found", || {
        why().contains("r0 in red (vrf)")
    });
    let path = bench.configure(CONFIG);
    let check = bench.weir(&["check", path.to_str().unwrap()]);
    let said = String::from_utf8(check.stderr).unwrap();
    assert!(
        said.contains("r0 in red (vrf)") && said.contains("bypass_rules"),
        "{said}"
    );
    ip("link set r0 nomaster");
    bench.eventually("weir forwards again", || why().is_empty());
}

/// Sends one datagram with each stack of tags to the box itself. Returns the datagrams that a program there receives.
fn delivered(bench: &Bench, stacks: &[Vec<Tag>]) -> BTreeSet<usize> {
    let bind = || UdpSocket::bind(("10.77.1.1", 9)).unwrap();
    let receiver = bench.bed.router.enter(bind).unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut sender = Testbed::open(&bench.bed.source, "a0").unwrap();
    let mut numbers = BTreeSet::new();
    for batch in stacks.chunks(64).enumerate() {
        let (number, stacks) = batch;
        for (n, stack) in stacks.iter().enumerate() {
            let mut frame = udp_frame((64 * number + n) as u16, 80);
            frame[30..34].copy_from_slice(&[10, 77, 1, 1]);
            frame[24..26].fill(0);
            let words = frame[14..34]
                .chunks(2)
                .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            let sum: u32 = words.sum();
            let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            let frame = tagged(frame, stack);
            while sender.transmit(&[&frame]).unwrap() == 0 {}
        }
        while let Ok((_, from)) = receiver.recv_from(&mut [0; 100]) {
            numbers.insert(usize::from(from.port()) - 1024);
        }
    }
    numbers
}
