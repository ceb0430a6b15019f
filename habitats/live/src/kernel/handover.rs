//! At which instant transit goes from the kernel to the router, and back.
//!
//! ```text
//!  kernel forwards | router forwards                    router forwards | kernel forwards
//!  ----------------+----------------> time              ----------------+----------------> time
//!                 from                                                 until
//!  chains: meta time < FROM accept; RULES               chains: meta time >= UNTIL accept; RULES
//!  ring:   frames stamped before FROM are forgotten      ring:   frames stamped from UNTIL on are forgotten
//! ```
//!
//! Both sides see each frame, and each goes by the wall clock: the chain by the time at which it judges
//! a frame, the router by the stamp that the packet tap gave it, on the same processor and less than a
//! microsecond before. So an instant that lies ahead when the rule is committed parts the frames: none is
//! forwarded twice or by nobody, but for one that the instant falls into the middle of. (Where some
//! program on the machine asks for software time stamps the kernel stamps frames before they wait in a
//! processor's backlog, and a frame that is there at that instant is such a frame too.)
//!
//! The rule with the time is needed for an instant only: [`TransitGuard::settle`] removes it, so that
//! frames do not pay for it and a wall clock that is set back moves nothing.

use weir_base::Span;
use weir_path::plane::Mode;

use super::nft::Compare;
use super::transit::{Error, TransitGuard};
use crate::clock::UnixTime;

/// The kernel puts rules in force within this time, unless the machine is overloaded.
const COMMIT_TIME: Span = Span::from_millis(40);

impl TransitGuard {
    /// Takes transit at these ports from the kernel, all of them or none: the router has the frames
    /// from the instant on that is given back, which is in the near future.
    pub fn take(&mut self, ports: &[(&str, Mode)]) -> Result<UnixTime, Error> {
        let from = UnixTime::now().after(COMMIT_TIME);
        self.protect(ports, (Compare::Below, from))?;
        // Late: the kernel may have forwarded until now.
        Ok(from.max(UnixTime::now()))
    }

    /// Gives transit at these ports back to the kernel, all of them or none: it has the frames from
    /// the instant on that is given back, which is in the near future.
    pub fn give_back(&mut self, ports: &[&str]) -> Result<UnixTime, Error> {
        let until = UnixTime::now().after(COMMIT_TIME);
        let all = || ports.iter().copied();
        self.set_kernels(all(), Some((Compare::AtLeast, until)))?;
        // Packets that it forwards from then on are not the machine's own.
        self.end_limits(all())?;
        Ok(until)
    }

    /// Removes the rule with the time from ports that were taken. To be called when it has come.
    pub fn settle(&mut self, ports: &[&str]) -> Result<(), Error> {
        self.set_kernels(ports.iter().copied(), None)
    }
}
