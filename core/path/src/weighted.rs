//! Spreads flows over alternatives in proportion to weights: the next hops of a route, the paths of an overlay.

/// The index of the alternative for a flow: the same for all packets with this hash. `None` if all weights are zero.
pub fn choose(flow_hash: u64, weights: impl Iterator<Item = u32> + Clone) -> Option<usize> {
    let total: u64 = weights.clone().map(u64::from).sum();
    // The high half of a product spreads the hash over 0..total without a division. The halves are swapped
    // because the queues' bins also use the high bits: flows that share an alternative must not be confined to
    // a few bins.
    let spread = flow_hash.rotate_left(32);
    let mut point = ((u128::from(spread) * u128::from(total)) >> 64) as u64;
    weights.map(u64::from).position(|weight| {
        let found = point < weight;
        point = point.saturating_sub(weight);
        found
    })
}
