//! The hosts at one end of the flows, and their virtual time.
//!
//! ```text
//!  hash --> set [ a | b | - | c | - | - | - | d ]   a host to which queues refer stays; of the others a stranger
//!                                                   makes room first, then a trusted host
//! ```
//!
//! A host's tag is when its next packet would start if the hosts of this end took turns by bytes. A host whose tag is
//! ahead of the virtual time has had more than its share lately, whatever became of its flows.

/// Hosts of one end that are known at a time: so much more than there are queues that hardly any set is ever full.
pub(super) const HOSTS: usize = 1024;
/// Hosts of a set.
const WAYS: usize = 8;
/// No host, or no queue.
pub(super) const NONE: u16 = u16::MAX;
/// Packets of a source after which it is trusted.
const TRUSTED: u8 = 64;
/// All strangers at a destination together count as this many sources at most.
const STRANGERS: u64 = 2;
/// The share of the link that a source with one queue asks of its destination: shares are in 256ths.
pub(super) const ONE: u64 = 256;

/// One host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// When its next packet would start, in the virtual time of its end.
    pub(super) tag: u64,
    /// Of a destination: the parts of their shares that trusted sources want to send there, in 256ths.
    pub(super) trusted: u32,
    /// The same of strangers.
    pub(super) strangers: u32,
    /// Its queues that wait for a turn.
    pub(super) busy: u16,
    /// Queues that refer to it.
    referrers: u16,
    /// Flows in its shared queue, about.
    pub(super) crowd: u16,
    /// The queue that its flows share, if any.
    pub(super) shared: u16,
    /// Packets served, up to 255.
    pub(super) seen: u8,
}

impl Host {
    const NEW: Self = Self {
        tag: 0,
        trusted: 0,
        strangers: 0,
        busy: 0,
        referrers: 0,
        crowd: 0,
        shared: NONE,
        seen: 0,
    };

    /// Whether it has lasted: forged addresses do not.
    #[inline]
    pub(super) fn is_trusted(&self) -> bool {
        self.seen >= TRUSTED
    }

    /// The flows for which it wants turns: at least one.
    #[inline]
    pub(super) fn flows(&self) -> u32 {
        (u32::from(self.busy) + u32::from(self.crowd).saturating_sub(1)).max(1)
    }
}

/// How many times dearer a destination with these loads is than one with a single source, in 256ths, at least once.
/// Trusted sources count each, strangers all together as [`STRANGERS`] at most.
#[inline]
pub(super) fn price(trusted: u32, strangers: u32, for_trusted: bool) -> u64 {
    let (trusted, strangers) = (u64::from(trusted), u64::from(strangers));
    let load = (trusted + strangers.min(STRANGERS * ONE)).max(ONE);
    match for_trusted {
        true => load,
        false => load * (strangers / STRANGERS).max(ONE) / ONE,
    }
}

/// The hosts of one end.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The high half of each host's hash.
    tags: Box<[u32]>,
    hosts: Box<[Host]>,
    /// Hosts with a queue that waits.
    active: u32,
    /// The virtual time.
    pub(super) now: u64,
}

impl Hosts {
    /// Nobody is known. All memory is allocated now.
    pub(super) fn new() -> Self {
        Self {
            tags: vec![0; HOSTS].into_boxed_slice(),
            hosts: vec![Host::NEW; HOSTS].into_boxed_slice(),
            active: 0,
            now: 0,
        }
    }

    /// The host with this hash.
    #[inline]
    pub(super) fn find(&self, hash: u64) -> Option<u16> {
        let (first, tag) = place(hash);
        let set = &self.tags[first..first + WAYS];
        // Without a branch for each: the eight are compared at once.
        let same = set.iter().enumerate();
        let same = same.fold(0_u32, |same, (way, other)| {
            same | u32::from(*other == tag) << way
        });
        (same != 0).then(|| (first + same.trailing_zeros() as usize) as u16)
    }

    /// The host at this place.
    #[inline]
    pub(super) fn get(&self, at: u16) -> Option<&Host> {
        self.hosts.get(usize::from(at))
    }

    /// The host at this place, to change.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u16) -> Option<&mut Host> {
        self.hosts.get_mut(usize::from(at))
    }

    /// A queue refers to the host with this hash, which is `found`, or takes the place of one that is forgotten; none
    /// if queues refer to all hosts of its set.
    pub(super) fn refer(&mut self, hash: u64, found: Option<u16>) -> u16 {
        if let Some(at) = found {
            self.refer_again(at);
            return at;
        }
        let (first, tag) = place(hash);
        let set = &self.hosts[first..first + WAYS];
        let is_free = |host: &&Host| host.referrers == 0;
        let stranger = set
            .iter()
            .position(|host| is_free(&host) && !host.is_trusted());
        let Some(way) = stranger.or_else(|| set.iter().position(|host| is_free(&host))) else {
            return NONE;
        };
        let at = first + way;
        self.tags[at] = tag;
        self.hosts[at] = Host {
            referrers: 1,
            ..Host::NEW
        };
        at as u16
    }

    /// One more queue refers to this host.
    #[inline]
    pub(super) fn refer_again(&mut self, at: u16) {
        self.hosts[usize::from(at)].referrers += 1;
    }

    /// A queue no longer refers to this host.
    #[inline]
    pub(super) fn release(&mut self, at: u16) {
        if let Some(host) = self.hosts.get_mut(usize::from(at)) {
            host.referrers -= 1;
        }
    }

    /// A queue of this host waits for a turn, or no longer does.
    #[inline]
    pub(super) fn set_busy(&mut self, at: u16, waits: bool) {
        let Some(host) = self.hosts.get_mut(usize::from(at)) else {
            return;
        };
        if waits {
            self.active += u32::from(host.busy == 0);
            host.busy += 1;
        } else {
            host.busy -= 1;
            self.active -= u32::from(host.busy == 0);
        }
    }

    /// Hosts with a queue that waits, at least one.
    #[inline]
    pub(super) fn active(&self) -> u32 {
        self.active.max(1)
    }

    /// Hosts with a queue that waits.
    pub(super) fn count(&self) -> u64 {
        u64::from(self.active)
    }

    /// The virtual time begins anew near zero; what hosts had of it, down to zero.
    pub(super) fn rebase(&mut self, from: u64) {
        self.now -= from;
        for host in &mut self.hosts {
            host.tag = host.tag.saturating_sub(from);
        }
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        size_of_val(&*self.tags) + size_of_val(&*self.hosts)
    }
}

/// The first place of the set in which a hash is, and its tag, which is never that of an empty place.
fn place(hash: u64) -> (usize, u32) {
    (hash as usize % HOSTS / WAYS * WAYS, (hash >> 32) as u32 | 1)
}
