//! Opening and closing of connections.

use weir_base::{Instant, Span};
use weir_sim::tcp::{Connection, Flags, Options, Variant};

use super::support::{CLIENT, Fate, Path, SERVER, at, flags, options, pass};

const RTT: Span = Span::from_millis(100);

#[test]
fn a_connection_opens_in_one_round_trip_and_measures_it() {
    let mut path = Path::new(&Options::default(), RTT, pass);
    path.act(CLIENT, Connection::open);
    path.run();
    let (syn, ack) = (Flags::SYN, Flags::ACK);
    let sack = Flags::SACK_PERMITTED;
    let expected = [
        (CLIENT, syn | sack),
        (SERVER, syn | ack | sack),
        (CLIENT, ack),
    ];
    assert_eq!(flags(&path), expected);
    for end in &path.ends {
        assert!(end.is_established());
        assert_eq!(end.smoothed_rtt(), Some(RTT));
        assert_eq!(end.timeout(), None);
    }
}

#[test]
fn a_request_is_answered_and_both_directions_close() {
    let mut path = Path::new(&options(Variant::Cubic), RTT, pass);
    path.start(Some(300));
    path.act(CLIENT, Connection::close);
    while !path.ends[SERVER].peer_closed() {
        path.step(Instant::FAR_FUTURE).unwrap();
    }
    assert_eq!(path.ends[SERVER].delivered(), 300);
    assert!(!path.ends[SERVER].is_closed());
    path.act(SERVER, |end, now, out| {
        end.write(25_500, now, out);
        end.close(now, out);
    });
    path.run();
    assert_eq!(path.ends[CLIENT].delivered(), 25_500);
    assert_eq!(path.ends[SERVER].acknowledged(), 25_500);
    assert!(path.ends.iter().all(Connection::is_closed));
    // The last data and the FIN share a segment: 26 segments, no retransmissions.
    assert_eq!(path.ends[SERVER].statistics().segments, 26);
    // SYN 100 ms; request 50 ms; 10 segments, then 16 more one round trip later.
    assert_eq!(path.now, at(100 + 50 + 100 + 50 + 50));
}

#[test]
fn a_lost_syn_comes_again_after_one_second_then_two() {
    for (lost, times, window) in [(1, &[0, 1000][..], 14_600), (2, &[0, 1000, 3000], 1460)] {
        let mut syns = 0;
        let mut path = Path::new(&Options::default(), RTT, move |sent| {
            let is_syn = sent.segment.flags.contains(Flags::SYN);
            syns += u32::from(is_syn);
            if is_syn && syns <= lost {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        path.start(Some(100_000));
        while !path.ends[CLIENT].is_established() {
            path.step(Instant::FAR_FUTURE).unwrap();
        }
        let syns = path.log.iter().take(times.len());
        assert!(syns.map(|sent| sent.at).eq(times.iter().map(|&t| at(t))));
        // No sample (Karn); RFC 6298, rule 5.7; one segment only if two SYNs were lost.
        let client = &path.ends[CLIENT];
        assert_eq!(client.smoothed_rtt(), None);
        assert_eq!(client.retransmission_timeout(), Span::from_secs(3));
        assert_eq!(client.congestion_window(), window);
    }
}

#[test]
fn a_lost_answer_to_the_syn_is_repeated_by_either_timer() {
    let mut path = Path::new(&Options::default(), RTT, {
        let mut answers = 0;
        move |sent| {
            let is_answer = sent.from == SERVER && sent.segment.flags.contains(Flags::SYN);
            answers += u32::from(is_answer);
            if is_answer && answers == 1 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        }
    });
    path.start(Some(1000));
    path.run();
    assert_eq!(path.ends[SERVER].delivered(), 1000);
    // At 1050 ms both the second SYN and the server's own timer cause an answer, so it is sent twice.
    let sent = path.log.iter();
    let answers =
        sent.filter(|sent| sent.from == SERVER && sent.segment.flags.contains(Flags::SYN));
    assert!(answers.map(|sent| sent.at).eq([50, 1050, 1050].map(at)));
    assert_eq!(path.ends[SERVER].statistics().retransmitted, 2);
}

#[test]
fn a_syn_that_comes_again_is_answered_again() {
    // The server's timer is far away: the client's second SYN causes the answer.
    let slow = Options {
        initial_rto: Span::from_secs(30),
        ..Options::default()
    };
    let mut path = Path::new(&Options::default(), RTT, {
        let mut answers = 0;
        move |sent| {
            let is_answer = sent.from == SERVER && sent.segment.flags.contains(Flags::SYN);
            answers += u32::from(is_answer);
            if is_answer && answers == 1 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        }
    });
    path.ends[SERVER] = Connection::server(&slow);
    path.start(Some(1000));
    while !path.ends[CLIENT].is_established() {
        path.step(Instant::FAR_FUTURE).unwrap();
    }
    // The SYN is repeated after a second, and its answer takes half a round trip each way.
    assert_eq!(path.now, at(1100));
    path.run();
    let server = &path.ends[SERVER];
    assert_eq!(server.delivered(), 1000);
    let statistics = server.statistics();
    assert_eq!((statistics.timeouts, statistics.retransmitted), (0, 1));
    // Answers at 50 and at 1050 ms, acknowledged at 1150 ms: it is unknown which of them was acknowledged. The timer
    // has not expired, so the timeout and the initial window are unchanged.
    assert_eq!(server.smoothed_rtt(), None);
    assert_eq!(server.retransmission_timeout(), Span::from_secs(30));
    assert_eq!(server.congestion_window(), 14_600);
}

#[test]
fn data_completes_a_handshake_whose_last_acknowledgment_was_lost() {
    let mut path = Path::new(&Options::default(), RTT, |sent| {
        if sent.at == at(100) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    path.act(CLIENT, Connection::open);
    path.run_until(at(200));
    assert!(!path.ends[SERVER].is_established());
    path.act(CLIENT, |end, now, out| end.write(500, now, out));
    path.run();
    assert!(path.ends[SERVER].is_established());
    assert_eq!(path.ends[SERVER].delivered(), 500);
}

#[test]
fn without_data_the_server_asks_again_for_the_last_acknowledgment() {
    let mut path = Path::new(&Options::default(), RTT, |sent| {
        if sent.at == at(100) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    path.act(CLIENT, Connection::open);
    path.run();
    assert!(path.ends[SERVER].is_established());
    // 50 ms for the SYN, one second, and a round trip.
    assert_eq!(path.now, at(1150));
}

#[test]
fn nobody_there_is_given_up_after_six_more_syns() {
    let mut path = Path::new(&Options::default(), RTT, |_| Fate::Drop);
    path.start(Some(1000));
    path.run();
    assert_eq!(path.log.len(), 7);
    // 1 + 2 + 4 + 8 + 16 + 32 s, and 60 s after the last SYN, the longest timeout.
    assert_eq!(path.now, at(123_000));
    assert!(path.ends[CLIENT].has_failed());
    assert!(path.ends[CLIENT].is_closed());
}

#[test]
fn a_lost_fin_comes_again_and_is_answered_though_all_is_closed() {
    let mut path = Path::new(&options(Variant::Sack), RTT, {
        let mut fins = 0;
        move |sent| {
            // The client's first FIN, and the acknowledgment of the server's FIN.
            let is_fin = sent.segment.flags.contains(Flags::FIN);
            fins += u32::from(is_fin && sent.from == CLIENT);
            let is_last = sent.from == CLIENT && sent.segment.length() == 0 && fins > 1;
            if (is_fin && fins == 1) || (is_last && sent.at < at(700)) {
                Fate::Drop
            } else {
                Fate::Pass
            }
        }
    });
    path.start(Some(0));
    path.run_until(at(200));
    path.act(CLIENT, Connection::close);
    while !path.ends[SERVER].peer_closed() {
        path.step(Instant::FAR_FUTURE).unwrap();
    }
    path.act(SERVER, Connection::close);
    path.run();
    assert!(path.ends.iter().all(Connection::is_closed));
    assert!(!path.ends[SERVER].has_failed());
    assert!(path.ends[SERVER].statistics().retransmitted >= 1);
}

#[test]
fn options_are_used_when_both_ends_have_them() {
    let with = Options {
        timestamps: true,
        ecn: true,
        ..Options::default()
    };
    let without = Options {
        mss: 500,
        ..options(Variant::NewReno)
    };
    let mut path = Path::new(&with, RTT, pass);
    path.ends[SERVER] = Connection::server(&without);
    path.start(Some(5000));
    path.run();
    let answer = path.log[1].segment;
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    assert!(path.log[2..].iter().all(|sent| {
        let segment = sent.segment;
        segment.payload <= 500 && segment.flags == Flags::ACK && !segment.ecn_capable
    }));
    assert_eq!(path.ends[SERVER].delivered(), 5000);
}

#[test]
fn a_reset_ends_it() {
    let mut path = Path::new(&Options::default(), RTT, pass);
    path.start(None);
    path.run_until(at(150));
    let reset = weir_sim::tcp::Segment {
        flags: Flags::RST,
        ..weir_sim::tcp::Segment::default()
    };
    path.act(CLIENT, |end, now, out| {
        end.on_segment(&reset, false, now, out);
    });
    assert!(path.ends[CLIENT].has_failed());
    assert_eq!(path.ends[CLIENT].timeout(), None);
}

#[test]
fn what_was_not_sent_can_be_taken_back() {
    let mut path = Path::new(&options(Variant::Sack), RTT, pass);
    path.start(None);
    path.run_until(at(120));
    path.ends[CLIENT].abandon_unsent();
    path.act(CLIENT, Connection::close);
    path.run();
    assert_eq!(path.ends[SERVER].delivered(), 10_000);
    assert!(path.ends[SERVER].peer_closed());
}
