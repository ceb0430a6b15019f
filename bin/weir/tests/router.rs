//! `weir router` on real interfaces, checked by independent tools.
//!
//! Each test builds its own hosts (see `weir_benches::testbed`). Where network namespaces are not permitted, it prints
//! that and skips.

use std::fs;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ANSWERED, Bench, eventually};
use weir_benches::testbed::{SINK, SOURCE, Testbed, run};
use weir_live::namespace::{Signal, signal};
use weir_model::observe::Observed;
use weir_model::{ApplyReport, ChangeRequest, ChangeValue, Value};
use weir_northbound::client;

const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\", limit = \"500 packets\" }
[port.wan]
interface = \"r1\"
rate = \"50 Mbit\"
discipline = { kind = \"fifo\", limit = \"500 packets\" }
";

/// Sends a numbered datagram each millisecond while `work` runs. Returns how many were sent and how many arrived.
fn under_traffic(bench: &Bench, work: impl FnOnce()) -> (u32, u32) {
    let receiver = bench
        .bed
        .sink
        .enter(|| UdpSocket::bind((SINK, 5000)).unwrap())
        .unwrap();
    let sender = bench
        .bed
        .source
        .enter(|| UdpSocket::bind((SOURCE, 0)).unwrap())
        .unwrap();
    receiver
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    sender.connect((SINK, 5000)).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                sender.send(&sent.to_be_bytes()).unwrap();
                sent += 1;
                thread::sleep(Duration::from_millis(1));
            }
            sent
        });
        let receiving = scope.spawn(|| {
            let (mut came, mut next, mut buffer) = (0_u32, 0_u32, [0; 4]);
            while receiver.recv(&mut buffer).is_ok() {
                let number = u32::from_be_bytes(buffer);
                assert!(
                    number >= next,
                    "{number} came after {next}: out of order or twice"
                );
                next = number + 1;
                came += 1;
            }
            came
        });
        thread::sleep(Duration::from_millis(100));
        work();
        thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
        (sending.join().unwrap(), receiving.join().unwrap())
    })
}

/// The sink answers; otherwise the test fails and prints the router's tables.
fn assert_reachable(bench: &Bench) {
    if let Err(error) = run(&bench.bed.source, "ping", ANSWERED) {
        panic!(
            "{error}\n{}{}{}",
            bench.ask(&["show", "drops"]),
            bench.ask(&["show", "neighbours"]),
            bench.log()
        );
    }
}

#[test]
fn ping_traceroute_and_tracepath_see_a_router() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    assert!(bench.ping("-c 3 -i 0.05 -W 10 10.77.2.2"));
    eventually("IPv6 works", || {
        bench.ping("-6 -c 3 -i 0.05 -W 2 fd77:2::2")
    });
    let trace = run(&bench.bed.source, "traceroute", "-n -q 1 -w 10 10.77.2.2").unwrap();
    let hops: Vec<_> = trace
        .lines()
        .skip(1)
        .filter_map(|l| l.split_whitespace().nth(1))
        .collect();
    assert_eq!(hops, ["10.77.1.1", "10.77.2.2"], "{trace}");
    let trace = run(
        &bench.bed.source,
        "traceroute",
        "-6 -n -q 1 -w 10 fd77:2::2",
    )
    .unwrap();
    assert!(
        trace.contains("fd77:1::1") && trace.contains("fd77:2::2"),
        "{trace}"
    );
    // A smaller MTU behind the router is discovered.
    run(&bench.bed.router, "ip", "link set r1 mtu 1300").unwrap();
    run(&bench.bed.sink, "ip", "link set b0 mtu 1300").unwrap();
    eventually("tracepath finds the MTU", || {
        run(&bench.bed.source, "tracepath", "-n 10.77.2.2")
            .unwrap()
            .contains("pmtu 1300")
    });
    // Packets that may be fragmented still get through.
    assert!(bench.ping("-M dont -s 1400 -c 2 -i 0.05 -W 10 10.77.2.2"));
    assert!(!bench.ping("-M do -s 1400 -c 1 -W 1 10.77.2.2"));
}

#[test]
fn what_cannot_be_forwarded_is_answered() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let refused = |arguments: &str| match run(&bench.bed.source, "ping", arguments) {
        Ok(printed) => panic!("somebody answered: {printed}"),
        Err(error) => error.to_string(),
    };
    assert!(refused("-c 1 -W 10 192.0.2.1").contains("Net Unreachable"));
    assert!(refused("-c 1 -W 20 10.77.2.99").contains("Host Unreachable"));
    run(
        &bench.bed.router,
        "ip",
        "route add prohibit 198.51.100.0/24",
    )
    .unwrap();
    run(
        &bench.bed.router,
        "ip",
        "route add blackhole 203.0.113.0/24",
    )
    .unwrap();
    eventually("the routes are known", || {
        let routes = bench.ask(&["show", "routes"]);
        routes.contains("prohibit") && routes.contains("blackhole")
    });
    assert!(refused("-c 1 -W 10 198.51.100.1").contains("Packet filtered"));
    assert!(!refused("-c 1 -W 1 203.0.113.1").contains("nreachable"));
    let drops = bench.ask(&["show", "drops"]);
    for reason in [
        "no-route",
        "neighbour-failed",
        "route-prohibit",
        "route-blackhole",
    ] {
        assert!(drops.contains(reason), "{drops}");
    }
}

#[test]
fn every_packet_has_one_hop_less_and_right_checksums() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let mut capture = Command::new("tcpdump");
    capture
        .args([
            "-n",
            "-v",
            "-i",
            "b0",
            "-c",
            "400",
            "--immediate-mode",
            "-l",
        ])
        .arg("udp port 5000 or icmp")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let capture = bench.spawner.spawn(&bench.bed.sink, capture).unwrap();
    eventually("the capture runs", || {
        let sockets = run(&bench.bed.sink, "ss", "-H0").unwrap();
        sockets.contains("b0")
    });
    let (sent, came) = under_traffic(&bench, || {
        assert!(bench.ping("-c 20 -i 0.02 -W 10 10.77.2.2"));
        thread::sleep(Duration::from_millis(500));
    });
    assert_eq!(sent, came);
    signal(&capture, Signal::Terminate).unwrap();
    let seen = String::from_utf8(capture.wait_with_output().unwrap().stdout).unwrap();
    let from_source = seen.lines().filter(|l| l.contains("ttl 63")).count();
    assert!(
        from_source >= 300,
        "{from_source} of the packets have TTL 63:\n{seen}"
    );
    assert!(!seen.contains("bad") && !seen.contains("wrong"), "{seen}");
}

#[test]
fn the_kernel_forwards_again_within_a_second_of_a_kill() {
    let Some(mut bench) = Bench::new(CONFIG) else {
        return;
    };
    assert_reachable(&bench);
    let (sent, came) = under_traffic(&bench, || {
        bench.signal("KILL");
        thread::sleep(Duration::from_secs(2));
    });
    let killed = &mut bench.router.as_mut().unwrap().process;
    assert!(killed.try_wait().unwrap().is_some());
    assert!(
        sent - came < 1000,
        "{came} of {sent} datagrams, one a millisecond, came"
    );
    assert_reachable(&bench);
    // A new router replaces the socket that the killed one left behind.
    bench.start(CONFIG);
    assert_reachable(&bench);
}

#[test]
fn a_clean_stop_gives_the_link_back() {
    let Some(mut bench) = Bench::new(CONFIG) else {
        return;
    };
    let status = bench.stop("TERM");
    assert!(status.success(), "{status}");
    assert!(!bench.socket().exists());
    assert_reachable(&bench);
}

#[test]
fn a_new_configuration_is_taken_without_losing_a_packet() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let (sent, came) = under_traffic(&bench, || {
        for discipline in ["drr", "lru_fq", "fq_codel", "fifo"] {
            let config = CONFIG
                .replace("fifo", discipline)
                .replace("50 Mbit", "60 Mbit");
            let path = bench.configure(&config);
            let applied = bench.weir(&["apply", path.to_str().unwrap()]);
            assert!(applied.status.success(), "{applied:?}");
            assert!(bench.ask(&["show", "queues"]).contains(discipline));
        }
        bench.configure(CONFIG);
        bench.signal("HUP");
        eventually("SIGHUP is obeyed", || {
            bench.ask(&["show", "ports"]).contains("50 Mbit")
        });
    });
    assert_eq!(sent, came);
}

#[test]
fn single_components_change_without_losing_a_packet_and_quickly() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let socket = bench.socket();
    let limit = |packets: i64| {
        vec![ChangeRequest {
            path: "port.wan.discipline.limit".to_owned(),
            value: ChangeValue::Integer(packets),
        }]
    };
    const TIMES: u32 = 100;
    let mut took = Duration::ZERO;
    let (sent, came) = under_traffic(&bench, || {
        let began = Instant::now();
        for n in 0..TIMES {
            let changes = limit(400 + i64::from(n));
            let report: ApplyReport = client::patch(&socket, "/v1/config", &changes).unwrap();
            assert!(report.applied, "{report:?}");
        }
        took = began.elapsed() / TIMES;
        let changes = ["port.wan.rate=45 Mbit", "port.lan.discipline.limit=300"];
        let said = bench.ask(&[&["set"], &changes[..]].concat());
        let expected =
            "~ port.lan.discipline.limit: 500 -> 300\n~ port.wan.rate: 50 Mbit -> 45 Mbit\n";
        assert_eq!(said, expected);
    });
    assert_eq!(sent, came);
    // A controller changes several routers every 40 ms.
    assert!(took < Duration::from_millis(10), "{took:?}");
    println!("a change takes {took:?}");
    let queues: Value = client::get(&socket, "/v1/queues").unwrap();
    let mut queues = queues.rows().iter();
    let wan = queues
        .find(|queue| queue.text("port") == Some("wan"))
        .unwrap();
    assert_eq!(wan.whole("parameters.limit"), Some(499));
    assert!(
        wan.whole("sent.packets") >= Some(u64::from(sent)),
        "the books go on: {wan:?}"
    );
}

#[test]
fn a_wrong_change_changes_nothing_and_says_why() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let refused = |changes: &[&str]| {
        let refused = bench.weir(&[&["set"], changes].concat());
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        String::from_utf8(refused.stderr).unwrap()
    };
    let wrong = [
        (
            "port.wam.rate=1 Mbit",
            "there is no port `wam`; did you mean `wan`?",
        ),
        (
            "port.wan.discipline.limits=9",
            "unknown key `limits`; did you mean `limit`?",
        ),
        ("port.wan.discipline.limit=0", "from 1 to 1000000"),
        ("mode=bridged", "cannot change while the router runs"),
        ("port.wan.rate", "must be like port.wan.rate=\"50 Mbit\""),
    ];
    for (change, why) in wrong {
        let said = refused(&["port.lan.discipline.limit=300", change]);
        assert!(said.contains(why), "{said}");
    }
    let unchanged = bench.configure(CONFIG);
    assert_eq!(bench.ask(&["diff", unchanged.to_str().unwrap()]), "");
}

#[test]
fn a_wrong_configuration_changes_nothing_and_says_why() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let path = bench.configure(&CONFIG.replace("limit", "limits"));
    let path = path.to_str().unwrap();
    for command in ["check", "diff", "apply"] {
        let refused = bench.weir(&[command, path]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            said.contains(":4:31: unknown key `limits`; did you mean `limit`?"),
            "{said}"
        );
    }
    bench.signal("HUP");
    eventually("the refusal is logged", || bench.log().contains("refused"));
    let unchanged = bench.configure(CONFIG);
    assert_eq!(bench.ask(&["diff", unchanged.to_str().unwrap()]), "");
    let path = bench.configure(&CONFIG.replace("50 Mbit", "70 Mbit"));
    let diff = bench.weir(&["diff", path.to_str().unwrap()]);
    let printed = String::from_utf8(diff.stdout).unwrap();
    assert_eq!(printed, "~ port.wan.rate: 50 Mbit -> 70 Mbit\n");
    assert_eq!(diff.status.code(), Some(1));
}

#[test]
fn routes_and_neighbours_change_under_traffic_without_loss() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let (sent, came) = under_traffic(&bench, || {
        for _ in 0..5 {
            run(&bench.bed.router, "ip", "route add 10.77.2.2/32 dev r1").unwrap();
            thread::sleep(Duration::from_millis(50));
            run(&bench.bed.router, "ip", "route del 10.77.2.2/32 dev r1").unwrap();
            thread::sleep(Duration::from_millis(50));
            // When the neighbour entry is deleted, packets wait for it and none is lost.
            run(&bench.bed.router, "ip", "neighbour del 10.77.2.2 dev r1").unwrap();
            thread::sleep(Duration::from_millis(50));
        }
    });
    assert_eq!(sent, came, "{}", bench.ask(&["show", "drops"]));
}

#[test]
fn a_gateway_is_kept_known() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    run(
        &bench.bed.router,
        "ip",
        "-6 route add 2001:db8::/32 via fd77:2::2",
    )
    .unwrap();
    // This needs no traffic, and the entry remains the kernel's own.
    let entry = || run(&bench.bed.router, "ip", "-d -6 neighbour show fd77:2::2").unwrap();
    eventually("the gateway is known", || entry().contains("REACHABLE"));
    assert!(!entry().contains("managed"), "{}", entry());
}

#[test]
fn a_port_may_disappear_and_come_back() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    run(&bench.bed.router, "ip", "link set r1 down").unwrap();
    eventually("the port is down", || {
        bench.ask(&["show", "ports"]).contains("down")
    });
    assert!(!bench.ping("-c 1 -W 1 10.77.2.2"));
    run(&bench.bed.router, "ip", "link set r1 up").unwrap();
    run(
        &bench.bed.router,
        "ip",
        "neighbour replace 10.77.2.2 lladdr 02:00:00:00:4d:04 dev r1",
    )
    .unwrap();
    eventually("it forwards again", || bench.ping("-c 1 -W 1 10.77.2.2"));
    // The whole interface is deleted and recreated.
    run(&bench.bed.router, "ip", "link del r1").unwrap();
    eventually("the port is gone", || {
        bench.ask(&["show", "ports"]).contains("down")
    });
    let peer = bench.bed.sink.path();
    for arguments in [
        &format!("link add r1 type veth peer name b0 netns {peer}"),
        "address add 10.77.2.1/24 dev r1",
        "link set r1 up",
    ] {
        run(&bench.bed.router, "ip", arguments).unwrap();
    }
    for arguments in [
        "address add 10.77.2.2/24 dev b0",
        "link set b0 up",
        "route add default via 10.77.2.1",
    ] {
        run(&bench.bed.sink, "ip", arguments).unwrap();
    }
    run(&bench.bed.sink, "ethtool", "-K b0 tx off").unwrap();
    eventually("it forwards again", || bench.ping("-c 1 -W 1 10.77.2.2"));
    let (sent, came) = under_traffic(&bench, || thread::sleep(Duration::from_millis(300)));
    assert_eq!(
        sent, came,
        "each datagram came once: the kernel is kept away again"
    );
}

#[test]
fn a_bridge_is_unseen_and_fails_open() {
    let Some(mut bench) = Bench::new(CONFIG) else {
        return;
    };
    bench.stop("TERM");
    // Both ports join a kernel bridge, and the two hosts one network.
    for arguments in [
        "address flush dev r0",
        "address flush dev r1",
        "link add br0 type bridge",
        "link set r0 master br0",
        "link set r1 master br0",
        "link set br0 up",
    ] {
        run(&bench.bed.router, "ip", arguments).unwrap();
    }
    run(&bench.bed.source, "ip", "address add 10.77.9.1/24 dev a0").unwrap();
    run(&bench.bed.sink, "ip", "address add 10.77.9.2/24 dev b0").unwrap();
    let config = format!("mode = \"bridged\"\n{CONFIG}");
    bench.start(&config);
    eventually("the bridge passes ARP and ping", || {
        bench.ping("-c 1 -W 1 10.77.9.2")
    });
    let printed = run(&bench.bed.source, "ping", "-c 1 -W 10 10.77.9.2").unwrap();
    assert!(
        printed.contains("ttl=64"),
        "a bridge takes no hop: {printed}"
    );
    assert!(bench.ask(&["show", "queues"]).contains("fifo"));
    let ports = bench.ports();
    assert!(
        ports[1]["sent"]["packets"].as_u64().unwrap() >= 2,
        "{ports}"
    );
    bench.stop("KILL");
    eventually("the kernel's bridge takes over", || {
        bench.ping("-c 1 -W 1 10.77.9.2")
    });
}

#[test]
fn hostile_frames_end_with_a_reason() {
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let mut device = Testbed::open(&bench.bed.source, "a0").unwrap();
    // A valid datagram, then the same datagram truncated at every length and with every header byte corrupted.
    let good = weir_benches::live::frame(0);
    let mut frames = vec![good.clone()];
    frames.extend((14..good.len()).map(|len| good[..len].to_vec()));
    for at in 12..42 {
        let mut spoilt = good.clone();
        spoilt[at] ^= 0xff;
        frames.push(spoilt);
    }
    for frame in &frames {
        use weir_live::device::Device;
        device.transmit(&[frame]).unwrap();
    }
    eventually("the frames have their reasons", || {
        let drops = bench.ask(&["show", "drops"]);
        ["ip-checksum", "ip-total-length", "ip-version"]
            .iter()
            .all(|r| drops.contains(r))
    });
    assert_reachable(&bench);
}

/// A captured packet: the name of its port, its direction flags, length, bytes, and comment.
#[derive(Debug)]
struct Captured {
    port: String,
    outbound: bool,
    age: Duration,
    len: u32,
    bytes: Vec<u8>,
    comment: Option<String>,
}

/// The content of a capture, by an independent reader.
fn read_capture(bytes: &[u8]) -> Vec<Captured> {
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
    use pcap_file::pcapng::{Block, PcapNgReader};
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let (mut names, mut packets) = (Vec::new(), Vec::new());
    let mut reader = PcapNgReader::new(bytes).unwrap();
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                names.extend(interface.options.iter().find_map(|o| match o {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => packets.push(Captured {
                port: names[packet.interface_id as usize].clone(),
                outbound: packet.options.contains(&EnhancedPacketOption::Flags(2)),
                age: now.saturating_sub(packet.timestamp),
                len: packet.original_len,
                bytes: packet.data.to_vec(),
                comment: packet.options.iter().find_map(|o| match o {
                    EnhancedPacketOption::Comment(text) => Some(text.to_string()),
                    _ => None,
                }),
            }),
            _ => {}
        }
    }
    packets
}

#[test]
fn a_capture_shows_what_left_and_why_the_rest_did_not() {
    const QUEUE_FULL: &str = "dropped: queue-full (The queue was full.)";
    let Some(bench) = Bench::new(CONFIG) else {
        return;
    };
    let config = CONFIG
        .replace("50 Mbit", "5 Mbit")
        .replace("500 packets", "3 packets");
    let path = bench.configure(&config);
    assert!(
        bench
            .weir(&["apply", path.to_str().unwrap()])
            .status
            .success()
    );
    let socket = bench
        .bed
        .source
        .enter(|| UdpSocket::bind((SOURCE, 0)).unwrap());
    let socket = socket.unwrap();
    let send = |datagrams| {
        (0..datagrams).for_each(|_| {
            socket.send_to(&[0; 1000], (SINK, 5000)).unwrap();
        })
    };
    let capture = |arguments: &str| {
        let mut command = bench.command();
        command
            .arg("capture")
            .args(arguments.split_whitespace())
            .current_dir(&bench.folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let file = bench.folder.join("all.pcapng");

    let running = capture("--seconds 1 --out all.pcapng");
    eventually("the capture runs", || file.exists());
    let refused = capture("--seconds 1").wait_with_output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another capture is running"));
    send(100);
    assert!(!bench.ping("-c 1 -W 1 192.0.2.1"));
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("packets captured"));
    let packets = read_capture(&fs::read(file).unwrap());
    let datagrams: Vec<_> = packets.iter().filter(|p| p.len == 1042).collect();
    assert!(
        datagrams
            .iter()
            .all(|p| p.bytes.len() == 96 && p.age < Duration::from_secs(60))
    );
    let count = |port: &str, outbound, comment: Option<&str>, ttl| {
        let same = |p: &&&Captured| {
            p.port == port
                && p.outbound == outbound
                && p.comment.as_deref() == comment
                && p.bytes[22] == ttl
        };
        datagrams.iter().filter(same).count()
    };
    let left = count("wan", true, None, 63);
    let dropped = count("wan", true, Some(QUEUE_FULL), 63);
    assert_eq!(count("lan", false, None, 64), 100, "{datagrams:#?}");
    assert!(
        left >= 3 && dropped > 0 && left + dropped == 100,
        "{left} left, {dropped} dropped"
    );
    let no_route = "dropped: no-route (No route leads to the destination.)";
    assert!(
        packets
            .iter()
            .any(|p| p.port == "lan" && p.comment.as_deref() == Some(no_route))
    );

    // Only lost packets at one port, until five are captured, to standard output.
    let mut running = capture("--port wan --drops --packets 5 --seconds 600 --snap 34");
    eventually("five are captured", || {
        send(100);
        running.try_wait().unwrap().is_some()
    });
    let ended = running.wait_with_output().unwrap();
    let packets = read_capture(&ended.stdout);
    assert_eq!(packets.len(), 5);
    let lost = |p: &Captured| p.comment.as_deref() == Some(QUEUE_FULL) && p.bytes.len() == 34;
    assert!(packets.iter().all(lost), "{packets:#?}");

    // A killed client does not block other captures for long.
    let mut running = capture("--seconds 600 --out killed.pcapng");
    eventually("the capture runs", || {
        bench.folder.join("killed.pcapng").exists()
    });
    running.kill().unwrap();
    running.wait().unwrap();
    eventually("another capture may run", || {
        capture("--seconds 0.1")
            .wait_with_output()
            .unwrap()
            .status
            .success()
    });
    let wrong = capture("--port wann").wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("the ports are: lan, wan"));
}

/// The events that `weir observe --json` has printed.
fn events(output: &std::process::Output) -> Vec<Observed> {
    assert!(output.status.success(), "{output:?}");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn observe_says_who_is_held_back_and_when_that_ends() {
    let Some(bench) = Bench::new(&CONFIG.replace("50 Mbit", "5 Mbit")) else {
        return;
    };
    let bind = || UdpSocket::bind((SOURCE, 0)).unwrap();
    let socket = bench.bed.source.enter(bind).unwrap();
    let observe = |arguments: &str| {
        let mut command = bench.command();
        let all = format!("observe --json {arguments}");
        command.args(all.split_whitespace()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    assert!(bench.ping(ANSWERED)); // the neighbours are known
    let own = observe("--seconds 8 --event held-back --proto udp --port-number 5000");
    let other = observe("--seconds 8 --event held-back --port-number 5001");
    let drops = observe("--seconds 8 --event drop --port-number 5000");
    thread::sleep(Duration::from_millis(300)); // the observers begin
    // 8 Mbit/s through 5 Mbit/s for three seconds: the queue fills, and is empty 0.8 s after the end. A busy machine
    // does not change this, because late datagrams are sent at once.
    let (began, mut sent) = (Instant::now(), 0);
    while sent < 3000 {
        let due = began.elapsed().as_millis().min(3000);
        for _ in sent..due {
            socket.send_to(&[0; 1000], (SINK, 5000)).unwrap();
        }
        sent = due;
        thread::sleep(Duration::from_millis(1));
    }
    let [own, other, drops] =
        [own, other, drops].map(|child| events(&child.wait_with_output().unwrap()));
    let [begins, ends] = &own[..] else {
        panic!("{own:#?}")
    };
    for (event, phase) in [(begins, "begins"), (ends, "ends")] {
        let flow = event.flow.as_ref().unwrap();
        let found = (event.phase.as_deref(), flow.port.as_deref());
        assert_eq!(found, (Some(phase), Some("wan")), "{event:?}");
        let ports = (event.reason.as_deref(), flow.destination_port, event.flows);
        assert_eq!(ports, (None, Some(5000), Some(1)), "{event:?}");
        let why = event.why.as_deref().unwrap();
        assert!(why.contains("the queue of all packets"), "{why}");
    }
    assert!(begins.packets > 1 && begins.flow.as_ref().unwrap().waited_s > 0.001);
    assert!((1.0..6.0).contains(&ends.over_s), "{ends:?}");
    assert!(ends.unix_s > begins.unix_s);
    assert_eq!(other, []);
    assert!(drops.iter().all(|event| event.event == "drop"), "{drops:?}");

    let past = bench.ask(&["observe", "--event", "held-back", "--last", "9"]);
    for phase in ["wan out  held-back begins  10.77.1.2:", "held-back ends"] {
        assert!(past.contains(phase), "{past}");
    }
    let wrong = ["observe", "--event", "held-back", "--reason", "queue-full"];
    let refused = bench.ask(&wrong);
    assert!(refused.contains("leave out `reason`"), "{refused}");
}

#[test]
fn a_filter_of_observe_and_capture_keeps_its_own_packets_and_no_others() {
    let slow = CONFIG
        .replace("50 Mbit", "5 Mbit")
        .replace("500 packets", "3 packets");
    let Some(bench) = Bench::new(&slow) else {
        return;
    };
    let bind = || UdpSocket::bind((SOURCE, 0)).unwrap();
    let socket = bench.bed.source.enter(bind).unwrap();
    let start = |arguments: &str| {
        let mut command = bench.command();
        command
            .args(arguments.split_whitespace())
            .current_dir(&bench.folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    assert!(bench.ping(ANSWERED)); // the neighbours are known
    let file = bench.folder.join("own.pcapng");
    let captured =
        start("capture --host 10.77.2.0/24 --port-number 5001 --seconds 1.5 --out own.pcapng");
    let own = start(
        "observe --json --event drop --seconds 1.5 --dst 10.77.2.2 --proto udp --port-number 5001",
    );
    let unrouted = start("observe --json --seconds 1.5 --port lan --reason no-route");
    let nothing = start("observe --json --seconds 1.5 --src 10.77.1.99");
    eventually("the capture runs", || file.exists());
    thread::sleep(Duration::from_millis(300)); // the observers begin
    for _ in 0..100 {
        for port in [5000, 5001] {
            socket.send_to(&[0; 1000], (SINK, port)).unwrap();
        }
    }
    assert!(!bench.ping("-c 1 -W 1 192.0.2.1"));
    let [captured, own, unrouted, nothing] =
        [captured, own, unrouted, nothing].map(|child| child.wait_with_output().unwrap());
    assert!(captured.status.success(), "{captured:?}");

    let packets = read_capture(&fs::read(file).unwrap());
    let of_5001 = |p: &Captured| p.bytes[36..38] == 5001_u16.to_be_bytes();
    assert!(packets.iter().all(of_5001), "{packets:#?}");
    let count = |outbound, dropped: bool| {
        let same = |p: &&Captured| (p.outbound, p.comment.is_some()) == (outbound, dropped);
        packets.iter().filter(same).count() as u64
    };
    let (came, left, dropped) = (count(false, false), count(true, false), count(true, true));
    assert_eq!((came, left + dropped), (100, 100));
    assert!(dropped > 0 && left > 0);

    let own = events(&own);
    assert_eq!(own.iter().map(|event| event.packets).sum::<u64>(), dropped);
    for Observed { reason, flow, .. } in &own {
        let flow = flow.as_ref().unwrap();
        let where_to = (
            reason.as_deref(),
            flow.port.as_deref(),
            flow.direction.as_str(),
        );
        assert_eq!(where_to, (Some("queue-full"), Some("wan"), "out"));
        assert_eq!(
            (flow.destination_port, flow.protocol),
            (Some(5001), Some(17))
        );
    }
    let unrouted = events(&unrouted);
    assert_eq!(unrouted.len(), 1, "{unrouted:?}");
    let flow = unrouted[0].flow.as_ref().unwrap();
    assert_eq!(
        (flow.port.as_deref(), flow.destination.as_deref()),
        (Some("lan"), Some("192.0.2.1"))
    );
    assert_eq!(events(&nothing), []);

    // The history has every drop.
    let past = events(
        &start("observe --json --event drop --last 4096")
            .wait_with_output()
            .unwrap(),
    );
    for row in bench.get::<Value>("/v1/drops").rows() {
        let of = |event: &&Observed| event.reason.as_deref() == row.text("reason");
        let observed: u64 = past.iter().filter(of).map(|event| event.packets).sum();
        let is_loss = row.get("loss") == Some(&Value::Flag(true));
        let expected = if is_loss {
            row.whole("count.packets")
        } else {
            Some(0)
        };
        assert_eq!(Some(observed), expected, "{row:?}");
    }
    let printed = bench.ask(&["observe", "--last", "1", "--reason", "no-route"]);
    assert!(
        printed.contains("lan in  no-route  10.77.1.2 > 192.0.2.1 icmp"),
        "{printed}"
    );

    // A wrong filter is refused before any request is sent.
    for (wrong, expected) in [
        ("observe --reason queue-ful", "did you mean `queue-full`?"),
        ("capture --proto tcpp --out -", "did you mean `tcp`?"),
        ("observe --host 10.0.0.300", "is not an address or prefix"),
    ] {
        let refused = start(wrong).wait_with_output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains(expected),
            "{refused:?}"
        );
    }
    let refused = bench.ask(&["observe", "--port", "wann"]);
    assert!(refused.contains("the ports are: lan, wan"), "{refused}");

    // One frame of `weir top`, which needs a terminal otherwise.
    let frame = bench.ask(&["top", "--once", "--port", "wan"]);
    for part in [
        "PORT",
        "Last minute of wan",
        "Backlog at wan by source",
        "queue-full",
    ] {
        assert!(frame.contains(part), "{part}:\n{frame}");
    }
    let refused = bench.weir(&["top"]);
    assert_eq!(refused.status.code(), Some(2));
}
