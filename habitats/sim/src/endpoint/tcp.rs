//! An end of a TCP connection with its application.

use weir_base::Instant;
use weir_packet::Ecn;

use super::Route;
use crate::fabric::{Event, Fabric};
use crate::flight::{Content, Flight};
use crate::meter::Jitter;
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
    /// Offers a load; a transfer ends when this number of bytes is written.
    Paced(Pace, Option<u64>),
    /// A web client: sends a request, and closes when the answer has ended.
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

/// Progress that others must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing of note.
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
    /// The flow for which the payload counts that it receives; a web server's requests do not.
    pub(crate) flow: Option<u32>,
    pub(crate) jitter: Jitter,
    /// Payload of the peer that the meters have counted.
    pub(crate) arrived: u64,
    /// The time of the valid timer event; earlier ones are out of date.
    pub(crate) timer: Instant,
    pub(crate) closing: bool,
    /// When the connection was there.
    pub(crate) connected: Option<Instant>,
}

impl Tcp {
    /// The active side opens.
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

    /// A piece of a paced application is ready.
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
        match is_last {
            true => self.close(now, out),
            false => self.schedule(fabric),
        }
        self.settle(fabric, out);
    }

    /// The traffic stops: nothing more is written, and what was not sent yet is not sent.
    pub(crate) fn stop(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) {
        self.connection.abandon_unsent();
        self.close(fabric.now, out);
        self.settle(fabric, out);
    }

    /// A segment has come.
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
        // What a repaired loss lets an application read at once has come over many round trips: counted
        // then, a moment's goodput would be above the rate of the link.
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

    /// The protocol's timer.
    pub(crate) fn timeout(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) -> Progress {
        if self.timer != fabric.now {
            return Progress::None;
        }
        self.timer = Instant::FAR_FUTURE;
        self.connection.on_timeout(fabric.now, out);
        self.settle(fabric, out)
    }

    /// A server that has got the whole request answers.
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

    /// Sends what the connection has made, and sees to its timer.
    #[inline]
    fn settle(&mut self, fabric: &mut Fabric, out: &mut Vec<Segment>) -> Progress {
        for segment in out.drain(..) {
            let ecn = match segment.ecn_capable {
                true => Ecn::Capable0,
                false => Ecn::NotCapable,
            };
            let len = segment.header_bytes() + segment.payload;
            self.route.send(fabric, Content::Tcp(segment), len, ecn);
        }
        // A timer that moves back is left where it is: when it goes off, the connection sees that
        // it is early, and it is set anew. So most segments schedule nothing.
        if let Some(timeout) = self.connection.timeout()
            && timeout < self.timer
        {
            self.timer = timeout.max(fabric.now);
            fabric.schedule(self.timer, Event::Timeout(self.route.own));
        }
        match self.connection.is_closed() {
            true => Progress::Closed,
            false => Progress::None,
        }
    }
}
