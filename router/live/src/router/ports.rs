//! The ports of a running router: opening, adding, changing, removing.

use std::hash::{BuildHasher, Hasher, RandomState};

use weir_autorate::Params;
use weir_base::{Rate, Streams};
use weir_element::Limits;
use weir_lfb::auto_rate::AutoRate;
use weir_lfb::port::{Direction, PortPlan};
use weir_lfb::router::RouterPlan;
use weir_path::plane::{Mode, Plane};

use crate::clock;
use crate::device::af_packet::{AfPacket, Options};
use crate::device::interface;
use crate::device::tun::Tun;
use crate::device::{Device, OwnershipWindow};
use crate::kernel::conntrack::Conntrack;
use crate::lent::Lent;
use crate::worker::{Event, Opener, Worker};

/// Length of an Ethernet header and two tags.
const LAYER_2_BYTES: u32 = 22;
/// Superframes that wait at the same time; more are cut. They take 64 KB each.
pub const SUPERFRAMES: usize = 256;
/// The assumed MTU of an interface that does not exist.
const MTU_DEFAULT: u32 = 1500;

/// A worker with these ports. All frames belong to the kernel until the ports' ownership is set.
pub(super) fn worker(
    router: &RouterPlan,
    limits: Limits,
    ports: Vec<Addition>,
    event: Box<dyn FnMut(Event) + Send>,
) -> Worker {
    let streams = Streams::new(entropy());
    let plane = Plane::new(limits.pool, limits.frame_bytes_max, streams);
    let mut plane = plane.with_superframes(SUPERFRAMES);
    if router.mode == Mode::Queue {
        match Conntrack::open() {
            Ok(tracking) => plane.set_connection_tracking(Box::new(tracking)),
            Err(error) => tracing::warn!(
                %error,
                "no ctnetlink in this kernel: hosts behind a translated address share a queue"
            ),
        }
    }
    let mut worker = Worker::new(plane, event);
    worker.set_age_max(router.age_max);
    for port in ports {
        add(&mut worker, port);
    }
    worker
}

/// A seed that senders cannot know; the standard library keys its own hash maps with it.
pub(super) fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A device if it could be opened, and the function that opens it (again).
pub(super) type Opened = (Option<Box<dyn Device>>, Opener);

/// A port to be added.
pub(super) struct Addition {
    pub(super) port: PortPlan,
    pub(super) mode: Mode,
    pub(super) device: Opened,
    /// The longest frame of its interface, in bytes.
    pub(super) frame_bytes_max: usize,
}

/// Opens the device of a port; it sends frames with this mark.
pub(super) fn opened(port: &PortPlan, mode: Mode, mark: u32) -> Result<Opened, String> {
    let (is_tun, direction) = (port.is_tun, port.direction);
    let mut open: Opener = Box::new(move |interface| {
        if mode == Mode::Queue {
            return Ok(Box::new(Lent::open(interface, direction, mark)?));
        }
        if is_tun {
            let tun = Tun::open(interface).map_err(std::io::Error::other)?;
            return Ok(Box::new(tun));
        }
        let options = Options {
            promiscuous: mode == Mode::Bridged,
            offloads: true,
            ownership: OwnershipWindow::NEVER,
            mark,
            ..Options::default()
        };
        Ok(Box::new(AfPacket::open(interface, options)?))
    });
    let device = open(&port.interface).map(Some).or_else(|error| {
        if interface::device_gone(&error) {
            let (port, interface) = (&port.name, &port.interface);
            tracing::warn!(
                port,
                interface,
                "the interface is down; the port waits for it"
            );
            return Ok(None);
        }
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => " (CAP_NET_RAW is needed)",
            _ => "",
        };
        Err(format!("{error}{hint}"))
    })?;
    Ok((device, open))
}

/// On the forwarding thread: adds a port at the end.
pub(super) fn add(worker: &mut Worker, addition: Addition) {
    let Addition {
        port,
        mode,
        device: (device, open),
        frame_bytes_max,
    } = addition;
    let number = worker.plane.add_port(
        &port.name,
        &port.interface,
        mode,
        port.discipline.clone(),
        port.link(frame_bytes_max as u32),
        clock::now(),
    );
    worker.plane.set_source_check(number, port.source_check);
    worker.plane.set_rate_of(number, port.rate_of.as_deref());
    if mode == Mode::Queue {
        let direction = match port.direction {
            Direction::Out => weir_packet::Direction::Outbound,
            Direction::In => weir_packet::Direction::Inbound,
        };
        worker.plane.set_translates(number, direction);
    }
    if port.is_tun {
        worker.plane.set_local(number);
    }
    worker.bind(device, open);
    steer(worker, number, &port);
}

/// On the forwarding thread: applies changed plans of its ports.
pub(super) fn reconfigure(worker: &mut Worker, ports: &[PortPlan]) {
    for port in ports {
        if let Some(number) = number(worker, &port.name) {
            let mut link = port.link(frame_bytes_now(&worker.plane, number));
            if let Some(auto) = &port.auto {
                link.rate = Some(keep_rate(worker, number, auto));
            }
            steer(worker, number, port);
            let discipline = port.discipline.clone();
            worker
                .plane
                .reconfigure_port(number, discipline, link, clock::now());
            worker.plane.set_source_check(number, port.source_check);
            worker.plane.set_rate_of(number, port.rate_of.as_deref());
        }
    }
}

/// Lets a port find its rate if its plan requires that.
fn steer(worker: &mut Worker, number: usize, port: &PortPlan) {
    let by_traffic = port.auto.as_ref().is_some_and(|auto| auto.by_traffic);
    worker.set_steered(number, port.auto.is_some(), by_traffic);
}

/// Keeps the rate of a port that finds it, within its limits: a reload in the middle of a drain must not end the drain.
fn keep_rate(worker: &Worker, number: usize, auto: &AutoRate) -> Rate {
    let Params {
        least, base, most, ..
    } = auto.params;
    let steering = worker.steering(number);
    let rate = steering.rate().unwrap_or(base).max(least).min(most);
    steering.set_rate(rate);
    rate
}

/// The longest frame of a port's interface according to the kernel's tables: no socket is opened on the forwarding
/// thread.
fn frame_bytes_now(plane: &Plane, number: usize) -> u32 {
    let interface = &plane.ports()[number].interface;
    let mut interfaces = plane.tables().interfaces.values();
    let mtu = interfaces.find(|i| i.name == *interface).map(|i| i.mtu);
    mtu.unwrap_or(MTU_DEFAULT) + LAYER_2_BYTES
}

/// On the forwarding thread: closes the queues of these ports to further packets.
pub(super) fn close(worker: &mut Worker, names: &[String]) {
    for name in names {
        if let Some(number) = number(worker, name) {
            worker.plane.close_port(number);
        }
    }
}

/// On the forwarding thread: removes these ports, and drops the packets that they still hold.
pub(super) fn remove(worker: &mut Worker, names: &[String]) {
    for name in names {
        if let Some(number) = number(worker, name) {
            worker.remove_port(number);
        }
    }
}

/// On the forwarding thread: sets which frames of these ports belong to the router.
pub(super) fn set_ownership(worker: &mut Worker, names: &[String], ownership: OwnershipWindow) {
    for name in names {
        if let Some(number) = number(worker, name) {
            worker.set_ownership(number, ownership);
        }
    }
}

/// On the forwarding thread: records that the rules of a port have been removed.
pub(super) fn set_unprotected(worker: &mut Worker, name: &str) {
    if let Some(number) = number(worker, name) {
        worker.set_unprotected(number);
    }
}

/// On the forwarding thread: whether a port has its device.
pub(super) fn is_open(worker: &Worker, name: &str) -> bool {
    number(worker, name).is_some_and(|number| worker.is_open(number))
}

/// On the forwarding thread: whether these ports have taken every frame of their ownership and sent every packet that they
/// held. A port that no longer exists counts as drained.
pub(super) fn are_drained(worker: &Worker, names: &[String]) -> bool {
    let mut numbers = names.iter().filter_map(|name| number(worker, name));
    numbers.all(|number| worker.is_drained(number))
}

fn number(worker: &Worker, name: &str) -> Option<usize> {
    let mut ports = worker.plane.ports().iter();
    ports.position(|slot| slot.name == name)
}

/// The longest frame of an interface, including its Ethernet header and tags. Opens a socket.
pub(super) fn frame_bytes_max(interface: &str) -> usize {
    let mtu = interface::mtu(interface);
    mtu.unwrap_or(MTU_DEFAULT as usize) + LAYER_2_BYTES as usize
}
