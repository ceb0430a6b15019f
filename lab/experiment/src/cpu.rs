//! Processor time of this process, of other processes and of the machine.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::ops::RangeInclusive;
use std::thread;
use std::time::Instant;

use crate::results::Metrics;

/// The processor time that this process and its ended children have used, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    seconds(&stat_fields("/proc/self/stat"), WITH_ENDED_CHILDREN)
}

/// The processor time that the running process `pid` has used, in seconds.
pub(crate) fn cpu_seconds_of(pid: u32) -> f64 {
    seconds(&stat_fields(&format!("/proc/{pid}/stat")), ALONE)
}

/// Fields of a `stat` file: the processor time of a process, and that with its ended children.
const ALONE: RangeInclusive<usize> = 13..=14;
const WITH_ENDED_CHILDREN: RangeInclusive<usize> = 13..=16;

fn seconds(stat: &HashMap<usize, f64>, fields: RangeInclusive<usize>) -> f64 {
    fields.filter_map(|n| stat.get(&n)).sum::<f64>() / CLOCK_TICKS
}

/// The processor time that others have used since the machine started: all programs except this process and its
/// descendants, and the host of a virtual machine.
#[derive(Debug)]
pub struct Others {
    seconds: f64,
    /// The part of `seconds` that the host withheld (steal time).
    stolen: f64,
    /// The part of `seconds` spent in interrupts, which may be for this process's own packets.
    interrupts: f64,
    /// Running programs of others.
    programs: HashMap<u32, Program>,
}

impl Others {
    /// The use until now.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = text.lines().next().unwrap_or_default().split_whitespace();
        let fields: Vec<f64> = words.skip(1).filter_map(|w| w.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let of = |field: &usize| fields.get(*field).copied().unwrap_or(0.0) / CLOCK_TICKS;
        let mut programs = programs();
        let own = own(&programs);
        let own_seconds = own.iter().map(|pid| programs[pid].with_ended_children);
        let own_seconds: f64 = own_seconds.sum();
        programs.retain(|pid, _| !own.contains(pid));
        Self {
            seconds: [0, 1, 2, 5, 6, 7].iter().map(of).sum::<f64>() - own_seconds,
            stolen: of(&7),
            interrupts: of(&5) + of(&6),
            programs,
        }
    }

    /// Number of processors that others surely kept busy from `before` to `self`, a period of `length` seconds.
    pub fn processors(&self, before: &Self, length: f64) -> f64 {
        (self.seconds - before.seconds - DOUBT_S).max(0.0) / length
    }

    /// Like [`Self::processors`], without interrupts.
    pub(crate) fn processors_of_programs(&self, before: &Self, length: f64) -> f64 {
        let interrupts = (self.interrupts - before.interrupts) / length;
        (self.processors(before, length) - interrupts).max(0.0)
    }

    /// The causes of the load as text: the program that used most, and the host.
    pub fn who(&self, before: &Self, length: f64) -> String {
        let used = self.programs.iter().map(|(pid, program)| {
            let earlier = before.programs.get(pid).map_or(0.0, |p| p.seconds);
            (program.name.as_str(), program.seconds - earlier)
        });
        let most = used.max_by(|a, b| a.1.total_cmp(&b.1));
        let (name, seconds) = most.unwrap_or(("none", 0.0));
        let host = (self.stolen - before.stolen) / length;
        format!(
            "most by `{name}`: {:.1}; hypervisor steal: {host:.1}",
            seconds / length
        )
    }
}

crate::metrics! {
    LAB on lab;
    /// Adds the processor time of a run.
    pub(crate) fn add_metrics(routers: f64, others: f64) {
        /// CPU time of all routers
        "router_cpu_s" = routers;
        /// number of CPUs that other programs on this machine kept busy, mean; above about 0.1 the results are
        /// unreliable
        "others_cpu_ratio" = others;
    }
}

/// The share of the machine's processors that other programs, and the host of a virtual machine, used during a test.
/// (The run-queue delay of the tested threads would not do: most of it is caused by their own test.)
pub(crate) const OTHERS: &str = "others_ratio";
/// A measurement is disturbed if others use more than this share of the processors.
pub(crate) const BUSY_MAX: f64 = 0.05;
/// Maximum number of attempts at a measurement that others disturb; the last one counts, and its metrics include the
/// share.
const ATTEMPTS: u32 = 3;

/// Repeats a measurement if others used the processors.
pub(crate) fn undisturbed<E>(
    mut measure: impl FnMut() -> Result<Metrics, E>,
) -> Result<Metrics, E> {
    let processors = thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let mut attempt = 1;
    loop {
        let (before, began) = (Others::now(), Instant::now());
        let mut metrics = measure()?;
        let length = began.elapsed().as_secs_f64();
        let others = Others::now().processors_of_programs(&before, length) / processors;
        if others <= BUSY_MAX || attempt == ATTEMPTS {
            metrics.insert(OTHERS.to_owned(), others);
            return Ok(metrics);
        }
        attempt += 1;
    }
}

/// A running program, and its processor time in seconds.
#[derive(Debug, Default)]
struct Program {
    name: String,
    parent: u32,
    seconds: f64,
    with_ended_children: f64,
}

/// The running programs, by process.
fn programs() -> HashMap<u32, Program> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let read = |pid: u32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let fields = stat_fields(&format!("/proc/{pid}/stat"));
        let program = Program {
            name: name.trim().to_owned(),
            parent: fields.get(&3).copied().unwrap_or_default() as u32,
            seconds: seconds(&fields, ALONE),
            with_ended_children: seconds(&fields, WITH_ENDED_CHILDREN),
        };
        Some((pid, program))
    };
    pids.filter_map(read).collect()
}

/// This process and its descendants.
fn own(programs: &HashMap<u32, Program>) -> HashSet<u32> {
    let own = std::process::id();
    let is_own = |pid: &&u32| {
        let line = std::iter::successors(Some(**pid), |pid| Some(programs.get(pid)?.parent));
        line.take(DEPTH_MAX).any(|ancestor| ancestor == own)
    };
    programs.keys().filter(is_own).copied().collect()
}

/// Maximum number of ancestors that are looked at: while they are read, a process may get the number of another one.
const DEPTH_MAX: usize = 64;

/// Linux reports processor time to programs in hundredths of a second.
const CLOCK_TICKS: f64 = 100.0;

/// Error bound of a difference in seconds: the sum has several counters, each rounded to a tick.
const DOUBT_S: f64 = 4.0 / CLOCK_TICKS;

/// Numeric fields of a `stat` file by their index (from 0, as if the name had no spaces).
fn stat_fields(path: &str) -> HashMap<usize, f64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = rest.split_whitespace().enumerate();
    fields
        .filter_map(|(place, word)| Some((place + 2, word.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    #[test]
    fn processor_time_grows() {
        let before = cpu_seconds();
        let mut sum = 0_u64;
        while cpu_seconds() < before + 0.02 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu_seconds_of(std::process::id()) > 0.0);
    }

    fn others(seconds: f64, stolen: f64, programs: &[(u32, &str, f64)]) -> Others {
        let programs = programs.iter().map(|(pid, name, seconds)| {
            let program = Program {
                name: (*name).to_owned(),
                seconds: *seconds,
                ..Program::default()
            };
            (*pid, program)
        });
        Others {
            seconds,
            stolen,
            interrupts: stolen / 10.0,
            programs: programs.collect(),
        }
    }

    #[test]
    fn the_busiest_program_is_named() {
        let before = others(100.0, 5.0, &[(7, "make", 60.0), (8, "cc1", 1.0)]);
        let after = others(
            103.0,
            6.0,
            &[(7, "make", 60.5), (8, "cc1", 1.2), (9, "ld", 1.0)],
        );
        assert!((after.processors(&before, 2.0) - 1.48).abs() < 1e-9);
        assert!((after.processors_of_programs(&before, 2.0) - 1.43).abs() < 1e-9);
        let who = after.who(&before, 2.0);
        assert!(who.starts_with("most by `ld`: 0.5"), "{who}");
        assert!(who.ends_with("steal: 0.5"), "{who}");
    }

    #[test]
    fn running_descendants_are_not_others() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'while :; do :; done'; :"])
            .process_group(0)
            .spawn()
            .unwrap();
        let pid = child.id();
        let is_busy = |programs: &HashMap<u32, Program>| {
            let mut all = programs.values();
            all.any(|program| program.parent == pid && program.seconds >= 0.1)
        };
        while !is_busy(&programs()) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let (all, others) = (programs(), Others::now());
        let group = format!("-{pid}");
        let killed = std::process::Command::new("kill")
            .args(["-KILL", "--", &group])
            .status();
        assert!(killed.unwrap().success());
        child.wait().unwrap();
        assert_eq!(all[&pid].name, "sh");
        assert!(is_busy(&all));
        assert!(!is_busy(&others.programs));
        assert!(own(&all).contains(&std::process::id()));
        assert!(!own(&all).contains(&1));
    }
}
