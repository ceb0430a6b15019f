//! The flood: packets that an FE hands to its CE.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rand::RngExt;
use weir_base::{Stream, Streams};
use weir_experiment::Error;
use weir_live::device::injector::Injector;
use weir_live::namespace::Namespace;
use weir_path::link::offload::Offload;
use weir_wire::checksum;

use super::topology::{NOWHERE, mac};

/// Length of a flood's IP packets.
const PACKET_BYTES: usize = 128;
/// Number of different frames, which the sender repeats.
const FRAMES: usize = 1020;
/// Interval between two bursts.
const STEP: Duration = Duration::from_millis(2);
/// Maximum number of frames of a burst, when the sender is late.
const BURST_MAX: u64 = 400;

const SENDER: [u8; 4] = [10, 0, 1, 2];
const ROUTER: [u8; 4] = [10, 0, 1, 1];
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_OSPF: u8 = 89;

/// A kind of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UDP whose TTL expires.
    Ttl,
    /// UDP with the router alert option.
    Options,
    /// UDP to hosts that do not exist.
    Neighbours,
    /// Pings of the router.
    Ping,
    /// ARP requests for the router's address.
    Arp,
    /// Multicast DNS.
    Mdns,
    /// Hellos of OSPF with forged senders.
    Ospf,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Ttl,
        Self::Options,
        Self::Neighbours,
        Self::Ping,
        Self::Arp,
        Self::Mdns,
        Self::Ospf,
    ];
    /// The kinds of a flood by default.
    pub const DEFAULT: [Self; 3] = [Self::Ttl, Self::Options, Self::Neighbours];

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Options => "options",
            Self::Neighbours => "neighbours",
            Self::Ping => "ping",
            Self::Arp => "arp",
            Self::Mdns => "mdns",
            Self::Ospf => "ospf",
        }
    }

    fn frame(self, random: &mut Stream) -> Vec<u8> {
        let host = random.random_range(3..255);
        let udp = |port: u16, header: usize| {
            let source = 40_000 + u16::from(host); // senders differ
            let len = (PACKET_BYTES - header) as u16;
            [source, port, len, 0].map(u16::to_be_bytes).concat() // without a checksum
        };
        let nowhere = NOWHERE.octets();
        match self {
            Self::Ttl => packet(1, PROTOCOL_UDP, SENDER, nowhere, &[], &udp(9, 20)),
            // RFC 2113: router alert, 4 bytes, value 0.
            Self::Options => packet(
                64,
                PROTOCOL_UDP,
                SENDER,
                nowhere,
                &[0x94, 4, 0, 0],
                &udp(9, 24),
            ),
            Self::Neighbours => packet(
                64,
                PROTOCOL_UDP,
                SENDER,
                [10, 1, 13, host],
                &[],
                &udp(9, 20),
            ),
            Self::Ping => {
                let mut echo = vec![8, 0, 0, 0, 0, host, 0, 1];
                echo.resize(PACKET_BYTES - 20, 0);
                set_checksum(&mut echo, 2);
                packet(64, PROTOCOL_ICMP, SENDER, ROUTER, &[], &echo)
            }
            Self::Arp => arp(host),
            Self::Mdns => {
                let mut frame = packet(
                    255,
                    PROTOCOL_UDP,
                    SENDER,
                    [224, 0, 0, 251],
                    &[],
                    &udp(5353, 20),
                );
                frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 0xfb]);
                frame
            }
            Self::Ospf => {
                let source = [10, 0, 1, host];
                let mut frame = packet(1, PROTOCOL_OSPF, source, [224, 0, 0, 5], &[], &hello(host));
                frame[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 5]);
                frame
            }
        }
    }
}

/// TTL of packets that FEs forward.
pub(super) const TTL: u8 = 64;

/// A UDP packet of r1 to a port at an address behind fe1, with a number behind its header.
pub(super) fn udp_packet(destination: [u8; 4], port: u16, number: u32) -> Vec<u8> {
    let len = (PACKET_BYTES - 20) as u16;
    let mut udp = [40_000, port, len, 0].map(u16::to_be_bytes).concat(); // without a checksum
    udp.extend(number.to_be_bytes());
    packet(TTL, PROTOCOL_UDP, SENDER, destination, &[], &udp)
}

/// An Ethernet frame with an IPv4 packet for fe1, of [`PACKET_BYTES`] and its options.
fn packet(
    ttl: u8,
    protocol: u8,
    source: [u8; 4],
    destination: [u8; 4],
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let header = 20 + options.len();
    let total = PACKET_BYTES.max(header + payload.len());
    let mut ip = vec![0x40 + (header / 4) as u8, 0];
    ip.extend((total as u16).to_be_bytes());
    ip.extend([0, 7, 0, 0, ttl, protocol, 0, 0]);
    ip.extend([source, destination].concat());
    ip.extend(options);
    set_checksum(&mut ip, 10);
    let mut frame = ethernet(mac(1), [0x08, 0]);
    frame.extend(ip);
    frame.extend(payload);
    frame.resize(14 + total, 0);
    frame
}

fn ethernet(destination: [u8; 6], kind: [u8; 2]) -> Vec<u8> {
    [&destination[..], &[2, 9, 9, 9, 9, 9], &kind].concat()
}

/// Writes the Internet checksum of `bytes` at `place`, where they are zero.
fn set_checksum(bytes: &mut [u8], place: usize) {
    let sum = checksum::internet(bytes).to_be_bytes();
    bytes[place..place + 2].copy_from_slice(&sum);
}

/// A host's request for the router's address.
fn arp(host: u8) -> Vec<u8> {
    let mut frame = ethernet([0xff; 6], [0x08, 0x06]);
    frame.extend([0, 1, 0x08, 0, 6, 4, 0, 1]);
    frame.extend([2, 9, 9, 9, 9, host, 10, 0, 1, host]);
    frame.extend([0; 6]);
    frame.extend(ROUTER);
    frame.resize(60, 0);
    frame
}

/// A hello of OSPF (RFC 2328, A.3.2) that agrees with the router's interface, from a router that does not exist.
fn hello(host: u8) -> Vec<u8> {
    let mut hello = vec![2, 1, 0, 44, 7, 7, 7, host, 0, 0, 0, 1, 0, 0, 0, 0];
    hello.extend([0; 8]); // no authentication
    hello.extend([255, 255, 255, 0, 0, 1, 2, 1, 0, 0, 0, 4]);
    hello.extend([0; 8]); // no designated routers
    set_checksum(&mut hello, 12);
    hello
}

/// The frames of a flood.
#[derive(Debug)]
pub(super) struct Flood {
    frames: Vec<Vec<u8>>,
}

impl Flood {
    /// A flood of these kinds in equal parts.
    pub(super) fn new(kinds: &[Kind], seed: u64) -> Self {
        let mut random = Streams::new(seed).stream("flood");
        let kinds = kinds.iter().cycle().take(FRAMES);
        Self {
            frames: kinds.map(|kind| kind.frame(&mut random)).collect(),
        }
    }

    /// Packets per second of a rate in bit/s, by the length of the IP packets.
    pub(super) fn per_s(&self, bps: u64) -> f64 {
        let bytes: usize = self.frames.iter().map(|frame| frame.len() - 14).sum();
        bps as f64 * self.frames.len() as f64 / (bytes as f64 * 8.0)
    }

    /// Starts a thread that sends the frames evenly through `eth0` of a namespace.
    pub(super) fn start(self, namespace: &Namespace, per_s: f64) -> Result<Sender, Error> {
        let doing = "cannot start the flood";
        let injector = namespace.enter(|| Injector::open("eth0"));
        let injector = injector
            .and_then(|opened| opened)
            .map_err(Error::io(doing))?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("flood".into())
            .spawn(move || send(&self.frames, &injector, per_s, &flag))
            .map_err(Error::io(doing))?;
        Ok(Sender {
            stop,
            thread: Some(thread),
        })
    }
}

/// Sends until `stop` is set; returns the number of packets.
fn send(frames: &[Vec<u8>], injector: &Injector, per_s: f64, stop: &AtomicBool) -> u64 {
    let began = Instant::now();
    let (mut due, mut sent) = (0_u64, 0);
    let mut frames = frames.iter().cycle();
    while !stop.load(Ordering::Relaxed) {
        let until = (began.elapsed().as_secs_f64() * per_s) as u64;
        let burst = (until - due).min(BURST_MAX) as usize;
        for frame in frames.by_ref().take(burst) {
            // The kernel refuses a frame if it has no buffer space; then it is not part of the flood.
            sent += u64::from(injector.send(frame, &Offload::NONE).is_ok());
        }
        due = until;
        thread::sleep(STEP);
    }
    sent
}

/// The thread of a flood, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Sender {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Sender {
    /// Ends the flood; returns the number of packets.
    pub(super) fn stop(mut self) -> Result<u64, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<u64, Error> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.thread.take().map(JoinHandle::join);
        let failed = || Error::io("the flood failed")(io::Error::other("its thread panicked"));
        sent.and_then(Result::ok).ok_or_else(failed)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_what_their_kind_promises() {
        let mut random = Streams::new(1).stream("x");
        for kind in Kind::ALL {
            let name = kind.name();
            let frame = kind.frame(&mut random);
            if kind == Kind::Arp {
                assert_eq!(frame.len(), 60);
                continue;
            }
            let header = usize::from(frame[14] & 15) * 4;
            assert!(checksum::is_right(&frame[14..14 + header]), "{name}");
            assert_eq!(frame.len(), 14 + PACKET_BYTES, "{name}");
            assert_eq!(header > 20, kind == Kind::Options, "{name}");
            assert_eq!(
                frame[22] == 1,
                matches!(kind, Kind::Ttl | Kind::Ospf),
                "{name}"
            );
        }
    }

    #[test]
    fn a_flood_has_the_rate_of_its_packets() {
        let flood = Flood::new(&[Kind::Ttl], 1);
        assert!((flood.per_s(1_024_000) - 1000.0).abs() < 1e-6);
    }
}
