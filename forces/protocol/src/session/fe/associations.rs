//! How an FE associates with its CEs, and how it changes its master.

use weir_base::Instant;

use super::super::{Dropped, Loss, PROBE};
use super::Fe;
use super::contract::{Event, STRAYS_MAX, Standby, State, Transmit};
use super::master_probe::QUIET_MAX;
use super::messages::flags;
use super::peer::Link;
use crate::wire::header::{Ack, Flags, View};
use crate::wire::message::association_setup_response::SetupResult;
use crate::wire::message::association_teardown::TeardownReason;
use crate::wire::{Body, Envelope, Id, IdKind, Message, MessageKind};

impl Fe {
    /// Whether the FE needs a link to this peer.
    pub(super) fn is_wanted(&self, at: usize) -> bool {
        match self.master {
            None => at == self.candidate,
            Some(_) => self.params.failover.standby == Standby::Hot,
        }
    }

    /// Opens the links that the FE needs, unless a peer's retry pause has not passed.
    pub(super) fn connect(&mut self, now: Instant) {
        for at in 0..self.peers.len() {
            let peer = &self.peers[at];
            if peer.link == Link::Closed && self.is_wanted(at) && now >= peer.retry_at {
                let deadline = now + self.params.retry.open_max;
                self.peers[at].link = Link::Opening(deadline);
                self.events.push_back(Event::Connect(self.peers[at].id));
            }
        }
    }

    /// Sends a setup, or gives up the peer if the limit of setups is reached.
    pub(super) fn set_up(&mut self, now: Instant, at: usize) {
        let (id, retry) = (self.id, self.params.retry);
        let peer = &mut self.peers[at];
        let Link::Requesting {
            setups,
            correlator,
            again,
            ..
        } = &mut peer.link
        else {
            return;
        };
        if *setups == retry.setups_max {
            return self.lose(now, at, Loss::Unanswered);
        }
        *again = now + retry.answer_max.times(1 << (*setups).min(16));
        *setups += 1;
        let envelope = Envelope {
            source: id,
            destination: peer.id,
            correlator: *correlator,
            flags: Flags {
                ack: Ack::Always,
                ..flags(MessageKind::AssociationSetup)
            },
        };
        let body = Body::AssociationSetup(self.params.setup.clone());
        if let Ok(message) = Message::new(envelope, body) {
            peer.out.push(&message);
        }
    }

    /// Handles a message from a CE that has not answered the setup yet.
    pub(super) fn handle_before_answer(
        &mut self,
        now: Instant,
        at: usize,
        correlator: u64,
        bytes: &[u8],
    ) {
        let Err(dropped) = self.handle_setup_response(now, at, correlator, bytes) else {
            return;
        };
        self.drops.count(dropped);
        let kind = View::new_checked(bytes).ok().map(|view| view.kind());
        if let Some(MessageKind::PacketRedirect | MessageKind::Heartbeat) = kind {
            return;
        }
        if let Link::Requesting { strays, .. } = &mut self.peers[at].link {
            *strays += 1;
            if *strays > STRAYS_MAX {
                self.lose(now, at, Loss::Unexpected);
            }
        }
    }

    fn handle_setup_response(
        &mut self,
        now: Instant,
        at: usize,
        correlator: u64,
        bytes: &[u8],
    ) -> Result<(), Dropped> {
        let view = View::new_checked(bytes).map_err(|_| Dropped::Malformed)?;
        if view.source() != self.peers[at].id {
            return Err(Dropped::WrongId);
        }
        if view.kind() != MessageKind::AssociationSetupResponse {
            return Err(Dropped::Unassociated);
        }
        let message = Message::parse(bytes).map_err(|_| Dropped::Malformed)?;
        let Body::AssociationSetupResponse(response) = message.body() else {
            return Err(Dropped::Malformed);
        };
        let (envelope, assigned) = (message.envelope(), message.envelope().destination);
        let ours = assigned == self.id || self.id == Id::UNASSIGNED;
        if envelope.correlator != correlator || !ours || assigned.kind() != IdKind::Fe {
            return Err(Dropped::Unexpected);
        }
        if response.result != SetupResult::Success {
            self.lose(now, at, Loss::Refused(response.result));
            return Ok(());
        }
        self.id = assigned;
        let ce = self.peers[at].id;
        self.peers[at].associate(now);
        self.events.push_back(Event::Associated(ce, assigned));
        if self.master.is_none() {
            self.promote(at);
            self.enter(State::Associated);
        }
        Ok(())
    }

    /// Makes the preferred CE the master, unless it is the master already. In hot standby it takes over at once and the
    /// old master becomes a backup; otherwise the association with the old master ends first.
    pub(super) fn leave_master(&mut self, now: Instant, wanted: Id) {
        let Some(master) = self.master.filter(|master| *master != wanted) else {
            return;
        };
        let is_hot = self.params.failover.standby == Standby::Hot;
        if is_hot && self.peers[0].link == Link::Associated {
            self.end_transaction();
            self.promote(0);
        } else if let Some(at) = self.peers.iter().position(|p| p.id == master) {
            self.release_peer(now, at);
        }
    }

    fn end_transaction(&mut self) {
        if self.participant.end() {
            self.events.push_back(Event::Abort(None));
        }
    }

    pub(super) fn promote(&mut self, at: usize) {
        let to = self.peers[at].id;
        self.candidate = at;
        self.master = Some(to);
        let from = self.last_master.replace(to);
        self.events.push_back(Event::Master { from, to });
    }

    pub(super) fn enter(&mut self, state: State) {
        if self.state != state {
            self.state = state;
            self.events.push_back(Event::State(state));
        }
    }

    /// Handles the timers of one peer.
    pub(super) fn check_peer(&mut self, now: Instant, at: usize) {
        let heartbeats = self.params.heartbeats;
        let due = self.peers[at]
            .deadline(&heartbeats)
            .is_some_and(|deadline| now >= deadline);
        if !due {
            return;
        }
        match self.peers[at].link {
            Link::Closed => {}
            Link::Opening(_) => self.lose(now, at, Loss::Unanswered),
            Link::Requesting { .. } => self.set_up(now, at),
            Link::Associated if self.peers[at].is_silent(now, &heartbeats) => {
                self.send_teardown(at, TeardownReason::LossOfHeartbeats);
                self.lose(now, at, Loss::Silent);
            }
            Link::Associated => {
                self.peers[at].attention.handle_timeout(now);
                if self.peers[at].is_idle(now, &heartbeats) {
                    self.peers[at].sent = now; // even if the queue is full
                    self.send_heartbeat(now, at, 0);
                }
            }
        }
    }

    pub(super) fn release_peer(&mut self, now: Instant, at: usize) {
        match self.peers[at].link {
            Link::Closed => {}
            Link::Associated => {
                let peer = &mut self.peers[at];
                while let Some(message) = peer.out.pop() {
                    let ce = peer.id; // the answer to the request that ends this must arrive
                    self.last_messages.push_back(Transmit { ce, message });
                }
                self.send_teardown(at, TeardownReason::Normal);
                self.lose(now, at, Loss::Released);
            }
            _ => self.lose(now, at, Loss::Released),
        }
    }

    /// The association with this peer, or the attempt at it, has ended.
    pub(super) fn lose(&mut self, now: Instant, at: usize, loss: Loss) {
        let ce = self.peers[at].id;
        self.peers[at].close(now, &self.params.retry);
        self.pending.retain(|_, pending| pending.ce != ce);
        self.events.push_back(Event::Lost(ce, loss));
        if loss != Loss::LinkLost {
            self.events.push_back(Event::Disconnect(ce));
        }
        if self.master == Some(ce) {
            self.lose_master(now, at);
        } else if self.master.is_none() && at == self.candidate {
            self.candidate = self.next_candidate(at);
        }
    }

    pub(super) fn lose_master(&mut self, now: Instant, at: usize) {
        self.master = None;
        self.end_transaction();
        let count = self.peers.len();
        let backup = (1..count)
            .map(|step| (at + step) % count)
            .find(|at| self.peers[*at].link == Link::Associated);
        if let Some(backup) = backup {
            return self.promote(backup);
        }
        self.candidate = match self.params.failover.standby {
            Standby::Hot => 0,
            _ => self.next_candidate(at),
        };
        self.enter(match self.params.failover.keeps {
            Some(cefti) => State::NotAssociated(now + cefti),
            None => State::PreAssociation,
        });
    }

    pub(super) fn next_candidate(&self, at: usize) -> usize {
        match self.params.failover.standby {
            Standby::None => 0,
            Standby::Cold | Standby::Hot => (at + 1) % self.peers.len(),
        }
    }

    /// Whether there is a master that takes redirected packets, as far as the FE knows.
    pub fn has_attentive_master(&self) -> bool {
        let mut peers = self.peers.iter();
        let master = peers.find(|peer| Some(peer.id) == self.master);
        master.is_some_and(|peer| !peer.attention.is_lost)
    }

    /// Probes the master, so that the FE learns early whether the master answers probes.
    pub fn ask_master(&mut self, now: Instant) {
        let master = self.peers.iter().position(|p| Some(p.id) == self.master);
        if let Some(at) = master {
            self.ask(now, at);
        }
    }

    /// Probes the master before sending packets to it, if it was quiet.
    pub(super) fn ask_quiet(&mut self, now: Instant, at: usize) {
        if now >= self.peers[at].heard + QUIET_MAX {
            self.ask(now, at);
        }
    }

    /// Probes a CE, unless a probe is open.
    fn ask(&mut self, now: Instant, at: usize) {
        let peer = &mut self.peers[at];
        if peer.link == Link::Associated && peer.attention.probe(now) {
            self.send_heartbeat(now, at, PROBE);
        }
    }
}
