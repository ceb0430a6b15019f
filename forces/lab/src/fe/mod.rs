//! The FEs' side of a load test: a process with many FEs, which send when it reads a line.
//!
//! - [`tml`]: only the transport (FETML)
//! - [`session`]: with associations and heartbeats

pub mod session;
pub mod tml;

use std::io;

use tokio::runtime::Builder;
use weir_base::Span;
use weir_live::clock::{go_first, precise_sleeps};
use weir_live::namespace::raise_file_limit;

use crate::FILES;
use crate::lines::{Line, requests, say};

/// Connects a group of FEs, waits for a line on standard input, sends, and reports.
fn run<G>(
    fes: u32,
    connect: impl Future<Output = io::Result<G>>,
    send: impl AsyncFnOnce(&mut G) -> io::Result<Line>,
) -> io::Result<()> {
    raise_file_limit(2 * u64::from(fes) + FILES)?; // a link may have a TCP and a UDP socket
    precise_sleeps()?;
    let _ = go_first(); // without the privilege, other programs disturb the test
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut requests = requests()?;
        let mut group = connect.await?;
        say(&Line::Connected)?;
        if requests.recv().await.is_none() {
            return Ok(()); // the caller has ended
        }
        say(&send(&mut group).await?)?;
        let _ = requests.recv().await; // the associations last until then
        Ok(())
    })
}

/// The times of messages sent at a rate.
#[derive(Clone, Copy, Debug)]
struct Pace {
    per_s: f64,
    /// The part of a gap that has passed at the start, so that FEs are not synchronized.
    phase: f64,
    sent: u64,
}

impl Pace {
    /// The number of messages due at this time after the start, and the time of the next message.
    fn due(&self, since: Span) -> (u64, Option<Span>) {
        if self.per_s <= 0.0 {
            return (0, None);
        }
        let due = (since.as_secs_f64() * self.per_s + self.phase) as u64;
        let next = Span::from_secs_f64(((due + 1) as f64 - self.phase) / self.per_s);
        (due.saturating_sub(self.sent), Some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_from_its_phase_on() {
        let mut pace = Pace {
            per_s: 10.0,
            phase: 0.5,
            sent: 0,
        };
        let ms = Span::from_millis;
        assert_eq!(pace.due(ms(0)), (0, Some(ms(50))));
        assert_eq!(pace.due(ms(260)), (3, Some(ms(350))));
        pace.sent = 2;
        assert_eq!(pace.due(ms(260)).0, 1);
        pace.per_s = 0.0;
        assert_eq!(pace.due(ms(260)), (0, None));
    }
}
