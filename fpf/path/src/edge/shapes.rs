//! Filters for more than one flow, by shape: tuple space search.
//!
//! ```text
//!  shape                                 rows
//!  v4  /0  -> /16  any                    2, 7         lowest row first; a packet's key is cut to the shape, and
//!  v4  /24 -> /0   udp, 14 bits -> all    5            looked up in the same index as the flows
//!  v6  /48 -> /0   tcp, all -> 16 bits    9, 11
//! ```
//!
//! Source: Srinivasan, Suri and Varghese, "Packet classification using tuple space search", SIGCOMM 1999; the order
//! by row with an early end: Pfaff et al., "The design and implementation of Open vSwitch", NSDI 2015; a coarser
//! shape for rules that find no place: Daly et al., "TupleMerge", ToN 2019.
//!
//! Tuple space search is chosen over decision trees because adding or removing a rule takes constant time, and
//! operators write few shapes. A range of ports counts as the bits that its ports have in common. Rules with the same
//! key are in a chain, by row, and each is compared whole; a thousand ranges between the same two prefixes cost a
//! thousand comparisons.
//!
//! A packet that matches nothing is looked up in every shape of its IP version. So the number of shapes is bounded: at
//! the bound, a rule with another shape goes to the nearest coarser shape.

use std::collections::BTreeSet;

use weir_packet::FlowKey;
use weir_packet::key::Family;

use crate::edge::filter::{Filter, Subject, masked, of_ethertype};

/// Maximum shapes, in addition to one for each family that matches everything.
const SHAPES_MAX: usize = 64;

/// The fields, and parts of fields, that a group of filters matches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    family: Family,
    prefix_lens: [u8; 2],
    protocol: bool,
    port_lens: [u8; 2],
}

/// The shapes in use.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// By number; a shape without rows is reused.
    groups: Vec<Group>,
    /// Shapes with rows, in the order of their lowest rows.
    order: Vec<Probe>,
}

#[derive(Debug)]
struct Group {
    shape: Shape,
    rows: BTreeSet<u32>,
}

/// A shape to look up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// The lowest row of its rules.
    pub(super) lowest: u32,
    /// Number of the shape.
    pub(super) number: u8,
    shape: Shape,
}

impl Shape {
    fn of(filter: &Filter) -> Self {
        Self {
            family: filter.family(),
            prefix_lens: filter.prefix_lens(),
            protocol: filter.names_protocol(),
            port_lens: filter.port_lens(),
        }
    }

    /// The shape that matches every packet of a family.
    fn all_of(family: Family) -> Self {
        Self {
            family,
            prefix_lens: [0; 2],
            protocol: false,
            port_lens: [0; 2],
        }
    }

    /// Whether this shape matches on no more bits than another shape.
    fn covers(&self, other: &Self) -> bool {
        let fewer = |[a, b]: [u8; 2], [c, d]: [u8; 2]| a <= c && b <= d;
        self.family == other.family
            && fewer(self.prefix_lens, other.prefix_lens)
            && fewer(self.port_lens, other.port_lens)
            && self.protocol <= other.protocol
    }

    /// Number of bits that the shape matches on.
    fn bits(&self) -> u32 {
        let all = [self.prefix_lens, self.port_lens].concat();
        all.into_iter().map(u32::from).sum::<u32>() + 8 * u32::from(self.protocol)
    }

    /// The part of a key that the shape matches on.
    #[inline]
    pub(super) fn cut(&self, key: &FlowKey) -> FlowKey {
        if self.family == Family::Link {
            return *key;
        }
        let port = |port: u16, len: u8| {
            let mask = u16::MAX.checked_shl(16 - u32::from(len)).unwrap_or(0);
            port & mask
        };
        let ([source, destination], [source_port, destination_port]) =
            (self.prefix_lens, self.port_lens);
        FlowKey {
            source: masked(key.source, source),
            destination: masked(key.destination, destination),
            source_port: port(key.source_port, source_port),
            destination_port: port(key.destination_port, destination_port),
            protocol: if self.protocol { key.protocol } else { 0 },
            family: key.family,
        }
    }
}

impl Probe {
    /// The key to look up for a packet; `None` if no rule of this shape can match it.
    #[inline]
    pub(super) fn key(&self, subject: &Subject<'_>) -> Option<FlowKey> {
        let shape = &self.shape;
        match subject.key.family {
            family if family != shape.family => None,
            Family::Link => Some(of_ethertype(subject.ethertype)),
            _ if !subject.has_ports && shape.port_lens != [0; 2] => None,
            _ => Some(shape.cut(subject.key)),
        }
    }
}

impl Shapes {
    /// The number of the shape for a new rule, and the key under which the rule is found.
    pub(super) fn add(&mut self, row: u32, filter: &Filter) -> (u8, FlowKey) {
        let number = self.place(Shape::of(filter));
        self.groups[number].rows.insert(row);
        self.sort();
        (number as u8, self.groups[number].shape.cut(filter.least()))
    }

    /// Forgets a rule.
    pub(super) fn remove(&mut self, number: u8, row: u32) {
        self.groups[usize::from(number)].rows.remove(&row);
        self.sort();
    }

    /// The shapes in the order of their lowest rows.
    #[inline]
    pub(super) fn probes(&self) -> &[Probe] {
        &self.order
    }

    /// The number of this shape, or of the nearest coarser shape if there is no room.
    fn place(&mut self, wanted: Shape) -> usize {
        let in_use = |group: &Group| !group.rows.is_empty();
        if let Some(same) = self.groups.iter().position(|g| g.shape == wanted) {
            return same;
        }
        if self.groups.iter().filter(|g| in_use(g)).count() < SHAPES_MAX {
            return self.set(wanted);
        }
        let groups = self.groups.iter().enumerate();
        let coarser = groups.filter(|(_, g)| in_use(g) && g.shape.covers(&wanted));
        match coarser.max_by_key(|(_, group)| group.shape.bits()) {
            Some((number, _)) => number,
            None => self.set(Shape::all_of(wanted.family)),
        }
    }

    /// Gives a new shape a number.
    fn set(&mut self, shape: Shape) -> usize {
        let rows = BTreeSet::new();
        match self.groups.iter().position(|group| group.rows.is_empty()) {
            Some(spare) => {
                self.groups[spare].shape = shape;
                spare
            }
            None => {
                self.groups.push(Group { shape, rows });
                self.groups.len() - 1
            }
        }
    }

    fn sort(&mut self) {
        let groups = self.groups.iter().enumerate();
        self.order.clear();
        self.order.extend(groups.filter_map(|(number, group)| {
            Some(Probe {
                lowest: *group.rows.first()?,
                number: number as u8,
                shape: group.shape,
            })
        }));
        self.order.sort_by_key(|probe| probe.lowest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::filter::RawFilter;

    fn udp(prefix: &str, ports: (u16, u16)) -> Filter {
        let raw = RawFilter {
            source: Some(prefix.parse().unwrap()),
            protocol: Some(17),
            source_ports: Some(ports),
            ..RawFilter::default()
        };
        raw.check().unwrap()
    }

    #[test]
    fn a_range_counts_as_the_bits_that_its_ports_share() {
        // 5004 is 0b1001110001100, 5005 differs in the last bit; 1024 and 65535 differ in the first one.
        for (range, bits) in [((5004, 5005), 15), ((80, 80), 16), ((1024, 65535), 0)] {
            assert_eq!(Shape::of(&udp("10.0.0.0/8", range)).port_lens, [bits, 0]);
        }
    }

    #[test]
    fn beyond_the_bound_a_rule_goes_to_the_nearest_coarser_shape() {
        let mut shapes = Shapes::default();
        let lens = (1..=32).map(|len| format!("10.0.0.0/{len}"));
        for (row, prefix) in lens.enumerate() {
            for (turn, port) in [(0, 80), (1, 81)] {
                let filter = udp(&prefix, (port, 81)); // 16 bits, or 15
                shapes.add(2 * row as u32 + turn, &filter);
            }
        }
        assert_eq!(shapes.groups.len(), SHAPES_MAX);
        // A prefix of eight bits: the nearest shape that matches on no more bits has the same prefix, and 16 bits of
        // the port.
        let ((number, key), filter) = {
            let raw = RawFilter {
                destination_ports: Some((5, 5)),
                ..udp("10.0.0.0/8", (81, 81)).raw()
            };
            let filter = raw.check().unwrap();
            (shapes.add(1000, &filter), filter)
        };
        let shape = shapes.groups[usize::from(number)].shape;
        assert_eq!((shape.prefix_lens, shape.port_lens), ([8, 0], [16, 0]));
        assert_eq!((key.source_port, key.destination_port), (81, 0));
        assert!(shape.covers(&Shape::of(&filter)));
        // None of these shapes covers a filter without a protocol.
        let all = RawFilter {
            version: Some(4),
            ..RawFilter::default()
        };
        let (number, _) = shapes.add(1001, &all.check().unwrap());
        assert_eq!(
            shapes.groups[usize::from(number)].shape,
            Shape::all_of(Family::V4)
        );
        assert_eq!(shapes.groups.len(), SHAPES_MAX + 1);
    }

    #[test]
    fn shapes_are_in_the_order_of_their_lowest_rows_and_leave_with_their_last() {
        let mut shapes = Shapes::default();
        let (a, _) = shapes.add(5, &udp("10.0.0.0/8", (1, 1)));
        let (b, _) = shapes.add(7, &udp("10.0.0.0/9", (1, 1)));
        let order = |shapes: &Shapes| -> Vec<_> {
            let probes = shapes.probes().iter();
            probes.map(|probe| (probe.lowest, probe.number)).collect()
        };
        assert_eq!(order(&shapes), [(5, a), (7, b)]);
        assert_eq!(shapes.add(2, &udp("10.128.0.0/9", (2, 2))).0, b);
        assert_eq!(order(&shapes), [(2, b), (5, a)]);
        shapes.remove(b, 2);
        shapes.remove(b, 7);
        assert_eq!(order(&shapes), [(5, a)]);
        assert_eq!(shapes.add(1, &udp("10.0.0.0/10", (1, 1))).0, b);
        assert_eq!(shapes.groups.len(), 2);
    }
}
