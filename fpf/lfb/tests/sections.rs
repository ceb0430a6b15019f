//! The sections of FPF in a router's configuration: their compiled form, their faults, and their changes.

use std::sync::Arc;

use weir_base::setting::Scalar;
use weir_base::{Rate, Span};
use weir_classifier::{Kind, Kinds};
use weir_fpf_lfb::Built;
use weir_fpf_path::edge::profile::{Profile, Shape};
use weir_fpf_path::edge::setup::NoMatch;
use weir_fpf_path::process::Function;
use weir_fpf_path::process::cache::Limits;
use weir_fpf_path::{Destination, Hop, Inner, Interface, Rule};
use weir_lfb::named::{Instance, Named};
use weir_lfb::{Plan, section};
use weir_model::{Change, ComponentPath, Fault, Operation};
use weir_packet::Queue;

/// Components, a line each: `path = value`, or a path alone for a section.
fn changes(lines: &str) -> Vec<Change> {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let change = |line: &str| match line.split_once(" = ") {
        None => Change::block(ComponentPath::new(line.split('.'))),
        Some((path, value)) => Change::new(
            ComponentPath::new(path.split('.')),
            Scalar::Text(value.to_owned()),
        ),
    };
    lines.map(change).collect()
}

const ROUTER: &str = "
    port.lan.interface = eth0
    port.wan.interface = eth1
    fpf.interface.core.port = wan
    fpf.interface.tunnel.local = 192.0.2.1
    fpf.interface.tunnel.remote = 192.0.2.2
    fpf.rule.to-b.lid = b1
    fpf.rule.to-b.output = core
    fpf.rule.to-b.neighbour = 02:00:00:00:00:0b
    fpf.rule.to-b.leaves_domain = true
    fpf.rule.far.input = core
    fpf.rule.far.lid = c1
    fpf.rule.far.output = tunnel
    fpf.rule.both.lid = d1
    fpf.rule.both.action = multicast
    fpf.rule.both.leaves = b1a1 c1
    fpf.rule.last.action = end
    fpf.rule.last.input = tunnel
    fpf.rule.last.payload = 0x88b5
    fpf.rule.last.output = core
    fpf.rule.last.neighbour = 02:00:00:00:00:0c
    fpf.encapsulation.video.destination = 198.51.100.0/24
    fpf.encapsulation.video.vectors = b1a1:3 c1a1
    fpf.encapsulation.call.version = 4
    fpf.encapsulation.call.protocol = udp
    fpf.encapsulation.call.destination_ports = 5000-5999
    fpf.encapsulation.call.vectors = b1
    fpf.encapsulation.all.priority = 2000
    fpf.encapsulation.all.version = 6
    fpf.encapsulation.all.vectors = c1
    fpf.class.voice.kinds = rtp
    fpf.class.voice.vectors = b1
    fpf.class.partner.priority = 7
    fpf.class.partner.kinds = tls quic
    fpf.class.partner.server = *.example.org
    fpf.class.partner.vectors = b1a1
    fpf.class.partner.police = 1 Mbit
    ";

fn plan(more: &str) -> Result<Plan, Vec<String>> {
    let faults = |faults: Vec<Fault>| faults.iter().map(Fault::to_string).collect();
    Plan::check(&changes(&format!("{ROUTER}\n{more}"))).map_err(faults)
}

fn compiled(plan: &Plan) -> Option<&Built> {
    let mut layers = plan.layers.iter();
    layers.find_map(|layer| Built::of(layer.compiled()?))
}

fn built(plan: &Plan) -> &Built {
    compiled(plan).unwrap_or_else(|| panic!("no FPF"))
}

#[test]
fn sections_become_the_table_of_the_plane() {
    let plan = plan("fpf.edge_ports = lan").unwrap();
    let built = built(&plan);
    let table = &built.table;
    let id = |interface: Interface| table.find(&interface).unwrap();
    let core = id(Interface::ethernet("wan"));
    let ends = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
    let tunnel = id(Interface::gre(ends[0], ends[1]).unwrap());
    let hop = |interface, last, leaves_domain| Hop {
        interface,
        destination: [2, 0, 0, 0, 0, last].into(),
        queue: Default::default(),
        leaves_domain,
    };
    let to_b = Rule::Forward(hop(core, 0xb, true));
    assert_eq!(table.rule(table.input(tunnel), 0xb1), Some(&to_b));
    assert_eq!(table.rule(table.input(tunnel), 0xc1), None);
    let Some(Rule::Forward(far)) = table.rule(table.input(core), 0xc1) else {
        panic!("a rule of its interface")
    };
    assert_eq!(
        (far.interface, far.destination),
        (tunnel, Default::default())
    );
    assert!(
        matches!(table.rule(table.any_input(), 0xd1), Some(Rule::Multicast(l)) if l.len() == 2)
    );
    let Inner::Frame(ethertype, last) = table.end(table.input(tunnel)) else {
        panic!("a rule for the end")
    };
    assert_eq!(
        (u16::from(ethertype), last),
        (0x88b5, hop(core, 0xc, false))
    );
    assert_eq!(table.end(table.input(core)), Inner::Ip);
    let names: Vec<_> = built
        .edge
        .encapsulations
        .iter()
        .map(|e| (&e.name[..], e.row))
        .collect();
    assert_eq!(
        names,
        [
            ("call", 1000 << 16),
            ("video", (1000 << 16) + 1),
            ("all", 2000 << 16)
        ]
    );
    let video = &built.edge.encapsulations[1].rule.paths;
    assert_eq!((video.weights(), video.header_len_max()), (&[3, 1][..], 4));
    let classes = built.edge.classes.iter();
    let classes = classes.map(|class| (&class.name[..], class.rule.timeout));
    let minute = Some(Span::from_secs(60));
    assert_eq!(
        classes.collect::<Vec<_>>(),
        [("partner", minute), ("voice", minute)]
    );
    let kinds = |kind| Kinds::NONE.with(kind);
    let row = |kind, server| built.policy.row(kinds(kind), server);
    assert_eq!(row(Kind::Rtp, None), Some(1));
    assert_eq!(row(Kind::Quic, Some("a.example.org")), Some(0));
    assert!(built.edge.classes[0].rule.profile.is_some());
    assert_eq!(built.edge.flows_max, 20_000);
    assert_eq!(
        (built.edge.no_match, &built.edge.ports[..]),
        (NoMatch::Forward, &["lan".to_owned()][..])
    );
}

#[test]
fn a_rule_names_a_queue_that_its_port_has() {
    let plan = plan(
        "fpf.rule.to-b.queue = 7
        fpf.rule.far.queue = 9
        port.wan.discipline.kind = class_weights
        port.wan.discipline.classes = queue 7 = 2, rest = 1",
    );
    let plan = plan.unwrap();
    let table = &built(&plan).table;
    let Some(Rule::Forward(hop)) = table.rule(table.any_input(), 0xb1) else {
        panic!("a rule to b")
    };
    assert_eq!(hop.queue, Queue(7));
}

#[test]
fn a_cache_has_limits() {
    for (more, bytes, chunks) in [
        ("", 16_000_000, 10_000),
        (
            "fpf.rule.both.cache_bytes = 2 MB\nfpf.rule.both.cache_chunks = 7",
            2_000_000,
            7,
        ),
    ] {
        let cache = "fpf.rule.both.action = cache\nfpf.rule.both.leaves = c1";
        let plan = plan(&format!("{cache}\n{more}")).unwrap();
        let table = &built(&plan).table;
        let function = Function::Cache(Limits { bytes, chunks });
        assert_eq!(table.processors()[0].function, function);
    }
}

#[test]
fn packets_that_wait_for_a_rate_count_among_those_of_the_pool() {
    let [without, with] = ["0 bit", "20 Mbit"].map(|rate| {
        plan(&format!(
            "fpf.encapsulation.call.shape = {rate}\nfpf.encapsulation.call.shape_limit = 70"
        ))
        .unwrap()
    });
    assert_eq!(with.packets_needed(), without.packets_needed() + 70);
    let call = &built(&with).edge.encapsulations[0].rule;
    let shape = Shape::new(Rate::from_mbps(20), 70).unwrap();
    assert_eq!(call.profile, Some(Profile::Shaped(shape)));
}

#[test]
fn a_neighbour_has_a_mac_address_or_an_ip_address() {
    for neighbour in ["192.0.2.7", "2001:db8::7"] {
        let plan = plan(&format!("fpf.rule.to-b.neighbour = {neighbour}")).unwrap();
        let table = &built(&plan).table;
        let Some(Rule::Forward(hop)) = table.rule(table.any_input(), 0xb1) else {
            panic!("a rule to b")
        };
        let address = neighbour.parse().unwrap();
        assert_eq!(hop.destination, Destination::Address(address));
    }
}

#[test]
fn a_router_without_an_fpf_section_has_none() {
    let plan = Plan::check(&changes("port.lan.interface = eth0")).unwrap();
    assert!(compiled(&plan).is_none());
    let shown = plan.shown();
    let fpf = shown.iter().filter(|(path, _)| path.starts_with("fpf"));
    let fpf: Vec<_> = fpf.map(|(path, value)| format!("{path}={value}")).collect();
    assert_eq!(
        fpf,
        [
            "fpf.classifier_flows=20000",
            "fpf.edge_ports=",
            "fpf.ether_type=0xc000",
            "fpf.lid_bytes=1",
            "fpf.no_match=forward",
        ]
    );
}

#[test]
fn faults_name_their_place_and_the_remedy() {
    for (more, expected) in [
        (
            "fpf.rule.far.output = tunel",
            "fpf.rule.far.output: there is no FPF interface `tunel`; add [fpf.interface.tunel]",
        ),
        (
            "fpf.rule.far.lid = 00c1",
            "fpf.rule.far.lid: \"00c1\" is not a LID; in this domain a LID has 2 hexadecimal digits",
        ),
        (
            "fpf.rule.to-b.neighbour = 192.0.2",
            "fpf.rule.to-b.neighbour: \"192.0.2\" is neither a unicast IP address",
        ),
        (
            "fpf.rule.to-b.neighbour = 01:00:00:00:00:0b",
            "nor a unicast MAC address",
        ),
        (
            "fpf.rule.to-b.neighbour = ff02::1",
            "\"ff02::1\" is neither a unicast IP address",
        ),
        (
            "fpf.interface.core.vlan = 7\nfpf.rule.to-b.neighbour = 192.0.2.7",
            "fpf.rule.to-b: the neighbour 192.0.2.7 cannot be resolved in a VLAN",
        ),
        (
            "fpf.rule.last.lid = a1",
            "fpf.rule.last.lid: a rule with action = \"end\" has no LID",
        ),
        ("fpf.rule.both.leaves = d1", "leads back to itself"),
        (
            "fpf.rule.both.action = reassemble",
            "fpf.rule.both.leaves: reassemble has no leaves: packets follow the next LID",
        ),
        (
            "fpf.rule.both.action = cache",
            "fpf.rule.both.leaves: cache needs 1 leaf, not 2",
        ),
        (
            "fpf.rule.both.action = cache\nfpf.rule.both.cache_bytes = 1 kB",
            "fpf.rule.both.cache_bytes: `cache_bytes` is \"1 kB\", but must be a size from \"64000 B\"",
        ),
        (
            "fpf.rule.new.lid = b1\nfpf.rule.new.action = drop",
            "fpf.rule.to-b: LID 0xb1 has two rules",
        ),
        (
            "fpf.interface.again.port = wan",
            "fpf.interface.core: the interface `again` is identical",
        ),
        (
            "fpf.interface.none.vlan = 7",
            "fpf.interface.none: set either `port`, or `local` and `remote`",
        ),
        (
            "fpf.interface.none.port = guest",
            "fpf.interface.none.port: there is no port `guest`; add [port.guest]",
        ),
        (
            "port.own.kind = tun\nfpf.interface.none.port = own",
            "fpf.interface.none.port: the port `own` of kind \"tun\" leads to this machine, not to an FPF element",
        ),
        (
            "fpf.interface.core.ports = wan",
            "fpf.interface.core.ports: `ports` is only for a tunnel",
        ),
        (
            "fpf.interface.far.local = 192.0.2.1\nfpf.interface.far.remote = 192.0.2.9\n\
             fpf.interface.far.ports = wan guest",
            "fpf.interface.far.ports: there is no port `guest`",
        ),
        (
            "fpf.edge_ports = lan guest",
            "fpf.edge_ports: there is no port `guest`",
        ),
        (
            "fpf.ether_type = 0x0800",
            "fpf.ether_type: Ethernet type 0x0800 cannot be used for FPF",
        ),
        (
            "fpf.rule.to-b.queue = 7",
            "fpf.rule.to-b.queue: the port `wan` has no queue 7; give it one with [port.wan] discipline = { kind",
        ),
        (
            "fpf.rule.to-b.queue = 7\nport.wan.discipline.kind = class_weights\n\
             port.wan.discipline.classes = queue 8 = 2, rest = 1",
            "the port `wan` has no queue 7",
        ),
        (
            "fpf.encapsulation.y.version = 4",
            "fpf.encapsulation.y.vectors: the number of vectors is 0",
        ),
        (
            "fpf.encapsulation.video.vectors = b1:x",
            "the weight must be a number",
        ),
        (
            "fpf.encapsulation.video.source = 10.0.0.1/8",
            "has bits set beyond its prefix length; write 10.0.0.0/8",
        ),
        (
            "fpf.encapsulation.call.protocol = icmp",
            "must be absent, unless the protocol has ports",
        ),
        (
            "fpf.encapsulation.call.police = 1 Mbit\nfpf.encapsulation.call.burst = 1 B",
            "burst",
        ),
        (
            "fpf.encapsulation.call.police = 1 Mbit\nfpf.encapsulation.call.shape = 1 Mbit",
            "fpf.encapsulation.call.shape: `shape` cannot be combined with `police`; remove `police`",
        ),
        (
            "fpf.encapsulation.x",
            "fpf.encapsulation.x: version is not given",
        ),
        (
            "fpf.class.voice.kinds = rtp rtpp",
            "fpf.class.voice.kinds: \"rtpp\" is not a kind of flow; did you mean `rtp`?",
        ),
        (
            "fpf.class.x.vectors = b1",
            "fpf.class.x.kinds: no kind is given; permitted are rtp, rtcp, svc, sip",
        ),
        (
            "fpf.class.voice.server = *",
            "fpf.class.voice.server: `*` is not a server name",
        ),
        (
            "fpf.class.x.kinds = rtp",
            "fpf.class.x.vectors: the number of vectors is 0",
        ),
        (
            "fpf.lid_bytes = 2",
            "fpf.class.voice.vectors: \"b1\" is shorter than a LID of 2 bytes",
        ),
        (
            "fpf.class.voice.timeout = 0 s",
            "fpf.class.voice.timeout: `timeout` is \"0 s\", but must be a time from \"1 s\"",
        ),
        (
            "fpf.no_match = drop",
            "fpf.no_match: classes need `no_match = \"forward\"`",
        ),
        ("fpf.rules.x.lid = a1", "did you mean `rule`"),
        ("mode = bridged", "a bridge does not support FPF"),
    ] {
        let faults = plan(more).unwrap_err();
        assert!(
            faults.iter().any(|fault| fault.contains(expected)),
            "{expected}: {faults:#?}"
        );
    }
}

#[test]
fn sections_come_go_and_change_while_the_router_runs() {
    let plan = plan("").unwrap();
    let after = |operations: &[Operation]| plan.after(operations);
    let sets = |lines| {
        changes(lines)
            .into_iter()
            .map(Operation::Set)
            .collect::<Vec<_>>()
    };
    let delete = |path: &str| Operation::Delete(ComponentPath::new(path.split('.')));

    let other = after(&sets("fpf.encapsulation.video.vectors = c1a1")).unwrap();
    assert!(Arc::ptr_eq(&plan.redirect, &other.redirect));
    let vectors = |plan: &Plan| {
        built(plan).edge.encapsulations[1]
            .rule
            .paths
            .headers()
            .len()
    };
    assert_eq!((vectors(&plan), vectors(&other)), (2, 1));

    let more = sets("fpf.rule.new\nfpf.rule.new.lid = e1\nfpf.rule.new.action = drop");
    let with_new = after(&more).unwrap();
    let rules = |plan: &Plan| built(plan).table.rule_count();
    assert_eq!(rules(&with_new), rules(&plan) + 1);
    let operations = with_new.operations_to(&plan);
    assert_eq!(operations, [delete("fpf.rule.new")]);
    assert_eq!(with_new.after(&operations).unwrap(), plan);
    assert_eq!(
        plan.after(&plan.operations_to(&with_new)).unwrap(),
        with_new
    );

    let fault = |operations: &[Operation]| after(operations).unwrap_err()[0].to_string();
    assert!(fault(&sets("fpf.rule.to_b.lid = b2")).contains("did you mean `to-b`"));
    assert!(fault(&[delete("fpf.rule.gone")]).contains("there is no FPF rule `gone`"));
    assert!(fault(&sets("fpf.rule.to-b")).contains("`fpf.rule.to-b` already exists"));
    assert!(fault(&[delete("fpf.interface.core")]).contains("there is no FPF interface `core`"));
    assert!(fault(&[delete("port.wan")]).contains("there is no port `wan`"));

    let default = after(&[delete("fpf.rule.to-b.leaves_domain")]).unwrap();
    assert_ne!(default, plan);
    let named = Named::ALL.into_iter().filter(|kind| *kind != Named::Port);
    let parts = named.flat_map(|kind| {
        let names = plan.names(kind).into_iter();
        names.map(move |name| Operation::Delete(kind.path(name)))
    });
    let none = after(&parts.collect::<Vec<_>>()).unwrap();
    assert!(compiled(&none).is_none());
}

#[test]
fn paths_of_the_previous_release_have_one_form_now() {
    let path = |text: &str| text.parse::<ComponentPath>().unwrap();
    for (old, new) in [
        ("fpf_rules.b.lid", "fpf.rule.b.lid"),
        ("fpf.1.no_match", "fpf.no_match"),
    ] {
        assert_eq!(section::renamed(&path(old)), Some(path(new)), "{old}");
        assert_eq!(section::renamed(&path(new)), None, "{new}");
    }
    for other in ["fpf.rule", "fpf.rules.x"] {
        assert_eq!(Instance::find(&path(other)), None, "{other}");
    }
}
