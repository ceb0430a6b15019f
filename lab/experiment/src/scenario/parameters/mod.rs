//! The keys of a scenario: unit, range, default, and description of each. The reader, the errors
//! and the JSON Schema all use these tables.

mod link;
mod sections;

use weir_base::{Bytes, Rate, Span, setting::Kind};
use weir_discipline::channel::schedule::Schedule;

use super::congestion::Congestion;
use super::key::{Form, Key};
use super::router::Mode;

pub use self::link::*;
pub use self::sections::sections;
pub(super) use self::sections::table_of;

/// Keys outside all sections that are removed while files are read.
pub const FILE: &[&Key] = &[&EXTENDS];
/// `[quick]`
pub const QUICK: &[&Key] = &[&DURATION, &WARM_UP];
/// `[[variant]]` that includes the variants of another file.
pub const VARIANT: &[&Key] = &[&FROM_FILE, &ONLY];
/// Keys outside all sections.
pub const TOP: &[&Key] = &[
    &TITLE, &ABOUT, &DURATION, &WARM_UP, &SEED, &RUNS, &SAMPLE, &WATCH, &CONTROL,
];
/// `[router.NAME]`
pub const ROUTER: &[&Key] = &[&MODE, &MASQUERADE];
/// `[host.NAME]`
pub const HOST: &[&Key] = &[&COUNT];
/// `[controller.NAME]`, in addition to the parameters and links of its kind.
pub const CONTROLLER: &[&Key] = &[
    &PERIOD,
    &CONTROLLER_DELAY,
    &CONTROLLER_LOSS,
    &CHANNEL_RATE,
    &CHANNEL_SCHEDULE,
    &CHANNEL_REDIRECT,
];
/// `[traffic.NAME]`, of any kind.
pub const TRAFFIC: &[&Key] = &[
    &KIND, &FROM, &TO, &START, &SPREAD, &ARRIVALS, &STOP, &IP, &HOG,
];
/// `[traffic.NAME]` with `kind = "tcp"`.
pub const TCP: &[&Key] = &[&FLOWS, &SIZE, &RATE, &TOTAL_RATE, &SPACING, &ON, &OFF];
/// `[traffic.NAME]` with `kind = "udp"`.
pub const UDP: &[&Key] = &[
    &FLOWS,
    &RATE,
    &TOTAL_RATE,
    &PAYLOAD,
    &SPACING,
    &ADDRESSES,
    &COPIES_TO,
    &ON,
    &OFF,
];
/// `[traffic.NAME]` with `kind = "web"`.
pub const WEB: &[&Key] = &[&CLIENTS, &MIX, &THINK, &CHUNKS, &POPULARITY];
/// `[traffic.NAME]` with `kind = "tcp"` or `"web"`.
pub const TCP_OPTIONS: &[&Key] = &[
    &CONGESTION,
    &MSS,
    &INITIAL_WINDOW,
    &RECEIVE_WINDOW,
    &MIN_RTO,
    &GRANULARITY,
    &INITIAL_RTO,
    &ACK_EVERY,
    &DELAYED_ACK,
    &BYTE_COUNTING,
    &ECN,
    &TIMESTAMPS,
];

/// The longest time of a scenario.
pub const DAY: Span = Span::from_secs(86_400);

macro_rules! key {
    ($id:ident, $name:literal, $form:expr, $default:literal, $about:literal) => {
        pub(super) const $id: Key = Key {
            name: $name,
            form: $form,
            default: $default,
            about: $about,
        };
    };
}

/// A count in this range.
pub const fn count(min: u64, max: u64) -> Form {
    Form::Setting(Kind::Count(min, max))
}

/// A time in this range.
pub const fn span(min: Span, max: Span) -> Form {
    Form::Setting(Kind::Span(min, max))
}

const fn bytes(min: u64, max: u64) -> Form {
    Form::Setting(Kind::Bytes(Bytes(min), Bytes(max)))
}

const FLAG: Form = Form::Setting(Kind::Flag);
const TIMES: Form = Form::Times(Span::from_micros(1), DAY);

key!(
    EXTENDS,
    "extends",
    Form::Text,
    "",
    "file to extend, as a path relative to this file: tables are merged key by key, all other values are replaced"
);
key!(
    FROM_FILE,
    "from",
    Form::Text,
    "",
    "file whose variants are included here, as a path relative to this file"
);
key!(
    ONLY,
    "only",
    Form::Variants,
    "",
    "variants to include; all if absent"
);
key!(TITLE, "title", Form::Text, "", "one-line title");
key!(
    ABOUT,
    "about",
    Form::Text,
    "",
    "description of the scenario"
);
key!(
    DURATION,
    "duration",
    span(Span::from_secs(1), DAY),
    "60 s",
    "length of a run"
);
key!(
    WARM_UP,
    "warm_up",
    span(Span::ZERO, DAY),
    "0 s",
    "time from the start of a run that the metrics exclude"
);
key!(
    SEED,
    "seed",
    count(0, u64::MAX),
    "1",
    "seed of the first run; the following runs use the following seeds"
);
key!(RUNS, "runs", count(1, 10_000), "1", "runs of each point");
key!(
    SAMPLE,
    "sample",
    span(Span::from_millis(1), Span::from_secs(3600)),
    "500 ms",
    "sampling interval of the curves"
);
key!(
    WATCH,
    "watch",
    Form::Links,
    "",
    "links whose queues are sampled; if absent, links with a `discipline`"
);
key!(
    CONTROL,
    "control",
    Form::Setting(Kind::Word(&["northbound", "forces"])),
    "northbound",
    "how controllers reach their routers in the lab: through each router's own interface, or over ForCES, with a \
     control element (`weir ce`) and forwarding elements (`weir fe`)"
);
key!(
    MODE,
    "mode",
    Form::Setting(Kind::Word(Mode::WORDS)),
    "routed",
    "forwarder in the lab: weir (routed), or the kernel, whose packets weir queues (queue); no effect in simulation"
);
key!(
    MASQUERADE,
    "masquerade",
    Form::Links,
    "",
    "links behind which all hosts show the router's own address (NAT); needs mode = \"queue\". The router's disciplines \
     still know each host. In simulation packets keep their addresses, so routers behind the link know the hosts too"
);
key!(
    COUNT,
    "count",
    count(1, 100_000),
    "1",
    "number of hosts with these settings"
);
key!(
    PERIOD,
    "period",
    span(Span::from_millis(1), Span::from_secs(3600)),
    "40 ms",
    "interval at which the controller samples its queues"
);
key!(
    CONTROLLER_DELAY,
    "delay",
    span(Span::ZERO, Span::from_secs(60)),
    "0 ms",
    "delay of each sample to the controller, and of each order back"
);
key!(
    CONTROLLER_LOSS,
    "loss",
    Form::Setting(Kind::Ratio(0.0, 1.0)),
    "0",
    "share of samples and of orders that are lost"
);
key!(
    CHANNEL_RATE,
    "channel_rate",
    Form::Setting(Kind::Rate(Rate::from_bps(1000), Rate::PARAMETER_MAX)),
    "",
    "rate of the link to each element, with a queue at both ends; if absent, messages take no time"
);
key!(
    CHANNEL_SCHEDULE,
    "channel_schedule",
    Form::Setting(Kind::Word(Schedule::WORDS)),
    "dppbrb",
    "scheduling of control messages and redirects in these queues"
);
key!(
    CHANNEL_REDIRECT,
    "channel_redirect",
    Form::Setting(Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX)),
    "0 bit",
    "rate of 1000-byte redirects that each element sends to the controller; not with control = \"forces\" in the lab"
);
key!(
    KIND,
    "kind",
    Form::Setting(Kind::Word(&["tcp", "udp", "web"])),
    "",
    "kind of traffic"
);
key!(FROM, "from", Form::Host, "", "sender of the data");
key!(
    TO,
    "to",
    Form::Host,
    "",
    "receiver: one host; as many hosts as `from` (each then has its own peer); or several hosts for one `from`, which \
     sends to each"
);
key!(START, "start", span(Span::ZERO, DAY), "0 s", "start time");
key!(
    SPREAD,
    "spread",
    span(Span::ZERO, DAY),
    "0 s",
    "each flow starts at a random time within this interval after `start`"
);
key!(
    ARRIVALS,
    "arrivals",
    TIMES,
    "",
    "gaps between flow starts: first the first flow of each host in order, then the second flow of each; the first \
     gap begins at `start`"
);
key!(
    STOP,
    "stop",
    span(Span::ZERO, DAY),
    "",
    "stop time, if before the end of the run"
);
key!(
    IP,
    "ip",
    Form::Setting(Kind::Word(&["v4", "v6"])),
    "v4",
    "IP version"
);
key!(
    HOG,
    "hog",
    FLAG,
    "false",
    "whether this traffic is the attack"
);
key!(
    FLOWS,
    "flows",
    count(1, 1_000_000),
    "1",
    "flows per sending host; if one host sends to several, flows per receiver"
);
key!(
    SIZE,
    "size",
    Form::Sizes(Bytes(1), Bytes(1_000_000_000_000)),
    "",
    "bytes that each flow transfers before it closes; if absent, it sends until `stop`"
);
key!(
    RATE,
    "rate",
    Form::Load,
    "",
    "payload rate that the application of each flow offers; if absent, TCP sends as fast as it can"
);
key!(
    TOTAL_RATE,
    "total_rate",
    Form::Load,
    "",
    "payload rate that all flows of this traffic offer together, instead of `rate`"
);
key!(
    ON,
    "on",
    TIMES,
    "",
    "how long the application offers its rate before it pauses for `off`"
);
key!(
    OFF,
    "off",
    TIMES,
    "",
    "how long the application pauses before it is on again"
);
key!(
    PAYLOAD,
    "payload",
    bytes(1, 1472),
    "1472 B",
    "UDP payload of a packet"
);
key!(
    SPACING,
    "spacing",
    Form::Spacing,
    "even",
    "spacing of the packets of a flow (or of the writes of a TCP application with a rate)"
);
key!(
    ADDRESSES,
    "addresses",
    count(1, 65_000),
    "1",
    "number of source addresses over which each sending host spreads its flows"
);
key!(
    COPIES_TO,
    "copies_to",
    Form::Names,
    "",
    "additional hosts that receive a copy of each packet, each at a different router; an [encapsulation.NAME] must \
     provide this multicast"
);
key!(
    CLIENTS,
    "clients",
    count(1, 100_000),
    "1",
    "web clients of each host, each with one connection at a time"
);
key!(
    MIX,
    "mix",
    Form::Sizes(Bytes(1), Bytes(1_000_000_000)),
    "webstone",
    "file sizes"
);
key!(
    THINK,
    "think",
    Form::Times(Span::ZERO, DAY),
    "0 s",
    "pause of a client after each fetch"
);
key!(
    CHUNKS,
    "chunks",
    count(1, 10_000),
    "",
    "number of named chunks on the server; a fetch is then an interest for one chunk and its data, one datagram each, \
     instead of a file over TCP; simulation only"
);
key!(
    POPULARITY,
    "popularity",
    Form::Setting(Kind::Ratio(0.0, 4.0)),
    "1",
    "Zipf exponent s: chunk n is requested with a probability proportional to n^-s; 0: all equally often"
);
key!(
    CONGESTION,
    "congestion",
    Form::Setting(Kind::Word(Congestion::WORDS)),
    "cubic",
    "congestion control: CUBIC, Reno with SACK, NewReno (without SACK), BBR (lab only)"
);
key!(
    MSS,
    "mss",
    bytes(88, 8960),
    "1460 B",
    "payload of a segment without options"
);
key!(
    INITIAL_WINDOW,
    "initial_window",
    count(1, 1000),
    "10",
    "initial congestion window, in segments"
);
key!(
    RECEIVE_WINDOW,
    "receive_window",
    bytes(88, 1 << 30),
    "4 MB",
    "maximum bytes that a receiver buffers"
);
key!(
    MIN_RTO,
    "min_rto",
    span(Span::from_millis(1), Span::from_secs(60)),
    "200 ms",
    "minimum retransmission timeout; if below 40 ms, reduce delayed_ack as well"
);
key!(
    GRANULARITY,
    "granularity",
    span(Span::from_micros(1), Span::from_secs(60)),
    "",
    "minimum timeout in addition to the round-trip time (G of RFC 6298); if absent, min_rto, at most 200 ms"
);
key!(
    INITIAL_RTO,
    "initial_rto",
    span(Span::from_millis(1), Span::from_secs(60)),
    "1 s",
    "retransmission timeout of a SYN, and before the first round-trip measurement"
);
key!(
    ACK_EVERY,
    "ack_every",
    count(1, 64),
    "2",
    "segments per acknowledgement"
);
key!(
    DELAYED_ACK,
    "delayed_ack",
    span(Span::ZERO, Span::from_secs(1)),
    "40 ms",
    "maximum time that an acknowledgement is delayed"
);
key!(
    BYTE_COUNTING,
    "byte_counting",
    FLAG,
    "true",
    "whether the window grows per acknowledged byte (RFC 3465) or, as in older stacks, per acknowledgement"
);
key!(
    ECN,
    "ecn",
    FLAG,
    "false",
    "explicit congestion notification"
);
key!(
    TIMESTAMPS,
    "timestamps",
    FLAG,
    "false",
    "the timestamp option, which takes 12 bytes of each segment"
);
