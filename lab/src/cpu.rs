//! Processor time: of this process, of others, of the machine.

use std::collections::HashMap;
use std::fs;

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

/// The processor time that all programs of this machine together have used, in seconds.
pub(crate) fn cpu_seconds_of_all() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let words = text.lines().next().unwrap_or_default().split_whitespace();
    let fields: Vec<f64> = words.skip(1).filter_map(|w| w.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = [0, 1, 2, 5, 6, 7];
    busy.iter().filter_map(|n| fields.get(*n)).sum::<f64>() / CLOCK_TICKS
}

/// Linux reports processor time to programs in hundredths of a second.
const CLOCK_TICKS: f64 = 100.0;

/// Numeric fields of a `stat` file by their place (from 0, as if the name had no spaces).
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
}
