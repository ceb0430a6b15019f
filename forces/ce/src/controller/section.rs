//! The sections `[controller.NAME]` and `[device.NAME]` of a control element's configuration.
//!
//! ```toml
//! [controller.flow]
//! kind = "flow_control"
//! uplinks = "edge1, edge2.ce"        # with commas between them: the exceptions of an FE; a port's queue
//! total = "100 Mbit"
//!
//! [controller.rs]
//! kind = "backpressure"
//! period = "40 ms"
//! ingress = "edge1.wan, edge2.wan"
//! egress = "core.Gi0/1"              # a port of a device that is not weir
//!
//! [device.core]
//! address = "192.0.2.9:161"
//! secrets = "core.snmp"
//! ```
//!
//! The keys of a controller are those of its kind, its roles, and `period`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use weir_base::Span;
use weir_base::setting::{Kind, Parameter, Scalar, Settings, did_you_mean, nearest};
use weir_controller::spec::{KINDS, SpecError, manual};
use weir_controller::{Manual, Role, Spec};
use weir_lfb::fe::address;
use weir_model::{Class, ComponentPath, Fault, Section};

use super::redirect;
use crate::sections::wrong;

/// Longest list of queues of a role, in bytes.
const QUEUES_MAX: usize = 1 << 20;

const PERIOD: Parameter = Parameter::new(
    "period",
    Kind::Span(Span::from_millis(10), Span::from_secs(60)),
    "40 ms",
    "time between two decisions; queues report changes at the same interval",
)
.id(50);

/// ID of the first role; the other roles follow in their order.
const ROLES: u32 = 51;

/// The classes of controllers, with all keys of their sections.
static CONTROLLERS: LazyLock<Vec<(&'static Manual, Vec<Parameter>)>> = LazyLock::new(|| {
    let of_kind = |manual: &'static Manual| {
        let role = |(place, role): (usize, &Role)| {
            let about = role.about;
            Parameter::new(role.name, Kind::Text(QUEUES_MAX), "", about).id(ROLES + place as u32)
        };
        let roles = manual.roles.iter().enumerate().map(role);
        let own = manual.parameters.iter().copied();
        (manual, own.chain([PERIOD]).chain(roles).collect())
    };
    KINDS.iter().map(|kind| of_kind(&kind.manual)).collect()
});

/// The section of a controller.
pub static CONTROLLER: Section = Section {
    key: "controller",
    has_instances: true,
    about: "A controller that steers queues of FEs. The key of each role lists its queues as FE.PORT, separated by \
            commas. `uplinks` also permits FE alone: the token buckets of the packets that the FE redirects to the CE. \
            Choose any NAME.",
    classes: || {
        let class = |(manual, parameters): &'static (&'static Manual, Vec<Parameter>)| Class {
            name: manual.name,
            id: manual.id,
            about: manual.purpose,
            parameters,
            gauges: manual.gauges,
            ..Class::PLAIN
        };
        CONTROLLERS.iter().map(class).collect()
    },
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [{path}.NAME], with a `kind`")
    },
    sections: &[],
};

/// The class of a device that is not weir.
pub const DEVICE_CLASS: Class = Class {
    name: "device",
    id: 0x00F7_0316,
    about: "a device that does not run weir, whose ports are sampled by SNMP (IF-MIB, RFC 2863)",
    parameters: &[
        Parameter::new("address", Kind::Text(64), "", "address and UDP port of its SNMP agent").id(1),
        Parameter::new(
            "secrets",
            Kind::Text(4096),
            "",
            "file with the SNMP credentials: `community = ..` (SNMPv2c), or `user`, `auth`, `auth_password`, \
             `privacy` and `privacy_password` (SNMPv3); only its owner may read it",
        )
        .id(2),
        Parameter::new(
            "timeout",
            Kind::Span(Span::from_millis(1), Span::from_secs(60)),
            "1 s",
            "maximum time for an answer; one request is outstanding at a time",
        )
        .id(3),
    ],
    ..Class::PLAIN
};

/// The section of a device that is not weir.
pub static DEVICE: Section = Section {
    key: "device",
    has_instances: true,
    about: "A device that does not run weir. Controllers can only sample its ports, by SNMP. Choose any NAME.",
    classes: || vec![DEVICE_CLASS],
    kind_default: "",
    no_value: |path, value| {
        format!("`{path}` is {value}, but must be a section: [{path}.NAME], with an `address`")
    },
    sections: &[],
};

/// A device that is not weir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlan {
    /// Name of the device.
    pub name: String,
    /// Address of the device's SNMP agent.
    pub address: SocketAddr,
    /// File with the SNMP secrets.
    pub secrets: String,
    /// Timeout for an answer.
    pub timeout: Span,
}

/// A controller with its queues.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerPlan {
    /// Name of the controller.
    pub name: String,
    /// Kind and parameters of the controller.
    pub spec: Spec,
    /// Time between two decisions.
    pub period: Span,
    /// Queues, in the order of the roles.
    pub queues: Vec<QueuePlan>,
}

/// A queue of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    /// Name of the FE or device.
    pub element: Arc<str>,
    /// The kind of queue; all queues of an element have the same kind.
    pub kind: QueueKind,
    /// Name of the port, or of the LFB for [`QueueKind::Redirect`].
    pub port: Arc<str>,
    /// The role of the queue.
    pub role: &'static Role,
}

/// The kinds of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// The queue of a port of an FE.
    #[default]
    Port,
    /// Packets that an FE redirects to the CE: its LFB `redirect`.
    Redirect,
    /// A port of a device that is not weir.
    Device,
}

/// Settings given for one section instance: names and values.
type Given<'a> = [(&'a str, &'a Scalar)];

impl DevicePlan {
    /// Checks the section of a device.
    pub fn check(name: &str, given: &Given<'_>) -> Result<Self, Vec<Fault>> {
        let path = ComponentPath::new([DEVICE.key, name]);
        let of_setting = |error| vec![Fault::of_setting(&path, &DEVICE_CLASS, &error)];
        let given = given.iter().copied();
        let settings = Settings::check(DEVICE_CLASS.parameters, given).map_err(of_setting)?;
        let address = address(&settings, &path, "address", "192.0.2.9:161");
        let address = address.map_err(|fault| vec![fault])?;
        let secrets = settings.text("secrets");
        if secrets.is_empty() {
            let why = "a device needs `secrets`: a file with a line like community = \"public\"";
            return Err(vec![wrong(path.join("secrets"), why)]);
        }
        Ok(Self {
            name: name.to_owned(),
            address,
            secrets: secrets.to_owned(),
            timeout: settings.span("timeout"),
        })
    }
}

impl ControllerPlan {
    /// Checks the section of a controller; its queues must belong to these FEs and devices.
    pub fn check(
        name: &str,
        given: &Given<'_>,
        fes: &[&str],
        devices: &[&str],
    ) -> Result<Self, Vec<Fault>> {
        let path = ComponentPath::new([CONTROLLER.key, name]);
        let one = |key: &str, why: String| vec![wrong(path.join(key), why)];
        let kind = given.iter().find(|(key, _)| *key == "kind");
        let Some((_, Scalar::Text(kind))) = kind else {
            let kinds: Vec<_> = KINDS.iter().map(|kind| kind.manual.name).collect();
            let why = format!("a controller needs a `kind`: {}", kinds.join(" or "));
            return Err(one("kind", why));
        };
        let manual = manual(kind).map_err(|error| one("kind", error.to_string()))?;
        let (mut queues, mut counts, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for role in manual.roles {
            let before = queues.len();
            let listed = given.iter().find(|(key, _)| *key == role.name);
            match listed.map_or(Ok(Vec::new()), |(_, list)| {
                of_role(role, list, fes, devices)
            }) {
                Ok(of_role) => queues.extend(of_role),
                Err(why) => faults.extend(one(role.name, why)),
            }
            counts.push(queues.len() - before);
        }
        let is_other = |key: &str| manual.roles.iter().any(|role| role.name == key);
        let mut settings = Vec::new();
        let mut period = Settings::defaults(&[PERIOD]);
        for (key, value) in given
            .iter()
            .filter(|(key, _)| *key != "kind" && !is_other(key))
        {
            if *key == PERIOD.name {
                if let Err(error) = period.set(&[PERIOD], key, value) {
                    faults.extend(one(key, error.to_string()));
                }
            } else {
                settings.push((*key, *value))
            }
        }
        faults.extend(repeated(&queues).map(|(queue, why)| wrong(path.join(queue.role.name), why)));
        if !faults.is_empty() {
            return Err(faults);
        }
        let spec = Spec::check(kind, &counts, settings).map_err(|error| match &error {
            SpecError::Setting(e) => one(e.name(), error.to_string()),
            SpecError::Queues { role, .. } => one(role, error.to_string()),
            SpecError::UnknownKind { .. } => one("kind", error.to_string()),
        })?;
        Ok(Self {
            name: name.to_owned(),
            spec,
            period: period.span(PERIOD.name),
            queues,
        })
    }

    /// Checks that no two controllers set the same parameter of one queue.
    pub fn check_all(all: &[Self]) -> Result<(), Vec<Fault>> {
        let mut taken: BTreeMap<(String, &str), &str> = BTreeMap::new();
        let mut faults = Vec::new();
        for controller in all {
            for queue in &controller.queues {
                for parameter in queue.role.sets {
                    let place = (queue.item(), *parameter);
                    if let Some(other) = taken.insert(place, &controller.name) {
                        let path = [CONTROLLER.key, &controller.name, queue.role.name];
                        let why = format!(
                            "sets `{parameter}` at `{}`, which the controller `{other}` also sets",
                            queue.item()
                        );
                        faults.push(wrong(ComponentPath::new(path), why));
                    }
                }
            }
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }
}

impl QueuePlan {
    /// The queue in the notation of a list.
    fn item(&self) -> String {
        match self.kind {
            QueueKind::Redirect => self.element.to_string(),
            _ => format!("{}.{}", self.element, self.port),
        }
    }
}

/// Queues that occur twice, and queues of FEs with two kinds of queues: each with the reason.
fn repeated(queues: &[QueuePlan]) -> impl Iterator<Item = (&QueuePlan, String)> {
    let mut seen = BTreeSet::new();
    let mut kinds: BTreeMap<&str, &QueuePlan> = BTreeMap::new();
    queues.iter().filter_map(move |queue| {
        let item = queue.item();
        let first = *kinds.entry(&queue.element).or_insert(queue);
        if first.kind != queue.kind {
            let first = first.item();
            let why = format!("lists `{first}` and `{item}`, but an FE must be listed either alone (its exceptions) or with a port");
            return Some((queue, why));
        }
        (!seen.insert(item.clone())).then(|| (queue, format!("lists `{item}` twice")))
    })
}

/// The queues that a role lists.
fn of_role(
    role: &'static Role,
    list: &Scalar,
    fes: &[&str],
    devices: &[&str],
) -> Result<Vec<QueuePlan>, String> {
    let can_be_redirect = redirect::can_be(role);
    let permitted = if can_be_redirect {
        "but must list queues as \"FE.PORT, FE.PORT\", or FEs as \"FE, FE\""
    } else {
        "but must list queues as \"FE.PORT, FE.PORT\""
    };
    let Scalar::Text(list) = list else {
        return Err(format!("`{}` is {list}, {permitted}", role.name));
    };
    let queue = |item: &str| {
        let (element, port) = match item.split_once('.') {
            Some((element, port)) if !port.is_empty() => (element, Some(port)),
            None if can_be_redirect => (item, None),
            _ => return Err(format!("`{}` has \"{item}\", {permitted}", role.name)),
        };
        let is_device = devices.contains(&element);
        if !is_device && !fes.contains(&element) {
            let all = fes.iter().chain(devices).copied();
            let near = did_you_mean(nearest(element, all));
            return Err(format!(
                "`{}` lists \"{item}\", but there is no FE or device `{element}`{near}",
                role.name
            ));
        }
        if is_device && !(role.sets.is_empty() && role.reads.is_empty()) {
            return Err(format!(
                "`{}` lists \"{item}\", but a device that does not run weir can only be sampled, and `{}` permits only \
                 queues of FEs",
                role.name, role.name
            ));
        }
        let kind = match port {
            None => QueueKind::Redirect,
            Some(_) if is_device => QueueKind::Device,
            Some(_) => QueueKind::Port,
        };
        Ok(QueuePlan {
            element: element.into(),
            kind,
            port: port.unwrap_or(redirect::NAME).into(),
            role,
        })
    };
    let items = list
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items.map(queue).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &[(&str, &str)]) -> Result<ControllerPlan, Vec<String>> {
        let given: Vec<_> = given
            .iter()
            .map(|(key, value)| (*key, Scalar::Text((*value).to_owned())))
            .collect();
        let given: Vec<_> = given.iter().map(|(key, value)| (*key, value)).collect();
        let plan = ControllerPlan::check("c", &given, &["edge1", "edge2"], &["core"]);
        plan.map_err(|faults| faults.iter().map(Fault::to_string).collect())
    }

    #[test]
    fn queues_are_of_fes_and_of_devices() {
        let plan = check(&[
            ("kind", "backpressure"),
            ("period", "80 ms"),
            ("ingress", "edge1.wan, edge2.eth0.100,"),
            ("egress", "core.Gi0/1"),
            ("weight", "0.2"),
        ])
        .unwrap();
        assert_eq!(plan.period, Span::from_millis(80));
        let queue =
            |q: &QueuePlan| format!("{} {}.{} {:?}", q.role.name, q.element, q.port, q.kind);
        let queues: Vec<_> = plan.queues.iter().map(queue).collect();
        let expected = [
            "ingress edge1.wan Port",
            "ingress edge2.eth0.100 Port",
            "egress core.Gi0/1 Device",
        ];
        assert_eq!(queues, expected);
        assert_eq!(plan.spec.settings().ratio("weight"), 0.2);
    }

    #[test]
    fn errors_name_the_key_and_the_remedy() {
        let why = |given: &[(&str, &str)]| check(given).unwrap_err().join("; ");
        assert!(why(&[]).contains("needs a `kind`: backpressure or flow_control"));
        assert!(why(&[("kind", "backpresure")]).contains("did you mean `backpressure`?"));
        let flow = |uplinks| why(&[("kind", "flow_control"), ("uplinks", uplinks)]);
        assert!(flow("edge3.wan").contains("no FE or device `edge3`; did you mean `edge"));
        assert!(flow("edge1.").contains("or FEs as \"FE, FE\""));
        assert!(flow("edge9").contains("no FE or device `edge9`"));
        assert!(flow("core").contains("can only be sampled"));
        assert!(flow("edge1, edge1").contains("lists `edge1` twice"));
        let both = "lists `edge1` and `edge1.wan`, but an FE must be listed either alone";
        assert!(flow("edge1, edge1.wan").contains(both));
        let back = why(&[("kind", "backpressure"), ("ingress", "edge1")]);
        assert!(
            back.contains("must list queues as \"FE.PORT, FE.PORT\""),
            "{back}"
        );
        assert!(!back.contains("or FEs"), "{back}");
        assert!(flow("core.Gi0/1").contains("can only be sampled"));
        assert!(flow("edge1.wan, edge1.wan").contains("`edge1.wan` twice"));
        assert!(flow("").contains("`uplinks` has 0 queues"));
        let wrong = why(&[
            ("kind", "flow_control"),
            ("uplinks", "edge1.wan"),
            ("totl", "1 Mbit"),
        ]);
        assert_eq!(
            wrong,
            "controller.c.totl: unknown key `totl`; did you mean `total`?"
        );
        let short = why(&[
            ("kind", "flow_control"),
            ("uplinks", "edge1.wan"),
            ("period", "1 ms"),
        ]);
        assert!(
            short.starts_with("controller.c.period: `period` is"),
            "{short}"
        );
    }

    #[test]
    fn no_parameter_of_a_queue_is_set_by_two() {
        let of = |uplinks| check(&[("kind", "flow_control"), ("uplinks", uplinks)]).unwrap();
        assert_eq!(
            ControllerPlan::check_all(&[of("edge1.wan"), of("edge2.wan")]),
            Ok(())
        );
        let others = [of("edge1"), of("edge2, edge1.wan"), of("edge1.redirect")];
        assert_eq!(ControllerPlan::check_all(&others), Ok(()));
        let faults = ControllerPlan::check_all(&[of("edge1"), of("edge1")]).unwrap_err();
        assert!(
            faults[0]
                .to_string()
                .contains("at `edge1`, which the controller")
        );
        let faults = ControllerPlan::check_all(&[of("edge1.wan"), of("edge1.lan, edge1.wan")]);
        let faults = faults.unwrap_err();
        assert_eq!(faults.len(), 3, "{faults:?}"); // a fault for each of its parameters
        assert!(
            faults[0]
                .to_string()
                .contains("at `edge1.wan`, which the controller `c` also sets")
        );
    }

    #[test]
    fn a_device_needs_an_address_and_secrets() {
        let given = |address: &str, secrets: &str| {
            let values = [address, secrets].map(|text| Scalar::Text(text.to_owned()));
            let given = [("address", &values[0]), ("secrets", &values[1])];
            let plan = DevicePlan::check("core", &given);
            plan.map_err(|faults| faults[0].to_string())
        };
        assert_eq!(
            given("[2001:db8::1]:161", "s").unwrap().timeout,
            Span::from_secs(1)
        );
        assert!(
            given("core", "s")
                .unwrap_err()
                .contains("an IP address and a port, like \"192.0.2.9:161\"")
        );
        assert!(
            given("192.0.2.1:161", "")
                .unwrap_err()
                .contains("needs `secrets`")
        );
    }

    #[test]
    fn every_kind_is_a_class_with_its_roles() {
        let classes = (CONTROLLER.classes)();
        assert_eq!(classes.len(), KINDS.len());
        for class in classes {
            let mut ids: Vec<_> = class.parameters.iter().map(|p| p.id).collect();
            ids.extend(class.gauges.iter().map(|g| g.id));
            let all = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), all, "{}", class.name);
        }
    }
}
