//! In-network processing: packets that a rule hands to a processor, and those that it gives back.
//!
//! ```text
//!  packet --> rule: process --> processor --> packets, each for a leaf --> the leaf's vector, the engine of the same FE
//!                                 |  state, with a bound on its memory
//! ```
//!
//! Source: Beben et al., sections I and III: "open for innovative in-network packet processing functions", "content
//! recoding and caching". The paper leaves the functions open; so does [`Processor`]. A processor is a pure state
//! machine: bytes in, bytes out. It sees the payload behind the FPF header, and gives payloads; the header is the
//! rule's matter. Each leaf of the rule is a vector, as of a multicast rule: so a processor's packets go wherever
//! vectors lead, and a table in which they lead back to their own rule is refused.
//!
//! - [`xor`]: pairs of packets over two paths with their parity, which repairs a loss at the far end
//! - [`segment`]: packets that are too long for the next link, in parts
//! - [`reassemble`]: the parts as packets again
//! - [`cache`]: answers interests in named chunks that it has stored; [`chunk`]: their packets
//!
//! A function that serves any path has no leaves: its packets keep their vector, and Index advances past the LID of the
//! rule, so that they go on by the next one. Such a rule leads nowhere by itself. A cache does both: its answers go to
//! its leaf, all other packets keep their vector.
//!
//! A processor keeps order only as far as it says so. Time is an argument; what it holds leaves with a later packet, or
//! is given up.

pub mod cache;
pub mod chunk;
pub mod reassemble;
pub mod segment;
pub mod xor;

use std::sync::Arc;

use weir_base::Instant;
use weir_packet::Reason;
use weir_wire::fpf::Vector;

/// The number of a processor of an FE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessorId(pub u32);

/// The rule that hands packets to a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processing {
    /// The processor. Rules with the same number share its state.
    pub processor: ProcessorId,
    /// The vectors of the packets that it gives, by the number of the leaf; Index begins at zero. None, if its function
    /// has no leaves.
    pub leaves: Arc<[Vector]>,
}

/// A processor that rules of a table name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name. A processor keeps its state when a table with the same name and function comes.
    pub name: Box<str>,
    /// Its function.
    pub function: Function,
}

/// The function of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Sends pairs of packets with their parity.
    XorEncode,
    /// Repairs such pairs.
    XorDecode,
    /// Cuts packets that are too long for the next link.
    Segment,
    /// Puts them together again.
    Reassemble,
    /// Answers interests in chunks that have passed.
    Cache(cache::Limits),
}

impl Function {
    /// All functions without parameters.
    pub const PLAIN: [Self; 4] = [
        Self::XorEncode,
        Self::XorDecode,
        Self::Segment,
        Self::Reassemble,
    ];

    /// The word for the action of a rule.
    pub const fn word(self) -> &'static str {
        match self {
            Self::XorEncode => "xor-encode",
            Self::XorDecode => "xor-decode",
            Self::Segment => "segment",
            Self::Reassemble => "reassemble",
            Self::Cache(_) => "cache",
        }
    }

    /// A processor with this function, without any state.
    pub fn start(self) -> Box<dyn Processor> {
        match self {
            Self::XorEncode => Box::<xor::Encoder>::default(),
            Self::XorDecode => Box::<xor::Decoder>::default(),
            Self::Segment => Box::<segment::Segmenter>::default(),
            Self::Reassemble => Box::<reassemble::Reassembler>::default(),
            Self::Cache(limits) => Box::new(cache::Cache::new(limits)),
        }
    }

    /// Number of leaves that it gives packets to; none, if they go on by their own vector.
    pub const fn leaves(self) -> usize {
        match self {
            Self::XorEncode => 3,
            Self::XorDecode | Self::Cache(_) => 1,
            Self::Segment | Self::Reassemble => 0,
        }
    }

    /// Bytes by which a payload that a leaf gets is longer after it.
    pub const fn growth(self) -> usize {
        match self {
            Self::XorEncode => xor::HEADER_LEN,
            Self::XorDecode | Self::Segment | Self::Reassemble | Self::Cache(_) => 0,
        }
    }

    /// Whether packets go on by their own vector, all of them or some.
    pub const fn goes_on(self) -> bool {
        self.leaves() == 0 || matches!(self, Self::Cache(_))
    }
}

/// A packet that a processor takes.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The bytes behind its FPF header.
    pub payload: &'a [u8],
    /// The time.
    pub at: Instant,
    /// The number of the interface that it came in by.
    pub from: u16,
    /// Longest payload of a packet that the next link carries, if the packet goes on by its own vector.
    pub room: usize,
}

impl<'a> Taken<'a> {
    /// This payload at a time, with room for any packet.
    pub const fn new(payload: &'a [u8], at: Instant) -> Self {
        Self {
            payload,
            at,
            from: 0,
            room: usize::MAX,
        }
    }
}

/// A processor of packets.
pub trait Processor: Send + std::fmt::Debug {
    /// Takes a packet. It calls `give` for each packet that it gives, at most [`GIVES_MAX`] times, with the number of a
    /// leaf, or [`ONWARD`]. Returns the reason if the packet is dropped.
    fn process(
        &mut self,
        packet: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason>;

    /// Number of leaves that it gives packets to; none, if they go on by their own vector.
    fn leaves(&self) -> usize;

    /// Gives up what has waited for too long.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When it has something to give up.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// A packet that it gave up since it was asked last: its bytes, as far as they had come.
    fn poll_given_up(&mut self) -> Option<usize> {
        None
    }

    /// Reports its gauges.
    fn inspect(&self, _report: &mut dyn FnMut(&'static str, u64)) {}

    /// Most bytes of memory that it can hold.
    fn state_bytes_max(&self) -> usize;
}

/// In place of a leaf: the packet goes on by the next LID of its own vector.
pub const ONWARD: usize = usize::MAX;
/// Longest payload in bytes that a processor takes: a jumbo frame.
pub const PAYLOAD_MAX: usize = 9216;
/// Maximum packets that a processor gives for one that it takes.
pub const GIVES_MAX: usize = segment::SEGMENTS_MAX;
