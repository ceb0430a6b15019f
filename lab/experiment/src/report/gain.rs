//! The effect of weir's default on calls, pages and transfers: a report's first sentence. The default is compared with
//! the plain queue that a link has without weir. Further down: where Linux's default is better, and why.

use super::html::{escape, section};
use super::metric::shown;
use crate::results::{PointResult, RunResult, marked};

/// A discipline, and its description.
type Queue = (&'static str, &'static str);

/// The queue of a link without weir.
const PLAIN: Queue = ("fifo", "the plain queue");
/// Linux's default, as most distributions set it.
const LINUX: Queue = ("fq_codel", "Linux's default");
/// weir's default.
const OURS: Queue = ("triple_fair", "weir's default");

/// Maximum number of places of a sweep; with more, there is no comparison.
const PLACES_MAX: usize = 4;
/// Maximum number of small packets.
const SMALL_MAX: usize = 2;
/// The kind of traffic of small packets.
const SMALL: &str = "udp";
/// A default counts as worse only beyond this share.
const WORSE: f64 = 0.05;

/// A figure of the comparison.
struct Measure {
    metric: String,
    /// The text before the value in the headline; `None` if only the table has the figure.
    told: Option<String>,
    title: String,
    unit: &'static str,
    statistic: &'static str,
    is_more_better: bool,
    /// Smaller differences are ignored.
    floor: f64,
    /// The kind of traffic of the figure.
    kind: &'static str,
}

/// The results of the disciplines that ran at one place of a sweep.
struct Place<'a> {
    name: String,
    queues: [(Queue, Option<&'a PointResult>); 3],
}

/// `With weir's default triple_fair instead of the plain queue fifo a web page takes 0.17 instead of 13 s (mean)`.
/// Without the plain queue it is compared with Linux's default. `None` without either.
pub(super) fn headline(result: &RunResult) -> Option<String> {
    let places = places(result);
    let place = places.first()?;
    let (before, after) = (place.before()?, place.of(OURS)?);
    let measures = measures(result);
    let parts = measures.iter().filter_map(|measure| {
        let [old, new] = [before.1, after].map(|point| point.median(&measure.metric).map(shown));
        let (told, old, new) = (measure.told.as_ref()?, old?, new?);
        let statistic = measure.statistic;
        Some(format!(
            "{told} {new} instead of {old}\u{a0}{}{statistic}",
            measure.unit
        ))
    });
    let mut parts: Vec<String> = parts.collect();
    let last = parts.pop()?;
    let all = match parts.join(", ") {
        none if none.is_empty() => last,
        first => format!("{first}, and {last}"),
    };
    let at = match place.name.as_str() {
        "" => String::new(),
        name => format!(", {name},"),
    };
    Some(format!(
        "With {} {} instead of {} {}{at} {all}",
        OURS.1,
        name(after),
        before.0.1,
        name(before.1)
    ))
}

/// The section with the headline: the figures, compared with Linux's default.
pub(super) fn html(result: &RunResult) -> Option<String> {
    let headline = headline(result)?;
    let measures = measures(result);
    let mut body = String::new();
    for place in places(result) {
        let there: Vec<_> = place.there().collect();
        let head = |((_, what), point): &(Queue, &PointResult)| {
            format!("<th>{what}<small>{}</small></th>", escape(&name(point)))
        };
        let row = |measure: &Measure| {
            let cell = |(_, point): &(Queue, &PointResult)| {
                let value = point.median(&measure.metric).map(shown);
                format!("<td>{}</td>", value.unwrap_or_default())
            };
            format!(
                "<tr><th scope=\"row\">{}<small>{}{}</small></th>{}</tr>",
                escape(&measure.title),
                measure.unit,
                measure.statistic,
                there.iter().map(cell).collect::<String>()
            )
        };
        body += &format!(
            "<div class=\"scroll\"><table class=\"gain\"><thead><tr><th class=\"word\">{}</th>{}</tr></thead>\
             <tbody>{}</tbody></table></div>",
            escape(&place.name),
            there.iter().map(head).collect::<String>(),
            measures.iter().map(row).collect::<String>()
        );
    }
    if !worse(result).is_empty() {
        body +=
            "<p>The section below the table lists where Linux's default is better, and why.</p>";
    }
    Some(section(&headline, &body))
}

/// The section of the figures in which weir's default is worse; empty without any.
pub(super) fn worse_html(result: &RunResult) -> String {
    let worse = worse(result);
    let items = worse
        .iter()
        .map(|told| format!("<li>{}</li>", escape(told)));
    match worse.len() {
        0 => String::new(),
        _ => section(
            &format!("Where {} is worse than {}", OURS.0, LINUX.0),
            &format!("<ul>{}</ul>", items.collect::<String>()),
        ),
    }
}

/// Each figure in which weir's default is worse than Linux's, with the cause.
pub(super) fn worse(result: &RunResult) -> Vec<String> {
    let measures = measures(result);
    let (mut told, mut known) = (Vec::new(), String::new());
    for place in places(result) {
        let both = [OURS, LINUX].map(|queue| place.of(queue));
        let [Some(ours), Some(linux)] = both else {
            continue;
        };
        for measure in &measures {
            let values = [ours, linux].map(|point| point.median(&measure.metric));
            let [Some(own), Some(theirs)] = values else {
                continue;
            };
            let loss = if measure.is_more_better {
                theirs - own
            } else {
                own - theirs
            };
            if loss <= (WORSE * theirs).max(measure.floor) {
                continue;
            }
            let at = match place.name.as_str() {
                "" => String::new(),
                name => format!(", {name}"),
            };
            let cause = cause(result, measure, [ours, linux]);
            let same = if cause == known {
                "The cause is the same."
            } else {
                &cause
            };
            told.push(format!(
                "{}{at}: {} {unit}{} under {}, {} {unit} under {}. {same}",
                measure.title,
                shown(own),
                measure.statistic,
                name(ours),
                shown(theirs),
                name(linux),
                unit = measure.unit,
            ));
            known = cause;
        }
    }
    told
}

/// The cause of a worse figure, as far as the numbers show it.
fn cause(result: &RunResult, measure: &Measure, both: [&PointResult; 2]) -> String {
    let mut of_kind = result
        .traffic
        .iter()
        .filter(|t| t.kind == measure.kind && t.flows > t.hosts);
    if let Some(shared) = of_kind.next().filter(|_| measure.kind != SMALL) {
        let addresses = match shared.hosts {
            1 => "one address".to_owned(),
            hosts => format!("{hosts} addresses"),
        };
        return format!(
            "Cause: {} shares the link between hosts first, and the {} flows of {} come from {addresses}; {} gives each flow a \
             share of its own.",
            OURS.0, shared.flows, shared.name, LINUX.0
        );
    }
    match both.map(|point| point.median("web_goodput_mbps")) {
        [Some(own), Some(theirs)] if measure.kind == "tcp" && own > theirs => format!(
            "Cause: web traffic gets more, {} instead of {} Mbit/s.",
            shown(own),
            shown(theirs)
        ),
        _ => "These numbers do not show the cause.".to_owned(),
    }
}

/// The name of a point's discipline.
fn name(point: &PointResult) -> String {
    marked(
        point.variant.clone().unwrap_or_default(),
        point.is_disturbed(),
    )
}

impl<'a> Place<'a> {
    fn there(&self) -> impl Iterator<Item = (Queue, &'a PointResult)> {
        self.queues
            .iter()
            .filter_map(|(queue, point)| Some((*queue, (*point)?)))
    }

    fn of(&self, queue: Queue) -> Option<&'a PointResult> {
        let found = self.there().find(|(own, _)| *own == queue);
        found.map(|(_, point)| point)
    }

    /// The queue with which weir's default is compared.
    fn before(&self) -> Option<(Queue, &'a PointResult)> {
        self.there().find(|(queue, _)| *queue != OURS)
    }
}

/// The places with weir's default and another discipline; empty if there are too many.
fn places(result: &RunResult) -> Vec<Place<'_>> {
    let mut names: Vec<String> = result.points.iter().map(PointResult::swept).collect();
    let mut known = std::collections::BTreeSet::new();
    names.retain(|name| known.insert(name.clone()));
    let place = |name: String| {
        let point = |(kind, _): Queue| {
            let mut points = result.points.iter();
            points.find(|p| p.variant.as_deref() == Some(kind) && p.swept() == name)
        };
        let queues = [PLAIN, LINUX, OURS].map(|queue| (queue, point(queue)));
        Place { name, queues }
    };
    let mut places: Vec<Place<'_>> = names.into_iter().map(place).collect();
    places.retain(|place| place.of(OURS).is_some() && place.before().is_some());
    match places.len() {
        0..=PLACES_MAX => places,
        _ => Vec::new(),
    }
}

/// The figures of the result, the most interesting first.
fn measures(result: &RunResult) -> Vec<Measure> {
    let measure = |(metric, title): (&str, &str),
                   told: &str,
                   [unit, statistic]: [&'static str; 2],
                   floor,
                   kind| Measure {
        metric: metric.to_owned(),
        told: (!told.is_empty()).then(|| told.to_owned()),
        title: title.to_owned(),
        unit,
        statistic,
        is_more_better: matches!(kind, "tcp" | "web") && !metric.contains("_s_"),
        floor,
        kind,
    };
    let sparse = result
        .traffic
        .iter()
        .filter(|t| t.is_sparse)
        .take(SMALL_MAX);
    let small = sparse.flat_map(|t| {
        let title = format!("Delay of {}", t.name);
        let told = format!("a packet of {} takes", t.name);
        let of = |statistic: &str, told: &str, shown| {
            let metric = format!("delay_ms_{statistic}.{}", t.name);
            // The lab's receivers read a packet up to 1 ms late.
            measure((&metric, &title), told, ["ms", shown], 1.0, SMALL)
        };
        [of("p50", &told, " (median)"), of("p99", "", " (p99)")]
    });
    let [mean, p99, per_s, mbps] = [
        ["s", " (mean)"],
        ["s", " (p99)"],
        ["per s", ""],
        ["Mbit/s", ""],
    ];
    let others = [
        measure(
            ("web_response_s_mean", "Web page"),
            "a web page takes",
            mean,
            0.005,
            "web",
        ),
        measure(("web_response_s_p99", "Web page"), "", p99, 0.005, "web"),
        measure(("web_fetches_per_s", "Web pages"), "", per_s, 0.0, "web"),
        measure(
            ("transfer_s_mean", "Transfer"),
            "a transfer takes",
            mean,
            0.005,
            "tcp",
        ),
        measure(
            ("tcp_goodput_mbps", "Long TCP"),
            "long TCP gets",
            mbps,
            0.0,
            "tcp",
        ),
    ];
    let mut all: Vec<Measure> = small.chain(others).collect();
    all.retain(|m| result.points.iter().any(|p| p.median(&m.metric).is_some()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;
    use crate::results::OneRun;

    /// The points of these disciplines, with goodput and response.
    fn result(queues: &[(&str, f64, f64)]) -> RunResult {
        let mut result = example::result();
        result.traffic[0].kind = "web".into();
        result.traffic[0].flows = 6;
        result.traffic.truncate(1);
        let template = result.points[0].clone();
        let point = |(name, tcp, web): &(&str, f64, f64)| {
            let mut point = PointResult {
                variant: Some((*name).to_owned()),
                sweep: serde_json::Map::new(),
                runs: Vec::new(),
                ..template.clone()
            };
            let metrics = [("tcp_goodput_mbps", *tcp), ("web_response_s_mean", *web)];
            point.add(OneRun {
                metrics: metrics.map(|(name, x)| (name.to_owned(), x)).into(),
                ..template.runs[0].clone()
            });
            point
        };
        result.points = queues.iter().map(point).collect();
        result
    }

    #[test]
    fn the_headline_compares_with_the_plain_queue_and_hides_nothing() {
        let mut result = result(&[
            ("fifo", 4.125, 13.0),
            ("fq_codel", 70.0, 0.5),
            ("triple_fair", 79.25, 0.75),
        ]);
        let expected = "With weir's default triple_fair instead of the plain queue fifo a web page takes 0.750 \
                        instead of 13.0\u{a0}s (mean), and long TCP gets 79.2 instead of 4.12\u{a0}Mbit/s";
        assert_eq!(headline(&result).as_deref(), Some(expected));
        let page = html(&result).unwrap();
        assert!(
            page.contains("Linux's default<small>fq_codel</small>"),
            "{page}"
        );
        let expected = "Web page: 0.750 s (mean) under triple_fair, 0.500 s under fq_codel. Cause: triple_fair shares the \
                        link between hosts first, and the 6 flows of long come from one address; fq_codel gives each flow a \
                        share of its own.";
        assert_eq!(worse(&result), [expected]);
        // The headline marks a disturbed run.
        result.points[2].runs[0].notes.push("busy".into());
        let told = headline(&result).unwrap();
        assert!(
            told.starts_with("With weir's default triple_fair (disturbed) instead"),
            "{told}"
        );
        // Without a plain queue.
        result.points.remove(0);
        let told = headline(&result).unwrap();
        assert!(
            told.contains("instead of Linux's default fq_codel "),
            "{told}"
        );
        result.points.truncate(1);
        assert_eq!((headline(&result), worse(&result).len()), (None, 0));
    }
}
