//! The sources and flows whose packets wait in the queues, and why they wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Span, Tally};
use weir_discipline::waiting::{Price, Service};
use weir_model::class::{Cell, Class, HELD, Layout};
use weir_packet::{FlowKey, KeyKind};

use super::Sampled;
use super::sample::Held;
use crate::class::{
    Block, Column, NUMBER, RATIO, Row, SECONDS, Source, TEXT, component, components, rows,
};

/// Maximum rows of each port in one answer.
const ROWS_MAX: u64 = 1024;

pub(in crate::class) static WAITING: Block = Block {
    class: Class {
        name: "waiting",
        id: 0x00F7_0112,
        about: "packets waiting in the queues, by source or by flow, and why they wait",
        key: &["port", "who"],
        query: &[
            Parameter::new(
                "by",
                Kind::Word(&["source", "flow"]),
                "source",
                "grouping of the rows",
            ),
            Parameter::new(
                "limit",
                Kind::Count(0, ROWS_MAX),
                "50",
                "maximum rows of each port, most bytes first",
            ),
        ],
        components: &components::<Holder, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No packets wait, or the discipline does not know their flows.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Sampled(|sampled, query| rows(COLUMNS, holders(sampled, query))),
};

/// A source or a flow with packets in the queue of a port.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) port: Arc<str>,
    pub(super) who: String,
    /// The common part of the key of the first packets.
    pub(super) key: FlowKey,
    pub(super) flows: u32,
    pub(super) held: Tally,
    pub(super) waited: Span,
    pub(super) queue_share: f64,
    pub(super) link_share: Option<f64>,
    pub(super) why: String,
}

impl Row for Holder {
    type View<'a> = Self;
}

/// Waiting packets of one port.
pub(super) struct Crowd<'a> {
    all: Vec<&'a Held>,
    bytes: u64,
    /// Sum of the inverse prices of all priced queues: the unit of their shares of the link.
    turns: f64,
    /// Number of queues that are served round-robin, and number of sources of all waiting packets.
    queues: usize,
    sources: usize,
}

/// The holders with the most bytes of each port, most first.
fn holders(sampled: &Sampled, query: &Settings) -> Vec<Holder> {
    let by_flow = query.word("by") == "flow";
    let limit = query.count("limit") as usize;
    let waiting = sampled.latest.iter().flat_map(|sample| &sample.waiting);
    let mut ports: BTreeMap<&str, Vec<&Held>> = BTreeMap::new();
    for held in waiting {
        ports.entry(&held.port).or_default().push(held);
    }
    let of_port = |all| {
        let crowd = Crowd::of(all);
        let mut rows = crowd.rows(by_flow);
        rows.sort_by_key(|holder| std::cmp::Reverse(holder.held.bytes));
        rows.truncate(limit);
        rows
    };
    ports.into_values().flat_map(of_port).collect()
}

impl<'a> Crowd<'a> {
    pub(super) fn of(all: Vec<&'a Held>) -> Self {
        let prices = all.iter().filter_map(|held| held.price());
        let turns = prices.clone().map(|price| 1.0 / f64::from(price.factor()));
        let mut sources: Vec<_> = all.iter().map(|held| held.host()).collect();
        sources.sort_unstable();
        sources.dedup();
        Self {
            bytes: all.iter().map(|held| held.held.bytes).sum(),
            turns: turns.sum(),
            queues: prices.count(),
            sources: sources.len(),
            all,
        }
    }

    fn rows(&self, by_flow: bool) -> Vec<Holder> {
        let mut groups: BTreeMap<String, Vec<&Held>> = BTreeMap::new();
        for held in &self.all {
            let who = if by_flow { held.flow() } else { held.host() };
            groups.entry(who).or_default().push(held);
        }
        let groups = groups.into_iter();
        groups.map(|(who, of)| self.row(who, &of)).collect()
    }

    pub(super) fn row(&self, who: String, of: &[&Held]) -> Holder {
        let first = of[0];
        let turns = of.iter().filter_map(|held| held.price());
        let turns: u32 = turns.map(|price| price.flows).sum();
        let arrivals = of.iter().filter(|held| held.price().is_none());
        let mut arrivals: Vec<_> = arrivals.map(|held| held.shown_key()).collect();
        arrivals.sort_unstable();
        arrivals.dedup();
        let held = of.iter().fold(Tally::ZERO, |all, held| all + held.held);
        Holder {
            port: first.port.clone(),
            key: first.shown_key(),
            flows: turns + arrivals.len() as u32,
            held,
            waited: of.iter().map(|held| held.waited).max().unwrap_or_default(),
            queue_share: held.bytes as f64 / self.bytes.max(1) as f64,
            link_share: self.link_share(of, held),
            why: self.why(of),
            who,
        }
    }

    /// The share of the link that these packets get while the others wait too; `None` if unknown, because queues with
    /// different scheduling rules are mixed.
    fn link_share(&self, of: &[&Held], held: Tally) -> Option<f64> {
        if self.queues == self.all.len() {
            let turns = of.iter().filter_map(|held| held.price());
            let turns = turns.map(|price| 1.0 / f64::from(price.factor()));
            return Some(turns.sum::<f64>() / self.turns);
        }
        let is_one = self
            .all
            .iter()
            .all(|held| held.service == self.all[0].service);
        is_one.then(|| held.bytes as f64 / self.bytes.max(1) as f64)
    }

    /// Why they wait, in a sentence or two.
    fn why(&self, of: &[&Held]) -> String {
        let first = of[0];
        let price = match first.service {
            Service::Arrival(queue) => {
                return format!(
                    "They wait in {queue}, which is served in order of arrival: flows that send more get more."
                );
            }
            Service::Priced(_) if of.len() == self.all.len() => {
                return "No other packets wait: flows below their fair share pass at once, and these packets get the \
                        rest of the link."
                    .to_owned();
            }
            Service::Priced(price) => price,
        };
        let most = of.iter().filter_map(|held| held.price());
        let load = most.map(|price| price.destination_load).fold(1.0, f32::max);
        let mut why = Vec::new();
        if price.source_flows > 1 {
            why.push(format!(
                "Its host has {} flows in the queue, which share the bandwidth of one host: each waits {} times as \
                 long.",
                price.source_flows, price.source_flows
            ));
        }
        if load >= 1.5 {
            why.push(format!(
                "About {load:.0} sources send to the same destination and share the bandwidth of one source: each \
                 waits {load:.1} times as long."
            ));
        }
        if of
            .iter()
            .any(|held| held.price().is_some_and(|price| price.flows > 1))
        {
            why.push("Several flows share one queue, because most queues are in use.".to_owned());
        }
        if why.is_empty() {
            why.push(match self.sources {
                0 | 1 => format!(
                    "Served round-robin; other waiting queues: {}.",
                    self.queues - 1
                ),
                sources => format!("Served round-robin; other waiting hosts: {}.", sources - 1),
            });
        }
        why.join(" ")
    }
}

impl Held {
    fn price(&self) -> Option<Price> {
        match self.service {
            Service::Priced(price) => Some(price),
            Service::Arrival(_) => None,
        }
    }

    /// The part of the key that all packets have in common.
    pub(super) fn shown_key(&self) -> FlowKey {
        self.common
            .map_or_else(FlowKey::default, |kind| self.key.project(kind))
    }

    /// The source, or the destination of received packets; the flow, if the packets have no such host in common.
    pub(super) fn host(&self) -> String {
        use KeyKind::{Destination, DestinationPrefix, Flow, Pair, Source, SourcePrefix};
        let kind = match (self.common, self.is_inbound) {
            (Some(Flow | Source | Pair), false) => Source,
            (Some(SourcePrefix), false) => SourcePrefix,
            (Some(Flow | Destination | Pair), true) => Destination,
            (Some(DestinationPrefix), true) => DestinationPrefix,
            _ => return self.flow(),
        };
        let key = self.key.project(kind);
        let end = if self.is_inbound {
            key.destination
        } else {
            key.source
        };
        key.address_shown(end)
            .unwrap_or_else(|| "no address".to_owned())
    }

    /// The flow, or the known part of it.
    pub(super) fn flow(&self) -> String {
        let key = self.shown_key();
        match self.common {
            None => "several flows".to_owned(),
            Some(KeyKind::Destination | KeyKind::DestinationPrefix) => {
                let address = key.address_shown(key.destination);
                format!("several sources > {}", address.unwrap_or_default())
            }
            Some(_) => key.to_string(),
        }
    }
}

/// `None` for zero, which means that the packets differ in this field.
fn nonzero(number: impl Into<u64>) -> Option<u64> {
    Some(number.into()).filter(|number| *number != 0)
}

const COLUMNS: &[Column<Holder>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the port.")
        .shown(&[Cell::new("PORT")])
        .read(|holder| holder.port.as_ref().into()),
    component(2, "who", TEXT, "10.0.0.2")
        .about("The source, or the flow in one line; `several flows` if the packets of a queue have nothing in common.")
        .shown(&[Cell::new("WHO")])
        .read(|holder| holder.who.as_str().into()),
    component(3, "flows", NUMBER, "40")
        .about("Approximate number of waiting flows; several flows may share a queue.")
        .shown(&[Cell::new("FLOWS")])
        .read(|holder| u64::from(holder.flows).into()),
    component(4, "held", HELD, "")
        .about("Packets in the queue; approximate in a long queue that all flows share.")
        .shown(&[Cell::new("PACKETS").of("packets"), Cell::new("BYTES").of("bytes")])
        .read(|holder| holder.held.into()),
    component(5, "queue_share_ratio", RATIO, "0.61")
        .about("Share of all bytes that wait at the port.")
        .shown(&[Cell::new("OF QUEUE")])
        .read(|holder| holder.queue_share.into()),
    component(6, "link_share_ratio", RATIO, "0.25")
        .optional()
        .about("Share of the link that these packets get while the others wait too; null if unknown.")
        .shown(&[Cell::new("OF LINK")])
        .read(|holder| holder.link_share.into()),
    component(7, "waited_s", SECONDS, "0.021")
        .about("Longest waiting time of a packet at the head of a queue.")
        .shown(&[Cell::new("WAITED")])
        .read(|holder| holder.waited.into()),
    component(
        8,
        "why",
        TEXT,
        "Its host has 40 flows in the queue, which share the bandwidth of one host: each waits 40 times as long.",
    )
    .about("Why the packets wait, as a sentence.")
    .shown(&[Cell::new("WHY")])
    .read(|holder| holder.why.as_str().into()),
    component(9, "source", TEXT, "10.0.0.2")
        .optional()
        .about("Source address of the first packet; null if the packets have several.")
        .read(|holder| holder.key.address_shown(holder.key.source).into()),
    component(10, "destination", TEXT, "10.0.1.2")
        .optional()
        .about("Destination address of the first packet; null if its queue has several.")
        .read(|holder| holder.key.address_shown(holder.key.destination).into()),
    component(11, "protocol", NUMBER, "17")
        .optional()
        .about("IP protocol number of the first packet; null if its queue has several.")
        .read(|holder| nonzero(holder.key.protocol).into()),
    component(12, "source_port", NUMBER, "40000")
        .optional()
        .about("Source port of the first packet.")
        .read(|holder| nonzero(holder.key.source_port).into()),
    component(13, "destination_port", NUMBER, "5001")
        .optional()
        .about("Destination port of the first packet.")
        .read(|holder| nonzero(holder.key.destination_port).into()),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use weir_model::Value;

    const DESTINATION: [u8; 4] = [192, 0, 2, 9];

    fn held(source: u8, port: u16, service: Service) -> Held {
        let source: IpAddr = [10, 0, 0, source].into();
        Held {
            port: "wan".into(),
            key: FlowKey::ip(source, DESTINATION.into(), 17, port, 53),
            common: Some(KeyKind::Flow),
            held: Tally::one(1000),
            waited: Span::from_millis(u64::from(port)),
            service,
            is_inbound: false,
        }
    }

    fn priced(source_flows: u32, destination_load: f32) -> Service {
        Service::Priced(Price {
            source_flows,
            destination_load,
            flows: 1,
        })
    }

    /// The table of these packets, by source or by flow.
    fn table(waiting: Vec<Held>, by: &str) -> Vec<Value> {
        let sample = super::super::Sample::of_waiting(waiting);
        let mut sampled = Sampled::default();
        sampled.take(sample, BTreeMap::new());
        let query = WAITING.query([("by", by)]).unwrap();
        rows(COLUMNS, holders(&sampled, &query)).rows().to_vec()
    }

    #[test]
    fn a_source_with_many_flows_has_the_share_of_one_source() {
        let waiting = || {
            let flood = (1..=3).map(|port| held(1, port, priced(3, 2.0)));
            flood.chain([held(2, 9, priced(1, 2.0))]).collect()
        };
        let [flood, other] = &table(waiting(), "source")[..] else {
            panic!("two sources wait")
        };
        assert_eq!(flood.text("who"), Some("10.0.0.1"));
        assert_eq!(
            (flood.whole("flows"), flood.whole("held.packets")),
            (Some(3), Some(3))
        );
        assert_eq!(flood.real("queue_share_ratio"), Some(0.75));
        assert_eq!(flood.real("waited_s"), Some(0.003));
        for row in [flood, other] {
            assert!((row.real("link_share_ratio").unwrap() - 0.5).abs() < 1e-6);
            assert!(
                row.text("why")
                    .unwrap()
                    .contains("About 2 sources send to the same destination")
            );
        }
        let why = |row: &Value| row.text("why").unwrap().contains("Its host has 3 flows");
        assert_eq!((why(flood), why(other)), (true, false));
        let flows = table(waiting(), "flow");
        assert_eq!(flows.len(), 4);
        assert_eq!(flows[0].text("who"), Some("10.0.0.1:1 > 192.0.2.9:53 udp"));
        // A single source is backlogged only by the link.
        let alone = (1..=3).map(|port| held(1, port, priced(3, 1.0))).collect();
        let alone = &table(alone, "source")[0];
        assert_eq!(alone.real("link_share_ratio"), Some(1.0));
        assert!(
            alone
                .text("why")
                .unwrap()
                .starts_with("No other packets wait")
        );
    }

    #[test]
    fn in_a_queue_for_all_who_sends_more_gets_more() {
        let arrival = || Service::Arrival("the queue of all packets");
        let waiting = vec![
            held(1, 1, arrival()),
            held(1, 1, arrival()),
            held(2, 9, arrival()),
        ];
        let rows = table(waiting, "flow");
        assert_eq!(rows[0].whole("held.packets"), Some(2));
        assert_eq!(rows[0].whole("flows"), Some(1), "not its packets");
        assert!((rows[0].real("link_share_ratio").unwrap() - 2.0 / 3.0).abs() < 1e-6);
        assert!(rows[0].text("why").unwrap().contains("in order of arrival"));
    }

    #[test]
    fn packets_without_a_common_flow_have_no_addresses() {
        let mut bin = held(1, 1, priced(1, 1.0));
        bin.common = None;
        let mut receiver = held(1, 1, priced(1, 1.0));
        receiver.common = Some(KeyKind::Destination);
        let rows = table(vec![bin, receiver], "source");
        let named = |who| {
            rows.iter()
                .find(|row| row.text("who") == Some(who))
                .unwrap()
        };
        assert_eq!(named("several flows").text("source"), None);
        let receiver = named("several sources > 192.0.2.9");
        assert_eq!(
            (receiver.text("source"), receiver.text("destination")),
            (None, Some("192.0.2.9"))
        );
    }
}
