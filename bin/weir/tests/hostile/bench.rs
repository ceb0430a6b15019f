//! Helpers for tests of a router between two hosts on a hostile network.

use std::fs;

use weir_benches::testbed::run;
use weir_live::namespace::Namespace;

use crate::common::{Bench, Router};

/// The ports between the two hosts.
pub(crate) const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
[port.wan]
interface = \"r1\"
";

/// Seconds of processor time that weir's main thread, the control side, has used.
pub(crate) fn control_seconds(bench: &Bench) -> f64 {
    let Some(id) = bench.router.as_ref().map(Router::child) else {
        return 0.0;
    };
    let stat = fs::read_to_string(format!("/proc/{id}/task/{id}/stat")).unwrap();
    // The 12th and 13th fields after the name, which may contain spaces; in hundredths.
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks = |n: usize| fields[n].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// Runs `ip` on a host; it must succeed.
pub(crate) fn ip(host: &Namespace, arguments: &str) -> String {
    run(host, "ip", arguments).unwrap()
}

/// Sets a value of a host's `/proc/sys/net`.
pub(crate) fn sysctl(host: &Namespace, name: &str, value: &str) {
    let path = format!("/proc/sys/net/{name}");
    host.enter(|| fs::write(&path, value)).unwrap().unwrap();
}

/// Prints a table of docs/hostile-network.md, for `cargo xtask hostile`.
pub(crate) fn table(name: &str, print: impl FnOnce()) {
    println!("\n<!-- table {name} -->");
    print();
    println!("<!-- end of table {name} -->");
}
