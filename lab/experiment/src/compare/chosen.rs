//! The loads under which disciplines are compared: built-in scenarios by a short name, or any scenario with a link
//! `bottleneck`.

use std::path::PathBuf;

use weir_base::Rate;
use weir_base::setting::{did_you_mean, nearest};
use weir_config::{ConfigError, Origin};

use crate::error::Error;
use crate::options::RunOptions;
use crate::scenario::source::{BUILT_IN, title};
use crate::scenario::{Direction, Link, Override, Plan, Scenario};

/// The link at which disciplines are compared.
const LINK: &str = "bottleneck";

/// The short names, and the built-in scenarios.
const NAMED: [(&str, &str); 24] = [
    ("rrul", "rrul/rrul"),
    ("mix", "rfc7928/9-mix"),
    ("floods", "attack/few-floods"),
    ("hogs", "attack/many-hogs"),
    ("attacked-host", "attack/attacked-host"),
    ("spoofed", "attack/new-addresses"),
    ("forged", "attack/forged-addresses"),
    ("turns", "attack/turns"),
    ("streaming", "attack/mimic-streaming"),
    ("short-flows", "attack/short-flows"),
    ("timed", "attack/timed-packets"),
    ("crowd", "hosts/crowd"),
    ("shared-address", "hosts/shared-address"),
    ("flooding-host", "hosts/flooding-host"),
    ("flooding-host-flows", "hosts/flooding-host-flows"),
    ("one-sender", "rfc7928/5.1-one-sender"),
    ("aggressive", "rfc7928/5.2-aggressive"),
    ("unresponsive", "rfc7928/5.3-unresponsive"),
    ("far-near", "rfc7928/6-rtt-fairness"),
    ("bursts", "rfc7928/7-bursts"),
    ("many-flows", "rfc7928/8-stability"),
    ("demo", "lru-fq/demo"),
    ("distributed", "lru-fq/distributed"),
    ("distributed-spoofed", "lru-fq/distributed-spoofed"),
];
/// The loads that run if none is named: one of each kind. Every discipline together takes less than two minutes on two
/// processors.
const DEFAULTS: &[&str] = &["rrul", "mix", "floods", "hogs"];
/// The loads that run in the lab if none is named; the lab has no room for the hosts of the attacks.
const DEFAULTS_LAB: &[&str] = &["rrul", "mix", "demo"];

/// A load to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The name in tables.
    pub name: String,
    /// The scenario's file.
    pub file: PathBuf,
    /// The scenario's text, if it is built in.
    pub text: Option<&'static str>,
}

/// The loads with a short name: this name, and the scenario's name and title.
pub fn named() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    NAMED.into_iter().map(|(name, scenario)| {
        let text = BUILT_IN.iter().find(|(known, _)| *known == scenario);
        (name, scenario, text.map_or("", |(_, text)| title(text)))
    })
}

/// The loads that run if none is named.
pub fn defaults(in_lab: bool) -> Vec<Chosen> {
    let names = if in_lab { DEFAULTS_LAB } else { DEFAULTS };
    names.iter().filter_map(|name| find(name)).collect()
}

/// The load with this short name.
pub fn find(word: &str) -> Option<Chosen> {
    let (name, scenario) = NAMED.iter().find(|(name, _)| *name == word)?;
    let (_, text) = BUILT_IN.iter().find(|(known, _)| known == scenario)?;
    Some(Chosen::built_in(name, scenario, text))
}

/// The end of an error about an unknown load: a question with the nearest short name, or nothing.
pub fn near(word: &str) -> String {
    did_you_mean(nearest(word, NAMED.iter().map(|(name, _)| *name)))
}

impl Chosen {
    /// A built-in scenario under this name.
    pub(super) fn built_in(name: &str, scenario: &str, text: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            file: PathBuf::from(format!("scenarios/{scenario}.toml")),
            text: Some(text),
        }
    }

    /// The options of its run.
    pub(super) fn options(&self, common: &RunOptions) -> RunOptions {
        RunOptions {
            scenario: self.file.clone(),
            text: self.text.map(str::to_owned),
            ..common.clone()
        }
    }

    /// Checks that disciplines can be compared under this load, at this rate of the link, with these options.
    pub(super) fn check(&self, options: &RunOptions, rate: Option<Rate>) -> Result<(), Error> {
        let plan = options.plan()?;
        let link = bottleneck(&plan)?;
        match rate {
            Some(rate) => self.check_rate(&plan, link, rate),
            None => Ok(()),
        }
    }

    /// Checks that the bottleneck remains the narrowest link, and that an attack remains an attack.
    fn check_rate(&self, plan: &Plan, link: &Link, rate: Rate) -> Result<(), Error> {
        let wrong = |why: String| {
            let origin = Origin::named(format!("{}, --rate \"{rate}\"", self.name));
            Err(ConfigError::new(origin, why).into())
        };
        let others = plan.base.links.iter().filter(|other| other.name != LINK);
        let directions = others.flat_map(|other| {
            let rates = other.directions.iter();
            rates.filter_map(|direction| Some((direction.rate_at_start()?, &other.name)))
        });
        let narrowest = directions.min();
        if let Some((least, name)) = narrowest.filter(|(least, _)| rate >= *least) {
            return wrong(format!(
                "must be less than the {least} of `link.{name}`: otherwise the queue forms there"
            ));
        }
        let own = link.directions[0].rate_at_start();
        let own = own.filter(|own| rate > *own && has_attack(&plan.base));
        match own {
            Some(own) => wrong(format!(
                "must be at most the load's own {own}: its attackers could not fill a faster link"
            )),
            None => Ok(()),
        }
    }
}

/// The rate of the bottleneck, as a sentence: `bottleneck 20 Mbit; `. Empty if it is swept, because then the load's
/// name contains it.
pub(super) fn rate_of(options: &RunOptions) -> Result<String, Error> {
    let plan = options.plan()?;
    let rates = plan.points.iter().map(|point| {
        let link = point.scenario.links.iter().find(|link| link.name == LINK);
        link.map(|link| [&link.directions[0], &link.directions[1]].map(Direction::rate_at_start))
    });
    let mut rates: Vec<_> = rates.collect();
    rates.dedup();
    Ok(match rates[..] {
        [Some([Some(there), Some(back)])] if there == back => format!("Bottleneck {there}/s; "),
        [Some([Some(there), Some(back)])] => format!("Bottleneck {there}/s, {back}/s in reverse; "),
        [Some([Some(there), None])] => format!("Bottleneck {there}/s; "),
        _ => String::new(),
    })
}

/// The value of a scenario that sets the rate of the bottleneck.
pub(super) fn rate_override(rate: Rate) -> Override {
    Override {
        path: format!("link.{LINK}.rate"),
        value: format!("\"{rate}\""),
    }
}

fn has_attack(scenario: &Scenario) -> bool {
    scenario.traffic.iter().any(|traffic| traffic.hog)
}

fn bottleneck(plan: &Plan) -> Result<&Link, Error> {
    let links = &plan.base.links;
    links.iter().find(|link| link.name == LINK).ok_or_else(|| {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let why = format!(
            "`link.{LINK}` is missing; `weir compare` sets each discipline on this link. Rename the link that has the queue; the \
             file has the links {}",
            names.join(", ")
        );
        ConfigError::new(Origin::named(&*plan.file), why).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(load: &Chosen) -> RunOptions {
        load.options(&RunOptions::default())
    }

    #[test]
    fn every_short_name_is_a_load_with_a_bottleneck() {
        for (name, _, title) in named() {
            let load = find(name).unwrap();
            assert!(!title.is_empty(), "{name}");
            load.check(&options(&load), None).unwrap();
            // Also with --quick.
            let quick = RunOptions {
                quick: true,
                ..options(&load)
            };
            load.check(&quick, None).unwrap();
        }
        assert_eq!(defaults(false).len(), DEFAULTS.len());
        assert_eq!(defaults(true).len(), DEFAULTS_LAB.len());
        for load in defaults(true) {
            let lab = RunOptions {
                on: crate::Habitat::Lab,
                ..options(&load)
            };
            crate::run::check(&lab).unwrap();
        }
        assert_eq!(near("rruul"), "; did you mean `rrul`?");
    }

    #[test]
    fn the_bottleneck_stays_the_bottleneck_and_an_attack_an_attack() {
        let at = |name: &str, rate: &str| {
            let load = find(name).unwrap();
            let checked = load.check(&options(&load), Some(rate.parse().unwrap()));
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(at("rrul", "50 Mbit"), Ok(()));
        let error = at("rrul", "1 Gbit").unwrap_err();
        assert!(
            error.starts_with(
                "rrul, --rate \"1 Gbit\": must be less than the 1 Gbit of `link.home`"
            ),
            "{error}"
        );
        assert_eq!(at("floods", "50 Mbit"), Ok(()));
        let error = at("floods", "200 Mbit").unwrap_err();
        assert!(error.contains("at most the load's own 100 Mbit"), "{error}");
    }

    #[test]
    fn a_scenario_without_the_link_is_refused() {
        let name = "readme/uplink";
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name).unwrap();
        let load = Chosen::built_in(name, name, text);
        let error = load.check(&options(&load), None).unwrap_err().to_string();
        assert!(
            error.contains("uplink.toml: `link.bottleneck` is missing"),
            "{error}"
        );
        assert!(
            error.ends_with("tcp, web, flood, uplink, server, victim"),
            "{error}"
        );
    }
}
