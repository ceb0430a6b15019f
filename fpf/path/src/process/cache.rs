//! A cache of named chunks: it answers interests that pass if it has stored their chunk.
//!
//! ```text
//!  interest --> content store --has it--> leaf 0: the data, from the server's address to the client's
//!                    |
//!                    +--no--> pending interest table --> on by its own vector, to the server
//!  data ------> pending? --> content store
//!    |             +--no--> refused
//!    +------------------------------------------------> on by its own vector, to the client
//!  any other packet ----------------------------------> on by its own vector
//! ```
//!
//! Source: Beben et al., section III, names "storing content in the cache" as a function of a LID, but does not specify
//! it; the terms are those of RFC 8793. The format is in [`weir_wire::chunk`]. Gauges: [`Counts`].
//!
//! - The path back is the leaf of the rule, and not a field of the interest: a host that could write it there would
//!   choose among all paths.
//! - A name belongs to a server, by address and port. The content of a name never changes, so no stored chunk becomes
//!   stale.
//! - All interests in a chunk that is not stored are forwarded, each by itself: the table keeps no client's address,
//!   and a lost packet delays one client only.
//! - The least recently used chunk makes room. New limits start with an empty cache.
//!
//! An attacker who sends data in the name of any server changes nothing: the cache stores only data for which an
//! interest passed in the last [`LIFETIME`], and which arrive through another interface than that interest. So hosts on
//! the clients' side can never fill the cache, alone or together; hosts on the path to the server could answer in its
//! place anyway. A flood of interests displaces pending interests, at most [`PENDING_MAX`], so their data are not
//! stored, but still arrive. The answer to an interest with a forged source goes to that source, as from the server:
//! `source_check` of the edge's ports keeps such interests out. Memory is bounded by [`Limits`].

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_base::{Instant, Span};
use weir_packet::Reason;
use weir_wire::chunk::NAME_LEN;

use super::chunk::Message;
use super::{ONWARD, PAYLOAD_MAX, Processor, Taken};

/// Time for which an interest waits for its data (the default of NDN and CCNx).
pub const LIFETIME: Span = Span::from_secs(4);
/// Maximum interests that wait for their data.
pub const PENDING_MAX: usize = 4096;
/// Bytes of memory that a chunk takes besides its content, rounded up.
const OVERHEAD: u64 = 256;

/// The limits of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of memory for chunks.
    pub bytes: u64,
    /// Maximum chunks.
    pub chunks: usize,
}

/// The counts of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interests that the cache answered.
    pub hits: u64,
    /// Interests that were forwarded.
    pub misses: u64,
    /// Chunks that were stored.
    pub stored: u64,
    /// Chunks that were removed to make room for others.
    pub evicted: u64,
    /// Data that were not stored: no interest waited for them, or they are larger than the whole cache.
    pub refused: u64,
}

impl Counts {
    /// Each count with the name of its gauge.
    pub fn by_name(&mut self) -> [(&'static str, &mut u64); 5] {
        [
            ("hits", &mut self.hits),
            ("misses", &mut self.misses),
            ("stored", &mut self.stored),
            ("evicted", &mut self.evicted),
            ("refused", &mut self.refused),
        ]
    }
}

/// A chunk: the server that has it, and its name there.
type Key = (SocketAddr, [u8; NAME_LEN]);

/// Values by chunk, and the order in which they were used.
#[derive(Debug, Default)]
struct Recent<T> {
    values: BTreeMap<Key, (u64, T)>,
    order: BTreeMap<u64, Key>,
    uses: u64,
}

impl<T> Recent<T> {
    fn put(&mut self, key: Key, value: T) {
        self.remove(&key);
        self.uses += 1;
        self.order.insert(self.uses, key);
        self.values.insert(key, (self.uses, value));
    }

    /// Returns the value, and makes it the most recently used.
    fn touch(&mut self, key: &Key) -> Option<&T> {
        let (used, value) = self.values.get_mut(key)?;
        self.order.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.order.insert(self.uses, *key);
        Some(value)
    }

    fn remove(&mut self, key: &Key) -> Option<T> {
        let (used, value) = self.values.remove(key)?;
        self.order.remove(&used);
        Some(value)
    }

    /// Removes the least recently used value.
    fn pop(&mut self) -> Option<T> {
        let (_, key) = self.order.pop_first()?;
        Some(self.values.remove(&key)?.1)
    }
}

/// Answers interests, and stores the data that earlier interests fetched.
#[derive(Debug)]
pub struct Cache {
    limits: Limits,
    store: Recent<Box<[u8]>>,
    /// Bytes that the store takes.
    bytes: u64,
    /// The interface at which each interest arrived last, and when.
    pending: Recent<(u16, Instant)>,
    counts: Counts,
    out: Vec<u8>,
}

impl Cache {
    /// An empty cache.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            store: Recent::default(),
            bytes: 0,
            pending: Recent::default(),
            counts: Counts::default(),
            out: Vec::new(),
        }
    }

    /// Writes the answer to an interest, if its chunk is stored. If not, remembers the interest, because its data may
    /// come.
    fn answer(&mut self, interest: &Message<'_>, from: u16, at: Instant) -> bool {
        let key = (interest.destination, interest.name);
        if let Some(content) = self.store.touch(&key) {
            let data = Message {
                source: interest.destination,
                destination: interest.source,
                name: interest.name,
                content: Some(content),
            };
            if data.write(&mut self.out).is_ok() {
                self.counts.hits += 1;
                return true;
            }
        }
        self.counts.misses += 1;
        self.pending.put(key, (from, at));
        if self.pending.values.len() > PENDING_MAX {
            self.pending.pop();
        }
        false
    }

    /// Stores the content of data, if an interest waits for it and it is not stored yet.
    fn keep(&mut self, data: &Message<'_>, content: &[u8], from: u16, at: Instant) {
        let key = (data.source, data.name);
        if self.store.values.contains_key(&key) {
            return;
        }
        let asked = self.pending.values.get(&key);
        let is_answer =
            asked.is_some_and(|(_, (by, when))| *by != from && at.since(*when) <= LIFETIME);
        let needed = size(content);
        if !is_answer || needed > self.limits.bytes || content.len() > PAYLOAD_MAX {
            self.counts.refused += 1;
            return;
        }
        self.pending.remove(&key);
        while self.bytes + needed > self.limits.bytes
            || self.store.values.len() >= self.limits.chunks
        {
            let Some(evicted) = self.store.pop() else {
                break;
            };
            self.bytes -= size(&evicted);
            self.counts.evicted += 1;
        }
        self.bytes += needed;
        self.store.put(key, content.into());
        self.counts.stored += 1;
    }
}

/// Bytes of memory that a chunk takes.
fn size(content: &[u8]) -> u64 {
    content.len() as u64 + OVERHEAD
}

impl Processor for Cache {
    fn process(
        &mut self,
        Taken {
            payload, at, from, ..
        }: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason> {
        let is_answered = Message::read(payload).is_some_and(|message| match message.content {
            None => self.answer(&message, from, at),
            Some(content) => {
                self.keep(&message, content, from, at);
                false
            }
        });
        if is_answered {
            give(0, &self.out);
        } else {
            give(ONWARD, payload);
        }
        Ok(())
    }

    fn leaves(&self) -> usize {
        1
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let mut counts = self.counts;
        for (gauge, count) in counts.by_name() {
            report(gauge, *count);
        }
    }

    fn state_bytes_max(&self) -> usize {
        let chunks = self.limits.bytes as usize; // a configuration has at most 1 GB
        size_of_val(self) + chunks + PENDING_MAX * OVERHEAD as usize + 2 * PAYLOAD_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_wire::ipv4;

    const LIMITS: Limits = Limits {
        bytes: 3 * (100 + OVERHEAD),
        chunks: 10,
    };
    const START: Instant = Instant::from_nanos(1 << 40);
    /// The interfaces at which interests and data arrive.
    const NEAR: u16 = 1;
    const FAR: u16 = 2;

    const CLIENT: &str = "10.0.0.1:4000";
    const SERVER: &str = "10.0.9.9:6363";

    fn message(from: &str, to: &str, name: u8, content: Option<&[u8]>) -> Vec<u8> {
        let message = Message {
            source: from.parse().unwrap(),
            destination: to.parse().unwrap(),
            name: [name; NAME_LEN],
            content,
        };
        let mut bytes = Vec::new();
        message.write(&mut bytes).unwrap();
        assert_eq!(Message::read(&bytes), Some(message));
        bytes
    }

    fn interest(name: u8) -> Vec<u8> {
        message(CLIENT, SERVER, name, None)
    }

    /// A hundred bytes, all of them the name.
    fn data(name: u8) -> Vec<u8> {
        message(SERVER, CLIENT, name, Some(&[name; 100]))
    }

    /// The packet that the cache gives, and its leaf.
    fn put_at(cache: &mut Cache, from: u16, packet: &[u8], at: Instant) -> (usize, Vec<u8>) {
        let mut given = Vec::new();
        let taken = Taken {
            from,
            ..Taken::new(packet, at)
        };
        let give = &mut |leaf, bytes: &[u8]| given.push((leaf, bytes.to_vec()));
        assert_eq!(cache.process(taken, give), Ok(()));
        assert_eq!(given.len(), 1);
        given.remove(0)
    }

    fn put(cache: &mut Cache, from: u16, packet: &[u8]) -> (usize, Vec<u8>) {
        put_at(cache, from, packet, START)
    }

    /// Whether the cache answers the interest in a chunk; if not, its data come from the server.
    fn hits(cache: &mut Cache, name: u8) -> bool {
        let (leaf, bytes) = put(cache, NEAR, &interest(name));
        if leaf == ONWARD {
            assert_eq!(bytes, interest(name));
            assert_eq!(put(cache, FAR, &data(name)), (ONWARD, data(name)));
            return false;
        }
        assert_eq!((leaf, bytes), (0, data(name)));
        true
    }

    fn counts(cache: &Cache) -> [u64; 5] {
        let mut counts = Vec::new();
        cache.inspect(&mut |_, count| counts.push(count));
        counts.try_into().unwrap()
    }

    #[test]
    fn a_chunk_that_somebody_fetched_is_here_for_others() {
        let mut cache = Cache::new(LIMITS);
        assert!(!hits(&mut cache, 1) && hits(&mut cache, 1));
        // Another client, and another server with a chunk of this name.
        let other = "10.0.0.2:5000";
        let (leaf, bytes) = put(&mut cache, NEAR, &message(other, SERVER, 1, None));
        let expected = message(SERVER, other, 1, Some(&[1; 100]));
        assert_eq!((leaf, bytes), (0, expected));
        for elsewhere in ["10.0.9.9:6364", "10.0.9.8:6363"] {
            let interest = message(CLIENT, elsewhere, 1, None);
            assert_eq!(put(&mut cache, NEAR, &interest), (ONWARD, interest.clone()));
        }
        assert_eq!(counts(&cache), [2, 3, 1, 0, 0]);
    }

    #[test]
    fn chunks_go_both_ways_over_ipv6_too() {
        let (client, server) = ("[2001:db8::1]:4000", "[2001:db8::9]:6363");
        let mut cache = Cache::new(LIMITS);
        let interest = message(client, server, 1, None);
        let data = message(server, client, 1, Some(b"content"));
        assert_eq!(put(&mut cache, NEAR, &interest).0, ONWARD);
        assert_eq!(put(&mut cache, FAR, &data).0, ONWARD);
        assert_eq!(put(&mut cache, NEAR, &interest), (0, data));
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut cache = Cache::new(LIMITS);
        for name in 1..=3 {
            assert!(!hits(&mut cache, name));
        }
        assert!(hits(&mut cache, 1));
        assert!(!hits(&mut cache, 4));
        assert!(hits(&mut cache, 1) && hits(&mut cache, 3) && hits(&mut cache, 4));
        assert!(!hits(&mut cache, 2));
        assert_eq!(counts(&cache), [4, 5, 5, 2, 0]);
        assert_eq!(cache.bytes, LIMITS.bytes);
        // Enough bytes, but only two chunks.
        let mut cache = Cache::new(Limits {
            bytes: 1 << 20,
            chunks: 2,
        });
        for name in 1..=3 {
            assert!(!hits(&mut cache, name));
        }
        assert!(hits(&mut cache, 2) && hits(&mut cache, 3) && !hits(&mut cache, 1));
        assert_eq!(cache.store.values.len(), 2);
    }

    #[test]
    fn what_nobody_asked_for_is_not_stored_and_goes_on() {
        let mut cache = Cache::new(LIMITS);
        let refused = |cache: &mut Cache, from, packet: &[u8], at| {
            let before = cache.counts.refused;
            let passes = put_at(cache, from, packet, at) == (ONWARD, packet.to_vec());
            passes && cache.counts.refused == before + 1 && cache.store.values.is_empty()
        };
        assert!(refused(&mut cache, FAR, &data(1), START));
        put(&mut cache, NEAR, &interest(1));
        // From the interest's own side, from another server, another chunk, too late.
        assert!(refused(&mut cache, NEAR, &data(1), START));
        let strange = message("10.0.9.8:6363", CLIENT, 1, Some(b"poison"));
        assert!(refused(&mut cache, FAR, &strange, START));
        assert!(refused(&mut cache, FAR, &data(2), START));
        let late = START + LIFETIME + Span::from_nanos(1);
        assert!(refused(&mut cache, FAR, &data(1), late));
        // Longer than the cache.
        let long = message(SERVER, CLIENT, 1, Some(&[1; 1200]));
        assert!(refused(&mut cache, FAR, &long, START));
        // None of these keeps the right data from being stored, which come twice.
        put(&mut cache, FAR, &data(1));
        put(&mut cache, FAR, &message(SERVER, CLIENT, 1, Some(b"other")));
        assert!(hits(&mut cache, 1));
        assert_eq!(counts(&cache), [1, 1, 1, 0, 6]);
    }

    #[test]
    fn a_flood_of_interests_is_bounded() {
        let mut cache = Cache::new(LIMITS);
        put(&mut cache, NEAR, &interest(1));
        for port in 0..PENDING_MAX {
            let server = format!("10.0.9.9:{}", 10_000 + port);
            put(&mut cache, NEAR, &message(CLIENT, &server, 1, None));
        }
        let pending = &cache.pending;
        assert_eq!(pending.values.len(), PENDING_MAX);
        assert_eq!(pending.order.len(), PENDING_MAX);
        put(&mut cache, FAR, &data(1));
        assert_eq!(counts(&cache), [0, PENDING_MAX as u64 + 1, 0, 0, 1]);
    }

    #[test]
    fn packets_that_are_no_messages_go_on_and_change_nothing() {
        let mut cache = Cache::new(LIMITS);
        let set = |at: usize, value: u8| {
            let mut packet = interest(1);
            packet[at] = value;
            if at < 20 {
                ipv4::View::new_unchecked(&mut packet[..]).fill_checksum();
            }
            packet
        };
        let wrong = [
            vec![],
            vec![7; 60],
            interest(1)[..47].to_vec(),
            set(6, 0x20), // the first of several fragments
            set(9, 6),    // TCP
            set(26, 1),   // a checksum that is wrong
            set(24, 9),   // a UDP length beyond the packet
            set(28, 0xd2),
            set(29, 1),
        ];
        for packet in wrong {
            assert_eq!(put(&mut cache, NEAR, &packet), (ONWARD, packet.clone()));
        }
        let mut padded = interest(1);
        padded.extend([0; 9]); // padding of the link
        assert_eq!(put(&mut cache, NEAR, &padded), (ONWARD, padded.clone()));
        assert_eq!(counts(&cache), [0, 1, 0, 0, 0]);
    }

    proptest! {
        /// For any messages and bytes, in any order, the cache stays within its limits, and its counters are right.
        #[test]
        fn no_packets_make_it_panic_or_grow(packets in vec((0_u8..4, 0_u8..6, 0_usize..500, vec(any::<u8>(), 0..60)), 0..200)) {
            let mut cache = Cache::new(LIMITS);
            for (kind, name, len, bytes) in &packets {
                let (from, packet) = match kind {
                    0 => (NEAR, interest(*name)),
                    1 => (FAR, message(SERVER, CLIENT, *name, Some(&vec![1; *len]))),
                    2 => (NEAR, message(SERVER, CLIENT, *name, Some(&vec![1; *len]))),
                    _ => (FAR, bytes.clone()),
                };
                put(&mut cache, from, &packet);
                let store = &cache.store;
                prop_assert_eq!(store.values.len(), store.order.len());
                let held: u64 = store.values.values().map(|(_, content)| size(content)).sum();
                prop_assert_eq!(held, cache.bytes);
                prop_assert!(held <= LIMITS.bytes && cache.pending.values.len() <= 6);
                let counts = cache.counts;
                prop_assert_eq!(counts.stored - counts.evicted, store.values.len() as u64);
            }
        }
    }
}
