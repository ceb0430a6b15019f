//! Routes as zebra sends them to a CE: netlink messages in frames of FPM (FRR: zebra/dplane_fpm_nl.c).

use std::io::{self, Write};
use std::net::{IpAddr, TcpStream};

use ipnet::IpNet;
use weir_live::namespace::Namespace;

/// The address of FPM in the namespaces of routers.
pub(super) const ADDRESS: &str = "127.0.0.1:2620";
/// Length of a frame's header.
const HEADER_BYTES: usize = 4;
/// Length from which a frame is sent.
const FRAME_BYTES: usize = 4000;

/// Of linux/rtnetlink.h and linux/nexthop.h.
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEXTHOP: u16 = 104;
const NLM_F_REQUEST_CREATE_REPLACE: u16 = 0x0501;
const RTA_DST: u16 = 1;
const RTA_PRIORITY: u16 = 6;
const RTA_NH_ID: u16 = 30;
const NHA_ID: u16 = 1;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const RT_TABLE_MAIN: u8 = 254;
const RTN_UNICAST: u8 = 1;
const RTPROT_BGP: u8 = 186;
/// The metric of BGP's routes in FRR.
const METRIC: u32 = 20;

/// The peer of a router's FPM.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    frame: Vec<u8>,
}

impl Peer {
    /// Connects in the namespace of a router.
    pub(super) fn connect(namespace: &Namespace) -> io::Result<Self> {
        Ok(Self {
            stream: namespace.enter(|| TcpStream::connect(ADDRESS))??,
            frame: Vec::new(),
        })
    }

    /// Sends a next-hop object, which replaces the object of this identifier.
    pub(super) fn object(&mut self, id: u32, gateway: IpAddr, interface: u32) -> io::Result<()> {
        let mut message = Message::new(
            RTM_NEWNEXTHOP,
            &[family(gateway), 0, RTPROT_BGP, 0, 0, 0, 0, 0],
        );
        message.add(NHA_ID, &id.to_ne_bytes());
        message.add(NHA_OIF, &interface.to_ne_bytes());
        message.add_address(NHA_GATEWAY, gateway);
        self.write(message)
    }

    /// Sends a route by a next-hop object, which replaces the route to this prefix.
    pub(super) fn route(&mut self, prefix: IpNet, object: u32) -> io::Result<()> {
        let (family, len) = (family(prefix.addr()), prefix.prefix_len());
        let head = [
            family,
            len,
            0,
            0,
            RT_TABLE_MAIN,
            RTPROT_BGP,
            0,
            RTN_UNICAST,
            0,
            0,
            0,
            0,
        ];
        let mut message = Message::new(RTM_NEWROUTE, &head);
        message.add_address(RTA_DST, prefix.addr());
        message.add(RTA_PRIORITY, &METRIC.to_ne_bytes());
        message.add(RTA_NH_ID, &object.to_ne_bytes());
        self.write(message)
    }

    /// Sends the messages that wait.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if !self.frame.is_empty() {
            let len = (HEADER_BYTES + self.frame.len()) as u16;
            self.stream
                .write_all(&[&[1, 1], &len.to_be_bytes()[..], &self.frame].concat())?;
            self.frame.clear();
        }
        Ok(())
    }

    fn write(&mut self, message: Message) -> io::Result<()> {
        self.frame.extend(message.finish());
        if self.frame.len() >= FRAME_BYTES {
            self.flush()?;
        }
        Ok(())
    }
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}

/// A netlink message.
struct Message(Vec<u8>);

impl Message {
    /// The length follows in [`Self::finish`].
    fn new(kind: u16, head: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&NLM_F_REQUEST_CREATE_REPLACE.to_ne_bytes());
        bytes.extend(head);
        Self(bytes)
    }

    /// Adds an attribute, whose length is a multiple of four.
    fn add(&mut self, kind: u16, value: &[u8]) {
        let len = 4 + value.len() as u16;
        self.0
            .extend([len.to_ne_bytes(), kind.to_ne_bytes()].concat());
        self.0.extend(value);
    }

    fn add_address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.add(kind, &address.octets()),
            IpAddr::V6(address) => self.add(kind, &address.octets()),
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}
