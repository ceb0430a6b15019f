//! The service of a control element (CE): its tables, components of its FEs, watches, and the interface of each FE.
//!
//! ```text
//!   /                                        the page for a browser
//!   /v1/fes, /v1/associations, ..            tables of the CE
//!   /metrics                                 the tables' numbers, for Prometheus
//!   /v1/component                            any component of any FE; changes of several FEs are transactions
//!   /v1/service/queue, /filter, /route       services, which become operations on LFBs
//!   /v1/service/path, /network               paths of flexible packet forwarding, and their network
//!   /v1/certificate/invite, ..               certificates of the CE and of its FEs
//!   /v1/watch                                events and samples, as a stream of lines
//!   /v1/fe/NAME/v1/ports, ..                 everything that the FE itself serves
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path as Segment, Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete as delete_method, get, post};
use axum::{Extension, Json, Router};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use weir_model::certificate::{Invitation, InviteRequest, RenewRequest, RevokeRequest};
use weir_model::operation::CHANGES_MAX;
use weir_model::service::ROUTES_MAX;
use weir_model::watch::{WatchReport, WatchRequest};
use weir_model::{
    ApplyReport, ChangeRequest, Class, DeleteRequest, FilterRequest, NetworkReport, PathReport,
    PathRequest, QueueRequest, RouteExplanation, RouteReport, RouteRequest, RouteVerb,
    ServiceRequest, Value,
};

use crate::operator::{Operator, Peer};
use crate::page::guard::{self, Guard};
use crate::page::{self, Page};
use crate::places::Lease;
use crate::refusal::Refusal;
use crate::server::{self, Service, applied, not_read, too_many};
use crate::{api, metrics, openapi, stream};

/// Longest body of a request with routes.
const ROUTES_BYTES_MAX: usize = 32 << 20;

/// The control element behind the service. Calls may block until FEs answer.
pub trait ControlElement: Send + Sync + 'static {
    /// The tables of the CE; each has the path `/v1/NAME`.
    fn classes(&self) -> Vec<&'static Class>;
    /// Reads a table.
    fn read(&self, class: &'static Class) -> Result<Value, Refusal>;
    /// The FE of this name, with the same interface as at the FE itself.
    fn fe(&self, name: &str) -> Result<Arc<dyn Operator>, Refusal>;
    /// Reads a component: `edge1:port.wan.rate`.
    fn get(&self, path: &str) -> Result<Value, Refusal>;
    /// Sets components, all of them or none.
    fn set(&self, requests: Vec<ChangeRequest>) -> ApplyReport;
    /// Deletes rows and settings, all of them or none.
    fn delete(&self, requests: Vec<DeleteRequest>) -> ApplyReport;
    /// Renders a service, at all of its FEs or none.
    fn serve(&self, service: ServiceRequest) -> ApplyReport;
    /// The desired routes of an FE, or of all FEs.
    fn routes(&self, fe: Option<&str>) -> Result<Vec<RouteReport>, Refusal>;
    /// Explains whether packets to a destination leave an FE, or each FE.
    fn explain(&self, to: &str, fe: Option<&str>) -> Result<Vec<RouteExplanation>, Refusal>;
    /// The flows that have paths.
    fn paths(&self) -> Result<Vec<PathReport>, Refusal>;
    /// Requests a path; returns when the edge FE has installed it.
    fn request_path(&self, request: PathRequest) -> Result<Vec<PathReport>, Refusal>;
    /// Ends a request for a path.
    fn release_path(&self, request: u64) -> Result<(), Refusal>;
    /// The network of its elements.
    fn network(&self) -> Result<NetworkReport, Refusal>;
    /// Creates a token for an FE.
    fn invite(&self, request: InviteRequest) -> Result<Invitation, Refusal>;
    /// Revokes certificates.
    fn revoke(&self, request: RevokeRequest) -> ApplyReport;
    /// Renews the CE's own certificate.
    fn renew(&self, request: RenewRequest) -> ApplyReport;
    /// Starts a watch, and returns its number.
    fn watch(&self, request: WatchRequest) -> Result<u64, Refusal>;
    /// The notices of a watch since the last call.
    fn fetch(&self, id: u64) -> Result<WatchReport, Refusal>;
    /// Ends a watch.
    fn end_watch(&self, id: u64) -> Result<(), Refusal>;
}

impl Service {
    /// Answers requests to a control element until the returned future is dropped; then the socket is removed.
    pub async fn serve_control_element(self, ce: Arc<dyn ControlElement>) -> std::io::Result<()> {
        let routes = router(ce, Guard::Socket);
        self.serve_routes(routes, server::CE_CONNECTION_TIME_MAX)
            .await
    }
}

impl Page {
    /// Answers browsers until the returned future is dropped.
    pub async fn serve(self, ce: Arc<dyn ControlElement>) -> std::io::Result<()> {
        let routes = router(ce, Guard::Page(self.token.clone()));
        server::serve_page(&self.listener, routes, server::STREAMS_MAX).await
    }
}

type Shared = State<Arc<dyn ControlElement>>;

/// Every path except the paths of tables, with its handler, in the order of [`api::CE_ENDPOINTS`].
pub(crate) fn routes() -> [(&'static str, MethodRouter<Arc<dyn ControlElement>>); 16] {
    let interface = |state: Shared| {
        on_a_thread(state, |ce| {
            Ok(Json(openapi::of_control_element(&ce.classes())).into_response())
        })
    };
    let metrics = |state: Shared| {
        on_a_thread(state, |ce| {
            let text = all_metrics(ce)?;
            Ok(([(CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response())
        })
    };
    [
        ("/", get(page::of_control_element)),
        ("/v1/openapi.json", get(interface)),
        ("/metrics", get(metrics)),
        ("/v1/component", get(component).patch(set).delete(delete)),
        ("/v1/service/queue", post(queue)),
        ("/v1/service/filter", post(filter)),
        ("/v1/service/route", route()),
        ("/v1/service/route/explain", get(explain)),
        ("/v1/service/path", get(paths).post(request_path)),
        ("/v1/service/path/{id}", delete_method(release_path)),
        ("/v1/service/network", get(network)),
        ("/v1/certificate/invite", post(invite)),
        ("/v1/certificate/revoke", post(revoke)),
        ("/v1/certificate/renew", post(renew)),
        ("/v1/watch", post(watch)),
        ("/v1/fe/{name}/{*rest}", any(of_fe)),
    ]
}

fn router(ce: Arc<dyn ControlElement>, guard: Guard) -> Router {
    let add = |router: Router<_>, (path, methods): (String, _)| router.route(&path, methods);
    let tables = ce.classes().into_iter();
    let tables = tables.map(|class| (api::path_of(class), table(class)));
    let others = routes().into_iter().chain(page::parts());
    let others = others.map(|(path, methods)| (path.to_owned(), methods));
    tables
        .chain(others)
        .fold(Router::new(), add)
        .fallback(nothing_there)
        .layer(DefaultBodyLimit::max(server::BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(guard, guard::admit))
        .with_state(ce)
}

/// The metrics of every table that has any.
fn all_metrics(ce: &dyn ControlElement) -> Result<String, Refusal> {
    let classes = ce.classes().into_iter();
    let answers = classes
        .filter(|class| class.metric.is_some())
        .map(|class| Ok((class, ce.read(class)?)));
    Ok(metrics::text(&answers.collect::<Result<Vec<_>, _>>()?))
}

async fn nothing_there(path: Uri) -> Response {
    let why = format!(
        "a control element has no {path}; `--fe NAME` queries one of its FEs, and a path like edge1:port.wan.rate names a \
         component of an FE"
    );
    (StatusCode::NOT_FOUND, why).into_response()
}

fn table(class: &'static Class) -> MethodRouter<Arc<dyn ControlElement>> {
    get(move |state: Shared| {
        on_a_thread(state, move |ce| Ok(Json(ce.read(class)?).into_response()))
    })
}

/// Calls the control element on a thread that may block.
async fn on_a_thread(
    State(ce): Shared,
    work: impl FnOnce(&dyn ControlElement) -> Result<Response, Refusal> + Send + 'static,
) -> Response {
    let work = move || work(ce.as_ref()).unwrap_or_else(not_read);
    let answer = tokio::task::spawn_blocking(work).await;
    answer.unwrap_or_else(|error| {
        (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
    })
}

async fn component(state: Shared, Query(query): Query<BTreeMap<String, String>>) -> Response {
    on_a_thread(state, move |ce| {
        let path = query.get("path").ok_or_else(|| {
            let why = "name the component: ?path=edge1:port.wan.rate";
            Refusal::Wrong(why.to_owned())
        })?;
        Ok(Json(ce.get(path)?).into_response())
    })
    .await
}

async fn set(state: Shared, Json(requests): Json<Vec<ChangeRequest>>) -> Response {
    if requests.len() > CHANGES_MAX {
        return too_many();
    }
    on_a_thread(state, move |ce| Ok(applied(&ce.set(requests)))).await
}

async fn delete(state: Shared, Json(requests): Json<Vec<DeleteRequest>>) -> Response {
    if requests.len() > CHANGES_MAX {
        return too_many();
    }
    on_a_thread(state, move |ce| Ok(applied(&ce.delete(requests)))).await
}

async fn queue(state: Shared, Json(queues): Json<Vec<QueueRequest>>) -> Response {
    render(state, queues.len(), ServiceRequest::Queue(queues)).await
}

async fn filter(state: Shared, Json(filters): Json<Vec<FilterRequest>>) -> Response {
    render(state, filters.len(), ServiceRequest::Filter(filters)).await
}

/// Renders a service with this number of parts.
async fn render(state: Shared, parts: usize, service: ServiceRequest) -> Response {
    if parts > CHANGES_MAX {
        return too_many();
    }
    on_a_thread(state, move |ce| Ok(applied(&ce.serve(service)))).await
}

/// The handler for routes. Requests may be long, because they may contain many routes.
fn route() -> MethodRouter<Arc<dyn ControlElement>> {
    let change = |verb| {
        move |state: Shared, Json(requests): Json<Vec<RouteRequest>>| async move {
            let count: usize = requests
                .iter()
                .map(|r| r.routes.len().max(1) * r.fes.len().max(1))
                .sum();
            if count > ROUTES_MAX {
                let why = format!("more than {ROUTES_MAX} routes in one request; split it");
                return (StatusCode::PAYLOAD_TOO_LARGE, why).into_response();
            }
            let service = ServiceRequest::Route(verb, requests);
            on_a_thread(state, move |ce| Ok(applied(&ce.serve(service)))).await
        }
    };
    get(routes_of)
        .post(change(RouteVerb::Add))
        .put(change(RouteVerb::Replace))
        .delete(change(RouteVerb::Delete))
        .layer(DefaultBodyLimit::max(ROUTES_BYTES_MAX))
}

async fn routes_of(state: Shared, Query(query): Query<BTreeMap<String, String>>) -> Response {
    on_a_thread(state, move |ce| {
        let fe = query.get("fe").map(String::as_str);
        Ok(Json(ce.routes(fe)?).into_response())
    })
    .await
}

async fn explain(state: Shared, Query(query): Query<BTreeMap<String, String>>) -> Response {
    on_a_thread(state, move |ce| {
        let to = query.get("to").ok_or_else(|| {
            let why = "name the destination: ?to=10.0.0.0/8, or an address";
            Refusal::Wrong(why.to_owned())
        })?;
        let fe = query.get("fe").map(String::as_str);
        Ok(Json(ce.explain(to, fe)?).into_response())
    })
    .await
}

async fn paths(state: Shared) -> Response {
    on_a_thread(state, |ce| Ok(Json(ce.paths()?).into_response())).await
}

async fn request_path(state: Shared, Json(request): Json<PathRequest>) -> Response {
    on_a_thread(state, move |ce| {
        Ok(Json(ce.request_path(request)?).into_response())
    })
    .await
}

async fn release_path(state: Shared, Segment(request): Segment<u64>) -> Response {
    on_a_thread(state, move |ce| {
        ce.release_path(request)?;
        Ok(Json(Value::Absent).into_response())
    })
    .await
}

async fn network(state: Shared) -> Response {
    on_a_thread(state, |ce| Ok(Json(ce.network()?).into_response())).await
}

async fn invite(state: Shared, Json(request): Json<InviteRequest>) -> Response {
    on_a_thread(state, |ce| Ok(Json(ce.invite(request)?).into_response())).await
}

async fn revoke(state: Shared, Json(request): Json<RevokeRequest>) -> Response {
    on_a_thread(state, |ce| Ok(applied(&ce.revoke(request)))).await
}

async fn renew(state: Shared, Json(request): Json<RenewRequest>) -> Response {
    on_a_thread(state, move |ce| Ok(applied(&ce.renew(request)))).await
}

async fn watch(
    State(ce): Shared,
    Extension(lease): Extension<Lease>,
    Json(request): Json<WatchRequest>,
) -> Response {
    let Some(permit) = lease.extend() else {
        return server::too_many_streams();
    };
    let asked = Arc::clone(&ce);
    match tokio::task::spawn_blocking(move || asked.watch(request)).await {
        Ok(Ok(watch)) => {
            let asked = Arc::clone(&ce);
            let fetch = Arc::new(move || asked.fetch(watch).map(Into::into));
            let end = move || drop(ce.end_watch(watch)); // the watch may have ended already
            stream::answer(fetch, end, permit)
        }
        Ok(Err(refusal)) => not_read(refusal),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Answers as the FE itself would answer.
async fn of_fe(
    State(ce): Shared,
    Segment((name, _)): Segment<(String, String)>,
    mut request: Request,
) -> Response {
    let operator = match ce.fe(&name) {
        Ok(operator) => operator,
        Err(refusal) => return not_read(refusal),
    };
    let path = request.uri().path_and_query();
    let path = path.map_or("", |path| path.as_str());
    let rest = path.splitn(5, '/').nth(4).unwrap_or_default(); // after /v1/fe/NAME/
    let Ok(uri) = format!("/{rest}").parse::<Uri>() else {
        return (StatusCode::NOT_FOUND, format!("there is no {path}")).into_response();
    };
    *request.uri_mut() = uri;
    // The FE's service would mistake the path segments captured here for its own.
    let extensions = request.extensions_mut();
    let (lease, peer) = (extensions.remove::<Lease>(), extensions.remove::<Peer>());
    extensions.clear();
    lease.map(|lease| extensions.insert(lease));
    peer.map(|peer| extensions.insert(peer));
    match TowerToHyperService::new(server::router(operator, Guard::Socket))
        .call(request)
        .await
    {
        Ok(response) => response,
        Err(never) => match never {},
    }
}
