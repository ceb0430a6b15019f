//! The keys of a link.

use weir_base::framing::KEYWORDS;
use weir_base::{Bytes, Rate, Span, setting::Kind};

use super::super::key::{Form, Key};
use super::bytes;

/// `[link.NAME]`
pub const LINK: &[&Key] = &[
    &ENDS,
    &LINK_RATE,
    &REVERSE_RATE,
    &DELAY,
    &REVERSE_DELAY,
    &BUFFER,
    &SHAPER,
    &SHAPER_LEAST,
    &SHAPER_BASE,
    &SHAPER_MOST,
    &SHAPER_THRESHOLD,
    &SHAPER_INTERVAL,
    &REFLECTORS,
    &REVERSE_BUFFER,
    &REVERSE_SHAPER,
    &FRAMING,
    &MEDIUM,
    &DISCIPLINE,
    &REVERSE_DISCIPLINE,
];

/// The word for a shaper that finds its rate.
pub(in crate::scenario) const AUTO: &str = "auto";
pub(in crate::scenario) const CAKE_AUTORATE: &str = "cake-autorate";

macro_rules! key {
    ($id:ident, $name:literal, $form:expr, $default:literal, $about:literal) => {
        pub(in crate::scenario) const $id: Key = Key {
            name: $name,
            form: $form,
            default: $default,
            about: $about,
        };
    };
}

const RATE_MIN: Rate = Rate::from_bps(8_000);
const RATE_MAX: Rate = Rate::from_mbps(400_000);
const RATES: Form = Form::RateCourse(RATE_MIN, RATE_MAX);
const DELAYS: Form = Form::SpanCourse(Span::ZERO, Span::from_secs(10));
const BUFFERS: Form = bytes(2_000, 1_000_000_000);

key!(
    ENDS,
    "ends",
    Form::Ends,
    "",
    "the two nodes that the link connects; with a group of hosts, one link per host"
);
key!(
    LINK_RATE,
    "rate",
    RATES,
    "",
    "rate on the wire, both directions; unlimited if absent"
);
key!(
    REVERSE_RATE,
    "reverse_rate",
    RATES,
    "",
    "rate from the second end; the same as `rate` if absent"
);
key!(
    DELAY,
    "delay",
    DELAYS,
    "0 s",
    "one-way delay, both directions"
);
key!(
    REVERSE_DELAY,
    "reverse_delay",
    DELAYS,
    "",
    "delay from the second end; the same as `delay` if absent"
);
key!(
    BUFFER,
    "buffer",
    BUFFERS,
    "",
    "adds a modem between the first end's port and the link: capacity of its FIFO; the port does not know the link's \
     rate"
);
key!(
    SHAPER,
    "shaper",
    Form::Setting(Kind::RateOrWord(RATE_MIN, RATE_MAX, &[AUTO, CAKE_AUTORATE])),
    "",
    "rate at which the first end's port sends to the modem; unlimited if absent; auto: the port measures the rate \
     with probes to reflectors; cake-autorate: the same with that program's algorithm, for comparison (simulation \
     only)"
);
key!(
    SHAPER_LEAST,
    "shaper_least",
    Form::Setting(Kind::Rate(RATE_MIN, RATE_MAX)),
    "1 Mbit",
    "with shaper auto: minimum rate, whatever the delay"
);
key!(
    SHAPER_BASE,
    "shaper_base",
    Form::Setting(Kind::Rate(RATE_MIN, RATE_MAX)),
    "",
    "with shaper auto: rate at the start, without load, and without reflectors; shaper_least if absent"
);
key!(
    SHAPER_MOST,
    "shaper_most",
    Form::Setting(Kind::Rate(RATE_MIN, RATE_MAX)),
    "1 Gbit",
    "with shaper auto: maximum rate"
);
key!(
    REFLECTORS,
    "reflectors",
    Form::Names,
    "",
    "with shaper auto: up to 8 hosts whose replies show the delay; `traffic`, alone or in addition: also uses the TCP \
     connections with `timestamps` through the port"
);
key!(
    SHAPER_THRESHOLD,
    "shaper_threshold",
    Form::Setting(Kind::Span(Span::from_millis(1), Span::from_secs(1))),
    "8 ms",
    "with shaper auto: delay above the baseline that indicates a queue in the modem"
);
key!(
    SHAPER_INTERVAL,
    "shaper_interval",
    Form::Setting(Kind::Span(Span::from_millis(5), Span::from_secs(1))),
    "20 ms",
    "with shaper auto: time between two probes while the port is busy"
);
key!(
    REVERSE_BUFFER,
    "reverse_buffer",
    BUFFERS,
    "",
    "like `buffer`, for a modem at the second end"
);
key!(
    REVERSE_SHAPER,
    "reverse_shaper",
    Form::Setting(Kind::Rate(RATE_MIN, RATE_MAX)),
    "",
    "like `shaper`, for the second end's port and its modem"
);
key!(
    FRAMING,
    "framing",
    Form::Setting(Kind::BytesOrWords(Bytes(0), Bytes(100), KEYWORDS)),
    "38 B",
    "overhead of a packet on the wire in addition to its IP length, in bytes or as keywords of tc-cake(8): 38 B on \
     Ethernet (header, frame check sequence, preamble, gap), 2 B on a PPP link; ethernet: 38 B, at least 84 B per \
     packet"
);
key!(
    MEDIUM,
    "medium",
    Form::Setting(Kind::Word(&["ethernet", "vlan", "gre"])),
    "ethernet",
    "how FPF packets cross a link between two routers: in untagged frames, in frames of VLAN 7, or in a GRE tunnel \
     over IPv4 between its ends; lab only"
);
key!(
    DISCIPLINE,
    "discipline",
    Form::Discipline,
    "",
    "queue at the first end; a FIFO of 1000 packets if absent"
);
key!(
    REVERSE_DISCIPLINE,
    "reverse_discipline",
    Form::ReverseDiscipline,
    "",
    "queue at the second end; \"same\": the settings of the first end"
);
