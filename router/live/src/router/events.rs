//! Handles the events of the forwarding thread: asks the kernel for neighbours, verifies those in use, passes device
//! events to the element, reports exceptions, and drops old tables, which would take too long on the forwarding thread.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use weir_element::Place;
use weir_path::ip::resolution::NeighbourRequest;

use super::background::Wake;
use super::running::Running;
use crate::kernel::neighbours::Neighbours;
use crate::mutex::lock;
use crate::worker::{Event, Worker};

/// Maximum pending neighbour requests. A request that exceeds this is lost, and its packets are dropped; the next
/// packet after that repeats the request.
const REQUESTS_MAX: usize = 1024;
/// Maximum requests that are handled together.
const BATCH_MAX: usize = 256;
/// Shortest time between two verifications of the neighbours in use. The kernel marks an entry stale 15 to 45 s after
/// the neighbour's last answer, and probes 5 s later. So the router notices a changed MAC address about as soon as the
/// kernel's own forwarding would.
const VERIFY_PERIOD: Duration = Duration::from_secs(5);

/// Events of the forwarding thread. Packets to new addresses cause neighbour requests without bound. All other events
/// come from the machine itself, are few, and must not be lost.
pub struct Inbox {
    requests: mpsc::Receiver<NeighbourRequest>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Inbox {
    /// The function that the forwarding thread calls for each event, and the inbox that receives the events.
    /// `background` wakes the background work of layers.
    pub(super) fn new(background: Wake) -> (Box<dyn FnMut(Event) + Send>, Self) {
        let (ask, requests) = mpsc::channel(REQUESTS_MAX);
        let (send, events) = mpsc::unbounded_channel();
        let event = move |event| match event {
            Event::NeighbourRequest(request) => drop(ask.try_send(request)),
            Event::Copies => background.wake(),
            other => drop(send.send(other)), // without a receiver, the router is stopping
        };
        (Box::new(event), Self { requests, events })
    }

    /// The next event, or requests that are added to `requests`; `None` when the forwarding thread has ended.
    async fn next(&mut self, requests: &mut Vec<NeighbourRequest>) -> Option<Next> {
        tokio::select! {
            biased;
            event = self.events.recv() => event.map(Next::Event),
            1.. = self.requests.recv_many(requests, BATCH_MAX) => Some(Next::Requests),
        }
    }
}

/// The next thing to handle.
enum Next {
    Event(Event),
    Requests,
}

/// Handles events until the forwarding thread ends.
pub(super) async fn handle_events(running: Arc<Running>, mut inbox: Inbox) -> String {
    let mut requests = Vec::new();
    let mut verify = interval(VERIFY_PERIOD);
    verify.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = verify.tick() => {
                if let Err(error) = running.handle.post(Worker::tell_neighbours_in_use) {
                    return error.to_string();
                }
            }
            () = running.tables_changed.notified() => {
                on_neighbours(&running, |running, neighbours| {
                    let limits = neighbours.update(&running.tables.load())?;
                    let set = move |worker: &mut Worker| worker.plane.set_neighbour_request_limits(limits);
                    running.handle.post(set).map_err(io::Error::other)
                })
                .await;
            }
            next = inbox.next(&mut requests) => match next {
                Some(Next::Event(Event::InUse(used))) => {
                    on_neighbours(&running, move |running, neighbours| {
                        neighbours.verify(&used, &running.tables.load())
                    })
                    .await;
                }
                Some(Next::Event(event)) => handle(&running, event),
                Some(Next::Requests) => {
                    let requests = std::mem::take(&mut requests);
                    on_neighbours(&running, move |_, neighbours| {
                        carry_out(neighbours, &requests);
                        Ok(())
                    })
                    .await;
                }
                None => return "the forwarding thread has ended".to_owned(),
            }
        }
    }
}

/// Sends neighbour requests to the kernel on a thread that may block: the kernel answers only when nobody else is
/// changing the network, and that may take longer than the watchdog permits.
async fn on_neighbours(
    running: &Arc<Running>,
    work: impl FnOnce(&Running, &mut Neighbours) -> io::Result<()> + Send + 'static,
) {
    let running = Arc::clone(running);
    let work = move || work(&running, &mut lock(&running.neighbours));
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "cannot verify neighbours"),
        Err(error) => tracing::error!(%error, "the neighbour task failed"),
    }
}

/// Under a scan, a request may be given up before it is carried out; then it never reaches the kernel.
fn carry_out(neighbours: &mut Neighbours, requests: &[NeighbourRequest]) {
    let later = |at: usize, request: NeighbourRequest| requests[at..].contains(&request);
    for (at, request) in requests.iter().enumerate() {
        tracing::debug!(?request, "neighbour");
        let result = match *request {
            NeighbourRequest::Ask(neighbour) if later(at, NeighbourRequest::GiveUp(neighbour)) => {
                Ok(())
            }
            NeighbourRequest::Ask(neighbour) => neighbours.resolve(neighbour),
            NeighbourRequest::GiveUp(neighbour) => neighbours.give_up(neighbour),
        };
        if let Err(error) = result {
            tracing::debug!(?request, %error, "neighbour request failed");
        }
    }
}

fn handle(running: &Running, event: Event) {
    let event = match event {
        Event::NeighbourRequest(_) | Event::InUse(_) | Event::Copies => return, // these are handled elsewhere
        Event::Retired(tables) => {
            // Dropping the parts of a large snapshot that no other snapshot shares takes long.
            tokio::task::spawn_blocking(move || drop(tables));
            return;
        }
        Event::Exceptions => return running.exceptions_wait.notify_one(),
        Event::PortLost(port) => weir_element::Event::Lost { port },
        Event::PortBack { port, interface } => weir_element::Event::Back(Place { port, interface }),
        Event::Renamed { port, from, to } => {
            let place = Place {
                port,
                interface: to,
            };
            weir_element::Event::Renamed { place, from }
        }
        Event::Carrier { port, works } => weir_element::Event::Carrier { port, works },
    };
    running.handle_event(event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::background;
    use std::sync::Mutex;
    use std::thread;
    use std::time::Instant;

    use crate::namespace::Namespace;
    use weir_base::Streams;
    use weir_path::plane::Plane;

    use weir_lfb::Plan;
    use weir_model::{Change, ComponentPath};

    use std::collections::BTreeMap;

    use weir_element::{ActiveState, Limits};

    use crate::kernel::transit::TransitGuard;
    use crate::router::running::Published;

    /// A router whose only interface does not exist.
    fn router() -> (Arc<Running>, Inbox) {
        let port = ComponentPath::new(["port", "nowhere"]);
        let plan = Plan::check(&[Change::block(port)]).unwrap();
        let (event, inbox) = Inbox::new(background::prepare().0);
        let plane = Plane::new(64, 1518, Streams::new(1));
        let (handle, _thread) = Worker::new(plane, event).start().unwrap();
        let limits = Limits {
            frame_bytes_max: 1518,
            pool: 64,
        };
        let in_force = ActiveState {
            plan,
            taken: BTreeMap::new(),
            limits,
            handed_back: Vec::new(),
            renamed: BTreeMap::new(),
        };
        let published = Arc::new(Published::new(Arc::new(in_force)));
        let guard = Arc::new(Mutex::new(TransitGuard::install(&[]).unwrap()));
        let launched = (handle, Arc::default(), Neighbours::new().unwrap());
        let element = std::sync::mpsc::channel().0; // no receiver
        let running = Running::new(launched, published, guard, Arc::default(), element);
        (Arc::new(running), inbox)
    }

    /// Turns of the control thread while the kernel does not answer for this time.
    async fn turns_in_a_stall(stall: Duration) -> u32 {
        let (running, inbox) = router();
        let events = tokio::spawn(handle_events(Arc::clone(&running), inbox));
        let (locked, is_locked) = std::sync::mpsc::channel();
        let stalled = Arc::clone(&running);
        let kernel = thread::spawn(move || {
            let _neighbours = lock(&stalled.neighbours);
            locked.send(()).unwrap();
            thread::sleep(stall);
        });
        is_locked.recv().unwrap();
        running.tables_changed.notify_one();
        running.handle.call(Worker::tell_neighbours_in_use).unwrap();
        let (began, mut turns) = (Instant::now(), 0);
        while began.elapsed() < stall {
            tokio::time::sleep(Duration::from_millis(10)).await;
            turns += 1;
        }
        kernel.join().unwrap();
        assert!(!events.is_finished());
        running.handle.call(Worker::stop).unwrap();
        turns
    }

    #[test]
    fn a_kernel_that_does_not_answer_about_neighbours_leaves_the_control_thread_its_turns() {
        let Ok(namespace) = Namespace::new() else {
            println!("skipped: no network namespaces here");
            return;
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let turns = || runtime.block_on(turns_in_a_stall(Duration::from_millis(500)));
        let turns = namespace.enter(turns).unwrap();
        assert!(turns >= 5, "{turns} turns in half a second");
    }
}
