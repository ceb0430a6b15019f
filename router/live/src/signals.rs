//! Signals that arrive while a program starts.
//!
//! ```text
//!  hold -------------- install handlers -------------- release
//!   a signal of this time waits                          and is handled now
//! ```
//!
//! Without this, a signal that arrives before its handler is installed kills the program immediately. The signals are
//! blocked for the calling thread and for all threads and programs that it starts: a child is safe from its first
//! instruction on, and unblocks its signals itself.

use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::sys;

/// Signals that control a router.
const HELD: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

/// Blocks SIGHUP, SIGINT and SIGTERM. Call it before the first thread starts: a signal goes to any thread that does not
/// block it.
pub fn hold() -> io::Result<()> {
    change(libc::SIG_BLOCK)
}

/// Unblocks these signals, even if they were blocked when this program started because its parent was starting too.
pub fn release() -> io::Result<()> {
    change(libc::SIG_UNBLOCK)
}

/// A flag that the first SIGINT (Ctrl-C), SIGTERM or SIGHUP sets. A second signal ends the process at once.
pub fn interrupt_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in HELD {
        // The order matters: the second signal must find the flag set by the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

fn change(how: libc::c_int) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` writes the whole set, so it is initialised for the following calls, which only read it; a
    // null pointer makes the kernel not return the previous mask.
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

    /// The blocked signals of the calling thread, one bit each.
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
