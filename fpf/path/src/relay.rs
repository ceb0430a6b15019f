//! Relaying: packets that just go to a neighbour behind a port, from the header to the rewritten frame in one pass.
//!
//! ```text
//!  frame --> Length, Index --> LID --> row --> neighbour --> MAC addresses, Index
//! ```
//!
//! One pass, and not stages over a burst as for routes: the rows of a domain fit the first-level cache, and a burst's
//! headers are in the cache since they were received, so it does not pay to overlap loads; and a second pass would
//! locate each frame in its slot again, which costs as much as the lookup. (`weir bench forwarding` also measures the
//! cost for headers that are not in a cache.)
//!
//! Only packets to a neighbour are handled here. [`forward`](crate::forward) decides about all others, one by one,
//! and returns the reason to drop a packet.

use weir_packet::{Packet, Pool, Reason};
use weir_path::link::tag;
use weir_wire::ethernet;

use crate::bindings::{Adjacency, Bindings};
use crate::forward::advance;
use crate::header::FIXED_LEN;
use crate::table::{Input, Table};

/// Rewrites a frame whose FPF header follows the Ethernet header, if it just goes to a neighbour: Index and addresses.
/// Returns the neighbour, and the length of the FPF header in bytes. For any other decision, this changes nothing and
/// returns `None`.
#[inline(always)]
pub fn rewrite<'b>(
    frame: &mut [u8],
    table: &Table,
    bindings: &'b Bindings,
    input: Input,
) -> Option<(&'b Adjacency, usize)> {
    /// Everything up to the Index.
    const HEAD: usize = ethernet::HEADER_LEN + FIXED_LEN;
    let frame_len = frame.len();
    let (head, rest) = frame.split_first_chunk_mut::<HEAD>()?;
    let [.., length, index] = *head;
    let vector = rest.get(..length.into())?;
    let domain = table.domain();
    let lid = domain.lid_size().read(vector.get(index.into()..)?)?;
    let (hop, leaves_domain) = table.row(input, lid).hop()?;
    let adjacency = bindings.adjacency(hop);
    if !adjacency.takes(frame_len, input) {
        return None;
    }
    head[..adjacency.macs.len()].copy_from_slice(&adjacency.macs);
    head[HEAD - 1] = advance(index, leaves_domain, domain);
    Some((adjacency, FIXED_LEN + usize::from(length)))
}

/// Gives a relayed packet its queue and its VLAN. If there is no room for a tag, returns the reason to drop the packet.
#[inline(always)]
pub fn finish(pool: &mut Pool, packet: &mut Packet, adjacency: &Adjacency) -> Result<(), Reason> {
    packet.queue = adjacency.queue;
    if adjacency.vlan == 0 || tag::insert(pool, packet, adjacency.vlan) {
        Ok(())
    } else {
        Err(Reason::TruncatedFrame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::{Device, PortState};
    use crate::domain::Domain;
    use crate::forward::{Decision, decide, parse};
    use crate::interface::Interface;
    use crate::rule::{Destination, Hop, Rule};
    use crate::table::Builder;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_packet::Queue;

    /// Even LIDs lead to neighbours through a port with and without a VLAN, every second to the next domain; odd LIDs
    /// have a rule that drops, or no rule.
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
                destination: [2, 0, 0, 0, (lid >> 8) as u8, lid as u8].into(),
                queue: Queue(lid as u8 % 3),
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

    fn bindings(table: &Table, mtu: u32) -> Bindings {
        let port = PortState {
            name: "wan",
            open: true,
            device: Some(Device {
                mac: [4; 6],
                mtu,
                up: true,
            }),
        };
        Bindings::new(table, std::iter::once(port), |_, _| None, |_| Vec::new())
    }

    proptest! {
        /// Exactly the packets that the decision sends to a neighbour are relayed, to the same neighbour and with the
        /// same Index; all others stay as they are.
        #[test]
        fn a_packet_is_relayed_as_it_is_decided(
            mut frame in vec(0_u8..12, 10..40),
            two_bytes: bool,
        ) {
            let table = table(1 + u8::from(two_bytes));
            let (input, bindings) = (table.any_input(), bindings(&table, 100));
            let before = frame.clone();
            let header = parse(before.get(14..).unwrap_or(&[]), table.domain().lid_size());
            let decision = header.map(|header| decide(&table, input, &header));
            let relayed = rewrite(&mut frame, &table, &bindings, input);
            match decision {
                Ok(Ok(Decision::Forward(hop, index))) => {
                    let (adjacency, header_len) = relayed.unwrap();
                    let Destination::Mac(neighbour) = hop.destination else {
                        return Err(TestCaseError::fail("no rule of the table names an IP address"));
                    };
                    prop_assert_eq!(&frame[..12], [neighbour, [4; 6]].concat());
                    prop_assert_eq!(frame[15], index);
                    prop_assert_eq!(&frame[16..], &before[16..]);
                    prop_assert_eq!(adjacency.queue, hop.queue);
                    prop_assert_eq!(Ok(header_len), header.map(|header| header.len.into()));
                }
                _ => {
                    prop_assert!(relayed.is_none());
                    prop_assert_eq!(frame, before);
                }
            }
        }
    }

    #[test]
    fn a_packet_gets_index_addresses_queue_and_vlan_of_its_neighbour() {
        let table = table(1);
        let bindings = bindings(&table, 100);
        let input = table.any_input();
        let mut pool = Pool::new(1, 200, (1, 2));
        for (lid, index, tag) in [(8, 1, &[][..]), (14, 0, &[0x81, 0, 0, 7][..])] {
            let mut frame = [&[9; 12][..], &[0xc0, 0, 2, 0, lid, 5], b"payload"].concat();
            let mut packet = pool.receive(&frame, Instant::ZERO).unwrap();
            let (adjacency, _) =
                rewrite(pool.frame_mut(&packet), &table, &bindings, input).unwrap();
            assert_eq!(finish(&mut pool, &mut packet, adjacency), Ok(()));
            frame[..12].copy_from_slice(&[[2, 0, 0, 0, 0, lid], [4; 6]].concat());
            frame[15] = index;
            frame.splice(12..12, tag.iter().copied());
            assert_eq!(
                (pool.frame(&packet), packet.queue),
                (&frame[..], Queue(lid % 3))
            );
            pool.release(packet);
        }
        let closed = Bindings::new(&table, std::iter::empty(), |_, _| None, |_| Vec::new());
        let frame = |bytes: usize| {
            let mut frame = vec![0; bytes];
            frame[12..18].copy_from_slice(&[0xc0, 0, 2, 0, 8, 5]);
            frame
        };
        assert!(rewrite(&mut frame(114), &table, &bindings, input).is_some());
        let long = rewrite(&mut frame(115), &table, &bindings, input);
        assert!(long.is_none(), "longer than the MTU");
        let nowhere = rewrite(&mut frame(20), &table, &closed, input);
        assert!(nowhere.is_none(), "there is no such port");
    }
}
