//! The work of a layer outside the packet path: the habitat gives it turns on a thread of its own.

use std::any::Any;

use weir_base::Instant;
use weir_path::plane::Plane;

use crate::Compiled;

/// Work of a layer between two turns.
pub trait Background {
    /// Does the pending work. `compiled` is the layer of the plan stored last; `None` if it is switched off.
    fn turn(
        &mut self,
        compiled: Option<&dyn Compiled>,
        forwarding: &dyn ForwardingThread,
    ) -> Result<(), NoAnswer>;
}

/// Work on the forwarding thread, and its result.
pub type Work = Box<dyn FnOnce(&mut Plane, Instant) -> Box<dyn Any + Send> + Send>;

/// The thread that owns the plane.
pub trait ForwardingThread {
    /// Runs `work` on this thread between two bursts, and waits for its result.
    fn run(&self, work: Work) -> Result<Box<dyn Any + Send>, NoAnswer>;
}

impl dyn ForwardingThread + '_ {
    /// [`Self::run`] with a result of a known type.
    pub fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Plane, Instant) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let result = self.run(Box::new(|plane, now| Box::new(work(plane, now))))?;
        let result = result.downcast();
        Ok(*result.unwrap_or_else(|_| unreachable!("the result of other work")))
    }
}

/// The forwarding thread did not answer: it has stopped, or is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the forwarding thread does not answer")]
pub struct NoAnswer;
