//! Local users and strangers without a certificate: they control nothing, and exclude nobody.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use super::impostors::count;
use super::stage::{CE, FE, Stage, Wire};
use crate::common::{eventually, eventually_or};
use crate::exceptions::Process;

/// Opens silent connections from a separate address, then replaces one after the other, 250 per second.
const SILENT: &str = r#"
import resource, socket, sys, time
many = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (many + 100, many + 100))
def one():
    while True:
        silent = socket.socket()
        silent.settimeout(10)
        try:
            silent.bind(("10.77.9.3", 0))
            silent.connect(("10.77.9.1", 6704))
            return silent
        except OSError:
            silent.close()
held = [one() for _ in range(many)]
print("open", flush=True)
while True:
    held.pop(0).close()
    held.append(one())
    time.sleep(0.004)
"#;

fn python(stage: &Stage, wrapper: &[&str], text: &str, arguments: &[&str]) -> Process {
    let words = [wrapper, &["python3", "-c", text], arguments].concat();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    Process(stage.spawner.spawn(&stage.bed.router, command).unwrap())
}

/// Six thousand silent connections, and a CE that may open 1024 files.
#[test]
fn silent_connections_keep_neither_operators_nor_fes_out() {
    let Some(stage) = Stage::new(Wire::Tls) else {
        return;
    };
    stage.ip("address add 10.77.9.3/24 dev c0");
    let ce = stage.start_ce_with_files(&stage.ce_config(""), 1024);
    let mut silent = python(&stage, &[], SILENT, &["6000"]);
    let mut said = String::new();
    BufReader::new(silent.0.stdout.as_mut().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "open\n");
    for _ in 0..20 {
        assert!(stage.ask(&["show", "fes"], CE).contains("edge1"));
    }
    let fe = stage.start_fe();
    stage.in_sync();
    assert!(stage.set_rate(40));
    assert_eq!(stage.rate(), 40);
    assert!(count(&stage, "too_many") > 0);
    let files = fs::read_dir(format!("/proc/{}/fd", ce.process.id()))
        .unwrap()
        .count();
    assert!(files < 1024 - 256, "{files} open files leave too few");
    for log in [ce.log(), fe.log()] {
        assert!(!log.contains("Too many open files"), "{log}");
    }
}

/// A local user takes the port of a CE that is not running, and waits for a router that runs as root.
#[test]
fn a_local_user_is_no_ce() {
    let Some(stage) = Stage::new(Wire::Tls) else {
        return;
    };
    let ce = include_str!("../../../../docs/examples/forces_ce.py");
    let nobody =
        "setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/local/bin:/usr/bin:/bin";
    let nobody: Vec<_> = nobody.split(' ').collect();
    let orders = [
        "set",
        "16187650.2.21",
        "text",
        "1 Mbit",
        "set",
        "1.1.7",
        "u8",
        "0",
    ];
    let mut local = python(&stage, &nobody, ce, &orders);
    eventually("the local user listens", || {
        let sockets = weir_benches::testbed::run(&stage.bed.router, "ss", "-Hltn");
        sockets.unwrap().contains(":6704")
    });
    let config = stage
        .fe_config()
        .replace("10.77.9.1:6704", "127.0.0.1:6704");
    let mut fe = stage.start_fe_as(FE, &config);
    eventually_or(
        "the FE refuses it",
        || fe.log(),
        || fe.log().contains("no association"),
    );
    assert_eq!(stage.rate(), 0);
    assert!(stage.ping(crate::common::ANSWERED));
    local.0.kill().unwrap();
    let mut said = String::new();
    local
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!said.contains("associated"), "{said}");
    // Without certificates the FE starts only if its file sets `insecure`; then it warns.
    let start = config.find("certificate = \"ce.crt\"\n").unwrap();
    let mut plain = config.clone();
    plain.replace_range(start..start + "certificate = \"ce.crt\"\n".len(), "");
    let file = stage.configure("plain", &plain);
    let refused = stage.weir(&["fe", file.to_str().unwrap()], FE);
    assert!(!refused.status.success());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("any local user could be the CE"), "{why}");
    fe.signal("TERM");
    assert!(fe.ended().success());
    let fe = stage.start_fe_as(FE, &plain.replace("insecure = false", "insecure = true"));
    eventually_or(
        "the FE warns",
        || fe.log(),
        || {
            let warning = "anyone who answers there can control this router";
            fe.log().contains(warning)
        },
    );
    let of_ce = stage
        .ce_config("")
        .replace("certificate = \"ce.crt\"\nkey = \"ce.key\"", "");
    let file = stage.configure("open", &of_ce.replace("10.77.9.1", "127.0.0.1"));
    let refused = stage.weir(&["ce", file.to_str().unwrap()], CE);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && why.contains("any local user could act as an FE"),
        "{why}"
    );
}
