//! The part of a control element in an election, in a build without etcd: there is none.

use std::path::PathBuf;

use tokio::sync::mpsc;
use weir_base::Span;
use weir_ce::configuration::EtcdPlan;

use super::input::Input;
use super::store::Store;

/// A control element's part in an election, which this build cannot have.
#[derive(Debug)]
pub enum Cluster {}

impl Cluster {
    /// Fails with the reason, which belongs to no key of the section.
    pub fn new(
        _plan: &EtcdPlan,
        _next_to: impl Fn(&str) -> PathBuf,
    ) -> Result<Self, (Option<&'static str>, String)> {
        let why = "this program was built without the feature `etcd`; remove the section, or build weir-forces with \
                   `--features etcd`";
        Err((None, why.to_owned()))
    }

    /// The store.
    pub fn store(&self) -> Store {
        match *self {}
    }

    pub(super) fn hold(&self) -> Span {
        match *self {}
    }

    pub(super) fn start(self, _inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
        match self {}
    }
}
