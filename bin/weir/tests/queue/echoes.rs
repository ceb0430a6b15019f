//! Numbered datagrams from the source to the sink and back, with every answer counted.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_benches::testbed::{SINK, SOURCE, Testbed};

/// The echo port (RFC 862).
const ECHO: u16 = 7;
/// Time in which an answer comes, unless it is lost.
const ANSWER_TIME_MAX: Duration = Duration::from_millis(500);

/// An exchange of datagrams.
pub(super) struct Echoes {
    begin: Instant,
    stop: Arc<AtomicBool>,
    sender: JoinHandle<Vec<Duration>>,
    receiver: JoinHandle<Vec<u32>>,
    sink: JoinHandle<()>,
}

impl Echoes {
    /// Starts to send a datagram every `gap`.
    pub(super) fn begin(bed: &Testbed, gap: Duration) -> Self {
        let socket = |address, port| {
            let socket = UdpSocket::bind((address, port)).unwrap();
            socket.set_read_timeout(Some(ANSWER_TIME_MAX)).unwrap();
            socket
        };
        let sink = bed.sink.enter(|| socket(SINK, ECHO)).unwrap();
        let source = bed.source.enter(|| socket(SOURCE, 0)).unwrap();
        let (stop, begin) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let stopped = || {
            let stop = Arc::clone(&stop);
            move || stop.load(Ordering::Relaxed)
        };
        let sink = {
            let is_over = stopped();
            thread::spawn(move || {
                let mut bytes = [0; 64];
                loop {
                    match sink.recv_from(&mut bytes) {
                        // An answer that cannot be sent is counted as lost.
                        Ok((len, from)) => drop(sink.send_to(&bytes[..len], from)),
                        Err(_) if is_over() => return,
                        Err(_) => {}
                    }
                }
            })
        };
        let receiver = {
            let (is_over, source) = (stopped(), source.try_clone().unwrap());
            thread::spawn(move || {
                let (mut answers, mut bytes) = (Vec::new(), [0; 64]);
                loop {
                    match source.recv(&mut bytes) {
                        Ok(_) => answers.push(u32::from_be_bytes(*bytes.first_chunk().unwrap())),
                        Err(_) if is_over() => return answers,
                        Err(_) => {}
                    }
                }
            })
        };
        let is_over = stopped();
        let sender = thread::spawn(move || {
            let mut sent = Vec::new();
            while !is_over() {
                thread::sleep(gap);
                sent.push(begin.elapsed());
                let number = (sent.len() as u32 - 1).to_be_bytes();
                let _ = source.send_to(&number, (SINK, ECHO));
            }
            sent
        });
        Self {
            begin,
            stop,
            sender,
            receiver,
            sink,
        }
    }

    /// The time now, as in [`Outcome::lost`].
    pub(super) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Stops, and counts.
    pub(super) fn end(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().unwrap();
        self.sink.join().unwrap();
        let mut times = vec![0; sent.len()];
        for number in self.receiver.join().unwrap() {
            times[number as usize] += 1;
        }
        let of = |found: fn(u32) -> bool| {
            let numbers = times.iter().zip(&sent).filter(|(times, _)| found(**times));
            numbers.map(|(_, at)| *at).collect()
        };
        Outcome {
            lost: of(|times| times == 0),
            doubled: of(|times| times > 1),
            sent,
        }
    }
}

/// The times at which datagrams were sent.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) sent: Vec<Duration>,
    /// Datagrams without an answer.
    pub(super) lost: Vec<Duration>,
    /// Datagrams with several answers.
    pub(super) doubled: Vec<Duration>,
}
