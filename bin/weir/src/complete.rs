//! Shell completions. The shell runs the program itself, so completions include its disciplines and scenarios, and the
//! components of a running router.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use weir_lfb::packet_filter;
use weir_model::ElementPath;
use weir_northbound::client;

use crate::output::print_own;
use crate::{Element, Failure, RouterSocket, describe};

/// A shell that requests completions sets this variable.
pub const VARIABLE: &str = "WEIR_COMPLETE";

/// If a shell requests completions, prints them and exits; otherwise does nothing.
pub fn answer(command: fn() -> clap::Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).complete();
}

/// Prints the code that registers completions in a shell.
pub fn register(program: &str, shell: clap_complete::Shell) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Run(error.to_string());
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name);
    let completer = completer.ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, program, program, program, &mut script)
        .map_err(failed)?;
    print_own(&String::from_utf8_lossy(&script))
}

/// Disciplines, controllers and tables.
pub fn mechanisms() -> ArgValueCandidates {
    ArgValueCandidates::new(|| describe::names().map(CompletionCandidate::new).collect())
}

/// Drop reasons.
pub fn reasons() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        packet_filter::reasons()
            .map(CompletionCandidate::new)
            .collect()
    })
}

/// Protocols with a name.
pub fn protocols() -> ArgValueCandidates {
    let named = || packet_filter::protocol_names().map(CompletionCandidate::new);
    ArgValueCandidates::new(move || named().collect())
}

/// Disciplines.
pub fn disciplines() -> ArgValueCandidates {
    let candidate = |manual: &weir_discipline::contract::Manual| {
        CompletionCandidate::new(manual.name).help(Some(manual.purpose.into()))
    };
    ArgValueCandidates::new(move || weir_discipline::manuals().map(candidate).collect())
}

/// Assignments to components of the running router.
pub fn assignments() -> ArgValueCompleter {
    of_configuration(assignments_of)
}

/// Ports of the running router, and their components.
pub fn paths() -> ArgValueCompleter {
    of_configuration(paths_of)
}

/// Completes with the configuration of the running router, or of the FE that the text names.
fn of_configuration(
    complete: fn(&BTreeMap<String, String>, &str) -> Vec<String>,
) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let text = current.to_string_lossy();
        let (fe, typed) = ElementPath::split(&text);
        let router = RouterSocket {
            socket: std::env::var_os("WEIR_SOCKET").map(PathBuf::from),
        };
        let element = Element {
            fe: fe.map(str::to_owned),
        };
        let target = element.target(&router).ok();
        let config = target.and_then(|(socket, at)| client::configuration(&socket, &at).ok());
        let found = complete(&config.unwrap_or_default(), typed).into_iter();
        let prefix = &text[..text.len() - typed.len()];
        found
            .map(|found| CompletionCandidate::new(format!("{prefix}{found}")))
            .collect()
    })
}

/// Components, and the ports that have them.
fn paths_of(config: &BTreeMap<String, String>, typed: &str) -> Vec<String> {
    let ports = config
        .keys()
        .filter_map(|path| path.strip_suffix(".interface"));
    let components = config.keys().map(String::as_str);
    let all = ports
        .chain(components)
        .filter(|path| path.starts_with(typed));
    all.map(str::to_owned).collect()
}

fn assignments_of(config: &BTreeMap<String, String>, typed: &str) -> Vec<String> {
    let of_path = |(path, value): (&String, &String)| match typed.strip_prefix(&format!("{path}="))
    {
        Some(_) if path.ends_with(".discipline.kind") => {
            let kinds = weir_discipline::manuals().map(|manual| manual.name);
            kinds.map(|kind| format!("{path}={kind}")).collect()
        }
        Some(_) => vec![format!("{path}={value}")],
        None => vec![format!("{path}=")],
    };
    let all = config.iter().flat_map(of_path);
    all.filter(|assignment| assignment.starts_with(typed))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_complete_to_paths_and_kinds() {
        let config = [
            ("port.wan.discipline.kind", "fifo"),
            ("port.wan.rate", "95 Mbit"),
        ];
        let config = config
            .map(|(path, value)| (path.to_owned(), value.to_owned()))
            .into();
        let complete = |typed| assignments_of(&config, typed);
        assert_eq!(complete("port.wan.r"), ["port.wan.rate="]);
        assert_eq!(complete("port.wan.rate="), ["port.wan.rate=95 Mbit"]);
        assert_eq!(
            complete("port.wan.discipline.kind=host"),
            ["port.wan.discipline.kind=host_fair"]
        );
        assert!(complete("x").is_empty());
    }

    #[test]
    fn ports_complete_beside_their_components() {
        let config = [("port.wan.interface", "eth1"), ("port.wan.rate", "95 Mbit")];
        let config = config
            .map(|(path, value)| (path.to_owned(), value.to_owned()))
            .into();
        let found = paths_of(&config, "port.w");
        assert_eq!(found, ["port.wan", "port.wan.interface", "port.wan.rate"]);
        assert_eq!(paths_of(&config, "port.wan.r"), ["port.wan.rate"]);
    }
}
