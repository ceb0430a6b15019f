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

use weir_base::Instant;
use weir_packet::Reason;
use weir_wire::ethernet::{self, Mac};

use crate::classify::Classified;
use crate::egress::{self, Departure, Rewrites, encapsulation};
use crate::fpf::bindings::{Bindings, Device, Exit, PortState};
use crate::fpf::{Destination, Hop};
use crate::headers;
use crate::ip::forward::Origin;
use crate::ip::tables::{NeighbourKey, Tables};
use crate::ip::waiting::Held;
use crate::plane::fpf::Entry;
use crate::plane::{Mode, Plane, PlanePort};

impl Plane {
    /// Finds the ports of the table's interfaces and the MAC addresses of its neighbours again, because ports, their
    /// numbers, their devices or the kernel's tables have changed.
    pub(super) fn bind_fpf(&mut self) {
        if let Some(fpf) = &mut self.fpf {
            let ports = self.ports.iter().map(|port| state(port, &self.tables));
            let resolve = |port: usize, address| {
                let key = (self.ports[port].index?, address);
                self.tables.neighbours.get(&key)?.mac()
            };
            let towards = |address| {
                let hops = self.tables.next_hops(address);
                let interfaces: Vec<u32> = hops.map(|hop| hop.interface).collect();
                let ports = self.ports.iter().enumerate();
                let led_to = ports.filter(|(_, port)| {
                    port.index.is_some_and(|index| interfaces.contains(&index))
                });
                led_to.map(|(number, _)| number).collect()
            };
            fpf.bindings = Bindings::new(&fpf.table, ports, resolve, towards);
        }
        self.bind_edge();
    }

    /// The neighbours that rules name by their IP addresses, if they have MAC addresses. They count as used, like the
    /// gateways of routes: they are few, and an operator has configured them.
    pub(super) fn fpf_neighbours(&self) -> impl Iterator<Item = NeighbourKey> {
        let hops = self
            .fpf
            .iter()
            .flat_map(|fpf| fpf.table.neighbours().map(|hop| (&fpf.bindings, hop)));
        let keys = hops.filter_map(|(bindings, hop)| {
            let (Destination::Address(address), Exit::Port { port, .. }) =
                (hop.destination, bindings.exit(hop.interface))
            else {
                return None;
            };
            Some((self.ports[port].index?, address))
        });
        keys.filter(|key| self.mac_of(key).is_some())
    }

    fn mac_of(&self, neighbour: &NeighbourKey) -> Option<Mac> {
        self.tables.neighbours.get(neighbour)?.mac()
    }

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
            encapsulation::set_index(self.pool.frame_mut(&packet), index);
        }
        let exit = self
            .fpf
            .as_ref()
            .map(|fpf| fpf.bindings.exit(hop.interface));
        match exit.unwrap_or(Exit::Closed(Reason::NotAPort)) {
            Exit::Port { mtu, .. } if packet.len > ethernet::HEADER_LEN as u32 + mtu => {
                self.fates.discard(packet, Reason::TooBig);
            }
            Exit::Port {
                port, source, vlan, ..
            } => {
                let destination = match hop.destination {
                    Destination::Mac(mac) => mac,
                    Destination::Address(address) => {
                        let Some(index) = self.ports[port].index else {
                            self.fates.discard(packet, Reason::DeviceDown);
                            return;
                        };
                        let held = Held {
                            packet: Classified { packet, headers },
                            ingress: Some(entry.ingress),
                            origin: Origin::Transit,
                            by_rule: true,
                        };
                        return self.send_to_neighbour(held, (index, address), entry.at);
                    }
                };
                let rewrites = Rewrites {
                    macs: Some([destination, source]),
                    push_tag: (vlan != 0).then_some(vlan),
                    ..Rewrites::default()
                };
                let exit = egress::Exit::Port(port);
                self.depart(packet, &headers, &Departure { rewrites, exit });
            }
            Exit::Tunnel { local, remote } => {
                if !encapsulation::push_gre(&mut self.pool, &mut packet, local, remote) {
                    self.fates.discard(packet, Reason::TruncatedFrame);
                    return;
                }
                let headers = headers::peek(self.pool.frame(&packet));
                let held = Held {
                    packet: Classified { packet, headers },
                    ingress: Some(entry.ingress),
                    origin: Origin::Router,
                    by_rule: false,
                };
                self.send_on(held, entry.at);
            }
            Exit::Closed(reason) => {
                self.fates.discard(packet, reason);
            }
        }
    }

    /// Sends a frame to a neighbour that a rule names by its IP address, at once or after it has waited, or lets it
    /// wait for the neighbour's MAC address.
    #[cold]
    pub(super) fn send_to_neighbour(&mut self, held: Held, neighbour: NeighbourKey, now: Instant) {
        let Some(destination) = self.mac_of(&neighbour) else {
            return self.wait(held, neighbour, now);
        };
        let Classified { packet, headers } = held.packet;
        let reason = match self.tables.interfaces.get(&neighbour.0) {
            None => Reason::NotAPort,
            Some(interface) if !interface.up => Reason::DeviceDown,
            Some(interface) if packet.len > ethernet::HEADER_LEN as u32 + interface.mtu => {
                Reason::TooBig
            }
            Some(interface) => {
                let rewrites = Rewrites {
                    macs: Some([destination, interface.mac]),
                    ..Rewrites::default()
                };
                let exit = egress::Exit::Interface(neighbour.0);
                return self.depart(packet, &headers, &Departure { rewrites, exit });
            }
        };
        self.fates.discard(packet, reason);
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
