//! `weir manpage`: the manual pages of the program and of every sub-command.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Command;

use crate::Failure;
use crate::output::{folder, print_own};

/// Arguments of `weir manpage`.
#[derive(Debug, clap::Args)]
pub struct ManpageArguments {
    /// Only the page of this sub-command: show, traffic-sink [default: all pages]
    command: Option<String>,
    /// Write the pages to this folder (weir.1, weir-router.1, ..), one file each, instead of printing them
    #[arg(long, value_name = "DIR", value_parser = folder)]
    out: Option<PathBuf>,
}

/// Prints or writes the pages of a program.
pub fn run(program: Command, arguments: &ManpageArguments) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Run(format!("cannot write a manual page: {error}"));
    let own = program.get_name().to_owned();
    let pages = pages(program).map_err(failed)?;
    let asked = arguments
        .command
        .as_ref()
        .map(|command| format!("{own}-{}", command.replace(' ', "-")));
    let chosen: Vec<_> = pages
        .iter()
        .filter(|(name, _)| asked.as_ref().is_none_or(|asked| asked == name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<_> = pages
            .iter()
            .filter_map(|(name, _)| name.strip_prefix(&own)?.strip_prefix('-'))
            .collect();
        let names = names.join(", ");
        return Err(Failure::Usage(format!(
            "unknown sub-command; the sub-commands are {names}"
        )));
    }
    if let Some(folder) = &arguments.out {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    for (name, page) in chosen {
        match &arguments.out {
            Some(folder) => {
                let path = folder.join(format!("{name}.1"));
                let written = fs::write(&path, page);
                let written = written.inspect_err(|_| drop(fs::remove_file(&path)));
                written.map_err(failed)?;
            }
            None => print_own(page)?,
        }
    }
    Ok(())
}

/// Name and text of every page.
fn pages(program: Command) -> io::Result<Vec<(String, String)>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    render(&program, &mut pages)?;
    Ok(pages)
}

fn render(command: &Command, pages: &mut Vec<(String, String)>) -> io::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    pages.push((name, String::from_utf8_lossy(&page).into_owned()));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        render(sub, pages)?;
    }
    Ok(())
}
