//! Development commands of this repository.
//!
//! - `cargo xtask ci`: everything that CI does, in its order
//! - `cargo xtask test-lab`: the long tests, for a release
//! - `cargo xtask tidy`: checks the rules of ARCHITECTURE.md (`tidy`)
//! - `cargo xtask golden [--update]`: compares recorded outputs, or records them again
//! - `cargo xtask lines [FOLDER]`: counts lines by crate, of this repository or of another checkout
//! - `cargo xtask hostile | peers [ARGUMENT...]`: an experiment of the lab (`lab/experiment/examples/experiments`)
//! - `cargo xtask compare | attacks | everyday [--runs N] [SCENARIO...]`: a suite of `weir compare`, whose page it
//!   updates unless scenarios are named
//! - `cargo xtask search [ROUNDS] [SEED]`: searches for the loads that harm honest traffic most behind the default discipline
//!   (`core/discipline/examples/search`)

mod lines;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;

/// The beginning of each test command: the features, which decide what is compiled, are those of the whole workspace.
const TEST: &str = "test --workspace --locked --no-fail-fast";

/// The feature of control elements that share their desired state in etcd.
const ETCD: &str = "--features weir-forces/etcd";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let good = match words[..] {
        ["ci"] => ci(),
        ["test-lab"] => long_tests(),
        ["tidy"] => tidy(),
        ["lines"] => lines(&root()),
        ["lines", folder] => lines(Path::new(folder)),
        ["golden"] => golden(false),
        ["golden", "--update"] => golden(true),
        ["hostile" | "peers", ..] => example("experiments", &words),
        ["compare", ref words @ ..] => suite("comparison", words),
        [name @ ("attacks" | "everyday"), ref words @ ..] => suite(name, words),
        ["search", ref numbers @ ..] => example("search", numbers),
        _ => {
            eprintln!(
                "usage: cargo xtask ci | test-lab | tidy | lines [FOLDER] | golden [--update] | peers [SCENARIO...] | compare [SCENARIO...] | \
                 attacks [SCENARIO...] | everyday [SCENARIO...] | hostile [TABLE...] | search [ROUNDS] [SEED]"
            );
            return ExitCode::from(2);
        }
    };
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs formatting, lints, tidy and dependencies, then every test, so that the last lines come from the test runner.
/// System packages, which only the tests use, are downloaded while the processors compile.
fn ci() -> bool {
    thread::scope(|scope| {
        let mut install = Command::new(root().join("scripts/install-packages"));
        let packages = scope.spawn(move || install.status().is_ok_and(|status| status.success()));
        let lints = "clippy --workspace --all-targets --locked -- -D warnings";
        let with_etcd = format!("clippy --workspace {ETCD} --all-targets --locked -- -D warnings");
        let is_good = cargo(&["fmt", "--all", "--check"], &[])
            && tidy()
            && dependencies()
            && cargo(&words(lints), &[])
            && cargo(&words(&with_etcd), &[])
            && cargo(&words(&format!("{TEST} --no-run")), &[]);
        packages.join().is_ok_and(|installed| installed) && is_good && tests()
    })
}

/// The tests of the long tier, which `make test-lab` runs before a release: minutes of real time, on a machine that is
/// theirs. What they measure may depend on how busy the machine is; no other test does.
const LONG: &[&str] = &[
    "many_ports_come_and_go_at_once_while_others_forward",
    "guards_hold_under_a_flood_of_packets",
    "devices_of_many_kinds_are_queued_in_a_guest",
    "light_flows_are_compared_with_queues_of_the_kernel_in_a_guest",
    "a_stranger_has_a_protected_uplink_in_minutes",
    "a_router_under_fire_is_as_before",
    "lru_fq_keeps_tcp_and_the_web_alive_under_a_flood",
    "a_distributed_flood_is_found_by_its_destination",
    "homes_behind_one_address_have_equal_shares_whatever_their_connections",
    "a_long_way_takes_its_time_and_loses_nothing",
    "rs_red_shares_the_queue_with_the_ingresses_and_loses_less",
    "rs_red_of_a_control_element_loses_less_too",
    "dppbrb_keeps_control_messages_alive_under_a_flood_of_redirect",
    "flow_control_keeps_every_fes_control_messages_alive",
    "flow_control_of_a_control_element_keeps_them_alive_too",
    "throughput_is_found_between_the_interfaces_of_an_edge",
    "adjacencies_of_frr_survive_a_flood_of_exceptions",
    "a_leader_dies_and_another_ce_serves_within_four_seconds",
    "a_machine_with_the_leader_and_a_member_of_etcd_dies",
    "any_member_of_etcd_dies_and_changes_go_on",
    "a_deposed_leader_changes_nothing",
    "a_leader_that_is_cut_off_gives_way_and_follows_afterwards",
    "an_fe_that_cannot_reach_the_leader_keeps_its_state_and_returns",
];

/// Tests that run at a time, for each processor: most of a test's time is waiting for a router, a timer or a peer.
const TESTS_PER_PROCESSOR: usize = 4;

/// Runs every test except the long ones.
fn tests() -> bool {
    eprintln!(
        "`make test-lab` runs {} long tests, for a release",
        LONG.len()
    );
    let all = format!("{TEST} --");
    let skipped: Vec<&str> = LONG.iter().flat_map(|name| ["--skip", name]).collect();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (TESTS_PER_PROCESSOR * processors).to_string();
    // A program that measures chooses another number by itself.
    let threads = [("RUST_TEST_THREADS", threads.as_str())];
    cargo(&[words(&all), skipped].concat(), &threads)
}

/// Runs the long tests, with the features that only they need.
fn long_tests() -> bool {
    let all = format!("{TEST} {ETCD} --tests --");
    cargo(&[&words(&all), LONG].concat(), &[])
}

/// Checks linked crates: licences, bans, sources and, if their database can be fetched, advisories. Without cargo-deny
/// it only prints a hint.
fn dependencies() -> bool {
    let version = Command::new(env!("CARGO"))
        .args(["deny", "--version"])
        .output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "dependencies are not checked: cargo-deny is not installed \
             (`cargo install cargo-deny --locked`)"
        );
        return true;
    }
    if !cargo(&["deny", "check", "licenses", "bans", "sources"], &[]) {
        return false;
    }
    if cargo(&["deny", "fetch", "db"], &[]) {
        return cargo(&["deny", "check", "--disable-fetch", "advisories"], &[]);
    }
    eprintln!("advisories are not checked: their database cannot be fetched");
    true
}

/// Compares recorded outputs, or records them. `weir` starts the other two programs, which its tests do not build: old
/// programs would record old outputs.
fn golden(update: bool) -> bool {
    let update = if update { "1" } else { "0" };
    let programs = "build --locked -p weir-forces -p weir-lab";
    let tests = "test --locked -p weir -p weir-element -p weir-protocol --tests -- golden:: the_element_says_what_was_recorded association:: transaction::";
    cargo(&words(programs), &[]) && cargo(&words(tests), &[("WEIR_GOLDEN_UPDATE", update)])
}

/// Runs a release build of an example, of whichever crate has it, with these arguments.
fn example(name: &str, arguments: &[&str]) -> bool {
    let run = ["run", "--release", "--locked", "--example", name, "--"];
    cargo(&[&run, arguments].concat(), &[])
}

/// Runs a suite of `weir compare`; words that are neither an option nor its value name scenarios.
fn suite(name: &str, given: &[&str]) -> bool {
    let mut arguments = vec!["compare", "--suite", name];
    let mut given = given.iter();
    while let Some(word) = given.next() {
        if word.starts_with('-') {
            arguments.push(word);
            if *word != "--quick" {
                arguments.extend(given.next());
            }
        } else {
            arguments.extend(["--load", word]);
        }
    }
    if !arguments.contains(&"--load") {
        arguments.extend(["--document", "--out", "out"]);
    }
    eprintln!("`weir {}` does the same", arguments.join(" "));
    let run = words("run --release --locked -p weir-lab --");
    cargo(&[&run[..], &arguments].concat(), &[])
}

fn lines(root: &Path) -> bool {
    match tree::Tree::read(root) {
        Ok(tree) => print!("{}", lines::table(&tree)),
        Err(error) => {
            eprintln!("{}: {error}", root.display());
            return false;
        }
    }
    true
}

fn tidy() -> bool {
    let faults = tidy::check(&root());
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    faults.is_empty()
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> bool {
    let mut command = command(arguments);
    command.envs(environment.iter().copied());
    command.status().is_ok_and(|status| status.success())
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

fn command(arguments: &[&str]) -> Command {
    eprintln!("+ cargo {}", arguments.join(" "));
    let mut command = Command::new(env!("CARGO"));
    // Build scripts that watch these variables would see xtask's values: every crate that depends on them would be
    // rebuilt at each change between `cargo xtask` and `cargo`.
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars().filter(|(name, _)| own(name)) {
        command.env_remove(name);
    }
    command.args(arguments).current_dir(root());
    command
}

fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_long_test_exists() {
        let tree = super::tree::Tree::read(&super::root());
        let tree = tree.unwrap_or_else(|error| panic!("{error}"));
        for name in super::LONG {
            let declared = format!("fn {name}()");
            let mut texts = tree.files().map(|(_, text)| text);
            assert!(texts.any(|text| text.contains(&declared)), "{name}");
        }
    }
}
