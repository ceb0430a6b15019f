//! `weir`: a flow-aware edge router. This file has arguments, wiring and exit codes only.
//!
//! Exit codes: 0 success, 1 a run failed or `weir diff` found a difference, 2 wrong usage or configuration.

mod bench;
mod capture;
mod ce;
mod classify;
mod compare;
mod complete;
mod component;
mod configuration;
mod describe;
mod fe;
mod init;
mod journal;
mod keys;
mod lab;
mod list;
mod listening;
mod log;
mod manpage;
mod numbers;
mod observe;
mod operator;
mod output;
mod pages;
mod paths;
mod reproduce;
mod route;
mod router;
mod scenarios;
mod show;
mod soak;
mod table;
mod top;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_live::signals;

use crate::output::{note, print, print_own};

/// The default socket of a router.
const SOCKET_DEFAULT: &str = "/run/weir/weir.sock";

/// The default socket of a control element.
const CE_SOCKET_DEFAULT: &str = "/run/weir-ce/ce.sock";

/// Help text common to all commands.
const AFTER_HELP: &str = "\
Environment:
  WEIR_LOG     What is logged to standard error: a level (error, warn, info, debug, trace, off), or
               levels by part like info,weir_live=debug [default: info]
  WEIR_SOCKET  The socket of the router that is asked [default: /run/weir/weir.sock]

Exit codes: 0 good, 1 it failed (diff: there are differences), 2 wrong usage or configuration";

/// A flow-aware edge router: it decides under congestion who gets the link.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, after_help = AFTER_HELP)]
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
    /// Run a router that control elements steer (ForCES) until SIGTERM: a forwarding element
    Fe {
        /// The configuration: that of a router, with [fe] and [ce.NAME]
        config: PathBuf,
        /// A supervisor has started this process, after as many others, and holds the other end of its standard input
        #[arg(long, hide = true, value_name = "RESTARTS")]
        supervised: Option<u64>,
    },
    /// Run a control element until SIGTERM: it steers the forwarding elements of its configuration
    Ce {
        /// The configuration
        config: PathBuf,
    },
    /// Print components of a running router (port.wan.rate), or through a control element those of a forwarding element
    /// (edge1:ports.wan.rate)
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
    /// Let a forwarding element forward that a control element has stopped
    ///
    /// A control element can stop an element (FEState AdminDisable), and that lasts when the control element is gone. An
    /// element that has no control element for CEFTI stops, too. Either ends with this command; a control element
    /// may stop the element again.
    Enable {
        #[command(flatten)]
        router: RouterSocket,
    },
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
    /// Show the paths of a network with flexible packet forwarding, and what its elements need for them
    ///
    /// The file has the domains, the elements, the links, and the packets whose paths are chosen: docs/fpf.md.
    Paths(paths::PathsArguments),
    /// Print the manual page of a discipline, a controller, a table of `weir show` or a drop reason
    Describe {
        /// Its name; `weir list disciplines`, `controllers` and `tables` have them all
        #[arg(add = complete::mechanisms())]
        name: String,
    },
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
    /// List what there is
    List(list::ListArguments),
    /// Run a scenario
    Run(lab::RunArguments),
    /// Compare disciplines under the same loads: which one for my link?
    ///
    /// Without arguments every discipline runs under four loads in simulation, in less than two minutes. A star marks
    /// the best, and what chance may have put behind it. `weir compare fq_codel lru_fq:cache=128 --load rrul --rate "50 Mbit"`
    /// compares two at the rate of a link. docs/comparison.md says how to read it.
    Compare(compare::CompareArguments),
    /// Put a router under everything at once in the lab, and check that it is as before
    ///
    /// Traffic, floods, hostile frames, a full table of routes that come and go, changes of the configuration, captures,
    /// and links that go down and up. At the end every packet must be in the books, memory must be flat, and the
    /// kernel's tables must be gone with the router. Needs network namespaces.
    Soak(soak::SoakArguments),
    /// Run the papers' results again: their numbers beside ours, a verdict on each claim
    Reproduce(reproduce::ReproduceArguments),
    /// Send or receive traffic: the lab's tools, usable on their own
    #[command(subcommand)]
    Traffic(weir_experiment::traffic::Command),
    /// Measure this machine
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print what makes a shell complete commands, disciplines, scenarios and components
    ///
    /// For bash: weir completions bash > ~/.local/share/bash-completion/completions/weir
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program and its sub-commands
    Manpage(manpage::ManpageArguments),
}

#[derive(Debug, clap::Args)]
struct RouterSocket {
    /// The router's `socket`
    #[arg(long, env = "WEIR_SOCKET", default_value = SOCKET_DEFAULT)]
    socket: PathBuf,
}

/// An FE that is reached through its control element.
#[derive(Debug, clap::Args)]
struct Element {
    /// Ask the control element for this forwarding element [default socket: /run/weir-ce/ce.sock]
    #[arg(long, value_name = "NAME")]
    fe: Option<String>,
}

impl Element {
    /// The socket to ask, and what its paths begin with.
    fn target(&self, router: &RouterSocket) -> (PathBuf, String) {
        match &self.fe {
            Some(fe) => (router.of_control_element(), format!("/v1/fe/{fe}")),
            None => (router.socket.clone(), String::new()),
        }
    }
}

impl RouterSocket {
    /// The socket of the control element: the default one, unless another one is given.
    fn of_control_element(&self) -> PathBuf {
        match self.socket.as_os_str() == SOCKET_DEFAULT {
            true => CE_SOCKET_DEFAULT.into(),
            false => self.socket.clone(),
        }
    }
}

/// Reason why the program fails.
enum Failure {
    /// Wrong usage or configuration.
    Usage(String),
    /// The command failed.
    Run(String),
    /// A child process has reported the error and exited with this code.
    Reported(u8),
    /// `weir diff` has found a difference, and printed it.
    Different,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Run(why) => f.write_str(why),
            Self::Reported(code) => write!(f, "a child ended with exit code {code}"),
            Self::Different => f.write_str("there are differences"),
        }
    }
}

fn main() -> ExitCode {
    complete::answer();
    // This comes first, so that a router that gets a signal while it starts stops in an orderly way.
    if let Err(error) = signals::hold() {
        return fail(1, &format!("cannot hold signals: {error}"));
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            note(error.render().to_string().trim_end());
            return ExitCode::from(2);
        }
        Err(help) => return end(print_own(&output::rendered(&help))),
    };
    if let Err(why) = log::begin() {
        return fail(2, &why);
    }
    let result = run(arguments.command);
    log::flush();
    end(result)
}

fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => fail(2, &message),
        Err(Failure::Run(message)) => fail(1, &message),
        Err(Failure::Reported(code)) => ExitCode::from(code),
        Err(Failure::Different) => ExitCode::from(1),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Router { .. } | Command::Fe { .. } | Command::Ce { .. } => {
            log::aside().map_err(|e| Failure::Run(format!("log: {e}")))?;
        }
        _ => release_signals()?,
    }
    if matches!(
        command,
        Command::Watch(_)
            | Command::Show(_)
            | Command::Capture(_)
            | Command::Top(_)
            | Command::Observe(_)
    ) {
        output::end_with_reader();
    }
    match command {
        Command::Router { config, supervised } => {
            router::run(&config, supervised, router::Role::Router)
        }
        Command::Fe { config, supervised } => {
            router::run(&config, supervised, router::Role::ForwardingElement)
        }
        Command::Ce { config } => ce::run(&config),
        Command::Get(arguments) => component::get(&arguments),
        Command::Route(command) => route::run(&command),
        Command::Watch(arguments) => component::watch(&arguments),
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
        Command::Enable { router } => configuration::enable(&router.socket),
        Command::Show(arguments) => show::run(&arguments),
        Command::Capture(arguments) => capture::run(arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Observe(arguments) => observe::run(arguments),
        Command::Classify(arguments) => classify::run(&arguments),
        Command::Paths(arguments) => paths::run(&arguments),
        Command::Describe { name } => describe(&name),
        Command::Keys { name, days } => keys::run(&name, days),
        Command::List(arguments) => list::run(&arguments),
        Command::Run(arguments) => lab::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Traffic(command) => lab::traffic(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Completions { shell } => complete::register(shell),
        Command::Manpage(arguments) => manpage::run(&arguments),
    }
}

/// Checks the configuration of a control element, or that of a router.
fn check(config: &Path) -> Result<(), Failure> {
    if config.as_os_str() != "-" {
        let text = configuration::read(config)?;
        if configuration::is_control_element(&text) {
            return ce::check(config, &text);
        }
    }
    configuration::check(config)
}

/// Unblocks the signals that have been pending since the program started.
fn release_signals() -> Result<(), Failure> {
    signals::release().map_err(|e| Failure::Run(format!("cannot release signals: {e}")))
}

fn describe(name: &str) -> Result<(), Failure> {
    let page = describe::page(name).ok_or_else(|| Failure::Usage(describe::unknown(name)))?;
    print(&page)
}

fn fail(code: u8, message: &str) -> ExitCode {
    note(&format!("weir: {message}"));
    ExitCode::from(code)
}
