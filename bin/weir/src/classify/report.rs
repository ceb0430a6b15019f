//! Output of `weir classify`: flows of each capture, totals by class, and precision and recall.

use std::path::Path;

use serde_json::{Value, json};
use weir_classifier::evaluation::{Difference, Score, Scores};
use weir_classifier::{Ended, Finding, Kind, Unread};

use crate::table::Column::{Left, Right};
use crate::table::Table;

/// Maximum number of listed flows of a capture; the totals include all flows.
const FLOWS_MAX: usize = 100_000;
/// Maximum length of a name in a table; JSON has the whole name.
const NAME_CHARS_MAX: usize = 60;

/// All results.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) captures: Vec<Capture>,
    pub(super) scores: Scores,
}

/// The flows of a capture, and the frames that could not be classified.
#[derive(Debug)]
pub(super) struct Capture {
    file: String,
    pub(super) packets: u64,
    pub(super) unread: Unread,
    flows: Vec<Ended>,
    totals: Totals,
    /// The flows that differ from their labels, and the number of flows without a label.
    pub(super) differences: Option<(Vec<Difference>, u64)>,
}

/// Flows, packets and bytes of payload by class; the last row is for flows without a class.
#[derive(Clone, Copy, Debug, Default)]
struct Totals([[u64; 3]; Kind::ALL.len() + 1]);

impl Totals {
    fn add(&mut self, place: usize, counts: [u64; 3]) {
        for (sum, count) in self.0[place].iter_mut().zip(counts) {
            *sum += count;
        }
    }

    /// The classes that occur.
    fn rows(&self) -> impl Iterator<Item = (&'static str, [u64; 3])> + use<> {
        let words = Kind::ALL.iter().map(|kind| kind.word()).chain(["-"]);
        words.zip(self.0).filter(|(_, [flows, ..])| *flows > 0)
    }
}

impl Capture {
    /// A capture before its first frame is read.
    pub(super) fn new(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            packets: 0,
            unread: Unread::default(),
            flows: Vec::new(),
            totals: Totals::default(),
            differences: None,
        }
    }

    /// Adds a flow.
    pub(super) fn take(&mut self, flow: Ended) {
        let class = flow.class.as_ref();
        let place = class.map_or(Kind::ALL.len(), |finding| finding.kind as usize);
        let counts = [1, flow.packets.iter().sum(), flow.bytes];
        self.totals.add(place, counts);
        if self.flows.len() < FLOWS_MAX {
            self.flows.push(flow);
        }
    }

    /// The listed flows, ordered by their first packets.
    fn sorted(&self) -> Vec<&Ended> {
        let mut flows: Vec<_> = self.flows.iter().collect();
        flows.sort_by_key(|flow| flow.number);
        flows
    }

    fn flow_count(&self) -> u64 {
        self.totals.0.iter().map(|[flows, ..]| flows).sum()
    }

    /// Drops the flows after they have been printed. The totals stay.
    pub(super) fn forget_flows(&mut self) {
        self.flows = Vec::new();
    }

    /// Whether the capture was compared with labels, and all of them agree.
    pub(super) fn agrees(&self) -> bool {
        let differences = self.differences.as_ref();
        differences.is_some_and(|(flows, _)| flows.is_empty())
    }

    /// The frames without a flow, as text.
    fn unread_text(&self) -> String {
        let Unread {
            not_ip,
            fragments,
            malformed,
            link_types,
        } = &self.unread;
        let reasons = [
            (*not_ip, "not IP"),
            (*fragments, "fragments after the first"),
            (*malformed, "malformed"),
        ];
        let reasons = reasons.iter().filter(|(frames, _)| *frames > 0);
        let mut parts: Vec<_> = reasons.map(|(n, why)| format!("{n} {why}")).collect();
        parts.extend(link_types.iter().map(|(kind, n)| {
            format!("{n} of unsupported link type {kind}; capture on an Ethernet or IP interface")
        }));
        if parts.is_empty() {
            String::new()
        } else {
            format!("; without a flow: {}", parts.join(", "))
        }
    }

    pub(super) fn text(&self) -> String {
        let flows = self.flow_count();
        let head = format!(
            "{}: {}, {}{}\n",
            self.file,
            counted(self.packets, "packet"),
            counted(flows, "flow"),
            self.unread_text()
        );
        let (table, note) = match &self.differences {
            Some((differences, unlabelled)) => {
                let note = match unlabelled {
                    0 => String::new(),
                    n => format!("without a label: {}\n", counted(*n, "flow")),
                };
                (differences_table(differences), note)
            }
            None => {
                let note = match flows.saturating_sub(self.flows.len() as u64) {
                    0 => String::new(),
                    n => format!("not listed: {} more\n", counted(n, "flow")),
                };
                (flow_table(&self.sorted()), note)
            }
        };
        if table.is_empty() {
            format!("{head}{note}")
        } else {
            format!("{head}{table}{note}\n")
        }
    }

    fn json(&self) -> Value {
        let flows: Vec<_> = self.sorted().into_iter().map(flow_json).collect();
        let kinds: Vec<_> = self
            .unread
            .link_types
            .iter()
            .map(|(kind, frames)| json!({"link_type": kind, "frames": frames}))
            .collect();
        let mut value = json!({
            "file": self.file,
            "packets": self.packets,
            "flow_count": self.flow_count(),
            "flows": flows,
            "unread": {
                "not_ip": self.unread.not_ip,
                "fragments": self.unread.fragments,
                "malformed": self.unread.malformed,
                "link_types": kinds,
            },
        });
        if let Some((differences, unlabelled)) = &self.differences {
            let rows = differences.iter().map(|difference| {
                json!({
                    "flow": difference.label.key.to_string(),
                    "label": difference.label.text,
                    "class": difference.class.map(Kind::word),
                    "kinds": difference.kinds.iter().map(Kind::word).collect::<Vec<_>>(),
                })
            });
            value["differences"] = rows.collect();
            value["unlabelled"] = (*unlabelled).into();
        }
        value
    }
}

impl Report {
    /// Whether verdicts were compared with labels.
    fn is_labelled(&self) -> bool {
        self.captures.iter().any(|c| c.differences.is_some())
    }

    fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for capture in &self.captures {
            for (place, counts) in capture.totals.0.into_iter().enumerate() {
                sum.add(place, counts);
            }
        }
        sum
    }

    /// Totals by class, and precision and recall if there are labels.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&[
            Left("CLASS"),
            Right("FLOWS"),
            Right("PACKETS"),
            Right("BYTES"),
        ]);
        for (word, counts) in self.totals().rows() {
            table.row(std::iter::once(word.to_owned()).chain(counts.map(|n| n.to_string())));
        }
        if self.is_labelled() {
            format!("{table}\n{}", score_table(&self.scores))
        } else {
            table.to_string()
        }
    }

    pub(super) fn json(&self) -> Value {
        let captures: Vec<_> = self.captures.iter().map(Capture::json).collect();
        let classes = self.totals().rows().map(|(word, [flows, packets, bytes])| {
            json!({
                "class": (word != "-").then_some(word),
                "flows": flows,
                "packets": packets,
                "bytes": bytes,
            })
        });
        let classes = classes.collect::<Vec<_>>();
        let mut value = json!({"captures": captures, "classes": classes});
        if self.is_labelled() {
            let rows = self.scores.iter().map(|(kind, score)| {
                json!({
                    "class": kind.word(),
                    "found": score.found,
                    "wrong": score.wrong,
                    "missed": score.missed,
                    "precision": score.precision(),
                    "recall": score.recall(),
                })
            });
            value["evaluation"] = rows.collect();
        }
        value
    }
}

fn flow_table(flows: &[&Ended]) -> Table {
    let mut table = Table::new(&[
        Left("FLOW"),
        Left("CLASS"),
        Left("CARRIES"),
        Left("NAME"),
        Left("DETAIL"),
        Left("EVIDENCE"),
        Right("PACKETS"),
        Right("BYTES"),
        Right("AFTER"),
    ]);
    for flow in flows {
        let class = flow.class.as_deref();
        let carried = flow.carried.as_deref();
        let named = |finding: &Finding| finding.name.clone();
        let name = carried.and_then(named).or(class.and_then(named));
        let details = [class, carried].into_iter().flatten();
        let details: Vec<_> = details
            .filter(|finding| !finding.detail.is_empty())
            .map(|finding| &*finding.detail)
            .collect();
        table.row([
            flow.key.to_string(),
            class.map_or("-", |c| c.kind.word()).to_owned(),
            carried.map_or("", |c| c.kind.word()).to_owned(),
            shortened(&name.unwrap_or_default()),
            details.join("; "),
            class.map_or("", |c| c.evidence.word()).to_owned(),
            flow.packets.iter().sum::<u64>().to_string(),
            flow.bytes.to_string(),
            class.map_or(String::new(), |_| flow.decided_after.to_string()),
        ]);
    }
    table
}

/// A number of things: `1 flow`, `2 flows`.
fn counted(number: u64, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

/// A name, shortened to fit a table.
fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        name.to_owned()
    } else {
        name.chars()
            .take(NAME_CHARS_MAX)
            .chain("..".chars())
            .collect()
    }
}

fn flow_json(flow: &Ended) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "class": finding.kind.word(),
            "name": finding.name,
            "detail": finding.detail,
            "evidence": finding.evidence.word(),
        })
    };
    let class = flow.class.as_deref();
    let address = |bytes| flow.key.address_shown(bytes);
    json!({
        "source": address(flow.key.source),
        "source_port": flow.key.source_port,
        "destination": address(flow.key.destination),
        "destination_port": flow.key.destination_port,
        "protocol": flow.key.protocol,
        "class": class.map(|c| c.kind.word()),
        "name": class.and_then(|c| c.name.as_deref()),
        "detail": class.map(|c| &*c.detail),
        "evidence": class.map(|c| c.evidence.word()),
        "carries": flow.carried.as_deref().map(finding),
        "kinds": flow.kinds.iter().map(Kind::word).collect::<Vec<_>>(),
        "packets": flow.packets,
        "bytes": flow.bytes,
        "first_s": flow.first.as_nanos() as f64 / 1e9,
        "last_s": flow.last.as_nanos() as f64 / 1e9,
        "decided_after": class.map(|_| flow.decided_after),
    })
}

fn differences_table(differences: &[Difference]) -> Table {
    let mut table = Table::new(&[Left("FLOW"), Left("LABEL"), Left("CLASS"), Left("FOUND")]);
    for difference in differences {
        let kinds: Vec<_> = difference.kinds.iter().map(Kind::word).collect();
        table.row([
            difference.label.key.to_string(),
            difference.label.text.to_string(),
            difference.class.map_or("-", Kind::word).to_owned(),
            kinds.join(", "),
        ]);
    }
    table
}

fn score_table(scores: &Scores) -> Table {
    let mut table = Table::new(&[
        Left("CLASS"),
        Right("FOUND"),
        Right("WRONG"),
        Right("MISSED"),
        Right("PRECISION"),
        Right("RECALL"),
    ]);
    let shown = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.3}"));
    for (kind, score) in scores.iter() {
        let Score {
            found,
            wrong,
            missed,
        } = score;
        table.row([
            kind.word().to_owned(),
            found.to_string(),
            wrong.to_string(),
            missed.to_string(),
            shown(score.precision()),
            shown(score.recall()),
        ]);
    }
    table
}
