//! Our simulator compared with ns-3 and ns-2, and with the queues of Debian's kernel: the same scenarios, the same
//! number of seeds, a verdict for each measure, and the processor time of the simulators. The results are discussed in
//! docs/agreement.md.
//!
//! The peers' programs are not part of this repository. They are searched for in `../shared/peers`, or in the folder
//! given with `--peers`: `ns3` with a Makefile, and `ns2` with scripts.

mod cases;
mod guest;
mod read;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cases::{Case, Peer};
use guest::Guest;
use read::Bar;
use serde_json::Value;

use crate::program::{self, output};
use weir_experiment::compare::number::with_half;
use weir_experiment::statistics::Summary;

const USAGE: &str = "cargo xtask peers [--runs N] [--seconds N] [--peers DIR] [--from DIR] \
    [--weir PROGRAM] [SCENARIO...]
  SCENARIO  forces, sdbm, lrufq, fan, bneck, linux or time [default: all]
  --runs    seeds of each case [default: 10]
  --seconds simulated time in s, for scenarios that do not define it
  --peers   folder of the peers' programs [default: ../shared/peers]
  --from    read ns-3's results from DIR/SCENARIO.jsonl, if it exists
  --weir    release binary to use [default: build one]";

const REMEDY: &str = "apt-get install g++ make time libns3-dev ns2";
/// Processor times are medians of this many runs of both programs, which alternate.
const ROUNDS: usize = 3;

struct Options {
    runs: usize,
    seconds: Option<f64>,
    peers: PathBuf,
    from: Option<PathBuf>,
    weir: Option<PathBuf>,
    scenarios: Vec<String>,
}

/// The programs and folders that run the cases.
struct Bench {
    options: Options,
    root: PathBuf,
    /// The folder where the peers' programs are built and their results kept.
    build: PathBuf,
    weir: PathBuf,
    /// A guest with Debian's kernel, if a scenario needs it.
    guest: Option<Guest>,
}

/// Runs `cargo xtask peers` with these arguments.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), String> {
    let options = parse(root, words)?;
    let build = program::target(root).join("peers");
    let weir = match &options.weir {
        Some(weir) => weir.clone(),
        None => program::build_weir(root)?,
    };
    fs::create_dir_all(&build).map_err(|error| format!("{}: {error}", build.display()))?;
    let scenarios = options.scenarios.clone();
    let named =
        |name: &str| scenarios.is_empty() || scenarios.iter().any(|scenario| scenario == name);
    let guest = if named(cases::LINUX) {
        Some(Guest::build(&build.join("linux"), &weir)?)
    } else {
        None
    };
    let bench = Bench {
        options,
        root: root.to_owned(),
        build,
        weir,
        guest,
    };
    if scenarios != [cases::LINUX] {
        bench.build_peers()?;
    }
    let mut rows = String::new();
    for scenario in cases::SCENARIOS.into_iter().filter(|name| named(name)) {
        for case in cases::of(scenario, bench.options.seconds) {
            rows += &bench.compare(&case)?;
        }
    }
    if !rows.is_empty() {
        println!("| scenario | variant | measure | peer | weir | difference | bar | verdict |");
        println!("|---|---|---|---|---|---|---|---|\n{rows}");
    }
    if named("time") {
        println!("| scenario | variant | simulated s | peer | user s | weir, user s | ratio |");
        println!("|---|---|---|---|---|---|---|");
        for case in cases::of_time() {
            println!("{}", bench.time(&case)?);
        }
    }
    Ok(())
}

fn parse(root: &Path, words: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        runs: 10,
        seconds: None,
        peers: root.join("../shared/peers"),
        from: None,
        weir: None,
        scenarios: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} requires a value"));
        let bad = |value: &str| format!("{word} {value}: must be a positive number");
        match *word {
            "--runs" => {
                let value = value()?;
                let runs = value.parse().ok().filter(|&runs| runs > 0);
                options.runs = runs.ok_or(bad(value))?;
            }
            "--seconds" => {
                let value = value()?;
                let seconds = value.parse().ok().filter(|&seconds| seconds > 20.0);
                let seconds = seconds.ok_or(format!(
                    "{word} {value}: must be greater than the warm-up, 20"
                ))?;
                options.seconds = Some(seconds);
            }
            "--peers" => options.peers = PathBuf::from(value()?),
            "--from" => options.from = Some(PathBuf::from(value()?)),
            "--weir" => options.weir = Some(PathBuf::from(value()?)),
            name if name == "time" || cases::SCENARIOS.contains(&name) => {
                options.scenarios.push(name.to_owned());
            }
            _ => return Err(format!("unknown argument \"{word}\"\nusage: {USAGE}")),
        }
    }
    Ok(options)
}

impl Bench {
    fn build_peers(&self) -> Result<(), String> {
        let peers = &self.options.peers;
        if !peers.join("ns3/Makefile").exists() || !peers.join("ns2/fan.tcl").exists() {
            return Err(format!(
                "{}: the programs of ns-3 and ns-2 are missing (ns3/Makefile, ns2/fan.tcl); set their folder with \
                 --peers DIR",
                peers.display()
            ));
        }
        let missing = ["g++", "make", "ns", "/usr/bin/time"].into_iter();
        let missing: Vec<&str> = missing.filter(|program| !installed(program)).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!("not installed: {missing}; remedy: {REMEDY}"));
        }
        let made = Command::new("make")
            .arg("--silent")
            .arg("-C")
            .arg(peers.join("ns3"))
            .arg(format!("BIN={}", self.build.join("ns3").display()))
            .status();
        match made {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("ns-3's programs were not built; remedy: {REMEDY}")),
        }
    }

    /// The rows of a case.
    fn compare(&self, case: &Case) -> Result<String, String> {
        eprintln!("{} {} {}", case.peer.name(), case.scenario, case.name);
        let lines = match self.earlier(case) {
            Some(lines) => lines,
            None => self.run_peer(case)?,
        };
        let warmed_up = self.run_weir(case, false)?;
        let whole = if case.measures.iter().any(|measure| measure.whole) {
            self.run_weir(case, true)?
        } else {
            Vec::new()
        };
        let mut rows = String::new();
        for measure in &case.measures {
            let runs = if measure.whole { &whole } else { &warmed_up };
            let theirs = summary(lines.iter().filter_map(&measure.peer));
            let ours = summary(runs.iter().filter_map(&measure.weir));
            let (Some(theirs), Some(ours)) = (theirs, ours) else {
                let (case, name) = (&case.name, &measure.name);
                return Err(format!("{case}: one program did not report \"{name}\""));
            };
            rows += &row(case, &measure.name, measure.bar, &theirs, &ours);
        }
        Ok(rows)
    }

    /// The peer's output lines from an earlier run.
    fn earlier(&self, case: &Case) -> Option<Vec<Value>> {
        let folder = self.options.from.as_ref()?;
        let file = folder.join(case.scenario).with_extension("jsonl");
        let text = (case.peer == Peer::Ns3).then(|| fs::read_to_string(file).ok())??;
        let same = |line: &Value| {
            let mut fields = case.known_by.iter();
            fields.all(|(name, wanted)| match wanted.parse::<f64>() {
                Ok(wanted) => line[name]
                    .as_f64()
                    .is_some_and(|x| (x - wanted).abs() < 1e-3),
                Err(_) => line[name].as_str() == Some(wanted),
            })
        };
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.filter(same).take(self.options.runs).collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// Runs the peer once for each seed, and keeps its output lines.
    fn run_peer(&self, case: &Case) -> Result<Vec<Value>, String> {
        let mut lines = Vec::new();
        let mut kept = String::new();
        for seed in 1..=self.options.runs {
            let mut command = self.peer(case, seed)?;
            let text = output(&mut command)?;
            let value: Value = match case.peer {
                Peer::Linux => guest::results(&text, case.seconds)?,
                Peer::Ns3 | Peer::Ns2 => {
                    let line = text.lines().last().unwrap_or_default();
                    let value = serde_json::from_str(line);
                    value.map_err(|error| format!("{command:?}: {error}"))?
                }
            };
            kept += &format!("{value}\n");
            lines.push(value);
        }
        let file = format!("{}.jsonl", case.scenario);
        let file = self.build.join(case.peer.name()).join(file);
        let before = fs::read_to_string(&file).unwrap_or_default();
        let folder = file.parent().unwrap_or(&self.build);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&file, before + &kept))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(lines)
    }

    fn peer(&self, case: &Case, seed: usize) -> Result<Command, String> {
        let mut command = match case.peer {
            Peer::Ns3 => {
                let mut command = Command::new(self.build.join("ns3").join(case.scenario));
                command.arg(format!("--simTime={}", case.seconds));
                command.arg(format!("--run={seed}"));
                command
            }
            Peer::Ns2 => {
                let mut command = Command::new("ns");
                command.arg(self.script(case.scenario, seed)?);
                command
            }
            Peer::Linux => {
                let guest = self.guest.as_ref().ok_or("no guest was built")?;
                return Ok(guest.command(case, seed));
            }
        };
        command.args(&case.arguments);
        Ok(command)
    }

    /// A copy of ns-2's script with this seed: the scripts have no argument for it.
    fn script(&self, scenario: &str, seed: usize) -> Result<PathBuf, String> {
        let source = self.options.peers.join(format!("ns2/{scenario}.tcl"));
        let copy = self.build.join(format!("{scenario}-{seed}.tcl"));
        let text = fs::read_to_string(&source)
            .map_err(|error| format!("{}: {error}", source.display()))?
            .replace("$rng seed 1", &format!("$rng seed {seed}"));
        fs::write(&copy, format!("ns-random {seed}\n{text}"))
            .map_err(|error| format!("{}: {error}", copy.display()))?;
        Ok(copy)
    }

    fn run_weir(&self, case: &Case, whole: bool) -> Result<Vec<Value>, String> {
        let mut command = self.weir(case);
        command.args(["--runs", &self.options.runs.to_string()]);
        if whole {
            command.args(["--set", "warm_up=\"0 s\""]);
        }
        let text = output(&mut command)?;
        let results: Value =
            serde_json::from_str(&text).map_err(|error| format!("{command:?}: {error}"))?;
        let runs = results["points"][0]["runs"].as_array();
        runs.cloned().ok_or(format!("{command:?}: no runs"))
    }

    fn weir(&self, case: &Case) -> Command {
        let file = format!("scenarios/peers/{}.toml", case.scenario);
        let mut command = Command::new(&self.weir);
        command.arg("run").arg(self.root.join(file)).arg("--json");
        command.args(["--variant", case.variant]);
        let duration = format!("duration=\"{} s\"", case.seconds);
        for setting in case.set.iter().chain([&duration]) {
            command.args(["--set", setting]);
        }
        command
    }

    /// The row of processor times of a case.
    fn time(&self, case: &Case) -> Result<String, String> {
        eprintln!("time: {} {} {}", case.peer.name(), case.scenario, case.name);
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(self.user_seconds(self.peer(case, 1)?)?);
            let mut weir = self.weir(case);
            weir.args(["--runs", "1", "--jobs", "1"]);
            ours.push(self.user_seconds(weir)?);
        }
        let (theirs, ours) = (median(theirs), median(ours));
        let (seconds, ratio) = (case.seconds, theirs / ours.max(0.01));
        Ok(format!(
            "| {} | {} | {seconds} | {} | {theirs:.2} | {ours:.2} | {ratio:.0} |",
            case.scenario,
            case.name,
            case.peer.name(),
        ))
    }

    fn user_seconds(&self, command: Command) -> Result<f64, String> {
        let file = self.build.join("user-seconds");
        let mut timed = Command::new("/usr/bin/time");
        timed.args(["-f", "%U", "-o"]).arg(&file);
        timed.arg(command.get_program()).args(command.get_args());
        output(&mut timed)?;
        let text = fs::read_to_string(&file).unwrap_or_default();
        let seconds = text.trim().parse();
        seconds.map_err(|_| format!("{}: contains no time", file.display()))
    }
}

fn installed(program: &str) -> bool {
    found(program).is_some()
}

/// The path of a program.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An absolute path replaces the folder that it is joined to.
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.exists())
}

fn row(case: &Case, name: &str, bar: Bar, theirs: &Summary, ours: &Summary) -> String {
    let difference = ours.mean - theirs.mean;
    let (limit, bar) = match bar {
        Bar::Relative(part) => (part * theirs.mean.abs(), format!("{} %", 100.0 * part)),
        Bar::Absolute(limit) => (limit, limit.to_string()),
    };
    let shown = match bar.ends_with('%') {
        true if theirs.mean != 0.0 => format!("{:+.1} %", 100.0 * difference / theirs.mean.abs()),
        _ => format!("{difference:+.3}"),
    };
    let verdict = if difference.abs() <= limit {
        "agrees"
    } else if difference.abs() <= half(theirs).hypot(half(ours)) {
        "within the intervals"
    } else {
        "differs"
    };
    format!(
        "| {} | {}, {} | {name} | {} | {} | {shown} | {bar} | {verdict} |\n",
        case.scenario,
        case.peer.name(),
        case.name,
        with_half(theirs, 4),
        with_half(ours, 4),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The summary of these values; `None` without values.
fn summary(values: impl Iterator<Item = f64>) -> Option<Summary> {
    Summary::of(&values.collect::<Vec<_>>())
}

/// Half of the 95 % interval; zero for a single run.
fn half(summary: &Summary) -> f64 {
    summary.ci95.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options_or_scenarios() {
        let parse = |words: &[&str]| parse(Path::new("/r"), words);
        let options = parse(&["--runs", "3", "fan", "time"]);
        let options = options.map(|options| (options.runs, options.scenarios));
        assert_eq!(options, Ok((3, vec!["fan".to_owned(), "time".to_owned()])));
        assert!(parse(&["--runs", "0"]).is_err());
        assert!(parse(&["--runs"]).is_err());
        assert!(parse(&["fun"]).is_err());
    }

    #[test]
    fn every_scenario_has_cases_with_measures() {
        for scenario in cases::SCENARIOS {
            let cases = cases::of(scenario, None);
            assert!(cases.len() >= 2, "{scenario}");
            assert!(cases.iter().all(|case| !case.measures.is_empty()));
        }
        assert!(cases::of_time().iter().all(|case| case.measures.is_empty()));
    }
}
