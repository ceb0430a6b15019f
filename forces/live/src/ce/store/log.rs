//! One file of a store: lines of text, each with its CRC-32 and its number.
//!
//! ```text
//!   1c291ca3 ["weir-ce-store",2,7,1]      format, version, number before the first line, lines of the state
//!   8d0c55e1 [8,[["desired\tedge1\tage_max","t2 s"],["route\tedge1\t10.0.0.0/8\t0",null]]]
//!            number of the change, and its keys: with the new value, or null where one is removed
//! ```
//!
//! A change is one line at the end of the file, so it takes effect as a whole or not at all. A file is only ever
//! shortened to remove a change that could not be written, and never rewritten in place: a new file takes its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crc::{CRC_32_ISO_HDLC, Crc};
use weir_live::file::{rename, with_suffix};

/// Version of the format.
pub(super) const VERSION: u64 = 2;
/// First word of a file.
const FORMAT: &str = "weir-ce-store";
/// Longest line, in bytes: the largest possible request for routes, with the longest names.
const LINE_BYTES_MAX: u64 = 128 << 20;
/// First bytes of stores of earlier versions.
const REDB: &[u8] = b"redb";

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// A key with its new value; `None` removes the key.
pub(super) type Entry = (String, Option<String>);

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Number of the last complete change.
    pub(super) last: u64,
    /// Bytes up to the end of that change.
    pub(super) length: u64,
    /// Bytes of the initial state in the file.
    pub(super) state_length: u64,
    /// The fault after `length` bytes.
    pub(super) fault: Option<Fault>,
}

/// Why a file, or a part of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("it is empty")]
    Empty,
    #[error("it is not a store of a control element")]
    Foreign,
    #[error("it is a redb database, written by an earlier version of weir")]
    Redb,
    #[error("it has version {0}, but this weir reads version {VERSION}")]
    Newer(u64),
    /// The last line, which a crash may have truncated.
    #[error("the last line ({0}) is incomplete")]
    Torn(u64),
    #[error("line {0} is damaged")]
    Damaged(u64),
}

/// Reads a file from its start up to the first bad line, or for `length` bytes, and passes each key to `each`.
pub(super) fn scan(mut file: &File, length: u64, mut each: impl FnMut(Entry)) -> io::Result<Scan> {
    file.rewind()?;
    let mut reader = BufReader::with_capacity(1 << 16, file.take(length));
    let mut scan = Scan::default();
    let mut state_end = 0;
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = reader.by_ref().take(LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut line)?;
        let read = match (number, &line[..]) {
            (1, []) => Err(Fault::Empty),
            (1, line) => header(line).map(|(base, lines)| {
                scan.last = base;
                state_end = base + lines;
            }),
            (_, []) => break,
            (_, line) => match change(line, scan.last + 1) {
                Some(entries) => {
                    scan.last += 1;
                    entries.into_iter().for_each(&mut each);
                    Ok(())
                }
                None if reader.fill_buf()?.is_empty() => Err(Fault::Torn(number)),
                None => Err(Fault::Damaged(number)),
            },
        };
        scan.fault = read.err();
        if scan.fault.is_some() {
            break;
        }
        scan.length += line.len() as u64;
        if scan.last == state_end {
            scan.state_length = scan.length;
            state_end = 0; // later changes do not count
        }
    }
    Ok(scan)
}

/// The text of a line, if its checksum is correct.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    let (sum, text) = (line.get(..8)?, line.get(9..)?);
    (sum == format!("{:08x}", CRC.checksum(text)).as_bytes() && line[8] == b' ').then_some(text)
}

/// The number before the first line, and the number of lines of the initial state.
fn header(line: &[u8]) -> Result<(u64, u64), Fault> {
    if line.starts_with(REDB) {
        return Err(Fault::Redb);
    }
    let text = checked(line).ok_or(Fault::Foreign)?;
    let words: Vec<serde_json::Value> = serde_json::from_slice(text).map_err(|_| Fault::Foreign)?;
    let number = |at: usize| words.get(at).and_then(serde_json::Value::as_u64);
    let is_ours = words.first().is_some_and(|word| word == FORMAT);
    match (is_ours, number(1), number(2).zip(number(3))) {
        (true, Some(VERSION), Some(state)) => Ok(state),
        (true, Some(version), _) if version > VERSION => Err(Fault::Newer(version)),
        _ => Err(Fault::Foreign),
    }
}

/// The keys of the change with this number.
fn change(line: &[u8], number: u64) -> Option<Vec<Entry>> {
    let (is, entries): (u64, _) = serde_json::from_slice(checked(line)?).ok()?;
    (number == is).then_some(entries)
}

fn line(text: serde_json::Result<String>) -> io::Result<Vec<u8>> {
    let text = text?;
    let line = format!("{:08x} {text}\n", CRC.checksum(text.as_bytes())).into_bytes();
    if line.len() as u64 <= LINE_BYTES_MAX {
        Ok(line)
    } else {
        Err(io::Error::other("the change is too large; split it"))
    }
}

/// The first line of a file whose state has this number of lines.
pub(super) fn header_line(base: u64, lines: usize) -> io::Result<Vec<u8>> {
    line(serde_json::to_string(&(FORMAT, VERSION, base, lines)))
}

/// The line of a change.
pub(super) fn change_line(number: u64, entries: &[Entry]) -> io::Result<Vec<u8>> {
    line(serde_json::to_string(&(number, entries)))
}

/// Adds the path of the file to an error.
fn of(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A file that is open for changes.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Confirmed bytes.
    pub(super) length: u64,
}

impl Log {
    /// Opens an existing file without reading it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK); // opening a pipe would block
        let file = options.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            length: 0,
        })
    }

    /// Durably writes a whole new file, which then takes the name of an earlier file. After a failure the earlier file
    /// is unchanged.
    pub(super) fn replace(
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<Self> {
        let beside = with_suffix(path, ".new");
        let _ = fs::remove_file(&beside); // left by a process that was killed
        let written = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            let file = options.open(&beside)?;
            let mut writer = BufWriter::with_capacity(1 << 16, &file);
            write(&mut writer)?;
            writer.flush()?;
            drop(writer);
            file.sync_all()?;
            rename(&beside, path)?;
            Ok(file)
        };
        let file = written().inspect_err(|_| drop(fs::remove_file(&beside)));
        let file = file.map_err(of(path))?;
        Ok(Self {
            path: path.to_owned(),
            length: file.metadata()?.len(),
            file,
        })
    }

    /// Writes the confirmed bytes of this file to `path`, like [`Self::replace`].
    pub(super) fn copied_to(&self, path: &Path) -> io::Result<Self> {
        Self::replace(path, |out| {
            let mut file = &self.file;
            file.rewind()?;
            io::copy(&mut file.take(self.length), out).map(drop)
        })
    }

    /// Opens the file that has this name now, cut to the confirmed bytes; `None` if there is no such file. `last` is
    /// the number of the last change.
    pub(super) fn reopened(&self, last: u64) -> io::Result<Option<Self>> {
        let reopen = || {
            let mut log = Self::open(&self.path)?;
            let scan = scan(&log.file, self.length, |_| {})?;
            if scan.fault.is_some() || (scan.last, scan.length) != (last, self.length) {
                let why = "it is not the file that this process has written; restore that file, or restart the \
                           control element";
                return Err(io::Error::other(why));
            }
            log.length = self.length;
            log.cut()?;
            Ok(Some(log))
        };
        match reopen() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map_err(of(&self.path)),
        }
    }

    /// Durably appends a line.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(line, self.length);
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(of(&self.path))?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Removes all unconfirmed bytes.
    pub(super) fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.sync_data()
    }

    /// Whether the path still refers to this file.
    pub(super) fn is_in_place(&self) -> bool {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let (own, named) = (self.file.metadata(), fs::metadata(&self.path));
        own.is_ok_and(|own| named.is_ok_and(|named| identity(own) == identity(named)))
    }
}

#[cfg(test)]
pub(super) fn line_of_tests(text: &str) -> Vec<u8> {
    line(Ok(text.to_owned())).unwrap()
}
