//! Ends the rules that keep transit from the kernel when the forwarding thread stalls.
//!
//! ```text
//!  forwarding thread                    the kernel
//!  [lease::Lease] -- marked frame --> egress hook of `lo`: renew the element of `lease`, drop the frame
//!                                                              |
//!  frame of a network -------------> ingress hook of a port: is `lease` empty? --yes--> the kernel forwards
//!                                                              |
//!                                                              +--no--> RULES
//! ```
//!
//! A stalled process does not vanish: it may be frozen by its control group, stopped together with its supervisor, or
//! waiting in a driver. The table stays, and without a lease nobody would forward. So every chain begins with a rule
//! that accepts everything while a set has no element, and the element lives only for `watchdog`.
//!
//! Only a frame with the forwarding thread's own mark renews the element, when the thread sends it: this takes the
//! thread a system call of some microseconds, several times in the element's life, and waits for no lock. A renewal by
//! netlink would wait while another process loads a large ruleset, and each renewal would make `nft` of other processes
//! start again, because it is a new generation of the ruleset. No packet from a network can renew the element: the hook
//! sees only frames that this machine sends, and only a privileged process can mark them.
//!
//! The chain is at `lo`, which every network namespace has, or at one of the ports while `lo` is down.
//!
//! [lease::Lease]: crate::worker::Lease

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_base::Span;
use weir_lfb::router::Mark;

use super::links::Links;
use super::nft::{self, Chain, Hook, NF_NETDEV_EGRESS, Part, Rule};

/// The set, in the guard's table.
const SET: &str = "lease";
/// Prefix of the name of the chain that renews.
const RENEWING_PREFIX: &str = "renew-";
/// The kernel's index of the loopback interface, in every network namespace.
const LOOPBACK: u32 = 1;

/// How to renew the lease of a guard.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The mark (`SO_MARK`) of the frames that renew. Each guard of this network namespace has its own.
    pub(crate) mark: u32,
    /// Index of the interface through which they are sent. It may change.
    pub(crate) device: Arc<AtomicU32>,
    /// The time for which each frame renews the lease.
    pub(crate) lifetime: Span,
}

/// The terms on which the rules of a guard expire.
#[derive(Debug)]
pub(super) struct Terms(Renewal);

impl Terms {
    /// Terms with their own mark: each renewal lasts for `lifetime`.
    pub(super) fn new(lifetime: Span) -> Self {
        const NOBODY_ELSES: u32 = 1 << 31; // programs number their marks from one on
        let random = RandomState::new().build_hasher().finish();
        Self(Renewal {
            mark: random as u32 | NOBODY_ELSES,
            device: Arc::default(),
            lifetime,
        })
    }

    /// How to renew the lease.
    pub(super) fn renewal(&self) -> Renewal {
        self.0.clone()
    }

    /// Creates the set in the guard's table.
    pub(super) fn new_set(&self, table: &str) -> Part {
        nft::new_set(table, SET, self.0.lifetime)
    }

    /// The rule for the start of every chain.
    pub(super) fn rule() -> Rule {
        Rule::new().while_empty(SET).accept()
    }

    /// The chain that renews. `ports` are the names of the interfaces that may have it instead of `lo`.
    pub(super) fn renewing<'a>(
        &self,
        ports: impl IntoIterator<Item = &'a String>,
        links: &Links,
    ) -> Option<Chain> {
        let up = |port: &&String| links.values().any(|link| link.up && link.name == **port);
        let loopback = links.get(&LOOPBACK);
        let device = match loopback.filter(|link| !link.up) {
            Some(_) => ports.into_iter().find(up),
            None => None,
        };
        let device = device.or(loopback.map(|link| &link.name))?;
        let index = links.iter().find(|(_, link)| link.name == *device)?.0;
        let hook = Hook {
            number: NF_NETDEV_EGRESS,
            device: device.clone(),
            index: *index,
            priority: i32::MIN,
            drops: false,
        };
        let mark = Mark {
            value: self.0.mark,
            mask: u32::MAX,
        };
        let renews = Rule::new().marked(mark).renew(SET, self.0.lifetime);
        Some(Chain {
            name: format!("{RENEWING_PREFIX}{device}"),
            hook: Some(hook),
            rules: vec![renews.drop()],
        })
    }

    /// Records that a chain is active: renewing frames then go through its interface.
    pub(super) fn put(&self, chain: &Chain) {
        if let Some(hook) = &chain.hook
            && chain.name.starts_with(RENEWING_PREFIX)
        {
            self.0.device.store(hook.index, Ordering::Relaxed);
        }
    }
}
