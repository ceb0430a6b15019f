//! The service: routes, limits, and the socket.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path as Segment, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router, middleware};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use weir_model::capture::{CaptureRefusal, CaptureRequest};
use weir_model::observe::ObserveRequest;
use weir_model::operation::CHANGES_MAX;
use weir_model::{ApplyReport, ChangeRequest, Class, DeleteRequest};

use crate::operator::{Operator, Peer};
use crate::page::guard::{self, Guard};
use crate::page::{self, Page};
use crate::places::{Lease, Places};
use crate::refusal::Refusal;
use crate::{api, metrics, openapi, stream};

/// Longest time for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(3);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum connections with a streaming answer, in addition to short connections.
pub(crate) const STREAMS_MAX: usize = 256;
/// Maximum browsers that follow a router at the same time.
const VIEWERS_MAX: usize = 32;
/// Longest time that any other connection lasts.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest time of a connection to a control element, which waits for its FEs and may get many routes in a request.
pub(crate) const CE_CONNECTION_TIME_MAX: Duration = Duration::from_secs(65);
/// Longest permitted request body, which is a configuration file.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// The service, before it answers requests.
pub struct Service {
    listener: UnixListener,
    _own: OwnSocket, // removed with the service
}

impl Service {
    /// Creates the socket with mode 0600, and its folder if necessary. Clients that connect wait until the service
    /// [runs](Self::serve).
    pub fn bind(socket: &Path) -> io::Result<Self> {
        if let Some(folder) = socket.parent().filter(|f| !f.as_os_str().is_empty()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        make_way(socket)?;
        let listener = UnixListener::bind(socket)?;
        fs::set_permissions(socket, fs::Permissions::from_mode(0o600))?;
        let _own = OwnSocket {
            identity: identity(&fs::symlink_metadata(socket)?),
            path: socket.to_owned(),
        };
        Ok(Self { listener, _own })
    }

    /// Answers requests until the returned future is dropped; then the socket is removed.
    pub async fn serve(self, operator: Arc<dyn Operator>) -> io::Result<()> {
        let routes = router(operator, Guard::Socket);
        self.serve_routes(routes, CONNECTION_TIME_MAX).await
    }

    /// Answers requests with these routes, each connection for at most `time`.
    pub(crate) async fn serve_routes(self, routes: Router, time: Duration) -> io::Result<()> {
        serve(&self.listener, routes, time).await
    }
}

impl Page {
    /// Answers browsers about a router until the returned future is dropped.
    pub async fn serve_router(self, operator: Arc<dyn Operator>) -> io::Result<()> {
        let routes = router(operator, Guard::Page(self.token.clone()));
        serve_page(&self.listener, routes, VIEWERS_MAX).await
    }
}

async fn serve(listener: &UnixListener, service: Router, time: Duration) -> io::Result<()> {
    let places = Places::new(STREAMS_MAX);
    loop {
        let Some((stream, _)) = accepted(listener.accept().await).await else {
            continue;
        };
        let peer = stream.peer_cred().map(|peer| Peer {
            uid: peer.uid(),
            pid: peer.pid(),
        });
        let service = service.clone().layer(Extension(peer.unwrap_or_default()));
        places
            .spawn(|lease| answer(stream, service, lease, time))
            .await;
    }
}

/// Answers browsers on this machine, with at most `streams` streaming answers. Their users are unknown.
pub(crate) async fn serve_page(
    listener: &TcpListener,
    service: Router,
    streams: usize,
) -> io::Result<()> {
    let places = Places::new(streams);
    let service = service.layer(Extension(Peer {
        uid: u32::MAX,
        pid: None,
    }));
    loop {
        if let Some((stream, _)) = accepted(listener.accept().await).await {
            let service = service.clone();
            places
                .spawn(|lease| answer(stream, service, lease, CONNECTION_TIME_MAX))
                .await;
        }
    }
}

/// A new connection; `None` after an error, and after a pause, because the error may persist.
async fn accepted<S>(accepted: io::Result<S>) -> Option<S> {
    match accepted {
        Ok(stream) => Some(stream),
        Err(error) => {
            // For instance, no file descriptors are left: wait instead of busy-looping.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

/// Answers the requests of a stream that does not come from the service's socket, within the usual time limit and
/// without streaming answers. Its peer is unknown.
pub async fn answer_stream<S>(stream: S, operator: Arc<dyn Operator>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = router(operator, Guard::Socket).layer(Extension(Peer::default()));
    let lease = Places::new(0).lease(0);
    answer(stream, service, lease, CONNECTION_TIME_MAX).await;
}

/// Answers the requests of one connection.
async fn answer<S>(stream: S, service: Router, lease: Lease, time: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service.layer(Extension(lease.clone()));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = match tokio::time::timeout(time, &mut connection).await {
        Err(_) if lease.lasts() => Ok(connection.await),
        ended => ended,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "northbound connection"),
        Err(_) => tracing::debug!("northbound connection took too long"),
    }
    lease.forget();
}

/// Removes the socket of a dead router. Anything else stays: a file named by mistake, a link to one, and the socket of
/// a live router.
fn make_way(socket: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(socket) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        let why = "the path exists and is not a socket; remove it, or set `socket` to another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match UnixStream::connect(socket) {
        Ok(_) => {
            let why = "another weir already listens on this socket";
            Err(io::Error::new(io::ErrorKind::AddrInUse, why))
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(socket),
        Err(error) => Err(error),
    }
}

/// The socket file that this service created.
struct OwnSocket {
    path: PathBuf,
    identity: (u64, u64),
}

/// Identifies a file, to distinguish it from a later file of the same name.
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path);
        let is_own = there.is_ok_and(|metadata| identity(&metadata) == self.identity);
        if is_own && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "cannot remove the northbound socket");
        }
    }
}

type Shared = State<Arc<dyn Operator>>;

/// Every path except the paths of tables, with its handler, in the order of [`api::ENDPOINTS`].
pub(crate) fn routes() -> [(&'static str, MethodRouter<Arc<dyn Operator>>); 9] {
    let config = get(|state: Shared| {
        on_a_thread(state, |o| match o.config() {
            Ok(config) => Json(config).into_response(),
            Err(refusal) => not_read(refusal),
        })
    });
    let interface = |state: Shared| {
        on_a_thread(state, |o| {
            Json(openapi::document(&o.classes())).into_response()
        })
    };
    let metrics = |state: Shared| {
        on_a_thread(state, |o| match all_metrics(o) {
            Ok(text) => ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response(),
            Err(refusal) => not_read(refusal),
        })
    };
    [
        ("/", get(page::of_router)),
        ("/v1/openapi.json", get(interface)),
        ("/metrics", get(metrics)),
        ("/v1/live", get(live)),
        ("/v1/config", config.put(apply).patch(change).delete(delete)),
        ("/v1/enable", post(enable)),
        ("/v1/capture", post(capture)),
        ("/v1/capture/{id}", get(captured).delete(end_capture)),
        ("/v1/observe", get(observe)),
    ]
}

/// The metrics of every class that has any.
fn all_metrics(operator: &dyn Operator) -> Result<String, Refusal> {
    let classes = operator.classes().into_iter();
    let answers = classes
        .filter(|class| class.metric.is_some())
        .map(|class| Ok((class, operator.read(class, BTreeMap::new())?)));
    Ok(metrics::text(&answers.collect::<Result<Vec<_>, _>>()?))
}

/// The handler for the path of a table.
fn table(class: &'static Class) -> MethodRouter<Arc<dyn Operator>> {
    get(move |state: Shared, Query(query)| {
        on_a_thread(state, move |operator| match operator.read(class, query) {
            Ok(value) => Json(value).into_response(),
            Err(refusal) => not_read(refusal),
        })
    })
}

/// The handler for the path of a part of a table: a row, a component, a member.
fn part(class: &'static Class) -> MethodRouter<Arc<dyn Operator>> {
    get(
        move |state: Shared, Segment(path): Segment<String>, Query(query)| {
            on_a_thread(state, move |operator| match operator.read(class, query) {
                Ok(answer) => match class.part(&answer, &path) {
                    Ok(value) => Json(value).into_response(),
                    Err(missing) => (StatusCode::NOT_FOUND, missing).into_response(),
                },
                Err(refusal) => not_read(refusal),
            })
        },
    )
}

pub(crate) fn not_read(refusal: Refusal) -> Response {
    match refusal {
        Refusal::NotFound(why) => (StatusCode::NOT_FOUND, why).into_response(),
        Refusal::Wrong(why) => (StatusCode::BAD_REQUEST, why).into_response(),
        Refusal::Impossible(why) => (StatusCode::UNPROCESSABLE_ENTITY, why).into_response(),
        Refusal::Silent(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

pub(crate) fn router(operator: Arc<dyn Operator>, guard: Guard) -> Router {
    let add = |router: Router<_>, (path, methods): (String, _)| router.route(&path, methods);
    let tables = operator.classes();
    let tables = tables.into_iter().flat_map(|class| {
        let path = api::path_of(class);
        let parts = format!("{path}/{{*part}}");
        [(path, table(class)), (parts, part(class))]
    });
    let others = routes().into_iter().chain(page::parts());
    let others = others.map(|(path, methods)| (path.to_owned(), methods));
    tables
        .chain(others)
        .fold(Router::new(), add)
        .fallback(nothing_there)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(guard, guard::admit))
        .with_state(operator)
}

pub(crate) async fn nothing_there(path: Uri) -> Response {
    (StatusCode::NOT_FOUND, format!("there is no {path}")).into_response()
}

/// Calls the operator on a thread that may block.
async fn on_a_thread(
    State(operator): Shared,
    work: impl FnOnce(&dyn Operator) -> Response + Send + 'static,
) -> Response {
    let answer = tokio::task::spawn_blocking(move || work(operator.as_ref())).await;
    answer.unwrap_or_else(|error| {
        (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
    })
}

async fn live(State(operator): Shared, Extension(lease): Extension<Lease>) -> Response {
    let Some(tables) = operator.live() else {
        let why =
            "samples are available only from the router itself, not through its control element";
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    match lease.extend() {
        Some(permit) => stream::of_samples(tables, permit),
        None => too_many_streams(),
    }
}

async fn apply(state: Shared, Extension(by): Extension<Peer>, text: String) -> Response {
    on_a_thread(state, move |o| applied(&o.apply(&text, by))).await
}

async fn change(
    state: Shared,
    Extension(by): Extension<Peer>,
    Json(requests): Json<Vec<ChangeRequest>>,
) -> Response {
    if requests.len() > CHANGES_MAX {
        return too_many();
    }
    on_a_thread(state, move |o| applied(&o.change(requests, by))).await
}

async fn delete(
    state: Shared,
    Extension(by): Extension<Peer>,
    Json(requests): Json<Vec<DeleteRequest>>,
) -> Response {
    if requests.len() > CHANGES_MAX {
        return too_many();
    }
    on_a_thread(state, move |o| applied(&o.delete(requests, by))).await
}

async fn enable(state: Shared, Extension(by): Extension<Peer>) -> Response {
    on_a_thread(state, move |o| applied(&o.enable(by))).await
}

pub(crate) fn too_many() -> Response {
    let why = format!("more than {CHANGES_MAX} changes; apply a whole configuration instead");
    (StatusCode::PAYLOAD_TOO_LARGE, why).into_response()
}

/// The answer to a change.
pub(crate) fn applied(report: &ApplyReport) -> Response {
    let status = if report.applied {
        StatusCode::OK
    } else {
        StatusCode::UNPROCESSABLE_ENTITY
    };
    (status, Json(report)).into_response()
}

async fn capture(state: Shared, Json(request): Json<CaptureRequest>) -> Response {
    let begin = |o: &dyn Operator| {
        o.capture(request)
            .map(|ticket| Json(ticket).into_response())
    };
    on_a_thread(state, |o| begin(o).unwrap_or_else(refused)).await
}

async fn captured(state: Shared, Segment(id): Segment<u64>) -> Response {
    const PCAPNG: [(axum::http::HeaderName, &str); 1] = [(CONTENT_TYPE, "application/x-pcapng")];
    on_a_thread(state, move |o| match o.captured(id) {
        Ok(Some(bytes)) => (PCAPNG, bytes).into_response(),
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refused(refusal),
    })
    .await
}

async fn end_capture(state: Shared, Segment(id): Segment<u64>) -> Response {
    let end = move |o: &dyn Operator| o.end_capture(id).map(|report| Json(report).into_response());
    on_a_thread(state, move |o| end(o).unwrap_or_else(refused)).await
}

/// Streams drops and backlogged flows, as long as the client reads.
async fn observe(
    State(operator): Shared,
    Extension(lease): Extension<Lease>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let request = match ObserveRequest::from_query(&query) {
        Ok(request) => request,
        Err(why) => return not_read(Refusal::Wrong(why)),
    };
    let asked = Arc::clone(&operator);
    let begun = tokio::task::spawn_blocking(move || asked.observe(request)).await;
    let id = match begun {
        Ok(Ok(id)) => id,
        Ok(Err(refusal)) => return not_read(refusal),
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    let asked = Arc::clone(&operator);
    let end = move || asked.end_observer(id);
    match lease.extend() {
        Some(permit) => {
            let fetch = Arc::new(move || operator.observed(id).map(Into::into));
            stream::answer(fetch, end, permit)
        }
        None => {
            tokio::task::spawn_blocking(end);
            too_many_streams()
        }
    }
}

/// Refuses a further streaming answer.
pub(crate) fn too_many_streams() -> Response {
    let why = "too many streams are open on this socket; close one, or retry later";
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}

/// The answer to a refused capture.
fn refused(refusal: CaptureRefusal) -> Response {
    let status = match refusal {
        CaptureRefusal::Wrong(_) => StatusCode::UNPROCESSABLE_ENTITY,
        CaptureRefusal::Busy => StatusCode::CONFLICT,
        CaptureRefusal::Gone => StatusCode::NOT_FOUND,
        CaptureRefusal::Silent(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, refusal.to_string()).into_response()
}
