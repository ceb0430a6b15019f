//! A policy: which path the flows of a class take.
//!
//! ```text
//!  row 1   svc    -> "video-low-loss"       the first row decides that names one of the flow's kinds
//!  row 2   rtp    -> "voice"
//!  row 3   tls, quic   *.example.org -> "partner"
//! ```
//!
//! A path is a name here; the edge knows its vector of local identifiers.

use crate::kind::{Kind, Kinds};

/// Rows of a policy at most.
pub const ROWS_MAX: usize = 256;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Flows that have one of these kinds.
    pub kinds: Kinds,
    /// Only flows to this server: a whole name, or `*.` and the end of one. All flows, if there is none.
    pub server: Option<Box<str>>,
    /// The path's name.
    pub path: Box<str>,
}

/// A policy, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy(Vec<Row>);

/// The reasons for which rows are no policy. Rows are counted from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// There are more than [`ROWS_MAX`].
    TooMany(usize),
    /// A row names no kind, so no flow would match it.
    NoKind(usize),
    /// A row's server is empty, or has a `*` elsewhere than in front of the first dot.
    Server(usize, Box<str>),
    /// A row names no path.
    NoPath(usize),
}

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany(rows) => write!(f, "{rows} rows; at most {ROWS_MAX} are permitted"),
            Self::NoKind(row) => write!(f, "row {row} names no kind of flow"),
            Self::Server(row, server) => write!(
                f,
                "row {row}: `{server}` is no server; write a name, or `*.` and the end of one"
            ),
            Self::NoPath(row) => write!(f, "row {row} names no path"),
        }
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// A policy of these rows.
    pub fn new(rows: Vec<Row>) -> Result<Self, PolicyError> {
        if rows.len() > ROWS_MAX {
            return Err(PolicyError::TooMany(rows.len()));
        }
        for (number, row) in (1..).zip(&rows) {
            if row.kinds.is_empty() {
                return Err(PolicyError::NoKind(number));
            }
            if row.path.is_empty() {
                return Err(PolicyError::NoPath(number));
            }
            if let Some(server) = &row.server {
                let name = server.strip_prefix("*.").unwrap_or(server);
                if name.is_empty() || name.contains('*') {
                    return Err(PolicyError::Server(number, server.clone()));
                }
            }
        }
        Ok(Self(rows))
    }

    /// The path for a flow of these kinds to this server.
    pub fn path(&self, kinds: Kinds, server: Option<&str>) -> Option<&str> {
        let row = self.0.iter().find(|row| row.matches(kinds, server))?;
        Some(&row.path)
    }

    /// Whether some row asks for a kind. What no row asks for needs no classifier.
    pub fn wants(&self, kind: Kind) -> bool {
        self.0.iter().any(|row| row.kinds.contains(kind))
    }
}

impl Row {
    fn matches(&self, kinds: Kinds, server: Option<&str>) -> bool {
        let is_there = match (&self.server, server) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(pattern), Some(server)) => match pattern.strip_prefix('*') {
                Some(end) => {
                    let from = server.len().checked_sub(end.len());
                    let tail = from.and_then(|from| server.get(from..));
                    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
                }
                None => server.eq_ignore_ascii_case(pattern),
            },
        };
        is_there && self.kinds.iter().any(|kind| kinds.contains(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kinds: &[Kind], server: Option<&str>, path: &str) -> Row {
        Row {
            kinds: kinds.iter().fold(Kinds::NONE, |set, kind| set.with(*kind)),
            server: server.map(Into::into),
            path: path.into(),
        }
    }

    #[test]
    fn the_first_row_that_matches_decides() {
        let rows = vec![
            row(&[Kind::Svc], None, "video"),
            row(&[Kind::Rtp], None, "voice"),
            row(&[Kind::Tls, Kind::Quic], Some("*.example.org"), "partner"),
            row(&[Kind::Tls], Some("example.net"), "other"),
        ];
        let policy = Policy::new(rows).unwrap();
        let of = |kinds: &[Kind], server| {
            let kinds = kinds.iter().fold(Kinds::NONE, |set, kind| set.with(*kind));
            policy.path(kinds, server)
        };
        assert_eq!(of(&[Kind::Rtp, Kind::Svc], None), Some("video"));
        assert_eq!(of(&[Kind::Stun, Kind::Rtp], None), Some("voice"));
        assert_eq!(of(&[Kind::Quic], Some("a.Example.org")), Some("partner"));
        assert_eq!(of(&[Kind::Quic], Some("example.org")), None);
        assert_eq!(of(&[Kind::Tls], Some("EXAMPLE.net")), Some("other"));
        assert_eq!(of(&[Kind::Tls], None), None);
        assert!(policy.wants(Kind::Quic) && !policy.wants(Kind::Dns));
    }

    #[test]
    fn a_row_that_can_match_nothing_is_refused() {
        let error = |row| Policy::new(vec![row]).unwrap_err().to_string();
        assert_eq!(error(row(&[], None, "a")), "row 1 names no kind of flow");
        assert_eq!(error(row(&[Kind::Rtp], None, "")), "row 1 names no path");
        let server = error(row(&[Kind::Tls], Some("a.*.de"), "a"));
        assert!(
            server.starts_with("row 1: `a.*.de` is no server"),
            "{server}"
        );
        let many = vec![row(&[Kind::Rtp], None, "a"); ROWS_MAX + 1];
        assert!(Policy::new(many).is_err());
    }
}
