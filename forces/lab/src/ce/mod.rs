//! The CE's side of a load test: a process that serves FEs until standard input ends, and reports for each line.
//!
//! - [`tml`]: only the transport, with a fixed processor time for each event
//! - [`session`]: with associations and heartbeats

pub mod session;
pub mod tml;

use std::io;

use tokio::runtime::Builder;
use weir_experiment::load::FES_MAX;
use weir_forces_live::tml::{Common, Link, Listener, Local, TmlError};
use weir_live::clock::go_first;
use weir_live::namespace::raise_file_limit;

use crate::FILES;
use crate::channel::CeAddress;
use crate::lines::{Line, requests, say};

/// The work of a CE on its links.
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
