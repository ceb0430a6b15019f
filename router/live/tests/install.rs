//! Routes of a control element in the kernel of a namespace.

use std::net::{IpAddr, Ipv4Addr};

use crate::common::{in_namespace, run};
use ipnet::{IpNet, Ipv4Net};
use weir_live::kernel::install::{InstalledRoute, Installer, RouteChange};

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
        gateway: gateway.map(|text| text.parse().unwrap()),
        interface,
    }
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
                .change(&both.map(RouteChange::Put))
                .unwrap()
                .is_empty()
        );
        assert_eq!(installer.installed().unwrap(), both);
        // The operator's own route stays, and wins.
        assert!(run("ip route get 10.1.2.3").contains("via 192.0.2.9"));
        let other = route("10.0.0.0/8", Some("192.0.2.3"), lan);
        let changes = [
            RouteChange::Put(other),
            RouteChange::Remove(both[1].prefix, None),
            RouteChange::Remove("203.0.113.0/24".parse().unwrap(), None),
        ];
        assert!(installer.change(&changes).unwrap().is_empty());
        assert_eq!(installer.installed().unwrap(), [other]);
        assert_eq!(run("ip route show 10.0.0.0/8").lines().count(), 2);
        // The kernel refuses a gateway that is not on the link, and still makes the following change.
        let nowhere = route("10.9.0.0/16", Some("198.51.100.1"), lan);
        let last = route("10.8.0.0/16", None, lan);
        let changes = [nowhere, last].map(RouteChange::Put);
        let refused = installer.change(&changes).unwrap();
        assert_eq!((refused.len(), refused[0].place), (1, 0), "{refused:?}");
        assert!(
            refused[0].to_string().starts_with("route 10.9.0.0/16: "),
            "{refused:?}"
        );
        assert!(installer.installed().unwrap().contains(&last));
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
            RouteChange::Put(InstalledRoute {
                prefix: prefix(n),
                gateway: Some(IpAddr::from([192, 0, 2, 1])),
                interface: lan,
            })
        };
        let changes: Vec<_> = (0..ROUTES).map(put).collect();
        let began = std::time::Instant::now();
        assert!(installer.change(&changes).unwrap().is_empty());
        println!("{} routes in {:?}", ROUTES, began.elapsed());
        assert_eq!(installer.installed().unwrap().len(), ROUTES as usize);
        let gone: Vec<_> = (0..ROUTES)
            .map(|n| RouteChange::Remove(prefix(n), None))
            .collect();
        assert!(installer.change(&gone).unwrap().is_empty());
        assert_eq!(installer.installed().unwrap(), []);
    });
}
