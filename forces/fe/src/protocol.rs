//! The FE protocol object, class 2 (RFC 5810, appendix B; RFC 7121 and RFC 7391, appendix A): the associations of the
//! FE.
//!
//! *Decision*: an FE can reach only the CEs of its configuration, so a CE that writes CEID and BackupCEs may reorder or
//! omit these CEs, but not add others. FERestartPolicy has one value, and the FE determines LastCEID.

use weir_base::Span;
use weir_model::Value;
use weir_protocol::session::Heartbeats;
use weir_protocol::session::fe::{CES_MAX, Failover, Fe, Params, Standby};
use weir_protocol::wire::{Id, IdKind, ResultCode};

use crate::request::Failure;
use crate::tree;

/// Components that this FE does not let a CE write: FERestartPolicy and LastCEID.
pub(crate) const FIXED: &[u32] = &[12, 13];
/// Maximum number of groups of an FE.
const GROUPS_MAX: usize = 64;

/// The components that a CE can write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Protocol {
    pub(crate) groups: Vec<Id>,
    pub(crate) heartbeats: Heartbeats,
    /// The CEs, the preferred master first.
    pub(crate) ces: Vec<Id>,
    keeps_forwarding: bool,
    cefti: Span,
    standby: Standby,
    pub(crate) last_ce: Option<Id>,
    pub(crate) extended_results: bool,
    /// The CEs that the FE can reach.
    known: Vec<Id>,
}

impl Protocol {
    pub(crate) fn new(params: &Params) -> Self {
        const CEFTI_DEFAULT: Span = Span::from_secs(300); // as in the class
        Self {
            groups: params.groups.clone(),
            heartbeats: params.heartbeats,
            ces: params.ces.clone(),
            keeps_forwarding: params.failover.keeps.is_some(),
            cefti: params.failover.keeps.unwrap_or(CEFTI_DEFAULT),
            standby: params.failover.standby,
            last_ce: None,
            extended_results: params.extended_results,
            known: params.ces.clone(),
        }
    }

    pub(crate) fn failover(&self) -> Failover {
        Failover {
            keeps: self.keeps_forwarding.then_some(self.cefti),
            standby: self.standby,
        }
    }

    /// Value of the whole object.
    pub(crate) fn value(&self, fe: &Fe) -> Value {
        let whole = |number: u64| Value::Whole(number);
        let id = |id: Id| Value::Whole(id.0.into());
        let ids = |ids: &mut dyn Iterator<Item = Id>| Value::List(ids.map(id).collect());
        let millis = |span: Span| Value::Whole(span.as_nanos() / 1_000_000);
        let first = fe.master().or(self.ces.first().copied());
        let word =
            |n: usize, words: &[&'static str]| words.get(n).map_or(Value::Absent, |w| (*w).into());
        let members = [
            ("CurrentRunningVersion", whole(1)),
            ("FEID", id(fe.id())),
            ("MulticastFEIDs", ids(&mut self.groups.iter().copied())),
            (
                "CEHBPolicy",
                word(usize::from(!self.heartbeats.ce_sends), &CE_HEARTBEATS),
            ),
            ("CEHDI", millis(self.heartbeats.ce_dead)),
            (
                "FEHBPolicy",
                word(usize::from(self.heartbeats.fe_sends), &FE_HEARTBEATS),
            ),
            ("FEHI", millis(self.heartbeats.fe_interval)),
            ("CEID", first.map_or(Value::Absent, id)),
            ("BackupCEs", ids(&mut self.backups(first))),
            (
                "CEFailoverPolicy",
                word(usize::from(self.keeps_forwarding), &FAILOVER),
            ),
            ("CEFTI", millis(self.cefti)),
            ("FERestartPolicy", word(0, &RESTART)),
            ("LastCEID", whole(self.last_ce.map_or(0, |ce| ce.0.into()))),
            ("HAMode", word(self.standby as usize, &HA_MODES)),
            ("AllCEs", Value::List(fe.ces().map(all_ces_row).collect())),
            (
                "EResultAdmin",
                word(usize::from(self.extended_results), &RESULTS),
            ),
            ("SupportableVersions", Value::List(vec![whole(1)])),
            (
                "HACapabilities",
                Value::List(HA_CAPABILITIES.map(Into::into).to_vec()),
            ),
            (
                "EResultCapab",
                Value::List(RESULTS.map(Into::into).to_vec()),
            ),
        ];
        Value::Struct(members.map(|(name, value)| (name.into(), value)).to_vec())
    }

    /// The CEs that the FE tries after `first`, in order: those that follow it in the list, then those before it (RFC
    /// 7121, 4.1).
    fn backups(&self, first: Option<Id>) -> impl Iterator<Item = Id> {
        let at = self.ces.iter().position(|ce| Some(*ce) == first);
        let (before, from) = self.ces.split_at(at.unwrap_or_default());
        let behind = from.iter().skip(usize::from(at.is_some()));
        behind.chain(before).copied()
    }

    /// The state after a write of a CE; `before` and `after` are the value of the object before and after the write.
    pub(crate) fn written(&self, before: &Value, after: &Value) -> Result<Self, Failure> {
        let refused = |code, why: &str| Failure::new(code, why);
        let number = |name| after.whole(name).unwrap_or_default();
        let is_word = |name, word: &str| after.text(name) == Some(word);
        let millis = |name| Span::from_millis(number(name));
        let heartbeats = Heartbeats {
            ce_sends: is_word("CEHBPolicy", CE_HEARTBEATS[0]),
            ce_dead: millis("CEHDI"),
            fe_sends: is_word("FEHBPolicy", FE_HEARTBEATS[1]),
            fe_interval: millis("FEHI"),
        };
        if heartbeats.ce_dead == Span::ZERO || heartbeats.fe_interval == Span::ZERO {
            let why = "CEHDI and FEHI must be at least 1 ms";
            return Err(refused(ResultCode::ValueOutOfRange, why));
        }
        let keeps_forwarding = is_word("CEFailoverPolicy", FAILOVER[1]);
        let standby = match after.text("HAMode") {
            Some(mode) if mode == HA_MODES[1] => Standby::Cold,
            Some(mode) if mode == HA_MODES[2] => Standby::Hot,
            _ => Standby::None,
        };
        if standby == Standby::Hot && !keeps_forwarding {
            let why = "HAMode 2 (hot standby) needs CEFailoverPolicy 1";
            return Err(refused(ResultCode::InvalidParameters, why));
        }
        Ok(Self {
            groups: groups(after)?,
            heartbeats,
            ces: self.written_ces(before, after)?,
            keeps_forwarding,
            cefti: millis("CEFTI"),
            standby,
            extended_results: is_word("EResultAdmin", RESULTS[1]),
            ..self.clone()
        })
    }

    fn written_ces(&self, before: &Value, after: &Value) -> Result<Vec<Id>, Failure> {
        let is_same = |name| before.get(name) == after.get(name);
        let (first, backups) = (id(after.get("CEID")), ids(after.get("BackupCEs")));
        let mut ces: Vec<Id> = first.into_iter().collect();
        match (is_same("CEID"), is_same("BackupCEs")) {
            (true, true) => return Ok(self.ces.clone()),
            (false, true) => {
                // The previous first CE becomes the last backup (RFC 7121, 4.1).
                let others = backups.into_iter().chain(id(before.get("CEID")));
                ces.extend(others.filter(|ce| Some(*ce) != first));
            }
            (_, false) => ces.extend(backups),
        }
        let mut unique = ces.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() < ces.len() || ces.is_empty() || ces.len() > CES_MAX {
            let why = format!("CEID and BackupCEs must list 1 to {CES_MAX} different CEs");
            return Err(Failure::new(ResultCode::InvalidParameters, why));
        }
        match ces.iter().find(|ce| !self.known.contains(ce)) {
            Some(ce) => {
                let why = format!(
                    "the FE cannot reach the CE {ce}: its configuration has no [ce.NAME] with this ID"
                );
                Err(Failure::new(ResultCode::InvalidParameters, why))
            }
            None => Ok(ces),
        }
    }
}

fn all_ces_row(ce: weir_protocol::session::fe::CeReport) -> Value {
    let whole = |n: u64| Value::Whole(n);
    let statistics = [
        ("RecvPackets", ce.received.packets),
        ("RecvErrPackets", ce.dropped.packets),
        ("RecvBytes", ce.received.bytes),
        ("RecvErrBytes", ce.dropped.bytes),
        ("TxmitPackets", ce.sent.packets),
        ("TxmitErrPackets", ce.unsent.packets),
        ("TxmitBytes", ce.sent.bytes),
        ("TxmitErrBytes", ce.unsent.bytes),
    ];
    let statistics = statistics.map(|(name, count)| (name.into(), whole(count)));
    Value::Struct(vec![
        ("CEID".into(), whole(ce.id.0.into())),
        ("Statistics".into(), Value::Struct(statistics.to_vec())),
        ("CEStatus".into(), CE_STATES[ce.status as usize].into()),
    ])
}

/// Parses a table of IDs.
fn ids(table: Option<&Value>) -> Vec<Id> {
    let rows = tree::rows(table.unwrap_or(&Value::Absent));
    rows.into_iter()
        .filter_map(|(_, row)| id(Some(row)))
        .collect()
}

fn id(value: Option<&Value>) -> Option<Id> {
    match value {
        Some(Value::Whole(id)) => u32::try_from(*id).ok().map(Id),
        _ => None,
    }
}

fn groups(after: &Value) -> Result<Vec<Id>, Failure> {
    let groups = ids(after.get("MulticastFEIDs"));
    let is_group = |id: &Id| id.kind() == IdKind::Multicast;
    if groups.len() <= GROUPS_MAX && groups.iter().all(is_group) {
        Ok(groups)
    } else {
        let why = format!(
            "MulticastFEIDs may have at most {GROUPS_MAX} IDs, from 0xc0000000 to 0xffffffef"
        );
        Err(Failure::new(ResultCode::ValueOutOfRange, why))
    }
}

const CE_HEARTBEATS: [&str; 2] = ["CEHBPolicy0", "CEHBPolicy1"];
const FE_HEARTBEATS: [&str; 2] = ["FEHBPolicy0", "FEHBPolicy1"];
const FAILOVER: [&str; 2] = ["CEFailoverPolicy0", "CEFailoverPolicy1"];
const RESTART: [&str; 1] = ["FERestartPolicy0"];
const HA_MODES: [&str; 3] = ["NoHA", "ColdStandby", "HotStandby"];
const RESULTS: [&str; 2] = ["EResultNotSupported", "EResultSupported"];
const HA_CAPABILITIES: [&str; 2] = ["GracefullRestart", "HA"]; // spelled as in the RFC
const CE_STATES: [&str; 6] = [
    "Disconnected",
    "Connected",
    "Associated",
    "IsMaster",
    "LostConnection",
    "Unreachable",
];
