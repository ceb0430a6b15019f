//! Two hosts and a box between them, on which a router may run, and frames with every stack of tags.
//!
//! The hosts are those of `weir_benches::testbed`.

#![allow(dead_code)] // each test file uses a part

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::{Testbed, run, udp_frame};
use weir_live::device::Device;
use weir_live::device::af_packet::AfPacket;
use weir_live::namespace::{Namespace, Spawner};
use weir_model::report::{BypassReport, PortReport};
use weir_northbound::client;

/// Whatever is waited for comes within this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Two ports, one of them paced.
pub(crate) const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
discipline = { kind = \"fifo\" }
[port.wan]
interface = \"r1\"
rate = \"20 Mbit\"
discipline = { kind = \"fifo\", limit = \"100 packets\" }
";

/// Two hosts and a box between them, on which a router may run.
pub(crate) struct Gateway {
    pub(crate) bed: Testbed,
    spawner: Spawner,
    pub(crate) router: Option<Child>,
    folder: PathBuf,
}

impl Gateway {
    /// The kernel forwards, nothing else runs; none where namespaces are not permitted.
    pub(crate) fn new() -> Option<Self> {
        if let Err(error) = Namespace::new() {
            println!("skipped: no network namespaces here ({error})");
            return None;
        }
        let bed = Testbed::new().unwrap();
        bed.kernel_forwards(true).unwrap();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-kernel-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let spawner = Spawner::new().unwrap();
        Some(Self {
            bed,
            spawner,
            router: None,
            folder,
        })
    }

    pub(crate) fn configure(&self, config: &str) -> PathBuf {
        let path = self.folder.join("weir.toml");
        let socket = self.folder.join("weir.sock");
        fs::write(
            &path,
            format!("socket = \"{}\"\n{config}", socket.display()),
        )
        .unwrap();
        path
    }

    fn spawn(&mut self, config: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let log = fs::File::create(self.folder.join("log")).unwrap();
        command
            .arg("router")
            .arg(self.configure(config))
            .env("WEIR_LOG", "info,weir::router::bypass=debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.router = Some(self.spawner.spawn(&self.bed.router, command).unwrap());
    }

    pub(crate) fn start(&mut self, config: &str) {
        self.spawn(config);
        eventually("the router answers and knows its routes", || {
            self.ask(&["show", "routes"]).contains("10.77.2.0/24")
        });
    }

    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.router.as_mut().unwrap().try_wait().unwrap()
    }

    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(arguments)
            .env("WEIR_SOCKET", self.folder.join("weir.sock"));
        self.bed.router.enter(|| command.output()).unwrap().unwrap()
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let Output { stdout, stderr, .. } = self.weir(arguments);
        String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    pub(crate) fn bypassed(&self) -> Vec<BypassReport> {
        client::get(&self.folder.join("weir.sock"), "/v1/netfilter").unwrap()
    }

    pub(crate) fn wan(&self) -> PortReport {
        let ports: Vec<PortReport> =
            client::get(&self.folder.join("weir.sock"), "/v1/ports").unwrap();
        ports.into_iter().find(|port| port.port == "wan").unwrap()
    }

    /// Loads rules in nft's language into the box.
    pub(crate) fn rules(&self, rules: &str) {
        let path = self.folder.join("rules.nft");
        fs::write(&path, rules).unwrap();
        run(&self.bed.router, "nft", &format!("-f {}", path.display())).unwrap();
    }

    pub(crate) fn ping(&self) -> bool {
        run(&self.bed.source, "ping", "-c 1 -W 1 10.77.2.2").is_ok()
    }

    /// Bytes that the sink's interface has received.
    pub(crate) fn received(&self) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let text = self.bed.sink.enter(read).unwrap();
        let line = text.lines().find_map(|l| l.trim().strip_prefix("b0:"));
        let bytes = line.unwrap().split_whitespace().next().unwrap();
        bytes.parse().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(router) = &mut self.router {
            let _ = router.kill();
            let _ = router.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// A tag's type and VLAN.
pub(crate) type Tag = (u16, u16);

/// Every stack of at most so many tags, of both types, with VLAN 0 and with one that is nobody's.
pub(crate) fn stacks(tags_max: usize) -> Vec<Vec<Tag>> {
    stacks_of(
        &[(0x8100, 0), (0x8100, 5), (0x88a8, 0), (0x88a8, 5)],
        tags_max,
    )
}

/// Every stack of at most so many of these tags.
pub(crate) fn stacks_of(tags: &[Tag], tags_max: usize) -> Vec<Vec<Tag>> {
    let mut stacks = vec![Vec::new()];
    let mut longest = stacks.clone();
    for _ in 0..tags_max {
        let longer = |stack: &Vec<Tag>| -> Vec<Vec<Tag>> {
            let with = |tag: &Tag| [stack.as_slice(), &[*tag]].concat();
            tags.iter().map(with).collect()
        };
        longest = longest.iter().flat_map(longer).collect();
        stacks.extend(longest.iter().cloned());
    }
    stacks
}

/// Sends one frame with each stack of tags to the box, and gives which came to the sink, how often.
pub(crate) fn forwarded(bed: &Testbed, stacks: &[Vec<Tag>]) -> BTreeMap<usize, u32> {
    let mut sender = Testbed::open(&bed.source, "a0").unwrap();
    let mut receiver = Testbed::open(&bed.sink, "b0").unwrap();
    let mut came = BTreeMap::new();
    let mut collect = |receiver: &mut AfPacket| {
        let mut take = |bytes: &[u8]| {
            let is_udp = bytes.get(12..14)? == [8, 0] && *bytes.get(23)? == 17;
            let port = u16::from_be_bytes(*bytes.get(34..)?.first_chunk()?);
            if is_udp && bytes.get(36..38)? == [0, 9] {
                *came.entry(usize::from(port) - 1024).or_insert(0) += 1;
            }
            Some(())
        };
        while receiver.receive(256, &mut |r| _ = take(r.bytes)).unwrap() > 0 {}
    };
    for (n, tags) in stacks.iter().enumerate() {
        let frame = tagged(udp_frame(n as u16, 80), tags);
        while sender.transmit(&[&frame]).unwrap() == 0 {}
        collect(&mut receiver);
    }
    let end = Instant::now() + Duration::from_millis(500);
    while Instant::now() < end {
        collect(&mut receiver);
        thread::sleep(Duration::from_millis(10));
    }
    came
}

/// A frame with these tags put into it.
pub(crate) fn tagged(mut frame: Vec<u8>, tags: &[Tag]) -> Vec<u8> {
    let tags = tags
        .iter()
        .flat_map(|(kind, vlan)| [kind.to_be_bytes(), vlan.to_be_bytes()]);
    frame.splice(12..12, tags.flatten());
    frame
}
