//! Chooses the ports: a pure function of the kernel's state and the names that the user gives.
//!
//! In mode "queue" the ports are the uplinks: the interfaces of all default routes, or the named one. For a router:
//!
//! ```text
//! interfaces --> impossible? --> unsuitable? --> uplink: of the default route, or named
//!                    |               |           networks: every other one with an address, or those named
//!                    +---------------+---------> left out, each with its reason
//! ```

use weir_live::kernel::inventory::{Interface, Inventory};

/// The ports of a router with one uplink.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice<'a> {
    /// The interface to the rest of the world.
    pub(super) uplink: &'a Interface,
    /// The interfaces to the user's own networks.
    pub(super) networks: Vec<&'a Interface>,
    /// Interfaces that do not become ports, each with the reason.
    pub(super) left_out: Vec<(&'a Interface, String)>,
}

/// The uplinks, whose queues a router of mode "queue" takes over. A default route into a tunnel counts only if it is the
/// active one: its packets leave through another uplink.
pub(super) fn uplinks<'a>(
    inventory: &'a Inventory,
    named: Option<&str>,
) -> Result<Vec<&'a Interface>, String> {
    if let Some(name) = named {
        return Ok(vec![known(inventory, name)?]);
    }
    let find = |name: &String| known(inventory, name);
    let spare = inventory.spare_uplinks.iter().map(find);
    let spare = spare.filter(|found| found.as_ref().is_ok_and(|i| i.is_ethernet));
    let found: Vec<_> = inventory
        .uplinks
        .iter()
        .map(find)
        .chain(spare)
        .collect::<Result<_, _>>()?;
    if found.is_empty() {
        return Err(no_default_route(inventory));
    }
    Ok(found)
}

/// The properties of this machine that only its kernel's forwarding respects: interfaces that cannot be ports of a
/// router, and the number of its networks.
pub(super) fn reasons(inventory: &Inventory, uplinks: &[&Interface]) -> Vec<String> {
    let is_used = |i: &&Interface| i.up && !i.is_loopback && has_address(i);
    let (plain, special): (Vec<_>, Vec<_>) = inventory
        .interfaces
        .iter()
        .filter(is_used)
        .partition(|i| i.is_ethernet && SUITABLE_KINDS.contains(&i.kind.as_str()));
    let named = |i: &&Interface| match i.kind.as_str() {
        "" => i.name.clone(),
        kind => format!("{} ({kind})", i.name),
    };
    let mut reasons: Vec<_> = special.iter().map(named).collect();
    let networks = plain
        .iter()
        .filter(|i| !uplinks.iter().any(|u| u.name == i.name))
        .count();
    if networks > 1 {
        reasons.push(format!("{networks} networks"));
    }
    reasons
}

/// Kinds of virtual interfaces that are chosen without being named.
const SUITABLE_KINDS: [&str; 3] = ["", "veth", "vlan"];

/// Chooses the ports. `uplink` and `networks` are the user's names; without names the kernel's tables decide.
pub(super) fn choose<'a>(
    inventory: &'a Inventory,
    uplink: Option<&str>,
    networks: &[String],
) -> Result<Choice<'a>, String> {
    let uplink = match uplink {
        Some(name) => possible(inventory, name)?,
        None => of_default_route(inventory)?,
    };
    let named = named(inventory, uplink, networks)?;
    let mut choice = Choice {
        uplink,
        networks: Vec::new(),
        left_out: Vec::new(),
    };
    let others = inventory.interfaces.iter();
    for interface in others.filter(|other| other.name != uplink.name && !other.is_loopback) {
        let reason = match named.is_empty() {
            true => impossible(interface).or_else(|| unsuitable(interface, uplink, inventory)),
            false if named.contains(&interface.name.as_str()) => None,
            false => Some("not named by --lan".to_owned()),
        };
        match reason {
            None => choice.networks.push(interface),
            Some(reason) => choice.left_out.push((interface, reason)),
        }
    }
    if choice.networks.is_empty() {
        Err(alone(&choice))
    } else {
        Ok(choice)
    }
}

/// The interface of the default route, if it can be a port.
fn of_default_route(inventory: &Inventory) -> Result<&Interface, String> {
    let name = match &inventory.uplinks[..] {
        [] => return Err(no_default_route(inventory)),
        [name] => name,
        several => {
            return Err(format!(
                "there are default routes through {}; name the one to pace with `--uplink NAME`",
                several.join(" and ")
            ));
        }
    };
    let interface = possible(inventory, name).map_err(|why| {
        format!("the default route uses {name}, which cannot be weir's uplink. {why}")
    })?;
    match unsuited_kind(interface) {
        Some(reason) => Err(format!(
            "the default route uses {name}: {reason}. To use it anyway, add `--uplink {name}`; or make weir a bump in \
             the wire between this machine and the line: `mode = \"bridged\"`"
        )),
        None => Ok(interface),
    }
}

/// The named networks; fails if one of them cannot be a port.
fn named<'a>(
    inventory: &Inventory,
    uplink: &Interface,
    networks: &'a [String],
) -> Result<Vec<&'a str>, String> {
    for name in networks {
        possible(inventory, name)?;
        if *name == uplink.name {
            return Err(format!("{name} is the uplink; --lan names the other side"));
        }
    }
    Ok(networks.iter().map(String::as_str).collect())
}

/// The interface of this name.
fn known<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a Interface, String> {
    let mut interfaces = inventory.interfaces.iter();
    let found = interfaces.find(|interface| interface.name == name);
    found.ok_or_else(|| {
        format!(
            "there is no interface {name}; the interfaces are {}",
            names(inventory)
        )
    })
}

/// The interface of this name; fails if it cannot be a port at all.
fn possible<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a Interface, String> {
    let interface = known(inventory, name)?;
    match impossible(interface) {
        Some(reason) => Err(format!("{name}: {reason}")),
        None => Ok(interface),
    }
}

/// The reason why an interface can never be a port.
fn impossible(interface: &Interface) -> Option<String> {
    if !interface.is_ethernet {
        let kind = match interface.kind.as_str() {
            "" => String::new(),
            kind => format!(" ({kind})"),
        };
        return Some(format!(
            "it does not carry Ethernet frames{kind}; only Ethernet interfaces can be ports"
        ));
    }
    let master = interface.master.as_ref()?;
    Some(format!(
        "it is a member of {master}, which receives all its packets"
    ))
}

/// The reason why an interface becomes a port only if the user names it.
fn unsuitable(interface: &Interface, uplink: &Interface, inventory: &Inventory) -> Option<String> {
    if let Some(reason) = unsuited_kind(interface) {
        return Some(reason);
    }
    if !interface.up {
        return Some("it is down".to_owned());
    }
    if !has_address(interface) {
        let vlans = vlans_on(interface, inventory);
        return Some(if vlans.is_empty() {
            "it has no address".to_owned()
        } else {
            format!("its VLANs are used instead: {}", vlans.join(", "))
        });
    }
    let below = interface.below.as_ref()?;
    let lower = inventory.interfaces.iter().find(|i| i.name == *below)?;
    let is_port = lower.name == uplink.name || has_address(lower);
    is_port.then(|| {
        format!("it is on top of {below}, and an interface and a VLAN on it cannot both be ports")
    })
}

/// The reason why an interface of this kind is not chosen without being named.
fn unsuited_kind(interface: &Interface) -> Option<String> {
    if interface.is_wireless {
        return Some("it is wireless, and its rate changes constantly".to_owned());
    }
    if SUITABLE_KINDS.contains(&interface.kind.as_str()) {
        None
    } else {
        Some(format!("it is virtual ({})", interface.kind))
    }
}

/// Whether routed traffic can use this interface: link-local addresses do not count.
pub(super) fn has_address(interface: &Interface) -> bool {
    let is_local = |address: &std::net::IpAddr| match address {
        std::net::IpAddr::V4(v4) => v4.is_link_local(),
        std::net::IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let mut addresses = interface.addresses.iter().map(|net| net.addr());
    addresses.any(|address| !is_local(&address))
}

/// The VLANs on an interface that have addresses.
fn vlans_on<'a>(interface: &Interface, inventory: &'a Inventory) -> Vec<&'a str> {
    let above = inventory.interfaces.iter().filter(|other| {
        other.kind == "vlan" && other.below.as_ref() == Some(&interface.name) && has_address(other)
    });
    above.map(|other| other.name.as_str()).collect()
}

/// The error of a machine without a default route.
fn no_default_route(inventory: &Inventory) -> String {
    format!(
        "no default route, so weir cannot tell which interface leads to the Internet; name it with `--uplink NAME`. The \
         interfaces are {}",
        names(inventory)
    )
}

fn names(inventory: &Inventory) -> String {
    let others = inventory.interfaces.iter().filter(|i| !i.is_loopback);
    let names: Vec<_> = others.map(|i| i.name.as_str()).collect();
    names.join(", ")
}

/// The error that a router with a single port has no other network to forward to.
fn alone(choice: &Choice<'_>) -> String {
    let mut text = format!(
        "{} is the uplink, and no other interface can be a port: a router connects two networks.\n",
        choice.uplink.name
    );
    for (interface, reason) in &choice.left_out {
        text += &format!("  {}: {reason}\n", interface.name);
    }
    text + "Bring the other interface up and give it an address (`ip link set eth1 up`, `ip address add \
            192.168.7.1/24 dev eth1`), or name it with `--lan NAME`. A machine with one interface can have two VLANs \
            on it. Without addresses weir can be a bump in the wire between two interfaces: `mode = \"bridged\"`"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, kind: &str, addresses: &[&str]) -> Interface {
        Interface {
            name: name.to_owned(),
            kind: kind.to_owned(),
            is_ethernet: true,
            up: true,
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            ..Interface::default()
        }
    }

    fn machine(interfaces: Vec<Interface>, uplinks: &[&str]) -> Inventory {
        Inventory {
            interfaces,
            uplinks: uplinks.iter().map(|name| (*name).to_owned()).collect(),
            spare_uplinks: Vec::new(),
        }
    }

    fn two() -> Vec<Interface> {
        let lo = Interface {
            is_loopback: true,
            ..interface("lo", "", &["127.0.0.1/8"])
        };
        let wan = interface("eth0", "", &["192.0.2.2/24", "fe80::1/64"]);
        vec![lo, wan, interface("eth1", "", &["192.168.7.1/24"])]
    }

    fn ports<'a>(choice: &Choice<'a>) -> Vec<&'a str> {
        let all = [choice.uplink].into_iter().chain(choice.networks.clone());
        all.map(|interface| interface.name.as_str()).collect()
    }

    #[test]
    fn the_default_route_decides_and_a_name_decides_more() {
        let both = machine(two(), &["eth0"]);
        let choice = choose(&both, None, &[]).unwrap();
        assert_eq!(ports(&choice), ["eth0", "eth1"]);
        assert!(choice.left_out.is_empty());
        let turned = choose(&both, Some("eth1"), &[]).unwrap();
        assert_eq!(ports(&turned), ["eth1", "eth0"]);

        let none = machine(two(), &[]);
        let why = choose(&none, None, &[]).unwrap_err();
        assert!(
            why.contains("no default route") && why.contains("The interfaces are eth0, eth1"),
            "{why}"
        );
        let several = machine(two(), &["eth0", "eth1"]);
        let why = choose(&several, None, &[]).unwrap_err();
        assert!(why.contains("eth0 and eth1"), "{why}");
        let why = choose(&both, Some("eth7"), &[]).unwrap_err();
        assert!(why.contains("no interface eth7"), "{why}");
        let why = choose(&both, None, &["eth0".to_owned()]).unwrap_err();
        assert!(why.contains("is the uplink"), "{why}");
    }

    #[test]
    fn every_default_route_has_an_uplink_and_reasons_name_what_a_router_cannot_keep() {
        let mut both = machine(two(), &["eth0"]);
        both.spare_uplinks = vec!["eth1".to_owned()];
        let named =
            |found: Vec<&Interface>| found.iter().map(|i| i.name.clone()).collect::<Vec<_>>();
        assert_eq!(named(uplinks(&both, None).unwrap()), ["eth0", "eth1"]);
        let one = uplinks(&both, Some("eth1")).unwrap();
        assert_eq!(named(one.clone()), ["eth1"]);
        assert!(reasons(&both, &one).is_empty());
        both.uplinks.clear();
        both.spare_uplinks.clear();
        assert!(uplinks(&both, None).unwrap_err().contains("--uplink NAME"));
        both.interfaces.extend([
            Interface {
                is_ethernet: false,
                ..interface("wg0", "wireguard", &["10.9.0.1/24"])
            },
            interface("br0", "bridge", &["192.168.9.1/24"]),
            interface("eth2", "", &["192.168.10.1/24"]),
        ]);
        both.uplinks = vec!["eth0".to_owned()];
        both.spare_uplinks = vec!["wg0".to_owned()];
        let uplinks = uplinks(&both, None).unwrap();
        assert_eq!(named(uplinks.clone()), ["eth0"]);
        let found = reasons(&both, &uplinks);
        assert_eq!(found, ["wg0 (wireguard)", "br0 (bridge)", "2 networks"]);
    }

    #[test]
    fn every_interface_that_is_no_port_has_a_reason() {
        let mut all = two();
        all.push(Interface {
            is_wireless: true,
            ..interface("wlan0", "", &["192.168.8.1/24"])
        });
        all.push(Interface {
            is_ethernet: false,
            ..interface("wg0", "wireguard", &["10.9.0.1/24"])
        });
        all.push(interface("br0", "bridge", &["192.168.9.1/24"]));
        all.push(Interface {
            master: Some("br0".to_owned()),
            ..interface("eth2", "", &[])
        });
        all.push(Interface {
            up: false,
            ..interface("eth3", "", &["192.168.10.1/24"])
        });
        all.push(interface("eth4", "", &["fe80::4/64"]));
        all.push(Interface {
            below: Some("eth1".to_owned()),
            ..interface("eth1.5", "vlan", &["192.168.11.1/24"])
        });
        let machine = machine(all, &["eth0"]);
        let choice = choose(&machine, None, &[]).unwrap();
        assert_eq!(ports(&choice), ["eth0", "eth1"]);
        let expected = [
            ("wlan0", "it is wireless"),
            ("wg0", "not carry Ethernet frames (wireguard)"),
            ("br0", "virtual (bridge)"),
            ("eth2", "member of br0"),
            ("eth3", "it is down"),
            ("eth4", "no address"),
            ("eth1.5", "on top of eth1"),
        ];
        assert_eq!(choice.left_out.len(), expected.len());
        for ((interface, reason), (name, words)) in choice.left_out.iter().zip(expected) {
            assert_eq!(interface.name, name);
            assert!(reason.contains(words), "{name}: {reason}");
        }
        // A named interface is chosen, unless it can never be a port.
        let named = choose(&machine, None, &["wlan0".to_owned()]).unwrap();
        assert_eq!(ports(&named), ["eth0", "wlan0"]);
        let why = choose(&machine, None, &["wg0".to_owned()]).unwrap_err();
        assert!(why.starts_with("wg0: it does not carry Ethernet"), "{why}");
    }

    #[test]
    fn vlans_stand_for_an_interface_without_an_address() {
        let vlan = |name: &str, address: &str| Interface {
            below: Some("eth0".to_owned()),
            ..interface(name, "vlan", &[address])
        };
        let all = vec![
            interface("eth0", "", &[]),
            vlan("eth0.2", "192.0.2.2/24"),
            vlan("eth0.3", "192.168.7.1/24"),
        ];
        let machine = machine(all, &["eth0.2"]);
        let choice = choose(&machine, None, &[]).unwrap();
        assert_eq!(ports(&choice), ["eth0.2", "eth0.3"]);
        assert!(choice.left_out[0].1.contains("eth0.2, eth0.3"));
    }

    #[test]
    fn an_uplink_that_cannot_work_is_refused_with_a_way_out() {
        let lonely = machine(two()[..2].to_vec(), &["eth0"]);
        let why = choose(&lonely, None, &[]).unwrap_err();
        assert!(why.contains("a router connects two networks"), "{why}");
        let mut all = two();
        all[1].is_wireless = true;
        let radio = machine(all.clone(), &["eth0"]);
        let why = choose(&radio, None, &[]).unwrap_err();
        assert!(
            why.contains("it is wireless") && why.contains("--uplink eth0"),
            "{why}"
        );
        assert!(choose(&radio, Some("eth0"), &[]).is_ok());
        all[1].is_ethernet = false;
        let tunnel = machine(all, &["eth0"]);
        let why = choose(&tunnel, None, &[]).unwrap_err();
        assert!(why.contains("does not carry Ethernet frames"), "{why}");
    }
}
