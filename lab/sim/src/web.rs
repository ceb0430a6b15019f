//! Web clients: closed loops with a new connection for each fetch.
//!
//! Every fetch is recorded. Fetches that are unfinished at the end of the run count with their age: a mean over the
//! finished ones alone would favour a router that starves the others.

use std::sync::Arc;

use weir_base::{Distribution, Instant, Sizes, Span, Stream, Times};

use crate::flow_spec::FlowSpec;
use crate::id::NodeId;
use crate::route::Route;
use crate::tcp::Options;

/// Bytes of a request.
pub(crate) const REQUEST_BYTES: u32 = 100;
/// Pause after a failed connection, the same as in the lab's clients.
pub(crate) const RETRY: Span = Span::from_millis(100);

/// A web traffic between two hosts.
#[derive(Clone, Debug)]
pub struct Web {
    /// The host with the files.
    pub server: NodeId,
    /// The client's host.
    pub client: NodeId,
    /// Port of the server.
    pub port: u16,
    /// Whether the traffic uses IPv6.
    pub ipv6: bool,
    /// Options of both ends.
    pub options: Options,
    /// Sizes of the files.
    pub sizes: Sizes,
    /// Pause between two fetches.
    pub think: Times,
    /// Time of the first fetch.
    pub start: Instant,
    /// No fetch starts later.
    pub stop: Instant,
    /// The traffic whose meter counts the fetches.
    pub traffic: u32,
    /// The numbers of the chunks that are fetched in place of files; each has the size of a file.
    pub chunks: Option<Arc<Distribution>>,
}

impl Web {
    /// The flow of a connection that is opened at `start`.
    pub(crate) fn flow_spec(&self, start: Instant) -> FlowSpec {
        FlowSpec {
            from: self.client,
            to: self.server,
            port: self.port,
            ipv6: self.ipv6,
            source: None,
            start,
            stop: Instant::FAR_FUTURE,
            traffic: self.traffic,
            name: String::new(),
        }
    }
}

/// One fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetch {
    /// The traffic of the fetch.
    pub traffic: u32,
    /// The number of the client.
    pub client: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time at which the client requested the connection.
    pub start: Instant,
    /// Time at which the connection was established.
    pub connected: Option<Instant>,
    /// Time at which the file had arrived or the client gave up; `None` if neither has happened.
    pub end: Option<Instant>,
    /// Whether the connection failed.
    pub failed: bool,
}

/// A client and its loop.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) web: Web,
    pub(crate) number: u32,
    pub(crate) stream: Stream,
    pub(crate) current: Option<Fetch>,
    /// The route of its interests, if the client fetches chunks.
    pub(crate) route: Option<Route>,
    /// The name of the chunk that the client requested last.
    pub(crate) asked: u64,
}

impl Client {
    /// Chooses the next file.
    pub(crate) fn choose(&mut self, now: Instant) -> Fetch {
        let fetch = Fetch {
            traffic: self.web.traffic,
            client: self.number,
            bytes: self.web.sizes.sample(&mut self.stream),
            start: now,
            connected: None,
            end: None,
            failed: false,
        };
        self.current = Some(fetch);
        fetch
    }

    /// Time at which the next fetch starts, after one that ended now.
    pub(crate) fn next_start(&mut self, now: Instant) -> Instant {
        now + self.web.think.sample(&mut self.stream)
    }
}
