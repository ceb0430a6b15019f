//! `weir`: a flow-aware edge router. This file contains only arguments and wiring; the library contains the rest.
//!
//! Exit codes: 0 success, 1 a run failed or `weir diff` found a difference, 2 wrong usage or configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weir::program::{self, AFTER_HELP, FORCES, Failure, LAB};
use weir::{
    RouterSocket, capture, classify, complete, component, configuration, describe, init, list,
    manpage, observe, queue, router, show, top,
};
use weir_base::setting::{did_you_mean, nearest};
use weir_live::programs::find;

/// A flow-aware edge router: it decides under congestion who gets the link.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a router until SIGTERM; SIGHUP reloads the configuration
    Router {
        /// Configuration file
        config: PathBuf,
        /// Set by the supervisor: the number of restarts; standard input is its heartbeat socket
        #[arg(long, hide = true, value_name = "RESTARTS")]
        supervised: Option<u64>,
    },
    /// Draft a configuration for this machine from its interfaces and routes
    ///
    /// The kernel goes on forwarding, and the interfaces of the default routes get a queue for each direction. With
    /// --routed weir forwards: the interface of the default route becomes the uplink, and every other Ethernet interface
    /// with an address a network behind weir; the draft names each interface that it omits, with the reason. No
    /// privileges are needed, but only root can read netfilter rules.
    Init(init::InitArguments),
    /// Queue the packets that an interface sends and receives, next to the kernel, until SIGTERM
    ///
    /// The kernel routes, filters and translates as before, and its configuration stays as it is. weir decides which
    /// packet goes next, in both directions. When weir ends, crashes or hangs, the kernel continues alone.
    Queue(queue::QueueArguments),
    /// Validate a configuration without starting anything
    Check {
        /// Configuration file; `-` is standard input
        config: PathBuf,
    },
    /// Compare a configuration with that of a running router
    ///
    /// Exit codes: 0 no difference, 1 differences, 2 an error.
    Diff {
        /// Configuration file; `-` is standard input
        config: PathBuf,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Apply a configuration to a running router without losing a packet
    Apply {
        /// Configuration file; `-` is standard input
        config: PathBuf,
        /// Roll back after this time unless `yes` is typed
        #[arg(long, value_name = "TIME", value_parser = configuration::time_to_confirm)]
        confirm: Option<weir_base::Span>,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Change components of a running router: port.wan.rate="50 Mbit"
    ///
    /// edge1:port.wan.rate="50 Mbit" changes a component of a forwarding element, through its control element.
    ///
    /// The router applies all changes between two packets, or none. Disciplines keep their state. A restart,
    /// `weir apply` or SIGHUP returns to the configuration file, unless --save changes the file too.
    Set {
        /// Components and their values; `weir diff` prints the paths
        #[arg(value_name = "[FE:]PATH=VALUE", required = true, add = complete::assignments())]
        changes: Vec<String>,
        #[command(flatten)]
        save: configuration::Save,
        /// The form of the previous release for `FE:PATH`
        #[arg(long, value_name = "NAME", hide = true)]
        fe: Option<String>,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Delete a port of a running router, or reset a component to its default
    ///
    /// The kernel takes over the traffic of a port before weir closes the port, as with `weir apply`. The router applies
    /// all changes, or none. The configuration file stays unchanged unless --save is given.
    Unset {
        /// Ports and components: port.guest, port.wan.discipline, port.wan.rate
        #[arg(value_name = "[FE:]PATH", required = true, add = complete::paths())]
        paths: Vec<String>,
        #[command(flatten)]
        save: configuration::Save,
        /// The form of the previous release for `FE:PATH`
        #[arg(long, value_name = "NAME", hide = true)]
        fe: Option<String>,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Print components of a running router: port.wan.rate
    ///
    /// edge1:port.wan.rate is a component of a forwarding element, read through its control element.
    Get(component::GetArguments),
    /// Print tables of a running router
    Show(show::ShowArguments),
    /// Capture packets at the ports of a running router as pcapng, with drop reasons
    Capture(capture::CaptureArguments),
    /// Monitor a running router: ports, queues, top talkers, drops; ? lists the keys
    Top(top::TopArguments),
    /// Print drops and backlogged flows of a running router as they happen
    ///
    /// One line reports all drops of a flow for one reason at one port within a quarter of a second, with their number:
    /// a flood stays readable, and no drop is missing. Other lines report when packets of a flow or host begin to wait in
    /// a queue, and when that ends. docs/observe.md has examples.
    Observe(observe::ObserveArguments),
    /// Identify the protocol of each flow in a capture: RTP, TLS, QUIC, DNS, HTTP, STUN, ..
    ///
    /// Captures are pcap or pcapng. The class of a flow is the protocol that sets it up; CARRIES is a protocol found
    /// later, like RTP after STUN. AFTER is the number of packets with payload until the class was found.
    Classify(classify::ClassifyArguments),
    /// Print the manual page of a discipline, table or drop reason
    Describe {
        /// Name of the discipline, table or drop reason; `weir list disciplines` and `tables` list names
        #[arg(add = complete::mechanisms())]
        name: String,
    },
    /// List built-in disciplines and tables, or print a reference page
    List(list::ListArguments),
    /// Print a shell completion script
    ///
    /// For bash: weir completions bash > ~/.local/share/bash-completion/completions/weir
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program
    Manpage(manpage::ManpageArguments),
    /// A command of another program
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The commands of this program, grouped by purpose.
const GROUPS: &[(&str, &[&str])] = &[
    ("Set up and run", &["queue", "init", "check", "router"]),
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

/// The commands of the other programs, which `weir` starts.
const OTHERS: &[(&str, &str, &[&str])] = &[
    (
        LAB,
        "Simulate, compare, measure",
        &["run", "compare", "reproduce", "bench", "soak", "traffic"],
    ),
    (
        FORCES,
        "Many routers as one (ForCES)",
        &[
            "ce", "fe", "enable", "enrol", "invite", "keys", "paths", "renew", "revoke", "route",
            "watch",
        ],
    ),
];

/// The lists of the other programs.
const LISTS: &[(&str, &[&str])] = &[
    (
        LAB,
        &[
            "scenarios",
            "loads",
            "results",
            "scenario-keys",
            "schema",
            "metrics",
        ],
    ),
    (
        FORCES,
        &[
            "controllers",
            "lfb",
            "ce-configuration",
            "ce-api",
            "ce-prometheus",
        ],
    ),
];

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let names: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if let Some(program) = elsewhere(&names) {
        return program::end(Err(program::replace(program, words)));
    }
    if let Some(program) = completing(&names) {
        let rest = words.into_iter().skip(2);
        let words = ["--".into(), program.into()].into_iter().chain(rest);
        return program::end(Err(program::replace(program, words)));
    }
    program::main::<Arguments>(command, run)
}

/// The program whose arguments a shell completes: the shell runs `weir -- weir COMMAND ..` with a variable set.
fn completing(words: &[impl AsRef<str>]) -> Option<&'static str> {
    std::env::var_os(complete::VARIABLE)?;
    match words {
        [dashes, _, command, _, ..] if dashes.as_ref() == "--" => program_of(command.as_ref()),
        _ => None,
    }
}

/// The other program that has this command.
fn program_of(command: &str) -> Option<&'static str> {
    let found = OTHERS.iter().find(|(_, _, names)| names.contains(&command));
    found.map(|(program, ..)| *program)
}

/// The other program that has a list, a table or a manual page which this program does not have.
fn elsewhere(words: &[impl AsRef<str>]) -> Option<&'static str> {
    let mut words = words.iter().map(AsRef::as_ref);
    let command = words.next()?;
    let name = words.find(|word| !word.starts_with('-'))?;
    let of_forces = || find(FORCES).map(|_| FORCES);
    match command {
        "list" => {
            let found = LISTS.iter().find(|(_, names)| names.contains(&name));
            found.map(|(program, _)| *program)
        }
        "show" if !show::names().any(|known| known == name) => of_forces(),
        "describe" if !describe::names().any(|known| known == name) => of_forces(),
        _ => None,
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
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{help}Options:\n{{options}}\n\n`weir COMMAND --help` explains a command.\n{{after-help}}"
    ))
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Router { .. } | Command::Queue(_) => program::serves()?,
        Command::Show(_) | Command::Capture(_) | Command::Top(_) | Command::Observe(_) => {
            program::waits()?;
        }
        _ => program::release_signals()?,
    }
    match arguments.command {
        Command::Router { config, supervised } => router::run(&config, supervised, &router::Alone),
        Command::Init(arguments) => init::run(&arguments),
        Command::Queue(arguments) => queue::run(&arguments),
        Command::Check { config } => check(&config),
        Command::Diff { config, router } => configuration::diff(&config, &router),
        Command::Apply {
            config,
            confirm,
            router,
        } => configuration::apply(&config, &router, confirm),
        Command::Set {
            changes,
            save,
            fe,
            router,
        } => configuration::set(&changes, fe.as_deref(), &router, &save),
        Command::Unset {
            paths,
            save,
            fe,
            router,
        } => configuration::unset(&paths, fe.as_deref(), &router, &save),
        Command::Get(arguments) => component::get(&arguments),
        Command::Show(arguments) => show::run(&arguments),
        Command::Capture(arguments) => capture::run(arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Observe(arguments) => observe::run(arguments),
        Command::Classify(arguments) => classify::run(&arguments),
        Command::Describe { name } => describe::run(&name),
        Command::List(arguments) => list::run(&arguments),
        Command::Completions { shell } => complete::register("weir", shell),
        Command::Manpage(arguments) => manpage::run(command(), &arguments),
        Command::Other(words) => other(words),
    }
}

/// Checks a router's configuration; the configuration of an element is checked by the program that runs it.
fn check(config: &Path) -> Result<(), Failure> {
    let text = configuration::read(config)?;
    if !configuration::is_of_forces(&text) {
        return configuration::check(config, &text);
    }
    if config.as_os_str() == "-" {
        return program::run_with_input(FORCES, &["check", "-"], &text);
    }
    let words = ["check".into(), config.into()];
    Err(program::replace(FORCES, words))
}

/// Starts the program that has this command.
fn other(words: Vec<OsString>) -> Result<(), Failure> {
    let name = words
        .first()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let Some(program) = program_of(&name) else {
        let own = GROUPS.iter().flat_map(|(_, names)| *names);
        let all = OTHERS.iter().flat_map(|(_, _, names)| *names).chain(own);
        let hint = did_you_mean(nearest(&name, all.copied()));
        return Err(Failure::Usage(format!(
            "unknown command `{name}`{hint}; `weir --help` lists all commands"
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
