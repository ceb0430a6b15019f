//! Web clients: closed loops, a new connection for each fetch.
//!
//! Every fetch is recorded. Those that the end of the run cuts off count with their age: a mean over the
//! finished ones alone would praise a router that starves the rest.

use weir_base::{Instant, Sizes, Span, Stream, Times};

use crate::network::NodeId;
use crate::tcp::Options;

/// Bytes of a request.
pub(crate) const REQUEST_BYTES: u32 = 100;
/// Pause after a connection that could not be made, as the lab's clients make it.
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
    /// Over IPv6.
    pub ipv6: bool,
    /// Options of both ends.
    pub options: Options,
    /// Sizes of the files.
    pub sizes: Sizes,
    /// Pause between two fetches.
    pub think: Times,
    /// The first fetch.
    pub start: Instant,
    /// No fetch begins later.
    pub stop: Instant,
    /// The traffic that it counts for.
    pub traffic: u32,
}

/// One fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetch {
    /// The traffic.
    pub traffic: u32,
    /// The client.
    pub client: u32,
    /// Bytes of the file.
    pub bytes: u64,
    /// When the client asked for the connection.
    pub start: Instant,
    /// When the connection was established.
    pub connected: Option<Instant>,
    /// When the file had arrived, or the client gave up; none if neither has happened.
    pub end: Option<Instant>,
    /// The connection could not be made.
    pub failed: bool,
}

/// A client in its loop.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) web: Web,
    pub(crate) number: u32,
    pub(crate) stream: Stream,
    pub(crate) current: Option<Fetch>,
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

    /// When the next fetch begins after one that ended now.
    pub(crate) fn next_start(&mut self, now: Instant) -> Instant {
        now + self.web.think.sample(&mut self.stream)
    }
}
