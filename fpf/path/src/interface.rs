//! The interfaces of FPF: a link layer on one of the router's ports, or a tunnel.
//!
//! ```text
//!  Ethernet   | Ethernet | FPF header | payload
//!  VLAN       | Ethernet | 802.1Q | FPF header | payload
//!  GRE        | Ethernet | IPv4 or IPv6 | GRE | FPF header | payload
//! ```
//!
//! Source: section IV.A of the paper: "Ethernet, VLAN Ethernet and GRE tunnels". weir makes all three itself; the
//! kernel needs neither VLAN devices nor tunnels. A tunnel's packets follow the routes to its far end; the router
//! removes the tunnel's headers from packets that are addressed to its near end.
//!
//! Anybody can write the far end's address into a packet. So a tunnel accepts packets only at the ports through which
//! the router itself reaches the far end, or at the ports that the tunnel names (RFC 3704, strict: whatever the ports'
//! own source checks are).

use std::net::IpAddr;

use weir_wire::vlan;

/// Number of an interface in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InterfaceId(pub(super) u16);

impl InterfaceId {
    /// The number, from zero on without gaps.
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interface {
    /// Frames of a port without a VLAN.
    Ethernet {
        /// Name of the port.
        port: String,
    },
    /// Frames of a port in a VLAN.
    Vlan {
        /// Name of the port.
        port: String,
        /// The VLAN, from 1 to 4094.
        id: u16,
    },
    /// A GRE tunnel (RFC 2784, RFC 7676).
    Gre {
        /// An address of this router.
        local: IpAddr,
        /// The far end, of the same family.
        remote: IpAddr,
        /// Names of the ports at which the tunnel accepts packets; if empty, the ports through which the far end is
        /// routed.
        ports: Vec<String>,
    },
}

/// An invalid interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// The VLAN does not exist.
    #[error("VLAN {0} is invalid: it must be from 1 to {max}", max = vlan::ID_MAX)]
    Vlan(u16),
    /// The two ends cannot be the ends of one tunnel.
    #[error(
        "a tunnel from {0} to {1} is invalid: its ends must be two different unicast addresses of the same IP version"
    )]
    Ends(IpAddr, IpAddr),
}

impl Interface {
    /// Frames of a port without a VLAN.
    pub fn ethernet(port: &str) -> Self {
        let port = port.to_owned();
        Self::Ethernet { port }
    }

    /// Frames of a port in a VLAN.
    pub fn vlan(port: &str, id: u16) -> Result<Self, InterfaceError> {
        let port = port.to_owned();
        if (1..=vlan::ID_MAX).contains(&id) {
            Ok(Self::Vlan { port, id })
        } else {
            Err(InterfaceError::Vlan(id))
        }
    }

    /// A GRE tunnel from an address of this router to another router.
    pub fn gre(local: IpAddr, remote: IpAddr) -> Result<Self, InterfaceError> {
        let is_host = |address: IpAddr| match address {
            IpAddr::V4(a) => !(a.is_unspecified() || a.is_multicast() || a.is_broadcast()),
            IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast()),
        };
        let one_family = local.is_ipv4() == remote.is_ipv4();
        if one_family && local != remote && is_host(local) && is_host(remote) {
            Ok(Self::Gre {
                local,
                remote,
                ports: Vec::new(),
            })
        } else {
            Err(InterfaceError::Ends(local, remote))
        }
    }

    /// The same tunnel, which accepts packets at the ports with these names.
    pub fn entered_at(mut self, names: Vec<String>) -> Self {
        if let Self::Gre { ports, .. } = &mut self {
            *ports = names;
        }
        self
    }

    /// Whether both take the same packets.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Gre { local, remote, .. },
                Self::Gre {
                    local: near,
                    remote: far,
                    ..
                },
            ) => (local, remote) == (near, far),
            _ => self == other,
        }
    }

    /// The name of the interface's port; `None` for a tunnel.
    pub fn port(&self) -> Option<&str> {
        match self {
            Self::Ethernet { port } | Self::Vlan { port, .. } => Some(port),
            Self::Gre { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interfaces_that_can_be() {
        assert_eq!(Interface::vlan("wan", 0), Err(InterfaceError::Vlan(0)));
        assert_eq!(
            Interface::vlan("wan", 4095).unwrap_err().to_string(),
            "VLAN 4095 is invalid: it must be from 1 to 4094"
        );
        assert!(Interface::vlan("wan", 4094).is_ok());
        let gre = |a: &str, b: &str| Interface::gre(a.parse().unwrap(), b.parse().unwrap());
        assert!(gre("10.0.0.1", "10.0.0.2").is_ok() && gre("2001:db8::1", "2001:db8::2").is_ok());
        for (local, remote) in [
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.1", "2001:db8::1"),
            ("10.0.0.1", "224.0.0.1"),
            ("10.0.0.1", "255.255.255.255"),
            ("::", "2001:db8::1"),
        ] {
            assert!(gre(local, remote).is_err(), "{local} to {remote}");
        }
    }
}
