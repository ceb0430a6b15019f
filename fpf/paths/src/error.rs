//! Why a topology, a path or a request is refused.

/// The refusal of a topology, a path or a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A name occurs twice.
    #[error("duplicate {what} `{name}`")]
    Twice {
        /// Kind of name: `domain`, `forwarding element`, ..
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name is unknown.
    #[error("there is no {what} `{name}`")]
    Unknown {
        /// Kind of name: `domain`, `forwarding element`, ..
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A value is outside its range.
    #[error("{what} must be from {least} to {most}, not {given}")]
    Range {
        /// Name of the value.
        what: &'static str,
        /// Value as given.
        given: u64,
        /// Minimum value.
        least: u64,
        /// Maximum value.
        most: u64,
    },
    /// Both ends of a link are at one forwarding element.
    #[error("both ends of a link are at `{0}`; they must be at different forwarding elements")]
    Loop(String),
    /// A domain has no free identifier.
    #[error(
        "domain `{domain}` has no free identifier: all {} identifiers of {bytes} byte are in use; use 2-byte \
         identifiers",
        1_u32 << (8 * u32::from(*bytes))
    )]
    Full {
        /// The domain.
        domain: String,
        /// Bytes per identifier.
        bytes: u8,
    },
    /// The working links and elements form no path.
    #[error("no path leads from `{from}` to `{to}`{}", offering(behaviour.as_deref()))]
    NoPath {
        /// The forwarding element at the start of the path.
        from: String,
        /// The target of the path.
        to: String,
        /// The behaviour that every domain must offer.
        behaviour: Option<String>,
    },
    /// Two consecutive domains on a named path are not connected by a suitable link.
    #[error(
        "no working link leads from domain `{from}` to `{to}` on the named path, through the elements that it names"
    )]
    NoLink {
        /// The domain before the gap.
        from: String,
        /// The domain after the gap.
        to: String,
    },
    /// The ends of a named path differ from the ends of its flow.
    #[error("the named path must begin in domain `{from}` and end in `{to}`, like its flow")]
    Ends {
        /// The domain of the ingress edge.
        from: String,
        /// The domain of the target.
        to: String,
    },
    /// Fewer disjoint paths exist than were requested.
    #[error("only {found} of {wanted} paths from `{from}` to `{to}` exist that share no {kind}")]
    NotDisjoint {
        /// The forwarding element at the start of the paths.
        from: String,
        /// The target of the paths.
        to: String,
        /// The kind of parts that the paths must not share.
        kind: &'static str,
        /// Requested number of paths.
        wanted: usize,
        /// Number of existing paths.
        found: usize,
    },
    /// The links have too little capacity left.
    #[error("no path from `{from}` to `{to}` has {bps} bit/s left")]
    NoCapacity {
        /// The forwarding element at the start of the path.
        from: String,
        /// The target of the path.
        to: String,
        /// Requested rate in bit/s.
        bps: u64,
    },
    /// The target is in the domain where the path would start, so no identifier is needed.
    #[error("`{from}` is already in the target domain `{to}`: no path is needed")]
    AlreadyThere {
        /// The forwarding element.
        from: String,
        /// The domain.
        to: String,
    },
    /// The identifiers of a path do not fit into a header.
    #[error("the identifiers of the path have {0} bytes, but a header holds at most 255")]
    TooLong(usize),
    /// The target cannot remove the header of packets with this payload.
    #[error("`{0}` does not deliver packets of this kind: it is not an edge for them")]
    NoEdge(String),
    /// A filter contradicts itself.
    #[error("the filter {0}")]
    Filter(&'static str),
    /// The request does not exist.
    #[error("there is no request {0}")]
    NoRequest(u64),
    /// A request has no target, or the same target twice.
    #[error("a request needs at least one target, and each target only once")]
    Targets,
}

fn offering(behaviour: Option<&str>) -> String {
    behaviour.map_or_else(String::new, |name| {
        format!(" through domains that offer `{name}`")
    })
}
