//! Routes as zebra sends them to a CE: netlink messages in frames of FPM (FRR: zebra/dplane_fpm_nl.c).

use std::io::{self, Write};
use std::net::{IpAddr, TcpStream};

use ipnet::IpNet;
use weir_live::kernel::install::RTA_NH_ID;
use weir_live::kernel::message::{NHA_GATEWAY, NHA_ID, NHA_OIF, RTM_NEWNEXTHOP};
use weir_live::kernel::netlink::{Request, family};
use weir_live::namespace::Namespace;

/// The address of FPM in the namespaces of routers.
pub(super) const ADDRESS: &str = "127.0.0.1:2620";
/// Length of a frame's header.
const HEADER_BYTES: usize = 4;
/// Length from which a frame is sent.
const FRAME_BYTES: usize = 4000;

/// The protocol of BGP's routes (linux/rtnetlink.h).
const RTPROT_BGP: u8 = 186;
const CREATE_OR_REPLACE: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
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
        let header = [family(gateway), 0, RTPROT_BGP, 0, 0, 0, 0, 0];
        let object = Request::new(RTM_NEWNEXTHOP, CREATE_OR_REPLACE, &header)
            .with(NHA_ID, &id.to_ne_bytes())
            .with(NHA_OIF, &interface.to_ne_bytes())
            .with_address(NHA_GATEWAY, gateway);
        self.write(&object)
    }

    /// Sends a route by a next-hop object, which replaces the route to this prefix.
    pub(super) fn route(&mut self, prefix: IpNet, object: u32) -> io::Result<()> {
        let (family, len) = (family(prefix.addr()), prefix.prefix_len());
        let (table, kind) = (libc::RT_TABLE_MAIN, libc::RTN_UNICAST);
        let header = [family, len, 0, 0, table, RTPROT_BGP, 0, kind, 0, 0, 0, 0];
        let route = Request::new(libc::RTM_NEWROUTE, CREATE_OR_REPLACE, &header)
            .with_address(libc::RTA_DST, prefix.addr())
            .with(libc::RTA_PRIORITY, &METRIC.to_ne_bytes())
            .with(RTA_NH_ID, &object.to_ne_bytes());
        self.write(&route)
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

    fn write(&mut self, message: &Request) -> io::Result<()> {
        self.frame.extend(message.numbered(0));
        if self.frame.len() >= FRAME_BYTES {
            self.flush()?;
        }
        Ok(())
    }
}
