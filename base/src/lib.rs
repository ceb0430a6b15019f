//! The vocabulary of weir: time, units, chance, tallies, settings.
//!
//! Nothing here reads a clock, opens a socket or knows what a packet is.
//!
//! - [`time`]: instants and spans in integer nanoseconds
//! - [`units`]: rates and byte counts, and their written forms (`"100 Mbit"`, `"1500 B"`)
//! - [`random`]: named random streams, so that each user of chance replays alone
//! - [`tally`]: packets and bytes, counted together
//! - [`setting`]: what a parameter is: its unit, range, default and sentence

pub mod random;
pub mod setting;
pub mod tally;
pub mod time;
pub mod units;

pub use random::{Stream, Streams};
pub use tally::Tally;
pub use time::{Instant, Span};
pub use units::{Bytes, Rate};
