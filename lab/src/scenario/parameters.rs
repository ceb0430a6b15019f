//! The single-valued keys of a scenario: unit, range, default, and a sentence for each.

use weir_base::setting::{Kind as Range, Parameter};
use weir_base::{Bytes, Rate, Span};

use super::checked::Congestion;

/// Every parameter of a scenario with its section, for the list of the schema.
pub const PARAMETERS: &[(&str, &[&Parameter])] = &[
    ("", &[&DURATION, &WARM_UP, &SEED, &RUNS]),
    ("host.NAME", &[&COUNT]),
    ("link.NAME", &[&LINK_RATE, &DELAY]),
    (
        "traffic.NAME",
        &[
            &KIND,
            &FLOWS,
            &CLIENTS,
            &CONGESTION,
            &PAYLOAD,
            &ADDRESSES,
            &IP,
            &START,
            &STOP,
        ],
    ),
];

const DAY: Span = Span::from_secs(86_400);

macro_rules! parameter {
    ($id:ident, $name:literal, $kind:expr, $default:literal, $about:literal) => {
        pub(super) const $id: Parameter = Parameter {
            name: $name,
            kind: $kind,
            default: $default,
            about: $about,
        };
    };
}

parameter!(
    DURATION,
    "duration",
    Range::Span(Span::from_secs(1), DAY),
    "60 s",
    "length of a run"
);
parameter!(
    WARM_UP,
    "warm_up",
    Range::Span(Span::ZERO, DAY),
    "0 s",
    "what is left out of the means, from the start of a run"
);
parameter!(
    SEED,
    "seed",
    Range::Count(0, u64::MAX),
    "1",
    "seed of the first run; the next has the next"
);
parameter!(
    RUNS,
    "runs",
    Range::Count(1, 10_000),
    "1",
    "runs of each point"
);
parameter!(
    COUNT,
    "count",
    Range::Count(1, 100_000),
    "1",
    "how many hosts of this kind"
);
parameter!(
    LINK_RATE,
    "rate",
    Range::Rate(Rate::from_bps(8_000), Rate::from_mbps(400_000)),
    "",
    "rate on the wire, both ways; as fast as it goes if absent"
);
parameter!(
    DELAY,
    "delay",
    Range::Span(Span::ZERO, Span::from_secs(10)),
    "0 s",
    "one-way delay"
);
parameter!(
    KIND,
    "kind",
    Range::Word(&["tcp", "udp", "web"]),
    "",
    "what kind of traffic"
);
parameter!(
    FLOWS,
    "flows",
    Range::Count(1, 1_000_000),
    "1",
    "flows of each sending host"
);
parameter!(
    CLIENTS,
    "clients",
    Range::Count(1, 100_000),
    "1",
    "web clients, each with one connection at a time"
);
parameter!(
    CONGESTION,
    "congestion",
    Range::Word(Congestion::WORDS),
    "cubic",
    "TCP's congestion control"
);
parameter!(
    PAYLOAD,
    "payload",
    Range::Bytes(Bytes(1), Bytes(1472)),
    "1472 B",
    "UDP payload of a packet"
);
parameter!(
    ADDRESSES,
    "addresses",
    Range::Count(1, 65_000),
    "1",
    "source addresses over which each sending host spreads its flows"
);
parameter!(IP, "ip", Range::Word(&["v4", "v6"]), "v4", "IP version");
parameter!(
    START,
    "start",
    Range::Span(Span::ZERO, DAY),
    "0 s",
    "when it starts"
);
parameter!(
    STOP,
    "stop",
    Range::Span(Span::ZERO, DAY),
    "",
    "when it stops, if before the end"
);
