//! The LFB classes that the RFCs define. weir serves some of them; other FEs and libraries use the rest.
//!
//! | file | library | source |
//! |---|---|---|
//! | `fe_object.xml` | FEObject: the identity of an FE and its LFBs | RFC 5812, section 5 |
//! | `fe_protocol.xml` | FEPO, version 1.2: an FE's associations | RFC 5810, appendix B; RFC 7121, appendix A; RFC 7391, appendix A |
//! | `base_types.xml` | BaseTypeLibrary: types | RFC 6956, section 4 |
//! | `base_blocks.xml` | BaseLFBLibrary: ports, prefixes, next hops, redirects, a scheduler | RFC 6956, section 5 |
//!
//! IDs, names and layouts are those of the RFCs; the descriptions are ours. The LFBs declare no inputs and outputs,
//! because the packet path through weir is fixed.
//!
//! *Decision*: `FEState` can be written, as in erratum 3487 of RFC 5812, because a CE must be able to start an FE.

/// ID of the class FEObject, which has exactly one instance.
pub const FE_OBJECT: u32 = 1;
/// ID of the class FEPO, which has exactly one instance.
pub const FE_PROTOCOL: u32 = 2;

/// The libraries; each follows the libraries that it loads.
pub const LIBRARIES: [&str; 4] = [
    include_str!("fe_object.xml"),
    include_str!("fe_protocol.xml"),
    include_str!("base_types.xml"),
    include_str!("base_blocks.xml"),
];
