//! Streaming answers: the notices of a watch or an observer, or the samples of a router, one line of JSON each, as they
//! arrive, until the reader closes the connection or no more will follow.
//!
//! ```text
//!  control element, router: its latest notices --fetch--> task --one piece--> connection --> reader
//! ```
//!
//! A slow reader delays its own task only. Meanwhile the latest notices are kept for it and lost notices are counted:
//! the next line is `{"lost": 3}`. A reader that does not read for a minute loses its watch, or its observer. An empty
//! line serves as a heartbeat if there is nothing else to send; it also detects readers that have disconnected.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use weir_model::Value;
use weir_model::observe::ObserveReport;
use weir_model::watch::WatchReport;

use crate::refusal::Refusal;

/// The media type: lines, each a value as JSON.
const MEDIA_TYPE: &str = "application/x-ndjson";
/// Time between two attempts to fetch.
const NOTICE_STEP: Duration = Duration::from_millis(50);
/// Longest time without a line; then an empty line follows.
pub(crate) const QUIET_MAX: Duration = Duration::from_secs(5);

/// A reader that takes no sample for this time counts as disconnected.
const UNREAD_TIME_MAX: Duration = Duration::from_secs(10);

/// A sample as a line of JSON, the same bytes for all readers; empty before the first sample.
#[derive(Clone, Debug, Default)]
pub struct LiveLine(Bytes);

/// The latest sample.
pub type Live = watch::Receiver<LiveLine>;

impl LiveLine {
    /// Makes a line from tables by their names.
    pub fn new(tables: BTreeMap<&str, Value>) -> Self {
        let line = serde_json::to_string(&tables).unwrap_or_default() + "\n"; // plain values
        Self(line.into())
    }
}

/// An answer that ends with its connection.
struct Lines {
    pieces: mpsc::Receiver<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Notices since the last call.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The notices as JSON.
    lines: Vec<String>,
    /// Number of notices that were lost before these.
    lost: u64,
    /// Whether no more notices will follow.
    done: bool,
}

impl From<WatchReport> for Notices {
    fn from(report: WatchReport) -> Self {
        Self {
            lines: report.notices.iter().map(json).collect(),
            lost: report.lost,
            done: false,
        }
    }
}

impl From<ObserveReport> for Notices {
    fn from(report: ObserveReport) -> Self {
        Self {
            lines: report.events.iter().map(json).collect(),
            lost: report.lost,
            done: report.done,
        }
    }
}

/// A plain value as JSON, which cannot fail.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A function that fetches the notices since the last call. It may block.
pub(crate) type Fetch = Arc<dyn Fn() -> Result<Notices, Refusal> + Send + Sync>;

/// The answer with these notices. Calls `end` after the stream ends or the reader disconnects; `end` may block.
pub(crate) fn answer(
    fetch: Fetch,
    end: impl FnOnce() + Send + 'static,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        follow(fetch, sender).await;
        tokio::task::spawn_blocking(end);
    });
    lines(pieces, permit)
}

/// An answer of these lines.
fn lines(pieces: mpsc::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> Response {
    let body = Body::new(Lines {
        pieces,
        _permit: permit,
    });
    let headers = [(CONTENT_TYPE, MEDIA_TYPE), (CONNECTION, "close")];
    (headers, body).into_response()
}

/// The answer with each sample as a line. A slow reader misses some samples, and gets the latest. A reader that does
/// not read for [`UNREAD_TIME_MAX`] loses its connection, so that another reader can have its slot.
pub(crate) fn of_samples(mut samples: Live, permit: OwnedSemaphorePermit) -> Response {
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(async move {
        samples.mark_changed(); // send the latest sample at once
        loop {
            let line = match tokio::time::timeout(QUIET_MAX, samples.changed()).await {
                Ok(Ok(())) => samples.borrow_and_update().0.clone(),
                Ok(Err(_)) => break, // the router ends
                Err(_) => Bytes::from_static(b"\n"),
            };
            let sent = sender.send_timeout(line, UNREAD_TIME_MAX).await;
            if sent.is_err() {
                break;
            }
        }
    });
    lines(pieces, permit)
}

async fn follow(fetch: Fetch, pieces: mpsc::Sender<Bytes>) {
    let mut latest = Instant::now();
    while !pieces.is_closed() {
        let fetch = Arc::clone(&fetch);
        let fetched = tokio::task::spawn_blocking(move || fetch()).await;
        let Ok(fetched) = fetched else {
            break; // the program ends
        };
        let is_over = fetched.as_ref().map_or(true, |notices| notices.done);
        let mut text = text(fetched);
        if text.is_empty() && is_over {
            break;
        }
        if text.is_empty() && latest.elapsed() < QUIET_MAX {
            tokio::select! {
                () = pieces.closed() => {}
                () = tokio::time::sleep(NOTICE_STEP) => {}
            }
            continue;
        }
        if text.is_empty() {
            text.push('\n');
        }
        if pieces.send(text.into()).await.is_err() || is_over {
            break;
        }
        latest = Instant::now();
    }
}

/// The lines of a report: first the number of lost notices, then the remaining notices.
fn text(fetched: Result<Notices, Refusal>) -> String {
    let member =
        |name: &'static str, value: Value| json(&Value::Struct(vec![(name.into(), value)]));
    let (lost, lines) = match fetched {
        Ok(Notices { lost: 0, lines, .. }) => (None, lines),
        Ok(Notices { lost, lines, .. }) => (Some(member("lost", lost.into())), lines),
        Err(
            Refusal::Wrong(why)
            | Refusal::Impossible(why)
            | Refusal::NotFound(why)
            | Refusal::Silent(why),
        ) => (None, vec![member("error", why.into())]),
    };
    lost.into_iter()
        .chain(lines)
        .map(|line| line + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_learns_first_what_it_has_lost() {
        let notice = |n: u64| Value::Struct(vec![("n".into(), n.into())]);
        let report = |lost| {
            let notices = vec![notice(1), notice(2)];
            Notices::from(WatchReport { notices, lost })
        };
        assert_eq!(text(Ok(report(0))), "{\"n\":1}\n{\"n\":2}\n");
        assert_eq!(text(Ok(report(3))), "{\"lost\":3}\n{\"n\":1}\n{\"n\":2}\n");
        assert_eq!(text(Ok(Notices::default())), "");
        let gone = Err(Refusal::NotFound("gone".to_owned()));
        assert_eq!(text(gone), "{\"error\":\"gone\"}\n");
    }
}
