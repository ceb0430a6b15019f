//! `weir`: a flow-aware edge router. This file has arguments and wiring only; the library has the rest.
//!
//! Exit codes: 0 success, 1 a run failed or `weir diff` found a difference, 2 wrong usage or configuration.

mod lists;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weir::program::{self, AFTER_HELP, Failure};
use weir::{
    Element, RouterSocket, capture, classify, complete, component, configuration, describe, init,
    manpage, observe, router, show, top,
};
use weir_base::setting::{did_you_mean, nearest};

/// A flow-aware edge router: it decides under congestion who gets the link.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a stand-alone router until SIGTERM; SIGHUP reads the configuration again
    Router {
        /// The configuration
        config: PathBuf,
        /// A supervisor has started this process, after as many others, and holds the other end of its standard input
        #[arg(long, hide = true, value_name = "RESTARTS")]
        supervised: Option<u64>,
    },
    /// Write a configuration for this machine, from what its kernel says, and start nothing
    ///
    /// The interface of the default route is the uplink, and gets the rate; every other Ethernet interface with an
    /// address is a network behind weir. Everything else is left out, with the reason. Needs no privileges, but
    /// without them netfilter rules cannot be read.
    Init(init::InitArguments),
    /// Say what is wrong with a configuration, and start nothing
    Check {
        /// The configuration; `-` is standard input
        config: PathBuf,
    },
    /// Show how a configuration differs from what a running router has in force
    ///
    /// Exit codes: 0 no difference, 1 differences, 2 an error.
    Diff {
        /// The configuration; `-` is standard input
        config: PathBuf,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Put a configuration in force in a running router, without losing a packet
    Apply {
        /// The configuration; `-` is standard input
        config: PathBuf,
        /// Take the earlier configuration back after this time, unless `yes` is typed
        #[arg(long, value_name = "TIME", value_parser = configuration::time_to_confirm)]
        confirm: Option<weir_base::Span>,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Change single components of a running router: port.wan.rate="50 Mbit"
    ///
    /// Through a control element: edge1:ports.wan.rate="50 Mbit" changes a component of any class of
    /// a forwarding element, and --fe edge1 a component of its configuration.
    ///
    /// All of them are put in force at once, between two packets, or none is. Disciplines keep
    /// their state. The configuration file stays as it is, and a restart, `weir apply` or SIGHUP takes the file
    /// again, unless --save changes it too.
    Set {
        /// Components and their values; `weir diff` prints the paths
        #[arg(value_name = "PATH=VALUE", required = true, add = complete::assignments())]
        changes: Vec<String>,
        #[command(flatten)]
        save: configuration::Save,
        #[command(flatten)]
        element: Element,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Delete a port of a running router, or give a component its default again
    ///
    /// A port goes as with `weir apply`: the kernel forwards its traffic before it is closed. A
    /// discipline becomes the default one. All of it happens, or nothing. The configuration file
    /// stays as it is, unless --save changes it too.
    Unset {
        /// Ports and components: port.guest, port.wan.discipline, port.wan.rate
        #[arg(value_name = "PATH", required = true, add = complete::paths())]
        paths: Vec<String>,
        #[command(flatten)]
        save: configuration::Save,
        #[command(flatten)]
        element: Element,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Print components of a running router (port.wan.rate), or through a control element those of a forwarding element
    /// (edge1:ports.wan.rate)
    Get(component::GetArguments),
    /// Show what a running router does
    Show(show::ShowArguments),
    /// Capture what passes a running router's ports, and why packets are lost, as pcapng
    Capture(capture::CaptureArguments),
    /// Watch a running router in the terminal: ports, queues, who waits, what is dropped; ? lists the keys
    Top(top::TopArguments),
    /// Print what a running router drops and whom it holds back, as it happens: which flow, where, why
    ///
    /// The drops of a flow for one reason at one port within a quarter of a second are one line, which says how many
    /// they are. So a flood is readable, and no drop is missing. Another line says when packets of a flow or a host
    /// begin to be held back in a queue, and when that ends. docs/observe.md has examples.
    Observe(observe::ObserveArguments),
    /// Say which protocol each flow of a capture carries: RTP, TLS, QUIC, DNS, HTTP, STUN, ..
    ///
    /// Captures are pcap or pcapng. The class of a flow is the protocol that sets it up; it CARRIES what is found in
    /// it later, like RTP after STUN. AFTER is the number of packets with payload until the class was found.
    Classify(classify::ClassifyArguments),
    /// Print the manual page of a discipline, a table of `weir show` or a drop reason
    Describe {
        /// Its name; `weir list disciplines` and `tables` have them all
        #[arg(add = complete::mechanisms())]
        name: String,
    },
    /// List disciplines, tables and other parts
    List(lists::ListArguments),
    /// Print what makes a shell complete commands, disciplines, scenarios and components
    ///
    /// For bash: weir completions bash > ~/.local/share/bash-completion/completions/weir
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program and its sub-commands
    Manpage(manpage::ManpageArguments),
    /// A command of another program
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The commands of this program, by what they are for.
const GROUPS: &[(&str, &[&str])] = &[
    ("Set up and run", &["init", "check", "router"]),
    (
        "See what it does",
        &["show", "top", "observe", "capture", "classify"],
    ),
    (
        "Change it while it runs",
        &["diff", "apply", "set", "unset", "get"],
    ),
    (
        "Learn more",
        &["describe", "list", "completions", "manpage"],
    ),
];

/// The commands of the other programs: `weir` starts these programs.
const OTHERS: &[(&str, &str, &[&str])] = &[
    (
        "weir-lab",
        "Simulate, compare, measure",
        &["run", "compare", "reproduce", "bench", "soak", "traffic"],
    ),
    (
        "weir-forces",
        "Many routers as one (ForCES)",
        &["ce", "fe", "enable", "keys", "paths", "route", "watch"],
    ),
];

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let names: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if is_elsewhere(&names) && program::is_installed(program::FORCES) {
        return program::end(Err(program::replace(program::FORCES, words)));
    }
    program::main::<Arguments>(command, run)
}

/// Whether a table or a manual page is none of the router's.
fn is_elsewhere(words: &[impl AsRef<str>]) -> bool {
    let mut words = words.iter().map(AsRef::as_ref);
    let command = words.next();
    let Some(name) = words.find(|word| !word.starts_with('-')) else {
        return false;
    };
    match command {
        Some("show") => !show::names().any(|known| known == name),
        Some("describe") => !describe::names().any(|known| known == name),
        _ => false,
    }
}

/// The command line, whose help groups the commands.
fn command() -> clap::Command {
    let command = Arguments::command();
    let about = |name: &str| {
        let found = command
            .find_subcommand(name)
            .and_then(|found| found.get_about());
        found.map(ToString::to_string).unwrap_or_default()
    };
    let line = |name: &&str| format!("  {name:<12} {}\n", about(name));
    let group = |(title, names): &(&str, &[&str])| {
        let lines: String = names.iter().map(line).collect();
        format!("{title}:\n{lines}\n")
    };
    let other = |(program, title, names): &(&str, &str, &[&str])| {
        format!(
            "{title}, with the package {program}:\n  {}\n\n",
            names.join(", ")
        )
    };
    let help: String = GROUPS
        .iter()
        .map(group)
        .chain(OTHERS.iter().map(other))
        .collect();
    command.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{help}Options:\n{{options}}\n\n`weir COMMAND --help` explains one.\n{{after-help}}"
    ))
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Router { .. } => program::serves()?,
        Command::Show(_) | Command::Capture(_) | Command::Top(_) | Command::Observe(_) => {
            program::waits()?;
        }
        _ => program::release_signals()?,
    }
    match arguments.command {
        Command::Router { config, supervised } => router::run(&config, supervised, &router::Alone),
        Command::Init(arguments) => init::run(&arguments),
        Command::Check { config } => check(&config),
        Command::Diff { config, router } => configuration::diff(&config, &router.socket),
        Command::Apply {
            config,
            confirm,
            router,
        } => configuration::apply(&config, &router.socket, confirm),
        Command::Set {
            changes,
            save,
            element,
            router,
        } => configuration::set(&changes, &element, &router, &save),
        Command::Unset {
            paths,
            save,
            element,
            router,
        } => configuration::unset(&paths, &element, &router, &save),
        Command::Get(arguments) => component::get(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Capture(arguments) => capture::run(arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Observe(arguments) => observe::run(arguments),
        Command::Classify(arguments) => classify::run(&arguments),
        Command::Describe { name } => describe::run(&name),
        Command::List(arguments) => lists::run(&arguments),
        Command::Completions { shell } => complete::register("weir", shell),
        Command::Manpage(arguments) => manpage::run(command(), &arguments),
        Command::Other(words) => other(words),
    }
}

/// Checks a router's configuration here, and that of an element by the program that runs it.
fn check(config: &Path) -> Result<(), Failure> {
    if config.as_os_str() != "-" && configuration::is_of_forces(&configuration::read(config)?) {
        let words = ["check".into(), config.into()];
        return Err(program::replace(program::FORCES, words));
    }
    configuration::check(config)
}

/// Starts the program that has this command.
fn other(words: Vec<OsString>) -> Result<(), Failure> {
    let name = words
        .first()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let found = OTHERS.iter().find(|(_, _, names)| names.contains(&&*name));
    let Some((program, ..)) = found else {
        let own = GROUPS.iter().flat_map(|(_, names)| *names);
        let all = OTHERS.iter().flat_map(|(_, _, names)| *names).chain(own);
        let hint = did_you_mean(nearest(&name, all.copied()));
        return Err(Failure::Usage(format!(
            "there is no command `{name}`{hint}; `weir --help` has them all"
        )));
    };
    Err(program::replace(program, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_has_every_command_once() {
        let command = Arguments::command();
        let mut all: Vec<_> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        let mut grouped: Vec<_> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        all.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(all, grouped);
    }
}
