//! Explicit congestion notification (RFC 3168).

use weir_base::Span;
use weir_sim::tcp::{Connection, Flags, Options, Variant};

use super::support::{CLIENT, Fate, Path, SERVER, Sent, at, is_data, options};

const RTT: Span = Span::from_millis(100);

fn path(variant: Variant, fate_of: impl FnMut(&Sent) -> Fate + 'static) -> Path {
    let options = Options {
        ecn: true,
        ..options(variant)
    };
    Path::new(&options, RTT, fate_of)
}

/// Applies `fate` to first transmissions of the data segments with these numbers.
fn hit(numbers: &'static [u64], fate: Fate) -> impl FnMut(&Sent) -> Fate {
    move |sent| {
        let number = sent.segment.sequence.saturating_sub(1) / 1000;
        let is_hit = is_data(sent) && !sent.again && numbers.contains(&number);
        if is_hit { fate } else { Fate::Pass }
    }
}

#[test]
fn both_ends_agree_in_the_handshake() {
    let mut path = path(Variant::Sack, |_| Fate::Pass);
    path.start(Some(1000));
    path.run();
    let has = |n: usize, flags| path.log[n].segment.flags.contains(flags);
    assert!(has(0, Flags::ECE | Flags::CWR));
    assert!(has(1, Flags::ECE) && !has(1, Flags::CWR));
    assert!(!has(2, Flags::ECE) && !has(2, Flags::CWR));
}

#[test]
fn only_new_data_is_capable() {
    let mut path = path(Variant::Sack, hit(&[3], Fate::Drop));
    path.start(Some(50_000));
    path.run();
    path.act(CLIENT, Connection::close);
    path.run();
    assert!(path.ends[SERVER].peer_closed());
    for sent in &path.log {
        assert_eq!(sent.segment.ecn_capable, is_data(sent) && !sent.again);
    }
}

#[test]
fn a_mark_is_echoed_until_the_window_is_reduced_once() {
    // Three marks in one window of data are one congestion event.
    let mut path = path(Variant::Sack, hit(&[3, 4, 6], Fate::Mark));
    path.start(Some(100_000));
    path.run_until(at(250));
    // Three acknowledgments raise the window to 13. The fourth has the echo and sets it to half of the 13 in flight,
    // and nothing else in this round trip changes it.
    assert_eq!(path.ends[CLIENT].statistics().marks, 1);
    assert_eq!(path.ends[CLIENT].slow_start_threshold(), 6500);
    path.run();
    assert_eq!(path.ends[CLIENT].statistics().marks, 1);
    assert_eq!(path.ends[CLIENT].statistics().retransmitted, 0);
    let with = |side, flags| {
        let of_side = path.log[3..].iter().filter(move |sent| sent.from == side);
        of_side.filter(move |sent| sent.segment.flags.contains(flags))
    };
    let reductions: Vec<_> = with(CLIENT, Flags::CWR).collect();
    assert_eq!(reductions.len(), 1);
    // The echo lasts from the first mark until the segment with the CWR arrives.
    let echoes: Vec<_> = with(SERVER, Flags::ECE).map(|sent| sent.at).collect();
    let heard = reductions[0].at + Span::from_millis(50);
    assert_eq!(echoes[0], at(150));
    assert!(echoes.iter().all(|&echo| echo <= heard));
}

#[test]
fn a_second_window_with_a_mark_is_a_second_event() {
    let mut path = path(Variant::Cubic, hit(&[3, 40], Fate::Mark));
    path.start(Some(100_000));
    path.run();
    assert_eq!(path.ends[CLIENT].statistics().marks, 2);
}

#[test]
fn a_mark_and_a_loss_in_one_window_reduce_it_once() {
    let mut dropped = hit(&[6], Fate::Drop);
    let mut marked = hit(&[3], Fate::Mark);
    let mut path = path(Variant::Sack, move |sent| match dropped(sent) {
        Fate::Pass => marked(sent),
        fate => fate,
    });
    path.start(Some(100_000));
    path.run_until(at(290));
    assert_eq!(path.ends[CLIENT].statistics().fast_retransmits, 1);
    assert_eq!(path.ends[CLIENT].slow_start_threshold(), 6500);
}

#[test]
fn a_loss_and_then_a_mark_in_one_window_reduce_it_once() {
    let mut dropped = hit(&[3], Fate::Drop);
    let mut marked = hit(&[8], Fate::Mark);
    let mut path = path(Variant::Sack, move |sent| match dropped(sent) {
        Fate::Pass => marked(sent),
        fate => fate,
    });
    path.start(Some(100_000));
    path.run();
    let statistics = path.ends[CLIENT].statistics();
    assert_eq!((statistics.fast_retransmits, statistics.marks), (1, 0));
}
