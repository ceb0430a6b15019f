//! Rules of the box that transit through the router would bypass: forward and NAT rules.
//!
//! Looked at are nf_tables chains of the families ip, ip6 and inet that are hooked at "forward"
//! and have rules or drop by policy, chains of type "nat" that have rules, and the same of legacy
//! iptables. Not looked at are chains at the other hooks (raw and mangle tables) and bridges.

use std::collections::BTreeMap;
use std::io;

use socket2::{Domain, Protocol, Socket, Type};

use super::netlink::{NetlinkSocket, Request, attribute, text};

/// Describes each chain whose rules transit would bypass; empty if there is none. Of the calling
/// thread's network namespace.
pub fn bypassed_rules() -> io::Result<Vec<String>> {
    let mut found = describe(&read_chains()?);
    for legacy in [&LEGACY_IPV4, &LEGACY_IPV6] {
        found.extend(legacy.describe()?);
    }
    Ok(found)
}

/// A chain is known by its family, its table and its name.
type Key = (u8, String, String);

/// A chain of nf_tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Chain {
    hook: Option<u32>,
    kind: String,
    drops: bool,
    rules: usize,
}

const NF_INET_FORWARD: u32 = 2;
const NF_DROP: u32 = 0;
const FAMILIES: [(u8, &str); 3] = [
    (libc::NFPROTO_INET as u8, "inet"),
    (libc::NFPROTO_IPV4 as u8, "ip"),
    (libc::NFPROTO_IPV6 as u8, "ip6"),
];

fn describe(chains: &BTreeMap<Key, Chain>) -> Vec<String> {
    let mut found = Vec::new();
    for ((family, table, name), chain) in chains {
        let Some((_, family)) = FAMILIES.iter().find(|(number, _)| number == family) else {
            continue;
        };
        let place = format!("nftables: table {family} {table}, chain {name}");
        let rules = match chain.rules {
            1 => "1 rule".to_owned(),
            n => format!("{n} rules"),
        };
        let forward = chain.hook == Some(NF_INET_FORWARD);
        if chain.hook.is_some() && chain.kind == "nat" && chain.rules > 0 {
            found.push(format!("{place} (nat): {rules}"));
        } else if forward && chain.drops {
            found.push(format!("{place} (forward): {rules}, policy drop"));
        } else if forward && chain.rules > 0 {
            found.push(format!("{place} (forward): {rules}"));
        }
    }
    found
}

fn read_chains() -> io::Result<BTreeMap<Key, Chain>> {
    let mut chains = BTreeMap::new();
    let mut socket = match NetlinkSocket::open(libc::NETLINK_NETFILTER) {
        Ok(socket) => socket,
        Err(error) if is_absent(&error) => return Ok(chains),
        Err(error) => return Err(error),
    };
    let get = |kind: libc::c_int| {
        let kind = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | kind as u16;
        Request::new(kind, libc::NLM_F_DUMP, &[0; 4])
    };
    let answer = socket.dump(&get(libc::NFT_MSG_GETCHAIN), |message| {
        chains.extend(read_chain(message.payload));
    });
    match answer {
        Err(error) if is_absent(&error) => return Ok(chains),
        other => other?,
    }
    socket.dump(&get(libc::NFT_MSG_GETRULE), |message| {
        const RULE_TABLE: u16 = 1;
        const RULE_CHAIN: u16 = 2;
        if let Some(key) = read_key(message.payload, RULE_TABLE, RULE_CHAIN)
            && let Some(chain) = chains.get_mut(&key)
        {
            chain.rules += 1;
        }
    })?;
    Ok(chains)
}

/// Length of `struct nfgenmsg`, whose first byte is the family.
const NFGENMSG_BYTES: usize = 4;

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
    const CHAIN_POLICY: u16 = 5;
    const CHAIN_TYPE: u16 = 7;
    let key = read_key(payload, CHAIN_TABLE, CHAIN_NAME)?;
    let body = payload.get(NFGENMSG_BYTES..)?;
    let number = |value: &[u8]| value.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
    let hook = attribute(body, CHAIN_HOOK).and_then(|hook| attribute(hook, HOOK_NUMBER));
    let chain = Chain {
        hook: hook.and_then(number),
        kind: attribute(body, CHAIN_TYPE).map(text).unwrap_or_default(),
        drops: attribute(body, CHAIN_POLICY).and_then(number) == Some(NF_DROP),
        rules: 0,
    };
    Some((key, chain))
}

/// A kernel without nf_tables, or without legacy tables, says so by these errors.
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

/// One of the two legacy iptables, as linux/netfilter_ipv4/ip_tables.h and its twin have them.
struct Legacy {
    name: &'static str,
    /// One line a table that is loaded. Of the thread, whose namespace may not be the process's.
    names_file: &'static str,
    /// How the names of the kernel modules of its tables begin.
    module_prefix: &'static str,
    domain: libc::c_int,
    level: libc::c_int,
    /// Where in a rule the offset of its target is.
    target_offset_at: usize,
}

const LEGACY_IPV4: Legacy = Legacy {
    name: "iptables",
    names_file: "/proc/thread-self/net/ip_tables_names",
    module_prefix: "iptable_",
    domain: libc::AF_INET,
    level: libc::IPPROTO_IP,
    target_offset_at: 88,
};

const LEGACY_IPV6: Legacy = Legacy {
    name: "ip6tables",
    names_file: "/proc/thread-self/net/ip6_tables_names",
    module_prefix: "ip6table_",
    domain: libc::AF_INET6,
    level: libc::IPPROTO_IPV6,
    target_offset_at: 140,
};

/// What a table says of itself: `struct ipt_getinfo`, which is the same for IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Info {
    /// Where the rules of "forward" begin, and where its policy is.
    forward: Option<(u32, u32)>,
    /// Rules, policies, and the mark at the end.
    entries: u32,
    hooks: u32,
    bytes: u32,
}

const NAME_BYTES: usize = 32;
const INFO_BYTES: usize = NAME_BYTES + 13 * 4;
/// `struct ipt_get_entries` before its entries, which are aligned to eight.
const ENTRIES_AT: usize = NAME_BYTES + 8;
/// Bytes of rules that are read; a larger table has rules in any case.
const TABLE_BYTES_MAX: u32 = 16 << 20;

impl Legacy {
    fn describe(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        let loaded = self.loaded_tables()?;
        for table in ["filter", "nat"] {
            if !loaded.iter().any(|name| name == table) {
                continue; // asking for it would load it
            }
            let raw = Some(Protocol::from(libc::IPPROTO_RAW));
            let socket = Socket::new(Domain::from(self.domain), Type::RAW, raw)?;
            let answer = self.ask(&socket, libc_opt::GET_INFO, table, 0, INFO_BYTES)?;
            let info = Info::read(&answer);
            if table == "nat" && info.rules() > 0 {
                found.push(format!("{}: table nat: {} rules", self.name, info.rules()));
            }
            let Some((start, policy)) = info.forward.filter(|_| table == "filter") else {
                continue;
            };
            let place = format!("{}: table filter, chain FORWARD", self.name);
            if start != policy {
                found.push(format!("{place}: has rules"));
            } else if info.bytes <= TABLE_BYTES_MAX {
                let len = ENTRIES_AT + info.bytes as usize;
                let answer = self.ask(&socket, libc_opt::GET_ENTRIES, table, info.bytes, len)?;
                if self.verdict(&answer[ENTRIES_AT..], policy as usize) == Some(DROP_VERDICT) {
                    found.push(format!("{place}: policy drop"));
                }
            }
        }
        Ok(found)
    }

    /// The tables that exist. The file that tells may be root's alone, and then the kernel's
    /// modules tell.
    fn loaded_tables(&self) -> io::Result<Vec<String>> {
        match std::fs::read_to_string(self.names_file) {
            Ok(names) => Ok(names.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
                let names = modules.lines().filter_map(|m| m.split_whitespace().next());
                let tables = names.filter_map(|n| n.strip_prefix(self.module_prefix));
                Ok(tables.map(str::to_owned).collect())
            }
            Err(error) => Err(error),
        }
    }

    /// Asks for `len` bytes about a table.
    fn ask(
        &self,
        socket: &Socket,
        option: libc::c_int,
        table: &str,
        size: u32,
        len: usize,
    ) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; len];
        let name = &table.as_bytes()[..table.len().min(NAME_BYTES - 1)];
        buffer[..name.len()].copy_from_slice(name);
        buffer[NAME_BYTES..NAME_BYTES + 4].copy_from_slice(&size.to_ne_bytes());
        crate::sys::exchange_option(socket, self.level, option, &mut buffer)?;
        Ok(buffer)
    }

    /// The verdict of the rule at an offset, which is a policy.
    fn verdict(&self, entries: &[u8], at: usize) -> Option<i32> {
        const TARGET_HEADER_BYTES: usize = 32;
        let rule = entries.get(at..)?;
        let offset = rule.get(self.target_offset_at..)?.first_chunk::<2>()?;
        let target = rule.get(usize::from(u16::from_ne_bytes(*offset))..)?;
        let verdict = target.get(TARGET_HEADER_BYTES..)?.first_chunk::<4>()?;
        Some(i32::from_ne_bytes(*verdict))
    }
}

/// A verdict is stored as its negative, less one.
const DROP_VERDICT: i32 = -(NF_DROP as i32) - 1;

/// Socket options of both legacy iptables.
mod libc_opt {
    /// `IPT_SO_GET_INFO`.
    pub(super) const GET_INFO: libc::c_int = 64;
    /// `IPT_SO_GET_ENTRIES`.
    pub(super) const GET_ENTRIES: libc::c_int = 65;
}

impl Info {
    fn read(answer: &[u8]) -> Self {
        let number = |n: usize| super::netlink::u32_at(answer, NAME_BYTES + 4 * n).unwrap_or(0);
        let forward = NF_INET_FORWARD as usize;
        let has_forward = number(0) & 1 << forward != 0;
        Self {
            forward: has_forward.then(|| (number(1 + forward), number(6 + forward))),
            hooks: number(0).count_ones(),
            entries: number(11),
            bytes: number(12),
        }
    }

    /// Rules, without the policy of each hook and the mark at the end.
    fn rules(&self) -> u32 {
        self.entries.saturating_sub(self.hooks + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(hook: Option<u32>, kind: &str, drops: bool, rules: usize) -> Chain {
        Chain {
            hook,
            kind: kind.into(),
            drops,
            rules,
        }
    }

    #[test]
    fn only_what_transit_would_bypass_is_named() {
        let (inet, netdev) = (libc::NFPROTO_INET as u8, libc::NFPROTO_NETDEV as u8);
        let key = |family, name: &str| (family, "t".to_owned(), name.to_owned());
        let chains = BTreeMap::from([
            (key(inet, "input"), chain(Some(1), "filter", true, 9)),
            (key(inet, "unhooked"), chain(None, "", false, 9)),
            (key(inet, "empty"), chain(Some(2), "filter", false, 0)),
            (key(inet, "forward"), chain(Some(2), "filter", false, 2)),
            (key(inet, "closed"), chain(Some(2), "filter", true, 0)),
            (key(inet, "idle_nat"), chain(Some(4), "nat", false, 0)),
            (key(inet, "snat"), chain(Some(4), "nat", false, 1)),
            (key(netdev, "guard"), chain(Some(0), "filter", false, 2)),
        ]);
        assert_eq!(
            describe(&chains),
            [
                "nftables: table inet t, chain closed (forward): 0 rules, policy drop",
                "nftables: table inet t, chain forward (forward): 2 rules",
                "nftables: table inet t, chain snat (nat): 1 rule",
            ]
        );
    }

    #[test]
    fn a_legacy_tables_information_is_read() {
        // What a fresh "filter" table of Linux 6.18 says: hooks 1 to 3, 4 entries, 632 bytes.
        let none = u32::MAX;
        let numbers = [14, none, 0, 152, 304, none, none, 0, 152, 304, none, 4, 632];
        let mut answer = b"filter".to_vec();
        answer.resize(NAME_BYTES, 0);
        answer.extend(numbers.iter().flat_map(|n: &u32| n.to_ne_bytes()));
        let info = Info::read(&answer);
        assert_eq!(info.forward, Some((152, 152)));
        assert_eq!((info.rules(), info.bytes), (0, 632));
    }

    #[test]
    fn a_legacy_policy_is_read() {
        let mut entries = vec![0; 400];
        entries[152 + 88..152 + 90].copy_from_slice(&112_u16.to_ne_bytes());
        entries[152 + 112 + 32..152 + 112 + 36].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(LEGACY_IPV4.verdict(&entries, 152), Some(DROP_VERDICT));
        assert_eq!(LEGACY_IPV4.verdict(&entries, 399), None);
    }
}
