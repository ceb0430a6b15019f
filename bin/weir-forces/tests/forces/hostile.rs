//! Peers that lie, flood, stop and never read: the CE and the FE continue with bounded memory, and others do not
//! notice.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::stage::{FE, Stage, Wire};
use super::wire::{CE_ID, HEARTBEAT, REDIRECT, SETUP, accepts, connect, lying, message, read};
use crate::common::{Router, eventually};

const AT: ([u8; 4], u16) = ([127, 0, 0, 1], 6704);
/// FEs of the CE's configuration that the attackers claim to be.
const MORE: &str = "[fe.other]\nid = 3\n[fe.third]\nid = 4\n";
/// Growth of a process that counts as unbounded, in KiB. All links of an attack together may hold less.
const GROWTH_KIB_MAX: u64 = 128 << 10;

fn at() -> SocketAddr {
    AT.into()
}

/// Resident memory of a process in KiB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let number = line.split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Writes the same bytes until the peer closes, accepts no more, or the time is up, and checks something meanwhile.
/// Returns the number of bytes written.
fn flood(stream: &mut TcpStream, bytes: &[u8], seconds: u64, check: impl FnOnce()) -> usize {
    thread::scope(|scope| {
        let until = Instant::now() + Duration::from_secs(seconds);
        let flood = scope.spawn(move || write_until(stream, bytes, until));
        thread::sleep(Duration::from_millis(800));
        check();
        flood.join().unwrap()
    })
}

fn write_until(stream: &mut TcpStream, bytes: &[u8], until: Instant) -> usize {
    stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut sent = 0;
    while Instant::now() < until && stream.write_all(bytes).is_ok() {
        sent += bytes.len();
    }
    sent
}

/// Checks that the CE answers, that its honest FE is in sync without a new association, and that memory is bounded.
fn goes_on(stage: &Stage, ce: &Router, before: u64, attack: &str) {
    assert_eq!(stage.state(FE), "in sync", "{attack}: {}", ce.log());
    let now = memory(ce.process.id());
    assert!(
        now < before + GROWTH_KIB_MAX,
        "{attack}: {before} -> {now} KiB"
    );
    let lost = ce.log().matches("association lost fe=\"edge1\"").count();
    assert_eq!(lost, 0, "{attack}: {}", ce.log());
}

/// An attacker that has an association as the FE with this ID.
fn associated(stage: &Stage, fe: u32) -> TcpStream {
    let mut stream = connect(&stage.bed.router, at());
    stream.write_all(&message(SETUP, fe, CE_ID, &[])).unwrap();
    let answer = read(&mut stream).unwrap();
    assert_eq!(
        (answer[1], &answer[24..]),
        (0x11, &accepts(fe, &answer)[24..])
    );
    stream
}

#[test]
fn a_ce_survives_hostile_fes() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let ce = stage.start_ce_with(MORE);
    let _fe = stage.start_fe();
    stage.in_sync();
    let host = &stage.bed.router;
    let before = memory(ce.process.id());
    let goes_on = |attack| goes_on(&stage, &ce, before, attack);

    let mut stops = connect(host, at());
    stops
        .write_all(&lying(SETUP, 3, CE_ID, 60_000, &[0; 100]))
        .unwrap();
    goes_on("a peer stops within a message");

    for words in [0, 5, 7, u16::MAX] {
        let mut lies = connect(host, at());
        let _ = lies.write_all(&lying(SETUP, 3, CE_ID, words, &[0xff; 64]));
        goes_on("a peer lies about a length");
    }

    let mut garbage = connect(host, at());
    flood(&mut garbage, &[0xa5; 4096], 1, || {
        goes_on("a peer sends garbage")
    });

    let mut twice = associated(&stage, 3);
    twice.write_all(&message(SETUP, 3, CE_ID, &[])).unwrap();
    let second = associated(&stage, 3);
    goes_on("an FE associates twice, on one link and on two");
    drop((twice, second));

    let mut endless = associated(&stage, 3);
    let beats = message(HEARTBEAT, 3, CE_ID, &[]).repeat(100);
    flood(&mut endless, &beats, 2, || {
        goes_on("an FE sends without end")
    });
    drop(endless);

    // Each of these asks for an answer, and the FE reads none.
    let mut deaf = associated(&stage, 4);
    let mut ask = message(HEARTBEAT, 4, CE_ID, &[]);
    ask[20..24].copy_from_slice(&(3_u32 << 30 | 7 << 27).to_be_bytes());
    flood(&mut deaf, &ask.repeat(100), 2, || {
        goes_on("an FE never reads")
    });

    let redirects = host
        .enter(|| UdpSocket::bind("127.0.0.1:0"))
        .unwrap()
        .unwrap();
    let packet = message(REDIRECT, 3, CE_ID, &[0xee; 1000]);
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let _ = redirects.send_to(&packet, ("127.0.0.1", 6706)); // refused packets are expected
    }
    goes_on("redirects of nobody flood");
    drop(deaf);
}

#[test]
fn a_thousand_connections_do_not_disturb_an_fe() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let ce = stage.start_ce();
    let _fe = stage.start_fe();
    stage.in_sync();
    let before = memory(ce.process.id());
    weir_live::namespace::raise_file_limit(4096).unwrap();
    let mut held = Vec::new();
    for _ in 0..1000 {
        held.push(connect(&stage.bed.router, at()));
    }
    goes_on(&stage, &ce, before, "a thousand connections");
    drop(held);
    let has_room = || {
        let mut peer = connect(&stage.bed.router, at());
        peer.write_all(&message(SETUP, 9, CE_ID, &[])).unwrap();
        let ended = read(&mut peer).is_none();
        ended && ce.log().contains("an unknown FE")
    };
    eventually("the CE takes connections again", has_room);
    goes_on(&stage, &ce, before, "an FE that nobody has configured");
}

#[test]
fn an_fe_survives_hostile_ces() {
    let Some(stage) = Stage::new(Wire::Plain) else {
        return;
    };
    let host = &stage.bed.router;
    let listener = host.enter(|| TcpListener::bind(at())).unwrap().unwrap();
    let fe = stage.start_fe();
    let before = memory(fe.child());
    let accept = || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let setup = read(&mut stream).unwrap();
        assert_eq!(setup[1], SETUP);
        (stream, accepts(2, &setup))
    };
    let goes_on = |attack: &str| {
        assert!(
            stage.ping(crate::common::ANSWERED),
            "{attack}: {}",
            fe.log()
        );
        let now = memory(fe.child());
        assert!(
            now < before + GROWTH_KIB_MAX,
            "{attack}: {before} -> {now} KiB"
        );
    };

    let (mut stops, answer) = accept();
    stops.write_all(&answer[..17]).unwrap();
    goes_on("a CE stops within a message");
    drop(stops);

    for words in [0, 5, u16::MAX] {
        let (mut lies, _) = accept();
        let _ = lies.write_all(&lying(0x11, CE_ID, 2, words, &[0xff; 64]));
        goes_on("a CE lies about a length");
    }

    let (mut garbage, _) = accept();
    flood(&mut garbage, &[0xa5; 4096], 1, || {
        goes_on("a CE sends garbage")
    });
    drop(garbage);

    // Queries of everything, whose answers nobody reads: GET of all of FEObject.
    let (mut deaf, answer) = accept();
    deaf.write_all(&answer).unwrap();
    let path = [0x01, 0x10, 0, 8, 0, 0, 0, 0];
    let operation = [&[0, 7, 0, 12][..], &path].concat();
    let select = [&[0x10, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 1][..], &operation].concat();
    let query = message(0x04, CE_ID, 2, &select);
    let sent = flood(&mut deaf, &query.repeat(64), 3, || {
        goes_on("a CE never reads")
    });
    assert!(sent < 64 << 20, "no back-pressure: {sent} bytes went");
    drop(deaf);

    let (mut redirects, answer) = accept();
    redirects.write_all(&answer).unwrap();
    let flooded = message(REDIRECT, CE_ID, 2, &[0xee; 1000]);
    flood(&mut redirects, &flooded, 2, || {
        goes_on("a CE floods redirects on the channel of control");
    });
}
