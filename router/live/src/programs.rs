//! The programs of weir, which start each other.

use std::path::PathBuf;

/// The file of another program of weir: in the folder of this program's own file, or else in PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let mut files = beside.into_iter().chain(in_path);
    files.find(|file| file.is_file())
}
