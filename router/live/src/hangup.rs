//! Detects that the reader of a program's output has ended: a pipe has no reader left, or a terminal has hung up.
//!
//! Otherwise, a program notices that at its next line at the earliest, which may never come; and reads from a terminal
//! that has hung up return zero bytes forever.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Blocks until one of these files is a pipe without a reader, or a terminal that has hung up. With other files, or
/// without files, it never returns.
pub fn wait(files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let polled = |fd: &BorrowedFd<'_>| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: 0, // poll always reports errors and hang-ups
        revents: 0,
    };
    let mut polled: Vec<libc::pollfd> = files.iter().map(polled).collect();
    loop {
        // SAFETY: the pointer and the number describe our vector.
        let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if count > 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::{AsFd, FromRawFd};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_pipe_without_a_reader_and_a_terminal_that_has_hung_up_are_noticed() {
        let (mut master, mut slave) = (0, 0);
        let none = std::ptr::null_mut();
        // SAFETY: both numbers are our variables, and null is allowed for unused outputs.
        let opened =
            unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) };
        assert_eq!(opened, 0, "{}", io::Error::last_os_error());
        // SAFETY: the call above has opened both for us.
        let (master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        let (reader, writer) = io::pipe().unwrap();
        let other_end: [Box<dyn Send>; 2] = [Box::new(master), Box::new(reader)];
        let files = [slave, File::from(std::os::fd::OwnedFd::from(writer))];
        for (other_end, file) in other_end.into_iter().zip(files) {
            let (sender, ended) = mpsc::channel();
            thread::spawn(move || sender.send(wait(&[file.as_fd()]).is_ok()));
            assert!(
                ended.recv_timeout(Duration::from_millis(50)).is_err(),
                "too early"
            );
            drop(other_end);
            assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(true));
        }
    }
}
