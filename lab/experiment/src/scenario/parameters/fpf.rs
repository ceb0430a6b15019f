//! The keys of flexible packet forwarding.

use weir_base::setting::Kind;
use weir_base::{Bytes, Rate, Span};
use weir_path::fpf::edge::profile::WAITING_MAX;

use super::super::key::{Form, Key};
use super::{DAY, count, span};

/// `[domain.NAME]`
pub const DOMAIN: &[&Key] = &[&ROUTERS, &LID_BYTES];
/// `[path.NAME]`
pub const PATH: &[&Key] = &[&THROUGH];
/// `[encapsulation.NAME]`
pub const ENCAPSULATION: &[&Key] = &[
    &OF_TRAFFIC,
    &PATHS,
    &CODE,
    &CACHE,
    &CHEAPEST,
    &DISJOINT,
    &WEIGHTS,
    &SHARE,
    &SHAPE,
    &SHAPE_LIMIT,
];
/// `[event.NAME]`
pub const EVENT: &[&Key] = &[&AT, &CUT, &JOIN, &CHANGED, &PATHS, &WEIGHTS];

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

key!(
    MEDIUM,
    "medium",
    Form::Setting(Kind::Word(&["ethernet", "vlan", "gre"])),
    "ethernet",
    "how FPF packets cross a link between two routers: in plain frames, in frames with the tag of VLAN 7, or in a GRE \
     tunnel over IPv4 between its ends; for the lab"
);
key!(
    COPIES_TO,
    "copies_to",
    Form::Names,
    "",
    "further hosts that receive a copy of each packet, each at a router of its own: multicast, which an \
     [encapsulation.NAME] makes"
);
key!(
    ROUTERS,
    "routers",
    Form::Names,
    "",
    "the forwarding elements of this domain of flexible packet forwarding (FPF)"
);
key!(
    LID_BYTES,
    "lid_bytes",
    count(1, 2),
    "",
    "bytes of its local identifiers; as many as its links need if absent"
);
key!(
    THROUGH,
    "through",
    Form::Names,
    "",
    "the domains, or routers, that the path leads through, from that of the sender to that of the receiver"
);
key!(
    OF_TRAFFIC,
    "traffic",
    Form::Text,
    "",
    "the traffic whose packets get an FPF header at the router of its sender; answers go by IP"
);
key!(
    PATHS,
    "paths",
    Form::Names,
    "",
    "the paths of the packets; with `copies_to` one for each receiver"
);
key!(
    CODE,
    "code",
    Form::Setting(Kind::Word(&["none", "xor"])),
    "none",
    "coding at the ingress edge, undone at the last router: xor sends pairs of packets over the first two `paths`, and \
     their parity over the third, or the first if there are two; of the three, any one may be lost"
);
key!(
    CACHE,
    "cache",
    Form::Setting(Kind::Bytes(Bytes(64_000), Bytes(1_000_000_000))),
    "",
    "memory of a cache at the router of the clients, for a traffic with `chunks`: it answers interests in chunks that have \
     come by the path; no cache if absent"
);
key!(
    CHEAPEST,
    "cheapest",
    count(1, 64),
    "1",
    "in place of `paths`: as many of the paths with the fewest links, if there are that many"
);
key!(
    DISJOINT,
    "disjoint",
    Form::Setting(Kind::Word(&["none", "links", "domains"])),
    "none",
    "what the paths that `cheapest` counts must not share; all of them must exist then"
);
key!(
    WEIGHTS,
    "weights",
    Form::Weights,
    "",
    "the share of each path; even if absent"
);
key!(
    SHARE,
    "share",
    Form::Setting(Kind::Word(&["flows", "packets"])),
    "flows",
    "what the paths share out: whole flows, or packets in turn, which may then overtake each other"
);
key!(
    SHAPE,
    "shape",
    Form::Setting(Kind::Rate(Rate::from_bps(8_000), Rate::PARAMETER_MAX)),
    "",
    "rate at which the packets leave on their paths, of their frames as they came; those beyond it wait at the edge; not \
     shaped if absent"
);
key!(
    SHAPE_LIMIT,
    "shape_limit",
    count(1, WAITING_MAX as u64),
    "100",
    "maximum packets that wait for the rate of `shape`; further ones are dropped"
);
key!(AT, "at", span(Span::ZERO, DAY), "", "when it happens");
key!(
    CUT,
    "cut",
    Form::Text,
    "",
    "the link that is cut; what is on its way there is lost"
);
key!(JOIN, "join", Form::Text, "", "the link that works again");
key!(
    CHANGED,
    "encapsulation",
    Form::Text,
    "",
    "the encapsulation that gets other `paths`"
);
