//! The cases: the peers' programs with their options, and our equivalent scenarios.

use super::read::{self, Measure};

/// The programs that we compare our results with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    /// C++ programs that use the library, one for each scenario, with options.
    Ns3,
    /// Tcl scripts, with positional arguments.
    Ns2,
    /// The queue disciplines of Debian's kernel, in a guest.
    Linux,
}

impl Peer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ns3 => "ns-3",
            Self::Ns2 => "ns-2",
            Self::Linux => "Linux",
        }
    }
}

/// One row of settings that both simulators run.
pub(super) struct Case {
    /// Program of the peer, and `scenarios/peers/<scenario>.toml`.
    pub(super) scenario: &'static str,
    pub(super) name: String,
    pub(super) peer: Peer,
    /// Simulated time of both.
    pub(super) seconds: f64,
    /// Options of an ns-3 program without time and seed, all arguments of an ns-2 script, or a guest's variables.
    pub(super) arguments: Vec<String>,
    /// Fields that identify a line of an earlier run of the peer: name and value.
    pub(super) known_by: Vec<(&'static str, String)>,
    pub(super) variant: &'static str,
    /// Our `--set` options.
    pub(super) set: Vec<String>,
    pub(super) measures: Vec<Measure>,
}

/// The scenarios that can be named on the command line, in the order of the tables.
pub(super) const SCENARIOS: [&str; 6] = ["forces", "sdbm", "lrufq", "fan", "bneck", LINUX];
/// The scenario that runs in a guest, without ns-3 and ns-2.
pub(super) const LINUX: &str = "linux";

/// Every case of a scenario. `seconds` replaces the simulated time where it is free.
pub(super) fn of(scenario: &str, seconds: Option<f64>) -> Vec<Case> {
    match scenario {
        "forces" => forces(),
        "sdbm" => sdbm(seconds.unwrap_or(200.0)),
        "lrufq" => lrufq(seconds.unwrap_or(30.0)),
        "fan" => fan(seconds.unwrap_or(60.0)),
        LINUX => linux(),
        _ => bneck(seconds.unwrap_or(60.0)),
    }
}

/// The cases whose processor time is compared. They have no measures.
pub(super) fn of_time() -> Vec<Case> {
    let gigabit = || {
        set(&[
            ("warm_up", "\"5 s\""),
            ("link.bottleneck.rate", "\"1 Gbit\""),
            ("link.bottleneck.discipline.rate", "\"1 Gbit\""),
            ("link.elastic.rate", "\"100 Mbit\""),
            ("link.elastic_sink.rate", "\"100 Mbit\""),
            ("link.stream.rate", "\"100 Mbit\""),
            ("link.stream_sink.rate", "\"100 Mbit\""),
            ("host.elastic.count", "4000"),
            ("host.elastic_sink.count", "4000"),
        ])
    };
    let timed = |scenario, name: &str, peer, seconds, arguments: &[&str], variant| Case {
        scenario,
        name: name.to_owned(),
        peer,
        seconds,
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        known_by: Vec::new(),
        variant,
        set: Vec::new(),
        measures: Vec::new(),
    };
    use Peer::{Ns2, Ns3};
    let (red, fast) = ("RED, 100 Mbit/s", "RED, 1 Gbit/s");
    let long = ["--queue=red", "--mbps=1000", "--warmup=5"];
    let load = ["--queue=red", "--load=2.0", "--routing=hash"];
    let floods = |queue| [queue, "--udpFlows=2"];
    let mut cases = vec![
        timed("fan", red, Ns3, 30.0, &["--queue=red"], "red"),
        timed("fan", fast, Ns3, 10.0, &long, "red"),
        timed("fan", red, Ns2, 60.0, &["100", "RED", "60"], "red"),
        timed("fan", fast, Ns2, 10.0, &["1000", "RED", "10"], "red"),
    ];
    for fast in cases.iter_mut().filter(|case| case.seconds == 10.0) {
        fast.set = gigabit();
    }
    let droptail = floods("--queue=droptail");
    let fq_codel = floods("--queue=fqcodel");
    let (two, fair) = ("drop-tail", "FqCoDel");
    cases.push(timed("lrufq", two, Ns3, 30.0, &droptail, "droptail"));
    cases.push(timed("lrufq", fair, Ns3, 30.0, &fq_codel, "fq_codel"));
    cases.push(timed("sdbm", "RED, load 2.0", Ns3, 200.0, &load, "red"));
    cases
}

fn forces() -> Vec<Case> {
    let queues = [
        ("drop-tail", "droptail", "droptail"),
        ("RED", "red", "red"),
        ("FqCoDel", "fqcodel", "fq_codel"),
        ("DRR", "drr", "drr"),
        ("DRR by source", "drrsrc", "drr by source"),
    ];
    let mut cases = Vec::new();
    for constant in ["0", "1"] {
        let mode = ["rising", "constant"][usize::from(constant == "1")];
        for (queue, theirs, ours) in queues {
            let mut case = ns3("forces", format!("{queue}, {mode}"), 6.0, theirs, ours);
            case.arguments.push(format!("--constant={constant}"));
            case.known_by.push(("constant", constant.to_owned()));
            if constant == "1" {
                case.set = set(&[
                    ("traffic.control.rate", "\"4 Mbit\""),
                    ("traffic.redirect.rate", "\"6 Mbit\""),
                ]);
            }
            case.measures = read::forces_ns3();
            cases.push(case);
        }
        for queue in ["DropTail", "DRR"] {
            cases.push(forces_ns2(queue, constant, mode));
        }
    }
    cases
}

/// In ns-2 packets have no framing, UDP's 1000 bytes are the size of the packet, and gaps vary by half. Its DRR holds
/// 25 000 bytes for all sources together, and hashes their addresses.
fn forces_ns2(queue: &str, constant: &str, mode: &str) -> Case {
    let words = [queue, constant, "Newreno", "1048"];
    let mut settings = set(&[
        ("link.egress.framing", "\"0 B\""),
        ("link.ce.framing", "\"0 B\""),
        ("link.source.framing", "\"0 B\""),
        ("link.attacker.framing", "\"0 B\""),
        ("traffic.redirect.payload", "\"972 B\""),
        ("traffic.attack.payload", "\"972 B\""),
        ("traffic.attack.rate", "\"1.944*t - 0.972 Mbit\""),
        ("traffic.control.spacing", "\"jittered 0.5\""),
        ("traffic.redirect.spacing", "\"jittered 0.5\""),
        ("traffic.attack.spacing", "\"jittered 0.5\""),
        ("traffic.control.initial_rto", "\"3 s\""),
    ]);
    settings.extend(if constant == "1" {
        set(&[
            ("traffic.control.rate", "\"4 Mbit\""),
            ("traffic.redirect.rate", "\"5.832 Mbit\""),
        ])
    } else {
        set(&[("traffic.redirect.rate", "\"0.486*t + 1.944 Mbit\"")])
    });
    if queue == "DRR" {
        settings.extend(set(&[(
            "link.egress.discipline",
            "{ kind = \"drr\", limit = \"25 packets\", key = \"source\", quantum = \"256 B\" }",
        )]));
    }
    Case {
        scenario: "forces",
        name: format!("{queue}, {mode}"),
        peer: Peer::Ns2,
        seconds: 6.0,
        arguments: words.iter().map(|word| (*word).to_owned()).collect(),
        known_by: Vec::new(),
        variant: "droptail",
        set: settings,
        measures: read::forces_ns2(),
    }
}

fn sdbm(seconds: f64) -> Vec<Case> {
    let queues = [
        ("RED", "red", "red", "1.0"),
        ("RED", "red", "red", "1.4"),
        ("RED", "red", "red", "1.8"),
        ("RED", "red", "red", "2.0"),
        ("drop-tail", "droptail", "droptail", "2.0"),
        ("FqCoDel", "fqcodel", "fq_codel", "2.0"),
    ];
    let case = |(queue, theirs, ours, load): (&str, &str, &'static str, &str)| {
        let mut case = ns3(
            "sdbm",
            format!("{queue}, load {load}"),
            seconds,
            theirs,
            ours,
        );
        case.arguments.push(format!("--load={load}"));
        case.arguments.push("--routing=hash".to_owned());
        case.known_by.push(("load", load.to_owned()));
        case.set = loads(load.parse().unwrap_or(2.0));
        case.measures = read::sdbm();
        case
    };
    queues.into_iter().map(case).collect()
}

/// The rates of every flow at a load; the rates of the file are for load 2.
fn loads(load: f64) -> Vec<String> {
    let rate = |name: String, mbit: f64| format!("traffic.{name}.rate=\"{} Mbit\"", mbit * load);
    if load == 2.0 {
        return Vec::new();
    }
    let tcp = (3..=14).map(|host| rate(format!("tcp{host}"), 0.48));
    let udp = [7, 8, 12, 13].map(|host| rate(format!("udp{host}"), 0.486));
    tcp.chain(udp).collect()
}

fn lrufq(seconds: f64) -> Vec<Case> {
    let queues = [
        ("drop-tail", "droptail", "droptail", "2"),
        ("drop-tail", "droptail", "droptail", "4"),
        ("RED", "red", "red", "2"),
        ("FqCoDel", "fqcodel", "fq_codel", "2"),
        ("DRR", "drr", "drr", "2"),
    ];
    let case = |(queue, theirs, ours, floods): (&str, &str, &'static str, &str)| {
        let name = format!("{queue}, {floods} floods");
        let mut case = ns3("lrufq", name, seconds, theirs, ours);
        case.arguments.push(format!("--udpFlows={floods}"));
        case.known_by.push(("udp_flows", floods.to_owned()));
        case.set = set(&[
            ("host.flood.count", floods),
            ("host.flood_sink.count", floods),
        ]);
        case.measures = read::lrufq();
        case
    };
    queues.into_iter().map(case).collect()
}

fn fan(seconds: f64) -> Vec<Case> {
    let mut cases = Vec::new();
    for (queue, theirs, ours) in [
        ("RED", "red", "red"),
        ("drop-tail", "droptail", "droptail"),
        ("FqCoDel", "fqcodel", "fq_codel"),
    ] {
        let mut case = ns3("fan", queue.to_owned(), seconds, theirs, ours);
        case.arguments.push("--mbps=100".to_owned());
        case.known_by.push(("mbps", "100".to_owned()));
        case.measures = read::fan_ns3();
        cases.push(case);
    }
    for (queue, ours) in [("RED", "red"), ("DropTail", "droptail")] {
        let links = [
            "bottleneck",
            "elastic",
            "elastic_sink",
            "stream",
            "stream_sink",
        ];
        let framing = links.map(|link| format!("link.{link}.framing=\"0 B\""));
        cases.push(Case {
            scenario: "fan",
            name: queue.to_owned(),
            peer: Peer::Ns2,
            seconds,
            arguments: vec!["100".to_owned(), queue.to_owned(), seconds.to_string()],
            known_by: Vec::new(),
            variant: ours,
            set: framing.into(),
            measures: read::fan_ns2(),
        });
    }
    cases
}

fn bneck(seconds: f64) -> Vec<Case> {
    let case = |(agent, ours): (&str, &'static str)| {
        let duration = seconds.to_string();
        let words = ["20", "100", "300", &duration, agent];
        Case {
            scenario: "bneck",
            name: format!("drop-tail, {agent}"),
            peer: Peer::Ns2,
            seconds,
            arguments: words.iter().map(|word| (*word).to_owned()).collect(),
            known_by: Vec::new(),
            variant: ours,
            set: Vec::new(),
            measures: read::bneck(),
        }
    };
    [("Sack1", "sack"), ("Newreno", "newreno")].map(case).into()
}

/// Both queues under four loads of UDP and two of TCP. A load is the words of the three senders; the scenario's
/// variants have the same loads.
fn linux() -> Vec<Case> {
    let hosts = [
        "udp 10.0.1.1:9001 --source=10.0.0.1 --flows=3 --rate=5Mbit --payload=1000",
        "udp 10.0.1.2:9002 --source=10.0.0.2 --rate=10Mbit --payload=1000",
        "udp 10.0.1.3:9003 --source=10.0.0.3 --rate=200kbit --payload=1000",
    ];
    let victim = [
        "udp 10.0.1.1:9001 --source=10.0.0.1 --flows=4 --rate=5Mbit --payload=1000",
        "udp 10.0.1.1:9002 --source=10.0.0.2 --rate=10Mbit --payload=1000",
        "udp 10.0.1.2:9003 --source=10.0.0.3 --rate=10Mbit --payload=1000",
    ];
    let flood = [
        "udp 10.0.1.1:9001 --source=10.0.0.1 --rate=30Mbit --payload=1000",
        "udp 10.0.1.2:9002 --source=10.0.0.2 --rate=4Mbit --payload=1000",
        hosts[2],
    ];
    let short = [
        "udp 10.0.1.1:9001 --source=10.0.0.1 --flows=3 --rate=5Mbit --payload=200",
        hosts[1],
        hosts[2],
    ];
    let tcp = ["tcp 10.0.1.1:9001 --flows=4", "tcp 10.0.1.2:9002", hosts[2]];
    let case = |queue: &str, load: [&str; 3], variant| {
        let [one, two, three] = load;
        Case {
            scenario: LINUX,
            name: String::from(variant),
            peer: Peer::Linux,
            seconds: 15.0,
            arguments: vec![
                format!("QUEUE={queue}"),
                format!("ONE={one}"),
                format!("TWO={two}"),
                format!("THREE={three}"),
            ],
            known_by: Vec::new(),
            variant,
            set: Vec::new(),
            measures: read::linux(),
        }
    };
    let tcp = |queue: &str, ecn: u8, variant| {
        let mut case = case(queue, tcp, variant);
        let more = [String::from("RTT=20ms"), format!("ECN={ecn}")];
        case.arguments.extend(more);
        case.measures = read::linux_tcp();
        case
    };
    vec![
        case("cake", hosts, "cake hosts"),
        case("fq_codel", hosts, "fq_codel hosts"),
        case("cake", victim, "cake victim"),
        case("fq_codel", victim, "fq_codel victim"),
        case("cake", flood, "cake flood"),
        case("fq_codel", flood, "fq_codel flood"),
        case("cake", short, "cake short"),
        case("fq_codel", short, "fq_codel short"),
        tcp("cake", 0, "cake tcp"),
        tcp("fq_codel", 0, "fq_codel tcp"),
        tcp("cake", 1, "cake ecn"),
        tcp("fq_codel", 1, "fq_codel ecn"),
    ]
}

fn ns3(
    scenario: &'static str,
    name: String,
    seconds: f64,
    theirs: &str,
    ours: &'static str,
) -> Case {
    Case {
        scenario,
        name,
        peer: Peer::Ns3,
        seconds,
        arguments: vec![format!("--queue={theirs}")],
        known_by: vec![("queue", theirs.to_owned()), ("sim_s", seconds.to_string())],
        variant: ours,
        set: Vec::new(),
        measures: Vec::new(),
    }
}

fn set(pairs: &[(&str, &str)]) -> Vec<String> {
    let pair = |(path, value): &(&str, &str)| format!("{path}={value}");
    pairs.iter().map(pair).collect()
}
