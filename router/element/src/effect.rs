//! Requests, effects, completions and events: plain values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_base::Instant;
use weir_layer::LayerPlan;
use weir_lfb::Plan;
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
    /// Apply a whole plan.
    Apply(Plan),
    /// Set and delete single components and ports, all of them or none. A named port is updated even if nothing
    /// changes: a discipline may treat the repeated setting of a value as a heartbeat.
    Change(Vec<Operation>),
    /// Check the same change without applying it: the answer lists the differences, or the reasons for a refusal.
    Check(Vec<Operation>),
    /// Give all transit back to the kernel, so that the router can end.
    Stop,
}

/// The message of a change that changes nothing.
pub const UNCHANGED: &str = "nothing to change";

/// The answer to a request: the changes and remarks, one line each; or the reasons for a refusal.
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
    /// The interface was renamed. The kernel forwards its frames until the router takes them again, because the rules
    /// that keep transit from the kernel match interface names.
    Renamed {
        /// The port, and the new name of its interface.
        place: Place,
        /// The old name.
        from: String,
    },
    /// The link has gained or lost its carrier.
    Carrier {
        /// Name of the port.
        port: String,
        /// Whether the link has a carrier.
        works: bool,
    },
    /// Kernel state was read again.
    Kernel {
        /// All kernel state that a router refuses or warns about.
        findings: Vec<Finding>,
        /// Interface index of the kernel's bridge that each interface is in; `None` in mode "routed".
        bridges: Option<BTreeMap<String, u32>>,
    },
}

/// A port, and its current interface.
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
    /// On the monotonic clock, by which the element waits.
    pub at: Instant,
    /// On the wall clock, by which the kernel stamps frames: nanoseconds since 1970.
    pub unix_nanos: u64,
}

/// Work on the machine. One [`Completion`], named below, answers each effect;
/// [`Completion::Failed`] may answer any effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read the facts on which the plan depends: the frame sizes of its interfaces, or all [`Facts`]. Answer: `Facts`.
    Survey {
        /// The plan.
        plan: Box<Plan>,
        /// Whether all facts are needed.
        all: bool,
    },
    /// Lock the interface, so that no other router uses it. A missing interface is locked when it appears.
    /// Answer: `Done`.
    Claim(Place),
    /// Open the device of a port and keep it for [`Effect::Launch`] or [`Effect::Exchange`]; a device that is down
    /// or missing is opened when it comes up. Answer: `Done`.
    Open(PortPlan, Mode),
    /// Read the kernel's tables for the first time. Answer: `Done`.
    ReadTables,
    /// Start the forwarding thread with this plan, the tables and the devices. Answer: `Done`.
    Launch(Box<Plan>, Limits),
    /// On the forwarding thread: list those of these ports that have their device. Answer: `Open`.
    ListOpen(Vec<String>),
    /// Make the kernel stop forwarding frames received at these interfaces, at all of them or none, from a moment in
    /// the near future. Answer: `Moment`.
    Take(Vec<Place>, Mode),
    /// On the forwarding thread: forward the frames of these ports from this moment on. Answer: `Done`.
    Begin(Vec<String>, Moment),
    /// The moment has passed: remove the kernel rule that compares times with it. Answer: `Done`.
    Settle(Vec<Place>),
    /// Make the kernel forward frames received at these interfaces again, from a moment in the near future.
    /// Interfaces that no longer exist need nothing. Answer: `Moment`.
    GiveBack(Vec<Place>),
    /// On the forwarding thread: forward the frames of these ports until this moment. Answer: `Done`.
    End(Vec<String>, Moment),
    /// On the forwarding thread: enqueue no more packets at these ports. Answer: `Done`.
    Close(Vec<String>),
    /// On the forwarding thread: have these ports sent all their queued packets, and (if `waiting` is true) does no
    /// packet wait for a neighbour's address? Answer: `Drained`.
    AskDrained {
        /// The ports.
        ports: Vec<String>,
        /// Whether to count packets that wait for a neighbour's address.
        waiting: bool,
    },
    /// Remove the rules of a port at once. Answer: `Done`.
    Unprotect(Place),
    /// On the forwarding thread, between two packets: remove ports, add ports with the devices that were opened
    /// for them, and change components of ports, the redirection to the control element, and network layers, in this
    /// order. Answer: `Done`.
    Exchange {
        /// Names of the ports to remove.
        gone: Vec<String>,
        /// Ports to add.
        added: Vec<PortPlan>,
        /// Ports to change.
        changed: Vec<PortPlan>,
        /// The redirection to the control element, if it changes.
        redirect: Option<Arc<RedirectPlan>>,
        /// The network layers, if one changes.
        layers: Option<Arc<Vec<LayerPlan>>>,
    },
    /// Release the locks of all interfaces except these, and close devices that were opened but not used.
    /// Answer: `Done`.
    Release {
        /// Interfaces whose locks are kept.
        kept: Vec<String>,
    },
}

/// The result of an effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// The effect succeeded.
    Done,
    /// The facts about the machine.
    Facts(Facts),
    /// The ports that have their device.
    Open(Vec<String>),
    /// When the router's forwarding begins or ends.
    Moment(Moment),
    /// Whether all queued packets have been sent.
    Drained(bool),
    /// The effect failed, with the reason.
    Failed(String),
}

/// Information for an operator's log, in addition to the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The plan is permitted, but this is probably not intended.
    Doubt(String),
    /// The kernel forwards the transit of ports instead of the router.
    KernelForwards {
        /// The ports, separated by commas.
        ports: String,
        /// Why.
        why: String,
    },
    /// The kernel forwards at all ports instead of the router, because of kernel state that weir does not follow.
    HandedBack {
        /// The kernel state, a sentence for each kind.
        why: Vec<String>,
    },
    /// That kernel state was removed or is permitted now: the router forwards again.
    TakenBack,
    /// Ports were closed with packets in their queues.
    NotDrained {
        /// The ports, separated by commas; `None` if the router stops.
        ports: Option<String>,
    },
    /// Ports were closed, and their transit could not be handed over to the kernel without loss.
    NotGivenBack {
        /// The ports, separated by commas; `None` if the router stops.
        ports: Option<String>,
        /// Why.
        why: String,
    },
    /// The rules of a port stay although the port was removed or its device lost.
    RulesStay {
        /// The port.
        port: String,
        /// Whether the device was lost; then the rules are removed when the device comes back.
        is_lost: bool,
        /// Why.
        why: String,
    },
    /// An interface was renamed.
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
        /// Whether the link has a carrier.
        works: bool,
    },
}

/// The active state of the router.
#[derive(Clone, Debug, PartialEq)]
pub struct ActiveState {
    /// The plan.
    pub plan: Plan,
    /// The interface of each port whose transit the router has taken from the kernel.
    pub taken: BTreeMap<String, String>,
    /// Limits that cannot change while the router runs.
    pub limits: Limits,
    /// Why the kernel forwards at all ports, a sentence for each kind of kernel state; empty while the router forwards.
    pub handed_back: Vec<String>,
    /// Current names of renamed interfaces, by port: they differ from the plan.
    pub renamed: BTreeMap<String, String>,
}

impl ActiveState {
    /// The current name of a port's interface.
    pub fn interface<'a>(&'a self, port: &'a PortPlan) -> &'a str {
        self.renamed.get(&port.name).unwrap_or(&port.interface)
    }
}

/// An output of the element; the order of outputs matters.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// The caller carries it out and reports its completion; the next effect follows only then.
    Effect(Effect),
    /// The answer to a request.
    Answer(Ticket, Answer),
    /// The caller logs it.
    Notice(Notice),
    /// The caller publishes the new active state.
    ActiveState(Arc<ActiveState>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.port, self.interface)
    }
}
