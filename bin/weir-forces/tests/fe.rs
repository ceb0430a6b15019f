//! A forwarding element with a small control element: an association over real links, and requests that take effect.
//! Where network namespaces are not permitted, the test prints that and skips.

use std::process::Command;
use std::time::Duration;

use crate::common::{Bench, eventually};
use crate::router::without_objects;
use tokio::time::timeout;
use weir_base::Span;
use weir_forces_live::tml::{Common, Link, Local, Security, Transport, tml};
use weir_live::clock;
use weir_model::Value;
use weir_protocol::schema::Class;
use weir_protocol::session::Heartbeats;
use weir_protocol::session::batch::Batch;
use weir_protocol::session::ce::{self, Ce, Event, LinkId, Manner};
use weir_protocol::value;
use weir_protocol::wire::header::{Ack, Execution};
use weir_protocol::wire::message::{Config, Query, Selects};
use weir_protocol::wire::{
    Body, Content, Id, LfbSelect, Operation, OperationKind, PathData, Selector,
};

const CONFIG: &str = "\
[port.lan]
interface = \"r0\"
[port.wan]
interface = \"r1\"
rate = \"10 Mbit\"
[fe]
id = 2
cefti = \"0 s\"
[ce.main]
id = 1
transport = \"tcp_udp\"
insecure = true
address = \"127.0.0.1:6704\"
";
const FE: Id = Id(2);
const CE: Id = Id(0x4000_0001);
const LINK: LinkId = LinkId(1);
const LONG: Duration = Duration::from_secs(30);

/// A CE with one link.
struct Control {
    ce: Ce,
    link: Link,
}

impl Control {
    /// Waits for an FE to associate.
    async fn accept() -> Self {
        let local = Local {
            address: "127.0.0.1:6704".parse().unwrap(),
            redirect_port: None,
            links_max: 4,
            handshakes_max: 4,
            common: Common {
                security: Security {
                    pinned: None,
                    insecure: true,
                },
                ..Common::default()
            },
        };
        let mut listener = tml(Transport::TcpUdp).listen(&local).await.unwrap();
        let link = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        let params = ce::Params {
            id: CE,
            assigns: None,
            heartbeats: Heartbeats::default(),
            setup_max: Span::from_secs(20),
            links_max: 4,
            window: 8,
            requests_max: 64,
            queue_bytes_max: 1 << 20,
        };
        let mut ce = Ce::new(params).unwrap();
        assert!(ce.handle_connected(clock::now(), LINK, link.proved));
        let mut control = Self { ce, link };
        let is_associated =
            |event: &Event| matches!(event, Event::Associated { fe, .. } if *fe == FE);
        control.wait_for(is_associated).await;
        control
    }

    /// Sends and receives until such an event occurs.
    async fn wait_for(&mut self, is_it: impl Fn(&Event) -> bool) -> Event {
        let wait = async {
            loop {
                while let Some(transmit) = self.ce.poll_transmit(clock::now()) {
                    self.link.outgoing.send(transmit.message);
                }
                while let Some(event) = self.ce.poll_event() {
                    if is_it(&event) {
                        return event;
                    }
                }
                let message = self.link.incoming.recv().await.expect("the link stays");
                self.ce.handle_message(clock::now(), LINK, &message);
            }
        };
        timeout(LONG, wait).await.expect("the FE answers")
    }

    async fn response(&mut self) -> Body {
        let is_response = |event: &Event| matches!(event, Event::Response { .. });
        match self.wait_for(is_response).await {
            Event::Response { body, .. } => body,
            other => panic!("{other:?}"),
        }
    }

    async fn get(&mut self, class: &Class, instance: u32, words: &[&str]) -> Value {
        let ids = class.way(words).unwrap().ids;
        let path = PathData::bare(ids.clone()).unwrap();
        let query: Query = on(class.id, instance, OperationKind::Get, path);
        let deadline = clock::now() + Span::from_secs(20);
        self.ce.query(clock::now(), FE, query, deadline).unwrap();
        let Body::QueryResponse(response) = self.response().await else {
            panic!("another answer");
        };
        let content = response.selects()[0].operations()[0].paths()[0].content();
        value::decode(&class.component(&ids).unwrap().kind, content).unwrap()
    }

    async fn set(&mut self, class: &Class, instance: u32, words: &[&str], text: &str) {
        let ids = class.way(words).unwrap().ids;
        let kind = class.component(&ids).unwrap().kind.into_owned();
        let content = value::encode(&kind, &value::parse(&kind, text).unwrap()).unwrap();
        let path = PathData::new(ids, None, content).unwrap();
        self.configure(on(class.id, instance, OperationKind::Set, path))
            .await;
    }

    /// The first cause in the answer to a refused Config.
    async fn refused(&mut self, config: Config) -> String {
        let answer = self.change(config).await;
        let paths = answer.iter().flat_map(LfbSelect::operations);
        let mut paths = paths.flat_map(Operation::paths);
        let cause = paths.find_map(|path| match path.content() {
            Content::Outcome(outcome) if !outcome.is_success() => outcome.cause(),
            _ => None,
        });
        cause.expect("it is refused, with a cause")
    }

    async fn configure(&mut self, config: Config) {
        let answer = self.change(config).await;
        for operation in answer.iter().flat_map(LfbSelect::operations) {
            for path in operation.paths() {
                let is_good =
                    matches!(path.content(), Content::Outcome(outcome) if outcome.is_success());
                assert!(is_good, "{path:?}");
            }
        }
    }

    async fn change(&mut self, config: Config) -> Vec<LfbSelect> {
        let manner = Manner {
            execution: Execution::AllOrNone,
            ack: Ack::Always,
            deadline: clock::now() + Span::from_secs(20),
        };
        self.ce.configure(clock::now(), FE, config, manner).unwrap();
        let Body::ConfigResponse(response) = self.response().await else {
            panic!("another answer");
        };
        response.selects().to_vec()
    }
}

fn on<R: weir_protocol::wire::message::Rule>(
    class: u32,
    instance: u32,
    kind: OperationKind,
    path: PathData,
) -> Selects<R> {
    let operation = Operation::on(kind, vec![path]).unwrap();
    Selects::new(vec![
        LfbSelect::new(class, instance, vec![operation]).unwrap(),
    ])
    .unwrap()
}

/// Uses the FE as a CE would, in the network namespace of the router.
async fn steer(bench: &Bench) {
    let class = |name: &str| {
        let class = weir_lfb::class::all().find(|class| class.name == name);
        Class::of(&class.unwrap())
    };
    let (ports, drops) = (class("ports"), class("drops"));
    let mut control = Control::accept().await;
    assert_eq!(control.get(&ports, 2, &["rate"]).await, "10 Mbit".into());
    assert_eq!(control.get(&ports, 1, &["interface"]).await, "r0".into());
    control.set(&ports, 2, &["rate"], "50 Mbit").await;
    assert_eq!(
        control.get(&ports, 2, &["rate_bps"]).await,
        Value::Whole(50_000_000)
    );
    assert_eq!(bench.ports()[1]["rate_bps"], 50_000_000);
    assert!(bench.ping("-c 2 -W 10 10.77.2.2"), "it forwards");
    let state = |state: u8| {
        let path = PathData::full(vec![7], vec![state]).unwrap();
        on(1, 1, OperationKind::Set, path)
    };
    control.configure(state(0)).await; // AdminDisable
    // While the forwarding thread waits for a processor, the kernel may forward.
    eventually("it does not forward", || !bench.ping("-c 2 -W 1 10.77.2.2"));
    let rows = control.get(&drops, 1, &["rows"]).await;
    let reasons: Vec<_> = rows
        .rows()
        .iter()
        .filter_map(|row| row.text("reason"))
        .collect();
    assert!(reasons.contains(&"disabled"), "{reasons:?}");
    control.configure(state(2)).await; // OperEnable
    assert!(bench.ping("-c 2 -W 10 10.77.2.2"), "it forwards again");
    route(&mut control).await;
}

/// Rows of the forwarding table become routes of the kernel, exactly these.
async fn route(control: &mut Control) {
    const ROWS: u32 = 10_000;
    let hop = [
        &2_u32.to_be_bytes()[..],
        &1500_u32.to_be_bytes(),
        &[10, 77, 2, 2],
        &[0; 8],
    ];
    let hop = PathData::full(vec![1, 1], hop.concat()).unwrap();
    control.configure(on(12, 1, OperationKind::Set, hop)).await;
    let mut batch = Batch::new(60_000);
    for row in 0..ROWS {
        batch
            .push((10, 1), OperationKind::Set, prefix(row, 1))
            .unwrap();
    }
    for config in batch.finish().unwrap() {
        control.configure(config).await;
    }
    let routes = || {
        let ip = Command::new("ip")
            .args(["route", "show", "proto", "119"])
            .output();
        let shown = String::from_utf8(ip.unwrap().stdout).unwrap();
        let mut routes: Vec<String> = shown.lines().map(without_objects).collect();
        routes.sort();
        routes
    };
    let line = |row: u32| {
        let [_, a, b, _] = (row << 8).to_be_bytes();
        format!("11.{a}.{b}.0/24 via 10.77.2.2 dev r1 metric 50")
    };
    let mut expected: Vec<String> = (0..ROWS).map(line).collect();
    expected.sort();
    assert!(routes() == expected, "{:?}", routes().first());
    // The kernel refuses a gateway that is on no link: the message changes nothing.
    let nowhere = [
        &2_u32.to_be_bytes()[..],
        &1500_u32.to_be_bytes(),
        &[203, 0, 113, 1],
        &[0; 8],
    ];
    let nowhere = PathData::full(vec![1, 1], nowhere.concat()).unwrap();
    let why = control
        .refused(on(12, 1, OperationKind::Set, nowhere))
        .await;
    assert!(why.contains("11."), "{why}");
    assert!(routes() == expected, "undone");
    let range = Some(Selector::Range {
        first: 100,
        last: ROWS,
    });
    let range = PathData::new(vec![1], range, Content::Empty).unwrap();
    control
        .configure(on(10, 1, OperationKind::Delete, range))
        .await;
    expected = (0..100).map(line).collect();
    expected.sort();
    assert_eq!(routes(), expected);
}

/// The row of 11.x.y.0/24, where x.y is its number.
fn prefix(row: u32, hop: u32) -> PathData {
    let [_, a, b, _] = (row << 8).to_be_bytes();
    let octets = [&[11, a, b, 0, 24, 0, 0, 0][..], &hop.to_be_bytes()];
    PathData::full(vec![1, row], octets.concat()).unwrap()
}

#[test]
fn a_control_element_reads_and_steers_a_forwarding_element() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    bench.ip("link set lo up");
    let refused = bench.ask(&["router", &bench.configure(CONFIG).display().to_string()]);
    assert!(refused.contains("start it with `weir fe"), "{refused}");
    bench.start(CONFIG);
    let steered = bench.bed.router.enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(steer(&bench));
    });
    steered.unwrap();
    assert!(bench.stop("TERM").success());
}
