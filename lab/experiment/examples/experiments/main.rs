//! Experiments whose results are documents of this repository. `cargo xtask NAME` runs one with a release build.
//!
//! - `hostile [TABLE...]`: weir and the kernel under attacks on real interfaces; tables in docs/hostile-network.md
//! - `peers [SCENARIO...]`: our simulator compared with ns-3, ns-2 and Debian's kernel

mod hostile;
mod peers;
mod program;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).unwrap_or(here);
    let ran = match words[..] {
        ["hostile", ref words @ ..] => hostile::run(root, words),
        ["peers", ref words @ ..] => peers::run(root, words),
        _ => {
            eprintln!("usage: cargo xtask hostile | peers [ARGUMENT...]");
            return ExitCode::from(2);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", words[0]);
            ExitCode::FAILURE
        }
    }
}
