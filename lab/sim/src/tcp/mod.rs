//! TCP as a state machine without a clock or a network.
//!
//! ```text
//!   write, close                                          delivered, peer_closed
//!       |                                                          ^
//!       v                    Connection                            |
//!   +--------+  transmit  +-----------------+   on_data   +----------+
//!   | Sender |----------->|    segments     |------------>| Receiver |
//!   |        |<-----------| of the other end|             |          |
//!   +--------+   on_ack   +-----------------+   header    +----------+
//!    scoreboard, congestion, rtt                            reassembly, delayed ACK, SACK, ECN
//! ```
//!
//! Read it in this order: [`segment`](Segment), `handshake`, `sender`, `transmit`, `recovery`,
//! `receiver`; then `scoreboard`, `congestion`, `rtt`.
//!
//! Sources: RFC 9293 (the protocol), 5681 (congestion control), 6298 (timeout), 6582 (NewReno), 2018 and 6675 (SACK),
//! 9438 (CUBIC), 3042 (limited transmit), 3465 (byte counting), 3168 (ECN), 7323 (timestamps). Each file begins with
//! its choices where they leave room, and with its deviations from them.
//!
//! Left out: urgent data, window probes (the application reads at once, so no window is ever zero),
//! simultaneous open, TIME-WAIT, path MTU discovery, D-SACK and the undoing of spurious recoveries,
//! RACK and tail loss probes, proportional rate reduction, pacing, HyStart, Nagle.

mod congestion;
mod handshake;
mod options;
mod range;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod statistics;
mod transmit;

use weir_base::{Instant, Span};

pub use options::{Options, Variant};
pub use range::Range;
use receiver::Receiver;
pub use segment::{Flags, SackBlocks, Segment};
use sender::Sender;
pub use statistics::Statistics;

/// The state of a connection. The two directions close independently, so the states of RFC 9293 from FIN-WAIT-1 on
/// follow from the states of the two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A client before `open`.
    Idle,
    /// A server before the SYN.
    Listen,
    /// Our SYN is out.
    SynSent,
    /// The peer's SYN has arrived, and our SYN with acknowledgment is out.
    SynReceived,
    /// Both SYNs are acknowledged.
    Established,
    /// The connection was reset, or given up after too many timeouts.
    Failed,
}

/// One end of a TCP connection.
///
/// A client calls [`open`](Self::open); a server waits for the SYN of one peer. Every method that can send takes the
/// time and `out`, to which it appends segments in the order of transmission. After each call, the owner reads
/// [`timeout`](Self::timeout) and calls [`on_timeout`](Self::on_timeout) at that time; an early call does nothing.
///
/// The owner should keep a connection that [`is_closed`](Self::is_closed) as long as segments may arrive. It answers a
/// retransmitted FIN, for which a peer that has lost the last acknowledgment waits.
#[derive(Clone, Debug)]
pub struct Connection {
    state: State,
    options: Options,
    /// The options that both ends support, as flags of a SYN.
    agreed: Flags,
    sender: Sender,
    receiver: Receiver,
}

impl Connection {
    /// The end that opens the connection.
    pub fn client(options: &Options) -> Self {
        Self::new(options, State::Idle)
    }

    /// The end that waits for a SYN.
    pub fn server(options: &Options) -> Self {
        Self::new(options, State::Listen)
    }

    fn new(options: &Options, state: State) -> Self {
        let options = Options {
            // Without these, loops over the data would not end.
            mss: options.mss.max(1),
            initial_window: options.initial_window.max(1),
            ..*options
        };
        Self {
            state,
            options,
            agreed: Flags::empty(),
            sender: Sender::new(&options),
            receiver: Receiver::new(&options),
        }
    }

    /// Sends the SYN.
    pub fn open(&mut self, now: Instant, out: &mut Vec<Segment>) {
        if self.state == State::Idle {
            self.state = State::SynSent;
            self.send_syn(now, out);
        }
    }

    /// The application offers `bytes` of data, before or after the handshake.
    pub fn write(&mut self, bytes: u64, now: Instant, out: &mut Vec<Segment>) {
        if !self.sender.is_closing {
            self.sender.write(bytes);
            self.transmit(now, out);
        }
    }

    /// The application offers more data than any run can carry.
    pub fn write_forever(&mut self, now: Instant, out: &mut Vec<Segment>) {
        self.write(u64::MAX, now, out);
    }

    /// The application withdraws unsent data, so that a greedy application can end.
    pub fn abandon_unsent(&mut self) {
        self.sender.abandon_unsent();
    }

    /// The application has no more data: a FIN follows the written data. The other direction continues.
    pub fn close(&mut self, now: Instant, out: &mut Vec<Segment>) {
        self.sender.is_closing = true;
        self.transmit(now, out);
    }

    /// Handles an arriving segment; `marked` means that its IP header has "congestion experienced".
    pub fn on_segment(
        &mut self,
        segment: &Segment,
        marked: bool,
        now: Instant,
        out: &mut Vec<Segment>,
    ) {
        if segment.flags.contains(Flags::RST) {
            self.fail();
            return;
        }
        if segment.flags.contains(Flags::SYN) {
            self.on_syn(segment, now, out);
            return;
        }
        if self.state == State::SynReceived && segment.flags.contains(Flags::ACK) {
            self.establish(segment, now);
        }
        if self.state != State::Established {
            return;
        }
        if segment.length() > 0 && self.receiver.on_data(segment, marked, now) {
            self.acknowledge(now, out);
        }
        self.sender.on_ack(segment, now);
        self.transmit(now, out);
        if self.receiver.is_ack_due() {
            self.acknowledge(now, out);
        }
    }

    /// Does the work due at `now`; nothing if that is earlier than [`timeout`](Self::timeout).
    pub fn on_timeout(&mut self, now: Instant, out: &mut Vec<Segment>) {
        if now >= self.sender.deadline {
            match self.state {
                State::SynSent | State::SynReceived if self.sender.on_syn_timeout() => {
                    self.send_syn(now, out);
                }
                State::Established if self.sender.on_timeout(now) => self.transmit(now, out),
                _ => self.fail(),
            }
        }
        if now >= self.receiver.deadline() {
            self.acknowledge(now, out);
        }
    }

    /// Time at which [`on_timeout`](Self::on_timeout) has work to do: a retransmission or a delayed acknowledgment.
    pub fn timeout(&self) -> Option<Instant> {
        let earliest = self.sender.deadline.min(self.receiver.deadline());
        (earliest != Instant::FAR_FUTURE).then_some(earliest)
    }

    /// Payload bytes that arrived in order and that the application has read.
    pub fn delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Payload bytes that arrived, in order or not; each byte counts once.
    pub fn arrived(&self) -> u64 {
        self.receiver.arrived()
    }

    /// Payload bytes that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.sender.acknowledged()
    }

    /// Payload bytes that the application has offered.
    pub fn written(&self) -> u64 {
        self.sender.written()
    }

    /// Payload bytes that were never sent.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Sequence numbers sent and not acknowledged (FlightSize of RFC 5681).
    pub fn flight(&self) -> u64 {
        self.sender.flight()
    }

    /// Bytes believed to be in the network (pipe of RFC 6675).
    pub fn pipe(&self) -> u64 {
        self.sender.scoreboard.pipe(self.sender.next)
    }

    /// Whether the handshake is complete and the connection was not given up.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the peer's FIN and everything before it have arrived.
    pub fn peer_closed(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Whether both directions are done, or the connection was given up.
    pub fn is_closed(&self) -> bool {
        self.has_failed() || (self.sender.is_finished() && self.receiver.is_finished())
    }

    /// Whether the connection was reset, or given up after too many timeouts.
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// The counters.
    pub fn statistics(&self) -> Statistics {
        self.sender.statistics
    }

    /// The congestion window in bytes (cwnd), as fast recovery has inflated it.
    pub fn congestion_window(&self) -> u32 {
        self.sender.window().try_into().unwrap_or(u32::MAX)
    }

    /// The slow start threshold in bytes (ssthresh); [`u32::MAX`] before the first reduction.
    pub fn slow_start_threshold(&self) -> u32 {
        self.sender
            .congestion
            .threshold()
            .try_into()
            .unwrap_or(u32::MAX)
    }

    /// The smoothed round-trip time (SRTT); `None` before the first sample.
    pub fn smoothed_rtt(&self) -> Option<Span> {
        self.sender.rtt.smoothed()
    }

    /// The current retransmission timeout (RTO).
    pub fn retransmission_timeout(&self) -> Span {
        self.sender.rtt.rto()
    }

    /// Whether losses are being repaired, after duplicate acknowledgments or after a timeout.
    pub fn is_recovering(&self) -> bool {
        self.sender.phase != sender::Phase::Open
    }

    /// Lets the sender send; its segments also acknowledge.
    fn transmit(&mut self, now: Instant, out: &mut Vec<Segment>) {
        if self.state != State::Established || !self.sender.has_work() {
            return;
        }
        let header = self.receiver.header(now);
        let before = out.len();
        self.sender.transmit(&header, now, out);
        if out.len() > before {
            self.receiver.acknowledged();
        }
    }

    /// Sends a pure acknowledgment.
    fn acknowledge(&mut self, now: Instant, out: &mut Vec<Segment>) {
        out.push(Segment {
            sequence: self.sender.next,
            ..self.receiver.header(now)
        });
        self.receiver.acknowledged();
    }

    fn fail(&mut self) {
        self.state = State::Failed;
        self.sender.deadline = Instant::FAR_FUTURE;
        self.receiver.acknowledged();
    }
}
