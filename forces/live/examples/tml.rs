//! Speed of the transports of ForCES messages on this machine's loopback interface.
//!
//! ```text
//! cargo run --release -p weir-forces-live --example tml             round trips, messages per second
//! cargo run --release -p weir-forces-live --example tml -- sctp_udp the same, for one transport
//! cargo run --release -p weir-forces-live --example tml -- flood 60 redirects at ten times the channel rate, 60 s each
//! ```
//!
//! FE and CE have a thread each. A round trip is a control message of 100 bytes, and another message back. The three
//! schedules of a flood run at the same time.

#![allow(clippy::unwrap_used)]

#[path = "../tests/tml/mod.rs"]
mod tml;

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use weir_forces_live::tml::{Channel, Link, Schedule, Transport, tml};

use tml::{CASES, Case, control, flood, listen, next, send, settings};

const ROUND_TRIPS: usize = 20_000;
const MESSAGES: u64 = 200_000;
const BYTES: usize = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => CASES.iter().for_each(|case| speed(*case)),
        ["flood", seconds] => floods(Duration::from_secs(seconds.parse().expect("seconds"))),
        [word] => {
            let transport = word.parse::<Transport>().expect("a transport");
            let cases = CASES.iter().filter(|case| case.transport == transport);
            cases.for_each(|case| speed(*case));
        }
        _ => panic!("usage: tml [TRANSPORT | flood SECONDS]"),
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn name(case: Case) -> String {
    let tls = if case.is_pinned { "" } else { " without TLS" };
    format!("{}{tls}", case.transport.word())
}

/// A CE that answers every control message on its own thread, and `run` with the FE's end.
fn with_echo(case: Case, answer: bool, run: impl AsyncFnOnce(&mut Link)) {
    let (local, mut remote) = settings(case);
    let ce = runtime();
    let mut listener = ce.block_on(listen(case, &local, &mut remote));
    let fe = runtime();
    let thread = thread::spawn(move || {
        ce.block_on(async move {
            let mut link = listener.accept().await.unwrap();
            let (mut received, mut first) = (0, true);
            while let Some(message) = link.incoming.recv().await {
                received += 1;
                if answer && !first || !answer && received == MESSAGES + 1 {
                    send(&link, message).await;
                }
                first = false;
            }
        });
    });
    fe.block_on(async {
        let mut link = tml(case.transport).connect(&remote).await.unwrap();
        send(&link, tml::setup(tml::FE)).await;
        run(&mut link).await;
        link.outgoing.close(true);
        while link.incoming.recv().await.is_some() {}
    });
    thread.join().unwrap();
}

fn speed(case: Case) {
    let mut times = Vec::new();
    with_echo(case, true, async |link| {
        for n in 0..ROUND_TRIPS as u64 {
            let start = Instant::now();
            send(link, control(n, BYTES)).await;
            next(link).await.unwrap();
            times.push(start.elapsed());
        }
    });
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_micros();
    let mut rate = 0.0;
    with_echo(case, false, async |link| {
        let start = Instant::now();
        for n in 0..MESSAGES {
            send(link, control(n, BYTES)).await;
        }
        next(link).await.unwrap();
        rate = MESSAGES as f64 / start.elapsed().as_secs_f64();
    });
    println!(
        "{:20} round trip p50 {:5} us, p99 {:5} us; {rate:8.0} messages/s one way",
        name(case),
        at(0.5),
        at(0.99)
    );
}

fn floods(time: Duration) {
    for case in CASES {
        let run = |schedule| move || runtime().block_on(flood::flood(*case, schedule, time));
        let runs = Schedule::ALL.iter();
        let runs = runs.map(|schedule| (schedule.word(), thread::spawn(run(*schedule))));
        let runs: Vec<_> = runs.collect();
        for (word, run) in runs {
            let outcome = run.join().unwrap();
            let seconds = time.as_secs_f64();
            println!(
                "{:20} {word:10} control delivered {:.4}, delay p50 {:?} p99 {:?}; redirects delivered {:.0}/s, dropped {:.0}/s",
                name(*case),
                outcome.share(),
                outcome.delay(0.5),
                outcome.delay(0.99),
                outcome.redirects as f64 / seconds,
                outcome.dropped(Channel::Redirect) as f64 / seconds,
            );
        }
    }
}
