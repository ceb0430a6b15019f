//! Completions of scenarios and loads.

use std::ffi::OsStr;

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use weir_experiment::compare::chosen;

use crate::scenarios as shipped;

/// Loads of `weir compare` with a short name.
pub(crate) fn loads() -> ArgValueCandidates {
    let candidate = |(name, _, title): (&'static str, &str, &'static str)| {
        CompletionCandidate::new(name).help(Some(title.into()))
    };
    ArgValueCandidates::new(move || chosen::named().map(candidate).collect())
}

/// Files, and the scenarios built into the program.
pub(crate) fn scenarios() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let typed = current.to_string_lossy();
        let names = shipped::titles().into_iter();
        let names = names.filter(|(name, _)| name.starts_with(typed.as_ref()));
        let mut found: Vec<_> = names
            .map(|(name, title)| CompletionCandidate::new(name).help(Some(title.into())))
            .collect();
        found.extend(PathCompleter::file().complete(current));
        found
    })
}
