//! The rules of mode "queue", by which the kernel lends the frames of an interface to this process.
//!
//! ```text
//! chain out-NAME { type filter hook egress device "NAME" priority -500; policy accept;
//!     meta mark & MASK == MARK meta mark set meta mark & ~MASK accept   # sent by weir
//!     ether daddr 01:80:c2:00:00:00/44 accept # LLDP, EAPOL, LACP, PTP, STP: of this link alone
//!     fwd to "weir-oINDEX"
//! }
//! # without Ethernet headers, in place of the last two: meta protocol { ip, ip6 } fwd to "weir-oINDEX"
//! chain in-NAME { the same at the ingress hook, to "weir-iINDEX" }
//! chain end-weir-oINDEXr { type filter hook ingress device "weir-oINDEXr"; policy drop; }
//! chain back-weir-iINDEXr { type filter hook egress device "weir-iINDEXr"; policy drop; meta mark & MASK == MARK accept }
//! ```
//!
//! The chains come first at their hooks, so that other chains there see each frame once: when weir has sent it. Traffic
//! control and packet sockets at the ingress come before the hook and see received frames twice.

use weir_lfb::port::Direction;
use weir_lfb::router::Mark;

use super::helper::Helper;
use super::nft::{Base, Chain, Compare, Hook, NF_NETDEV_EGRESS, NF_NETDEV_INGRESS, Rule};
use crate::device::Layer;

/// Priority before any other chain of the hook.
const PRIORITY: i32 = -500;
/// Groups that no bridge forwards (IEEE 802.1Q, table 8-1): the first 44 bits.
const LINK_LOCAL: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
const LINK_LOCAL_MASK: [u8; 6] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xf0];

/// The frames of an interface that a port takes: in mode "queue" by direction, in other modes the received frames.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Side {
    /// Name of the interface.
    pub interface: String,
    /// Direction of the port.
    pub direction: Direction,
}

impl From<&str> for Side {
    fn from(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            direction: Direction::Out,
        }
    }
}

/// The chains that lend the frames of an interface without this mark; an empty list without an intact helper.
pub(super) fn chains(side: &Side, index: u32, mark: Mark) -> Vec<Chain> {
    let Side {
        interface,
        direction,
    } = side;
    let Some(helper) = Helper::lending(index, *direction) else {
        return Vec::new();
    };
    let (near, far) = (&helper.near, &helper.far);
    let (number, word) = match direction {
        Direction::Out => (NF_NETDEV_EGRESS, "out"),
        Direction::In => (NF_NETDEV_INGRESS, "in"),
    };
    let hook = |number, device: &str, index, drops| Hook {
        number,
        device: device.to_owned(),
        index,
        priority: PRIORITY,
        drops,
    };
    let mut rules = vec![Rule::new().marked(mark).unmark(mark).accept()];
    match helper.served.layer {
        Layer::Packets => {
            let ip = [libc::ETH_P_IP, libc::ETH_P_IPV6];
            rules.extend(
                ip.map(|ethertype| Rule::new().protocol(ethertype as u16).lend(near.index)),
            );
        }
        Layer::Frames => {
            let of_link = Rule::new()
                .load(Base::Link, 0, LINK_LOCAL.len() as u32)
                .mask(&LINK_LOCAL_MASK)
                .is(Compare::Equal, &LINK_LOCAL);
            rules.extend([of_link.accept(), Rule::new().lend(near.index)]);
        }
    }
    let end = far.name.as_str();
    vec![
        // The kernel itself takes nothing there, and sends nothing; packet sockets come before the hook.
        Chain {
            name: format!("end-{end}"),
            hook: Some(hook(NF_NETDEV_INGRESS, end, far.index, true)),
            rules: Vec::new(),
        },
        Chain {
            name: format!("back-{end}"),
            hook: Some(hook(NF_NETDEV_EGRESS, end, far.index, true)),
            rules: vec![Rule::new().marked(mark).accept()],
        },
        Chain {
            name: format!("{word}-{interface}"),
            hook: Some(hook(number, interface, index, false)),
            rules,
        },
    ]
}
