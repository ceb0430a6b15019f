//! Links whose rate or delay changes during a run: a thread that changes the routers and bridges of the lab at the
//! scheduled times.
//!
//! ```text
//!   with a modem:     PATCH /v1/config of the wire's bridge     rate, outage, delay of `impair`
//!   without a modem:  PATCH /v1/config of the sender's router   rate of its port
//!                     PATCH /v1/config of the wire's bridge     outage, delay
//! ```
//!
//! Each router has its own task. A change is up to two milliseconds late. Changes that follow each other faster than
//! [`CHANGE_MIN`](super::router::CHANGE_MIN) are averaged: the bits that the link can carry are the same.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use tokio::task::JoinSet;
use weir_base::{Instant, Rate, Varying};
use weir_model::{ChangeRequest, ChangeValue, ComponentPath};
use weir_northbound::client::Client;

use super::elements::runtime;
use super::router::port_rate;
use super::window::RunWindow;
use super::wire::{Emulated, Long, PORTS};
use crate::error::Error;
use crate::topology::Topology;

/// The thread, if anything changes.
#[derive(Debug)]
pub(super) struct Courses(Option<JoinHandle<Vec<String>>>);

/// A port whose values change, and its values by path.
#[derive(Debug)]
enum Target {
    /// A bridge's port.
    Bridge(&'static str, Emulated),
    /// A router's port that knows the link's rate.
    Port(String, Varying<Rate>),
}

impl Target {
    /// The values at `now`, and the end of their validity.
    fn at(&self, now: Instant) -> (Vec<(ComponentPath, ChangeValue)>, Instant) {
        match self {
            Self::Bridge(port, emulated) => {
                let (parameters, until) = emulated.parameters(now);
                let path = |name| ComponentPath::new(["port", port, "discipline", name]);
                let value = |value: String| match value.parse() {
                    Ok(flag) => ChangeValue::Flag(flag),
                    Err(_) => ChangeValue::Text(value),
                };
                let values = parameters.into_iter();
                let values = values.map(|(name, text)| (path(name), value(text)));
                (values.collect(), until)
            }
            Self::Port(port, rate) => {
                let (rate, until) = port_rate(rate, now);
                let path = ComponentPath::new(["port", port, "rate"]);
                (vec![(path, ChangeValue::Text(rate.to_string()))], until)
            }
        }
    }
}

impl Courses {
    /// Starts the thread; `socket` gives the path of a router's service by the router's name.
    pub(super) fn start<'a>(
        topology: &Topology,
        long: impl Iterator<Item = &'a Long>,
        socket: &dyn Fn(&str) -> PathBuf,
        window: RunWindow,
    ) -> Result<Self, Error> {
        let mut targets: BTreeMap<String, Vec<Target>> = BTreeMap::new();
        for long in long {
            for (place, emulated) in long.directions.iter().enumerate() {
                let direction = &emulated.direction;
                let rate = direction.rate.as_ref().filter(|rate| !rate.is_constant());
                if rate.is_some() || !direction.delay.is_constant() {
                    let target = Target::Bridge(PORTS[1 - place], emulated.clone());
                    targets.entry(long.name()).or_default().push(target);
                }
                if let Some(rate) = rate.filter(|_| direction.modem.is_none()) {
                    let (node, interface) = long.ends[place];
                    let node = &topology.nodes[node];
                    let port = node.interfaces[interface].name.clone();
                    let target = Target::Port(port, rate.clone());
                    targets.entry(node.name.clone()).or_default().push(target);
                }
            }
        }
        let targets = targets.into_iter();
        let targets: Vec<_> = targets
            .map(|(name, all)| (socket(&name), name, all))
            .collect();
        let thread = (!targets.is_empty()).then(|| {
            let runtime = runtime()?;
            let thread = thread::Builder::new().name("courses".into());
            thread.spawn(move || {
                runtime.block_on(async {
                    let mut tasks = JoinSet::new();
                    for (socket, name, all) in targets {
                        tasks.spawn(follow(Client::new(&socket), name, all, window));
                    }
                    tasks.join_all().await.into_iter().flatten().collect()
                })
            })
        });
        let thread = thread.transpose();
        let thread = thread.map_err(Error::io("cannot start the thread that changes links"))?;
        Ok(Self(thread))
    }

    /// Waits for the thread to end; returns the errors.
    pub(super) fn finish(self) -> Vec<String> {
        let errors = self.0.map(JoinHandle::join).and_then(Result::ok);
        errors.unwrap_or_default()
    }
}

/// Changes one router until the end of the run; returns the first error.
async fn follow(
    mut client: Client,
    name: String,
    targets: Vec<Target>,
    window: RunWindow,
) -> Option<String> {
    let mut sent: BTreeMap<ComponentPath, ChangeValue> = BTreeMap::new();
    let mut now = Instant::ZERO;
    let mut error = None;
    while now < window.last() {
        window.sleep_until(now).await;
        let mut next = Instant::FAR_FUTURE;
        let mut changes = Vec::new();
        for (values, until) in targets.iter().map(|target| target.at(now)) {
            next = next.min(until);
            for (path, value) in values {
                if sent.get(&path) != Some(&value) {
                    changes.push(ChangeRequest {
                        path: path.to_string(),
                        value: value.clone(),
                    });
                    sent.insert(path, value);
                }
            }
        }
        if !changes.is_empty()
            && let Err(why) = client.change(&changes).await
        {
            error.get_or_insert(format!("failed to change {name} at {now:?}: {why}"));
        }
        now = next;
    }
    error
}
