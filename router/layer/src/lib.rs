//! A network layer next to IP, as the router sees it. A crate of its own declares each layer as a [`Layer`]; `LAYERS` in
//! `router/lfb` lists them.
//!
//! ```text
//!  changes --checked by router/lfb--> LayerPlan --Layer::compile--> Compiled --apply--> Plane
//!                                                                      |                  ^
//!                                                                  Background <--ForwardingThread
//! ```
//!
//! - [`Layer`], [`NamedSection`], [`Table`], [`Task`]: declarations
//! - [`LayerPlan`], [`Compiled`]: the checked sections of a layer
//! - [`Background`], [`ForwardingThread`]: the work of a layer outside the packet path

mod background;
mod plan;

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Instant, Streams};
use weir_discipline::Spec;
use weir_model::{Class, ComponentPath, Fault, Section, Value};
use weir_path::plane::Plane;

pub use background::{Background, ForwardingThread, NoAnswer, Work};
pub use plan::LayerPlan;

/// A network layer. In a plane an [`Overlay`](weir_path::plane::overlay::Overlay) handles its packets.
#[derive(Debug)]
pub struct Layer {
    /// Name in messages.
    pub name: &'static str,
    /// The section of a configuration that contains all sections of the layer.
    pub section: &'static Section,
    /// The class of this section.
    pub class: &'static Class,
    /// The sections within it, whose instances the operator names; each kind depends only on the kinds before it.
    pub named: &'static [NamedSection],
    /// The tables of the layer, in the order of the manual pages.
    pub tables: &'static [Table],
    /// Checks all sections together, and compiles them. Reports all faults.
    pub compile: fn(&LayerPlan) -> Compilation,
    /// Checks that the router has the ports that the sections need.
    pub check_ports: fn(&LayerPlan, &[Port<'_>]) -> Result<(), Fault>,
    /// Switches the layer off in a plane. Returns the replaced parts, so that another thread can free them.
    pub switch_off: fn(&mut Plane, Instant) -> Box<dyn Send>,
    /// The work outside the packet path, if the layer has any.
    pub task: Option<Task>,
}

/// The compiled sections, or all faults.
pub type Compilation = Result<Arc<dyn Compiled>, Vec<Fault>>;

impl Layer {
    /// The path of the section of this kind and name; a kind is a position in [`Self::named`].
    pub fn path(&self, kind: usize, name: &str) -> ComponentPath {
        ComponentPath::new([self.section.key, self.named[kind].section.key, name])
    }
}

/// A kind of section of a layer whose instances the operator names.
#[derive(Debug)]
pub struct NamedSection {
    /// The section.
    pub section: &'static Section,
    /// The class of the section.
    pub class: &'static Class,
    /// The words for a section of this kind in messages.
    pub word: &'static str,
    /// Components of which every intended new section sets at least one.
    pub needed: &'static [&'static str],
}

/// A table of a layer.
#[derive(Debug)]
pub struct Table {
    /// The class.
    pub class: &'static Class,
    /// Reads a structure, or a list of structures.
    pub read: fn(&Plane) -> Value,
}

/// Work outside the packet path, on a thread of its own.
#[derive(Debug)]
pub struct Task {
    /// Name of the thread.
    pub name: &'static str,
    /// The aim that is missed if the forwarding thread does not answer.
    pub aim: &'static str,
    /// The work before its first turn.
    pub new: fn(&Streams) -> Box<dyn Background>,
}

/// A port of the router, for [`Layer::check_ports`].
#[derive(Clone, Copy, Debug)]
pub struct Port<'a> {
    /// Name in the configuration.
    pub name: &'a str,
    /// Whether the port leads to the machine's own processes.
    pub is_tun: bool,
    /// The queue discipline.
    pub discipline: &'a Spec,
}

/// The sections of a layer together, ready for the plane.
pub trait Compiled: Any + Debug + Send + Sync {
    /// Applies the layer to a plane. Returns the replaced parts, so that another thread can free them.
    fn apply(&self, plane: &mut Plane, now: Instant) -> Box<dyn Send>;

    /// The two ends of each tunnel, whose packets the kernel must not get.
    fn tunnels(&self) -> Vec<(IpAddr, IpAddr)>;

    /// Maximum packets that wait in the layer, outside the queues of ports.
    fn waiting_max(&self) -> usize;
}
