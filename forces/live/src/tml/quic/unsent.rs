//! Control messages that wait within QUIC.

use std::time::Duration;

use quinn::Connection;
use tokio::time;

use crate::tml::Limits;

/// Number of yields to other tasks before the wait sleeps.
const YIELDS_MAX: u32 = 8;

/// Control messages that may wait within QUIC for a packet. QUIC reports only the number of stream frames sent: once
/// the frames that these bytes fill were sent, the bytes are considered sent.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: usize,
    /// Number of frames sent before the first of these bytes.
    frames: u64,
}

impl Unsent {
    /// Records that a control message of this length was passed to QUIC.
    pub(super) fn wrote(&mut self, connection: &Connection, bytes: usize) {
        if self.bytes == 0 {
            self.frames = connection.stats().frame_tx.stream;
        }
        self.bytes += bytes;
    }

    /// Waits until the control messages were sent, but not forever, because frames are not bytes.
    pub(super) async fn on_their_way(&mut self, connection: &Connection, limits: Limits) {
        if self.bytes == 0 {
            return;
        }
        let leave = async {
            let mut tries = 0;
            while !self.have_left(connection) {
                // Usually the sending task has not run yet, so yield first. If it may not send now, sleeping is fine.
                match tries {
                    0..YIELDS_MAX => tokio::task::yield_now().await,
                    _ => time::sleep(Duration::from_millis(1)).await,
                }
                tries += 1;
            }
        };
        let _ = time::timeout(limits.redirect, leave).await;
        self.bytes = 0;
    }

    fn have_left(&self, connection: &Connection) -> bool {
        let stats = connection.stats();
        let packet = usize::from(stats.path.current_mtu).max(1);
        let frames = (self.bytes / packet).max(1) as u64;
        stats.frame_tx.stream >= self.frames + frames
    }
}
