//! Takes any bytes as packets of SCTP to a listener: from a stranger, and within an association.
//!
//! Checks besides "no panic": the listener's answers are finite.

use std::net::SocketAddr;
use std::time::Instant as WallInstant;

use weir_base::{Instant, Span};
use weir_forces_live::tml::sctp::endpoint::{Endpoint, Settings};
use weir_forces_live::tml::sctp::init::Init;
use weir_forces_live::tml::sctp::library::Epoch;
use weir_forces_live::tml::sctp::packet::{Header, Packet, Writer, kind, seal};

use crate::seeds::parts;

const PORT: u16 = 6704;
const PEER_PORT: u16 = 9;
/// Maximum number of packets with which the listener may answer one packet.
const ANSWERS_MAX: usize = 1000;

/// The target: parts, each with its length in front. The first bit of a part decides whether it is a whole packet, or
/// the chunks of a packet within an association: type, flags, value.
pub(crate) fn target(bytes: &[u8]) {
    let mut listener = Listener::new();
    let tag = listener.associate();
    for part in parts(bytes) {
        let packet = match part {
            [first, rest @ ..] if first & 1 == 0 => {
                let mut packet = rest.to_vec();
                seal(&mut packet);
                packet
            }
            [_, kind, flags, value @ ..] => writer(tag).chunk(*kind, *flags, value).finish(),
            _ => continue,
        };
        listener.take(&packet);
    }
}

struct Listener {
    endpoint: Endpoint,
    peer: SocketAddr,
    now: Instant,
}

impl Listener {
    fn new() -> Self {
        let mut state = 1_u32;
        let settings = Settings {
            epoch: Epoch::new(WallInstant::now()),
            secret: [7; 32],
            random: Box::new(move || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state
            }),
            links_max: 4,
            silence_max: Span::from_secs(8),
        };
        Self {
            endpoint: Endpoint::listen(settings, PORT),
            peer: ([10, 0, 0, 1], PEER_PORT).into(),
            now: Instant::from_nanos(1_000_000_000),
        }
    }

    /// Hands in a packet; returns the first answer.
    fn take(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        self.endpoint.handle_packet(self.now, self.peer, packet);
        self.now += Span::from_millis(10);
        self.endpoint.handle_timeout(self.now);
        let (mut first, mut answers) = (None, 0);
        while let Some((_, answer)) = self.endpoint.poll_packet(self.now) {
            first.get_or_insert(answer);
            answers += 1;
            assert!(answers <= ANSWERS_MAX);
        }
        while self.endpoint.poll_event().is_some() {}
        first
    }

    /// Opens an association; returns the tag of its packets.
    fn associate(&mut self) -> u32 {
        let own = Init {
            tag: 5,
            window: 100_000,
            first_tsn: 1,
            forward_tsn: true,
        };
        let init = writer(0).chunk(kind::INIT, 0, &own.value(None)).finish();
        let answer = self.take(&init).unwrap_or_default();
        let chunk = Packet::parse(&answer)
            .ok()
            .and_then(|packet| packet.chunks().next());
        let Some((theirs, Some(cookie))) = chunk.and_then(|chunk| Init::parse(chunk.value)) else {
            unreachable!("a listener answers an INIT")
        };
        self.take(
            &writer(theirs.tag)
                .chunk(kind::COOKIE_ECHO, 0, cookie)
                .finish(),
        );
        theirs.tag
    }
}

fn writer(tag: u32) -> Writer {
    Writer::new(Header {
        source_port: PEER_PORT,
        destination_port: PORT,
        tag,
    })
}

/// A chunk of each type within an association, and an INIT of a stranger.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let data = [
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[0x10, 15, 0, 6],
        &[0; 20],
    ]
    .concat();
    let sack = [0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 3];
    let chunks: [(u8, u8, &[u8]); 8] = [
        (kind::DATA, 3, &data),
        (kind::DATA, 2, &data),
        (kind::SACK, 0, &sack),
        (kind::HEARTBEAT, 0, &[0, 1, 0, 8, 1, 2, 3, 4]),
        (kind::FORWARD_TSN, 0, &[0, 0, 0, 9, 0, 0, 0, 1]),
        (kind::SHUTDOWN, 0, &[0, 0, 0, 1]),
        (kind::ABORT, 0, &[]),
        (kind::COOKIE_ECHO, 0, &[7; 64]),
    ];
    let part = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
    let within =
        |(kind, flags, value): &(u8, u8, &[u8])| part(&[&[1, *kind, *flags], *value].concat());
    let mut all: Vec<Vec<u8>> = chunks.iter().map(within).collect();
    all.push(all.concat());
    let own = Init {
        tag: 6,
        window: 1000,
        first_tsn: 7,
        forward_tsn: false,
    };
    let init = writer(0).chunk(kind::INIT, 0, &own.value(None)).finish();
    all.push(part(&[&[0], &init[..]].concat()));
    all
}
