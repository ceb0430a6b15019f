//! Flow control of the packets that an FE redirects: the LFB `redirect` as a queue of a controller.
//!
//! ```text
//!   controller                     class redirect, instance 1
//!   committed (B_c / T_s)    --->  bc, bits in ts
//!   excess (B_e)             --->  be, bits in ts
//!   flow_control             --->  flow_control
//!   redirect_bytes           <---  stats.bytes
//!   received                 <---  stats + control
//! ```
//!
//! The controller uses rates; the LFB uses bits per T_s, as Zhuge et al. define them. Each change also sets T_s, so the
//! rates are right regardless of the FE's previous T_s.

use weir_base::setting::{Scalar, Setting};
use weir_base::{Rate, Span, Tally};
use weir_controller::{Role, Sample};
use weir_model::{Change, ComponentPath, Value};

/// Name of the class.
pub(super) const REDIRECT: &str = "redirect";
/// Name of the LFB among the queues of an FE.
pub(super) const NAME: &str = "redirect";
/// T_s of the paper.
const INTERVAL: Span = Span::from_millis(1500);
const COMMITTED: &str = "committed";
const EXCESS: &str = "excess";
const FLAG: &str = "flow_control";
const BYTES: &str = "redirect_bytes";

/// Whether the LFB can have a role: whether it supports every parameter and gauge of the role.
pub(super) fn can_be(role: &Role) -> bool {
    let sets = |name: &&str| [COMMITTED, EXCESS, FLAG].contains(name);
    !role.sets.is_empty() && role.sets.iter().all(sets) && role.reads.iter().all(|n| *n == BYTES)
}

/// Converts a controller parameter to components of the LFB.
pub(super) fn components(parameter: &str, value: &Setting) -> Vec<Change> {
    let component = |name: &str, value: String| {
        Change::new(ComponentPath::new([REDIRECT, name]), Scalar::Text(value))
    };
    let bits = |name, rate: Rate| {
        let ts = component("ts", INTERVAL.to_string());
        let bits = u128::from(rate.as_bps()) * u128::from(INTERVAL.as_nanos()) / 1_000_000_000;
        vec![ts, component(name, bits.to_string())]
    };
    match (parameter, value) {
        (COMMITTED, Setting::Rate(rate)) => bits("bc", *rate),
        (EXCESS, Setting::Rate(rate)) => bits("be", *rate),
        (name, value) => vec![component(name, value.to_string())],
    }
}

/// Builds a sample from the LFB's value, or from a report of it.
pub(super) fn sample(value: &Value) -> Option<Sample> {
    let tally = |name: &str, packets: &str| {
        Some(Tally {
            packets: value.whole(&format!("{name}.{packets}"))?,
            bytes: value.whole(&format!("{name}.bytes"))?,
        })
    };
    let redirected = tally("stats", "packets")?;
    let control = tally("control", "messages")?;
    let received = Tally {
        packets: redirected.packets.saturating_add(control.packets),
        bytes: redirected.bytes.saturating_add(control.bytes),
    };
    let sample = Sample::new(received, Tally::ZERO, Tally::ZERO);
    Some(sample.with_gauge(BYTES, redirected.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::spec::KINDS;

    #[test]
    fn only_flow_control_is_for_the_block() {
        let roles = KINDS.iter().flat_map(|kind| kind.manual.roles);
        let can: Vec<_> = roles
            .filter(|role| can_be(role))
            .map(|role| role.name)
            .collect();
        assert_eq!(can, ["uplinks"]);
    }

    #[test]
    fn rates_are_bits_in_the_interval() {
        let text = |parameter, value| {
            let changes = components(parameter, &value).into_iter();
            let text = |change: Change| match change.value {
                Some(Scalar::Text(text)) => format!("{}={text}", change.path),
                other => panic!("{other:?}"),
            };
            changes.map(text).collect::<Vec<_>>()
        };
        // The paper's example: 15 Mbit/s are 22.5 Mbit in 1.5 s.
        assert_eq!(
            text(COMMITTED, Setting::Rate(Rate::from_mbps(15))),
            ["redirect.ts=1.5 s", "redirect.bc=22500000"]
        );
        assert_eq!(
            text(EXCESS, Setting::Rate(Rate::from_bps(3))),
            ["redirect.ts=1.5 s", "redirect.be=4"]
        );
        assert_eq!(
            text(FLAG, Setting::Flag(true)),
            ["redirect.flow_control=true"]
        );
    }

    #[test]
    fn a_sample_has_both_kinds_of_messages() {
        let counts = |names: [&'static str; 2], packets: u64| {
            let [first, second] = names;
            Value::Struct(vec![
                (first.into(), packets.into()),
                (second.into(), (100 * packets).into()),
            ])
        };
        let stats = counts(["packets", "bytes"], 7);
        let value = Value::Struct(vec![
            ("stats".into(), stats.clone()),
            ("control".into(), counts(["messages", "bytes"], 2)),
        ]);
        let taken = sample(&value).unwrap();
        assert_eq!((taken.received.packets, taken.received.bytes), (9, 900));
        assert_eq!(taken.gauge(BYTES), Some(700));
        assert_eq!(sample(&Value::Struct(vec![("stats".into(), stats)])), None);
    }
}
