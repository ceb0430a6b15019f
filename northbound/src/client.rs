//! The other side of the service: what `weir show` and `weir apply` use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::rt::TokioIo;
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

fn ask<T: DeserializeOwned>(
    socket: &Path,
    request: Result<Request<Body>, axum::http::Error>,
) -> Result<T, ClientError> {
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
        let (status, body) = answer?;
        serde_json::from_slice(&body).map_err(|_| ClientError::Unexpected {
            status,
            text: String::from_utf8_lossy(&body).chars().take(200).collect(),
        })
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
