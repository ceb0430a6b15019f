//! Opens, validates, changes and rewrites the files of a store.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_live::file::{folder, with_suffix};

use super::StoreError;
use super::log::{Entry, Fault, Log, Scan, change_line, header_line, scan};

/// Keys per line of a state.
const LINE_ENTRIES: usize = 1000;
/// Minimum size of the changes before a rewrite, in bytes.
pub(super) const CHANGES_BYTES_MIN: u64 = 1 << 20;

/// The files of a store.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) main: Log,
    copy: Log,
    /// Lock file; held while the store is open.
    lock: Option<File>,
    /// Number of the last change.
    last: u64,
    /// File size that triggers a rewrite, in bytes.
    rewrite_at: u64,
    /// Whether both files are known to end with the last change.
    is_sound: bool,
}

impl Files {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder(path));
        made.map_err(of(path))?;
        let path = &resolved(path).map_err(of(path))?;
        let lock = Some(locked(path)?);
        let main = match Log::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Self::create(path, lock);
            }
            main => main.map_err(of(path))?,
        };
        let scanned = scan(&main.file, u64::MAX, |_| {}).map_err(of(path))?;
        let copy = with_suffix(path, ".copy");
        let copied = Log::open(&copy)
            .and_then(|copy| Ok((scan(&copy.file, u64::MAX, |_| {})?, copy)))
            .ok();
        decide(path, &scanned, copied.as_ref().map(|(scan, _)| scan))?;
        Ok(Self {
            copy: match copied {
                Some((scan, log)) => Log {
                    length: scan.length,
                    ..log
                },
                None => Log {
                    path: copy,
                    file: main.file.try_clone().map_err(of(path))?,
                    length: 0,
                },
            },
            main: Log {
                length: scanned.length,
                ..main
            },
            lock,
            last: scanned.last,
            rewrite_at: rewrite_at(scanned.state_length),
            is_sound: false,
        })
    }

    /// Creates a new store, unless another file shows that a store existed.
    fn create(path: &Path, lock: Option<File>) -> Result<Self, StoreError> {
        let (copy, redb) = (with_suffix(path, ".copy"), path.with_extension("redb"));
        let missing = |other: PathBuf, remedy| StoreError::Missing {
            path: path.to_owned(),
            other,
            remedy,
        };
        if copy.exists() {
            let remedy =
                back(&copy, path) + ", or move the copy away to start with the configuration only";
            return Err(missing(copy, remedy));
        }
        if redb.exists() {
            let remedy =
                convert(&redb, path) + ", or move it away to start with the configuration only";
            return Err(missing(redb, remedy));
        }
        let create = |path: &Path| {
            let line = header_line(0, 0);
            Log::replace(path, |out| out.write_all(&line?)).map_err(of(path))
        };
        let files = Self {
            main: create(path)?,
            copy: create(&copy)?,
            lock,
            last: 0,
            rewrite_at: rewrite_at(0),
            is_sound: true,
        };
        tracing::info!(store = %path.display(), "created a new store, without changes by operators");
        Ok(files)
    }

    /// The whole state, by key.
    pub(super) fn state(&self) -> Result<BTreeMap<String, String>, String> {
        let mut state = BTreeMap::new();
        let path = self.main.path.display();
        let scan = scan(&self.main.file, self.main.length, |(key, value)| {
            match value {
                Some(value) => state.insert(key, value),
                None => state.remove(&key),
            };
        });
        let scan = scan.map_err(|error| format!("{path}: {error}"))?;
        match scan.fault {
            Some(fault) => Err(format!("{path}: {fault}")),
            None if scan.last != self.last => {
                Err(format!("{path}: another program has changed it"))
            }
            None => Ok(state),
        }
    }

    /// Makes a change durable, or leaves everything unchanged.
    pub(super) fn change(&mut self, entries: &[Entry]) -> io::Result<()> {
        self.settle()?;
        let line = change_line(self.last + 1, entries)?;
        let before = [self.main.length, self.copy.length];
        let written = self.main.append(&line);
        if let Err(error) = written.and_then(|()| self.copy.append(&line)) {
            [self.main.length, self.copy.length] = before;
            self.is_sound = self.main.cut().and_then(|()| self.copy.cut()).is_ok();
            return Err(error);
        }
        self.last += 1;
        if self.main.length >= self.rewrite_at
            && let Err(error) = self.rewrite()
        {
            self.rewrite_at = 2 * self.main.length;
            tracing::warn!(%error, "cannot compact the store; it keeps growing, and no change is lost");
        }
        Ok(())
    }

    /// Makes both files exist and end with the last change, after a failure, or after somebody has moved a file.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        if self.is_sound && self.main.is_in_place() && self.copy.is_in_place() {
            return Ok(());
        }
        self.is_sound = false;
        self.lock = None; // otherwise this process would block itself
        self.lock = Some(locked(&self.main.path).map_err(io::Error::other)?);
        self.main = match self.main.reopened(self.last)? {
            Some(main) => main,
            None => self.main.copied_to(&self.main.path)?,
        };
        self.copy = match self.copy.reopened(self.last) {
            Ok(Some(copy)) => copy,
            missing_or_other => {
                if let Err(error) = missing_or_other {
                    tracing::warn!(%error, "rewriting the copy of the store");
                }
                self.main.copied_to(&self.copy.path)?
            }
        };
        self.is_sound = true;
        Ok(())
    }

    /// Replaces both files with files that contain only the state.
    fn rewrite(&mut self) -> io::Result<()> {
        let state = self.state().map_err(io::Error::other)?;
        let entries: Vec<Entry> = state
            .into_iter()
            .map(|(key, value)| (key, Some(value)))
            .collect();
        let lines: Vec<_> = entries.chunks(LINE_ENTRIES).collect();
        let base = self.last;
        self.main = Log::replace(&self.main.path, |out| {
            out.write_all(&header_line(base, lines.len())?)?;
            let mut lines = (base + 1..).zip(&lines);
            lines.try_for_each(|(number, entries)| out.write_all(&change_line(number, entries)?))
        })?;
        self.last += lines.len() as u64;
        self.rewrite_at = rewrite_at(self.main.length);
        self.is_sound = false; // until the copy is equal
        self.copy = self.main.copied_to(&self.copy.path)?;
        self.is_sound = true;
        Ok(())
    }
}

fn rewrite_at(state_length: u64) -> u64 {
    state_length + state_length.max(CHANGES_BYTES_MIN)
}

/// Checks whether a file can be used, given its copy.
fn decide(path: &Path, main: &Scan, copy: Option<&Scan>) -> Result<(), StoreError> {
    let confirmed = copy.map_or(0, |copy| copy.last);
    let whole = copy.filter(|copy| matches!(copy.fault, None | Some(Fault::Torn(_))));
    let why = match &main.fault {
        None if confirmed <= main.last => return Ok(()),
        None => format!(
            "it ends with change {}, but its copy has change {confirmed}",
            main.last
        ),
        Some(fault @ Fault::Torn(_)) if whole.is_some() && confirmed <= main.last => {
            tracing::warn!(store = %path.display(), %fault, "removing an unconfirmed change from the store");
            return Ok(());
        }
        Some(fault) => fault.to_string(),
    };
    let copied = with_suffix(path, ".copy");
    let alone = format!(
        "move {} and {} away to start with the configuration only",
        path.display(),
        copied.display()
    );
    let remedy = match &main.fault {
        Some(Fault::Newer(_)) => "use a newer version of weir".to_owned(),
        _ if whole.is_some() => back(&copied, path),
        Some(Fault::Redb) => convert(path, path),
        Some(Fault::Torn(_) | Fault::Damaged(_)) => format!(
            "`truncate -s {} {}` keeps the changes before that, or {alone}",
            main.length,
            path.display()
        ),
        _ => alone,
    };
    Err(StoreError::Damaged {
        path: path.to_owned(),
        why,
        remedy,
    })
}

/// Instruction to restore the copy.
fn back(copy: &Path, path: &Path) -> String {
    let (copy, path) = (copy.display(), path.display());
    format!("its copy is intact: `cp -p {copy} {path}` restores it")
}

/// Instruction to convert a store of an earlier version.
fn convert(old: &Path, new: &Path) -> String {
    let (old, new) = (old.display(), new.display());
    format!(
        "convert it: `mv {old} {old}.old`, and in weir's sources `cargo run -p weir-forces-live --example convert-store -- {old}.old {new}`"
    )
}

/// Resolves symbolic links, so that the links remain links.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if path.is_symlink() {
                Err(io::Error::other(
                    "it is a symbolic link to a file that does not exist",
                ))
            } else {
                Ok(path.to_owned())
            }
        }
        resolved => resolved,
    }
}

/// Time to wait for the lock. The lock outlives its process while a program that the process has just started has the
/// process's files open.
const LOCKED_MAX: Duration = Duration::from_secs(1);

/// Takes the lock of a store.
fn locked(path: &Path) -> Result<File, StoreError> {
    let name = with_suffix(path, ".lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&name).map_err(of(&name))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCKED_MAX => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(of(&name)(error)),
        }
    }
}

fn of(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Io {
        path: path.to_owned(),
        source,
    }
}
