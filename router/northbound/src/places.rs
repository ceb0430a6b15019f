//! Slots for connections: which connections are served, and which are closed if there are too many.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Maximum connections with an admitted request that are served at the same time; others wait.
const CONNECTIONS_MAX: usize = 16;
/// Maximum connections without such a request; a further connection closes the oldest.
const STRANGERS_MAX: usize = 64;

/// The slots for connections.
///
/// A client that has not sent an admitted request has no slot, however many connections it opens and however slowly it
/// sends: each new connection closes the oldest connection without a slot. So a client without access cannot keep
/// others out.
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

    /// Starts the task of a new connection, and lets it read the bytes that have arrived: so it may get a slot before
    /// the next connections arrive.
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

/// The slot of a connection, which also determines how long the connection may last.
#[derive(Clone)]
pub(crate) struct Lease {
    number: u64,
    places: Places,
    place: Arc<Mutex<Place>>,
}

#[derive(Default)]
enum Place {
    /// No slot, before the first admitted request.
    #[default]
    Stranger,
    /// A slot for short connections, until the connection ends.
    Short(
        #[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit,
    ),
    /// A slot for streams, which last longer; the answer keeps the permit.
    Stream,
}

impl Lease {
    /// Gives a connection with an admitted request a slot; waits until one is free.
    pub(crate) async fn settle(&self) {
        if !matches!(*lock(&self.place), Place::Stranger) {
            return;
        }
        self.forget(); // the connection may have to wait, but no other connection closes it meanwhile
        let permit = Arc::clone(&self.places.short).acquire_owned().await;
        if let Ok(permit) = permit {
            *lock(&self.place) = Place::Short(permit);
        }
    }

    /// Lets the connection last as long as a streaming answer, which keeps the returned permit; `None` if there are too
    /// many streams.
    pub(crate) fn extend(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.places.streams).try_acquire_owned().ok()?;
        *lock(&self.place) = Place::Stream;
        Some(permit)
    }

    pub(crate) fn lasts(&self) -> bool {
        matches!(*lock(&self.place), Place::Stream)
    }

    /// Removes the connection from the connections that a new connection may close.
    pub(crate) fn forget(&self) {
        let mut strangers = lock(&self.places.strangers);
        strangers.tasks.retain(|(number, _)| *number != self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
