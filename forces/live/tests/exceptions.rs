//! A router and a control element that acts for its ports, without a transport between them: packets that the router
//! cannot forward go to the control element, whose kernel has TAPs for the ports.
//!
//! ```text
//!  source a0 ---- r0 router r1 ---- b0 sink          the router's kernel has no addresses
//!                  |         |
//!              edge.lan   edge.wan                    the control element's kernel has them
//! ```
//!
//! Linux is the oracle: the same pings get the same answers as before, when the router's kernel forwarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::{Bytes, Rate, Span};
use weir_benches::testbed::{MACS, Testbed, run, udp_frame};
use weir_ce::exception::{Answers, Outcome, RemotePort, Stats, to_port};
use weir_discipline::Spec;
use weir_discipline::channel::token_bucket::Limits;
use weir_fe::exception::{injection, redirect};
use weir_live::clock;
use weir_live::device::Device;
use weir_live::device::tap::Tap;
use weir_live::namespace::Namespace;
use weir_live::worker::{Handle, Worker};
use weir_path::exception::{Injection, MESSAGE_OVERHEAD, Policy};
use weir_protocol::wire::redirect::Redirect;

const LAN: u32 = 1;
const WAN: u32 = 2;

fn policy() -> Policy {
    Policy {
        addresses: ["10.77.1.1", "10.77.2.1"]
            .map(|a| a.parse().unwrap())
            .into(),
        neighbours: true,
        hop_limit: true,
        no_route: true,
        too_big: true,
        ..Policy::default()
    }
}

/// The ports from the control element's point of view.
fn ports() -> Vec<RemotePort> {
    let port = |instance, mac, address: &str| RemotePort {
        instance,
        mac,
        addresses: vec![address.parse().unwrap()],
        tap: true,
    };
    vec![
        port(LAN, MACS[1], "10.77.1.1"),
        port(WAN, MACS[2], "10.77.2.1"),
    ]
}

fn name_of(instance: u32) -> Option<String> {
    match instance {
        LAN => Some("r0".to_owned()),
        WAN => Some("r1".to_owned()),
        _ => None,
    }
}

fn instance_of(name: &str) -> u32 {
    if name == "r0" { LAN } else { WAN }
}

/// The control element, running on its own thread until it is stopped.
struct ControlElement {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Stats>,
}

impl ControlElement {
    /// Returns when its TAP devices have their addresses.
    fn start(router: Handle) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::spawn(move || {
            let namespace = Namespace::new().unwrap();
            let work = || {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                let runtime = builder.enable_all().build().unwrap();
                runtime.block_on(act(&router, &stopped, &ready))
            };
            namespace.enter(work).unwrap()
        });
        is_ready.recv().unwrap();
        Self { stop, thread }
    }

    fn stop(self) -> Stats {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn act(router: &Handle, stopped: &AtomicBool, ready: &Sender<()>) -> Stats {
    let ports = ports();
    let tap = |name, mac, address| {
        let tap = Tap::open(name, mac, 1500, None).unwrap();
        let here = Namespace::of_this_thread().unwrap();
        run(&here, "ip", &format!("addr add {address}/24 dev {name}")).unwrap();
        tap
    };
    let taps = [
        tap("edge.lan", MACS[1], "10.77.1.1"),
        tap("edge.wan", MACS[2], "10.77.2.1"),
    ];
    ready.send(()).unwrap();
    let mut answers = Answers::new((1, 2));
    let mut buffers = [vec![0; 2000], vec![0; 2000]];
    let deadline = Instant::now() + Duration::from_secs(80);
    while !stopped.load(Ordering::Relaxed) && Instant::now() < deadline {
        let [lan, wan] = &mut buffers;
        let mut out: Vec<Injection> = Vec::new();
        let mut send = |redirect: &Redirect| out.push(injection(redirect, name_of).unwrap());
        tokio::select! {
            len = taps[0].receive(lan) => send(&to_port(LAN, lan[..len.unwrap()].to_vec()).unwrap()),
            len = taps[1].receive(wan) => send(&to_port(WAN, wan[..len.unwrap()].to_vec()).unwrap()),
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                let taken = router.call(|worker| worker.plane.take_exceptions()).unwrap();
                for exception in taken {
                    let redirect = redirect(&exception, instance_of(&exception.port)).unwrap();
                    match answers.handle(&redirect, &ports, clock::now()) {
                        Outcome::Kernel { port, frame } => {
                            let _taken = taps[port as usize - 1].send(&frame).unwrap();
                        }
                        Outcome::Answer(answer) => send(&answer),
                        Outcome::Dropped(_) => {}
                    }
                }
            }
        }
        let inject = move |worker: &mut Worker| {
            for packet in &out {
                let _booked = worker.plane.inject(packet, clock::now());
            }
        };
        router.call(inject).unwrap();
    }
    answers.stats()
}

/// The router, whose port `r1` has an MTU of 1400.
fn worker(bed: &Testbed, policy: Policy) -> Worker {
    let spec = Spec::check("fifo", []).unwrap();
    let mut worker = bed.worker(spec, None).unwrap();
    let mut tables = worker.plane.tables().clone();
    for interface in tables.interfaces.values_mut() {
        if interface.name == "r1" {
            interface.mtu = 1400;
        }
    }
    worker.set_tables(Arc::new(tables));
    worker.plane.set_exception_policy(policy, clock::now());
    worker
}

/// The answers to the source's pings, without times. Each ping may take this number of seconds.
fn answers(bed: &Testbed, seconds: u32) -> Vec<String> {
    let pings = [
        "-t 1 10.77.2.2",
        "192.0.2.1",
        "-M do -s 1450 10.77.2.2",
        "10.77.1.1",
        "10.77.2.1",
    ];
    let answer = |ping: &&str| {
        let said = run(&bed.source, "ping", &format!("-c 1 -W {seconds} {ping}"));
        let said = said.unwrap_or_else(|error| error.to_string());
        let mut lines = said.lines();
        let line = lines.find(|line| line.starts_with("From ") || line.contains("bytes from"));
        let line = line.unwrap_or(&said);
        line.split(" time=").next().unwrap_or_default().to_owned()
    };
    pings.iter().map(answer).collect()
}

/// The hosts; `None` if namespaces are not permitted.
fn bed() -> Option<Testbed> {
    if Namespace::new().is_err() {
        println!("skipped: no network namespaces here");
        return None;
    }
    Some(Testbed::new().unwrap())
}

/// Removes all addresses from the router's kernel.
fn strip(bed: &Testbed) {
    bed.kernel_forwards(false).unwrap();
    for device in ["r0", "r1"] {
        run(&bed.router, "ip", &format!("addr flush dev {device}")).unwrap();
    }
    // The source has to resolve 10.77.1.1 again, and to forget the MTU.
    run(&bed.source, "ip", "neighbour del 10.77.1.1 dev a0").unwrap();
    run(&bed.source, "ip", "route flush cache").unwrap();
}

#[test]
fn the_control_element_answers_as_the_kernel_did() {
    let Some(bed) = bed() else { return };
    bed.kernel_forwards(true).unwrap();
    run(&bed.router, "ip", "link set r1 mtu 1400").unwrap();
    let by_kernel = answers(&bed, 10);
    strip(&bed);
    let silent = answers(&bed, 1);
    assert!(
        silent.iter().all(|line| !line.contains("bytes from")),
        "{silent:?}"
    );

    let (router, thread) = worker(&bed, policy()).start().unwrap();
    let control = ControlElement::start(router.clone());
    let by_control = answers(&bed, 10);
    assert_eq!(by_control, by_kernel);
    let more = run(&bed.source, "ping", "-c 20 -i 0.05 -W 10 10.77.1.1").unwrap();
    assert!(more.contains(" 0% packet loss"), "{more}");

    let stats = control.stop();
    assert_eq!((stats.icmp, stats.malformed, stats.unknown_port), (3, 0, 0));
    assert!(stats.kernel >= 22, "{stats:?}");
    router.call(Worker::stop).unwrap();
    let worker = thread.join().unwrap();
    assert_eq!(worker.plane.exception_stats().refused.packets, 0);
}

/// Under a flood of this rate: frames that were sent and that left `r1`, and exceptions that the control side got and
/// that arrived.
fn flood(bed: &Testbed, exceptions_a_ms: usize, limits: Limits) -> (u64, u64, u64, u64) {
    const MILLIS: u64 = 1000;
    // One class: errors would leave half of the burst to others.
    let policy = Policy {
        limits,
        classes: false,
        ..policy()
    };
    let (router, thread) = worker(bed, policy).start().unwrap();
    let mut source = Testbed::open(&bed.source, "a0").unwrap();
    let good = udp_frame(1, 200);
    let mut bad = udp_frame(2, 200);
    bad[22] = 1;
    weir_wire::ipv4::View::new_unchecked(&mut bad[14..]).fill_checksum();
    let mut burst: Vec<&[u8]> = vec![&bad; exceptions_a_ms];
    burst.extend(vec![&good[..]; 5]);
    let (began, mut taken, mut sent) = (Instant::now(), 0, 0);
    for n in 0..MILLIS {
        let mut rest = &burst[..];
        while !rest.is_empty() {
            let took = source.transmit(rest).unwrap();
            rest = &rest[took..];
        }
        sent += 5;
        if n % 2 == 0 {
            let exceptions = router.call(|worker| worker.plane.take_exceptions());
            taken += exceptions.unwrap().len() as u64;
        }
        let next = began + Duration::from_millis(n + 1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    thread::sleep(Duration::from_millis(50));
    let rest = router.call(|worker| {
        let ports = worker.plane.ports().iter();
        let far = ports.filter(|port| port.name == "r1");
        let left: u64 = far.map(|port| port.port.sent().packets).sum();
        (left, worker.plane.take_exceptions().len() as u64)
    });
    let (left, last) = rest.unwrap();
    taken += last;
    router.call(Worker::stop).unwrap();
    let stats = thread.join().unwrap().plane.exception_stats();
    assert_eq!(stats.redirected.packets, taken);
    (sent, left, taken, stats.gate.offered.packets)
}

#[test]
fn a_flood_of_exceptions_disturbs_neither_forwarding_nor_the_control_element() {
    let Some(bed) = bed() else { return };
    strip(&bed);
    let price = 200 + MESSAGE_OVERHEAD;
    // A hundred exceptions in a second, after ten at once.
    let limits = Limits {
        flow_control: true,
        committed: Rate::from_bps(100 * price * 8),
        excess: Rate::from_bps(0),
        burst: Bytes(10 * price),
    };
    let (sent, calm, ..) = flood(&bed, 0, limits.clone());
    assert_eq!(calm, sent);
    let began = Instant::now();
    let (sent, left, taken, came) = flood(&bed, 100, limits);
    let seconds = Span::from_nanos(began.elapsed().as_nanos() as u64).as_secs_f64();
    println!(
        "{came} exceptions came, {taken} reached the control side; {left} of {sent} forwarded"
    );
    assert!(came >= 100_000, "{came} exceptions are no flood");
    assert!(
        (taken as f64) <= 10.0 + 100.0 * seconds + 1.0,
        "{taken} in {seconds} s"
    );
    assert!(taken >= 100, "{taken}");
    assert_eq!(left, sent, "forwarded during the flood");
}
