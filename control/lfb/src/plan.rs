//! All blocks together: a set of changes, checked whole.

use std::collections::BTreeMap;

use weir_base::setting::{
    Parameter, Scalar, Setting, SettingError, Settings, did_you_mean, nearest, unknown,
};
use weir_model::{Change, ComponentPath, Fault};
use weir_path::parse::Mode;

use crate::port::{self, PortPlan};
use crate::queue;
use crate::router::{self, RouterPlan};

/// Packets that a router needs beside its queues: those that wait for neighbours, and for each port
/// a full outbox and a burst on its way in.
fn reserve(ports: usize) -> usize {
    const EACH: usize = 256 + 64;
    weir_path::waiting::PACKETS_MAX + ports * EACH
}

/// A checked configuration: putting it in force cannot fail for anything that is written in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The box.
    pub router: RouterPlan,
    /// Its ports, by name.
    pub ports: Vec<PortPlan>,
}

/// What is given for one block: names and values.
type Given<'a> = Vec<(&'a str, &'a Scalar)>;

impl Plan {
    /// Checks a whole set of changes. All faults are told, not only the first.
    pub fn check(changes: &[Change]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut router: Given<'_> = Vec::new();
        let mut ports: BTreeMap<&str, (Given<'_>, Given<'_>)> = BTreeMap::new();
        for Change { path, value } in changes {
            match (&path.segments()[..], value) {
                ([name], Some(value)) if *name != "port" => router.push((name, value)),
                (["port"], None) => {}
                (["port", port], None) | (["port", port, "discipline"], None) => {
                    ports.entry(port).or_default();
                }
                (["port", port, name], Some(value)) if *name != "discipline" => {
                    ports.entry(port).or_default().0.push((name, value));
                }
                (["port", port, "discipline", name], Some(value)) => {
                    ports.entry(port).or_default().1.push((name, value));
                }
                (["port", port, "discipline"], Some(value)) => {
                    ports.entry(port).or_default();
                    faults.push(Fault::new(path.clone(), queue::not_a_table(value)));
                }
                (["port"] | ["port", _], Some(value)) => {
                    let name = path.segments().get(1).copied().unwrap_or("wan");
                    let message = format!(
                        "`{path}` is {value}, but must be a section: [port.{name}], with its \
                         components below"
                    );
                    faults.push(Fault::new(path.clone(), message));
                }
                (["port", _, block, ..], _) => faults.push(Fault::new(
                    path.parent(),
                    unknown(block, ["discipline"].into_iter()),
                )),
                ([block, ..], _) => faults.push(Fault::new(
                    ComponentPath::new([*block]),
                    unknown(block, ["port"].into_iter()),
                )),
                ([], _) => {}
            }
        }
        let root = ComponentPath::default();
        let router = settings(&root, router::PARAMETERS, &router, &mut faults).map(RouterPlan::new);
        let ports: Vec<_> = ports
            .iter()
            .filter_map(|(name, (port, queue))| check_port(name, port, queue, &mut faults))
            .collect();
        match router {
            Some(router) if faults.is_empty() => {
                let plan = Self { router, ports };
                plan.check_together().map_err(|fault| vec![fault])?;
                Ok(plan)
            }
            _ => Err(faults),
        }
    }

    /// The rules that hold between blocks.
    fn check_together(&self) -> Result<(), Fault> {
        let root = ComponentPath::default();
        let at_port = |port: &PortPlan, name| ComponentPath::new(["port", &port.name, name]);
        if self.ports.is_empty() {
            return Err(Fault::new(root, "no port is configured; add `[port.NAME]`"));
        }
        if self.router.mode == Mode::Bridged && self.ports.len() != 2 {
            let message = format!("a bridge has two ports, not {}", self.ports.len());
            return Err(Fault::new(ComponentPath::new(["mode"]), message));
        }
        for (n, port) in self.ports.iter().enumerate() {
            let mut others = self.ports[..n].iter();
            if let Some(other) = others.find(|o| o.interface == port.interface) {
                let message = format!("the port `{}` has this interface already", other.name);
                return Err(Fault::new(at_port(port, "interface"), message));
            }
        }
        let needed = self.packets_needed();
        if let Some(pool) = self.router.pool.filter(|pool| *pool < needed) {
            let message = format!(
                "full queues, and what is on its way beside them, need {needed} packets, but the \
                 pool has {pool}: lower the limits, or set `pool` to at least {needed}"
            );
            return Err(Fault::new(ComponentPath::new(["pool"]), message));
        }
        Ok(())
    }

    /// Packets that the ports may hold at most, in their queues and beside them. A pool with fewer
    /// would let one deep queue starve every port.
    pub fn packets_needed(&self) -> usize {
        let limits = self.ports.iter().map(|p| p.discipline.limit());
        limits.sum::<usize>() + reserve(self.ports.len())
    }

    /// The plan after some changes: what they do not name stays as it is, but a discipline of
    /// another kind begins with its defaults and with what is asked for beside it, in whatever order.
    /// No port comes or goes.
    pub fn with(&self, changes: &[Change]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut all = self.changes();
        let is_kind = |change: &&Change| change.path.segments().ends_with(&["discipline", "kind"]);
        let others = changes.iter().filter(|change| !is_kind(change));
        for change in changes.iter().filter(is_kind).chain(others) {
            let path = &change.path;
            if let ["port", port, ..] = path.segments()[..]
                && !self.ports.iter().any(|p| p.name == port)
            {
                let near = nearest(port, self.ports.iter().map(|p| p.name.as_str()));
                let near = did_you_mean(near);
                faults.push(Fault::new(
                    path.clone(),
                    format!("there is no port `{port}`{near}"),
                ));
            }
            if is_kind(&change) && !all.contains(change) {
                all.retain(|c| c.path.parent() != path.parent());
            }
            all.retain(|c| c.path != *path);
            all.push(change.clone());
        }
        match faults.is_empty() {
            true => Self::check(&all),
            false => Err(faults),
        }
    }

    /// The plan as the changes that would ask for it, every default spelt out.
    pub fn changes(&self) -> Vec<Change> {
        let mut changes = spelt_out(&ComponentPath::default(), &self.router.settings);
        for port in &self.ports {
            let path = ComponentPath::new(["port", &port.name]);
            changes.extend(spelt_out(&path, &port.settings));
            let queue = path.join("discipline");
            let kind = Scalar::Text(port.discipline.kind().to_owned());
            changes.push(Change::new(queue.join("kind"), kind));
            changes.extend(spelt_out(&queue, port.discipline.settings()));
        }
        changes
    }

    /// The same as text, for showing and for comparing.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let text = |change: Change| match change.value {
            Some(Scalar::Text(text)) => (change.path.to_string(), text),
            other => unreachable!("{} is {other:?}", change.path),
        };
        self.changes().into_iter().map(text).collect()
    }
}

/// The changes that ask for these settings of the block at `path`.
fn spelt_out(path: &ComponentPath, settings: &Settings) -> Vec<Change> {
    let change = |(name, setting): (&str, &Setting)| {
        Change::new(path.join(name), Scalar::Text(setting.to_string()))
    };
    settings.iter().map(change).collect()
}

fn check_port(
    name: &str,
    port: &Given<'_>,
    queue: &Given<'_>,
    faults: &mut Vec<Fault>,
) -> Option<PortPlan> {
    let path = ComponentPath::new(["port", name]);
    let settings = settings(&path, port::PARAMETERS, port, faults);
    let discipline = queue::check(&path.join("discipline"), queue)
        .map_err(|fault| faults.push(fault))
        .ok()?;
    PortPlan::new(name, settings?, discipline)
        .map_err(|(component, why)| {
            let at = match component {
                "" => path, // the whole port
                component => path.join(component),
            };
            faults.push(Fault::new(at, why));
        })
        .ok()
}

/// Checks one block against its table; every wrong setting becomes a fault.
fn settings(
    path: &ComponentPath,
    table: &'static [Parameter],
    given: &Given<'_>,
    faults: &mut Vec<Fault>,
) -> Option<Settings> {
    let mut wrong = given
        .iter()
        .filter_map(|one| Settings::check(table, [*one]).err())
        .map(|error: SettingError| Fault::new(path.join(error.name()), &error))
        .peekable();
    if wrong.peek().is_some() {
        faults.extend(wrong);
        return None;
    }
    drop(wrong);
    Settings::check(table, given.iter().copied()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &[&str], value: Scalar) -> Change {
        Change::new(ComponentPath::new(path.iter().copied()), value)
    }

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.to_owned())
    }

    fn faults(changes: &[Change]) -> Vec<String> {
        let faults = Plan::check(changes).unwrap_err();
        faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn a_plan_shows_what_was_asked_and_every_default() {
        let plan = Plan::check(&[
            change(&["port", "wan", "rate"], text("100 Mbit")),
            change(&["port", "wan", "discipline", "kind"], text("fifo")),
            change(
                &["port", "wan", "discipline", "limit"],
                Scalar::Integer(100),
            ),
        ])
        .unwrap();
        let shown: Vec<_> = plan
            .shown()
            .iter()
            .map(|(p, v)| format!("{p}={v}"))
            .collect();
        assert_eq!(
            shown,
            [
                "age_max=1 s",
                "bypass_netfilter=false",
                "mode=routed",
                "netfilter_change=warn",
                "pool=0",
                "port.wan.discipline.kind=fifo",
                "port.wan.discipline.limit=100",
                "port.wan.interface=wan",
                "port.wan.local_share=0.5",
                "port.wan.overhead=24 B",
                "port.wan.rate=100 Mbit",
                "port.wan.source_check=kernel",
                "socket=/run/weir/weir.sock",
                "watchdog=1 s",
            ]
        );
    }

    #[test]
    fn a_change_of_one_component_leaves_the_others() {
        let kind = |kind| change(&["port", "wan", "discipline", "kind"], text(kind));
        let limit = |n| change(&["port", "wan", "discipline", "limit"], Scalar::Integer(n));
        let rate = |rate| change(&["port", "wan", "rate"], text(rate));
        let plan = Plan::check(&[kind("red"), limit(300), rate("9.5 Mbit")]).unwrap();
        let gentle = change(&["port", "wan", "discipline", "gentle"], Scalar::Flag(true));
        assert_eq!(plan.with(&plan.changes()), Ok(plan.clone()));
        let changed = plan.with(&[limit(400), gentle.clone()]).unwrap();
        let shown = changed.shown();
        let of = |name: &str| shown[&format!("port.wan.{name}")].as_str();
        assert_eq!((of("discipline.limit"), of("rate")), ("400", "9.5 Mbit"));
        assert_eq!(
            (of("discipline.kind"), of("discipline.gentle")),
            ("red", "true")
        );
        // Another kind begins with its defaults, but for what is asked for with it.
        for changes in [[kind("fifo"), limit(7)], [limit(7), kind("fifo")]] {
            let fifo = plan.with(&changes).unwrap();
            assert_eq!(fifo.shown()["port.wan.discipline.limit"], "7");
        }
        let faults = |changes: &[Change]| plan.with(changes).unwrap_err()[0].to_string();
        assert!(faults(&[kind("fifo"), gentle]).contains("unknown key `gentle`"));
        let near = faults(&[change(&["port", "wam", "rate"], text("1 Mbit"))]);
        assert_eq!(
            near,
            "port.wam.rate: there is no port `wam`; did you mean `wan`?"
        );
        assert!(faults(&[rate("fast")]).contains("must be a rate"));
    }

    #[test]
    fn every_fault_is_told_with_its_remedy() {
        let faults = faults(&[
            change(&["mod"], text("routed")),
            change(&["port", "wan", "rate"], text("fast")),
            change(&["port", "wan", "discipline", "kind"], text("fifi")),
            change(&["ports", "wan", "rate"], text("1 Mbit")),
        ]);
        assert_eq!(
            faults,
            [
                "ports: unknown key `ports`; did you mean `port`?",
                "mod: unknown key `mod`; did you mean `mode`?",
                "port.wan.rate: `rate` is \"fast\", but must be a rate from \"0 bit\" to \"400 Gbit\" \
                 (units: bit, kbit, Mbit, Gbit), like \"95 Mbit\"",
                "port.wan.discipline.kind: there is no discipline `fifi`; did you mean `fifo`?",
            ]
        );
    }

    #[test]
    fn queues_that_could_starve_the_pool_are_refused() {
        let faults = faults(&[
            change(&["pool"], Scalar::Integer(1800)),
            change(&["port", "wan", "discipline", "kind"], text("fifo")),
            change(
                &["port", "wan", "discipline", "limit"],
                Scalar::Integer(1000),
            ),
        ]);
        assert!(faults[0].contains("at least 1832"), "{faults:?}");
    }

    #[test]
    fn an_empty_block_is_a_port_with_every_default() {
        let lan = Change::block(ComponentPath::new(["port", "lan"]));
        let plan = Plan::check(&[lan]).unwrap();
        assert_eq!(plan.ports[0].name, "lan");
        assert_eq!(plan.ports[0].discipline.kind(), queue::KIND_DEFAULT);
        let number = change(&["port", "lan"], Scalar::Integer(3));
        assert!(faults(&[number])[0].contains("must be a section: [port.lan]"));
        let discipline = |kind| faults(&[change(&["port", "lan", "discipline"], text(kind))]);
        let expected = "write discipline = { kind = \"fifo\" }";
        assert!(discipline("fifo")[0].contains(expected));
        assert!(discipline("fq_codle")[0].contains("{ kind = \"fq_codel\" }"));
        assert!(discipline("cake")[0].contains("`host_fair`"));
        let block = Change::block(ComponentPath::new(["wan"]));
        assert!(faults(&[block])[0].contains("unknown key `wan`"));
    }

    #[test]
    fn a_port_has_a_name_that_can_be_printed() {
        for name in ["", "a\nb", "a b", "\u{1b}[2J", &"x".repeat(65)] {
            let told = faults(&[Change::block(ComponentPath::new(["port", name]))]);
            assert!(told[0].contains("like [port.wan]"), "{told:?}");
        }
        let dotted = Change::block(ComponentPath::new(["port", "eth0.100"]));
        assert!(Plan::check(&[dotted]).is_ok());
    }

    #[test]
    fn blocks_must_agree() {
        let fifo = |port| change(&["port", port, "discipline", "kind"], text("fifo"));
        assert!(faults(&[])[0].contains("no port"));
        let bridged = [change(&["mode"], text("bridged")), fifo("a")];
        assert!(faults(&bridged)[0].contains("two ports"));
        let twice = [
            fifo("a"),
            fifo("b"),
            change(&["port", "b", "interface"], text("a")),
        ];
        assert!(faults(&twice)[0].contains("already"));
    }
}
