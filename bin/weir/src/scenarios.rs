//! The scenarios that come with the program, by name: `lru-fq/demo` is `scenarios/lru-fq/demo.toml` of the
//! repository.

use std::path::{Path, PathBuf};

use weir_base::setting::nearest;

/// Name and text of each, by name.
pub(crate) const SCENARIOS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// A scenario to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Its file, as results name it.
    pub(crate) file: PathBuf,
    /// Its text, if it comes with the program.
    pub(crate) text: Option<&'static str>,
}

/// What `given` means: a file that is there, or else a scenario that comes with the program.
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
    match SCENARIOS.iter().find(|(known, _)| *known == name) {
        Some((known, text)) => Ok(Source {
            file: PathBuf::from(format!("scenarios/{known}.toml")),
            text: Some(text),
        }),
        None => {
            let near = nearest(name, SCENARIOS.iter().map(|(known, _)| *known));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            Err(format!(
                "there is no file `{written}`, and no scenario of this name comes with weir (`weir list \
                 scenarios` has those){near}"
            ))
        }
    }
}

/// What a scenario is called, by the line that says so.
pub(crate) fn title(text: &str) -> &str {
    let titles = text
        .lines()
        .filter_map(|line| line.strip_prefix("title = \""));
    titles
        .map(|rest| rest.trim_end().trim_end_matches('"'))
        .next()
        .unwrap_or_default()
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
    fn every_scenario_has_a_title() {
        for (name, text) in SCENARIOS {
            assert!(!title(text).is_empty(), "{name}");
        }
    }
}
