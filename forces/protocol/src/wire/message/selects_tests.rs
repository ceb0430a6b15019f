//! Tests of the rules of all messages that are a series of LFBselects.

use super::selects::{Rule, Selects};
use crate::wire::{Content, LfbSelect, Operation, OperationKind, Outcome, PathData, ResultCode};

/// An operation of any kind, with a path that the operation permits.
fn operation(code: u16) -> Operation {
    let kind = OperationKind::from(code);
    match kind {
        OperationKind::Commit => return Operation::COMMIT,
        OperationKind::TransactionComplete => return Operation::TRANSACTION_COMPLETE,
        _ => {}
    }
    let ends = [
        Content::Empty,
        Content::Full(vec![1]),
        Content::Outcome(Outcome::SUCCESS),
    ];
    let end = ends.into_iter().find(|end| kind.permits(end)).unwrap();
    Operation::on(kind, vec![PathData::new(vec![7], None, end).unwrap()]).unwrap()
}

pub(crate) fn check<R: Rule>(permitted: &[u16]) {
    let (least, most) = R::COUNT;
    for code in 1..=14 {
        let select = LfbSelect::new(1, 1, vec![operation(code)]).unwrap();
        let count = most.min(3);
        let made = Selects::<R>::new(vec![select.clone(); count]);
        match (permitted.contains(&code), made) {
            (true, Ok(selects)) => assert_eq!(selects.selects().len(), count),
            (false, Err(error)) => assert_eq!(error.code, ResultCode::InvalidOperation),
            (expected, made) => panic!("{code}: {expected}, {made:?}"),
        }
        if most < usize::MAX {
            assert!(Selects::<R>::new(vec![select; most + 1]).is_err());
        }
    }
    assert_eq!(Selects::<R>::new(vec![]).is_ok(), least == 0);
}
