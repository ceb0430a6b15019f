//! Checks the sections of flexible packet forwarding (FPF), and of events.

use std::sync::Arc;

use weir_base::setting::{did_you_mean, nearest};
use weir_config::ConfigError;
use weir_experiment::scenario::layer::Layer;
use weir_experiment::scenario::reader::Section;
use weir_experiment::scenario::{Key, Mode, Scenario, TrafficKind};
use weir_fpf_path::edge::profile::Shape;
use weir_paths::Disjoint;

use super::keys::*;
use super::{Domain, Effect, Encapsulation, Event, Forwarding, Path, Selection};

/// The key of a flow group with the hosts that receive copies.
const COPIES_TO: &str = "copies_to";

/// Reads the sections of a scenario.
pub(crate) fn check(
    top: &Section<'_>,
    scenario: &Scenario,
) -> Result<Option<Arc<dyn Layer>>, ConfigError> {
    let forwarding = Forwarding::check(top, scenario)?;
    let is_used = forwarding != Forwarding::default();
    Ok(is_used.then(|| Arc::new(forwarding) as Arc<dyn Layer>))
}

impl Forwarding {
    /// Checks the sections. The rest of the scenario has been checked.
    fn check(top: &Section<'_>, scenario: &Scenario) -> Result<Self, ConfigError> {
        let mut all = Self::default();
        for (name, section) in top.sections("domain")? {
            let domain = all.check_domain(name, section, scenario)?;
            all.domains.push(domain);
        }
        for (name, section) in top.sections("path")? {
            let path = all.check_path(name, section)?;
            all.paths.push(path);
        }
        for (name, section) in top.sections("encapsulation")? {
            let encapsulation = all.check_encapsulation(name, section, scenario)?;
            all.encapsulations.push(encapsulation);
        }
        for (name, section) in top.sections("event")? {
            let event = all.check_event(name, section, scenario)?;
            all.events.push(event);
        }
        all.events.sort_by_key(|event| event.at);
        all.check_multicast(top, scenario)?;
        Ok(all)
    }

    fn check_domain(
        &self,
        name: String,
        section: Section<'_>,
        scenario: &Scenario,
    ) -> Result<Domain, ConfigError> {
        let wrong = |why: String| Err(section.error(ROUTERS.name, why));
        let routers = section.names(&ROUTERS)?.unwrap_or_default();
        if routers.is_empty() {
            return wrong("must name the domain's routers, like [\"b1\", \"b2\"]".to_owned());
        }
        let known = || scenario.routers.iter().map(|router| router.name.as_str());
        for (place, router) in routers.iter().enumerate() {
            if !known().any(|name| name == router) {
                let near = did_you_mean(nearest(router, known()));
                return wrong(format!("names the unknown router \"{router}\"{near}"));
            }
            if scenario
                .router(router)
                .is_some_and(|router| router.mode == Mode::Queue)
            {
                return wrong(format!(
                    "names \"{router}\", whose mode is \"queue\": its kernel forwards, which does not know FPF"
                ));
            }
            if routers[..place].contains(router) {
                return wrong(format!("names \"{router}\" twice"));
            }
            if let Some(other) = self.domain_of(router) {
                let other = &self.domains[other].name;
                return wrong(format!(
                    "names \"{router}\", which is already in domain {other}; a router belongs to one domain"
                ));
            }
        }
        if known().any(|router| router == name) && routers != [name.as_str()] {
            return wrong(format!(
                "must be [\"{name}\"], or rename the domain: in a path, its name is ambiguous with router {name}"
            ));
        }
        let lid_bytes = section.optional_count(&LID_BYTES)?.map(|n| n as u8);
        section.finish(&[DOMAIN])?;
        Ok(Domain {
            name,
            routers,
            lid_bytes,
        })
    }

    fn check_path(&self, name: String, section: Section<'_>) -> Result<Path, ConfigError> {
        let through = section.names(&THROUGH)?.unwrap_or_default();
        if through.len() < 2 {
            let why = "must name at least two domains or routers, like [\"c\", \"b\", \"a\"]";
            return Err(section.error(THROUGH.name, why));
        }
        let domains = || self.domains.iter();
        let routers = domains().flat_map(|domain| domain.routers.iter());
        let names = domains().map(|domain| &domain.name).chain(routers);
        let names: Vec<&str> = names.map(String::as_str).collect();
        if let Some(stranger) = through.iter().find(|n| !names.contains(&n.as_str())) {
            let near = did_you_mean(nearest(stranger, names.into_iter()));
            let why = format!(
                "names \"{stranger}\", which is neither a domain nor a router of one{near}"
            );
            return Err(section.error(THROUGH.name, why));
        }
        section.finish(&[PATH])?;
        Ok(Path { name, through })
    }

    fn check_encapsulation(
        &self,
        name: String,
        section: Section<'_>,
        scenario: &Scenario,
    ) -> Result<Encapsulation, ConfigError> {
        let names = scenario.traffic.iter().map(|traffic| traffic.name.as_str());
        let traffic = find(&section, &OF_TRAFFIC, names)?;
        let traffic = traffic.ok_or_else(|| section.error(OF_TRAFFIC.name, "is missing"))?;
        let of = &scenario.traffic[traffic];
        if let Some(other) = self.encapsulations.iter().find(|e| e.traffic == traffic) {
            let why = format!(
                "names \"{}\", which encapsulation {} already uses",
                of.name, other.name
            );
            return Err(section.error(OF_TRAFFIC.name, why));
        }
        let ends = [&of.from, &of.to].into_iter().chain(of.kind.copies_to());
        for host in ends {
            let router = scenario.router_of(host);
            if router.is_none_or(|router| self.domain_of(router).is_none()) {
                let why = format!(
                    "names \"{}\", whose host {host} is not at a router of a domain; add its router to a [domain.NAME]",
                    of.name
                );
                return Err(section.error(OF_TRAFFIC.name, why));
            }
        }
        let weights = section.weights(&WEIGHTS)?;
        let number = section.count(&CHEAPEST)? as usize;
        let disjoint = match section.word(&DISJOINT)? {
            "links" => Some(Disjoint::Links),
            "domains" => Some(Disjoint::Domains),
            _ => None,
        };
        let by_packet = section.word(&SHARE)? == "packets";
        let selection = match self.named(&section, weights.as_deref(), of.kind.copies_to().len())? {
            Some(named) => {
                let others: [&str; 2] = [&CHEAPEST, &DISJOINT].map(|key| key.name);
                if let Some(other) = others.iter().find(|key| section.entry(key).is_some()) {
                    return Err(
                        section.error(other, "conflicts with `paths`; set only one of them")
                    );
                }
                Selection::Named(named)
            }
            None if weights
                .as_ref()
                .is_some_and(|weights| weights.len() != number) =>
            {
                let why = format!(
                    "must have {number} entries, one for each path of `{}`",
                    CHEAPEST.name
                );
                return Err(section.error(WEIGHTS.name, why));
            }
            None => Selection::Found {
                number,
                disjoint,
                weights: weights.unwrap_or_default(),
            },
        };
        let is_coded = check_code(&section, &selection, of.kind.copies_to())?;
        let cache = check_cache(&section, &selection, &of.kind)?;
        let shape = check_shape(&section)?;
        section.finish(&[ENCAPSULATION])?;
        Ok(Encapsulation {
            name,
            traffic,
            selection,
            by_packet,
            is_coded,
            cache,
            shape,
        })
    }

    /// The paths of a section with their weights. A flow group with copies has one path for each receiver.
    fn named(
        &self,
        section: &Section<'_>,
        weights: Option<&[u32]>,
        copies: usize,
    ) -> Result<Option<Vec<(usize, u32)>>, ConfigError> {
        let Some(wanted) = section.names(&PATHS)? else {
            return Ok(None);
        };
        let wrong = |key: &Key, why: String| Err(section.error(key.name, why));
        let names = || self.paths.iter().map(|path| path.name.as_str());
        let mut named = Vec::new();
        for (place, name) in wanted.iter().enumerate() {
            let Some(path) = names().position(|known| known == name) else {
                let near = did_you_mean(nearest(name, names()));
                return wrong(&PATHS, format!("names the unknown path \"{name}\"{near}"));
            };
            let weight = weights.map_or(Some(1), |weights| weights.get(place).copied());
            named.push((path, weight.unwrap_or(1)));
        }
        if named.is_empty() {
            return wrong(&PATHS, "must name at least one path".to_owned());
        }
        if weights.is_some_and(|weights| weights.len() != named.len()) {
            return wrong(&WEIGHTS, "must have as many entries as `paths`".to_owned());
        }
        if copies > 0 && named.len() != copies + 1 {
            let why = format!("must name {} paths: one for each receiver", copies + 1);
            return wrong(&PATHS, why);
        }
        Ok(Some(named))
    }

    fn check_event(
        &self,
        name: String,
        section: Section<'_>,
        scenario: &Scenario,
    ) -> Result<Event, ConfigError> {
        let at = section.optional_span(&AT)?;
        let at = at.filter(|at| *at < scenario.duration);
        let at = at.ok_or_else(|| {
            section.error(AT.name, "is missing, or not before the end of the run")
        })?;
        let links = || scenario.links.iter().map(|link| link.name.as_str());
        let cut = find(&section, &CUT, links())?;
        let join = find(&section, &JOIN, links())?;
        let names = self.encapsulations.iter().map(|e| e.name.as_str());
        let changed = find(&section, &CHANGED, names)?;
        let copies = changed.map_or(0, |changed| {
            let traffic = self.encapsulations[changed].traffic;
            scenario.traffic[traffic].kind.copies_to().len()
        });
        let is_fixed = |e: &Encapsulation| e.is_coded || e.cache.is_some();
        if changed.is_some_and(|changed| is_fixed(&self.encapsulations[changed])) {
            let why =
                "names an encapsulation with a `code` or a `cache`, whose paths cannot change";
            return Err(section.error(CHANGED.name, why));
        }
        let weights = section.weights(&WEIGHTS)?;
        let paths = self.named(&section, weights.as_deref(), copies)?;
        let effect = match (cut, join, changed, paths) {
            (Some(link), None, None, None) => Effect::Cut(link),
            (None, Some(link), None, None) => Effect::Join(link),
            (None, None, Some(changed), Some(paths)) => Effect::Change(changed, paths),
            _ => {
                let why = "must have one of `cut`, `join`, or `encapsulation` with `paths`";
                let why = format!("`{}` {why}", section.path);
                return Err(ConfigError::new(section.origin(), why));
            }
        };
        section.finish(&[EVENT])?;
        Ok(Event { name, at, effect })
    }

    /// Copies need an encapsulation, and hosts at different routers.
    fn check_multicast(&self, top: &Section<'_>, scenario: &Scenario) -> Result<(), ConfigError> {
        for ((name, section), (number, traffic)) in top
            .sections("traffic")?
            .iter()
            .zip(scenario.traffic.iter().enumerate())
        {
            let copies = traffic.kind.copies_to();
            if copies.is_empty() {
                continue;
            }
            let wrong = |why: String| Err(section.error(COPIES_TO, why));
            let mut routers = Vec::new();
            for host in [&traffic.to].into_iter().chain(copies) {
                let Some(router) = scenario.router_of(host) else {
                    return wrong(format!("names \"{host}\", which is not a host at a router"));
                };
                if routers.contains(&router) {
                    return wrong(format!(
                        "has two receivers at router {router}; each needs a router of its own"
                    ));
                }
                routers.push(router);
                if scenario.group(host).is_some_and(|group| group.count > 1) {
                    return wrong(format!("must name single hosts, but {host} is a group"));
                }
            }
            if scenario
                .group(&traffic.from)
                .is_some_and(|group| group.count > 1)
            {
                return wrong(format!(
                    "requires a single sender, but {} is a group",
                    traffic.from
                ));
            }
            if !self.encapsulations.iter().any(|e| e.traffic == number) {
                return wrong(format!(
                    "requires an [encapsulation.NAME] with traffic = \"{name}\": plain IP does not make copies"
                ));
            }
        }
        Ok(())
    }
}

/// Whether packets are coded, which needs two or three named paths.
fn check_code(
    section: &Section<'_>,
    selection: &Selection,
    copies_to: &[String],
) -> Result<bool, ConfigError> {
    let is_coded = section.word(&CODE)? == "xor";
    let wrong = |why: &str| Err(section.error(CODE.name, why));
    let is_named = matches!(selection, Selection::Named(paths) if [2, 3].contains(&paths.len()));
    if is_coded && !is_named {
        return wrong("requires two `paths`, or three with a path for the parity packets");
    }
    if is_coded && !copies_to.is_empty() {
        return wrong("conflicts with `copies_to` of the traffic; set only one of them");
    }
    let others: [&str; 2] = [&WEIGHTS, &SHARE].map(|key| key.name);
    match others.iter().find(|key| section.entry(key).is_some()) {
        Some(other) if is_coded => {
            let why = "conflicts with `code`, which distributes the packets itself";
            Err(section.error(other, why))
        }
        _ => Ok(is_coded),
    }
}

/// The memory of a cache in bytes. A cache needs a flow group with chunks, and one named path of their data.
fn check_cache(
    section: &Section<'_>,
    selection: &Selection,
    kind: &TrafficKind,
) -> Result<Option<u64>, ConfigError> {
    let Some(bytes) = section.optional_bytes(&CACHE)? else {
        return Ok(None);
    };
    let wrong = |why: &str| Err(section.error(CACHE.name, why));
    if !kind.has_chunks() {
        return wrong("requires traffic of kind web with `chunks`");
    }
    match selection {
        Selection::Named(paths) if paths.len() == 1 => Ok(Some(bytes.0)),
        _ => wrong("requires exactly one path in `paths`"),
    }
}

/// The shaper: its rate, and the number of packets that may wait for it.
fn check_shape(section: &Section<'_>) -> Result<Option<Shape>, ConfigError> {
    let limit = section.count(&SHAPE_LIMIT)? as usize;
    let Some(rate) = section.optional_rate(&SHAPE)? else {
        return match section.entry(SHAPE_LIMIT.name) {
            Some(_) => Err(section.error(SHAPE_LIMIT.name, "requires `shape`")),
            None => Ok(None),
        };
    };
    let shape = Shape::new(rate, limit);
    let shape = shape.map_err(|error| section.error(SHAPE.name, error.to_string()))?;
    Ok(Some(shape))
}

/// The index in `names` of the name that a key gives.
fn find<'a>(
    section: &Section<'_>,
    key: &'static Key,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<usize>, ConfigError> {
    let Some(wanted) = section.text(key)? else {
        return Ok(None);
    };
    match names.clone().position(|name| name == wanted) {
        Some(place) => Ok(Some(place)),
        None => {
            let near = did_you_mean(nearest(&wanted, names));
            let why = format!("names \"{wanted}\", which does not exist{near}");
            Err(section.error(key.name, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_experiment::scenario::plan::plan;

    const NET: &str = r#"
title = "two paths"
duration = "9 s"
[router.a]
[router.b]
[router.c]
[router.d]
[host.source]
[host.sink]
[host.far]
[host.group]
count = 2
[link.source]
ends = ["source", "c"]
[link.sink]
ends = ["sink", "a"]
[link.far]
ends = ["far", "b"]
[link.group]
ends = ["group", "d"]
[link.c-b]
ends = ["c", "b"]
[link.b-a]
ends = ["b", "a"]
[traffic.video]
kind = "udp"
from = "source"
to = "sink"
rate = "1 Mbit"
[domain.c]
routers = ["c"]
[domain.rest]
routers = ["a", "b"]
[path.short]
through = ["c", "rest"]
[encapsulation.video]
traffic = "video"
paths = ["short"]
[event.cut]
at = "1 s"
cut = "b-a"
"#;

    fn checked(text: &str) -> Result<Forwarding, String> {
        weir_experiment::extend(crate::FPF);
        let plan = plan(text, &[], &[]).map_err(|error| error.to_string())?;
        Ok(Forwarding::of(&plan.0).clone())
    }

    #[test]
    fn names_become_indices() {
        let all = checked(NET).unwrap();
        assert_eq!(all.domain_of("b"), Some(1));
        assert_eq!(all.domain_of("d"), None);
        let [video] = &all.encapsulations[..] else {
            panic!("{all:?}")
        };
        assert_eq!(video.selection, Selection::Named(vec![(0, 1)]));
        assert_eq!(all.events[0].effect, Effect::Cut(5));
        let found = NET.replace("paths = [\"short\"]", "cheapest = 2\nweights = [3, 1]");
        let found = checked(&found).unwrap();
        let selection = Selection::Found {
            number: 2,
            disjoint: None,
            weights: vec![3, 1],
        };
        assert_eq!(found.encapsulations[0].selection, selection);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_remedy() {
        for (old, new, expected) in [
            (
                "routers = [\"c\"]",
                "routers = [\"cc\"]",
                "`domain.c.routers` names the unknown router \"cc\"",
            ),
            (
                "routers = [\"a\", \"b\"]",
                "routers = [\"a\", \"c\"]",
                "names \"c\", which is already in domain c; a router belongs to one domain",
            ),
            (
                "[domain.rest]",
                "[domain.d]",
                "`domain.d.routers` must be [\"d\"], or rename the domain",
            ),
            (
                "through = [\"c\", \"rest\"]",
                "through = [\"c\", \"d\"]",
                "`path.short.through` names \"d\", which is neither a domain nor a router of one",
            ),
            (
                "through = [\"c\", \"rest\"]",
                "through = [\"c\"]",
                "must name at least two domains or routers",
            ),
            (
                "traffic = \"video\"",
                "traffic = \"vidoe\"",
                "`encapsulation.video.traffic` names \"vidoe\", which does not exist; did you mean `video`?",
            ),
            (
                "ends = [\"sink\", \"a\"]",
                "ends = [\"sink\", \"d\"]",
                "whose host sink is not at a router of a domain; add its router to a [domain.NAME]",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"shrot\"]",
                "names the unknown path \"shrot\"; did you mean `short`?",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\nweights = [1, 2]",
                "`encapsulation.video.weights` must have as many entries as `paths`",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\nweights = [0]",
                "must be a list of integers from 1 to 1000000",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\ncheapest = 2",
                "`encapsulation.video.cheapest` conflicts with `paths`; set only one of them",
            ),
            (
                "paths = [\"short\"]",
                "weights = [1, 2]",
                "`encapsulation.video.weights` must have 1 entries, one for each path of `cheapest`",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\ncode = \"xor\"",
                "`encapsulation.video.code` requires two `paths`, or three with a path for the parity packets",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\", \"short\"]\ncode = \"xor\"\nshare = \"packets\"",
                "`encapsulation.video.share` conflicts with `code`",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\ncache = \"1 MB\"",
                "`encapsulation.video.cache` requires traffic of kind web with `chunks`",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\nshape_limit = 9",
                "`encapsulation.video.shape_limit` requires `shape`",
            ),
            (
                "paths = [\"short\"]",
                "paths = [\"short\"]\nshape = \"0 bit\"",
                "`encapsulation.video.shape` is \"0 bit\", but must be a rate from \"8 kbit\"",
            ),
            (
                "cut = \"b-a\"",
                "cut = \"b-d\"",
                "`event.cut.cut` names \"b-d\", which does not exist",
            ),
            (
                "cut = \"b-a\"",
                "cut = \"b-a\"\njoin = \"b-a\"",
                "`event.cut` must have one of `cut`, `join`, or `encapsulation` with `paths`",
            ),
            (
                "at = \"1 s\"",
                "at = \"9 s\"",
                "`event.cut.at` is missing, or not before the end of the run",
            ),
            (
                "rate = \"1 Mbit\"",
                "rate = \"1 Mbit\"\ncopies_to = [\"far\"]",
                "`encapsulation.video.paths` must name 2 paths: one for each receiver",
            ),
            (
                "rate = \"1 Mbit\"",
                "rate = \"1 Mbit\"\ncopies_to = [\"sink\"]",
                "has two receivers at router a; each needs a router of its own",
            ),
            (
                "rate = \"1 Mbit\"",
                "rate = \"1 Mbit\"\ncopies_to = [\"group\"]",
                "must name single hosts, but group is a group",
            ),
        ] {
            assert!(NET.contains(old), "{old}");
            let mut text = NET.replace(old, new);
            if new.contains("copies_to") && !expected.contains("must name 2") {
                text = text.replace("paths = [\"short\"]", "");
                text = text.replace("[\"a\", \"b\"]", "[\"a\", \"b\", \"d\"]");
            }
            let error = checked(&text).unwrap_err();
            assert!(error.contains(expected), "{error}\n{expected}");
        }
        let alone = NET
            .replace(
                "rate = \"1 Mbit\"",
                "rate = \"1 Mbit\"\ncopies_to = [\"far\"]",
            )
            .replace(
                "[encapsulation.video]\ntraffic = \"video\"\npaths = [\"short\"]",
                "",
            );
        let error = checked(&alone).unwrap_err();
        assert!(error.contains("plain IP does not make copies"), "{error}");
    }
}
