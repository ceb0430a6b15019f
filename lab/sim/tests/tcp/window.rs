//! Changes of the windows, and the data that they delay.

use weir_base::{Instant, Span};
use weir_sim::tcp::{Options, Variant};

use super::support::{CLIENT, Path, SERVER, at, is_data, lose, options, pass};

const RTT: Span = Span::from_millis(100);

/// The client's window, in segments, just before the end of each round trip from the handshake on.
fn trace(path: &mut Path, rounds: u64) -> Vec<f64> {
    path.start(None);
    let mut windows = Vec::new();
    for round in 1..=rounds {
        path.run_until(at(100 * round + 50));
        windows.push(path.window(1000));
    }
    windows
}

#[test]
fn slow_start_doubles_in_each_round_trip() {
    for variant in [Variant::NewReno, Variant::Sack, Variant::Cubic] {
        let mut path = Path::new(&options(variant), RTT, pass);
        assert_eq!(trace(&mut path, 5), [10.0, 20.0, 40.0, 80.0, 160.0]);
        assert_eq!(path.ends[CLIENT].smoothed_rtt(), Some(RTT));
    }
}

#[test]
fn delayed_acknowledgments_do_not_slow_it_down() {
    let options = Options {
        ack_every: 2,
        ..options(Variant::Sack)
    };
    let mut path = Path::new(&options, RTT, pass);
    assert_eq!(trace(&mut path, 5), [10.0, 20.0, 40.0, 80.0, 160.0]);
}

#[test]
fn congestion_avoidance_adds_one_segment_in_each_round_trip() {
    // Segment 5 of 10 is lost. Five acknowledgments have raised the window to 15 when the first duplicate arrives, and
    // the third duplicate sets it to half of that, 7.5.
    let mut path = Path::new(&options(Variant::Sack), RTT, lose(1000, &[5]));
    let windows = trace(&mut path, 9);
    // Recovery takes the round trip from 200 to 300 ms; growth begins with the next
    // acknowledgments.
    assert_eq!(windows[..3], [10.0, 7.5, 7.5]);
    let steps: Vec<f64> = windows[3..].windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(steps, [1.0; 5], "{windows:?}");
}

#[test]
fn the_receiver_can_hold_less_than_the_network() {
    let options = Options {
        receive_window: 5000,
        ..options(Variant::Cubic)
    };
    let mut path = Path::new(&options, RTT, pass);
    // The receive window stops the sender, so the congestion window stays as it was.
    assert_eq!(trace(&mut path, 5), [10.0; 5]);
    assert_eq!(path.ends[CLIENT].flight(), 5000);
    assert_eq!(path.ends[SERVER].delivered(), 4 * 5000);
}

#[test]
fn a_window_smaller_than_a_segment_still_moves_data() {
    let options = Options {
        receive_window: 300,
        ..options(Variant::Cubic)
    };
    let mut path = Path::new(&options, RTT, pass);
    path.start(Some(1000));
    path.run();
    assert_eq!(path.ends[SERVER].delivered(), 1000);
    assert_eq!(path.ends[CLIENT].statistics().segments, 4);
}

#[test]
fn no_silly_segment_goes_out_while_others_are_on_their_way() {
    let options = Options {
        receive_window: 2500,
        ..options(Variant::Sack)
    };
    let mut path = Path::new(&options, RTT, pass);
    path.start(Some(20_000));
    path.run();
    let mut data = path.log.iter().filter(|sent| is_data(sent));
    assert!(data.all(|sent| sent.segment.payload == 1000));
}

#[test]
fn an_application_that_offers_little_does_not_open_the_window() {
    let mut path = Path::new(&options(Variant::Sack), RTT, pass);
    path.start(Some(0));
    path.run();
    for _ in 0..50 {
        path.act(CLIENT, |end, now, out| end.write(2000, now, out));
        path.run_until(path.now + RTT);
    }
    assert_eq!(path.window(1000), 10.0);
}

#[test]
fn after_idling_the_window_starts_again() {
    let mut path = Path::new(&options(Variant::Sack), RTT, pass);
    path.start(Some(300_000));
    path.run();
    assert!(path.window(1000) > 100.0);
    // RTO = 100 + 200 ms; a shorter pause changes nothing.
    path.now += Span::from_millis(150);
    path.act(CLIENT, |end, now, out| end.write(1000, now, out));
    path.run();
    assert!(path.window(1000) > 100.0);
    path.now += Span::from_millis(350);
    path.act(CLIENT, |end, now, out| end.write(50_000, now, out));
    assert_eq!(path.window(1000), 10.0);
    assert_eq!(path.ends[CLIENT].flight(), 10_000);
}

#[test]
fn a_single_segment_waits_for_the_delayed_acknowledgment() {
    let options = Options {
        ack_every: 2,
        ..options(Variant::Sack)
    };
    let mut path = Path::new(&options, RTT, pass);
    path.start(Some(1000));
    path.run();
    // Handshake 100 ms, data 50 ms, delay 40 ms, acknowledgment 50 ms.
    assert_eq!(path.now, at(240));
    assert_eq!(path.ends[CLIENT].acknowledged(), 1000);
    assert_eq!(path.ends[CLIENT].statistics().timeouts, 0);
}

#[test]
fn timestamps_measure_what_was_sent_again() {
    for timestamps in [false, true] {
        let options = Options {
            timestamps,
            ..options(Variant::NewReno)
        };
        let mut path = Path::new(&options, RTT, lose(1000, &[9]));
        path.start(Some(10_000));
        path.run_until(Instant::ZERO + Span::from_millis(390));
        let before = path.ends[CLIENT].retransmission_timeout();
        path.run();
        let after = path.ends[CLIENT].retransmission_timeout();
        // The timeout at 200 + 300 ms doubles; only a timestamp proves the sample after it (Karn).
        assert_eq!(path.now, at(600));
        assert_eq!(after, if timestamps { before } else { before.times(2) });
    }
}
