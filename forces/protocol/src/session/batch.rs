//! Packs many changes into few messages (RFC 5810, 4.3): paths of one operation on one LFB share its header, and
//! messages are filled up to a chosen length.
//!
//! ```text
//!  SET 10.1 row 1 ─┐
//!  SET 10.1 row 2 ─┼─▶ Config: LFBselect 10.1 [SET row 1, row 2] [DEL row 3]
//!  DEL 10.1 row 3 ─┘
//! ```
//!
//! Changes keep their order, within a message and across messages.

use crate::wire::header::{HEADER_LEN, MESSAGE_LEN_MAX};
use crate::wire::message::{Config, Selects};
use crate::wire::tlv::{HEAD_LEN, LEN_MAX};
use crate::wire::{LfbSelect, Operation, OperationKind, PathData, WireError};

/// Collects changes and packs them into bodies of messages.
#[derive(Debug)]
pub struct Batch {
    body_max: usize,
    full: Vec<Config>,
    selects: Vec<LfbSelect>,
    selects_len: usize,
    block: Option<(u32, u32)>,
    operations: Vec<Operation>,
    block_len: usize,
    kind: OperationKind,
    paths: Vec<PathData>,
}

impl Batch {
    /// A batch whose messages have at most `message_max` bytes. A single change that exceeds this length gets its own
    /// message.
    pub fn new(message_max: usize) -> Self {
        Self {
            body_max: message_max.min(MESSAGE_LEN_MAX).saturating_sub(HEADER_LEN),
            full: Vec::new(),
            selects: Vec::new(),
            selects_len: 0,
            block: None,
            operations: Vec::new(),
            block_len: LfbSelect::EMPTY_LEN,
            kind: OperationKind::Set,
            paths: Vec::new(),
        }
    }

    /// Adds a change of an LFB.
    pub fn push(
        &mut self,
        block: (u32, u32),
        kind: OperationKind,
        path: PathData,
    ) -> Result<(), WireError> {
        let same = self.block == Some(block);
        let head = if same && self.kind == kind && !self.paths.is_empty() {
            0
        } else {
            HEAD_LEN
        };
        let path_len = path_len(kind, &path);
        let cost = head + path_len;
        let starts = !same || self.block_len + cost > LEN_MAX;
        let around = if starts {
            LfbSelect::EMPTY_LEN + HEAD_LEN
        } else {
            0
        };
        let long = self.selects_len + self.block_len + around + cost > self.body_max;
        if starts || long {
            self.end_block()?;
            self.block = Some(block);
        }
        if long {
            self.end_message()?;
        }
        if self.kind != kind {
            self.end_operation()?;
        }
        if self.paths.is_empty() {
            self.block_len += HEAD_LEN;
        }
        self.kind = kind;
        self.block_len += path_len;
        self.paths.push(path);
        Ok(())
    }

    /// Ends the message unless the following changes fit into it. An FE checks each message of a transaction together
    /// with the earlier ones only, so changes that are valid only together must be in the same message.
    pub fn keep_together<'a>(
        &mut self,
        changes: impl IntoIterator<Item = (OperationKind, &'a PathData)>,
    ) -> Result<(), WireError> {
        let len = |(kind, path)| LfbSelect::EMPTY_LEN + 2 * HEAD_LEN + path_len(kind, path);
        let len_max: usize = changes.into_iter().map(len).sum();
        if self.selects_len + self.block_len + len_max > self.body_max {
            self.end_block()?;
            self.end_message()?;
        }
        Ok(())
    }

    /// Returns the messages with all changes.
    pub fn finish(mut self) -> Result<Vec<Config>, WireError> {
        self.end_block()?;
        self.end_message()?;
        Ok(self.full)
    }

    fn end_operation(&mut self) -> Result<(), WireError> {
        if !self.paths.is_empty() {
            let paths = std::mem::take(&mut self.paths);
            self.operations.push(Operation::on(self.kind, paths)?);
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), WireError> {
        self.end_operation()?;
        if let Some((class, instance)) = self.block.take()
            && !self.operations.is_empty()
        {
            let operations = std::mem::take(&mut self.operations);
            let select = LfbSelect::new(class, instance, operations)?;
            self.selects_len += select.encoded_len();
            self.selects.push(select);
        }
        self.block_len = LfbSelect::EMPTY_LEN;
        Ok(())
    }

    fn end_message(&mut self) -> Result<(), WireError> {
        if !self.selects.is_empty() {
            self.full
                .push(Selects::new(std::mem::take(&mut self.selects))?);
            self.selects_len = 0;
        }
        Ok(())
    }
}

/// The length of a path, or of its answer if that is longer, because both must fit an LFBselect.
fn path_len(kind: OperationKind, path: &PathData) -> usize {
    match kind {
        OperationKind::Delete => path.encoded_len() + RESULT_LEN,
        _ => path.encoded_len(), // the result replaces the data
    }
}

/// The length of a RESULT-TLV.
const RESULT_LEN: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(row: u32, len: usize) -> PathData {
        PathData::full(vec![1, row], vec![0; len]).unwrap()
    }

    #[test]
    fn changes_that_belong_together_are_in_one_message() {
        let mut batch = Batch::new(1000);
        let count = 100;
        for instance in 0..count {
            let group = [set(1, 8), set(2, 40), set(3, 40)];
            let changes = group.iter().map(|path| (OperationKind::Set, path));
            batch.keep_together(changes).unwrap();
            for path in group {
                let block = (7, instance);
                batch.push(block, OperationKind::Set, path).unwrap();
            }
        }
        let messages = batch.finish().unwrap();
        let selects: Vec<_> = messages.iter().flat_map(Selects::selects).collect();
        assert_eq!(selects.len(), count as usize, "no block is in two messages");
        assert!(
            messages
                .iter()
                .all(|m| m.encoded_len() <= 1000 - HEADER_LEN)
        );
        assert!(messages.len() < count as usize / 3, "{}", messages.len());
    }

    /// An FE answers with the same paths and a result for each path.
    #[test]
    fn the_answers_to_deletions_fit_too() {
        let mut batch = Batch::new(60_000);
        for row in 0..10_000 {
            let path = PathData::bare(vec![1, row]).unwrap();
            batch.push((10, 1), OperationKind::Delete, path).unwrap();
        }
        for config in batch.finish().unwrap() {
            for select in config.selects() {
                let paths = select.operations().iter().map(|o| o.paths().len());
                let answer = select.encoded_len() + RESULT_LEN * paths.sum::<usize>();
                assert!(answer <= LEN_MAX, "{answer}");
            }
        }
    }

    #[test]
    fn neighbours_share_what_they_have_in_common_and_keep_their_order() {
        let mut batch = Batch::new(1400);
        for row in 0..3 {
            batch
                .push((10, 1), OperationKind::Set, set(row, 12))
                .unwrap();
        }
        batch
            .push(
                (10, 1),
                OperationKind::Delete,
                PathData::bare(vec![1, 0]).unwrap(),
            )
            .unwrap();
        batch.push((12, 1), OperationKind::Set, set(9, 12)).unwrap();
        let messages = batch.finish().unwrap();
        assert_eq!(messages.len(), 1);
        let blocks: Vec<_> = messages[0]
            .selects()
            .iter()
            .map(|s| (s.class(), s.operations().len()))
            .collect();
        assert_eq!(blocks, [(10, 2), (12, 1)]);
        assert_eq!(messages[0].selects()[0].operations()[0].paths().len(), 3);
    }

    #[test]
    fn messages_are_no_longer_than_wanted() {
        for max in [0, 1400, 60_000, 200_000, usize::MAX] {
            let mut batch = Batch::new(max);
            for row in 0..5000 {
                let block = (10 + row / 900, 1);
                let kind = if row % 7 == 0 {
                    OperationKind::Delete
                } else {
                    OperationKind::Set
                };
                batch
                    .push(block, kind, set(row, 12 + row as usize % 5))
                    .unwrap();
            }
            let messages = batch.finish().unwrap();
            let lens = messages.iter().map(|m| HEADER_LEN + m.encoded_len());
            let one = HEADER_LEN + LfbSelect::EMPTY_LEN + HEAD_LEN + set(0, 16).encoded_len();
            assert!(
                lens.clone()
                    .all(|len| len <= max.clamp(one, MESSAGE_LEN_MAX)),
                "{max}"
            );
            if max == 1400 {
                let deleted = |message: &Config| {
                    let operations = message.selects().iter().flat_map(LfbSelect::operations);
                    let deletions = operations.filter(|o| o.kind() == OperationKind::Delete);
                    deletions.map(|o| o.paths().len()).sum::<usize>()
                };
                let room = messages.iter().map(|m| RESULT_LEN * deleted(m)); // for the answer
                let mut filled = lens.zip(room).map(|(len, room)| len + room).rev().skip(1);
                assert!(filled.all(|len| len > 1400 - 40), "they are filled");
            }
            let operations = messages
                .iter()
                .flat_map(|m| m.selects())
                .flat_map(|s| s.operations());
            let rows = operations.flat_map(|o| o.paths()).map(|p| p.ids()[1]);
            assert!(rows.eq(0..5000));
        }
    }
}
