//! Wire formats: one file per header, each with a view that validates nothing and a Repr that cannot
//! lie.
//!
//! | module | header | source |
//! |---|---|---|
//! | [`ethernet`] | Ethernet II | IEEE 802.3, clause 3 |
//! | [`mac`] | MAC addresses as text | |
//! | [`vlan`] | 802.1Q tag | IEEE 802.1Q, clause 9 |
//! | [`mpls`] | an entry of an MPLS label stack | RFC 3032 |
//! | [`pppoe`] | PPPoE session header with the PPP protocol | RFC 2516, RFC 1661 |
//! | [`chunk`] | named chunks of content | ours |
//! | [`arp`] | ARP for IPv4 over Ethernet | RFC 826 |
//! | [`ipv4`] | IPv4 and the walk over its options | RFC 791, RFC 3168 |
//! | [`ipv6`] | IPv6 | RFC 8200 |
//! | [`ipv6_extension`] | IPv6 extension headers and the walk over them | RFC 8200, RFC 4302, RFC 5095 |
//! | [`routing`] | which routing protocol a packet belongs to | |
//! | [`gre`] | GRE without options | RFC 2784, RFC 7676 |
//! | [`tcp`] | TCP | RFC 9293 |
//! | [`udp`] | UDP | RFC 768 |
//! | [`icmpv4`] | ICMP | RFC 792, RFC 1191 |
//! | [`icmpv6`] | ICMPv6 | RFC 4443 |
//! | [`discovery`] | neighbour solicitations and advertisements | RFC 4861 |
//! | [`checksum`] | the internet checksum, whole and incremental; SCTP's CRC | RFC 1071, RFC 1624, RFC 9260 |
//! | [`number`] | the code points that several headers share | IANA |
//! | [`error`] | errors in headers | |
//!
//! The two levels:
//!
//! - `View<T>` puts field names on bytes. `new_checked` checks the length of the fixed part only;
//!   after it no getter panics, whatever the bytes are. `new_unchecked` leaves even this check to
//!   the caller, and a getter may then panic on a short buffer. A view of `&[u8; 20]` costs no
//!   bounds checks at all.
//! - `Repr` is a small plain value. `parse` refuses a header that contradicts itself; the error names
//!   the field, the value found and the values permitted. `emit` writes exactly `encoded_len` bytes,
//!   and panics only on a shorter buffer. An unknown code becomes `Other(n)` and is emitted intact.
//!
//! Checksums that span a payload (TCP, UDP, ICMP) are not part of a `Repr`: `emit` writes zero, and
//! the view's `fill_checksum` fills them in, or [`checksum::finish`] if a sender has begun them.
//!
//! ```
//! use weir_wire::udp::{Repr, View};
//!
//! let mut bytes = [0; 8];
//! let repr = Repr::new(5000, 53, 0).unwrap();
//! repr.emit(&mut View::new_unchecked(&mut bytes[..]));
//! let view = View::new_checked(&bytes[..]).unwrap();
//! assert_eq!(view.destination_port(), 53);
//! assert_eq!(Repr::parse(&view), Ok(repr));
//! ```
//!
//! This crate does not know what a packet descriptor, a flow or a router is, and allocates nothing.

#[macro_use]
mod macros;
pub mod bytes;

pub mod arp;
pub mod checksum;
pub mod chunk;
pub mod discovery;
pub mod error;
pub mod ethernet;
pub mod gre;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
pub mod mac;
pub mod mpls;
pub mod number;
pub mod pppoe;
pub mod routing;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use error::WireError;
pub use number::{EtherType, FragmentOffset, Protocol};
