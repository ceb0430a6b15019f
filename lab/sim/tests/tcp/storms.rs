//! A window's worth of losses in a drop-tail queue: how a sender without SACK recovers.

use rand::RngExt;
use weir_base::{Instant, Span, Streams};
use weir_sim::tcp::{Options, Variant};

use super::support::{CLIENT, Fate, Path, SERVER, Sent, at, is_data, options};

/// A link that sends a segment every 0.1 ms, behind a queue of `limit` segments, and that also loses one segment in a
/// thousand.
fn bottleneck(limit: u64, seed: u64) -> impl FnMut(&Sent) -> Fate + 'static {
    const SERVICE: Span = Span::from_micros(100);
    let mut stream = Streams::new(seed).stream("loss");
    let mut free = Instant::ZERO;
    move |sent| {
        if !is_data(sent) {
            return Fate::Pass;
        }
        let wait = free.since(sent.at);
        if wait >= SERVICE.times(limit) || stream.random::<f64>() < 0.001 {
            return Fate::Drop;
        }
        free = free.max(sent.at) + SERVICE;
        Fate::Late(free.since(sent.at))
    }
}

#[test]
fn a_timeout_in_fast_recovery_starts_no_storm() {
    for seed in 1..=20 {
        let options = Options {
            min_rto: Span::from_millis(200),
            ..options(Variant::NewReno)
        };
        let mut path = Path::new(&options, Span::from_millis(20), bottleneck(300, seed));
        path.keeps_log = false;
        path.start(None);
        path.run_until(at(20_000));
        let statistics = path.ends[CLIENT].statistics();
        // Slow start overshoots once, by the capacity of the link and its queue: 200 + 300 segments. Retransmitting
        // everything that is out then, twice as many, is the last mass retransmission.
        let overshoot = 2 * (200 + 300);
        let once = overshoot + overshoot / 4;
        assert!(
            statistics.retransmitted < once,
            "seed {seed}: {statistics:?}"
        );
        assert!(statistics.timeouts <= 3, "seed {seed}: {statistics:?}");
        assert!(path.ends[SERVER].delivered() > 30_000_000, "seed {seed}");
    }
}
