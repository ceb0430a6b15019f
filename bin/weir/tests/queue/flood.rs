//! Guards under as many packets a second as this machine carries.

use std::thread;
use std::time::Duration;

use weir_benches::testbed::run;

use super::{CONFIG, RULES, await_queues, await_queues_again, bench, sent};
use crate::common::{Bench, kill};
use crate::gateway::rules;
use crate::lifecycle::stream::{Stream, count};

/// Rates of the flood, in packets per second, from the highest on.
const RATES: [u32; 5] = [50_000, 32_000, 20_000, 12_000, 4_000];
/// Length of a frame, in bytes.
const BYTES: usize = 100;
/// The longest time in which a guard may lose packets.
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// Time for which the flood runs before a guard is tested, and after it.
const CALM: Duration = Duration::from_millis(500);
const RELOADS: usize = 100;

/// A rate that leaves the queue empty: the guards lose packets, not the queue.
fn config(megabits: usize) -> String {
    CONFIG.replace("20 Mbit", &format!("{megabits} Mbit"))
}

/// Counts a flood during some work: packets lost and doubled, and lost packets that were sent later than
/// [`PAUSE_MAX`] after the work began.
fn flood(bench: &Bench, per_second: u32, what: &str, work: impl FnOnce()) -> [u32; 3] {
    let stream = Stream::flood(&bench.bed, per_second, BYTES);
    thread::sleep(CALM);
    let began = stream.now();
    work();
    thread::sleep(CALM);
    let (sent, arrivals) = stream.arrivals();
    let total = count(&sent, &arrivals);
    let late = sent.partition_point(|at| *at < began + PAUSE_MAX);
    let arrivals: Vec<_> = arrivals
        .into_iter()
        .filter(|arrival| arrival.number as usize >= late)
        .map(|mut arrival| {
            arrival.number -= late as u32;
            arrival
        })
        .collect();
    let late = count(&sent[late..], &arrivals);
    let rate = f64::from(total.sent) / sent.last().unwrap().as_secs_f64();
    println!(
        "{what}: {total:?}, {} lost late, {rate:.0} per second",
        late.lost
    );
    [total.lost, total.duplicated, late.lost]
}

#[test]
fn a_flush_of_the_ruleset_and_a_removal_of_the_table_change_nothing() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.start(&config(90));
    await_queues(&bench);
    let counts = flood(&bench, 4000, "flush", || take_rules_away(&bench));
    assert_eq!(counts, [0; 3]);
    rules(&bench, RULES);
    await_queues_again(&bench, "flush");
}

/// Removes the rules of the machine, and tries to remove the router's.
fn take_rules_away(bench: &Bench) {
    let nft = |arguments: &str| run(&bench.bed.router, "nft", arguments);
    nft("flush ruleset").unwrap();
    let tables = nft("list tables").unwrap();
    let own: Vec<_> = tables.lines().collect();
    assert!(own.len() >= 2, "the claim and the rules: {tables}");
    for table in own {
        assert!(nft(&format!("delete {table}")).is_err(), "{table}");
    }
}

#[test]
fn guards_hold_under_a_flood_of_packets() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.start(&config(900));
    await_queues(&bench);
    let carried = |rate: &u32| flood(&bench, *rate, "nothing", || thread::sleep(CALM))[0] == 0;
    let rate = RATES.into_iter().find(carried).unwrap();
    let counts = flood(&bench, rate, "reloads", || {
        for n in 0..RELOADS {
            let path = bench.configure(&config(900 - n));
            let applied = bench.weir(&["apply", path.to_str().unwrap()]);
            assert!(applied.status.success(), "{applied:?}");
        }
    });
    assert_eq!(counts, [0; 3]);
    let counts = flood(&bench, rate, "flush and removal", || {
        take_rules_away(&bench)
    });
    assert_eq!(counts, [0; 3]);
    rules(&bench, RULES);
    let router = bench.router.as_ref().unwrap();
    let processes = [router.process.id(), router.child()];
    let [_, doubled, late] = flood(&bench, rate, "both stopped", || {
        for process in processes {
            kill(process, "STOP");
        }
        thread::sleep(2 * PAUSE_MAX);
    });
    assert_eq!([doubled, late], [0; 2]);
    let [_, doubled, late] = flood(&bench, rate, "both continue", || {
        for process in processes {
            kill(process, "CONT");
        }
        thread::sleep(2 * PAUSE_MAX);
    });
    assert_eq!([doubled, late], [0; 2]);
    let [_, doubled, late] = flood(&bench, rate, "killed", || {
        kill(bench.router.as_ref().unwrap().child(), "KILL");
        thread::sleep(2 * PAUSE_MAX);
    });
    assert_eq!([doubled, late], [0; 2]);
    bench.eventually("the next process forwards", || sent(&bench, "up") > 0);
}
