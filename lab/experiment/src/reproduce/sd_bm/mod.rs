//! Chang et al., "Software Defined Backpressure Mechanism for Edge Router": claims that need their own arithmetic.
//!
//! - [`arithmetic`]: Table I and Figure 5
//! - [`queues`]: Figures 1 and 8
//! - [`sizes`]: Figure 9
//! - [`words`]: the text

mod arithmetic;
mod queues;
mod sizes;
mod words;

use super::recipe::Checks;

pub(super) const CHECKS: &[&Checks] = &[
    arithmetic::CHECKS,
    queues::CHECKS,
    sizes::CHECKS,
    words::CHECKS,
];

/// RED, and RS-RED by threshold, at a load of twice the WAN link's rate.
const TABLES: &str = "sd-bm/tables";

/// The ingress devices' queues.
const INGRESSES: [&str; 4] = ["n4", "n5", "n6", "n7"];
