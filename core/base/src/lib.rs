//! The vocabulary of weir: time, units, randomness, tallies, settings.
//!
//! Nothing here reads a clock, opens a socket or knows what a packet is.
//!
//! - [`time`]: instants and spans in integer nanoseconds
//! - [`units`]: rates and byte counts, and their written forms (`"100 Mbit"`, `"1500 B"`)
//! - [`offered`]: an offered load as a function of time
//! - [`distribution`]: random sizes and times (`"exponential 20 kB"`)
//! - [`spacing`]: how the packets of a flow follow each other
//! - [`pace`]: the times at which an application has its next piece ready
//! - [`framing`]: the bytes that a frame occupies on a link: Ethernet, ATM cells, DOCSIS
//! - [`early`]: the probability of an early drop, for queues and for controllers
//! - [`random`]: named random streams, so that each user of randomness replays independently
//! - [`statistics`]: means, deviations, percentiles, slopes, fairness
//! - [`tally`]: packets and bytes, counted together
//! - [`text`]: text wrapped to a width
//! - [`throughput`]: a count of packets or messages, and their rate
//! - [`delays`]: a histogram of times
//! - [`graph`]: shortest paths through a network
//! - [`setting`]: parameters: unit, range, default and a sentence for each
//! - [`varying`]: a value that changes with time in steps
//! - [`gauge`]: the numbers that a mechanism reports, with IDs and units

pub mod delays;
pub mod distribution;
pub mod early;
pub mod framing;
pub mod gauge;
pub mod graph;
pub mod offered;
pub mod pace;
pub mod random;
pub mod setting;
pub mod spacing;
pub mod statistics;
pub mod tally;
pub mod text;
pub mod throughput;
pub mod time;
pub mod units;
pub mod varying;

pub use delays::Delays;
pub use distribution::{Distribution, Sizes, Times};
pub use framing::Framing;
pub use offered::Offered;
pub use random::{Stream, Streams};
pub use spacing::Spacing;
pub use tally::Tally;
pub use throughput::Throughput;
pub use time::{Instant, Span};
pub use units::{Bytes, Rate};
pub use varying::Varying;
