//! The flow-aware classifier (FAC): which protocol a flow carries, from copies of its first packets.
//!
//! ```text
//!  first packets of a flow --> Classifier::observe --> Verdict: unknown | class, more wanted? | given up
//!                                                         |
//!                                                     Policy: class, server name --> row
//! ```
//!
//! Source: flexible packet forwarding, sections III.B.2 (implicit rules) and IV.A. The packets themselves pass
//! undelayed; the verdict indicates whether copies of further packets are worth the work. A packet of a decided flow
//! costs one lookup.
//!
//! | module | recognises | source |
//! |---|---|---|
//! | `rtp` | media by successive sequence numbers; control packets | RFC 3550, RFC 8285, RFC 5761 |
//! | `svc` | scalable video in RTP | RFC 6190, H.264 annex G |
//! | `tls`, `dtls` | records; server name and application protocol of a ClientHello | RFC 8446, RFC 9147 |
//! | `quic` | the same in decrypted Initial packets, or headers | RFC 9000, RFC 9001, RFC 9369 |
//! | `dns` | names, multicast DNS, LLMNR | RFC 1035 |
//! | `start_line` | HTTP/1, SIP, RTSP, SSDP | RFC 9112, RFC 3261 |
//! | `stun` | STUN, and the data that TURN relays | RFC 8489, RFC 8656 |
//! | `greeting` | SMTP, POP3, IMAP, FTP, SSH | |
//!
//! Deviations from the paper: no automaton for applications, since names of servers serve a policy better; a later
//! message classifies a flow whose beginning was missed. A port alone decides nothing; it only determines how strictly
//! a DNS message is read.
//!
//! This crate does not know what a port, a path or a file is. In addition to the router it serves captures: `frame`
//! parses the frames of a file.

mod assembly;
mod classifier;
mod dns;
mod dtls;
pub mod evaluation;
mod finding;
mod flow;
pub mod frame;
mod greeting;
mod kind;
mod offline;
pub mod policy;
mod quic;
mod reader;
mod rtp;
mod segment;
mod start_line;
mod stun;
mod svc;
mod table;
mod tls;

pub use classifier::{Classifier, Ended, Settings, Verdict};
pub use finding::{Evidence, Finding};
pub use flow::Patience;
pub use kind::{Kind, Kinds};
pub use offline::{Offline, Unread};
pub use segment::Segment;
