//! A router's northbound service, as the lab asks it: HTTP over a Unix socket, on a connection that
//! is kept.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Lines of an answer's head at most.
const HEAD_LINES_MAX: usize = 100;

/// A router's service.
#[derive(Debug)]
pub(super) struct Service {
    socket: PathBuf,
    stream: Option<BufReader<UnixStream>>,
}

impl Service {
    /// The service on `socket`; it is spoken to with the first question.
    pub(super) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            stream: None,
        }
    }

    /// One of its pages.
    pub(super) fn get(&mut self, path: &str) -> io::Result<Value> {
        match self.ask("GET", path, "")? {
            (200, page) => Ok(page),
            (status, said) => Err(wrong(format!("status {status}: {said}"))),
        }
    }

    /// Changes single components: pairs of path and value. The error is what the router said.
    pub(super) fn change(&mut self, changes: &[(String, String)]) -> io::Result<()> {
        let request =
            |(path, value): &(String, String)| serde_json::json!({"path": path, "value": value});
        let body: Value = changes.iter().map(request).collect();
        match self.ask("PATCH", "/v1/config", &body.to_string())? {
            (200, _) => Ok(()),
            (status, said) => Err(wrong(format!("status {status}: {said}"))),
        }
    }

    /// Asks once more on a new connection if the old one has ended. Every question may be asked
    /// twice.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, Value)> {
        if let Some(stream) = self.stream.take()
            && let Ok(answer) = self.exchange(stream, method, path, body)
        {
            return Ok(answer);
        }
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        self.exchange(BufReader::new(stream), method, path, body)
    }

    fn exchange(
        &mut self,
        mut stream: BufReader<UnixStream>,
        method: &str,
        path: &str,
        body: &str,
    ) -> io::Result<(u16, Value)> {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: weir\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let (status, length) = head(&mut stream)?;
        let mut answer = Vec::new();
        let length = length.unwrap_or(ANSWER_BYTES_MAX);
        stream.by_ref().take(length).read_to_end(&mut answer)?;
        if answer.len() as u64 == length {
            self.stream = Some(stream); // it can be asked again
        }
        let text = || Value::from(String::from_utf8_lossy(&answer).into_owned());
        let value = serde_json::from_slice(&answer).unwrap_or_else(|_| text());
        Ok((status, value))
    }
}

/// Status and length of an answer; it ends with the connection if it has no length.
fn head(stream: &mut BufReader<UnixStream>) -> io::Result<(u16, Option<u64>)> {
    let mut line = String::new();
    stream
        .by_ref()
        .take(ANSWER_BYTES_MAX)
        .read_line(&mut line)?;
    let status = line
        .strip_prefix("HTTP/1.")
        .and_then(|l| l.get(2..5)?.parse().ok());
    let status = status.ok_or_else(|| wrong("no HTTP answer".to_owned()))?;
    let mut length = None;
    for _ in 0..HEAD_LINES_MAX {
        line.clear();
        stream
            .by_ref()
            .take(ANSWER_BYTES_MAX)
            .read_line(&mut line)?;
        match line.trim().split_once(':') {
            None => return Ok((status, length)),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().ok().filter(|l| *l <= ANSWER_BYTES_MAX);
            }
            Some(_) => {}
        }
    }
    Err(wrong("an answer without end of its head".to_owned()))
}

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    #[test]
    fn a_connection_is_kept_and_made_again() {
        let path = std::env::temp_dir().join(format!("weir-lab-http-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            // Two answers on the first connection, which ends then; one on the second.
            for answers in [2, 1] {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                for n in 0..answers {
                    let mut line = String::new();
                    while line != "\r\n" {
                        line.clear();
                        stream.read_line(&mut line).unwrap();
                    }
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{n}\n");
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        let mut service = Service::new(&path);
        let got = [(); 3].map(|()| service.get("/v1/x").unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(got, [0, 1, 0]);
        server.join().unwrap();
        assert!(service.get("/v1/x").is_err());
    }
}
