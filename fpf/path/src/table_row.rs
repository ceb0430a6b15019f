//! The rows of a forwarding table: four bytes for each LID.

/// The number of a neighbour in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopId(u32);

/// The number of a rule in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(pub(super) u32);

/// A row: nothing, a neighbour, or a rule that does not forward.
///
/// ```text
///  bit:      31   30               29 ....... 0
///  forward:   1   leaves domain?   neighbour
///  others:    0   0                rule, from one on; zero: none
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Row(pub(super) u32);

impl HopId {
    /// The number, from zero on without gaps.
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Row {
    const FORWARD: u32 = 1 << 31;
    const LEAVES_DOMAIN: u32 = 1 << 30;

    /// A table has fewer neighbours than 2^30: at most a rule for each of 65 536 LIDs at 256 interfaces.
    pub(super) fn forward(hop: u32, leaves_domain: bool) -> Self {
        let border = if leaves_domain {
            Self::LEAVES_DOMAIN
        } else {
            0
        };
        Self(Self::FORWARD | border | hop)
    }

    /// The neighbour to which the row forwards, and whether the neighbour belongs to the next domain.
    #[inline(always)]
    pub(super) fn hop(self) -> Option<(HopId, bool)> {
        let id = HopId(self.0 & (Self::LEAVES_DOMAIN - 1));
        (self.0 & Self::FORWARD != 0).then_some((id, self.0 & Self::LEAVES_DOMAIN != 0))
    }

    /// The rule that does not forward, if there is one.
    #[inline]
    pub(super) fn rule(self) -> Option<RuleId> {
        (self.0 & Self::FORWARD == 0 && self.0 != 0).then_some(RuleId(self.0))
    }
}
