//! The law: which flows are within their shares, the price of a packet, and the turn of the next packet.
//!
//! ```text
//!   flow          tag   = max(tag, now) + bytes x (heavy flows of its source) x (load of its destination)
//!   source        clock = max(clock, now) + bytes x (load of the destination)      for the first packet of a flow
//!   strangers     clock, like a source's: one for all strangers that send to a destination
//!   destination   clock = max(clock, now) + bytes
//!
//!   load of a destination = sum over its heavy queues of 1 / (heavy flows of the queue's source)
//! ```
//!
//! An account (a flow's tag, or a clock of a host) that is not ahead of the virtual time has used no more than its share.
//! A flow whose queue was empty is light if neither the flow nor its hosts are ahead by more than a small credit: it has
//! the next turn, and is charged at once. Otherwise it is heavy, and begins at the latest of these times. A host has one
//! share for its light and its heavy flows, so the heavy flows pay for the light ones: the sum of what they pay for only
//! grows, and each heavy flow pays for the growth since its previous turn.

use weir_base::Span;

use super::TripleFair;
use super::hosts::{Host, ONE};
use super::light::{LONG, NEW, SHORT, STRANGE, UNKNOWN};
use super::queue::{FAMILIAR_PACKETS, FLOWS, QUEUES, Queue, Waits};
use super::turns::TAG_MAX;

/// Full frames that a flow may be ahead of its share and still be light.
const CREDIT_OF_FLOW: u64 = 1;
/// The same of its hosts: for flows of any kind, and for familiar ones.
const CREDITS_OF_HOSTS: [u64; 2] = [2, 16];
/// Full frames by which new flows may be ahead of their host's share before further new flows share one queue.
const SPENT: u64 = 16;
/// Full frames by which strangers may be ahead of their share of a destination before new flows of strangers are refused.
const OVERRUN: u64 = 32;
/// Divides the price of a light flow, so that a call in a home with fifty busy flows is light. The price is at least that
/// of a host that is alone at both ends.
const LIGHT_PART: u64 = 2;
/// Bytes of strangers in a row before the heavy flows send as many.
const ROW_MAX: u64 = 9_000;

/// The share of the link that a queue asks of its destination, by the flows of its source.
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

/// The part of `span` that each of `queues` has.
#[inline]
pub(super) fn part(span: Span, queues: u32) -> Span {
    Span::from_nanos(span.as_nanos() / u64::from(queues.max(1)))
}

/// The turn of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) queue: usize,
    from: Waits,
}

impl Turn {
    /// The turn of the first queue in a list of light ones.
    pub(super) const fn light(queue: usize, list: usize) -> Self {
        Self {
            queue,
            from: Waits::Light(list as u8),
        }
    }
}

/// The price of a byte of a queue now, in 256ths.
pub(super) struct Price {
    /// Its flow: while it is heavy, while it is light.
    flow: [u64; 2],
    /// Its source: for all its flows, for its familiar ones.
    pub(super) source: [u64; 2],
    /// All strangers at its destination, if its source is one of them.
    strangers: Option<u64>,
    /// Which of its hosts' clocks and credits count for it: those of all flows, or those of familiar ones.
    kind: usize,
}

impl TripleFair {
    /// Whose turn it is.
    #[inline]
    pub(super) fn first(&self) -> Option<Turn> {
        let of = |list: usize| Some(Turn::light(self.light[list].first()?, list));
        let trusted = of(SHORT).or_else(|| of(NEW)).or_else(|| of(LONG));
        if trusted.is_some() {
            return trusted;
        }
        let heavy = self.turns.first().map(|(_, queue)| Turn {
            queue,
            from: Waits::Heavy,
        });
        match of(STRANGE).or_else(|| of(UNKNOWN)) {
            None => heavy,
            Some(_) if heavy.is_some() && self.in_a_row >= ROW_MAX => heavy,
            strange => strange,
        }
    }

    /// A queue begins to wait.
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

    /// A queue with packets waits for a turn: among the light ones if its flow and its hosts are within their shares. A
    /// light packet is charged now.
    fn enter(&mut self, at: usize) {
        let queue = &self.queues[at];
        let bytes = self.slab.front(&queue.packets).map_or(0, |p| p.bytes());
        let price = self.price(queue);
        let hosts = queue.hosts;
        let ahead = self.charge(hosts, &price, bytes);
        let queue = &mut self.queues[at];
        let now = self.time.flows;
        if at < FLOWS
            && ahead == 0
            && queue.tag <= now + CREDIT_OF_FLOW * self.bytes_max * price.flow[1]
        {
            queue.tag = (queue.tag.max(now) + bytes * price.flow[1]).min(TAG_MAX);
            let is_short = queue.tag <= now + self.bytes_max / 2 * price.flow[1];
            let list = match (price.strangers, price.kind) {
                (None, 1) if is_short => SHORT,
                (None, 1) => LONG,
                (None, _) => NEW,
                (Some(_), _) if queue.seen > 0 => STRANGE,
                (Some(_), _) => UNKNOWN,
            };
            queue.waits = Waits::Light(list as u8);
            self.time.latest[0] = self.time.latest[0].max(queue.tag);
            self.light[list].push(&mut self.queues[..], at);
            self.owe(hosts, &price, bytes);
            return;
        }
        queue.waits = Waits::Heavy;
        queue.tag = queue.tag.max(now + ahead).min(TAG_MAX);
        let tag = queue.tag;
        for (end, hosts) in self.ends.iter_mut().enumerate() {
            if let Some(host) = hosts.get_mut(queue.hosts[end]) {
                host.heavy += 1;
                queue.paid[end] = host.owed;
            }
        }
        self.ask(at);
        self.turns.push(tag, at);
    }

    /// Makes the heavy flows of a light packet's source pay for it, or those of its destination if the source has none.
    #[inline]
    fn owe(&mut self, hosts: [u16; 2], price: &Price, bytes: u64) {
        let [sources, destinations] = &mut self.ends;
        let source = sources.get_mut(hosts[0]);
        let (host, owed) = match source.filter(|host| host.heavy > 0) {
            Some(host) => (Some(host), bytes * price.source[0] / ONE),
            None => (destinations.get_mut(hosts[1]), bytes),
        };
        if let Some(host) = host {
            host.owed = host.owed.wrapping_add(owed as u32);
        }
    }

    /// Charges the hosts of a flow for its first packet. Returns how far they were ahead of the virtual time, or zero
    /// within their credit.
    fn charge(&mut self, hosts: [u16; 2], price: &Price, bytes: u64) -> u64 {
        let now = self.time.hosts;
        let credit = CREDITS_OF_HOSTS[price.kind] * self.bytes_max;
        let mut ahead = 0;
        let mut latest = 0;
        let mut charge = |clock: &mut u64, price: u64, counts: bool| {
            let before = clock.saturating_sub(now);
            if counts && before > credit * price {
                ahead = ahead.max(before);
            }
            *clock = (*clock).max(now) + bytes * price;
            latest = latest.max(*clock);
        };
        let [sources, destinations] = &mut self.ends;
        let both = [
            (sources.get_mut(hosts[0]), price.source),
            (destinations.get_mut(hosts[1]), [ONE; 2]),
        ];
        for (end, (host, prices)) in both.into_iter().enumerate() {
            let Some(host) = host else { continue };
            let clocks = host.clocks.iter_mut().zip(prices).enumerate();
            for (kind, (clock, of_kind)) in clocks.take(price.kind + 1) {
                charge(clock, of_kind, kind == price.kind);
            }
            if let (1, Some(price)) = (end, price.strangers) {
                charge(&mut host.strangers_clock, price, true);
            }
        }
        self.time.latest[1] = self.time.latest[1].max(latest);
        ahead
    }

    /// A queue no longer waits.
    #[inline]
    pub(super) fn leave(&mut self, turn: Turn) {
        self.remove(turn);
        let at = turn.queue;
        let queue = &self.queues[at];
        self.busy -= 1;
        if at < FLOWS {
            self.busy_flows -= 1;
            self.flows.rests(at, queue.seen == FAMILIAR_PACKETS);
        }
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            hosts.leave(host);
        }
        if Self::is_shared(at) {
            self.give_back(at);
        }
    }

    /// Takes the queue whose turn it is out of its order.
    fn remove(&mut self, turn: Turn) {
        let queue = &mut self.queues[turn.queue];
        queue.waits = Waits::Not;
        if let Waits::Light(list) = turn.from {
            return self.light[usize::from(list)].pop(&self.queues[..]);
        }
        self.turns.pop();
        for (hosts, host) in self.ends.iter_mut().zip(queue.hosts) {
            if let Some(host) = hosts.get_mut(host) {
                host.heavy -= 1;
            }
        }
        let parts = parts(queue.share, queue.is_trusted);
        self.ends[1].load(queue.hosts[1], parts, [0; 2]);
        queue.share = 0;
    }

    /// A queue has its turn, and sends this many bytes: it waits for another one, or leaves.
    #[inline]
    pub(super) fn serve(&mut self, turn: Turn, bytes: u64, leaves: bool) {
        let at = turn.queue;
        let queue = &mut self.queues[at];
        if self.ends[0].get_mut(queue.hosts[0]).is_some_and(Host::saw) {
            self.ends[0].trust(queue.hosts[0]);
        }
        if at < FLOWS {
            queue.seen = (queue.seen + 1).min(FAMILIAR_PACKETS);
        }
        match turn.from {
            Waits::Heavy => self.charge_heavy(at, bytes),
            Waits::Light(list) if usize::from(list) >= STRANGE && !self.turns.is_empty() => {
                self.in_a_row += bytes;
            }
            _ => {}
        }
        match (leaves, turn.from) {
            (true, _) => self.leave(turn),
            (false, Waits::Heavy) => self.turns.again(self.queues[at].tag),
            (false, _) => {
                self.remove(turn);
                self.enter(at);
            }
        }
    }

    /// A heavy packet pays its own price, and for the light flows of its hosts.
    fn charge_heavy(&mut self, at: usize, bytes: u64) {
        self.in_a_row = self.in_a_row.saturating_sub(bytes);
        self.time.pass(self.queues[at].tag, bytes, self.bytes_max);
        self.ask(at);
        let queue = &self.queues[at];
        let price = self.price(queue);
        let load = price.source[0];
        // A sender that ignores drops pays at least the mean price of responsive senders.
        let counted = match queue.is_stubborn {
            true => bytes * self.ends[1].trusted_mean().max(load) / load,
            false => bytes,
        };
        let mut cost = counted * price.flow[0];
        let queue = &mut self.queues[at];
        for (end, hosts) in self.ends.iter().enumerate() {
            if let Some(host) = hosts.get(queue.hosts[end]) {
                cost += u64::from(host.owed.wrapping_sub(queue.paid[end])) * ONE;
                queue.paid[end] = host.owed;
            }
        }
        queue.tag = (queue.tag + cost).min(TAG_MAX);
        self.time.latest[0] = self.time.latest[0].max(queue.tag);
    }

    /// Whether new flows of this source are so far ahead of its share that further new flows share one queue.
    pub(super) fn is_spent(&self, hosts: [u16; 2]) -> bool {
        let Some(source) = self.ends[0].get(hosts[0]) else {
            return false;
        };
        let destination = self.ends[1].get(hosts[1]);
        let price = destination.map_or(ONE, |host| host.price(source.is_trusted()));
        source.clocks[0] > self.time.hosts + SPENT * self.bytes_max * price
    }

    /// Whether strangers are so far ahead of their share at this destination that new flows of strangers are refused:
    /// there can be more strangers than any queue holds.
    #[inline]
    pub(super) fn is_overrun(&self, hosts: [u16; 2]) -> bool {
        if self.ends[0].get(hosts[0]).is_some_and(Host::is_trusted) {
            return false;
        }
        self.ends[1].get(hosts[1]).is_some_and(|host| {
            let credit = OVERRUN * self.bytes_max * host.strangers_price();
            host.strangers_clock > self.time.hosts + credit
        })
    }

    /// The flows in a queue, about.
    #[inline]
    pub(super) fn flows_in(&self, at: usize) -> u32 {
        match at {
            0..FLOWS => 1,
            _ => self.sketches[at - FLOWS].flows(),
        }
    }

    /// Restarts the virtual times near zero before they overflow: a walk over all queues and hosts, once in many millions
    /// of packets.
    #[inline]
    pub(super) fn renew(&mut self) {
        if let Some(from) = self.time.renew() {
            for queue in &mut self.queues[..] {
                queue.tag = queue.tag.saturating_sub(from[0]);
            }
            self.turns.rebase(from[0]);
            for hosts in &mut self.ends {
                hosts.rebase(from[1]);
            }
        }
    }

    /// Called when nothing is queued: forgives all service beyond a share.
    pub(super) fn settle(&mut self) {
        while let Some(turn) = self.first() {
            self.leave(turn);
        }
        self.time.settle();
        self.in_a_row = 0;
    }

    /// The price of a byte of a queue now.
    #[inline]
    pub(super) fn price(&self, queue: &Queue) -> Price {
        let source = self.ends[0].get(queue.hosts[0]);
        let has_lasted = source.is_some_and(Host::is_trusted);
        let flows = u64::from(self.source_flows(queue));
        let destination = self.ends[1].get(queue.hosts[1]);
        let is_trusted = has_lasted && !queue.is_stubborn;
        let load = destination.map_or(u64::from(queue.load), |host| host.price(is_trusted));
        let of_strangers = || destination.map_or(ONE, Host::strangers_price);
        let light = |price: u64| (price / LIGHT_PART).max(ONE);
        Price {
            flow: [flows * load, light(flows * load)],
            source: [load, light(load)],
            strangers: (!has_lasted).then(of_strangers),
            kind: usize::from(has_lasted && queue.seen == FAMILIAR_PACKETS),
        }
    }

    /// The heavy flows of a queue's source, this one included.
    #[inline]
    pub(super) fn source_flows(&self, queue: &Queue) -> u32 {
        let source = self.ends[0].get(queue.hosts[0]);
        let heavy = source.map_or(0, |host| u32::from(host.heavy));
        (heavy + u32::from(queue.waits != Waits::Heavy)).max(1)
    }

    /// Renews what a heavy queue asks of its destination.
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

/// A share as parts of trusted sources and of strangers.
#[inline]
fn parts(share: u16, is_trusted: bool) -> [u32; 2] {
    let (share, trusted) = (u32::from(share), u32::from(is_trusted));
    [share * trusted, share * (1 - trusted)]
}
