//! `weir queue`: the queue of an interface, in one command. The kernel routes, filters and translates as before.

use std::fs;
use std::path::PathBuf;

use weir_config::quoted;
use weir_lfb::queue::KIND_DEFAULT;

use crate::output::write_file;
use crate::{Failure, configuration, router};

/// Arguments of `weir queue`.
#[derive(Debug, clap::Args)]
pub struct QueueArguments {
    /// The interface to the line
    interface: String,
    /// Rate of uploads, slightly below the line rate: "38 Mbit"; or "auto"
    #[arg(long, value_name = "RATE")]
    up: Option<String>,
    /// Rate of downloads, slightly below the line rate: "95 Mbit"; or "auto"
    #[arg(long, value_name = "RATE")]
    down: Option<String>,
    /// Type of the modem, for the headers that it adds: "docsis", "pppoe-ptm", ..
    #[arg(long, value_name = "KEYWORD")]
    overhead: Option<String>,
}

/// The folder of the configuration, which lasts as long as the machine runs: a reload reads it again.
const FOLDER: &str = "/run/weir";

/// Queues an interface until a signal ends it.
pub fn run(arguments: &QueueArguments) -> Result<(), Failure> {
    let path = PathBuf::from(format!("{FOLDER}/{}.toml", arguments.interface));
    let text = text(arguments);
    // Before a name becomes a path; the router itself checks the machine.
    configuration::plan(&path.display().to_string(), &text)
        .map_err(|faults| Failure::Usage(faults.join("\n")))?;
    let failed = |error| Failure::Run(format!("cannot write {}: {error}", path.display()));
    fs::create_dir_all(FOLDER).map_err(failed)?;
    write_file(&path, &text, true).map_err(failed)?;
    router::run(&path, None, &router::Alone)
}

/// The configuration: a port for each direction. The hosts that share are those inside: many of them may load from one
/// server.
fn text(arguments: &QueueArguments) -> String {
    let QueueArguments {
        interface,
        up,
        down,
        overhead,
    } = arguments;
    let port = |name: &str, direction: &str, rate: Option<&String>, hosts: &str| {
        let mut text = format!(
            "\n[port.{name}]\ninterface = {}\ndirection = {}\n",
            quoted(interface),
            quoted(direction)
        );
        for (key, value) in [("rate", rate), ("overhead", overhead.as_ref())] {
            if let Some(value) = value {
                text += &format!("{key} = {}\n", quoted(value));
            }
        }
        text + &format!(
            "discipline = {{ kind = {}, hosts = {} }}\n",
            quoted(KIND_DEFAULT),
            quoted(hosts)
        )
    };
    format!(
        "# Written by `weir queue`. The kernel routes, filters and translates; weir decides who gets the link.\n\
         mode = \"queue\"\n{}{}",
        port("up", "out", up.as_ref(), "both"),
        port("down", "in", down.as_ref(), "destination")
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::configuration::plan;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        queue: QueueArguments,
    }

    #[test]
    fn a_line_becomes_a_port_for_each_direction() {
        let line = ["weir", "eth1", "--up", "38 Mbit", "--overhead", "docsis"];
        let text = text(&Line::parse_from(line).queue);
        let plan = plan("eth1.toml", &text).unwrap().plan;
        let rates = plan.ports.iter().map(|port| {
            let rate = port.rate.map(|rate| rate.as_bps());
            (port.name.as_str(), port.interface.as_str(), rate)
        });
        let expected = [("down", "eth1", None), ("up", "eth1", Some(38_000_000))];
        assert_eq!(rates.collect::<Vec<_>>(), expected);
    }
}
