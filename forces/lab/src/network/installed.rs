//! The routes of an FE's kernel, as `ip route` prints them.

use std::collections::HashMap;
use std::io;
use std::process::Command;

use ipnet::IpNet;
use weir_live::namespace::Namespace;

/// The device of each route in the main table of a namespace, by prefix.
pub(super) fn devices(namespace: &Namespace) -> io::Result<HashMap<IpNet, String>> {
    let mut all = HashMap::new();
    for family in ["-4", "-6"] {
        let shown = namespace.enter(|| Command::new("ip").args([family, "route"]).output())??;
        let text = String::from_utf8_lossy(&shown.stdout);
        // Next hops of a group may have lines of their own.
        let text = text.replace("\n\t", " ");
        all.extend(text.lines().filter_map(route));
    }
    Ok(all)
}

/// The prefix and the device of a line.
fn route(line: &str) -> Option<(IpNet, String)> {
    let mut words = line.split_whitespace();
    let prefix = words.next()?;
    let prefix = match prefix.parse() {
        Ok(prefix) => prefix,
        Err(_) => IpNet::from(prefix.parse::<std::net::IpAddr>().ok()?),
    };
    words.find(|word| *word == "dev")?;
    Some((prefix, words.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_ip_route_have_a_prefix_and_a_device() {
        let read = |line| route(line).map(|(prefix, device)| (prefix.to_string(), device));
        let is = |prefix: &str, device: &str| Some((prefix.to_owned(), device.to_owned()));
        let line = "10.8.0.0/16 nhid 1996488705 via 10.1.12.2 dev b proto 119 metric 20 ";
        assert_eq!(read(line), is("10.8.0.0/16", "b"));
        assert_eq!(read("10.9.0.1 dev c scope link"), is("10.9.0.1/32", "c"));
        assert_eq!(
            read("2001:db8::/32 via fe80::2 dev d metric 20"),
            is("2001:db8::/32", "d")
        );
        assert_eq!(read("blackhole 10.7.0.0/16"), None);
    }
}
