//! `weir init`: drafts a configuration for this machine from its kernel's state.
//!
//! - [`choice`]: chooses the ports
//! - [`draft`]: writes the text

mod choice;
mod draft;

use std::io;
use std::path::{Path, PathBuf};

use weir_base::Rate;
use weir_live::kernel::inventory;

use self::choice::Choice;
use self::draft::{Rates, Source};
use crate::output::{note, print, write_file};
use crate::{Failure, configuration};

/// Arguments of `weir init`.
#[derive(Debug, clap::Args)]
pub struct InitArguments {
    /// Rate of the uplink, a little less than the line carries: "38 Mbit". Without it, 95 % of the cable's speed
    #[arg(long)]
    rate: Option<Rate>,
    /// Rate of downloads towards the network, a little less than the line delivers: "240 Mbit"
    #[arg(long, value_name = "RATE")]
    download: Option<Rate>,
    /// The interface to the Internet [default: that of the default route]
    #[arg(long, value_name = "INTERFACE")]
    uplink: Option<String>,
    /// An interface to one of your networks; may be repeated [default: all that have an address]
    #[arg(long, value_name = "INTERFACE")]
    lan: Vec<String>,
    /// Forward although this machine has netfilter rules that forwarded packets will bypass
    #[arg(long)]
    bypass_netfilter: bool,
    /// Forward although this machine has policy rules, or ports in a VRF
    #[arg(long)]
    bypass_rules: bool,
    /// Forward although ports have traffic-control filters at their ingress
    #[arg(long)]
    bypass_tc: bool,
    /// Forward although a default route leads to an interface that is not a port
    #[arg(long)]
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
    let choice = choice::choose(&inventory, arguments.uplink.as_deref(), &arguments.lan);
    let choice = choice.map_err(Failure::Usage)?;
    if arguments.download.is_some() && choice.networks.len() > 1 {
        let names: Vec<_> = choice.networks.iter().map(|i| i.name.as_str()).collect();
        return Err(Failure::Usage(format!(
            "--download works for one network, but there are {}: name one with `--lan`, or give each its `rate` in the file",
            names.join(", ")
        )));
    }
    let rates = Rates {
        up: arguments.rate,
        down: arguments.download,
    };
    let permits = arguments.permits().into_iter();
    let permits: Vec<_> = permits
        .filter(|(_, set)| *set)
        .map(|(key, _)| key)
        .collect();
    let text = draft::text(&choice, rates, &permits);
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
    report(&choice, draft::source(&choice, rates), &doubts);
    next(arguments.out());
    Ok(())
}

/// The failure for a draft that `weir check` refuses; it is not written.
fn refused(arguments: &InitArguments, failure: &Failure) -> Failure {
    let mut why = format!("nothing was written: {failure}");
    let permits = arguments.permits().into_iter().map(|(key, _)| key);
    for key in permits.filter(|key| failure.to_string().contains(key)) {
        why += &format!("\n`weir init --{}` sets `{key}`", key.replace('_', "-"));
    }
    if why.contains("bypass_netfilter") {
        why += "\nIf this machine filters packets or translates addresses for others, let its kernel go on forwarding, \
                and queue its uplink: weir queue INTERFACE --up RATE --down RATE (docs/router.md, \"Mode queue\")";
    }
    Failure::Usage(why)
}

/// Prints the chosen ports and the warnings to standard error.
fn report(choice: &Choice<'_>, source: Source, doubts: &[String]) {
    let networks: Vec<_> = choice.networks.iter().map(|i| i.name.as_str()).collect();
    note(&format!(
        "uplink: {}; networks: {}",
        choice.uplink.name,
        networks.join(", ")
    ));
    for (interface, reason) in &choice.left_out {
        note(&format!("not a port: {}: {reason}", interface.name));
    }
    match source {
        Source::Given => {}
        Source::Cable => note(
            "note: the rate is 95 % of the cable's speed. If the line behind it is slower, give 95 % of the line's rate: --rate \"38 Mbit\"",
        ),
        Source::Nobody => note(
            "note: the uplink has no rate, so weir has no effect on a slower line. Give 95 % of the line's rate: --rate \"38 Mbit\"",
        ),
    }
    for doubt in doubts {
        note(&format!("note: {doubt}"));
    }
}

/// The configuration file of the service.
const OF_SERVICE: &str = "/etc/weir/weir.toml";

/// Prints the next commands.
fn next(out: Option<&Path>) {
    let Some(path) = out else {
        return note(&format!(
            "next: repeat with `--out {OF_SERVICE}`, or with `--out` and another file"
        ));
    };
    let start = if path == Path::new(OF_SERVICE) {
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
