//! A link in a scenario: the rate and the delay of each direction, and the modem that may be behind a port.
//!
//! ```text
//!   port ── shaper ──▶ [ buffer ] ── rate ──▶ delay ──▶ the other end         with `buffer`: a modem
//!   port ────────────────────────── rate ──▶ delay ──▶ the other end         without: the port knows the rate
//! ```
//!
//! `rate` and `delay` apply to both directions, unless `reverse_rate` and `reverse_delay` give the second end's. Like
//! disciplines, `shaper` and `buffer` belong to the first end, `reverse_shaper` and `reverse_buffer` to the second.
//! Rates and delays are [`Varying`]: they may change during the run.

use weir_autorate::{BY_TRAFFIC, REFLECTORS_MAX};
use weir_base::setting::Setting;
use weir_base::{Bytes, Framing, Instant, Rate, Span, Varying};

use super::discipline::Discipline;
use super::key::Key;
use super::parameters::*;
use super::reader::Section;
use super::source::Files;
use super::trace;
use weir_config::{ConfigError, Origin};

/// A link, or one link per host if a group at one of its ends has several hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The name.
    pub name: String,
    /// Names of routers or host groups.
    pub ends: [String; 2],
    /// The direction from the first end, and that from the second.
    pub directions: [Direction; 2],
    /// From a packet's IP length to its bytes on the wire.
    pub framing: Framing,
    /// How packets of a layer besides IP cross the link.
    pub medium: Medium,
    /// The queue at the first end.
    pub discipline: Option<Discipline>,
    /// The queue at the second end.
    pub reverse_discipline: Option<Discipline>,
}

/// How packets of a layer besides IP cross a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// In plain frames.
    #[default]
    Ethernet,
    /// In frames with a VLAN tag.
    Vlan,
    /// In a GRE tunnel.
    Gre,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The rate; unlimited if `None`.
    pub rate: Option<Varying<Rate>>,
    /// The delay.
    pub delay: Varying<Span>,
    /// The modem between the port and the link; if `None`, the port sends at the link's rate.
    pub modem: Option<Modem>,
}

/// A modem, whose rate its port does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modem {
    /// Maximum number of bytes that wait in the modem.
    pub buffer: Bytes,
    /// The rate at which the port sends to the modem; if `None`, as fast as it can.
    pub shaper: Option<Shaper>,
}

/// The rate at which a port sends to a modem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shaper {
    /// A fixed rate.
    Fixed(Rate),
    /// A rate that the shaper finds.
    Auto(Auto),
}

impl Shaper {
    /// The rate at the start.
    pub fn first(&self) -> Rate {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Auto(auto) => auto.base,
        }
    }
}

/// A shaper that finds its rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auto {
    /// Whether the shaper uses cake-autorate's algorithm, or ours.
    pub is_cake: bool,
    /// The minimum rate.
    pub least: Rate,
    /// The rate at the start, and without load.
    pub base: Rate,
    /// The maximum rate.
    pub most: Rate,
    /// Delay above which a queue is assumed.
    pub threshold: Span,
    /// Time between two probes.
    pub interval: Span,
    /// The hosts that answer the probes.
    pub reflectors: Vec<String>,
    /// Whether the round trips of the port's own traffic show the delay as well.
    pub by_traffic: bool,
}

impl Auto {
    /// Reads the keys of a shaper that finds its rate, even if the section has none of them.
    fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        let rate = |key| {
            section.setting(key).map(|setting| match setting {
                Setting::Rate(rate) => rate,
                other => unreachable!("{} is {other:?}", key.name),
            })
        };
        let least = rate(&SHAPER_LEAST)?;
        let names = section.names(&REFLECTORS)?.unwrap_or_default();
        let (traffic, reflectors): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| name == BY_TRAFFIC);
        Ok(Self {
            is_cake: false,
            least,
            base: section.optional_rate(&SHAPER_BASE)?.unwrap_or(least),
            most: rate(&SHAPER_MOST)?,
            threshold: section.span(&SHAPER_THRESHOLD)?,
            interval: section.span(&SHAPER_INTERVAL)?,
            reflectors,
            by_traffic: !traffic.is_empty(),
        })
    }

    fn check(self, section: &Section<'_>) -> Result<Self, ConfigError> {
        let Self {
            least, base, most, ..
        } = self;
        if least > most {
            let why = format!("is \"{most}\", but must be at least `shaper_least`, \"{least}\"");
            return Err(section.error(SHAPER_MOST.name, why));
        }
        if base < least || base > most {
            let why = format!("is \"{base}\", but must be from \"{least}\" to \"{most}\"");
            return Err(section.error(SHAPER_BASE.name, why));
        }
        let count = self.reflectors.len();
        if count > REFLECTORS_MAX || count == 0 && !self.by_traffic {
            let why = format!(
                "must name 1 to {REFLECTORS_MAX} hosts behind the link, like [\"server\"], or \"{BY_TRAFFIC}\": their \
                 replies show the delay"
            );
            return Err(section.error(REFLECTORS.name, why));
        }
        if self.is_cake && count == 0 {
            let why =
                format!("must name a host: \"{CAKE_AUTORATE}\" measures delay with probes only");
            return Err(section.error(REFLECTORS.name, why));
        }
        Ok(self)
    }
}

impl Direction {
    /// The link's rate at the start of a run.
    pub fn rate_at_start(&self) -> Option<Rate> {
        Some(self.rate.as_ref()?.at(Instant::ZERO))
    }

    /// Whether the rate and the delay never change, and the port knows the rate.
    pub fn is_plain(&self) -> bool {
        let rate_changes = self.rate.as_ref().is_some_and(|rate| !rate.is_constant());
        self.modem.is_none() && !rate_changes && self.delay.is_constant()
    }

    /// Both directions of a link, by its section.
    pub(super) fn check_both(
        section: &Section<'_>,
        files: &Files,
    ) -> Result<[Self; 2], ConfigError> {
        let rate = rate(section, &LINK_RATE, files)?;
        let delay = section.span_course(&DELAY)?;
        let delay = delay.unwrap_or_else(|| Varying::constant(Span::ZERO));
        let reverse = self::rate(section, &REVERSE_RATE, files)?;
        let reverse_rate = reverse.or_else(|| rate.clone());
        let auto = Auto::read(section)?;
        let reverse_delay = section.span_course(&REVERSE_DELAY)?;
        Ok([
            Self {
                modem: modem(section, &BUFFER, &SHAPER, rate.is_some(), auto.clone())?,
                rate,
                delay: delay.clone(),
            },
            Self {
                modem: modem(
                    section,
                    &REVERSE_BUFFER,
                    &REVERSE_SHAPER,
                    reverse_rate.is_some(),
                    auto,
                )?,
                rate: reverse_rate,
                delay: reverse_delay.unwrap_or(delay),
            },
        ])
    }
}

/// The rate of a key; `None` if the file does not set it.
fn rate(
    section: &Section<'_>,
    key: &'static Key,
    files: &Files,
) -> Result<Option<Varying<Rate>>, ConfigError> {
    let node = section.find(key);
    let Some(file) = node.and_then(|node| node.text()?.trim().strip_prefix("trace ")) else {
        return section.rate_course(key);
    };
    let (path, text) = files
        .text(&section.origin_of(key.name), file.trim())
        .map_err(|why| section.error(key.name, why))?;
    let course = trace::parse(&text).map_err(|(line, why)| {
        let why = format!("`{}.{}`: {why}", section.path, key.name);
        ConfigError::new(Origin::named(format!("{path}:{line}")), why)
    })?;
    Ok(Some(course))
}

/// The modem at an end of a link.
fn modem(
    section: &Section<'_>,
    buffer: &'static Key,
    shaper: &'static Key,
    has_rate: bool,
    auto: Auto,
) -> Result<Option<Modem>, ConfigError> {
    let bytes = section.optional_bytes(buffer)?;
    let shaper_at = shaper;
    let shaper = match section.optional(shaper)? {
        None => None,
        Some(Setting::Rate(rate)) => Some(Shaper::Fixed(rate)),
        Some(word) => {
            let is_cake = word.to_string() == CAKE_AUTORATE;
            Some(Shaper::Auto(Auto { is_cake, ..auto }.check(section)?))
        }
    };
    match bytes {
        Some(_) if !has_rate => {
            let why = "adds a modem, which sends at the link's rate: give the link a `rate`";
            Err(section.error(buffer.name, why))
        }
        None if shaper.is_some() => {
            let why = format!("requires a modem: set `{}`, like \"64 kB\"", buffer.name);
            Err(section.error(shaper_at.name, why))
        }
        bytes => Ok(bytes.map(|buffer| Modem { buffer, shaper })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::{Choices, load_built_in, plan};

    /// The directions of a link with these keys, or the error.
    fn link(keys: &str) -> Result<[Direction; 2], String> {
        let text = format!(
            "title = \"t\"\n[router.a]\n[router.b]\n[link.wan]\nends = [\"a\", \"b\"]\n{keys}\n"
        );
        let first = |text: String| text.lines().next().unwrap().to_owned();
        let (scenario, _) = plan(&text, &[], &[]).map_err(|error| first(error.to_string()))?;
        Ok(scenario.links[0].directions.clone())
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn both_directions_are_alike_unless_the_second_one_has_its_own() {
        let [there, back] = link("rate = \"20 Mbit\"\ndelay = \"10 ms\"").unwrap();
        assert_eq!(there, back);
        assert!(there.is_plain());
        let keys = "rate = \"20 Mbit, outage from 5 s\"\nreverse_rate = \"50 Mbit\"\n\
                    reverse_delay = \"30 ms, 10 ms from 5 s\"\nbuffer = \"64 kB\"\nshaper = \"18 Mbit\"";
        let [there, back] = link(keys).unwrap();
        assert_eq!(there.rate.unwrap().at(at(5)), Rate::default());
        assert_eq!(back.rate_at_start(), Some(Rate::from_mbps(50)));
        let delays = [
            there.delay.at(at(5)),
            back.delay.at(at(0)),
            back.delay.at(at(5)),
        ];
        assert_eq!(delays, [0, 30, 10].map(Span::from_millis));
        let modem = Modem {
            buffer: Bytes(64_000),
            shaper: Some(Shaper::Fixed(Rate::from_mbps(18))),
        };
        assert_eq!((there.modem, back.modem), (Some(modem), None));
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let error = |keys: &str| link(keys).unwrap_err();
        assert_eq!(
            error("rate = \"20 Mb\""),
            "scenario:6:1: `link.wan.rate` is \"20 Mb\", but must be a rate from \"8 kbit\" to \"400 Gbit\" (units: bit, kbit, Mbit, Gbit); did you mean \"20 Mbit\"?"
        );
        assert_eq!(
            error("rate = \"20 Mbit, 5 Mbit\""),
            "scenario:6:1: `link.wan.rate` has \"5 Mbit\" without a time; every step after the first needs one, like \"5 Mbit from 10 s\""
        );
        let slow = error("rate = \"20 Mbit, 5 bit from 1 s\"");
        assert!(
            slow.contains("must be a rate from \"8 kbit\" to \"400 Gbit\""),
            "{slow}"
        );
        let always = error("rate = \"outage\"");
        assert!(
            always.contains("is \"outage\", but must be a rate"),
            "{always}"
        );
        assert_eq!(
            error("rate = \"1 Mbit\"\nshaper = \"1 Mbit\""),
            "scenario:7:1: `link.wan.shaper` requires a modem: set `buffer`, like \"64 kB\""
        );
        let endless = error("reverse_buffer = \"64 kB\"");
        assert!(
            endless.contains("sends at the link's rate: give the link a `rate`"),
            "{endless}"
        );
        let absent = error("rate = \"trace none.trace\"");
        let expected = "scenario:6:1: `link.wan.rate` names \"none.trace\", but none.trace is not a built-in file";
        assert!(absent.starts_with(expected), "{absent}");
        let delay = error("delay = \"trace none.trace\"");
        assert!(delay.contains("must be a time from"), "{delay}");
    }

    #[test]
    fn a_trace_is_found_from_the_file_that_names_it() {
        let plan = load_built_in("varying/trace", Choices::default()).unwrap();
        let links = &plan.points[0].scenario.links;
        let wan = links.iter().find(|link| link.name == "wan").unwrap();
        let rate = wan.directions[0].rate.as_ref().unwrap();
        // The second half of the trace in its second period is the outage.
        assert_eq!(rate.at(at(16) + Span::from_millis(200)), Rate::default());

        let folder = std::env::temp_dir().join(format!("weir-trace-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("wrong.trace"), "0 1 Mbit\n1 2 Mb\n").unwrap();
        let file = folder.join("s.toml");
        let text = "title = \"t\"\n[router.a]\n[router.b]\n[link.wan]\nends = [\"a\", \"b\"]\n\
                    rate = \"trace wrong.trace\"\n";
        std::fs::write(&file, text).unwrap();
        let error = crate::scenario::load(&file, Choices::default()).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        let error = error.to_string();
        let why = "wrong.trace:2: `link.wan.rate`: invalid line \"1 2 Mb\"";
        assert!(error.contains(why), "{error}");
    }
}
