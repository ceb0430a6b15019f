//! What a router holds of the machine, and gives back: interfaces that no other router may use, and
//! transit that the kernel would forward.
//!
//! ```text
//!  claim --> open --> take: from an instant on, frames are the router's        then settle
//!            close <-- drain <-- give back: from an instant on, they are the kernel's
//! ```
//!
//! The order is the same for a port, for all of them, for a start and an end, for an interface that has
//! come back and for one that was renamed. In doubt a frame is the kernel's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::device::{Tenure, af_packet};
use crate::kernel::claim::{ClaimError, Claims};
use crate::kernel::transit::TransitGuard;
use crate::worker::Handle;
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_path::parse::Mode;

use super::ports;
use super::running::lock;

/// Queues that are to be emptied get this time, which holds a second's worth of the slowest sensible
/// queue; whoever waits for the end of a router or of a change waits no longer.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);
/// Whether they are empty is asked again after this time.
const DRAIN_POLL: Duration = Duration::from_millis(2);

/// What the router holds.
pub(super) struct Holdings {
    claims: Claims,
    /// Locked for single changes only, so that whoever shows its counts does not wait.
    guard: Arc<Mutex<TransitGuard>>,
    mode: Mode,
    /// The interface of each port whose transit is taken, by the name that the guard knows.
    taken: BTreeMap<String, String>,
}

impl Holdings {
    /// Claims the interfaces of a plan. Nothing is taken from the kernel yet.
    pub(super) fn claim(plan: &Plan) -> Result<Self, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let owner = format!("process {}, {}", std::process::id(), plan.router.socket);
        let guard = TransitGuard::install(&[])
            .map_err(|e| failed("cannot keep transit from the kernel", &e))?;
        let mut holdings = Self {
            claims: Claims::new(&owner).map_err(|e| failed("netlink", &e))?,
            guard: Arc::new(Mutex::new(guard)),
            mode: plan.router.mode,
            taken: BTreeMap::new(),
        };
        holdings.claim_ports(&plan.ports)?;
        Ok(holdings)
    }

    /// Claims the interfaces of ports; one that is not there is claimed when it comes.
    pub(super) fn claim_ports<'a>(
        &mut self,
        ports: impl IntoIterator<Item = &'a PortPlan>,
    ) -> Result<(), String> {
        for port in ports {
            let (name, interface) = (&port.name, &port.interface);
            self.claim_interface(interface).map_err(|error| {
                let remedy = match error {
                    ClaimError::Taken(_) => {
                        "; stop that one first, or give this one another interface"
                    }
                    ClaimError::Failed { .. } => "",
                };
                format!("port `{name}`: interface `{interface}`: {error}{remedy}")
            })?;
        }
        Ok(())
    }

    fn claim_interface(&mut self, interface: &str) -> Result<(), ClaimError> {
        match af_packet::index(interface) {
            Ok(index) => self.claims.claim(index),
            Err(error) if af_packet::device_gone(&error) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives back the claims of interfaces that no port of the plan has, under whatever name.
    pub(super) fn keep_claims_of(&mut self, plan: &Plan) {
        let configured = plan.ports.iter().map(|port| &port.interface);
        let interfaces = configured.chain(self.taken.values());
        let kept: BTreeSet<u32> = interfaces
            .filter_map(|i| af_packet::index(i).ok())
            .collect();
        self.claims.keep_only(&kept);
    }

    /// Takes transit at ports (their names and their interfaces) from the kernel. Waits until it has
    /// been taken: some ten milliseconds. A port without a device is left to the kernel until it has one.
    pub(super) fn take(
        &mut self,
        handle: &Handle,
        ports: &[(String, String)],
    ) -> Result<(), String> {
        let mode = self.mode;
        let asked = ports.to_vec();
        let ports = handle.call(move |worker| {
            let open = |port: &(String, String)| ports::is_open(worker, &port.0);
            asked.into_iter().filter(open).collect::<Vec<_>>()
        });
        let ports = ports.map_err(|e| e.to_string())?;
        if ports.is_empty() {
            return Ok(());
        }
        let interfaces: Vec<_> = ports.iter().map(|(_, i)| (i.as_str(), mode)).collect();
        let failed =
            |e: &dyn std::fmt::Display| format!("cannot keep transit from the kernel: {e}");
        let from = lock(&self.guard)
            .take(&interfaces)
            .map_err(|e| failed(&e))?;
        self.taken.extend(ports.iter().cloned());
        let names: Vec<_> = ports.iter().map(|(name, _)| name.clone()).collect();
        let tenure = Tenure::from(from);
        handle
            .call(move |worker| ports::set_tenure(worker, &names, tenure))
            .map_err(|e| e.to_string())?;
        // The chain judges by the time at which it judges, which may be a little later.
        thread::sleep(from.remaining() + Duration::from_millis(1));
        let names: Vec<_> = ports.iter().map(|(_, i)| i.as_str()).collect();
        lock(&self.guard).settle(&names).map_err(|e| failed(&e))
    }

    /// Takes the transit of one port anew: its interface has come back or has another name, and the
    /// rules may be gone with what it was.
    pub(super) fn take_again(
        &mut self,
        handle: &Handle,
        port: &str,
        interface: &str,
    ) -> Result<(), String> {
        self.forget(&[port.to_owned()])?;
        self.claim_interface(interface).map_err(|e| e.to_string())?;
        self.take(handle, &[(port.to_owned(), interface.to_owned())])
    }

    /// Gives the transit of ports back to the kernel and waits until they have sent what was theirs;
    /// says whether they have. `closing` ports queue nothing more.
    pub(super) fn give_back(
        &mut self,
        handle: &Handle,
        names: &[String],
        closing: bool,
    ) -> Result<bool, String> {
        let taken = || names.iter().filter(|name| self.taken.contains_key(*name));
        let of_taken = taken().filter_map(|name| self.taken.get(name));
        // Rules go with their interface.
        let there = of_taken.filter(|interface| af_packet::index(interface).is_ok());
        let interfaces: Vec<_> = there.map(String::as_str).collect();
        let until = lock(&self.guard).give_back(&interfaces);
        let until = until.map_err(|e| format!("cannot give transit back to the kernel: {e}"))?;
        let tenure = Tenure {
            until,
            ..Tenure::ALWAYS
        };
        let own: Vec<_> = taken().cloned().collect();
        let set = move |worker: &mut _| ports::set_tenure(worker, &own, tenure);
        handle.call(set).map_err(|e| e.to_string())?;
        thread::sleep(until.remaining());
        if closing {
            let own = names.to_vec();
            let close = move |worker: &mut _| ports::close(worker, &own);
            handle.call(close).map_err(|e| e.to_string())?;
        }
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        loop {
            let own = names.to_vec();
            let is_drained = handle.call(move |worker| {
                let none_waits = worker.plane.waiting().neighbours().next().is_none();
                ports::are_drained(worker, &own) && (closing || none_waits)
            });
            match is_drained {
                Ok(true) => return Ok(true),
                Ok(false) if Instant::now() < deadline => thread::sleep(DRAIN_POLL),
                Ok(false) => return Ok(false),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Removes the rules of ports, if they have any.
    pub(super) fn forget(&mut self, names: &[String]) -> Result<(), String> {
        for name in names {
            if let Some(interface) = self.taken.get(name) {
                let removed = lock(&self.guard).unprotect(interface);
                removed.map_err(|e| e.to_string())?;
                self.taken.remove(name);
            }
        }
        Ok(())
    }

    /// What keeps transit from the kernel.
    pub(super) fn guard(&self) -> Arc<Mutex<TransitGuard>> {
        Arc::clone(&self.guard)
    }

    /// The interface that a port has now, if its transit is taken.
    pub(super) fn interface(&self, port: &str) -> Option<&str> {
        self.taken.get(port).map(String::as_str)
    }

    /// The ports whose transit is taken.
    pub(super) fn ports(&self) -> Vec<String> {
        self.taken.keys().cloned().collect()
    }
}
