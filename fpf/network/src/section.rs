//! The sections of a network's file, and their keys.

use weir_base::setting::{Kind, Parameter, Scalar};
use weir_base::{Rate, Span};
use weir_fpf_lfb::Part;
use weir_model::{Class, ComponentPath, Section};

const fn text(id: u32, name: &'static str, most: usize, about: &'static str) -> Parameter {
    Parameter::new(name, Kind::Text(most), "", about).id(id)
}

/// A domain.
const DOMAIN_CLASS: Class = Class {
    name: "domain",
    id: 0x00F7_0330,
    about: "a domain of flexible packet forwarding: forwarding elements that share one table of LIDs",
    parameters: &[
        Parameter::new(
            "lid_bytes",
            Kind::Count(0, 2),
            "0",
            "length of the LIDs, in bytes; 0: as many as the links of the domain need, by equation (1) of the paper",
        )
        .id(1),
        Parameter::new(
            "special",
            Kind::Count(0, 65_535),
            "0",
            "LIDs reserved for multicast and other special rules; 0: as many as the domain has links to other domains",
        )
        .id(2),
        text(
            3,
            "behaviours",
            4096,
            "treatments that a path can choose, separated by spaces, each optionally with the queue for its packets: \
             plain premium:2; empty: one treatment",
        ),
    ],
    ..Class::PLAIN
};

/// A forwarding element.
const ELEMENT_CLASS: Class = Class {
    name: "element",
    id: 0x00F7_0331,
    about: "a forwarding element of a domain",
    parameters: &[
        text(1, "domain", 64, "name of its domain"),
        Parameter::new(
            "edge",
            Kind::Flag,
            "false",
            "whether paths may end at this element itself; otherwise they end at the first element of its domain",
        )
        .id(2),
    ],
    ..Class::PLAIN
};

/// A link.
const LINK_CLASS: Class = Class {
    name: "link",
    id: 0x00F7_0332,
    about: "a link between two forwarding elements",
    parameters: &[
        text(
            1,
            "from",
            140,
            "one end, ELEMENT:PORT or ELEMENT:PORT.VLAN; for a tunnel, ELEMENT:NAME with any name",
        ),
        text(2, "to", 140, "the other end"),
        text(
            3,
            "from_address",
            45,
            "IP address or MAC address of the port at `from`; for a tunnel, the IP address of this end; a VLAN needs \
             MAC addresses",
        ),
        text(4, "to_address", 45, "address of the port at `to`, like `from_address`"),
        Parameter::new(
            "cost",
            Kind::Count(1, 1_000_000),
            "1",
            "cost of the link; the path with the lowest total cost is chosen first",
        )
        .id(5),
        Parameter::new(
            "rate",
            Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX),
            "0 bit",
            "rate in each direction that paths may reserve; 0 bit: unlimited",
        )
        .id(6),
        Parameter::new(
            "tunnel",
            Kind::Flag,
            "false",
            "whether the link is a GRE tunnel between the two addresses, which the elements create themselves",
        )
        .id(7),
    ],
    ..Class::PLAIN
};

/// Keys that a path shares with the encapsulation that it produces.
pub(crate) const OF_ENCAPSULATION: [&str; 14] = [
    "priority",
    "source",
    "destination",
    "protocol",
    "source_ports",
    "destination_ports",
    "version",
    "ether_type",
    "timeout",
    "session",
    "police",
    "burst",
    "shape",
    "shape_limit",
];

/// Other keys of a path, with IDs that encapsulations do not use.
const OWN: [Parameter; 8] = [
    text(
        30,
        "from",
        64,
        "name of the element where the packets enter",
    ),
    text(
        31,
        "to",
        64,
        "name of the domain or edge element where the packets leave; empty: the last name in `through`",
    ),
    text(
        32,
        "through",
        4096,
        "names of the domains and elements along the path, including the first and the last, separated by spaces; empty: \
         the cheapest path",
    ),
    text(
        33,
        "behaviour",
        64,
        "treatment in every domain; empty: the first treatment of each domain",
    ),
    Parameter::new(
        "paths",
        Kind::Count(1, 64),
        "1",
        "number of paths over which the packets are spread",
    )
    .id(34),
    Parameter::new(
        "disjoint",
        Kind::Word(&["no", "links", "domains"]),
        "no",
        "what no two of the paths may share: links between domains, or domains along the way; no: the cheapest paths are used, and may share both",
    )
    .id(35),
    Parameter::new(
        "spread",
        Kind::Word(&["flow", "packet"]),
        "flow",
        "flow: each flow keeps one path; packet: packets alternate between the paths, and may be reordered",
    )
    .id(36),
    Parameter::new(
        "reserve",
        Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX),
        "0 bit",
        "rate to reserve on the links, which must have it available; 0 bit: no reservation",
    )
    .id(37),
];

const PATH_PARAMETERS: [Parameter; OF_ENCAPSULATION.len() + OWN.len()] = {
    let all = Part::Encapsulation.parameters();
    let mut parameters = [OWN[0]; OF_ENCAPSULATION.len() + OWN.len()];
    let mut n = 0;
    while n < OWN.len() {
        parameters[n] = OWN[n];
        n += 1;
    }
    let mut shared = 0;
    while shared < OF_ENCAPSULATION.len() {
        parameters[n] = named(all, OF_ENCAPSULATION[shared]);
        shared += 1;
        n += 1;
    }
    parameters
};

/// The parameter with this name; if there is none, the program does not compile.
const fn named(all: &[Parameter], name: &str) -> Parameter {
    let mut n = 0;
    while !is_same(all[n].name, name) {
        n += 1;
    }
    all[n]
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut n = 0;
    while n < a.len() && n < b.len() && a[n] == b[n] {
        n += 1;
    }
    n == a.len() && n == b.len()
}

/// A path.
pub const PATH_CLASS: Class = Class {
    name: "path",
    id: 0x00F7_0333,
    about: "packets, and the paths that they take",
    parameters: &PATH_PARAMETERS,
    ..Class::PLAIN
};

/// The lifetime of a request. A request has this key in addition to the keys of a path.
pub const LIFETIME_OF: &[Parameter] = &[Parameter::new(
    "lifetime",
    Kind::Span(Span::ZERO, Span::from_secs(31_536_000)),
    "0 s",
    "time after which a request ends; 0 s: never",
)];

/// A network.
pub(crate) static NETWORK: Section = Section {
    key: "",
    has_instances: false,
    about: "",
    classes: Vec::new,
    kind_default: "",
    no_value: |_, value| format!("{value} has no name"),
    sections: &[&DOMAIN, &ELEMENT, &LINK, &PATH],
};

const fn section(key: &'static str, about: &'static str, classes: fn() -> Vec<Class>) -> Section {
    Section {
        key,
        has_instances: true,
        about,
        classes,
        kind_default: "",
        no_value: named_section,
        sections: &[],
    }
}

static DOMAIN: Section = section("domain", "A domain. Choose any NAME.", || {
    vec![DOMAIN_CLASS]
});
static ELEMENT: Section = section("element", "A forwarding element. Choose any NAME.", || {
    vec![ELEMENT_CLASS]
});
static LINK: Section = section(
    "link",
    "A link between two elements. Choose any NAME.",
    || vec![LINK_CLASS],
);
static PATH: Section = section(
    "path",
    "Packets, and the paths that they take; becomes an encapsulation at the element where the packets enter. Choose any NAME.",
    || vec![PATH_CLASS],
);

fn named_section(path: &ComponentPath, value: &Scalar) -> String {
    format!("`{path}` is {value}, but must be a section: [{path}.NAME], with its components below")
}
