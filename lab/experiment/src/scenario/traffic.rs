//! The traffic of a scenario: senders, receivers, amounts and times.

use std::sync::Arc;

use rand::RngExt;
use weir_base::pace::OnOff;
use weir_base::{Distribution, Offered, Sizes, Spacing, Span, Streams, Times};

use super::key::Key;
use super::parameters::*;
use super::reader::Section;
use super::tcp::TcpOptions;
use weir_config::ConfigError;

/// Maximum number of flows of one flow group, over all hosts.
const FLOWS_MAX: u64 = 1_000_000;

/// Maximum content of a chunk in bytes, so that its datagram is no longer than other UDP datagrams.
const CHUNK_BYTES_MAX: f64 = 1400.0;

/// Traffic of one kind between two groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The name.
    pub name: String,
    /// The host group that sends the data.
    pub from: String,
    /// The host group that receives the data.
    pub to: String,
    /// Start time.
    pub start: Span,
    /// How the flows start after `start`.
    pub starts: Starts,
    /// Stop time; `None` to run to the end.
    pub stop: Option<Span>,
    /// Whether it uses IPv6 instead of IPv4.
    pub ipv6: bool,
    /// Whether it is the attack, or a part of the attack.
    pub hog: bool,
    /// The kind, and its amount.
    pub kind: TrafficKind,
}

/// How the flows of a group start.
#[derive(Clone, Debug, PartialEq)]
pub enum Starts {
    /// Each flow at a random time within this span; all at once if it is zero.
    Spread(Span),
    /// One flow after another, with these gaps.
    Arrivals(Times),
}

/// The kind of traffic, and its amount.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// TCP connections, opened by the sender.
    Tcp {
        /// Connections of each pair of hosts.
        flows: u32,
        /// Bytes that each connection transfers before it closes; if `None`, it sends to the end.
        size: Option<Sizes>,
        /// The rate that each connection's application offers while it is on; greedy if `None`.
        offered: Option<Offered>,
        /// The spacing of the application's writes, if it offers a rate.
        spacing: Spacing,
        /// When the application offers its load; always if `None`.
        activity: Option<OnOff>,
        /// The endpoints.
        options: TcpOptions,
    },
    /// UDP, paced packet by packet.
    Udp {
        /// Flows (source ports) of each pair of hosts.
        flows: u32,
        /// The rate that each flow offers while it is on, in payload.
        offered: Offered,
        /// When the flow offers its load; always if `None`.
        activity: Option<OnOff>,
        /// Bytes of payload in each packet.
        payload: u32,
        /// The spacing of a flow's packets.
        spacing: Spacing,
        /// Number of source addresses over which the flows of each sending host are spread.
        addresses: u32,
        /// Further hosts that receive a copy of each packet.
        copies_to: Vec<String>,
    },
    /// Web fetches: `from` is the server, `to` runs the clients, which open the connections.
    Web {
        /// Clients of each host, each with one connection at a time.
        clients: u32,
        /// Sizes of the files.
        mix: Sizes,
        /// Pause of a client between two fetches.
        think: Times,
        /// The numbers of the chunks that clients fetch in place of files; each chunk is one datagram.
        chunks: Option<Arc<Distribution>>,
        /// The endpoints; the congestion control is the server's.
        options: TcpOptions,
    },
}

/// The kind of traffic, without the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// TCP connections.
    Tcp,
    /// UDP.
    Udp,
    /// Web fetches.
    Web,
}

/// One flow (or web client), as both habitats start it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Start time; a flow that starts after the end of the run never runs.
    pub start: Span,
    /// Bytes to transfer, if the flow has a size.
    pub size: Option<u64>,
}

impl Kind {
    /// The word in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Web => "web",
        }
    }
}

impl TrafficKind {
    /// The kind, without the details.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Tcp { .. } => Kind::Tcp,
            Self::Udp { .. } => Kind::Udp,
            Self::Web { .. } => Kind::Web,
        }
    }

    /// Flows, or web clients, of each pair of hosts.
    pub fn flows(&self) -> u32 {
        match self {
            Self::Tcp { flows, .. } | Self::Udp { flows, .. } => *flows,
            Self::Web { clients, .. } => *clients,
        }
    }

    /// Further hosts that receive a copy of each packet.
    pub fn copies_to(&self) -> &[String] {
        match self {
            Self::Udp { copies_to, .. } => copies_to,
            Self::Tcp { .. } | Self::Web { .. } => &[],
        }
    }

    /// Whether web clients fetch chunks.
    pub fn has_chunks(&self) -> bool {
        matches!(self, Self::Web { chunks, .. } if chunks.is_some())
    }

    /// The TCP endpoints, if the kind uses TCP.
    pub fn tcp_options(&self) -> Option<&TcpOptions> {
        match self {
            Self::Tcp { options, .. } | Self::Web { options, .. } => Some(options),
            Self::Udp { .. } => None,
        }
    }
}

/// The name of a flow, or client, of a flow group. Numbers go to the first flow of each pair of hosts, then to the
/// second.
pub(crate) fn flow_name(traffic: &str, number: usize) -> String {
    format!("{traffic}.{number}")
}

impl Traffic {
    /// Stop time in a run of this length.
    pub fn end(&self, duration: Span) -> Span {
        self.stop.unwrap_or(duration)
    }

    /// The host group that opens the connections: the sender, or the web's clients.
    pub fn opener(&self) -> &str {
        match self.kind {
            TrafficKind::Web { .. } => &self.to,
            _ => &self.from,
        }
    }

    /// All flows of a run with this seed, between `pairs` pairs of hosts: the first flow of each pair in order, then
    /// the second of each. They are the same in every habitat.
    pub fn flows(&self, pairs: u32, seed: u64) -> Vec<Flow> {
        let streams = Streams::new(seed).below("traffic").below(&self.name);
        let (mut starts, mut sizes) = (streams.stream("starts"), streams.stream("sizes"));
        let size = match &self.kind {
            TrafficKind::Tcp { size, .. } => size.as_ref(),
            _ => None,
        };
        let mut latest = self.start;
        let all = u64::from(self.kind.flows()) * u64::from(pairs);
        let flow = |_| {
            let start = match &self.starts {
                Starts::Spread(spread) if *spread == Span::ZERO => self.start,
                Starts::Spread(spread) => {
                    let place = starts.random::<f64>();
                    self.start + Span::from_secs_f64(place * spread.as_secs_f64())
                }
                Starts::Arrivals(gaps) => {
                    latest = latest + gaps.sample(&mut starts);
                    latest
                }
            };
            let size = size.map(|size| size.sample(&mut sizes));
            Flow { start, size }
        };
        (0..all).map(flow).collect()
    }

    pub(super) fn check(
        name: String,
        section: Section<'_>,
        (from, to): (String, String),
        pairs: u32,
        duration: Span,
    ) -> Result<Self, ConfigError> {
        let start = section.span(&START)?;
        let stop = section.optional_span(&STOP)?;
        if start >= duration || stop.is_some_and(|stop| stop <= start) {
            return Err(section.error(
                "start",
                "must be before `stop` and before the end of the run",
            ));
        }
        let spread = section.span(&SPREAD)?;
        let starts = match section.times(&ARRIVALS)? {
            Some(_) if spread > Span::ZERO => {
                return Err(
                    section.error("arrivals", "conflicts with `spread`; set only one of them")
                );
            }
            Some(gaps) => Starts::Arrivals(gaps),
            None => Starts::Spread(spread),
        };
        let traffic = Self {
            name,
            from,
            to,
            start,
            starts,
            stop: stop.filter(|stop| *stop < duration),
            ipv6: section.word(&IP)? == "v6",
            hog: section.flag(&HOG)?,
            kind: check_kind(&section, pairs)?,
        };
        let end = traffic.end(duration).as_secs_f64();
        if let TrafficKind::Tcp {
            offered: Some(offered),
            ..
        }
        | TrafficKind::Udp { offered, .. } = &traffic.kind
            && offered.bits_between(traffic.start.as_secs_f64(), end) <= 0.0
        {
            return Err(section.error("rate", "is 0 or less for the whole duration of the traffic"));
        }
        let all = u64::from(traffic.kind.flows()) * u64::from(pairs);
        if all > FLOWS_MAX {
            let key = match traffic.kind {
                TrafficKind::Web { .. } => CLIENTS.name,
                _ => FLOWS.name,
            };
            let why = format!(
                "makes {all} flows with {pairs} pairs of hosts; the maximum is {FLOWS_MAX}"
            );
            return Err(section.error(key, why));
        }
        section.finish(match traffic.kind {
            TrafficKind::Tcp { .. } => &[TRAFFIC, TCP, TCP_OPTIONS],
            TrafficKind::Udp { .. } => &[TRAFFIC, UDP],
            TrafficKind::Web { .. } => &[TRAFFIC, WEB, TCP_OPTIONS],
        })?;
        Ok(traffic)
    }
}

fn check_kind(section: &Section<'_>, pairs: u32) -> Result<TrafficKind, ConfigError> {
    if section.find(&KIND).is_none() {
        return Err(section.error("kind", "is missing; it must be tcp, udp or web"));
    }
    Ok(match section.word(&KIND)? {
        "tcp" => {
            let flows = section.count(&FLOWS)? as u32;
            let offered = check_offered(section, flows.saturating_mul(pairs))?;
            let activity = check_activity(section)?;
            if activity.is_some() && offered.is_none() {
                return Err(section.error("on", "requires a `rate`, the offered load while on"));
            }
            TrafficKind::Tcp {
                flows,
                size: section.sizes(&SIZE)?,
                offered,
                spacing: section.parsed(&SPACING)?,
                activity,
                options: TcpOptions::check(section)?,
            }
        }
        "udp" => {
            let flows = section.count(&FLOWS)? as u32;
            TrafficKind::Udp {
                flows,
                offered: check_offered(section, flows.saturating_mul(pairs))?.ok_or_else(|| {
                    section.error("rate", "is missing; set `rate` or `total_rate`")
                })?,
                activity: check_activity(section)?,
                payload: section.bytes(&PAYLOAD)?.0 as u32,
                spacing: section.parsed(&SPACING)?,
                addresses: section.count(&ADDRESSES)? as u32,
                copies_to: section.names(&COPIES_TO)?.unwrap_or_default(),
            }
        }
        _ => TrafficKind::Web {
            clients: section.count(&CLIENTS)? as u32,
            mix: section.sizes(&MIX)?.unwrap_or_else(Sizes::webstone),
            think: match section.times(&THINK)? {
                Some(think) => think,
                None => Times(Distribution::Fixed(0.0)),
            },
            chunks: check_chunks(section)?,
            options: TcpOptions::check(section)?,
        },
    })
}

/// The chunks of web clients, which all have the same size, and their popularity.
fn check_chunks(section: &Section<'_>) -> Result<Option<Arc<Distribution>>, ConfigError> {
    let popularity = section.ratio(&POPULARITY)?;
    let Some(number) = section.optional_count(&CHUNKS)? else {
        return match section.entry(POPULARITY.name) {
            Some(_) => Err(section.error(POPULARITY.name, "requires `chunks`")),
            None => Ok(None),
        };
    };
    let Some(Sizes(Distribution::Fixed(..=CHUNK_BYTES_MAX))) = section.sizes(&MIX)? else {
        let why = format!("must be one size of at most {CHUNK_BYTES_MAX} B with `chunks`");
        return Err(section.error(MIX.name, why));
    };
    let weights = (1..=number).map(|n| n as f64);
    let weights = weights.map(|n| (n, n.powf(-popularity)));
    Ok(Some(Arc::new(Distribution::Empirical(weights.collect()))))
}

fn check_activity(section: &Section<'_>) -> Result<Option<OnOff>, ConfigError> {
    match (section.times(&ON)?, section.times(&OFF)?) {
        (Some(on), Some(off)) => Ok(Some(OnOff { on, off })),
        (None, None) => Ok(None),
        (Some(_), None) => Err(section.error("on", "requires `off`")),
        (None, Some(_)) => Err(section.error("off", "requires `on`")),
    }
}

/// The offered rate: `rate` is for each flow, `total_rate` for all `flows` together.
fn check_offered(section: &Section<'_>, flows: u32) -> Result<Option<Offered>, ConfigError> {
    let read = |key: &'static Key| {
        let text = section.text(key)?;
        text.map(|t| {
            t.parse::<Offered>()
                .map_err(|e| section.error(key.name, format!("is {e}")))
        })
        .transpose()
    };
    match (read(&RATE)?, read(&TOTAL_RATE)?) {
        (Some(_), Some(_)) => {
            Err(section.error("total_rate", "conflicts with `rate`; set only one of them"))
        }
        (Some(each), None) => Ok(Some(each)),
        (None, Some(total)) => Ok(Some(total.shared_by(flows))),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;
    use crate::scenario::{Congestion, Scenario};

    const TEXT: &str = r#"
title = "t"
[router.r]
[host.a]
count = 2
[host.b]
count = 2
[link.a]
ends = ["a", "r"]
[link.b]
ends = ["r", "b"]
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "1 Mbit"
[traffic.web]
kind = "web"
from = "a"
to = "b"
"#;

    /// TEXT with lines added to a section.
    fn with(section: &str, lines: &str) -> Result<Scenario, String> {
        let head = format!("[{section}]\n");
        assert!(TEXT.contains(&head));
        let text = TEXT.replace(&head, &format!("{head}{lines}\n"));
        let read = plan(&text, &[], &[]).map(|(base, _)| base);
        read.map_err(|e| e.to_string())
    }

    fn refused(section: &str, lines: &str, expected: &str) {
        let error = with(section, lines).unwrap_err();
        let line = 1
            + TEXT
                .lines()
                .position(|l| l == format!("[{section}]"))
                .unwrap()
            + 1;
        let rest = error.strip_prefix(&format!("scenario:{line}:1: "));
        let rest = rest.unwrap_or_else(|| panic!("not on line {line}: {error}"));
        assert!(rest.contains(expected), "{lines}: {error}");
    }

    #[test]
    fn endpoints_have_the_defaults_of_the_tables() {
        let base = plan(TEXT, &[], &[]).unwrap().0;
        for traffic in [&base.traffic[0], &base.traffic[2]] {
            assert_eq!(traffic.kind.tcp_options(), Some(&TcpOptions::default()));
        }
        assert_eq!(base.traffic[1].kind.tcp_options(), None);
    }

    #[test]
    fn every_option_of_an_endpoint_can_be_set() {
        let lines = r#"
congestion = "newreno"
mss = "1000 B"
initial_window = "2 packets"
receive_window = "64 KiB"
min_rto = "1 s"
granularity = "0.1 ms"
initial_rto = "3 s"
ack_every = 1
delayed_ack = "200 ms"
byte_counting = false
ecn = true
timestamps = true
"#;
        let wanted = TcpOptions {
            congestion: Congestion::NewReno,
            mss: 1000,
            initial_window: 2,
            receive_window: 65_536,
            min_rto: Span::from_secs(1),
            granularity: Some(Span::from_micros(100)),
            initial_rto: Span::from_secs(3),
            ack_every: 1,
            delayed_ack: Span::from_millis(200),
            byte_counting: false,
            ecn: true,
            timestamps: true,
        };
        let scenario = with("traffic.long", lines).unwrap();
        assert_eq!(scenario.traffic[0].kind.tcp_options(), Some(&wanted));
        let scenario = with("traffic.web", lines).unwrap();
        assert_eq!(scenario.traffic[2].kind.tcp_options(), Some(&wanted));
    }

    #[test]
    fn every_key_of_traffic_can_be_set() {
        let lines = r#"
flows = 3
size = "pareto 1.5 26 MB to 2 GB"
rate = "2 Mbit"
spacing = "jittered 0.1"
on = "pareto 1.5 0.5 s"
off = "0.5 s"
spread = "1 s"
"#;
        let scenario = with("traffic.long", lines).unwrap();
        let long = &scenario.traffic[0];
        assert_eq!(long.starts, Starts::Spread(Span::from_secs(1)));
        let activity = OnOff {
            on: "pareto 1.5 0.5 s".parse().unwrap(),
            off: "0.5 s".parse().unwrap(),
        };
        let wanted = TrafficKind::Tcp {
            flows: 3,
            size: Some("pareto 1.5 26 MB to 2 GB".parse().unwrap()),
            offered: Some("2 Mbit".parse().unwrap()),
            spacing: Spacing::Jittered(0.1),
            activity: Some(activity.clone()),
            options: TcpOptions::default(),
        };
        assert_eq!(long.kind, wanted);
        let lines = r#"
payload = "972 B"
spacing = "poisson"
on = "pareto 1.5 0.5 s"
off = "0.5 s"
arrivals = "exponential 1 s"
"#;
        let scenario = with("traffic.flood", lines).unwrap();
        let flood = &scenario.traffic[1];
        let gaps = "exponential 1 s".parse().unwrap();
        assert_eq!(flood.starts, Starts::Arrivals(gaps));
        let wanted = TrafficKind::Udp {
            flows: 1,
            offered: "1 Mbit".parse().unwrap(),
            activity: Some(activity),
            payload: 972,
            spacing: Spacing::Poisson,
            addresses: 1,
            copies_to: Vec::new(),
        };
        assert_eq!(flood.kind, wanted);
        let lines = "mix = \"exponential 20 kB\"\nthink = \"exponential 1 s\"\nclients = 4";
        let scenario = with("traffic.web", lines).unwrap();
        let wanted = TrafficKind::Web {
            clients: 4,
            mix: "exponential 20 kB".parse().unwrap(),
            think: "exponential 1 s".parse().unwrap(),
            chunks: None,
            options: TcpOptions::default(),
        };
        assert_eq!(scenario.traffic[2].kind, wanted);
    }

    #[test]
    fn web_clients_may_fetch_chunks_of_one_size() {
        let lines = "mix = \"1000 B\"\nchunks = 3\npopularity = 2";
        let scenario = with("traffic.web", lines).unwrap();
        let TrafficKind::Web { chunks, .. } = &scenario.traffic[2].kind else {
            panic!("web")
        };
        let weights = vec![(1.0, 1.0), (2.0, 1.0 / 4.0), (3.0, 1.0 / 9.0)];
        let expected = Distribution::Empirical(weights);
        assert_eq!(chunks.as_deref(), Some(&expected));
        for lines in ["chunks = 3", "chunks = 3\nmix = \"1401 B\""] {
            let error = with("traffic.web", lines).unwrap_err();
            let expected = "`traffic.web.mix` must be one size of at most 1400 B with `chunks`";
            assert!(error.contains(expected), "{error}");
        }
        refused("traffic.web", "popularity = 1", "requires `chunks`");
        refused("traffic.web", "chunks = 10001", "from 1 to 10000");
    }

    #[test]
    fn a_traffic_may_be_the_attack() {
        let scenario = with("traffic.flood", "hog = true").unwrap();
        let hogs: Vec<bool> = scenario.traffic.iter().map(|t| t.hog).collect();
        assert_eq!(hogs, [false, true, false]);
        refused("traffic.flood", "hog = 1", "true or false");
    }

    #[test]
    fn what_is_out_of_range_is_refused_on_its_line() {
        for (lines, expected) in [
            ("mss = \"87 B\"", "from \"88 B\" to \"8960 B\""),
            ("initial_window = 0", "from 1 to 1000"),
            ("receive_window = \"1 kB\"", "at least one segment, 1460 B"),
            ("min_rto = \"0 s\"", "from \"1 ms\" to \"60 s\""),
            ("initial_rto = \"2 min\"", "from \"1 ms\" to \"60 s\""),
            ("ack_every = 65", "from 1 to 64"),
            ("delayed_ack = \"2 s\"", "from \"0 s\" to \"1 s\""),
            ("ecn = 1", "true or false"),
            ("congestion = \"reno\"", "one of cubic, sack, newreno, bbr"),
            ("size = \"0 B\"", "from \"1 B\" to"),
            ("size = \"exponential 1 s\"", "\"exponential 20 kB\""),
            ("arrivals = \"exponential 2 d\"", "\"exponential 0.2 s\""),
            ("spread = \"1 h\"", "a time from \"0 s\""),
            ("spacing = \"jittered 2\"", "from 0 to 1"),
            (
                "flows = 600_000",
                "makes 1200000 flows with 2 pairs of hosts",
            ),
        ] {
            refused("traffic.long", lines, expected);
        }
    }

    #[test]
    fn what_excludes_or_needs_each_other_is_told() {
        let both = "arrivals = \"1 s\"\nspread = \"1 s\"";
        refused(
            "traffic.long",
            both,
            "conflicts with `spread`; set only one of them",
        );
        refused("traffic.long", "on = \"1 s\"", "requires `off`");
        let greedy = "on = \"1 s\"\noff = \"1 s\"";
        refused("traffic.long", greedy, "requires a `rate`");
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        for (section, slip, near) in [
            ("traffic.long", "initial_rtt = \"1 s\"", "initial_rto"),
            ("traffic.long", "spaceing = \"even\"", "spacing"),
            ("traffic.web", "tink = \"1 s\"", "think"),
            ("traffic.flood", "arivals = \"1 s\"", "arrivals"),
            ("link.a", "framming = \"2 B\"", "framing"),
        ] {
            refused(section, slip, &format!("did you mean `{near}`?"));
        }
        // Keys of another kind are unknown keys too.
        refused("traffic.flood", "mss = \"1000 B\"", "unknown key `mss`");
    }

    #[test]
    fn links_and_the_top_have_new_keys_too() {
        let text = TEXT.replace(
            "title = \"t\"",
            "title = \"t\"\nsample = \"100 ms\"\nwatch = [\"b\"]",
        );
        let scenario = plan(&text, &[], &[]).unwrap().0;
        assert_eq!(scenario.sample, Span::from_millis(100));
        let watched: Vec<_> = scenario.watched().map(|l| l.name.as_str()).collect();
        assert_eq!(watched, ["b"]);
        let wrong = plan(&text.replace("[\"b\"]", "[\"c\"]"), &[], &[]).unwrap_err();
        let expected = "scenario:4:1: `watch` names the unknown link \"c\"\n";
        assert!(wrong.to_string().starts_with(expected), "{wrong}");
        let scenario = with("link.a", "framing = \"2 B\"").unwrap();
        assert_eq!(
            (scenario.links[0].framing, scenario.links[1].framing),
            (weir_base::Framing::bytes(2), weir_base::Framing::bytes(38))
        );
        refused("link.a", "framing = \"101 B\"", "from \"0 B\" to \"100 B\"");
        refused(
            "link.a",
            "framing = \"pppoe-ptn\"",
            "did you mean `pppoe-ptm`?",
        );
        refused(
            "link.a",
            "framing = \"docsis ethernet\"",
            "mutually exclusive",
        );
        let scenario = with("link.a", "framing = \"pppoe-ptm\"").unwrap();
        assert_eq!(scenario.links[0].framing.wire_bytes(1500), 1554);
    }

    #[test]
    fn flows_start_one_after_another_over_all_hosts() {
        let lines = "flows = 2\nstart = \"5 s\"\narrivals = \"2 s\"\nsize = \"20 kB\"";
        let scenario = with("traffic.long", lines).unwrap();
        let flows = scenario.traffic[0].flows(2, 7);
        let starts: Vec<_> = flows.iter().map(|f| f.start.as_secs_f64()).collect();
        assert_eq!(starts, [7.0, 9.0, 11.0, 13.0]);
        assert!(flows.iter().all(|f| f.size == Some(20_000)));
        let lines = "flows = 2\nstart = \"5 s\"\nspread = \"2 s\"\nsize = \"exponential 20 kB\"";
        let traffic = with("traffic.long", lines).unwrap().traffic.remove(0);
        let flows = traffic.flows(2, 7);
        let inside = |f: &Flow| (5.0..7.0).contains(&f.start.as_secs_f64());
        assert!(flows.iter().all(inside), "{flows:?}");
        assert_eq!(flows, traffic.flows(2, 7));
        assert_ne!(flows, traffic.flows(2, 8));
    }
}
