//! Certificates and keys on disk.
//!
//! A certificate and its key are two files, which no file system replaces at once. So the next pair is complete next to
//! the present pair before either is replaced, and [`Files::recover`] completes a replacement that a crash has
//! interrupted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use weir_live::file::{self, folder, next_to, with_suffix};

use super::VALID_DAYS;
use crate::tml::Identity;
use crate::tml::identity::{Certificate, IdentityError, NewIdentity, generate};

/// Mode of a key file.
const KEY_MODE: u32 = 0o600;
/// Mode of a certificate file.
const CERTIFICATE_MODE: u32 = 0o644;

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Files {
    /// `NAME.crt` and `NAME.key`.
    pub fn named(name: &Path) -> Self {
        Self {
            certificate: with_suffix(name, ".crt"),
            key: with_suffix(name, ".key"),
        }
    }

    /// The files that a configuration names.
    pub fn of(config: &Path, certificate: &str, key: &str) -> Self {
        Self {
            certificate: next_to(config, certificate),
            key: next_to(config, key),
        }
    }

    /// Generates a certificate and its key. An existing file is an error.
    pub fn generate(&self, name: &str, days: u32) -> io::Result<NewIdentity> {
        let made = generate(name, days).map_err(io::Error::other)?;
        write_new(&self.key, &made.key, KEY_MODE)?;
        let written = write_new(&self.certificate, &made.certificate, CERTIFICATE_MODE);
        written.inspect_err(|_| drop(fs::remove_file(&self.key)))?; // useless alone, and it would block the next attempt
        Ok(made)
    }

    /// Reads the certificate and its key. During a replacement the next key may already be that of the certificate.
    pub fn read(&self) -> Result<Identity, IdentityError> {
        let present = Identity::read(&self.certificate, &self.key);
        present.or_else(|why| self.halfway().map_err(|_| why))
    }

    /// The pair between the two steps of [`Self::replace`].
    fn halfway(&self) -> Result<Identity, IdentityError> {
        Identity::read(&self.certificate, &self.next().key)
    }

    /// The files of the next certificate and its key.
    pub fn next(&self) -> Self {
        Self {
            certificate: with_suffix(&self.certificate, ".next"),
            key: with_suffix(&self.key, ".next"),
        }
    }

    /// The next certificate and its key. Generates them if there are none.
    pub fn make_next(&self, name: &str) -> Result<Identity, String> {
        let files = self.next();
        if let Ok(next) = files.read() {
            return Ok(next);
        }
        self.remove_next(); // left by a process that was killed
        let made = files.generate(name, VALID_DAYS);
        made.map_err(|error| error.to_string())?;
        files.read().map_err(|error| error.to_string())
    }

    /// Removes the next certificate and its key.
    pub fn remove_next(&self) {
        let next = self.next();
        for path in [next.key, next.certificate] {
            let _ = fs::remove_file(path);
        }
    }

    /// Replaces the certificate and its key with the next pair.
    pub fn replace(&self) -> io::Result<()> {
        let next = self.next();
        rename(&next.certificate, &self.certificate)?;
        rename(&next.key, &self.key)
    }

    /// Completes a replacement that was interrupted after the certificate. Only the owner of the files calls it: for
    /// another process, such an interruption may be a replacement in progress.
    pub fn recover(&self) {
        let next = self.next();
        if !next.certificate.exists() && self.halfway().is_ok() {
            let _ = rename(&next.key, &self.key); // the next replacement reports the error
        }
    }
}

/// Replaces the certificates of a peer in a file.
pub fn write_pins(path: &Path, pins: &[Certificate]) -> io::Result<()> {
    let text: String = pins.iter().map(Certificate::to_pem).collect();
    let part = with_suffix(path, ".part");
    let _ = fs::remove_file(&part); // left by a process that was killed
    write_new(&part, &text, CERTIFICATE_MODE)?;
    rename(&part, path)
}

/// Durably writes a new file; an existing file is an error. A file that root writes belongs to the owner of its folder,
/// because the elements run as another user.
fn write_new(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let written = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(mode).open(path)?;
        let whole = own(&file, path)
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| file.sync_all());
        whole.inspect_err(|_| drop(fs::remove_file(path))) // an incomplete file is useless
    };
    written().map_err(of(path))
}

/// Gives a file of root to the owner of its folder.
fn own(file: &File, path: &Path) -> io::Result<()> {
    let folder = fs::metadata(folder(path))?;
    if file.metadata()?.uid() == 0 && folder.uid() != 0 {
        fchown(file, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(())
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    file::rename(from, to).map_err(of(to))
}

/// Adds the path of the file to an error.
fn of(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| {
        io::Error::new(
            error.kind(),
            format!("cannot write {}: {error}", path.display()),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("weir-files-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_replacement_is_completed_after_a_crash_at_any_step() {
        let folder = folder("replace");
        let files = Files::named(&folder.join("a"));
        files.generate("a", 10).unwrap();
        let old = files.read().unwrap().fingerprint();
        assert!(files.next().read().is_err());
        // Crash after the key of the next pair.
        fs::write(files.next().key, "half").unwrap();
        files.recover();
        assert_eq!(files.read().unwrap().fingerprint(), old);
        let next = files.make_next("a").unwrap().fingerprint();
        assert_eq!(files.make_next("a").unwrap().fingerprint(), next);
        let mode = fs::metadata(files.next().key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, KEY_MODE);
        files.recover();
        assert_eq!(files.read().unwrap().fingerprint(), old);
        // Crash between the two files.
        fs::rename(files.next().certificate, &files.certificate).unwrap();
        let strict = || Identity::read(&files.certificate, &files.key);
        assert!(strict().is_err());
        assert_eq!(files.read().unwrap().fingerprint(), next);
        assert!(files.next().key.exists()); // reading changes nothing
        files.recover();
        assert_eq!(strict().unwrap().fingerprint(), next);
        assert!(files.next().read().is_err() && !files.next().key.exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn pins_are_replaced_whole() {
        let folder = folder("pins");
        let made = [generate("a", 1).unwrap(), generate("b", 1).unwrap()];
        let pins = made.map(|made| Certificate::from_pem(&made.certificate).unwrap());
        let file = folder.join("a.crt");
        for pins in [&pins[..1], &pins] {
            write_pins(&file, pins).unwrap();
            assert_eq!(Certificate::read_pins(&file).unwrap(), pins);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
