//! A routing suite of `weir ce` routes for a `weir fe`. The suite is the kernel of a network namespace with the TAPs
//! of the FE: `ip route` has the part of the daemons.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use weir_benches::testbed::run;
use weir_forces_lab::network::keeper::Keeper;
use weir_northbound::client;

use crate::common::{self, eventually, eventually_or};
use crate::exceptions::{CE, Elements};

/// The words of what `ip route` prints, without the numbers of next-hop objects.
pub(crate) fn without_objects(routes: &str) -> String {
    let mut words = routes.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "nhid" => drop(words.next()),
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// A namespace with a name, which vanishes with this value.
pub(crate) struct Named(String);

impl Named {
    /// `None` where namespaces with names are not permitted.
    pub(crate) fn new(what: &str) -> Option<Self> {
        let named = Self(format!("weir-{what}-{}", std::process::id()));
        match named.ip_of_host(&["netns", "add", &named.0]) {
            Ok(_) => Some(named),
            Err(error) => {
                eprintln!("skipped: no namespace with a name ({error})");
                None
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    fn ip_of_host(&self, arguments: &[&str]) -> io::Result<()> {
        let output = Command::new("ip").args(arguments).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )),
        }
    }

    /// `ip` in the namespace, which must succeed.
    pub(crate) fn ip(&self, command: &str) -> String {
        let arguments = ["-n", &self.0]
            .into_iter()
            .chain(command.split_whitespace());
        let output = Command::new("ip").args(arguments).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The CE's file, with a router.
    pub(crate) fn config(&self) -> String {
        format!(
            "{CE}[router.north]\nfe = \"edge1\"\nnamespace = \"{}\"\n",
            self.0
        )
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = self.ip_of_host(&["netns", "delete", &self.0]);
    }
}

/// A folder that vanishes with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("weir-manager-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Prefix, next router and state of each route of the FE, with an entry for each of several next hops.
pub(crate) fn routes(elements: &Elements) -> Vec<String> {
    let routes = client::get::<Value>(&elements.socket(), "/v1/service/route").unwrap();
    let text = |value: &Value| match value.as_str() {
        None | Some("") => "-".to_owned(),
        Some(text) => text.to_owned(),
    };
    let line = |route: &Value| {
        let via = ["via", "drops"].map(|name| &route[name]);
        let via = via
            .into_iter()
            .find(|via| via.is_string())
            .map_or("-".to_owned(), text);
        let [prefix, port, origin, state] =
            ["prefix", "port", "origin", "state"].map(|name| text(&route[name]));
        let weight = route["weight"].as_u64().map(|n| format!("*{n}"));
        format!(
            "{prefix} {via}{} {port} {origin} {state}",
            weight.unwrap_or_default()
        )
    };
    routes.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn an_fe_has_the_routes_of_its_suite() {
    let Some(suite) = Named::new("suite") else {
        return;
    };
    let place = format!("-n {}", suite.0);
    let Some(elements) = Elements::with(&suite.config(), &[], &place) else {
        return;
    };
    let connected = [
        "10.77.1.0/24 - lan router installed",
        "10.77.2.0/24 - wan router installed",
    ];
    eventually("the FE has the connected routes", || {
        routes(&elements) == connected
    });

    // Through a next hop of a connected network: the answer comes back from an address behind the sink.
    run(
        &elements.hosts.bed.sink,
        "ip",
        "address add 203.0.113.1/32 dev b0",
    )
    .unwrap();
    suite.ip("route add 203.0.113.0/24 via 10.77.2.2 proto ospf metric 20");
    let far = "203.0.113.0/24 10.77.2.2 wan router installed".to_owned();
    eventually("the FE has the route", || routes(&elements).contains(&far));
    let ping = || elements.ping("-c 1 -W 1 203.0.113.1");
    eventually("the FE forwards by it", || {
        ping().contains("bytes from 203.0.113.1")
    });

    // Several next hops with their weights, and prefixes whose packets are dropped, in the FE's kernel and in its
    // forwarding plane.
    suite.ip("route add blackhole 198.51.100.128/26 proto bgp");
    suite.ip("route add prohibit 198.51.100.192/26 proto bgp");
    let two = "nexthop via 10.77.2.2 weight 3 nexthop via 10.77.1.2";
    suite.ip(&format!("route add 192.0.2.0/24 proto static {two}"));
    let kernel = |route: &str| {
        let shown = run(
            &elements.hosts.bed.router,
            "ip",
            &format!("route show {route} proto 119"),
        );
        without_objects(&shown.unwrap())
    };
    let both = "192.0.2.0/24 metric 50 nexthop via 10.77.1.2 dev r0 weight 1 nexthop via 10.77.2.2 dev r1 weight 3";
    let has_in_kernel = |route: &str, expected: &str| {
        let what = format!("the FE's kernel has {expected:?}");
        eventually_or(&what, || kernel(route), || kernel(route) == expected);
    };
    has_in_kernel("192.0.2.0/24", both);
    has_in_kernel("198.51.100.128/26", "blackhole 198.51.100.128/26 metric 50");
    has_in_kernel("198.51.100.192/26", "prohibit 198.51.100.192/26 metric 50");
    let plane = |prefix: &str| {
        let routes = client::get::<Value>(&elements.socket(), "/v1/fe/edge1/v1/routes").unwrap();
        let all = routes.as_array().unwrap();
        all.iter()
            .find(|route| route["prefix"] == prefix)
            .cloned()
            .unwrap_or_default()
    };
    eventually("packets are spread over the next hops", || {
        let hops = &plane("192.0.2.0/24")["next_hops"];
        (0..2).all(|n| hops[n]["weight"] == 1 + 2 * n) && hops[1]["gateway"] == "10.77.2.2"
    });
    let actions =
        ["198.51.100.128/26", "198.51.100.192/26"].map(|prefix| plane(prefix)["action"].clone());
    assert_eq!(actions, ["blackhole", "prohibit"]);
    let listed = [
        "192.0.2.0/24 10.77.1.2*1 lan router installed",
        "192.0.2.0/24 10.77.2.2*3 wan router installed",
        "198.51.100.128/26 blackhole - router installed",
        "198.51.100.192/26 prohibit - router installed",
    ];
    eventually("the CE lists them", || {
        let all = routes(&elements);
        listed
            .iter()
            .all(|line| all.iter().any(|found| found == line))
    });
    // Without an interface, the FE's kernel has the rest of the route.
    elements.hosts.ip("link set r0 down");
    has_in_kernel(
        "192.0.2.0/24",
        "192.0.2.0/24 via 10.77.2.2 dev r1 metric 50",
    );
    elements.hosts.ip("link set r0 up");
    has_in_kernel("192.0.2.0/24", both);
    // A next hop is withdrawn.
    suite.ip("route replace 192.0.2.0/24 proto static via 10.77.1.2");
    has_in_kernel(
        "192.0.2.0/24",
        "192.0.2.0/24 via 10.77.1.2 dev r0 metric 50",
    );
    suite.ip("route del prohibit 198.51.100.192/26 proto bgp");
    has_in_kernel("198.51.100.192/26", "");

    // The FE does not get routes of other protocols, nor next hops that it does not have, which the table counts.
    suite.ip("route add 198.51.100.0/25 via 10.77.2.2");
    suite.ip("link add other type veth peer name other1");
    suite.ip("link set other up");
    suite.ip("link set other1 up");
    assert_eq!(elements.ask("routers")[0]["differing"], 0);
    suite.ip("route add 198.18.0.0/24 proto static nexthop via 10.77.2.2 nexthop dev other");
    let has_first = |prefix: &str| {
        let all = routes(&elements);
        all.iter().any(|line| line.starts_with(prefix))
    };
    eventually("the FE has the next hop that it can have", || {
        has_first("198.18.0.0/24 10.77.2.2 wan")
    });
    assert!(!has_first("198.51.100.0/25"), "{:?}", routes(&elements));
    let why = "198.18.0.0/24: some next hops through no TAP of the FE, or of another family";
    eventually("the table has the reason", || {
        let row = &elements.ask("routers")[0];
        row["differing"] == 1 && row["first_differing"] == why
    });

    // An operator's route of a lower metric goes before that of the suite.
    let mut add = Command::new(common::weir());
    add.args([
        "route",
        "add",
        "--fe",
        "edge1",
        "203.0.113.0/24",
        "dev",
        "lan",
        "--socket",
    ]);
    assert!(add.arg(elements.socket()).status().unwrap().success());
    let both = [
        "203.0.113.0/24 - lan operator installed",
        "203.0.113.0/24 10.77.2.2 wan router standby",
    ];
    let has = |line: &&str| routes(&elements).iter().any(|found| found == line);
    assert!(both.iter().all(has), "{:?}", routes(&elements));

    // The suite withdraws.
    suite.ip("route del 203.0.113.0/24 proto ospf");
    suite.ip("route del 192.0.2.0/24 proto static");
    suite.ip("route del 198.18.0.0/24 proto static");
    suite.ip("route del blackhole 198.51.100.128/26 proto bgp");
    eventually("the suite's routes are deleted", || {
        routes(&elements).len() == connected.len() + 1
    });
    has_in_kernel("198.51.100.128/26", "");
    eventually("no route differs", || {
        elements.ask("routers")[0]["differing"] == 0
    });
}

/// Routes arrive, and all of them stay after `kill -9` of the CE, whose TAPs keep their carriers: the service
/// manager keeps their files. What the suite changes meanwhile, the FE gets afterwards.
#[test]
fn taps_and_routes_outlive_the_control_element() {
    const ROUTES: usize = 2000;
    let Some(suite) = Named::new("kept") else {
        return;
    };
    let place = format!("-n {}", suite.0);
    let folder = Folder::new();
    let keeper = Keeper::start(&folder.0).unwrap();
    let notify = ("NOTIFY_SOCKET", keeper.socket().to_str().unwrap());
    let Some(mut elements) = Elements::with(&suite.config(), &[notify], &place) else {
        return;
    };
    eventually("the keeper has the TAPs", || {
        keeper.names() == ["edge1.lan", "edge1.wan"]
    });
    let lines = |verb: &str, from: usize, to: usize| -> String {
        let line = |n: usize| {
            format!(
                "route {verb} 100.{}.{}.0/24 via 10.77.2.2 proto bgp\n",
                n >> 8,
                n & 255
            )
        };
        (from..to).map(line).collect()
    };
    let batch = |text: String| {
        let file = folder.0.join("routes");
        std::fs::write(&file, text).unwrap();
        suite.ip(&format!("-batch {}", file.display()));
    };
    batch(lines("add", 0, ROUTES));
    eventually("the FE has all routes", || {
        let all = routes(&elements);
        all.len() == ROUTES + 2 && all.iter().all(|line| line.ends_with(" installed"))
    });

    let changes = |tap: &str| {
        let shown = suite.ip(&format!("-d -s -s -j link show dev {tap}"));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert!(
            shown[0]["flags"].to_string().contains("LOWER_UP"),
            "{shown}"
        );
        shown[0]["stats64"]["tx"]["carrier_changes"]
            .as_u64()
            .unwrap()
    };
    let before = ["edge1.lan", "edge1.wan"].map(changes);
    elements.processes[0].kill().unwrap();
    elements.processes[0].wait().unwrap();
    batch(lines("del", 0, 10));
    batch(lines("add", ROUTES, ROUTES + 10));
    let answer = elements.ping("-c 1 -W 10 10.77.2.2");
    assert!(answer.contains("bytes from 10.77.2.2"), "{answer}");

    let mut command = keeper.command(&common::weir());
    let log = std::fs::File::create(folder.0.join("log")).unwrap();
    let config = elements.hosts.configure("ce", &suite.config());
    command.arg("ce").arg(config);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let started = elements.hosts.spawner.spawn(&elements.control, command);
    elements.processes.push(started.unwrap());
    let log = || std::fs::read_to_string(folder.0.join("log")).unwrap();
    eventually_or("the FE is in sync again", log, || {
        elements.ask("fes")[0]["state"] == "in sync"
    });
    eventually("the FE has what has changed meanwhile", || {
        let all = routes(&elements);
        let has = |prefix: &str| all.iter().any(|line| line.starts_with(prefix));
        all.len() == ROUTES + 2
            && !has("100.0.9.0/24 ")
            && has(&format!("100.{}.9.0/24 ", ROUTES >> 8))
    });
    let answer = elements.ping("-c 1 -W 10 10.77.1.8");
    assert!(answer.contains("bytes from 10.77.1.8"), "{answer}");
    assert_eq!(["edge1.lan", "edge1.wan"].map(changes), before);
}
