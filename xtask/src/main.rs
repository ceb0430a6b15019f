//! Development commands of this repository.
//!
//! - `cargo xtask ci`: everything that CI does, in its order
//! - `cargo xtask tidy`: checks the rules of ARCHITECTURE.md (`tidy`)
//! - `cargo xtask golden [--update]`: compares recorded outputs, or records them again
//! - `cargo xtask lines [FOLDER]`: counts lines by crate, of this repository or of another checkout
//! - `cargo xtask compare | attacks | everyday | hostile | peers [ARGUMENT...]`: an experiment of the lab
//!   (`lab/experiment/examples/experiments`)
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let good = match words[..] {
        ["ci"] => ci(),
        ["tidy"] => tidy(),
        ["lines"] => lines(&root()),
        ["lines", folder] => lines(Path::new(folder)),
        ["golden"] => golden(false),
        ["golden", "--update"] => golden(true),
        ["compare" | "attacks" | "everyday" | "hostile" | "peers", ..] => {
            example("weir-lab", "experiments", &words)
        }
        ["search", ref numbers @ ..] => example("weir-discipline", "search", numbers),
        _ => {
            eprintln!(
                "usage: cargo xtask ci | tidy | lines [FOLDER] | golden [--update] | peers [SCENARIO...] | compare [SCENARIO...] | \
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
        let is_good = cargo(&["fmt", "--all", "--check"], &[])
            && tidy()
            && dependencies()
            && cargo(&words(lints), &[])
            && cargo(&words(&format!("{TEST} --no-run")), &[]);
        packages.join().is_ok_and(|installed| installed) && is_good && tests()
    })
}

/// Runs every test. One test is a virtual machine that keeps one processor busy for minutes. Meanwhile the other
/// processor runs tests that do not measure time.
fn tests() -> bool {
    let (machine, fuzz) = (
        "a_stranger_has_a_protected_uplink_in_minutes",
        "no_input_makes_a_target_fail",
    );
    let beside = [
        format!("{TEST} --lib --bins --examples --test mutations"),
        format!("{TEST} --doc"),
    ];
    let (said, is_good) = thread::scope(|scope| {
        let machine = scope.spawn(|| command(&words(&format!("{TEST} --test package"))).output());
        let is_good = beside.map(|tests| cargo(&words(&tests), &[("RUST_TEST_THREADS", "1")]));
        (machine.join(), is_good == [true; 2])
    });
    let Ok(Ok(output)) = said else { return false };
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let rest = format!("{TEST} --test * -- --skip {machine} --skip {fuzz}");
    cargo(&words(&rest), &[]) && output.status.success() && is_good
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

fn golden(update: bool) -> bool {
    let update = if update { "1" } else { "0" };
    let tests = "test --locked -p weir --test golden -p weir-element --test conversations -p weir-forces --test association --test transaction";
    cargo(&words(tests), &[("WEIR_GOLDEN_UPDATE", update)])
}

/// Runs a release build of an example with these arguments.
fn example(package: &str, name: &str, arguments: &[&str]) -> bool {
    let run = [
        "run",
        "--release",
        "--locked",
        "-p",
        package,
        "--example",
        name,
        "--",
    ];
    cargo(&[&run, arguments].concat(), &[])
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
