//! Heartbeat of a router: bytes for its supervisor, as long as both threads of the router work.
//!
//! ```text
//!  control thread: timer --+--> the last question was answered? --> a byte
//!                          +--> the next question ---> forwarding thread, between two turns
//! ```
//!
//! The bytes go through the child's standard input. It is a socket whose other end the supervisor holds. When that end
//! closes, the supervisor has died, and the router stops too.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::Interest;
use tokio::time::MissedTickBehavior;
use weir_base::Span;
use weir_live::worker::Handle;

use super::service_manager;

/// A router that misses this many beats in a row counts as hung.
pub(super) const BEATS: u32 = 5;
/// Byte for "the router is alive".
pub(super) const ALIVE: u8 = b'.';
/// Byte for "the router is alive, and the kernel forwards meanwhile".
pub(super) const HANDED_BACK: u8 = b'k';
/// Byte for "the kernel forwards again, and no more beats will come".
pub(super) const ENDS: u8 = b'e';

/// The time between two beats.
pub(super) fn period(limit: Span) -> Duration {
    Duration::from_nanos(limit.as_nanos()) / BEATS
}

/// The receivers of heartbeats.
#[derive(Clone, Debug)]
pub(super) struct Heart {
    supervisor: Option<Arc<UnixStream>>,
    period: Duration,
}

impl Heart {
    /// For a process that a supervisor started with `limit`.
    pub(super) fn of_child(limit: Span) -> Self {
        let socket = io::stdin().as_fd().try_clone_to_owned();
        let socket = socket.map(UnixStream::from).and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(Arc::new(socket))
        });
        if let Err(error) = &socket {
            tracing::warn!(%error, "signs of life do not reach the supervisor");
        }
        Self {
            supervisor: socket.ok(),
            period: period(limit),
        }
    }

    /// For a process without a supervisor; a service manager may watch it.
    pub(super) fn of_single_process() -> Self {
        Self {
            supervisor: None,
            period: Duration::from_secs(1),
        }
    }

    /// Sends beats as long as both threads work. Returns when the supervisor has died.
    pub(super) async fn beat(self, handle: Handle, is_handed_back: impl Fn() -> bool) -> String {
        if self.supervisor.is_none() {
            service_manager::notify(service_manager::READY);
        }
        let answered = Arc::new(AtomicBool::new(true));
        let beats = async {
            let mut timer = tokio::time::interval(self.period);
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                timer.tick().await;
                if !answered.swap(false, Ordering::Relaxed) {
                    continue; // the last question still waits
                }
                self.say(if is_handed_back() { HANDED_BACK } else { ALIVE });
                let answered = Arc::clone(&answered);
                let asked = handle.post(move |_| answered.store(true, Ordering::Relaxed));
                if let Err(error) = asked {
                    tracing::debug!(%error, "no more signs of life");
                }
            }
        };
        tokio::select! {
            () = beats => unreachable!("an endless loop"),
            why = self.orphaned() => why,
        }
    }

    /// Reports that the kernel forwards: from now on, stopping may take time.
    pub(super) fn ends(&self) {
        self.say(ENDS);
    }

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
                tracing::warn!(%error, "the supervisor's end would not be noticed");
                return std::future::pending().await;
            }
        };
        loop {
            let ready = socket.ready(Interest::READABLE).await;
            match ready.and_then(|_| socket.try_read(&mut [0; 16])) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(1..) => {} // it sends nothing, but a byte is not the end
                Ok(0) | Err(_) => return "the supervisor has ended".to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::thread;
    use weir_base::Streams;
    use weir_live::worker::Worker;
    use weir_path::plane::Plane;

    /// Number of bytes to read.
    fn beats(mut supervisor: &UnixStream) -> usize {
        supervisor.read(&mut [0; 1000]).unwrap_or(0)
    }

    #[test]
    fn a_forwarding_thread_that_stands_still_stops_the_heart() {
        let plane = Plane::new(64, 1518, Streams::new(1));
        let (handle, _thread) = Worker::new(plane, Box::new(|_| {})).start().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).unwrap();
        }
        let heart = Heart {
            supervisor: Some(Arc::new(theirs)),
            period: Duration::from_millis(10),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let pause = |millis| tokio::time::sleep(Duration::from_millis(millis));
        runtime.block_on(async {
            let beating = tokio::spawn(heart.beat(handle.clone(), || false));
            pause(200).await;
            assert!(beats(&ours) >= 2);
            let stand_still = |_: &mut _| thread::sleep(Duration::from_millis(600));
            handle.post(stand_still).unwrap();
            pause(100).await; // what was answered before is a beat still
            beats(&ours);
            pause(200).await;
            assert_eq!(beats(&ours), 0);
            pause(600).await;
            assert!(beats(&ours) >= 2);
            // It also notices that the supervisor has gone.
            drop(ours);
            assert_eq!(beating.await.unwrap(), "the supervisor has ended");
        });
        handle.post(Worker::stop).unwrap();
    }
}
