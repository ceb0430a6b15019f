//! A forwarding element (FE): the sections `[fe]` and `[ce.NAME]`, in addition to those of a router.
//!
//! ```toml
//! [fe]
//! id = 2
//! certificate = "edge-1.crt"        # paths are relative to the file
//! key = "edge-1.key"
//!
//! [ce.main]
//! id = 1
//! address = "192.0.2.1:6704"
//! certificate = "ce.crt"            # this certificate is the CE with this ID, and no other
//!
//! [port.wan]                        # the router, until a CE changes it
//! rate = "95 Mbit"
//! ```
//!
//! None of these keys can change while the FE runs, but SIGHUP reads the files of certificates again. Values that a CE
//! sets (heartbeats, failover) are not written to the file.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_base::setting::{Kind, Parameter, Scalar, Settings};
use weir_base::{Rate, Span};
use weir_discipline::channel::schedule::Schedule;
use weir_model::fault::ResultCode;
use weir_model::{Change, Class, ComponentPath, Fault, Section};

use crate::layers::joined;
use crate::section::{ROUTER, SECTIONS};

/// The largest number of an element within its ID space (RFC 5810, section 6.1).
const NUMBER_MAX: u64 = 0x3fff_ffff;
/// Maximum CEs of an FE.
pub const CES_MAX: usize = 16;
/// Longest path of a file, in bytes.
const FILE_MAX: usize = 4096;
/// Maximum time: the protocol encodes milliseconds in 32 bits, a little more than 49 days.
const MILLIS_MAX: Span = Span::from_millis(u32::MAX as u64);

const fn file(id: u32, name: &'static str, about: &'static str) -> Parameter {
    Parameter::new(name, Kind::Text(FILE_MAX), "", about).id(id)
}

const fn time(
    id: u32,
    name: &'static str,
    default: &'static str,
    about: &'static str,
) -> Parameter {
    let kind = Kind::Span(Span::from_millis(1), MILLIS_MAX);
    Parameter::new(name, kind, default, about).id(id)
}

/// The class of the FE itself.
pub const ELEMENT: Class = Class {
    name: "fe",
    id: 0x00F7_0320,
    about: "the forwarding element (FE) of the router",
    parameters: &[
        Parameter::new(
            "id",
            Kind::Count(1, NUMBER_MAX),
            "1",
            "number of the FE, which is its ForCES ID; unique among the FEs of a CE",
        )
        .id(1),
        Parameter::new(
            "name",
            Kind::Text(40),
            "",
            "name that the FE reports to its CEs (FEName); a CE may change it",
        )
        .id(2),
        file(3, "certificate", "certificate file of the FE; `weir enrol` or `weir keys` generates it; SIGHUP reloads it and `key`"),
        file(4, "key", "private key file of the certificate"),
        Parameter::new(
            "cefti",
            Kind::Span(Span::ZERO, MILLIS_MAX),
            "10080 min",
            "how long the FE forwards without a CE (CEFTI); 0 s: it stops when it loses its CE (CEFailoverPolicy 0). \
             The default is a week: a router at the edge must not stop because its CE is unreachable",
        )
        .id(5),
        Parameter::new(
            "standby",
            Kind::Word(Standby::WORDS),
            "cold",
            "role of the CEs other than the master (HAMode); none: the FE tries only the first CE; cold: the FE tries \
             the next CE when it loses the master; hot: the FE associates with all CEs (RFC 7121)",
        )
        .id(6),
        Parameter::new(
            "ce_heartbeats",
            Kind::Flag,
            "true",
            "whether the CE sends heartbeats, so that the FE drops the association with a silent CE (CEHBPolicy 0)",
        )
        .id(7),
        time(8, "ce_dead", "30 s", "time without messages after which the FE drops the association with a CE (CEHDI)"),
        Parameter::new(
            "fe_heartbeats",
            Kind::Flag,
            "false",
            "whether the FE sends unsolicited heartbeats (FEHBPolicy 1)",
        )
        .id(9),
        time(10, "fe_interval", "500 ms", "interval of the FE's heartbeats (FEHI)"),
    ],
    ..Class::PLAIN
};

/// The class of a CE of the FE.
pub const CONTROLLER: Class = Class {
    name: "ce",
    id: 0x00F7_0321,
    about: "a control element (CE) of the FE, and the channel to it",
    parameters: &[
        Parameter::new(
            "id",
            Kind::Count(1, NUMBER_MAX),
            "1",
            "number of the CE; its ForCES ID is 0x40000000 plus this number",
        )
        .id(1),
        Parameter::new(
            "order",
            Kind::Count(1, CES_MAX as u64),
            "1",
            "rank among the CEs: the lowest is the preferred master; equal ranks are ordered by name",
        )
        .id(2),
        Parameter::new(
            "address",
            Kind::Text(64),
            "127.0.0.1:6704",
            "address and port at which the CE listens",
        )
        .id(3),
        Parameter::new(
            "transport",
            Kind::Word(Transport::WORDS),
            "quic",
            "transport mapping layer (TML); sctp and sctp_udp (SCTP over IP or UDP) require `insecure`",
        )
        .id(4),
        file(5, "certificate", "certificate file of the CE; during a replacement it also contains the new certificate; \
                                no other peer is accepted as the CE with this ID"),
        Parameter::new(
            "rate",
            Kind::Rate(Rate::from_bps(0), Rate::from_mbps(400_000)),
            "0 bit",
            "rate to which messages to the CE are paced; 0 bit: as fast as the transport accepts them",
        )
        .id(6),
        Parameter::new(
            "schedule",
            Kind::Word(Schedule::WORDS),
            "dppbrb",
            "scheduling of control messages and redirected packets; dppbrb: probabilistic priority; priorities: strict \
             priority (RFC 5811); drop_tail: one queue",
        )
        .id(7),
        Parameter::new(
            "insecure",
            Kind::Flag,
            "false",
            "permit an unauthenticated transport and peer: anyone who reaches or takes over the address of the CE \
             controls this router; on loopback, any local user",
        )
        .id(8),
        Parameter::new(
            "enrol",
            Kind::Text(64),
            "",
            "address and port of the CE's `enrol`, like \"192.0.2.1:6708\": `weir enrol` uses it, and the FE renews \
             its certificate there before it expires; empty: the operator replaces certificates",
        )
        .id(9),
    ],
    ..Class::PLAIN
};

/// The configuration of an FE as a section: the sections of a router, and two more.
pub static FE: Section = Section {
    sections: &joined::<_, { SECTIONS.len() + 2 }>(&[SECTIONS, &[&ELEMENT_SECTION, &CONTROLLERS]]),
    ..ROUTER
};

static ELEMENT_SECTION: Section = Section {
    key: "fe",
    has_instances: false,
    about: "A forwarding element (ForCES): a file with this section is for `weir fe`. See docs/forces.md.",
    classes: || vec![ELEMENT],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [fe], with its components below")
    },
    sections: &[],
};

static CONTROLLERS: Section = Section {
    key: "ce",
    has_instances: true,
    about: "A control element of the FE; up to 16. Choose any NAME.",
    classes: || vec![CONTROLLER],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [ce.main], with its components below")
    },
    sections: &[],
};

weir_base::words! {
    /// The transport between a CE and an FE.
    #[derive(Default)]
    pub enum Transport {
        /// QUIC: a stream for control messages, datagrams for redirects.
        #[default]
        Quic = "quic",
        /// TLS on TCP for control messages, sealed UDP for redirects.
        TcpUdp = "tcp_udp",
        /// SCTP over IP (RFC 5811).
        Sctp = "sctp",
        /// SCTP over UDP (RFC 6951).
        SctpUdp = "sctp_udp",
    }
}

impl Transport {
    /// Whether the peers can authenticate.
    pub const fn authenticates(self) -> bool {
        matches!(self, Self::Quic | Self::TcpUdp)
    }
}

weir_base::words! {
    /// The role of the CEs other than the master (RFC 7121).
    pub enum Standby {
        /// The FE associates with the first CE only.
        None = "none",
        /// The FE associates with the next CE when the master is lost.
        Cold = "cold",
        /// The FE is associated with all CEs.
        Hot = "hot",
    }
}

/// The checked sections of an FE.
#[derive(Clone, Debug, PartialEq)]
pub struct FePlan {
    /// ForCES ID.
    pub id: u32,
    /// The name that the FE shows to its CEs (FEName).
    pub name: String,
    /// File of the FE's certificate; empty: no certificate.
    pub certificate: String,
    /// File of the FE's private key; empty: no key.
    pub key: String,
    /// Time for which the FE forwards without a CE (CEFTI); `None`: not at all.
    pub cefti: Option<Span>,
    /// The role of the CEs other than the master.
    pub standby: Standby,
    /// Whether the CE sends heartbeats, and the silence after which the FE gives a CE up.
    pub ce_heartbeats: (bool, Span),
    /// Whether the FE sends heartbeats without being asked, and their interval.
    pub fe_heartbeats: (bool, Span),
    /// CEs, the preferred master first.
    pub ces: Vec<CePlan>,
}

/// A CE of an FE.
#[derive(Clone, Debug, PartialEq)]
pub struct CePlan {
    /// Name in the configuration.
    pub name: String,
    /// ForCES ID.
    pub id: u32,
    /// Address at which the CE listens.
    pub address: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// File of the CE's certificate; empty: the CE does not authenticate itself.
    pub certificate: String,
    /// The rate of the channel to the CE; `None`: not paced.
    pub rate: Option<Rate>,
    /// The scheduling of control messages and redirected packets.
    pub schedule: Schedule,
    /// Whether an unauthenticated transport and peer are permitted.
    pub insecure: bool,
    /// Address at which the CE enrols FEs, and renews certificates.
    pub enrol: Option<SocketAddr>,
}

/// Whether this is a change of an FE's own sections, not of its router.
pub fn is_of_fe(change: &Change) -> bool {
    matches!(change.path.segments().first(), Some(&("fe" | "ce")))
}

/// The settings of a section under check.
struct Given<'a> {
    path: ComponentPath,
    class: &'static Class,
    values: Vec<(&'a str, &'a Scalar)>,
}

impl Given<'_> {
    fn check(&self, faults: &mut Vec<Fault>) -> Settings {
        let mut settings = Settings::defaults(self.class.parameters);
        for (name, value) in &self.values {
            if let Err(error) = settings.set(self.class.parameters, name, value) {
                faults.push(Fault::of_setting(&self.path, self.class, &error));
            }
        }
        settings
    }
}

impl FePlan {
    /// Checks the changes of a configuration for which [`is_of_fe`] holds. Reports all faults.
    pub fn check(changes: &[Change]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let at = |path: ComponentPath, class| Given {
            path,
            class,
            values: Vec::new(),
        };
        let mut element = at(ComponentPath::new(["fe"]), &ELEMENT);
        let mut controllers = BTreeMap::new();
        for change in changes {
            match FE.set(change) {
                Ok(set) if set.section.has_instances => {
                    if let Some(name) = set.instance {
                        let path = ComponentPath::new(["ce", name]);
                        let given = controllers
                            .entry(name)
                            .or_insert_with(|| at(path, &CONTROLLER));
                        given.values.extend(set.parameter);
                    }
                }
                Ok(set) => element.values.extend(set.parameter),
                Err(fault) => faults.push(fault),
            }
        }
        let settings = element.check(&mut faults);
        let mut ces: Vec<(u64, CePlan)> = Vec::new();
        for (name, given) in controllers {
            let settings = given.check(&mut faults);
            match CePlan::new(name, &given.path, &settings) {
                Ok(ce) => ces.push((settings.count("order"), ce)),
                Err(fault) => faults.push(fault),
            }
        }
        ces.sort_by_key(|(order, _)| *order); // stable: then by name
        let plan = Self::new(&settings, ces.into_iter().map(|(_, ce)| ce).collect());
        if faults.is_empty() {
            plan.check_together(&mut faults);
        }
        if faults.is_empty() {
            Ok(plan)
        } else {
            Err(faults)
        }
    }

    fn new(settings: &Settings, ces: Vec<CePlan>) -> Self {
        Self {
            id: settings.count("id") as u32, // its range is checked
            name: settings.text("name").to_owned(),
            certificate: settings.text("certificate").to_owned(),
            key: settings.text("key").to_owned(),
            cefti: Some(settings.span("cefti")).filter(|time| *time > Span::ZERO),
            standby: settings.choice("standby"),
            ce_heartbeats: (settings.flag("ce_heartbeats"), settings.span("ce_dead")),
            fe_heartbeats: (settings.flag("fe_heartbeats"), settings.span("fe_interval")),
            ces,
        }
    }

    fn check_together(&self, faults: &mut Vec<Fault>) {
        let mut wrong = |path: ComponentPath, why: String| faults.push(Fault::new(path, why));
        let element = ComponentPath::new(["fe"]);
        if self.ces.is_empty() {
            let why = "the FE has no CE; add `[ce.main]` with its `id` and `address`";
            wrong(element.clone(), why.to_owned());
        }
        if self.ces.len() > CES_MAX {
            let why = format!(
                "there are {} CEs, but at most {CES_MAX} are permitted",
                self.ces.len()
            );
            wrong(element.clone(), why);
        }
        if self.standby == Standby::Hot && self.cefti.is_none() {
            let why = "`standby` is hot, so the FE must forward without a master: set `cefti` above 0 s, like \
                       cefti = \"5 min\"";
            wrong(element.join("cefti"), why.to_owned());
        }
        for (n, ce) in self.ces.iter().enumerate() {
            let path = ComponentPath::new(["ce", &ce.name]);
            if let Some(other) = self.ces[..n].iter().find(|other| other.id == ce.id) {
                wrong(
                    path.join("id"),
                    format!("the CE `{}` already has this ID", other.name),
                );
            }
            // A certificate of one side is useless without the certificate of the other side.
            let needs_files =
                !ce.insecure || ce.transport == Transport::Quic || !ce.certificate.is_empty();
            let files = [
                (
                    ce.certificate.is_empty(),
                    path.join("certificate"),
                    "the certificate of the CE",
                ),
                (
                    self.certificate.is_empty(),
                    element.join("certificate"),
                    "the certificate of the FE",
                ),
                (
                    self.key.is_empty(),
                    element.join("key"),
                    "the private key of the FE",
                ),
            ];
            for (is_missing, path, what) in files {
                if is_missing && needs_files {
                    let name = &ce.name;
                    let why = format!(
                        "{what} is missing: without it the peers cannot authenticate, and on loopback any local user \
                         could be the CE; generate it with `weir keys`. To run without certificates, set \
                         ce.{name}.transport = \"tcp_udp\" and ce.{name}.insecure = true"
                    );
                    wrong(path, why);
                }
            }
            if !ce.transport.authenticates() && !ce.insecure {
                let why = "`sctp` neither authenticates nor encrypts: use \"quic\" or \"tcp_udp\", or \
                           set `insecure = true`";
                wrong(path.join("transport"), why.to_owned());
            }
        }
    }
}

impl CePlan {
    fn new(name: &str, path: &ComponentPath, settings: &Settings) -> Result<Self, Fault> {
        let enrols = !settings.text("enrol").is_empty();
        let enrol = enrols.then(|| address(settings, path, "enrol", "192.0.2.1:6708"));
        Ok(Self {
            name: name.to_owned(),
            id: 0x4000_0000 + settings.count("id") as u32, // its range is checked
            address: address(settings, path, "address", "192.0.2.1:6704")?,
            transport: settings.choice("transport"),
            certificate: settings.text("certificate").to_owned(),
            rate: Some(settings.rate("rate")).filter(|rate| rate.as_bps() > 0),
            schedule: settings.choice("schedule"),
            insecure: settings.flag("insecure"),
            enrol: enrol.transpose()?,
        })
    }
}

/// A setting that is an address and a port, like this example.
pub fn address(
    settings: &Settings,
    path: &ComponentPath,
    name: &str,
    example: &str,
) -> Result<SocketAddr, Fault> {
    let text = settings.text(name);
    text.parse().map_err(|_| {
        let why = format!(
            "`{name}` is \"{text}\", but must be an IP address and a port, like \"{example}\""
        );
        Fault::new(path.join(name), why).code(ResultCode::ValueOutOfRange)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[(&str, &str)]) -> Result<FePlan, Vec<String>> {
        let change = |(path, value): &(&str, &str)| {
            Change::new(
                ComponentPath::new(path.split('.')),
                Scalar::Text((*value).to_owned()),
            )
        };
        let changes: Vec<_> = given.iter().map(change).collect();
        assert!(changes.iter().all(is_of_fe));
        FePlan::check(&changes).map_err(|faults| faults.iter().map(Fault::to_string).collect())
    }

    #[test]
    fn the_ces_come_in_their_order() {
        let plan = check(&[
            ("fe.id", "2"),
            ("ce.a.id", "7"),
            ("ce.a.order", "2"),
            ("ce.b.id", "8"),
            ("ce.c.id", "9"),
            ("ce.c.order", "2"),
            ("ce.a.transport", "tcp_udp"),
            ("ce.a.insecure", "true"),
            ("ce.b.transport", "tcp_udp"),
            ("ce.b.insecure", "true"),
            ("ce.c.transport", "tcp_udp"),
            ("ce.c.insecure", "true"),
        ])
        .unwrap();
        let ids: Vec<_> = plan.ces.iter().map(|ce| ce.id).collect();
        assert_eq!(ids, [0x4000_0008, 0x4000_0007, 0x4000_0009]);
        assert_eq!(
            (plan.id, plan.cefti),
            (2, Some(Span::from_secs(7 * 86_400)))
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        for (given, expected) in [
            (&[("fe.id", "2")][..], "add `[ce.main]`"),
            (
                &[("fe.idd", "2"), ("ce.a.id", "1")],
                "fe.idd: unknown key `idd`; did you mean `id`?",
            ),
            (
                &[("ce.a.id", "1"), ("ce.b.id", "1")],
                "ce.b.id: the CE `a` already has this ID",
            ),
            (
                &[("ce.a.address", "192.0.2.1")],
                "must be an IP address and a port, like \"192.0.2.1:6704\"",
            ),
            (
                &[("ce.a.address", "192.0.2.1:1")],
                "ce.a.certificate: the certificate of the CE is missing",
            ),
            (
                &[("ce.a.id", "1")], // QUIC, also on loopback
                "ce.a.certificate: the certificate of the CE is missing",
            ),
            (
                &[("ce.a.transport", "tcp_udp"), ("ce.a.certificate", "a.crt")],
                "fe.key: the private key of the FE is missing",
            ),
            (
                &[("ce.a.transport", "tcp_udp")], // plain on loopback
                "ce.a.insecure = true",
            ),
            (
                &[("ce.a.transport", "sctp_udp")],
                "`sctp` neither authenticates nor encrypts",
            ),
            (
                &[("fe.standby", "hot"), ("fe.cefti", "0 s"), ("ce.a.id", "1")],
                "set `cefti` above 0 s",
            ),
        ] {
            let faults = check(given).unwrap_err();
            assert!(
                faults.iter().any(|fault| fault.contains(expected)),
                "{expected}: {faults:?}"
            );
        }
    }
}
