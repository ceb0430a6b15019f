//! The stages of a burst of FPF packets: all are parsed, all are looked up, and each is rewritten.
//!
//! ```text
//!  Label::parse      frame --> place of its row      for each packet, as it comes
//!  look_up_all       place --> row                   for all of them
//!  rewrite           row   --> frame                 for each packet that goes to a neighbour behind a port
//! ```
//!
//! Stages instead of packets, so that the loads of many packets are under way at once: the processor does not wait for
//! the header of one packet, or its row in a large table, before it begins with the next one.
//!
//! Only packets to a neighbour are carried on here. [`forward`](crate::fpf::forward) decides about all others, one by
//! one, and says why a packet is dropped.

use weir_packet::{Packet, Pool, Reason};
use weir_wire::ethernet;

use crate::fpf::bindings::Adjacency;
use crate::fpf::forward::{self, Fields, advance};
use crate::fpf::table::{HopId, Input, Row, Table};
use crate::link::tag;

/// The state of a packet of a burst: plain numbers, and apart from the packet, which so stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The place of its row, or [`NOWHERE`].
    place: u32,
    row: Row,
    len: u16,
    index: u8,
}

/// Where no table has a row: for packets at the end of their path, and for headers that are wrong.
const NOWHERE: u32 = u32::MAX;

impl Default for Label {
    /// The state of a packet that does not just go to a neighbour.
    #[inline(always)]
    fn default() -> Self {
        Self {
            place: NOWHERE,
            row: Row::default(),
            len: 0,
            index: 0,
        }
    }
}

impl Label {
    /// The state of a frame whose FPF header follows the Ethernet header.
    #[inline(always)]
    pub fn parse(frame: &[u8], table: &Table, input: Input) -> Self {
        let bytes = frame.get(ethernet::HEADER_LEN..).unwrap_or(&[]);
        if let Ok(Fields { len, index, left }) = forward::read(bytes)
            && let Some(lid) = table.domain().lid_size().read(left)
        {
            return Self {
                place: table.place(input, lid) as u32, // a table has at most 2^24 rows
                row: Row::default(),
                len: len as u16,    // at most 257
                index: index as u8, // at most Length
            };
        }
        Self::default()
    }

    /// The neighbour to which the packet goes, and its Index then; none if something else is to be decided.
    #[inline(always)]
    pub fn forward(&self, table: &Table) -> Option<(HopId, u8)> {
        let (hop, leaves_domain) = self.row.hop()?;
        Some((hop, advance(self.index, leaves_domain, table.domain())))
    }

    /// Length of the header of a packet that goes to a neighbour, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.len.into()
    }
}

/// Looks up the rows of all packets.
#[inline]
pub fn look_up_all(table: &Table, labels: &mut [Label]) {
    for label in labels {
        label.row = table.row_at(label.place as usize);
    }
}

/// Rewrites a packet to a neighbour whose link [takes](Adjacency::takes) it: Index, addresses, queue, VLAN. If there is
/// no room for a tag, this returns the reason to drop the packet.
#[inline(always)]
pub fn rewrite(
    pool: &mut Pool,
    packet: &mut Packet,
    adjacency: &Adjacency,
    index: u8,
) -> Result<(), Reason> {
    /// Everything up to the Index.
    const REWRITTEN: usize = ethernet::HEADER_LEN + 2;
    let bytes = pool.frame_mut(packet).first_chunk_mut::<REWRITTEN>();
    let bytes = bytes.ok_or(Reason::TruncatedHeader)?;
    bytes[..adjacency.macs.len()].copy_from_slice(&adjacency.macs);
    bytes[REWRITTEN - 1] = index;
    packet.class = adjacency.queue;
    match adjacency.vlan == 0 || tag::insert(pool, packet, adjacency.vlan) {
        true => Ok(()),
        false => Err(Reason::TruncatedFrame),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fpf::bindings::{Bindings, Device, PortState};
    use crate::fpf::domain::Domain;
    use crate::fpf::forward::{Decision, decide, parse};
    use crate::fpf::interface::Interface;
    use crate::fpf::rule::{Hop, Rule};
    use crate::fpf::table::Builder;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_packet::Class;

    /// Even LIDs lead to neighbours by a port without a VLAN and by one with it, every second to the next domain; the
    /// odd ones have a rule that drops, or none.
    fn table(lid_bytes: u8) -> Table {
        let domain = Domain::new(0xc000, lid_bytes).unwrap();
        let mut builder = Builder::new(domain);
        let interfaces = [
            Interface::ethernet("wan"),
            Interface::vlan("wan", 7).unwrap(),
        ];
        let interfaces = interfaces.map(|interface| builder.interface(interface).unwrap());
        for lid in 0..domain.lid_size().space() as u32 {
            let hop = Hop {
                interface: interfaces[lid as usize / 4 % 2],
                destination: [2, 0, 0, 0, (lid >> 8) as u8, lid as u8],
                queue: Class(lid as u8 % 3),
                leaves_domain: lid % 4 == 0,
            };
            let rule = match lid % 4 {
                0 | 2 => Rule::Forward(hop),
                1 => Rule::Drop,
                _ => continue,
            };
            builder.rule(None, lid as u16, rule).unwrap();
        }
        builder.build().unwrap()
    }

    proptest! {
        /// A burst forwards exactly the packets that a decision about each alone forwards, to the same neighbour and
        /// with the same Index.
        #[test]
        fn a_burst_decides_as_alone(
            frames in vec(vec(0_u8..12, 10..40), 1..64),
            two_bytes: bool,
        ) {
            let table = table(1 + u8::from(two_bytes));
            let input = table.any_input();
            let label = |frame: &Vec<u8>| Label::parse(frame, &table, input);
            let mut labels: Vec<_> = frames.iter().map(label).collect();
            look_up_all(&table, &mut labels);
            for (frame, label) in frames.iter().zip(&labels) {
                let bytes = frame.get(ethernet::HEADER_LEN..).unwrap_or(&[]);
                let header = parse(bytes, table.domain().lid_size());
                let alone = match header.map(|header| decide(&table, input, &header)) {
                    Ok(Ok(Decision::Forward(hop, index))) => Some((hop, index)),
                    _ => None,
                };
                let together = label.forward(&table).map(|(hop, index)| (*table.hop(hop), index));
                prop_assert_eq!(together, alone);
                if alone.is_some() {
                    prop_assert_eq!(Ok(label.header_len()), header.map(|header| header.len.into()));
                }
            }
        }
    }

    #[test]
    fn a_packet_gets_index_addresses_queue_and_vlan_of_its_neighbour() {
        let table = table(1);
        let port = PortState {
            name: "wan",
            open: true,
            device: Some(Device {
                mac: [4; 6],
                mtu: 100,
                up: true,
            }),
        };
        let bindings = Bindings::new(&table, std::iter::once(port));
        let mut pool = Pool::new(1, 200, (1, 2));
        for (lid, index, tag) in [(8, 1, &[][..]), (14, 0, &[0x81, 0, 0, 7][..])] {
            let mut frame = [&[9; 12][..], &[0xc0, 0, 2, 0, lid, 5], b"payload"].concat();
            let mut packet = pool.receive(&frame, Instant::ZERO).unwrap();
            let mut labels = [Label::parse(&frame, &table, table.any_input())];
            look_up_all(&table, &mut labels);
            let (hop, after) = labels[0].forward(&table).unwrap();
            let adjacency = bindings.adjacency(hop);
            assert!(adjacency.takes(&packet));
            assert_eq!(rewrite(&mut pool, &mut packet, adjacency, after), Ok(()));
            frame[..12].copy_from_slice(&[[2, 0, 0, 0, 0, lid], [4; 6]].concat());
            frame[15] = index;
            frame.splice(12..12, tag.iter().copied());
            assert_eq!(
                (pool.frame(&packet), packet.class),
                (&frame[..], Class(lid % 3))
            );
            pool.release(packet);
        }
        let long = pool.receive(&[0; 115], Instant::ZERO).unwrap();
        let closed = Bindings::new(&table, std::iter::empty());
        let mut labels = [Label::parse(&[0; 20], &table, table.any_input())];
        labels[0].place = 8;
        look_up_all(&table, &mut labels);
        let (hop, _) = labels[0].forward(&table).unwrap();
        assert!(!bindings.adjacency(hop).takes(&long), "longer than the MTU");
        pool.release(long);
        let short = pool.receive(&[0; 20], Instant::ZERO).unwrap();
        assert!(
            !closed.adjacency(hop).takes(&short),
            "there is no such port"
        );
    }
}
