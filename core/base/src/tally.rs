//! Packets and bytes, counted together: no report ever has one without the other.

use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A number of packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes: layer-2 frames without the frame check sequence.
    pub bytes: u64,
}

impl Tally {
    /// Nothing.
    pub const ZERO: Self = Self {
        packets: 0,
        bytes: 0,
    };

    /// One packet of `bytes` bytes.
    pub const fn one(bytes: u64) -> Self {
        Self { packets: 1, bytes }
    }

    /// Adds one packet of `bytes` bytes.
    pub const fn count(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Subtracts one packet of `bytes` bytes.
    pub const fn uncount(&mut self, bytes: u64) {
        self.packets -= 1;
        self.bytes -= bytes;
    }
}

impl Add for Tally {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Sub for Tally {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            packets: self.packets - other.packets,
            bytes: self.bytes - other.bytes,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Tally {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
