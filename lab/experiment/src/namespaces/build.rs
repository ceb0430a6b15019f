//! Builds a topology from network namespaces, with the machine's `ip`, `tc` and `ethtool`.
//!
//! ```text
//!   host namespace                     router namespace
//!   app ─ TCP/UDP ─ eth0 ══ veth ══ <peer's name> ─ weir port
//!                   │ tbf at the link's rate            │ the link's discipline and rate
//! ```
//!
//! A wire with a delay contains a bridge: see [`wire`](super::wire).
//!
//! Host ends have checksum and segmentation offload off, because weir reads frames as they are on the wire. Router
//! ends have receive offload off, so that no frame is longer than on the wire.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use weir_base::{Rate, Span};
use weir_live::namespace::{Namespace, Spawner};

use super::endpoints::{Endpoints, Settings};
use super::process::run_to_end;
use super::router::first_rate;
use super::routes::Routes;
use super::wire::{self, Long};
use crate::error::Error;
use crate::scenario::Scenario;
use crate::topology::{Interface, Node, QUEUE_PACKETS, Topology, mac_address};

/// Bytes of a packet on an Ethernet wire beyond its layer-2 length: preamble, frame check sequence, gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;
/// The minimum burst of the kernel's token bucket: two full frames, in bytes.
const BURST_BYTES_MIN: u64 = 3200;
/// Length of the queue of a host's interface: as many packets of 1514 bytes as the kernel's default.
const HOST_QUEUE_BYTES: u64 = QUEUE_PACKETS as u64 * 1514;

/// A topology built from namespaces, which are removed when this value is dropped.
#[derive(Debug)]
pub struct Site {
    /// The thread that starts programs in the namespaces.
    pub spawner: Spawner,
    /// The namespaces, by the topology's node index.
    pub namespaces: Vec<Namespace>,
    /// The wires that contain a bridge, and the bridge's namespace.
    pub long: Vec<(Long, Namespace)>,
}

impl Site {
    /// Builds the topology of a scenario.
    pub fn build(
        scenario: &Scenario,
        topology: &Topology,
        routes: &Routes,
        endpoints: &Endpoints,
    ) -> Result<Self, Error> {
        let namespace = || Namespace::new().map_err(Error::io("cannot create a network namespace"));
        let namespaces = topology.nodes.iter().map(|_| namespace());
        let long = Long::all(scenario, topology).into_iter();
        let site = Self {
            spawner: Spawner::new().map_err(Error::io("cannot start a thread"))?,
            namespaces: namespaces.collect::<Result<_, _>>()?,
            long: long
                .map(|long| Ok((long, namespace()?)))
                .collect::<Result<_, Error>>()?,
        };
        for (index, node) in topology.nodes.iter().enumerate() {
            site.set_kernel(index, node, &endpoints.0[index])?;
        }
        for (long, namespace) in &site.long {
            site.lengthen(topology, long, namespace)?;
        }
        let ip = |index: usize, batch: &str| {
            site.ip(&site.namespaces[index], &topology.nodes[index].name, batch)
        };
        for index in 0..topology.nodes.len() {
            ip(index, &site.links(topology, index))?;
        }
        for (index, node) in topology.nodes.iter().enumerate() {
            ip(index, &(addresses(node) + &route_commands(routes, index)))?;
            let set = |name: &str| site.set_offloads(&site.namespaces[index], &node.name, name);
            node.interfaces.iter().try_for_each(|i| set(&i.name))?;
        }
        for (index, node) in topology.nodes.iter().enumerate() {
            site.pace(index, node)?;
            site.masquerade(scenario, index, node)?;
        }
        Ok(site)
    }

    /// The kernel's settings in a node's namespace.
    fn set_kernel(&self, index: usize, node: &Node, tcp: &Settings) -> Result<(), Error> {
        let mut settings = vec![
            ("ipv4/conf/all/rp_filter", "0"),
            ("ipv4/conf/default/rp_filter", "0"),
            ("ipv6/conf/all/accept_dad", "0"),
            ("ipv6/conf/default/accept_dad", "0"),
            ("ipv6/conf/default/accept_ra", "0"),
            ("ipv6/conf/default/router_solicitations", "0"),
        ];
        if node.is_router {
            settings.push(("ipv4/ip_forward", "1"));
            settings.push(("ipv6/conf/all/forwarding", "1"));
            settings.push(("ipv4/conf/all/send_redirects", "0"));
        } else {
            // Connections reuse no earlier metrics, and retransmit a lost SYN after 1, 2, 4 .. s, as in RFC 6298;
            // recent kernels retransmit it once a second the first few times.
            settings.push(("ipv4/tcp_no_metrics_save", "1"));
            settings.push(("?ipv4/tcp_syn_linear_timeouts", "0"));
            settings.extend(tcp.kernel());
        }
        self.set(&self.namespaces[index], &node.name, &settings)
    }

    /// Writes the kernel's settings below `net` in a namespace; a setting that begins with `?` may be absent.
    fn set(
        &self,
        namespace: &Namespace,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<(), Error> {
        let write = || {
            settings.iter().try_for_each(|(path, value)| {
                let (optional, path) = match path.strip_prefix('?') {
                    Some(path) => (true, path),
                    None => (false, *path),
                };
                match fs::write(format!("/proc/sys/net/{path}"), value) {
                    Err(error) if !optional => Err((path.to_owned(), error)),
                    _ => Ok(()),
                }
            })
        };
        let doing = format!("cannot enter the network namespace of {name}");
        let done = namespace.enter(write).map_err(Error::io(doing))?;
        done.map_err(|(path, error)| Error::io(format!("cannot set net/{path}"))(error))
    }

    /// Creates both halves of a wire that contains a bridge.
    fn lengthen(
        &self,
        topology: &Topology,
        long: &Long,
        namespace: &Namespace,
    ) -> Result<(), Error> {
        let name = long.name();
        // The bridge must send nothing of its own: messages of its kernel would belong to no host.
        let silent = ("ipv6/conf/default/disable_ipv6", "1");
        self.set(namespace, &name, &[silent])?;
        let mut batch = String::new();
        for (port, (node, interface)) in wire::PORTS.iter().zip(long.ends) {
            let path = self.namespaces[node].path();
            let peer = veth(topology, node, interface);
            // Writing to a string cannot fail.
            let _ = writeln!(
                batch,
                "link add name {port} type veth peer name {peer} netns {path}\nlink set dev {port} up"
            );
        }
        self.ip(namespace, &name, &batch)?;
        let set = |port: &&str| self.set_offloads(namespace, &name, port);
        wire::PORTS.iter().try_for_each(set)
    }

    /// The commands that create a node's wires: the lower-numbered router creates each wire.
    fn links(&self, topology: &Topology, index: usize) -> String {
        let node = &topology.nodes[index];
        let mut batch = String::from("link set lo up\n");
        for (place, interface) in node.interfaces.iter().enumerate() {
            let (peer, port) = interface.peer;
            let peer_node = &topology.nodes[peer];
            let ours = node.is_router && !(peer_node.is_router && peer < index);
            let made = self
                .long
                .iter()
                .any(|(long, _)| long.wire == interface.wire);
            if ours && !made {
                let [near, far] = [(index, place), (peer, port)]
                    .map(|(node, interface)| veth(topology, node, interface));
                let path = self.namespaces[peer].path();
                // Writing to a string cannot fail.
                let _ = writeln!(
                    batch,
                    "link add name {near} type veth peer name {far} netns {path}"
                );
            }
        }
        batch
    }

    /// Switches offloads off, so that frames are as on a wire: no longer, and with checksums.
    fn set_offloads(
        &self,
        namespace: &Namespace,
        name: &str,
        interface: &str,
    ) -> Result<(), Error> {
        let features = [
            "-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off",
        ];
        self.run(namespace, name, "ethtool", &features, "")
    }

    /// Paces a host's end of a link to the link's rate, counted on the wire.
    fn pace(&self, index: usize, node: &Node) -> Result<(), Error> {
        let rate = node
            .interfaces
            .first()
            .and_then(|i| first_rate(&i.direction));
        let Some(rate) = rate.filter(|_| !node.is_router) else {
            return Ok(());
        };
        let args = tbf(&node.interfaces[0].name, rate);
        let args: Vec<&str> = args.split(' ').collect();
        self.run(&self.namespaces[index], &node.name, "tc", &args, "")
    }

    /// Lets packets leave through links of a router with its own address.
    fn masquerade(&self, scenario: &Scenario, index: usize, node: &Node) -> Result<(), Error> {
        let router = scenario.router(&node.name);
        let Some(router) = router.filter(|router| !router.masquerade.is_empty()) else {
            return Ok(());
        };
        let is_outside = |interface: &&Interface| {
            let link = &scenario.links[interface.link].name;
            router.masquerade.contains(link)
        };
        let rules: String = node
            .interfaces
            .iter()
            .filter(is_outside)
            .map(|interface| format!("oifname \"{}\" masquerade\n", interface.name))
            .collect();
        let ruleset = ["ip", "ip6"].map(|family| {
            format!(
                "table {family} operator {{ chain postrouting {{\n\
                 type nat hook postrouting priority srcnat\n{rules}}}\n}}\n"
            )
        });
        let namespace = &self.namespaces[index];
        self.run(
            namespace,
            &node.name,
            "nft",
            &["-f", "-"],
            &ruleset.concat(),
        )
    }

    /// Makes a link of the scenario fail, or work again: the ends of the bridges in its wires go down or up, so that both
    /// nodes lose or regain the carrier, and frames within the bridge are lost.
    pub fn set_link(&self, link: usize, works: bool) -> Result<(), Error> {
        let word = if works { "up" } else { "down" };
        let of_link = self.long.iter().filter(|(long, _)| long.link == link);
        for (long, namespace) in of_link {
            let batch = wire::PORTS.map(|port| format!("link set dev {port} {word}\n"));
            self.ip(namespace, &long.name(), &batch.concat())?;
        }
        Ok(())
    }

    /// Runs commands of `ip` in the namespace of the node `name`.
    pub(super) fn ip(&self, namespace: &Namespace, name: &str, batch: &str) -> Result<(), Error> {
        self.run(namespace, name, "ip", &["-batch", "-"], batch)
    }

    fn run(
        &self,
        namespace: &Namespace,
        name: &str,
        program: &str,
        args: &[&str],
        input: &str,
    ) -> Result<(), Error> {
        let mut command = Command::new(program);
        command.args(args);
        let what = format!("{program} in {name}");
        run_to_end(&self.spawner, namespace, &what, command, input)
    }
}

/// An interface as `ip link` creates it: its name, and its MAC address, which its neighbours' rules name.
fn veth(topology: &Topology, node: usize, interface: usize) -> String {
    let name = &topology.nodes[node].interfaces[interface].name;
    let mac = mac_address(node, interface).map(|byte| format!("{byte:02x}"));
    format!("{name} address {}", mac.join(":"))
}

/// The arguments of `tc` that pace an interface to `rate`, wire overhead included.
pub fn tbf(interface: &str, rate: Rate) -> String {
    let burst = rate.bytes_in(Span::from_micros(50)).max(BURST_BYTES_MIN);
    format!(
        "qdisc add dev {interface} root handle 1: tbf rate {}bit burst {burst} \
         limit {HOST_QUEUE_BYTES} overhead {WIRE_OVERHEAD_BYTES}",
        rate.as_bps()
    )
}

/// The commands that give a node its addresses.
fn addresses(node: &Node) -> String {
    let mut batch = String::new();
    for interface in &node.interfaces {
        let name = &interface.name;
        let (v4, v6) = (interface.v4, interface.v6);
        // Writing to a string cannot fail.
        let _ = writeln!(batch, "addr add {v4}/24 dev {name}");
        let _ = writeln!(batch, "addr add {v6}/64 dev {name} nodad");
        let _ = writeln!(batch, "link set dev {name} up");
    }
    batch
}

/// The commands that give a node its routes.
fn route_commands(routes: &Routes, index: usize) -> String {
    let mut batch = String::new();
    if let Some(network) = routes.spread[index] {
        let _ = writeln!(batch, "route add local {network}/16 dev lo");
    }
    for group in &routes.groups[index] {
        let _ = writeln!(batch, "route add local {group} dev lo");
    }
    for route in &routes.routes[index] {
        let _ = writeln!(batch, "route add {route}");
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_paced_by_what_packets_cost_on_the_wire() {
        let args = tbf("eth0", Rate::from_mbps(100));
        assert!(args.ends_with("overhead 24"), "{args}");
        assert!(args.contains("rate 100000000bit burst 3200 "), "{args}");
        // 50 us of 10 Gbit/s are 62500 bytes.
        assert!(tbf("eth0", Rate::from_mbps(10_000)).contains("burst 62500 "));
    }
}
