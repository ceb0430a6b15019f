//! Logs: to standard error, filtered by `WEIR_LOG`. An event is one line, whatever its texts have.

use std::fmt;
use std::io::IsTerminal;

use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use weir_base::setting::{did_you_mean, nearest};

use crate::output::one_line;

/// The variable that filters logs.
pub(crate) const VARIABLE: &str = "WEIR_LOG";

/// The form of its value, for help and errors.
pub(crate) const FORM: &str = "a level (error, warn, info, debug, trace, off), or levels by part \
                               like info,weir_live=debug";

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Starts logging; the default level is `info`.
pub(crate) fn begin() -> Result<(), String> {
    let words = match std::env::var(VARIABLE) {
        Ok(words) if !words.trim().is_empty() => words,
        Ok(_) | Err(std::env::VarError::NotPresent) => "info".to_owned(),
        Err(error) => return Err(format!("{VARIABLE}: {error}; it must be {FORM}")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter(&words)?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .fmt_fields(debug_fn(put).delimited(" "))
        .log_internal_errors(false) // it would panic where nobody reads standard error any more
        .init();
    Ok(())
}

/// Writes a field.
fn put(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write!(out, "{}", one_line(&text)),
        name => write!(out, "{name}={}", one_line(&text)),
    }
}

/// Reads a filter. A single word must be a level: the library would take `debgu` for the name of a module and log
/// nothing.
fn filter(words: &str) -> Result<EnvFilter, String> {
    let wrong = |hint: String| format!("{VARIABLE} is \"{words}\", but must be {FORM}{hint}");
    for directive in words.split(',') {
        let level = directive
            .rsplit_once('=')
            .map_or(directive, |(_, level)| level);
        let level = level.trim().to_lowercase();
        let is_span = directive.contains('[');
        if !is_span && !LEVELS.contains(&&level[..]) {
            let near = nearest(&level, LEVELS.into_iter());
            return Err(wrong(did_you_mean(near)));
        }
    }
    EnvFilter::try_new(words).map_err(|error| wrong(format!(" ({error})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_means_nothing_is_refused() {
        for words in [
            "debug",
            "INFO",
            "warn,weir_live=debug",
            "weir::router=trace",
            "off",
        ] {
            assert!(filter(words).is_ok(), "{words}");
        }
        for words in ["debgu", "info,weir_live=loud", "5=x", "info,,debug"] {
            let why = filter(words).unwrap_err();
            assert!(why.contains(FORM), "{why}");
        }
        let why = filter("debgu").unwrap_err();
        assert!(why.ends_with("; did you mean `debug`?"), "{why}");
    }
}
