//! A router between two hosts, and a numbered stream through it whose every packet is counted.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_benches::testbed::{DISCARD, SOURCE, Testbed, run};
use weir_live::device::Device;
use weir_live::device::af_packet::AfPacket;
use weir_live::namespace::{Namespace, Spawner};

/// Whatever is waited for comes within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Both ports of the router, 50 Mbit/s towards the sink.
pub(crate) const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
[port.wan]
interface = \"r1\"
rate = \"50 Mbit\"
discipline = { kind = \"fifo\", limit = \"1000 packets\" }
";

/// The hosts, whose kernel forwards. They vanish with this value.
pub(crate) struct Bench {
    pub(crate) bed: Testbed,
    spawner: Spawner,
    pub(crate) folder: PathBuf,
}

impl Bench {
    /// None where namespaces are not permitted.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = Namespace::new() {
            println!("skipped: no network namespaces here ({error})");
            return None;
        }
        let bed = Testbed::new().unwrap();
        bed.kernel_forwards(true).unwrap();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-lifecycle-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let spawner = Spawner::new().unwrap();
        Some(Self {
            bed,
            spawner,
            folder,
        })
    }

    /// Writes a configuration; its socket has its name.
    pub(crate) fn configure(&self, name: &str, config: &str) -> PathBuf {
        let path = self.folder.join(format!("{name}.toml"));
        let socket = self.socket(name);
        let text = format!("socket = \"{}\"\n{config}", socket.display());
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sock"))
    }

    /// Starts a router and waits until it answers.
    pub(crate) fn start(&self, name: &str, config: &str) -> Router {
        let mut router = self.spawn(name, config);
        eventually("the router answers", || {
            let ended = router.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", router.log());
            let routes = self.weir(&["show", "routes"], name);
            String::from_utf8_lossy(&routes.stdout).contains("10.77.2.0/24")
        });
        router
    }

    pub(crate) fn spawn(&self, name: &str, config: &str) -> Router {
        self.spawn_with(name, config, &[])
    }

    /// The same, with more variables in its environment.
    pub(crate) fn spawn_with(
        &self,
        name: &str,
        config: &str,
        variables: &[(&str, &str)],
    ) -> Router {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let log = self.folder.join(format!("{name}.log"));
        command
            .envs(variables.iter().copied())
            .arg("router")
            .arg(self.configure(name, config))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let process = self.spawner.spawn(&self.bed.router, command).unwrap();
        Router { process, log }
    }

    /// Runs `weir` against the router of this name.
    pub(crate) fn weir(&self, arguments: &[&str], name: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(arguments)
            .env("WEIR_SOCKET", self.socket(name))
            .output()
            .unwrap()
    }

    pub(crate) fn ask(&self, arguments: &[&str], name: &str) -> String {
        String::from_utf8(self.weir(arguments, name).stdout).unwrap()
    }

    /// Runs `ip` on the router.
    pub(crate) fn ip(&self, arguments: &str) {
        run(&self.bed.router, "ip", arguments).unwrap();
    }

    /// Begins to send.
    pub(crate) fn stream(&self) -> Stream {
        Stream::new(&self.bed, 4000, 1250)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A `weir router`: the process that was started. Killed with this value.
pub(crate) struct Router {
    pub(crate) process: Child,
    pub(crate) log: PathBuf,
}

impl Router {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The process that forwards.
    pub(crate) fn child(&self) -> u32 {
        let own = self.process.id();
        children(own).first().copied().unwrap_or(own)
    }

    pub(crate) fn signal(&self, name: &str) {
        kill(self.process.id(), name);
    }

    /// Waits for its end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the router ends", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let child = self.child();
        let is_alive = self.process.try_wait().unwrap().is_none();
        if is_alive && child != self.process.id() {
            kill(child, "KILL"); // its parent ends then
        } else {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

pub(crate) fn kill(process: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit(") ").next().unwrap_or_default();
        behind_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Numbered datagrams from the source to an address beside the sink, counted on the sink's link by a
/// ring that holds a second of them.
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<u32>,
    receiver: JoinHandle<Vec<Arrival>>,
}

/// A datagram that came.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) number: u32,
    /// When, and when it was sent.
    pub(crate) at: Duration,
    pub(crate) sent: Duration,
}

/// What became of the datagrams.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) sent: u32,
    pub(crate) lost: u32,
    pub(crate) duplicated: u32,
}

impl Stream {
    pub(crate) fn new(bed: &Testbed, per_second: u32, bytes: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let socket = bed.source.enter(|| UdpSocket::bind((SOURCE, 0)).unwrap());
        let socket = socket.unwrap();
        let ring = Testbed::open(&bed.sink, "b0").unwrap();
        let begin = Instant::now();
        let receiver = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || receive(ring, begin, &stop))
        };
        let sender = {
            let stop = Arc::clone(&stop);
            let gap = Duration::from_secs(1) / per_second;
            thread::spawn(move || send(&socket, begin, gap, bytes, &stop))
        };
        thread::sleep(Duration::from_millis(100));
        Self {
            stop,
            sender,
            receiver,
        }
    }

    /// Ends it and gives every arrival too.
    pub(crate) fn arrivals(self) -> (u32, Vec<Arrival>) {
        thread::sleep(Duration::from_millis(100));
        self.stop.store(true, Ordering::Relaxed);
        (self.sender.join().unwrap(), self.receiver.join().unwrap())
    }

    pub(crate) fn end(self) -> Count {
        let (sent, arrivals) = self.arrivals();
        count(sent, &arrivals)
    }
}

pub(crate) fn count(sent: u32, arrivals: &[Arrival]) -> Count {
    let mut times = vec![0_u32; sent as usize];
    for arrival in arrivals {
        times[arrival.number as usize] += 1;
    }
    let with = |found: fn(&u32) -> bool| times.iter().copied().filter(found).count() as u32;
    Count {
        sent,
        lost: with(|times| *times == 0),
        duplicated: with(|times| *times > 1),
    }
}

fn send(socket: &UdpSocket, begin: Instant, gap: Duration, bytes: usize, stop: &AtomicBool) -> u32 {
    let mut payload = vec![0; bytes - 42];
    let mut number = 0_u32;
    let first = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = first + gap * number;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        payload[..4].copy_from_slice(&number.to_be_bytes());
        let now = begin.elapsed().as_nanos() as u64;
        payload[4..12].copy_from_slice(&now.to_be_bytes());
        socket.send_to(&payload, (DISCARD, 9)).unwrap();
        number += 1;
    }
    number
}

fn receive(mut ring: AfPacket, begin: Instant, stop: &AtomicBool) -> Vec<Arrival> {
    const PORT_AT: usize = 14 + 20 + 2;
    const PAYLOAD_AT: usize = 14 + 20 + 8;
    let mut arrivals = Vec::new();
    let mut quiet_since = Instant::now();
    loop {
        let now = begin.elapsed();
        let took = ring.receive(256, &mut |frame| {
            let bytes = frame.bytes;
            if bytes.len() < PAYLOAD_AT + 12 || bytes[PORT_AT..PORT_AT + 2] != [0, 9] {
                return;
            }
            let four = bytes[PAYLOAD_AT..].first_chunk::<4>().unwrap();
            let eight = bytes[PAYLOAD_AT + 4..].first_chunk::<8>().unwrap();
            arrivals.push(Arrival {
                number: u32::from_be_bytes(*four),
                at: now,
                sent: Duration::from_nanos(u64::from_be_bytes(*eight)),
            });
        });
        if took.unwrap() > 0 {
            quiet_since = Instant::now();
        } else if stop.load(Ordering::Relaxed) && quiet_since.elapsed() > Duration::from_millis(500)
        {
            assert_eq!(ring.counters().missed, 0, "the ring that counts was full");
            return arrivals;
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
