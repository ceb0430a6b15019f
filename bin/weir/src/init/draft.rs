//! The configuration that `weir init` writes, for a user who has never seen one.

use weir_base::Rate;
use weir_config::quoted;
use weir_live::kernel::inventory::Interface;

use super::choice::{Choice, has_address};
use crate::queue::fair_inside;

/// The rates that the user gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// The rate of the uplink: slightly below the line's upload rate.
    pub(super) up: Option<Rate>,
    /// The rate towards the network: slightly below the line's download rate.
    pub(super) down: Option<Rate>,
}

/// The source of the uplink's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The user.
    Given,
    /// The speed of the cable; the device behind it may be slower.
    Cable,
    /// Unknown: the port is not paced.
    Nobody,
}

/// Share of the cable's speed, in percent, so that the queue builds up in weir and not in the device behind the cable.
const CABLE_PERCENT: u64 = 95;
/// Comment about the rate of uploads.
const UPLOADS: &str = "The rate is a little less than the line carries (95 % of it). Then packets wait here, where weir \
                       decides which go first, and not in the modem, where one flood delays everybody.";
/// Comment about the rate of downloads.
const DOWNLOADS: &str = "A little less than the line's download rate, so that downloads wait here and not at the other \
                         end of the line.";
/// The line for the headers of a modem.
const OVERHEAD: &str = "# overhead = \"docsis\"\n";
/// Maximum width of a line of a comment.
const COLUMNS: usize = 100;

/// The source of a rate of an uplink.
pub(super) fn source(given: Option<Rate>, uplink: &Interface) -> Source {
    match (given, uplink.speed) {
        (Some(_), _) => Source::Given,
        (None, Some(_)) => Source::Cable,
        (None, None) => Source::Nobody,
    }
}

/// The first lines of every configuration.
fn head() -> String {
    comment(
        "weir's configuration, written by `weir init`. `weir check FILE` validates it, and `weir list configuration` \
         prints every key.",
    )
}

/// The configuration of mode "queue": a port for each direction of each uplink.
pub(super) fn queue(uplinks: &[&Interface], rates: Rates) -> String {
    let mut text = head() + "\n";
    text += &comment(
        "The kernel routes, filters and translates as before. weir queues the packets that the uplink sends and \
         receives, and decides which packet goes next.",
    );
    text += "mode = \"queue\"\n";
    for (number, interface) in uplinks.iter().enumerate() {
        let about = described(interface);
        text += &format!(
            "\n{}",
            comment(&format!("Packets sent by the uplink: {about}."))
        );
        text += &format!("[port.{}]\n", nth("up", number));
        text += &format!("interface = {}\n", quoted(&interface.name));
        text += &rate(rates.up, interface, UPLOADS);
        text += &overhead();
        text += &format!(
            "\n{}",
            comment(&format!("Packets received by {}.", interface.name))
        );
        text += &format!("[port.{}]\n", nth("down", number));
        text += &format!("interface = {}\n", quoted(&interface.name));
        text += "direction = \"in\"\n";
        text += &rate(rates.down, interface, DOWNLOADS);
        text += OVERHEAD;
        text += &comment("Fair to the hosts inside, also if all of them load from one server.");
        text += &fair_inside();
    }
    text
}

/// The configuration of a router.
pub(super) fn routed(choice: &Choice<'_>, rates: Rates, permits: &[&str]) -> String {
    let mut text = head();
    if !permits.is_empty() {
        text += "\n";
        text += &comment(
            "weir does not follow this state of the kernel, and forwards anyway: `weir show kernel` lists it.",
        );
    }
    for key in permits {
        text += &format!("{key} = true\n");
    }
    text += &uplink(choice, rates);
    for (number, interface) in choice.networks.iter().enumerate() {
        text += &network(number, interface, rates.down);
    }
    text + &left_out(choice)
}

fn uplink(choice: &Choice<'_>, rates: Rates) -> String {
    let interface = choice.uplink;
    let mut text = String::from("\n");
    text += &comment(&format!("The uplink: {}.", described(interface)));
    text += "[port.wan]\n";
    text += &format!("interface = {}\n", quoted(&interface.name));
    text + &rate(rates.up, interface, UPLOADS) + &overhead()
}

/// The rate of one direction of an uplink.
fn rate(given: Option<Rate>, uplink: &Interface, why: &str) -> String {
    let mut text = comment(why);
    match (given, uplink.speed) {
        (Some(rate), _) => text += &format!("rate = \"{rate}\"\n"),
        (None, Some(speed)) => {
            text += &comment(&format!(
                "This is 95 % of the cable's speed, {speed}. If your contract or the device behind the cable gives you \
                 less, write 95 % of that."
            ));
            let rate = Rate::from_bps(speed.as_bps() / 100 * CABLE_PERCENT);
            text += &format!("rate = \"{rate}\"\n");
        }
        (None, None) => {
            text += &comment(
                "This device does not report the speed of its link. Write 95 % of what your line carries, and remove \
                 the `#`; without a rate, weir has no effect on a line that is slower than its interface.",
            );
            text += "# rate = \"95 Mbit\"\n";
        }
    }
    text
}

fn overhead() -> String {
    comment(
        "A modem adds its own headers, which use part of the line's rate. Name its type, and remove the `#`: \
         \"docsis\" is cable, \"pppoe-ptm\" VDSL2, \"pppoe-llcsnap\" ADSL.",
    ) + OVERHEAD
}

/// The name of the port with this number, from 0, among similar ones.
fn nth(name: &str, number: usize) -> String {
    match number {
        0 => name.to_owned(),
        _ => format!("{name}{}", number + 1),
    }
}

fn network(number: usize, interface: &Interface, down: Option<Rate>) -> String {
    let name = nth("lan", number);
    let mut text = String::from("\n");
    text += &comment(&format!("One of your networks: {}.", described(interface)));
    text += &format!("[port.{name}]\ninterface = {}\n", quoted(&interface.name));
    if let Some(rate) = down {
        text += &comment(DOWNLOADS);
        text += &format!("rate = \"{rate}\"\n");
    }
    text
}

/// A comment about the interfaces that do not become ports. Traffic through them is lost, so the file contains the
/// comment as well.
fn left_out(choice: &Choice<'_>) -> String {
    if choice.left_out.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Not ports:\n");
    for (interface, reason) in &choice.left_out {
        text += &comment(&format!("{}: {reason}", interface.name));
    }
    let carrying = carrying(choice);
    if !carrying.is_empty() {
        text += &comment(&format!(
            "While weir runs, packets between its ports and {} are dropped with reason `not-a-port`. If this machine \
             forwards such packets, make it a port: `weir init --lan NAME`, with one `--lan` for each.",
            carrying.join(", ")
        ));
    }
    text
}

/// Interfaces that do not become ports and may nevertheless carry forwarded traffic.
fn carrying<'a>(choice: &Choice<'a>) -> Vec<&'a str> {
    let left_out = choice.left_out.iter().map(|(interface, _)| *interface);
    let carrying = left_out.filter(|interface| interface.up && has_address(interface));
    carrying.map(|interface| interface.name.as_str()).collect()
}

/// An interface with the kernel's description of it.
fn described(interface: &Interface) -> String {
    let addresses: Vec<_> = interface
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut words = vec![interface.name.clone()];
    words.extend((!interface.kind.is_empty()).then(|| interface.kind.clone()));
    words.extend((!addresses.is_empty()).then(|| addresses.join(" ")));
    words.extend(interface.speed.map(|speed| format!("cable {speed}")));
    words.join(", ")
}

/// A comment, wrapped into lines.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS {
            lines += &line;
            lines += "\n";
            line = String::from("#");
        }
        line += " ";
        line += word;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::plan;

    fn interface(name: &str, speed: Option<u64>) -> Interface {
        Interface {
            name: name.to_owned(),
            is_ethernet: true,
            up: true,
            addresses: vec!["192.0.2.1/24".parse().unwrap()],
            speed: speed.map(Rate::from_mbps),
            ..Interface::default()
        }
    }

    /// The rates of the ports, as `weir check` reads them.
    fn rates(text: &str) -> Vec<(String, String, Option<Rate>)> {
        let plan = plan("weir.toml", text).unwrap().plan;
        let port = |p: &weir_lfb::port::PortPlan| (p.name.clone(), p.interface.clone(), p.rate);
        plan.ports.iter().map(port).collect()
    }

    #[test]
    fn the_text_is_the_configuration_that_was_meant() {
        let (wan, lan, odd) = (
            interface("eth0", Some(1000)),
            interface("eth1", None),
            interface("a\"\\b", None),
        );
        let choice = Choice {
            uplink: &wan,
            networks: vec![&lan, &odd],
            left_out: Vec::new(),
        };
        let given = Rates {
            up: Some(Rate::from_mbps(38)),
            down: None,
        };
        assert_eq!(source(given.up, &wan), Source::Given);
        let found = rates(&routed(&choice, given, &[]));
        let port = |name: &str, interface: &str, mbit: u64| {
            let rate = (mbit > 0).then(|| Rate::from_mbps(mbit));
            (name.to_owned(), interface.to_owned(), rate)
        };
        let expected = [
            port("lan", "eth1", 0),
            port("lan2", "a\"\\b", 0),
            port("wan", "eth0", 38),
        ];
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!(sorted, expected);

        let cable = routed(&choice, Rates::default(), &["bypass_netfilter"]);
        assert!(rates(&cable).contains(&port("wan", "eth0", 950)), "{cable}");
        assert!(cable.contains("bypass_netfilter = true"));
        assert_eq!(source(None, &wan), Source::Cable);
        assert!(cable.lines().all(|line| line.len() <= COLUMNS), "{cable}");
    }

    #[test]
    fn an_uplink_has_a_port_for_each_direction() {
        let (dsl, lte) = (interface("eth0", Some(1000)), interface("wwan0", None));
        let given = Rates {
            up: Some(Rate::from_mbps(38)),
            down: None,
        };
        let text = queue(&[&dsl, &lte], given);
        let port = |name: &str, interface: &str, mbit: Option<u64>| {
            (
                name.to_owned(),
                interface.to_owned(),
                mbit.map(Rate::from_mbps),
            )
        };
        let expected = [
            port("down", "eth0", Some(950)),
            port("down2", "wwan0", None),
            port("up", "eth0", Some(38)),
            port("up2", "wwan0", Some(38)),
        ];
        let mut found = rates(&text);
        found.sort();
        assert_eq!(found, expected, "{text}");
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
    }

    #[test]
    fn what_is_unknown_or_left_out_is_written_down() {
        let (wan, lan, tunnel) = (
            interface("eth0", None),
            interface("eth1", None),
            interface("wg0", None),
        );
        let choice = Choice {
            uplink: &wan,
            networks: vec![&lan],
            left_out: vec![(&tunnel, "it does not carry Ethernet frames".to_owned())],
        };
        let down = Rates {
            up: None,
            down: Some(Rate::from_mbps(240)),
        };
        let text = routed(&choice, down, &[]);
        assert_eq!(source(down.up, &wan), Source::Nobody);
        assert!(text.contains("# rate = \"95 Mbit\""), "{text}");
        assert!(
            text.contains("# wg0: it does not carry Ethernet frames"),
            "{text}"
        );
        assert!(text.contains("not-a-port"), "{text}");
        let lan = rates(&text).into_iter().find(|(name, ..)| name == "lan");
        assert_eq!(lan.unwrap().2, Some(Rate::from_mbps(240)));
    }
}
