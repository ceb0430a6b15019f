//! BIRD 2 routes for a `weir fe` in the place of FRR: OSPF in both families, with a neighbour behind the FE.

use std::io;
use std::process::{Command, Stdio};

use weir_benches::testbed::run;
use weir_live::namespace::Namespace;

use crate::common::{eventually, eventually_or};
use crate::exceptions::{Elements, Process};
use crate::router::{Named, routes};

/// Starts BIRD for a router whose only link is `device`. `networks`: the networks that it announces in OSPF, by family.
fn start(
    (elements, namespace): (&Elements, &Namespace),
    id: &str,
    device: &str,
    networks: [&str; 2],
) -> io::Result<Process> {
    let mut text = format!("router id {id};\nprotocol device {{ scan time 1; }}\n");
    for (version, family, networks) in [("v2", "ipv4", networks[0]), ("v3", "ipv6", networks[1])] {
        text += &format!(
            "protocol kernel {{ {family} {{ import none; export all; }}; }}\n\
             protocol ospf {version} {{ {family} {{ import all; export none; }}; area 0 {{ {networks}\n\
             interface \"{device}\" {{ type ptp; hello 1; dead 4; }}; }}; }}\n"
        );
    }
    let file = |kind: &str| elements.hosts.folder.join(format!("{id}.{kind}"));
    std::fs::write(file("conf"), text)?;
    let mut command = Command::new("bird");
    command.arg("-f").arg("-c").arg(file("conf"));
    command.arg("-s").arg(file("socket"));
    command.arg("-P").arg(file("pid"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(file("log"))?);
    let spawned = elements.hosts.spawner.spawn(namespace, command);
    spawned.map(Process)
}

#[test]
fn bird_routes_for_an_fe() {
    if Command::new("bird").arg("--version").output().is_err() {
        return println!("skipped: BIRD is not installed (apt install bird2)");
    }
    let Some(suite) = Named::new("bird") else {
        return;
    };
    let place = format!("-n {}", suite.name());
    let Some(elements) = Elements::with(&suite.config(), &[], &place) else {
        return;
    };
    let sink = &elements.hosts.bed.sink;
    run(sink, "ip", "address add 203.0.113.1/32 dev b0").unwrap();
    let namespace = Namespace::named(suite.name()).unwrap();
    let own = start((&elements, &namespace), "9.9.9.1", "edge1.wan", [""; 2]).unwrap();
    let networks = ["stubnet 203.0.113.0/24;", "stubnet 2001:db8:99::/64;"];
    let neighbour = start((&elements, sink), "9.9.9.2", "b0", networks).unwrap();

    let has = |begin: &str, end: &str| {
        let all = routes(&elements);
        let mut all = all.iter();
        all.any(|line| line.starts_with(begin) && line.ends_with(end))
    };
    let [v4, v6] = ["203.0.113.0/24 10.77.2.2 ", "2001:db8:99::/64 fe80::"];
    let end = " wan router installed";
    eventually_or(
        "the FE has the routes of both families",
        || routes(&elements).join("\n"),
        || has(v4, end) && has(v6, end),
    );
    eventually("the FE forwards by them", || {
        elements
            .ping("-c 1 -W 1 203.0.113.1")
            .contains("bytes from 203.0.113.1")
    });

    // The neighbour falls silent.
    drop(neighbour);
    eventually("BIRD withdraws the routes", || !has(v4, "") && !has(v6, ""));
    drop(own);
}
