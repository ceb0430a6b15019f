//! The running router: what starts, changes and stops it.
//!
//! - [`bypass`]: rules of the machine that transit bypasses
//! - [`checks`], [`interfaces`]: what a plan needs of the machine
//! - [`events`]: what the forwarding thread asks for and reports
//! - [`running`]: changes of what runs
//! - [`ports`]: ports and their devices
//! - [`holdings`]: what is claimed and taken from the kernel, and given back
//! - [`limits`]: what the machine itself sends, and devices on ports
//! - [`journal`]: what is logged

pub mod bypass;
mod checks;
mod differences;
mod events;
mod holdings;
mod interfaces;
pub mod journal;
mod limits;
mod ports;
mod running;

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::task::JoinSet;
use weir_lfb::Plan;
use weir_path::tables::Tables;

pub use self::checks::{doubts, obstacles};
pub use self::differences::differences;
pub use self::events::Inbox;
use self::events::handle_events;
use self::holdings::Holdings;
pub use self::interfaces::faults as interface_faults;
use self::running::Limits;
pub use self::running::{Running, lock};
use crate::kernel::follow;
use crate::kernel::neighbours::Neighbours;
use crate::worker::Worker;

/// A router, its forwarding thread, and what that thread reports.
pub type Started = (Arc<Running>, JoinHandle<Worker>, Inbox);

/// Claims the interfaces, opens the ports, and takes transit from the kernel, in this order. It waits for other
/// tasks only before it takes anything, so that it can be given up.
pub async fn start(plan: Plan) -> Result<Started, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let mut holdings = Holdings::claim(&plan)?;
    let (event, inbox) = Inbox::new();
    let mut worker = ports::worker(&plan, event)?;
    let limits = Limits {
        frame_bytes_max: worker.plane.frame_bytes_max(),
        pool: worker.plane.pool_packets(),
    };
    // The kernel forwards until its tables are known here.
    let tables = follow::read()
        .await
        .map_err(|e| failed("kernel tables", &e))?;
    let tables = Arc::new(tables);
    worker.set_tables(Arc::clone(&tables));
    let neighbours = Neighbours::new().map_err(|e| failed("netlink", &e))?;
    let (handle, thread) = worker
        .start()
        .map_err(|e| failed("forwarding thread", &e))?;
    let ports = plan.ports.iter();
    let ports: Vec<_> = ports
        .map(|port| (port.name.clone(), port.interface.clone()))
        .collect();
    holdings.take(&handle, &ports)?;
    let running = Running::new(handle, tables, limits, neighbours, plan, holdings);
    Ok((Arc::new(running), thread, inbox))
}

/// Starts the tasks of a running router. Each ends only to end the router, with the reason.
pub fn spawn_tasks(running: &Arc<Running>, inbox: Inbox, tasks: &mut JoinSet<String>) {
    tasks.spawn(follow_kernel(Arc::clone(running)));
    tasks.spawn(handle_events(Arc::clone(running), inbox));
    tasks.spawn(limits::follow_links(Arc::clone(running)));
    tasks.spawn(limits::follow_rates(Arc::clone(running)));
    tasks.spawn(bypass::follow(Arc::clone(running)));
}

/// Gives each new state of the kernel's tables to the forwarding thread.
async fn follow_kernel(running: Arc<Running>) -> String {
    let publish = |tables: Tables| {
        let tables = Arc::new(tables);
        journal::tables(&running.tables.load(), &tables);
        running.tables.store(Arc::clone(&tables));
        running.tables_changed.notify_one();
        let posted = running.handle.post(move |worker| worker.set_tables(tables));
        if let Err(error) = posted {
            tracing::error!(%error, "routes and neighbours stay as they were");
        }
    };
    match follow::follow(publish).await {
        Err(error) => format!("cannot follow the kernel's tables: {error}"),
    }
}
