//! The SCTP transport (RFC 5811): three associations, high, medium and low.

pub mod channel;
pub mod cookie;
pub mod gate;
pub mod init;
pub mod packet;
