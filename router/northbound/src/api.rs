//! The interface as data: every path except the paths of tables, with its method, request and answer. The
//! documentation of the interface is generated from it, and a test checks that the service has every route. A table has
//! the path `/v1/NAME` of its class, and the class describes it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use weir_model::capture::{CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::certificate::{Invitation, InviteRequest, RenewRequest, RevokeRequest};
use weir_model::observe::{ObserveRequest, Observed};
use weir_model::watch::WatchRequest;
use weir_model::{
    ApplyReport, ChangeRequest, Class, DeleteRequest, FilterRequest, NetworkReport, PathReport,
    PathRequest, QueueRequest, RouteExplanation, RouteRequest,
};

/// One operation of the interface.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// `GET`, `PUT`, ..
    pub method: &'static str,
    /// The path in the service: `/v1/capture/{id}`.
    pub path: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Content of the request.
    pub body: Content,
    /// Content of the answer with status 200.
    pub answer: Content,
    /// Statuses other than 200 and [`ERRORS`], each with its condition.
    pub statuses: &'static [(u16, &'static str)],
}

/// Content of a request or an answer.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Nothing.
    Nothing,
    /// One value as JSON.
    One(Shape),
    /// A list of values as JSON.
    List(Shape),
    /// The fields of a value as query parameters, each as `name=value`; a field with several values is repeated.
    Query(Shape),
    /// Lines, each a value as JSON, sent as they arrive.
    Lines(Shape),
    /// Content other than JSON, described in words.
    Other(&'static str),
}

/// A type of [`weir_model`].
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Name of the type.
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
            schema: || {
                let settings = SchemaSettings::draft2020_12();
                let settings =
                    settings.with(|s| (s.inline_subschemas, s.meta_schema) = (true, None));
                settings.into_generator().into_root_schema_for::<T>()
            },
            reads: |text| serde_json::from_str::<T>(text).map(|_| ()),
        }
    }

    /// The JSON Schema of the type.
    pub fn schema(&self) -> serde_json::Value {
        (self.schema)().to_value()
    }

    /// Whether the example can be parsed as this type.
    pub fn check_example(&self) -> Result<(), serde_json::Error> {
        (self.reads)(self.example)
    }
}

/// Statuses that every path may return, with an explanation as plain text.
pub const ERRORS: &[(u16, &str)] = &[
    (
        400,
        "the query or the body does not have the form that the path expects",
    ),
    (404, "there is no such path"),
    (405, "the path does not support this method"),
    (
        413,
        "the body is longer than 1 MiB, or has more than 256 changes",
    ),
    (503, "the forwarding thread does not answer"),
];

const APPLIED: &str = r#"{"applied": true, "messages": ["~ port.wan.rate: 95 Mbit -> 50 Mbit"]}"#;
const WATCH: &str = r#"{"path": "edge1:port.wan.carrier_lost", "count": 2}"#;
const COMPONENT: &str = r#"{"path": "edge1:port.wan.rate", "value": "50 Mbit"}"#;
const OF_FE: &str = r#"{"path": "edge1:port.wan.rate"}"#;
const QUEUE: &str = r#"{"fe": "edge1", "port": "wan", "rate": "50 Mbit", "kind": "sfq", "parameters": {"limit": 500}}"#;
/// An example of routes.
const ROUTE: &str = r#"{"fes": ["edge1"], "routes": [{"prefix": "10.0.0.0/8", "via": "192.0.2.1", "port": "wan", "metric": 0}]}"#;
/// An example of an explanation.
const EXPLANATION: &str = r#"{"fe": "edge1", "destination": "10.0.0.0/8", "reachable": false, "reason": {"name": "no-carrier", "why": "port wan (eth1) has no carrier", "remedy": "Check the cable and the device at its other end."}, "steps": [{"at": "control element", "found": "10.0.0.0/8 via 192.0.2.1 dev wan metric 20, from an operator"}], "exits": []}"#;
/// An example of a request for a path.
const PATH: &str = r#"{"from": "c1", "to": "a", "destination": "198.51.100.0/24", "protocol": "udp", "lifetime": "1 h"}"#;
/// An example of a flow with its path.
const PATH_OF: &str = r#"{"path": "request-000007", "request": 7, "from": "c1", "to": "a", "packets": "destination=198.51.100.0/24 protocol=udp", "state": "active", "why": null, "routes": [{"vector": "0b0a", "cost": 2, "elements": ["c1", "b1", "a1"]}], "ends_s": 3600.0}"#;
/// An example of a network without paths.
const NETWORK: &str = r#"{"domains": [{"domain": "c", "elements": [{"element": "c1", "state": "works"}]}], "links": [{"link": "c-b", "ends": ["c1", "b1"], "lids": ["0b", "0c"], "state": "works", "failures": 0}], "paths": []}"#;
const FILTER: &str = r#"{"fe": "edge1", "redirect": ["no_route", "hop_limit"], "rate": "1 Mbit"}"#;
const CHANGE: &str = r#"{"path": "port.wan.rate", "value": "50 Mbit"}"#;
const DELETE: &str = r#"{"path": "port.guest"}"#;
const CAPTURE: &str = r#"{"ports": ["wan"], "drops": true, "filter": {"host": ["192.0.2.0/24"], "proto": ["udp"]}, "snap": 96, "packets": 10000, "seconds": 10.0}"#;

const INVITE: &str = r#"{"fe": "edge1", "minutes": 15}"#;
const INVITATION: &str =
    r#"{"token": "weir-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}"#;
const REVOKE: &str = r#"{"which": "edge1"}"#;
const RENEW: &str = r#"{"now": false}"#;

/// An example of a request to observe.
const OBSERVE: &str = r#"{"port": ["wan"], "host": ["192.0.2.0/24"], "reason": ["queue-full", "congestion"], "last": 100, "follow": true}"#;
/// An example of drops.
const OBSERVED: &str = r#"{"event": "drop", "unix_s": 1764081600.25, "over_s": 0.24, "reason": "queue-full", "packets": 120, "bytes": 181680, "flow": {"port": "wan", "direction": "out", "text": "192.0.2.7:5000 > 198.51.100.1:53 udp", "source": "192.0.2.7", "source_port": 5000, "destination": "198.51.100.1", "destination_port": 53, "protocol": 17, "frame_bytes": 1514, "waited_s": 0.012}}"#;

/// The statuses of a refused change.
const REFUSED: &[(u16, &str)] = &[(
    422,
    "refused, and nothing changed: the same object, with `applied` false and the reason",
)];
/// The statuses of a request for one capture, which may not exist.
const OF_CAPTURE: &[(u16, &str)] = &[(
    404,
    "unknown capture; a capture that is not fetched for a while ends",
)];

/// The status of a control element without a network.
const NO_NETWORK: &[(u16, &str)] = &[(404, "the control element has no network")];
/// The statuses of a request for a path.
const OF_PATH: &[(u16, &str)] = &[
    (404, "the control element has no network"),
    (
        422,
        "there is no such path, or the request is wrong: the reason, as plain text",
    ),
    (
        503,
        "an element is down, or the control element has just started; retry later",
    ),
];

/// The path of a table.
pub fn path_of(class: &Class) -> String {
    format!("/v1/{}", class.name)
}

/// Every operation except the reading of tables.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        method: "GET",
        path: "/",
        about: "the page of the router, for a browser",
        body: Content::Nothing,
        answer: Content::Other("HTML"),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/v1/openapi.json",
        about: "this interface as an OpenAPI document",
        body: Content::Nothing,
        answer: Content::Other("OpenAPI 3.1 as JSON"),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/metrics",
        about: "metrics for Prometheus; `weir list prometheus` lists all names",
        body: Content::Nothing,
        answer: Content::Other("the text format of Prometheus, version 0.0.4"),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/v1/live",
        about: "the tables `status`, `ports`, `queues`, `drops`, `waiting`, `talkers`, `history` and `drop_history` (of the last two, only the latest second) once a second, until the connection is closed; more readers do not increase the load of the forwarding thread",
        body: Content::Nothing,
        answer: Content::Other(
            "JSON lines (`application/x-ndjson`), each an object of tables by their names; an empty line if there is no \
             sample for five seconds; a slow reader misses some lines",
        ),
        statuses: &[(
            503,
            "too many readers are connected: 256 on the Unix socket, 32 on `page`",
        )],
    },
    Endpoint {
        method: "GET",
        path: "/v1/config",
        about: "the running configuration, with all defaults",
        body: Content::Nothing,
        answer: Content::Other(
            "JSON: an object with the path and value of each component, both written as in a configuration file: `{\"port.wan.rate\": \"95 Mbit\", ..}`",
        ),
        statuses: &[],
    },
    Endpoint {
        method: "PUT",
        path: "/v1/config",
        about: "applies a whole configuration without losing a packet, or changes nothing and returns the reason",
        body: Content::Other("a configuration file as text"),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "PATCH",
        path: "/v1/config",
        about: "changes single components, all of them or none; disciplines keep their state, and setting the same value again counts as a change (a keep-alive)",
        body: Content::List(Shape::of::<ChangeRequest>("ChangeRequest", CHANGE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "DELETE",
        path: "/v1/config",
        about: "deletes ports, and resets components to their defaults (a discipline: its kind and every parameter), all of them or none",
        body: Content::List(Shape::of::<DeleteRequest>("DeleteRequest", DELETE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/enable",
        about: "lets a forwarding element forward again after a control element has stopped it (AdminDisable), or after its time without a control element (CEFTI) has expired; a control element may stop it again",
        body: Content::Nothing,
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/capture",
        about: "starts a capture of packets that pass or are dropped at the ports",
        body: Content::One(Shape::of::<CaptureRequest>("CaptureRequest", CAPTURE)),
        answer: Content::One(Shape::of::<CaptureTicket>("CaptureTicket", r#"{"id": 1}"#)),
        statuses: &[
            (409, "another capture is running"),
            (422, "a value of the request is wrong"),
        ],
    },
    Endpoint {
        method: "GET",
        path: "/v1/capture/{id}",
        about: "the next part of a capture, after the previous answer",
        body: Content::Nothing,
        answer: Content::Other(
            "a part of a pcapng file; after the last part, status 204 without a body",
        ),
        statuses: OF_CAPTURE,
    },
    Endpoint {
        method: "DELETE",
        path: "/v1/capture/{id}",
        about: "ends a capture",
        body: Content::Nothing,
        answer: Content::One(Shape::of::<CaptureReport>(
            "CaptureReport",
            r#"{"captured": 120, "missed": 0}"#,
        )),
        statuses: OF_CAPTURE,
    },
    Endpoint {
        method: "GET",
        path: "/v1/observe",
        about: "drops and backlogged flows, as they happen: a line for each flow, reason and port in a quarter of a second, and a line when the backlog of a flow or host in a queue begins or ends; `{\"lost\": 3}` means that the reader was too slow for three lines, and an empty line that nothing has happened for a while",
        body: Content::Query(Shape::of::<ObserveRequest>("ObserveRequest", OBSERVE)),
        answer: Content::Lines(Shape::of::<Observed>("Observed", OBSERVED)),
        statuses: &[(
            503,
            "sixteen other observers are connected, or the forwarding thread does not answer",
        )],
    },
];

/// Every operation of a control element except the reading of its tables.
pub const CE_ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        method: "GET",
        path: "/",
        about: "the page of the network element, for a browser",
        body: Content::Nothing,
        answer: Content::Other("HTML"),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/v1/openapi.json",
        about: "this interface as an OpenAPI document",
        body: Content::Nothing,
        answer: Content::Other("OpenAPI 3.1 as JSON"),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/metrics",
        about: "metrics for Prometheus, of the CE's own tables; `weir list prometheus` lists all names",
        body: Content::Nothing,
        answer: Content::Other("the text format of Prometheus, version 0.0.4"),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/v1/component",
        about: "a component of an FE: `?path=edge1:port.wan.rate`; see `weir get` in docs/forces.md",
        body: Content::Nothing,
        answer: Content::Other("JSON: its value"),
        statuses: &[],
    },
    Endpoint {
        method: "PATCH",
        path: "/v1/component",
        about: "sets components of FEs, all of them or none; several FEs are one transaction. A disconnected FE receives them when it associates",
        body: Content::List(Shape::of::<ChangeRequest>("ChangeRequest", COMPONENT)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "DELETE",
        path: "/v1/component",
        about: "deletes rows and settings of FEs, all of them or none; a deleted setting returns to its default",
        body: Content::List(Shape::of::<DeleteRequest>("DeleteRequest", OF_FE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/service/queue",
        about: "sets rate and discipline of ports, at one FE or several, all of them or none; unnamed parameters are set to their defaults",
        body: Content::List(Shape::of::<QueueRequest>("QueueRequest", QUEUE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/service/filter",
        about: "selects the exceptions that FEs send to the control element, at one FE or several, all of them or none; FEs do not send unnamed kinds",
        body: Content::List(Shape::of::<FilterRequest>("FilterRequest", FILTER)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "GET",
        path: "/v1/service/route",
        about: "the desired routes of FEs; `?fe=NAME`: the routes of one FE",
        body: Content::Nothing,
        answer: Content::Other(
            "JSON: a list of `{\"fe\": \"edge1\", \"prefix\": \"10.0.0.0/8\", \"via\": \"192.0.2.1\", \"port\": \"wan\", \"metric\": 0, \"state\": \"installed\"}`; a route with several next hops has an entry for each, with its `weight`; a route that drops packets has `drops` (`blackhole`, `unreachable` or `prohibit`) and no port; the state is `installed`, `standby` (a route with a lower metric is installed), `waits` (for the FE, for the port, or the FE has refused it) or `unsupported` (by an FE of an older version)",
        ),
        statuses: &[],
    },
    Endpoint {
        method: "POST",
        path: "/v1/service/route",
        about: "adds routes, which must be new, to one FE or several, all of them or none; at most 262144 in a request",
        body: Content::List(Shape::of::<RouteRequest>("RouteRequest", ROUTE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "PUT",
        path: "/v1/service/route",
        about: "adds routes, or replaces the routes with the same prefix and metric",
        body: Content::List(Shape::of::<RouteRequest>("RouteRequest", ROUTE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "DELETE",
        path: "/v1/service/route",
        about: "deletes routes, which must exist; each is identified by its prefix and metric, and must have the given next hop and port",
        body: Content::List(Shape::of::<RouteRequest>("RouteRequest", ROUTE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "GET",
        path: "/v1/service/route/explain",
        about: "whether packets to `?to=PREFIX`, or to an address, leave the FEs, and if not, the first reason with its remedy; `&fe=NAME`: at one FE. [forces.md](forces.md#why-a-prefix-is-not-reachable) lists the reasons",
        body: Content::Nothing,
        answer: Content::List(Shape::of::<RouteExplanation>(
            "RouteExplanation",
            EXPLANATION,
        )),
        statuses: &[],
    },
    Endpoint {
        method: "GET",
        path: "/v1/service/path",
        about: "the flows with paths of flexible packet forwarding: from the network's file, and from requests",
        body: Content::Nothing,
        answer: Content::List(Shape::of::<PathReport>("PathReport", PATH_OF)),
        statuses: NO_NETWORK,
    },
    Endpoint {
        method: "POST",
        path: "/v1/service/path",
        about: "requests a path for a flow, with the keys of `[path.NAME]` in a network's file; the answer, a list with one entry, comes when the ingress element of the flow has the encapsulation. Repeating the request returns the same answer and renews its lifetime",
        body: Content::One(Shape::of::<PathRequest>("PathRequest", PATH)),
        answer: Content::List(Shape::of::<PathReport>("PathReport", PATH_OF)),
        statuses: OF_PATH,
    },
    Endpoint {
        method: "DELETE",
        path: "/v1/service/path/{id}",
        about: "ends a request for a path; IP then routes its packets",
        body: Content::Nothing,
        answer: Content::Other("JSON: null"),
        statuses: &[(
            404,
            "unknown request, or the control element has no network",
        )],
    },
    Endpoint {
        method: "GET",
        path: "/v1/service/network",
        about: "the network with flexible packet forwarding: its elements and links with their state, and its paths",
        body: Content::Nothing,
        answer: Content::One(Shape::of::<NetworkReport>("NetworkReport", NETWORK)),
        statuses: NO_NETWORK,
    },
    Endpoint {
        method: "POST",
        path: "/v1/certificate/invite",
        about: "creates a token with which an FE can enrol once; it replaces an earlier token of the FE",
        body: Content::One(Shape::of::<InviteRequest>("InviteRequest", INVITE)),
        answer: Content::One(Shape::of::<Invitation>("Invitation", INVITATION)),
        statuses: &[(
            422,
            "the control element has no `enrol` or no such FE, or the FE has no `certificate`",
        )],
    },
    Endpoint {
        method: "POST",
        path: "/v1/certificate/revoke",
        about: "revokes the certificates of an FE, or a certificate by its fingerprint, and ends the association of the FE",
        body: Content::One(Shape::of::<RevokeRequest>("RevokeRequest", REVOKE)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/certificate/renew",
        about: "makes the next certificate of the control element, which presents it when all FEs that have a certificate trust it, or at once if `now` is true",
        body: Content::One(Shape::of::<RenewRequest>("RenewRequest", RENEW)),
        answer: Content::One(Shape::of::<ApplyReport>("ApplyReport", APPLIED)),
        statuses: REFUSED,
    },
    Endpoint {
        method: "POST",
        path: "/v1/watch",
        about: "watches an event of an FE, or reads a component at intervals, until the connection is closed",
        body: Content::One(Shape::of::<WatchRequest>("WatchRequest", WATCH)),
        answer: Content::Other(
            "JSON lines (`application/x-ndjson`), one per notice; `{\"lost\": 3}` if a slow reader missed three \
             notices, `{\"error\": \"..\"}` if the component cannot be read now; an empty line at least every five \
             seconds",
        ),
        statuses: &[(503, "too many watches are open, or the FE does not answer")],
    },
    Endpoint {
        method: "ANY",
        path: "/v1/fe/{name}/{*rest}",
        about: "the interface of an FE itself, through the control element: `/v1/fe/edge1/v1/ports`",
        body: Content::Nothing,
        answer: Content::Other("the FE's answer; the control element stores changes"),
        statuses: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_of_its_type() {
        for endpoint in ENDPOINTS.iter().chain(CE_ENDPOINTS) {
            let contents = [endpoint.body, endpoint.answer]
                .into_iter()
                .filter_map(|c| match c {
                    Content::One(shape) | Content::List(shape) => Some(shape),
                    _ => None,
                });
            for shape in contents {
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

    #[test]
    fn every_route_of_a_control_element_is_described() {
        let mut described: Vec<_> = CE_ENDPOINTS.iter().map(|endpoint| endpoint.path).collect();
        described.dedup();
        let served = crate::ce::routes().map(|(path, _)| path);
        assert_eq!(described, served);
    }
}
