//! Handshakes of a listener: a bounded number in progress, each with a time limit.
//!
//! When a handshake exceeds the bound, the source with the most handshakes loses its oldest one: a source is an IPv4
//! address or an IPv6 /64. An honest handshake takes milliseconds, so it survives a stranger who opens connections and
//! sends nothing, even from the same source, and many strangers who share few sources.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::faults::{Fault, Faults};

/// Pause of a listener after a failed accept, for lack of memory or descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Handshakes in progress. Dropping this value ends them.
#[derive(Debug)]
pub(crate) struct Handshakes {
    max: usize,
    /// Oldest first.
    running: VecDeque<(IpAddr, AbortHandle)>,
}

impl Handshakes {
    /// Creates an empty set for at most `max` handshakes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            running: VecDeque::new(),
        }
    }

    /// Number of handshakes in progress.
    pub(super) fn len(&mut self) -> usize {
        self.running.retain(|(_, task)| !task.is_finished());
        self.running.len()
    }

    /// Starts a handshake with a peer at this address.
    pub(crate) fn begin(
        &mut self,
        peer: IpAddr,
        faults: &Faults,
        handshake: impl Future<Output = ()> + Send + 'static,
    ) {
        let peer = source(peer);
        if self.len() >= self.max
            && let Some(at) = victim(self.running.iter().map(|(source, _)| *source))
            && let Some((victim, task)) = self.running.remove(at)
        {
            task.abort();
            let max = self.max;
            let what = format_args!(
                "{max} handshakes in progress: ended the oldest handshake of {victim}"
            );
            faults.report(Fault::TooMany, what);
        }
        let task = tokio::spawn(handshake).abort_handle();
        self.running.push_back((peer, task));
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        self.running.iter().for_each(|(_, task)| task.abort());
    }
}

/// Index of the oldest entry of the source with the most entries; `sources` is sorted oldest first.
pub(super) fn victim(mut sources: impl Iterator<Item = IpAddr> + Clone) -> Option<usize> {
    let mut counts = HashMap::new();
    for source in sources.clone() {
        *counts.entry(source).or_insert(0) += 1;
    }
    let most = counts.values().copied().max();
    sources.position(|source| counts.get(&source).copied() == most)
}

/// The source of a peer: all addresses in an IPv6 /64 are one source.
pub(crate) fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn settle() {
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }

    fn of(handshakes: &mut Handshakes, source: &str) -> usize {
        handshakes.len();
        let source: IpAddr = source.parse().unwrap();
        let of_source = handshakes.running.iter().filter(|(s, _)| *s == source);
        of_source.count()
    }

    #[tokio::test]
    async fn the_source_with_the_most_loses_its_oldest() {
        let (mut handshakes, faults) = (Handshakes::new(8), Faults::default());
        let mut begin = |peer: &str| {
            let peer = peer.parse().unwrap();
            handshakes.begin(peer, &faults, std::future::pending());
        };
        begin("192.0.2.1"); // honest, and the oldest of all
        (0..100).for_each(|n| begin(&format!("2001:db8:0:1::{n:x}"))); // one source
        begin("::ffff:192.0.2.1"); // the same honest source
        begin("192.0.2.2");
        settle().await;
        assert_eq!(of(&mut handshakes, "192.0.2.1"), 2);
        assert_eq!(of(&mut handshakes, "192.0.2.2"), 1);
        assert_eq!(of(&mut handshakes, "2001:db8:0:1::"), 5);
        assert_eq!(handshakes.len(), 8);
        assert_eq!(faults.count(Fault::TooMany), 95);
    }

    #[tokio::test]
    async fn among_equals_the_oldest_goes() {
        let (mut handshakes, faults) = (Handshakes::new(4), Faults::default());
        for n in 1..=6 {
            let peer = IpAddr::from([127, 0, 0, n]);
            handshakes.begin(peer, &faults, std::future::pending());
        }
        settle().await;
        let left: Vec<_> = handshakes
            .running
            .iter()
            .map(|(s, _)| s.to_string())
            .collect();
        assert_eq!(left, ["127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"]);
    }
}
