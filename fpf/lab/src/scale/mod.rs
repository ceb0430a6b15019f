//! The scale of FPF on an Internet of domains: lengths of paths, sizes of LIDs and of headers.
//!
//! - [`graph`]: domains and links, from a file of relationships between autonomous systems
//! - [`generate`]: a generated graph, used without a file
//! - [`paths`]: shortest paths between all pairs
//! - [`header`]: LIDs by the paper's formula (1), headers of FPF and of other methods
//!
//! Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks", section VI.
//! Paths are shortest in hops, over all links alike, as in the paper: it ignores which routes a domain exports to whom.
//!
//! The paper counts a LID for each domain that a path crosses, both ends included ("the longest path crosses 20
//! domains", "the longest LID vector contains 20 LIDs"). Its Figure 1 needs one LID less, since the last domain removes
//! the header. Lengths and headers here follow the paper's count; the number of links, which matches Figure 1, is given
//! as well.

pub mod generate;
pub mod graph;
pub mod header;
pub mod paths;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use graph::Graph;
use header::{FIXED_BYTES, lid_bytes, lids};
use paths::Paths;

/// The percentiles of Table II.
const PERCENTILES: [(&str, f64); 5] = [
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99_5", 0.995),
    ("p99_99", 0.9999),
    ("p100", 1.0),
];

/// Lengths of paths, in domains, that have a metric each even if no path has this length: the lengths of Figure 8.
const LENGTHS: u32 = 21;
/// Sizes of headers, in bytes, that have a metric each.
const HEADERS: u32 = 44;

/// Measures a graph on `jobs` threads. After each batch `progress` receives the number of finished sources.
/// `None` if `interrupt` became true.
///
/// | metric | |
/// |---|---|
/// | `domains`, `links`, `paths` | numbers; `paths` counts ordered pairs that are connected |
/// | `connected_share_ratio` | of all ordered pairs |
/// | `degree.p90` .. `degree.p100`, `lids.`, `lid_bytes.` | percentiles of Table II, with the LIDs they need |
/// | `one_byte_share_ratio` | domains whose LIDs need one byte |
/// | `length_domains_mean`, `_max`, `length_hops_mean` | length of paths: domains crossed, and links |
/// | `length_share_ratio.N`, `length_within_share_ratio.N` | paths that cross N domains, and at most N |
/// | `header_bytes_mean`, `_max`, `header_within_share_ratio.N` | headers with the LID sizes of each domain |
pub fn study(
    graph: &Graph,
    jobs: usize,
    interrupt: &AtomicBool,
    progress: &(dyn Fn(usize) + Sync),
) -> Option<BTreeMap<String, f64>> {
    let bytes = |domain| lid_bytes(graph.degree(domain));
    // Fits in a byte: for LIDs of 16 bytes, a domain would need more links than a graph can have.
    let surplus: Vec<u8> = (0..graph.domains()).map(|d| bytes(d) as u8 - 1).collect();
    let paths = paths::measure(graph, &surplus, jobs, interrupt, progress)?;
    let mut metrics = degrees(graph, &surplus);
    metrics.extend(lengths(graph, &paths));
    metrics.extend(headers(&paths));
    Some(metrics.into_iter().collect())
}

type Metrics = Vec<(String, f64)>;

fn degrees(graph: &Graph, surplus: &[u8]) -> Metrics {
    let mut metrics = vec![
        ("domains".to_owned(), graph.domains() as f64),
        ("links".to_owned(), graph.links() as f64),
    ];
    let one = surplus.iter().filter(|surplus| **surplus == 0).count();
    let share = one as f64 / surplus.len() as f64;
    metrics.push(("one_byte_share_ratio".to_owned(), share));
    let degrees = graph.degrees();
    for (name, part) in PERCENTILES {
        let rank = ((part * degrees.len() as f64).ceil() as usize).clamp(1, degrees.len());
        let degree = degrees[rank - 1];
        metrics.push((format!("degree.{name}"), degree.into()));
        metrics.push((format!("lids.{name}"), lids(degree) as f64));
        metrics.push((format!("lid_bytes.{name}"), lid_bytes(degree).into()));
    }
    metrics
}

fn lengths(graph: &Graph, paths: &Paths) -> Metrics {
    let total = paths.total() as f64;
    let pairs = graph.domains() as f64 * (graph.domains() as f64 - 1.0);
    let sum = |of: &dyn Fn(usize) -> f64| {
        let parts = paths.iter().map(|(links, _, n)| of(links) * n as f64);
        parts.sum::<f64>() / total
    };
    let longest = paths.iter().map(|(links, ..)| links + 1).max();
    let mut metrics = vec![
        ("paths".to_owned(), total),
        ("connected_share_ratio".to_owned(), total / pairs),
        ("length_domains_mean".to_owned(), sum(&|l| l as f64 + 1.0)),
        ("length_hops_mean".to_owned(), sum(&|l| l as f64)),
        (
            "length_domains_max".to_owned(),
            longest.unwrap_or_default() as f64,
        ),
    ];
    for domains in 2..=LENGTHS {
        let at = sum(&|l| f64::from(u8::from(l + 1 == domains as usize)));
        let within = sum(&|l| f64::from(u8::from(l < domains as usize)));
        metrics.push((format!("length_share_ratio.{domains}"), at));
        metrics.push((format!("length_within_share_ratio.{domains}"), within));
    }
    metrics
}

fn headers(paths: &Paths) -> Metrics {
    let bytes = |links: usize, surplus: usize| FIXED_BYTES as usize + links + 1 + surplus;
    let total = paths.total() as f64;
    let parts = || {
        let parts = paths.iter().filter(|(.., n)| *n > 0);
        parts.map(|(links, surplus, n)| (bytes(links, surplus), n as f64))
    };
    let mean = parts().map(|(bytes, n)| bytes as f64 * n).sum::<f64>() / total;
    let longest = parts().map(|(bytes, _)| bytes).max();
    let mut metrics = vec![
        ("header_bytes_mean".to_owned(), mean),
        (
            "header_bytes_max".to_owned(),
            longest.unwrap_or_default() as f64,
        ),
    ];
    for most in FIXED_BYTES..=HEADERS {
        let within = parts().filter(|(bytes, _)| *bytes <= most as usize);
        let share = within.map(|(_, n)| n).sum::<f64>() / total;
        metrics.push((format!("header_within_share_ratio.{most}"), share));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(graph: &Graph) -> BTreeMap<String, f64> {
        super::study(graph, 1, &AtomicBool::new(false), &|_| {}).unwrap()
    }

    #[test]
    fn a_star_by_hand() {
        // 65 leaves: their LIDs have one byte, those of the centre have two.
        let links: Vec<_> = (1..=65).map(|leaf| (0, leaf)).collect();
        let metrics = study(&Graph::new(66, &links));
        let pairs = 66.0 * 65.0;
        let direct = 2.0 * 65.0 / pairs;
        let near = |name: &str, expected: f64| {
            let found = metrics[name];
            assert!((found - expected).abs() < 1e-9, "{name}: {found}");
        };
        near("paths", pairs);
        near("connected_share_ratio", 1.0);
        near("degree.p90", 1.0);
        near("lids.p100", 260.0);
        near("lid_bytes.p100", 2.0);
        near("one_byte_share_ratio", 65.0 / 66.0);
        near("length_domains_max", 3.0);
        near("length_domains_mean", 3.0 - direct);
        near("length_share_ratio.2", direct);
        near("length_within_share_ratio.3", 1.0);
        // 2 + 1 + 2 for neighbours, 2 + 1 + 2 + 1 between leaves.
        near("header_bytes_max", 6.0);
        near("header_within_share_ratio.5", direct);
        near("header_bytes_mean", 6.0 - direct);
    }

    #[test]
    fn the_internet_of_2016() {
        // The file is not in the repository.
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/data/20161101.as-rel.txt.bz2"
        );
        let Ok(graph) = Graph::read(path.as_ref()) else {
            eprintln!("skipped: there is no {path}");
            return;
        };
        assert_eq!((graph.domains(), graph.links()), (55_809, 239_064));
        let degrees = degrees(&graph, &vec![0; graph.domains()]);
        let degrees = degrees
            .iter()
            .filter(|(name, _)| name.starts_with("degree."));
        let degrees: Vec<f64> = degrees.map(|(_, degree)| *degree).collect();
        assert_eq!(degrees, [9.0, 88.0, 178.0, 2384.0, 5936.0]);
    }

    #[test]
    fn a_graph_in_two_parts() {
        let metrics = study(&Graph::new(4, &[(0, 1), (2, 3)]));
        assert_eq!(metrics["paths"], 4.0);
        assert!((metrics["connected_share_ratio"] - 1.0 / 3.0).abs() < 1e-9);
    }
}
