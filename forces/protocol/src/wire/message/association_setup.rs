//! Association Setup (RFC 5810, 7.5.1): an FE requests an association from a CE. It may describe itself with components
//! of the FE object (class 1) and of the FE protocol object (class 2).

use super::selects::{Rule, Selects};
use crate::wire::OperationKind;

/// The body of an Association Setup.
pub type AssociationSetup = Selects<AssociationSetupRule>;

/// The rule for the body of an Association Setup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AssociationSetupRule {}

impl Rule for AssociationSetupRule {
    const PART: &'static str = "Association Setup";
    const NAMES: &'static str = "REPORT";
    const COUNT: (usize, usize) = (0, 2);

    fn permits(kind: OperationKind) -> bool {
        matches!(kind, OperationKind::Report)
    }

    fn permits_class(class: u32) -> bool {
        matches!(class, 1 | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::selects_tests::check;

    #[test]
    fn it_permits_its_operations_only() {
        check::<AssociationSetupRule>(&[11]);
    }
}
