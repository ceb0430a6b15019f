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

    /// The result of `measure`, and the bytes behind `headers` in the frames that arrived at `b` meanwhile.
    fn counted<T>(
        &self,
        headers: u64,
        measure: impl FnOnce() -> Result<T, Failed>,
    ) -> Result<(T, f64), Failed> {
        let arrived = || -> Result<u64, Failed> {
            let args = ["-s", "-j", "link", "show", "eth0"];
            let output = self.output(&self.b, Command::new("ip").args(args))?;
            let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
            let count = |name| json[0]["stats64"]["rx"][name].as_u64().ok_or(name);
            Ok(count("bytes")? - headers * count("packets")?)
        };
        let before = arrived()?;
        let measured = measure()?;
        Ok((measured, (arrived()? - before) as f64))
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

/// Received payload of a sink's report, in bytes.
fn received(lines: &[Line]) -> f64 {
    let bytes = lines.iter().map(|line| match line {
        Line::Flow(flow) => flow.bytes,
        _ => 0,
    });
    bytes.sum::<u64>() as f64
}

/// Bytes of Ethernet, IPv4 and TCP with its time stamps.
const TCP_HEADERS: u64 = 14 + 20 + 32;
/// Bytes of Ethernet, IPv4 and UDP.
const UDP_HEADERS: u64 = 14 + 20 + 8;

/// Each tool counts the payload that the kernel counts at the receiver's interface in the same time. Counts do not depend
/// on other programs of the machine; the rates of two successive transfers do.
pub(crate) fn iperf3() -> Test {
    if !installed("iperf3") {
        return Ok(());
    }
    let wire = Wire::new()?;
    let ours = |sink: &str, source: &str| -> Result<f64, Failed> {
        let sink = wire.tool(&wire.b, sink)?;
        wire.tool(&wire.a, source)?.finish()?;
        Ok(received(&sink.finish()?))
    };
    let (ours_tcp, tcp) = wire.counted(TCP_HEADERS, || {
        ours(
            "sink --tcp=7000 --duration=6s",
            "tcp 10.0.0.2:7000 --flows=2 --congestion=reno --duration=4s",
        )
    })?;
    let ours_tcp = ours_tcp / tcp;
    let (ours_udp, udp) = wire.counted(UDP_HEADERS, || {
        ours(
            "sink --udp=7000 --duration=6s",
            "udp 10.0.0.2:7000 --flows=4 --rate=5Mbit --payload=1200 --duration=4s",
        )
    })?;
    let (ours_udp, sent) = (ours_udp / udp, udp * 8e-6 / 4.0);

    let mut server = wire.start(
        &wire.b,
        Command::new("iperf3")
            .arg("-s")
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    std::thread::sleep(Duration::from_millis(300));
    let theirs = |args: &str| -> Result<f64, Failed> {
        let args = format!("-c 10.0.0.2 -J -t 4 {args}");
        let output = wire.output(&wire.a, Command::new("iperf3").args(args.split(' ')))?;
        let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let end = &json["end"];
        let (sum, lost) = if args.contains("-u") {
            (&end["sum"], end["sum"]["lost_percent"].as_f64())
        } else {
            (&end["sum_received"], None)
        };
        let bytes = sum["bytes"].as_f64().ok_or("no sum")?;
        Ok(bytes * (1.0 - lost.unwrap_or(0.0) / 100.0))
    };
    let (theirs_tcp, tcp) = wire.counted(TCP_HEADERS, || theirs("-P 2 -C reno"))?;
    let theirs_tcp = theirs_tcp / tcp;
    let (theirs_udp, udp) = wire.counted(UDP_HEADERS, || theirs("-u -P 4 -b 5M -l 1200"))?;
    let theirs_udp = theirs_udp / udp;
    signal(&server, Signal::Kill)?;
    server.wait()?;
    println!(
        "of the payload at the interface: TCP {ours_tcp:.4} / {theirs_tcp:.4}, UDP {ours_udp:.4} / {theirs_udp:.4}; \
         {sent:.2} Mbit/s of UDP"
    );
    let same = |ours: f64, theirs: f64, within| {
        (ours - 1.0).abs() < within && (ours / theirs - 1.0).abs() < within
    };
    let seen = [ours_tcp, theirs_tcp, ours_udp, theirs_udp, sent];
    ensure(
        same(ours_tcp, theirs_tcp, 0.03)
            && same(ours_udp, theirs_udp, 0.01)
            && (sent - 20.0).abs() < 0.3,
        seen,
    )
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
