//! Which packets a capture or an observer wants, as it is written; a request to observe drops, and what is observed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::setting::{did_you_mean, nearest};

/// Most events of the past that a request may ask for.
pub const LAST_MAX: u32 = 4096;
/// Longest time of a request, if it gives one.
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

/// Asks what is dropped, as it is dropped. In a query, a field with several values is repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObserveRequest {
    /// Names of the router's ports; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub port: Vec<String>,
    /// The packets.
    #[serde(flatten)]
    pub filter: PacketFilter,
    /// Begin with this many events of the past, at most 4096.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Whether to go on with new events; if not given: unless `last` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follow: Option<bool>,
    /// The answer ends after this many seconds, and the time that it takes to add up the last drops.
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
                        let own = ["port", "last", "follow", "seconds"];
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

    /// Whether its numbers are within their ranges; whether the ports exist and what the filter says is not checked.
    pub fn check(&self) -> Result<(), String> {
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
        for name in PacketFilter::FIELDS {
            let values = filter.field(name).map(std::mem::take).unwrap_or_default();
            query.extend(values.into_iter().map(|value| (name, value)));
        }
        query.extend(self.last.map(|last| ("last", last.to_string())));
        query.extend(self.follow.map(|follow| ("follow", follow.to_string())));
        query.extend(self.seconds.map(|seconds| ("seconds", seconds.to_string())));
        query
    }

    /// Whether new events are wanted.
    pub fn follows(&self) -> bool {
        self.follow.unwrap_or(self.last.is_none())
    }
}

/// Packets that were dropped for one reason within a quarter of a second: those of one flow, or all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// When the first of them was dropped, in seconds since 1970.
    pub unix_s: f64,
    /// Time from the first to the last of them.
    pub over_s: f64,
    /// The drop reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// The flow; null for the packets of all flows beyond those that the router tells apart.
    pub flow: Option<ObservedFlow>,
}

/// A flow whose packets were dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservedFlow {
    /// Name of the port that held them, or by which they came; null if it is gone.
    pub port: Option<String>,
    /// `out` if they should have left by that port, `in` if they came by it.
    pub direction: String,
    /// The flow in one line.
    pub text: String,
    /// Source address; null if there is none.
    pub source: Option<String>,
    /// Source port; null if the packets have none.
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: Option<String>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// IP protocol number; null if they are not IP.
    pub protocol: Option<u8>,
    /// Length of the first frame.
    pub frame_bytes: u32,
    /// The longest time that one of them had waited in the router.
    pub waited_s: f64,
}

/// Events that an observer has not fetched before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObserveReport {
    /// The events, the oldest first.
    pub events: Vec<Observed>,
    /// Events that were lost, because they were not fetched in time.
    pub lost: u64,
    /// Whether there will be no more.
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
            (("follow", "yes"), "true or false"),
            (("seconds", "0"), "from 0.001"),
            (("seconds", "NaN"), "from 0.001"),
        ] {
            let error = query(&[pair]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
