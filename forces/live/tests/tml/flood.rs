//! A flood of redirects alongside control messages, on a channel of 10 Mbit/s.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, sleep_until};
use weir_base::Rate;
use weir_forces_live::tml::{Channel, Link, Report, Schedule, Sent};

use super::{Case, control, is_redirect, join, listen, redirect, settings};

/// Rate of the channel.
const CHANNEL: Rate = Rate::from_mbps(10);
/// Bytes of each message.
const BYTES: usize = 1000;
/// Control messages per second: 4 Mbit/s.
const CONTROL_RATE: u64 = 500;
/// Redirects per second: 100 Mbit/s.
const REDIRECT_RATE: u64 = 12_500;

/// Fate of the control messages.
pub(crate) struct Outcome {
    /// Control messages offered by the FE.
    pub(crate) offered: u64,
    /// Control messages that arrived during the run.
    pub(crate) delivered: u64,
    /// Delays of the control messages from their due time to their arrival, sorted.
    pub(crate) delays: Vec<Duration>,
    /// Redirects that arrived during the run.
    pub(crate) redirects: u64,
    /// Report of the queue at the end.
    pub(crate) report: Report,
}

impl Outcome {
    /// Share of the control messages that arrived.
    pub(crate) fn share(&self) -> f64 {
        self.delivered as f64 / self.offered as f64
    }

    /// The delay that this share of the messages do not exceed.
    pub(crate) fn delay(&self, share: f64) -> Duration {
        let at = (self.delays.len() as f64 * share) as usize;
        let last = self.delays.len().saturating_sub(1);
        self.delays.get(at.min(last)).copied().unwrap_or_default()
    }

    /// Messages of a channel that were dropped in the queue.
    pub(crate) fn dropped(&self, channel: Channel) -> u64 {
        self.report.channels[channel as usize].dropped.packets
    }
}

/// Runs the flood for `time`.
pub(crate) async fn flood(case: Case, schedule: Schedule, time: Duration) -> Outcome {
    let (local, mut remote) = settings(case);
    remote.common.channel.discipline = schedule.spec();
    remote.common.channel.rate = Some(CHANNEL);
    let mut listener = listen(case, &local, &mut remote).await;
    let (fe, mut ce) = join(case, &mut listener, &remote).await;
    let start = Instant::now();
    let (mut offered, mut delays, mut redirects) = (0, Vec::new(), 0);
    tokio::select! {
        () = send_control(&fe, start, &mut offered) => {}
        () = send_redirects(&fe, start) => {}
        () = receive(&mut ce, start, &mut delays, &mut redirects) => {}
        () = sleep_until((start + time).into()) => {}
    }
    let delivered = delays.len() as u64;
    delays.sort_unstable();
    Outcome {
        offered,
        delivered,
        delays,
        redirects,
        report: fe.outgoing.inspect(),
    }
}

/// Due time of control message `number`.
fn due(start: Instant, number: u64) -> Instant {
    start + Duration::from_nanos(number * 1_000_000_000 / CONTROL_RATE)
}

/// Offers each message at its due time, and sends it when there is credit.
async fn send_control(fe: &Link, start: Instant, offered: &mut u64) {
    let mut waiting: VecDeque<Vec<u8>> = VecDeque::new();
    loop {
        while due(start, *offered) <= Instant::now() {
            waiting.push_back(control(*offered, BYTES));
            *offered += 1;
        }
        while let Some(message) = waiting.pop_front() {
            if let Sent::NoRoom(message) = fe.outgoing.send(message) {
                waiting.push_front(message);
                break;
            }
        }
        tokio::select! {
            () = sleep_until(due(start, *offered).into()) => {}
            () = fe.outgoing.writable(), if !waiting.is_empty() => {}
        }
    }
}

async fn send_redirects(fe: &Link, start: Instant) {
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut sent = 0;
    loop {
        ticks.tick().await;
        let due = start.elapsed().as_micros() as u64 * REDIRECT_RATE / 1_000_000;
        while sent < due {
            fe.outgoing.send(redirect(0, BYTES - 32));
            sent += 1;
        }
    }
}

async fn receive(ce: &mut Link, start: Instant, delays: &mut Vec<Duration>, redirects: &mut u64) {
    while let Some(message) = ce.incoming.recv().await {
        if is_redirect(&message) {
            *redirects += 1
        } else {
            delays.push(due(start, delays.len() as u64).elapsed())
        }
    }
}
