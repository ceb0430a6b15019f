//! Which routes the kernel must have, which of them it has lost, and when to reinstall each.
//!
//! ```text
//!  wanted --compare--> installed
//!              |-----> its interface is down: waits for it
//!              |-----> another FE on this machine has the prefix: waits
//!              '-----> absent: due at once; soon again: after a gap, which doubles
//! ```
//!
//! Another program that repeatedly removes a route gets its way most of the time, because two fighting programs would
//! exhaust the machine. So the gap doubles from [`GAP_MIN`] to [`GAP_MAX`], separately for each route, and the report
//! names the reason.

use std::collections::BTreeMap;

use ipnet::IpNet;
use weir_base::{Instant, Span};
use weir_fe::fib::TargetRow;
use weir_lfb::class::ce_routes::CeRoutes;

/// Initial gap, and maximum gap.
const GAP_MIN: Span = Span::from_millis(250);
const GAP_MAX: Span = Span::from_secs(64);
/// The gap of a route resets after the route has stayed for this time plus twice its last gap.
const CALM: Span = Span::from_secs(10);

/// The routes of the CE.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// The row that has the target of each route.
    wanted: BTreeMap<IpNet, TargetRow>,
    /// Routes that are missing, or were missing recently.
    troubles: BTreeMap<IpNet, Trouble>,
    lost: u64,
    restored: u64,
}

#[derive(Debug)]
struct Trouble {
    missing: Option<Missing>,
    gap: Span,
    restored: Instant,
}

#[derive(Debug)]
struct Missing {
    why: String,
    /// Time of the reinstallation; `None` if the route must wait for something else.
    due: Option<Instant>,
    /// Whether the kernel has refused the route.
    is_refused: bool,
}

/// The state of a route on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Installed,
    Absent,
    /// The route cannot be installed now, for this reason.
    Impossible(String),
}

impl Upkeep {
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    pub(super) fn wanted(&self, prefix: &IpNet) -> Option<TargetRow> {
        self.wanted.get(prefix).copied()
    }

    /// Adds a route that the kernel gets.
    pub(super) fn put(&mut self, prefix: IpNet, row: TargetRow) {
        self.wanted.insert(prefix, row);
        self.troubles.remove(&prefix);
    }

    /// Adds a route that the kernel cannot get now.
    pub(super) fn put_later(&mut self, prefix: IpNet, row: TargetRow, why: String) {
        self.put(prefix, row);
        let missing = Some(Missing {
            why,
            due: None,
            is_refused: false,
        });
        let trouble = Trouble {
            missing,
            gap: Span::ZERO,
            restored: Instant::ZERO,
        };
        self.troubles.insert(prefix, trouble);
    }

    pub(super) fn remove(&mut self, prefix: &IpNet) {
        self.wanted.remove(prefix);
        self.troubles.remove(prefix);
    }

    /// Compares all routes with the machine's. `links`: whether interfaces or addresses have changed, which explains a
    /// loss.
    pub(super) fn compare(
        &mut self,
        now: Instant,
        links: bool,
        find: impl Fn(&IpNet, TargetRow) -> Found,
    ) {
        for (prefix, row) in &self.wanted {
            let found = find(prefix, *row);
            if found == Found::Installed && !self.troubles.contains_key(prefix) {
                continue;
            }
            let trouble = self.troubles.entry(*prefix).or_insert(Trouble {
                missing: None,
                gap: Span::ZERO,
                restored: Instant::ZERO,
            });
            self.lost += u64::from(trouble.compare(now, links, found));
        }
        self.troubles
            .retain(|_, trouble| trouble.missing.is_some() || !trouble.is_calm(now));
    }

    /// The routes to install now.
    pub(super) fn due(&self, now: Instant) -> Vec<IpNet> {
        let is_due = |trouble: &Trouble| trouble.due().is_some_and(|due| due <= now);
        let due = self.troubles.iter().filter(|(_, trouble)| is_due(trouble));
        due.map(|(prefix, _)| *prefix).collect()
    }

    /// Time at which the next route is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.troubles.values().filter_map(Trouble::due).min()
    }

    /// Records that a due route was installed, or refused.
    pub(super) fn tried(&mut self, now: Instant, prefix: &IpNet, refused: Option<String>) {
        let Some(trouble) = self.troubles.get_mut(prefix) else {
            return;
        };
        match refused {
            None => {
                self.restored += 1;
                trouble.missing = None;
                trouble.restored = now;
            }
            Some(why) => {
                trouble.widen();
                trouble.missing = Some(Missing {
                    why,
                    due: Some(now + trouble.gap),
                    is_refused: true,
                });
            }
        }
    }

    /// Reports the state of the routes in the kernel.
    pub(super) fn report(&self) -> CeRoutes {
        let troubles = self.troubles.iter();
        let mut missing =
            troubles.filter_map(|(prefix, trouble)| Some((prefix, trouble.missing.as_ref()?)));
        let first = missing.next();
        CeRoutes {
            wanted: self.wanted.len() as u64,
            missing: u64::from(first.is_some()) + missing.count() as u64,
            first: first
                .map(|(prefix, missing)| format!("route {prefix}: {}", missing.why))
                .unwrap_or_default(),
            lost: self.lost,
            restored: self.restored,
        }
    }
}

impl Trouble {
    fn due(&self) -> Option<Instant> {
        self.missing.as_ref()?.due
    }

    fn is_calm(&self, now: Instant) -> bool {
        now.since(self.restored) >= CALM.max(self.gap.times(2))
    }

    fn widen(&mut self) {
        self.gap = self.gap.times(2).clamp(GAP_MIN, GAP_MAX);
    }

    /// Compares the route with its state on the machine. Returns whether it was lost since the last comparison.
    fn compare(&mut self, now: Instant, links: bool, found: Found) -> bool {
        let was_missing = self.missing.is_some();
        match (found, &mut self.missing) {
            (Found::Installed, _) => {
                if was_missing {
                    self.restored = now;
                }
                self.missing = None;
            }
            (Found::Impossible(why), _) => {
                self.missing = Some(Missing {
                    why,
                    due: None,
                    is_refused: false,
                });
            }
            (Found::Absent, Some(missing)) => {
                let is_possible = missing.due.is_none() || (links && missing.is_refused);
                if is_possible {
                    missing.due = Some(now);
                }
            }
            (Found::Absent, None) => {
                if links || self.is_calm(now) {
                    self.gap = Span::ZERO
                } else {
                    self.widen()
                }
                let why = match self.gap {
                    Span::ZERO => "the kernel has lost it".to_owned(),
                    gap => format!(
                        "another program repeatedly removes or replaces it; the FE reinstalls it {gap} later"
                    ),
                };
                self.missing = Some(Missing {
                    why,
                    due: Some(now + self.gap),
                    is_refused: false,
                });
            }
        }
        !was_missing && self.missing.is_some()
    }
}

#[cfg(test)]
mod tests {
    use weir_fe::fib::{Family, Selector};

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1 << 40) + Span::from_millis(millis)
    }

    fn net(n: u8) -> IpNet {
        format!("10.{n}.0.0/16").parse().unwrap()
    }

    fn with(count: u8) -> Upkeep {
        let mut upkeep = Upkeep::default();
        for n in 1..=count {
            upkeep.put(net(n), (Family::V4, Selector::NextHop(1)));
        }
        upkeep
    }

    fn lose(upkeep: &mut Upkeep, now: Instant, links: bool, found: Found) {
        upkeep.compare(now, links, |prefix, _| {
            if *prefix == net(1) {
                found.clone()
            } else {
                Found::Installed
            }
        });
    }

    #[test]
    fn a_lost_route_comes_back_at_once_and_in_a_fight_ever_later() {
        let mut upkeep = with(2);
        let (mut now, mut gaps) = (at(0), Vec::new());
        for _ in 0..11 {
            lose(&mut upkeep, now, false, Found::Absent);
            let due = upkeep.next().unwrap();
            gaps.push(due.since(now).as_nanos() / 1_000_000);
            assert_eq!(upkeep.report().missing, 1);
            assert_eq!(upkeep.due(due), [net(1)]);
            // A further loss caused by another program does not bring the time forward.
            lose(&mut upkeep, now, false, Found::Absent);
            assert_eq!(upkeep.next(), Some(due));
            upkeep.tried(due, &net(1), None);
            now = due + Span::from_millis(1);
        }
        let expected = [
            0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000,
        ];
        assert_eq!(gaps, expected);
        let report = upkeep.report();
        assert_eq!((report.missing, report.lost, report.restored), (0, 11, 11));
        // The route stays; then the next loss counts as the first.
        now += Span::from_secs(129);
        lose(&mut upkeep, now, false, Found::Installed);
        lose(&mut upkeep, now, false, Found::Absent);
        assert_eq!(upkeep.next(), Some(now));
    }

    #[test]
    fn interfaces_that_come_and_go_are_no_fight() {
        let mut upkeep = with(2);
        for n in 0..9 {
            let now = at(n * 20);
            let down = Found::Impossible("interface eth0 is down".to_owned());
            lose(&mut upkeep, now, true, down);
            let report = upkeep.report();
            assert_eq!(report.missing, 1);
            let first = "route 10.1.0.0/16: interface eth0 is down";
            assert_eq!((&report.first[..], upkeep.next()), (first, None));
            lose(&mut upkeep, now, true, Found::Absent);
            assert_eq!(upkeep.due(now), [net(1)]);
            upkeep.tried(now, &net(1), None);
            lose(&mut upkeep, now, true, Found::Absent); // down and up between two comparisons
            assert_eq!(upkeep.due(now), [net(1)]);
            upkeep.tried(now, &net(1), None);
        }
    }

    #[test]
    fn a_refused_route_waits_for_the_next_change_of_a_link() {
        let mut upkeep = with(1);
        lose(&mut upkeep, at(0), true, Found::Absent);
        upkeep.tried(at(0), &net(1), Some("Network is unreachable".to_owned()));
        assert_eq!(upkeep.due(at(1)), []);
        lose(&mut upkeep, at(1), false, Found::Absent);
        assert_eq!(upkeep.due(at(1)), []);
        lose(&mut upkeep, at(1), true, Found::Absent);
        assert_eq!(upkeep.due(at(1)), [net(1)]);
        upkeep.remove(&net(1));
        assert_eq!((upkeep.next(), upkeep.report().missing), (None, 0));
    }
}
