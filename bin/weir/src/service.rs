//! The routers of a machine: the files and sockets of the package's services, and the routers that run.
//!
//! | service | configuration | socket |
//! |---|---|---|
//! | `weir.service` | `/etc/weir/weir.toml` | `/run/weir/weir.sock` |
//! | `weir@eth1.service` | `/etc/weir/eth1.toml` | `/run/weir@eth1/weir.sock` |
//!
//! `weir queue eth1` has the socket of `weir@eth1.service`. Each service has a folder of its own below `/run`, because
//! systemd removes the folder with the service.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use weir_lfb::Plan;

use crate::{CE_SOCKET_DEFAULT, Failure, SOCKET_DEFAULT};

/// The configuration of `weir.service`.
pub const CONFIGURATION: &str = "/etc/weir/weir.toml";

/// Prefix of the folders of `weir@INTERFACE.service`.
const OF_INTERFACE: &str = "/run/weir@";
/// The file name of each router's socket.
const SOCKET: &str = "weir.sock";

/// The folder of the socket of `weir@INTERFACE.service`.
pub(crate) fn folder_of(interface: &str) -> PathBuf {
    format!("{OF_INTERFACE}{interface}").into()
}

/// The socket of `weir@INTERFACE.service`.
pub(crate) fn socket_of(interface: &str) -> PathBuf {
    folder_of(interface).join(SOCKET)
}

/// The configuration of `weir@INTERFACE.service`.
pub(crate) fn configuration_of(interface: &str) -> PathBuf {
    Path::new("/etc/weir").join(format!("{interface}.toml"))
}

/// The configuration of the service that has this socket; for another socket, that of `weir.service`.
pub(crate) fn configuration_at(socket: &Path) -> PathBuf {
    let folder = socket.parent().and_then(Path::to_str).unwrap_or_default();
    match folder.strip_prefix(OF_INTERFACE) {
        Some(interface) => configuration_of(interface),
        None => CONFIGURATION.into(),
    }
}

/// The socket of a router.
#[derive(Debug, clap::Args)]
pub struct RouterSocket {
    /// The router's `socket` [default: that of the running router: /run/weir/weir.sock, /run/weir@INTERFACE/weir.sock]
    #[arg(long, env = "WEIR_SOCKET")]
    pub socket: Option<PathBuf>,
}

impl RouterSocket {
    /// The given socket, or that of the only router that runs; an error lists them if there are several.
    pub fn path(&self) -> Result<PathBuf, Failure> {
        match &self.socket {
            Some(given) => Ok(given.clone()),
            None => only(routers(Path::new("/run"))),
        }
    }

    /// The socket of the router that runs a configuration: the given socket, or the configured one.
    pub fn path_of(&self, plan: &Plan) -> Result<PathBuf, Failure> {
        match &plan.router.socket {
            named if self.socket.is_none() && named != SOCKET_DEFAULT => Ok(named.into()),
            _ => self.path(),
        }
    }

    /// The socket of the control element: the given socket, or the CE's default.
    pub(crate) fn of_control_element(&self) -> PathBuf {
        let given = self.socket.clone();
        given.unwrap_or_else(|| CE_SOCKET_DEFAULT.into())
    }
}

/// The socket of a control element.
#[derive(Debug, clap::Args)]
pub struct CeSocket {
    /// The control element's `socket`
    #[arg(long, env = "WEIR_SOCKET", default_value = CE_SOCKET_DEFAULT)]
    pub socket: PathBuf,
}

/// The sockets below `run` at which routers answer, in order.
fn routers(run: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(run).into_iter().flatten().flatten();
    let folders = folders.filter(|folder| {
        let name = folder.file_name();
        name == "weir" || name.to_string_lossy().starts_with("weir@")
    });
    let mut sockets: Vec<_> = folders.map(|folder| folder.path().join(SOCKET)).collect();
    sockets.retain(|socket| answers(socket));
    sockets.sort();
    sockets
}

/// Whether a router listens at a socket. A killed router leaves its socket behind, which does not count. A socket
/// without permission for this user counts, so that the error names it.
pub(crate) fn answers(socket: &Path) -> bool {
    let no_router = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    UnixStream::connect(socket).map_or_else(|error| !no_router.contains(&error.kind()), |_| true)
}

/// The socket to query if these routers run.
fn only(mut routers: Vec<PathBuf>) -> Result<PathBuf, Failure> {
    if routers.len() > 1 {
        let names: Vec<_> = routers.iter().map(|s| s.display().to_string()).collect();
        return Err(Failure::Usage(format!(
            "{} routers run on this machine; choose a socket with `--socket` or WEIR_SOCKET: {}",
            names.len(),
            names.join(", ")
        )));
    }
    Ok(routers.pop().unwrap_or_else(|| SOCKET_DEFAULT.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_only_router_is_found_and_several_are_listed() {
        let run = std::env::temp_dir().join(format!("weir-routers-{}", std::process::id()));
        let listen = |folder: &str| {
            fs::create_dir_all(run.join(folder)).unwrap();
            UnixListener::bind(run.join(folder).join(SOCKET)).unwrap()
        };
        let found = || only(routers(&run)).map_err(|failure| failure.to_string());
        assert_eq!(found(), Ok(SOCKET_DEFAULT.into()), "no folder");
        drop(listen("weir")); // as a killed router leaves it
        drop(listen("weir-ce"));
        assert_eq!(found(), Ok(SOCKET_DEFAULT.into()), "no router");
        let _eth1 = listen("weir@eth1");
        assert_eq!(found(), Ok(run.join("weir@eth1/weir.sock")));
        let _eth2 = listen("weir@eth2");
        let why = found().unwrap_err();
        assert!(
            why.contains("--socket") && why.contains("weir@eth1/weir.sock, "),
            "{why}"
        );
        fs::remove_dir_all(&run).unwrap();
    }

    #[test]
    fn a_socket_names_its_configuration() {
        let at = |socket: &Path| configuration_at(socket).display().to_string();
        assert_eq!(at(&socket_of("eth1.5")), "/etc/weir/eth1.5.toml");
        assert_eq!(at(Path::new(SOCKET_DEFAULT)), CONFIGURATION);
        assert_eq!(at(Path::new("a.sock")), CONFIGURATION);
    }
}
