//! `weir-forces`: control and forwarding elements (ForCES), and paths of flexible packet forwarding. This file contains
//! only arguments and wiring.
//!
//! The exit codes are the same as those of `weir`.

mod ce;
mod describe;
mod enrol;
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
    /// Run a control element until SIGTERM
    Ce {
        /// Configuration file
        config: PathBuf,
    },
    /// Run a forwarding element until SIGTERM: a router that control elements steer
    Fe {
        /// Configuration file of a router, with [fe] and [ce.NAME]
        config: PathBuf,
        /// Set by the supervisor: the number of restarts; standard input is its heartbeat socket
        #[arg(long, hide = true, value_name = "RESTARTS")]
        supervised: Option<u64>,
    },
    /// Validate a configuration without starting anything
    Check {
        /// Configuration file
        config: PathBuf,
    },
    /// Print tables of a control element or of a forwarding element
    Show(show::ShowArguments),
    /// Print components of a forwarding element: edge1:port.wan.rate
    Get(component::GetArguments),
    /// Add, delete or list routes of forwarding elements
    ///
    /// A route is `PREFIX [via ADDRESS] dev PORT [metric NUMBER]`, as in `ip route`; a file has one route per line. A
    /// command changes all of its routes at all of its forwarding elements, or none. The control element stores
    /// the routes and restores them after a restart of either side.
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// Print events of a forwarding element, or samples of a component, as they arrive
    Watch(component::WatchArguments),
    /// Resume forwarding on a stopped forwarding element
    ///
    /// A control element can stop a forwarding element (FEState AdminDisable); the stop persists when the control element
    /// disconnects. A forwarding element also stops when it has had no control element for CEFTI. This command resumes
    /// forwarding in both cases; a control element may stop the element again.
    Enable {
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Compute the paths of a network with flexible packet forwarding, and the rules of its elements
    ///
    /// The file defines domains, elements, links, and the flows that need paths: see docs/fpf.md.
    Paths(paths::PathsArguments),
    /// Generate a certificate and its key for an element
    ///
    /// Writes NAME.crt and NAME.key, and never overwrites a file. Copy the certificate to the peers; keep the key here.
    Keys {
        /// Name of both files without extension, and the name in the certificate: edge-1
        name: PathBuf,
        /// Validity of the certificate in days; weir warns during the last 30
        #[arg(long, default_value = "365", value_parser = clap::value_parser!(u32).range(1..=36_500))]
        days: u32,
    },
    /// Invite a forwarding element to enrol: print a token that works once
    ///
    /// The control element must run, with `enrol` in its file and [fe.NAME] with `certificate`. The token also identifies
    /// the control element, so pass it on through a channel that others can neither read nor change.
    Invite(enrol::InviteArguments),
    /// Enrol a forwarding element at its control element, with a token of `weir invite`
    ///
    /// Generates a key, which never leaves this machine, and its certificate, and writes both, and the certificate of the
    /// control element, into the files that the configuration names.
    Enrol(enrol::EnrolArguments),
    /// Renew the certificate of a forwarding element, or of the running control element
    ///
    /// Elements do this themselves, 30 days before their certificates expire. Associations continue.
    Renew(enrol::RenewArguments),
    /// Revoke certificates of a forwarding element, and end its association
    ///
    /// The control element never accepts these certificates again. To admit the forwarding element again, invite it.
    Revoke(enrol::RevokeArguments),
    /// Print the manual page of a controller, discipline, table or drop reason
    Describe {
        /// Name of the controller, discipline, table or drop reason
        name: String,
    },
    /// List controllers or LFB classes, or print a reference page
    List(list::ListArguments),
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program
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
        Command::Enable { router } => configuration::enable(&router.path()?),
        Command::Paths(arguments) => paths::run(&arguments),
        Command::Keys { name, days } => keys::run(&name, days),
        Command::Invite(arguments) => enrol::invite(&arguments),
        Command::Enrol(arguments) => enrol::enrol(&arguments),
        Command::Renew(arguments) => enrol::renew(&arguments),
        Command::Revoke(arguments) => enrol::revoke(&arguments),
        Command::Describe { name } => describe::run(&name),
        Command::List(arguments) => list::run(&arguments),
        Command::Completions { shell } => complete::register("weir-forces", shell),
        Command::Manpage(arguments) => manpage::run(Arguments::command(), &arguments),
    }
}

/// Checks the configuration of a control element or of a forwarding element.
fn check(config: &Path) -> Result<(), Failure> {
    let text = configuration::read(config)?;
    if configuration::is_control_element(&text) {
        ce::check(config, &text)
    } else {
        fe::check(config, &text)
    }
}
