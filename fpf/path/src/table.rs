//! The forwarding table: (input interface, LID) to a rule, by direct index.
//!
//! ```text
//!  input interface --> block       rows (four bytes for each LID)           neighbours        other rules
//!    any, lan          0           | 0 | n0 | 0 | r1 | ...          |       n0: .. by wan     r1: multicast ..
//!    wan               1           | 0 | n0 | r2 | r1 | ...         |       n1: .. by lan     r2: drop
//!                                        LID at Index
//! ```
//!
//! Source: table I of the paper. There is no hash and no search: a row names a neighbour directly, so a forwarded
//! packet costs two loads, from 1 kB of rows for each block (256 kB with LIDs of two bytes) and from the list of
//! neighbours, which has each neighbour once. An interface without its own rows uses the block of the rows for any
//! interface; an interface with its own rows has a block that also contains the rows for any interface. A rule for any
//! interface is stored once.
//!
//! The header has no hop limit. Each border of a domain consumes a LID, so only rules within a domain could make
//! packets loop forever. The shortest such loop is two FEs whose rules name each other. Therefore no packet is sent
//! back through the interface where it arrived, unless it leaves the domain, or a rule for exactly that input interface
//! names it. Longer loops are not detected here: that needs the tables of all FEs of the domain.
//!
//! A table is built as a whole and never changed, so that any number of threads can read it behind an `Arc`. The
//! builder refuses rows that can never work, with an error message: a LID beyond the domain's size, two rules for one
//! LID, a multicast rule that leads back to itself.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};

use crate::domain::{Domain, LidSize};
use crate::interface::{Interface, InterfaceId};
use crate::process::{Function, Named, Processing, ProcessorId};
use crate::rule::{Destination, Hop, Inner, Rule};
pub use crate::table_error::{
    COPIES_MAX, INTERFACES_MAX, MULTICAST_DEPTH_MAX, PROCESSORS_MAX, TableError,
};
use crate::table_row::Row;
pub use crate::table_row::{HopId, RuleId};

/// A forwarding table.
#[derive(Clone, Debug)]
pub struct Table {
    domain: Domain,
    interfaces: Box<[Interface]>,
    /// By interface.
    blocks: Box<[Input]>,
    /// By block and LID.
    rows: Box<[Row]>,
    /// The neighbours of all forwarding rules, each once.
    hops: Box<[Hop]>,
    /// By neighbour: a rule that forwards to it.
    hop_rules: Box<[RuleId]>,
    /// By neighbour: the input interface whose packets must not go there, or [`NONE_BARRED`].
    barred: Box<[u16]>,
    /// By number, from one on.
    rules: Box<[Rule]>,
    /// By block: how packets are forwarded for which this FE is the last one.
    ends: Box<[Inner]>,
    /// By number; empty in a simulated network, which numbers the processors itself.
    processors: Box<[Named]>,
}

/// An input interface, with its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Index of the first row.
    first: u32,
    /// Number of the interface, or [`UNNAMED`].
    interface: u16,
}

/// Stands for an input interface that the table does not name.
const UNNAMED: u16 = u16::MAX;
/// Stands for no barred input interface; numbers of interfaces are below [`INTERFACES_MAX`].
const NONE_BARRED: u16 = u16::MAX - 1;

impl Default for Input {
    fn default() -> Self {
        Self {
            first: 0,
            interface: UNNAMED,
        }
    }
}

/// A table in the making.
#[derive(Debug)]
pub struct Builder {
    domain: Domain,
    interfaces: Vec<Interface>,
    /// By input interface (`None` for any) and LID: the index of its rule.
    rows: BTreeMap<(Option<InterfaceId>, u16), usize>,
    rules: Vec<Rule>,
    /// By rule: its input interface; `None` for any.
    inputs: Vec<Option<InterfaceId>>,
    ends: BTreeMap<Option<InterfaceId>, Inner>,
    processors: Vec<Named>,
}

impl Builder {
    /// An empty table for a domain.
    pub fn new(domain: Domain) -> Self {
        Self {
            domain,
            interfaces: Vec::new(),
            rows: BTreeMap::new(),
            rules: Vec::new(),
            inputs: Vec::new(),
            ends: BTreeMap::new(),
            processors: Vec::new(),
        }
    }

    /// The number of an interface, which is added if it is new.
    pub fn interface(&mut self, interface: Interface) -> Result<InterfaceId, TableError> {
        let known = self.interfaces.iter().position(|i| i.is_same(&interface));
        let number = known.unwrap_or(self.interfaces.len());
        if number >= INTERFACES_MAX {
            return Err(TableError::Interfaces);
        }
        if known.is_none() {
            self.interfaces.push(interface);
        }
        Ok(InterfaceId(number as u16))
    }

    /// Adds a processor, to which rules can hand packets.
    pub fn processor(&mut self, name: &str, function: Function) -> Result<ProcessorId, TableError> {
        if self.processors.len() >= PROCESSORS_MAX {
            return Err(TableError::Processors);
        }
        let name = name.into();
        self.processors.push(Named { name, function });
        Ok(ProcessorId(self.processors.len() as u32 - 1))
    }

    /// Adds the rule for a LID, from one input interface or from any.
    pub fn rule(
        &mut self,
        input: Option<InterfaceId>,
        lid: u16,
        rule: Rule,
    ) -> Result<(), TableError> {
        let bytes = self.domain.lid_size().bytes();
        if usize::from(lid) >= self.domain.lid_size().space() {
            return Err(TableError::Lid { lid, bytes });
        }
        self.check_interface(input)?;
        match &rule {
            Rule::Forward(hop) | Rule::Decapsulate(Inner::Frame(_, hop)) => self.check_hop(hop)?,
            Rule::Multicast(leaves) | Rule::Process(Processing { leaves, .. }) => {
                let short = leaves.iter().position(|leaf| leaf.len().get() < bytes);
                if let Some(leaf) = short.map(|place| place + 1) {
                    return Err(TableError::Leaf { lid, leaf, bytes });
                }
                if leaves.is_empty() && !self.keeps_vectors(&rule) {
                    return Err(TableError::NoLeaves(lid));
                }
            }
            Rule::Decapsulate(Inner::Ip) | Rule::Redirect | Rule::Drop => {}
        }
        match self.rows.entry((input, lid)) {
            Entry::Occupied(_) => Err(TableError::Twice(lid)),
            Entry::Vacant(row) => {
                row.insert(self.rules.len());
                self.rules.push(rule);
                self.inputs.push(input);
                Ok(())
            }
        }
    }

    /// Sets how packets are forwarded for which this FE is the last one of their path, from one input interface or from
    /// any. Without this they are IP packets.
    pub fn end(&mut self, input: Option<InterfaceId>, inner: Inner) -> Result<(), TableError> {
        self.check_interface(input)?;
        if let Inner::Frame(_, hop) = &inner {
            self.check_hop(hop)?;
        }
        match self.ends.insert(input, inner) {
            Some(_) => Err(TableError::TwoEnds),
            None => Ok(()),
        }
    }

    /// Builds the table.
    pub fn build(self) -> Result<Table, TableError> {
        let space = self.domain.lid_size().space();
        let own = |id: &InterfaceId| {
            let rows = &mut self.rows.range((Some(*id), 0)..=(Some(*id), u16::MAX));
            rows.next().is_some() || self.ends.contains_key(&Some(*id))
        };
        let ids = (0..self.interfaces.len() as u16).map(InterfaceId);
        let with_block: Vec<_> = ids.clone().filter(own).collect();
        let blocks = ids.map(|id| {
            let place = with_block.iter().position(|other| *other == id);
            let block = place.map_or(0, |place| place as u32 + 1); // 0: the rows for any interface
            Input {
                first: block * space as u32, // at most 257 blocks of 65 536
                interface: id.0,
            }
        });
        let (mut hops, mut hop_rules, mut barred) = (Vec::new(), Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        let rules = self.rules.iter().zip(&self.inputs).enumerate();
        let by_place = rules.map(|(place, (rule, input))| {
            let id = RuleId(place as u32 + 1);
            let Rule::Forward(hop) = rule else {
                return Row(id.0);
            };
            let may_return = hop.leaves_domain || *input == Some(hop.interface);
            let number = *numbers.entry((*hop, may_return)).or_insert_with(|| {
                hops.push(*hop);
                hop_rules.push(id);
                barred.push(if may_return {
                    NONE_BARRED
                } else {
                    hop.interface.0
                });
                hops.len() as u32 - 1
            });
            Row::forward(number, hop.leaves_domain)
        });
        let by_place: Vec<_> = by_place.collect();
        let mut table = Table {
            domain: self.domain,
            blocks: blocks.collect(),
            interfaces: self.interfaces.into(),
            rows: vec![Row::default(); space * (1 + with_block.len())].into(),
            hops: hops.into(),
            hop_rules: hop_rules.into(),
            barred: barred.into(),
            rules: self.rules.into(),
            ends: vec![Inner::Ip; 1 + with_block.len()].into(),
            processors: self.processors.into(),
        };
        for (block, rows) in table.rows.chunks_mut(space).enumerate() {
            let any_and_own = [None, block.checked_sub(1).map(|place| with_block[place])];
            let first = usize::from(block == 0);
            for input in any_and_own.into_iter().skip(first) {
                for ((_, lid), rule) in self.rows.range((input, 0)..=(input, u16::MAX)) {
                    rows[usize::from(*lid)] = by_place[*rule];
                }
                if let Some(inner) = self.ends.get(&input) {
                    table.ends[block] = *inner;
                }
            }
        }
        table.check_multicast()?;
        Ok(table)
    }

    /// Whether the packets of a rule keep their own vectors, because its processor has no leaves.
    fn keeps_vectors(&self, rule: &Rule) -> bool {
        let Rule::Process(processing) = rule else {
            return false;
        };
        let named = self.processors.get(processing.processor.0 as usize);
        named.is_some_and(|named| named.function.leaves() == 0)
    }

    fn check_interface(&self, id: Option<InterfaceId>) -> Result<(), TableError> {
        match id.map(InterfaceId::get) {
            Some(number) if number >= self.interfaces.len() => Err(TableError::NoInterface(number)),
            _ => Ok(()),
        }
    }

    fn check_hop(&self, hop: &Hop) -> Result<(), TableError> {
        self.check_interface(Some(hop.interface))?;
        match (&self.interfaces[hop.interface.get()], hop.destination) {
            (Interface::Vlan { .. }, Destination::Address(address)) => {
                Err(TableError::Unresolvable(address))
            }
            _ => Ok(()),
        }
    }
}

impl Table {
    /// The domain.
    #[inline]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The interfaces, by number.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The number of an interface.
    pub fn find(&self, interface: &Interface) -> Option<InterfaceId> {
        let number = self.interfaces.iter().position(|i| i == interface)?;
        Some(InterfaceId(number as u16))
    }

    /// The rows of packets that arrive through an interface.
    pub fn input(&self, interface: InterfaceId) -> Input {
        self.blocks[interface.get()]
    }

    /// The rows of packets that arrive through an interface that the table does not name.
    pub fn any_input(&self) -> Input {
        Input::default()
    }

    /// The row of a LID; an empty row if the LID has no rule.
    #[inline(always)]
    pub(super) fn row(&self, input: Input, lid: u16) -> Row {
        let place = input.first as usize + usize::from(lid);
        self.rows.get(place).copied().unwrap_or_default()
    }

    /// The rule for a LID.
    pub fn rule(&self, input: Input, lid: u16) -> Option<&Rule> {
        let row = self.row(input, lid);
        let id = match row.hop() {
            Some((hop, _)) => self.hop_rules[hop.get()],
            None => row.rule()?,
        };
        Some(self.numbered(id))
    }

    /// The neighbours of all forwarding rules, by number.
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// The neighbour with a number of this table.
    #[inline]
    pub fn hop(&self, id: HopId) -> &Hop {
        &self.hops[id.get()]
    }

    /// Whether a packet from this input interface may go to a neighbour. A packet must not go back within its domain.
    #[inline(always)]
    pub fn takes(&self, hop: HopId, input: Input) -> bool {
        self.barred[hop.get()] != input.interface
    }

    /// By neighbour: the input interface whose packets must not go to it, or [`NONE_BARRED`].
    pub(super) fn barred(&self) -> &[u16] {
        &self.barred
    }

    /// The neighbours of all rules, including those that get frames without a header; some occur more than once.
    pub fn neighbours(&self) -> impl Iterator<Item = &Hop> {
        let of_rules = self.rules.iter().filter_map(|rule| match rule {
            Rule::Forward(hop) | Rule::Decapsulate(Inner::Frame(_, hop)) => Some(hop),
            _ => None,
        });
        let of_ends = self.ends.iter().filter_map(|end| match end {
            Inner::Frame(_, hop) => Some(hop),
            Inner::Ip => None,
        });
        of_rules.chain(of_ends)
    }

    /// The rule with a number of this table.
    #[inline]
    pub fn numbered(&self, id: RuleId) -> &Rule {
        &self.rules[id.0 as usize - 1]
    }

    /// How packets are forwarded for which this FE is the last one of their path.
    #[inline]
    pub fn end(&self, input: Input) -> Inner {
        self.ends[input.first as usize / self.domain.lid_size().space()]
    }

    /// The processors, by number.
    pub fn processors(&self) -> &[Named] {
        &self.processors
    }

    /// Whether packets of a rule may keep their own vectors. In a simulated network the table does not know the
    /// functions of its processors, so there only processors without leaves count.
    pub fn goes_on(&self, processing: &Processing) -> bool {
        let named = self.processors.get(processing.processor.0 as usize);
        named.map_or(processing.leaves.is_empty(), |named| {
            named.function.goes_on()
        })
    }

    /// Number of rules. It depends on neighbours, not on the paths that lead through them.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Bytes of memory for the rows.
    pub fn rows_bytes(&self) -> usize {
        size_of_val(&*self.rows)
    }

    /// Checks where the leaves of each multicast rule lead.
    fn check_multicast(&self) -> Result<(), TableError> {
        let space = self.domain.lid_size().space();
        for first in (0..self.rows.len() as u32).step_by(space) {
            for lid in 0..space {
                let lid = lid as u16; // below the space, which is at most 65 536
                let input = Input {
                    first,
                    ..Input::default()
                };
                let [high, low] = lid.to_be_bytes();
                let vector = match self.domain.lid_size() {
                    LidSize::One => &[low][..],
                    LidSize::Two => &[high, low],
                };
                self.copies(input, vector, &mut Vec::new())?;
            }
        }
        Ok(())
    }

    /// The number of copies of a packet whose vector begins with these LIDs; `through` are the multicast rules on the
    /// way.
    fn copies(
        &self,
        input: Input,
        vector: &[u8],
        through: &mut Vec<u16>,
    ) -> Result<usize, TableError> {
        let Some(lid) = self.domain.lid_size().read(vector) else {
            return Ok(1);
        };
        let rule = self.row(input, lid).rule().map(|id| self.numbered(id));
        let mut copies = 0;
        // All leaves of a processor count, and its packets' own vector, although it may use only a few of them.
        let leaves = match rule {
            Some(Rule::Multicast(leaves)) => leaves,
            Some(Rule::Process(processing)) => {
                if self.goes_on(processing) {
                    let rest = vector.get(self.domain.lid_size().bytes().into()..);
                    copies = self.copies(input, rest.unwrap_or(&[]), through)?;
                }
                if processing.leaves.is_empty() {
                    return Ok(copies);
                }
                &processing.leaves
            }
            _ => return Ok(1),
        };
        if through.contains(&lid) {
            return Err(TableError::Loop(lid));
        }
        through.push(lid);
        let first = through[0];
        if through.len() > MULTICAST_DEPTH_MAX {
            return Err(TableError::Depth(first));
        }
        for leaf in leaves.iter() {
            copies += self.copies(input, leaf.as_bytes(), through)?;
            if copies > COPIES_MAX {
                return Err(TableError::Copies(first));
            }
        }
        through.pop();
        Ok(copies)
    }
}

impl Input {
    /// The number of the interface, or one that no interface has.
    #[inline(always)]
    pub(crate) fn interface(self) -> u16 {
        self.interface
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Vector;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_packet::Queue;
    use weir_wire::EtherType;

    fn vector(lids: &[u8]) -> Vector {
        Vector::new(lids).unwrap()
    }

    fn multicast(leaves: &[&[u8]]) -> Rule {
        Rule::Multicast(leaves.iter().map(|lids| vector(lids)).collect())
    }

    fn hop(interface: InterfaceId, last: u8) -> Hop {
        Hop {
            interface,
            destination: [2, 0, 0, 0, 0, last].into(),
            queue: Queue(0),
            leaves_domain: true,
        }
    }

    /// A table of one-byte LIDs with these multicast rules, for any interface.
    fn built(rules: &[(u16, &[&[u8]])]) -> Result<Table, TableError> {
        let mut builder = Builder::new(Domain::default());
        for (lid, leaves) in rules {
            builder.rule(None, *lid, multicast(leaves))?;
        }
        builder.build()
    }

    #[test]
    fn an_interface_with_rows_of_its_own_has_those_for_any_too() {
        let mut builder = Builder::new(Domain::default());
        let [lan, wan] =
            ["lan", "wan"].map(|name| builder.interface(Interface::ethernet(name)).unwrap());
        assert_eq!(builder.interface(Interface::ethernet("lan")), Ok(lan));
        builder.rule(None, 1, Rule::Forward(hop(wan, 1))).unwrap();
        builder.rule(None, 2, Rule::Redirect).unwrap();
        builder.rule(Some(wan), 1, Rule::Drop).unwrap();
        let inner = Inner::Frame(EtherType(0x88f7), hop(lan, 3));
        builder.end(Some(lan), inner).unwrap();
        let table = builder.build().unwrap();
        let rule = |input, lid| table.rule(input, lid);
        let forward = Some(&Rule::Forward(hop(wan, 1)));
        assert_eq!(rule(table.any_input(), 1), forward);
        assert_eq!(rule(table.input(lan), 1), forward);
        assert_eq!(rule(table.input(wan), 1), Some(&Rule::Drop));
        assert_eq!(rule(table.input(wan), 2), Some(&Rule::Redirect));
        assert_eq!(rule(table.input(wan), 3), None);
        assert_eq!(table.end(table.input(lan)), inner);
        assert_eq!(table.end(table.input(wan)), Inner::Ip);
        assert_eq!(table.find(&Interface::ethernet("wan")), Some(wan));
        assert_eq!((table.rule_count(), table.rows_bytes()), (3, 3 * 1024));
    }

    #[test]
    fn a_packet_goes_back_only_out_of_its_domain_or_by_a_rule_for_its_input() {
        let mut builder = Builder::new(Domain::default());
        let [lan, wan] =
            ["lan", "wan"].map(|name| builder.interface(Interface::ethernet(name)).unwrap());
        let inside = |interface| Hop {
            leaves_domain: false,
            ..hop(interface, 1)
        };
        builder.rule(None, 1, Rule::Forward(inside(wan))).unwrap();
        builder.rule(None, 2, Rule::Forward(hop(wan, 1))).unwrap();
        builder.rule(None, 3, Rule::Forward(inside(wan))).unwrap();
        builder
            .rule(Some(wan), 3, Rule::Forward(inside(wan)))
            .unwrap();
        let table = builder.build().unwrap();
        let takes = |lid, input| {
            let (hop, _) = table.row(input, lid).hop().unwrap();
            table.takes(hop, input)
        };
        let inputs = [table.input(wan), table.input(lan), table.any_input()];
        assert_eq!(inputs.map(|input| takes(1, input)), [false, true, true]);
        assert_eq!(inputs.map(|input| takes(2, input)), [true; 3]);
        assert_eq!(inputs.map(|input| takes(3, input)), [true; 3]);
    }

    #[test]
    fn rows_that_can_never_work_are_refused_with_a_sentence() {
        let mut builder = Builder::new(Domain::new(0xc000, 2).unwrap());
        let lan = builder.interface(Interface::ethernet("lan")).unwrap();
        builder.rule(Some(lan), 0x1234, Rule::Drop).unwrap();
        let refused = |rule: Result<(), TableError>| rule.unwrap_err().to_string();
        assert_eq!(
            refused(builder.rule(Some(lan), 0x1234, Rule::Redirect)),
            "LID 0x1234 has two rules for the same input interface"
        );
        assert_eq!(
            refused(builder.rule(None, 7, multicast(&[&[1, 2], &[0xaa]]))),
            "leaf 2 of the multicast rule of LID 0x7 is shorter than a LID of 2 bytes"
        );
        assert_eq!(
            refused(builder.rule(None, 7, multicast(&[]))),
            "the multicast rule of LID 0x7 has no leaves"
        );
        let elsewhere = Rule::Forward(hop(InterfaceId(1), 1));
        assert_eq!(
            refused(builder.rule(None, 7, elsewhere)),
            "interface number 1 is not in the table"
        );
        builder.end(None, Inner::Ip).unwrap();
        assert!(builder.end(None, Inner::Ip).is_err());
        let mut small = Builder::new(Domain::default());
        assert_eq!(
            refused(small.rule(None, 0x100, Rule::Drop)),
            "LID 0x100 does not fit into 1 byte"
        );
        for n in 0..INTERFACES_MAX {
            small
                .interface(Interface::ethernet(&n.to_string()))
                .unwrap();
        }
        let more = small.interface(Interface::ethernet("more"));
        assert_eq!(more, Err(TableError::Interfaces));
    }

    #[test]
    fn multicast_rules_end_somewhere() {
        assert!(built(&[(1, &[&[2], &[3, 1]]), (2, &[&[4], &[5]])]).is_ok());
        assert_eq!(built(&[(1, &[&[1, 2]])]).unwrap_err(), TableError::Loop(1));
        let ring: &[(u16, &[&[u8]])] = &[(1, &[&[9], &[2]]), (2, &[&[3]]), (3, &[&[1]])];
        let Err(TableError::Loop(_)) = built(ring) else {
            panic!("a ring of rules")
        };
        let chain: Vec<_> = (1..=5).map(|n| [n + 1]).collect();
        let chain: Vec<_> = chain.iter().map(|next| [&next[..]]).collect();
        let rules = |n: usize| -> Vec<(u16, &[&[u8]])> {
            (1..=n)
                .map(|lid| (lid as u16, &chain[lid - 1][..]))
                .collect()
        };
        assert!(built(&rules(MULTICAST_DEPTH_MAX)).is_ok());
        assert_eq!(built(&rules(5)).unwrap_err(), TableError::Depth(1));
        // 16 copies of each of 16 copies are 256; one more leaf is too many.
        let sixteen = vec![&[2_u8][..]; 16];
        let leaves = vec![&[9_u8][..]; 16];
        assert!(built(&[(1, &sixteen), (2, &leaves)]).is_ok());
        let more = [&sixteen[..], &[&[9]]].concat();
        let error = built(&[(1, &more), (2, &leaves)]).unwrap_err();
        assert_eq!(error, TableError::Copies(1));
        assert_eq!(
            error.to_string(),
            "the multicast rule of LID 0x1 makes more than 256 copies of a packet"
        );
    }

    #[test]
    fn a_loop_at_one_interface_only_is_found() {
        let mut builder = Builder::new(Domain::default());
        let lan = builder.interface(Interface::ethernet("lan")).unwrap();
        builder.rule(None, 1, multicast(&[&[2], &[3]])).unwrap();
        builder.rule(Some(lan), 2, multicast(&[&[1]])).unwrap();
        assert!(matches!(builder.build(), Err(TableError::Loop(_))));
    }

    proptest! {
        /// Compares with a linear search: own rows first, then the rows for any interface.
        #[test]
        fn an_index_finds_the_rule_that_a_search_finds(
            two_bytes: bool,
            rows in vec((proptest::option::of(0_u16..4), 0_u16..600), 0..60),
        ) {
            let domain = Domain::new(0xc000, 1 + u8::from(two_bytes)).unwrap();
            let mut builder = Builder::new(domain);
            for n in 0..4 {
                builder.interface(Interface::ethernet(&n.to_string())).unwrap();
            }
            let mut list = Vec::new();
            for (n, (input, lid)) in rows.into_iter().enumerate() {
                let (input, rule) = (input.map(InterfaceId), Rule::Forward(hop(InterfaceId(0), n as u8)));
                let fits = usize::from(lid) < domain.lid_size().space();
                let is_new = !list.iter().any(|(i, l, _)| (*i, *l) == (input, lid));
                prop_assert_eq!(builder.rule(input, lid, rule.clone()).is_ok(), fits && is_new);
                if fits && is_new {
                    list.push((input, lid, rule));
                }
            }
            let table = builder.build().unwrap();
            for interface in (0..4).map(InterfaceId) {
                for lid in 0..domain.lid_size().space() as u32 {
                    let lid = lid as u16;
                    let of = |input| {
                        let row = list.iter().find(|(i, l, _)| (*i, *l) == (input, lid));
                        row.map(|(.., rule)| rule)
                    };
                    let expected = of(Some(interface)).or_else(|| of(None));
                    prop_assert_eq!(table.rule(table.input(interface), lid), expected);
                }
                let any = list.iter().find(|(i, ..)| i.is_none());
                if let Some((_, lid, rule)) = any {
                    prop_assert_eq!(table.rule(table.any_input(), *lid), Some(rule));
                }
            }
        }
    }
}
