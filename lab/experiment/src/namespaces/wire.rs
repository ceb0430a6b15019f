//! Wires that contain a bridge, which emulates a delay of 1 ms or more, or a modem.
//!
//! ```text
//!   node ══ veth ══ first ┌─────────────┐ second ══ veth ══ node
//!                         │ weir router │
//!                         │ mode bridged│   each port: impair, the link's delay, no pacing; in front of it the modem,
//!                         └─────────────┘   if there is one. A namespace of its own, without addresses
//! ```
//!
//! A link whose rate or delay changes has a bridge as well (see `courses`). Without a modem the port in front of the
//! bridge has the rate, and the bridge stops the link only in an outage.
//!
//! The ends of the wire are the same as without a delay: names, rates and queues. The bridge holds every frame for the
//! delay and then passes it on. It has room for everything that the link can send in that time, so it loses no frame
//! that the link's own queue let through. A link that an event cuts has a bridge as well, whatever its delay: both ends
//! of the bridge go down, and the nodes keep their addresses and routes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use weir_base::{Instant, Rate, Span, Varying};
use weir_config::quoted;
use weir_packet::Reason;

use super::router::{CHANGE_MIN, NO_SUPERVISOR, Router};
use crate::lines;
use crate::scenario::{Direction, Scenario};
use crate::topology::{Interface, Topology};

/// Minimum emulated delay; shorter delays are common in namespaces anyway.
pub const DELAY_MIN: Span = Span::from_millis(1);
/// Maximum number of wires with a delay: each is another router, and all share the machine's processors.
pub const LONG_MAX: usize = 32;
/// Bytes of the shortest frame on an Ethernet wire, with preamble and gap.
const FRAME_BYTES_MIN: u64 = 84;
/// The assumed rate of a wire without a rate: above the total of the lab's senders.
const RATE_MAX: Rate = Rate::from_mbps(1_000);
/// Minimum and maximum number of packets that one direction of a wire holds.
const HELD_PACKETS: (u64, u64) = (1_000, 50_000);
/// The bridge's two ports.
pub const PORTS: [&str; 2] = ["first", "second"];

/// A wire that contains a bridge, for a delay that namespaces alone do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Long {
    /// The topology's number of the wire.
    pub wire: usize,
    /// The scenario's index of the link.
    pub link: usize,
    /// Node and interface at both ends.
    pub ends: [(usize, usize); 2],
    /// The direction from the first end, and that from the second.
    pub directions: [Emulated; 2],
}

/// One direction of such a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulated {
    /// The direction's rate, delay and modem in the scenario.
    pub direction: Direction,
    /// Maximum number of packets in the bridge.
    pub held: u64,
}

impl Emulated {
    /// The parameters of the bridge's discipline at `now`, as written, and the end of their validity.
    pub fn parameters(&self, now: Instant) -> (Vec<(&'static str, String)>, Instant) {
        let (delay, mut until) = self.direction.delay.piece(now);
        until = until.max(now + CHANGE_MIN);
        let mut parameters = vec![("delay", delay.to_string())];
        let rate = self.direction.rate.as_ref();
        if let Some(course) = rate.filter(|r| self.direction.modem.is_some() || !r.is_constant()) {
            let (rate, end) = lines::settled(course, now, CHANGE_MIN);
            until = until.min(end);
            if self.direction.modem.is_some() && rate > Rate::default() {
                parameters.push(("rate", rate.to_string()));
            }
            parameters.push(("outage", (rate == Rate::default()).to_string()));
        }
        (parameters, until)
    }
}

impl Long {
    /// The wires that need a bridge, by their numbers: wires with a delay, and wires of links that fail or change.
    pub fn all(scenario: &Scenario, topology: &Topology) -> Vec<Self> {
        let fail = failing_links(scenario);
        let mut all = Vec::new();
        for (node, interface) in topology.nodes.iter().enumerate() {
            for (port, near) in interface.interfaces.iter().enumerate() {
                let first = (node, port) < near.peer;
                let (peer, place) = near.peer;
                let far = &topology.nodes[peer].interfaces[place];
                let needs = |end: &Interface| {
                    end.direction.delay.greatest() >= DELAY_MIN || !end.direction.is_plain()
                };
                if first && (needs(near) || needs(far) || fail.contains(&near.link)) {
                    all.push(Self {
                        wire: near.wire,
                        link: near.link,
                        ends: [(node, port), near.peer],
                        directions: [near, far].map(|end| Emulated {
                            direction: end.direction.clone(),
                            held: held(&end.direction),
                        }),
                    });
                }
            }
        }
        all.sort_by_key(|long| long.wire);
        all
    }

    /// The name of the bridge.
    pub fn name(&self) -> String {
        format!("wire{}", self.wire)
    }

    /// The configuration of the bridge.
    pub fn configuration(&self, socket: &Path) -> String {
        let socket = quoted(&socket.to_string_lossy());
        let mut text = format!("mode = \"bridged\"\nsocket = {socket}\n{NO_SUPERVISOR}");
        // Frames from the first end enter through the first port, and leave through the second.
        for (port, emulated) in PORTS.iter().zip(self.directions.iter().rev()) {
            let (parameters, _) = emulated.parameters(Instant::ZERO);
            let mut discipline = format!("kind = \"impair\", limit = {}", emulated.held);
            for (name, value) in parameters {
                let value = match value.parse::<bool>() {
                    Ok(flag) => flag.to_string(),
                    Err(_) => quoted(&value),
                };
                discipline += &format!(", {name} = {value}");
            }
            if let Some(modem) = &emulated.direction.modem {
                discipline += &format!(", buffer = \"{}\"", modem.buffer);
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\n[port.{port}]\ndiscipline = {{ {discipline} }}");
        }
        text
    }
}

/// The links of the scenario that fail or work again during a run.
fn failing_links(scenario: &Scenario) -> BTreeSet<usize> {
    let layer = scenario.layer.iter();
    layer.flat_map(|layer| layer.failing_links()).collect()
}

/// A note about the packets that a bridge lost, if any: then the run differs from the scenario.
pub fn lost(bridge: &Router) -> Option<String> {
    let drops = bridge.page("drops");
    // Losses of a modem belong to the scenario.
    let lost = |drop: &Value| drop["loss"] == true && drop["reason"] != Reason::Impaired.name();
    let count = |drop: &Value| {
        if lost(drop) {
            drop["count"]["packets"].as_u64().unwrap_or(0)
        } else {
            0
        }
    };
    let lost: u64 = drops.as_array().into_iter().flatten().map(count).sum();
    (lost > 0).then(|| format!("bridge {} lost {lost} packets: {drops}", bridge.name))
}

/// The number of packets that one direction sends within the delay, plus the packets in its modem, if all packets have
/// the minimum length.
fn held(direction: &Direction) -> u64 {
    let rate = direction.rate.as_ref().map_or(RATE_MAX, Varying::greatest);
    let rate = rate.min(RATE_MAX);
    let delay = direction.delay.greatest();
    let buffer = direction.modem.as_ref().map_or(0, |modem| modem.buffer.0);
    let packets = (rate.bytes_in(delay) + buffer).div_ceil(FRAME_BYTES_MIN);
    (2 * packets).clamp(HELD_PACKETS.0, HELD_PACKETS.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    const TEXT: &str = r#"
title = "t"
[router.r]
[host.near]
[host.far]
count = 2
[link.near]
ends = ["near", "r"]
delay = "0.1 ms"
[link.far]
ends = ["r", "far"]
rate = "100 Mbit"
delay = "20 ms"
"#;

    #[test]
    fn a_wire_with_a_delay_holds_what_it_sends_meanwhile() {
        let (scenario, _) = plan(TEXT, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let all = Long::all(&scenario, &topology);
        assert_eq!(all.len(), 2);
        // r's second interface and far2's only one
        assert_eq!(all[0].ends, [(0, 1), (2, 0)]);
        // 250 kB in 20 ms: 2977 of the shortest frames, and as many again for bursts.
        assert_eq!((all[0].wire, all[0].directions[1].held), (1, 5954));
        let text = all[0].configuration(Path::new("/run/w.sock"));
        assert_eq!(
            text,
            "mode = \"bridged\"\nsocket = \"/run/w.sock\"\nwatchdog = \"0 s\"\n\
             \n[port.first]\ndiscipline = { kind = \"impair\", limit = 5954, delay = \"20 ms\" }\n\
             \n[port.second]\ndiscipline = { kind = \"impair\", limit = 5954, delay = \"20 ms\" }\n"
        );
    }

    #[test]
    fn a_modem_is_in_the_bridge_and_a_rate_that_the_port_knows_is_not() {
        let link = "rate = \"20 Mbit, outage from 5 s, 4 Mbit from 6 s\"\nbuffer = \"64 kB\"";
        let text = TEXT.replacen("rate = \"100 Mbit\"", link, 1);
        let (scenario, _) = plan(&text, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let long = &Long::all(&scenario, &topology)[0];
        let at = |end: usize, seconds| {
            let now = Instant::ZERO + Span::from_secs(seconds);
            let (parameters, until) = long.directions[end].parameters(now);
            let shown = parameters
                .iter()
                .map(|(name, value)| format!("{name} {value}"));
            (shown.collect::<Vec<_>>().join(", "), until.since(now))
        };
        let seconds = Span::from_secs;
        let first = "delay 20 ms, rate 20 Mbit, outage false".to_owned();
        assert_eq!(at(0, 0), (first, seconds(5)));
        assert_eq!(
            at(0, 5),
            ("delay 20 ms, outage true".to_owned(), seconds(1))
        );
        // The second end has no modem: the port itself has the rate.
        assert_eq!(at(1, 0).0, "delay 20 ms, outage false");
        let text = long.configuration(Path::new("/run/w.sock"));
        let modem = "[port.second]\ndiscipline = { kind = \"impair\", limit = 2716, delay = \"20 ms\", rate = \"20 Mbit\", outage = false, buffer = \"64000 B\" }";
        assert!(text.contains(modem), "{text}");
    }
}
