//! An FE's side of enrolment and renewal.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, Error};
use tokio::net::TcpStream;
use tokio::time;
use tokio_rustls::TlsConnector;
use weir_protocol::wire::Id;

use super::files::{Files, write_pins};
use super::token::Token;
use super::{ALPN, Answer, CONTACT_MAX, RENEW_DAYS, Request, receive, send};
use crate::tml::identity::{Certificate, Fingerprint, PINS_MAX};
use crate::tml::{Identity, Pins, tls};

/// An FE.
#[derive(Clone, Debug)]
pub struct Fe {
    /// ForCES ID.
    pub id: u32,
    /// Name in certificates that the FE makes; only for human readers.
    pub name: String,
    /// Certificate and key of the FE.
    pub own: Files,
    /// The CEs at which the FE enrols.
    pub ces: Vec<Ce>,
    /// Whether every CE gets the FE's next certificate by a contact. Otherwise the FE makes none.
    pub renews: bool,
}

/// A CE of an FE.
#[derive(Clone, Debug)]
pub struct Ce {
    /// Name in the FE's configuration.
    pub name: String,
    /// Address of its desk.
    pub desk: SocketAddr,
    /// File with the certificates of the CE.
    pub pins: PathBuf,
}

/// The result of contacts with the CEs.
#[derive(Debug, Default)]
pub struct Contacts {
    /// The changes of files, one line each.
    pub changes: Vec<String>,
    /// Failed contacts, one line each.
    pub failures: Vec<String>,
}

/// How an FE authenticates a CE.
type Admits = Box<dyn Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync>;

/// The CE has revoked our certificate.
const REVOKED: Error = Error::AlertReceived(AlertDescription::CertificateRevoked);
/// The CE does not know our certificate.
const UNKNOWN: Error = Error::AlertReceived(AlertDescription::CertificateUnknown);

impl Fe {
    /// Enrols at a CE with a token: makes a key and a certificate, and stores the certificates of the CE. An FE whose
    /// certificate another CE has pinned presents the same certificate. Returns the changes, one line each.
    pub async fn enrol(&self, ce: &Ce, token: &Token) -> Result<Vec<String>, String> {
        self.own.recover();
        let is_new = !self.own.key.exists() || (self.renews && self.ces.len() == 1);
        let identity = if is_new {
            self.own.make_next(&self.name)?
        } else {
            self.own.read().map_err(|e| e.to_string())?
        };
        let of_token = token.clone();
        let admits = move |shown: &CertificateDer<'_>| {
            let shown = Fingerprint::of(shown);
            let why = || format!("its certificate has the SHA-256 fingerprint {shown}");
            let is_right = of_token.is_of(shown).then_some(());
            is_right.ok_or_else(|| Error::General(why()))
        };
        let request = Request {
            id: self.id,
            secret: Some(token.secret()),
            next: None,
            trusts: Vec::new(),
        };
        let identity = Arc::new(identity);
        let asked = ask(ce, &identity, Box::new(admits), &request).await;
        let (fe, pins) = asked.map_err(|error| {
            let mut why = explained(ce, &error);
            if is_new && tls_error(&error) == Some(&REVOKED) {
                self.own.remove_next();
                why.push_str("; repeat the command, which then makes another key");
            }
            why
        })?;
        // From here on the CE trusts the certificate; a second attempt with the same key needs no token.
        let io = |error: io::Error| error.to_string();
        write_pins(&ce.pins, &pins).map_err(io)?;
        if is_new {
            self.own.replace().map_err(io)?;
        }
        let own = self.own.certificate.display();
        let (key, of_ce) = (self.own.key.display(), ce.pins.display());
        Ok(vec![
            format!("enrolled as {fe}, SHA-256 {}", identity.fingerprint()),
            format!(
                "{own}: the certificate\n{key}: the key; keep it here\n{of_ce}: the certificate of the CE"
            ),
            format!("valid for {} days", identity.certificate().days_left()),
        ])
    }

    /// Contacts each CE: stores its certificates, and renews our certificate if it expires soon, or if `renews_now`.
    pub async fn contact(&self, renews_now: bool) -> Contacts {
        let mut contacts = Contacts::default();
        if let Err(why) = self.try_contact(renews_now, &mut contacts).await {
            contacts.failures.push(why);
        }
        contacts
    }

    async fn try_contact(&self, renews_now: bool, contacts: &mut Contacts) -> Result<(), String> {
        self.own.recover();
        let identity = Arc::new(self.own.read().map_err(|e| e.to_string())?);
        let is_due = renews_now || identity.certificate().days_left() < RENEW_DAYS;
        let next = (is_due && self.renews).then(|| self.own.make_next(&self.name));
        let next = next.transpose()?;
        for ce in &self.ces {
            let text = next.as_ref().map(|next| next.certificate().to_pem());
            match self.exchange(ce, &identity, text).await {
                Ok(true) => contacts
                    .changes
                    .push(format!("~ ce.{}: certificates changed", ce.name)),
                Ok(false) => {}
                Err(why) => contacts.failures.push(format!("[ce.{}]: {why}", ce.name)),
            }
        }
        if let Some(next) = next
            && contacts.failures.is_empty()
        {
            self.own.replace().map_err(|error| error.to_string())?;
            contacts
                .changes
                .push(format!("~ fe: certificate {}", next.fingerprint()));
        }
        Ok(())
    }

    /// One contact. Returns whether the certificates of the CE have changed.
    async fn exchange(
        &self,
        ce: &Ce,
        identity: &Arc<Identity>,
        next: Option<String>,
    ) -> Result<bool, String> {
        let known = Certificate::read_pins(&ce.pins).map_err(|e| e.to_string())?;
        let pins = Pins::new(known.iter().map(|pin| (Id(0), pin.clone())));
        let pins = pins.map_err(|e| e.to_string())?;
        let request = Request {
            id: self.id,
            secret: None,
            next,
            trusts: known
                .iter()
                .map(|pin| pin.fingerprint().to_string())
                .collect(),
        };
        let admits = move |shown: &CertificateDer<'_>| tls::check(&pins, shown);
        let asked = ask(ce, identity, Box::new(admits), &request).await;
        let (_, new) = asked.map_err(|error| explained(ce, &error))?;
        if new == known {
            return Ok(false);
        }
        write_pins(&ce.pins, &new).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

/// Sends a request. Returns the name of the FE at the CE, and the certificates of the CE.
async fn ask(
    ce: &Ce,
    identity: &Arc<Identity>,
    admits: Admits,
    request: &Request,
) -> io::Result<(String, Vec<Certificate>)> {
    let asked = time::timeout(CONTACT_MAX, exchange(ce.desk, identity, admits, request)).await;
    let late = || io::Error::other(format!("no answer within {CONTACT_MAX:?}"));
    let (shown, answer) = asked.unwrap_or_else(|_| Err(late()))?;
    let (fe, certificates) = match answer {
        Answer::Admitted { fe, certificates } => (fe, certificates),
        Answer::Refused(why) => return Err(io::Error::other(format!("the CE refuses: {why}"))),
    };
    let pins = certificates.iter().map(|text| Certificate::from_pem(text));
    let pins = pins.collect::<Result<Vec<_>, _>>();
    let pins = pins.map_err(io::Error::other)?;
    if pins.len() <= PINS_MAX && pins.iter().any(|pin| pin.fingerprint() == shown) {
        Ok((fe, pins))
    } else {
        let why = "the CE does not list the certificate that it presents";
        Err(io::Error::other(why))
    }
}

/// Sends a request. Returns the fingerprint of the CE's certificate, and the answer.
async fn exchange(
    desk: SocketAddr,
    identity: &Arc<Identity>,
    admits: Admits,
    request: &Request,
) -> io::Result<(Fingerprint, Answer)> {
    let config = tls::client(Arc::clone(identity), ALPN, admits).map_err(io::Error::other)?;
    let name = tls::SERVER_NAME.try_into().map_err(io::Error::other)?;
    let tcp = TcpStream::connect(desk).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, tcp).await?;
    // If the CE has refused our certificate, sending may fail, and its alert has the reason.
    let _ = send(&mut stream, request).await;
    let answer = receive(&mut stream).await?;
    let shown = stream.get_ref().1.peer_certificates();
    let shown = shown.and_then(|shown| shown.first());
    let shown = shown.ok_or(io::ErrorKind::InvalidData)?;
    Ok((Fingerprint::of(shown), answer))
}

/// Errors of a connection that the peer has closed. Its TLS alert may be lost.
const CLOSED: [io::ErrorKind; 3] = [
    io::ErrorKind::UnexpectedEof,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::BrokenPipe,
];

/// The reason of a failed contact, with its probable cause.
fn explained(ce: &Ce, error: &io::Error) -> String {
    let why = match tls_error(error) {
        Some(error) if *error == REVOKED => "the CE has revoked our certificate".to_owned(),
        Some(error) if *error == UNKNOWN => {
            "the CE refuses our certificate, and has no open token".to_owned()
        }
        Some(Error::General(why)) => {
            format!("this is not the CE of the token, or its certificate has been replaced: {why}")
        }
        Some(Error::InvalidCertificate(_)) => format!("this is not the CE that we trust: {error}"),
        _ if CLOSED.contains(&error.kind()) => {
            "the CE closed the connection: it refuses our certificate, or had too many wrong tokens from here"
                .to_owned()
        }
        _ => error.to_string(),
    };
    format!("{}: {why}", ce.desk)
}

/// The error of a handshake.
fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}
