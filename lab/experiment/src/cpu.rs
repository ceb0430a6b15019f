//! Processor time of this process, of other processes and of the machine.

use std::collections::HashMap;
use std::fs;
use std::thread;
use std::time::Instant;

use crate::results::Metrics;

/// The processor time that this process and its ended children have used, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let fields = stat_fields("/proc/self/stat");
    (13..=16).filter_map(|n| fields.get(&n)).sum::<f64>() / CLOCK_TICKS
}

/// The processor time that the running process `pid` has used, in seconds.
pub(crate) fn cpu_seconds_of(pid: u32) -> f64 {
    let fields = stat_fields(&format!("/proc/{pid}/stat"));
    (13..=14).filter_map(|n| fields.get(&n)).sum::<f64>() / CLOCK_TICKS
}

/// The processor time that others have used since the machine started: all programs except this process and its ended
/// children, and the host of a virtual machine.
pub(crate) struct Others {
    seconds: f64,
    /// The part of `seconds` that the host withheld (steal time).
    stolen: f64,
    /// The part of `seconds` spent in interrupts, which may be for this process's own packets.
    interrupts: f64,
    /// The name and the seconds of each running program.
    programs: HashMap<u32, (String, f64)>,
}

impl Others {
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = text.lines().next().unwrap_or_default().split_whitespace();
        let fields: Vec<f64> = words.skip(1).filter_map(|w| w.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let of = |field: &usize| fields.get(*field).copied().unwrap_or(0.0) / CLOCK_TICKS;
        Self {
            seconds: [0, 1, 2, 5, 6, 7].iter().map(of).sum::<f64>() - cpu_seconds(),
            stolen: of(&7),
            interrupts: of(&5) + of(&6),
            programs: programs().collect(),
        }
    }

    /// Number of processors that others surely kept busy from `before` to `self`, a period of `length` seconds.
    pub(crate) fn processors(&self, before: &Self, length: f64) -> f64 {
        (self.seconds - before.seconds - DOUBT_S).max(0.0) / length
    }

    /// Like [`Self::processors`], without interrupts.
    pub(crate) fn processors_of_programs(&self, before: &Self, length: f64) -> f64 {
        let interrupts = (self.interrupts - before.interrupts) / length;
        (self.processors(before, length) - interrupts).max(0.0)
    }

    /// The causes of the load as text: the program that used most, and the host.
    pub(crate) fn who(&self, before: &Self, length: f64) -> String {
        let used = self.programs.iter().map(|(pid, (name, seconds))| {
            let earlier = before
                .programs
                .get(pid)
                .map_or(0.0, |(_, seconds)| *seconds);
            (name.as_str(), seconds - earlier)
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

/// The running programs except this one: process, name and processor time in seconds.
fn programs() -> impl Iterator<Item = (u32, (String, f64))> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = pids.filter(|pid| *pid != std::process::id());
    others.filter_map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some((pid, (name.trim().to_owned(), cpu_seconds_of(pid))))
    })
}

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
        let programs = programs
            .iter()
            .map(|(pid, name, s)| (*pid, ((*name).to_owned(), *s)));
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
    fn running_programs_are_read_with_their_time() {
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        while cpu_seconds_of(busy.id()) < 0.1 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let now = Others::now();
        busy.kill().unwrap();
        busy.wait().unwrap();
        let (name, seconds) = &now.programs[&busy.id()];
        assert_eq!(name, "sh");
        assert!(*seconds >= 0.1);
        assert!(!now.programs.contains_key(&std::process::id()));
    }
}
