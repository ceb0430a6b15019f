//! Shares of a link: the traffic that competes at watched links, as bars and over time.

use super::figure;
use super::figure::bars::{Bar, Bars};
use super::figure::curves::Curves;
use super::html::{escape, section};
use super::metric::shown;
use super::swept;
use crate::results::{Curve, OneRun, PointResult, RunResult};

/// Kinds of traffic from the bottom of a stack to its top: metric, name.
const KINDS: [(&str, &str); 3] = [("tcp", "long TCP"), ("udp", "UDP"), ("web", "web")];

/// Maximum number of bars of one figure; a sweep with more points becomes curves.
const BARS_MAX: usize = 24;

/// Competing traffic: all traffic whose data crosses the same watched links, directly or through others. The two
/// directions of a link are two links.
pub(super) struct Group {
    links: Vec<String>,
    /// Kind and name.
    traffics: Vec<(String, String)>,
    /// Whether it is the only group.
    is_all: bool,
}

impl Group {
    /// The groups of a result; one group of everything if no link separates its traffic.
    pub(super) fn of(result: &RunResult) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for traffic in &result.traffic {
            let meets = |group: &Group| {
                traffic
                    .crosses
                    .iter()
                    .any(|link| group.links.contains(link))
            };
            let (met, others) = groups.into_iter().partition::<Vec<_>, _>(meets);
            groups = others;
            let mut group = Self {
                links: traffic.crosses.clone(),
                traffics: vec![(traffic.kind.clone(), traffic.name.clone())],
                is_all: false,
            };
            for other in met {
                group.links.extend(other.links);
                group.traffics.splice(0..0, other.traffics);
            }
            group.links.sort();
            group.links.dedup();
            groups.push(group);
        }
        // Traffic that crosses no watched link has no competition there.
        groups.retain(|group| !group.links.is_empty());
        if groups.len() < 2 {
            let all = Self {
                links: groups.pop().map(|group| group.links).unwrap_or_default(),
                traffics: Vec::new(),
                is_all: true,
            };
            return vec![all];
        }
        groups
    }

    /// The links of the group, as a title.
    fn title(&self) -> String {
        match &self.links[..] {
            [first, _, _, .., last] => format!("{first} to {last}"),
            few => few.join(", "),
        }
    }

    /// The links of the group, within a sentence.
    fn place(&self) -> String {
        match self.links.len() {
            0 => "the link".to_owned(),
            1 => format!("the link {}", self.title()),
            _ => format!("the links {}", self.title()),
        }
    }

    fn names(&self, kind: &str) -> impl Iterator<Item = &str> {
        let of_kind = self.traffics.iter().filter(move |(k, _)| k == kind);
        of_kind.map(|(_, name)| name.as_str())
    }

    /// The goodput of a kind at a point, in Mbit/s.
    pub(super) fn goodput(&self, point: &PointResult, kind: &str) -> Option<f64> {
        if self.is_all {
            return point.median(&format!("{kind}_goodput_mbps"));
        }
        let of = |name: &str| point.median(&format!("goodput_mbps.{name}"));
        self.names(kind).filter_map(of).reduce(|a, b| a + b)
    }

    fn total(&self, point: &PointResult) -> f64 {
        KINDS
            .iter()
            .filter_map(|(kind, _)| self.goodput(point, kind))
            .sum()
    }

    /// The goodput of each kind at a point, as a bar.
    fn bar(&self, point: &PointResult) -> Bar {
        let values = KINDS.map(|(kind, _)| self.goodput(point, kind).unwrap_or(0.0));
        let mut end = 0.0;
        let ends = values.iter().map(|value| {
            end += value;
            end
        });
        Bar {
            name: point.label(),
            remark: String::new(),
            title: format!("{}: {}", point.label(), in_words(&values)),
            ends: ends.collect(),
        }
    }

    /// The goodput of a kind over time, in a run.
    fn curve(&self, run: &OneRun, kind: &str) -> Option<Curve> {
        let of_kind = || run.series.get(&format!("{kind}_mbps"));
        if self.is_all {
            return of_kind().cloned();
        }
        let of = |name: &str| {
            run.series
                .get(&format!("goodput_mbps.{name}"))
                .or_else(of_kind)
        };
        self.names(kind)
            .filter_map(of)
            .cloned()
            .reduce(|mut sum, curve| {
                sum.values
                    .iter_mut()
                    .zip(curve.values)
                    .for_each(|(a, b)| *a += b);
                sum
            })
    }

    /// The curves of all kinds.
    fn curves(&self, run: &OneRun) -> Vec<Option<Curve>> {
        KINDS
            .iter()
            .map(|(kind, _)| self.curve(run, kind))
            .collect()
    }
}

/// The goodput of each kind, in words.
fn in_words(values: &[f64]) -> String {
    let all = KINDS.iter().zip(values).filter(|(_, value)| **value > 0.0);
    let words = all.map(|((_, name), value)| format!("{name} {}", shown(*value)));
    format!("{} Mbit/s", words.collect::<Vec<_>>().join(", "))
}

/// Bars: a section for each group.
pub(super) fn html(result: &RunResult) -> String {
    let groups = Group::of(result);
    let points: Vec<&PointResult> = match result.points.len() {
        0..=BARS_MAX => result.points.iter().collect(),
        _ => swept::middles(result),
    };
    let mut html = String::new();
    for group in &groups {
        if points.len() > BARS_MAX || points.iter().all(|p| group.total(p) <= 0.0) {
            continue;
        }
        let bars = Bars {
            bars: points.iter().map(|point| group.bar(point)).collect(),
            unit: "Mbit/s",
            colour: &|_, _, kind| figure::KINDS[kind].into(),
            is_labelled: true,
        };
        let figures = bars.figures("goodput of each kind of traffic");
        let body = legend(result, std::slice::from_ref(group)) + &figures;
        let message =
            share(result, group).unwrap_or_else(|| format!("Shares of {}", group.place()));
        let note = if points.len() == result.points.len() {
            String::new()
        } else {
            swept::middle_note(result)
        };
        html += &section(&message, &(body + &note));
    }
    html
}

/// The share of long TCP when it competes with UDP other than small packets: its maximum and its minimum.
fn share(result: &RunResult, group: &Group) -> Option<String> {
    let heavy = result
        .traffic
        .iter()
        .any(|t| t.kind == "udp" && !t.is_sparse);
    if !group.is_all || (!heavy && !result.traffic.is_empty()) {
        return None;
    }
    let share = |p: &'_ PointResult| p.median("tcp_share_ratio");
    let mut sorted: Vec<_> = result
        .points
        .iter()
        .filter_map(|p| Some((share(p)?, p)))
        .collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((worst, least), (best, most)) = (sorted.first()?, sorted.last()?);
    (worst < best).then(|| {
        format!(
            "Long TCP gets {} of the goodput of TCP and UDP under {}, {} under {}",
            percent(*best),
            most.label(),
            percent(*worst),
            least.label()
        )
    })
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent < 2.0 { 1 } else { 0 };
    format!("{percent:.decimals$}\u{a0}%")
}

fn legend(result: &RunResult, groups: &[Group]) -> String {
    let there = |(kind, _): &&(&str, &str)| {
        let mut points = result.points.iter();
        points.any(|p| groups.iter().any(|group| group.goodput(p, kind).is_some()))
    };
    let item = |(kind, name): &(&str, &str)| {
        format!("<li><span class=\"swatch {kind}\"></span>{name}</li>")
    };
    let items: String = KINDS.iter().filter(there).map(item).collect();
    format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">goodput at the receiver, Mbit/s</li></ul>"
    )
}

/// One picture for each group at each point in the middle of the sweep: the first run. At most `pictures_max` pictures
/// are drawn.
pub(super) fn over_time(result: &RunResult, pictures_max: usize) -> String {
    let groups = Group::of(result);
    let points = swept::middles(result);
    let mut all = Vec::new();
    for point in points {
        let Some(run) = point.runs.first() else {
            continue;
        };
        for group in &groups {
            let curves = group.curves(run);
            if curves.iter().flatten().next().is_none() {
                continue;
            }
            let name = match groups.len() {
                1 => point.label(),
                _ => format!("{}, {}", point.label(), group.title()),
            };
            all.push((name, curves));
        }
    }
    let more = all.len().saturating_sub(pictures_max);
    all.truncate(pictures_max);
    let top = all
        .iter()
        .map(|(_, curves)| peak(curves))
        .fold(0.0, f64::max);
    let mut pictures = String::new();
    for (label, curves) in &all {
        let name = escape(label);
        let stacked = Curves {
            curves,
            top,
            stacked: Some(in_words),
        };
        let svg = stacked.figure(&format!("goodput over time, {label}"));
        pictures += &format!("<figure><figcaption>{name}</figcaption>{svg}</figure>");
    }
    if pictures.is_empty() {
        return String::new();
    }
    let more = match more {
        0 => String::new(),
        more => format!("<p>{more} more plots are in the list below.</p>"),
    };
    let body = format!(
        "{}<div class=\"grid\">{pictures}</div>{more}{}",
        legend(result, &groups),
        swept::middle_note(result)
    );
    section("Goodput of each kind of traffic over time", &body)
}

/// The highest sum of all kinds.
fn peak(curves: &[Option<Curve>]) -> f64 {
    let curves: Vec<&Curve> = curves.iter().flatten().collect();
    let steps = curves.iter().map(|c| c.values.len()).max().unwrap_or(0);
    let sum = |n: usize| -> f64 { curves.iter().filter_map(|c| c.values.get(n)).sum() };
    (0..steps).map(sum).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrafficInfo;
    use crate::report::example;

    #[test]
    fn directions_that_do_not_meet_are_told_apart() {
        let mut result = example::result();
        let info = |name: &str, kind: &str, link: &str| TrafficInfo {
            name: name.into(),
            kind: kind.into(),
            flows: 4,
            hosts: 1,
            is_sparse: false,
            crosses: vec![link.into()],
        };
        result.traffic = vec![
            info("up", "tcp", "line"),
            info("down", "tcp", "line.reverse"),
            info("fetch", "web", "line.reverse"),
        ];
        let groups = Group::of(&result);
        let titles: Vec<String> = groups.iter().map(Group::title).collect();
        assert_eq!(titles, ["line", "line.reverse"]);
        let mut run = result.points[0].runs[0].clone();
        for (name, mbps) in [("up", 18.0), ("down", 17.0), ("fetch", 0.5)] {
            run.metrics.insert(format!("goodput_mbps.{name}"), mbps);
        }
        result.points[0].add(run);
        let point = &result.points[0];
        assert_eq!(groups[0].goodput(point, "tcp"), Some(18.0));
        assert_eq!(groups[1].total(point), 17.5);
        assert!(html(&result).contains("Shares of the link line.reverse"));
        // A flow that crosses both merges them.
        result.traffic.push(TrafficInfo {
            crosses: vec!["line".into(), "line.reverse".into()],
            ..info("both", "udp", "")
        });
        assert_eq!(Group::of(&result).len(), 1);
    }
}
