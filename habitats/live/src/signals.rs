//! Signals that come while a program starts.
//!
//! ```text
//!  hold -------------- install handlers -------------- release
//!   a signal of this time waits                          and is handled now
//! ```
//!
//! Without this a signal that comes before its handler is installed ends the program on the spot. What is
//! held is held for the calling thread, for the threads that it starts, and for the programs that it starts:
//! a child is safe from its first instruction on, and releases its signals itself.

use std::io;
use std::mem::MaybeUninit;

use crate::sys;

/// Signals by which a router is controlled.
const HELD: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

/// Lets SIGHUP, SIGINT and SIGTERM wait from now on. To be called before the first thread starts: a signal goes
/// to any thread that does not hold it.
pub fn hold() -> io::Result<()> {
    change(libc::SIG_BLOCK)
}

/// Lets them through, also if they were held when this program was started: its parent was starting too.
pub fn release() -> io::Result<()> {
    change(libc::SIG_UNBLOCK)
}

fn change(how: libc::c_int) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` writes the whole set, so that it is a value for what follows, which only reads it;
    // a null pointer says that the mask before is not wanted.
    let result = unsafe {
        sys::check(libc::sigemptyset(set.as_mut_ptr()))?;
        for signal in HELD {
            sys::check(libc::sigaddset(set.as_mut_ptr(), signal))?;
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The held signals of the calling thread, a bit each.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
    }

    #[test]
    fn signals_wait_for_as_long_as_they_are_held() {
        let held: u64 = HELD.iter().map(|signal| 1 << (signal - 1)).sum();
        assert_eq!(blocked() & held, 0);
        hold().unwrap();
        assert_eq!(blocked() & held, held);
        let of_a_child = std::process::Command::new("grep")
            .args(["SigBlk", "/proc/self/status"])
            .output();
        let of_a_child = String::from_utf8(of_a_child.unwrap().stdout).unwrap();
        let mask = of_a_child.trim().rsplit('\t').next().unwrap();
        assert_eq!(u64::from_str_radix(mask, 16).unwrap() & held, held);
        release().unwrap();
        assert_eq!(blocked() & held, 0);
    }
}
