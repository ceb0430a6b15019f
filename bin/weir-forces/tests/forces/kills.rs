//! Deaths of a CE, of an FE and of the link between them, under traffic and during configuration changes: the FE
//! continues to forward, and afterwards it has the desired state.

use std::thread;
use std::time::{Duration, Instant};

use super::stage::{Stage, Wire};
use crate::common::{Router, eventually};
use crate::stream::{Count, Stream};

/// Rounds of each kind of death: WEIR_FORCES_ROUNDS, or two.
fn rounds() -> u64 {
    let given = std::env::var("WEIR_FORCES_ROUNDS");
    given.map_or(2, |text| text.parse().unwrap())
}

/// Packets per second, and their size. Their rate stays below every rate that a test sets.
const STREAM: (u32, usize) = (1000, 250);

/// The rates that a round sets, in Mbit/s; each differs from the rates of the round before.
fn rates(round: u64) -> [u64; 2] {
    [20 + 2 * (round % 30), 21 + 2 * (round % 30)]
}

/// Sets a rate while `death` happens, and returns the rates that the FE may have afterwards.
fn change_amid(stage: &Stage, [old, new]: [u64; 2], death: impl FnOnce()) -> Vec<u64> {
    let is_set = thread::scope(|scope| {
        let change = scope.spawn(|| stage.set_rate(new));
        death();
        change.join().unwrap()
    });
    match is_set {
        true => vec![new],
        false => vec![old, new], // the answer may be lost after the change is durable
    }
}

/// Waits until the FE has one of these rates, and the CE knows it.
fn settled(stage: &Stage, rates: &[u64]) {
    stage.in_sync();
    let rate = stage.rate();
    assert!(rates.contains(&rate), "{rate} is none of {rates:?}");
    let get = ["get", "edge1:port.wan.rate"];
    let shown = stage.ask(&get, "ce");
    assert_eq!(shown.trim(), format!("{rate} Mbit"));
}

fn begin(stage: &Stage) -> (Router, Router) {
    let (ce, fe) = (stage.start_ce(), stage.start_fe());
    stage.in_sync();
    assert_eq!(stage.rate(), 50);
    (ce, fe)
}

/// Changes the rate in each round, with the death that `round` causes during the change, while a stream of packets
/// passes the FE. `round` returns the rates that the FE may have afterwards.
fn under_traffic(
    stage: &Stage,
    what: &str,
    mut round: impl FnMut(u64, [u64; 2]) -> Vec<u64>,
) -> Count {
    let stream = Stream::new(&stage.bed, STREAM.0, STREAM.1);
    let began = Instant::now();
    for number in 0..rounds() {
        let rates = rates(number);
        assert!(stage.set_rate(rates[0]));
        let may_be = round(number, rates);
        settled(stage, &may_be);
    }
    let count = stream.end();
    let seconds = began.elapsed().as_secs_f64();
    println!("{} {what} in {seconds:.1} s: {count:?}", rounds());
    count
}

/// A different moment for each round.
fn moment(round: u64) -> Duration {
    Duration::from_millis(round * 7 % 40)
}

fn a_ce_dies(wire: Wire) {
    let Some(stage) = Stage::new(wire) else {
        return;
    };
    let (mut ce, _fe) = begin(&stage);
    let what = format!("deaths of the CE over {wire:?}");
    let count = under_traffic(&stage, &what, |round, rates| {
        let may_be = change_amid(&stage, rates, || {
            thread::sleep(moment(round));
            ce.kill();
        });
        ce = stage.start_ce();
        may_be
    });
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");
}

#[test]
fn a_ce_dies_and_no_packet_is_lost_quic() {
    a_ce_dies(Wire::Quic);
}

#[test]
fn a_ce_dies_and_no_packet_is_lost_tcp_udp() {
    a_ce_dies(Wire::Tls);
}

#[test]
fn a_link_is_lost_and_no_packet_is() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let _both = begin(&stage);
    let count = under_traffic(&stage, "losses of the link", |_, rates| {
        let may_be = change_amid(&stage, rates, || stage.ip("link set c0 down"));
        eventually("the CE misses its FE", || stage.state("edge1") == "away");
        stage.ip("link set c0 up");
        may_be
    });
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");
}

#[test]
fn an_fe_dies_and_gets_its_state_again() {
    let Some(stage) = Stage::new(Wire::Quic) else {
        return;
    };
    let (_ce, mut fe) = begin(&stage);
    let what = "deaths of the FE, while the kernel forwards,";
    let count = under_traffic(&stage, what, |round, rates| {
        let may_be = change_amid(&stage, rates, || {
            thread::sleep(moment(round));
            fe.kill();
        });
        fe = stage.start_fe();
        // The CE may still consider the dead FE connected.
        eventually("the rate is back", || may_be.contains(&stage.rate()));
        may_be
    });
    assert!(count.lost < count.sent / 2, "{count:?}");
}
