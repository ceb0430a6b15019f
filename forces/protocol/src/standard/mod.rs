//! The classes that the RFCs declare. weir serves some of them; other FEs have others, and other libraries use them.
//!
//! | file | library | source |
//! |---|---|---|
//! | `fe_object.xml` | FEObject: what an FE is and which blocks it has | RFC 5812, section 5 |
//! | `fe_protocol.xml` | FEPO, version 1.2: an FE's associations | RFC 5810, appendix B; RFC 7121, appendix A; RFC 7391, appendix A |
//! | `base_types.xml` | BaseTypeLibrary: types | RFC 6956, section 4 |
//! | `base_blocks.xml` | BaseLFBLibrary: ports, prefixes, next hops, redirects, a scheduler | RFC 6956, section 5 |
//!
//! IDs, names and layouts are those of the RFCs; the sentences are ours. The blocks' inputs and outputs are not
//! declared: the way of a packet through weir is fixed.
//!
//! *Decision*: `FEState` can be written, as erratum 3487 of RFC 5812 has it: a CE must be able to start an FE.

/// ID of the class FEObject, which has one instance.
pub const FE_OBJECT: u32 = 1;
/// ID of the class FEPO, which has one instance.
pub const FE_PROTOCOL: u32 = 2;

/// The libraries, each after those that it loads.
pub const LIBRARIES: [&str; 4] = [
    include_str!("fe_object.xml"),
    include_str!("fe_protocol.xml"),
    include_str!("base_types.xml"),
    include_str!("base_blocks.xml"),
];
