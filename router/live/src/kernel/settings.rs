//! The kernel's settings of interfaces that decide about forwarded packets.
//!
//! ```text
//!  netconf messages (IPv4, IPv6), announced ------+
//!  IPv6's view of the links, not announced -------+--> Confs --of(interface)--> Settings
//! ```
//!
//! The deciding settings, as in Linux (net/ipv4/route.c, net/ipv6/ip6_output.c):
//!
//! | packets | are forwarded if |
//! |---|---|
//! | IPv4 | `net.ipv4.conf.X.forwarding` of the interface X where they come in is 1 (`ip_forward` sets all of them) |
//! | IPv6 | `net.ipv6.conf.all.forwarding` or `net.ipv6.conf.X.force_forwarding` is 1, and `disable_ipv6` of X is 0 |
//!
//! The kernel also disables IPv4 at an interface with an MTU below 68, and IPv6 below 1280.

use std::collections::HashMap;

use weir_path::ip::tables::{Interface, Settings, SourceCheck};

use super::message::{ConfOf, Inet6Conf, NetConf, Version};

/// Smallest MTU with which the kernel keeps IPv4 at an interface.
const MTU_MIN_V4: u32 = 68;
/// Smallest MTU with which the kernel keeps IPv6 at an interface.
const MTU_MIN_V6: u32 = 1280;

/// All of these settings, as the kernel last reported them.
#[derive(Clone, Debug, Default)]
pub(super) struct Confs {
    netconf: HashMap<(Version, ConfOf), NetConf>,
    inet6: HashMap<u32, Inet6Conf>,
}

impl Confs {
    /// Stores the settings that a message contains. Returns whether they change which next hops without carrier are in
    /// use.
    pub(super) fn set(&mut self, version: Version, of: ConfOf, news: NetConf) -> bool {
        let conf = self.netconf.entry((version, of)).or_default();
        let before = conf.ignore_linkdown;
        conf.update(news);
        before.is_some() && before != conf.ignore_linkdown
    }

    /// Stores IPv6's view of a link.
    pub(super) fn set_inet6(&mut self, index: u32, conf: Inet6Conf) {
        self.inet6.insert(index, conf);
    }

    /// Forgets IPv6's MTU of a link whose MTU has changed: the kernel sets both to the same value.
    pub(super) fn forget_mtu(&mut self, index: u32) {
        if let Some(conf) = self.inet6.get_mut(&index) {
            conf.mtu = u32::MAX;
        }
    }

    /// Forgets an interface.
    pub(super) fn remove(&mut self, index: u32) {
        for version in [Version::V4, Version::V6] {
            self.netconf.remove(&(version, ConfOf::Interface(index)));
        }
        self.inet6.remove(&index);
    }

    /// The effective settings of an interface.
    pub(super) fn of(&self, index: u32, interface: &Interface) -> Settings {
        let conf = |version, of| {
            let conf = self.netconf.get(&(version, of));
            conf.copied().unwrap_or_default()
        };
        let own = ConfOf::Interface(index);
        let (v4, all_v4) = (conf(Version::V4, own), conf(Version::V4, ConfOf::All));
        let all_v6 = conf(Version::V6, ConfOf::All);
        let is_set = |setting: Option<u32>| setting.is_some_and(|value| value != 0);
        let inet6 = self.inet6.get(&index).copied().unwrap_or_default();
        let reads_v6 = !inet6.disabled && interface.mtu >= MTU_MIN_V6;
        Settings {
            // The larger of an interface's value and the value for all.
            source_check: source_check(v4.rp_filter.max(all_v4.rp_filter)),
            forwards_v4: is_set(v4.forwarding) && interface.mtu >= MTU_MIN_V4,
            forwards_v6: reads_v6 && (is_set(all_v6.forwarding) || inet6.forced),
            reads_v6,
            mtu_v6: inet6.mtu,
            only_own_v6: inet6.only_own,
        }
    }
}

impl NetConf {
    /// A message has only the settings that changed.
    fn update(&mut self, news: Self) {
        self.rp_filter = news.rp_filter.or(self.rp_filter);
        self.forwarding = news.forwarding.or(self.forwarding);
        self.ignore_linkdown = news.ignore_linkdown.or(self.ignore_linkdown);
    }
}

/// The meaning of an `rp_filter` value.
fn source_check(rp_filter: Option<u32>) -> SourceCheck {
    match rp_filter {
        None | Some(0) => SourceCheck::Off,
        Some(1) => SourceCheck::Strict,
        Some(_) => SourceCheck::Loose,
    }
}
