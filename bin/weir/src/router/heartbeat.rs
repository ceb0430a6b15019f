//! Heartbeats of a router: bytes from each of its two threads to its supervisor.
//!
//! ```text
//!  forwarding thread: a turn, once in a period --> FORWARDS --+--> standard input
//!  control thread:    timer, once in a period  --> CONTROLS --+
//! ```
//!
//! Each thread sends its own bytes, so neither can hide that the other has stopped. The bytes go through the child's
//! standard input. It is a socket whose other end the supervisor holds. When that end closes, the supervisor has died,
//! and the router stops as well.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::Interest;
use tokio::time::MissedTickBehavior;
use weir_base::Span;
use weir_live::worker::Handle;

use super::service_manager;

/// Byte for "the forwarding thread runs its loop".
pub(super) const FORWARDS: u8 = b'.';
/// Byte for "the control thread runs its loop".
pub(super) const CONTROLS: u8 = b',';
/// Byte for "the control thread runs its loop, and the kernel forwards meanwhile".
pub(super) const HANDED_BACK: u8 = b'k';
/// Byte for "the kernel forwards again, and no further beats follow".
pub(super) const ENDS: u8 = b'e';

/// Number of beats within the time limit of the forwarding thread.
const BEATS: u64 = 5;
/// Maximum period: the service manager waits for the supervisor, which wakes up once per period.
const PERIOD_MAX: Span = Span::from_secs(1);

/// The time between two beats of a thread.
pub(super) fn period(limit: Span) -> Span {
    Span::from_nanos(limit.as_nanos() / BEATS).min(PERIOD_MAX)
}

/// The receivers of heartbeats.
#[derive(Clone, Debug)]
pub(super) struct Heart {
    supervisor: Option<Arc<UnixStream>>,
    period: Span,
}

impl Heart {
    /// The heart of a process that a supervisor started with `limit`.
    pub(super) fn of_child(limit: Span) -> Self {
        let socket = io::stdin().as_fd().try_clone_to_owned();
        let socket = socket.map(UnixStream::from).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(Arc::new(socket))
        });
        if let Err(error) = &socket {
            tracing::warn!(%error, "cannot send heartbeats to the supervisor");
        }
        Self {
            supervisor: socket.ok(),
            period: period(limit),
        }
    }

    /// The heart of a process without a supervisor; a service manager may watch it.
    pub(super) fn of_single_process() -> Self {
        Self {
            supervisor: None,
            period: PERIOD_MAX,
        }
    }

    /// Sends the beats of both threads. Returns when the supervisor has died.
    pub(super) async fn beat(self, handle: Handle, is_handed_back: impl Fn() -> bool) -> String {
        if self.supervisor.is_none() {
            service_manager::notify(service_manager::READY);
        }
        let forwards = Arc::new(AtomicBool::new(false));
        let pulse = {
            let (heart, forwards) = (self.clone(), Arc::clone(&forwards));
            move || match &heart.supervisor {
                Some(_) => heart.say(FORWARDS),
                None => forwards.store(true, Ordering::Relaxed),
            }
        };
        let period = self.period;
        let set = handle.post(move |worker| worker.set_pulse(period, pulse));
        if let Err(error) = set {
            return error.to_string();
        }
        let beats = async {
            let mut timer = tokio::time::interval(super::duration(period));
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                timer.tick().await;
                if self.supervisor.is_some() || forwards.swap(false, Ordering::Relaxed) {
                    self.say(if is_handed_back() {
                        HANDED_BACK
                    } else {
                        CONTROLS
                    });
                }
            }
        };
        tokio::select! {
            () = beats => unreachable!("an endless loop"),
            why = self.orphaned() => why,
        }
    }

    /// Reports that the kernel forwards: after that, stopping may take time.
    pub(super) fn ends(&self) {
        self.say(ENDS);
    }

    /// Sends a beat. Without a supervisor, a beat of the control thread counts for both threads.
    fn say(&self, byte: u8) {
        match &self.supervisor {
            // Full: the supervisor itself is stopped. Broken: it has died, and the reader notices that.
            Some(supervisor) => drop(io::Write::write(&mut &**supervisor, &[byte])),
            None if byte == ENDS => service_manager::notify(service_manager::STOPPING),
            None => {
                service_manager::notify(service_manager::ALIVE);
                service_manager::notify(service_manager::status(byte == HANDED_BACK));
            }
        }
    }

    /// Waits for the supervisor's death.
    async fn orphaned(&self) -> String {
        let Some(supervisor) = &self.supervisor else {
            return std::future::pending().await;
        };
        let socket = supervisor.try_clone();
        let socket = match socket.and_then(tokio::net::UnixStream::from_std) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot detect when the supervisor dies");
                return std::future::pending().await;
            }
        };
        loop {
            let ready = socket.ready(Interest::READABLE).await;
            match ready.and_then(|_| socket.try_read(&mut [0; 16])) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(1..) => {} // the supervisor sends nothing, but a byte does not mean that it died
                Ok(0) | Err(_) => return "the supervisor has died".to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::thread;
    use std::time::Duration;
    use weir_base::Streams;
    use weir_live::worker::Worker;
    use weir_path::plane::Plane;

    /// The bytes that have arrived.
    fn beats(mut supervisor: &UnixStream) -> Vec<u8> {
        let mut bytes = [0; 1000];
        let count = supervisor.read(&mut bytes).unwrap_or(0);
        bytes[..count].to_vec()
    }

    #[test]
    fn a_thread_that_stands_still_stops_its_own_beats() {
        let plane = Plane::new(64, 1518, Streams::new(1));
        let (handle, _thread) = Worker::new(plane, Box::new(|_| {})).start().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).unwrap();
        }
        let heart = Heart {
            supervisor: Some(Arc::new(theirs)),
            period: Span::from_millis(10),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let pause = |millis| tokio::time::sleep(Duration::from_millis(millis));
        let wait_for = |byte| {
            let ours = &ours;
            async move {
                while !beats(ours).contains(&byte) {
                    pause(10).await;
                }
            }
        };
        runtime.block_on(async {
            let beating = tokio::spawn(heart.beat(handle.clone(), || false));
            wait_for(FORWARDS).await;
            wait_for(CONTROLS).await;
            // The forwarding thread.
            let (stands, is_standing) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let stand_still = move |_: &mut Worker| {
                stands.send(()).unwrap();
                ended.recv().unwrap_err();
            };
            handle.post(stand_still).unwrap();
            is_standing.recv().unwrap();
            beats(&ours);
            wait_for(CONTROLS).await;
            pause(100).await;
            assert!(!beats(&ours).contains(&FORWARDS));
            drop(end);
            wait_for(FORWARDS).await;
            // The control thread.
            wait_for(CONTROLS).await;
            beats(&ours);
            let mut others = Vec::new();
            while !others.contains(&FORWARDS) {
                thread::sleep(Duration::from_millis(10));
                others.extend(beats(&ours));
            }
            assert!(!others.contains(&CONTROLS), "{others:?}");
            // The beat also returns when the supervisor has died.
            ours.shutdown(std::net::Shutdown::Both).unwrap();
            assert_eq!(beating.await.unwrap(), "the supervisor has died");
        });
        handle.post(Worker::stop).unwrap();
    }
}
