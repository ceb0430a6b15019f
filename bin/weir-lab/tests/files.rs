//! Paths that are not files, full disks, closed pipes.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{self, commands, eventually};

fn weir(arguments: &[&str], out: impl Into<Stdio>) -> Output {
    Command::new(common::weir())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Commands that print without a router and without a long run.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["check", "--help"],
    &["list", "disciplines"],
    &["list", "schema"],
    &["describe", "fifo"],
    &["completions", "bash"],
    &["manpage"],
    &["bench", "encapsulation"],
    &["bench", "encapsulation", "--json"],
];

#[test]
fn a_full_disk_is_said_with_exit_code_1() {
    for arguments in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = weir(arguments, full);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let expected = "weir: cannot write to standard output: No space left on device";
        assert!(said.starts_with(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = weir(arguments, writer);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), &said[..]),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn an_error_that_cannot_be_said_is_still_an_exit_code() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(common::weir())
        .args(["describe", "nothing"])
        .stdout(full())
        .stderr(full())
        .status();
    assert_eq!(status.unwrap().code(), Some(2));
}

#[test]
fn only_files_with_an_end_are_read() {
    let folder = folder("files");
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let large = folder.join("large.toml");
    fs::write(&large, vec![b'#'; (1 << 20) + 1]).unwrap();
    for (command, path, why) in [
        ("check", "/dev/zero", "it is a device or a pipe"),
        ("check", pipe.to_str().unwrap(), "it is a device or a pipe"),
        ("check", folder.to_str().unwrap(), "it is a folder"),
        (
            "check",
            large.to_str().unwrap(),
            "it is longer than 1048576 bytes",
        ),
        ("apply", "/dev/zero", "it is a device or a pipe"),
        ("router", pipe.to_str().unwrap(), "it is a device or a pipe"),
        ("router", "-", "name a file, not standard input"),
        ("run", "/dev/zero", "it is a device or a pipe"),
        ("run", pipe.to_str().unwrap(), "it is a device or a pipe"),
    ] {
        let output = weir(&[command, path], Stdio::null());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command} {path}: {said}");
        assert!(
            (path == "-" || said.contains(path)) && said.contains(why),
            "{command} {path}: {said}"
        );
    }
}

/// The runs stored in a folder, each as its line.
fn kept(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let kept = entries.filter(|e| e.file_name().to_string_lossy().starts_with("unfinished-"));
    let text = kept.map(|entry| fs::read_to_string(entry.path()).unwrap());
    text.collect::<String>()
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(str::to_owned)
        .collect()
}

/// Number of these runs with a seed up to this one.
fn up_to(kept: &[String], last: u64) -> usize {
    let seed = |line: &&String| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["run"]["seed"].as_u64().unwrap() <= last
    };
    kept.iter().filter(seed).count()
}

/// Twelve runs of two points.
const SWEEP: &str = r#"
title = "t"
duration = "4 s"
runs = 12
[router.r]
[host.a]
[host.b]
[link.in]
ends = ["a", "r"]
rate = "1 Gbit"
[link.bottleneck]
ends = ["r", "b"]
rate = "10 Mbit"
discipline = { kind = "fifo" }
[traffic.t]
kind = "tcp"
from = "a"
to = "b"
[traffic.u]
kind = "udp"
from = "a"
to = "b"
rate = "1 Mbit"
spacing = "poisson"
[sweep]
"link.bottleneck.delay" = ["1 ms", "10 ms"]
"#;

#[test]
fn a_sweep_that_is_killed_goes_on_where_it_stopped() {
    let place = folder("sweep");
    let scenario = place.join("sweep.toml");
    fs::write(&scenario, SWEEP).unwrap();
    let run = |out: &str| {
        let mut command = Command::new(common::weir());
        let out = place.join(out);
        command.arg("run").arg(&scenario).args(["--jobs", "1"]);
        command.arg("--out").arg(out).stdout(Stdio::null());
        command
    };
    // Killed ten times, whenever another run has been stored, and at any moment after that; with more runs than a busy
    // machine could finish meanwhile.
    let out = place.join("killed");
    let mut before = Vec::new();
    for round in 0..10 {
        let mut many = run("killed");
        many.args(["--runs", "1000"]).stderr(Stdio::null());
        let mut child = many.spawn().unwrap();
        while !out.is_dir() || kept(&out).len() <= before.len() {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "it ends before it is killed"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = kept(&out);
        assert_eq!(
            now[..before.len()],
            before,
            "a finished run is lost or changed"
        );
        before = now;
    }
    // A truncated line, as after a full disk.
    let name = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&name).unwrap();
    fs::write(&name, [&whole[..], &whole[..99]].concat()).unwrap();
    assert!(run("killed").output().unwrap().status.success());
    assert!(run("whole").output().unwrap().status.success());
    let results = |out: &str| -> serde_json::Value {
        let text = fs::read_to_string(place.join(out).join("results.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let (killed, whole) = (results("killed"), results("whole"));
    assert_eq!(killed["points"], whole["points"]);
    let earlier = up_to(&before, 12);
    let expected = format!("an earlier call finished {earlier} of the 24 runs");
    let note = killed["notes"][0].as_str().unwrap();
    assert!(note.starts_with(&expected), "{note}");
    assert_eq!(kept(&out), Vec::<String>::new(), "the report has them");
}

#[test]
fn other_reports_of_runs_that_are_killed_go_on_too() {
    let place = folder("reports");
    let scenario = place.join("sweep.toml");
    fs::write(&scenario, SWEEP.split("[sweep]").next().unwrap()).unwrap();
    let scenario = scenario.to_str().unwrap();
    for words in [
        &["compare", "fifo", "sfq", "--load", scenario][..],
        &["reproduce", "lru-fq/fig5a", "--quick"],
    ] {
        let out = place.join(words[0]);
        let report = |runs: &str| {
            let mut command = Command::new(common::weir());
            command.args(words).args(["--jobs", "1", "--runs", runs]);
            command.arg("--out").arg(&out);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        // More runs than a busy machine could finish meanwhile.
        let mut child = report("1000").spawn().unwrap();
        while !out.is_dir() || kept(&out).is_empty() {
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "it ends before it is killed"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let earlier = up_to(&kept(&out), 3);
        report("3").output().unwrap(); // of a preview, some claims are undecided
        assert!(kept(&out).is_empty(), "the report has them");
        let page = fs::read_to_string(out.join(format!("{}.html", words[0]))).unwrap();
        let note = format!("an earlier call finished {earlier} of the");
        assert!(page.contains(&note), "{words:?}: {page}");
    }
}

#[test]
fn a_command_that_waits_ends_with_its_reader() {
    // A router that accepts and never answers.
    let place = folder("silent");
    let socket = place.join("silent.sock");
    let router = UnixListener::bind(&socket).unwrap();
    let answered = std::thread::spawn(move || router.incoming().take(4).collect::<Vec<_>>());
    let socket = socket.to_str().unwrap();
    let router = ["--socket", socket];
    for command in [
        &["observe"][..],
        &["watch", "fe1:port.wan.rate"],
        &["show", "ports", "--watch"],
        &["capture", "--out", "-"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut child = Command::new(common::weir())
            .args(command)
            .args(router)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(reader);
        let mut status = None;
        eventually(&format!("{command:?} ends"), || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let code = status.unwrap().code();
        assert_eq!((code, &said[..]), (Some(0), ""), "{command:?}");
    }
    drop(answered); // it has up to four connections, which end with the test
}

/// The commands of the researcher's first hour, as on the page.
#[test]
fn the_first_hour_of_a_researcher() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/research.md");
    let commands = commands(&fs::read_to_string(page).unwrap());
    let folder = folder("research");
    let binaries = common::weir().parent().unwrap().to_owned();
    // Debian's own Python has Debian's pandas.
    let path = format!("{}:/usr/bin:/bin", binaries.display());
    let output = Command::new("timeout")
        .args(["300", "sh", "-eu", "-c", &commands])
        .current_dir(&folder)
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{said}{errors}");
    if errors.contains("No module named 'pandas'") {
        println!("skipped: pandas is not installed (apt install python3-pandas)");
        return;
    }
    assert!(output.status.success(), "{:?}", output.status);
    // The maximum load is the last line of the first table.
    let line = said.lines().find(|line| line.starts_with("16 ")).unwrap();
    let delays: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .map(|x| x.parse().unwrap())
        .collect();
    assert!(delays[0] > 5.0 * delays[1], "{line}");
    assert!(said.contains("triple_fair"), "{said}");
}
