//! Query Response (RFC 5810, 7.7.2): the data that a Query read.

use super::selects::{Rule, Selects};
use crate::wire::OperationKind;

/// The body of a Query Response.
pub type QueryResponse = Selects<QueryResponseRule>;

/// The rule for the body of a Query Response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueryResponseRule {}

impl Rule for QueryResponseRule {
    const PART: &'static str = "Query Response";
    const NAMES: &'static str = "GET-RESPONSE or GET-PROP-RESPONSE";
    const COUNT: (usize, usize) = (1, usize::MAX);

    fn permits(kind: OperationKind) -> bool {
        matches!(
            kind,
            OperationKind::GetResponse | OperationKind::GetPropertyResponse
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::selects_tests::check;

    #[test]
    fn it_permits_its_operations_only() {
        check::<QueryResponseRule>(&[9, 10]);
    }
}
