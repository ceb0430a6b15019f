//! A parent process that replaces a router that hangs or crashes.
//!
//! A hung router forwards nothing, and the kernel forwards only once the lease on transit expires. A dead router
//! is better: its rules vanish with it. So the router is a child process, and a parent that does nothing else kills it
//! when its heartbeat stops, and starts the next one:
//!
//! ```text
//!  weir router CONFIG  --starts-->  weir router --supervised N CONFIG
//!        |  <-- heartbeats, end of file --
//!        |  -- HUP, TERM (and INT as TERM) -->
//!        +--> killed, or ended by a signal: the next child, after a pause
//!        +--> exit code of the child; 1 if it failed too often
//! ```
//!
//! Each thread of the router has its own beats and its own limit. The limit of the forwarding thread is `watchdog`.
//! That of the control thread is longer: while it hangs, forwarding works with old tables. A thread that waits for a
//! processor does not hang ([`starvation`]).
//!
//! A missing beat counts only if the parent itself was awake. So it kills nothing after the whole machine was
//! suspended, or after a terminal stopped both processes. The first beat comes when the router forwards, so a start may
//! take time. When the parent dies, the child sees the end of the heartbeat's socket and stops in an orderly way.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::time::{MissedTickBehavior, timeout};
use weir_base::Span;
use weir_live::namespace::{Signal, signal};
use weir_live::signals;

use super::heartbeat::{self, CONTROLS, ENDS, FORWARDS, HANDED_BACK};
use super::restarts::{RESTARTS_MAX, Restarts, WINDOW};
use super::service_manager::{self, notify};
use super::starvation::{self, Sample};
use super::{Role, duration};
use crate::Failure;

/// Multiple of `watchdog` for which the control thread may be silent; it may be silent for [`CONTROL_LIMIT_MIN`] in any
/// case.
const CONTROL_LIMIT_FACTOR: u64 = 10;
/// A control thread on an overloaded machine applies a full Internet routing table in less time.
const CONTROL_LIMIT_MIN: Span = Span::from_secs(30);

/// Runs the router as a child, kills it if its forwarding thread sends no beat for `limit`, and starts it again if it
/// was killed or crashed. Returns the final result.
pub(super) fn supervise(config: &Path, limit: Span, role: &dyn Role) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::Run(format!("cannot supervise the router: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(failed)?; // before the child exists, so that it misses none
        let mut restarts = Restarts::default();
        let mut is_service_ready = false;
        loop {
            let supervisor = Supervisor::start(config, (limit, role), restarts.count, is_service_ready);
            let (end, was_ready) = supervisor.map_err(failed)?.run(&mut signals).await.map_err(failed)?;
            is_service_ready |= was_ready;
            let why = match end {
                End::Exited(status) => return exit(status),
                End::Crashed(status) if !was_ready => return exit(status),
                End::Crashed(status) => crash(status),
                End::Hung(why) => why,
            };
            let Some(pause) = restarts.next(Instant::now()) else {
                return Err(Failure::Run(format!(
                    "{why}; it failed {} times within {} s and is not restarted; the kernel forwards",
                    RESTARTS_MAX + 1,
                    WINDOW.as_secs(),
                )));
            };
            tracing::error!(restarts = restarts.count, ?pause, "{why}; the kernel forwards until it is restarted");
            notify(&format!("STATUS={why}; restarting it"));
            if signals.end_within(pause).await {
                notify(service_manager::STOPPING);
                return Ok(());
            }
        }
    })
}

/// Turns the child's exit status into that of this process.
fn exit(status: ExitStatus) -> Result<(), Failure> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Reported(code.clamp(1, 255) as u8)),
        None => Err(Failure::Run(format!(
            "{}; the kernel forwards",
            crash(status)
        ))),
    }
}

fn crash(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => format!("the router was killed by signal {number}"),
        None => "the router has exited".to_owned(),
    }
}

/// The ways in which a child may end.
enum End {
    /// The child exited, or a signal that should end it did.
    Exited(ExitStatus),
    /// A signal ended it.
    Crashed(ExitStatus),
    /// The supervisor killed the child, for this reason.
    Hung(String),
}

/// A thread of the child that sends beats.
struct Beats {
    /// The work of the thread.
    name: &'static str,
    limit: Span,
    /// The bytes of its beats.
    bytes: &'static [u8],
    find: fn(u32) -> io::Result<PathBuf>,
    was_heard: bool,
    /// Number of periods without a beat, in which the parent was awake.
    missed: u64,
    /// The sample of the thread when the first beat was missing.
    then: Option<Sample>,
    is_starved: bool,
}

impl Beats {
    fn new(
        name: &'static str,
        limit: Span,
        bytes: &'static [u8],
        find: fn(u32) -> io::Result<PathBuf>,
    ) -> Self {
        Self {
            name,
            limit,
            bytes,
            find,
            was_heard: false,
            missed: 0,
            then: None,
            is_starved: false,
        }
    }

    /// Counts a period. Returns whether the thread hangs.
    fn hangs(&mut self, process: u32, period: Span) -> bool {
        if std::mem::take(&mut self.was_heard) {
            (self.missed, self.then, self.is_starved) = (0, None, false);
            return false;
        }
        self.missed += 1;
        let now = || Sample::read(&(self.find)(process));
        if self.missed == 1 {
            self.then = now();
        }
        // One more than the limit permits, because the timers are not synchronized.
        if self.missed <= self.limit.as_nanos().div_ceil(period.as_nanos()) {
            return false;
        }
        let now = now();
        let starved = now
            .zip(self.then)
            .is_some_and(|(now, then)| now.starved_since(&then));
        if !starved {
            return true;
        }
        if !std::mem::replace(&mut self.is_starved, true) {
            tracing::warn!(
                "the {} thread waits for a processor: the machine is overloaded",
                self.name
            );
        }
        (self.missed, self.then) = (1, now);
        false
    }
}

struct Supervisor {
    child: Child,
    heart: tokio::net::UnixStream,
    period: Span,
    beats: [Beats; 2],
    /// The child has sent a heartbeat.
    is_ready: bool,
    /// The service manager knows that the router forwards, and waits for heartbeats.
    is_service_ready: bool,
    /// An operator has requested the end of the child.
    should_end: bool,
    /// The child has announced that it sends no further beats.
    is_ending: bool,
    /// The reason why the supervisor killed the child.
    killed: Option<String>,
    /// Whether the kernel forwards meanwhile, as last reported to the service manager.
    is_handed_back: Option<bool>,
}

struct Signals {
    hangup: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// The next signal, translated for the child.
    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Hangup,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Terminate,
        }
    }

    /// Whether a signal requests the end of the router within this time, in which it has no process. SIGHUP needs no
    /// action, because a start reads the configuration.
    async fn end_within(&mut self, time: Duration) -> bool {
        let asked = async { while self.next().await != Signal::Terminate {} };
        timeout(time, asked).await.is_ok()
    }
}

impl Supervisor {
    /// Starts a child, which blocks signals until it has handlers for them.
    fn start(
        config: &Path,
        (limit, role): (Span, &dyn Role),
        restarts: u64,
        is_service_ready: bool,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let heart = tokio::net::UnixStream::from_std(ours)?;
        signals::hold()?;
        let child = spawn(config, theirs, role, restarts);
        signals::release()?;
        let control_limit = Span::from_nanos(limit.as_nanos().saturating_mul(CONTROL_LIMIT_FACTOR));
        let control_limit = control_limit.max(CONTROL_LIMIT_MIN);
        Ok(Self {
            child: child?,
            heart,
            period: heartbeat::period(limit),
            beats: [
                Beats::new(
                    "forwarding",
                    limit,
                    &[FORWARDS],
                    starvation::forwarding_thread,
                ),
                Beats::new(
                    "control",
                    control_limit,
                    &[CONTROLS, HANDED_BACK],
                    starvation::control_thread,
                ),
            ],
            is_ready: false,
            is_service_ready,
            should_end: false,
            is_ending: false,
            killed: None,
            is_handed_back: None,
        })
    }

    /// Returns how the child ended, and whether it had been ready.
    async fn run(mut self, signals: &mut Signals) -> io::Result<(End, bool)> {
        let mut timer = tokio::time::interval(duration(self.period));
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bytes = [0; 64];
        loop {
            tokio::select! {
                biased; // a beat sent before the end of a period counts in this period
                sent = signals.next() => {
                    self.should_end |= sent == Signal::Terminate;
                    signal(&self.child, sent)?;
                }
                read = self.heart.read(&mut bytes) => match read {
                    Ok(0) | Err(_) => return Ok((self.ended()?, self.is_ready)),
                    Ok(count) => self.heard(&bytes[..count]),
                },
                _ = timer.tick() => self.period_has_passed()?,
            }
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        if !self.is_ready {
            if self.is_service_ready {
                notify(&format!("{}\nSTATUS=restarted", service_manager::READY))
            } else {
                notify(service_manager::READY)
            }
            (self.is_ready, self.is_service_ready) = (true, true);
        }
        for beats in &mut self.beats {
            beats.was_heard |= bytes.iter().any(|byte| beats.bytes.contains(byte));
        }
        let latest = bytes
            .iter()
            .rfind(|byte| [CONTROLS, HANDED_BACK].contains(byte));
        let is_handed_back = latest.map(|byte| *byte == HANDED_BACK);
        if let Some(is_handed_back) = is_handed_back.filter(|now| self.is_handed_back != Some(*now))
        {
            notify(service_manager::status(is_handed_back));
            self.is_handed_back = Some(is_handed_back);
        }
        if bytes.contains(&ENDS) {
            notify(service_manager::STOPPING);
            self.is_ending = true;
        }
    }

    fn period_has_passed(&mut self) -> io::Result<()> {
        if self.is_service_ready {
            notify(service_manager::ALIVE); // the service manager watches this process, which watches the child
        }
        if !self.is_ready || self.is_ending || self.killed.is_some() {
            return Ok(());
        }
        let (process, period) = (self.child.id(), self.period);
        let hung = self
            .beats
            .iter_mut()
            .find_map(|beats| beats.hangs(process, period).then_some(&*beats));
        if let Some(Beats { name, limit, .. }) = hung {
            self.killed = Some(format!(
                "watchdog expired: the router's {name} thread made no progress for {limit}, and the router was killed"
            ));
            self.child.kill()?; // the heartbeat socket shows its death; until then, it may wait in a driver
        }
        Ok(())
    }

    fn ended(&mut self) -> io::Result<End> {
        let status = self.child.wait()?;
        Ok(match (self.killed.take(), status.code()) {
            _ if self.should_end || self.is_ending => End::Exited(status),
            (Some(why), _) => End::Hung(why),
            (None, None) => End::Crashed(status),
            (None, Some(_)) => End::Exited(status),
        })
    }
}

fn spawn(config: &Path, heart: UnixStream, role: &dyn Role, restarts: u64) -> io::Result<Child> {
    Command::new("/proc/self/exe") // this same program, even after its file was replaced by a newer one
        .arg0("weir")
        .args([role.word(), "--supervised", &restarts.to_string()])
        .arg(config)
        .stdin(Stdio::from(OwnedFd::from(heart)))
        // A signal that a terminal sends to a whole process group reaches the child once, through the parent.
        .process_group(0)
        .spawn()
}
