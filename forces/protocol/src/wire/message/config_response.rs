//! Config Response (RFC 5810, 7.6.2): the result of each path of a Config.

use super::selects::{Rule, Selects};
use crate::wire::OperationKind;

/// The body of a Config Response.
pub type ConfigResponse = Selects<ConfigResponseRule>;

/// The rule for the body of a Config Response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConfigResponseRule {}

impl Rule for ConfigResponseRule {
    const PART: &'static str = "Config Response";
    const NAMES: &'static str = "SET-RESPONSE, SET-PROP-RESPONSE, DEL-RESPONSE or COMMIT-RESPONSE";
    const COUNT: (usize, usize) = (1, usize::MAX);

    fn permits(kind: OperationKind) -> bool {
        matches!(
            kind,
            OperationKind::SetResponse
                | OperationKind::SetPropertyResponse
                | OperationKind::DeleteResponse
                | OperationKind::CommitResponse
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::selects_tests::check;

    #[test]
    fn it_permits_its_operations_only() {
        check::<ConfigResponseRule>(&[3, 4, 6, 13]);
    }
}
