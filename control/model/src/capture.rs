//! What can be asked of a capture, and why it may be refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks for a capture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CaptureRequest {
    /// Names of the ports; none means all.
    pub ports: Vec<String>,
    /// Only what is lost.
    pub drops: bool,
    /// Bytes that are kept of each frame.
    pub snap: u32,
    /// The capture ends after so many packets.
    pub packets: u64,
    /// It ends after this time.
    pub seconds: f64,
}

/// A capture that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureTicket {
    /// By which it is fetched.
    pub id: u64,
}

/// A capture that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureReport {
    /// Packets in it.
    pub captured: u64,
    /// Packets that should be in it, but the buffer was full.
    pub missed: u64,
}

/// Why a capture is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureRefusal {
    /// The request is wrong.
    #[error("{0}")]
    Wrong(String),
    /// Only one capture runs at a time.
    #[error("another capture runs")]
    Busy,
    /// There is no capture of this number.
    #[error("there is no such capture; one that is not fetched for a while ends")]
    Gone,
    /// The router does not answer.
    #[error("{0}")]
    Silent(String),
}

impl Default for CaptureRequest {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            drops: false,
            snap: 96,
            packets: 10_000,
            seconds: 10.0,
        }
    }
}
