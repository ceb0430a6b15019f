//! The running router: carries out the effects of [`weir_element`].
//!
//! - [`driver`]: the thread on which the element runs; [`input`]: its inputs
//! - [`carrier`]: carries its effects out
//! - [`survey`]: reads the facts about this machine on which a plan depends
//! - [`ports`]: ports and their devices
//! - [`running`]: the interface of a running router, for the rest of the program
//! - [`reader`]: reads the classes of a running router
//! - [`events`]: events of the forwarding thread
//! - [`autorate`]: ports that find the rate of the link behind them; [`rates`]: the rates that they have found
//! - [`limits`]: rules for the machine's own packets, and for devices on ports
//! - [`watch`]: watches kernel state that the router refuses or warns of; [`findings`]: its findings
//! - [`background`]: the work of network layers outside the packet path
//! - [`journal`]: the log

mod autorate;
mod background;
mod carrier;
mod driver;
mod events;
mod findings;
mod input;
pub mod journal;
mod limits;
mod ports;
mod rates;
pub mod reader;
mod running;
mod survey;
mod watch;

use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use weir_element::{Answer, Facts, Request};
use weir_lfb::Plan;

use self::carrier::{Carrier, Launched};
use self::driver::{Driver, Launch};
pub use self::events::Inbox;
use self::events::handle_events;
use self::findings::KernelFindings;
use self::input::Input;
pub use self::ports::SUPERFRAMES;
pub use self::running::{CertificateLeft, INJECTIONS_MAX, Running};
pub use self::survey::survey;
use crate::kernel::follow;
use crate::kernel::fpm::Fpm;
use crate::kernel::state;
use crate::kernel::tables::TableState;
use crate::kernel::transit::TransitGuard;
use crate::mutex::lock;
use crate::worker::Worker;

/// A router, its forwarding thread, and that thread's events.
pub type Started = (Arc<Running>, JoinHandle<Worker>, Inbox);

/// A router that is starting.
pub struct Starting {
    element: mpsc::Sender<Input>,
    launched: oneshot::Receiver<Launch>,
    answered: oneshot::Receiver<Answer>,
    guard: Arc<Mutex<TransitGuard>>,
    known: Arc<Mutex<KernelFindings>>,
}

/// Starts a router with a plan that these facts permit, in the calling thread's network namespace. Call it within a
/// runtime.
pub fn start(plan: Plan, facts: Facts) -> Result<Starting, String> {
    let (element, inbox) = mpsc::channel();
    let carrier = Carrier::new(&plan, &facts, element.clone())?;
    let (guard, known) = (carrier.guard(), carrier.known());
    let (launch, launched) = oneshot::channel();
    Driver::start(carrier, inbox, launch).map_err(|e| format!("control thread: {e}"))?;
    let starting = Starting {
        answered: ask(&element, Request::Start(plan, facts)),
        element,
        launched,
        guard,
        known,
    };
    Ok(starting)
}

fn ask(element: &mpsc::Sender<Input>, request: Request) -> oneshot::Receiver<Answer> {
    let (answer, answered) = oneshot::channel();
    let _ = element.send(Input::Request(request, answer)); // a failure shows at the receiver
    answered
}

impl Starting {
    /// Waits until the router forwards.
    pub async fn started(&mut self) -> Result<Started, String> {
        const ENDED: &str = "the control thread has ended";
        let answer = (&mut self.answered).await.map_err(|_| ENDED)?;
        answer.map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
            faults.join("\n")
        })?;
        let (launched, published) = self.launched.try_recv().map_err(|_| ENDED)?;
        let Launched {
            handle,
            thread,
            inbox,
            tables,
            neighbours,
        } = launched;
        let running = Running::new(
            (handle, tables, neighbours),
            published,
            Arc::clone(&self.guard),
            Arc::clone(&self.known),
            self.element.clone(),
        );
        Ok((Arc::new(running), thread, inbox))
    }

    /// Aborts the start, and waits until the kernel has all ports back.
    pub async fn give_up(self) {
        let _ = ask(&self.element, Request::Stop).await; // failures are in the log
    }
}

/// Starts the tasks of a running router. Each runs until the router must stop, and returns the reason.
pub fn spawn_tasks(
    running: &Arc<Running>,
    fpm: Option<Fpm>,
    inbox: Inbox,
    tasks: &mut JoinSet<String>,
) {
    tasks.spawn(follow_kernel(Arc::clone(running), fpm));
    tasks.spawn(handle_events(Arc::clone(running), inbox));
    tasks.spawn(limits::follow_links(Arc::clone(running)));
    tasks.spawn(limits::follow_rates(Arc::clone(running)));
    tasks.spawn(watch::follow(Arc::clone(running)));
    tasks.spawn(autorate::follow(Arc::clone(running)));
}

/// Passes each new state of the kernel's tables, with the routes that come by FPM, to the forwarding thread. It bypasses
/// the element, whose decisions do
/// not depend on the tables: a change of routes must not wait for a change of ports.
async fn follow_kernel(running: Arc<Running>, fpm: Option<Fpm>) -> String {
    let publish = |state: &mut TableState| {
        let tables = Arc::new(state.tables().clone());
        journal::tables(&running.tables.load(), &tables);
        *lock(&running.unfollowed) = state::unfollowed(state);
        running.tables.store(Arc::clone(&tables));
        running.tables_changed.notify_one();
        let posted = running.handle.post(move |worker| worker.set_tables(tables));
        if let Err(error) = posted {
            tracing::error!(%error, "cannot update routes and neighbours; the old ones stay active");
        }
    };
    match follow::follow(fpm, publish).await {
        Err(error) => format!("cannot monitor the kernel's tables: {error}"),
    }
}
