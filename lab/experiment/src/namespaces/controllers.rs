//! Controllers in the lab: threads of the run. Each has the runner of one controller, and sends requests to the
//! routers' northbound services.
//!
//! ```text
//!   every period:  GET /v1/queues of each router ────▶ channel and runner (the same as in
//!                                                          │               simulation)
//!                  PATCH /v1/config of each router ◀───────┘
//! ```
//!
//! Routers are polled concurrently, each with a deadline. A router that does not answer in time has no sample, and
//! delays the others once (see `weir_controller::runner`). The delay and the losses of the channel are the scenario's;
//! the sockets, the routers and this machine add about a millisecond. A thread ends by itself with the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use weir_base::{Instant, Streams};

use super::control_element;
use super::elements::{Elements, PERIOD_MIN, runtime};
use super::window::RunWindow;
use crate::control::{self, Channel, ControlledQueue, Record};
use crate::error::Error;
use crate::metrics::Measured;
use crate::results::Curve;
use crate::scenario::Scenario;
use crate::topology::Topology;
use crate::transports::Transports;

/// The threads of a scenario's controllers, in the scenario's order.
#[derive(Debug)]
pub(super) struct Controllers(Vec<JoinHandle<Record>>);

impl Controllers {
    /// Starts the threads; `socket` gives the path of a router's service by the router's name.
    pub(super) fn start(
        scenario: &Scenario,
        topology: &Topology,
        socket: &dyn Fn(&str) -> PathBuf,
        window: RunWindow,
        seed: u64,
        transports: Option<&dyn Transports>,
    ) -> Result<Self, Error> {
        let cannot = "cannot start a controller's thread";
        let threads = scenario.controllers.iter().map(|described| {
            let queues = control::queues(topology, scenario, described);
            let period = described.period.max(PERIOD_MIN);
            let streams = Streams::new(seed);
            let channel = Channel::new(described, &queues, period, &streams, transports)?;
            let sockets = sockets(&queues, socket);
            let record = Record::new(period);
            let thread = thread::Builder::new().name(format!("controller-{}", described.name));
            let runtime = runtime().map_err(Error::io(cannot))?;
            let thread = thread.spawn(move || {
                runtime.block_on(async {
                    let elements = Elements::new(sockets, window);
                    drive(channel, elements, window, record).await
                })
            });
            thread.map_err(Error::io(cannot))
        });
        threads.collect::<Result<_, _>>().map(Self)
    }

    /// Starts threads that read the gauges of controllers within a control element from its service.
    pub(super) fn follow(
        scenario: &Scenario,
        socket: &Path,
        window: RunWindow,
    ) -> Result<Self, Error> {
        let threads = control_element::follow(scenario, socket, window).map(Self);
        threads.map_err(Error::io("cannot start a controller's thread"))
    }

    /// Waits for the threads to end, and adds their records; returns the errors.
    pub(super) fn finish(
        self,
        scenario: &Scenario,
        measured: &mut Measured,
        curves: &mut BTreeMap<String, Curve>,
    ) -> Vec<String> {
        let records = self.0.into_iter().map(JoinHandle::join);
        let records: Vec<Record> = records.map(Result::unwrap_or_default).collect();
        control::add(scenario, &records, measured, curves);
        let all = scenario.controllers.iter().zip(&records);
        let trouble = all.flat_map(|(controller, record)| {
            let name = &controller.name;
            let trouble = record.trouble().into_iter();
            trouble.map(move |why| format!("controller {name}: {why}"))
        });
        trouble.collect()
    }
}

/// The sockets of a controller's routers.
fn sockets(
    queues: &[ControlledQueue],
    socket: &dyn Fn(&str) -> PathBuf,
) -> BTreeMap<Arc<str>, PathBuf> {
    let names = queues.iter().map(|queue| &queue.name.element);
    names.map(|name| (Arc::clone(name), socket(name))).collect()
}

/// Carries requests and responses between a channel and its elements, until the end of the run.
async fn drive(
    mut channel: Channel,
    mut elements: Elements,
    window: RunWindow,
    mut record: Record,
) -> Record {
    window.sleep_until(Instant::ZERO).await;
    loop {
        let now = window.now();
        if now >= window.last() {
            return record;
        }
        // Read the answers that have arrived first, so that a delay of this thread does not make them late.
        while let Some((id, response)) = elements.try_answer() {
            channel.handle_response(now, id, response);
        }
        channel.handle_timeout(now);
        while let Some(request) = channel.poll_request(now) {
            if let Err((id, response)) = elements.send(request) {
                channel.handle_response(now, id, response);
            }
        }
        record.take_events(&mut channel);
        tokio::select! {
            (id, response) = elements.answer() => {
                channel.handle_response(window.now(), id, response);
            }
            () = window.sleep_until(channel.poll_timeout().min(window.last())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Mutex;

    use weir_base::Span;
    use weir_live::clock;

    use super::*;
    use crate::scenario::plan::plan;

    /// Three ingress routers and an egress router, whose controller runs for a second.
    const SCENARIO: &str = r#"
title = "four routers"
duration = "1 s"
warm_up = "0 s"
[router.good]
[router.busy]
[router.hung]
[router.egress]
[host.a]
[host.b]
[link.in]
ends = ["a", "good"]
[link.good]
ends = ["good", "egress"]
discipline = { kind = "refill" }
[link.busy]
ends = ["busy", "egress"]
discipline = { kind = "refill" }
[link.hung]
ends = ["hung", "egress"]
discipline = { kind = "refill" }
[link.wan]
ends = ["egress", "b"]
[traffic.t]
kind = "tcp"
from = "a"
to = "b"
[controller.c]
kind = "backpressure"
ingress = ["good", "busy", "hung"]
egress = ["wan"]
"#;

    /// Answers every request: `GET` with the queue of `port`, `PATCH` with `change`. Counts both.
    fn serve(listener: UnixListener, port: &str, change: &str, counts: Arc<Mutex<[u32; 2]>>) {
        let packets = r#"{"packets": 9, "bytes": 900}"#;
        let queues = format!(
            r#"[{{"port": "{port}", "received": {packets}, "sent": {packets}, "backlog": {packets}, "gauges": {{}}}}]"#
        );
        let change = change.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), [&queues, &change], &counts);
            }
        });
    }

    /// Answers on one connection until it ends.
    fn answer(stream: UnixStream, bodies: [&str; 2], counts: &Mutex<[u32; 2]>) {
        let mut stream = BufReader::new(stream);
        loop {
            let (mut head, mut length) = (Vec::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                if let Some(n) = line.strip_prefix("content-length: ") {
                    length = n.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                head.push(line);
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let which = usize::from(head[0].starts_with("PATCH"));
            counts.lock().unwrap()[which] += 1;
            let body = bodies[which];
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.get_mut().write_all((head + body).as_bytes());
        }
    }

    #[test]
    fn a_router_that_never_answers_holds_up_nobody() {
        let (scenario, _) = plan(SCENARIO, &[], &[]).unwrap();
        let topology = Topology::new(&scenario).unwrap();
        let folder = std::env::temp_dir().join(format!("weir-lab-hung-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = |name: &str| folder.join(name);
        // The kernel accepts connections to `hung`, but no process reads them.
        let _hung = UnixListener::bind(socket("hung")).unwrap();
        let yes = r#"{"applied": true, "messages": []}"#;
        let no = r#"{"applied": false, "messages": ["busy"]}"#;
        let routers = [
            ("good", "egress", yes),
            ("busy", "egress", no),
            ("egress", "b", yes),
        ];
        let counts = routers.map(|(name, port, change)| {
            let counts = Arc::new(Mutex::new([0; 2]));
            let listener = UnixListener::bind(socket(name)).unwrap();
            serve(listener, port, change, Arc::clone(&counts));
            counts
        });
        let start = clock::now() + Span::from_millis(20);
        let window = RunWindow {
            start,
            end: start + scenario.duration,
        };
        let controllers = Controllers::start(&scenario, &topology, &socket, window, 1, None);
        let controllers = controllers.unwrap();
        let (mut measured, mut curves) = (Measured::default(), BTreeMap::new());
        let trouble = controllers.finish(&scenario, &mut measured, &mut curves);
        std::fs::remove_dir_all(&folder).unwrap();
        let [good, busy, egress] = counts.map(|counts| *counts.lock().unwrap());
        // At most 25 rounds of 40 ms. The first waits for `hung` until its deadline; later ones begin without its answer,
        // as many as this machine has time for.
        let all = format!("good {good:?}, busy {busy:?}, egress {egress:?}, {trouble:?}");
        let rounds = [good[0], busy[0], busy[1]];
        assert!(rounds.iter().all(|n| (2..=25).contains(n)), "{all}");
        assert_eq!(good[1], 1, "a value in force is not set again: {all}");
        assert!(egress[0] >= 2 && egress[1] == 0, "{all}");
        assert_eq!(
            trouble[0], "controller c: refused request: busy: busy",
            "{all}"
        );
        assert!(
            trouble[1].ends_with("first: hung: no answer in time"),
            "{all}"
        );
        assert_eq!(measured.0["controller.c.silent"], 1.0, "{all}");
        assert_eq!(measured.0["controller.c.virtual_queue"], 27.0, "{all}");
    }
}
