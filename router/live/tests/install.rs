//! Routes of a control element in the kernel of a namespace.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use crate::common::{eventually, in_namespace, run};
use crate::kernel_tables::Followed;
use ipnet::{IpNet, Ipv4Net};
use weir_live::kernel::install::{InstalledRoute, Installer, NextHop, Only, RouteChange};
use weir_live::kernel::message::Version;
use weir_model::{Discard, Target};
use weir_path::ip::tables::{self, Action};

fn up(name: &str) -> u32 {
    run(&format!(
        "ip link add {name} type veth peer name {name}1 && ip link set {name} up && ip link set {name}1 up"
    ));
    let index = run(&format!("ip -o link show dev {name} | cut -d: -f1"));
    index.trim().parse().unwrap()
}

fn route(prefix: &str, gateway: Option<&str>, interface: u32) -> InstalledRoute {
    InstalledRoute {
        prefix: prefix.parse().unwrap(),
        target: Target::Hop(hop(gateway, interface)),
        object: None,
    }
}

fn hop(gateway: Option<&str>, interface: u32) -> NextHop {
    let gateway = gateway.map(|text| text.parse().unwrap());
    NextHop { gateway, interface }
}

#[test]
fn routes_come_change_and_go_and_others_stay() {
    in_namespace(|| {
        let lan = up("lan");
        run("ip address add 192.0.2.2/24 dev lan && ip address add 2001:db8::2/64 dev lan nodad");
        run("ip route add 10.0.0.0/8 via 192.0.2.9");
        let mut installer = Installer::new().unwrap();
        let both = [
            route("10.0.0.0/8", Some("192.0.2.1"), lan),
            route("2001:db8:1::/48", Some("2001:db8::1"), lan),
        ];
        assert!(
            installer
                .change(&both.clone().map(RouteChange::Put))
                .unwrap()
                .is_empty()
        );
        assert_eq!(installer.installed().unwrap(), both);
        // The operator's own route stays, and wins.
        assert!(run("ip route get 10.1.2.3").contains("via 192.0.2.9"));
        let other = route("10.0.0.0/8", Some("192.0.2.3"), lan);
        let changes = [
            RouteChange::Put(other.clone()),
            RouteChange::Remove(both[1].prefix, Only::Any),
            RouteChange::Remove("203.0.113.0/24".parse().unwrap(), Only::Any),
        ];
        assert!(installer.change(&changes).unwrap().is_empty());
        assert_eq!(installer.installed().unwrap(), [other]);
        assert_eq!(run("ip route show 10.0.0.0/8").lines().count(), 2);
        // The kernel refuses a gateway that is not on the link, and still makes the following change.
        let nowhere = route("10.9.0.0/16", Some("198.51.100.1"), lan);
        let last = route("10.8.0.0/16", None, lan);
        let changes = [nowhere, last.clone()].map(RouteChange::Put);
        let refused = installer.change(&changes).unwrap();
        assert_eq!((refused.len(), refused[0].place), (1, 0), "{refused:?}");
        assert!(
            refused[0].to_string().starts_with("route 10.9.0.0/16: "),
            "{refused:?}"
        );
        assert!(installer.installed().unwrap().contains(&last));
    });
}

/// Several next hops, dropped packets, and changes between all kinds of targets, in both families.
#[test]
fn every_kind_of_target_replaces_every_other() {
    in_namespace(|| {
        let (lan, wan) = (up("lan"), up("wan"));
        run("ip address add 192.0.2.2/24 dev lan && ip address add 198.51.100.2/24 dev wan");
        run(
            "ip address add 2001:db8::2/64 dev lan nodad && ip address add 2001:db8:1::2/64 dev wan nodad",
        );
        let mut installer = Installer::new().unwrap();
        for (prefix, [a, b]) in [
            ("10.0.0.0/8", ["192.0.2.1", "198.51.100.1"]),
            ("2001:db8:9::/48", ["2001:db8::1", "2001:db8:1::1"]),
        ] {
            let [a, b] = [hop(Some(a), lan), hop(Some(b), wan)];
            let several = |weights: [u16; 2]| Target::of_hops([a, b].into_iter().zip(weights));
            let kinds = [
                Target::Hop(a),
                several([1, 3]).unwrap(),
                several([256, 1]).unwrap(),
                Target::Discard(Discard::Blackhole),
                Target::Discard(Discard::Unreachable),
                Target::Discard(Discard::Prohibit),
            ];
            let of = |target: &Target<NextHop>| InstalledRoute {
                prefix: prefix.parse().unwrap(),
                target: target.clone(),
                object: None,
            };
            let pairs = kinds
                .iter()
                .flat_map(|from| kinds.iter().map(move |to| (from, to)));
            for (from, to) in pairs.filter(|(from, to)| from != to) {
                let changes = [RouteChange::Add(of(from)), RouteChange::Put(of(to))];
                let refused = installer.change(&changes).unwrap();
                assert!(refused.is_empty(), "{from:?} to {to:?}: {refused:?}");
                assert_eq!(installer.installed().unwrap(), [of(to)], "after {from:?}");
                let again = installer.change(&[RouteChange::Add(of(from))]).unwrap();
                assert_eq!(again.len(), 1, "{from:?} over {to:?}");
                assert!(installer.change(&[of(to).removal()]).unwrap().is_empty());
                assert_eq!(installer.installed().unwrap(), [], "{to:?} is removed");
            }
            // Without an interface, the route has the rest.
            let both = of(&kinds[1]);
            installer.change(&[RouteChange::Put(both.clone())]).unwrap();
            run("ip link set lan down");
            assert_eq!(installer.installed().unwrap(), [of(&Target::Hop(b))]);
            assert!(installer.change(&[both.removal()]).unwrap().is_empty());
            assert_eq!(installer.installed().unwrap(), []);
            run("ip link set lan up && ip address replace 2001:db8::2/64 dev lan nodad");
        }
    });
}

#[test]
fn a_hundred_thousand_routes_are_one_call() {
    in_namespace(|| {
        const ROUTES: u32 = 100_000;
        let lan = up("lan");
        run("ip address add 192.0.2.2/24 dev lan");
        let mut installer = Installer::new().unwrap();
        let prefix = |n: u32| {
            let network = Ipv4Addr::from(0x0B00_0000 + (n << 8));
            IpNet::V4(Ipv4Net::new(network, 24).unwrap())
        };
        let put = |n| {
            let gateway = Some(IpAddr::from([192, 0, 2, 1]));
            RouteChange::Put(InstalledRoute {
                prefix: prefix(n),
                target: Target::Hop(NextHop {
                    gateway,
                    interface: lan,
                }),
                object: None,
            })
        };
        let changes: Vec<_> = (0..ROUTES).map(put).collect();
        let began = std::time::Instant::now();
        assert!(installer.change(&changes).unwrap().is_empty());
        println!("{} routes in {:?}", ROUTES, began.elapsed());
        assert_eq!(installer.installed().unwrap().len(), ROUTES as usize);
        let gone: Vec<_> = (0..ROUTES)
            .map(|n| RouteChange::Remove(prefix(n), Only::Any))
            .collect();
        assert!(installer.change(&gone).unwrap().is_empty());
        assert_eq!(installer.installed().unwrap(), []);
    });
}

/// All routes of an object move by one message, in the kernel and in the plane's tables.
#[test]
fn an_object_moves_all_its_routes_at_once() {
    in_namespace(|| {
        const ROUTES: u32 = 2000;
        let (lan, wan) = (up("lan"), up("wan"));
        run("ip address add 192.0.2.2/24 dev lan && ip address add 198.51.100.2/24 dev wan");
        run("ip nexthop add id 7 via 192.0.2.7 dev lan");
        let mut installer = Installer::new().unwrap();
        if !installer.has_objects() {
            return eprintln!("skipped: the kernel has no next-hop objects");
        }
        let followed = Followed::start();
        let [a, b] = [("192.0.2.1", lan), ("198.51.100.1", wan)].map(|(a, n)| hop(Some(a), n));
        let v4 = Version::V4;
        let both = Target::of_hops([(a, 1), (b, 3)]).unwrap();
        let id = installer.add_object(v4, &Target::Hop(a)).unwrap();
        let put = |n: u32| {
            let prefix = Ipv4Net::new(Ipv4Addr::from(0x0B00_0000 + (n << 8)), 24).unwrap();
            RouteChange::Put(InstalledRoute {
                prefix: prefix.into(),
                target: Target::Hop(a),
                object: Some(id),
            })
        };
        let changes: Vec<_> = (0..ROUTES).map(put).collect();
        assert!(installer.change(&changes).unwrap().is_empty());
        let last = "11.0.7.207";
        let hops = |target: &Target<NextHop>| {
            let hop = |(hop, weight): (&NextHop, u16)| tables::NextHop {
                interface: hop.interface,
                gateway: hop.gateway,
                weight: weight.into(),
            };
            Some(Action::Forward(target.hops().map(hop).collect()))
        };
        followed.awaits_action(last, hops(&Target::Hop(a)));
        let blackhole = Target::Discard(Discard::Blackhole);
        for after in [both.clone(), blackhole.clone(), Target::Hop(b), both] {
            installer.change_object(id, &after).unwrap();
            installer.reread_objects().unwrap();
            assert_eq!(installer.object(id), Some(&after));
            let installed = installer.installed().unwrap();
            assert_eq!(installed.len(), ROUTES as usize);
            assert!(installed.iter().all(|route| route.target == after));
            let action = match after == blackhole {
                true => Some(Action::Blackhole),
                false => hops(&after),
            };
            followed.awaits_action(last, action);
        }
        // An interface without a carrier takes its next hops along, but not the group.
        run("ip link set lan1 down");
        eventually("the kernel has noticed", || {
            installer.reread_objects().unwrap();
            installer.object(id) == Some(&Target::Hop(b))
        });
        assert_eq!(installer.installed().unwrap().len(), ROUTES as usize);
        let gone = installer.installed().unwrap();
        let gone: Vec<_> = gone.iter().map(InstalledRoute::removal).collect();
        assert!(installer.change(&gone).unwrap().is_empty());
        installer.remove_object(id);
        run("ip link set lan1 up");
        assert_eq!(
            run("ip nexthop").lines().count(),
            0,
            "the operator's was on lan"
        );

        // Objects of an earlier process are removed unless a route uses them.
        let kept = installer.add_object(v4, &Target::Hop(a)).unwrap();
        installer.add_object(v4, &Target::Hop(b)).unwrap();
        run("ip nexthop add id 7 via 192.0.2.7 dev lan");
        let mut next = Installer::new().unwrap();
        next.sweep_objects(&[kept].into()).unwrap();
        let left = run("ip nexthop");
        let [group, single] = [kept, kept - 1].map(|id| format!("id {id} "));
        assert!(left.contains(&group) && left.contains(&single), "{left}");
        assert_eq!(left.lines().count(), 3, "{left}");

        // An identifier that is free again belongs to the installer that takes it.
        let earlier = next.add_object(v4, &Target::Hop(a)).unwrap();
        let mut last = Installer::new().unwrap();
        run("ip nexthop flush proto 119");
        assert_eq!(last.add_object(v4, &Target::Hop(a)).unwrap(), earlier);
        last.sweep_objects(&BTreeSet::new()).unwrap();
        assert_eq!(run("ip nexthop show proto 119").lines().count(), 2);
    });
}
