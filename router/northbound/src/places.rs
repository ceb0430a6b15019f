//! Places for connections: whose connection is served, and whose is closed when there are many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Connections with an admitted request that are served at once; others wait.
const CONNECTIONS_MAX: usize = 16;
/// Connections without such a request; the oldest is closed when one more comes.
const STRANGERS_MAX: usize = 64;

/// The places for connections.
///
/// A client that has not sent an admitted request has no place of its own, however many connections it opens and however
/// slowly it sends: each new connection closes the oldest of these. So nobody without access can keep others out.
#[derive(Clone)]
pub(crate) struct Places {
    short: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    strangers: Arc<Mutex<Strangers>>,
}

/// Connections without an admitted request, the oldest first.
#[derive(Default)]
struct Strangers {
    last: u64,
    tasks: VecDeque<(u64, AbortHandle)>,
}

impl Places {
    pub(crate) fn new(streams: usize) -> Self {
        Self {
            short: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            streams: Arc::new(Semaphore::new(streams)),
            strangers: Arc::default(),
        }
    }

    /// Starts the task of one more connection, and lets it read what has come: with that it may have a place before others
    /// come.
    pub(crate) async fn spawn<F>(&self, task: impl FnOnce(Lease) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        {
            let mut strangers = lock(&self.strangers); // until the task is in the list
            if strangers.tasks.len() >= STRANGERS_MAX
                && let Some((_, oldest)) = strangers.tasks.pop_front()
            {
                oldest.abort();
            }
            strangers.last += 1;
            let number = strangers.last;
            let task = tokio::spawn(task(self.lease(number))).abort_handle();
            strangers.tasks.push_back((number, task));
        }
        tokio::task::yield_now().await;
    }

    pub(crate) fn lease(&self, number: u64) -> Lease {
        Lease {
            number,
            places: self.clone(),
            place: Arc::default(),
        }
    }
}

/// The place and the time that a connection has.
#[derive(Clone)]
pub(crate) struct Lease {
    number: u64,
    places: Places,
    place: Arc<Mutex<Place>>,
}

#[derive(Default)]
enum Place {
    /// None before its first admitted request.
    #[default]
    Stranger,
    /// Among short connections, until it ends.
    Short(
        #[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit,
    ),
    /// Among those that last longer; their answer keeps the permit.
    Stream,
}

impl Lease {
    /// Gives a connection whose request was admitted a place of its own.
    pub(crate) async fn settle(&self) {
        if !matches!(*lock(&self.place), Place::Stranger) {
            return;
        }
        self.forget(); // it may have to wait, but nobody closes it meanwhile
        let permit = Arc::clone(&self.places.short).acquire_owned().await;
        if let Ok(permit) = permit {
            *lock(&self.place) = Place::Short(permit);
        }
    }

    /// Lets the connection last as long as an answer that goes on, which keeps what is returned; none if there are too
    /// many of them.
    pub(crate) fn extend(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.places.streams).try_acquire_owned().ok()?;
        *lock(&self.place) = Place::Stream;
        Some(permit)
    }

    pub(crate) fn lasts(&self) -> bool {
        matches!(*lock(&self.place), Place::Stream)
    }

    /// Removes the connection from those that a new one may close.
    pub(crate) fn forget(&self) {
        let mut strangers = lock(&self.places.strangers);
        strangers.tasks.retain(|(number, _)| *number != self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
