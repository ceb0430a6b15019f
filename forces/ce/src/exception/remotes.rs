//! The ports for which a CE acts, attached to a [`Control`]: learns the ports from the FEs, and handles their packets.
//!
//! ```text
//!  Control --packets--> [Remotes] --> frames, TAPs to make --> driver
//!          <--answers--            <-- frames of the CE's own kernel
//! ```
//!
//! The FE reports a port's MAC address, MTU, carrier and instance. The CE reads them after each association, after each
//! loss and return of a carrier, and then every ten seconds, because an interface may appear later, or be replaced.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_base::{Instant, Span};
use weir_lfb::named::Named;
use weir_model::{ElementPath, Value};
use weir_path::exception::is_of_neighbours;
use weir_protocol::wire::Id;
use weir_protocol::wire::header::Priority;
use weir_protocol::wire::message::PacketRedirect;
use weir_protocol::wire::redirect::Redirect;
use weir_wire::ethernet::{self, Mac};
use weir_wire::mac;
use weir_wire::routing::RoutingProtocol;

use super::remote::RemotePlan;
use super::{Answers, Outcome, RemotePort, Stats, to_port};
use crate::Control;
use crate::contract::{
    Answer, CeSubscription, Filter, LogEvent, Output, Refusal, Request, Ticket, WatchId,
};

/// Tickets of these requests have this bit set; tickets of the driver must not.
const OWN: u64 = 1 << 62;
/// Interval between reads of an FE's ports.
const READ_INTERVAL: Span = Span::from_secs(10);
/// MTUs that a TAP can have, in bytes: IPv4 needs 68 bytes (RFC 791).
const MTUS: std::ops::RangeInclusive<u64> = 68..=65_521;

/// A TAP device to be maintained by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapPlan {
    /// Name of the TAP device.
    pub interface: String,
    /// MAC address of the remote port.
    pub mac: Mac,
    /// MTU of the remote port, in bytes.
    pub mtu: u32,
    /// Whether the remote port is up and has a carrier.
    pub carrier: bool,
    /// Network namespace of the TAP device; `None`: the namespace of the CE.
    pub namespace: Option<String>,
    /// Addresses of the TAP device, with the networks of their links.
    pub addresses: Vec<IpNet>,
}

/// Work for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Create this TAP device, and keep it until the CE ends. Repeated even if nothing has changed.
    Tap(TapPlan),
    /// Hand this frame to the kernel, at the TAP device of this name.
    Frame(String, Vec<u8>),
    /// Report this error to the operator.
    Trouble(String),
}

/// The ports for which a CE acts. The driver passes every output of the [`Control`] to
/// [`handle_output`](Self::handle_output), and calls [`settle`](Self::settle) after every input.
#[derive(Debug)]
pub struct Remotes {
    fes: BTreeMap<Id, Fe>,
    answers: Answers,
    open: BTreeMap<Ticket, (Id, Asked)>,
    /// Watches of carriers.
    watches: BTreeMap<WatchId, Id>,
    effects: VecDeque<Effect>,
    last_ticket: u64,
}

/// Purpose of a request of this module.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Ports,
    Watch,
    Notices(WatchId),
}

/// The events of a port after which the CE reads the ports again.
const CARRIER_EVENTS: [&str; 2] = ["carrier_lost", "carrier_found"];

#[derive(Debug)]
struct Fe {
    name: String,
    plans: Vec<RemotePlan>,
    /// All ports of the FE, once known.
    ports: Vec<RemotePort>,
    /// Time of the next read of the ports; `None` while the FE is disconnected.
    due: Option<Instant>,
    /// Whether the carriers of its ports are watched. A watch outlives the association.
    is_watched: bool,
    /// The last error reported to the operator.
    trouble: Option<String>,
}

impl Remotes {
    /// For these ports of these FEs. `secret` keys the hashes over addresses, which senders must not be able to guess.
    pub fn new<'a>(
        plans: &[RemotePlan],
        fes: impl IntoIterator<Item = (Id, &'a str)>,
        secret: (u64, u64),
    ) -> Self {
        let fe = |(id, name): (Id, &str)| {
            let own = plans.iter().filter(|plan| plan.fe == name);
            let fe = Fe {
                name: name.to_owned(),
                plans: own.cloned().collect(),
                ports: Vec::new(),
                due: None,
                is_watched: false,
                trouble: None,
            };
            (id, fe)
        };
        let fes = fes.into_iter().map(fe);
        Self {
            fes: fes.filter(|(_, fe)| !fe.plans.is_empty()).collect(),
            answers: Answers::new(secret),
            open: BTreeMap::new(),
            watches: BTreeMap::new(),
            effects: VecDeque::new(),
            last_ticket: OWN,
        }
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        self.answers.stats()
    }

    /// Handles an output of the control element, and returns the output if it is for others.
    pub fn handle_output(
        &mut self,
        now: Instant,
        control: &mut Control,
        output: Output,
    ) -> Option<Output> {
        match output {
            Output::Redirected(fe, packets) => {
                self.redirected(now, control, fe, &packets);
                return None;
            }
            Output::Answer(ticket, answer) => match self.open.remove(&ticket) {
                Some((fe, asked)) => {
                    self.handle_answer(control, fe, asked, answer);
                    return None;
                }
                None => return Some(Output::Answer(ticket, answer)),
            },
            Output::Noticed(watch) if self.watches.contains_key(&watch) => {
                let fe = self.fes.get_mut(&self.watches[&watch]);
                if let Some(due) = fe.and_then(|fe| fe.due.as_mut()) {
                    *due = now;
                }
                return None;
            }
            // An FE that refuses a part of its desired state still has ports.
            Output::LogEvent(LogEvent::InSync(ref fe, _) | LogEvent::Refused(ref fe, _)) => {
                if let Some(fe) = self.named(fe) {
                    fe.due = Some(now);
                }
            }
            Output::LogEvent(LogEvent::Lost(ref fe, _)) => {
                if let Some(fe) = self.named(fe) {
                    (fe.due, fe.trouble) = (None, None);
                    fe.ports.clear();
                }
            }
            _ => {}
        }
        Some(output)
    }

    /// Handles a frame that the CE's own kernel sent at the TAP device of this name.
    pub fn handle_frame(
        &mut self,
        now: Instant,
        control: &mut Control,
        interface: &str,
        frame: Vec<u8>,
    ) {
        let is_it = |plan: &&RemotePlan| plan.interface.as_deref() == Some(interface);
        let mut all = self.fes.iter();
        let place = all.find_map(|(id, fe)| Some((*id, &fe.plans.iter().find(is_it)?.port)));
        let Some((fe, port)) = place else {
            return;
        };
        // The CE drops frames for a disconnected FE, as an unplugged cable would.
        let priority = priority_of(&frame);
        if let Some(port) = control.port(fe, port)
            && let Ok(packet) = to_port(port, frame)
        {
            send(now, control, fe, packet, priority);
        }
    }

    /// Sends the reads that are due at `now`.
    pub fn settle(&mut self, now: Instant, control: &mut Control) {
        let mut requests = Vec::new();
        for (id, fe) in &mut self.fes {
            if fe.due.is_none_or(|at| at > now) {
                continue;
            }
            fe.due = Some(now + READ_INTERVAL);
            let (of, class) = (fe.name.clone(), "ports".to_owned());
            requests.push((*id, Asked::Ports, Request::Read { fe: of, class }));
            let watches = self.watches.iter().filter(|(_, of)| *of == id);
            // A watch ends if nobody fetches its notices.
            requests.extend(
                watches.map(|(watch, _)| (*id, Asked::Notices(*watch), Request::Fetch(*watch))),
            );
            if !std::mem::replace(&mut fe.is_watched, true) {
                requests.extend(fe.watches().map(|request| (*id, Asked::Watch, request)));
            }
        }
        for (id, asked, request) in requests {
            self.last_ticket = (self.last_ticket + 1) | OWN;
            let ticket = Ticket(self.last_ticket);
            self.open.insert(ticket, (id, asked));
            control.request(now, ticket, request);
        }
    }

    /// Without an answer, the known ports stay as they are.
    fn handle_answer(
        &mut self,
        control: &Control,
        id: Id,
        asked: Asked,
        answer: Result<Answer, Refusal>,
    ) {
        match (asked, answer) {
            (Asked::Ports, Ok(Answer::Value(rows))) => self.learn(control, id, &rows),
            (Asked::Watch, Ok(Answer::Watching(watch))) => {
                self.watches.insert(watch, id);
            }
            (Asked::Watch, Err(_)) => self.watch_again(id),
            (Asked::Notices(watch), Err(_)) => {
                self.watches.remove(&watch);
                self.watch_again(id);
            }
            _ => {}
        }
    }

    /// Subscribes again with the next read of the ports.
    fn watch_again(&mut self, id: Id) {
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.is_watched = false;
        }
    }

    /// Latest time for the next call of [`settle`](Self::settle).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.fes.values().filter_map(|fe| fe.due).min()
    }

    /// Returns the next work for the driver.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn named(&mut self, name: &str) -> Option<&mut Fe> {
        self.fes.values_mut().find(|fe| fe.name == name)
    }

    fn redirected(
        &mut self,
        now: Instant,
        control: &mut Control,
        id: Id,
        packets: &PacketRedirect,
    ) {
        let fe = self.fes.get(&id);
        let (ports, plans) = match fe {
            Some(fe) => (&fe.ports[..], &fe.plans[..]),
            None => (&[][..], &[][..]), // no configured ports: the packets are counted
        };
        for packet in packets.redirects() {
            match self.answers.handle(packet, ports, now) {
                Outcome::Kernel { port, frame } => {
                    let is_it = |plan: &&RemotePlan| control.port(id, &plan.port) == Some(port);
                    let plan = plans.iter().find(is_it);
                    if let Some(interface) = plan.and_then(|plan| plan.interface.clone()) {
                        self.effects.push_back(Effect::Frame(interface, frame));
                    }
                }
                Outcome::Answer(answer) => {
                    send(now, control, id, answer, Priority::OTHER_REDIRECT);
                }
                Outcome::Dropped(_) => {} // counted
            }
        }
    }

    /// Learns the ports from rows of the class `ports`.
    fn learn(&mut self, control: &Control, id: Id, rows: &Value) {
        let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.due.is_some()) else {
            return; // the FE disconnected meanwhile
        };
        let found: Vec<_> = rows.rows().iter().filter_map(Found::read).collect();
        let port = |found: &Found<'_>| {
            let plan = fe.plans.iter().find(|plan| plan.port == found.name);
            let addresses = plan.map_or(&[][..], |plan| &plan.addresses);
            Some(RemotePort {
                instance: control.port(id, found.name)?,
                mac: found.mac,
                addresses: addresses.iter().map(IpNet::addr).collect::<Vec<IpAddr>>(),
                tap: plan.is_some_and(|plan| plan.interface.is_some()),
            })
        };
        fe.ports = found.iter().filter_map(port).collect();
        let mut missing = None;
        for plan in &fe.plans {
            let port = found.iter().find(|found| found.name == plan.port);
            match (port, &plan.interface) {
                (Some(port), Some(interface)) => self.effects.push_back(Effect::Tap(TapPlan {
                    interface: interface.clone(),
                    mac: port.mac,
                    mtu: port.mtu,
                    carrier: port.carrier,
                    namespace: plan.namespace.clone(),
                    addresses: plan.addresses.clone(),
                })),
                (Some(_), None) => {}
                (None, _) => {
                    missing = Some(format!(
                        "the FE `{}` has no port `{}` with an interface; correct [remote.{}]",
                        fe.name, plan.port, plan.name
                    ));
                }
            }
        }
        if missing != fe.trouble {
            fe.trouble = missing;
            self.effects.extend(fe.trouble.clone().map(Effect::Trouble));
        }
    }
}

impl Fe {
    /// Subscriptions to the carriers of the ports with a TAP.
    fn watches(&self) -> impl Iterator<Item = Request> {
        let plans = self.plans.iter().filter(|plan| plan.interface.is_some());
        plans.flat_map(|plan| {
            CARRIER_EVENTS.map(|event| {
                let path = ElementPath {
                    fe: plan.fe.clone(),
                    path: Named::Port.path(&plan.port).join(event),
                };
                let filter = Filter::default();
                Request::Watch(CeSubscription { path, filter })
            })
        })
    }
}

/// A port with an interface.
struct Found<'v> {
    name: &'v str,
    mac: Mac,
    mtu: u32,
    carrier: bool,
}

impl<'v> Found<'v> {
    fn read(row: &'v Value) -> Option<Self> {
        let mtu = row.whole("mtu").filter(|mtu| MTUS.contains(mtu))?;
        let mac = mac::read(row.text("mac")?).filter(|mac| !ethernet::is_group(*mac))?;
        Some(Self {
            name: row.text("port")?,
            mac,
            mtu: u32::try_from(mtu).ok()?,
            carrier: row.text("state") == Some("up"),
        })
    }
}

/// The priority of a frame of the CE's kernel.
fn priority_of(frame: &[u8]) -> Priority {
    if RoutingProtocol::of_frame(frame).is_some() || is_of_neighbours(frame) {
        Priority::URGENT_REDIRECT
    } else {
        Priority::OTHER_REDIRECT
    }
}

/// Sends a packet to an FE. Drops the packet if the queue has no room; any packet may be lost.
fn send(now: Instant, control: &mut Control, fe: Id, packet: Redirect, priority: Priority) {
    if let Ok(packets) = PacketRedirect::new(vec![packet]) {
        let _ = control.redirect(now, fe, packets, priority);
    }
}
