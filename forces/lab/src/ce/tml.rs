//! `weir traffic load cetml`: the CE's side of the transport for a load test. It answers each event with a Config.
//!
//! ```text
//!   one thread:   socket -> transport -> parse, work / 2 -> work / 2, encode -> queue -> transport -> socket
//!   two threads:  socket -> transport -> parse, work / 2 ====> work / 2, encode -> queue -> transport -> socket
//!                 `----------- thread "receive" ---------'    `------------------ thread "send" ------------'
//! ```
//!
//! Sockets, framing, queues and credit are those of [`weir_forces_live::tml`]. A CETML without credit for an answer
//! does not receive further events from this FE, so the FE loses credit as well.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc;
use weir_base::Span;
use weir_forces_live::tml::tcp_udp::TcpUdp;
use weir_forces_live::tml::{Common, Incoming, Limits, Link, Outgoing, Sent, Tml};
use weir_live::clock::{go_first, thread_cpu_time};
use weir_live::thread_times;
use weir_protocol::wire::Id;

use super::Serve;
use crate::channel::OPEN;
use crate::lines::Line;
use crate::message;

/// Maximum number of an FE's events that wait between the two threads.
const WAITING_MAX: usize = 64;
/// Maximum silence of an FE before its first event.
const SILENCE_MAX: Duration = Duration::from_secs(3600);

/// Options of a CETML.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Send and receive on separate threads.
    #[arg(long)]
    pub send_apart: bool,
    /// CPU time spent on each event in addition to the transport: half on arrival, half before the answer.
    #[arg(long, default_value = "0 s")]
    pub work: Span,
}

/// The counts of all links together.
#[derive(Debug, Default)]
struct Counts {
    events: AtomicU64,
    packets: AtomicU64,
    packet_bytes: AtomicU64,
}

/// Serves until standard input ends.
pub fn run(options: &Options) -> io::Result<()> {
    let sending = options.send_apart.then(start_sender).transpose()?;
    std::fs::write("/proc/self/comm", "receive")?; // names the main thread
    let local = super::local(Common {
        security: OPEN,
        limits: Limits {
            handshake: SILENCE_MAX, // until the test begins
            ..Limits::default()
        },
        ..Common::default()
    });
    let server = Server {
        half: Span::from_nanos(options.work.as_nanos() / 2),
        sending: sending.clone(),
        counts: Arc::default(),
    };
    let listening = async {
        match sending {
            Some(sending) => TcpUdp.listen_apart(&local, sending).await,
            None => TcpUdp.listen(&local).await,
        }
    };
    super::run(listening, server)
}

/// Starts the thread that sends, until the process ends.
fn start_sender() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let thread = thread::Builder::new().name("send".to_owned());
    thread.spawn(move || {
        let _ = go_first();
        runtime.block_on(pending::<()>())
    })?;
    Ok(handle)
}

/// Serves each link on one thread or on two.
struct Server {
    half: Span,
    sending: Option<Handle>,
    counts: Arc<Counts>,
}

impl Serve for Server {
    fn open(&mut self, link: Link) {
        let (half, counts) = (self.half, self.counts.clone());
        let (incoming, outgoing) = (link.incoming, link.outgoing);
        if let Some(sending) = &self.sending {
            let (pass, passed) = mpsc::channel(WAITING_MAX);
            sending.spawn(answer(passed, outgoing, half));
            let pass = async move |event| pass.send(event).await.is_ok();
            tokio::spawn(receive(incoming, half, counts, pass));
        } else {
            let pass = async move |event| send(&outgoing, event, half).await;
            tokio::spawn(receive(incoming, half, counts, pass));
        }
    }

    async fn turn(&mut self) {
        pending().await
    }

    fn report(&mut self) -> io::Result<Line> {
        let Counts {
            events,
            packets,
            packet_bytes,
        } = &*self.counts;
        Ok(Line::Busy {
            threads: thread_times::read()?,
            events: events.load(Ordering::Relaxed),
            redirected: [packets, packet_bytes].map(|n| n.load(Ordering::Relaxed)),
        })
    }
}

/// An event that was received: its FE and its value.
type Event = (Id, Vec<u8>);

/// Receives the events of a link, and passes them on until `pass` returns false.
async fn receive(
    mut incoming: Incoming,
    half: Span,
    counts: Arc<Counts>,
    pass: impl AsyncFn(Event) -> bool,
) {
    while let Some(bytes) = incoming.recv().await {
        if let Some(event) = take(&bytes, half, &counts)
            && !pass(event).await
        {
            return;
        }
    }
}

/// Answers the events of a link.
async fn answer(mut passed: mpsc::Receiver<Event>, outgoing: Outgoing, half: Span) {
    while let Some(event) = passed.recv().await {
        if !send(&outgoing, event, half).await {
            return;
        }
    }
}

/// Parses a message; `None` if it is not an event.
fn take(bytes: &[u8], half: Span, counts: &Counts) -> Option<Event> {
    if let Some([packets, packet_bytes]) = message::redirected(bytes) {
        counts.packets.fetch_add(packets, Ordering::Relaxed);
        counts
            .packet_bytes
            .fetch_add(packet_bytes, Ordering::Relaxed);
        return None;
    }
    let event = message::parse_event(bytes)?;
    counts.events.fetch_add(1, Ordering::Relaxed);
    spend(half);
    Some(event)
}

/// Answers an event as soon as there is credit; false if the link has ended.
async fn send(outgoing: &Outgoing, (fe, value): Event, half: Span) -> bool {
    spend(half);
    let Ok(mut message) = message::answer(fe, value) else {
        return true; // an event of maximum length, which the answer exceeds
    };
    loop {
        match outgoing.send(message) {
            Sent::Queued | Sent::Dropped => return true,
            Sent::Closed => return false,
            Sent::NoRoom(again) => message = again,
        }
        outgoing.writable().await;
    }
}

/// Consumes this much processor time.
fn spend(time: Span) {
    if time == Span::ZERO {
        return;
    }
    let until = thread_cpu_time() + time;
    while thread_cpu_time() < until {
        std::hint::spin_loop();
    }
}
