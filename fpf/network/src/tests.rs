use super::*;
use weir_base::setting::Scalar;
use weir_config::Document;
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::Function;

/// Figure 1 of the paper: IP would route from C via D to A.
const FIGURE_1: &str = r#"
[domain.c]
[domain.b]
lid_bytes = 2
[domain.a]
[domain.d]
[element.c1]
domain = "c"
[element.b1]
domain = "b"
[element.b2]
domain = "b"
[element.d1]
domain = "d"
[element.a1]
domain = "a"
[link.c-b]
from = "c1:b"
to = "b1:c"
from_address = "02:00:00:00:0c:0b"
to_address = "02:00:00:00:0b:0c"
[link.b-b]
from = "b1:in"
to = "b2:in.7"
from_address = "02:00:00:00:0b:01"
to_address = "02:00:00:00:0b:02"
[link.b-a]
from = "b2:a"
to = "a1:b"
tunnel = true
from_address = "192.0.2.1"
to_address = "192.0.2.2"
[link.c-d]
from = "c1:d"
to = "d1:c"
from_address = "02:00:00:00:0c:0d"
to_address = "02:00:00:00:0d:0c"
cost = 5
[link.d-a]
from = "d1:a"
to = "a1:d"
from_address = "2001:db8::d"
to_address = "2001:db8::a"
[path.video]
from = "c1"
to = "a"
through = "c b a"
destination = "198.51.100.0/24"
protocol = "udp"
destination_ports = "5000-5999"
timeout = "1 min"
[path.both]
from = "c1"
to = "a"
paths = 2
disjoint = "links"
spread = "packet"
version = "6"
"#;

fn parsed(text: &str) -> Result<NetworkPlan, Vec<String>> {
    let document = Document::parse("network.toml", text).unwrap();
    let texts = |faults: Vec<Fault>| faults.iter().map(Fault::to_string).collect();
    NetworkPlan::check(document.changes()).map_err(texts)
}

fn values(changes: &[Change]) -> BTreeMap<String, String> {
    let value = |change: &Change| match &change.value {
        Some(Scalar::Text(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    changes
        .iter()
        .map(|c| (c.path.to_string(), value(c)))
        .collect()
}

#[test]
fn a_file_becomes_the_configuration_of_each_element() {
    let plan = parsed(FIGURE_1).unwrap();
    let mut paths = Paths::new(plan.topology.clone()).unwrap();
    let flows = plan.flows(&mut paths).unwrap();
    let of = |name: &str| {
        let fe = plan.topology.fe_named(name).unwrap();
        values(&plan.configuration(&paths, fe, &flows).unwrap())
    };
    let names = |flow: &Flow| {
        let name = |fe: &_| plan.topology.fe(*fe).name.clone();
        let of_route = |route: &Route| route.fes.iter().map(name).collect::<Vec<_>>().join(" ");
        flow.routes.iter().map(of_route).collect::<Vec<_>>()
    };
    assert_eq!(names(&flows[0]), ["c1 b1 b2 a1", "c1 d1 a1"]);
    assert_eq!(names(&flows[1]), ["c1 b1 b2 a1"]);
    let vector = hex(&flows[1].routes[0].vector);
    assert_eq!(vector.len(), 6, "a LID of c, and one of b with two bytes");

    let c1 = of("c1");
    let is = |element: &BTreeMap<String, String>, path: &str, expected: &str| {
        assert_eq!(
            element.get(path).map(String::as_str),
            Some(expected),
            "{path}: {element:#?}"
        );
    };
    is(&c1, "fpf.encapsulation.video.vectors", &vector);
    is(
        &c1,
        "fpf.encapsulation.video.destination_ports",
        "5000-5999",
    );
    is(&c1, "fpf.encapsulation.both.spread", "packet");
    let rule = format!("fpf.rule.lid-{}", &vector[..2]);
    is(&c1, &format!("{rule}.output"), "b");
    is(&c1, &format!("{rule}.neighbour"), "02:00:00:00:0b:0c");
    is(&c1, &format!("{rule}.leaves_domain"), "Some(Flag(true))");

    let (b1, b2) = (of("b1"), of("b2"));
    let rule = format!("fpf.rule.lid-{}", &vector[2..]);
    is(&b1, &format!("{rule}.output"), "in");
    assert!(!b1.contains_key(&format!("{rule}.leaves_domain")));
    is(&b2, &format!("{rule}.output"), "a");
    assert!(!b2.contains_key(&format!("{rule}.neighbour")), "a tunnel");
    is(&b2, "fpf.interface.a.remote", "192.0.2.2");
    is(&b2, "fpf.interface.\"in.7\".vlan", "7");

    // Without a tunnel, an IP address belongs to a port.
    let d1 = of("d1");
    let to_a = d1
        .iter()
        .find(|(path, value)| path.ends_with(".output") && *value == "a");
    let rule = to_a.unwrap().0.trim_end_matches(".output");
    is(&d1, &format!("{rule}.neighbour"), "2001:db8::a");
    is(&d1, "fpf.interface.a.port", "a");
}

#[test]
fn a_link_that_fails_moves_the_paths_that_are_not_named() {
    let plan = parsed(&FIGURE_1.replace("paths = 2\ndisjoint = \"links\"\n", "")).unwrap();
    let mut paths = Paths::new(plan.topology.clone()).unwrap();
    let cheapest = plan.flows(&mut paths).unwrap()[0].routes[0].cost;
    let mut paths = Paths::new(plan.topology.clone()).unwrap();
    paths.handle_link(plan.links["c-b"], false);
    let faults = plan.flows(&mut paths).unwrap_err();
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].to_string().starts_with("path.video.through: "),
        "{}",
        faults[0]
    );
    let to_a = plan.topology.domain_named("a").unwrap();
    let from = plan.topology.fe_named("c1").unwrap();
    let other = paths.cheapest(from, weir_paths::Target::Domain(to_a), None, 1);
    assert_eq!((cheapest, other.unwrap()[0].cost), (3, 6));
}

#[test]
fn faults_name_their_place() {
    for (from, to, expected) in [
        (
            "domain = \"d\"",
            "domain = \"e\"",
            "element.d1.domain: there is no domain `e`",
        ),
        (
            "from = \"c1:b\"",
            "from = \"c1\"",
            "link.c-b.from: `from` is \"c1\", but must be ELEMENT:PORT",
        ),
        (
            "to = \"b1:c\"",
            "to = \"b9:c\"",
            "link.c-b.to: there is no forwarding element `b9`",
        ),
        (
            "02:00:00:00:0c:0b",
            "2:0",
            "link.c-b.from_address: \"2:0\" is neither an IP address like 192.0.2.1 nor a MAC address",
        ),
        (
            "from_address = \"192.0.2.1\"",
            "from_address = \"02:00:00:00:0b:0a\"",
            "link.b-a.from_address: \"02:00:00:00:0b:0a\" is not the IP address of an end of the tunnel",
        ),
        ("cost = 5", "cost = 0", "link.c-d.cost: "),
        ("[domain.a]", "[domains.a]", "did you mean `domain`"),
    ] {
        let faults = parsed(&FIGURE_1.replacen(from, to, 1)).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{expected}: {faults:?}"
        );
    }
    for (from, to, expected) in [
        (
            "through = \"c b a\"",
            "through = \"c a\"",
            "path.video.through: ",
        ),
        (
            "through = \"c b a\"",
            "through = \"c b a\"\npaths = 2",
            "`through` names a single path",
        ),
        (
            "to = \"a\"\npaths = 2",
            "to = \"x\"\npaths = 2",
            "path.both.to: there is no domain `x`",
        ),
        ("paths = 2", "paths = 3", "path.both: "),
    ] {
        let plan = parsed(&FIGURE_1.replacen(from, to, 1)).unwrap();
        let mut paths = Paths::new(plan.topology.clone()).unwrap();
        let faults = plan.flows(&mut paths).unwrap_err();
        assert!(
            faults[0].to_string().contains(expected),
            "{expected}: {}",
            faults[0]
        );
    }
    let plan = parsed(&FIGURE_1.replacen("protocol = \"udp\"\n", "", 1)).unwrap();
    let mut paths = Paths::new(plan.topology.clone()).unwrap();
    let flows = plan.flows(&mut paths).unwrap();
    let c1 = plan.topology.fe_named("c1").unwrap();
    let faults = plan.configuration(&paths, c1, &flows).unwrap_err();
    assert!(faults[0].to_string().contains("at `c1`: "), "{}", faults[0]);
}

#[test]
fn a_rule_that_processes_packets_says_how_and_where_they_go() {
    let plan = parsed(FIGURE_1).unwrap();
    let mut paths = Paths::new(plan.topology.clone()).unwrap();
    let c1 = plan.topology.fe_named("c1").unwrap();
    let (lid, _) = paths.process(c1, 7).unwrap();
    let of = |processors: &Processors| sections(&paths, c1, processors, &[]);
    let error = of(&Processors::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a rule uses processor 7, which is unknown"
    );
    let leaves = [&[1, 0, 2][..], &[3], &[1, 0, 2]].map(|lids| Vector::new(lids).unwrap());
    let encoder = Processor {
        function: Function::XorEncode,
        leaves: leaves.into(),
    };
    let changes = values(&of(&[(7, encoder)].into()).unwrap());
    let rule = format!("fpf.rule.lid-{:02x}", lid.value);
    assert_eq!(changes[&format!("{rule}.action")], "xor-encode");
    assert_eq!(changes[&format!("{rule}.leaves")], "010002 03 010002");
}
