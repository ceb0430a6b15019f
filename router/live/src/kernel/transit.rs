//! The rules that keep transit away from the kernel.
//!
//! ```text
//! frame --> packet tap (our copy) --> ingress hook: is it for this machine? --no--> drop
//!                                          |
//!                                          +-- yes --> the kernel
//! ```
//!
//! The kernel's forwarding stays switched on. While this process is alive, an nf_tables table of family netdev, behind
//! the packet tap, passes only frames for the machine itself to the kernel and drops everything else. The table is
//! owned by our socket, so it vanishes with the process, however that ends, and the kernel forwards again (fail open).
//! This needs nf_tables with `NFT_TABLE_F_OWNER` (Linux 5.12) and its fib expression for the netdev family, and works
//! in a user namespace too. Rules installed for a routed port:
//!
//! ```text
//! table netdev weir-PID-N {
//!     flags owner
//!     chain local { ip option {lsrr, ssrr} exists drop; GRE of the router's own tunnels drop; accept }
//!     chain tagged-NAME { vlan TYPE, id ID accept (each VLAN device on the port); vlan id != 0 drop }
//!     chain port-NAME {
//!         type filter hook ingress device "NAME" priority -500; policy drop;
//!         tagged jump tagged-NAME
//!         ether daddr MAC accept                               # each macvlan device on the port
//!         ip: fib daddr type unicast drop                      # transit: decided first
//!         ip6: daddr ff00::/8 accept, fib daddr type unicast drop
//!         ip: fib daddr type {local, broadcast, anycast, multicast} goto local
//!         ip6: fib daddr type {local, anycast} goto local
//!         ARP, LLDP, EAPOL accept
//!         PPPoE: pkttype {host, broadcast} accept
//!     }
//!     chain upper-INDEX { the same at each VLAN and macvlan device on the port }
//!     chain egress-NAME { see local.rs }
//!     set lease, chain renew-lo { see lease.rs: every chain at a hook begins with "lease is empty: accept" }
//! }
//! ```
//!
//! - The hook sees a frame after the kernel has removed its outermost tag, and only once. The kernel removes further
//!   tags with VLAN 0 later, one after the other, and forwards the packet inside. So the decisive value is the Ethernet
//!   type after the outermost tag, and no rule accepts the type of a further tag.
//! - A VLAN device passes its frames to the kernel through its own hook, so it gets its own chain: the kernel must not
//!   forward the frames that arrive there either. The guard follows such devices ([`TransitGuard::follow_links`]): a
//!   new device works once its chain exists. A device in another network namespace is invisible here, and receives
//!   nothing.
//! - The kernel would forward a packet to the machine that has a source route, so the packet is dropped.
//! - Link-local IPv6 needs no rule: the fib looks addresses up on the incoming interface and finds ours local, and the
//!   kernel does not forward others.
//! - weir terminates its GRE tunnels itself. The kernel does not know them, and would answer their packets.
//! - At a bridged port, everything is dropped.
//! - In mode "queue", [`lending`] passes the frames on to this process.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_base::{Rate, Span, Tally};
use weir_lfb::router::Mark;
use weir_path::plane::Mode;

use super::helper;
pub use super::ingress::Tunnel;
use super::ingress::{LOCAL_CHAIN, ingress, local_chain, routed};
pub use super::lacking::Lacking;
use super::lacking::lacking;
use super::lease::{Renewal, Terms};
use super::lending;
pub use super::lending::Side;
use super::links::{self, AboveKind, Links};
use super::local;
use super::netlink::NetlinkSocket;
use super::nft::{self, Chain, CommitError, Compare, Rule};
use crate::clock::UnixTime;

/// Reason why transit cannot be kept away from the kernel.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The netlink socket failed.
    #[error("cannot access the kernel's nf_tables: {0}")]
    Socket(#[from] io::Error),
    /// The kernel refused a part.
    #[error("the kernel refused the {what}: {source}")]
    Refused {
        /// Name of the part.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel lacks a part that mode "queue" needs.
    #[error(transparent)]
    Lacking(#[from] Lacking),
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Socket(error) => Self::Socket(error),
            CommitError::Refused { what, source } => Self::Refused { what, source },
        }
    }
}

impl Error {
    fn refused_with(&self, number: libc::c_int) -> bool {
        matches!(self, Self::Refused { source, .. } if source.raw_os_error() == Some(number))
    }
}

/// Keeps transit away from the kernel as long as it exists.
#[derive(Debug)]
pub struct TransitGuard {
    socket: NetlinkSocket, // the table's owner: closing it removes the table
    pub(super) table: String,
    /// How the rules expire; `None`: only with this process.
    terms: Option<Terms>,
    ports: BTreeMap<Side, Protected>,
    /// The mark of frames that this process sends.
    mark: Mark,
    /// Active chains, by name.
    in_force: BTreeMap<String, Chain>,
    /// Counters of removed chains, by interface.
    dropped_before: BTreeMap<String, Tally>,
}

/// The desired rules of a port.
#[derive(Clone, Copy, Debug)]
struct Protected {
    mode: Mode,
    /// Maximum rate of the machine's own packets at this port.
    local: Option<Rate>,
    /// Frames whose time compares in this way with this instant belong to the kernel ([`super::handover`]).
    kernels: Option<(Compare, UnixTime)>,
}

/// Distinguishes several guards of one process.
static GUARDS: AtomicU32 = AtomicU32::new(0);

impl TransitGuard {
    /// Activates the rules of these ports, for all of them or none, in the calling thread's network namespace. At a
    /// routed port the kernel then gets no frames that it would forward, and at a bridged port it gets no frames at
    /// all.
    pub fn install(ports: &[(&str, Mode)]) -> Result<Self, Error> {
        let number = GUARDS.fetch_add(1, Ordering::Relaxed);
        let mut guard = Self {
            socket: nft::open()?.released_first(),
            table: format!("weir-{}-{number}", std::process::id()),
            terms: None,
            ports: BTreeMap::new(),
            mark: Mark::DEFAULT,
            in_force: BTreeMap::new(),
            dropped_before: BTreeMap::new(),
        };
        for (port, mode) in ports {
            guard.ports.insert((*port).into(), Protected::new(*mode));
        }
        let links = links::read()?;
        let mut chains = vec![local_chain(&[])];
        for port in guard.ports.keys() {
            chains.extend(guard.chains(port, &links));
        }
        guard.put(Some(nft::new_table(&guard.table)), chains)?;
        Ok(guard)
    }

    /// Lets a guard without ports recognise frames of this process by this mark.
    pub(crate) fn marking(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// Activates the rules of ports at one instant, even for ports that had rules: a chain vanishes with its interface.
    /// `kernels` defines which of their frames belong to the kernel.
    pub(super) fn protect(
        &mut self,
        ports: &[(Side, Mode)],
        kernels: (Compare, UnixTime),
    ) -> Result<(), Error> {
        let before = self.ports.clone();
        for (port, mode) in ports {
            let local = self.ports.get(port).and_then(|p| p.local);
            let protected = Protected {
                mode: *mode,
                local,
                kernels: Some(kernels),
            };
            self.ports.insert(port.clone(), protected);
        }
        let done = self.renew(ports);
        if done.is_err() {
            self.ports = before; // so that no later call activates the refused rules
        }
        done.map_err(|error| match error {
            Error::Refused { what, source }
                if ports.iter().any(|(_, mode)| *mode == Mode::Queue) =>
            {
                match lacking(&what, source) {
                    Ok(lacking) => lacking.into(),
                    Err(source) => Error::Refused { what, source },
                }
            }
            other => other,
        })
    }

    /// Activates the chains of these ports, even those that exist already.
    fn renew(&mut self, ports: &[(Side, Mode)]) -> Result<(), Error> {
        let links = links::read()?;
        let chains = ports.iter().flat_map(|(port, _)| self.chains(port, &links));
        let chains: Vec<_> = self.renewing(&links).into_iter().chain(chains).collect();
        for chain in &chains {
            self.in_force.remove(&chain.name);
        }
        match self.put(None, chains.clone()) {
            // The chain is still attached to the interface that had this name before.
            Err(error) if error.refused_with(libc::EEXIST) => {
                self.remove_all(chains.clone())?;
                self.put(None, chains)
            }
            done => done,
        }
    }

    /// Sets, at one instant, which frames of these ports belong to the kernel.
    pub(super) fn set_kernels<'a>(
        &mut self,
        ports: impl IntoIterator<Item = &'a Side>,
        kernels: Option<(Compare, UnixTime)>,
    ) -> Result<(), Error> {
        let links = links::read()?;
        let mut chains = Vec::new();
        for port in ports {
            if let Some(protected) = self.ports.get_mut(port) {
                protected.kernels = kernels;
            }
            chains.extend(self.chains(port, &links));
        }
        self.put(None, chains)
    }

    /// Ends the limits on the machine's own packets at these ports.
    pub(super) fn end_limits<'a>(
        &mut self,
        ports: impl IntoIterator<Item = &'a Side>,
    ) -> Result<(), Error> {
        for port in ports {
            self.keep_count(port)?;
            if let Some(protected) = self.ports.get_mut(port) {
                protected.local = None;
            }
        }
        self.sweep(&links::read()?)
    }

    /// Keeps the drop counter of a port whose chains will be removed.
    fn keep_count(&mut self, port: &Side) -> io::Result<()> {
        let is_limited = self.ports.get(port).is_some_and(|p| p.local.is_some());
        let name = &port.interface;
        if is_limited && let Some(count) = local::dropped(&mut self.socket, &self.table)?.get(name)
        {
            *self.dropped_before.entry(name.clone()).or_default() += *count;
        }
        Ok(())
    }

    /// Keeps all rules active only while the lease is renewed, each time for `lifetime`.
    pub fn lease(&mut self, lifetime: Span) -> Result<Renewal, Error> {
        let terms = Terms::new(lifetime);
        let (set, renewal) = (terms.new_set(&self.table), terms.renewal());
        self.terms = Some(terms);
        let renewing = self.renewing(&links::read()?);
        let done = self.put(Some(set), renewing.into_iter().collect());
        if done.is_err() {
            self.terms = None;
        }
        done.map(|()| renewal)
    }

    /// Keeps all rules active as long as this process has them, without a lease.
    pub fn end_lease(&mut self) -> Result<(), Error> {
        self.terms = None;
        self.follow_links()
    }

    /// Keeps the packets of exactly these tunnels from the kernel.
    pub fn set_tunnels(&mut self, tunnels: &[Tunnel]) -> Result<(), Error> {
        self.put(None, vec![local_chain(tunnels)])
    }

    /// Removes the rules of one port.
    pub fn unprotect(&mut self, port: &Side) -> Result<(), Error> {
        self.keep_count(port)?;
        self.ports.remove(port);
        self.sweep(&links::read()?)
    }

    /// Reads the interfaces again: VLAN and macvlan devices on the ports come and go. Withdraws the rules of a port in
    /// mode "queue" whose helper is no longer intact; it gets rules again when the router takes it again.
    pub fn follow_links(&mut self) -> Result<(), Error> {
        let links = helper::checked_links()?;
        let unlent = |side: &Side, protected: &Protected| {
            protected.mode == Mode::Queue && self.chains(side, &links).is_empty()
        };
        let ports = self.ports.iter().filter(|(side, port)| unlent(side, port));
        let unlent: Vec<_> = ports.map(|(side, _)| side.clone()).collect();
        self.ports.retain(|side, _| !unlent.contains(side));
        let here = |port: &&Side| links.values().any(|link| link.name == port.interface);
        let ports = self.ports.keys().filter(here);
        let chains = ports.flat_map(|port| self.chains(port, &links)).collect();
        self.put(None, chains)?;
        self.sweep(&links)
    }

    /// Limits the machine's own packets at a port, or ends the limit. Returns false if this kernel has no hook for that
    /// (before Linux 5.16).
    pub fn limit_local(&mut self, port: &str, most: Option<Rate>) -> Result<bool, Error> {
        let side = &Side::from(port);
        let Some(protected) = self.ports.get_mut(side) else {
            return Ok(true);
        };
        if matches!(protected.kernels, Some((Compare::AtLeast, _))) {
            return Ok(true); // transit goes back to the kernel, and must not be limited
        }
        protected.local = most;
        let links = links::read()?;
        match self.put(None, self.chains(side, &links)) {
            Err(error) if error.refused_with(libc::EOPNOTSUPP) => {
                if let Some(protected) = self.ports.get_mut(side) {
                    protected.local = None;
                }
                Ok(false)
            }
            done => {
                done?;
                self.sweep(&links)?;
                Ok(true)
            }
        }
    }

    /// Packets that [`TransitGuard::limit_local`] has dropped, by interface, since its first call.
    pub fn local_dropped(&mut self) -> io::Result<BTreeMap<String, Tally>> {
        let mut dropped = local::dropped(&mut self.socket, &self.table)?;
        for (port, count) in &self.dropped_before {
            *dropped.entry(port.clone()).or_default() += *count;
        }
        Ok(dropped)
    }

    /// The chains of a port and of the devices on it; chains that others jump to come first.
    fn chains(&self, side: &Side, links: &Links) -> Vec<Chain> {
        let Some(protected) = self.ports.get(side) else {
            return Vec::new();
        };
        let port = side.interface.as_str();
        let index = links.iter().find(|(_, link)| link.name == port);
        let index = index.map_or(0, |(index, _)| *index); // the kernel refuses a missing interface
        let mut chains = Vec::new();
        match protected.mode {
            Mode::Routed => {
                for (number, name) in self.above(index, links) {
                    let chain = format!("upper-{number}");
                    chains.extend(routed(&name, number, &chain, &number.to_string(), links));
                }
                let chain = chain_name(port);
                chains.extend(routed(port, index, &chain, port, links));
            }
            Mode::Bridged => chains.push(Chain {
                name: chain_name(port),
                hook: Some(ingress(port, index)),
                rules: Vec::new(),
            }),
            Mode::Queue => chains.extend(lending::chains(side, index, self.mark)),
        }
        if let Some((how, when)) = protected.kernels {
            for chain in chains.iter_mut().filter(|chain| chain.hook.is_some()) {
                let kernels = Rule::new().time(how, when).accept();
                chain.rules.insert(0, kernels);
            }
        }
        if let Some(most) = protected.local {
            chains.extend(local::chains(port, index, most, self.mark));
        }
        if self.terms.is_some() {
            for chain in chains.iter_mut().filter(|chain| chain.hook.is_some()) {
                chain.rules.insert(0, Terms::rule());
            }
        }
        chains
    }

    /// The chain that renews the lease, if there is a lease.
    pub(super) fn renewing(&self, links: &Links) -> Option<Chain> {
        let interfaces = self.ports.keys().map(|side| &side.interface);
        self.terms.as_ref()?.renewing(interfaces, links)
    }

    /// Devices on top of an interface, directly or indirectly: index and name of each device that passes frames to the
    /// kernel's IP stack and is not a port itself.
    fn above(&self, below: u32, links: &Links) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        let mut bases = vec![below];
        while let Some(base) = bases.pop() {
            for (number, link) in links {
                let stands = link
                    .above
                    .is_some_and(|a| a.below == base && a.kind != AboveKind::Macvtap);
                if stands && !self.ports.keys().any(|side| side.interface == link.name) {
                    bases.push(*number);
                    found.push((*number, link.name.clone()));
                }
            }
        }
        found
    }

    /// Activates those chains that are not active yet: all of them at one instant, or none.
    pub(super) fn put(
        &mut self,
        first: Option<nft::Part>,
        chains: Vec<Chain>,
    ) -> Result<(), Error> {
        let missing = |chain: &Chain| self.in_force.get(&chain.name) != Some(chain);
        let chains: Vec<_> = chains.into_iter().filter(missing).collect();
        if chains.is_empty() && first.is_none() {
            return Ok(());
        }
        let mut batch: Vec<_> = first.into_iter().collect();
        batch.extend(chains.iter().map(|chain| chain.declare(&self.table)));
        batch.extend(chains.iter().flat_map(|chain| chain.fill(&self.table)));
        nft::commit(&mut self.socket, &batch)?;
        for chain in chains {
            if let Some(terms) = &self.terms {
                terms.put(&chain);
            }
            self.in_force.insert(chain.name.clone(), chain);
        }
        Ok(())
    }

    /// Removes the chains that are no longer needed.
    fn sweep(&mut self, links: &Links) -> Result<(), Error> {
        let ports = self.ports.keys();
        let wanted = ports.flat_map(|port| self.chains(port, links));
        let mut wanted: Vec<_> = wanted.map(|chain| chain.name).collect();
        wanted.push(LOCAL_CHAIN.to_owned());
        let renewing = self.renewing(links);
        wanted.extend(renewing.iter().map(|chain| chain.name.clone()));
        self.put(None, renewing.into_iter().collect())?;
        let mut unwanted: Vec<_> = self.in_force.values().cloned().collect();
        unwanted.retain(|chain| !wanted.contains(&chain.name));
        self.remove_all(unwanted)
    }

    /// Removes chains; those that jump to others come first: hooked chains, then the others by name.
    fn remove_all(&mut self, mut chains: Vec<Chain>) -> Result<(), Error> {
        chains.sort_by(|a, b| (a.hook.is_none(), &a.name).cmp(&(b.hook.is_none(), &b.name)));
        chains.iter().try_for_each(|chain| self.remove(&chain.name))
    }

    /// Removes a chain, which may have vanished with its interface.
    fn remove(&mut self, chain: &str) -> Result<(), Error> {
        let removal = nft::delete_chain(&self.table, chain);
        let removed = nft::commit(&mut self.socket, &[removal]);
        match removed.map_err(Error::from) {
            Err(error) if !error.refused_with(libc::ENOENT) => return Err(error),
            _ => {}
        }
        self.in_force.remove(chain);
        Ok(())
    }
}

impl Protected {
    fn new(mode: Mode) -> Self {
        Self {
            mode,
            local: None,
            kernels: None,
        }
    }
}

pub(super) fn chain_name(port: &str) -> String {
    format!("port-{port}")
}
