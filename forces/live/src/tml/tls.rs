//! TLS 1.3 with certificates on both sides. The caller decides which certificates of a peer it admits: usually the pinned
//! certificates.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, ServerConfig, SignatureScheme,
};

use super::faults::Fault;
use super::identity::{Fingerprint, Identity, Pins, Proof};
use super::{Pinned, TmlError};

/// The application protocol of ForCES (RFC 7301).
const ALPN: &[u8] = b"forces/1";
/// The server name in a client's configuration. It is neither checked nor sent.
pub(crate) const SERVER_NAME: &str = "forces";

impl ResolvesServerCert for Identity {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// TLS configuration of an FE.
pub(super) fn of_fe(Pinned { identity, peers }: &Pinned) -> Result<ClientConfig, TmlError> {
    let peers = Arc::clone(peers);
    client(Arc::clone(identity), ALPN, move |shown| {
        check(&peers, shown)
    })
}

/// TLS configuration of a CE.
pub(super) fn of_ce(Pinned { identity, peers }: &Pinned) -> Result<ServerConfig, TmlError> {
    let peers = Arc::clone(peers);
    server(Arc::clone(identity), ALPN, move |shown| {
        check(&peers, shown)
    })
}

/// TLS configuration of a client, for an application protocol.
pub(crate) fn client(
    identity: Arc<Identity>,
    alpn: &[u8],
    admits: impl Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync + 'static,
) -> Result<ClientConfig, TmlError> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(admits)))
        .with_client_cert_resolver(identity);
    config.alpn_protocols = vec![alpn.to_vec()];
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// TLS configuration of a server, for an application protocol.
pub(crate) fn server(
    identity: Arc<Identity>,
    alpn: &[u8],
    admits: impl Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync + 'static,
) -> Result<ServerConfig, TmlError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .with_client_cert_verifier(Arc::new(Verifier::new(admits)))
        .with_cert_resolver(identity);
    config.alpn_protocols = vec![alpn.to_vec()];
    config.send_tls13_tickets = 0; // each link authenticates itself
    Ok(config)
}

/// Checks that a certificate is pinned.
pub(crate) fn check(pins: &Pins, shown: &CertificateDer<'_>) -> Result<(), Error> {
    if pins.owner(shown).is_some() {
        return Ok(());
    }
    let pin = Fingerprint::of(shown);
    if pins.is_revoked(pin) {
        return Err(CertificateError::Revoked.into());
    }
    Err(CertificateError::Other(OtherError(Arc::new(UnknownCertificate(pin)))).into())
}

/// The certificate that the peer has presented, and its owner.
pub(super) fn proof(pins: &Pins, shown: Option<&[CertificateDer<'_>]>) -> Option<Proof> {
    let shown = shown?.first()?;
    Some((pins.owner(shown)?, Fingerprint::of(shown)))
}

/// The fault of a failed handshake.
fn fault(error: &Error) -> Fault {
    match error {
        Error::NoCertificatesPresented
        | Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
            Fault::NoCertificate
        }
        Error::InvalidCertificate(CertificateError::Revoked) => Fault::Revoked,
        Error::InvalidCertificate(_) => Fault::UnknownCertificate,
        _ => Fault::Handshake,
    }
}

/// The fault of a failed handshake over TCP.
pub(crate) fn fault_of(error: &io::Error) -> Fault {
    let cause = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    cause.map_or(Fault::Handshake, fault)
}

fn tls(error: Error) -> TmlError {
    let why = error.to_string();
    TmlError::Tls { why }
}

pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// A certificate that belongs to no configured ID.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has no ID for the certificate with SHA-256 fingerprint {0}")]
struct UnknownCertificate(Fingerprint);

/// Decides about the certificate of a peer.
type Admits = dyn Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync;

/// Accepts the certificates that the caller admits.
struct Verifier {
    admits: Box<Admits>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    fn new(
        admits: impl Fn(&CertificateDer<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            admits: Box::new(admits),
            algorithms: provider().signature_verification_algorithms,
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signature, &self.algorithms)
    }
}

/// TLS 1.2 is not offered, so it is never verified.
fn tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        (self.admits)(shown).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        (self.admits)(shown).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
