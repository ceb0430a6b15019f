//! Requests, effects, completions and events: plain values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_base::Instant;
use weir_lfb::Plan;
use weir_lfb::fpf::FpfPlan;
use weir_lfb::port::PortPlan;
use weir_lfb::redirect::RedirectPlan;
use weir_model::{Fault, Operation};
use weir_path::plane::Mode;

use crate::admission::{Facts, Limits};
use crate::kernel::Finding;

/// The number of a request, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// A request to the element.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Start with a plan that was admitted by these facts.
    Start(Plan, Facts),
    /// Put a whole plan in force.
    Apply(Plan),
    /// Set and delete single components and ports, all of them or none. A port that is named hears of it also if
    /// nothing changes: a discipline may take a value that is set again as a sign of life.
    Change(Vec<Operation>),
    /// Check the same without doing it: the answer is what it would change, or why it would be refused.
    Check(Vec<Operation>),
    /// Give everything back, so that the router can end.
    Stop,
}

/// The message of a change that asks for what is in force already.
pub const UNCHANGED: &str = "nothing to change";

/// The answer to a request: the changes and remarks, a line each; or the reasons for a refusal.
pub type Answer = Result<Vec<String>, Vec<Fault>>;

/// An event of a port's device, or of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device failed and is closed.
    Lost {
        /// Name of the port.
        port: String,
    },
    /// The device is open again.
    Back(Place),
    /// The interface has another name. Its frames are the kernel's until they are taken again, because rules
    /// that keep transit from the kernel go by names.
    Renamed {
        /// The port, and the new name of its interface.
        place: Place,
        /// The old name.
        from: String,
    },
    /// The link works now, or no more.
    Carrier {
        /// Name of the port.
        port: String,
        /// Whether it works.
        works: bool,
    },
    /// Kernel state was read again.
    Kernel {
        /// Everything that a router refuses or warns of.
        findings: Vec<Finding>,
        /// The kernel's bridge that each interface is in; none in mode "routed".
        bridges: Option<BTreeMap<String, u32>>,
    },
}

/// A port, and the interface that it has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the port.
    pub port: String,
    /// Name of the interface.
    pub interface: String,
}

/// An instant by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the monotonic clock, by which the element waits.
    pub at: Instant,
    /// By the wall clock, by which the kernel stamps frames: nanoseconds since 1970.
    pub unix_nanos: u64,
}

/// Work on the machine. Each effect is answered by one [`Completion`], named below;
/// [`Completion::Failed`] answers any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read the facts on which the plan depends: the frame sizes of its interfaces, or all [`Facts`]. Answer: `Facts`.
    Survey {
        /// The plan.
        plan: Plan,
        /// Whether all facts are needed.
        all: bool,
    },
    /// Claim the interface, so that no other router uses it. One that is not there is claimed when it comes.
    /// Answer: `Done`.
    Claim(Place),
    /// Open the device of a port and keep it for [`Effect::Launch`] or [`Effect::Exchange`]; one that is down
    /// or missing is opened when it comes. Answer: `Done`.
    Open(PortPlan, Mode),
    /// Read the kernel's tables for the first time. Answer: `Done`.
    ReadTables,
    /// Start the forwarding thread with this plan, the tables and the devices. Answer: `Done`.
    Launch(Plan, Limits),
    /// On the forwarding thread: which of these ports have their device? Answer: `Open`.
    ListOpen(Vec<String>),
    /// From a moment on that lies ahead the kernel forwards no more what comes in at these interfaces, all or
    /// none of them. Answer: `Moment`.
    Take(Vec<Place>, Mode),
    /// On the forwarding thread: frames of these ports are the router's from this moment on. Answer: `Done`.
    Begin(Vec<String>, Moment),
    /// The moment has come: forget the rule that named it. Answer: `Done`.
    Settle(Vec<Place>),
    /// From a moment on that lies ahead the kernel forwards again what comes in at these interfaces. Those that
    /// are not there any more need nothing. Answer: `Moment`.
    GiveBack(Vec<Place>),
    /// On the forwarding thread: frames of these ports are the router's until this moment. Answer: `Done`.
    End(Vec<String>, Moment),
    /// On the forwarding thread: queue nothing more at these ports. Answer: `Done`.
    Close(Vec<String>),
    /// On the forwarding thread: have these ports sent what they held, and (if `waiting` is true) does no packet
    /// wait for a neighbour's address? Answer: `Drained`.
    AskDrained {
        /// The ports.
        ports: Vec<String>,
        /// Whether packets that wait for an address count.
        waiting: bool,
    },
    /// Remove the rules of a port at once. Answer: `Done`.
    Unprotect(Place),
    /// On the forwarding thread, between two packets: remove ports, add ports with the devices that were opened
    /// for them, and change components of ports, what goes to the control element, and FPF, in this order. Answer:
    /// `Done`.
    Exchange {
        /// Names of those that are removed.
        gone: Vec<String>,
        /// Those that are added.
        added: Vec<PortPlan>,
        /// Those that change.
        changed: Vec<PortPlan>,
        /// The packets that go to the control element, if that changes.
        redirect: Option<Arc<RedirectPlan>>,
        /// Flexible packet forwarding, if that changes.
        fpf: Option<Arc<FpfPlan>>,
    },
    /// Give back the claims of all interfaces but these, and close devices that were opened and not used.
    /// Answer: `Done`.
    Release {
        /// Interfaces whose claims are kept.
        kept: Vec<String>,
    },
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// It is done.
    Done,
    /// The facts about the machine.
    Facts(Facts),
    /// The ports that have their device.
    Open(Vec<String>),
    /// When it begins or ends.
    Moment(Moment),
    /// Whether everything has been sent.
    Drained(bool),
    /// It could not be done, and why.
    Failed(String),
}

/// Something that an operator should know beside the answers, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The plan is permitted, but this is probably not meant.
    Doubt(String),
    /// Transit at a port is not the router's.
    KernelForwards {
        /// The ports, separated by commas.
        ports: String,
        /// Why.
        why: String,
    },
    /// The kernel forwards at all ports, because of kernel state that weir does not follow.
    HandedBack {
        /// The state, a sentence for each kind.
        why: Vec<String>,
    },
    /// That state is gone or permitted: the router forwards again.
    TakenBack,
    /// Ports were closed with packets in their queues.
    NotDrained {
        /// The ports, separated by commas; none if the router stops.
        ports: Option<String>,
    },
    /// Ports were closed, and it was not possible to hand their transit over without loss.
    NotGivenBack {
        /// The ports, separated by commas; none if the router stops.
        ports: Option<String>,
        /// Why.
        why: String,
    },
    /// The rules of a port stay although it is removed or lost.
    RulesStay {
        /// The port.
        port: String,
        /// Whether they go when its device comes back.
        is_lost: bool,
        /// Why.
        why: String,
    },
    /// An interface has another name.
    Renamed {
        /// The port, and the new name.
        place: Place,
        /// The old name.
        from: String,
    },
    /// A link works now, or no more.
    Carrier {
        /// Name of the port.
        port: String,
        /// Whether it works.
        works: bool,
    },
}

/// The state in force.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// The plan.
    pub plan: Plan,
    /// The interface of each port whose transit is taken from the kernel.
    pub taken: BTreeMap<String, String>,
    /// Limits that cannot change while the router runs.
    pub limits: Limits,
    /// Why the kernel forwards at all ports, a sentence for each kind of kernel state; empty while the router forwards.
    pub handed_back: Vec<String>,
    /// The interfaces of ports that have another name than in the plan.
    pub renamed: BTreeMap<String, String>,
}

impl InForce {
    /// The interface that a port has now.
    pub fn interface<'a>(&'a self, port: &'a PortPlan) -> &'a str {
        self.renamed.get(&port.name).unwrap_or(&port.interface)
    }
}

/// An output of the element, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// To be carried out and completed before the next effect is given.
    Effect(Effect),
    /// The answer to a request.
    Answer(Ticket, Answer),
    /// To be logged.
    Notice(Notice),
    /// The new state in force, to be published.
    InForce(Arc<InForce>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.port, self.interface)
    }
}
