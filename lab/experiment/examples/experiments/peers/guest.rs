//! A guest with Debian's kernel, whose queue disciplines are compared with ours of the same names.
//!
//! ```text
//!  linux-image-cloud-amd64 --> vmlinuz, modules --+
//!  busybox, ip, tc, weir and their libraries -----+--> initramfs --> qemu, one start for each run --> lines of the sink
//!  guest.sh --------------------------------------+
//! ```
//!
//! qemu emulates the processor and counts its instructions as time (`-icount`), so that the guest's clock does
//! not depend on the load of this machine: the result is the kernel's behaviour, not its speed. An instruction takes a
//! nanosecond there. With four nanoseconds, the guest was too slow for its own senders, and their queues ran empty at
//! times.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::cases::Case;
use crate::program::output;

const SCRIPT: &str = include_str!("guest.sh");
const REMEDY: &str = "apt-get install qemu-system-x86 busybox-static iproute2";
/// Debian's package that depends on the kernel of the day, without drivers of real machines.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// The modules that are loaded, in order.
const MODULES: [&str; 4] = [
    "drivers/net/veth.ko",
    "net/sched/sch_cake.ko",
    "net/sched/sch_htb.ko",
    "net/sched/sch_netem.ko",
];
/// Seconds at the start that are excluded from all measures: the same as the scenario's `warm_up`.
const WARM_UP_S: f64 = 5.0;
/// Seconds of this machine's time after which a guest is stopped: one needs about a minute, if nothing else runs.
const SECONDS_MAX: &str = "300";
/// The senders of the scenario, with the ports of their receivers.
const SENDERS: [(&str, u64); 3] = [("one", 9001), ("two", 9002), ("three", 9003)];
/// Last line of a guest that ran to its end.
const DONE: &str = "the guest is done";

/// A kernel and an initramfs.
pub(super) struct Guest {
    kernel: PathBuf,
    initramfs: PathBuf,
}

impl Guest {
    /// Fetches the kernel, unless it is in `folder` already, and packs the initramfs with the program `weir`.
    pub(super) fn build(folder: &Path, weir: &Path) -> Result<Self, String> {
        let programs = [
            "qemu-system-x86_64",
            "busybox",
            "ip",
            "tc",
            "ldd",
            "timeout",
        ];
        let programs = programs.map(|name| (name, super::found(name)));
        let missing: Vec<&str> = programs
            .iter()
            .filter(|(_, path)| path.is_none())
            .map(|(name, _)| *name)
            .collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!("not installed: {missing}; remedy: {REMEDY}"));
        }
        let package = folder.join("package");
        if !package.exists() {
            fetch(folder, &package)?;
        }
        let kernel = only_child(&package.join("boot"), "vmlinuz-")?;
        let modules = only_child(&package.join("lib/modules"), "")?;

        let root = folder.join("root");
        let folders = ["bin", "dev", "modules", "proc", "run", "sys"];
        let mut folders = folders.iter().map(|name| root.join(name));
        let removed = if root.exists() {
            fs::remove_dir_all(&root)
        } else {
            Ok(())
        };
        removed
            .and_then(|()| folders.try_for_each(fs::create_dir_all))
            .map_err(|error| format!("{}: {error}", root.display()))?;
        for (number, module) in MODULES.into_iter().enumerate() {
            // The names are in the order in which the script loads them.
            let name = format!("modules/{number}.ko");
            copy(&modules.join("kernel").join(module), &root.join(name))?;
        }
        let guests = programs
            .iter()
            .filter(|(name, _)| ["busybox", "ip", "tc"].contains(name));
        let guests = guests.filter_map(|(_, path)| path.as_deref());
        for program in guests.chain([weir]) {
            install(program, &root)?;
        }
        let script = root.join("init");
        fs::write(&script, SCRIPT).map_err(|error| format!("{}: {error}", script.display()))?;
        output(Command::new("chmod").arg("755").arg(&script))?;
        let initramfs = folder.join("initramfs");
        pack(&root, &initramfs)?;
        Ok(Self { kernel, initramfs })
    }

    /// Runs a case in a new guest. [`results`] reads its console.
    pub(super) fn command(&self, case: &Case, seed: usize) -> Command {
        let mut line = format!(
            "console=ttyS0 quiet panic=-1 SEED={seed} SECONDS_ALL={} SECONDS_WARM_UP={WARM_UP_S}",
            case.seconds
        );
        for argument in &case.arguments {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            line += &format!(" {name}=\"{value}\"");
        }
        let mut qemu = Command::new("timeout");
        qemu.args([SECONDS_MAX, "qemu-system-x86_64"]);
        qemu.args(["-accel", "tcg", "-icount", "shift=0,sleep=off"]);
        qemu.args(["-m", "512", "-nographic", "-no-reboot", "-nic", "none"]);
        qemu.arg("-kernel").arg(&self.kernel);
        qemu.arg("-initrd").arg(&self.initramfs);
        qemu.args(["-append", &line]).stdin(Stdio::null());
        qemu
    }
}

/// Goodput by sender, in Mbit/s, and the packets that the queue dropped and marked in the whole run, from the console of a
/// guest that ran for this time.
pub(super) fn results(console: &str, seconds: f64) -> Result<Value, String> {
    if !console.contains(DONE) {
        let lines: Vec<&str> = console.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        return Err(format!("the guest did not finish:\n{last}"));
    }
    let lines = console
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let lines: Vec<Value> = lines.collect();
    let flows: Vec<&Value> = lines.iter().filter(|line| line["line"] == "flow").collect();
    let window_s = seconds - WARM_UP_S;
    let mut result = json!({});
    for (name, port) in SENDERS {
        let own = flows.iter().filter(|flow| flow["port"] == port);
        let bytes: f64 = own.filter_map(|flow| flow["window_bytes"].as_f64()).sum();
        result[name] = (bytes * 8.0 / window_s / 1e6).into();
    }
    // The last line is a list of the qdiscs at the port: the queue, and above FQ-CoDel HTB. CAKE counts by tin.
    let qdiscs = lines.iter().rev().find_map(Value::as_array);
    let queue = qdiscs.and_then(|all| {
        all.iter()
            .find(|q| q["kind"] == "cake" || q["kind"] == "fq_codel")
    });
    let queue = queue.ok_or("the guest's `tc` reported no queue")?;
    let tins = queue["tins"].as_array().map_or(&[][..], Vec::as_slice);
    let marked = |part: &Value| part["ecn_mark"].as_f64().unwrap_or(0.0);
    result["dropped"] = queue["drops"].clone();
    result["marked"] = (marked(queue) + tins.iter().map(marked).sum::<f64>()).into();
    Ok(result)
}

/// Unpacks Debian's kernel of the day to `package`.
fn fetch(folder: &Path, package: &Path) -> Result<(), String> {
    let depends = output(Command::new("apt-cache").args(["depends", PACKAGE]))?;
    let image = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: linux-image"));
    let image = image.ok_or(format!(
        "apt-cache depends {PACKAGE}: no kernel; remedy: apt-get update"
    ))?;
    let image = format!("linux-image{image}");
    eprintln!("{image}");
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    output(
        Command::new("apt-get")
            .args(["download", &image])
            .current_dir(folder),
    )?;
    let archive = only_child(folder, &image)?;
    output(Command::new("dpkg-deb").arg("-x").arg(archive).arg(package))?;
    Ok(())
}

/// The only file of a folder whose name begins with `begin`.
fn only_child(folder: &Path, begin: &str) -> Result<PathBuf, String> {
    let wrong = |what: &str| {
        format!(
            "{}: {what} `{begin}..` in it; delete the folder to fetch it again",
            folder.display()
        )
    };
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let begins = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(begin))
    };
    let mut found = paths.filter(begins);
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        (None, _) => Err(wrong("no")),
        (Some(_), Some(_)) => Err(wrong("more than one")),
    }
}

/// Copies a program to the `bin` of a guest, and its libraries to the paths where it expects them.
fn install(program: &Path, root: &Path) -> Result<(), String> {
    let name = program
        .file_name()
        .ok_or(format!("{}: not a file", program.display()))?;
    copy(program, &root.join("bin").join(name))?;
    // A static program makes ldd fail, and has no libraries.
    let libraries = output(Command::new("ldd").arg(program)).unwrap_or_default();
    for word in libraries
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        copy(Path::new(word), &root.join(word.trim_start_matches('/')))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    let copied = made.and_then(|()| fs::copy(from, to));
    copied.map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))?;
    Ok(())
}

/// Packs a folder as an initramfs.
fn pack(root: &Path, to: &Path) -> Result<(), String> {
    let names = output(Command::new("find").arg(".").current_dir(root))?;
    let fault = |error: std::io::Error| format!("{}: {error}", to.display());
    let file = fs::File::create(to).map_err(fault)?;
    let mut cpio = Command::new("busybox");
    cpio.args(["cpio", "-o", "-H", "newc"]).current_dir(root);
    cpio.stdin(Stdio::piped())
        .stdout(file)
        .stderr(Stdio::null());
    let mut child = cpio.spawn().map_err(fault)?;
    let fed = child
        .stdin
        .take()
        .map(|mut input| input.write_all(names.as_bytes()));
    fed.transpose().map_err(fault)?;
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{cpio:?} failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_the_sum_of_a_senders_flows_and_a_queue_counts_by_tin() {
        let console = "Booting\n\
            {\"line\":\"ready\"}\n\
            {\"line\":\"flow\",\"port\":9001,\"window_bytes\":1000000}\n\
            {\"line\":\"flow\",\"port\":9001,\"window_bytes\":500000}\n\
            {\"line\":\"flow\",\"port\":9003,\"window_bytes\":250000}\n\
            [{\"kind\":\"cake\",\"drops\":7,\"tins\":[{\"ecn_mark\":3},{\"ecn_mark\":2}]}]\n\
            the guest is done\n";
        let result = results(console, 7.0).unwrap();
        let expected = json!({ "one": 6.0, "two": 0.0, "three": 1.0, "dropped": 7, "marked": 5.0 });
        assert_eq!(result, expected);
        let own = console.replace("\"cake\"", "\"noqueue\"");
        assert!(results(&own, 7.0).is_err());
        let cut = console.replace(DONE, "Kernel panic");
        assert!(results(&cut, 7.0).unwrap_err().contains("Kernel panic"));
    }
}
