//! A frame as lines of text, from the latest samples: as wide and as high as the terminal.
//!
//! ```text
//!  edge1, 14:40:00Z: weir 0.1.0, up 3 h 20 min                ? help  q quit
//!
//!  PORT  STATE  OUT MBIT/S  USED ..          a line for each port; the chosen one is reversed
//!  wan   up           93.5  99 % ..
//!
//!  Last minute of wan                        curves
//!  sent     ▁▃▇███
//!  Backlog at wan by source                  the chosen port's queue
//!  WHO  PACKETS .. WHY
//!  Dropped packets                           of the whole router
//!  REASON  PKT/S .. MEANING
//! ```
//!
//! Columns that do not fit are left out from the right, rows from the end, and the curves in a low terminal.

use super::Samples;
use super::sample::{Drops, Port, Sample, Waiting};
use crate::numbers::{count, delay, elapsed, time_of_day};
use crate::output::one_line;
use crate::table::{Column, Table};

/// A sample is late after this many seconds.
const LATE_S: u64 = 3;
/// Number of samples in a curve.
const CURVE: usize = 60;
/// Minimum height of a frame with curves.
const CURVES_HEIGHT_MIN: usize = 20;
/// Minimum width of a frame with the reasons in a separate column; otherwise they are below their rows.
const WHY_WIDTH_MIN: usize = 150;
/// Width of the words before a curve.
const LABEL: usize = 11;

/// The text of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) lines: Vec<(Look, String)>,
}

/// The style of a line. There are no colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Plain text.
    Plain,
    /// A heading.
    Head,
    /// The chosen row.
    Selected,
}

impl Frame {
    /// The lines as text, without spaces at their ends.
    pub(super) fn trimmed(&self) -> String {
        let lines: Vec<_> = self.lines.iter().map(|(_, line)| line.trim_end()).collect();
        lines.join("\n").trim_end().to_owned()
    }
}

/// The state of the picture.
#[derive(Debug, Default)]
pub(super) struct View {
    samples: Samples,
    /// The samples when the user paused; `None` while running.
    paused: Option<Vec<Sample>>,
    /// Name of the chosen port; `None` for the port with most waiting packets.
    port: Option<String>,
    /// The reason why there are no samples now.
    lost: Option<String>,
    help: bool,
    /// The kind of top talkers: an index in [`KINDS`].
    kind: usize,
}

/// The kinds of top talkers.
const KINDS: [&str; 3] = ["source", "destination", "flow"];

const HELP: &str = "\
Tab, arrows, j, k   choose a port
p, space            pause and resume
b                   list top talkers by source, destination or flow
?, h, Esc           show or hide this help
q, Ctrl-C           quit

OUT, IN             rate sent and received at the port in the latest second
OFFERED             rate offered to the queue, in Mbit/s
USED                share of the second in which the link was busy (paced ports)
LIGHT P99           time in the queue that 99 of 100 packets of light traffic did not exceed
HEAVY P99           the same for backlogged flows, which exceed their share
HELD                packets in the queue at the end of the second
DROPS/S, MARKS/S    packets that the queue dropped, or marked (ECN)
OF QUEUE, OF LINK   share of the queued bytes; of the link, while others wait

`weir observe` prints drops as they happen; `weir show TABLE` has every number.";

impl View {
    pub(super) fn new(port: Option<String>) -> Self {
        Self {
            port,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.add(sample);
        self.lost = None;
    }

    /// Records that no samples arrive, and the reason.
    pub(super) fn lost(&mut self, why: String) {
        self.lost = Some(why);
    }

    pub(super) fn pause(&mut self) {
        self.paused = match self.paused.take() {
            Some(_) => None,
            None => Some(self.samples.all.iter().cloned().collect()),
        };
    }

    /// Lists the top talkers by the next kind.
    pub(super) fn list_others(&mut self) {
        self.kind = (self.kind + 1) % KINDS.len();
    }

    pub(super) fn close_help(&mut self) {
        self.help = false;
    }

    pub(super) fn toggle_help(&mut self) {
        self.help = !self.help;
    }

    /// Chooses a port before or after the chosen one.
    pub(super) fn select(&mut self, step: isize) {
        let shown = self.shown();
        let Some(sample) = shown.last() else {
            return;
        };
        let count = sample.ports.len().max(1) as isize;
        let next = (self.selected(sample) as isize + step).rem_euclid(count) as usize;
        let port = sample.ports.get(next).map(|port| port.name.clone());
        self.port = port;
    }

    fn shown(&self) -> Vec<&Sample> {
        match &self.paused {
            Some(paused) => paused.iter().collect(),
            None => self.samples.all.iter().collect(),
        }
    }

    /// The index of the chosen port: without a choice that of the port with most waiting packets.
    fn selected(&self, sample: &Sample) -> usize {
        let chosen = |name: &String| sample.ports.iter().position(|port| port.name == *name);
        let ports = sample.ports.iter().enumerate();
        let busiest =
            || ports.max_by_key(|(n, port)| (port.held_packets, port.rate_bps, usize::MAX - n));
        let chosen = self.port.as_ref().and_then(chosen);
        chosen.or_else(|| busiest().map(|(n, _)| n)).unwrap_or(0)
    }

    /// The frame.
    pub(super) fn frame(&self, width: usize, height: usize) -> Frame {
        let shown = self.shown();
        let mut frame = Frame::default();
        let put = |frame: &mut Frame, look, text: &str| {
            frame.lines.push((look, cut(&one_line(text), width)))
        };
        let Some(sample) = shown.last() else {
            let why = self
                .lost
                .as_deref()
                .unwrap_or("waiting for the first sample");
            put(&mut frame, Look::Head, &format!("weir: {why}"));
            return frame;
        };
        put(&mut frame, Look::Head, &self.title(sample, width));
        if self.help {
            put(&mut frame, Look::Plain, "");
            HELP.lines()
                .for_each(|line| put(&mut frame, Look::Plain, line));
        } else {
            self.body(&shown, sample, (width, height), &mut frame);
        }
        frame.lines.truncate(height);
        frame
    }

    fn title(&self, sample: &Sample, width: usize) -> String {
        let uptime = elapsed(sample.uptime_s as u64);
        let (version, host) = (&sample.version, &sample.hostname);
        let clock = time_of_day(sample.unix_s);
        let mut title = format!("{host}, {}Z: weir {version}, up {uptime}", &clock[..8]);
        let late = self
            .samples
            .latest
            .map_or(0, |latest| latest.elapsed().as_secs());
        match (&self.lost, late) {
            _ if self.paused.is_some() => title += "   PAUSED, p resumes",
            (Some(why), _) => title += &format!("   NO SAMPLES: {why}"),
            (None, LATE_S..) => title += &format!("   NO SAMPLE FOR {late} s"),
            (None, _) => {}
        }
        let keys = "? help  q quit";
        match width.checked_sub(title.chars().count() + keys.len()) {
            Some(space) if space > 1 => format!("{title}{}{keys}", " ".repeat(space)),
            _ => title,
        }
    }

    fn body(
        &self,
        shown: &[&Sample],
        sample: &Sample,
        (width, height): (usize, usize),
        frame: &mut Frame,
    ) {
        let selected = self.selected(sample);
        let Some(port) = sample.ports.get(selected) else {
            frame
                .lines
                .push((Look::Plain, "The router has no ports.".to_owned()));
            return;
        };
        let line = |frame: &mut Frame, look, text: &str| {
            frame.lines.push((look, cut(&one_line(text), width)))
        };
        line(frame, Look::Plain, "");
        // The chosen port is always among the shown ones.
        let rows = (height / 3).max(2);
        let first = (selected + 1).saturating_sub(rows);
        let all = ports(&sample.ports, width);
        let (head, ports) = all
            .split_first()
            .map_or(("", &[][..]), |(head, rows)| (&head[..], rows));
        line(frame, Look::Head, head);
        for (number, text) in ports.iter().enumerate().skip(first).take(rows) {
            let look = if number == selected {
                Look::Selected
            } else {
                Look::Plain
            };
            line(frame, look, &format!("{text:<width$}"));
        }
        if height >= CURVES_HEIGHT_MIN {
            line(frame, Look::Plain, "");
            for (look, text) in curves(shown, port, width) {
                line(frame, look, &text);
            }
        }
        let drops = drops(&sample.drops, width);
        let waiting: Vec<_> = sample
            .waiting
            .iter()
            .filter(|row| row.port == port.name)
            .collect();
        let left = height.saturating_sub(frame.lines.len() + 4); // headings, and blank lines between them
        let for_drops = drops.len().min((left / 3).max(3));
        let talkers = self.talkers(sample, port, width);
        if height >= CURVES_HEIGHT_MIN {
            let by = KINDS[self.kind];
            let head = format!(
                "Top talkers through {}, by {by} (b: by another key)",
                port.name
            );
            line(frame, Look::Plain, "");
            line(frame, Look::Head, &head);
            let rows = talkers.iter().take((left / 4).max(2));
            rows.for_each(|row| line(frame, Look::Plain, row));
        }
        let left = height.saturating_sub(frame.lines.len() + 4);
        line(frame, Look::Plain, "");
        let head = format!("Backlog at {} by source ({})", port.name, port.discipline);
        line(frame, Look::Head, &head);
        let waiting = holders(&waiting, width);
        let room = left.saturating_sub(for_drops);
        waiting
            .iter()
            .take(room)
            .for_each(|row| line(frame, Look::Plain, row));
        line(frame, Look::Plain, "");
        line(
            frame,
            Look::Head,
            "Dropped packets of the router, by reason",
        );
        drops.iter().for_each(|row| line(frame, Look::Plain, row));
    }

    /// The table of the top talkers of a port.
    fn talkers(&self, sample: &Sample, port: &Port, width: usize) -> Vec<String> {
        let mut table = Table::new(&[
            Column::Left("WHO"),
            Column::Right("MBIT/S"),
            Column::Right("1 MIN"),
            Column::Right("5 MIN"),
            Column::Right("OF PORT"),
        ]);
        let all = sample.talkers.iter();
        for talker in all.filter(|row| row.port == port.name && row.by == KINDS[self.kind]) {
            let [now, minute, minutes] = talker.rates_bps.map(megabits);
            let who = talker.who.clone();
            table.row([who, now, minute, minutes, percent(talker.share)]);
        }
        table.within(width)
    }
}

/// The table of ports: a heading, and a line for each. The most important columns come first.
fn ports(all: &[Port], width: usize) -> Vec<String> {
    use Column::{Left, Right};
    let mut table = Table::new(&[
        Left("PORT"),
        Left("STATE"),
        Right("OUT MBIT/S"),
        Right("USED"),
        Right("LIGHT P99"),
        Right("HEAVY P99"),
        Right("HELD"),
        Right("DROPS/S"),
        Right("OFFERED"),
        Right("IN MBIT/S"),
        Right("PACED TO"),
        Right("MARKS/S"),
        Left("DISCIPLINE"),
    ]);
    for port in all {
        table.row([
            port.name.clone(),
            port.state.clone(),
            megabits(port.sent_bps),
            port.utilisation.map_or("-".to_owned(), percent),
            wait(port.light_p99_s),
            wait(port.heavy_p99_s),
            count(port.held_packets),
            per_second(port.dropped_per_s),
            megabits(port.offered_bps),
            megabits(port.received_bps),
            port.rate_bps
                .map_or("-".to_owned(), |rate| format!("{} M", megabits(rate))),
            per_second(port.marked_per_s),
            port.discipline.clone(),
        ]);
    }
    table.within(width)
}

/// The table of the sources with packets in a queue, with the reasons.
fn holders(all: &[&Waiting], width: usize) -> Vec<String> {
    if all.is_empty() {
        return vec!["None.".to_owned()];
    }
    let mut columns = vec![
        Column::Left("WHO"),
        Column::Right("PACKETS"),
        Column::Right("WAITED"),
        Column::Right("OF QUEUE"),
        Column::Right("OF LINK"),
        Column::Right("FLOWS"),
    ];
    let is_wide = width >= WHY_WIDTH_MIN;
    if is_wide {
        columns.push(Column::Left("WHY"));
    }
    let mut table = Table::new(&columns);
    for holder in all {
        let cells = [
            holder.who.clone(),
            count(holder.packets),
            wait(Some(holder.waited_s)),
            percent(holder.queue_share),
            holder.link_share.map_or("-".to_owned(), percent),
            count(holder.flows),
        ];
        let why = is_wide.then(|| holder.why.clone());
        table.row(cells.into_iter().chain(why));
    }
    let mut lines = table.within(width).into_iter();
    let head = lines.next();
    let below = |(row, holder): (String, &&Waiting)| {
        let why = (!is_wide).then(|| cut_with_sign(&format!("  {}", holder.why), width));
        [Some(row), why].into_iter().flatten()
    };
    head.into_iter()
        .chain(lines.zip(all).flat_map(below))
        .collect()
}

fn drops(all: &[Drops], width: usize) -> Vec<String> {
    if all.is_empty() {
        return vec!["None.".to_owned()];
    }
    let mut table = Table::new(&[
        Column::Left("REASON"),
        Column::Right("PKT/S"),
        Column::Right("SINCE START"),
        Column::Left("MEANING"),
    ]);
    for drops in all {
        table.row([
            drops.reason.clone(),
            per_second(drops.per_s),
            count(drops.since_start),
            drops.meaning.clone(),
        ]);
    }
    table.within(width)
}

/// The last minute of a port: what its link sent, how long packets waited, and how many were dropped.
fn curves(shown: &[&Sample], port: &Port, width: usize) -> Vec<(Look, String)> {
    let of_port = |sample: &&Sample| sample.ports.iter().find(|p| p.name == port.name).cloned();
    let latest = shown.iter().rev().take(CURVE).rev();
    let past: Vec<Port> = latest.filter_map(of_port).collect();
    let columns = CURVE.min(width.saturating_sub(LABEL + 26));
    let curve =
        |label: &str, value: &dyn Fn(&Port) -> f64, least: f64, shown: &dyn Fn(f64) -> String| {
            let values: Vec<_> = past.iter().map(value).collect();
            let values = &values[values.len().saturating_sub(columns)..];
            let most = values.iter().copied().fold(0.0, f64::max);
            let bars: String = values
                .iter()
                .map(|value| bar(*value, most.max(least)))
                .collect();
            let text = format!("{label:<LABEL$}{bars:<columns$}  max {}", shown(most));
            (Look::Plain, text)
        };
    let rate = port.rate_bps.map_or(1e6, |rate| rate as f64);
    vec![
        (Look::Head, format!("Last minute of {}", port.name)),
        curve("sent", &|p| p.sent_bps as f64, rate, &|bps| {
            format!("{:.1} Mbit/s", bps / 1e6)
        }),
        curve(
            "light p99",
            &|p| p.light_p99_s.unwrap_or(0.0),
            0.001,
            &delay,
        ),
        curve("dropped", &|p| p.dropped_per_s, 1.0, &|n| {
            format!("{}/s", per_second(n))
        }),
    ]
}

/// A value as a bar, in eighths of the maximum.
fn bar(value: f64, most: f64) -> char {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = (8.0 * value / most).ceil() as usize; // at least one for a value above zero
    BARS[eighths.min(8)]
}

fn megabits(bps: u64) -> String {
    format!("{:.1}", bps as f64 / 1e6)
}

fn wait(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), delay)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn per_second(number: f64) -> String {
    count(number.round() as u64)
}

/// A line, cut to the width of the screen, with a mark if it was longer.
fn cut_with_sign(text: &str, width: usize) -> String {
    if text.chars().count() > width {
        cut(text, width.saturating_sub(1)) + "…"
    } else {
        text.to_owned()
    }
}

/// A line, cut to the width of the screen.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample::Talker;

    fn sample(ports: &[(&str, u64)], drops: f64) -> Sample {
        let port = |(name, held): &(&str, u64)| Port {
            name: (*name).to_owned(),
            state: "up".to_owned(),
            discipline: "triple_fair".to_owned(),
            rate_bps: Some(95_000_000),
            sent_bps: 94_000_000,
            offered_bps: 300_000_000,
            utilisation: Some(0.994),
            held_packets: *held,
            light_p99_s: Some(0.0002),
            heavy_p99_s: Some(0.0205),
            dropped_per_s: drops,
            ..Port::default()
        };
        let waiting = Waiting {
            port: "wan".to_owned(),
            who: "10.0.0.2".to_owned(),
            flows: 40,
            packets: 300,
            queue_share: 0.9,
            link_share: Some(0.25),
            waited_s: 0.1,
            why: "Its host has 40 flows in the queue, which share the bandwidth of one host: each waits 40 times as long.".to_owned(),
        };
        Sample {
            version: "0.1.0".to_owned(),
            hostname: "edge1".to_owned(),
            unix_s: 1_764_081_600.0,
            uptime_s: 65.0,
            ports: ports.iter().map(port).collect(),
            waiting: vec![waiting],
            talkers: vec![Talker {
                port: "wan".to_owned(),
                by: "source".to_owned(),
                who: "10.0.0.9".to_owned(),
                rates_bps: [62_000_000, 31_000_000, 9_000_000],
                share: 0.66,
            }],
            drops: vec![Drops {
                reason: "queue-full".to_owned(),
                per_s: drops,
                since_start: 5000,
                meaning: "The queue was full.".to_owned(),
            }],
        }
    }

    fn text(view: &View, width: usize, height: usize) -> Vec<String> {
        let frame = view.frame(width, height);
        assert!(frame.lines.len() <= height);
        let wide = frame
            .lines
            .iter()
            .find(|(_, line)| line.chars().count() > width);
        assert_eq!(wide, None);
        frame.trimmed().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_frame_fits_every_terminal_and_shows_what_matters_most() {
        let mut view = View::new(None);
        for n in 0..200 {
            view.add(sample(&[("lan", 0), ("wan", 300)], f64::from(n)));
        }
        let lines = text(&view, 80, 24);
        let all = lines.join("\n");
        assert!(
            lines[0].starts_with("edge1, 14:40:00Z: weir 0.1.0, up 1 min 5 s")
                && lines[0].ends_with("q quit")
        );
        assert_eq!(lines[2].split_whitespace().next(), Some("PORT"));
        for part in [
            "94.0",
            "99 %",
            "0.2 ms",
            "20.5 ms",
            "Backlog at wan by source",
            "10.0.0.2",
            "10.0.0.9    62.0   31.0    9.0     66 %",
            "queue-full",
            "max 199/s",
            "█",
        ] {
            assert!(all.contains(part), "{part}:\n{all}");
        }
        let narrow = text(&view, 34, 14).join("\n");
        for part in ["PORT", "OUT MBIT/S", "USED", "10.0.0.2", "queue-full"] {
            assert!(narrow.contains(part), "{part}:\n{narrow}");
        }
        assert!(!narrow.contains("Last minute"), "{narrow}");
        for (width, height) in [(0, 0), (1, 1), (10, 3), (20, 50), (400, 5), (300, 100)] {
            text(&view, width, height);
        }
    }

    #[test]
    fn ports_are_chosen_in_turn_and_a_pause_keeps_the_frame() {
        let mut view = View::new(None);
        let ports: Vec<_> = (0..30).map(|n| (format!("p{n}"), 0)).collect();
        let ports: Vec<_> = ports
            .iter()
            .map(|(name, held)| (name.as_str(), *held))
            .collect();
        view.add(sample(&ports, 1.0));
        let chosen = |view: &View| {
            let frame = view.frame(80, 24);
            let selected = frame.lines.iter().find(|(look, _)| *look == Look::Selected);
            selected
                .unwrap()
                .1
                .split_whitespace()
                .next()
                .unwrap()
                .to_owned()
        };
        assert_eq!(chosen(&view), "p0");
        view.select(-1);
        assert_eq!(chosen(&view), "p29");
        view.select(1);
        view.select(1);
        assert_eq!(chosen(&view), "p1");
        let before = text(&view, 80, 24);
        view.pause();
        view.add(sample(&[("other", 3)], 9.0));
        let paused = text(&view, 80, 24);
        assert!(paused[0].contains("PAUSED"));
        assert_eq!(before[1..], paused[1..]);
        view.pause();
        assert_eq!(chosen(&view), "other", "the chosen port is gone");
        view.lost("cannot connect".to_owned());
        assert!(text(&view, 80, 24)[0].contains("NO SAMPLES: cannot connect"));
        let helps = |view: &View| text(view, 80, 24).join("\n").contains("choose a port");
        view.toggle_help();
        assert!(helps(&view));
        view.close_help();
        view.close_help();
        assert!(!helps(&view));
    }

    #[test]
    fn a_bar_stands_for_a_share_of_the_highest() {
        let bars: String = [0.0, 0.01, 4.0, 8.0, 9.0]
            .map(|value| bar(value, 8.0))
            .iter()
            .collect();
        assert_eq!(bars, " ▁▄██");
    }
}
