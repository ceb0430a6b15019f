//! Rates of the traffic through each port: by source, by destination and by flow.
//!
//! ```text
//!   sample --taken packets--> bytes by key --+--> rate of the latest second
//!                                            +--> means over a minute and over five, as the load average of Unix
//! ```
//!
//! Each port keeps the [`KEPT`] sources, destinations and flows with the highest means of a minute. So a sender with at
//! least 1/256 of a port's traffic of the last minute is listed, and memory does not depend on the number of flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Instant, Rate};
use weir_model::class::{Cell, Class, Form, Layout};
use weir_packet::{FlowKey, KeyKind};

use super::Sampled;
use super::sample::Sample;
use crate::class::{
    Block, Column, RATE_BPS, RATIO, Row, Source, TEXT, component, components, rows,
};

/// Maximum stored sources of a port; also its maximum stored destinations, and its maximum stored flows.
const KEPT: usize = 256;
/// Maximum rows of each kind in one answer.
const ROWS_MAX: u64 = KEPT as u64;
/// Kinds of rows.
const KINDS: [KeyKind; 3] = [KeyKind::Source, KeyKind::Destination, KeyKind::Flow];
/// Time constants of the means, in seconds.
const MEANS: [f64; 2] = [60.0, 300.0];

pub(in crate::class) static TALKERS: Block = Block {
    class: Class {
        name: "talkers",
        id: 0x00F7_0115,
        about: "top talkers of each port, by source, by destination and by flow: now, and over minutes",
        key: &["port", "by", "who"],
        query: &[
            Parameter::new(
                "by",
                Kind::Word(&["all", "source", "destination", "flow"]),
                "all",
                "grouping of the rows",
            ),
            Parameter::new(
                "limit",
                Kind::Count(0, ROWS_MAX),
                "5",
                "maximum rows of each port and grouping, by rate in the latest second",
            ),
            Parameter::new(
                "port",
                Kind::Text(64),
                "",
                "only rows of this port; empty: all ports",
            ),
        ],
        components: &components::<Talker, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No port has sent packets since the start.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Sampled(|sampled, query| rows(COLUMNS, talkers(sampled, query))),
};

/// Rates in bit/s: of the latest second, and the means.
type Rates = [f64; 3];

/// The senders through a port.
#[derive(Debug, Default)]
struct Of {
    /// Sum of all rates in the latest second, in bit/s.
    sum: f64,
    /// Rates by key, in the order of [`KINDS`].
    kinds: [BTreeMap<FlowKey, Rates>; 3],
}

/// The senders, by port.
#[derive(Debug, Default)]
pub(super) struct Talkers {
    ports: BTreeMap<Arc<str>, Of>,
    latest: Option<Instant>,
}

/// A source, a destination or a flow.
struct Talker {
    port: Arc<str>,
    kind: KeyKind,
    key: FlowKey,
    rates: Rates,
    /// Share of the port's traffic in the latest second.
    share: f64,
}

impl Row for Talker {
    type View<'a> = Self;
}

impl Talkers {
    /// Adds a sample. The first sample only starts the clock: the time that its packets cover is unknown.
    pub(super) fn take(&mut self, sample: &Sample) {
        let Some(before) = self.latest.replace(sample.at) else {
            return;
        };
        let seconds = sample.at.since(before).as_secs_f64().max(1e-3);
        let mut known = std::mem::take(&mut self.ports);
        for port in &sample.ports {
            let mut of = known.remove(&port.name).unwrap_or_default();
            let bits = |bytes: u64| 8.0 * bytes as f64 / seconds;
            of.sum = port.talkers.iter().map(|taken| bits(taken.bytes)).sum();
            for (kind, rates) in KINDS.into_iter().zip(&mut of.kinds) {
                rates.values_mut().for_each(|rates| rates[0] = 0.0);
                for taken in &port.talkers {
                    rates.entry(taken.key.project(kind)).or_default()[0] += bits(taken.bytes);
                }
                keep(rates, seconds);
            }
            self.ports.insert(port.name.clone(), of);
        }
    }
}

/// Adds the latest rates, which cover this time, to the means, and keeps the keys with the highest means of a minute.
fn keep(all: &mut BTreeMap<FlowKey, Rates>, seconds: f64) {
    for [now, means @ ..] in all.values_mut() {
        for (mean, time) in means.iter_mut().zip(MEANS) {
            *mean += (*now - *mean) * (1.0 - (-seconds / time).exp());
        }
    }
    if all.len() > KEPT {
        let mut order: Vec<_> = std::mem::take(all).into_iter().collect();
        order.sort_by(|(_, a), (_, b)| b[1].total_cmp(&a[1]));
        order.truncate(KEPT);
        all.extend(order);
    }
}

/// The fastest talkers of each port and kind, fastest first.
fn talkers(sampled: &Sampled, query: &Settings) -> Vec<Talker> {
    let (by, port) = (query.word("by"), query.text("port"));
    let limit = query.count("limit") as usize;
    let mut all = Vec::new();
    let ports = sampled.talkers.ports.iter();
    for (name, of) in ports.filter(|(name, _)| port.is_empty() || ***name == *port) {
        let kinds = KINDS.into_iter().zip(&of.kinds);
        for (kind, rates) in kinds.filter(|(kind, _)| by == "all" || by == kind.word()) {
            let mut order: Vec<_> = rates.iter().collect();
            order.sort_by(|(_, a), (_, b)| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
            all.extend(order.into_iter().take(limit).map(|(key, rates)| Talker {
                port: name.clone(),
                kind,
                key: *key,
                rates: *rates,
                share: rates[0] / of.sum.max(1.0),
            }));
        }
    }
    all
}

impl Talker {
    fn who(&self) -> String {
        let address = match self.kind {
            KeyKind::Source => self.key.source,
            KeyKind::Destination => self.key.destination,
            _ => return self.key.to_string(),
        };
        let shown = self.key.address_shown(address);
        shown.unwrap_or_else(|| "no address".to_owned())
    }

    fn rate(&self, which: usize) -> Rate {
        Rate::from_bps(self.rates[which].round() as u64)
    }
}

const COLUMNS: &[Column<Talker>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the output port; the reverse direction is listed at the other port.")
        .shown(&[Cell::new("PORT")])
        .read(|talker| talker.port.as_ref().into()),
    component(2, "by", TEXT, "source")
        .about("Grouping of the row: `source`, `destination` or `flow`.")
        .shown(&[Cell::new("BY")])
        .read(|talker| talker.kind.word().into()),
    component(3, "who", TEXT, "10.0.0.2")
        .about("The address, or the flow in one line.")
        .shown(&[Cell::new("WHO")])
        .read(|talker| talker.who().into()),
    component(4, "rate_bps", RATE_BPS, "62000000")
        .about(
            "Rate of frames in the latest second. It is exact if the port sends up to 1000 packets/s, otherwise \
             estimated: a share of 10 % is accurate to about one percentage point.",
        )
        .shown(&[Cell::new("MBIT/S").form(Form::Megabits)])
        .read(|talker| talker.rate(0).into()),
    component(5, "minute_bps", RATE_BPS, "31000000")
        .about("Exponentially weighted mean rate with a time constant of one minute.")
        .shown(&[Cell::new("1 MIN").form(Form::Megabits)])
        .read(|talker| talker.rate(1).into()),
    component(6, "five_minutes_bps", RATE_BPS, "9000000")
        .about("Exponentially weighted mean rate with a time constant of five minutes.")
        .shown(&[Cell::new("5 MIN").form(Form::Megabits)])
        .read(|talker| talker.rate(2).into()),
    component(7, "share_ratio", RATIO, "0.65")
        .about("Share of the bytes that the port sent in the latest second.")
        .shown(&[Cell::new("OF PORT")])
        .read(|talker| talker.share.into()),
];

#[cfg(test)]
mod tests {
    use super::*;
    use weir_path::talkers::Taken;

    /// A sample after this number of seconds, in which these sources have sent these bytes, each from its own port
    /// number.
    fn sample(seconds: u64, sent: &[(u16, u64)]) -> Sample {
        let taken = sent.iter().map(|(host, bytes)| {
            let [a, b] = host.to_be_bytes();
            let key = FlowKey::ip([10, 0, a, b].into(), [192, 0, 2, 9].into(), 17, *host, 53);
            Taken { key, bytes: *bytes }
        });
        Sample::of_port(
            Instant::from_nanos(seconds * 1_000_000_000),
            taken.collect(),
        )
    }

    fn shown(sampled: &Sampled, by: &str) -> Vec<Talker> {
        let query = TALKERS.query([("by", by), ("limit", "256")]).unwrap();
        talkers(sampled, &query)
    }

    #[test]
    fn rates_are_of_the_latest_second_and_of_minutes() {
        let mut sampled = Sampled::default();
        let mut take = |seconds, sent: &[(u16, u64)]| {
            sampled.take(sample(seconds, sent), BTreeMap::new());
            shown(&sampled, "source")
        };
        assert!(take(0, &[(9, 1000)]).is_empty(), "in an unknown time");
        let all = take(2, &[(1, 3000), (2, 1000), (1, 0)]);
        let rows: Vec<_> = all.iter().map(|t| (t.who(), t.rate(0), t.share)).collect();
        let rate = Rate::from_bps;
        let expected = [("10.0.0.1", 12_000, 0.75), ("10.0.0.2", 4000, 0.25)];
        assert_eq!(
            rows,
            expected.map(|(who, bps, share)| (who.to_owned(), rate(bps), share))
        );
        for seconds in 3..300 {
            take(seconds, &[(1, 1000)]);
        }
        let all = take(300, &[]);
        let [now, minute, minutes] = all[0].rates;
        assert_eq!((now, all.len()), (0.0, 2));
        assert!((7500.0..8000.0).contains(&minute), "{minute}");
        assert!((4800.0..5300.0).contains(&minutes), "{minutes}");
        assert!(all[1].rates[1] < 1000.0);
        let by_destination = shown(&sampled, "destination");
        assert_eq!(
            (by_destination.len(), by_destination[0].who()),
            (1, "192.0.2.9".to_owned())
        );
        assert_eq!(
            shown(&sampled, "flow")[0].who(),
            "10.0.0.1:1 > 192.0.2.9:53 udp"
        );
        assert_eq!(shown(&sampled, "all").len(), 2 + 1 + 2);
    }

    #[test]
    fn whoever_sends_most_is_known_among_any_number() {
        let mut sampled = Sampled::default();
        for seconds in 0..30 {
            let of = |n: u16| (1000 + seconds as u16 * 2000 + n, 60);
            let mut sent: Vec<_> = (0..2000).map(of).collect();
            sent.push((7, 1000));
            sampled.take(sample(seconds, &sent), BTreeMap::new());
        }
        let all = shown(&sampled, "flow");
        assert_eq!(
            (all.len(), all[0].who()),
            (KEPT, "10.0.0.7:7 > 192.0.2.9:53 udp".to_owned())
        );
    }
}
