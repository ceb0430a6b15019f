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

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc;
use weir_base::Span;
use weir_forces_live::tml::tcp_udp::TcpUdp;
use weir_forces_live::tml::{
    Common, Incoming, Limits, Link, Listener, Local, Outgoing, Sent, TmlError,
};
use weir_live::clock::{go_first, thread_cpu_time};
use weir_live::namespace::raise_file_limit;
use weir_live::thread_times;
use weir_protocol::wire::Id;

use crate::lines::{Line, requests, say};
use crate::message;
use crate::plan::FES_MAX;
use crate::sessions::OPEN;

/// Maximum number of an FE's events that wait between the two threads.
const WAITING_MAX: usize = 64;
/// Maximum silence of an FE before its first event.
const SILENCE_MAX: Duration = Duration::from_secs(3600);
/// File descriptors in addition to those of the links.
const FILES: u64 = 64;

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

impl Options {
    /// As arguments of `weir traffic`.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "load".to_owned(),
            "cetml".to_owned(),
            format!("--work={}", self.work),
        ];
        args.extend(self.send_apart.then(|| "--send-apart".to_owned()));
        args
    }
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
    raise_file_limit(u64::from(FES_MAX) + FILES)?;
    let receiving = runtime()?;
    let (end, ended) = mpsc::channel::<()>(1);
    let sending = if options.send_apart {
        Some(start_sender(ended)?)
    } else {
        None
    };
    thread_name("receive")?;
    let _ = go_first(); // without the privilege, other programs disturb the test
    let served = receiving.block_on(serve(options, sending));
    drop(end); // ends the other thread
    served
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Starts the thread that sends. It ends when the other end of `ended` is dropped.
fn start_sender(mut ended: mpsc::Receiver<()>) -> io::Result<Handle> {
    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    let thread = thread::Builder::new().name("send".to_owned());
    thread.spawn(move || {
        let _ = go_first();
        runtime.block_on(ended.recv())
    })?;
    Ok(handle)
}

/// Gives the main thread a name.
fn thread_name(name: &str) -> io::Result<()> {
    std::fs::write("/proc/self/comm", name)
}

async fn serve(options: &Options, sending: Option<Handle>) -> io::Result<()> {
    let mut listener = listen(sending.clone()).await.map_err(io::Error::other)?;
    say(&Line::Listening {
        control: listener.address(),
        redirect_port: listener.redirect_port(),
    })?;
    let counts = Arc::new(Counts::default());
    let mut requests = requests()?;
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(()) => say(&busy(&counts)?)?,
                None => return Ok(()),
            },
            link = listener.accept() => match link {
                Some(link) => begin(link, options.work, sending.as_ref(), &counts),
                None => return Err(io::Error::other("the listening socket failed")),
            },
        }
    }
}

async fn listen(sending: Option<Handle>) -> Result<Listener, TmlError> {
    let local = Local {
        address: ([127, 0, 0, 1], 0).into(),
        redirect_port: Some(0),
        links_max: FES_MAX as usize,
        handshakes_max: FES_MAX as usize,
        common: Common {
            security: OPEN,
            limits: Limits {
                handshake: SILENCE_MAX, // until the test begins
                ..Limits::default()
            },
            ..Common::default()
        },
    };
    match sending {
        Some(sending) => TcpUdp.listen_apart(&local, sending).await,
        None => weir_forces_live::tml::Tml::listen(&TcpUdp, &local).await,
    }
}

fn busy(counts: &Counts) -> io::Result<Line> {
    Ok(Line::Busy {
        threads: thread_times::read()?,
        events: counts.events.load(Ordering::Relaxed),
        redirected: [&counts.packets, &counts.packet_bytes].map(|n| n.load(Ordering::Relaxed)),
    })
}

/// Serves a link, on one thread or on two.
fn begin(link: Link, work: Span, sending: Option<&Handle>, counts: &Arc<Counts>) {
    let half = Span::from_nanos(work.as_nanos() / 2);
    let Link {
        incoming, outgoing, ..
    } = link;
    let counts = counts.clone();
    match sending {
        None => drop(tokio::spawn(serve_link(incoming, outgoing, half, counts))),
        Some(sending) => {
            let (pass, passed) = mpsc::channel(WAITING_MAX);
            sending.spawn(answer(passed, outgoing, half));
            tokio::spawn(receive(incoming, pass, half, counts));
        }
    }
}

/// An event that was received: its FE and its value.
type Event = (Id, Vec<u8>);

/// Receives and answers the events of a link.
async fn serve_link(mut incoming: Incoming, outgoing: Outgoing, half: Span, counts: Arc<Counts>) {
    while let Some(bytes) = incoming.recv().await {
        if let Some(event) = take(&bytes, half, &counts)
            && !send(&outgoing, event, half).await
        {
            return;
        }
    }
}

/// Receives the events of a link, and passes them to the other thread.
async fn receive(
    mut incoming: Incoming,
    pass: mpsc::Sender<Event>,
    half: Span,
    counts: Arc<Counts>,
) {
    while let Some(bytes) = incoming.recv().await {
        if let Some(event) = take(&bytes, half, &counts)
            && pass.send(event).await.is_err()
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
        return true; // an event of the greatest length, which the answer exceeds
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
