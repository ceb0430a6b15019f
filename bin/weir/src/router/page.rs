//! Samples as lines, and the page on loopback.
//!
//! All data comes from samples ([`Reader::sampled`]), so a browser costs the forwarding thread nothing. If the page
//! cannot listen, it tries again: it must never stop a router.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use weir_lfb::class::sampled::Sampled;
use weir_lfb::class::{BLOCKS, Block};
use weir_live::router::Running;
use weir_live::router::reader::Reader;
use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::{ApplyReport, ChangeRequest, Class, DeleteRequest, Value};
use weir_northbound::{Live, LiveLine, Operator, Page, Peer, Refusal, Token};

use super::listening::Listening;
use super::operator::query_of;

/// The tables of a line, each with its query.
const TABLES: [(&str, &[(&str, &str)]); 8] = [
    ("status", &[]),
    ("ports", &[]),
    ("queues", &[]),
    ("drops", &[]),
    ("waiting", &[("limit", "20")]),
    ("talkers", &[]),
    ("history", &[("records", "1")]),
    ("drop_history", &[("records", "1")]),
];

/// Writes a line for each sample, until the router ends.
pub(super) async fn make_lines(reader: Arc<Reader>, lines: watch::Sender<LiveLine>) -> String {
    let mut samples = reader.samples();
    while samples.changed().await.is_ok() {
        lines.send_replace(line(&reader));
    }
    "sampling has stopped".to_owned()
}

fn line(reader: &Reader) -> LiveLine {
    let table = |(name, query): (&'static str, &[(&str, &str)])| {
        let block = Block::find(name)?;
        let query = block.query(query.iter().copied()).ok()?;
        Some((name, reader.sampled(block, &query)?))
    };
    LiveLine::new(TABLES.into_iter().filter_map(table).collect())
}

/// Serves the page at the address in the running configuration, until the router ends.
pub(super) async fn serve(
    running: Arc<Running>,
    viewer: Viewer,
    listening: Arc<Listening>,
) -> String {
    let viewer: Arc<dyn Operator> = Arc::new(viewer);
    let wanted = || running.in_force().plan.router.page;
    let socket = PathBuf::from(&running.in_force().plan.router.socket);
    let mut refused = None;
    let mut token = None; // the token stays the same if the address changes
    loop {
        let Some(address) = wanted() else {
            listening.attempted(None, None);
            listening.pause().await;
            continue;
        };
        let made = match token.take() {
            Some(made) => Ok(made),
            None => Token::beside(&socket),
        };
        let opened = match made {
            Ok((secret, file)) => {
                token = Some((secret.clone(), file.clone()));
                Page::bind(address, secret).await.map(|page| (page, file))
            }
            Err(error) => Err(error),
        };
        let (page, file) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                listening.attempted(Some(address), Some(error.to_string()));
                if refused.replace(address) != Some(address) {
                    tracing::warn!(%address, %error, "the page cannot listen there; retrying; the router forwards");
                }
                listening.pause().await;
                continue;
            }
        };
        refused = None;
        listening.attempted(Some(address), None);
        tracing::info!(token = %file.display(), "page: http://{address}/");
        tokio::select! {
            ended = page.serve_router(Arc::clone(&viewer)) => {
                if let Err(error) = ended {
                    tracing::warn!(%address, %error, "the page failed; restarting it");
                }
            }
            () = until_other(address, wanted, &listening) => {}
        }
    }
}

/// Waits until the configuration has another address.
async fn until_other(
    address: SocketAddr,
    wanted: impl Fn() -> Option<SocketAddr>,
    listening: &Listening,
) {
    while wanted() == Some(address) {
        listening.pause().await;
    }
}

/// The router for its page: samples only, no changes.
pub(super) struct Viewer {
    pub(super) running: Arc<Running>,
    pub(super) reader: Arc<Reader>,
    pub(super) live: Live,
}

/// The reason why a change is refused, although the page's own check should have refused it before.
const READ_ONLY: &str = "the page is read-only; use the Unix socket";

fn read_only() -> ApplyReport {
    ApplyReport {
        applied: false,
        messages: vec![READ_ONLY.to_owned()],
    }
}

impl Operator for Viewer {
    fn classes(&self) -> Vec<&'static Class> {
        let blocks = BLOCKS.iter().filter(|block| Sampled::has(block));
        blocks.map(|block| &block.class).collect()
    }

    fn read(
        &self,
        class: &'static Class,
        query: BTreeMap<String, String>,
    ) -> Result<Value, Refusal> {
        let (block, query) = query_of(class, &query)?;
        let table = self.reader.sampled(block, &query);
        table.ok_or_else(|| Refusal::Silent("there is no sample yet; retry".to_owned()))
    }

    fn config(&self) -> Result<BTreeMap<String, String>, Refusal> {
        Ok(self.running.in_force().plan.shown())
    }

    fn apply(&self, _: &str, _: Peer) -> ApplyReport {
        read_only()
    }

    fn change(&self, _: Vec<ChangeRequest>, _: Peer) -> ApplyReport {
        read_only()
    }

    fn delete(&self, _: Vec<DeleteRequest>, _: Peer) -> ApplyReport {
        read_only()
    }

    fn capture(&self, _: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal> {
        Err(CaptureRefusal::Wrong(READ_ONLY.to_owned()))
    }

    fn captured(&self, _: u64) -> Result<Option<Vec<u8>>, CaptureRefusal> {
        Err(CaptureRefusal::Gone)
    }

    fn end_capture(&self, _: u64) -> Result<CaptureReport, CaptureRefusal> {
        Err(CaptureRefusal::Gone)
    }

    fn live(&self) -> Option<Live> {
        Some(self.live.clone())
    }
}
