//! The scenarios built into the program, by name: `lru-fq/demo` is `scenarios/lru-fq/demo.toml` of the repository.

use std::path::{Path, PathBuf};

use weir_base::setting::{did_you_mean, nearest};
use weir_experiment::scenario::source::{BUILT_IN, title};
use weir_forces_lab::network::adjacency;

/// Name and text of each scenario that can be run, ordered by name. Files without a title are parts of others.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = BUILT_IN.iter().copied();
    all.filter(|(_, text)| !title(text).is_empty())
}

/// Name and title of everything that `weir run` finds by name, ordered by name.
pub(crate) fn titles() -> Vec<(&'static str, &'static str)> {
    let scenarios = all().map(|(name, text)| (name, title(text)));
    let mut titles: Vec<_> = scenarios
        .chain([(adjacency::NAME, adjacency::TITLE)])
        .collect();
    titles.sort_unstable();
    titles
}

/// A scenario to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The scenario's file name in results.
    pub(crate) file: PathBuf,
    /// The scenario's text, if it is built into the program.
    pub(crate) text: Option<&'static str>,
}

/// Finds the scenario `given`: an existing file, or else a built-in scenario.
pub(crate) fn find(given: &Path) -> Result<Source, String> {
    if given.exists() {
        return Ok(Source {
            file: given.to_owned(),
            text: None,
        });
    }
    let written = given.to_string_lossy();
    let name = written.strip_prefix("scenarios/").unwrap_or(&written);
    let name = name.strip_suffix(".toml").unwrap_or(name);
    match all().find(|(known, _)| *known == name) {
        Some((known, text)) => Ok(Source {
            file: PathBuf::from(format!("scenarios/{known}.toml")),
            text: Some(text),
        }),
        None => {
            let near = did_you_mean(nearest(name, titles().into_iter().map(|(known, _)| known)));
            Err(format!(
                "no file or built-in scenario `{written}`; `weir list scenarios` lists the built-in scenarios{near}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_found_by_name_or_by_its_path_in_the_repository() {
        for written in [
            "lru-fq/demo",
            "scenarios/lru-fq/demo.toml",
            "lru-fq/demo.toml",
        ] {
            let source = find(Path::new(written)).unwrap();
            assert_eq!(source.file, Path::new("scenarios/lru-fq/demo.toml"));
            assert!(source.text.is_some_and(|text| text.contains("[router.")));
        }
        let why = find(Path::new("lru-fq/demmo")).unwrap_err();
        assert!(why.ends_with("did you mean `lru-fq/demo`?"), "{why}");
    }

    #[test]
    fn what_has_no_title_is_extended_by_others() {
        let parts = BUILT_IN.iter().filter(|(_, text)| title(text).is_empty());
        for (part, _) in parts {
            let file = part.rsplit('/').next().unwrap();
            let names = |text: &str| {
                text.lines().any(|line| {
                    line.ends_with(&format!("{file}.toml\""))
                        && (line.starts_with("extends = ") || line.starts_with("from = "))
                })
            };
            assert!(BUILT_IN.iter().any(|(_, text)| names(text)), "{part}");
        }
    }
}
