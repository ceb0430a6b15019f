//! The links of an FE to its CEs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use weir_base::Instant;
use weir_fe::Agent;
use weir_protocol::wire::Id;

use super::Input;
use crate::tml::{Channel, Incoming, Link, Outgoing, Remote, Sent, Transport, tml};
use weir_live::router::Running;

/// An event of a link. The number distinguishes the links of one CE: events of an earlier link are ignored.
pub(super) struct LinkEvent {
    ce: Id,
    number: u64,
    what: What,
}

enum What {
    Opened(Link),
    Message(Vec<u8>),
    Writable,
    Ended(String),
}

/// The link to a CE, or the attempt to open it.
struct State {
    number: u64,
    outgoing: Option<Arc<Outgoing>>,
    /// Lets the reading task pass its next message.
    credit: Arc<Notify>,
    /// A message was taken, and the next message may not come yet.
    owes_credit: bool,
    tasks: Vec<AbortHandle>,
    /// Waits until the transport has room again.
    writable: Option<AbortHandle>,
}

impl Drop for State {
    fn drop(&mut self) {
        // The reading task ends with the link; it must not keep a link alive that is closed here.
        for task in self.tasks.drain(..).chain(self.writable.take()) {
            task.abort();
        }
    }
}

pub(super) struct Links {
    ces: BTreeMap<Id, (Transport, Remote)>,
    open: BTreeMap<Id, State>,
    numbers: u64,
    sender: mpsc::Sender<Input>,
}

impl Links {
    pub(super) fn new(ces: BTreeMap<Id, (Transport, Remote)>, sender: mpsc::Sender<Input>) -> Self {
        Self {
            ces,
            open: BTreeMap::new(),
            numbers: 0,
            sender,
        }
    }

    /// Opens the link to a CE.
    pub(super) fn open(&mut self, ce: Id) {
        let Some((transport, remote)) = self.ces.get(&ce).cloned() else {
            return; // the session opens links to configured CEs only
        };
        self.numbers += 1;
        let (number, sender) = (self.numbers, self.sender.clone());
        let task = tokio::spawn(async move {
            let what = match tml(transport).connect(&remote).await {
                Ok(link) => What::Opened(link),
                Err(error) => What::Ended(error.to_string()),
            };
            let _ = sender
                .send(Input::Link(LinkEvent { ce, number, what }))
                .await;
        });
        let state = State {
            number,
            outgoing: None,
            credit: Arc::default(),
            owes_credit: false,
            tasks: vec![task.abort_handle()],
            writable: None,
        };
        self.open.insert(ce, state);
    }

    /// Closes the link to a CE after sending the queued messages.
    pub(super) fn close(&mut self, ce: Id) {
        self.open.remove(&ce);
    }

    /// Replaces certificates, and returns the changes. Ends the link to a CE that has kept none of its certificates.
    pub(super) fn replace_certificates(
        &mut self,
        now: Instant,
        new: &BTreeMap<Id, (Transport, Remote)>,
        agent: &mut Agent,
    ) -> Vec<String> {
        let mut lines = BTreeSet::new();
        for (ce, (_, remote)) in &self.ces {
            let new = new
                .get(ce)
                .map(|(_, remote)| &remote.common.security.pinned);
            let (Some(old), Some(Some(new))) = (&remote.common.security.pinned, new) else {
                continue;
            };
            if old.identity.replace(&new.identity) {
                lines.insert(format!("~ fe: certificate {}", old.identity.fingerprint()));
            }
            let replaced = old.peers.replace(&new.peers);
            if replaced.ended.contains(ce) {
                lines.insert(format!(
                    "~ CE {ce}: certificate replaced; its association ends"
                ));
                self.open.remove(ce);
                agent.handle_disconnected(now, *ce);
            } else if replaced.changed.contains(ce) {
                lines.insert(format!(
                    "~ CE {ce}: certificates changed; its association continues"
                ));
            }
        }
        lines.into_iter().collect()
    }

    /// Closes all links after sending their queued messages, and waits until the links have ended.
    pub(super) async fn leave(&mut self) {
        let open = self.open.values();
        let links: Vec<_> = open
            .filter_map(|state| Some(state.outgoing.as_ref()?.ending()))
            .collect();
        self.open.clear();
        for link in links {
            link.await;
        }
    }

    /// Passes an event to the agent. Returns the CE and the reason if a link has ended, or could not be opened.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        event: LinkEvent,
        agent: &mut Agent,
    ) -> Option<(Id, String)> {
        let LinkEvent { ce, number, what } = event;
        let open = self.open.get_mut(&ce);
        let state = open.filter(|state| state.number == number)?;
        match what {
            What::Opened(Link {
                outgoing,
                incoming,
                peer,
                ..
            }) => {
                tracing::debug!(%ce, %peer, "link to the CE opened");
                state.outgoing = Some(Arc::new(outgoing));
                let reading = read(
                    incoming,
                    ce,
                    number,
                    Arc::clone(&state.credit),
                    self.sender.clone(),
                );
                state.tasks.push(tokio::spawn(reading).abort_handle());
                agent.handle_connected(now, ce);
            }
            What::Message(message) => {
                state.owes_credit = true;
                agent.handle_message(now, ce, &message);
            }
            What::Writable => {
                state.writable = None;
                agent.handle_writable(ce, true);
            }
            What::Ended(why) => {
                self.open.remove(&ce);
                agent.handle_disconnected(now, ce);
                return Some((ce, why));
            }
        }
        None
    }

    /// Sends the agent's messages, as far as the links have room.
    pub(super) fn send(&mut self, now: Instant, agent: &mut Agent, running: &Running) {
        for (ce, state) in &mut self.open {
            let has_room = state.outgoing.as_ref().is_some_and(|out| takes(out));
            agent.handle_writable(*ce, has_room);
            if !has_room {
                await_room(*ce, state, &self.sender);
            }
        }
        while let Some(transmit) = agent.poll_transmit(now) {
            let Some(state) = self.open.get_mut(&transmit.ce) else {
                continue; // its link is lost; the session gets that event next
            };
            let Some(outgoing) = &state.outgoing else {
                continue;
            };
            let (channel, bytes) = (Channel::of(&transmit.message), transmit.message.len());
            match outgoing.send(transmit.message) {
                Sent::NoRoom(_) => {
                    tracing::debug!(ce = %transmit.ce, "the last message of a link was not sent"); // a teardown
                }
                Sent::Queued if channel == Channel::Control => running.count_control(bytes as u64),
                _ => {}
            }
            if !takes(outgoing) {
                agent.handle_writable(transmit.ce, false);
                await_room(transmit.ce, state, &self.sender);
            }
        }
    }

    /// Lets links pass their next message, if the agent has room for it.
    pub(super) fn grant(&mut self, agent: &Agent) {
        for (ce, state) in &mut self.open {
            if state.owes_credit && agent.wants(*ce) {
                state.owes_credit = false;
                state.credit.notify_one();
            }
        }
    }
}

/// Whether a link accepts messages. An ended link accepts them too, and drops them: the agent must continue to read, or
/// it would never learn of the end.
fn takes(outgoing: &Outgoing) -> bool {
    outgoing.has_room() || outgoing.has_ended()
}

/// Reports when a link has room again.
fn await_room(ce: Id, state: &mut State, sender: &mpsc::Sender<Input>) {
    let (Some(outgoing), None) = (&state.outgoing, &state.writable) else {
        return;
    };
    let (outgoing, sender, number) = (Arc::clone(outgoing), sender.clone(), state.number);
    let task = tokio::spawn(async move {
        outgoing.writable().await;
        drop(outgoing);
        let what = What::Writable;
        let _ = sender
            .send(Input::Link(LinkEvent { ce, number, what }))
            .await;
    });
    state.writable = Some(task.abort_handle());
}

/// Passes on the messages of a link, each when there is credit for it.
async fn read(
    mut incoming: Incoming,
    ce: Id,
    number: u64,
    credit: Arc<Notify>,
    to: mpsc::Sender<Input>,
) {
    let event = |what| Input::Link(LinkEvent { ce, number, what });
    while let Some(message) = incoming.recv().await {
        if to.send(event(What::Message(message))).await.is_err() {
            return;
        }
        credit.notified().await;
    }
    let why = incoming.ended().map(ToString::to_string);
    let why = why.unwrap_or_else(|| "closed".to_owned());
    let _ = to.send(event(What::Ended(why))).await;
}
