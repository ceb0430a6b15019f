//! Implements the northbound service's `ControlElement` with the running control element.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::runtime;
use weir_base::Span;
use weir_base::setting::{did_you_mean, nearest};
use weir_ce::contract::{Answer, CeSubscription, Filter, PathCommand, Request, WatchId};
use weir_ce::service;
use weir_forces_live::ce::Handle;
use weir_forces_live::ce::TABLES;
use weir_forces_live::enrol::registrar::Registrar;
use weir_live::mutex::lock;
use weir_model::certificate::{
    Invitation, InviteRequest, RenewRequest, RevokeRequest, TOKEN_MINUTES_MAX,
};
use weir_model::watch::{WatchReport, WatchRequest};
use weir_model::{
    ApplyReport, Change, ChangeRequest, Class, DeleteRequest, ElementPath, NetworkReport,
    Operation, PathReport, PathRequest, RouteExplanation, RouteReport, ServiceRequest, Value,
};
use weir_northbound::{ControlElement, Operator, Refusal};

use super::asker::{Asker, refusal, unexpected};
use super::remote::Remote;

/// The running control element, as the northbound service accesses it.
pub(super) struct Console {
    asker: Asker,
    names: Names,
    /// `None` if the CE has no certificate.
    registrar: Option<Arc<Registrar>>,
}

/// The names of the FEs, which a reload changes.
pub(super) type Names = Arc<Mutex<BTreeSet<String>>>;

impl Console {
    pub(super) fn new(
        handle: Handle,
        runtime: runtime::Handle,
        names: Names,
        registrar: Option<Arc<Registrar>>,
    ) -> Self {
        Self {
            asker: Asker { handle, runtime },
            names,
            registrar,
        }
    }

    fn registrar(&self) -> Result<&Registrar, String> {
        let registrar = self.registrar.as_deref();
        registrar.ok_or_else(|| "the CE has no certificate: `weir keys` generates one".to_owned())
    }
}

impl ControlElement for Console {
    fn classes(&self) -> Vec<&'static Class> {
        TABLES.to_vec()
    }

    fn read(&self, class: &'static Class) -> Result<Value, Refusal> {
        let rows = self.asker.handle.table(class);
        self.asker.runtime.block_on(rows).map_err(refusal)
    }

    fn fe(&self, name: &str) -> Result<Arc<dyn Operator>, Refusal> {
        let names = lock(&self.names);
        if !names.contains(name) {
            let near = did_you_mean(nearest(name, names.iter().map(String::as_str)));
            return Err(Refusal::NotFound(format!("there is no FE `{name}`{near}")));
        }
        Ok(Arc::new(Remote::new(self.asker.clone(), name)))
    }

    fn get(&self, path: &str) -> Result<Value, Refusal> {
        let path = path.parse().map_err(Refusal::Wrong)?;
        self.asker.value(Request::Get(path))
    }

    fn set(&self, requests: Vec<ChangeRequest>) -> ApplyReport {
        let set = |request: ChangeRequest| {
            let ElementPath { fe, path } = request.path.parse()?;
            let change = Change::new(path, request.value.into());
            Ok((fe, vec![Operation::Set(change)]))
        };
        let sets = requests.into_iter().map(set).collect::<Result<_, _>>();
        self.asker.change(sets.map(Request::Change))
    }

    fn delete(&self, requests: Vec<DeleteRequest>) -> ApplyReport {
        let delete = |request: DeleteRequest| {
            let ElementPath { fe, path } = request.path.parse()?;
            Ok((fe, vec![Operation::Delete(path)]))
        };
        let deletes = requests.into_iter().map(delete).collect::<Result<_, _>>();
        self.asker.change(deletes.map(Request::Change))
    }

    fn serve(&self, service: ServiceRequest) -> ApplyReport {
        match service::operations(&service) {
            Ok(request) => self.asker.change(Ok(request)),
            Err(messages) => ApplyReport {
                applied: false,
                messages,
            },
        }
    }

    fn routes(&self, fe: Option<&str>) -> Result<Vec<RouteReport>, Refusal> {
        let request = Request::Routes(fe.map(str::to_owned));
        match self.asker.ask(request).map_err(refusal)? {
            Answer::Routes(routes) => Ok(routes),
            other => Err(unexpected(&other)),
        }
    }

    fn explain(&self, to: &str, fe: Option<&str>) -> Result<Vec<RouteExplanation>, Refusal> {
        let to = to.parse().map_err(Refusal::Wrong)?;
        let explained = self.asker.handle.explain(to, fe.map(str::to_owned));
        self.asker.runtime.block_on(explained).map_err(refusal)
    }

    fn paths(&self) -> Result<Vec<PathReport>, Refusal> {
        self.asker.paths(PathCommand::List)
    }

    fn request_path(&self, request: PathRequest) -> Result<Vec<PathReport>, Refusal> {
        self.asker.paths(PathCommand::Request(request))
    }

    fn release_path(&self, request: u64) -> Result<(), Refusal> {
        let release = Request::Path(PathCommand::Release(request));
        self.asker.ask(release).map_err(refusal)?;
        Ok(())
    }

    fn network(&self) -> Result<NetworkReport, Refusal> {
        let network = Request::Path(PathCommand::Network);
        match self.asker.ask(network).map_err(refusal)? {
            Answer::Network(network) => Ok(network),
            other => Err(unexpected(&other)),
        }
    }

    fn invite(&self, InviteRequest { fe, minutes }: InviteRequest) -> Result<Invitation, Refusal> {
        if !(1..=TOKEN_MINUTES_MAX).contains(&minutes) {
            let why = format!("`minutes` must be from 1 to {TOKEN_MINUTES_MAX}");
            return Err(Refusal::Wrong(why));
        }
        let lifetime = Span::from_secs(60 * u64::from(minutes));
        let registrar = self.registrar().map_err(Refusal::Impossible)?;
        let token = registrar.invite(&fe, lifetime);
        Ok(Invitation {
            token: token.map_err(Refusal::Impossible)?.to_string(),
        })
    }

    fn revoke(&self, request: RevokeRequest) -> ApplyReport {
        let revoked = self.registrar().and_then(|r| r.revoke(&request.which));
        report(revoked)
    }

    fn renew(&self, request: RenewRequest) -> ApplyReport {
        report(self.registrar().and_then(|r| r.renew(request.now)))
    }

    fn watch(&self, request: WatchRequest) -> Result<u64, Refusal> {
        let path = request.path.parse().map_err(Refusal::Wrong)?;
        let filter = Filter {
            threshold: request.threshold,
            hysteresis: request.hysteresis,
            count: request.count,
            interval: request.interval_ms.map(|ms| Span::from_millis(ms.into())),
        };
        let watch = Request::Watch(CeSubscription { path, filter });
        match self.asker.ask(watch).map_err(refusal)? {
            Answer::Watching(id) => Ok(id.0),
            other => Err(unexpected(&other)),
        }
    }

    fn fetch(&self, id: u64) -> Result<WatchReport, Refusal> {
        match self
            .asker
            .ask(Request::Fetch(WatchId(id)))
            .map_err(refusal)?
        {
            Answer::Notices(notices) => Ok(WatchReport {
                notices: notices.notices,
                lost: notices.lost,
            }),
            other => Err(unexpected(&other)),
        }
    }

    fn end_watch(&self, id: u64) -> Result<(), Refusal> {
        self.asker
            .ask(Request::Unwatch(WatchId(id)))
            .map_err(refusal)?;
        Ok(())
    }
}

/// The changes, or the reason why nothing has changed.
fn report(done: Result<Vec<String>, String>) -> ApplyReport {
    ApplyReport {
        applied: done.is_ok(),
        messages: done.unwrap_or_else(|why| vec![why]),
    }
}
