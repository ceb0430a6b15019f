//! The SCTP transport (RFC 5811): three associations, high, medium and low.

pub mod association;
pub mod channel;
pub mod cookie;
pub mod endpoint;
pub mod gate;
pub mod inbox;
pub mod init;
pub mod library;
pub mod links;
pub mod opening;
pub mod outcome;
pub mod packet;
