//! Three hosts in a row, each in its own network namespace.
//!
//! ```text
//!  source a0 ------ r0 router r1 ------ b0 sink
//!      10.77.1.2    .1.1    .2.1    10.77.2.2
//!      fd77:1::2    ::1      ::1    fd77:2::2
//! ```
//!
//! The router's kernel forwards if [`Testbed::kernel_forwards`] has switched it on; all IPv4 neighbours
//! are known.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_base::{Rate, Streams};
use weir_discipline::Spec;
use weir_live::clock;
use weir_live::device::Device;
use weir_live::device::af_packet::{AfPacket, Options};
use weir_live::namespace::Namespace;
use weir_live::router::SUPERFRAMES;
use weir_live::worker::{Handle, Worker};
use weir_path::egress::port::Link;
use weir_path::ip::tables::{Action, Address, Interface, Mac, Neighbour, NextHop, Tables};
use weir_path::plane::{Mode, Plane};

/// The source's address.
pub const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
/// The sink's address.
pub const SINK: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);
/// An address in the sink's network whose MAC address belongs to no host. The sink's kernel drops such
/// frames at once, so that handling them is not part of a measurement.
pub const DISCARD: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 9);
const NOBODY: Mac = [2, 0, 0, 0, 77, 99];
/// MAC addresses of the links' four ends, in the order of the picture.
pub const MACS: [Mac; 4] = [
    [2, 0, 0, 0, 77, 1],
    [2, 0, 0, 0, 77, 2],
    [2, 0, 0, 0, 77, 3],
    [2, 0, 0, 0, 77, 4],
];

const FRAME_BYTES_MAX: usize = 1518;
/// Time after which a connection that cannot be opened is abandoned.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest wait of a connection before it looks at the clock again.
const PAUSE: Duration = Duration::from_millis(50);

/// The three hosts.
pub struct Testbed {
    /// The host that sends.
    pub source: Namespace,
    /// The host that forwards.
    pub router: Namespace,
    /// The host that receives.
    pub sink: Namespace,
}

impl Testbed {
    /// Builds the hosts and their links. Dropping this value removes them.
    pub fn new() -> io::Result<Self> {
        let bed = Self {
            source: Namespace::new()?,
            router: Namespace::new()?,
            sink: Namespace::new()?,
        };
        for host in [&bed.source, &bed.router, &bed.sink] {
            // Link-local addresses are valid at once, so that a slow test finds the same addresses as a quick test.
            let setting = "/proc/sys/net/ipv6/conf/default/accept_dad";
            host.enter(|| std::fs::write(setting, "0"))??;
        }
        let [a0, r0, r1, b0] = MACS.map(show);
        let links = [
            (0, &bed.source, "a0", &a0, "r0", &r0),
            (1, &bed.sink, "b0", &b0, "r1", &r1),
        ];
        for (_, host, far, far_mac, near, near_mac) in links {
            let host = host.path();
            run(
                &bed.router,
                "ip",
                &format!(
                    "link add {near} address {near_mac} type veth \
                     peer name {far} address {far_mac} netns {host}"
                ),
            )?;
        }
        for (net, host, device, address, mac) in [
            (1, &bed.source, "a0", SOURCE, &r0),
            (2, &bed.sink, "b0", SINK, &r1),
        ] {
            for arguments in [
                format!("address add {address}/24 dev {device}"),
                format!("address add fd77:{net}::2/64 dev {device} nodad"),
                format!("link set {device} up"),
                format!("route add default via 10.77.{net}.1"),
                format!("route add default via fd77:{net}::1"),
                format!("neighbour replace 10.77.{net}.1 lladdr {mac} dev {device}"),
            ] {
                run(host, "ip", &arguments)?;
            }
            run(host, "ethtool", &format!("-K {device} tx off"))?;
        }
        for (net, device, host, mac) in [(1, "r0", SOURCE, &a0), (2, "r1", SINK, &b0)] {
            for arguments in [
                format!("address add 10.77.{net}.1/24 dev {device}"),
                format!("address add fd77:{net}::1/64 dev {device} nodad"),
                format!("link set {device} up"),
                format!("neighbour replace {host} lladdr {mac} dev {device}"),
            ] {
                run(&bed.router, "ip", &arguments)?;
            }
        }
        let nobody = show(NOBODY);
        run(
            &bed.router,
            "ip",
            &format!("neighbour replace {DISCARD} lladdr {nobody} dev r1"),
        )?;
        bed.kernel_forwards(false)?;
        Ok(bed)
    }

    /// Switches the router's kernel forwarding on or off.
    pub fn kernel_forwards(&self, on: bool) -> io::Result<()> {
        let value = if on { "1" } else { "0" };
        self.router.enter(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", value)?;
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", value)
        })?
    }

    /// Opens an interface of one of the hosts.
    pub fn open(host: &Namespace, name: &str) -> io::Result<AfPacket> {
        let options = Options {
            outgoing: false,
            offloads: true,
            ..Options::default()
        };
        host.enter(|| AfPacket::open(name, options))?
    }

    /// Goodput of TCP connections from the source to the sink, Mbit/s. A connection that cannot be opened carries nothing.
    pub(crate) fn goodput(&self, connections: usize, time: Duration) -> io::Result<f64> {
        let listener = self.sink.enter(|| TcpListener::bind((SINK, 0)))??;
        let to = listener.local_addr()?;
        let mut pairs = Vec::new();
        for _ in 0..connections {
            let connect = || TcpStream::connect_timeout(&to, PATIENCE);
            if let Ok(stream) = self.source.enter(connect)? {
                let (sink, _) = listener.accept()?;
                stream.set_write_timeout(Some(PAUSE))?;
                sink.set_read_timeout(Some(PAUSE))?;
                pairs.push((stream, sink));
            }
        }
        let end = Instant::now() + time;
        let bytes: usize = thread::scope(|scope| {
            let receiving: Vec<_> = pairs
                .into_iter()
                .map(|(mut stream, mut sink)| {
                    scope.spawn(move || {
                        let block = vec![0; 1 << 16];
                        while Instant::now() < end {
                            let _full_or_gone = stream.write(&block);
                        }
                    });
                    scope.spawn(move || {
                        let (mut bytes, mut buffer) = (0, vec![0; 1 << 18]);
                        while Instant::now() < end {
                            bytes += sink.read(&mut buffer).unwrap_or(0); // nothing arrived for a while
                        }
                        Ok(bytes)
                    })
                })
                .collect();
            let bytes = receiving.into_iter().map(|thread| joined(thread.join()));
            bytes.sum::<io::Result<_>>()
        })?;
        Ok(bytes as f64 * 8e-6 / time.as_secs_f64())
    }

    /// A worker between `r0` and `r1`, with `spec` and `rate` towards the sink.
    pub fn worker(&self, spec: Spec, rate: Option<Rate>) -> io::Result<Worker> {
        self.worker_with(spec, rate, |far| Box::new(far))
    }

    /// The same, with the device of `r1` wrapped.
    pub fn worker_with(
        &self,
        spec: Spec,
        rate: Option<Rate>,
        wrap: impl FnOnce(AfPacket) -> Box<dyn Device>,
    ) -> io::Result<Worker> {
        let (near, far) = (
            Self::open(&self.router, "r0")?,
            Self::open(&self.router, "r1")?,
        );
        let plane = Plane::new(16_384, FRAME_BYTES_MAX, Streams::new(1));
        let mut plane = plane.with_superframes(SUPERFRAMES);
        plane.set_tables(Arc::new(tables(near.index(), far.index())), clock::now());
        let mut worker = Worker::new(plane, Box::new(|_| {}));
        let near: Box<dyn Device> = Box::new(near);
        for (name, rate, device) in [("r0", None, near), ("r1", rate, wrap(far))] {
            let link = Link {
                rate,
                framing: weir_base::Framing::ETHERNET,
                frame_bytes_max: 1514,
            };
            worker
                .plane
                .add_port(name, name, Mode::Routed, spec.clone(), link, clock::now());
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            worker.bind(Some(device), Box::new(move |_| Err(gone())));
        }
        Ok(worker)
    }
}

/// Runs a worker as long as `measure` takes.
pub(crate) fn running<T>(
    worker: Worker,
    measure: impl FnOnce(&Handle) -> io::Result<T>,
) -> io::Result<T> {
    let (handle, thread) = worker.start()?;
    let measured = measure(&handle);
    handle.call(Worker::stop).map_err(io::Error::other)?;
    let _ = thread.join();
    measured
}

/// The result of a joined thread.
pub(crate) fn joined<T>(result: thread::Result<io::Result<T>>) -> io::Result<T> {
    result.unwrap_or_else(|_| Err(io::Error::other("a measuring thread panicked")))
}

/// A UDP frame of `bytes` bytes from the source to [`DISCARD`]; flows differ in their source port.
pub fn udp_frame(flow: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    let ip_len = (bytes - 14) as u16;
    frame[0..6].copy_from_slice(&MACS[1]);
    frame[6..12].copy_from_slice(&MACS[0]);
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[20..24].copy_from_slice(&[0x40, 0, 64, 17]);
    frame[26..30].copy_from_slice(&SOURCE.octets());
    frame[30..34].copy_from_slice(&DISCARD.octets());
    let checksum = weir_wire::checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
    frame[36..38].copy_from_slice(&9_u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame
}

/// Adds an interface with its address to a router's tables, and the network that it is connected to.
pub(crate) fn add_network(
    tables: &mut Tables,
    index: u32,
    (name, mac): (&str, Mac),
    address: &'static str,
) {
    let address: ipnet::IpNet = address
        .parse()
        .unwrap_or_else(|_| unreachable!("a network written by the caller"));
    let interface = Interface {
        name: name.to_owned(),
        mac,
        mtu: 1500,
        up: true,
        carrier: true,
        addresses: vec![Address::of(address)],
    };
    tables.interfaces.insert(index, interface);
    let next_hop = NextHop {
        interface: index,
        gateway: None,
        weight: 1,
    };
    let action = Action::Forward(vec![next_hop]);
    tables.set_route(address.trunc(), action.into());
}

/// The router's tables, filled by hand.
fn tables(near: u32, far: u32) -> Tables {
    let mut tables = Tables::default();
    for (index, name, mac, address, host, host_mac) in [
        (near, "r0", MACS[1], "10.77.1.1/24", SOURCE, MACS[0]),
        (far, "r1", MACS[2], "10.77.2.1/24", SINK, MACS[3]),
    ] {
        add_network(&mut tables, index, (name, mac), address);
        let neighbour = (index, IpAddr::V4(host));
        tables
            .neighbours
            .insert(neighbour, Neighbour::Reachable(host_mac));
    }
    let discard = (far, IpAddr::V4(DISCARD));
    tables
        .neighbours
        .insert(discard, Neighbour::Reachable(NOBODY));
    tables
}

fn show(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Runs a program on a host until it ends, and returns its output; its failure is an error.
pub fn run(host: &Namespace, program: &str, arguments: &str) -> io::Result<String> {
    let words = arguments.split_whitespace();
    let output = host.enter(|| Command::new(program).args(words).output())??;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "{program} {arguments}: {printed}{said}"
    )))
}
