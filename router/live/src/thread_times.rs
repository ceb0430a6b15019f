//! Processor time of this process, by thread.
//!
//! The kernel keeps it in `/proc/self/task/TID/schedstat`: nanoseconds on a processor (in the program and in the
//! kernel), and nanoseconds for which the thread was ready but had to wait for a processor.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The times of a thread since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadTimes {
    /// The name of the thread.
    pub name: String,
    /// Seconds on a processor.
    pub busy_s: f64,
    /// Seconds for which it waited for a processor.
    pub wait_s: f64,
}

/// The times of all threads of this process, in the order in which they began.
pub fn read() -> io::Result<Vec<ThreadTimes>> {
    let tasks = fs::read_dir("/proc/self/task")?;
    let tasks = tasks.map(|task| Ok(task?.path()));
    let mut tasks = tasks.collect::<io::Result<Vec<_>>>()?;
    tasks.sort();
    Ok(tasks.iter().filter_map(|task| of(task)).collect())
}

/// The times of one thread; `None` if it has just ended.
fn of(task: &Path) -> Option<ThreadTimes> {
    let name = fs::read_to_string(task.join("comm")).ok()?;
    let times = fs::read_to_string(task.join("schedstat")).ok()?;
    let seconds = |word: &str| Some(word.parse::<f64>().ok()? / 1e9);
    let mut words = times.split_whitespace();
    Some(ThreadTimes {
        name: name.trim_end().to_owned(),
        busy_s: seconds(words.next()?)?,
        wait_s: seconds(words.next()?)?,
    })
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;
    use crate::clock::thread_cpu_time;

    #[test]
    fn work_is_charged_to_its_thread() {
        let worker = std::thread::Builder::new().name("worker".to_owned());
        let times = worker.spawn(|| {
            while thread_cpu_time() < Span::from_millis(60) {
                std::hint::spin_loop();
            }
            read().unwrap()
        });
        let times = times.unwrap().join().unwrap();
        let own = times.iter().find(|thread| thread.name == "worker").unwrap();
        // The kernel brings the number up to date at each of its ticks.
        assert!((0.04..0.5).contains(&own.busy_s), "{times:?}");
    }
}
