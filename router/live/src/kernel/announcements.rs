//! Announcements that something in the kernel has changed; the listener then reads it again.

use std::io;

use tokio::io::unix::AsyncFd;

use super::follow::register;
use super::netlink::NetlinkSocket;

/// `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h.
const NFTABLES_GROUP: u32 = 7;
/// `XFRMNLGRP_POLICY` of linux/xfrm.h.
const POLICIES_GROUP: u32 = 4;
/// Maximum announcements taken at once; if some are left, the next call returns immediately.
const TAKEN_MAX: usize = 1024;

/// The kernel's announcements about one subject, in the calling thread's network namespace.
pub struct Announcements {
    socket: AsyncFd<NetlinkSocket>,
    buffer: Vec<u8>,
}

impl Announcements {
    /// Announcements about rules of nf_tables.
    pub fn of_rules() -> io::Result<Self> {
        Self::open(libc::NETLINK_NETFILTER, &[NFTABLES_GROUP])
    }

    /// Announcements about policy rules.
    pub fn of_policy_rules() -> io::Result<Self> {
        let groups = [libc::RTNLGRP_IPV4_RULE, libc::RTNLGRP_IPV6_RULE];
        Self::open(libc::NETLINK_ROUTE, &groups)
    }

    /// Announcements about IPsec policies.
    pub fn of_policies() -> io::Result<Self> {
        Self::open(libc::NETLINK_XFRM, &[POLICIES_GROUP])
    }

    /// Announcements about interfaces and their traffic control.
    pub fn of_links() -> io::Result<Self> {
        let groups = [libc::RTNLGRP_LINK, libc::RTNLGRP_TC];
        Self::open(libc::NETLINK_ROUTE, &groups)
    }

    fn open(protocol: libc::c_int, groups: &[u32]) -> io::Result<Self> {
        let socket = NetlinkSocket::open(protocol)?;
        groups.iter().try_for_each(|group| socket.join(*group))?;
        Ok(Self {
            socket: register(socket)?,
            buffer: vec![0; 4096], // never read, so a cut announcement is good enough
        })
    }

    /// Waits for a change. Changes announced since the last call count.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.socket.readable().await?;
            let mut taken = 0;
            while taken < TAKEN_MAX {
                match ready.get_inner().receive(&mut self.buffer) {
                    Ok(_) => taken += 1,
                    // The socket has overflowed; this counts as a change.
                    Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => taken += 1,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready.clear_ready();
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            if taken > 0 {
                return Ok(());
            }
        }
    }
}
