//! Fast retransmit and fast recovery, with and without SACK: exact retransmissions and their times.

use weir_base::Span;
use weir_sim::tcp::{Options, Variant};

use super::support::{CLIENT, Fate, Path, SERVER, Sent, at, is_data, lose, options};

const RTT: Span = Span::from_millis(100);

/// Sends 100 segments over a path that loses the segments chosen by `fate_of`; returns the path and the retransmitted
/// segments. The data starts after the handshake, at one round trip.
fn transfer(
    variant: Variant,
    fate_of: impl FnMut(&Sent) -> Fate + 'static,
) -> (Path, Vec<(f64, u64)>) {
    let mut path = Path::new(&options(variant), RTT, fate_of);
    path.start(Some(100_000));
    path.run();
    assert_eq!(path.ends[SERVER].delivered(), 100_000);
    let again = path.retransmissions(1000);
    (path, again)
}

#[test]
fn one_loss_is_repaired_by_the_third_duplicate() {
    for variant in [Variant::NewReno, Variant::Sack, Variant::Cubic] {
        let (path, again) = transfer(variant, lose(1000, &[3]));
        assert_eq!(again, [(2.0, 3)], "{variant:?}");
        let statistics = path.ends[CLIENT].statistics();
        assert_eq!((statistics.fast_retransmits, statistics.timeouts), (1, 0));
    }
}

#[test]
fn the_window_of_newreno_by_hand() {
    let mut path = Path::new(&options(Variant::NewReno), RTT, lose(1000, &[3]));
    path.start(Some(100_000));
    // 200 ms: three acknowledgments raise the window to 13; 0 to 15 are out, 13 of them in flight. Six duplicates: two
    // bring new segments (limited transmit), the third sets ssthresh to 13 / 2 = 6.5 and the window to 9.5, the other
    // three add one each.
    path.run_until(at(250));
    assert_eq!(path.ends[CLIENT].slow_start_threshold(), 6500);
    assert_eq!(path.window(1000), 12.5);
    assert_eq!(path.ends[CLIENT].flight(), 15_000);
    // 300 ms: the eight duplicates for 10 to 17 raise it to 20.5; from 16.5 on each brings a new segment, 18 to 22.
    // Then everything up to 17 is acknowledged, five are in flight, and the window is min(ssthresh, 5 + 1).
    path.run_until(at(350));
    assert!(!path.ends[CLIENT].is_recovering());
    assert_eq!(path.ends[CLIENT].acknowledged(), 18_000);
    assert_eq!(path.window(1000), 6.0);
    assert_eq!(path.ends[CLIENT].flight(), 6000);
}

#[test]
fn newreno_repairs_one_loss_in_each_round_trip() {
    let (path, again) = transfer(Variant::NewReno, lose(1000, &[3, 5]));
    assert_eq!(again, [(2.0, 3), (3.0, 5)]);
    assert_eq!(path.ends[CLIENT].statistics().fast_retransmits, 1);
    let (path, again) = transfer(Variant::NewReno, lose(1000, &[3, 5, 7]));
    assert_eq!(again, [(2.0, 3), (3.0, 5), (4.0, 7)]);
    let statistics = path.ends[CLIENT].statistics();
    assert_eq!((statistics.fast_retransmits, statistics.timeouts), (1, 0));
}

#[test]
fn the_window_of_newreno_after_a_partial_acknowledgment_by_hand() {
    let mut path = Path::new(&options(Variant::NewReno), RTT, lose(1000, &[3, 5]));
    path.start(Some(100_000));
    // 200 ms: 0 to 17 are out, ssthresh is 6.5 as above, and five duplicates leave 11.5.
    path.run_until(at(250));
    assert_eq!(path.window(1000), 11.5);
    // 300 ms: eight duplicates raise it to 19.5, with four new segments, 18 to 21. The retransmission is answered by an
    // acknowledgment of 3 and 4, which subtracts two and adds one. The result is 18.5, which permits one segment in
    // addition to the retransmission of 5: 5 to 22 are in flight.
    path.run_until(at(310));
    assert_eq!(path.window(1000), 18.5);
    assert_eq!(path.ends[CLIENT].acknowledged(), 5000);
    assert_eq!(path.ends[CLIENT].flight(), 18_000);
}

#[test]
fn newreno_is_impatient() {
    // Eight losses need eight round trips. The timer restarts only for the first partial acknowledgment at 300 ms, and
    // expires 100 + 230 ms later; slow start is faster from there.
    let options = Options {
        granularity: Span::from_millis(230),
        ..options(Variant::NewReno)
    };
    let lost = &[3, 5, 10, 11, 12, 13, 14, 15];
    let mut path = Path::new(&options, RTT, lose(1000, lost));
    path.start(Some(100_000));
    path.run();
    let again = path.retransmissions(1000);
    assert_eq!(again[..4], [(2.0, 3), (3.0, 5), (4.0, 10), (5.0, 11)]);
    assert_eq!(again[4..6], [(6.0, 12), (6.3, 12)]);
    assert_eq!(path.ends[CLIENT].statistics().timeouts, 1);
}

#[test]
fn a_timeout_in_fast_recovery_does_not_count_what_it_let_out_by_hand() {
    // As above, at 200 ms there are 13 in flight, and ssthresh becomes 6.5. By 630 ms nine segments, 12 to 20, wait for
    // a cumulative acknowledgment. Duplicates have released the last of them, one for each segment that had left the
    // network. At most a window of 6.5 is in the network, and half of that is the threshold (RFC 5681, equation 4), not
    // half of nine.
    let options = Options {
        granularity: Span::from_millis(230),
        ..options(Variant::NewReno)
    };
    let lost = &[3, 5, 10, 11, 12, 13, 14, 15];
    let mut path = Path::new(&options, RTT, lose(1000, lost));
    path.start(Some(100_000));
    path.run_until(at(629));
    let client = &path.ends[CLIENT];
    assert_eq!(client.flight(), 9000);
    assert_eq!(client.slow_start_threshold(), 6500);
    path.run_until(at(631));
    let client = &path.ends[CLIENT];
    assert_eq!(client.statistics().timeouts, 1);
    assert_eq!(client.slow_start_threshold(), 3250);
    assert_eq!(path.window(1000), 1.0);
}

#[test]
fn sack_repairs_all_losses_in_one_round_trip() {
    for variant in [Variant::Sack, Variant::Cubic] {
        for lost in [&[3_u64, 5][..], &[3, 5, 7], &[3, 4, 5], &[0, 2, 4, 6]] {
            let (path, again) = transfer(variant, lose(1000, Vec::leak(lost.to_vec())));
            let segments: Vec<u64> = again.iter().map(|&(_, n)| n).collect();
            assert_eq!(segments, lost, "{variant:?} {lost:?}");
            assert_eq!(again[0].0, 2.0);
            assert!(again.iter().all(|&(at, _)| at <= 3.0), "{again:?}");
            let statistics = path.ends[CLIENT].statistics();
            assert_eq!((statistics.fast_retransmits, statistics.timeouts), (1, 0));
        }
    }
}

#[test]
fn a_lost_retransmission_needs_the_timer() {
    for variant in [Variant::NewReno, Variant::Sack] {
        let mut times = 0;
        let (path, again) = transfer(variant, move |sent| {
            let is_third = is_data(sent) && sent.segment.sequence == 3001;
            times += u32::from(is_third);
            if is_third && times <= 2 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        assert_eq!(again[..2], [(2.0, 3), (5.0, 3)], "{variant:?}");
        let statistics = path.ends[CLIENT].statistics();
        assert_eq!((statistics.fast_retransmits, statistics.timeouts), (1, 1));
    }
}

#[test]
fn the_last_loss_of_a_recovery_is_rescued() {
    // The last segment of all is lost too: no SACK can reveal that, and there is no new data left to provoke one. The
    // window of 2.5 segments has room for it when 5 is acknowledged.
    let mut path = Path::new(&options(Variant::Sack), RTT, lose(1000, &[5, 9]));
    path.start(Some(10_000));
    path.run();
    assert_eq!(path.retransmissions(1000), [(2.0, 5), (3.0, 9)]);
    assert_eq!(path.ends[CLIENT].statistics().timeouts, 0);
    assert_eq!(path.now, at(400));
}

#[test]
fn limited_transmit_keeps_a_small_window_from_timing_out() {
    // Three segments are out and the first is lost: two duplicates bring two new segments, and the
    // first of those brings the third duplicate (RFC 3042).
    for variant in [Variant::NewReno, Variant::Sack] {
        let options = Options {
            initial_window: 3,
            ..options(variant)
        };
        let mut path = Path::new(&options, RTT, lose(1000, &[0]));
        path.start(Some(20_000));
        path.run();
        assert_eq!(path.retransmissions(1000), [(3.0, 0)], "{variant:?}");
        assert_eq!(path.ends[CLIENT].statistics().timeouts, 0);
    }
}

#[test]
fn reordering_by_two_is_no_loss() {
    // In every group of three segments, the other two overtake the first: two duplicates, never three in a row.
    for variant in [Variant::NewReno, Variant::Sack] {
        let mut path = Path::new(&options(variant), RTT, |sent| {
            let is_first = sent.segment.sequence % 3000 == 1;
            let late = Fate::Late(Span::from_micros(1));
            if is_data(sent) && is_first {
                late
            } else {
                Fate::Pass
            }
        });
        path.start(Some(0));
        for _ in 0..5 {
            path.run_until(path.now + RTT.times(2));
            path.act(CLIENT, |end, now, out| end.write(3000, now, out));
        }
        path.run();
        let duplicates = path.log.iter().filter(|sent| sent.from == SERVER).count() - 1;
        assert_eq!(duplicates, 15, "every segment is acknowledged at once");
        assert_eq!(path.ends[CLIENT].statistics().fast_retransmits, 0);
        assert_eq!(path.ends[SERVER].delivered(), 15_000);
    }
}

#[test]
fn after_a_timeout_newreno_goes_back_and_sack_does_not() {
    // Only 0, 2 and 4 arrive: two duplicates, and nothing left to send. After the timeout has resent 1, NewReno
    // resends 3 and also 4, which SACK knows to have arrived.
    for (variant, expected) in [
        (Variant::Sack, &[1_u64, 3, 5, 6, 7, 8, 9][..]),
        (Variant::NewReno, &[1, 3, 4, 5, 6, 7, 8, 9]),
    ] {
        let lost = lose(1000, &[1, 3, 5, 6, 7, 8, 9]);
        let mut path = Path::new(&options(variant), RTT, lost);
        path.start(Some(10_000));
        path.run();
        assert_eq!(path.ends[SERVER].delivered(), 10_000);
        let again: Vec<u64> = path.retransmissions(1000).iter().map(|a| a.1).collect();
        assert_eq!(again, expected, "{variant:?}");
        assert_eq!(path.ends[CLIENT].statistics().timeouts, 1);
    }
}
