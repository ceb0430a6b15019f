//! Elections at a model of etcd, in virtual time.

use super::*;

const LEASE: Span = Span::from_secs(2);
/// Time after which a lost message counts as lost.
const LOST: Span = Span::from_millis(500);

/// Random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn delay(&mut self) -> Span {
        Span::from_micros(200 + self.below(5000))
    }
}

/// The keys of etcd.
#[derive(Default)]
struct Etcd {
    revision: u64,
    keys: BTreeMap<String, Key>,
    /// Every change, with its revision.
    log: Vec<(u64, String, Option<Key>)>,
}

impl Etcd {
    fn execute(&mut self, request: &Request) -> Answer {
        let (succeeded, keys) = match request {
            Request::Range(prefix) => (true, self.range(prefix)),
            Request::Compact(_) => (true, Vec::new()),
            Request::Txn {
                compares,
                then,
                otherwise,
            } => {
                let holds = |compare: &Compare| {
                    let (Compare::Created(name, _) | Compare::Changed(name, _)) = compare;
                    let key = self.keys.get(name).cloned().unwrap_or_default();
                    match compare {
                        Compare::Created(_, revision) => key.created == *revision,
                        Compare::Changed(_, revision) => key.changed == *revision,
                    }
                };
                let succeeded = compares.iter().all(holds);
                let ops = if succeeded { then } else { otherwise };
                self.revision += u64::from(ops.iter().any(|op| !matches!(op, Op::Range(_))));
                let mut read = Vec::new();
                for op in ops {
                    match op {
                        Op::Put(name, value) => self.put(name, value),
                        Op::Delete(name) => self.delete(name),
                        Op::Range(prefix) => read = self.range(prefix),
                    }
                }
                (succeeded, read)
            }
        };
        Answer {
            succeeded,
            revision: self.revision,
            keys,
        }
    }

    fn range(&self, prefix: &str) -> Vec<Key> {
        self.keys
            .values()
            .filter(|key| key.name.starts_with(prefix))
            .cloned()
            .collect()
    }

    fn put(&mut self, name: &str, value: &str) {
        let before = self.keys.get(name);
        if name == "/t/state/n" {
            let number = |key: &Key| key.value.parse::<u64>().unwrap();
            assert!(
                before.map_or(0, number) < value.parse().unwrap(),
                "an old change came late: {before:?}, {value}, {:?}",
                self.keys
            );
        }
        let key = Key {
            name: name.to_owned(),
            value: value.to_owned(),
            created: before.map_or(self.revision, |key| key.created),
            changed: self.revision,
        };
        self.log
            .push((self.revision, name.to_owned(), Some(key.clone())));
        self.keys.insert(name.to_owned(), key);
    }

    fn delete(&mut self, name: &str) {
        if self.keys.remove(name).is_some() {
            self.log.push((self.revision, name.to_owned(), None));
        }
    }
}

/// A control element.
struct Member {
    election: Option<Election>,
    /// No message passes between it and etcd.
    is_cut: bool,
    /// Until when the process stands still.
    stopped_until: Instant,
    leads_until: Option<Instant>,
    state: BTreeMap<String, String>,
    /// Number of the watch, and the next entry of the log for it.
    watch: Option<(Number, usize)>,
}

enum Message {
    Request(usize, Number, Request, bool),
    Answer(usize, Number, Result<Answer, Failure>),
    Events(usize, Number, Vec<(String, Option<Key>)>),
}

struct World {
    now: Instant,
    dice: Dice,
    /// Whether messages are lost or late.
    is_lossy: bool,
    etcd: Etcd,
    members: Vec<Member>,
    messages: BTreeMap<(Instant, u64), Message>,
    sent: u64,
    /// The last number written, and the last one confirmed.
    written: u64,
    confirmed: u64,
}

impl World {
    fn new(seed: u64, members: usize, is_lossy: bool) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut world = Self {
            now,
            dice: Dice(seed * 2 + 1),
            is_lossy,
            etcd: Etcd::default(),
            members: Vec::new(),
            messages: BTreeMap::new(),
            sent: 0,
            written: 0,
            confirmed: 0,
        };
        for _ in 0..members {
            world.members.push(Member {
                election: None,
                is_cut: false,
                stopped_until: now,
                leads_until: None,
                state: BTreeMap::new(),
                watch: None,
            });
        }
        (0..members).for_each(|at| world.start(at));
        world
    }

    fn start(&mut self, at: usize) {
        self.sent += 1;
        let params = Params {
            process: self.sent,
            name: format!("ce{at}"),
            prefix: "/t/".to_owned(),
            lease: LEASE,
        };
        self.members[at].election = Some(Election::new(self.now, params));
    }

    fn kill(&mut self, at: usize) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.retain(|_, message| match message {
            Message::Answer(to, ..) | Message::Events(to, ..) => *to != at,
            Message::Request(..) => true,
        });
        for message in messages.values_mut() {
            if let Message::Request(from, number, ..) = message
                && *from == at
            {
                *number = u64::MAX; // nobody waits for the answer
            }
        }
        self.messages = messages;
        let member = &mut self.members[at];
        (member.election, member.leads_until, member.watch) = (None, None, None);
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |at: &usize| {
            self.members[*at]
                .leads_until
                .is_some_and(|until| self.now < until)
        };
        (0..self.members.len()).filter(leads).collect()
    }

    fn write(&mut self, at: usize) {
        self.written += 1;
        let (now, number) = (self.now, self.written);
        let entries = vec![("n".to_owned(), Some(number.to_string()))];
        if let Some(election) = &mut self.members[at].election {
            election.write(now, number, entries);
        }
    }

    fn post(&mut self, after: Span, message: Message) {
        self.sent += 1;
        self.messages.insert((self.now + after, self.sent), message);
    }

    /// Runs for this time, in steps of a millisecond.
    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.step();
            self.now += Span::from_millis(1);
            let leaders = self.leaders();
            assert!(leaders.len() <= 1, "two leaders: {leaders:?}");
        }
    }

    fn step(&mut self) {
        while let Some(((at, number), message)) = self.messages.pop_first() {
            if at > self.now {
                self.messages.insert((at, number), message);
                break;
            }
            self.deliver(message);
        }
        for at in 0..self.members.len() {
            if self.members[at].stopped_until <= self.now {
                if let Some(election) = &mut self.members[at].election {
                    election.handle_timeout(self.now);
                }
                self.poll(at);
            }
            self.publish(at);
        }
    }

    fn deliver(&mut self, message: Message) {
        let now = self.now;
        match message {
            Message::Request(at, number, request, is_answered) => {
                let answer = self.etcd.execute(&request);
                if is_answered && !self.members[at].is_cut {
                    let delay = self.dice.delay();
                    self.post(delay, Message::Answer(at, number, Ok(answer)));
                } else {
                    self.post(
                        LOST,
                        Message::Answer(at, number, Err(Failure::Lost("lost".to_owned()))),
                    );
                }
            }
            Message::Answer(at, ..) | Message::Events(at, ..)
                if self.members[at].stopped_until > now =>
            {
                let after = self.members[at].stopped_until.since(now);
                self.post(after, message);
            }
            Message::Answer(at, number, answer) => {
                if let Some(election) = &mut self.members[at].election {
                    election.handle_answer(now, number, answer);
                }
            }
            Message::Events(at, watch, keys) => {
                if let Some(election) = &mut self.members[at].election {
                    election.handle_watch(now, watch, keys);
                }
            }
        }
    }

    fn poll(&mut self, at: usize) {
        while let Some(output) = self.members[at]
            .election
            .as_mut()
            .and_then(Election::poll_output)
        {
            let member = &mut self.members[at];
            match output {
                Output::Request(number, request) => {
                    let fate = if self.is_lossy {
                        self.dice.below(100)
                    } else {
                        100
                    };
                    let delay = self.dice.delay();
                    if member.is_cut || fate == 0 {
                        let lost = Err(Failure::Lost("lost".to_owned()));
                        self.post(LOST, Message::Answer(at, number, lost));
                    } else if fate == 1 {
                        // The request arrives late, after the sender has given up.
                        let late = Span::from_millis(500 + self.dice.below(3000));
                        self.post(late, Message::Request(at, number, request, false));
                        let lost = Err(Failure::Lost("lost".to_owned()));
                        self.post(LOST, Message::Answer(at, number, lost));
                    } else {
                        let is_answered = fate != 2;
                        self.post(delay, Message::Request(at, number, request, is_answered));
                    }
                }
                Output::Watch(number, from) => {
                    let from = if from == 0 {
                        self.etcd.revision + 1
                    } else {
                        from
                    };
                    let next = self
                        .etcd
                        .log
                        .partition_point(|(revision, ..)| *revision < from);
                    member.watch = Some((number, next));
                }
                Output::Leads(until) => member.leads_until = Some(until),
                Output::Follows(_) => member.leads_until = None,
                Output::State(state) => member.state = state,
                Output::Changed(entries) => {
                    for (key, value) in entries {
                        match value {
                            Some(value) => member.state.insert(key, value),
                            None => member.state.remove(&key),
                        };
                    }
                }
                Output::Written(number, Ok(())) => {
                    self.confirmed = self.confirmed.max(number);
                    member.state.insert("n".to_owned(), number.to_string());
                }
                Output::Written(_, Err(_)) | Output::Trouble(_) => {}
            }
        }
    }

    /// Sends new changes to the watch of a member, in order. A member that is cut off gets them later, as with TCP.
    fn publish(&mut self, at: usize) {
        let member = &mut self.members[at];
        let Some((watch, next)) = member.watch.as_mut().filter(|_| !member.is_cut) else {
            return;
        };
        let new = self.etcd.log[*next..]
            .iter()
            .map(|(_, name, key)| (name.clone(), key.clone()));
        let new: Vec<_> = new.collect();
        *next = self.etcd.log.len();
        let watch = *watch;
        if !new.is_empty() {
            self.post(Span::from_millis(2), Message::Events(at, watch, new));
        }
    }

    /// Everybody has what etcd has.
    fn agrees(&self) {
        let state = self.etcd.range("/t/state/").into_iter();
        let state: BTreeMap<_, _> = state
            .map(|key| (key.name["/t/state/".len()..].to_owned(), key.value))
            .collect();
        for (at, member) in self.members.iter().enumerate() {
            assert_eq!(member.state, state, "ce{at}");
        }
        let last = state.get("n").map_or(0, |n| n.parse().unwrap());
        assert!(last >= self.confirmed, "{last} < {}", self.confirmed);
    }
}

#[test]
fn one_leads_and_the_others_have_its_changes() {
    let mut world = World::new(1, 3, false);
    world.run(Span::from_secs(1));
    let [leader] = world.leaders()[..] else {
        panic!("{:?}", world.leaders())
    };
    world.write(leader);
    world.write((leader + 1) % 3); // refused
    world.run(Span::from_secs(1));
    assert_eq!(world.confirmed, 1);
    world.agrees();
}

#[test]
fn the_next_leads_when_a_dead_leader_is_silent_for_a_lease_or_at_once_when_it_leaves() {
    for seed in 1..50 {
        let mut world = World::new(seed, 2, false);
        world.run(Span::from_secs(2));
        let leader = world.leaders()[0];
        let killed = world.now;
        world.kill(leader);
        while world.leaders().is_empty() {
            world.run(Span::from_millis(1));
        }
        let took = world.now.since(killed);
        assert!(took < LEASE + Span::from_millis(100), "{took}");
        world.start(leader);
        world.run(Span::from_secs(1));
        let (now, second) = (world.now, world.leaders()[0]);
        world.members[second].election.as_mut().unwrap().leave(now);
        world.poll(second);
        world.kill(second);
        world.run(Span::from_millis(100));
        assert_eq!(world.leaders(), [leader]);
    }
}

#[test]
fn two_never_lead_and_no_confirmed_change_is_lost() {
    let mut changes_of_leader = 0;
    for seed in 1..15 {
        let mut world = World::new(seed, 3, true);
        let mut before = None;
        for _ in 0..60 {
            let at = world.dice.below(3) as usize;
            match world.dice.below(8) {
                0 => {
                    world.kill(at);
                    world.start(at);
                }
                1 => world.members[at].is_cut = true,
                2 => world.members[at].is_cut = false,
                3 => {
                    // The connection was lost.
                    let (now, member) = (world.now, &mut world.members[at]);
                    member.is_cut = false;
                    if let (Some(election), Some((watch, _))) = (&mut member.election, member.watch)
                    {
                        election.handle_watch_ended(now, watch, "lost");
                    }
                }
                4 => {
                    let long = Span::from_millis(world.dice.below(5000));
                    world.members[at].stopped_until = world.now + long;
                }
                _ => {}
            }
            for _ in 0..10 {
                let leaders = world.leaders();
                let writer = leaders.first().copied().unwrap_or(at);
                world.write(writer);
                world.run(Span::from_millis(40));
                if !leaders.is_empty() && before.replace(leaders[0]) != Some(leaders[0]) {
                    changes_of_leader += 1;
                }
            }
        }
        world
            .members
            .iter_mut()
            .for_each(|member| member.is_cut = false);
        world.run(Span::from_secs(12));
        assert_eq!(world.leaders().len(), 1, "seed {seed}");
        world.agrees();
    }
    assert!(changes_of_leader > 40, "{changes_of_leader}");
}

#[test]
fn a_refused_change_has_its_reason_and_the_next_one_is_made() {
    let mut world = World::new(1, 1, false);
    world.run(Span::from_secs(1));
    let now = world.now;
    let election = world.members[0].election.as_mut().unwrap();
    election.write(now, 7, vec![("a".to_owned(), Some("1".to_owned()))]);
    election.write(now, 8, vec![("a".to_owned(), Some("2".to_owned()))]);
    let Some(Output::Request(number, _)) = election.poll_output() else {
        panic!()
    };
    election.handle_answer(now, number, Err(Failure::Refused("full".to_owned())));
    let refused = Output::Written(7, Err("full".to_owned()));
    assert_eq!(election.poll_output(), Some(refused));
    world.run(Span::from_secs(1));
    assert_eq!(world.etcd.keys["/t/state/a"].value, "2");
}
