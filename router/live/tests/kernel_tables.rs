//! Following the kernel's tables in a namespace, while `ip` changes them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::common::{Peer, eventually, in_namespace, run};
use weir_live::kernel::follow;
use weir_live::kernel::fpm::{Fpm, FpmCounts};
use weir_live::kernel::neighbours::Neighbours;
use weir_path::ip::tables::{Action, Neighbour, NextHop, Tables};

/// A follower on its own thread, and its last publication.
pub(crate) struct Followed {
    latest: Arc<Mutex<(Tables, FpmCounts, u64)>>,
}

impl Followed {
    pub(crate) fn start() -> Self {
        Self::start_with(|| None)
    }

    /// Starts a follower that also takes routes by FPM.
    pub(crate) fn start_with(fpm: impl FnOnce() -> Option<Fpm> + Send + 'static) -> Self {
        let latest = Arc::new(Mutex::new(Default::default()));
        let publish = latest.clone();
        std::thread::spawn(move || {
            let follow = async {
                follow::follow(fpm(), |state| {
                    let mut latest: MutexGuard<'_, (_, _, u64)> = publish.lock().unwrap();
                    *latest = (state.tables().clone(), state.fpm_counts(), latest.2 + 1);
                })
                .await
            };
            panic!("{:?}", runtime().block_on(follow).unwrap_err());
        });
        let followed = Self { latest };
        followed.awaits("the first tables", |_| true);
        followed
    }

    pub(crate) fn tables(&self) -> Tables {
        self.latest.lock().unwrap().0.clone()
    }

    pub(crate) fn fpm_counts(&self) -> FpmCounts {
        self.latest.lock().unwrap().1
    }

    fn publications(&self) -> u64 {
        self.latest.lock().unwrap().2
    }

    fn awaits(&self, what: &str, holds: impl Fn(&Tables) -> bool) {
        eventually(what, || self.publications() > 0 && holds(&self.tables()));
    }

    /// Waits until a route is as `expected`.
    pub(crate) fn awaits_action(&self, to: &str, expected: Option<Action>) {
        let address: IpAddr = to.parse().unwrap();
        self.awaits(&format!("{to} by {expected:?}"), |t| {
            t.route(address).map(|(_, r)| r.action.clone()) == expected
        });
    }

    /// Waits until a route is as `expected` and the tables agree with a fresh reading.
    fn awaits_route(&self, to: &str, expected: Option<Action>) {
        self.awaits_action(to, expected);
        self.agrees();
    }

    /// The followed tables agree with a fresh reading.
    fn agrees(&self) {
        eventually("agreement with a fresh reading", || {
            let fresh = runtime().block_on(follow::read()).unwrap();
            shown(&fresh) == shown(&self.tables())
        });
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// All tables, in an order that is the same for equal ones. Neighbours are left out, because they appear and age by
/// themselves.
fn shown(tables: &Tables) -> Vec<String> {
    let interfaces = tables.interfaces.iter().map(|i| {
        let mut interface = i.1.clone();
        interface.addresses.sort();
        format!("{} {interface:?}", i.0)
    });
    let mut lines: Vec<String> = interfaces.collect();
    lines.extend(tables.routes().map(|r| format!("{r:?}")));
    lines
}

pub(crate) fn index(tables: &Tables, name: &str) -> u32 {
    let found = tables.interfaces.iter().find(|(_, i)| i.name == name);
    *found.unwrap_or_else(|| panic!("no {name}")).0
}

/// Two interfaces, `x0` with 10.0.0.1/24 and fd00::1/64, `y0` with 10.1.0.1/24 and fd01::1/64,
/// whose other ends are `x1` and `y1`.
fn two_links() {
    run("for which in all default; do echo 0 > /proc/sys/net/ipv6/conf/$which/accept_dad; done");
    for (name, n) in [("x", 0), ("y", 1)] {
        run(&format!(
            "ip link add {name}0 type veth peer name {name}1 && \
             ip link set {name}0 up && ip link set {name}1 up && \
             ip addr add 10.{n}.0.1/24 dev {name}0 && ip addr add fd0{n}::1/64 dev {name}0 nodad"
        ));
    }
}

fn via(interface: u32, gateway: &str, weight: u32) -> NextHop {
    NextHop {
        interface,
        gateway: Some(gateway.parse().unwrap()),
        weight,
    }
}

#[test]
fn routes_are_followed() {
    in_namespace(|| {
        two_links();
        let followed = Followed::start();
        followed.agrees();
        let tables = followed.tables();
        let (x0, y0) = (index(&tables, "x0"), index(&tables, "y0"));
        let forward = |hops: &[NextHop]| Some(Action::Forward(hops.to_vec()));
        followed.awaits_route("10.0.0.1", Some(Action::Local));
        followed.awaits_route("10.0.0.255", Some(Action::Local));
        followed.awaits_route("fd00::1", Some(Action::Local));
        let connected = NextHop {
            interface: x0,
            gateway: None,
            weight: 1,
        };
        followed.awaits_route("10.0.0.7", forward(&[connected]));
        followed.awaits_route("fd00::7", forward(&[connected]));
        followed.awaits_route("192.0.2.1", None);

        run("ip route add 192.0.2.0/24 via 10.0.0.2 metric 100");
        followed.awaits_route("192.0.2.1", forward(&[via(x0, "10.0.0.2", 1)]));
        run("ip route add 192.0.2.0/24 via 10.1.0.2 metric 50");
        followed.awaits_route("192.0.2.1", forward(&[via(y0, "10.1.0.2", 1)]));
        run("ip route replace 192.0.2.0/24 via 10.1.0.3 metric 50");
        followed.awaits_route("192.0.2.1", forward(&[via(y0, "10.1.0.3", 1)]));
        run("ip route prepend 192.0.2.0/24 via 10.1.0.4 metric 50");
        followed.awaits_route("192.0.2.1", forward(&[via(y0, "10.1.0.4", 1)]));
        run("ip route append 192.0.2.0/24 via 10.1.0.5 metric 50");
        run("ip route del 192.0.2.0/24 via 10.1.0.4 metric 50");
        followed.awaits_route("192.0.2.1", forward(&[via(y0, "10.1.0.3", 1)]));
        run("ip route del 192.0.2.0/24 via 10.1.0.3 metric 50");
        followed.awaits_route("192.0.2.1", forward(&[via(y0, "10.1.0.5", 1)]));
        run("ip route del 192.0.2.0/24 metric 50");
        followed.awaits_route("192.0.2.1", forward(&[via(x0, "10.0.0.2", 1)]));
        run("ip route del 192.0.2.0/24");
        followed.awaits_route("192.0.2.1", None);

        run("ip route add blackhole 192.0.2.0/25");
        followed.awaits_route("192.0.2.1", Some(Action::Blackhole));
        run("ip route replace prohibit 192.0.2.0/25");
        followed.awaits_route("192.0.2.1", Some(Action::Prohibit));
        run("ip route add 198.51.100.0/24 via inet6 fd00::2 dev x0");
        followed.awaits_route("198.51.100.1", forward(&[via(x0, "fd00::2", 1)]));
        run("ip route add 203.0.113.0/24 via 10.0.0.2 table 100");
        followed.awaits_route("203.0.113.1", None);
    });
}

#[test]
fn several_next_hops_and_links_that_fail_are_followed() {
    in_namespace(|| {
        two_links();
        let followed = Followed::start();
        let tables = followed.tables();
        let (x0, y0) = (index(&tables, "x0"), index(&tables, "y0"));
        let forward = |hops: &[NextHop]| Some(Action::Forward(hops.to_vec()));
        run(
            "ip route add 192.0.2.0/24 nexthop via 10.0.0.2 weight 1 nexthop via 10.1.0.2 weight 3",
        );
        run("ip -6 route add 2001:db8::/32 nexthop via fd00::2 nexthop via fd01::2");
        run("ip route add 198.51.100.0/24 via 10.1.0.2");
        let both = [via(x0, "10.0.0.2", 1), via(y0, "10.1.0.2", 3)];
        followed.awaits_route("192.0.2.1", forward(&both));
        let both6 = [via(x0, "fd00::2", 1), via(y0, "fd01::2", 1)];
        followed.awaits_route("2001:db8::1", forward(&both6));
        run("ip -6 route append 2001:db8::/32 via fd00::3");
        followed.awaits("a third next hop", |t| {
            let route = t.route("2001:db8::1".parse().unwrap());
            matches!(&route.unwrap().1.action, Action::Forward(hops) if hops.len() == 3)
        });
        run("ip -6 route del 2001:db8::/32 via fd00::3");
        followed.awaits_route("2001:db8::1", forward(&both6));

        run("ip link set y1 down"); // no carrier at y0
        followed.awaits_route("192.0.2.1", forward(&both[..1]));
        followed.awaits_route("198.51.100.1", forward(&[via(y0, "10.1.0.2", 1)]));
        run("ip link set y1 up");
        followed.awaits_route("192.0.2.1", forward(&both));
        run("ip link set y0 down"); // the kernel removes the routes
        followed.awaits_route("198.51.100.1", None);
        followed.awaits_route("192.0.2.1", forward(&both[..1]));
        followed.awaits_route("2001:db8::1", forward(&both6[..1]));
        run("ip addr del 10.0.0.1/24 dev x0");
        followed.awaits_route("192.0.2.1", None);
        run("ip link del x0");
        followed.awaits("x0 gone", |t| !t.interfaces.contains_key(&x0));
        followed.agrees();
    });
}

#[test]
fn next_hop_objects_are_followed() {
    in_namespace(|| {
        two_links();
        let followed = Followed::start();
        let tables = followed.tables();
        let (x0, y0) = (index(&tables, "x0"), index(&tables, "y0"));
        let forward = |hops: &[NextHop]| Some(Action::Forward(hops.to_vec()));
        for mode in [1, 0] {
            // In mode 0, the kernel's message about a route has only the number of its object.
            run(&format!("sysctl -qw net.ipv4.nexthop_compat_mode={mode}"));
            run("ip nexthop add id 1 via 10.0.0.2 dev x0");
            run("ip nexthop add id 2 via 10.1.0.2 dev y0");
            run("ip nexthop add id 10 group 1,1/2,3");
            run("ip route add 192.0.2.0/24 nhid 10");
            let both = [via(x0, "10.0.0.2", 1), via(y0, "10.1.0.2", 3)];
            followed.awaits_route("192.0.2.1", forward(&both));
            run("ip nexthop replace id 2 via 10.1.0.9 dev y0");
            let moved = [both[0], via(y0, "10.1.0.9", 3)];
            followed.awaits_route("192.0.2.1", forward(&moved));
            run("ip nexthop replace id 10 group 2,7");
            followed.awaits_route("192.0.2.1", forward(&[via(y0, "10.1.0.9", 7)]));
            run("ip nexthop replace id 10 group 1/2");
            followed.awaits("two members", |t| {
                let route = t.route("192.0.2.1".parse().unwrap());
                matches!(&route.unwrap().1.action, Action::Forward(hops) if hops.len() == 2)
            });
            run("ip nexthop del id 2");
            followed.awaits_route("192.0.2.1", forward(&both[..1]));
            run("ip nexthop del id 1"); // removes the group and the route too
            followed.awaits_route("192.0.2.1", None);
        }
        run("ip nexthop add id 3 blackhole && ip route add 198.51.100.0/24 nhid 3");
        followed.awaits_route("198.51.100.1", Some(Action::Blackhole));
    });
}

#[test]
fn a_burst_of_changes_is_published_in_few_pieces() {
    in_namespace(|| {
        two_links();
        let followed = Followed::start();
        let before = followed.publications();
        let lines = (0..5000).map(|n| {
            let (high, low) = (n / 256, n % 256);
            format!("route add 172.16.{high}.{low}/32 via 10.0.0.2\n")
        });
        let file = std::env::temp_dir().join(format!("weir-routes-{}", std::process::id()));
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        run(&format!("ip -batch {0}; rm {0}", file.display()));
        followed.awaits("all routes", |t| {
            t.routes().filter(|(p, _)| p.prefix_len() == 32).count() >= 5000
        });
        let publications = followed.publications() - before;
        assert!(publications < 500, "{publications} publications");
        followed.agrees();
        run("ip link set x0 down");
        followed.awaits_route("172.16.0.1", None);
    });
}

/// The number of commands, starting with the first, that change only routes and so cause no new dump.
const ROUTE_COMMANDS: u64 = 9;
/// Kinds of commands.
const COMMANDS: u64 = 17;

/// A command that changes something, chosen by a number. Many of them fail, which is intended.
fn command(number: u64, kinds: u64) -> String {
    let pick =
        |shift: u32, choices: &[&'static str]| choices[(number >> shift) as usize % choices.len()];
    let verb = pick(0, &["add", "replace", "append", "prepend", "del", "del"]);
    let metric = pick(8, &["", "metric 10", "metric 20"]);
    let net = pick(12, &["192.0.2.0/24", "192.0.2.0/25", "default"]);
    let net6 = pick(12, &["2001:db8::/32", "2001:db8::/48", "default"]);
    let (gateway, gateway6) = (pick(16, &["10.0.0", "10.1.0"]), pick(16, &["fd00", "fd01"]));
    let host = pick(20, &["2", "3", "4"]);
    let link = pick(24, &["x0", "y0", "x1"]);
    let id = pick(28, &["1", "2", "3"]);
    let more = pick(
        36,
        &[
            "",
            "",
            "mtu 1300",
            "mtu lock 1200",
            "src 10.0.0.1",
            "table default",
        ],
    );
    let more6 = pick(
        36,
        &[
            "",
            "",
            "mtu 1300",
            "src fd00::1",
            "pref high",
            "from fd00::/64",
        ],
    );
    match (number >> 32) % kinds {
        0..4 => format!("ip route {verb} {net} via {gateway}.{host} {metric} {more}"),
        4 => {
            format!("ip route {verb} {net} {metric} nexthop via 10.0.0.2 nexthop via 10.1.0.{host}")
        }
        5..8 => format!("ip -6 route {verb} {net6} via {gateway6}::{host} {metric} {more6}"),
        8 => format!(
            "ip -6 route {verb} {net6} {metric} nexthop via fd00::2 nexthop via fd01::{host}"
        ),
        9 => format!("ip link set {link} {}", pick(0, &["up", "down", "up"])),
        10 => format!(
            "ip addr {} 10.2.0.{host}/24 dev {link}",
            pick(0, &["add", "del"])
        ),
        11 => format!("ip nexthop replace id {id} via {gateway}.{host}"),
        12 => format!("ip nexthop replace id 9 group {id}/2"),
        13 => format!("ip nexthop del id {}", pick(0, &["1", "2", "3", "9"])),
        14 => format!(
            "ip route replace {net} {metric} nhid {}",
            pick(0, &["1", "9"])
        ),
        15 => format!(
            "sysctl -qw net.ipv4.conf.{link}.ignore_routes_with_linkdown={0} \
             net.ipv6.conf.{link}.ignore_routes_with_linkdown={0}",
            number & 1
        ),
        _ => format!(
            "ip route {} {} {net} {metric}",
            pick(4, &["replace", "replace", "del"]),
            pick(0, &["blackhole", "prohibit", "throw", "unreachable"])
        ),
    }
}

/// The kernel itself sends packets to the same destinations as the tables.
fn leads_as_the_kernels(tables: &Tables) {
    let (any, own): (IpAddr, IpAddr) = ("::".parse().unwrap(), "fd00::1".parse().unwrap());
    for (to, from) in [
        ("192.0.2.1", any),
        ("192.0.2.200", any),
        ("198.51.100.1", any),
        ("2001:db8::1", own),
        ("2001:db8:1::1", own),
        ("2001:db8::1", "2001:db8:9::9".parse().unwrap()),
        ("2001:db9::1", own),
    ] {
        let with_source = match from {
            _ if from == any => String::new(),
            _ => format!("from {from}"),
        };
        let said = run(&format!("ip route get {to} {with_source} 2>&1 || true"));
        let words: Vec<&str> = said.split_whitespace().collect();
        let after = |word| {
            words
                .iter()
                .position(|w| *w == word)
                .map(|at| words[at + 1])
        };
        let route = tables.route_from(to.parse().unwrap(), from);
        let hops = match route.map(|route| &route.action) {
            Some(Action::Forward(hops)) => hops.as_slice(),
            _ => &[],
        };
        let is_error = said.contains("RTNETLINK") || after("dev") == Some("lo");
        let is_hop = |hop: &NextHop| {
            let gateway = after("via").map(|gateway| gateway.parse().unwrap());
            Some(hop.interface) == after("dev").map(|name| index(tables, name))
                && hop.gateway == gateway
        };
        assert!(
            said.contains("linkdown") || is_error && hops.is_empty() || hops.iter().any(is_hop),
            "{to} {with_source}: {said}, {route:?}"
        );
    }
}

#[test]
fn after_any_changes_the_tables_are_the_kernels() {
    in_namespace(|| {
        two_links();
        let followed = Followed::start();
        let mut number = 1_u64;
        for (round, kinds) in [ROUTE_COMMANDS, COMMANDS].repeat(4).into_iter().enumerate() {
            // In mode 0, the kernel's message about a route has only the number of its next-hop object.
            let mode = round / 2 % 2;
            run(&format!("sysctl -qw net.ipv4.nexthop_compat_mode={mode}"));
            let mut script = String::new();
            for _ in 0..60 {
                number ^= number << 13;
                number ^= number >> 7;
                number ^= number << 17;
                script += &format!("{} 2>/dev/null; ", command(number, kinds));
            }
            run(&format!("{script} true"));
            followed.agrees();
            leads_as_the_kernels(&followed.tables());
        }
    });
}

#[test]
fn more_changes_than_the_socket_holds_are_caught_up() {
    in_namespace(|| {
        const ROUTES: usize = 100_000;
        two_links();
        let followed = Followed::start();
        let lines = (0..3 * ROUTES).map(|change| {
            let (n, gateway) = (change % ROUTES, 2 + change / ROUTES % 2);
            let (high, low) = (n / 256 % 256, n % 256);
            format!(
                "route replace 172.{}.{high}.{low}/32 via 10.0.0.{gateway}\n",
                16 + n / 65_536
            )
        });
        let file = std::env::temp_dir().join(format!("weir-many-{}", std::process::id()));
        std::fs::write(&file, lines.collect::<String>()).unwrap();
        // This lock blocks the publisher, and with it the reading of changes.
        let held = followed.latest.lock().unwrap();
        run("ip link set lo mtu 65000");
        run(&format!("ip -batch {0}; rm {0}", file.display()));
        // The column before the last is the number of messages that found a full socket.
        let lost =
            "awk '$9 > 0 && $2 == 0 { n += $9 } END { print n }' /proc/thread-self/net/netlink";
        assert_ne!(run(lost).trim(), "");
        drop(held);
        followed.awaits("all routes", |t| t.route_count() >= ROUTES);
        followed.agrees();
    });
}

#[test]
fn neighbours_are_resolved_and_verified_and_no_more() {
    in_namespace(|| {
        two_links();
        let peer = Peer::new();
        run(&format!("ip link set x1 netns {}", peer.pid()));
        peer.run("ip link set x1 up");
        peer.run("ip addr add 10.0.0.2/24 dev x1");
        peer.run("ip addr add fd00::2/64 dev x1 nodad");
        let followed = Followed::start();
        let x0 = index(&followed.tables(), "x0");
        followed.awaits("carrier", |t| t.interfaces[&x0].up);
        let (there, there6) = ("10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap());
        let nobody: IpAddr = "10.0.0.77".parse().unwrap();
        let mut neighbours = Neighbours::new().unwrap();
        let reachable = |address| {
            followed.awaits("an answer", |t| {
                let known = t.neighbours.get(&(x0, address));
                matches!(known, Some(Neighbour::Reachable(_)))
            });
        };
        for address in [there, there6, nobody] {
            neighbours.resolve((x0, address)).unwrap();
            neighbours.resolve((x0, address)).unwrap();
        }
        reachable(there);
        reachable(there6);
        let state = |address: IpAddr| {
            let text = run("ip -d neigh show dev x0 nud all");
            let line = text.lines().find(|l| l.starts_with(&format!("{address} ")));
            line.unwrap_or_else(|| panic!("{text}")).to_owned()
        };
        run(
            "ip neigh change 10.0.0.2 dev x0 nud stale && ip neigh change fd00::2 dev x0 nud stale",
        );
        neighbours
            .verify(&[(x0, there)], &followed.tables())
            .unwrap();
        assert!(state(there).contains("DELAY"), "{}", state(there));
        assert!(state(there6).contains("STALE"), "{}", state(there6));
        // A failed entry is requested again once it is needed.
        followed.awaits("nobody", |t| {
            t.neighbours.get(&(x0, nobody)) == Some(&Neighbour::Failed)
        });
        peer.run("ip addr add 10.0.0.77/24 dev x1");
        neighbours.resolve((x0, nobody)).unwrap();
        reachable(nobody);
        // Entries set by an operator or a program stay unchanged, regardless of requests.
        for how in ["permanent", "noarp", "stale extern_learn", "stale managed"] {
            run(&format!(
                "ip neigh replace 10.0.0.9 lladdr 02:00:00:00:00:09 dev x0 nud {how}"
            ));
            let set: IpAddr = "10.0.0.9".parse().unwrap();
            let before = state(set);
            let mut unaware = followed.tables();
            unaware
                .neighbours
                .insert((x0, set), Neighbour::Reachable([2; 6]));
            neighbours.resolve((x0, set)).unwrap();
            neighbours.verify(&[(x0, set)], &unaware).unwrap();
            assert_eq!(state(set), before, "{how}");
            run("ip neigh del 10.0.0.9 dev x0");
        }
    });
}
