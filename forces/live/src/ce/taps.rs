//! The TAP devices of remote ports, each with a task that reads the frames of the CE's own kernel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
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
    "cannot enter the network namespace `{0}`: {1}; `ip netns add {0}` makes it, and the CE needs CAP_SYS_ADMIN"
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
        let old = self.open.get(&plan.interface);
        if old.is_some_and(|open| open.plan == plan) {
            return Ok(());
        }
        let old = old.map(|open| Arc::clone(&open.tap));
        let is_new = old.is_none();
        let kept = self.kept.remove(&plan.interface);
        let runtime = tokio::runtime::Handle::current();
        let tap = within(plan.namespace.as_deref(), || {
            let _context = runtime.enter();
            made(&plan, old, kept)
        })??;
        if is_new {
            tokio::spawn(address_later(plan.clone()));
        } else {
            address(&plan)?;
        }
        if let Some(open) = self.open.get_mut(&plan.interface) {
            open.plan = plan;
            return Ok(());
        }
        let reading = tokio::spawn(read(Arc::clone(&tap), inputs.clone())).abort_handle();
        let interface = &plan.interface;
        if let Err(error) = kept_files::keep(interface, tap.file()) {
            tracing::warn!(interface, %error, "the service manager cannot keep the TAP device when the CE ends");
        }
        tracing::info!(interface, "acting for a port of a forwarding element");
        let name = interface.clone();
        self.open.insert(name, Open { tap, plan, reading });
        Ok(())
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

/// The device of a plan: the open device `old`, or the device of an earlier process, or a new device.
fn made(plan: &TapPlan, old: Option<Arc<Tap>>, kept: Option<File>) -> Result<Arc<Tap>, Trouble> {
    let tap = match old {
        Some(tap) => tap,
        None => Arc::new(Tap::open(&plan.interface, plan.mac, plan.mtu, kept)?),
    };
    tap.set_mac(plan.mac)?;
    tap.set_mtu(plan.mtu)?;
    tap.set_carrier(plan.carrier)?;
    if !plan.carrier
        && let Err(error) = links::set_dormant(&plan.interface)
    {
        tracing::debug!(%error, "the kernel announces the loss of the carrier up to a second later");
    }
    Ok(tap)
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

/// Gives a new device its addresses a little later: zebra (FRR 8.4) forgets an address of which it hears before it has
/// taken note of the interface.
async fn address_later(plan: TapPlan) {
    tokio::time::sleep(ADDRESS_DELAY).await;
    if let Err(error) = address(&plan) {
        tracing::error!(%error, "the CE cannot act for a port");
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
