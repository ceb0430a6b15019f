//! Why a topology, a path or a request is refused, in sentences.

/// The refusal of a topology, a path or a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A name occurs twice.
    #[error("there is already {what} `{name}`")]
    Twice {
        /// `a domain`, `a forwarding element`, ..
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name does not occur.
    #[error("there is no {what} `{name}`")]
    Unknown {
        /// `domain`, `forwarding element`, ..
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A value is outside its range.
    #[error("{what} must be from {least} to {most}, not {given}")]
    Range {
        /// The value's name.
        what: &'static str,
        /// As given.
        given: u64,
        /// The least.
        least: u64,
        /// The greatest.
        most: u64,
    },
    /// Both ends of a link are at one forwarding element.
    #[error("both ends of a link are at `{0}`")]
    Loop(String),
    /// A domain has no identifier left.
    #[error(
        "domain `{domain}` has no free identifier: all {} of {bytes} byte are in use; 2-byte identifiers would do",
        1_u32 << (8 * u32::from(*bytes))
    )]
    Full {
        /// The domain.
        domain: String,
        /// Bytes of its identifiers.
        bytes: u8,
    },
    /// No path exists, with the links and elements that work.
    #[error("no path leads from `{from}` to `{to}`{}", offering(behaviour.as_deref()))]
    NoPath {
        /// The forwarding element where it would begin.
        from: String,
        /// Its target.
        to: String,
        /// The behaviour that every domain must offer.
        behaviour: Option<String>,
    },
    /// Two domains that follow each other on a named path have no link that would do.
    #[error(
        "no working link leads from domain `{from}` to `{to}` on the named path, by the elements that it names"
    )]
    NoLink {
        /// The domain before the gap.
        from: String,
        /// The domain after it.
        to: String,
    },
    /// A named path has other ends than its flow.
    #[error("the named path must begin in domain `{from}` and end in `{to}`, where its flow does")]
    Ends {
        /// The domain of the ingress edge.
        from: String,
        /// The domain of the target.
        to: String,
    },
    /// Fewer disjoint paths exist than were requested.
    #[error("{found} of {wanted} paths from `{from}` to `{to}` share no {}", kind)]
    NotDisjoint {
        /// The forwarding element where they would begin.
        from: String,
        /// Their target.
        to: String,
        /// The parts that they must not share.
        kind: &'static str,
        /// As requested.
        wanted: usize,
        /// As many exist.
        found: usize,
    },
    /// The links have too little capacity left.
    #[error("no path from `{from}` to `{to}` has {bps} bit/s left")]
    NoCapacity {
        /// The forwarding element where it would begin.
        from: String,
        /// Its target.
        to: String,
        /// The rate that was requested.
        bps: u64,
    },
    /// The target is in the domain where the path would begin, and needs no identifier.
    #[error("`{from}` is in the target domain `{to}`: no path is needed")]
    AlreadyThere {
        /// The forwarding element.
        from: String,
        /// The domain.
        to: String,
    },
    /// The identifiers of a path do not fit into a header.
    #[error("the identifiers of the path have {0} bytes; a header holds 255")]
    TooLong(usize),
    /// The target cannot take this payload out of the header.
    #[error("`{0}` delivers no packets of this kind: it is no edge for them")]
    NoEdge(String),
    /// A filter contradicts itself.
    #[error("the filter {0}")]
    Filter(&'static str),
    /// There is no such request.
    #[error("there is no request {0}")]
    NoRequest(u64),
    /// A request names no target, or one twice.
    #[error("a request needs targets, each once")]
    Targets,
}

fn offering(behaviour: Option<&str>) -> String {
    behaviour.map_or_else(String::new, |name| {
        format!(" through domains that offer `{name}`")
    })
}
