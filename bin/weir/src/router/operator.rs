//! Implements the northbound service's [`Operator`] with the running router. This adapter is here, so that
//! neither the live habitat nor the service depends on the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_base::setting::Settings;
use weir_lfb::class::{self, Block};
use weir_live::capture::Captures;
use weir_live::observe::{Observations, ObserveRefusal};
use weir_live::router::Running;
use weir_live::router::reader::Reader;
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::observe::{ObserveReport, ObserveRequest};
use weir_model::{ApplyReport, Change, ChangeRequest, Class, DeleteRequest, Operation, Value};
use weir_northbound::{Live, Operator, Peer, Refusal};

use super::Addition;
use super::listening::Listening;
use crate::{configuration, journal};

/// The running router, as the northbound service accesses it.
pub(super) struct Console {
    running: Arc<Running>,
    reader: Arc<Reader>,
    captures: Captures,
    observations: Observations,
    live: Live,
    listening: Arc<Listening>,
    /// The part of the process in addition to the router.
    addition: Option<Arc<dyn Addition>>,
}

impl Console {
    /// A console of a running router.
    pub(super) fn new(
        running: Arc<Running>,
        reader: Arc<Reader>,
        live: Live,
        listening: Arc<Listening>,
        addition: Option<Arc<dyn Addition>>,
    ) -> Self {
        let captures = Captures::new(running.handle.clone());
        let observations = Observations::new(running.handle.clone(), reader.all_samples());
        Self {
            running,
            reader,
            captures,
            observations,
            live,
            listening,
            addition,
        }
    }
}

impl Console {
    /// Applies operations that were read, or returns the error about one that cannot be read.
    fn carry_out(
        &self,
        how: &str,
        operations: Result<Vec<Operation>, String>,
        by: Peer,
    ) -> ApplyReport {
        let operations = operations.map_err(|why| vec![why]);
        self.put_in_force(how, by, || {
            let done = self.running.change(operations?);
            done.map_err(configuration::sentences)
        })
    }

    /// Applies a change. If it moves the page, waits until the page listens there.
    fn put_in_force(
        &self,
        how: &str,
        by: Peer,
        change: impl FnOnce() -> Result<Vec<String>, Vec<String>>,
    ) -> ApplyReport {
        let page = || self.running.in_force().plan.router.page;
        let before = page();
        let mut done = change();
        journal::changed(how, Some(by), &done);
        if let (Ok(messages), now) = (&mut done, page())
            && now != before
            && let Err(why) = self.listening.follow(now)
        {
            messages.push(format!("the page cannot listen there; retrying: {why}"));
        }
        report(done)
    }
}

impl Operator for Console {
    fn classes(&self) -> Vec<&'static Class> {
        class::classes()
    }

    fn read(
        &self,
        class: &'static Class,
        query: BTreeMap<String, String>,
    ) -> Result<Value, Refusal> {
        let (block, query) = query_of(class, &query)?;
        self.reader.read(block, &query).map_err(Refusal::Silent)
    }

    fn config(&self) -> Result<BTreeMap<String, String>, Refusal> {
        Ok(self.running.in_force().plan.shown())
    }

    fn apply(&self, text: &str, by: Peer) -> ApplyReport {
        let plan = configuration::plan("configuration", text);
        let plan = plan.and_then(|new| {
            new.for_running(self.addition.as_ref().map(|addition| addition.plan()))
        });
        self.put_in_force("apply", by, || {
            let done = self.running.apply(plan?);
            done.map_err(configuration::sentences)
        })
    }

    fn change(&self, requests: Vec<ChangeRequest>, by: Peer) -> ApplyReport {
        let read = |request: ChangeRequest| {
            let path = request.path.parse()?;
            Ok(Operation::Set(Change::new(path, request.value.into())))
        };
        self.carry_out("set", requests.into_iter().map(read).collect(), by)
    }

    fn delete(&self, requests: Vec<DeleteRequest>, by: Peer) -> ApplyReport {
        let read = |request: &DeleteRequest| request.path.parse().map(Operation::Delete);
        self.carry_out("unset", requests.iter().map(read).collect(), by)
    }

    fn enable(&self, by: Peer) -> ApplyReport {
        let done = match &self.addition {
            Some(addition) => addition.enable().map(|before| match before {
                Some(why) => vec![format!("enabled; it had stopped forwarding: {why}")],
                None => vec!["it already forwards".to_owned()],
            }),
            None => Err(
                "this router is not a forwarding element, so no control element can stop it"
                    .to_owned(),
            ),
        };
        let done = done.map_err(|why| vec![why]);
        journal::changed("enable", Some(by), &done);
        report(done)
    }

    fn capture(&self, request: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal> {
        self.captures.start(request)
    }

    fn captured(&self, id: u64) -> Result<Option<Vec<u8>>, CaptureRefusal> {
        self.captures.fetch(id)
    }

    fn end_capture(&self, id: u64) -> Result<CaptureReport, CaptureRefusal> {
        self.captures.end(id)
    }

    fn observe(&self, request: ObserveRequest) -> Result<u64, Refusal> {
        self.observations.start(&request).map_err(not_observed)
    }

    fn observed(&self, id: u64) -> Result<ObserveReport, Refusal> {
        self.observations.fetch(id).map_err(not_observed)
    }

    fn end_observer(&self, id: u64) {
        self.observations.end(id);
    }

    fn live(&self) -> Option<Live> {
        Some(self.live.clone())
    }
}

fn not_observed(refusal: ObserveRefusal) -> Refusal {
    let why = refusal.to_string();
    match refusal {
        ObserveRefusal::Wrong(_) => Refusal::Wrong(why),
        ObserveRefusal::Gone => Refusal::NotFound(why),
        ObserveRefusal::Busy | ObserveRefusal::Silent(_) => Refusal::Silent(why),
    }
}

/// The name and the checked query of a table that the router has.
pub(super) fn query_of(
    class: &Class,
    query: &BTreeMap<String, String>,
) -> Result<(&'static Block, Settings), Refusal> {
    let Some(block) = Block::find(class.name) else {
        unreachable!("{} is not one of `classes`", class.name)
    };
    let query = query.iter().map(|(name, text)| (&name[..], &text[..]));
    let query = block
        .query(query)
        .map_err(|e| Refusal::Wrong(e.to_string()))?;
    Ok((block, query))
}

/// A report of the applied changes, or of the reasons why none was applied.
fn report(done: Result<Vec<String>, Vec<String>>) -> ApplyReport {
    let applied = done.is_ok();
    let (Ok(messages) | Err(messages)) = done;
    ApplyReport { applied, messages }
}
