//! The store of a control element: what operators want of each FE, in one file (redb).
//!
//! | table | key | value |
//! |---|---|---|
//! | `format` | `version` | version of this layout |
//! | `desired` | FE, path in its configuration | `+` exists, `-` default, or type and value |
//! | `components` | FE, path of class, instance and names | the value as text |
//! | `routes` | FE, prefix, metric | next router (or nothing), port |
//! | `requests` | number of a request for a path, key | the value as text |
//!
//! Every change is durable before it is confirmed, so it survives `kill -9` and a loss of power. The file belongs to
//! one process at a time, and only its owner may read it.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};
use weir_base::setting::Scalar;
use weir_ce::contract::{PathRecord, Records};
use weir_ce::desired::Wish;
use weir_ce::network::Keys;
use weir_ce::route::{Hop, RouteKey, RouteRecord};
use weir_model::ComponentPath;

/// The version of the layout.
const VERSION: u64 = 1;
/// Between the segments of a path. Names are printable.
const SEPARATOR: char = '\u{1f}';

const FORMAT: TableDefinition<'_, &str, u64> = TableDefinition::new("format");
const DESIRED: Texts = TableDefinition::new("desired");
const COMPONENTS: Texts = TableDefinition::new("components");

const ROUTES: Routes = TableDefinition::new("routes");

/// A table of requests for paths.
type Requests = TableDefinition<'static, (u64, &'static str), &'static str>;
const REQUESTS: Requests = TableDefinition::new("requests");

type Routes =
    TableDefinition<'static, (&'static str, &'static str, u32), (&'static str, &'static str)>;
type Texts = TableDefinition<'static, (&'static str, &'static str), &'static str>;

/// The store.
#[derive(Debug)]
pub struct Store {
    database: Database,
}

/// Everything that is kept for one FE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Wishes for its configuration.
    pub desired: BTreeMap<ComponentPath, Wish>,
    /// Components of any class.
    pub components: BTreeMap<ComponentPath, String>,
    /// Its routes.
    pub routes: weir_ce::route::Routes,
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("another `weir ce` uses the store {}; give each its own `store`", .0.display())]
    InUse(PathBuf),
    /// It is no store, or is damaged.
    #[error("{} is no store of a CE, or is damaged: {why}; move it away to begin with the configuration alone", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A later version of weir wrote it.
    #[error("the store {} has version {version}, and this weir reads version {VERSION}; use a later weir", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u64,
    },
    /// The file cannot be opened.
    #[error("`store` {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Store {
    /// Opens a store, or creates it with mode 0600, and its folder if necessary.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let io = |source| StoreError::Io {
            path: path.to_owned(),
            source,
        };
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            let mut builder = DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(io)?;
        }
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let file = options.open(path).map_err(io)?;
        let database = Database::builder()
            .create_file(file)
            .map_err(|error| match error {
                DatabaseError::DatabaseAlreadyOpen => StoreError::InUse(path.to_owned()),
                DatabaseError::Storage(StorageError::Io(source))
                    if source.kind() != std::io::ErrorKind::InvalidData =>
                {
                    io(source)
                }
                other => damaged(path, other),
            })?;
        let store = Self { database };
        match store.version().map_err(|e| damaged(path, e))? {
            VERSION => Ok(store),
            version => Err(StoreError::Newer {
                path: path.to_owned(),
                version,
            }),
        }
    }

    /// The version of the layout, which a new store gets here.
    fn version(&self) -> Result<u64, redb::Error> {
        let write = self.database.begin_write()?;
        let version = {
            let mut format = write.open_table(FORMAT)?;
            let version = format.get("version")?.map(|version| version.value());
            match version {
                Some(version) => version,
                None => {
                    format.insert("version", VERSION)?;
                    VERSION
                }
            }
        };
        write.open_table(DESIRED)?;
        write.open_table(COMPONENTS)?;
        write.open_table(ROUTES)?;
        write.open_table(REQUESTS)?;
        write.commit()?;
        Ok(version)
    }

    /// Everything that is kept, by the names of the FEs.
    pub fn read(&self) -> Result<BTreeMap<String, Kept>, String> {
        let mut all: BTreeMap<String, Kept> = BTreeMap::new();
        let failed = |e: redb::Error| format!("the store cannot be read: {e}");
        for (fe, path, text) in self.rows(DESIRED).map_err(failed)? {
            let damaged = || format!("the store has `{text}` for {fe}:{path}, which is no wish");
            let wish = wish(&text).ok_or_else(damaged)?;
            all.entry(fe).or_default().desired.insert(path, wish);
        }
        for (fe, path, text) in self.rows(COMPONENTS).map_err(failed)? {
            all.entry(fe).or_default().components.insert(path, text);
        }
        self.read_routes(&mut all)?;
        Ok(all)
    }

    /// The requests for paths, by number.
    pub fn read_requests(&self) -> Result<BTreeMap<u64, Keys>, String> {
        let read = || -> Result<BTreeMap<u64, Keys>, redb::Error> {
            let mut all: BTreeMap<u64, Keys> = BTreeMap::new();
            let read = self.database.begin_read()?;
            for row in read.open_table(REQUESTS)?.iter()? {
                let (place, text) = row?;
                let (number, key) = place.value();
                let keys = all.entry(number).or_default();
                keys.insert(key.to_owned(), text.value().to_owned());
            }
            Ok(all)
        };
        read().map_err(|e| format!("the store cannot be read: {e}"))
    }

    /// Makes a request for a path durable, or its end.
    pub fn keep_request(&self, record: &PathRecord) -> Result<(), String> {
        self.write_request(record).map_err(|e| e.to_string())
    }

    fn write_request(&self, (number, keys): &PathRecord) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(REQUESTS)?;
            table.retain_in((*number, "")..(*number + 1, ""), |_, _| false)?;
            for (key, text) in keys.iter().flatten() {
                table.insert((*number, &key[..]), &text[..])?;
            }
        }
        write.commit()?;
        Ok(())
    }

    fn read_routes(&self, all: &mut BTreeMap<String, Kept>) -> Result<(), String> {
        let failed = |e: redb::Error| format!("the store cannot be read: {e}");
        let open = || {
            let read = self.database.begin_read()?;
            Ok(read.open_table(ROUTES)?)
        };
        let table = open().map_err(failed)?;
        for row in table.iter().map_err(|e| failed(e.into()))? {
            let (key, hop) = row.map_err(|e| failed(e.into()))?;
            let ((fe, prefix, metric), (gateway, port)) = (key.value(), hop.value());
            let (key, hop) = route(prefix, metric, gateway, port).ok_or_else(|| {
                format!("the store has `{prefix} via {gateway}` for {fe}, which is no route")
            })?;
            match all.get_mut(fe) {
                Some(kept) => kept.routes.put(key, Some(hop)),
                None => all
                    .entry(fe.to_owned())
                    .or_default()
                    .routes
                    .put(key, Some(hop)),
            }
        }
        Ok(())
    }

    fn rows(&self, table: Texts) -> Result<Vec<(String, ComponentPath, String)>, redb::Error> {
        let read = self.database.begin_read()?;
        let table = read.open_table(table)?;
        let mut rows = Vec::new();
        for row in table.iter()? {
            let (key, text) = row?;
            let (fe, path) = key.value();
            let path = ComponentPath::new(path.split(SEPARATOR));
            rows.push((fe.to_owned(), path, text.value().to_owned()));
        }
        Ok(rows)
    }

    /// Makes changes durable: all of them or none.
    pub fn keep(&self, changes: &[(String, Records)]) -> Result<(), String> {
        self.write(changes).map_err(|e| e.to_string())
    }

    fn write(&self, changes: &[(String, Records)]) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        for (fe, records) in changes {
            let wishes = records.desired.iter();
            let wishes = wishes.map(|(path, wish)| (path, wish.as_ref().map(text)));
            put(&write, DESIRED, fe, wishes)?;
            let texts = records.components.iter();
            put(
                &write,
                COMPONENTS,
                fe,
                texts.map(|(path, text)| (path, text.clone())),
            )?;
            put_routes(&write, fe, &records.routes)?;
        }
        write.commit()?;
        Ok(())
    }
}

fn put<'a>(
    write: &redb::WriteTransaction,
    table: Texts,
    fe: &str,
    texts: impl Iterator<Item = (&'a ComponentPath, Option<String>)>,
) -> Result<(), redb::Error> {
    let mut table = write.open_table(table)?;
    for (path, text) in texts {
        let key = path.segments().join(&SEPARATOR.to_string());
        match text {
            Some(text) => table.insert((fe, &key[..]), &text[..])?,
            None => table.remove((fe, &key[..]))?,
        };
    }
    Ok(())
}

fn put_routes(
    write: &redb::WriteTransaction,
    fe: &str,
    records: &[RouteRecord],
) -> Result<(), redb::Error> {
    let mut table = write.open_table(ROUTES)?;
    for ((prefix, metric), hop) in records {
        let prefix = prefix.to_string();
        match hop {
            Some(hop) => {
                let gateway = hop.gateway.map(|gateway| gateway.to_string());
                let hop = (gateway.as_deref().unwrap_or_default(), &*hop.port);
                table.insert((fe, &prefix[..], *metric), hop)?
            }
            None => table.remove((fe, &prefix[..], *metric))?,
        };
    }
    Ok(())
}

fn route(prefix: &str, metric: u32, gateway: &str, port: &str) -> Option<(RouteKey, Hop)> {
    let gateway = match gateway {
        "" => None,
        gateway => Some(gateway.parse().ok()?),
    };
    let port = port.into();
    Some(((prefix.parse().ok()?, metric), Hop { gateway, port }))
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

fn text(wish: &Wish) -> String {
    match wish {
        Wish::Exists => "+".to_owned(),
        Wish::Default => "-".to_owned(),
        Wish::Is(Scalar::Integer(number)) => format!("i{number}"),
        Wish::Is(Scalar::Real(number)) => format!("r{number}"),
        Wish::Is(Scalar::Flag(on)) => format!("f{on}"),
        Wish::Is(Scalar::Text(text)) => format!("t{text}"),
    }
}

fn wish(text: &str) -> Option<Wish> {
    let mut letters = text.chars();
    let kind = letters.next()?;
    let value = letters.as_str();
    Some(match kind {
        '+' => Wish::Exists,
        '-' => Wish::Default,
        'i' => Wish::Is(Scalar::Integer(value.parse().ok()?)),
        'r' => Wish::Is(Scalar::Real(value.parse().ok()?)),
        'f' => Wish::Is(Scalar::Flag(value.parse().ok()?)),
        't' => Wish::Is(Scalar::Text(value.to_owned())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of this test, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn store(&self) -> PathBuf {
            self.0.join("ce.redb")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn path(text: &str) -> ComponentPath {
        ComponentPath::new(text.split('.'))
    }

    #[test]
    fn what_is_kept_is_read_again_with_its_type() {
        let folder = Folder::new("store");
        let wishes = [
            Some(Wish::Is(Scalar::Integer(7))),
            Some(Wish::Is(Scalar::Real(0.5))),
            Some(Wish::Is(Scalar::Flag(true))),
            Some(Wish::Is(Scalar::Text("5 Mbit".to_owned()))),
            Some(Wish::Exists),
            Some(Wish::Default),
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

    #[test]
    fn a_store_that_cannot_be_used_says_why() {
        let folder = Folder::new("stores");
        let store = Store::open(&folder.store()).unwrap();
        let error = Store::open(&folder.store()).unwrap_err().to_string();
        assert!(
            error.starts_with("another `weir ce` uses the store"),
            "{error}"
        );
        let write = store.database.begin_write().unwrap();
        write
            .open_table(FORMAT)
            .unwrap()
            .insert("version", 2)
            .unwrap();
        write.commit().unwrap();
        drop(store);
        let error = Store::open(&folder.store()).unwrap_err().to_string();
        assert!(error.contains("has version 2"), "{error}");
        fs::write(
            folder.store(),
            "this is a text and no store, and it is long enough",
        )
        .unwrap();
        let error = Store::open(&folder.store()).unwrap_err().to_string();
        assert!(
            error.contains("is no store of a CE, or is damaged"),
            "{error}"
        );
    }
}
