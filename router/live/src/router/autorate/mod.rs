//! Ports that find the rate of the link behind them: one thread per port, per the active plan.
//!
//! ```text
//!  active plan --> [ Finders ] -- starts, changes, ends ----> thread "weir-rate": [ Finder ]
//!                                                              |  law, prober     |
//!  weir show rates, limits of the machine's packets <-- reports +   bytes, rate <--+--> worker (Steering)
//! ```
//!
//! The element does not know this module: a found rate is not configuration, and no decision of the element depends on
//! it. A plan that changes neither a port's reflectors nor whether it measures by traffic keeps the law with its
//! history.

mod finder;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;

use arc_swap::ArcSwapOption;
use weir_element::ActiveState;

use self::finder::Finder;
use super::rates::{Finders, Found, Started, Wanted};
use super::running::Running;
use crate::mutex::lock;

impl Finders {
    /// Ends all threads.
    fn end(&self) {
        lock(&self.0).clear();
    }

    /// Starts, changes and ends threads, so that each port that must find its rate has one thread.
    fn follow(&self, running: &Arc<Running>) -> Result<(), String> {
        let mut wanted = wanted(&running.in_force());
        let mut finders = lock(&self.0);
        finders.retain(|port, finder| match wanted.remove(port) {
            Some(now) => {
                if finder.wanted.load().as_deref() != Some(&now) {
                    finder.wanted.store(Some(Arc::new(now)));
                }
                true
            }
            None => false,
        });
        for (port, wanted) in wanted {
            finders.insert(port, start(wanted, running)?);
        }
        Ok(())
    }
}

/// The ports that must find their rate, by name.
fn wanted(ActiveState { plan, taken, .. }: &ActiveState) -> BTreeMap<String, Wanted> {
    let of_port = |port: &weir_lfb::port::PortPlan| {
        let interface = taken.get(&port.name).unwrap_or(&port.interface);
        let wanted = Wanted {
            port: port.name.clone(),
            interface: interface.clone(),
            auto: port.auto.clone()?,
            mark: plan.router.mark.value,
        };
        Some((port.name.clone(), wanted))
    };
    plan.ports.iter().filter_map(of_port).collect()
}

fn start(wanted: Wanted, running: &Arc<Running>) -> Result<Started, String> {
    let found = Arc::new(Mutex::new(Found::new(&wanted.auto)));
    let wanted = Arc::new(ArcSwapOption::from_pointee(wanted));
    let finder = Finder::new(Arc::clone(&wanted), Arc::clone(&found), Arc::clone(running));
    let finder =
        finder.map_err(|error| format!("cannot start measuring the rate of a port: {error}"))?;
    let thread = thread::Builder::new().name("weir-rate".to_owned());
    let started = thread.spawn(move || finder.run());
    started.map_err(|error| format!("cannot start measuring the rate of a port: {error}"))?;
    Ok(Started { wanted, found })
}

/// Follows the active plan until the router must stop; returns the reason.
pub(super) async fn follow(running: Arc<Running>) -> String {
    /// Ends the threads with the task.
    struct End(Arc<Running>);
    impl Drop for End {
        fn drop(&mut self) {
            self.0.finders.end();
        }
    }
    let end = End(running);
    loop {
        if let Err(why) = end.0.finders.follow(&end.0) {
            return why;
        }
        end.0.published.plan_changed.notified().await;
    }
}
