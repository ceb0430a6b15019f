//! Searches for the loads that do most damage per byte to honest traffic behind `triple_fair`.
//!
//! `cargo xtask search [ROUNDS] [SEED]`: for each class of attackers and each kind of damage a population of loads
//! evolves. A round tries one more load in each of them, for a second or less. Every hundred rounds and at the end, the
//! program prints the worst load of each, with its damage to this discipline and to others, under other seeds.
//!
//! | file | content |
//! |---|---|
//! | `genome` | a load, and how it changes |
//! | `attack` | the packets of a load |
//! | `link` | a link with honest traffic and an attack |

mod attack;
mod genome;
mod link;

use rand::RngExt;
use weir_base::Streams;
use weir_base::random::Stream;

use crate::genome::{Genome, Limb};
use crate::link::{CAPACITY, HEAVY, Service};

/// The number of addresses of an attacker; `None` if they are forged.
const CLASSES: [Option<u32>; 4] = [Some(1), Some(20), Some(1000), None];
/// The kinds of damage.
const KINDS: [&str; 5] = [
    "others' lost goodput beyond the attacker's share",
    "worst delays of others' light packets, s",
    "fraction of others' light packets lost",
    "the victim's lost goodput beyond the attacker's share",
    "fraction of the victim's call lost, and its worst delays, s",
];
/// The discipline that is attacked comes first.
const DISCIPLINES: [&str; 4] = ["triple_fair", "fq_codel", "cake", "host_fair"];
/// Loads of a population.
const POPULATION: usize = 16;
/// Loads without an improvement after which a population restarts.
const PATIENCE: usize = 400;
/// Damage is divided by the load that an attack offers, as a part of the link, but at least by this.
const OFFERED_MIN: f64 = 0.25;
/// The seed of the search, and those of the report.
const SEED: u64 = 1;
const OTHER_SEEDS: [u64; 3] = [2, 3, 4];
/// Rounds between two reports.
const REPORT: u64 = 100;

type Damage = [f64; KINDS.len()];

/// The parts that the manual page leaves to others and to the victim.
fn fair(addresses: Option<u32>, limbs: &[Limb], offered: f64) -> [f64; 2] {
    let others = limbs.iter().filter(|limb| limb.to_victim < 1.0);
    let hosts = others.map(|limb| {
        if limb.is_bound {
            limb.destinations.min(limb.sources)
        } else {
            limb.destinations
        }
    });
    let most = addresses.unwrap_or(HEAVY as u32); // half of the link, if they are forged
    let shares = f64::from(hosts.sum::<u32>().min(most));
    let left = 1.0 - offered.min(shares / (shares + HEAVY as f64));
    let of_victim = match addresses {
        Some(addresses) => 1.0 / f64::from(1 + addresses),
        None => 1.0 / 4.0,
    };
    let is_attacked = limbs.iter().any(|limb| limb.to_victim > 0.0);
    let of_victim = if is_attacked {
        (1.0 - offered * HEAVY as f64).max(of_victim)
    } else {
        1.0
    };
    [left, left * of_victim]
}

/// The damage of an attack, relative to the service without it, and the part of the link that it offers.
fn damage(
    discipline: &str,
    population: &Population,
    genome: &Genome,
    without: &Service,
    seed: u64,
) -> (Damage, f64) {
    let limbs = genome.limbs(population.addresses);
    let with = link::run(discipline, &limbs, seed);
    let offered = with.attack as f64 / CAPACITY;
    let [others, victim] = fair(population.addresses, &limbs, offered);
    let kept = |of: &dyn Fn(&Service) -> u64| of(&with) as f64 / of(without) as f64;
    let lost = |account: usize| with.lost[account] as f64 / with.sent[account] as f64;
    let damage = [
        1.0 - kept(&|service| service.heavy[1..].iter().sum()) / others,
        with.worst_s(1),
        lost(1),
        1.0 - kept(&|service| service.heavy[0]) / victim,
        lost(0) + with.worst_s(0),
    ];
    (damage, offered)
}

/// The loads of one class of attackers that do one kind of damage.
struct Population {
    addresses: Option<u32>,
    kind: usize,
    /// The loads, each with its damage per byte.
    loads: Vec<(f64, Genome)>,
    worst: Option<(f64, Genome)>,
    since: usize,
}

impl Population {
    /// Tries one more load.
    fn step(&mut self, without: &Service, stream: &mut Stream) {
        if self.since >= PATIENCE {
            (self.since, self.loads) = (0, Vec::new());
        }
        let genome = if self.loads.len() < POPULATION {
            Genome::random(stream)
        } else {
            let [one, other] = [(); 2].map(|()| self.parent(stream));
            one.child(other, stream)
        };
        let (damage, offered) = damage(DISCIPLINES[0], self, &genome, without, SEED);
        let load = (damage[self.kind] / offered.max(OFFERED_MIN), genome);
        let is_more = |than: &(f64, Genome)| load.0 > than.0;
        self.since = if self.loads.iter().all(is_more) {
            0
        } else {
            self.since + 1
        };
        if self.worst.as_ref().is_none_or(is_more) {
            self.worst = Some(load.clone());
        }
        self.loads.push(load);
        self.loads.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.loads.truncate(POPULATION);
    }

    /// The better of two random loads.
    fn parent(&self, stream: &mut Stream) -> &Genome {
        let [a, b] = [(); 2].map(|()| stream.random_range(0..self.loads.len()));
        &self.loads[a.min(b)].1
    }

    fn report(&self) {
        let Some((_, genome)) = &self.worst else {
            return;
        };
        let attacker = match self.addresses {
            Some(addresses) => format!("{addresses} addresses"),
            None => "forged addresses".into(),
        };
        println!("\n{attacker}: {}", KINDS[self.kind]);
        for limb in genome.limbs(self.addresses) {
            println!("  {limb:.2?}");
        }
        for discipline in DISCIPLINES {
            let runs = OTHER_SEEDS.map(|seed| {
                let without = link::run(discipline, &[], seed);
                damage(discipline, self, genome, &without, seed)
            });
            let mean = |of: &dyn Fn(&(Damage, f64)) -> f64| {
                runs.iter().map(of).sum::<f64>() / runs.len() as f64
            };
            let means: [f64; KINDS.len()] = std::array::from_fn(|kind| mean(&|run| run.0[kind]));
            println!(
                "  {discipline:12} {means:6.3?} with {:.2} of the link",
                mean(&|run| run.1)
            );
        }
    }
}

fn main() {
    let words = std::env::args().skip(1).map(|word| word.parse());
    let Ok(numbers) = words.collect::<Result<Vec<u64>, _>>() else {
        eprintln!("usage: search [ROUNDS] [SEED]");
        return;
    };
    let rounds = numbers.first().copied().unwrap_or(1000);
    let mut stream = Streams::new(numbers.get(1).copied().unwrap_or(1)).stream("search");
    let kinds = 0..KINDS.len();
    let all = kinds.flat_map(|kind| CLASSES.map(|addresses| (kind, addresses)));
    let mut populations: Vec<_> = all
        .map(|(kind, addresses)| Population {
            addresses,
            kind,
            loads: Vec::new(),
            worst: None,
            since: 0,
        })
        .collect();
    let without = link::run(DISCIPLINES[0], &[], SEED);
    for round in 1..=rounds {
        populations
            .iter_mut()
            .for_each(|of| of.step(&without, &mut stream));
        if round % REPORT == 0 || round == rounds {
            println!("\n{round} rounds");
            populations.iter().for_each(Population::report);
        }
    }
}
