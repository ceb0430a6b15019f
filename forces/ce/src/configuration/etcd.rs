//! The section `[etcd]`: several control elements with the same FEs share their desired state, and elect a leader.
//!
//! ```toml
//! [etcd]
//! endpoints = "https://192.0.2.11:2379 https://192.0.2.12:2379 https://192.0.2.13:2379"
//! ca = "etcd-ca.crt"
//! certificate = "etcd-client.crt"
//! key = "etcd-client.key"
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use weir_base::Span;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_model::{Class, ComponentPath, Fault, Section};
use weir_protocol::wire::Id;

use crate::election::LEASE_MAX;

/// The class of the section.
pub(super) const CLASS: Class = Class {
    name: "etcd",
    id: 0x00F7_0325,
    about: "the etcd in which several control elements share their desired state",
    parameters: &[
        Parameter::new(
            "endpoints",
            Kind::Text(4096),
            "",
            "URLs of the members of etcd, separated by spaces, like \"https://192.0.2.11:2379\"",
        )
        .id(1),
        Parameter::new(
            "prefix",
            Kind::Text(256),
            "/weir/",
            "beginning of all keys; control elements with the same prefix share their desired state",
        )
        .id(2),
        Parameter::new(
            "name",
            Kind::Text(64),
            "",
            "name of this CE for the operators of the others; empty: its ForCES ID",
        )
        .id(3),
        Parameter::new(
            "lease",
            Kind::Span(Span::from_secs(1), LEASE_MAX),
            "2 s",
            "time without a sign of the leader after which another CE leads; the same for all CEs",
        )
        .id(4),
        Parameter::new(
            "ca",
            Kind::Text(4096),
            "",
            "file with the certificates of the authorities that have signed etcd's certificates",
        )
        .id(5),
        Parameter::new(
            "certificate",
            Kind::Text(4096),
            "",
            "certificate file of this CE for etcd; empty: etcd asks for none",
        )
        .id(6),
        Parameter::new("key", Kind::Text(4096), "", "private key file of `certificate`").id(7),
        Parameter::new(
            "insecure",
            Kind::Flag,
            "false",
            "permit `http` to other addresses than loopback: anyone on the way can change the desired state of all FEs",
        )
        .id(8),
    ],
    ..Class::PLAIN
};

/// The section of a control element's file.
pub(super) static ETCD: Section = Section {
    key: "etcd",
    has_instances: false,
    about: "An etcd in which several CEs with the same FEs share what operators have set; it replaces `store`. They elect \
            a leader, which alone changes FEs. Needs a build with the feature `etcd`.",
    classes: || vec![CLASS],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [{path}], with `endpoints`")
    },
    sections: &[],
};

/// A member of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address of the host, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Whether it is `https`.
    pub is_tls: bool,
}

/// An etcd that several CEs share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPlan {
    /// Members of etcd.
    pub endpoints: Vec<Endpoint>,
    /// The beginning of all keys, with a slash at its end.
    pub prefix: String,
    /// Name of this CE.
    pub name: String,
    /// Lease of a leader.
    pub lease: Span,
    /// File with the certificates of the authorities of etcd.
    pub ca: Option<String>,
    /// Files of this CE's certificate and key for etcd.
    pub identity: Option<(String, String)>,
}

impl EtcdPlan {
    /// Checks the section of the CE with this ID.
    pub(super) fn check(settings: &Settings, ce: Id) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut wrong =
            |key, why: String| faults.push(Fault::new(ComponentPath::new(["etcd", key]), why));
        let file = |name| super::file(settings, name);
        let mut endpoints = Vec::new();
        for url in settings.text("endpoints").split_whitespace() {
            match Endpoint::parse(url) {
                Some(endpoint) => endpoints.push(endpoint),
                None => wrong(
                    "endpoints",
                    format!(
                        "\"{url}\" is not an endpoint of etcd, like \"https://192.0.2.11:2379\""
                    ),
                ),
            }
        }
        if settings.text("endpoints").trim().is_empty() {
            let why = "etcd needs its `endpoints`, like endpoints = \"https://192.0.2.11:2379\"";
            wrong("endpoints", why.to_owned());
        }
        let open = endpoints.iter().find(|e| !e.is_tls && !e.is_loopback());
        if let Some(open) = open.filter(|_| !settings.flag("insecure")) {
            let why = format!(
                "{open} is neither authenticated nor encrypted: use `https` with `ca`, or set `insecure = true`"
            );
            wrong("endpoints", why);
        }
        if endpoints.iter().any(|e| e.is_tls) && file("ca").is_none() {
            let why = "`https` needs `ca`, the file with the certificates of etcd's authorities";
            wrong("ca", why.to_owned());
        }
        let identity = file("certificate").zip(file("key"));
        if identity.is_none() && (file("certificate").is_some() || file("key").is_some()) {
            wrong("key", "`certificate` and `key` need each other".to_owned());
        }
        let prefix = settings.text("prefix");
        if prefix.len() < 2 || !prefix.ends_with('/') {
            wrong(
                "prefix",
                format!("`prefix` is \"{prefix}\", but must end with `/`, like \"/weir/\""),
            );
        }
        let name = match settings.text("name") {
            "" => ce.to_string(),
            name => name.to_owned(),
        };
        let plan = Self {
            endpoints,
            prefix: prefix.to_owned(),
            name,
            lease: settings.span("lease"),
            ca: file("ca"),
            identity,
        };
        if faults.is_empty() {
            Ok(plan)
        } else {
            Err(faults)
        }
    }
}

impl Endpoint {
    fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let is_tls = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (host, port) = rest.trim_end_matches('/').rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(host) => host
                .strip_suffix(']')?
                .parse::<Ipv6Addr>()
                .ok()?
                .to_string(),
            None => host.to_owned(),
        };
        let is_known = |c: char| c.is_ascii_alphanumeric() || "-.:_".contains(c);
        let endpoint = Self {
            port: port.parse().ok()?,
            is_tls,
            host,
        };
        (!endpoint.host.is_empty() && endpoint.host.chars().all(is_known)).then_some(endpoint)
    }

    /// Host and port, as in a URL.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn is_loopback(&self) -> bool {
        self.host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}
