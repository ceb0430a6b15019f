//! Restoring the desired state of an FE after each association.
//!
//! ```text
//!  associated --> LFBs (LFBSelectors) --> running configuration --> difference, one Config -> routes -> in sync
//!                       ^                                             |            '-> refused, with the reason
//!                       '---- LFBs added or removed: compare again ---'
//! ```
//!
//! *Decision*: if something else changes a component at the FE during an association, the CE leaves it changed until
//! the next association. The CE then restores the desired value.

use std::collections::HashMap;

use weir_base::{Instant, Span};
use weir_model::{ComponentPath, Value};
use weir_protocol::session::Heartbeats;
use weir_protocol::wire::{Content, Id, OperationKind, Outcome, PathData, ResultCode, WireError};

use super::Control;
use super::continuation::{Answers, Restoring, Then};
use super::member::{Fe, State};
use crate::contract::{LogEvent, Refusal};
use crate::directory::{Directory, FE_OBJECT, FE_PROTOCOL, SELECTORS};
use crate::leaf::{Leaf, failure_in_words, joined};
use crate::settings::{self, BlockId, Edit};

/// Maximum rounds of restoration, after which the CE gives up an FE that never has the LFBs that it confirmed.
pub(super) const ROUNDS_MAX: u32 = 4;

/// Components of the FE protocol object: CEHBPolicy, CEHDI, FEHBPolicy, FEHI (RFC 5810, appendix B).
const HEARTBEATS: [u32; 4] = [4, 5, 6, 7];

/// A component that operators have set and that differs from the value that was read: its path, the edit that sets it or
/// the reason why it cannot be set, and the value that was read.
type Differing<'a> = (&'a ComponentPath, Result<Edit, Refusal>, Option<Value>);

/// Components to read: LFB, operation and path.
pub(super) type Paths = Vec<(BlockId, OperationKind, PathData)>;

impl Control {
    /// Asks an FE for its LFBs and its heartbeats.
    pub(super) fn describe(&mut self, now: Instant, id: Id) {
        let heartbeats = HEARTBEATS.map(|component| (FE_PROTOCOL, component));
        let wanted = [(FE_OBJECT, SELECTORS)].into_iter().chain(heartbeats);
        let paths = wanted.map(|(block, component)| {
            let path = PathData::bare(vec![component])?;
            Ok((block, OperationKind::Get, path))
        });
        match paths.collect::<Result<Vec<_>, WireError>>() {
            Ok(paths) => self.query(now, id, paths, Then::Describe(id)),
            Err(error) => self.refuse(now, id, &error.to_string()),
        }
    }

    /// Sends heartbeats as the FE expects them. Uses the default intervals if the FE does not report its own.
    fn follow_heartbeats(&mut self, now: Instant, id: Id, leaves: &[Leaf]) {
        if let [
            Some(ce_policy),
            Some(ce_dead),
            Some(fe_policy),
            Some(fe_interval),
        ] = HEARTBEATS.map(|component| number(leaves, component))
        {
            let heartbeats = Heartbeats {
                ce_sends: ce_policy == 0,
                ce_dead: Span::from_millis(ce_dead),
                fe_sends: fe_policy == 1,
                fe_interval: Span::from_millis(fe_interval),
            };
            // An FE that requests intervals of zero gets the default intervals.
            let _ = self.ce.set_heartbeats(now, id, heartbeats);
        }
    }

    pub(super) fn described(&mut self, now: Instant, id: Id, answers: Answers) {
        let directory = answers.and_then(|leaves| {
            self.follow_heartbeats(now, id, &leaves);
            self.directory(&leaves)
        });
        let mut directory = match directory {
            Ok(directory) => directory,
            Err(why) => return self.refuse(now, id, &format!("its LFBs cannot be read: {why}")),
        };
        let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) else {
            return;
        };
        directory.keep_names(&fe.directory); // keeps names, so that requests for ports need not wait
        fe.directory = directory;
        let Some(fe) = self.fes.get(&id) else {
            return;
        };
        let paths = self.reads(fe).and_then(|mut paths| {
            paths.extend(Self::route_reads(fe)?);
            Ok(paths)
        });
        match paths {
            Ok(paths) if paths.is_empty() => self.in_sync(now, id, 0),
            Ok(paths) => self.query(now, id, paths, Then::Compare(id)),
            Err(why) => self.refuse(now, id, &why),
        }
    }

    fn directory(&self, leaves: &[Leaf]) -> Result<Directory, Refusal> {
        let mut values = Vec::new();
        for leaf in leaves.iter().filter(|leaf| leaf.block == FE_OBJECT) {
            match &leaf.content {
                Content::Outcome(outcome) if outcome.is_success() => {}
                Content::Outcome(outcome) => {
                    return Err(Refusal::Silent(failure_in_words(outcome)));
                }
                content => {
                    let value = self.codec.value(leaf.block.0, &leaf.ids, content);
                    values.push(value.map_err(Refusal::Silent)?);
                }
            }
        }
        let whole = values.into_iter().reduce(joined);
        let directory = whole.as_ref().and_then(Directory::parse);
        directory.ok_or_else(|| Refusal::Silent("LFBSelectors is not a table of LFBs".to_owned()))
    }

    /// The components to read to find out whether an FE has its desired state.
    pub(super) fn reads(&self, fe: &Fe) -> Result<Paths, String> {
        let mut paths = Paths::new();
        if settings::is_router(&fe.directory) {
            for (block, ids) in settings::reads(&fe.directory) {
                for id in ids {
                    let path = PathData::bare(vec![id]).map_err(|e| e.to_string())?;
                    paths.push((block, OperationKind::Get, path));
                }
            }
        }
        for at in fe.components.keys() {
            // Instance names are unknown before the first answer; the CE then sets such a component without comparison.
            if let Ok(resolved) = self.resolve(fe, at)
                && let Ok(path) = resolved.way.path_data(Content::Empty)
            {
                paths.push((resolved.block, OperationKind::Get, path));
            }
        }
        Ok(paths)
    }

    /// Compares the running configuration with the desired state.
    pub(super) fn compare(&mut self, now: Instant, id: Id, answers: Answers) {
        let difference = answers
            .map_err(|refusal| refusal.to_string())
            .and_then(|leaves| self.difference(id, &leaves));
        match difference {
            Ok((edits, restoring)) if edits.is_empty() => {
                if let Some(fe) = self.fes.get_mut(&id) {
                    fe.has_now(restoring.target);
                }
                self.sync_routes(now, id, 0);
            }
            Ok((edits, restoring)) => {
                let then = Then::Restored(id, Box::new(restoring));
                self.send(now, id, edits, then);
            }
            Err(why) => self.refuse(now, id, &why),
        }
    }

    /// The edits that restore the desired state.
    fn difference(&mut self, id: Id, leaves: &[Leaf]) -> Result<(Vec<Edit>, Restoring), String> {
        self.read_rows(id, leaves)?;
        let fe = self.fes.get_mut(&id).ok_or("it is no longer configured")?;
        let mut edits = Vec::new();
        let mut target = None;
        if settings::is_router(&fe.directory) {
            let ours: Vec<_> = leaves
                .iter()
                .filter(|leaf| settings::is_ours(leaf))
                .cloned()
                .collect();
            let actual = settings::in_force(&self.codec, &mut fe.directory, &ours)?;
            fe.in_force = Some(actual.clone());
            let wanted = fe.target(&actual)?;
            edits = settings::difference(&self.codec, &fe.directory, &actual, &wanted)?;
            target = Some(wanted);
        }
        let Some(fe) = self.fes.get(&id) else {
            return Err("it is no longer configured".to_owned());
        };
        for (_, edit, _) in self.differing(fe, leaves) {
            edits.push(edit.map_err(|refusal| refusal.to_string())?);
        }
        let restoring = Restoring {
            target,
            count: edits.len(),
            renews: edits.iter().any(Edit::renews),
        };
        Ok((edits, restoring))
    }

    /// The components that operators have set and that differ. A component in a row that a key selects always counts as
    /// different, because its path in the answer has the index of the row instead.
    pub(super) fn differing<'a>(
        &'a self,
        fe: &'a Fe,
        leaves: impl IntoIterator<Item = &'a Leaf>,
    ) -> impl Iterator<Item = Differing<'a>> {
        let has_value = |leaf: &&Leaf| !matches!(leaf.content, Content::Outcome(_));
        let read = leaves.into_iter().filter(has_value);
        let read = read.map(|leaf| ((leaf.block, &*leaf.ids), leaf));
        let read: HashMap<_, _> = read.collect(); // there may be a hundred thousand rows
        fe.components.iter().filter_map(move |(path, text)| {
            let (edit, value) = match self.component_edit(fe, path, Some(text)) {
                Ok(made) => made,
                Err(refusal) => return Some((path, Err(refusal), None)),
            };
            let leaf = read.get(&(edit.block, edit.path.ids()));
            let leaf = leaf.filter(|_| edit.path.selector().is_none());
            let actual = leaf.and_then(|leaf| {
                self.codec
                    .value(leaf.block.0, &leaf.ids, &leaf.content)
                    .ok()
            });
            (actual != value).then_some((path, Ok(edit), actual))
        })
    }

    pub(super) fn restored(&mut self, now: Instant, id: Id, done: Restoring, answers: Answers) {
        if let Err(refusal) = answers.and_then(|leaves| self.all_done(id, &leaves)) {
            return self.refuse(now, id, &refusal.to_string());
        }
        let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) else {
            return;
        };
        fe.has_now(done.target);
        fe.rounds += 1;
        match (done.renews, fe.rounds < ROUNDS_MAX) {
            (true, true) => self.describe(now, id),
            (true, false) => self.refuse(now, id, "it lacks LFBs that it has confirmed"),
            (false, _) => self.sync_routes(now, id, done.count),
        }
    }

    /// Checks that an FE has executed everything; the error lists the failures.
    pub(super) fn all_done(&self, id: Id, leaves: &[Leaf]) -> Result<(), Refusal> {
        let failures = leaves
            .iter()
            .filter_map(|leaf| Some((leaf, leaf.failure()?)));
        // A path that the FE undid because another path failed has no reason of its own.
        let mut all: Vec<_> = failures.collect();
        let has_reason = |(_, outcome): &(_, &Outcome)| outcome.code() != ResultCode::Unspecified;
        if all.iter().any(has_reason) {
            all.retain(has_reason);
        }
        let lines = all.iter().map(|(leaf, outcome)| {
            let path = self.path_of(id, leaf.block, &leaf.ids);
            format!("{path}: {}", failure_in_words(outcome))
        });
        let lines: Vec<_> = lines.collect();
        if lines.is_empty() {
            Ok(())
        } else {
            Err(Refusal::Refused(lines))
        }
    }

    pub(super) fn refuse(&mut self, now: Instant, id: Id, why: &str) {
        if let Some(fe) = self.fes.get_mut(&id).filter(|fe| fe.is_associated()) {
            fe.state = State::Refused(why.to_owned());
            let name = fe.name.clone();
            self.note(LogEvent::Refused(name, why.to_owned()));
            self.subscribe_again(now, id);
        }
        self.retry(now);
    }
}

/// A number in the FE protocol object, if it was read.
pub(super) fn number(leaves: &[Leaf], component: u32) -> Option<u64> {
    let is_it = |leaf: &&Leaf| leaf.block == FE_PROTOCOL && leaf.ids == [component];
    match &leaves.iter().find(is_it)?.content {
        Content::Full(bytes) => {
            let bytes = bytes.iter();
            Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        _ => None,
    }
}
