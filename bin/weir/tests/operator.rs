//! An operator's view of a running router: tables, JSON, the log, exit codes. The tests use real interfaces. Where
//! network namespaces are not permitted, they print that and skip.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{ANSWERED, Bench, logged};
use serde_json::Value;
use weir_benches::testbed::{SINK, SOURCE, run};
use weir_lfb::class::classes;
use weir_model::class::Type;
use weir_northbound::{api, client};

use crate::promtool;

const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
[port.wan]
interface = \"r1\"
rate = \"1 Mbit\"
discipline = { kind = \"lru_fq\", cache = 64, limit = 50 }
";

/// A router that logs everything.
fn bench(mode: &str) -> Option<Bench> {
    let mut bench = Bench::without_router()?;
    bench.start_with(&format!("{mode}{CONFIG}"), &[("WEIR_LOG", "debug")]);
    Some(bench)
}

/// The output of `weir`; the command must succeed.
fn ask(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.weir(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(bench: &Bench, subject: &str) -> Value {
    serde_json::from_str(&ask(bench, &["show", subject, "--json"])).unwrap()
}

/// The exit code of `weir diff` for this configuration, from standard input.
fn diff(bench: &Bench, config: &str) -> Option<i32> {
    let mut diff = bench
        .command()
        .args(["diff", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = diff.stdin.take().unwrap();
    input.write_all(config.as_bytes()).unwrap();
    drop(input);
    diff.wait().unwrap().code()
}

/// Sends 1000-byte datagrams, up to 14 Mbit/s, through the router while `work` runs.
fn under_flood(bench: &Bench, work: impl FnOnce()) {
    let sender = bench
        .bed
        .source
        .enter(|| UdpSocket::bind((SOURCE, 4000)).unwrap())
        .unwrap();
    sender.connect((SINK, 5000)).unwrap();
    let stop = AtomicBool::new(false);
    /// Stops the flood, even if the work panics.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let _ends = Ends(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..5 {
                    let _ = sender.send(&[0; 1000]); // the sink may answer "port unreachable"
                }
                thread::sleep(Duration::from_millis(3));
            }
        });
        work();
    });
}

/// The cell of a table in the row that begins with `row`, right-aligned below `column`.
fn cell(table: &str, row: &str, column: &str) -> String {
    let head = table.lines().find(|line| line.contains(column)).unwrap();
    let end = head.find(column).unwrap() + column.len();
    let mut rows = table.lines().skip_while(|line| *line != head);
    let line = rows.find(|line| line.starts_with(row)).unwrap();
    line[..end].rsplit("  ").next().unwrap().trim().to_owned()
}

#[test]
fn tables_say_how_fast_how_long_and_why() {
    let Some(bench) = bench("") else { return };
    assert!(ask(&bench, &["show", "hogs"]).contains("No flow is a hog now"));
    assert!(ask(&bench, &["show", "flows"]).contains("`fan` has it"));
    assert!(ask(&bench, &["show", "drops"]).contains("Since the start"));
    run(&bench.bed.source, "ping", ANSWERED).unwrap();
    under_flood(&bench, || {
        bench.eventually("the flood is a hog that loses packets", || {
            json(&bench, "hogs")[0]["dropped_packets"].as_u64() > Some(0)
        });
        let hogs = json(&bench, "hogs");
        let hog = &hogs[0];
        assert_eq!(
            (hog["source"].as_str(), hog["source_port"].as_u64()),
            (Some("10.77.1.2"), Some(4000))
        );
        assert_eq!(
            (hog["protocol"].as_u64(), hog["standing"].as_str()),
            (Some(17), Some("hog"))
        );
        assert_eq!(hog["threshold_share_ratio"].as_f64(), Some(0.05));
        assert!(hog["link_share_ratio"].as_f64() > Some(0.5), "{hog}");
        let table = ask(&bench, &["show", "hogs"]);
        assert!(table.contains("5.0 % of all"), "{table}");
        let table = ask(&bench, &["show", "ports"]);
        let out: f64 = cell(&table, "wan", "OUT MBIT/S").parse().unwrap();
        assert!(0.1 < out && out < 2.0, "{table}");
        let queues = ask(&bench, &["show", "queues"]);
        let hogs = |line: &str| line.split_whitespace().eq(["wan", "lru_fq", "hogs", "1"]);
        assert!(queues.lines().any(hogs), "{queues}");
        assert_eq!(
            ask(&bench, &["show", "hogs", "--limit", "1"])
                .matches("udp")
                .count(),
            1
        );
    });
    let queues = json(&bench, "queues");
    let wan = queues
        .as_array()
        .unwrap()
        .iter()
        .find(|queue| queue["port"] == "wan")
        .unwrap();
    assert_eq!(wan["parameters"]["limit"], 50);
    let metrics = client::get_bytes(&bench.socket(), "/metrics").unwrap();
    let metrics = String::from_utf8_lossy(metrics.as_deref().unwrap_or_default()).into_owned();
    promtool::check_metrics(&metrics);
    let has = |line: &str| metrics.lines().any(|l| l.starts_with(line));
    assert!(has("weir_info{version="), "{metrics}");
    assert!(
        has("weir_queue_dropped_packets_total{port=\"wan\"} "),
        "{metrics}"
    );
    assert!(
        has("weir_lru_fq_hits_packets_total{port=\"wan\"} "),
        "{metrics}"
    );
    // A counter exists before its first event, so that a rate includes this event.
    assert!(
        has("weir_dropped_packets_total{reason=\"pool-exhausted\"} 0"),
        "{metrics}"
    );
    assert_eq!(wan["parameters"]["rate_window_s"], 0.1);
    assert!(json(&bench, "status")["uptime_s"].as_f64() > Some(0.0));
    let hop = &json(&bench, "routes")[0]["next_hops"][0];
    assert!(
        hop["interface"].is_string() && hop["weight"].is_u64(),
        "{hop}"
    );
}

#[test]
fn a_table_is_drawn_again_until_nobody_reads() {
    let Some(bench) = bench("") else { return };
    let mut watch = bench
        .command()
        .args(["show", "status", "--json", "--watch", "0.1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = std::io::BufReader::new(watch.stdout.take().unwrap());
    let lines: Vec<String> = std::io::BufRead::lines(out)
        .take(3)
        .map(Result::unwrap)
        .collect();
    let uptime = |line: &String| {
        let status: Value = serde_json::from_str(line).unwrap();
        status["uptime_s"].as_f64().unwrap()
    };
    let uptimes: Vec<f64> = lines.iter().map(uptime).collect();
    assert!(
        uptimes.is_sorted() && uptimes[0] < uptimes[2],
        "{uptimes:?}"
    );
    // The pipe is closed: the program exits by itself, successfully.
    bench.eventually("it ends", || watch.try_wait().unwrap().is_some());
    assert!(watch.wait().unwrap().success());
}

#[test]
fn every_answer_is_of_its_class() {
    let Some(bench) = bench("") else { return };
    run(&bench.bed.source, "ping", ANSWERED).unwrap();
    for class in classes() {
        let answer: weir_model::Value = bench.get(&api::path_of(class));
        let kind = match class.key {
            [] => Type::Struct(class.components),
            _ => Type::Rows(class.components),
        };
        assert!(kind.admits(&answer), "{}: {answer:?}", class.name);
    }
    let part = |path: &str| client::get::<weir_model::Value>(&bench.socket(), path);
    let rate = part("/v1/ports/wan/rate_bps").unwrap();
    assert_eq!(rate, weir_model::Value::Whole(1_000_000));
    let metric = part("/v1/routes/10.77.1.0/24/metric").unwrap();
    assert_eq!(metric, weir_model::Value::Whole(0));
    assert!(part("/v1/status/uptime_s").is_ok());
    let missing = part("/v1/ports/wan/rate").unwrap_err().to_string();
    assert!(
        missing.contains("404") && missing.contains("did you mean `rate_bps`"),
        "{missing}"
    );
}

#[test]
fn a_wrong_question_is_told_what_is_right() {
    let Some(bench) = bench("") else { return };
    for (path, expected) in [
        ("hogs?al=true", "unknown key `al`; did you mean `all`?"),
        ("flows?limit=10001", "must be an integer from 0 to 10000"),
        ("ports?all=true", "unknown key `all`"),
    ] {
        let answer = client::get::<Value>(&bench.socket(), &format!("/v1/{path}"));
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("400") && error.contains(expected), "{error}");
    }
}

#[test]
fn a_deleted_component_has_its_default_and_a_deleted_port_is_gone() {
    let Some(bench) = bench("") else { return };
    let by_name: Value = client::get(&bench.socket(), "/v1/ports/wan/rate_bps").unwrap();
    let by_id: Value = client::get(&bench.socket(), "/v1/ports/wan/5").unwrap();
    assert_eq!((by_name, by_id), (1_000_000.into(), 1_000_000.into()));
    let answer = ask(&bench, &["unset", "port.wan.rate", "port.wan.discipline"]);
    assert!(
        answer.contains("~ port.wan.rate: 1 Mbit -> 0 bit"),
        "{answer}"
    );
    let kind = "~ port.wan.discipline.kind: lru_fq -> triple_fair";
    assert!(answer.contains(kind), "{answer}");
    let refused = bench.weir(&["unset", "port.lan", "port.wann"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(
        why.contains("there is no port `wann`; did you mean `wan`?"),
        "{why}"
    );
    assert_eq!(json(&bench, "ports").as_array().map(Vec::len), Some(2));
    ask(&bench, &["unset", "port.lan"]);
    assert_eq!(json(&bench, "ports").as_array().map(Vec::len), Some(1));
    let last = bench.weir(&["unset", "port.wan"]);
    assert_eq!(last.status.code(), Some(2));
}

#[test]
fn the_log_says_what_happened_and_by_whom() {
    let Some(mut bench) = bench("") else {
        return;
    };
    assert_eq!(diff(&bench, CONFIG), Some(1)); // another socket
    let same = fs::read_to_string(bench.folder.join("weir.toml")).unwrap();
    assert_eq!(diff(&bench, &same), Some(0));
    assert_eq!(diff(&bench, "[port.wan]\nrate = 5\n"), Some(2));
    ask(&bench, &["set", "port.wan.rate=6 Mbit"]);
    let refused = bench.weir(&["set", "port.wan.rate=6M"]);
    assert_eq!(refused.status.code(), Some(2));
    run(&bench.bed.source, "ping", ANSWERED).unwrap();
    bench.signal("HUP");
    bench.eventually("SIGHUP is obeyed", || bench.log().contains("SIGHUP"));
    run(
        &bench.bed.router,
        "ip",
        "route add 192.0.2.0/24 via 10.77.2.2",
    )
    .unwrap();
    bench.eventually("the route is seen", || bench.log().contains("192.0.2.0/24"));
    bench.stop("TERM");
    let log = bench.log();
    let uid = format!("uid={}", run(&bench.bed.router, "id", "-u").unwrap().trim());
    let expected: [&[&str]; 7] = [
        &[
            "router started",
            "version=",
            "mode=\"routed\"",
            "ports=2",
            "weir.sock",
        ],
        &[
            "port opened",
            "port=\"wan\"",
            "interface=\"r1\"",
            "1 Mbit",
            "lru_fq",
        ],
        &[
            "configuration changed",
            "how=\"set\"",
            &uid,
            "pid=",
            "port.wan.rate: 1 Mbit -> 6 Mbit",
        ],
        &["configuration refused", "how=\"set\"", "did you mean"],
        &[
            "configuration changed",
            "how=\"SIGHUP\"",
            "6 Mbit -> 1 Mbit",
        ],
        &[
            "DEBUG",
            "kernel tables",
            "route + 192.0.2.0/24: via 10.77.2.2",
        ],
        &["router stopped", "uptime_s=", "sent_packets="],
    ];
    for words in expected {
        let told = |line: &&str| words.iter().all(|word| line.contains(word));
        assert_eq!(log.lines().filter(told).count(), 1, "{words:?}\n{log}");
    }
    assert!(!log.contains("sent_packets=0 "), "{log}");
}

#[test]
fn a_bridge_without_a_bridge_of_the_kernel_warns() {
    let Some(bench) = bench("mode = \"bridged\"\n") else {
        return;
    };
    logged(|| bench.log(), &["no fail-open"]);
    assert!(ask(&bench, &["show", "routes"]).len() > 1);
}

/// Runs `weir apply --confirm` on this configuration with this answer, and returns its exit code and its output.
fn confirm(bench: &Bench, config: &str, time: &str, answer: &str) -> (Option<i32>, String) {
    let file = bench.folder.join("confirmed.toml");
    fs::write(&file, config).unwrap();
    let mut apply = bench
        .command()
        .args(["apply", file.to_str().unwrap(), "--confirm", time])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = apply.stdin.take().unwrap();
    input.write_all(answer.as_bytes()).unwrap();
    let held = answer.is_empty().then_some(input); // otherwise its end is the answer
    let output = apply.wait_with_output().unwrap();
    drop(held);
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_configuration_that_nobody_confirms_is_taken_back() {
    let Some(bench) = bench("") else { return };
    let before = ask(&bench, &["show", "config"]);
    assert!(
        before.contains("[port.wan]\n") && before.contains("rate = \"1 Mbit\""),
        "{before}"
    );
    assert_eq!(diff(&bench, &before), Some(0), "{before}");
    let other = before.replace("rate = \"1 Mbit\"", "rate = \"2 Mbit\"");
    for (time, answer) in [("1 s", ""), ("60 s", "no\n")] {
        let (code, said) = confirm(&bench, &other, time, answer);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("the previous configuration was restored"),
            "{said}"
        );
        assert_eq!(diff(&bench, &before), Some(0));
    }
    assert_eq!(confirm(&bench, &other, "60 s", "yes\n").0, Some(0));
    assert_eq!(ask(&bench, &["get", "port.wan.rate"]), "2 Mbit\n");
    assert!(ask(&bench, &["get", "port.wan"]).contains("port.wan.interface: "));
    let unknown = bench.weir(&["get", "port.wan.rat"]);
    let why = String::from_utf8(unknown.stderr).unwrap();
    assert!(why.contains("did you mean `port.wan.rate`?"), "{why}");
}

#[test]
fn what_is_set_can_be_saved() {
    let Some(bench) = bench("") else { return };
    let file = bench.folder.join("saved.toml");
    let config = ask(&bench, &["show", "config"]);
    fs::write(&file, format!("# my box\n{config}")).unwrap();
    let save = format!("--save={}", file.display());
    ask(&bench, &["set", &save, "port.wan.rate=\"3 Mbit\""]);
    let saved = fs::read_to_string(&file).unwrap();
    assert!(
        saved.starts_with("# my box\n") && saved.contains("rate = \"3 Mbit\""),
        "{saved}"
    );
    assert_eq!(diff(&bench, &saved), Some(0));
    // A refused change is saved nowhere.
    let refused = bench.weir(&["set", &save, "port.wan.rate=\"0.1 bit\""]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), saved);
    ask(&bench, &["unset", &save, "port.wan.rate"]);
    assert_eq!(diff(&bench, &fs::read_to_string(&file).unwrap()), Some(0));
}
