//! Configurations: reading files, `weir check`, `weir diff`, `weir apply`, `weir set`.

use std::collections::BTreeMap;
use std::path::Path;

use weir_config::Document;
use weir_lfb::Plan;
use weir_live::file::read_text;
use weir_model::ChangeRequest;
use weir_model::report::ApplyReport;
use weir_northbound::client::{self, ClientError};

use crate::Failure;
use crate::output::print;

/// A configuration file is not longer than this.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the file whole.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let failed = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    read_text(path, FILE_BYTES_MAX).map_err(|e| failed(e.to_string()))
}

/// Checks a configuration whole; every fault comes with its line.
pub(crate) fn plan(name: &str, text: &str) -> Result<Plan, Vec<String>> {
    let document = Document::parse(name, text).map_err(|e| vec![e.to_string()])?;
    Plan::check(document.changes()).map_err(|faults| {
        let mut located: Vec<_> = faults.iter().map(|f| document.locate(f)).collect();
        located.sort_by_key(|error| error.line);
        located.iter().map(ToString::to_string).collect()
    })
}

/// Reads and checks a configuration file.
pub(crate) fn load(path: &Path) -> Result<Plan, Failure> {
    let text = read(path)?;
    plan(&path.display().to_string(), &text).map_err(|faults| Failure::Usage(faults.join("\n")))
}

/// `weir check`.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let plan = load(path)?;
    let problems = crate::router::obstacles(&plan);
    if !problems.is_empty() {
        return Err(Failure::Usage(problems.join("\n")));
    }
    for doubt in crate::router::doubts(&plan) {
        print(&format!("note: {doubt}\n"))?;
    }
    let ports = plan.ports.len();
    print(&format!(
        "{}: good, {ports} port{}\n",
        path.display(),
        if ports == 1 { "" } else { "s" }
    ))
}

/// `weir diff`.
pub(crate) fn diff(path: &Path, socket: &Path) -> Result<(), Failure> {
    let plan = load(path)?;
    let in_force: BTreeMap<String, String> =
        client::get(socket, "/v1/config").map_err(|e| Failure::Run(e.to_string()))?;
    for line in differences(&in_force, &plan.shown()) {
        print(&format!("{line}\n"))?;
    }
    Ok(())
}

/// `weir apply`.
pub(crate) fn apply(path: &Path, socket: &Path) -> Result<(), Failure> {
    let text = read(path)?;
    // Checked here too, so that the lines in the messages carry the file's own name.
    plan(&path.display().to_string(), &text).map_err(|faults| Failure::Usage(faults.join("\n")))?;
    said(client::put(socket, "/v1/config", text))
}

/// `weir set`.
pub(crate) fn set(assignments: &[String], socket: &Path) -> Result<(), Failure> {
    let request = |assignment: &String| {
        let change = weir_config::assignment(assignment)?;
        let value = change.value.ok_or("a block has no value")?;
        Ok(ChangeRequest {
            path: change.path.to_string(),
            value: value.into(),
        })
    };
    let requests: Result<Vec<_>, String> = assignments.iter().map(request).collect();
    let requests = requests.map_err(Failure::Usage)?;
    said(client::patch(socket, "/v1/config", &requests))
}

/// Prints what a router says to a change.
fn said(report: Result<ApplyReport, ClientError>) -> Result<(), Failure> {
    let report = report.map_err(|e| Failure::Run(e.to_string()))?;
    if !report.applied {
        return Err(Failure::Usage(report.messages.join("\n")));
    }
    for message in report.messages {
        print(&format!("{message}\n"))?;
    }
    Ok(())
}

/// What changes between two sets of components, a line each.
pub(crate) fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let line = |path: &String| match (before.get(path), after.get(path)) {
        (Some(old), Some(new)) if old != new => Some(format!("~ {path}: {old} -> {new}")),
        (Some(old), None) => Some(format!("- {path}: {old}")),
        (None, Some(new)) => Some(format!("+ {path}: {new}")),
        _ => None,
    };
    paths.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_what_is_new_gone_and_changed() {
        let map = |pairs: &[(&str, &str)]| {
            let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            pairs.iter().map(own).collect::<BTreeMap<_, _>>()
        };
        let before = map(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let after = map(&[("a", "1"), ("b", "4"), ("d", "5")]);
        let expected = ["~ b: 2 -> 4", "- c: 3", "+ d: 5"];
        assert_eq!(differences(&before, &after), expected);
    }

    #[test]
    fn a_wrong_configuration_is_told_with_its_lines() {
        let text = "mode = \"routed\"\n[port.wan]\nrat = \"1 Mbit\"\n";
        let faults = plan("weir.toml", text).unwrap_err();
        assert!(
            faults[0].starts_with("weir.toml:3: unknown key `rat`"),
            "{faults:?}"
        );
    }
}
