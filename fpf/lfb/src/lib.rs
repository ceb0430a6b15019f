//! Flexible packet forwarding (FPF) as a network layer of the router: the domain, the interfaces, the rules, and the
//! packets that get a header at this edge.
//!
//! ```toml
//! [fpf]                              # the domain
//! lid_bytes = 1
//!
//! [fpf.interface.core]               # where FPF packets come in and go out
//! port = "wan"
//!
//! [fpf.rule.to-b]                    # LID b1: to the neighbour, which is in the next domain
//! lid = "b1"
//! output = "core"
//! neighbour = "192.0.2.2"
//! leaves_domain = true
//!
//! [fpf.encapsulation.video]          # packets to this prefix follow the vector b1 a1
//! destination = "198.51.100.0/24"
//! vectors = "b1a1"
//!
//! [fpf.class.voice]                  # so do flows in which a classifier finds RTP
//! kinds = "rtp"
//! vectors = "b1a1"
//! ```
//!
//! A router has FPF if the configuration has an FPF interface. Only these interfaces accept FPF packets; elsewhere
//! their Ethernet type is unknown. Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future
//! Internet Networks", section III.
//!
//! - `section`: the sections of a configuration
//! - `domain`: the components of `[fpf]`
//! - `interface`, `rule`, `encapsulation`, `class`: one file for each kind of section within
//! - `text`: parsers for LIDs, vectors and Ethernet types
//! - `plan`: all sections together, checked
//! - `tables`: the classes, and the tables of `weir show`
//! - `classification`: the classifier of `[fpf.class.NAME]`

mod class;
mod classification;
mod domain;
mod encapsulation;
mod interface;
mod plan;
mod rule;
mod section;
mod tables;
mod text;

use weir_base::setting::{Parameter, Settings};
use weir_fpf_path::edge::filter::Filter;
use weir_layer::{Layer, NamedSection, Task};
use weir_model::fault::ResultCode;
use weir_model::{ComponentPath, Fault};

pub use plan::Built;

/// FPF as a network layer.
pub static LAYER: Layer = Layer {
    name: "FPF",
    section: &section::FPF,
    class: &tables::FPF,
    named: &[
        NamedSection {
            section: &section::INTERFACE,
            class: &tables::INTERFACES,
            word: "FPF interface",
            needed: &["port", "local"],
        },
        NamedSection {
            section: &section::RULE,
            class: &tables::RULES,
            word: "FPF rule",
            needed: &["lid", "action"],
        },
        NamedSection {
            section: &section::ENCAPSULATION,
            class: &tables::ENCAPSULATIONS,
            word: "FPF encapsulation",
            needed: &["vectors"],
        },
        NamedSection {
            section: &section::CLASS,
            class: &tables::CLASSES,
            word: "FPF class",
            needed: &["kinds"],
        },
    ],
    tables: tables::TABLES,
    compile: plan::compile,
    check_ports: plan::check_ports,
    switch_off: plan::switch_off,
    task: Some(Task {
        name: "classifier",
        aim: "classify flows",
        new: classification::new,
    }),
};

/// The key of the section.
const KEY: &str = "fpf";

/// A kind of section within `[fpf]`, whose instances the operator names, in the order of [`LAYER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// An interface that receives and sends FPF packets.
    Interface,
    /// The action for packets with a LID.
    Rule,
    /// Packets that get a header here, and their vectors.
    Encapsulation,
    /// Flows that get a header because of their content, and their vectors.
    Class,
}

impl Part {
    /// All kinds; each kind depends only on the kinds before it.
    pub const ALL: [Self; 4] = [
        Self::Interface,
        Self::Rule,
        Self::Encapsulation,
        Self::Class,
    ];

    /// The key of its sections.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Rule => "rule",
            Self::Encapsulation => "encapsulation",
            Self::Class => "class",
        }
    }

    /// The components of its sections.
    pub const fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Interface => interface::PARAMETERS,
            Self::Rule => rule::PARAMETERS,
            Self::Encapsulation => encapsulation::PARAMETERS,
            Self::Class => class::PARAMETERS,
        }
    }

    /// The path of the section with this name.
    pub fn path(self, name: &str) -> ComponentPath {
        LAYER.path(self as usize, name)
    }

    /// The kind and name of the section that a path names or points into.
    pub fn find<'p>(path: &'p ComponentPath) -> Option<(Self, &'p str)> {
        let segments: Vec<&'p str> = path.segments();
        let [key, part, name, ..] = segments[..] else {
            return None;
        };
        let is_here = key == KEY;
        let part = Self::ALL.into_iter().find(|p| p.key() == part)?;
        is_here.then_some((part, name))
    }
}

/// The packet filter of an encapsulation at this path, or of a section with the same filter components.
pub fn filter(path: &ComponentPath, settings: &Settings) -> Result<Filter, Fault> {
    encapsulation::filter(settings).map_err(|wrong| wrong.at(path))
}

/// Why a section is refused, and the component at fault.
#[derive(Debug)]
struct Wrong {
    /// Empty for the whole section.
    component: &'static str,
    why: String,
}

impl Wrong {
    fn new(component: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { component, why }
    }

    fn whole(why: impl Into<String>) -> Self {
        Self::new("", why)
    }

    /// The fault in the section at this path.
    fn at(self, path: &ComponentPath) -> Fault {
        let at = match self.component {
            "" => path.clone(),
            component => path.join(component),
        };
        Fault::new(at, self.why).code(ResultCode::ValueOutOfRange)
    }
}
