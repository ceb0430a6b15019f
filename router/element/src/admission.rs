//! The only check of a plan against the machine and against the running plan.
//!
//! A start, `weir apply`, SIGHUP, `weir set`, `weir unset` and `weir check` all call [`admit`].
//!
//! ```text
//!  (running plan, its limits) or nothing ---+
//!  requested plan --------------------------+--> [admit] --> faults, or doubts and steps
//!  facts about the machine -----------------+
//! ```
//!
//! [`Plan::check`] has already checked the plan itself; the rules here depend on the machine and on the time at
//! which the plan is applied.

use std::collections::BTreeMap;

use weir_lfb::Plan;
use weir_lfb::port::{Direction, PortPlan};
use weir_model::{ComponentPath, Fault};
use weir_path::plane::Mode;

use crate::difference::differences;
use crate::kernel::{self, Finding};

/// Facts about the machine on which a plan depends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The longest frame of each interface, in bytes.
    pub frame_bytes_max: BTreeMap<String, usize>,
    /// Interfaces that cannot be ports now.
    pub unfit: BTreeMap<String, Unfit>,
    /// Kernel state that a router refuses or warns about.
    pub findings: Vec<Finding>,
    /// Interface index of the kernel's bridge that each interface is in; `None` if that cannot be read.
    pub bridges: Option<BTreeMap<String, u32>>,
}

/// Why an interface cannot be a port now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The interface does not exist; with the kernel's error message.
    Missing(String),
    /// The interface carries no Ethernet frames.
    NotEthernet,
    /// The interface already exists, but the router should create it.
    Taken,
}

/// Limits that a router cannot change while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest frame that the pool can hold, in bytes.
    pub frame_bytes_max: usize,
    /// Packets that the pool can hold.
    pub pool: usize,
}

/// A plan that may be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// Warnings about settings that are permitted, but probably not intended.
    pub doubts: Vec<String>,
    /// The changed components, one line each.
    pub differences: Vec<String>,
    /// Names of removed ports, and of ports that get another interface.
    pub gone: Vec<String>,
    /// New ports, and ports that get another interface.
    pub added: Vec<PortPlan>,
    /// Ports whose components change.
    pub changed: Vec<PortPlan>,
    /// The limits that are fixed at the start.
    pub limits: Limits,
}

impl Limits {
    /// The limits of a router that starts with this plan.
    fn of_start(plan: &Plan, facts: &Facts) -> Self {
        Self {
            frame_bytes_max: longest_frame(plan, facts),
            pool: plan.router.pool.unwrap_or(2 * plan.packets_needed()),
        }
    }
}

/// Checks whether a plan may be applied: at a start, or by a router that runs with `in_force`.
pub fn admit(
    in_force: Option<(&Plan, Limits)>,
    plan: &Plan,
    facts: &Facts,
) -> Result<Admitted, Vec<Fault>> {
    let shown = in_force.map(|(old, _)| old.shown()).unwrap_or_default();
    let differences = differences(&shown, &plan.shown());
    let old = in_force.map_or(&[][..], |(old, _)| &old.ports);
    let added: Vec<_> = plan.ports.iter().filter(|p| !is_kept(p, old)).collect();
    // A running router waits for a missing interface; a start does not, since the name is probably wrong.
    let unfit = unfit(&added, facts, in_force.is_some());
    if !unfit.is_empty() {
        return Err(unfit); // the checks below would refer to the wrong interfaces
    }
    let limits = match in_force {
        Some((old, limits)) => {
            fits(old, limits, plan, facts, &differences).map_err(|why| vec![whole(why)])?;
            limits
        }
        None => Limits::of_start(plan, facts),
    };
    let refusals = kernel::refusals(&facts.findings, &plan.router);
    if !refusals.is_empty() {
        return Err(refusals.into_iter().map(whole).collect());
    }
    let gone = old.iter().filter(|p| !is_kept(p, &plan.ports));
    let kept = plan.ports.iter().filter(|p| is_kept(p, old));
    Ok(Admitted {
        doubts: doubts(plan, facts),
        differences,
        gone: gone.map(|p| p.name.clone()).collect(),
        changed: kept.filter(|p| !old.contains(p)).cloned().collect(),
        added: added.into_iter().cloned().collect(),
        limits,
    })
}

/// Whether one of the other ports has the same name, interface and kind.
pub(crate) fn is_kept(port: &PortPlan, others: &[PortPlan]) -> bool {
    fn place(port: &PortPlan) -> (&str, &str, bool, Direction) {
        (&port.name, &port.interface, port.is_tun, port.direction)
    }
    others.iter().any(|other| place(other) == place(port))
}

/// A fault of the whole plan.
fn whole(why: String) -> Fault {
    Fault::new(ComponentPath::default(), why)
}

fn longest_frame(plan: &Plan, facts: &Facts) -> usize {
    let ports = plan.ports.iter();
    let longest = ports.filter_map(|port| facts.frame_bytes_max.get(&port.interface));
    longest.max().copied().unwrap_or_default()
}

fn unfit(ports: &[&PortPlan], facts: &Facts, may_wait: bool) -> Vec<Fault> {
    let fault = |port: &&PortPlan| {
        let (name, interface) = (&port.name, &port.interface);
        let why = match facts.unfit.get(interface)? {
            Unfit::Missing(_) if may_wait => return None,
            Unfit::Missing(why) => format!(
                "port `{name}`: interface `{interface}`: {why}; `ip link` lists the interfaces of \
                 this machine"
            ),
            Unfit::NotEthernet => format!(
                "port `{name}`: interface `{interface}` does not carry Ethernet frames; only Ethernet interfaces can \
                 be ports, and in mode \"queue\" also PPP, WireGuard and TUN interfaces"
            ),
            Unfit::Taken => format!(
                "port `{name}` of kind \"tun\": interface `{interface}` already exists; choose another name, or \
                 remove it (`ip link del {interface}`)"
            ),
        };
        let path = ComponentPath::new(["port", name, "interface"]);
        Some(Fault::new(path, why).naming_place())
    };
    ports.iter().filter_map(fault).collect()
}

/// Checks whether a running router can switch from one plan to another.
fn fits(
    from: &Plan,
    limits: Limits,
    to: &Plan,
    facts: &Facts,
    differences: &[String],
) -> Result<(), String> {
    if !to.router.fits_running(&from.router) {
        return Err(format!(
            "mode, socket, pool, age_max, watchdog and mark cannot change while the router runs; restart it to apply: {}",
            differences.join(", ")
        ));
    }
    if longest_frame(to, facts) > limits.frame_bytes_max {
        return Err(format!(
            "an interface has a larger MTU than this router was started for (frames up to {} bytes); restart it",
            limits.frame_bytes_max
        ));
    }
    let needed = to.packets_needed();
    if needed > limits.pool {
        return Err(format!(
            "full queues would need {needed} packets, but this router was started with a pool \
             of {}; restart it",
            limits.pool
        ));
    }
    Ok(())
}

fn doubts(plan: &Plan, facts: &Facts) -> Vec<String> {
    let mut doubts = kernel::doubts(&facts.findings, &plan.router);
    doubts.extend(plan.router.outdated());
    if plan.router.mode == Mode::Bridged {
        doubts.extend(no_bridge(plan, facts.bridges.as_ref()));
    }
    doubts
}

/// The warning that a bridge does not fail open: when weir ends, the kernel forwards only if a bridge of the kernel
/// contains all ports. `None` if one does, or if that is unknown.
pub(crate) fn no_bridge(plan: &Plan, bridges: Option<&BTreeMap<String, u32>>) -> Option<String> {
    let bridges = bridges?;
    let of_port = |port: &PortPlan| bridges.get(&port.interface).copied();
    let of_ports: Vec<Option<u32>> = plan.ports.iter().map(of_port).collect();
    let is_first = |bridge: &Option<u32>| bridge.is_some() && *bridge == of_ports[0];
    if of_ports.iter().all(is_first) {
        return None;
    }
    let interfaces = plan.ports.iter().map(|port| port.interface.as_str());
    let interfaces: Vec<&str> = interfaces.collect();
    Some(format!(
        "the interfaces {} are not in the same kernel bridge: when weir stops, no traffic passes (no fail-open). Put \
         them into one bridge: ip link add br0 type bridge; ip link set {} master br0; ip link set br0 up",
        interfaces.join(" and "),
        interfaces.join(" master br0; ip link set "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    use weir_model::Change;

    /// A plan with these components.
    fn plan(assignments: &[&str]) -> Plan {
        let change = |text: &&str| -> Change { weir_config::assignment(text).unwrap() };
        let changes: Vec<_> = assignments.iter().map(change).collect();
        Plan::check(&changes).unwrap()
    }

    #[test]
    fn a_change_of_plan_names_each_port_once() {
        let old = plan(&[
            "port.a.interface=r0",
            "port.b.interface=r1",
            "port.c.interface=r2",
            "port.d.interface=r3",
        ]);
        let limits = admit(None, &old, &Facts::default()).unwrap().limits;
        let new = plan(&[
            "port.a.interface=r0",
            "port.b.interface=r9",
            "port.d.interface=r3",
            "port.d.local_share=0.4",
            "port.e.interface=r4",
        ]);
        let admitted = admit(Some((&old, limits)), &new, &Facts::default()).unwrap();
        let names = |ports: &[PortPlan]| ports.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        assert_eq!(admitted.gone, ["b", "c"]);
        assert_eq!(names(&admitted.added), ["b", "e"]);
        assert_eq!(names(&admitted.changed), ["d"]);
        assert_eq!(admitted.limits, limits);
    }

    #[test]
    fn an_interface_that_the_router_makes_must_not_be_there() {
        let old = plan(&["port.lan.interface=r0", "port.own.interface=r1"]);
        let new = plan(&[
            "port.lan.interface=r0",
            "port.own.interface=r1",
            "port.own.kind=tun",
        ]);
        let limits = admit(None, &old, &Facts::default()).unwrap().limits;
        // The same name, but another kind of interface: the port is removed and added.
        let admitted = admit(Some((&old, limits)), &new, &Facts::default()).unwrap();
        let added = admitted.added.iter().map(|port| &port.name[..]);
        assert_eq!(added.collect::<Vec<_>>(), ["own"]);
        assert_eq!(admitted.gone, ["own"]);
        let facts = Facts {
            unfit: BTreeMap::from([("r1".to_owned(), Unfit::Taken)]),
            ..Facts::default()
        };
        for before in [None, Some((&old, limits))] {
            let refused = admit(before, &new, &facts).unwrap_err()[0].to_string();
            assert!(refused.contains("ip link del r1"), "{refused}");
        }
        // An interface that the running router itself has created is not refused.
        assert!(admit(Some((&new, limits)), &new, &facts).is_ok());
    }

    #[test]
    fn the_limits_of_a_start_hold_the_longest_frame_and_twice_the_queues() {
        let two = plan(&["port.a.interface=r0", "port.b.interface=r1"]);
        let facts = Facts {
            frame_bytes_max: [("r0", 1522), ("r1", 9022)]
                .map(|(interface, bytes)| (interface.to_owned(), bytes))
                .into(),
            ..Facts::default()
        };
        let limits = admit(None, &two, &facts).unwrap().limits;
        assert_eq!(limits.frame_bytes_max, 9022);
        assert_eq!(limits.pool, 2 * two.packets_needed());
    }

    #[test]
    fn a_router_that_would_not_fail_open_is_doubted() {
        let routed = plan(&["port.a.interface=r0"]);
        let facts = Facts {
            findings: vec![Finding::new(&kernel::kinds::FORWARDING_OFF, "IPv4 from r0")],
            ..Facts::default()
        };
        let doubts = |plan: &Plan, facts: &Facts| admit(None, plan, facts).unwrap().doubts;
        assert!(doubts(&routed, &facts)[0].contains("IPv4 from r0"));
        let bridged = plan(&["mode=bridged", "port.a.interface=r0", "port.b.interface=r1"]);
        let bridges = |of_ports: &[(&str, u32)]| Facts {
            bridges: Some(
                of_ports
                    .iter()
                    .map(|(i, n)| ((*i).to_owned(), *n))
                    .collect(),
            ),
            ..facts.clone()
        };
        for apart in [&[][..], &[("r0", 7)], &[("r0", 7), ("r1", 8)]] {
            assert!(doubts(&bridged, &bridges(apart))[0].contains("no fail-open"));
        }
        let together = bridges(&[("r0", 7), ("r1", 7)]);
        assert!(doubts(&bridged, &together).is_empty());
        assert!(doubts(&bridged, &facts).is_empty()); // the bridges are unknown
    }
}
