//! The TAP devices of remote ports, each with a task that reads the frames of the CE's own kernel.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use weir_ce::exception::remotes::TapPlan;

use super::input::Input;
use weir_live::device::made::MakeError;
use weir_live::device::tap::Tap;
use weir_live::kernel::addresses;

/// Why a TAP device does not match its plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Tap(#[from] MakeError),
    #[error("cannot add to the interface `{0}` the address {1}: {2}")]
    Address(String, ipnet::IpNet, io::Error),
}

/// Longest frame, in bytes: an Ethernet header, and the longest packet of an interface.
const FRAME_BYTES_MAX: usize = 14 + 65_535;

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
pub(super) struct Taps(BTreeMap<String, Open>);

impl Taps {
    /// Creates a device, or changes it to match its plan. Recreates a device that somebody has removed.
    pub(super) fn put(
        &mut self,
        plan: TapPlan,
        inputs: &mpsc::Sender<Input>,
    ) -> Result<(), Trouble> {
        self.0.retain(|_, open| !open.reading.is_finished());
        if let Some(open) = self.0.get_mut(&plan.interface) {
            if open.plan != plan {
                // MAC address and MTU are set by name, which fails for a device in a router's own namespace; the
                // carrier follows the port there too.
                if open.plan.mac != plan.mac {
                    open.tap.set_mac(plan.mac)?;
                }
                if open.plan.mtu != plan.mtu {
                    open.tap.set_mtu(plan.mtu)?;
                }
                open.tap.set_carrier(plan.carrier)?;
                open.plan = plan;
            }
            return Ok(());
        }
        let tap = Arc::new(Tap::open(&plan.interface, plan.mac, plan.mtu)?);
        for address in &plan.addresses {
            addresses::add(&plan.interface, *address)
                .map_err(|error| Trouble::Address(plan.interface.clone(), *address, error))?;
        }
        tap.set_carrier(plan.carrier)?;
        let reading = tokio::spawn(read(Arc::clone(&tap), inputs.clone())).abort_handle();
        tracing::info!(
            interface = plan.interface,
            "acting for a port of a forwarding element"
        );
        let name = plan.interface.clone();
        self.0.insert(name, Open { tap, plan, reading });
        Ok(())
    }

    /// Passes a frame to the kernel; the device counts frames that the kernel does not accept.
    pub(super) fn send(&self, interface: &str, frame: &[u8]) {
        if let Some(open) = self.0.get(interface)
            && let Err(error) = open.tap.send(frame)
        {
            tracing::debug!(interface, %error, "the kernel rejected a frame");
        }
    }
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
