//! The time that small packets, fetches and transfers take: the figure that most readers want, with its percentiles
//! and its distribution.

use super::figure::bars::{Bar, Bars};
use super::figure::lines::Plot;
use super::html::{escape, section};
use super::metric::shown;
use super::{plots, swept};
use crate::results::{PointResult, RunResult};
use plotters::style::Color;

/// Maximum number of subjects on a page.
const SUBJECTS_MAX: usize = 4;

/// A quantity that is a time.
pub(super) struct Subject {
    /// The name, as the beginning of a sentence.
    what: String,
    /// The name of the distribution.
    name: String,
    unit: &'static str,
}

impl Subject {
    fn new(what: String, name: String, unit: &'static str) -> Self {
        Self { what, name, unit }
    }

    /// The metric of a statistic of the quantity.
    pub(super) fn metric(&self, statistic: &str) -> String {
        match self.name.split_once('.') {
            Some((base, of)) => format!("{base}_{statistic}.{of}"),
            None => format!("{}_{statistic}", self.name),
        }
    }

    /// Median and 99th percentile, as text.
    fn told(&self, point: &PointResult) -> Option<String> {
        let [median, p99] = ["p50", "p99"].map(|s| point.median(&self.metric(s)).map(shown));
        let unit = self.unit;
        Some(format!(
            "{}\u{a0}{unit} (median), {}\u{a0}{unit} (p99)",
            median?, p99?
        ))
    }

    /// The shortest and the longest time, in a sentence.
    fn headline(&self, points: &[&PointResult]) -> Option<String> {
        let metric = self.metric("p50");
        let mut sorted: Vec<_> = points
            .iter()
            .filter_map(|p| Some((p.median(&metric)?, p)))
            .collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (sorted.first()?, sorted.last()?);
        let told = self.told(least.1)?;
        Some(if least.0 < most.0 {
            format!(
                "{} takes {told} under {}; {} under {}",
                self.what,
                least.1.label(),
                self.told(most.1)?,
                most.1.label()
            )
        } else {
            format!("{} takes {told}", self.what)
        })
    }

    fn html(&self, result: &RunResult) -> Option<String> {
        let points = swept::middles(result);
        let headline = self.headline(&points)?;
        let colours: Vec<usize> = points.iter().map(|p| swept::colour(result, p)).collect();
        let coloured = || colours.iter().copied().zip(points.iter().copied());
        let row = |(colour, point): (usize, &PointResult)| {
            let values = ["p50", "p95", "p99"].map(|s| point.median(&self.metric(s)));
            let [median, p95, p99] = values;
            // The traffic's receivers report no 95th percentile; the distribution has one.
            let p95 = p95.or_else(|| self.kept(point, 0.95));
            Some((colour, point.label(), [median?, p95?, p99?]))
        };
        let rows: Vec<_> = coloured().filter_map(row).collect();
        let mut body = self.percentiles(&rows);
        if let Some(plot) = plots::distribution(&coloured().collect::<Vec<_>>(), &self.name) {
            let caption = "<p class=\"caption\">Cumulative distribution, in %.</p>";
            body += &format!("{caption}<div class=\"grid\">{}</div>", figures(&plot, ""));
        }
        Some(section(&headline, &(body + &swept::middle_note(result))))
    }

    /// Median, 95th and 99th percentile as bars: from zero to the median, then to the others, each part paler. Empty
    /// without rows.
    fn percentiles(&self, rows: &[(usize, String, [f64; 3])]) -> String {
        const OPACITIES: [f64; 3] = [1.0, 0.5, 0.25];
        if rows.is_empty() {
            return String::new();
        }
        let unit = self.unit;
        let item = |(name, opacity): (&str, f64)| {
            let swatch = format!("<span class=\"swatch ink\" style=\"opacity:{opacity}\"></span>");
            format!("<li>{swatch}{name}</li>")
        };
        let names = ["median", "p95", "p99"].into_iter().zip(OPACITIES);
        let items: String = names.map(item).collect();
        let bar = |(_, name, values): &(usize, String, [f64; 3])| {
            let [median, p95, p99] = values.map(shown);
            Bar {
                name: name.clone(),
                remark: format!("{median} / {p95} / {p99}"),
                title: format!("{name}: median {median}, p95 {p95}, p99 {p99} {unit}"),
                ends: values.to_vec(),
            }
        };
        let bars = Bars {
            bars: rows.iter().map(bar).collect(),
            unit,
            colour: &|look, number, part| look.line(rows[number].0).mix(OPACITIES[part]),
            is_labelled: false,
        };
        let figures = bars.figures("median, p95 and p99");
        format!("<ul class=\"legend\">{items}<li class=\"unit\">{unit}</li></ul>{figures}")
    }

    /// A percentile of the distribution: the median of a point's runs.
    fn kept(&self, point: &PointResult, share: f64) -> Option<f64> {
        let distributions = point
            .runs
            .iter()
            .filter_map(|r| r.distributions.get(&self.name));
        let mut values: Vec<f64> = distributions.filter_map(|d| d.at(share)).collect();
        values.sort_by(f64::total_cmp);
        weir_base::statistics::percentile(&values, 0.5)
    }
}

/// The delays of a result: small packets first; other packets only if there are no small packets.
pub(super) fn subjects(result: &RunResult) -> Vec<Subject> {
    let is_measured = |subject: &Subject| {
        let metric = subject.metric("p50");
        result.points.iter().any(|p| p.median(&metric).is_some())
    };
    let packets = |kind: &str, of: &str| {
        Subject::new(format!("{kind} of {of}"), format!("delay_ms.{of}"), "ms")
    };
    let (sparse, others): (Vec<_>, Vec<_>) = result.traffic.iter().partition(|t| t.is_sparse);
    let small = sparse
        .into_iter()
        .map(|t| packets("A small packet", &t.name));
    let times = [
        Subject::new("A web fetch".into(), "web_response_s".into(), "s"),
        Subject::new("A transfer".into(), "transfer_s".into(), "s"),
    ];
    let mut subjects: Vec<Subject> = small.chain(times).filter(is_measured).collect();
    // The delay of a flood matters least.
    let (floods, answering): (Vec<_>, Vec<_>) = others.into_iter().partition(|t| t.kind == "udp");
    for traffics in [answering, floods] {
        if subjects.is_empty() {
            let packets = traffics.into_iter().map(|t| packets("A packet", &t.name));
            subjects.extend(packets.filter(is_measured));
        }
    }
    subjects.truncate(SUBJECTS_MAX);
    subjects
}

/// A section for each subject.
pub(super) fn html(result: &RunResult) -> String {
    subjects(result)
        .iter()
        .filter_map(|s| s.html(result))
        .collect()
}

/// The sections for numeric sweeps: curves of the most interesting metrics.
pub(super) fn swept_html(result: &RunResult) -> String {
    const PLOTS_MAX: usize = 8;
    let delays = subjects(result)
        .into_iter()
        .flat_map(|s| [s.metric("p50"), s.metric("p99")]);
    let others = [
        "tcp_share_ratio",
        "tcp_goodput_mbps",
        "udp_loss_ratio",
        "jain_index",
        "web_fetches_per_s",
    ];
    let utilisations = result.points.iter().flat_map(|p| p.summary.keys());
    let mut metrics: Vec<String> = Vec::new();
    let all = delays.chain(others.map(str::to_owned));
    let begin = "utilisation_ratio.";
    for metric in all.chain(utilisations.filter(|n| n.starts_with(begin)).cloned()) {
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let mut html = String::new();
    for axis in swept::axes(result) {
        let drawn = metrics
            .iter()
            .filter_map(|metric| plots::against(result, &axis, metric));
        let drawn: Vec<_> = drawn.take(PLOTS_MAX).collect();
        let Some(first) = drawn.first() else {
            continue;
        };
        let name = first.title.split(" by ").next().unwrap_or_default();
        let words = axis.words(result);
        let message = match swept::told(&first.lines, "").filter(|_| first.lines.len() <= 4) {
            Some(told) => format!("{name}, for {words}: {told}"),
            None => format!("{name} and more, for {words}"),
        };
        let mut drawings = String::new();
        for plot in &drawn {
            let caption = escape(plot.title.split(" by ").next().unwrap_or_default());
            drawings += &figures(plot, &format!("<figcaption>{caption}</figcaption>"));
        }
        let remark = "<p>Medians of the runs; the bars show their intervals.</p>";
        html += &section(
            &message,
            &format!("<div class=\"grid\">{drawings}</div>{remark}"),
        );
    }
    html
}

/// A plot on the page; if it cannot be drawn, it is left out like any picture.
fn figures(plot: &Plot, caption: &str) -> String {
    let svgs = plot.inline().unwrap_or_default().into_iter();
    svgs.map(|svg| format!("<figure>{caption}{svg}</figure>"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn the_headline_names_the_traffic_and_the_statistic() {
        let page = html(&example::result());
        let headline = "A small packet of voice takes 5.00\u{a0}ms (median), 10.0\u{a0}ms (p99) under plain, \
                        &quot;old&quot;, flows 2; 7.50\u{a0}ms (median), 15.0\u{a0}ms (p99) under new &lt;b&gt;, \
                        flows 2";
        assert!(page.contains(headline), "{page}");
        // Percentile bars for a wide and for a narrow page, and the distribution.
        assert_eq!(page.matches("<svg").count(), 3, "{page}");
        assert!(page.contains("2 of 4 points"), "{page}");
    }

    #[test]
    fn the_delay_of_a_flood_is_nobodys_headline() {
        let mut result = example::result();
        for point in &mut result.points {
            let mut run = point.runs[0].clone();
            run.metrics.insert("delay_ms_p50.flood".into(), 100.0);
            run.metrics.insert("delay_ms_p99.flood".into(), 100.0);
            point.add(run);
        }
        assert!(!html(&result).contains("packet of flood"));
        // Nor is it shown if the only other traffic is long TCP.
        result.traffic.retain(|t| !t.is_sparse);
        for point in &mut result.points {
            let mut run = point.runs[0].clone();
            run.metrics.insert("delay_ms_p50.long".into(), 30.0);
            run.metrics.insert("delay_ms_p99.long".into(), 60.0);
            point.add(run);
        }
        let page = html(&result);
        assert!(
            page.contains("A packet of long takes") && !page.contains("packet of flood"),
            "{page}"
        );
    }

    #[test]
    fn a_sweep_is_curves_over_what_was_swept() {
        let page = swept_html(&example::result());
        let headline = "Delay, median: voice, ms, for flows from 2 to 3: plain, &quot;old&quot;: 5.00 to 5.00, new \
                        &lt;b&gt;: 7.50 to 7.50";
        assert!(page.contains(headline), "{page}");
        assert!(page.contains("traffic.flood.flows"), "{page}");
        // Median and 99 % of voice, and the share of TCP.
        assert_eq!(page.matches("<svg").count(), 3, "{page}");
        let mut single = example::result();
        single.points.truncate(1);
        assert_eq!(swept_html(&single), "");
    }
}
