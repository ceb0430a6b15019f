//! A parent process that kills a hung router.
//!
//! A hung router keeps transit from the kernel and forwards nothing: a black hole. A dead router does not, because the
//! rules that keep transit from the kernel vanish with it. So the router is a child process, and a parent that does
//! nothing else kills it when its heartbeat stops:
//!
//! ```text
//!  weir router CONFIG  --starts-->  weir router --supervised CONFIG
//!        |  <-- heartbeat, end of file --
//!        |  -- HUP, TERM (and INT as TERM) -->
//!        +--> exit code of the child; 1 if it was killed
//! ```
//!
//! A missing beat counts only if the parent itself was awake. So nothing is killed when the whole machine was
//! suspended, or when a terminal stopped both processes. The first beat comes when the router forwards, so a start may
//! take time. When the parent dies, the child sees the end of the heartbeat's socket and stops in an orderly way.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::time::MissedTickBehavior;
use weir_base::Span;
use weir_live::namespace::{Signal, signal};
use weir_live::signals;

use super::Role;
use super::heartbeat::{self, ALIVE, BEATS, ENDS, HANDED_BACK};
use super::service_manager::{self, notify};
use crate::Failure;

/// Runs the router as a child, kills it if it sends no heartbeat for `limit`, and returns how it ended.
pub(super) fn supervise(config: &Path, limit: Span, role: Role) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::Run(format!("cannot supervise the router: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let ended = runtime.block_on(async {
        let ours = UnixStream::pair().and_then(|(ours, theirs)| {
            ours.set_nonblocking(true)?;
            Ok((tokio::net::UnixStream::from_std(ours)?, theirs))
        });
        let (heart, theirs) = ours?;
        let signals = Signals::new()?; // before the child exists, so that it misses none
        let child = start(config, theirs, role)?; // it blocks signals until it has handlers too
        signals::release()?;
        Supervisor {
            child,
            heart,
            limit,
            is_ready: false,
            is_ending: false,
            is_handed_back: None,
        }
        .run(signals)
        .await
    });
    match ended.map_err(failed)? {
        End::Hung => Err(Failure::Run(format!(
            "the router gave no sign of life for {limit} and was killed; the kernel forwards"
        ))),
        End::Exited(status) => exit(status),
    }
}

/// Turns the child's exit status into that of this process.
fn exit(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Reported(code.clamp(1, 255) as u8)),
        (None, Some(number)) => Err(Failure::Run(format!(
            "the router was ended by signal {number}; the kernel forwards"
        ))),
        (None, None) => Err(Failure::Run("the router has ended".to_owned())),
    }
}

fn start(config: &Path, heart: UnixStream, role: Role) -> io::Result<Child> {
    Command::new("/proc/self/exe") // this very program, also after it was replaced by a newer one
        .arg0("weir")
        .args([role.word(), "--supervised"])
        .arg(config)
        .stdin(Stdio::from(OwnedFd::from(heart)))
        // A signal that a terminal sends to a whole process group reaches the child once, through the parent.
        .process_group(0)
        .spawn()
}

/// The ways in which a child ends.
enum End {
    Exited(ExitStatus),
    Hung,
}

struct Supervisor {
    child: Child,
    heart: tokio::net::UnixStream,
    limit: Span,
    /// It has sent a heartbeat.
    is_ready: bool,
    /// It has announced that no more beats will come.
    is_ending: bool,
    /// The kernel forwards meanwhile, as far as the service manager knows.
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
}

impl Supervisor {
    async fn run(mut self, mut signals: Signals) -> io::Result<End> {
        let mut timer = tokio::time::interval(heartbeat::period(self.limit));
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut beats, mut missed) = (0, 0);
        let mut bytes = [0; 64];
        loop {
            tokio::select! {
                _ = signals.hangup.recv() => signal(&self.child, Signal::Hangup)?,
                _ = signals.terminate.recv() => signal(&self.child, Signal::Terminate)?,
                _ = signals.interrupt.recv() => signal(&self.child, Signal::Terminate)?,
                read = self.heart.read(&mut bytes) => match read {
                    Ok(0) | Err(_) => return self.child.wait().map(End::Exited),
                    Ok(count) => {
                        beats += count;
                        self.heard(&bytes[..count]);
                    }
                },
                _ = timer.tick() => {
                    missed = if beats > 0 { 0 } else { missed + 1 };
                    beats = 0;
                    // One more than the limit allows, because the timers are not synchronized.
                    if self.is_ready && !self.is_ending && missed > BEATS {
                        return self.kill();
                    }
                }
            }
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        if !self.is_ready {
            notify(service_manager::READY);
            self.is_ready = true;
        }
        notify(service_manager::ALIVE);
        let latest = bytes
            .iter()
            .rfind(|byte| [ALIVE, HANDED_BACK].contains(byte));
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

    fn kill(&mut self) -> io::Result<End> {
        tracing::error!(limit = %self.limit, "the router gives no sign of life: it is killed, so that the kernel forwards");
        self.child.kill()?;
        self.child.wait()?;
        Ok(End::Hung)
    }
}
