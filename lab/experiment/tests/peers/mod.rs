//! Cross-checks: iperf3, nginx and curl measure the same as the lab's own tools.
//!
//! Two hosts and a wire of 50 Mbit/s between them, without a router.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use libtest_mimic::Failed;
use weir_experiment::namespaces::traffic::{Fetch, Line, Outcome};
use weir_live::namespace::{Namespace, Signal, Spawner, signal};

use crate::support::me;
use crate::{Test, ensure};

/// Two namespaces with a wire; `b` is at 10.0.0.2, and `a` sends at 50 Mbit/s.
struct Wire {
    spawner: Spawner,
    a: Namespace,
    b: Namespace,
}

impl Wire {
    fn new() -> Result<Self, Failed> {
        let wire = Self {
            spawner: Spawner::new()?,
            a: Namespace::new()?,
            b: Namespace::new()?,
        };
        let peer = wire.b.path();
        wire.setup(
            &wire.a,
            &format!(
                "link add name eth0 type veth peer name eth0 netns {peer}\n\
             addr add 10.0.0.1/24 dev eth0\nlink set eth0 up\nlink set lo up\n"
            ),
        )?;
        wire.setup(
            &wire.b,
            "addr add 10.0.0.2/24 dev eth0\nlink set eth0 up\nlink set lo up\n",
        )?;
        let tbf = weir_experiment::namespaces::build::tbf("eth0", "50 Mbit".parse()?);
        wire.output(&wire.a, Command::new("tc").args(tbf.split(' ')))?;
        for host in [&wire.a, &wire.b] {
            let args = [
                "-K", "eth0", "tx", "off", "tso", "off", "gso", "off", "gro", "off",
            ];
            wire.output(host, Command::new("ethtool").args(args))?;
        }
        Ok(wire)
    }

    fn setup(&self, host: &Namespace, batch: &str) -> Test {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]).stdin(Stdio::piped());
        let mut child = self.spawner.spawn(host, command)?;
        child
            .stdin
            .take()
            .ok_or("no stdin")?
            .write_all(batch.as_bytes())?;
        ensure(child.wait()?.success(), batch)
    }

    fn start(&self, host: &Namespace, command: &mut Command) -> Result<Child, Failed> {
        let taken = std::mem::replace(command, Command::new("true"));
        Ok(self.spawner.spawn(host, taken)?)
    }

    /// Runs to the end; the command must end by itself.
    fn output(&self, host: &Namespace, command: &mut Command) -> Result<Output, Failed> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = self.start(host, command)?.wait_with_output()?;
        if output.status.success() {
            Ok(output)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
        }
    }

    /// One of our traffic tools, started and ready.
    fn tool(&self, host: &Namespace, args: &str) -> Result<Tool, Failed> {
        let mut command = Command::new(me());
        command.arg("traffic").args(args.split(' '));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = self.start(host, &mut command)?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?).lines();
        let first: Line = serde_json::from_str(&lines.next().ok_or("no report")??)?;
        ensure(first == Line::Ready, first)?;
        Ok(Tool {
            child,
            lines: Box::new(lines),
        })
    }
}

struct Tool {
    child: Child,
    lines: Box<dyn Iterator<Item = std::io::Result<String>>>,
}

impl Tool {
    fn finish(mut self) -> Result<Vec<Line>, Failed> {
        let lines = self.lines.by_ref().map(|l| Ok(serde_json::from_str(&l?)?));
        let lines: Result<Vec<Line>, Failed> = lines.collect();
        ensure(self.child.wait()?.success(), "a tool failed")?;
        lines
    }
}

fn installed(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("skipped: {program} is not installed");
    }
    there
}

/// Received payload of a sink's report, in Mbit/s over `seconds` of the window.
fn received(lines: &[Line], seconds: f64) -> f64 {
    let bytes = lines.iter().map(|line| match line {
        Line::Flow(flow) => flow.window_bytes,
        _ => 0,
    });
    bytes.sum::<u64>() as f64 * 8.0 / 1e6 / seconds
}

/// Number of measurements of each pair of tools: other programs of the machine may disturb one measurement in real
/// time; a difference between the tools shows in each.
const MEASUREMENTS: usize = 3;

pub(crate) fn iperf3() -> Test {
    if !installed("iperf3") {
        return Ok(());
    }
    let mut last = Ok(());
    for _ in 0..MEASUREMENTS {
        last = iperf3_agrees()?;
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Whether both tools measured the same, or why the measurement failed.
fn iperf3_agrees() -> Result<Test, Failed> {
    let wire = Wire::new()?;
    let sink = wire.tool(
        &wire.b,
        "sink --tcp=7000 --udp=7000 --duration=4s --warm-up=1s",
    )?;
    let tcp = wire.tool(
        &wire.a,
        "tcp 10.0.0.2:7000 --flows=2 --congestion=reno --duration=4s",
    )?;
    let lines = sink.finish()?;
    tcp.finish()?;
    let ours_tcp = received(&lines, 3.0);
    let sink = wire.tool(&wire.b, "sink --udp=7000 --duration=4s --warm-up=1s")?;
    let udp = wire.tool(
        &wire.a,
        "udp 10.0.0.2:7000 --flows=4 --rate=5Mbit --payload=1200 --duration=4s",
    )?;
    let ours_udp = received(&sink.finish()?, 3.0);
    udp.finish()?;

    let mut server = wire.start(
        &wire.b,
        Command::new("iperf3")
            .arg("-s")
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    std::thread::sleep(Duration::from_millis(300));
    let theirs = |args: &str| -> Result<f64, Failed> {
        let args = format!("-c 10.0.0.2 -J -t 3 -O 1 {args}");
        let output = wire.output(&wire.a, Command::new("iperf3").args(args.split(' ')))?;
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let end = &json["end"];
        let sum = match end["sum_received"]["bits_per_second"].as_f64() {
            Some(tcp) if !args.contains("-u") => tcp,
            _ => {
                let sum = &end["sum"];
                let lost = sum["lost_percent"].as_f64().unwrap_or(0.0);
                sum["bits_per_second"].as_f64().ok_or("no sum")? * (1.0 - lost / 100.0)
            }
        };
        Ok(sum / 1e6)
    };
    let theirs_tcp = theirs("-P 2 -C reno")?;
    let theirs_udp = theirs("-u -P 4 -b 5M -l 1200")?;
    signal(&server, Signal::Kill)?;
    server.wait()?;
    println!("TCP {ours_tcp:.2} / {theirs_tcp:.2}, UDP {ours_udp:.2} / {theirs_udp:.2} Mbit/s");
    let apart = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs();
    // 50 Mbit/s on the wire are 47.07 of TCP payload.
    let tcp = apart(ours_tcp, theirs_tcp) < 0.05 && (44.0..47.5).contains(&ours_tcp);
    let udp = apart(ours_udp, theirs_udp) < 0.03 && (ours_udp - 20.0).abs() < 0.3;
    let seen = [ours_tcp, theirs_tcp, ours_udp, theirs_udp];
    Ok(ensure(tcp && udp, seen))
}

pub(crate) fn web() -> Test {
    if !installed("curl") {
        return Ok(());
    }
    let wire = Wire::new()?;
    // Our server, curl as the client.
    let server = wire.tool(&wire.a, "web serve --port=8080 --duration=5s")?;
    let mut curl = Command::new("curl");
    curl.args([
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{size_download} %{num_connects} ",
    ]);
    curl.args(["--max-time", "4", "http://10.0.0.1:8080/bytes/[500-502]"]);
    let output = wire.output(&wire.b, &mut curl)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(said == "200 500 1 200 501 1 200 502 1 ", &said)?;
    // Our clients with our server, then with nginx: the same files, the same times.
    let fetch = "web fetch 10.0.0.1:8080 --clients=2 --mix=500B:1,50kB:1 --seed=3 --duration=2s";
    let ours = fetched(wire.tool(&wire.b, fetch)?.finish()?)?;
    server.finish()?;
    if !installed("nginx") {
        return Ok(());
    }
    let site = Site::new()?;
    let mut nginx = wire.start(&wire.a, &mut site.nginx())?;
    std::thread::sleep(Duration::from_millis(500));
    let theirs = fetched(wire.tool(&wire.b, fetch)?.finish()?);
    signal(&nginx, Signal::Terminate)?;
    nginx.wait()?;
    let theirs = theirs?;
    println!(
        "per fetch: {:.6} s from ours, {:.6} s from nginx",
        ours.mean, theirs.mean
    );
    ensure(ours.sizes[..20] == theirs.sizes[..20], "other files")?;
    ensure(
        (ours.mean / theirs.mean - 1.0).abs() < 0.25,
        (ours.mean, theirs.mean),
    )
}

struct Fetched {
    /// Sizes of the first client's fetches.
    sizes: Vec<u64>,
    /// Mean response time.
    mean: f64,
}

fn fetched(lines: Vec<Line>) -> Result<Fetched, Failed> {
    let fetches: Vec<Fetch> = lines
        .into_iter()
        .filter_map(|line| match line {
            Line::Fetch(fetch) if fetch.outcome != Outcome::Unfinished => Some(fetch),
            _ => None,
        })
        .collect();
    let bad = fetches.iter().find(|f| f.outcome != Outcome::Finished);
    ensure(bad.is_none() && fetches.len() > 50, (bad, fetches.len()))?;
    let first = fetches.iter().filter(|f| f.client == 0);
    Ok(Fetched {
        sizes: first.map(|f| f.bytes).collect(),
        mean: fetches.iter().map(|f| f.response_s).sum::<f64>() / fetches.len() as f64,
    })
}

/// Files for nginx, in a temporary folder.
struct Site(PathBuf);

impl Site {
    fn new() -> Result<Self, Failed> {
        let root = std::env::temp_dir().join(format!("weir-lab-nginx-{}", std::process::id()));
        std::fs::create_dir_all(root.join("bytes"))?;
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755))?;
        for size in [500, 50_000] {
            std::fs::write(root.join(format!("bytes/{size}")), vec![b'w'; size])?;
        }
        let root_text = root.display();
        let config = format!(
            "daemon off; master_process off; pid {root_text}/pid; error_log {root_text}/error;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; keepalive_timeout 0; client_body_temp_path {root_text}/b;\n\
             proxy_temp_path {root_text}/p; fastcgi_temp_path {root_text}/f;\n\
             uwsgi_temp_path {root_text}/u; scgi_temp_path {root_text}/s;\n\
             server {{ listen 8080; root {root_text}; }} }}\n"
        );
        std::fs::write(root.join("nginx.conf"), config)?;
        Ok(Self(root))
    }

    fn nginx(&self) -> Command {
        let mut command = Command::new("nginx");
        let config: &Path = &self.0.join("nginx.conf");
        command
            .arg("-e")
            .arg(self.0.join("error"))
            .arg("-c")
            .arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
