//! The kernel's tables, and the rules that keep transit away from the kernel.
//!
//! ```text
//! netlink --> message --> tables::TableState --> Tables, published by follow
//! ```
//!
//! - [`follow`]: keeps a copy of the kernel's tables up to date
//! - [`tables`], [`message`]: the part of [`follow`] without sockets
//! - [`netlink`]: sockets, and the form of messages
//! - [`fpm`]: takes routes from FRR's zebra by FPM, next to the kernel's
//! - [`neighbours`]: asks the kernel to find a next hop's MAC address and to keep it valid
//! - [`transit`]: the rules that keep transit away from the kernel and limit the machine's own packets to a share of a
//!   port
//! - [`links`]: interfaces on top of others, and the state of an interface
//! - [`lease`]: ends these rules when the forwarding thread stalls
//! - [`handover`]: the instants at which transit moves from the kernel to the router and back
//! - [`claim`]: ensures that an interface has only one router
//! - [`bridge`]: members of the kernel's bridges
//! - [`install`]: installs routes of a control element in the kernel
//! - [`inventory`]: all interfaces and default routes, for choosing ports
//! - [`losses`]: announcements after which the kernel may have lost some of these routes
//! - [`netfilter`]: rules of the machine that transit through the router bypasses
//! - [`state`]: kernel state that a router refuses or warns of
//! - [`conntrack`]: asks which connection of a translating kernel a packet belongs to
//! - [`addresses`]: the addresses of an interface
//! - [`announcements`]: notifications of changed interfaces or rules

pub mod addresses;
pub mod announcements;
pub mod bridge;
pub mod claim;
pub mod follow;
pub mod fpm;
pub mod handover;
pub mod install;
pub mod inventory;
pub mod lease;
pub mod links;
pub mod losses;
pub mod message;
pub mod neighbours;
pub mod netfilter;
pub mod netlink;
pub mod state;
pub mod tables;
pub mod transit;

pub(crate) mod conntrack;
mod fpm_message;
pub(crate) mod helper;
mod ingress;
mod iptables;
mod lacking;
mod lending;
mod local;
mod nft;
mod route_message;
mod routes;
mod settings;
mod traffic_control;
