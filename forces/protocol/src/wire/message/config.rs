//! Config (RFC 5810, 7.6.1): a CE changes components, or commits a transaction.

use super::selects::{Rule, Selects};
use crate::wire::OperationKind;

/// The body of a Config.
pub type Config = Selects<ConfigRule>;

/// The rule for the body of a Config.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConfigRule {}

impl Rule for ConfigRule {
    const PART: &'static str = "Config";
    const NAMES: &'static str = "SET, SET-PROP, DEL, COMMIT or TRCOMP";
    const COUNT: (usize, usize) = (1, usize::MAX);

    fn permits(kind: OperationKind) -> bool {
        matches!(
            kind,
            OperationKind::Set
                | OperationKind::SetProperty
                | OperationKind::Delete
                | OperationKind::Commit
                | OperationKind::TransactionComplete
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::selects_tests::check;

    #[test]
    fn it_permits_its_operations_only() {
        check::<ConfigRule>(&[1, 2, 5, 12, 14]);
    }
}
