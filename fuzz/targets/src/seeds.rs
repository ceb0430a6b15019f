//! The first inputs of targets: files of the repository, sections of its documents, and inputs that once made a
//! target fail.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum length of an input, in bytes.
pub const INPUT_BYTES_MAX: usize = 8192;
/// Maximum depth of folders.
const DEPTH_MAX: u32 = 4;

/// The root of the repository.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_owned()
}

/// The files below a folder of the repository whose names have this extension, ordered by name. Leaves out long files,
/// because a mutation of one byte in them costs too much.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&root().join(folder), ending, DEPTH_MAX, &mut paths);
    paths.sort();
    let read = paths.iter().filter_map(|path| fs::read(path).ok());
    read.filter(|bytes| bytes.len() <= INPUT_BYTES_MAX)
        .collect()
}

fn collect(folder: &Path, ending: &str, depth: u32, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && depth > 0 {
            collect(&path, ending, depth - 1, paths);
        } else if path.to_string_lossy().ends_with(ending) {
            paths.push(path);
        }
    }
}

/// The blocks of TOML in a page.
pub(crate) fn sections(page: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(root().join(page)).unwrap_or_default();
    let blocks = text.split("```toml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    blocks.map(|block| block.as_bytes().to_vec()).collect()
}

/// The inputs that once made a target fail, which are stored as fixtures.
pub(crate) fn failures(target: &str) -> Vec<Vec<u8>> {
    files(&format!("fuzz/failures/{target}"), "")
}

/// An input as text; `None` if it is not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The parts of an input, each preceded by a byte with its length.
pub(crate) fn parts(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first()?;
        let (part, left) = after.split_at(after.len().min(usize::from(*len)));
        rest = left;
        Some(part)
    })
}
