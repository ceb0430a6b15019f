//! The thread that runs the element: it passes requests, events and time to the element, and carries out the effects.
//!
//! ```text
//!  operators, signals -- requests --+                                      +--> machine, forwarding thread
//!  forwarding thread --- events ----+--> weir-element: [RouterCore] [Carrier] +--> log
//!  runtime ------------- tables ----+                                      +--> active state
//! ```
//!
//! Between two effects, the thread takes pending inputs, so that the element knows immediately when the router should
//! stop.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use tokio::sync::oneshot;
use weir_element::{ActiveState, Answer, Effect, Output, RouterCore, Ticket};

use super::carrier::{Carrier, Launched};
use super::input::Input;
use super::journal;
use super::running::Published;
use crate::clock;

/// The forwarding thread, just started, and the active state.
pub(super) type Launch = (Launched, Arc<Published>);

pub(super) struct Driver {
    element: RouterCore,
    carrier: Carrier,
    inbox: mpsc::Receiver<Input>,
    /// Pending answers, by ticket.
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    tickets: u64,
    published: Option<Arc<Published>>,
    launch: Option<oneshot::Sender<Launch>>,
}

impl Driver {
    /// Starts the thread. When every sender of its inbox was dropped, it releases everything that it holds and ends.
    pub(super) fn start(
        carrier: Carrier,
        inbox: mpsc::Receiver<Input>,
        launch: oneshot::Sender<Launch>,
    ) -> io::Result<()> {
        let driver = Self {
            element: RouterCore::new(),
            carrier,
            inbox,
            waiting: BTreeMap::new(),
            tickets: 0,
            published: None,
            launch: Some(launch),
        };
        let thread = thread::Builder::new().name("weir-element".to_owned());
        thread.spawn(move || driver.run()).map(drop)
    }

    fn run(mut self) {
        // The instant of a traffic handover may be near, and the forwarding thread must receive it in time.
        if let Err(error) = clock::go_second() {
            tracing::debug!(%error, "cannot raise the priority of the control thread");
        }
        loop {
            self.carry_on();
            let input = match self.element.poll_timeout() {
                None => self
                    .inbox
                    .recv()
                    .map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(at) => self.inbox.recv_timeout(clock::until(at)),
            };
            match input {
                Ok(input) => self.hand_in(input),
                Err(mpsc::RecvTimeoutError::Timeout) => self.element.handle_timeout(clock::now()),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Carries out all pending effects of the element.
    fn carry_on(&mut self) {
        loop {
            while let Ok(input) = self.inbox.try_recv() {
                self.hand_in(input);
            }
            match self.element.poll_output() {
                Some(Output::Effect(effect)) => self.carry_out(effect),
                Some(Output::Answer(ticket, answer)) => self.answer(ticket, answer),
                Some(Output::Notice(notice)) => journal::notice(notice),
                Some(Output::ActiveState(in_force)) => self.publish(in_force),
                None => return,
            }
        }
    }

    fn hand_in(&mut self, input: Input) {
        let now = clock::now();
        match input {
            Input::Request(request, answer) => {
                self.tickets += 1;
                self.waiting.insert(self.tickets, answer);
                let ticket = Ticket(self.tickets);
                self.element.handle_request(now, ticket, request);
            }
            Input::Event(event) => self.element.handle_event(now, event),
            Input::Tables(tables) => {
                let completion = self.carrier.tables_read(tables);
                self.element.handle_completion(now, completion);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        if let Some(completion) = self.carrier.carry_out(effect) {
            self.element.handle_completion(clock::now(), completion);
        }
    }

    fn answer(&mut self, Ticket(number): Ticket, answer: Answer) {
        if let Some(waiting) = self.waiting.remove(&number) {
            let _ = waiting.send(answer); // a caller that gave up waiting does not need it
        }
    }

    fn publish(&mut self, in_force: Arc<ActiveState>) {
        if let Some(published) = &self.published {
            published.renew(in_force);
            return;
        }
        let published = Arc::new(Published::new(in_force));
        self.published = Some(Arc::clone(&published));
        if let (Some(launched), Some(launch)) = (self.carrier.take_launched(), self.launch.take()) {
            let _ = launch.send((launched, published)); // without a receiver, the router is stopping
        }
    }
}
