//! The programs whose processes a lab starts.

use std::path::{Path, PathBuf};

use crate::Error;

/// `weir`, `weir-forces` and this program, which are in one folder; or a stand-in that has the commands of all.
#[derive(Clone, Debug)]
pub(crate) enum Programs {
    /// This program.
    Own(PathBuf),
    /// A stand-in, for tests.
    StandIn(PathBuf),
}

impl Programs {
    /// The programs, or the stand-in.
    pub(crate) fn new(stand_in: Option<&Path>) -> Result<Self, Error> {
        match stand_in {
            Some(file) => Ok(Self::StandIn(file.to_owned())),
            None => std::env::current_exe()
                .map(Self::Own)
                .map_err(Error::io("cannot find the own executable")),
        }
    }

    /// The program with the command `traffic`.
    pub(crate) fn own(&self) -> &Path {
        let (Self::Own(file) | Self::StandIn(file)) = self;
        file
    }

    /// The program with the command `router`, `fe` or `ce`.
    pub(crate) fn with(&self, command: &str) -> PathBuf {
        match (self, command) {
            (Self::StandIn(file), _) => file.clone(),
            (Self::Own(file), "router") => file.with_file_name("weir"),
            (Self::Own(file), _) => file.with_file_name("weir-forces"),
        }
    }
}
