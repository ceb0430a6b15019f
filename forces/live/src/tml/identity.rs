//! Certificates, keys, and the mapping of certificates to IDs.
//!
//! There is no certification authority, and names in certificates do not count: a peer is authenticated if it presents
//! a certificate that the configuration lists for its ID, and proves possession of the key (TLS 1.3, RFC 8446, 4.4.3).
//!
//! An ID may have two certificates during a replacement: first the peers accept the new certificate in addition, then
//! its owner presents it, then the peers remove the old one. Open links stay open meanwhile ([`Pins::replace`],
//! [`Identity::replace`]). [`crate::enrol`] does this without an operator.
//!
//! *Decision*: an expired pinned certificate is accepted, with a warning every day, starting [`WARN_DAYS`] before its
//! expiry. The pin is the authority, so an operator removes or revokes it ([`Pins::revoke`]). A refusal would disconnect the control
//! element from all of its routers at the same instant, or because of a wrong clock, and an FE without a CE stops after
//! CEFTI.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use ring::hmac;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use weir_protocol::wire::Id;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Pinned;
use weir_live::file::read_text;
use weir_live::mutex::lock;

/// Maximum size of a certificate or key file, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Maximum certificates of one ID; two during a replacement.
pub(crate) const PINS_MAX: usize = 2;
/// Days before the expiry of a certificate at which warnings start.
pub const WARN_DAYS: i64 = 30;
const DAY_SECONDS: i64 = 86_400;

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Fingerprint of a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(sha256(certificate))
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses the 64 hexadecimal digits of a fingerprint.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    hash
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses `N` bytes in hexadecimal.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * n..2 * n + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
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
    /// Reads the single certificate of a PEM file.
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let text = text(path)?;
        Self::from_pem(&text).map_err(|why| IdentityError::new(path, why))
    }

    /// Parses the single certificate of a PEM text.
    pub fn from_pem(text: &str) -> Result<Self, String> {
        let mut all = Self::all(text)?;
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err("the file has several certificates, but must have one".to_owned()),
        }
    }

    /// Reads the certificates of a peer from a PEM file: one, or two during a replacement.
    pub fn read_pins(path: &Path) -> Result<Vec<Self>, IdentityError> {
        let all = Self::all(&text(path)?).map_err(|why| IdentityError::new(path, why))?;
        if all.len() <= PINS_MAX {
            Ok(all)
        } else {
            let why = format!(
                "the file has {} certificates, but at most {PINS_MAX} are permitted: the old and the new one of a peer",
                all.len()
            );
            Err(IdentityError::new(path, why))
        }
    }

    /// Parses the certificates of a PEM text, at least one.
    fn all(text: &str) -> Result<Vec<Self>, String> {
        let read = |certificate: Result<CertificateDer<'static>, _>| match certificate {
            Ok(der) => X509Certificate::from_der(&der)
                .map(|_| Self(der.clone()))
                .map_err(|e| e.to_string()),
            Err(error) => Err(rustls::pki_types::pem::Error::to_string(&error)),
        };
        let all = CertificateDer::pem_slice_iter(text.as_bytes()).map(read);
        let all = all.collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|e| format!("the certificate is damaged: {e}"))?;
        if all.is_empty() {
            Err("the file has no certificate; `weir keys NAME` generates one".to_owned())
        } else {
            Ok(all)
        }
    }

    /// Checks the certificate that a peer has presented.
    pub(crate) fn from_der(der: &CertificateDer<'_>) -> Result<Self, String> {
        let read = X509Certificate::from_der(der).map_err(|e| e.to_string());
        read.map(|_| Self(der.clone().into_owned()))
    }

    /// The certificate in PEM.
    pub fn to_pem(&self) -> String {
        pem::encode(&pem::Pem::new("CERTIFICATE", self.0.to_vec()))
    }

    /// Whole days of validity left; negative after expiry.
    pub fn days_left(&self) -> i64 {
        days_left(self.ends())
    }

    /// End of the certificate's validity, in seconds since 1970.
    fn ends(&self) -> i64 {
        let read = X509Certificate::from_der(&self.0);
        read.map_or(i64::MAX, |(_, certificate)| {
            certificate.validity().not_after.timestamp()
        })
    }

    /// Fingerprint of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.0)
    }

    pub(crate) fn der(&self) -> &CertificateDer<'static> {
        &self.0
    }
}

/// Our certificate and its key. Both can be replaced while listeners and links use them: each handshake presents the
/// certificate that is current at that time.
pub struct Identity(Mutex<Arc<Pair>>);

/// A certificate and its key.
struct Pair {
    certificate: Certificate,
    key: PrivateKeyDer<'static>,
    /// Certificate and key, ready to sign.
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

impl Identity {
    /// Reads two PEM files. Refuses a key file that users other than its owner and its group may access.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let mode = std::fs::metadata(key).map_err(|e| IdentityError::new(key, e))?;
        if mode.permissions().mode() & 0o007 != 0 {
            let why = format!("any user can access this key: chmod 600 {}", key.display());
            return Err(IdentityError::new(key, why));
        }
        let (certificate, text) = (Certificate::read(certificate)?, text(key)?);
        Self::of(certificate, &text).map_err(|why| IdentityError::new(key, why))
    }

    /// Creates an identity from a certificate and its key in PEM.
    pub fn of(certificate: Certificate, key: &str) -> Result<Self, String> {
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|e| format!("the file has no private key in PEM: {e}"))?;
        // Detects the key of another certificate now rather than at the first handshake.
        let chain = vec![certificate.der().clone()];
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, key.clone_key(), &provider)
            .map_err(|e| format!("the key does not belong to the certificate: {e}"))?;
        let pair = Pair {
            certificate,
            key,
            certified: Arc::new(certified),
        };
        Ok(Self(Mutex::new(Arc::new(pair))))
    }

    /// Replaces certificate and key, for new handshakes. Returns whether the certificate differs.
    pub fn replace(&self, new: &Self) -> bool {
        let new = new.pair();
        let old = std::mem::replace(&mut *lock(&self.0), Arc::clone(&new));
        old.certificate != new.certificate
    }

    fn pair(&self) -> Arc<Pair> {
        Arc::clone(&lock(&self.0))
    }

    /// The current certificate, and its key.
    pub(super) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.pair().certified)
    }

    /// The current certificate.
    pub fn certificate(&self) -> Certificate {
        self.pair().certificate.clone()
    }

    /// Fingerprint of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.pair().certificate.fingerprint()
    }

    /// Derives a secret for the use named by `label`; the same key always yields the same secret.
    pub(super) fn derived(&self, label: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.pair().key.secret_der());
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

/// Certificates of the peers, each with the ID of its owner. They can be replaced while listeners use them.
#[derive(Debug, Default)]
pub struct Pins(Mutex<Pinnings>);

#[derive(Clone, Debug, Default)]
struct Pinnings {
    owners: Owners,
    /// Revoked certificates, each with the name of the peer that had it.
    revoked: BTreeMap<Fingerprint, String>,
}

/// The owner of a certificate whose key a peer has, and the certificate's fingerprint.
pub type Proof = (Id, Fingerprint);

/// The owner of each certificate, and the end of its validity in seconds since 1970.
type Owners = BTreeMap<Fingerprint, (Id, i64)>;

/// The peers whose certificates a replacement has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// All affected peers.
    pub changed: BTreeSet<Id>,
    /// Peers that have kept none of their certificates: their earlier authentication no longer counts.
    pub ended: BTreeSet<Id>,
}

/// Two peers have the same certificate.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{first} and {second} have the same certificate; each needs its own: `weir keys NAME` generates one"
)]
pub struct SharedCertificate {
    /// The first peer.
    pub first: Id,
    /// The second peer.
    pub second: Id,
}

impl Pins {
    /// Pins the certificates of these peers. A peer may have several.
    pub fn new(
        peers: impl IntoIterator<Item = (Id, Certificate)>,
    ) -> Result<Self, SharedCertificate> {
        let mut owners = BTreeMap::new();
        for (id, certificate) in peers {
            let pin = (id, certificate.ends());
            if let Some((first, _)) = owners.insert(certificate.fingerprint(), pin)
                && first != id
            {
                return Err(SharedCertificate { first, second: id });
            }
        }
        Ok(Self(Mutex::new(Pinnings {
            owners,
            ..Pinnings::default()
        })))
    }

    /// The owner of a certificate.
    pub(crate) fn owner(&self, certificate: &CertificateDer<'_>) -> Option<Id> {
        let pin = Fingerprint::of(certificate);
        lock(&self.0).owners.get(&pin).map(|(id, _)| *id)
    }

    /// Whether this peer has the certificate with this fingerprint.
    pub(crate) fn has(&self, (id, pin): Proof) -> bool {
        let pinnings = lock(&self.0);
        let owner = pinnings.owners.get(&pin);
        owner.is_some_and(|(owner, _)| *owner == id)
    }

    /// All certificates, each with its owner.
    pub(crate) fn owners(&self) -> BTreeMap<Fingerprint, Id> {
        let owners = &lock(&self.0).owners;
        owners.iter().map(|(pin, (id, _))| (*pin, *id)).collect()
    }

    /// Pins these certificates of a peer, and no others.
    pub(crate) fn set(&self, id: Id, certificates: &[Certificate]) {
        let owners = &mut lock(&self.0).owners;
        owners.retain(|_, (owner, _)| *owner != id);
        let pins = certificates
            .iter()
            .map(|c| (c.fingerprint(), (id, c.ends())));
        owners.extend(pins);
    }

    /// Revokes certificates of peers with these names. A revoked certificate never counts again, even if it is pinned.
    pub fn revoke(&self, certificates: impl IntoIterator<Item = (Fingerprint, String)>) {
        let Pinnings { owners, revoked } = &mut *lock(&self.0);
        revoked.extend(certificates);
        owners.retain(|pin, _| !revoked.contains_key(pin));
    }

    /// Whether a certificate is revoked.
    pub(crate) fn is_revoked(&self, pin: Fingerprint) -> bool {
        lock(&self.0).revoked.contains_key(&pin)
    }

    /// The revoked certificates, each with the name of the peer that had it.
    pub fn revoked(&self) -> BTreeMap<Fingerprint, String> {
        lock(&self.0).revoked.clone()
    }

    /// Replaces the certificates, for new links.
    pub fn replace(&self, new: &Self) -> Replaced {
        let new = lock(&new.0).clone();
        let mut running = lock(&self.0);
        let pins = |owners: &Owners| owners.iter().map(|(pin, (id, _))| (*pin, *id)).collect();
        let (before, after): (BTreeSet<_>, BTreeSet<_>) =
            (pins(&running.owners), pins(&new.owners));
        *running = new;
        let kept: BTreeSet<_> = before.intersection(&after).map(|(_, id)| *id).collect();
        let changed = before.symmetric_difference(&after).map(|(_, id)| *id);
        let changed: BTreeSet<_> = changed.collect();
        Replaced {
            ended: changed.difference(&kept).copied().collect(),
            changed,
        }
    }
}

/// Remaining validity of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The peer that owns the certificate; `None` for our own.
    pub owner: Option<Id>,
    /// Fingerprint of the certificate.
    pub fingerprint: Fingerprint,
    /// Whole days left; negative after expiry.
    pub days_left: i64,
}

impl Validity {
    /// The days left, in seconds for metrics.
    pub fn left_s(&self) -> f64 {
        self.days_left.saturating_mul(DAY_SECONDS) as f64
    }
}

/// The validity of our own certificate and of the peers' certificates.
pub fn validities(Pinned { identity, peers }: &Pinned) -> Vec<Validity> {
    let validity = |owner, fingerprint, ends| Validity {
        owner,
        fingerprint,
        days_left: days_left(ends),
    };
    let own = identity.pair();
    let own = validity(None, own.certificate.fingerprint(), own.certificate.ends());
    let pinnings = lock(&peers.0);
    let peers = pinnings
        .owners
        .iter()
        .map(|(pin, (id, ends))| validity(Some(*id), *pin, *ends));
    [own].into_iter().chain(peers).collect()
}

/// Seconds until the first of these certificates expires; `None` without certificates.
pub fn left_s(pinned: &[Pinned]) -> Option<f64> {
    let all = pinned.iter().flat_map(validities);
    all.map(|validity| validity.left_s()).reduce(f64::min)
}

/// Warns of certificates that expire within [`WARN_DAYS`], or have expired: at once, and then every day.
pub async fn warn_daily(pinned: Vec<Pinned>) {
    let mut days = tokio::time::interval(Duration::from_secs(DAY_SECONDS.unsigned_abs()));
    loop {
        days.tick().await;
        for warning in warnings(&pinned) {
            tracing::warn!("{warning}");
        }
    }
}

/// Warnings for certificates that expire within [`WARN_DAYS`], or have expired, each with the remedy.
pub fn warnings(pinned: &[Pinned]) -> BTreeSet<String> {
    let all = pinned.iter().flat_map(validities);
    let ending = all.filter(|validity| validity.days_left < WARN_DAYS);
    let warning = |Validity {
                       owner,
                       fingerprint,
                       days_left,
                   }: Validity| {
        let whose = match owner {
            None => "our certificate".to_owned(),
            Some(id) => format!("the certificate of {id}"),
        };
        let when = match days_left {
            ..0 => "has EXPIRED".to_owned(),
            days => format!("expires in {days} days"),
        };
        format!("{whose} {when} (SHA-256 {fingerprint}): renew it as docs/forces.md shows")
    };
    ending.map(warning).collect()
}

/// Whole days until this time, in seconds since 1970.
fn days_left(ends: i64) -> i64 {
    let left = ends.saturating_sub(unix_seconds());
    left.div_euclid(DAY_SECONDS)
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// A new certificate and its key, as PEM texts.
#[derive(Clone)]
pub struct NewIdentity {
    /// The certificate. Peers need a copy.
    pub certificate: String,
    /// The key, which must not leave this machine.
    pub key: String,
    /// Fingerprint of the certificate.
    pub fingerprint: Fingerprint,
    /// Last day of validity: `2027-11-26`.
    pub valid_until: String,
}

impl fmt::Debug for NewIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewIdentity({})", self.fingerprint)
    }
}

/// Generates a self-signed certificate, and its key (ECDSA on the curve P-256). The name is only for human readers. The
/// certificate is valid for this number of days from now; its validity begins yesterday, because clocks differ.
pub fn generate(name: &str, days: u32) -> Result<NewIdentity, String> {
    let text = |e: rcgen::Error| e.to_string();
    let key = rcgen::KeyPair::generate().map_err(text)?;
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let kind = rcgen::DnType::CommonName;
    params.distinguished_name.push(kind, name);
    let at = |seconds: i64| {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds.unsigned_abs())
    };
    let now = unix_seconds();
    params.not_before = at(now - DAY_SECONDS);
    params.not_after = at(now + i64::from(days) * DAY_SECONDS);
    let valid_until = params.not_after.date().to_string();
    let certificate = params.self_signed(&key).map_err(text)?;
    Ok(NewIdentity {
        fingerprint: Fingerprint::of(certificate.der()),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        valid_until,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(name: &str) -> (Certificate, NewIdentity) {
        let new = generate(name, 365).unwrap();
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
    fn an_id_may_have_two_certificates_while_one_replaces_the_other() {
        let [(old, _), (new, _), (other, _)] = ["old", "new", "other"].map(new);
        let pins = |pins: &[&Certificate]| {
            Pins::new(pins.iter().map(|pin| (Id(1), (*pin).clone()))).unwrap()
        };
        let (running, one) = (pins(&[&old]), BTreeSet::from([Id(1)]));
        let kept = Replaced {
            changed: one.clone(),
            ended: BTreeSet::new(),
        };
        assert_eq!(running.replace(&pins(&[&old, &new])), kept);
        assert_eq!(running.owner(new.der()), Some(Id(1)));
        assert_eq!(running.replace(&pins(&[&new])), kept);
        assert_eq!(running.owner(old.der()), None);
        assert_eq!(running.replace(&pins(&[&new])), Replaced::default());
        let ended = Replaced {
            changed: one.clone(),
            ended: one,
        };
        assert_eq!(running.replace(&pins(&[&other])), ended);
        assert_eq!(running.replace(&pins(&[])), ended);
        assert_eq!(running.replace(&pins(&[&old])), ended);
    }

    #[test]
    fn a_revoked_certificate_never_counts_again() {
        let [old, new, other] = ["old", "new", "other"].map(|name| self::new(name).0);
        let pins = |certificates: &[&Certificate]| {
            Pins::new(certificates.iter().map(|pin| (Id(1), (*pin).clone()))).unwrap()
        };
        let running = pins(&[&old, &new]);
        running.revoke([(old.fingerprint(), "edge1".to_owned())]);
        assert_eq!(running.owner(old.der()), None);
        assert_eq!(running.owner(new.der()), Some(Id(1)));
        let has = |id, certificate: &Certificate| running.has((id, certificate.fingerprint()));
        assert!(has(Id(1), &new) && !has(Id(1), &old) && !has(Id(2), &new));
        // A reload of a file that still has it.
        let file = pins(&[&old, &other]);
        file.revoke(running.revoked());
        running.replace(&file);
        assert_eq!(running.owner(old.der()), None);
        assert_eq!(running.owner(other.der()), Some(Id(1)));
        assert!(running.is_revoked(old.fingerprint()) && !running.is_revoked(new.fingerprint()));
        running.revoke([(other.fingerprint(), "edge1".to_owned())]);
        assert!(running.owners().is_empty());
    }

    #[test]
    fn a_certificate_is_read_as_it_is_written() {
        let (certificate, made) = new("a");
        assert_eq!(
            Certificate::from_pem(&certificate.to_pem()),
            Ok(certificate.clone())
        );
        assert_eq!(
            Certificate::from_der(certificate.der()),
            Ok(certificate.clone())
        );
        let text = certificate.fingerprint().to_string();
        assert_eq!(Fingerprint::parse(&text), Some(made.fingerprint));
        assert_eq!(Fingerprint::parse(&text[1..]), None);
        assert_eq!(Fingerprint::parse(&format!("+{}", &text[1..])), None);
    }

    #[test]
    fn the_days_that_are_left_are_counted() {
        let made = |days| generate("a", days).unwrap();
        let [own, peer] = [made(10), made(0)];
        let certificate = |made: &NewIdentity| Certificate::from_pem(&made.certificate).unwrap();
        let pinned = Pinned {
            identity: Arc::new(Identity::of(certificate(&own), &own.key).unwrap()),
            peers: Arc::new(Pins::new([(Id(7), certificate(&peer))]).unwrap()),
        };
        let left = validities(&pinned);
        let left: Vec<_> = left.iter().map(|v| (v.owner, v.days_left)).collect();
        assert!(
            [9, 10].contains(&left[0].1) && left[0].0.is_none(),
            "{left:?}"
        );
        assert!(
            [0, -1].contains(&left[1].1) && left[1].0 == Some(Id(7)),
            "{left:?}"
        );
        let later = made(20);
        let later = Identity::of(certificate(&later), &later.key).unwrap();
        let identity = &pinned.identity;
        assert_eq!(warnings(&[pinned.clone(), pinned.clone()]).len(), 2);
        assert!(identity.replace(&later));
        assert!(!identity.replace(&later));
        assert_eq!(identity.fingerprint(), later.fingerprint());
    }

    #[test]
    fn a_key_must_belong_to_its_certificate() {
        let ((one, made), (_, other)) = (new("one"), new("two"));
        assert_eq!(one.fingerprint(), made.fingerprint);
        assert!(Identity::of(one.clone(), &made.key).is_ok());
        let error = Identity::of(one.clone(), &other.key).unwrap_err();
        assert!(error.contains("does not belong"), "{error}");
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
