//! The CE's side of a load test: a process that serves FEs until standard input ends, and reports for each line.
//!
//! - [`tml`]: only the transport, with a fixed processor time for each event
//! - [`session`]: with associations and heartbeats

pub mod session;
pub mod tml;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use weir_forces_live::tml::{Common, Link, Listener, Local, Remote, TmlError};
use weir_live::clock::go_first;
use weir_live::namespace::raise_file_limit;

use crate::FILES;
use crate::lines::{Line, requests, say};
use weir_experiment::load::FES_MAX;

/// The address of a CE for control messages, and its port for redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CeAddress {
    /// For control messages.
    pub control: SocketAddr,
    /// Port for redirects.
    pub redirect_port: u16,
}

impl CeAddress {
    /// The CE from an FE's point of view.
    pub(crate) fn remote(self, common: Common) -> Remote {
        Remote {
            address: self.control,
            redirect_port: Some(self.redirect_port),
            common,
        }
    }
}

impl FromStr for CeAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" must be ADDRESS:PORT/PORT, like 127.0.0.1:6704/6706");
        let (control, redirect_port) = text.split_once('/').ok_or_else(wrong)?;
        Ok(Self {
            control: control.parse().map_err(|_| wrong())?,
            redirect_port: redirect_port.parse().map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for CeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.control, self.redirect_port)
    }
}

/// What a CE does with its links.
trait Serve {
    /// Serves a new link.
    fn open(&mut self, link: Link);

    /// Waits for the next input of the server, and handles it.
    async fn turn(&mut self);

    /// The counts so far.
    fn report(&mut self) -> io::Result<Line>;
}

/// A free port of this machine, for all FEs of a test.
fn local(common: Common) -> Local {
    Local {
        address: ([127, 0, 0, 1], 0).into(),
        redirect_port: Some(0),
        links_max: FES_MAX as usize,
        handshakes_max: FES_MAX as usize,
        common,
    }
}

/// Serves until standard input ends.
fn run(
    listening: impl Future<Output = Result<Listener, TmlError>>,
    mut server: impl Serve,
) -> io::Result<()> {
    raise_file_limit(u64::from(FES_MAX) + FILES)?;
    let _ = go_first(); // without the privilege, other programs disturb the test
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut listener = listening.await.map_err(io::Error::other)?;
        say(&Line::Listening(CeAddress {
            control: listener.address(),
            redirect_port: listener.redirect_port(),
        }))?;
        let mut requests = requests()?;
        loop {
            tokio::select! {
                request = requests.recv() => match request {
                    Some(()) => say(&server.report()?)?,
                    None => return Ok(()),
                },
                link = listener.accept() => match link {
                    Some(link) => server.open(link),
                    None => return Err(io::Error::other("the listening socket failed")),
                },
                () = server.turn() => {}
            }
        }
    })
}
