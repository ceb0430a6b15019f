//! A small result for the tests of this folder.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::TrafficInfo;
use crate::results::{Curve, Distribution, FlowRow, OneRun, PointResult, RunResult};

/// Two variants at two points of a sweep, with one run each, on `sim`.
pub(super) fn result() -> RunResult {
    let mut points = Vec::new();
    for flows in [2, 3] {
        for (variant, share) in [("plain, \"old\"", 0.5), ("new <b>", 0.75)] {
            points.push(point(variant, flows, share));
        }
    }
    RunResult {
        scenario: "a.toml".into(),
        title: "An example".into(),
        about: "Two & two".into(),
        on: "sim".into(),
        seed: 1,
        duration_s: 1.0,
        warm_up_s: 0.0,
        notes: Vec::new(),
        traffic: vec![
            traffic("long", "tcp"),
            traffic("voice", "udp"),
            traffic("flood", "udp"),
        ],
        points,
        events: Some(10),
        cpu_s: 0.0,
        wall_s: 0.0,
    }
}

fn traffic(name: &str, kind: &str) -> TrafficInfo {
    TrafficInfo {
        name: name.into(),
        kind: kind.into(),
        flows: 1,
        hosts: 1,
        is_sparse: name == "voice",
        crosses: vec!["out".into()],
    }
}

/// A uniform distribution from zero to 20 ms times `share`.
fn voice(share: f64) -> Distribution {
    Distribution::of(|p| Some(20.0 * share * p)).unwrap()
}

fn point(variant: &str, flows: u64, share: f64) -> PointResult {
    let mut point = PointResult {
        variant: Some(variant.into()),
        set: Map::from_iter([("traffic.flood.flows".to_owned(), Value::from(flows))]),
        sweep: Map::from_iter([("traffic.flood.flows".to_owned(), Value::from(flows))]),
        runs: Vec::new(),
        summary: BTreeMap::new(),
    };
    let metrics = [
        ("tcp_share_ratio", share),
        ("delay_ms_mean.long", 3.5),
        ("queue_delay_ms_mean.out", 2.0),
        ("queue_delay_ms_p99.out", 9.5),
        ("delay_ms_p50.voice", 10.0 * share),
        ("delay_ms_p99.voice", 20.0 * share),
    ];
    let curve = |values: &[f64]| Curve {
        step_s: 0.5,
        values: values.to_vec(),
    };
    point.add(OneRun {
        seed: 1,
        metrics: metrics.map(|(name, x)| (name.to_owned(), x)).into(),
        series: BTreeMap::from([
            ("tcp_mbps".to_owned(), curve(&[10.0, 20.0])),
            ("queue_packets.out".to_owned(), curve(&[0.0, 7.0])),
        ]),
        distributions: BTreeMap::from([("delay_ms.voice".to_owned(), voice(share))]),
        routers: Map::new(),
        flows: vec![FlowRow {
            traffic: "long".into(),
            start_s: 0.0,
            connected_s: Some(0.1),
            end_s: None,
            size_bytes: None,
            bytes: 9000,
            window_bytes: 8000,
        }],
        notes: Vec::new(),
        captures: Vec::new(),
    });
    point
}
