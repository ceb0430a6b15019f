//! Processes that keep the machine's processors busy.

use std::process::{Child, Command};

/// Busy processes, which end when this value is dropped.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    pub(crate) fn start(count: usize) -> Self {
        let process = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        Self((0..count).map(process).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
