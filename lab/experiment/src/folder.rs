//! The lab's private folder: the routers' configurations and sockets, removed at the end.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// First part of the folder's name; the process number follows.
const PREFIX: &str = "weir-lab-";
/// Maximum number of names to try.
const TRIES_MAX: u32 = 1000;

/// A folder that only its owner can enter, removed when this value is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates a folder, and removes folders of labs that were killed.
    pub fn new() -> io::Result<Self> {
        let base = std::env::temp_dir();
        sweep(&base);
        let process = std::process::id();
        for n in 0..TRIES_MAX {
            let path = base.join(format!("{PREFIX}{process}-{n}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next lab removes anything that cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders of our own user whose process no longer runs.
fn sweep(base: &Path) {
    let Ok(user) = fs::metadata("/proc/self").map(|m| m.uid()) else {
        return;
    };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|n| n.strip_prefix(PREFIX));
        let process = process.and_then(|n| n.split('-').next()?.parse::<u32>().ok());
        let Some(process) = process else { continue };
        let alive = Path::new(&format!("/proc/{process}")).exists();
        let ours = entry
            .metadata()
            .is_ok_and(|m| m.is_dir() && m.uid() == user);
        if !alive && ours {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_vanishes() {
        let folder = Folder::new().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::write(path.join("x"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn folders_of_the_dead_are_swept() {
        // Process numbers end below 2^22.
        let dead = std::env::temp_dir().join(format!("{PREFIX}4999999-0"));
        fs::create_dir_all(&dead).unwrap();
        let folder = Folder::new().unwrap();
        assert!(!dead.exists());
        drop(folder);
    }
}
