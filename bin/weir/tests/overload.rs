//! More frames than the router can receive in time: the ring's loss is counted and shown for each port.

use crate::common::{Bench, UNPACED};
use weir_benches::live;
use weir_benches::testbed::Testbed;
use weir_live::device::Device;

/// Frames of the flood; a ring has slightly more than 4096 slots.
const FLOOD: u64 = 10_000;

#[test]
fn what_a_full_ring_lost_is_shown_at_its_port() {
    // A single process without a watchdog, which would kill it while it is stopped.
    let config = format!("watchdog = \"0 s\"\n{UNPACED}");
    let Some(bench) = Bench::new(&config) else {
        return;
    };
    let mut device = Testbed::open(&bench.bed.source, "a0").unwrap();
    let frame = live::frame(0);
    let counts = || {
        let ports = bench.ports();
        [0, 1].map(|n: usize| {
            let received = ports[n]["received"]["packets"].as_u64().unwrap();
            (received, ports[n]["missed"].as_u64().unwrap())
        })
    };
    let before = counts();
    // A stopped router cannot empty its ring.
    bench.signal("STOP");
    for _ in 0..FLOOD / 50 {
        assert_eq!(device.transmit(&[&frame[..]; 50]).unwrap(), 50);
    }
    bench.signal("CONT");
    bench.eventually("every frame is in the books", || {
        let (received, missed) = counts()[0];
        received + missed >= before[0].0 + FLOOD
    });
    let [(received, missed), (_, elsewhere)] = counts();
    assert!(received - before[0].0 >= 4096, "{received}");
    assert!((1..=FLOOD - 4096).contains(&missed), "{missed}");
    assert_eq!(elsewhere, 0, "the other port lost nothing");
    // The table agrees with the JSON.
    let table = bench.ask(&["show", "ports"]);
    let totals = table.lines().skip_while(|line| !line.contains("RING LOST"));
    let port = bench.ports()[0]["port"].as_str().unwrap().to_owned();
    let mut rows = totals.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|cells| cells.first() == Some(&&port[..]));
    let missed = missed.to_string();
    let is_missed = |cell: &&str| cell.replace(',', "") == missed; // people read thousands
    assert!(row.is_some_and(|row| row.iter().any(is_missed)), "{table}");
}
