//! Rate limits of ICMP errors.
//!
//! ```text
//!  "too big":  its receiver's share? ------------------------------------------> error
//!  the rest:   its receiver's share? -- its prefix's share? -- the router's? --> error
//! ```
//!
//! Source: RFC 1812, section 4.3.2.8; RFC 4443, section 2.4 f; RFC 1191.
//!
//! Limits, each a token bucket (parameters: [`Limit`]):
//!
//! | bucket | rate | burst | why |
//! |---|---|---|---|
//! | of one receiver | 100/s | 20 | N of RFC 4443, section 2.4 f |
//! | of one prefix (/24, /56) | 1000/s | 100 | one network must not use up the router's budget |
//! | of the router | 10 000/s | 1000 | the larger of Linux' defaults (`icmp_msgs_per_sec`; 1000 before 2025) |
//!
//! "Too big" is limited per receiver only. Linux does not limit it at all: without this error a connection
//! stalls, so with a shared limit a sender that forges the sources of long packets could stall everybody's
//! connections. It amplifies nothing, because an error is shorter than the packet that causes it.
//!
//! A keyed hash assigns receivers to [`RECEIVERS`] buckets, and prefixes to [`PREFIXES`], so that the tables
//! are bounded; two receivers may have to share a bucket. A flood of packets that are too big, from random
//! sources, takes the shares of others only if it is faster than [`RECEIVERS`] times the rate of a bucket,
//! about 400 000 packets per second.

use weir_base::{Instant, Span};
use weir_packet::KeyKind;
use weir_packet::key::{FlowKey, Keys};

use crate::ip::icmp_cause::IcmpCause;

/// A token bucket's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Tokens a second, at least 1.
    pub rate: u32,
    /// Tokens at once after a pause, at least 1.
    pub burst: u32,
}

/// Buckets that receivers share.
pub const RECEIVERS: usize = 4096;
/// Buckets that prefixes share.
pub const PREFIXES: usize = 1024;

/// The buckets that an error is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    host: usize,
    prefix: usize,
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit for each receiver.
    pub receiver: Limit,
    /// Limit for each prefix, "too big" not counted.
    pub prefix: Limit,
    /// Limit for the router, "too big" not counted.
    pub router: Limit,
}

/// How many errors may still be sent, and how many have been.
#[derive(Debug)]
pub struct ErrorBudget {
    limits: Limits,
    receivers: Box<[Bucket; RECEIVERS]>,
    prefixes: Box<[Bucket; PREFIXES]>,
    router: Bucket,
    pub(crate) stats: Stats,
}

/// Errors sent and not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sent: TTL or hop limit ran out.
    pub ttl_expired: u64,
    /// Sent: network unreachable, or no route.
    pub net_unreachable: u64,
    /// Sent: host or address unreachable.
    pub host_unreachable: u64,
    /// Sent: administratively prohibited.
    pub prohibited: u64,
    /// Sent: fragmentation needed, or packet too big.
    pub too_big: u64,
    /// Not sent: the offender may not be answered.
    pub forbidden: u64,
    /// Not sent: beyond the rate limits.
    pub limited: u64,
    /// Not sent: no packet slot was free.
    pub no_room: u64,
}

/// A token bucket in virtual scheduling form: the time at which it will be full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    full_at: Instant,
}

impl Receiver {
    /// The buckets of the sender of a packet with this key.
    pub fn of(key: &FlowKey, keys: &Keys) -> Self {
        let hash = |kind| keys.hash_key(&key.project(kind)) as usize;
        Self {
            host: hash(KeyKind::Source) % RECEIVERS,
            prefix: hash(KeyKind::SourcePrefix) % PREFIXES,
        }
    }
}

impl Default for ErrorBudget {
    fn default() -> Self {
        let limit = |rate, burst| Limit { rate, burst };
        Self::new(Limits {
            receiver: limit(100, 20),
            prefix: limit(1000, 100),
            router: limit(10_000, 1000),
        })
    }
}

impl ErrorBudget {
    /// A budget with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            receivers: Box::new([Bucket::default(); RECEIVERS]),
            prefixes: Box::new([Bucket::default(); PREFIXES]),
            router: Bucket::default(),
            stats: Stats::default(),
        }
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether an error to this receiver may be sent now.
    pub(crate) fn allows(&self, to: Receiver, cause: IcmpCause, now: Instant) -> bool {
        let limits = &self.limits;
        let too_big = matches!(cause, IcmpCause::TooBig { .. });
        self.receivers[to.host].has_token(&limits.receiver, now)
            && (too_big
                || self.prefixes[to.prefix].has_token(&limits.prefix, now)
                    && self.router.has_token(&limits.router, now))
    }

    /// Counts an error to this receiver, and charges it to the buckets.
    pub(crate) fn take(&mut self, to: Receiver, cause: IcmpCause, now: Instant) {
        let count = match cause {
            IcmpCause::TtlExpired => &mut self.stats.ttl_expired,
            IcmpCause::NetUnreachable => &mut self.stats.net_unreachable,
            IcmpCause::HostUnreachable | IcmpCause::RouteUnreachable => {
                &mut self.stats.host_unreachable
            }
            IcmpCause::Prohibited => &mut self.stats.prohibited,
            IcmpCause::TooBig { .. } => &mut self.stats.too_big,
        };
        *count += 1;
        self.receivers[to.host].take(&self.limits.receiver, now);
        if !matches!(cause, IcmpCause::TooBig { .. }) {
            self.prefixes[to.prefix].take(&self.limits.prefix, now);
            self.router.take(&self.limits.router, now);
        }
    }
}

impl Stats {
    /// Errors sent.
    pub fn sent(&self) -> u64 {
        self.ttl_expired
            + self.net_unreachable
            + self.host_unreachable
            + self.prohibited
            + self.too_big
    }
}

impl Limit {
    /// The time between two tokens.
    fn interval(&self) -> Span {
        Span::from_nanos(1_000_000_000 / u64::from(self.rate.max(1)))
    }
}

impl Bucket {
    /// Whether a token is available, that is, at most `burst - 1` are missing.
    pub(crate) fn has_token(&self, limit: &Limit, now: Instant) -> bool {
        let debt_max = limit.interval().times(u64::from(limit.burst.max(1)) - 1);
        self.full_at.since(now) <= debt_max
    }

    /// Takes a token.
    pub(crate) fn take(&mut self, limit: &Limit, now: Instant) {
        self.full_at = self.full_at.max(now) + limit.interval();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Instant = Instant::from_nanos(5_000_000_000);
    const TOO_BIG: IcmpCause = IcmpCause::TooBig { mtu: 1300 };

    fn receiver(address: std::net::IpAddr) -> Receiver {
        let key = FlowKey::ip(address, address, 17, 1, 2);
        Receiver::of(&key, &Keys::new(1, (1, 2)))
    }

    fn v4(n: u32) -> Receiver {
        receiver(std::net::IpAddr::V4(n.into()))
    }

    fn sent(budget: &mut ErrorBudget, to: Receiver, cause: IcmpCause, tries: u32) -> u32 {
        let mut sent = 0;
        for _ in 0..tries {
            if budget.allows(to, cause, NOW) {
                budget.take(to, cause, NOW);
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn prefixes_are_24_and_56_bits() {
        let v6 = |text: &str| receiver(text.parse().unwrap());
        assert_eq!(v4(0x0a01_0200).prefix, v4(0x0a01_02ff).prefix);
        assert_ne!(v4(0x0a01_0200).prefix, v4(0x0a01_0300).prefix);
        assert_ne!(v4(0x0a01_0200).host, v4(0x0a01_0201).host);
        assert_eq!(v6("2001:db8::1").prefix, v6("2001:db8::ffff:0:0:1").prefix);
        assert_ne!(v6("2001:db8::1").prefix, v6("2001:db8:0:100::1").prefix);
    }

    #[test]
    fn one_host_or_network_does_not_use_up_the_budget() {
        let mut budget = ErrorBudget::default();
        let cause = IcmpCause::TtlExpired;
        assert_eq!(sent(&mut budget, v4(0x0a01_0101), cause, 60), 20);
        let network: u32 = (0..250)
            .map(|n| sent(&mut budget, v4(0x0a01_0100 + n), cause, 60))
            .sum();
        assert_eq!(network, 80);
        assert_eq!(sent(&mut budget, v4(0x0a02_0101), cause, 60), 20);
        let all: u32 = (0..1000)
            .map(|n| sent(&mut budget, v4(0x0b00_0000 + (n << 8)), cause, 60))
            .sum();
        assert_eq!(all + 120, 1000);
    }

    #[test]
    fn too_big_is_sent_whatever_the_others_do() {
        let mut budget = ErrorBudget::default();
        for n in 0..10_000_u32 {
            let forged = v4(0x0b00_0000 + n.wrapping_mul(0x9e37_79b9) % 0x5000_0000);
            let cause = if n % 2 == 0 {
                TOO_BIG
            } else {
                IcmpCause::TtlExpired
            };
            sent(&mut budget, forged, cause, 1);
        }
        assert!(budget.stats().too_big > 4900, "{:?}", budget.stats());
        assert_eq!(budget.stats().ttl_expired, 1000);
        assert!(sent(&mut budget, v4(0x0a01_0101), TOO_BIG, 60) >= 15);
    }

    #[test]
    fn tokens_come_back_one_by_one() {
        // 1000/s and a burst of 3: three at once, then one each millisecond.
        let limit = Limit {
            rate: 1000,
            burst: 3,
        };
        let mut bucket = Bucket::default();
        let mut at = |micros: u64| {
            let now = NOW + Span::from_micros(micros);
            let has = bucket.has_token(&limit, now);
            if has {
                bucket.take(&limit, now);
            }
            has
        };
        assert_eq!([at(0), at(0), at(0), at(0)], [true, true, true, false]);
        assert_eq!([at(999), at(1000), at(1000)], [false, true, false]);
        // After a long pause it is full, not more: three again.
        assert_eq!(
            [at(9000), at(9000), at(9000), at(9000)],
            [true, true, true, false]
        );
        // Time that runs backwards gives nothing, and takes nothing away.
        assert_eq!([at(5000), at(10_000)], [false, true]);
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate(
            gaps in proptest::collection::vec(0_u64..3_000_000, 1..200), rate in 1_u32..5000, burst in 1_u32..20,
        ) {
            let limit = Limit { rate, burst };
            let (mut bucket, mut now, mut taken) = (Bucket::default(), NOW, 0_u64);
            for gap in gaps {
                now += Span::from_nanos(gap);
                if bucket.has_token(&limit, now) {
                    bucket.take(&limit, now);
                    taken += 1;
                }
            }
            let refilled = now.since(NOW).as_nanos() / limit.interval().as_nanos();
            prop_assert!(taken <= u64::from(burst) + refilled);
        }
    }
}
