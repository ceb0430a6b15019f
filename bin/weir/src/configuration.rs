//! Configurations: reads files, implements `weir check`, `weir diff`, `weir apply`, `weir set` and `weir unset`, and
//! saves changes.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::Span;
use weir_base::setting::Scalar;
use weir_config::Document;
use weir_element::{Facts, admit, differences};
use weir_lfb::Plan;
use weir_lfb::fe::{self, FePlan};
use weir_live::file::{decoded, read_text};
use weir_live::router::survey;
use weir_live::signals::interrupt_flag;
use weir_model::{ApplyReport, Change, ChangeRequest, DeleteRequest, ElementPath, Fault};
use weir_northbound::client::{self, ClientError};

use crate::component::Component;
use crate::output::{note, one_line, print, write_file};
use crate::{Element, Failure, RouterSocket, service};

/// Maximum length of a configuration file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The name of `-` in messages.
const STANDARD_INPUT: &str = "standard input";

/// The name of a file in messages.
pub fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" {
        STANDARD_INPUT.to_owned()
    } else {
        path.display().to_string()
    }
}

/// Reads the whole file; `-` is standard input.
pub fn read(path: &Path) -> Result<String, Failure> {
    if path.as_os_str() == "-" {
        return read_input();
    }
    let failed = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    read_text(path, FILE_BYTES_MAX).map_err(|e| failed(e.to_string()))
}

fn read_input() -> Result<String, Failure> {
    let failed = |why: String| Failure::Usage(format!("{STANDARD_INPUT}: {why}"));
    let mut bytes = Vec::new();
    let mut input = std::io::stdin().lock().take(FILE_BYTES_MAX + 1);
    let read = input.read_to_end(&mut bytes);
    read.map_err(|e| failed(e.to_string()))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        Err(failed(format!("longer than {FILE_BYTES_MAX} bytes")))
    } else {
        decoded(bytes).map_err(|e| failed(e.to_string()))
    }
}

/// Top-level keys of a scenario that no router configuration has.
const OF_A_SCENARIO: [&str; 4] = ["host", "link", "traffic", "variant"];

/// Top-level keys that only the configuration of a control element has.
const OF_A_CONTROL_ELEMENT: [&str; 3] = ["listen", "library", "store"];

/// Top-level keys of a forwarding element, which no router without control elements has.
const OF_A_FORWARDING_ELEMENT: [&str; 2] = ["fe", "ce"];

/// Whether a text has one of these top-level keys.
fn has(text: &str, keys: &[&str]) -> bool {
    let names = weir_config::top_names(text);
    names.iter().any(|name| keys.contains(&&name[..]))
}

/// Whether this is the text of a scenario.
pub fn is_scenario(text: &str) -> bool {
    has(text, &OF_A_SCENARIO) && !has(text, &["port"])
}

/// Whether this is the text of a router's configuration.
pub fn is_router(text: &str) -> bool {
    has(text, &["port"]) && !has(text, &OF_A_SCENARIO)
}

/// Whether this is the text of a control element's configuration.
pub fn is_control_element(text: &str) -> bool {
    has(text, &OF_A_CONTROL_ELEMENT)
}

/// Whether this is the text of an element's configuration, which `weir-forces` runs.
pub fn is_of_forces(text: &str) -> bool {
    has(text, &OF_A_FORWARDING_ELEMENT) || is_control_element(text)
}

/// A checked configuration: a router, which may be a forwarding element.
#[derive(Debug)]
pub struct Configuration {
    /// The router.
    pub plan: Plan,
    /// The forwarding element; `None` for a router on its own.
    pub fe: Option<FePlan>,
}

impl Configuration {
    /// The plan for a running router. Refuses a configuration whose forwarding element differs from `fe`, the running
    /// one.
    pub fn for_running(self, fe: Option<&FePlan>) -> Result<Plan, Vec<String>> {
        if self.fe.as_ref() == fe {
            Ok(self.plan)
        } else {
            Err(vec![
                "[fe] and [ce.NAME] cannot change while the router runs; restart it".to_owned(),
            ])
        }
    }
}

/// Checks a whole configuration and reports every fault with its line.
pub fn plan(name: &str, text: &str) -> Result<Configuration, Vec<String>> {
    checked(name, text).map(|(configuration, _)| configuration)
}

fn checked(name: &str, text: &str) -> Result<(Configuration, Document), Vec<String>> {
    if is_scenario(text) {
        let what = "this is a scenario, not a router's configuration";
        return Err(vec![format!(
            "{name}: {what}; run it with `weir run {name}`"
        )]);
    }
    if is_control_element(text) {
        let what = "this is the configuration of a control element";
        return Err(vec![format!(
            "{name}: {what}; run it with `weir ce {name}`"
        )]);
    }
    let document = Document::parse(name, text).map_err(|e| vec![e.to_string()])?;
    let (of_fe, of_router): (Vec<_>, Vec<_>) =
        document.changes().iter().cloned().partition(fe::is_of_fe);
    let fe = if of_fe.is_empty() {
        Ok(None)
    } else {
        FePlan::check(&of_fe).map(Some)
    };
    match (Plan::check(&of_router), fe) {
        (Ok(plan), Ok(fe)) => Ok((Configuration { plan, fe }, document)),
        (plan, fe) => {
            let mut faults = plan.err().unwrap_or_default();
            faults.extend(fe.err().unwrap_or_default());
            Err(located(&document, &faults))
        }
    }
}

/// Faults as text, each with its position.
pub fn sentences(faults: Vec<Fault>) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// The faults in the order of the file, each with its line.
pub fn located(document: &Document, faults: &[Fault]) -> Vec<String> {
    let mut located: Vec<_> = faults.iter().map(|f| document.locate(f)).collect();
    located.sort_by(|a, b| a.origin.cmp(&b.origin));
    let mut sentences: Vec<_> = located.iter().map(ToString::to_string).collect();
    sentences.dedup(); // an unknown section has one fault per key
    sentences
}

/// Reads and checks a configuration file. Does not check whether its interfaces exist.
pub fn load(path: &Path) -> Result<Configuration, Failure> {
    let text = read(path)?;
    let checked = plan(&shown(path), &text);
    checked.map_err(|faults| Failure::Usage(faults.join("\n")))
}

/// A plan that can run on this machine.
pub struct Admission {
    /// The router.
    pub plan: Plan,
    /// The forwarding element; `None` for a router on its own.
    pub fe: Option<FePlan>,
    /// The facts about this machine that the check used.
    pub facts: Facts,
    /// Warnings: settings that are permitted, but probably not intended.
    pub doubts: Vec<String>,
}

/// Reads a configuration file and checks it for a start on this machine.
pub fn load_here(path: &Path) -> Result<Admission, Failure> {
    here(path, &read(path)?)
}

/// Like [`load_here`], for a text that will be written to this file.
pub fn here(path: &Path, text: &str) -> Result<Admission, Failure> {
    let failed = |faults: Vec<String>| Failure::Usage(faults.join("\n"));
    let (Configuration { plan, fe }, document) = checked(&shown(path), text).map_err(failed)?;
    let facts = survey(&plan);
    match admit(None, &plan, &facts) {
        Ok(admitted) => Ok(Admission {
            plan,
            fe,
            facts,
            doubts: admitted.doubts,
        }),
        // A fault of the machine has no line in the file.
        Err(faults) if faults.iter().all(|fault| fault.path.is_root()) => {
            Err(failed(faults.into_iter().map(|f| f.message).collect()))
        }
        Err(faults) => Err(failed(located(&document, &faults))),
    }
}

/// `weir check`.
pub fn check(path: &Path, text: &str) -> Result<(), Failure> {
    let Admission { plan, doubts, .. } = here(path, text)?;
    good(path, &plan, doubts)
}

/// Prints the warnings about a router's configuration, and that it is valid.
pub fn good(path: &Path, plan: &Plan, doubts: Vec<String>) -> Result<(), Failure> {
    for doubt in doubts {
        print(&format!("note: {doubt}\n"))?;
    }
    let ports = plan.ports.len();
    print(&format!(
        "{}: valid, {ports} port{}\n",
        shown(path),
        if ports == 1 { "" } else { "s" }
    ))
}

/// `weir diff`; like diff(1) it exits with 1 if there is a difference.
pub fn diff(path: &Path, router: &RouterSocket) -> Result<(), Failure> {
    let plan = load(path)?.plan;
    let socket = router.path_of(&plan)?;
    let in_force = client::configuration(&socket, "").map_err(|e| Failure::Usage(e.to_string()))?;
    let differences = differences(&in_force, &plan.shown());
    for line in &differences {
        print(&format!("{}\n", one_line(line)))?;
    }
    if differences.is_empty() {
        Ok(())
    } else {
        Err(Failure::Different)
    }
}

/// The components of `weir show config`.
pub fn shown_in_force(
    element: &Element,
    router: &RouterSocket,
) -> Result<BTreeMap<String, String>, Failure> {
    let (socket, prefix) = element.target(router)?;
    client::configuration(&socket, &prefix).map_err(|e| Failure::Run(e.to_string()))
}

/// `weir apply`. With `confirm`, the router rolls back to the earlier configuration unless the operator types `yes`
/// within this time, so an operator who has lost the connection need not do anything.
pub fn apply(path: &Path, router: &RouterSocket, confirm: Option<Span>) -> Result<(), Failure> {
    let text = read(path)?;
    // Checked here as well, so that messages with line numbers name this file.
    let new = plan(&shown(path), &text).map_err(|faults| Failure::Usage(faults.join("\n")))?;
    let socket = &router.path_of(&new.plan)?;
    let Some(time) = confirm else {
        return report(client::put(socket, "/v1/config", text));
    };
    if path == Path::new("-") {
        let why =
            "--confirm reads the answer from standard input, so the configuration must be a file";
        return Err(Failure::Usage(why.to_owned()));
    }
    let before = client::configuration(socket, "").map_err(|e| Failure::Run(e.to_string()))?;
    // From here on, a signal counts as an answer too: for instance when the SSH connection closes.
    let interrupted =
        interrupt_flag().map_err(|e| Failure::Run(format!("cannot watch for Ctrl-C: {e}")))?;
    report(client::put(socket, "/v1/config", text))?;
    note(&format!(
        "applied; type yes and Enter within {time} to keep it, or the previous configuration is restored"
    ));
    if is_confirmed(time, &interrupted) {
        return print("kept\n");
    }
    let answer = client::put(socket, "/v1/config", weir_config::as_file(&before));
    report(answer).map_err(|failure| {
        Failure::Run(format!(
            "cannot restore the previous configuration: {failure}"
        ))
    })?;
    Err(Failure::Run(
        "not confirmed: the previous configuration was restored".to_owned(),
    ))
}

/// The time of `--confirm`, written as in a configuration.
pub fn time_to_confirm(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(time) if (Span::from_secs(1)..=Span::from_secs(3600)).contains(&time) => Ok(time),
        Ok(_) => Err("must be from \"1 s\" to \"3600 s\"".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a line on standard input is `yes` within this time. The end of standard input counts as no.
fn is_confirmed(time: Span, interrupted: &AtomicBool) -> bool {
    let (send, answers) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lines() {
            let Ok(line) = line else { break };
            let _ = send.send(line);
        }
    });
    let ends = Instant::now() + Duration::from_nanos(time.as_nanos());
    while !interrupted.load(Ordering::Relaxed) && Instant::now() < ends {
        match answers.recv_timeout(Duration::from_millis(50)) {
            Ok(line) if line.trim() == "yes" => return true,
            Ok(_) => note("type yes to keep it"),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    false
}

/// Where `weir set` and `weir unset` keep their changes.
#[derive(Debug, clap::Args)]
pub struct Save {
    /// Write the change to this configuration file too, so that it survives a restart; comments stay [default file:
    /// that of the router's service]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    save: Option<Option<PathBuf>>,
}

impl Save {
    /// The edited file with these changes to the router at this socket, which must be valid. `None` without `--save`.
    fn edited(
        &self,
        socket: &Path,
        changes: &[Change],
    ) -> Result<Option<(PathBuf, String)>, Failure> {
        let Some(path) = self.save.clone() else {
            return Ok(None);
        };
        let path = path.unwrap_or_else(|| service::configuration_at(socket));
        let text = weir_config::edited(&shown(&path), &read(&path)?, changes);
        let text = text.map_err(|error| Failure::Usage(error.to_string()))?;
        plan(&shown(&path), &text).map_err(|faults| Failure::Usage(faults.join("\n")))?;
        Ok(Some((path, text)))
    }
}

/// `weir set`.
pub fn set(
    assignments: &[String],
    fe: Option<&str>,
    router: &RouterSocket,
    save: &Save,
) -> Result<(), Failure> {
    let (mut requests, mut changes) = (Vec::new(), Vec::new());
    for assignment in assignments {
        let (of, rest) = ElementPath::split(assignment);
        let Change { path, value } = weir_config::assignment(rest).map_err(Failure::Usage)?;
        let component = Component::new(of, path, fe)?;
        requests.extend(value.clone().map(|value| ChangeRequest {
            path: component.to_string(),
            value: value.into(),
        }));
        changes.push((component, value));
    }
    send(changes, router, save, |socket, path| {
        client::patch(socket, path, &requests)
    })
}

/// `weir unset`.
pub fn unset(
    paths: &[String],
    fe: Option<&str>,
    router: &RouterSocket,
    save: &Save,
) -> Result<(), Failure> {
    let (mut requests, mut changes) = (Vec::new(), Vec::new());
    for path in paths {
        let component = Component::read(path, fe)?;
        requests.push(DeleteRequest {
            path: component.to_string(),
        });
        changes.push((component, None));
    }
    send(changes, router, save, |socket, path| {
        client::delete_named(socket, path, &requests)
    })
}

/// Sends changes to a router or to a control element, and then writes them to the file.
fn send(
    changes: Vec<(Component, Option<Scalar>)>,
    router: &RouterSocket,
    save: &Save,
    request: impl FnOnce(&Path, &str) -> Result<ApplyReport, ClientError>,
) -> Result<(), Failure> {
    let count = changes.len();
    let own = changes.into_iter().filter_map(|(component, value)| {
        let Component::OfRouter(path) = component else {
            return None;
        };
        Some(Change { path, value })
    });
    let own: Vec<_> = own.collect();
    let (socket, path) = match own.len() {
        0 if save.save.is_some() => {
            let why = "--save works only for a router's own configuration; a control element stores its settings itself";
            return Err(Failure::Usage(why.to_owned()));
        }
        0 => (router.of_control_element(), "/v1/component"),
        of_router if of_router == count => (router.path()?, "/v1/config"),
        _ => {
            let why = "either all paths begin with an FE and a colon, or none does";
            return Err(Failure::Usage(why.to_owned()));
        }
    };
    let file = save.edited(&socket, &own)?;
    report(request(&socket, path))?;
    let Some((path, text)) = file else {
        return Ok(());
    };
    write_file(&path, &text, true).map_err(|error| {
        let path = path.display();
        Failure::Run(format!(
            "applied, but not saved: cannot write {path}: {error}"
        ))
    })?;
    print(&format!("saved: {}\n", path.display()))
}

/// `weir enable`.
pub fn enable(socket: &Path) -> Result<(), Failure> {
    report(client::post(socket, "/v1/enable", &()))
}

/// Prints a router's response to a change.
pub fn report(answer: Result<ApplyReport, ClientError>) -> Result<(), Failure> {
    let report = answer.map_err(|e| Failure::Run(e.to_string()))?;
    if !report.applied {
        let messages: Vec<_> = report.messages.iter().map(|text| one_line(text)).collect();
        return Err(Failure::Usage(messages.join("\n")));
    }
    for message in report.messages {
        print(&format!("{}\n", one_line(&message)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_a_configuration_name_their_lines() {
        let text = "mode = \"routed\"\n[port.wan]\nrat = \"1 Mbit\"\n";
        let faults = plan("weir.toml", text).unwrap_err();
        assert!(
            faults[0].starts_with("weir.toml:3:1: unknown key `rat`"),
            "{faults:?}"
        );
    }

    #[test]
    fn examples_of_the_package_are_right() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/examples");
        let files = std::fs::read_dir(&folder).unwrap().flatten();
        let mut count = 0;
        for path in files.map(|file| file.path()) {
            let text = std::fs::read_to_string(&path).unwrap();
            let checked = plan(&shown(&path), &text);
            assert!(checked.is_ok(), "{:?}", checked.err());
            count += 1;
        }
        assert!(count >= 5, "{count} examples");
    }
}
