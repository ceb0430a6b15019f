//! The targets, one per file: a function that takes any bytes, and its first inputs.

pub(crate) mod capture;
pub(crate) mod ce_configuration;
pub(crate) mod classifier;
pub(crate) mod configuration;
pub(crate) mod encapsulation;
pub(crate) mod forces;
pub(crate) mod forces_value;
pub(crate) mod forces_xml;
pub(crate) mod fpf;
pub(crate) mod frames;
pub(crate) mod netlink;
pub(crate) mod network;
pub(crate) mod northbound;
pub(crate) mod offload;
pub(crate) mod scenario;
pub(crate) mod sctp;
pub(crate) mod trace;
pub(crate) mod wire;
