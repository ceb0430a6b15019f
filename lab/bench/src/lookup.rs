//! Cost of routes by the size of the table: the lookup alone, and the whole path in memory.
//!
//! | tables | prefixes |
//! |---|---|
//! | IPv4, 1 million | 60 % of 24 bits, the rest of 16 to 23, anywhere in 1.0.0.0 to 223.255.255.255 |
//! | IPv6, 200 thousand | half of 48 bits, the rest of 29 to 47, within 20 000 networks of 32 bits |
//!
//! The mix of lengths is that of the Internet's tables; the prefixes are random, which gives caches less to keep than
//! real tables do. Destinations are uniform over the address space, random within random prefixes, or skewed to 4096 of
//! the latter. *Independent* lookups come in bursts of 64; a *dependent* lookup starts when the previous lookup has
//! ended.
//!
//! The path is that of [`forwarding`](crate::forwarding): 78-byte frames, each with its own destination, from one port
//! to another through a fifo, for 16 thousand headers (1.3 MB of frames) and 64 thousand (5 MB).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rand::Rng;
use serde::Serialize;
use weir_base::{Span, Streams};
use weir_discipline::Spec;
use weir_discipline::spec::SpecError;
use weir_live::clock;
use weir_path::ip::tables::{BURST, Tables};

use crate::forwarding;

/// One table's costs, in nanoseconds of processor time, the smallest of the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the table.
    pub table: String,
    /// Number of routes.
    pub routes: usize,
    /// Bytes of the structures that destinations are looked up in.
    pub bytes: usize,
    /// Nanoseconds for each route added to the growing table.
    pub insert_ns: f64,
    /// Nanoseconds for each route replaced in the full table, with a snapshot taken before each thousand.
    pub update_ns: f64,
    /// A lookup of a uniform destination, a destination below a prefix, and a skewed one, independent.
    pub independent_ns: [f64; 3],
    /// `independent_ns` for dependent lookups.
    pub dependent_ns: [f64; 3],
    /// A packet on the whole path, with 16 thousand and with 64 thousand headers.
    pub path_ns: [f64; 2],
}

/// Destinations of each kind.
const DESTINATIONS: usize = 1 << 16;
const SKEWED: usize = 4096;
const HEADERS: [usize; 2] = [16_384, 65_536];
const UPDATES: usize = 100_000;

/// Measures tables of both families, full and with one route, `rounds` times.
pub fn run(rounds: usize) -> Result<Vec<Row>, SpecError> {
    let one = |text: &str| text.parse::<IpNet>().into_iter().collect::<Vec<_>>();
    let tables = [
        ("IPv4, one route", one("0.0.0.0/0")),
        ("IPv4, 1 million routes", prefixes_v4()),
        ("IPv6, one route", one("::/0")),
        ("IPv6, 200 thousand routes", prefixes_v6()),
    ];
    let measured = tables
        .into_iter()
        .map(|(name, prefixes)| measure(name, &prefixes, rounds));
    measured.collect()
}

fn measure(name: &str, prefixes: &[IpNet], rounds: usize) -> Result<Row, SpecError> {
    let mut tables = forwarding::interfaces();
    let gateways = |n: usize| 2 + (n % 64) as u8;
    let cpu = clock::thread_cpu_time();
    for (n, prefix) in prefixes.iter().enumerate() {
        tables.set_route(*prefix, forwarding::via(gateways(n)));
    }
    let insert_ns = since(cpu) / prefixes.len() as f64;
    let cpu = clock::thread_cpu_time();
    let mut snapshot = tables.clone();
    for n in 0..UPDATES {
        let at = n.wrapping_mul(7919) % prefixes.len();
        tables.set_route(prefixes[at], forwarding::via(gateways(at + 1 + n % 3)));
        if n % 1000 == 0 {
            snapshot = tables.clone();
        }
    }
    let update_ns = since(cpu) / UPDATES as f64;
    drop(snapshot);
    let mut random = Streams::new(2).stream("destinations");
    let is_v4 = matches!(prefixes, [IpNet::V4(_), ..]);
    let uniform: Vec<_> = (0..DESTINATIONS)
        .map(|_| anywhere(is_v4, &mut random))
        .collect();
    let hits: Vec<_> = (0..DESTINATIONS)
        .map(|_| {
            below(
                prefixes[random.next_u32() as usize % prefixes.len()],
                &mut random,
            )
        })
        .collect();
    let skewed: Vec<_> = (0..DESTINATIONS)
        .map(|_| hits[random.next_u32() as usize % SKEWED])
        .collect();
    let kinds = [&uniform, &hits, &skewed];
    let tables = Arc::new(tables);
    let mut row = Row {
        table: name.to_owned(),
        routes: tables.route_count(),
        bytes: tables.lookup_bytes()[usize::from(!is_v4)],
        insert_ns,
        update_ns,
        independent_ns: [f64::INFINITY; 3],
        dependent_ns: [f64::INFINITY; 3],
        path_ns: [f64::INFINITY; 2],
    };
    let mut plane = forwarding::plane_with(Spec::check("fifo", [])?, &tables);
    for _ in 0..rounds {
        for (n, destinations) in kinds.iter().enumerate() {
            row.independent_ns[n] = row.independent_ns[n].min(independent(&tables, destinations));
            row.dependent_ns[n] = row.dependent_ns[n].min(dependent(&tables, destinations));
        }
        for (n, headers) in HEADERS.into_iter().enumerate() {
            let frames: Vec<_> = hits[..headers]
                .iter()
                .map(|to| frame(*to).to_vec())
                .collect();
            forwarding::drive(&mut plane, &frames, headers);
            let cpu = clock::thread_cpu_time();
            forwarding::drive(&mut plane, &frames, 4 * headers);
            row.path_ns[n] = row.path_ns[n].min(since(cpu) / (4 * headers) as f64);
        }
    }
    Ok(row)
}

fn since(cpu: Span) -> f64 {
    (clock::thread_cpu_time() - cpu).as_nanos() as f64
}

fn independent(tables: &Tables, destinations: &[IpAddr]) -> f64 {
    let cpu = clock::thread_cpu_time();
    for burst in destinations.chunks(BURST) {
        std::hint::black_box(tables.route_numbers(burst.iter().copied()));
    }
    since(cpu) / destinations.len() as f64
}

fn dependent(tables: &Tables, destinations: &[IpAddr]) -> f64 {
    let cpu = clock::thread_cpu_time();
    let mut place = 0;
    for n in 0..destinations.len() {
        let next = (n + place) % destinations.len();
        let number = tables.route_number(destinations[next]);
        place = number as usize;
    }
    std::hint::black_box(place);
    since(cpu) / destinations.len() as f64
}

/// A million prefixes of IPv4.
pub fn prefixes_v4() -> Vec<IpNet> {
    let mut random = Streams::new(1).stream("lookup");
    (0..1_000_000).map(|_| prefix_v4(&mut random)).collect()
}

/// 200 thousand prefixes of IPv6.
pub fn prefixes_v6() -> Vec<IpNet> {
    let mut random = Streams::new(2).stream("lookup");
    let blocks: Vec<_> = (0..20_000)
        .map(|_| 0x2000 << 16 | random.next_u32() >> 3)
        .collect();
    let mut prefix = || {
        let block = blocks[random.next_u32() as usize % blocks.len()];
        prefix_v6(block, &mut random)
    };
    (0..200_000).map(|_| prefix()).collect()
}

fn prefix_v4(random: &mut impl Rng) -> IpNet {
    let address = 0x0100_0000 + random.next_u32() % 0xdf00_0000;
    let len = match random.next_u32() % 10 {
        0..6 => 24,
        _ => 16 + (random.next_u32() % 8) as u8,
    };
    Ipv4Net::new_assert(Ipv4Addr::from_bits(address), len)
        .trunc()
        .into()
}

fn prefix_v6(block: u32, random: &mut impl Rng) -> IpNet {
    let address = u128::from(block) << 96 | u128::from(random.next_u32()) << 64;
    let len = match random.next_u32() % 2 {
        0 => 48,
        _ => 29 + (random.next_u32() % 19) as u8,
    };
    Ipv6Net::new_assert(Ipv6Addr::from_bits(address), len)
        .trunc()
        .into()
}

fn anywhere(is_v4: bool, random: &mut impl Rng) -> IpAddr {
    if is_v4 {
        Ipv4Addr::from_bits(0x0b00_0000 + random.next_u32() % 0x7000_0000).into()
    } else {
        below(
            IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_bits(0x2 << 124), 3)),
            random,
        )
    }
}

/// An address within a prefix, to which a router forwards.
pub fn below(prefix: IpNet, random: &mut impl Rng) -> IpAddr {
    match prefix {
        IpNet::V4(net) if net.prefix_len() == 0 => anywhere(true, random),
        IpNet::V4(net) => {
            Ipv4Addr::from_bits(net.addr().to_bits() | random.next_u32() & net.hostmask().to_bits())
                .into()
        }
        IpNet::V6(net) if net.prefix_len() == 0 => anywhere(false, random),
        IpNet::V6(net) => {
            let words = [(); 4].map(|()| u128::from(random.next_u32()));
            let bits = words[0] << 96 | words[1] << 64 | words[2] << 32 | words[3];
            Ipv6Addr::from_bits(net.addr().to_bits() | bits & net.hostmask().to_bits()).into()
        }
    }
}

/// A frame of 78 bytes to a destination.
pub fn frame(destination: IpAddr) -> [u8; 78] {
    let mut frame = [0; 78];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 7]);
    match destination {
        IpAddr::V4(to) => {
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[14..24].copy_from_slice(&[0x45, 0, 0, 64, 0, 0, 0x40, 0, 64, 17]);
            frame[26..30].copy_from_slice(&[10, 77, 1, 2]);
            frame[30..34].copy_from_slice(&to.octets());
            let checksum = weir_wire::checksum::internet(&frame[14..34]);
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        IpAddr::V6(to) => {
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            frame[14..22].copy_from_slice(&[0x60, 0, 0, 0, 0, 24, 17, 64]);
            frame[22..38].copy_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7).octets());
            frame[38..54].copy_from_slice(&to.octets());
        }
    }
    frame
}
