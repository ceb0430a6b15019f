//! The law: which flows are within their shares, the price of a packet, and the turn of the next packet.
//!
//! ```text
//!   flow          tag   = max(tag, now) + bytes x (heavy flows of its source) x (load of its destination)
//!   source        clock = max(clock, now) + bytes x (load of the destination)      for the first packets of a flow
//!   strangers     clock, like a source's: one for all strangers that send to a destination
//!   destination   clock = max(clock, now) + bytes
//!
//!   load of a destination = sum over its heavy queues of 1 / (heavy flows of the queue's source)
//! ```
//!
//! An account (a flow's tag, or a clock of a host) that is not ahead of the virtual time has used no more than its
//! share. A flow whose queue was empty is light if neither the flow nor its hosts are ahead by more than a small
//! credit: it has the next turn, and is charged at once. Otherwise it is heavy, and its tag starts at the latest of
//! these times. A host has one share for its light and its heavy flows, so the heavy flows pay for the light ones: the
//! sum of bytes that they pay for only grows, and each heavy flow pays for the growth since its previous turn, up to a
//! bound. Heavy flows of strangers have an order of their own, so that all strangers together have half of the link
//! while heavy flows of trusted sources wait.

use weir_base::Span;

use super::TripleFair;
use super::hosts::{Host, ONE, advance, beyond};
use super::layout::{FLOWS, QUEUES};
use super::queue::{FAMILIAR_PACKETS, Queue, Waits};
use super::turns::TAG_MAX;

/// Full frames by which a flow may be ahead of its share and still be light.
const CREDIT_OF_FLOW: u64 = 1;
/// Full frames by which the hosts of a light flow may be ahead: for flows of any kind, for familiar flows, and for
/// familiar flows that send little.
const CREDITS_OF_HOSTS: [u64; 3] = [2, 8, 16];
/// Full frames by which new flows may be ahead of their host's share before further new flows share one queue.
const SPENT: u64 = 16;
/// Full frames by which strangers may be ahead of their share of a destination before new flows of strangers are
/// refused.
const OVERRUN: u64 = 32;
/// Divides the price of a light flow, so that a call in a home with fifty busy flows is light. The price is at least
/// that of a host that is alone at both ends.
const LIGHT_PART: u64 = 2;
/// Maximum that a heavy packet pays, as a multiple of its own price, for the light flows of its source, and for light
/// flows of other sources at its destination, which otherwise could take its whole part.
const MOST_OWED: [u64; 2] = [7, 1];
/// Bytes that strangers may send before heavy flows of trusted sources send as many, and that light strangers may send
/// before heavy strangers do.
const ROW_MAX: u64 = 9_000;

/// The share of the link that a queue requests at its destination, in 256ths, by the number of heavy flows of its
/// source.
const SHARES: [u16; QUEUES + 1] = {
    let mut table = [ONE as u16; QUEUES + 1];
    let mut n = 2;
    while n <= QUEUES {
        let share = ONE as u16 / n as u16;
        table[n] = if share == 0 { 1 } else { share };
        n += 1;
    }
    table
};

/// The part of `span` for each of `queues` queues.
#[inline]
pub(super) fn part(span: Span, queues: u32) -> Span {
    Span::from_nanos(span.as_nanos() / u64::from(queues.max(1)))
}

/// The turn of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) queue: usize,
    pub(super) from: Waits,
}

/// The price of a byte of a queue now, in 256ths.
pub(super) struct Price {
    /// The price for the flow: while it is heavy, while it is light.
    flow: [u64; 2],
    /// The price for the source.
    pub(super) source: u64,
    /// The price for all strangers at the destination, if the source is one of them.
    strangers: Option<u64>,
    /// Index of the hosts' clocks and credits that apply: 0 for flows of any kind, 1 for familiar flows.
    kind: usize,
}

/// Index of an order of heavy queues: 0 for trusted sources, 1 for strangers.
#[inline]
fn of_strangers(from: Waits) -> usize {
    usize::from(from == Waits::Crowd)
}

impl TripleFair {
    /// The queue whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Turn> {
        let of = |from: Waits| {
            let queue = self.light[from as usize].first()?;
            Some(Turn { queue, from })
        };
        let trusted = of(Waits::Short).or_else(|| of(Waits::New));
        if let Some(turn) = trusted.or_else(|| of(Waits::Long)) {
            return Some(turn);
        }
        let heavy = |from: Waits| {
            let (tag, queue) = self.turns[of_strangers(from)].first()?;
            Some((tag, Turn { queue, from }))
        };
        let light = of(Waits::Strange).or_else(|| of(Waits::Unknown));
        let (trusted, crowd) = (heavy(Waits::Heavy), heavy(Waits::Crowd));
        let Some((tag, trusted)) = trusted else {
            return self.stranger(light, crowd.map(|(_, turn)| turn));
        };
        let first = match crowd {
            // While no light stranger waits, heavy strangers have their turns by their tags.
            Some((other, _)) if light.is_none() && tag <= other => None,
            _ => self.stranger(light, crowd.map(|(_, turn)| turn)),
        };
        Some(first.filter(|_| self.rows[1] < ROW_MAX).unwrap_or(trusted))
    }

    /// The stranger that has the next turn: a light one, unless light strangers have sent `ROW_MAX` bytes while heavy
    /// ones waited.
    fn stranger(&self, light: Option<Turn>, crowd: Option<Turn>) -> Option<Turn> {
        match (light, crowd) {
            (Some(_), Some(crowd)) if self.rows[0] >= ROW_MAX => Some(crowd),
            _ => light.or(crowd),
        }
    }

    /// Lets a queue begin to wait for a turn.
    #[inline]
    pub(super) fn wake(&mut self, at: usize) {
        self.busy += 1;
        if at < FLOWS {
            self.busy_flows += 1;
            self.flows.wakes(at);
        }
        let hosts = self.queues[at].hosts;
        for (end, host) in self.ends.iter_mut().zip(hosts) {
            end.enter(host);
        }
        self.enter(at);
    }

    /// Puts a queue with packets among the light queues if its flow and its hosts are within their shares, otherwise
    /// among the heavy ones. A light packet is charged now.
    fn enter(&mut self, at: usize) {
        let queue = &self.queues[at];
        let bytes = self.head_bytes(queue);
        let price = self.price(queue);
        let (hosts, now) = (queue.hosts, self.time.flows);
        let (frame, tag) = (self.wire_max * price.flow[1], queue.tag.max(now));
        let is_short = price.kind == 1 && tag + bytes * price.flow[1] <= now + frame / 2;
        let credit = CREDITS_OF_HOSTS[price.kind + usize::from(is_short)];
        let ahead = self.charge(hosts, &price, bytes, credit);
        let queue = &mut self.queues[at];
        if at < FLOWS && ahead == 0 && tag <= now + CREDIT_OF_FLOW * frame {
            queue.tag = tag + bytes * price.flow[1];
            queue.waits = match (price.strangers, price.kind) {
                (None, _) if is_short => Waits::Short,
                (None, 1) => Waits::Long,
                (None, _) => Waits::New,
                (Some(_), _) if queue.seen > 0 => Waits::Strange,
                (Some(_), _) => Waits::Unknown,
            };
            let list = queue.waits as usize;
            self.time.latest_tag = self.time.latest_tag.max(queue.tag);
            self.light[list].push(&mut self.queues[..], at);
            self.owe(hosts, &price, bytes);
            return;
        }
        queue.waits = Waits::heavy(price.strangers.is_none());
        queue.tag = tag.max(now + ahead).min(TAG_MAX);
        let (tag, waits) = (queue.tag, queue.waits);
        for (end, hosts) in self.ends.iter_mut().enumerate() {
            if let Some(host) = hosts.get_mut(queue.hosts[end]) {
                host.heavy += 1;
                queue.paid[end] = host.owed;
            }
        }
        self.ask(at);
        self.turns[of_strangers(waits)].push(tag, at);
    }

    /// Accounts for a light packet: if its flow is familiar, the hosts' clocks of familiar flows advance; and the heavy
    /// flows of its source pay for the packet, or the heavy flows of its destination if the source has none.
    #[inline]
    fn owe(&mut self, hosts: [u16; 2], price: &Price, bytes: u64) {
        let [sources, destinations] = &mut self.ends;
        let mut both = [sources.get_mut(hosts[0]), destinations.get_mut(hosts[1])];
        if price.kind == 1 {
            for (host, price) in both.iter_mut().zip([price.source, ONE]) {
                let Some(host) = host else { continue };
                advance(&mut host.clocks[1], self.time.hosts[1], bytes * price);
                self.time.latest[1] = self.time.latest[1].max(host.clocks[1]);
            }
        }
        let (host, owed) = match both {
            [Some(source), _] if source.heavy > 0 => (Some(source), bytes * price.source / ONE),
            [_, destination] => (destination, bytes),
        };
        if let Some(host) = host {
            host.owed = host.owed.wrapping_add(owed as u32);
        }
    }

    /// Charges the hosts of a flow for a packet. Returns how far they were ahead of the virtual time, or zero if
    /// they were within `credit` full frames.
    #[inline]
    fn charge(&mut self, hosts: [u16; 2], price: &Price, bytes: u64, credit: u64) -> u64 {
        let now = self.time.hosts;
        let credit = credit * self.wire_max;
        let [sources, destinations] = &mut self.ends;
        let (mut ahead, mut latest) = (0, 0);
        if let Some(source) = sources.get_mut(hosts[0]) {
            ahead = source.charge(now, price.kind, bytes, price.source, credit);
            latest = source.clocks[0];
        }
        if let Some(destination) = destinations.get_mut(hosts[1]) {
            let of_all = destination.charge(now, price.kind, bytes, ONE, credit);
            ahead = ahead.max(of_all);
            latest = latest.max(destination.clocks[0]);
            if let Some(price) = price.strangers {
                let clock = &mut destination.strangers_clock;
                ahead = ahead.max(beyond(*clock, now[0], credit * price));
                advance(clock, now[0], bytes * price);
                latest = latest.max(*clock);
            }
        }
        self.time.latest[0] = self.time.latest[0].max(latest);
        ahead
    }

    /// Ends the wait of a queue, whose turn it is.
    #[inline(always)]
    pub(super) fn leave(&mut self, turn: Turn) {
        self.remove(turn);
        let at = turn.queue;
        let queue = &self.queues[at];
        self.busy -= 1;
        if at < FLOWS {
            self.busy_flows -= 1;
            let is_familiar =
                queue.seen == FAMILIAR_PACKETS && self.ends[0].is_trusted(queue.hosts[0]);
            self.flows.rests(at, is_familiar);
        }
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            hosts.leave(host);
        }
        if Self::is_shared(at) {
            self.give_back(at);
        }
    }

    /// Takes the queue whose turn it is out of its order.
    #[inline(always)]
    fn remove(&mut self, turn: Turn) {
        let queue = &mut self.queues[turn.queue];
        queue.waits = Waits::Not;
        if turn.from < Waits::Heavy {
            return self.light[turn.from as usize].pop(&self.queues[..]);
        }
        self.turns[of_strangers(turn.from)].pop();
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            if let Some(host) = hosts.get_mut(host) {
                host.heavy -= 1;
            }
        }
        let parts = parts(queue.share, queue.is_trusted);
        self.ends[1].load(queue.hosts[1], parts, [0; 2]);
        queue.share = 0;
    }

    /// Gives a queue its turn, in which it sends this many bytes; then the queue waits for another turn, or leaves.
    #[inline]
    pub(super) fn serve(&mut self, turn: Turn, bytes: u64, leaves: bool) {
        let at = turn.queue;
        let queue = &mut self.queues[at];
        if self.ends[0].get_mut(queue.hosts[0]).is_some_and(Host::saw) {
            self.ends[0].trust(queue.hosts[0], self.time.hosts[0]);
        }
        if at < FLOWS {
            queue.seen = (queue.seen + 1).min(FAMILIAR_PACKETS);
        }
        self.count_row(turn.from, bytes);
        if turn.from.is_heavy() {
            self.charge_heavy(at, bytes);
        }
        match (leaves, turn.from) {
            (true, _) => self.leave(turn),
            (false, Waits::Heavy | Waits::Crowd) => self.again(turn),
            (false, _) => {
                self.remove(turn);
                self.enter(at);
            }
        }
    }

    /// Whether a queue that sends this many bytes belongs to a familiar flow of small packets, of which little more
    /// waits. Such a flow would have been light if its queue had been empty, so it does not pay for light flows.
    #[inline]
    fn is_small(&self, at: usize, bytes: u64) -> bool {
        let queue = &self.queues[at];
        at < FLOWS
            && bytes <= self.wire_max / 2
            && queue.packets.tally().bytes <= self.wire_max
            && queue.seen == FAMILIAR_PACKETS
            && !queue.is_stubborn
            && self.ends[0].is_trusted(queue.hosts[0])
    }

    /// Counts the bytes that strangers send in a row while others wait.
    #[inline]
    fn count_row(&mut self, from: Waits, bytes: u64) {
        if from < Waits::Strange {
            return;
        }
        let [trusted, crowd] = self.turns.each_ref().map(|turns| !turns.is_empty());
        let count = |row: &mut u64, is_waited_for: bool| *row += bytes * u64::from(is_waited_for);
        let [light, all] = &mut self.rows;
        match from {
            Waits::Heavy => *all = all.saturating_sub(bytes),
            Waits::Crowd => {
                *light = light.saturating_sub(bytes);
                count(all, trusted);
            }
            _ => {
                count(light, crowd);
                count(all, trusted);
            }
        }
    }

    /// Lets a heavy queue wait for another turn, in the other order if the trust in its source has changed.
    fn again(&mut self, turn: Turn) {
        let queue = &self.queues[turn.queue];
        let is_trusted = self.ends[0].is_trusted(queue.hosts[0]);
        if turn.queue < FLOWS && (!is_trusted || queue.seen < FAMILIAR_PACKETS) {
            // Flows of two packets would have twice their host's share if only their first ones counted.
            let (price, hosts) = (self.price(queue), queue.hosts);
            self.charge(hosts, &price, self.head_bytes(queue), 0);
        }
        let waits = Waits::heavy(is_trusted);
        let queue = &mut self.queues[turn.queue];
        let turns = &mut self.turns[of_strangers(turn.from)];
        if waits == turn.from {
            return turns.again(queue.tag);
        }
        turns.pop();
        queue.waits = waits;
        self.turns[of_strangers(waits)].push(queue.tag, turn.queue);
    }

    /// The bytes that the first packet of a queue occupies on the link.
    #[inline]
    fn head_bytes(&self, queue: &Queue) -> u64 {
        let head = self.slab.front(&queue.packets);
        head.map_or(0, |head| self.framing.wire_bytes(head.bytes()))
    }

    /// Charges a queue for a heavy packet: its own price, and the debt for the light flows of its hosts.
    fn charge_heavy(&mut self, at: usize, bytes: u64) {
        // A stranger may have its turn before its tag is due; the virtual time does not advance to such a tag.
        let (tag, first) = (self.queues[at].tag, self.turns[0].first());
        let now = first.map_or(tag, |(first, _)| tag.min(first));
        self.time.pass(now, bytes, self.wire_max);
        self.ask(at);
        let queue = &self.queues[at];
        let price = self.price(queue);
        let load = price.source;
        // A sender that ignores drops pays at least the mean price of responsive senders.
        let counted = if queue.is_stubborn {
            bytes * self.ends[1].trusted_mean().max(load) / load
        } else {
            bytes
        };
        let own = counted * price.flow[0];
        let (mut cost, is_small) = (own, self.is_small(at, bytes));
        let queue = &mut self.queues[at];
        for (end, hosts) in self.ends.iter().enumerate() {
            if let Some(host) = hosts.get(queue.hosts[end]) {
                let owed = u64::from(host.owed.wrapping_sub(queue.paid[end])) * ONE;
                cost += owed.min(own * MOST_OWED[end]) * u64::from(!is_small);
                queue.paid[end] = host.owed;
            }
        }
        // A stranger that had to wait for others does not recover the service that it has missed.
        queue.tag = (queue.tag.max(self.time.flows) + cost).min(TAG_MAX);
        self.time.latest_tag = self.time.latest_tag.max(queue.tag);
    }

    /// Whether new flows of this source are so far ahead of its share that further new flows share one queue.
    pub(super) fn is_spent(&self, hosts: [u16; 2]) -> bool {
        let Some(source) = self.ends[0].get(hosts[0]) else {
            return false;
        };
        let destination = self.ends[1].get(hosts[1]);
        let price = destination.map_or(ONE, |host| host.price(source.is_trusted(), false));
        source.clocks[0] > self.time.hosts[0] + SPENT * self.wire_max * price
    }

    /// Whether strangers are so far ahead of their share at this destination that new flows of strangers are refused:
    /// there can be more strangers than any queue holds.
    #[inline]
    pub(super) fn is_overrun(&self, hosts: [u16; 2]) -> bool {
        if self.ends[0].is_trusted(hosts[0]) {
            return false;
        }
        self.ends[1].get(hosts[1]).is_some_and(|host| {
            let credit = OVERRUN * self.wire_max * host.strangers_price();
            host.strangers_clock > self.time.hosts[0] + credit
        })
    }

    /// The approximate number of flows in a queue.
    #[inline]
    pub(super) fn flows_in(&self, at: usize) -> u32 {
        match at {
            0..FLOWS => 1,
            _ => self.sketches[at - FLOWS].flows(),
        }
    }

    /// Restarts the virtual times near zero before they overflow: a walk over all queues and hosts, once in many
    /// millions of packets.
    #[inline]
    pub(super) fn renew(&mut self) {
        if let Some((of_flows, of_hosts)) = self.time.renew() {
            for queue in &mut self.queues[..] {
                queue.tag = queue.tag.saturating_sub(of_flows);
            }
            for turns in &mut self.turns {
                turns.rebase(of_flows);
            }
            for hosts in &mut self.ends {
                hosts.rebase(of_hosts);
            }
        }
    }

    /// Called when nothing is queued: forgives all service beyond a share.
    pub(super) fn settle(&mut self) {
        while let Some(turn) = self.first() {
            self.leave(turn);
        }
        self.time.settle();
        self.rows = [0; 2];
    }

    /// The price of a byte of a queue now.
    #[inline]
    pub(super) fn price(&self, queue: &Queue) -> Price {
        let source = self.ends[0].get(queue.hosts[0]);
        let has_lasted = source.is_some_and(Host::is_trusted);
        let flows = u64::from(self.source_flows(queue));
        let destination = self.ends[1].get(queue.hosts[1]);
        let comes = source.is_some_and(|host| host.heavy == 0);
        let price = |is_trusted: bool| {
            destination.map_or(u64::from(queue.load), |host| host.price(is_trusted, comes))
        };
        let load = price(!queue.is_stubborn);
        let of_strangers = || destination.map_or(ONE, Host::strangers_price);
        let light = |price: u64| (price / LIGHT_PART).max(ONE);
        Price {
            flow: [flows * load, light(flows * load)],
            source: price(has_lasted && !queue.is_stubborn),
            strangers: (!has_lasted).then(of_strangers),
            kind: usize::from(has_lasted && queue.seen == FAMILIAR_PACKETS),
        }
    }

    /// The heavy flows of a queue's source, this one included.
    #[inline]
    pub(super) fn source_flows(&self, queue: &Queue) -> u32 {
        let source = self.ends[0].get(queue.hosts[0]);
        let heavy = source.map_or(0, |host| u32::from(host.heavy));
        (heavy + u32::from(!queue.waits.is_heavy())).max(1)
    }

    /// Updates the share that a heavy queue requests at its destination.
    fn ask(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        let source = self.ends[0].get(queue.hosts[0]);
        let flows = source.map_or(1, |host| usize::from(host.heavy));
        let is_trusted = source.is_some_and(Host::is_trusted) && !queue.is_stubborn;
        let share = SHARES[flows.min(QUEUES)];
        if (share, is_trusted) != (queue.share, queue.is_trusted) {
            let [from, to] = [
                parts(queue.share, queue.is_trusted),
                parts(share, is_trusted),
            ];
            self.ends[1].load(queue.hosts[1], from, to);
            (queue.share, queue.is_trusted) = (share, is_trusted);
        }
    }
}

/// A share, split into the parts of trusted sources and of strangers.
#[inline]
fn parts(share: u16, is_trusted: bool) -> [u32; 2] {
    let (share, trusted) = (u32::from(share), u32::from(is_trusted));
    [share * trusted, share * (1 - trusted)]
}
