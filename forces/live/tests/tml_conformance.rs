//! The guarantees that every transport of ForCES messages makes.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use weir_forces_live::tml::{Channel, Ended, Fault, Link, Sent, Transport, tml};
use weir_protocol::wire::{Body, Message};

use crate::tml::{
    self, CASES, Case, FE, LONG, control, counted, is_redirect, join, listen, next, number, pair,
    redirect, send, settings,
};

/// Number of redirects in a message.
fn redirects(message: &[u8]) -> usize {
    match Message::parse(message).unwrap().body() {
        Body::PacketRedirect(redirect) => redirect.redirects().len(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn messages_of_all_lengths_arrive_in_order() {
    for case in CASES {
        let (_listener, mut fe, mut ce) = pair(*case).await;
        assert_eq!(ce.proved, case.is_pinned.then_some(FE), "{case:?}");
        let lens = [24, 28, 1400, 65_532, 65_536, 200_000, 262_140, 24, 24];
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut fe, &mut ce];
            for (n, len) in lens.into_iter().enumerate() {
                send(ends[from], control(n as u64, len)).await;
            }
            let [a, b] = ends;
            let to = if to == 0 { a } else { b };
            for (n, len) in lens.into_iter().enumerate() {
                let message = next(to).await.unwrap();
                assert!(
                    message == control(n as u64, len),
                    "{case:?}: {n}, {len} bytes"
                );
            }
        }
    }
}

/// Sends until there is no credit for a while; returns the number of messages.
async fn fill(link: &Link, len: usize) -> u64 {
    let mut sent = 0;
    while timeout(Duration::from_millis(300), link.outgoing.writable())
        .await
        .is_ok()
    {
        assert_eq!(link.outgoing.send(control(sent, len)), Sent::Queued);
        sent += 1;
        assert!(
            sent * (len as u64) < 16 << 20,
            "a peer that never reads takes memory"
        );
    }
    sent
}

#[tokio::test]
async fn a_peer_that_never_reads_takes_credit_and_loses_nothing() {
    for case in CASES {
        let (_listener, fe, mut ce) = pair(*case).await;
        for len in [1000, 100_000] {
            let sent = fill(&fe, len).await;
            assert!(!fe.outgoing.has_room());
            let refused = fe.outgoing.send(control(sent, len));
            assert_eq!(refused, Sent::NoRoom(control(sent, len)), "{case:?}");
            for n in 0..sent {
                let message = next(&mut ce).await.unwrap();
                assert!(message == control(n, len), "{case:?}: {n} of {sent}");
            }
            assert!(timeout(LONG, fe.outgoing.writable()).await.is_ok());
            assert!(fe.outgoing.has_room());
        }
    }
}

#[tokio::test]
async fn closing_lets_the_queue_out_first() {
    for case in CASES {
        let (_listener, mut fe, mut ce) = pair(*case).await;
        for n in 0..20 {
            send(&fe, control(n, 10_000)).await;
        }
        fe.outgoing.close(true);
        for n in 0..20 {
            let message = next(&mut ce).await;
            assert_eq!(message.map(|m| number(&m)), Some(n), "{case:?}");
        }
        assert_eq!(next(&mut ce).await, None);
        assert_eq!(ce.incoming.ended(), Some(&Ended::ByPeer), "{case:?}");
        assert!(!ce.outgoing.has_room());
        assert_eq!(ce.outgoing.send(control(1, 24)), Sent::Closed);
        drop(ce);
        assert_eq!(timeout(LONG, fe.incoming.recv()).await, Ok(None));
        assert_eq!(fe.incoming.ended(), Some(&Ended::Here), "{case:?}");
    }
}

#[tokio::test]
async fn closing_at_once_does_not_wait() {
    for case in CASES {
        let (_listener, fe, mut ce) = pair(*case).await;
        fill(&fe, 100_000).await;
        fe.outgoing.close(false);
        let mut last = 0;
        while let Some(message) = next(&mut ce).await {
            assert_eq!(number(&message), last, "{case:?}");
            last += 1;
        }
    }
}

#[tokio::test]
async fn a_queue_that_nobody_takes_does_not_hold_a_closed_link() {
    for case in CASES {
        let (local, mut remote) = settings(*case);
        remote.common.limits.close = Duration::from_millis(200);
        let mut listener = listen(*case, &local, &mut remote).await;
        let (mut fe, _ce) = join(*case, &mut listener, &remote).await;
        fill(&fe, 100_000).await;
        fe.outgoing.close(true);
        assert_eq!(timeout(LONG, fe.incoming.recv()).await, Ok(None));
        assert_eq!(fe.incoming.ended(), Some(&Ended::Here), "{case:?}");
    }
}

/// A CE on its own runtime vanishes with all its sockets.
#[test]
fn a_lost_peer_ends_the_link() {
    for case in CASES {
        let runtime = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
        };
        let (ours, theirs) = (runtime(), runtime());
        let (local, mut remote) = settings(*case);
        let mut listener = theirs.block_on(listen(*case, &local, &mut remote));
        let (remote, case) = (remote, *case);
        let (fe, done) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            ours.block_on(async {
                let mut link = tml(case.transport).connect(&remote).await.unwrap();
                link.outgoing.send(tml::setup(FE));
                fe.send(()).unwrap();
                let end = timeout(LONG, link.incoming.recv()).await;
                assert_eq!(end, Ok(None), "{case:?}");
                let ended = link.incoming.ended().unwrap();
                assert!(
                    matches!(ended, Ended::Lost(_) | Ended::ByPeer),
                    "{case:?}: {ended}"
                );
                link.outgoing.writable().await;
                assert!(!link.outgoing.has_room());
            });
        });
        let link = theirs.block_on(async {
            let link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
            sleep(Duration::from_millis(50)).await;
            link
        });
        done.recv().unwrap();
        // Nothing closes the link: the tasks end before the ends are dropped.
        theirs.shutdown_background();
        drop((link, listener));
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn redirects_of_all_lengths_arrive() {
    for case in CASES {
        let (_listener, mut fe, mut ce) = pair(*case).await;
        for len in [0, 64, 1000, 1400, 9000, 60_000] {
            // A datagram may be lost, or the CE may not know the FE's address yet.
            let sent = redirect(7, len);
            for both in [true, false] {
                let (from, to) = if both { (&fe, &mut ce) } else { (&ce, &mut fe) };
                let mut tries = 0;
                let arrived = loop {
                    tries += 1;
                    assert!(tries < 50, "{case:?}: no redirect of {len} bytes arrives");
                    assert_eq!(from.outgoing.send(sent.clone()), Sent::Queued);
                    let wait = Duration::from_millis(100);
                    if let Ok(message) = timeout(wait, to.incoming.recv()).await {
                        break message.unwrap();
                    }
                };
                assert!(arrived == sent, "{case:?}: {len} bytes");
                while to.incoming.try_recv().is_some() {}
            }
        }
    }
}

/// Sends redirects at once; returns the lengths of the messages in which they arrive.
async fn arrivals(case: Case, combine: usize, count: u8) -> Vec<usize> {
    let (local, mut remote) = settings(case);
    remote.common.channel.combine = combine;
    let mut listener = listen(case, &local, &mut remote).await;
    let (fe, mut ce) = join(case, &mut listener, &remote).await;
    for n in 0..count {
        assert_eq!(fe.outgoing.send(redirect(n, 64)), Sent::Queued);
    }
    let mut found = Vec::new();
    while found.iter().sum::<usize>() < usize::from(count) {
        let message = timeout(LONG, ce.incoming.recv()).await;
        found.push(redirects(
            &message.expect("loopback loses nothing").unwrap(),
        ));
    }
    let report = fe.outgoing.inspect();
    let redirects = report.channels[Channel::Redirect as usize];
    assert_eq!(redirects.sent.packets, u64::from(count));
    assert_eq!(report.combined, u64::from(count) - found.len() as u64);
    found
}

#[tokio::test]
async fn redirects_that_wait_are_combined() {
    for case in CASES {
        // 24 bytes of header, 72 bytes per packet: 16 packets fit into 1200 bytes, 15 into QUIC's shortest datagram. Up
        // to 20 packets wait without drops.
        let found = arrivals(*case, 1200, 20).await;
        assert!(
            [[16, 4], [15, 5]].contains(&[found[0], found[1]]),
            "{case:?}: {found:?}"
        );
        assert_eq!(arrivals(*case, 0, 20).await, [1; 20], "{case:?}");
    }
}

#[tokio::test]
async fn a_flood_of_redirects_does_not_stop_control_messages() {
    for case in CASES {
        let (_listener, fe, mut ce) = pair(*case).await;
        let flood = async {
            // However fast the other end reads: more than it takes.
            for round in 0..100_000 {
                let [_, redirects] = fe.outgoing.inspect().channels;
                if round >= 300 && redirects.dropped.packets > 0 {
                    break;
                }
                for n in 0..50 {
                    fe.outgoing.send(redirect(n, 1000));
                }
                tokio::task::yield_now().await;
            }
        };
        let sending = async {
            for n in 0..300 {
                send(&fe, control(n, 200)).await;
                tokio::task::yield_now().await;
            }
        };
        let reading = async {
            let mut expected = 0;
            while expected < 300 {
                let message = next(&mut ce).await.unwrap();
                if !is_redirect(&message) {
                    assert_eq!(number(&message), expected, "{case:?}");
                    expected += 1;
                }
            }
        };
        tokio::join!(flood, sending, reading);
        let report = fe.outgoing.inspect();
        let [control, redirect] = report.channels;
        assert_eq!(control.dropped.packets, 0);
        assert!(redirect.dropped.packets > 0, "it was a flood");
    }
}

#[tokio::test]
async fn a_redirect_that_is_not_read_takes_no_more_memory() {
    for case in CASES {
        let (local, mut remote) = settings(*case);
        let mut listener = listen(*case, &local, &mut remote).await;
        let (fe, mut ce) = join(*case, &mut listener, &remote).await;
        let flood = async {
            loop {
                fe.outgoing.send(redirect(1, 8000));
                sleep(Duration::from_micros(100)).await;
            }
        };
        tokio::select! {
            () = flood => {}
            () = counted(&local.common, Fault::Unread, 10) => {}
        }
        let mut bytes = 0;
        while let Some(message) = ce.incoming.try_recv() {
            bytes += message.len();
        }
        assert!((100_000..=600_000).contains(&bytes), "{case:?}: {bytes}");
    }
}

#[tokio::test]
async fn what_is_no_message_ends_the_link() {
    let good = control(1, 100);
    let changed = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        message
    };
    for case in CASES {
        for bad in [changed(0, 0x20), changed(3, 5)] {
            let (local, mut remote) = settings(*case);
            let mut listener = listen(*case, &local, &mut remote).await;
            let (mut other, mut ce_other) = join(*case, &mut listener, &remote).await;
            let (mut fe, mut ce) = join(*case, &mut listener, &remote).await;
            send(&fe, good.clone()).await;
            send(&fe, bad).await;
            send(&fe, good.clone()).await;
            assert_eq!(next(&mut ce).await, Some(good.clone()));
            assert_eq!(next(&mut ce).await, None, "{case:?}");
            assert!(
                matches!(ce.incoming.ended(), Some(Ended::Malformed(_))),
                "{case:?}"
            );
            assert_eq!(local.common.faults.count(Fault::Malformed), 1);
            assert_eq!(next(&mut fe).await, None, "{case:?}");
            send(&other, good.clone()).await;
            assert_eq!(
                next(&mut ce_other).await,
                Some(good.clone()),
                "{case:?}: not disturbed"
            );
            send(&ce_other, good.clone()).await;
            assert_eq!(
                next(&mut other).await,
                Some(good.clone()),
                "{case:?}: not disturbed"
            );
        }
    }
}

#[tokio::test]
async fn a_peer_that_stops_within_a_message_is_given_up() {
    // SCTP delivers whole messages only; a message whose length differs from its header ends the link as malformed.
    let is_stream = |case: &&Case| case.transport != Transport::SctpUdp;
    for case in CASES.iter().filter(is_stream) {
        let (local, mut remote) = settings(*case);
        let mut listener = listen(*case, &local, &mut remote).await;
        let (fe, mut ce) = join(*case, &mut listener, &remote).await;
        let mut longer = control(1, 1000);
        longer[3] += 1; // four bytes more than the message has
        send(&fe, longer).await;
        assert_eq!(next(&mut ce).await, None, "{case:?}");
        let ended = ce.incoming.ended().cloned();
        assert_eq!(
            ended,
            Some(Ended::Stalled(tml::limits().message)),
            "{case:?}"
        );
        assert_eq!(local.common.faults.count(Fault::Stalled), 1);
    }
}

#[tokio::test]
async fn two_hundred_links_at_one_listener() {
    for case in CASES {
        let (mut local, mut remote) = settings(*case);
        local.links_max = 200;
        // The first links are silent until the last link is open.
        local.common.limits.idle = LONG;
        remote.common.limits.idle = LONG;
        let mut listener = listen(*case, &local, &mut remote).await;
        let mut links = Vec::new();
        for _ in 0..200 {
            links.push(join(*case, &mut listener, &remote).await);
        }
        for (n, (fe, ce)) in links.iter().enumerate() {
            send(fe, control(n as u64, 100)).await;
            send(ce, control(n as u64 + 1000, 100)).await;
        }
        for (n, (fe, ce)) in links.iter_mut().enumerate() {
            assert_eq!(number(&next(ce).await.unwrap()), n as u64, "{case:?}");
            assert_eq!(
                number(&next(fe).await.unwrap()),
                n as u64 + 1000,
                "{case:?}"
            );
        }
        // One more link is refused, until a slot is free.
        if let Ok(mut extra) = tml(case.transport).connect(&remote).await {
            extra.outgoing.send(tml::setup(FE));
            assert_eq!(next(&mut extra).await, None, "{case:?}");
        }
        counted(&local.common, Fault::TooMany, 1).await;
        let (fe, mut ce) = links.pop().unwrap();
        drop(fe);
        assert_eq!(next(&mut ce).await, None);
        drop(ce);
        let mut is_back = false;
        for _ in 0..20 {
            sleep(Duration::from_millis(50)).await;
            if let Ok(fe) = tml(case.transport).connect(&remote).await {
                fe.outgoing.send(tml::setup(FE));
                let wait = Duration::from_secs(1);
                is_back = timeout(wait, listener.accept()).await.is_ok();
            }
            if is_back {
                break;
            }
        }
        assert!(is_back, "{case:?}: the place is not given back");
    }
}
