//! Enrolment: how an FE and its CE get each other's certificates, renew them, and revoke them.
//!
//! ```text
//!  operator at the CE                    operator at the FE
//!  weir invite edge1 -- token --> weir enrol fe.toml TOKEN
//!                                          makes a key, which never leaves the machine
//!  [Registrar] <- Desk <=== TLS 1.3 === FE certificate, token ---- [client]
//!   pins the certificate of edge1 ----> certificates of the CE
//! ```
//!
//! There is no certification authority ([`crate::tml::identity`]): the CE pins the certificate that the FE has made, and
//! the FE pins the certificates of the CE. Both prove their keys in the TLS handshake.
//!
//! - [`token`]: one-time tokens. A token contains the fingerprint of the CE's certificate, so the FE authenticates the CE
//!   before it sends the secret part. The CE keeps only a hash of the secret.
//! - [`registrar`]: what the CE decides: invitations, pins, revocations, its own next certificate
//! - [`desk`]: the CE's listener. It completes a handshake with an unknown certificate only while a token is open.
//! - [`client`]: the FE's side
//! - [`files`]: certificates and keys on disk; a replacement survives a crash at any time
//!
//! **An FE contacts the desk every hour**, with its present certificate. It sends the certificates of the CE that it
//! trusts, and its next certificate if it has made one. The answer has the certificates that the CE presents now and next.
//!
//! **Rotation of an FE's certificate.** The CE pins the next certificate in addition. Then the FE replaces its files, and
//! uses the new certificate for the next contact, whereupon the CE removes the old pin.
//!
//! **Rotation of a CE's certificate.** The CE makes the next certificate, and hands out both. It presents the next one
//! when every FE that has a certificate trusts it.
//!
//! **Messages** are one line of JSON in each direction of a TLS connection, at most [`MESSAGE_BYTES_MAX`] long.

pub mod client;
pub mod desk;
pub mod files;
pub mod registrar;
pub mod token;

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// The application protocol (RFC 7301).
const ALPN: &[u8] = b"weir-enrol/1";
/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: u64 = 32 << 10;
/// Timeout for a whole contact.
const CONTACT_MAX: Duration = Duration::from_secs(10);
/// Days before the expiry of its certificate at which an element makes the next one.
const RENEW_DAYS: i64 = crate::tml::identity::WARN_DAYS;
/// Validity of a certificate that an element makes for itself, in days.
const VALID_DAYS: u32 = 365;

/// An FE's message.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// ForCES ID of the FE.
    id: u32,
    /// The secret of a token, if the CE does not know the certificate of this connection.
    secret: Option<String>,
    /// The FE's next certificate in PEM.
    next: Option<String>,
    /// Fingerprints of the CE's certificates that the FE trusts.
    trusts: Vec<String>,
}

/// The CE's answer.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Admitted {
        /// Name of the FE at the CE.
        fe: String,
        /// Certificates of the CE in PEM: the present one, and the next one during a rotation.
        certificates: Vec<String>,
    },
    /// The request is refused, with the reason.
    Refused(String),
}

/// Sends one message.
async fn send(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Receives one message.
async fn receive<T: DeserializeOwned>(from: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let mut line = Vec::new();
    let mut reader = BufReader::new(from.take(MESSAGE_BYTES_MAX));
    reader.read_until(b'\n', &mut line).await?;
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
