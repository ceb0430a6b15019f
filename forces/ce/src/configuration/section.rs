//! Sections of a control element's file, with the classes that define their keys.

use weir_base::setting::{Kind, Parameter, Scalar};
use weir_lfb::section;
use weir_model::{Class, ComponentPath, Section};

use crate::controller::{CONTROLLER, DEVICE};
use crate::exception::remote::REMOTE;

/// Largest number of an element within its ID space.
const NUMBER_MAX: u64 = 0x3fff_ffff;
/// Longest file path, in bytes.
const FILE_MAX: usize = 4096;

const ID: Parameter = Parameter::new(
    "id",
    Kind::Count(1, NUMBER_MAX),
    "1",
    "number of the element; ForCES IDs are this number for an FE, and 0x40000000 more for a CE",
);

/// Certificate parameter of an element; the parameter `key` names the private key.
const fn certificate(id: u32, about: &'static str) -> Parameter {
    Parameter::new("certificate", Kind::Text(FILE_MAX), "", about).id(id)
}

/// The class of the CE itself.
pub const ELEMENT: Class = Class {
    name: "ce",
    id: 0x00F7_0310,
    about: "the control element itself",
    parameters: &[
        ID.id(1),
        Parameter::new(
            "socket",
            Kind::Text(107),
            "/run/weir-ce/ce.sock",
            "Unix socket of the HTTP/JSON service; only its owner may use it",
        )
        .id(2),
        Parameter::new(
            "store",
            Kind::Text(FILE_MAX),
            "/var/lib/weir/ce.store",
            "file with the changes that operators made at run time; it is created with mode 0600",
        )
        .id(3),
        certificate(
            4,
            "file with the certificate of the CE; `weir keys` makes one; SIGHUP reads it and `key` again",
        ),
        Parameter::new(
            "key",
            Kind::Text(FILE_MAX),
            "",
            "file with the private key of the certificate",
        )
        .id(5),
        Parameter::new(
            "page",
            Kind::Text(64),
            "",
            "address and port of loopback for browsers, like \"127.0.0.1:8080\"; who knows its token may read and change components there; empty: only the socket has the page",
        )
        .id(6),
        Parameter::new(
            "page_token",
            Kind::Text(FILE_MAX),
            "",
            "file with a token of at least 16 letters and digits, which only its owner may read: the token of `page`; empty: a new one at each start, in the file beside `socket` that ends in `.token`",
        )
        .id(7),
        Parameter::new(
            "network",
            Kind::Text(FILE_MAX),
            "",
            "file of the network with flexible packet forwarding whose elements are FEs of this CE, and of its paths; empty: none",
        )
        .id(8),
        Parameter::new(
            "threads",
            Kind::Count(1, 64),
            "1",
            "threads; with more than one, the CE itself uses the first, and the transports of the FEs share the others",
        )
        .id(9),
    ],
    ..Class::PLAIN
};

/// Class of a listener of the CE.
pub const LISTENER: Class = Class {
    name: "listen",
    id: 0x00F7_0311,
    about: "a place where the control element listens for forwarding elements",
    parameters: &[
        Parameter::new(
            "address",
            Kind::Text(64),
            "127.0.0.1:6704",
            "address and port",
        )
        .id(1),
        Parameter::new(
            "transport",
            Kind::Word(&["quic", "tcp_udp", "sctp", "sctp_udp"]),
            "quic",
            "transport mapping layer (TML)",
        )
        .id(2),
        Parameter::new(
            "insecure",
            Kind::Flag,
            "false",
            "permit transports and peers that prove nothing: anybody who reaches the address can be any FE without a certificate; on loopback that is any local user",
        )
        .id(3),
    ],
    ..Class::PLAIN
};

/// The class of an FE that may associate.
pub const ELEMENT_OF: Class = Class {
    name: "fe",
    id: 0x00F7_0312,
    about: "a forwarding element that may associate",
    parameters: &[
        ID.id(1),
        certificate(
            2,
            "file with the certificate of the FE, and while it is replaced with the new one, too: no other is the FE with this ID; empty: only a listener with `insecure = true` accepts it",
        ),
    ],
    ..Class::PLAIN
};

/// The class of a library of classes.
pub const LIBRARY: Class = Class {
    name: "library",
    id: 0x00F7_0313,
    about: "a library of classes of other vendors",
    parameters: &[Parameter::new(
        "file",
        Kind::Text(FILE_MAX),
        "",
        "file with the library as XML (RFC 5812, RFC 7408)",
    )
    .id(1)],
    ..Class::PLAIN
};

/// The configuration of a CE as a section.
pub static CE: Section = Section {
    key: "",
    has_instances: false,
    about: "",
    classes: || vec![ELEMENT],
    kind_default: "",
    no_value: |_, value| format!("{value} has no name"),
    sections: &[&LISTEN, &FE, &LIBRARIES, &CONTROLLER, &DEVICE, &REMOTE],
};

static LISTEN: Section = Section {
    key: "listen",
    has_instances: true,
    about: "An address at which the CE listens for FEs. NAME is yours.",
    classes: || vec![LISTENER],
    kind_default: "",
    no_value: named,
    sections: &[],
};

pub(super) static FE: Section = Section {
    key: "fe",
    has_instances: true,
    about: "An FE that may associate, and its desired configuration: the keys of a router's file may stand here too. \
            NAME is yours.",
    classes: || vec![ELEMENT_OF],
    kind_default: "",
    no_value: named,
    sections: &[&section::PORT, &section::REDIRECT, &section::FPF],
};

static LIBRARIES: Section = Section {
    key: "library",
    has_instances: true,
    about: "A library of classes of another vendor, so that their components can be shown, got and set by name.",
    classes: || vec![LIBRARY],
    kind_default: "",
    no_value: named,
    sections: &[],
};

fn named(path: &ComponentPath, value: &Scalar) -> String {
    format!("`{path}` is {value}, but must be a section: [{path}.NAME], with its components below")
}
