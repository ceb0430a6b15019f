//! The rules of the machine that transit bypasses, as reported by the kernel.

use std::time::Duration;

use crate::common::{in_namespace, run, succeeds, two_hosts};
use weir_live::kernel::announcements::Announcements;
use weir_live::kernel::state::{Changed, Reader, Scope};
use weir_live::kernel::transit::TransitGuard;
use weir_path::plane::Mode;

const PORTS: [&str; 2] = ["ra", "rb"];

fn found(mode: Mode) -> Vec<String> {
    let ports = PORTS.map(Into::into).to_vec();
    let chains = Reader::default()
        .read(&Scope { mode, ports }, Changed::ALL)
        .chains;
    chains.iter().map(ToString::to_string).collect()
}

/// Loads nft rules in place of the previous ones.
fn load(rules: &str) {
    run(&format!("nft -f - <<'END'\nflush ruleset\n{rules}\nEND"));
}

#[test]
fn rules_at_every_hook_of_transit_are_found() {
    in_namespace(|| {
        let (a, _b) = two_hosts();
        let none: [String; 0] = [];
        assert_eq!(found(Mode::Routed), none);
        // With the kernel alone, each of these separates host a from host b or changes its packets.
        for family in ["ip", "inet"] {
            for (hook, kind, priority) in [
                ("prerouting", "filter", "-300"),
                ("prerouting", "filter", "-150"),
                ("forward", "filter", "-150"),
                ("forward", "filter", "0"),
                ("postrouting", "filter", "300"),
            ] {
                let chain = format!("type {kind} hook {hook} priority {priority};");
                load(&format!(
                    "table {family} t {{\n chain c {{\n {chain}\n ip daddr 10.0.2.2 drop\n }}\n}}"
                ));
                assert!(
                    !succeeds(&a.command("ping -c 1 -W 0.2 10.0.2.2")),
                    "{family} {hook}"
                );
                let expected = format!("nftables: table {family} t, chain c (at {hook})");
                assert_eq!(found(Mode::Routed), [expected]);
                assert_eq!(found(Mode::Bridged), none);
            }
        }
        let forward = "type filter hook forward priority 0; policy drop;";
        load(&format!("table ip6 t {{\n chain c {{\n {forward}\n }}\n}}"));
        let closed = "nftables: table ip6 t, chain c (at forward, no rules, policy drop)";
        assert_eq!(found(Mode::Routed), [closed]);
        load(
            "table ip t {\n chain c {\n type nat hook postrouting priority 100;\n masquerade\n }\n}",
        );
        assert_eq!(
            found(Mode::Routed),
            ["nftables: table ip t, chain c (at postrouting)"]
        );
        for (device, found_at) in [("ra", true), ("lo", false)] {
            let hook = format!("type filter hook ingress device {device} priority 0;");
            load(&format!(
                "table netdev t {{\n chain c {{\n {hook}\n drop\n }}\n}}"
            ));
            let expected = "nftables: table netdev t, chain c (at ingress)".to_owned();
            let expected: Vec<_> = found_at.then_some(expected).into_iter().collect();
            assert_eq!(found(Mode::Routed), expected);
            assert_eq!(found(Mode::Bridged), expected);
        }
        // Chains that transit does not pass or does not bypass, and our own.
        load(
            "table inet t {\n\
                chain i {\n type filter hook input priority 0; policy drop;\n accept\n }\n\
                chain o {\n type filter hook output priority 0;\n accept\n }\n\
                chain f {\n type filter hook forward priority 0;\n }\n\
                chain unhooked {\n drop\n }\n\
              }\n\
              table netdev t {\n\
                chain e {\n type filter hook egress device ra priority 0;\n accept\n }\n\
              }",
        );
        let _guard = TransitGuard::install(&PORTS.map(|p| (p, Mode::Routed))).unwrap();
        assert_eq!(found(Mode::Routed), none);
    });
}

#[test]
fn a_bridges_rules_count_where_the_ports_are_in_one() {
    in_namespace(|| {
        run("ip link add ra type veth peer name rb");
        load("table bridge t {\n chain c {\n type filter hook forward priority 0;\n drop\n }\n}");
        let none: [String; 0] = [];
        assert_eq!(found(Mode::Bridged), none);
        run("ip link add br0 type bridge && ip link set ra master br0");
        assert_eq!(
            found(Mode::Bridged),
            ["nftables: table bridge t, chain c (at forward)"]
        );
        assert_eq!(found(Mode::Routed), none);
    });
}

#[test]
fn legacy_rules_are_found() {
    in_namespace(|| {
        let none: [String; 0] = [];
        if !succeeds("iptables-legacy -t raw -S") {
            println!("skipped: no legacy iptables here");
            return;
        }
        assert_eq!(found(Mode::Routed), none);
        run("iptables-legacy -t raw -A PREROUTING -j ACCEPT && \
             iptables-legacy -P FORWARD DROP && iptables-legacy -A INPUT -j ACCEPT && \
             ip6tables-legacy -t mangle -A POSTROUTING -j ACCEPT");
        let mut found = found(Mode::Routed);
        found.sort_unstable();
        let expected = [
            "ip6tables: table mangle, chain POSTROUTING (at postrouting)",
            "iptables: table filter, chain FORWARD (at forward, no rules, policy drop)",
            "iptables: table raw, chain PREROUTING (at prerouting)",
        ];
        assert_eq!(found, expected);
    });
}

#[test]
fn a_change_of_rules_is_announced() {
    in_namespace(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut announcements = Announcements::of_rules().unwrap();
            let changed =
                |announced: bool| move |result: Result<_, _>| assert_eq!(result.is_ok(), announced);
            let limit = Duration::from_millis(200);
            changed(false)(tokio::time::timeout(limit, announcements.changed()).await);
            run("nft add table inet t");
            changed(true)(tokio::time::timeout(limit, announcements.changed()).await);
            changed(false)(tokio::time::timeout(limit, announcements.changed()).await);
        });
    });
}
