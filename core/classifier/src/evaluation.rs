//! Accuracy of the classifier: its verdicts compared with those of nDPI, by class.
//!
//! ```text
//!  1  UDP 10.0.0.1:5000 <-> 10.0.0.2:53 [VLAN: 7][proto: GTP:5.126/DNS.Google]..   a line of nDPI's reader
//!                                                            \-- the protocol, then the application in it
//! ```
//!
//! nDPI gives a flow one protocol, and this classifier finds several in a flow that begins as STUN and becomes
//! DTLS and RTP. So the two are compared as follows. nDPI's protocol is *found* if it is among the kinds of the
//! flow, and *missed* otherwise. The class of a flow is *wrong* if nDPI names another protocol. *Precision* is found /
//! (found + wrong), *recall* found / (found + missed).
//!
//! - Mail and file transfer over TLS (SMTPS, POPS, IMAPS, FTPS) is TLS. The greeting that comes before STARTTLS is
//!   permitted as class.
//! - Sometimes nDPI names an application and no protocol, as Discord for its RTP. Such a label does not name the
//!   protocol, so it makes no class wrong.
//! - Labels are nDPI's opinion, so examine the differing flows along with the figures.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_packet::FlowKey;

use crate::classifier::Ended;
use crate::kind::{Kind, Kinds};
use crate::table::Ends;

/// Applications that nDPI names without the protocol that carries them.
const APPLICATIONS: &[&str] = &[
    "Discord",
    "FacebookVoip",
    "GoogleCall",
    "GoogleMeet",
    "IMO",
    "LineCall",
    "Line",
    "Signal",
    "SignalVoip",
    "Skype_Teams",
    "Skype_TeamsCall",
    "SnapchatCall",
    "Telegram",
    "TelegramVoip",
    "Viber",
    "ViberVoip",
    "WeChat",
    "WhatsApp",
    "WhatsAppCall",
    "WhatsAppFiles",
    "Zoom",
];

/// nDPI's verdict on a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Both ends, in either order.
    pub key: FlowKey,
    /// nDPI's words: `QUIC.Google`.
    pub text: Box<str>,
    /// Our kind that the label names.
    pub kind: Option<Kind>,
    /// Classes that do not contradict the label, in addition to that kind.
    permitted: Kinds,
    /// Whether the label names the protocol of the flow.
    names_protocol: bool,
}

/// The TCP and UDP labels in the output of nDPI's reader (`ndpiReader -v 2`).
pub fn labels(text: &str) -> Vec<Label> {
    text.lines().filter_map(Label::parse).collect()
}

impl Label {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.trim_start().split_ascii_whitespace();
        words.next()?.parse::<u32>().ok()?;
        let protocol = match words.next()? {
            "TCP" => 6,
            "UDP" => 17,
            _ => return None,
        };
        let source = end(words.next()?)?;
        words.next().filter(|w| matches!(*w, "<->" | "->" | "<-"))?;
        let destination = end(words.next()?)?;
        let (_, rest) = line.split_once("[proto: ")?;
        let (numbers_and_names, _) = rest.split_once(']')?;
        let (_, names) = numbers_and_names.split_once('/')?;
        let key = FlowKey::ip(source.0, destination.0, protocol, source.1, destination.1);
        Some(Self::new(key, names))
    }

    /// The label of a flow that nDPI calls `names`: `QUIC.Google`.
    pub fn new(key: FlowKey, names: &str) -> Self {
        let name = names.split('.').next().unwrap_or_default();
        let (kind, permitted) = meaning(name);
        Self {
            key,
            text: names.into(),
            kind,
            permitted: permitted
                .iter()
                .fold(Kinds::NONE, |set, kind| set.with(*kind)),
            names_protocol: !APPLICATIONS.contains(&name),
        }
    }
}

/// An address with a port: `10.0.0.1:53`, `[2001:db8::1]:53`.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.rsplit_once(':')?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    Some((address.parse().ok()?, port.parse().ok()?))
}

/// The kind that corresponds to a protocol of nDPI, and the classes that are also right.
fn meaning(name: &str) -> (Option<Kind>, &'static [Kind]) {
    let kind = match name {
        "TLS" | "DoH_DoT" => Kind::Tls,
        "SMTPS" => return (Some(Kind::Tls), &[Kind::Smtp]),
        "POPS" => return (Some(Kind::Tls), &[Kind::Pop3]),
        "IMAPS" => return (Some(Kind::Tls), &[Kind::Imap]),
        "FTPS" => return (Some(Kind::Tls), &[Kind::Ftp]),
        "SRTP" => Kind::Rtp,
        "POP3" => Kind::Pop3,
        "FTP_CONTROL" => Kind::Ftp,
        "HTTP_Connect" | "HTTP_Proxy" | "HTTP2" | "WebSocket" => Kind::Http,
        other => return (Kind::from_word(&other.to_ascii_lowercase()), &[]),
    };
    (Some(kind), &[])
}

/// The agreement of a verdict with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The label's kind is found, or neither knows the flow.
    Same,
    /// The label names no protocol.
    Open,
    /// The label's kind is missed, or another class is found.
    Different,
}

/// The flows of one capture next to their labels. Parts of a flow that was idle in between count as one flow.
#[derive(Debug)]
pub struct Comparison {
    labels: Vec<Label>,
    verdicts: HashMap<Ends, (Option<Kind>, Kinds)>,
    unlabelled: u64,
}

/// A flow whose class differs from its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The label.
    pub label: Label,
    /// The class; `None` if none was found.
    pub class: Option<Kind>,
    /// All kinds found.
    pub kinds: Kinds,
}

impl Comparison {
    /// A comparison with these labels.
    pub fn new(labels: Vec<Label>) -> Self {
        let ends = labels.iter().map(|label| Ends::of(&label.key).0);
        Self {
            verdicts: ends.map(|ends| (ends, (None, Kinds::NONE))).collect(),
            labels,
            unlabelled: 0,
        }
    }

    /// Takes a flow.
    pub fn take(&mut self, flow: &Ended) {
        match self.verdicts.get_mut(&Ends::of(&flow.key).0) {
            Some((class, kinds)) => {
                *class = class.or(flow.class.as_ref().map(|finding| finding.kind));
                *kinds = flow.kinds.iter().fold(*kinds, Kinds::with);
            }
            None => self.unlabelled += 1,
        }
    }

    /// Adds the flows to the scores. Returns the flows that differ, and the number of flows without a label.
    pub fn finish(self, scores: &mut Scores) -> (Vec<Difference>, u64) {
        let mut differences = Vec::new();
        for label in self.labels {
            let Some(&(class, kinds)) = self.verdicts.get(&Ends::of(&label.key).0) else {
                continue;
            };
            if scores.compare(class, kinds, &label) == Agreement::Different {
                differences.push(Difference {
                    label,
                    class,
                    kinds,
                });
            }
        }
        (differences, self.unlabelled)
    }
}

/// Flows of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Flows of this label whose kinds include the label.
    pub found: u32,
    /// Flows of this class that have another label.
    pub wrong: u32,
    /// Flows of this label whose kinds do not include the label.
    pub missed: u32,
}

impl Score {
    /// The share of correct flows among the flows of this class; `None` without flows.
    pub fn precision(&self) -> Option<f64> {
        ratio(self.found, self.wrong)
    }

    /// The share of the flows of this label that were found; `None` without flows.
    pub fn recall(&self) -> Option<f64> {
        ratio(self.found, self.missed)
    }
}

fn ratio(part: u32, rest: u32) -> Option<f64> {
    let whole = part + rest;
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}

/// The scores of all classes.
#[derive(Clone, Debug, Default)]
pub struct Scores([Score; Kind::ALL.len()]);

impl Scores {
    /// Compares the verdict on a flow, its class and all of its kinds, with a label.
    pub fn compare(&mut self, class: Option<Kind>, kinds: Kinds, label: &Label) -> Agreement {
        let mut agreement = if label.names_protocol {
            Agreement::Same
        } else {
            Agreement::Open
        };
        if let Some(kind) = label.kind {
            let score = &mut self.0[kind as usize];
            if kinds.contains(kind) {
                score.found += 1
            } else {
                score.missed += 1;
                agreement = Agreement::Different;
            }
        }
        let contradicts = |class: &Kind| {
            let is_found = label.kind.is_some_and(|kind| kinds.contains(kind));
            label.names_protocol && !is_found && !label.permitted.contains(*class)
        };
        if let Some(class) = class.filter(contradicts) {
            self.0[class as usize].wrong += 1;
            agreement = Agreement::Different;
        }
        agreement
    }

    /// The classes that occur, each with its score.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, Score)> {
        let all = Kind::ALL.into_iter().zip(self.0);
        all.filter(|(_, score)| *score != Score::default())
    }

    /// The score of a class.
    pub fn of(&self, kind: Kind) -> Score {
        self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Guessed flow protos: 0
DNS\t3\t200\t1
\t1\tUDP 10.0.0.1:5000 <-> 10.0.0.2:53 [VLAN: 7][proto: GTP:5.126/DNS.Google][IP: 0/Unknown]
\t2\tTCP [2001:db8::1]:40000 -> [2001:db8::2]:465 [proto: 29/SMTPS][IP: 0/Unknown]
\t3\tICMP 10.0.0.1:0 -> 10.0.0.2:0 [proto: 81/ICMP][IP: 0/Unknown]
\t4\tUDP 10.0.0.1:1 -> 10.0.0.2:2 [proto: 58/Discord][IP: 0/Unknown]
\t5\tUDP 10.0.0.1:1 -> 10.0.0.2:3 [proto: 87/RTP][Stream Content: Audio]
\t6\tUDP 10.0.0.1:1 -> 10.0.0.2:4 [proto: 9/NTP][IP: 0/Unknown]
";

    #[test]
    fn lines_of_flows_are_labels() {
        let labels = labels(TEXT);
        let texts: Vec<_> = labels.iter().map(|l| (&*l.text, l.kind)).collect();
        let expected = [
            ("DNS.Google", Some(Kind::Dns)),
            ("SMTPS", Some(Kind::Tls)),
            ("Discord", None),
            ("RTP", Some(Kind::Rtp)),
            ("NTP", None),
        ];
        assert_eq!(texts, expected);
        let keys = labels[..2].iter().map(|label| label.key.to_string());
        let expected = [
            "10.0.0.1:5000 > 10.0.0.2:53 udp",
            "[2001:db8::1]:40000 > [2001:db8::2]:465 tcp",
        ];
        assert_eq!(keys.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn found_wrong_and_missed_are_counted_by_class() {
        let labels = labels(TEXT);
        let [dns, smtps, discord, rtp, ntp] = &labels[..] else {
            panic!("{labels:?}");
        };
        let mut scores = Scores::default();
        let mut compare = |kinds: &[Kind], label| {
            let set = kinds.iter().fold(Kinds::NONE, |set, kind| set.with(*kind));
            scores.compare(kinds.first().copied(), set, label)
        };
        assert_eq!(compare(&[Kind::Dns], dns), Agreement::Same);
        assert_eq!(compare(&[], dns), Agreement::Different);
        assert_eq!(compare(&[Kind::Smtp, Kind::Tls], smtps), Agreement::Same);
        assert_eq!(compare(&[Kind::Smtp], smtps), Agreement::Different);
        assert_eq!(compare(&[Kind::Rtp], discord), Agreement::Open);
        assert_eq!(compare(&[Kind::Stun, Kind::Rtp], rtp), Agreement::Same);
        assert_eq!(compare(&[Kind::Rtp], ntp), Agreement::Different);
        assert_eq!(compare(&[], ntp), Agreement::Same);
        let of = |found, wrong, missed| Score {
            found,
            wrong,
            missed,
        };
        let expected = [
            (Kind::Rtp, of(1, 1, 0)),
            (Kind::Tls, of(1, 0, 1)),
            (Kind::Dns, of(1, 0, 1)),
        ];
        assert_eq!(scores.iter().collect::<Vec<_>>(), expected);
        assert_eq!(scores.of(Kind::Rtp).precision(), Some(0.5));
        assert_eq!(scores.of(Kind::Rtp).recall(), Some(1.0));
        assert_eq!(scores.of(Kind::Http).recall(), None);
    }
}
