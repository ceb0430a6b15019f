//! Services: operators' requests in terms of a network, as sequences of operations on LFBs of FEs.
//!
//! ```text
//!   queue   edge1, wan, 50 Mbit, sfq, limit 100   ->  settings of the port and its discipline; others: defaults
//!   filter  edge1, no_route, hop_limit, 1 Mbit    ->  flags of the LFB `redirect`, and its token bucket
//!   route   edge1, 10.0.0.0/8 via 192.0.2.1, wan  ->  rows of the tables of prefixes and of next hops
//! ```
//!
//! This module only converts requests, without access to the FEs: [`Control`](crate::Control) checks and executes the
//! resulting request, all or none. Source: the services of the control element (SAPI) in Zhuge et al., "Research on
//! Internal Flow Control Mechanism of ForCES Routers".

mod filter;
mod queue;
mod route;

use weir_model::{Operation, ServiceRequest};

use crate::contract::Request;

/// The name of an FE, and operations on its configuration.
type OfFe = (String, Vec<Operation>);

/// Converts a service request; each error names the FE that it concerns.
pub fn operations(service: &ServiceRequest) -> Result<Request, Vec<String>> {
    let operations = match service {
        ServiceRequest::Queue(queues) => each(queues, queue::operations),
        ServiceRequest::Filter(filters) => each(filters, filter::operations),
        ServiceRequest::Route(verb, requests) => return route::request(*verb, requests),
    };
    operations.map(Request::Change)
}

/// The operations of each part, or the errors of all parts.
fn each<P>(
    parts: &[P],
    convert: impl Fn(&P) -> Result<OfFe, String>,
) -> Result<Vec<OfFe>, Vec<String>> {
    let mut operations = Vec::new();
    let mut errors = Vec::new();
    for part in parts {
        match convert(part) {
            Ok(done) => operations.push(done),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() {
        Ok(operations)
    } else {
        Err(errors)
    }
}
