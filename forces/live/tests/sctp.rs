//! SCTP over IP and over UDP on real sockets, each test in its own network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::time::{sleep, timeout};
use weir_forces_live::tml::sctp::packet::{Header, Writer, kind, seal};
use weir_forces_live::tml::{Fault, Remote, TmlError, Transport, tml};

use crate::common::{eventually, in_namespace, run, succeeds};
use crate::tml::{
    CASES, Case, LONG, control, counted, is_redirect, join, listen, next, number, pair, redirect,
    send, settings,
};

const RAW: Case = Case {
    transport: Transport::Sctp,
    is_pinned: false,
};
const UDP: Case = Case {
    transport: Transport::SctpUdp,
    is_pinned: false,
};

fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

/// Whether raw sockets are permitted.
fn may_send_raw() -> bool {
    let may = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(132))).is_ok();
    if !may {
        println!("skipped: raw sockets are not permitted here");
    }
    may
}

/// An event message of the FE.
fn event(number: u64) -> Vec<u8> {
    let mut message = control(number, 24);
    message[1] = 0x05;
    message[20] = 3 << 3;
    message
}

#[test]
fn two_fes_over_ip() {
    in_namespace(|| {
        if !may_send_raw() {
            return;
        }
        for address in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            block_on(exchange_over_ip(address));
        }
    });
}

async fn exchange_over_ip(address: IpAddr) {
    let (mut local, mut remote) = settings(RAW);
    local.address = SocketAddr::new(address, 6704);
    let mut listener = listen(RAW, &local, &mut remote).await;
    assert_eq!(remote.address, local.address);
    let mut links = vec![
        join(RAW, &mut listener, &remote).await,
        join(RAW, &mut listener, &remote).await,
    ];
    let lens = [24, 1400, 65_536, 262_140, 24];
    for (fe, ce) in &mut links {
        for (n, len) in lens.into_iter().enumerate() {
            send(fe, control(n as u64, len)).await;
            send(ce, control(n as u64, len)).await;
        }
        for (n, len) in lens.into_iter().enumerate() {
            assert!(next(ce).await.unwrap() == control(n as u64, len), "{len}");
            assert!(next(fe).await.unwrap() == control(n as u64, len), "{len}");
        }
        send(fe, event(1)).await;
        assert!(next(ce).await.unwrap() == event(1));
        fe.outgoing.send(redirect(1, 60_000));
        assert!(next(ce).await.unwrap() == redirect(1, 60_000));
    }
    let (fe, mut ce) = links.pop().unwrap();
    drop(fe);
    assert_eq!(next(&mut ce).await, None);
    let (fe, ce) = &mut links[0];
    send(fe, control(9, 24)).await;
    assert_eq!(next(ce).await.map(|m| number(&m)), Some(9));
}

/// A running `tcpdump` that captures the loopback interface. With maximum-length packets, few would fit its ring.
fn capture(file: &str) -> Child {
    let child = Command::new("tcpdump")
        .args([
            "-i",
            "lo",
            "-U",
            "--immediate-mode",
            "-s",
            "2000",
            "-w",
            file,
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the capture", || {
        std::fs::metadata(file).is_ok_and(|meta| meta.len() >= 24)
    });
    child
}

#[test]
fn others_read_it_as_forces() {
    in_namespace(|| {
        if !may_send_raw() || !succeeds("command -v tcpdump") {
            println!("skipped: no tcpdump");
            return;
        }
        let folder = std::env::temp_dir().join(format!("weir-sctp-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for case in [RAW, UDP] {
            let file = folder.join(format!("{:?}.pcap", case.transport));
            let file = file.to_str().unwrap();
            let mut tcpdump = capture(file);
            block_on(async {
                let (local, mut remote) = settings(case);
                let mut local = local;
                local.redirect_port = None; // the ports of the RFCs
                let mut listener = listen(case, &local, &mut remote).await;
                let (mut fe, mut ce) = join(case, &mut listener, &remote).await;
                send(&fe, event(1)).await;
                fe.outgoing.send(redirect(1, 64));
                next(&mut ce).await.unwrap();
                next(&mut ce).await.unwrap();
                fe.outgoing.close(true);
                assert_eq!(next(&mut ce).await, None);
                assert_eq!(timeout(LONG, fe.incoming.recv()).await, Ok(None));
            });
            std::thread::sleep(Duration::from_millis(300));
            run(&format!("kill -INT {}", tcpdump.id()));
            tcpdump.wait().unwrap();
            match case.transport {
                Transport::Sctp => read_by_tcpdump(file),
                _ => read_by_tshark(file),
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    });
}

fn read_by_tcpdump(file: &str) {
    let text = run(&format!("tcpdump -n -vvv -r {file} sctp"));
    for wanted in [
        "PPID ForCES HP",
        "PPID ForCES MP",
        "PPID ForCES LP",
        "Association Setup",
        "Event Notification",
        "Packet Redirect",
        "[INIT]",
        "[COOKIE ECHO]",
        "[SHUTDOWN]",
        "[SHUTDOWN COMPLETE]",
    ] {
        let found = text.to_lowercase().contains(&wanted.to_lowercase());
        assert!(found, "no {wanted} in\n{text}");
    }
    assert!(
        !text.contains("bad cksum") && !text.contains("trunc"),
        "{text}"
    );
}

/// Skips if tshark is missing: Wireshark is not among the packages installed for tests.
fn read_by_tshark(file: &str) {
    if !succeeds("command -v tshark") {
        println!("skipped: no tshark");
        return;
    }
    let ports = "-o forces.sctp_high_prio_port:6704 -o forces.sctp_med_prio_port:6705 \
                 -o forces.sctp_low_prio_port:6706 -o sctp.checksum:TRUE";
    let text = run(&format!(
        "tshark -r {file} -d udp.port==9899,sctp {ports} -T fields -e sctp.data_payload_proto_id -e \
         forces.messagetype -e sctp.checksum.status"
    ));
    for (ppid, kind) in [("21", "1"), ("22", "5"), ("23", "6")] {
        let found = text.lines().any(|line| {
            let mut fields = line.split('\t');
            fields.next() == Some(ppid)
                && fields.next().is_some_and(|k| {
                    k.parse() == kind.parse::<u32>()
                        || u32::from_str_radix(k.trim_start_matches("0x"), 16) == kind.parse()
                })
        });
        assert!(
            found,
            "no message of type {kind} with PPID {ppid} in\n{text}"
        );
    }
}

#[test]
fn there_must_be_a_reason_to_trust_the_network() {
    block_on(async {
        let is_sctp = |case: &&Case| case.transport == Transport::SctpUdp;
        for case in CASES.iter().filter(is_sctp).chain([&RAW]) {
            let (mut local, mut remote) = settings(*case);
            local.address = "127.0.0.1:6704".parse().unwrap();
            remote.address = local.address;
            local.common.security.insecure = false;
            remote.common.security.insecure = false;
            let tml = tml(case.transport);
            for error in [
                tml.listen(&local).await.unwrap_err(),
                tml.connect(&remote).await.unwrap_err(),
            ] {
                assert!(matches!(error, TmlError::Insecure { .. }), "{error}");
            }
        }
    });
}

#[test]
fn nobody_listens() {
    in_namespace(|| {
        block_on(async {
            for case in [RAW, UDP] {
                let (_, mut remote) = settings(case);
                remote.address.set_port(6704);
                remote.common.limits.handshake = Duration::from_millis(700);
                if case.transport == Transport::SctpUdp || may_send_raw() {
                    let error = tml(case.transport).connect(&remote).await.unwrap_err();
                    assert!(matches!(error, TmlError::Handshake { .. }), "{error}");
                }
            }
        });
    });
}

/// Garbage, INITs from many ports and packets without an association, while an honest FE works.
#[test]
fn a_flood_disturbs_no_link() {
    in_namespace(|| {
        block_on(async {
            let (mut local, mut remote) = settings(UDP);
            local.redirect_port = None;
            let mut listener = listen(UDP, &local, &mut remote).await;
            let (fe, mut ce) = join(UDP, &mut listener, &remote).await;
            let flood = std::thread::spawn(|| flood(20_000));
            for n in 0..500 {
                send(&fe, control(n, 200)).await;
                assert_eq!(number(&next(&mut ce).await.unwrap()), n);
                sleep(Duration::from_millis(1)).await;
            }
            flood.join().unwrap();
            let late = join(UDP, &mut listener, &remote).await;
            drop(late);
            counted(&local.common, Fault::Forged, 1).await;
            counted(&local.common, Fault::Malformed, 1).await;
            counted(&local.common, Fault::Unassociated, 1).await;
        });
    });
}

/// Sends packets to the listener from many ports.
fn flood(count: u32) {
    let sockets: Vec<_> = (0..50)
        .map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    for n in 0..count {
        let header = |tag| Header {
            source_port: n as u16 | 1,
            destination_port: 6704 + (n % 3) as u16,
            tag,
        };
        let value: Vec<u8> = (0..64)
            .map(|at| (n.wrapping_mul(at + 7) >> 5) as u8)
            .collect();
        let mut init = value.clone();
        init[8..16].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 9]);
        init.truncate(16);
        let packet = match n % 5 {
            0 | 1 => Writer::new(header(0)).chunk(kind::INIT, 0, &init).finish(),
            2 => Writer::new(header(n))
                .chunk((n >> 3) as u8, 3, &value)
                .finish(),
            3 => value,
            _ => {
                let mut packet = Writer::new(header(n)).chunk(kind::DATA, 3, &value).finish();
                packet[15] = 200;
                seal(&mut packet);
                packet
            }
        };
        let socket = &sockets[n as usize % sockets.len()];
        let _ = socket.send_to(&packet, "127.0.0.1:9899");
        if n % 20 == 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// The FE detects the loss of its CE: at once if the CE closes the link, otherwise by its silence.
#[test]
fn a_silent_ce_is_found() {
    in_namespace(|| {
        block_on(async {
            let (_listener, mut fe, _ce) = pair(UDP).await;
            run("ip link set lo down");
            let end = timeout(LONG, fe.incoming.recv()).await;
            assert_eq!(end, Ok(None));
            let ended = fe.incoming.ended().unwrap().to_string();
            assert!(ended.contains("sent nothing"), "{ended}");
        });
    });
}

/// Control messages and redirects survive a network that loses, duplicates and delays packets.
#[test]
fn a_bad_network_loses_no_control_message() {
    in_namespace(|| {
        block_on(async {
            let (mut local, mut remote) = settings(UDP);
            local.redirect_port = None;
            let mut listener = listen(UDP, &local, &mut remote).await;
            let bad = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let through: Remote = Remote {
                redirect_port: Some(bad.local_addr().unwrap().port()),
                ..remote
            };
            std::thread::spawn(move || relay(&bad));
            let (fe, mut ce) = join(UDP, &mut listener, &through).await;
            let sending = async {
                for n in 0..200 {
                    send(&fe, control(n, 24 + 400 * (n as usize % 20))).await;
                    fe.outgoing.send(redirect(n as u8, 500));
                }
            };
            let reading = async {
                let (mut expected, mut redirects) = (0, 0);
                while expected < 200 {
                    let message = next(&mut ce).await.unwrap();
                    if is_redirect(&message) {
                        redirects += 1;
                    } else {
                        assert!(message == control(expected, 24 + 400 * (expected as usize % 20)));
                        expected += 1;
                    }
                }
                redirects
            };
            let ((), redirects) = tokio::join!(sending, reading);
            assert!(redirects > 20, "{redirects} of 200 redirects");
        });
    });
}

/// Relays packets to UDP port 9899 and back; loses one in twenty and duplicates one in thirty.
fn relay(socket: &std::net::UdpSocket) {
    let ce: SocketAddr = "127.0.0.1:9899".parse().unwrap();
    let (mut fe, mut buffer) = (None, [0; 65_536]);
    for count in 0_u32.. {
        let Ok((len, from)) = socket.recv_from(&mut buffer) else {
            return;
        };
        let to = if from == ce { fe } else { Some(ce) };
        if from != ce {
            fe = Some(from);
        }
        let draw = count.wrapping_mul(0x9e37_79b9) >> 16;
        let copies = if draw % 20 == 0 {
            0
        } else {
            1 + u32::from(draw % 30 == 1)
        };
        for _ in 0..copies {
            let _ = to.map(|to| socket.send_to(&buffer[..len], to));
        }
    }
}
