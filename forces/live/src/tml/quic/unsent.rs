//! The control messages that wait within QUIC.

use std::time::Duration;

use quinn::Connection;
use tokio::time;

use crate::tml::Limits;

/// Turns that other tasks get before a wait takes time.
const YIELDS_MAX: u32 = 8;

/// Control messages that may wait within QUIC for a packet. All that can be seen from outside is how many frames of
/// streams have left: as many as these bytes fill means that they have left.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    bytes: usize,
    /// Frames that had left before the first of these bytes.
    frames: u64,
}

impl Unsent {
    /// A control message of this length is handed to QUIC.
    pub(super) fn wrote(&mut self, connection: &Connection, bytes: usize) {
        if self.bytes == 0 {
            self.frames = connection.stats().frame_tx.stream;
        }
        self.bytes += bytes;
    }

    /// Waits until the control messages have left, but not for ever: frames are not bytes.
    pub(super) async fn on_their_way(&mut self, connection: &Connection, limits: Limits) {
        if self.bytes == 0 {
            return;
        }
        let leave = async {
            let mut tries = 0;
            while !self.have_left(connection) {
                // As a rule the task that sends has not run yet. If it may not send, there is time.
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
