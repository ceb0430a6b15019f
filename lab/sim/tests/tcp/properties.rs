//! Properties that must hold for every path: with loss, reordering, duplication, marks.

use std::collections::HashMap;

use proptest::prelude::*;
use weir_base::{Instant, Span};
use weir_sim::tcp::{Connection, Options, Segment, Variant};

use super::support::{CLIENT, Fate, Path, SERVER, Sent};

const MSS: u32 = 100;

/// Maximum losses of the same segment, fewer than those that make a connection give up.
const LOSSES_MAX: u32 = 5;

/// Number of steps after which a transfer counts as stuck.
const STEPS_MAX: u32 = 100_000;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        5 => Just(Fate::Pass),
        3 => Just(Fate::Drop),
        1 => Just(Fate::Mark),
        1 => Just(Fate::Twice),
        2 => (1_u64..300).prop_map(|millis| Fate::Late(Span::from_millis(millis))),
    ]
}

/// Applies the fates in turn, one for each segment of either end, and then passes everything.
fn in_turn(fates: Vec<Fate>) -> impl FnMut(&Sent) -> Fate {
    let mut fates = fates.into_iter();
    let mut losses = HashMap::new();
    move |sent| {
        let fate = fates.next().unwrap_or(Fate::Pass);
        let count = losses
            .entry((sent.from, sent.segment.sequence))
            .or_insert(0);
        *count += u32::from(fate == Fate::Drop);
        if fate == Fate::Drop && *count > LOSSES_MAX {
            Fate::Pass
        } else {
            fate
        }
    }
}

fn options() -> impl Strategy<Value = Options> {
    (
        prop_oneof![
            Just(Variant::NewReno),
            Just(Variant::Sack),
            Just(Variant::Cubic)
        ],
        1_u32..12,
        prop_oneof![Just(50_u32), Just(250), 1000_u32..5000, Just(1 << 20)],
        1_u32..4,
        any::<[bool; 2]>(),
    )
        .prop_map(
            |(variant, initial_window, receive_window, ack_every, [ecn, timestamps])| Options {
                variant,
                mss: MSS,
                initial_window,
                receive_window,
                ack_every,
                ecn,
                timestamps,
                ..Options::default()
            },
        )
}

/// The data that has arrived at each end, number by number, and the limit up to which each end may send.
struct Witness {
    arrived: [Vec<bool>; 2],
    in_order: [usize; 2],
    edge: [u64; 2],
    seen: usize,
}

impl Witness {
    /// Records that a segment has arrived at `side`.
    fn note(&mut self, side: usize, segment: &Segment) {
        let range = segment.range();
        self.arrived[side][range.start as usize..range.end as usize].fill(true);
        while self.arrived[side].get(self.in_order[side]) == Some(&true) {
            self.in_order[side] += 1;
        }
        let edge = segment.acknowledgment + u64::from(segment.window);
        self.edge[side] = self.edge[side].max(edge);
    }

    fn check(&mut self, path: &Path, variant: Variant) -> Result<(), TestCaseError> {
        for (side, end) in path.ends.iter().enumerate() {
            // The SYN is not data, nor is the FIN.
            let others = 1 + u64::from(end.peer_closed());
            let expected = (self.in_order[side] as u64).saturating_sub(others);
            prop_assert_eq!(end.delivered(), expected, "end {} delivers", side);
        }
        for sent in &path.log[self.seen..] {
            let (segment, end) = (&sent.segment, &path.ends[sent.from]);
            if segment.length() == 0 || segment.range().start == 0 {
                continue;
            }
            prop_assert!(segment.payload <= MSS);
            prop_assert!(
                segment.range().end <= self.edge[sent.from],
                "beyond the window"
            );
            if !sent.again && segment.payload > 0 {
                // Without SACK, two duplicates permit two more segments (limited transmit).
                let limited = if variant == Variant::NewReno {
                    2 * MSS
                } else {
                    0
                };
                let window = u64::from(end.congestion_window() + limited);
                let fin = 1;
                prop_assert!(end.pipe() <= window + fin, "{} > {window}", end.pipe());
            }
        }
        self.seen = path.log.len();
        Ok(())
    }
}

/// Both ends send `bytes` and close.
fn transfer(options: &Options, bytes: [u64; 2], fates: Vec<Fate>) -> Result<Path, TestCaseError> {
    let mut path = Path::new(options, Span::from_millis(100), in_turn(fates));
    let mut witness = Witness {
        arrived: [CLIENT, SERVER].map(|side| vec![false; bytes[1 - side] as usize + 2]),
        in_order: [0; 2],
        edge: [0; 2],
        seen: 0,
    };
    path.act(CLIENT, Connection::open);
    for side in [CLIENT, SERVER] {
        path.act(side, |end, now, out| {
            end.write(bytes[side], now, out);
            end.close(now, out);
        });
    }
    for _ in 0..STEPS_MAX {
        let Some((side, segment)) = path.step(Instant::FAR_FUTURE) else {
            break;
        };
        if let Some(segment) = segment {
            witness.note(side, &segment);
        }
        witness.check(&path, options.variant)?;
    }
    for (side, end) in path.ends.iter().enumerate() {
        prop_assert!(end.is_closed() && !end.has_failed(), "end {side}: {end:?}");
        prop_assert_eq!(end.delivered(), bytes[1 - side]);
        prop_assert_eq!(end.acknowledged(), bytes[side]);
        prop_assert_eq!((end.flight(), end.pipe(), end.unsent()), (0, 0, 0));
        prop_assert_eq!(end.timeout(), None);
    }
    Ok(path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_transfer_completes(
        options in options(),
        request in 0_u64..12_000,
        answer in prop_oneof![Just(0_u64), 0_u64..6_000],
        fates in prop::collection::vec(fate(), 0..300),
    ) {
        transfer(&options, [request, answer], fates)?;
    }

    #[test]
    fn nothing_is_sent_twice_over_a_perfect_path(
        options in options(),
        bytes in [0_u64..30_000, 0_u64..6_000],
    ) {
        let path = transfer(&options, bytes, Vec::new())?;
        for end in &path.ends {
            prop_assert_eq!(end.statistics().retransmitted, 0);
        }
    }

    #[test]
    fn the_same_input_gives_the_same_run(
        options in options(),
        fates in prop::collection::vec(fate(), 0..100),
    ) {
        let once = transfer(&options, [8000, 3000], fates.clone())?;
        let twice = transfer(&options, [8000, 3000], fates)?;
        prop_assert_eq!(once.now, twice.now);
        prop_assert!(once.log.iter().map(|s| s.segment).eq(twice.log.iter().map(|s| s.segment)));
    }
}
