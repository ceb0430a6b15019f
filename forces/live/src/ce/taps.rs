//! The TAP devices of remote ports, each with a task that reads the frames of the CE's own kernel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use weir_ce::exception::remotes::TapPlan;

use super::input::Input;
use weir_live::device::made::MakeError;
use weir_live::device::tap::Tap;
use weir_live::kept_files;
use weir_live::kernel::{addresses, links};
use weir_live::namespace::Namespace;

/// Why a TAP device does not match its plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Tap(#[from] MakeError),
    #[error("cannot set the addresses of the interface `{0}`{1}: {2}")]
    Addresses(String, String, io::Error),
    #[error(transparent)]
    Namespace(#[from] NoNamespace),
}

/// Why a network namespace cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot enter the network namespace `{0}`: {1}; `ip netns add {0}` creates it, and the CE needs CAP_SYS_ADMIN"
)]
pub(super) struct NoNamespace(String, io::Error);

/// Longest frame, in bytes: an Ethernet header, and the longest packet of an interface.
const FRAME_BYTES_MAX: usize = 14 + 65_535;

/// Time between the creation of a device and its addresses.
const ADDRESS_DELAY: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Open {
    tap: Arc<Tap>,
    plan: TapPlan,
    /// Whether the device has the addresses of its plan.
    has_addresses: Arc<AtomicBool>,
    reading: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

#[derive(Debug, Default)]
pub(super) struct Taps {
    open: BTreeMap<String, Open>,
    /// Devices of an earlier process, which the service manager has kept.
    kept: BTreeMap<String, File>,
}

impl Taps {
    /// Continues with the devices of an earlier process.
    pub(super) fn new(kept: BTreeMap<String, File>) -> Self {
        Self {
            kept,
            ..Self::default()
        }
    }

    /// Creates a device, or changes it to match its plan. Recreates a device that somebody has removed.
    pub(super) fn put(
        &mut self,
        plan: TapPlan,
        inputs: &mpsc::Sender<Input>,
    ) -> Result<(), Trouble> {
        self.open.retain(|_, open| !open.reading.is_finished());
        if let Some(open) = self.open.get_mut(&plan.interface) {
            if open.plan != plan {
                within(plan.namespace.as_deref(), || set(&open.tap, &plan))??;
                open.has_addresses.store(false, Ordering::Relaxed);
                open.plan = plan;
            }
            if !open.has_addresses.load(Ordering::Relaxed) {
                address(&open.plan)?;
                open.has_addresses.store(true, Ordering::Relaxed);
            }
            return Ok(());
        }
        let tap = Arc::new(self.make(&plan)?);
        let has_addresses = Arc::new(AtomicBool::new(false));
        tokio::spawn(address_later(plan.clone(), Arc::clone(&has_addresses)));
        let reading = tokio::spawn(read(Arc::clone(&tap), inputs.clone())).abort_handle();
        let interface = &plan.interface;
        if let Err(error) = kept_files::keep(interface, tap.file()) {
            tracing::warn!(interface, %error, "the service manager cannot keep the TAP device when the CE ends");
        }
        tracing::info!(interface, "acting for a port of a forwarding element");
        let name = interface.clone();
        let open = Open {
            tap,
            plan,
            has_addresses,
            reading,
        };
        self.open.insert(name, open);
        Ok(())
    }

    /// The device of an earlier process, if that is usable, or a new device.
    fn make(&mut self, plan: &TapPlan) -> Result<Tap, Trouble> {
        let runtime = tokio::runtime::Handle::current();
        let name = &plan.interface;
        let made = |kept: Option<File>| {
            within(plan.namespace.as_deref(), || {
                let _context = runtime.enter();
                let tap = Tap::open(name, plan.mac, plan.mtu, kept)?;
                set(&tap, plan).map(|()| tap)
            })
        };
        if let Some(kept) = self.kept.get(name).and_then(|file| file.try_clone().ok()) {
            let tap = made(Some(kept))?;
            self.kept.remove(name);
            match tap {
                Ok(tap) => return Ok(tap),
                Err(why) => {
                    tracing::warn!(interface = name, %why, "cannot continue with the TAP device of an earlier process");
                    let _ = kept_files::forget(name); // without a service manager there is nothing to forget
                }
            }
        }
        made(None)?
    }

    /// Passes a frame to the kernel; the device counts frames that the kernel does not accept.
    pub(super) fn send(&self, interface: &str, frame: &[u8]) {
        if let Some(open) = self.open.get(interface)
            && let Err(error) = open.tap.send(frame)
        {
            tracing::debug!(interface, %error, "the kernel rejected a frame");
        }
    }
}

/// Sets up a device as its plan requires, without addresses.
fn set(tap: &Tap, plan: &TapPlan) -> Result<(), Trouble> {
    tap.set_mac(plan.mac)?;
    tap.set_mtu(plan.mtu)?;
    tap.set_carrier(plan.carrier)?;
    if !plan.carrier
        && let Err(error) = links::set_dormant(&plan.interface)
    {
        tracing::debug!(%error, "the kernel announces the loss of the carrier up to a second later");
    }
    Ok(())
}

/// Gives a device the addresses of its plan.
fn address(plan: &TapPlan) -> Result<(), Trouble> {
    let wanted = plan.addresses.iter().copied().collect();
    let set = within(plan.namespace.as_deref(), || {
        addresses::set(&plan.interface, &wanted)
    })?;
    set.map_err(|(net, error)| {
        let of = net.map(|net| format!(" ({net})"));
        Trouble::Addresses(plan.interface.clone(), of.unwrap_or_default(), error)
    })
}

/// Gives a new device its addresses after a short delay: zebra (FRR 8.4) drops an address that is announced before it
/// knows the interface.
async fn address_later(plan: TapPlan, has_addresses: Arc<AtomicBool>) {
    tokio::time::sleep(ADDRESS_DELAY).await;
    let done = tokio::task::spawn_blocking(move || address(&plan)).await;
    match done {
        Ok(Ok(())) => has_addresses.store(true, Ordering::Relaxed),
        Ok(Err(error)) => tracing::error!(%error, "the CE cannot act for a port; retrying"),
        Err(error) => tracing::error!(%error, "the task that sets the addresses of a port failed"),
    }
}

/// Runs `work` in a network namespace, on a thread of its own; `None` is the caller's namespace.
pub(super) fn within<T: Send>(
    namespace: Option<&str>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, NoNamespace> {
    let Some(name) = namespace else {
        return Ok(work());
    };
    let inside = Namespace::named(name).and_then(|namespace| namespace.enter(work));
    inside.map_err(|error| NoNamespace(name.to_owned(), error))
}

/// Forwards frames from the kernel, each when the input queue has room; meanwhile frames wait in the device's bounded
/// queue.
async fn read(tap: Arc<Tap>, inputs: mpsc::Sender<Input>) {
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    loop {
        let frame = match tap.receive(&mut buffer).await {
            Ok(len) => buffer[..len].to_vec(),
            Err(error) => {
                let interface = tap.name();
                tracing::warn!(interface, %error, "the TAP device was deleted; recreating it");
                return;
            }
        };
        let name = tap.name().to_owned();
        if inputs.send(Input::Frame(name, frame)).await.is_err() {
            return;
        }
    }
}
