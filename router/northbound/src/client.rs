//! The client side of the service.
//!
//! A [`Client`] keeps a connection to one router. It is for programs that send frequent requests, or requests to
//! several routers at once: controllers and samplers. The functions open a connection for each request and block until
//! the answer arrives: they serve `weir show`, `weir apply`, `weir set`, `weir unset` and `weir capture`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use weir_model::{ApplyReport, ChangeRequest, RouteRequest, RouteVerb};

use crate::stream;

/// A router that does not answer a function of this module within this time counts as dead.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit for changes of routes, and for requests for paths.
const ROUTES_TIME_MAX: Duration = Duration::from_secs(60);
/// A watch whose stream is silent for this time counts as dead.
const LINE_TIME_MAX: Duration = stream::QUIET_MAX.saturating_mul(4);
/// Longest permitted answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Reason why a request to a router failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens on that socket, or access is denied.
    #[error(
        "cannot connect to {}: {source}; is `weir router`, `weir fe` or `weir ce` running with this `socket`?",
        socket.display()
    )]
    Unreachable {
        /// Expected path of the socket.
        socket: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The router did not answer in time.
    #[error("the router on {} did not answer within {} s", socket.display(), time.as_secs())]
    Silent {
        /// Path of the router's socket.
        socket: PathBuf,
        /// The time limit.
        time: Duration,
    },
    /// The connection broke, or the answer was not HTTP.
    #[error("cannot read the router's answer: {0}")]
    Http(#[from] hyper::Error),
    /// The answer was longer than any valid answer.
    #[error("the router's answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20)]
    TooLong,
    /// The answer did not have the expected form.
    #[error("{text} (HTTP {status})")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The beginning of the answer.
        text: String,
    },
    /// The router refused a change; nothing has changed.
    #[error("{}", messages.join("; "))]
    Refused {
        /// The router's reasons.
        messages: Vec<String>,
    },
}

/// A port's queue, with the fields that controllers and samplers need.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Queue {
    /// Name of the port.
    pub port: String,
    /// Packets offered to the queue.
    pub received: Count,
    /// Packets that left the queue for the link.
    pub sent: Count,
    /// Packets in the queue now.
    pub backlog: Count,
    /// Gauges and counters of the port's discipline.
    pub gauges: BTreeMap<String, u64>,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of layer-2 frames, without frame check sequence.
    pub bytes: u64,
}

/// Sends requests to one router over a connection that it keeps.
///
/// The caller may drop a future at any time, for instance at a deadline: this closes the connection, and the next
/// request opens a new connection. If a kept connection turns out to have ended, the client repeats the request on a
/// new connection. So every request must be safe to repeat.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    kept: Option<SendRequest<Body>>,
}

impl Client {
    /// A client for the router on `socket`; the first request opens the connection.
    pub fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            kept: None,
        }
    }

    /// The queues of all ports.
    pub async fn queues(&mut self) -> Result<Vec<Queue>, ClientError> {
        let (status, body) = self.ask(&Question::of(Method::GET, "/v1/queues")).await?;
        serde_json::from_slice(&body).map_err(|_| unexpected(status, &body))
    }

    /// Changes single components, all of them or none.
    pub async fn change(&mut self, changes: &[ChangeRequest]) -> Result<(), ClientError> {
        let question = Question::of(Method::PATCH, "/v1/config").with_json(&changes);
        let (status, body) = self.ask(&question).await?;
        match serde_json::from_slice(&body) {
            Ok(ApplyReport { applied: true, .. }) => Ok(()),
            Ok(ApplyReport { messages, .. }) => Err(ClientError::Refused { messages }),
            Err(_) => Err(unexpected(status, &body)),
        }
    }

    /// Status and body of the answer.
    async fn ask(&mut self, question: &Question<'_>) -> Result<(u16, Bytes), ClientError> {
        if let Some(kept) = self.kept.take()
            && let Ok(answer) = self.exchange(kept, question).await
        {
            return Ok(answer);
        }
        let new = self.connect().await?;
        self.exchange(new, question).await
    }

    async fn connect(&self) -> Result<SendRequest<Body>, ClientError> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|source| not_reached(&self.socket, source))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection); // the task ends with the sender, which reports errors
        Ok(sender)
    }

    async fn exchange(
        &mut self,
        mut sender: SendRequest<Body>,
        question: &Question<'_>,
    ) -> Result<(u16, Bytes), ClientError> {
        let request = question.request(&self.socket)?;
        sender.ready().await?;
        let answer = sender.send_request(request).await?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await.map_err(|e| {
            if e.is::<LengthLimitError>() {
                return ClientError::TooLong;
            }
            match e.downcast::<hyper::Error>() {
                Ok(error) => ClientError::Http(*error),
                Err(error) => not_reached(&self.socket, std::io::Error::other(error)),
            }
        })?;
        self.kept = Some(sender);
        Ok((status, body.to_bytes()))
    }
}

/// A request that can be sent more than once.
struct Question<'a> {
    method: Method,
    path: &'a str,
    body: Bytes,
    is_json: bool,
}

impl<'a> Question<'a> {
    fn of(method: Method, path: &'a str) -> Self {
        Self {
            method,
            path,
            body: Bytes::new(),
            is_json: false,
        }
    }

    fn with_json(self, value: &impl Serialize) -> Self {
        let json = serde_json::to_vec(value).unwrap_or_default(); // a plain value is always JSON
        Self {
            body: json.into(),
            is_json: true,
            ..self
        }
    }

    fn request(&self, socket: &Path) -> Result<Request<Body>, ClientError> {
        let mut request = Request::builder()
            .method(&self.method)
            .uri(self.path)
            .header("host", "weir");
        if self.is_json {
            request = request.header("content-type", "application/json");
        }
        request
            .body(Body::from(self.body.clone()))
            .map_err(|e| not_reached(socket, std::io::Error::other(e)))
    }
}

/// Sends `GET path` to the router on `socket`.
pub fn get<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    ask(socket, &Question::of(Method::GET, path))
}

/// The running configuration of the router on `socket`: values by paths of components. `prefix` selects a forwarding
/// element of a control element.
pub fn configuration(socket: &Path, prefix: &str) -> Result<BTreeMap<String, String>, ClientError> {
    get(socket, &format!("{prefix}/v1/config"))
}

/// Sends `PUT path` with a text to the router on `socket`.
pub fn put<T: DeserializeOwned>(socket: &Path, path: &str, text: String) -> Result<T, ClientError> {
    let question = Question {
        body: text.into(),
        ..Question::of(Method::PUT, path)
    };
    ask(socket, &question)
}

/// Sends `POST path` with a value as JSON to the router on `socket`.
pub fn post<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    ask(socket, &Question::of(Method::POST, path).with_json(value))
}

/// Like [`post`], but with a longer time limit, because the answer waits for other elements.
pub fn post_slow<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    let question = Question::of(Method::POST, path).with_json(value);
    let (status, body) = ask_within(ROUTES_TIME_MAX, socket, &question)?;
    serde_json::from_slice(&body).map_err(|_| unexpected(status, &body))
}

/// Sends `PATCH path` with a value as JSON to the router on `socket`.
pub fn patch<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    ask(socket, &Question::of(Method::PATCH, path).with_json(value))
}

/// Changes routes of FEs, with a long time limit, because a request may contain a hundred thousand routes.
pub fn routes(
    socket: &Path,
    verb: RouteVerb,
    requests: &[RouteRequest],
) -> Result<ApplyReport, ClientError> {
    let method = match verb {
        RouteVerb::Add => Method::POST,
        RouteVerb::Replace => Method::PUT,
        RouteVerb::Delete => Method::DELETE,
    };
    let question = Question::of(method, "/v1/service/route").with_json(&requests);
    let (status, body) = ask_within(ROUTES_TIME_MAX, socket, &question)?;
    serde_json::from_slice(&body).map_err(|_| unexpected(status, &body))
}

/// Sends `DELETE path` to the router on `socket`.
pub fn delete<T: DeserializeOwned>(socket: &Path, path: &str) -> Result<T, ClientError> {
    ask(socket, &Question::of(Method::DELETE, path))
}

/// Sends `DELETE path`, with a value as JSON that names the targets, to the router on `socket`.
pub fn delete_named<T: DeserializeOwned>(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
) -> Result<T, ClientError> {
    ask(socket, &Question::of(Method::DELETE, path).with_json(value))
}

/// Sends `GET path` to the router on `socket` and returns bytes; `None` if no content is left.
pub fn get_bytes(socket: &Path, path: &str) -> Result<Option<Bytes>, ClientError> {
    match ask_once(socket, &Question::of(Method::GET, path))? {
        (200, body) => Ok(Some(body)),
        (204, _) => Ok(None),
        (status, body) => Err(unexpected(status, &body)),
    }
}

/// Sends `POST path` with a value as JSON, and passes each nonempty line of the answer to `take`, until `take` returns
/// false or the answer ends.
pub fn post_lines(
    socket: &Path,
    path: &str,
    value: &impl Serialize,
    take: impl FnMut(&[u8]) -> bool,
) -> Result<(), ClientError> {
    let question = Question::of(Method::POST, path).with_json(value);
    lines(socket, &question, take)
}

/// Sends `GET path`, and handles the answer like [`post_lines`].
pub fn get_lines(
    socket: &Path,
    path: &str,
    take: impl FnMut(&[u8]) -> bool,
) -> Result<(), ClientError> {
    lines(socket, &Question::of(Method::GET, path), take)
}

fn lines(
    socket: &Path,
    question: &Question<'_>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), ClientError> {
    run(socket, async {
        let opened = async {
            let mut sender = Client::new(socket).connect().await?;
            Ok::<_, ClientError>(sender.send_request(question.request(socket)?).await?)
        };
        let answer = tokio::time::timeout(ANSWER_TIME_MAX, opened).await;
        let answer = answer.map_err(|_| silent(socket, ANSWER_TIME_MAX))??;
        let status = answer.status().as_u16();
        let (mut body, mut waiting) = (answer.into_body(), Vec::new());
        loop {
            let frame = tokio::time::timeout(LINE_TIME_MAX, body.frame()).await;
            let Some(frame) = frame.map_err(|_| silent(socket, LINE_TIME_MAX))? else {
                break;
            };
            waiting.extend(frame?.into_data().unwrap_or_default());
            if waiting.len() > ANSWER_BYTES_MAX {
                return Err(ClientError::TooLong);
            }
            while status == 200
                && let Some(end) = waiting.iter().position(|byte| *byte == b'\n')
            {
                let line: Vec<u8> = waiting.drain(..=end).collect();
                if end > 0 && !take(&line[..end]) {
                    return Ok(());
                }
            }
        }
        match status {
            200 => Ok(()),
            status => Err(unexpected(status, &waiting)),
        }
    })
}

fn ask<T: DeserializeOwned>(socket: &Path, question: &Question<'_>) -> Result<T, ClientError> {
    let (status, body) = ask_once(socket, question)?;
    serde_json::from_slice(&body).map_err(|_| unexpected(status, &body))
}

/// Sends a request on its own connection and waits for the answer.
fn ask_once(socket: &Path, question: &Question<'_>) -> Result<(u16, Bytes), ClientError> {
    ask_within(ANSWER_TIME_MAX, socket, question)
}

fn ask_within(
    time: Duration,
    socket: &Path,
    question: &Question<'_>,
) -> Result<(u16, Bytes), ClientError> {
    run(socket, async {
        let mut client = Client::new(socket);
        let answer = tokio::time::timeout(time, client.ask(question)).await;
        answer.unwrap_or_else(|_| Err(silent(socket, time)))
    })
}

/// Runs a request on its own runtime.
fn run<T>(
    socket: &Path,
    request: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| not_reached(socket, source))?;
    runtime.block_on(request)
}

fn silent(socket: &Path, time: Duration) -> ClientError {
    ClientError::Silent {
        socket: socket.to_owned(),
        time,
    }
}

fn not_reached(socket: &Path, source: std::io::Error) -> ClientError {
    ClientError::Unreachable {
        socket: socket.to_owned(),
        source,
    }
}

fn unexpected(status: u16, body: &[u8]) -> ClientError {
    ClientError::Unexpected {
        status,
        text: String::from_utf8_lossy(body).chars().take(200).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixListener;
    use std::thread::{self, JoinHandle};

    use weir_model::ChangeValue;

    use super::*;

    /// A socket path that is removed when dropped.
    struct Socket(PathBuf);

    impl Socket {
        fn new(name: &str) -> Self {
            let name = format!("weir-client-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Serves one connection after another with these answers, each a status and a body. An empty body closes the
    /// connection after the request.
    fn serve(socket: &Socket, connections: &'static [&'static [(u16, &str)]]) -> JoinHandle<()> {
        let listener = UnixListener::bind(&socket.0).unwrap();
        thread::spawn(move || {
            for answers in connections {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                for (status, body) in *answers {
                    let mut line = String::new();
                    let mut length = 0;
                    while line != "\r\n" {
                        line.clear();
                        stream.read_line(&mut line).unwrap();
                        if let Some(n) = line.strip_prefix("content-length: ") {
                            length = n.trim().parse().unwrap();
                        }
                    }
                    stream.read_exact(&mut vec![0; length]).unwrap();
                    if !body.is_empty() {
                        let head = format!(
                            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n",
                            body.len()
                        );
                        stream
                            .get_mut()
                            .write_all((head + body).as_bytes())
                            .unwrap();
                    }
                }
            }
        })
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(work)
    }

    const QUEUES: &str = r#"[{"port": "wan", "discipline": "refill", "received": {"packets": 3, "bytes": 300},
        "sent": {"packets": 2, "bytes": 200}, "backlog": {"packets": 1, "bytes": 100}, "gauges": {"held": 1}}]"#;

    #[test]
    fn a_connection_is_kept_and_made_again() {
        let socket = Socket::new("kept");
        // The second connection closes before its second answer.
        let server = serve(
            &socket,
            &[
                &[(200, QUEUES), (200, "[]")],
                &[(200, "[]"), (200, "")],
                &[(200, QUEUES)],
            ],
        );
        let lengths = run(async {
            let mut client = Client::new(&socket.0);
            let mut lengths = Vec::new();
            for _ in 0..4 {
                lengths.push(client.queues().await.unwrap().len());
            }
            lengths
        });
        assert_eq!(lengths, [1, 0, 0, 1]);
        server.join().unwrap();
    }

    #[test]
    fn a_refusal_has_the_router_s_reason() {
        let socket = Socket::new("refused");
        let server = serve(
            &socket,
            &[&[
                (200, r#"{"applied": true, "messages": []}"#),
                (
                    422,
                    r#"{"applied": false, "messages": ["port.wan: no", "port.lan: no"]}"#,
                ),
                (503, "the forwarding thread does not answer"),
            ]],
        );
        let change = ChangeRequest {
            path: "port.wan.rate".to_owned(),
            value: ChangeValue::Text("1 Mbit".to_owned()),
        };
        run(async {
            let mut client = Client::new(&socket.0);
            assert!(client.change(std::slice::from_ref(&change)).await.is_ok());
            for said in [
                "port.wan: no; port.lan: no",
                "the forwarding thread does not answer (HTTP 503)",
            ] {
                let error = client
                    .change(std::slice::from_ref(&change))
                    .await
                    .unwrap_err();
                assert_eq!(error.to_string(), said);
            }
        });
        server.join().unwrap();
    }

    #[test]
    fn who_gives_up_has_a_new_connection() {
        let socket = Socket::new("silent");
        let listener = UnixListener::bind(&socket.0).unwrap();
        let waiting = run(async {
            let mut client = Client::new(&socket.0);
            for _ in 0..2 {
                let answer = tokio::time::timeout(Duration::from_millis(20), client.queues());
                assert!(answer.await.is_err());
            }
            listener.set_nonblocking(true).unwrap();
            std::iter::from_fn(|| listener.accept().ok()).count()
        });
        assert_eq!(waiting, 2);
    }

    #[test]
    fn where_nobody_listens_nobody_is_reached() {
        let socket = Socket::new("none");
        let error = run(async { Client::new(&socket.0).queues().await }).unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        let error = get::<Vec<Queue>>(&socket.0, "/v1/queues").unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    }
}
