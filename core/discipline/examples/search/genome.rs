//! A load of an attacker as numbers that can be mutated.

use rand::RngExt;
use weir_base::random::Stream;

/// Parts of an attack, which run at once, so that one part can prepare what the other part uses.
const LIMBS: usize = 2;
const GENES: usize = 15;
/// Addresses that can be forged.
const FORGED: u32 = 1 << 22;
/// Maximum packets of a forged address: with one more the source is trusted, like an address of the attacker's own.
const FORGED_LIFE: u32 = 15;

/// All loads of a class of attackers: each gene is from 0 to 1.
#[derive(Clone)]
pub(crate) struct Genome([[f64; GENES]; LIMBS]);

/// One part of an attack.
#[derive(Debug)]
pub(crate) struct Limb {
    /// Mean rate, as a share of the link's rate.
    pub(crate) rate: f64,
    /// Two packet lengths in bytes, and the share of packets that have the first one.
    pub(crate) bytes: [u32; 2],
    pub(crate) mix: f64,
    pub(crate) sources: u32,
    pub(crate) ports: u16,
    pub(crate) destinations: u32,
    /// Whether a source has one destination.
    pub(crate) is_bound: bool,
    /// The share of flows that go to the victim's address.
    pub(crate) to_victim: f64,
    /// Flows from which the part sends in turn.
    pub(crate) width: usize,
    /// Packets of a flow, until another one replaces it.
    pub(crate) life: u32,
    /// Maximum packets of the part that wait at the link: at this number it sends only when one has left.
    pub(crate) window: u32,
    /// The share of each period in which the part sends.
    pub(crate) duty: f64,
    pub(crate) period_ms: f64,
    /// Whether the part's sources have sent a little before the attack, so that they are trusted.
    pub(crate) is_known: bool,
}

impl Genome {
    pub(crate) fn random(stream: &mut Stream) -> Self {
        Self([(); LIMBS].map(|()| [(); GENES].map(|()| stream.random())))
    }

    /// A copy with a few changed genes, and sometimes with one part of another load.
    pub(crate) fn child(&self, other: &Self, stream: &mut Stream) -> Self {
        let mut child = self.clone();
        let mut limb = || stream.random_range(0..LIMBS);
        let (to, from) = (limb(), limb());
        if stream.random_bool(0.25) {
            child.0[to] = other.0[from];
        }
        for _ in 0..stream.random_range(1..4) {
            let gene = &mut child.0[stream.random_range(0..LIMBS)][stream.random_range(0..GENES)];
            *gene = if stream.random_bool(0.3) {
                stream.random()
            } else {
                (*gene + stream.random_range(-0.1..0.1)).clamp(0.0, 1.0)
            };
        }
        child
    }

    /// The parts of the attack that send anything, of an attacker with this number of addresses, or with forged ones.
    pub(crate) fn limbs(&self, addresses: Option<u32>) -> Vec<Limb> {
        let limbs = self.0.iter().map(|genes| limb(genes, addresses));
        limbs.filter(|limb| limb.rate > 0.0).collect()
    }
}

fn limb(genes: &[f64; GENES], addresses: Option<u32>) -> Limb {
    let [rate, a, b, mix, sources, ports, destinations, bound, ..] = *genes;
    let [.., to_victim, width, life, window, duty, period, known] = *genes;
    let scaled = |gene: f64, most: u32| f64::from(most).powf(gene) as u32;
    Limb {
        rate: ((rate - 0.1) / 0.9).max(0.0),
        bytes: [a, b].map(|gene| 64 + (gene * 1450.0) as u32),
        mix,
        sources: addresses.map_or(FORGED, |most| scaled(sources, most)),
        ports: scaled(ports, 60_000) as u16,
        destinations: scaled(destinations, 40_000),
        is_bound: bound < 0.5,
        to_victim: (to_victim * 2.0 - 0.5).clamp(0.0, 1.0), // often no flow, and often all
        width: scaled(width, 2000) as usize,
        life: scaled(life, addresses.map_or(FORGED_LIFE, |_| 2000)),
        window: scaled(window, 10_000),
        duty: 0.05_f64.powf((duty - 0.2).max(0.0)),
        period_ms: 2.0 * 1000_f64.powf(period),
        is_known: addresses.is_some() && known < 0.5,
    }
}
