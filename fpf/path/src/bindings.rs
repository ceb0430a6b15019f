//! Maps the interfaces of a table to the ports of a plane.
//!
//! A table names ports, and does not change. Ports are added and removed, their interfaces go up and down and change
//! their addresses; so do neighbours that a rule names by their IP addresses. Bindings are rebuilt when one of these
//! changes, so that a packet needs one load by number for its input interface, and one for its exit.

use std::net::IpAddr;

use weir_packet::{Queue, Reason};
use weir_wire::ethernet::{self, Mac};

use crate::interface::{Interface, InterfaceId};
use crate::rule::{Destination, Hop};
use crate::table::{HopId, Input, Table};

/// A port of a plane, as far as bindings need it.
#[derive(Clone, Copy, Debug)]
pub struct PortState<'a> {
    /// Name of the port.
    pub name: &'a str,
    /// Whether the port is routed and takes packets.
    pub open: bool,
    /// The device behind the port; `None` if it does not exist.
    pub device: Option<Device>,
}

/// The device behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// MAC address of the device.
    pub mac: Mac,
    /// The longest packet that the device carries, in bytes: FPF header and payload.
    pub mtu: u32,
    /// Whether the device is administratively up.
    pub up: bool,
}

/// The exit through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Through the port with this number.
    Port {
        /// Number of the port.
        port: usize,
        /// The MAC address of the port's device.
        source: Mac,
        /// The longest packet that the port carries, in bytes: FPF header and payload.
        mtu: u32,
        /// The VLAN; zero for none.
        vlan: u16,
    },
    /// Through a tunnel, whose packets follow the routes.
    Tunnel {
        /// The address of this router.
        local: IpAddr,
        /// The far end.
        remote: IpAddr,
    },
    /// Closed at present; packets are dropped with this reason.
    Closed(Reason),
}

/// A neighbour behind an open port, with everything that a packet to it needs: half a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(32))]
pub struct Adjacency {
    /// The MAC addresses in their order in a frame: the neighbour's, then that of the port's device.
    pub macs: [u8; 2 * MAC_LEN],
    /// The longest frame that fits, without a tag; zero if the exit is not an open port, or the neighbour's MAC address
    /// is not known.
    pub frame_bytes_max: u32,
    /// The number of the port.
    pub port: u32,
    /// The VLAN; zero for none.
    pub vlan: u16,
    /// The queue of the port.
    pub queue: Queue,
    /// The input interface whose packets must not go to this neighbour.
    barred: u16,
}

const MAC_LEN: usize = size_of::<Mac>();

/// The ports and exits of a table's interfaces.
#[derive(Debug, Default)]
pub struct Bindings {
    /// By port: the rows for frames without a VLAN; `None` if the table does not name the port.
    ports: Box<[Option<Input>]>,
    /// Port, VLAN, and the rows for its frames.
    vlans: Box<[(usize, u16, Input)]>,
    tunnels: Box<[Tunnel]>,
    /// By interface.
    exits: Box<[Exit]>,
    /// By number of the neighbour.
    adjacencies: Box<[Adjacency]>,
}

/// A tunnel of a table.
#[derive(Debug)]
struct Tunnel {
    local: IpAddr,
    remote: IpAddr,
    /// The rows for the tunnel's packets.
    input: Input,
    /// By port: whether the tunnel accepts packets there.
    entrances: Box<[bool]>,
}

impl Bindings {
    /// Binds the interfaces of `table` to `ports`. `resolve` returns the MAC address of a neighbour on the link of the
    /// port with a number, and `towards` the numbers of the ports to which the routes to an address lead.
    pub fn new<'a>(
        table: &Table,
        ports: impl Iterator<Item = PortState<'a>> + Clone,
        resolve: impl Fn(usize, IpAddr) -> Option<Mac>,
        towards: impl Fn(IpAddr) -> Vec<usize>,
    ) -> Self {
        let mut inputs: Vec<_> = ports.clone().map(|_| None).collect();
        let (mut vlans, mut tunnels, mut exits) = (Vec::new(), Vec::new(), Vec::new());
        for (number, interface) in table.interfaces().iter().enumerate() {
            let input = table.input(InterfaceId(number as u16)); // fewer than 65 536
            let named = |name: &str| ports.clone().position(|port| port.name == name);
            let place = interface.port().and_then(named);
            match (interface, place) {
                (Interface::Ethernet { .. }, Some(port)) => inputs[port] = Some(input),
                (Interface::Vlan { id, .. }, Some(port)) => vlans.push((port, *id, input)),
                (
                    Interface::Gre {
                        local,
                        remote,
                        ports: names,
                    },
                    _,
                ) => {
                    let routed = towards(*remote);
                    let is_entrance = |(number, port): (usize, PortState<'_>)| match &names[..] {
                        [] => routed.contains(&number),
                        names => names.iter().any(|name| name == port.name),
                    };
                    tunnels.push(Tunnel {
                        local: *local,
                        remote: *remote,
                        input,
                        entrances: ports.clone().enumerate().map(is_entrance).collect(),
                    });
                }
                (_, None) => {}
            }
            let port = place.and_then(|place| Some((place, ports.clone().nth(place)?)));
            exits.push(exit(interface, port));
        }
        let adjacency = |(hop, barred): (&Hop, &u16)| {
            adjacency(hop, *barred, &exits[hop.interface.get()], &resolve)
        };
        let hops = table.hops().iter().zip(table.barred());
        Self {
            adjacencies: hops.map(adjacency).collect(),
            ports: inputs.into(),
            vlans: vlans.into(),
            tunnels: tunnels.into(),
            exits: exits.into(),
        }
    }

    /// The rows for frames without a VLAN that arrive at a port; `None` if the table does not name the port.
    #[inline]
    pub fn port(&self, port: usize) -> Option<Input> {
        *self.ports.get(port)?
    }

    /// The rows for frames that arrive at a port in a VLAN, or without one (0); `None` if the table does not name it.
    #[inline]
    pub fn input(&self, port: usize, vlan: u16) -> Option<Input> {
        if vlan == 0 {
            return *self.ports.get(port)?;
        }
        let found = self
            .vlans
            .iter()
            .find(|(p, v, _)| (*p, *v) == (port, vlan))?;
        Some(found.2)
    }

    /// The rows for the packets of a tunnel that arrived through a port, or the reason to drop them; `None` if the
    /// table does not name the tunnel.
    pub fn tunnel(
        &self,
        local: IpAddr,
        remote: IpAddr,
        port: Option<usize>,
    ) -> Option<Result<Input, Reason>> {
        let mut tunnels = self.tunnels.iter();
        let tunnel = tunnels.find(|tunnel| (tunnel.local, tunnel.remote) == (local, remote))?;
        let is_entrance = port.and_then(|port| tunnel.entrances.get(port));
        Some(match is_entrance {
            Some(true) => Ok(tunnel.input),
            _ => Err(Reason::FpfTunnelPort),
        })
    }

    /// The exit through an interface.
    #[inline]
    pub fn exit(&self, interface: InterfaceId) -> Exit {
        let exit = self.exits.get(interface.get());
        exit.copied().unwrap_or(Exit::Closed(Reason::NotAPort))
    }

    /// How a neighbour is reached.
    #[inline(always)]
    pub fn adjacency(&self, hop: HopId) -> &Adjacency {
        &self.adjacencies[hop.get()]
    }
}

impl Adjacency {
    /// Whether a frame of this length from this input interface may leave to this neighbour. If not, the exit gives the
    /// reason, or is a tunnel, or the packet has to wait for the neighbour's MAC address.
    #[inline(always)]
    pub fn takes(&self, frame_len: usize, input: Input) -> bool {
        frame_len <= self.frame_bytes_max as usize && self.barred != input.interface()
    }
}

/// How a neighbour is reached through this exit.
fn adjacency(
    hop: &Hop,
    barred: u16,
    exit: &Exit,
    resolve: &impl Fn(usize, IpAddr) -> Option<Mac>,
) -> Adjacency {
    let closed = Adjacency {
        macs: [0; 2 * MAC_LEN],
        frame_bytes_max: 0,
        port: 0,
        vlan: 0,
        queue: hop.queue,
        barred,
    };
    let Exit::Port {
        port,
        source,
        mtu,
        vlan,
    } = *exit
    else {
        return closed;
    };
    let destination = match hop.destination {
        Destination::Mac(mac) => Some(mac),
        Destination::Address(address) => resolve(port, address),
    };
    let Some(destination) = destination else {
        return closed;
    };
    let mut macs = [0; 2 * MAC_LEN];
    macs[..MAC_LEN].copy_from_slice(&destination);
    macs[MAC_LEN..].copy_from_slice(&source);
    Adjacency {
        macs,
        frame_bytes_max: mtu.saturating_add(ethernet::HEADER_LEN as u32),
        port: port as u32,
        vlan,
        queue: hop.queue,
        barred,
    }
}

fn exit(interface: &Interface, port: Option<(usize, PortState<'_>)>) -> Exit {
    let vlan = match interface {
        Interface::Ethernet { .. } => 0,
        Interface::Vlan { id, .. } => *id,
        Interface::Gre { local, remote, .. } => {
            return Exit::Tunnel {
                local: *local,
                remote: *remote,
            };
        }
    };
    match port {
        None => Exit::Closed(Reason::NotAPort),
        Some((_, PortState { open: false, .. })) => Exit::Closed(Reason::NotAPort),
        Some((port, state)) => match state.device.filter(|device| device.up) {
            None => Exit::Closed(Reason::DeviceDown),
            Some(Device { mac, mtu, .. }) => Exit::Port {
                port,
                source: mac,
                mtu,
                vlan,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Domain;
    use crate::rule::Rule;
    use crate::table::Builder;

    #[test]
    fn interfaces_follow_their_ports() {
        let mut builder = Builder::new(Domain::default());
        let (near, far) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let ids = [
            Interface::ethernet("wan"),
            Interface::vlan("wan", 7).unwrap(),
            Interface::gre(near, far).unwrap(),
            Interface::ethernet("gone"),
        ]
        .map(|interface| builder.interface(interface).unwrap());
        for id in ids {
            builder.rule(Some(id), 1, Rule::Drop).unwrap();
        }
        let table = builder.build().unwrap();
        let [wan, vlan, tunnel, gone] = ids;
        let device = |up| Device {
            mac: [2; 6],
            mtu: 1500,
            up,
        };
        let port = |name, open, up| PortState {
            name,
            open,
            device: Some(device(up)),
        };
        let bound = |ports: &[PortState<'static>]| {
            Bindings::new(&table, ports.iter().copied(), |_, _| None, |_| vec![1])
        };

        let bindings = bound(&[port("lan", true, true), port("wan", true, true)]);
        assert_eq!(bindings.input(0, 0), None);
        assert_eq!(bindings.input(1, 0), Some(table.input(wan)));
        assert_eq!(bindings.input(1, 7), Some(table.input(vlan)));
        assert_eq!((bindings.input(0, 7), bindings.input(1, 8)), (None, None));
        let entered = |port| bindings.tunnel(near, far, port);
        assert_eq!(entered(Some(1)), Some(Ok(table.input(tunnel))));
        for other in [Some(0), Some(2), None] {
            assert_eq!(entered(other), Some(Err(Reason::FpfTunnelPort)));
        }
        assert_eq!(bindings.tunnel(far, near, Some(1)), None);
        let exit = |vlan| Exit::Port {
            port: 1,
            source: [2; 6],
            mtu: 1500,
            vlan,
        };
        assert_eq!(
            (bindings.exit(wan), bindings.exit(vlan)),
            (exit(0), exit(7))
        );
        let ends = Exit::Tunnel {
            local: near,
            remote: far,
        };
        assert_eq!(bindings.exit(tunnel), ends);
        assert_eq!(bindings.exit(gone), Exit::Closed(Reason::NotAPort));

        let closed = |open, up| bound(&[port("wan", open, up)]).exit(wan);
        assert_eq!(closed(false, true), Exit::Closed(Reason::NotAPort));
        assert_eq!(closed(true, false), Exit::Closed(Reason::DeviceDown));
        let alone = bound(&[port("wan", true, true)]);
        assert_eq!(alone.port(0), Some(table.input(wan)));
    }
}
