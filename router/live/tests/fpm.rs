//! Routes by FPM in a namespace: from a peer of bytes, and from FRR's zebra.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{Stopped, eventually, in_namespace, run, two_hosts};
use crate::kernel_tables::{Followed, index};
use libc::{RTM_DELROUTE as DEL_ROUTE, RTM_NEWROUTE as NEW_ROUTE};
use weir_live::kernel::fpm::{Fpm, Patience};
use weir_live::kernel::install::RTA_NH_ID;
use weir_live::kernel::message::{NHA_GATEWAY, NHA_ID, NHA_OIF, RTM_NEWNEXTHOP};
use weir_live::kernel::netlink::Request;
use weir_path::ip::tables::{Action, NextHop};

const ADDRESS: &str = "127.0.0.1:2620";

fn followed(stale: Duration) -> Followed {
    let quiet = Duration::from_millis(500);
    Followed::start_with(move || {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        Some(Fpm::start(listener, Patience { quiet, stale }).unwrap())
    })
}

fn frame(messages: &[Vec<u8>]) -> Vec<u8> {
    let messages = messages.concat();
    let length = (4 + messages.len()) as u16;
    [&[1, 1][..], &length.to_be_bytes(), &messages].concat()
}

/// A route to 10.`net`.0.0/16 by a next-hop object, with the protocol BGP.
fn route(kind: u16, net: u8, object: u32) -> Vec<u8> {
    let header = [2, 16, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    Request::new(kind, libc::NLM_F_CREATE, &header)
        .with(libc::RTA_DST, &[10, net, 0, 0])
        .with(libc::RTA_PRIORITY, &20_u32.to_ne_bytes())
        .with(RTA_NH_ID, &object.to_ne_bytes())
        .numbered(0)
}

/// Next hop 10.0.`net`.2 behind an interface.
fn object(id: u32, net: u8, interface: u32) -> Vec<u8> {
    let header = [2, 0, 186, 0, 0, 0, 0, 0];
    Request::new(RTM_NEWNEXTHOP, libc::NLM_F_CREATE, &header)
        .with(NHA_ID, &id.to_ne_bytes())
        .with(NHA_OIF, &interface.to_ne_bytes())
        .with(NHA_GATEWAY, &[10, 0, net, 2])
        .numbered(0)
}

fn by(hops: &[(u8, u32)]) -> Option<Action> {
    let hop = |(net, interface): &(u8, u32)| NextHop {
        interface: *interface,
        gateway: Some([10, 0, *net, 2].into()),
        weight: 1,
    };
    Some(Action::Forward(hops.iter().map(hop).collect()))
}

fn connect() -> TcpStream {
    TcpStream::connect(ADDRESS).unwrap()
}

/// The next answer: the flags of a route.
fn answer(peer: &mut TcpStream) -> u32 {
    peer.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut head = [0; 4];
    peer.read_exact(&mut head).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]])) - 4];
    peer.read_exact(&mut message).unwrap();
    u32::from_ne_bytes(*message[24..].first_chunk().unwrap())
}

fn is_closed(peer: &mut TcpStream) -> bool {
    peer.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    matches!(peer.read(&mut [0; 64]), Ok(0) | Err(_))
}

#[test]
fn routes_of_a_lost_peer_stay_until_the_next_one_has_repeated_them() {
    in_namespace(|| {
        let _hosts = two_hosts();
        let followed = followed(Duration::from_secs(600));
        let index = |name| index(&followed.tables(), name);
        let (ra, rb) = (index("ra"), index("rb"));
        let mut peer = connect();
        peer.write_all(&frame(&[route(NEW_ROUTE, 9, 7), object(7, 1, ra)]))
            .unwrap();
        followed.awaits_action("10.9.0.1", by(&[(1, ra)]));
        peer.write_all(&frame(&[route(NEW_ROUTE, 8, 7)])).unwrap();
        const OFFLOADED: u32 = 0x4000;
        assert_eq!(answer(&mut peer), OFFLOADED); // 10.8.0.0/16: the first one named an unknown object
        assert!(is_closed(&mut connect()), "there is a peer already");
        peer.write_all(&frame(&[route(DEL_ROUTE, 8, 0), route(NEW_ROUTE, 8, 7)]))
            .unwrap();
        assert_eq!(answer(&mut peer), OFFLOADED);

        // A new reading of the kernel's tables keeps them.
        run("ip link set rb down && ip link set rb up && ip route add 10.66.0.0/16 via 10.0.2.2");
        followed.awaits_action("10.66.0.1", by(&[(2, rb)]));
        followed.awaits_action("10.9.0.1", by(&[(1, ra)]));

        peer.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert!(is_closed(&mut peer), "no frame");
        let mut peer = connect();
        peer.write_all(&frame(&[object(7, 1, ra), route(NEW_ROUTE, 9, 7)]))
            .unwrap();
        assert_eq!(answer(&mut peer), OFFLOADED);
        followed.awaits_action("10.8.0.1", None);
        followed.awaits_action("10.9.0.1", by(&[(1, ra)]));
        assert_eq!(followed.fpm_counts().routes, 1);
    });
}

#[test]
fn routes_of_a_peer_that_does_not_come_back_are_removed() {
    in_namespace(|| {
        let _hosts = two_hosts();
        let followed = followed(Duration::from_secs(2));
        let ra = index(&followed.tables(), "ra");
        let mut peer = connect();
        peer.write_all(&frame(&[object(7, 1, ra), route(NEW_ROUTE, 9, 7)]))
            .unwrap();
        followed.awaits_action("10.9.0.1", by(&[(1, ra)]));
        drop(peer);
        followed.awaits_action("10.9.0.1", None);
        assert_eq!(followed.fpm_counts(), Default::default());
    });
}

/// FRR's zebra and staticd, in this namespace.
struct Frr {
    directory: std::path::PathBuf,
    daemons: Vec<Stopped>,
}

const DAEMONS: &str = "/usr/lib/frr";

impl Frr {
    fn new() -> Self {
        let directory = std::env::temp_dir().join(format!("weir-frr-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        run(&format!("chmod 777 {}", directory.display())); // the daemons become the user frr
        let daemons = Vec::new();
        Self { directory, daemons }
    }

    /// Starts a daemon with this configuration.
    fn start(&mut self, daemon: &str, options: &[&str], configuration: &str) {
        let file = |name: &str| self.directory.join(name);
        let config = file(&format!("{daemon}.conf"));
        std::fs::write(&config, configuration).unwrap();
        let child: Child = Command::new(format!("{DAEMONS}/{daemon}"))
            .args(options)
            .args(["-P", "0", "-f"])
            .arg(config)
            .arg("--vty_socket")
            .arg(&self.directory)
            .arg("-z")
            .arg(file("zserv"))
            .arg("-i")
            .arg(file(&format!("{daemon}.pid")))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.daemons.push(Stopped(child));
        let vty = file(&format!("{daemon}.vty"));
        eventually(&format!("{daemon}'s terminal"), || vty.exists());
    }

    fn start_both(&mut self, routes: &str) {
        let fpm = "fpm use-next-hop-groups\nfpm address 127.0.0.1 port 2620\n";
        self.start("zebra", &["-M", "dplane_fpm_nl"], fpm);
        self.start("staticd", &[], routes);
    }

    /// Kills the daemons, which therefore delete no routes.
    fn kill(&mut self) {
        self.daemons.clear();
        run(&format!(
            "rm -f {0}/*.vty {0}/*.pid",
            self.directory.display()
        ));
    }
}

impl Drop for Frr {
    fn drop(&mut self) {
        self.daemons.clear();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn zebra_delivers_its_routes_and_replays_them() {
    if !std::path::Path::new(DAEMONS).join("zebra").exists() {
        println!("skipped: FRR is not installed");
        return;
    }
    in_namespace(|| {
        let _hosts = two_hosts();
        let followed = followed(Duration::from_secs(600));
        let index = |name| index(&followed.tables(), name);
        let (ra, rb) = (index("ra"), index("rb"));
        let routes = "ip route 10.7.0.0/16 blackhole\n\
                      ip route 10.8.0.0/16 10.0.1.2\nip route 10.8.0.0/16 10.0.2.2\n\
                      ip route 10.9.0.0/16 10.0.2.2\nipv6 route 2001:db8::/32 fd00:2::2\n";
        let mut frr = Frr::new();
        frr.start_both(routes);
        eventually("all routes of zebra", || {
            let counts = followed.fpm_counts();
            (counts.routes, counts.unresolved) == (4, 0)
        });

        // FPM's routes stay without zebra and without the kernel's copies.
        frr.kill();
        run(
            "ip route del blackhole 10.7.0.0/16 && ip route del 10.8.0.0/16 && ip route del 10.9.0.0/16 && \
             ip -6 route del 2001:db8::/32",
        );
        let kernels = run("ip route; ip -6 route");
        assert!(!kernels.contains("static"), "{kernels}");
        followed.awaits_action("10.7.0.1", Some(Action::Blackhole));
        followed.awaits_action("10.8.0.1", by(&[(1, ra), (2, rb)]));
        followed.awaits_action("10.9.0.1", by(&[(2, rb)]));

        // A new zebra has fewer routes.
        frr.start_both("ip route 10.9.0.0/16 10.0.1.2\n");
        followed.awaits_action("10.9.0.1", by(&[(1, ra)]));
        followed.awaits_action("10.8.0.1", None);
        followed.awaits_action("2001:db8::1", None);
        assert_eq!(followed.fpm_counts().routes, 1);
    });
}
