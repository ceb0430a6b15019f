//! `weir queue`: the queue of an interface, in one command. The kernel routes, filters and translates as before.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use weir_config::quoted;
use weir_lfb::queue::KIND_DEFAULT;

use crate::output::{note, print, write_file};
use crate::service::{answers, configuration_of, folder_of, socket_of};
use crate::{Failure, configuration, router};

/// Arguments of `weir queue`.
#[derive(Debug, clap::Args)]
pub struct QueueArguments {
    /// The interface to the line
    interface: String,
    /// Rate of uploads, slightly below the line rate: "38 Mbit"; or "auto"
    #[arg(long, value_name = "RATE")]
    up: Option<String>,
    /// Rate of downloads, slightly below the line rate: "95 Mbit"
    #[arg(long, value_name = "RATE")]
    down: Option<String>,
    /// With --up auto: addresses behind the line that answer pings, "192.0.2.1 192.0.2.53"
    #[arg(long, value_name = "ADDRESSES", required_if_eq("up", "auto"))]
    reflectors: Option<String>,
    /// Type of the modem, for the headers that it adds: "docsis", "pppoe-ptm", ..
    #[arg(long, value_name = "KEYWORD")]
    overhead: Option<String>,
    /// Write this to /etc/weir/INTERFACE.toml for the service weir@INTERFACE, and start nothing
    #[arg(long)]
    save: bool,
}

/// Queues an interface until a signal ends it, or writes the configuration of its service.
pub fn run(arguments: &QueueArguments) -> Result<(), Failure> {
    let text = text(arguments);
    // Before a name becomes a path.
    configuration::plan("weir queue", &text).map_err(|faults| Failure::Usage(faults.join("\n")))?;
    if arguments.save {
        return save(arguments, &text);
    }
    let socket = socket_of(&arguments.interface);
    if answers(&socket) {
        let interface = &arguments.interface;
        return Err(Failure::Run(format!(
            "{interface} is queued already, by the router at {}: change it with `weir set`, or stop it",
            socket.display()
        )));
    }
    // The file lasts as long as the machine runs: a reload reads it again.
    let folder = folder_of(&arguments.interface);
    let path = folder.join("weir.toml");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.and_then(|()| write_file(&path, &text, true))
        .map_err(|error| Failure::Run(format!("cannot write {}: {error}", path.display())))?;
    router::run(&path, None, &router::Alone)
}

/// Writes the configuration of the interface's service, unless the file exists with another text.
fn save(arguments: &QueueArguments, text: &str) -> Result<(), Failure> {
    let interface = &arguments.interface;
    let path = configuration_of(interface);
    let service = format!("weir@{interface}");
    let shown = path.display();
    for doubt in configuration::here(&path, text)?.doubts {
        note(&format!("note: {doubt}"));
    }
    let failed = |error| Failure::Run(format!("cannot write {shown}: {error}"));
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).map_err(failed)?;
    match write_file(&path, text, false) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if configuration::read(&path)? != text {
                return Err(Failure::Usage(format!(
                    "{shown} exists and differs: edit it (`systemctl reload {service}` applies it), or remove it and \
                     repeat this command"
                )));
            }
        }
        written => written.map_err(failed)?,
    }
    if let Some(reflectors) = &arguments.reflectors {
        note(&format!(
            "note: permit the service to ping: run `systemctl edit {service}`, and write \
             IPAddressAllow={reflectors} below [Service]"
        ));
    }
    print(&format!(
        "saved: {shown}\nnext: systemctl enable --now {service}; weir show ports\n"
    ))
}

/// The discipline of received packets: fair to the hosts inside, because many of them may load from one server.
pub(crate) fn fair_inside() -> String {
    let kind = quoted(KIND_DEFAULT);
    format!("discipline = {{ kind = {kind}, hosts = \"destination\" }}\n")
}

/// The configuration: a port for each direction.
fn text(arguments: &QueueArguments) -> String {
    let QueueArguments {
        interface,
        up,
        down,
        reflectors,
        overhead,
        ..
    } = arguments;
    let port = |name: &str, direction: &str, keys: &[(&str, &Option<String>)]| {
        let mut text = format!(
            "\n[port.{name}]\ninterface = {}\ndirection = {}\n",
            quoted(interface),
            quoted(direction)
        );
        for (key, value) in keys {
            if let Some(value) = value {
                text += &format!("{key} = {}\n", quoted(value));
            }
        }
        text
    };
    let overhead = ("overhead", overhead);
    let up = [("rate", up), ("reflectors", reflectors), overhead];
    format!(
        "# Written by `weir queue`. The kernel routes, filters and translates; weir decides who gets the link.\n\
         mode = \"queue\"\nsocket = {}\n{}{}{}",
        quoted(&socket_of(interface).display().to_string()),
        port("up", "out", &up),
        port("down", "in", &[("rate", down), overhead]),
        fair_inside()
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
