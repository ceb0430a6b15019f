//! Takes any bytes as the data that a client sends to the service of a router: HTTP, paths, queries, JSON,
//! configurations.
//!
//! Checks besides "no panic": no request makes the service fail (500).

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Runtime;
use weir_base::{Instant, Streams};
use weir_config::Document;
use weir_discipline::Spec;
use weir_lfb::Plan;
use weir_lfb::class::sampled::Sampled;
use weir_lfb::class::status::Process;
use weir_lfb::class::{self, Block, ControlSent, Source};
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::{ApplyReport, Change, ChangeRequest, Class, DeleteRequest, Operation, Value};
use weir_northbound::{Operator, Peer, Refusal, answer_stream};
use weir_path::egress::port::Link;
use weir_path::ip::tables::Tables;
use weir_path::plane::{Mode, Plane};

/// The status of a request that made a handler panic.
const FAILED: &[u8] = b"HTTP/1.1 500";

/// Runs the service; requests wait for its threads.
static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.max_blocking_threads(2).enable_all().build().ok()
});

static ROUTER: LazyLock<Arc<dyn Operator>> = LazyLock::new(|| Arc::new(Idle::new()));

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let Some(runtime) = &*RUNTIME else {
        unreachable!("threads can be started")
    };
    let answers = Arc::new(Mutex::new(Vec::new()));
    let stream = Conversation {
        sent: bytes.to_vec(),
        at: 0,
        answers: Arc::clone(&answers),
    };
    runtime.block_on(answer_stream(stream, Arc::clone(&ROUTER)));
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(
        !answers.windows(FAILED.len()).any(|part| part == FAILED),
        "a handler failed"
    );
}

/// A client that has sent everything, and collects the responses.
struct Conversation {
    sent: Vec<u8>,
    at: usize,
    answers: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Conversation {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.sent[self.at..];
        let taken = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..taken]);
        self.at += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Conversation {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A router with one port that receives no packets. It checks requested changes, but applies none.
struct Idle {
    plane: Mutex<Plane>,
    plan: Plan,
}

impl Idle {
    fn new() -> Self {
        let mut plane = Plane::new(64, 1518, Streams::new(1));
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1514,
        };
        let Ok(spec) = Spec::check("fifo", []) else {
            unreachable!("every parameter has a default")
        };
        plane.add_port("wan", "eth0", Mode::Routed, spec, link, Instant::ZERO);
        let text = "[port.wan]\ninterface = \"eth0\"\n";
        let plan = Document::parse("base", text).map(|read| Plan::check(read.changes()));
        let Ok(Ok(plan)) = plan else {
            unreachable!("it is a configuration")
        };
        Self {
            plane: Mutex::new(plane),
            plan,
        }
    }

    fn report(&self, operations: Result<Vec<Operation>, String>) -> ApplyReport {
        let after = operations.map(|operations| self.plan.after(&operations));
        let (applied, messages) = match after {
            Ok(Ok(_)) => (true, Vec::new()),
            Ok(Err(faults)) => (false, faults.iter().map(ToString::to_string).collect()),
            Err(why) => (false, vec![why]),
        };
        ApplyReport { applied, messages }
    }
}

impl Operator for Idle {
    fn classes(&self) -> Vec<&'static Class> {
        class::classes()
    }

    fn read(
        &self,
        class: &'static Class,
        query: BTreeMap<String, String>,
    ) -> Result<Value, Refusal> {
        let Some(block) = Block::find(class.name) else {
            unreachable!("{} is not one of `classes`", class.name)
        };
        let query = query.iter().map(|(name, text)| (&name[..], &text[..]));
        let query = block
            .query(query)
            .map_err(|error| Refusal::Wrong(error.to_string()))?;
        let plane = self.plane.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::ZERO;
        Ok(match block.source {
            Source::Plane(read) => read(&plane),
            Source::Redirect(read) => read(&plane, now, ControlSent::default()),
            Source::Flows(collect, write) => write(collect(&plane, now, &query)),
            Source::Ports(read) => read(&plane, &[class::ports::Device::default()]),
            Source::Tables(read) => read(&Tables::default()),
            Source::Rates(read) => read(&[]),
            Source::Kernel(read) => read(&[]),
            Source::Netfilter(read) => read(&[]),
            Source::CeRoutes(read) => read(&Default::default()),
            Source::Sampled(read) => read(&Sampled::default(), &query),
            Source::Status(read) => read(&Process {
                version: "0",
                hostname: String::new(),
                unix_s: 0.0,
                pid: 1,
                restarts: 0,
                uptime: weir_base::Span::ZERO,
                pool_packets: plane.pool_packets(),
                frame_bytes_max: plane.frame_bytes_max(),
                router: self.plan.router.clone(),
                ports: 1,
                bypassed: 0,
                bypassed_new: 0,
                handed_back: Vec::new(),
                certificate_left_s: None,
                stopped: None,
                created: plane.created(),
                processor_wait_s: 0.0,
            }),
        })
    }

    fn config(&self) -> Result<BTreeMap<String, String>, Refusal> {
        Ok(self.plan.shown())
    }

    fn apply(&self, text: &str, _: Peer) -> ApplyReport {
        let checked =
            Document::parse("configuration", text).map(|read| Plan::check(read.changes()));
        ApplyReport {
            applied: matches!(checked, Ok(Ok(_))),
            messages: Vec::new(),
        }
    }

    fn change(&self, requests: Vec<ChangeRequest>, _: Peer) -> ApplyReport {
        let read = |request: ChangeRequest| {
            let path = request.path.parse()?;
            Ok(Operation::Set(Change::new(path, request.value.into())))
        };
        self.report(requests.into_iter().map(read).collect())
    }

    fn delete(&self, requests: Vec<DeleteRequest>, _: Peer) -> ApplyReport {
        let read = |request: &DeleteRequest| request.path.parse().map(Operation::Delete);
        self.report(requests.iter().map(read).collect())
    }

    fn capture(&self, _: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal> {
        Err(CaptureRefusal::Busy)
    }

    fn captured(&self, _: u64) -> Result<Option<Vec<u8>>, CaptureRefusal> {
        Err(CaptureRefusal::Gone)
    }

    fn end_capture(&self, _: u64) -> Result<CaptureReport, CaptureRefusal> {
        Err(CaptureRefusal::Gone)
    }
}

/// Requests of every kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: weir\r\n\r\n");
    let with = |method: &str, path: &str, kind: &str, body: &str| {
        let len = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: weir\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\r\n{body}"
        )
    };
    let json = "application/json";
    let paths = class::classes().into_iter().flat_map(|class| {
        [
            format!("/v1/{}", class.name),
            format!("/v1/{}/wan", class.name),
            format!("/v1/{}/0/port", class.name),
        ]
    });
    let mut all: Vec<String> = paths.map(|path| get(&path)).collect();
    all.extend(
        [
            "/v1/flows?port=wan&limit=5",
            "/v1/config",
            "/metrics",
            "/v1/capture/7",
        ]
        .map(get),
    );
    all.extend([
        with("PUT", "/v1/config", "text/plain", "[port.wan]\ninterface = \"eth0\"\nrate = \"9 Mbit\"\n"),
        with("PATCH", "/v1/config", json, r#"[{"path": "port.wan.rate", "value": "9 Mbit"}]"#),
        with("PATCH", "/v1/config", json, r#"[{"path": "port.wan.discipline.limit", "value": 100}]"#),
        with("DELETE", "/v1/config", json, r#"[{"path": "port.wan.discipline"}, {"path": "port.wan"}]"#),
        with("POST", "/v1/capture", json, r#"{"ports": ["wan"], "drops": true, "snap": 96, "seconds": 0.5}"#),
        "POST /v1/capture HTTP/1.1\r\nHost: weir\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_owned(),
    ]);
    all.into_iter().map(String::into_bytes).collect()
}
