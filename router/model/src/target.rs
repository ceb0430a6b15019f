//! The target of a route: one next hop, several, or none.

use std::collections::BTreeMap;

/// Maximum next hops of a route, and maximum weight of a next hop (Linux: `rtnh_hops` is an octet).
pub const HOPS_MAX: usize = 256;

/// Where the packets of a route go. `H` identifies a next hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target<H> {
    /// To a next hop.
    Hop(H),
    /// To several next hops, which are in order and have weights from 1 to 256. Made by [`Target::of_hops`].
    Hops(Vec<(H, u16)>),
    /// Nowhere.
    Discard(Discard),
}

/// How packets without a next hop are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Discard {
    /// Silently.
    Blackhole,
    /// The sender learns that the destination is unreachable.
    Unreachable,
    /// The sender learns that an administrator has prohibited the destination.
    Prohibit,
}

impl Discard {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Blackhole, Self::Unreachable, Self::Prohibit];

    /// The word of `ip route`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Blackhole => "blackhole",
            Self::Unreachable => "unreachable",
            Self::Prohibit => "prohibit",
        }
    }
}

impl<H: Ord> Target<H> {
    /// The target of these next hops with their weights; `None` without next hops. Weights of equal next hops are
    /// added. Next hops beyond [`HOPS_MAX`] are left out.
    pub fn of_hops(hops: impl IntoIterator<Item = (H, u16)>) -> Option<Self> {
        let mut all = BTreeMap::new();
        for (hop, weight) in hops {
            let sum: &mut u16 = all.entry(hop).or_default();
            *sum = sum.saturating_add(weight).clamp(1, HOPS_MAX as u16);
        }
        match all.len() {
            0 | 1 => all.into_keys().next().map(Self::Hop),
            _ => Some(Self::Hops(all.into_iter().take(HOPS_MAX).collect())),
        }
    }

    /// The next hops with their weights.
    pub fn hops(&self) -> impl Iterator<Item = (&H, u16)> {
        let (one, several) = match self {
            Self::Hop(hop) => (Some((hop, 1)), &[][..]),
            Self::Hops(hops) => (None, &hops[..]),
            Self::Discard(_) => (None, &[][..]),
        };
        let several = several.iter().map(|(hop, weight)| (hop, *weight));
        one.into_iter().chain(several)
    }

    /// Converts the next hops. Next hops that fail are left out while another one remains; otherwise, the first error
    /// is returned.
    pub fn map<'a, K: Ord, E>(
        &'a self,
        mut convert: impl FnMut(&'a H) -> Result<K, E>,
    ) -> Result<Target<K>, E> {
        let hops = match self {
            Self::Hop(hop) => return convert(hop).map(Target::Hop),
            Self::Discard(discard) => return Ok(Target::Discard(*discard)),
            Self::Hops(hops) => hops,
        };
        let (mut converted, mut first) = (Vec::with_capacity(hops.len()), None);
        for (hop, weight) in hops {
            match convert(hop) {
                Ok(hop) => converted.push((hop, *weight)),
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        match (Target::of_hops(converted), first) {
            (Some(target), _) => Ok(target),
            (None, Some(error)) => Err(error),
            (None, None) => unreachable!("there are several next hops"),
        }
    }

    /// This target, with references to its next hops.
    pub fn as_ref(&self) -> Target<&H> {
        match self {
            Self::Hop(hop) => Target::Hop(hop),
            Self::Hops(hops) => Target::Hops(hops.iter().map(|(hop, n)| (hop, *n)).collect()),
            Self::Discard(discard) => Target::Discard(*discard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_hops_are_in_order_and_a_single_one_needs_no_weight() {
        let target = Target::of_hops([(9, 1), (3, 200), (9, 1), (3, 200)]).unwrap();
        assert_eq!(target, Target::Hops(vec![(3, 256), (9, 2)]));
        assert_eq!(Target::of_hops([(9, 7)]), Some(Target::Hop(9)));
        assert_eq!(Target::<u8>::of_hops([]), None);
    }

    #[test]
    fn a_next_hop_that_fails_is_left_out() {
        let both = Target::of_hops([(1, 1), (2, 5)]).unwrap();
        let except = |bad: &[i32]| {
            let bad = bad.to_vec();
            both.map(move |hop| match bad.contains(hop) {
                true => Err(*hop),
                false => Ok(10 - hop),
            })
        };
        assert_eq!(except(&[]), Ok(Target::Hops(vec![(8, 5), (9, 1)])));
        assert_eq!(except(&[1]), Ok(Target::Hop(8)));
        assert_eq!(except(&[1, 2]), Err(1));
        let nowhere = Target::<i32>::Discard(Discard::Prohibit);
        assert_eq!(nowhere.map(|_| Err::<u8, _>(())).unwrap().hops().count(), 0);
    }
}
