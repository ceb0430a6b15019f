//! The other side of the service: what `weir show`, `weir apply`, `weir set` and `weir capture` use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Builder;
use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

/// A router that does not answer within this time is taken for dead.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Why a router could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no router on that socket, or it may not be used.
    #[error("no router answers on {}: {source}; is `weir router` running, with this `socket`?", socket.display())]
    Unreachable {
        /// Where it should be.
        socket: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It did not answer in time.
    #[error("the router on {} did not answer within {} s", socket.display(), ANSWER_TIME_MAX.as_secs())]
    Silent {
        /// Where it is.
        socket: PathBuf,
    },
    /// The connection broke, or the answer was no HTTP.
    #[error("the router's answer broke off: {0}")]
    Http(#[from] hyper::Error),
    /// The answer was not what was expected.
    #[error("the router answered {status}: {text}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The beginning of the answer.
        text: String,
    },
}

/// `GET path` at the router on `socket`.
pub fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let request = Request::get(path)
        .header("host", "weir")
        .body(Body::empty());
    ask(socket, request)
}

/// `PUT path` with a text at the router on `socket`.
pub fn put<T: DeserializeOwned>(socket: &Path, path: &str, text: String) -> Result<T, ClientError> {
    let request = Request::put(path)
        .header("host", "weir")
        .body(Body::from(text));
    ask(socket, request)
}

/// `POST path` with a value as JSON at the router on `socket`.
pub fn post<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    send(socket, Request::post(path), value)
}

/// `PATCH path` with a value as JSON at the router on `socket`.
pub fn patch<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    send(socket, Request::patch(path), value)
}

fn send<T: DeserializeOwned>(
    socket: &Path,
    request: Builder,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    let json = serde_json::to_vec(value).unwrap_or_default(); // a plain value is always JSON
    let request = request
        .header("host", "weir")
        .header("content-type", "application/json")
        .body(Body::from(json));
    ask(socket, request)
}

/// `DELETE path` at the router on `socket`.
pub fn delete<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    let request = Request::delete(path)
        .header("host", "weir")
        .body(Body::empty());
    ask(socket, request)
}

/// `GET path` at the router on `socket`, for bytes; none if it has no content (any more).
pub fn get_bytes(socket: &Path, path: &str) -> Result<Option<Bytes>, ClientError> {
    let request = Request::get(path)
        .header("host", "weir")
        .body(Body::empty());
    match exchange(socket, request)? {
        (200, body) => Ok(Some(body)),
        (204, _) => Ok(None),
        (status, body) => Err(unexpected(status, &body)),
    }
}

fn ask<T: DeserializeOwned>(
    socket: &Path,
    request: Result<Request<Body>, axum::http::Error>,
) -> Result<T, ClientError> {
    let (status, body) = exchange(socket, request)?;
    serde_json::from_slice(&body).map_err(|_| unexpected(status, &body))
}

fn unexpected(status: u16, body: &[u8]) -> ClientError {
    ClientError::Unexpected {
        status,
        text: String::from_utf8_lossy(body).chars().take(200).collect(),
    }
}

/// Sends a request, and gives status and body of the answer.
fn exchange(
    socket: &Path,
    request: Result<Request<Body>, axum::http::Error>,
) -> Result<(u16, Bytes), ClientError> {
    let unreachable = |source| ClientError::Unreachable {
        socket: socket.to_owned(),
        source,
    };
    let request = request.map_err(|e| unreachable(std::io::Error::other(e)))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unreachable)?;
    let exchange = async {
        let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let (answer, _) = tokio::join!(
            async {
                let answer = sender.send_request(request).await?;
                let status = answer.status().as_u16();
                let body = answer.into_body().collect().await?.to_bytes();
                drop(sender);
                Ok::<_, hyper::Error>((status, body))
            },
            connection
        );
        Ok(answer?)
    };
    runtime.block_on(async {
        tokio::time::timeout(ANSWER_TIME_MAX, exchange)
            .await
            .unwrap_or_else(|_| {
                Err(ClientError::Silent {
                    socket: socket.to_owned(),
                })
            })
    })
}
