//! `weir-forces`: control and forwarding elements (ForCES), and paths of flexible packet forwarding. This file has arguments
//! and wiring only.
//!
//! Exit codes are those of `weir`.

mod ce;
mod describe;
mod fe;
mod keys;
mod list;
mod pages;
mod paths;
mod route;
mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weir::program::{self, AFTER_HELP, Failure};
use weir::{RouterSocket, complete, component, configuration, manpage, router};

/// Many routers as one: control elements and forwarding elements (ForCES).
#[derive(Debug, Parser)]
#[command(name = "weir-forces", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a control element until SIGTERM: it steers the forwarding elements of its configuration
    Ce {
        /// The configuration
        config: PathBuf,
    },
    /// Run a router that control elements steer (ForCES) until SIGTERM: a forwarding element
    Fe {
        /// The configuration: that of a router, with [fe] and [ce.NAME]
        config: PathBuf,
        /// A supervisor has started this process, after as many others, and holds the other end of its standard input
        #[arg(long, hide = true, value_name = "RESTARTS")]
        supervised: Option<u64>,
    },
    /// Say what is wrong with a configuration of an element, and start nothing
    Check {
        /// The configuration
        config: PathBuf,
    },
    /// Show what a control element knows, or what a forwarding element does
    Show(show::ShowArguments),
    /// Print components of a forwarding element through its control element (edge1:ports.wan.rate)
    Get(component::GetArguments),
    /// Change or list routes of forwarding elements, through their control element
    ///
    /// A route is `PREFIX [via ADDRESS] dev PORT [metric NUMBER]`, as `ip route` writes it. A file has one
    /// on each line. All routes of a command are changed, at all of its forwarding elements, or none
    /// is. The control element keeps them, and restores them after a restart of either side.
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// Print events of a forwarding element, or samples of a component, as they come
    Watch(component::WatchArguments),
    /// Let a forwarding element forward that a control element has stopped
    ///
    /// A control element can stop an element (FEState AdminDisable), and that lasts when the control element is gone. An
    /// element that has no control element for CEFTI stops, too. Either ends with this command; a control element
    /// may stop the element again.
    Enable {
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Show the paths of a network with flexible packet forwarding, and what its elements need for them
    ///
    /// The file has the domains, the elements, the links, and the packets whose paths are chosen: docs/fpf.md.
    Paths(paths::PathsArguments),
    /// Make a certificate and its key, for a control element or a forwarding element
    ///
    /// The files are NAME.crt and NAME.key; existing ones are not overwritten. Peers need a copy of the
    /// certificate. The key stays where it is.
    Keys {
        /// Name of both files without their endings, and the name in the certificate: edge-1
        name: PathBuf,
        /// Days for which the certificate is valid. weir warns in the last 30 of them
        #[arg(long, default_value = "365", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: u32,
    },
    /// Print the manual page of a controller, a discipline, a table or a drop reason
    Describe {
        /// Its name
        name: String,
    },
    /// List controllers, classes of blocks (LFBs), and the pages of a control element
    List(list::ListArguments),
    /// Print what makes a shell complete commands
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program and its sub-commands
    Manpage(manpage::ManpageArguments),
}

fn main() -> ExitCode {
    program::main::<Arguments>(Arguments::command, run)
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Fe { .. } | Command::Ce { .. } => program::serves()?,
        Command::Watch(_) | Command::Show(_) => program::waits()?,
        _ => program::release_signals()?,
    }
    match arguments.command {
        Command::Ce { config } => ce::run(&config),
        Command::Fe { config, supervised } => {
            router::run(&config, supervised, &fe::ForwardingElement)
        }
        Command::Check { config } => check(&config),
        Command::Show(arguments) => show::run(&arguments),
        Command::Get(arguments) => component::get(&arguments),
        Command::Route(command) => route::run(&command),
        Command::Watch(arguments) => component::watch(&arguments),
        Command::Enable { router } => configuration::enable(&router.socket),
        Command::Paths(arguments) => paths::run(&arguments),
        Command::Keys { name, days } => keys::run(&name, days),
        Command::Describe { name } => describe::run(&name),
        Command::List(arguments) => list::run(&arguments),
        Command::Completions { shell } => complete::register("weir-forces", shell),
        Command::Manpage(arguments) => manpage::run(Arguments::command(), &arguments),
    }
}

/// Checks the configuration of a control element, or that of a forwarding element.
fn check(config: &Path) -> Result<(), Failure> {
    let text = configuration::read(config)?;
    if configuration::is_control_element(&text) {
        ce::check(config, &text)
    } else {
        fe::check(config, &text)
    }
}
