//! `weir classify` on captures that the test creates: tables, JSON, labels, pipes, and truncated files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use etherparse::PacketBuilder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};

const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x02ab\x02de\0\0\x01\0\x01";
const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: www.ab.de\r\n\r\n";
/// A unit of supplemental enhancement information with `scalability_info` (H.264, annex G).
const SVC: &[u8] = &[6, 24, 1, 0x12, 0x80];

/// A frame from 10.0.0.1.
fn frame(port: u16, is_tcp: bool, payload: &[u8]) -> Vec<u8> {
    let ip = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ipv4(
        [10, 0, 0, 1],
        [10, 0, 0, 2],
        64,
    );
    let mut out = Vec::new();
    if is_tcp {
        ip.tcp(40_000, port, 1, 1000).write(&mut out, payload)
    } else {
        ip.udp(40_000, port).write(&mut out, payload)
    }
    .unwrap();
    out
}

fn rtp(sequence: u8, payload: &[u8]) -> Vec<u8> {
    [&[0x80, 96, 0, sequence, 0, 0, 0, 9, 0, 0, 0, 7], payload].concat()
}

/// Writes a capture with a query, a request, and scalable video; returns the folder that it is in.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("classify")
        .join(name);
    let _ = fs::remove_dir_all(&folder); // that of an earlier run
    fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join("a.pcap")).unwrap();
    let mut writer = PcapWriter::with_header(file, PcapHeader::default()).unwrap();
    let frames = [
        frame(53, false, QUERY),
        frame(5004, false, &rtp(1, SVC)),
        frame(80, true, GET),
        frame(5004, false, &rtp(2, &[0x61, 1, 2])),
        frame(9, false, b"no protocol"),
        vec![0; 60],
    ];
    for (number, frame) in frames.iter().enumerate() {
        let at = Duration::from_millis(number as u64);
        let packet = PcapPacket::new(at, frame.len() as u32, frame);
        writer.write_packet(&packet).unwrap();
    }
    folder
}

fn classify(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("classify").args(arguments).current_dir(folder);
    if arguments.contains(&"-") {
        command.stdin(File::open(folder.join("a.pcap")).unwrap());
    }
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn flows_and_totals_are_tables() {
    let folder = folder("tables");
    let expected = "\
a.pcap: 6 packets, 4 flows; without a flow: 1 not IP
FLOW                                CLASS  CARRIES  NAME       DETAIL                        EVIDENCE  PACKETS  BYTES  AFTER
10.0.0.1:40000 > 10.0.0.2:53 udp    dns             www.ab.de  A                             message         1     27      1
10.0.0.1:40000 > 10.0.0.2:5004 udp  rtp    svc                 PT 96; SEI 24 scalability_info  sequence        2     32      2
10.0.0.1:40000 > 10.0.0.2:80 tcp    http            www.ab.de  GET                           message         1     35      1
10.0.0.1:40000 > 10.0.0.2:9 udp     -                                                                        1     11

CLASS  FLOWS  PACKETS  BYTES
rtp        1        2     32
dns        1        1     27
http       1        1     35
-          1        1     11
";
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(&stdout(&classify(&folder, &["a.pcap"]))),
        words(expected)
    );
    let piped = stdout(&classify(&folder, &["-"]));
    assert_eq!(words(&piped)[1..], words(expected)[1..]);
}

#[test]
fn json_has_all_of_it() {
    let folder = folder("json");
    let printed = stdout(&classify(&folder, &["--json", "."]));
    let document: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let capture = &document["captures"][0];
    assert_eq!(capture["file"], "./a.pcap");
    let media = &capture["flows"][1];
    assert_eq!(media["class"], "rtp");
    assert_eq!(media["carries"]["class"], "svc");
    assert_eq!(media["kinds"], serde_json::json!(["rtp", "svc"]));
    assert_eq!(media["packets"], serde_json::json!([2, 0]));
    assert_eq!(media["destination_port"], 5004);
    assert_eq!(capture["flows"][3]["class"], serde_json::Value::Null);
    assert_eq!(document["classes"][1]["class"], "dns");
    assert_eq!(document.get("evaluation"), None);
}

#[test]
fn labels_give_precision_and_recall() {
    let folder = folder("labels");
    let output = classify(&folder, &["--labels", "."]);
    assert_eq!(output.status.code(), Some(2), "there are no labels yet");
    let labels = "\
\t1\tUDP 10.0.0.1:40000 -> 10.0.0.2:53 [proto: 5/DNS][IP: 0/Unknown]
\t2\tUDP 10.0.0.2:5004 -> 10.0.0.1:40000 [proto: 87/RTP][IP: 0/Unknown]
\t3\tTCP 10.0.0.1:40000 -> 10.0.0.2:80 [proto: 91/TLS][IP: 0/Unknown]
";
    fs::write(folder.join("a.pcap.out"), labels).unwrap();
    let printed = stdout(&classify(&folder, &["--labels", "."]));
    let lines: Vec<_> = printed
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .collect();
    let has = |words: &str| lines.iter().any(|line| line.join(" ") == words);
    assert!(
        has("10.0.0.1:40000 > 10.0.0.2:80 tcp TLS http http"),
        "{printed}"
    );
    assert!(has("without a label: 1 flow"), "{printed}");
    assert!(has("rtp 1 0 0 1.000 1.000"), "{printed}");
    assert!(has("tls 0 0 1 - 0.000"), "{printed}");
    assert!(has("http 0 1 0 0.000 -"), "{printed}");
}

#[test]
fn a_capture_that_is_cut_is_printed_as_far_as_it_goes() {
    let folder = folder("cut");
    let whole = fs::read(folder.join("a.pcap")).unwrap();
    fs::write(folder.join("cut.pcap"), &whole[..whole.len() - 80]).unwrap();
    let output = classify(&folder, &["cut.pcap"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.starts_with("cut.pcap: 4 packets, 3 flows\n"),
        "{printed}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("after 4 packets: the file ends within"),
        "{said}"
    );

    fs::write(folder.join("text.pcap"), "no capture").unwrap();
    let output = classify(&folder, &["text.pcap"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains(
            "text.pcap: the file begins with 6e 6f 20 63, which is neither pcap nor pcapng"
        ),
        "{said}"
    );
}
