//! A policy: rows that group flows to be treated alike.
//!
//! ```text
//!  row 0   svc                         the first row decides that names one of the flow's kinds
//!  row 1   rtp
//!  row 2   tls, quic   *.example.org
//! ```
//!
//! A row is only a number here; the edge maps it to the paths of its flows.

use crate::flow::may_carry;
use crate::kind::Kinds;

/// A row, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    kinds: Kinds,
    server: Option<Box<str>>,
}

/// Rows in the order of their priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy(Vec<Row>);

/// The reasons for which a row can match nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The row names no kind.
    #[error("the row names no kind of flow")]
    NoKind,
    /// The server is empty, or has a `*` elsewhere than in front of the first dot.
    #[error(
        "`{0}` is not a server name; permitted are whole names, and `*.` with the end of a name, like *.example.org"
    )]
    Server(Box<str>),
}

impl Row {
    /// Flows that have one of these kinds. With a server, only flows to it: a whole name, or `*.` and the end of one.
    pub fn new(kinds: Kinds, server: Option<&str>) -> Result<Self, RowError> {
        if kinds.is_empty() {
            return Err(RowError::NoKind);
        }
        if let Some(server) = server {
            let name = server.strip_prefix("*.").unwrap_or(server);
            if name.is_empty() || name.contains('*') {
                return Err(RowError::Server(server.into()));
            }
        }
        let server = server.map(Into::into);
        Ok(Self { kinds, server })
    }
}

impl Policy {
    /// A policy of these rows. Each decision reads all of them, so keep them few.
    pub fn new(rows: Vec<Row>) -> Self {
        Self(rows)
    }

    /// The number of the row for a flow of these kinds to this server, from zero.
    pub fn row(&self, kinds: Kinds, server: Option<&str>) -> Option<usize> {
        self.0.iter().position(|row| row.matches(kinds, server))
    }

    /// Whether a flow of these kinds, which has this row or none, may get another row if more kinds are found in it.
    pub fn may_change(&self, kinds: Kinds, row: Option<usize>) -> bool {
        let before = &self.0[..row.unwrap_or(self.0.len())];
        let more = may_carry(kinds);
        let asks_for_more = |row: &Row| row.kinds.iter().any(|kind| more.contains(kind));
        before.iter().any(asks_for_more)
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
    use crate::kind::Kind;

    fn kinds(all: &[Kind]) -> Kinds {
        all.iter().fold(Kinds::NONE, |set, kind| set.with(*kind))
    }

    #[test]
    fn the_first_row_that_matches_decides() {
        let row = |of: &[Kind], server| Row::new(kinds(of), server).unwrap();
        let policy = Policy::new(vec![
            row(&[Kind::Svc], None),
            row(&[Kind::Rtp], None),
            row(&[Kind::Tls, Kind::Quic], Some("*.example.org")),
            row(&[Kind::Tls], Some("example.net")),
        ]);
        let of = |all: &[Kind], server| policy.row(kinds(all), server);
        assert_eq!(of(&[Kind::Rtp, Kind::Svc], None), Some(0));
        assert_eq!(of(&[Kind::Stun, Kind::Rtp], None), Some(1));
        assert_eq!(of(&[Kind::Quic], Some("a.Example.org")), Some(2));
        assert_eq!(of(&[Kind::Quic], Some("example.org")), None);
        assert_eq!(of(&[Kind::Tls], Some("EXAMPLE.net")), Some(3));
        assert_eq!(of(&[Kind::Tls], None), None);
        let rtp = kinds(&[Kind::Rtp]);
        assert!(policy.may_change(rtp, Some(1)) && policy.may_change(rtp, None));
        assert!(
            policy.may_change(kinds(&[Kind::Stun]), None),
            "by way of RTP"
        );
        assert!(!policy.may_change(kinds(&[Kind::Rtp, Kind::Svc]), Some(0)));
        assert!(!policy.may_change(kinds(&[Kind::Dns]), None));
        assert!(!Policy::default().may_change(rtp, None));
    }

    #[test]
    fn a_row_that_can_match_nothing_is_refused() {
        assert_eq!(Row::new(Kinds::NONE, None), Err(RowError::NoKind));
        for server in ["", "*.", "a.*.de", "*"] {
            let error = Row::new(kinds(&[Kind::Tls]), Some(server)).unwrap_err();
            let error = error.to_string();
            assert!(
                error.starts_with(&format!("`{server}` is not a server name")),
                "{error}"
            );
        }
    }
}
