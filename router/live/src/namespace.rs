//! Network namespaces that vanish with the process that created them.
//!
//! A [`Namespace::new`] has no name: an open file keeps it alive, and only this process holds that file. Programs run inside
//! it as children of one [`Spawner`], which asks the kernel to kill them when it dies. So `kill -9` of the creating
//! process ends everything: the children die, the file closes, and the kernel removes the namespace with its links,
//! addresses, routes and rules.
//!
//! ```text
//!   maker ──fd──▶ namespace ◀──setns── child (PR_SET_PDEATHSIG = SIGKILL)
//!     └── Spawner: the one thread that forks; when it ends, its children are killed
//! ```
//!
//! [`become_root`] gives an unprivileged process a user namespace in which it may do all this, if the system permits
//! that.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;

/// A network namespace. It exists while this value or any process inside it exists.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// A new, empty namespace with `lo` only, which is down.
    pub fn new() -> io::Result<Self> {
        let made = thread::scope(|scope| {
            scope
                .spawn(|| {
                    unshare(libc::CLONE_NEWNET)?;
                    Self::of_this_thread()
                })
                .join()
        });
        made.unwrap_or_else(|_| Err(io::Error::other("the namespace's thread panicked")))
    }

    /// The namespace that `ip netns` knows by this name, or that has this absolute path.
    pub fn named(name: &str) -> io::Result<Self> {
        let file = fs::File::open(Path::new("/run/netns").join(name))?;
        Ok(Self { fd: file.into() })
    }

    /// The namespace of the calling thread.
    pub fn of_this_thread() -> io::Result<Self> {
        let file = fs::File::open("/proc/thread-self/ns/net")?;
        Ok(Self { fd: file.into() })
    }

    /// A path through which other programs of the same user can open this namespace while this process lives, for `ip
    /// link set DEVICE netns PATH`.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }

    /// Runs `work` inside, on its own thread. Sockets that it opens stay inside.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let fd = self.fd.as_raw_fd();
        let done = thread::scope(|scope| {
            scope
                .spawn(move || {
                    set_namespace(fd)?;
                    Ok(work())
                })
                .join()
        });
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The thread that starts programs inside namespaces. The kernel kills them when the thread ends: when this value is
/// dropped, or when the process dies.
#[derive(Debug)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
}

/// A program to start.
struct Job {
    command: Command,
    answer: mpsc::Sender<io::Result<Child>>,
}

impl Spawner {
    /// Starts the thread.
    pub fn new() -> io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("spawner".into())
            .spawn(move || {
                for mut job in inbox {
                    // If the caller no longer waits, this drops the child's handle, not the child.
                    let _ = job.answer.send(job.command.spawn());
                }
            })?;
        Ok(Self { jobs })
    }

    /// Starts `command` inside `namespace`, in its own process group.
    pub fn spawn(&self, namespace: &Namespace, mut command: Command) -> io::Result<Child> {
        // A copy for the child, valid between fork and exec even if the creator closes its own descriptor.
        let fd = namespace.fd.try_clone()?;
        let maker = std::process::id();
        command.process_group(0);
        // SAFETY: between fork and exec the closure makes system calls only (setns, prctl, getppid), which are
        // async-signal-safe; it allocates nothing unless one of them fails.
        unsafe {
            command.pre_exec(move || {
                set_namespace(fd.as_raw_fd())?;
                die_with_parent(maker)
            });
        }
        let (answer, result) = mpsc::channel();
        let gone = || io::Error::other("the spawner's thread has ended");
        let job = Job { command, answer };
        self.jobs.send(job).map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}

/// Reason why this process may not create namespaces.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The system does not permit user namespaces.
    #[error("not root, and this system does not permit user namespaces ({0}); run as root")]
    NotPermitted(io::Error),
    /// The process already has several threads.
    #[error("not root, and a user namespace must be entered before the first thread starts")]
    Threads,
    /// The user could not be mapped.
    #[error("created a user namespace, but cannot map its user ({0}); run as root")]
    Map(io::Error),
}

/// Makes sure that this process may create network namespaces. As root it does nothing; otherwise it enters a user
/// namespace in which it is root. Call it before the first thread starts.
pub fn become_root() -> Result<(), PrivilegeError> {
    // SAFETY: these calls have no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    if user == 0 {
        return Ok(());
    }
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => PrivilegeError::Threads,
        _ => PrivilegeError::NotPermitted(e),
    })?;
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("0 {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("0 {group} 1")))
        .map_err(PrivilegeError::Map)
}

/// Raises the number of files that this process and its children may open to at least `wanted`, if the hard limit
/// permits that. Returns the resulting limit.
pub fn raise_file_limit(wanted: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid rlimit that outlives the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted.min(limit.rlim_max);
        // SAFETY: as above; the kernel only reads it.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    }
    Ok(limit.rlim_cur)
}

/// Sends `signal` to a child.
pub fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    let number = match signal {
        Signal::Hangup => libc::SIGHUP,
        Signal::Terminate => libc::SIGTERM,
        Signal::Kill => libc::SIGKILL,
    };
    // SAFETY: kill only takes numbers; the pid is ours as long as `child` is borrowed.
    check(unsafe { libc::kill(child.id() as libc::pid_t, number) })
}

/// A signal for [`signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Reload the configuration (SIGHUP).
    Hangup,
    /// Stop in an orderly way (SIGTERM).
    Terminate,
    /// Die immediately (SIGKILL).
    Kill,
}

/// For a child between fork and exec: makes the kernel kill it when the thread that forked it ends.
fn die_with_parent(maker: u32) -> io::Result<()> {
    // SAFETY: prctl with these arguments sets a number in this process, nothing else.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: getppid has no arguments and cannot fail.
    if unsafe { libc::getppid() } as u32 != maker {
        // The parent died between fork and prctl: the signal would never come.
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes a number and does not touch our memory.
    check(unsafe { libc::unshare(flags) })
}

fn set_namespace(fd: RawFd) -> io::Result<()> {
    // SAFETY: setns takes numbers; a wrong descriptor is an error, not undefined behaviour.
    check(unsafe { libc::setns(fd, libc::CLONE_NEWNET) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    /// A namespace; prints a message instead if the machine does not permit one.
    fn namespace() -> Option<Namespace> {
        match Namespace::new() {
            Ok(namespace) => Some(namespace),
            Err(error) => {
                eprintln!("skipped: this machine permits no network namespaces ({error})");
                None
            }
        }
    }

    fn interfaces() -> String {
        fs::read_to_string("/proc/thread-self/net/dev").unwrap()
    }

    #[test]
    fn a_new_namespace_holds_the_loopback_only() {
        let Some(namespace) = namespace() else { return };
        let inside = namespace.enter(interfaces).unwrap();
        assert_eq!(inside.lines().count(), 2 + 1, "{inside}");
        assert!(inside.contains("lo:"));
    }

    #[test]
    fn a_child_runs_inside_and_dies_with_the_spawner() {
        let Some(namespace) = namespace() else { return };
        let spawner = Spawner::new().unwrap();
        let mut command = Command::new("cat");
        command.arg("/proc/self/net/dev").stdout(Stdio::piped());
        let output = spawner
            .spawn(&namespace, command)
            .unwrap()
            .wait_with_output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, namespace.enter(interfaces).unwrap());

        let mut command = Command::new("sleep");
        command.arg("60");
        let mut child = spawner.spawn(&namespace, command).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        drop(spawner);
        let started = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(5), "still alive");
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_file_limit_is_never_lowered() {
        let now = raise_file_limit(0).unwrap();
        assert!(raise_file_limit(now).unwrap() >= now);
    }
}
