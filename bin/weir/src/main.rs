//! `weir`: a flow-aware edge router. Arguments, wiring, exit codes; everything else is elsewhere.
//!
//! Exit codes: 0 good, 1 a run failed, 2 wrong usage or configuration.

mod bench;
mod capture;
mod configuration;
mod describe;
mod interfaces;
mod lab;
mod log;
mod operator;
mod output;
mod reproduce;
mod router;
mod show;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::output::{note, print, print_json};

/// Where a router listens, if nothing else is said.
const SOCKET_DEFAULT: &str = "/run/weir/weir.sock";

/// A flow-aware edge router: it decides under congestion who gets the link.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
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
        /// A supervisor has started this process, and holds the other end of its standard input
        #[arg(long, hide = true)]
        supervised: bool,
    },
    /// Say what is wrong with a configuration, and start nothing
    Check {
        /// The configuration
        config: PathBuf,
    },
    /// Show how a configuration differs from what a running router has in force
    Diff {
        /// The configuration
        config: PathBuf,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Put a configuration in force in a running router, without losing a packet
    Apply {
        /// The configuration
        config: PathBuf,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Change single components of a running router: port.wan.rate="50 Mbit"
    ///
    /// All of them are put in force at once, between two packets, or none is. Disciplines keep
    /// their state. The configuration file stays as it is: `weir apply` or SIGHUP takes the file
    /// again.
    Set {
        /// What to change; `weir diff` prints the paths
        #[arg(value_name = "PATH=VALUE", required = true)]
        changes: Vec<String>,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Show what a running router does
    Show {
        /// What to show
        subject: show::Subject,
        /// Print JSON instead of a table
        #[arg(short, long)]
        json: bool,
        #[command(flatten)]
        selection: show::Selection,
        #[command(flatten)]
        router: RouterSocket,
    },
    /// Capture what passes a running router's ports, and why packets are lost, as pcapng
    Capture(capture::CaptureArguments),
    /// Print the manual page of a discipline or a controller
    Describe {
        /// Its name; `weir list disciplines` and `weir list controllers` have them all
        name: String,
    },
    /// List what there is
    List {
        /// Of what
        #[arg(default_value = "disciplines")]
        what: List,
    },
    /// Run a scenario
    Run(lab::RunArguments),
    /// Run the papers' results again: their numbers beside ours, a verdict on each claim
    Reproduce(reproduce::ReproduceArguments),
    /// Send or receive traffic: the lab's tools, usable on their own
    #[command(subcommand)]
    Traffic(weir_lab::traffic::Command),
    /// Measure this machine
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print the completions of a shell
    #[command(hide = true)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of this program
    #[command(hide = true)]
    Manpage,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum List {
    /// Queue disciplines
    Disciplines,
    /// Controllers
    Controllers,
    /// Scenarios
    Scenarios,
    /// Results of papers that can be reproduced
    Results,
    /// The JSON Schema of scenario files
    Schema,
    /// Every reason for which a packet can end, as a table in Markdown
    Drops,
}

#[derive(Debug, clap::Args)]
struct RouterSocket {
    /// The router's `socket`
    #[arg(long, env = "WEIR_SOCKET", default_value = SOCKET_DEFAULT)]
    socket: PathBuf,
}

/// Why the program ends without success.
enum Failure {
    /// Wrong usage or configuration.
    Usage(String),
    /// It did not work.
    Run(String),
    /// A child has said what is wrong, and ended with this exit code.
    Reported(u8),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => return end(print(&output::rendered(&help))),
    };
    if let Err(why) = log::begin() {
        return fail(2, &why);
    }
    end(run(arguments.command))
}

fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => fail(2, &message),
        Err(Failure::Run(message)) => fail(1, &message),
        Err(Failure::Reported(code)) => ExitCode::from(code),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Router { config, supervised } => router::run(&config, supervised),
        Command::Check { config } => configuration::check(&config),
        Command::Diff { config, router } => configuration::diff(&config, &router.socket),
        Command::Apply { config, router } => configuration::apply(&config, &router.socket),
        Command::Set { changes, router } => configuration::set(&changes, &router.socket),
        Command::Show {
            subject,
            json,
            selection,
            router,
        } => show::show(&router.socket, subject, selection, json),
        Command::Capture(arguments) => capture::run(arguments),
        Command::Describe { name } => describe(&name),
        Command::List { what } => match what {
            List::Disciplines => print(&describe::disciplines()),
            List::Controllers => print(&describe::controllers()),
            List::Scenarios => print(&lab::scenarios()?),
            List::Results => print(&reproduce::list()),
            List::Schema => print_json(&weir_lab::scenario::schema()),
            List::Drops => print(&describe::drops()),
        },
        Command::Run(arguments) => lab::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Traffic(command) => lab::traffic(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Completions { shell } => {
            let mut program = Arguments::command();
            let mut script = Vec::new(); // the generator panics where it cannot write
            clap_complete::generate(shell, &mut program, "weir", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Manpage => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
            rendered.map_err(|e| Failure::Run(e.to_string()))?;
            print(&String::from_utf8_lossy(&page))
        }
    }
}

fn describe(name: &str) -> Result<(), Failure> {
    let page = describe::page(name).ok_or_else(|| Failure::Usage(describe::unknown(name)))?;
    print(&page)
}

fn fail(code: u8, message: &str) -> ExitCode {
    note(&format!("weir: {message}"));
    ExitCode::from(code)
}
