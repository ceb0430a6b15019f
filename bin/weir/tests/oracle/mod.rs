//! The kernel as an oracle: the same packets through the kernel alone, and through weir, after each of many changes of
//! its tables and settings.
//!
//! The hosts come from `weir_benches::testbed`. A probe is a datagram of the source. Its outcome is everything that the
//! source and the sink receive: the datagram or its fragments, and ICMP errors.

use std::net::IpAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use etherparse::{IpHeaders, IpNumber, Ipv4Header, NetSlice, PacketBuilder, SlicedPacket};
use weir_benches::testbed::{MACS, Testbed};
use weir_live::device::Device;
use weir_live::device::af_packet::AfPacket;
use weir_live::namespace::Namespace;

use crate::common::{Bench, PATIENCE};

/// A state of the kernel, and the packets to send in it.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// The name of the state.
    pub(crate) name: &'static str,
    /// Commands on the router.
    pub(crate) setup: &'static str,
    /// Commands that undo changes that [`RESTORE`] does not undo.
    pub(crate) undo: &'static str,
    /// The packets.
    pub(crate) probes: &'static [Probe],
}

/// A datagram of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) bytes: usize,
    pub(crate) ttl: u8,
    pub(crate) may_fragment: bool,
}

/// From the source to the sink.
pub(crate) const V4: Probe = Probe {
    from: "10.77.1.2",
    to: "10.77.2.2",
    bytes: 60,
    ttl: 64,
    may_fragment: false,
};
/// From the source to the sink, with IPv6.
pub(crate) const V6: Probe = Probe {
    from: "fd77:1::2",
    to: "fd77:2::2",
    ..V4
};

impl Probe {
    pub(crate) const fn from(self, from: &'static str) -> Self {
        Self { from, ..self }
    }

    pub(crate) const fn to(self, to: &'static str) -> Self {
        Self { to, ..self }
    }

    pub(crate) const fn expiring(self) -> Self {
        Self { ttl: 1, ..self }
    }

    pub(crate) const fn long(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    pub(crate) const fn fragmentable(self) -> Self {
        Self {
            may_fragment: true,
            ..self
        }
    }

    fn frame(&self) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2(MACS[0], MACS[1]);
        let mut frame = Vec::new();
        let (from, to) = (self.from.parse().unwrap(), self.to.parse().unwrap());
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let (from, to) = (from.octets(), to.octets());
                let mut header = Ipv4Header::new(0, self.ttl, IpNumber::UDP, from, to).unwrap();
                header.dont_fragment = !self.may_fragment;
                let builder = builder.ip(IpHeaders::Ipv4(header, Default::default()));
                let payload = vec![0; self.bytes - 28];
                builder.udp(5555, PORT).write(&mut frame, &payload).unwrap();
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let builder = builder.ipv6(from.octets(), to.octets(), self.ttl);
                let payload = vec![0; self.bytes - 48];
                builder.udp(5555, PORT).write(&mut frame, &payload).unwrap();
            }
            _ => panic!("{self:?}"),
        }
        frame
    }
}

const PORT: u16 = 9999;
/// Time for which a packet may be in flight.
const FLIGHT: Duration = Duration::from_millis(80);
/// Commands that undo the common changes, so that cases need not.
const RESTORE: &str = "\
    ip link set r0 mtu 1500; ip link set r1 mtu 1500;
    sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.forwarding=1 net.ipv4.conf.r0.forwarding=1 \
        net.ipv4.conf.r1.forwarding=1 net.ipv4.icmp_errors_use_inbound_ifaddr=0 \
        net.ipv6.conf.all.forwarding=1 net.ipv6.conf.r0.disable_ipv6=0 net.ipv6.conf.r1.disable_ipv6=0 \
        net.ipv6.conf.r0.mtu=1500 net.ipv6.conf.r1.mtu=1500 net.ipv6.conf.r0.use_oif_addrs_only=0;
    [ -e /proc/sys/net/ipv6/conf/r0/force_forwarding ] && sysctl -qw net.ipv6.conf.r0.force_forwarding=0;
    for net in 1 2; do
        ip address replace 10.77.$net.1/24 dev r$((net - 1));
        ip address replace fd77:$net::1/64 dev r$((net - 1)) nodad;
    done;
    ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0;
    ip neighbour replace fd77:1::2 lladdr 02:00:00:00:4d:01 dev r0;
    ip neighbour replace 10.77.2.2 lladdr 02:00:00:00:4d:04 dev r1;
    ip neighbour replace fd77:2::2 lladdr 02:00:00:00:4d:04 dev r1";
/// Removes the kernel's rate limits of ICMP errors, and its reverse-path filters.
const UNLIMITED: &str = "\
    ip link set lo up;
    sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0 net.ipv4.conf.all.rp_filter=0 \
        net.ipv4.conf.r0.rp_filter=0 net.ipv4.conf.r1.rp_filter=0";

/// The hosts' ends of the links.
struct Ends {
    source: AfPacket,
    sink: AfPacket,
}

impl Ends {
    fn open(bed: &Testbed) -> Self {
        Self {
            source: Testbed::open(&bed.source, "a0").unwrap(),
            sink: Testbed::open(&bed.sink, "b0").unwrap(),
        }
    }

    /// The outcome of a probe.
    fn send(&mut self, probe: &Probe) -> Vec<String> {
        self.received();
        let frame = probe.frame();
        while self.source.transmit(&[&frame]).unwrap() == 0 {}
        thread::sleep(FLIGHT);
        self.received()
    }

    fn received(&mut self) -> Vec<String> {
        let mut came = Vec::new();
        for (host, device) in [("source", &mut self.source), ("sink", &mut self.sink)] {
            let mut take = |frame: &[u8]| came.extend(shown(frame).map(|s| format!("{host}: {s}")));
            while device.receive(256, &mut |r| take(&r.bytes)).unwrap() > 0 {}
        }
        came
    }
}

/// A datagram of a probe, or an ICMP error that is not the sink's own.
fn shown(frame: &[u8]) -> Option<String> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (from, to, len): (IpAddr, IpAddr, _) = match packet.net? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let from = header.source_addr().into();
            (from, header.destination_addr().into(), header.total_len())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let len = 40 + header.payload_length();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                len,
            )
        }
        NetSlice::Arp(_) => return None,
    };
    let l4 = frame.get(if from.is_ipv4() { 34.. } else { 54.. })?;
    let number = |at: usize| Some(u16::from_be_bytes(*l4.get(at..)?.first_chunk()?));
    let protocol = frame.get(if from.is_ipv4() { 23 } else { 20 }).copied()?;
    match IpNumber(protocol) {
        IpNumber::UDP => Some(format!("{from} > {to}, {len} bytes")),
        IpNumber::ICMP if matches!((l4.first()?, l4.get(1)?), (3, 0..=2 | 4..=15) | (11, _)) => {
            Some(format!(
                "ICMP {}, {} of {from} to {to}, MTU {}",
                l4[0],
                l4[1],
                number(6)?
            ))
        }
        IpNumber::IPV6_ICMP if matches!((l4.first()?, l4.get(1)?), (1, 0..=3) | (2..=3, _)) => {
            Some(format!(
                "ICMPv6 {}, {} of {from} to {to}, MTU {}",
                l4[0],
                l4[1],
                number(6)?
            ))
        }
        _ => None,
    }
}

/// Runs commands in a host's namespace.
pub(crate) fn shell(host: &Namespace, script: &str) {
    let run = || Command::new("sh").args(["-c", script]).output().unwrap();
    let output = host.enter(run).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.is_empty(), "{script}\n{said}");
}

/// Sends the probes of all cases through the kernel, and through weir, which follows the changes while it runs.
pub(crate) fn compare(bench: &mut Bench, config: &str, cases: &[Case]) {
    let mut ends = Ends::open(&bench.bed);
    shell(&bench.bed.router, UNLIMITED);
    shell(&bench.bed.router, RESTORE);
    let kernel: Vec<Vec<Vec<String>>> = cases
        .iter()
        .map(|case| {
            shell(&bench.bed.router, case.setup);
            let mut came: Vec<_> = case.probes.iter().map(|probe| ends.send(probe)).collect();
            // The kernel limits errors by sender: a second later it permits another error.
            let mut is_limited = came.iter().any(Vec::is_empty);
            while is_limited {
                thread::sleep(Duration::from_millis(1100));
                is_limited = false;
                for (probe, came) in case.probes.iter().zip(&mut came) {
                    if came.is_empty() {
                        *came = ends.send(probe);
                        is_limited |= !came.is_empty();
                    }
                }
            }
            shell(&bench.bed.router, case.undo);
            shell(&bench.bed.router, RESTORE);
            came
        })
        .collect();
    bench.start(config);
    let mut wrong = Vec::new();
    let mut slowest = Duration::ZERO;
    for (case, expected) in cases.iter().zip(&kernel) {
        shell(&bench.bed.router, case.setup);
        let began = Instant::now();
        for (probe, expected) in case.probes.iter().zip(expected) {
            let mut came = ends.send(probe);
            while came != *expected && began.elapsed() < PATIENCE {
                came = ends.send(probe);
            }
            println!(
                "{}, {probe:?}:\n  kernel {expected:?}\n  weir   {came:?}",
                case.name
            );
            if came != *expected {
                wrong.push(format!(
                    "{}, {probe:?}: kernel {expected:?}, weir {came:?}",
                    case.name
                ));
            }
        }
        slowest = slowest.max(began.elapsed());
        shell(&bench.bed.router, case.undo);
        shell(&bench.bed.router, RESTORE);
        for probe in [V4, V6] {
            let began = Instant::now();
            while ends.send(&probe).len() != 1 {
                let in_time = began.elapsed() < PATIENCE;
                assert!(in_time, "{}: not taken back\n{}", case.name, bench.log());
            }
        }
    }
    println!("the slowest of {} changes took {slowest:?}", cases.len());
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), bench.log());
}
