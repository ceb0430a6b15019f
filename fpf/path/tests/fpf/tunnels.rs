//! Where tunnels accept packets: at the ports through which the far end is routed, or at the ports that they name.

use super::*;

/// The ends of the tunnel in IPv4 and in IPv6.
const V4: [&str; 2] = ["10.0.2.1", "10.9.9.9"];
const V6: [&str; 2] = ["2001:db8:2::1", "2001:db8:9::9"];

pub(super) fn add_local_port(plane: &mut Plane) {
    let spec = Spec::check("fifo", []).unwrap();
    let link = Link {
        rate: None,
        framing: weir_base::Framing::ETHERNET,
        frame_bytes_max: 1518,
    };
    let number = plane.add_port("own", "own", Mode::Routed, spec, link, Instant::ZERO);
    plane.set_local(number);
}

/// A plane with a tunnel between these ends, which accepts packets at these ports. Packets out of it follow the routes.
fn end([local, remote]: [&str; 2], ports: &[&str]) -> Plane {
    let mut plane = plane(1500);
    let mut tables = plane.tables().clone();
    tables.set_route("2001:db8:2::1/128".parse().unwrap(), Action::Local.into());
    plane.set_tables(Arc::new(tables), Instant::ZERO);
    let tunnel = Interface::gre(local.parse().unwrap(), remote.parse().unwrap()).unwrap();
    let ports = ports.iter().map(|port| (*port).to_owned()).collect();
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("lan")).unwrap();
    builder.interface(tunnel.entered_at(ports)).unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    plane
}

/// A frame with a packet between the ends of the tunnel: protocol 47 with these bytes.
fn between([local, remote]: [&str; 2], gre: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let number = etherparse::IpNumber(47);
    match (local.parse().unwrap(), remote.parse().unwrap()) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            let ip = PacketBuilder::ipv4(remote.octets(), local.octets(), 9);
            ip.write(&mut packet, number, gre).unwrap();
            frame(0x0800, &[&packet])
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            let ip = PacketBuilder::ipv6(remote.octets(), local.octets(), 9);
            ip.write(&mut packet, number, gre).unwrap();
            frame(0x86dd, &[&packet])
        }
        _ => unreachable!("both are of one family"),
    }
}

/// A packet at the end of its path, in the tunnel.
fn good(ends: [&str; 2]) -> Vec<u8> {
    between(ends, &[&[0, 0, 0xc0, 0, 0, 0], &ipv4()[..]].concat())
}

/// Whether a frame that arrives through a port enters the tunnel; the reason if it does not.
fn enters(plane: &mut Plane, port: usize, frame: &[u8]) -> Result<(), Reason> {
    let counts = |plane: &Plane| Reason::ALL.map(|r| plane.fates().ended(r).packets);
    let before = (counts(plane), Fpf::stats(plane).received.packets);
    plane.receive(port, frame, arrival(frame, None));
    let after = (counts(plane), Fpf::stats(plane).received.packets);
    plane.step(Instant::ZERO);
    for port in 0..plane.ports().len() {
        plane
            .flush(port, |burst, _| Ok::<_, ()>(burst.len()))
            .unwrap();
    }
    let ended = (0..Reason::COUNT).find(|n| before.0[*n] != after.0[*n]);
    match (ended, after.1 - before.1) {
        (None, 1) => Ok(()),
        (Some(reason), 0) => Err(Reason::ALL[reason]),
        other => panic!("{other:?}"),
    }
}

/// Routes the far ends through these interfaces; 1 is `lan`, 2 is `wan`.
fn route(plane: &mut Plane, action: Action) {
    let mut tables = plane.tables().clone();
    for [_, remote] in [V4, V6] {
        let remote: IpAddr = remote.parse().unwrap();
        tables.set_route(remote.into(), action.clone().into());
    }
    plane.set_tables(Arc::new(tables), Instant::ZERO);
}

fn by(interfaces: &[u32]) -> Action {
    let hop = |interface: &u32| NextHop {
        interface: *interface,
        gateway: None,
        weight: 1,
    };
    Action::Forward(interfaces.iter().map(hop).collect())
}

const REFUSED: Result<(), Reason> = Err(Reason::FpfTunnelPort);

#[test]
fn a_tunnel_is_entered_where_its_far_end_is_routed_now() {
    for ends in [V4, V6] {
        let mut plane = end(ends, &[]);
        let frame = good(ends);
        let mut at = |action: Option<Action>| {
            if let Some(action) = action {
                route(&mut plane, action);
            }
            [LAN, WAN].map(|port| enters(&mut plane, port, &frame))
        };
        assert_eq!(at(None), [REFUSED, Ok(())], "by the default route");
        assert_eq!(at(Some(by(&[1]))), [Ok(()), REFUSED], "it moves");
        assert_eq!(at(Some(by(&[2, 1]))), [Ok(()), Ok(())], "several next hops");
        for nowhere in [by(&[7]), Action::Blackhole] {
            assert_eq!(at(Some(nowhere)), [REFUSED; 2]);
        }
    }
}

#[test]
fn ports_that_a_tunnel_names_count_instead_of_the_routes() {
    let mut plane = end(V4, &["lan"]);
    let frame = good(V4);
    let mut enters = |port| enters(&mut plane, port, &frame);
    assert_eq!([enters(LAN), enters(WAN)], [Ok(()), REFUSED]);
    // The port is removed, and the next port gets its number.
    plane.remove_port(LAN, Reason::Reconfigured);
    assert_eq!(self::enters(&mut plane, 0, &frame), REFUSED);
}

#[test]
fn nothing_else_with_the_addresses_of_a_tunnel_is_the_kernels() {
    for ends in [V4, V6] {
        let mut plane = end(ends, &["lan"]);
        let key = between(
            ends,
            &[&[0x20, 0, 0xc0, 0, 0, 0, 0, 1, 0, 0], &ipv4()[..]].concat(),
        );
        let other_type = between(ends, &[&[0, 0, 8, 0], &ipv4()[..]].concat());
        let cut = between(ends, &[0, 0, 0xc0]);
        for frame in [key, other_type, cut, fragment(ends)] {
            let wrong = Err(Reason::FpfTunnelPacket);
            assert_eq!(enters(&mut plane, LAN, &frame), wrong);
            assert_eq!(enters(&mut plane, WAN, &frame), REFUSED);
        }
        // With other addresses it is a packet to the router.
        let [local, _] = ends;
        let other = if ends == V4 {
            "10.9.9.8"
        } else {
            "2001:db8:9::8"
        };
        let kernels = Err(Reason::LocalDelivery);
        assert_eq!(enters(&mut plane, LAN, &good([local, other])), kernels);
    }
}

/// The first fragment of a packet in the tunnel.
fn fragment(ends: [&str; 2]) -> Vec<u8> {
    let mut frame = good(ends);
    if ends == V4 {
        frame[20] = 0x20;
        frame[24..26].fill(0);
        let sum = weir_wire::checksum::internet(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    } else {
        frame[20] = 44;
        frame[19] += 8;
        frame.splice(54..54, [47, 0, 0, 1, 0, 0, 0, 9]);
    }
    frame
}

/// A packet that leaves a path counts as arrived through the port for processes, whatever port its frame arrived
/// through.
#[test]
fn a_path_leads_into_a_tunnel_only_if_the_tunnel_says_so() {
    let within = frame(0xc000, &[&[0, 0], &good(V4)[14..]]);
    let received = |ports: &[&str], has_local: bool| {
        let mut plane = end(V4, ports);
        if has_local {
            add_local_port(&mut plane);
        }
        plane.receive(LAN, &within, arrival(&within, None));
        leave(&mut plane);
        let refused = plane.fates().ended(Reason::FpfTunnelPort).packets;
        (Fpf::stats(&plane).received.packets, refused)
    };
    assert_eq!(received(&["lan", "wan"], false), (1, 1));
    assert_eq!(received(&["lan", "wan"], true), (1, 1));
    assert_eq!(received(&["own"], true), (2, 0));
}
