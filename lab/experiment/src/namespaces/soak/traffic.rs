//! Traffic that must arrive: TCP and UDP over IPv4 and IPv6, the web, and pings, from the source to the sink.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant as Wall};

use weir_base::Span;
use weir_live::namespace::Namespace;

use super::Done;
use super::bed::Bed;
use crate::error::Error;
use crate::namespaces::process::{Running, Tool};
use crate::reported::Line;

/// Tools must listen within this time, and report within this time after the end.
const TOOL_MAX: Duration = Duration::from_secs(30);
const SINK: &str = "10.83.2.2";
const SINK_V6: &str = "[fd83:2::2]";

/// The running tools.
pub(super) struct Traffic {
    tools: Vec<(&'static str, Tool)>,
    pings: Vec<Running>,
}

impl Traffic {
    /// Starts all tools, for this time.
    pub(super) fn start(bed: &Bed, duration: Span) -> Result<Self, Error> {
        let time = format!("--duration={duration}");
        let tool = |namespace: &Namespace, what: &'static str, words: &[&str]| {
            let mut command = Command::new(bed.programs.own());
            command.arg("traffic").args(words).arg(&time);
            let mut tool = Tool::start(&bed.spawner, namespace, what, command)?;
            tool.wait_ready(Wall::now() + TOOL_MAX)?;
            Ok::<_, Error>((what, tool))
        };
        let (v4, v6) = (
            |port: u16| format!("{SINK}:{port}"),
            |port: u16| format!("{SINK_V6}:{port}"),
        );
        let sink = [
            "sink",
            "--tcp=5001",
            "--tcp=5002",
            "--udp=5003",
            "--udp=5004",
        ];
        let tools = vec![
            tool(&bed.sink, "sink", &sink)?,
            tool(&bed.sink, "web server", &["web", "serve", "--port=8080"])?,
            tool(&bed.source, "TCP", &["tcp", &v4(5001), "--flows=3"])?,
            tool(
                &bed.source,
                "TCP over IPv6",
                &["tcp", &v6(5002), "--flows=2"],
            )?,
            tool(
                &bed.source,
                "UDP",
                &[
                    "udp",
                    &v4(5003),
                    "--flows=20",
                    "--rate=100 kbit",
                    "--payload=300",
                ],
            )?,
            tool(
                &bed.source,
                "UDP over IPv6",
                &["udp", &v6(5004), "--flows=5", "--rate=200 kbit"],
            )?,
            tool(
                &bed.source,
                "web",
                &[
                    "web",
                    "fetch",
                    &v4(8080),
                    "--clients=4",
                    "--think=exponential 200 ms",
                ],
            )?,
        ];
        let ping = |to: &str| {
            let seconds = duration.as_secs_f64().ceil().to_string();
            let mut command = Command::new("ping");
            command.args(["-n", "-q", "-i", "0.2", "-w", &seconds, to]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            Running::start(&bed.spawner, &bed.source, "ping", command)
        };
        Ok(Self {
            tools,
            pings: vec![ping(SINK)?, ping(SINK_V6.trim_matches(['[', ']']))?],
        })
    }

    /// Waits for the reports; returns the counts of what arrived.
    pub(super) fn finish(self) -> Result<Done, Error> {
        let deadline = Wall::now() + TOOL_MAX;
        let mut done = Done::new();
        let mut add = |what: &str, number: u64| *done.entry(what.to_owned()).or_default() += number;
        for (_, tool) in self.tools {
            for line in tool.finish(deadline)? {
                match line {
                    Line::Flow(flow) => add(received(flow.port), flow.bytes),
                    Line::Fetch(_) => add("files fetched", 1),
                    _ => {}
                }
            }
        }
        for mut ping in self.pings {
            // `ping` fails if it received no answer at all.
            let answered = ping.wait(deadline)?.success();
            add("pings answered (IPv4, IPv6)", answered.into());
        }
        Ok(done)
    }
}

/// The name of the payload that a port of the sink received.
fn received(port: u16) -> &'static str {
    match port {
        5001 => "bytes received by TCP",
        5002 => "bytes received by TCP over IPv6",
        5003 => "bytes received by UDP",
        _ => "bytes received by UDP over IPv6",
    }
}
