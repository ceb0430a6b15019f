//! The sections `[fpf.rule.NAME]`: the action for packets with a LID.

use std::net::IpAddr;

use std::sync::Arc;

use weir_base::Bytes;
use weir_base::setting::{Kind, Parameter, Settings};
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::cache::Limits;
use weir_fpf_path::process::{Function, Processing};
use weir_fpf_path::{Builder, Destination, Domain, Hop, Inner, Rule};
use weir_packet::Queue;
use weir_wire::ethernet::is_group;
use weir_wire::{EtherType, mac};

use crate::interface::{Added, Interfaces};
use crate::{Wrong, text};

/// Longest list of leaves, in bytes.
const LEAVES_MAX: usize = 16_384;

/// The components of a section.
pub(crate) const PARAMETERS: &[Parameter] = &[
        Parameter::new(
            "input",
            Kind::Text(64),
            "",
            "name of the input FPF interface; empty: any, including packets that get their header here",
        )
        .id(2),
        Parameter::new(
            "lid",
            Kind::Text(4),
            "",
            "LID in hexadecimal, like b1; in a domain with `lid_bytes = 2` like 00b1",
        )
        .id(3),
        Parameter::new(
            "action",
            Kind::Word(&[
                "forward",
                "multicast",
                "decapsulate",
                "end",
                "redirect",
                "drop",
                "xor-encode",
                "xor-decode",
                "segment",
                "reassemble",
                "cache",
            ]),
            "forward",
            "forward: to `neighbour`; multicast: a copy for each of `leaves`; decapsulate: remove the header; end: the \
             same for packets from `input` that have no LID left, without `lid`; redirect: to the control element; \
             drop; xor-encode: packets go alternately to the first two of three `leaves`, and the parity of each pair \
             to the third; xor-decode: the far end of xor-encode, which recovers one loss of the three and sends \
             packets to its only leaf; segment: packets follow the next LID of their vector, in segments if they are \
             too long for it; reassemble: the far end of segment; cache: answer interests in stored chunks through \
             the only entry of `leaves`; other packets follow the next LID",
        )
        .id(4),
        Parameter::new("output", Kind::Text(64), "", "name of the output FPF interface").id(5),
        Parameter::new(
            "neighbour",
            Kind::Text(45),
            "",
            "IP or MAC address of the next FE, or of the host behind a rule that removes the header; an IP address is \
             resolved as for a route; a VLAN needs a MAC address, a tunnel needs no address",
        )
        .id(6),
        Parameter::new(
            "leaves_domain",
            Kind::Flag,
            "false",
            "whether the neighbour is in the next domain, so that the next LID of the vector applies there",
        )
        .id(7),
        Parameter::new(
            "queue",
            Kind::Count(0, 255),
            "0",
            "queue at the output port, whose discipline `class_weights` has a class `queue N`; 0: the discipline \
             chooses",
        )
        .id(8),
        Parameter::new(
            "leaves",
            Kind::Text(LEAVES_MAX),
            "",
            "vectors for the copies of a multicast rule, the packets of xor coding, or the answers of a cache, \
             separated by spaces: b1a1 c1",
        )
        .id(9),
        Parameter::new(
            "payload",
            Kind::Text(6),
            "ip",
            "payload behind the removed header: ip, forwarded by the routes, or an Ethernet type like 0x0806, sent \
             through `output` to `neighbour`",
        )
        .id(10),
        Parameter::new(
            "cache_bytes",
            Kind::Bytes(Bytes(64_000), Bytes(1_000_000_000)),
            "16 MB",
            "memory for the chunks of a cache, including 256 bytes of overhead for each; a new limit empties the cache",
        )
        .id(11),
        Parameter::new(
            "cache_chunks",
            Kind::Count(1, 1_000_000),
            "10000",
            "maximum chunks of a cache; a new limit empties the cache",
        )
        .id(12),
];

/// Adds the rule with this name to the table.
pub(super) fn add(
    name: &str,
    settings: &Settings,
    domain: &Domain,
    interfaces: &Interfaces,
    builder: &mut Builder,
) -> Result<(), Wrong> {
    let interface = |component, name: &str| {
        let added = interfaces.get(name).copied();
        added.ok_or_else(|| {
            let why = format!("there is no FPF interface `{name}`; add [fpf.interface.{name}]");
            Wrong::new(component, why)
        })
    };
    let input = match settings.text("input") {
        "" => None,
        name => Some(interface("input", name)?.id),
    };
    let hop = || -> Result<Hop, Wrong> {
        let Added { id, is_tunnel } = match settings.text("output") {
            "" => {
                return Err(Wrong::new(
                    "output",
                    "missing; set the name of an FPF interface",
                ));
            }
            name => interface("output", name)?,
        };
        let destination = match settings.text("neighbour") {
            "" if is_tunnel => Default::default(),
            neighbour => destination(neighbour).map_err(|why| Wrong::new("neighbour", why))?,
        };
        Ok(Hop {
            interface: id,
            destination,
            queue: Queue(settings.count("queue") as u8), // its range is checked
            leaves_domain: settings.flag("leaves_domain"),
        })
    };
    let inner = || match settings.text("payload") {
        "ip" => Ok(Inner::Ip),
        ether_type => {
            let number = text::ether_type(ether_type).map_err(|why| Wrong::new("payload", why))?;
            hop().map(|hop| Inner::Frame(EtherType::from(number), hop))
        }
    };
    let action = settings.word("action");
    if action == "end" {
        if !settings.text("lid").is_empty() {
            let why = "a rule with action = \"end\" has no LID; remove `lid`, or use action = \"decapsulate\"";
            return Err(Wrong::new("lid", why));
        }
        let inner = inner()?;
        return builder
            .end(input, inner)
            .map_err(|e| Wrong::whole(e.to_string()));
    }
    let leaves = || -> Result<Arc<[Vector]>, Wrong> {
        let words = settings.text("leaves").split_whitespace();
        let leaves: Result<Vec<_>, String> = words.map(text::vector).collect();
        Ok(leaves.map_err(|why| Wrong::new("leaves", why))?.into())
    };
    let mut process = |function: Function| {
        let leaves = leaves()?;
        if function.leaves() == 0 && !leaves.is_empty() {
            let why = format!(
                "{action} has no leaves: packets follow the next LID of their vector; remove `leaves`"
            );
            return Err(Wrong::new("leaves", why));
        }
        if leaves.len() != function.leaves() {
            let why = format!(
                "{action} needs {} {}, not {}",
                function.leaves(),
                if function.leaves() == 1 {
                    "leaf"
                } else {
                    "leaves"
                },
                leaves.len()
            );
            return Err(Wrong::new("leaves", why));
        }
        let processor = builder.processor(name, function);
        let processor = processor.map_err(|error| Wrong::whole(error.to_string()))?;
        Ok(Rule::Process(Processing { processor, leaves }))
    };
    let rule = match action {
        "forward" => Rule::Forward(hop()?),
        "multicast" => Rule::Multicast(leaves()?),
        "decapsulate" => Rule::Decapsulate(inner()?),
        "redirect" => Rule::Redirect,
        "drop" => Rule::Drop,
        "cache" => process(Function::Cache(Limits {
            bytes: settings.bytes("cache_bytes"),
            chunks: settings.count("cache_chunks") as usize, // its range is checked
        }))?,
        word => {
            let function = Function::PLAIN.into_iter().find(|f| f.word() == word);
            process(function.unwrap_or_else(|| unreachable!("the words of actions are checked")))?
        }
    };
    let lid = text::lid(settings.text("lid"), domain.lid_size().bytes());
    let lid = lid.map_err(|why| Wrong::new("lid", why))?;
    let added = builder.rule(input, lid, rule);
    added.map_err(|error| Wrong::whole(error.to_string()))
}

/// Parses the MAC address or the IP address of a neighbour.
fn destination(text: &str) -> Result<Destination, String> {
    let mac = mac::read(text).filter(|mac| !is_group(*mac));
    let address = text
        .parse()
        .ok()
        .filter(|address: &IpAddr| !(address.is_multicast() || address.is_unspecified()));
    let both = [mac.map(Destination::Mac), address.map(Destination::Address)];
    both.into_iter().flatten().next().ok_or_else(|| {
        format!(
            "\"{text}\" is neither a unicast IP address, like 192.0.2.2, nor a unicast MAC address, like \
             02:00:00:00:00:0b"
        )
    })
}

/// The output interface of a rule, and the queue that the rule selects there; `None` if it selects no queue.
pub(super) fn queue(settings: &Settings) -> Option<(&str, Queue)> {
    let queue = settings.count("queue") as u8; // its range is checked
    let is_sent = matches!(settings.word("action"), "forward" | "decapsulate" | "end");
    (queue > 0 && is_sent).then(|| (settings.text("output"), Queue(queue)))
}
