//! Embeds the scenarios of this repository, so that every program has them wherever it runs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The extension of a trace of a link.
const TRACE: &str = "trace";

fn main() -> io::Result<()> {
    let root = Path::new("../../scenarios").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let (traces, scenarios): (Vec<_>, Vec<_>) = files.iter().partition(|file| ends(file, TRACE));
    fs::write(out.join("scenarios.rs"), table(&root, &scenarios)?)?;
    fs::write(out.join("traces.rs"), table(&root, &traces)?)
}

/// The names of files with their texts, as a Rust expression; the name of a scenario has no extension.
fn table(root: &Path, files: &[&PathBuf]) -> io::Result<String> {
    let mut table = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(root).map_err(io::Error::other)?;
        let name = if ends(file, TRACE) {
            name.to_owned()
        } else {
            name.with_extension("")
        };
        let _ = writeln!(
            table,
            "    ({:?}, include_str!({:?})),",
            name.display().to_string(),
            file
        );
    }
    Ok(table + "]\n")
}

fn ends(file: &Path, with: &str) -> bool {
    file.extension().is_some_and(|ending| ending == with)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if ends(&path, TRACE) || ends(&path, "toml") {
            files.push(path);
        }
    }
    Ok(())
}
