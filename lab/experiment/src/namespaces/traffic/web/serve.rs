//! The web server: one thread for each connection, HTTP/1.0 and 1.1; it closes after one answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::SockRef;

use super::super::{Line, Timing, report, sink::listen_tcp, sleep_until};

/// Maximum number of concurrent connections; further connections are closed at once.
const CONNECTIONS_MAX: usize = 2048;
/// Maximum bytes of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Maximum bytes of a file.
pub(super) const FILE_BYTES_MAX: u64 = 10_000_000_000;
/// A connection without progress for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(150);
/// Pause after a connection that could not be accepted.
const RETRY: Duration = Duration::from_millis(1);

/// Options of the server.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct Options {
    /// Port to listen on.
    #[arg(long, default_value = "8080")]
    pub port: u16,
    /// Congestion control, by the kernel's name: cubic, reno, bbr.
    #[arg(long, default_value = "cubic")]
    pub congestion: String,
    /// Payload of a segment, in bytes [default: the path's maximum].
    #[arg(long)]
    pub mss: Option<u32>,
    /// The times of the run.
    #[command(flatten)]
    pub timing: Timing,
}

impl Options {
    /// As arguments of `weir traffic`.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![
            "web".to_owned(),
            "serve".to_owned(),
            format!("--port={}", self.port),
            format!("--congestion={}", self.congestion),
        ];
        args.extend(self.mss.map(|mss| format!("--mss={mss}")));
        args.extend(self.timing.to_args());
        args
    }
}

/// Serves to the end of its time.
pub fn run(options: &Options) -> io::Result<()> {
    let run = options.timing.begin();
    let listener = listen_tcp(options.port, 1024)?;
    let socket = SockRef::from(&listener);
    // Connections inherit both options.
    socket.set_tcp_congestion(options.congestion.as_bytes())?;
    if let Some(mss) = options.mss {
        socket.set_tcp_mss(mss)?;
    }
    report(&Line::Ready)?;
    listener.set_nonblocking(false)?;
    thread::spawn(move || {
        let serving = Arc::new(AtomicUsize::new(0));
        loop {
            match listener.accept() {
                Ok((stream, _)) => start(stream, &serving),
                Err(_) => thread::sleep(RETRY), // reset before it was accepted, or out of files
            }
        }
    });
    sleep_until(run.end());
    Ok(())
}

fn start(stream: TcpStream, serving: &Arc<AtomicUsize>) {
    if serving.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
        serving.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let counted = Arc::clone(serving);
    let thread = thread::Builder::new().stack_size(256 << 10).spawn(move || {
        // Ignore a client that leaves: it counts the bytes that it received.
        let _ = answer(stream);
        counted.fetch_sub(1, Ordering::Relaxed);
    });
    if thread.is_err() {
        serving.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(IDLE_MAX))?;
    stream.set_write_timeout(Some(IDLE_MAX))?;
    let head = read_head(&mut stream)?;
    match wanted(&head) {
        Some(bytes) => {
            let headers = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {bytes}\r\nConnection: close\r\n\r\n"
            );
            send_file(&mut stream, headers, bytes)
        }
        None => stream
            .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}

fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = stream.read(&mut buffer)?;
        if n == 0 || head.len() + n > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&buffer[..n]);
    }
    Ok(head)
}

/// The size requested by `GET /bytes/N HTTP/1.x`.
fn wanted(head: &[u8]) -> Option<u64> {
    let head = std::str::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let bytes = path.strip_prefix("/bytes/")?.parse().ok()?;
    let good = method == "GET" && version.starts_with("HTTP/1.") && bytes <= FILE_BYTES_MAX;
    good.then_some(bytes)
}

/// Sends the file; its first bytes are in the same write as the head.
fn send_file(stream: &mut TcpStream, headers: String, bytes: u64) -> io::Result<()> {
    const BLOCK: usize = 64 << 10;
    let mut block = headers.into_bytes();
    let mut left = bytes;
    while !block.is_empty() {
        let more = left.min((BLOCK - block.len().min(BLOCK)) as u64) as usize;
        block.resize(block.len() + more, b'w');
        left -= more as u64;
        stream.write_all(&block)?;
        block.clear();
        let more = left.min(BLOCK as u64) as usize;
        block.resize(more, b'w');
        left -= more as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_it_has_are_served() {
        assert_eq!(wanted(b"GET /bytes/5000 HTTP/1.0\r\n\r\n"), Some(5000));
        assert_eq!(wanted(b"GET /bytes/0 HTTP/1.1\r\nHost: a\r\n\r\n"), Some(0));
        for wrong in [
            "GET / HTTP/1.1\r\n",
            "POST /bytes/1 HTTP/1.1\r\n",
            "GET /bytes/-1 HTTP/1.1\r\n",
            "GET /bytes/99999999999 HTTP/1.1\r\n",
            "GET /bytes/1\r\n",
            "",
        ] {
            assert_eq!(wanted(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
