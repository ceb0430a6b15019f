//! The service `route`: routes of FEs.
//!
//! ```text
//!   edge1, edge2: 10.0.0.0/8 via 192.0.2.1, wan   ->  a row of the prefix table, and one of the next-hop table
//! ```
//!
//! This module checks each route by itself. [`Control`](crate::Control) knows the rows, and finds or creates them.
//!
//! *Decision*: a route of an operator has one next hop; only routes of a routing suite have several, or drop packets.
//! Several routes of a prefix differ in their metrics, and the FE gets the lowest.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_model::{RouteRequest, RouteVerb, RouteWish};

use crate::contract::Request;
use crate::route::{Hop, LINES_MAX, RouteChange, Verb, cut};

/// The changes of the service.
pub(super) fn request(verb: RouteVerb, requests: &[RouteRequest]) -> Result<Request, Vec<String>> {
    let mut changes: BTreeMap<&str, Vec<RouteChange>> = BTreeMap::new();
    let mut errors = Vec::new();
    let mut ports = Ports::default();
    for request in requests {
        let mut read = Vec::with_capacity(request.routes.len());
        for wish in &request.routes {
            match change(verb, wish, &mut ports) {
                Ok(change) => read.push(change),
                Err(why) => errors.push(error(wish, &why)),
            }
        }
        if request.fes.is_empty() {
            errors.push("`fes` names no FE".to_owned());
        }
        for fe in &request.fes {
            changes.entry(fe).or_default().extend(read.iter().cloned());
        }
    }
    let changes = changes.into_iter();
    let changes = changes.filter(|(_, changes)| !changes.is_empty());
    if errors.is_empty() {
        Ok(Request::Route(
            changes.map(|(fe, all)| (fe.to_owned(), all)).collect(),
        ))
    } else {
        Err(cut(errors, LINES_MAX))
    }
}

/// Interned port names: a hundred thousand routes use only a few ports.
#[derive(Default)]
struct Ports(HashMap<String, Arc<str>>);

impl Ports {
    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(port) = self.0.get(name) {
            return Arc::clone(port);
        }
        let port = Arc::from(name);
        self.0.insert(name.to_owned(), Arc::clone(&port));
        port
    }
}

fn change(verb: RouteVerb, wish: &RouteWish, ports: &mut Ports) -> Result<RouteChange, String> {
    let prefix = prefix(&wish.prefix)?;
    let gateway = wish.via.as_ref().map(|via| gateway(&prefix, via));
    let gateway = gateway.transpose()?;
    let port = wish.port.as_ref().map(|name| ports.shared(name));
    let hop = |port: Option<Arc<str>>| match port {
        Some(port) if !port.is_empty() => Ok(Hop { gateway, port }),
        _ => Err("name the outgoing port (`dev wan`)".to_owned()),
    };
    let verb = match verb {
        RouteVerb::Add => Verb::Add(hop(port)?),
        RouteVerb::Replace => Verb::Replace(hop(port)?),
        RouteVerb::Delete => Verb::Delete(gateway, port),
    };
    Ok(RouteChange {
        key: (prefix, wish.metric),
        verb,
        line: wish.line,
    })
}

fn prefix(text: &str) -> Result<IpNet, String> {
    let prefix: IpNet = text
        .parse()
        .map_err(|_| "it must be a prefix like 10.0.0.0/8 or 2001:db8::/32".to_owned())?;
    if prefix != prefix.trunc() {
        return Err(format!(
            "it has bits set beyond its prefix length; did you mean {}?",
            prefix.trunc()
        ));
    }
    let address = prefix.network();
    let is_limited = prefix.prefix_len() > 0 && (address.is_multicast() || address.is_loopback());
    if is_limited {
        Err("an FE cannot have routes for multicast or loopback addresses".to_owned())
    } else {
        Ok(prefix)
    }
}

fn gateway(prefix: &IpNet, text: &str) -> Result<IpAddr, String> {
    let gateway: IpAddr = text
        .parse()
        .map_err(|_| format!("`via {text}`: the gateway must be an address like 192.0.2.1"))?;
    if gateway.is_ipv4() != prefix.network().is_ipv4() {
        return Err(format!(
            "`via {gateway}`: gateway and prefix must have the same address family"
        ));
    }
    if gateway.is_unspecified() || gateway.is_multicast() || gateway.is_loopback() {
        Err(format!(
            "`via {gateway}`: the gateway must be the address of a neighbour"
        ))
    } else {
        Ok(gateway)
    }
}

fn error(wish: &RouteWish, why: &str) -> String {
    let line = wish.line.map(|line| format!("line {line}: "));
    format!("{}route {}: {why}", line.unwrap_or_default(), wish.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(prefix: &str, via: Option<&str>, port: Option<&str>) -> RouteWish {
        RouteWish {
            prefix: prefix.to_owned(),
            via: via.map(str::to_owned),
            port: port.map(str::to_owned),
            metric: 0,
            line: Some(3),
        }
    }

    fn of(fes: &[&str], routes: Vec<RouteWish>) -> RouteRequest {
        let fes = fes.iter().map(|fe| (*fe).to_owned()).collect();
        RouteRequest { fes, routes }
    }

    #[test]
    fn every_fe_gets_every_route() {
        let ten = wish("10.0.0.0/8", Some("192.0.2.1"), Some("wan"));
        let six = wish("2001:db8::/32", None, Some("lan"));
        let requests = [
            of(&["edge1", "edge2"], vec![ten]),
            of(&["edge2"], vec![six]),
        ];
        let Ok(Request::Route(parts)) = request(RouteVerb::Add, &requests) else {
            panic!("it is refused");
        };
        let counts: Vec<_> = parts.iter().map(|(fe, all)| (&fe[..], all.len())).collect();
        assert_eq!(counts, [("edge1", 1), ("edge2", 2)]);
    }

    #[test]
    fn what_is_wrong_has_its_line_and_its_remedy() {
        let wrong = |wish: RouteWish| {
            let errors = request(RouteVerb::Add, &[of(&["edge1"], vec![wish])]);
            errors.unwrap_err().remove(0)
        };
        let bits = wrong(wish("10.0.0.1/8", None, Some("wan")));
        assert_eq!(
            bits,
            "line 3: route 10.0.0.1/8: it has bits set beyond its prefix length; did you mean 10.0.0.0/8?"
        );
        for (prefix, via, port, why) in [
            ("10.0.0.0", None, Some("wan"), "a prefix like"),
            ("10.0.0.0/33", None, Some("wan"), "a prefix like"),
            ("224.0.0.0/4", None, Some("wan"), "multicast"),
            (
                "10.0.0.0/8",
                Some("192.0.2"),
                Some("wan"),
                "an address like",
            ),
            (
                "10.0.0.0/8",
                Some("fe80::1"),
                Some("wan"),
                "the same address family",
            ),
            ("10.0.0.0/8", Some("0.0.0.0"), Some("wan"), "neighbour"),
            (
                "10.0.0.0/8",
                Some("192.0.2.1"),
                None,
                "name the outgoing port",
            ),
            (
                "10.0.0.0/8",
                Some("192.0.2.1"),
                Some(""),
                "name the outgoing port",
            ),
        ] {
            let error = wrong(wish(prefix, via, port));
            assert!(error.contains(why), "{error}");
        }
        let nobody = request(RouteVerb::Add, &[of(&[], vec![])]).unwrap_err();
        assert_eq!(nobody, ["`fes` names no FE"]);
        let many = vec![wish("x", None, None); 30];
        let many = request(RouteVerb::Delete, &[of(&["edge1"], many)]).unwrap_err();
        assert_eq!((many.len(), &many[20][..]), (21, "and 10 more errors"));
    }
}
