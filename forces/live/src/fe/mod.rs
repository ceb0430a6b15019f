//! A running router as a forwarding element (FE): one task connects the agent, the links to control elements (CEs) and
//! the router.
//!
//! ```text
//!  links: a task each --- message ----> +---------+ --- reads, changes ---> threads that may block ---> router
//!         one message at a time <------ | [Agent] | <-- answers -----------
//!  router: exceptions ----------------> +---------+ --- injected packets, forwarding on or off ------->
//! ```
//!
//! The forwarding thread never waits for a CE: requests to it run on other threads, and it answers them between two
//! poll iterations. A link passes its next message when the agent has taken the last message and has room for more, so
//! a flooding CE is slowed down by its own transport. Injected packets wait in a bounded queue, which drops the excess.
//!
//! The FE takes exceptions only while a master answers its probes: without a master the router must handle these
//! packets itself, and it does so when nobody takes them. The FE passes exceptions on when nothing else waits, so that
//! a flood of exceptions delays no control message.
//!
//! - [`links`]: opens, reads and closes links
//! - [`routes`]: a thread that writes the CE's routes to the kernel; [`kept`]: changes of these routes, and comparison
//!   with the kernel; [`targets`]: their targets, which may be next-hop objects; [`upkeep`]: when to reinstall missing
//!   routes
//! - [`journal`]: the log

mod journal;
mod kept;
mod links;
mod routes;
mod targets;
mod upkeep;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use weir_element::{ActiveState, Answer};
use weir_fe::{
    Agent, ChangeTicket, Effect, Forwarding, Notice, ReadTicket, RouteFailure, RouteTicket,
};
use weir_lfb::class::Block;
use weir_model::Value;
use weir_path::exception::{Exception, Injection, LEASE};
use weir_protocol::wire::Id;

use self::journal::Journal;
use self::links::{LinkEvent, Links};
use self::routes::Routes;
use crate::tml::identity::{left_s, warn_daily};
use crate::tml::{Pinned, Remote, Transport};
use weir_live::clock;
use weir_live::router::reader::Reader;
use weir_live::router::{INJECTIONS_MAX, Running};

/// Input queue capacity; senders block when it is full.
const INPUTS_MAX: usize = 256;
/// Maximum packets of the CE that wait for the router.
const INJECTIONS_WAITING_MAX: usize = 16 * INJECTIONS_MAX;

/// Longest time for the links to carry the last messages when the FE ends.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// An input of the task.
enum Input {
    Link(LinkEvent),
    Read(ReadTicket, Result<Value, String>),
    Changed(ChangeTicket, Answer),
    Routed(RouteTicket, Vec<RouteFailure>),
    /// Certificates of this FE and of its CEs. The answer lists the changes, one line each.
    Certificates(
        BTreeMap<Id, (Transport, Remote)>,
        oneshot::Sender<Vec<String>>,
    ),
    /// Enables forwarding, for an operator. The answer is the reason why the router did not forward.
    Enable(oneshot::Sender<Option<Forwarding>>),
    /// The inputs queued before the request for this turn have been handled.
    Turn,
    /// The injected packets that the router has not accepted yet.
    Injected(Vec<Injection>),
}

/// Sends requests to a running FE.
#[derive(Clone)]
pub struct Handle(mpsc::Sender<Input>);

impl Handle {
    /// Makes the router forward, whatever a CE has written, and even without any CE. Returns why the router did not
    /// forward; `None` if it did. Blocks.
    pub fn enable(&self) -> Result<Option<Forwarding>, String> {
        self.ask(Input::Enable)
    }

    /// Replaces the certificates of these CEs, and our own, for new links. Ends a link if its CE has kept none of its
    /// certificates. Returns the changes, one line each. Blocks.
    pub fn replace_certificates(
        &self,
        ces: BTreeMap<Id, (Transport, Remote)>,
    ) -> Result<Vec<String>, String> {
        self.ask(|answer| Input::Certificates(ces, answer))
    }

    fn ask<T>(&self, input: impl FnOnce(oneshot::Sender<T>) -> Input) -> Result<T, String> {
        let ended = || "the forwarding element has ended".to_owned();
        let (answer, answered) = oneshot::channel();
        let asked = self.0.blocking_send(input(answer));
        asked.map_err(|_| ended())?;
        answered.blocking_recv().map_err(|_| ended())
    }
}

/// The inputs of an FE that is not running yet.
pub struct Inputs(mpsc::Sender<Input>, mpsc::Receiver<Input>);

/// A handle, and its inputs for [`run`].
pub fn inputs() -> (Handle, Inputs) {
    let (sender, inputs) = mpsc::channel(INPUTS_MAX);
    (Handle(sender.clone()), Inputs(sender, inputs))
}

/// The parameters of an FE.
pub struct Params {
    /// Parameters of the agent.
    pub agent: weir_fe::Params,
    /// Transport and remote address of each CE.
    pub ces: BTreeMap<Id, (Transport, Remote)>,
}

impl Params {
    /// The certificates of this FE and of its CEs, for each CE that authenticates itself.
    pub fn pinned(&self) -> Vec<Pinned> {
        let remotes = self.ces.values();
        let pinned = remotes.filter_map(|(_, remote)| remote.common.security.pinned.clone());
        pinned.collect()
    }
}

/// Runs the FE until the router must stop, and returns the reason; or until `end` changes. In that case it first sends
/// each CE a teardown, so that no CE considers the FE dead.
pub async fn run(
    running: Arc<Running>,
    reader: Arc<Reader>,
    params: Params,
    Inputs(sender, mut inputs): Inputs,
    mut end: watch::Receiver<()>,
) -> String {
    let pinned = params.pinned();
    let of_readers = pinned.clone();
    running.set_certificate_left(Box::new(move || left_s(&of_readers)));
    tokio::spawn(warn_daily(pinned));
    let agent = match Agent::new(clock::now(), params.agent) {
        Ok(agent) => agent,
        Err(error) => return format!("`[fe]`: {error}"),
    };
    let routes = match Routes::start(sender.clone(), Arc::clone(&running)) {
        Ok(routes) => routes,
        Err(error) => return format!("cannot install routes of a CE: {error}"),
    };
    let forwards = agent.forwards();
    let mut driver = Driver {
        agent,
        in_force: running.in_force(),
        links: Links::new(params.ces, sender.clone()),
        routes,
        injections: Vec::new(),
        is_injecting: false,
        running,
        reader,
        sender,
        journal: Journal::default(),
    };
    driver.forward(forwards);
    let (takes, watched) = watch::channel(false);
    let (taken, mut exceptions) = mpsc::channel(1);
    tokio::spawn(take_exceptions(Arc::clone(&driver.running), watched, taken));
    loop {
        driver.carry_on();
        driver.attend(&takes);
        let now = clock::now();
        let due = driver.agent.poll_timeout();
        if due.is_some_and(|at| at <= now) {
            driver.agent.handle_timeout(now); // endless inputs must not delay timeouts
            continue;
        }
        let wait = due.map(|at| Duration::from_nanos(at.since(now).as_nanos()));
        let timer = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = end.changed() => {
                driver.leave().await;
                return "the associations have ended".to_owned();
            }
            input = inputs.recv() => match input {
                Some(input) => driver.hand_in(input),
                None => return "the input channel of the agent is closed".to_owned(),
            },
            () = timer => {}
            Some(exceptions) = exceptions.recv() => driver.agent.redirect(clock::now(), exceptions),
        }
    }
}

/// Passes on the router's exceptions while there is a master that takes them. Drops exceptions older than [`LEASE`],
/// which are useless to the master.
async fn take_exceptions(
    running: Arc<Running>,
    mut takes: watch::Receiver<bool>,
    to: mpsc::Sender<VecDeque<Exception>>,
) {
    while takes.wait_for(|takes| *takes).await.is_ok() {
        let router = Arc::clone(&running);
        let taken = tokio::task::spawn_blocking(move || router.take_exceptions()).await;
        let Ok(Ok(mut exceptions)) = taken else {
            return; // the router has ended
        };
        let now = clock::now();
        exceptions.retain(|exception| now.since(exception.at) < LEASE);
        if to.send(exceptions).await.is_err() {
            return;
        }
        tokio::select! {
            () = running.exceptions() => {}
            _ = takes.changed() => {}
        }
    }
}

struct Driver {
    agent: Agent,
    running: Arc<Running>,
    reader: Arc<Reader>,
    /// The running state that the agent knows.
    in_force: Arc<ActiveState>,
    links: Links,
    routes: Routes,
    injections: Vec<Injection>,
    is_injecting: bool,
    sender: mpsc::Sender<Input>,
    journal: Journal,
}

impl Driver {
    /// Ends all associations, and waits until the links have sent their last messages.
    async fn leave(&mut self) {
        let now = clock::now();
        self.agent.release(now);
        self.links.send(now, &mut self.agent, &self.running);
        let _ = tokio::time::timeout(LEAVE_MAX, self.links.leave()).await; // a CE must read to get its teardown
    }

    /// Allows exceptions to be taken only while the master answers probes.
    fn attend(&mut self, takes: &watch::Sender<bool>) {
        let session = self.agent.session();
        let (master, is_attentive) = (session.master(), session.has_attentive_master());
        let changed = takes.send_if_modified(|takes| {
            let before = std::mem::replace(takes, is_attentive);
            before != is_attentive
        });
        if changed && let Some(master) = master {
            self.journal.attention(master, is_attentive);
        }
    }

    fn hand_in(&mut self, input: Input) {
        let now = clock::now();
        self.follow_plan();
        match input {
            Input::Link(event) => {
                let ended = self.links.handle(now, event, &mut self.agent);
                if let Some((ce, why)) = ended {
                    self.journal.link_ended(ce, why);
                }
            }
            Input::Read(ticket, rows) => self.agent.handle_read(now, ticket, rows),
            Input::Changed(ticket, answer) => self.agent.handle_changed(now, ticket, answer),
            Input::Routed(ticket, failures) => self.agent.handle_routed(now, ticket, &failures),
            Input::Certificates(ces, answer) => {
                let lines = self.links.replace_certificates(now, &ces, &mut self.agent);
                let _ = answer.send(lines); // the requester may have given up
            }
            Input::Enable(answer) => {
                let before = self.agent.enable(now);
                let _ = answer.send(before); // the requester may have given up
            }
            Input::Turn => self.agent.handle_turn(now),
            Input::Injected(left) => {
                self.is_injecting = false;
                self.injections.splice(0..0, left);
                self.inject();
            }
        }
    }

    /// Reports a changed configuration to the agent, whoever changed it.
    fn follow_plan(&mut self) {
        let in_force = self.running.in_force();
        if !Arc::ptr_eq(&in_force, &self.in_force) {
            if in_force.plan != self.in_force.plan {
                self.agent.handle_plan(in_force.plan.clone());
            }
            self.in_force = in_force;
        }
    }

    /// Sends the agent's messages, and executes its effects.
    fn carry_on(&mut self) {
        loop {
            self.links
                .send(clock::now(), &mut self.agent, &self.running);
            let Some(effect) = self.agent.poll_effect() else {
                break;
            };
            self.carry_out(effect);
        }
        self.links.grant(&self.agent);
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Connect(ce) => self.links.open(ce),
            Effect::Disconnect(ce) => self.links.close(ce),
            Effect::Read(ticket, name) => {
                let reader = Arc::clone(&self.reader);
                self.work(move || Input::Read(ticket, read(&reader, name)));
            }
            Effect::Check(ticket, operations) => {
                let running = Arc::clone(&self.running);
                self.work(move || Input::Changed(ticket, running.check(operations)));
            }
            Effect::Change(ticket, operations) => {
                let running = Arc::clone(&self.running);
                self.work(move || Input::Changed(ticket, running.change(operations)));
            }
            Effect::Routes(ticket, changes, ports) => {
                self.routes.change(ticket, changes, self.interfaces(ports));
            }
            Effect::Sweep => self.routes.sweep(),
            Effect::Forward(on) => self.forward(on),
            Effect::Inject(packets) => {
                let room = INJECTIONS_WAITING_MAX.saturating_sub(self.injections.len());
                self.injections.extend(packets.into_iter().take(room));
                self.inject();
            }
            Effect::Turn => {
                let sender = self.sender.clone();
                tokio::spawn(async move { sender.send(Input::Turn).await }); // queued behind the waiting inputs
            }
            Effect::Notice(notice) => {
                if let Notice::Forwarding(why) = &notice {
                    let why = (!why.is_on()).then(|| why.to_string());
                    self.running.set_stopped(why);
                }
                self.journal.notice(clock::now(), &notice);
            }
        }
    }

    /// The interface of each port.
    fn interfaces(&self, ports: BTreeMap<u32, String>) -> BTreeMap<u32, String> {
        let plans = &self.running.in_force().plan.ports;
        let interface = |name: String| {
            let port = plans.iter().find(|port| port.name == name)?;
            Some(port.interface.clone())
        };
        let of_port = |(number, name)| Some((number, interface(name)?));
        ports.into_iter().filter_map(of_port).collect()
    }

    /// Executes blocking work on another thread.
    fn work(&self, work: impl FnOnce() -> Input + Send + 'static) {
        let sender = self.sender.clone();
        tokio::task::spawn_blocking(move || drop(sender.blocking_send(work())));
    }

    fn forward(&self, on: bool) {
        let running = Arc::clone(&self.running);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = running.set_forwarding(on) {
                tracing::error!(%error, on, "cannot switch forwarding on or off");
            }
        });
    }

    /// Passes the CE's packets to the router, one burst at a time.
    fn inject(&mut self) {
        if self.is_injecting || self.injections.is_empty() {
            return;
        }
        self.is_injecting = true;
        let running = Arc::clone(&self.running);
        let mut packets = std::mem::take(&mut self.injections);
        self.work(move || {
            let _ = running.inject(&mut packets); // the plane counts failures
            Input::Injected(packets)
        });
    }
}

fn read(reader: &Reader, name: &str) -> Result<Value, String> {
    let block = Block::find(name).ok_or_else(|| format!("there is no table {name}"))?;
    let query = block.query([]).map_err(|error| error.to_string())?;
    reader.read(block, &query)
}
