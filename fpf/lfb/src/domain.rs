//! The section `[fpf]`: the parameters that all FEs of a domain share, and the parameters of this edge.

use weir_base::setting::{Kind, Parameter, Settings};
use weir_fpf_path::Domain;
use weir_fpf_path::edge::setup::NoMatch;

use crate::{Wrong, text};

/// The components of the domain.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::new(
        "lid_bytes",
        Kind::Count(1, 2),
        "1",
        "length of a LID in bytes, equal throughout a domain; 1 is enough for 64 neighbours (4 LIDs each), 2 for \
         16 384",
    )
    .id(3),
    Parameter::new(
        "ether_type",
        Kind::Text(6),
        "0xc000",
        "Ethernet type of FPF frames, in hexadecimal; equal throughout a domain",
    )
    .id(5),
    Parameter::new(
        "no_match",
        Kind::Word(&["forward", "drop"]),
        "forward",
        "action for IP packets at `edge_ports` that match no encapsulation; forward: they follow the routes",
    )
    .id(6),
    Parameter::new(
        "edge_ports",
        Kind::Text(1024),
        "",
        "names of the ports at which packets may get an FPF header, separated by spaces; empty: all ports",
    )
    .id(7),
    Parameter::new(
        "classifier_flows",
        Kind::Count(1, 1_000_000),
        "20000",
        "maximum flows that the classifier of `fpf.class` tracks at a time, and maximum flows of all classes; a change \
         discards them",
    )
    .id(8),
];

pub(super) fn domain(settings: &Settings) -> Result<Domain, Wrong> {
    let ether_type = text::ether_type(settings.text("ether_type"))
        .map_err(|why| Wrong::new("ether_type", why))?;
    let lid_bytes = settings.count("lid_bytes") as u8; // its range is checked
    Domain::new(ether_type, lid_bytes).map_err(|error| Wrong::new("ether_type", error.to_string()))
}

pub(super) fn no_match(settings: &Settings) -> NoMatch {
    match settings.word("no_match") {
        "drop" => NoMatch::Drop,
        _ => NoMatch::Forward,
    }
}

pub(super) fn classifier_flows(settings: &Settings) -> usize {
    settings.count("classifier_flows") as usize // its range is checked
}

pub(super) fn edge_ports(settings: &Settings) -> Vec<String> {
    let words = settings.text("edge_ports").split_whitespace();
    words.map(str::to_owned).collect()
}
