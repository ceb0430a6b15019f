//! Findings among the links: masters of ports, VRFs, XDP programs, devices on ports, settings of bridges.

use std::collections::BTreeMap;
use std::io;

use weir_element::Finding;
use weir_element::kernel::kinds::{BRIDGE_FILTER, MASTER, UPPER, VRF, XDP};
use weir_path::plane::Mode;

use super::Scope;
use crate::kernel::netlink::{NetlinkSocket, Request, attribute, text, u32_at};

/// Length of `struct ifinfomsg`.
const HEADER_BYTES: usize = 16;
/// Kinds of devices that take frames of the interface below before the kernel's IP sees them, in addition to VLANs and
/// macvlans.
const TAKERS: [&str; 3] = ["ipvlan", "ipvtap", "macsec"];
/// Kinds of devices that get frames of the interface below.
const STANDING: [&str; 6] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec"];

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Link {
    name: String,
    kind: String,
    master: Option<u32>,
    below: Option<u32>,
    /// How an XDP program is attached, if there is one.
    xdp: Option<u8>,
    /// Whether it is a bridge that filters by VLAN tags.
    filters_vlans: bool,
    /// Whether it is an isolated port of a bridge, which reaches no other isolated port.
    is_isolated: bool,
}

/// Reads the links once.
pub(super) fn read(scope: &Scope) -> io::Result<Vec<Finding>> {
    let request = Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; HEADER_BYTES]);
    let mut links = BTreeMap::new();
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
        if message.kind == libc::RTM_NEWLINK {
            links.extend(Link::read(message.payload));
        }
    })?;
    Ok(found(scope, &links))
}

fn found(scope: &Scope, links: &BTreeMap<u32, Link>) -> Vec<Finding> {
    let is_port = |link: &Link| scope.has(&link.name);
    let mut findings = Vec::new();
    for (index, link) in links.iter().filter(|(_, link)| is_port(link)) {
        let name = &link.name;
        if let Some(master) = link.master.and_then(|master| links.get(&master)) {
            let within = format!("{name} in {} ({})", master.name, master.kind);
            match (master.kind.as_str(), scope.mode) {
                ("vrf", _) => findings.push(Finding::new(&VRF, within)),
                ("bridge", Mode::Bridged) => {}
                _ => findings.push(Finding::new(&MASTER, within)),
            }
            if scope.mode == Mode::Bridged && master.filters_vlans {
                let what = format!("{}: vlan_filtering", master.name);
                findings.push(Finding::new(&BRIDGE_FILTER, what));
            }
        }
        if let Some(attached) = link.xdp {
            let how = match attached {
                1 => "native",
                2 => "generic",
                3 => "hardware",
                _ => "several",
            };
            findings.push(Finding::new(&XDP, format!("{name} ({how})")));
        }
        let kinds: &[&str] = match scope.mode {
            Mode::Routed => &TAKERS,
            Mode::Bridged => &STANDING,
            Mode::Queue => &[],
        };
        let on_it = links.values().filter(|upper| upper.below == Some(*index));
        let takers = on_it.filter(|upper| kinds.contains(&upper.kind.as_str()));
        findings.extend(takers.map(|upper| {
            let what = format!("{} ({}) on {name}", upper.name, upper.kind);
            Finding::new(&UPPER, what)
        }));
    }
    let isolated = links.values().filter(|l| is_port(l) && l.is_isolated);
    let isolated: Vec<_> = isolated.map(|link| link.name.as_str()).collect();
    if scope.mode == Mode::Bridged && isolated.len() > 1 {
        let what = format!("isolated ports {}", isolated.join(" and "));
        findings.push(Finding::new(&BRIDGE_FILTER, what));
    }
    findings
}

impl Link {
    fn read(payload: &[u8]) -> Option<(u32, Self)> {
        const LINK_NETNSID: u16 = 37;
        const XDP_PART: u16 = 43;
        const XDP_ATTACHED: u16 = 2;
        const SLAVE_DATA: u16 = 5;
        const BRIDGE_VLAN_FILTERING: u16 = 7;
        const BRIDGE_PORT_ISOLATED: u16 = 33;
        let index = u32_at(payload, 4)?;
        let body = payload.get(HEADER_BYTES..)?;
        let info = attribute(body, libc::IFLA_LINKINFO).unwrap_or_default();
        let kind = attribute(info, libc::IFLA_INFO_KIND)
            .map(text)
            .unwrap_or_default();
        let index_in = |kind| attribute(body, kind).and_then(|value| u32_at(value, 0));
        let byte =
            |nest: &[u8], kind| attribute(nest, kind).and_then(|value| value.first().copied());
        let own = attribute(info, libc::IFLA_INFO_DATA).unwrap_or_default();
        let as_slave = attribute(info, SLAVE_DATA).unwrap_or_default();
        let xdp = attribute(body, XDP_PART).unwrap_or_default();
        let link = Self {
            name: text(attribute(body, libc::IFLA_IFNAME)?),
            master: index_in(libc::IFLA_MASTER),
            // An index of another namespace has no meaning here.
            below: index_in(libc::IFLA_LINK).filter(|_| attribute(body, LINK_NETNSID).is_none()),
            xdp: byte(xdp, XDP_ATTACHED).filter(|attached| *attached != 0),
            filters_vlans: kind == "bridge" && byte(own, BRIDGE_VLAN_FILTERING) == Some(1),
            is_isolated: byte(as_slave, BRIDGE_PORT_ISOLATED) == Some(1),
            kind,
        };
        Some((index, link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::messages;

    fn link(name: &str, kind: &str) -> Link {
        Link {
            name: name.to_owned(),
            kind: kind.to_owned(),
            ..Link::default()
        }
    }

    #[test]
    fn a_link_is_read_as_the_kernel_sends_it() {
        let read = |index: u32, attributes: &dyn Fn(Request) -> Request| {
            let mut header = [0; HEADER_BYTES];
            header[4..8].copy_from_slice(&index.to_ne_bytes());
            let request = attributes(Request::new(libc::RTM_NEWLINK, 0, &header));
            let bytes = request.numbered(1);
            Link::read(messages(&bytes).next().unwrap().payload).unwrap()
        };
        // ip link add red type vrf table 10
        let vrf = read(7, &|r| {
            let r = r.with_text(libc::IFLA_IFNAME, "red");
            r.nested(libc::IFLA_LINKINFO, |info| {
                info.with_text(libc::IFLA_INFO_KIND, "vrf")
                    .nested(libc::IFLA_INFO_DATA, |data| {
                        data.with(1, &10_u32.to_ne_bytes())
                    })
            })
        });
        assert_eq!(vrf, (7, link("red", "vrf")));
        // ip link add br0 type bridge vlan_filtering 1
        let bridge = read(8, &|r| {
            let r = r.with_text(libc::IFLA_IFNAME, "br0");
            r.nested(libc::IFLA_LINKINFO, |info| {
                info.with_text(libc::IFLA_INFO_KIND, "bridge")
                    .nested(libc::IFLA_INFO_DATA, |data| data.with(7, &[1]))
            })
        });
        assert!(bridge.1.filters_vlans);
        // ip link set r0 master br0 type bridge_slave isolated on; ip link set r0 xdpgeneric obj FILE
        let (_, port) = read(2, &|r| {
            let r = r.with_text(libc::IFLA_IFNAME, "r0");
            let r = r.with(libc::IFLA_MASTER, &8_u32.to_ne_bytes());
            let r = r.nested(43, |xdp| xdp.with(2, &[2]).with(4, &7_u32.to_ne_bytes()));
            r.nested(libc::IFLA_LINKINFO, |info| {
                info.with_text(libc::IFLA_INFO_KIND, "veth")
                    .with_text(4, "bridge")
                    .nested(5, |data| data.with(33, &[1]))
            })
        });
        let expected = Link {
            master: Some(8),
            xdp: Some(2),
            is_isolated: true,
            ..link("r0", "veth")
        };
        assert_eq!(port, expected);
    }

    #[test]
    fn masters_programs_and_devices_of_ports_are_found_and_those_of_others_are_not() {
        let of = |master: u32, name: &str| Link {
            master: Some(master),
            ..link(name, "veth")
        };
        let links = BTreeMap::from([
            (1, of(7, "r0")),
            (
                2,
                Link {
                    xdp: Some(2),
                    ..of(8, "r1")
                },
            ),
            (3, of(7, "mgmt")),
            (7, link("red", "vrf")),
            (
                8,
                Link {
                    filters_vlans: true,
                    ..link("br0", "bridge")
                },
            ),
            (
                9,
                Link {
                    below: Some(1),
                    ..link("ipv0", "ipvlan")
                },
            ),
            (
                10,
                Link {
                    below: Some(1),
                    ..link("r0.5", "vlan")
                },
            ),
        ]);
        let shown = |mode| {
            let scope = Scope {
                mode,
                ports: vec!["r0".into(), "r1".into()],
            };
            let found = found(&scope, &links);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(Mode::Routed),
            [
                "VRFs: r0 in red (vrf)",
                "interfaces on ports: ipv0 (ipvlan) on r0",
                "master interfaces: r1 in br0 (bridge)",
                "XDP programs: r1 (generic)",
            ]
        );
        assert_eq!(
            shown(Mode::Bridged),
            [
                "VRFs: r0 in red (vrf)",
                "interfaces on ports: ipv0 (ipvlan) on r0",
                "interfaces on ports: r0.5 (vlan) on r0",
                "bridge settings: br0: vlan_filtering",
                "XDP programs: r1 (generic)",
            ]
        );
    }
}
