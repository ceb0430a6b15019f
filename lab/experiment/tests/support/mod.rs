//! Common parts of the lab's tests: the other roles of the executable, a stand-in router, a scenario.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use weir_config::Node;
use weir_experiment::scenario::Override;
use weir_experiment::{RunOptions, RunResult};

/// The roles of this executable besides the tests.
#[derive(Debug, Parser)]
struct Faces {
    #[command(subcommand)]
    face: Face,
}

#[derive(Debug, Subcommand)]
enum Face {
    /// A traffic tool.
    #[command(subcommand)]
    Traffic(weir_experiment::traffic::Command),
    /// A stand-in for the router: the kernel forwards and queues.
    Router { config: PathBuf },
    /// A lab.
    Run {
        scenario: PathBuf,
        #[arg(long)]
        set: Vec<Override>,
        #[arg(long)]
        variant: Vec<String>,
        #[arg(long)]
        weir: Option<PathBuf>,
        #[arg(long)]
        runs: Option<u64>,
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

/// Plays another role if the arguments ask for one.
pub(crate) fn play_another_face() -> Option<Result<(), String>> {
    let first = std::env::args().nth(1)?;
    if !["traffic", "router", "run"].contains(&first.as_str()) {
        return None;
    }
    Some(match Faces::parse().face {
        Face::Traffic(command) => {
            weir_experiment::traffic::run(&command).map_err(|e| e.to_string())
        }
        Face::Router { config } => stand_in(&config).map_err(|e| e.to_string()),
        Face::Run {
            scenario,
            set,
            variant,
            weir,
            runs,
            out,
        } => {
            let options = RunOptions {
                scenario,
                on: weir_experiment::Habitat::Lab,
                overrides: set,
                variants: variant,
                executable: weir,
                runs,
                ..RunOptions::default()
            };
            run_lab(options, out)
        }
    })
}

fn run_lab(options: RunOptions, out: Option<PathBuf>) -> Result<(), String> {
    let options = RunOptions {
        progress: true,
        interrupt: weir_experiment::interrupt_flag().map_err(|e| e.to_string())?,
        ..options
    };
    let result = weir_experiment::run(&options).map_err(|e| e.to_string())?;
    println!("{}", serde_json::to_string(&result).unwrap());
    if let Some(folder) = out {
        weir_experiment::report::write(&[result.into()], &folder).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The kernel forwards; each port with a rate gets a token bucket and a queue of its limit.
fn stand_in(config: &std::path::Path) -> io::Result<()> {
    let text = std::fs::read_to_string(config)?;
    let config = weir_config::parse("stand-in", &text).map_err(io::Error::other)?;
    let value = |node: &Node, key: &str| node.entry(key)?.text().map(str::to_owned);
    for (_, port) in config.entry("port").unwrap().entries() {
        let Some(rate) = value(port, "rate") else {
            continue;
        };
        let interface = &value(port, "interface").unwrap();
        let rate = rate.parse().unwrap();
        tc(&weir_experiment::namespaces::build::tbf(interface, rate))?;
        let discipline = port.entry("discipline");
        if let Some(limit) = discipline.and_then(|d| value(d, "limit")) {
            let packets = weir_base::units::read_packets(&limit).unwrap();
            tc(&format!(
                "qdisc add dev {interface} parent 1:1 pfifo limit {packets}"
            ))?;
        }
    }
    let listener = UnixListener::bind(value(&config, "socket").unwrap())?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        let _ = stream.read(&mut [0; 4096])?;
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")?;
    }
    Ok(())
}

fn tc(args: &str) -> io::Result<()> {
    let status = Command::new("tc").args(args.split(' ')).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("tc {args}: {status}")))
    }
}

/// This executable.
pub(crate) fn me() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Two TCP hosts, a flood, web: all through one router to one server.
pub(crate) const SMALL: &str = r#"
title = "small"
duration = "4 s"
warm_up = "1 s"
[router.r]
[host.tcp]
count = 2
[host.flood]
[host.web]
[host.server]
[link.tcp]
ends = ["tcp", "r"]
rate = "100 Mbit"
[link.flood]
ends = ["flood", "r"]
rate = "100 Mbit"
[link.web]
ends = ["web", "r"]
rate = "100 Mbit"
[link.bottleneck]
ends = ["r", "server"]
rate = "20 Mbit"
discipline = { kind = "fifo", limit = "100 packets" }
[traffic.long]
kind = "tcp"
from = "tcp"
to = "server"
congestion = "sack"
[traffic.flood]
kind = "udp"
from = "flood"
to = "server"
flows = 2
rate = "4 Mbit"
[traffic.web]
kind = "web"
from = "web"
to = "server"
clients = 2
mix = "5 kB: 1"
"#;

/// A scenario's text in a temporary file.
pub(crate) struct ScenarioFile(pub(crate) PathBuf);

impl ScenarioFile {
    pub(crate) fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-lab-test-{}-{number}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for ScenarioFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A lab as a separate process, not yet started.
pub(crate) fn lab(scenario: &ScenarioFile) -> Command {
    let mut command = Command::new(me());
    command.arg("run").arg(&scenario.0).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The result of a lab's process, or its error output.
pub(crate) fn result_of(output: Output) -> Result<RunResult, String> {
    if output.status.success() {
        serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Waits until `done`, for at most `seconds`.
pub(crate) fn eventually(seconds: u64, mut done: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(seconds) {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    done()
}

/// The result of a scenario, run by a separate lab with the stand-in router.
pub(crate) fn run(text: &str, args: &[&str]) -> Result<RunResult, String> {
    let scenario = ScenarioFile::new(text);
    let mut command = lab(&scenario);
    command.args(args).arg("--weir").arg(me());
    result_of(command.output().map_err(|e| e.to_string())?)
}
