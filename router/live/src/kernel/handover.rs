//! The instants at which transit moves from the kernel to the router and back.
//!
//! ```text
//!  kernel forwards | router forwards                    router forwards | kernel forwards
//!  ----------------+----------------> time              ----------------+----------------> time
//!                 from                                                 until
//!  chains: meta time < FROM accept; RULES               chains: meta time >= UNTIL accept; RULES
//!  ring:   frames stamped before FROM are forgotten      ring:   frames stamped from UNTIL on are forgotten
//! ```
//!
//! Both sides see each frame, and each decides by the wall clock: the chain by the time at which it evaluates a frame,
//! the router by the stamp that the packet tap gave the frame, on the same processor and less than a microsecond
//! before. So an instant that is still in the future when the rule is committed divides the frames: exactly one side
//! forwards each frame, except a frame that is between the two when the instant comes. (If some program on the machine
//! requests software time stamps, the kernel stamps frames before they wait in a processor's backlog, and a frame that
//! waits there at that instant is an exception too.)
//!
//! The rule with the time is needed only briefly: [`TransitGuard::settle`] removes it, so that it does not slow down
//! frames, and a wall clock that is set back later has no effect.

use weir_base::Span;
use weir_path::plane::Mode;

use super::nft::Compare;
use super::transit::{Error, Side, TransitGuard};
use crate::clock::UnixTime;

/// Time within which the kernel activates rules and the router learns the instant, unless the machine is overloaded.
const COMMIT_TIME: Span = Span::from_millis(40);

impl TransitGuard {
    /// Takes transit at these ports from the kernel, at all of them or none. Returns the instant, in the near future,
    /// from which the frames belong to the router.
    pub fn take(&mut self, ports: &[(Side, Mode)]) -> Result<UnixTime, Error> {
        let from = UnixTime::now().after(COMMIT_TIME);
        self.protect(ports, (Compare::Below, from))?;
        // This may be late: the kernel may have forwarded until now.
        Ok(from.max(UnixTime::now()))
    }

    /// Gives transit at these ports back to the kernel, at all of them or none. Returns the instant, in the near
    /// future, from which the frames belong to the kernel.
    pub fn give_back(&mut self, ports: &[Side]) -> Result<UnixTime, Error> {
        // Packets that the kernel forwards after the handover are not the machine's own. This comes first: it takes
        // several commits, and the router must learn the instant before it comes.
        self.end_limits(ports)?;
        let until = UnixTime::now().after(COMMIT_TIME);
        self.set_kernels(ports, Some((Compare::AtLeast, until)))?;
        Ok(until)
    }

    /// Removes the rule with the time from ports that were taken. Call it when that time has come.
    pub fn settle(&mut self, ports: &[Side]) -> Result<(), Error> {
        self.set_kernels(ports, None)
    }
}
