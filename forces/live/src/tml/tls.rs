//! TLS 1.3 with pinned certificates on both sides.

use std::fmt;
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
use weir_protocol::wire::Id;

use super::faults::Fault;
use super::identity::{Fingerprint, Identity, Pins, fingerprint};
use super::{Pinned, TmlError};

/// The application protocol (RFC 7301).
const ALPN: &[u8] = b"forces/1";
/// The server name in a client's configuration. It is neither checked nor sent.
pub(super) const SERVER_NAME: &str = "forces";

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
pub(super) fn client(pinned: &Pinned) -> Result<ClientConfig, TmlError> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier::new(pinned)))
        .with_client_cert_resolver(pinned.identity.clone());
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// TLS configuration of a CE.
pub(super) fn server(pinned: &Pinned) -> Result<ServerConfig, TmlError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .with_client_cert_verifier(Arc::new(Verifier::new(pinned)))
        .with_cert_resolver(pinned.identity.clone());
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0; // each link authenticates itself
    Ok(config)
}

/// The owner of the certificate that the peer has presented.
pub(super) fn owner(pins: &Pins, shown: Option<&[CertificateDer<'_>]>) -> Option<Id> {
    pins.owner(shown?.first()?)
}

/// The fault of a failed handshake.
pub(super) fn fault(error: &Error) -> Fault {
    match error {
        Error::NoCertificatesPresented
        | Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
            Fault::NoCertificate
        }
        Error::InvalidCertificate(_) => Fault::UnknownCertificate,
        _ => Fault::Handshake,
    }
}

fn tls(error: Error) -> TmlError {
    let why = error.to_string();
    TmlError::Tls { why }
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// A certificate that belongs to no configured ID.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has no ID for the certificate with SHA-256 fingerprint {0}")]
struct UnknownCertificate(Fingerprint);

/// Accepts only the certificates of the peers.
struct Verifier {
    pins: Arc<Pins>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl Verifier {
    fn new(pinned: &Pinned) -> Self {
        Self {
            pins: pinned.peers.clone(),
            algorithms: provider().signature_verification_algorithms,
        }
    }

    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        match self.pins.owner(shown) {
            Some(_) => Ok(()),
            None => {
                let unknown = UnknownCertificate(fingerprint(shown));
                Err(CertificateError::Other(OtherError(Arc::new(unknown))).into())
            }
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
        self.check(shown).map(|()| ServerCertVerified::assertion())
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
        self.check(shown).map(|()| ClientCertVerified::assertion())
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
