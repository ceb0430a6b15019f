//! The part of a service manager that keeps the TAP devices of a CE for its successor: `FDSTORE` of sd_notify(3),
//! `LISTEN_FDS` of sd_listen_fds(3).

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use weir_live::mutex::lock;

/// Longest message of a program.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Kept files have numbers from this one on, so that the numbers of [`START`] are free.
const NUMBER_MIN: i32 = 500;
/// The thread looks this often whether it must end.
const LOOK: Duration = Duration::from_millis(100);
/// Starts `$0` with the files `$KEPT` from number 3 on.
const START: &str = r#"n=3
for file in $KEPT; do
    eval "exec $n<&$file $file<&-"
    n=$((n + 1))
done
unset KEPT
LISTEN_PID=$$ exec "$0" "$@"
"#;

type Files = BTreeMap<String, OwnedFd>;

/// The files that a program has asked to keep, by name.
#[derive(Debug)]
pub struct Keeper {
    socket: PathBuf,
    files: Arc<Mutex<Files>>,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    /// Keeps files for programs that [`Self::command`] starts; its socket is in this folder.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let keeper = Self {
            socket: folder.join("notify"),
            files: Arc::default(),
            stop: Arc::default(),
        };
        let socket = UnixDatagram::bind(&keeper.socket)?;
        socket.set_read_timeout(Some(LOOK))?;
        let (files, stop) = (Arc::clone(&keeper.files), Arc::clone(&keeper.stop));
        let keep = move || {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(Some((name, file))) = receive(&socket) {
                    lock(&files).insert(name, file);
                }
            }
        };
        thread::Builder::new().name("keeper".into()).spawn(keep)?;
        Ok(keeper)
    }

    /// The socket to which programs send the files (`NOTIFY_SOCKET`).
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The names of the files.
    pub fn names(&self) -> Vec<String> {
        lock(&self.files).keys().cloned().collect()
    }

    /// A command that starts a program, which gets the files and may ask to keep others.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("bash"); // `sh` does not redirect files above 9
        command
            .args(["-c", START])
            .arg(program)
            .env("NOTIFY_SOCKET", &self.socket);
        let files = lock(&self.files);
        if !files.is_empty() {
            let numbers = files.values().map(|file| file.as_raw_fd().to_string());
            let names = files.keys().cloned();
            command
                .env("KEPT", numbers.collect::<Vec<_>>().join(" "))
                .env("LISTEN_FDS", files.len().to_string())
                .env("LISTEN_FDNAMES", names.collect::<Vec<_>>().join(":"));
        }
        command
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The next message: a file to keep with its name, or `None` if it is of another kind. Programs that this process starts
/// inherit the file.
fn receive(socket: &UnixDatagram) -> io::Result<Option<(String, OwnedFd)>> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut text = [0; MESSAGE_BYTES_MAX];
    let mut part = [IoSliceMut::new(&mut text)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut part, &mut control, flags)?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let text = String::from_utf8_lossy(&text[..received.bytes]);
    let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
    let kept = name
        .zip(file)
        .filter(|_| text.lines().any(|line| line == "FDSTORE=1"));
    let Some((name, file)) = kept else {
        return Ok(None);
    };
    let file = fcntl_dupfd_cloexec(file, NUMBER_MIN)?;
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(Some((name.to_owned(), file)))
}
