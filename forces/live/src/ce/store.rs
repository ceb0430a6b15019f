//! The store of a control element: the changes by operators for each FE.
//!
//! | file | content |
//! |---|---|
//! | `STORE` | the state at the last rewrite, and every change since (`log`) |
//! | `STORE.copy` | the same once more: the way back when `STORE` is damaged |
//! | `STORE.lock` | held by the process that uses the store |
//!
//! | key, with tabs between its parts | value |
//! |---|---|
//! | `desired`, FE, path in its configuration | `+` exists, `-` default, or type and value |
//! | `component`, FE, path of class, instance and names | the value as text |
//! | `route`, FE, prefix, metric | next router (or nothing), tab, port |
//! | `request`, number of a request for a path | its keys and values as JSON |
//! | `revoked`, FE, SHA-256 of a certificate | `+` |
//!
//! The store of several control elements is in etcd instead (`etcd`), with the same keys and values.
//!
//! The store confirms a change when both files have it on disk, so the change survives `kill -9` and a loss of power.
//! Only the last line of `STORE` can be torn, and only while the copy does not have that line. Anything else is damage:
//! the store reports damage, and never repairs it by guessing. The store rolls back a change that it cannot write, and
//! reopens the files for the next change. It rewrites the files when the changes outgrow the state.

mod files;
mod log;
#[cfg(feature = "etcd")]
pub(super) mod shared;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use weir_base::setting::Scalar;
use weir_ce::contract::{PathRecord, Records};
use weir_ce::desired::DesiredValue;
use weir_ce::network::Keys;
use weir_ce::route::{Hop, RouteKey};
use weir_model::ComponentPath;

use self::files::Files;
use self::log::Entry;
use crate::tml::identity::Fingerprint;
use weir_live::mutex::lock;

/// Separates the parts of a key or value. Names are printable, so they never contain it.
const SEPARATOR: char = '\t';

/// Log event for a store that has failed.
const UNWRITABLE: &str = "the store cannot be written: operators' changes are refused until it can";

/// The store.
#[derive(Debug)]
pub struct Store {
    backend: Backend,
    health: Arc<Mutex<Health>>,
}

#[derive(Debug)]
enum Backend {
    Files(Mutex<Files>),
    #[cfg(feature = "etcd")]
    Etcd(shared::Shared),
}

/// State of a store.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Number of changes that could not be written.
    pub failures: u64,
    /// Why the store cannot write changes now; `None` if it can.
    pub error: Option<String>,
    /// Name of the leader of several control elements.
    pub leader: Option<String>,
}

/// Everything stored for one FE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Desired values of the configuration.
    pub desired: BTreeMap<ComponentPath, DesiredValue>,
    /// Components of any class.
    pub components: BTreeMap<ComponentPath, String>,
    /// Routes.
    pub routes: weir_ce::route::Routes,
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process uses the store.
    #[error("another `weir ce` uses the store {}; give each its own `store`", .0.display())]
    InUse(PathBuf),
    /// The store does not exist, but another file shows that it did.
    #[error("the store {} does not exist, but {} does; {remedy}", path.display(), other.display())]
    Missing {
        /// Path of the store.
        path: PathBuf,
        /// Path of the other file.
        other: PathBuf,
        /// How the operator can proceed.
        remedy: String,
    },
    /// A part of the store cannot be read.
    #[error("the store {} cannot be used: {why}; {remedy}", path.display())]
    Damaged {
        /// Path of the store.
        path: PathBuf,
        /// The reason.
        why: String,
        /// How the operator can proceed.
        remedy: String,
    },
    /// A file cannot be opened, read or written.
    #[error("`store` {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Store {
    /// Opens a store. Creates a missing store with mode 0600, and its directory if necessary; an empty or damaged file
    /// is an error.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut files = Files::open(path)?;
        // A full disk must not prevent a control element from starting.
        let error = files.settle().err().map(|error| error.to_string());
        if let Some(error) = &error {
            tracing::error!(error, "{UNWRITABLE}");
        }
        let health = Health {
            path: files.main.path.clone(),
            bytes: files.main.length,
            failures: 0,
            error,
            leader: None,
        };
        Ok(Self {
            backend: Backend::Files(Mutex::new(files)),
            health: Arc::new(Mutex::new(health)),
        })
    }

    /// The store of several control elements, in etcd.
    #[cfg(feature = "etcd")]
    pub(super) const fn shared(shared: shared::Shared, health: Arc<Mutex<Health>>) -> Self {
        Self {
            backend: Backend::Etcd(shared),
            health,
        }
    }

    /// Lets another control element lead, before this one ends. Blocks, but not for long.
    pub fn leave(&self) {
        match &self.backend {
            Backend::Files(_) => {}
            #[cfg(feature = "etcd")]
            Backend::Etcd(shared) => shared.leave(),
        }
    }

    fn state(&self) -> Result<BTreeMap<String, String>, String> {
        match &self.backend {
            Backend::Files(files) => lock(files).state(),
            #[cfg(feature = "etcd")]
            Backend::Etcd(shared) => Ok(shared.state()),
        }
    }

    /// Everything in the store, by FE name.
    pub fn read(&self) -> Result<BTreeMap<String, Kept>, String> {
        let mut all: BTreeMap<String, Kept> = BTreeMap::new();
        for (key, text) in self.state()? {
            let Some((fe, records)) = records(&key, Some(&text))? else {
                continue;
            };
            let kept = all.entry(fe).or_default();
            let set = |(path, value)| Some((path, value?));
            kept.desired
                .extend(records.desired.into_iter().filter_map(set));
            let set = |(path, text)| Some((path, text?));
            kept.components
                .extend(records.components.into_iter().filter_map(set));
            for (key, hop) in records.routes {
                kept.routes.put(key, hop);
            }
        }
        Ok(all)
    }

    /// The path requests, by number.
    pub fn read_requests(&self) -> Result<BTreeMap<u64, Keys>, String> {
        let state = self.state()?;
        let requests = state.into_iter().filter_map(|(key, text)| {
            let number = key.strip_prefix("request")?.strip_prefix(SEPARATOR)?;
            let wrong = || {
                format!(
                    "the store has an invalid request `{number}`: `{}`",
                    text.escape_debug()
                )
            };
            let request = || Some((number.parse().ok()?, serde_json::from_str(&text).ok()?));
            Some(request().ok_or_else(wrong))
        });
        requests.collect()
    }

    /// Durably stores a path request, or its end.
    pub fn keep_request(&self, (number, keys): &PathRecord) -> Result<(), String> {
        let text = keys.as_ref().map(serde_json::to_string).transpose();
        let text = text.map_err(|e| e.to_string())?;
        self.change(&[(key("request", &number.to_string(), [])?, text)])
    }

    /// The revoked certificates, each with the name of its FE.
    pub fn read_revoked(&self) -> Result<Vec<(Fingerprint, String)>, String> {
        let state = self.state()?;
        state
            .keys()
            .filter_map(|key| revocation(key).transpose())
            .collect()
    }

    /// Durably stores revoked certificates, each with the name of its FE, all or none.
    pub fn keep_revoked(&self, revoked: &BTreeMap<Fingerprint, String>) -> Result<(), String> {
        let entry = |(pin, fe): (&Fingerprint, &String)| {
            let key = key("revoked", fe, [&pin.to_string()[..]])?;
            Ok((key, Some("+".to_owned())))
        };
        let entries = revoked
            .iter()
            .map(entry)
            .collect::<Result<Vec<_>, String>>()?;
        self.change(&entries)
    }

    /// Durably stores changes, all or none.
    pub fn keep(&self, changes: &[(String, Records)]) -> Result<(), String> {
        let mut entries = Vec::new();
        for (fe, records) in changes {
            for (path, wish) in &records.desired {
                entries.push((
                    key("desired", fe, path.segments())?,
                    wish.as_ref().map(text),
                ));
            }
            for (path, text) in &records.components {
                entries.push((key("component", fe, path.segments())?, text.clone()));
            }
            for ((prefix, metric), hop) in &records.routes {
                let (prefix, metric) = (prefix.to_string(), metric.to_string());
                let hop = hop.as_ref().map(|hop| {
                    let gateway = hop.gateway.map(|gateway| gateway.to_string());
                    format!("{}{SEPARATOR}{}", gateway.unwrap_or_default(), hop.port)
                });
                entries.push((key("route", fe, [&prefix[..], &metric[..]])?, hop));
            }
        }
        self.change(&entries)
    }

    /// State of the store.
    pub fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    /// Retries writing if the last change could not be written.
    pub fn try_again(&self) {
        if matches!(self.backend, Backend::Files(_)) && lock(&self.health).error.is_some() {
            let _ = self.change(&[]); // logged, and shown in the table
        }
    }

    fn change(&self, entries: &[Entry]) -> Result<(), String> {
        match &self.backend {
            Backend::Files(files) => self.change_files(&mut lock(files), entries),
            #[cfg(feature = "etcd")]
            Backend::Etcd(shared) => {
                let done = shared.change(entries);
                lock(&self.health).failures += u64::from(done.is_err());
                done
            }
        }
    }

    fn change_files(&self, files: &mut Files, entries: &[Entry]) -> Result<(), String> {
        let done = files.change(entries).map_err(|e| e.to_string());
        let mut health = lock(&self.health);
        health.bytes = files.main.length;
        match &done {
            Ok(()) if health.error.take().is_some() => {
                tracing::info!(store = %health.path.display(), "the store can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                health.failures += u64::from(!entries.is_empty());
                if health.error.as_ref() != Some(error) {
                    tracing::error!(error, "{UNWRITABLE}");
                }
                health.error = Some(error.clone());
            }
        }
        done
    }
}

/// The FE and the record of an entry; without a text the entry is removed. `None` if the entry belongs to the network, or
/// to the registrar.
pub(super) fn records(key: &str, text: Option<&str>) -> Result<Option<(String, Records)>, String> {
    let mut parts = key.split(SEPARATOR);
    let (Some(table), Some(fe)) = (parts.next(), parts.next()) else {
        return Err(format!(
            "the store has an invalid key `{}`",
            key.escape_debug()
        ));
    };
    let wrong = || {
        format!(
            "the store has an invalid entry `{}`: `{}`",
            key.escape_debug(),
            text.unwrap_or_default().escape_debug()
        )
    };
    let mut records = Records::default();
    match table {
        "request" | "revoked" => return Ok(None),
        "desired" => {
            let value = text.map(|text| wish(text).ok_or_else(wrong)).transpose()?;
            records.desired.push((ComponentPath::new(parts), value));
        }
        "component" => {
            let text = text.map(str::to_owned);
            records.components.push((ComponentPath::new(parts), text));
        }
        "route" => {
            let key = route_key(parts).ok_or_else(wrong)?;
            let hop = text.map(|text| hop(text).ok_or_else(wrong)).transpose()?;
            records.routes.push((key, hop));
        }
        _ => return Err(wrong()),
    }
    Ok(Some((fe.to_owned(), records)))
}

/// The revoked certificate of a key, and the name of its FE; `None` if the key is another entry.
pub(super) fn revocation(key: &str) -> Result<Option<(Fingerprint, String)>, String> {
    let rest = key
        .strip_prefix("revoked")
        .and_then(|key| key.strip_prefix(SEPARATOR));
    let Some(rest) = rest else {
        return Ok(None);
    };
    let entry = rest.split_once(SEPARATOR);
    let entry = entry.and_then(|(fe, pin)| Some((Fingerprint::parse(pin)?, fe.to_owned())));
    let wrong = || format!("the store has an invalid key `{}`", key.escape_debug());
    entry.ok_or_else(wrong).map(Some)
}

fn key<'a>(
    table: &str,
    name: &'a str,
    parts: impl IntoIterator<Item = &'a str>,
) -> Result<String, String> {
    let mut key = table.to_owned();
    for part in std::iter::once(name).chain(parts) {
        if part.contains(SEPARATOR) {
            return Err(format!(
                "`{}`: a name cannot contain a tab",
                part.escape_debug()
            ));
        }
        key.push(SEPARATOR);
        key.push_str(part);
    }
    Ok(key)
}

fn route_key<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<RouteKey> {
    let (prefix, metric) = (parts.next()?, parts.next()?);
    Some((prefix.parse().ok()?, metric.parse().ok()?))
}

fn hop(text: &str) -> Option<Hop> {
    let (gateway, port) = text.split_once(SEPARATOR)?;
    let gateway = match gateway {
        "" => None,
        gateway => Some(gateway.parse().ok()?),
    };
    let port = port.into();
    Some(Hop { gateway, port })
}

fn text(wish: &DesiredValue) -> String {
    match wish {
        DesiredValue::Exists => "+".to_owned(),
        DesiredValue::Default => "-".to_owned(),
        DesiredValue::Is(Scalar::Integer(number)) => format!("i{number}"),
        DesiredValue::Is(Scalar::Real(number)) => format!("r{number}"),
        DesiredValue::Is(Scalar::Flag(on)) => format!("f{on}"),
        DesiredValue::Is(Scalar::Text(text)) => format!("t{text}"),
    }
}

/// Parses a desired value.
pub fn wish(text: &str) -> Option<DesiredValue> {
    let mut letters = text.chars();
    let kind = letters.next()?;
    let value = letters.as_str();
    Some(match kind {
        '+' => DesiredValue::Exists,
        '-' => DesiredValue::Default,
        'i' => DesiredValue::Is(Scalar::Integer(value.parse().ok()?)),
        'r' => DesiredValue::Is(Scalar::Real(value.parse().ok()?)),
        'f' => DesiredValue::Is(Scalar::Flag(value.parse().ok()?)),
        't' => DesiredValue::Is(Scalar::Text(value.to_owned())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::files::CHANGES_BYTES_MIN;
    use weir_live::file::with_suffix;

    use super::*;

    /// A directory for one test, deleted with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn store(&self) -> PathBuf {
            self.0.join("ce.store")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn path(text: &str) -> ComponentPath {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_kept_is_read_again_with_its_type() {
        let folder = Folder::new("store");
        let wishes = [
            Some(DesiredValue::Is(Scalar::Integer(7))),
            Some(DesiredValue::Is(Scalar::Real(0.5))),
            Some(DesiredValue::Is(Scalar::Flag(true))),
            Some(DesiredValue::Is(Scalar::Text("5 Mbit".to_owned()))),
            Some(DesiredValue::Exists),
            Some(DesiredValue::Default),
        ];
        let desired = wishes
            .iter()
            .zip(0..)
            .map(|(wish, n)| (path(&format!("a.{n}")), wish.clone()));
        let via = |gateway: Option<&str>| Hop {
            gateway: gateway.map(|text| text.parse().unwrap()),
            port: "wan".into(),
        };
        let routes = vec![
            (
                ("10.0.0.0/8".parse().unwrap(), 0),
                Some(via(Some("192.0.2.1"))),
            ),
            (("10.0.0.0/8".parse().unwrap(), 9), Some(via(None))),
            (
                ("2001:db8::/32".parse().unwrap(), 0),
                Some(via(Some("fe80::1"))),
            ),
        ];
        let records = Records {
            desired: desired.collect(),
            components: vec![(path("FEObject.1.FEName"), Some("west".to_owned()))],
            routes: routes.clone(),
        };
        let store = Store::open(&folder.store()).unwrap();
        store.keep(&[("edge1".to_owned(), records)]).unwrap();
        drop(store);
        let store = Store::open(&folder.store()).unwrap();
        let gone = Records {
            desired: vec![(path("a.0"), None)],
            components: Vec::new(),
            routes: vec![(routes[0].0, None)],
        };
        store.keep(&[("edge1".to_owned(), gone)]).unwrap();
        let kept = &store.read().unwrap()["edge1"];
        let values: Vec<_> = kept.desired.values().cloned().map(Some).collect();
        assert_eq!(values, wishes[1..]);
        assert_eq!(kept.components[&path("FEObject.1.FEName")], "west");
        let left = kept
            .routes
            .iter()
            .map(|(key, hop)| (*key, Some(hop.clone())));
        assert_eq!(left.collect::<Vec<_>>(), routes[1..]);
        let mode = fs::metadata(folder.store()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn requests_for_paths_are_kept_whole_and_end() {
        let folder = Folder::new("store-paths");
        let keys =
            |to: &str| Keys::from([("from", "c1"), ("to", to)].map(|(k, v)| (k.into(), v.into())));
        let store = Store::open(&folder.store()).unwrap();
        let other = Keys::from([("through".to_owned(), "c d a".to_owned())]);
        for (number, keys) in [
            (1, keys("a")),
            (2, keys("b")),
            (3, keys("d")),
            (2, other.clone()),
        ] {
            store.keep_request(&(number, Some(keys))).unwrap();
        }
        store.keep_request(&(3, None)).unwrap();
        drop(store);
        let store = Store::open(&folder.store()).unwrap();
        let kept = store.read_requests().unwrap();
        assert_eq!(kept, BTreeMap::from([(1, keys("a")), (2, other)]));
    }

    fn wish_of(n: i64) -> Vec<(String, Records)> {
        let desired = vec![(path("a.b"), Some(DesiredValue::Is(Scalar::Integer(n))))];
        let records = Records {
            desired,
            ..Records::default()
        };
        vec![("edge1".to_owned(), records)]
    }

    fn kept(store: &Store) -> Option<DesiredValue> {
        let kept = store.read().unwrap();
        kept.get("edge1")?.desired.get(&path("a.b")).cloned()
    }

    fn refused(path: &Path) -> String {
        Store::open(path).unwrap_err().to_string()
    }

    #[test]
    fn only_one_process_has_a_store_and_only_its_owner_reads_it() {
        let folder = Folder::new("stores");
        let store = Store::open(&folder.store()).unwrap();
        let error = refused(&folder.store());
        assert!(
            error.starts_with("another `weir ce` uses the store"),
            "{error}"
        );
        store.keep(&wish_of(1)).unwrap();
        for name in ["", ".copy", ".lock"] {
            let metadata = fs::metadata(with_suffix(&folder.store(), name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn any_damage_is_reported_and_the_copy_is_the_way_back() {
        let folder = Folder::new("damage");
        let (file, copy) = (folder.store(), with_suffix(&folder.store(), ".copy"));
        let store = Store::open(&file).unwrap();
        (0..8).for_each(|n| store.keep(&wish_of(n)).unwrap());
        drop(store);
        let whole = fs::read(&file).unwrap();
        let check = |bytes: &[u8], what: &str| {
            fs::write(&file, bytes).unwrap();
            let error = refused(&file);
            assert!(error.contains(&*file.to_string_lossy()), "{what}: {error}");
            assert!(error.contains("cp -p "), "{what}: {error}");
            assert_eq!(fs::read(&file).unwrap(), bytes, "{what}");
            fs::copy(&copy, &file).unwrap();
            let store = Store::open(&file).unwrap();
            assert_eq!(
                kept(&store),
                Some(DesiredValue::Is(Scalar::Integer(7))),
                "{what}"
            );
        };
        (0..whole.len()).for_each(|length| check(&whole[..length], &format!("cut to {length}")));
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            check(&bytes, &format!("flip at {at}"));
        }
        let mut longer = whole.clone();
        longer.extend_from_slice(&whole[..100]);
        check(&longer, "two lines more");
        check(&[0; 4096], "zeros");
        check(b"redb\x1a\x0a\xa9\x0d\x0a".as_slice(), "redb");
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let folder = Folder::new("kinds");
        let file = folder.store();
        fs::create_dir_all(&file).unwrap();
        assert!(refused(&file).contains("directory"), "{}", refused(&file));
        fs::remove_dir(&file).unwrap();
        for (bytes, words) in [
            (&b""[..], "it is empty"),
            (
                b"this is a text and no store",
                "it is not a store of a control element",
            ),
            (b"redb\x1a\x0a\xa9\x0d\x0a", "convert it: `mv "),
        ] {
            fs::write(&file, bytes).unwrap();
            let error = refused(&file);
            assert!(error.contains(words), "{error}");
            assert_eq!(fs::read(&file).unwrap(), bytes);
        }
        fs::write(&file, newer_header()).unwrap();
        assert!(
            refused(&file).contains("has version 3"),
            "{}",
            refused(&file)
        );
        fs::remove_file(&file).unwrap();
        fs::write(file.with_extension("redb"), "redb").unwrap();
        let error = refused(&file.with_extension("other"));
        assert!(error.contains("ce.redb does"), "{error}");
    }

    fn newer_header() -> Vec<u8> {
        super::log::line_of_tests("[\"weir-ce-store\",3]")
    }

    #[test]
    fn a_link_stays_a_link_and_a_lost_file_is_no_new_store() {
        let folder = Folder::new("links");
        let (file, link) = (folder.store(), folder.0.join("link"));
        drop(Store::open(&file).unwrap());
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let store = Store::open(&link).unwrap();
        store.keep(&wish_of(7)).unwrap();
        drop(store);
        assert!(link.is_symlink());
        assert_eq!(
            kept(&Store::open(&file).unwrap()),
            Some(DesiredValue::Is(Scalar::Integer(7)))
        );
        fs::remove_file(&file).unwrap();
        assert!(
            refused(&link).contains("symbolic link"),
            "{}",
            refused(&link)
        );
        let error = refused(&file);
        assert!(
            error.contains("does not exist, but") && error.contains("cp -p"),
            "{error}"
        );
    }

    #[test]
    fn a_crash_costs_at_most_the_change_that_was_not_confirmed() {
        let folder = Folder::new("torn");
        let (file, copy) = (folder.store(), with_suffix(&folder.store(), ".copy"));
        let store = Store::open(&file).unwrap();
        store.keep(&wish_of(1)).unwrap();
        let confirmed = fs::read(&file).unwrap();
        store.keep(&wish_of(2)).unwrap();
        drop(store);
        let whole = fs::read(&file).unwrap();
        for length in confirmed.len()..=whole.len() {
            for in_copy in [confirmed.len(), length] {
                if in_copy > confirmed.len() && length < whole.len() {
                    continue; // the copy is written after the store
                }
                fs::write(&file, &whole[..length]).unwrap();
                fs::write(&copy, &whole[..in_copy]).unwrap();
                let store = Store::open(&file).unwrap();
                let expected = if length == whole.len() { 2 } else { 1 };
                assert_eq!(
                    kept(&store),
                    Some(DesiredValue::Is(Scalar::Integer(expected)))
                );
                store.keep(&wish_of(3)).unwrap();
                assert_eq!(fs::read(&file).unwrap(), fs::read(&copy).unwrap());
            }
        }
    }

    #[test]
    fn a_store_that_was_moved_while_it_is_used_is_put_back_or_the_change_is_refused() {
        let folder = Folder::new("moved");
        let (file, copy) = (folder.store(), with_suffix(&folder.store(), ".copy"));
        let store = Store::open(&file).unwrap();
        store.keep(&wish_of(1)).unwrap();
        let old = fs::read(&file).unwrap();
        store.keep(&wish_of(2)).unwrap();
        fs::remove_file(&copy).unwrap();
        store.keep(&wish_of(3)).unwrap();
        fs::remove_file(&file).unwrap();
        store.keep(&wish_of(4)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), fs::read(&copy).unwrap());
        let aside = folder.0.join("aside");
        fs::rename(&file, &aside).unwrap();
        fs::write(&file, &old).unwrap();
        let error = store.keep(&wish_of(5)).unwrap_err();
        assert!(
            error.contains("not the file that this process has written"),
            "{error}"
        );
        assert_eq!(store.health().failures, 1);
        assert!(store.health().error.is_some());
        assert_eq!(fs::read(&file).unwrap(), old);
        fs::rename(&aside, &file).unwrap();
        store.try_again();
        assert_eq!(store.health().error, None);
        store.keep(&wish_of(6)).unwrap();
        assert_eq!(kept(&store), Some(DesiredValue::Is(Scalar::Integer(6))));
    }

    #[test]
    fn the_files_grow_with_the_state_and_not_with_the_changes() {
        let folder = Folder::new("grow");
        let file = folder.store();
        let store = Store::open(&file).unwrap();
        let text = "x".repeat(1 << 16);
        for n in 0..64 {
            let components = vec![(path("FEObject.1.FEName"), Some(format!("{n}{text}")))];
            let records = Records {
                components,
                ..Records::default()
            };
            store.keep(&[("edge1".to_owned(), records)]).unwrap();
            store.keep(&wish_of(n)).unwrap();
        }
        let bytes = fs::metadata(&file).unwrap().len();
        assert!(bytes < CHANGES_BYTES_MIN + (2 << 16), "{bytes}");
        assert_eq!(kept(&store), Some(DesiredValue::Is(Scalar::Integer(63))));
        drop(store);
        let store = Store::open(&file).unwrap();
        assert_eq!(kept(&store), Some(DesiredValue::Is(Scalar::Integer(63))));
        assert!(
            store.read().unwrap()["edge1"].components[&path("FEObject.1.FEName")]
                .starts_with("63x")
        );
    }
}
