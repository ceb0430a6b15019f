//! Building and running the program of this repository, and others.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo's target folder.
pub(crate) fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => root.join("target"),
    }
}

/// Builds the programs; returns the path of `weir`.
pub(crate) fn build_weir(root: &Path) -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "--locked", "--bins"];
    let built = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .status();
    match built {
        Ok(status) if status.success() => Ok(target(root).join("release/weir")),
        _ => Err("cargo build --release --bins failed".into()),
    }
}

/// The output of a program, if it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", errors.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
