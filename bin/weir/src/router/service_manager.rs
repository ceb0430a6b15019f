//! Notifies the service manager (sd_notify(3)) with one datagram to the socket named in `NOTIFY_SOCKET`. Without a
//! service manager it does nothing.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The router forwards.
pub(super) const READY: &str = "READY=1";
/// The router is alive.
pub(super) const ALIVE: &str = "WATCHDOG=1";
/// The router is stopping in an orderly way.
pub(super) const STOPPING: &str = "STOPPING=1";

/// The status text: whether the router or the kernel forwards.
pub(super) const fn status(is_handed_back: bool) -> &'static str {
    if is_handed_back {
        "STATUS=the kernel forwards: `weir show status` explains why"
    } else {
        "STATUS=weir forwards"
    }
}

/// Notifies the service manager, if there is one.
pub(super) fn notify(state: &str) {
    if let Err(error) = send(state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

fn send(state: &str) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let address = match name.as_bytes() {
        [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name)?,
        _ => SocketAddr::from_pathname(&name)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}
