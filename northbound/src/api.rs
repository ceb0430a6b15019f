//! The interface as data: every path with its method, what it takes and what it answers. The page of the
//! interface is made from it, and the service's tests look that it has every route.

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use weir_model::ChangeRequest;
use weir_model::capture::{CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::report::{
    AdmissionReport, ApplyReport, BypassReport, DropReport, FlowQuery, HogQuery, HogReport,
    NeighbourReport, PortReport, QueueReport, RouteReport, StatusReport,
};

/// One thing that can be asked.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// `GET`, `PUT`, ..
    pub method: &'static str,
    /// As the service has it: `/v1/capture/{id}`.
    pub path: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What may stand behind the `?`.
    pub query: Option<Shape>,
    /// What is sent.
    pub body: Content,
    /// What is answered with status 200.
    pub answer: Content,
    /// Other statuses than 200 and those of [`ERRORS`], and when.
    pub statuses: &'static [(u16, &'static str)],
}

/// What a request or an answer carries.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Nothing.
    Nothing,
    /// One value as JSON.
    One(Shape),
    /// A list of values as JSON.
    List(Shape),
    /// Something else than JSON, in words.
    Other(&'static str),
}

/// A type of [`weir_model`].
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// An example as JSON.
    pub example: &'static str,
    schema: fn() -> schemars::Schema,
    reads: fn(&str) -> Result<(), serde_json::Error>,
}

impl Shape {
    const fn of<T: JsonSchema + DeserializeOwned>(
        name: &'static str,
        example: &'static str,
    ) -> Self {
        Self {
            name,
            example,
            schema: || schema_for!(T),
            reads: |text| serde_json::from_str::<T>(text).map(|_| ()),
        }
    }

    /// Its JSON Schema.
    pub fn schema(&self) -> serde_json::Value {
        (self.schema)().to_value()
    }

    /// Whether the type reads its own example.
    pub fn check_example(&self) -> Result<(), serde_json::Error> {
        (self.reads)(self.example)
    }
}

/// Statuses that every path may answer, with a sentence as text.
pub const ERRORS: &[(u16, &str)] = &[
    (
        400,
        "the query or the body is not of the form that the path takes",
    ),
    (404, "there is no such path"),
    (405, "the path has other methods"),
    (
        413,
        "the body is longer than 1 MiB, or has more than 256 changes",
    ),
    (503, "the forwarding thread does not answer"),
];

const PORT: &str = r#"{"port": "wan", "interface": "eth1", "up": true, "carrier": true, "rate_bps": 95000000, "discipline": "fq_codel",
 "received": {"packets": 7870, "bytes": 521900}, "sent": {"packets": 14985, "bytes": 22700000},
 "charged": {"packets": 1, "bytes": 42}, "missed": 0, "refused": 0,
 "local_dropped": {"packets": 0, "bytes": 0}}"#;
const BYPASS: &str = r#"{"family": "inet", "table": "filter", "chain": "forward", "hook": "forward", "has_rules": true,
 "policy_drop": true, "at_start": false}"#;
const STATUS: &str = r#"{"version": "0.1.0", "pid": 2658, "mode": "routed", "socket": "/run/weir/weir.sock",
 "uptime_s": 7.25, "ports": 2, "pool_packets": 24784}"#;
const QUEUE: &str = r#"{"port": "wan", "discipline": "fq_codel",
 "parameters": {"limit": 10240, "target_s": 0.005, "quantum_bytes": 1514, "ecn": true},
 "received": {"packets": 9000, "bytes": 13000000}, "sent": {"packets": 8900, "bytes": 12900000},
 "dropped": {"packets": 60, "bytes": 90000}, "marked": {"packets": 0, "bytes": 0},
 "backlog": {"packets": 40, "bytes": 60000}, "gauges": {"new_flows": 736}}"#;
const HOG: &str = r#"{"port": "wan", "flow": "10.0.0.2:40000 > 10.0.1.2:5001 udp", "source": "10.0.0.2", "source_port": 40000,
 "destination": "10.0.1.2", "destination_port": 5001, "protocol": 17, "key": "flow", "standing": "hog",
 "rate_bps": 149000000, "link_share_ratio": 1.57, "threshold_packets": null, "threshold_bps": null,
 "threshold_share_ratio": 0.05, "seen": {"packets": 52000, "bytes": 78000000}, "dropped_packets": 31000,
 "known_s": 4.2, "silent_s": 0.0001}"#;
const FLOW: &str = r#"{"port": "wan", "flow": "10.0.0.2:40000 > 10.0.1.2:80 tcp", "source": "10.0.0.2", "source_port": 40000,
 "destination": "10.0.1.2", "destination_port": 80, "protocol": 6, "standing": "waiting", "class": null,
 "acceptance_delay_s": 1.4, "rate_bps": 0, "seen": {"packets": 3, "bytes": 222}, "known_s": 1.4, "silent_s": 0.4}"#;
const ROUTE: &str = r#"{"prefix": "0.0.0.0/0", "action": "forward", "metric": 100,
 "next_hops": [{"gateway": "192.0.2.1", "interface": "eth1", "weight": 1}]}"#;
const NEIGHBOUR: &str =
    r#"{"address": "192.0.2.1", "interface": "eth1", "mac": "02:00:00:00:00:01", "waiting": 0}"#;
const DROP: &str =
    r#"{"reason": "queue-full", "loss": true, "count": {"packets": 60, "bytes": 90000}}"#;
const APPLIED: &str = r#"{"applied": true, "messages": ["~ port.wan.rate: 95 Mbit -> 50 Mbit"]}"#;
const CHANGE: &str = r#"{"path": "port.wan.rate", "value": "50 Mbit"}"#;
const CAPTURE: &str =
    r#"{"ports": ["wan"], "drops": true, "snap": 96, "packets": 10000, "seconds": 10.0}"#;

/// The statuses of a change.
const REFUSED: &[(u16, &str)] = &[(
    422,
    "refused, and nothing has changed: the same value, with `applied` false and why",
)];
/// The statuses of a capture that exists, or not.
const OF_CAPTURE: &[(u16, &str)] = &[(
    404,
    "there is no such capture; one that is not fetched for a while ends",
)];

const fn list(
    path: &'static str,
    about: &'static str,
    query: Option<Shape>,
    of: Shape,
) -> Endpoint {
    Endpoint {
        method: "GET",
        path,
        about,
        query,
        body: Content::Nothing,
        answer: Content::List(of),
        statuses: &[],
    }
}

/// Everything that can be asked.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        method: "GET",
        path: "/v1/status",
        about: "the router itself",
        query: None,
        body: Content::Nothing,
        answer: Content::One(Shape::of::<StatusReport>("StatusReport", STATUS)),
        statuses: &[],
    },
    list(
        "/v1/ports",
        "the ports and their links",
        None,
        Shape::of::<PortReport>("PortReport", PORT),
    ),
    list(
        "/v1/queues",
        "the queue discipline of each port",
        None,
        Shape::of::<QueueReport>("QueueReport", QUEUE),
    ),
    list(
        "/v1/hogs",
        "flows that a discipline knows by identity (`lru_fq`), the fastest first",
        Some(Shape::of::<HogQuery>(
            "HogQuery",
            r#"{"all": true, "limit": 200}"#,
        )),
        Shape::of::<HogReport>("HogReport", HOG),
    ),
    list(
        "/v1/flows",
        "flows that an admission control (`fan`) accepted, lets wait or blocks",
        Some(Shape::of::<FlowQuery>("FlowQuery", r#"{"limit": 200}"#)),
        Shape::of::<AdmissionReport>("AdmissionReport", FLOW),
    ),
    list(
        "/v1/routes",
        "the routes in force",
        None,
        Shape::of::<RouteReport>("RouteReport", ROUTE),
    ),
    list(
        "/v1/neighbours",
        "the neighbours, and the packets that wait for them",
        None,
        Shape::of::<NeighbourReport>("NeighbourReport", NEIGHBOUR),
    ),
    list(
        "/v1/drops",
        "dropped packets, by reason, most first",
        None,
        Shape::of::<DropReport>("DropReport", DROP),
    ),
    list(
        "/v1/netfilter",
        "chains of this machine's netfilter rules that transit bypasses",
        None,
        Shape::of::<BypassReport>("BypassReport", BYPASS),
    ),
    Endpoint {
        method: "GET",
        path: "/v1/config",
        about: "the configuration in force, every default spelt out",
        query: None,
        body: Content::Nothing,
        answer: Content::Other(
            "JSON: an object of path and value of each component, both as a configuration writes them: `{\"port.wan.rate\": \"95 Mbit\", ..}`",
        ),
        statuses: &[],
    },
    Endpoint {
        method: "PUT",
        path: "/v1/config",
        about: "puts a whole configuration in force, without losing a packet, or changes nothing and says why",
        query: None,
        body: Content::Other("a configuration file as text"),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "PATCH",
        path: "/v1/config",
        about: "changes single components, all of them or none; disciplines keep their state, and a value that is set again is a change too (a sign of life)",
        query: None,
        body: Content::List(Shape::of::<ChangeRequest>("ChangeRequest", CHANGE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/capture",
        about: "begins a capture of what passes or is dropped at the ports",
        query: None,
        body: Content::One(Shape::of::<CaptureRequest>("CaptureRequest", CAPTURE)),
        answer: Content::One(Shape::of::<CaptureTicket>("CaptureTicket", r#"{"id": 1}"#)),
        statuses: &[
            (409, "another capture runs"),
            (422, "a value of the request is wrong"),
        ],
    },
    Endpoint {
        method: "GET",
        path: "/v1/capture/{id}",
        about: "what is new of a capture, from where the last answer ended",
        query: None,
        body: Content::Nothing,
        answer: Content::Other(
            "a part of a pcapng file; status 204 and nothing after the last of it",
        ),
        statuses: OF_CAPTURE,
    },
    Endpoint {
        method: "DELETE",
        path: "/v1/capture/{id}",
        about: "ends a capture",
        query: None,
        body: Content::Nothing,
        answer: Content::One(Shape::of::<CaptureReport>(
            "CaptureReport",
            r#"{"captured": 120, "missed": 0}"#,
        )),
        statuses: OF_CAPTURE,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_of_its_type() {
        for endpoint in ENDPOINTS {
            let contents = [endpoint.body, endpoint.answer]
                .into_iter()
                .filter_map(|c| match c {
                    Content::One(shape) | Content::List(shape) => Some(shape),
                    _ => None,
                });
            for shape in contents.chain(endpoint.query) {
                let checked = shape.check_example();
                assert!(checked.is_ok(), "{}: {checked:?}", shape.name);
            }
        }
    }

    #[test]
    fn every_route_is_described() {
        let mut described: Vec<_> = ENDPOINTS.iter().map(|endpoint| endpoint.path).collect();
        described.dedup();
        let served: Vec<_> = crate::server::routes()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        assert_eq!(described, served);
    }
}
