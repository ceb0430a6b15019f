//! Embeds the scenarios of this repository, so that every program has them wherever it is run.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A paper's results; the file is in the folder of its scenarios, but is not a scenario.
const PAPER: &str = "paper.toml";

fn main() -> io::Result<()> {
    let root = Path::new("../scenarios").canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file
            .strip_prefix(&root)
            .map_err(io::Error::other)?
            .with_extension("");
        let _ = writeln!(
            table,
            "    ({:?}, include_str!({:?})),",
            name.display().to_string(),
            file
        );
    }
    table += "]\n";
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&out).join("scenarios.rs"), table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "toml") && !path.ends_with(PAPER)
        {
            files.push(path);
        }
    }
    Ok(())
}
