//! Sections of a control element's file, with the classes that define their keys.

use weir_base::setting::{Kind, Parameter, Scalar};
use weir_lfb::fe::Transport;
use weir_lfb::section;
use weir_model::{Class, ComponentPath, Section};

use super::etcd::ETCD;
use crate::controller::{CONTROLLER, DEVICE};
use crate::exception::remote::REMOTE;
use crate::router::ROUTER;

/// Largest number of an element within its ID space.
const NUMBER_MAX: u64 = 0x3fff_ffff;
/// Longest file path, in bytes.
const FILE_MAX: usize = 4096;

const ID: Parameter = Parameter::new(
    "id",
    Kind::Count(1, NUMBER_MAX),
    "1",
    "number of the element; the ForCES ID of an FE is this number, that of a CE is 0x40000000 higher",
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
            "certificate file of the CE; `weir keys` generates it; SIGHUP reloads it and `key`",
        ),
        Parameter::new(
            "key",
            Kind::Text(FILE_MAX),
            "",
            "private key file of the certificate",
        )
        .id(5),
        Parameter::new(
            "page",
            Kind::Text(64),
            "",
            "loopback address and port of the web page, like \"127.0.0.1:8080\"; its token permits reading \
             and changing components; empty: the page is served only on the socket",
        )
        .id(6),
        Parameter::new(
            "page_token",
            Kind::Text(FILE_MAX),
            "",
            "file with the token of `page`: at least 16 letters and digits, accessible only to its owner; empty: a new token \
             at each start, in the file next to `socket` whose name ends in `.token`",
        )
        .id(7),
        Parameter::new(
            "network",
            Kind::Text(FILE_MAX),
            "",
            "file that defines a network with flexible packet forwarding, whose elements are FEs of this CE, and its \
             paths; empty: no network",
        )
        .id(8),
        Parameter::new(
            "threads",
            Kind::Count(1, 64),
            "1",
            "number of threads; with more than one, the CE itself uses the first, and the transports of the FEs share the others",
        )
        .id(9),
        Parameter::new(
            "enrol",
            Kind::Text(64),
            "",
            "address and port at which FEs enrol and renew their certificates (TCP), like \"192.0.2.1:6708\"; an FE without \
             a pinned certificate can connect only while a token of `weir invite` is open; empty: no enrolment",
        )
        .id(10),
    ],
    ..Class::PLAIN
};

/// Class of a listener of the CE.
pub const LISTENER: Class = Class {
    name: "listen",
    id: 0x00F7_0311,
    about: "an address at which the control element listens for forwarding elements",
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
            Kind::Word(Transport::WORDS),
            "quic",
            "transport mapping layer (TML)",
        )
        .id(2),
        Parameter::new(
            "insecure",
            Kind::Flag,
            "false",
            "permit transports and peers without authentication: anyone who can reach the address can act as any \
             FE without a certificate; on loopback, any local user can",
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
            "certificate file of the FE; during a replacement it contains the old and the new one; `weir invite` and \
             renewals write it; only a peer with this certificate is accepted as this FE; empty: only a listener with `insecure = true` accepts the FE",
        ),
    ],
    ..Class::PLAIN
};

/// The class of a library of classes.
pub const LIBRARY: Class = Class {
    name: "library",
    id: 0x00F7_0313,
    about: "a library of another vendor's classes",
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
    sections: &[
        &LISTEN,
        &FE,
        &ETCD,
        &LIBRARIES,
        &CONTROLLER,
        &DEVICE,
        &REMOTE,
        &ROUTER,
    ],
};

static LISTEN: Section = Section {
    key: "listen",
    has_instances: true,
    about: "An address at which the CE listens for FEs. Choose any NAME.",
    classes: || vec![LISTENER],
    kind_default: "",
    no_value: named,
    sections: &[],
};

pub(super) static FE: Section = Section {
    key: "fe",
    has_instances: true,
    about: "An FE that may associate, and its desired configuration: keys of a router's file are permitted here too. \
            Choose any NAME.",
    classes: || vec![ELEMENT_OF],
    kind_default: "",
    no_value: named,
    sections: section::SECTIONS,
};

static LIBRARIES: Section = Section {
    key: "library",
    has_instances: true,
    about: "A library of another vendor's classes, so that their components can be shown, read and set by name.",
    classes: || vec![LIBRARY],
    kind_default: "",
    no_value: named,
    sections: &[],
};

fn named(path: &ComponentPath, value: &Scalar) -> String {
    format!("`{path}` is {value}, but must be a section: [{path}.NAME], with its components below")
}
