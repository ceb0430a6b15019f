//! Certificates, keys, and which certificate belongs to which ID.
//!
//! There is no certification authority, and no name in a certificate counts: a peer is who it says it is if it shows
//! exactly the certificate that the configuration has for its ID, and proves that it has the key (TLS 1.3, RFC 8446,
//! 4.4.3). Dates in a certificate do not count either. To replace a certificate, change the configuration of both
//! sides.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use ring::hmac;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use weir_forces::wire::Id;

use crate::file::read_text;
use crate::mutex::lock;

/// The longest file with a certificate or a key, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate(CertificateDer<'static>);

impl Certificate {
    /// Reads the only certificate of a PEM file.
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let text = text(path)?;
        Self::from_pem(&text).map_err(|why| IdentityError::new(path, why))
    }

    /// Reads the only certificate of a text in PEM.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        let mut all = CertificateDer::pem_slice_iter(text.as_bytes());
        let first = all
            .next()
            .ok_or("it has no certificate; `weir keys NAME` makes one")?;
        let first = first.map_err(|e| format!("its certificate is damaged: {e}"))?;
        match all.next() {
            None => Ok(Self(first)),
            Some(_) => Err("it has several certificates; exactly one belongs to an ID".to_owned()),
        }
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.0)
    }

    pub(super) fn der(&self) -> &CertificateDer<'static> {
        &self.0
    }
}

pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    Fingerprint(bytes)
}

/// Our certificate and its key.
pub struct Identity {
    pub(super) certificate: Certificate,
    pub(super) key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fingerprint = self.certificate.fingerprint();
        write!(f, "Identity({fingerprint})")
    }
}

impl Identity {
    /// Reads two PEM files. Nobody but the owner and the group of the key's file may read it.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let mode = std::fs::metadata(key).map_err(|e| IdentityError::new(key, e))?;
        if mode.permissions().mode() & 0o007 != 0 {
            let why = format!("everybody may use this key: chmod 600 {}", key.display());
            return Err(IdentityError::new(key, why));
        }
        let (certificate, text) = (Certificate::read(certificate)?, text(key)?);
        Self::of(certificate, &text).map_err(|why| IdentityError::new(key, why))
    }

    /// A certificate, and its key in PEM.
    pub fn of(certificate: Certificate, key: &str) -> Result<Self, String> {
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|e| format!("it has no private key in PEM: {e}"))?;
        let identity = Self { certificate, key };
        // Finds a key that belongs to another certificate now, not at the first handshake.
        super::tls::certified(&identity)
            .map_err(|e| format!("it is not the key of this certificate: {e}"))?;
        Ok(identity)
    }

    /// Fingerprint of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.certificate.fingerprint()
    }

    /// A secret for the use that the label names: the same whenever the key is.
    pub(super) fn derived(&self, label: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.secret_der());
        let mut secret = [0; 32];
        secret.copy_from_slice(hmac::sign(&key, label).as_ref());
        secret
    }
}

/// Why a certificate or a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct IdentityError {
    path: String,
    why: String,
}

impl IdentityError {
    fn new(path: &Path, why: impl fmt::Display) -> Self {
        Self {
            path: path.display().to_string(),
            why: why.to_string(),
        }
    }
}

fn text(path: &Path) -> Result<String, IdentityError> {
    read_text(path, FILE_BYTES_MAX).map_err(|e| IdentityError::new(path, e))
}

/// The certificates of the peers, each with the ID of its owner. They can be replaced while listeners use them.
#[derive(Debug, Default)]
pub struct Pins(Mutex<Owners>);

type Owners = BTreeMap<Fingerprint, Id>;

/// Two peers have the same certificate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{first} and {second} have the same certificate; each needs its own: `weir keys NAME` makes one"
)]
pub struct SharedCertificate {
    /// A peer.
    pub first: Id,
    /// Another one.
    pub second: Id,
}

impl Pins {
    /// The certificates of these peers. A peer may have several.
    pub fn new(
        peers: impl IntoIterator<Item = (Id, Certificate)>,
    ) -> Result<Self, SharedCertificate> {
        let mut pins = BTreeMap::new();
        for (id, certificate) in peers {
            if let Some(first) = pins.insert(certificate.fingerprint(), id)
                && first != id
            {
                return Err(SharedCertificate { first, second: id });
            }
        }
        Ok(Self(Mutex::new(pins)))
    }

    /// The owner of a certificate.
    pub(super) fn owner(&self, certificate: &CertificateDer<'_>) -> Option<Id> {
        lock(&self.0).get(&fingerprint(certificate)).copied()
    }

    /// Takes over other certificates, for links that open from now on. Returns the peers whose certificates differ, also
    /// those that have none any more: what they have proved does not count any more.
    pub fn replace(&self, new: &Self) -> BTreeSet<Id> {
        let new = lock(&new.0).clone();
        let mut owners = lock(&self.0);
        let pins = |owners: &Owners| owners.iter().map(|(pin, id)| (*pin, *id)).collect();
        let (before, after): (BTreeSet<_>, BTreeSet<_>) = (pins(&owners), pins(&new));
        *owners = new;
        let changed = before.symmetric_difference(&after);
        changed.map(|(_, id)| *id).collect()
    }
}

/// A new certificate and its key, as texts in PEM.
#[derive(Clone)]
pub struct NewIdentity {
    /// The certificate. Peers need a copy.
    pub certificate: String,
    /// The key, which stays where it is.
    pub key: String,
    /// Fingerprint of the certificate.
    pub fingerprint: Fingerprint,
}

impl fmt::Debug for NewIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewIdentity({})", self.fingerprint)
    }
}

/// Makes a certificate that signs itself, and its key (ECDSA on the curve P-256). The name is for people only.
pub fn generate(name: &str) -> Result<NewIdentity, String> {
    let text = |e: rcgen::Error| e.to_string();
    let key = rcgen::KeyPair::generate().map_err(text)?;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let kind = rcgen::DnType::CommonName;
    params.distinguished_name.push(kind, name);
    let certificate = params.self_signed(&key).map_err(text)?;
    Ok(NewIdentity {
        fingerprint: fingerprint(certificate.der()),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str) -> (Certificate, NewIdentity) {
        let new = generate(name).unwrap();
        (Certificate::from_pem(&new.certificate).unwrap(), new)
    }

    #[test]
    fn a_certificate_belongs_to_one_id() {
        let ((one, _), (two, _)) = (new("one"), new("two"));
        let pins = Pins::new([(Id(1), one.clone()), (Id(2), two.clone())]).unwrap();
        assert_eq!(pins.owner(one.der()), Some(Id(1)));
        assert_eq!(pins.owner(new("one").0.der()), None); // the name does not count
        let shared = Pins::new([(Id(1), one.clone()), (Id(2), one)]).unwrap_err();
        assert_eq!((shared.first, shared.second), (Id(1), Id(2)));
    }

    #[test]
    fn a_key_must_belong_to_its_certificate() {
        let ((one, made), (_, other)) = (new("one"), new("two"));
        assert_eq!(one.fingerprint(), made.fingerprint);
        assert!(Identity::of(one.clone(), &made.key).is_ok());
        let error = Identity::of(one.clone(), &other.key).unwrap_err();
        assert!(error.contains("not the key"), "{error}");
        assert!(Identity::of(one, "no key").is_err());
        let both = made.certificate.clone() + &other.certificate;
        assert!(
            Certificate::from_pem(&both)
                .unwrap_err()
                .contains("several")
        );
        assert!(
            Certificate::from_pem(&made.key)
                .unwrap_err()
                .contains("weir keys")
        );
    }

    #[test]
    fn a_key_that_everybody_may_read_is_refused() {
        let folder = std::env::temp_dir().join(format!("weir-identity-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = (folder.join("a.crt"), folder.join("a.key"));
        let made = new("a").1;
        std::fs::write(&certificate, made.certificate).unwrap();
        std::fs::write(&key, made.key).unwrap();
        let mode = |mode| std::fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        let error = Identity::read(&certificate, &key).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        mode(0o600);
        assert!(Identity::read(&certificate, &key).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
