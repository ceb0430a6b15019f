//! The programs whose processes a lab starts.

use std::io;
use std::path::{Path, PathBuf};

use weir_live::programs::find;

use crate::Error;

/// `weir`, `weir-forces` and this program; or a stand-in that has the commands of all.
#[derive(Clone, Debug)]
pub struct Programs {
    /// This program, or the stand-in.
    own: PathBuf,
    is_stand_in: bool,
}

impl Programs {
    /// The programs, or the stand-in.
    pub fn new(stand_in: Option<&Path>) -> Result<Self, Error> {
        let own = match stand_in {
            Some(file) => Ok(file.to_owned()),
            None => std::env::current_exe(),
        };
        Ok(Self {
            own: own.map_err(Error::io("cannot find this program's executable"))?,
            is_stand_in: stand_in.is_some(),
        })
    }

    /// The program with the command `traffic`.
    pub(crate) fn own(&self) -> &Path {
        &self.own
    }

    /// The program with the command `router`, or a command of `weir-forces`.
    pub fn with(&self, command: &str) -> Result<PathBuf, Error> {
        let name = match command {
            _ if self.is_stand_in => return Ok(self.own.clone()),
            "router" => "weir",
            _ => "weir-forces",
        };
        let missing = || {
            let why = format!("`{name}` is not installed; remedy: install the package {name}");
            Error::io(format!("cannot start `weir {command}`"))(io::Error::other(why))
        };
        find(name).ok_or_else(missing)
    }
}
