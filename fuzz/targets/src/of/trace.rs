//! Reads any text as a trace of a link's rate.
//!
//! Checks besides "no panic": time advances at every instant at which the trace is queried.

use weir_base::{Instant, Span};
use weir_experiment::scenario::trace::parse;

use crate::seeds::{files, text};

/// Number of instants at which a trace is queried.
const ASKED: usize = 64;

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let Some(text) = text(bytes) else {
        return;
    };
    match parse(text) {
        Ok(course) => {
            let mut now = Instant::ZERO;
            for _ in 0..ASKED {
                let (_, until) = course.piece(now);
                assert!(until > now);
                now = until.min(now + Span::from_secs(86_400));
            }
        }
        Err((line, why)) => assert!((1..=text.lines().count().max(1)).contains(&line), "{why}"),
    }
}

/// Both forms.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = files("scenarios", ".trace");
    all.push(b"0 20 Mbit\n0.5 4 Mbit # here\n2 outage\n".to_vec());
    all.push(b"1\n1\n4\n5\n5\n1000\n".to_vec());
    all
}
