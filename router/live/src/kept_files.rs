//! Files that outlive the process: the service manager keeps them and gives them back to the next process (`FDSTORE` of
//! sd_notify(3); `FileDescriptorStoreMax` of the unit). Without a service manager, no file outlives the process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use sd_notify::NotifyState;

/// Asks the service manager to keep a file under a name.
pub fn keep(name: &str, file: &impl AsFd) -> io::Result<()> {
    let state = [NotifyState::FdStore, NotifyState::FdName(name)];
    sd_notify::notify_with_fds(&state, &[file.as_fd()])
}

/// Asks the service manager to close a file.
pub fn forget(name: &str) -> io::Result<()> {
    sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(name)])
}

/// The files that the service manager kept, by name. A second call returns none.
pub fn take() -> io::Result<BTreeMap<String, File>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(BTreeMap::new());
    }
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: the service manager opened these descriptors for this process; only this function, which runs once, makes
    // files of them.
    let open = |(fd, name)| (name, unsafe { File::from_raw_fd(fd) });
    Ok(passed.map(open).collect())
}
