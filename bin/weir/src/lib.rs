//! The router as a program: everything of `weir` except its arguments, and the code that `weir-forces` and `weir-lab`
//! share.
//!
//! - [`router`]: runs a router until a signal ends it, with its supervisor
//! - [`configuration`], [`component`]: files, and components of a running router; [`service`]: which router
//! - [`queue`], [`init`], [`show`], [`top`], [`observe`], [`capture`], [`classify`], [`describe`]: the other commands of an operator
//! - [`pages`]: reference pages in Markdown
//! - [`program`]: the beginning and the end of a program; [`complete`], [`manpage`]: completions and manual pages
//! - [`output`], [`log`], [`journal`], [`table`], [`numbers`]: text for people

pub mod capture;
pub mod classify;
pub mod complete;
pub mod component;
pub mod configuration;
pub mod describe;
pub mod init;
pub mod journal;
pub mod list;
pub mod log;
pub mod manpage;
pub mod numbers;
pub mod observe;
pub mod output;
pub mod pages;
pub mod program;
pub mod queue;
pub mod router;
pub mod service;
pub mod show;
pub mod table;
pub mod top;

use std::path::PathBuf;

pub use program::Failure;
pub use service::{CeSocket, RouterSocket};

/// The default socket of a router.
pub const SOCKET_DEFAULT: &str = "/run/weir/weir.sock";

/// The default socket of a control element.
const CE_SOCKET_DEFAULT: &str = "/run/weir-ce/ce.sock";

/// An FE that is reached through its control element.
#[derive(Debug, clap::Args)]
pub struct Element {
    /// Query this forwarding element through its control element [default socket: /run/weir-ce/ce.sock]
    #[arg(long, value_name = "NAME")]
    pub fe: Option<String>,
}

impl Element {
    /// The socket to query, and the prefix of its paths.
    fn target(&self, router: &RouterSocket) -> Result<(PathBuf, String), Failure> {
        Ok(match &self.fe {
            Some(fe) => (router.of_control_element(), format!("/v1/fe/{fe}")),
            None => (router.path()?, String::new()),
        })
    }
}
