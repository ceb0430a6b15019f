//! HTTP requests to the members of etcd: one connection for each, at the member that has answered last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use weir_ce::configuration::Endpoint;
use weir_ce::election::{Answer, Failure, Request as Question};

use super::gateway;

/// Time for opening a connection.
const CONNECT_MAX: Duration = Duration::from_millis(500);
/// Longest answer, and longest message of a watch.
const ANSWER_BYTES_MAX: usize = 256 << 20;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

#[derive(Debug)]
pub(super) struct Client {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
    /// Index of the endpoint in use.
    at: AtomicUsize,
}

impl Client {
    pub(super) const fn new(endpoints: Vec<Endpoint>, tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            endpoints,
            tls,
            at: AtomicUsize::new(0),
        }
    }

    /// Sends a request once. After a failure the next request goes to another member.
    pub(super) async fn ask(&self, question: &Question, time: Duration) -> Result<Answer, Failure> {
        let (path, body) = gateway::request(question);
        let at = self.at.load(Ordering::Relaxed);
        let exchange = async {
            let answer = self.post(at, path, &body).await?;
            let status = answer.status().as_u16();
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
                .collect()
                .await;
            let body = body.map_err(|e| e.to_string())?.to_bytes();
            Ok::<_, String>((
                status,
                serde_json::from_slice::<Value>(&body).unwrap_or_default(),
            ))
        };
        let answer = match tokio::time::timeout(time, exchange).await {
            Ok(Ok((200, body))) => {
                gateway::answer(&body).ok_or_else(|| Failure::Lost("unexpected answer".to_owned()))
            }
            Ok(Ok((status, body))) => Err(gateway::failure(status, &body)),
            Ok(Err(why)) => Err(Failure::Lost(why)),
            Err(_) => Err(Failure::Lost(format!(
                "no answer within {} ms",
                time.as_millis()
            ))),
        };
        answer.map_err(|failure| match failure {
            Failure::Lost(why) => {
                self.leave(at);
                Failure::Lost(format!("{}: {why}", self.endpoints[at]))
            }
            refused @ Failure::Refused(_) => refused,
        })
    }

    /// Watches all keys of a prefix, and passes each message on, until the watch ends; then it returns the reason.
    pub(super) async fn watch(
        &self,
        prefix: &str,
        from: u64,
        time: Duration,
        mut each: impl FnMut(&Value) -> Result<(), String>,
    ) -> String {
        let at = self.at.load(Ordering::Relaxed);
        let body = gateway::watch(prefix, from);
        let watch = async {
            let begun = tokio::time::timeout(time, self.post(at, "/v3/watch", &body)).await;
            let mut answer = begun.map_err(|_| "no answer".to_owned())??.into_body();
            let mut lines = Vec::new();
            while let Some(frame) = answer.frame().await {
                let frame = frame.map_err(|e| e.to_string())?;
                lines.extend_from_slice(&frame.into_data().unwrap_or_default());
                while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                    let message =
                        serde_json::from_slice(&lines[..end]).map_err(|e| e.to_string())?;
                    each(&message)?;
                    lines.drain(..=end);
                }
                if lines.len() > ANSWER_BYTES_MAX {
                    return Err("its message is too long".to_owned());
                }
            }
            Err::<(), String>("the connection has ended".to_owned())
        };
        let why = watch.await.err().unwrap_or_default();
        self.leave(at);
        format!("{}: {why}", self.endpoints[at])
    }

    /// Turns to the next member.
    fn leave(&self, at: usize) {
        let next = (at + 1) % self.endpoints.len();
        let relaxed = Ordering::Relaxed;
        let _ = self.at.compare_exchange(at, next, relaxed, relaxed); // another request may have moved on
    }

    async fn post(
        &self,
        at: usize,
        path: &str,
        body: &Value,
    ) -> Result<Response<Incoming>, String> {
        let endpoint = &self.endpoints[at];
        let stream = tokio::time::timeout(CONNECT_MAX, self.connect(endpoint)).await;
        let stream = stream
            .map_err(|_| "cannot connect in time".to_owned())?
            .map_err(|e| e.to_string())?;
        let (mut sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|e| e.to_string())?;
        tokio::spawn(connection); // ends with the answer, or with the request's future
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", endpoint.authority())
            .header("content-type", "application/json")
            // A member without a leader of etcd ends the watch, and so does not hide that it is cut off.
            .header("grpc-metadata-hasleader", "true")
            .body(Full::new(Bytes::from(body.to_string())));
        let answer = sender
            .send_request(request.map_err(|e| e.to_string())?)
            .await;
        answer.map_err(|e| e.to_string())
    }

    async fn connect(&self, endpoint: &Endpoint) -> std::io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((&*endpoint.host, endpoint.port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls.as_ref().filter(|_| endpoint.is_tls) else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from(endpoint.host.clone()).map_err(std::io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(tls))
            .connect(name, stream)
            .await?;
        Ok(Box::new(stream))
    }
}
