//! A CE configures paths of flexible packet forwarding at its FE: from its file, by operators, and beyond its own
//! death.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::Value;
use weir_benches::testbed::MACS;
use weir_northbound::client;

use super::stage::{CE, FE, Stage, Wire};
use crate::common::{eventually, eventually_or, kill};

/// The port whose packets take the path.
const VIDEO: u16 = 5000;
const PACKETS: u64 = 50;

/// The port towards the sink.
const INTERFACE: &str = "[fe.edge1.fpf.interface.core]\nport = \"wan\"\n";

/// A path by that port, whose neighbour is the sink.
fn sections() -> String {
    let bytes = MACS[3].map(|byte| format!("{byte:02x}"));
    let neighbour = bytes.join(":");
    format!(
        "{INTERFACE}[fe.edge1.fpf.rule.to-b]\nlid = \"0b\"\noutput = \"core\"\nneighbour = \"{neighbour}\"\n\
         [fe.edge1.fpf.encapsulation.video]\ndestination = \"10.77.2.0/24\"\nprotocol = \"udp\"\n\
         destination_ports = \"{VIDEO}\"\nvectors = \"0b0a\"\n"
    )
}

/// Packets of the FE: how many got a header, and how many left with one.
fn counted(stage: &Stage) -> (u64, u64) {
    let fpf: Value = client::get(&stage.socket(FE), "/v1/fpf").unwrap();
    let packets = |name: &str| fpf[name]["packets"].as_u64().unwrap();
    (packets("encapsulated"), packets("forwarded"))
}

/// Sends packets from the source to the sink; returns how many came there as plain packets.
fn flow(stage: &Stage) -> u64 {
    let sink = || UdpSocket::bind(("10.77.2.2", VIDEO));
    let sink = stage.bed.sink.enter(sink).unwrap().unwrap();
    let patience = Duration::from_millis(500);
    sink.set_read_timeout(Some(patience)).unwrap();
    let source = || UdpSocket::bind("10.77.1.2:4000");
    let source = stage.bed.source.enter(source).unwrap().unwrap();
    for _ in 0..PACKETS {
        source.send_to(b"video", ("10.77.2.2", VIDEO)).unwrap();
    }
    let mut buffer = [0; 16];
    let came = std::iter::from_fn(|| sink.recv(&mut buffer).ok());
    came.count() as u64
}

/// All packets take the path of FPF: each leaves with a header, and the sink, which has no FPF, hands none up.
fn takes_the_path(stage: &Stage) {
    let before = counted(stage);
    assert_eq!(flow(stage), 0);
    let after = counted(stage);
    assert_eq!((after.0 - before.0, after.1 - before.1), (PACKETS, PACKETS));
}

/// The running configuration, as reported by the FE itself.
fn config(stage: &Stage) -> Value {
    client::get(&stage.socket(FE), "/v1/config").unwrap()
}

fn done(stage: &Stage, arguments: &[&str]) {
    let done = stage.weir(arguments, CE);
    assert!(done.status.success(), "weir {arguments:?}: {done:?}");
}

fn refused(stage: &Stage, arguments: &[&str], why: &str) {
    let refused = stage.weir(arguments, CE);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains(why), "{said}");
}

#[test]
fn paths_of_a_ce_are_in_force_before_and_after_its_death() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let sections = sections();
    let (mut ce, mut fe) = (stage.start_ce_with(&sections), stage.start_fe());
    stage.in_sync();
    assert!(stage.ping("-c 1 -W 5 10.77.2.2"), "neighbours are known");
    takes_the_path(&stage);

    // An operator adds a rule, and changes the path to it.
    let lid = "edge1:fpf.rule.drop.lid=0d";
    refused(
        &stage,
        &["set", "edge1:fpf.rule.drip.queue=2"],
        "there is no FPF rule `drip`",
    );
    done(&stage, &["set", lid, "edge1:fpf.rule.drop.action=drop"]);
    done(
        &stage,
        &["set", "edge1:fpf.encapsulation.video.vectors=0d0a"],
    );
    let (got, left) = counted(&stage);
    assert_eq!(flow(&stage), 0);
    assert_eq!(
        counted(&stage),
        (got + PACKETS, left),
        "the rule drops them"
    );
    refused(
        &stage,
        &["unset", "edge1:fpf.rule.away"],
        "there is no FPF rule `away`",
    );
    let lid = stage.weir(&["get", "edge1:fpf.rule.drop.lid"], CE);
    assert!(
        String::from_utf8_lossy(&lid.stdout).contains("0d"),
        "{lid:?}"
    );

    // The CE dies, and the FE keeps its running configuration; a new CE reads it.
    done(&stage, &["set", "edge1:fpf.encapsulation.video.vectors=0b"]);
    kill(ce.process.id(), "KILL");
    ce.ended();
    takes_the_path(&stage);
    let ce = stage.start_ce_with(&sections);
    stage.in_sync();
    takes_the_path(&stage);
    fe.kill();
    let _fe = stage.start_fe();
    eventually("the FE has its paths again", || {
        config(&stage)["fpf.encapsulation.video.vectors"] == "0b"
    });
    stage.in_sync();
    assert!(stage.ping("-c 1 -W 5 10.77.2.2"), "neighbours are known");
    takes_the_path(&stage);

    // An operator takes the path away, and the packets follow the routes.
    done(&stage, &["unset", "edge1:fpf.encapsulation.video"]);
    assert_eq!(flow(&stage), PACKETS);
    // So does a file that no longer has a rule.
    stage.configure(CE, &stage.ce_config(INTERFACE));
    ce.signal("HUP");
    eventually_or(
        "the rule is gone",
        || ce.log(),
        || config(&stage).get("fpf.rule.to-b.lid").is_none(),
    );
    stage.in_sync();
    assert_eq!(
        config(&stage)["fpf.rule.drop.lid"],
        "0d",
        "the operator's stays"
    );
}
