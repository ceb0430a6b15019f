//! A full routing table that changes all the time: thousands of networks come and go every second.
//!
//! Network n is the n-th /24 network from 16.0.0.0/24; every eighth network has a sibling in IPv6.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use rand::RngExt;
use weir_base::{Stream, Streams};

use super::bed::Bed;
use super::{Done, Stop};
use crate::error::Error;

/// The first network.
const FIRST: u32 = 16 << 24;
/// Start of the prefixes of the siblings.
const V6: &str = "2001:db8:";
/// Every N-th network has a sibling in IPv6.
const V6_EVERY: u32 = 8;
/// Number of commands of one `ip` process, whose time has a limit.
const BATCH: u32 = 10_000;
/// Maximum number of networks that come or go in one change.
const CHANGED_MAX: u32 = 400;
/// Maximum pause between two changes, in milliseconds.
const PAUSE_MS_MAX: u64 = 300;

/// The networks, and which of them have a route.
#[derive(Debug)]
pub(super) struct Routes {
    present: Vec<bool>,
}

impl Routes {
    pub(super) fn new(number: u32) -> Self {
        Self {
            present: vec![false; number as usize],
        }
    }

    /// Adds a route to each network.
    pub(super) fn fill(&mut self, bed: &Bed) -> Result<(), Error> {
        let number = self.present.len() as u32;
        for first in (0..number).step_by(BATCH as usize) {
            let all = first..number.min(first + BATCH);
            let batch = all
                .flat_map(|network| commands("add", network))
                .collect::<String>();
            bed.ip(&bed.middle, &batch)?;
        }
        self.present.fill(true);
        Ok(())
    }

    /// Adds and removes networks.
    pub(super) fn churn(
        mut self,
        bed: &Bed,
        streams: &Streams,
        stop: &Stop,
    ) -> Result<Done, Error> {
        let mut random = streams.stream("routes");
        let mut done = Done::new();
        while !stop.is_set() {
            let batch = self.change(&mut random, &mut done);
            bed.ip(&bed.middle, &batch)?;
            stop.sleep(Duration::from_millis(random.random_range(0..PAUSE_MS_MAX)));
        }
        // Restore the missing networks, so that the number of routes is known.
        let gone: Vec<u32> = (0..self.present.len() as u32)
            .filter(|n| !self.present[*n as usize])
            .collect();
        for some in gone.chunks(BATCH as usize) {
            let batch = some
                .iter()
                .flat_map(|network| commands("add", *network))
                .collect::<String>();
            bed.ip(&bed.middle, &batch)?;
        }
        Ok(done)
    }

    fn change(&mut self, random: &mut Stream, done: &mut Done) -> String {
        let number = self.present.len() as u32;
        let mut batch = String::new();
        for _ in 0..random.random_range(1..=CHANGED_MAX) {
            let network = random.random_range(0..number);
            let present = &mut self.present[network as usize];
            let (verb, what) = if *present {
                ("del", "routes deleted")
            } else {
                ("add", "routes added")
            };
            *present = !*present;
            *done.entry(what.to_owned()).or_default() += 1;
            batch.extend(commands(verb, network));
        }
        batch
    }
}

/// An address in a network.
pub(super) fn address_in(network: u32, host: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST + (network << 8) + u32::from(host))
}

/// Number of routes of this number of networks.
pub(super) fn routes_of(networks: u32) -> u64 {
    u64::from(networks) + u64::from(networks.div_ceil(V6_EVERY))
}

/// Whether a prefix is that of a network.
pub(super) fn is_network(prefix: &str) -> bool {
    let v4 = || prefix.strip_suffix("/24")?.parse::<Ipv4Addr>().ok();
    prefix.starts_with(V6) || v4().is_some_and(|address| address.to_bits() >= FIRST)
}

/// The commands that add or delete the routes of a network.
fn commands(verb: &str, network: u32) -> impl Iterator<Item = String> {
    let mut v4 = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        v4,
        "route {verb} {}/24 via 10.83.2.2",
        address_in(network, 0)
    );
    let v6 = network.is_multiple_of(V6_EVERY).then(|| {
        let [high, low] = [network >> 16, network & 0xffff];
        format!("route {verb} {V6}{high:x}:{low:x}::/64 via fd83:2::2\n")
    });
    [Some(v4), v6].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_come_and_go_by_turns_and_have_siblings() {
        let mut routes = Routes::new(3);
        let mut random = Streams::new(1).stream("routes");
        let (mut done, mut present) = (Done::new(), [false; 3]);
        for _ in 0..20 {
            for command in routes
                .change(&mut random, &mut done)
                .lines()
                .filter(|c| !c.contains("2001"))
            {
                let network: usize = command.split('.').nth(2).unwrap().parse().unwrap();
                let has = std::mem::replace(&mut present[network], command.contains("add"));
                assert_eq!(has, command.contains("del"), "{command}");
            }
        }
        assert!(done.values().all(|number| *number > 100), "{done:?}");
        let all: Vec<String> = (0..17)
            .flat_map(|network| commands("add", network))
            .collect();
        assert_eq!(all.len() as u64, routes_of(17));
        let prefix = |command: &String| command.split(' ').nth(2).unwrap().to_owned();
        assert!(all.iter().all(|command| is_network(&prefix(command))));
        assert!(!is_network("10.83.2.0/24") && !is_network("16.0.0.0/8"));
        assert!(all.contains(&"route add 2001:db8:0:10::/64 via fd83:2::2\n".to_owned()));
        assert!(all.contains(&"route add 16.0.16.0/24 via 10.83.2.2\n".to_owned()));
    }
}
