//! The frames that pass the guard to the kernel, compared with those that the kernel alone forwards.
//!
//! ```text
//! host a: ea ---- ra (this namespace) rb ---- eb: host b
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::common::{eventually, in_namespace, run, succeeds};
use weir_live::device::Device;
use weir_live::device::af_packet::{AfPacket, Options};
use weir_live::kernel::transit::TransitGuard;
use weir_live::namespace::Namespace;
use weir_path::plane::Mode;

/// MAC addresses of the router's interface at host `a`, and of the hosts.
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const A: [u8; 6] = [2, 0, 0, 0, 1, 0xa];
const BROADCAST: [u8; 6] = [0xff; 6];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 5];
const OTHER: [u8; 6] = [2, 0, 0, 0, 9, 9];
/// First bytes of the payload that a test sends.
const MAGIC: [u8; 4] = *b"weir";

/// The two hosts, and a packet socket in each.
struct Hosts {
    a: Namespace,
    sender: AfPacket,
    receiver: AfPacket,
}

impl Hosts {
    fn new() -> Self {
        let (a, b) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        for (host, side, net) in [(&a, "a", 1), (&b, "b", 2)] {
            run(&format!(
                "ip link add r{side} address 02:00:00:00:00:0{side} type veth \
                     peer name e{side} address 02:00:00:00:01:0{side} netns {} && \
                 ip link set r{side} up && ip addr add 10.0.{net}.1/24 dev r{side} && \
                 ip addr add fd00:{net}::1/64 dev r{side} nodad && \
                 ip neigh replace 10.0.{net}.2 lladdr 02:00:00:00:01:0{side} dev r{side} && \
                 ip neigh replace fd00:{net}::2 lladdr 02:00:00:00:01:0{side} dev r{side}",
                host.path()
            ));
            host.enter(|| {
                run(&format!(
                    "ip link set lo up && ip link set e{side} up && \
                     ip addr add 10.0.{net}.2/24 dev e{side} && \
                     ip addr add fd00:{net}::2/64 dev e{side} nodad && \
                     ip route add default via 10.0.{net}.1 && \
                     ip -6 route add default via fd00:{net}::1"
                ))
            })
            .unwrap();
        }
        run("echo 1 > /proc/sys/net/ipv4/ip_forward && \
             echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
        let open = |host: &Namespace, name| {
            let options = Options {
                outgoing: false,
                ..Options::default()
            };
            host.enter(|| AfPacket::open(name, options))
                .unwrap()
                .unwrap()
        };
        let (sender, receiver) = (open(&a, "ea"), open(&b, "eb"));
        Self {
            a,
            sender,
            receiver,
        }
    }

    fn ping(&self, address: &str) -> bool {
        let ping = || succeeds(&format!("ping -c 1 -W 1 {address}"));
        self.a.enter(ping).unwrap()
    }

    /// Sends frames, and returns the numbers of those whose packets reached host b, and how often.
    fn forwarded(&mut self, frames: &[Vec<u8>]) -> BTreeMap<u32, u32> {
        let mut came = BTreeMap::new();
        self.collect(&mut came);
        came.clear();
        for batch in frames.chunks(32) {
            self.send(batch);
            self.collect(&mut came);
        }
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            self.collect(&mut came);
            std::thread::sleep(Duration::from_millis(10));
        }
        came
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        let frames: Vec<_> = frames.iter().map(Vec::as_slice).collect();
        let mut sent = 0;
        while sent < frames.len() {
            sent += self.sender.transmit(&frames[sent..]).unwrap();
        }
    }

    fn collect(&mut self, came: &mut BTreeMap<u32, u32>) {
        let mut take = |bytes: &[u8]| {
            let at = bytes.windows(MAGIC.len()).position(|w| w == MAGIC)?;
            let number = bytes.get(at + MAGIC.len()..)?.first_chunk::<4>()?;
            *came.entry(u32::from_be_bytes(*number)).or_insert(0) += 1;
            Some(())
        };
        while self
            .receiver
            .receive(256, &mut |r| _ = take(&r.bytes))
            .unwrap()
            > 0
        {}
    }
}

/// A tag's type and VLAN.
type Tag = (u16, u16);

/// A frame sent by host a.
fn frame(to: [u8; 6], tags: &[Tag], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [to, A].concat();
    for (kind, vlan) in tags {
        frame.extend(kind.to_be_bytes());
        frame.extend(vlan.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A numbered UDP datagram in IPv4, whose header may have options.
fn udp4(to: [u8; 4], options: &[u8], number: u32) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip = vec![0x40 | (header / 4) as u8, 0, 0, (header + 16) as u8];
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2]);
    ip.extend(to);
    ip.extend(options);
    let sum: u32 = ip
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend([0x40, 0, 0, 9, 0, 16, 0, 0]); // no checksum
    ip.extend(MAGIC);
    ip.extend(number.to_be_bytes());
    ip
}

/// The same in IPv6, from host a.
fn udp6(to: &str, number: u32) -> Vec<u8> {
    let [from, to] = ["fd00:1::2", to].map(|a| a.parse::<std::net::Ipv6Addr>().unwrap().octets());
    let mut ip = vec![0x60, 0, 0, 0, 0, 16, 17, 64];
    ip.extend(from);
    ip.extend(to);
    ip.extend([0x40, 0, 0, 9, 0, 16, 0xab, 0xcd]); // a router does not check it
    ip.extend(MAGIC);
    ip.extend(number.to_be_bytes());
    ip
}

/// Every stack of up to `tags_max` tags, of both types, with VLAN 0 and with a VLAN that is not in use.
fn stacks(tags_max: usize) -> Vec<Vec<Tag>> {
    const TAGS: [Tag; 4] = [(0x8100, 0), (0x8100, 5), (0x88a8, 0), (0x88a8, 5)];
    let mut stacks = vec![Vec::new()];
    let mut longest = stacks.clone();
    for _ in 0..tags_max {
        let longer = |stack: &Vec<Tag>| TAGS.map(|tag| [stack.as_slice(), &[tag]].concat());
        longest = longest.iter().flat_map(longer).collect();
        stacks.extend(longest.iter().cloned());
    }
    stacks
}

#[test]
fn no_stack_of_tags_takes_transit_past_the_guard() {
    in_namespace(|| {
        let mut hosts = Hosts::new();
        let stacks = stacks(5);
        let mut frames = Vec::new();
        for (n, stack) in stacks.iter().enumerate() {
            let (v4, v6) = (2 * n as u32, 2 * n as u32 + 1);
            frames.push(frame(ROUTER, stack, 0x0800, &udp4([10, 0, 2, 2], &[], v4)));
            frames.push(frame(ROUTER, stack, 0x86dd, &udp6("fd00:2::2", v6)));
        }
        let plain = |stack: &Vec<Tag>| stack.iter().all(|(_, vlan)| *vlan == 0);
        let priority_only = stacks.iter().enumerate().filter(|(_, stack)| plain(stack));
        let expected: BTreeSet<u32> = priority_only
            .flat_map(|(n, _)| [2 * n as u32, 2 * n as u32 + 1])
            .collect();
        let numbers = |came: BTreeMap<u32, u32>| came.into_keys().collect::<BTreeSet<u32>>();
        let alone = numbers(hosts.forwarded(&frames));
        println!(
            "of {} frames the kernel alone forwards {}",
            frames.len(),
            alone.len()
        );
        assert_eq!(alone, expected, "what the kernel alone forwards");
        let guard = TransitGuard::install(&[("ra", Mode::Routed)]).unwrap();
        assert_eq!(numbers(hosts.forwarded(&frames)), BTreeSet::new());
        drop(guard);
        assert_eq!(numbers(hosts.forwarded(&frames)), expected, "and again");
    });
}

/// Records the Ethernet types that pass the guard at `ra`, as numbers in hexadecimal. Of IP only the
/// tests' datagrams count: the hosts solicit routers and report groups whenever they want.
struct Behind;

impl Behind {
    fn new() -> Self {
        run("nft -f - <<'END'\n\
             table netdev behind {\n\
               set seen { type ether_type; size 65536; flags dynamic; }\n\
               chain every {\n\
                 type filter hook ingress device \"ra\" priority 0;\n\
                 meta protocol != { ip, ip6 } update @seen { meta protocol }\n\
                 udp dport 9 update @seen { meta protocol }\n\
                 meta l4proto 47 update @seen { meta protocol }\n\
               }\n\
             }\nEND");
        Self
    }

    /// The types that came since the last call.
    fn seen(&self) -> BTreeSet<u16> {
        let text = run("nft -nn list set netdev behind seen; nft flush set netdev behind seen");
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words
            .filter_map(|word| u16::from_str_radix(word.strip_prefix("0x")?, 16).ok())
            .collect()
    }
}

#[test]
fn of_all_ethernet_types_only_those_of_the_box_pass() {
    in_namespace(|| {
        let mut hosts = Hosts::new();
        let behind = Behind::new();
        // The other tests check IP by destination.
        let types: Vec<u16> = (0..=u16::MAX)
            .filter(|t| ![0x0800, 0x86dd, 0x8100, 0x88a8].contains(t))
            .collect();
        // First all types; then, with tags and to other hosts, types similar to those that pass.
        let some: Vec<u16> = types
            .iter()
            .copied()
            .filter(|t| [0x00, 0x08, 0x88, 0x89, 0x91].contains(&(t >> 8)))
            .collect();
        let mut passes = |to: [u8; 6], tags: &[Tag]| {
            behind.seen();
            let all = to == ROUTER && tags.is_empty();
            for batch in (if all { &types } else { &some }).chunks(1024) {
                let frames: Vec<_> = batch.iter().map(|t| frame(to, tags, *t, &[])).collect();
                hosts.send(&frames);
            }
            std::thread::sleep(Duration::from_millis(100));
            behind.seen()
        };
        let alone = passes(ROUTER, &[]);
        assert!(
            alone.len() > 60_000,
            "without a guard all pass: {}",
            alone.len()
        );
        let _guard = TransitGuard::install(&[("ra", Mode::Routed)]).unwrap();
        let pppoe = [0x8863, 0x8864];
        let link = [0x0806, 0x88cc, 0x888e];
        let own = BTreeSet::from_iter(link.into_iter().chain(pppoe));
        let link = BTreeSet::from(link);
        let none = BTreeSet::new();
        assert_eq!(passes(ROUTER, &[]), own);
        assert_eq!(passes(BROADCAST, &[]), own);
        assert_eq!(passes(GROUP, &[]), link);
        assert_eq!(passes(OTHER, &[]), link);
        for priority in [(0x8100, 0), (0x88a8, 0)] {
            assert_eq!(passes(ROUTER, &[priority]), own);
            assert_eq!(passes(ROUTER, &[priority, (0x8100, 0)]), none);
        }
        assert_eq!(passes(ROUTER, &[(0x8100, 5)]), none);
        assert_eq!(passes(BROADCAST, &[(0x88a8, 5)]), none);
    });
}

#[test]
fn what_is_for_the_box_passes_and_nothing_is_sent_on() {
    in_namespace(|| {
        let mut hosts = Hosts::new();
        run("echo 1 > /proc/sys/net/ipv4/conf/all/accept_source_route; \
             echo 1 > /proc/sys/net/ipv4/conf/ra/accept_source_route");
        let lsrr = |option| [&[option, 7, 4, 10, 0, 2, 2][..], &[0]].concat();
        let routes: Vec<_> = [131, 137].map(lsrr).to_vec();
        let routed = |n: usize| udp4([10, 0, 1, 1], &routes[n], n as u32);
        let frames = [0, 1].map(|n| frame(ROUTER, &[], 0x0800, &routed(n)));
        let alone = hosts.forwarded(&frames);
        assert_eq!(
            alone,
            BTreeMap::from([(0, 1), (1, 1)]),
            "the kernel sends on"
        );
        let _guard = TransitGuard::install(&[("ra", Mode::Routed), ("rb", Mode::Routed)]).unwrap();
        assert_eq!(hosts.forwarded(&frames), BTreeMap::new());

        // An address is not the machine's own until the kernel has finished duplicate address detection.
        eventually("duplicate address detection", || {
            run("ip -6 addr show tentative").is_empty()
        });
        let behind = Behind::new();
        let mut passes = |to: [u8; 6], ip: Vec<u8>| {
            let ethertype = if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
            behind.seen();
            hosts.send(&[frame(to, &[], ethertype, &ip)]);
            std::thread::sleep(Duration::from_millis(20));
            behind.seen().contains(&ethertype)
        };
        for (to, address) in [
            (ROUTER, [10, 0, 1, 1]),
            (ROUTER, [10, 0, 2, 1]),
            (BROADCAST, [10, 0, 1, 255]),
            (BROADCAST, [255; 4]),
            (GROUP, [224, 0, 0, 5]),
        ] {
            assert!(passes(to, udp4(address, &[], 0)), "{address:?}");
        }
        for address in [[10, 0, 2, 2], [192, 0, 2, 1], [10, 0, 1, 9], [240, 0, 0, 1]] {
            assert!(!passes(ROUTER, udp4(address, &[], 0)), "{address:?}");
            assert!(!passes(BROADCAST, udp4(address, &[], 0)), "{address:?}");
        }
        for address in [
            "fd00:1::1",
            "fd00:2::1",
            "fe80::ff:fe00:a",
            "ff02::1",
            "ff02::5",
        ] {
            assert!(passes(ROUTER, udp6(address, 0)), "{address}");
        }
        for address in ["fd00:2::2", "2001:db8::1", "fd00:1::9"] {
            assert!(!passes(ROUTER, udp6(address, 0)), "{address}");
        }
    });
}

#[test]
fn packets_of_the_router_s_own_tunnels_do_not_reach_the_kernel() {
    in_namespace(|| {
        let mut hosts = Hosts::new();
        let mut guard = TransitGuard::install(&[("ra", Mode::Routed)]).unwrap();
        let behind = Behind::new();
        let mut gre = [udp4([10, 0, 1, 1], &[], 0), udp6("fd00:1::1", 0)];
        (gre[0][9], gre[1][6]) = (47, 47);
        let mut passes = || {
            behind.seen();
            for (ip, ethertype) in gre.iter().zip([0x0800, 0x86dd]) {
                hosts.send(&[frame(ROUTER, &[], ethertype, ip)]);
            }
            std::thread::sleep(Duration::from_millis(20));
            behind.seen()
        };
        let both = BTreeSet::from([0x0800, 0x86dd]);
        let ends = |own: &str, other: &str| (own.parse().unwrap(), other.parse().unwrap());
        assert_eq!(passes(), both, "tunnels of the kernel");
        let [v4, v6] = [ends("10.0.1.1", "10.0.1.2"), ends("fd00:1::1", "fd00:1::2")];
        guard.set_tunnels(&[v4]).unwrap();
        assert_eq!(passes(), BTreeSet::from([0x86dd]));
        guard.set_tunnels(&[v4, v6]).unwrap();
        assert_eq!(passes(), BTreeSet::new());
        let others = [ends("10.0.1.1", "10.0.1.3"), ends("fd00:1::2", "fd00:1::2")];
        guard.set_tunnels(&others).unwrap();
        assert_eq!(passes(), both);
    });
}

#[test]
fn a_macvlan_device_on_a_port_reaches_the_box_and_forwards_nothing() {
    in_namespace(|| {
        const UPPER: [u8; 6] = [2, 0, 0, 0, 0, 0xc];
        let mut hosts = Hosts::new();
        let mut guard = TransitGuard::install(&[("ra", Mode::Routed)]).unwrap();
        run(
            "ip link add up0 link ra address 02:00:00:00:00:0c type macvlan mode bridge && \
             ip link set up0 up && ip addr add 10.0.3.1/24 dev up0",
        );
        let address = || {
            run("ip addr add 10.0.3.2/24 dev ea && \
                 ip neigh replace 10.0.3.1 lladdr 02:00:00:00:00:0c dev ea")
        };
        hosts.a.enter(address).unwrap();
        assert!(hosts.ping("10.0.3.1"), "an address of the box");
        const LINK_LOCAL: &str = "fe80::ff:fe00:c%ea";
        assert!(!hosts.ping(LINK_LOCAL), "the new device is not known yet");
        guard.follow_links().unwrap();
        eventually("the new device is reached", || hosts.ping(LINK_LOCAL));
        let tags: [&[Tag]; 4] = [
            &[],
            &[(0x8100, 0)],
            &[(0x8100, 0), (0x8100, 0)],
            &[(0x88a8, 0), (0x8100, 0), (0x8100, 0)],
        ];
        let frames: Vec<_> = (0..)
            .zip(tags)
            .map(|(n, tags)| frame(UPPER, tags, 0x0800, &udp4([10, 0, 2, 2], &[], n)))
            .collect();
        assert_eq!(hosts.forwarded(&frames), BTreeMap::new());
        run("ip link del up0");
        guard.follow_links().unwrap();
        assert!(!run("nft list ruleset").contains("upper-"));
        run(
            "ip link add up0 link ra address 02:00:00:00:00:0c type macvlan mode bridge && \
             ip link set up0 up && ip addr add 10.0.3.1/24 dev up0",
        );
        drop(guard);
        let alone = hosts.forwarded(&frames);
        assert_eq!(
            alone.len(),
            frames.len(),
            "the kernel alone forwards {alone:?}"
        );
    });
}
