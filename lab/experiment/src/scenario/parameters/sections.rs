//! The sections of a scenario file.

use super::super::key::Key;
use super::super::layer::SECTIONS;
use super::*;

/// Every section with its keys. `[traffic.NAME]` also has the keys of its kind.
pub fn sections() -> impl Iterator<Item = (&'static str, &'static [&'static Key])> {
    let added = SECTIONS.all().iter();
    let added = added.map(|(title, _, keys)| (*title, *keys));
    let own = [NETWORK, TRAFFICS].map(|sections| sections.iter().copied());
    let [network, traffics] = own;
    network.chain(added).chain(traffics)
}

/// The name of the table that contains the sections with this title.
pub(in crate::scenario) fn table_of(title: &'static str) -> &'static str {
    title.strip_suffix(".NAME").unwrap_or(title)
}

const NETWORK: &[(&str, &[&Key])] = &[
    ("", FILE),
    ("", TOP),
    ("quick", QUICK),
    ("variant", VARIANT),
    ("router.NAME", ROUTER),
    ("host.NAME", HOST),
    ("link.NAME", LINK),
    ("controller.NAME", CONTROLLER),
];

const TRAFFICS: &[(&str, &[&Key])] = &[
    ("traffic.NAME", TRAFFIC),
    ("traffic.NAME, kind tcp", TCP),
    ("traffic.NAME, kind udp", UDP),
    ("traffic.NAME, kind web", WEB),
    ("traffic.NAME, kind tcp or web", TCP_OPTIONS),
];
