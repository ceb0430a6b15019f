//! The keys of flexible packet forwarding.

use weir_base::setting::Kind;
use weir_base::{Bytes, Rate, Span};
use weir_experiment::scenario::parameters::{DAY, count, span};
use weir_experiment::scenario::{Form, Key};
use weir_fpf_path::edge::profile::WAITING_MAX;

/// `[domain.NAME]`
pub(super) const DOMAIN: &[&Key] = &[&ROUTERS, &LID_BYTES];
/// `[path.NAME]`
pub(super) const PATH: &[&Key] = &[&THROUGH];
/// `[encapsulation.NAME]`
pub(super) const ENCAPSULATION: &[&Key] = &[
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
pub(super) const EVENT: &[&Key] = &[&AT, &CUT, &JOIN, &CHANGED, &PATHS, &WEIGHTS];

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

key!(
    ROUTERS,
    "routers",
    Form::Names,
    "",
    "forwarding elements of this domain of flexible packet forwarding (FPF)"
);
key!(
    LID_BYTES,
    "lid_bytes",
    count(1, 2),
    "",
    "length of its local identifiers (LIDs) in bytes; if absent, as many as its links need"
);
key!(
    THROUGH,
    "through",
    Form::Names,
    "",
    "domains or routers of the path, from the sender's to the receiver's"
);
key!(
    OF_TRAFFIC,
    "traffic",
    Form::Text,
    "",
    "traffic whose packets get an FPF header at the sender's router; replies use IP"
);
key!(
    PATHS,
    "paths",
    Form::Names,
    "",
    "paths of the packets; with `copies_to` one path per receiver"
);
key!(
    CODE,
    "code",
    Form::Setting(Kind::Word(&["none", "xor"])),
    "none",
    "coding at the ingress edge, decoded at the last router: xor sends pairs of packets over the first two `paths`, \
     and their parity over the third path, or over the first if there are only two; any one of the three packets may \
     be lost"
);
key!(
    CACHE,
    "cache",
    Form::Setting(Kind::Bytes(Bytes(64_000), Bytes(1_000_000_000))),
    "",
    "memory of a cache at the clients' router, for traffic with `chunks`: it answers interests for chunks that it \
     received over the path; no cache if absent"
);
key!(
    CHEAPEST,
    "cheapest",
    count(1, 64),
    "1",
    "instead of `paths`: number of paths to use, those with the fewest links, or fewer if there are not as many"
);
key!(
    DISJOINT,
    "disjoint",
    Form::Setting(Kind::Word(&["none", "links", "domains"])),
    "none",
    "what the paths of `cheapest` must not share; that number of paths must then exist"
);
key!(
    WEIGHTS,
    "weights",
    Form::Weights,
    "",
    "weight of each path; equal weights if absent"
);
key!(
    SHARE,
    "share",
    Form::Setting(Kind::Word(&["flows", "packets"])),
    "flows",
    "what is distributed over the paths: whole flows, or single packets in turn, which may then be reordered"
);
key!(
    SHAPE,
    "shape",
    Form::Setting(Kind::Rate(Rate::from_bps(8_000), Rate::PARAMETER_MAX)),
    "",
    "rate at which packets enter their paths, counted on the frames as received; packets above the rate are queued at \
     the edge; unlimited if absent"
);
key!(
    SHAPE_LIMIT,
    "shape_limit",
    count(1, WAITING_MAX as u64),
    "100",
    "maximum packets in the queue of `shape`; further packets are dropped"
);
key!(AT, "at", span(Span::ZERO, DAY), "", "time of the event");
key!(
    CUT,
    "cut",
    Form::Text,
    "",
    "link to cut; packets in flight on it are lost"
);
key!(JOIN, "join", Form::Text, "", "link to restore");
key!(
    CHANGED,
    "encapsulation",
    Form::Text,
    "",
    "encapsulation that gets other `paths`"
);
