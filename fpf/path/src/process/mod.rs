//! In-network processing: packets that a rule hands to a processor, and the packets that it gives back.
//!
//! ```text
//!  packet --> rule: process --> processor --> packets, each for a leaf --> the leaf's vector, engine of the same FE
//!                                 |  state, with a bound on its memory
//! ```
//!
//! Source: Beben et al., sections I and III: "open for innovative in-network packet processing functions", "content
//! recoding and caching". The paper leaves the functions open; so does [`Processor`]. A processor is a pure state
//! machine: bytes in, bytes out. It reads the payload after the FPF header, and gives payloads; the rule provides the
//! header. Each leaf of the rule is a vector, as in a multicast rule: so a processor's packets go wherever vectors
//! lead, and a table in which they lead back to their own rule is refused.
//!
//! - [`xor`]: pairs of packets over two paths with their parity, which repairs a loss at the far end
//! - [`segment`]: cuts packets that are too long for the next link into parts
//! - [`reassemble`]: puts the parts together again
//! - [`cache`]: answers interests in named chunks that it has stored; [`chunk`]: their packets
//! - `running`: the processors of the current table
//!
//! A function that serves any path has no leaves: its packets keep their vector, and Index advances past the LID of the
//! rule, so that they continue with the next LID. Such a rule leads nowhere by itself. A cache does both: its answers
//! go to its leaf, all other packets keep their vector.
//!
//! A processor keeps packets in order only if its documentation states that. Time is an argument; data that a processor
//! holds leave with a later packet, or are given up.

pub mod cache;
pub mod chunk;
pub mod reassemble;
pub(crate) mod running;
pub mod segment;
pub mod xor;

use std::sync::Arc;

use weir_base::Instant;
use weir_packet::Reason;

use crate::header::Vector;

/// The number of a processor of an FE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessorId(pub u32);

/// The rule that hands packets to a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processing {
    /// The processor. Rules with the same number share its state.
    pub processor: ProcessorId,
    /// The vectors of the packets that the processor gives, by the number of the leaf; Index begins at zero. Empty if
    /// the function has no leaves.
    pub leaves: Arc<[Vector]>,
}

/// A processor that rules of a table name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name of the processor, which keeps its state if a new table has the same name and function.
    pub name: Box<str>,
    /// Function of the processor.
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
    /// Puts such packets together again.
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

    /// Number of leaves to which packets are given; zero if packets keep their own vector.
    pub const fn leaves(self) -> usize {
        match self {
            Self::XorEncode => 3,
            Self::XorDecode | Self::Cache(_) => 1,
            Self::Segment | Self::Reassemble => 0,
        }
    }

    /// Bytes by which the function makes the payload for a leaf longer.
    pub const fn growth(self) -> usize {
        match self {
            Self::XorEncode => xor::HEADER_LEN,
            Self::XorDecode | Self::Segment | Self::Reassemble | Self::Cache(_) => 0,
        }
    }

    /// Whether packets keep their own vector, all of them or some.
    pub const fn goes_on(self) -> bool {
        self.leaves() == 0 || matches!(self, Self::Cache(_))
    }
}

/// A packet that a processor takes.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// The bytes after the FPF header.
    pub payload: &'a [u8],
    /// The current time.
    pub at: Instant,
    /// Number of the input interface.
    pub from: u16,
    /// Longest payload in bytes that the next link carries, if the packet keeps its own vector.
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
    /// Takes a packet. Calls `give` for each packet that results, at most [`GIVES_MAX`] times, with the number of a
    /// leaf, or [`ONWARD`]. Returns the reason if the packet is dropped.
    fn process(
        &mut self,
        packet: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason>;

    /// Number of leaves to which packets are given; zero if packets keep their own vector.
    fn leaves(&self) -> usize;

    /// Gives up packets that have waited for too long.
    fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`Self::handle_timeout`] has something to give up.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next packet that was given up since the last call: the number of its bytes that had arrived.
    fn poll_given_up(&mut self) -> Option<usize> {
        None
    }

    /// Reports the processor's gauges.
    fn inspect(&self, _report: &mut dyn FnMut(&'static str, u64)) {}

    /// Maximum bytes of memory that the processor can hold.
    fn state_bytes_max(&self) -> usize;
}

/// Instead of a leaf: the packet continues with the next LID of its own vector.
pub const ONWARD: usize = usize::MAX;
/// Longest payload in bytes that a processor takes: a jumbo frame.
pub const PAYLOAD_MAX: usize = 9216;
/// Maximum packets that a processor gives for one that it takes.
pub const GIVES_MAX: usize = segment::SEGMENTS_MAX;
