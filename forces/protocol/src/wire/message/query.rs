//! Query (RFC 5810, 7.7.1): a CE reads components.

use super::selects::{Rule, Selects};
use crate::wire::OperationKind;

/// The body of a Query.
pub type Query = Selects<QueryRule>;

/// The rule for the body of a Query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueryRule {}

impl Rule for QueryRule {
    const PART: &'static str = "Query";
    const NAMES: &'static str = "GET or GET-PROP";
    const COUNT: (usize, usize) = (1, usize::MAX);

    fn permits(kind: OperationKind) -> bool {
        matches!(kind, OperationKind::Get | OperationKind::GetProperty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::selects_tests::check;

    #[test]
    fn it_permits_its_operations_only() {
        check::<QueryRule>(&[7, 8]);
    }
}
