//! The errors of a load test.

use std::io;

/// The reason why a test gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A process of the test cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The process.
        program: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// A process of the test failed.
    #[error("{program} failed: {why}")]
    Program {
        /// The process.
        program: String,
        /// The reason, and the process's standard error.
        why: String,
    },
    /// The certificates of a test cannot be written.
    #[error("cannot write certificates: {0}")]
    Certificates(#[source] io::Error),
    /// The user pressed Ctrl-C.
    #[error("interrupted; all started processes were stopped")]
    Interrupted,
}
