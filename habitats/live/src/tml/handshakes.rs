//! The handshakes of a listener: a bounded number at once, each with a time limit.
//!
//! When one too many begins, the oldest one ends. An honest handshake takes milliseconds, so it survives a stranger
//! who opens connections and says nothing.

use std::collections::VecDeque;

use tokio::task::AbortHandle;

use super::faults::{Fault, Faults};

/// Handshakes that may be under way at a listener.
pub(super) const HANDSHAKES_MAX: usize = 1024;

/// The handshakes under way. They end when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Handshakes(VecDeque<AbortHandle>);

impl Handshakes {
    /// Number of handshakes under way.
    pub(super) fn len(&mut self) -> usize {
        self.0.retain(|handshake| !handshake.is_finished());
        self.0.len()
    }

    /// Begins a handshake.
    pub(super) fn begin(
        &mut self,
        faults: &Faults,
        handshake: impl Future<Output = ()> + Send + 'static,
    ) {
        if self.len() >= HANDSHAKES_MAX
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
            let what =
                format_args!("{HANDSHAKES_MAX} handshakes at once: the oldest one was ended");
            faults.report(Fault::TooMany, what);
        }
        self.0.push_back(tokio::spawn(handshake).abort_handle());
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}
