//! Decisions of a CE about certificates: the FEs that it invites, the certificates that it pins, replaces and revokes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::pki_types::CertificateDer;
use weir_base::Span;
use weir_live::clock;
use weir_live::mutex::lock;
use weir_protocol::wire::Id;

use super::files::{Files, write_pins};
use super::token::{Token, Tokens};
use super::{Answer, RENEW_DAYS, Request};
use crate::ce::Store;
use crate::tml::identity::{Certificate, Fingerprint, PINS_MAX};
use crate::tml::{Identity, Pinned, tls};

/// An FE of the CE's configuration.
#[derive(Clone, Debug)]
pub struct Member {
    /// ForCES ID of the FE.
    pub id: Id,
    /// File with the certificates of the FE.
    pub pins: Option<PathBuf>,
}

/// The FEs, by name.
pub type Members = BTreeMap<String, Member>;

/// Ends the association and all links of an FE.
type Expel = Box<dyn Fn(Id) + Send + Sync>;

/// The certificates of a CE and of its FEs, and the decisions about them.
pub struct Registrar {
    pinned: Pinned,
    own: Files,
    store: Arc<Store>,
    /// Whether the CE has a desk.
    enrols: bool,
    /// Locked during each change of pins and of files.
    members: Mutex<Members>,
    tokens: Mutex<Tokens>,
    next: Mutex<Option<Next>>,
    /// Revoked certificates that a failure of the store has kept out of it, each with the name of its FE.
    unstored: Mutex<BTreeMap<Fingerprint, String>>,
    expel: Expel,
}

/// The certificate that the CE will present next.
struct Next {
    identity: Identity,
    /// The FEs that trust it.
    trusted: BTreeSet<Id>,
}

/// The members of a CE, locked. No certificate changes meanwhile.
pub type Held<'a> = MutexGuard<'a, Members>;

impl Registrar {
    /// The registrar of a CE with these certificates. Applies the revocations in the store.
    pub fn new(
        pinned: Pinned,
        own: Files,
        store: Arc<Store>,
        enrols: bool,
        members: Members,
        expel: Expel,
    ) -> Result<Self, String> {
        pinned.peers.revoke(store.read_revoked()?);
        own.recover();
        let next = own.next().read().ok().map(Next::new);
        Ok(Self {
            pinned,
            own,
            store,
            enrols,
            members: Mutex::new(members),
            tokens: Mutex::default(),
            next: Mutex::new(next),
            unstored: Mutex::default(),
            expel,
        })
    }

    /// Locks the members, for a reload.
    pub fn hold(&self) -> Held<'_> {
        lock(&self.members)
    }

    /// Invites an FE: creates a token with which it can enrol once.
    pub fn invite(&self, fe: &str, lifetime: Span) -> Result<Token, String> {
        if !self.enrols {
            let why = "the CE does not listen for enrolment: set `enrol` in its file, like enrol = \"192.0.2.1:6708\", \
                       and restart it";
            return Err(why.to_owned());
        }
        let members = self.hold();
        member(&members, fe)?;
        let token = Token::new(self.pinned.identity.fingerprint());
        lock(&self.tokens).open(clock::now(), fe, &token, lifetime);
        tracing::info!(
            fe,
            lifetime_s = lifetime.as_secs_f64(),
            "invited: one FE can enrol with the token"
        );
        Ok(token)
    }

    /// Whether a peer with this certificate may speak to the desk.
    pub(super) fn admit(&self, shown: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let peers = &self.pinned.peers;
        tls::check(peers, shown).or_else(|why| {
            let is_open = lock(&self.tokens).is_any_open(clock::now());
            let admits = is_open && !peers.is_revoked(Fingerprint::of(shown));
            admits.then_some(()).ok_or(why)
        })
    }

    /// Whether connections of this source are refused.
    pub(super) fn is_blocked(&self, source: IpAddr) -> bool {
        lock(&self.tokens).is_blocked(clock::now(), source)
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.pinned.identity
    }

    /// Answers an FE that has proved the key of `shown`. Blocks.
    pub(super) fn answer(&self, source: IpAddr, shown: &Certificate, request: &Request) -> Answer {
        let members = self.hold();
        match self.admitted(&members, source, shown, request) {
            Ok(fe) => {
                // The FE has seen the certificate that we present until then.
                let certificates = self.certificates();
                self.note_trust(&members, request);
                Answer::Admitted { fe, certificates }
            }
            Err(why) => Answer::Refused(why),
        }
    }

    /// Pins the certificates of a request. Returns the name of the FE.
    fn admitted(
        &self,
        members: &Members,
        source: IpAddr,
        shown: &Certificate,
        request: &Request,
    ) -> Result<String, String> {
        match self.pinned.peers.owner(shown.der()) {
            Some(id) => self.renewed(members, id, shown, request),
            None => self.enrolled(members, source, shown, request),
        }
    }

    /// Pins the certificate of an FE that presents a token.
    fn enrolled(
        &self,
        members: &Members,
        source: IpAddr,
        shown: &Certificate,
        request: &Request,
    ) -> Result<String, String> {
        // All wrong tokens get the same answer, so strangers learn nothing about tokens.
        let wrong = "the token is wrong, expired or used";
        let secret = request.secret.as_deref().ok_or(wrong)?;
        let fe = lock(&self.tokens).fe(clock::now(), source, secret);
        let fe = fe.ok_or(wrong)?;
        let (member, file) = member(members, &fe)?;
        if self.pinned.peers.is_revoked(shown.fingerprint()) {
            return Err("this certificate has been revoked".to_owned());
        }
        if member.id != Id(request.id) {
            return Err(format!(
                "the token is for {fe} with id = {}, but [fe] has id = {}",
                member.id.0, request.id
            ));
        }
        let mut pins = self.pins(file)?;
        pins.drain(..pins.len().saturating_sub(PINS_MAX - 1));
        pins.push(shown.clone());
        self.pin(member.id, file, &pins)?;
        lock(&self.tokens).close(&fe);
        let sha256 = shown.fingerprint();
        tracing::info!(fe, %source, %sha256, "enrolled: the certificate is pinned");
        Ok(fe)
    }

    /// Pins the next certificate of an FE, or removes its old one.
    fn renewed(
        &self,
        members: &Members,
        id: Id,
        shown: &Certificate,
        request: &Request,
    ) -> Result<String, String> {
        let owner = members.iter().find(|(_, member)| member.id == id);
        let (fe, member) = owner.ok_or("the FE is no longer configured")?;
        if id != Id(request.id) {
            return Err(format!(
                "the certificate belongs to {fe} with id = {}, but [fe] has id = {}",
                id.0, request.id
            ));
        }
        let file = member.pins.as_ref().ok_or("the FE has no certificate")?;
        let pins = self.pins(file)?;
        let next = request.next.as_deref().map(Certificate::from_pem);
        let next = next.transpose()?.filter(|next| next != shown);
        let wanted = match next {
            Some(next) if self.pinned.peers.is_revoked(next.fingerprint()) => {
                let why = "the next certificate has been revoked: remove the FE's files that end in `.next`";
                return Err(why.to_owned());
            }
            Some(next) => vec![shown.clone(), next],
            // An FE presents its newest certificate when it no longer needs the old one.
            None if pins.last() == Some(shown) => vec![shown.clone()],
            None => pins.clone(),
        };
        if wanted != pins {
            self.pin(id, file, &wanted)?;
            let sha256: Vec<_> = wanted
                .iter()
                .map(|pin| pin.fingerprint().to_string())
                .collect();
            tracing::info!(fe, sha256 = sha256.join(" "), "pinned certificates changed");
        }
        Ok(fe.clone())
    }

    /// The certificates in an FE's file that are not revoked; empty if the file does not exist.
    fn pins(&self, file: &Path) -> Result<Vec<Certificate>, String> {
        if !file.exists() {
            return Ok(Vec::new());
        }
        let mut pins = Certificate::read_pins(file).map_err(|e| e.to_string())?;
        pins.retain(|pin| !self.pinned.peers.is_revoked(pin.fingerprint()));
        Ok(pins)
    }

    /// Makes these the certificates of an FE: on disk first, so that a restart does not lose them.
    fn pin(&self, id: Id, file: &Path, pins: &[Certificate]) -> Result<(), String> {
        let peers = &self.pinned.peers;
        let other = pins.iter().filter_map(|pin| peers.owner(pin.der()));
        if other.into_iter().any(|owner| owner != id) {
            return Err("another FE has this certificate; each needs its own".to_owned());
        }
        write_pins(file, pins).map_err(|error| {
            tracing::error!(%error, "cannot pin a certificate");
            "the CE cannot write its files; its log has the reason".to_owned()
        })?;
        peers.set(id, pins);
        Ok(())
    }

    /// Our certificates in PEM: the present one, and the next one.
    fn certificates(&self) -> Vec<String> {
        let next = lock(&self.next);
        let next = next.as_ref().map(|next| next.identity.certificate());
        let present = self.pinned.identity.certificate();
        let all = std::iter::once(present).chain(next);
        all.map(|certificate| certificate.to_pem()).collect()
    }

    /// Revokes the certificates of an FE, or one certificate by its fingerprint: in memory, then durably. Returns a line
    /// for each. Blocks.
    pub fn revoke(&self, which: &str) -> Result<Vec<String>, String> {
        let members = self.hold();
        let peers = &self.pinned.peers;
        let is_meant = |pin: &Fingerprint, name: &str| name == which || pin.to_string() == which;
        let mut unstored = lock(&self.unstored);
        let mut revoked = unstored.clone();
        revoked.retain(|pin, name| is_meant(pin, name));
        let mut ended = BTreeSet::new();
        for (pin, id) in peers.owners() {
            let owner = members.iter().find(|(_, member)| member.id == id);
            if let Some((name, _)) = owner.filter(|(name, _)| is_meant(&pin, name)) {
                revoked.insert(pin, name.clone());
                ended.insert(id);
            }
        }
        let invited = lock(&self.tokens).close(which);
        if revoked.is_empty() && !invited {
            let why = "no FE has this name or certificate, or its certificates are revoked already: `weir show certificates`";
            return Err(why.to_owned());
        }
        peers.revoke(revoked.clone());
        ended.into_iter().for_each(|id| (self.expel)(id));
        let mut lines: Vec<_> = revoked
            .iter()
            .map(|(pin, name)| {
                format!("- fe.{name}: certificate {pin} revoked; its association ends")
            })
            .collect();
        lines.extend(invited.then(|| format!("- fe.{which}: the open token ends")));
        tracing::warn!(changes = lines.join("; "), "revoked");
        unstored.extend(revoked);
        self.store.keep_revoked(&unstored).map_err(|error| {
            format!(
                "revoked until the CE restarts: the store cannot be written ({error}). Mend this, and repeat the command"
            )
        })?;
        unstored.clear();
        Ok(lines)
    }

    /// Makes our next certificate, and hands it out from then on. With `now` presents it at once, also to FEs that do
    /// not trust it yet. Returns the changes. Blocks.
    pub fn renew(&self, now: bool) -> Result<Vec<String>, String> {
        let members = self.hold();
        let mut lines = Vec::new();
        if lock(&self.next).is_none() {
            let next = Next::new(self.own.make_next("ce")?);
            let sha256 = next.identity.fingerprint();
            tracing::info!(%sha256, "next certificate of this CE made");
            lines.push(format!("+ next certificate: {sha256}"));
            *lock(&self.next) = Some(next);
        }
        let missing = self.missing(&members).join(", ");
        lines.push(if now || missing.is_empty() {
            self.present_next()?
        } else {
            format!("the CE presents it when these FEs trust it: {missing}")
        });
        Ok(lines)
    }

    /// Makes our next certificate if the present one expires soon.
    pub(super) fn renew_in_time(&self) {
        let is_due = self.pinned.identity.certificate().days_left() < RENEW_DAYS;
        if is_due && let Err(why) = self.renew(false) {
            tracing::error!(why, "cannot make the next certificate of this CE");
        }
    }

    /// Records which FE trusts our next certificate, and presents it when all do.
    fn note_trust(&self, members: &Members, request: &Request) {
        let is_noted = match &mut *lock(&self.next) {
            Some(next)
                if request
                    .trusts
                    .contains(&next.identity.fingerprint().to_string()) =>
            {
                next.trusted.insert(Id(request.id));
                true
            }
            _ => false,
        };
        if is_noted
            && self.missing(members).is_empty()
            && let Err(why) = self.present_next()
        {
            tracing::error!(why, "cannot present the next certificate of this CE");
        }
    }

    /// Names of the FEs with a certificate that do not trust our next certificate yet.
    fn missing(&self, members: &Members) -> Vec<String> {
        let next = lock(&self.next);
        let trusted = next.as_ref().map(|next| &next.trusted);
        let owners: BTreeSet<_> = self.pinned.peers.owners().into_values().collect();
        let missing = members.iter().filter(|(_, member)| {
            owners.contains(&member.id)
                && trusted.is_none_or(|trusted| !trusted.contains(&member.id))
        });
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Presents our next certificate in new handshakes.
    fn present_next(&self) -> Result<String, String> {
        let mut next = lock(&self.next);
        if let Some(ready) = &*next {
            self.own.replace().map_err(|error| error.to_string())?;
            self.pinned.identity.replace(&ready.identity);
            let sha256 = ready.identity.fingerprint();
            tracing::info!(%sha256, "certificate of this CE replaced; open tokens end");
            *next = None;
            *lock(&self.tokens) = Tokens::default();
        }
        Ok(format!(
            "~ certificate: {}",
            self.pinned.identity.fingerprint()
        ))
    }
}

impl Next {
    fn new(identity: Identity) -> Self {
        Self {
            identity,
            trusted: BTreeSet::new(),
        }
    }
}

/// The FE of this name, and the file that receives its certificate.
fn member<'a>(members: &'a Members, fe: &str) -> Result<(&'a Member, &'a PathBuf), String> {
    let member = members.get(fe).ok_or_else(|| {
        format!("there is no FE `{fe}`: add [fe.{fe}] with `id` and `certificate` to the CE's file, and reload it")
    })?;
    let pins = member.pins.as_ref().ok_or_else(|| {
        format!("[fe.{fe}] has no `certificate`: name the file that receives it, like certificate = \"/var/lib/weir/{fe}.crt\"")
    })?;
    Ok((member, pins))
}
