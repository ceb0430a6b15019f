//! Interoperability: a CE in Python that shares no code with weir, and a checker of messages.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use weir_benches::testbed::run;

use super::stage::{CE, FE, Stage, Wire};
use super::wire::{Recorded, relay};
use crate::common::eventually;

/// The variable with the path of a program that checks files of ForCES messages, and exits with 0 if all are good.
const CHECKER: &str = "WEIR_FORCES_CHECKER";

const CE_AT: ([u8; 4], u16) = ([127, 0, 0, 1], 6704);
const RELAY_AT: ([u8; 4], u16) = ([127, 0, 0, 1], 6714);

fn addresses() -> (SocketAddr, SocketAddr) {
    (RELAY_AT.into(), CE_AT.into())
}

/// The FE, which finds its CE behind the relay.
fn fe_config(stage: &Stage) -> String {
    stage
        .fe_config()
        .replace("127.0.0.1:6704", "127.0.0.1:6714")
}

/// Gives the messages of both directions to the checker.
fn is_good(folder: &Path, recorded: &Recorded) {
    let both = recorded.lock().unwrap().clone();
    assert!(both.iter().all(|bytes| bytes.len() > 200), "{both:?}");
    let Some(checker) = std::env::var_os(CHECKER) else {
        println!("messages are not checked: {CHECKER} names no program");
        return;
    };
    for (bytes, name) in both.iter().zip(["to-ce.bin", "to-fe.bin"]) {
        let file = folder.join(name);
        fs::write(&file, bytes).unwrap();
        let checked = Command::new(&checker)
            .args(["--bin", "--quiet"])
            .arg(&file)
            .output();
        let checked = checked.unwrap();
        let said = String::from_utf8_lossy(&checked.stdout);
        println!("{name}: {} bytes\n{said}", bytes.len());
        assert!(checked.status.success(), "{name}: {said}");
    }
}

/// A CE in Python executes these commands on the FE. Returns its output, one line each, and the messages of both sides.
fn steered(stage: &Stage, commands: &[&str]) -> (Vec<String>, Recorded) {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/forces_ce.py"
    );
    let mut python = Command::new("python3");
    python.arg(example);
    for words in commands {
        python.args(words.split(' ').map(|word| word.replace('_', " ")));
    }
    python.stdin(Stdio::null()).stdout(Stdio::piped());
    let python = stage.spawner.spawn(&stage.bed.router, python).unwrap();
    eventually("the CE listens", || {
        let sockets = run(&stage.bed.router, "ss", "-Hltn");
        sockets.unwrap().contains(":6704")
    });
    let (at, to) = addresses();
    let recorded = relay(&stage.bed.router, at, to);
    let fe = stage.start_fe_as(FE, &fe_config(stage));
    let output = python.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", fe.log());
    let mut lines = said.lines().map(str::to_owned);
    let first = lines.next();
    assert_eq!(first.as_deref(), Some("associated with FE 0x00000002"));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), commands.len(), "{said}");
    (lines, recorded)
}

#[test]
fn a_ce_in_python_steers_an_fe() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let commands = [
        "get 1.1.3",
        "set 16187650.1.21 text 20_Mbit",
        "get 16187650.1.21",
        "set 16187650.1.21 text 999_Gbit",
        "get 16187650.1.99",
    ];
    let (lines, recorded) = steered(&stage, &commands);
    assert!(lines[0].ends_with("'edge1'"), "{lines:?}");
    assert_eq!(lines[1], "set 16187650.1.21 result 0x00");
    assert!(lines[2].ends_with("'20 Mbit'"), "{lines:?}");
    assert!(lines[3].contains("result 0x0e"), "out of range: {lines:?}");
    assert!(lines[4].contains("result 0x08"), "no such path: {lines:?}");
    is_good(&stage.folder, &recorded);
}

/// The CE uses only the IDs of RFC 5812 and RFC 6956: FEObject 1, EtherPHYCop 3, EtherMACIn 4, GenericScheduler 17.
#[test]
fn a_ce_that_knows_the_rfcs_only_finds_the_ports() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let commands = [
        "get 1.1.2",      // LFBSelectors
        "get 3.2.1",      // PHYPortID
        "get 3.2.3",      // OperStatus: 1 is Up
        "get 3.2.8",      // CarrierStatus
        "get 4.2.2.0",    // the first of LocalMACAddresses
        "get 17.2.2.0.1", // QueueID of the first row of QueueStats
        "get 3.2.5",      // OperLinkSpeed, which weir does not know
        "get 3.9.3",
        "set 3.2.2 u8 0", // AdminStatus
        "set 3.2.3 u8 0",
    ];
    let (lines, recorded) = steered(&stage, &commands);
    let answers: Vec<&str> = lines
        .iter()
        .zip(commands)
        .map(|(line, command)| {
            let path = command.split(' ').nth(1).unwrap();
            line.split_once(path).unwrap().1.trim()
        })
        .collect();
    let words = answers[0].as_bytes().chunks_exact(8).map(|word| {
        let word = std::str::from_utf8(word).unwrap();
        u32::from_str_radix(word, 16).unwrap()
    });
    let words: Vec<_> = words.collect();
    let blocks: Vec<_> = words.chunks_exact(3).map(|row| (row[1], row[2])).collect();
    for of_port in [3, 4, 7, 17] {
        assert!(blocks.contains(&(of_port, 1)) && blocks.contains(&(of_port, 2)));
    }
    let link = run(&stage.bed.router, "ip", "-br link show r1").unwrap();
    let mac = link.split_whitespace().nth(2).unwrap().replace(':', "");
    assert_eq!(answers[1..6], ["00000002", "01", "01", &mac, "00000000"]);
    let codes = answers[6..]
        .iter()
        .map(|answer| answer.split(' ').nth(1).unwrap());
    let codes: Vec<_> = codes.collect();
    assert_eq!(codes, ["0x09", "0x07", "0x15", "0x0c"], "{lines:?}");
    is_good(&stage.folder, &recorded);
}

#[test]
fn a_checker_is_content_with_what_both_sides_send() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let mut ce = stage.start_ce();
    let (at, to) = addresses();
    let recorded = relay(&stage.bed.router, at, to);
    let mut fe = stage.start_fe_as(FE, &fe_config(&stage));
    stage.in_sync();
    assert!(stage.set_rate(40));
    for (words, is_good) in [
        ("get edge1:FEObject.1", true),
        ("get edge1:port.wan", true),
        ("set edge1:port.wan.rate=fast", false),
        (
            "set edge1:port.wan.overhead=30_B edge1:port.lan.rate=90_Mbit",
            true,
        ),
        ("set edge1:FEObject.1.FEName=west", true),
        ("set edge1:EtherPHYCop.wan.AdminStatus=Disabled", false),
        ("get edge1:EtherMACIn.1", true),
        ("show ports --fe edge1 --json", true),
        ("show queues --fe edge1 --json", true),
        ("unset edge1:port.wan.rate", true),
    ] {
        let words: Vec<_> = words.split(' ').map(|w| w.replace('_', " ")).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let done = stage.weir(&words, CE);
        assert_eq!(done.status.success(), is_good, "{words:?}: {done:?}");
    }
    for (port, of_port) in [("1", "lan"), ("wan", "wan")] {
        let got = stage.weir(
            &["get", &format!("edge1:EtherPHYCop.{port}.OperStatus")],
            CE,
        );
        assert_eq!(String::from_utf8_lossy(&got.stdout).trim(), "Up", "{got:?}");
        let lfbs = stage.table("lfbs");
        let is_it =
            |row: &&serde_json::Value| row["class"] == "EtherPHYCop" && row["port"] == of_port;
        assert!(
            lfbs.as_array().unwrap().iter().any(|row| is_it(&row)),
            "{lfbs}"
        );
    }
    thread::sleep(Duration::from_secs(1)); // heartbeats of both
    for element in [&mut fe, &mut ce] {
        element.signal("TERM");
        assert!(element.ended().success(), "{}", element.log());
    }
    is_good(&stage.folder, &recorded);
}

/// An intended end is not a fault: each side informs the other.
#[test]
fn both_sides_end_in_order() {
    for wire in [Wire::Quic, Wire::Tls, Wire::Plain] {
        let Some(stage) = Stage::new(wire) else {
            return;
        };
        let mut ce = stage.start_ce();
        let mut fe = stage.start_fe();
        stage.in_sync();
        ce.signal("TERM");
        assert!(ce.ended().success(), "{}", ce.log());
        let torn = "the peer ended the association: ended by an administrator";
        eventually("the FE hears of it", || fe.log().contains(torn));
        let log = ce.log();
        let mut warnings = log.lines().filter(|line| line.contains("WARN"));
        assert!(
            warnings.all(|line| line.contains("insecure")),
            "{wire:?}: {log}"
        );
        assert!(!fe.log().contains("lost: "), "{wire:?}: {}", fe.log());
        ce = stage.start_ce();
        stage.in_sync();
        fe.signal("TERM");
        assert!(fe.ended().success(), "{}", fe.log());
        eventually("the CE hears of it", || ce.log().contains(torn));
        assert!(!ce.log().contains("fault="), "{wire:?}: {}", ce.log());
    }
}
