//! Rules of the machine that transit through the router bypasses: the rules at the hooks that transit would pass if the
//! kernel forwarded it.
//!
//! | family | hooks | when |
//! |---|---|---|
//! | ip, ip6, inet | prerouting, forward, postrouting: chains of every type and priority | routed; bridged if the kernel's bridge would hand frames to them (br_netfilter) |
//! | netdev, inet | ingress, of the router's own ports | always |
//! | bridge | prerouting, forward, postrouting | bridged, if the ports are in a bridge of the kernel |
//! | legacy iptables, ip6tables | PREROUTING, FORWARD, POSTROUTING of raw, mangle, nat, filter, security | as ip and ip6 |
//!
//! A chain counts if it has a rule or a drop policy. The router's own tables do not count. The egress hook does not
//! count either, because frames sent by a packet socket pass it. BPF programs at hooks of netfilter, IPVS and legacy
//! ebtables are not detected.
//!
//! Flowtables have a reader of their own: in mode "queue", offloaded packets may bypass the hooks that lend frames.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use weir_path::plane::Mode;

use super::links;
use super::netlink::{NFGENMSG_BYTES, NetlinkSocket, Request, attribute, attributes, text};

/// A chain whose rules or policy transit bypasses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BypassedChain {
    /// Family of nf_tables, or "iptables" or "ip6tables" (legacy).
    pub family: String,
    /// Name of its table.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// Name of its hook.
    pub hook: String,
    /// Whether the chain has rules.
    pub has_rules: bool,
    /// Whether the chain's policy is to drop.
    pub drops: bool,
}

impl fmt::Display for BypassedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, chain, .. } = self;
        match self.family.as_str() {
            tool @ ("iptables" | "ip6tables") => write!(f, "{tool}: table {table}, chain {chain}")?,
            family => write!(f, "nftables: table {family} {table}, chain {chain}")?,
        }
        write!(f, " (at {}", self.hook)?;
        let policy = if self.drops { ", policy drop" } else { "" };
        let rules = if self.has_rules { "" } else { ", no rules" };
        write!(f, "{rules}{policy})")
    }
}

/// Finds the chains of nf_tables that transit between these interfaces bypasses, in the calling thread's network
/// namespace.
pub(super) fn bypassed(mode: Mode, ports: &[&str]) -> io::Result<Vec<BypassedChain>> {
    Ok(Passed::of(mode, ports)?.select(&read_chains()?))
}

/// Finds the flowtables of which any of these interfaces, or of the interfaces below, is a device, in the calling
/// thread's network namespace.
pub(super) fn flowtables(ports: &[&str]) -> io::Result<Vec<String>> {
    let mut flowtables = Vec::new();
    /// Of linux/netfilter/nf_tables.h (Linux 4.16).
    const NFT_MSG_GETFLOWTABLE: libc::c_int = 23;
    match dump(NFT_MSG_GETFLOWTABLE, |payload| {
        flowtables.extend(read_flowtable(payload));
    }) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        other => other?,
    }
    if flowtables.is_empty() {
        return Ok(Vec::new());
    }
    let links = links::read()?;
    let named = |name: &str| links.values().find(|link| link.name == name);
    let mut interfaces = ports.to_vec();
    for port in ports {
        let mut upper = named(port);
        while let Some(lower) = upper.and_then(|link| links.get(&link.above?.below)) {
            interfaces.push(&lower.name);
            upper = Some(lower);
        }
    }
    flowtables.retain(|flowtable| {
        let mut devices = flowtable.devices.iter();
        devices.any(|device| device.is_one_of(&interfaces))
    });
    Ok(flowtables.iter().map(ToString::to_string).collect())
}

/// Whether transit between these interfaces would pass the hooks of IP, including those of legacy iptables.
pub(super) fn passes_ip(mode: Mode, ports: &[&str]) -> io::Result<bool> {
    Ok(Passed::of(mode, ports)?.ip)
}

/// Hooks that transit would pass if the kernel forwarded it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passed<'a> {
    ports: &'a [&'a str],
    /// Whether transit would pass the hooks of IP.
    ip: bool,
    /// Whether transit would pass the hooks of bridges.
    bridge: bool,
}

impl<'a> Passed<'a> {
    fn of(mode: Mode, ports: &'a [&'a str]) -> io::Result<Self> {
        let (ip, bridge) = match mode {
            Mode::Routed => (true, false),
            Mode::Queue => (false, false),
            Mode::Bridged => {
                let links = links::read()?;
                let mut links = links.values();
                let bridge = links.any(|l| l.enslaved && ports.contains(&l.name.as_str()));
                (bridge && bridges_call_ip(), bridge)
            }
        };
        // The kernel forwards, so transit bypasses nothing.
        let ports = if mode == Mode::Queue { &[] } else { ports };
        Ok(Self { ports, ip, bridge })
    }

    fn select(&self, chains: &BTreeMap<Key, Chain>) -> Vec<BypassedChain> {
        let describe = |((family, table, name), chain): (&Key, &Chain)| {
            let (_, family_name) = FAMILIES.iter().find(|(number, _)| number == family)?;
            let hook = self.hook(*family, chain)?;
            let own = *family == NETDEV && is_own_table(table);
            ((chain.has_rules || chain.drops) && !own).then(|| BypassedChain {
                family: (*family_name).to_owned(),
                table: table.clone(),
                chain: name.clone(),
                hook: hook.to_owned(),
                has_rules: chain.has_rules,
                drops: chain.drops,
            })
        };
        chains.iter().filter_map(describe).collect()
    }

    /// The name of the chain's hook, if transit would pass it.
    fn hook(&self, family: u8, chain: &Chain) -> Option<&'static str> {
        let at_port = || {
            chain
                .devices
                .iter()
                .any(|device| device.is_one_of(self.ports))
        };
        let number = chain.hook?;
        let passed = match (family, number) {
            (NETDEV, NF_NETDEV_INGRESS) | (INET, NF_INET_INGRESS) => {
                return at_port().then_some("ingress");
            }
            (NETDEV, _) => false,
            (BRIDGE, _) => self.bridge,
            _ => self.ip,
        };
        let (_, name) = TRANSIT_HOOKS.iter().find(|(hook, _)| *hook == number)?;
        passed.then_some(*name)
    }
}

/// Whether bridges pass IP frames to the chains of IP, as they do once br_netfilter is loaded.
fn bridges_call_ip() -> bool {
    ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables"]
        .iter()
        .any(|name| {
            let value = std::fs::read_to_string(format!("/proc/sys/net/bridge/{name}"));
            value.is_ok_and(|value| value.trim() != "0")
        })
}

/// Whether a table has a name of the form that guards give their tables: weir-PROCESS-NUMBER.
fn is_own_table(table: &str) -> bool {
    let numbers = table.strip_prefix("weir-").and_then(|n| n.split_once('-'));
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Identifies a chain by its family, its table and its name.
type Key = (u8, String, String);

/// A chain of nf_tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chain {
    hook: Option<u32>,
    devices: Vec<Device>,
    drops: bool,
    has_rules: bool,
}

/// A flowtable of nf_tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flowtable {
    family: u8,
    table: String,
    name: String,
    devices: Vec<Device>,
    /// Whether hardware forwards packets of its connections.
    is_hardware: bool,
}

impl fmt::Display for Flowtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, name, .. } = self;
        let family = FAMILIES.iter().find(|(number, _)| *number == self.family);
        let family = family.map_or("?", |(_, name)| name);
        let devices = self.devices.iter().map(|device| match device {
            Device::Name(name) => name.clone(),
            Device::Prefix(prefix) => format!("{prefix}*"),
        });
        let devices = devices.collect::<Vec<_>>().join(", ");
        let flags = if self.is_hardware {
            "; flags offload"
        } else {
            ""
        };
        write!(
            f,
            "table {family} {table}, flowtable {name} (devices {devices}{flags})"
        )
    }
}

/// The device names of a chain at a device hook, or of a flowtable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Device {
    Name(String),
    /// Every device whose name has this prefix (Linux 6.17).
    Prefix(String),
}

impl Device {
    fn is_one_of(&self, ports: &[&str]) -> bool {
        match self {
            Self::Name(name) => ports.contains(&name.as_str()),
            Self::Prefix(prefix) => ports.iter().any(|port| port.starts_with(prefix.as_str())),
        }
    }
}

pub(super) const NF_DROP: u32 = 0;
const NF_NETDEV_INGRESS: u32 = 0;
const NF_INET_INGRESS: u32 = 5;
/// The hooks that forwarded packets pass, of IP and of bridges, by number.
const TRANSIT_HOOKS: [(u32, &str); 3] = [(0, "prerouting"), (2, "forward"), (4, "postrouting")];
const INET: u8 = libc::NFPROTO_INET as u8;
const NETDEV: u8 = libc::NFPROTO_NETDEV as u8;
const BRIDGE: u8 = libc::NFPROTO_BRIDGE as u8;
const FAMILIES: [(u8, &str); 5] = [
    (INET, "inet"),
    (libc::NFPROTO_IPV4 as u8, "ip"),
    (libc::NFPROTO_IPV6 as u8, "ip6"),
    (NETDEV, "netdev"),
    (BRIDGE, "bridge"),
];

/// Passes every object of nf_tables to `take` that the kernel sends for a message like `NFT_MSG_GETCHAIN`.
fn dump(kind: libc::c_int, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let kind = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | kind as u16;
    let get = Request::new(kind, libc::NLM_F_DUMP, &[0; NFGENMSG_BYTES]);
    NetlinkSocket::open(libc::NETLINK_NETFILTER)?.dump(&get, |message| take(message.payload))
}

fn read_chains() -> io::Result<BTreeMap<Key, Chain>> {
    let mut chains = BTreeMap::new();
    let answer = dump(libc::NFT_MSG_GETCHAIN, |payload| {
        chains.extend(read_chain(payload));
    });
    match answer {
        Err(error) if is_absent(&error) => return Ok(chains),
        other => other?,
    }
    dump(libc::NFT_MSG_GETRULE, |payload| {
        const RULE_TABLE: u16 = 1;
        const RULE_CHAIN: u16 = 2;
        if let Some(key) = read_key(payload, RULE_TABLE, RULE_CHAIN)
            && let Some(chain) = chains.get_mut(&key)
        {
            chain.has_rules = true;
        }
    })?;
    Ok(chains)
}

fn read_key(payload: &[u8], table: u16, chain: u16) -> Option<Key> {
    let body = payload.get(NFGENMSG_BYTES..)?;
    Some((
        *payload.first()?,
        text(attribute(body, table)?),
        text(attribute(body, chain)?),
    ))
}

fn read_chain(payload: &[u8]) -> Option<(Key, Chain)> {
    const CHAIN_TABLE: u16 = 1;
    const CHAIN_NAME: u16 = 3;
    const CHAIN_HOOK: u16 = 4;
    const HOOK_NUMBER: u16 = 1;
    const HOOK_DEVICE: u16 = 3;
    const HOOK_DEVICES: u16 = 4;
    const CHAIN_POLICY: u16 = 5;
    let key = read_key(payload, CHAIN_TABLE, CHAIN_NAME)?;
    let body = payload.get(NFGENMSG_BYTES..)?;
    let hook = attribute(body, CHAIN_HOOK).unwrap_or_default();
    let one = attribute(hook, HOOK_DEVICE).map(|name| Device::Name(text(name)));
    let several = devices(attribute(hook, HOOK_DEVICES).unwrap_or_default());
    let chain = Chain {
        hook: attribute(hook, HOOK_NUMBER).and_then(number),
        devices: one.into_iter().chain(several).collect(),
        drops: attribute(body, CHAIN_POLICY).and_then(number) == Some(NF_DROP),
        has_rules: false,
    };
    Some((key, chain))
}

fn read_flowtable(payload: &[u8]) -> Option<Flowtable> {
    const FLOWTABLE_TABLE: u16 = 1;
    const FLOWTABLE_NAME: u16 = 2;
    const FLOWTABLE_HOOK: u16 = 3;
    const HOOK_DEVICES: u16 = 3;
    const FLOWTABLE_FLAGS: u16 = 7;
    const HARDWARE: u32 = 1;
    let (family, table, name) = read_key(payload, FLOWTABLE_TABLE, FLOWTABLE_NAME)?;
    let body = payload.get(NFGENMSG_BYTES..)?;
    let hook = attribute(body, FLOWTABLE_HOOK).unwrap_or_default();
    let flags = attribute(body, FLOWTABLE_FLAGS).and_then(number);
    Some(Flowtable {
        family,
        table,
        name,
        devices: devices(attribute(hook, HOOK_DEVICES).unwrap_or_default()).collect(),
        is_hardware: flags.is_some_and(|flags| flags & HARDWARE != 0),
    })
}

fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk::<4>().map(|b| u32::from_be_bytes(*b))
}

/// The devices in a list of `NFTA_DEVICE_NAME` and `NFTA_DEVICE_PREFIX`.
fn devices(list: &[u8]) -> impl Iterator<Item = Device> {
    const DEVICE_PREFIX: u16 = 2;
    attributes(list).map(|(kind, name)| match kind {
        DEVICE_PREFIX => Device::Prefix(text(name)),
        _ => Device::Name(text(name)),
    })
}

/// Whether the error means that the kernel has no nf_tables, no flowtables or no legacy tables.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EPROTONOSUPPORT
                | libc::EAFNOSUPPORT
                | libc::EOPNOTSUPP
                | libc::EINVAL
                | libc::ENOPROTOOPT
                | libc::ENOENT
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::messages;

    fn chain(hook: Option<u32>, device: Option<&str>, drops: bool, has_rules: bool) -> Chain {
        let devices = device.map(|name| Device::Name(name.into()));
        Chain {
            hook,
            devices: devices.into_iter().collect(),
            drops,
            has_rules,
        }
    }

    fn chains() -> BTreeMap<Key, Chain> {
        let key = |family, table: &str, name: &str| (family, table.to_owned(), name.to_owned());
        BTreeMap::from([
            (key(INET, "t", "input"), chain(Some(1), None, true, true)),
            (key(INET, "t", "output"), chain(Some(3), None, true, true)),
            (key(INET, "t", "unhooked"), chain(None, None, false, true)),
            (key(INET, "t", "empty"), chain(Some(2), None, false, false)),
            (key(INET, "t", "raw"), chain(Some(0), None, false, true)),
            (key(INET, "t", "closed"), chain(Some(2), None, true, false)),
            (key(INET, "t", "snat"), chain(Some(4), None, false, true)),
            (
                key(INET, "t", "in"),
                chain(Some(5), Some("wan"), false, true),
            ),
            (key(BRIDGE, "t", "b"), chain(Some(2), None, false, true)),
            (
                key(NETDEV, "t", "here"),
                chain(Some(0), Some("lan"), false, true),
            ),
            (
                key(NETDEV, "t", "there"),
                chain(Some(0), Some("dmz"), false, true),
            ),
            (
                key(NETDEV, "t", "out"),
                chain(Some(1), Some("lan"), false, true),
            ),
            (
                key(NETDEV, "weir-7-0", "port-lan"),
                chain(Some(0), Some("lan"), true, true),
            ),
        ])
    }

    fn names(ip: bool, bridge: bool) -> Vec<String> {
        let passed = Passed {
            ports: &["lan", "wan"],
            ip,
            bridge,
        };
        let selected = passed.select(&chains());
        selected.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_transit_would_bypass_is_named() {
        assert_eq!(
            names(true, false),
            [
                "nftables: table inet t, chain closed (at forward, no rules, policy drop)",
                "nftables: table inet t, chain in (at ingress)",
                "nftables: table inet t, chain raw (at prerouting)",
                "nftables: table inet t, chain snat (at postrouting)",
                "nftables: table netdev t, chain here (at ingress)",
            ]
        );
        let ingress = [
            "nftables: table inet t, chain in (at ingress)",
            "nftables: table netdev t, chain here (at ingress)",
        ];
        assert_eq!(names(false, false), ingress);
        let bridge = "nftables: table bridge t, chain b (at forward)";
        assert!(names(false, true).contains(&bridge.to_owned()));
    }

    #[test]
    fn a_flowtable_is_read_as_the_kernel_sends_it() {
        // table inet fw { flowtable f { hook ingress priority 0; devices = { eth0, eth1 }; flags offload; } }
        let flowtable = |flags: u32, others: &str| {
            let message = Request::new(0, 0, &[INET, 0, 0, 1])
                .with_text(1, "fw")
                .with_text(2, "f")
                .nested(3, |hook| {
                    hook.with_u32_be(1, NF_NETDEV_INGRESS)
                        .with_u32_be(2, 0)
                        .nested(3, |devices| {
                            devices.with_text(1, "eth0").with_text(2, others)
                        })
                })
                .with_u32_be(4, 3)
                .with(5, &1_u64.to_be_bytes())
                .with_u32_be(7, flags);
            let bytes = message.numbered(1);
            read_flowtable(messages(&bytes).next().unwrap().payload).unwrap()
        };
        let hardware = flowtable(1, "lan");
        assert_eq!(
            hardware.to_string(),
            "table inet fw, flowtable f (devices eth0, lan*; flags offload)"
        );
        assert!(!flowtable(0, "lan").is_hardware);
        let with = |ports: &[&str]| hardware.devices.iter().any(|d| d.is_one_of(ports));
        assert!(with(&["wan", "eth0"]) && with(&["lan7"]) && !with(&["wan", "eth01"]));
    }

    #[test]
    fn a_table_like_ours_is_not_ours() {
        assert!(is_own_table("weir-123-0"));
        for other in ["weir", "weir-1", "weir-extra-1", "weir-1-x", "fw"] {
            assert!(!is_own_table(other), "{other}");
        }
    }
}
