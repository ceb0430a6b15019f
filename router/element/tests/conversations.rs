//! Conversations with the element: inputs and outputs. No threads, no clock.
//!
//! Each file of `conversations/` is one conversation. A line with `>` is an input, and the lines with `<` after it are
//! the resulting outputs of the element; `cargo xtask golden --update` rewrites the outputs.
//!
//! ```text
//! > running PORT=INTERFACE..                  a start that succeeds, whose outputs are not recorded
//! > start PORT=INTERFACE.. [PATH=VALUE..]     a request; `apply` has the same form
//! > set PATH=VALUE                            a request
//! > unset PATH                                a request
//! > stop                                      a request
//! > lost PORT | back PORT=INTERFACE | renamed PORT=INTERFACE OLD | carrier PORT yes|no
//! > done | open PORT.. | moment N | drained yes|no | failed WHY    the end of an effect
//! > facts [INTERFACE missing|tunnel|BYTES].. [rules CHAIN..]       the end of `survey`, or for the next start
//! > kernel [netfilter:CHAIN | rule:RULE | ipsec:POLICY]..         the kernel state that was found
//! > bridges [INTERFACE=BRIDGE]..            for the next `kernel`
//! > after N                                   N milliseconds pass
//! ```

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use weir_base::{Instant, Span};
use weir_element::kernel::kinds;
use weir_element::{
    ActiveState, Completion, Effect, Event, Facts, Finding, Moment, Output, Place, Request,
    RouterCore, Ticket, Unfit,
};
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_model::{Change, ComponentPath, Operation};

/// An element, its simulated time, and the state of its simulated machine.
#[derive(Default)]
struct Talk {
    element: RouterCore,
    now: Instant,
    requests: u64,
    /// Facts for the next start.
    facts: Facts,
    is_surveying: bool,
    /// Bridges for the next `kernel` event.
    bridges: Option<BTreeMap<String, u32>>,
}

#[test]
fn the_element_says_what_was_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations");
    let update = std::env::var("WEIR_GOLDEN_UPDATE").is_ok_and(|update| update == "1");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let recorded = fs::read_to_string(&file).unwrap();
        let said = replay(&recorded);
        if update {
            fs::write(&file, &said).unwrap();
        }
        assert!(
            update || said == recorded,
            "{}: the element now answers differently; `cargo xtask golden --update` records the answers:\n{said}",
            file.display()
        );
    }
}

/// The conversation with the current outputs of the element.
fn replay(recorded: &str) -> String {
    let mut talk = Talk::default();
    let mut said = String::new();
    for line in recorded.lines().filter(|line| !line.starts_with('<')) {
        said += line;
        said += "\n";
        if let Some(input) = line.strip_prefix("> ") {
            talk.say(input);
            for output in talk.hear() {
                said += format!("< {output}").trim_end();
                said += "\n";
            }
        }
    }
    said
}

impl Talk {
    fn say(&mut self, input: &str) {
        let mut words = input.split_whitespace();
        let verb = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let completion = match verb {
            "running" => return self.start(&words),
            "start" => return self.ask(Request::Start(plan(&words), self.facts.clone())),
            "apply" => return self.ask(Request::Apply(plan(&words))),
            "set" => {
                let change = words.join(" ");
                let set = changes(&[&change]).into_iter().map(Operation::Set);
                return self.ask(Request::Change(set.collect()));
            }
            "unset" => {
                let path = ComponentPath::new(words[0].split('.'));
                return self.ask(Request::Change(vec![Operation::Delete(path)]));
            }
            "stop" => return self.ask(Request::Stop),
            "lost" => {
                let port = words[0].to_owned();
                return self.element.handle_event(self.now, Event::Lost { port });
            }
            "back" => {
                let event = Event::Back(place(words[0]));
                return self.element.handle_event(self.now, event);
            }
            "renamed" => {
                let (place, from) = (place(words[0]), words[1].to_owned());
                let event = Event::Renamed { place, from };
                return self.element.handle_event(self.now, event);
            }
            "carrier" => {
                let (port, works) = (words[0].to_owned(), words[1] == "yes");
                let event = Event::Carrier { port, works };
                return self.element.handle_event(self.now, event);
            }
            "kernel" => {
                let findings = words.iter().map(|word| finding(word)).collect();
                let bridges = self.bridges.clone();
                let event = Event::Kernel { findings, bridges };
                return self.element.handle_event(self.now, event);
            }
            "bridges" => {
                let bridge = |word: &&str| {
                    let (interface, bridge) = word.split_once('=').unwrap();
                    (interface.to_owned(), bridge.parse().unwrap())
                };
                self.bridges = Some(words.iter().map(bridge).collect());
                return;
            }
            "after" => {
                self.now += millis(words[0]);
                return self.element.handle_timeout(self.now);
            }
            "facts" => {
                self.facts = facts(&words);
                if std::mem::take(&mut self.is_surveying) {
                    Completion::Facts(self.facts.clone())
                } else {
                    return;
                }
            }
            "done" => Completion::Done,
            "open" => Completion::Open(words.iter().map(|port| (*port).to_owned()).collect()),
            "moment" => Completion::Moment(Moment {
                at: self.now + millis(words[0]),
                unix_nanos: 0,
            }),
            "drained" => Completion::Drained(words[0] == "yes"),
            "failed" => Completion::Failed(words.join(" ")),
            other => panic!("nobody says `{other}` to an element"),
        };
        self.element.handle_completion(self.now, completion);
    }

    fn ask(&mut self, request: Request) {
        self.requests += 1;
        let ticket = Ticket(self.requests);
        self.element.handle_request(self.now, ticket, request);
    }

    /// Starts the element, and completes all effects of the start.
    fn start(&mut self, words: &[&str]) {
        self.ask(Request::Start(plan(words), Facts::default()));
        loop {
            let completion = match self.element.poll_output() {
                Some(Output::Effect(Effect::ListOpen(ports))) => Completion::Open(ports),
                Some(Output::Effect(Effect::Take(..))) => Completion::Moment(Moment {
                    at: self.now,
                    unix_nanos: 0,
                }),
                Some(Output::Effect(_)) => Completion::Done,
                Some(_) => continue,
                None => match self.element.poll_timeout() {
                    Some(at) => {
                        self.now = at;
                        self.element.handle_timeout(self.now);
                        continue;
                    }
                    None => return,
                },
            };
            self.element.handle_completion(self.now, completion);
        }
    }

    /// All outputs of the element.
    fn hear(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(output) = self.element.poll_output() {
            self.is_surveying |= matches!(output, Output::Effect(Effect::Survey { .. }));
            heard.push(shown(&output));
        }
        if let Some(at) = self.element.poll_timeout() {
            let millis = at.since(self.now).as_nanos() / 1_000_000;
            heard.push(format!("(waits {millis} ms)"));
        }
        heard
    }
}

fn millis(text: &str) -> Span {
    Span::from_millis(text.parse().unwrap())
}

fn place(text: &str) -> Place {
    let (port, interface) = text.split_once('=').unwrap();
    Place {
        port: port.to_owned(),
        interface: interface.to_owned(),
    }
}

fn changes(words: &[&str]) -> Vec<Change> {
    let change = |word: &&str| match word.split_once('=') {
        Some((port, interface)) if !port.contains('.') && !ROUTER.contains(&port) => {
            weir_config::assignment(&format!("port.{port}.interface={interface}")).unwrap()
        }
        _ => weir_config::assignment(word).unwrap(),
    };
    words.iter().map(change).collect()
}

/// Components of the router that conversations set; other names without a dot are ports.
const ROUTER: [&str; 4] = ["mode", "bypass_netfilter", "bypass_rules", "kernel_change"];

fn plan(words: &[&str]) -> Plan {
    Plan::check(&changes(words)).unwrap()
}

fn finding(word: &str) -> Finding {
    let (kind, what) = word.split_once(':').unwrap();
    let kind = match kind {
        "netfilter" => &kinds::NETFILTER,
        "rule" => &kinds::POLICY_RULES,
        "ipsec" => &kinds::XFRM,
        other => panic!("no kind `{other}`"),
    };
    Finding::new(kind, what)
}

fn facts(words: &[&str]) -> Facts {
    let mut facts = Facts::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "rules" {
            let chain = |chain: &&str| Finding::new(&kinds::NETFILTER, *chain);
            facts.findings = words.by_ref().map(chain).collect();
            continue;
        }
        let interface = (*word).to_owned();
        match *words.next().unwrap() {
            "missing" => {
                let why = "No such device (os error 19)".to_owned();
                facts.unfit.insert(interface, Unfit::Missing(why));
            }
            "tunnel" => {
                facts.unfit.insert(interface, Unfit::NotEthernet);
            }
            bytes => {
                facts
                    .frame_bytes_max
                    .insert(interface, bytes.parse().unwrap());
            }
        }
    }
    facts
}

fn shown(output: &Output) -> String {
    match output {
        Output::Effect(effect) => shown_effect(effect),
        Output::Answer(Ticket(number), Ok(messages)) => {
            let is_component = |message: &&String| message.starts_with(['+', '-']);
            let components = messages.iter().filter(is_component).count();
            let others = messages.iter().filter(|message| !is_component(message));
            let others: Vec<_> = others.cloned().collect();
            let ports = format!("{components} components come or go; ");
            let ports = if components > 0 { &ports } else { "" };
            format!("answer {number}: good: {ports}{}", others.join("; "))
        }
        Output::Answer(Ticket(number), Err(why)) => {
            let why: Vec<_> = why.iter().map(ToString::to_string).collect();
            format!("answer {number}: refused: {}", why.join("; "))
        }
        Output::Notice(notice) => format!("notice {notice:?}"),
        Output::ActiveState(in_force) => {
            let ActiveState {
                plan,
                taken,
                handed_back,
                ..
            } = &**in_force;
            let taken = taken.iter();
            let taken = taken.map(|(port, interface)| format!("{port}@{interface}"));
            let taken: Vec<_> = taken.collect();
            let kernel = match handed_back.len() {
                0 => "",
                _ => "; the kernel forwards",
            };
            format!(
                "in force: {}; taken: {}{kernel}",
                ports(&plan.ports),
                taken.join(" ")
            )
        }
    }
}

fn ports(ports: &[PortPlan]) -> String {
    let shown = |port: &PortPlan| format!("{}@{}", port.name, port.interface);
    let ports: Vec<_> = ports.iter().map(shown).collect();
    ports.join(" ")
}

fn places(places: &[Place]) -> String {
    let places: Vec<_> = places.iter().map(Place::to_string).collect();
    places.join(" ")
}

fn shown_effect(effect: &Effect) -> String {
    match effect {
        Effect::Survey { plan, all: true } => format!("survey all for {}", ports(&plan.ports)),
        Effect::Survey { plan, all: false } => format!("survey frames for {}", ports(&plan.ports)),
        Effect::Claim(place) => format!("claim {place}"),
        Effect::Open(port, _) => format!("open {}", ports(std::slice::from_ref(port))),
        Effect::ReadTables => "read tables".to_owned(),
        Effect::Launch(plan, limits) => format!(
            "launch {} for {} packets of {} bytes",
            ports(&plan.ports),
            limits.pool,
            limits.frame_bytes_max
        ),
        Effect::ListOpen(names) => format!("which are open: {}", names.join(" ")),
        Effect::Take(taken, _) => format!("take {}", places(taken)),
        Effect::Begin(names, _) => format!("begin {}", names.join(" ")),
        Effect::Settle(settled) => format!("settle {}", places(settled)),
        Effect::GiveBack(left) => format!("give back {}", places(left)),
        Effect::End(names, _) => format!("end {}", names.join(" ")),
        Effect::Close(names) => format!("close {}", names.join(" ")),
        Effect::AskDrained { ports, waiting } => {
            let beside = if *waiting {
                ", and no packet waits"
            } else {
                ""
            };
            format!("have these sent all: {}{beside}", ports.join(" "))
        }
        Effect::Unprotect(place) => format!("unprotect {place}"),
        Effect::Exchange {
            gone,
            added,
            changed,
            redirect,
            layers,
        } => format!(
            "exchange: gone: {}; added: {}; changed: {}{}{}",
            gone.join(" "),
            ports(added),
            ports(changed),
            if redirect.is_some() { "; redirect" } else { "" },
            if layers.is_some() { "; layers" } else { "" },
        ),
        Effect::Release { kept } => format!("release all but {}", kept.join(" ")),
    }
}
