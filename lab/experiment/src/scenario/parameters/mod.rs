//! The keys of a scenario: unit, range, default, and description of each. The reader, the errors
//! and the JSON Schema all use these tables.

mod fpf;
mod link;
mod sections;

use weir_base::{Bytes, Rate, Span, setting::Kind};
use weir_channel::Schedule;

use super::key::{Form, Key};
use super::tcp::Congestion;

pub use self::fpf::*;
pub use self::link::*;
pub use self::sections::SECTIONS;

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

const DAY: Span = Span::from_secs(86_400);

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

const fn count(min: u64, max: u64) -> Form {
    Form::Setting(Kind::Count(min, max))
}

const fn span(min: Span, max: Span) -> Form {
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
    "the file that this one extends, by its path from here: tables are merged key by key, everything else is replaced"
);
key!(
    FROM_FILE,
    "from",
    Form::Text,
    "",
    "the file whose variants stand here, by its path from here"
);
key!(
    ONLY,
    "only",
    Form::Variants,
    "",
    "which of its variants; all if absent"
);
key!(TITLE, "title", Form::Text, "", "one line");
key!(ABOUT, "about", Form::Text, "", "what it shows");
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
    "what is left out of the means, from the start of a run"
);
key!(
    SEED,
    "seed",
    count(0, u64::MAX),
    "1",
    "seed of the first run; the next has the next"
);
key!(RUNS, "runs", count(1, 10_000), "1", "runs of each point");
key!(
    SAMPLE,
    "sample",
    span(Span::from_millis(1), Span::from_secs(3600)),
    "500 ms",
    "step of the curves"
);
key!(
    WATCH,
    "watch",
    Form::Links,
    "",
    "links whose queues are sampled; if absent, those that name a discipline"
);
key!(
    CONTROL,
    "control",
    Form::Setting(Kind::Word(&["northbound", "forces"])),
    "northbound",
    "how controllers reach their routers on the lab: through each router's own interface, or by ForCES, with a control \
     element (`weir ce`) over forwarding elements (`weir fe`)"
);
key!(
    COUNT,
    "count",
    count(1, 100_000),
    "1",
    "how many hosts of this kind"
);
key!(
    PERIOD,
    "period",
    span(Span::from_millis(1), Span::from_secs(3600)),
    "40 ms",
    "how often the controller asks its queues"
);
key!(
    CONTROLLER_DELAY,
    "delay",
    span(Span::ZERO, Span::from_secs(60)),
    "0 ms",
    "how long a sample is under way to the controller, and an order back"
);
key!(
    CONTROLLER_LOSS,
    "loss",
    Form::Setting(Kind::Ratio(0.0, 1.0)),
    "0",
    "share of samples, and of orders, that get lost"
);
key!(
    CHANNEL_RATE,
    "channel_rate",
    Form::Setting(Kind::Rate(Rate::from_bps(1000), Rate::PARAMETER_MAX)),
    "",
    "rate of the link to each element, with a queue at both ends; none: messages take no time"
);
key!(
    CHANNEL_SCHEDULE,
    "channel_schedule",
    Form::Setting(Kind::Word(Schedule::WORDS)),
    "dppbrb",
    "the order between control messages and redirects in these queues"
);
key!(
    CHANNEL_REDIRECT,
    "channel_redirect",
    Form::Setting(Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX)),
    "0 bit",
    "redirects of 1000 bytes that each element sends to the controller; not with control = \"forces\" in the lab"
);
key!(
    KIND,
    "kind",
    Form::Setting(Kind::Word(&["tcp", "udp", "web"])),
    "",
    "what kind of traffic"
);
key!(FROM, "from", Form::Host, "", "who sends the data");
key!(
    TO,
    "to",
    Form::Host,
    "",
    "who receives them: one host; as many as `from` (then each has its own partner); or many of one `from`, which sends to each"
);
key!(
    START,
    "start",
    span(Span::ZERO, DAY),
    "0 s",
    "when it starts"
);
key!(
    SPREAD,
    "spread",
    span(Span::ZERO, DAY),
    "0 s",
    "each flow starts at a random moment within this time from `start`"
);
key!(
    ARRIVALS,
    "arrivals",
    TIMES,
    "",
    "the flows start one after another, with these gaps: the first flow of each host in order, \
     then the second of each; the first gap begins at `start`"
);
key!(
    STOP,
    "stop",
    span(Span::ZERO, DAY),
    "",
    "when it stops, if before the end"
);
key!(
    IP,
    "ip",
    Form::Setting(Kind::Word(&["v4", "v6"])),
    "v4",
    "IP version"
);
key!(HOG, "hog", FLAG, "false", "whether this is the attack");
key!(
    FLOWS,
    "flows",
    count(1, 1_000_000),
    "1",
    "flows of each sending host; of one host that sends to many, flows to each"
);
key!(
    SIZE,
    "size",
    Form::Sizes(Bytes(1), Bytes(1_000_000_000_000)),
    "",
    "bytes that each flow transfers before it closes; it sends until `stop` if absent"
);
key!(
    RATE,
    "rate",
    Form::Load,
    "",
    "payload that the application of each flow offers; TCP sends as much as it can if absent"
);
key!(
    TOTAL_RATE,
    "total_rate",
    Form::Load,
    "",
    "payload that all flows of this traffic offer together, in place of `rate`"
);
key!(
    ON,
    "on",
    TIMES,
    "",
    "how long the application offers its rate, before it pauses for `off`"
);
key!(
    OFF,
    "off",
    TIMES,
    "",
    "how long the application pauses, before it is on again"
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
    "how the packets of a flow (or the writes of an application with a rate) follow each other"
);
key!(
    ADDRESSES,
    "addresses",
    count(1, 65_000),
    "1",
    "source addresses over which each sending host spreads its flows"
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
    "sizes of the files"
);
key!(
    THINK,
    "think",
    Form::Times(Span::ZERO, DAY),
    "0 s",
    "pause of a client between two fetches"
);
key!(
    CHUNKS,
    "chunks",
    count(1, 10_000),
    "",
    "how many named chunks the server has; a fetch is an interest in one of them and the data that answer it, a datagram \
     each, in place of a file by TCP; in simulation only"
);
key!(
    POPULARITY,
    "popularity",
    Form::Setting(Kind::Ratio(0.0, 4.0)),
    "1",
    "the n-th chunk is asked for in proportion to n to the power of minus this (Zipf); 0: all alike"
);
key!(
    CONGESTION,
    "congestion",
    Form::Setting(Kind::Word(Congestion::WORDS)),
    "cubic",
    "congestion control: CUBIC, Reno with SACK, NewReno (without), BBR (on the lab only)"
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
    "segments that a connection may send at first"
);
key!(
    RECEIVE_WINDOW,
    "receive_window",
    bytes(88, 1 << 30),
    "4 MB",
    "bytes that a receiver takes in advance"
);
key!(
    MIN_RTO,
    "min_rto",
    span(Span::from_millis(1), Span::from_secs(60)),
    "200 ms",
    "least retransmission time-out; below 40 ms, delayed_ack has to be as short"
);
key!(
    GRANULARITY,
    "granularity",
    span(Span::from_micros(1), Span::from_secs(60)),
    "",
    "least time-out beyond the round-trip time (RFC 6298's G); if absent, min_rto, 200 ms at most"
);
key!(
    INITIAL_RTO,
    "initial_rto",
    span(Span::from_millis(1), Span::from_secs(60)),
    "1 s",
    "retransmission time-out before the first measurement, and of a SYN"
);
key!(
    ACK_EVERY,
    "ack_every",
    count(1, 64),
    "2",
    "segments for one acknowledgement"
);
key!(
    DELAYED_ACK,
    "delayed_ack",
    span(Span::ZERO, Span::from_secs(1)),
    "40 ms",
    "how long an acknowledgement waits for further segments at most"
);
key!(
    BYTE_COUNTING,
    "byte_counting",
    FLAG,
    "true",
    "whether the window grows by bytes acknowledged (RFC 3465), or by acknowledgements as in older stacks"
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
    "the time stamp option, which takes 12 bytes of each segment"
);
