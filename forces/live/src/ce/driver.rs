//! The task that owns a control element.
//!
//! ```text
//!   listeners --accept--> links, a reading task each --+
//!   Handle --requests----------------------------------+--> inputs --> [Control] --> links, answers, log
//!   TAP devices --frames-------------------------------+                  |
//!   store, a thread --confirmations--------------------+                  |
//!                  <---------------------------- changes -----------------+
//! ```
//!
//! Every queue is bounded. While the driver has not handled a link's messages, it does not read the link, and the peer
//! runs out of credit.

mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc as threads;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use weir_base::Instant;
use weir_ce::Control;
use weir_ce::contract::{Answer, FeConfig, Output, Refusal, Request, Ticket};
use weir_ce::control::{FES, NETWORK, unread};
use weir_ce::controller::{Bridge, ControllerPlan, DeviceRequest};
use weir_ce::exception::remote::RemotePlan;
use weir_ce::exception::remotes::{Effect, Remotes};
use weir_ce::explain::{Destination, unanswered};
use weir_ce::network::{Keys, PathService};
use weir_ce::router::RouterPlan;
use weir_model::{Class, RouteExplanation, Value};
use weir_network::NetworkPlan;
use weir_protocol::session::ce::LinkId;
use weir_protocol::wire::Id;

use super::input::Input;
use super::keeper::ToKeep;
use super::store::Store;
use super::suites::Suites;
use super::taps::Taps;
use super::{device, journal, keeper};
use crate::snmp::Target;
use crate::tml::{Faults, Incoming, Link, Listener, Outgoing, Pinned, Transport};
use weir_live::{clock, kept_files};

pub use self::tables::TABLES;

/// Input queue capacity of the control element.
const INPUTS_MAX: usize = 256;
/// Timeout for an answer; every request ends sooner.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Maximum FEs that one request reads at a time.
const AT_ONCE: usize = 64;

/// Longest time for the links to carry the last messages when the control element ends.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// A listener of the CE, with its transport.
pub type Listening = (Transport, Listener);

/// Sends requests to a running control element.
#[derive(Clone, Debug)]
pub struct Handle {
    inputs: mpsc::Sender<Input>,
}

impl Handle {
    /// Sends a request, and waits for the answer.
    pub async fn ask(&self, request: Request) -> Result<Answer, Refusal> {
        let (answer, answered) = oneshot::channel();
        let sent = self.inputs.send(Input::Request(request, answer)).await;
        sent.map_err(|_| ended())?;
        let answer = tokio::time::timeout(ANSWER_MAX, answered).await;
        answer.map_err(|_| ended())?.map_err(|_| ended())?
    }

    /// Replaces the FEs that may associate, ends the associations of `ended`, and replaces the network. The network
    /// must have been checked.
    pub async fn replace_members(
        &self,
        members: Vec<FeConfig>,
        ended: BTreeSet<Id>,
        network: Option<NetworkPlan>,
    ) -> Result<(), Refusal> {
        let input = Input::Members(members, ended, network);
        let sent = self.inputs.send(input).await;
        sent.map_err(|_| self::ended())
    }

    /// Ends the association and all links of an FE, which must authenticate again.
    pub async fn expel(&self, fe: Id) -> Result<(), Refusal> {
        let sent = self.inputs.send(Input::Expel(fe)).await;
        sent.map_err(|_| ended())
    }

    /// The rows of a table of the CE.
    pub async fn table(&self, class: &'static Class) -> Result<Value, Refusal> {
        if class.id == NETWORK.id {
            return self.network().await;
        }
        self.own_table(class).await
    }

    async fn own_table(&self, class: &'static Class) -> Result<Value, Refusal> {
        let (answer, answered) = oneshot::channel();
        let sent = self.inputs.send(Input::Table(class, answer)).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())
    }

    /// The rows of the table `network`, each read from its FE.
    async fn network(&self) -> Result<Value, Refusal> {
        let answers = self.ask_each(|fe| Request::Network(fe, None)).await?;
        let rows = answers.into_iter().filter_map(|(fe, answer)| match answer {
            Ok(Answer::Value(row)) => Some(row),
            Ok(_) => None,
            Err(refusal) => Some(unread(&fe, &refusal.to_string())),
        });
        Ok(Value::List(rows.collect()))
    }

    /// Explains whether packets to a destination leave an FE, or each FE.
    pub async fn explain(
        &self,
        destination: Destination,
        fe: Option<String>,
    ) -> Result<Vec<RouteExplanation>, Refusal> {
        let request = |fe| Request::Explain(fe, destination, None);
        let answers = match fe {
            Some(fe) => vec![(fe.clone(), Ok(self.ask(request(fe)).await?))],
            None => self.ask_each(request).await?,
        };
        let explained = answers.into_iter().filter_map(|(fe, answer)| match answer {
            Ok(Answer::Explained(explanation)) => Some(explanation),
            Ok(_) => None,
            Err(refusal) => Some(unanswered(&fe, destination, refusal.to_string())),
        });
        Ok(explained.collect())
    }

    /// Sends a request about each FE, several at a time. Returns the names of the FEs, in order, each with its answer.
    async fn ask_each(
        &self,
        request: impl Fn(String) -> Request,
    ) -> Result<Vec<(String, Result<Answer, Refusal>)>, Refusal> {
        let fes = self.own_table(&FES).await?;
        let names = fes.rows().iter().filter_map(|row| row.text("fe"));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        let mut answers = Vec::with_capacity(names.len());
        for names in names.chunks(AT_ONCE) {
            let tasks = names.iter().map(|name| {
                let (handle, request) = (self.clone(), request(name.clone()));
                (name, tokio::spawn(async move { handle.ask(request).await }))
            });
            for (name, task) in tasks.collect::<Vec<_>>() {
                answers.push((name.clone(), task.await.map_err(|_| ended())?));
            }
        }
        Ok(answers)
    }
}

fn ended() -> Refusal {
    Refusal::Silent("the control element has ended".to_owned())
}

/// A control element that is ready to run.
#[derive(Debug)]
pub struct Driver {
    control: Control,
    inputs: mpsc::Receiver<Input>,
    sender: mpsc::Sender<Input>,
    /// The controllers.
    bridge: Bridge,
    /// Devices that are not weir, each with a task that samples it.
    devices: BTreeMap<Arc<str>, mpsc::Sender<DeviceRequest>>,
    /// Ports of FEs for which the CE acts.
    remotes: Remotes,
    /// The network and its paths.
    paths: PathService,
    taps: Taps,
    /// Routing suites that route for FEs.
    suites: Suites,
    links: BTreeMap<LinkId, Arc<Outgoing>>,
    /// Fault counters for the links of all listeners.
    faults: Arc<Faults>,
    /// Certificates of the CE and of its FEs.
    pinned: Option<Pinned>,
    answers: BTreeMap<Ticket, oneshot::Sender<Result<Answer, Refusal>>>,
    store: Arc<Store>,
    /// Changes for the store.
    changes: threads::Sender<ToKeep>,
    tasks: JoinSet<()>,
    next: u64,
}

impl Driver {
    /// Creates a control element with its store, and the handle for requests; `faults` are the counters of its
    /// listeners. Must be called within a runtime.
    pub fn new(
        control: Control,
        store: Arc<Store>,
        faults: Arc<Faults>,
    ) -> std::io::Result<(Self, Handle)> {
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let handle = Handle {
            inputs: sender.clone(),
        };
        let driver = Self {
            control,
            inputs,
            changes: keeper::start(Arc::clone(&store), sender.clone())?,
            store,
            sender,
            bridge: Bridge::new(clock::now(), &[]),
            devices: BTreeMap::new(),
            remotes: Remotes::new(&[], [], (0, 0)),
            paths: PathService::default(),
            taps: Taps::default(),
            suites: Suites::default(),
            links: BTreeMap::new(),
            faults,
            pinned: None,
            answers: BTreeMap::new(),
            tasks: JoinSet::new(),
            next: 0,
        };
        Ok((driver, handle))
    }

    /// Adds controllers, and the devices that they sample. Must be called within a runtime.
    pub fn with_controllers(
        mut self,
        controllers: &[ControllerPlan],
        devices: Vec<(String, Target)>,
    ) -> Self {
        self.bridge = Bridge::new(clock::now(), controllers);
        for (name, target) in devices {
            let (requests, wanted) = mpsc::channel(1); // a controller has one request in progress
            self.tasks
                .spawn(device::serve(target, wanted, self.sender.clone()));
            self.devices.insert(name.into(), requests);
        }
        self
    }

    /// Adds the certificates, to report their validity.
    pub fn with_certificates(mut self, pinned: Option<Pinned>) -> Self {
        self.pinned = pinned;
        self
    }

    /// Joins several control elements, which share their store. Must be called within a runtime.
    pub fn with_cluster(mut self, cluster: super::Cluster) -> std::io::Result<Self> {
        self.control.share(clock::now(), cluster.hold());
        cluster.start(self.sender.clone())?;
        Ok(self)
    }

    /// Adds routing suites, which route for FEs at `remotes`. Must be called within a runtime.
    pub fn with_routers(
        mut self,
        routers: &[RouterPlan],
        remotes: &[RemotePlan],
    ) -> std::io::Result<Self> {
        let ports = |router: &RouterPlan| {
            let own = remotes.iter().filter(|remote| remote.fe == router.fe);
            let port =
                |remote: &RemotePlan| Some((remote.interface.clone()?, (*remote.port).into()));
            own.filter_map(port).collect()
        };
        for router in routers {
            self.control.expect_routes(&router.fe);
        }
        self.suites = Suites::start(routers.iter().map(|r| (r.clone(), ports(r))))?;
        let mut kept = kept_files::take()?;
        kept.retain(|name, _| {
            let is_used = remotes
                .iter()
                .any(|remote| remote.interface.as_ref() == Some(name));
            is_used || kept_files::forget(name).is_err()
        });
        self.taps = Taps::new(kept);
        Ok(self)
    }

    /// Adds ports for which the CE acts, at FEs with these IDs and names.
    pub fn with_remotes<'a>(
        mut self,
        remotes: &[RemotePlan],
        fes: impl IntoIterator<Item = (Id, &'a str)>,
    ) -> Self {
        let secret = || RandomState::new().build_hasher().finish();
        self.remotes = Remotes::new(remotes, fes, (secret(), secret()));
        self
    }

    /// Adds a checked network, and the path requests from the store.
    pub fn with_network(mut self, plan: NetworkPlan, kept: BTreeMap<u64, Keys>) -> Self {
        self.replace_network(clock::now(), Some(plan), kept);
        self
    }

    fn replace_network(
        &mut self,
        now: Instant,
        plan: Option<NetworkPlan>,
        kept: BTreeMap<u64, Keys>,
    ) {
        let replaced = self.paths.replace(now, plan, kept, &mut self.control);
        journal::network(replaced);
    }

    /// Runs until `end` completes, or until a listener fails; then it returns the reason. At the end it sends each FE a
    /// teardown, so that no FE considers the CE dead.
    pub async fn run(
        mut self,
        listeners: Vec<Listening>,
        end: impl Future<Output = ()>,
    ) -> Result<(), String> {
        tokio::pin!(end);
        for (transport, listener) in listeners {
            self.tasks
                .spawn(accept(transport, listener, self.sender.clone()));
        }
        loop {
            self.settle();
            let timeouts = [
                self.control.poll_timeout(),
                self.bridge.poll_timeout(),
                self.remotes.poll_timeout(),
                self.paths.poll_timeout(),
            ];
            let due = timeouts.into_iter().flatten().min();
            if due.is_some_and(|at| at <= clock::now()) {
                // Endless inputs must not delay timeouts. Answers that have arrived come before their deadlines.
                for _ in 0..self.inputs.len() {
                    match self.inputs.try_recv() {
                        Ok(Input::Deaf(why)) => return Err(why),
                        Ok(input) => self.handle(input),
                        Err(_) => break,
                    }
                }
                self.control.handle_timeout(clock::now());
                self.settle();
            }
            let wait = due.map(clock::until);
            let timer = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut end => {
                    self.leave().await;
                    return Ok(());
                }
                input = self.inputs.recv() => match input {
                    Some(Input::Deaf(why)) => return Err(why),
                    Some(input) => self.handle(input),
                    None => return Err("the input channel of the control element is closed".to_owned()),
                },
                () = self.suites.changed() => {
                    for news in self.suites.take() {
                        let now = clock::now();
                        if news.is_all || !news.routes.is_empty() {
                            self.control.learn(now, news.fe, news.routes, news.is_all);
                        }
                        if !news.shifts.is_empty() {
                            self.control.shift(now, news.fe, news.shifts);
                        }
                        if news.is_complete {
                            self.control.complete_routes(now, news.fe);
                        }
                    }
                }
                () = timer => {}
                Some(_) = self.tasks.join_next() => {} // a task of a link has ended
            }
        }
    }

    /// Ends all associations, and waits until the links have sent their last messages.
    async fn leave(&mut self) {
        let links: Vec<_> = self.links.values().map(|link| link.ending()).collect();
        let now = clock::now();
        self.control.leave(now);
        while let Some(transmit) = self.control.poll_transmit(now) {
            self.send(transmit.link, transmit.message);
        }
        self.links.clear(); // including links without an association
        let ended = async {
            for link in links {
                link.await;
            }
        };
        let _ = tokio::time::timeout(LEAVE_MAX, ended).await; // a peer that does not read misses its teardown
        self.store.leave();
    }

    fn handle(&mut self, input: Input) {
        let now = clock::now();
        match input {
            Input::Request(request, answer) => {
                let ticket = Ticket(self.number());
                self.answers.insert(ticket, answer);
                match request {
                    Request::Path(command) => self.paths.request(now, ticket, command),
                    request => {
                        let request = self.with_suite(request);
                        self.control.request(now, ticket, request);
                    }
                }
            }
            Input::Table(class, answer) => {
                let _ = answer.send(self.table(now, class)); // the requester may have given up
            }
            Input::Members(members, ended, network) => {
                self.control.replace_members(now, members, &ended);
                self.replace_network(now, network, BTreeMap::new());
            }
            Input::Expel(fe) => self.control.expel(now, fe),
            Input::Opened(transport, link) => self.open(now, transport, link),
            Input::Message(link, bytes) => self.control.handle_message(now, link, &bytes),
            Input::Ended(link) => {
                if self.links.remove(&link).is_some() {
                    self.control.handle_disconnected(now, link);
                }
            }
            Input::Writable(link) => self.control.handle_writable(link, true),
            Input::Stored(ticket, done) => {
                if !self.paths.handle_stored(ticket, &done) {
                    self.control.handle_stored(now, ticket, done);
                }
            }
            #[cfg(feature = "etcd")]
            Input::Leads(until) => self.control.lead(now, until),
            #[cfg(feature = "etcd")]
            Input::Follows(leader) => self.control.follow(now, leader),
            #[cfg(feature = "etcd")]
            Input::Shared {
                changes,
                revoked,
                is_all,
            } => {
                self.control.replace_kept(changes, is_all);
                if let Some(pinned) = &self.pinned {
                    let owners = || BTreeSet::from_iter(pinned.peers.owners().into_values());
                    let before = owners();
                    pinned.peers.revoke(revoked);
                    let gone = &before - &owners();
                    gone.into_iter().for_each(|fe| self.control.expel(now, fe));
                }
            }
            Input::Sampled(id, samples) => self.bridge.handle_device(now, id, samples),
            Input::Frame(interface, frame) => {
                self.remotes
                    .handle_frame(now, &mut self.control, &interface, frame);
            }
            Input::Deaf(_) => {} // handled by the caller
        }
    }

    /// Adds to a request what the routing suite of its FE has.
    fn with_suite(&self, request: Request) -> Request {
        match request {
            Request::Network(fe, _) => {
                let suite = self.suites.report(&fe);
                Request::Network(fe, suite)
            }
            Request::Explain(fe, destination, _) => {
                let suite = self.suites.view(&fe, destination);
                Request::Explain(fe, destination, suite)
            }
            other => other,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn open(&mut self, now: Instant, transport: Transport, link: Link) {
        let id = LinkId(self.number());
        let peer = format!("{} {}", transport.word(), link.peer);
        if let (Some(proof), Some(pinned)) = (link.proved.zip(link.pin), &self.pinned)
            && !pinned.peers.has(proof)
        {
            tracing::warn!(%peer, "refused: its certificate was revoked meanwhile");
            return;
        }
        if !self.control.handle_connected(now, id, link.proved, &peer) {
            tracing::warn!(%peer, "refused: too many links");
            return; // dropping the link closes it
        }
        self.links.insert(id, Arc::new(link.outgoing));
        self.tasks
            .spawn(read(id, link.incoming, self.sender.clone()));
    }

    /// Executes everything that the control element, its controllers and its services have to do.
    fn settle(&mut self) {
        let now = clock::now();
        loop {
            self.bridge.settle(now, &mut self.control);
            self.remotes.settle(now, &mut self.control);
            self.paths.settle(now, &mut self.control);
            // The last message of a link must be sent before the output that closes the link.
            if let Some(transmit) = self.control.poll_transmit(now) {
                self.send(transmit.link, transmit.message);
            } else if let Some(output) = self.control.poll_output() {
                let output = self.bridge.handle_output(now, output);
                let output = output.and_then(|output| self.paths.handle_output(now, output));
                let output = output
                    .and_then(|output| self.remotes.handle_output(now, &mut self.control, output));
                if let Some(output) = output {
                    self.carry_out(output);
                }
            } else if let Some((ticket, answer)) = self.paths.poll_answer() {
                self.carry_out(Output::Answer(ticket, answer));
            } else if let Some((ticket, record)) = self.paths.poll_store() {
                let _ = self.changes.send(ToKeep::Path(ticket, record)); // as below
            } else if let Some(effect) = self.remotes.poll_effect() {
                self.act(effect);
            } else if let Some(request) = self.bridge.poll_device() {
                self.sample(now, request);
            } else {
                break;
            }
        }
        while let Some(note) = self.bridge.poll_note() {
            let (controller, element) = (&note.controller, &note.element);
            tracing::warn!(controller, %element, why = note.why, "controller error");
        }
        while let Some(note) = self.paths.poll_note() {
            journal::path(&note);
        }
    }

    /// Passes a request to the task of its device.
    fn sample(&mut self, now: Instant, request: DeviceRequest) {
        let id = request.id;
        let sent = match self.devices.get(&request.device) {
            Some(device) => device.try_send(request).is_ok(),
            None => false,
        };
        if !sent {
            let why = "another controller is sampling this device".to_owned();
            self.bridge.handle_device(now, id, Err(why));
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Close(link) => drop(self.links.remove(&link)), // closes after sending its queue
            Output::Answer(ticket, answer) => {
                if let Some(waits) = self.answers.remove(&ticket) {
                    let _ = waits.send(answer); // the requester may have given up
                }
            }
            Output::Store(ticket, changes) => {
                // A store thread that has ended sends no answers; the log contains its end.
                let _ = self.changes.send(ToKeep::Records(ticket, changes));
            }
            Output::Noticed(_) => {}     // readers fetch
            Output::Redirected(..) => {} // already handled by `remotes`
            Output::LogEvent(journal) => journal::element(&journal),
        }
    }

    /// Executes an effect of acting for a port.
    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Tap(plan) => {
                if let Err(error) = self.taps.put(plan, &self.sender) {
                    tracing::error!(%error, "the CE cannot act for a port");
                }
            }
            Effect::Frame(interface, frame) => self.taps.send(&interface, &frame),
            Effect::Trouble(why) => tracing::warn!("{why}"),
        }
    }

    fn send(&mut self, link: LinkId, message: Vec<u8>) {
        let Some(outgoing) = self.links.get(&link) else {
            return;
        };
        outgoing.send(message);
        if !outgoing.has_room() {
            self.control.handle_writable(link, false);
            let (outgoing, inputs) = (Arc::clone(outgoing), self.sender.clone());
            self.tasks.spawn(async move {
                outgoing.writable().await;
                drop(outgoing);
                let _ = inputs.send(Input::Writable(link)).await; // the CE may have ended
            });
        }
    }
}

async fn accept(transport: Transport, mut listener: Listener, inputs: mpsc::Sender<Input>) {
    while let Some(link) = listener.accept().await {
        if inputs.send(Input::Opened(transport, link)).await.is_err() {
            return;
        }
    }
    let why = format!(
        "the socket at {} ({}) has failed",
        listener.address(),
        transport.word()
    );
    let _ = inputs.send(Input::Deaf(why)).await;
}

async fn read(link: LinkId, mut incoming: Incoming, inputs: mpsc::Sender<Input>) {
    while let Some(message) = incoming.recv().await {
        if inputs.send(Input::Message(link, message)).await.is_err() {
            return;
        }
    }
    let _ = inputs.send(Input::Ended(link)).await;
}
