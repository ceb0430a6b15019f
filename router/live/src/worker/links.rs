//! The devices of a worker's ports, opened and closed on a separate thread.
//!
//! ```text
//!  worker's thread                         weir-devices
//!  lost, removed ------ Close -----------> drops it
//!  to be tried again -- Open ------------> opens it --- command ---> Worker::opened
//! ```
//!
//! Closing a packet ring takes tens of milliseconds: the kernel waits until no processor uses the ring (RCU). Opening a
//! ring queries the kernel about the interface, and another process that changes the network may hold the necessary
//! lock. Forwarding waits for neither.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use weir_base::{Instant, Span};

use super::{BURST_MAX, Handle, LinkState, Opener, Steering};
use crate::clock;
use crate::device::{Counters, Device};

/// Time between attempts to open a lost device whose interface is up.
const REOPEN_RETRY: Span = Span::from_millis(500);
/// The longest pause before a device that is lost repeatedly is opened again: another program may change it each time.
const REOPEN_RETRY_MAX: Span = Span::from_secs(8);
/// A device that was open for this time has worked.
const SETTLED: Span = Span::from_secs(60);

/// A port's device, or the attempt to open it again.
pub(super) struct Link {
    pub(super) device: Option<Box<dyn Device>>,
    /// `None` while the device thread is opening the device.
    open: Option<Opener>,
    /// Identifies a link: a port's number changes when a port before it is removed.
    pub(super) id: u64,
    retry_at: Instant,
    opened_at: Instant,
    /// The pause after the latest loss.
    pause: Span,
    /// Whether the interface carries longer frames than the router was started for.
    pub(super) is_too_long: bool,
    /// Whether the kernel's rules may lend frames to the device, even if it was lost.
    pub(super) is_lent: bool,
    counters: Counters,
    /// Frames taken beyond the device's share, in ordinary frames.
    pub(super) overdrawn: usize,
    /// Shared with the thread that finds the rate of the port.
    pub(super) steering: Arc<Steering>,
    /// Whether the port takes its rate from `steering`.
    pub(super) is_steered: bool,
}

impl Link {
    pub(super) fn new(id: u64, device: Option<Box<dyn Device>>, open: Opener) -> Self {
        Self {
            device,
            open: Some(open),
            id,
            retry_at: Instant::ZERO,
            opened_at: Instant::ZERO,
            pause: Span::ZERO,
            is_too_long: false,
            is_lent: false,
            counters: Counters::default(),
            overdrawn: 0,
            steering: Arc::default(),
            is_steered: false,
        }
    }

    /// Frames that the device may deliver in this iteration.
    pub(super) fn share(&mut self) -> usize {
        let share = BURST_MAX.saturating_sub(self.overdrawn);
        self.overdrawn = self.overdrawn.saturating_sub(BURST_MAX);
        share
    }

    /// Takes the device out of the link, if it has one.
    pub(super) fn close(&mut self) -> Option<Box<dyn Device>> {
        self.counters = self.state().counters;
        self.device.take()
    }

    pub(super) fn state(&mut self) -> LinkState {
        let mut counters = self.counters;
        if let Some(device) = &mut self.device {
            let now = device.counters();
            counters.missed += now.missed;
            counters.refused += now.refused;
        }
        LinkState {
            up: self.device.is_some(),
            counters,
        }
    }

    /// The time of the next attempt to open the device; `None` while it is open or being opened.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        (self.device.is_none() && self.open.is_some()).then_some(self.retry_at)
    }

    /// Takes out the device, which has failed, and postpones the next attempt: the longer, the more often it fails.
    pub(super) fn lose(&mut self, now: Instant) -> Option<Box<dyn Device>> {
        self.pause = if now.since(self.opened_at) < SETTLED {
            (self.pause + self.pause).clamp(REOPEN_RETRY, REOPEN_RETRY_MAX)
        } else {
            Span::ZERO
        };
        self.retry_at = now + self.pause;
        self.close()
    }

    /// Postpones the next attempt.
    pub(super) fn try_later(&mut self, now: Instant) {
        self.retry_at = now + REOPEN_RETRY;
    }

    /// Records the result of an attempt to open the device.
    pub(super) fn tried(&mut self, open: Opener, device: Option<Box<dyn Device>>) {
        self.open = Some(open);
        self.device = device;
        self.opened_at = clock::now();
    }
}

/// A job for the device thread.
enum Job {
    Close(Box<dyn Device>),
    Open {
        link: u64,
        interface: String,
        open: Opener,
    },
}

/// The thread that opens and closes devices. After this value is dropped, it finishes its pending jobs and ends.
#[derive(Default)]
pub(super) struct DeviceOpener {
    /// `None` before the worker runs: until then, nothing waits for the calling thread, which drops devices itself.
    jobs: Option<mpsc::Sender<Job>>,
}

impl DeviceOpener {
    /// Starts the thread, in the calling thread's network namespace.
    pub(super) fn start(worker: Handle) -> io::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        let work = move || inbox.into_iter().for_each(|job| carry_out(job, &worker));
        thread::Builder::new()
            .name("weir-devices".to_owned())
            .spawn(work)?;
        Ok(Self { jobs: Some(jobs) })
    }

    /// Closes a device, if there is one.
    pub(super) fn close(&self, device: Option<Box<dyn Device>>) {
        if let Some(device) = device {
            self.order(Job::Close(device));
        }
    }

    /// Opens a link's device; [`super::Worker::opened`] receives the result.
    pub(super) fn open(&self, link: &mut Link, interface: &str) {
        if let Some(open) = link.open.take() {
            self.order(Job::Open {
                link: link.id,
                interface: interface.to_owned(),
                open,
            });
        }
    }

    fn order(&self, job: Job) {
        if let Some(jobs) = &self.jobs
            && jobs.send(job).is_err()
        {
            tracing::error!("the thread that opens and closes devices has ended");
        }
    }
}

fn carry_out(job: Job, worker: &Handle) {
    match job {
        Job::Close(device) => drop(device),
        Job::Open {
            link,
            interface,
            mut open,
        } => {
            let opened = open(&interface);
            // If the worker has ended, dropping the command closes the device here.
            let _ = worker.post(move |worker| worker.opened(link, open, opened));
        }
    }
}
