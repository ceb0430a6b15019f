//! The kernel's monotonic clock, and waiting until one of its instants.
//!
//! ```text
//! kernel stamps (CLOCK_REALTIME) --[Stamps]--> Instant <-- now() (CLOCK_MONOTONIC)
//! devices' descriptors --+
//! Waker of other threads --> Waiter::wait(.., until) --> Woken
//! ```

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use weir_base::{Instant, Span};

/// The current time.
pub fn now() -> Instant {
    Instant::from_nanos(read_clock(libc::CLOCK_MONOTONIC))
}

/// Time from now until an instant; zero if it is in the past.
pub fn until(at: Instant) -> Duration {
    Duration::from_nanos(at.since(now()).as_nanos())
}

/// Wall-clock time in nanoseconds since 1970, as the kernel stamps frames and as nf_tables compares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(u64);

impl UnixTime {
    /// Earlier than every other time.
    pub const FIRST: Self = Self(0);
    /// Later than every other time.
    pub const NEVER: Self = Self(u64::MAX);

    /// The current time.
    pub fn now() -> Self {
        Self(read_clock(libc::CLOCK_REALTIME))
    }

    /// The time of a stamp in seconds and nanoseconds since 1970.
    pub fn from_stamp(seconds: u32, nanos: u32) -> Self {
        Self(u64::from(seconds) * 1_000_000_000 + u64::from(nanos))
    }

    /// The time this many nanoseconds after the start of 1970.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since 1970.
    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time this span later.
    #[must_use]
    pub fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_nanos()))
    }

    /// Time until this instant; zero if it is in the past.
    pub fn remaining(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(Self::now().0))
    }
}

/// [`Instant::ZERO`] as Unix time in nanoseconds, according to both clocks now.
pub fn epoch() -> u64 {
    read_clock(libc::CLOCK_REALTIME).saturating_sub(read_clock(libc::CLOCK_MONOTONIC))
}

/// Processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Span {
    Span::from_nanos(read_clock(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Makes the calling thread wake up at the requested time, not up to 50 us later.
pub fn precise_sleeps() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and does not touch our memory.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Lets the calling thread run before other threads, with the highest ordinary priority: a port that wakes up late is
/// paced badly. This is not a real-time priority, with which an overloaded router could lock up the machine.
pub fn go_first() -> io::Result<()> {
    set_nice(-20)
}

/// Lets the calling thread run before all threads except those of [`go_first`]: its work must not be late.
pub fn go_second() -> io::Result<()> {
    set_nice(-10)
}

fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: setpriority takes three integers; process zero is the calling thread on Linux.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Turns the kernel's receive stamps, which are wall-clock time, into [`Instant`]s.
///
/// [`Self::begin`] reads both clocks once per burst. [`Self::instant`] then converts each stamp, and reads the clocks
/// again for a frame that arrived later. The result is never later than the reading, and never earlier than the
/// previous result or [`Self::nothing_before`], even if the wall clock jumps.
#[derive(Debug, Default)]
pub struct Stamps {
    monotonic: Instant,
    realtime_nanos: u64,
    latest: Instant,
}

impl Stamps {
    /// Reads both clocks.
    pub fn begin(&mut self) {
        self.begin_at(now(), read_clock(libc::CLOCK_REALTIME));
    }

    fn begin_at(&mut self, monotonic: Instant, realtime_nanos: u64) {
        self.monotonic = monotonic;
        self.realtime_nanos = realtime_nanos;
    }

    /// Records that no frame was waiting at `now`: all frames stamped later also arrived later.
    pub fn nothing_before(&mut self, now: Instant) {
        self.latest = self.latest.max(now);
    }

    /// The instant of a stamp in seconds and nanoseconds since 1970.
    pub fn instant(&mut self, seconds: u32, nanos: u32) -> Instant {
        let stamp = UnixTime::from_stamp(seconds, nanos).as_nanos();
        if stamp > self.realtime_nanos {
            // The thread has been off the processor since the burst began, perhaps for a long time.
            self.begin();
        }
        self.converted(stamp)
    }

    fn converted(&mut self, stamp: u64) -> Instant {
        let age = Span::from_nanos(self.realtime_nanos.saturating_sub(stamp));
        self.latest = self.monotonic.before(age).max(self.latest);
        self.latest
    }
}

/// Disagreement of the clocks of the processors that this process may use: how much earlier a later reading on another
/// processor was. Zero on a sound machine. Virtual machines that were migrated or resumed may have a few milliseconds,
/// which Linux does not detect.
pub fn disagreement() -> io::Result<Span> {
    let (latest, lag) = (AtomicU64::new(0), AtomicU64::new(0));
    let look = |processor: usize| {
        run_on(processor)?;
        let until = now() + LOOK;
        loop {
            let seen = latest.load(Ordering::Acquire);
            let read = now();
            lag.fetch_max(seen.saturating_sub(read.as_nanos()), Ordering::Relaxed);
            latest.fetch_max(read.as_nanos(), Ordering::Release);
            if read >= until {
                return io::Result::Ok(());
            }
        }
    };
    thread::scope(|scope| {
        let processors = processors()?.into_iter();
        let looks: Vec<_> = processors.map(|p| scope.spawn(move || look(p))).collect();
        looks.into_iter().try_for_each(|thread| {
            let panicked = |_| io::Error::other("reading the clock panicked");
            thread.join().map_err(panicked)?
        })
    })?;
    Ok(Span::from_nanos(lag.into_inner()))
}

/// Time for which each processor's clock is compared with the others.
const LOOK: Span = Span::from_millis(5);

/// The processors that the calling thread may use.
fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: all zeros is an empty set, and the kernel writes at most the given size.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = std::mem::size_of::<libc::cpu_set_t>();
        (libc::sched_getaffinity(0, size, &mut set), set)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: every number is below the set's size.
    Ok(all
        .filter(|&n| unsafe { libc::CPU_ISSET(n, &set) })
        .collect())
}

/// Keeps the calling thread on one processor.
fn run_on(processor: usize) -> io::Result<()> {
    // SAFETY: all zeros is an empty set, `processor` came from such a set, and the kernel reads the
    // given size.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &set)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets another thread end the wait of a [`Waiter`].
#[derive(Clone, Debug)]
pub struct Waker(Arc<File>);

impl Waker {
    /// Ends the current wait, or the next one if no wait is in progress.
    pub fn wake(&self) {
        // This fails only if the counter is already full, and then the wait ends anyway.
        let _ = (&*self.0).write(&1_u64.to_ne_bytes());
    }
}

/// Reason why a wait ended. If both are false, the time limit or a signal ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// A device is readable or has an error.
    pub ready: bool,
    /// The [`Waker`] was used.
    pub called: bool,
}

/// Waits for devices, a [`Waker`] or an instant, whichever comes first.
#[derive(Debug)]
pub struct Waiter {
    event: Waker,
    polled: Vec<libc::pollfd>,
}

impl Waiter {
    /// Creates a waiter and its event descriptor.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two integers and does not touch our memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, valid, and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            event: Waker(Arc::new(File::from(fd))),
            polled: Vec::new(),
        })
    }

    /// A handle that ends this waiter's waits.
    pub fn waker(&self) -> Waker {
        self.event.clone()
    }

    /// Waits until a device is readable (or has an error), the waker is used, or `until` has come; without `until`,
    /// there is no time limit. An instant in the past only polls.
    pub fn wait<'a>(
        &mut self,
        devices: impl IntoIterator<Item = BorrowedFd<'a>>,
        until: Option<Instant>,
    ) -> io::Result<Woken> {
        let polled = |fd: BorrowedFd<'_>| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.polled.clear();
        self.polled.push(polled(self.event.0.as_fd()));
        self.polled.extend(devices.into_iter().map(polled));
        let timeout = until.map(|until| timespec(until.since(now())));
        let timeout = timeout.as_ref().map_or(std::ptr::null(), |t| t as *const _);
        // SAFETY: the pointer and the number describe our vector, the timeout is null or points to a value that lives
        // until the end of this function, and a null signal mask is allowed.
        let count = unsafe {
            libc::ppoll(
                self.polled.as_mut_ptr(),
                self.polled.len() as libc::nfds_t,
                timeout,
                std::ptr::null(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(Woken::default()),
                _ => Err(error),
            };
        }
        let called = self.polled[0].revents != 0;
        if called {
            // One read of an event descriptor returns its counter and resets it to zero.
            let _ = (&*self.event.0).read(&mut [0; 8]);
        }
        let ready = self.polled[1..].iter().any(|p| p.revents != 0);
        Ok(Woken { ready, called })
    }
}

pub(crate) fn timespec(span: Span) -> libc::timespec {
    libc::timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as _, // `libc::time_t` is deprecated for musl
        tv_nsec: (span.as_nanos() % 1_000_000_000) as libc::c_long,
    }
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = timespec(Span::ZERO);
    // SAFETY: `time` is a valid place for the result, and these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_stamp_is_as_old_as_the_wall_clock_says() {
        let mut stamps = Stamps::default();
        stamps.begin_at(at(10_000), 7_000_000_500);
        assert_eq!(stamps.instant(7, 200), at(9_700));
        assert_eq!(stamps.instant(7, 500), at(10_000));
    }

    #[test]
    fn a_frame_that_came_after_the_reading_has_the_time_of_the_reading() {
        let mut stamps = Stamps::default();
        stamps.begin_at(at(10_000), 7_000_000_500);
        assert_eq!(stamps.converted(7_000_000_900), at(10_000));
    }

    #[test]
    fn a_frame_that_came_after_the_reading_has_the_clocks_read_again() {
        let mut stamps = Stamps::default();
        let before = now();
        stamps.begin();
        let stamp = read_clock(libc::CLOCK_REALTIME) + 1;
        let (seconds, nanos) = (stamp / 1_000_000_000, stamp % 1_000_000_000);
        let read = stamps.monotonic;
        assert!(stamps.instant(seconds as u32, nanos as u32) > read);
        assert!(read >= before);
    }

    #[test]
    fn an_empty_ring_is_a_bound_even_when_the_wall_clock_jumps() {
        let mut stamps = Stamps::default();
        stamps.nothing_before(at(9_000));
        // The wall clock jumps one hour forward between the stamp and the reading.
        stamps.begin_at(at(10_000), 3_607_000_000_000);
        assert_eq!(stamps.instant(7, 0), at(9_000));
    }

    #[test]
    fn reading_the_clocks_leaves_the_thread_where_it_may_run() {
        let before = processors().unwrap();
        disagreement().unwrap(); // the result depends on the machine
        assert_eq!(processors().unwrap(), before);
    }

    proptest! {
        #[test]
        fn time_never_runs_back_nor_ahead(
            bursts in proptest::collection::vec((0_u64..1 << 40, any::<u32>(), any::<u32>()), 1..50)
        ) {
            let mut stamps = Stamps::default();
            let (mut monotonic, mut before) = (0, Instant::ZERO);
            for (step, realtime, stamp) in bursts {
                monotonic += step;
                stamps.begin_at(at(monotonic), u64::from(realtime) * 1_000_000_000);
                let instant = stamps.converted(u64::from(stamp) * 1_000_000_000);
                prop_assert!(instant >= before && instant <= at(monotonic));
                before = instant;
            }
        }
    }

    #[test]
    fn a_wait_ends_at_its_instant() {
        precise_sleeps().unwrap();
        let mut waiter = Waiter::new().unwrap();
        let until = now() + Span::from_millis(2);
        assert_eq!(waiter.wait([], Some(until)).unwrap(), Woken::default());
        assert!(now() >= until);
        assert!(now().since(until) < Span::from_secs(1));
    }

    #[test]
    fn a_waker_ends_one_wait_from_another_thread() {
        let mut waiter = Waiter::new().unwrap();
        let waker = waiter.waker();
        std::thread::spawn(move || {
            waker.wake();
            waker.wake();
        })
        .join()
        .unwrap();
        let called = Woken {
            ready: false,
            called: true,
        };
        assert_eq!(waiter.wait([], None).unwrap(), called);
        assert_eq!(waiter.wait([], Some(now())).unwrap(), Woken::default());
    }
}
