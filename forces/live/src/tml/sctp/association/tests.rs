use super::super::inbox::{INBOX_MAX, MESSAGE_COST};
use super::super::init::Init;
use super::super::packet;
use super::*;

const PATHS: [(u16, u16); 2] = [(40_000, 6704), (6704, 40_000)];

/// Two ends of an association and the wire between them, in virtual time.
struct Pair {
    now: Instant,
    ends: [Association; 2],
    /// Packets in transit: arrival time and receiving end.
    wire: Vec<(Instant, usize, Vec<u8>)>,
    /// Selects the packets to lose, by sender and packet number.
    loses: fn(usize, u64) -> bool,
    sent: u64,
    got: [Vec<Vec<u8>>; 2],
    reads: [bool; 2],
}

impl Pair {
    fn new(channel: Channel) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let init = |tag, first_tsn| Init {
            tag,
            window: INBOX_MAX as u32,
            first_tsn,
            forward_tsn: true,
        };
        let (a, b) = (init(7, u32::MAX - 3), init(8, 1000));
        let epoch = Epoch::new(std::time::Instant::now());
        let end = |index: usize, ours, theirs| {
            let (local_port, remote_port) = PATHS[index];
            let path = Path {
                remote: "192.0.2.1:0".parse().unwrap(),
                remote_port,
                local_port,
            };
            let replaces = 0;
            let contract = Contract {
                ours,
                theirs,
                replaces,
            };
            Association::new(now, epoch, channel, &path, contract).unwrap()
        };
        Self {
            now,
            ends: [end(0, a, b), end(1, b, a)],
            wire: Vec::new(),
            loses: |_, _| false,
            sent: 0,
            got: [Vec::new(), Vec::new()],
            reads: [true, true],
        }
    }

    /// Runs until `until`; packets take a millisecond.
    fn run(&mut self, until: Instant) {
        loop {
            self.collect();
            let timers = self.ends.iter().filter_map(Association::poll_timeout);
            let next = timers.chain(self.wire.iter().map(|(at, ..)| *at)).min();
            match next {
                Some(next) if next <= until => self.now = next.max(self.now),
                _ => break,
            }
            let (due, later) = std::mem::take(&mut self.wire)
                .into_iter()
                .partition(|(at, ..)| *at <= self.now);
            self.wire = later;
            let due: Vec<_> = due;
            for (_, to, packet) in due {
                let packet = Packet::parse(&packet).unwrap();
                self.ends[to].handle_packet(self.now, &packet);
            }
            for end in &mut self.ends {
                end.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    fn run_for(&mut self, span: Span) {
        self.run(self.now + span);
    }

    fn collect(&mut self) {
        for from in 0..2 {
            while self.reads[from]
                && let Some(message) = self.ends[from].poll_message(self.now)
            {
                self.got[from].push(message);
            }
            while let Some(packet) = self.ends[from].poll_packet(self.now) {
                self.sent += 1;
                if !(self.loses)(from, self.sent) {
                    self.wire
                        .push((self.now + Span::from_millis(1), 1 - from, packet));
                }
            }
        }
    }

    /// Sends from end 0 as credit permits.
    fn send_all(&mut self, messages: &[Vec<u8>], until: Instant) -> usize {
        let mut sent = 0;
        while let Some(message) = messages.get(sent)
            && self.now < until
        {
            if self.ends[0].has_room() {
                assert!(self.ends[0].send(message));
                sent += 1;
            } else {
                self.run_for(Span::from_millis(1));
            }
        }
        sent
    }
}

/// A ForCES message of `len` octets with the correlator `number`.
fn message(kind: u8, priority: u8, number: u64, len: usize) -> Vec<u8> {
    let mut message = vec![0x10, kind];
    message.extend(((len / 4) as u16).to_be_bytes());
    message.extend([0; 8]);
    message.extend(number.to_be_bytes());
    message.extend([priority << 3, 0, 0, 0]);
    message.resize(len, 0xa5);
    message
}

fn config(number: u64, len: usize) -> Vec<u8> {
    message(0x03, 4, number, len)
}

fn lossy(_: usize, packet: u64) -> bool {
    packet.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 < 26 // one in ten
}

#[test]
fn messages_of_all_lengths_arrive_whole_and_in_order() {
    let mut pair = Pair::new(Channel::High);
    let messages: Vec<_> = [24, 28, 1380, 1400, 1404, 1448, 65_536, 262_140, 24]
        .iter()
        .enumerate()
        .map(|(n, len)| config(n as u64, *len))
        .collect();
    let until = pair.now + Span::from_secs(5);
    assert_eq!(pair.send_all(&messages, until), messages.len());
    pair.run_for(Span::from_secs(1));
    assert!(pair.got[1] == messages);
    assert_eq!(pair.ends[1].dropped, Dropped::default());
}

#[test]
fn packets_fit_an_ethernet_frame_and_have_the_identifier_of_the_channel() {
    let mut pair = Pair::new(Channel::High);
    for number in 0..200 {
        assert!(pair.ends[0].send(&config(number, 24 + 4 * number as usize)));
    }
    while let Some(packet) = pair.ends[0].poll_packet(pair.now) {
        assert!(packet.len() <= 1452, "{} octets", packet.len());
        for chunk in Packet::parse(&packet).unwrap().chunks() {
            assert_eq!(chunk.kind, kind::DATA);
            assert_eq!(u32_at(chunk.value, 8), Some(21));
        }
    }
}

#[test]
fn messages_that_are_sent_together_share_packets_and_acknowledgements() {
    let mut pair = Pair::new(Channel::High);
    for number in 0..140 {
        assert!(pair.ends[0].send(&config(number, 100)));
    }
    pair.run_for(Span::from_millis(50));
    assert_eq!(pair.got[1].len(), 140);
    let data = (140 * 116_u64).div_ceil(1400);
    let most = data + data.div_ceil(2) + 4; // acknowledgements, and windows that were not full
    assert!(pair.sent <= most, "{} packets", pair.sent);

    let before = pair.sent;
    assert!(pair.ends[0].send(&config(140, 100)));
    pair.run_for(Span::from_millis(1)); // there
    pair.run_for(Span::from_millis(1)); // and back
    assert_eq!(pair.sent, before + 2, "one alone is acknowledged at once");
    assert!(pair.ends[0].is_flushed());
}

#[test]
fn the_smallest_messages_do_not_outrun_the_gate() {
    let mut pair = Pair::new(Channel::High);
    let messages: Vec<_> = (0..100_000).map(|n| config(n, 24)).collect();
    let until = pair.now + Span::from_secs(60);
    assert_eq!(pair.send_all(&messages, until), messages.len());
    pair.run_for(Span::from_secs(1));
    assert!(pair.got[1] == messages);
    assert_eq!(pair.ends[1].dropped, Dropped::default());
}

#[test]
fn nothing_is_lost_on_the_high_channel_if_one_packet_in_ten_is() {
    let mut pair = Pair::new(Channel::High);
    pair.loses = lossy;
    let messages: Vec<_> = (0..300)
        .map(|n| config(n, 24 + (n as usize * 52) % 9000 / 4 * 4))
        .collect();
    let until = pair.now + Span::from_secs(300);
    assert_eq!(pair.send_all(&messages, until), messages.len());
    pair.run_for(Span::from_secs(30));
    assert_eq!(pair.ends[0].end(), None);
    assert_eq!(pair.ends[1].end(), None);
    assert!(pair.got[1] == messages, "{} of 300", pair.got[1].len());
}

#[test]
fn the_low_channel_gives_old_messages_up_and_goes_on() {
    let mut pair = Pair::new(Channel::Low);
    pair.loses = lossy;
    let redirect = |n| message(0x06, 2, n, 24 + (n as usize * 52) % 9000 / 4 * 4);
    for round in 0..40 {
        for n in 0..20 {
            if pair.ends[0].has_room() {
                pair.ends[0].send(&redirect(round * 20 + n));
            }
        }
        pair.run_for(Span::from_millis(50));
    }
    // The wire is cut for longer than a message lives.
    pair.loses = |_, _| true;
    for n in 800..820 {
        pair.ends[0].send(&redirect(n));
    }
    pair.run_for(Span::from_secs(2));
    pair.loses = |_, _| false;
    pair.run_for(Span::from_secs(3));
    let before = pair.got[1].len();
    let last = redirect(1000);
    assert!(pair.ends[0].send(&last));
    pair.run_for(Span::from_secs(3));
    for end in &pair.ends {
        assert_eq!(end.end(), None);
        assert_eq!(end.dropped, Dropped::default());
    }
    assert!(before > 400, "{before} arrived");
    assert_eq!(pair.got[1].len(), before + 1);
    assert_eq!(pair.got[1].last(), Some(&last));
    let numbers: Vec<_> = pair.got[1].iter().map(|m| m[12..20].to_vec()).collect();
    assert!(numbers.is_sorted());
}

#[test]
fn a_reader_that_does_not_read_stops_the_sender_and_frees_it_again() {
    let mut pair = Pair::new(Channel::High);
    pair.reads[1] = false;
    let messages: Vec<_> = (0..2000).map(|n| config(n, 1000)).collect();
    let until = pair.now + Span::from_secs(4);
    let sent = pair.send_all(&messages, until);
    assert!((500..1000).contains(&sent), "{sent} sent");
    assert_eq!(pair.ends[1].inbox.room(), 0);
    assert!(sent * (1000 + MESSAGE_COST) < INBOX_MAX + 2 * UNACKNOWLEDGED_MAX);
    assert!(!pair.ends[0].has_room());
    pair.reads[1] = true;
    let until = pair.now + Span::from_secs(1);
    assert_eq!(pair.send_all(&messages[sent..], until), 2000 - sent);
    pair.run_for(Span::from_secs(1));
    assert!(pair.got[1] == messages);
}

#[test]
fn an_idle_association_lives_and_a_silent_peer_is_found() {
    let mut pair = Pair::new(Channel::Medium);
    pair.run_for(Span::from_secs(60));
    assert_eq!([pair.ends[0].end(), pair.ends[1].end()], [None, None]);
    pair.loses = |_, _| true;
    pair.run_for(SILENCE_MAX + Span::from_secs(2));
    assert_eq!(pair.ends[0].end(), Some(&End::Silent));
    assert_eq!(pair.ends[1].end(), Some(&End::Silent));
    assert_eq!(pair.ends[0].poll_timeout(), None);
}

#[test]
fn a_close_delivers_what_was_sent_unless_it_is_at_once() {
    let mut pair = Pair::new(Channel::High);
    let last = config(1, 100_000);
    assert!(pair.ends[0].send(&last));
    let now = pair.now;
    pair.ends[0].close(now, true);
    pair.run_for(Span::from_secs(1));
    assert!(pair.got[1] == [last]);
    assert_eq!(pair.ends[0].end(), Some(&End::Closed));
    assert_eq!(pair.ends[1].end(), Some(&End::ByPeer));

    let mut pair = Pair::new(Channel::High);
    pair.run_for(Span::from_millis(10));
    let now = pair.now;
    pair.ends[1].close(now, false);
    pair.run_for(Span::from_millis(10));
    assert_eq!(pair.ends[0].end(), Some(&End::ByPeer));

    let mut pair = Pair::new(Channel::High);
    pair.loses = |_, _| true;
    let now = pair.now;
    pair.ends[0].close(now, true);
    pair.run_for(Span::from_secs(3));
    assert_eq!(pair.ends[0].end(), Some(&End::Closed));
}

#[test]
fn what_is_on_the_wrong_channel_is_dropped_and_counted() {
    let mut pair = Pair::new(Channel::High);
    let strays = [
        message(0x0f, 4, 0, 24),
        message(0x03, 3, 0, 24),
        b"what".to_vec(),
    ];
    for stray in &strays {
        assert!(pair.ends[0].send(stray));
    }
    pair.run_for(Span::from_millis(10));
    let dropped = &pair.ends[1].dropped;
    assert_eq!(
        (dropped.message_kind, dropped.priority, dropped.malformed),
        (1, 1, 0)
    );
    assert!(pair.got[1] == [b"what"], "the reader ends the link");
    pair.got[1].clear();

    // The payload identifier of another channel: the sender believes that it is on the low channel.
    pair.ends[0].channel = Channel::Low;
    assert!(pair.ends[0].send(&config(1, 24)));
    pair.run_for(Span::from_millis(10));
    pair.ends[0].channel = Channel::High;
    assert!(pair.ends[0].send(&config(2, 24)));
    pair.run_for(Span::from_millis(10));
    assert_eq!(pair.ends[1].dropped.ppid, 1);
    assert!(pair.got[1] == [config(2, 24)]);
}

#[test]
fn a_wrong_tag_changes_nothing() {
    let mut pair = Pair::new(Channel::High);
    for (tag, flags) in [(7, 0), (9, 0), (0, 0), (9, 1), (8, 1)] {
        let header = Header {
            source_port: 40_000,
            destination_port: 6704,
            tag,
        };
        let abort = Writer::new(header).chunk(kind::ABORT, flags, &[]).finish();
        pair.ends[1].handle_packet(pair.now, &Packet::parse(&abort).unwrap());
        assert_eq!(pair.ends[1].end(), None, "tag {tag}, flags {flags}");
    }
    assert_eq!(pair.ends[1].dropped.tag, 5);
}

/// A recorded exchange with each packet changed at random and its checksum corrected: nothing panics, and memory stays
/// bounded.
#[test]
fn changed_packets_are_dropped_or_end_the_association() {
    let mut random = 0x1234_5678_9abc_def0_u64;
    let mut draw = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut ends = 0;
    for round in 0..400 {
        let mut pair = Pair::new(Channel::ALL[round % 3]);
        for step in 0..60 {
            for from in 0..2 {
                let len = 24 + (draw() % 1000) as usize * 4;
                let _ = pair.ends[from].send(&config(step, len));
            }
            pair.collect();
            for (_, _, packet) in &mut pair.wire {
                for _ in 0..draw() % 3 {
                    let at = 12 + draw() as usize % (packet.len() - 12).min(40);
                    packet[at] ^= 1 << (draw() % 8);
                }
                packet::seal(packet);
            }
            pair.wire
                .retain(|(_, _, packet)| Packet::parse(packet).is_ok());
            pair.run_for(Span::from_millis(draw() % 200));
            for end in &pair.ends {
                assert!(end.outbox.len() <= 2 * OUTBOX_MAX);
            }
        }
        ends += pair.ends.iter().filter(|end| end.end().is_some()).count();
    }
    assert!(ends > 0, "no change was ever noticed");
}
