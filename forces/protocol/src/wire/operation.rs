//! Operations on an LFB, and their responses (RFC 5810, 7.1.6 to 7.8).
//!
//! ```text
//!  SET, GET, DEL, REPORT and their responses       COMMIT, TRCOMP     COMMIT-RESPONSE
//! +-----------+--------+-----------+-----------+   +------+--------+   +------+--------+--------+
//! | operation | length | PATH-DATA | PATH-DATA |   | 12   | 4      |   | 13   | length | RESULT |
//! +-----------+--------+-----------+-----------+   +------+--------+   +------+--------+--------+
//! ```
//!
//! The content that may end a path depends on the operation ([`OperationKind::permits`]).
//!
//! *Decision*: where the RFC's table permits only FULLDATA but its text also permits SPARSEDATA, we permit both. We
//! permit data in a DEL, which only the text permits. A COMMIT-RESPONSE may have paths with results.

use super::bytes::{Writer, padded};
use super::error::{Place, WireError};
use super::path::{Content, PathData, Selector};
use super::result::Outcome;
use super::result_code::ResultCode;
use super::tlv::{HEAD_LEN, LEN_MAX, Tlv, TlvKind, Tlvs};

codes! {
    /// Operations (RFC 5810, A.2).
    OperationKind(u16) {
        /// Write components.
        Set = 1 "SET",
        /// Write properties of components.
        SetProperty = 2 "SET-PROP",
        /// Response to a SET.
        SetResponse = 3 "SET-RESPONSE",
        /// Response to a SET-PROP.
        SetPropertyResponse = 4 "SET-PROP-RESPONSE",
        /// Delete components.
        Delete = 5 "DEL",
        /// Response to a DEL.
        DeleteResponse = 6 "DEL-RESPONSE",
        /// Read components.
        Get = 7 "GET",
        /// Read properties of components.
        GetProperty = 8 "GET-PROP",
        /// Response to a GET.
        GetResponse = 9 "GET-RESPONSE",
        /// Response to a GET-PROP.
        GetPropertyResponse = 10 "GET-PROP-RESPONSE",
        /// An event, or the description that an element sends of itself.
        Report = 11 "REPORT",
        /// Commit or abort a transaction.
        Commit = 12 "COMMIT",
        /// Response to a COMMIT.
        CommitResponse = 13 "COMMIT-RESPONSE",
        /// All participants have completed a transaction.
        TransactionComplete = 14 "TRCOMP",
    }
}

impl OperationKind {
    /// Whether this content may end a path of this operation.
    pub const fn permits(self, content: &Content) -> bool {
        let (data, result) = match content {
            Content::Nested(_) => return true, // not an end
            Content::Empty => (false, false),
            Content::Full(_) | Content::Sparse(_) => (true, false),
            Content::Outcome(_) => (false, true),
        };
        match self {
            Self::Set | Self::SetProperty => data,
            Self::Delete | Self::Report => !result,
            Self::Get | Self::GetProperty => !data && !result,
            Self::GetResponse | Self::GetPropertyResponse => data || result,
            Self::SetResponse
            | Self::SetPropertyResponse
            | Self::DeleteResponse
            | Self::CommitResponse => result,
            Self::Commit | Self::TransactionComplete | Self::Other(_) => false,
        }
    }

    /// The contents that [`Self::permits`] accepts, for error messages.
    const fn ends(self) -> &'static str {
        match self {
            Self::Set | Self::SetProperty => "FULLDATA or SPARSEDATA",
            Self::Delete | Self::Report => "FULLDATA, SPARSEDATA or nothing",
            Self::GetResponse | Self::GetPropertyResponse => "FULLDATA, SPARSEDATA or a result",
            Self::SetResponse
            | Self::SetPropertyResponse
            | Self::DeleteResponse
            | Self::CommitResponse => "RESULT or EXTENDEDRESULT",
            _ => "nothing",
        }
    }

    /// The response to this operation, if it has one.
    pub const fn response(self) -> Option<Self> {
        match self {
            Self::Set => Some(Self::SetResponse),
            Self::SetProperty => Some(Self::SetPropertyResponse),
            Self::Delete => Some(Self::DeleteResponse),
            Self::Get => Some(Self::GetResponse),
            Self::GetProperty => Some(Self::GetPropertyResponse),
            Self::Commit => Some(Self::CommitResponse),
            _ => None,
        }
    }

    const fn selects_ranges(self) -> bool {
        matches!(self, Self::Get | Self::Delete)
    }

    const fn is_empty(self) -> bool {
        matches!(self, Self::Commit | Self::TransactionComplete)
    }
}

/// An operation on an LFB.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    kind: OperationKind,
    operands: Operands,
    len: usize,
}

/// The operands of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operands {
    /// Components; at least one path.
    Paths(Vec<PathData>),
    /// No operands: COMMIT and TRCOMP.
    Empty,
    /// The result in a COMMIT-RESPONSE.
    Outcome(Outcome),
    /// The bytes of an unknown operation.
    Unread(Vec<u8>),
}

impl Operation {
    /// An operation on components.
    pub fn on(kind: OperationKind, paths: Vec<PathData>) -> Result<Self, WireError> {
        Self::new(kind, Operands::Paths(paths), 0)
    }

    /// Commits or aborts a transaction, according to the flags in the header.
    pub const COMMIT: Self = Self {
        kind: OperationKind::Commit,
        operands: Operands::Empty,
        len: HEAD_LEN,
    };

    /// Announces that all participants have completed a transaction.
    pub const TRANSACTION_COMPLETE: Self = Self {
        kind: OperationKind::TransactionComplete,
        operands: Operands::Empty,
        len: HEAD_LEN,
    };

    /// Response to a COMMIT.
    pub fn commit_response(outcome: Outcome) -> Result<Self, WireError> {
        Self::new(OperationKind::CommitResponse, Operands::Outcome(outcome), 0)
    }

    /// The kind of operation.
    pub const fn kind(&self) -> OperationKind {
        self.kind
    }

    /// The operands.
    pub const fn operands(&self) -> &Operands {
        &self.operands
    }

    /// The paths of the operation; empty for some kinds of operation.
    pub fn paths(&self) -> &[PathData] {
        match &self.operands {
            Operands::Paths(paths) => paths,
            _ => &[],
        }
    }

    /// Length in bytes, with padding.
    pub const fn encoded_len(&self) -> usize {
        padded(self.len)
    }

    /// Reads an operation.
    pub(crate) fn parse(tlv: &Tlv<'_>) -> Result<Self, WireError> {
        let kind = OperationKind::from(tlv.kind);
        let tlvs = Tlvs::new("OPER-TLV", tlv.value, tlv.value_at());
        let operands = match kind {
            OperationKind::Other(_) => Operands::Unread(tlv.value.to_vec()),
            kind if kind.is_empty() => {
                let (len, mismatch) = (tlv.value.len(), ResultCode::LengthMismatch);
                let place = Place::new("OPER-TLV", tlv.at);
                place.permit_len(
                    "length of an empty operation's value",
                    len,
                    (0, 0),
                    mismatch,
                )?;
                Operands::Empty
            }
            kind => parse_operands(kind, tlvs)?,
        };
        Self::new(kind, operands, tlv.at)
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.tlv(self.kind.into(), self.len);
        match &self.operands {
            Operands::Paths(paths) => {
                for path in paths {
                    path.write(to);
                }
            }
            Operands::Empty => {}
            Operands::Outcome(outcome) => outcome.write(to),
            Operands::Unread(bytes) => to.padded(bytes),
        }
    }

    fn new(kind: OperationKind, operands: Operands, at: usize) -> Result<Self, WireError> {
        let place = Place::new("OPER-TLV", at);
        let len = HEAD_LEN
            + match &operands {
                Operands::Paths(paths) => {
                    let (count, missing) = (paths.len(), ResultCode::InvalidTlv);
                    place.permit_len("number of paths", count, (1, usize::MAX), missing)?;
                    for path in paths {
                        check_ends(place, kind, path)?;
                    }
                    paths.iter().map(PathData::encoded_len).sum()
                }
                Operands::Empty => 0,
                Operands::Outcome(outcome) => outcome.encoded_len(),
                Operands::Unread(bytes) => bytes.len(),
            };
        place.permit_len(
            "length",
            len,
            (HEAD_LEN, LEN_MAX),
            ResultCode::ContentsTooLong,
        )?;
        Ok(Self {
            kind,
            operands,
            len,
        })
    }
}

fn parse_operands(kind: OperationKind, tlvs: Tlvs<'_>) -> Result<Operands, WireError> {
    let mut paths = Vec::new();
    for tlv in tlvs.clone() {
        let tlv = tlv?;
        match TlvKind::from(tlv.kind) {
            TlvKind::PathData => paths.push(PathData::parse(&tlv)?),
            TlvKind::Result | TlvKind::ExtendedResult
                if kind == OperationKind::CommitResponse && tlvs.clone().count() == 1 =>
            {
                return Ok(Operands::Outcome(Outcome::parse(&tlv)?));
            }
            _ => {
                let place = Place::new("OPER-TLV", tlv.at);
                return Err(place.unexpected(
                    "type of an inner TLV",
                    tlv.kind,
                    "PATH-DATA",
                    ResultCode::InvalidTlv,
                ));
            }
        }
    }
    Ok(Operands::Paths(paths))
}

/// Checks that the operation permits the end of every path. The constructor of a path has bounded its depth.
fn check_ends(place: Place, kind: OperationKind, path: &PathData) -> Result<(), WireError> {
    if matches!(path.selector(), Some(Selector::Range { .. })) && !kind.selects_ranges() {
        let names = "GET or DEL, because a path selects a range of rows";
        return Err(place.unexpected(
            "operation",
            u16::from(kind),
            names,
            ResultCode::InvalidTflags,
        ));
    }
    let content = path.content();
    if !kind.permits(content) {
        let found = match content {
            Content::Full(_) => TlvKind::FullData.into(),
            Content::Sparse(_) => TlvKind::SparseData.into(),
            Content::Outcome(_) => TlvKind::Result.into(),
            Content::Nested(_) | Content::Empty => 0_u16,
        };
        return Err(place.unexpected("end of a path", found, kind.ends(), ResultCode::InvalidTlv));
    }
    if let Content::Nested(paths) = content {
        for path in paths {
            check_ends(place, kind, path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_what_may_end_a_path() {
        let ends = [
            Content::Empty,
            Content::Full(vec![]),
            Content::Sparse(vec![]),
            Content::Outcome(Outcome::SUCCESS),
        ];
        for (kind, permitted) in [
            (1_u16, [false, true, true, false]),
            (2, [false, true, true, false]),
            (3, [false, false, false, true]),
            (4, [false, false, false, true]),
            (5, [true, true, true, false]),
            (6, [false, false, false, true]),
            (7, [true, false, false, false]),
            (8, [true, false, false, false]),
            (9, [false, true, true, true]),
            (10, [false, true, true, true]),
            (11, [true, true, true, false]),
            (13, [false, false, false, true]),
        ] {
            for (end, permitted) in ends.iter().zip(permitted) {
                let inner = PathData::new(vec![2], None, end.clone()).unwrap();
                let outer = PathData::new(vec![1], None, Content::Nested(vec![inner])).unwrap();
                let made = Operation::on(kind.into(), vec![outer]);
                assert_eq!(
                    made.is_ok(),
                    permitted,
                    "{} of {end:?}",
                    OperationKind::from(kind)
                );
            }
        }
    }

    #[test]
    fn ranges_select_rows_for_reading_and_deleting_only() {
        let range = Some(Selector::Range { first: 1, last: 2 });
        let path = PathData::new(vec![1], range.clone(), Content::Empty).unwrap();
        for kind in [OperationKind::Get, OperationKind::Delete] {
            assert!(Operation::on(kind, vec![path.clone()]).is_ok());
        }
        let error = Operation::on(OperationKind::GetProperty, vec![path]).unwrap_err();
        assert_eq!(error.code, ResultCode::InvalidTflags);
    }

    #[test]
    fn an_operation_without_a_path_is_refused() {
        let tlv = Tlv {
            kind: 7,
            at: 32,
            value: &[],
        };
        let error = Operation::parse(&tlv).unwrap_err();
        assert_eq!((error.at, error.code), (32, ResultCode::InvalidTlv));
        let tlv = Tlv {
            kind: 12,
            at: 32,
            value: &[0; 4],
        };
        assert_eq!(
            Operation::parse(&tlv).unwrap_err().code,
            ResultCode::LengthMismatch
        );
    }

    #[test]
    fn every_code_survives_a_round_trip() {
        for n in 0..=u16::MAX {
            assert_eq!(u16::from(OperationKind::from(n)), n);
        }
    }
}
