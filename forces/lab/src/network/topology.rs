//! The network: namespaces, links, addresses, and the configurations of CE and FEs.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use weir_base::Rate;
use weir_experiment::Error;
use weir_experiment::namespaces::process::run_to_end;
use weir_experiment::namespaces::router::{NO_SUPERVISOR, Router};
use weir_experiment::programs::Programs;
use weir_live::namespace::{Namespace, Spawner};

/// The name of the CE's files.
pub(super) const CE_NAME: &str = "ce";
/// Number of FEs, each with its own router.
pub(super) const FES: u32 = 3;

/// Indices of namespaces: the CE, its routers v1 to v3, the FEs, and the neighbours r1, r2 and x.
pub(super) const CE: usize = 0;
const ROUTER: usize = 1;
const FE: usize = ROUTER + FES as usize;
pub(super) const NEIGHBOUR: usize = FE + FES as usize;
const NAMESPACES: usize = NEIGHBOUR + NEIGHBOURS.len();
/// The namespace that sends the flood: r1.
pub(super) const FLOODED: usize = NEIGHBOUR;

/// The neighbours of the network, each at port `a` of the FE with the same index.
pub(super) const NEIGHBOURS: [&str; 3] = ["r1", "r2", "x"];

/// The links between FEs: two FEs, the port's name at both, and the network.
const TRUNKS: [(u32, u32, &str, [u8; 3]); 3] = [
    (1, 2, "b", [10, 1, 12]),
    (1, 3, "c", [10, 1, 13]),
    (2, 3, "d", [10, 1, 23]),
];

/// The port of [`TRUNKS`] whose link fails, at both ends.
pub(super) const BROKEN: &str = "b";
/// A host that only exists as a route of fe1, for packets that never leave it.
pub(super) const NOWHERE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// The namespace of an FE; its router's is [`router`].
pub(super) fn fe(n: u32) -> usize {
    FE + n as usize - 1
}

/// The namespace of the router of FE `n`.
pub(super) fn router(n: u32) -> usize {
    ROUTER + n as usize - 1
}

/// The name of FE `n`.
pub(super) fn fe_name(n: u32) -> String {
    format!("fe{n}")
}

/// A port of an FE for which the CE acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// The port's name at its FE.
    pub(super) name: &'static str,
    network: [u8; 3],
    /// The last byte of the router's address; it is 1 at the end that counts an adjacency.
    pub(super) host: u8,
    peer: u8,
}

impl Port {
    /// The CE's device for this port of FE `n`.
    pub(super) fn device(&self, n: u32) -> String {
        format!("{}.{}", fe_name(n), self.name)
    }

    /// The router's address.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.host(self.host)
    }

    /// The neighbour's address.
    pub(super) fn peer(&self) -> Ipv4Addr {
        self.host(self.peer)
    }

    fn host(&self, last: u8) -> Ipv4Addr {
        let [first, second, third] = self.network;
        Ipv4Addr::new(first, second, third, last)
    }
}

/// The ports of FE `n`.
pub(super) fn ports(n: u32) -> Vec<Port> {
    let port = |name, network, host, peer| Port {
        name,
        network,
        host,
        peer,
    };
    let trunks = TRUNKS.iter().filter_map(|(near, far, name, network)| {
        let hosts = [(*near, 1, 2), (*far, 2, 1)];
        let (_, host, peer) = hosts.into_iter().find(|(fe, ..)| *fe == n)?;
        Some(port(*name, *network, host, peer))
    });
    [port("a", [10, 0, n as u8], 1, 2)]
        .into_iter()
        .chain(trunks)
        .collect()
}

/// The MAC address of port `a` of an FE, which the frames of the flood name.
pub(super) fn mac(n: u32) -> [u8; 6] {
    [2, 0, 0, 0, n as u8, 1]
}

/// The namespaces and their links.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) spawner: Spawner,
    pub(super) namespaces: Vec<Namespace>,
}

impl Network {
    /// Builds everything except the devices of the CE.
    pub(super) fn build() -> Result<Self, Error> {
        let namespace = || Namespace::new().map_err(Error::io("cannot create a network namespace"));
        let network = Self {
            spawner: Spawner::new().map_err(Error::io("cannot start a thread"))?,
            namespaces: (0..NAMESPACES)
                .map(|_| namespace())
                .collect::<Result<_, _>>()?,
        };
        for namespace in &network.namespaces {
            let written = namespace.enter(|| {
                // Packets to a router's own address may come through another FE while a link is down.
                fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0")?;
                fs::write("/proc/sys/net/ipv4/conf/default/rp_filter", "0")?;
                fs::write("/proc/sys/net/ipv4/ip_forward", "1")
            });
            written
                .and_then(|written| written)
                .map_err(Error::io("cannot set the kernel of a namespace"))?;
            network.ip(namespace, "link set lo up\n")?;
        }
        for n in 1..=FES {
            network.build_fe(n)?;
        }
        for (near, far, port, _) in TRUNKS {
            network.join((fe(near), port), (fe(far), port), "")?;
        }
        Ok(network)
    }

    /// Links an FE with the CE and with its neighbour.
    fn build_fe(&self, n: u32) -> Result<(), Error> {
        self.join((CE, &fe_name(n)), (fe(n), "control"), "")?;
        let near = format!("addr add 10.9.{n}.1/24 dev {}\n", fe_name(n));
        self.ip(&self.namespaces[CE], &near)?;
        let far = format!("addr add 10.9.{n}.2/24 dev control\n");
        self.ip(&self.namespaces[fe(n)], &far)?;
        let neighbour = NEIGHBOUR + n as usize - 1;
        let mac = mac(n).map(|byte| format!("{byte:02x}")).join(":");
        self.join(
            (fe(n), "a"),
            (neighbour, "eth0"),
            &format!("address {mac} "),
        )?;
        let addresses =
            format!("addr add 10.0.{n}.2/24 dev eth0\naddr add 172.16.{n}.1/32 dev lo\n");
        self.ip(&self.namespaces[neighbour], &addresses)
    }

    /// Creates a link whose both ends are up.
    fn join(&self, near: (usize, &str), far: (usize, &str), options: &str) -> Result<(), Error> {
        let [(near, name), (far, peer)] = [near, far];
        let path = self.namespaces[far].path();
        let made = format!(
            "link add name {name} {options}type veth peer name {peer} netns {path}\nlink set dev {name} up\n"
        );
        self.ip(&self.namespaces[near], &made)?;
        self.ip(&self.namespaces[far], &format!("link set dev {peer} up\n"))
    }

    /// Runs `ip` in a namespace, with one command per line.
    pub(super) fn ip(&self, namespace: &Namespace, batch: &str) -> Result<(), Error> {
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]);
        run_to_end(&self.spawner, namespace, "ip", command, batch)
    }

    /// Starts the CE by this command without arguments, and waits until it listens.
    pub(super) fn start_ce(
        &self,
        command: Command,
        folder: &Path,
        configuration: impl FnOnce(&Path) -> String,
    ) -> Result<Router, Error> {
        let place = (&self.spawner, &self.namespaces[CE]);
        let mut ce = Router::start_by(place, (command, "ce"), folder, CE_NAME, configuration)?;
        ce.wait_ready("fes")?;
        Ok(ce)
    }

    /// Starts all FEs, and waits until they forward.
    pub(super) fn start_fes(
        &self,
        programs: &Programs,
        folder: &Path,
        channel: Option<(&str, Rate)>,
    ) -> Result<Vec<Router>, Error> {
        let start = |n| {
            let place = (&self.spawner, &self.namespaces[fe(n)]);
            let program = (programs, "fe");
            Router::start(place, program, folder, &fe_name(n), |socket| {
                fe_configuration(n, channel, socket)
            })
        };
        let fes = (1..=FES).map(start).collect::<Result<Vec<_>, Error>>();
        let mut fes = fes?;
        fes.iter_mut().try_for_each(|fe| fe.wait_ready("ports"))?;
        Ok(fes)
    }

    /// Whether the CE has made all its devices.
    pub(super) fn has_devices(&self) -> bool {
        (1..=FES).all(|n| {
            let devices = devices(&self.namespaces[router(n)]).unwrap_or_default();
            let mut ports = ports(n).into_iter();
            ports.all(|port| devices.contains(&port.device(n)))
        })
    }

    /// Takes the link between fe1 and fe2 down, or up.
    pub(super) fn set_link(&self, up: bool) -> Result<(), Error> {
        let word = if up { "up" } else { "down" };
        let batch = format!("link set dev {BROKEN} {word}\n");
        self.ip(&self.namespaces[fe(2)], &batch)
    }
}

/// The names of the devices in a namespace.
fn devices(namespace: &Namespace) -> Result<Vec<String>, Error> {
    // `/sys` shows the devices of another namespace.
    let read = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"));
    let text = read
        .and_then(|text| text)
        .map_err(Error::io("cannot list the devices of a namespace"))?;
    let names = text.lines().filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}

/// The configuration of the CE; with `fpm`, its routers take routes at this address too.
pub(super) fn ce_configuration(
    network: &Network,
    has_classes: bool,
    fpm: Option<&str>,
    socket: &Path,
) -> String {
    let fpm = fpm.map(|address| format!("fpm = \"{address}\"\n"));
    let fpm = fpm.unwrap_or_default();
    let mut text = format!(
        "id = 1\ncertificate = \"ce.crt\"\nkey = \"ce.key\"\nstore = \"ce.store\"\nsocket = {socket:?}\n\
         [listen.all]\naddress = \"0.0.0.0:6704\"\n"
    );
    for n in 1..=FES {
        let (name, ports) = (fe_name(n), ports(n));
        let peers: Vec<_> = ports.iter().map(|port| port.peer().to_string()).collect();
        let peers = peers.join(" ");
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[fe.{name}]\nid = {n}\ncertificate = \"fe-{n}.crt\"\n\
             [fe.{name}.redirect]\nhop_limit = true\nnext_hop = true\nrouter_alert = true\nclasses = {has_classes}\n\
             [router.v{n}]\nfe = \"{name}\"\nnamespace = \"{namespace}\"\npeers = \"{peers}\"\n{fpm}",
            namespace = network.namespaces[router(n)].path()
        );
        for port in ports {
            let _ = write!(
                text,
                "[remote.{name}{port}]\nfe = \"{name}\"\nport = \"{port}\"\n\
                 addresses = \"{address}/24\"\ntap = true\n",
                port = port.name,
                address = port.address(),
            );
        }
    }
    text
}

/// The configuration of FE `n`: its channel has a schedule and a rate, and it soon gives up a CE that is silent; or
/// all of this is as by default.
fn fe_configuration(n: u32, channel: Option<(&str, Rate)>, socket: &Path) -> String {
    let dead = channel.map_or("", |_| "ce_dead = \"3 s\"\n");
    let channel =
        channel.map(|(schedule, rate)| format!("schedule = \"{schedule}\"\nrate = \"{rate}\"\n"));
    let mut text = format!(
        "socket = {socket:?}\n{NO_SUPERVISOR}\
         [fe]\nid = {n}\nname = \"{name}\"\ncertificate = \"fe-{n}.crt\"\nkey = \"fe-{n}.key\"\n{dead}\
         [ce.main]\nid = 1\naddress = \"10.9.{n}.1:6704\"\ncertificate = \"ce.crt\"\n{channel}",
        name = fe_name(n),
        channel = channel.unwrap_or_default(),
    );
    for Port { name, .. } in ports(n) {
        // Writing to a string cannot fail.
        let _ = write!(text, "[port.{name}]\ninterface = \"{name}\"\n");
    }
    text
}

/// The route of fe1 that the flood needs, in the form of `weir route add`.
pub(super) fn flood_route() -> String {
    format!("{NOWHERE}/32 via 10.1.13.2 dev c\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_link_are_each_others_neighbours() {
        for (near, far, name, _) in TRUNKS {
            let end = |n| ports(n).into_iter().find(|port| port.name == name).unwrap();
            let (near, far) = (end(near), end(far));
            assert_eq!(near.network, far.network);
            assert_eq!((near.host, near.peer), (far.peer, far.host));
        }
        assert_eq!(ports(1).len(), 3);
    }
}
