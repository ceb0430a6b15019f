//! Traffic classes by a packet's headers, or by the queue that a rule assigns to it, from one line of text.
//!
//! ```text
//!  classes = "to 10.0.1.0/24 tcp = 3, udp port 53 = 2, rest = 1"
//!             +---- match ----+   |
//!                               weight            a packet gets the first class whose words all hold
//! ```

use std::net::IpAddr;

use weir_base::setting::{Setting, did_you_mean, nearest};
use weir_packet::{Family, FlowKey, Queue};

use crate::params::Value;

/// Maximum classes: each packet is compared with all of them.
pub(crate) const CLASSES_MAX: usize = 16;
/// The maximum weight.
const WEIGHT_MAX: u32 = 1000;
/// Protocols that have a name.
const PROTOCOLS: [(&str, u8); 4] = [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58)];
/// The words that are followed by a value.
const WORDS: [&str; 5] = ["from", "to", "port", "protocol", "queue"];
/// The match of all packets.
const REST: &str = "rest";

/// The classes, in the order in which a packet is compared with them; the last one matches all packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes(Vec<Rule>);

/// One class.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The conditions that must all hold; empty to match all packets.
    terms: Vec<Term>,
    weight: u32,
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    Protocol(u8),
    From(Network),
    To(Network),
    /// Source or destination port, from the first to the second.
    Port(u16, u16),
    /// The queue that a forwarding rule assigns.
    Queue(Queue),
}

/// A network, left-aligned as in a flow key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    family: Family,
    bits: u128,
    mask: u128,
}

impl Classes {
    /// Reads the text; the error gives the position of the mistake.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let reader = Reader(text);
        let mut classes: Vec<Rule> = Vec::new();
        for part in text.split(',') {
            if classes.last().is_some_and(|rule| rule.terms.is_empty()) {
                return Err(reader.at(part, "comes after `rest`, which matches every packet"));
            }
            let rule = reader.rule(part)?;
            if let Some(n) = classes.iter().position(|other| other.takes_all_of(&rule)) {
                let why = format!(
                    "never matches, because class {} takes all of its packets",
                    n + 1
                );
                return Err(reader.at(part, &why));
            }
            classes.push(rule);
            if classes.len() > CLASSES_MAX {
                return Err(reader.at(
                    part,
                    &format!("exceeds the maximum of {CLASSES_MAX} classes"),
                ));
            }
        }
        if classes.last().is_none_or(|rule| !rule.terms.is_empty()) {
            return Err("must end with `rest = WEIGHT`, the class of all other packets".into());
        }
        Ok(Self(classes))
    }

    /// The number of classes.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The weights of the classes.
    pub(crate) fn weights(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|rule| rule.weight)
    }

    /// Whether every packet has the same class in `other`.
    pub(crate) fn match_like(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|of| of.0.iter().map(|rule| &rule.terms));
        own.eq(others)
    }

    /// Bytes of memory allocated.
    pub(crate) fn state_bytes(&self) -> usize {
        let terms = self.0.iter().map(|rule| rule.terms.capacity());
        self.0.capacity() * size_of::<Rule>() + terms.sum::<usize>() * size_of::<Term>()
    }

    /// Whether a class is for the packets that a forwarding rule assigns to this queue.
    pub(crate) fn have(&self, queue: Queue) -> bool {
        let is_for = |rule: &Rule| rule.terms.contains(&Term::Queue(queue));
        self.0.iter().any(is_for)
    }

    /// The class of a packet with this key that a forwarding rule assigns to this queue.
    pub(crate) fn class(&self, key: &FlowKey, queue: Queue) -> usize {
        let holds = |rule: &Rule| rule.terms.iter().all(|term| term.holds(key, queue));
        let last = self.0.len() - 1;
        self.0.iter().position(holds).unwrap_or(last)
    }
}

impl Value for Classes {
    fn of(setting: &Setting) -> Result<Self, String> {
        match setting {
            Setting::Text(text) => Self::parse(text),
            other => Err(format!("{other} is not a string")),
        }
    }
}

impl Rule {
    /// Whether each packet that matches `other` also matches this class. `rest` takes the remaining packets.
    fn takes_all_of(&self, other: &Self) -> bool {
        let implied = |term: &Term| other.terms.iter().any(|narrow| narrow.implies(term));
        !other.terms.is_empty() && self.terms.iter().all(implied)
    }
}

impl Term {
    /// Whether `wide` holds for all packets for which this condition holds.
    fn implies(&self, wide: &Self) -> bool {
        match (self, wide) {
            (Self::From(narrow), Self::From(wide)) | (Self::To(narrow), Self::To(wide)) => {
                narrow.is_within(wide)
            }
            (Self::Port(first, last), Self::Port(from, to)) => from <= first && last <= to,
            _ => self == wide,
        }
    }

    /// Whether both conditions can hold for one packet.
    fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Protocol(a), Self::Protocol(b)) => a == b,
            (Self::Queue(a), Self::Queue(b)) => a == b,
            (Self::From(a), Self::From(b)) | (Self::To(a), Self::To(b)) => {
                a.is_within(b) || b.is_within(a)
            }
            (Self::From(a), Self::To(b)) | (Self::To(a), Self::From(b)) => a.family == b.family,
            _ => true, // a packet has two ports
        }
    }

    fn holds(&self, key: &FlowKey, queue: Queue) -> bool {
        match self {
            Self::Protocol(number) => key.protocol == *number && key.family != Family::Link,
            Self::From(network) => network.has(key.family, key.source),
            Self::To(network) => network.has(key.family, key.destination),
            Self::Queue(wanted) => queue == *wanted,
            Self::Port(first, last) => {
                let ports = [key.source_port, key.destination_port];
                ports.iter().any(|port| (first..=last).contains(&port))
            }
        }
    }
}

impl Network {
    fn has(&self, family: Family, address: [u8; 16]) -> bool {
        family == self.family && u128::from_be_bytes(address) & self.mask == self.bits
    }

    fn is_within(&self, wide: &Self) -> bool {
        let inside = self.bits & wide.mask == wide.bits && self.mask & wide.mask == wide.mask;
        self.family == wide.family && inside
    }

    /// `10.0.1.0/24`, or one address.
    fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "is not a network like 10.0.1.0/24 or 2001:db8::/32";
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| FORM)?;
        let (family, bits, most) = match address {
            IpAddr::V4(a) => (Family::V4, u128::from(u32::from(a)) << 96, 32),
            IpAddr::V6(a) => (Family::V6, u128::from(a), 128),
        };
        let length: u32 = length.map_or(Ok(most), str::parse).map_err(|_| FORM)?;
        if length > most {
            return Err(FORM);
        }
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        if bits & !mask != 0 {
            return Err("is not a network: address bits beyond the prefix length are set");
        }
        Ok(Self { family, bits, mask })
    }
}

/// Reads the parts of a text, and knows their positions in it.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    /// An error about a part of the text.
    fn at(&self, part: &str, why: &str) -> String {
        let word = part.trim();
        let start = word.as_ptr() as usize - self.0.as_ptr() as usize;
        let place = self.0[..start].chars().count() + 1;
        format!("`{word}` at character {place} {why}")
    }

    fn rule(&self, part: &str) -> Result<Rule, String> {
        let Some((words, weight)) = part.split_once('=') else {
            return Err(self.at(part, "is not a match with a weight, like `udp port 53 = 2`"));
        };
        let range = 1..=WEIGHT_MAX;
        let number = weight.trim().parse().ok();
        let Some(weight) = number.filter(|number| range.contains(number)) else {
            let why = format!("is not a weight from 1 to {WEIGHT_MAX}");
            return Err(self.at(weight, &why));
        };
        let mut terms = Vec::new();
        let mut left = words.split_whitespace();
        while let Some(word) = left.next() {
            if word == REST {
                if words.trim() != REST {
                    return Err(self.at(
                        words,
                        "has other words besides `rest`, which must be the only one",
                    ));
                }
                return Ok(Rule { terms, weight });
            }
            let term = self.term(word, &mut left)?;
            if !terms.iter().all(|other| term.agrees_with(other)) {
                let why = "contradicts the words before it";
                return Err(self.at(word, why));
            }
            terms.push(term);
        }
        if terms.is_empty() {
            return Err(self.at(part, "has no match before its weight"));
        }
        Ok(Rule { terms, weight })
    }

    fn term<'a>(
        &self,
        word: &'a str,
        left: &mut impl Iterator<Item = &'a str>,
    ) -> Result<Term, String> {
        if let Some((_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == word) {
            return Ok(Term::Protocol(*number));
        }
        if !WORDS.contains(&word) {
            let known = PROTOCOLS
                .iter()
                .map(|(name, _)| *name)
                .chain(WORDS)
                .chain([REST]);
            let hint = match nearest(word, known.clone()) {
                near @ Some(_) => did_you_mean(near),
                None => format!("; permitted are {}", known.collect::<Vec<_>>().join(", ")),
            };
            return Err(self.at(word, &format!("is not a word of a match{hint}")));
        }
        let Some(value) = left.next() else {
            return Err(self.at(word, "needs a value after it"));
        };
        let network = || Network::parse(value).map_err(|why| self.at(value, why));
        match word {
            "from" => network().map(Term::From),
            "to" => network().map(Term::To),
            "protocol" => value
                .parse()
                .map(Term::Protocol)
                .map_err(|_| self.at(value, "is not a protocol number from 0 to 255")),
            "queue" => match value.parse() {
                Ok(number) if number > 0 => Ok(Term::Queue(Queue(number))),
                _ => Err(self.at(value, "is not a queue from 1 to 255")),
            },
            _ => ports(value)
                .map(|(first, last)| Term::Port(first, last))
                .ok_or_else(|| self.at(value, "is not a port like 53 or a range like 5000-5999")),
        }
    }
}

/// `53`, or `5000-5999`. Port zero is not permitted, because fragments and ICMP have it.
fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(from: &str, to: &str, protocol: u8, ports: (u16, u16)) -> FlowKey {
        let [from, to] = [from, to].map(|a| a.parse().unwrap());
        FlowKey::ip(from, to, protocol, ports.0, ports.1)
    }

    #[test]
    fn the_first_class_that_matches() {
        let text = "to 10.0.1.0/24 tcp = 3, udp port 53=2,from 2001:db8::/32 = 7 , port 5000-5999 = 1, \
                    protocol 47 = 4, from 10.9.9.9 = 5, rest = 1";
        let classes = Classes::parse(text).unwrap();
        assert_eq!(classes.weights().collect::<Vec<_>>(), [3, 2, 7, 1, 4, 5, 1]);
        let class =
            |from, to, protocol, ports| classes.class(&key(from, to, protocol, ports), Queue(0));
        assert_eq!(class("10.2.0.1", "10.0.1.255", 6, (1, 80)), 0);
        assert_eq!(class("10.2.0.1", "10.0.2.0", 6, (1, 80)), 6);
        assert_eq!(class("10.2.0.1", "10.0.1.7", 17, (53, 999)), 1);
        assert_eq!(class("10.2.0.1", "10.0.1.7", 17, (999, 53)), 1);
        assert_eq!(class("2001:db8:ffff::1", "::1", 6, (5000, 1)), 2);
        assert_eq!(class("10.2.0.1", "10.3.0.1", 6, (1, 5999)), 3);
        assert_eq!(class("10.2.0.1", "10.3.0.1", 47, (0, 0)), 4);
        assert_eq!(class("10.9.9.9", "10.3.0.1", 1, (0, 0)), 5);
        assert_eq!(class("10.9.9.8", "10.3.0.1", 1, (0, 0)), 6);
        assert_eq!(
            classes.class(&FlowKey::link([10, 0, 1, 1, 0, 0], [0; 6]), Queue(0)),
            6
        );
    }

    #[test]
    fn a_queue_that_a_rule_names_is_a_class_alone_or_with_other_words() {
        let classes =
            Classes::parse("queue 7 tcp = 2, queue 7 = 3, queue 9 = 1, rest = 1").unwrap();
        let class = |protocol, queue| {
            let key = key("10.0.0.1", "10.0.0.2", protocol, (1, 2));
            classes.class(&key, Queue(queue))
        };
        assert_eq!(
            [class(6, 7), class(17, 7), class(6, 9), class(6, 0)],
            [0, 1, 2, 3]
        );
        assert_eq!(
            [7, 9, 0, 1].map(|n| classes.have(Queue(n))),
            [true, true, false, false]
        );
    }

    #[test]
    fn errors_say_the_place() {
        let cases = [
            (
                "tcp = 1, udq = 2, rest = 1",
                "`udq` at character 10 is not a word of a match; did you mean `udp`?",
            ),
            (
                "tcp = 1",
                "must end with `rest = WEIGHT`, the class of all other packets",
            ),
            (
                "tcp = 0, rest = 1",
                "`0` at character 7 is not a weight from 1 to 1000",
            ),
            (
                "tcp, rest = 1",
                "`tcp` at character 1 is not a match with a weight, like `udp port 53 = 2`",
            ),
            (
                "rest = 1, tcp = 1",
                "`tcp = 1` at character 11 comes after `rest`, which matches every packet",
            ),
            (
                "to = 1, rest = 1",
                "`to` at character 1 needs a value after it",
            ),
            (
                "to 10.0.0.0/33 = 1, rest = 1",
                "`10.0.0.0/33` at character 4 is not a network like 10.0.1.0/24 or 2001:db8::/32",
            ),
            (
                "to 10.0.1.5/24 = 1, rest = 1",
                "`10.0.1.5/24` at character 4 is not a network: address bits beyond the prefix length are set",
            ),
            (
                "port 70000 = 1, rest = 1",
                "`70000` at character 6 is not a port like 53 or a range like 5000-5999",
            ),
            (
                "port 9-8 = 1, rest = 1",
                "`9-8` at character 6 is not a port like 53 or a range like 5000-5999",
            ),
            (
                "protocol 300 = 1, rest = 1",
                "`300` at character 10 is not a protocol number from 0 to 255",
            ),
            (
                "queue 0 = 1, rest = 1",
                "`0` at character 7 is not a queue from 1 to 255",
            ),
            (
                "queue 1 queue 2 = 1, rest = 1",
                "`queue` at character 9 contradicts the words before it",
            ),
            (
                "tcp = 1, tcp = 2, rest = 1",
                "`tcp = 2` at character 10 never matches, because class 1 takes all of its packets",
            ),
            (
                "tcp from 10.0.0.0/8 = 1, from 10.0.0.0/8 tcp = 2, rest = 1",
                "`from 10.0.0.0/8 tcp = 2` at character 26 never matches, because class 1 takes all of its packets",
            ),
            (
                "udp = 1, tcp = 1, tcp port 80 = 2, rest = 1",
                "`tcp port 80 = 2` at character 19 never matches, because class 2 takes all of its packets",
            ),
            (
                "to 10.0.0.0/8 port 1-99 = 1, port 80 to 10.1.0.0/16 = 2, rest = 1",
                "`port 80 to 10.1.0.0/16 = 2` at character 30 never matches, because class 1 takes all of its packets",
            ),
            (
                "tcp udp = 1, rest = 1",
                "`udp` at character 5 contradicts the words before it",
            ),
            (
                "to 10.0.0.0/24 to 10.0.1.0/24 = 1, rest = 1",
                "`to` at character 16 contradicts the words before it",
            ),
            (
                "from 10.0.0.0/24 to ::/0 = 1, rest = 1",
                "`to` at character 18 contradicts the words before it",
            ),
            (
                "tcp rest = 1",
                "`tcp rest` at character 1 has other words besides `rest`, which must be the only one",
            ),
            (
                " = 1, rest = 1",
                "`= 1` at character 2 has no match before its weight",
            ),
            (
                "",
                "`` at character 1 is not a match with a weight, like `udp port 53 = 2`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Classes::parse(text).unwrap_err(), expected, "{text}");
        }
        let many: Vec<_> = (1..=16).map(|port| format!("port {port} = 1")).collect();
        let error = Classes::parse(&(many.join(", ") + ", rest = 1")).unwrap_err();
        assert!(
            error.ends_with("exceeds the maximum of 16 classes"),
            "{error}"
        );
    }

    #[test]
    fn a_class_that_keeps_something_is_no_error() {
        for text in [
            "tcp port 80 = 1, tcp = 2, rest = 1",
            "to 10.1.0.0/16 = 1, to 10.0.0.0/8 = 2, rest = 1",
            "to 10.0.0.0/8 = 1, from 10.0.0.0/8 = 2, rest = 1",
            "port 80-90 = 1, port 85-95 = 2, rest = 1",
            "port 80 port 90 = 1, rest = 1", // one is the source's
            "from 0.0.0.0/0 = 1, from ::/0 = 1, tcp = 1, rest = 1",
        ] {
            assert!(Classes::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn all_addresses_are_a_network_too() {
        let classes = Classes::parse("to 0.0.0.0/0 = 2, from ::/0 = 3, rest = 1").unwrap();
        assert_eq!(
            classes.class(&key("1.2.3.4", "5.6.7.8", 6, (1, 2)), Queue(0)),
            0
        );
        assert_eq!(classes.class(&key("::1", "::2", 6, (1, 2)), Queue(0)), 1);
        let same = Classes::parse("to 0.0.0.0/0=9,from ::/0=1,rest=1").unwrap();
        assert!(classes.match_like(&same));
    }
}
