//! An end of a TCP connection with its application.

use weir_base::Instant;
use weir_packet::Ecn;

use crate::fabric::{Event, Fabric};
use crate::flight::{Content, Flight};
use crate::meter::Jitter;
use crate::route::Route;
use crate::tcp::{Connection, Segment};
use weir_base::pace::Pace;

/// The application at an end of a connection.
#[derive(Debug)]
pub(crate) enum Application {
    /// Receives, and closes after its peer.
    Receive,
    /// Sends as much as it can.
    Greedy,
    /// Sends this number of bytes and closes.
    Transfer(u64),
    /// Offers a load; a transfer ends when this number of bytes has been written.
    Paced(Pace, Option<u64>),
    /// A web client: sends a request, and closes when the answer is complete.
    Fetch {
        /// Bytes of the request.
        request: u32,
    },
    /// A web server: answers a request, and closes.
    Serve {
        /// Bytes of the request.
        request: u32,
        /// Bytes of the answer.
        answer: u64,
    },
}

/// Progress that the simulation must handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No relevant progress.
    None,
    /// A web client has the whole answer.
    Answered,
    /// This end has nothing more to do.
    Closed,
}

/// An end of a connection.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) route: Route,
    pub(crate) connection: Connection,
    pub(crate) application: Application,
    /// The flow that counts the received payload; a web server's requests do not count.
    pub(crate) flow: Option<u32>,
    pub(crate) jitter: Jitter,
    /// Received payload that the meters have counted.
    pub(crate) arrived: u64,
    /// The time of the valid timer event; earlier events are obsolete.
    pub(crate) timer: Instant,
    pub(crate) closing: bool,
    /// Time at which the connection was established.
    pub(crate) connected: Option<Instant>,
}

impl Tcp {
    /// Opens the connection on the active side.
    pub(crate) fn start(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) {
        let now = fabric.now;
        self.connection.open(now, out);
        match &mut self.application {
            Application::Receive | Application::Serve { .. } => {}
            Application::Greedy => self.connection.write_forever(now, out),
            Application::Transfer(bytes) => {
                self.connection.write(*bytes, now, out);
                self.close(now, out);
            }
            Application::Fetch { request } => {
                self.connection.write(u64::from(*request), now, out);
            }
            Application::Paced(..) => self.schedule(fabric),
        }
        self.settle(fabric, out);
    }

    /// Writes a piece that a paced application has ready.
    pub(crate) fn tick(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) {
        let Application::Paced(pace, left) = &mut self.application else {
            return;
        };
        let piece = u64::from(pace.piece()).min(left.unwrap_or(u64::MAX));
        *left = left.map(|left| left - piece);
        let is_last = *left == Some(0);
        let now = fabric.now;
        fabric.meters.offered(self.route.traffic, now, piece);
        self.connection.write(piece, now, out);
        if is_last {
            self.close(now, out)
        } else {
            self.schedule(fabric)
        }
        self.settle(fabric, out);
    }

    /// Stops the traffic: the application writes nothing more, and unsent data is not sent.
    pub(crate) fn stop(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) {
        self.connection.abandon_unsent();
        self.close(fabric.now, out);
        self.settle(fabric, out);
    }

    /// Handles an arriving segment.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        flight: &Flight,
        segment: &Segment,
        marked: bool,
        fabric: &mut Fabric,
        out: &mut Vec<Segment>,
    ) -> Progress {
        let now = fabric.now;
        if segment.payload > 0 {
            fabric.meters.received(flight, now, &mut self.jitter);
        }
        self.connection.on_segment(segment, marked, now, out);
        // When a loss is repaired, an application can read the data of many round trips at once. If the data were
        // counted only then, the momentary goodput would exceed the rate of the link.
        let arrived = self.connection.arrived();
        if arrived > self.arrived {
            let more = arrived - self.arrived;
            self.arrived = arrived;
            if let Some(flow) = self.flow {
                fabric.meters.arrived(flow, now, more);
            }
            self.answer(now, out);
        }
        if self.connected.is_none() && self.connection.is_established() {
            self.connected = Some(now);
            if let Some(flow) = self.flow {
                fabric.meters.connected(flow, now);
            }
        }
        let mut answered = false;
        if !self.closing && self.connection.peer_closed() {
            answered = matches!(self.application, Application::Fetch { .. });
            if let Some(flow) = self.flow.filter(|_| !answered) {
                fabric.meters.closed(flow, now);
            }
            self.close(now, out);
        }
        match self.settle(fabric, out) {
            _ if answered => Progress::Answered,
            progress => progress,
        }
    }

    /// Handles the protocol's timer.
    pub(crate) fn timeout(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) -> Progress {
        if self.timer != fabric.now {
            return Progress::None;
        }
        self.timer = Instant::FAR_FUTURE;
        self.connection.on_timeout(fabric.now, out);
        self.settle(fabric, out)
    }

    /// Answers when the server has received the whole request.
    fn answer(&mut self, now: Instant, out: &mut Vec<Segment>) {
        if let Application::Serve { request, answer } = self.application
            && !self.closing
            && self.connection.delivered() >= u64::from(request)
        {
            self.connection.write(answer, now, out);
            self.close(now, out);
        }
    }

    fn close(&mut self, now: Instant, out: &mut Vec<Segment>) {
        self.closing = true;
        self.connection.close(now, out);
    }

    fn schedule(&mut self, fabric: &mut Fabric) {
        if let Application::Paced(pace, _) = &mut self.application
            && !self.closing
            && let Some(next) = pace.next_piece()
        {
            fabric.schedule(next, Event::Tick(self.route.own));
        }
    }

    /// Sends the segments that the connection has produced, and updates its timer event.
    #[inline]
    fn settle(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) -> Progress {
        for segment in out.drain(..) {
            let ecn = if segment.ecn_capable {
                Ecn::Capable0
            } else {
                Ecn::NotCapable
            };
            let len = segment.header_bytes() + segment.payload;
            self.route.send(fabric, Content::Tcp(segment), len, ecn);
        }
        // A timer that moves to a later time keeps its event: when the event fires, the connection sees that it is
        // early, and the timer is scheduled again. So most segments schedule nothing.
        if let Some(timeout) = self.connection.timeout()
            && timeout < self.timer
        {
            self.timer = timeout.max(fabric.now);
            fabric.schedule(self.timer, Event::Timeout(self.route.own));
        }
        if self.connection.is_closed() {
            Progress::Closed
        } else {
            Progress::None
        }
    }
}
