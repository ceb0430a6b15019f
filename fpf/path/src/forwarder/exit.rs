//! FPF packets leave a plane: to the neighbour that a rule names, or into a tunnel.
//!
//! ```text
//!  hop --> exit --+--> Ethernet, VLAN --> fits? --> MAC address known? --> depart --> Port::offer
//!                 |                                        | no                ^
//!                 |                                        +--> wait ----------+ answered
//!                 +--> tunnel --> push GRE --> send_on: by the routes
//! ```
//!
//! A packet whose neighbour is not resolved waits like an IP packet, within the same bounds. It waits for that
//! neighbour: a new table of rules does not change its destination meanwhile.

use weir_packet::Reason;
use weir_path::classify::Classified;
use weir_path::egress::{self, Departure, Rewrites};
use weir_path::headers;
use weir_path::ip::forward::Origin;
use weir_path::ip::tables::{NeighbourKey, Tables};
use weir_path::ip::waiting::Held;
use weir_path::plane::{Mode, Plane, PlanePort};
use weir_wire::ethernet;

use crate::bindings::{Bindings, Device, Exit, PortState};
use crate::encapsulation;
use crate::{Destination, Hop};

use super::{Entry, Forwarder, Forwarding};

impl Forwarder {
    /// Finds the ports of the table's interfaces and the MAC addresses of its neighbours again, because ports, their
    /// numbers, their devices or the kernel's tables have changed.
    pub(crate) fn bind(&mut self, plane: &Plane) {
        let (all, tables) = (plane.ports(), plane.tables());
        let ports = all.iter().map(|port| state(port, tables));
        let resolve = |port: usize, address| {
            let key = (all[port].index?, address);
            tables.neighbours.get(&key)?.mac()
        };
        let towards = |address| {
            let hops = tables.next_hops(address);
            let interfaces: Vec<u32> = hops.map(|hop| hop.interface).collect();
            let led_to = all
                .iter()
                .enumerate()
                .filter(|(_, port)| port.index.is_some_and(|index| interfaces.contains(&index)));
            led_to.map(|(number, _)| number).collect()
        };
        self.bindings = Bindings::new(&self.table, ports, resolve, towards);
    }

    /// The neighbours that rules name by their IP addresses, if they have MAC addresses. They count as used, like the
    /// gateways of routes: they are few, and an operator has configured them.
    pub(crate) fn neighbours(&self, plane: &Plane) -> Vec<NeighbourKey> {
        let keys = self.table.neighbours().filter_map(|hop| {
            let (Destination::Address(address), Exit::Port { port, .. }) =
                (hop.destination, self.bindings.exit(hop.interface))
            else {
                return None;
            };
            let key = (plane.ports()[port].index?, address);
            plane.tables().neighbours.get(&key)?.mac()?;
            Some(key)
        });
        keys.collect()
    }
}

impl Forwarding<'_> {
    /// Sends a frame to a neighbour; with an Index if it has an FPF header.
    #[inline]
    pub(super) fn send_to(
        &mut self,
        entry: Entry,
        packet: Classified,
        hop: &Hop,
        index: Option<u8>,
    ) {
        let Classified {
            mut packet,
            headers,
        } = packet;
        packet.queue = hop.queue;
        if let Some(index) = index {
            encapsulation::set_index(self.plane.pool.frame_mut(&packet), index);
        }
        match self.fpf.bindings.exit(hop.interface) {
            Exit::Port { mtu, .. } if packet.len > ethernet::HEADER_LEN as u32 + mtu => {
                self.plane.discard(packet, Reason::TooBig)
            }
            Exit::Port {
                port, source, vlan, ..
            } => {
                let destination = match hop.destination {
                    Destination::Mac(mac) => mac,
                    Destination::Address(address) => {
                        let Some(index) = self.plane.ports()[port].index else {
                            return self.plane.discard(packet, Reason::DeviceDown);
                        };
                        let held = Held {
                            packet: Classified { packet, headers },
                            ingress: Some(entry.ingress),
                            origin: Origin::Transit,
                            by_rule: true,
                        };
                        return self
                            .plane
                            .send_to_neighbour(held, (index, address), entry.at);
                    }
                };
                let rewrites = Rewrites {
                    macs: Some([destination, source]),
                    push_tag: (vlan != 0).then_some(vlan),
                    ..Rewrites::default()
                };
                let exit = egress::Exit::Port(port);
                self.plane
                    .depart(packet, &headers, &Departure { rewrites, exit });
            }
            Exit::Tunnel { local, remote } => {
                if !encapsulation::push_gre(&mut self.plane.pool, &mut packet, local, remote) {
                    return self.plane.discard(packet, Reason::TruncatedFrame);
                }
                let headers = headers::peek(self.plane.pool.frame(&packet));
                let held = Held::new(
                    Classified { packet, headers },
                    Some(entry.ingress),
                    Origin::Router,
                );
                self.plane.send_on(held, entry.at);
            }
            Exit::Closed(reason) => self.plane.discard(packet, reason),
        }
    }
}

/// A port and its device, for the bindings.
fn state<'a>(port: &'a PlanePort, tables: &Tables) -> PortState<'a> {
    let interface = port.index.and_then(|index| tables.interfaces.get(&index));
    PortState {
        name: &port.name,
        open: !port.closing && port.mode == Mode::Routed,
        device: interface.map(|interface| Device {
            mac: interface.mac,
            mtu: interface.mtu,
            up: interface.up,
        }),
    }
}
