//! Measures routes per second from a control element over a link to a forwarding element and into its kernel, by batch.
//!
//! ```text
//! cargo build --release -p weir-forces --bins --example fib
//! unshare --net target/release/examples/fib target/release/weir-forces 100000 quic tcp_udp sctp
//! ```
//!
//! Run it as root in a separate network namespace, as above: it creates an interface there, and routes. The forwarding
//! element is a process, and this program is the control element. The time is from the first message to the last
//! answer; an answer comes when the kernel has the routes.

#![allow(clippy::unwrap_used)] // an error ends the measurement

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Instant;

use weir_base::Span;
use weir_forces_live::tml::identity::Certificate;
use weir_forces_live::tml::{
    Common, Identity, Link, Local, Pinned, Pins, Security, Sent, Transport,
};
use weir_live::clock;
use weir_protocol::session::Heartbeats;
use weir_protocol::session::batch::Batch;
use weir_protocol::session::ce::{self, Ce, Event, LinkId, Manner};
use weir_protocol::wire::header::{Ack, Execution};
use weir_protocol::wire::message::Config;
use weir_protocol::wire::{Id, OperationKind, PathData};

const FE: Id = Id(2);
const CE: Id = Id(0x4000_0001);
const LINK: LinkId = LinkId(1);
/// Maximum length of a message.
const MESSAGE_BYTES: usize = 60_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [weir, rows, transports @ ..] = &arguments[..] else {
        panic!("usage: fib WEIR ROWS TRANSPORT...");
    };
    let rows: u32 = rows.parse().expect("the number of rows");
    run("ip link set lo up && ip link add fib0 type veth peer name fib1");
    run("ip link set fib0 up && ip link set fib1 up && ip address add 192.0.2.2/24 dev fib0");
    let folder = std::env::temp_dir().join(format!("weir-fib-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["ce", "fe"] {
        let made = Command::new(weir)
            .arg("keys")
            .arg(folder.join(name))
            .status();
        assert!(made.unwrap().success());
    }
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    for word in transports {
        let transport = word.parse::<Transport>().expect("a transport");
        runtime.block_on(measure(weir, &folder, transport, rows));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn run(command: &str) {
    let status = Command::new("sh").args(["-c", command]).status();
    assert!(status.unwrap().success(), "{command}");
}

/// A process, which ends when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // The router ends its own processes, and frees the interface.
        let stop = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = stop.and_then(|_| self.0.wait());
    }
}

fn start(weir: &str, folder: &Path, transport: Transport) -> Process {
    let word = transport.word();
    let config = format!(
        "socket = \"{0}/fe.sock\"\n[fe]\nid = 2\ncertificate = \"fe.crt\"\nkey = \"fe.key\"\n\
         [ce.main]\nid = 1\naddress = \"127.0.0.1:6704\"\ntransport = \"{word}\"\ninsecure = true\n\
         certificate = \"ce.crt\"\n[port.lan]\ninterface = \"fib0\"\n",
        folder.display()
    );
    let file = folder.join("fe.toml");
    std::fs::write(&file, config).unwrap();
    Process(Command::new(weir).arg("fe").arg(file).spawn().unwrap())
}

async fn measure(weir: &str, folder: &Path, transport: Transport, rows: u32) {
    let identity = Identity::read(&folder.join("ce.crt"), &folder.join("ce.key")).unwrap();
    let fe = Certificate::read(&folder.join("fe.crt")).unwrap();
    let pinned = Pinned {
        identity: Arc::new(identity),
        peers: Arc::new(Pins::new([(FE, fe)]).unwrap()),
    };
    let local = Local {
        address: "127.0.0.1:6704".parse().unwrap(),
        redirect_port: None,
        links_max: 4,
        handshakes_max: 4,
        common: Common {
            security: Security {
                pinned: Some(pinned),
                insecure: true, // sctp has no certificates
            },
            ..Common::default()
        },
    };
    let mut listener = transport.tml().listen(&local).await.unwrap();
    let _fe = start(weir, folder, transport);
    let link = listener.accept().await.unwrap();
    let mut control = Control::associate(link).await;
    let hop = PathData::full(vec![1, 1], row(&[1, 1500, 0xc000_0201, 0, 0])).unwrap();
    let mut batch = Batch::new(MESSAGE_BYTES);
    batch.push((12, 1), OperationKind::Set, hop).unwrap();
    for n in 0..rows {
        let octets = row(&[0x0b00_0000 + (n << 6), 26 << 24, 1]);
        let path = PathData::full(vec![1, n], octets).unwrap();
        batch.push((10, 1), OperationKind::Set, path).unwrap();
    }
    let configs = batch.finish().unwrap();
    let (messages, begin) = (configs.len(), Instant::now());
    control.send(configs).await;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{:8} {rows} rows in {messages} messages: {seconds:.2} s, {:.0} routes a second",
        transport.word(),
        f64::from(rows) / seconds
    );
    let count = format!("test $(ip route show proto 119 | wc -l) -eq {rows}");
    run(&count);
    run("ip route flush proto 119");
}

fn row(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A CE with one link.
struct Control {
    ce: Ce,
    link: Link,
}

impl Control {
    async fn associate(link: Link) -> Self {
        let params = ce::Params {
            id: CE,
            assigns: None,
            heartbeats: Heartbeats::default(),
            setup_max: Span::from_secs(20),
            links_max: 4,
            window: 16,
            requests_max: 4096,
            queue_bytes_max: 1 << 20,
        };
        let mut ce = Ce::new(params).unwrap();
        assert!(ce.handle_connected(clock::now(), LINK, link.proved));
        let mut control = Self { ce, link };
        while !matches!(control.next().await, Event::Associated { .. }) {}
        control
    }

    /// Sends changes, and waits for all answers.
    async fn send(&mut self, configs: Vec<Config>) {
        let mut open = configs.len();
        for config in configs {
            let manner = Manner {
                execution: Execution::AllOrNone,
                ack: Ack::Always,
                deadline: clock::now() + Span::from_secs(60),
            };
            self.ce.configure(clock::now(), FE, config, manner).unwrap();
        }
        while open > 0 {
            match self.next().await {
                Event::Response { .. } => open -= 1,
                Event::Unanswered(..) | Event::Close(_) => panic!("the FE does not answer"),
                _ => {}
            }
        }
    }

    /// Sends and receives until there is an event.
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ce.poll_event() {
                return event;
            }
            let has_room = self.link.outgoing.has_room();
            self.ce.handle_writable(LINK, has_room);
            while self.link.outgoing.has_room()
                && let Some(transmit) = self.ce.poll_transmit(clock::now())
            {
                let sent = self.link.outgoing.send(transmit.message);
                assert!(!matches!(sent, Sent::NoRoom(_)), "there was room");
            }
            let has_room = self.link.outgoing.has_room();
            tokio::select! {
                message = self.link.incoming.recv() => {
                    let message = message.expect("the link stays");
                    self.ce.handle_message(clock::now(), LINK, &message);
                }
                () = self.link.outgoing.writable(), if !has_room => {}
            }
        }
    }
}
