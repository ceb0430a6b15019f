//! The retransmission timer.

use weir_base::Span;
use weir_sim::tcp::Variant;

use super::support::{CLIENT, Fate, Path, SERVER, at, is_data, lose, options};

const RTT: Span = Span::from_millis(100);

#[test]
fn a_lost_tail_needs_the_timer() {
    for variant in [Variant::NewReno, Variant::Sack, Variant::Cubic] {
        let mut path = Path::new(&options(variant), RTT, lose(1000, &[9]));
        path.start(Some(10_000));
        path.run();
        // The acknowledgment at 200 ms restarts the timer: RTO = SRTT + G = 300 ms.
        assert_eq!(path.retransmissions(1000), [(5.0, 9)]);
        let client = &path.ends[CLIENT];
        assert_eq!(client.statistics().timeouts, 1);
        assert_eq!(client.acknowledged(), 10_000);
        assert_eq!(client.timeout(), None);
    }
}

#[test]
fn it_doubles_up_to_its_limit_and_then_gives_up() {
    let mut path = Path::new(&options(Variant::Sack), RTT, |sent| {
        if is_data(sent) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    path.start(Some(1000));
    path.run();
    let sent: Vec<u64> = path
        .log
        .iter()
        .filter(|sent| is_data(sent))
        .map(|sent| sent.at.as_nanos() / 1_000_000)
        .collect();
    assert_eq!(sent.len(), 16);
    let gaps: Vec<u64> = sent.windows(2).map(|w| w[1] - w[0]).collect();
    // One sample of 100 ms: 100 + max(G = 200, 4 x 50) = 300 ms.
    let doubled = [300, 600, 1200, 2400, 4800, 9600, 19_200, 38_400];
    assert_eq!(gaps[..8], doubled);
    assert_eq!(gaps[8..], [60_000; 7]);
    assert!(path.ends[CLIENT].has_failed());
}

#[test]
fn slow_start_follows_and_the_threshold_is_half() {
    // The whole first window is lost.
    for variant in [Variant::NewReno, Variant::Sack] {
        let mut path = Path::new(&options(variant), RTT, |sent| {
            if is_data(sent) && !sent.again && sent.at == at(100) {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        path.start(Some(100_000));
        path.run_until(at(401));
        assert_eq!(path.window(1000), 1.0);
        assert_eq!(path.ends[CLIENT].slow_start_threshold(), 5000);
        // 1, 2, 4 segments: the window doubles up to 5, and grows by one from there.
        path.run_until(at(550));
        assert_eq!(path.window(1000), 2.0);
        path.run_until(at(650));
        assert_eq!(path.window(1000), 4.0);
        path.run_until(at(750));
        assert_eq!(path.window(1000), 5.0);
        path.run();
        assert_eq!(path.ends[SERVER].delivered(), 100_000);
        let again: Vec<u64> = path.retransmissions(1000).iter().map(|a| a.1).collect();
        assert_eq!(again, (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn a_second_timeout_for_the_same_data_leaves_the_threshold() {
    let mut path = Path::new(&options(Variant::Sack), RTT, |sent| {
        if is_data(sent) && sent.at < at(500) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    path.start(Some(100_000));
    path.run_until(at(1100));
    assert_eq!(path.ends[CLIENT].statistics().timeouts, 2);
    assert_eq!(path.window(1000), 1.0);
    assert_eq!(path.ends[CLIENT].slow_start_threshold(), 5000);
}

#[test]
fn a_call_that_comes_early_does_nothing() {
    let mut path = Path::new(&options(Variant::Sack), RTT, lose(1000, &[9]));
    path.start(Some(10_000));
    path.run_until(at(400));
    let sent = path.log.len();
    path.act(CLIENT, weir_sim::tcp::Connection::on_timeout);
    path.act(SERVER, weir_sim::tcp::Connection::on_timeout);
    assert_eq!(path.log.len(), sent);
    assert_eq!(path.ends[CLIENT].timeout(), Some(at(500)));
}

#[test]
fn a_timeout_that_was_needless_is_followed_by_no_fast_retransmit() {
    // All acknowledgments of the first window are late. Meanwhile its first segment is retransmitted, and then, as the
    // acknowledgments arrive, other segments: NewReno must not interpret the answers to these as signs of a loss.
    for variant in [Variant::NewReno, Variant::Sack] {
        let mut path = Path::new(&options(variant), RTT, |sent| {
            if sent.from == SERVER && sent.at == at(150) {
                Fate::Late(Span::from_millis(250))
            } else {
                Fate::Pass
            }
        });
        path.start(Some(50_000));
        path.run();
        let statistics = path.ends[CLIENT].statistics();
        assert_eq!(
            (statistics.timeouts, statistics.fast_retransmits),
            (1, 0),
            "{variant:?}"
        );
        assert!(statistics.retransmitted > 3, "{variant:?}");
    }
}
