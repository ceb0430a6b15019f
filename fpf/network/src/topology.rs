//! Converts domains, elements and links to the controller's topology.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_base::setting::Settings;
use weir_model::Fault;
use weir_paths::{Address, Behaviour, Domain, End, Fe, FeId, Link, LinkId, Payload, Topology};
use weir_wire::mac;

use super::{Named, refused, wrong};

/// Key of the address at an end.
pub(super) fn address_of(place: &str) -> &'static str {
    match place {
        "from" => "from_address",
        _ => "to_address",
    }
}

/// The topology, and the number of each link.
pub(crate) fn topology(
    domains: &Named,
    elements: &Named,
    links: &Named,
) -> Result<(Topology, BTreeMap<String, LinkId>), Fault> {
    let mut topology = Topology::default();
    for (name, settings) in domains {
        let some = |name| Some(settings.count(name)).filter(|n| *n > 0);
        let domain = Domain {
            name: name.clone(),
            behaviours: behaviours(settings.text("behaviours")),
            lid_bytes: some("lid_bytes").map(|n| n as u8), // range already checked
            special: some("special").map(|n| n as u32),
        };
        topology
            .add_domain(domain)
            .map_err(refused("domain", name, ""))?;
    }
    for (name, settings) in elements {
        let domain = topology.domain_named(settings.text("domain"));
        let domain = domain.map_err(refused("element", name, "domain"))?;
        let delivers = if settings.flag("edge") {
            vec![Payload::Ip]
        } else {
            Vec::new()
        };
        let name = name.clone();
        let fe = Fe {
            name: name.clone(),
            domain,
            delivers,
        };
        topology.add_fe(fe).map_err(refused("element", &name, ""))?;
    }
    let mut numbers = BTreeMap::new();
    for (name, settings) in links {
        let end = |place: &'static str| end(&topology, name, settings, place);
        let link = Link {
            ends: [end("from")?, end("to")?],
            cost: settings.count("cost") as u32, // range already checked
            rate: Some(settings.rate("rate")).filter(|rate| rate.as_bps() > 0),
        };
        let number = topology.add_link(link).map_err(refused("link", name, ""))?;
        numbers.insert(name.clone(), number);
    }
    Ok((topology, numbers))
}

fn behaviours(text: &str) -> Vec<Behaviour> {
    let behaviour = |word: &str| {
        let (name, queue) = match word.split_once(':') {
            Some((name, queue)) => (name, Some(queue.to_owned())),
            None => (word, None),
        };
        Behaviour {
            name: name.to_owned(),
            queue,
        }
    };
    text.split_whitespace().map(behaviour).collect()
}

fn end(
    topology: &Topology,
    link: &str,
    settings: &Settings,
    place: &'static str,
) -> Result<End, Fault> {
    let text = settings.text(place);
    let Some((element, interface)) = text.split_once(':').filter(|(_, i)| !i.is_empty()) else {
        let why = format!("`{place}` is \"{text}\", but must be ELEMENT:PORT, like \"c1:wan\"");
        return Err(wrong("link", link, place, why));
    };
    let fe: FeId = topology
        .fe_named(element)
        .map_err(refused("link", link, place))?;
    Ok(End {
        fe,
        interface: interface.to_owned(),
        address: address(link, settings, address_of(place))?,
    })
}

fn address(link: &str, settings: &Settings, key: &'static str) -> Result<Option<Address>, Fault> {
    let text = settings.text(key);
    if text.is_empty() {
        return Ok(None);
    }
    let ip = text.parse::<IpAddr>().ok();
    let (address, why) = if settings.flag("tunnel") {
        (
            ip.map(Address::Tunnel),
            "is not the IP address of an end of the tunnel, like 192.0.2.1",
        )
    } else {
        (
            mac::read(text)
                .map(Address::Ethernet)
                .or(ip.map(Address::Ip)),
            "is neither an IP address like 192.0.2.1 nor a MAC address like 02:00:00:00:00:0b",
        )
    };
    let why = format!("\"{text}\" {why}");
    address
        .map(Some)
        .ok_or_else(|| wrong("link", link, key, why))
}
