//! ForCES, the protocol between control elements (CEs) and forwarding elements (FEs): RFC 5810, with
//! RFC 7121 (high availability) and RFC 7391 (extensions).
//!
//! - [`wire`]: messages as bytes and as plain values
//! - [`session`]: associations of CEs and FEs as state machines
//! - [`schema`]: the layout of the values of a class, from our own declarations or from a library in XML
//! - [`path_selector`]: paths as users write them
//! - [`library`]: schemas, written as a library in XML
//! - [`property`]: properties of components, and subscriptions to events
//! - [`standard`]: the LFB classes that the RFCs define
//! - [`value`]: values of components as bytes, by their layout
//!
//! No module opens a socket, starts a thread, or reads a clock or a file. Messages and associations treat component
//! values as plain bytes, because their meaning depends on the LFB class.

pub mod library;
pub mod path_selector;
pub mod property;
pub mod schema;
pub mod session;
pub mod standard;
pub mod value;
pub mod wire;
