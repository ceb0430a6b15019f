//! The router's page: who may read it, the number of readers, and a flood as shown in a browser.
//!
//! Each test builds its own hosts. Where network namespaces are not permitted, it prints that and skips; so does the part
//! with a browser where Chromium is not installed. `WEIR_PICTURES=FOLDER` keeps pictures of the page.

mod browser;
use crate::promtool;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, Bench, eventually};
use browser::Browser;
use serde_json::Value;
use weir_benches::testbed::{SINK, SOURCE, run};

const PAGE: &str = "127.0.0.1:8080";
/// A slow link, so that a flood needs few packets.
const CONFIG: &str = "\
page = \"127.0.0.1:8080\"
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\" }
[port.wan]
interface = \"r1\"
rate = \"5 Mbit\"
";
/// Readers that the page serves at the same time.
const VIEWERS_MAX: usize = 32;

/// A router with a page.
fn bench() -> Option<Bench> {
    let mut bench = Bench::without_router()?;
    bench.ip("link set lo up");
    bench.start(CONFIG);
    eventually("the page listens", || connect(&bench).is_some());
    Some(bench)
}

/// The token of the page.
fn token(bench: &Bench) -> String {
    let file = bench.socket().with_extension("token");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::read_to_string(file).unwrap().trim().to_owned()
}

/// The status of a reader without the token.
fn stranger(bench: &Bench, request: &str) -> u16 {
    let mut stream = connect(bench).unwrap();
    let text = format!("{request} HTTP/1.1\r\n{HOST}\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    status(&answer)
}

fn connect(bench: &Bench) -> Option<TcpStream> {
    bench
        .bed
        .router
        .enter(|| TcpStream::connect(PAGE))
        .unwrap()
        .ok()
}

/// Sends a request with these headers, and returns the connection.
fn send(bench: &Bench, request: &str, headers: &[&str]) -> BufReader<TcpStream> {
    send_if_heard(bench, request, headers).unwrap()
}

/// Like [`send`]; `None` if no process listens.
fn send_if_heard(bench: &Bench, request: &str, headers: &[&str]) -> Option<BufReader<TcpStream>> {
    let mut stream = connect(bench)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let token = token(bench);
    let text = format!("{request} HTTP/1.1\r\nx-weir-token: {token}\r\n{headers}\r\n");
    stream.write_all(text.as_bytes()).ok()?;
    Some(BufReader::new(stream))
}

/// The status of a request, and the whole answer.
fn http(bench: &Bench, request: &str, headers: &[&str]) -> (u16, String) {
    let mut answer = String::new();
    send(bench, request, headers)
        .read_to_string(&mut answer)
        .unwrap();
    (status(&answer), answer)
}

fn status(line: &str) -> u16 {
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

const HOST: &str = "host: 127.0.0.1:8080";

fn get(bench: &Bench, path: &str) -> (u16, String) {
    http(bench, &format!("GET {path}"), &[HOST])
}

/// Follows the samples; `None` if all slots are taken.
fn follow(bench: &Bench) -> Option<BufReader<TcpStream>> {
    let mut answer = send(bench, "GET /v1/live", &[HOST]);
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    (status(&line) == 200).then_some(answer)
}

/// Stops a thread at the end of a scope, even if the scope panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Another address of the host that sends.
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 3);
/// A third address, which sends little.
const MODEST: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 4);

/// Sends datagrams of 40 flows, four times as fast as the link, together with one flow of another source that would
/// fill the link alone, and a third source that sends little, while `work` runs.
fn under_flood<T>(bench: &Bench, work: impl FnOnce() -> T) -> T {
    for address in [NEIGHBOUR, MODEST] {
        let address = format!("address add {address}/24 dev a0");
        run(&bench.bed.source, "ip", &address).unwrap();
    }
    let sockets = |from: Ipv4Addr, count: usize| -> Vec<UdpSocket> {
        let bind = || {
            (0..count)
                .map(|_| UdpSocket::bind((from, 0)).unwrap())
                .collect()
        };
        bench.bed.source.enter(bind).unwrap()
    };
    let sink = || UdpSocket::bind((SINK, 9)).unwrap();
    let _sink = bench.bed.sink.enter(sink).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (flood, other) = (sockets(SOURCE, 40), sockets(NEIGHBOUR, 1));
            let modest = sockets(MODEST, 1);
            let ten = other.iter().cycle().take(10);
            while !stop.load(Ordering::Relaxed) {
                for socket in flood.iter().chain(ten.clone()) {
                    let _ = socket.send_to(&[0; 1000], (SINK, 9)); // errors only say that nobody listens
                }
                let _ = modest[0].send_to(&[0; 100], (SINK, 9));
                thread::sleep(Duration::from_millis(16));
            }
        });
        let _ends = Ends(&stop);
        work()
    })
}

#[test]
fn the_page_reads_and_changes_nothing() {
    let Some(bench) = bench() else { return };
    let (status, page) = get(&bench, "/");
    assert_eq!(status, 200);
    assert!(page.contains(
        "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'"
    ));
    assert!(page.contains("<title>weir: router</title>"));
    for path in [
        "/page/router.js",
        "/page/shared.js",
        "/page/style.css",
        "/v1/config",
    ] {
        assert_eq!(get(&bench, path).0, 200, "{path}");
    }
    for path in [
        "/v1/status",
        "/v1/ports",
        "/v1/queues",
        "/v1/drops",
        "/v1/waiting",
        "/v1/history",
        "/v1/drop_history",
        "/metrics",
    ] {
        eventually("there is a sample", || get(&bench, path).0 == 200);
    }
    // Prometheus on this machine needs only this path; one name represents all metrics of the samples.
    let (_, metrics) = get(&bench, "/metrics");
    let (head, metrics) = metrics.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    promtool::check_metrics(metrics);
    for name in [
        "weir_uptime_seconds ",
        "weir_bypassed_chains_new 0",
        "weir_queue_delay_seconds_bucket{port=",
    ] {
        assert!(metrics.contains(&format!("\n{name}")), "{name}: {metrics}");
    }
    // Tables with a row for each flow, route or neighbour are for the owner of the socket.
    for table in ["flows", "hogs", "routes", "neighbours", "netfilter"] {
        assert_eq!(get(&bench, &format!("/v1/{table}")).0, 404, "{table}");
    }
    for (request, headers, expected) in [
        ("DELETE /v1/ports", &[HOST][..], 405),
        ("GET /v1/ports", &["host: weir.example:8080"], 421),
        ("GET /v1/ports", &[HOST, "origin: http://weir.example"], 403),
        ("GET /v1/ports", &[HOST, "sec-fetch-site: cross-site"], 403),
    ] {
        assert_eq!(
            http(&bench, request, headers).0,
            expected,
            "{request} {headers:?}"
        );
    }
    // Without the token only the page itself and metrics can be read, and nothing can be changed.
    for (request, expected) in [
        ("GET /", 200),
        ("GET /page/router.js", 200),
        ("GET /metrics", 200),
        ("GET /v1/openapi.json", 200),
        ("GET /v1/ports", 401),
        ("GET /v1/config", 401),
        ("GET /v1/live", 401),
        ("GET /v1/waiting", 401),
        ("PATCH /v1/config", 401),
        ("POST /v1/capture", 401),
    ] {
        assert_eq!(stranger(&bench, request), expected, "{request}");
    }
    // The socket also serves the page, without any configuration.
    let on_socket: String = {
        let mut stream = std::os::unix::net::UnixStream::connect(bench.socket()).unwrap();
        let request = "GET / HTTP/1.1\r\nhost: localhost:8080\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(on_socket.contains("<title>weir: router</title>"));
}

#[test]
fn a_router_forwards_without_its_page_and_moves_it() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    bench.ip("link set lo up");
    let other = bench
        .bed
        .router
        .enter(|| TcpListener::bind(PAGE))
        .unwrap()
        .unwrap();
    bench.start(CONFIG);
    assert!(bench.ping(common::ANSWERED));
    bench.eventually("the log says it", || {
        bench.log().contains("the page cannot listen there")
    });
    drop(other);
    // A process that another test starts may also hold a copy of that listener for a moment.
    bench.eventually("the page listens", || {
        let mut line = String::new();
        send_if_heard(&bench, "GET /", &[HOST])
            .is_some_and(|mut answer| answer.read_line(&mut line).is_ok() && line.contains(" 200 "))
    });
    let set = bench.ask(&["set", "page=127.0.0.1:8081"]);
    assert!(
        set.contains("page: 127.0.0.1:8080 -> 127.0.0.1:8081"),
        "{set}"
    );
    let moved = || {
        bench
            .bed
            .router
            .enter(|| TcpStream::connect("127.0.0.1:8081"))
            .unwrap()
    };
    assert!(moved().is_ok() && connect(&bench).is_none(), "it has moved");
    let unset = bench.ask(&["unset", "page"]);
    assert!(moved().is_err(), "it is gone");
    assert!(unset.contains("page"), "{unset}");
    let other = bench.bed.router.enter(|| TcpListener::bind(PAGE));
    let taken = bench.ask(&["set", "page=127.0.0.1:8080"]);
    assert!(
        taken.contains("the page cannot listen there; retrying: Address already in use"),
        "{taken}"
    );
    drop(other);
    let wrong = bench.ask(&["set", "page=0.0.0.0:8080"]);
    assert!(
        wrong.contains("must be a loopback address and port"),
        "{wrong}"
    );
}

/// Processor time of the forwarding thread.
fn forwarding_time(bench: &Bench) -> Duration {
    let child = bench.router.as_ref().unwrap().child();
    let tasks = fs::read_dir(format!("/proc/{child}/task")).unwrap();
    let mut folders = tasks.map(|task| task.unwrap().path());
    let worker =
        folders.find(|task| fs::read_to_string(task.join("comm")).unwrap().trim() == "weir-worker");
    let times = fs::read_to_string(worker.unwrap().join("schedstat")).unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn viewers_are_bounded_and_cost_the_forwarding_thread_nothing() {
    let Some(bench) = bench() else { return };
    let busy = || {
        let (began, before) = (Instant::now(), forwarding_time(&bench));
        thread::sleep(Duration::from_secs(2));
        (forwarding_time(&bench) - before).as_secs_f64() / began.elapsed().as_secs_f64()
    };
    let alone = busy();
    let mut viewers: Vec<_> = (0..10).map(|_| follow(&bench).unwrap()).collect();
    let watched = busy();
    println!(
        "forwarding thread: {:.3} % without viewers, {:.3} % with ten",
        100.0 * alone,
        100.0 * watched
    );
    assert!(watched - alone < 0.01, "{alone} {watched}");
    // Each viewer has the same lines.
    let mut lines = |viewer: usize| {
        let mut text = String::new();
        while !text.ends_with("}\n") {
            text.clear();
            viewers[viewer].read_line(&mut text).unwrap();
        }
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let uptime = |line: &Value| line["status"]["uptime_s"].as_f64().unwrap();
    let (mut line, mut other) = (lines(0), lines(1));
    while uptime(&line) != uptime(&other) {
        if uptime(&line) < uptime(&other) {
            line = lines(0)
        } else {
            other = lines(1)
        }
    }
    assert_eq!(line, other);
    assert_eq!(line["ports"].as_array().unwrap().len(), 2);
    viewers.extend((10..VIEWERS_MAX).map(|_| follow(&bench).unwrap()));
    assert!(follow(&bench).is_none());
    assert_eq!(get(&bench, "/").0, 200, "others are served");
    viewers.pop();
    eventually("there is a place again", || follow(&bench).is_some());
}

#[test]
fn slow_strangers_keep_nobody_out() {
    let Some(bench) = bench() else { return };
    let slow = || {
        let mut stream = connect(&bench).unwrap();
        stream.write_all(b"GET /v1/ports HT").unwrap();
        stream
    };
    // Many times the number of slots, and more all the time.
    let mut strangers: Vec<_> = (0..200).map(|_| slow()).collect();
    for _ in 0..10 {
        let began = Instant::now();
        assert_eq!(get(&bench, "/v1/config").0, 200);
        let waited = began.elapsed();
        strangers.extend((0..20).map(|_| slow()));
        assert!(waited < Duration::from_secs(5), "{waited:?}");
    }
    // Unread answers exclude nobody either.
    for stream in &mut strangers {
        let _ = stream.write_all(b"TP/1.1\r\nhost: 127.0.0.1:8080\r\n\r\n"); // most are closed
    }
    assert_eq!(get(&bench, "/v1/config").0, 200);
}

#[test]
fn a_flood_is_seen() {
    let Some(bench) = bench() else { return };
    under_flood(&bench, || {
        let json =
            |table: &str, query: &str| -> Value { bench.get(&format!("/v1/{table}{query}")) };
        // Each check reads another sample, and on a busy machine the queues of some samples are empty.
        bench.eventually("its source is seen, and why it waits", || {
            let first = &json("waiting", "")[0];
            first["source"] == SOURCE.to_string()
                && first["flows"].as_u64() >= Some(30)
                && (first["why"].as_str()).is_some_and(|why| why.contains("flows in the queue"))
        });
        bench.eventually("its flows are seen", || {
            let flows = json("waiting", "?by=flow");
            flows.as_array().is_some_and(|flows| flows.len() >= 30)
        });
        // A machine with other work does not fill the link in each second.
        let mut now = Value::Null;
        bench.eventually("the link is full for a second", || {
            let full = |row: &&Value| row["utilisation_ratio"].as_f64().unwrap() > 0.95;
            let history = json("history", "?port=wan&records=600");
            let found = history.as_array().unwrap().iter().find(full);
            now = found.cloned().unwrap_or_default();
            found.is_some()
        });
        let delay = |name: &str| now[name].as_f64().unwrap();
        assert!((0.001..5.0).contains(&delay("delay_p50_s")), "{now}");
        assert!(delay("delay_p50_s") <= delay("delay_p99_s"), "{now}");
        // Only the flood's own packets wait for long.
        assert!(
            delay("light_delay_p99_s") < delay("heavy_delay_p50_s"),
            "{now}"
        );
        bench.eventually("who sends most is seen", || {
            let talkers = json("talkers", "?port=wan&by=source");
            let of = |who: Ipv4Addr| {
                let found = talkers
                    .as_array()?
                    .iter()
                    .find(|row| row["who"] == who.to_string());
                found?["share_ratio"].as_f64()
            };
            of(SOURCE) > Some(0.3) && of(NEIGHBOUR) > Some(0.3) && of(MODEST) < Some(0.1)
        });
        assert!(
            now["offered_bps"].as_u64() > now["sent_bps"].as_u64(),
            "{now}"
        );
        bench.eventually("its drops are seen", || {
            json("drop_history", "")[0]["packets"].as_u64() > Some(0)
        });
        let metrics = get(&bench, "/metrics").1;
        assert!(metrics.contains("# TYPE weir_queue_delay_seconds histogram"));
        for whose in ["", "light_", "heavy_"] {
            let bucket =
                format!("weir_queue_{whose}delay_seconds_bucket{{port=\"wan\",le=\"+Inf\"}}");
            assert!(metrics.contains(&bucket), "{bucket}: {metrics}");
        }
        in_a_browser(&bench);
    });
}

/// Checks the page as a person sees it in Chromium.
fn in_a_browser(bench: &Bench) {
    let Some(mut browser) = Browser::start(&bench.spawner, &bench.bed.router, &bench.folder) else {
        return;
    };
    browser.show(1280, "light");
    browser.open(&format!("http://{PAGE}/"));
    let login = "document.getElementById('login')";
    let asks = |browser: &mut Browser| browser.ask(&format!("{login}.hidden === false"));
    eventually("the page asks for its token", || {
        asks(&mut browser) == Value::Bool(true)
    });
    let token = token(bench);
    browser.ask(&format!(
        "document.getElementById('token').value = {token:?}"
    ));
    browser.ask(&format!("{login}.requestSubmit()"));
    let shows = |browser: &mut Browser, what: &str, expression: &str| {
        let began = Instant::now();
        while browser.ask(expression) != Value::Bool(true) {
            let text = browser.ask("document.body.innerText");
            assert!(began.elapsed() < Duration::from_secs(30), "{what}: {text}");
            thread::sleep(Duration::from_millis(100));
        }
    };
    let says = |text: &str| format!("document.body.innerText.includes({text:?})");
    shows(
        &mut browser,
        "the flooded link, and light traffic beside it",
        "/^The link of wan is full, and light traffic waits .* more than their share/.test(document.getElementById('headline').textContent)",
    );
    shows(
        &mut browser,
        "who sends most",
        "document.querySelectorAll('#talkers tr').length >= 2",
    );
    shows(
        &mut browser,
        "words for gauges",
        &says("packets that joined a bin"),
    );
    // One cursor for all charts.
    browser.ask(
        "document.querySelector('.chart svg').dispatchEvent(new PointerEvent('pointermove', { clientX: 300 }))",
    );
    shows(
        &mut browser,
        "a cursor in each chart",
        "[...document.querySelectorAll('svg .cursor')].every(cursor => cursor.getAttribute('d') !== '')",
    );
    shows(&mut browser, "who is held back", &says(&SOURCE.to_string()));
    shows(
        &mut browser,
        "a curve",
        "document.querySelector('svg .line.a').getAttribute('d').split('L').length > 3",
    );
    shows(
        &mut browser,
        "a reason",
        "document.querySelectorAll('#drops tr').length > 0",
    );
    browser.ask("document.getElementById('config').open = true");
    shows(&mut browser, "the configuration", &says("port.wan.rate"));
    browser.ask("document.getElementById('config').open = false");
    for width in [1280, 390] {
        for scheme in ["light", "dark"] {
            browser.show(width, scheme);
            let fits = format!(
                "innerWidth === {width} && document.documentElement.scrollWidth <= {width}"
            );
            shows(&mut browser, "nothing is wider than the screen", &fits);
            if let Some(folder) = std::env::var_os("WEIR_PICTURES") {
                thread::sleep(Duration::from_millis(1500)); // curves of the new width
                let name = format!("page-{width}-{scheme}.png");
                browser.picture(&PathBuf::from(folder).join(name));
            }
        }
    }
    // Only the icon that a browser asks for by itself is missing.
    browser
        .errors
        .retain(|error| !error.contains("favicon.ico") && !error.contains("401"));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}
