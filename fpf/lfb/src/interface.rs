//! The sections `[fpf.interface.NAME]`: interfaces that receive and send FPF packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_base::setting::{Kind, Parameter, Settings};
use weir_fpf_path::{Builder, Interface, InterfaceId};

use crate::Wrong;

const fn address(id: u32, name: &'static str, about: &'static str) -> Parameter {
    Parameter::new(name, Kind::Text(45), "", about).id(id)
}

/// The components of a section.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "port",
        Kind::Text(64),
        "",
        "name of the port; empty for a tunnel",
    )
    .id(2),
    Parameter::new(
        "vlan",
        Kind::Count(0, 4094),
        "0",
        "VLAN of the port; 0: untagged frames; weir adds and removes the tag itself",
    )
    .id(3),
    address(
        4,
        "local",
        "local address of a GRE tunnel, which weir creates itself; set with `remote`, instead of `port`",
    ),
    address(
        5,
        "remote",
        "remote address of the tunnel, reached through the routes",
    ),
    Parameter::new(
        "ports",
        Kind::Text(1024),
        "",
        "names of the ports that accept packets of the tunnel, separated by spaces; empty: the ports to which the \
         routes to `remote` lead; other ports drop them",
    )
    .id(6),
];

/// The interfaces in the table, by name.
pub(super) type Interfaces = BTreeMap<String, Added>;

/// An interface in the table.
#[derive(Clone, Copy)]
pub(super) struct Added {
    pub(super) id: InterfaceId,
    pub(super) is_tunnel: bool,
}

/// Adds the interface to the table.
pub(super) fn add(
    settings: &Settings,
    others: &Interfaces,
    builder: &mut Builder,
) -> Result<Added, Wrong> {
    let interface = interface(settings)?;
    let is_tunnel = matches!(interface, Interface::Gre { .. });
    let id = builder.interface(interface);
    let id = id.map_err(|error| Wrong::whole(error.to_string()))?;
    match others.iter().find(|(_, other)| other.id == id) {
        Some((other, _)) => Err(Wrong::whole(format!(
            "the interface `{other}` is identical"
        ))),
        None => Ok(Added { id, is_tunnel }),
    }
}

fn interface(settings: &Settings) -> Result<Interface, Wrong> {
    let [port, local, remote] = ["port", "local", "remote"].map(|name| settings.text(name));
    let vlan = settings.count("vlan") as u16; // its range is checked
    if port.is_empty() == (local.is_empty() && remote.is_empty()) {
        let why = "set either `port`, or `local` and `remote` for a tunnel";
        return Err(Wrong::whole(why));
    }
    if port.is_empty() {
        if vlan != 0 {
            return Err(Wrong::new("vlan", "a tunnel has no VLAN; remove `vlan`"));
        }
        let (local, remote) = (host("local", local)?, host("remote", remote)?);
        let tunnel = Interface::gre(local, remote).map_err(|e| Wrong::whole(e.to_string()))?;
        return Ok(tunnel.entered_at(entrances(settings)));
    }
    if !entrances(settings).is_empty() {
        let why = "`ports` is only for a tunnel; an interface on a `port` receives the frames of that port";
        return Err(Wrong::new("ports", why));
    }
    match vlan {
        0 => Ok(Interface::ethernet(port)),
        id => Interface::vlan(port, id).map_err(|e| Wrong::new("vlan", e.to_string())),
    }
}

/// The names of the ports at which a tunnel is entered.
pub(super) fn entrances(settings: &Settings) -> Vec<String> {
    let words = settings.text("ports").split_whitespace();
    words.map(str::to_owned).collect()
}

fn host(name: &'static str, text: &str) -> Result<IpAddr, Wrong> {
    text.parse().map_err(|_| {
        Wrong::new(
            name,
            format!("\"{text}\" is not an address, like 192.0.2.1"),
        )
    })
}
