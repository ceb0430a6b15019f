//! Flow keys: the addresses and ports of a packet, and how much of them identifies a flow.
//!
//! The hash is keyed (SipHash-1-3), per process in live and from the seed in sim, so that a sender
//! cannot aim at a bucket.

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::{Packet, Slot};
use crate::sip::sip13;

/// The kind of addresses in a [`FlowKey`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Family {
    /// Not an IP packet: the addresses are MAC addresses, the ports zero, the protocol zero.
    #[default]
    Link = 0,
    /// IPv4: the first four bytes of each address.
    V4 = 4,
    /// IPv6.
    V6 = 6,
}

/// The 5-tuple of a packet, or the part of it that a [`KeyKind`] keeps.
///
/// All fragments of a datagram have the 3-tuple as key (ports zero), because only the first one
/// carries ports. For ICMP the ports are zero too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source address, left-aligned, zero-padded.
    pub source: [u8; 16],
    /// Destination address, left-aligned, zero-padded.
    pub destination: [u8; 16],
    /// Source port, host order; zero if the packet has none.
    pub source_port: u16,
    /// Destination port, host order; zero if the packet has none.
    pub destination_port: u16,
    /// IP protocol number (the last header's, for IPv6).
    pub protocol: u8,
    /// The kind of addresses.
    pub family: Family,
}

/// The part of the 5-tuple that identifies a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Addresses, protocol and ports: one transport connection.
    #[default]
    Flow,
    /// Source address: one sender.
    Source,
    /// Destination address: one receiver, or one victim (the LRU-FQ paper's section IV).
    Destination,
    /// Source and destination address.
    Pair,
    /// Source network: /24 of IPv4, /56 of IPv6.
    SourcePrefix,
    /// Destination network: /24 of IPv4, /56 of IPv6.
    DestinationPrefix,
}

/// Network length that counts as one site in IPv4.
pub const SITE_PREFIX_V4: u32 = 24;
/// Network length that counts as one site in IPv6 (RFC 6177: a home gets a /56).
pub const SITE_PREFIX_V6: u32 = 56;

impl KeyKind {
    /// Every kind, with its word in a configuration.
    pub const ALL: [(&'static str, Self); 6] = [
        ("flow", Self::Flow),
        ("source", Self::Source),
        ("destination", Self::Destination),
        ("pair", Self::Pair),
        ("source_prefix", Self::SourcePrefix),
        ("destination_prefix", Self::DestinationPrefix),
    ];

    /// The words of a configuration, in the order of [`Self::ALL`].
    pub const WORDS: &'static [&'static str] = &[
        "flow",
        "source",
        "destination",
        "pair",
        "source_prefix",
        "destination_prefix",
    ];

    /// The kind that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(w, _)| *w == word).map(|(_, k)| *k)
    }

    /// The word of a configuration.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl FlowKey {
    /// The key of an IP packet. Both addresses must be of one family; otherwise the family of the source is used.
    #[inline]
    pub fn ip(
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        source_port: u16,
        destination_port: u16,
    ) -> Self {
        Self {
            source: octets(source),
            destination: octets(destination),
            source_port,
            destination_port,
            protocol,
            family: match source {
                IpAddr::V4(_) => Family::V4,
                IpAddr::V6(_) => Family::V6,
            },
        }
    }

    /// The key of a frame that is not IP: its two MAC addresses.
    pub fn link(source: [u8; 6], destination: [u8; 6]) -> Self {
        let mut key = Self::default();
        key.source[..6].copy_from_slice(&source);
        key.destination[..6].copy_from_slice(&destination);
        key
    }

    /// The key of the other direction.
    pub fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..*self
        }
    }

    /// The part of this key that `kind` keeps; the rest becomes zero.
    pub fn project(&self, kind: KeyKind) -> Self {
        let blank = Self {
            family: self.family,
            ..Self::default()
        };
        match kind {
            KeyKind::Flow => *self,
            KeyKind::Source => Self {
                source: self.source,
                ..blank
            },
            KeyKind::Destination => Self {
                destination: self.destination,
                ..blank
            },
            KeyKind::Pair => Self {
                source: self.source,
                destination: self.destination,
                ..blank
            },
            KeyKind::SourcePrefix => Self {
                source: self.site(self.source),
                ..blank
            },
            KeyKind::DestinationPrefix => Self {
                destination: self.site(self.destination),
                ..blank
            },
        }
    }

    /// The /64 of an IPv6 address. A link-local or multicast address, and an address of any other family, stays as it
    /// is.
    fn host(&self, address: [u8; 16]) -> [u8; 16] {
        const LINK_LOCAL_OR_GROUP: u8 = 0xfe; // fe80::/10, ff00::/8
        if self.family != Family::V6 || address[0] >= LINK_LOCAL_OR_GROUP {
            return address;
        }
        (u128::from_be_bytes(address) & (u128::MAX << 64)).to_be_bytes()
    }

    /// The network of the site that an address belongs to.
    fn site(&self, address: [u8; 16]) -> [u8; 16] {
        let length = match self.family {
            Family::Link => return address,
            Family::V4 => SITE_PREFIX_V4,
            Family::V6 => SITE_PREFIX_V6,
        };
        (u128::from_be_bytes(address) & (u128::MAX << (128 - length))).to_be_bytes()
    }

    /// The part of a key that SipHash reads after the addresses: the ports in network order, protocol and family; and the
    /// length of the message (38 bytes).
    #[inline]
    fn last_word(&self) -> u64 {
        u64::from(self.source_port.swap_bytes())
            | u64::from(self.destination_port.swap_bytes()) << 16
            | u64::from(self.protocol) << 32
            | (self.family as u64) << 40
            | 38 << 56
    }

    /// The source as an IP address, unless the key is a link-layer one.
    pub fn source_ip(&self) -> Option<IpAddr> {
        self.address(self.source)
    }

    /// The destination as an IP address, unless the key is a link-layer one.
    pub fn destination_ip(&self) -> Option<IpAddr> {
        self.address(self.destination)
    }

    /// One of the two addresses as text: IP, or MAC if the packet is not IP; `None` if a projection has removed it.
    pub fn address_shown(&self, bytes: [u8; 16]) -> Option<String> {
        match self.address(bytes) {
            None if bytes == [0; 16] => None,
            None => {
                let mac: Vec<_> = bytes[..6].iter().map(|b| format!("{b:02x}")).collect();
                Some(mac.join(":"))
            }
            Some(address) => (!address.is_unspecified()).then(|| address.to_string()),
        }
    }

    fn address(&self, bytes: [u8; 16]) -> Option<IpAddr> {
        let [a, b, c, d, ..] = bytes;
        match self.family {
            Family::Link => None,
            Family::V4 => Some(Ipv4Addr::new(a, b, c, d).into()),
            Family::V6 => Some(Ipv6Addr::from(bytes).into()),
        }
    }
}

/// An address left-aligned in sixteen bytes, assembled in registers: a word load of bytes that were stored one by one
/// would stall.
#[inline]
fn octets(address: IpAddr) -> [u8; 16] {
    let bits = match address {
        IpAddr::V4(a) => u32::from_le_bytes(a.octets()).into(),
        IpAddr::V6(a) => u128::from_le_bytes(a.octets()),
    };
    bits.to_le_bytes()
}

impl fmt::Display for FlowKey {
    /// `10.0.0.1:5001 > 10.0.1.2:80 tcp`; a part that a projection has removed prints as `*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |bytes: [u8; 16], port: u16| match (self.address_shown(bytes), port) {
            (None, _) => "*".to_owned(),
            (Some(address), 0) => address,
            (Some(address), port) if self.family == Family::V6 => format!("[{address}]:{port}"),
            (Some(address), port) => format!("{address}:{port}"),
        };
        write!(
            f,
            "{} > {}",
            end(self.source, self.source_port),
            end(self.destination, self.destination_port)
        )?;
        match self.protocol {
            0 => Ok(()),
            1 => f.write_str(" icmp"),
            6 => f.write_str(" tcp"),
            17 => f.write_str(" udp"),
            58 => f.write_str(" icmpv6"),
            n => write!(f, " proto {n}"),
        }
    }
}

/// The flow keys of all held packets, by slot, and the keyed hash over them.
#[derive(Debug)]
pub struct Keys {
    entries: Vec<Hashed>,
    /// Index of each slot's key in `entries`, if packets share keys; otherwise each key is at its slot.
    shared: Vec<Shared>,
    secret: (u64, u64),
    /// The secret of [`Self::hash_host`] and [`Self::hash_in_table`]. It is separate, so that knowledge of it reveals nothing
    /// about `secret`.
    table_secret: [u64; 3],
}

/// The index of a key that packets share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared(u32);

/// A flow key with its hash.
#[derive(Clone, Debug, Default)]
struct Hashed {
    key: FlowKey,
    /// Zero until it is needed: a plain queue needs it for none of its packets.
    flow_hash: Cell<u64>,
}

impl Keys {
    /// A table with room for the keys of `slots` packets, hashed under `secret`.
    pub fn new(slots: usize, secret: (u64, u64)) -> Self {
        Self {
            entries: vec![Hashed::default(); slots],
            shared: Vec::new(),
            secret,
            table_secret: [1, 2, 3].map(|word| sip13(secret, [], word)),
        }
    }

    /// Makes room for the keys of `slots` packets in a table that is still empty.
    pub fn sized(mut self, slots: usize) -> Self {
        self.entries.resize(slots, Hashed::default());
        self
    }

    /// Stores the key of the packet at `slot`.
    #[inline]
    pub fn set(&mut self, slot: Slot, key: FlowKey) {
        let entry = &mut self.entries[slot.0 as usize];
        entry.key = key;
        entry.flow_hash = Cell::new(0);
    }

    /// Stores a key for all packets of a flow, in a table that has no room for a key per slot. A packet then
    /// costs four bytes here. The key is never removed.
    pub fn share(&mut self, key: FlowKey) -> Shared {
        let flow_hash = Cell::new(0);
        self.entries.push(Hashed { key, flow_hash });
        Shared(self.entries.len() as u32 - 1)
    }

    /// Gives the packet at `slot` a shared key. `slot` is at most the number of slots so far.
    #[inline]
    pub fn set_shared(&mut self, slot: Slot, key: Shared) {
        match self.shared.get_mut(slot.0 as usize) {
            Some(place) => *place = key,
            None => self.shared.push(key),
        }
    }

    /// The shared key of the packet at `slot`.
    #[inline]
    pub fn shared_at(&self, slot: Slot) -> Shared {
        let shared = self.shared.get(slot.0 as usize);
        shared.copied().unwrap_or(Shared(slot.0))
    }

    /// The key that `shared` refers to.
    pub fn of(&self, shared: Shared) -> &FlowKey {
        &self.entries[shared.0 as usize].key
    }

    #[inline]
    fn entry(&self, slot: Slot) -> &Hashed {
        let Shared(place) = self.shared_at(slot);
        &self.entries[place as usize]
    }

    /// Copies the key of one slot to another (a duplicate, a fragment).
    pub fn copy(&mut self, from: Slot, to: Slot) {
        self.entries[to.0 as usize] = self.entries[from.0 as usize].clone();
    }

    /// The whole key of a packet.
    pub fn key(&self, packet: &Packet) -> &FlowKey {
        self.key_at(packet.slot)
    }

    /// The key of the packet in a slot, or of the packet that just left it.
    pub fn key_at(&self, slot: Slot) -> &FlowKey {
        &self.entry(slot).key
    }

    /// The keyed hash of [`Self::key_at`].
    #[inline]
    pub fn hash_at(&self, slot: Slot) -> u64 {
        self.flow_hash(self.entry(slot))
    }

    #[inline]
    fn flow_hash(&self, entry: &Hashed) -> u64 {
        if entry.flow_hash.get() == 0 {
            entry.flow_hash.set(self.hash_key(&entry.key));
        }
        entry.flow_hash.get()
    }

    /// The keyed hash of the part of a packet's key that `kind` keeps.
    #[inline] // usually one load; a call would cost more
    pub fn hash(&self, packet: &Packet, kind: KeyKind) -> u64 {
        let entry = self.entry(packet.slot);
        match kind {
            KeyKind::Flow => self.flow_hash(entry),
            _ => self.hash_key(&entry.key.project(kind)),
        }
    }

    /// A keyed hash of the host, or of the network, whose address `kind` keeps of a packet's key, in a tenth of the
    /// time of [`hash`]. In IPv6 a host is a /64, because the owner of a /64 can use all of its addresses. Zero if
    /// `kind` keeps more than one address.
    ///
    /// Two multiplications by secrets, each folded, as in wyhash. Unlike SipHash this is not a pseudo-random function.
    /// It is for tables whose slots nobody sees, where an attacker must not be able to choose addresses that collide,
    /// and cannot without the secrets.
    ///
    /// [`hash`]: Self::hash
    #[inline]
    pub fn hash_host(&self, packet: &Packet, kind: KeyKind) -> u64 {
        let key = &self.entry(packet.slot).key;
        let address = match kind {
            KeyKind::Source => key.host(key.source),
            KeyKind::Destination => key.host(key.destination),
            KeyKind::SourcePrefix => key.site(key.source),
            KeyKind::DestinationPrefix => key.site(key.destination),
            KeyKind::Flow | KeyKind::Pair => return 0,
        };
        let [_, _, c] = self.table_secret;
        folded(self.hash_address(address) ^ key.family as u64, c)
    }

    /// A keyed hash of a whole key, for tables as [`Self::hash_host`] describes them.
    #[inline]
    pub fn hash_in_table(&self, key: &FlowKey) -> u64 {
        let [_, _, c] = self.table_secret;
        let [source, destination] = [key.source, key.destination].map(|end| self.hash_address(end));
        folded(source ^ c, destination ^ key.last_word())
    }

    #[inline]
    fn hash_address(&self, address: [u8; 16]) -> u64 {
        let ([low, high], [a, b, _]) = (halves(address), self.table_secret);
        folded(low ^ a, high ^ b)
    }

    /// The keyed hash of any key.
    #[inline]
    pub fn hash_key(&self, key: &FlowKey) -> u64 {
        let ([a, b], [c, d]) = (halves(key.source), halves(key.destination));
        sip13(self.secret, [a, b, c, d], key.last_word())
    }
}

#[inline]
fn halves(address: [u8; 16]) -> [u64; 2] {
    let bits = u128::from_le_bytes(address);
    [bits as u64, (bits >> 64) as u64]
}

/// The product, its halves folded into one.
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip::SipHasher13;
    use std::hash::Hasher;
    use weir_base::Instant;

    fn key() -> FlowKey {
        FlowKey::ip([10, 1, 2, 3].into(), [192, 0, 2, 9].into(), 17, 5000, 53)
    }

    #[test]
    fn a_host_has_one_hash_whatever_else_is_in_the_key() {
        let mut keys = Keys::new(7, (1, 2));
        let other = FlowKey::ip([10, 1, 2, 3].into(), [192, 0, 2, 77].into(), 6, 1, 2);
        let neighbour = FlowKey::ip([10, 1, 2, 4].into(), [192, 0, 2, 9].into(), 17, 5000, 53);
        let v6: IpAddr = "a01:203::".parse().unwrap(); // the same bytes as 10.1.2.3
        let same: IpAddr = "a01:203::1:2".parse().unwrap();
        let local: [IpAddr; 2] = ["fe80::1", "fe80::2"].map(|a| a.parse().unwrap());
        let all = [
            key(),
            other,
            neighbour,
            FlowKey::ip(v6, v6, 17, 5000, 53),
            FlowKey::ip(same, v6, 17, 5000, 53),
            FlowKey::ip(local[0], v6, 17, 5000, 53),
            FlowKey::ip(local[1], v6, 17, 5000, 53),
        ];
        for (slot, key) in all.into_iter().enumerate() {
            keys.set(Slot(slot as u32), key);
        }
        let hash = |slot: u32, kind| {
            let packet = Packet::new(0, Slot(slot), 60, Instant::ZERO);
            keys.hash_host(&packet, kind)
        };
        let source = |slot| hash(slot, KeyKind::Source);
        let network = |slot| hash(slot, KeyKind::SourcePrefix);
        assert_eq!(source(0), source(1));
        assert_ne!(source(0), source(2));
        assert_ne!(source(0), source(3));
        assert_ne!(source(0), hash(0, KeyKind::Destination));
        assert_eq!(source(3), hash(3, KeyKind::Destination));
        assert_eq!(source(3), source(4), "two addresses of one /64");
        assert_ne!(source(5), source(6), "two hosts of a link");
        assert_eq!(network(0), network(2));
        assert_ne!(network(0), network(3));
    }

    #[test]
    fn addresses_and_ports_in_a_row_fill_sets_as_chance_would() {
        let mut keys = Keys::new(1, (3, 4));
        let packet = Packet::new(0, Slot(0), 60, Instant::ZERO);
        let mut v4 = [[0_u32; 64]; 2];
        let mut v6 = v4;
        let mut ports = v4;
        for n in 0..6400_u32 {
            let address: IpAddr = Ipv4Addr::from(0x0a00_0000 + n).into();
            keys.set(Slot(0), FlowKey::ip(address, address, 6, 1, 2));
            let hash = keys.hash_host(&packet, KeyKind::Source);
            v4[0][hash as usize % 64] += 1;
            v4[1][(hash >> 58) as usize] += 1;
            let address: IpAddr = Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(n) << 64).into();
            keys.set(Slot(0), FlowKey::ip(address, address, 6, 1, 2));
            let hash = keys.hash_host(&packet, KeyKind::Source);
            v6[0][hash as usize % 64] += 1;
            v6[1][(hash >> 58) as usize] += 1;
            let hash = keys.hash_in_table(&FlowKey::ip(address, address, 6, n as u16, 443));
            ports[0][hash as usize % 64] += 1;
            ports[1][(hash >> 58) as usize] += 1;
        }
        for set in v4.into_iter().chain(v6).chain(ports).flatten() {
            assert!((50..=150).contains(&set), "{set}, where 100 are expected");
        }
    }

    #[test]
    fn a_projection_keeps_only_what_it_names() {
        let key = key();
        assert_eq!(key.to_string(), "10.1.2.3:5000 > 192.0.2.9:53 udp");
        let shown = |kind| key.project(kind).to_string();
        assert_eq!(shown(KeyKind::Source), "10.1.2.3 > *");
        assert_eq!(shown(KeyKind::Destination), "* > 192.0.2.9");
        assert_eq!(shown(KeyKind::Pair), "10.1.2.3 > 192.0.2.9");
        assert_eq!(shown(KeyKind::SourcePrefix), "10.1.2.0 > *");
        assert_eq!(shown(KeyKind::DestinationPrefix), "* > 192.0.2.0");
    }

    #[test]
    fn words_and_kinds_agree() {
        for (word, kind) in KeyKind::ALL {
            assert_eq!(KeyKind::from_word(word), Some(kind));
            assert_eq!(kind.word(), word);
        }
    }

    #[test]
    fn the_hash_depends_on_the_secret_and_on_the_kept_part_only() {
        let mut keys = Keys::new(2, (1, 2));
        let (a, b) = (
            Packet::new(0, Slot(0), 60, Instant::ZERO),
            Packet::new(1, Slot(1), 60, Instant::ZERO),
        );
        keys.set(a.slot, key());
        keys.set(
            b.slot,
            FlowKey {
                source_port: 5001,
                ..key()
            },
        );
        assert_ne!(keys.hash(&a, KeyKind::Flow), keys.hash(&b, KeyKind::Flow));
        assert_eq!(keys.hash(&a, KeyKind::Pair), keys.hash(&b, KeyKind::Pair));
        let mut other = Keys::new(1, (3, 4));
        other.set(a.slot, key());
        assert_ne!(keys.hash(&a, KeyKind::Flow), other.hash(&a, KeyKind::Flow));
    }

    /// Simulations repeat their results bit for bit, so the hash of a key must never change.
    #[test]
    fn the_hash_is_that_of_the_bytes_of_a_key() {
        let key = FlowKey {
            family: Family::V6,
            source: std::array::from_fn(|n| n as u8),
            destination: std::array::from_fn(|n| 0x80 | n as u8),
            ..key()
        };
        let mut hasher = SipHasher13::new_with_keys(7, 9);
        hasher.write(&key.source);
        hasher.write(&key.destination);
        hasher.write(&key.source_port.to_be_bytes());
        hasher.write(&key.destination_port.to_be_bytes());
        hasher.write(&[key.protocol, 6]);
        assert_eq!(Keys::new(0, (7, 9)).hash_key(&key), hasher.finish());
    }

    #[test]
    fn a_key_that_is_shared_is_the_key_of_each_of_its_packets() {
        let (mut shared, mut own) = (Keys::new(0, (1, 2)), Keys::new(2, (1, 2)));
        let back = FlowKey {
            source_port: 53,
            ..key()
        };
        let names = [shared.share(key()), shared.share(back)];
        // Slots are given out in ascending order at first, and reused in any order.
        for (slot, flow) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
            let packet = Packet::new(0, Slot(slot), 60, Instant::ZERO);
            shared.set_shared(packet.slot, names[flow]);
            own.set(packet.slot, [key(), back][flow]);
            assert_eq!(shared.key(&packet), own.key(&packet));
            for (_, kind) in KeyKind::ALL {
                assert_eq!(shared.hash(&packet, kind), own.hash(&packet, kind));
            }
        }
    }
}
