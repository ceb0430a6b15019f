//! Files named by users: paths, durable renaming, and reading: with a size limit, and only regular files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Reads a text file of at most `bytes_max` bytes. Refuses anything but a regular file: a device may be endless, and a
/// pipe may never get a writer.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK); // opening a pipe would wait for its writer
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() {
            "a folder"
        } else {
            "a device or a pipe"
        };
        let why = format!("it is {what}; only a regular file can be read");
        return Err(io::Error::other(why));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::other(why));
    }
    decoded(bytes)
}

/// Bytes as text, or an error with the line that is not UTF-8.
pub fn decoded(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let (read, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = 1 + read.iter().filter(|byte| **byte == b'\n').count();
        let why = format!(
            "line {line}: byte {:#04x} is not UTF-8; the file is in another encoding, such as Latin-1 (`iconv -f latin1 -t utf8`)",
            rest.first().copied().unwrap_or_default()
        );
        io::Error::other(why)
    })
}

/// Renames a file durably. Errors do not name the file.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    File::open(folder(to))?.sync_all()
}

/// The folder of a file.
pub fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// A file that a configuration names; a relative path is relative to the configuration.
pub fn next_to(config: &Path, file: &str) -> PathBuf {
    config.with_file_name(file)
}

/// A path with this text at its end.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_their_configuration() {
        let next_to = |config: &str, file| next_to(Path::new(config), file);
        assert_eq!(
            next_to("/etc/weir/a.toml", "a.key"),
            Path::new("/etc/weir/a.key")
        );
        assert_eq!(
            next_to("/etc/weir/a.toml", "/b/a.key"),
            Path::new("/b/a.key")
        );
        assert_eq!(next_to("a.toml", "b/a.key"), Path::new("b/a.key"));
        assert_eq!(folder(Path::new("a.toml")), Path::new("."));
        assert_eq!(folder(Path::new("b/a.key")), Path::new("b"));
        assert_eq!(
            with_suffix(Path::new("b/a.key"), ".next"),
            Path::new("b/a.key.next")
        );
    }

    #[test]
    fn text_in_another_encoding_is_refused_with_its_line() {
        let error = decoded(b"[port.a]\n# Stra\xdfe\n".to_vec()).unwrap_err();
        assert!(
            error.to_string().starts_with("line 2: byte 0xdf"),
            "{error}"
        );
        assert_eq!(decoded("ß".into()).unwrap(), "ß");
    }

    #[test]
    fn only_files_with_an_end_are_read() {
        let why = |path: &str| read_text(Path::new(path), 10).unwrap_err().to_string();
        assert!(why("/dev/zero").contains("a device or a pipe"));
        assert!(why("/").contains("a folder"));
        assert!(why("/proc/self/mountinfo").contains("longer than 10 bytes"));
        let own = read_text(Path::new("/proc/self/comm"), 100).unwrap();
        assert!(!own.is_empty());
    }
}
