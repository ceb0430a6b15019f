//! The thread that finds the rate of one port.

use std::io;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwapOption;
use weir_autorate::{Probe, Sample};
use weir_base::{Instant, Rate, Span};
use weir_path::round_trips::RoundTrip;

use super::super::rates::{Found, Wanted};
use super::super::running::Running;
use crate::clock::{self, Waiter};
use crate::echo::Prober;
use crate::mutex::lock;
use crate::worker::Steering;

/// Shortest time between two small changes of a port's rate.
const SMALL_CHANGE_GAP: Span = Span::from_millis(50);
/// A small change is less than this share of the rate.
const SMALL_CHANGE: f64 = 0.05;
/// Interval at which the interface is opened again while no answers come: its name may now belong to another interface,
/// or its address may have changed. Longer than the law waits for an answer.
const REOPEN: Span = Span::from_secs(3);
/// Time between two queries for a port that does not exist.
const ASK_AGAIN: Span = Span::from_millis(100);

/// Finds the rate of one port.
pub(super) struct Finder {
    wanted: Arc<ArcSwapOption<Wanted>>,
    found: Arc<Mutex<Found>>,
    running: Arc<Running>,
    waiter: Waiter,
    prober: Option<Prober>,
    opened: Instant,
    /// `None` while the port does not exist.
    steering: Option<Arc<Steering>>,
    /// Round trips of the port's traffic in this turn.
    round_trips: Vec<RoundTrip>,
    asked: Instant,
    /// The port's rate, and the time since which it has that rate.
    set: (Rate, Instant),
}

impl Finder {
    /// A finder without open sockets.
    pub(super) fn new(
        wanted: Arc<ArcSwapOption<Wanted>>,
        found: Arc<Mutex<Found>>,
        running: Arc<Running>,
    ) -> io::Result<Self> {
        Ok(Self {
            wanted,
            found,
            running,
            waiter: Waiter::new()?,
            prober: None,
            opened: Instant::ZERO,
            steering: None,
            round_trips: Vec::new(),
            asked: Instant::ZERO,
            set: (Rate::default(), Instant::ZERO),
        })
    }

    /// Runs until the port need not find its rate, or the forwarding thread has ended.
    pub(super) fn run(mut self) {
        if let Err(error) = clock::precise_sleeps().and_then(|()| clock::go_first()) {
            tracing::debug!(%error, "cannot raise the priority of the rate thread");
        }
        let mut current: Option<Arc<Wanted>> = None;
        loop {
            let Some(wanted) = self.wanted.load_full() else {
                return;
            };
            let before = current.replace(Arc::clone(&wanted));
            let is_new = before
                .as_ref()
                .is_none_or(|before| !Arc::ptr_eq(before, &wanted));
            if is_new {
                self.change(before.as_deref(), &wanted);
            }
            if !self.is_steering(&wanted.port) {
                return;
            }
            let next = self.turn(&wanted);
            let prober = self.prober.as_ref();
            let sockets = prober.into_iter().flat_map(Prober::wait_on);
            if let Err(error) = self.waiter.wait(sockets, Some(next)) {
                return tracing::error!(%error, "the rate thread failed; the port keeps its current rate");
            }
        }
    }

    /// Adapts to a changed plan of the port.
    fn change(&mut self, before: Option<&Wanted>, wanted: &Wanted) {
        let is_same = |b: &Wanted| {
            let (before, now) = (&b.auto, &wanted.auto);
            before.reflectors == now.reflectors && before.by_traffic == now.by_traffic
        };
        let mut found = lock(&self.found);
        if before.is_some_and(is_same) {
            found.law.set_params(wanted.auto.params.clone());
        } else if before.is_some() {
            let sent = self.steering.as_ref().map_or(0, |steering| steering.sent());
            found.renew(&wanted.auto, sent);
        }
        if before.is_none_or(|b| !is_same(b) || b.interface != wanted.interface) {
            self.prober = None;
            self.opened = Instant::ZERO;
        }
    }

    /// Whether the port exists, or may appear; false if the forwarding thread has ended.
    fn is_steering(&mut self, port: &str) -> bool {
        if self.steering.as_ref().is_some_and(|s| !s.has_ended()) {
            return true;
        }
        let now = clock::now();
        if now < self.asked + ASK_AGAIN {
            return true;
        }
        self.asked = now;
        let port = port.to_owned();
        let of_port = move |worker: &mut crate::worker::Worker| {
            let mut ports = worker.plane.ports().iter();
            let number = ports.position(|slot| slot.name == port)?;
            Some(worker.steering(number))
        };
        match self.running.handle.call(of_port) {
            Ok(steering) => {
                self.steering = steering;
                self.take_round_trips(); // discard old ones
                true
            }
            Err(_) => false,
        }
    }

    /// Takes the round trips of the port's traffic since the last call.
    fn take_round_trips(&mut self) {
        if let Some(steering) = &self.steering {
            steering.take_round_trips(&mut self.round_trips);
        }
    }

    /// One turn: answers in, rate and probes out. Returns when the next turn is due.
    fn turn(&mut self, wanted: &Wanted) -> Instant {
        let found = Arc::clone(&self.found);
        let mut found = lock(&found);
        let now = clock::now();
        let Found { law, .. } = &mut *found;
        if let Some(prober) = &mut self.prober {
            prober.receive(&mut |echo| {
                let probe = Probe {
                    reflector: echo.reflector,
                    number: echo.number,
                };
                law.handle_answer(echo.at, probe);
            });
        }
        if wanted.auto.by_traffic {
            self.take_round_trips();
            for round_trip in &self.round_trips {
                law.handle_sample(round_trip.at + round_trip.took, &sample(round_trip));
            }
        }
        let sent = self.steering.as_ref().map_or(0, |steering| steering.sent());
        law.handle_timeout(now, sent);
        self.set_rate(law.rate(), now);
        if law.is_blind() && now.since(self.opened) >= REOPEN {
            self.open(wanted, &mut found, now);
        }
        let Found { law, .. } = &mut *found;
        let probes: Vec<Probe> = std::iter::from_fn(|| law.poll_probe()).collect();
        for probe in probes {
            if let Some(prober) = &self.prober {
                let outcome = prober.send(probe.reflector, probe.number, now);
                found.note(&wanted.port, outcome);
            }
        }
        if found.announce() {
            self.running.published.rates_changed.notify_one();
        }
        found.law.poll_timeout()
    }

    /// Opens sockets to the reflectors, if there are any.
    fn open(&mut self, wanted: &Wanted, found: &mut Found, now: Instant) {
        self.opened = now;
        self.prober = None;
        if wanted.auto.reflectors.is_empty() {
            return;
        }
        match Prober::open(&wanted.interface, &wanted.auto.reflectors, wanted.mark) {
            Ok(prober) => self.prober = Some(prober),
            Err(error) => found.note(&wanted.port, Err(error)),
        }
    }

    /// Sets the port's rate. Gathers small changes.
    fn set_rate(&mut self, rate: Rate, now: Instant) {
        let Some(steering) = &self.steering else {
            return;
        };
        let (before, since) = self.set;
        let change = rate.as_bps() as f64 / before.as_bps().max(1) as f64 - 1.0;
        let is_small = change.abs() < SMALL_CHANGE && now.since(since) < SMALL_CHANGE_GAP;
        if steering.rate() == Some(rate) || is_small {
            return;
        }
        steering.set_rate(rate);
        self.running.handle.wake();
        self.set = (rate, now);
    }
}

/// Converts a round trip to a sample of the law.
fn sample(round_trip: &RoundTrip) -> Sample {
    Sample {
        peer: round_trip.peer,
        at: round_trip.at,
        sent: round_trip.sent,
        round_trip: round_trip.took,
    }
}
