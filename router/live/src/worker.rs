//! The thread that moves packets: devices in, plane, devices out.
//!
//! ```text
//!   other threads                    the worker's thread
//!  Handle::call --- commands ---> +---------------------------------------------+
//!       ^                         | commands | receive bursts | step | transmit |--+
//!       +------ answers --------- +---------------------------------------------+  |
//!  events (requests, ports) <--------^                                            |
//!                                     +------- wait: frames, commands, time -------+
//! ```
//!
//! A poll iteration (a turn) reads the clock, takes a burst from each device, lets every port do its due work, and
//! sends. Unless a device has more frames, the iteration ends with a wait for a frame, a command or the next event, so
//! an idle router uses no processor time. Commands run between two iterations: a packet sees either the old
//! configuration or the new one.
//!
//! Under load, the thread does not wake up for each frame: see [`Moderation`].
//!
//! The worker closes a device that fails, drops its frames, and opens it again once it is back ([`links`]).
//!
//! Transit belongs to the router only while this thread iterates ([`lease`]); a callback can report that it does
//! ([`pulse`]).

mod bursts;
mod lease;
mod links;
mod pulse;
mod steering;

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use weir_base::{Instant, Span};
use weir_layer::NoAnswer;
use weir_packet::Reason;
use weir_path::ip::resolution::NeighbourRequest;
use weir_path::ip::tables::{NeighbourKey, Tables};
use weir_path::plane::{Mode, Plane, PlanePort};

pub use self::lease::Lease;
use self::links::{DeviceOpener, Link};
use self::pulse::Pulse;
pub use self::steering::Steering;
use crate::clock::{self, Waiter, Waker};
use crate::device::{Counters, Device, OwnershipWindow};
use crate::lent::LAYER_2_BYTES;

/// The name of the forwarding thread.
pub(crate) const FORWARDING: &str = "weir-worker";

/// Maximum frames of ordinary length taken from a device in one iteration. A longer frame counts as several
/// ([`Received::cost`](crate::device::Received::cost)). A device that exceeds its share gets less in the next iterations, so the worker serves devices
/// round-robin by bytes, and a flood of superframes at one device does not delay the others.
const BURST_MAX: usize = 64;
/// Shortest wait for a port's next event: many frames at a high rate share one wake-up, and still leave within the
/// burst that [`weir_path::egress::port::Link::burst`] permits.
const PACING_QUANTUM: Span = Span::from_micros(50);
/// Time for which frames gather before the next iteration under load, like the interrupt moderation of a network card.
const GATHER: Span = Span::from_micros(50);
/// Minimum frames per wake-up that count as load.
const LOAD_FRAMES_MIN: usize = 2;
/// Time until the next attempt to send through a full device.
const DEVICE_FULL_RETRY: Span = Span::from_micros(100);
/// A worker that does not answer a call within this time is stuck.
const CALL_TIME_MAX: Duration = Duration::from_secs(2);

/// Decides how long frames gather before an iteration.
///
/// A wake-up costs more than forwarding a frame. While frames come one at a time, each is forwarded immediately. When a
/// wake-up has found several, more are on their way, and the next iteration waits until [`GATHER`] after the last
/// wake-up, regardless of arrivals. So both the number of wake-ups and the delay are bounded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moderation {
    woken_at: Instant,
    frames: usize,
}

impl Moderation {
    /// Records the number of frames that an iteration has taken.
    pub fn took(&mut self, frames: usize) {
        self.frames += frames;
    }

    /// Under load, the time until which no frame may end the wait that begins now.
    pub fn gather_until(&self, now: Instant) -> Option<Instant> {
        let until = self.woken_at + GATHER;
        (self.frames >= LOAD_FRAMES_MIN && now < until).then_some(until)
    }

    /// Records that the wait has ended.
    pub fn woke(&mut self, now: Instant) {
        self.woken_at = now;
        self.frames = 0;
    }
}

/// Opens the device of a port whose interface has this name now; called again after the device was lost.
pub type Opener = Box<dyn FnMut(&str) -> io::Result<Box<dyn Device>> + Send>;

/// An event that a worker reports on its own thread. The receiver must not block.
#[derive(Clone, Debug)]
pub enum Event {
    /// Request a neighbour's MAC address, or give up a request.
    NeighbourRequest(NeighbourRequest),
    /// Packets were sent to these neighbours since the last report.
    InUse(Vec<NeighbourKey>),
    /// The device of the port with this name was lost.
    PortLost(String),
    /// The device of a port was opened again.
    PortBack {
        /// Name of the port.
        port: String,
        /// Name of its interface.
        interface: String,
    },
    /// The interface of a port was renamed. Its frames belong to the kernel until the router takes them again, because
    /// the rules that keep transit from the kernel depend on interface names.
    Renamed {
        /// Name of the port.
        port: String,
        /// The old name of its interface.
        from: String,
        /// The new name.
        to: String,
    },
    /// A port's interface has gained or lost its carrier.
    Carrier {
        /// Name of the port.
        port: String,
        /// Whether the interface has a carrier.
        works: bool,
    },
    /// Packets wait for the control element: [`Plane::take_exceptions`]. Reported once until they are taken.
    Exceptions,
    /// Packets wait for the control thread of the overlay. Reported once until they are taken.
    Copies,
    /// This snapshot of the tables is no longer in use. The receiver drops it: dropping a large snapshot would delay
    /// the worker.
    Retired(Arc<Tables>),
}

/// The thread's state, which commands can access as a whole.
pub struct Worker {
    /// All state that packets touch.
    pub plane: Plane,
    links: Vec<Link>,
    /// Number of links created so far: the id of the next link.
    bound: u64,
    doorkeeper: DeviceOpener,
    event: Box<dyn FnMut(Event) + Send>,
    moderation: Moderation,
    age_max: Option<Span>,
    lease: Option<Lease>,
    pulse: Option<Pulse>,
    stop: bool,
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Whether the device is open.
    pub up: bool,
    /// The device's counters, summed over all periods in which it was open.
    pub counters: Counters,
}

type Command = Box<dyn FnOnce(&mut Worker) + Send>;

/// Lets other threads talk to a worker.
#[derive(Clone, Debug)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    waker: Waker,
}

impl Worker {
    /// A worker without ports.
    pub fn new(plane: Plane, event: Box<dyn FnMut(Event) + Send>) -> Self {
        Self {
            plane,
            links: Vec::new(),
            bound: 0,
            doorkeeper: DeviceOpener::default(),
            event,
            moderation: Moderation::default(),
            age_max: None,
            lease: None,
            pulse: None,
            stop: false,
        }
    }

    /// Sets the age above which frames from a receive ring are dropped with [`Reason::Stale`].
    pub fn set_age_max(&mut self, age_max: Span) {
        self.age_max = Some(age_max);
    }

    /// Binds a device to the port that was added to the plane last. `open` opens it again after it was lost, or for the
    /// first time if it does not exist yet; the worker calls `open` on another thread.
    pub fn bind(&mut self, device: Option<Box<dyn Device>>, open: Opener) {
        self.links.push(Link::new(self.bound, device, open));
        self.bound += 1;
        self.learn_offloads(self.links.len() - 1);
    }

    /// Tells the plane whether the device of a port does offloads.
    fn learn_offloads(&mut self, number: usize) {
        let device = self.links[number].device.as_ref();
        let does = device.is_some_and(|device| device.does_offloads());
        self.plane.set_offloads(number, does);
    }

    /// Removes a port, and closes its device on another thread.
    pub fn remove_port(&mut self, number: usize) {
        self.plane.remove_port(number, Reason::Reconfigured);
        let mut link = self.links.remove(number);
        link.steering.end();
        self.doorkeeper.close(link.close());
    }

    /// Installs a new snapshot of the kernel's tables, and reports changes of the ports' links.
    pub fn set_tables(&mut self, tables: Arc<Tables>) {
        let links = |plane: &Plane| -> Vec<(String, Option<bool>)> {
            let ports = plane.ports().iter().enumerate();
            let link =
                |(n, port): (usize, &PlanePort)| (port.interface.clone(), plane.has_carrier(n));
            ports.map(link).collect()
        };
        let before = links(&self.plane);
        let old = self.plane.set_tables(tables, clock::now());
        (self.event)(Event::Retired(old));
        let after = links(&self.plane);
        for (number, (before, after)) in before.into_iter().zip(after).enumerate() {
            self.tell_of_link(number, before, after);
            self.measure(number);
        }
    }

    /// Closes the device of a port in mode "queue" while frames may be longer than the plane's, and would be dropped.
    fn measure(&mut self, number: usize) {
        let slot = &self.plane.ports()[number];
        let mtu = self.plane.interface(number).map_or(0, |i| i.mtu as usize);
        let longest = self.plane.frame_bytes_max();
        let is_too_long = slot.mode == Mode::Queue && mtu + LAYER_2_BYTES > longest;
        if std::mem::replace(&mut self.links[number].is_too_long, is_too_long) || !is_too_long {
            return;
        }
        let error = io::Error::other(format!(
            "the MTU is {mtu} now, and this router was started for frames of up to {longest} bytes: frames bypass the \
             queue; restart the router"
        ));
        self.lose(number, &error);
    }

    /// Reports changes of a port's link: the name of its interface, and its carrier if it has one.
    fn tell_of_link(
        &mut self,
        number: usize,
        (from, worked): (String, Option<bool>),
        (to, works): (String, Option<bool>),
    ) {
        let port = || self.plane.ports()[number].name.clone();
        let carrier = match (worked, works) {
            (Some(false), Some(true)) => Some(true),
            (None | Some(true), Some(false)) => Some(false),
            _ => None,
        };
        if let Some(works) = carrier {
            let port = port();
            (self.event)(Event::Carrier { port, works });
        }
        if from != to {
            let port = port();
            if self.plane.ports()[number].mode != Mode::Queue {
                self.set_ownership(number, OwnershipWindow::NEVER);
            }
            (self.event)(Event::Renamed { port, from, to });
        }
    }

    /// Sets which frames of a port belong to the router, if its device is open.
    pub fn set_ownership(&mut self, number: usize, ownership: OwnershipWindow) {
        self.links[number].is_lent = self.plane.ports()[number].mode == Mode::Queue;
        if let Some(device) = &mut self.links[number].device {
            device.set_ownership(ownership);
        }
    }

    /// Whether a port has taken every frame of its ownership and sent every packet that it held.
    pub fn is_drained(&self, number: usize) -> bool {
        let device = self.links[number].device.as_ref();
        device.is_none_or(|device| device.tenure_is_over()) && self.plane.is_drained(number)
    }

    /// Reports the neighbours in use, as an event.
    pub fn tell_neighbours_in_use(&mut self) {
        let neighbours = self.plane.take_neighbours_in_use(clock::now());
        (self.event)(Event::InUse(neighbours));
    }

    /// Whether a port has its device.
    pub fn is_open(&self, number: usize) -> bool {
        self.links[number].device.is_some()
    }

    /// The state of each device, in the order of the ports.
    pub fn links(&mut self) -> Vec<LinkState> {
        self.links.iter_mut().map(Link::state).collect()
    }

    /// Stops the thread after this iteration.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// Runs on its own thread until [`Self::stop`].
    pub fn start(mut self) -> io::Result<(Handle, thread::JoinHandle<Worker>)> {
        let (commands, inbox) = mpsc::channel();
        let mut waiter = Waiter::new()?;
        let handle = Handle {
            commands,
            waker: waiter.waker(),
        };
        self.doorkeeper = DeviceOpener::start(handle.clone())?;
        let thread = thread::Builder::new()
            .name(FORWARDING.to_owned())
            .spawn(move || {
                if let Err(error) = clock::precise_sleeps() {
                    tracing::warn!(%error, "cannot enable precise timers");
                }
                if let Err(error) = clock::go_first() {
                    tracing::debug!(%error, "cannot raise the priority of the forwarding thread");
                }
                self.run(&inbox, &mut waiter);
                self
            })?;
        Ok((handle, thread))
    }

    fn run(&mut self, inbox: &mpsc::Receiver<Command>, waiter: &mut Waiter) {
        while !self.stop {
            let mut busy = false;
            for command in inbox.try_iter() {
                command(self);
                busy = true;
            }
            let began = clock::now();
            if let Some(age_max) = self.age_max {
                self.plane.set_oldest(began.before(age_max));
            }
            let shown = [self.keep_lease(began), self.beat(began)];
            busy |= self.receive();
            let now = clock::now();
            self.steer(now);
            let next = self.plane.step(now).map(|at| at.max(now + PACING_QUANTUM));
            let full = self.transmit();
            for request in self.plane.neighbour_requests() {
                (self.event)(Event::NeighbourRequest(request));
            }
            if self.plane.announce_exceptions() {
                (self.event)(Event::Exceptions);
            }
            if self.plane.announce_overlay() {
                (self.event)(Event::Copies);
            }
            let reopen = self.reopen(now);
            if busy {
                continue;
            }
            let full = full.then_some(now + DEVICE_FULL_RETRY);
            let gather = self.moderation.gather_until(now);
            let until = [next, full, reopen, gather].into_iter().chain(shown);
            let until = until.flatten().min();
            let devices = self.links.iter().filter_map(|l| l.device.as_ref());
            let devices = devices.filter(|_| gather.is_none());
            let waited = waiter.wait(devices.filter_map(|d| d.wait_on()), until);
            if let Err(error) = waited {
                tracing::error!(%error, "cannot wait for frames");
                thread::sleep(Duration::from_millis(10)); // never spin on a broken descriptor
            }
            self.moderation.woke(clock::now());
        }
        self.plane.shut_down();
        self.links.iter().for_each(|link| link.steering.end());
    }

    /// Sends ready packets; returns whether a device is full.
    fn transmit(&mut self) -> bool {
        let mut full = false;
        for number in 0..self.links.len() {
            let Some(device) = self.links[number].device.as_mut() else {
                self.plane.discard_outbox(number);
                continue;
            };
            match self.plane.flush(number, |frames, left| {
                device.transmit_offloaded(frames, left)
            }) {
                Ok(left) => full |= left,
                Err(error) => self.lose(number, &error),
            }
        }
        full
    }

    /// Closes a device that failed.
    fn lose(&mut self, number: usize, error: &io::Error) {
        let name = self.plane.ports()[number].name.clone();
        tracing::warn!(port = %name, %error, "port lost");
        let device = self.links[number].lose(clock::now());
        self.doorkeeper.close(device);
        self.plane.discard_outbox(number);
        (self.event)(Event::PortLost(name));
    }

    /// Records that the rules which took the frames of a port from the kernel have been removed.
    pub fn set_unprotected(&mut self, number: usize) {
        self.links[number].is_lent = false;
    }

    /// Starts to reopen lost devices; returns when to try the next one, if any is still lost.
    fn reopen(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for (number, link) in self.links.iter_mut().enumerate() {
            if link.retry_at().is_some_and(|at| at <= now) {
                link.try_later(now);
                let slot = &self.plane.ports()[number];
                // An interface that the router itself creates appears with its device.
                if !link.is_too_long && (self.plane.is_up(number) || slot.is_local()) {
                    self.doorkeeper.open(link, &slot.interface);
                }
            }
            next = next.into_iter().chain(link.retry_at()).min();
        }
        next
    }

    /// Handles the result of an attempt to open a link's device.
    fn opened(&mut self, link: u64, open: Opener, opened: io::Result<Box<dyn Device>>) {
        let mut device = opened
            .inspect_err(|error| tracing::debug!(%error, "cannot reopen the port's device yet"))
            .ok();
        let Some(number) = self.links.iter().position(|l| l.id == link) else {
            return self.doorkeeper.close(device); // the port was removed in the meantime
        };
        if self.links[number].is_too_long {
            self.doorkeeper.close(device.take());
        }
        let is_back = device.is_some();
        self.links[number].tried(open, device);
        self.learn_offloads(number);
        if is_back {
            let slot = &self.plane.ports()[number];
            let (port, interface) = (slot.name.clone(), slot.interface.clone());
            tracing::info!(port, interface, "port back");
            (self.event)(Event::PortBack { port, interface });
        }
    }
}

impl Handle {
    /// Makes the worker start an iteration now.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Runs `command` on the worker's thread between two iterations, and does not wait for it.
    pub fn post(&self, command: impl FnOnce(&mut Worker) + Send + 'static) -> Result<(), NoAnswer> {
        self.commands
            .send(Box::new(command))
            .map_err(|_| NoAnswer)?;
        self.waker.wake();
        Ok(())
    }

    /// Runs `command` on the worker's thread between two iterations, and waits for its result.
    pub fn call<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (answer, result) = mpsc::sync_channel(1);
        self.post(move |worker| {
            // A caller that has stopped waiting does not need the answer.
            let _ = answer.send(command(worker));
        })?;
        result.recv_timeout(CALL_TIME_MAX).map_err(|_| NoAnswer)
    }
}
