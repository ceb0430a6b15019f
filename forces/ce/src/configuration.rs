//! Configuration of a control element: the contents of `CE.toml`, and their validation.
//!
//! ```toml
//! id = 1                          # the CE has the ForCES ID 0x40000001
//! certificate = "ce.crt"          # paths are relative to the file
//! key = "ce.key"
//! network = "network.toml"        # with flexible packet forwarding: its elements are FEs below
//!
//! [listen.main]
//! address = "192.0.2.1:6704"
//!
//! [library.acme]                  # classes of others, as XML (RFC 5812)
//! file = "acme.xml"
//!
//! [fe.edge1]
//! id = 2
//! certificate = "edge1.crt"       # this certificate is the FE with this ID, and no other
//! [fe.edge1.port.wan]             # the desired configuration, in the form of a router's file
//! rate = "95 Mbit"
//!
//! [remote.wan]                    # the CE acts for this port: it answers pings, ARP, and so on
//! fe = "edge1"
//! port = "wan"
//! addresses = "192.0.2.7/24"
//! ```
//!
//! The CE leaves components of an FE unchanged if the file does not name them.

mod etcd;
mod section;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_base::setting::{Scalar, Settings};
use weir_lfb::Plan;
use weir_lfb::fe::{Transport, address};
use weir_lfb::router::page_address;
use weir_model::fault::ResultCode;
use weir_model::{Change, ComponentPath, Fault};
use weir_protocol::wire::Id;

pub use self::etcd::{Endpoint, EtcdPlan};
use self::section::FE;
pub use self::section::{CE, ELEMENT, ELEMENT_OF, LIBRARY, LISTENER};
use crate::controller::{CONTROLLER, ControllerPlan, DEVICE, DevicePlan};
use crate::exception::remote::{self, REMOTE, RemotePlan};
use crate::router::{self, ROUTER, RouterPlan};

/// The first ForCES ID of a CE (RFC 5810, 6.1).
const CE_IDS: u32 = 0x4000_0000;
/// Maximum number of FEs in a configuration.
pub const FES_MAX: usize = 4096;

/// A checked configuration of a CE.
#[derive(Clone, Debug, PartialEq)]
pub struct CePlan {
    /// ForCES ID of the CE.
    pub id: Id,
    /// Unix socket of the northbound service.
    pub socket: String,
    /// Store file, with the changes that operators made at run time.
    pub store: String,
    /// Certificate file; `None` if the CE has no certificate.
    pub certificate: Option<String>,
    /// Private key file.
    pub key: Option<String>,
    /// Address of the web page; `None` if only the socket serves the page.
    pub page: Option<SocketAddr>,
    /// File with the token of the page.
    pub page_token: Option<String>,
    /// File of the network whose elements are FEs of this CE.
    pub network: Option<String>,
    /// Address of the listener for enrolment; `None`: there is no enrolment.
    pub enrol: Option<SocketAddr>,
    /// The etcd that this CE shares with others; `None`: it is the only one, with a store of its own.
    pub etcd: Option<EtcdPlan>,
    /// Number of threads.
    pub threads: usize,
    /// Addresses on which the CE listens for FEs.
    pub listeners: Vec<ListenPlan>,
    /// The FEs that may associate.
    pub fes: Vec<FePlan>,
    /// Library files, by name.
    pub libraries: Vec<(String, String)>,
    /// The controllers.
    pub controllers: Vec<ControllerPlan>,
    /// Devices that are not weir.
    pub devices: Vec<DevicePlan>,
    /// Ports of FEs for which the CE acts.
    pub remotes: Vec<RemotePlan>,
    /// Routing suites that route for FEs.
    pub routers: Vec<RouterPlan>,
}

/// A listener of the CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPlan {
    /// Name of the listener.
    pub name: String,
    /// Local address.
    pub address: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// Whether the listener accepts peers without certificates.
    pub insecure: bool,
}

/// An FE that may associate.
#[derive(Clone, Debug, PartialEq)]
pub struct FePlan {
    /// Name of the FE in the configuration.
    pub name: String,
    /// ForCES ID of the FE.
    pub id: Id,
    /// Certificate file of the FE.
    pub certificate: Option<String>,
    /// The desired configuration, with paths as the FE itself uses them.
    pub desired: Vec<Change>,
}

/// Parameters given for one section instance: names and values.
type Given<'a> = Vec<(&'a str, &'a Scalar)>;

impl CePlan {
    /// Checks a whole configuration. Reports all faults, not only the first.
    pub fn check(changes: &[Change]) -> Result<Self, Vec<Fault>> {
        let mut blocks: BTreeMap<(&str, Option<&str>), Given<'_>> = BTreeMap::new();
        let mut desired: BTreeMap<String, Vec<Change>> = BTreeMap::new();
        let mut faults = Vec::new();
        for change in changes {
            if let Some((name, own)) = of_router(change) {
                blocks.entry((FE.key, Some(name))).or_default();
                desired.entry(name.to_owned()).or_default().push(own);
                continue;
            }
            match CE.set(change) {
                Ok(set) if set.section.has_instances && set.instance.is_none() => {} // an empty [fe]
                Ok(set) => blocks
                    .entry((set.section.key, set.instance))
                    .or_default()
                    .extend(set.parameter),
                Err(fault) => faults.push(fault),
            }
        }
        blocks.entry((CE.key, None)).or_default();
        let mut plan = Builder {
            faults,
            ..Builder::default()
        };
        let names_fes = |section: &str| [CONTROLLER.key, REMOTE.key, ROUTER.key].contains(&section);
        for ((section, instance), given) in &blocks {
            if !names_fes(section) {
                plan.add(section, instance.unwrap_or_default(), given, &mut desired);
            }
        }
        for ((section, instance), given) in blocks.iter().filter(|((key, _), _)| names_fes(key)) {
            let name = instance.unwrap_or_default();
            match *section {
                key if key == REMOTE.key => plan.add_remote(name, given),
                key if key == ROUTER.key => plan.add_router(name, given),
                _ => plan.add_controller(name, given),
            }
        }
        plan.finish()
    }
}

/// The name of an FE, and a change of the FE's own configuration.
fn of_router(change: &Change) -> Option<(&str, Change)> {
    let segments = change.path.segments();
    let ["fe", name, rest @ ..] = &segments[..] else {
        return None;
    };
    let is_own = |name: &str| ELEMENT_OF.parameters.iter().any(|p| p.name == name);
    match rest {
        [] => None,
        [key] if is_own(key) => None,
        _ => {
            let own = Change {
                path: ComponentPath::new(rest.iter().copied()),
                value: change.value.clone(),
            };
            Some((*name, own))
        }
    }
}

#[derive(Default)]
struct Builder {
    element: Option<Settings>,
    etcd: Option<Settings>,
    listeners: Vec<ListenPlan>,
    fes: Vec<FePlan>,
    libraries: Vec<(String, String)>,
    controllers: Vec<ControllerPlan>,
    devices: Vec<DevicePlan>,
    remotes: Vec<RemotePlan>,
    routers: Vec<RouterPlan>,
    faults: Vec<Fault>,
}

impl Builder {
    fn add(
        &mut self,
        section: &str,
        name: &str,
        given: &[(&str, &Scalar)],
        desired: &mut BTreeMap<String, Vec<Change>>,
    ) {
        if section == DEVICE.key {
            return self.add_device(name, given);
        }
        let (class, path) = match section {
            "" => (&ELEMENT, ComponentPath::default()),
            "etcd" => (&etcd::CLASS, ComponentPath::new(["etcd"])),
            "listen" => (&LISTENER, ComponentPath::new(["listen", name])),
            "library" => (&LIBRARY, ComponentPath::new(["library", name])),
            _ => (&ELEMENT_OF, ComponentPath::new(["fe", name])),
        };
        let mut settings = Settings::defaults(class.parameters);
        let faults_before = self.faults.len();
        for (name, value) in given {
            if let Err(error) = settings.set(class.parameters, name, value) {
                self.faults.push(Fault::of_setting(&path, class, &error));
            }
        }
        if self.faults.len() > faults_before {
            return;
        }
        match section {
            "" => self.element = Some(settings),
            "etcd" => self.etcd = Some(settings),
            "listen" => self.add_listener(name, &path, &settings),
            "library" => match settings.text("file") {
                "" => self.missing(path.join("file"), "a library needs a `file`"),
                file => self.libraries.push((name.to_owned(), file.to_owned())),
            },
            _ => {
                let desired = desired.remove(name).unwrap_or_default();
                self.add_fe(name, &path, &settings, desired);
            }
        }
    }

    fn missing(&mut self, path: ComponentPath, why: impl std::fmt::Display) {
        let fault = Fault::new(path, why).code(ResultCode::ValueOutOfRange);
        self.faults.push(fault);
    }

    fn add_listener(&mut self, name: &str, path: &ComponentPath, settings: &Settings) {
        let address = match address(settings, path, "address", "192.0.2.1:6704") {
            Ok(address) => address,
            Err(fault) => return self.faults.push(fault),
        };
        let (transport, insecure): (Transport, bool) =
            (settings.choice("transport"), settings.flag("insecure"));
        if !transport.authenticates() && !insecure {
            let why = "`sctp` neither authenticates nor encrypts: use \"quic\" or \"tcp_udp\", or set `insecure = true`";
            return self.missing(path.join("transport"), why);
        }
        self.listeners.push(ListenPlan {
            name: name.to_owned(),
            address,
            transport,
            insecure,
        });
    }

    fn add_fe(
        &mut self,
        name: &str,
        path: &ComponentPath,
        settings: &Settings,
        desired: Vec<Change>,
    ) {
        if !is_name(name) {
            let why = format!(
                "`{name}` is not a valid FE name: up to 64 letters, digits, `_` and `-`, and not only digits"
            );
            return self.missing(path.clone(), why);
        }
        if let Err(faults) = Plan::check_part(&desired) {
            self.faults.extend(faults.into_iter().map(|fault| Fault {
                path: path.below(fault.path.segments()),
                ..fault
            }));
        }
        let id = Id(settings.count("id") as u32);
        if let Some(other) = self.fes.iter().find(|fe| fe.id == id) {
            let why = format!("the FE `{}` already has this ID", other.name);
            return self.missing(path.join("id"), why);
        }
        self.fes.push(FePlan {
            name: name.to_owned(),
            id,
            certificate: file(settings, "certificate"),
            desired,
        });
    }

    fn add_device(&mut self, name: &str, given: &[(&str, &Scalar)]) {
        match DevicePlan::check(name, given) {
            Ok(device) => self.devices.push(device),
            Err(faults) => self.faults.extend(faults),
        }
    }

    /// Adds a port for which the CE acts. Call it after adding all FEs.
    fn add_remote(&mut self, name: &str, given: &[(&str, &Scalar)]) {
        let fes: Vec<_> = self.fes.iter().map(|fe| &*fe.name).collect();
        match RemotePlan::check(name, given, &fes) {
            Ok(remote) => self.remotes.push(remote),
            Err(faults) => self.faults.extend(faults),
        }
    }

    /// Adds a router. Call it after adding all FEs.
    fn add_router(&mut self, name: &str, given: &[(&str, &Scalar)]) {
        let fes: Vec<_> = self.fes.iter().map(|fe| &*fe.name).collect();
        match RouterPlan::check(name, given, &fes) {
            Ok(router) => self.routers.push(router),
            Err(faults) => self.faults.extend(faults),
        }
    }

    /// Adds a controller. Call it after adding all FEs and devices.
    fn add_controller(&mut self, name: &str, given: &[(&str, &Scalar)]) {
        let fes: Vec<_> = self.fes.iter().map(|fe| &*fe.name).collect();
        let devices: Vec<_> = self.devices.iter().map(|device| &*device.name).collect();
        match ControllerPlan::check(name, given, &fes, &devices) {
            Ok(controller) => self.controllers.push(controller),
            Err(faults) => self.faults.extend(faults),
        }
    }

    /// Address of the web page.
    fn page(&mut self) -> Option<SocketAddr> {
        let settings = self.element.as_ref()?;
        let text = settings.text("page").to_owned();
        if text.is_empty() {
            if !settings.text("page_token").is_empty() {
                let why = "`page_token` needs `page`, which is not set";
                self.missing(ComponentPath::new(["page_token"]), why);
            }
            return None;
        }
        match page_address(&text) {
            Ok(address) => address,
            Err(why) => {
                self.missing(ComponentPath::new(["page"]), why);
                None
            }
        }
    }

    /// Address of the listener for enrolment.
    fn enrol(&mut self) -> Option<SocketAddr> {
        let element = self.element.as_ref()?;
        if element.text("enrol").is_empty() {
            return None;
        }
        if element.text("certificate").is_empty() {
            let why = "`enrol` needs `certificate` and `key` of the CE: `weir keys` generates both";
            self.missing(ComponentPath::new(["enrol"]), why);
            return None;
        }
        let root = ComponentPath::default();
        let address = address(element, &root, "enrol", "192.0.2.1:6708");
        address.map_err(|fault| self.faults.push(fault)).ok()
    }

    /// The etcd that this CE shares with others.
    fn etcd(&mut self) -> Option<EtcdPlan> {
        let (element, settings) = (self.element.as_ref()?, self.etcd.take()?);
        if !element.text("network").is_empty() {
            let why = "requests for paths are not shared: a CE with `network` cannot have [etcd]";
            self.missing(ComponentPath::new(["etcd"]), why);
            return None;
        }
        let plan = EtcdPlan::check(&settings, Id(CE_IDS + element.count("id") as u32));
        plan.map_err(|faults| self.faults.extend(faults)).ok()
    }

    /// A CE without a certificate cannot authenticate itself, so FEs cannot authenticate to it either.
    fn check_proofs(&mut self) {
        let element = self.element.as_ref();
        if element.is_none_or(|element| !element.text("certificate").is_empty()) {
            return;
        }
        let needs_it =
            |listen: &&ListenPlan| !listen.insecure || listen.transport == Transport::Quic;
        let Some(listen) = self.listeners.iter().find(needs_it) else {
            return;
        };
        let why = format!(
            "[listen.{0}] needs `certificate` and `key` of the CE (`weir keys` generates both): without them peers \
             cannot authenticate, and even on loopback any local user could act as an FE. To run without certificates, set \
             listen.{0}.transport = \"tcp_udp\" and listen.{0}.insecure = true",
            listen.name
        );
        self.missing(ComponentPath::new(["certificate"]), why);
    }

    fn finish(mut self) -> Result<CePlan, Vec<Fault>> {
        let root = ComponentPath::default();
        if self.faults.is_empty() && self.listeners.is_empty() {
            self.missing(
                root.clone(),
                "the CE has no listener; add `[listen.main]` with an `address`",
            );
        }
        if self.fes.len() > FES_MAX {
            let why = format!(
                "there are {} FEs, but at most {FES_MAX} are permitted",
                self.fes.len()
            );
            self.missing(root, why);
        }
        if let Some(device) = self
            .devices
            .iter()
            .find(|d| self.fes.iter().any(|fe| fe.name == d.name))
        {
            let path = ComponentPath::new([DEVICE.key, &device.name]);
            self.missing(path, "an FE already has this name");
        }
        if let Err(faults) = ControllerPlan::check_all(&self.controllers) {
            self.faults.extend(faults);
        }
        if let Err(faults) = RemotePlan::check_all(&self.remotes) {
            self.faults.extend(faults);
        }
        if let Err(faults) = RouterPlan::check_all(&self.routers) {
            self.faults.extend(faults);
        }
        for router in &self.routers {
            let own = self.remotes.iter_mut().filter(|r| r.fe == router.fe);
            own.for_each(|remote| remote.namespace.clone_from(&router.namespace));
        }
        for fe in &mut self.fes {
            router::desire(&self.routers, &fe.name, &mut fe.desired);
            remote::desire(&self.remotes, &fe.name, &mut fe.desired);
        }
        let page = self.page();
        let enrol = self.enrol();
        let etcd = self.etcd();
        self.check_proofs();
        let Some(element) = self.element.filter(|_| self.faults.is_empty()) else {
            return Err(self.faults);
        };
        Ok(CePlan {
            id: Id(CE_IDS + element.count("id") as u32),
            socket: element.text("socket").to_owned(),
            store: element.text("store").to_owned(),
            certificate: file(&element, "certificate"),
            key: file(&element, "key"),
            page,
            enrol,
            etcd,
            page_token: file(&element, "page_token"),
            network: file(&element, "network"),
            threads: element.count("threads") as usize,
            listeners: self.listeners,
            fes: self.fes,
            libraries: self.libraries,
            controllers: self.controllers,
            devices: self.devices,
            remotes: self.remotes,
            routers: self.routers,
        })
    }
}

/// The file that a setting names; `None` if the setting is empty.
fn file(settings: &Settings, name: &str) -> Option<String> {
    let text = settings.text(name);
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether a text can name an FE: in URLs of the HTTP interface, and before the colon of `FE:PATH`.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let some = !name.is_empty() && name.len() <= 64;
    some && name.chars().all(is_letter) && !name.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, value: &str) -> Change {
        let value = Scalar::Text(value.to_owned());
        Change::new(ComponentPath::new(path.split('.')), value)
    }

    fn faults(changes: &[Change]) -> Vec<String> {
        let faults = CePlan::check(changes).unwrap_err();
        faults.iter().map(Fault::to_string).collect()
    }

    #[test]
    fn an_fe_has_its_own_keys_and_those_of_its_router() {
        let plan = CePlan::check(&[
            change("certificate", "ce.crt"),
            change("listen.main.address", "127.0.0.1:6704"),
            change("fe.edge1.id", "2 packets"),
            change("fe.edge1.certificate", "edge1.crt"),
            change("fe.edge1.port.wan.rate", "95 Mbit"),
            change("fe.edge1.age_max", "2 s"),
            Change::block(ComponentPath::new(["fe", "edge1", "port", "lan"])),
        ]);
        let plan = plan.unwrap();
        assert_eq!(plan.id, Id(0x4000_0001));
        let [fe] = &plan.fes[..] else {
            panic!("{plan:?}")
        };
        assert_eq!((fe.id, &fe.name[..]), (Id(2), "edge1"));
        let desired: Vec<_> = fe.desired.iter().map(|c| c.path.to_string()).collect();
        assert_eq!(desired, ["port.wan.rate", "age_max", "port.lan"]);
    }

    #[test]
    fn a_fault_of_the_desired_configuration_names_the_fe() {
        let wrong = faults(&[
            change("listen.main.address", "127.0.0.1:6704"),
            change("fe.edge1.port.wan.rat", "95 Mbit"),
            change("fe.edge1.port.lan.rate", "95 Mbitt"),
        ]);
        assert!(wrong[0].starts_with("fe.edge1.port.lan.rate:"), "{wrong:?}");
        assert!(wrong[1].starts_with("fe.edge1.port.wan.rat: unknown key `rat`; did you mean"));
    }

    #[test]
    fn controllers_steer_queues_of_the_fes_and_devices_of_the_file() {
        let file = |egress: &str, device: &str| {
            CePlan::check(&[
                change("certificate", "ce.crt"),
                change("listen.main.address", "127.0.0.1:6704"),
                change("controller.rs.kind", "backpressure"),
                change("controller.rs.ingress", "edge1.wan"),
                change("controller.rs.egress", egress),
                change("fe.edge1.certificate", "edge1.crt"),
                change(&format!("device.{device}.address"), "192.0.2.9:161"),
                change(&format!("device.{device}.secrets"), "core.snmp"),
            ])
        };
        let plan = file("core.Gi0/1", "core").unwrap();
        assert_eq!((plan.controllers.len(), plan.devices.len()), (1, 1));
        let wrong = |egress, device| {
            let faults = file(egress, device).unwrap_err();
            faults
                .iter()
                .map(|fault| format!("{fault}\n"))
                .collect::<String>()
        };
        let near = wrong("cor.Gi0/1", "core");
        assert!(
            near.starts_with("controller.rs.egress: `egress` lists \"cor.Gi0/1\""),
            "{near}"
        );
        assert!(wrong("edge1.lan", "edge1").contains("an FE already has this name"));
    }

    #[test]
    fn what_is_wrong_has_its_remedy() {
        assert!(faults(&[])[0].contains("add `[listen.main]`"));
        let address = faults(&[change("listen.main.address", "192.0.2.1")]);
        assert!(
            address[0].contains("must be an IP address and a port, like"),
            "{address:?}"
        );
        let twice = faults(&[
            change("listen.main.transport", "quic"),
            change("fe.a.certificate", "a.crt"),
            change("fe.b.certificate", "b.crt"),
        ]);
        assert!(twice[0].contains("`a` already has this ID"), "{twice:?}");
        let page = |page| {
            faults(&[
                change("listen.main.transport", "quic"),
                change("page", page),
            ])
        };
        for wrong in ["8080", "0.0.0.0:8080", "192.0.2.1:8080", "localhost:8080"] {
            assert!(
                page(wrong)[0].contains("must be a loopback address and port"),
                "{wrong}"
            );
        }
        let token = faults(&[
            change("listen.main.transport", "quic"),
            change("page_token", "page.token"),
        ]);
        assert!(token[0].contains("`page`, which is not set"), "{token:?}");
        let key = faults(&[change("libraries", "x.xml")]);
        assert!(key[0].contains("unknown key `libraries`"), "{key:?}");
        assert!(faults(&[change("fe.17.certificate", "x")])[0].contains("not a valid FE name"));
        let plain = |insecure| {
            CePlan::check(&[
                change("listen.main.transport", "tcp_udp"),
                change("listen.main.insecure", insecure),
            ])
        };
        assert!(plain("true").is_ok());
        let refused = plain("false").unwrap_err();
        assert!(
            refused[0]
                .to_string()
                .contains("listen.main.insecure = true"),
            "{refused:?}"
        );
        let sctp = faults(&[change("listen.main.transport", "sctp_udp")]);
        assert!(sctp[0].contains("`sctp` neither authenticates"), "{sctp:?}");
    }
}
