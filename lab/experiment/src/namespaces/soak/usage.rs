//! Memory, files and threads of the router's process, as reported by the kernel.

use std::fs;

use super::bed::Bed;
use crate::error::Error;
use crate::namespaces::process::status_field;

/// Resources of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    /// The process ID.
    pub(super) pid: u32,
    /// Resident memory, in bytes.
    pub(super) memory: u64,
    /// Number of open files.
    pub(super) files: u64,
    /// Number of threads.
    pub(super) threads: u64,
}

impl Usage {
    /// The router's resources now; `None` if it does not answer in time.
    pub(super) fn of(bed: &Bed) -> Result<Option<Self>, Error> {
        let Some(pid) = bed.process() else {
            return Ok(None);
        };
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).map_err(Error::io(format!("cannot read {path}")))
        };
        let status = read("status")?;
        let files = fs::read_dir(format!("/proc/{pid}/fd"));
        let files = files
            .map_err(Error::io("cannot count the router's open files"))?
            .count();
        Ok(Some(Self {
            pid,
            memory: status_field(&status, "VmRSS:") << 10,
            files: files as u64,
            threads: status_field(&status, "Threads:"),
        }))
    }

    /// The median of each resource, and the process of the last sample; `None` without samples.
    pub(super) fn median(looks: Vec<Self>) -> Option<Self> {
        let pid = looks.last()?.pid;
        let of = |what: fn(&Self) -> u64| {
            let mut all: Vec<u64> = looks.iter().map(what).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        Some(Self {
            pid,
            memory: of(|usage| usage.memory),
            files: of(|usage| usage.files),
            threads: of(|usage| usage.threads),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_no_median() {
        let look = |memory| Usage {
            pid: 7,
            memory,
            files: 3,
            threads: 2,
        };
        assert_eq!(
            Usage::median(vec![look(5), look(900), look(6)]),
            Some(look(6))
        );
        assert_eq!(Usage::median(Vec::new()), None);
    }

    #[test]
    fn fields_have_units_or_not() {
        let status = "Name:\tweir\nVmRSS:\t   20480 kB\nThreads:\t7\n";
        assert_eq!(status_field(status, "VmRSS:"), 20_480);
        assert_eq!(status_field(status, "Threads:"), 7);
        assert_eq!(status_field(status, "Missing:"), 0);
    }
}
