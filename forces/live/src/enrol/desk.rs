//! The listener of a CE for enrolment and renewal: TLS 1.3 on TCP.
//!
//! A connection has one request, and [`CONTACT_MAX`] for everything. Few are open at a time
//! ([`crate::tml::handshakes`]), so a million connections take the memory of [`CONTACTS_MAX`].

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time;
use tokio_rustls::TlsAcceptor;

use super::registrar::Registrar;
use super::{ALPN, Answer, CONTACT_MAX, receive, send};
use crate::tml::handshakes::{ACCEPT_PAUSE, Handshakes, source};
use crate::tml::identity::Certificate;
use crate::tml::{Fault, Faults, TmlError, tls};

/// Maximum open connections.
const CONTACTS_MAX: usize = 32;
/// Interval at which the CE checks the expiry of its own certificate.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

/// The listener.
pub struct Desk {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    registrar: Arc<Registrar>,
    faults: Arc<Faults>,
}

impl Desk {
    /// Listens at this address.
    pub async fn open(
        address: SocketAddr,
        registrar: Arc<Registrar>,
        faults: Arc<Faults>,
    ) -> Result<Self, TmlError> {
        let admits = Arc::clone(&registrar);
        let identity = Arc::clone(registrar.identity());
        let config = tls::server(identity, ALPN, move |shown| admits.admit(shown))?;
        let listener = TcpListener::bind(address).await;
        Ok(Self {
            listener: listener.map_err(TmlError::io("listen on TCP at", address))?,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            registrar,
            faults,
        })
    }

    /// The local address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves FEs, until the returned future is dropped.
    pub async fn run(self) -> Infallible {
        let mut contacts = Handshakes::new(CONTACTS_MAX);
        let mut check = time::interval(CHECK_EVERY);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = check.tick() => {
                    let registrar = Arc::clone(&self.registrar);
                    tokio::task::spawn_blocking(move || registrar.renew_in_time());
                    continue;
                }
            };
            match accepted {
                Ok((_, peer)) if self.registrar.is_blocked(source(peer.ip())) => {
                    let what = format_args!("{peer}: too many wrong tokens");
                    self.faults.report(Fault::TooMany, what);
                }
                Ok((tcp, peer)) => {
                    let contact = contact(
                        self.acceptor.clone(),
                        Arc::clone(&self.registrar),
                        Arc::clone(&self.faults),
                        tcp,
                        peer,
                    );
                    contacts.begin(peer.ip(), &self.faults, contact);
                }
                Err(error) => {
                    self.faults.report(
                        Fault::Handshake,
                        format_args!("cannot accept a connection: {error}"),
                    );
                    time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves one connection.
async fn contact(
    acceptor: TlsAcceptor,
    registrar: Arc<Registrar>,
    faults: Arc<Faults>,
    tcp: TcpStream,
    peer: SocketAddr,
) {
    let served = time::timeout(
        CONTACT_MAX,
        serve(acceptor, registrar, tcp, source(peer.ip())),
    );
    match served.await {
        Ok(Ok(Answer::Admitted { .. })) => {}
        Ok(Ok(Answer::Refused(why))) => {
            faults.report(Fault::Enrolment, format_args!("{peer}: {why}"))
        }
        Ok(Err(error)) => faults.report(tls::fault_of(&error), format_args!("{peer}: {error}")),
        Err(_) => {
            let what = format_args!("{peer}: no request within {CONTACT_MAX:?}");
            faults.report(Fault::Handshake, what);
        }
    }
}

async fn serve(
    acceptor: TlsAcceptor,
    registrar: Arc<Registrar>,
    tcp: TcpStream,
    source: IpAddr,
) -> io::Result<Answer> {
    let mut stream = acceptor.accept(tcp).await?;
    let request = receive(&mut stream).await?;
    let shown = stream.get_ref().1.peer_certificates();
    let shown = shown.and_then(|shown| shown.first());
    let shown = shown.ok_or(io::ErrorKind::InvalidData)?;
    let shown = Certificate::from_der(shown).map_err(io::Error::other)?;
    let answer = move || registrar.answer(source, &shown, &request);
    let answer = tokio::task::spawn_blocking(answer).await?;
    send(&mut stream, &answer).await?;
    Ok(answer)
}
