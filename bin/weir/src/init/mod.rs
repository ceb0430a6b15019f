//! `weir init`: drafts a configuration for this machine from its kernel's state.
//!
//! - [`choice`]: chooses the ports
//! - [`draft`]: writes the text

mod choice;
mod draft;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use weir_base::Rate;
use weir_config::quoted;
use weir_live::kernel::inventory::{self, Interface, Inventory};
use weir_live::router::survey;

use self::choice::Choice;
use self::draft::{Rates, Source};
use crate::output::{note, print, write_file};
use crate::service::CONFIGURATION;
use crate::{Failure, configuration};

/// Arguments of `weir init`.
#[derive(Debug, clap::Args)]
pub struct InitArguments {
    /// Rate of uploads, a little less than the line carries: "38 Mbit". Without it, 95 % of the cable's speed
    #[arg(long)]
    rate: Option<Rate>,
    /// Rate of downloads, a little less than the line delivers: "240 Mbit"
    #[arg(long, value_name = "RATE")]
    download: Option<Rate>,
    /// The interface to the Internet [default: the interfaces of all default routes]
    #[arg(long, value_name = "INTERFACE")]
    uplink: Option<String>,
    /// Draft a router that forwards instead of the kernel (mode "routed")
    #[arg(long)]
    routed: bool,
    /// An interface to one of your networks; may be repeated [default: all that have an address]
    #[arg(long, value_name = "INTERFACE", requires = "routed")]
    lan: Vec<String>,
    /// Forward although this machine has netfilter rules that forwarded packets will bypass
    #[arg(long, requires = "routed")]
    bypass_netfilter: bool,
    /// Forward although this machine has policy rules, or ports in a VRF
    #[arg(long, requires = "routed")]
    bypass_rules: bool,
    /// Forward although ports have traffic-control filters at their ingress
    #[arg(long, requires = "routed")]
    bypass_tc: bool,
    /// Forward although a default route leads to an interface that is not a port
    #[arg(long, requires = "routed")]
    bypass_default_route: bool,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "out")]
    force: bool,
}

impl InitArguments {
    /// The keys that permit kernel state, each with whether the user sets it.
    fn permits(&self) -> [(&'static str, bool); 4] {
        [
            ("bypass_netfilter", self.bypass_netfilter),
            ("bypass_rules", self.bypass_rules),
            ("bypass_tc", self.bypass_tc),
            ("bypass_default_route", self.bypass_default_route),
        ]
    }

    fn rates(&self) -> Rates {
        Rates {
            up: self.rate,
            down: self.download,
        }
    }

    /// The file to write; `None` for standard output, which `-` also names.
    fn out(&self) -> Option<&Path> {
        self.out.as_deref().filter(|path| *path != "-")
    }
}

/// The name of the text in messages before it is written to a file.
const DRAFT: &str = "the configuration";

/// Prints or writes a configuration that `weir check` accepts on this machine, and prints the next commands.
pub fn run(arguments: &InitArguments) -> Result<(), Failure> {
    if let Some(path) = arguments.out().filter(|_| !arguments.force) {
        // Check first: a second call of `weir init` is the usual mistake.
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
    }
    let read = inventory::read();
    let inventory =
        read.map_err(|e| Failure::Run(format!("cannot read this machine's interfaces: {e}")))?;
    let Draft { text, notes } = if arguments.routed {
        routed(arguments, &inventory)?
    } else {
        queue(arguments, &inventory)?
    };
    let shown = arguments.out().unwrap_or(Path::new(DRAFT));
    let admitted = configuration::here(shown, &text);
    let doubts = admitted
        .map_err(|failure| refused(arguments, &failure))?
        .doubts;
    match arguments.out() {
        None => print(&text)?,
        Some(path) => {
            let written = write_file(path, &text, arguments.force);
            written.map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => exists(path),
                _ => Failure::Run(format!("cannot write {}: {error}", path.display())),
            })?;
        }
    }
    for line in notes {
        note(&line);
    }
    for doubt in doubts {
        note(&format!("note: {doubt}"));
    }
    next(arguments.out());
    Ok(())
}

/// A configuration, and notes for the user.
struct Draft {
    text: String,
    notes: Vec<String>,
}

/// Drafts mode "queue" for the uplinks.
fn queue(arguments: &InitArguments, inventory: &Inventory) -> Result<Draft, Failure> {
    let uplinks = choice::uplinks(inventory, arguments.uplink.as_deref());
    let uplinks = uplinks.map_err(Failure::Usage)?;
    let rates = arguments.rates();
    let names: Vec<_> = uplinks.iter().map(|i| i.name.as_str()).collect();
    if names.len() > 1 && (rates.up.is_some() || rates.down.is_some()) {
        return Err(Failure::Usage(format!(
            "--rate and --download work for one uplink, but there are {}: choose it with `--uplink`, or give each its \
             `rate` in the file",
            names.join(", ")
        )));
    }
    let mut reasons = refusals(&names);
    reasons.extend(choice::reasons(inventory, &uplinks));
    let names = names.join(", ");
    let mut notes = vec![match &reasons[..] {
        [] => format!(
            "mode \"queue\": the kernel goes on forwarding, and weir queues the packets of {names}; --routed drafts a \
             router that forwards instead of the kernel"
        ),
        _ => format!(
            "mode \"queue\": the kernel goes on forwarding, because this machine has {}; weir queues the packets of \
             {names}",
            reasons.join(", ")
        ),
    }];
    let bridges = uplinks.iter().filter(|i| i.kind == "bridge");
    notes.extend(bridges.map(|bridge| {
        let ports = inventory.interfaces.iter();
        let ports = ports.filter(|i| i.master.as_ref() == Some(&bridge.name));
        let ports: Vec<_> = ports.map(|i| i.name.as_str()).collect();
        format!(
            "note: {} is a bridge: weir queues what the machine routes or sends there. To queue bridged packets as \
             well, name the bridge's port to the line with `--uplink`: {}",
            bridge.name,
            ports.join(", ")
        )
    }));
    for interface in &uplinks {
        notes.extend(source_note("--rate", "uploads", rates.up, interface));
        notes.extend(source_note(
            "--download",
            "downloads",
            rates.down,
            interface,
        ));
    }
    Ok(Draft {
        text: draft::queue(&uplinks, rates),
        notes,
    })
}

/// The kinds of kernel state for which a router at these interfaces would not start.
fn refusals(interfaces: &[&str]) -> Vec<String> {
    let ports = interfaces
        .iter()
        .map(|name| format!("[port.{}]\n", quoted(name)));
    let Ok(router) = configuration::plan(DRAFT, &ports.collect::<String>()) else {
        return Vec::new();
    };
    let findings = survey(&router.plan).findings.into_iter();
    let refused = findings.filter(|finding| finding.is_refused(&router.plan.router));
    let names: BTreeSet<_> = refused
        .map(|finding| finding.kind.name.to_owned())
        .collect();
    names.into_iter().collect()
}

/// Drafts a router.
fn routed(arguments: &InitArguments, inventory: &Inventory) -> Result<Draft, Failure> {
    let choice = choice::choose(inventory, arguments.uplink.as_deref(), &arguments.lan);
    let choice = choice.map_err(Failure::Usage)?;
    let networks: Vec<_> = choice.networks.iter().map(|i| i.name.as_str()).collect();
    if arguments.download.is_some() && networks.len() > 1 {
        return Err(Failure::Usage(format!(
            "--download works for one network, but there are {}: name one with `--lan`, or give each its `rate` in the file",
            networks.join(", ")
        )));
    }
    let rates = arguments.rates();
    let permits = arguments.permits().into_iter();
    let permits: Vec<_> = permits
        .filter(|(_, set)| *set)
        .map(|(key, _)| key)
        .collect();
    let Choice {
        uplink, left_out, ..
    } = &choice;
    let mut notes = vec![format!(
        "uplink: {}; networks: {}",
        uplink.name,
        networks.join(", ")
    )];
    let left_out = left_out.iter();
    notes.extend(left_out.map(|(other, reason)| format!("not a port: {}: {reason}", other.name)));
    notes.extend(source_note("--rate", "uploads", rates.up, uplink));
    Ok(Draft {
        text: draft::routed(&choice, rates, &permits),
        notes,
    })
}

/// The failure for a draft that `weir check` refuses; it is not written.
fn refused(arguments: &InitArguments, failure: &Failure) -> Failure {
    let mut why = format!("nothing was written: {failure}");
    if !arguments.routed {
        why += "\nname the interface to queue with `--uplink`";
        return Failure::Usage(why);
    }
    let permits = arguments.permits().into_iter().map(|(key, _)| key);
    for key in permits.filter(|key| failure.to_string().contains(key)) {
        why += &format!("\n`weir init --{}` sets `{key}`", key.replace('_', "-"));
    }
    why += "\nwithout `--routed` the kernel goes on forwarding by all its rules, and weir queues its uplink";
    Failure::Usage(why)
}

/// A note about a rate that the user has not given.
fn source_note(option: &str, of: &str, given: Option<Rate>, uplink: &Interface) -> Option<String> {
    let name = &uplink.name;
    match draft::source(given, uplink) {
        Source::Given => None,
        Source::Cable => Some(format!(
            "note: the rate of {of} at {name} is 95 % of the cable's speed. If the line behind it is slower, give 95 % of \
             the line's rate: {option} \"38 Mbit\""
        )),
        Source::Nobody => Some(format!(
            "note: {of} at {name} have no rate, so weir has no effect on a slower line. Give 95 % of the line's rate: \
             {option} \"38 Mbit\""
        )),
    }
}

/// Prints the next commands.
fn next(out: Option<&Path>) {
    let Some(path) = out else {
        return note(&format!(
            "next: repeat with `--out {CONFIGURATION}`, or with `--out` and another file"
        ));
    };
    let start = if path == Path::new(CONFIGURATION) {
        "systemctl enable --now weir".to_owned()
    } else {
        format!("weir router {}", path.display())
    };
    note(&format!(
        "{}: written; review it\nnext: {start}; weir show status",
        path.display()
    ));
}

fn exists(path: &Path) -> Failure {
    Failure::Usage(format!(
        "{}: already exists; use --force to overwrite it",
        path.display()
    ))
}
