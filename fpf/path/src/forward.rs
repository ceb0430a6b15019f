//! The forwarding decision: the five steps of section III.A.
//!
//! ```text
//!  header --> ends in the frame? --> Index > Length? --> Index = Length? --> a whole LID? --> rule? --> Decision
//!                  |                     |                    |                  |              |
//!           truncated-header         fpf-index          end of the path    fpf-lid-length   fpf-unknown-lid,
//!                                                                                           fpf-return
//! ```
//!
//! The decision reads headers, not frames, and changes nothing. Packets that just go to a neighbour are handled in one
//! pass ([`relay`](crate::relay)), with the same rows.

use std::sync::Arc;

use weir_packet::Reason;

use crate::domain::{Domain, LidSize};
use crate::header::{FIXED_LEN, Repr, Vector, View};
use crate::process::Processing;
use crate::rule::{Hop, Inner, Rule};
use crate::table::{Input, Table};

/// Maximum nested decisions about one packet: leaves of multicast rules, and FPF headers in tunnels in FPF headers.
pub const NESTED_MAX: u8 = 8;

/// A header whose lengths are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the whole header in bytes.
    pub len: u16,
    /// Index, as received.
    pub index: u8,
    /// Where on its path the packet is.
    pub position: Position,
}

/// Where on its path a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the next FE, which this LID names.
    Lid(u16),
    /// At its last FE.
    End,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'t> {
    /// The packet goes to a neighbour, with this Index.
    Forward(Hop, u8),
    /// The packet is copied, with these vectors.
    Multicast(&'t Arc<[Vector]>),
    /// A processor gets the payload.
    Process(&'t Processing),
    /// The packet is forwarded without the header.
    Decapsulate(Inner),
    /// The control element gets the packet.
    Redirect,
}

/// The header at the front of these bytes, or the reason to drop the packet (step 2).
#[inline]
pub fn parse(packet: &[u8], lid_size: LidSize) -> Result<Header, Reason> {
    let fixed = packet.first_chunk().ok_or(Reason::TruncatedHeader)?;
    let view = View::<&[u8; FIXED_LEN]>::new_unchecked(fixed);
    let (len, index) = (view.header_len(), usize::from(view.index()));
    let vector = packet.get(FIXED_LEN..len).ok_or(Reason::TruncatedHeader)?;
    let position = match vector.get(index..).ok_or(Reason::FpfIndex)? {
        [] => Position::End,
        left => Position::Lid(lid_size.read(left).ok_or(Reason::FpfLidLength)?),
    };
    Ok(Header {
        len: len as u16,    // at most 257
        index: index as u8, // at most Length
        position,
    })
}

/// Decides about a packet with this header that arrived through this interface (steps 2 to 4), or returns the reason to
/// drop it.
#[inline]
pub fn decide<'t>(table: &'t Table, input: Input, header: &Header) -> Result<Decision<'t>, Reason> {
    let lid = match header.position {
        Position::Lid(lid) => lid,
        Position::End => return Ok(Decision::Decapsulate(table.end(input))),
    };
    let row = table.row(input, lid);
    if let Some((hop, leaves_domain)) = row.hop() {
        if !table.takes(hop, input) {
            return Err(Reason::FpfReturn);
        }
        let index = advance(header.index, leaves_domain, table.domain());
        return Ok(Decision::Forward(*table.hop(hop), index));
    }
    let rule = row.rule().ok_or(Reason::FpfUnknownLid)?;
    match table.numbered(rule) {
        Rule::Multicast(leaves) => Ok(Decision::Multicast(leaves)),
        Rule::Process(processing) => Ok(Decision::Process(processing)),
        Rule::Decapsulate(inner) => Ok(Decision::Decapsulate(*inner)),
        Rule::Redirect => Ok(Decision::Redirect),
        Rule::Drop | Rule::Forward(_) => Err(Reason::FpfRule),
    }
}

/// The header after a rule that consumes its LID: Index advances to the next LID.
pub fn onward(header: &Repr, lid_size: LidSize) -> Option<Repr> {
    let index = header.index().checked_add(lid_size.bytes())?;
    Repr::new(*header.vector(), index).ok()
}

/// Index after this FE (step 4). If the LID at Index lies within the vector, the result is at most Length.
#[inline(always)]
pub(super) fn advance(index: u8, leaves_domain: bool, domain: &Domain) -> u8 {
    index.wrapping_add(u8::from(leaves_domain) * domain.lid_size().bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::table::Builder;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use rand::Rng;
    use weir_base::Streams;
    use weir_packet::Queue;

    /// Decides about the packet that begins with these bytes.
    fn decided<'t>(table: &'t Table, input: Input, packet: &[u8]) -> Result<Decision<'t>, Reason> {
        let header = parse(packet, table.domain().lid_size())?;
        decide(table, input, &header)
    }

    fn hop(interface: &str, last: u8, builder: &mut Builder) -> Hop {
        Hop {
            interface: builder.interface(Interface::ethernet(interface)).unwrap(),
            destination: [2, 0, 0, 0, 0, last].into(),
            queue: Queue(0),
            leaves_domain: false,
        }
    }

    #[test]
    fn table_1_of_the_paper() {
        let mut builder = Builder::new(Domain::default());
        let [first, third] = ["#1", "#3"].map(|name| {
            let interface = Interface::ethernet(name);
            builder.interface(interface).unwrap()
        });
        let to_9 = Hop {
            interface: builder.interface(Interface::ethernet("#9")).unwrap(),
            destination: [0xa1, 0x01, 0x02, 0xff, 0x01, 0xd9].into(),
            queue: Queue(1), // Premium
            leaves_domain: false,
        };
        let leaves = [[0xa1, 0xe3, 0xd3], [0xaa, 0xbc, 0xe8]].map(|l| Vector::new(&l).unwrap());
        let leaves = Arc::from(leaves);
        let multicast = Rule::Multicast(Arc::clone(&leaves));
        builder
            .rule(Some(first), 0xa1, Rule::Forward(to_9))
            .unwrap();
        builder.rule(Some(third), 0xf1, multicast).unwrap();
        let table = builder.build().unwrap();

        let from = |interface, packet: &[u8]| decided(&table, table.input(interface), packet);
        // Length 2, Index 0, LIDs a1 and f1; then Index 1.
        assert_eq!(
            from(first, &[2, 0, 0xa1, 0xf1]),
            Ok(Decision::Forward(to_9, 0))
        );
        assert_eq!(
            from(third, &[2, 1, 0xa1, 0xf1]),
            Ok(Decision::Multicast(&leaves))
        );
        // Each LID has its rule at its own interface only.
        let unknown = Err(Reason::FpfUnknownLid);
        assert_eq!(from(first, &[2, 1, 0xa1, 0xf1]), unknown);
        assert_eq!(from(third, &[2, 0, 0xa1, 0xf1]), unknown);
        assert_eq!(decided(&table, table.any_input(), &[1, 0, 0xa1]), unknown);
    }

    /// Figure 1: the edge of C uses LID_B and is the last FE of its domain; both FEs of B use LID_A, and the second
    /// one is the last; the edge of A removes the header.
    #[test]
    fn figure_1_of_the_paper() {
        const LID_B: u16 = 0x0b;
        const LID_A: u16 = 0x0a;
        let forwarding = |lid, leaves_domain| {
            let mut builder = Builder::new(Domain::default());
            let hop = Hop {
                leaves_domain,
                ..hop("next", 1, &mut builder)
            };
            builder.rule(None, lid, Rule::Forward(hop)).unwrap();
            builder.build().unwrap()
        };
        let path = [
            forwarding(LID_B, true),  // the edge of C
            forwarding(LID_A, false), // the first FE of B
            forwarding(LID_A, true),  // the second one
        ];
        let mut packet = [2, 0, LID_B as u8, LID_A as u8, 0x45];
        let mut trace = vec![packet[1]];
        for table in &path {
            match decided(table, table.any_input(), &packet) {
                Ok(Decision::Forward(_, index)) => packet[1] = index,
                other => panic!("{other:?} at Index {}", packet[1]),
            }
            trace.push(packet[1]);
        }
        assert_eq!(trace, [0, 1, 1, 2]);
        let edge_of_a = Builder::new(Domain::default()).build().unwrap();
        let end = decided(&edge_of_a, edge_of_a.any_input(), &packet);
        assert_eq!(end, Ok(Decision::Decapsulate(Inner::Ip)));
    }

    /// A table in which each LID leads to a neighbour whose address contains it.
    fn full(bytes: u8, leaves_domain: bool) -> Table {
        let domain = Domain::new(0xc000, bytes).unwrap();
        let mut builder = Builder::new(domain);
        let hop = hop("next", 0, &mut builder);
        for lid in 0..domain.lid_size().space() {
            let [a, b] = (lid as u16).to_be_bytes();
            let hop = Hop {
                destination: [2, 0, 0, bytes, a, b].into(),
                leaves_domain,
                ..hop
            };
            builder.rule(None, lid as u16, Rule::Forward(hop)).unwrap();
        }
        builder.build().unwrap()
    }

    /// Claim header.4: domains with LIDs of one and of two bytes on random paths, and one to three FEs in each of
    /// them. `WEIR_FPF_PATHS=1000000` walks a million of them.
    #[test]
    fn lids_of_both_sizes_on_random_paths() {
        let paths = std::env::var("WEIR_FPF_PATHS");
        let paths: u32 = paths.map_or(20_000, |n| n.parse().unwrap());
        let tables = [1, 2].map(|bytes| [false, true].map(|border| full(bytes, border)));
        let mut random = Streams::new(1).stream("paths");
        let mut below = |n: u32| random.next_u32() % n;
        for _ in 0..paths {
            let domains: Vec<_> = (0..1 + below(20))
                .map(|_| (1 + below(2) as u8, below(65_536) as u16, 1 + below(3)))
                .collect();
            let mut packet = vec![0, 0];
            for (bytes, lid, _) in &domains {
                let lid = lid.to_be_bytes();
                packet.extend(&lid[2 - usize::from(*bytes)..]);
            }
            packet[0] = packet.len() as u8 - 2;
            for (bytes, lid, elements) in domains {
                let before = packet[1];
                for element in 1..=elements {
                    let border = element == elements;
                    let table = &tables[usize::from(bytes) - 1][usize::from(border)];
                    let Ok(Decision::Forward(hop, index)) =
                        decided(table, table.any_input(), &packet)
                    else {
                        panic!("no rule for {packet:x?}")
                    };
                    let [a, b] = lid.to_be_bytes();
                    let a = if bytes == 1 { 0 } else { a };
                    assert_eq!(hop.destination, [2, 0, 0, bytes, a, b].into());
                    assert_eq!(index - before, if border { bytes } else { 0 });
                    packet[1] = index;
                }
            }
            let last = &tables[0][0];
            let end = decided(last, last.any_input(), &packet);
            assert_eq!(end, Ok(Decision::Decapsulate(Inner::Ip)), "{packet:x?}");
        }
    }

    /// The steps of the paper, in its order, not optimised.
    fn slow(packet: &[u8], lid_bytes: usize) -> Result<Position, Reason> {
        let [length, index, rest @ ..] = packet else {
            return Err(Reason::TruncatedHeader);
        };
        let (length, index) = (usize::from(*length), usize::from(*index));
        if rest.len() < length {
            return Err(Reason::TruncatedHeader);
        }
        if index > length {
            return Err(Reason::FpfIndex);
        }
        if index == length {
            return Ok(Position::End);
        }
        if index + lid_bytes > length {
            return Err(Reason::FpfLidLength);
        }
        let lid = &rest[index..index + lid_bytes];
        let lid = lid.iter().fold(0, |lid, b| lid << 8 | u16::from(*b));
        Ok(Position::Lid(lid))
    }

    /// Claim header.5: every Index at every Length, and every truncation of every Length.
    #[test]
    fn every_index_every_length_and_every_truncation() {
        let position = |packet: &[u8], size| parse(packet, size).map(|header| header.position);
        for size in [LidSize::One, LidSize::Two] {
            let bytes = usize::from(size.bytes());
            for length in 0..=255 {
                let mut packet: Vec<u8> =
                    (0..2 + u16::from(length)).map(|n| n as u8 ^ 0x5a).collect();
                packet[0] = length;
                for index in 0..=255 {
                    packet[1] = index;
                    assert_eq!(position(&packet, size), slow(&packet, bytes));
                }
                for index in [0, length / 2, length, length.wrapping_add(1)] {
                    for end in 0..packet.len() {
                        packet[1] = index;
                        let cut = &packet[..end];
                        assert_eq!(position(cut, size), Err(Reason::TruncatedHeader));
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_slowly(packet in vec(any::<u8>(), 0..40), short: bool) {
            let mut packet = packet;
            if let (true, [length, index, ..]) = (short, &mut packet[..]) {
                *length %= 40;
                *index %= 40;
            }
            for size in [LidSize::One, LidSize::Two] {
                let header = parse(&packet, size);
                let expected = slow(&packet, size.bytes().into());
                prop_assert_eq!(header.map(|header| header.position), expected);
                if let Ok(header) = header {
                    prop_assert!(usize::from(header.len) <= packet.len());
                    prop_assert_eq!(header.index, packet[1]);
                }
            }
        }
    }
}
