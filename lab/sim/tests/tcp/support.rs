//! Two connections and the path between them.

use std::collections::BTreeMap;

use weir_base::{Instant, Span};
use weir_sim::tcp::{Connection, Flags, Options, Segment, Variant};

/// The end that opens the connection; [`SERVER`] is the other.
pub(crate) const CLIENT: usize = 0;
/// The end that waits for a connection.
pub(crate) const SERVER: usize = 1;

/// The path's treatment of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    Mark,
    Late(Span),
    Twice,
}

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) from: usize,
    pub(crate) segment: Segment,
    /// Whether any part of the segment had been sent before.
    pub(crate) again: bool,
}

/// Decides about each segment by its sender, its content, and whether it was sent before.
type FateOf = Box<dyn FnMut(&Sent) -> Fate>;

/// Two ends, the segments between them, and a log of everything sent.
pub(crate) struct Path {
    pub(crate) now: Instant,
    pub(crate) ends: [Connection; 2],
    pub(crate) log: Vec<Sent>,
    pub(crate) keeps_log: bool,
    delay: Span,
    fate_of: FateOf,
    on_their_way: BTreeMap<(Instant, u64), (usize, Segment, bool)>,
    serial: u64,
    highest: [u64; 2],
    out: Vec<Segment>,
}

impl Path {
    /// A path with a round-trip time of `rtt`, and a client and a server with the same options.
    pub(crate) fn new(
        options: &Options,
        rtt: Span,
        fate_of: impl FnMut(&Sent) -> Fate + 'static,
    ) -> Self {
        Self {
            now: Instant::ZERO,
            ends: [Connection::client(options), Connection::server(options)],
            log: Vec::new(),
            keeps_log: true,
            delay: Span::from_nanos(rtt.as_nanos() / 2),
            fate_of: Box::new(fate_of),
            on_their_way: BTreeMap::new(),
            serial: 0,
            highest: [0; 2],
            out: Vec::new(),
        }
    }

    /// The client opens and offers `bytes`; `None` means without end.
    pub(crate) fn start(&mut self, bytes: Option<u64>) {
        self.act(CLIENT, |end, now, out| {
            end.open(now, out);
            match bytes {
                Some(bytes) => end.write(bytes, now, out),
                None => end.write_forever(now, out),
            }
        });
    }

    /// An action of the application at one end.
    pub(crate) fn act(
        &mut self,
        side: usize,
        action: impl FnOnce(&mut Connection, Instant, &mut Vec<Segment>),
    ) {
        let mut out = std::mem::take(&mut self.out);
        action(&mut self.ends[side], self.now, &mut out);
        for segment in out.drain(..) {
            self.send(side, segment);
        }
        self.out = out;
    }

    /// Handles the next event, unless it is after `limit`. Returns the end at which it happened, and the arriving
    /// segment, if any.
    pub(crate) fn step(&mut self, limit: Instant) -> Option<(usize, Option<Segment>)> {
        let arrival = self.on_their_way.first_key_value().map(|(key, _)| key.0);
        let timers = self.ends.iter().enumerate();
        let timer = timers
            .filter_map(|(side, end)| Some((end.timeout()?, side)))
            .min();
        match (arrival, timer) {
            (Some(at), timer) if at <= limit && timer.is_none_or(|(t, _)| at <= t) => {
                let ((at, _), (side, segment, marked)) = self.on_their_way.pop_first()?;
                self.now = at;
                self.act(side, |end, now, out| {
                    end.on_segment(&segment, marked, now, out);
                });
                Some((side, Some(segment)))
            }
            (_, Some((at, side))) if at <= limit => {
                self.now = at;
                self.act(side, Connection::on_timeout);
                Some((side, None))
            }
            _ => None,
        }
    }

    /// Handles all events before `limit`, and sets the time to `limit`.
    pub(crate) fn run_until(&mut self, limit: Instant) {
        while self.step(limit.before(Span::from_nanos(1))).is_some() {}
        self.now = limit;
    }

    /// Handles events until none is left.
    pub(crate) fn run(&mut self) {
        while self.step(Instant::FAR_FUTURE).is_some() {}
    }

    /// The client's congestion window in segments of `mss`.
    pub(crate) fn window(&self, mss: u32) -> f64 {
        f64::from(self.ends[CLIENT].congestion_window()) / f64::from(mss)
    }

    /// The data that the client has sent more than once: the time in round trips, and the number of the segment,
    /// counted from zero.
    pub(crate) fn retransmissions(&self, mss: u32) -> Vec<(f64, u64)> {
        let rtt = self.delay.times(2).as_nanos() as f64;
        self.log
            .iter()
            .filter(|sent| sent.from == CLIENT && sent.again && sent.segment.payload > 0)
            .map(|sent| {
                let rounds = sent.at.as_nanos() as f64 / rtt;
                (rounds, (sent.segment.sequence - 1) / u64::from(mss))
            })
            .collect()
    }

    fn send(&mut self, from: usize, segment: Segment) {
        let again = segment.length() > 0 && segment.sequence < self.highest[from];
        self.highest[from] = self.highest[from].max(segment.range().end);
        let sent = Sent {
            at: self.now,
            from,
            segment,
            again,
        };
        if self.keeps_log {
            self.log.push(sent);
        }
        let fate = (self.fate_of)(&sent);
        let extra = match fate {
            Fate::Drop => return,
            Fate::Late(extra) => extra,
            _ => Span::ZERO,
        };
        for _ in 0..if fate == Fate::Twice { 2 } else { 1 } {
            self.serial += 1;
            let key = (self.now + self.delay + extra, self.serial);
            let marked = fate == Fate::Mark;
            self.on_their_way.insert(key, (1 - from, segment, marked));
        }
    }
}

/// Data segments of the client.
pub(crate) fn is_data(sent: &Sent) -> bool {
    sent.from == CLIENT && sent.segment.payload > 0
}

/// Loses the first transmission of these data segments of the client, counted from zero.
pub(crate) fn lose(mss: u32, lost: &'static [u64]) -> impl FnMut(&Sent) -> Fate {
    move |sent| {
        let number = sent.segment.sequence.saturating_sub(1) / u64::from(mss);
        if is_data(sent) && !sent.again && lost.contains(&number) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    }
}

/// Loses nothing.
pub(crate) fn pass(_: &Sent) -> Fate {
    Fate::Pass
}

/// Full-sized segments of 1000 bytes, each acknowledged.
pub(crate) fn options(variant: Variant) -> Options {
    Options {
        variant,
        mss: 1000,
        ack_every: 1,
        ..Options::default()
    }
}

/// The flags of everything that was sent, with the side of its sender.
pub(crate) fn flags(path: &Path) -> Vec<(usize, Flags)> {
    let sent = path.log.iter();
    sent.map(|sent| (sent.from, sent.segment.flags)).collect()
}

/// `millis` milliseconds after the start.
pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Span::from_millis(millis)
}
