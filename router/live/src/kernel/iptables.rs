//! Legacy iptables: rules that transit through the router bypasses.
//!
//! The kernel reports them through socket options only, and does not announce changes.

use std::io;

use socket2::{Domain, Protocol, Socket, Type};

use super::netfilter::{BypassedChain, NF_DROP};
use super::netlink::u32_at;

/// The hooks that transit passes, by number, with the name of the chain.
const HOOKS: [(usize, &str); 3] = [(0, "PREROUTING"), (2, "FORWARD"), (4, "POSTROUTING")];
/// The tables that have chains at these hooks.
const TABLES: [&str; 5] = ["raw", "mangle", "nat", "filter", "security"];

/// The chains that have rules or a drop policy, in the calling thread's network namespace.
pub(super) fn bypassed() -> io::Result<Vec<BypassedChain>> {
    let mut found = Vec::new();
    for legacy in [&LEGACY_IPV4, &LEGACY_IPV6] {
        for table in legacy.loaded_tables()? {
            // A request for any other table would load it.
            if TABLES.contains(&table.as_str()) {
                legacy.read(&table, &mut found)?;
            }
        }
    }
    Ok(found)
}

/// One of the two legacy iptables, as declared in linux/netfilter_ipv4/ip_tables.h and its IPv6 counterpart.
struct Legacy {
    name: &'static str,
    /// A file with one line for each loaded table. It is the thread's file, because the thread's namespace may differ
    /// from the process's.
    names_file: &'static str,
    /// Prefix of the names of the kernel modules of its tables.
    module_prefix: &'static str,
    domain: libc::c_int,
    level: libc::c_int,
    /// Offset in a rule of the field that holds the offset of its target.
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

/// Information about a table: `struct ipt_getinfo`, which is the same for IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Info {
    /// For each hook, the offsets of its first rule and of its policy; `None` without a chain at that hook.
    chains: [Option<(u32, u32)>; 5],
    bytes: u32,
}

const NAME_BYTES: usize = 32;
const INFO_BYTES: usize = NAME_BYTES + 13 * 4;
/// `struct ipt_get_entries` before its entries, which are aligned to eight.
const ENTRIES_AT: usize = NAME_BYTES + 8;
/// Maximum bytes of rules that are read; a larger table has rules in any case.
const TABLE_BYTES_MAX: u32 = 16 << 20;

impl Legacy {
    /// Adds the chains of one table.
    fn read(&self, table: &str, found: &mut Vec<BypassedChain>) -> io::Result<()> {
        let raw = Some(Protocol::from(libc::IPPROTO_RAW));
        let socket = Socket::new(Domain::from(self.domain), Type::RAW, raw)?;
        let answer = self.ask(&socket, libc_opt::GET_INFO, table, 0, INFO_BYTES)?;
        let info = Info::read(&answer);
        let entries = match info.bytes {
            0..=TABLE_BYTES_MAX => {
                let len = ENTRIES_AT + info.bytes as usize;
                self.ask(&socket, libc_opt::GET_ENTRIES, table, info.bytes, len)?
            }
            _ => Vec::new(), // a longer table has rules in any case
        };
        for (hook, chain) in HOOKS {
            let Some((start, policy)) = info.chain(hook) else {
                continue;
            };
            let entries = entries.get(ENTRIES_AT..).unwrap_or_default();
            let drops = self.verdict(entries, policy as usize) == Some(DROP_VERDICT);
            if start != policy || drops {
                found.push(BypassedChain {
                    family: self.name.to_owned(),
                    table: table.to_owned(),
                    chain: chain.to_owned(),
                    hook: chain.to_lowercase(),
                    has_rules: start != policy,
                    drops,
                });
            }
        }
        Ok(())
    }

    /// The loaded tables. Only root may be able to read the file; otherwise the kernel's modules are used.
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

    /// Reads `len` bytes of information about a table.
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

    /// The verdict of the rule at an offset; the rule is a policy.
    fn verdict(&self, entries: &[u8], at: usize) -> Option<i32> {
        const TARGET_HEADER_BYTES: usize = 32;
        let rule = entries.get(at..)?;
        let offset = rule.get(self.target_offset_at..)?.first_chunk::<2>()?;
        let target = rule.get(usize::from(u16::from_ne_bytes(*offset))..)?;
        let verdict = target.get(TARGET_HEADER_BYTES..)?.first_chunk::<4>()?;
        Some(i32::from_ne_bytes(*verdict))
    }
}

/// A verdict is stored as its negative minus one.
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
        let number = |n: usize| u32_at(answer, NAME_BYTES + 4 * n).unwrap_or(0);
        let chain = |hook: usize| {
            let has = number(0) & 1 << hook != 0;
            has.then(|| (number(1 + hook), number(6 + hook)))
        };
        Self {
            chains: std::array::from_fn(chain),
            bytes: number(12),
        }
    }

    fn chain(&self, hook: usize) -> Option<(u32, u32)> {
        self.chains.get(hook).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legacy_tables_information_is_read() {
        // A fresh "filter" table of Linux 6.18: hooks 1 to 3, 4 entries, 632 bytes.
        let none = u32::MAX;
        let numbers = [14, none, 0, 152, 304, none, none, 0, 152, 304, none, 4, 632];
        let mut answer = b"filter".to_vec();
        answer.resize(NAME_BYTES, 0);
        answer.extend(numbers.iter().flat_map(|n: &u32| n.to_ne_bytes()));
        let info = Info::read(&answer);
        assert_eq!((info.chain(2), info.bytes), (Some((152, 152)), 632));
        assert_eq!((info.chain(0), info.chain(5)), (None, None));
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
