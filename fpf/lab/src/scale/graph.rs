//! A graph of domains, and its file: relationships of autonomous systems, one per line (CAIDA, "serial-1").
//!
//! ```text
//! # a comment
//! 1|11537|0          AS, AS, relationship: -1 from provider to customer, 0 between peers
//! 1|21616|-1
//! ```
//!
//! Relationships are ignored: FPF's paths follow the LIDs of a header, not the export rules of BGP.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum number of links of a graph: ten times that of the Internet.
const LINKS_MAX: usize = 1 << 23;
/// Maximum length of a line of a file, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Domains by number, and the links between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Index in `peers` at which the peers of each domain begin, followed by the end of the last domain's peers.
    starts: Vec<u32>,
    peers: Vec<u32>,
}

impl Graph {
    /// The graph of these links between domains 0 to `domains - 1`. Links must be distinct and must join different
    /// domains.
    pub(super) fn new(domains: usize, links: &[(u32, u32)]) -> Self {
        let mut starts = vec![0; domains + 1];
        for end in links.iter().flat_map(|(a, b)| [*a, *b]) {
            starts[end as usize + 1] += 1;
        }
        for domain in 0..domains {
            starts[domain + 1] += starts[domain];
        }
        let mut next = starts.clone();
        let mut peers = vec![0; 2 * links.len()];
        for (from, to) in links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]) {
            let place = &mut next[from as usize];
            peers[*place as usize] = to;
            *place += 1;
        }
        Self { starts, peers }
    }

    /// Reads a file of relationships, plain or compressed (`.bz2`, `.gz`).
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let reader: Box<dyn Read> = match path.extension().and_then(|end| end.to_str()) {
            Some("bz2") => Box::new(bzip2::read::MultiBzDecoder::new(file)),
            Some("gz") => Box::new(flate2::read::MultiGzDecoder::new(file)),
            _ => Box::new(file),
        };
        Self::parse(BufReader::new(reader))
    }

    fn parse(mut reader: impl BufRead) -> io::Result<Self> {
        let wrong = |number: usize, why: &str| {
            let why = format!("line {number}: {why}");
            io::Error::new(io::ErrorKind::InvalidData, why)
        };
        let (mut links, mut line, mut number) = (BTreeSet::new(), String::new(), 0);
        loop {
            line.clear();
            number += 1;
            if (&mut reader).take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
                break;
            }
            let text = line.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let Some((a, b)) = link(text) else {
                let why = format!("`{text}` must be `AS|AS|-1` or `AS|AS|0`");
                return Err(wrong(number, &why));
            };
            if a != b {
                links.insert((a.min(b), a.max(b)));
            }
            if links.len() > LINKS_MAX {
                return Err(wrong(
                    number,
                    &format!("more than {LINKS_MAX} links, which is the maximum"),
                ));
            }
        }
        if links.is_empty() {
            return Err(wrong(number, "the file contains no links"));
        }
        let names: BTreeSet<u32> = links.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let names: Vec<u32> = names.into_iter().collect();
        // Every name is in the list.
        let place = |name: u32| names.binary_search(&name).unwrap_or_else(|at| at) as u32;
        let links: Vec<_> = links.iter().map(|(a, b)| (place(*a), place(*b))).collect();
        Ok(Self::new(names.len(), &links))
    }

    /// Number of domains.
    pub fn domains(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of links.
    pub fn links(&self) -> usize {
        self.peers.len() / 2
    }

    /// The domains that have a link to this one.
    pub fn peers(&self, domain: usize) -> &[u32] {
        let [from, to] = [domain, domain + 1].map(|at| self.starts[at] as usize);
        &self.peers[from..to]
    }

    /// Number of domains that have a link to this one.
    pub fn degree(&self, domain: usize) -> u32 {
        self.starts[domain + 1] - self.starts[domain]
    }

    /// The degrees of all domains, in ascending order.
    pub fn degrees(&self) -> Vec<u32> {
        let mut degrees: Vec<u32> = (0..self.domains()).map(|d| self.degree(d)).collect();
        degrees.sort_unstable();
        degrees
    }
}

/// The two ends of a line's link. Later columns ("serial-2" names the source) are ignored.
fn link(text: &str) -> Option<(u32, u32)> {
    let mut columns = text.split('|');
    let mut name = || columns.next()?.parse().ok();
    let ends = (name()?, name()?);
    matches!(columns.next()?, "-1" | "0").then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> io::Result<Graph> {
        Graph::parse(text.as_bytes())
    }

    #[test]
    fn a_link_counts_once_in_both_directions() {
        let graph = parse("# x\n30|10|-1\n10|30|0\n10|20|0|bgp\n\n20|20|0\n").unwrap();
        assert_eq!((graph.domains(), graph.links()), (3, 2));
        assert_eq!(graph.peers(0), [1, 2]);
        assert_eq!((graph.peers(1), graph.peers(2)), (&[0][..], &[0][..]));
        assert_eq!(graph.degrees(), [1, 1, 2]);
    }

    #[test]
    fn wrong_lines_are_named() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("1|2|0\n1|x|0\n"),
            "line 2: `1|x|0` must be `AS|AS|-1` or `AS|AS|0`"
        );
        assert!(error("1|2|7").starts_with("line 1"));
        assert!(error("1|2").starts_with("line 1"));
        assert_eq!(error("# nothing\n"), "line 2: the file contains no links");
    }
}
