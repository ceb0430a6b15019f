//! A TUN device in a network namespace: the test reads packets that the kernel routes into it, and writes packets to
//! the kernel.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{eventually, in_namespace, run, succeeds};
use weir_live::device::Device;
use weir_live::device::made::MakeError;
use weir_live::device::tun::Tun;

/// A device `weir0` into which 10.9.0.0/24 is routed.
fn device() -> Tun {
    run("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
    let tun = Tun::open("weir0").unwrap();
    run("ip addr add 10.8.0.1/32 dev weir0 && ip route add 10.9.0.0/24 dev weir0");
    tun
}

fn process() -> UdpSocket {
    let socket = UdpSocket::bind("10.8.0.1:4000").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    socket
}

fn receive(tun: &mut Tun, burst_max: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut cost = 0;
    let taken = tun.receive(burst_max, &mut |frame| {
        assert_eq!(frame.bytes.len(), frame.len as usize);
        cost += frame.cost();
        frames.push(frame.bytes.to_vec());
    });
    assert_eq!(taken.unwrap(), cost);
    frames
}

#[test]
fn packets_come_as_frames_and_frames_go_as_packets() {
    in_namespace(|| {
        let mut tun = device();
        let socket = process();
        assert_eq!(receive(&mut tun, 64), Vec::<Vec<u8>>::new());
        for number in 0..5 {
            socket.send_to(&[number; 100], "10.9.0.7:5000").unwrap();
        }
        socket.send_to(&[9; 1472], "10.9.0.7:5000").unwrap();
        assert_eq!(receive(&mut tun, 3).len(), 3);
        let rest = receive(&mut tun, 64);
        assert_eq!(rest.len(), 3);
        let frame = &rest[0];
        assert_eq!((frame.len(), frame[12], frame[13]), (14 + 128, 8, 0));
        assert_eq!(frame[14], 0x45);
        assert_eq!(
            frame[14 + 20 + 8..],
            [3; 100],
            "in order, checksums complete"
        );
        assert_eq!(rest[2].len(), 14 + 1500);

        // Back to the process: source and destination change places, and no sum does.
        let mut answer = frame.clone();
        answer[26..34].rotate_left(4);
        answer[34..38].rotate_left(2);
        let arp = [&answer[..12], &[8, 6], &answer[14..]].concat();
        assert_eq!(tun.transmit(&[&arp, &answer, &answer[..14]]).unwrap(), 3);
        let mut came = [0; 200];
        let (len, from) = socket.recv_from(&mut came).unwrap();
        assert_eq!((len, from.to_string()), (100, "10.9.0.7:5000".to_owned()));
        assert_eq!(tun.counters().refused, 2);
    });
}

#[test]
fn down_gone_and_taken_are_told_apart() {
    in_namespace(|| {
        let mut tun = device();
        let taken = Tun::open("weir0").unwrap_err();
        assert!(matches!(taken, MakeError::Taken(_)), "{taken}");
        let frame = [&[2; 12][..], &[8, 0, 0x45], &[0; 19]].concat();
        run("ip link set weir0 down");
        assert_eq!(tun.transmit(&[&frame]).unwrap(), 1);
        assert_eq!(tun.counters().refused, 1);
        assert_eq!(receive(&mut tun, 64).len(), 0);
        run("ip link set weir0 up");
        assert_eq!(tun.transmit(&[&frame]).unwrap(), 1);
        assert_eq!(tun.counters().refused, 1);
        run("ip link del weir0");
        assert!(tun.receive(64, &mut |_| {}).is_err());
        assert!(tun.transmit(&[&frame]).is_err());
        drop(tun);
        let tun = Tun::open("weir0").unwrap();
        assert!(succeeds("ip link show weir0"));
        drop(tun);
        eventually("it vanishes with its file", || {
            !succeeds("ip link show weir0")
        });
    });
}

#[test]
fn what_is_not_read_waits_within_a_bound() {
    in_namespace(|| {
        let mut tun = device();
        let socket = process();
        for _ in 0..5000 {
            let _full = socket.send_to(&[7; 100], "10.9.0.7:5000");
        }
        let read = receive(&mut tun, 10_000).len();
        assert!((1..5000).contains(&read), "{read}");
    });
}
