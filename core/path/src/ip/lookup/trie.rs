//! The structure that addresses are looked up in: a root of 16 bits, nodes of 8 bits, and buckets.
//!
//! ```text
//!  root:    slot = value, child             one for each 16 bits; the value of the default route is apart
//!  node:    | default | run counts | 256 bits: does a run start here? | routes | one entry for each run ... |
//!  bucket:  | default | prefix, value | prefix, value | ...                                shortest first   |
//! ```
//!
//! An entry is a value or a child. Each value is a [`Leaf`]: the route's number, and the length of the prefix that it
//! belongs to. By the length, a change finds the slots of its prefix: a new prefix takes the slots of shorter prefixes,
//! and a removed prefix gives its slots back to the prefix that covers it. The default of a node or bucket is the value
//! that its slot in the node above would have without it.
//!
//! Nodes and buckets start at a cache line. The first line of a node holds everything except most of its entries.

use std::hint::black_box;
use std::sync::Arc;

use super::address::Address;
use super::bucket::{self, Bucket, DEFAULT};
use super::entry::{Entry, Leaf};
use super::pages::{LINE_WORDS, Pages};
use super::{BURST, Prefix, Sorted};

/// Bits of the root.
const ROOT_BITS: u8 = 16;
/// Slots of a page of the root: 8 kB.
const ROOT_PAGE: usize = 1024;
const ROOT_PAGES: usize = (1 << ROOT_BITS) / ROOT_PAGE;
/// Bits of a node.
const STRIDE: u8 = 8;
const SLOTS: usize = 1 << STRIDE;

/// Indices of a node's words after the [`DEFAULT`].
const COUNTS: usize = 1;
const RUNS: usize = 2;
const ROUTES: usize = 10;
const ENTRIES: usize = 11;

/// A slot of the root.
#[derive(Clone, Copy, Debug, Default)]
struct RootSlot {
    value: Leaf,
    /// [`Entry::NONE`], a node or a bucket; the child's default is [`Leaf::NONE`].
    child: Entry,
}

/// The trie.
#[derive(Clone, Debug)]
pub(super) struct Trie<A> {
    /// The value of the default route.
    default: Leaf,
    root: Box<[Arc<[RootSlot; ROOT_PAGE]>; ROOT_PAGES]>,
    pages: Pages,
    family: std::marker::PhantomData<A>,
}

/// A change of one prefix.
struct Change<'a, A> {
    /// All routes, after the change.
    routes: &'a Sorted<Prefix<A>, u32>,
    prefix: Prefix<A>,
    /// The value of slots that belong to the prefix: its own, or that of the prefix that covers it.
    value: Leaf,
    /// Whether the prefix is new.
    is_new: bool,
}

impl<A> Default for Trie<A> {
    fn default() -> Self {
        let empty = Arc::new([RootSlot::default(); ROOT_PAGE]);
        Self {
            default: Leaf::NONE,
            root: Box::new(std::array::from_fn(|_| Arc::clone(&empty))),
            pages: Pages::default(),
            family: std::marker::PhantomData,
        }
    }
}

/// Lookup.
impl<A: Address> Trie<A> {
    /// The value of the longest prefix that covers an address.
    #[inline]
    pub(super) fn find(&self, address: A) -> Leaf {
        let RootSlot { value, child } = *self.root_slot(address);
        let (mut value, mut entry) = (value.or(self.default), child);
        let mut depth = ROOT_BITS;
        while entry.is_node() {
            (value, entry) = self.pass_node(entry, value, address.byte(depth));
            depth += STRIDE;
        }
        if entry.is_bucket() {
            self.search_bucket(entry, value, address, depth)
        } else {
            value
        }
    }

    /// The numbers of the values of several addresses. All addresses pass one level before any passes the next, so that
    /// the processor waits for many cache lines at the same time.
    #[inline]
    pub(super) fn find_all(&self, addresses: &[A], numbers: &mut [u32; BURST]) {
        let mut values = [Leaf::NONE; BURST];
        let mut entries = [Entry::NONE; BURST];
        // The addresses that have reached a node, and those that have reached a bucket. Every address is written to
        // both lists, but counted only in the right list: a branch would be mispredicted for every other address.
        let (mut nodes, mut node_count) = ([0_u8; BURST], 0);
        let (mut buckets, mut bucket_count) = ([(0_u8, 0_u8); BURST + 1], 0);
        for (n, address) in addresses.iter().enumerate().take(BURST) {
            let RootSlot { value, child } = *self.root_slot(*address);
            values[n] = value.or(self.default);
            entries[n] = child;
            nodes[node_count] = n as u8;
            node_count += usize::from(child.is_node());
            buckets[bucket_count] = (n as u8, ROOT_BITS);
            bucket_count += usize::from(child.is_bucket());
        }
        let mut depth = ROOT_BITS;
        while node_count > 0 {
            let at_node = nodes[..node_count].iter();
            self.touch(at_node.map(|n| entries[usize::from(*n)]));
            let mut stay = 0;
            for at in 0..node_count {
                let n = usize::from(nodes[at]);
                let byte = addresses[n].byte(depth);
                let (value, entry) = self.pass_node(entries[n], values[n], byte);
                values[n] = value;
                entries[n] = entry;
                nodes[stay] = n as u8;
                stay += usize::from(entry.is_node());
                buckets[bucket_count] = (n as u8, depth + STRIDE);
                bucket_count += usize::from(entry.is_bucket());
            }
            node_count = stay;
            depth += STRIDE;
        }
        let at_bucket = &buckets[..bucket_count];
        self.touch(at_bucket.iter().map(|(n, _)| entries[usize::from(*n)]));
        for (n, depth) in at_bucket {
            let n = usize::from(*n);
            values[n] = self.search_bucket(entries[n], values[n], addresses[n], *depth);
        }
        for (number, value) in numbers.iter_mut().zip(values) {
            *number = value.number();
        }
    }

    #[inline(always)]
    fn root_slot(&self, address: A) -> &RootSlot {
        let top = address.top() % (ROOT_PAGE * ROOT_PAGES);
        &self.root[top / ROOT_PAGE][top % ROOT_PAGE]
    }

    /// The value so far, and the entry for these eight bits.
    #[inline(always)]
    fn pass_node(&self, node: Entry, value: Leaf, byte: usize) -> (Leaf, Entry) {
        let words = self.pages.get(node.line());
        let entry = Entry(words[ENTRIES + run_of(words, byte)]);
        let value = entry.value().or(Leaf(words[DEFAULT])).or(value);
        (value, entry)
    }

    /// Loads the first line of each child, and does nothing else, so that as many loads as possible are in flight.
    #[inline(always)]
    fn touch(&self, children: impl Iterator<Item = Entry>) {
        let words = children.map(|child| self.pages.get(child.line())[DEFAULT]);
        black_box(words.fold(0, |all, word| all ^ word));
    }

    /// The value in a bucket below the first `depth` bits.
    #[inline(always)]
    fn search_bucket(&self, bucket: Entry, value: Leaf, address: A, depth: u8) -> Leaf {
        bucket::search(self.pages.get(bucket.line()), bucket, value, address, depth)
    }
}

/// The number of the run that a slot belongs to.
#[inline(always)]
fn run_of(words: &[u32], slot: usize) -> usize {
    let (group, bit) = (slot / 64 % 4, slot % 64);
    let low = u64::from(words[RUNS + 2 * group]);
    let bits = u64::from(words[RUNS + 2 * group + 1]) << 32 | low;
    let up_to_slot = bits & (u64::MAX >> (63 - bit));
    let before = words[COUNTS] >> (8 * group) & 0xff;
    // The first slot starts a run, so there is at least one.
    (before + up_to_slot.count_ones()).wrapping_sub(1) as usize
}

/// Changes.
impl<A: Address> Trie<A> {
    /// Adds a prefix, or gives it a new number. `routes` already contains it.
    pub(super) fn insert(
        &mut self,
        routes: &Sorted<Prefix<A>, u32>,
        prefix: Prefix<A>,
        number: u32,
        is_new: bool,
    ) {
        let value = Leaf::new(prefix.1, number);
        let change = Change {
            routes,
            prefix,
            value,
            is_new,
        };
        if prefix.1 == 0 {
            self.default = value;
        } else if prefix.1 <= ROOT_BITS {
            self.change_root(&change, |slot| slot.len() <= prefix.1);
        } else {
            let child = self.root_slot(prefix.0).child;
            let after = self.insert_below(child, ROOT_BITS, &change);
            self.set_root_child(prefix.0, child, after);
        }
    }

    /// Removes a prefix, which `routes` no longer has; `covering` is the value of the next shorter prefix.
    pub(super) fn remove(
        &mut self,
        routes: &Sorted<Prefix<A>, u32>,
        prefix: Prefix<A>,
        covering: Leaf,
    ) {
        let change = Change {
            routes,
            prefix,
            value: covering,
            is_new: false,
        };
        if prefix.1 == 0 {
            self.default = Leaf::NONE;
        } else if prefix.1 <= ROOT_BITS {
            let value = if covering.len() > 0 {
                covering
            } else {
                Leaf::NONE
            };
            let change = Change { value, ..change };
            self.change_root(&change, |slot| slot.len() == prefix.1);
        } else {
            let child = self.root_slot(prefix.0).child;
            let after = self.remove_below(child, ROOT_BITS, &change);
            self.set_root_child(prefix.0, child, after);
        }
    }

    /// Bytes of the root, the nodes and the buckets.
    pub(super) fn bytes(&self) -> usize {
        ROOT_PAGES * ROOT_PAGE * size_of::<RootSlot>() + self.pages.bytes()
    }

    #[cfg(test)]
    pub(super) fn nodes_and_buckets(&self) -> usize {
        let slots = self.root.iter().flat_map(|page| page.iter());
        slots.filter(|slot| slot.child != Entry::NONE).count() + self.pages.bytes()
    }

    fn change_root(&mut self, change: &Change<'_, A>, is_own: impl Fn(Leaf) -> bool) {
        let (address, len) = change.prefix;
        let first = address.top();
        let slots = 1 << (ROOT_BITS - len);
        for place in first..first + slots {
            let slot = &self.root[place / ROOT_PAGE][place % ROOT_PAGE];
            if is_own(slot.value) && slot.value != change.value {
                let page = Arc::make_mut(&mut self.root[place / ROOT_PAGE]);
                page[place % ROOT_PAGE].value = change.value;
            }
        }
    }

    fn set_root_child(&mut self, address: A, before: Entry, after: Entry) {
        if before != after {
            let place = address.top();
            let page = Arc::make_mut(&mut self.root[place / ROOT_PAGE]);
            page[place % ROOT_PAGE].child = after;
        }
    }

    /// Adds a prefix below an entry for the first `depth` bits, and returns the new entry.
    fn insert_below(&mut self, entry: Entry, depth: u8, change: &Change<'_, A>) -> Entry {
        if !entry.is_child() {
            return self.build(&[(change.prefix, change.value)], depth, entry.value());
        }
        if entry.is_bucket() {
            return self.rebuild(entry, depth, change);
        }
        let line = entry.line();
        if change.is_new {
            self.pages.get_mut(line)[ROUTES] += 1;
        }
        let (address, len) = change.prefix;
        if len <= depth + STRIDE {
            return self.change_node(entry, depth, change, |value| value.len() <= len);
        }
        let slot = address.byte(depth);
        let before = self.entry(line, slot);
        let after = self.insert_below(before, depth + STRIDE, change);
        self.set_entry(entry, slot, before, after)
    }

    /// Removes a prefix below a child for the first `depth` bits, and returns the new entry.
    fn remove_below(&mut self, child: Entry, depth: u8, change: &Change<'_, A>) -> Entry {
        if child.is_bucket() {
            return self.rebuild(child, depth, change);
        }
        let (address, len) = change.prefix;
        let line = child.line();
        let routes = &mut self.pages.get_mut(line)[ROUTES];
        *routes -= 1;
        if *routes as usize <= A::SHORT_MAX / 2 {
            return self.rebuild(child, depth, change);
        }
        if len <= depth + STRIDE {
            let covering = change.value;
            let value = if covering.len() > depth {
                covering
            } else {
                Leaf::NONE
            };
            let change = Change { value, ..*change };
            return self.change_node(child, depth, &change, |value| value.len() == len);
        }
        let slot = address.byte(depth);
        let before = self.entry(line, slot);
        let after = self.remove_below(before, depth + STRIDE, change);
        self.set_entry(child, slot, before, after)
    }

    /// Rebuilds a small part from the routes: a bucket that changes or overflows, or a node that shrinks to a bucket.
    fn rebuild(&mut self, child: Entry, depth: u8, change: &Change<'_, A>) -> Entry {
        let default = Leaf(self.pages.get(child.line())[DEFAULT]);
        self.free(child);
        let base = change.prefix.0.truncated(depth);
        let first = (base, depth + 1);
        let below = change.routes.from(&first);
        let below = below.take_while(|((address, _), _)| address.truncated(depth) == base);
        let below: Vec<_> = below
            .map(|(prefix, number)| (*prefix, Leaf::new(prefix.1, *number)))
            .collect();
        self.build(&below, depth, default)
    }

    /// An entry for prefixes that have the first `depth` bits in common and are longer than that, in order.
    fn build(&mut self, below: &[(Prefix<A>, Leaf)], depth: u8, default: Leaf) -> Entry {
        if below.is_empty() {
            return Entry::leaf(default);
        }
        if let Some(bucket) = Bucket::new(below, depth, default) {
            let line = self.pages.take(bucket.lines());
            let words = bucket.words();
            self.pages.get_mut(line)[..words.len()].copy_from_slice(words);
            return bucket.entry(line);
        }
        let mut slots = [Entry::NONE; SLOTS];
        let here = |(_, len): Prefix<A>| len <= depth + STRIDE;
        for ((address, len), value) in below.iter().filter(|(prefix, _)| here(*prefix)) {
            let first = address.byte(depth);
            let last = first + (1 << (depth + STRIDE - len)) - 1;
            slots[first..=last].fill(Entry::leaf(*value)); // longer prefixes come later
        }
        let deeper: Vec<_> = below.iter().filter(|(p, _)| !here(*p)).copied().collect();
        let slot_of = |(prefix, _): &(Prefix<A>, Leaf)| prefix.0.byte(depth);
        for group in deeper.chunk_by(|a, b| slot_of(a) == slot_of(b)) {
            let slot = slot_of(&group[0]);
            slots[slot] = self.build(group, depth + STRIDE, slots[slot].value());
        }
        self.build_node(&slots, default, below.len() as u32)
    }

    fn build_node(&mut self, slots: &[Entry; SLOTS], default: Leaf, routes: u32) -> Entry {
        let mut words = [0; ENTRIES + SLOTS];
        words[DEFAULT] = default.0;
        words[ROUTES] = routes;
        let mut runs = 0;
        for (slot, entry) in slots.iter().enumerate() {
            if slot % 64 == 0 {
                words[COUNTS] |= (runs as u32) << (slot / 64 * 8);
            }
            if slot == 0 || slots[slot - 1] != *entry {
                words[RUNS + slot / 32] |= 1 << (slot % 32);
                words[ENTRIES + runs] = entry.0;
                runs += 1;
            }
        }
        let used = &words[..ENTRIES + runs];
        let line = self.pages.take(used.len().div_ceil(LINE_WORDS));
        self.pages.get_mut(line)[..used.len()].copy_from_slice(used);
        Entry::node(line)
    }

    /// The entry of a slot.
    fn entry(&self, line: u32, slot: usize) -> Entry {
        let words = self.pages.get(line);
        Entry(words[ENTRIES + run_of(words, slot)])
    }

    /// The entries of all slots.
    fn slots(&self, line: u32) -> [Entry; SLOTS] {
        let words = self.pages.get(line);
        let mut run = ENTRIES - 1;
        std::array::from_fn(|slot| {
            run += usize::from(words[RUNS + slot / 32] >> (slot % 32) & 1 == 1);
            Entry(words[run])
        })
    }

    /// Sets the entry of a slot, and returns the node, which may be a new one.
    fn set_entry(&mut self, node: Entry, slot: usize, before: Entry, after: Entry) -> Entry {
        if before == after {
            return node;
        }
        let mut slots = self.slots(node.line());
        slots[slot] = after;
        self.replace_slots(node, &slots)
    }

    /// Sets the slots that belong to a prefix to a new value; a child gets the value as its default.
    fn change_node(
        &mut self,
        node: Entry,
        depth: u8,
        change: &Change<'_, A>,
        is_own: impl Fn(Leaf) -> bool,
    ) -> Entry {
        let (address, len) = change.prefix;
        let mut slots = self.slots(node.line());
        let first = address.byte(depth);
        let last = first + (1 << (depth + STRIDE - len)) - 1;
        for slot in &mut slots[first..=last] {
            if slot.is_child() {
                let default = self.pages.get(slot.line())[DEFAULT];
                if is_own(Leaf(default)) {
                    self.pages.get_mut(slot.line())[DEFAULT] = change.value.0;
                }
            } else if is_own(slot.value()) {
                *slot = Entry::leaf(change.value);
            }
        }
        self.replace_slots(node, &slots)
    }

    fn replace_slots(&mut self, node: Entry, slots: &[Entry; SLOTS]) -> Entry {
        let words = self.pages.get(node.line());
        let (default, routes) = (Leaf(words[DEFAULT]), words[ROUTES]);
        self.pages.give_back(node.line());
        self.build_node(slots, default, routes)
    }

    /// Frees the memory of a child and of everything below it.
    fn free(&mut self, child: Entry) {
        if child.is_node() {
            let words = self.pages.get(child.line());
            let runs = run_of(words, SLOTS - 1) + 1;
            let entries = words[ENTRIES..ENTRIES + runs].to_vec();
            let children = entries.into_iter().map(Entry).filter(|e| e.is_child());
            children.for_each(|child| self.free(child));
        }
        self.pages.give_back(child.line());
    }
}
