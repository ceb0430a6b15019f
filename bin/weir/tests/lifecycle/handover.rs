//! Handover from the kernel to the router and back, packet by packet.

use std::thread;
use std::time::{Duration, Instant};

use super::common::{Hosts, eventually};
use super::stream::{Arrival, CONFIG, Count, Stream, count};

/// Each packet arrived once, except one for which a handover fell between its tap and the guard's decision. That
/// interval is about a microsecond: a handover of this stream falls into one about once in a few hundred times.
fn assert_parted(count: &Count, handovers: u32) {
    assert!(count.lost + count.duplicated <= handovers, "{count:?}");
}

/// Arrivals after `signalled` of packets that were sent before.
fn drained_after(signalled: Duration, arrivals: &[Arrival]) -> impl Iterator<Item = Duration> {
    let drained = arrivals
        .iter()
        .filter(move |a| a.sent < signalled && a.at > signalled);
    drained.map(|arrival| arrival.at)
}

#[test]
fn a_start_duplicates_nothing() {
    let Some(hosts) = Hosts::new() else { return };
    let stream = Stream::begin(&hosts);
    let _router = hosts.start("a", CONFIG);
    eventually("the router sends", || {
        let ports = hosts.ask(&["show", "ports", "--json"], "a");
        let ports: serde_json::Value = serde_json::from_str(&ports).unwrap();
        ports[1]["sent"]["packets"].as_u64() > Some(400)
    });
    let count = stream.end();
    assert_parted(&count, 1);
}

#[test]
fn a_stop_loses_nothing_and_duplicates_nothing() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", CONFIG);
    let stream = Stream::begin(&hosts);
    router.signal("TERM");
    assert!(router.ended().success(), "{}", router.log());
    assert_parted(&stream.end(), 1);
}

#[test]
fn queues_drain_at_their_rate_before_the_end() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", &CONFIG.replace("50 Mbit", "5 Mbit"));
    // At once, and fewer packets than the queue holds: 1.8 s at the rate.
    let stream = Stream::of(&hosts.bed, 1_000_000, 1250, 900);
    let signalled = stream.now();
    router.signal("TERM");
    assert!(router.ended().success(), "{}", router.log());
    let (sent, arrivals) = stream.arrivals();
    assert_parted(&count(&sent, &arrivals), 1);
    let drained: Vec<_> = drained_after(signalled, &arrivals).collect();
    assert!(drained.len() > 150, "{} drained", drained.len());
    let last = drained.iter().max().unwrap();
    // A packet takes two milliseconds, and a late step may catch up by a burst.
    let took = Duration::from_millis(2 * (drained.len() as u64 - 20));
    assert!(
        *last - signalled >= took * 9 / 10,
        "they left at the rate: {took:?}"
    );
}

#[test]
fn a_second_signal_ends_the_drain() {
    let Some(hosts) = Hosts::new() else { return };
    let mut router = hosts.start("a", &CONFIG.replace("50 Mbit", "1 Mbit"));
    let stream = Stream::begin(&hosts);
    eventually("the queue is full", || dropped(&hosts) > 0);
    router.signal("TERM");
    eventually("it drains", || router.log().contains("queues drain"));
    let signalled = stream.now();
    router.signal("TERM");
    assert!(router.ended().success(), "{}", router.log());
    let (sent, arrivals) = stream.arrivals();
    // Fewer than leave in two of the three seconds of a drain, at ten milliseconds each.
    assert!(drained_after(signalled, &arrivals).count() < 200);
    let count = count(&sent, &arrivals);
    assert!(count.lost > 200 && count.duplicated == 0, "{count:?}");
}

#[test]
fn ports_come_and_go_without_loss() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.ip("link add x0 type veth peer name x1");
    hosts.ip("link set x0 up");
    let _router = hosts.start("a", CONFIG);
    let stream = Stream::begin(&hosts);
    let apply = |config: &str| {
        let path = hosts.configure("a", config);
        let applied = hosts.weir(&["apply", path.to_str().unwrap()], "a");
        assert!(applied.status.success(), "{applied:?}");
    };
    // One more handover. Then the port that receives the stream is removed and added again under another name; the
    // kernel forwards in between.
    apply(&format!(
        "{CONFIG}[port.more]\ninterface = \"x0\"\n\
         discipline = {{ kind = \"fifo\", limit = \"9 packets\" }}\n"
    ));
    let without_lan = &CONFIG[CONFIG.find("[port.wan]").unwrap()..];
    apply(without_lan);
    apply(&CONFIG.replace("port.lan", "port.inside"));
    assert!(hosts.ask(&["show", "ports"], "a").contains("inside"));
    assert_parted(&stream.end(), 2);
}

#[test]
fn a_configuration_that_is_applied_while_a_port_drains_loses_nothing_uncounted() {
    let Some(hosts) = Hosts::new() else { return };
    let slow = CONFIG
        .replace("50 Mbit", "10 Mbit")
        .replace("1000 packets", "900 packets");
    let _router = hosts.start("a", &slow);
    // Three times the rate: the queue is full after half a second, and takes 0.9 s to drain.
    let stream = Stream::new(&hosts.bed, 3000, 1250);
    eventually("packets are dropped", || dropped(&hosts) > 0);
    let apply = |name: &str, config: &str| {
        let path = hosts.configure(name, config);
        // The configurations differ only in the ports: the socket is the router's.
        let text = std::fs::read_to_string(&path).unwrap();
        let socket = |name| hosts.socket(name).display().to_string();
        std::fs::write(&path, text.replace(&socket(name), &socket("a"))).unwrap();
        hosts.weir(&["apply", path.to_str().unwrap()], "a")
    };
    let lan = &slow[..slow.find("[port.wan]").unwrap()];
    let began = Instant::now();
    thread::scope(|scope| {
        let goes = scope.spawn(|| (apply("goes", lan), began.elapsed()));
        thread::sleep(Duration::from_millis(300));
        // The port is still draining. Set another limit for the port that stays, and restore the removed port.
        let back = apply("back", &slow.replace("900 packets", "800 packets"));
        let (gone, took) = goes.join().unwrap();
        assert!(gone.status.success(), "{gone:?}");
        assert!(back.status.success(), "{back:?}");
        assert!(
            took > Duration::from_millis(500),
            "it left the queue at its rate, and the other configuration came meanwhile: {took:?}"
        );
    });
    let ports = hosts.ask(&["show", "ports"], "a");
    assert!(ports.contains("wan"), "{ports}");
    let stream = stream.end();
    // The port is removed and added again, with a handover each.
    let drops = u32::try_from(dropped(&hosts)).unwrap();
    assert!(stream.duplicated <= 2, "{stream:?}");
    assert!(
        stream.lost.abs_diff(drops) <= 2,
        "{stream:?}, and {drops} are counted"
    );
}

/// Packets that the router has dropped.
fn dropped(hosts: &Hosts) -> u64 {
    let drops = hosts.ask(&["show", "drops", "--json"], "a");
    let drops: serde_json::Value = serde_json::from_str(&drops).unwrap();
    let losses = drops.as_array().unwrap().iter();
    let losses = losses.filter(|row| row["loss"] == true);
    losses
        .map(|row| row["count"]["packets"].as_u64().unwrap())
        .sum()
}
