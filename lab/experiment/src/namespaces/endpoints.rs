//! The TCP settings of each host's kernel, as the scenario's connections need them.
//!
//! Selective acknowledgements, time stamps and explicit congestion notification are negotiated when a connection is
//! opened, and the opener proposes them. So only hosts that open connections need settings; a server accepts the
//! proposals of its clients. The settings apply to a whole namespace: the lab refuses a host that would have to open
//! connections with different settings.

use crate::error::Error;
use crate::habitat::Habitat;
use crate::scenario::{Congestion, Scenario, TcpOptions};
use crate::topology::Topology;

/// The settings of the hosts, by the topology's node index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints(pub Vec<Settings>);

/// The proposals of a host that opens connections; the kernel's defaults if it opens none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    sack: Option<bool>,
    timestamps: Option<bool>,
    ecn: Option<bool>,
}

impl Endpoints {
    /// The settings that the scenario's traffic needs.
    pub fn new(scenario: &Scenario, topology: &Topology) -> Result<Self, Error> {
        let mut all = vec![Settings::default(); topology.nodes.len()];
        for traffic in &scenario.traffic {
            let Some(options) = traffic.kind.tcp_options() else {
                continue;
            };
            let wanted = Settings::of(options);
            let members = scenario.group(traffic.opener()).map(|g| g.members());
            let members = members.unwrap_or_default();
            for node in members.iter().filter_map(|name| topology.node(name)) {
                if let Some(what) = all[node].join(wanted) {
                    let why = format!(
                        "host {} opens connections with and without {what} (traffic {} and another), but a kernel has \
                         one setting for all connections; try --on sim",
                        topology.nodes[node].name, traffic.name
                    );
                    return Err(Error::unsupported(Habitat::Lab, why));
                }
            }
        }
        Ok(Self(all))
    }
}

impl Settings {
    fn of(options: &TcpOptions) -> Self {
        Self {
            sack: Some(options.congestion.has_sack()),
            timestamps: Some(options.timestamps),
            ecn: Some(options.ecn),
        }
    }

    /// Merges `other`; returns the name of a setting in which they contradict each other.
    fn join(&mut self, other: Self) -> Option<&'static str> {
        let fields = [
            ("SACK", &mut self.sack, other.sack),
            ("timestamps", &mut self.timestamps, other.timestamps),
            ("ECN", &mut self.ecn, other.ecn),
        ];
        for (what, mine, theirs) in fields {
            match (*mine, theirs) {
                (Some(a), Some(b)) if a != b => return Some(what),
                (None, theirs) => *mine = theirs,
                _ => {}
            }
        }
        None
    }

    /// The settings of the namespace below `net`.
    pub fn kernel(self) -> Vec<(&'static str, &'static str)> {
        let flag = |on: bool| if on { "1" } else { "0" };
        // 2: accept ECN, but do not propose it; the kernel's default.
        let ecn = |on: bool| if on { "1" } else { "2" };
        let settings = [
            self.sack.map(|on| ("ipv4/tcp_sack", flag(on))),
            self.timestamps.map(|on| ("ipv4/tcp_timestamps", flag(on))),
            self.ecn.map(|on| ("ipv4/tcp_ecn", ecn(on))),
        ];
        settings.into_iter().flatten().collect()
    }
}

/// The kernel's name of a congestion control. SACK is a separate setting of the namespace.
pub fn kernel_word(congestion: Congestion) -> &'static str {
    match congestion {
        Congestion::Cubic => "cubic",
        Congestion::Sack | Congestion::NewReno => "reno",
        Congestion::Bbr => "bbr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    const TEXT: &str = r#"
title = "t"
[router.r]
[host.a]
[host.b]
[host.server]
[link.a]
ends = ["a", "r"]
[link.b]
ends = ["b", "r"]
[link.out]
ends = ["r", "server"]
[traffic.old]
kind = "tcp"
from = "a"
to = "server"
congestion = "newreno"
[traffic.new]
kind = "tcp"
from = "b"
to = "server"
congestion = "sack"
ecn = true
"#;

    fn endpoints(text: &str) -> Result<Endpoints, Error> {
        let (scenario, _) = plan(text, &[], &[]).unwrap();
        Endpoints::new(&scenario, &Topology::new(&scenario).unwrap())
    }

    #[test]
    fn openers_propose_and_a_server_takes_both() {
        let Endpoints(all) = endpoints(TEXT).unwrap();
        // router, a, b, server
        assert_eq!(
            all[1].kernel(),
            [
                ("ipv4/tcp_sack", "0"),
                ("ipv4/tcp_timestamps", "0"),
                ("ipv4/tcp_ecn", "2")
            ]
        );
        assert_eq!(
            all[2].kernel(),
            [
                ("ipv4/tcp_sack", "1"),
                ("ipv4/tcp_timestamps", "0"),
                ("ipv4/tcp_ecn", "1")
            ]
        );
        assert_eq!(all[3].kernel(), []);
    }

    #[test]
    fn a_host_cannot_propose_both() {
        let error = endpoints(&TEXT.replace("from = \"b\"", "from = \"a\"")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("host a opens connections"), "{error}");
        assert!(error.contains("with and without SACK"), "{error}");
    }
}
