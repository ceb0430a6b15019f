//! Services of a CE: the example in Python against a CE and an FE, and the page for browsers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_benches::testbed::run;
use weir_northbound::client;

use super::stage::{CE, FE, Stage, Wire};

const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/examples/services.py"
);
const TOKEN: &str = "0123456789abcdef";

#[test]
fn the_example_sets_a_queue_and_hears_of_an_event() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let (_ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let mut example = Command::new("timeout")
        .args(["60", "python3", EXAMPLE, "--socket"])
        .arg(stage.socket(CE))
        .args(["--fe", "edge1", "--port", "wan", "--rate", "20 Mbit"])
        .args(["--kind", "sfq", "--notices", "1"])
        .args(["--watch", "edge1:port.wan.carrier_lost"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The watch begins after the queue is set; until it ends, the link goes down repeatedly.
    let mut loses = 0;
    while example.try_wait().unwrap().is_none() {
        for state in ["down", "up"] {
            run(&stage.bed.sink, "ip", &format!("link set b0 {state}")).unwrap();
            thread::sleep(Duration::from_millis(500));
        }
        loses += 1;
        assert!(loses < 60, "the example does not end");
    }
    let mut said = String::new();
    example.stdout.unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.contains("port.wan.discipline.kind: triple_fair -> sfq"),
        "{said}"
    );
    let notice: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(notice["event"], "carrier_lost", "{said}");
    assert_eq!(stage.rate(), 20);
    let queues: Value = client::get(&stage.socket(FE), "/v1/queues").unwrap();
    let mut rows = queues.as_array().unwrap().iter();
    assert_eq!(
        rows.find(|row| row["port"] == "wan").unwrap()["discipline"],
        "sfq"
    );
}

/// An event reports its own change of a port, and no other.
#[test]
fn an_interface_that_goes_and_comes_back_is_an_event_each() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let (_ce, fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let watch = |event: &str| {
        let mut watch = stage.command(CE);
        watch.args(["watch", "--json", &format!("edge1:port.lan.{event}")]);
        watch.stdout(Stdio::piped()).spawn().unwrap()
    };
    let readers = ["interface_gone", "interface_back"].map(watch);
    thread::sleep(Duration::from_secs(1));
    let lan = |name: &str| {
        let ports: Value = client::get(&stage.socket(FE), "/v1/ports").unwrap();
        let mut rows = ports.as_array().unwrap().iter();
        rows.find(|row| row["port"] == "lan").unwrap()[name].clone()
    };
    let becomes = |name: &str, value: Value| {
        crate::common::eventually_or(name, || fe.log(), || lan(name) == value);
    };
    for (state, up) in [("down", false), ("up", true)] {
        stage.ip(&format!("link set r0 {state}"));
        becomes("up", up.into());
    }
    stage.ip("link delete r0");
    becomes("present", false.into());
    thread::sleep(Duration::from_secs(1)); // longer than between two samples
    stage.ip("link add r0 type veth peer name r9");
    stage.ip("link set r0 up");
    becomes("present", true.into());
    thread::sleep(Duration::from_secs(1));
    let notices = readers.map(|mut reader| {
        reader.kill().unwrap();
        reader.wait().unwrap();
        let mut said = String::new();
        let mut out = reader.stdout.take().unwrap();
        out.read_to_string(&mut said).unwrap();
        said
    });
    // The interface exists when the watches begin, which an event above a threshold reports.
    let counts = notices.each_ref().map(|said| said.lines().count());
    assert_eq!(counts, [1, 2], "{notices:?}");
}

/// More readers than there are slots for short requests, for longer than such requests may last.
#[test]
fn many_readers_of_streams_leave_room_for_requests() {
    const READERS: usize = 20;
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let (ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let watch = |_| {
        let mut watch = stage.command(CE);
        watch.args([
            "watch",
            "--json",
            "--interval",
            "0.5",
            "edge1:port.wan.rate",
        ]);
        watch.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut readers: Vec<_> = (0..READERS).map(watch).collect();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(12) {
        assert!(stage.set_rate(30), "{}", ce.log());
        thread::sleep(Duration::from_millis(200));
    }
    for reader in &mut readers {
        assert!(reader.try_wait().unwrap().is_none(), "a stream has ended");
        reader.kill().unwrap();
        reader.wait().unwrap();
        let mut said = String::new();
        let mut out = reader.stdout.take().unwrap();
        out.read_to_string(&mut said).unwrap();
        let notices = said
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let good = notices.filter(|notice| notice["fe"] == "edge1").count();
        assert!(good >= 20, "{good} notices in 12 s: {said}");
    }
    // A reader is informed of the end.
    let mut reader = watch(0);
    thread::sleep(Duration::from_secs(1));
    drop(ce);
    assert!(!reader.wait().unwrap().success());
}

#[test]
fn exceptions_are_filtered_for_all_or_none() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let (_ce, _fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    let ask = |filters: &Value| {
        client::post::<Value>(&stage.socket(CE), "/v1/service/filter", filters).unwrap()
    };
    let good = json!({"fe": "edge1", "redirect": ["no_route"], "rate": "1 Mbit"});
    let wrong = json!({"fe": "edge1", "redirect": ["no_rout"]});
    let refused = ask(&json!([good, wrong]));
    assert_eq!(refused["applied"], false);
    let why = refused["messages"][0].as_str().unwrap();
    assert!(why.contains("did you mean `no_route`?"), "{why}");
    let flags = || {
        let config: Value = client::get(&stage.socket(FE), "/v1/config").unwrap();
        ["no_route", "hop_limit", "flow_control"]
            .map(|name| config[format!("redirect.{name}")].as_str().unwrap() == "true")
    };
    assert_eq!(flags(), [false, false, false]);
    assert_eq!(ask(&json!([good]))["applied"], true);
    assert_eq!(flags(), [true, false, true]);
    let other = json!([{"fe": "edge1", "redirect": ["hop_limit"]}]);
    assert_eq!(ask(&other)["applied"], true);
    assert_eq!(flags(), [false, true, true]);
}

#[test]
fn the_page_is_for_those_who_have_its_token() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let token = stage.folder.join("page.token");
    fs::write(&token, TOKEN).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "page = \"127.0.0.1:8080\"\npage_token = \"page.token\"\n{}",
        stage.ce_config("")
    );
    let (_ce, _fe) = (stage.start_ce_as(&config), stage.start_fe());
    stage.in_sync();
    let ask = |request: &str, host: &str, more: &str, body: &str| {
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n{more}\r\n{body}"
        );
        let exchange = || {
            let mut stream = TcpStream::connect("127.0.0.1:8080").unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        stage.home().enter(exchange).unwrap()
    };
    let own = "127.0.0.1:8080";
    let page = ask("GET /", own, "", "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("<!doctype html>") && page.contains("frame-ancestors 'none'"));
    let proof = format!("x-weir-token: {TOKEN}\r\n");
    for path in [
        "/v1/channels",
        "/v1/store",
        "/v1/fe/edge1/v1/config",
        "/v1/fe/edge1/v1/routes",
    ] {
        let request = format!("GET {path}");
        assert!(
            ask(&request, own, "", "").starts_with("HTTP/1.1 401"),
            "{path}"
        );
        assert!(
            ask(&request, own, &proof, "").starts_with("HTTP/1.1 200"),
            "{path}"
        );
    }
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    assert!(ask("GET /v1/channels", own, &bearer, "").contains("\"fe\":\"edge1\""));
    let metrics = ask("GET /metrics", own, "", "");
    assert!(
        metrics.contains("version=0.0.4") && metrics.contains("weir_fe_info{fe=\"edge1\""),
        "{metrics}"
    );
    let status = |answer: String| answer.split(' ').nth(1).unwrap_or("").to_owned();
    assert_eq!(
        status(ask("GET /v1/fes", "evil.example:8080", "", "")),
        "421"
    );
    let foreign = "origin: http://evil.example\r\n";
    assert_eq!(status(ask("GET /v1/fes", own, foreign, "")), "403");
    let body = r#"[{"path": "edge1:port.wan.rate", "value": "30 Mbit"}]"#;
    let json = "content-type: application/json\r\n";
    let patch = |more: &str| {
        status(ask(
            "PATCH /v1/component",
            own,
            &format!("{json}{more}"),
            body,
        ))
    };
    assert_eq!(patch(""), "401");
    assert_eq!(patch("x-weir-token: 0123456789abcdeX\r\n"), "401");
    assert_eq!(stage.rate(), 50);
    assert_eq!(patch(&proof), "200");
    assert_eq!(stage.rate(), 30);
    // The paths of an FE with a variable part.
    for (request, expected) in [
        ("GET /v1/fe/edge1/v1/capture/1", "404"),
        ("DELETE /v1/fe/edge1/v1/capture/1", "404"),
        ("GET /v1/fe/edge1/v1/capture/x", "400"),
        ("GET /v1/fe/edge1/v1/ports/wan/rate_bps", "200"),
        ("GET /v1/fe/edge1/v1/ports/dmz", "404"),
        ("GET /v1/fe/edge9/v1/ports/wan", "404"),
    ] {
        assert_eq!(status(ask(request, own, &proof, "")), expected, "{request}");
    }
}

/// Without `page_token` the CE writes a new token to the folder of the socket.
#[test]
fn a_page_without_a_configured_token_has_a_new_one() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let lo = "link set lo up";
    run(stage.home(), "ip", lo).unwrap();
    let config = format!("page = \"127.0.0.1:8080\"\n{}", stage.ce_config(""));
    let ce = stage.start_ce_as(&config);
    let file = stage.socket(CE).with_extension("token");
    let first = fs::read_to_string(&file).unwrap();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // The log is written by another thread.
    let named = || ce.log().contains(&*file.to_string_lossy());
    crate::common::eventually_or("the log names the file", || ce.log(), named);
    drop(ce);
    let _ce = stage.start_ce_as(&config);
    assert_ne!(fs::read_to_string(&file).unwrap(), first);
}
