//! Watches the kernel state that the router refuses or warns of, while the router runs.
//!
//! ```text
//! announcements, half a second --> Reader --> KernelFindings (`weir show kernel`) --> element: forward, or hand back
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use weir_element::{ActiveState, Event, Finding};
use weir_lfb::port::PortPlan;
use weir_lfb::router::OnChange;
use weir_path::plane::Mode;

use super::running::Running;
use super::survey::bridges;
use crate::kernel::announcements::Announcements;
use crate::kernel::state::{self, Changed, Found, Reader, Scope};
use crate::kernel::transit::Side;
use crate::mutex::lock;

/// Shortest time between two readings because of changes.
const GAP: Duration = Duration::from_millis(400);
/// Longest time between two readings: the kernel does not announce everything.
const GAP_MAX: Duration = Duration::from_millis(500);
/// Interval at which everything is read again, including announced state and all routes.
const WHOLE_GAP: Duration = Duration::from_secs(10);

/// The parts of the kernel that announce changes.
struct Announced {
    chains: Option<Announcements>,
    policies: Option<Announcements>,
    rules: Option<Announcements>,
}

impl Announced {
    fn open() -> Self {
        let open = |what: &str, opened: io::Result<Announcements>| match opened {
            Ok(announcements) => Some(announcements),
            Err(error) => {
                tracing::debug!(%error, "cannot subscribe to changes of {what}; polling every {GAP_MAX:?}");
                None
            }
        };
        Self {
            chains: open("netfilter rules", Announcements::of_rules()),
            policies: open("IPsec policies", Announcements::of_policies()),
            rules: open("policy rules", Announcements::of_policy_rules()),
        }
    }

    /// Waits for an announcement until a time; returns the state to read then, and whether an announcement came.
    async fn changed(&mut self, until: Instant) -> (Changed, bool) {
        // Unannounced state may have changed.
        let mut changed = Changed {
            chains: self.chains.is_none(),
            policies: self.policies.is_none(),
        };
        let Self {
            chains,
            policies,
            rules,
        } = self;
        let first = async {
            tokio::select! {
                lives = next(chains) => Changed { chains: lives, ..Changed::NOTHING },
                lives = next(policies) => Changed { policies: lives, ..Changed::NOTHING },
                _ = next(rules) => Changed::NOTHING,
            }
        };
        let first = timeout_at(until, first).await;
        if let Ok(first) = first {
            changed.chains |= first.chains;
            changed.policies |= first.policies;
        }
        (changed, first.is_ok())
    }
}

/// Waits for an announcement; without a socket, forever. A socket that fails is closed, and counts as a change.
async fn next(announcements: &mut Option<Announcements>) -> bool {
    let Some(socket) = announcements else {
        return std::future::pending().await;
    };
    if let Err(error) = socket.changed().await {
        tracing::warn!(%error, "lost the subscription to changes of kernel state; polling every {GAP_MAX:?}");
        *announcements = None;
    }
    true
}

/// The state of the watch between two readings.
#[derive(Default)]
struct Watch {
    reader: Reader,
    scope: Option<Scope>,
    /// Routes past the ports, which are read less often than default routes.
    past: Vec<Finding>,
    whole_at: Option<Instant>,
}

impl Watch {
    /// Reads the state again, on a thread that may block.
    fn read(&mut self, running: &Running, changed: Changed) -> (Arc<ActiveState>, Found, Event) {
        let in_force = running.in_force();
        let mode = in_force.plan.router.mode;
        let side = |port: &PortPlan| Side {
            interface: in_force.interface(port).to_owned(),
            direction: port.direction,
        };
        let scope = Scope {
            mode,
            ports: in_force.plan.ports.iter().map(side).collect(),
        };
        let is_due = self.whole_at.is_none_or(|at| at.elapsed() > WHOLE_GAP);
        let is_whole = is_due || self.scope.as_ref() != Some(&scope);
        let changed = if is_whole { Changed::ALL } else { changed };
        let mut found = self.reader.read(&scope, changed);
        let tables = running.tables.load();
        if is_whole {
            self.whole_at = Some(Instant::now());
            self.past = match mode {
                Mode::Routed => state::past(&tables, &scope),
                Mode::Bridged | Mode::Queue => Vec::new(),
            };
        }
        if mode == Mode::Routed {
            found.findings.extend(state::defaults_past(&tables, &scope));
            found.findings.extend(self.past.iter().cloned());
            found
                .findings
                .extend(lock(&running.unfollowed).iter().cloned());
            found
                .findings
                .extend(state::forwarding_off(&tables, &scope));
        }
        self.scope = Some(scope);
        let event = Event::Kernel {
            findings: found.findings.clone(),
            bridges: bridges(mode),
        };
        (in_force, found, event)
    }
}

/// Reads the state again whenever it changes, and passes it to the element. Returns only if the router must stop.
pub(super) async fn follow(running: Arc<Running>) -> String {
    let mut announced = Announced::open();
    let mut watch = Watch::default();
    let (mut changed, mut is_announced) = (Changed::ALL, false);
    let mut latest = None;
    loop {
        let began = Instant::now();
        tracing::debug!("reading kernel state");
        let asked = Arc::clone(&running);
        let read = tokio::task::spawn_blocking(move || {
            let read = watch.read(&asked, changed);
            (watch, read)
        });
        let (in_force, found, event) = match read.await {
            Ok((again, read)) => {
                watch = again;
                read
            }
            Err(error) => return error.to_string(),
        };
        let router = &in_force.plan.router;
        lock(&running.known).renew(&found, router);
        let refused = found.findings.iter().filter(|f| f.is_refused(router));
        let refused: Vec<_> = refused.map(Finding::to_string).collect();
        if !refused.is_empty() && router.kernel_change == OnChange::Stop {
            return format!(
                "`kernel_change` is \"stop\", and this machine has kernel state that weir does not follow: {}",
                weir_element::kernel::listed(&refused)
            );
        }
        if latest.as_ref() != Some(&event) {
            running.handle_event(event.clone());
            latest = Some(event);
        }
        if is_announced {
            sleep_until(began + GAP).await; // a first change is read at once, and a storm a few times a second
        }
        (changed, is_announced) = announced.changed(began + GAP_MAX).await;
    }
}
