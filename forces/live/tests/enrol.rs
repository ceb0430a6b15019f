//! Enrolment, renewal and revocation, between a desk and FEs on the loopback interface.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use weir_base::Span;
use weir_forces_live::ce::Store;
use weir_forces_live::enrol::client::{Ce, Fe};
use weir_forces_live::enrol::desk::Desk;
use weir_forces_live::enrol::files::Files;
use weir_forces_live::enrol::registrar::{Member, Members, Registrar};
use weir_forces_live::enrol::token::Token;
use weir_forces_live::tml::identity::{Certificate, Fingerprint};
use weir_forces_live::tml::{Fault, Faults, Pinned, Pins};
use weir_protocol::wire::Id;

use crate::tml::LONG;

const LIFETIME: Span = Span::from_secs(600);

fn files(folder: &Path, name: &str) -> Files {
    Files::named(&folder.join(name))
}

/// A CE with a desk, and the FEs edge1 (ID 2) and edge2 (ID 3).
struct World {
    folder: PathBuf,
    registrar: Arc<Registrar>,
    faults: Arc<Faults>,
    desk: SocketAddr,
    /// The FEs whose associations the registrar has ended.
    expelled: Arc<Mutex<Vec<Id>>>,
    task: AbortHandle,
}

impl World {
    async fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-enrol-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        files(&folder, "ce").generate("ce", 100).unwrap();
        Self::started(folder).await
    }

    /// Restarts the CE.
    async fn restarted(mut self) -> Self {
        let registrar = Arc::downgrade(&self.registrar);
        let folder = std::mem::take(&mut self.folder); // which is not deleted then
        drop(self);
        eventually(|| registrar.strong_count() == 0).await;
        Self::started(folder).await
    }

    async fn started(folder: PathBuf) -> Self {
        let own = files(&folder, "ce");
        let member = |(name, id): (&str, u32)| {
            let pins = folder.join(format!("{name}.crt"));
            let member = Member {
                id: Id(id),
                pins: Some(pins),
            };
            (name.to_owned(), member)
        };
        let members: Members = [("edge1", 2), ("edge2", 3)].map(member).into();
        let read = |member: &Member| {
            let pins = Certificate::read_pins(member.pins.as_ref().unwrap());
            let pins = pins.unwrap_or_default().into_iter();
            pins.map(|pin| (member.id, pin)).collect::<Vec<_>>()
        };
        let pinned = Pinned {
            identity: Arc::new(own.read().unwrap()),
            peers: Arc::new(Pins::new(members.values().flat_map(read)).unwrap()),
        };
        let store = Arc::new(Store::open(&folder.join("ce.store")).unwrap());
        let (expelled, any) = (Arc::default(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let ids: Arc<Mutex<Vec<Id>>> = Arc::clone(&expelled);
        let expel = Box::new(move |fe| ids.lock().unwrap().push(fe));
        let registrar = Registrar::new(pinned, own, store, true, members, expel).unwrap();
        let (registrar, faults) = (Arc::new(registrar), Arc::new(Faults::default()));
        let desk = Desk::open(any, Arc::clone(&registrar), Arc::clone(&faults)).await;
        let desk = desk.unwrap();
        let address = desk.address().unwrap();
        Self {
            task: tokio::spawn(desk.run()).abort_handle(),
            folder,
            registrar,
            faults,
            desk: address,
            expelled,
        }
    }

    /// An FE with its own folder.
    fn fe(&self, name: &str, id: u32) -> Fe {
        let folder = self.folder.join(format!("fe-{name}"));
        fs::create_dir_all(&folder).unwrap();
        Fe {
            id,
            name: name.to_owned(),
            own: files(&folder, "fe"),
            ces: vec![Ce {
                name: "main".to_owned(),
                desk: self.desk,
                pins: folder.join("ce.crt"),
            }],
            renews: true,
        }
    }

    fn token(&self) -> Token {
        self.registrar.invite("edge1", LIFETIME).unwrap()
    }

    async fn enrolled(&self) -> Fe {
        let fe = self.fe("edge1", 2);
        enrol(&fe, &self.token()).await.unwrap();
        fe
    }

    /// The certificates of edge1 at the CE.
    fn pins(&self) -> Vec<Fingerprint> {
        let pins = Certificate::read_pins(&self.folder.join("edge1.crt")).unwrap();
        pins.iter().map(Certificate::fingerprint).collect()
    }

    /// Waits until a fault has been counted so often: the CE counts it after its answer.
    async fn counted(&self, fault: Fault, times: u64) {
        eventually(|| self.faults.count(fault) >= times).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

async fn eventually(condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, met).await.unwrap();
}

async fn enrol(fe: &Fe, token: &Token) -> Result<String, String> {
    let enrolled = timeout(LONG, fe.enrol(&fe.ces[0], token)).await;
    enrolled.unwrap().map(|lines| lines.join("\n"))
}

async fn contact(fe: &Fe, renews_now: bool) -> (Vec<String>, Vec<String>) {
    let contacts = timeout(LONG, fe.contact(renews_now)).await.unwrap();
    (contacts.changes, contacts.failures)
}

fn present(fe: &Fe) -> Fingerprint {
    fe.own.read().unwrap().fingerprint()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_fe_enrols_and_its_key_stays() {
    let world = World::new("enrols").await;
    let fe = world.enrolled().await;
    assert_eq!(world.pins(), [present(&fe)]);
    let ce = files(&world.folder, "ce").read().unwrap().fingerprint();
    let trusted = Certificate::read(&fe.ces[0].pins).unwrap();
    assert_eq!(trusted.fingerprint(), ce);
    let mode = fs::metadata(&fe.own.key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = fs::read_to_string(&fe.own.key).unwrap();
    for entry in fs::read_dir(&world.folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(!text.contains(&key), "{}", path.display());
    }
    assert!(!fe.own.next().key.exists());
    assert_eq!(contact(&fe, false).await, (vec![], vec![]));
    // Also after a restart of the CE.
    let world = world.restarted().await;
    let mut fe = fe;
    fe.ces[0].desk = world.desk;
    assert_eq!(contact(&fe, false).await, (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_once_and_for_its_fe_only() {
    let world = World::new("once").await;
    let token = world.token();
    // The ID of another FE, which does not spend the token.
    let error = enrol(&world.fe("edge2", 3), &token).await.unwrap_err();
    assert!(
        error.contains("the token is for edge1 with id = 2"),
        "{error}"
    );
    let fe = world.fe("edge1", 2);
    enrol(&fe, &token).await.unwrap();
    // While another token is open, a stranger reaches the CE, but the used token does not help.
    let other = world.registrar.invite("edge2", LIFETIME).unwrap();
    let replay = world.fe("replay", 2);
    let error = enrol(&replay, &token).await.unwrap_err();
    assert!(
        error.contains("the token is wrong, expired or used"),
        "{error}"
    );
    assert_eq!(world.pins(), [present(&fe)]);
    world.counted(Fault::Enrolment, 2).await;
    // A lost answer: the FE repeats its request with the same key.
    fs::rename(&fe.own.key, fe.own.next().key).unwrap();
    fs::rename(&fe.own.certificate, fe.own.next().certificate).unwrap();
    enrol(&fe, &token).await.unwrap();
    assert_eq!(world.pins(), [present(&fe)]);
    // Unknown FEs, and FEs without a file.
    let error = world.registrar.invite("edge3", LIFETIME).unwrap_err();
    assert!(error.contains("add [fe.edge3]"), "{error}");
    // Another FE cannot use a certificate that is pinned.
    let thief = world.fe("thief", 3);
    fs::copy(&fe.own.key, thief.own.next().key).unwrap();
    fs::copy(&fe.own.certificate, thief.own.next().certificate).unwrap();
    let error = enrol(&thief, &other).await.unwrap_err();
    assert!(
        error.contains("the certificate belongs to edge1"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_share_no_token() {
    let world = World::new("two").await;
    let token = world.token();
    let fes: Vec<_> = (0..8).map(|n| world.fe(&format!("edge1-{n}"), 2)).collect();
    let tries = fes.iter().map(|fe| {
        let (fe, token) = (fe.clone(), token.clone());
        tokio::spawn(async move { enrol(&fe, &token).await.is_ok() })
    });
    let mut winners = Vec::new();
    for (fe, done) in fes.iter().zip(tries.collect::<Vec<_>>()) {
        if done.await.unwrap() {
            winners.push(present(fe));
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(world.pins(), winners);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_fe_gives_its_secret_only_to_the_ce_of_the_token() {
    let (world, impostor) = (World::new("right").await, World::new("impostor").await);
    let token = world.token();
    impostor.token(); // it would accept any FE
    let mut fe = world.fe("edge1", 2);
    fe.ces[0].desk = impostor.desk;
    let error = enrol(&fe, &token).await.unwrap_err();
    assert!(error.contains("this is not the CE of the token"), "{error}");
    assert!(!fe.ces[0].pins.exists() && !fe.own.key.exists());
    impostor.counted(Fault::Handshake, 1).await; // no request
    assert_eq!(impostor.faults.count(Fault::Enrolment), 0);
    // An FE that has enrolled sends nothing either.
    let mut fe = world.enrolled().await;
    fe.ces[0].desk = impostor.desk;
    let (changes, failures) = contact(&fe, false).await;
    assert!(
        changes.is_empty() && failures[0].contains("not the CE that we trust"),
        "{failures:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_get_no_handshake_without_an_open_token() {
    let world = World::new("strangers").await;
    world.enrolled().await; // spends the only token
    let stale = Token::new(files(&world.folder, "ce").read().unwrap().fingerprint());
    let error = enrol(&world.fe("stranger", 2), &stale).await.unwrap_err();
    assert!(
        error.contains("has no open token") || error.contains("closed the connection"),
        "{error}"
    );
    world.counted(Fault::UnknownCertificate, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_few() {
    let world = World::new("guesses").await;
    let _open = world.token();
    let ce = files(&world.folder, "ce").read().unwrap().fingerprint();
    let fe = world.fe("guesser", 2);
    let mut refused = 0;
    for _ in 0..20 {
        let error = enrol(&fe, &Token::new(ce)).await.unwrap_err();
        refused += usize::from(error.contains("the token is wrong"));
    }
    assert_eq!(refused, 5);
    world.counted(Fault::TooMany, 15).await;
    assert_eq!(world.faults.count(Fault::TooMany), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_connections_keeps_nobody_out() {
    let world = World::new("crowd").await;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(TcpStream::connect(world.desk).await.unwrap());
    }
    enrol(&world.fe("edge1", 2), &world.token()).await.unwrap();
    let ended = || {
        let faults = [Fault::TooMany, Fault::Handshake].map(|fault| world.faults.count(fault));
        faults.iter().sum::<u64>() // some have had all of their time
    };
    eventually(|| ended() >= 300 - 32).await;
    drop(crowd);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_bytes_are_refused() {
    let world = World::new("bytes").await;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 70_000], b""] {
        let mut tcp = TcpStream::connect(world.desk).await.unwrap();
        let _ = tcp.write_all(bytes).await; // the CE may have closed the connection
        let _ = tcp.shutdown().await;
        let mut answer = Vec::new();
        let _ = timeout(LONG, tcp.read_to_end(&mut answer)).await.unwrap();
    }
    world.enrolled().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_fe_renews_its_certificate() {
    let world = World::new("renews").await;
    let fe = world.enrolled().await;
    let old = present(&fe);
    let (changes, failures) = contact(&fe, true).await;
    assert!(
        failures.is_empty() && changes.len() == 1,
        "{changes:?} {failures:?}"
    );
    let new = present(&fe);
    assert_ne!(old, new);
    assert_eq!(world.pins(), [old, new]); // old handshakes may still be open
    assert_eq!(contact(&fe, false).await, (vec![], vec![]));
    assert_eq!(world.pins(), [new]);
    // Each next certificate that a crash has orphaned is replaced.
    for _ in 0..3 {
        let before = present(&fe);
        contact(&fe, true).await;
        assert_eq!(world.pins(), [before, present(&fe)]);
    }
    // An FE with another CE that would not get the certificate makes none.
    let fixed = Fe {
        renews: false,
        ..fe.clone()
    };
    contact(&fixed, false).await;
    let before = present(&fe);
    assert_eq!(contact(&fixed, true).await, (vec![], vec![]));
    assert_eq!(present(&fe), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_ends_soon_is_renewed_by_itself() {
    let world = World::new("soon").await;
    let fe = world.fe("edge1", 2);
    fe.own.next().generate("edge1", 20).unwrap();
    enrol(&fe, &world.token()).await.unwrap();
    let old = present(&fe);
    contact(&fe, false).await;
    assert_ne!(present(&fe), old);
    assert!(fe.own.read().unwrap().certificate().days_left() > 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ce_renews_its_certificate_when_all_fes_trust_it() {
    let world = World::new("authority").await;
    let fe = world.enrolled().await;
    let second = world.fe("edge2", 3);
    let token = world.registrar.invite("edge2", LIFETIME).unwrap();
    enrol(&second, &token).await.unwrap();
    let trusted = |fe: &Fe| Certificate::read_pins(&fe.ces[0].pins).unwrap().len();
    let own = files(&world.folder, "ce");
    let old = own.read().unwrap().fingerprint();
    let lines = world.registrar.renew(false).unwrap();
    assert!(lines[1].contains("edge1, edge2"), "{lines:?}");
    contact(&fe, false).await; // learns the new one
    assert_eq!(trusted(&fe), 2);
    contact(&fe, false).await; // reports it
    let lines = world.registrar.renew(false).unwrap();
    assert!(lines[0].ends_with("trust it: edge2"), "{lines:?}");
    assert_eq!(own.read().unwrap().fingerprint(), old);
    contact(&second, false).await;
    assert_eq!(contact(&second, false).await, (vec![], vec![]));
    let new = own.read().unwrap().fingerprint();
    assert_ne!(new, old);
    for fe in [&fe, &second] {
        let (changes, failures) = contact(fe, false).await;
        assert!(
            failures.is_empty() && changes.len() <= 1,
            "{changes:?} {failures:?}"
        );
        let pins = Certificate::read_pins(&fe.ces[0].pins).unwrap();
        assert_eq!(
            pins.iter()
                .map(Certificate::fingerprint)
                .collect::<Vec<_>>(),
            [new]
        );
    }
    // At once: an FE that does not trust it has to enrol again.
    world.registrar.renew(true).unwrap();
    let (_, failures) = contact(&fe, false).await;
    assert!(
        failures[0].contains("not the CE that we trust"),
        "{failures:?}"
    );
    enrol(&fe, &world.token()).await.unwrap();
    contact(&fe, false).await;
    assert_eq!(world.pins(), [present(&fe)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_fe_is_refused_until_it_is_invited_again() {
    let world = World::new("revoked").await;
    let mut fe = world.enrolled().await;
    let old = present(&fe);
    assert!(world.registrar.revoke("edge2").is_err()); // has no certificate
    let lines = world.registrar.revoke("edge1").unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(*world.expelled.lock().unwrap(), [Id(2)]);
    let is_refused = |(changes, failures): (Vec<String>, Vec<String>)| {
        assert!(changes.is_empty() && failures.len() == 1, "{changes:?}");
        let why = &failures[0];
        assert!(
            why.contains("revoked our certificate") || why.contains("closed the connection"),
            "{why}"
        );
    };
    is_refused(contact(&fe, false).await);
    world.counted(Fault::Revoked, 1).await;
    assert!(world.registrar.revoke("edge1").is_err());
    // The file still has the certificate, and nevertheless a restart does not accept it.
    assert_eq!(world.pins(), [old]);
    let world = world.restarted().await;
    fe.ces[0].desk = world.desk;
    is_refused(contact(&fe, false).await);
    // Not even with a token, which ends with a second revocation.
    let token = world.token();
    let mut copy = fe.clone();
    copy.own = fe.own.next();
    fs::copy(&fe.own.certificate, copy.own.next().certificate).unwrap();
    fs::copy(&fe.own.key, copy.own.next().key).unwrap();
    let error = enrol(&copy, &token).await.unwrap_err();
    assert!(
        error.contains("revoked") || error.contains("closed the connection"),
        "{error}"
    );
    let lines = world.registrar.revoke("edge1").unwrap();
    assert!(lines[0].contains("token"), "{lines:?}");
    // A new token admits a new key only.
    enrol(&fe, &world.token()).await.unwrap();
    assert_ne!(present(&fe), old);
    assert_eq!(world.pins(), [present(&fe)]);
    assert_eq!(contact(&fe, false).await, (vec![], vec![]));
    // One certificate by its fingerprint.
    contact(&fe, true).await;
    let first = world.pins()[0].to_string();
    world.registrar.revoke(&first).unwrap();
    assert_eq!(contact(&fe, false).await, (vec![], vec![]));
    let before = present(&fe);
    contact(&fe, true).await;
    assert_eq!(world.pins(), [before, present(&fe)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_the_store_has_missed_is_repeated() {
    let world = World::new("unstored").await;
    let mut fe = world.enrolled().await;
    let (store, aside) = (world.folder.join("ce.store"), world.folder.join("aside"));
    fs::rename(&store, &aside).unwrap();
    fs::write(&store, "another file").unwrap();
    let error = world.registrar.revoke("edge1").unwrap_err();
    assert!(error.contains("revoked until the CE restarts"), "{error}");
    assert_eq!(*world.expelled.lock().unwrap(), [Id(2)]);
    fs::rename(&aside, &store).unwrap();
    let lines = world.registrar.revoke("edge1").unwrap();
    assert!(lines[0].contains(&present(&fe).to_string()), "{lines:?}");
    assert!(world.registrar.revoke("edge1").is_err());
    let world = world.restarted().await;
    fe.ces[0].desk = world.desk;
    assert_eq!(contact(&fe, false).await.1.len(), 1);
    world.counted(Fault::Revoked, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_that_was_not_used_yet_does_not_block_enrolment() {
    let world = World::new("unused").await;
    let fe = world.enrolled().await;
    let next = fe.own.next();
    fs::copy(&fe.own.key, &next.key).unwrap();
    fs::copy(&fe.own.certificate, &next.certificate).unwrap();
    world.registrar.revoke("edge1").unwrap();
    let token = world.token();
    let error = enrol(&fe, &token).await.unwrap_err();
    assert!(error.contains("repeat the command"), "{error}");
    enrol(&fe, &token).await.unwrap();
    assert_eq!(world.pins(), [present(&fe)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_fe_keeps_the_certificate_that_another_ce_has_pinned() {
    let world = World::new("pinned").await;
    let mut fe = world.enrolled().await;
    let old = present(&fe);
    fe.renews = false; // a CE without `enrol` has the certificate
    enrol(&fe, &world.token()).await.unwrap();
    assert_eq!(present(&fe), old);
    fe.renews = true;
    enrol(&fe, &world.token()).await.unwrap();
    assert_ne!(present(&fe), old);
}
