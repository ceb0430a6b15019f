//! Why packets to a destination do not leave an FE: the first reason on the path of their route.
//!
//! ```text
//!   routing suite -----> CE -----> tables of the FE -----> kernel of the FE -----> port -----> next hop
//!   no-route             no-port   fe-away                 other-route             no-carrier  next-hop-unresolved
//!   protocol-not-listed  not-sent  fe-refused              fe-lacks                ..
//! ```
//!
//! [`Evidence`] contains the knowledge of the CE and the answer of the FE. [`Evidence::explain`] only compares.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use weir_model::explain::{ExitReport, ReasonReport, StepReport};
use weir_model::{RouteExplanation, Target, Value};

use crate::route::{Hop, LEARNT_MAX};

/// Declares the reasons: the name of each, its meaning and its remedy.
macro_rules! reasons {
    ($($reason:ident = $name:literal, $meaning:literal, $remedy:literal;)*) => {
        /// Why packets do not leave an FE.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason { $(#[doc = $meaning] $reason,)* }

        impl Reason {
            /// Every reason, in the order of the checks.
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// The name, which is stable.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name,)* }
            }

            /// The meaning, as a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$reason => $meaning,)* }
            }

            /// The remedy, as a sentence.
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$reason => $remedy,)* }
            }
        }
    };
}

reasons! {
    SuiteUnreadable = "suite-unreadable",
        "The CE cannot read the routes of the routing suite.",
        "Correct `namespace` or `fpm` of the router. The CE retries every second, and `weir show routers` shows its last error.";
    NoRoute = "no-route",
        "Neither the routing suite nor an operator has a route, and the FE has none of its own.",
        "Check the routing protocol in the namespace of the suite (`vtysh -c 'show ip route'`), or add a route with `weir route add`.";
    ProtocolNotListed = "protocol-not-listed",
        "The routing suite has a route, but the router does not list its protocol.",
        "Add the protocol to `protocols` of the router, and restart the CE.";
    DependsOnSource = "depends-on-source",
        "The routing suite has a route that depends on the source address, which an FE cannot have.",
        "Replace it with a route for all sources.";
    NotForwarded = "not-forwarded",
        "The route of the routing suite delivers to its own machine, or is valid on that machine only.",
        "None for an address of a remote port: the FE redirects its packets to the CE. Otherwise remove the address or the route from the CE's machine.";
    NoTap = "no-tap",
        "No next hop of the routing suite's route is at a TAP of the FE, with an address of the prefix's family.",
        "Add a [remote.NAME] with `tap = true` for the port, or correct the next hop in the suite.";
    Discarded = "discarded",
        "The route drops its packets: `blackhole`, `unreachable` or `prohibit`.",
        "Remove the route in the routing suite; a more specific route also helps.";
    NoPort = "no-port",
        "The FE does not have the port of the route.",
        "Correct the port of the route or of [remote.NAME]; `weir show ports --fe NAME` lists the ports.";
    TableFull = "table-full",
        "The FE has the maximum number of routes of a routing suite.",
        "Reduce the routes of the suite, for example with a filter of zebra.";
    FeAway = "fe-away",
        "The FE is not associated, so the CE does not know its routes.",
        "Start the FE, or repair its link to the CE; `weir show fes` and the FE's log show why.";
    FeRefused = "fe-refused",
        "The FE has refused the route.",
        "Read the FE's error. Most often the next hop is in none of its connected networks: give the interface of the port an address.";
    NotRestored = "not-restored",
        "The FE has refused its desired configuration, so the CE has not restored its routes.",
        "Correct the configuration: `weir show network` lists the differences.";
    NotSent = "not-sent",
        "The FE does not have the route yet.",
        "Repeat the command after some seconds; `weir show fes` and the CE's log show why it takes longer.";
    FeSilent = "fe-silent",
        "The FE does not answer the question about the route.",
        "Repeat the command; `weir show associations` shows whether messages arrive.";
    FeStopped = "fe-stopped",
        "The FE does not forward at all.",
        "Run `weir enable` at the FE, or set FEObject.1.FEState to OperEnable.";
    OtherRoute = "other-route",
        "The FE forwards by another route, with a longer prefix, or with the same prefix from another program.",
        "Remove that route from the FE's machine, or give it a metric above 50, the metric of the CE's routes.";
    NotAPort = "not-a-port",
        "The FE's route leaves through an interface that is not a port.",
        "Add the interface to the FE's configuration as [port.NAME].";
    PortDown = "port-down",
        "The port of the FE is down.",
        "Set its interface up: `ip link set INTERFACE up`.";
    NoCarrier = "no-carrier",
        "The port of the FE has no carrier.",
        "Check the cable and the device at its other end.";
    FeLacks = "fe-lacks",
        "The FE has accepted the route, but its kernel does not have it.",
        "`weir show ce_routes --fe NAME` shows why; the FE tries again by itself.";
    FeDiscards = "fe-discards",
        "The FE's own route drops the packets.",
        "Remove the route from the FE's machine.";
    NextHopUnresolved = "next-hop-unresolved",
        "The next hop does not answer ARP or neighbour discovery.",
        "Check that the next hop runs and has this address on the link; `weir show neighbours --fe NAME` lists who answers.";
}

/// A destination in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Exactly this prefix.
    Prefix(IpNet),
    /// The longest prefix that covers this address.
    Address(IpAddr),
}

impl Destination {
    /// The address by which a route is looked up.
    pub fn address(self) -> IpAddr {
        match self {
            Self::Prefix(prefix) => prefix.addr(),
            Self::Address(address) => address,
        }
    }

    /// The prefixes whose routes packets may take, longest first.
    pub fn candidates(self) -> impl Iterator<Item = IpNet> {
        let address = self.address();
        let len = match self {
            Self::Prefix(prefix) => prefix.prefix_len(),
            Self::Address(_) => IpNet::from(address).prefix_len(),
        };
        let covering = move |len| IpNet::new(address, len).ok().map(|net| net.trunc());
        (0..=len).rev().filter_map(covering)
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse::<IpNet>(), text.parse()) {
            (Ok(prefix), _) if prefix != prefix.trunc() => Err(format!(
                "`{text}` has bits behind its prefix; write {} or {}",
                prefix.trunc(),
                prefix.addr()
            )),
            (Ok(prefix), _) => Ok(Self::Prefix(prefix)),
            (_, Ok(address)) => Ok(Self::Address(address)),
            _ => Err(format!(
                "`{text}` is not a prefix or an address, like 10.0.0.0/8 or 2001:db8::7"
            )),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Why an FE does not get a route of its routing suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// The router does not list the protocol.
    Protocol,
    /// The route depends on the source.
    BySource,
    /// The route is for the suite's machine.
    Own,
    /// The route is for an address of a remote port, whose packets the FE redirects to the CE.
    Redirected,
    /// No next hop is possible at the FE.
    NoTap,
}

impl Withheld {
    /// Why the FE's routes differ from the suite's; `None` if the FE never gets such a route.
    pub const fn differing(self) -> Option<&'static str> {
        match self {
            Self::Protocol | Self::Own | Self::Redirected => None,
            Self::BySource => Some("depends on the source"),
            Self::NoTap => Some("through no TAP of the FE, or with a gateway of another family"),
        }
    }

    const fn reason(self) -> Reason {
        match self {
            Self::Protocol => Reason::ProtocolNotListed,
            Self::BySource => Reason::DependsOnSource,
            Self::Own | Self::Redirected => Reason::NotForwarded,
            Self::NoTap => Reason::NoTap,
        }
    }
}

/// The route of a routing suite for a destination.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteView {
    /// Name of the router.
    pub router: String,
    /// Network namespace of the suite; `None`: that of the CE.
    pub namespace: Option<String>,
    /// The route of the namespace; `None` if it has none.
    pub route: Result<Option<SuiteRoute>, String>,
}

/// A route of a routing suite.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteRoute {
    /// The prefix.
    pub prefix: IpNet,
    /// The protocol that has found it.
    pub protocol: u8,
    /// The rest of the route, as in `ip route`.
    pub shown: String,
    /// Why the FE does not get it.
    pub withheld: Option<Withheld>,
    /// Whether the CE has not taken it yet.
    pub is_waiting: bool,
}

/// The route that the CE wants at the FE.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredRoute {
    /// The prefix.
    pub prefix: IpNet,
    /// The metric.
    pub metric: u32,
    /// Whether a routing suite has found it; otherwise an operator has set it.
    pub is_learnt: bool,
    /// Where its packets go.
    pub target: Target<Hop>,
}

/// How far the CE has brought the route to the FE, or the FE itself to the CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The FE is not associated.
    Away(String),
    /// The FE does not have the port.
    NoPort(String),
    /// The FE has refused the route.
    Refused(String),
    /// The FE has refused its configuration.
    NotRestored(String),
    /// The FE does not have the current route yet.
    Waiting,
    /// The FE has the route in its tables.
    Written,
}

/// The answer of an FE, as its tables present it.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementView {
    /// The row of `status`.
    pub status: Value,
    /// The rows of `ports`.
    pub ports: Vec<Value>,
    /// The rows of `neighbours`.
    pub neighbours: Vec<Value>,
    /// The rows of `routes` that cover the destination.
    pub routes: Vec<Value>,
    /// Routes that the kernel lacks, as last reported.
    pub lacks: Option<String>,
}

/// Everything that is known about a destination at an FE.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Name of the FE.
    pub fe: String,
    /// The destination.
    pub destination: Destination,
    /// The routing suite that routes for the FE.
    pub suite: Option<SuiteView>,
    /// The desired route.
    pub desired: Option<DesiredRoute>,
    /// Whether the FE has the maximum number of routes of a routing suite.
    pub is_full: bool,
    /// Whether the FE has the desired route.
    pub progress: Progress,
    /// The answer of the FE, or why there is none.
    pub element: Result<ElementView, String>,
}

/// The reason why packets do not leave, with a sentence about this case.
type Stop = (Reason, String);

/// The path so far.
#[derive(Default)]
struct Walk {
    /// Why the FE does not get the suite's route. Its packets may take a shorter one.
    withheld: Option<Stop>,
    steps: Vec<StepReport>,
    exits: Vec<ExitReport>,
}

impl Walk {
    fn step(&mut self, at: impl Into<String>, found: impl Into<String>) {
        let (at, found) = (at.into(), found.into());
        self.steps.push(StepReport { at, found });
    }

    /// Why neither the FE nor the CE has a route: it is withheld, or there is none, with this sentence.
    fn stop_without_route(&mut self, nothing: String) -> Stop {
        let withheld = self.withheld.take();
        withheld.unwrap_or((Reason::NoRoute, nothing))
    }
}

impl Evidence {
    /// Follows the path of the route up to the first reason.
    pub fn explain(&self) -> RouteExplanation {
        let mut walk = Walk::default();
        let done = self.of_suite(&mut walk);
        let done = done.and_then(|()| self.of_ce(&mut walk));
        let done = done.and_then(|()| self.of_element(&mut walk));
        if let Some((_, found)) = walk.withheld.take() {
            let at = "not at the forwarding element".to_owned();
            walk.steps.insert(1, StepReport { at, found }); // behind the suite's route
        }
        explanation(&self.fe, self.destination, walk, done)
    }

    fn of_suite(&self, walk: &mut Walk) -> Result<(), Stop> {
        let Some(suite) = &self.suite else {
            return Ok(());
        };
        let at = format!("routing suite {}", suite.router);
        let of_operator = self.desired.as_ref().filter(|desired| !desired.is_learnt);
        let route = match &suite.route {
            Ok(Some(route)) => route,
            Ok(None) => {
                walk.step(
                    at,
                    format!(
                        "no route in the tables local, main and default of {}",
                        suite.place()
                    ),
                );
                return Ok(());
            }
            Err(_) if of_operator.is_some() => return Ok(()),
            Err(why) => return Err((Reason::SuiteUnreadable, why.clone())),
        };
        let word = crate::router::protocol_word(route.protocol);
        walk.step(
            at,
            format!("{} {}, protocol {word}", route.prefix, route.shown),
        );
        if of_operator
            .is_some_and(|desired| desired.prefix.prefix_len() >= route.prefix.prefix_len())
        {
            return Ok(());
        }
        let prefix = route.prefix;
        if let Some(withheld) = route.withheld {
            let reason = withheld.reason();
            let why = match withheld {
                Withheld::Protocol => format!(
                    "the route {prefix} has the protocol `{word}`, which `protocols` of [router.{}] does not list",
                    suite.router
                ),
                _ => format!("{prefix} {}: {}", route.shown, uncapped(reason.meaning())),
            };
            if withheld == Withheld::Redirected {
                return Err((reason, why));
            }
            walk.withheld = Some((reason, why));
            return Ok(());
        }
        let has_it = |desired: &DesiredRoute| desired.is_learnt && desired.prefix == prefix;
        match (self.desired.as_ref().is_some_and(has_it), route.is_waiting) {
            (true, false) => Ok(()),
            (false, _) if self.is_full => Err((
                Reason::TableFull,
                format!(
                    "{} has no room for {prefix}: it has {LEARNT_MAX} routes of the routing suite",
                    self.fe
                ),
            )),
            _ => Err((
                Reason::NotSent,
                format!("the CE has not taken {prefix} from the routing suite yet"),
            )),
        }
    }

    fn of_ce(&self, walk: &mut Walk) -> Result<(), Stop> {
        let away = match &self.progress {
            Progress::Away(why) => Some((
                Reason::FeAway,
                format!("{} is not associated: {why}", self.fe),
            )),
            _ => None,
        };
        let Some(desired) = &self.desired else {
            walk.step("control element", "no desired route");
            return match away {
                Some(_) if self.suite.is_some() => {
                    let nothing = "neither the routing suite nor an operator has a route";
                    let (reason, why) = walk.stop_without_route(nothing.to_owned());
                    let why = format!("{why}, and {} is not associated", self.fe);
                    Err((reason, why))
                }
                Some(away) => Err(away),
                None => Ok(()),
            };
        };
        let DesiredRoute { prefix, metric, .. } = desired;
        let (target, origin) = (shown(&desired.target), desired.origin());
        walk.step(
            "control element",
            format!("{prefix} {target} metric {metric}, from {origin}"),
        );
        if let Target::Discard(discard) = desired.target {
            let why = format!("{origin} drops the packets to {prefix}: {}", discard.word());
            return Err((Reason::Discarded, why));
        }
        let fe = &self.fe;
        match &self.progress {
            Progress::NoPort(why) => Err((Reason::NoPort, format!("{fe}: {why}"))),
            Progress::Away(_) => away.map_or(Ok(()), Err),
            Progress::Refused(why) => Err((
                Reason::FeRefused,
                format!("{fe} has refused {prefix}: {why}"),
            )),
            Progress::NotRestored(why) => {
                let why = format!("{fe} has refused its desired configuration: {why}");
                Err((Reason::NotRestored, why))
            }
            Progress::Waiting => Err((Reason::NotSent, format!("{fe} does not have {prefix} yet"))),
            Progress::Written => Ok(()),
        }
    }

    fn of_element(&self, walk: &mut Walk) -> Result<(), Stop> {
        let element = match &self.element {
            Ok(element) => element,
            Err(why) => return Err((Reason::FeSilent, why.clone())),
        };
        if element.status.get("forwards") == Some(&Value::Flag(false)) {
            let why = element
                .status
                .text("stopped_why")
                .unwrap_or("it was stopped");
            return Err((
                Reason::FeStopped,
                format!("{} does not forward: {why}", self.fe),
            ));
        }
        let (prefix, row) = self.route_of(walk, element)?;
        let action = row.text("action").unwrap_or_default();
        let hops: Vec<FeHop> = row
            .get("next_hops")
            .map_or(&[][..], Value::rows)
            .iter()
            .map(FeHop::of)
            .collect();
        let target: Vec<_> = hops.iter().map(ToString::to_string).collect();
        let found = match action {
            "forward" => format!("{prefix} {}", target.join(", ")),
            action => format!("{prefix} {action}"),
        };
        walk.step(format!("forwarding element {}", self.fe), found.clone());
        if action == "local" {
            walk.step("destination", "the packets are for the machine of the FE");
            return Ok(());
        }
        if let Some(desired) = self
            .desired
            .as_ref()
            .filter(|desired| !element.follows(desired, &prefix, &hops))
        {
            let why = format!(
                "{} forwards by {found}, not by {} {}",
                self.fe,
                desired.prefix,
                shown(&desired.target)
            );
            return Err((Reason::OtherRoute, why));
        }
        if action != "forward" {
            return Err((
                Reason::FeDiscards,
                format!("{} drops the packets by its route {found}", self.fe),
            ));
        }
        let mut first = None;
        for hop in &hops {
            match element.exit(hop, self.destination) {
                Ok(exit) => walk.exits.push(exit),
                Err(stop) => drop(first.get_or_insert(stop)),
            }
        }
        match first {
            Some(stop) if walk.exits.is_empty() => Err(stop),
            Some((_, why)) => {
                walk.step("next hop that is not used", why);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The FE's route for the destination.
    fn route_of<'a>(
        &self,
        walk: &mut Walk,
        element: &'a ElementView,
    ) -> Result<(IpNet, &'a Value), Stop> {
        let rows = element.routes.iter();
        let rows = rows.filter_map(|row| Some((row.text("prefix")?.parse::<IpNet>().ok()?, row)));
        let longest = rows.max_by_key(|(prefix, _)| prefix.prefix_len());
        let least = match (&self.desired, self.destination) {
            (Some(desired), _) => desired.prefix.prefix_len(),
            (None, Destination::Prefix(prefix)) => prefix.prefix_len(),
            (None, Destination::Address(_)) => 0,
        };
        if let Some(found) = longest.filter(|(prefix, _)| prefix.prefix_len() >= least) {
            return Ok(found);
        }
        let instead = longest.map(|(prefix, _)| format!("; its packets take {prefix}"));
        let instead = instead.unwrap_or_default();
        let Some(desired) = &self.desired else {
            let down = element
                .ports
                .iter()
                .filter_map(|port| element.trouble(port.text("port")?));
            let down: String = down.map(|(_, why)| format!("; {why}")).collect();
            let nothing = format!(
                "no routing suite, no operator, and no program at {} has a route",
                self.fe
            );
            let (reason, why) = walk.stop_without_route(nothing);
            return Err((reason, format!("{why}{instead}{down}")));
        };
        let ports: Vec<_> = desired
            .target
            .hops()
            .map(|(hop, _)| element.trouble(&hop.port))
            .collect();
        if let Some(Some(stop)) = ports.iter().find(|_| ports.iter().all(Option::is_some)) {
            return Err(stop.clone());
        }
        let lacks = element
            .lacks
            .as_deref()
            .unwrap_or("the FE does not report why");
        let why = format!(
            "the kernel of {} does not have {}: {lacks}{instead}",
            self.fe, desired.prefix
        );
        Err((Reason::FeLacks, why))
    }
}

impl SuiteView {
    fn place(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("the network namespace {namespace}"),
            None => "the network namespace of the CE".to_owned(),
        }
    }
}

impl DesiredRoute {
    const fn origin(&self) -> &'static str {
        match self.is_learnt {
            true => "the routing suite",
            false => "an operator",
        }
    }
}

impl ElementView {
    fn port(&self, key: &str, value: &str) -> Option<&Value> {
        self.ports.iter().find(|port| port.text(key) == Some(value))
    }

    /// Why a port carries no packets.
    fn trouble(&self, name: &str) -> Option<Stop> {
        let port = self.port("port", name)?;
        let interface = port.text("interface").unwrap_or_default();
        match port.text("state")? {
            "up" => None,
            "no carrier" => Some((
                Reason::NoCarrier,
                format!("port {name} ({interface}) has no carrier"),
            )),
            _ => Some((
                Reason::PortDown,
                format!("port {name} ({interface}) is down"),
            )),
        }
    }

    /// Whether the FE's route is the desired one; of several next hops some may be missing. Its connected routes have the
    /// target of the suite's.
    fn follows(&self, desired: &DesiredRoute, prefix: &IpNet, hops: &[FeHop]) -> bool {
        let interface = |hop: &Hop| self.port("port", &hop.port)?.text("interface");
        let mut all = desired.target.hops();
        let is_same = |hop: &Hop, own: &FeHop| {
            own.gateway == hop.gateway && interface(hop) == Some(own.interface)
        };
        *prefix == desired.prefix && all.any(|(hop, _)| hops.iter().any(|own| is_same(hop, own)))
    }

    /// The port and the neighbour of a next hop, if both work.
    fn exit(&self, hop: &FeHop, destination: Destination) -> Result<ExitReport, Stop> {
        let interface = hop.interface;
        let Some(port) = self.port("interface", interface) else {
            return Err((
                Reason::NotAPort,
                format!("the interface {interface} is not a port"),
            ));
        };
        let name = port.text("port").unwrap_or_default();
        if let Some(stop) = self.trouble(name) {
            return Err(stop);
        }
        let mut exit = ExitReport {
            port: name.to_owned(),
            via: hop.gateway.map(|gateway| gateway.to_string()),
            mac: None,
        };
        let neighbour = match (hop.gateway, destination) {
            (Some(gateway), _) => gateway,
            (None, Destination::Address(address)) => address,
            (None, Destination::Prefix(_)) => return Ok(exit),
        };
        if port.text("mac") == Some(NO_MAC) {
            return Ok(exit); // a link without addresses
        }
        let (address, is_gateway) = (neighbour.to_string(), hop.gateway.is_some());
        let is_it = |row: &&Value| {
            row.text("interface") == Some(interface) && row.text("address") == Some(&address)
        };
        let known = self.neighbours.iter().find(is_it);
        exit.mac = known.and_then(|row| row.text("mac")).map(str::to_owned);
        match (&exit.mac, known) {
            (Some(_), _) => Ok(exit),
            (None, None) if !is_gateway => Ok(exit), // the FE asks with the first packet
            (None, None) => Err((
                Reason::NextHopUnresolved,
                format!("{address} at port {name} is not resolved"),
            )),
            (None, Some(_)) => Err((
                Reason::NextHopUnresolved,
                format!("{address} at port {name} does not answer"),
            )),
        }
    }
}

/// The MAC address of an interface that has none.
const NO_MAC: &str = "00:00:00:00:00:00";

/// A next hop of an FE's route.
struct FeHop<'a> {
    gateway: Option<IpAddr>,
    interface: &'a str,
}

impl<'a> FeHop<'a> {
    fn of(row: &'a Value) -> Self {
        Self {
            gateway: row.text("gateway").and_then(|text| text.parse().ok()),
            interface: row.text("interface").unwrap_or_default(),
        }
    }
}

impl fmt::Display for FeHop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gateway {
            Some(gateway) => write!(f, "via {gateway} dev {}", self.interface),
            None => write!(f, "dev {}", self.interface),
        }
    }
}

/// The explanation for an FE whose CE does not answer, for example because the FE was removed meanwhile.
pub fn unanswered(fe: &str, destination: Destination, why: String) -> RouteExplanation {
    let stop = Err((Reason::FeSilent, why));
    explanation(fe, destination, Walk::default(), stop)
}

fn explanation(
    fe: &str,
    destination: Destination,
    walk: Walk,
    done: Result<(), Stop>,
) -> RouteExplanation {
    RouteExplanation {
        fe: fe.to_owned(),
        destination: destination.to_string(),
        reachable: done.is_ok(),
        reason: done.err().map(|(reason, why)| ReasonReport {
            name: reason.name().to_owned(),
            why,
            remedy: reason.remedy().to_owned(),
        }),
        steps: walk.steps,
        exits: walk.exits,
    }
}

/// A target as in `ip route`.
fn shown(target: &Target<Hop>) -> String {
    let hops: Vec<_> = target.hops().map(|(hop, _)| hop.to_string()).collect();
    match target {
        Target::Discard(discard) => discard.word().to_owned(),
        _ => hops.join(", "),
    }
}

/// A sentence as the end of another one.
fn uncapped(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests;
