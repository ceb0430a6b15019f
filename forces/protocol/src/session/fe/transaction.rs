//! An FE's part in a transaction over several FEs: a two-phase commit (RFC 5810, 4.3.1.2).
//!
//! ```text
//!         SOT, MOT: prepare      EOT, COMMIT: execute      EOT, TRCOMP: changes become permanent
//!  idle  ----------------------> preparing -------------> committed ----------------------------> idle
//!    ^                               |                        |
//!    '-------------------------------'------------------------'  ABT, or the CE is lost: undo all
//! ```

use crate::wire::header::{Execution, Flags, Phase};
use crate::wire::message::Config;
use crate::wire::{LfbSelect, OperationKind, ResultCode};

/// Whether a Config is executed or prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Execute it.
    Execute,
    /// Check it, and answer as if it were executed; the commit of the transaction executes it.
    Prepare,
}

/// Whether a Config has an operation of this kind.
pub(super) fn has(config: &Config, kind: OperationKind) -> bool {
    let mut operations = config.selects().iter().flat_map(LfbSelect::operations);
    operations.any(|o| o.kind() == kind)
}

/// The handling of a Config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Execute(Stage),
    Commit,
    Abort,
    /// There is no transaction to abort; the answer is success.
    Nothing,
    Complete,
    RefuseCommit(ResultCode),
    Refuse(ResultCode),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Idle,
    Preparing,
    /// A part of the transaction failed, so it can only be aborted.
    Failed,
    Committed,
}

/// The progress of the master's transaction.
#[derive(Debug, Default)]
pub(super) struct Participant {
    progress: Progress,
}

impl Participant {
    /// Marks the transaction as failed.
    pub(super) fn fail(&mut self) {
        if self.progress != Progress::Idle {
            self.progress = Progress::Failed;
        }
    }

    /// Ends the transaction; returns whether there was one.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(&mut self.progress) != Progress::Idle
    }

    /// Decides how a Config with these flags is handled.
    pub(super) fn check(&mut self, flags: &Flags, config: &Config) -> Verdict {
        let operations = || config.selects().iter().flat_map(LfbSelect::operations);
        let commits = has(config, OperationKind::Commit);
        let completes = has(config, OperationKind::TransactionComplete);
        let alone = operations().count() == 1;
        if !flags.transaction {
            return match (commits || completes, self.progress) {
                (true, _) => Verdict::Refuse(ResultCode::InvalidOperation),
                (false, Progress::Idle) => Verdict::Execute(Stage::Execute),
                (false, _) => Verdict::Refuse(ResultCode::Busy),
            };
        }
        match (flags.phase, commits, completes) {
            (Phase::Abort, true, _) if alone => {
                if self.end() {
                    Verdict::Abort
                } else {
                    Verdict::Nothing
                }
            }
            (Phase::End, true, _) if alone => self.commit(),
            (Phase::End, _, true) if alone && self.progress == Progress::Committed => {
                self.end();
                Verdict::Complete
            }
            (Phase::Start | Phase::Middle, false, false) => self.prepare(flags),
            _ => {
                self.fail();
                Verdict::Refuse(ResultCode::InvalidFlags)
            }
        }
    }

    fn commit(&mut self) -> Verdict {
        match self.progress {
            Progress::Preparing => {
                self.progress = Progress::Committed;
                Verdict::Commit
            }
            Progress::Failed => Verdict::RefuseCommit(ResultCode::InvalidParameters),
            Progress::Idle | Progress::Committed => Verdict::RefuseCommit(ResultCode::InvalidFlags),
        }
    }

    fn prepare(&mut self, flags: &Flags) -> Verdict {
        match (flags.phase, self.progress) {
            (Phase::Start, Progress::Idle) => self.progress = Progress::Preparing,
            (Phase::Middle, Progress::Preparing | Progress::Failed) => {}
            (Phase::Start, _) => return Verdict::Refuse(ResultCode::Busy),
            _ => return Verdict::Refuse(ResultCode::InvalidFlags),
        }
        if flags.execution != Execution::AllOrNone {
            self.fail();
            return Verdict::Refuse(ResultCode::InvalidFlags);
        }
        Verdict::Execute(Stage::Prepare)
    }
}
