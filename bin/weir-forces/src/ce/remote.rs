//! Implements the northbound service of an FE through its control element.

use std::collections::BTreeMap;

use weir_ce::contract::{Answer, Request};
use weir_lfb::class;
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::{ApplyReport, Change, ChangeRequest, Class, DeleteRequest, Operation, Value};
use weir_northbound::{Operator, Peer, Refusal};

use super::asker::{Asker, refusal, unexpected};

/// An FE of the control element.
pub(super) struct Remote {
    asker: Asker,
    fe: String,
}

impl Remote {
    pub(super) fn new(asker: Asker, fe: &str) -> Self {
        Self {
            asker,
            fe: fe.to_owned(),
        }
    }

    /// Changes the FE's configuration, which the control element stores.
    fn carry_out(&self, operations: Result<Vec<Operation>, String>) -> ApplyReport {
        let change = |operations| Request::Change(vec![(self.fe.clone(), operations)]);
        self.asker.change(operations.map(change))
    }
}

impl Operator for Remote {
    fn classes(&self) -> Vec<&'static Class> {
        class::classes()
    }

    fn read(
        &self,
        class: &'static Class,
        query: BTreeMap<String, String>,
    ) -> Result<Value, Refusal> {
        if let Some(name) = query.keys().next() {
            let why = format!(
                "`{name}`: a CE does not support queries of FE tables; request the whole table"
            );
            return Err(Refusal::Wrong(why));
        }
        self.asker.value(Request::Read {
            fe: self.fe.clone(),
            class: class.name.to_owned(),
        })
    }

    fn config(&self) -> Result<BTreeMap<String, String>, Refusal> {
        let config = Request::Config(self.fe.clone());
        match self.asker.ask(config).map_err(refusal)? {
            Answer::Config(config) => Ok(config),
            other => Err(unexpected(&other)),
        }
    }

    fn apply(&self, _: &str, _: Peer) -> ApplyReport {
        let why = "a CE does not accept the whole configuration of an FE: write it to [fe.NAME] in the CE's file, or set \
                   single components";
        ApplyReport {
            applied: false,
            messages: vec![why.to_owned()],
        }
    }

    fn change(&self, requests: Vec<ChangeRequest>, _: Peer) -> ApplyReport {
        let read = |request: ChangeRequest| {
            let path = request.path.parse()?;
            Ok(Operation::Set(Change::new(path, request.value.into())))
        };
        self.carry_out(requests.into_iter().map(read).collect())
    }

    fn delete(&self, requests: Vec<DeleteRequest>, _: Peer) -> ApplyReport {
        let read = |request: &DeleteRequest| request.path.parse().map(Operation::Delete);
        self.carry_out(requests.iter().map(read).collect())
    }

    fn capture(&self, _: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal> {
        let why = "captures run on the FE itself: weir capture --socket";
        Err(CaptureRefusal::Wrong(why.to_owned()))
    }

    fn captured(&self, _: u64) -> Result<Option<Vec<u8>>, CaptureRefusal> {
        Err(CaptureRefusal::Gone)
    }

    fn end_capture(&self, _: u64) -> Result<CaptureReport, CaptureRefusal> {
        Err(CaptureRefusal::Gone)
    }
}
