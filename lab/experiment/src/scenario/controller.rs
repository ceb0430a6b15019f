//! Controllers of a scenario: `[controller.NAME]`.

use weir_base::setting::{Scalar, did_you_mean, nearest};
use weir_base::{Rate, Span};
use weir_controller::spec::{SpecError, manual};
use weir_controller::{Role, Spec};
use weir_discipline::channel::schedule::Schedule;

use super::link::Link;
use super::parameters::{
    CHANNEL_RATE, CHANNEL_REDIRECT, CHANNEL_SCHEDULE, CONTROLLER, CONTROLLER_DELAY,
    CONTROLLER_LOSS, PERIOD,
};
use super::reader::Section;
use weir_config::{ConfigError, Node};

/// A controller, the queues that it controls, and the channel between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    /// The name.
    pub name: String,
    /// The kind and its settings.
    pub spec: Spec,
    /// The controlled queues, in the order of the controller's roles.
    pub queues: Vec<Queue>,
    /// Interval between polls.
    pub period: Span,
    /// The delay of a sample or an order.
    pub delay: Span,
    /// The loss ratio of samples, and of orders.
    pub loss: f64,
    /// The links to the elements; `None` if messages wait in no queue.
    pub wire: Option<Wire>,
}

/// The link between a controller and each of its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The rate.
    pub rate: Rate,
    /// The scheduling of control messages and redirects.
    pub schedule: Schedule,
    /// The rate of redirects towards the controller.
    pub redirect: Rate,
}

impl Wire {
    fn check(section: &Section<'_>) -> Result<Option<Self>, ConfigError> {
        let rate = section.optional_rate(&CHANNEL_RATE)?;
        let schedule = section.word(&CHANNEL_SCHEDULE)?;
        let redirect = section.optional_rate(&CHANNEL_REDIRECT)?;
        let Some(rate) = rate else {
            let others: [&str; 2] = [&CHANNEL_SCHEDULE, &CHANNEL_REDIRECT].map(|key| key.name);
            return match others.iter().find(|name| section.entry(name).is_some()) {
                Some(name) => {
                    Err(section.error(name, "requires `channel_rate`, the rate of the link"))
                }
                None => Ok(None),
            };
        };
        Ok(Some(Self {
            rate,
            schedule: schedule
                .parse()
                .map_err(|why: String| section.error(CHANNEL_SCHEDULE.name, why))?,
            redirect: redirect.unwrap_or_default(),
        }))
    }
}

/// The queue at one end of a link, or of all its wires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The link.
    pub link: String,
    /// Whether it is the queue at the link's second end.
    pub reverse: bool,
    /// The queue's role for the controller.
    pub role: &'static Role,
}

impl Queue {
    fn is(&self, other: &Self) -> bool {
        (&self.link, self.reverse) == (&other.link, other.reverse)
    }

    /// The queue's name in a scenario.
    fn name(&self) -> String {
        let end = if self.reverse { ".reverse" } else { "" };
        format!("{}{end}", self.link)
    }
}

/// Number of wires of a link, for a role's list of links.
type Wires<'a> = &'a dyn Fn(&Link) -> usize;

impl Controller {
    /// Checks all controllers of a scenario. Two controllers must not set the same parameter of one queue.
    pub(super) fn check_all(
        sections: Vec<(String, Section<'_>)>,
        links: &[Link],
        wires: Wires<'_>,
    ) -> Result<Vec<Self>, ConfigError> {
        let mut all: Vec<Self> = Vec::new();
        for (name, section) in sections {
            let (path, origin) = (section.path.clone(), section.origin());
            let controller = Self::check(name, section, links, wires)?;
            for other in &all {
                if let Some((queue, parameter)) = controller.contended(other) {
                    let (queue, other) = (queue.name(), &other.name);
                    let why = format!(
                        "`{path}` sets `{parameter}` of \"{queue}\", which controller {other} also sets; only one \
                         controller may set it"
                    );
                    return Err(ConfigError::new(origin, why));
                }
            }
            all.push(controller);
        }
        Ok(all)
    }

    /// A queue and its parameter that another controller sets as well.
    fn contended(&self, other: &Self) -> Option<(&Queue, &'static str)> {
        self.queues.iter().find_map(|queue| {
            let mut same = other.queues.iter().filter(|known| known.is(queue));
            same.find_map(|known| {
                let mut sets = queue.role.sets.iter();
                let both = sets.find(|name| known.role.sets.contains(name));
                both.map(|name| (queue, *name))
            })
        })
    }

    fn check(
        name: String,
        section: Section<'_>,
        links: &[Link],
        wires: Wires<'_>,
    ) -> Result<Self, ConfigError> {
        let kind = section.required_word("kind")?;
        let manual =
            manual(&kind).map_err(|e| section.error("kind", format!("is invalid: {e}")))?;
        let mut queues = Vec::new();
        let mut counts = Vec::new();
        for role in manual.roles {
            let of_role = check_role(&section, role, links)?;
            for (place, queue) in of_role.iter().enumerate() {
                let mut others = of_role[..place].iter().chain(&queues);
                if others.any(|other: &Queue| other.is(queue)) {
                    let why = format!("names \"{}\" twice for this controller", queue.name());
                    return Err(section.error(role.name, why));
                }
            }
            let count =
                |queue: &Queue| links.iter().find(|l| l.name == queue.link).map_or(0, wires);
            counts.push(of_role.iter().map(count).sum());
            queues.extend(of_role);
        }
        let mut settings: Vec<(&str, Scalar)> = Vec::new();
        for parameter in manual.parameters {
            if let Some(node) = section.entry(parameter.name) {
                settings.push((
                    parameter.name,
                    node.scalar(&section.path_of(parameter.name))?,
                ));
            }
        }
        let settings = settings.iter().map(|(name, scalar)| (*name, scalar));
        let spec = Spec::check(&kind, &counts, settings).map_err(|error| {
            let about = match &error {
                SpecError::Setting(e) => e.name().to_owned(),
                SpecError::Queues { role, .. } => (*role).to_owned(),
                SpecError::UnknownKind { .. } => "kind".to_owned(),
            };
            let why = format!("`{}`: {error}", section.path);
            ConfigError::new(section.origin_of(&about), why)
        })?;
        let controller = Self {
            name,
            spec,
            queues,
            period: section.span(&PERIOD)?,
            delay: section.span(&CONTROLLER_DELAY)?,
            loss: section.ratio(&CONTROLLER_LOSS)?,
            wire: Wire::check(&section)?,
        };
        let mut more = vec!["kind"];
        more.extend(manual.roles.iter().map(|role| role.name));
        more.extend(manual.parameters.iter().map(|parameter| parameter.name));
        section.finish_with(&[CONTROLLER], &more)?;
        Ok(controller)
    }
}

/// The queues that a role names: `LINK`, or `LINK.reverse` for the queue at its second end.
fn check_role(
    section: &Section<'_>,
    role: &'static Role,
    links: &[Link],
) -> Result<Vec<Queue>, ConfigError> {
    let Some(node) = section.entry(role.name) else {
        return Ok(Vec::new());
    };
    let queue = |item: &Node| {
        let Some(name) = item.text() else {
            return Err(section.error(role.name, "must be a list of links: [\"LINK\"]"));
        };
        let (link, reverse) = match name.strip_suffix(".reverse") {
            Some(link) => (link, true),
            None => (name, false),
        };
        let Some(known) = links.iter().find(|known| known.name == link) else {
            let names = links.iter().map(|l| l.name.as_str());
            let near = did_you_mean(nearest(link, names));
            let why = format!("names the unknown link \"{link}\"{near}");
            return Err(section.error(role.name, why));
        };
        let discipline = if reverse {
            &known.reverse_discipline
        } else {
            &known.discipline
        };
        let manual = discipline
            .as_ref()
            .map(|discipline| discipline.spec.manual());
        let parameters = manual.map_or(&[][..], |manual| manual.parameters);
        let missing = |wanted: &&&str| !parameters.iter().any(|p| p.name == **wanted);
        if let Some(wanted) = role.sets.iter().find(missing) {
            let why = format!("names \"{name}\", whose discipline has no parameter `{wanted}`");
            return Err(section.error(role.name, why));
        }
        let gauges = manual.map_or(&[][..], |manual| manual.gauges);
        let missing = |wanted: &&&str| !gauges.iter().any(|gauge| gauge.name == **wanted);
        if let Some(wanted) = role.reads.iter().find(missing) {
            let why = format!("names \"{name}\", whose discipline has no gauge `{wanted}`");
            return Err(section.error(role.name, why));
        }
        Ok(Queue {
            link: link.to_owned(),
            reverse,
            role,
        })
    };
    node.items().iter().map(queue).collect()
}

#[cfg(test)]
mod tests {
    use weir_base::Rate;
    use weir_discipline::channel::schedule::Schedule;

    use super::Wire;
    use crate::scenario::plan::plan;

    const SMALL: &str = r#"
title = "small"
[router.a]
[router.b]
[host.left]
[host.right]
[link.l]
ends = ["a", "left"]
discipline = { kind = "refill" }
[link.m]
ends = ["a", "b"]
discipline = { kind = "refill" }
reverse_discipline = { kind = "refill" }
[link.r]
ends = ["b", "right"]
[traffic.long]
kind = "tcp"
from = "left"
to = "right"
"#;

    fn controllers(ingress: [&str; 2]) -> Result<usize, String> {
        let mut text = SMALL.to_owned();
        for (name, ingress) in ["one", "two"].iter().zip(ingress) {
            if !ingress.is_empty() {
                text += &format!(
                    "[controller.{name}]\nkind = \"backpressure\"\ningress = [{ingress}]\negress = [\"r\"]\n"
                );
            }
        }
        let (scenario, _) = plan(&text, &[], &[]).map_err(|error| error.to_string())?;
        Ok(scenario.controllers.len())
    }

    #[test]
    fn no_parameter_of_a_queue_is_set_by_two() {
        assert_eq!(controllers([r#""l""#, r#""m", "m.reverse""#]), Ok(2));
        let error = controllers([r#""l", "m""#, r#""m.reverse", "m""#]).unwrap_err();
        assert!(
            error.contains(
                "`controller.two` sets `probability` of \"m\", which controller one also sets; only one controller \
                 may set it"
            ),
            "{error}"
        );
    }

    #[test]
    fn no_queue_is_there_twice() {
        let error = controllers([r#""l", "m", "l""#, ""]).unwrap_err();
        assert!(
            error.contains("`controller.one.ingress` names \"l\" twice for this controller"),
            "{error}"
        );
        let error = controllers([r#""l", "r""#, ""]).unwrap_err();
        assert!(error.contains("no parameter `probability`"), "{error}");
        let text = SMALL.replace(
            "[link.r]\n",
            "[link.r]\ndiscipline = { kind = \"refill\" }\n",
        );
        let text = format!(
            "{text}[controller.one]\nkind = \"backpressure\"\ningress = [\"r\"]\negress = [\"r\"]\n"
        );
        let error = plan(&text, &[], &[]).unwrap_err().to_string();
        assert!(
            error.contains("`controller.one.egress` names \"r\" twice"),
            "{error}"
        );
    }

    #[test]
    fn a_channel_needs_a_rate() {
        let wire = |more: &str| {
            let section =
                "[controller.one]\nkind = \"backpressure\"\ningress = [\"l\"]\negress = [\"r\"]\n";
            let planned = plan(&format!("{SMALL}{section}{more}"), &[], &[]);
            planned.map(|(scenario, _)| scenario.controllers[0].wire.clone())
        };
        assert_eq!(wire("").unwrap(), None);
        let full = "channel_rate = \"10 Mbit\"\nchannel_schedule = \"drop_tail\"\n\
                    channel_redirect = \"100 Mbit\"\n";
        let expected = Wire {
            rate: Rate::from_mbps(10),
            schedule: Schedule::DropTail,
            redirect: Rate::from_mbps(100),
        };
        assert_eq!(wire(full).unwrap(), Some(expected));
        let plain = wire("channel_rate = \"1 Mbit\"\n").unwrap().unwrap();
        assert_eq!(
            (plain.schedule, plain.redirect),
            (Schedule::Dppbrb, Rate::from_bps(0))
        );
        let error = wire("channel_redirect = \"1 Mbit\"\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`controller.one.channel_redirect` requires `channel_rate`"),
            "{error}"
        );
        let error = wire("channel_rate = \"1 Mbit\"\nchannel_schedule = \"fifo\"\n");
        assert!(error.unwrap_err().to_string().contains("drop_tail"));
    }
}
