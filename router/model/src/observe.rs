//! The written form of a packet filter for captures and observers; requests to observe drops and backlogged flows; and
//! the observed events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::setting::{did_you_mean, nearest};

/// Maximum number of past events in a request.
pub const LAST_MAX: u32 = 4096;
/// The event: packets were dropped.
pub const DROP: &str = "drop";
/// The event: a flow or a host starts or stops being backlogged in a queue.
pub const HELD_BACK: &str = "held-back";
/// All events.
pub const EVENTS: [&str; 2] = [DROP, HELD_BACK];
/// Maximum duration of a request that limits its time.
pub const SECONDS_MAX: f64 = 86_400.0;

/// Selects packets. Values of one field are alternatives; every field that has values must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PacketFilter {
    /// Addresses or prefixes of either end: 192.0.2.7, 2001:db8::/32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<String>,
    /// Addresses or prefixes of the source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src: Vec<String>,
    /// Addresses or prefixes of the destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst: Vec<String>,
    /// Protocols: tcp, udp, icmp (both versions), .., or a number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proto: Vec<String>,
    /// Port numbers of either end: 53, 5000-5999.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub port_number: Vec<String>,
    /// Drop reasons: queue-full.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reason: Vec<String>,
}

impl PacketFilter {
    /// Names of the fields.
    const FIELDS: [&str; 6] = ["host", "src", "dst", "proto", "port_number", "reason"];

    /// The values of a field.
    fn field(&mut self, name: &str) -> Option<&mut Vec<String>> {
        Some(match name {
            "host" => &mut self.host,
            "src" => &mut self.src,
            "dst" => &mut self.dst,
            "proto" => &mut self.proto,
            "port_number" => &mut self.port_number,
            "reason" => &mut self.reason,
            _ => return None,
        })
    }
}

/// Requests events of dropped packets and backlogged flows as they occur. In a query, repeat a field to give it several
/// values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObserveRequest {
    /// Names of ports; empty: all ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub port: Vec<String>,
    /// Events: `drop`, `held-back`; empty: all events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<String>,
    /// The packets.
    #[serde(flatten)]
    pub filter: PacketFilter,
    /// Number of past events to return first, at most 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Whether to continue with new events; by default true, unless `last` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    /// Duration of the answer in seconds; the last drops are reported slightly later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl ObserveRequest {
    /// Reads the names and values of a query.
    pub fn from_query(query: &[(String, String)]) -> Result<Self, String> {
        let mut request = Self::default();
        for (name, value) in query {
            let wrong = |what: &str| format!("`{name}` is \"{value}\", but must be {what}");
            match name.as_str() {
                "port" => request.port.push(value.clone()),
                "event" => request.event.push(value.clone()),
                "last" => {
                    let last = value.parse();
                    request.last = Some(last.map_err(|_| wrong("a number from 0 to 4096"))?);
                }
                "follow" => {
                    let follow = value.parse();
                    request.follow = Some(follow.map_err(|_| wrong("true or false"))?);
                }
                "seconds" => {
                    let seconds = value.parse();
                    let seconds = seconds.map_err(|_| wrong("a number of seconds"))?;
                    request.seconds = Some(seconds);
                }
                other => match request.filter.field(other) {
                    Some(values) => values.push(value.clone()),
                    None => {
                        let own = ["port", "event", "last", "follow", "seconds"];
                        let known = own.into_iter().chain(PacketFilter::FIELDS);
                        let near = did_you_mean(nearest(other, known));
                        return Err(format!("there is no field `{other}`{near}"));
                    }
                },
            }
        }
        request.check()?;
        Ok(request)
    }

    /// Checks the events and the ranges of the numbers, but neither whether the ports exist nor the filter.
    pub fn check(&self) -> Result<(), String> {
        for event in &self.event {
            if !EVENTS.contains(&event.as_str()) {
                let near = did_you_mean(nearest(event, EVENTS.into_iter()));
                let all = EVENTS.join(" or ");
                return Err(format!("`event` is \"{event}\", but must be {all}{near}"));
            }
        }
        if !self.wants(DROP) && !self.filter.reason.is_empty() {
            let why = "packets of the event held-back are not dropped, so they have no drop reason";
            return Err(format!("`reason`: {why}; leave out `reason` or `event`"));
        }
        if let Some(last) = self.last.filter(|last| *last > LAST_MAX) {
            return Err(format!("`last` is {last}, but must be at most {LAST_MAX}"));
        }
        if let Some(seconds) = self.seconds
            && !(0.001..=SECONDS_MAX).contains(&seconds)
        {
            return Err(format!(
                "`seconds` is {seconds}, but must be a number from 0.001 to {SECONDS_MAX}"
            ));
        }
        Ok(())
    }

    /// The same as names and values of a query.
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let mut filter = self.filter.clone();
        let mut query: Vec<_> = self
            .port
            .iter()
            .map(|port| ("port", port.clone()))
            .collect();
        let events = self.event.iter();
        query.extend(events.map(|event| ("event", event.clone())));
        for name in PacketFilter::FIELDS {
            let values = filter.field(name).map(std::mem::take).unwrap_or_default();
            query.extend(values.into_iter().map(|value| (name, value)));
        }
        query.extend(self.last.map(|last| ("last", last.to_string())));
        query.extend(self.follow.map(|follow| ("follow", follow.to_string())));
        query.extend(self.seconds.map(|seconds| ("seconds", seconds.to_string())));
        query
    }

    /// Whether the request includes events of this name.
    pub fn wants(&self, event: &str) -> bool {
        self.event.is_empty() || self.event.iter().any(|name| name == event)
    }

    /// Whether the request includes new events.
    pub fn follows(&self) -> bool {
        self.follow.unwrap_or(self.last.is_none())
    }
}

/// An event: packets dropped for one reason within 250 ms, of one flow or of all remaining flows; or a flow or host
/// whose packets start or stop being backlogged in a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// `drop` or `held-back`.
    pub event: String,
    /// Time of the first drop, or when the router saw the backlog begin or end; in seconds since 1970.
    pub unix_s: f64,
    /// Time from the first to the last drop, or duration of the backlog.
    pub over_s: f64,
    /// Drop reason; null for `held-back`.
    pub reason: Option<String>,
    /// Number of packets dropped, or in the queue.
    pub packets: u64,
    /// Bytes of the frames of these packets.
    pub bytes: u64,
    /// The flow; null for the sum of all flows that are not reported individually.
    pub flow: Option<ObservedFlow>,
    /// `begins` or `ends`; only for `held-back`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Approximate number of backlogged flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Share of the link that these flows get while others wait too; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_share_ratio: Option<f64>,
    /// Why the packets wait, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A flow whose packets were dropped or are backlogged; or a host, if the packets belong to several flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservedFlow {
    /// Name of the port that queued or received the packets; null if the port no longer exists.
    pub port: Option<String>,
    /// `out` if the packets were to leave through that port, `in` if they arrived there.
    pub direction: String,
    /// The flow in one line.
    pub text: String,
    /// Source address; null if there is none.
    pub source: Option<String>,
    /// Source port; null if the packets have none, or several.
    pub source_port: Option<u16>,
    /// Destination address; null if there are several.
    pub destination: Option<String>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// IP protocol number; null if the packets are not IP or belong to several flows.
    pub protocol: Option<u8>,
    /// Length of the first dropped frame; null for `held-back`.
    pub frame_bytes: Option<u32>,
    /// Longest time that one of the packets had waited in the router.
    pub waited_s: f64,
}

/// Events that an observer has not yet fetched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObserveReport {
    /// The events, the oldest first.
    pub events: Vec<Observed>,
    /// Events lost because the observer did not fetch them in time.
    pub lost: u64,
    /// Whether no more events will follow.
    pub done: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Result<ObserveRequest, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        ObserveRequest::from_query(&pairs.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_query_is_a_request_and_back() {
        let pairs = [
            ("port", "wan"),
            ("port", "lan"),
            ("event", "drop"),
            ("host", "10.0.0.0/8"),
            ("port_number", "53"),
            ("reason", "queue-full"),
            ("reason", "congestion"),
            ("last", "20"),
            ("follow", "true"),
            ("seconds", "1.5"),
        ];
        let request = query(&pairs).unwrap();
        assert_eq!(request.filter.reason, ["queue-full", "congestion"]);
        assert!(request.follows());
        assert_eq!(EVENTS.map(|event| request.wants(event)), [true, false]);
        let back = request.query();
        let back: Vec<_> = back
            .iter()
            .map(|(name, value)| (*name, &value[..]))
            .collect();
        assert_eq!(back, pairs);
        assert!(query(&[]).unwrap().follows());
        assert!(!query(&[("last", "3")]).unwrap().follows());
    }

    #[test]
    fn a_wrong_query_names_what_is_permitted() {
        for (pair, expected) in [
            (("hosts", "x"), "did you mean `host`?"),
            (("last", "5000"), "at most 4096"),
            (("last", "-1"), "a number from 0 to 4096"),
            (("event", "drops"), "did you mean `drop`?"),
            (("event", "flow"), "must be drop or held-back"),
            (("follow", "yes"), "true or false"),
            (("seconds", "0"), "from 0.001"),
            (("seconds", "NaN"), "from 0.001"),
        ] {
            let error = query(&[pair]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let error = query(&[("event", "held-back"), ("reason", "queue-full")]).unwrap_err();
        assert!(error.contains("leave out `reason` or `event`"), "{error}");
    }
}
