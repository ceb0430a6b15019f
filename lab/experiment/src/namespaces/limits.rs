//! The limits of the lab: scenarios that it refuses before it starts anything, and features that it leaves out.

use weir_base::{Framing, Rate, Span};

use super::elements::PERIOD_MIN;
use super::endpoints::Endpoints;
use super::router::CHANGE_MIN;
use super::routes::spread_hosts;
use super::traffic;
use super::wire::{DELAY_MIN, LONG_MAX, Long};
use crate::error::Error;
use crate::habitat::Habitat;
use crate::scenario::{
    Auto, Direction, Link, Scenario, Shaper, Starts, TcpOptions, Traffic, TrafficKind,
};
use crate::topology::Topology;

/// Maximum number of hosts and routers: each has a namespace with its own processes.
pub const NODES_MAX: usize = 500;
/// Maximum number of TCP connections of a run.
pub const CONNECTIONS_MAX: u64 = 5_000;
/// Maximum number of hosts with many source addresses.
const SPREAD_MAX: usize = 16;
/// Maximum number of flows of one tool that start at different times: the times are on its command line.
const STARTS_MAX: u32 = 5_000;
/// The framing of the lab's wires beyond the IP packet: they are Ethernet.
const FRAMING: Framing = Framing::bytes(38);
/// Maximum payload of a segment in 1500 bytes of IPv4.
const MSS_MAX: u32 = 1460;

/// Refuses a scenario that the lab cannot run; returns the features that it leaves out, as sentences.
pub fn check(scenario: &Scenario, topology: &Topology) -> Result<Vec<String>, Error> {
    check_size(scenario, topology)?;
    for controller in &scenario.controllers {
        if scenario.uses_forces && (controller.delay > Span::ZERO || controller.loss > 0.0) {
            return refuse(format!(
                "controller {} sets `delay` or `loss`, which the lab does not support with control = \"forces\"; try \
                 control = \"northbound\", or --on sim",
                controller.name
            ));
        }
        let wire = controller.wire.as_ref();
        if scenario.uses_forces && wire.is_some_and(|wire| wire.redirect > Rate::default()) {
            return refuse(format!(
                "controller {} sets `channel_redirect`, which the lab does not support with control = \"forces\"; try \
                 control = \"northbound\", or --on sim",
                controller.name
            ));
        }
        for (_, queue) in topology.steered(scenario, controller) {
            let node = &topology.nodes[queue.node];
            if !node.is_router {
                return refuse(format!(
                    "controller {} uses the queue of host {}, which is the kernel's own queue; try --on sim",
                    controller.name, node.name
                ));
            }
        }
    }
    for link in &scenario.links {
        check_link(scenario, topology, link)?;
    }
    for traffic in &scenario.traffic {
        check_traffic(traffic)?;
    }
    if spread_hosts(scenario, topology).len() > SPREAD_MAX {
        let why = format!(
            "more than {SPREAD_MAX} hosts have several addresses, the maximum in the lab; try --on sim"
        );
        return refuse(why);
    }
    let long = Long::all(scenario, topology);
    if long.len() > LONG_MAX {
        return refuse(format!(
            "{} wires need a bridge, because they change, have a modem, or have a delay of {DELAY_MIN} or more; the \
             lab supports {LONG_MAX} bridges, and a link of a group of hosts is one wire per host (a link between two \
             routers could have the delay instead); try --on sim",
            long.len()
        ));
    }
    Endpoints::new(scenario, topology)?;
    Ok(notes(scenario, &long))
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::unsupported(Habitat::Lab, why))
}

fn check_size(scenario: &Scenario, topology: &Topology) -> Result<(), Error> {
    let nodes = topology.nodes.len();
    if nodes > NODES_MAX {
        return refuse(format!(
            "{nodes} nodes exceed the lab's maximum of {NODES_MAX}, one namespace per node; try --on sim"
        ));
    }
    let mut connections = 0;
    for traffic in &scenario.traffic {
        let count = traffic.kind.flows();
        let (what, max) = match &traffic.kind {
            TrafficKind::Tcp { .. } => ("TCP connections", traffic::tcp::FLOWS_MAX),
            TrafficKind::Udp { .. } => ("UDP flows", traffic::udp::FLOWS_MAX),
            TrafficKind::Web { .. } => ("web clients", traffic::web::fetch::CLIENTS_MAX),
        };
        let name = &traffic.name;
        if count > max {
            return refuse(format!(
                "traffic {name} has {count} {what} per host; the maximum in the lab is {max}; try --on sim"
            ));
        }
        if traffic.starts != Starts::Spread(Span::ZERO) && count > STARTS_MAX {
            return refuse(format!(
                "traffic {name} starts {count} flows of one host at different times; the maximum in the lab is \
                 {STARTS_MAX}; try --on sim"
            ));
        }
        if traffic.kind.tcp_options().is_some() {
            connections += u64::from(count) * scenario.pairs(traffic) as u64;
        }
    }
    if connections > CONNECTIONS_MAX {
        return refuse(format!(
            "{connections} TCP connections exceed the lab's maximum of {CONNECTIONS_MAX}; try --on sim"
        ));
    }
    Ok(())
}

fn check_link(scenario: &Scenario, topology: &Topology, link: &Link) -> Result<(), Error> {
    let name = &link.name;
    let is_host = link
        .ends
        .each_ref()
        .map(|end| scenario.group(end).is_some());
    if is_host == [true, true] {
        return refuse(format!(
            "link {name} connects two hosts without a router; try --on sim"
        ));
    }
    let disciplines = [&link.discipline, &link.reverse_discipline];
    let buffers = ["buffer", "reverse_buffer"];
    for end in 0..2 {
        let Direction { rate, modem, .. } = &link.directions[end];
        let changes = rate.as_ref().is_some_and(|rate| !rate.is_constant());
        let shaper = modem.as_ref().and_then(|modem| modem.shaper.as_ref());
        if let Some(Shaper::Auto(auto)) = shaper {
            check_auto(name, auto, topology, is_host[end])?;
        }
        if changes && modem.is_none() && is_host[end] {
            return refuse(format!(
                "link {name} has a varying rate at host {}, whose queue is the kernel's own, and no modem: set `{}`; \
                 try --on sim",
                link.ends[end], buffers[end]
            ));
        }
        if disciplines[end].is_some() && is_host[end] {
            return refuse(format!(
                "link {name} sets a discipline at host {}, whose queue is the kernel's own; try --on sim",
                link.ends[end]
            ));
        }
    }
    Ok(())
}

/// Only routers have shapers that find their rate.
fn check_auto(link: &str, auto: &Auto, topology: &Topology, is_host: bool) -> Result<(), Error> {
    if auto.is_cake {
        return refuse(format!(
            "link {link} uses the shaper cake-autorate, which only the simulator supports; try --on sim"
        ));
    }
    if is_host {
        return refuse(format!(
            "link {link} has the shaper auto at a host; only a router's port supports it; try --on sim"
        ));
    }
    topology.reflectors(auto).map(drop).or_else(refuse)
}

fn check_traffic(traffic: &Traffic) -> Result<(), Error> {
    let name = &traffic.name;
    let spreads = matches!(traffic.kind, TrafficKind::Udp { addresses, .. } if addresses > 1);
    if spreads && traffic.ipv6 {
        return refuse(format!(
            "traffic {name} has several IPv6 source addresses, which the lab does not support; try --on sim"
        ));
    }
    if traffic.kind.has_chunks() {
        return refuse(format!(
            "traffic {name} fetches chunks, which the lab does not support; try --on sim"
        ));
    }
    check_mss(traffic)
}

fn check_mss(traffic: &Traffic) -> Result<(), Error> {
    match traffic.kind.tcp_options() {
        Some(options) if options.mss > MSS_MAX => refuse(format!(
            "traffic {} has segments of {} B; the maximum in the lab is {MSS_MAX} B; try --on sim",
            traffic.name, options.mss
        )),
        _ => Ok(()),
    }
}

fn notes(scenario: &Scenario, long: &[Long]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut links: Vec<usize> = long.iter().map(|long| long.link).collect();
    links.dedup(); // the wires of a link are adjacent
    if !links.is_empty() {
        let name = |&link: &usize| {
            let link = &scenario.links[link];
            let [there, back] = link.directions.each_ref().map(|d| d.delay.greatest());
            if there == back {
                format!("{} {there}", link.name)
            } else {
                format!("{} {there} and {back}", link.name)
            }
        };
        let links: Vec<String> = links.iter().map(name).collect();
        notes.push(format!(
            "a bridge in each wire emulates the delay and adds 0.1 to 0.3 ms of its own (links {})",
            links.join(", ")
        ));
    }
    let other = scenario.links.iter().filter(|l| l.framing != FRAMING);
    let other: Vec<_> = other.map(|l| l.name.as_str()).collect();
    if !other.is_empty() {
        notes.push(format!(
            "the lab's wires are Ethernet: their rates count {FRAMING} for each packet instead of the `framing` of the \
             scenario (links {})",
            other.join(", ")
        ));
    }
    let is_fast = |link: &&Link| {
        let mut rates = link.directions.iter().filter_map(|d| d.rate.as_ref());
        rates.any(|rate| rate.shortest() < CHANGE_MIN)
    };
    let fast = scenario.links.iter().filter(is_fast);
    let fast: Vec<_> = fast.map(|l| l.name.as_str()).collect();
    if !fast.is_empty() {
        notes.push(format!(
            "rates that change more often than every {CHANGE_MIN} are averaged (links {})",
            fast.join(", ")
        ));
    }
    let short = Span::from_nanos(1)..DELAY_MIN;
    let is_short = |link: &&Link| {
        let mut delays = link.directions.iter().flat_map(|d| d.delay.values());
        delays.any(|delay| short.contains(&delay))
    };
    let delayed = scenario.links.iter().filter(is_short);
    let delayed: Vec<_> = delayed.map(|l| l.name.as_str()).collect();
    if !delayed.is_empty() {
        notes.push(format!(
            "delays below {DELAY_MIN} are not emulated (links {}): the lab's wires have a delay of 0.02 to 0.1 ms",
            delayed.join(", ")
        ));
    }
    let hasty = scenario
        .controllers
        .iter()
        .filter(|c| c.period < PERIOD_MIN);
    let hasty: Vec<_> = hasty.map(|c| c.name.as_str()).collect();
    if !hasty.is_empty() {
        notes.push(format!(
            "queues are sampled every {PERIOD_MIN} at most, even for controllers with a shorter period ({})",
            hasty.join(", ")
        ));
    }
    for traffic in &scenario.traffic {
        let left_out = traffic.kind.tcp_options().map(not_emulated);
        let left_out = left_out.unwrap_or_default();
        if !left_out.is_empty() {
            notes.push(format!(
                "not emulated in the lab: {} of traffic {}; the kernel's own value applies",
                left_out.join(", "),
                traffic.name
            ));
        }
    }
    notes
}

/// Options of the scenario's endpoints that differ from the kernel's behaviour and cannot be changed by the lab's
/// tools. The scenario's defaults are the kernel's behaviour.
fn not_emulated(options: &TcpOptions) -> Vec<&'static str> {
    let kernel = TcpOptions::default();
    let options = [
        (
            "initial_window",
            options.initial_window != kernel.initial_window,
        ),
        (
            "receive_window",
            options.receive_window != kernel.receive_window,
        ),
        ("min_rto", options.min_rto != kernel.min_rto),
        ("granularity", options.granularity.is_some()),
        ("initial_rto", options.initial_rto != kernel.initial_rto),
        ("ack_every", options.ack_every != kernel.ack_every),
        ("delayed_ack", options.delayed_ack != kernel.delayed_ack),
        (
            "byte_counting",
            options.byte_counting != kernel.byte_counting,
        ),
    ];
    let differs = options.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    const SMALL: &str = r#"
title = "small"
[router.a]
[host.left]
count = 2
[host.right]
[link.l]
ends = ["left", "a"]
[link.r]
ends = ["a", "right"]
[traffic.long]
kind = "tcp"
from = "left"
to = "right"
[traffic.flood]
kind = "udp"
from = "left"
to = "right"
rate = "1 Mbit"
"#;

    fn with(old: &str, new: &str) -> Result<Vec<String>, String> {
        assert!(SMALL.contains(old));
        let (scenario, _) = plan(&SMALL.replacen(old, new, 1), &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        check(&scenario, &topology).map_err(|e| e.to_string())
    }

    #[test]
    fn a_limit_of_the_lab_is_a_sentence() {
        let link = "ends = [\"left\", \"a\"]";
        let cases = [
            ("count = 2", "count = 4000".to_owned(), "4002 nodes"),
            (
                "count = 2\n[host.right]\n[link.l]",
                "count = 33\n[host.right]\n[link.l]\ndelay = \"10 ms\"".to_owned(),
                "33 wires need a bridge",
            ),
            (
                link,
                format!("{link}\ndiscipline = {{ kind = \"fifo\" }}"),
                "discipline at host left",
            ),
            (
                link,
                format!("{link}\nrate = \"2 Mbit, 1 Mbit from 1 s\""),
                "a varying rate at host left, whose queue is the kernel's own, and no modem: set `buffer`; try",
            ),
            (
                link,
                format!(
                    "{link}\nrate = \"2 Mbit\"\nbuffer = \"64 kB\"\nshaper = \"auto\"\nreflectors = [\"right\"]"
                ),
                "the shaper auto at a host",
            ),
            (
                "\"tcp\"",
                "\"tcp\"\nmss = \"8960 B\"".to_owned(),
                "segments of 8960 B",
            ),
            (
                "\"udp\"",
                "\"udp\"\nspread = \"1 s\"\nflows = 6000".to_owned(),
                "starts 6000 flows",
            ),
            ("\"tcp\"", "\"tcp\"\nflows = 1001".to_owned(), "1001 TCP"),
        ];
        for (old, new, expected) in cases {
            let error = with(old, &new).unwrap_err();
            assert!(error.starts_with("the lab cannot run this: "), "{error}");
            assert!(error.contains(expected), "{error}");
            assert!(error.ends_with("; try --on sim"), "{error}");
        }
        assert_eq!(with("small", "small"), Ok(Vec::new()));
    }

    #[test]
    fn what_the_lab_leaves_out_is_noted() {
        let new = "\"tcp\"\ninitial_rto = \"3 s\"\nack_every = 1\nmin_rto = \"200 ms\"";
        assert_eq!(
            with("\"tcp\"", new).unwrap(),
            [
                "not emulated in the lab: initial_rto, ack_every of traffic long; the kernel's own value applies"
            ]
        );
        let delay = with(
            "ends = [\"left\", \"a\"]",
            "ends = [\"left\", \"a\"]\ndelay = \"0.1 ms\"",
        );
        assert!(delay.unwrap()[0].starts_with("delays below 1 ms are not emulated (links l)"));
        let right = "ends = [\"a\", \"right\"]";
        let fast = "sawtooth 1 Mbit to 2 Mbit in 4 steps every 0.1 s";
        let fast = format!("{right}\nrate = \"{fast}\"\nreverse_rate = \"1 Mbit\"");
        let averaged = "rates that change more often than every 100 ms are averaged (links r)";
        assert!(with(right, &fast).unwrap().contains(&averaged.to_owned()));
        let framing = with(right, &format!("{right}\nframing = \"2 B\""));
        assert!(
            framing.unwrap()[0].ends_with("instead of the `framing` of the scenario (links r)")
        );
        let left = "ends = [\"left\", \"a\"]";
        let hasty = format!(
            "{left}\nreverse_discipline = {{ kind = \"refill\" }}\n[controller.fast]\n\
             kind = \"backpressure\"\nperiod = \"1 ms\"\ningress = [\"l.reverse\"]\negress = [\"r\"]"
        );
        assert!(with(left, &hasty).unwrap()[0].ends_with("with a shorter period (fast)"));
    }

    #[test]
    fn links_to_a_control_element_have_no_delay() {
        let left = "ends = [\"left\", \"a\"]";
        let with_control = |setting: &str| {
            let section = format!(
                "{left}\nreverse_discipline = {{ kind = \"refill\" }}\n[controller.slow]\n\
                 kind = \"backpressure\"\n{setting}\ningress = [\"l.reverse\"]\negress = [\"r\"]"
            );
            let text = SMALL.replacen(left, &section, 1);
            let text = format!("control = \"forces\"\n{text}");
            let (scenario, _) = plan(&text, &[], &[]).unwrap();
            let topology = Topology::new(&scenario).unwrap();
            check(&scenario, &topology).map_err(|e| e.to_string())
        };
        assert_eq!(with_control("delay = \"0 ms\""), Ok(Vec::new()));
        let rate = "channel_rate = \"1 Mbit\"";
        assert_eq!(with_control(rate), Ok(Vec::new()));
        let flooded = format!("{rate}\nchannel_redirect = \"2 Mbit\"");
        let error = with_control(&flooded).unwrap_err();
        assert!(
            error.contains("controller slow sets `channel_redirect`"),
            "{error}"
        );
        let error = with_control("delay = \"10 ms\"").unwrap_err();
        assert!(error.contains("controller slow sets `delay`"), "{error}");
    }
}
